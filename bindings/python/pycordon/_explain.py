# SPDX-License-Identifier: Apache-2.0
"""Result.explain(): the account of a run in two or three lines that can be acted on."""

from __future__ import annotations

import os
import re
import shlex
import signal as _signal
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Tuple

from ._hints import name_of

if TYPE_CHECKING:
    from ._result import Denial, Result

_DENIED = {
    "resolve": "looking up", "connect": "connecting to", "execve": "executing",
    "read": "reading", "write": "writing to", "privilege": "the rights that are needed for", "socket": "opening",
}  # fmt: skip

#: What holds if nothing is stated.
_DEFAULTS = {"limits.wall": "30s", "limits.memory": "256M"}

_LIMITS = {
    "timeout": ("limits.wall", "took longer than its time limit"),
    "memory": ("limits.memory", "used more memory than its limit"),
    "cpu_time": ("limits.cpu_time", "used more CPU time than its limit"),
    "output": ("limits.output", "wrote more output than its limit"),
    "disk": ("limits.disk", "wrote more data than its disk limit"),
    "procs": ("limits.procs", "had more processes and threads than its limit"),
}

# Pattern in the command's own output -> policy key (None: no setting), what probably happened. Guest
# output is only guessed from: the wording says so, and nothing of it is repeated as advice.
_PATTERNS: Tuple[Tuple[str, Optional[str], str], ...] = (
    (r"Read-only file system|EROFS", "fs.write", "the place it tried to write to is read-only"),
    (
        r"No space left on device|ENOSPC",
        "limits.disk",
        "there is no space left where it wrote, by a limit or on the host",
    ),
    (
        r"Resource temporarily unavailable|can't start new thread|fork: retry|[Cc]annot fork",
        "limits.procs",
        "it could not start more processes or threads",
    ),
    (r"Too many open files|EMFILE", "limits.open_files", "it had too many files open"),
    (
        r"File too large|EFBIG|File size limit exceeded",
        "limits.file_size",
        "a file grew beyond the limit",
    ),
    (
        r"superuser|are you root|must be root|Are you root",
        None,
        "it wants the rights of an administrator, which no process has inside",
    ),
    (
        r"Permission denied|EACCES|Operation not permitted|EPERM",
        "fs.write",
        "it tried to open, write or execute something that it has no right to",
    ),
)
_NAMES = re.compile(
    r"Temporary failure in name resolution|[Cc]ould not resolve host|Name or service not known"
    r"|unable to resolve host|getaddrinfo|EAI_AGAIN|Network is unreachable|ENETUNREACH"
)
_CONNECT = re.compile(r"Failed to connect to (?!localhost|127\.|::1)|[Cc]ould ?n[o']t connect to server")
_NOT_FOUND = re.compile(r": (?:command )?not found$", re.MULTILINE)
_MODULE = re.compile(r"No module named|MODULE_NOT_FOUND|ERR_MODULE_NOT_FOUND|cannot load such file")
_AGAIN = "Trying the same again will not help unless that is changed."
_MISSING = re.compile(
    r"(?:No such file or directory|cannot access|ENOENT)[^\n]*?['\"](/[^\s'\"]{1,200})['\"]"
    r"|['\"]?(/(?:home|root|srv|opt|mnt|data|var|etc)/[^\s'\":]{1,200})['\"]?: No such file"
)


_SHOWN_MAX = 200
_NAMES_SHOWN = 3


def _shown(text: Optional[str]) -> str:
    """Words of the guest on one short line, without characters that a terminal would act on."""
    made = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in (text or "")[:_SHOWN_MAX])
    return made + ("…" if text and len(text) > _SHOWN_MAX else "")


def _allow(key: str) -> str:
    name = "timeout or max_execution_seconds" if key == "limits.wall" else name_of(key)
    return f"Setting that decides: {name}."


def _fix(denial: "Denial") -> str:
    """What would allow it: a setting, or a command for the host's shell."""
    return _shown(denial.setting or denial.fix)


def _denial(denial: "Denial", result: "Result") -> str:
    if denial.rule.startswith("limits."):
        target, maybe, _ = _shown(denial.target).partition(" (may have been reached)")
        text = f"A limit {'may have been' if maybe else 'was'} reached: {target}. {_allow(denial.rule)}"
        return text + (f" It would be allowed with {_fix(denial)}." if denial.fix else "")
    what = _DENIED.get(denial.what, _shown(denial.what))
    text = f"Refused: {what} {_shown(denial.target)}"
    if denial.rule == "isolation":
        return f"{text}: no command has that inside, and no setting gives it."
    if denial.how == "said" and denial.rule == "net.allow" and not denial.fix:
        return f"{text}. {_allow(denial.rule)}"
    if denial.how == "said" and not denial.fix:
        return f"{text}. It is kept from the sandbox on purpose; no setting is suggested."
    if denial.how == "said" and denial.rule == "fs.read" and denial.what in ("read", "execve"):
        return f"Not shown inside: {_shown(denial.target)}. If it exists, {_fix(denial)} shows it."
    if denial.rule == "net.allow" and _has_no_network(result):
        text += "; there is no network"
    if denial.fix:
        return f"{text}. It would be allowed with {_fix(denial)}."
    return f"{text}. {_allow(denial.rule)}"


def _workspace(fix: str, result: "Result") -> str:
    """The directory that a flag names, in full if it is the run's own: a program has another."""
    where = shlex.split(fix)[-1]
    granted = [path for path in _stated(result, "fs.write") or () if os.path.isabs(path)]
    return granted[0] if where == "." and len(granted) == 1 else where


def _said(denials: List["Denial"], result: "Result") -> str:
    """Protected names that the command could not change, as it said itself."""
    names = [f"'{_shown(d.target)}'" for d in denials[:_NAMES_SHOWN]]
    if len(denials) > len(names):
        names.append(f"{len(denials) - len(names)} more")
    text = ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
    is_one, is_held = len(denials) == 1, all(d.what == "placeholder" for d in denials)
    if is_held:
        text += f" only {'holds a protected name' if is_one else 'hold protected names'} until the run is over, so the "
        text += "command could not remove or replace "
    else:
        made = {"make" if d.what == "create" else "change" for d in denials}
        text += f" {'is' if is_one else 'are'} protected in a write grant, so the command could not {' or '.join(sorted(made))} "
    text += "it." if is_one else "them."
    fix = denials[0].fix
    if fix:
        text += f" With {name_of('fs.workspace')}={_shown(_workspace(fix, result))!r} instead of that grant "
        text += "there are none;" if is_held else "it can, and the change is reviewed;"
    return f"{text} {name_of('fs.protect')}='off' gives the protection up."


def _denials(result: "Result", most: int, but: str = "") -> List[str]:
    """The first refusals, one line each; protected names with the same remedy share one. Those by
    the rule ``but`` are left out."""
    lines: List[str] = []
    told: List[Optional[str]] = []
    said = [d for d in result.denials if d.how == "said" and d.rule == "fs.protect"]
    for denial in result.denials:
        if denial.rule == but or len(lines) == most:
            continue
        if denial not in said:
            lines.append(_denial(denial, result))
        elif denial.fix not in told:
            told.append(denial.fix)
            lines.append(_said([d for d in said if d.fix == denial.fix], result))
    return lines


def _stated(result: "Result", key: str) -> Any:
    return None if result.policy is None else result.policy.effective().get(key)


def _has_no_network(result: "Result") -> bool:
    return result.policy is not None and not _stated(result, "net.allow")


_NO_NETWORK = (
    "there is no network, no program inside can reach any host. Setting that would allow it: "
    'net_allow, for instance net_allow=["example.com"].'
)


def _amount(key: str, value: Any) -> str:
    """A limit as people write it."""
    if isinstance(value, int) and key in ("limits.memory", "limits.disk", "limits.output"):
        for unit, size in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
            if value and value % size == 0:
                return f"{value // size}{unit}"
        return f"{value} bytes"
    return str(value)


def _limit_lines(result: "Result") -> List[str]:
    key, what = _LIMITS[result.kind]
    mine = next((d for d in result.denials if d.rule == key), None)
    value = _stated(result, key) or _DEFAULTS.get(key)
    if mine is not None and mine.target:
        value = mine.target
    of = f" of {_amount(key, value)}" if value is not None else ""
    lines = [f"The command {what}{of} and was ended with everything it had started."]
    if mine is not None and mine.target and mine.target.startswith("the file system "):
        lines = [f"The command was ended with everything it had started: {mine.target}."]
    doubled = mine.setting if mine is not None else None
    lines.append(_allow(key) + (f" Doubled it is {doubled}." if doubled else ""))
    other = _denials(result, 1, but=key)
    again = "Trying the same again will not help; do less at once, or have the limit raised."
    if result.kind == "disk":
        again = "What was written is still there: remove some with files.remove(), or restart()."
    lines.append(other[0] if other else again)
    return lines


def _not_run(result: "Result") -> List[str]:
    if result.kind == "denied":
        lines = [f"Nothing was run: {_shown(result.error)}."]
        lines.append(_allow("commands") + (f" Now {result.hint}." if result.hint else ""))
        lines.append("Trying again will not help; use one of the allowed programs.")
        return lines
    lines = [f"The program could not be started: {_shown(result.error) or 'unknown reason'}."]
    if result.returncode == 127:
        lines.append(
            "Check the name; a program outside the system's directories must be granted: fs_read."
        )
    elif result.hint:
        lines.append(f"Remedy: {result.hint}.")
    lines.append("Trying the same again will not help.")
    return lines


def _guess_network(result: "Result", tail: str) -> Optional[List[str]]:
    if _has_no_network(result):
        if _NAMES.search(tail) or _CONNECT.search(tail):
            return [f"Probably refused by the sandbox: {_NO_NETWORK}", _AGAIN]
    elif _NAMES.search(tail):
        what = "the network reaches only the hosts that are named"
        return [f"Probably refused by the sandbox: {what}. {_allow('net.allow')}", _AGAIN]
    return None


def _guess_missing(result: "Result", tail: str) -> Optional[List[str]]:
    """Programs and modules that are not there."""
    if result.returncode == 127 and _NOT_FOUND.search(tail):
        return [
            "A program was not found. Check its name; one outside the system's directories must be "
            "granted: fs_read.",
            "Trying the same again will not help.",
        ]
    if _MODULE.search(tail):
        where = "A module is not installed, or lies where nothing was granted."
        lines = [f"{where} {_allow('fs.read')}"]
        if _has_no_network(result):
            return lines + [f"It cannot be installed from inside: {_NO_NETWORK}"]
        return lines + [_AGAIN]
    return None


def _guess(result: "Result") -> Optional[List[str]]:
    tail = (result.stderr + "\n" + (result.stdout if result.merged else ""))[-8192:]
    special = _guess_network(result, tail) or _guess_missing(result, tail)
    if special:
        return special
    for pattern, key, what in _PATTERNS:
        if re.search(pattern, tail):
            line = f"Probably refused by the sandbox: {what}."
            if key is None:
                return [line + " No setting gives them.", "Trying the same again will not help."]
            return [line + " " + _allow(key), _AGAIN]
    missing = _MISSING.search(tail)
    if missing:
        path = missing.group(1) or missing.group(2)
        return [
            f"It says that '{_shown(path)}' is missing: not visible inside; if it exists on the host "
            f"it was probably not granted. {_allow('fs.read')}",
            _AGAIN,
        ]
    return None


def _signal_name(number: Optional[int]) -> str:
    try:
        return _signal.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"


def _how(result: "Result") -> str:
    """How a command ended that Cordon did not end."""
    if result.kind != "signaled":
        head = f"The command ended with exit code {result.exit_code}"
        if (result.exit_code or 0) > 128 and (result.exit_code or 0) - 128 in set(_signal.Signals):
            head += f" (128 + n: of something that {_signal_name(result.returncode - 128)} ended)"
        return head + ("." if result.stderr or result.merged else " and left no message.")
    head = f"The command was ended by {_signal_name(result.signal)}; no limit of the sandbox did it."
    if result.signal == _signal.SIGSYS:
        head += " It made a system call that the sandbox refuses; no setting allows it."
    if result.signal == _signal.SIGXFSZ:
        head += f" A file grew beyond the limit. {_allow('limits.file_size')}"
    return head


def _ended(result: "Result") -> List[str]:
    lines = [_how(result)]
    if result.denials:
        return lines + [
            *_denials(result, 1),
            "Trying the same again will not help unless the setting is changed.",
        ]
    guessed = _guess(result)
    if guessed:
        return lines + guessed
    lines.append("Nothing was refused that Cordon knows of: the error is the command's own.")
    if result.kind == "exited" and not result.text.strip() and _has_no_network(result):
        lines.append(f"If it needs the network: {_NO_NETWORK}")
    return lines


def _lost(lost: Mapping[str, Any]) -> str:
    count, example = lost["home"] + lost["tmp"], lost["example"]
    where = " and ".join(name for key, name in (("home", "home"), ("tmp", "/tmp")) if lost[key])
    text = f"{'At least ' if lost['more'] else ''}{count} file{'' if count == 1 else 's'} written to "
    text += f"the private {where} {'is' if count == 1 else 'are'} gone"
    text += f", such as '{_shown(example)}'" if example else ""
    return f"{text}. persist=True keeps them for later runs; fs_write or a workspace for the host."


_COMPILE_SETTINGS = {"timeout": "compile_timeout", "memory": "compile_memory"}


def _not_compiled(result: "Result") -> List[str]:
    head, more = "The program was not compiled", "What the compiler says is in stderr."
    if result.kind in _LIMITS:
        key, what = _LIMITS[result.kind]
        value = _stated(result, key)
        head += f": the compiler {what}" + (f" of {_amount(key, value)}" if value is not None else "")
        name = _COMPILE_SETTINGS.get(result.kind)
        more = f"Setting that decides: {name}." if name else "No setting changes that limit."
    elif result.kind == "exited":
        head += f": the compiler ended with exit code {result.exit_code}"
    elif result.kind == "signaled":
        head += f": the compiler was ended by {_signal_name(result.signal)}"
    elif result.error is not None:
        head += f": {_shown(result.error)}"
    return [f"{head}.", f"{more} Nothing of the program has run.", "Trying the same again will not help."]


def explain(result: "Result") -> str:
    """See Result.explain()."""
    if result.step == "compile":
        lines = _not_compiled(result)
    elif result.ok:
        lines = ["The command succeeded."]
        lines += _denials(result, 2)
    elif result.kind in _LIMITS:
        lines = _limit_lines(result)
    elif result.kind in ("spawn_failed", "denied"):
        lines = _not_run(result)
    elif result.kind == "cancelled":
        lines = ["The run was cancelled by its caller before it was over.", "It can be run again."]
    else:
        lines = _ended(result)
    if result.truncated and len(lines) < 3:
        lines.append(f"Output was cut. {_allow('limits.output')}")
    if result.lost_files and len(lines) < 3:
        lines.append(_lost(result.lost_files))
    return "\n".join(lines[:3])


def headline(result: "Result") -> str:
    """One line: how it ended and, if the command left a message, the last line of that."""
    head = explain(result).split("\n", 1)[0].rstrip(".")
    if result.kind not in ("exited", "signaled"):
        return head
    said = [line.strip() for line in result.stderr[-4096:].splitlines() if line.strip()]
    return f"{head}: {said[-1][:200]}" if said else head
