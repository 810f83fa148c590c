# SPDX-License-Identifier: Apache-2.0
"""CrewAI: tools that run code, commands and files in a Cordon sandbox.

    from pycordon.adapters.crewai import CordonCodeInterpreterTool, sandboxed

    Agent(..., tools=[CordonCodeInterpreterTool(), sandboxed(my_tool, fs_read=["data"])])

`CordonCodeInterpreterTool` takes the place of the CodeInterpreterTool that crewai-tools no longer has;
the exec, python and file tools have the shape of its tools for hosted sandboxes. `CordonSchedulerTool` takes
code and packages. The `CordonE2B...` tools are those of crewai-tools themselves, which they need.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Optional, Type, Union

from pydantic import BaseModel, Field

from pycordon import Result, Sandbox

from . import _common
from ._crewai_base import CordonBaseTool
from ._crewai_files import CordonFileTool
from ._crewai_scheduler import CordonSchedulerTool
from ._crewai_wrap import SandboxedTool, sandboxed

if TYPE_CHECKING:
    from ._crewai_e2b import CordonE2BExecTool, CordonE2BFileTool, CordonE2BPythonTool

__all__ = [
    "CordonBaseTool",
    "CordonCodeInterpreterTool",
    "CordonE2BExecTool",
    "CordonE2BFileTool",
    "CordonE2BPythonTool",
    "CordonExecTool",
    "CordonFileTool",
    "CordonPythonTool",
    "CordonSchedulerTool",
    "SandboxedTool",
    "sandboxed",
]


def __getattr__(name: str) -> Any:
    # These import crewai-tools, which is large and need not be there.
    if name not in ("CordonE2BExecTool", "CordonE2BFileTool", "CordonE2BPythonTool"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _crewai_e2b

    return getattr(_crewai_e2b, name)


class CodeInterpreterSchema(BaseModel):
    """Arguments of CordonCodeInterpreterTool."""

    code: str = Field(
        ...,
        description="Python3 code used to be interpreted in the sandbox. "
        "ALWAYS PRINT the final result and the output of the code",
    )
    libraries_used: list[str] = Field(
        ...,
        description="List of libraries used in the code with proper installing names separated by "
        "commas. Example: numpy,pandas,beautifulsoup4",
    )


class CordonCodeInterpreterTool(CordonBaseTool):
    """Runs Python code and returns what it prints.

    A drop-in for the CodeInterpreterTool of crewai-tools before 1.14: same name, arguments and texts.
    The options that chose a container or the host are accepted and do nothing: code always runs in the
    sandbox. Libraries that are installed here can be imported; others are installed inside the sandbox
    if `net_allow` names a package index, and never on this machine.
    """

    name: str = "Code Interpreter"
    description: str = "Interprets Python3 code strings with a final print statement."
    args_schema: Type[BaseModel] = CodeInterpreterSchema
    workdir: Optional[Union[str, bool]] = None
    code: Optional[str] = None
    default_image_tag: str = "code-interpreter:latest"
    user_dockerfile_path: Optional[str] = None
    user_docker_base_url: Optional[str] = None
    unsafe_mode: bool = False

    def _run(self, **kwargs: Any) -> str:
        code = kwargs.get("code") or self.code
        if not code:
            return "No code provided to execute."
        return self.run_code_safety(code, kwargs.get("libraries_used") or [])

    def run_code_safety(self, code: str, libraries_used: list[str]) -> str:
        """Runs the code in the sandbox; a failure is part of the text, not an exception."""
        with self._open() as sandbox:
            try:
                packages = _prepare(sandbox, libraries_used)
            except _common.PackageError as error:
                return f"Something went wrong while running the code: \n{error}"
            result = sandbox.run_code(code, env=_common.with_path(None, packages), merge=True)
        text = "\n".join(filter(None, (result.output, _common.remark(result))))
        return text if result.ok else f"Something went wrong while running the code: \n{text}"


def _prepare(sandbox: Sandbox, libraries: list[str]) -> str:
    wanted = _common.check_requirements(name for item in libraries for name in item.split(","))
    if not wanted:
        return ""
    install = _common.allows_network(sandbox.policy)
    return _common.prepared_path(sandbox.run(_common.prepare_command(wanted, install)), install)


class ExecSchema(BaseModel):
    """Arguments of CordonExecTool."""

    command: str = Field(..., description="Shell command to execute in the sandbox.")
    cwd: Optional[str] = Field(None, description="Directory to run the command in.")
    envs: Optional[dict[str, str]] = Field(None, description="Variables to set for this command.")
    timeout: Optional[float] = Field(None, description="Seconds to wait for the command at most.")


class CordonExecTool(CordonBaseTool):
    """Runs a shell command; returns exit_code, stdout, stderr and error."""

    name: str = "Cordon Sandbox Exec"
    description: str = (
        "Execute a shell command inside a sandbox and return the exit code, stdout, and stderr. "
        "Use this to run builds, git operations, or any one-off shell command."
    )
    args_schema: Type[BaseModel] = ExecSchema

    def _run(
        self,
        command: str,
        cwd: Optional[str] = None,
        envs: Optional[dict[str, str]] = None,
        timeout: Optional[float] = None,
    ) -> dict[str, Any]:
        with self._open() as sandbox:
            try:
                result = sandbox.run(
                    command, cwd=cwd, env=envs, timeout=self._time(sandbox, timeout)
                )
            except FileNotFoundError as error:
                return {"exit_code": 1, "stdout": "", "stderr": "", "error": str(error)}
        return {
            "exit_code": result.returncode,
            "stdout": result.stdout,
            "stderr": result.stderr,
            "error": _common.remark(result) or None,
        }


class PythonSchema(BaseModel):
    """Arguments of CordonPythonTool."""

    code: str = Field(..., description="Source to execute inside the sandbox.")
    language: Optional[str] = Field(None, description="Language of the code; Python if omitted.")
    envs: Optional[dict[str, str]] = Field(None, description="Variables to set for this run.")
    timeout: Optional[float] = Field(None, description="Seconds to wait for the code at most.")


class CordonPythonTool(CordonBaseTool):
    """Runs code; returns text, stdout, stderr and error, as the tools for hosted sandboxes do.

    Each call is a process of its own: with `persistent=True` files are kept, variables are not.
    """

    name: str = "Cordon Sandbox Python"
    description: str = (
        "Execute a block of Python code inside a sandbox and return captured stdout, stderr and any "
        "error. Print the results you need. Use this for data processing, quick scripts, or analysis."
    )
    args_schema: Type[BaseModel] = PythonSchema

    def _run(
        self,
        code: str,
        language: Optional[str] = None,
        envs: Optional[dict[str, str]] = None,
        timeout: Optional[float] = None,
    ) -> dict[str, Any]:
        with self._open() as sandbox:
            limit = self._time(sandbox, timeout)
            result = sandbox.run_code(code, language or "python", env=envs, timeout=limit)
        return {
            "text": _common.remark(result) or None,
            "stdout": result.stdout.splitlines(keepends=True),
            "stderr": result.stderr.splitlines(keepends=True),
            "error": None if result.ok else _error(result),
            "results": [],
            "execution_count": None,
        }


def _error(result: Result) -> dict[str, str]:
    remark = _common.remark(result, cut=False)
    last = result.stderr.rstrip().rpartition("\n")[2]
    found = re.fullmatch(r"([A-Za-z_][\w.]*)(?:: (.*))?", last)
    if remark or not found:
        name, value = str(result.kind), remark or f"exit code {result.returncode}"
    else:
        name, value = found[1], found[2] or ""
    return {"name": name, "value": value, "traceback": result.stderr}
