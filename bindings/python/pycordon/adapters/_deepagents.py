# SPDX-License-Identifier: Apache-2.0
"""The deepagents backend (part of `pycordon.adapters.langchain`)."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from deepagents.backends.protocol import (
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
)
from deepagents.backends.sandbox import BaseSandbox

from pycordon import ClosedError, CordonError, Result, Sandbox

from ._common import remark
from ._tools import Async, open_sandbox, limit_for


def _error(error: Optional[BaseException]) -> Any:
    """The error code of deepagents for one file."""
    if error is None:
        return None
    for kind, word in (
        (FileNotFoundError, "file_not_found"),
        (PermissionError, "permission_denied"),
        (IsADirectoryError, "is_directory"),
        (NotADirectoryError, "invalid_path"),
        (ValueError, "invalid_path"),
    ):
        if isinstance(error, kind):
            return word
    return str(error)


def _each(operation: Callable[[List[Any]], Sequence[Any]], items: List[Any]) -> Sequence[Any]:
    """All at once. If that fails as a whole (one file too large for the sandbox's limits), one by
    one, so that every file has an answer of its own."""
    try:
        return operation(items)
    except ClosedError:
        raise
    except CordonError as error:
        if len(items) == 1:
            return [error]
        return [answer for item in items for answer in _each(operation, [item])]


class CordonSandbox(BaseSandbox):  # type: ignore[misc,unused-ignore]
    """A deepagents backend whose commands and files live in a Cordon sandbox.

    `CordonSandbox()` has an empty working directory of its own; /tmp, home and working directory
    live as long as the object. `CordonSandbox(workdir="project")` lets the agent change that
    directory of the host. All further settings are those of `pycordon.Sandbox`; a `pycordon.Sandbox`
    given as the first argument is shared and stays the caller's.
    """

    def __init__(
        self,
        sandbox: Any = None,
        *,
        timeout: float = 120,
        max_output: int = 1_000_000,
        **settings: Any,
    ) -> None:
        self.sandbox: Sandbox = open_sandbox(sandbox, **settings)
        self._owned = self.sandbox is not sandbox
        self._async = Async(self.sandbox)
        self._id: Optional[str] = None
        self._timeout = timeout
        self._max_output = max_output

    @property
    def id(self) -> str:
        """The sandbox's id, as `pycordon.Sandbox.attach` takes it; known also when it is gone."""
        if self._id is None:
            self._id = self.sandbox.id
        return self._id

    def _limits(self, timeout: Optional[float]) -> Dict[str, Any]:
        if timeout is None:
            timeout = self._timeout
        if timeout < 0:
            raise ValueError(f"timeout must not be negative, got {timeout}")
        # 0 means none to deepagents
        return {
            "timeout": limit_for(self.sandbox, "limits.wall", timeout or math.inf),
            "max_output": limit_for(self.sandbox, "limits.output", self._max_output),
        }

    def _response(self, result: Result) -> ExecuteResponse:
        output = result.output
        if remark(result):
            output = f"{output.rstrip()}\n{remark(result)}".lstrip("\n")
        return ExecuteResponse(
            output=output, exit_code=result.returncode, truncated=bool(result.truncated)
        )

    def execute(self, command: str, *, timeout: Optional[int] = None) -> ExecuteResponse:
        """Run a command line with /bin/sh; standard error is part of the output."""
        return self._response(self.sandbox.run(command, merge=True, **self._limits(timeout)))

    async def aexecute(self, command: str, *, timeout: Optional[int] = None) -> ExecuteResponse:
        """As `execute`; a cancelled call ends everything the command started."""
        result = await self._async().run(command, merge=True, **self._limits(timeout))
        return self._response(result)

    def upload_files(self, files: List[Tuple[str, bytes]]) -> List[FileUploadResponse]:
        """Write files through the sandbox's own view; one answer per file, nothing raised."""
        good = [item for item in files if item[0].startswith("/")]
        errors = iter(_each(self.sandbox.files.put_many, good))
        return [
            FileUploadResponse(
                path=path, error=_error(next(errors)) if path.startswith("/") else "invalid_path"
            )
            for path, _ in files
        ]

    def download_files(self, paths: Sequence[str]) -> List[FileDownloadResponse]:
        """Read files through the sandbox's own view; one answer per file, nothing raised."""
        good = [path for path in paths if path.startswith("/")]
        found = iter(_each(self.sandbox.files.get_many, good))
        answers = []
        for path in paths:
            data = next(found) if path.startswith("/") else ValueError(path)
            content = data if isinstance(data, bytes) else None
            error = None if isinstance(data, bytes) else _error(data)
            answers.append(FileDownloadResponse(path=path, content=content, error=error))
        return answers

    def close(self) -> None:
        """Remove the sandbox with its /tmp, home and private working directory."""
        if self._owned:
            self._async.close()
            self.sandbox.close()

    def __enter__(self) -> "CordonSandbox":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
