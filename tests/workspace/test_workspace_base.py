# SPDX-License-Identifier: Apache-2.0
"""Every system call that changes something, in a workspace: the base stays as it is.

The same program runs on a copy of the tree without a sandbox, where the same picture must show each
change; and inside it must see its own changes.
"""

import os
import subprocess

from conftest import rows
from workspacelib import assert_same, differences, picture

# Nothing to see outside either, or nothing that this filesystem or kernel can do.
NO_CHANGE = {
    "open_only_wronly", "open_only_rdwr", "splice_from", "mmap_private", "flock", "lease", "lock",
    "fifo_write", "proc_mem", "proc_mem_shared", "trim", "dedupe", "remount_rw",
    "fallocate_unshare", "bind_here",
}  # fmt: skip
# By filesystem: ext4 shares no blocks, and has verity only if it was made so.
BY_FILESYSTEM = {"ficlone", "ficlonerange", "verity", "fallocate_collapse", "fallocate_insert"}
NOT_ON_TMPFS = {"fallocate_zero", "setflags_sync", "setversion"}
# What a user may not do to a file of its own, and root may.
ONLY_ROOT = {
    "chown", "setxattr_security", "setxattr_trusted", "lsetxattr_trusted", "setxattr_overlay_trusted",
    "setcap", "mknod_null", "mknod_block", "handle", "handle_guessed", "open_tree_clone",
}  # fmt: skip
# A machine may forbid user namespaces to users, and have an older kernel.
BY_MACHINE = {
    "bind_mount", "unmount_view", "overlay_again", "setxattrat", "removexattrat", "file_setattr",
    "io_uring", "link_empty",
}  # fmt: skip


def subject(me, path):
    path.mkdir()
    me.own(path)
    me.write(path / "file", "a" * 8192)
    os.setxattr(path / "file", "user.canary", b"canary")
    me.write(path / "other", "b" * 8192)
    me.write(path / "hard1", "hard")
    os.link(path / "hard1", path / "hard2")
    for name in ("full", "empty"):
        (path / name).mkdir()
        me.own(path / name)
    me.write(path / "full" / "child", "child")
    os.mkfifo(path / "fifo")
    me.own(path / "fifo")
    for name, target in (("link", "file"), ("dirlink", "full")):
        os.symlink(target, path / name)
        me.own(path / name)


def by_filesystem(path):
    kind = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, check=True, text=True).stdout.strip()
    return BY_FILESYSTEM | (NOT_ON_TMPFS if kind == "tmpfs" else set())


def subjects(me, probe, top):
    names = subprocess.run([probe, "-l"], capture_output=True, check=True, text=True).stdout.split()
    assert len(names) > 150 and len(set(names)) == len(names)
    me.own(top)
    for name in names:
        subject(me, top / name)
    return names


def mutate(me, probe, opts, level=None, **kw):
    """Runs it in a workspace; its rows."""
    argv = ["sh", "-c", 'exec "$0" "$CORDON_WORKSPACE"', probe]
    done = me.run(["-r", probe, *opts], argv, level, **kw)
    assert done.returncode == 0, done.stderr
    return rows(done.stdout)


# Stamps of the change itself (ctime), which a copy has anyway, or times of access.
UNSEEN = {"chown_same", "lchown", "fchown", "fchownat_empty", "chown_dir", "utimensat_access"}
# What no sandbox lets anybody do.
REFUSED = {
    "openat2_trunc", "vmsplice_write", "io_uring", "aio", "chmod_setid", "chown", "setxattr_security",
    "setxattr_trusted", "lsetxattr_trusted", "setxattr_overlay_trusted", "setcap", "mknod_whiteout",
    "mknod_null", "mknod_block", "handle", "handle_guessed", "bind_mount", "bind_here", "unmount_view",
    "open_tree_clone", "remount_rw", "overlay_again", "verity", "trim",
}  # fmt: skip
# What takes room without writing, which a limit of disk space could not follow.
NOT_WITH_A_LIMIT = {"fallocate", "fallocate_keep", "fallocate_zero"}
# What an overlay does not know: programs copy directories then, as between filesystems.
NOT_IN_OVERLAY = {
    "rename_dir", "rename_dir_over", "rename_exchange_dirs", "rename_exchange_types", "rename_whiteout",
    "setversion",
}  # fmt: skip
# Level landlock has no attributes, file flags or sockets for the command, and a copy leaves pipes out.
NOT_WITH_LANDLOCK = {
    "setxattr", "setxattr_replace", "setxattr_dir", "setxattr_here", "setxattr_magic", "setxattr_hard",
    "fsetxattr", "lsetxattr", "setxattr_overlay", "setxattr_whiteout", "setxattr_redirect",
    "acl_access", "acl_default", "removexattr", "lremovexattr", "fremovexattr", "setflags",
    "setflags_dir", "setflags_sync", "fssetxattr", "setversion", "bind", "passed_descriptor",
    "chmod_fifo", "rename_fifo", "link_fifo", "unlink_fifo",
}  # fmt: skip


def test_every_call(me, level, probes):
    probe = probes["mutate"]
    base = me.mkdir("base")
    names = subjects(me, probe, base)
    before = picture(base)
    got = mutate(me, probe, ["--workspace", base], level, cwd=str(base), timeout=240)
    assert_same(before, base)
    excused = NO_CHANGE | by_filesystem(base) | BY_MACHINE | UNSEEN | REFUSED | NOT_WITH_A_LIMIT
    excused |= NOT_IN_OVERLAY if level == "namespaces" else NOT_WITH_LANDLOCK
    bad = [f"{n}: {got[n]}, but changed" for n in REFUSED if got[n + ".seen"] != "same"]
    bad += [f"{n}: {got[n]}" for n in REFUSED if got[n] == "allowed"]
    for name in names:
        if got[name + ".seen"] != "changed" and name not in excused:
            bad.append(f"{name}: {got[name]}, and its own change is not seen")
    assert not bad, "\n".join(bad)


def test_every_call_outside(me, probes):
    """The control: the same picture shows each change that is made without a workspace."""
    probe = probes["mutate"]
    top = me.mkdir("control")
    names = subjects(me, probe, top)
    before = {name: picture(top / name) for name in names}
    got = rows(me.outside([probe, top], check=True).stdout)
    excused = NO_CHANGE | by_filesystem(top) | BY_MACHINE
    if me.name != "root":
        excused |= ONLY_ROOT
    bad = []
    for name in names:
        after = picture(top / name) if os.path.isdir(top / name) else {}
        if not differences(before[name], after) and name not in excused:
            bad.append(f"{name}: {got[name]}, {got[name + '.seen']}")
    assert not bad, "\n".join(bad)


def test_through_a_write_grant_it_can(me, level, probes):
    """The second control: with -w instead of --workspace the same run changes the tree."""
    probe = probes["mutate"]
    base = me.mkdir("base")
    subjects(me, probe, base)
    before = picture(base)
    argv = [probe, base]
    done = me.run(["-r", probe, "-w", base], argv, level, cwd=str(base), timeout=240)
    assert done.returncode == 0, done.stderr
    changed = {line.split("/")[0] for line in differences(before, picture(base))}
    assert len(changed) > 120, sorted(changed)
