# SPDX-License-Identifier: Apache-2.0
"""Where sandboxes keep their private /tmp and home between runs.

Each has a directory of its own, ``$XDG_STATE_HOME/cordon/sandboxes/ID`` (mode 0700), with ``tmp``
and ``home`` for the library, ``lock``, which each user of the sandbox holds shared, and
``meta.json`` for those who attach to it. Guests write to ``tmp`` and ``home`` only, and nothing here
walks into them: the library removes them. Directories beside these with the code of single runs
(``.c…``) are read-only to guests.

Small code of a run lies in memory where that is possible: a directory on disk is made and removed in some
tenths of a millisecond, or in ten times that if the disk is busy.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from . import _cordon
from ._native import PerProcess, caller_home, log
from ._errors import ClosedError, CordonError, StateError, SystemCallError, UsageError, from_native

_ID = re.compile(r"s[0-9a-f]{8}\Z")
_SWEEP_ENTRIES = 32  # looked at when a sandbox is made
_SWEEP_SECONDS = 0.05  # spent on removing what dead processes left
_LOCK_TRIES = 20
_LOCK_PAUSE = 0.001
_YOUNG_SECONDS = 60  # it may be in the making


def _state_root() -> Optional[str]:
    root = os.environ.get("XDG_STATE_HOME", "")
    if not root.startswith("/"):
        home = caller_home()
        root = os.path.join(home, ".local", "state") if home else ""
    # ~/.local may be the user's link; the library goes through none.
    return os.path.join(os.path.realpath(root), "cordon") if root else None


def _is_ours(path: str) -> bool:
    st = os.lstat(path)
    return stat.S_ISDIR(st.st_mode) and st.st_uid == os.geteuid() and not st.st_mode & 0o022


def _usable(path: str) -> bool:
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        return _is_ours(path) and os.access(path, os.W_OK | os.X_OK)
    except OSError:
        return False


def _existing() -> Iterator[str]:
    """The directories of sandboxes that exist and that no other user can change."""
    for path in directories():
        try:
            if _is_ours(os.path.dirname(path)) and _is_ours(path):
                yield path
        except OSError:
            continue


def directories() -> Iterator[str]:
    """Where sandboxes may lie, best place first."""
    root = _state_root()
    if root:
        yield os.path.join(root, "sandboxes")
    yield os.path.join(os.path.realpath(tempfile.gettempdir()), f"cordon-{os.geteuid()}", "sandboxes")


def is_hidden(path: str) -> bool:
    """Whether a sandbox's directory lies where the library lets no run look."""
    root = _state_root()
    return root is not None and path.startswith(os.path.join(root, ""))


def directory() -> str:
    """The directory of all sandboxes; made if it is missing."""
    for path in directories():
        parent = os.path.dirname(path)
        if _usable(parent) and _usable(path):
            return path
    raise SystemCallError(
        "no place to keep a sandbox's files",
        hint="set XDG_STATE_HOME to a directory of yours, or use persist=False",
    )


def place_in_memory() -> str:
    """Where small things lie that are soon gone."""
    return f"/dev/shm/pycordon-{os.geteuid()}"


def _sweep_once() -> bool:
    sweep(place_in_memory())
    return True


#: Once in a process; sandboxes on disk are swept when one is made.
_sweep_memory = PerProcess(_sweep_once)
#: Where this process has looked for what dead ones left.
_swept: "PerProcess[Set[str]]" = PerProcess(set)


def directory_in_memory() -> str:
    """The same, made if it is missing. Others may make something of that name before us: what is not
    ours alone is not used. They cannot take ours, since /dev/shm is sticky."""
    path = place_in_memory()
    try:
        is_sticky = os.stat(os.path.dirname(path)).st_mode & stat.S_ISVTX
    except OSError:
        is_sticky = 0  # it is not for us to make
    if not is_sticky or not _usable(path):
        raise SystemCallError(f"'{path}' cannot be used")
    _sweep_memory()
    return path


class Home:
    """One sandbox's directory, in use. Each user holds its lock shared, so that sweep() spares
    it."""

    def __init__(self, path: str, fd: int, owner: bool) -> None:
        self.path = path
        self.id = os.path.basename(path)
        self.owner = owner
        self.pid = os.getpid()
        self._fd = fd

    @property
    def exists(self) -> bool:
        """False once it was removed."""
        if self._fd < 0:
            return False
        try:
            return os.fstat(self._fd).st_nlink > 0
        except OSError:
            return False

    def require(self) -> str:
        """The path, or ClosedError."""
        if not self.exists:
            raise ClosedError(f"sandbox {self.id} does not exist any more")
        return self.path

    def meta(self) -> Dict[str, Any]:
        """What create() recorded."""
        with open(os.path.join(self.path, "meta.json"), encoding="utf-8") as file:
            got = json.load(file)
        return got if isinstance(got, dict) else {}

    def record(self, meta: Mapping[str, Any]) -> None:
        """Replaces what meta() gives."""
        path = os.path.join(self.path, f".meta-{secrets.token_hex(4)}")
        try:
            with open(path, "x", encoding="utf-8", opener=_private) as file:
                json.dump(meta, file)
            os.replace(path, os.path.join(self.path, "meta.json"))
        except OSError as error:
            raise _no_place(os.path.dirname(self.path), error) from None

    def release(self) -> None:
        """Lets go of the lock; the directory stays."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _note_use(fd)
            os.close(fd)

    def remove(self) -> None:
        """Removes everything. A forked child never removes what is its parent's."""
        if self.pid != os.getpid():
            self.release()
            return
        remove(self.path)
        self.release()


class Place:
    """A directory beside the sandboxes that no guest ever writes to, for as long as this object is in
    use. Locked, so that sweep() spares it."""

    def __init__(self, base: str) -> None:
        if base not in _swept():
            _swept().add(base)
            sweep(base)
        self._pid = os.getpid()
        self.path = os.path.join(base, ".c" + secrets.token_hex(8))
        try:
            os.mkdir(self.path, 0o700)
            self._fd = _lock(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, fcntl.LOCK_SH)
        except OSError as error:
            shutil.rmtree(self.path, ignore_errors=True)
            raise _no_place(base, error) from None

    def remove(self, names: Sequence[str] = ()) -> None:
        """Removes it with its content. In a forked child it is the parent's. ``names``: all that is in it,
        if that is known, the innermost first; directories end with ``/``."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        try:
            if self._pid == os.getpid() and not (names and self._remove_all((*names, "lock", ""))):
                shutil.rmtree(self.path)
        except OSError as error:
            log.debug("cannot remove %s: %s", self.path, error)
        finally:
            os.close(fd)

    def _remove_all(self, names: Sequence[str]) -> bool:
        try:
            for name in names:
                path = os.path.join(self.path, name)
                if path.endswith("/"):
                    os.rmdir(path)
                else:
                    os.unlink(path)
        except OSError:
            return False  # there is more in it
        return True


def _note_use(fd: int) -> None:
    """The lock's time says when the sandbox was last used (``cordon sandbox list``)."""
    try:
        os.utime(fd)
    except OSError as error:
        log.debug("cannot note the use of a sandbox: %s", error)


def _lock(path: str, flags: int, operation: int) -> int:
    fd = os.open(os.path.join(path, "lock"), flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, operation | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def _lock_patiently(path: str) -> int:
    """Who only looks whether a sandbox is in use holds its lock, too, for a moment."""
    for attempt in range(_LOCK_TRIES):
        try:
            return _lock(path, os.O_RDWR, fcntl.LOCK_SH)
        except BlockingIOError:
            if attempt + 1 == _LOCK_TRIES:
                raise
            time.sleep(_LOCK_PAUSE)
    raise AssertionError("not reached")


def create(meta: Mapping[str, Any], keep: bool) -> Home:
    """Makes a new one; sweeps a few whose owners died."""
    base = directory()
    sweep(base)
    while True:
        path = os.path.join(base, "s" + secrets.token_hex(4))
        try:
            os.mkdir(path, 0o700)
            break
        except FileExistsError:
            continue
    try:
        fd = _lock(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, fcntl.LOCK_SH)
        home = Home(path, fd, owner=True)
    except OSError as error:
        os.rmdir(path)
        raise _no_place(base, error) from None
    try:
        with open(os.path.join(path, "meta.json"), "x", encoding="utf-8", opener=_private) as file:
            json.dump({**meta, "keep": keep}, file)
    except OSError as error:
        home.remove()
        raise _no_place(base, error) from None
    return home


def _no_place(base: str, error: OSError) -> SystemCallError:
    return SystemCallError(
        f"cannot keep a sandbox's files in '{base}': {error.strerror}",
        hint="set XDG_STATE_HOME to another directory, or use persist=False",
        errno=error.errno or 0,
    )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def check_id(which: Any) -> str:
    """Checks the form of an id."""
    if not isinstance(which, str) or not _ID.match(which):
        raise UsageError(f"{which!r} is no sandbox's id", hint="an id looks like s0123abcd")
    return which


def attach(which: str) -> Home:
    """One that exists, by its id."""
    check_id(which)
    for base in _existing():
        path = os.path.join(base, which)
        try:
            if not _is_ours(path):
                continue
            fd = _lock_patiently(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise StateError(f"sandbox {which} is being removed") from None
            raise
        home = Home(path, fd, owner=False)
        if home.exists:
            _note_use(fd)
            return home
        home.release()
    raise CordonError(f"there is no sandbox '{which}'", hint="it was closed, or never kept")


def remove(path: str) -> None:
    """Removes a sandbox's directory, whatever the guest made of its part.

    It is renamed first, so that attaching to it fails from then on, and sweep() recognises one that
    is half removed."""
    gone = os.path.join(os.path.dirname(path), "." + os.path.basename(path) + secrets.token_hex(4))
    try:
        os.rename(path, gone)
    except FileNotFoundError:
        return
    _finish(gone)


def _finish(gone: str) -> None:
    """Removes what was written here, then the library's part with the directory itself."""
    for name in ("meta.json", "lock"):
        try:
            os.unlink(os.path.join(gone, name))
        except FileNotFoundError:
            pass
    remove_private(gone)


def copy_private(path: str, to: str, max_bytes: int, max_files: int) -> None:
    """Copies ``tmp`` and ``home``, which belong to the guest, into a directory without them."""
    try:
        _cordon.private_copy(path, to, max_bytes, max_files)
    except _cordon.Error as error:
        raise from_native(error) from None


def exchange_private(path: str, other: str) -> None:
    """Puts the ``tmp`` and ``home`` of another directory in the place of those here, which go there."""
    try:
        _cordon.private_exchange(path, other)
    except _cordon.Error as error:
        raise from_native(error) from None


def remove_private(path: str) -> None:
    """Removes a directory whose ``tmp`` and ``home`` belong to the guest."""
    try:
        _cordon.private_remove(path)
    except _cordon.Error as error:
        raise from_native(error) from None


def listing() -> List[Tuple[str, Dict[str, Any]]]:
    """Ids of this user's sandboxes with what is known of them."""
    found = []
    for base in _existing():
        try:
            names = sorted(os.listdir(base))
        except OSError:
            continue
        for name in filter(_ID.match, names):
            try:
                with open(os.path.join(base, name, "meta.json"), encoding="utf-8") as file:
                    found.append((name, json.load(file)))
            except (OSError, ValueError):
                continue
    return found


def _is_stale(path: str) -> bool:
    """Whether it is not in use and was not meant to stay."""
    if time.time() - os.lstat(path).st_mtime < _YOUNG_SECONDS or not _is_ours(path):
        return False
    try:
        fd = _lock(path, os.O_RDWR, fcntl.LOCK_EX)
    except FileNotFoundError:
        return True  # its maker died before it made the lock
    except OSError:
        return False
    try:
        with open(os.path.join(path, "meta.json"), encoding="utf-8") as file:
            return not json.load(file).get("keep")
    except (OSError, ValueError):
        return True
    finally:
        os.close(fd)


def sweep(base: str) -> int:
    """Removes directories that dead processes left: a few, for a short time. Never raises."""
    removed = 0
    end = time.monotonic() + _SWEEP_SECONDS
    try:
        names = os.listdir(base)
    except OSError:
        return 0
    # Starts anywhere: a few that cannot be removed must not hide the others for ever.
    start = secrets.randbelow(len(names)) if names else 0
    for name in (names[start:] + names[:start])[:_SWEEP_ENTRIES]:
        if time.monotonic() > end:
            break
        path = os.path.join(base, name)
        try:
            if _ID.match(name) and _is_stale(path):
                remove(path)
                removed += 1
            elif name.startswith(".c") and _is_stale(path):
                shutil.rmtree(path)  # no guest could write there
                removed += 1
            elif name.startswith(".s") and _is_ours(path):
                if time.time() - os.lstat(path).st_ctime > _YOUNG_SECONDS:
                    _finish(path)
                    removed += 1
        except (OSError, CordonError) as error:
            log.debug("cannot sweep %s: %s", path, error)
    return removed
