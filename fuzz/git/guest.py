# SPDX-License-Identifier: Apache-2.0
"""What the hostile command does: a list of steps, in its current directory.

    python3 -c "$(cat guest.py)" '[["write", "a/b", "text"], ...]'

Runs inside the sandbox, or outside for the positive control, and imports nothing of ours. A step that
is refused is passed over: an attacker goes on. Prints what was refused, for the log.
"""

import ctypes
import hashlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import zlib

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
RENAME_EXCHANGE = 2
AWAIT_SECONDS = 60
ALL_SECONDS = 90  # less than the harness waits
GIT_ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "g",
    "GIT_AUTHOR_EMAIL": "g@g",
    "GIT_COMMITTER_NAME": "g",
    "GIT_COMMITTER_EMAIL": "g@g",
}


def parents(path):
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)


def write(path, text, mode=0o644):
    parents(path)
    with open(path, "wb") as f:
        f.write(text.encode("utf-8", "surrogateescape"))
    os.chmod(path, mode)


def append(path, text):
    with open(path, "ab") as f:
        f.write(text.encode())


def replace(path, text, mode=0o644):
    """As editors save: a new file takes the name."""
    write(path + ".new", text, mode)
    os.rename(path + ".new", path)


def link(target, path):
    parents(path)
    os.symlink(target, path)


def relink(target, path):
    """A link takes the name, whatever had it before."""
    os.symlink(target, path + ".ln")
    os.rename(path + ".ln", path)


def hardlink(old, new):
    parents(new)
    os.link(old, new, follow_symlinks=False)


def exchange(a, b):
    if LIBC.renameat2(AT_FDCWD, os.fsencode(a), AT_FDCWD, os.fsencode(b), RENAME_EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def copy(old, new):
    parents(new)
    if os.path.isdir(old):
        shutil.copytree(old, new, symlinks=True)
    else:
        shutil.copy2(old, new, follow_symlinks=False)


def rename(old, new):
    parents(new)
    os.rename(old, new)


def mkdir(path, mode=0o755):
    os.makedirs(path, exist_ok=True)
    os.chmod(path, mode)


def utime(path, seconds, nanoseconds):
    ns = seconds * 1_000_000_000 + nanoseconds
    os.utime(path, ns=(ns, ns), follow_symlinks=False)


def fifo(path):
    parents(path)
    os.mkfifo(path)


def bind(path):
    """A socket of this name."""
    parents(path)
    sock = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(os.path.dirname(path) or ".")
    sock.bind(os.path.basename(path))
    os.chdir(here)


def deep(path, name, levels, steps):
    """The steps in a directory so far down; beyond PATH_MAX only descriptors and names lead there."""
    here = os.open(".", os.O_RDONLY)
    try:
        os.makedirs(path, exist_ok=True)
        os.chdir(path)
        for _ in range(levels):
            if not os.path.isdir(name):
                os.mkdir(name)
            os.chdir(name)
        run(steps)
    finally:
        os.fchdir(here)
        os.close(here)


def many(path, prefix, n):
    """So many empty files."""
    os.makedirs(path, exist_ok=True)
    for i in range(n):
        with open(f"{path}/{prefix}{i}", "wb"):
            pass


def objects(top, how, target):
    """Every loose object becomes something else."""
    for name in sorted(os.listdir(top)):
        if len(name) != 2:
            continue
        for file in os.listdir(f"{top}/{name}"):
            path = f"{top}/{name}/{file}"
            os.unlink(path)
            if how == "fifo":
                os.mkfifo(path)
            elif how == "link":
                os.symlink(target, path)
            elif how == "dir":
                os.mkdir(path)
            else:
                bind(path)


def index(git_dir, entry, text, mode=0o100755):
    """An index that no git writes: its one entry has this path, and a blob with this text."""
    blob = b"blob %d\0" % len(text.encode()) + text.encode()
    sha = hashlib.sha1(blob)
    parents(f"{git_dir}/objects/{sha.hexdigest()[:2]}/x")
    with open(f"{git_dir}/objects/{sha.hexdigest()[:2]}/{sha.hexdigest()[2:]}", "wb") as f:
        f.write(zlib.compress(blob))
    name = entry.encode()
    data = b"DIRC" + struct.pack(">II", 2, 1) + struct.pack(">10I", 0, 0, 0, 0, 0, 0, mode, 0, 0, len(text)) + sha.digest()
    data += struct.pack(">H", min(len(name), 0xFFF)) + name
    data += b"\0" * (8 - (62 + len(name)) % 8)
    with open(f"{git_dir}/index.new", "wb") as f:
        f.write(data + hashlib.sha1(data).digest())
    os.rename(f"{git_dir}/index.new", f"{git_dir}/index")


def decoys(path, n):
    """Names that Cordon would give to what it puts aside."""
    parent, name = os.path.split(path)
    for first in ("", "." if name[0] != "." else "x"):
        for suffix in ["", *(f".{i}" for i in range(n)), *(f"-{i}" for i in range(3))]:
            write(os.path.join(parent, f"{first}{name}.held-by-cordon{suffix}"), "")


def git(*argv):
    subprocess.run(
        ["git", *argv], env=GIT_ENV, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, timeout=60, check=False,
    )  # fmt: skip


def await_(path, seconds=AWAIT_SECONDS):
    end = time.monotonic() + seconds
    while not os.path.lexists(path) and time.monotonic() < end:
        time.sleep(0.005)


OPS = {
    "write": write, "append": append, "replace": replace, "link": link, "relink": relink, "hardlink": hardlink,
    "exchange": exchange, "remove": remove, "copy": copy, "rename": rename, "mkdir": mkdir,
    "chmod": os.chmod, "utime": utime, "fifo": fifo, "socket": bind, "deep": deep, "many": many,
    "objects": objects, "index": index, "decoys": decoys, "git": git, "await": await_, "rmdir": os.rmdir, "truncate": os.truncate,
}  # fmt: skip


def run(steps):
    for op, *args in steps:
        try:
            OPS[op](*args)
        except (OSError, shutil.Error, subprocess.SubprocessError, ValueError) as error:
            print(f"{op} {args[:2]}: {error}"[:200])


if __name__ == "__main__":
    # It may wait for itself, at a pipe that it has made.
    signal.alarm(ALL_SECONDS)
    run(json.loads(sys.argv[1]))
