# SPDX-License-Identifier: Apache-2.0
"""The files of a sandbox, from outside."""

from __future__ import annotations

import errno
import fnmatch
import io
import mmap
import os
import posixpath
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple, TypeVar, Union

from . import arguments, fileops
from .errors import SetupError, UsageError
from .fileops import Answer, FileInfo, Op, StrPath
from .hostfiles import open_target, read_source, write_all
from .job import Job
from .result import Result

if TYPE_CHECKING:
    import tarfile

    from .core import SandboxBase
    from .sandbox import Sandbox

__all__ = ["FileInfo", "Files"]
T = TypeVar("T")
Data = Union[str, bytes]

#: Limits that are about commands: what Cordon itself does for the caller goes without them.
_NOT_FOR_FILES = (
    "commands", "limits.wall", "limits.memory", "limits.output", "limits.output_end", "limits.cpu",
    "limits.cpu_time", "net.allow", "net.deny", "net.publish", "net.max", "fs.workspace",
)  # fmt: skip
FILES_SECONDS = 300
_ANY_DISK = "1024T"  # the most that a policy can say
IMPORT_MAX = 1 << 30  # bytes in all files of an archive


def file_job(sandbox: "SandboxBase", op: "Op[Any]", out_fd: int) -> Job:
    """A run that serves requests instead of executing something."""
    from .policy import Policy

    home = sandbox._make_home() if sandbox._persist else None
    if sandbox._files_policy is None:
        doc = {k: v for k, v in sandbox._policy.effective().items() if k not in _NOT_FOR_FILES}
        workspace = sandbox._policy.effective().get("fs.workspace")
        if workspace is not None:
            doc["fs.workspace"] = workspace
        doc["limits.wall"] = f"{FILES_SECONDS}s"
        sandbox._files_policy = Policy._from_doc(doc, sandbox._policy.unlimited)
    policy = sandbox._files_policy
    if not op.grows:
        # A sandbox that is too full must be readable, and above all be tidied up. Saying nothing
        # would be the default; saying something must not be refused where no limit can be held.
        doc = {**policy.effective(), "limits.disk": _ANY_DISK}
        doc["best_effort"] = [*doc.get("best_effort", ()), "disk"]
        policy = Policy._from_doc(doc, policy.unlimited)
    job = Job(policy.native(sandbox._base_dir), ["files"])
    options = job.options
    options.update(sandbox._where())
    if home is not None:
        options["private_dir"] = sandbox._private_dir(home, policy)
    # The server has a bound of its own, and the answers, which are ours, must not be charged to it.
    options["memory_bytes"] = -1
    if "fs.workspace" in policy.effective():
        options["workspace_name"] = None  # _begin_workspace() knows
    job.cwd = sandbox.workdir
    if sandbox._own_workdir:
        job.set("cwd", os.path.join(sandbox._inside_home(), "work"))
    options.update(files=True, stdin=op.request, stdout=out_fd, stderr="capture")
    return job


def answers_from(fd: int, count: int) -> List[Answer]:
    """What the server wrote into a memory file."""
    size = os.fstat(fd).st_size
    if size == 0:
        return fileops.parse_answers(memoryview(b""), count)
    with mmap.mmap(fd, size, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
        return fileops.parse_answers(view, count)


def check_served(result: Result) -> None:
    """The server must have come to its end by itself."""
    if result.kind == "disk":
        raise OSError(errno.ENOSPC, "the sandbox's disk limit is reached")
    if not result.ok:
        raise SetupError(
            f"the file server inside the sandbox failed: {result.kind}",
            hint=result.hint or result.stderr.strip() or None,
            stage="files",
        )


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


def tar_members(data: bytes) -> "List[Tuple[tarfile.TarInfo, Optional[bytes]]]":
    """What an archive holds: files, directories and links, with names that stay below."""
    import tarfile

    try:
        opened = tarfile.open(fileobj=io.BytesIO(arguments.data("data", data)))
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


def _parts(pattern: str) -> List[str]:
    """A pattern name by name. A ``**`` at its end stands for everything below."""
    if not arguments.text("pattern", pattern):
        raise UsageError("pattern: '' fits nothing", hint="'*' is everything in the directory")
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    return [*parts, "*"] if parts and parts[-1] == "**" else parts


def _fits(path: str, parts: Sequence[str]) -> bool:
    """Whether the names along a path fit the parts, of which ``**`` is any number of names."""
    here = {0}  # how many of the parts can be behind us
    for name in filter(None, path.split("/")):
        for at in sorted(here):
            while at < len(parts) and parts[at] == "**":
                at += 1
                here.add(at)
        here = {
            at if parts[at] == "**" else at + 1
            for at in here
            if at < len(parts) and (parts[at] == "**" or fnmatch.fnmatchcase(name, parts[at]))
        }
    return len(parts) in here


def matching(found: Sequence[FileInfo], pattern: str) -> List[FileInfo]:
    """Those whose path fits a glob pattern; ``**`` is any number of directories, and a slash at the
    end asks for directories."""
    parts, only_dirs = _parts(pattern), pattern.endswith("/")
    return [info for info in found if _fits(info.path, parts) and (info.is_dir or not only_dirs)]


def glob_base(pattern: str) -> Tuple[str, int]:
    """The directory from which a pattern has to be looked for, and how deep."""
    parts = _parts(pattern)
    fixed = 0
    while fixed < len(parts) - 1 and not any(c in parts[fixed] for c in "*?["):
        fixed += 1
    base = ("/" if pattern.startswith("/") else "") + "/".join(parts[:fixed]) or "."
    return base, 0 if "**" in parts else len(parts) - fixed


class Files:
    """Reads and writes with the sandbox's own rights: what a command could not do fails here too,
    and a link that a command made never leads anywhere it could not go itself. Paths are those
    inside; relative ones begin at ``workdir``. Errors are the usual ones: FileNotFoundError,
    PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError, OSError."""

    def __init__(self, sandbox: "Sandbox") -> None:
        self._sandbox = sandbox

    def _do(self, op: Op[T]) -> T:
        if op.count == 0:
            return op.finish([])
        sandbox = self._sandbox
        fd = os.memfd_create("cordon-files", os.MFD_CLOEXEC)
        try:
            sandbox._check_open()
            job = file_job(sandbox, op, fd)
            check_served(sandbox._wait_for(job))
            answers = answers_from(fd, op.count)
        finally:
            os.close(fd)
        return op.finish(answers)

    def read(self, path: StrPath, *, limit: Optional[int] = fileops.READ_MAX) -> bytes:
        """The whole file; OSError (EFBIG) if it is larger than ``limit`` (None: any size)."""
        return self._do(fileops.read(path, limit))

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
        self._do(fileops.write(path, data, mode, append, parents, exclusive))

    def stat(self, path: StrPath, follow: bool = True) -> FileInfo:
        """A file's attributes; of a link itself with ``follow=False``."""
        return self._do(fileops.stat_of(path, follow))

    def list(self, path: StrPath = ".", depth: int = 1) -> "List[FileInfo]":
        """What is in a directory, and below it down to ``depth`` (0: everything)."""
        return self._do(fileops.listing(path, depth))

    def glob(self, pattern: str) -> "List[FileInfo]":
        """What fits a pattern: ``*.py``, ``src/**/*.c``, ``src/**`` (everything below), ``*/`` (only
        directories). Names that begin with a dot are names like any other."""
        base, depth = glob_base(pattern)
        try:
            return matching(self.list(base, depth), pattern)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, path: StrPath) -> bool:
        """Whether it exists and can be reached."""
        return self._do(fileops.is_type(path, None))

    def is_dir(self, path: StrPath) -> bool:
        """Whether it is a directory."""
        return self._do(fileops.is_type(path, "dir"))

    def is_file(self, path: StrPath) -> bool:
        """Whether it is a regular file."""
        return self._do(fileops.is_type(path, "file"))

    def mkdir(self, path: StrPath, parents: bool = True, exist_ok: bool = True) -> None:
        """Makes a directory."""
        self._do(fileops.mkdir(path, parents, exist_ok))

    def remove(self, path: StrPath, recursive: bool = False, missing_ok: bool = False) -> None:
        """Removes a file, a link or an empty directory; with ``recursive`` whatever is there. The
        working directory and what contains it are refused."""
        self._do(fileops.remove(path, recursive, missing_ok))

    def rename(self, path: StrPath, new: StrPath, replace: bool = True) -> None:
        """Renames; ``replace=False``: FileExistsError if the new name is taken."""
        self._do(fileops.rename(path, new, replace))

    def chmod(self, path: StrPath, mode: int) -> None:
        """Changes the permission bits."""
        self._do(fileops.chmod(path, mode))

    def realpath(self, path: StrPath) -> str:
        """Where a path leads, all links followed."""
        return self._do(fileops.realpath(path))

    def readlink(self, path: StrPath) -> str:
        """Where a link leads."""
        return self._do(fileops.readlink(path))

    def symlink(self, path: StrPath, target: StrPath) -> None:
        """Makes a link at ``path`` that leads to ``target``."""
        self._do(fileops.symlink(path, target))

    # --- host and sandbox ------------------------------------------------------------------------

    def put(
        self, host_path: StrPath, path: StrPath, *, limit: Optional[int] = fileops.READ_MAX
    ) -> None:
        """Copies a file of the host's into the sandbox, with its permission bits; OSError (EFBIG)
        if it is larger than ``limit`` (None: any size)."""
        data, mode = read_source(self._sandbox, host_path, limit)
        self.write(path, data, mode=mode)

    def get(
        self, path: StrPath, host_path: StrPath, *, limit: Optional[int] = fileops.READ_MAX
    ) -> None:
        """Copies a file of the sandbox's to the host; OSError (EFBIG) if it is larger than
        ``limit`` (None: any size)."""
        data, more = self._do(fileops.piece(path, 0))
        size = self.stat(path).size if more else len(data)
        if limit is not None and size > limit:
            raise fileops.too_large(path, limit)
        done = 0
        with open_target(self._sandbox, host_path) as file:
            while data:
                done += len(data)
                if limit is not None and done > limit:
                    raise fileops.too_large(path, limit)
                write_all(file, data)
                data, more = self._do(fileops.piece(path, done)) if more else (b"", False)

    def put_many(self, items: Sequence[Tuple[StrPath, Data]]) -> "List[Optional[OSError]]":
        """Writes several files; for each None or its error."""
        return self._do(fileops.put_many(items))

    def get_many(self, paths: Sequence[StrPath]) -> "List[Union[bytes, OSError]]":
        """Reads several files; for each its content or its error."""
        return self._do(fileops.get_many(paths))

    def export_tar(
        self, path: StrPath = ".", *, limit: Optional[int] = fileops.READ_MAX
    ) -> bytes:
        """A directory as a tar archive: files, directories and links; OSError (EFBIG) if the files
        are larger than ``limit`` together (None: any size)."""
        found = self.list(path, depth=0)
        data = self._do(fileops.contents(found, limit))
        return tar_of(pair_up(found, data), os.fspath(path))

    def import_tar(self, data: bytes, path: StrPath = ".") -> None:
        """Unpacks a tar archive into a directory. Names that lead out of it are refused."""
        for op in import_ops(data, os.fspath(path)):
            self._do(op)


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


def import_ops(data: bytes, path: str) -> List[Op[None]]:
    """What has to be done to unpack an archive."""
    ops: List[Op[None]] = [fileops.mkdir(path)]
    for member, content in tar_members(data):
        name = posixpath.join(path, member.name)
        if member.isdir():
            ops.append(fileops.mkdir(name))
        elif member.issym():
            ops.append(fileops.symlink(name, member.linkname))
        else:
            ops.append(fileops.write(name, content or b"", member.mode & 0o777))
    return [fileops.joined(ops)]
