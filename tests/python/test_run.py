# SPDX-License-Identifier: Apache-2.0
"""Sandbox.run(): what goes in, what comes out, and how it ends."""

import asyncio
import os
import signal
import subprocess
import threading
import time

import pytest

import pycordon
from pylib import ceiling, until


def test_output_and_exit_code(box):
    got = box.run("echo out; echo err >&2; exit 3")
    assert (got.kind, got.exit_code, got.returncode, got.signal) == ("exited", 3, 3, None)
    assert (got.stdout, got.stderr, got.text) == ("out\n", "err\n", "out\nerr\n")
    assert not got.ok and got.status == "error" and got.status is pycordon.SandboxStatus.ERROR


def test_success(box):
    got = box.run(["true"])
    assert got.ok and got.status == "success" and str(got.status) == "success"
    assert got.execution_time_ms > 0 and got.memory_used_mb is not None
    assert got.isolation["level"] in ("namespaces", "landlock")
    assert got.to_dict()["kind"] == "exited"


def test_argv_is_literal(box):
    words = ["$HOME", "a b", "'\"", "*", "", "-n", "\\", "ä\udcff"]
    got = box.run(["printf", "%s\\n", *words])
    assert got.stdout_bytes == b"".join(os.fsencode(w) + b"\n" for w in words)


def test_large_argv_and_large_string(box):
    words = ["x" * 100_000 for _ in range(10)]
    assert box.run(["sh", "-c", 'echo "$@" | wc -c', "sh", *words]).stdout.strip() == "1000010"
    big = "echo begin\n: " + "y" * 300_000 + "\necho end"
    assert box.run(big).stdout == "begin\nend\n"


def test_stdin(box):
    assert box.run("wc -c").stdout.strip() == "0"  # at its end from the beginning
    assert box.run("cat", stdin=b"\0\xff").stdout_bytes == b"\0\xff"
    assert box.run("cat", stdin="ä").stdout == "ä"
    with open("file", "w+") as file:
        file.write("from a file")
        file.flush()
        file.seek(0)
        assert box.run("cat", stdin=file).stdout == "from a file"
    reader, writer = os.pipe()
    os.write(writer, b"from a descriptor")
    os.close(writer)
    assert box.run("cat", stdin=reader).stdout == "from a descriptor"
    os.close(reader)


def test_fifty_megabytes_of_stdin(box):
    data = os.urandom(1 << 20) * 50
    assert box.run("wc -c", stdin=data).stdout.strip() == str(len(data))


def test_bytes_are_kept_and_text_is_replaced(box):
    got = box.run(r"printf 'a\377\0b'")
    assert got.stdout_bytes == b"a\xff\0b" and got.stdout == "a\ufffd\0b"


def test_merge_keeps_the_order(box):
    script = "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done"
    got = box.run(script, merge=True)
    assert got.output == "".join(f"out {i}\nerr {i}\n" for i in range(1, 6))
    assert got.stderr == ""


def test_truncation_is_said(box):
    got = box.run("head -c 100000 /dev/zero | tr '\\0' x; echo end", max_output=1000)
    assert got.truncated.stdout and not got.truncated.stderr and got.truncated["stdout"]
    assert got.total_bytes["stdout"] == 100004 and len(got.stdout_bytes) <= 1100
    assert got.stdout.startswith("xxx") and got.stdout.endswith("end\n")
    whole = box.run("head -c 10485760 /dev/zero", max_output="16M")
    assert len(whole.stdout_bytes) == 10485760 and not whole.truncated


def test_signals(box):
    got = box.run("kill -TERM $$")
    assert (got.kind, got.signal, got.returncode) == ("signaled", signal.SIGTERM, 143)
    assert got.exit_code is None


def test_missing_and_not_executable(box):
    got = box.run(["no-such-program"])
    assert (got.kind, got.returncode, got.exit_code) == ("spawn_failed", 127, None)
    assert "no-such-program" in got.error and got.status == "error"
    box.run("echo text > f")
    got = box.run([box.workdir + "/f"])
    assert (got.kind, got.returncode) == ("spawn_failed", 126)
    assert box.run("no-such-program").returncode == 127  # by the shell itself


def test_timeout_ends_everything_and_keeps_output(box):
    start = time.monotonic()
    got = box.run(
        "echo early; (setsid sh -c 'sleep 3; echo late > /tmp/late' &) ; sleep 60", timeout=0.5
    )
    assert time.monotonic() - start < ceiling(10)
    assert (got.kind, got.returncode, got.status) == ("timeout", 124, "timeout")
    assert got.stdout == "early\n"
    assert box.run("ps ax | grep -c '[s]leep'").stdout.strip() == "0"
    time.sleep(3)  # longer than the survivor would have needed
    assert not box.files.exists("/tmp/late")


def test_cwd(box):
    box.run("mkdir -p a/b")
    assert box.run("pwd").stdout.strip() == box.workdir
    assert box.run("pwd", cwd="a/b").stdout.strip() == box.workdir + "/a/b"
    assert box.run("pwd", cwd="/usr").stdout.strip() == "/usr"
    assert box.run("pwd", cwd="/tmp").stdout.strip() == "/tmp"
    for missing in ("nowhere", "/nowhere", box.workdir + "/nowhere", "/tmp/nowhere"):
        with pytest.raises(FileNotFoundError):
            box.run("pwd", cwd=missing)
    level = box.run("true").isolation["level"]
    with pytest.raises(FileNotFoundError):
        box.run("pwd", cwd="gone")
    assert box.run("true").isolation["level"] == level  # a missing directory costs no protection


def test_env(box, monkeypatch):
    monkeypatch.setenv("SECRET", "canary")
    assert "canary" in subprocess.run(["env"], capture_output=True, text=True).stdout
    assert "canary" not in box.run("env").stdout
    got = box.run("echo $A-$B", env={"A": "1", "B": "x y=z"})
    assert got.stdout == "1-x y=z\n"
    with pycordon.Sandbox(env={"A": "all"}, env_pass=["SECRET"]) as other:
        assert other.run("echo $A $SECRET").stdout == "all canary\n"
        assert other.run("echo $A", env={"A": "one"}).stdout == "one\n"


def test_callbacks(box):
    out, err, order = [], [], threading.Event()

    def first(data):
        out.append(data)
        order.set()

    got = box.run("echo a; echo b >&2; sleep 0.2; echo c", on_stdout=first, on_stderr=err.append)
    assert b"".join(out) == b"a\nc\n" == got.stdout_bytes and len(out) == 2
    assert b"".join(err) == b"b\n" == got.stderr_bytes
    assert order.is_set()
    everything = []
    got = box.run("yes | head -c 5000000", on_stdout=everything.append)
    assert sum(map(len, everything)) == 5000000 and got.truncated.stdout
    assert got.total_bytes["stdout"] == 5000000


def test_an_exception_in_a_callback_ends_the_run(box):
    def fail(data):
        raise KeyError("mine")

    start = time.monotonic()
    with pytest.raises(KeyError, match="mine"):
        box.run("echo x; sleep 60", on_stdout=fail)
    assert time.monotonic() - start < ceiling(10)
    assert box.run("ps ax | grep -c '[s]leep 60'").stdout.strip() == "0"


def test_orphans(box):
    ended = box.run("(sleep 1; echo x > /tmp/killed) & echo now")
    assert ended.stdout == "now\n"
    start = time.monotonic()
    kept = box.run("(while sleep 0.05; do echo x >> /tmp/kept; done) & echo now", orphans="keep")
    assert kept.stdout == "now\n" and kept.ok and time.monotonic() - start < ceiling(5)
    size = lambda: len(box.files.read("/tmp/kept")) if box.files.exists("/tmp/kept") else 0
    until(lambda: size() > 6, "the orphan does not go on")
    assert not box.files.exists("/tmp/killed")
    # One that writes more than a pipe holds does not block: its output is drained.
    box.run("(yes | head -c 1000000; echo done > /tmp/written) &", orphans="keep")
    until(lambda: box.files.exists("/tmp/written"), "an orphan that writes was blocked")
    with pytest.raises(pycordon.UsageError, match="orphans"):
        box.run("true", orphans="maybe")


def test_kept_runs_hold_nothing_once_nothing_is_left(box):
    """A program makes thousands of such runs, and few of them leave anything behind."""
    descriptors = lambda: len(os.listdir("/proc/self/fd"))
    box.run("sleep 0.1 &", orphans="keep")  # starts what all of them share
    until(lambda: not box._engine.runs.kept, "a kept run was not let go")
    most = descriptors() + 10  # what the launcher prepares comes and goes; a run has five
    for _ in range(20):
        box.run("true", orphans="keep")
    assert descriptors() <= most
    for _ in range(10):
        box.run("sleep 0.2 &", orphans="keep")
    until(lambda: not box._engine.runs.kept and descriptors() <= most, "descriptors of kept runs stay")


def test_orphans_end_with_the_sandbox(tmp_path):
    mark = tmp_path / "work" / "mark"
    with pycordon.Sandbox(workdir=tmp_path / "work") as made:
        made.run("(while sleep 0.05; do echo x >> mark; done) &", orphans="keep")
        until(mark.exists, "the orphan does not go on")
    size = mark.stat().st_size
    time.sleep(0.5)
    assert mark.stat().st_size == size


def test_check(box):
    assert box.run("true", check=True).ok
    with pytest.raises(pycordon.RunError) as caught:
        box.run("echo no; exit 2", check=True)
    assert caught.value.result.stdout == "no\n" and caught.value.result.returncode == 2
    with pytest.raises(pycordon.TimeoutExpired):
        box.run("sleep 9", timeout=0.2, check=True)


def test_tty(box):
    got = box.run("tty; stty size; test -t 0 && echo yes", tty=True)
    assert got.stdout.splitlines()[0].startswith("/dev/pts/")
    assert got.stdout.splitlines()[1:] == ["24 80", "yes"]


@pytest.mark.parametrize("stdin", [None, "", "abc\n", "abc", b"a\nb"])
def test_input_on_a_terminal_ends(box, stdin):
    got = box.run("cat > f; test -t 0", tty=True, stdin=stdin, timeout=20, check=True)
    assert got.kind == "exited"
    text = stdin or b""
    assert box.files.read("f") == (text if isinstance(text, bytes) else text.encode())


def test_input_on_a_terminal_ends_with_callbacks_too(box):
    assert box.run("cat > f", tty=True, stdin="x\n", on_stdout=print, timeout=20).ok

    async def later():
        async with pycordon.AsyncSandbox() as other:
            assert (await other.run("cat", tty=True, timeout=20)).ok
            assert (await other.run("cat", tty=True, on_stdout=print, timeout=20)).ok

    asyncio.run(later())


def test_module_run():
    got = pycordon.run("echo hi; cat", stdin="x", timeout=5, max_memory_mb=64)
    assert got.stdout == "hi\nx"
    with pytest.raises(pycordon.PolicyError, match="did you mean"):
        pycordon.run("true", max_memmory_mb=64)


def test_interrupt_ends_the_run(host, tmp_path):
    code = """
        import pycordon, os, signal, sys, threading, time
        box = pycordon.Sandbox(workdir=sys.argv[1])
        def strike():
            while not os.path.exists(sys.argv[1] + "/mark"):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=strike, daemon=True).start()
        try:
            box.run("while sleep 0.05; do echo x >> mark; done", timeout=50)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        size = os.path.getsize(sys.argv[1] + "/mark")
        time.sleep(0.5)
        print(os.path.getsize(sys.argv[1] + "/mark") == size)
    """
    assert host(code, tmp_path / "w").stdout == "interrupted\nTrue\n"


def test_errors_of_the_set_up_are_raised():
    with pytest.raises(pycordon.PathError) as caught:
        pycordon.Sandbox(fs_read=["/no/such/place"], persist=False).run("true")
    assert caught.value.code == "path" and caught.value.hint is not None or caught.value.message
    with pytest.raises(pycordon.UnsupportedError):
        pycordon.Sandbox(require=["landlock:99"], persist=False).run("true")


@pytest.mark.parametrize("cmd", [[], [""]])
def test_empty_commands(box, cmd):
    with pytest.raises(pycordon.UsageError):
        box.run(cmd)


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_levels(level):
    """The same at both levels, where home lies elsewhere at the lower one."""
    with pycordon.Sandbox(
        workdir=True, isolation=level, best_effort=["disk", "procs"], env={"A": "b"}
    ) as made:
        got = made.run("pwd; echo $A; echo x > f; mkdir d; python -c 'print(3)'")
        assert got.isolation["level"] == level
        assert got.stdout == f"{made.workdir}\nb\n3\n", got.stderr
        assert made.run("pwd", cwd="d").stdout == made.workdir + "/d\n"
        assert made.run_code("print(open('f').read())").stdout == "x\n\n"
        assert made.files.read("f") == b"x\n" and made.files.realpath(".") == made.workdir
        with pytest.raises(FileNotFoundError):
            made.run("pwd", cwd="nowhere")
        second = pycordon.Sandbox.attach(made.id)
        assert second.run("cat f").stdout == "x\n"


def test_a_missing_workdir_is_made_without_persist_too(tmp_path):
    made = tmp_path / "not" / "there"
    assert pycordon.run("echo x > f; pwd", workdir=made).stdout == f"{made}\n"
    assert (made / "f").read_text() == "x\n"


def test_var_tmp_can_be_granted():
    """It is a link to the private /tmp inside, unless it is granted itself."""
    mark = f"/var/tmp/cordon-test-{os.getpid()}"
    try:
        assert pycordon.run(["touch", mark], fs_write=["/var/tmp"]).ok
        assert os.path.exists(mark)
        assert pycordon.run(["test", "-e", mark], fs_read=["/var/tmp"]).ok
        assert not pycordon.run(["rm", mark], fs_read=["/var/tmp"]).ok
        assert not pycordon.run(["test", "-e", mark]).ok
    finally:
        os.unlink(mark)


def test_values_that_the_library_refuses_are_errors_of_the_package(box):
    with pytest.raises(pycordon.CordonError, match="too long"):
        box.run("true", env={"A": "x" * 200_000})
    with pytest.raises(pycordon.CordonError):
        box.run("true", env={"A\n": "x"})


def test_receipts_have_the_same_keys_whatever_happened(box):
    ran = box.run("true").to_dict()
    with pycordon.Sandbox(allowed_commands=["ls"]) as strict:
        for got in (box.run(["no-such-program"]), strict.run("cat x")):
            receipt = got.to_dict()
            assert set(ran) == set(receipt)
            assert set(ran["usage"]) == set(receipt["usage"])
            assert set(ran["isolation"]) == set(receipt["isolation"])
            assert receipt["error"]["message"] == got.error
        assert receipt["denials"][0]["rule"] == "commands"


@pytest.mark.parametrize("name", [None, "mine"])
def test_a_workspace_that_is_gone_is_none_and_a_new_one_begins(tmp_path, name):
    base = tmp_path / "base"
    base.mkdir()
    with pycordon.Sandbox(fs_workspace=base, name=name) as made:
        made.run("echo a > f", cwd=base)
        made.workspace.discard()
        assert made.workspace is None
        assert made.run("ls; echo b > g", cwd=base).stdout == ""
        assert [change["path"] for change in made.workspace.changes()] == ["g"]
        assert made.workspace.name == name
        made.workspace.discard()
        assert made.files.list(base) == []
        made.files.write(base / "h", "x")
        assert made.run("cat h", cwd=base).stdout == "x"
        made.workspace.discard()
    assert list(base.iterdir()) == []


def test_lost_files_are_explained():
    with pycordon.Sandbox(persist=False) as box:
        result = box.run("cd; echo 1 >results.csv; echo 2 >$(printf 'b\\033[2J')")
        assert result.ok and result.lost_files["home"] == 2
        first, second = result.explain().splitlines()
        assert "2 files written to the private home are gone, such as '" in second
        assert "\x1b" not in second and "persist=True" in second
        assert box.run("cd; exit 1").lost_files is None
    with pycordon.Sandbox() as box:
        result = box.run("cd; echo 1 >results.csv")
        assert result.lost_files is None and result.explain() == "The command succeeded."
        box.files.write("notes.txt", "kept")
