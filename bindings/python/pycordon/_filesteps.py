# SPDX-License-Identifier: Apache-2.0
"""Operations on files that are more than one request: patterns, archives, copies to the host."""

from __future__ import annotations

import errno
import fnmatch
import io
import os
import posixpath
import stat
from typing import (
    TYPE_CHECKING, Any, Callable, Dict, FrozenSet, Generator, Iterator, List, Optional, Sequence, Tuple,
    TypeVar, Union,
)  # fmt: skip

from . import _arguments, _fileops
from ._errors import UsageError
from ._fileops import Answer, FileInfo, Op, StrPath
from ._hostfiles import open_target, write_all

if TYPE_CHECKING:
    import tarfile

T = TypeVar("T")
#: Yields operations, is sent what each of them gives, and returns a value at the end.
Steps = Generator["Op[Any]", Any, T]
#: The date of placeholders (src/format/placeholder_mark.h), which no clock shows.
_PLACEHOLDER_MTIME = 315705600271828182 / 1e9
IMPORT_MAX = 1 << 30  # bytes in all files of an archive


def _parts(pattern: str) -> List[str]:
    """A pattern name by name. A ``**`` at its end stands for everything below."""
    if not _arguments.text("pattern", pattern):
        raise UsageError("pattern: '' fits nothing", hint="'*' is everything in the directory")
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    return [*parts, "*"] if parts and parts[-1] == "**" else parts


#: How many parts of a pattern can be behind us, in a directory.
Places = FrozenSet[int]


def _step(here: Places, name: str, parts: Sequence[str]) -> Places:
    """From a directory to the name in it. ``**`` is any number of names."""
    ahead = set(here)
    for at in here:
        while at < len(parts) and parts[at] == "**":
            at += 1
            ahead.add(at)
    return frozenset(
        at if parts[at] == "**" else at + 1
        for at in ahead
        if at < len(parts) and (parts[at] == "**" or fnmatch.fnmatchcase(name, parts[at]))
    )


class _Matcher:
    """Remembers each directory, so that a deep path is not matched from its beginning again."""

    def __init__(self, parts: Sequence[str]) -> None:
        self._parts = parts
        self._known: Dict[str, Places] = {}

    def _walk(self, path: str) -> Places:
        """From the top."""
        here: Places = frozenset((0,))
        for name in filter(None, path.split("/")):
            here = _step(here, name, self._parts)
        return here

    def fits(self, info: FileInfo) -> bool:
        """Whether the names along its path fit the parts."""
        above, _, name = info.path.rpartition("/")
        if above not in self._known:
            self._known[above] = self._walk(above)
        here = _step(self._known[above], name, self._parts)
        if info.is_dir:
            self._known[info.path] = here
        return len(self._parts) in here


def matching(found: Sequence[FileInfo], pattern: str) -> List[FileInfo]:
    """Those whose path fits a glob pattern; ``**`` is any number of directories, and a slash at the
    end asks for directories. Directories come before what is in them."""
    matcher, only_dirs = _Matcher(_parts(pattern)), pattern.endswith("/")
    return [info for info in found if matcher.fits(info) and (info.is_dir or not only_dirs)]


def glob_base(pattern: str) -> Tuple[str, int]:
    """The directory from which a pattern has to be looked for, and how deep."""
    parts = _parts(pattern)
    fixed = 0
    while fixed < len(parts) - 1 and not any(c in parts[fixed] for c in "*?["):
        fixed += 1
    base = ("/" if pattern.startswith("/") else "") + "/".join(parts[:fixed]) or "."
    return base, 0 if "**" in parts else len(parts) - fixed


def glob(pattern: str) -> Op[List[FileInfo]]:
    """What fits a pattern; nothing if the directory it begins with does not exist."""
    base, depth = glob_base(pattern)
    listing = _fileops.listing(base, depth)

    def finish(answers: List[Answer]) -> List[FileInfo]:
        if answers[0].errno in (errno.ENOENT, errno.ENOTDIR):
            return []
        return matching(listing.finish(answers), pattern)

    return Op(listing.request, 1, finish)


def tar_of(items: Sequence[Tuple[FileInfo, Optional[bytes]]], base: str) -> bytes:
    """An archive of what was found below ``base``. Nothing but files, directories and links."""
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in items:
            entry = tarfile.TarInfo(posixpath.relpath(info.path, base))
            entry.mode, entry.mtime = info.mode & 0o777, int(info.mtime)
            if info.type == "dir":
                entry.type = tarfile.DIRTYPE
            elif info.type == "link":
                entry.type, entry.linkname = tarfile.SYMTYPE, info.target or ""
            elif data is not None:
                entry.size = len(data)
            else:
                continue
            tar.addfile(entry, io.BytesIO(data) if data is not None else None)
    return out.getvalue()


def pair_up(
    found: Sequence[FileInfo], data: Sequence[Union[bytes, OSError]]
) -> List[Tuple[FileInfo, Optional[bytes]]]:
    """Files with their content; the first error is raised."""
    contents = iter(data)
    pairs: List[Tuple[FileInfo, Optional[bytes]]] = []
    for info in found:
        content = next(contents) if info.is_file else None
        if isinstance(content, OSError):
            raise content
        pairs.append((info, content))
    return pairs


def tar_members(data: bytes) -> "List[Tuple[tarfile.TarInfo, Optional[bytes]]]":
    """What an archive holds: files, directories and links, with names that stay below."""
    import tarfile

    try:
        opened = tarfile.open(fileobj=io.BytesIO(_arguments.data("data", data)))
    except tarfile.TarError:
        raise UsageError("data: this is no tar archive") from None
    try:
        with opened as tar:
            return _members(tar, max(IMPORT_MAX, len(data)))
    except (ValueError, MemoryError):
        raise
    except Exception as error:  # each kind of compression has errors of its own
        raise UsageError(f"data: the archive is damaged: {error}") from None


def _members(
    tar: "tarfile.TarFile", most: int
) -> "List[Tuple[tarfile.TarInfo, Optional[bytes]]]":
    found: List[Tuple[tarfile.TarInfo, Optional[bytes]]] = []
    size = 0
    for member in tar:
        size += max(member.size, 0)  # compressed, or with holes, it says more than it holds
        if size > most:
            raise ValueError(f"the archive's files have more than {IMPORT_MAX} bytes")
        parts = member.name.split("/")
        if member.name.startswith("/") or ".." in parts:
            raise ValueError(f"'{member.name}' leads out of the archive's directory")
        if member.isfile():
            file = tar.extractfile(member)
            found.append((member, file.read() if file else b""))
        elif member.isdir() or member.issym():
            found.append((member, None))
        else:
            raise ValueError(f"'{member.name}' is neither a file, a directory nor a link")
    return found


def without_placeholders(found: Sequence[FileInfo]) -> List[FileInfo]:
    """Leaves out what only stands there while a run goes on, to keep protected names free."""
    parents = {posixpath.dirname(info.path) for info in found}
    return [info for info in found if info.path in parents or not _is_placeholder(info)]


def _is_placeholder(info: FileInfo) -> bool:
    """As src/format/placeholder.h has it; of a directory nothing is known to be in it."""
    if info.is_dir and info.mode & 0o1002 == 0o1000:
        return True
    return info.mtime == _PLACEHOLDER_MTIME and info.size <= 4096


def export_tar(path: StrPath, limit: Optional[int]) -> Steps[bytes]:
    """A directory as a tar archive."""
    found = without_placeholders((yield _fileops.listing(path, 0)))
    data = yield _fileops.contents(found, limit)
    return tar_of(pair_up(found, data), os.fspath(path))


def import_tar(data: bytes, path: StrPath) -> Op[None]:
    """Unpacks a tar archive into a directory."""
    path = os.fspath(path)
    ops: List[Op[None]] = [_fileops.mkdir(path)]
    for member, content in tar_members(data):
        name = posixpath.join(path, member.name)
        if member.isdir():
            ops.append(_fileops.mkdir(name))
        elif member.issym():
            ops.append(_fileops.symlink(name, member.linkname))
        else:
            ops.append(_fileops.write(name, content or b"", member.mode & 0o777))
    return _fileops.joined(ops)


def copy_out(
    path: StrPath,
    host_path: StrPath,
    limit: Optional[int],
    writable_paths: Callable[[], Sequence[str]],
) -> Steps[None]:
    """Copies a file to the host in pieces. ``writable_paths``: see hostfiles.py."""
    data, more = yield _fileops.piece(path, 0)
    size = (yield _fileops.stat_of(path)).size if more else len(data)
    if limit is not None and size > limit:
        raise _fileops.too_large(path, limit)
    done = 0
    with open_target(host_path, writable_paths()) as file:
        while data:
            done += len(data)
            if limit is not None and done > limit:
                raise _fileops.too_large(path, limit)
            write_all(file, data)
            data, more = (yield _fileops.piece(path, done)) if more else (b"", False)


_BLOCK = 4096


def _rounded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _usage(directory: str) -> "Op[Optional[Tuple[int, int]]]":
    """Bytes and number of files below a directory inside; None if they are too many to be told."""
    listing = _fileops.listing(directory, 0)

    def finish(answers: List[Answer]) -> Optional[Tuple[int, int]]:
        try:
            found = listing.finish(answers)
        except OSError:
            return None
        return sum(_rounded(info.size) for info in found if info.is_file), len(found)

    return Op(listing.request, 1, finish)


def check_room(layers: Sequence[str], places: Sequence[str], limit: int) -> Steps[None]:
    """OSError if package layers do not fit beside what is in the private directories ``places``. Where a
    limit is watched, reaching it would end what runs there. 0: there is no limit."""
    if not limit or not layers:
        return
    size, count = 0, 0
    for place in places:
        found = yield _usage(place)
        if found is not None:
            size, count = size + found[0], count + found[1]
    for layer in layers:
        for directory, names, files in os.walk(layer):
            sizes = [os.lstat(os.path.join(directory, name)).st_size for name in files]
            size, count = size + sum(map(_rounded, sizes)), count + len(names) + len(files)
    if size > limit or count > limit // _BLOCK:
        raise _fileops.disk_is_full()


def _pieces(path: str, place: str) -> Iterator[Op[None]]:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o777
        yield _fileops.write(place, file.read(_fileops.PIECE), mode | stat.S_IWUSR)
        while data := file.read(_fileops.PIECE):
            yield _fileops.write(place, data, append=True)


def _contents(layer: str, place: str) -> Iterator[Op[None]]:
    """What makes a copy of a directory of the host. Without what Python has compiled: that belongs to the
    files with their dates, and it will do it again."""
    todo = [(layer, place)]
    while todo:
        directory, to = todo.pop()
        yield _fileops.mkdir(to)
        with os.scandir(directory) as entries:
            for entry in entries:
                name = posixpath.join(to, entry.name)
                if entry.is_symlink():
                    yield _fileops.symlink(name, os.readlink(entry.path))
                elif entry.is_dir() and entry.name != "__pycache__":
                    todo.append((entry.path, name))
                elif entry.is_file():
                    yield from _pieces(entry.path, name)


def copy_layer(layer: str, place: str) -> Steps[None]:
    """Copies a package layer, some MiB at a time. Every file is made by the server inside, so a link that the
    guest puts in the way leads where it would lead the guest."""
    ops: List[Op[None]] = []
    size = 0
    for op in _contents(layer, place):
        ops.append(op)
        size += len(op.request)
        if size >= _fileops.PIECE:
            yield _fileops.joined(ops)
            ops, size = [], 0
    yield _fileops.joined(ops)
