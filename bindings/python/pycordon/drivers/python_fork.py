# SPDX-License-Identifier: Apache-2.0
# Its names are the driver's (python.py), into whose globals this text is executed when a fork is wanted.
# mypy: ignore-errors
# ruff: noqa: F821
"""The driver's part of a fork: what cannot be forked, and what a process that goes on elsewhere needs.

Memory is written down by a library in C (src/warm/fork.c), which comes with this text. In a copy it
returns once more, in another sandbox with another channel. Everything that the kernel keeps of a
process has to be made again, or is refused before anything happens.
"""

import _imp
import stat as _stat

_opendir, _readlink, _stat_of, _reopen, _pread = posix.listdir, posix.readlink, posix.stat, posix.open, posix.pread
_duplicate, _close, _seek, _where, _go = posix.dup2, posix.close, posix.lseek, posix.getcwd, posix.chdir
_frames, _modules, _random_bytes = sys._current_frames, sys.modules, posix.urandom
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_AT_OPEN_ONLY = posix.O_CREAT | posix.O_EXCL | posix.O_TRUNC
_CHANNEL = 3


class Refused(Exception):
    """Why it cannot be forked."""


def _load(library):
    """The library, from a file without a name."""
    fd = _unnamed_file()
    try:
        view = memoryview(library)
        while view:
            view = view[_write(fd, view) :]
        spec = types.SimpleNamespace(name="_fork", origin=f"/proc/self/fd/{fd}")
        return _imp.create_dynamic(spec)
    finally:
        _close(fd)


def _unnamed_file():
    # On disk, if it can be: what lies in memory counts for limits.memory.
    try:
        return _reopen("/tmp", posix.O_TMPFILE | posix.O_RDWR | posix.O_CLOEXEC, 0o700)
    except OSError:
        return posix.memfd_create("cordon-fork", posix.MFD_CLOEXEC)


def _text_of(path):
    fd = _reopen(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        return _pread(fd, 4096, 0).decode("ascii", "replace")
    finally:
        _close(fd)


def _field(text, name):
    for line in text.splitlines():
        if line.startswith(name):
            return line[len(name) :].strip()
    return ""


def _look_at_processes():
    if len(_frames()) > 1:
        raise Refused(f"{len(_frames()) - 1} more threads of Python run: end them first")
    for name in _opendir("/proc"):
        if not name.isdigit() or int(name) in (1, _state.pid):
            continue
        try:
            status = _text_of(f"/proc/{name}/status")
        except OSError:
            continue  # it has ended
        if not _field(status, "State:").startswith("Z") and not _field(status, "Name:").startswith("cordon"):
            raise Refused(f"a process that it has started is running ({_field(status, 'Name:')}): end it first")


def _kind(mode, path):
    for test, name in ((_stat.S_ISSOCK, "a socket"), (_stat.S_ISFIFO, "a pipe"), (_stat.S_ISCHR, "a device")):
        if test(mode):
            return name
    return path


def _describe(fd):
    """(descriptor, path, flags, offset) of an open file that can be opened again; None: it need not be."""
    try:
        found = _fstat(fd)
    except OSError:
        return None  # that with which the list was made
    identity = (found.st_dev, found.st_ino)
    if fd == _state.fd or _state.streams.get(fd) == identity:
        return None
    path = _readlink(f"/proc/self/fd/{fd}")
    if _stat.S_ISREG(found.st_mode) or _stat.S_ISDIR(found.st_mode) or path in _DEVICES:
        try:
            there = _stat_of(path)
        except OSError:
            there = None
        if there is None or (there.st_dev, there.st_ino) != identity:
            raise Refused(f"descriptor {fd} is a file without a name any more ({path}): close it first")
        info = _text_of(f"/proc/self/fdinfo/{fd}")
        return fd, path, int(_field(info, "flags:"), 8), int(_field(info, "pos:"))
    raise Refused(f"descriptor {fd} is {_kind(found.st_mode, path)}: close it first")


def _is_open(fd):
    try:
        _fstat(fd)
    except OSError:
        return False
    return True


def _look_at_files():
    for place, names in _state.in_memory.items():
        if set(_opendir(place)) - names:
            raise Refused(f"there are files in {place}, which a fork would not have: remove them first")
    _state.missing = [fd for fd in range(3) if not _is_open(fd)]
    fds = sorted(int(name) for name in _opendir("/proc/self/fd"))
    _state.files = [item for item in map(_describe, fds) if item is not None]
    _state.cwd = _where()


def _open_files():
    """In a fork. From the lowest on: what open() gives is then no descriptor that is yet to be made."""
    _go(_state.cwd)
    for fd in _state.missing:
        _close(fd)
    for fd, path, flags, offset in _state.files:
        new = _reopen(path, flags & ~_AT_OPEN_ONLY)
        if _stat.S_ISREG(_fstat(new).st_mode):
            _seek(new, offset, 0)
        if new != fd:
            _duplicate(new, fd, bool(not flags & posix.O_CLOEXEC))
            _close(new)
        else:
            posix.set_inheritable(fd, not flags & posix.O_CLOEXEC)


def _take_streams():
    """The new standard streams are what the old ones were, where those are still in use."""
    for fd in _state.streams:
        try:
            found = _fstat(fd)
        except OSError:
            continue
        _state.streams[fd] = (found.st_dev, found.st_ino)


def _renew_random():
    module = _modules["random"]
    module.seed()


def _renew_numpy():
    _modules["numpy.random"].seed()


def _renew_tempfile():
    _modules["tempfile"]._name_sequence = None


def _renew_uuid():
    _modules["uuid"]._node = _modules["uuid"]._last_timestamp = None


def _renew_ssl():
    _modules["_ssl"].RAND_add(_random_bytes(32), 32.0)


def _renew_multiprocessing():
    process = _modules["multiprocessing.process"]
    process.current_process()._config["authkey"] = process.AuthenticationString(_random_bytes(32))


def _renew_threading():
    _modules["threading"].main_thread()._set_native_id()


def _renew():
    """What was drawn by chance must not be the same in every fork. The code may have put anything in
    the place of these modules."""
    for name, renew in (
        ("random", _renew_random), ("numpy.random", _renew_numpy), ("tempfile", _renew_tempfile),
        ("uuid", _renew_uuid), ("_ssl", _renew_ssl), ("multiprocessing.process", _renew_multiprocessing),
        ("threading", _renew_threading),
    ):  # fmt: skip
        if name in _modules:
            try:
                renew()
            except _base_exception:
                pass


def _go_on():
    """In a fork: a new process with a channel, which has nothing else yet."""
    import fcntl

    found = _fstat(_CHANNEL)
    fcntl.fcntl(_CHANNEL, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    _duplicate(_CHANNEL, _state.fd, False)
    _close(_CHANNEL)
    _state.identity = (found.st_dev, found.st_ino)
    _state.pid = _getpid()
    _state.signals = 0
    _take_streams()
    try:
        _open_files()
    except OSError as error:
        _send(b"-", "refused", [b"OSError", f"it cannot open its files again: {error}".encode()])
        _end(0)
    _renew()
    _state.freezer.settle()
    _send(b"-", "hello", [], version=sys.version.split()[0])


def _write_down(token):
    """True in each fork."""
    _look_at_processes()
    _look_at_files()
    _flush()
    _state.is_freezing = True
    try:
        found = _state.freezer.freeze(_state.fd, token.decode())
    finally:
        _state.is_freezing = False
    if found is True:
        _go_on()
        return True
    if found is not None:
        raise Refused(found)
    return False


def _freeze(token):
    try:
        if not _write_down(token):
            _send(token, "value", [], kind="none")
    except Gone:
        raise
    except _base_exception as error:
        text = str(error) if type(error) is Refused else f"{type(error).__name__}: {error}"
        _send(token, "refused", [b"Refused", text.encode("utf-8", "replace")[:_TEXT_LIMIT]])


_state.freezer = _load(LIBRARY)
