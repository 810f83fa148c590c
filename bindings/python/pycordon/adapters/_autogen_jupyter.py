# SPDX-License-Identifier: Apache-2.0
"""AutoGen: code blocks that share their state, in an interpreter in a Cordon sandbox.

Behaves like AutoGen's JupyterCodeExecutor. No Jupyter takes part: tracebacks are Python's plain ones, and
IPython's own syntax (``!ls``, ``%time``) is not there.
"""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any, Mapping, Optional, Union

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock
from autogen_ext.code_executors.jupyter import JupyterCodeExecutor, JupyterCodeResult
from typing_extensions import Self

from pycordon import AsyncInterpreter, AsyncSandbox, Display, Execution, Policy
from pycordon._policy import make_policy, working_in

_FILES_MAX = 100  # of one block
_BYTES_MAX = 16 << 20  # of each stream, and of everything that one block shows
_PNG = b"\x89PNG\r\n\x1a\n"


class CordonJupyterExecutorConfig(JupyterCodeExecutor.component_config_schema):  # type: ignore[misc]
    """Configuration for CordonJupyterExecutor."""

    policy: dict[str, Any] = {}


class CordonJupyterExecutor(JupyterCodeExecutor):  # type: ignore[misc]
    """Executes code blocks one after the other in one interpreter, inside a sandbox.

    The first three arguments are those of JupyterCodeExecutor. ``kernel_name`` may also be "bash" or
    "javascript". ``policy``, ``env`` and further settings are those of `pycordon.Sandbox`. A timeout and a
    cancellation interrupt the code, and raise as upstream's do; the state is kept.

    Images and HTML go to files in ``output_dir``, on this machine. The code chose what is in them: an HTML
    file may hold scripts.
    """

    component_config_schema = CordonJupyterExecutorConfig
    component_provider_override = "pycordon.adapters.autogen.CordonJupyterExecutor"

    def __init__(
        self,
        kernel_name: str = "python3",
        timeout: int = 60,
        output_dir: Optional[Union[Path, str]] = None,
        *,
        policy: Optional[Union[Policy, str, dict[str, Any]]] = None,
        env: Optional[Mapping[str, str]] = None,
        **settings: Any,
    ) -> None:
        super().__init__(kernel_name, timeout, output_dir)
        self._started: bool = False
        self._policy = make_policy(policy, settings).merged(env_set=dict(env or {}))
        self._sandbox: Optional[AsyncSandbox] = None
        self._interpreter: Optional[AsyncInterpreter] = None

    async def start(self) -> None:
        """Starts the interpreter."""
        if self._started:
            return
        self._sandbox = AsyncSandbox(self._policy)
        self._interpreter = AsyncInterpreter(self._kernel_name, sandbox=self._sandbox, max_output=_BYTES_MAX)
        await self._interpreter.start()
        self._started = True

    async def stop(self) -> None:
        """Ends the interpreter with everything it has started. Its files are gone."""
        interpreter, self._interpreter = self._interpreter, None
        sandbox, self._sandbox = self._sandbox, None
        self._started = False
        if interpreter is not None:
            await interpreter.close()
        if sandbox is not None:
            await sandbox.close()

    async def restart(self) -> None:
        """Ends the interpreter, and starts a fresh one in a fresh sandbox."""
        await self.stop()
        await self.start()

    async def _execute_code_block(
        self, code_block: CodeBlock, cancellation_token: CancellationToken
    ) -> JupyterCodeResult:
        if self._interpreter is None:
            raise RuntimeError("Executor must be started before executing cells")
        task = asyncio.ensure_future(self._interpreter.execute(code_block.code, timeout=self._timeout))
        cancellation_token.link_future(task)
        done = await task
        if done.timed_out:
            raise asyncio.TimeoutError(f"the code was interrupted after {self._timeout} seconds")
        return self._result(done)

    def _result(self, done: Execution) -> JupyterCodeResult:
        outputs = [text for text in (done.stdout, done.stderr) if text]
        if done.restarted:
            outputs.insert(0, f"[{done.reason}: what was defined before is lost]")
        if done.truncated.stdout or done.truncated.stderr:
            outputs.append(f"[output cut: at most {_BYTES_MAX} bytes of each stream are shown]")
        files: list[Path] = []
        for display in (*done.displays, *((done.result,) if done.result else ())):
            self._show(display, outputs, files)
        if done.error is not None:
            outputs.append(done.error.traceback or str(done.error))
        return JupyterCodeResult(
            exit_code=0 if done.ok else done.status or 1, output="\n".join(outputs), output_files=files
        )

    def _show(self, display: Display, outputs: list[str], files: list[Path]) -> None:
        for mime, data in display.data.items():
            if mime == "image/jpeg":
                continue  # as upstream: what offers this offers PNG, too
            if mime not in ("image/png", "text/html"):
                outputs.append(data.decode("utf-8", "replace"))
            elif len(files) == _FILES_MAX:
                outputs.append(f"[{mime} left out: at most {_FILES_MAX} files]")
            elif mime == "text/html":
                files.append(self._save_html(data.decode("utf-8", "replace")))
            elif data.startswith(_PNG):
                path = self._output_dir / f"{uuid.uuid4().hex}.png"
                path.write_bytes(data)
                files.append(path.absolute())
            else:
                outputs.append("[an image left out: it is no PNG]")

    def _to_config(self) -> CordonJupyterExecutorConfig:
        known = super()._to_config().model_dump()
        return CordonJupyterExecutorConfig(**known, policy=working_in(self._policy, None).to_dict())

    @classmethod
    def _from_config(cls, config: CordonJupyterExecutorConfig) -> Self:
        return cls(**config.model_dump())
