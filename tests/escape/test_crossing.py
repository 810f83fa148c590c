# SPDX-License-Identifier: Apache-2.0
"""Ways that lead through the supervisor, through another run, or through what the host does
meanwhile."""

import os
import pathlib
import signal
import stat
import subprocess
import time

from conftest import ceiling
from differences import kernel_lacks

PYTHON = ["/usr/bin/python3", "-I"]


def wait_for(path, seconds=10):
    end = time.monotonic() + ceiling(seconds)
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.01)


def test_denied_name_replaced_on_the_host(me):
    """Replacing a covered name on the host (as editors save) takes the cover away: the run ends
    and says why. It cannot be kept from reading the file at that moment, the old one or the new; the threat model
    has the figures."""
    secret = me.write(me.work / "secret", "old canary")
    script = "touch ready; for i in $(seq 40); do cat secret; sleep 0.05; done; touch survived"
    run = me.popen(
        me.argv(["--json", "-w", ".", "--deny", "secret"], ["sh", "-c", script], "namespaces"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_for(me.work / "ready")
    me.write(me.work / "new", "x" * 10)
    os.rename(me.work / "new", secret)
    out, err = run.communicate(timeout=20)
    assert run.returncode == 125, err
    assert b"replaced on the host" in out and b"could read it" in out, out
    assert not (me.work / "survived").exists()


def test_undisturbed_run_is_not_ended(me):
    """Positive control of the one above: what the host does elsewhere does not matter."""
    me.outside(["git", "init", "-q", "."])
    run = me.popen(me.argv(["-w", "."], ["sh", "-c", "touch ready; sleep 1"], "namespaces"))
    wait_for(me.work / "ready")
    me.write(me.work / "other", "x")
    os.rename(me.work / "other", me.work / "another")
    me.outside(["git", "add", "another"], check=True)
    assert run.wait(timeout=20) == 0


def test_links_in_the_private_directory(me):
    """Level landlock: the clean-up after a killed supervisor follows no link that the guest made."""
    victim = me.write(me.out / "victim", "precious", 0o644)
    deep = me.mkdir("outside/dir", 0o750)
    script = (
        f"cd $TMPDIR; ln -s {victim} l; mkdir -p a/b; ln -s {deep} a/b/d; echo $TMPDIR > "
        f"{me.work}/where; chmod 500 a/b a .; touch {me.work}/ready; sleep 60"
    )
    run = me.popen(me.argv(["-w", me.work], ["sh", "-c", script], "landlock"))
    wait_for(me.work / "ready")
    where = pathlib.Path((me.work / "where").read_text().strip())
    assert where.is_dir()
    run.send_signal(signal.SIGKILL)
    run.wait()
    end = time.monotonic() + ceiling(5)
    while where.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not where.exists(), "left behind"
    assert stat.S_IMODE(victim.stat().st_mode) == 0o644
    assert stat.S_IMODE(deep.stat().st_mode) == 0o750


REWIND = """
import os, sys
os.read(0, 10)
for how in (os.O_WRONLY, os.O_RDWR):
    try:
        os.write(os.open('/proc/self/fd/0', how | os.O_NONBLOCK), b'x' * 500)
        print('wrote')
    except OSError:
        pass
"""


def test_private_directories_of_other_runs(me):
    """At level landlock each run has one in /tmp, of the same user; a grant of /tmp shows none."""
    script = 'echo canary > "$TMPDIR/note"; echo "$TMPDIR/note"; while [ ! -e go ]; do sleep 0.01; done'
    run = me.popen(me.argv(["-r", "."], ["sh", "-c", script], "landlock"),
                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)  # fmt: skip
    try:
        note = run.stdout.readline().decode().strip()
        assert me.outside(["cat", note]).stdout == b"canary\n", "positive control"
        beside = me.write(me.base / "beside", "beside\n")
        look = f'cat {beside}; cat {note}; echo own > "$TMPDIR/x"; cat "$TMPDIR/x"'
        elsewhere = {"XDG_STATE_HOME": "/nowhere"}  # the home of the tests lies in /tmp
        done = me.run(["-r", "/tmp"], ["sh", "-c", look], "landlock", env=elsewhere)
        assert (done.returncode, done.stdout) == (0, b"beside\nown\n"), done
        done = me.run(["-w", "/tmp"], ["sh", "-c", f"echo changed > {note}"], "landlock", env=elsewhere)
        # The places for packages and for what runs is listed in are refused before.
        kept = (b"private directories of other runs", b"where packages are kept", b"where sessions and runs are kept")
        assert done.returncode == 125 and any(text in done.stderr for text in kept), done
        assert pathlib.Path(note).read_text() == "canary\n"
    finally:
        me.write(me.work / "go")
        run.communicate(timeout=30)


def test_position_of_the_callers_input(me, level):
    """The position in a file given as standard input moves only forward."""
    text = me.write(me.work / "lines", "".join(f"line {i:04}\n" for i in range(200)))
    with open(text, "rb") as f:
        f.seek(1000)
        done = me.run([], [*PYTHON, "-c", REWIND], level, stdin=f.fileno())
        assert done.returncode == 0 and b"wrote" not in done.stdout, done
        assert os.lseek(f.fileno(), 0, os.SEEK_CUR) == 1010


def test_streams_can_be_opened_by_name(me, level):
    """Their names work in their own direction, as root and as a user."""
    done = me.run(
        [], ["sh", "-c", "cat /dev/stdin > /dev/stdout; echo e > /dev/stderr"], level, input=b"in"
    )
    assert (done.stdout, done.stderr) == (b"in", b"e\n")


TAKE = """
import array, os, socket, sys, time
s = socket.socket(socket.AF_UNIX); s.bind('k'); s.listen(1); c, _ = s.accept()
m, a, f, _ = c.recvmsg(1, socket.CMSG_SPACE(4)); fd = array.array('i', a[0][2])[0]
time.sleep(float(sys.argv[1]))
try: os.write(fd, b'late')
except OSError: pass
"""
GIVE = """
import array, socket
s = socket.socket(socket.AF_UNIX); s.connect('k')
s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1]))])
print('given', flush=True)
"""


def test_output_given_to_another_run(me):
    """A run is over when its tree is gone, even if another process was handed its standard output."""
    taker = me.popen(me.argv(["-w", "."], [*PYTHON, "-c", TAKE, ceiling(1.5)], "namespaces"))
    wait_for(me.work / "k")
    start = time.monotonic()
    done = me.run(["-w", "."], [*PYTHON, "-c", GIVE], "namespaces")
    took = time.monotonic() - start
    if not kernel_lacks("landlock-unix"):
        # One run cannot even connect to the other's socket.
        taker.terminate()
        taker.wait(timeout=20)
        assert done.stdout == b"" and b"PermissionError" in done.stderr, done
        return
    assert taker.wait(timeout=20) == 0
    assert done.stdout == b"given\n" and took < ceiling(1.2), (took, done)


def test_directory_between_two_write_grants(me):
    (me.work / "a/x/repo").mkdir(parents=True)
    for path in ("a", "a/x", "a/x/repo"):
        me.own(me.work / path)
    me.outside(["git", "init", "-q", "a/x/repo"], check=True)
    script = "mv a/x a/y; mkdir -p a/x/repo/.git/hooks; echo evil > a/x/repo/.git/hooks/pre-commit"
    me.run(["-w", "a", "-w", "a/x/repo"], ["sh", "-c", script], "namespaces")
    assert not (me.work / "a/y").exists()
    assert not (me.work / "a/x/repo/.git/hooks/pre-commit").exists()
    me.outside(["sh", "-c", script])
    assert (me.work / "a/y").exists(), "positive control"


LIMIT = """
import resource, sys
try:
    resource.prlimit(int(sys.argv[1]), resource.RLIMIT_CPU, (0, 0)); print('allowed')
except OSError:
    print('denied')
"""


def test_limits_of_pid_1(me):
    """A limit on init's CPU time would let the guest end the run as if Cordon had failed."""
    got = me.receipt([], [*PYTHON, "-c", LIMIT, "1"], "namespaces")
    assert (got["kind"], got["stdout"]) == ("exited", "denied\n")
    sleeper = me.popen(["sleep", "20"])
    try:
        assert me.outside([*PYTHON, "-c", LIMIT, sleeper.pid]).stdout == b"allowed\n"
    finally:
        sleeper.kill()
        sleeper.wait()
