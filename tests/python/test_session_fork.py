# SPDX-License-Identifier: Apache-2.0
"""Forks and snapshots of sessions: the same memory, files and directory, and from then on nothing in common."""

import asyncio
import gc
import os
import pathlib
import sys
import threading
from unittest import mock

import pytest

import pycordon
from pycordon import AsyncSession, ClosedError, Session, SetupError, StateError, UnsupportedError, UsageError, _session_state, workspaces
from pylib import ceiling, until
from test_fork_hostile import BAD_IMAGES, TAKE

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from packageslib import Index, wheel  # noqa: E402

STATE = """
import os
os.makedirs('/tmp/place'); os.chdir('/tmp/place')
numbers = [1, 2]; log = open('log', 'w+'); log.write('begun '); log.flush()
"""
LOOK = "numbers, os.getcwd(), open('log').read(), log.tell()"


@pytest.fixture
def session(place):
    with Session(persist=True) as made:
        yield made


def state(session):
    got = session.execute(LOOK)
    assert got.ok, got
    return got.text


# --- what forks have -------------------------------------------------------------------------------


def test_the_state_is_the_same_and_nothing_is_shared_afterwards(session, sandboxes):
    assert session.execute(STATE).ok
    before = state(session)
    one, two = session.fork(2)
    assert len(sandboxes()) == 3
    assert state(one) == state(two) == before
    assert one.execute("numbers.append(3); log.write('one'); log.flush(); open('/tmp/new', 'w').close()").ok
    assert state(one) == "([1, 2, 3], '/tmp/place', 'begun one', 9)"
    assert state(two) == state(session) == before
    assert [each.exec("cat /tmp/place/log").stdout for each in (session, one, two)] == ["begun ", "begun one", "begun "]
    assert [each.exec("test -e /tmp/new").returncode for each in (session, one, two)] == [1, 0, 1]
    assert one.files.read("/tmp/place/log") == b"begun one"
    session.close()  # nothing depends on it
    assert state(two) == before
    assert two.execute("1").count == 6, "it counts on"
    one.close()
    two.close()
    assert sandboxes() == []


def test_it_is_a_session_like_any_other(session):
    session.execute("x = 1")
    with session.fork() as fork:
        server = fork.start("cd /tmp && exec python3 -u -m http.server 8000 --bind 127.0.0.1 2>/tmp/log")
        connect = ["python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 8000))"]
        until(lambda: fork.exec(connect).ok, "no server")
        get = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/').status"
        assert fork.execute(get).text == "200"
        assert not session.execute(get).ok, "it has a network of its own"
        assert fork.execute("while True: pass", timeout=0.3).interrupted
        assert fork.execute("x").text == "1"
        assert fork.execute("echo $((6 * 7))", "bash").stdout == "42\n"
        assert fork.execute("import os; os._exit(3)").ended
        fresh = fork.execute("x")
        assert fresh.restarted and fresh.error.name == "NameError"
        server.kill()
    assert session.execute("x").text == "1"


def test_forks_of_forks_and_of_what_was_not_started(session):
    session.execute("path = ['root']; open('/tmp/path', 'w').write('root')")
    chain = [session]
    for n in range(3):
        chain.append(chain[-1].fork())
        assert chain[-1].execute(f"path.append({n}); open('/tmp/path', 'a').write('{n}')").ok
    chain.append(chain[-1].fork().fork())  # the one between has executed nothing
    session.close()
    assert chain[-1].execute("path, open('/tmp/path').read()").text == "(['root', 0, 1, 2], 'root012')"
    for each in chain:
        each.close()


def test_without_an_interpreter_there_are_the_files(session):
    session.exec("mkdir /tmp/d; echo data > /tmp/d/f; echo home > ~/here", check=True)
    for fork in session.fork(3):
        with fork:
            assert fork.exec("cat /tmp/d/f ~/here; pwd").stdout == "data\nhome\n" + session.exec("pwd").stdout
            assert not fork.execute("x").restarted


def test_the_policy_is_the_same(place):
    with Session(persist=True, limits_procs=20, env={"A": "b"}, net_allow=["one.example"]) as session:
        session.execute("x = 1")
        with session.fork() as fork:
            assert fork._core.policy.effective() == session._core.policy.effective()
            assert fork.exec("echo $A").stdout == "b\n" and fork.execute("import os; os.environ['A']").text == "'b'"
            assert not fork.exec("cat /etc/shadow").ok


def test_packages_that_came_later_are_taken_along(place, monkeypatch):
    index = Index()
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    for name, value in index.env.items():
        monkeypatch.setenv(name, value)
    for name in ("one", "two"):
        index.add(wheel(name, files={f"{name}_mod.py": f"def main(): print('{name} runs')\n"}, scripts={f"{name}-tool": f"{name}_mod:main"}))
    try:
        with Session(persist=True, limits_memory="1G") as session:
            session.execute("x = 1")
            before = session.snapshot()
            session.install("one")
            fork = session.fork()
            assert fork.execute("import one_mod; x").text == "1"
            assert fork.exec("one-tool").stdout == "one runs\n"
            waiting = session.fork()
            waiting.install("two")
            late = waiting.fork()  # the image knows nothing of it
            assert late.execute("import one_mod, two_mod; x").text == "1"
            for each in (fork, waiting, late):
                each.close()
            session.restore(before)
            assert session.exec("one-tool").returncode == 127, "it is not there any more"
            session.install("one")
            assert session.exec("one-tool").stdout == "one runs\n"
            assert session.execute("import one_mod").ok
    finally:
        index.close()


def test_each_has_a_branch_of_the_workspace(place, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "todo").write_text("nothing\n")
    with Session(persist=True, fs_workspace=str(project)) as session:
        session.exec("echo parent >> todo", check=True)
        session.execute("text = open('todo').read()")
        forks = session.fork(3)
        for n, fork in enumerate(forks):
            assert fork.execute(f"open('todo', 'a').write('fork {n}\\n'); text").text == repr("nothing\nparent\n")
        assert forks[0].exec("cat todo").stdout == "nothing\nparent\nfork 0\n"
        assert session.exec("cat todo").stdout == "nothing\nparent\n"
        unused = session.fork()
        assert len({each.workspace.id for each in (session, *forks, unused)}) == 5
        for each in (*forks, unused):
            each.close()
    assert (project / "todo").read_text() == "nothing\n"
    assert forks[1].workspace.commit().ok
    assert (project / "todo").read_text() == "nothing\nparent\nfork 1\n"
    for each in (*forks, unused, session):
        if each.workspace is not None:
            each.workspace.discard()
    assert workspaces.list() == []


# --- what cannot be forked -------------------------------------------------------------------------


def at_once():
    """What runs is not waited for."""
    return mock.patch.object(_session_state, "_GONE_SECONDS", 0.1)


def refused(session, words):
    with at_once(), pytest.raises(StateError, match=words):
        session.fork(2)


def test_what_would_be_lost_is_said(session, sandboxes):
    session.execute("x = 1")
    command = session.start("sleep 1000")
    refused(session, "1 command or interpreter runs")
    command.kill()
    command.wait()
    session.execute("y=1", "bash")
    other = session.interpreter("python")
    other.execute("z = 1")
    refused(session, "2 commands or interpreters run")
    other.close()
    session.close_interpreter("bash")
    session.close_interpreter("bash")
    session.exec("(until [ -e /tmp/stop ]; do sleep 0.02; done) > /dev/null 2>&1 &", check=True)
    refused(session, "a process .* is running")
    session.exec("touch /tmp/stop")
    until(lambda: session.usage()["tasks"] == 1, "it does not end")
    session.execute("import socket; s = socket.socket()")
    refused(session, "a socket")
    session.pause()
    refused(session, "paused")
    session.resume()
    assert session.execute("s.close(); x").text == "1", "nothing has changed"
    assert len(sandboxes()) == 1
    session.fork().close()


def test_what_commands_have_left_without_an_interpreter(session):
    session.exec("sleep 1000 > /dev/null 2>&1 &", check=True)
    refused(session, "have left")


def test_where_there_are_none(place):
    with Session() as session:
        for call in (session.fork, session.snapshot):
            with pytest.raises(UnsupportedError, match="in memory") as told:
                call()
            assert told.value.hint == "make it with persist=True"
        with pytest.raises(UnsupportedError):
            session.restore("x")
    with Session(persist=True, isolation="landlock") as session:
        with pytest.raises(UnsupportedError, match="landlock"):
            session.fork()
        session.exec("echo good > ~/f", check=True)
        session.snapshot("s")
        session.exec("echo bad > ~/f", check=True)
        session.restore("s")
        assert session.exec("cat ~/f").stdout == "good\n"
    with pytest.raises(ClosedError):
        session.fork()
    with pytest.raises(ClosedError):
        session.snapshot()
    with pytest.raises(ClosedError):
        session.restore("s")


def test_a_state_that_was_lost(session):
    session.execute("import os; os._exit(3)")
    refused(session, "status 3")
    assert session.execute("1").restarted
    session.fork().close()


@pytest.mark.parametrize("name", ["noise", "another program"])
def test_an_image_that_is_none(session, name):
    """It is executed inside, where it fails; nothing else does."""
    assert session.execute(TAKE.replace("CODE", BAD_IMAGES[name])).ok
    with session.fork() as fork:
        with pytest.raises((SetupError, StateError)):
            fork.execute("1")
        assert fork.exec("echo here").stdout == "here\n"
        assert fork.execute("echo there", "bash").stdout == "there\n"
    assert session.execute("kept").text == "7"


def test_the_image_cannot_be_changed(session):
    """Not for the next fork: a command can open the file of the interpreter beside it."""
    session.execute("x = 1")
    one, two = session.fork(2)
    assert one.execute("x").text == "1"
    attack = (
        "import glob, os\n"
        "for exe in glob.glob('/proc/[0-9]*/exe'):\n"
        "    try:\n"
        "        if 'memfd' not in os.readlink(exe): continue\n"
        "        found = os.open(exe, os.O_RDONLY)\n"
        "    except OSError: continue\n"
        "    for what in (lambda: os.open(exe, os.O_WRONLY), lambda: os.truncate(exe, 0), lambda: os.setxattr(exe, 'user.a', b'x'),\n"
        "                 lambda: os.write(os.open(f'/proc/self/fd/{found}', os.O_RDWR), b'x')):\n"
        "        try: print('changed', what())\n"
        "        except OSError as error: print('refused', error.errno)\n"
    )
    said = one.exec(["python3", "-I", "-c", attack])
    assert said.stdout.count("refused") in (0, 4) and "changed" not in said.stdout, said
    assert two.execute("x").text == "1"
    one.close()
    two.close()


# --- snapshots -------------------------------------------------------------------------------------


def test_there_and_back(session, sandboxes):
    session.exec("echo good > /tmp/f; echo home > ~/g", check=True)
    session.execute("x = 1")
    before = session.snapshot("before")
    assert len(sandboxes()) == 2
    session.exec("rm /tmp/f; echo bad > ~/g; echo new > /tmp/new", check=True)
    python, server = session.interpreter("python"), session.start("sleep 1000")
    python.execute("y = 1")
    session.restore(before)
    assert session.exec("cat /tmp/f ~/g; test -e /tmp/new || echo gone").stdout == "good\nhome\ngone\n"
    assert session.execute("x").error.name == "NameError", "it began anew"
    assert session.files.read("/tmp/f") == b"good\n"
    with pytest.raises(ClosedError):
        server.wait()
    with pytest.raises(ClosedError):
        python.execute("y")
    session.exec("rm /tmp/f", check=True)
    session.restore("before")
    assert session.exec("cat /tmp/f").stdout == "good\n"
    with pytest.raises(UsageError, match="no snapshot"):
        session.restore("other")
    assert session.exec("echo on").stdout == "on\n", "nothing was ended for that"
    session.close()
    assert before.closed and sandboxes() == []


def test_after_a_limit(place, sandboxes):
    with Session(persist=True, limits_disk="8M") as session:
        session.exec("echo good > /tmp/f", check=True)
        before = session.snapshot()
        full = session.exec("head -c 30000000 /dev/zero > /tmp/large; sleep 30")
        assert full.kind == "disk", full
        for call in (session.fork, session.snapshot, lambda: session.exec("true")):
            with pytest.raises(StateError):
                call()
        session.restore(before)
        assert session.exec("cat /tmp/f; test -e /tmp/large || echo gone").stdout == "good\ngone\n"
        assert session.execute("6 * 7").text == "42"
        session.fork().close()
        assert len(sandboxes()) == 2


# Writes a number to one file, and then to the other. Copied while it goes on they differ by any number.
PAIR = "exec python3 -c \"import os\nfor n in range(1, 10**9):\n    for name in 'ab':\n        with open('/tmp/' + name, 'r+') as f: f.write(f'{n:9}')\n\""


def test_it_is_of_one_moment_and_commands_go_on(session):
    session.exec("printf '%9d' 0 | tee /tmp/a > /tmp/b; seq 200000 > /tmp/aa", check=True)
    writer = session.start(PAIR)
    number = lambda name: int(session.exec(["cat", "/tmp/" + name]).stdout)  # noqa: E731
    for _ in range(5):
        last = number("b")
        until(lambda: number("b") > last, "it does not write")
        made = session.snapshot()
        copy = pathlib.Path(made._home.path, "tmp")
        a, b = (int((copy / name).read_text() or 0) for name in "ab")
        assert a - b in (0, 1), "the files are not of one moment"
        made.close()
    last = number("b")
    until(lambda: number("b") > last, "it stands still")
    assert writer.running
    session.pause()
    session.snapshot().close()
    assert session.usage()["paused"], "it was paused before, and still is"
    session.resume()
    writer.kill()


def test_commands_of_other_threads_wait(session):
    session.exec("seq 100000 > /tmp/large", check=True)
    failed, stop = [], threading.Event()

    def work():
        while not stop.is_set():
            try:
                assert session.exec("echo x").stdout == "x\n"
            except BaseException as error:
                failed.append(error)
                return

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(6):
            session.snapshot().close()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failed == []


def test_closed_by_another_thread_while_it_is_restored(place, sandboxes, monkeypatch):
    session = Session(persist=True)
    session.snapshot("s")
    restore = type(session._core.engine).restore

    def slow(self, which):
        restore(self, which)
        session.close()

    monkeypatch.setattr(type(session._core.engine), "restore", slow)
    with pytest.raises(ClosedError):
        session.restore("s")
    assert sandboxes() == []


# --- nothing is left -------------------------------------------------------------------------------


def test_forgotten_ones_leave_nothing(place, sandboxes):
    session = Session(persist=True)
    session.execute("x = 1")
    forks = session.fork(2)
    session.snapshot()
    forks[0].start("sleep 1000")
    assert len(sandboxes()) == 4
    del session, forks
    gc.collect()
    until(lambda: sandboxes() == [], "files are left")


def test_a_program_that_ends_leaves_nothing(host, sandboxes):
    host("""
        import pycordon
        session = pycordon.Session(persist=True)
        session.execute("x = 1")
        kept = [session, *session.fork(2), session.snapshot()]
        kept[1].start("while true; do echo x > /tmp/f$RANDOM; done")
    """)
    assert sandboxes() == []


def test_descriptors(session):
    session.execute("x = 1")
    session.fork().close()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        for fork in session.fork(2):
            fork.execute("x")
            fork.close()
        session.snapshot("s").close()
    del fork
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_a_fork_that_fails_leaves_nothing(session, sandboxes, monkeypatch):
    session.execute("x = 1")
    branch, count = type(session._core).branch, []

    def fails_late(self, *arguments):
        count.append(1)
        if len(count) == 3:
            raise StateError("no more")
        return branch(self, *arguments)

    monkeypatch.setattr(type(session._core), "branch", fails_late)
    with pytest.raises(StateError, match="no more"):
        session.fork(5)
    assert len(sandboxes()) == 1
    assert session.execute("x").text == "1"


# --- asyncio ---------------------------------------------------------------------------------------


def test_in_an_event_loop(place, sandboxes):
    async def main():
        async with AsyncSession(persist=True) as session:
            await session.execute(STATE)
            before = await session.snapshot("before")
            forks = await session.fork(4)
            await asyncio.gather(*(fork.execute(f"numbers.append({n})") for n, fork in enumerate(forks)))
            texts = [(await fork.execute("numbers")).text for fork in forks]
            assert texts == [f"[1, 2, {n}]" for n in range(4)]
            assert [(await fork.exec("cat /tmp/place/log")).stdout for fork in forks] == ["begun "] * 4
            await session.exec("rm -r /tmp/place")
            await session.restore(before)
            assert (await session.files.read("/tmp/place/log")) == b"begun "
            assert (await session.execute("numbers")).error.name == "NameError"
            task = asyncio.ensure_future(session.exec("sleep 1000"))
            await asyncio.sleep(0.3)
            with at_once(), pytest.raises(StateError, match="runs in the session"):
                await session.fork()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await session.close_interpreter()
            fork = await session.fork()
            assert (await fork.exec("cat /tmp/place/log")).stdout == "begun "
            for each in (*forks, fork):
                await each.close()

    asyncio.run(asyncio.wait_for(main(), ceiling(60)))
    assert sandboxes() == []


def test_a_cancelled_fork_leaves_nothing(place, sandboxes):
    async def main():
        async with AsyncSession(persist=True) as session:
            await session.execute("x = list(range(1000))")
            for delay in (0, 0.005, 0.02, 0.05):
                task = asyncio.ensure_future(session.fork(3))
                await asyncio.sleep(delay)
                task.cancel()
                done = (await asyncio.gather(task, return_exceptions=True))[0]
                for fork in done if isinstance(done, list) else ():
                    await fork.close()
            assert len(sandboxes()) == 1
            assert (await session.execute("len(x)")).text == "1000"

    asyncio.run(asyncio.wait_for(main(), ceiling(60)))
    assert sandboxes() == []
