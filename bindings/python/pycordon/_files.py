# SPDX-License-Identifier: Apache-2.0
"""The files of a sandbox, from outside."""

from __future__ import annotations

from typing import List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from . import _fileops, _filesteps
from ._engine import Engine
from ._errors import CordonError
from ._fileops import FileInfo, Op, StrPath
from ._filesteps import Steps
from ._hostfiles import read_source
from ._native import log
from ._process import wait_for

__all__ = ["FileInfo", "Files"]
T = TypeVar("T")
Data = Union[str, bytes]


class Files:
    """Reads and writes with the rights of a command: what a command cannot do fails here too, and
    links lead no further than they would lead it. Paths are those inside; relative ones begin at
    ``workdir``. Errors are FileNotFoundError, PermissionError, IsADirectoryError,
    NotADirectoryError, FileExistsError, OSError."""

    def __init__(self, engine: Engine, in_home: bool = False) -> None:
        self._engine = engine
        self._in_home = in_home  # the private home alone, also while a run has the workspace

    def _do(self, op: Op[T]) -> T:
        if op.count == 0:
            return op.finish([])
        with _fileops.memory_file() as fd:
            result = wait_for(self._engine.begin_files(op, fd, self._in_home))
            answers = _fileops.answers_of(result, fd, op.count)
        return op.finish(answers)

    def _follow(self, steps: Steps[T]) -> T:
        try:
            op = next(steps)
            while True:
                op = steps.send(self._do(op))
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            steps.close()

    def read(self, path: StrPath, *, limit: Optional[int] = _fileops.READ_MAX) -> bytes:
        """The whole file; OSError (EFBIG) if it is larger than ``limit`` (None: any size)."""
        return self._do(_fileops.read(path, limit))

    def read_text(self, path: StrPath, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The same as text."""
        return self.read(path).decode(encoding, errors)

    def write(
        self,
        path: StrPath,
        data: Data,
        *,
        mode: Optional[int] = None,
        append: bool = False,
        parents: bool = True,
        exclusive: bool = False,
    ) -> None:
        """Writes a file, with the directories above it if they are missing."""
        self._do(_fileops.write(path, data, mode, append, parents, exclusive))

    def stat(self, path: StrPath, follow: bool = True) -> FileInfo:
        """A file's attributes; of a link itself with ``follow=False``."""
        return self._do(_fileops.stat_of(path, follow))

    def list(self, path: StrPath = ".", depth: int = 1) -> "List[FileInfo]":
        """What is in a directory, and below it down to ``depth`` (0: everything)."""
        return self._do(_fileops.listing(path, depth))

    def glob(self, pattern: str) -> "List[FileInfo]":
        """What fits a pattern: ``*.py``, ``src/**/*.c``, ``src/**`` (everything below), ``*/`` (only
        directories). Names that begin with a dot are names like any other."""
        return self._do(_filesteps.glob(pattern))

    def exists(self, path: StrPath) -> bool:
        """Whether it exists and can be reached."""
        return self._do(_fileops.is_type(path, None))

    def is_dir(self, path: StrPath) -> bool:
        """Whether it is a directory."""
        return self._do(_fileops.is_type(path, "dir"))

    def is_file(self, path: StrPath) -> bool:
        """Whether it is a regular file."""
        return self._do(_fileops.is_type(path, "file"))

    def mkdir(self, path: StrPath, parents: bool = True, exist_ok: bool = True) -> None:
        """Makes a directory."""
        self._do(_fileops.mkdir(path, parents, exist_ok))

    def remove(self, path: StrPath, recursive: bool = False, missing_ok: bool = False) -> None:
        """Removes a file, a link or an empty directory; with ``recursive`` whatever is there. The
        working directory and what contains it are refused."""
        self._do(_fileops.remove(path, recursive, missing_ok))

    def rename(self, path: StrPath, new: StrPath, replace: bool = True) -> None:
        """Renames; ``replace=False``: FileExistsError if the new name is taken."""
        self._do(_fileops.rename(path, new, replace))

    def chmod(self, path: StrPath, mode: int) -> None:
        """Changes the permission bits."""
        self._do(_fileops.chmod(path, mode))

    def realpath(self, path: StrPath) -> str:
        """Where a path leads, all links followed."""
        return self._do(_fileops.realpath(path))

    def readlink(self, path: StrPath) -> str:
        """Where a link leads."""
        return self._do(_fileops.readlink(path))

    def symlink(self, path: StrPath, target: StrPath) -> None:
        """Makes a link at ``path`` that leads to ``target``."""
        self._do(_fileops.symlink(path, target))

    # --- host and sandbox ------------------------------------------------------------------------

    def put(
        self, host_path: StrPath, path: StrPath, *, limit: Optional[int] = _fileops.READ_MAX
    ) -> None:
        """Copies a file of the host into the sandbox, with its permission bits; OSError (EFBIG)
        if it is larger than ``limit`` (None: any size)."""
        data, mode = read_source(host_path, limit, self._engine.writable_paths())
        self.write(path, data, mode=mode)

    def get(
        self, path: StrPath, host_path: StrPath, *, limit: Optional[int] = _fileops.READ_MAX
    ) -> None:
        """Copies a file of the sandbox to the host; OSError (EFBIG) if it is larger than
        ``limit`` (None: any size)."""
        self._follow(_filesteps.copy_out(path, host_path, limit, self._engine.writable_paths))

    def put_many(self, items: Sequence[Tuple[StrPath, Data]]) -> "List[Optional[OSError]]":
        """Writes several files; for each None or its error."""
        return self._do(_fileops.put_many(items))

    def get_many(self, paths: Sequence[StrPath]) -> "List[Union[bytes, OSError]]":
        """Reads several files; for each its content or its error."""
        return self._do(_fileops.get_many(paths))

    def export_tar(
        self, path: StrPath = ".", *, limit: Optional[int] = _fileops.READ_MAX
    ) -> bytes:
        """A directory as a tar archive: files, directories and links; OSError (EFBIG) if the files
        are larger than ``limit`` together (None: any size)."""
        return self._follow(_filesteps.export_tar(path, limit))

    def import_tar(self, data: bytes, path: StrPath = ".") -> None:
        """Unpacks a tar archive into a directory. Names that lead out of it are refused."""
        self._do(_filesteps.import_tar(data, path))


def perform(files: Files, op: Op[T]) -> T:
    """Carries out an operation that Files has no method for."""
    return files._do(op)


def copy_layers(files: Files, copies: Mapping[str, str]) -> None:
    """Copies package layers to their places, all or none."""
    try:
        for layer, place in copies.items():
            files._follow(_filesteps.copy_layer(layer, place))
    except BaseException:
        remove_layers(files, copies)
        raise


def remove_layers(files: Files, copies: Mapping[str, str]) -> None:
    """They are not in use, so a failure to remove them is no error."""
    for place in copies.values():
        try:
            files.remove(place, recursive=True, missing_ok=True)
        except (OSError, CordonError) as error:
            log.debug("a copy of packages is left: %s", error)
