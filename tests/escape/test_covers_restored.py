# SPDX-License-Identifier: Apache-2.0
"""A run survives its user: protected files and directories that the host saves, makes or removes while a
run goes on. Nobody can tell what a guest wrote to them in the moment without a cover, so the former state is
back at once, and what came is put aside. What the guest made of that moment is obeyed by nobody."""

import os
import subprocess
import time

import pytest

from conftest import ceiling

PYTHON = ["/usr/bin/python3", "-I", "-c"]
HOSTILE = "touch /tmp/pwned"

SLEEPER = """
import os, time
open('ready', 'w').close()
while not os.path.exists('stop'):
    time.sleep(0.01)
raise SystemExit(7)
"""


def wait_for(path, run):
    end = time.monotonic() + ceiling(20)
    while not path.exists():
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.005)


def start(me, script=SLEEPER, *opts):
    run = me.popen(me.argv(["-w", ".", *opts], [*PYTHON, script], "namespaces"),
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    wait_for(me.work / "ready", run)
    return run


def sh(me, script):
    me.outside(["sh", "-ec", script], check=True)


def finish(me, run):
    me.write(me.work / "stop")
    out, err = run.communicate(timeout=ceiling(30))
    assert run.returncode == 7, (run.returncode, out, err)
    return err.decode()


def put(me, name, text):
    """The host saves: a new file takes the name."""
    me.write(me.out / "next", text)
    os.rename(me.out / "next", me.work / name)


def held(me, name):
    return sorted(n for n in os.listdir(me.work) if n.startswith(f"{name}.held-by-cordon"))


def wait_until_held(me, name, run, number=1):
    end = time.monotonic() + ceiling(20)
    while len(held(me, name)) < number:
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


# --- what users do ---


@pytest.mark.parametrize("name", [".envrc", ".pre-commit-config.yaml", ".mcp.json"])
def test_a_save_by_rename(me, name):
    me.write(me.work / name, "old", 0o640)
    run = start(me)
    put(me, name, "new")
    err = finish(me, run)
    assert f"put aside '{name}'" in err and f"mv {name}.held-by-cordon {name}" in err
    assert (me.work / name).read_text() == "old"
    assert (me.work / name).stat().st_mode & 0o777 == 0o640
    assert (me.work / f"{name}.held-by-cordon").read_text() == "new"


def test_a_save_that_changes_nothing(me):
    me.write(me.work / ".envrc", "old")
    run = start(me)
    put(me, ".envrc", "old")
    err = finish(me, run)
    assert "put aside" not in err and held(me, ".envrc") == []
    assert (me.work / ".envrc").read_text() == "old"


def test_a_new_file(me):
    run = start(me)
    put(me, ".mcp.json", "{}")
    err = finish(me, run)
    assert "put aside '.mcp.json'" in err
    assert not os.path.lexists(me.work / ".mcp.json")
    assert (me.work / ".mcp.json.held-by-cordon").read_text() == "{}"


@pytest.mark.parametrize("before", ["", "mkdir .vscode; echo x > .vscode/tasks.json"])
def test_a_directory_is_removed(me, before):
    sh(me, before)
    run = start(me)
    sh(me, "rm -rf .vscode")
    err = finish(me, run)
    assert "put aside" not in err
    assert not os.path.lexists(me.work / ".vscode"), "it was removed, and stays so"


@pytest.mark.parametrize("name", [".envrc", ".mcp.json"])
def test_a_file_is_removed(me, name):
    me.write(me.work / name, "old")
    run = start(me)
    sh(me, f"rm {name}")
    assert "put aside" not in finish(me, run)
    assert not os.path.lexists(me.work / name)


def test_the_former_state_can_be_taken_back_at_the_end(me):
    """The line that the user is told works."""
    me.write(me.work / ".envrc", "old")
    run = start(me)
    put(me, ".envrc", "new")
    fix = finish(me, run).split("to keep it: ")[1].splitlines()[0]
    sh(me, fix)
    assert (me.work / ".envrc").read_text() == "new"


@pytest.mark.parametrize("how", ["rm .envrc.held-by-cordon", "mv .envrc.held-by-cordon .envrc"])
def test_what_was_put_aside_is_used_meanwhile(me, how):
    me.write(me.work / ".envrc", "old")
    run = start(me)
    time.sleep(0.3)  # the state of the covers is noted by then
    put(me, ".envrc", "new")
    wait_until_held(me, ".envrc", run)
    time.sleep(0.3)
    sh(me, how)
    time.sleep(0.3)
    finish(me, run)
    assert (me.work / ".envrc").read_text() == "old"


def test_many_times_and_many_names(me):
    names = [".envrc", ".mcp.json", ".pre-commit-config.yaml"]
    for name in names:
        me.write(me.work / name, "old")
    run = start(me)
    for i in range(5):
        for name in names:
            put(me, name, f"new{i}")
        sh(me, "rm -rf .idea")
        time.sleep(0.05)
    finish(me, run)
    assert all((me.work / name).read_text() == "old" for name in names)
    assert not os.path.lexists(me.work / ".idea")


# --- a guest that waits for the moment ---

# Tries all the time to write to the name, or to make it.
SPIN = """
import os
name, how, text = %r, %r, %r
def attack(i):
    if how == 'write':
        fd = os.open(name, os.O_WRONLY | os.O_APPEND)
        os.write(fd, text)
        os.close(fd)
    elif how == 'make':
        with open('evil', 'wb') as f:
            f.write(text)
        os.rename('evil', name)
    elif how == 'in':
        with open(name + '/tasks.json', 'wb') as f:
            f.write(text)
    else:
        os.mkdir('evil%%d' %% i)
        with open('evil%%d/tasks.json' %% i, 'wb') as f:
            f.write(text)
        os.rename('evil%%d' %% i, name)
open('ready', 'w').close()
i = 0
while not os.path.exists('stop'):
    i += 1
    try:
        attack(i %% 100)
    except OSError:
        pass
raise SystemExit(7)
"""

ATTACKS = {
    "writes": (".envrc", "write", "cp {out}/good x; mv x .envrc"),
    "takes the name": (".envrc", "make", "cp {out}/good x; mv x .envrc"),
    "makes what is new": (".mcp.json", "make", "cp {out}/good x; mv x .mcp.json"),
    "makes what was removed": (".envrc", "make", "rm -f .envrc; sleep 0.02"),
    "fills a directory": (".vscode", "in", "rm -rf .vscode; mkdir .vscode || :; sleep 0.02"),
    "makes a directory": (".vscode", "dir", "rm -rf .vscode; sleep 0.02"),
}


def obeyed(me, name):
    """What would be obeyed under the name: the texts of the file or of all files in it."""
    at = me.work / name
    if at.is_dir():
        return [f.read_text() for f in at.iterdir()]
    return [at.read_text()] if at.exists() else []


@pytest.mark.parametrize("attack", ATTACKS)
def test_control_an_attack_succeeds(me, attack):
    """Positive control: without the protection each of them leaves what would be obeyed."""
    name, how, replace = ATTACKS[attack]
    me.write(me.out / "good", "good")
    if name == ".envrc":
        me.write(me.work / name, "old")
    run = start(me, SPIN % (name, how, HOSTILE.encode()), "--no-protect")
    end = time.monotonic() + ceiling(20)
    while not any(HOSTILE in text for text in obeyed(me, name)):
        assert time.monotonic() < end
        sh(me, f"mkdir -p {name}" if how == "in" else ":")
        time.sleep(0.01)
    finish(me, run)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_in_the_gap(me, attack):
    name, how, replace = ATTACKS[attack]
    me.write(me.out / "good", "good")
    if name == ".envrc":
        me.write(me.work / name, "old")
    run = start(me, SPIN % (name, how, HOSTILE.encode()))
    for _ in range(15):
        me.outside(["sh", "-c", replace.format(out=me.out)])
        if run.poll() is not None:
            break
    me.write(me.work / "stop")
    out, err = run.communicate(timeout=ceiling(30))
    assert run.returncode == 7, (run.returncode, err)
    assert not any(HOSTILE in text for text in obeyed(me, name)), err


# Gets hold of the next object before it gets the name, and writes to it when the run goes on.
HOLD = """
import os, socket, time
how = %r
open('ready', 'w').close()
while True:
    try:
        if how == 'cwd':
            os.chdir('next')
            open('inside', 'w').close()
            break
        fd = os.open('next', os.O_PATH if how == 'path' else os.O_RDWR)
        break
    except OSError:
        pass
top = '..' if how == 'cwd' else '.'
if how == 'link':
    os.link('next', 'second')
elif how in ('socket', 'backlog'):
    a, b = socket.socketpair()
    if how == 'backlog':  # a connection that nobody accepts
        a, b = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        b.bind('/tmp/listens')
        b.listen()
        a.connect('/tmp/listens')
    socket.send_fds(a, [b'x'], [fd])
    os.close(fd)
    if how == 'backlog':
        a.close()
top = os.open('/proc/self/cwd' if how != 'cwd' else '..', os.O_RDONLY)
os.close(os.open('held', os.O_CREAT | os.O_WRONLY, dir_fd=top))
def exists(name):
    try:
        os.stat(name, dir_fd=top)
        return True
    except OSError:
        return False
while not exists('write'):
    time.sleep(0.01)
if how == 'socket':
    fd = socket.recv_fds(b, 1, 1)[1][0]
try:
    if how == 'cwd':
        fd = os.open('tasks.json', os.O_WRONLY | os.O_CREAT)
    elif how == 'link':
        fd = os.open('second', os.O_WRONLY)
    elif how == 'path':
        fd = os.open('/proc/self/fd/%%d' %% fd, os.O_WRONLY)
    os.write(fd, %r)
except OSError as e:
    print(e, flush=True)
os.close(os.open('written', os.O_CREAT | os.O_WRONLY, dir_fd=top))
while not exists('stop'):
    time.sleep(0.01)
raise SystemExit(7)
"""


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("how", ["open", "path", "link", "cwd"])
def test_a_guest_that_holds_the_next_one(me, how, back):
    """Also if the user takes back what was put aside while the guest still has it in hand."""
    name = ".vscode" if how == "cwd" else ".envrc"
    if how != "cwd":
        me.write(me.work / name, "old")
    run = start(me, HOLD % (how, HOSTILE.encode()))
    time.sleep(0.3)
    sh(me, "mkdir next" if how == "cwd" else "echo good > next")
    wait_for(me.work / "held", run)
    sh(me, f"rm -rf .vscode; mv -T next {name}")
    wait_until_held(me, name, run)
    if back:
        time.sleep(0.3)
        sh(me, f"rm -rf .vscode; mv -T {held(me, name)[0]} {name}")
        wait_until_held(me, name, run)
    me.write(me.work / "write")
    wait_for(me.work / "written", run)
    finish(me, run)
    assert not any(HOSTILE in text for text in obeyed(me, name))


@pytest.mark.parametrize("how", ["socket", "backlog"])
def test_a_descriptor_on_its_way_ends_the_run(me, how):
    """It could be one of anything, also of what we put there. The former state is back all the same."""
    me.write(me.work / ".envrc", "old")
    run = start(me, HOLD % (how, HOSTILE.encode()))
    sh(me, "echo good > next")
    wait_for(me.work / "held", run)
    sh(me, "mv next .envrc")
    out, err = run.communicate(timeout=ceiling(30))
    assert run.returncode == 125 and b"the command has it open" in err, (run.returncode, err)
    assert (me.work / ".envrc").read_text() == "old"
    assert (me.work / ".envrc.held-by-cordon").read_text() == "good\n"


WRITES_AND_IS_GONE = """
import mmap, os
# Its end takes a while, and cannot be stopped.
memory = mmap.mmap(-1, 400 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, len(memory), 4096):
    memory[at] = 1
open('ready', 'w').close()
while True:
    try:
        fd = os.open('.envrc.tmp', os.O_RDWR | os.O_APPEND)
        break
    except FileNotFoundError:
        pass
while os.fstat(fd).st_size == 0:
    pass
os.write(fd, b'touch /tmp/pwned')
written = os.fstat(fd).st_ctime_ns
while os.fstat(fd).st_ctime_ns == written:
    pass
os._exit(0)
"""


def test_the_end_comes_before_the_look(me):
    """The tree ends between the new cover and the look at what has it: then the look is at the end."""
    for _ in range(4):
        for name in os.listdir(me.work):
            (me.work / name).unlink()
        me.write(me.work / ".envrc", "old")
        run = start(me, WRITES_AND_IS_GONE)
        me.write(me.out / "next", "new\n")
        os.chmod(me.out / "next", 0o666)
        os.rename(me.out / "next", me.work / ".envrc.tmp")
        # The guest writes to it before it has the name.
        end = time.monotonic() + ceiling(20)
        while HOSTILE not in (me.work / ".envrc.tmp").read_text():
            assert time.monotonic() < end
        os.rename(me.work / ".envrc.tmp", me.work / ".envrc")
        _, err = run.communicate(timeout=ceiling(30))
        assert run.returncode in (0, 125), err
        assert (me.work / ".envrc").read_text() == "old", err
        assert held(me, ".envrc") and b".envrc" in err
