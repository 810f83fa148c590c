# SPDX-License-Identifier: Apache-2.0
"""Archives of a workspace as the OpenAI Agents SDK restores them, read and unpacked inside.

The SDK's own session checks an entry and then opens it by its path. A command that puts a link there
in between makes the host read or write the link's target.
"""

from __future__ import annotations

import asyncio
import copy
import io
import tarfile
from pathlib import Path, PurePosixPath
from typing import Iterable, List, Tuple, Union

from agents.sandbox.errors import WorkspaceArchiveReadError, WorkspaceArchiveWriteError
from agents.sandbox.sandboxes.unix_local import (
    UnixLocalSandboxSession,
    _rebase_symlink_target,
    _symlink_target_stays_under,
)
from agents.sandbox.util.blocking_io import run_blocking_workspace_io
from agents.sandbox.util.tar_utils import (
    UnsafeTarMemberError,
    _restored_regular_file_mode,
    should_skip_tar_member,
    validate_tarfile,
)

from pycordon import CordonError, Sandbox

from .. import _fileops
from .._files import perform


def repack(raw: bytes, *, root: Path, skip: Iterable[Union[str, Path]]) -> io.BytesIO:
    """The archive `raw` without what is skipped and what is no file, directory or link.

    A link to an absolute path in the workspace becomes a relative one if the archive itself shows
    that it stays inside, by the SDK's own rule; any other keeps its target, and a restore refuses.
    """
    skipped = list(skip)
    out = io.BytesIO()
    links: List[tarfile.TarInfo] = []
    with tarfile.open(fileobj=io.BytesIO(raw)) as seen, tarfile.open(fileobj=out, mode="w") as tar:
        tar.addfile(tar.gettarinfo(str(root), arcname="."))
        for member in seen:
            name = PurePosixPath(member.name.lstrip("/")).as_posix()
            if name == ".":
                continue
            member.name = "./" + name
            member.pax_headers = {}  # a long name or target would be written from there
            if should_skip_tar_member(member.name, skip_rel_paths=skipped, root_name=None):
                continue
            if member.issym():
                links.append(member)
            elif member.isreg():
                tar.addfile(member, seen.extractfile(member))
            elif member.isdir():
                tar.addfile(member)
        members = {PurePosixPath(m.name).as_posix(): m for m in [*tar.getmembers(), *links]}
        roots = (root, root.resolve())
        for link in links:
            archived = copy.copy(link)
            if link.linkname.startswith("/"):
                target = _rebase_symlink_target(link.linkname, link_name=link.name, roots=roots)
                if _symlink_target_stays_under(members, link_name=link.name, target=target):
                    archived.linkname = target
            tar.addfile(archived)
    out.seek(0)
    return out


def unpack_ops(tar: tarfile.TarFile, root: str) -> "_fileops.Op[None]":
    """What the sandbox has to do to unpack an archive that was checked: directories and files, and
    links at the end. Existing files are replaced, never written through."""
    ops: List["_fileops.Op[None]"] = []
    links: List[Tuple[str, str]] = []
    for member in tar.getmembers():
        path = f"{root}/{PurePosixPath(member.name).as_posix()}"
        if member.isdir():
            ops.append(_fileops.mkdir(path))
        elif member.issym():
            links.append((path, member.linkname))
        else:
            stream = tar.extractfile(member)
            data = stream.read() if stream is not None else b""
            ops.append(_fileops.remove(path, missing_ok=True))
            mode = _restored_regular_file_mode(member.mode)
            ops.append(_fileops.write(path, data, mode, parents=True, exclusive=True))
    for path, target in links:
        ops += [_fileops.remove(path, missing_ok=True), _fileops.symlink(path, target)]
    return _fileops.joined(ops)


class ArchivingSession(UnixLocalSandboxSession):
    """The SDK's session, with archives that the sandbox itself reads and writes."""

    def sandbox(self) -> Sandbox:
        """The sandbox of the workspace."""
        raise NotImplementedError

    async def persist_workspace(self) -> io.IOBase:
        """The workspace as a tar archive."""
        root = Path(self.state.manifest.root)
        if not await asyncio.to_thread(root.is_dir):
            raise WorkspaceArchiveReadError(
                path=root, context={"reason": "workspace_root_not_found"}
            )

        def pack() -> io.BytesIO:
            seen = self.sandbox().files.export_tar(str(root.resolve()))
            return repack(seen, root=root, skip=self._persist_workspace_skip_relpaths())

        try:
            return await run_blocking_workspace_io(pack)
        except (CordonError, tarfile.TarError, OSError) as error:
            raise WorkspaceArchiveReadError(path=root, cause=error) from error

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Fills the workspace from a tar archive that the SDK's rules accept."""
        root = Path(self.state.manifest.root)

        def unpack() -> None:
            root.mkdir(parents=True, exist_ok=True)
            with tarfile.open(fileobj=data, mode="r:*") as tar:
                validate_tarfile(tar, allow_external_symlink_targets=False)
                perform(self.sandbox().files, unpack_ops(tar, str(root.resolve())))

        try:
            await run_blocking_workspace_io(unpack)
        except UnsafeTarMemberError as error:
            raise WorkspaceArchiveWriteError(
                path=root, context={"reason": error.reason, "member": error.member}, cause=error
            ) from error
        except (CordonError, tarfile.TarError, OSError) as error:
            raise WorkspaceArchiveWriteError(path=root, cause=error) from error
