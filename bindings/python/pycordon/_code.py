# SPDX-License-Identifier: Apache-2.0
"""Languages for run_code(), and the directory in which a run finds its code.

That directory is the run's own, and nothing inside can change it. It does not lie in the sandbox's
/tmp, which earlier runs have written to and others may be writing to now: they would choose what the
next run executes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _arguments, _store
from ._errors import CordonError, UsageError
from ._hostfiles import write_all
from ._python import interpreter
from ._toolchains import COMPILED, Compiled, filename_for

Content = Union[str, bytes]

#: Directory of programs in a Drop. A name that no file beside code is likely to have.
PROGRAMS = ".bin"
#: Where a run sees its Drop (CORDON_CODE_DIR of the library); level landlock: where it lies.
INSIDE = "/run/cordon"
_SMALL = 256 << 10  # code that may lie in memory


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
    "nodejs": _NODE,
    "bash": Language(("bash",), "main.sh"),
    "shell": Language(("/bin/sh",), "main.sh"),
    "sh": Language(("/bin/sh",), "main.sh"),
    "ruby": Language(("ruby",), "main.rb"),
    "perl": Language(("perl",), "main.pl"),
    "php": Language(("php",), "main.php"),
    "lua": Language(("lua",), "main.lua"),
    "r": Language(("Rscript", "--no-init-file"), "main.R"),  # an earlier run may have left one
    "awk": Language(("awk", "-f"), "main.awk"),
}


def find_language(language: str) -> Language:
    """A language, or any interpreter by its name or path."""
    known = LANGUAGES.get(_arguments.text("language", language).lower())
    if known is not None:
        return known
    if not language or any(c.isspace() for c in language):
        raise UsageError(f"'{language}' is no language and no interpreter's name")
    return Language((language,), "main")


@dataclass(frozen=True)
class Code:
    """Code to run: a file, and the command that runs it. The file's path in ``argv`` is empty until
    the file exists. ``compiled``: the language, if a compiler comes first; then ``argv`` has only the
    program's arguments. ``shown``: what ``argv`` has instead of the file, ``is_program``: the file itself
    can be executed."""

    argv: List[str]
    file_index: int  # in argv
    filename: str
    content: Content
    files: Optional[Mapping[str, Content]]
    compiled: Optional[Compiled] = None
    shown: Optional[str] = None
    is_program: bool = False

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
        more = _arguments.words("args", args)
        compiled = COMPILED.get(_arguments.text("language", language).lower())
        if compiled is not None:
            text = _arguments.data("code", content).decode("utf-8", "replace")
            name = filename or filename_for(compiled, text)
            return cls(["", *more], 0, name, content, files, compiled)
        found = find_language(language)
        words = list(found.argv) or [interpreter() or "python3"]
        return cls(
            [*words, "", *more],
            len(words),
            filename or found.filename,
            content,
            files,
        )


def _parts(path: str) -> List[str]:
    parts = path.split("/")
    if not path or any(p in ("", ".", "..") or "\0" in p for p in parts):
        raise UsageError(
            f"'{path}' is no relative path of a file", hint="names and '/' only, without '..'"
        )
    return parts


class Drop:
    """What a run is shown beside its view, read-only: its code, and a program called ``python``
    where the system has none, or another one. Guests never write here, so plain paths will do."""

    def __init__(self, base: str, python: Optional[str], is_in_memory: bool = False) -> None:
        self.is_in_memory = is_in_memory
        self._place = _store.Place(base)
        #: The host's directory that the run sees.
        self.path = os.path.join(self._place.path, "code")
        self._names: List[str] = []  # of files, while there is no other directory
        try:
            self._make_dir(self.path)
            if python is not None:
                self._make_dir(os.path.join(self.path, PROGRAMS))
                for name in ("python", "python3"):
                    os.symlink(python, os.path.join(self.path, PROGRAMS, name))
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _make_dir(path: str) -> None:
        """Root's runs have another id, and the directory around this is closed to everyone else."""
        os.mkdir(path, 0o755)
        os.chmod(path, 0o755)  # whatever the umask is

    def make_dirs(self, names: Sequence[str]) -> str:
        """A directory in a directory, and so on; those that are missing are made."""
        directory = self.path
        for name in names:
            directory = os.path.join(directory, name)
            if not os.path.isdir(directory):
                self._make_dir(directory)
        return directory

    def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """A new file at a relative path."""
        *parents, name = _parts(path)
        directory = self.make_dirs(parents)
        if not parents:
            self._names.append(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(os.path.join(directory, name), flags, mode)
        with open(fd, "wb", buffering=0) as file:
            os.fchmod(fd, mode)
            write_all(file, data)

    def fill(self, name: str, data: bytes) -> None:
        """Writes an empty file that is there."""
        fd = os.open(os.path.join(self.path, name), os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(fd, "wb", buffering=0) as file:
            write_all(file, data)

    def remove(self, name: str) -> None:
        """Removes a file."""
        os.unlink(os.path.join(self.path, name))
        self._names.remove(name)

    def write_files(self, code: Code, contents: Mapping[str, bytes]) -> None:
        """The files of a run."""
        for name, data in contents.items():
            self.write(name, data, 0o755 if code.is_program and name == code.filename else 0o644)

    def close(self) -> None:
        """Removes it."""
        self._place.remove([f"code/{name}" for name in self._names] + ["code/"])


def source_files(
    filename: str, code: Content, files: Optional[Mapping[str, Content]]
) -> Dict[str, bytes]:
    """The code and the files beside it, checked: relative paths and bytes."""
    if files is not None and not isinstance(files, Mapping):
        kind = type(files).__name__
        raise UsageError(f"files: a dict of names and contents is needed, not {kind}")
    contents = {_arguments.path("filename", filename): _arguments.data("code", code)}
    for path, content in (files or {}).items():
        name = _arguments.path("files", path)
        if name in contents:
            raise UsageError(
                f"files: '{name}' is the name of the code itself", hint="filename= renames that"
            )
        contents[name] = _arguments.data(f"files[{name!r}]", content)
    for name in contents:
        _parts(name)
    return contents


def _in_memory(code: Code, contents: Mapping[str, bytes]) -> Optional[Drop]:
    """A place in memory, if the code is one small file that is only read: nothing can be executed there
    where the host's administrator has decided so."""
    if code.is_program or len(contents) > 1 or sum(map(len, contents.values())) > _SMALL:
        return None
    try:
        return Drop(_store.directory_in_memory(), None, is_in_memory=True)
    except (OSError, CordonError):
        return None  # full, or not ours


def put_code(beside: Callable[[], str], python: Optional[str], code: Code, may_be_in_memory: bool) -> Drop:
    """The code and the files beside it, for one run: in memory, or beside the host's directory that
    ``beside`` gives."""
    contents = source_files(code.filename, code.content, code.files)
    drop = _in_memory(code, contents) if may_be_in_memory and python is None else None
    if drop is not None:
        try:
            drop.write_files(code, contents)
            return drop
        except OSError:  # full
            drop.close()
    drop = Drop(os.path.dirname(beside()), python)
    try:
        drop.write_files(code, contents)
    except BaseException:
        drop.close()
        raise
    return drop
