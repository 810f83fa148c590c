# SPDX-License-Identifier: Apache-2.0
"""``sandbox.files``, for programs without an event loop."""

from __future__ import annotations

import posixpath
import stat
from datetime import datetime, timezone
from typing import IO, Any, Dict, Iterable, Iterator, List, Mapping, NoReturn, Optional, Sequence, Union

from .._fileops import FileInfo
from ._box import Box, BoxFiles, check_user
from ._errors import InvalidArgumentException, not_here, translated
from ._models import EntryInfo, FileType, WriteInfo

_PIECE = 1 << 16
_TYPES = {"file": FileType.FILE, "dir": FileType.DIR, "link": FileType.SYMLINK}
WriteData = Union[str, bytes, IO[Any], Iterable[bytes]]


def entry_from(info: FileInfo, path: str) -> EntryInfo:
    """A FileInfo as E2B tells it."""
    return EntryInfo(
        name=posixpath.basename(path.rstrip("/")) or "/",
        type=_TYPES.get(info.type),
        path=path,
        size=info.size,
        mode=info.mode,
        permissions=stat.filemode(info.mode)[1:],
        owner="user",
        group="user",
        modified_time=datetime.fromtimestamp(info.mtime, timezone.utc),
        symlink_target=info.target,
    )


def content(data: Any) -> bytes:
    """What is to be written, whole."""
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if callable(getattr(data, "read", None)):
        return content(data.read())
    if hasattr(data, "__iter__"):
        return b"".join(content(piece) for piece in data)
    raise InvalidArgumentException(f"data: text, bytes or a file is needed, not {type(data).__name__}")


def check_write(user: Optional[str], metadata: Optional[Mapping[str, str]]) -> None:
    """What write() cannot do here."""
    check_user(user)
    if metadata:
        not_here("files: metadata=")


def check_format(format: str) -> None:
    """text, bytes or stream."""
    if format not in ("text", "bytes", "stream"):
        raise InvalidArgumentException(f"format: 'text', 'bytes' or 'stream' is needed, not {format!r:.40}")


def check_depth(depth: Optional[int]) -> int:
    """At least 1."""
    if depth is None:
        return 1
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise InvalidArgumentException(f"depth: a number from 1 on is needed, not {depth!r:.40}")
    return depth


def pairs(files: Any) -> List[Any]:
    """The entries of write_files(): path and data."""
    if isinstance(files, (str, bytes, Mapping)) or not hasattr(files, "__iter__"):
        raise InvalidArgumentException("files: a list of {'path': ..., 'data': ...} is needed")
    found = []
    for entry in files:
        if not isinstance(entry, Mapping) or "path" not in entry or "data" not in entry:
            raise InvalidArgumentException("files: each entry needs 'path' and 'data'")
        found.append((entry["path"], entry["data"]))
    return found


class FileStreamReader:
    """The content of a file in pieces; also a context manager."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._next = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._next >= len(self._data):
            self.close()
            raise StopIteration
        piece = self._data[self._next : self._next + _PIECE]
        self._next += len(piece)
        return piece

    def __enter__(self) -> "FileStreamReader":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """No more."""
        self._data = b""


class Filesystem:
    """The sandbox's files, with the rights that its commands have. Relative paths begin in ``/home/user``."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._files = BoxFiles(box)

    def read(
        self,
        path: str,
        format: str = "text",
        user: Optional[str] = None,
        request_timeout: Optional[float] = None,
        gzip: bool = False,
        stream_idle_timeout: Optional[float] = None,
    ) -> Any:
        """A whole file: ``text`` (str), ``bytes`` (bytearray) or ``stream`` (pieces of bytes)."""
        check_format(format)
        data = self._read(path, user)
        if format == "stream":
            return FileStreamReader(data)
        return bytearray(data) if format == "bytes" else data.decode("utf-8", "replace")

    def _read(self, path: str, user: Optional[str]) -> bytes:
        self._check(user)
        with translated():
            return self._files.read(self._box.path(path))

    def _check(self, user: Optional[str]) -> None:
        self._box.check()
        check_user(user)

    def write(
        self,
        path: str,
        data: WriteData,
        user: Optional[str] = None,
        request_timeout: Optional[float] = None,
        gzip: bool = False,
        use_octet_stream: Optional[bool] = None,
        metadata: Optional[Dict[str, str]] = None,
    ) -> WriteInfo:
        """Writes a file, with the directories above it if they are missing."""
        return self.write_files([{"path": path, "data": data}], user, metadata=metadata)[0]

    def write_files(
        self,
        files: Sequence[Mapping[str, Any]],
        user: Optional[str] = None,
        request_timeout: Optional[float] = None,
        gzip: bool = False,
        use_octet_stream: Optional[bool] = None,
        metadata: Optional[Dict[str, str]] = None,
    ) -> List[WriteInfo]:
        """Writes several: ``[{"path": ..., "data": ...}]``."""
        self._check(user)
        check_write(user, metadata)
        items = [(self._box.path(path), content(data)) for path, data in pairs(files)]
        with translated():
            for error in self._files.put_many(items):
                if error is not None:
                    raise error
        return [WriteInfo(posixpath.basename(path), FileType.FILE, path) for path, _ in items]

    def list(
        self, path: str, depth: Optional[int] = 1, user: Optional[str] = None, request_timeout: Optional[float] = None
    ) -> List[EntryInfo]:
        """What is in a directory, and below it down to ``depth``."""
        self._check(user)
        levels, where = check_depth(depth), self._box.path(path)
        with translated():
            return [entry_from(info, info.path) for info in self._files.list(where, levels)]

    def exists(self, path: str, user: Optional[str] = None, request_timeout: Optional[float] = None) -> bool:
        """Whether it is there."""
        self._check(user)
        with translated():
            return self._files.exists(self._box.path(path))

    def get_info(self, path: str, user: Optional[str] = None, request_timeout: Optional[float] = None) -> EntryInfo:
        """A file's attributes; of a link itself."""
        self._check(user)
        where = self._box.path(path)
        with translated():
            return entry_from(self._files.stat(where, follow=False), where)

    def remove(self, path: str, user: Optional[str] = None, request_timeout: Optional[float] = None) -> None:
        """Removes a file, or a directory with what is in it. What is not there is fine."""
        self._check(user)
        with translated():
            self._files.remove(self._box.path(path), recursive=True, missing_ok=True)

    def rename(
        self, old_path: str, new_path: str, user: Optional[str] = None, request_timeout: Optional[float] = None
    ) -> EntryInfo:
        """Renames."""
        self._check(user)
        with translated():
            self._files.rename(self._box.path(old_path), self._box.path(new_path))
        return self.get_info(new_path)

    def make_dir(self, path: str, user: Optional[str] = None, request_timeout: Optional[float] = None) -> bool:
        """Makes a directory and those above it; False: it was there."""
        self._check(user)
        where = self._box.path(path)
        with translated():
            if self._files.is_dir(where):
                return False
            self._files.mkdir(where)
        return True

    def watch_dir(self, path: str, **options: Any) -> NoReturn:
        """Not available here."""
        not_here("files.watch_dir()", "files.list() says what is there")
