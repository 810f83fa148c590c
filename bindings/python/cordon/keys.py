# SPDX-License-Identifier: Apache-2.0
"""The names of settings, and how Python values become values of the policy.

The keys themselves come from the policy's own schema, so a key that the library learns can be
given here without a change.
"""

from __future__ import annotations

import json
import math
import os
from datetime import timedelta
from functools import lru_cache
from typing import Any, Dict, List, Optional, Tuple

from . import _cordon
from .errors import PolicyError

#: Limits that the library has a default for and that ``math.inf`` switches off.
UNLIMITED = ("limits.wall", "limits.memory")

#: Short and well-known names of keys.
ALIASES = {
    "workspace": "fs.workspace",
    "protect": "fs.protect",
    "publish": "net.publish",
    "wall": "limits.wall",
    "timeout": "limits.wall",
    "grace": "limits.grace",
    "memory": "limits.memory",
    "procs": "limits.procs",
    "cpus": "limits.cpu",
    "cpu": "limits.cpu",
    "cpu_time": "limits.cpu_time",
    "open_files": "limits.open_files",
    "disk": "limits.disk",
    "file_size": "limits.file_size",
    "output": "limits.output",
    "output_end": "limits.output_end",
    "limits_cpus": "limits.cpu",
    "max_memory_mb": "limits.memory",
    "max_procs": "limits.procs",
    "max_execution_seconds": "limits.wall",
    "max_cpu_percent": "limits.cpu",
    "max_output_bytes": "limits.output",
    "writable_paths": "fs.write",
    "readable_paths": "fs.read",
    "allowed_commands": "commands",
}

GROUPS = ("fs", "net", "env", "limits")


@lru_cache(maxsize=None)
def schema_keys() -> Dict[str, Dict[str, Any]]:
    """Key with dots -> its part of the schema."""
    found: Dict[str, Dict[str, Any]] = {}
    for name, part in json.loads(_cordon.policy_schema())["properties"].items():
        if name in GROUPS:
            for key, value in part["properties"].items():
                found[f"{name}.{key}"] = value
        elif name not in ("$schema", "version"):
            found[name] = part
    return found


@lru_cache(maxsize=None)
def names() -> Dict[str, str]:
    """Every name a setting can have in Python -> key."""
    known = {key.replace(".", "_"): key for key in schema_keys()}
    known.update(ALIASES)
    return known


#: What else Sandbox() and run() take: misspelt, or in the wrong call, it arrives among the settings.
ARGUMENTS = {
    **dict.fromkeys(
        ("workdir", "persist", "keep", "id", "name", "allow_overrides"),
        "it is an argument of Sandbox()",
    ),
    **dict.fromkeys(
        ("shell", "stdin", "cwd", "max_output", "merge", "orphans", "check", "on_stdout",
         "on_stderr", "tty", "filename", "args", "files", "language"),
        "it is an argument of run() or run_code()",
    ),
    "policy": "it is the first argument of Sandbox(); run() has one of that name",
}  # fmt: skip


def type_of(key: str) -> str:
    """ "list", "map", "bool", "duration", "size", "count", "share" or "text"."""
    part = schema_keys()[key]
    kind = part.get("type")
    if key == "preset" or kind == "array":
        return "list"
    if kind == "object":
        return "map"
    if kind == "boolean":
        return "bool"
    if kind == "integer":
        return "count"
    if kind == "number":
        return "share"
    if isinstance(kind, list):
        return "duration" if "(ms|s|m|h)" in part.get("pattern", "") else "size"
    return "text"


def find_key(name: str) -> str:
    """The key that a setting's name means. A misspelt one is answered with the nearest."""
    known = names()
    if name in known:
        return known[name]
    if name in schema_keys():
        return name
    import difflib

    if name in ARGUMENTS:
        raise PolicyError(f"'{name}' is no setting", hint=ARGUMENTS[name])
    if name.startswith("env."):
        raise PolicyError(f"unknown setting '{name}'", hint="variables are given with env_set={...}")
    candidates = [*known, "network_enabled", *GROUPS, *ARGUMENTS]
    near = difflib.get_close_matches(name, candidates, 1, 0.6)
    hint = f"did you mean '{near[0]}'?" if near else "docs/policy.md lists the settings"
    raise PolicyError(f"unknown setting '{name}'", hint=hint)


def _text(name: str, value: Any) -> str:
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        if isinstance(text, str):
            return text
    raise PolicyError(f"{name}: a string or path is needed, not {type(value).__name__}")


def _list(name: str, value: Any) -> List[str]:
    if isinstance(value, (str, os.PathLike)):
        return [_text(name, value)]
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and name in ("net_publish", "publish")
    ):
        return [str(value)]
    try:
        entries = list(value)
    except TypeError:
        raise PolicyError(f"{name}: a list is needed, not {type(value).__name__}") from None
    if name in ("net_publish", "publish"):
        entries = [str(e) if isinstance(e, int) else e for e in entries]
    return [_text(name, e) for e in entries]


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise PolicyError(f"{name}: a number is needed, not {value!r}")
    return float(value) if isinstance(value, float) else int(value)


def _duration(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, timedelta):
        value = value.total_seconds()
    seconds = _number(name, value)
    if seconds < 0 or math.isinf(seconds):
        raise PolicyError(f"{name}: {value!r} is no duration", hint="seconds, or '500ms', '5m'")
    if isinstance(seconds, int) or float(seconds).is_integer():
        return f"{int(seconds)}s"
    return f"{max(1, math.ceil(seconds * 1000))}ms"


def _size(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return value
    size = _number(name, value)
    if size < 0 or math.isinf(size):
        raise PolicyError(f"{name}: {value!r} is no size", hint="bytes, or '64M', '2G'")
    return int(size)


def _whole(name: str, value: Any) -> int:
    number = _number(name, value)
    if math.isinf(number) or number != int(number):
        raise PolicyError(f"{name}: a whole number is needed, not {value!r}")
    return int(number)


def _map(name: str, value: Any) -> Dict[str, str]:
    if not hasattr(value, "items"):
        raise PolicyError(f"{name}: a mapping of names to values is needed")
    return {str(k): _text(f"{name}[{k!r}]", v) for k, v in value.items()}


def _scaled(name: str, value: Any) -> Any:
    """Names with a unit in them."""
    if name in ("max_memory_mb", "max_cpu_percent") and math.isinf(_number(name, value)):
        raise PolicyError(f"{name}: a number is needed, not {value!r}")
    if name == "max_memory_mb":
        return int(_number(name, value) * 1048576)
    if name == "max_cpu_percent":
        return round(_number(name, value) / 100, 3)
    return value


def convert(name: str, value: Any) -> Tuple[str, Any]:
    """One setting as (key, value for the policy). ``math.inf`` stays as it is where it means "no
    limit"; None means that the setting is not given."""
    key = find_key(name)
    if value is None:
        return key, None
    if isinstance(value, float) and math.isinf(value) and value > 0 and key in UNLIMITED:
        return key, math.inf
    value = _scaled(name, value)
    kind = type_of(key)
    if kind == "list":
        return key, _list(name, value)
    if kind == "map":
        return key, _map(name, value)
    if kind == "duration":
        return key, _duration(name, value)
    if kind == "size":
        return key, _size(name, value)
    if kind == "count":
        return key, _whole(name, value)
    if kind == "share":
        return key, _number(name, value)
    if kind == "bool":
        if not isinstance(value, bool):
            raise PolicyError(f"{name}: True or False is needed, not {value!r}")
        return key, value
    return key, _text(name, value)


_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "": 1}
_BYTES = {"K": 10, "M": 20, "G": 30, "T": 40}


def magnitude(key: str, value: Any) -> Optional[float]:
    """The value of a limit as a number that can be compared: seconds, bytes, a count."""
    if value is None or isinstance(value, (int, float)):
        return value
    text = str(value).strip()
    digits = text.rstrip("KMGTkmgtiBsh")
    unit = text[len(digits) :]
    try:
        if type_of(key) == "duration":
            return float(digits) * _SECONDS[unit]
        letter = unit[:1].upper()
        return float(digits) * (1 << _BYTES.get(letter, 0))
    except (ValueError, KeyError):
        raise PolicyError(f"{key}: cannot read '{value}'") from None
