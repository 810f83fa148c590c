# SPDX-License-Identifier: Apache-2.0
"""What several adapters need. Imports no framework."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any, Iterable, Mapping

from .._keys import magnitude

if TYPE_CHECKING:
    from pycordon import Policy, Result

# A name as the package index has them, perhaps with extras and versions. Options, addresses and
# paths are not names: what a model asks for must not become another argument of pip.
_VERSION = r" *(?:===?|[<>~!]=|[<>]) *[A-Za-z0-9.*+!_-]+"
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
    r"(?:\[[A-Za-z0-9._-]+(?:, *[A-Za-z0-9._-]+)*\])?"
    rf"(?:{_VERSION}(?: *,{_VERSION})*)?"
)

# Runs inside the sandbox, with the interpreter whose packages are asked for. Code inside can forge
# the answer, so the host uses it only for runs in the same sandbox.
_PREPARE = r"""
import importlib.metadata, importlib.util, json, os, re, subprocess, sys
install, wanted = sys.argv[1] == "install", sys.argv[2:]
target = os.path.join(os.path.expanduser("~"), ".cordon-packages")
sys.path.insert(0, target)

def there(requirement):
    name = re.match(r"[A-Za-z0-9._-]+", requirement).group()
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        try:
            return name == requirement and importlib.util.find_spec(name.replace("-", "_")) is not None
        except (ImportError, ValueError):
            return False
    if name == requirement:
        return True
    try:
        from pip._vendor.packaging.requirements import Requirement
    except ImportError:
        return True
    return Requirement(requirement).specifier.contains(version, prereleases=True)

missing = [requirement for requirement in wanted if not there(requirement)]
answer = {"missing": missing, "path": "", "error": ""}
if missing and install:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "--target", target, *missing], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    answer["error"] = "" if done.returncode == 0 else done.stdout.decode(errors="replace")[-4000:]
if os.path.isdir(target):
    answer["path"] = target
print(json.dumps(answer))
"""


class PackageError(ValueError):
    """A package that code wants is not there and cannot be installed inside the sandbox."""


def given(**settings: Any) -> dict[str, Any]:
    """The settings that were given: None means that the sandbox's own value holds."""
    return {name: value for name, value in settings.items() if value is not None}


def within(policy: Policy, seconds: float | None) -> float | None:
    """The time for one run: what is asked for, but never more than the policy states."""
    stated = magnitude("limits.wall", policy.get("limits_wall"))
    times = [time for time in (seconds, stated) if time is not None]
    return min(times) if times else None


def remark(result: Result, cut: bool = True) -> str:
    """What to tell a model besides the program's own output: nothing, if it simply ended.

    A run that was ended by a limit or refused something says what happened and which setting
    would change it, since a model cannot act on a bare status such as 137. Output that is not
    complete says so, unless the adapter does that itself (`cut=False`).
    """
    lines = []
    if cut and result.truncated:
        kept = len(result.stdout_bytes) + len(result.stderr_bytes)
        lines.append(f"[output cut: {kept} of {sum(result.total_bytes.values())} bytes are shown]")
    if result.kind not in ("exited", "signaled") or (result.denials and not result.ok):
        lines.append(result.explain())
    return "\n".join(lines)


def check_requirements(requirements: Iterable[str]) -> list[str]:
    """The same without blanks and duplicates; PackageError if one is no plain requirement."""
    names = list(dict.fromkeys(item.strip() for item in requirements if item.strip()))
    for name in names:
        if not _REQUIREMENT.fullmatch(name):
            raise PackageError(f"{name!r} is not the name of a package (with or without versions)")
    return [name.replace(" ", "") for name in names]


def allows_network(policy: Policy) -> bool:
    """Whether runs under this policy may connect to anything."""
    return bool(policy.get("net_allow"))


def prepare_command(requirements: Iterable[str], install: bool, python: str = "") -> list[str]:
    """The command that looks for packages inside the sandbox and, if told so, installs them there."""
    mode = "install" if install else "look"
    return [python or sys.executable, "-c", _PREPARE, mode, *requirements]


def prepared_path(result: Result, install: bool) -> str:
    """The directory inside to add to PYTHONPATH ("" = none) after a run of `prepare_command`."""
    try:
        answer = json.loads(result.stdout)
        missing, path, error = answer["missing"], answer["path"], answer["error"]
    except (ValueError, KeyError, TypeError):
        raise PackageError(f"Packages could not be looked up: {result.text}\n{result.explain()}")
    if missing and not install:
        raise PackageError(
            f"Not installed: {', '.join(map(str, missing))}. The sandbox has no network, so nothing "
            "can be installed in it; use what is there, or let net_allow name a package index."
        )
    if missing and error:
        raise PackageError(f"Installing {', '.join(map(str, missing))} failed: {error}")
    return str(path)


def with_path(env: Mapping[str, str] | None, path: str) -> dict[str, str]:
    """The variables of a run, with the directory of installed packages if there is one."""
    return {**(env or {}), **({"PYTHONPATH": path} if path else {})}
