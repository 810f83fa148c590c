# SPDX-License-Identifier: Apache-2.0
"""Programs to grade, and what is said about each. Nothing here starts or waits."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from itertools import count, repeat
from typing import (
    TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, Tuple, Union,
)  # fmt: skip

from . import _arguments
from ._code import Code, Content
from ._errors import UsageError
from ._job import Command, RunArguments
from ._result import Result

if TYPE_CHECKING:
    from typing import Literal

    from ._types import RunSettings

    VerdictName = Literal["ok", "wrong", "timeout", "memory", "runtime", "compile", "error"]

Checker = Callable[[Result], object]
#: Kinds of a result that are a verdict of their own; all others are "runtime".
_BY_KIND = {"timeout": "timeout", "cpu_time": "timeout", "memory": "memory"}
#: What an interpreter says about a file that it cannot read as a program. Python has no traceback
#: then: nothing of the program has run.
_SYNTAX = re.compile(rb"^(?:SyntaxError|IndentationError|TabError): ", re.M)
_WORDS_MAX = 4000  # characters of a compiler in a verdict
_TRACEBACK = b"Traceback (most recent call last)"


@dataclass(frozen=True)
class Program:
    """One program to run, and what is expected of it.

    ``code`` in a ``language``, or a command (``cmd``) instead. ``stdin``: text or bytes.
    ``expected``: the output; text is compared without white space at the ends of lines and of the
    whole, bytes are compared as they are. ``checker`` gets the Result and says whether it is right: a
    true or false value, or a string, which is what was wrong. Without either, a program that ends
    with status 0 is right. ``limits``: settings that may only tighten those of the pool, such as
    ``{"limits_memory": "64M"}``.
    """

    code: Optional[Content] = None
    language: str = "python"
    cmd: Optional[Command] = None
    stdin: Union[str, bytes, None] = None
    expected: Union[str, bytes, None] = None
    checker: Optional[Checker] = None
    args: Sequence[str] = ()
    files: Optional[Mapping[str, Content]] = None
    env: Optional[Mapping[str, str]] = None
    timeout: Union[float, str, None] = None
    limits: "Mapping[str, Any]" = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.code is None) == (self.cmd is None):
            raise UsageError("a program has either code or cmd")
        _arguments.callback("checker", self.checker)
        if not isinstance(self.limits, Mapping):
            kind = type(self.limits).__name__
            raise UsageError(f"limits: a dict of settings is needed, not {kind}")

    @classmethod
    def make(cls, item: Any) -> "Program":
        """From code, a dict of these fields, a command as a list, or a program."""
        if isinstance(item, Program):
            return item
        if isinstance(item, (str, bytes)):
            return cls(code=item)
        if isinstance(item, Mapping):
            unknown = set(item) - {f.name for f in fields(cls)}
            if unknown:
                raise UsageError(f"a program has no {sorted(map(str, unknown))[0]!r}")
            return cls(**item)
        if isinstance(item, Sequence):
            return cls(cmd=item)
        raise UsageError(f"a program is code, a dict or a Program, not {type(item).__name__}")

    def arguments(self) -> RunArguments:
        """What a run of it takes."""
        common: Any = {
            "stdin": self.stdin, "env": self.env, "timeout": self.timeout, "overrides": dict(self.limits),
        }  # fmt: skip
        if self.code is None:
            assert self.cmd is not None
            return RunArguments(self.cmd, **common)
        made = Code.make(self.code, self.language, None, self.args, self.files)
        return RunArguments(made.argv, code=made, **common)


@dataclass(frozen=True)
class Graded:
    """What became of one program. ``verdict``: "ok"; "wrong" output; "timeout", "memory", "runtime":
    how it failed; "compile": it could not be compiled, or read as a program; "error": the checker failed,
    the sandbox could not be made or there is no compiler, and ``error`` is why. ``message`` has the checker's
    or the compiler's words. ``result`` is None if it did not run."""

    index: int
    program: Program
    verdict: "VerdictName"
    result: Optional[Result] = None
    message: Optional[str] = None
    error: Optional[BaseException] = None

    @property
    def ok(self) -> bool:
        """Whether the program is right."""
        return self.verdict == "ok"

    def __repr__(self) -> str:
        note = "" if self.message is None else f" {self.message!r:.60}"
        return f"<Graded {self.index} {self.verdict}{note}>"


def _same(output: bytes, expected: Union[str, bytes]) -> bool:
    if isinstance(expected, bytes):
        return output == expected
    wanted = expected.encode("utf-8", "surrogateescape")
    lines, others = ([x.rstrip() for x in text.rstrip().split(b"\n")] for text in (output, wanted))
    return lines == others


def _failure(result: Result) -> "VerdictName":
    known: Any = _BY_KIND.get(result.kind)
    if known is not None:
        return known  # type: ignore[no-any-return]
    said = result.stderr_bytes
    if result.exit_code == 1 and _SYNTAX.search(said) and _TRACEBACK not in said:
        return "compile"
    return "runtime"


def _compilers_words(result: Result) -> str:
    """What the compiler said, or why it said nothing."""
    said = result.text.strip()
    if result.kind == "exited" and said:
        return said[:_WORDS_MAX]
    return result.explain().split("\n", 1)[0]


def judge(index: int, program: Program, result: Result) -> Graded:
    """The verdict about a program that has run. What a checker raises belongs to its program; what
    is no Exception, such as KeyboardInterrupt, goes on."""
    verdict: "VerdictName"
    if not result.ok:
        verdict = "compile" if result.step == "compile" else _failure(result)
        message = _compilers_words(result) if verdict == "compile" else None
        return Graded(index, program, verdict, result, message=message)
    if program.expected is not None and not _same(result.stdout_bytes, program.expected):
        return Graded(index, program, "wrong", result)
    if program.checker is None:
        return Graded(index, program, "ok", result)
    try:
        said = program.checker(result)
        if isinstance(said, str):
            return Graded(index, program, "wrong", result, message=said)
        verdict = "ok" if said else "wrong"
    except Exception as error:
        return Graded(index, program, "error", result, message=str(error), error=error)
    return Graded(index, program, verdict, result)


def failed(index: int, program: Program, error: Exception) -> Graded:
    """The verdict about a program that could not be started."""
    return Graded(index, program, "error", message=str(error), error=error)


def _is_one(programs: Any) -> bool:
    return isinstance(programs, (str, bytes, Program, Mapping))


def _others(values: Any, name: str) -> Iterator[Any]:
    if values is None:
        return repeat(None)
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise UsageError(f"{name}: one for each program is needed, not {type(values).__name__}")
    return iter(values)


_END = object()


def _with(program: Program, stdin: Any, expected: Any, common: Mapping[str, Any]) -> Program:
    given = {f.name: getattr(program, f.name) for f in fields(Program)}
    if stdin is not None:
        given["stdin"] = stdin
    if expected is not None:
        given["expected"] = expected
    for name in ("checker", "timeout"):
        if given[name] is None:
            given[name] = common[name]
    given["limits"] = {**common["limits"], **program.limits}
    return Program(**given)


def numbered(
    programs: Any, inputs: Any, expected: Any, common: Mapping[str, Any]
) -> Tuple[Iterator[Tuple[int, Program]], Optional[int]]:
    """The programs with their numbers, made one by one as they are asked for, and how many there are
    if that is known. A single program is run with each of the inputs."""
    if not isinstance(common["limits"], Mapping):
        raise UsageError(f"limits: a dict of settings is needed, not {type(common['limits']).__name__}")
    _arguments.callback("checker", common["checker"])
    if _is_one(programs):
        if inputs is None:
            raise UsageError("a list of programs is needed, or one program and its inputs")
        one = Program.make(programs)
        sized, source = inputs, repeat(one)
        stdins: Iterator[Any] = _others(inputs, "inputs")
    else:
        if not hasattr(programs, "__iter__"):
            raise UsageError(f"a list of programs is needed, not {type(programs).__name__}")
        sized, source = programs, iter(programs)
        stdins = _others(inputs, "inputs")
    answers = _others(expected, "expected")

    def make() -> Iterator[Tuple[int, Program]]:
        for index in count():
            # The given list ends first: of a single program, the inputs.
            if source is not stdins and _is_one(programs):
                stdin = next(stdins, _END)
                item: Any = _END if stdin is _END else next(source)
            else:
                item = next(source, _END)
                stdin = None if item is _END else next(stdins, _END)
            if item is _END:
                return
            answer = next(answers, _END)
            if stdin is _END or answer is _END:
                name = "inputs" if stdin is _END else "expected"
                raise UsageError(f"{name}: there are fewer than programs")
            yield index, _with(Program.make(item), stdin, answer, common)

    total = len(sized) if hasattr(sized, "__len__") else None
    return make(), total


class Tally:
    """Counts what is done, and tells a callback: ``progress(done, total, graded)``."""

    def __init__(self, total: Optional[int], progress: Optional[Callable[..., object]]) -> None:
        _arguments.callback("progress", progress)
        self._total = total
        self._progress = progress
        self._done = 0

    def add(self, graded: Graded) -> Graded:
        """One more."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total, graded)
        return graded


class InOrder:
    """Results as they come in, out in the order of their programs."""

    def __init__(self) -> None:
        self._waiting: dict[int, Graded] = {}
        self._next = 0

    def add(self, graded: Graded) -> Iterable[Graded]:
        """Those that can go out now."""
        self._waiting[graded.index] = graded
        while self._next in self._waiting:
            yield self._waiting.pop(self._next)
            self._next += 1

    @property
    def held(self) -> int:
        """How many wait for an earlier one."""
        return len(self._waiting)
