# SPDX-License-Identifier: Apache-2.0
"""LangChain and deepagents: tools, a shell policy and a sandbox backend.

* `code_tool()` and `shell_tool()` make tools for any LangChain agent; each call is one run.
* `CordonExecutionPolicy` confines the persistent shell of `ShellToolMiddleware`.
* `CordonSandbox` is a deepagents backend: `create_deep_agent(backend=CordonSandbox())`.
* `CordonSandboxProvider` offers the same to deepagents-code, under the name `cordon`.

The last two need deepagents and deepagents-code; they are imported when they are asked for.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence

from langchain.agents.middleware.shell_tool import BaseExecutionPolicy
from langchain_core.tools import StructuredTool

from .._errors import CommandNotFoundError
from ._tools import Async, answer, open_endless, open_sandbox, passed

if TYPE_CHECKING:
    from ._deepagents import CordonSandbox as CordonSandbox
    from ._deepagents_code import CordonSandboxProvider as CordonSandboxProvider

__all__ = [
    "CordonExecutionPolicy",
    "CordonSandbox",
    "CordonSandboxProvider",
    "code_tool",
    "shell_tool",
]

_LAZY = {"CordonSandbox": "_deepagents", "CordonSandboxProvider": "_deepagents_code"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("." + _LAZY[name], __package__), name)


def _is_temporary(workspace: Path) -> bool:
    """The directory that the middleware makes, and removes, if it was given none."""
    return workspace.name.startswith("langchain-shell-") and workspace.parent == Path(
        tempfile.gettempdir()
    )


@dataclass
class CordonExecutionPolicy(BaseExecutionPolicy):
    """Starts the shell of `ShellToolMiddleware` in a sandbox.

    The workspace is the only writable directory, at its own path; there is no network and nothing
    of the caller's environment beyond what `ShellToolMiddleware(env=...)` names. `config` and
    `settings` are those of `pycordon.Sandbox`: `CordonExecutionPolicy(settings={"max_procs": 64})`.
    /tmp and the home directory are as old as the shell: a restart begins with empty ones.
    """

    config: Any = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def spawn(
        self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]
    ) -> "subprocess.Popen[str]":
        """Launch the shell. Its group is the launcher's, and the sandbox dies with the launcher."""
        settings: Dict[str, Any] = {"workdir": Path(workspace).resolve(), **self.settings}
        if self.config is None and _is_temporary(Path(workspace)):
            # Nothing on the host obeys what lies there: nothing has to be kept out of it.
            settings.setdefault("fs_protect", False)
        sandbox = open_endless(self.config, persist=False, **settings)
        argv = sandbox.wrap(list(command))
        launcher, argv[2:2] = passed(env)
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=workspace,
            env=launcher,
            text=True,
            encoding="utf-8",
            errors="replace",
            bufsize=1,
            start_new_session=True,
        )


def code_tool(
    sandbox: Any = None,
    *,
    name: str = "execute_code",
    description: Optional[str] = None,
    **settings: Any,
) -> StructuredTool:
    """A tool that runs code: `create_agent(model, tools=[code_tool(max_memory_mb=512)])`.

    `sandbox` is a `pycordon.Sandbox` to share (it stays the caller's), or its config; without one the
    tool has its own, whose working directory, /tmp and home live from call to call.
    """
    box = open_sandbox(sandbox, **settings)
    opened = Async(box)

    def execute_code(code: str, language: str = "python") -> str:
        """Run code in a sandbox and return what it prints, or why it failed.

        Args:
            code: The program, complete.
            language: python, javascript, bash, or another interpreter's name.
        """
        try:
            return answer(box.run_code(code, language))
        except CommandNotFoundError as error:  # no compiler: the model may take another language
            return str(error)

    async def execute_code_async(code: str, language: str = "python") -> str:
        try:
            return answer(await opened().run_code(code, language))
        except CommandNotFoundError as error:
            return str(error)

    return StructuredTool.from_function(
        execute_code,
        execute_code_async,
        name=name,
        description=description,
        parse_docstring=description is None,
    )


def shell_tool(
    sandbox: Any = None,
    *,
    name: str = "execute_command",
    description: Optional[str] = None,
    **settings: Any,
) -> StructuredTool:
    """A tool that runs shell commands; the arguments are those of `code_tool`."""
    box = open_sandbox(sandbox, **settings)
    opened = Async(box)

    def execute_command(command: str) -> str:
        """Run a shell command in a sandbox and return its output, or why it failed.

        Args:
            command: The command line, for /bin/sh.
        """
        return answer(box.run(command))

    async def execute_command_async(command: str) -> str:
        return answer(await opened().run(command))

    return StructuredTool.from_function(
        execute_command,
        execute_command_async,
        name=name,
        description=description,
        parse_docstring=description is None,
    )
