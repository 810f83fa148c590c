# SPDX-License-Identifier: Apache-2.0
"""What the workspace suites share: pictures of trees, and runs with a workspace."""

import array
import fcntl
import hashlib
import json
import os
import stat
import time

_FS_IOC_GETFLAGS = 0x80086601
_FS_IOC_GETVERSION = 0x80087601


def _flags(path):
    """What lsattr shows, and the generation; [] where the filesystem has none."""
    got = []
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        return [error.errno]
    for request in (_FS_IOC_GETFLAGS, _FS_IOC_GETVERSION):
        value = array.array("l", [0])
        try:
            fcntl.ioctl(fd, request, value)
            got.append(value[0])
        except OSError:
            pass
    os.close(fd)
    return got


def _content(path, st):
    if stat.S_ISLNK(st.st_mode):
        return os.readlink(path)
    if not stat.S_ISREG(st.st_mode):
        return None
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except PermissionError:
        return "closed"


def _attributes(path):
    try:
        names = os.listxattr(path, follow_symlinks=False)
        return sorted((x, os.getxattr(path, x, follow_symlinks=False)) for x in names)
    except OSError as error:
        return error.errno


def _entry(path):
    st = os.lstat(path)
    entry = {
        "mode": oct(st.st_mode), "owner": (st.st_uid, st.st_gid), "size": st.st_size, "mtime": st.st_mtime_ns,
        "ctime": st.st_ctime_ns, "links": st.st_nlink, "ino": st.st_ino, "device": st.st_rdev,
        "content": _content(path, st), "attributes": _attributes(path),
    }  # fmt: skip
    if stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode):
        entry["flags"] = _flags(path)
    return entry


def picture(top):
    """Everything about a tree that could have changed, by path below it."""
    top = os.fsencode(top)
    seen = {".": _entry(top)}
    todo = [b""]
    while todo:
        where = todo.pop()
        try:
            names = os.listdir(os.path.join(top, where) if where else top)
        except PermissionError:
            continue
        for name in names:
            rel = os.path.join(where, name) if where else name
            path = os.path.join(top, rel)
            seen[os.fsdecode(rel)] = _entry(path)
            if stat.S_ISDIR(os.lstat(path).st_mode):
                todo.append(rel)
    return seen


def differences(before, after):
    """One line per difference of two pictures."""
    lines = [f"{path}: is gone" for path in before if path not in after]
    lines += [f"{path}: is new" for path in after if path not in before]
    for path, old in before.items():
        new = after.get(path, old)
        lines += [f"{path}: {key} {old[key]} -> {new.get(key)}" for key in old if old[key] != new.get(key)]
    return lines


def assert_same(before, top):
    bad = differences(before, picture(top))
    assert not bad, "the base was changed:\n" + "\n".join(bad[:40])


def text(me, done):
    """For messages of assertions."""
    return f"exit {done.returncode}\n{done.stdout!r}\n{done.stderr!r}"


def tree(me, top, entries):
    """Makes a tree that belongs to the caller: path -> text or bytes, None = directory,
    ("link", target)."""
    for path, what in entries.items():
        path = top / path
        missing = [p for p in path.parents if not p.exists()]
        for parent in reversed(missing):
            parent.mkdir()
            me.own(parent)
        if what is None:
            path.mkdir()
            me.own(path)
        elif isinstance(what, tuple):
            os.symlink(what[1], path)
            me.own(path)
        else:
            me.write(path, what)
    return top


def store(me):
    """Where this caller's workspaces are kept."""
    return me.home / ".local" / "state" / "cordon" / "workspaces"


class Desk:
    """One caller at one level, with a directory, runs over it and the verbs for what they left."""

    def __init__(self, me, level, base):
        self.me, self.level, self.base = me, level, base

    def run(self, script, *opts, status=0, **kw):
        """A run over the directory, in it; the whole of what it gave."""
        kw.setdefault("cwd", str(self.base))
        argv = ["sh", "-c", 'umask 022; cd "$CORDON_WORKSPACE" && ' + script]
        done = self.me.run(["--workspace", self.base, *opts], argv, self.level, **kw)
        assert status is None or done.returncode == status, (script, done)
        return done

    def receipt(self, script, *opts, **kw):
        return json.loads(self.run(script, "--json", *opts, **kw).stdout)

    def verb(self, *words, **kw):
        kw.setdefault("cwd", str(self.base))
        return self.me.outside([self.me.cordon, "workspace", *words], **kw)

    def ok(self, *words, **kw):
        done = self.verb(*words, **kw)
        assert done.returncode == 0, (words, done)
        return done.stdout

    def fails(self, *words, says=(), **kw):
        """An error is one line with what is wrong and, after it, what helps."""
        done = self.verb(*words, **kw)
        assert done.returncode == 125 and done.stdout == b"", (words, done)
        assert done.stderr.startswith(b"cordon: ") and done.stderr.count(b"\n") == 1, done
        assert all(c >= 0x20 and c != 0x7F for c in done.stderr[:-1]), done
        for word in [says] if isinstance(says, str) else says:
            assert word in done.stderr.decode(), (word, done)
        return done.stderr.decode()

    def json(self, *words, **kw):
        return json.loads(self.ok(*words, "--json", **kw))

    def ids(self):
        return [one["id"] for one in self.json("list")]

    def changes(self, *which):
        got = self.json("diff", *which)
        return {c["path"]: c["kind"] for c in got["changes"] if c["listed"]}

    def text(self, path):
        return (self.base / path).read_text()


def settle_clock(top):
    """Waits until the clock that files are stamped with is past everything in the tree, so that what
    a run finds is older than the run."""
    newest = max(
        os.lstat(os.path.join(where, name)).st_ctime_ns
        for where, dirs, files in os.walk(top)
        for name in [".", *dirs, *files]
    )
    while time.clock_gettime_ns(5) <= newest:  # CLOCK_REALTIME_COARSE
        time.sleep(0.001)
