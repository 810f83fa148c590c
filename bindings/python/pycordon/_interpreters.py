# SPDX-License-Identifier: Apache-2.0
"""Languages that have an interpreter with state, and how one is started.

The driver's text goes through the channel, but for bash, which takes it as an argument.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from . import _arguments
from ._errors import UsageError
from ._python import interpreter

# Reads a line with two numbers, size and limit, and as many bytes as the first says. The builtins are
# a copy, so that the driver does not see what the code does to them.
_PYTHON = """
def f():
    import builtins, posix, sys
    own = next((i for i, path in enumerate(sys.path) if path.endswith("-packages")), len(sys.path))
    sys.path[own:own], sys.argv[1:] = sys.argv[1:], []
    head = text = b""
    while not head.endswith(b"\\n"):
        head += posix.read(3, 1) or posix._exit(70)
    size, limit = map(int, head.split())
    while len(text) < size:
        text += posix.read(3, size - len(text)) or posix._exit(70)
    own = dict(vars(builtins))
    exec(compile(text, "<cordon>", "exec"), {"__name__": "<cordon>", "__builtins__": own, "LIMIT": limit})
f()
"""
_NODE = """
(() => {
  const fs = require('fs');
  const read = (n) => {
    const data = Buffer.alloc(n);
    let have = 0;
    while (have < n) {
      const got = fs.readSync(3, data, have, n - have, null);
      if (got === 0) process.reallyExit(70);
      have += got;
    }
    return data;
  };
  let head = '';
  while (!head.endsWith('\\n')) head += read(1).toString('latin1');
  const [size, limit] = head.split(' ').map(Number);
  const driver = require('vm').compileFunction(read(size).toString('utf8'), ['require', 'LIMIT'], { filename: 'cordon' });
  driver(require, limit);
})();
"""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@lru_cache(maxsize=None)
def driver_text(name: str) -> str:
    """A program that runs inside."""
    with open(os.path.join(os.path.dirname(__file__), "drivers", name), encoding="utf-8") as file:
        return file.read()


@dataclass(frozen=True)
class Kind:
    """How an interpreter of one language is started and spoken to."""

    name: str
    driver: str
    counts_signals: bool = True

    def argv(self, packages: Sequence[str] = (), python: Optional[str] = None) -> List[str]:
        """Its command. ``python``: if not the caller's. ``packages``: directories in which Python looks for modules before those that are
        installed; it is told, since ``-I`` ignores the variable."""
        if self.name == "python":
            return [python or interpreter() or "python3", "-I", "-X", "utf8", "-c", _PYTHON, *packages]
        if self.name == "javascript":
            return ["node", "-e", _NODE]
        return ["bash", "--norc", "--noprofile", "-c", driver_text(self.driver)]

    def greeting(self, limit: int) -> bytes:
        """What it is sent first."""
        if self.name == "bash":
            return b""
        text = driver_text(self.driver).encode()
        return b"%d %d\n" % (len(text), limit) + text

    def code(self, code: Any) -> bytes:
        """Code as it is sent."""
        data = _arguments.data("code", code)
        if self.name == "bash" and b"\0" in data:
            raise UsageError("code: bash has no place for NUL bytes")
        return data

    def variables(self, values: Mapping[str, Any]) -> bytes:
        """Variables as they are sent."""
        if not isinstance(values, Mapping):
            raise UsageError(f"variables: a dict is needed, not {type(values).__name__}")
        for name in values:
            if not isinstance(name, str) or not name.isidentifier():
                raise UsageError(f"variables: {name!r:.40} is no name")
        if self.name == "bash":
            return b"".join(_in_bash(name, value) for name, value in values.items())
        return b"".join(self._variable(name, value) for name, value in values.items())

    def packages(self, variables: Mapping[str, str], older: Sequence[str]) -> Tuple[str, bytes]:
        """A request that puts directories of packages before the values of variables. ``older``: those with
        Python's that it has."""
        if self.name != "bash":
            return "packages", json.dumps({"variables": dict(variables), "older": list(older)}).encode()
        lines = (f"export {name}={shlex.quote(path)}${{{name}:+:${name}}}\n" for name, path in variables.items())
        return "set", "".join(lines).encode("utf-8", "surrogateescape")

    def _variable(self, name: str, value: Any) -> bytes:
        if isinstance(value, (bytes, bytearray)) and self.name == "python":
            kind, data = "bytes", bytes(value)
        else:
            kind, data = "json", _json(name, value)
        head = json.dumps({"name": name, "kind": kind, "size": len(data)})
        return head.encode() + b"\n" + data


def _json(name: str, value: Any) -> bytes:
    try:
        return json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"variables: '{name}' cannot be passed: {error}") from None


def _word(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or isinstance(value, float) and math.isfinite(value):
        return str(value)
    if isinstance(value, str) and "\0" not in value:
        return shlex.quote(value)
    raise UsageError(f"variables: '{name}' is nothing that bash has a place for")


def _in_bash(name: str, value: Any) -> bytes:
    if not _NAME.match(name) or name.startswith("__cordon"):
        raise UsageError(f"variables: '{name}' cannot be a name in bash")
    if isinstance(value, (list, tuple)):
        text = f"({' '.join(_word(name, item) for item in value)})"
    else:
        text = _word(name, value)
    return f"{name}={text}\n".encode("utf-8", "surrogateescape")


_PYTHON_KIND = Kind("python", "python.py")
_NODE_KIND = Kind("javascript", "node.js")
_BASH_KIND = Kind("bash", "bash.sh", counts_signals=False)
_KINDS = {
    "python": _PYTHON_KIND, "python3": _PYTHON_KIND, "py": _PYTHON_KIND, "javascript": _NODE_KIND,
    "js": _NODE_KIND, "node": _NODE_KIND, "bash": _BASH_KIND,
}  # fmt: skip


def find_kind(language: str) -> Kind:
    """The interpreter of a language."""
    found = _KINDS.get(_arguments.text("language", language).lower())
    if found is None:
        raise UsageError(
            f"'{language}' has no interpreter with state",
            hint="python, javascript and bash have; run_code() knows more languages",
        )
    return found


def languages() -> Tuple[str, ...]:
    """Their names."""
    return tuple(_KINDS)
