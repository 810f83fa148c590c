# SPDX-License-Identifier: Apache-2.0
"""CrewAI: any existing tool, with its body in a sandbox (`pycordon.adapters.crewai.sandboxed`)."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any, Optional, Union

from crewai.tools import BaseTool
from crewai.tools.base_tool import Tool
from pydantic import ConfigDict, PrivateAttr, SecretStr

from pycordon import Policy, Sandbox

from . import _common

# Runs inside: makes the tool again from its class and its fields, runs it, and answers with JSON.
# Output of the tool goes to standard error, so that it cannot pass for the answer.
_CHILD = r"""
import asyncio, functools, importlib, importlib.util, json, os, sys
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
job = json.load(sys.stdin)
sys.path[:] = [entry for entry in job["sys_path"] if entry not in sys.path] + sys.path
if job["file"]:  # by its file: the directory above it may not be visible
    places = [os.path.dirname(job["file"])] if job["package"] else None
    spec = importlib.util.spec_from_file_location(job["top"], job["file"], submodule_search_locations=places)
    sys.modules[job["top"]] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[job["top"]])
try:
    found = functools.reduce(getattr, job["name"].split("."), importlib.import_module(job["module"]))
    if isinstance(found, type):
        call = found.model_validate(job["fields"])._run
    else:
        call = getattr(found, "func", found)
    value = call(**job["arguments"])
    if asyncio.iscoroutine(value):
        value = asyncio.run(value)
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    try:
        text = json.dumps({"value": value})
    except (TypeError, ValueError):
        text = json.dumps({"value": str(value)})
except Exception as error:
    text = json.dumps({"error": type(error).__name__ + ": " + str(error)})
answer.write(text)
answer.close()
"""


class SandboxedTool(BaseTool):
    """A tool whose body runs in a sandbox: made by `sandboxed()`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    _job: dict[str, Any] = PrivateAttr(default_factory=dict)
    _make: Any = PrivateAttr(default=None)

    def _run(self, **kwargs: Any) -> Any:
        job = json.dumps({**self._job, "arguments": kwargs})
        with self._make() as sandbox:
            result = sandbox.run([sys.executable, "-c", _CHILD], stdin=job, cwd=sandbox.workdir)
        if result.truncated.stdout:  # the part that was kept may still look like an answer
            raise RuntimeError(f"{self.name}: its answer is longer than max_output_bytes")
        try:
            answer = json.loads(result.stdout)
            if "value" in answer:
                return answer["value"]
            raise RuntimeError(f"{self.name}: {answer['error']}")
        except (ValueError, KeyError, TypeError):
            said = "\n".join(filter(None, (result.stderr[-4000:], _common.remark(result))))
            raise RuntimeError(f"{self.name} did not finish in its sandbox: {said}") from None


def sandboxed(
    tool: BaseTool, policy: Optional[Union[Policy, str, dict[str, Any]]] = None, **settings: Any
) -> BaseTool:
    """The same tool, with its body in a fresh sandbox for each call.

    `policy` and `settings` are those of `pycordon.Sandbox`: which files and hosts this one tool may use
    (fs_read, fs_write, net_allow, max_memory_mb, ...). The tool's class, or the function under
    `@tool`, is imported again inside by its name; its fields go there and its answer comes back as
    JSON. So it must be defined in a module, not in `__main__` or inside a function, and what it keeps
    in memory between calls is not kept. Its package is readable inside; what else it imports from
    outside the Python environment has to be named in `fs_read`.
    """
    job = _describe(tool)
    copied = ("name", "description", "args_schema", "result_schema", "result_as_answer", "env_vars")
    fields = {name: getattr(tool, name) for name in (*copied, "max_usage_count", "cache_function")}
    wrapper = SandboxedTool(**fields)
    wrapper._job = job
    places = (
        [os.path.dirname(job["file"]) if job["package"] else job["file"]] if job["file"] else []
    )
    more = dict(settings, fs_read=[*settings.get("fs_read", ()), *places])
    more.setdefault("workdir", True)
    wrapper._make = lambda: Sandbox(policy, **more)
    wrapper._make()  # a wrong setting is an error here, not at the first call
    return wrapper


def _describe(tool: BaseTool) -> dict[str, Any]:
    origin: Any = tool.func if isinstance(tool, Tool) else type(tool)
    module, name = origin.__module__, origin.__qualname__
    where = f"{module}.{name}"
    if module == "__main__" or "<" in name:
        raise ValueError(
            f"{where} cannot run in a sandbox: it is imported there by its name, so it has to be "
            "defined in a module of its own, not in __main__ or inside a function"
        )
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not origin and getattr(found, "func", None) is not origin:
        raise ValueError(f"{where} cannot run in a sandbox: that name now is something else")
    top = importlib.import_module(module.partition(".")[0])
    file = os.path.abspath(top.__file__) if top.__file__ else ""
    installed = file.startswith((sys.prefix + os.sep, sys.base_prefix + os.sep))
    return {
        "module": module,
        "name": name,
        "top": top.__name__,
        "file": "" if installed else file,
        "package": hasattr(top, "__path__"),
        "sys_path": [os.path.abspath(entry) for entry in sys.path if entry],
        "fields": {} if isinstance(tool, Tool) else _fields(tool),
    }


def _fields(tool: BaseTool) -> dict[str, Any]:
    """What the instance was made with, as JSON; BaseTool's own fields but the first two stay here."""
    own = set(type(tool).model_fields) - (set(BaseTool.model_fields) - {"name", "description"})
    try:
        values: dict[str, Any] = tool.model_dump(mode="json", include=own)
    except Exception as error:
        raise ValueError(
            f"{tool.name} cannot run in a sandbox: a field is not JSON: {error}"
        ) from None
    for name in own:
        value = getattr(tool, name)
        if isinstance(value, SecretStr):
            values[name] = value.get_secret_value()
    return values
