# SPDX-License-Identifier: Apache-2.0
"""An interpreter that has started already: an image of one, which runs execute instead of the
interpreter's own file.

The image is made in a sandbox that may do less than any run of the policy: no network, nothing
writable, no variables but those by which an interpreter sets itself up. It is a sealed file in
memory. Nothing of it is looked at here; what it contains runs inside, with the rights of its run.
"""

from __future__ import annotations

import ast
import fcntl
import os
import re
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _cordon
from ._code import INSIDE, Drop
from ._errors import CordonError, UsageError
from ._native import launcher, log
from ._policy import Policy, from_document
from ._python import KEPT_HOME, interpreter

if TYPE_CHECKING:
    from ._settings import Settings

_HERE = os.path.dirname(os.path.abspath(__file__))
_LIBRARY = os.path.join(_HERE, "_freeze.so")
#: The name that code has if run_code() is not told another one.
MAIN = "main.py"
#: What is imported ahead if nothing is named: what small programs use most, without modules that bring
#: libraries along (hashlib, decimal, shutil), which every run would have to map.
MODULES = (
    "abc", "argparse", "base64", "bisect", "collections", "contextlib", "copy", "dataclasses",
    "datetime", "enum", "functools", "heapq", "inspect", "io", "itertools", "json", "logging", "math",
    "operator", "os", "pathlib", "random", "re", "string", "struct", "subprocess", "sys", "textwrap",
    "threading", "time", "traceback", "typing", "warnings",
)  # fmt: skip
#: Variables that an interpreter, or a module, reads when it starts; the image gets no others. The
#: list in _inside.py says the same about a run's.
_AT_START = (
    "PYTHON", "LC_", "LANG", "LD_", "GLIBC_", "MALLOC_", "TZ", "OPENSSL_", "OMP_", "OPENBLAS_",
    "MKL_", "BLIS_", "GOTO_", "KMP_", "NPY_", "NUMBA_", "NUMEXPR_", "MPL", "ARROW_",
)  # fmt: skip
_SECONDS = 60
_TRIES = 4  # the address of a stack may be in the way
_LEFT_OUT = (
    "fs.write", "fs.workspace", "fs.protect", "net.allow", "net.deny", "net.publish", "net.max",
    "limits.wall", "limits.output", "limits.output_end", "limits.cpu", "limits.cpu_time",
    "limits.file_size", "limits.procs", "cwd", "env.set", "env.pass",
)  # fmt: skip
_IMAGE_MAX = 512 << 20  # what comes out of a sandbox must not fill the host's memory
_HOT_BYTES = 16384  # the list at the end of an image (src/warm/frozen.h)
_TRIAL = "import sys\nprint(1)\n"
_CHECK_SECONDS = 1.0  # how long a change on the host may go unnoticed
_FILES_MAX = 20000
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_MFD_EXEC = 0x10  # since Linux 6.3
_SEAL_EXEC = 0x20  # likewise: it stays executable
_AGAIN_SECONDS = 5.0  # not sooner is a new image made: a module must not keep the host busy
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")


def module_names(preload: "Union[str, Sequence[str], None]") -> Optional[Tuple[str, ...]]:
    """The argument ``preload=``, checked. None: no interpreter is started ahead."""
    if preload is None:
        return None
    names = (preload,) if isinstance(preload, str) else tuple(preload)
    for name in names:
        if not isinstance(name, str) or not _NAME.match(name):
            raise UsageError(f"preload: {name!r:.60} is no name of a module")
    return names


def memory_file(name: str = "cordon-python") -> int:
    """A file in memory that can be sealed and executed."""
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create(name, flags | _MFD_EXEC)
    except OSError:
        return os.memfd_create(name, flags)


def _joined(paths: Sequence[str]) -> bytes:
    """The paths as the library takes them, those in one directory together; without those that no file
    can have."""
    found = []
    for path in paths:
        try:
            found.append(os.fsencode(path))
        except ValueError:
            continue
    return b"".join(path + b"\0" for path in sorted(set(found)) if b"\0" not in path)


def _paths(said: bytes, grants: Sequence[str]) -> List[str]:
    """The files that an image was made from. It says so itself: nothing else is done with them than
    looking whether they have changed."""
    try:
        found = ast.literal_eval(said.decode())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise CordonError(f"the interpreter said {said[-200:]!r}") from None
    python = interpreter()
    assert python is not None
    # Only where modules lie and runs may look.
    places = tuple(os.path.join(p, "") for p in (sys.prefix, sys.base_prefix, *grants) if p.startswith("/"))
    paths = [p for p in found if isinstance(p, str) and p.startswith(places)] if isinstance(found, list) else []
    return [python, os.path.realpath(python), *(p for p in paths[:_FILES_MAX] if ".." not in p)]


def seal(fd: int) -> None:
    """Nothing changes its content any more."""
    os.fchmod(fd, 0o555)
    try:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEAL_EXEC)
    except OSError:
        pass  # an older kernel; is_same() notices
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)


Inode = Tuple[int, int, Tuple[str, ...]]


def _inode(fd: int) -> Inode:
    """What a run can change of a sealed file that belongs to its user."""
    st = os.fstat(fd)
    return st.st_mode, st.st_mtime_ns, tuple(os.listxattr(fd))


class Warm:
    """The image of a sandbox's interpreter. It is made when it is needed first, by the caller that
    needs it; others wait. A forked child makes its own."""

    def __init__(self, settings: "Settings", place: Callable[[Policy], str]) -> None:
        self._settings = settings
        self._place = place
        self.renew_lock()
        self._fd: Optional[int] = None
        self._is_made = False
        self._sources = b""  # paths
        self._states = b""  # what they were
        self._inode: Optional[Inode] = None
        self._checked = 0.0
        self._made_at = -_AGAIN_SECONDS
        self._is_closed = False
        #: Why there is no image, for those who ask.
        self.reason: Optional[str] = None

    def renew_lock(self) -> None:
        """In a forked child another thread of the parent may hold the old one for ever."""
        self._lock = threading.Lock()

    def image(self) -> int:
        """A descriptor of it, which the caller closes; -1 if there is none: then programs start
        cold."""
        with self._lock:
            if self._fd is not None and _inode(self._fd) != self._inode:
                self._forget()  # a run has changed it
            if not self._is_made or time.monotonic() - self._checked > _CHECK_SECONDS:
                self._renew()
            return -1 if self._fd is None else os.dup(self._fd)

    def start(self) -> None:
        """Makes it now."""
        with self._lock:
            self._renew()

    def _renew(self) -> None:
        """Makes it, and again if the host has another interpreter or other modules by now."""
        if self._is_closed:
            return
        if self._is_made and _cordon.file_states(self._sources) != self._states:
            self._forget()
        now = time.monotonic()
        if not self._is_made and now - self._made_at >= _AGAIN_SECONDS:
            self._made_at = now
            self._fd = self._try_to_make()
            self._is_made = True
        self._checked = time.monotonic()

    def _forget(self) -> None:
        fd, self._fd, self._is_made, self._sources, self._states = self._fd, None, False, b"", b""
        if fd is not None:
            os.close(fd)

    def close(self) -> None:
        """Forgets the image. Runs that have begun keep theirs."""
        with self._lock:
            self._is_closed = True
            self._forget()

    def _try_to_make(self) -> Optional[int]:
        if not os.path.exists(_LIBRARY):
            self.reason = "this build cannot freeze interpreters"
            return None
        if interpreter() is None:
            self.reason = "this program is no interpreter"
            return None
        for _ in range(_TRIES):
            try:
                made = self._make()
                self.reason = None
                return made
            except (CordonError, _cordon.Error, OSError) as error:
                self.reason = str(error)
                log.debug("no interpreter can be started ahead: %s", error)
                if "where stacks" not in self.reason:
                    break
        return None

    def _policy(self) -> Policy:
        stated = self._settings.policy
        doc = {key: value for key, value in stated.effective().items() if key not in _LEFT_OUT}
        doc["limits.wall"] = f"{_SECONDS}s"
        given: Mapping[str, str] = stated.effective().get("env.set", {})
        doc["env.set"] = {name: text for name, text in given.items() if name.startswith(_AT_START)}
        if self._settings.persist or not self._settings.parked:
            doc["env.set"] = {**KEPT_HOME, **doc["env.set"]}
        names: List[str] = stated.effective().get("env.pass", [])
        doc["env.pass"] = [name for name in names if name.startswith(_AT_START)]
        return from_document(doc, stated.unlimited)

    def _make(self) -> int:
        policy = self._policy()
        drop = Drop(os.path.dirname(self._place(policy)), None)
        fd = memory_file()
        try:
            os.ftruncate(fd, _IMAGE_MAX)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
            with open(_LIBRARY, "rb") as file:
                drop.write("warm.so", file.read())
            with open(os.path.join(_HERE, "_inside.py"), "rb") as file:
                drop.write("warm/inside.py", file.read())
            names = [*MODULES, *(self._settings.preload or ())]
            drop.write("warm/preload", "\n".join(names).encode())
            drop.write(MAIN, _TRIAL.encode())
            said = self._run(policy, drop, stdout=fd, variables={
                "LD_PRELOAD": f"{INSIDE}/warm.so", "CORDON_WARM": f"{INSIDE}/warm"})["stderr"]  # fmt: skip
            grants = policy.effective().get("fs.read", ())
            sources = _joined(_paths(said, grants))
            states = _cordon.file_states(sources)
            os.ftruncate(fd, os.lseek(fd, 0, os.SEEK_CUR))
            self._try_out(policy, drop, fd)
            seal(fd)
            self._sources, self._states = sources, states
            self._inode = _inode(fd)
        except BaseException:
            os.close(fd)
            raise
        finally:
            drop.close()
        return fd

    def _try_out(self, policy: Policy, drop: Drop, image: int) -> None:
        """A trial run of a copy: does it work, and which pages does it need? They are made ready at once in
        the runs to come."""
        copy = memory_file()
        try:
            size = os.fstat(image).st_size
            done = 0
            while done < size:
                done += os.sendfile(copy, image, done, size - done)
            seal(copy)
            got = self._run(policy, drop, stdout="capture", image=copy,
                            variables={"CORDON_WARM_TRIAL": "1"})  # fmt: skip
        finally:
            os.close(copy)
        if got["stdout"] != b"1\n" or len(got["stderr"]) != _HOT_BYTES:
            raise CordonError(f"the image does not work: {got['stderr'][:200]!r}")
        os.pwrite(image, got["stderr"], size - _HOT_BYTES)

    def _run(
        self, policy: Policy, drop: Drop, stdout: Union[str, int], variables: Mapping[str, str],
        image: int = -1,
    ) -> Dict[str, Any]:  # fmt: skip
        native = policy.native(self._settings.base_dir)
        for name, value in variables.items():
            native.set("env.set", f"{name}={value}")
        python = interpreter()
        assert python is not None
        options = {**self._settings.launch_options(), "cwd": "/", "image_fd": image}
        run = launcher().start(
            native, [python, f"{INSIDE}/{MAIN}"], stdin=None, stdout=stdout, stderr="capture",
            code_dir=drop.path, **options,
        )  # fmt: skip
        try:
            run.wait()
            result = run.result()
        finally:
            run.close()
        if any(result["write_errno"].values()):
            raise CordonError("the image is too large")
        if result["kind"] != "exited" or result["status"] != 0:
            text = (result["stderr"] or b"").decode("utf-8", "replace").strip()
            raise CordonError(f"{result['kind']} {result['status']}: {text[-400:]}")
        return result
