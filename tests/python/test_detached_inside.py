# SPDX-License-Identifier: Apache-2.0
"""Files and interpreters of detached sessions: those of a Session, with a supervisor in another process."""

import asyncio
import gc
import os
import signal
import subprocess
import threading
import time

import pytest

import pycordon
from pycordon import AsyncDetachedSession, ClosedError, DetachedSession, UnsupportedError, UsageError
from pylib import ceiling, until
from test_detached import EVERY_BYTE, end, index, made, name, wheel  # noqa: F401

COMMAND = pycordon.command()


@pytest.fixture(params=["namespaces", "landlock"])
def session(request):
    with made(isolation=request.param, limits_grace=0.2) as one:
        one.policy_level = request.param
        one.tmp = one.exec('printf %s "${TMPDIR:-/tmp}"').stdout
        yield one


def running(session):
    return [one["command"].split()[0] for one in session.ps() if one["running"]]


# --- files -----------------------------------------------------------------------------------------


def test_files(session, place):
    files, tmp = session.files, session.tmp
    files.write(f"{tmp}/a/b", EVERY_BYTE)
    assert files.read(f"{tmp}/a/b") == EVERY_BYTE and session.exec(f"wc -c < {tmp}/a/b").stdout.strip() == str(len(EVERY_BYTE))
    large = os.urandom(1 << 20) * 20
    files.write(f"{tmp}/large", large)
    assert files.read(f"{tmp}/large") == large
    session.exec(f"cd {tmp} && ln -s /etc/shadow link && mkfifo pipe && mkdir dir", check=True)
    for path, error in (("missing", FileNotFoundError), ("link", OSError), ("pipe", OSError), ("dir", IsADirectoryError)):
        with pytest.raises(error):
            files.read(f"{tmp}/{path}")
    assert [found.path for found in files.glob(f"{tmp}/a/**")] and files.is_dir(f"{tmp}/dir")
    files.rename(f"{tmp}/a/b", f"{tmp}/c")
    files.chmod(f"{tmp}/c", 0o600)
    assert files.stat(f"{tmp}/c").mode == 0o600 and not files.exists(f"{tmp}/a/b")
    (place / "in").write_bytes(b"from the host")
    files.put(place / "in", f"{tmp}/in")
    files.get(f"{tmp}/in", place / "out")
    assert (place / "out").read_bytes() == b"from the host"
    assert DetachedSession.attach(session.name).files.read(f"{tmp}/in") == b"from the host"
    session.close()
    with pytest.raises(ClosedError):
        files.read(f"{tmp}/in")


def test_files_of_one_that_somebody_else_has_made(session, place):
    """Which directories of the host its commands can change is not known: no link there is followed."""
    (place / "real").write_text("x")
    (place / "link").symlink_to(place / "real")
    other = DetachedSession.attach(session.name)
    other.files.put(place / "real", f"{session.tmp}/x")
    with pytest.raises(OSError):
        other.files.put(place / "link", f"{session.tmp}/y")


def test_a_session_that_is_over(session):
    other = DetachedSession.attach(session.name)
    session.execute("x = 1")
    other.stop()
    for call in (lambda: session.files.read("/etc/hostname"), lambda: session.execute("x")):
        with pytest.raises(pycordon.CordonError) as told:
            call()
        assert type(told.value) is ClosedError, told.value


# --- interpreters ----------------------------------------------------------------------------------


def test_state_is_kept_for_each_language(session):
    tmp = session.tmp
    assert session.execute("x = 20; print('out'); import sys; print('err', file=sys.stderr); x + 1").text == "21"
    assert session.execute("y=1; cd /usr", "bash").ok
    assert session.execute('echo "$y $PWD"', "bash").stdout == "1 /usr\n"
    session.exec(f"echo data > {tmp}/f", check=True)
    assert session.execute(f"open('{tmp}/f').read(), x").text == "('data\\n', 20)"
    session.execute(f"open('{tmp}/g', 'w').write('from code')")
    assert session.exec(f"cat {tmp}/g").stdout == "from code"
    failed = session.execute("1 / 0")
    assert failed.error.name == "ZeroDivisionError" and not failed.ended
    with session.interpreter("python", cwd="/usr", env={"A": "b"}) as other:
        assert other.execute("import os; os.getcwd(), os.environ['A'], 'x' in globals()").text == "('/usr', 'b', False)"
        other.set_vars({"data": EVERY_BYTE})
        assert other.get_var("data") == EVERY_BYTE
        for call in (other.fork, other.snapshot, lambda: other.install("six"), lambda: other.sandbox):
            with pytest.raises(UnsupportedError):
                call()
    session.close_interpreter("bash")
    assert session.execute('echo "[$y]"', "bash").stdout == "[]\n"
    with pytest.raises(UsageError):
        session.execute("1", "cobol")


def test_what_is_written_belongs_to_its_execution(session):
    """Nothing lies between the pipes of the code and this process."""
    for n in range(150):
        got = session.execute(f"import os; os.write(1, b'a' * {n * 100}); os.write(2, b'{n}'); {n}")
        assert (len(got.stdout), got.stderr, got.text) == (n * 100, str(n), str(n))
    got = session.execute(f"import os; os.write(1, {EVERY_BYTE!r})")
    assert got.stdout_bytes == EVERY_BYTE
    lines = []
    assert session.execute("for i in range(1000): print(i)", on_stdout=lines.append).ok
    assert b"".join(lines).split() == [b"%d" % i for i in range(1000)]


def test_a_server_and_its_client(session):
    if session.policy_level == "landlock":
        return  # without a network of its own
    server = session.start("exec python3 -u -m http.server 8000 --bind 127.0.0.1")
    code = """
import time, urllib.request, urllib.error
def get(url):
    for _ in range(600):
        try: return urllib.request.urlopen(url).status
        except urllib.error.URLError: time.sleep(0.05)
get('http://127.0.0.1:8000/')
"""
    assert session.execute(code).text == "200"
    server.kill()


def test_interrupt_and_end(session):
    session.execute("x = 1")
    got = session.execute("while True: pass", timeout=0.3)
    assert got.interrupted and got.timed_out and not got.ended
    assert session.execute("x").text == "1"
    ended = session.execute("import os; os._exit(3)")
    assert ended.ended and ended.reason == "the interpreter ended with status 3"
    fresh = session.execute("x")
    assert fresh.restarted and fresh.error.name == "NameError"
    stubborn = "import signal; signal.signal(2, signal.SIG_IGN)\nimport time\nwhile True: time.sleep(1)"
    assert session.execute(stubborn, timeout=0.3).ended
    killed = session.execute("import os; os.kill(os.getpid(), 9)")
    assert "killed by signal 9" in killed.reason
    closed = session.execute("import os, time\nos.closerange(3, 1 << 16)\ntime.sleep(600)")
    assert closed.ended and "closed the channel" in closed.reason
    assert session.execute("1 + 1").text == "2"


def test_executions_are_in_order(session):
    session.execute("seen = []")
    started, threads = threading.Semaphore(0), []
    session.interpreter("python")
    gate = threading.Thread(target=lambda: session.execute("import time; time.sleep(0.5)"))
    gate.start()
    turns = session._interpreters.kept("python")._turns
    until(lambda: turns._is_taken, "it does not run")
    for n in range(10):
        thread = threading.Thread(target=lambda n=n: (started.release(), session.execute(f"seen.append({n})")))
        threads.append(thread)
        thread.start()
        started.acquire()
        until(lambda n=n: len(turns._waiting) == n + 1, "it does not wait")
    for thread in (gate, *threads):
        thread.join()
    assert session.execute("seen").text == str(list(range(10)))


def test_others_are_this_objects(session):
    """interpreter() makes one that nobody else has; execute() uses the session's (test_detached_shared.py)."""
    session.execute("x = 1")
    other = DetachedSession.attach(session.name)
    private = other.interpreter()
    assert private.execute("x").error.name == "NameError"
    assert running(session) == ["python3", "python3"]
    other.close()
    until(lambda: running(session) == ["python3"], "it does not end")
    assert session.execute("x").text == "1"
    with pytest.raises(ClosedError):
        other.execute("1")


def test_a_killed_maker_takes_them_along(host, name):  # noqa: F811
    code = """
        import os, pycordon, sys
        session = pycordon.DetachedSession.create(name=sys.argv[1], idle="5m", lifetime="10m")
        python = session.interpreter()
        python.execute("import threading, time; threading.Thread(target=time.sleep, args=(1000,)).start()")
        session.start("exec sleep 1000")
        print("made", flush=True)
        os.kill(os.getpid(), 9)
    """
    assert host(code, name, check=False).stdout == "made\n"
    session = DetachedSession.attach(name)
    until(lambda: running(session) == ["/bin/sh"], "the interpreter goes on")
    assert session.execute("6 * 7").text == "42"


def test_pause(session):
    session.execute("x = 1")
    session.pause()
    assert session.usage()["paused"]  # it has begun
    done = []
    thread = threading.Thread(target=lambda: done.append(session.execute("x").text))
    thread.start()
    time.sleep(0.5)
    assert done == []
    session.resume()
    thread.join(ceiling(30))
    assert done == ["1"]


def test_the_end_of_the_supervisor_while_code_runs(session):
    session.execute("x = 1")
    pid = next(one["pid"] for one in DetachedSession.list() if one["name"] == session.name)
    threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.raises(ClosedError):
        session.execute("import time; time.sleep(600)")


def test_packages(index, place, name):  # noqa: F811
    index.add(wheel("one", files={"one_mod.py": "def main(): print('it runs')\n"}, scripts={"one-tool": "one_mod:main"}))
    with made(name=name, packages=["one"], limits_memory="1G") as session:
        assert session.execute("import one_mod").ok, session.execute("import sys; sys.path").text
        assert session.execute("one-tool", "bash").ok


def test_nothing_is_left_open(session):
    session.execute("x = 1")
    session.files.exists("/x")
    session.close_interpreter()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        session.execute("x = 1")
        session.files.exists("/x")
        session.close_interpreter()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


# --- the command -----------------------------------------------------------------------------------


def run(*words, **options):
    return subprocess.run([COMMAND, "session", "exec", *words], capture_output=True, timeout=ceiling(60), check=False, **options)


def test_the_options_of_the_command(session, place):
    here, there = os.pipe()
    try:
        script = "echo through >&3; echo out"
        done = run(f"--channel={there}", session.name, "--", "sh", "-c", script, pass_fds=(there,))
        assert (done.returncode, done.stdout, os.read(here, 100)) == (0, b"out\n", b"through\n")
        # What is no pipe is relayed: the command never has it.
        with open(place / "file", "w+") as file:
            words = [COMMAND, "session", "exec", f"--channel={there}", session.name, "--", "sh", "-c"]
            look = "[ -p /proc/self/fd/1 ] && echo a pipe"
            assert subprocess.run([*words, look], stdout=file, pass_fds=(there,), check=False).returncode == 0
            assert (place / "file").read_text() == "a pipe\n"
    finally:
        os.close(here)
        os.close(there)
    for bad in ("99", "-1", "1", "x", ""):
        done = run(f"--channel={bad}", session.name, "--", "true")
        assert done.returncode == 125 and b"--channel must be an open descriptor above 2" in done.stderr
    done = run("--serve-files", session.name, "--", "true")
    assert done.returncode == 125 and b"usage:" in done.stderr
    done = run("--serve-files", "-d", session.name)
    assert done.returncode == 125 and b"neither --detach nor --channel" in done.stderr
    assert run("--serve-files", session.name, input=b"garbage" * 20).returncode != 0
    assert run("--serve-files", session.name, input=b"").returncode == 0


def test_the_end_of_who_has_the_channel(session):
    here, there = os.pipe()
    words = [COMMAND, "session", "exec", f"--channel={there}", session.name, "--", "sh", "-c", "trap '' INT; cat; echo here >&3; sleep 1000"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=(there,)) as process:
        assert os.read(here, 100) == b"here\n", "the pipe is not its input"
        for _ in range(3):
            process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None and running(session) == ["sh"]
        process.stdin.close()
        assert process.wait(ceiling(30)) == 137
    os.close(here)
    os.close(there)


# --- asyncio ---------------------------------------------------------------------------------------


def test_async(name, place):  # noqa: F811
    async def main():
        async with await AsyncDetachedSession.create(name=name, idle="5m", lifetime="10m") as session:
            await session.files.write("/tmp/f", b"data")
            assert await session.files.read("/tmp/f") == b"data"
            await session.execute("x = 1")
            assert (await session.execute("open('/tmp/f').read(), x")).text == "('data', 1)"
            task = asyncio.ensure_future(session.execute("while True: pass"))
            await asyncio.sleep(0.3)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled() and (await session.execute("x")).text == "1"
            many = [session.execute(f"{n}") for n in range(10)]
            assert [one.text for one in await asyncio.gather(*many)] == [str(n) for n in range(10)]
            async with session.interpreter("bash") as bash:
                assert (await bash.execute("echo $((6 * 7))")).stdout == "42\n"
            await session.close_interpreter()
            assert (await session.execute("x")).error.name == "NameError"
            with pytest.raises(FileNotFoundError):
                await session.files.read("/tmp/missing")
            await session.stop()
            with pytest.raises(ClosedError):
                await session.execute("x")

    asyncio.run(asyncio.wait_for(main(), ceiling(60)))
