# SPDX-License-Identifier: Apache-2.0
"""Who the command is: ids, capabilities, groups, and what the caller's surroundings may decide."""

import os
import pathlib
import re
import shutil
import stat
import time

import pytest

from conftest import IS_ROOT, needs, unavailable


def status(data):
    fields = {}
    for line in data.decode().splitlines():
        name, _, value = line.partition(":")
        fields[name] = value.split()
    return fields


def test_no_capability_and_no_new_privileges(me, level):
    done = me.run([], ["cat", "/proc/self/status"], level)
    assert done.returncode == 0, done.stderr
    got = status(done.stdout)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        if name == "CapBnd" and level == "landlock" and me.name == "user":
            continue  # an ordinary user may not shrink it; without set-id programs it gives nothing
        assert int(got[name][0], 16) == 0, name
    assert got["NoNewPrivs"] == ["1"]
    assert got["Seccomp"] == ["2"]
    # The control: root outside has capabilities, a user outside has a bounding set.
    outside = status(me.outside(["cat", "/proc/self/status"]).stdout)
    assert int(outside["CapBnd"][0], 16) != 0
    assert outside["NoNewPrivs"] == ["0"]


def test_never_host_root(me):
    done = me.run([], ["cat", "/proc/self/uid_map", "/proc/self/gid_map"], "namespaces")
    assert done.returncode == 0, done.stderr
    lines = [list(map(int, line.split())) for line in done.stdout.decode().splitlines()]
    assert len(lines) == 2
    for _, outer, count in lines:
        assert outer != 0 and count == 1
    if me.name == "user":
        assert lines[0][1] == me.uid


def test_host_sees_another_id(me):
    """The kernel's own view from outside, not the guest's word."""
    proc = me.popen(me.argv([], ["sleep", "5"], "namespaces"))
    try:
        uids = set()
        for _ in range(100):
            uids = _uids_of_tree(proc.pid, b"sleep\x005")
            if uids:
                break
            time.sleep(0.01)
        assert uids, "the command was not seen running"
        assert 0 not in uids
    finally:
        proc.terminate()
        proc.wait()


def _uids_of_tree(root, cmdline):
    kids, uids = [root], set()
    while kids:
        pid = kids.pop()
        try:
            base = pathlib.Path(f"/proc/{pid}")
            if base.joinpath("cmdline").read_bytes().startswith(cmdline):
                uids |= set(map(int, status(base.joinpath("status").read_bytes())["Uid"]))
            kids += map(int, base.joinpath(f"task/{pid}/children").read_text().split())
        except OSError:
            pass
    return uids


@pytest.mark.skipif(not IS_ROOT, reason="only root has root-only files to try")
def test_root_cannot_use_roots_files(me, level):
    """Started by root, level namespaces: no access to root's files that were not granted, and no capability."""
    secret = me.write(me.out / "secret", "canary", 0o600)
    assert me.outside(["cat", secret]).stdout == b"canary"
    done = me.run([], ["cat", secret], level)
    assert done.returncode != 0 and b"canary" not in done.stdout
    # Opened for writing, never written: a hole must not change the host.
    script = "cat /etc/shadow; : >> /proc/sys/kernel/core_pattern && echo OPEN; : >> /proc/sysrq-trigger && echo OPEN"
    if me.name == "root":
        assert b"OPEN" in me.outside(["sh", "-c", script]).stdout
    assert me.run([], ["sh", "-c", script], level).stdout == b""


# What the kernel shows to root alone, without any capability.
ROOT_ONLY = ["/proc/slabinfo", "/proc/vmallocinfo", "/proc/sys/net/ipv4/tcp_fastopen_key"]


def inside(me, opts, *argv):
    """(uid, isolation.missing, what was printed besides) of a run at level landlock."""
    script = 'id -u; "$@" 2>/dev/null; true'
    got = me.receipt(opts, ["sh", "-c", script, "sh", *argv], "landlock")
    uid, _, text = got["stdout"].partition("\n")
    return int(uid), got["isolation"]["missing"], text


def test_an_id_that_owns_nothing(me):
    """Without namespaces ids cannot be mapped. Root's run does not have root's id all the same, if it
    needs nothing that only root may open: no file of /proc, no device in a grant is open to it."""
    grant = me.mkdir("grant")
    me.write(grant / "file", "text\n")
    shown = [path for path in ROOT_ONLY if me.outside(["cat", path]).returncode == 0]
    assert len(shown) >= 2 or me.name != "root", "positive control"
    paths = [*ROOT_ONLY, grant / "file"]
    if me.name == "root":
        os.mknod(grant / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero
        opened = me.outside(["head", "-c3", grant / "device"]).stdout == b"\0\0\0"
        assert opened or os.statvfs(grant).f_flag & os.ST_NODEV, "positive control"
        paths.append(grant / "device")
    for opts in ([], ["-r", grant], ["-r", grant / "file"]):
        uid, missing, text = inside(me, opts, "head", "-qc5", *paths)
        assert uid == (65534 if me.name == "root" else me.uid) and "uid" not in missing, (opts, uid)
        assert text == ("text\n" if opts else ""), (opts, text)


def test_root_s_own_files_need_root_s_id(me):
    """A write grant, or something in a read grant that is closed to all others: the receipt says so."""
    closed = me.mkdir("closed")
    me.write(closed / "secret", "text\n", 0o600)
    below = me.mkdir("shut/below")
    me.write(below / "file", "text\n")
    os.chmod(below.parent, 0o700)
    me.own(below.parent)
    for opts, path in ((["-r", closed], closed / "secret"), (["-r", below], below / "file"), (["-w", closed], closed / "secret")):
        uid, missing, text = inside(me, opts, "cat", path)
        assert (uid, text) == (me.uid, "text\n"), (opts, uid, text)
        assert ("uid" in missing) == (me.name == "root")


def test_setuid_copy_gives_nothing(me, level):
    """A set-id program in a directory the command may write and execute from."""
    victim = shutil.copy("/usr/bin/id", me.work / "id")
    owner = 0 if IS_ROOT else me.uid
    if IS_ROOT:
        os.chown(victim, 0, 0)
    os.chmod(victim, 0o6755)
    outside = me.outside([victim, "-u"]).stdout.strip()
    is_nosuid = os.statvfs(victim).f_flag & os.ST_NOSUID  # as /tmp often is: then there is no control
    assert outside == str(me.uid if is_nosuid else owner).encode()
    inside = me.run(["-w", me.work], [victim, "-u"], level)
    plain = me.run(["-w", me.work], ["id", "-u"], level)
    assert inside.stdout == plain.stdout, inside.stderr
    assert stat.S_IMODE(os.stat(victim).st_mode) == 0o6755


def test_groups_are_gone(me, level):
    """Supplementary groups of the caller. Started by root they are dropped; a user has no right to
    drop groups, so there they must at least reach nothing that was not granted."""
    if not IS_ROOT:
        unavailable("only root can give a caller a group")
    extra = 20777
    target = me.out / "group-file"
    target.write_text("canary")
    os.chown(target, 20888, extra)
    os.chmod(target, 0o040)
    wrap = ["setpriv", f"--groups={extra}", "--"] if me.name == "root" else []
    groups = {} if wrap else {"groups": [extra]}
    assert me.outside([*wrap, "cat", target], **groups).stdout == b"canary"
    script = f"cat {target}; grep Groups /proc/self/status"
    done = me.outside([*wrap, *me.argv([], ["sh", "-c", script], level)], **groups)
    assert b"canary" not in done.stdout
    listed = re.search(rb"Groups:(.*)", done.stdout).group(1).split()
    if level == "namespaces":
        assert set(listed) <= {b"65534", str(me.gid).encode(), b"1000"}
    if me.name == "root":
        assert str(extra).encode() not in listed
        done = me.outside([*wrap, *me.argv(["-r", me.out], ["cat", target], level)], **groups)
        assert b"canary" not in done.stdout, "a dropped group still opens a granted file"


def test_setgroups_is_denied(me):
    """Root's groups are dropped from inside the new namespace, which needs setgroups to be open
    there; without a capability it cannot be used (the namespace probe tries)."""
    done = me.run([], ["cat", "/proc/self/setgroups"], "namespaces")
    assert done.stdout.strip() == (b"deny" if me.name == "user" else done.stdout.strip())
    assert me.outside(["cat", "/proc/self/setgroups"]).stdout.strip() == b"allow"


def test_environment_is_an_allow_list(me, level):
    secret = {
        "SSH_AUTH_SOCK": "/tmp/agent",
        "AWS_SECRET_ACCESS_KEY": "canary",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/bus",
        "LD_LIBRARY_PATH": str(me.work),
        "PYTHONPATH": str(me.work),
        "BASH_ENV": str(me.work / "rc"),
        "GIT_CONFIG_GLOBAL": str(me.work / "gitconfig"),
        "GIT_SSH_COMMAND": "canary",
        "NODE_OPTIONS": "--require=x",
        "XDG_RUNTIME_DIR": "/run/user/0",
        "FOO_TOKEN": "canary",
        "TZ": "UTC",
        "LC_ALL": "C",
    }
    names = set()
    done = me.run([], ["env"], level, env=secret)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.decode().splitlines():
        names.add(line.partition("=")[0])
    allowed = {"LANG", "LC_ALL", "TZ", "TERM", "COLUMNS", "LINES", "PATH", "HOME", "TMPDIR"}
    allowed |= {"USER", "LOGNAME", "SHELL", "PWD"}  # synthetic ones would be harmless
    assert names <= allowed, names - allowed
    assert {"TZ", "LC_ALL", "LANG", "HOME", "PATH"} <= names
    assert b"canary" not in done.stdout
    # One name passed on, one set, and nothing else with them.
    done = me.run(["-e", "FOO_TOKEN", "-e", "BAR=baz=1"], ["env"], level, env=secret)
    assert b"FOO_TOKEN=canary\n" in done.stdout and b"BAR=baz=1\n" in done.stdout
    assert b"AWS" not in done.stdout


PLANTED = """
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void planted(void)
{
	int fd = open("%s", O_WRONLY | O_CREAT, 0644);
	if (fd >= 0)
		close(fd);
}
"""


def test_surroundings_decide_nothing(me, level):
    """Files in the current directory and variables that point there: nothing is loaded or opened."""
    needs("strace")
    mark = me.out / "planted-ran"
    source = me.write(me.base / "planted.c", PLANTED % mark)
    lib = me.work / "libc.so.6"
    me.outside(["gcc", "-shared", "-fPIC", "-o", lib, source], check=True)
    # The control: the library does load and leave its mark in a dynamic program.
    me.outside(["/bin/true"], env={"LD_PRELOAD": str(lib)})
    assert mark.exists()
    mark.unlink()
    for name in (".cordon.json", "cordon.json", "policy.json", "sitecustomize.py", ".cordonrc"):
        me.write(me.work / name, '{"fs": {"read": ["/"], "write": ["/"]}}')
    for name in ("bwrap", "newuidmap", "newgidmap", "cordon-init", "mount", "ip", "git"):
        me.write(me.work / name, f"#!/bin/sh\necho x > {mark}\n", 0o755)
    env = {
        "PATH": f".:{me.work}:/usr/bin:/bin",
        "GLIBC_TUNABLES": "glibc.malloc.check=3",
        "CORDON_POLICY": str(me.work / ".cordon.json"),
        "CORDON_INIT": str(me.work / "cordon-init"),
        "LD_LIBRARY_PATH": str(me.work),
    }
    trace = me.base / "trace"
    me.write(trace)
    argv = ["strace", "-f", "-qq", "-e", "trace=execve,execveat,open,openat,openat2", "-o", trace]
    for name, value in env.items():
        argv += ["-E", f"{name}={value}"]  # for the traced program only
    done = me.outside(argv + me.argv([], ["/bin/true"], level))
    assert done.returncode == 0, done.stderr
    assert not mark.exists()
    opened = []
    for line in trace.read_text(errors="replace").splitlines():
        if re.search(r'execve\("/(usr/)?bin/true"', line):
            break
        path = re.search(r'(?:execve|open|openat|openat2)\((?:[^"]*)"([^"]*)"', line)
        if path and not line.split("execve", 1)[0].endswith("exec"):
            opened.append((path.group(1), line))
    inside_cwd = []
    for path, line in opened:
        if path == str(me.work / ".venv" / "pyvenv.cfg"):
            continue  # where the project's interpreter is: see test_workspace_cannot_widen_its_view
        if path in (".", str(me.work)) and "O_PATH" in line:
            continue  # the directory itself, to grant it
        if path.startswith(("./", str(me.work) + "/")) or (
            path and "/" not in path and path != "."
        ):
            if "AT_FDCWD" in line:
                inside_cwd.append(line)
    assert not inside_cwd, "opened in the caller's directory before the command:\n" + "\n".join(
        inside_cwd
    )
    # LD_PRELOAD: only the dynamic loader of the command itself could honour it, so cordon has none.
    me.run([], ["/bin/true"], level, env={"LD_PRELOAD": str(lib)})
    assert not mark.exists(), "LD_PRELOAD of the caller was loaded into cordon"


def test_signal_state_is_reset(me, level):
    script = "grep -E '^Sig(Blk|Ign)' /proc/self/status; ulimit -c"
    hostile = [
        "sh",
        "-c",
        'trap "" HUP INT TERM PIPE; ulimit -c unlimited 2>/dev/null; exec "$@"',
        "sh",
    ]
    done = me.outside(hostile + me.argv([], ["sh", "-c", script], level))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert int(lines[0].split()[1], 16) == 0 and int(lines[1].split()[1], 16) == 0
    assert lines[2] in ("0", "1", "2")  # blocks of 512 bytes of a limit of one byte
    control = me.outside(hostile + ["sh", "-c", script]).stdout.decode().splitlines()
    assert int(control[1].split()[1], 16) != 0


MAKE = "umask; : >file; mkdir dir; stat -c %a file dir; cp file $HOME/x; stat -c %a $HOME/x"


@pytest.mark.parametrize("umask", [0o077, 0o027, 0o002, 0o000])
def test_files_have_the_modes_of_the_callers_umask(me, level, umask):
    want = f"{umask:04o} {0o666 & ~umask:o} {0o777 & ~umask:o} {0o666 & ~umask:o}".split()
    control = me.outside(["sh", "-c", MAKE], umask=umask)
    assert control.stdout.decode().split() == want
    work = me.mkdir(f"granted-{umask}")
    done = me.run(["-w", work, "-C", work], ["sh", "-c", MAKE], level, umask=umask)
    assert done.stdout.decode().split() == want, done.stderr
    assert (work / "file").stat().st_mode & 0o777 == 0o666 & ~umask


VIEW = "stat -c '%a %n' / /tmp ~ /etc /etc/passwd /dev /dev/shm"


def test_the_view_does_not_depend_on_the_umask(me):
    views = {me.run([], ["sh", "-c", VIEW], umask=umask).stdout for umask in (0, 0o022, 0o077)}
    assert len(views) == 1 and views != {b""}, views
    private = [me.work / name for name in ("a", "b")]
    for path, umask in zip(private, (0, 0o077)):
        done = me.run(["--private", path], ["true"], umask=umask)
        assert done.returncode == 0, done.stderr
    modes = [[(p / d).stat().st_mode & 0o7777 for d in ("", "tmp", "home")] for p in private]
    assert modes[0] == modes[1] == [0o700, 0o1777, 0o700], modes
