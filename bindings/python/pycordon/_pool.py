# SPDX-License-Identifier: Apache-2.0
"""Many programs, each in a sandbox of its own that was made ahead."""

from __future__ import annotations

import os
import selectors
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _arguments, _cordon
from ._ahead import Ahead, Wanted, adopt, wanted
from ._builds import Need
from ._engine import Engine, Started
from ._errors import ClosedError, CordonError, UsageError, raise_native
from ._grade import Checker, Graded, InOrder, Program, Tally, failed, judge, numbered
from ._interpreter import MAX_OUTPUT, Interpreter
from ._job import RunArguments
from ._live import GRACE_SECONDS
from ._parked import MOST
from ._policy import Config
from ._result import Result
from ._sandbox import Sandbox

if TYPE_CHECKING:
    from ._held import Wanted as HeldWanted
    from typing_extensions import Unpack

    from ._types import RunSettings, SandboxSettings

#: What map() takes: code, a dict of the fields of a Program, a command, or a Program.
Item = Union[str, bytes, Program, Mapping[str, Any], List[str], Tuple[str, ...]]
Items = Union[Iterable[Item], str, Program]
Inputs = Optional[Iterable[Union[str, bytes, None]]]
Progress = Optional[Callable[[int, Optional[int], Graded], object]]
#: How far results may run ahead of the one that is waited for, for each worker.
AHEAD = 4


def default_workers() -> int:
    """As many as there are CPUs for this process."""
    return max(1, len(os.sched_getaffinity(0)))


def pool_settings(
    workers: Optional[int], parked: Optional[int], settings: Mapping[str, object]
) -> Tuple[int, int]:
    """How many run at once, and how many wait. One more than run, so that one is ready while another
    is being made."""
    for name in ("workdir", "persist", "keep", "id", "name"):
        if name in settings:
            raise UsageError(f"a pool has no '{name}': its runs share nothing", hint="use a Sandbox")
    many = default_workers() if workers is None else _arguments.whole("workers", workers, 1, 4096)
    return many, min(many + 1, MOST) if parked is None else _arguments.whole("parked", parked, 1, MOST)


class Bell:
    """A pipe by which other threads wake the one that selects."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.fd, self._end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def ring(self, _: object) -> None:
        """Wakes it; called by any thread, also after close()."""
        with self._lock:
            if self._end >= 0:
                try:
                    os.write(self._end, b"!")
                except BlockingIOError:
                    pass  # it has not heard of the last ones yet

    def hush(self) -> None:
        """It is awake."""
        try:
            os.read(self.fd, 4096)
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Nobody listens any more."""
        with self._lock:
            os.close(self._end)
            os.close(self.fd)
            self._end = -1


class Running:
    """Runs that go on at the same time, watched by one thread: the caller's. Compilers that they need
    are watched by others, which wake this one."""

    def __init__(self, engine: Engine, workers: int) -> None:
        self._engine = engine
        self._workers = workers
        self._selector = selectors.DefaultSelector()
        self._started: Dict[int, Tuple[int, Program, Started]] = {}
        self._needs: List[Tuple[int, Program, Need]] = []
        self._bell: Optional[Bell] = None

    @property
    def has_room(self) -> bool:
        """Whether one more may be started."""
        return len(self._started) + len(self._needs) < self._workers

    @property
    def is_idle(self) -> bool:
        """Whether none goes on."""
        return not self._started and not self._needs

    def start(self, index: int, program: Program) -> Optional[Graded]:
        """Starts one, or its compiler; its verdict at once if it cannot be run."""
        try:
            args = program.arguments()
            need = self._engine.need(args)
        except ClosedError:
            raise
        except (CordonError, OSError) as error:
            return failed(index, program, error)
        if need is None:
            return self._begin(index, program, args)
        if need.outcome.done():
            return self._go_on(index, program, need)
        self._needs.append((index, program, need))
        if self._bell is None:
            self._bell = Bell()
            self._selector.register(self._bell.fd, selectors.EVENT_READ)
        need.outcome.add_done_callback(self._bell.ring)
        return None

    def _go_on(self, index: int, program: Program, need: Need) -> Optional[Graded]:
        """Starts one whose compiler is done."""
        try:
            with need:
                ready = need.arguments()
        except ClosedError:
            raise
        except (CordonError, OSError) as error:
            return failed(index, program, error)
        if isinstance(ready, Result):
            return judge(index, program, ready)
        return self._begin(index, program, ready)

    def _begin(self, index: int, program: Program, args: RunArguments) -> Optional[Graded]:
        try:
            started = self._engine.begin(args)
        except ClosedError:
            raise
        except (CordonError, OSError) as error:
            return failed(index, program, error)
        if isinstance(started, Result):
            return judge(index, program, started)
        fd = -1
        try:
            fd = started.run.fileno()
            self._started[fd] = (index, program, started)
            self._selector.register(fd, selectors.EVENT_READ)
        except BaseException:
            self._started.pop(fd, None)
            started.abandon()
            started.job.close()
            raise
        return None

    def wait(self) -> Iterator[Graded]:
        """The verdicts about those that have ended since, of one at least; of none if all compilers
        were done and nothing runs."""
        while not self.is_idle:
            ended = 0
            for key, _ in self._selector.select():
                for graded in self._look_at_compilers() if key.fd not in self._started else self._look_at(key.fd):
                    ended += 1
                    yield graded
            if ended:
                return

    def _look_at_compilers(self) -> Iterator[Graded]:
        assert self._bell is not None
        self._bell.hush()
        done = [entry for entry in self._needs if entry[2].outcome.done()]
        for entry in done:
            self._needs.remove(entry)
            graded = self._go_on(*entry)
            if graded is not None:
                yield graded

    def _look_at(self, fd: int) -> Iterator[Graded]:
        graded = self._result_of(fd)
        if graded is not None:
            yield graded

    def _result_of(self, fd: int) -> Optional[Graded]:
        index, program, started = self._started[fd]
        try:
            if not started.run.process():
                return None
        except _cordon.Error as error:
            self._forget(fd)
            try:
                started.abandon()
                raise_native(error)
            except (CordonError, OSError) as known:
                return failed(index, program, known)
            finally:
                started.job.close()
        self._forget(fd)
        try:
            result = started.settle()
        except ClosedError:
            raise
        except (CordonError, OSError) as error:
            return failed(index, program, error)
        finally:
            started.job.close()
        return judge(index, program, result)

    def _forget(self, fd: int) -> None:
        self._selector.unregister(fd)
        del self._started[fd]

    def close(self) -> None:
        """Ends all that still go on."""
        left, self._started = list(self._started.values()), {}
        for _, _, started in left:
            try:
                started.run.cancel()
            except _cordon.Error:
                pass  # over meanwhile
        for _, _, started in left:
            started.abandon()
            started.job.close()
        self._selector.close()
        needs, self._needs = self._needs, []
        for _, _, need in needs:
            need.leave()
        if self._bell is not None:
            self._bell.close()


class Pool(Sandbox):
    """Runs many programs that know nothing of each other.

    Each run has a sandbox of its own, with an empty home and /tmp in memory, which is gone
    afterwards; none is used twice. They are made ahead, so that a run starts sooner.

    ``config`` and ``settings`` as for a Sandbox: what every run may do. ``workers``: how many
    programs map() and its like run at once; as many as there are CPUs if it is None. ``parked``: how
    many sandboxes wait; one more than workers if it is None. ``preload``: Python programs
    start in an interpreter that has imported these modules, and what small programs use most, already;
    None: in a new one. ``warm`` and ``fresh_aslr`` as for a Sandbox. ``interpreters``: how many of each language wait for interpreter(), as
    ``{"javascript": 2}``. ``env``: variables for all runs. ``compile_timeout``, ``compile_memory``: limits of
    compilers; what they make of a program is kept for all its runs.
    """

    def __init__(
        self,
        config: Config = None,
        *,
        workers: Optional[int] = None,
        parked: Optional[int] = None,
        preload: Union[str, Sequence[str], None] = None,
        warm: "HeldWanted" = None,
        fresh_aslr: bool = False,
        interpreters: Wanted = None,
        env: Optional[Mapping[str, str]] = None,
        allow_overrides: bool = False,
        compile_timeout: Union[float, str] = "60s",
        compile_memory: Union[int, str] = "1G",
        **settings: "Unpack[SandboxSettings]",
    ) -> None:
        self._workers, waiting = pool_settings(workers, parked, settings)
        counts = wanted(interpreters)
        super().__init__(
            config, persist=False, env=env, allow_overrides=allow_overrides, parked=waiting,
            preload=preload, warm=warm, fresh_aslr=fresh_aslr, compile_timeout=compile_timeout, compile_memory=compile_memory, **settings,
        )  # fmt: skip
        self._engine.ahead = Ahead(self._engine, counts)

    def __enter__(self) -> "Pool":
        return self.start()

    def start(self) -> "Pool":
        """Makes the first sandboxes now instead of at the first run."""
        self._engine.check_open()
        assert self._engine.parked is not None
        try:
            self._engine.parked.open()
            if self._engine.warm is not None:
                self._engine.warm.start()
            assert self._engine.ahead is not None
            self._engine.ahead.start()
            if self._engine.held is not None:
                self._engine.held.start()
        except _cordon.Error as error:
            raise_native(error)
        return self

    def interpreter(
        self,
        language: str = "python",
        *,
        max_output: int = MAX_OUTPUT,
        grace: float = GRACE_SECONDS,
    ) -> Interpreter:
        """An interpreter with state, in a sandbox of its own: one that waits, if the pool was made with
        ``interpreters``, else a new one. Close it; the pool ends those that are left."""
        self._engine.check_open()
        made = Interpreter(language, sandbox=self, max_output=max_output, grace=grace)
        adopt(made, self._engine.ahead)
        return made

    @property
    def workers(self) -> int:
        """How many programs run at once."""
        return self._workers

    def map(
        self,
        programs: Items,
        inputs: Inputs = None,
        *,
        expected: Inputs = None,
        checker: Optional[Checker] = None,
        timeout: Union[float, str, None] = None,
        limits: "Optional[RunSettings]" = None,
        progress: Progress = None,
    ) -> List[Graded]:
        """Runs all programs and says about each what became of it, in their order.

        A program is Python code, a dict of the fields of a Program, a command as a list, or a
        Program. ``inputs``: standard input of each; ``expected``: the output of each. One program
        alone is run with each of the inputs. ``checker``, ``timeout`` and ``limits`` hold for
        programs that do not state their own. ``progress(done, total, graded)`` is called after each;
        ``total`` is None if the programs come from a generator.

        A program that fails, or whose checker raises, is a verdict and no error. An exception here,
        such as KeyboardInterrupt, ends all programs that run.
        """
        return list(
            self.imap(
                programs, inputs, expected=expected, checker=checker, timeout=timeout, limits=limits,
                progress=progress,
            )  # fmt: skip
        )

    def imap(
        self,
        programs: Items,
        inputs: Inputs = None,
        *,
        expected: Inputs = None,
        checker: Optional[Checker] = None,
        timeout: Union[float, str, None] = None,
        limits: "Optional[RunSettings]" = None,
        progress: Progress = None,
    ) -> Iterator[Graded]:
        """The same one by one, in order. Programs are taken from their source as there is room for
        them, and no more than a few ahead of the result that is waited for."""
        common = {"checker": checker, "timeout": timeout, "limits": limits or {}}
        source, total = numbered(programs, inputs, expected, common)
        return self._results(source, Tally(total, progress), InOrder())

    def imap_unordered(
        self,
        programs: Items,
        inputs: Inputs = None,
        *,
        expected: Inputs = None,
        checker: Optional[Checker] = None,
        timeout: Union[float, str, None] = None,
        limits: "Optional[RunSettings]" = None,
        progress: Progress = None,
    ) -> Iterator[Graded]:
        """The same as they come; ``index`` says which it is. Leaving the loop early ends the programs
        that run."""
        common = {"checker": checker, "timeout": timeout, "limits": limits or {}}
        source, total = numbered(programs, inputs, expected, common)
        return self._results(source, Tally(total, progress), None)

    async def amap(
        self,
        programs: Items,
        inputs: Inputs = None,
        *,
        expected: Inputs = None,
        checker: Optional[Checker] = None,
        timeout: Union[float, str, None] = None,
        limits: "Optional[RunSettings]" = None,
        progress: Progress = None,
    ) -> List[Graded]:
        """map() for programs with an event loop; cancelling the task ends all programs that run."""
        from ._aio_pool import AsyncPool

        there = AsyncPool._beside(self._engine, self._workers)
        return await there.map(
            programs, inputs, expected=expected, checker=checker, timeout=timeout, limits=limits,
            progress=progress,
        )  # fmt: skip

    def _results(
        self, source: Iterator[Tuple[int, Program]], tally: Tally, order: Optional[InOrder]
    ) -> Iterator[Graded]:
        self._engine.check_open()
        running, has_more = Running(self._engine, self._workers), True
        most_held = AHEAD * self._workers

        def out(graded: Graded) -> Iterable[Graded]:
            tally.add(graded)
            return [graded] if order is None else order.add(graded)

        try:
            while has_more or not running.is_idle:
                while has_more and running.has_room and (order is None or order.held < most_held):
                    entry = next(source, None)
                    has_more = entry is not None
                    if entry is not None:
                        graded = running.start(*entry)
                        if graded is not None:
                            yield from out(graded)
                if not running.is_idle:
                    for graded in running.wait():
                        yield from out(graded)
        finally:
            running.close()
