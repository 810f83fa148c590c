# SPDX-License-Identifier: Apache-2.0
"""Cells of a notebook that run in a sandbox, while the rest of it does not.

Variables stay from cell to cell. What the sandbox shows is shown as text and PNG images only. HTML and SVG
may hold scripts, which a notebook runs with the rights of its user: ``--html`` shows them all the same.
"""

from __future__ import annotations

import atexit
import base64
import codecs
import re
import sys
from typing import Any, Callable, Optional, TextIO

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import publish_display_data

from pycordon import CordonError, Display, Execution, Interpreter, Sandbox

_PNG = b"\x89PNG\r\n\x1a\n"
_TAIL_MAX = 32  # of a sequence for colours that is not complete
# What a terminal may be sent: colours, and the beginning of the line again, for progress. Anything else
# could write elsewhere on the screen, or more.
_CONTROL = re.compile(r"(\x1b\[[0-9;]{0,30}m)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;]*)?\Z")
_settings: dict[str, Any] = {}


def plain(text: str) -> str:
    """The text without anything that a terminal would obey, but for colours."""

    def shown(match: re.Match[str]) -> str:
        code = ord(match.group()[0])
        return match.group(1) or (f"^{chr(code ^ 64)}" if code < 128 else "\ufffd")

    return _CONTROL.sub(shown, text)


class _Writer:
    """Bytes of the sandbox as text for a stream of ours, as they come."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def write(self, data: bytes, is_end: bool = False) -> None:
        text = self._rest + self._decoder.decode(data, is_end)
        found = None if is_end else _UNFINISHED.search(text)
        cut = len(text) if found is None or len(found.group()) > _TAIL_MAX else found.start()
        text, self._rest = text[:cut], text[cut:]
        if text:
            self._stream.write(plain(text))
            self._stream.flush()


class CellError(Exception):
    """The code of a cell failed inside. Its traceback is the one from there."""

    def __init__(self, message: str, traceback: str) -> None:
        super().__init__(message)
        self._lines = plain(traceback or message).rstrip("\n").split("\n")

    def _render_traceback_(self) -> list[str]:
        return self._lines


def configure(policy: Any = None, **settings: Any) -> None:
    """Another sandbox for the cells from now on, with these settings of `pycordon.Sandbox`. The one before
    ends with the next cell."""
    Sandbox(policy, **settings).close()  # a mistake is told now
    _settings.clear()
    _settings.update(settings, policy=policy)


@magics_class
class CordonMagics(Magics):  # type: ignore[misc]
    """``%%cordon``, ``%cordon_put`` and ``%cordon_get``."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._sandbox: Optional[Sandbox] = None
        self._interpreters: dict[str, Interpreter] = {}
        self._used: dict[str, Any] = {}

    def close(self) -> None:
        """Ends the sandbox; the next cell has a fresh one."""
        sandbox, self._sandbox = self._sandbox, None
        interpreters, self._interpreters = self._interpreters, {}
        for interpreter in interpreters.values():
            interpreter.close()
        if sandbox is not None:
            sandbox.close()

    def _interpreter(self, language: str) -> Interpreter:
        if self._sandbox is None or self._used != _settings:
            self.close()
            self._used = dict(_settings)
            settings = dict(_settings)
            self._sandbox = Sandbox(settings.pop("policy", None), **settings)
        if language not in self._interpreters:
            self._interpreters[language] = Interpreter(language, sandbox=self._sandbox)
        return self._interpreters[language]

    @magic_arguments()  # type: ignore[untyped-decorator]
    @argument("--language", "-l", default="python", help="python, bash or javascript; they share their files")
    @argument("--timeout", "-t", type=float, help="seconds; the code is interrupted then")
    @argument("--reset", action="store_true", help="a fresh sandbox, without variables and files")
    @argument("--out", "-o", help="a variable of the notebook for the pycordon.Execution")
    @argument("--html", action="store_true", help="show HTML and SVG, too: scripts in them run in YOUR notebook")
    @line_cell_magic  # type: ignore[untyped-decorator]
    def cordon(self, line: str, cell: Optional[str] = None) -> None:
        """Runs a cell in a sandbox. Variables and files stay from cell to cell."""
        given = parse_argstring(self.cordon, line)
        if given.reset:
            self.close()
        if cell is None:
            return
        out, err = _Writer(sys.stdout), _Writer(sys.stderr)
        done = self._ask(
            lambda: self._interpreter(given.language).execute(
                cell, timeout=given.timeout, on_stdout=out.write, on_stderr=err.write
            )
        )
        out.write(b"", True)
        err.write(b"", True)
        if given.out:
            self.shell.push({given.out: done})
        _show(done, given.html)

    @line_magic  # type: ignore[untyped-decorator]
    def cordon_put(self, line: str) -> None:
        """``%cordon_put NAME...``: variables of the notebook become variables inside, as JSON or bytes."""
        names = self.shell.user_ns
        for name in line.split():
            if name not in names:
                raise UsageError(f"there is no variable {name}")
        self._ask(lambda: self._interpreter("python").set_vars({name: names[name] for name in line.split()}))

    @line_magic  # type: ignore[untyped-decorator]
    def cordon_get(self, line: str) -> None:
        """``%cordon_get NAME...``: variables from inside become variables of the notebook: values that JSON
        can say, and bytes. Nothing of it is executed, but it may be any value."""
        for name in line.split():
            self.shell.push({name: self._ask(lambda: self._interpreter("python").get_var(name))})  # noqa: B023

    @staticmethod
    def _ask(work: Callable[[], Any]) -> Any:
        try:
            return work()
        except KeyError as error:
            raise UsageError(f"the sandbox: {plain(str(error))}") from None
        except CordonError as error:
            raise UsageError(plain(str(error))) from None


def _show(done: Execution, is_html: bool) -> None:
    for display in (*done.displays, *((done.result,) if done.result else ())):
        publish_display_data(_bundle(display, is_html))
    if done.truncated.stdout or done.truncated.stderr:
        print("[the output was cut]", file=sys.stderr)
    if done.restarted:
        print(f"[{plain(done.reason)}: variables were lost]", file=sys.stderr)
    if done.error is not None:
        raise CellError(plain(str(done.error)), done.error.traceback)


def _bundle(display: Display, is_html: bool) -> dict[str, str]:
    """What a notebook may show."""
    found = {"text/plain": plain(display.text or "")}
    if display.png is not None and display.png.startswith(_PNG):
        found["image/png"] = base64.b64encode(display.png).decode()
    for mime in ("text/html", "image/svg+xml") if is_html else ():
        text = display.text_of(mime)
        if text is not None:
            found[mime] = text
    return found



_loaded: list[CordonMagics] = []


def load(shell: Any) -> None:
    """Registers the magics."""
    magics = CordonMagics(shell)
    shell.register_magics(magics)
    atexit.register(magics.close)
    _loaded.append(magics)


def unload() -> None:
    """Ends their sandboxes."""
    while _loaded:
        magics = _loaded.pop()
        atexit.unregister(magics.close)
        magics.close()
