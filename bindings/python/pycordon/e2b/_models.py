# SPDX-License-Identifier: Apache-2.0
"""The data that E2B's interface gives back."""

from __future__ import annotations

import base64
import json as _json
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Callable, Dict, List, Optional

from .._execution import Display
from .._execution import Execution as _Execution
from ._errors import SandboxException

_FORMATS = {
    "text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg",
    "image/png": "png", "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex",
    "application/json": "json", "application/javascript": "javascript",
}  # fmt: skip
_BINARY = ("png", "jpeg", "pdf")


class FileType(Enum):
    """What a name in a directory is."""

    FILE = "file"
    DIR = "dir"
    SYMLINK = "symlink"


class SandboxState(str, Enum):
    """Whether a sandbox is there."""

    PAUSED = "paused"
    RUNNING = "running"


@dataclass
class WriteInfo:
    """A file that was written. ``type`` is None for what is neither file, directory nor link."""

    name: str
    type: Optional[FileType]
    path: str


@dataclass
class EntryInfo(WriteInfo):
    """A file or directory."""

    size: int
    mode: int
    permissions: str
    owner: str
    group: str
    modified_time: datetime
    symlink_target: Optional[str] = None


@dataclass
class ProcessInfo:
    """A command that runs."""

    pid: int
    tag: Optional[str]
    cmd: str
    args: List[str]
    envs: Dict[str, str]
    cwd: Optional[str]


@dataclass
class CommandResult:
    """How a command ended."""

    stderr: Optional[str]
    stdout: Optional[str]
    exit_code: int
    error: Optional[str]


class CommandExitException(SandboxException, CommandResult):
    """A command ended with a status other than 0."""

    def __init__(self, stderr: Optional[str], stdout: Optional[str], exit_code: int, error: Optional[str]) -> None:
        SandboxException.__init__(self)
        CommandResult.__init__(self, stderr, stdout, exit_code, error)

    def __str__(self) -> str:
        told = "" if self.stderr is None else f" and error:\n{self.stderr}"
        return f"Command exited with code {self.exit_code}{told}"


@dataclass
class SandboxInfo:
    """A sandbox, from outside."""

    sandbox_id: str
    sandbox_domain: Optional[str]
    template_id: str
    name: Optional[str]
    metadata: Dict[str, str]
    started_at: datetime
    end_at: datetime
    state: SandboxState
    cpu_count: int
    memory_mb: int
    envd_version: str
    allow_internet_access: Optional[bool] = None


# --- code ---------------------------------------------------------------------------------------------


@dataclass
class OutputMessage:
    """Something that code wrote; ``timestamp`` in nanoseconds."""

    line: str
    timestamp: int
    error: bool = False

    def __str__(self) -> str:
        return self.line


@dataclass
class ExecutionError:
    """What the code raised."""

    name: str
    value: str
    traceback: str

    def to_json(self) -> str:
        """The same as JSON."""
        return _json.dumps(vars(self))


@dataclass(repr=False)
class Result:
    """Something that code has shown, in the forms that it has. Binary ones are in base64. **Chosen by the
    code**: HTML, SVG and JavaScript may hold scripts."""

    text: Optional[str] = None
    html: Optional[str] = None
    markdown: Optional[str] = None
    svg: Optional[str] = None
    png: Optional[str] = None
    jpeg: Optional[str] = None
    pdf: Optional[str] = None
    latex: Optional[str] = None
    json: Optional[Any] = None
    javascript: Optional[str] = None
    data: Optional[Dict[str, Any]] = None
    chart: Optional[Any] = None
    is_main_result: bool = False
    extra: Optional[Dict[str, str]] = None

    def __getitem__(self, item: str) -> Any:
        return getattr(self, item)

    def formats(self) -> List[str]:
        """The forms that it has."""
        names = [*_FORMATS.values(), "data", "chart"]
        return [name for name in names if getattr(self, name)] + list(self.extra or ())

    def __repr__(self) -> str:
        return f"Result({self.text})" if self.text else f"Result(Formats: {', '.join(self.formats())})"

    __str__ = __repr__


@dataclass(repr=False)
class Logs:
    """What code wrote."""

    stdout: List[str] = field(default_factory=list)
    stderr: List[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Logs(stdout: {self.stdout}, stderr: {self.stderr})"

    def to_json(self) -> str:
        """The same as JSON."""
        return _json.dumps({"stdout": self.stdout, "stderr": self.stderr})


@dataclass(repr=False)
class Execution:
    """The account of run_code()."""

    results: List[Result] = field(default_factory=list)
    logs: Logs = field(default_factory=Logs)
    error: Optional[ExecutionError] = None
    execution_count: Optional[int] = None

    def __repr__(self) -> str:
        return f"Execution(Results: {self.results}, Logs: {self.logs}, Error: {self.error})"

    @property
    def text(self) -> Optional[str]:
        """The plain form of the last expression's value."""
        return next((result.text for result in self.results if result.is_main_result), None)

    def to_json(self) -> str:
        """The same as JSON."""
        results = [{**{k: result[k] for k in result.formats() if k in _KNOWN}, "text": result.text} for result in self.results]
        error = self.error.to_json() if self.error else None
        return _json.dumps({"results": results, "logs": self.logs.to_json(), "error": error})


_KNOWN = (*_FORMATS.values(), "data", "chart")


@dataclass
class Context:
    """An interpreter with state of its own."""

    id: str
    language: str
    cwd: str


def result_from(display: Display, is_main: bool) -> Result:
    """A Display as E2B shows it."""
    made = Result(is_main_result=is_main)
    for mime, data in display.data.items():
        name = _FORMATS.get(mime)
        if name in _BINARY:
            setattr(made, name, base64.b64encode(data).decode())
        elif name == "json":
            try:
                made.json = display.json
            except (ValueError, RecursionError):
                made.json = None  # the code's word is no JSON
        elif name is not None:
            setattr(made, name, data.decode("utf-8", "replace"))
        else:
            made.extra = {**(made.extra or {}), mime: data.decode("utf-8", "replace")}
    return made


def execution_from(done: _Execution, count: int) -> Execution:
    """An Execution of an interpreter as E2B tells it."""
    results = [result_from(display, False) for display in done.displays]
    if done.result is not None:
        results.append(result_from(done.result, True))
    error = done.error
    return Execution(
        results,
        Logs([done.stdout] if done.stdout else [], [done.stderr] if done.stderr else []),
        None if error is None else ExecutionError(error.name, error.value, error.traceback),
        count,
    )


OutputHandler = Callable[[Any], Any]
