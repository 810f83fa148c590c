# SPDX-License-Identifier: Apache-2.0
"""What a hostile command tries from its workspace: against programs of the host that use the base,
against later runs over the same workspace, and against the commands that show what it left.

Each attack works where there is no workspace; that is tried first.
"""

import os
import socket
import subprocess

import pytest

from workspacelib import Desk, assert_same, picture, settle_clock, tree

PROJECT = {"file": "text\n", "other": "text\n", "sub/inner": "inner\n", "bin/tool": "#!/bin/sh\necho tool\n"}


@pytest.fixture
def desk(me, level):
    base = tree(me, me.mkdir("base"), PROJECT)
    os.chmod(base / "bin" / "tool", 0o755)
    settle_clock(base)
    return Desk(me, level, base)


# Says what it did to the host's programs, then waits for a line.
REACH = """
import fcntl, os, signal, socket, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)  # another process opens what we have a lease of
os.chdir(os.environ.get("CORDON_WORKSPACE", "."))
def attempt(name, call):
    try:
        held.append(call())
        print(name, flush=True)
    except OSError:
        pass
held = []
def connect(kind, name):
    sock = socket.socket(socket.AF_UNIX, kind)
    sock.connect(name)
    sock.send(b"x")
    return sock
def lease():
    fd = os.open("other", os.O_RDONLY)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    return fd
def lock():
    fd = os.open("file", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd
attempt("stream", lambda: connect(socket.SOCK_STREAM, "stream"))
attempt("through-path", lambda: connect(socket.SOCK_STREAM, "/proc/self/fd/%d" % os.open("stream", os.O_PATH)))
attempt("datagram", lambda: connect(socket.SOCK_DGRAM, "datagram"))
attempt("fifo", lambda: os.write(os.open("fifo", os.O_WRONLY | os.O_NONBLOCK), b"x"))
attempt("lock", lock)
attempt("lease", lease)
print("ready", flush=True)
sys.stdin.readline()
"""


def reach(desk, argv):
    """What a program reached of the host's, by its own word and by the host's."""
    base = desk.base
    for name in ("stream", "datagram"):
        (base / name).unlink(missing_ok=True)
    here = os.getcwd()
    os.chdir(base)  # a socket's path may be no longer than this
    stream, datagram = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    stream.bind("stream")
    datagram.bind("datagram")
    os.chdir(here)
    stream.listen()
    for name in ("stream", "datagram"):
        os.chmod(base / name, 0o666)
        desk.me.own(base / name)
    if not (base / "fifo").exists():
        os.mkfifo(base / "fifo")
        desk.me.own(base / "fifo")
    reader = os.open(base / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    run = desk.me.popen(argv, cwd=str(base), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said, got = [], set()
    for line in run.stdout:
        if line == b"ready\n":
            break
        said.append(line.decode().strip())
    stream.setblocking(False)
    datagram.setblocking(False)
    for name, call in (
        ("stream", stream.accept),
        ("datagram", lambda: datagram.recv(1)),
        ("fifo", lambda: os.read(reader, 1)),
        ("lock", lambda: desk.me.outside(["flock", "-n", "-x", base / "file", "true"]).returncode),
        ("lease", lambda: is_leased(base / "other")),
    ):
        try:
            if call():
                got.add(name)
        except BlockingIOError:
            pass
    out, err = run.communicate(b"\n", timeout=60)
    assert run.returncode == 0, (out, err)
    stream.close()
    datagram.close()
    os.close(reader)
    return said, got


def is_leased(path):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        return False
    except BlockingIOError:
        return True


def test_programs_of_the_host_are_not_reached(desk):
    everything = ["stream", "through-path", "datagram", "fifo", "lock", "lease"]
    assert reach(desk, ["python3", "-c", REACH]) == (everything, {"stream", "datagram", "fifo", "lock", "lease"})
    argv = desk.me.argv(["--workspace", "."], ["python3", "-c", REACH], desk.level)
    said, got = reach(desk, argv)
    assert got == set(), (said, got)
    # A lock of its own copy is all that is left.
    assert set(said) <= {"lock"}, said


def neighbour(me):
    """An installation that was not granted, next to the base."""
    place = tree(
        me,
        me.mkdir("neighbour"),
        {"bin/run": '#!/bin/sh\ncat "${0%/*}/../lib/secret"\necho ran\n', "lib/secret": "the secret\n"},
    )
    os.chmod(place / "bin" / "run", 0o755)
    return place


def test_links_left_behind_open_no_neighbour(desk):
    """The command of a later run is looked for in the workspace: not through a link that leads out."""
    place = neighbour(desk.me)
    done = desk.me.outside([place / "bin" / "run"])
    assert done.stdout == b"the secret\nran\n", done
    before = picture(place)
    desk.run(f"rm -rf bin; ln -s {place}/bin bin", "--name", "w")
    for command in ("./bin/run", "bin/../bin/run", str(desk.base / "bin" / "run")):
        done = desk.me.run(["--name", "w"], [command], desk.level, cwd=str(desk.base))
        assert b"the secret" not in done.stdout and done.returncode != 0, done
    # Programs of its own are found, also behind a link that stays inside.
    desk.run("rm bin; mkdir own; ln -s own bin; printf '#!/bin/sh\\necho own\\n' > own/run; chmod +x own/run", "--name", "w")  # fmt: skip
    done = desk.me.run(["--name", "w"], ["bin/run"], desk.level, cwd=str(desk.base))
    assert done.stdout == b"own\n", done
    assert_same(before, place)


def test_closed_top(desk):
    """A guest that takes all rights from the workspace does not prevent diff, commit and discard."""
    before = picture(desk.base)
    desk.run("echo new > made; echo more >> file; chmod 0 .", "--name", "w")
    assert_same(before, desk.base)
    for _ in range(2):
        assert desk.changes("w") == {"made": "added", "file": "modified"}
    assert b"+more" in desk.ok("diff", "--patch", "w")
    desk.ok("commit", "w")
    assert (desk.text("made"), desk.text("file")) == ("new\n", "text\nmore\n")
    assert os.stat(desk.base).st_mode & 0o777 == 0o755
    desk.ok("discard", "w")
    assert desk.ids() == []


@pytest.mark.parametrize("how", ["inside", "missing", "link"])
def test_store_in_the_base(desk, how):
    """It is refused before anything of it is made there."""
    place = desk.base / "sub" if how == "inside" else desk.base / "far" / "away"
    if how == "link":
        place = desk.me.base / "link"
        place.symlink_to(desk.base / "sub")
        desk.me.own(place)
    before = picture(desk.base)
    done = desk.me.run(
        ["--workspace", desk.base], ["true"], desk.level, env={**os.environ, "HOME": str(desk.me.home), "XDG_STATE_HOME": str(place)}
    )  # fmt: skip
    assert done.returncode == 125 and b"contains the directory where workspaces are kept" in done.stderr, done
    assert_same(before, desk.base)


@pytest.mark.parametrize("place", ["/proc", "/proc/self", "/sys"])
def test_the_kernels_own_files(desk, place):
    """They cannot be copied, and reading some of them blocks or has an effect."""
    done = desk.me.run(["--workspace", place], ["true"], desk.level)
    assert done.returncode == 125 and b"contains only files of the kernel" in done.stderr, done
    assert desk.ids() == []
