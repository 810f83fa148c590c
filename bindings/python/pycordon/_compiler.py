# SPDX-License-Identifier: Apache-2.0
"""One run of a compiler, in a sandbox of its own, and what it leaves.

A compiler works on untrusted code. Its sandbox has the tool chain, the program's files
and nothing else: no network, no grants, a private directory that is removed afterwards. What it leaves is
data of that code's making: it is read through the sandbox's files, as bytes, within bounds.
"""

from __future__ import annotations

import atexit
import json
import os
import posixpath
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Callable, Dict, List, Mapping, Optional, Tuple, Union

from . import _fileops, _store
from ._code import Drop
from ._errors import ClosedError, CommandNotFoundError, CordonError
from ._fileops import FileInfo
from ._native import PerProcess, caller_home, log
from ._policy import from_document
from ._result import Result, Usage
from ._settings import Settings
from ._tighten import inside
from ._toolchains import GO_NEWER, GO_PACKAGES, MADE, PLACES, TOO_OLD, Recipe

if TYPE_CHECKING:
    from ._engine import Engine
    from ._files import Files
    from ._job import Job
    from ._policy import Policy

_MADE_MAX = 64 << 20  # bytes that one program may have
_FILES_MAX = 2000  # and files
_TEXT_MAX = 256 << 10  # of what a compiler says
_PROCS_MAX = 256
_DISK = "1G"
_CACHE_MAX = 512 << 20  # of Go's compiled standard library
_CACHE_FILES_MAX = 20000
_CACHE_SECONDS = "300s"
_CACHE_MEMORY = "1G"
_CACHES_MAX = 8  # in one process
_CACHE_AGAIN = 60.0  # seconds before it is tried again if it could not be made
#: What the compiler's sandbox has in common with the run's.
_KEPT = ("fs.deny", "isolation", "require", "user", "env.set")


@dataclass(frozen=True)
class Made:
    """What a compiler left: names and contents; and what it used."""

    files: Mapping[str, bytes]
    size: int
    usage: Usage


Outcome = Union[Made, Result]
#: Told of each sandbox that is made, before anything runs in it; raises if no caller waits any more.
Began = Callable[["Engine"], None]


def identity(path: str) -> Tuple[object, ...]:
    """What tells whether a tool is still the same."""
    real = os.path.realpath(path)
    try:
        st = os.stat(real)
    except OSError as error:
        raise CommandNotFoundError(f"'{path}': {error.strerror}") from None
    return (path, real, st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns)


def policy_for(settings: Settings, policy: "Policy", path: str, recipe: Recipe) -> "Policy":
    """What a compiler may do for a run with ``policy``: less than that, but for limits of its own."""
    stated = policy.effective()
    doc = {key: value for key, value in stated.items() if key in _KEPT}
    # Of the grants only packages, and those in which the tools lie: a file that is compiled in must be
    # part of what a program is known by.
    places = [*filter(None, path.split(":")), *map(os.path.realpath, recipe.tools)]
    layers = getattr(settings.packages, "dirs", ())
    home = caller_home() or os.path.expanduser("~")
    read = [home + grant[1:] if grant == "~" or grant.startswith("~/") else grant for grant in stated.get("fs.read", ())]
    read = [os.path.join(settings.base_dir, grant) for grant in read]
    kept = [grant for grant in read if grant in layers or any(inside(place, [grant]) for place in places)]
    if kept:
        doc["fs.read"] = kept
    # Not every machine can limit processes (root's at level landlock), and runs need not ask for it.
    doc["best_effort"] = sorted({*stated.get("best_effort", ()), "procs"})
    doc["env.pass"] = [name for name in PLACES if name in os.environ]
    doc["env.set"] = {**doc.get("env.set", {}), **recipe.variables}
    doc.update({
        "limits.wall": settings.compile_timeout, "limits.memory": settings.compile_memory,
        "limits.disk": _DISK, "limits.procs": _PROCS_MAX, "limits.file_size": 2 * _MADE_MAX,
        "limits.output": _TEXT_MAX,
    })  # fmt: skip
    return from_document(doc)


def _sandbox(settings: Settings, policy: "Policy") -> "Engine":
    from ._engine import Engine  # which knows this module

    return Engine(Settings(
        policy, settings.base_dir, private_workdir=True, packages=settings.packages, programs=settings.programs,
    ))  # fmt: skip


def compile_one(
    settings: Settings, policy: "Policy", recipe: Recipe, sources: Mapping[str, bytes], began: Began
) -> Outcome:
    """Compiles one program: what was made of it, or the compiler's result."""
    from ._files import Files, perform
    from ._job import RunArguments
    from ._process import wait_for

    cache = _go_cache(settings, policy, recipe, began) if recipe.is_go else None
    engine = _sandbox(settings, policy)
    try:
        began(engine)
        files = Files(engine)
        writes = [_fileops.write(name, data) for name, data in sources.items()]
        perform(files, _fileops.joined([_fileops.mkdir(MADE), *writes]))

        def show_cache(job: "Job") -> None:
            if cache is not None:
                job.options["code_dir"] = cache.path
                job.set("env.set", f"GOCACHE={engine.private.inside_code(cache.path)}/{_CACHE}")

        result = wait_for(engine.begin(RunArguments(list(recipe.command)), show_cache))
        result = replace(result, step="compile")
        if result.exit_code == TOO_OLD and recipe.may_be_too_old:
            raise CommandNotFoundError(f"'{recipe.tools[0]}' is too old")
        if result.kind == "spawn_failed":
            raise CommandNotFoundError(f"'{recipe.tools[0]}' cannot be started inside: {result.error}")
        return _take(files, recipe, result) if result.ok else result
    finally:
        engine.shut(remove=True)


def _no_program(result: Result, why: str) -> Result:
    return replace(result, kind="spawn_failed", returncode=126, exit_code=None, error=why)


def _take(files: "Files", recipe: Recipe, result: Result) -> Outcome:
    """What the compiler left. The processes of its sandbox have ended, so nothing changes meanwhile."""
    try:
        found = _read_all(files, MADE, _FILES_MAX, _MADE_MAX)
    except OSError as error:
        return _no_program(result, f"what the compiler left cannot be used: {error.strerror or error}")
    if recipe.entry_made not in found:
        return _no_program(result, f"the compiler left no '{recipe.entry_made}'")
    return Made(found, sum(map(len, found.values())), result.usage)


def _read_all(files: "Files", base: str, most_files: int, most_bytes: int) -> Dict[str, bytes]:
    """All files below a directory, by their path there. OSError if there is anything else, or too much."""
    from ._files import perform

    found: List[FileInfo] = perform(files, _fileops.listing(base, 0, most_files))
    for info in found:
        if not info.is_file and not info.is_dir:
            name = posixpath.relpath(info.path, base)
            raise OSError(0, f"{name!r:.200} is neither a file nor a directory")
    regular = [info for info in found if info.is_file]
    if not regular:
        return {}
    got = perform(files, _fileops.contents(regular, most_bytes))
    made = {}
    for info, data in zip(regular, got):
        if isinstance(data, OSError):
            raise data
        made[posixpath.relpath(info.path, base)] = data
    return made


# --- Go's compiled standard library ----------------------------------------------------------------

_CACHE = "gocache"


class _Caches:
    """Go compiles its standard library anew for each program, for ten seconds and more, unless it finds
    that done. Here it is done once, by a run that sees none of the callers' code, and shown read-only to
    runs of the compiler with the same rights."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made: Dict[str, Tuple[Optional[Drop], float]] = {}


_caches = PerProcess(_Caches)


def _go_cache(settings: Settings, policy: "Policy", recipe: Recipe, began: Began) -> Optional[Drop]:
    caches, own = _caches(), _cache_policy(policy, recipe)
    tools, doc = [identity(path) for path in recipe.tools], sorted(own.effective().items())
    key = json.dumps([tools, doc, settings.base_dir, settings.programs, _store.directory()], default=str)
    with caches.lock:
        drop, since = caches.made.get(key, (None, -_CACHE_AGAIN))
        if drop is not None and os.path.isdir(drop.path):
            return drop
        if time.monotonic() - since < _CACHE_AGAIN or len(caches.made) >= _CACHES_MAX + (key in caches.made):
            return None
        try:
            drop = _make_cache(settings, own, recipe, began)
        except (CordonError, OSError) as error:
            if isinstance(error, ClosedError):
                raise
            log.debug("Go's standard library cannot be compiled ahead: %s", error)
            drop = None
        caches.made[key] = (drop, time.monotonic())
        return drop


def _cache_policy(policy: "Policy", recipe: Recipe) -> "Policy":
    """The same for most sandboxes: without their variables, and with other limits."""
    stated = policy.effective()
    given = {name: text for name, text in stated["env.set"].items() if name.startswith(("GO", "CGO"))}
    return from_document({
        **stated, "env.set": {**given, **recipe.variables}, "limits.wall": _CACHE_SECONDS,
        "limits.memory": _CACHE_MEMORY, "limits.file_size": _CACHE_MAX,
    })  # fmt: skip


def _make_cache(settings: Settings, policy: "Policy", recipe: Recipe, began: Began) -> Drop:
    from ._files import Files
    from ._job import RunArguments
    from ._process import wait_for

    engine = _sandbox(settings, policy)
    try:
        began(engine)
        where = posixpath.join(engine.private.inside_home(), _CACHE)
        build = '"$0" build -p 4 ' + " ".join(GO_PACKAGES)
        newer = '"$0" build -p 4 ' + " ".join(GO_NEWER)
        command = ["/bin/sh", "-c", f"{build} && {{ {newer} || :; }}", recipe.tools[0]]
        result = wait_for(engine.begin(RunArguments(command, env={"GOCACHE": where})))
        if not result.ok:
            raise CordonError(f"{result.kind} {result.returncode}: {result.stderr[-400:]}")
        found = _read_all(Files(engine), f"../{_CACHE}", _CACHE_FILES_MAX, _CACHE_MAX)
    finally:
        engine.shut(remove=True)
    drop = Drop(_store.directory(), None)
    try:
        for number in range(256):  # Go asks for all of them
            drop.make_dirs([_CACHE, f"{number:02x}"])
        for name, data in found.items():
            drop.write(f"{_CACHE}/{name}", data)
    except BaseException:
        drop.close()
        raise
    atexit.register(drop.close)
    return drop
