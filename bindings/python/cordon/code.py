# SPDX-License-Identifier: Apache-2.0
"""Languages for run_code(), and putting code into a sandbox's /tmp from outside.

The guest controls that directory: it may hold links and change at any time. So everything goes by
descriptors, one name at a time, and no link is followed.
"""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass
from typing import List, Mapping, Optional, Sequence, Tuple, Union

from . import _cordon, arguments
from ._native import log
from .errors import UsageError
from .hostfiles import write_all

Content = Union[str, bytes]


@dataclass(frozen=True)
class Language:
    """How code of one language is run."""

    argv: Tuple[str, ...]
    filename: str


_PYTHON = Language((), "main.py")
_NODE = Language(("node",), "main.js")
LANGUAGES = {
    "python": _PYTHON,
    "python3": _PYTHON,
    "py": _PYTHON,
    "javascript": _NODE,
    "js": _NODE,
    "node": _NODE,
    "bash": Language(("bash",), "main.sh"),
    "shell": Language(("/bin/sh",), "main.sh"),
    "sh": Language(("/bin/sh",), "main.sh"),
    "ruby": Language(("ruby",), "main.rb"),
    "perl": Language(("perl",), "main.pl"),
    "php": Language(("php",), "main.php"),
    "lua": Language(("lua",), "main.lua"),
    "r": Language(("Rscript",), "main.R"),
    "awk": Language(("awk", "-f"), "main.awk"),
}


def find_language(language: str) -> Language:
    """A language, or any interpreter by its name or path."""
    known = LANGUAGES.get(arguments.text("language", language).lower())
    if known is not None:
        return known
    if not language or any(c.isspace() for c in language):
        raise UsageError(f"'{language}' is no language and no interpreter's name")
    return Language((language,), "main")


@dataclass(frozen=True)
class Code:
    """Code to run: a file, and the command that runs it. The file's path in ``argv`` is empty until
    the file exists."""

    argv: List[str]
    file_index: int  # in argv
    filename: str
    content: Content
    files: Optional[Mapping[str, Content]]
    search_first: Optional[str]  # the interpreter's directory, if it is the one of this program

    @classmethod
    def make(
        cls,
        content: Content,
        language: str,
        filename: Optional[str],
        args: Sequence[str],
        files: Optional[Mapping[str, Content]],
    ) -> "Code":
        """From the arguments of run_code()."""
        more = arguments.words("args", args)
        found = find_language(language)
        words = list(found.argv) or [sys.executable or "python3"]
        is_ours = not found.argv and words[0].startswith("/")
        return cls(
            [*words, "", *more],
            len(words),
            filename or found.filename,
            content,
            files,
            os.path.dirname(words[0]) if is_ours else None,
        )


def _parts(path: str) -> List[str]:
    parts = path.split("/")
    if not path or any(p in ("", ".", "..") or "\0" in p for p in parts):
        raise UsageError(
            f"'{path}' is no relative path of a file", hint="names and '/' only, without '..'"
        )
    return parts


class Drop:
    """A directory in a sandbox's /tmp that exists for one run."""

    def __init__(self, tmp: str) -> None:
        self.name = "cordon-" + secrets.token_hex(8)
        self._outer = os.path.dirname(tmp)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self._made: List[Tuple[str, ...]] = []
        self._fd = -1
        self._pid = os.getpid()
        if os.lstat(tmp).st_mode & 0o700 != 0o700:
            os.chmod(tmp, 0o1777)  # the guest removed permissions; the library restores them, too
        self._tmp = os.open(tmp, flags)
        try:
            # Root gives it to the id of the run, which owns the directory around it.
            st = os.fstat(self._tmp)
            self._owner = (st.st_uid, st.st_gid) if os.geteuid() == 0 else None
            os.mkdir(self.name, 0o700, dir_fd=self._tmp)
            self._fd = os.open(self.name, flags, dir_fd=self._tmp)
            self._give(self._fd)
        except BaseException:
            self.close()
            raise

    def _give(self, fd: int) -> None:
        if self._owner is not None:
            os.fchown(fd, *self._owner)

    def _open_dir(self, parts: Sequence[str]) -> int:
        """The directory at ``parts`` below this one; made if it is missing."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.dup(self._fd)
        try:
            for i, part in enumerate(parts):
                try:
                    os.mkdir(part, 0o755, dir_fd=fd)
                    made = True
                except FileExistsError:
                    made = False
                below = os.open(part, flags, dir_fd=fd)
                os.close(fd)
                fd = below
                if made:
                    self._give(fd)
                    self._made.append((*parts[: i + 1], ""))
            return fd
        except BaseException:
            os.close(fd)
            raise

    def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """A new file at a relative path."""
        *parents, name = _parts(path)
        directory = self._open_dir(parents)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(name, flags, mode, dir_fd=directory)
        finally:
            os.close(directory)
        with open(fd, "wb", buffering=0) as file:
            self._give(fd)
            self._made.append((*parents, name))
            write_all(file, data)

    def close(self) -> None:
        """Removes it."""
        fd, self._fd = self._fd, -1
        tmp, self._tmp = self._tmp, -1
        try:
            if fd >= 0 and self._pid == os.getpid():  # in a forked child it is the parent's
                self._remove(fd, tmp)
        finally:
            for open_fd in (fd, tmp):
                if open_fd >= 0:
                    os.close(open_fd)

    def _remove(self, fd: int, tmp: int) -> None:
        """Removes the files made here, then the directory if that leaves it empty."""
        try:
            for *parents, name in self._made:
                if not parents and name:
                    os.unlink(name, dir_fd=fd)
            os.rmdir(self.name, dir_fd=tmp)
        except OSError:
            self._remove_all(tmp)

    def _remove_all(self, tmp: int) -> None:
        """The guest left more there. Moves everything out of its reach, and removes it the way
        private directories are removed."""
        trash = os.path.join(self._outer, "." + secrets.token_hex(8))
        try:
            os.mkdir(trash, 0o700)
            os.rename(self.name, os.path.join(trash, "tmp"), src_dir_fd=tmp)
        except OSError:
            pass  # the guest has replaced it: it goes with the sandbox
        try:
            _cordon.private_remove(trash)
        except _cordon.Error as error:
            log.debug("cannot remove %s: %s", trash, error)


def put_code(
    tmp: str, filename: str, code: Content, files: Optional[Mapping[str, Content]]
) -> Drop:
    """The code and the files beside it, in a new directory in the host's directory ``tmp``."""
    if files is not None and not isinstance(files, Mapping):
        kind = type(files).__name__
        raise UsageError(f"files: a dict of names and contents is needed, not {kind}")
    contents = {arguments.path("filename", filename): arguments.data("code", code)}
    for path, content in (files or {}).items():
        name = arguments.path("files", path)
        if name in contents:
            raise UsageError(
                f"files: '{name}' is the name of the code itself", hint="filename= renames that"
            )
        contents[name] = arguments.data(f"files[{name!r}]", content)
    drop = Drop(tmp)
    try:
        for name, data in contents.items():
            drop.write(name, data)
    except BaseException:
        drop.close()
        raise
    return drop
