# SPDX-License-Identifier: Apache-2.0
"""A policy as flags of the command, for Sandbox.wrap()."""

from __future__ import annotations

import os
from typing import Any, List, Mapping

from ._errors import UsageError

#: Key -> flag that takes one value and may be repeated.
_REPEATED = {
    "fs.read": "--read",
    "fs.write": "--write",
    "fs.deny": "--deny",
    "net.allow": "--net-allow",
    "net.deny": "--net-deny",
    "net.publish": "--publish",
    "env.pass": "--env",
    "devices": "--device",
}
#: Key -> flag that takes one value.
_SINGLE = {
    "fs.workspace": "--workspace",
    "cwd": "--cwd",
    "gpu": "--gpu",
    "net.max": "--net-max",
    "limits.wall": "--timeout",
    "limits.grace": "--grace",
    "limits.memory": "--memory",
    "limits.procs": "--procs",
    "limits.cpu": "--cpus",
    "limits.cpu_time": "--cpu-time",
    "limits.open_files": "--open-files",
    "limits.disk": "--disk",
    "limits.file_size": "--file-size",
    "limits.output": "--max-output",
    "isolation": "--isolation",
    "user": "--user",
}
#: Key -> flag that takes a list with commas.
_JOINED = {"commands": "--commands", "require": "--require", "best_effort": "--best-effort"}
_PATHS = ("fs.read", "fs.write", "fs.deny", "fs.workspace", "devices")
KEYS = (*_REPEATED, *_SINGLE, *_JOINED, "env.set", "fs.protect", "limits.output_end")


def _absolute(base_dir: str, path: str) -> str:
    # The command knows the home, and where patterns without a directory apply.
    is_anywhere = path.startswith("**/") or ("/" not in path and any(c in path for c in "*?[("))
    if path[:1] == "~" or is_anywhere:
        return path
    return os.path.normpath(os.path.join(base_dir, path))


def absolute_paths(key: str, value: Any, base_dir: str) -> Any:
    """The value of a setting; if it is made of paths, these do not depend on the current directory."""
    if key in _PATHS and isinstance(value, list):
        return [_absolute(base_dir, path) for path in value]
    if key in _PATHS and isinstance(value, str):
        return _absolute(base_dir, value)
    return value


def flags_of(doc: Mapping[str, Any], base_dir: str) -> List[str]:
    """The flags that say the same as ``doc`` (key with dots -> value, without presets). Relative
    paths are made absolute: the command may be started anywhere."""
    flags: List[str] = []
    for key, value in doc.items():
        value = absolute_paths(key, value, base_dir)
        if key in _REPEATED:
            for entry in value:
                flags += [_REPEATED[key], str(entry)]
        elif key in _SINGLE:
            flags += [_SINGLE[key], str(value)]
        elif key in _JOINED:
            if any("," in entry for entry in value):
                raise UsageError(f"{key}: the command line cannot say a name with a comma")
            flags += [_JOINED[key], ",".join(value)]
        elif key == "env.set":
            for name, text in value.items():
                flags += ["--env", f"{name}={text}"]
        elif key == "fs.protect":
            if value == "existing":
                flags += ["--protect", "existing"]
            else:
                flags += [] if value else ["--no-protect"]
        elif key == "limits.output_end" and value:
            flags.append("--end-on-output")
    return flags
