# SPDX-License-Identifier: Apache-2.0
"""Runs: what goes in, what comes out, how they end."""

import errno
import os
import re
import select
import signal
import socket

import pytest
from extlib import ENV, PATIENCE, finish, policy, receipt, sh, start, until

from pycordon import _cordon


@pytest.fixture(scope="module")
def launcher():
    return _cordon.Launcher()


def test_version():
    assert _cordon.version() == _cordon.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", _cordon.version())


def test_exit_code_and_output(launcher):
    got = sh(launcher, "echo out; echo err >&2; exit 3")
    assert (got["kind"], got["exit_code"], got["status"], got["signal"]) == ("exited", 3, 3, None)
    assert (got["stdout"], got["stderr"]) == (b"out\n", b"err\n")


def test_ended_by_a_signal(launcher):
    got = sh(launcher, "kill -9 $$")
    assert (got["kind"], got["signal"], got["exit_code"]) == ("signaled", 9, None)
    assert got["status"] == 137


def test_result_equals_the_receipt(launcher):
    run = start(launcher, ["/bin/sh", "-c", "printf 'a\\377b'; cat /etc/shadow; exit 2"])
    got = finish(run)
    want = receipt(run)
    assert got["stdout"] == b"a\xffb"
    for stream in ("stdout", "stderr"):
        got[stream] = got[stream].decode("utf-8", "surrogateescape")
    assert set(got) - set(want) == {"status", "write_errno"}
    assert {key: got[key] for key in want} == want


@pytest.mark.parametrize("limits", [{"limits_wall": "100ms"}, {"limits_output": "10B"}])
def test_result_equals_the_receipt_at_limits(launcher, limits):
    run = start(launcher, ["/bin/sh", "-c", "echo 0123456789abc; sleep 1"], policy(**limits))
    got, want = finish(run), receipt(run)
    for key in set(want) - {"stdout", "stderr"}:
        assert got[key] == want[key]


def test_result_tells_which_files_are_lost(launcher, tmp_path):
    write = ["/bin/sh", "-c", "cd; echo 1 >$(printf 'a\\377b'); echo 2 >results.csv"]
    run = start(launcher, write)
    got = finish(run)["lost_files"]
    assert got == receipt(run)["lost_files"] and (got["home"], got["tmp"]) == (2, 0)
    assert got["example"] in ("a\udcffb", "results.csv") and got["place"] == "home"
    assert finish(start(launcher, write, private_dir=str(tmp_path / "kept")))["lost_files"] is None


def test_the_program_of_a_run_is_not_lost(launcher, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    for path in (tmp_path, code):
        path.chmod(0o755)
    (code / "main.py").write_text("print(1)")
    got = finish(start(launcher, ["/bin/true"], code_dir=str(code)))
    assert (got["exit_code"], got["lost_files"]) == (0, None)


def test_result_tells_what_was_refused(launcher):
    fill = "head -c 3000000 /dev/zero >/tmp/big; true"
    run = start(launcher, ["/bin/sh", "-c", fill], policy(limits_disk="1MiB"))
    got, want = finish(run), receipt(run)
    assert got["denials"] and got["denials"] == want["denials"]
    assert set(got["denials"][0]) == {"what", "target", "rule", "fix", "how"}


def test_a_command_that_is_not_there(launcher):
    with pytest.raises(_cordon.Error) as caught:
        start(launcher, ["/nonexistent/program"])
    assert caught.value.name == "not_found"
    assert caught.value.code == 4
    assert "/nonexistent/program" in caught.value.message
    assert caught.value.args == (caught.value.message,)


def test_time_limit_of_the_policy(launcher):
    got = sh(launcher, "sleep 1000", policy(limits_wall="200ms"))
    assert (got["kind"], got["status"]) == ("timeout", 124)


def test_time_limit_without_one_in_the_policy(launcher):
    assert sh(launcher, "sleep 1000", wall_ms=200)["kind"] == "timeout"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_stdin_data(launcher, kind):
    data = os.urandom(300_000)  # more than a pipe holds
    assert sh(launcher, "cat", stdin=kind(data))["stdout"] == data


def test_stdin_data_is_kept(launcher):
    """The caller's reference goes, and a bytearray changes, while the command has read nothing."""
    data = bytearray(b"x" * 200_000)
    run = start(launcher, ["/bin/sh", "-c", "read go </dev/null; sleep 0.2; cat"], stdin=data)
    data[:] = b"y" * len(data)
    assert finish(run)["stdout"] == b"x" * 200_000
    run = start(launcher, ["/bin/sh", "-c", "sleep 0.2; cat"], stdin=b"z" * 200_000 + os.urandom(1))
    junk = [b"w" * 200_001 for _ in range(50)]
    assert finish(run)["stdout"][:200_000] == b"z" * 200_000
    del junk


def test_stdin_none_is_at_its_end(launcher):
    assert sh(launcher, "cat; echo end")["stdout"] == b"end\n"


def test_streams_to_descriptors(launcher, tmp_path):
    (tmp_path / "in").write_bytes(b"typed\n")
    with open(tmp_path / "in", "rb") as i, open(tmp_path / "o", "wb") as o:
        got = sh(launcher, "cat; echo err >&2", stdin=i.fileno(), stdout=o.fileno())
    assert (tmp_path / "o").read_bytes() == b"typed\n"
    assert (got["stdout"], got["stderr"]) == (None, b"err\n")
    assert got["write_errno"] == {"stdout": 0, "stderr": 0}
    assert got["output_bytes"] == {"stdout": 6, "stderr": 4}


def test_a_descriptor_may_be_closed_after_start(launcher):
    r, w = os.pipe()
    run = start(launcher, ["/bin/sh", "-c", "sleep 0.1; echo late"], stdout=w)
    os.close(w)
    finish(run)
    run.close()
    with open(r, "rb") as pipe:
        assert pipe.read() == b"late\n"


def test_a_full_disk_is_told(launcher):
    with open("/dev/full", "wb") as full:
        got = sh(launcher, "echo lost", stdout=full.fileno())
    assert got["write_errno"] == {"stdout": errno.ENOSPC, "stderr": 0}


def test_joined_and_thrown_away(launcher):
    got = sh(launcher, "echo 1; echo 2 >&2; echo 3", stderr="join")
    assert (got["stdout"], got["stderr"]) == (b"1\n2\n3\n", None)
    got = sh(launcher, "echo 12345; echo 2 >&2", stdout="null", stderr="null")
    assert (got["stdout"], got["stderr"]) == (None, None)
    assert got["output_bytes"] == {"stdout": 6, "stderr": 2}


def test_words_are_bytes(launcher):
    odd = os.fsdecode(b"\xff\xfe caf\xc3\xa9")
    argv = ["/bin/sh", "-c", 'printf "%s|%s|%s" "$1" "$2" "$VAR"', "sh", odd, b"\xfd"]
    env = {**ENV, "VAR": odd}
    got = finish(start(launcher, argv, policy(env_pass="VAR"), env=env))
    assert got["stdout"] == b"\xff\xfe caf\xc3\xa9|\xfd|\xff\xfe caf\xc3\xa9"


def test_paths_are_path_like(launcher, tmp_path):
    made = policy(fs_read=str(tmp_path))
    got = finish(start(launcher, ["pwd"], made, cwd=tmp_path, search_path=b"/usr/bin:/bin"))
    assert got["stdout"].decode().strip() == str(tmp_path)


def test_no_environment_unless_given(launcher, monkeypatch):
    monkeypatch.setenv("LANG", "canary")
    got = finish(_cordon.Launcher().start(_cordon.Policy(), ["/usr/bin/env"]))
    assert b"canary" not in got["stdout"]


def test_poll_and_process(launcher):
    run = start(launcher, ["/bin/sh", "-c", "echo 1; sleep 0.1; echo 2"])
    assert not run.done
    with pytest.raises(_cordon.Error) as caught:
        run.result()
    assert caught.value.name == "state"
    poll = select.poll()
    poll.register(run.fileno(), select.POLLIN)
    while not run.process():
        assert poll.poll(PATIENCE * 1000), "nothing happens any more"
    assert run.done and run.process() and run.wait(0)
    assert run.result()["stdout"] == b"1\n2\n"


def test_wait_has_a_time_limit(launcher):
    run = start(launcher, ["/bin/sleep", "1000"])
    assert run.wait(0) is False
    assert run.wait(0.05) is False
    assert run.wait(-1) is False
    run.cancel()
    assert finish(run)["kind"] == "cancelled"
    assert run.wait(float("inf")) is True


def test_orders(launcher):
    run = start(launcher, ["/bin/sh", "-c", "trap 'echo caught; exit 5' USR1; echo; while :; do sleep 0.05; done"])
    until(lambda: not run.process() and select.select([run], [], [], 0.2)[0] is not None, "")
    run.signal(signal.SIGUSR1)
    got = finish(run)
    # Before the trap is there, the signal ends the shell: both are what was asked for.
    assert got["exit_code"] == 5 or got["signal"] == signal.SIGUSR1
    run = start(launcher, ["/bin/sleep", "1000"])
    run.end(signal.SIGINT)
    assert finish(run)["kind"] == "cancelled"
    run.cancel()
    run.signal(signal.SIGTERM)  # nothing happens once it is over
    run.end()
    assert run.result()["kind"] == "cancelled"


def test_terminal(launcher):
    run = start(launcher, ["/bin/sh", "-c", "test -t 0 && stty size && stty size </dev/tty"],
                terminal=True, rows=33, cols=77)  # fmt: skip
    got = finish(run)
    assert got["stdout"].split() == [b"33", b"77", b"33", b"77"]
    run = start(launcher, ["/bin/sh", "-c", "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done"],
                terminal=True, stdout=(pipe := os.pipe())[1])  # fmt: skip
    with open(pipe[0], "rb", buffering=0) as out:
        seen = b""
        while b"ready" not in seen:
            run.process()
            if select.select([out, run], [], [], PATIENCE)[0].count(out):
                seen += out.read(100)
        run.resize(50, 132)
        finish(run)
        run.close()
        os.close(pipe[1])
        assert out.read().split()[-2:] == [b"50", b"132"]
    with pytest.raises(_cordon.Error):
        start(launcher, ["/bin/true"]).resize(1, 1)


def test_orphans_that_go_on(launcher):
    r, w = os.pipe()
    run = start(launcher, ["/bin/sh", "-c", "(sleep 0.3; echo later) & echo now"], stdout=w, keep_orphans=True)
    os.close(w)
    with open(r, "rb", buffering=0) as pipe:
        got = finish(run)
        assert got["kind"] == "exited"
        assert pipe.read(4) == b"now\n"
        seen = b""
        while seen != b"later\n":
            run.process()
            assert select.select([pipe, run], [], [], PATIENCE)[0]
            if select.select([pipe], [], [], 0)[0]:
                seen += pipe.read(100)
        run.close()
        assert pipe.read() == b""  # no process holds the other end any more


def test_closing_ends_the_tree(launcher):
    r, w = os.pipe()
    run = start(launcher, ["/bin/sleep", "1000"], stdout=w)
    os.close(w)
    run.close()
    run.close()
    with open(r, "rb") as pipe:
        assert pipe.read() == b""
    for call in (run.result, run.wait, run.process, run.fileno, run.cancel, run.notes):
        with pytest.raises(_cordon.Error, match="closed") as caught:
            call()
        assert caught.value.name == "state"


def test_the_end_of_the_object_ends_the_tree(launcher):
    r, w = os.pipe()
    run = start(launcher, ["/bin/sleep", "1000"], stdout=w)
    os.close(w)
    del run
    with open(r, "rb") as pipe:
        assert pipe.read() == b""


def test_a_run_keeps_its_launcher():
    run = start(_cordon.Launcher(), ["/bin/echo", "1"])
    assert finish(run)["stdout"] == b"1\n"


def test_published(launcher):
    made = policy(net_publish="127.0.0.1:0:8080/tcp")
    code = "import socket; s = socket.create_server(('0.0.0.0', 8080)); c, _ = s.accept(); c.sendall(b'hello'); c.close()"
    run = start(launcher, ["/usr/bin/python3", "-c", code], made)
    ((address, protocol, host_port, port),) = run.published()
    assert (address, protocol, port) == ("127.0.0.1", "tcp", 8080)
    said = b""
    while not said:
        run.process()
        try:
            with socket.create_connection((address, host_port), 5) as c:
                said = c.recv(10)
        except ConnectionError:
            pass
    assert said == b"hello"
    got = finish(run)
    assert got["published"] == receipt(run)["published"]
    assert got["published"][0]["host_port"] == host_port
    assert isinstance(run.notes(), list)


def test_plan_and_check(launcher):
    import json

    plan = json.loads(launcher.plan(_cordon.Policy(), ["/bin/true"], env=ENV))
    assert plan
    check = json.loads(launcher.check())
    assert check["level"] in ("namespaces", "landlock")
    assert {item["state"] for item in check["layers"]} <= {"yes", "no", "partial"}
