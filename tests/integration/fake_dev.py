# SPDX-License-Identifier: Apache-2.0
"""A /dev with nodes that this machine does not have, for one command.

    fake_dev.py ID NAME[=REAL]... [/FILE=TEXT | /LINK->TARGET | /FILE<SOURCE | /PIPE| | /PATH!CHANGE]... -- COMMAND [ARGUMENT...]

In a mount namespace of its own /dev becomes a tmpfs with the usual nodes and, at each NAME, one like the
host's harmless node REAL (default: full). Directories of the root with files or links become one with just
these: texts, links, copies, named pipes. CHANGE is "chmod MODE" or "chown ID", of what is made before it. The command runs as user and group ID.

Root makes nodes. Any other user mounts the host's own at those names, which therefore all are the same
object for Landlock: a user namespace gives him the right to mount, and a second one inside his own id
again, without that right.
"""

import ctypes
import os
import pathlib
import shutil
import sys

NEWNS, NEWUSER = 0x00020000, 0x10000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
USUAL = ("null", "zero", "full", "random", "urandom", "tty")
libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), what + ": " + os.strerror(ctypes.get_errno()))


def mount(source, target, kind, flags):
    text = lambda s: None if s is None else str(s).encode()
    check(libc.mount(text(source), text(target), text(kind), flags, None), f"mount {target}")


def enter(uid, gid, inside):
    check(libc.unshare(NEWUSER if inside else NEWUSER | NEWNS), "unshare")
    if not inside:
        pathlib.Path("/proc/self/setgroups").write_text("deny")
    first, second = (uid, 0) if inside else (0, uid)
    pathlib.Path("/proc/self/uid_map").write_text(f"{first} {second} 1")
    first, second = (gid, 0) if inside else (0, gid)
    pathlib.Path("/proc/self/gid_map").write_text(f"{first} {second} 1")


def show(name, real, old):
    target = pathlib.Path("/dev") / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch()
    source = f"{old}/{real}"
    if os.geteuid() == 0 and pathlib.Path("/proc/self/uid_map").read_text().split()[2] == str(2**32 - 1):
        target.unlink()
        os.mknod(target, os.stat(source).st_mode, os.stat(source).st_rdev)
        os.chmod(target, 0o666)
    else:
        mount(source, target, None, MS_BIND)


def make(text):
    if "!" in text:
        name, _, change = text.partition("!")
        verb, value = change.split()
        return os.chmod(name, int(value, 8)) if verb == "chmod" else os.chown(name, int(value), -1)
    if "<" in text or text.endswith("|"):
        name, _, source = text.rstrip("|").partition("<")
        os.makedirs(os.path.dirname(name), 0o755, exist_ok=True)
        return shutil.copy(source, name) if source else os.mkfifo(name)
    name, link, target = text.partition("->")
    name, _, content = name.partition("=")
    path = pathlib.Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if link:
        path.symlink_to(target)
    else:
        path.write_text(content)
    return None


def main():
    split = sys.argv.index("--")
    uid, gid, wanted = os.geteuid(), os.getegid(), int(sys.argv[1])
    if uid:
        enter(uid, gid, False)
    else:
        check(libc.unshare(NEWNS), "unshare")
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    # The old one stays reachable by a descriptor until all is done.
    old = f"/proc/self/fd/{os.open('/dev', os.O_PATH | os.O_DIRECTORY)}"
    mount("tmpfs", "/dev", "tmpfs", 0)
    os.chmod("/dev", 0o755)
    for name in USUAL:
        show(name, name, old)
    files = [text for text in sys.argv[2:split] if text.startswith("/")]
    for top in {"/" + text.split("/")[1] for text in files}:
        mount("tmpfs", top, "tmpfs", 0)
        os.chmod(top, 0o755)
    for text in files:
        make(text)
    for text in sorted(set(sys.argv[2:split]) - set(files)):
        name, _, real = text.partition("=")
        show(name, real or "full", old)
    for name, text in (("fd", "/proc/self/fd"), ("ptmx", "pts/ptmx"), ("stdin", "fd/0"), ("stdout", "fd/1")):
        os.symlink(text, f"/dev/{name}")
    os.mkdir("/dev/shm")
    os.mkdir("/dev/pts")
    if uid:
        enter(uid, gid, True)
    elif wanted:
        os.setgroups([])
        os.setresgid(wanted, wanted, wanted)
        os.setresuid(wanted, wanted, wanted)
    argv = sys.argv[split + 1 :]
    os.execvp(argv[0], argv)


main()
