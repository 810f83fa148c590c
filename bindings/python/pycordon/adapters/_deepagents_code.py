# SPDX-License-Identifier: Apache-2.0
"""The deepagents-code provider (part of `pycordon.adapters.langchain`)."""

from __future__ import annotations

from typing import Any, Optional

from deepagents_code.integrations.sandbox_provider import (
    SandboxNotFoundError,
    SandboxProvider,
    SandboxProviderMetadata,
)

from pycordon import CordonError, Sandbox

from ._deepagents import CordonSandbox


class CordonSandboxProvider(SandboxProvider):  # type: ignore[misc,unused-ignore]
    """`dcode --sandbox cordon`: sandboxes that live until they are deleted, found again by id.

    Settings given here or to `get_or_create` are those of `pycordon.Sandbox`; with `workdir=` the
    agent works in that directory of the host instead of an empty one.
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = settings

    @property
    def metadata(self) -> SandboxProviderMetadata:
        """What deepagents-code shows and asks about this provider."""
        workdir = Sandbox(**{"workdir": True, **self._settings}).workdir
        return SandboxProviderMetadata(name="cordon", working_dir=workdir, backend_module="pycordon")

    def get_or_create(self, *, sandbox_id: Optional[str] = None, **kwargs: Any) -> CordonSandbox:
        """The sandbox with that id, or a new one that outlives this process."""
        if sandbox_id is None:
            return CordonSandbox(
                Sandbox(**{"workdir": True, "keep": True, **self._settings, **kwargs})
            )
        return CordonSandbox(self._find(sandbox_id))

    def delete(self, *, sandbox_id: str, **kwargs: Any) -> None:
        """Remove the sandbox and everything in it."""
        self._find(sandbox_id).destroy()

    @staticmethod
    def _find(sandbox_id: str) -> Sandbox:
        try:
            return Sandbox.attach(sandbox_id)
        except CordonError as error:
            raise SandboxNotFoundError(f"no sandbox {sandbox_id!r}: {error}") from error
