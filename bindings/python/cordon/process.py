# SPDX-License-Identifier: Apache-2.0
"""Commands whose output is seen while they run: callbacks of run(), and Process."""

from __future__ import annotations

import io
import os
import selectors
import signal as _signal
import threading
import time
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Dict, Iterator, List, Optional, Tuple, Union

from . import _cordon, arguments
from .errors import CordonError, StateError, from_native, raise_native
from .job import Callback, Job
from .result import Published, Result, Truncated

if TYPE_CHECKING:
    from .core import SandboxBase

CHUNK = 65536
KEPT_DEFAULT = 1 << 20  # of each stream, in results of runs whose output was streamed


class Keep:
    """The beginning and the end of a stream, within a limit."""

    def __init__(self, limit: int = KEPT_DEFAULT) -> None:
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self.cut = False

    def add(self, data: bytes) -> None:
        """More of the stream."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._half:
            self._trim()

    def _trim(self) -> None:
        if len(self._tail) > self._half:
            self.cut = True
            del self._tail[: -self._half]

    def value(self) -> bytes:
        """What was kept."""
        self._trim()
        return bytes(self._head + self._tail)


def with_output(result: Result, kept: Dict[str, Keep]) -> Result:
    """The same result with what was read from the streams."""
    got = {name: kept.get(name) or Keep() for name in ("stdout", "stderr")}
    return replace(
        result,
        stdout_bytes=got["stdout"].value() or result.stdout_bytes,
        stderr_bytes=got["stderr"].value() or result.stderr_bytes,
        truncated=Truncated(
            got["stdout"].cut or result.truncated.stdout,
            got["stderr"].cut or result.truncated.stderr,
        ),
    )


def run_streaming(
    sandbox: "SandboxBase",
    job: Job,
    on_stdout: Optional[Callback],
    on_stderr: Optional[Callback],
) -> Result:
    """Runs a job and calls back with what it writes. Everything happens in this thread."""
    callbacks: Dict[int, Tuple[str, Callback]] = {}
    for name, callback in (("stdout", on_stdout), ("stderr", on_stderr)):
        if callback is not None and job.options.get(name) != "join":
            reader, writer = job.pipe()
            job.options[name] = writer
            os.set_blocking(reader, False)
            callbacks[reader] = (name, callback)
    run = sandbox._start(job)
    if isinstance(run, Result):
        return run
    kept = {name: Keep() for name, _ in callbacks.values()}
    try:
        _pump(run, callbacks, kept)
        _drain(callbacks, kept)
        job.drains = list(callbacks)
    except BaseException as error:
        sandbox._abandon(run, job)
        if isinstance(error, _cordon.Error):
            raise_native(error)
        raise
    values = {name: keep.value() for name, keep in kept.items()}
    cut = Truncated(*(name in kept and kept[name].cut for name in ("stdout", "stderr")))
    return sandbox._settle(run, job, values.get("stdout"), values.get("stderr"), cut)


def _pump(
    run: _cordon.Run, callbacks: Dict[int, Tuple[str, Callback]], kept: Dict[str, Keep]
) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(run.fileno(), selectors.EVENT_READ)
        for fd in callbacks:
            selector.register(fd, selectors.EVENT_READ)
        while not run.process():
            for key, _ in selector.select():
                if key.fd in callbacks:
                    _deliver(key.fd, callbacks, kept)


def _deliver(fd: int, callbacks: Dict[int, Tuple[str, Callback]], kept: Dict[str, Keep]) -> bool:
    try:
        data = os.read(fd, CHUNK)
    except BlockingIOError:
        return False
    name, callback = callbacks[fd]
    if data:
        kept[name].add(data)
        callback(data)
    return bool(data)


def _drain(callbacks: Dict[int, Tuple[str, Callback]], kept: Dict[str, Keep]) -> None:
    """What is left in the pipes. The run is over, so everything it wrote is there."""
    for fd in callbacks:
        while _deliver(fd, callbacks, kept):
            pass


class Process:
    """A command that runs, with its streams. Made by Sandbox.popen().

    Read either through ``stdout`` and ``stderr`` or through ``events()`` and ``read_available()``.
    What nobody reads that way is taken by ``wait()`` and is in its result. A stream that was begun
    must be read to its end: as with any pipe, the command waits for its reader.
    """

    def __init__(self, sandbox: "SandboxBase", job: Optional[Job]) -> None:
        self._sandbox = sandbox
        self._job = job
        self._run: Optional[_cordon.Run] = None
        self._done = threading.Event()
        self._result: Optional[Result] = None
        self._error: Optional[BaseException] = None
        self._lock = threading.Lock()
        self._touched: Dict[str, bool] = {}
        self._kept: Dict[str, Keep] = {}
        self._readers: Dict[str, "io.BufferedReader"] = {}
        self._stdin: Optional[IO[bytes]] = None
        self._wake: Tuple[int, int] = (-1, -1)

    def __repr__(self) -> str:
        code = self.poll()
        return f"<Process {'running' if code is None else f'returncode {code}'}>"

    # --- streams -----------------------------------------------------------------------------

    @property
    def stdin(self) -> IO[bytes]:
        """What the command reads; unbuffered."""
        if self._stdin is None:
            raise StateError("the process has no standard input")
        return self._stdin

    @property
    def stdout(self) -> IO[bytes]:
        """What the command writes; with ``tty`` or ``merge``, its errors too."""
        return self._stream("stdout")

    @property
    def stderr(self) -> Optional[IO[bytes]]:
        """What it writes to standard error; None with ``tty`` or ``merge``."""
        return self._stream("stderr") if "stderr" in self._readers else None

    def _stream(self, name: str) -> IO[bytes]:
        self._touched[name] = True
        return self._readers[name]

    def write(self, data: Union[bytes, str]) -> None:
        """Writes all of it to the command's standard input."""
        view = memoryview(arguments.data("data", data))
        stdin = self.stdin
        while view:
            view = view[stdin.write(view) or 0 :]

    def close_stdin(self) -> None:
        """The command sees the end of its input."""
        if self._stdin is not None:
            self._stdin.close()

    def events(self, timeout: Optional[float] = None) -> Iterator[Tuple[str, bytes]]:
        """("stdout" or "stderr", bytes) as they come, until both are at their end. ``timeout``: for
        each wait; TimeoutError."""
        with selectors.DefaultSelector() as selector:
            for name, reader in self._readers.items():
                self._touched[name] = True
                if not reader.closed:
                    selector.register(reader.fileno(), selectors.EVENT_READ, name)
            while selector.get_map():
                ready = selector.select(timeout)
                if not ready:
                    raise TimeoutError("nothing was written in time")
                for key, _ in ready:
                    data = os.read(key.fd, CHUNK)
                    if data:
                        yield str(key.data), data
                    else:
                        selector.unregister(key.fd)

    def read_available(self, timeout: float = 0) -> List[Tuple[str, bytes]]:
        """What can be read now, or within ``timeout`` seconds if there is nothing yet."""
        found: List[Tuple[str, bytes]] = []
        with selectors.DefaultSelector() as selector:
            for name, reader in self._readers.items():
                self._touched[name] = True
                if not reader.closed:
                    selector.register(reader.fileno(), selectors.EVENT_READ, name)
            if selector.get_map():
                for key, _ in selector.select(timeout):
                    data = os.read(key.fd, CHUNK)
                    if data:
                        found.append((str(key.data), data))
        return found

    # --- its end -------------------------------------------------------------------------------

    def poll(self) -> Optional[int]:
        """The return code, or None while it runs."""
        if not self._done.is_set():
            return None
        return None if self._result is None else self._result.returncode

    @property
    def returncode(self) -> Optional[int]:
        """The same as poll()."""
        return self.poll()

    @property
    def result(self) -> Optional[Result]:
        """The result, or None while it runs."""
        return self._result if self._done.is_set() else None

    def wait(self, timeout: Optional[float] = None) -> Result:
        """Waits for the command's end; TimeoutError if it does not come in time (the command goes
        on). Takes the output that nobody read."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            self._drain(end)
        left = None if end is None else max(0.0, end - time.monotonic())
        if not self._done.wait(left):
            raise TimeoutError("the command did not end in time")
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return with_output(self._result, self._kept)

    def _drain(self, end: Optional[float]) -> None:
        """Reads what nobody else does, until the command is over."""
        with selectors.DefaultSelector() as selector:
            for name, reader in self._readers.items():
                if not self._touched.get(name) and not reader.closed:
                    selector.register(reader.fileno(), selectors.EVENT_READ, name)
            if not selector.get_map():
                return
            if self._wake[0] >= 0 and not self._done.is_set():
                selector.register(self._wake[0], selectors.EVENT_READ, "")
            while any(key.data for key in selector.get_map().values()):
                over = self._done.is_set()
                left = None if end is None else max(0.0, end - time.monotonic())
                ready = selector.select(0 if over else left)
                if not ready:
                    return  # in time; or over, and what goes on holds the streams open
                for key, _ in ready:
                    self._take(selector, key)

    def _take(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        if not key.data:
            selector.unregister(key.fd)  # the command is over: read the rest, without waiting
            return
        data = os.read(key.fd, CHUNK)
        if data:
            self._kept.setdefault(key.data, Keep()).add(data)
        else:
            selector.unregister(key.fd)

    # --- orders ----------------------------------------------------------------------------------

    def _order(self, name: str, *values: int) -> None:
        if self._run is None or self._done.is_set():
            return
        try:
            getattr(self._run, name)(*values)
        except _cordon.Error as error:
            if error.name != "state":
                raise_native(error)

    def signal(self, number: int) -> None:
        """Sends a signal to the command's process group; nothing happens once it is over."""
        self._order("signal", arguments.whole("number", number, 1, 64))

    def terminate(self) -> None:
        """Asks the command to end (SIGTERM), and ends everything after the grace. Output that
        nobody reads any more is taken by wait()."""
        self._touched.clear()
        self._order("end", int(_signal.SIGTERM))

    def kill(self) -> None:
        """Ends the command and everything it started, at once. Output that nobody reads any more is
        taken by wait()."""
        self._touched.clear()
        self._order("cancel")

    def resize(self, rows: int, cols: int) -> None:
        """Changes the size of its terminal."""
        self._order(
            "resize",
            arguments.whole("rows", rows, 1, 65535),
            arguments.whole("cols", cols, 1, 65535),
        )

    @property
    def published(self) -> Tuple[Published, ...]:
        """Ports that the host can connect to."""
        if self._result is not None:
            return self._result.published
        if self._run is None:
            return ()
        return tuple(Published(*entry) for entry in self._run.published())

    def close(self) -> None:
        """Ends it if it still runs, and closes its streams."""
        self.kill()
        self.close_stdin()
        for reader in self._readers.values():
            reader.close()  # first: a run whose output nobody takes is not over
        self._done.wait()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- behind it ---------------------------------------------------------------------------------

    def _finish(self, result: Optional[Result], error: Optional[BaseException]) -> None:
        self._result, self._error = result, error
        if self._job is not None:
            self._job.close()
        self._done.set()
        if self._wake[1] >= 0:
            os.close(self._wake[1])

    def _work(self, run: _cordon.Run, job: Job) -> None:
        """The thread: relays its streams and waits for its end."""
        try:
            run.wait()
            self._finish(self._sandbox._settle(run, job), None)
        except _cordon.Error as error:
            self._sandbox._abandon(run, job)
            self._finish(None, from_native(error))
        except (CordonError, OSError) as error:
            self._finish(None, error)

    def __del__(self) -> None:
        if getattr(self, "_wake", (-1, -1))[0] >= 0:
            os.close(self._wake[0])


def _pipes(process: Process, job: Job) -> None:
    stdin_r, stdin_w = job.pipe()
    job.options["stdin"] = stdin_r
    job.fds.remove(stdin_w)
    process._stdin = io.FileIO(stdin_w, "w")
    names = ["stdout"] if job.options["stderr"] == "join" else ["stdout", "stderr"]
    for name in names:
        reader, writer = job.pipe()
        job.options[name] = writer
        job.fds.remove(reader)
        process._readers[name] = io.BufferedReader(io.FileIO(reader, "r"))


def open_process(sandbox: "SandboxBase", job: Union[Job, Result]) -> Process:
    """Starts a prepared run with pipes, and the thread that looks after it."""
    if isinstance(job, Result):
        process = Process(sandbox, None)
        for name in ("stdout", "stderr"):
            reader, writer = os.pipe2(os.O_CLOEXEC)
            os.close(writer)
            process._readers[name] = io.BufferedReader(io.FileIO(reader, "r"))
        process._stdin = open("/dev/null", "wb", buffering=0)
        process._finish(job, None)
        return process
    process = Process(sandbox, job)
    try:
        _pipes(process, job)
        run = sandbox._start(job)
    except BaseException:
        job.close()
        raise
    if isinstance(run, Result):
        process._finish(run, None)
        return process
    process._run = run
    thread = threading.Thread(
        target=process._work, args=(run, job), name="cordon-process", daemon=True
    )
    try:
        process._wake = os.pipe2(os.O_CLOEXEC)
        thread.start()
    except BaseException:
        # An interrupt, or no thread to be had: nobody will ever hear of this process.
        _give_up(process, thread, run, job)
        raise
    return process


def _give_up(process: Process, thread: threading.Thread, run: _cordon.Run, job: Job) -> None:
    if thread.ident is not None or thread in threading.enumerate():
        process.kill()  # the thread has it, or will have it at once
        return
    process._sandbox._abandon(run, job)
    process._finish(None, StateError("the process was not started"))
