# SPDX-License-Identifier: Apache-2.0
"""popen(): talking to a command while it runs."""

import signal
import socket
import time

import pytest

import pycordon
from pylib import ceiling, until


def test_streams(box):
    process = box.popen("while read x; do echo got $x; echo err $x >&2; done; exit 4")
    process.write("one\n")
    assert process.stdout.readline() == b"got one\n"
    assert process.stderr.readline() == b"err one\n"
    assert process.poll() is None and process.result is None
    process.stdin.write(b"two\n")
    process.close_stdin()
    assert process.stdout.read() == b"got two\n"
    got = process.wait()
    assert got.returncode == 4 == process.poll() and process.result.exit_code == 4


def test_wait_takes_what_nobody_reads(box):
    process = box.popen("cat; echo err >&2; head -c 3000000 /dev/zero")
    process.write("in")
    process.close_stdin()
    got = process.wait()
    assert got.stdout_bytes.startswith(b"in\0") and got.stderr == "err\n"
    assert got.truncated.stdout and got.total_bytes["stdout"] == 3000002
    assert process.wait().returncode == 0


def test_events(box):
    process = box.popen("echo a; sleep 0.1; echo b >&2; sleep 0.1; echo c")
    assert list(process.events()) == [("stdout", b"a\n"), ("stderr", b"b\n"), ("stdout", b"c\n")]
    assert process.wait().ok
    quiet = box.popen("sleep 30")
    assert quiet.read_available() == []
    with pytest.raises(TimeoutError):
        next(quiet.events(timeout=0.1))
    quiet.close()


def test_read_available(box):
    process = box.popen("echo a; cat")
    assert process.read_available(timeout=ceiling(20)) == [("stdout", b"a\n")]
    process.close()
    assert process.result.kind == "cancelled"


def test_waiting_with_a_timeout(box):
    process = box.popen("sleep 30")
    with pytest.raises(TimeoutError):
        process.wait(0.1)
    process.kill()
    got = process.wait(ceiling(20))
    assert got.kind == "cancelled" and got.returncode == 137


def test_signals(box):
    process = box.popen("trap 'echo usr; exit 7' USR1; echo ready; while :; do sleep 0.05; done")
    assert process.stdout.readline() == b"ready\n"
    process.signal(signal.SIGUSR1)
    assert process.stdout.read() == b"usr\n" and process.wait().exit_code == 7
    process.signal(signal.SIGUSR1)  # over: nothing happens
    polite = box.popen("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    assert polite.stdout.readline() == b"ready\n"
    polite.terminate()
    got = polite.wait()
    assert got.kind == "cancelled" and got.stdout == "bye\n"


def test_kill_ends_twice_forked_children(tmp_path):
    mark = tmp_path / "w" / "mark"
    with pycordon.Sandbox(workdir=tmp_path / "w") as box:
        process = box.popen(
            "(setsid sh -c 'trap \"\" TERM HUP; while sleep 0.02; do echo x >> mark; done' &); wait;"
            " sleep 60"
        )
        until(mark.exists, "it does not begin")
        process.kill()
        process.wait()
        size = mark.stat().st_size
        time.sleep(0.5)
        assert mark.stat().st_size == size


def test_terminal(box):
    with box.popen("stty size; read x; echo \"<$x>\"; stty size", tty=True, rows=30, cols=90) as p:
        assert p.stderr is None and p.stdout.readline() == b"30 90\r\n"
        p.resize(40, 100)
        p.write("hello\n")
        rest = p.stdout.read()
        assert b"<hello>" in rest and b"40 100" in rest


def test_programs_that_cannot_be_started(box):
    process = box.popen(["no-such-program"])
    assert process.wait().returncode == 127 and process.stdout.read() == b""
    with pycordon.Sandbox(allowed_commands=["ls"]) as strict:
        denied = strict.popen(["cat"])
        assert denied.wait().kind == "denied" and list(denied.events()) == []


def test_unread_output_blocks_nobody_for_ever(box):
    with box.popen("yes") as process:
        process.stdout.read(10)
    assert process.result.kind == "cancelled"


def test_close_of_the_sandbox():
    box = pycordon.Sandbox()
    process = box.popen("sleep 60")
    box.close()
    with pytest.raises(pycordon.ClosedError):
        process.wait()


def test_expose():
    box = pycordon.Sandbox()
    if box.run("true").isolation["level"] != "namespaces":
        pytest.skip("published ports need level namespaces")
    endpoint = box.expose(8000)
    assert endpoint.url == f"http://127.0.0.1:{endpoint.port}" and box.expose(8000) == endpoint
    server = box.popen(
        ["python3", "-c", "import socket\ns = socket.create_server(('0.0.0.0', 8000))\n"
         "print('up', flush=True)\nc, _ = s.accept()\nc.sendall(b'hello'); c.close()"]
    )  # fmt: skip
    assert server.stdout.readline() == b"up\n"
    assert [(p.port, p.host_port) for p in server.published] == [(8000, endpoint.port)]
    assert box.run("echo beside").ok  # a second run does not take the port
    with socket.create_connection((endpoint.host, endpoint.port), ceiling(20)) as client:
        assert client.recv(10) == b"hello"
    assert server.wait().published[0].host_port == endpoint.port
    box.close()


def test_streaming_a_command(box):
    assert list(box.stream("echo a; sleep 0.1; echo b >&2")) == [("stdout", b"a\n"), ("stderr", b"b\n")]
    began = time.monotonic()
    for event in box.stream("echo a; sleep 60"):
        assert event == ("stdout", b"a\n")
        break  # ends the command
    assert time.monotonic() - began < ceiling(20)
    assert list(box.stream(["no-such-program"])) == []
