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
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

from . import _cordon
from ._errors import PolicyError

#: Limits that the library has a default for and that ``math.inf`` switches off.
UNLIMITED = ("limits.wall", "limits.memory")

#: The plain names: fields of SandboxConfig that are not keys themselves. A key has no other names.
PLAIN = {
    "max_memory_mb": "limits.memory",
    "max_procs": "limits.procs",
    "max_execution_seconds": "limits.wall",
    "max_cpu_percent": "limits.cpu",
    "max_output_bytes": "limits.output",
    "writable_paths": "fs.write",
    "allowed_commands": "commands",
}

#: Arguments of run() that are limits. They are no settings.
RUN_LIMITS = {"timeout": "limits.wall", "max_output": "limits.output"}

#: What people try first -> what it is called. The last part of a key ("memory") needs no entry.
_GUESSES = {"cpus": "limits_cpu", "readable_paths": "fs_read"}

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
    known.update(PLAIN)
    return known


#: What else Sandbox(), Pool(), Scheduler() and run() take: misspelt, or in the wrong call, it arrives among the settings.
ARGUMENTS = {
    **dict.fromkeys(
        ("workdir", "persist", "keep", "id", "name", "allow_overrides", "parked", "preload", "warm",
         "fresh_aslr", "packages", "build_packages", "compile_timeout", "compile_memory"),
        "it is an argument of Sandbox()",
    ),
    **dict.fromkeys(
        ("shell", "stdin", "cwd", "max_output", "merge", "orphans", "check", "on_stdout",
         "on_stderr", "tty", "filename", "args", "files", "language"),
        "it is an argument of run() or run_code()",
    ),
    **dict.fromkeys(
        ("max_concurrency", "max_queue", "max_sessions", "session_seconds", "allowed_packages", "max_file_bytes"),
        "it is an argument of Scheduler()",
    ),
    **dict.fromkeys(("workers", "interpreters"), "it is an argument of Pool()"),
    "timeout": "it is an argument of run(); for all runs of a sandbox: max_execution_seconds",
    "policy": "it is the first argument of Sandbox() and the second of pycordon.run()",
}  # fmt: skip


def type_of(key: str) -> str:
    """ "list", "map", "bool", "protect", "duration", "size", "count", "share", "gpu" or "text"."""
    part = schema_keys()[key]
    kind = part.get("type")
    if key == "fs.protect":
        return "protect"
    if key == "gpu":
        return "gpu"
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
    if name in ARGUMENTS:
        raise PolicyError(f"'{name}' is no setting", hint=ARGUMENTS[name])
    if name.startswith("env."):
        raise PolicyError(f"unknown setting '{name}'", hint="variables are given with env_set={...}")
    near = _nearest(name)
    hint = f"did you mean '{near}'?" if near else "docs/policy.md lists the settings"
    raise PolicyError(f"unknown setting '{name}'", hint=hint)


def _nearest(name: str) -> Optional[str]:
    """The setting that a wrong name probably means."""
    import difflib

    if name in _GUESSES:
        return _GUESSES[name]
    for key in schema_keys():
        if key.rpartition(".")[2] == name:
            return key.replace(".", "_")
    candidates = [*names(), "network_enabled", *GROUPS, *ARGUMENTS]
    near = difflib.get_close_matches(name, candidates, 1, 0.6)
    return near[0] if near else None


def _text(name: str, value: Any) -> str:
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        if isinstance(text, str):
            return text
    raise PolicyError(f"{name}: a string or path is needed, not {type(value).__name__}")


def _list(name: str, value: Any) -> List[str]:
    if isinstance(value, (str, os.PathLike)):
        return [_text(name, value)]
    is_port_list = name in ("net_publish", "net.publish")
    if is_port_list and isinstance(value, int) and not isinstance(value, bool):
        return [str(value)]
    # Each of these can be gone through, and would give something that was not meant.
    if isinstance(value, (bytes, bytearray, memoryview, Mapping)) or not hasattr(value, "__iter__"):
        raise PolicyError(f"{name}: a list of strings is needed, not {type(value).__name__}")
    entries = list(value)
    if is_port_list:
        entries = [str(e) if isinstance(e, int) else e for e in entries]
    return [_text(name, e) for e in entries]


_NUMBER_MAX = 1 << 60  # more than any limit; and everything that is made of it fits the library


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise PolicyError(f"{name}: a number is needed, not {value!r:.60}")
    if abs(value) > _NUMBER_MAX and value not in (math.inf, -math.inf):
        raise PolicyError(f"{name}: the number is too large", hint="math.inf means no limit")
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
    if not isinstance(value, Mapping):
        raise PolicyError(f"{name}: a dict of names and values is needed, not {type(value).__name__}")
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


def _bool(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise PolicyError(f"{name}: True or False is needed, not {value!r:.60}")
    return value


def _protect(name: str, value: Any) -> Union[bool, str]:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value not in ("on", "existing", "off"):
        raise PolicyError(f"{name}: 'on', 'existing' or 'off' is needed, not {value!r:.60}")
    return value if value == "existing" else value == "on"


def _gpu(name: str, value: Any) -> str:
    """Numbers and names in one string, as the policy has them."""
    entries = [value] if isinstance(value, (str, int)) and not isinstance(value, bool) else value
    if isinstance(entries, (bytes, bytearray, memoryview, Mapping)) or not hasattr(entries, "__iter__"):
        raise PolicyError(f"{name}: 'all', a number or a list of them is needed, not {type(value).__name__}")
    texts = [str(e) if isinstance(e, int) and not isinstance(e, bool) else _text(name, e) for e in entries]
    return ",".join(texts) if texts else "none"


_CONVERTERS: Dict[str, Callable[[str, Any], Any]] = {
    "list": _list,
    "map": _map,
    "bool": _bool,
    "protect": _protect,
    "duration": _duration,
    "size": _size,
    "count": _whole,
    "share": _number,
    "text": _text,
    "gpu": _gpu,
}


def value_for(key: str, name: str, value: Any) -> Any:
    """What was given by a name as a value of the policy. ``math.inf`` stays as it is where it means
    "no limit"; None means that the setting is not given."""
    if value is None:
        return None
    if isinstance(value, float) and math.isinf(value) and value > 0 and key in UNLIMITED:
        return math.inf
    return _CONVERTERS[type_of(key)](name, _scaled(name, value))


def limit(key: str, name: str, value: Any) -> Any:
    """The same for an argument that is not a setting of the policy and cannot be left out."""
    made = value_for(key, name, value)
    try:
        if made not in (None, math.inf) and magnitude(key, made):
            return made
    except PolicyError:
        pass
    raise PolicyError(f"{name}: {value!r:.60} is no limit")


def convert(name: str, value: Any) -> Tuple[str, Any]:
    """One setting as (key, value for the policy)."""
    key = find_key(name)
    return key, value_for(key, name, value)


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
