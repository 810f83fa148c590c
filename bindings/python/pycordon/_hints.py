# SPDX-License-Identifier: Apache-2.0
"""The library's hints in Python's words. It names flags of the command line, which say nothing to
those who write `Sandbox(...)`."""

from __future__ import annotations

import json
import re
from typing import Dict, Match, Optional, Tuple

#: Policy key -> the name that is recommended in Python, where that is not the key with underscores.
_RECOMMENDED = {
    "commands": "allowed_commands",
    "limits.wall": "max_execution_seconds",
    "limits.memory": "max_memory_mb",
    "limits.procs": "max_procs",
    "limits.cpu": "max_cpu_percent",
    "limits.output": "max_output_bytes",
}

#: Flag -> (policy key or argument of Sandbox, how a value is written).
FLAGS: Dict[str, Tuple[str, str]] = {
    "--read": ("fs.read", "list"),
    "--write": ("fs.write", "list"),
    "--deny": ("fs.deny", "list"),
    "--workspace": ("fs.workspace", "text"),
    "--no-protect": ("fs.protect", "off"),
    "--cwd": ("cwd", "text"),
    "--net-allow": ("net.allow", "list"),
    "--net-deny": ("net.deny", "list"),
    "--net-max": ("net.max", "text"),
    "--publish": ("net.publish", "list"),
    "--env": ("env.pass", "list"),
    "--commands": ("commands", "list"),
    "--gpu": ("gpu", "text"),
    "--device": ("devices", "list"),
    "--timeout": ("limits.wall", "number"),
    "--grace": ("limits.grace", "text"),
    "--memory": ("limits.memory", "mib"),
    "--procs": ("limits.procs", "number"),
    "--cpus": ("limits.cpu", "percent"),
    "--cpu-time": ("limits.cpu_time", "text"),
    "--open-files": ("limits.open_files", "number"),
    "--disk": ("limits.disk", "text"),
    "--file-size": ("limits.file_size", "text"),
    "--max-output": ("limits.output", "number"),
    "--end-on-output": ("limits.output_end", "on"),
    "--isolation": ("isolation", "text"),
    "--require": ("require", "list"),
    "--best-effort": ("best_effort", "list"),
    "--user": ("user", "text"),
    "--name": ("name", "text"),
    "--with-build": ("build_packages", "on"),
}
SHORT = {
    "-r": "--read", "-w": "--write", "-C": "--cwd", "-e": "--env", "-t": "--timeout",
    "-m": "--memory", "-P": "--procs",
}  # fmt: skip

_MIB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1 << 20}
# In prose a flag may stand alone ("see --read and --commands"). What follows is its value after a
# colon ("add it: --commands ls"), in capitals (--deny DIR), and always with some.
_FLAG = re.compile(r"(: )?(?<![\w-])(--[a-z][a-z-]*|-[a-zA-Z])(?![\w-])(?: ('[^']*'|(?:[^\s;,)]|,(?=\S))+))?")
_WITH_VALUE = ("--isolation", "--name", *SHORT)
_NOT_OURS = re.compile(r"(systemd-run|chmod|ulimit|sed|`cordon|'cordon|mount) [^;,()`']*")


def name_of(key: str) -> str:
    """The setting in Python."""
    return _RECOMMENDED.get(key, key.replace(".", "_"))


def _quoted(value: str) -> str:
    return value if value.isalpha() and value.isupper() else json.dumps(value, ensure_ascii=False)


def _number(text: str, how: str) -> Optional[str]:
    scale = 1.0
    if how == "mib":
        scale = _MIB.get(text[-1:].upper(), 1 / 1048576)
        text = text.rstrip("KMGTkmgt")
    try:
        number = float(text) * (100 if how == "percent" else scale)
    except ValueError:
        return None
    return f"{number:.15g}"


def setting(flag: str, value: Optional[str]) -> Optional[str]:
    """A flag and its value as an argument in Python (``net_allow=["example.com"]``); None if it is
    no flag with such an argument."""
    key, how = FLAGS.get(SHORT.get(flag, flag), ("", ""))
    if not key:
        return None
    if how in ("on", "off"):
        return f"{name_of(key)}={how == 'on'}"
    if value is None:
        return f"{name_of(key)}="
    if value[:1] == "'" == value[-1:]:
        value = value[1:-1]
    if how == "list":
        parts = value.split(",") if key in ("commands", "require", "best_effort") else [value]
        return f"{name_of(key)}=[{', '.join(map(_quoted, parts))}]"
    if how == "text":
        return f"{name_of(key)}={_quoted(value)}"
    number = value if value.isupper() and value.isalpha() else _number(value, how)
    return f"{key.replace('.', '_')}={_quoted(value)}" if number is None else f"{name_of(key)}={number}"


def _replace(found: "Match[str]") -> str:
    colon, flag, value = found.group(1) or "", found.group(2), found.group(3)
    rest = ""
    if value is not None and not (colon or flag in _WITH_VALUE or (value.isalpha() and value.isupper())):
        value, rest = None, f" {value}"
    made = setting(flag, value)
    return found.group(0) if made is None else colon + made + rest


def in_python(text: Optional[str]) -> Optional[str]:
    """A message of the library with settings in the place of flags. Command lines stay as they
    are."""
    if not text or "-" not in text:
        return text
    made, at = "", 0
    for other in _NOT_OURS.finditer(text):
        made += _FLAG.sub(_replace, text[at : other.start()]) + other.group(0)
        at = other.end()
    return made + _FLAG.sub(_replace, text[at:])


#: The command's advice about sessions -> the same for a DetachedSession.
_OF_SESSIONS = (
    (re.compile(r"'cordon ps'"), "DetachedSession.list()"),
    (re.compile(r"'cordon session ps [\w.-]+'"), "ps()"),
    (re.compile(r"'cordon session (\w+) ([\w.-]+)'"), r"DetachedSession.attach('\2').\1()"),
    (re.compile(r"another --name\b"), "another name="),
    (re.compile(r"resume it first"), "resume() first"),
    (re.compile(r"start the session with --read for"), "create the session with fs_read= for"),
)


def in_session(text: Optional[str]) -> Optional[str]:
    """What the command says about a session, in Python's words."""
    for pattern, better in _OF_SESSIONS if text else ():
        text = pattern.sub(better, text or "")
    return in_python(text)
