# SPDX-License-Identifier: Apache-2.0
"""CrewAI: its own tools for E2B, over sandboxes of this machine. Imports crewai-tools."""

from __future__ import annotations

from typing import Any, Optional, Union

from crewai_tools.tools.e2b_sandbox_tool import E2BExecTool, E2BFileTool, E2BPythonTool
from pydantic import Field

from pycordon import Policy
from pycordon.e2b import CommandExitException, Commands, Sandbox


class _Commands(Commands):
    """A model should see the status of a command that fails, not an exception."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().run(*args, **kwargs)
        except CommandExitException as result:
            return result


class _Sandbox(Sandbox):
    @property
    def commands(self) -> Commands:
        return _Commands(self._box)


class _OnThisMachine:
    """What the three have in common. ``policy`` and ``settings``: see pycordon.e2b.Sandbox; a model cannot
    change them."""

    @classmethod
    def _import_sandbox_class(cls) -> Any:
        return _Sandbox

    def _create_kwargs(self) -> dict[str, Any]:
        made: dict[str, Any] = super()._create_kwargs()  # type: ignore[misc]
        made.pop("api_key", None)
        mine: Any = self
        return {**mine.settings, **made, **({} if mine.policy is None else {"policy": mine.policy})}


class CordonE2BExecTool(_OnThisMachine, E2BExecTool):
    """crewai-tools' E2BExecTool in a sandbox of this machine."""

    package_dependencies: list[str] = Field(default_factory=list)
    env_vars: list[Any] = Field(default_factory=list)
    policy: Optional[Union[Policy, str, dict[str, Any]]] = None
    settings: dict[str, Any] = Field(default_factory=dict)


class CordonE2BPythonTool(_OnThisMachine, E2BPythonTool):
    """crewai-tools' E2BPythonTool in a sandbox of this machine: with `persistent=True` variables are kept."""

    package_dependencies: list[str] = Field(default_factory=list)
    env_vars: list[Any] = Field(default_factory=list)
    policy: Optional[Union[Policy, str, dict[str, Any]]] = None
    settings: dict[str, Any] = Field(default_factory=dict)


class CordonE2BFileTool(_OnThisMachine, E2BFileTool):
    """crewai-tools' E2BFileTool in a sandbox of this machine."""

    package_dependencies: list[str] = Field(default_factory=list)
    env_vars: list[Any] = Field(default_factory=list)
    policy: Optional[Union[Policy, str, dict[str, Any]]] = None
    settings: dict[str, Any] = Field(default_factory=dict)
