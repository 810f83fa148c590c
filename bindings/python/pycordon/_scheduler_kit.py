# SPDX-License-Identifier: Apache-2.0
"""Parts of a Scheduler: the gate that bounds what goes on at once, and what runs with the same packages
have in common."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any, AsyncIterator, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union

from . import _arguments
from ._aio import AsyncSandbox
from ._aio_pool import AsyncPool
from ._aio_wait import Room, in_thread
from ._engine import Engine
from ._errors import ClosedError, PolicyError, QueueFullError, UsageError
from ._packages import install
from ._policy import Policy

#: Sets of packages whose sandboxes are kept ready.
KITS_MAX = 16
#: Packages of one run, and characters of each.
WORDS_MAX = 100
WORD_MAX = 200
_INSTALLERS = 2  # sets that are installed at the same time
# With what may come after it: words lose their blanks on the way to pip, so "a b" would be a package "ab".
_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)[ \t]*(?![^\[(<>=!~;])")


class Gate:
    """Lets ``room`` callers go on at once, in the order of their calls; ``queue`` more may wait."""

    def __init__(self, room: int, queue: int, what: str) -> None:
        self._room = Room(room)
        self._most = room + queue
        self._what = what
        self._idle = asyncio.Event()
        self._admitted = 0
        self.running = 0

    @property
    def waiting(self) -> int:
        """How many wait, for their turn or for packages."""
        return self._admitted - self.running

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Counts a caller; QueueFullError if there are too many."""
        if self._admitted >= self._most:
            raise QueueFullError(
                f"{self.running} {self._what} go on and {self.waiting} wait: there is no room for more",
                hint="try again later, or raise the limit of the Scheduler",
            )
        self._admitted += 1
        try:
            yield
        finally:
            self._admitted -= 1
            self._idle.set()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for the turn of a caller that was admitted."""
        await self._room.take(1)
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self._room.give_back(1)

    async def until_idle(self) -> None:
        """Waits until nobody is left."""
        while self._admitted:
            self._idle.clear()
            await self._idle.wait()


def name_of(word: str) -> str:
    """The name of a package in a requirement, as the indexes compare names."""
    if word.startswith("npm:"):
        at = word.find("@", len("npm:@"))
        return (word if at < 0 else word[:at]).lower()
    found = _NAME.match(word)
    return "" if found is None else re.sub(r"[-_.]+", "-", found[1]).lower()


def package_words(packages: Sequence[str], allowed: Optional[Set[str]]) -> Tuple[str, ...]:
    """What a run asks for, checked. Names only: a file of the host is not for a run to choose."""
    if isinstance(packages, (str, bytes)) or not hasattr(packages, "__iter__"):
        raise UsageError("packages: a list of names is needed", hint=f"[{packages!r:.60}]")
    words = sorted({_arguments.text("packages", word).strip() for word in packages} - {""})
    if len(words) > WORDS_MAX:
        raise UsageError(f"packages: {len(words)} are too many, {WORDS_MAX} is the most")
    for word in words:
        # A colon would be an address, or npm's other name for another package.
        if len(word) > WORD_MAX or word.endswith((".txt", ".json")) or ":" in word[4 if word[:4] == "npm:" else 0 :]:
            raise UsageError(
                f"packages: {word!r:.60} is no package's name",
                hint="files with requirements are for Scheduler(packages=)",
            )
        if allowed is not None and name_of(word) not in allowed:
            raise PolicyError(
                f"packages: {word!r:.60} is not one of the allowed packages",
                hint="allowed: " + (", ".join(sorted(allowed))[:200] or "none"),
            )
    return tuple(words)


class Kit:
    """What runs with one set of packages have in common: a pool for runs that only compute, and the
    settings of a sandbox with files for the others."""

    def __init__(self, words: Tuple[str, ...], pool: AsyncPool, template: AsyncSandbox) -> None:
        self.words = words
        self.pool = pool
        self._template = template
        self._is_prepared = False

    @property
    def policy(self) -> Policy:
        """What its runs may do, the packages included."""
        return self._template.policy

    @property
    def base_dir(self) -> str:
        """Where relative paths of the policy begin."""
        return self._template._engine.settings.base_dir

    def fresh(self, policy: Optional[Policy] = None) -> AsyncSandbox:
        """A new sandbox with files of its own, perhaps with another policy."""
        settings = self._template._engine.settings
        made = AsyncSandbox.__new__(AsyncSandbox)
        made._engine = Engine(settings if policy is None else replace(settings, policy=policy, preload=None))
        if policy is None:
            made._engine.use_image_of(self._template._engine)
        return made

    async def prepare(self) -> None:
        """Before the first run with files: their interpreter, in a thread."""
        warm = self._template._engine.warm
        if warm is not None and not self._is_prepared:
            await in_thread(warm.start)
            self._is_prepared = True

    async def close(self) -> None:
        """Ends what runs in the pool, and what was kept ready."""
        await self.pool.close()
        await self._template.close()


class Kits:
    """Makes kits, each once: who asks for one that is being made waits for it. The packages are
    installed in a thread of this object's own. ``sessions``: how many kits are kept for a long time, at most;
    who asks for more than these and KITS_MAX or one for each run that goes on waits for one to be free."""

    def __init__(
        self,
        policy: Policy,
        env: Mapping[str, str],
        packages: Sequence[str],
        may_build: bool,
        workers: int,
        parked: Optional[int],
        ahead: Mapping[str, Any],
        sessions: int,
    ) -> None:
        self._policy = policy
        self._env = dict(env)
        self._packages = list(packages)
        self._may_build = may_build
        self._pool: Dict[str, Any] = {"workers": workers, "parked": parked, **ahead}
        self._kits: "OrderedDict[Tuple[str, ...], asyncio.Task[Kit]]" = OrderedDict()
        self._users: Dict[Tuple[str, ...], int] = {}  # those who wait for it, too
        self._most = max(KITS_MAX, workers) + sessions
        self._freed: Optional[asyncio.Event] = None  # made late: it belongs to the loop that is running
        self._threads: Optional[ThreadPoolExecutor] = None
        self._is_stopped = False

    def _line(self, line: str) -> None:
        """What an installer says; stops it if nobody waits any more."""
        if self._is_stopped:
            raise ClosedError("the scheduler is closed")

    def _build(self, words: Tuple[str, ...]) -> Kit:
        wanted = [*self._packages, *words]
        layers = install(wanted, self._policy, self._may_build, line=self._line) if wanted else ()
        given: Dict[str, Any] = {"env": self._env, "packages": layers}
        # Two wait for runs with packages: sets are many, and memory is not.
        pool = dict(self._pool, parked=2) if words and self._pool["parked"] is None else self._pool
        preload = None if pool["fresh_aslr"] else pool["preload"]  # in sandboxes with files none waits
        template = AsyncSandbox(self._policy, preload=preload, **given)
        return Kit(words, AsyncPool(self._policy, **pool, **given), template)

    async def _make(self, words: Tuple[str, ...]) -> Kit:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_INSTALLERS, "cordon-install")
        kit = await asyncio.get_running_loop().run_in_executor(self._threads, self._build, words)
        try:
            await kit.pool.start()
        except BaseException:
            await asyncio.shield(kit.close())
            raise
        return kit

    async def take(self, words: Tuple[str, ...]) -> Kit:
        """The kit of a set of packages, for give_back()."""
        if self._is_stopped:
            raise ClosedError("the scheduler is closed")
        self._users[words] = self._users.get(words, 0) + 1
        try:
            return await self._get(words)
        except BaseException:
            self._forget_user(words)
            raise

    async def _get(self, words: Tuple[str, ...]) -> Kit:
        task = self._kits.get(words)
        if task is None:
            await self._make_room(words)
            if self._is_stopped:
                raise ClosedError("the scheduler is closed")
            task = self._kits.get(words)  # another one may have begun meanwhile
        if task is None:
            task = self._kits[words] = asyncio.ensure_future(self._make(words))
            task.add_done_callback(self._tell_freed)
        self._kits.move_to_end(words)
        await asyncio.wait([task])
        if self._is_stopped or task.cancelled():
            raise ClosedError("the scheduler is closed")
        if task.exception() is not None and self._kits.get(words) is task:
            del self._kits[words]  # the next one tries again
        return task.result()

    def give_back(self, kit: Kit) -> None:
        """A run does not need it any more."""
        self._forget_user(kit.words)

    def _forget_user(self, words: Tuple[str, ...]) -> None:
        left = self._users.pop(words) - 1
        if left:
            self._users[words] = left
        else:
            self._tell_freed()

    def _tell_freed(self, _: object = None) -> None:
        if self._freed is not None:
            self._freed.set()

    async def _make_room(self, words: Tuple[str, ...]) -> None:
        """Lets go of kits that nobody uses. If all are in use, waits for one: runs that have one go on
        without us, so it comes."""
        if self._freed is None:
            self._freed = asyncio.Event()
        while True:
            self._freed.clear()  # before the look
            await self._let_go()
            if len(self._kits) < self._most or words in self._kits or self._is_stopped:
                return
            await self._freed.wait()

    async def _let_go(self) -> None:
        old: List[Kit] = []
        for words, task in list(self._kits.items()):
            if len(self._kits) < KITS_MAX:
                break
            if words and words not in self._users and task.done():
                del self._kits[words]
                if not task.cancelled() and task.exception() is None:
                    old.append(task.result())
        for kit in old:
            await kit.close()

    async def close(self) -> None:
        """Ends what runs in their pools, and stops installations."""
        self._is_stopped = True
        self._tell_freed()
        tasks = list(self._kits.values())
        self._kits.clear()
        for task in tasks:
            if not task.done():
                task.cancel()
        for made in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(made, Kit):
                await made.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False)
