# SPDX-License-Identifier: Apache-2.0
"""What came of code that an interpreter executed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Tuple

from ._result import Truncated


@dataclass(frozen=True)
class Display:
    """Something shown, in all the forms that it has: ``data`` has bytes by their MIME type."""

    data: Mapping[str, bytes]

    def text_of(self, mime: str) -> Optional[str]:
        """One form as text; None: it does not have it."""
        found = self.data.get(mime)
        return None if found is None else found.decode("utf-8", "replace")

    @property
    def text(self) -> Optional[str]:
        """The plain form, such as ``repr()`` gives it."""
        return self.text_of("text/plain")

    @property
    def html(self) -> Optional[str]:
        """The form for browsers. The code chose it: do not show it unless scripts are shut out."""
        return self.text_of("text/html")

    @property
    def svg(self) -> Optional[str]:
        """The same as a drawing; may hold scripts, too."""
        return self.text_of("image/svg+xml")

    @property
    def png(self) -> Optional[bytes]:
        """The same as an image."""
        return self.data.get("image/png")

    @property
    def json(self) -> Any:
        """The value itself, if it offers that; None otherwise. ValueError: it is no JSON."""
        found = self.text_of("application/json")
        return None if found is None else json.loads(found)

    def __repr__(self) -> str:
        return f"<Display {', '.join(self.data)}>"


@dataclass(frozen=True)
class CodeError:
    """What the code raised. ``bash``: a status other than 0, as ``ExitStatus``."""

    name: str
    value: str
    traceback: str

    def __str__(self) -> str:
        return f"{self.name}: {self.value}" if self.value else self.name


@dataclass(frozen=True)
class Execution:
    """The account of one execute()."""

    count: int  # of the interpreter's executions, from 1 on
    stdout_bytes: bytes
    stderr_bytes: bytes
    result: Optional[Display]  # the value of the last expression
    displays: Tuple[Display, ...]  # what display(), figures and the like have shown
    error: Optional[CodeError]
    duration: float  # seconds
    status: Optional[int] = None  # bash: of the last command
    timed_out: bool = False
    interrupted: bool = False  # the code was, and its state is kept
    ended: bool = False  # the interpreter ended with this code; the next one starts afresh
    restarted: bool = False  # it is a fresh one, because the one before had ended
    reason: str = ""  # why it ended
    truncated: Truncated = field(default_factory=lambda: Truncated(False, False))

    @property
    def ok(self) -> bool:
        """Whether the code came to its end without an error."""
        return self.error is None and not self.ended

    @property
    def stdout(self) -> str:
        """Standard output as text."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """Standard error as text."""
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def text(self) -> Optional[str]:
        """The plain form of the result."""
        return None if self.result is None else self.result.text
