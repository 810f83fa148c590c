# SPDX-License-Identifier: Apache-2.0
"""A run survives its user: the config of a repository that git replaces on the host while a run goes
on is protected again, and what a guest makes of the moment between ends the run."""

import os
import signal
import subprocess
import time

import pytest

from conftest import IS_ROOT, ceiling, rounds, unavailable

PYTHON = ["/usr/bin/python3", "-I", "-c"]
ORIGIN = "https://git.example/bare.git"
HOSTILE = "[core]\n\tfsmonitor = touch /tmp/pwned\n"

# Writes to the neighbour and tries to write to the config, whenever it is told to.
GUEST = """
import os, time
open('ready', 'w').close()
for turn in range(10000):
    while not os.path.exists(f'go{turn}'):
        if os.path.exists('stop'):
            raise SystemExit(7)
        time.sleep(0.002)
    try:
        os.close(os.open('.git/config', os.O_WRONLY))
        said = 'open'
    except OSError as e:
        said = os.strerror(e.errno)
    open('.git/description', 'a').write('x')
    with open('tmp', 'w') as f:
        f.write(said)
    os.rename('tmp', f'said{turn}')
"""


SLEEPER = """
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


def git(me, *args, **kw):
    return me.outside(["git", *args], check=True, **kw)


@pytest.fixture
def repo(me):
    git(me, "init", "-q", "-b", "main", ".")
    git(me, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "--allow-empty", "-m", "x")
    git(me, "init", "-q", "--bare", me.out / "bare.git")
    # An address of another machine, as most have. The user's own config says where it leads here.
    git(me, "config", "--global", f"url.{me.out}/bare.git.insteadOf", ORIGIN)
    return me.work / ".git"


def start(me, script, *opts):
    run = me.popen(me.argv(["-w", ".", *opts], [*PYTHON, script], "namespaces"),
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    wait_for(me.work / "ready", run)
    return run


class Asking:
    """A run with GUEST in it."""

    def __init__(self, me, *opts):
        self.me, self.turn = me, 0
        self.run = start(me, GUEST, *opts)

    def ask(self):
        said = self.me.work / f"said{self.turn}"
        self.me.write(self.me.work / f"go{self.turn}")
        wait_for(said, self.run)
        self.turn += 1
        return said.read_text()

    def check(self):
        """The config is read-only, as soon as init has noticed that it was replaced."""
        end = time.monotonic() + ceiling(20)
        while self.ask() != "Read-only file system":
            assert time.monotonic() < end

    def end(self):
        self.me.write(self.me.work / "stop")
        out, err = self.run.communicate(timeout=ceiling(20))
        assert self.run.returncode == 7, err
        said = (self.me.work / ".git/description").read_text()
        assert said.endswith("x" * self.turn), "control: the rest of .git can be written to"


DAILY = {
    "remote add": [["remote", "add", "origin", ORIGIN]],
    "push -u": [["remote", "add", "origin", ORIGIN], ["push", "-q", "-u", "origin", "main"]],
    "config": [["config", "user.name", "A. B"], ["config", "user.email", "a@example.com"]],
    "switch --track": [["switch", "-q", "-c", "topic", "--track", "main"]],
    "branch -m": [["switch", "-q", "-c", "a", "--track", "main"], ["branch", "-m", "b"]],
    "pull.rebase": [["config", "pull.rebase", "true"], ["config", "--unset", "pull.rebase"]],
    "push.default": [["config", "push.default", "current"], ["config", "push.autoSetupRemote", "true"]],
    "init.defaultBranch": [["config", "init.defaultBranch", "trunk"]],
    "lists": [["config", "branch.sort", "-committerdate"], ["config", "status.showUntrackedFiles", "no"]],
}  # fmt: skip


@pytest.mark.parametrize("verb", DAILY)
def test_a_run_survives_what_git_does(me, repo, verb):
    asking = Asking(me)
    asking.check()
    for command in DAILY[verb]:
        git(me, *command)
        asking.check()
    asking.end()


@pytest.mark.parametrize("opts", [["-m", "500M"], ["--cpus", "0.5"], ["--net-allow", "x.test"]])
def test_a_run_survives_under_limits(me, repo, opts):
    asking = Asking(me, *opts)
    for i in range(5):
        git(me, "config", "user.name", f"n{i}")
        asking.check()
    asking.end()


def replace(me, repo, text):
    me.write(me.out / "new", text)  # out of the run's reach, also when it has ended
    os.rename(me.out / "new", repo / "config")


def test_many_replacements(me, repo):
    text = (repo / "config").read_text()
    asking = Asking(me)
    for i in range(rounds(300)):
        replace(me, repo, text + f"[user]\n\tname = n{i}\n")
        if i % 50 == 0:
            asking.check()
    asking.check()
    asking.end()


def test_two_runs_in_one_repository(me, repo):
    first = Asking(me)
    other = me.mkdir("work/other")
    second = me.popen(me.argv(["-w", me.work], [*PYTHON, "import os, time\nos.chdir('other')\n" + SLEEPER],
                              "namespaces"))  # fmt: skip
    wait_for(other / "ready", second)
    for i in range(5):
        git(me, "config", "user.name", f"n{i}")
        first.check()
    me.write(other / "stop")
    assert second.wait(timeout=ceiling(20)) == 7
    git(me, "config", "user.name", "last")
    first.check()
    first.end()


def test_a_note_says_so(me, repo):
    master, slave = os.openpty()
    run = me.popen(me.argv(["-w", "."],
                           [*PYTHON, GUEST], "namespaces"),
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave)  # fmt: skip
    os.close(slave)
    wait_for(me.work / "ready", run)
    git(me, "config", "user.name", "x")
    me.write(me.work / "stop")
    assert run.wait(timeout=ceiling(20)) == 7
    said = os.read(master, 65536)
    os.close(master)
    assert b".git/config' was replaced on the host; it is protected again" in said


def test_editors_save_inside_a_protected_directory(me, repo):
    """The directory is covered as a whole: nothing of it is writable in between."""
    me.mkdir("work/.vscode")
    me.write(me.work / ".vscode/settings.json", "{}")
    asking = Asking(me)
    for _ in range(3):
        me.write(me.work / ".vscode/new", "{}")
        os.rename(me.work / ".vscode/new", me.work / ".vscode/settings.json")
        asking.check()
    asking.end()


def test_what_the_guest_had_stopped_stays_stopped(me, repo):
    script = """
import os, signal, subprocess, time
child = subprocess.Popen(['sleep', '100'])
os.kill(child.pid, signal.SIGSTOP)
def state():
    return open(f'/proc/{child.pid}/stat').read().split()[2]
while state() != 'T':
    time.sleep(0.01)
open('ready', 'w').close()
while not os.path.exists('go'):
    time.sleep(0.01)
assert state() == 'T'
child.kill()
"""
    run = start(me, script)
    for i in range(3):
        git(me, "config", "user.name", f"n{i}")
    time.sleep(0.5)
    me.write(me.work / "go")
    assert run.wait(timeout=ceiling(20)) == 0, run.communicate()


def ended(run, *words):
    out, err = run.communicate(timeout=ceiling(30))
    assert run.returncode == 125, (run.returncode, out, err)
    for word in words:
        assert word.encode() in err, err


@pytest.mark.parametrize("key", ["core.hooksPath", "core.fsmonitor", "include.path", "alias.x", "push.default"])
def test_a_setting_that_git_obeys_ends_the_run(me, repo, key):
    run = start(me, GUEST)
    git(me, "config", key, "x")
    ended(run, ".git/config", f"'{key.lower()}' is different")


def test_another_address_of_a_remote_ends_the_run(me, repo):
    git(me, "remote", "add", "origin", ORIGIN)
    run = start(me, GUEST)
    git(me, "remote", "set-url", "origin", "https://example.com/x")
    ended(run, "'remote.origin.url' is different")


@pytest.mark.parametrize("verb", [["remove", "origin"], ["rename", "origin", "other"]])
def test_a_remote_that_loses_its_address_ends_the_run(me, repo, verb):
    """To git its name is a path then: a push would run the hooks of a directory of that name."""
    git(me, "remote", "add", "origin", ORIGIN)
    run = start(me, GUEST)
    git(me, "remote", *verb)
    ended(run, "'remote.origin.url' is different")


def test_a_remote_on_this_machine_ends_the_run(me, repo):
    """A push there runs the hooks that the command may have put there."""
    run = start(me, GUEST)
    git(me, "remote", "add", "here", "./evil.git")
    ended(run, "'remote.here.url' is different")


def test_a_branch_that_is_pushed_elsewhere_ends_the_run(me, repo):
    git(me, "remote", "add", "origin", ORIGIN)
    git(me, "push", "-q", "-u", "origin", "main")
    asking = Asking(me)
    git(me, "remote", "add", "other", "https://example.com/x")
    asking.check()
    git(me, "config", "branch.main.remote", "other")
    ended(asking.run, "'branch.main.remote' is different")


OTHERS = {
    "gone": "rm .git/config",
    "link": "ln -sf ../x .git/config",
    "directory": "rm .git/config; mkdir .git/config",
    "pipe": "rm .git/config; mkfifo .git/config",
    "two names": "cp .git/config x; ln x y; mv x .git/config",
    "moved away": "mv .git/config .git/x",
}


@pytest.mark.parametrize("how", OTHERS)
def test_what_cannot_be_covered_again_ends_the_run(me, repo, how):
    run = start(me, GUEST)
    me.outside(["sh", "-c", OTHERS[how]], check=True)
    ended(run, "was replaced on the host")


# --- a guest that waits for the moment ---

SPIN = """
import os
open('ready', 'w').close()
while not os.path.exists('stop'):
    try:
        fd = os.open('.git/config', os.O_WRONLY | os.O_APPEND)
    except OSError:
        continue
    os.write(fd, %r)
    os.close(fd)
raise SystemExit(7)
""" % HOSTILE.encode()


def test_control_a_config_can_be_written(me, repo):
    """Positive control: without the protection the spinning guest writes to it."""
    run = start(me, SPIN, "--no-protect")
    end = time.monotonic() + ceiling(20)
    while "fsmonitor" not in (repo / "config").read_text():
        assert time.monotonic() < end
        time.sleep(0.01)
    me.write(me.work / "stop")
    run.communicate(timeout=ceiling(20))


def test_a_guest_that_spins(me, repo):
    text = (repo / "config").read_text()
    run = start(me, SPIN)
    for i in range(60):
        replace(me, repo, text + f"[user]\n\tname = n{i}\n")
        time.sleep(0.01)
        if run.poll() is not None:
            break
    me.write(me.work / "stop")
    run.communicate(timeout=ceiling(30))
    assert run.returncode in (7, 123, 125)
    assert "fsmonitor" not in (repo / "config").read_text()


# Gets hold of the next config before it gets its name.
HOLD = """
import os, socket, time
how = %r
open('ready', 'w').close()
while True:
    try:
        fd = os.open('.git/new', os.O_PATH if how == 'path' else os.O_RDWR)
        break
    except OSError:
        pass
if how == 'link':
    os.link('.git/new', '.git/second')
    os.close(fd)
elif how == 'map':
    import mmap
    held = mmap.mmap(fd, 0)
    os.close(fd)
elif how == 'socket':
    a, b = socket.socketpair()
    socket.send_fds(a, [b'x'], [fd])
    os.close(fd)
open('held', 'w').close()
time.sleep(100)
"""


@pytest.mark.parametrize("how", ["open", "path", "link", "map", "socket"])
def test_a_guest_that_holds_the_next_config(me, repo, how):
    run = start(me, HOLD % how)
    me.write(repo / "new", (repo / "config").read_text() + "[user]\n\tname = x\n")
    wait_for(me.work / "held", run)
    os.rename(repo / "new", repo / "config")
    ended(run, "it has a second name" if how == "link" else "the command has it open")


def test_a_guest_that_continues_itself(me, repo):
    """A timer continues a stopped process. Either it is stopped long enough, or the run ends."""
    script = """
import signal
signal.signal(signal.SIGALRM, lambda *_: None)
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
event = (ctypes.c_int * 16)()
event[2], event[3] = signal.SIGCONT, 0
timer = ctypes.c_void_p()
assert libc.timer_create(1, event, ctypes.byref(timer)) == 0
spec = (ctypes.c_long * 4)(0, 300000, 0, 300000)
assert libc.timer_settime(timer, 0, spec, None) == 0
signal.signal(signal.SIGCONT, lambda *_: None)
""" + SPIN
    text = (repo / "config").read_text()
    run = start(me, script)
    for i in range(10):
        replace(me, repo, text + f"[user]\n\tname = n{i}\n")
        time.sleep(0.02)
        if run.poll() is not None:
            break
    me.write(me.work / "stop")
    run.communicate(timeout=ceiling(60))
    assert run.returncode in (7, 123, 125)
    assert "fsmonitor" not in (repo / "config").read_text()


# Writes into the new config at once, and is gone before anything can look at it.
LAST = """
import os
before = os.stat('.git/config').st_ino
open('ready', 'w').close()
while True:
    try:
        fd = os.open('.git/config', os.O_WRONLY | os.O_APPEND)
    except OSError:
        continue
    os.write(fd, %r)
    os.kill(1, 9)
    os._exit(0)
""" % HOSTILE.encode()


def test_a_guest_that_ends_in_the_same_moment(me, repo):
    """Whatever the moment was: what git would obey is not there when the run is over, and it is told."""
    text = (repo / "config").read_text()
    won = 0
    for i in range(rounds(12)):
        (me.work / "ready").unlink(missing_ok=True)
        run = start(me, LAST)
        good = text + f"[user]\n\tname = n{i}\n"
        for _ in range(400):
            replace(me, repo, good)
            if run.poll() is not None:
                break
        else:
            run.terminate()
        out, err = run.communicate(timeout=ceiling(30))
        now = (repo / "config").read_text()
        assert "fsmonitor" not in now, (run.returncode, err)
        if b"put aside '.git/config'" in err:
            won += 1
            assert run.returncode in (123, 125), (run.returncode, err)
            aside = [n for n in os.listdir(repo) if n.startswith(".config.held-by-cordon")]
            assert aside, err
            for name in aside:
                os.unlink(repo / name)
        replace(me, repo, text)
    print(f"put aside {won} times")


def test_a_refused_config_is_put_aside(me, repo):
    """A setting that git obeys, even the user's own: the old config is back, the new one beside it."""
    old = (repo / "config").read_text()
    run = start(me, GUEST)
    git(me, "config", "core.fsmonitor", "touch pwned")
    ended(run, "'core.fsmonitor' is different", "put aside '.git/config'", "mv .git/.config.held-by-cordon .git/config")
    assert (repo / "config").read_text() == old
    assert "fsmonitor" in (repo / ".config.held-by-cordon").read_text()
    st = (repo / "config").stat()
    assert (st.st_mode & 0o777, st.st_uid) == (0o644, me.uid)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(word) for word in f.read().split()]


@pytest.mark.parametrize("closed", ["", ".", ".git"])
def test_an_init_that_is_killed_leaves_no_bad_config(me, repo, closed):
    """It could not notice anything, and reports nothing. Nor does a closed directory help."""
    old = (repo / "config").read_text()
    run = start(me, "import time\nopen('ready', 'w').close()\ntime.sleep(100)")
    init = next(pid for pid in children(run.pid) if children(pid))  # the janitor has none
    os.kill(init, signal.SIGSTOP)
    replace(me, repo, old + HOSTILE)
    if closed:
        me.outside(["chmod", "000", closed], check=True)
    os.kill(init, signal.SIGKILL)
    out, err = run.communicate(timeout=ceiling(20))
    for closed_dir in me.work, repo:  # not by a program: none can start in a closed directory
        os.chmod(closed_dir, 0o755)
    assert run.returncode in (123, 125) and b"put aside" in err, (run.returncode, err)
    assert (repo / "config").read_text() == old


def test_another_file_that_is_replaced_at_the_end(me, repo):
    """There is no time for init to notice: the last look does."""
    me.write(me.work / ".envrc", "old")
    script = """
import os, time
open('ready', 'w').close()
while not os.path.exists('stop'):
    pass
os._exit(7)
"""
    run = start(me, script)
    me.write(me.work / "new", "new")
    me.outside(["sh", "-c", "mv .envrc x; mv new .envrc; touch stop"], check=True)
    out, err = run.communicate(timeout=ceiling(20))
    assert run.returncode == 7 and b"put aside '.envrc'" in err, (run.returncode, err)
    assert (me.work / ".envrc.held-by-cordon").read_text() == "new"
    assert not (me.work / ".envrc").exists() or (me.work / ".envrc").read_text() == "old"


def test_a_parent_that_waits_for_its_vfork_child(me, repo):
    """It cannot stop before the child lets it go on; the run goes on all the same."""
    script = """
import os, time
os.mkfifo('gate')
child = os.fork()
if child == 0:
    os.posix_spawn('/bin/true', ['true'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 9, 'gate', os.O_RDONLY, 0)])
    os._exit(0)
def state():
    return open(f'/proc/{child}/stat').read().rsplit(') ')[1][0]
while state() != 'D':
    time.sleep(0.01)
open('ready', 'w').close()
while not os.path.exists('stop'):
    assert state() == 'D'
    time.sleep(0.01)
os.close(os.open('gate', os.O_WRONLY))
os.waitpid(child, 0)
raise SystemExit(7)
"""
    run = start(me, script)
    for i in range(3):
        git(me, "config", "user.name", f"n{i}")
        time.sleep(0.2)
    me.write(me.work / "stop")
    assert run.wait(timeout=ceiling(20)) == 7, run.communicate()


@pytest.fixture
def frozen(me):
    """A file system of its own. The writer's calls wait while it is frozen."""
    if not IS_ROOT:
        pytest.skip("only root can freeze a file system")
    image, at = me.base / "image", me.mkdir("work/disk")
    subprocess.run(["truncate", "-s", "16M", image], check=True)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-E", f"root_owner={me.uid}:{me.gid}", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, at]).returncode != 0:
        unavailable("there are no loop devices")
    try:
        yield at
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", at], stderr=subprocess.DEVNULL)
        subprocess.run(["umount", "-l", at], check=True)


def test_a_call_that_waits_for_a_disk_is_waited_for(me, repo, frozen):
    """link() may have found the next config by its name, and give it a second one when the disk is back.
    So the tree counts as stopped only when that call has ended."""
    script = """
import os, threading, time
def write():
    while not os.path.exists('frozen'):
        time.sleep(0.01)
    open('disk/x', 'w').close()
thread = threading.Thread(target=write)
thread.start()
open('ready', 'w').close()
def state():
    return open(f'/proc/self/task/{thread.native_id}/stat').read().rsplit(') ')[1][0]
while state() != 'D':
    time.sleep(0.01)
while True:
    with open('beat', 'w') as f:
        f.write(str(time.monotonic()))
    open('waits', 'w').close()
    if os.path.exists('stop'):
        break
    time.sleep(0.01)
thread.join()
raise SystemExit(7)
"""

    def stands_still():
        last = (me.work / "beat").read_text()
        time.sleep(0.3)
        return (me.work / "beat").read_text() == last

    run = start(me, script)
    subprocess.run(["fsfreeze", "--freeze", frozen], check=True)
    me.write(me.work / "frozen")
    wait_for(me.work / "waits", run)
    assert not stands_still(), "control: nothing has been replaced yet"
    git(me, "config", "user.name", "x")
    time.sleep(1)
    assert stands_still(), "the tree went on while a call was under way"
    subprocess.run(["fsfreeze", "--unfreeze", frozen], check=True)
    me.write(me.work / "stop")
    assert run.wait(timeout=ceiling(20)) == 7, run.communicate()
