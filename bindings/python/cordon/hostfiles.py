# SPDX-License-Identifier: Apache-2.0
"""Opening the host's files that put() and get() copy.

A path of the host's may lie in a directory that runs can write to, such as the working directory.
There a run decides what is behind a name: a link to a file that it must not see, or a FIFO that
blocks. So below such a directory everything goes by descriptors, and no link is followed.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import IO, TYPE_CHECKING, List, Optional, Sequence, Tuple

from . import arguments
from .fileops import StrPath

if TYPE_CHECKING:
    from .state import SandboxState


def _grants(sandbox: "SandboxState") -> List[str]:
    """The directories of the host's that runs of the sandbox can change."""
    paths = list(sandbox._policy.effective().get("fs.write", ()))
    if sandbox._home is not None:
        paths.append(sandbox._home.path)
    return [os.path.realpath(os.path.join(sandbox._base_dir, path)) for path in paths]


def _below(path: str, grants: Sequence[str]) -> Optional[Tuple[str, List[str]]]:
    """The grant that a path leads into, and the names from there on. Links are followed as far as
    no run can have made them."""
    names = [name for name in os.path.abspath(path).split("/") if name]
    for i in range(len(names) + 1):
        real = os.path.realpath("/" + "/".join(names[:i]))
        for grant in grants:
            if real == grant or real.startswith(grant.rstrip("/") + "/"):
                inner = [name for name in real[len(grant) :].split("/") if name]
                return grant, inner + names[i:]
    return None


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


def _open(sandbox: "SandboxState", path: StrPath, flags: int) -> int:
    path = arguments.path("host_path", path)
    found = _below(path, _grants(sandbox))
    if found is None:
        return os.open(path, flags | os.O_CLOEXEC, 0o666)
    try:
        return _open_below(*found, flags, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            text = "links are not followed where runs can make them"
            raise OSError(errno.ELOOP, text, path) from None
        raise OSError(error.errno, error.strerror, path) from None


def open_source(sandbox: "SandboxState", path: StrPath) -> IO[bytes]:
    """A file of the host's to be read."""
    fd = _open(sandbox, path, os.O_RDONLY)
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)  # open() would name the descriptor's number
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fsdecode(path))
    return open(fd, "rb")


def open_target(sandbox: "SandboxState", path: StrPath) -> IO[bytes]:
    """A file of the host's to be written, empty at first."""
    file = open(_open(sandbox, path, os.O_WRONLY | os.O_CREAT), "wb", buffering=0)
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.truncate(0)
    return file


def write_all(file: IO[bytes], data: bytes) -> None:
    """Writes all of it to an unbuffered file."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) or 0 :]
