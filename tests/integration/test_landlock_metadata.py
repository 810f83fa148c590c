# SPDX-License-Identifier: Apache-2.0
"""chmod, chown and utime at level landlock: done inside write grants, refused everywhere else."""

import errno
import os
import signal
import stat
import time

import pytest

from conftest import ceiling, control, expect, rows
from differences import kernel_lacks

LEVEL = "landlock"
TIMES = {"utime", "utimes", "futimesat", "utimensat", "touch", "touch-link"}
ALL = dict.fromkeys(["chmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchownat", *TIMES], "allowed")
FDS = dict.fromkeys(
    "fchmod fchown futimens futimesat-null fchmodat2-empty fchownat-empty utimensat-empty proc-alias dev-alias".split(),
    "allowed",
)
DENIED = "denied:EPERM"
# What the broker answers does not depend on the kernel; the control does.
TOO_NEW = ("fchmodat2", "fchmodat2-empty") if kernel_lacks("fchmodat2") else ()


def look(path):
    st = os.lstat(path)
    return st.st_mode, st.st_uid, st.st_gid, st.st_mtime_ns, st.st_ctime_ns


@pytest.fixture
def grant(me):
    """A write grant with a file in it, and a file outside that belongs to the caller too."""
    directory = me.mkdir("grant")
    me.write(directory / "file", "inside\n")
    return directory


def probe(me, probes, *args, opts=(), **kw):
    binary = probes["metadata"]
    grants = ["-r", os.path.dirname(binary), *opts]
    return me.run(grants, [binary, *args], LEVEL, **kw)


# --- every call ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode,table", [("all", ALL), ("fds", FDS)])
def test_inside_a_write_grant(me, probes, grant, mode, table):
    control(rows(me.outside([probes["metadata"], mode, grant / "file"]).stdout), table, TOO_NEW)
    os.chmod(grant / "file", 0o644)
    done = probe(me, probes, mode, grant / "file", opts=["-w", grant])
    expect(rows(done.stdout), table)
    st = os.stat(grant / "file")
    assert stat.S_IMODE(st.st_mode) == 0o666
    assert st.st_mtime == 2


@pytest.mark.parametrize("restart", [[], ["restart"]], ids=["plain", "restart"])
def test_signals_meanwhile(me, probes, grant, restart):
    """No change is made twice, or made and then denied. EINTR is only for those who asked for it."""
    control_of = me.outside([probes["interrupt"], grant / "file", *restart]).stdout.split()
    assert control_of == b"signals some interrupted 0 undone 0 wrong 0".split()
    binary = probes["interrupt"]
    opts = ["-r", os.path.dirname(binary), "-w", grant]
    done = me.run(opts, [binary, grant / "file", *restart], LEVEL)
    got = dict(zip(*[iter(done.stdout.decode().split())] * 2))
    assert (got["signals"], got["wrong"]) == ("some", "0"), done
    if restart:
        assert got["interrupted"] == "0"
    if not kernel_lacks("wait-killable"):
        assert got["undone"] == "0"


@pytest.mark.parametrize("mode,table", [("all", ALL), ("fds", FDS)])
@pytest.mark.parametrize("where", ["read grant", "ungranted", "file beside a file grant"])
def test_elsewhere(me, probes, grant, mode, table, where):
    if where == "ungranted" and mode == "fds":
        mode, table = "all", ALL  # nothing to open there
    target = me.write((me.out if where == "ungranted" else grant) / "victim", "v")
    opts = {
        "read grant": ["-r", grant],
        "ungranted": ["-w", grant],
        "file beside a file grant": ["-r", grant, "-w", me.write(me.mkdir("one") / "file")],
    }[where]
    control(rows(me.outside([probes["metadata"], mode, target]).stdout), table, TOO_NEW)
    os.chmod(target, 0o640)
    before = look(target)
    done = probe(me, probes, mode, target, opts=opts)
    expect(rows(done.stdout), dict.fromkeys(table, DENIED))
    assert look(target) == before


def test_single_file_grant(me, probes, grant):
    me.write(grant / "other")
    done = probe(me, probes, "all", grant / "file", opts=["-w", grant / "file"])
    expect(rows(done.stdout), ALL)
    done = probe(me, probes, "all", grant / "other", opts=["-w", grant / "file"])
    expect(rows(done.stdout), dict.fromkeys(ALL, DENIED))


def test_through_a_link(me, probes, grant):
    victim = me.write(me.out / "victim", mode=0o640)
    os.symlink(victim, grant / "link")
    me.own(grant / "link")
    before = look(victim)
    done = probe(me, probes, "all", grant / "link", opts=["-w", grant])
    # What does not follow changes the link itself, which is inside.
    expect(rows(done.stdout), dict.fromkeys(ALL, DENIED) | {"lchown": "allowed", "touch-link": "allowed"})
    assert look(victim) == before
    assert os.lstat(grant / "link").st_mtime == 2


def test_errors(me, probes, grant):
    done = probe(me, probes, "errors", grant / "file", opts=["-w", grant])
    faults = dict.fromkeys("low kernel null hole times-hole".split(), "denied:EFAULT")
    expect(
        rows(done.stdout),
        faults
        | {
            "long": "denied:ENAMETOOLONG",
            "empty": "denied:ENOENT",
            "missing": "denied:ENOENT",
            "through-file": "denied:ENOTDIR",
            "bad-fd": "denied:EBADF",
            "negative-fd": "denied:EBADF",
            "bad-dir": "denied:EBADF",
            "bad-flag": "denied:EINVAL",
            "bad-time": "denied:EINVAL",
            "set-uid": DENIED,
            "set-gid": DENIED,
            "other-uid": DENIED,
            "other-gid": DENIED,
            "magic": "denied:ELOOP",
            "device": DENIED,
            "pipe": DENIED,
            "named": "allowed",
            "unlinked": DENIED,  # it is inside nothing any more
            "decoy": DENIED,
        },
    )
    assert stat.S_IMODE(os.stat(grant / "file").st_mode) == 0o644


def test_no_hard_link_of_what_is_outside(me, grant):
    """Otherwise a file outside would get a name inside."""
    victim = me.write(me.out / "victim")
    script = f"ln {victim} {grant}/a; ln {me.work}/readable {grant}/b; ln {grant}/file {grant}/c && echo fine"
    me.write(me.work / "readable")
    done = me.run(["-r", me.work, "-w", grant], ["sh", "-c", script], LEVEL)
    assert done.stdout == b"fine\n"
    assert sorted(os.listdir(grant)) == ["c", "file"]
    assert os.stat(victim).st_nlink == 1


def test_nothing_more_is_open(me):
    done = me.run([], ["sh", "-c", "ls /proc/$$/fd"], LEVEL)
    assert [n for n in done.stdout.split() if int(n) < 10] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("error", [errno.EBUSY, errno.EPERM, errno.EINVAL])
def test_without_a_listener(me, probes, grant, error):
    """The run goes on without the broker, and the kernel refuses the calls that it would decide."""
    binary = probes["metadata"]
    cmd = me.argv(["-r", os.path.dirname(binary), "-w", grant], [binary, "all", grant / "file"], LEVEL)
    before = look(grant / "file")
    done = me.outside([binary, "nolistener", str(error), *cmd])
    expect(rows(done.stdout), dict.fromkeys(ALL, "denied:ENOSYS"))
    assert look(grant / "file") == before
    cmd = me.argv(["-w", grant], ["sh", "-c", f"echo x > {grant}/new && cat {grant}/new"], LEVEL)
    assert me.outside([binary, "nolistener", str(error), *cmd]).stdout == b"x\n"


# --- tools -----------------------------------------------------------------------------------------

SCRIPTS = {
    "gcc": 'echo "int main(void){return 7;}" > a.c && gcc a.c -o a && ./a; [ $? = 7 ]',
    "touch": 'touch -d @1000 f && [ "$(stat -c %Y f)" = 1000 ] && touch f && [ "$(stat -c %Y f)" != 1000 ]',
    "cp": 'touch -d @5 f && chmod 751 f && cp -p f g && [ "$(stat -c "%a %Y" g)" = "751 5" ] && cp -a . ../copy',
    "tar": "mkdir d && touch -d @9 d/f && chmod 640 d/f && tar cf t.tar d && rm -r d && tar xpf t.tar"
    ' && [ "$(stat -c "%a %Y" d/f)" = "640 9" ]',
    "install": 'echo x > f && install -m 711 f g && [ "$(stat -c %a g)" = 711 ]',
    "directory": "mkdir d && chmod 000 d && chmod 755 d && chmod g+s d && cd d",
    "git": "git init -q . && git config user.email a@b && git config user.name n && echo x > x"
    " && git add x && git commit -qm m && git clone -q . c && git -C c log --oneline",
    "python": "python3 -c \"import shutil, os; os.mkdir('a'); open('a/f', 'w'); os.chmod('a/f', 0o711);"
    " shutil.copytree('a', 'b'); assert os.stat('b/f').st_mode & 0o777 == 0o711; shutil.rmtree('b')\"",
}


@pytest.mark.parametrize("place", ["grant", "TMPDIR"])
@pytest.mark.parametrize("tool", SCRIPTS)
def test_tools(me, grant, tool, place):
    top = str(grant) if place == "grant" else "$TMPDIR"
    script = f'mkdir "{top}/here" && cd "{top}/here" && {SCRIPTS[tool]}'
    done = me.run(["-w", grant, "--no-protect"], ["sh", "-c", script], LEVEL)
    assert done.returncode == 0, done.stderr.decode()


# --- races and stalls ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["text", "link", "dir"])
def test_race(me, probes, grant, mode):
    victim = me.write(me.out / "victim", mode=0o640)
    before = look(victim)
    done = probe(me, probes, mode, grant / "file", victim, "20000", opts=["-w", grant, "-C", grant], timeout=120)
    changed, refused = map(int, done.stdout.split())
    assert changed + refused == 20000 and changed > 0 and refused > 0
    assert look(victim) == before


def test_killed_in_the_middle(me, probes, grant):
    done = probe(me, probes, "storm", grant / "file", "2000", opts=["-w", grant], timeout=60)
    assert done.stdout == b"over\n" and done.returncode == 0


def test_leaving_in_the_middle(me, probes, grant):
    started = time.monotonic()
    done = probe(me, probes, "flood", grant / "file", "1", opts=["-w", grant], timeout=30)
    assert done.returncode == 0
    assert time.monotonic() - started < ceiling(4)


@pytest.mark.parametrize("mode", ["flood", "hold"])
def test_timeout_is_kept(me, probes, grant, mode):
    """Neither many requests nor one that waits for a busy file keep the run from ending."""
    started = time.monotonic()
    args = [mode, grant / "new", "60"][: 3 if mode == "flood" else 2]
    done = probe(me, probes, *args, opts=["-w", grant, "-t", "500ms"], timeout=30)
    assert done.returncode == 124
    assert time.monotonic() - started < ceiling(4)


def test_supervisor_killed(me, probes, grant):
    binary = probes["metadata"]
    opts = ["-r", os.path.dirname(binary), "-w", grant]
    with me.popen(me.argv(opts, [binary, "flood", grant / "file", "60"], LEVEL)) as run:
        time.sleep(0.5)
        run.send_signal(signal.SIGKILL)
        run.wait()
    # The fixture fails if anything outlives this.
