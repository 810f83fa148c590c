# SPDX-License-Identifier: Apache-2.0
"""CrewAI: the file tool of `pycordon.adapters.crewai`."""

from __future__ import annotations

import base64
import stat
from datetime import datetime, timezone
from typing import Any, Literal, Optional, Type

from pydantic import BaseModel, Field, model_validator

from pycordon import Sandbox

from ._crewai_base import CordonBaseTool


class FileSchema(BaseModel):
    """Arguments of CordonFileTool."""

    action: Literal["read", "write", "append", "list", "delete", "mkdir", "info", "exists"] = Field(
        ..., description="What to do with the path."
    )
    path: str = Field(..., description="Path inside the sandbox.")
    content: Optional[str] = Field(None, description="What to write or append.")
    binary: bool = Field(False, description="Content is, or is to be returned as, base64.")
    depth: int = Field(1, description="For list: how many levels deep.")

    @model_validator(mode="after")
    def _check(self) -> FileSchema:
        if self.action == "append" and self.content is None:
            raise ValueError("action='append' requires 'content'.")
        return self


class CordonFileTool(CordonBaseTool):
    """Reads, writes and manages files inside a sandbox.

    Most useful with `persistent=True`, `sandbox_id` or a `workdir`: without them the files are gone
    when the call returns. Problems are reported in `error`.
    """

    name: str = "Cordon Sandbox Files"
    description: str = (
        "Perform filesystem operations inside a sandbox: read a file, write content to a path, append "
        "content to a file, list a directory, delete a path, make a directory, fetch file metadata, or "
        "check whether a path exists."
    )
    args_schema: Type[BaseModel] = FileSchema

    def _run(
        self,
        action: str,
        path: str,
        content: Optional[str] = None,
        binary: bool = False,
        depth: int = 1,
    ) -> dict[str, Any]:
        try:
            with self._open() as sandbox:
                return self._act(sandbox, action, path, content or "", binary, depth)
        except (OSError, ValueError) as error:
            return {"path": path, "error": f"{type(error).__name__}: {error}"}

    def _act(
        self, sandbox: Sandbox, action: str, path: str, content: str, binary: bool, depth: int
    ) -> dict[str, Any]:
        files = sandbox.files
        if action == "read":
            return _content(path, files.read(path), binary)
        if action in ("write", "append"):
            data = base64.b64decode(content, validate=True) if binary else content.encode()
            files.write(path, data, append=action == "append")
            if action == "write":
                return {"status": "written", "path": path, "bytes": len(data)}
            total = files.stat(path).size
            return {
                "status": "appended",
                "path": path,
                "appended_bytes": len(data),
                "total_bytes": total,
            }
        if action == "list":
            return {
                "path": path,
                "entries": [_entry(info) for info in files.list(path, depth=depth)],
            }
        if action == "delete":
            files.remove(path, recursive=True)
            return {"status": "deleted", "path": path}
        if action == "mkdir":
            created = not files.exists(path)
            files.mkdir(path)
            return {"status": "created", "path": path, "created": created}
        if action == "info":
            return _entry(files.stat(path))
        return {"path": path, "exists": files.exists(path)}


def _content(path: str, data: bytes, binary: bool) -> dict[str, Any]:
    answer = {"path": path, "encoding": "utf-8"}
    try:
        if not binary:
            return {**answer, "content": data.decode()}
    except UnicodeDecodeError:
        answer["note"] = "File was not valid utf-8; returned as base64."
    return {**answer, "encoding": "base64", "content": base64.b64encode(data).decode()}


def _entry(info: Any) -> dict[str, Any]:
    return {
        "name": info.name,
        "path": info.path,
        "type": info.type,
        "size": info.size,
        "mode": stat.S_IMODE(info.mode),
        "modified_time": datetime.fromtimestamp(info.mtime, timezone.utc).isoformat(),
        "symlink_target": info.target,
    }
