# SPDX-License-Identifier: Apache-2.0
"""The driver of Python interpreters. It runs inside, in the process of the user's code.

The host (``_channel.py`` has the protocol) sends this text through the channel; nothing of it lies in
a file or in ``__main__``, which is the user's. Whatever the code does to modules and builtins must not
confuse it, so it has a copy of the builtins (``_interpreters.py`` puts it into these globals), keeps
its own references to what it calls, and speaks to the host with nothing but functions written in C.

Should: run one request after the other, say what came of it, and end when the channel is gone.
Mustn't: raise, write to the channel in a forked child, or let an interrupt hit anything but user code.
"""

from __future__ import annotations

import _ast
import _json
import _signal  # type: ignore[import-not-found]
import _thread
import linecache
import os
import posix
import sys
import time
import traceback
import types

TYPE_CHECKING = False  # importing `typing` takes milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Set, Tuple

LIMIT: int  # bytes of a message to the host; set by the host

_AWAIT = 0x2000  # PyCF_ALLOW_TOP_LEVEL_AWAIT
_ONLY_AST = 0x400
_COROUTINE = 0x80
_FUTURES = 0
for _name in __import__("__future__").all_feature_names:
    _FUTURES |= getattr(__import__("__future__"), _name).compiler_flag
_AGAIN = 0.5  # seconds in which an interrupt is the one before, sent again (_live.py says why)
_HIGH = 1000  # out of the way of programs that count on low descriptors
_TEXT_LIMIT = min(1 << 20, LIMIT // 4)  # three of them fit into a message
_DISPLAYS_MAX = 10_000
_REPRS = (
    ("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"), ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"), ("_repr_pdf_", "application/pdf"),
    ("_repr_latex_", "text/latex"), ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
)  # fmt: skip


class Gone(BaseException):
    """The channel is not ours any more: there is nobody to work for."""


class State:
    """What the driver knows. One object, so that signal handlers and threads find it."""

    fd = -1
    identity: Tuple[int, int] = (0, 0)
    pid = 0
    token = b""  # of the request that is being worked on; b"": none
    in_user_code = False
    is_sending = False  # the main thread is: an interrupt has to wait
    is_interrupted = False  # and one does
    signals = 0  # interrupts that came
    raised_at = 0.0  # when one last hit the code of this request
    count = 0
    displays = shown = 0  # of this request: how many, and their bytes
    flags = 0  # of `from __future__ import` so far
    loop: Any = None
    streams: Dict[int, Tuple[int, int]] = {}  # what the standard streams are
    in_memory: Dict[str, Set[str]] = {}  # what was in places that are not kept with the sandbox's files
    is_freezing = False  # a copy of the process is being made, which goes on elsewhere
    freezer: Any = None  # the library, once it was needed


_state = State()
_read, _write, _fstat, _getpid, _end = posix.read, posix.write, posix.fstat, posix.getpid, posix._exit
_sleep, _clock, _quoted = time.sleep, time.monotonic, _json.encode_basestring_ascii
_base_exception = BaseException
_main = types.ModuleType("__main__")
_me, _main_thread = _thread.get_ident, _thread.get_ident()
_sending = _thread.allocate_lock()


# --- the channel -----------------------------------------------------------------------------------


def _is_ours() -> bool:
    """Whether the descriptor is still the channel, and this process the one that may use it."""
    try:
        found = _fstat(_state.fd)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == _state.identity and _getpid() == _state.pid


def _take(count: int) -> bytes:
    data = b""
    while len(data) < count:
        try:
            more = _read(_state.fd, min(count - len(data), 1 << 20)) if _is_ours() else b""
        except OSError:
            more = b""
        if not more:
            raise Gone
        data += more
    return data


def _receive() -> Tuple[bytes, bytes, bytes]:
    line = b""
    while not line.endswith(b"\n"):
        line += _take(1)
    kind, token, size = line.split()
    return kind, token, _take(int(size))


def _json_text(value: Any) -> str:
    """JSON of what the driver says: no code of a module that the user may have changed."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if type(value) is str:
        return str(_quoted(value))
    if type(value) is int:
        return str(value)
    if type(value) is dict:
        return "{" + ",".join([_json_text(k) + ":" + _json_text(v) for k, v in value.items()]) + "}"
    return "[" + ",".join([_json_text(item) for item in value]) + "]"


def _send(token: bytes, what: str, parts: List[bytes], **fields: Any) -> None:
    fields["type"] = what
    fields["parts"] = [len(part) for part in parts]
    data = b" ".join([token, _json_text(fields).encode("ascii")]) + b"\n" + b"".join(parts)
    is_main = _me() == _main_thread
    _state.is_sending = _state.is_sending or is_main
    try:
        with _sending:
            _send_all(data)
    finally:
        if is_main:
            _state.is_sending = False
    if is_main and _state.is_interrupted:
        _state.is_interrupted = False
        raise KeyboardInterrupt


def _send_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        if not _is_ours():
            raise Gone
        try:
            view = view[_write(_state.fd, view) :]
        except OSError:
            raise Gone from None


# --- what comes of code: bundles and errors --------------------------------------------------------


def _data(mime: str, value: Any) -> Optional[bytes]:
    """One entry of a bundle as bytes; images may come as base64, as in a notebook."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str) and not mime.endswith("json"):
        if mime.startswith("image/") and mime != "image/svg+xml" or mime == "application/pdf":
            import binascii

            return binascii.a2b_base64(value.encode("ascii"))
        return value.encode("utf-8", "replace")
    import json

    return json.dumps(value).encode("utf-8", "replace")


def _bundle(value: Any) -> Dict[str, bytes]:
    """A value in all the forms that it offers, the plain one first."""
    kind = type(value)
    found: Dict[str, Any] = {}
    whole = getattr(kind, "_repr_mimebundle_", None)
    if whole is not None and not isinstance(value, type):
        got = whole(value, include=None, exclude=None)
        found.update((got[0] if isinstance(got, tuple) else got) or {})
    for method, mime in _REPRS:
        if mime not in found and not isinstance(value, type):
            make = getattr(kind, method, None)
            got = make(value) if make is not None else None
            if got is not None:
                found[mime] = got[0] if isinstance(got, tuple) else got
    if "image/png" not in found and kind.__module__ == "matplotlib.figure":
        got = _figure_png(value)
        if got is not None:
            found["image/png"] = got
    text = found.pop("text/plain", None)
    return _encoded({"text/plain": repr(value) if text is None else text, **found})


def _encoded(found: Dict[str, Any]) -> Dict[str, bytes]:
    encoded: Dict[str, bytes] = {}
    room = LIMIT
    for mime, value in found.items():
        data = None if value is None else _data(str(mime), value)
        if data is not None and mime == "text/plain" and len(data) > _TEXT_LIMIT:
            data = data[:_TEXT_LIMIT] + b"..."
        if data is not None and len(data) <= room:
            room -= len(data)
            encoded[str(mime)] = data
    return encoded


def _show(value: Any, **more: Any) -> None:
    """display(): shows something now. ``raw=True``: the value is a bundle already."""
    bundle = _encoded(dict(value)) if more.get("raw") else _bundle(value)
    token = _state.token
    if token and _getpid() == _state.pid:
        _state.displays += 1
        _state.shown += sum(map(len, bundle.values()))
        if _state.displays > _DISPLAYS_MAX or _state.shown > LIMIT:
            raise ValueError("more is displayed than one execution may (max_output)")
        sys.stdout.flush()
        _send(token, "display", list(bundle.values()), mimes=list(bundle))


def _display(*values: Any, **more: Any) -> None:
    """Shows values as the last one of a cell is shown: as text, HTML, an image, whatever they offer."""
    for value in values:
        _show(value, **more)


def _of_user(trace: Any) -> Any:
    """A traceback without this driver: what called the code, and what an interrupt called."""
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    step = trace
    while step is not None and step.tb_next is not None:
        if step.tb_next.tb_frame.f_code is _interrupted.__code__:
            step.tb_next = None
        step = step.tb_next
    return trace


def _error(error: BaseException) -> Tuple[str, str, str]:
    """Name, value and traceback, from the user's first line on."""
    name = type(error).__name__
    try:
        value = str(error)
    except _base_exception:
        value = "<str() of it failed>"
    trace = _of_user(error.__traceback__)
    try:
        text = "".join(traceback.format_exception(type(error), error, trace))
    except _base_exception:  # the code has changed what this needs
        text = "Traceback (most recent call last):\n"
        while trace is not None:
            code = trace.tb_frame.f_code
            text += f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}\n'
            trace = trace.tb_next
        text += f"{name}: {value}\n"
    return name, value, text


# --- matplotlib ------------------------------------------------------------------------------------


def _figure_png(figure: Any) -> Optional[bytes]:
    """A figure that pyplot does not have open; those are shown by themselves."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if not hasattr(figure, "savefig") or pyplot and pyplot.fignum_exists(getattr(figure, "number", None)):
        return None
    import io

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    return buffer.getvalue()


def _show_figures(*args: Any, **kwargs: Any) -> None:
    """Shows what pyplot has open, and closes it."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not hasattr(pyplot, "get_fignums"):
        return
    import io

    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        try:
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", bbox_inches="tight")
            _show({"text/plain": repr(figure), "image/png": buffer.getvalue()}, raw=True)
        finally:
            pyplot.close(figure)


class PyplotFinder:
    """Sets up pyplot when it is imported: its show() shows here."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Finds pyplot once, with a loader that does more than the usual one."""
        if name != "matplotlib.pyplot":
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            module.show = _show_figures

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


# --- running code ----------------------------------------------------------------------------------


def _compile(code: bytes, filename: str) -> List[Any]:
    """Code objects: all but the last expression, and that (eval gives its value)."""
    # With the text, tracebacks show its lines. None: it is no file that may have changed.
    text = code.decode("utf-8", "replace")
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    flags = _state.flags | _AWAIT
    tree: Any = compile(code, filename, "exec", flags | _ONLY_AST, True)
    last = tree.body.pop() if tree.body and type(tree.body[-1]) is _ast.Expr else None
    found = [compile(tree, filename, "exec", flags, True)] if tree.body else []
    for made in found:
        _state.flags |= made.co_flags & _FUTURES
    if last is not None:
        found.append(compile(_ast.Expression(last.value), filename, "eval", _state.flags | _AWAIT, True))
    return found


def _await(coroutine: Any) -> Any:
    import asyncio

    loop = _state.loop
    if loop is None or loop.is_closed():
        loop = _state.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
    task = loop.create_task(coroutine)
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt:
        task.cancel()
        try:
            loop.run_until_complete(task)
        except (KeyboardInterrupt, asyncio.CancelledError):
            pass
        raise


def _run(codes: List[Any]) -> Any:
    value = None
    names = _main.__dict__
    for code in codes:
        value = eval(code, names)
        if code.co_flags & _COROUTINE:
            value = _await(value)
    return value


def _flush() -> None:
    """What print() has buffered goes out before the host hears that all is done."""
    for stream in (sys.__stdout__, sys.__stderr__, sys.stdout, sys.stderr):
        try:
            stream.flush()  # type: ignore[union-attr]
        except _base_exception:
            pass


def _guarded(work: Callable[[], None]) -> Optional[BaseException]:
    """Runs user code. An interrupt ends it, and hits nothing else."""
    try:
        try:
            _state.in_user_code = True
            work()
        finally:
            _state.in_user_code = False
    except Gone:
        raise
    except _base_exception as error:
        _state.in_user_code = False  # an interrupt may have come in between
        return error
    return None


def _leave_child(error: Optional[BaseException]) -> None:
    """A child that user code forked has come to the end of it, as a script would."""
    status = 0
    if type(error) is SystemExit:
        code = error.code
        status = 0 if code is None else code if type(code) is int else 1
    elif error is not None:
        status = 1
        try:
            sys.__stderr__.write(_error(error)[2])  # type: ignore[union-attr]
        except _base_exception:
            pass
    _flush()
    _end(status & 255)


def _execute(token: bytes, code: bytes) -> None:
    _state.count += 1
    _state.displays = _state.shown = 0
    _state.raised_at = 0.0
    filename = f"<cell {_state.count}>"
    bundle: Dict[str, bytes] = {}

    def work() -> None:
        value = _run(_compile(code, filename))
        if value is not None:
            _main.__dict__["_"] = value
            bundle.update(_bundle(value))

    error = _guarded(work)
    if _getpid() != _state.pid:
        _leave_child(error)
    shown = _guarded(_show_figures)
    _flush()
    fields: Dict[str, Any] = {"count": _state.count, "signals": _state.signals}
    if error is None:
        error = shown
    if error is not None:
        fields["error"] = "interrupt" if type(error) is KeyboardInterrupt else "error"
        parts = [text.encode("utf-8", "replace")[:_TEXT_LIMIT] for text in _error(error)]
        _send(token, "end", parts, **fields)
    else:
        _send(token, "end", list(bundle.values()), mimes=list(bundle), **fields)


def _set_vars(data: bytes) -> None:
    """Lines of JSON: name, kind, size; each with its bytes behind it."""
    import json

    while data:
        line, data = data.split(b"\n", 1)
        head = json.loads(line)
        value, data = data[: head["size"]], data[head["size"] :]
        _main.__dict__[head["name"]] = value if head["kind"] == "bytes" else json.loads(value)


def _add_packages(data: bytes) -> None:
    """Directories of packages come before what is in variables; of modules before older packages, but after
    what belongs to Python, as those that it was started with."""
    import json

    given = json.loads(data)
    for name, value in given["variables"].items():
        own = os.environ.get(name)
        os.environ[name] = f"{value}:{own}" if own else value
    modules = given["variables"].get("PYTHONPATH")
    if modules is not None:
        known = [path for path in sys.path if path != modules]
        ours = (i for i, path in enumerate(known) if path in given["older"] or str(path).endswith("-packages"))
        known.insert(next(ours, len(known)), modules)
        sys.path[:] = known
        sys.path_importer_cache.pop(modules, None)


def _get_var(token: bytes, name: str) -> None:
    import json

    value = _main.__dict__[name]
    if isinstance(value, (bytes, bytearray)):
        _send(token, "value", [bytes(value)], kind="bytes")
    else:
        _send(token, "value", [json.dumps(value).encode("ascii")], kind="json")


def _answer(token: bytes, work: Callable[[], None], done: bool) -> None:
    """A request that is no code of the user's. ``done``: say so at its end."""
    try:
        work()
        if done:
            _send(token, "value", [], kind="none")
    except Gone:
        raise
    except _base_exception as error:
        name, value, _ = _error(error)
        _send(token, "refused", [name.encode(), value.encode("utf-8", "replace")[:_TEXT_LIMIT]])


def _await_signals(expected: int) -> None:
    """Interrupts that are on their way must not hit the next code."""
    for _ in range(200):
        if _state.signals >= expected:
            return
        _sleep(0.001)


def _make_freezable(token: bytes, data: bytes) -> None:
    """The host sends what is needed for it with the first request: text, and a library (python_fork.py)."""
    names = globals()
    if _state.freezer is None:
        size, data = data.split(b"\n", 1)
        names["LIBRARY"] = data[int(size) :]
        try:
            exec(compile(data[: int(size)], "<cordon>", "exec"), names)
        except _base_exception as error:
            _send(token, "refused", [b"Refused", str(error).encode("utf-8", "replace")[:_TEXT_LIMIT]])
            return
        finally:
            del names["LIBRARY"]
    names["_freeze"](token)


def _serve() -> None:
    while True:
        kind, token, data = _receive()
        _state.token = token
        if kind == b"exec":
            _execute(token, data)
        elif kind == b"set":
            _answer(token, lambda data=data: _set_vars(data), True)  # type: ignore[misc]
        elif kind == b"packages":
            _answer(token, lambda data=data: _add_packages(data), True)  # type: ignore[misc]
        elif kind == b"get":
            _answer(token, lambda data=data: _get_var(token, data.decode()), False)  # type: ignore[misc]
        elif kind == b"freeze":
            _make_freezable(token, data)
        else:
            _answer(token, lambda data=data: _await_signals(int(data)), True)  # type: ignore[misc]
        _state.token = b""


# --- the beginning ---------------------------------------------------------------------------------


def _interrupted(number: int, frame: Any) -> None:
    _state.signals += 1
    if not _state.in_user_code or _clock() < _state.raised_at + _AGAIN:
        return
    _state.raised_at = _clock()
    if _state.is_sending:
        _state.is_interrupted = True
    else:
        raise KeyboardInterrupt


def _after_fork() -> None:
    """In a child of the user's: it must not speak, nor keep the channel open."""
    if _state.is_freezing:
        return
    if _state.fd >= 0 and _is_ours_by_file():
        posix.close(_state.fd)
    _state.fd, _state.token = -1, b""


def _is_ours_by_file() -> bool:
    try:
        found = _fstat(_state.fd)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == _state.identity


def _take_channel() -> None:
    """Moves the channel out of the way: not inherited by programs, far from other descriptors."""
    import fcntl
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    _state.fd = fcntl.fcntl(3, fcntl.F_DUPFD_CLOEXEC, max(4, min(_HIGH, soft - 8)))
    posix.close(3)
    found = _fstat(_state.fd)
    _state.identity = (found.st_dev, found.st_ino)
    _state.pid = _getpid()
    for fd in range(3):
        found = _fstat(fd)
        _state.streams[fd] = (found.st_dev, found.st_ino)
    for place in ("/dev/shm", "/var/tmp"):
        try:
            if not os.path.islink(place):
                _state.in_memory[place] = set(posix.listdir(place))
        except OSError:
            pass


def _begin() -> None:
    _take_channel()
    _main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["builtins"].display = _display  # type: ignore[attr-defined]
    sys.modules["__main__"] = _main
    sys.path.insert(0, "")  # the current directory, as in an interactive interpreter
    sys.argv = [""]
    os.environ.setdefault("MPLBACKEND", "agg")
    sys.meta_path.insert(0, PyplotFinder())
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.register_at_fork(after_in_child=_after_fork)
    _signal.signal(2, _interrupted)
    try:
        _send(b"-", "hello", [], version=sys.version.split()[0])
        _serve()
    except Gone:
        _flush()
        _end(0)


_begin()
