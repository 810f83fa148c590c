# SPDX-License-Identifier: Apache-2.0
"""Forks of an interpreter with a workspace: each has a branch of it, and what it does there is its own."""

import asyncio
import gc
import os
import pathlib
import signal
import subprocess
import sys

import pytest

import pycordon
from pycordon import AsyncInterpreter, Interpreter, StateError, workspaces
from pylib import ceiling, until


@pytest.fixture
def project(tmp_path):
    made = tmp_path / "project"
    (made / "src").mkdir(parents=True)
    (made / "a").write_text("base\n")
    (made / "b").write_text("other\n")
    (made / "src" / "x.py").write_text("x = 1\n")
    return made


@pytest.fixture
def python(place, project):
    with Interpreter("python", fs_workspace=str(project), name="start") as made:
        yield made


def picture(directory):
    """Everything in a directory, with times."""
    found = {}
    for path in sorted(pathlib.Path(directory).rglob("*")):
        st = path.lstat()
        found[str(path)] = (st.st_mode, st.st_mtime_ns, st.st_ino, path.read_bytes() if path.is_file() else None)
    return found


def changed(which):
    """What differs from the base: kind by path."""
    with workspaces.open(which) as workspace:
        return {change["path"]: change["kind"] for change in workspace.changes()}


def ids():
    return {entry["id"] for entry in workspaces.list()}


def own(fork):
    """The id of a fork's branch."""
    with fork.sandbox.workspace as workspace:
        return workspace.id


def test_each_edits_the_same_file_and_one_is_taken(python, project):
    before = picture(project)
    assert python.execute("n = open('a', 'a').write('parent\\n')").ok
    forks = python.fork(3)
    for n, fork in enumerate(forks):
        with fork:
            assert fork.execute(f"open('a', 'a').write('fork {n}\\n'); open('a').read()").text == f"'base\\nparent\\nfork {n}\\n'"
    patches = [fork.sandbox.workspace.patch() for fork in forks]
    assert [f"+fork {n}\n" in patch for n, patch in enumerate(patches)] == [True] * 3
    assert all(patch.count("\n+") == 3 for patch in patches), "its own line, that of the parent, and the head"
    assert picture(project) == before, "nothing has touched the directory"
    assert python.execute("open('a').read()").text == "'base\\nparent\\n'"
    assert changed("start") == {"a": "modified"}

    got = forks[1].sandbox.workspace.commit()
    assert got.ok and got.is_empty and (project / "a").read_text() == "base\nparent\nfork 1\n"
    for fork in forks:
        fork.sandbox.workspace.discard()
        assert fork.sandbox.workspace is None
    assert python.execute("open('a').read()").text == "'base\\nparent\\n'"
    assert [entry["name"] for entry in workspaces.list()] == ["start"]


def test_all_that_can_change_is_in_a_branch(python, project):
    (project / "gone").mkdir()
    (project / "gone" / "x").write_text("it goes")
    (project / "new").mkdir()
    (project / "new" / "old").write_text("old")
    assert python.execute("""
import os, shutil
shutil.rmtree('gone'); os.rename('b', 'c'); os.chmod('a', 0o755)
shutil.rmtree('new'); os.mkdir('new'); open('new/here', 'w').write('here')  # opaque: what was below does not show
os.symlink('/etc/passwd', 'link'); os.mkdir('shut'); open('shut/in', 'w').write('in'); os.chmod('shut', 0)
open('hard', 'w').write('1'); os.link('hard', 'link2'); os.setxattr('a', 'user.mine', b'1')
""").ok
    look = """(sorted(os.listdir('.')), os.listdir('new'), oct(os.stat('a').st_mode), os.readlink('link'), open('c').read(),
 oct(os.stat('shut').st_mode), os.stat('hard').st_ino == os.stat('link2').st_ino, os.getxattr('a', 'user.mine'))"""
    with python.fork() as fork:
        mine, theirs = python.execute(look), fork.execute(look)
        assert mine.ok and mine.text == theirs.text
        which = own(fork)
        assert changed(which) == changed("start")
    assert changed(which)["c"] == "renamed" and changed(which)["gone/x"] == changed(which)["new/old"] == "deleted"


def test_what_a_fifo_hides_stays_hidden(python, project):
    (project / "d").mkdir()
    (project / "d" / "x").write_text("it goes")
    assert python.execute("""
import os, shutil, socket
os.unlink('a'); os.mkfifo('a'); os.unlink('b'); shutil.rmtree('d'); os.mkfifo('d')
socket.socket(socket.AF_UNIX).bind('b')
""").ok
    look = "[(name, os.lstat(name).st_mode) for name in sorted(os.listdir('.'))]"
    with python.fork() as fork:
        assert python.execute(look).text == fork.execute(look).text
        assert changed(own(fork)) == changed("start") == {"a": "type", "b": "type", "d": "type", "d/x": "deleted"}


def test_many_names_of_a_file(place, project):
    """limits.disk counts inodes. Hard links and deleted names, which are names of one file too, are bounded elsewhere."""
    for n in range(4200):
        (project / f"old{n}").touch()
    with Interpreter("python", fs_workspace=str(project), limits_disk="16M", name="start") as python:
        assert python.execute("""
import os
for n in range(4200): os.unlink(f'old{n}')
open('one', 'w').close(); open('/tmp/one', 'w').close()
for n in range(4200): os.link('one', f'src/{n}'); os.link('/tmp/one', f'/tmp/{n}')
""").ok
        look = "len(os.listdir('.')), len(os.listdir('src')), sum(n == 'one' or n.isdigit() for n in os.listdir('/tmp')), os.stat('one').st_nlink"
        with python.fork() as fork:
            assert fork.execute(look).text == python.execute(look).text == "(4, 4201, 4201, 4201)"
    subprocess.run([pycordon.command(), "run", "--from", "start", "--disk", "16M", "--", "true"], check=True)


def test_files_and_directory_go_on(python, project):
    """Open files are opened again by their path, at their offset, in the branch."""
    assert python.execute("""
import os
os.chdir('src')
log = open('log', 'w+'); log.write('first '); log.flush()
old = open('x.py'); old.read(2)
""").ok
    one, two = python.fork(2)
    for fork, word in ((one, "one"), (two, "two")):
        got = fork.execute(f"log.write({word!r}); log.flush(); os.getcwd(), log.tell(), old.read(), open('log').read()")
        assert got.text == repr((str(project / "src"), 9, "= 1\n", f"first {word}"))
    assert python.execute("log.tell(), open('log').read()").text == "(6, 'first ')"
    one.close()
    two.close()


def test_forks_of_forks(python):
    assert python.execute("trace = ['root']; open('trace', 'w').write('root')").ok
    chain = [python]
    for n in range(3):
        chain.append(chain[-1].fork())
        assert chain[-1].execute(f"trace.append({n}); open('trace', 'a').write('{n}'); trace").ok
    late = chain[-1].fork()  # of one that runs, and
    later = late.fork()  # of one that was not started
    python.close()  # nothing depends on it
    for each, text in ((chain[1], "root0"), (chain[3], "root012"), (late, "root012"), (later, "root012")):
        assert each.execute("open('trace').read()").text == repr(text)
    assert later.execute("open('trace', 'a').write('!')").ok
    assert late.execute("open('trace').read()").text == "'root012'"
    assert len({own(each) for each in (*chain[1:], late, later)}) == 5
    for each in (*chain[1:], late, later):
        each.close()


def test_a_fork_is_of_its_moment(python):
    assert python.execute("open('a', 'w').write('1')").ok
    early = python.fork()
    assert python.execute("open('a', 'w').write('2')").ok
    late = python.fork()
    assert python.execute("open('a', 'w').write('3')").ok
    assert [each.execute("open('a').read()").text for each in (early, late, python)] == ["'1'", "'2'", "'3'"]
    early.close()
    late.close()


def test_what_stays_and_what_goes(python, left):
    """As with any sandbox: what was changed waits for a decision. A branch without a run, or without a change,
    goes with its fork."""
    assert python.execute("x = 1").ok
    (start,) = ids()
    unused, looked, undone, used = python.fork(4)
    assert len(ids()) == 5
    assert looked.execute("open('a').read()").ok
    assert undone.execute("import os; open('t', 'w').close(); os.unlink('t')").ok
    assert used.execute("open('t', 'w').write('x')").ok
    kept = own(used)
    for each in (unused, looked, undone, used):
        each.close()
    assert ids() == {start, kept}
    assert used.sandbox.workspace.id == kept and changed(kept) == {"t": "added"}
    forgotten = python.fork(2)
    assert len(ids()) == 4
    del forgotten
    gc.collect()
    assert ids() == {start, kept}
    python.close()
    assert left() == []


def test_restart_finds_the_files(python):
    assert python.execute("open('a', 'w').write('mine')").ok
    with python.fork() as fork:
        assert fork.execute("open('a', 'a').write(' and yours')").ok
        fork.restart()
        assert fork.execute("open('a').read()").text == "'mine and yours'"
        assert fork.execute("import os; os._exit(3)").ended
        assert fork.execute("open('a').read()").text == "'mine and yours'"
        which = own(fork)
    assert fork.sandbox.workspace.id == which


def test_a_workspace_without_a_name_is_found_again(place, project):
    """An interpreter that is ended gives no result that would name it."""
    with Interpreter("python", fs_workspace=str(project)) as python:
        assert python.execute("open('a', 'w').write('mine')").ok
        assert changed(own(python)) == {"a": "modified"}
        python.restart()
        assert python.execute("open('a').read()").text == "'mine'"
        assert python.execute("while True: pass", timeout=0.2).timed_out
        assert python.execute("open('a').read()").text == "'mine'"
    assert ids() == {own(python)} and python.sandbox.workspace.commit().ok
    assert (project / "a").read_text() == "mine"
    with Interpreter("python", fs_workspace=str(project)) as looked:
        assert looked.execute("open('a').read()").text == "'mine'"
    assert looked.sandbox.workspace is None


def test_in_a_sandbox_that_has_a_workspace(place, project):
    with pycordon.Sandbox(fs_workspace=str(project)) as box:
        assert box.run("echo run > made").ok
        with Interpreter("python", sandbox=box) as python:
            assert python.execute("open('made').read()").text == "'run\\n'"
            with python.fork() as fork:
                assert fork.execute("open('made', 'a').write('fork'); open('made').read()").text == "'run\\nfork'"
            assert python.execute("open('made').read()").text == "'run\\n'"
        assert box.run("cat made").stdout == "run\n"


def test_a_second_user_of_the_workspace(python):
    """The lock stays where it is: a fork neither takes nor frees it."""
    assert python.execute("open('a', 'w').write('mine')").ok
    with python.fork() as fork:
        assert fork.execute("open('a').read()").text == "'mine'"
        with workspaces.open("start") as workspace, pytest.raises(StateError, match="in use"):
            workspace.commit()
        with workspaces.open(own(fork)) as workspace, pytest.raises(StateError, match="in use"):
            workspace.discard()
        with pytest.raises(pycordon.CordonError, match="in use"):
            pycordon.Sandbox(fs_workspace=workspaces.open("start").base, name="start").run("true")
    assert python.execute("open('a').read()").text == "'mine'"


def test_conflicts_are_those_of_the_parent(python, project):
    """The base that a branch is compared with is the one that its parent saw."""
    assert python.execute("open('a', 'w').write('inside')").ok
    fork = python.fork()
    (project / "a").write_text("outside")
    (project / "b").write_text("outside")
    with fork:
        assert fork.execute("open('made', 'w').write('x')").ok
    workspace = fork.sandbox.workspace
    got = workspace.commit()
    assert got.conflicts == 1 and got.applied == 0 and (project / "a").read_text() == "outside"
    assert workspace.commit(conflicts="theirs").applied == 2
    assert ((project / "a").read_text(), (project / "b").read_text()) == ("inside", "outside")


def test_what_a_fork_remembers_may_be_old(python, project):
    """Its memory has what its parent read, whatever the directory has when it first looks itself."""
    assert python.execute("text = open('a').read()").ok
    early = python.fork()
    with python.fork() as middle:
        assert middle.execute("1").ok
        late = middle.fork()  # the memory is the same
    (project / "a").write_text("outside")
    (project / "b").write_text("outside")
    for fork in (early, late):
        with fork:
            assert fork.execute("open('a', 'w').write(text + 'fork')").ok
        got = fork.sandbox.workspace.commit()
        assert (got.conflicts, got.applied) == (1, 0) and (project / "a").read_text() == "outside"
    # What a commit changes is none, and a run that begins later has no such memory.
    with fork.sandbox.workspace as workspace:
        assert workspace.commit(conflicts="theirs").applied == 1
    with pycordon.Sandbox(fs_workspace=str(project), name="later") as box:
        assert box.run("echo later >b").ok
        assert box.workspace.commit().applied == 1 and (project / "b").read_text() == "later\n"


def test_hidden_names_are_no_changes(place, project):
    """What hides them is made in the workspace, and is not part of a branch."""
    (project / "key").write_text("secret")
    deny = [str(project / "key"), str(project / "none"), str(project / "src" / "none")]
    with Interpreter("python", fs_workspace=str(project), fs_deny=deny, name="start") as python:
        assert python.execute("open('made', 'w').write('x')").ok
        unused, used = python.fork(2)
        assert changed(own(unused)) == {"made": "added"}
        assert used.execute("open('key').read()").error.name in ("FileNotFoundError", "PermissionError")
        which = own(used)
        used.close()
        unused.close()
    assert changed(which) == {"made": "added"}


def test_in_an_event_loop(place, project):
    async def work():
        async with AsyncInterpreter("python", fs_workspace=str(project)) as python:
            await python.execute("open('a', 'w').write('parent')")
            forks = await python.fork(3)
            done = await asyncio.gather(*(fork.execute(f"open('a', 'a').write('{n}'); open('a').read()") for n, fork in enumerate(forks)))
            assert [each.text for each in done] == [f"'parent{n}'" for n in range(3)]
            for fork in forks:
                await fork.close()
            for fork in forks[1:]:
                fork.sandbox.workspace.discard()
            assert forks[0].sandbox.workspace.commit().ok
            assert (await python.execute("open('a').read()")).text == "'parent'"

    asyncio.run(asyncio.wait_for(work(), ceiling(60)))
    assert (project / "a").read_text() == "parent0"


@pytest.mark.skipif(os.geteuid() == 0, reason="root's workspaces are always overlays here")
def test_of_a_copy(place):
    """A directory of another user is copied, and so is its branch."""
    base = "/etc/skel"
    with Interpreter("python", fs_workspace=base, name="start") as python:
        assert python.execute("open('made', 'w').write('parent')").ok
        with workspaces.open("start") as workspace:
            assert workspace.info["mechanism"] in ("copy", "reflink")
        with python.fork() as fork:
            assert fork.execute("open('made', 'a').write('fork'); open('made').read()").text == "'parentfork'"
            which = own(fork)
        assert python.execute("open('made').read()").text == "'parent'"
        assert changed(which) == changed("start") == {"made": "added"}


# --- hostile code ----------------------------------------------------------------------------------

TOUCH = """
def touch(store):
    found = {}
    for name in ('upper/planted', 'upper/a', 'work/planted', 'meta.json', 'lock', 'records'):
        try:
            open(f'{store}/{name}', 'a').close()
            found[name] = True
        except OSError:
            found[name] = False
    return found
"""


def test_the_branch_itself_is_out_of_reach(python, place):
    """Control: outside, who knows the path writes there."""
    assert python.execute("open('a', 'w').write('mine')").ok
    control, fork = python.fork(2)
    store = place / "state" / "cordon" / "workspaces"
    names = {}
    exec(TOUCH, names)
    assert all(names["touch"](store / own(control)).values()), "the control works"
    control.close()
    paths = [str(store / which) for which in (*ids(), own(fork))]
    with fork:
        assert fork.execute(TOUCH).ok
        for path in paths:
            got = fork.execute(f"any(touch({path!r}).values())")
            assert got.text == "False", got
        # Nor by a name of its own file system, or as a mount.
        assert fork.execute("[line for line in open('/proc/self/mountinfo') if '/upper' in line.split(' - ')[0]]").text == "[]"
        before = changed(own(fork))
    assert before == {"a": "modified"}


def test_marks_and_links_of_a_guest_lead_nowhere(python, project, tmp_path):
    """A parent makes what an overlay or a copy might obey; a fork has it as a parent has, and nothing outside is
    read or written."""
    secret = tmp_path / "secret"
    secret.write_text("canary")
    got = python.execute(f"""
import os
done = []
def attempt(work):
    try: work(); done.append(True)
    except OSError: done.append(False)
os.mkdir('d'); open('f', 'w').write('mine')
attempt(lambda: os.symlink({str(tmp_path)!r}, 'out'))
attempt(lambda: os.symlink({str(secret)!r}, 'leads'))
for name in ('opaque', 'redirect', 'metacopy', 'origin', 'whiteout'):
    for path in ('d', 'f', 'src'):
        attempt(lambda: os.setxattr(path, f'user.overlay.{{name}}', b'/../../secret'))
        attempt(lambda: os.setxattr(path, f'trusted.overlay.{{name}}', b'/../../secret'))
attempt(lambda: os.mknod('node', 0o020666, os.makedev(0, 0)))
attempt(lambda: os.mknod('null', 0o020666, os.makedev(1, 3)))
done[:2]
""")
    assert got.text == "[True, True]"
    look = "(sorted(os.listdir('.')), sorted(os.listdir('d')), sorted(os.listdir('src')), open('f').read())"
    with python.fork() as fork:
        assert fork.execute(look).text == python.execute(look).text
        assert fork.execute("open('leads').read()").error.name in ("FileNotFoundError", "PermissionError")
        fork.execute("open('out/planted', 'w')")  # what that is inside is private
        assert changed(own(fork)) == changed("start")
    assert secret.read_text() == "canary" and not (tmp_path / "planted").exists()


# A process that goes on although the driver says that none does.
LIE = """
import gc, os, subprocess, sys
driver = next(o for o in gc.get_objects() if type(o) is dict and o.get('__name__') == '<cordon>' and '_serve' in o)
kept = 7
child = subprocess.Popen([sys.executable, '-c', CHILD], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
driver['_look_at_processes'] = lambda: None
"""
# It moves what it has written ahead of who reads: without a bound a copy would not end.
CHILD = """
import os, shutil
os.makedirs('run/0', exist_ok=True)
n = 0
while True:
    n += 1
    os.makedirs(f'run/{n}/d', exist_ok=True)
    for k in range(20):
        with open(f'run/{n}/d/{k}', 'w') as file: file.write('x' * 5000)
    os.rename(f'run/{n}/d', f'run/{n}/e{n}')
    if n > 3: shutil.rmtree(f'run/{n - 3}')
"""


def test_a_parent_that_is_not_at_rest(place, project):
    """The driver lies, and files change while they are copied: the branch is bounded, and the damage is in it
    alone."""
    before = picture(project)
    with Interpreter("python", fs_workspace=str(project), name="start", limits_disk="16M", grace=ceiling(2)) as python:
        assert python.execute("open('a', 'w').write('mine')").ok
        with python.fork() as calm:
            assert python.execute(f"CHILD = {CHILD!r}\n{LIE}").ok
            for _ in range(3):
                try:
                    forks = python.fork(2)
                except pycordon.CordonError as error:  # something was moved while it was copied
                    assert "\n" not in str(error)
                    continue
                for fork in forks:
                    with fork:
                        assert fork.execute("open('a').read()").text == "'mine'"
                    fork.sandbox.workspace.discard()
            assert calm.execute("open('a').read(), 'child' in dir()").text == "('mine', False)"
        assert python.execute("child.kill(); child.wait(); kept").text == "7"
        with python.fork() as fork:
            assert fork.execute("open('a').read()").text == "'mine'"
    assert picture(project) == before


def test_a_branch_is_bounded(place, project):
    with Interpreter("python", fs_workspace=str(project), limits_disk="4M", name="start") as python:
        assert python.execute("n = open('big', 'wb').write(bytes(3 << 20)); open('small', 'w').close()").ok
        with python.fork() as fork:
            full = fork.execute("open('more', 'wb').write(b'x' * (3 << 20)); import time; time.sleep(30)", timeout=ceiling(20))
            assert full.ended and "limit of 4M" in full.reason, full
            which = own(fork)
        workspaces.open(which).discard()
    # The library's own bounds, for what a guest adds while it is copied.
    before = ids()
    with workspaces.open("start") as workspace:
        workspaces.open(workspace._native.branch(3 << 20, 2)).discard()  # the control
        for most in ((1 << 20, 0), (0, 1)):
            with pytest.raises(pycordon._cordon.Error, match="more than may be copied"):
                workspace._native.branch(*most)
        assert ids() == before


def test_a_failure_leaves_nothing(python, monkeypatch):
    """If one of several cannot be made, none is."""
    assert python.execute("open('a', 'w').write('mine')").ok
    before, calls = ids(), []
    real = pycordon._engine.of_run

    def of_run(*given):
        calls.append(given)
        if len(calls) == 3:
            raise StateError("no more")
        return real(*given)

    monkeypatch.setattr(pycordon._engine, "of_run", of_run)
    with pytest.raises(StateError, match="no more"):
        python.fork(5)
    assert ids() == before
    assert python.execute("open('a').read()").text == "'mine'"


# --- kills -----------------------------------------------------------------------------------------

HOST = """
import sys, time
from pycordon import Interpreter
python = Interpreter("python", fs_workspace=sys.argv[1], name="start")
python.execute("open('a', 'w').write('parent')")
forks = python.fork(4)
for n, fork in enumerate(forks[:3]):
    fork.execute(f"open('a', 'a').write(' {n}')")
print("ready", flush=True)
time.sleep(600)
"""


def test_a_killed_host_leaves_workspaces(place, project):
    """They are listed, looked at, committed and discarded like any other; nothing is mounted, nothing runs."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(pycordon.__file__)))
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(project)], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": package}, cwd="/"
    )
    assert host.stdout.readline() == b"ready\n"
    host.send_signal(signal.SIGKILL)
    host.wait()
    host.stdout.close()
    until(lambda: not any(entry["in_use"] for entry in workspaces.list()), "one is in use")
    assert str(place) not in pathlib.Path("/proc/self/mountinfo").read_text()
    assert len(ids()) == 5, workspaces.list()
    assert all(changed(which) == {"a": "modified"} for which in ids())
    texts = {which: workspaces.open(which).patch() for which in ids()}
    (second,) = [which for which, text in texts.items() if "+parent 1" in text]
    assert workspaces.open(second).commit().ok and (project / "a").read_text() == "parent 1"
    for which in ids():
        workspaces.open(which).discard()
    assert ids() == set()
