# SPDX-License-Identifier: Apache-2.0
"""One interpreter that runs, without the waiting: what both fronts do between two waits.

Output goes over the run's ordinary pipes, so it is byte for byte what the code wrote. The driver
flushes before it says that the code has ended. By then everything is in one of the pipes on the way:
the guest's, the library's buffer, ours. They are read until all of them are empty, or until more has
come than fits in there, because something still writes. Whatever comes later belongs to the next
execution.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from . import _cordon
from ._channel import Channel, Message, ProtocolError
from ._engine import Engine, Started
from ._errors import CordonError, SetupError, StateError
from ._execution import CodeError, Display, Execution
from ._interpreters import Kind
from ._job import Job, RunArguments
from ._result import Result, Truncated

if TYPE_CHECKING:
    from ._image import Image
    from ._job import Callback

_CHUNK = 1 << 16
_IN_PIPES = (1 << 20) + (3 << 16)  # bytes at most: the guest's pipe may be enlarged, ours are not
_DISPLAYS_MAX = 10_000
_MIME_MAX = 256  # characters of a name such as "text/html"
START_SECONDS = 60.0
GRACE_SECONDS = 2.0  # for code to end after an interrupt
_CLOSE_SECONDS = 1.0  # for a process to end after it has closed the channel
_LATE_SECONDS = 0.05  # for an interrupt to arrive that nobody counts
# A signal that comes just before a system call that sleeps is noticed by Python when that is over. So an
# interrupt is sent again after these seconds, as long as the code has not ended; the driver takes them for one.
_AGAIN_SECONDS = (0.05, 0.15, 0.35)


class Task:
    """A request that is being worked on."""

    def __init__(
        self, kind: str, timeout: Optional[float], callbacks: Dict[str, "Optional[Callback]"], limit: int
    ) -> None:
        self.kind = kind
        self.token = secrets.token_hex(16)
        self.began = time.monotonic()
        self.deadline = None if timeout is None else self.began + timeout
        self.kill_at: Optional[float] = None
        self.again: List[float] = []  # when to send the interrupt again
        self.callbacks = callbacks
        self.limit = limit
        self.output = {"stdout": bytearray(), "stderr": bytearray()}
        self.cut = {"stdout": False, "stderr": False}
        self.displays: List[Display] = []
        self.shown_bytes = 0
        self.answer: Optional[Message] = None
        self.has_image = False  # one came, into ``image``, of so many bytes at most
        self.image: "Optional[Image]" = None
        self.image_most = 0
        self.timed_out = False
        self.failed: Optional[BaseException] = None  # what a callback raised
        self.doom = ""  # why the interpreter is being ended

    def add(self, name: str, data: bytes) -> None:
        """Output of the code."""
        kept = self.output[name]
        room = self.limit - len(kept)
        if len(data) > room:
            self.cut[name] = True
        kept += data[:room]
        callback = self.callbacks.get(name)
        if callback is not None and self.failed is None:
            try:
                callback(data)
            except BaseException as error:  # raised again when the interpreter is quiet
                self.failed = error


class Live:
    """An interpreter in its sandbox."""

    def __init__(self, kind: Kind, limit: int, grace: float, is_shared: bool = False) -> None:
        self.kind = kind
        # Of the session: its supervisor counts the interrupts, which others cause as well.
        self._is_shared = is_shared
        self._counts_signals = kind.counts_signals and not is_shared
        self._limit = limit
        self._grace = grace
        self._readers: Dict[int, str] = {}
        self._started: Optional[Started] = None
        self._channel: Optional[Channel] = None
        self._result: Optional[Result] = None
        self._error: Optional[CordonError] = None
        self._closed_at: Optional[float] = None
        self._wake: Tuple[int, int] = (-1, -1)  # a pipe: another thread has changed the times
        self._sent_signals = 0
        self._seen_signals = 0
        self.quiet_at = 0.0  # before that an interrupt may still be on its way
        self.version = ""
        self.task: Optional[Task] = None
        self.updates = 0  # packages of its session that it knows of
        self.can_freeze = False  # it has what it needs for that
        self.image: "Optional[Image]" = None  # of it as it is now

    # --- its beginning ---------------------------------------------------------------------------

    def start(
        self, engine: Engine, args: RunArguments, image: "Optional[Image]" = None, ahead: bool = False
    ) -> None:
        """Starts it; it is ready when the task that this begins has its answer. ``image``: it goes on
        from there. ``ahead``: for a user to come, who asks is_as_new()."""

        def connect(job: Job) -> None:
            self._connect(job)
            job.options["ahead"] = ahead
            if image is not None:
                job.options["image_fd"] = image.lend()
                job.fds.append(job.options["image_fd"])

        try:
            started = engine.begin(args, connect)
        except BaseException:
            self._close_pipes()
            raise
        if isinstance(started, Result):
            self._close_pipes()
            started.raise_for_status()
            raise SetupError(f"the {self.kind.name} interpreter was not started")
        self._started = started
        self._channel = Channel(started.run.channel(), self._limit)
        self.task = Task("hello", START_SECONDS, {}, _CHUNK)
        self.task.token = "-"
        if image is None:
            self._channel.send(self.kind.greeting(self._limit))
        else:
            self.can_freeze, self.image = True, image

    def _connect(self, job: Job) -> None:
        _, readers = job.connect(with_stdin=False)
        self._readers = {fd: name for name, fd in readers.items()}
        for fd in self._readers:
            os.set_blocking(fd, False)
        self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        job.options["channel"] = True
        job.options.setdefault("wall_ms", -1)  # unless the policy has a limit

    def _close_pipes(self) -> None:
        readers, self._readers = self._readers, {}
        wake, self._wake = self._wake, (-1, -1)
        for fd in (*readers, *wake):
            if fd >= 0:
                os.close(fd)

    # --- requests --------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._result is not None or self._error is not None

    def is_as_new(self) -> bool:
        """Whether it goes on, and one that this thread started now would inherit the same."""
        try:
            return self._started is not None and not self.is_over and self._started.run.is_as_new()
        except _cordon.Error:
            return False

    def begin(self, task: Task, payload: bytes) -> None:
        """Sends a request. step() until is_done."""
        assert self._channel is not None and self.task is None
        if task.kind not in ("freeze", "sync"):
            self.image = None
        if task.image is not None:
            self._channel.expect_image(task.image, task.image_most)
        self.task = task
        self._channel.send(f"{task.kind} {task.token} {len(payload)}\n".encode() + payload)

    def end_freezing(self) -> None:
        """No image is expected any more. OSError: what came could not be written."""
        assert self._channel is not None
        self._channel.end_image()

    @property
    def run(self) -> "Optional[_cordon.Run]":
        """Its run, while it goes on."""
        return None if self._started is None else self._started.run

    @property
    def is_done(self) -> bool:
        """Whether the request has its answer, or never will."""
        return self.task is None or self.is_over or self.task.answer is not None

    def interrupt(self) -> None:
        """Interrupts the code that runs. Any thread may call it."""
        task = self.task
        self._signal()
        if task is not None and self._counts_signals:
            now = time.monotonic()
            task.again = [now + seconds for seconds in _AGAIN_SECONDS]
            try:
                os.write(self._wake[1], b"x")
            except OSError:
                pass  # it is over, or has been woken often enough

    def _signal(self) -> None:
        if self._started is not None and not self.is_over:
            self._sent_signals += 1
            self._order("signal", int(signal.SIGINT))

    def doom(self, why: str) -> None:
        """Ends it."""
        if self.task is not None and not self.task.doom:
            self.task.doom = why
        self._order("end" if self._is_shared else "cancel")

    def leave(self, why: str) -> None:
        """The same, but for one that is shared: that goes on for others."""
        if self.task is not None and not self.task.doom:
            self.task.doom = why
        self._order("cancel")

    def has_ended(self) -> bool:
        """Whether it has ended, perhaps since its last request: others may have ended one that is shared."""
        if self._started is not None and not self.is_over and self._is_shared:
            assert self._channel is not None
            run: Any = self._started.run  # that of a detached session
            if run.process() or (self._channel.is_at_end() and run.ends_soon()):
                self._settle()
        return self.is_over

    def _order(self, name: str, *values: int) -> None:
        if self._started is None:
            return
        try:
            getattr(self._started.run, name)(*values)
        except _cordon.Error as error:
            if error.name != "state":
                raise

    # --- between two waits -----------------------------------------------------------------------

    def waits(self) -> List[Tuple[int, int]]:
        """Descriptors to wait for, with events of poll()."""
        assert self._started is not None and self._channel is not None
        found = [(fd, select.POLLIN) for fd in (self._started.run.fileno(), self._wake[0], *self._readers)]
        if not self._channel.is_closed:
            more = select.POLLOUT if self._channel.has_more_to_send else 0
            found.append((self._channel.fileno(), select.POLLIN | more))
        return found

    def next_time(self) -> Optional[float]:
        """When step() has something to do even if nothing happens."""
        task = self.task
        times = [self._closed_at and self._closed_at + _CLOSE_SECONDS]
        if task is not None:
            times += [task.kill_at or task.deadline, *task.again[:1]]
        given = [moment for moment in times if moment is not None]
        return min(given) if given else None

    def step(self) -> None:
        """Handles what has happened."""
        task = self.task
        if task is None or self.is_done:
            return
        assert self._started is not None and self._channel is not None
        try:
            over = self._started.run.process()  # first: see cordon_run_channel()
        except _cordon.Error as error:
            task.doom = task.doom or error.message
            over = True
        self._read_output(task)
        try:
            os.read(self._wake[0], _CHUNK)
        except OSError:
            pass
        self._channel.flush()
        try:
            for message in self._channel.receive():
                self._take(task, message)
        except ProtocolError as error:
            self._channel.give_up()
            task.answer = None
            self.doom(f"it broke the rules of the channel ({error})")
        if over:
            self._settle()
        elif task.answer is not None:
            self._drain(task)
        else:
            self._look_at_clock(task)

    def _look_at_clock(self, task: Task) -> None:
        assert self._channel is not None
        now = time.monotonic()
        if task.again and now >= task.again[0]:
            del task.again[0]
            self._signal()
        if self._channel.is_closed and self._closed_at is None:
            self._closed_at = now
        if self._closed_at is not None and now >= self._closed_at + _CLOSE_SECONDS:
            self.doom("it has closed the channel")
        elif task.kill_at is not None and now >= task.kill_at:
            self.doom(f"it did not react to an interrupt within {self._grace:g} seconds")
            task.kill_at = now + self._grace
        elif task.kill_at is None and task.deadline is not None and now >= task.deadline:
            task.timed_out = True
            if task.kind == "exec":
                self.stop(task)
            else:
                self.doom("it did not answer in time")
                task.kill_at = now + self._grace
        elif task.kill_at is None and task.failed is not None:
            self.stop(task)

    def stop(self, task: Task) -> None:
        """Interrupts the code, and ends the interpreter if that does not help. What is no code of the
        user's comes to its end by itself."""
        if task.kind == "freeze":
            return
        self.interrupt()
        task.kill_at = time.monotonic() + self._grace

    def _take(self, task: Task, message: Message) -> None:
        if message.token != task.token or task.answer is not None:
            raise ProtocolError("a message belongs to no request")
        if message.type == "display" and task.kind == "exec":
            bundle = message.bundle()
            task.shown_bytes += sum(map(len, message.parts)) + sum(map(len, bundle))
            if any(len(name) > _MIME_MAX or not name.isascii() for name in bundle):
                raise ProtocolError("a form's name is no name")
            if task.shown_bytes > self._limit or len(task.displays) >= _DISPLAYS_MAX:
                raise ProtocolError("too much was displayed")
            task.displays.append(Display(bundle))
            return
        if message.type == "image" and task.kind == "freeze" and not task.has_image:
            task.has_image = True
            return
        wanted = {"hello": ("hello", "refused"), "exec": ("end",)}.get(task.kind, ("value", "refused"))
        if message.type not in wanted:
            raise ProtocolError(f"'{message.type}' was not asked for")
        if message.type == "end" and "error" in message.fields and len(message.parts) != 3:
            raise ProtocolError("an error has other parts")
        if message.type == "refused" and len(message.parts) != 2:
            raise ProtocolError("a refusal has other parts")
        if message.type == "end" and "error" not in message.fields:
            message.bundle()
        self._seen_signals = message.fields.get("signals", self._seen_signals)
        self.version = message.fields.get("version", self.version)
        task.answer = message

    def _read_output(self, task: Task) -> int:
        total = 0
        for fd, name in self._readers.items():
            count = 0
            while count < _IN_PIPES:
                try:
                    data = os.read(fd, _CHUNK)
                except BlockingIOError:
                    break
                if not data:
                    break
                count += len(data)
                task.add(name, data)
            total += count
        return total

    def _drain(self, task: Task) -> None:
        """Everything that was written before the answer."""
        assert self._started is not None
        run, total = self._started.run, 0
        look = select.poll()
        look.register(run.fileno(), select.POLLIN)
        while total < 2 * _IN_PIPES:
            total += self._read_output(task)
            try:
                # In a session another thread may have taken something and not passed it on yet: that
                # is over when process() returns.
                is_quiet = not look.poll(0)
                if run.process():
                    self._settle()
                    return
                more = self._read_output(task)
                if is_quiet and more == 0:
                    return
                total += more
            except _cordon.Error:
                return

    # --- its end ---------------------------------------------------------------------------------

    def _settle(self) -> None:
        """The run is over."""
        assert self._started is not None and self._channel is not None
        if self.task is not None:
            self._read_output(self.task)
        try:
            self._result = self._started.settle()
        except CordonError as error:
            self._error = error
        self._release()

    def _release(self) -> None:
        if self._started is not None:
            self._started.job.close()
            self._started = None
        if self._channel is not None:
            self._channel.close()
        self._close_pipes()

    def close(self) -> None:
        """Ends it at once."""
        if self._started is not None:
            self._started.abandon()
            self._error = self._error or StateError("the interpreter was closed")
            self._release()

    def why(self) -> str:
        """Why it has ended, in words."""
        task, result = self.task, self._result
        said = task.doom if task is not None else ""
        if said:
            return f"the interpreter was ended: {said}"
        if result is None:
            return f"the interpreter failed: {self._error}" if self._error else "the interpreter ended"
        if result.kind == "exited":
            return f"the interpreter ended with status {result.returncode}"
        if result.kind == "signaled":
            return f"the interpreter was killed by signal {result.signal}"
        return f"the interpreter was ended: {result.explain() or result.kind}".split("\n")[0]

    def begin_sync(self) -> Optional[Task]:
        """After interrupts: a request whose answer comes when the driver has seen them all."""
        if self._sent_signals == self._seen_signals or self.is_over:
            return None
        if not self._counts_signals:
            self._seen_signals = self._sent_signals
            self.quiet_at = time.monotonic() + _LATE_SECONDS
            return None
        expected, self._seen_signals = self._sent_signals, self._sent_signals
        task = Task("sync", START_SECONDS, {}, _CHUNK)
        self.begin(task, str(expected).encode())
        return task


def make_execution(live: Live, task: Task, restarted: str, count: int) -> Execution:
    """The account of a task that is done."""
    answer, error, result = task.answer, None, None
    fields = answer.fields if answer is not None else {}
    if answer is not None and "error" in fields:
        error = CodeError(*(part.decode("utf-8", "replace") for part in answer.parts))
    elif answer is not None and answer.parts:
        result = Display(answer.bundle())
    status = fields.get("status")
    interrupted = fields.get("error") == "interrupt"
    if status:
        interrupted = bool(fields.get("exited")) and status == 130
        name = "KeyboardInterrupt" if interrupted else "ExitStatus"
        error = CodeError(name, "" if interrupted else str(status), "")
    reason = live.why() if answer is None else restarted
    if answer is None:
        error = CodeError("InterpreterEnded", reason, "")
    return Execution(
        count=count,
        stdout_bytes=bytes(task.output["stdout"]),
        stderr_bytes=bytes(task.output["stderr"]),
        result=result,
        displays=tuple(task.displays),
        error=error,
        duration=time.monotonic() - task.began,
        status=status,
        timed_out=task.timed_out,
        interrupted=interrupted,
        ended=answer is None,
        restarted=bool(restarted),
        reason=reason,
        truncated=Truncated(task.cut["stdout"], task.cut["stderr"]),
    )

