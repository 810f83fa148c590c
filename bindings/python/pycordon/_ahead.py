# SPDX-License-Identifier: Apache-2.0
"""Interpreters with state that have started and wait, each in a sandbox of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, Mapping, Optional, Union

from . import _arguments
from ._errors import CordonError, UsageError
from ._interpreter import MAX_OUTPUT, Interpreter
from ._interpreters import Kind, find_kind
from ._job import RunArguments
from ._live import GRACE_SECONDS, Live
from ._stock import MOST, Stock

if TYPE_CHECKING:
    from ._engine import Engine
    from ._interpreter import InterpreterFront

#: What a pool's argument ``interpreters`` may be.
Wanted = Union[Mapping[str, int], None]


def wanted(interpreters: Wanted) -> Dict[str, int]:
    """The argument, checked: how many of each language."""
    if interpreters is None:
        return {}
    if not isinstance(interpreters, Mapping):
        raise UsageError("interpreters: a mapping is needed", hint="interpreters={'javascript': 2}")
    return {
        find_kind(language).name: _arguments.whole(f"interpreters[{language!r}]", count, 1, MOST)
        for language, count in interpreters.items()
    }


class Ahead(Stock[Live]):
    """Interpreters with state, for interpreter()."""

    def _make(self, engine: "Engine", name: str) -> Live:
        return _started(engine, find_kind(name))


def _started(engine: "Engine", kind: Kind) -> Live:
    layers = engine.settings.packages
    packages = [] if layers is None else layers.modules
    live = Live(kind, MAX_OUTPUT, GRACE_SECONDS)
    try:
        live.start(engine, RunArguments(kind.argv(packages)), ahead=True)
        Interpreter._wait(live)
        task = live.task
        if task is None or task.answer is None:
            raise CordonError(live.why())
        live.task = None
    except BaseException:
        live.close()
        raise
    return live


def adopt(front: "InterpreterFront", ahead: Optional[Ahead]) -> None:
    """Gives a new front an interpreter that waits, if there is one. Else it starts its own when it is
    used first."""
    if ahead is not None and front.has_usual_limits:
        front._live = ahead.take(front._kind.name)
