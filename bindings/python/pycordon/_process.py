# SPDX-License-Identifier: Apache-2.0
"""Waiting for runs in the caller's thread: to their end, with callbacks, or as a Process."""

from __future__ import annotations

import io
import os
import selectors
import threading
import time
from typing import IO, Callable, Dict, Iterable, Iterator, List, Optional, Set, Tuple, Union

from . import _arguments, _cordon
from ._engine import Engine, Started
from ._errors import StateError
from ._hostfiles import write_all
from ._job import Callback, Job, RunArguments
from ._result import Result
from ._streams import CHUNK, Kept, ProcessFront


def wait_for(
    started: Union[Started, Result], wait: Callable[[_cordon.Run], object] = _cordon.Run.wait
) -> Result:
    """The result of a run, once it is over."""
    if isinstance(started, Result):
        return started
    try:
        with started as run:
            wait(run)
        return started.settle()
    finally:
        started.job.close()


def compiled(engine: Engine, args: RunArguments) -> Union[RunArguments, Result]:
    """The arguments of a run whose program is compiled by now; or the compiler's result."""
    need = engine.need(args)
    if need is None:
        return args
    with need:
        return need.arguments()


class Callbacks:
    """Pipes whose content goes to callbacks while the run goes on, all in the caller's thread."""

    def __init__(self, args: RunArguments) -> None:
        self._wanted = {"stdout": args.on_stdout, "stderr": args.on_stderr}
        self._readers: Dict[int, Tuple[str, Callback]] = {}
        self.kept = Kept()

    def connect(self, job: Job) -> None:
        """Makes the pipes."""
        for name, callback in self._wanted.items():
            if callback is not None and job.options.get(name) != "join":
                reader, job.options[name] = job.pipe()
                os.set_blocking(reader, False)
                self._readers[reader] = (name, callback)
        job.drains = list(self._readers)

    def pump(self, run: _cordon.Run) -> None:
        """Calls back until the run is over, and with everything it has written by then."""
        with selectors.DefaultSelector() as selector:
            for fd in (run.fileno(), *self._readers):
                selector.register(fd, selectors.EVENT_READ)
            while not run.process():
                for key, _ in selector.select():
                    if key.fd in self._readers:
                        self._deliver(key.fd)
        for fd in self._readers:
            while self._deliver(fd):
                pass

    def _deliver(self, fd: int) -> bool:
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        name, callback = self._readers[fd]
        if data:
            self.kept.add(name, data)
            callback(data)
        return bool(data)


def run_streaming(engine: Engine, args: RunArguments) -> Result:
    """Runs a command and calls back with what it writes."""
    callbacks = Callbacks(args)
    result = wait_for(engine.begin(args, callbacks.connect), callbacks.pump)
    return callbacks.kept.in_result(result)


class Process(ProcessFront):
    """A command that runs, with its streams. Made by Sandbox.popen().

    Read either through ``stdout`` and ``stderr`` or through ``events()`` and ``read_available()``.
    Output that is not read that way is taken by ``wait()`` and is in its result. A stream that was
    begun must be read to its end: as with any pipe, the command waits for its reader.
    """

    def __init__(self) -> None:
        super().__init__()
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._touched: Set[str] = set()  # streams that the caller reads
        self._readers: Dict[str, "io.BufferedReader"] = {}
        self._stdin: Optional[IO[bytes]] = None
        self._wake: Tuple[int, int] = (-1, -1)

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
        self._touched.add(name)
        return self._readers[name]

    def _select(self, names: Iterable[str]) -> selectors.BaseSelector:
        selector = selectors.DefaultSelector()
        for name in names:
            if not self._readers[name].closed:
                selector.register(self._readers[name].fileno(), selectors.EVENT_READ, name)
        return selector

    def write(self, data: Union[bytes, str]) -> None:
        """Writes all of it to the command's standard input."""
        write_all(self.stdin, _arguments.data("data", data))

    def close_stdin(self) -> None:
        """The command sees the end of its input."""
        if self._stdin is not None:
            self._stdin.close()

    def events(self, timeout: Optional[float] = None) -> Iterator[Tuple[str, bytes]]:
        """("stdout" or "stderr", bytes) as they come, until both are at their end. ``timeout``: for
        each wait; TimeoutError."""
        with self._select(self._readers) as selector:
            self._touched.update(self._readers)
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
        with self._select(self._readers) as selector:
            self._touched.update(self._readers)
            for key, _ in selector.select(timeout) if selector.get_map() else ():
                data = os.read(key.fd, CHUNK)
                if data:
                    found.append((str(key.data), data))
        return found

    # --- its end -------------------------------------------------------------------------------

    def wait(self, timeout: Optional[float] = None) -> Result:
        """Waits for the command's end; TimeoutError if it does not come in time (the command goes
        on). Takes the output that was not read."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            self._drain(end)
        left = None if end is None else max(0.0, end - time.monotonic())
        if not self._done.wait(left):
            raise TimeoutError("the command did not end in time")
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        assert self._outcome is not None
        return self._kept.in_result(self._outcome)

    def _drain(self, end: Optional[float]) -> None:
        """Reads the streams that have no other reader, until the command is over."""
        with self._select(set(self._readers) - self._touched) as selector:
            if not selector.get_map():
                return
            if self._wake[0] >= 0 and not self._done.is_set():
                selector.register(self._wake[0], selectors.EVENT_READ, "")
            while any(key.data for key in selector.get_map().values()):
                over = self._done.is_set()
                left = None if end is None else max(0.0, end - time.monotonic())
                ready = selector.select(0 if over else left)
                if not ready:
                    return  # no time left; or over, and its orphans hold the streams open
                for key, _ in ready:
                    self._take(selector, key)

    def _take(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        if not key.data:
            selector.unregister(key.fd)  # the command is over: read the rest, without waiting
            return
        data = os.read(key.fd, CHUNK)
        if data:
            self._kept.add(key.data, data)
        else:
            selector.unregister(key.fd)

    def close(self) -> None:
        """Ends it if it still runs, and closes its streams."""
        self.kill()
        self.close_stdin()
        for reader in self._readers.values():
            reader.close()  # first: a run whose output is not taken does not end
        self._done.wait()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- behind it ---------------------------------------------------------------------------------

    def _order(self, name: str, *values: int) -> None:
        if name in ("end", "cancel"):
            self._touched.clear()  # wait() takes output that is not read any more
        super()._order(name, *values)

    def _connect(self, job: Job) -> None:
        stdin, readers = job.connect(with_stdin=True)
        self._stdin = io.FileIO(stdin, "w")
        self._readers = {
            name: io.BufferedReader(io.FileIO(fd, "r")) for name, fd in readers.items()
        }

    def _refused(self, result: Result) -> None:
        """The command was not started: its streams are at their end."""
        if not self._readers:
            for name in ("stdout", "stderr"):
                reader, writer = os.pipe2(os.O_CLOEXEC)
                os.close(writer)
                self._readers[name] = io.BufferedReader(io.FileIO(reader, "r"))
            self._stdin = open(os.devnull, "wb", buffering=0)
        self._finish(result)

    def _begun(self, started: Started) -> None:
        self._started = started
        turn = threading.Lock()  # taken once, by the one that looks after the run
        thread = threading.Thread(
            target=self._work, args=(started, turn), name="cordon-process", daemon=True
        )
        try:
            self._wake = os.pipe2(os.O_CLOEXEC)
            thread.start()
        except BaseException:
            # An interrupt, or no more threads: the caller never gets this process. Whether the
            # thread exists is not known: an interrupted start may leave one that never runs.
            if turn.acquire(blocking=False):
                started.abandon()
                started.job.close()
                self._finish(StateError("the process was not started"))
            else:
                self.kill()
            raise

    def _work(self, started: Started, turn: threading.Lock) -> None:
        """The thread: relays its streams and waits for its end."""
        if not turn.acquire(blocking=False):
            return
        failed = None
        try:
            started.run.wait()
        except _cordon.Error as error:
            failed = error
        self._conclude(started, failed)

    def _finish(self, outcome: Union[Result, BaseException]) -> None:
        super()._finish(outcome)
        self._done.set()
        if self._wake[1] >= 0:
            os.close(self._wake[1])

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # When the interpreter ends, the module `os` may be gone before this object is.
        if getattr(self, "_wake", (-1, -1))[0] >= 0:
            close(self._wake[0])


def open_process(engine: Engine, args: RunArguments) -> Process:
    """Starts a command with pipes, and the thread that looks after it."""
    process = Process()
    started = engine.begin(args, process._connect)
    if isinstance(started, Result):
        process._refused(started)
    else:
        process._begun(started)
    return process
