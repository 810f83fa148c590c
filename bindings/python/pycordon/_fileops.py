# SPDX-License-Identifier: Apache-2.0
"""The file protocol. An operation is data: requests to send, and how to read their answers.

A process inside the sandbox, with the view and the rights of a command, serves the requests. So
links made by the guest lead where they would lead a command, files that a command cannot read stay
unreadable, and the host opens nothing by a name that the guest chose.
"""

from __future__ import annotations

import errno
import mmap
import os
import posixpath
import stat
import struct
from contextlib import contextmanager
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING, Any, Callable, Generic, Iterator, List, Optional, Sequence, Tuple, TypeVar,
    Union,
)  # fmt: skip

from . import _arguments
from ._errors import SetupError, UsageError

if TYPE_CHECKING:
    from ._result import Result

T = TypeVar("T")
StrPath = Union[str, "os.PathLike[str]"]
READ_MAX = 256 << 20  # bytes, unless the caller says otherwise
PIECE = 16 << 20  # of a file that is copied to the host
LIST_MAX = 100_000  # entries
LIST_BYTES = 16 << 20  # of one listing: the server's own maximum
_MOST = (1 << 63) - 1

_MAGIC = 0x31524643
_REQUEST = struct.Struct("<IHHIIQQIIQ")
_RECORD = struct.Struct("<QqIIIII")
_READ, _WRITE, _STAT, _LIST, _MKDIR, _REMOVE, _RENAME, _CHMOD, _REALPATH, _READLINK, _SYMLINK = (
    range(1, 12)
)
_PARENTS, _APPEND, _EXCL, _NOFOLLOW, _EXIST_OK, _RECURSIVE = 1, 2, 4, 8, 16, 32
TYPES = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "dir",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}


@dataclass(frozen=True)
class FileInfo:
    """One file inside. ``path`` is as it was asked for, with the directory; ``mtime`` in seconds;
    ``mode`` are the permission bits; ``target`` is where a link leads."""

    name: str
    path: str
    type: str
    size: int
    mode: int
    mtime: float
    target: Optional[str] = None

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.type == "dir"

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self.type == "file"


@dataclass(frozen=True)
class Answer:
    """What came back for one request."""

    data: bytes
    errno: int
    more: bool

    def check(self, path: StrPath, path2: Optional[StrPath] = None) -> bytes:
        """The data, or the OSError that fits."""
        if self.errno:
            text = os.strerror(self.errno)
            if path2 is None:
                raise OSError(self.errno, text, os.fspath(path))
            raise OSError(self.errno, text, os.fspath(path), None, os.fspath(path2))
        return self.data


@dataclass(frozen=True)
class Op(Generic[T]):
    """An operation: the bytes to send, how many answers there will be, and what they mean.
    ``grows``: it may need space."""

    request: bytes
    count: int
    finish: Callable[[List[Answer]], T]
    grows: bool = False


def encode(path: StrPath) -> bytes:
    """A path as bytes for the other side."""
    raw = os.fsencode(_arguments.path("path", path))
    if not raw:
        raise UsageError("path: '' is no path", hint="'.' is the working directory")
    return raw


def _request(
    op: int,
    path: StrPath,
    *,
    path2: bytes = b"",
    data: bytes = b"",
    flags: int = 0,
    mode: int = 0,
    depth: int = 0,
    offset: int = 0,
    most: int = 0,
) -> bytes:
    raw = encode(path)
    head = _REQUEST.pack(
        _MAGIC, op, flags, mode, depth, offset, most, len(raw), len(path2), len(data)
    )
    return b"".join((head, raw, path2, data))


def parse_answers(raw: memoryview, count: int) -> List[Answer]:
    """All answers; SetupError if some are missing because the server was ended."""
    answers: List[Answer] = []
    at = 0
    try:
        for _ in range(count):
            chunks: List[memoryview] = []
            while True:
                (size,) = struct.unpack_from("<I", raw, at)
                at += 4
                if size == 0:
                    break
                if at + size > len(raw):
                    raise struct.error
                chunks.append(raw[at : at + size])
                at += size
            number, flags = struct.unpack_from("<iI", raw, at)
            at += 8
            answers.append(Answer(b"".join(chunks), number, bool(flags & 1)))
    except struct.error:
        raise SetupError("the file server inside the sandbox was ended", stage="files") from None
    return answers


@contextmanager
def memory_file() -> Iterator[int]:
    """A descriptor that the server writes its answers to."""
    fd = os.memfd_create("cordon-files", os.MFD_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def disk_is_full() -> OSError:
    """What does not fit into a sandbox."""
    return OSError(errno.ENOSPC, "the sandbox's disk limit is reached")


def answers_of(result: "Result", fd: int, count: int) -> List[Answer]:
    """What a server wrote into a memory file. It must have come to its end by itself."""
    # It may have ended before the limit was noticed. Only operations that may need space have one.
    if result.kind == "disk" or any(denial.rule == "limits.disk" for denial in result.denials):
        raise disk_is_full()
    if not result.ok:
        raise SetupError(
            f"the file server inside the sandbox failed: {result.kind}",
            hint=result.hint or result.stderr.strip() or None,
            stage="files",
        )
    return parse_answers_of(fd, count)


def parse_answers_of(fd: int, count: int) -> List[Answer]:
    """The same, without a look at how it ended."""
    size = os.fstat(fd).st_size
    if size == 0:
        return parse_answers(memoryview(b""), count)
    with mmap.mmap(fd, size, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
        return parse_answers(view, count)


def _info(raw: bytes, at: int, path: str, is_list: bool) -> Tuple[FileInfo, int]:
    size, mtime, mode, _uid, _gid, name_len, target_len = _RECORD.unpack_from(raw, at)
    at += _RECORD.size
    name = os.fsdecode(raw[at : at + name_len])
    at += name_len
    target = os.fsdecode(raw[at : at + target_len]) if stat.S_ISLNK(mode) else None
    at += target_len
    full = posixpath.join(path, name) if is_list and path != "." else (name or path)
    info = FileInfo(
        name if is_list else posixpath.basename(path.rstrip("/")) or path,
        full,
        TYPES.get(stat.S_IFMT(mode), "device"),
        size,
        stat.S_IMODE(mode),
        mtime / 1e9,
        target,
    )
    return info, at


def _one(path: StrPath, path2: Optional[StrPath] = None) -> Callable[[List[Answer]], None]:
    def finish(answers: List[Answer]) -> None:
        answers[0].check(path, path2)

    return finish


def read(path: StrPath, limit: Optional[int] = READ_MAX) -> Op[bytes]:
    """The whole file."""

    def finish(answers: List[Answer]) -> bytes:
        data = answers[0].check(path)
        if answers[0].more:
            text = f"the file is larger than {limit} bytes; read(limit=None) takes any size"
            raise OSError(errno.EFBIG, text, os.fspath(path))
        return data

    most = 0 if limit is None else _arguments.whole("limit", limit, 1, _MOST)
    return Op(_request(_READ, path, most=most), 1, finish)


def piece(path: StrPath, offset: int) -> Op[Tuple[bytes, bool]]:
    """A part of a file, and whether there is more."""

    def finish(answers: List[Answer]) -> Tuple[bytes, bool]:
        return answers[0].check(path), answers[0].more

    return Op(_request(_READ, path, offset=offset, most=PIECE), 1, finish)


def too_large(path: StrPath, limit: int) -> OSError:
    """For get() and export_tar(): it costs a guest nothing to make a file of any size."""
    text = f"there are more than {limit} bytes; limit=None takes any size"
    return OSError(errno.EFBIG, text, os.fspath(path))


def _write_request(
    path: StrPath, data: Union[str, bytes], flags: int, mode: Optional[int]
) -> bytes:
    raw = _arguments.data("data", data)
    bits = 0 if mode is None else _arguments.whole("mode", mode, 0, 0o7777)
    return _request(_WRITE, path, data=raw, flags=flags, mode=bits)


def write(
    path: StrPath,
    data: Union[str, bytes],
    mode: Optional[int] = None,
    append: bool = False,
    parents: bool = True,
    exclusive: bool = False,
) -> Op[None]:
    """Writes a file."""
    flags = _PARENTS * parents | _APPEND * append | _EXCL * exclusive
    return Op(_write_request(path, data, flags, mode), 1, _one(path), grows=True)


def stat_of(path: StrPath, follow: bool = True) -> Op[FileInfo]:
    """One file's attributes."""

    def finish(answers: List[Answer]) -> FileInfo:
        return _info(answers[0].check(path), 0, os.fspath(path), False)[0]

    return Op(_request(_STAT, path, flags=0 if follow else _NOFOLLOW), 1, finish)


def is_type(path: StrPath, kind: Optional[str]) -> Op[bool]:
    """Whether it exists (and is of that type)."""

    def finish(answers: List[Answer]) -> bool:
        if answers[0].errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES):
            return False
        info = _info(answers[0].check(path), 0, os.fspath(path), False)[0]
        return kind is None or info.type == kind

    return Op(_request(_STAT, path), 1, finish)


def listing(path: StrPath, depth: int = 1, limit: int = LIST_MAX) -> Op[List[FileInfo]]:
    """What is in a directory."""

    def finish(answers: List[Answer]) -> List[FileInfo]:
        if answers[0].errno == errno.E2BIG:
            text = f"the paths in it have more than {LIST_BYTES >> 20} MiB; list less at once (depth=1)"
            raise OSError(errno.E2BIG, text, os.fspath(path))
        raw = answers[0].check(path)
        if answers[0].more:
            text = f"there are more than {limit} entries"
            raise OSError(errno.E2BIG, text, os.fspath(path))
        found: List[FileInfo] = []
        at = 0
        while at < len(raw):
            info, at = _info(raw, at, os.fspath(path), True)
            found.append(info)
        return sorted(found, key=lambda info: info.path)

    levels = _arguments.whole("depth", depth, 0, 0xFFFFFFFF)
    return Op(_request(_LIST, path, depth=levels, most=limit), 1, finish)


def mkdir(path: StrPath, parents: bool = True, exist_ok: bool = True) -> Op[None]:
    """Makes a directory."""
    flags = _PARENTS * parents | _EXIST_OK * exist_ok
    return Op(_request(_MKDIR, path, flags=flags), 1, _one(path), grows=True)


def remove(path: StrPath, recursive: bool = False, missing_ok: bool = False) -> Op[None]:
    """Removes a file, a link, an empty directory, or everything below one."""

    def finish(answers: List[Answer]) -> None:
        if not (missing_ok and answers[0].errno == errno.ENOENT):
            answers[0].check(path)

    return Op(_request(_REMOVE, path, flags=_RECURSIVE * recursive), 1, finish)


def rename(path: StrPath, new: StrPath, replace: bool = True) -> Op[None]:
    """Renames."""
    request = _request(_RENAME, path, path2=encode(new), flags=0 if replace else _EXCL)
    return Op(request, 1, _one(path, new))


def chmod(path: StrPath, mode: int) -> Op[None]:
    """Changes the permission bits."""
    bits = _arguments.whole("mode", mode, 0, 0o7777)
    return Op(_request(_CHMOD, path, mode=bits), 1, _one(path))


def realpath(path: StrPath) -> Op[str]:
    """Where a path leads inside."""
    return Op(_request(_REALPATH, path), 1, lambda got: os.fsdecode(got[0].check(path)))


def readlink(path: StrPath) -> Op[str]:
    """Where a link leads."""
    return Op(_request(_READLINK, path), 1, lambda got: os.fsdecode(got[0].check(path)))


def symlink(path: StrPath, target: StrPath) -> Op[None]:
    """Makes a link at ``path`` that leads to ``target``."""
    return Op(_request(_SYMLINK, path, path2=encode(target)), 1, _one(path), grows=True)


def _each(answers: List[Answer], paths: Sequence[StrPath]) -> List[Union[bytes, OSError]]:
    found: List[Union[bytes, OSError]] = []
    for answer, path in zip(answers, paths):
        try:
            found.append(answer.check(path))
        except OSError as error:
            found.append(error)
    return found


def _pairs(items: Any) -> List[Tuple[StrPath, Union[str, bytes]]]:
    try:
        found = list(items)
        if any(isinstance(item, (str, bytes)) for item in found):
            raise TypeError  # a string of two characters would pass for a pair
        return [(path, data) for path, data in found]
    except (TypeError, ValueError):
        raise UsageError("items: pairs of a path and its content are needed") from None


def put_many(items: Sequence[Tuple[StrPath, Union[str, bytes]]]) -> Op[List[Optional[OSError]]]:
    """Several files at once, each with its own error."""
    pairs = _pairs(items)
    paths = [path for path, _ in pairs]
    request = b"".join(_write_request(path, data, _PARENTS, None) for path, data in pairs)

    def finish(answers: List[Answer]) -> List[Optional[OSError]]:
        return [got if isinstance(got, OSError) else None for got in _each(answers, paths)]

    return Op(request, len(paths), finish, grows=True)


def get_many(paths: Sequence[StrPath]) -> Op[List[Union[bytes, OSError]]]:
    """Several files at once, each with its own error."""
    paths = _arguments.words("paths", paths)
    request = b"".join(_request(_READ, path, most=READ_MAX) for path in paths)

    def finish(answers: List[Answer]) -> List[Union[bytes, OSError]]:
        found = _each(answers, paths)
        for i, answer in enumerate(answers):
            if answer.more:
                text = f"the file is larger than {READ_MAX} bytes"
                found[i] = OSError(errno.EFBIG, text, os.fspath(paths[i]))
        return found

    return Op(request, len(paths), finish)


def contents(found: Sequence[FileInfo], limit: Optional[int]) -> Op[List[Union[bytes, OSError]]]:
    """The files among what was found, as large as they were then."""
    files = [info for info in found if info.is_file]
    if limit is not None and sum(info.size for info in files) > limit:
        raise too_large(files[0].path, limit)
    request = b"".join(_request(_READ, info.path, most=max(info.size, 1)) for info in files)
    return Op(request, len(files), lambda got: _each(got, [info.path for info in files]))


def joined(ops: Sequence[Op[None]]) -> Op[None]:
    """Several operations at once; the first error is raised."""

    def finish(answers: List[Answer]) -> None:
        at = 0
        for op in ops:
            op.finish(answers[at : at + op.count])
            at += op.count

    request = b"".join(op.request for op in ops)
    return Op(request, sum(op.count for op in ops), finish, any(op.grows for op in ops))
