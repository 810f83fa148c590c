# SPDX-License-Identifier: Apache-2.0
"""Pydantic AI: workspaces whose commands and files stay inside a sandbox.

    agent = Agent(model, capabilities=[CordonWorkspace(max_memory_mb=512)])

Tools reach it as `ctx.workspace`. Written for pydantic-ai 2.62.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike
from typing import Any, Optional, Union

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import WorkspaceRef
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.workspaces import ReadOnlyWorkspace, Workspace, WorkspaceBackend

from ._pydantic_backend import PROVIDER, CordonWorkspaceBackend

__all__ = ["CordonWorkspace", "CordonWorkspaceBackend"]


class CordonWorkspace(AbstractCapability[AgentDepsT]):
    """Gives every run of an agent a sandboxed workspace; arguments as of the backend.

    A run that continues a conversation continues in its sandbox. `read_only` refuses commands and
    changes by the workspace's interface; the policy decides what the sandbox itself may do.
    """

    def __init__(
        self,
        working_dir: Union[str, PathLike[str], None] = None,
        *,
        read_only: bool = False,
        id: Optional[str] = "cordon_workspace",
        **settings: Any,
    ) -> None:
        if working_dir is not None:  # a later change of this process's directory does not matter
            working_dir = os.path.abspath(os.path.expanduser(working_dir))
        self.id = id
        self.read_only = read_only
        self._build = lambda ref: CordonWorkspaceBackend(working_dir, ref=ref, **settings)
        self._build(None)  # a wrong argument shows here, not in the first run

    @classmethod
    def combine(
        cls, capabilities: Sequence[AbstractCapability[AgentDepsT]]
    ) -> AbstractCapability[AgentDepsT]:
        """The later one replaces the earlier one whole: rights are never merged."""
        return capabilities[-1]

    def get_workspace(
        self, ctx: RunContext[AgentDepsT], *, ref: Optional[WorkspaceRef]
    ) -> Optional[WorkspaceBackend]:
        """The workspace of a run: a new sandbox, or the one that `ref` names."""
        if ref is not None and ref.provider != PROVIDER:
            return None
        backend = self._build(ref)
        return ReadOnlyWorkspace(Workspace(backend)) if self.read_only else backend
