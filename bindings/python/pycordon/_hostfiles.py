# SPDX-License-Identifier: Apache-2.0
"""Opens the files of the host that put() and get() copy.

Such a file may lie in a directory that runs can write to (``writable``), such as the working
directory. There a run decides what is behind a name: a link to a file that it must not see, or a
FIFO that blocks. So below such a directory everything goes by descriptors, and no link is followed.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import IO, List, Optional, Sequence, Tuple

from . import _arguments
from ._fileops import StrPath, too_large

_LINKS_MAX = 40  # as the kernel


def _grant_of(real: str, grants: Sequence[str]) -> Optional[str]:
    for grant in grants:
        if real == grant or real.startswith(grant.rstrip("/") + "/"):
            return grant
    return None


def _names(path: str) -> List[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _below(path: str, grants: Sequence[str]) -> Tuple[Optional[str], List[str], str]:
    """The grant that a path leads into, with the names from there on; None and the path to open if
    it leads into none. Links are followed one by one, but not inside a grant, where a run may have
    made them. There ``..`` removes the name before it, whatever that is."""
    left, real, links = _names(os.path.abspath(".") if path[:1] != "/" else ""), "", 0
    left += _names(path)
    while True:
        grant = _grant_of(real or "/", grants)
        if grant is not None:
            path = os.path.normpath("/".join([real, *left]))
            if _grant_of(path, [grant]):
                return grant, _names(path[len(grant) :]), path
            left, real = _names(path), ""  # out again
        if not left:
            return None, [], path
        name = left.pop(0)
        if name == "..":
            real = real.rpartition("/")[0]
            continue
        try:
            target = os.readlink(f"{real}/{name}")
        except OSError:
            real = f"{real}/{name}"
            continue
        links += 1
        if links > _LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        left = _names(target) + left
        real = "" if target.startswith("/") else real


def _open_below(grant: str, names: Sequence[str], flags: int, mode: int) -> int:
    walk = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    at = os.open(grant, walk)
    try:
        for name in names[:-1]:
            below = os.open(name, walk, dir_fd=at)
            os.close(at)
            at = below
        last = names[-1] if names else "."
        fd = os.open(last, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=at)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no regular file, and runs can write there")
    return fd


def _open(path: StrPath, flags: int, writable: Sequence[str]) -> int:
    path = _arguments.path("host_path", path)
    grant, names, whole = _below(path, writable)
    if grant is None:
        return os.open(whole, flags | os.O_CLOEXEC, 0o666)
    try:
        return _open_below(grant, names, flags, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            text = "links are not followed where runs can make them"
            raise OSError(errno.ELOOP, text, path) from None
        raise OSError(error.errno, error.strerror, path) from None


def read_source(
    path: StrPath, limit: Optional[int], writable: Sequence[str]
) -> Tuple[bytes, int]:
    """A file of the host and its permission bits. A run may have made it, of any size."""
    most = -1 if limit is None else _arguments.whole("limit", limit, 1, sys.maxsize - 1)
    fd = _open(path, os.O_RDONLY, writable)
    st = os.fstat(fd)
    if stat.S_ISDIR(st.st_mode):
        os.close(fd)  # open() would name the descriptor's number
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fsdecode(path))
    with open(fd, "rb") as file:
        if 0 <= most < st.st_size:
            raise too_large(path, most)
        data = file.read() if most < 0 else file.read(most + 1)
    if 0 <= most < len(data):
        raise too_large(path, most)
    return data, st.st_mode & 0o777


def open_target(path: StrPath, writable: Sequence[str]) -> IO[bytes]:
    """A file of the host to be written, empty at first."""
    file = open(_open(path, os.O_WRONLY | os.O_CREAT, writable), "wb", buffering=0)
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.truncate(0)
    return file


def write_all(file: IO[bytes], data: bytes) -> None:
    """Writes all of it to an unbuffered file."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) or 0 :]
