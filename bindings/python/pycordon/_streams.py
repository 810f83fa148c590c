# SPDX-License-Identifier: Apache-2.0
"""What Process and AsyncProcess have in common: everything but waiting."""

from __future__ import annotations

import signal as _signal
from dataclasses import replace
from typing import Optional, Tuple, Union

from . import _arguments, _cordon
from ._engine import Started
from ._errors import CordonError, raise_native
from ._result import Published, Result, Truncated

CHUNK = 65536
_KEPT_HALF = 1 << 19  # bytes of each stream's beginning and end, in results of streamed runs


class Keep:
    """The beginning and the end of a stream, within a limit."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self.cut = False

    def add(self, data: bytes) -> None:
        """More of the stream."""
        room = _KEPT_HALF - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * _KEPT_HALF:
            self._trim()

    def _trim(self) -> None:
        if len(self._tail) > _KEPT_HALF:
            self.cut = True
            del self._tail[: -_KEPT_HALF]

    def value(self) -> bytes:
        """What was kept."""
        self._trim()
        return bytes(self._head + self._tail)


class Kept:
    """What was read of a run's streams, for its result."""

    def __init__(self) -> None:
        self._streams = {"stdout": Keep(), "stderr": Keep()}

    def add(self, name: str, data: bytes) -> None:
        """More of one stream."""
        self._streams[name].add(data)

    def in_result(self, result: Result) -> Result:
        """The same result with this output."""
        out, err = self._streams["stdout"], self._streams["stderr"]
        return replace(
            result,
            stdout_bytes=out.value() or result.stdout_bytes,
            stderr_bytes=err.value() or result.stderr_bytes,
            truncated=Truncated(
                out.cut or result.truncated.stdout, err.cut or result.truncated.stderr
            ),
        )


class ProcessFront:
    """A command that runs; see Process and AsyncProcess."""

    def __init__(self) -> None:
        self._started: Optional[Started] = None
        self._outcome: Union[None, Result, BaseException] = None
        self._kept = Kept()

    def __repr__(self) -> str:
        code = self.poll()
        state = "running" if code is None else f"returncode {code}"
        return f"<{type(self).__name__} {state}>"

    def poll(self) -> Optional[int]:
        """The return code, or None while it runs."""
        result = self.result
        return None if result is None else result.returncode

    @property
    def result(self) -> Optional[Result]:
        """The result, or None while it runs."""
        return self._outcome if isinstance(self._outcome, Result) else None

    def _order(self, name: str, *values: int) -> None:
        if self._started is None or self._outcome is not None:
            return
        try:
            getattr(self._started.run, name)(*values)
        except _cordon.Error as error:
            if error.name != "state":
                raise_native(error)

    def signal(self, number: int) -> None:
        """Sends a signal to the command's process group; nothing happens once it is over."""
        self._order("signal", _arguments.whole("number", number, 1, 64))

    def terminate(self) -> None:
        """Asks the command to end (SIGTERM), and ends everything after the grace. wait() takes
        the output that is left."""
        self._order("end", int(_signal.SIGTERM))

    def kill(self) -> None:
        """Ends the command and everything it started, at once. wait() takes the output that is
        left."""
        self._order("cancel")

    def resize(self, rows: int, cols: int) -> None:
        """Changes the size of its terminal."""
        self._order(
            "resize",
            _arguments.whole("rows", rows, 1, 65535),
            _arguments.whole("cols", cols, 1, 65535),
        )

    @property
    def published(self) -> Tuple[Published, ...]:
        """Ports that the host can connect to."""
        if self.result is not None:
            return self.result.published
        if self._started is None:
            return ()
        return tuple(Published(*entry) for entry in self._started.run.published())

    def _conclude(self, started: Started, failed: Optional[_cordon.Error]) -> None:
        """The run is over, or watching it has failed: this is its outcome."""
        outcome: Union[Result, BaseException]
        try:
            try:
                if failed is not None:
                    started.abandon()
                    raise_native(failed)
                outcome = started.settle()
            finally:
                started.job.close()
        except (CordonError, OSError) as error:
            outcome = error
        self._finish(outcome)

    def _finish(self, outcome: Union[Result, BaseException]) -> None:
        """The outcome is known; tells those who wait."""
        self._outcome = outcome
