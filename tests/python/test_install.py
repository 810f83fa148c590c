# SPDX-License-Identifier: Apache-2.0
"""install() of sandboxes, sessions and interpreters that live already."""

import asyncio
import errno
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import pytest

import pycordon
from pycordon import _ahead
from pylib import ceiling, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from packageslib import Index, npm_package, wheel  # noqa: E402

LEVELS = pytest.mark.parametrize("level", ["namespaces", "landlock"])
COPIES = ".cordon-layers"


@pytest.fixture
def index(place, monkeypatch):
    made = Index()
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    for name in ("one", "two"):
        files = {f"{name}_mod.py": f"def main(): print('{name} runs')\n", "both_mod.py": f"NAME = '{name}'\n"}
        made.add(wheel(name, files=files, scripts={f"{name}-tool": f"{name}_mod:main"}))
    program = {"bin.js": "#!/usr/bin/env node\nconsole.log('number runs')\n"}
    made.add_npm(npm_package("is-number", files=program, bin={"number-tool": "bin.js"}))
    yield made
    made.close()


def cache():
    return pathlib.Path(os.environ["XDG_CACHE_HOME"]) / "cordon/packages"


def layers():
    return sorted(path.name[:4] for path in cache().iterdir() if path.name.startswith(("pip-", "npm-")))


NAMES = "import one_mod, two_mod, both_mod; print(both_mod.NAME)"


# --- sandboxes -----------------------------------------------------------------------------------


@LEVELS
def test_later_runs_of_a_sandbox_see_them(index, level):
    with pycordon.Sandbox(packages=["one"], isolation=level, limits_memory="1G") as box:
        assert box.run(["two-tool"]).returncode == 127
        box.install("two==1.0", "npm:is-number@1")
        assert box.run_code(NAMES).stdout == "two\n"
        assert box.run("one-tool; two-tool; number-tool").stdout == "one runs\ntwo runs\nnumber runs\n"
        assert box.run(["two-tool"]).stdout == "two runs\n"
        assert box.run_code("console.log(require('is-number'))", "javascript").stdout == "is-number 1.0.0\n"
        box.install("one")  # had before: now it is the first one
        assert box.run_code(NAMES).stdout == "one\n"
        path = box.run_code("import os; print(os.environ['PYTHONPATH'])").stdout.strip().split(":")
        assert len(path) == len(set(path)) == 2


def test_it_is_the_layer_that_packages_would_give(index):
    with pycordon.Sandbox() as box:
        box.install("one", "npm:is-number")
        asked = len(index.asked)
        with pycordon.Sandbox(packages=["one", "npm:is-number"]) as other:
            assert other.run("one-tool").stdout == "one runs\n"
        assert len(index.asked) == asked and layers() == ["npm-", "pip-"]


def test_a_layer_is_in_use_as_long_as_the_sandbox(index):
    cordon = [sys.executable, "-m", "pycordon"]
    box = pycordon.Sandbox(packages=["one"])
    box.install("two")
    listed = json.loads(subprocess.check_output([*cordon, "cache", "list", "--json"]))
    assert [layer["in_use"] for layer in listed] == [True, True]
    box.close()
    del box
    assert subprocess.check_output([*cordon, "cache", "gc", "--older-than", "0s"]).count(b"removed ") == 2


@pytest.mark.parametrize("make", [pycordon.Sandbox, pycordon.Session, pycordon.Interpreter])
def test_what_cannot_be_installed_changes_nothing(index, make):
    def check():
        if make is pycordon.Interpreter:
            assert thing.execute("import one_mod; one_mod.main(); x").stdout == "one runs\n"
        else:
            assert (thing.exec if make is pycordon.Session else thing.run)("one-tool").stdout == "one runs\n"

    with make() as thing:
        thing.install("one")
        if make is pycordon.Interpreter:
            thing.execute("x = 1")
        for words, kind, said in (
            (["nosuch"], pycordon.SetupError, "No matching distribution found for nosuch"),
            (["npm:nosuch"], pycordon.SetupError, "cannot install"),
            (["./one"], pycordon.CordonError, "cannot be installed"),
            (["two --index-url=http://127.0.0.1:1"], pycordon.CordonError, "options are not taken"),
            (["--index-url=http://127.0.0.1:1", "two"], pycordon.CordonError, "options are not taken"),
            ([["two"]], pycordon.UsageError, "packages"),
            ([], pycordon.UsageError, "no packages are named"),
        ):
            with pytest.raises(kind, match=said) as caught:
                thing.install(*words)
            try:
                made = pycordon.Sandbox(packages=words)
            except pycordon.CordonError as error:
                assert type(error) is type(caught.value) and (not words or str(error) == str(caught.value))
            else:
                assert not words
                made.close()
            check()
        with pytest.raises(pycordon.UsageError, match="build_packages"):
            thing.install("two", build_packages="yes")
        if make is pycordon.Session:
            assert len(thing.files.list(COPIES)) == 1
    assert layers() == ["pip-"]


def test_sandboxes_made_ahead_are_renewed(index):
    with pycordon.Sandbox(parked=2, preload="json", limits_memory="512M") as box:
        box.run("true")
        assert "ModuleNotFoundError" in box.run_code("import one_mod").stderr
        box.install("one")
        for _ in range(3):
            assert box.run_code("import one_mod; one_mod.main()").stdout == "one runs\n"
            assert box.run("one-tool").stdout == "one runs\n"


def test_a_pool(index):
    with pycordon.Pool(workers=1, interpreters={"bash": 1}) as pool:
        with pool.interpreter("bash") as bash:
            assert bash.execute("one-tool").status == 127
            with pytest.raises(pycordon.StateError, match="files are in memory"):
                bash.install("one")
        pool.install("one")
        for graded in pool.map(["import one_mod; one_mod.main()"] * 3):
            assert graded.result.stdout == "one runs\n"
        for _ in range(3):
            with pool.interpreter("bash") as bash:
                assert bash.execute("one-tool").stdout == "one runs\n"


def test_runs_that_go_on_meanwhile(index):
    """Other threads that start runs meet either view, and no error."""
    with pycordon.Sandbox(parked=1) as box:
        failures, is_over = [], threading.Event()

        def work():
            try:
                while not is_over.is_set():
                    assert box.run("echo fine").stdout == "fine\n"
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for name in ("one", "two", "npm:is-number", "one"):
                box.install(name)
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        assert not failures
        assert box.run_code(NAMES).stdout == "one\n"


def test_a_run_that_has_just_found_the_old_ones(index, monkeypatch):
    with pycordon.Sandbox(parked=1) as box:
        box.run("true")
        old = box._engine.parked
        find = old.open

        def found_and_closed():
            pool = find()
            if threading.current_thread() is threading.main_thread():  # not the one that refills it
                monkeypatch.setattr(old, "open", find)
                box.install("one")
            return pool

        monkeypatch.setattr(old, "open", found_and_closed)
        assert box.run("echo fine").stdout == "fine\n"
        assert box._engine.parked is not old and box.run("one-tool").stdout == "one runs\n"


def test_an_interpreter_that_is_being_made_meanwhile_is_not_used(index, monkeypatch):
    make, is_made, may_go_on = _ahead._started, threading.Event(), threading.Event()

    def slowly(engine, kind):
        made = make(engine, kind)
        is_made.set()
        may_go_on.wait(ceiling(60))
        return made

    monkeypatch.setattr(_ahead, "_started", slowly)
    with pycordon.Pool(workers=1, interpreters={"bash": 1}, isolation="namespaces") as pool:
        assert is_made.wait(ceiling(60))
        pool.install("one")
        may_go_on.set()
        until(lambda: len(pool._engine.ahead) == 1, "one waits")
        with pool.interpreter("bash") as bash:
            assert bash.execute("one-tool").stdout == "one runs\n"


def test_restart_snapshot_and_attach(index):
    with pycordon.Sandbox(keep=True, limits_disk="32M") as box:
        box.run("true")
        before = box.snapshot()
        box.install("one")
        box.restore(before)
        assert box.run("one-tool").stdout == "one runs\n"
        with pycordon.Sandbox.attach(box.id) as other:
            assert other.run("one-tool").stdout == "one runs\n"
            other.install("two")
            assert other.run_code(NAMES).stdout == "two\n"
        assert box.run(["two-tool"]).returncode == 127  # this object has installed only the one
        with pycordon.Sandbox.attach(box.id) as other:
            assert other.run_code(NAMES).stdout == "two\n"
            assert other.policy.effective()["limits.disk"] == "32M"
        box.restart()
        assert box.run("one-tool").stdout == "one runs\n"
        box.destroy()
    with pytest.raises(pycordon.ClosedError):
        box.install("one")


# --- sessions ------------------------------------------------------------------------------------


@LEVELS
def test_later_commands_of_a_session_find_them(index, level):
    with pycordon.Session(isolation=level, limits_memory="1G", env={"PYTHONPATH": "/mine"}) as session:
        path = session.exec("echo $PATH").stdout.strip()
        running = session.start("sleep 60")
        session.install("one")
        session.install("two", "npm:is-number")
        assert session.exec(["python3", "-c", NAMES]).stdout == "two\n"
        assert session.exec(["two-tool"]).stdout == "two runs\n"
        assert session.exec("one-tool; number-tool").stdout == "one runs\nnumber runs\n"
        assert session.exec(["node", "-p", "require('is-number')"]).stdout == "is-number 1.0.0\n"
        found = dict(line.split("=", 1) for line in session.exec("env").stdout.splitlines())
        home = found["HOME"]
        assert found["PATH"].endswith(f":{path}") and found["PATH"].startswith(f"{home}/{COPIES}/pip-")
        assert found["PYTHONPATH"].count(f"{home}/{COPIES}/pip-") == 2 and found["PYTHONPATH"].endswith(":/mine")
        assert session.exec("echo $PYTHONPATH", env={"PYTHONPATH": "/own"}).stdout == "/own\n"
        session.install("one")  # not copied again: it comes first
        assert session.exec(["python3", "-c", NAMES]).stdout == "one\n"
        assert len(session.files.list(f"{home}/{COPIES}")) == 3
        assert running.running
        running.kill()


@LEVELS
def test_interpreters_of_a_session_find_them(index, level):
    """Those that run, with their state, and those that start later."""
    with pycordon.Session(isolation=level, limits_memory="1G") as session:
        session.execute("x = 1")
        session.execute("x=1", "bash")
        session.execute("var x = 1", "js")
        session.install("one")
        session.install("two", "npm:is-number")
        assert session.execute(NAMES + "; print(x)").stdout == "two\n1\n"
        assert session.execute("one-tool; two-tool; echo $x", "bash").stdout == "one runs\ntwo runs\n1\n"
        assert session.execute("require('is-number') + ' ' + x", "js").text == "'is-number 1.0.0 1'"
        later = session.interpreter()
        assert later.execute(NAMES).stdout == "two\n"
        session.install("one")  # not copied again: it comes first
        assert session.interpreter().execute(NAMES).stdout == "one\n"
        code = "import sys; sys.modules.pop('both_mod', None); " + NAMES
        assert session.execute(code).stdout == later.execute(code).stdout == "one\n"


def test_interpreters_of_an_async_session_find_them(index):
    async def main():
        async with pycordon.AsyncSession() as session:
            await session.execute("x = 1")
            await session.install("one", "two")
            assert (await session.execute("import one_mod, two_mod; x")).text == "1"

    asyncio.run(main())


@LEVELS
def test_a_detached_session_and_whoever_joins_it(index, level):
    """Commands and interpreters of all clients, those that run and those that come."""
    session = pycordon.DetachedSession.create(isolation=level, limits_memory="1G", env={"PYTHONPATH": "/mine"}, idle="5m")
    try:
        for code, language in (("x = 1", "python"), ("x=1", "bash"), ("var x = 1", "js")):
            assert session.execute(code, language).ok
        other, path = pycordon.DetachedSession.attach(session.name), session.exec("echo $PATH").stdout.strip()
        private = session.interpreter()
        assert private.execute("1").ok
        session.install("one")
        other.install("two", "npm:is-number")
        assert session.exec(["python3", "-c", NAMES]).stdout == "two\n"
        assert other.exec("one-tool; two-tool; number-tool").stdout == "one runs\ntwo runs\nnumber runs\n"
        shown = other.exec("env")
        assert shown.ok, shown
        found = dict(line.split("=", 1) for line in shown.stdout.splitlines())
        assert found["PATH"].endswith(f":{path}") and found["PATH"].startswith(f"{found['HOME']}/{COPIES}/pip-")
        assert found["PYTHONPATH"].endswith(":/mine") and found["PYTHONPATH"].count(COPIES) == 2
        assert session.exec("echo $PYTHONPATH", env={"PYTHONPATH": "/own"}).stdout == "/own\n"
        assert private.execute("import one_mod").ok
        for one in (session, other):
            assert one.execute(NAMES + "; print(x)").stdout == "two\n1\n"
            assert one.execute("one-tool; two-tool; echo $x", "bash").stdout == "one runs\ntwo runs\n1\n"
            assert one.execute("require('is-number') + ' ' + x", "js").text == "'is-number 1.0.0 1'"
            assert one.interpreter().execute(NAMES).stdout == "two\n"
        session.close_interpreter()
        assert session.execute(NAMES).stdout == "two\n"
        with pytest.raises(pycordon.CordonError):
            session.install("no-such-package")
        assert other.exec("one-tool").stdout == "one runs\n"
    finally:
        pycordon.DetachedSession.attach(session.name).stop()


def test_a_detached_session_with_the_hosts_home(index, place, monkeypatch):
    """Nothing is installed there, even if who asks does not know what the session was made with."""
    home = place / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    session = pycordon.DetachedSession.create(fs_write=[str(home)], env={"HOME": str(home)}, idle="5m")
    try:
        with pytest.raises(pycordon.StateError, match="host's"):
            pycordon.DetachedSession.attach(session.name).install("one")
        assert list(home.rglob(COPIES)) == []
    finally:
        session.stop()


def test_an_async_detached_session(index):
    async def main():
        session = await pycordon.AsyncDetachedSession.create(idle="5m", limits_memory="1G")
        try:
            await session.execute("x = 1")
            await session.install("one", "two")
            assert (await session.execute("import one_mod, two_mod; x")).text == "1"
        finally:
            await session.stop()

    asyncio.run(main())


def test_a_session_with_packages_and_a_list_of_commands(index):
    with pycordon.Session(packages=["one"], allowed_commands=["python3"], isolation="namespaces") as session:
        session.install("two")
        assert session.exec(["python3", "-c", NAMES]).stdout == "two\n"
        session.install("one")  # mounted already: nothing is copied
        assert session.exec(["python3", "-c", NAMES]).stdout == "one\n"
        assert len(session.files.list(COPIES)) == 1


def test_a_closed_session(index):
    session = pycordon.Session()
    session.close()
    with pytest.raises(pycordon.ClosedError):
        session.install("one")
    assert not index.asked


def test_the_home_of_the_host_is_no_place(index, place, monkeypatch):
    home = place / "granted"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    with pycordon.Session(fs_write=[str(home)], isolation="namespaces") as session:
        with pytest.raises(pycordon.StateError, match="is the host's"):
            session.install("one")
        assert session.exec("echo fine").stdout == "fine\n"
    with pycordon.Interpreter("bash", fs_write=[str(home)], isolation="namespaces") as bash:
        bash.execute("x=1")
        with pytest.raises(pycordon.StateError, match="is the host's"):
            bash.install("one")
        assert bash.execute("echo $x").stdout == "1\n"
    assert not index.asked and not list(home.iterdir())


# --- interpreters --------------------------------------------------------------------------------


@LEVELS
def test_python_goes_on_with_them(index, level):
    with pycordon.Interpreter(isolation=level) as python:
        assert python.execute("state = 1; import one_mod").error.name == "ModuleNotFoundError"
        python.install("one")
        assert python.execute("import one_mod, both_mod; one_mod.main(); both_mod.NAME, state").text == "('one', 1)"
        python.install("two")
        fresh = "import importlib; importlib.reload(both_mod).NAME, both_mod.NAME, state"
        assert python.execute(fresh).text == "('two', 'two', 1)"
        python.set_vars({"commands": f"one-tool; two-tool; python3 -c '{NAMES}'"})
        assert python.execute("import os; _ = os.system(commands)").stdout == "one runs\ntwo runs\ntwo\n"
        path = python.execute("import sys; ' '.join(sys.path)").text.strip("'").split()
        assert [COPIES in p for p in path].index(True) > path.index(json.__file__[: json.__file__.index("/json/")])
        # A fresh one sees what the sandbox sees by now.
        python.restart()
        assert python.execute("import one_mod, both_mod; both_mod.NAME").text == "'two'"
        assert COPIES not in python.execute("one_mod.__file__").text
        assert python.sandbox.run("one-tool").stdout == "one runs\n"
        python.install("one")  # it has been started with that
        assert python.execute("importlib = __import__('importlib'); importlib.reload(both_mod).NAME").text == "'one'"


@LEVELS
def test_modules_in_machine_code(index, level):
    import _multiprocessing as module

    if not getattr(module, "__file__", None):
        pytest.skip("it is part of this interpreter")
    file = pathlib.Path(module.__file__)
    index.add(wheel("native", files={"native/__init__.py": "", f"native/{file.name}": file.read_bytes()}))
    with pycordon.Interpreter(isolation=level) as python:
        python.execute("x = 1")
        python.install("native")
        assert python.execute("import native._multiprocessing as m; m.SemLock.__name__, x").text == "('SemLock', 1)"


@LEVELS
def test_javascript_goes_on_with_them(index, level):
    with pycordon.Interpreter("javascript", isolation=level, limits_memory="1G") as node:
        assert "Cannot find module" in node.execute("const state = 1; require('is-number')").error.value
        node.install("npm:is-number", "one")
        assert node.execute("require('is-number') + state").text == "'is-number 1.0.01'"
        code = "require('child_process').execSync('number-tool; one-tool').toString()"
        assert node.execute(code).text == "'number runs\\none runs\\n'"


@LEVELS
def test_bash_goes_on_with_them(index, level):
    with pycordon.Interpreter("bash", isolation=level, limits_memory="1G") as bash:
        assert bash.execute("state=1; one-tool").status == 127
        bash.install("one", "npm:is-number")
        assert bash.execute("one-tool; number-tool; echo $state; exit 3").stdout == "one runs\nnumber runs\n1\n"
        assert bash.execute("one-tool").stdout == "one runs\n"  # the shell after `exit`


def test_one_that_has_not_started_or_has_ended(index):
    with pycordon.Interpreter() as python:
        python.install("one")
        assert COPIES not in python.execute("import one_mod; one_mod.__file__").text
        assert python.execute("import os; os._exit(3)").ended
        python.install("two")
        assert python.execute(NAMES).stdout == "two\n"
        python.close()
        with pytest.raises(pycordon.ClosedError):
            python.install("one")


def test_one_that_dies_meanwhile(index):
    with pycordon.Interpreter() as python:
        python.execute("import os, threading, time")
        python.execute("threading.Thread(target=lambda: (time.sleep(0.2), os._exit(4))).start()")
        time.sleep(1)
        with pytest.raises(pycordon.StateError, match="ended with status 4"):
            python.install("one")
        python.install("one")
        assert python.execute("import one_mod; one_mod.main()").stdout == "one runs\n"


def test_code_that_has_changed_what_the_driver_needs(index):
    with pycordon.Interpreter() as python:
        python.execute("import sys, os, json; path = sys.path; sys.path = None; json.loads = None")
        with pytest.raises(pycordon.UsageError):
            python.install("one")
        python.execute("sys.path = path; import importlib; importlib.reload(json)")
        python.install("one")
        assert python.execute("import one_mod; one_mod.main()").stdout == "one runs\n"
        assert len(python.sandbox.files.list(f"../{COPIES}")) == 1


def test_forks_keep_them(index):
    if not pycordon_can_fork():
        pytest.skip("no forks here")
    with pycordon.Interpreter(isolation="namespaces") as python:
        python.execute("x = 1")
        early = python.fork()
        python.install("one")
        python.execute("import both_mod")
        left, right = python.fork(2)
        with early, left, right:
            assert left.execute("import one_mod; one_mod.main(); both_mod.NAME").text == "'one'"
            right.install("two")  # one that has not started yet
            assert right.execute("import importlib; importlib.reload(both_mod).NAME, x").text == "('two', 1)"
            assert left.execute("import two_mod").error.name == "ModuleNotFoundError"
            assert early.execute("import one_mod").error.name == "ModuleNotFoundError"
            early.install("one")
            assert early.execute("import one_mod; one_mod.main()").stdout == "one runs\n"
            with right.fork() as again:
                assert again.execute("import two_mod; two_mod.main()").stdout == "two runs\n"
            left.restart()
            assert left.execute("import one_mod; one_mod.main()").stdout == "one runs\n"


def pycordon_can_fork():
    try:
        with pycordon.Interpreter() as python:
            python.fork().close()
        return True
    except pycordon.UnsupportedError:
        return False


LATE = "import time; time.sleep(1)\ntry: import one_mod\nexcept ImportError: print('none')"


def test_one_that_waits_for_its_turn(index):
    """The code that runs is not disturbed; what comes after it has the packages."""
    with pycordon.Interpreter() as python:
        python.start()
        done = []
        thread = threading.Thread(target=lambda: done.append(python.execute(LATE)))
        thread.start()
        until(lambda: python._live.task is not None, "the code runs")
        python.install("one")
        thread.join()
        assert done[0].stdout == "none\n" and python.execute("import one_mod; one_mod.main()").stdout == "one runs\n"


def test_with_a_workspace(index, place):
    project = place / "project"
    project.mkdir()
    with pycordon.Interpreter(fs_workspace=str(project), isolation="namespaces") as python:
        python.execute("open('file', 'w').write('x')")
        python.install("one")
        assert python.execute("import one_mod; one_mod.main(); open('file').read()").text == "'x'"
        assert not list(project.iterdir())


# --- space ---------------------------------------------------------------------------------------


@pytest.fixture
def large(index):
    index.add(wheel("large", files={"large.py": "", "one.bin": os.urandom(12 << 20), "two.bin": os.urandom(12 << 20)}))
    return index


def test_one_that_does_not_fit_into_an_interpreters_sandbox(large):
    with pycordon.Interpreter(limits_disk="16M") as python:
        with pytest.raises(OSError) as full:
            python.sandbox.files.write("large", b"x" * (20 << 20))
        python.sandbox.files.remove("large", missing_ok=True)
        python.execute("x = 1")
        with pytest.raises(OSError) as caught:
            python.install("large")
        assert type(caught.value) is type(full.value) and caught.value.errno == full.value.errno == errno.ENOSPC
        assert python.execute("import large").error.name == "ModuleNotFoundError"
        assert not python.sandbox.files.exists(f"../{COPIES}")
        assert python.execute("x").text == "1"
        python.install("one")
        assert python.execute("import one_mod; one_mod.main()").stdout == "one runs\n"


def test_one_that_does_not_fit_into_a_session(large):
    with pycordon.Session(limits_disk="16M", limits_memory="512M", isolation="namespaces") as session:
        with pytest.raises(OSError) as full:
            session.files.write("large", b"x" * (20 << 20))
        session.files.remove("large", missing_ok=True)
        with pytest.raises(OSError) as caught:
            session.install("large")
        assert type(caught.value) is type(full.value) and caught.value.errno == full.value.errno == errno.ENOSPC
        assert session.files.list(COPIES) == []
        assert "ModuleNotFoundError" in session.exec(["python3", "-c", "import large"]).stderr
        session.install("one")
        assert session.exec("one-tool").stdout == "one runs\n"


# --- hostile guests ------------------------------------------------------------------------------


@LEVELS
def test_a_link_in_the_place_of_the_directory_leads_nowhere_outside(index, level, place):
    """Outside the link leads to a directory that could be written to; followed inside it leads to what the
    guest could write to anyway, or nowhere."""
    target = place / "target"
    target.mkdir(mode=0o777)
    target.chmod(0o777)
    (target / "mine").write_text("mine")
    with pycordon.Interpreter(isolation=level) as python:
        python.execute("import os, pathlib; home = pathlib.Path.home()")
        python.execute(f"(home / '{COPIES}').symlink_to({str(target)!r})")
        link = python.execute(f"os.readlink(home / '{COPIES}')").text.strip("'")
        (pathlib.Path(link) / "control").write_text("outside it leads there")
        with pytest.raises(OSError):
            python.install("one")
        assert python.execute("import one_mod").error.name == "ModuleNotFoundError"
        python.execute(f"(home / '{COPIES}').unlink()")
        python.install("one")
        assert python.execute("import one_mod; one_mod.main()").stdout == "one runs\n"
    assert sorted(path.name for path in target.iterdir()) == ["control", "mine"]
    with pycordon.Session(isolation=level) as session:
        assert session.exec(["ln", "-s", str(target), COPIES]).ok
        with pytest.raises(OSError):
            session.install("one")
        session.exec(["rm", COPIES])
        session.install("one")
        assert session.exec("one-tool").stdout == "one runs\n"
    assert sorted(path.name for path in target.iterdir()) == ["control", "mine"]


SWAP = f"""
import os, pathlib, sys
home, target, n = pathlib.Path.home(), sys.argv[1], 0
copies = home / '{COPIES}'
while True:
    try:
        for name in [copies, *(copies.iterdir() if copies.is_dir() else ())]:
            n += 1
            os.rename(name, f'{{home}}/away{{n}}')
            os.symlink(target, name)
            os.unlink(name)
    except OSError:
        pass
"""


@LEVELS
def test_a_guest_that_swaps_directories_meanwhile_gets_nothing_outside(index, level, place):
    target = place / "target"
    target.mkdir(mode=0o777)
    target.chmod(0o777)
    index.add(wheel("many", files={f"many/{n}/{m}.py": "x = 1\n" for n in range(30) for m in range(10)}))
    with pycordon.Session(isolation=level, limits_memory="512M") as session:
        session.files.mkdir(COPIES)
        swapper = session.start(["python3", "-c", SWAP, str(target)], timeout=ceiling(60))
        until(lambda: session.files.exists("away1"), "it swaps")
        for _ in range(5):
            try:
                session.install("many")
                break
            except OSError:
                pass
        assert swapper.running
        swapper.kill()
        assert swapper.wait() is not None and len(session.files.glob("away*")) > 1
        session.exec(["rm", "-rf", COPIES])
        session.install("one")
        assert session.exec("one-tool").stdout == "one runs\n"
    assert list(target.iterdir()) == []
    tree = next(cache().glob("pip-*/tree/many")).parent
    assert len(list(tree.glob("many/*/*.py"))) == 300  # the cache is what it was


@LEVELS
def test_what_a_guest_does_to_its_copy_stays_there(index, level):
    with pycordon.Interpreter(isolation=level) as python:
        python.execute("x = 1")
        python.install("one")
        python.execute("import one_mod; open(one_mod.__file__, 'w').write('def main(): print(\"changed\")\\n')")
        python.execute("import importlib; importlib.reload(one_mod)")
        assert python.execute("one_mod.main()").stdout == "changed\n"
        assert python.sandbox.run("one-tool").stdout == "one runs\n"
        assert python.sandbox.run_code("import one_mod; one_mod.main()").stdout == "one runs\n"
        python.restart()
        assert python.execute("import one_mod; one_mod.main()").stdout == "one runs\n"


def test_a_link_in_a_package_is_a_link_in_the_copy(index):
    with pycordon.Session(limits_memory="1G") as session:
        session.install("npm:is-number")
        (link,) = session.files.glob(f"{COPIES}/*/node_modules/.bin/*")
        assert link.type == "link" and link.target == "../is-number/bin.js"


# --- documents -----------------------------------------------------------------------------------

SOURCE = pathlib.Path(os.environ.get("CORDON_SOURCE", pathlib.Path(__file__).parents[2]))
EXAMPLES = re.findall(r"^```python\n(.*?)^```", (SOURCE / "docs/packages.md").read_text(), re.M | re.S)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples(index, host, number):  # in this order: the host's process is told where the index is
    """With stand-ins of the packages that they name."""
    index.add(wheel("numpy", version="2.1.0", files={"numpy.py": "__version__ = '2.1.0'\n"}))
    series = "class Series(list):\n    def sum(self): return sum(self)\n"
    index.add(wheel("pandas", version="2.2.0", files={"pandas.py": series}))
    index.add_npm(npm_package("lodash", version="4.17.21"))
    host("import pycordon\n" + EXAMPLES[number])


# --- coroutines ----------------------------------------------------------------------------------


def test_the_same_as_coroutines(index):
    async def main():
        async with pycordon.AsyncSandbox(limits_memory="1G") as box:
            await box.install("one", "npm:is-number")
            assert (await box.run("one-tool; number-tool")).stdout == "one runs\nnumber runs\n"
        async with pycordon.AsyncSession() as session:
            await session.install("one")
            await session.install("two")
            assert (await session.exec(["python3", "-c", NAMES])).stdout == "two\n"
        async with pycordon.AsyncInterpreter() as python:
            await python.execute("x = 1")
            await python.install("one")
            assert (await python.execute("import one_mod; one_mod.main(); x")).stdout == "one runs\n"
            with pytest.raises(pycordon.SetupError, match="No matching distribution"):
                await python.install("nosuch")
            await python.install("two")
            assert (await python.execute(NAMES + "; x")).text == "1"
            assert (await python.sandbox.run("two-tool")).stdout == "two runs\n"
        async with pycordon.AsyncPool(workers=1) as pool:
            await pool.install("one")
            (graded,) = await pool.map(["import one_mod; one_mod.main()"])
            assert graded.result.stdout == "one runs\n"

    asyncio.run(main())


@pytest.mark.parametrize("make", [pycordon.AsyncSandbox, pycordon.AsyncSession, pycordon.AsyncInterpreter])
def test_a_cancelled_installation(index, make):
    async def main():
        async with make() as thing:
            index.gate = threading.Event()
            task = asyncio.ensure_future(thing.install("one"))
            while not index.asked:
                await asyncio.sleep(0.01)
            task.cancel()
            began = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - began < ceiling(5)
            index.gate.set()
            await thing.install("two")
            do = thing.execute if make is pycordon.AsyncInterpreter else getattr(thing, "exec", None) or thing.run
            code = "import two_mod; two_mod.main()" if make is pycordon.AsyncInterpreter else "two-tool"
            assert (await do(code)).stdout == "two runs\n"

    asyncio.run(main())


def test_a_session_of_a_scheduler(index):
    async def main():
        async with pycordon.Scheduler(allowed_packages=["one"], max_concurrency=1) as scheduler:
            async with scheduler.session() as session:
                await session.run("x = 1")
                await session.install("one")
                assert (await session.run("import one_mod; one_mod.main(); x")).text == "1"
                assert (await session.exec("one-tool")).stdout == "one runs\n"
                with pytest.raises(pycordon.PolicyError, match="not one of the allowed packages"):
                    await session.install("two")
                await session.restart()
                assert (await session.run("import one_mod; one_mod.main()")).stdout == "one runs\n"

    asyncio.run(main())
