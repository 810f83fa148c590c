# SPDX-License-Identifier: Apache-2.0
"""Files: what is not granted cannot be seen or touched, what is granted for reading cannot change."""

import hashlib
import os
import pathlib
import shutil
import stat
import subprocess
import time

import pytest

from conftest import control, expect, rows
from differences import kernel_lacks

LOOK = "stat access readlink statfs getxattr listxattr open-path inotify chdir".split()
READ = "list read read-link lock lease".split()
CHANGE = (
    "write append read-write reopen mmap-write chmod fchmodat2 chown utime setxattr removexattr create tmpfile "
    "mkdir symlink link fifo socket truncate open-trunc read-trunc rename exchange rmdir unlink "
    "fd-chmod fd-chown fd-utime fd-setxattr magic-chmod magic-utime magic-setxattr empty-chmod empty-chown "
    "dir-chmod dir-utime"
).split()

TOO_NEW = ["fchmodat2", "empty-chmod"] if kernel_lacks("fchmodat2") else []


def tree(me, path):
    path.mkdir(exist_ok=True)
    os.chmod(path, 0o755)
    me.own(path)
    me.write(path / "file", "canary")
    os.setxattr(path / "file", "user.canary", b"canary")
    os.symlink("file", path / "link")
    me.own(path / "link")
    (path / "sub").mkdir()
    me.own(path / "sub")
    return path


def picture(top):
    """Everything about a tree that a guest could have changed."""
    seen = {}
    for where, dirs, files in os.walk(top):
        for name in [".", *dirs, *files]:
            path = os.path.join(where, name)
            st = os.lstat(path)
            entry = [st.st_mode, st.st_uid, st.st_gid, st.st_size, st.st_mtime_ns, st.st_ino]
            if os.path.islink(path):
                entry.append(os.readlink(path))
            elif os.path.isfile(path):
                entry.append(hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest())
                entry.append(sorted((x, os.getxattr(path, x)) for x in os.listxattr(path)))
            seen[os.path.relpath(path, top)] = entry
    return seen


# mmap-write fails outside too: the descriptor was opened for reading only, which is the point.
CONTROL_BUT = {"mmap-write"}


def test_outside_the_grants(me, level, probes):
    """Level namespaces hides everything; level landlock cannot hide metadata (and says so), but
    neither reads contents nor changes anything, names and attributes included."""
    probe = probes["fsops"]
    canary = tree(me, me.out / "tree")
    before = picture(canary)
    done = me.run(["-r", probe], [probe, "x", canary], level)
    assert done.returncode == 0, done.stderr
    assert picture(canary) == before
    table = {f"x.{op}": ("denied:ENOENT", "any") for op in LOOK}
    table |= {f"x.{op}": ("denied:ENOENT", "denied") for op in READ + CHANGE}
    table |= {f"x.{op}": "denied" for op in TOO_NEW}
    expect(rows(done.stdout), table, level)
    got = rows(me.outside([probe, "x", canary]).stdout)
    control(got, table, {f"x.{op}" for op in [*CONTROL_BUT, *TOO_NEW]})
    assert picture(canary) != before


def test_inside_a_read_grant(me, level, probes):
    probe = probes["fsops"]
    granted = tree(me, me.base / "granted")
    before = picture(granted)
    done = me.run(["-r", probe, "-r", granted], [probe, "x", granted], level)
    assert done.returncode == 0, done.stderr
    assert picture(granted) == before
    table = {f"x.{op}": "allowed" for op in LOOK + READ} | {f"x.{op}": "denied" for op in CHANGE}
    table["x.lease"] = table["x.lock"] = table["x.getxattr"] = table["x.listxattr"] = "any"
    table["x.inotify"] = (
        "allowed",
        "any",
    )  # without a mount namespace it would show what is outside
    expect(rows(done.stdout), table, level)


def test_inside_a_write_grant(me, level, probes):
    """The right to write is one that works: everything but devices, links out and attributes."""
    probe = probes["fsops"]
    granted = tree(me, me.base / "granted")
    done = me.run(["-r", probe, "-w", granted], [probe, "x", granted], level)
    assert done.returncode == 0, done.stderr
    got = rows(done.stdout)
    for (
        op
    ) in "read write append read-write create mkdir symlink truncate open-trunc rename unlink rmdir".split():
        assert got[f"x.{op}"] == "allowed", (op, got[f"x.{op}"])
    owners = {os.lstat(p).st_uid for p in granted.rglob("*")}
    assert owners == {me.uid}, "what the command makes belongs to the caller"


def test_race_for_metadata(me, level, probes):
    """Level landlock: a helper outside the domain changes metadata for the command. Whatever the
    command does to the path in the meantime, the file outside stays as it was."""
    probe = probes["metarace"]
    canary = me.write(me.out / "canary", "canary")
    own = me.write(me.work / ("own" + "x" * 40), "own")
    for name in ("dirs", "dirs/a"):
        me.mkdir(f"work/{name}")
    me.write(me.work / "dirs" / "a" / "canary", "mine")
    os.symlink(me.out, me.work / "dirs" / "b")
    me.own(me.work / "dirs" / "b")
    before = picture(me.out)
    argv = [probe, own, canary, me.work / "dirs", "400"]
    done = me.run(["-r", probe, "-w", me.work], argv, level)
    assert done.returncode == 0, done.stderr
    assert picture(me.out) == before, done.stdout
    got = rows(done.stdout)
    assert int(got["plain"].split()[0]) >= 3, ("changes inside the write grant do work", got)
    assert int(got["path"].split()[0]) > 0, got
    assert os.stat(own).st_mode & 0o777 == 0o777
    me.outside(argv)
    assert picture(me.out) != before, "positive control: outside the race is won"


def test_default_view_of_home_and_system(me, level):
    """Without a grant: an empty home, no other home, no secrets below /etc, /usr read-only."""
    me.write(me.home / "secret", "canary")
    (me.home / ".ssh").mkdir()
    me.own(me.home / ".ssh")
    me.write(me.home / ".ssh" / "id", "canary")
    script = (
        "cat %s/secret %s/.ssh/id /etc/shadow /etc/ssh/*key /root/.bashrc; ls -A ~ /root /home; "
        % ((me.home,) * 2)
    )
    script += "touch /usr/x /etc/x /x /bin/x /lib/x 2>&1 | grep -vc denied"
    done = me.run([], ["bash", "-c", script], level)
    assert b"canary" not in done.stdout and b"id" not in done.stdout.split()
    for path in ("/usr/x", "/etc/x", "/x", "/usr/bin/x", "/usr/lib/x"):
        assert not os.path.exists(path)


def test_home_is_private_and_writable(me, level):
    done = me.run(
        [], ["sh", "-c", 'echo x > "$HOME/planted" && echo x > /tmp/planted-$$ ; ls "$HOME"'], level
    )
    assert b"planted" in done.stdout, done
    assert not (me.home / "planted").exists()
    assert not list(pathlib.Path("/tmp").glob("planted-*"))


# --- grants are objects, not strings ---------------------------------------------------------------


def test_symlink_in_a_granted_path(me, level):
    """A grant names a symbolic link that leads away: the target is granted openly or not at all,
    and the link cannot be turned to another place by the command."""
    target = me.mkdir("target")
    me.write(target / "file", "canary")
    os.symlink(target, me.work / "sub")
    me.own(me.work / "sub")
    done = me.run(
        ["-w", me.work / "sub"],
        ["sh", "-c", f"rm {me.work}/sub; ln -s /etc {me.work}/sub; cat {me.work}/sub/passwd"],
        level,
    )
    assert os.readlink(me.work / "sub") == str(target)
    done = me.run(
        ["-w", me.work],
        ["sh", "-c", f"echo x > {me.work}/sub/planted; cat {me.work}/sub/file"],
        level,
    )
    assert b"canary" not in done.stdout
    assert not (target / "planted").exists(), "a write grant was left through a link"


def test_link_to_system_directory_as_write_grant(me, level):
    """workspace/sub -> /etc, granted for writing: an unprivileged caller gains nothing by it, and
    as root nothing of /etc may be written by what a link in the workspace says."""
    os.symlink("/etc", me.work / "sub")
    me.own(me.work / "sub")
    token = f"cordon-planted-{os.getpid()}"
    me.run(["-w", me.work], ["sh", "-c", f"echo x > {me.work}/sub/{token}"], level)
    assert not os.path.exists(f"/etc/{token}")


@pytest.mark.slow
def test_swap_while_starting(me):
    """The granted directory is exchanged with a link while cordon starts, 300 times."""
    victim = me.mkdir("victim")
    real = me.work / "dir"
    # A helper process as fast as can be: rename of a prepared link over the name and back.
    script = """
import os, sys
real, other, victim = sys.argv[1:]
os.mkdir(real)
os.symlink(victim, other)
import ctypes
swap = ctypes.CDLL(None).renameat2
a, b = real.encode(), other.encode()
print('go', flush=True)
while True: swap(-100, a, -100, b, 2)
"""
    racer = me.popen(
        ["python3", "-c", script, real, me.work / "other", victim], stdout=subprocess.PIPE
    )
    write = ["sh", "-c", f"echo x > {real}/mark && echo ran"]
    try:
        assert racer.stdout.readline() == b"go\n"
        end = time.monotonic() + 12
        for _ in range(300):
            if time.monotonic() > end:
                break
            # A write grant passes through no link, whenever it is looked at: most runs are refused,
            # and those that are not have the directory.
            me.run(["-w", real, "-C", "/tmp"], write, "namespaces")
            assert not (victim / "mark").exists(), "the link's target was written"
    finally:
        racer.kill()
        racer.wait()
        racer.stdout.close()
    if real.is_symlink():
        os.rename(me.work / "other", me.work / "dir2")
        real.unlink()
        os.rename(me.work / "dir2", real)
    assert me.run(["-w", real, "-C", "/tmp"], write, "namespaces").stdout == b"ran\n"


@pytest.mark.slow
def test_swap_below_a_grant_while_starting(me):
    """A protected parent below the grant is exchanged with a link out while cordon starts: its
    placeholders and pins must not land in (or open) the place the link names."""
    victim = me.mkdir("victim")
    (me.work / ".git" / "hooks").mkdir(parents=True)
    subprocess.run(["chown", "-R", f"{me.uid}:{me.gid}", str(me.work)], check=True)
    script = """
import os, sys, ctypes
real, other, victim = sys.argv[1:]
os.symlink(victim, other)
swap = ctypes.CDLL(None).renameat2
a, b = real.encode(), other.encode()
print('go', flush=True)
while True: swap(-100, a, -100, b, 2)
"""
    racer = me.popen(
        ["python3", "-c", script, me.work / ".git", me.work / "other", victim],
        stdout=subprocess.PIPE,
    )
    try:
        assert racer.stdout.readline() == b"go\n"
        end = time.monotonic() + 10
        for _ in range(150):
            if time.monotonic() > end:
                break
            me.run(
                ["-w", me.work],
                ["sh", "-c", "echo x > .git/hooks/post-commit; echo x > .git/config"],
                "namespaces",
            )
    finally:
        racer.kill()
        racer.wait()
        racer.stdout.close()
    assert os.listdir(victim) == [], "something was made behind the link"


def test_rename_of_a_protected_parent(me, level):
    (me.work / ".git" / "hooks").mkdir(parents=True)
    me.write(me.work / ".git" / "config", "[core]\n")
    subprocess.run(["chown", "-R", f"{me.uid}:{me.gid}", str(me.work)], check=True)
    script = "mv .git .g2; mkdir .git; echo x > .git/config; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; true"
    if level == "landlock":
        # Landlock can only add rights going down a tree, so this level has no protected names;
        # that it has none must be in the account of the run.
        assert "protect" in me.receipt(["-w", me.work], ["true"], level)["isolation"]["missing"]
        return
    me.run(["-w", me.work], ["sh", "-c", script], level)
    assert (me.work / ".git" / "config").read_text() == "[core]\n"
    assert os.listdir(me.work / ".git" / "hooks") == []
    # The control: --no-protect lets the same script through.
    me.run(["-w", me.work, "--no-protect"], ["sh", "-c", script], level)
    assert (me.work / ".git" / "config").read_text() == "x\n"


def test_hard_link_to_a_denied_file(me, level):
    """A second name of a denied file that existed before: the policy is about names (documented);
    the guest cannot make such a second name itself."""
    me.write(me.work / "secret", "canary")
    script = "ln secret second; cat second secret; mv secret third; cat third"
    done = me.run(["-w", me.work, "--deny", me.work / "secret"], ["sh", "-c", script], level)
    assert b"canary" not in done.stdout
    assert me.outside(["sh", "-c", "ln secret second; cat second"]).stdout == b"canary"


# --- mounts ----------------------------------------------------------------------------------------


def test_masks_cannot_be_taken_off(me, level):
    me.write(me.work / "secret", "canary")
    script = """
for m in $(awk '{print $5}' /proc/self/mountinfo | sort -r); do umount -l "$m" 2>/dev/null && echo "UMOUNT $m"; done
mount -o remount,rw / 2>/dev/null && echo REMOUNT
mount --bind / /tmp 2>/dev/null && echo BIND
unshare -Urm umount -l /tmp 2>/dev/null && echo UNSHARE
unshare -Ur true 2>/dev/null && echo USERNS
cat secret 2>/dev/null; true
"""
    done = me.run(["-w", me.work, "--deny", me.work / "secret"], ["sh", "-c", script], level)
    assert done.stdout == b"", done.stdout
    if me.name == "root":  # the control: unshared from the host, the same tools do work
        got = me.outside(
            ["unshare", "-m", "sh", "-c", "mount -t tmpfs x /tmp && umount /tmp && echo yes"]
        )
        assert got.stdout == b"yes\n"


def test_mount_flags(me):
    """nosuid and nodev everywhere (devices are single nodes), read-only where nothing is private."""
    done = me.run(["-w", me.work], ["cat", "/proc/self/mountinfo"], "namespaces")
    assert done.returncode == 0, done.stderr
    seen = 0
    for line in done.stdout.decode().splitlines():
        fields = line.split()
        point, flags = fields[4], set(fields[5].split(","))
        seen += 1
        assert "nosuid" in flags, line
        if not point.startswith("/dev/"):
            assert "nodev" in flags, line
        if point.startswith(("/usr", "/bin", "/lib", "/sbin")) or point == "/":
            assert "ro" in flags, line
        assert "shared:" not in line
    assert seen > 3


def test_no_mount_comes_back_to_the_host(me, level):
    before = pathlib.Path("/proc/self/mountinfo").read_text()
    for _ in range(5):
        assert me.run(["-w", me.work], ["/bin/true"], level).returncode == 0
    assert pathlib.Path("/proc/self/mountinfo").read_text() == before


def test_mount_table_tells_little_of_the_host(me):
    """Paths of the host that were not granted do not show in the mount table's root column... the
    source path of a grant may (it is its own name)."""
    done = me.run([], ["cat", "/proc/self/mountinfo"], "namespaces")
    text = done.stdout.decode()
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4]
        if point.startswith("/sys/"):
            assert f" {point} " not in text, point


# --- what grows ------------------------------------------------------------------------------------

FILL = r"""
import os, sys
where, limit = sys.argv[1], int(sys.argv[2])
block = os.urandom(1 << 20)
n = 0
try:
    with open(where + '/fill', 'wb', buffering=0) as f:
        while n < limit:
            k = f.write(block)
            if k <= 0: break
            n += k
except OSError as e:
    pass
print(n)
"""

INODES = r"""
import os, sys
n = 0
try:
    os.mkdir(sys.argv[1] + '/many')
    while n < 300000:
        os.close(os.open(f'{sys.argv[1]}/many/{n}', os.O_CREAT | os.O_WRONLY)); n += 1
except OSError: pass
print(n)
"""


@pytest.mark.parametrize("where", ["/tmp", "$HOME", "/dev/shm"])
def test_private_directories_are_bounded(me, where):
    """256 MiB together, whichever directory it goes to."""
    done = me.run([], ["sh", "-c", f'python3 -c "$0" {where} 400000000', FILL], "namespaces")
    assert done.returncode == 0, done.stderr
    assert 200 << 20 <= int(done.stdout) <= 257 << 20


def test_private_directories_share_their_bound(me):
    script = 'for d in /tmp "$HOME" /dev/shm; do python3 -c "$0" "$d" 150000000; done'
    done = me.run([], ["sh", "-c", script, FILL], "namespaces")
    assert sum(map(int, done.stdout.split())) <= 257 << 20, done.stdout


def test_private_inodes_are_bounded(me):
    done = me.run([], ["sh", "-c", 'python3 -c "$0" /tmp', INODES], "namespaces")
    assert done.returncode == 0, done.stderr
    assert 1000 <= int(done.stdout) < 300000


def test_nowhere_else_to_write(me, level):
    """Every directory the command can write to is a private one (or below the write grant)."""
    script = r"""
import os, sys
found = []
for top, dirs, files in os.walk('/'):
    if top.startswith(('/proc', '/sys')):
        dirs[:] = []
        continue
    probe = os.path.join(top, '.cordon-probe')
    try:
        fd = os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_EXCL)
    except OSError:
        continue
    os.close(fd); os.unlink(probe); found.append(top)
    if len(top) > 3: dirs[:] = []
print('\n'.join(found))
"""
    done = me.run([], ["python3", "-c", script], level, timeout=120)
    assert done.returncode == 0, done.stderr
    inside = me.run([], ["sh", "-c", 'echo "$HOME" "$TMPDIR"'], level).stdout.decode().split()
    private = ["/tmp", "/dev/shm", "/var/tmp", str(me.home), *inside]
    bad = [d for d in done.stdout.decode().split("\n") if d and not d.startswith(tuple(private))]
    if level == "namespaces":
        assert not bad
    else:
        # Without a mount namespace a private directory lies in the host's /tmp and has its own name.
        assert all("cordon" in d for d in bad), bad


# --- deny ------------------------------------------------------------------------------------------


def test_deny(me, level):
    """Hidden: existing file and directory, inside a write grant and inside a read grant."""
    (me.work / "closed").mkdir()
    me.own(me.work / "closed")
    me.write(me.work / "closed" / "file", "canary")
    me.write(me.work / "secret", "canary")
    before = picture(me.work)
    script = """
cat secret closed/file; ls closed; cp -r closed copy 2>/dev/null; cat copy/file
echo x > secret; echo x > closed/planted; rm -rf closed secret; mv closed moved; cat moved/file
chmod 777 closed secret; ln -s closed/file l; cat l; cd closed && cat file
"""
    opts = ["--deny", me.work / "secret", "--deny", me.work / "closed"]
    for grant in ("-w", "-r"):
        done = me.run([grant, me.work, *opts], ["sh", "-c", script], level)
        assert b"canary" not in done.stdout, (grant, done.stdout)
        for name in ("closed", "secret"):
            now = {k: v for k, v in picture(me.work).items() if k.startswith(name)}
            assert {k: v for k, v in before.items() if k.startswith(name)} == now
        for left in ("copy", "l"):
            path = me.work / left
            if path.is_symlink():
                path.unlink()
            elif path.exists():
                subprocess.run(["chmod", "-R", "u+rwX", str(path)], check=True)
                shutil.rmtree(path)
    assert b"canary" in me.run(["-r", me.work], ["cat", "secret"], level).stdout  # the control


def test_deny_what_does_not_exist_yet(me, level):
    script = "echo x > later; mkdir later; echo x > later/file; ln -s / later; cat later; touch t && mv t later; true"
    done = me.run(["-w", me.work, "--deny", me.work / "later"], ["sh", "-c", script], level)
    assert not os.path.lexists(me.work / "later"), (done, os.lstat(me.work / "later"))
    me.run(["-w", me.work], ["sh", "-c", "echo x > later"], level)
    assert (me.work / "later").exists()  # the control


def test_deny_and_rename_of_the_parent(me, level):
    deep = me.work / "a" / "b"
    deep.mkdir(parents=True)
    me.write(deep / "secret", "canary")
    subprocess.run(["chown", "-R", f"{me.uid}:{me.gid}", str(me.work)], check=True)
    script = "mv a z; cat z/b/secret; mkdir -p a/b; echo planted > a/b/secret; mv a/b a/c; cat a/c/secret; true"
    done = me.run(["-w", me.work, "--deny", deep / "secret"], ["sh", "-c", script], level)
    assert b"canary" not in done.stdout
    assert (deep / "secret").read_text() == "canary"


def test_deny_below_a_name_that_does_not_exist(me, level):
    path = me.work / "no" / "such" / "file"
    script = "mkdir -p no/such; echo x > no/such/file; true"
    me.run(["-w", me.work, "--deny", path], ["sh", "-c", script], level)
    assert not path.exists()


SET_ID = """
import ctypes, os, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(what):
    try:
        what()
    except OSError:
        pass
def make(name, mode=0o755):
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_EXCL, mode))
os.umask(0)
for bits in (0o4000, 0o2000, 0o6000):
    p = f"{bits:o}-"
    for name in ("chmod", "fchmod", "fchmodat2", "open", "creat", "mknod", "tmpfile", "openat2"):
        if name in ("chmod", "fchmod", "fchmodat2"):
            make(p + name)
    attempt(lambda: os.chmod(p + "chmod", bits | 0o755))
    fd = os.open(p + "fchmod", os.O_RDONLY)
    attempt(lambda: os.fchmod(fd, bits | 0o755))
    libc.syscall(452, -100, (p + "fchmodat2").encode(), bits | 0o755, 0)
    attempt(lambda: make(p + "open", bits | 0o755))
    libc.creat((p + "creat").encode(), bits | 0o755)
    attempt(lambda: os.mknod(p + "mknod", stat.S_IFREG | bits | 0o755))
    try:
        fd = os.open(".", os.O_TMPFILE | os.O_RDWR, bits | 0o755)
        libc.linkat(-100, f"/proc/self/fd/{fd}".encode(), -100, (p + "tmpfile").encode(), 0x400)
    except OSError:
        pass
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, bits | 0o755, 0)
    libc.syscall(437, -100, (p + "openat2").encode(), how, 24)
"""


def test_set_id_files(me, level):
    """A file with a set-id bit in a write grant would lend the caller's identity (root's, if root
    started the run) to anybody on the host who executes it."""
    script = me.write(me.out / "set_id.py", SET_ID)

    def made(where):
        return {p.name for p in where.iterdir() if p.lstat().st_mode & 0o6000}

    inside, outside = me.base / "set-id-in", me.base / "set-id-out"
    for path in (inside, outside):
        path.mkdir()
        me.own(path)
    me.run(["-w", inside, "-r", script, "-C", inside], ["/usr/bin/python3", "-I", script], level)
    assert made(inside) == set()
    assert any(inside.iterdir()), "the probe did not run"
    me.outside(["/usr/bin/python3", "-I", script], cwd=outside)
    assert len(made(outside)) >= 18, "outside every way must work"


# What setcap writes: version 2, effective, cap_dac_override.
FILE_CAPS = """
import os, struct, sys
value = struct.pack("<5I", 0x02000001, 1 << 1, 0, 0, 0)
open(sys.argv[1], "w").close()
os.setxattr(sys.argv[1], "security.capability", value)
"""


def test_file_capabilities(me, level):
    """The same with the capabilities of a file."""
    path = me.work / "program"
    python = ["/usr/bin/python3", "-I", "-c", FILE_CAPS, path]
    wrap = [] if me.uid == 0 else ["unshare", "-Ur"]  # a user may give those of an own namespace
    assert me.outside([*wrap, *python]).returncode == 0, "positive control"
    assert "security.capability" in os.listxattr(path)
    path.unlink()
    done = me.run(["-w", me.work], python, level)
    assert done.returncode == 1 and path.exists(), done
    assert "security.capability" not in os.listxattr(path)


# A shared mapping changes a file without write(), which would take set-id bits away.
BY_MAPPING = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
with mmap.mmap(fd, 0) as memory:
    memory[:4] = b"EVIL"
"""


def test_set_id_file_by_mapping(me, level):
    """A set-id file cannot be granted for writing: a shared mapping changes it and leaves the bit."""
    path = me.write(me.out / "set-id", "program", 0o755)
    python = ["/usr/bin/python3", "-I", "-c", BY_MAPPING, path]
    for bit in (stat.S_ISUID, stat.S_ISGID):
        path.write_text("program")
        os.chmod(path, bit | 0o755)
        assert me.outside(python).returncode == 0
        assert path.read_text() == "EVILram" and path.stat().st_mode & bit, "positive control"
        done = me.run(["-w", path], python, level)
        assert done.returncode == 125 and b"set-id bit" in done.stderr, done
        path.write_text("program")
        os.chmod(path, bit | 0o755)
        assert me.run(["-r", path], python, level).returncode == 1
        assert path.read_text() == "program"
    os.chmod(path, 0o755)
    assert me.run(["-w", path], python, level).returncode == 0
    os.chmod(path, stat.S_ISGID | 0o644)  # means something else
    assert me.run(["-w", path], python, level).returncode == 0


def test_writing_takes_set_id_bits_away(me, level):
    path = me.write(me.work / "set-id", "program", 0o6755)
    done = me.run(["-w", me.work], ["sh", "-c", "echo EVIL >> set-id"], level)
    assert done.returncode == 0 and path.read_text() == "programEVIL\n", done
    assert not path.stat().st_mode & 0o6000
