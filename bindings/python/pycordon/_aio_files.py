# SPDX-License-Identifier: Apache-2.0
"""The files of an AsyncSandbox: the same as Files, as coroutines."""

from __future__ import annotations

from typing import List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from . import _fileops, _filesteps
from ._aio_wait import slot, wait_for
from ._engine import Engine
from ._errors import CordonError
from ._fileops import FileInfo, Op, StrPath
from ._files import Data
from ._filesteps import Steps
from ._hostfiles import read_source
from ._native import log

T = TypeVar("T")


class AsyncFiles:
    """Reads and writes with the rights of a command; see Files."""

    def __init__(self, engine: Engine, in_home: bool = False) -> None:
        self._engine = engine
        self._in_home = in_home  # the private home alone, also while a run has the workspace

    async def _do(self, op: Op[T]) -> T:
        if op.count == 0:
            return op.finish([])
        engine = self._engine
        engine.check_open()
        async with slot():
            with _fileops.memory_file() as fd:
                result = await wait_for(lambda: engine.begin_files(op, fd, self._in_home))
                answers = _fileops.answers_of(result, fd, op.count)
        return op.finish(answers)

    async def _follow(self, steps: Steps[T]) -> T:
        try:
            op = next(steps)
            while True:
                op = steps.send(await self._do(op))
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            steps.close()

    async def read(self, path: StrPath, *, limit: Optional[int] = _fileops.READ_MAX) -> bytes:
        """The whole file; OSError (EFBIG) if it is larger than ``limit`` (None: any size)."""
        return await self._do(_fileops.read(path, limit))

    async def read_text(
        self, path: StrPath, encoding: str = "utf-8", errors: str = "strict"
    ) -> str:
        """The same as text."""
        return (await self.read(path)).decode(encoding, errors)

    async def write(
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
        await self._do(_fileops.write(path, data, mode, append, parents, exclusive))

    async def stat(self, path: StrPath, follow: bool = True) -> FileInfo:
        """A file's attributes; of a link itself with ``follow=False``."""
        return await self._do(_fileops.stat_of(path, follow))

    async def list(self, path: StrPath = ".", depth: int = 1) -> "List[FileInfo]":
        """What is in a directory, and below it down to ``depth`` (0: everything)."""
        return await self._do(_fileops.listing(path, depth))

    async def glob(self, pattern: str) -> "List[FileInfo]":
        """What fits a pattern; see Files.glob()."""
        return await self._do(_filesteps.glob(pattern))

    async def exists(self, path: StrPath) -> bool:
        """Whether it exists and can be reached."""
        return await self._do(_fileops.is_type(path, None))

    async def is_dir(self, path: StrPath) -> bool:
        """Whether it is a directory."""
        return await self._do(_fileops.is_type(path, "dir"))

    async def is_file(self, path: StrPath) -> bool:
        """Whether it is a regular file."""
        return await self._do(_fileops.is_type(path, "file"))

    async def mkdir(self, path: StrPath, parents: bool = True, exist_ok: bool = True) -> None:
        """Makes a directory."""
        await self._do(_fileops.mkdir(path, parents, exist_ok))

    async def remove(
        self, path: StrPath, recursive: bool = False, missing_ok: bool = False
    ) -> None:
        """Removes a file, a link or an empty directory; with ``recursive`` whatever is there."""
        await self._do(_fileops.remove(path, recursive, missing_ok))

    async def rename(self, path: StrPath, new: StrPath, replace: bool = True) -> None:
        """Renames; ``replace=False``: FileExistsError if the new name is taken."""
        await self._do(_fileops.rename(path, new, replace))

    async def chmod(self, path: StrPath, mode: int) -> None:
        """Changes the permission bits."""
        await self._do(_fileops.chmod(path, mode))

    async def realpath(self, path: StrPath) -> str:
        """Where a path leads, all links followed."""
        return await self._do(_fileops.realpath(path))

    async def readlink(self, path: StrPath) -> str:
        """Where a link leads."""
        return await self._do(_fileops.readlink(path))

    async def symlink(self, path: StrPath, target: StrPath) -> None:
        """Makes a link at ``path`` that leads to ``target``."""
        await self._do(_fileops.symlink(path, target))

    async def put(
        self, host_path: StrPath, path: StrPath, *, limit: Optional[int] = _fileops.READ_MAX
    ) -> None:
        """Copies a file of the host into the sandbox, with its permission bits; OSError (EFBIG)
        if it is larger than ``limit`` (None: any size)."""
        data, mode = read_source(host_path, limit, self._engine.writable_paths())
        await self.write(path, data, mode=mode)

    async def get(
        self, path: StrPath, host_path: StrPath, *, limit: Optional[int] = _fileops.READ_MAX
    ) -> None:
        """Copies a file of the sandbox to the host; OSError (EFBIG) if it is larger than
        ``limit`` (None: any size)."""
        await self._follow(_filesteps.copy_out(path, host_path, limit, self._engine.writable_paths))

    async def put_many(self, items: Sequence[Tuple[StrPath, Data]]) -> "List[Optional[OSError]]":
        """Writes several files; for each None or its error."""
        return await self._do(_fileops.put_many(items))

    async def get_many(self, paths: Sequence[StrPath]) -> "List[Union[bytes, OSError]]":
        """Reads several files; for each its content or its error."""
        return await self._do(_fileops.get_many(paths))

    async def export_tar(
        self, path: StrPath = ".", *, limit: Optional[int] = _fileops.READ_MAX
    ) -> bytes:
        """A directory as a tar archive: files, directories and links; OSError (EFBIG) if the files
        are larger than ``limit`` together (None: any size)."""
        return await self._follow(_filesteps.export_tar(path, limit))

    async def import_tar(self, data: bytes, path: StrPath = ".") -> None:
        """Unpacks a tar archive into a directory. Names that lead out of it are refused."""
        await self._do(_filesteps.import_tar(data, path))


async def copy_layers(files: AsyncFiles, copies: Mapping[str, str]) -> None:
    """Copies package layers to their places, all or none."""
    try:
        for layer, place in copies.items():
            await files._follow(_filesteps.copy_layer(layer, place))
    except BaseException:
        await remove_layers(files, copies)
        raise


async def remove_layers(files: AsyncFiles, copies: Mapping[str, str]) -> None:
    """They are not in use, so a failure to remove them is no error."""
    for place in copies.values():
        try:
            await files.remove(place, recursive=True, missing_ok=True)
        except (OSError, CordonError) as error:
            log.debug("a copy of packages is left: %s", error)
