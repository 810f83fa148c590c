# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as a small tree of exceptions.

Everything that Cordon raises by itself is a :class:`CordonError`. A command that runs and fails is
no error: it is a :class:`~pycordon.Result`. File operations raise the usual ``OSError`` family, and
so does a working directory that does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, NoReturn, Optional, Type

from ._hints import in_python

if TYPE_CHECKING:
    from ._result import Result


class CordonError(Exception):
    """Base of all errors. ``hint`` is the remedy, if there is one; ``stage`` is where the set-up
    was (``"outside"``: in this process); ``errno`` is the system's error number or 0."""

    code = "error"

    def __init_subclass__(cls, code: Optional[str] = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if code is not None:
            cls.code = code

    def __init__(
        self,
        message: str,
        *,
        hint: Optional[str] = None,
        stage: str = "outside",
        errno: int = 0,
        code: Optional[str] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or None
        self.stage = stage
        self.errno = errno
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> Any:
        return (_rebuild, (type(self), self.message, dict(self.__dict__)))


def _rebuild(kind: Type[CordonError], message: str, state: Dict[str, Any]) -> CordonError:
    made = kind.__new__(kind)
    Exception.__init__(made, message)
    made.__dict__.update(state)
    return made


class UsageError(CordonError, ValueError, code="usage"):
    """An argument makes no sense."""


class PolicyError(CordonError, ValueError, code="policy"):
    """A setting is unknown, malformed or contradictory, or a run asked for more than its sandbox
    allows."""


class PathError(CordonError, code="path"):
    """A path of the policy cannot be used."""


class CommandNotFoundError(CordonError, code="not_found"):
    """The program was not found. Runs report this as a result (returncode 127)."""


class NotExecutableError(CordonError, code="not_executable"):
    """The program cannot be executed. Runs report this as a result (returncode 126)."""


class UnsupportedError(CordonError, code="unsupported"):
    """This machine lacks a protection that the policy asks for. Nothing has run."""


class SetupError(CordonError, code="setup"):
    """A protection could not be put in place, so the command was not run (or was ended)."""


class SystemCallError(CordonError, code="system"):
    """A system call in this process failed: no descriptors, processes or memory left."""


class StateError(CordonError, code="state"):
    """The object's state does not allow the call."""


class ClosedError(StateError):
    """The sandbox is closed, or was removed by another process."""


class QueueFullError(StateError):
    """As many runs or sessions go on and wait as the Scheduler takes. Nothing has run."""


class RunError(CordonError, code="run"):
    """A command did not succeed and ``check=True`` or ``raise_for_status()`` asked to be told."""

    def __init__(self, message: str, result: "Result") -> None:
        super().__init__(message, hint=result.hint or "result.explain() says more")
        self.result = result


class TimeoutExpired(RunError, code="timeout"):
    """The same, for a run that was ended at its time limit."""


_BY_CODE: Dict[str, Type[CordonError]] = {
    kind.code: kind
    for kind in (
        UsageError, PolicyError, PathError, CommandNotFoundError, NotExecutableError,
        UnsupportedError, SetupError, SystemCallError, StateError,
    )  # fmt: skip
}


def make_error(
    code: str, message: str, hint: Optional[str] = None, stage: str = "outside", errno: int = 0
) -> CordonError:
    """The exception that stands for an error of the library."""
    kind = _BY_CODE.get(code)
    hint = in_python(hint)
    if code == "nomem":
        kind = SystemCallError
    if kind is None:
        return CordonError(message, hint=hint, stage=stage, errno=errno, code=code)
    return kind(message, hint=hint, stage=stage, errno=errno)


def from_native(error: Any) -> CordonError:
    """The same for an exception of the C extension (``pycordon._cordon.Error``)."""
    stage = getattr(error, "stage", None) or "outside"
    message = getattr(error, "message", None) or str(error)
    hint = getattr(error, "hint", None)
    return make_error(str(error.name), message, hint, stage, int(error.errno or 0))


def raise_native(error: Any) -> NoReturn:
    """Raises it, without the extension's own exception in the traceback."""
    raise from_native(error) from None
