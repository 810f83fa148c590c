# SPDX-License-Identifier: Apache-2.0
"""Orders to the ``cordon`` command about sessions that outlive this process, and what its answers mean.

Nothing here starts a process or waits: DetachedSession and AsyncDetachedSession do, each in its way. There
is no shell, and nothing secret stands in a command line, which every user of the machine can see: the policy
and standard input are files in memory, values of variables are in the environment.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import secrets
import stat
import subprocess
from dataclasses import dataclass, field
from typing import (
    Any, Callable, Dict, Generic, Iterator, List, Mapping, NoReturn, Optional, Tuple, Type, TypeVar, Union, cast,
)  # fmt: skip

from . import _arguments, _cordon, _keys
from ._engine import USED_BY_COMMAND
from ._errors import (
    ClosedError, CordonError, PathError, PolicyError, SetupError, StateError, SystemCallError, UsageError,
    raise_native,
)  # fmt: skip
from ._fileops import TYPES, FileInfo, StrPath, memory_file
from ._flags import absolute_paths
from ._front import Front
from ._hints import in_session
from ._interpreters import languages
from ._job import RunArguments, argv_of
from ._native import command, current_directory, launcher
from ._policy import Config, Policy, from_document, nest, stated
from ._result import Result
from ._session_core import limit_of, result_of

T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,47}\Z")
_MEMORY = "256M"  # the limit of a Session that states none; the command has none
_LOGS_BYTES = 1 << 20  # of a command's output that the supervisor keeps
#: What the command says if there is no session any more.
_GONE = re.compile(r"there is no session |session '.*' is gone: |the session has ended|the session does not listen")
_ERRNOS = {os.strerror(number).lower(): number for number in errno.errorcode}
#: Merging is done inside: the command's receipt has two streams.
_MERGED = ("/bin/sh", "-c", 'exec "$@" 2>&1', "sh")


@dataclass(frozen=True)
class Done:
    """How the command ended, and what it wrote."""

    status: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True)
class Order(Generic[T]):
    """One call of the command. ``finish`` makes its result of what it wrote, or raises."""

    words: List[str]
    finish: Callable[[Done], T]
    stdin: Union[None, bytes, int] = None
    stdout: int = subprocess.PIPE
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Optional[str] = None
    policy: Optional[bytes] = None

    @contextlib.contextmanager
    def ready(self) -> Iterator[Tuple[List[str], Dict[str, Any]]]:
        """The command line and the arguments of Popen(). What they name is there until the end of the
        block, and longer for a process that was started in it."""
        words = [command(), *self.words]
        options: Dict[str, Any] = {
            "env": {**os.environ, **self.env},
            "cwd": self.cwd,
            "stdin": subprocess.DEVNULL if self.stdin is None else self.stdin,
            "stdout": self.stdout,
            "stderr": subprocess.PIPE,
        }
        with contextlib.ExitStack() as files:
            if isinstance(self.stdin, bytes):
                # Not a pipe: waiting for the end of the command must not depend on a reader.
                options["stdin"] = _file_with(files.enter_context(memory_file()), self.stdin)
            if self.policy is not None:
                fd = _file_with(files.enter_context(memory_file()), self.policy)
                words[3:3] = ["--policy", f"/proc/self/fd/{fd}"]
                options["pass_fds"] = (fd,)
            yield words, options


def _file_with(fd: int, data: bytes) -> int:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def cannot_start(error: OSError) -> CordonError:
    """The exception if the command itself could not be started."""
    if error.errno == errno.E2BIG:
        return UsageError("arguments and environment are too large", errno=error.errno)
    return SystemCallError(f"cannot start the cordon command: {error.strerror}", errno=error.errno or 0)


# --- what it says when it fails --------------------------------------------------------------------


def _split(line: str) -> Tuple[str, Optional[str]]:
    """A message and the hint that stands in brackets after it."""
    if not line.endswith(")"):
        return line, None
    depth = 0
    for at in range(len(line) - 1, 0, -1):
        depth += (line[at] == ")") - (line[at] == "(")
        if depth == 0:
            return (line[: at - 1], line[at + 1 : -1]) if line[at - 1] == " " else (line, None)
    return line, None


def _said(done: Done) -> Tuple[str, Optional[str]]:
    """Why the command failed, and the hint."""
    text = done.stderr.decode("utf-8", "replace")
    found = re.findall(r"^cordon: (?!note: )(.*)$", text, re.M)
    if not found:
        return f"the cordon command ended with status {done.status} and did not say why", None
    killed = [line for line in found if _GONE.match(line) and "was killed" in line]
    message, hint = _split(killed[0] if killed else found[-1])
    return in_session(message) or message, in_session(hint)


def failed(done: Done, kind: Type[CordonError] = StateError, lost: Type[CordonError] = ClosedError) -> CordonError:
    """The exception for what the command says. ``lost``: for a session that is not there."""
    message, hint = _said(done)
    return (lost if _GONE.match(message) else kind)(message, hint=hint)


def _json(done: Done) -> Any:
    """What it printed. Bytes that are not UTF-8 are escaped as lone surrogates."""
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise StateError("the answer of the cordon command is garbled") from None


def _check(done: Done) -> None:
    if done.status != 0:
        raise failed(done)


# --- starting a session ----------------------------------------------------------------------------


def check_name(name: Any) -> str:
    """A session's name. It stands among options, so it is never one."""
    if not _NAME.match(_arguments.text("name", name)):
        raise UsageError(
            f"{name!r:.80} cannot be the name of a session",
            hint="letters, digits, '.', '_' and '-', 48 at most; not '.' or '-' first",
        )
    return cast(str, name)


def _milliseconds(name: str, value: Any, hint: str) -> int:
    try:
        made = _keys.value_for("limits.wall", name, value)
        seconds = None if made is None else _keys.magnitude("limits.wall", made)
    except PolicyError as error:
        raise UsageError(error.message, hint=error.hint) from None
    if seconds is None or not 0 <= seconds < 1 << 40:
        raise UsageError(f"{name}: {value!r:.40} is no duration", hint=hint)
    return math.ceil(seconds * 1000)


def _lifetime(lifetime: Any, policy: Policy) -> int:
    """In milliseconds. A policy may say it, too: then the shorter one counts."""
    hint = "a session that nobody holds needs an end; lifetime='720h' is a month"
    if "limits.wall" in policy.unlimited:
        raise UsageError("a detached session cannot live without a time limit", hint=hint)
    both = [_milliseconds("lifetime", lifetime, hint)]
    wall = policy.effective().get("limits.wall")
    if wall is not None:
        both.append(_milliseconds("limits_wall", wall, hint))
    if min(both) == 0:
        raise UsageError("lifetime: 0 is no lifetime", hint=hint)
    return min(both)


def _package_words(packages: Any, may_build: Any) -> List[str]:
    _arguments.flag("build_packages", may_build)
    words: List[str] = []
    for word in _arguments.words("packages", packages):
        is_file = word.endswith((".txt", ".json"))
        words.append(f"--with-file={_host_path('packages', word)}" if is_file else f"--with={word}")
    if may_build and not words:
        raise UsageError("build_packages=True needs packages=")
    return words + (["--with-build"] if may_build else [])


def _check_settings(settings: Mapping[str, Any]) -> None:
    for name in settings:
        if name in _keys.ARGUMENTS and name not in _keys.names():
            hint = _keys.ARGUMENTS[name]
            if name == "timeout":
                hint = "it is an argument of exec(); for the session: lifetime"
            raise UsageError(f"{name}: a detached session does not have it", hint=hint)


@dataclass
class Creation:
    """A session that is to be started. ``installs``: that may take minutes. For an event loop:
    ``is_unwanted``, and how to ``interrupt`` an installation."""

    name: str
    policy: Policy
    order: Order[None]
    installs: bool
    is_unwanted: bool = False
    interrupt: Optional[Callable[[], None]] = None


def creation(
    config: Config,
    name: Optional[str],
    workdir: Optional[StrPath],
    env: Optional[Mapping[str, str]],
    idle: Any,
    lifetime: Any,
    program: Optional[StrPath],
    settings: Mapping[str, Any],
) -> Creation:
    """Everything that can be checked is checked here, as for a Session, before anything starts."""
    more = dict(settings)
    packages = _package_words(more.pop("packages", ()), more.pop("build_packages", False))
    _check_settings(more)
    name = f"s{secrets.token_hex(4)}" if name is None else check_name(name)
    if isinstance(idle, float) and math.isinf(idle):
        idle = 0
    quiet = _milliseconds("idle", idle, "seconds, or '30m'; math.inf: it may be idle for ever")
    front = Front(config, workdir=workdir, persist=False, env=env, **more)
    made = front._engine.settings
    policy = made.policy
    words = [f"--idle={quiet}ms", f"--timeout={_lifetime(lifetime, policy)}ms", *packages]
    doc = {key: absolute_paths(key, value, made.base_dir) for key, value in stated(policy).items()}
    doc.pop("limits.wall", None)
    if "limits.memory" not in policy.unlimited:
        doc.setdefault("limits.memory", _MEMORY)
    options = made.launch_options()
    argv = [] if program is None else [_arguments.path("program", program)]
    if argv == [""]:
        raise UsageError("program: '' is no path")
    if not packages:
        _try(doc, policy, argv, options)
    path = {} if options["search_path"] is None else {"PATH": options["search_path"]}
    return Creation(
        name,
        policy,
        Order(
            ["session", "start", "--json", "--quiet", f"--name={name}", *words, "--", *argv],
            _started,
            env=path,
            cwd=options["cwd"],
            policy=json.dumps({"version": 1, **nest(doc)}).encode(),
        ),
        installs=bool(packages),
    )


def _try(doc: Mapping[str, Any], policy: Policy, argv: List[str], options: Dict[str, Any]) -> None:
    """The library says more exactly than the command what is wrong."""
    tried = from_document({k: v for k, v in doc.items() if k != "commands"}, policy.unlimited)
    try:
        launcher().plan(tried.native("/"), argv or ["/bin/sh"], **options)
    except _cordon.Error as error:
        raise_native(error)


def _started(done: Done) -> None:
    if done.status != 0:
        message, _ = _said(done)
        raise failed(done, StateError if "is running already" in message else SetupError)


# --- commands --------------------------------------------------------------------------------------


def _options_of(args: RunArguments) -> Tuple[List[str], Dict[str, str]]:
    words: List[str] = []
    wall = limit_of("limits.wall", "timeout", args.timeout, 1000)
    output = limit_of("limits.output", "max_output", args.max_output, 1)
    words += [f"--timeout={wall}ms"] if wall else []
    words += [f"--max-output={output}"] if output else []
    words += [] if args.cwd is None else [f"--cwd={_arguments.path('cwd', args.cwd)}"]
    words += ["--kill-rest"] if args.orphans == "kill" else []
    unseen: Dict[str, str] = {}
    for name, value in _arguments.variables("env", args.env).items():
        if name in USED_BY_COMMAND or name.startswith(("XDG_", "CORDON_")):
            words.append(f"--env={name}={value}")
        else:
            words.append(f"--env={name}")
            unseen[name] = value
    return words, unseen


def _argv_of(args: RunArguments) -> List[str]:
    cmd = args.cmd
    shell = None if args.shell is None else _arguments.path("shell", args.shell)
    if shell == "":
        raise UsageError("shell: '' is no path")
    if not isinstance(cmd, str):
        _arguments.words("cmd", cmd)
    argv = _arguments.words("cmd", argv_of(cmd, shell))
    if not argv or not argv[0]:
        raise UsageError("the command is empty")
    return argv


def exec_order(name: str, args: RunArguments, policy: Optional[Policy]) -> Order[Result]:
    """``cordon session exec --json``: the receipt has the output."""
    words, env = _options_of(args)
    argv = _argv_of(args)
    if args.merge:
        argv = [*_MERGED, *argv]

    def finish(done: Done) -> Result:
        if not done.stdout:
            raise failed(done)
        raw = _json(done)
        for stream in ("stdout", "stderr"):
            raw[stream] = (raw.get(stream) or "").encode("utf-8", "surrogateescape")
        raw["status"] = done.status
        return result_of(raw, args.merge, policy, False)

    full = ["session", "exec", "--json", "--quiet", *words, name, "--", *argv]
    return Order(full, finish, stdin=args.stdin_for_library(), env=env)


def channel_order(name: str, args: RunArguments, fd: int, shared: Optional[str]) -> Order[None]:
    """``cordon session exec --channel``: its process stands for the command. ``shared``: for the session's
    interpreter of this name."""
    words, env = _options_of(args)
    words += [] if shared is None else [f"--interpreter={shared}"]
    full = ["session", "exec", "--quiet", f"--channel={fd}", *words, name, "--", *_argv_of(args)]
    return Order(full, _check, env=env)


def start_order(name: str, args: RunArguments) -> Order[int]:
    """``cordon session exec -d``: the number of the command."""
    words, env = _options_of(args)

    def finish(done: Done) -> int:
        _check(done)
        return int(done.stdout)

    return Order(["session", "exec", "--detach", *words, name, "--", *_argv_of(args)], finish, env=env)


def output_limit(args: RunArguments) -> Optional[int]:
    """``max_output`` in bytes."""
    return limit_of("limits.output", "max_output", args.max_output, 1) or None


def check_number(number: Any) -> int:
    """The number of a command."""
    return _arguments.whole("number", number, 1, (1 << 32) - 1)


def _number(number: Any) -> str:
    return str(check_number(number))


def logs_order(name: str, number: int) -> Order[bytes]:
    """What a command that was started has written so far."""

    def finish(done: Done) -> bytes:
        _check(done)
        return done.stdout

    return Order(["session", "logs", "--", name, _number(number)], finish)


def kill_order(name: str, number: int, signal: int) -> Order[None]:
    """A signal, of which 9 ends everything that the command started."""
    text = str(_arguments.whole("signal", signal, 1, 64))
    return Order(["session", "kill", "--", name, _number(number), text], _check)


def interpreters_of(status: Mapping[str, Any]) -> List[str]:
    """The languages of the session's own interpreters that run."""
    names = (one.get("interpreter") for one in status["commands"] if one["running"])
    return [name for name in names if name in languages()]


def number_of(interpreter: str, status: Mapping[str, Any]) -> Optional[int]:
    """The session's own interpreter of this name, as a command; None: there is none."""
    found = (one for one in status["commands"] if one["running"] and one.get("interpreter") == interpreter)
    return next((cast(int, one["number"]) for one in found), None)


def state_of(number: int, status: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """What ps() knows of a command that is over; None while it runs."""
    for entry in status["commands"]:
        if entry["number"] == number:
            return None if entry["running"] else dict(entry)
    raise StateError(
        f"how command {number} ended is not known", hint="that of the last 32 started commands is"
    )


def ended_order(
    name: str, state: Mapping[str, Any], limit: Optional[int], policy: Optional[Policy]
) -> Order[Result]:
    """The result of a command that was started and is over. Its output is merged; what it used is not
    known."""

    def finish(done: Done) -> Result:
        kind, status = state["kind"], state["status"]
        error: Dict[str, Any] = {}
        if done.status != 0:
            lost = failed(done)
            if isinstance(lost, ClosedError):
                raise lost
            error = {"message": lost.message, "hint": lost.hint, "code": "setup"}
        is_cut = len(done.stdout) >= min(limit or _LOGS_BYTES, _LOGS_BYTES)
        raw: Dict[str, Any] = {
            "kind": kind,
            "status": status,
            "exit_code": status if kind == "exited" else None,
            "signal": status - 128 if kind == "signaled" else None,
            "stdout": done.stdout,
            "truncated": {"stdout": is_cut, "stderr": False},
            "error": error or None,
        }
        return result_of(raw, True, policy, False)

    return Order(["session", "logs", "--", name, _number(state["number"])], finish)


# --- the session as a whole ------------------------------------------------------------------------


def status_order(name: str, lost: Type[CordonError] = ClosedError) -> Order[Dict[str, Any]]:
    """``cordon session ps --json``."""

    def finish(done: Done) -> Dict[str, Any]:
        if done.status != 0:
            raise failed(done, lost=lost)
        return cast(Dict[str, Any], _json(done))

    return Order(["session", "ps", "--json", "--", check_name(name)], finish)


def usage_of(status: Mapping[str, Any]) -> Dict[str, Any]:
    """The same as Session.usage()."""
    made = {key: status[key] for key in ("memory_bytes", "tasks", "cpu_ms", "uptime_ms", "paused")}
    return {**made, "commands": sum(entry["running"] for entry in status["commands"])}


def simple_order(verb: str, name: str) -> Order[None]:
    """pause or resume."""
    return Order(["session", verb, "--", name], _check)


def env_order(name: str, variables: Mapping[str, str]) -> Order[None]:
    """Variables for all commands from now on."""
    return Order(["session", "env", "--", name, *(f"{key}={value}" for key, value in variables.items())], _check)


def stop_order(name: str) -> Order[Dict[str, Any]]:
    """Its receipt, and beside it ``session``: by what it was ended."""

    def finish(done: Done) -> Dict[str, Any]:
        _check(done)
        told = _json(done)
        return {**told["receipt"], "session": told["session"]}

    return Order(["session", "stop", "--json", "--", name], finish)


def list_order() -> Order[List[Dict[str, Any]]]:
    """``cordon ps --json``, which lists runs as well."""

    def finish(done: Done) -> List[Dict[str, Any]]:
        _check(done)
        listed = cast(List[Dict[str, Any]], _json(done))
        return [one for one in listed if one.get("type") != "run"]

    return Order(["ps", "--json"], finish)


# --- files -----------------------------------------------------------------------------------------


def _host_path(name: str, path: StrPath) -> str:
    text = _arguments.path(name, path)
    if not text:
        raise UsageError(f"{name}: '' is no path")
    return text if os.path.isabs(text) else os.path.join(current_directory(), text)


def _raise_file_error(done: Done, inside: str, host: Optional[str]) -> NoReturn:
    """The OSError that fits, as other file operations raise it."""
    error = failed(done)
    head, _, reason = error.message.rpartition(": ")
    path = inside if head.endswith(" in the session") or host is None else host
    if type(error) is StateError and reason.lower() in _ERRNOS:
        number = _ERRNOS[reason.lower()]
        raise OSError(number, os.strerror(number), path)
    if "not a regular file" in error.message and host is not None:
        if os.path.isdir(host):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), host)
        raise PathError(error.message)
    raise error


def _file_order(words: List[str], finish: Callable[[Done], T], inside: str, host: Optional[str]) -> Order[T]:
    def checked(done: Done) -> T:
        if done.status != 0:
            _raise_file_error(done, inside, host)
        return finish(done)

    return Order(words, checked)


def put_order(name: str, host_path: StrPath, path: StrPath) -> Order[None]:
    """A file of the host into the session."""
    host, inside = _host_path("host_path", host_path), _arguments.path("path", path)
    return _file_order(["session", "put", "--", name, host, inside], _check, inside, host)


def get_order(name: str, path: StrPath, host_path: StrPath) -> Order[None]:
    """A file of the session to the host."""
    host, inside = _host_path("host_path", host_path), _arguments.path("path", path)
    return _file_order(["session", "get", "--", name, inside, host], _check, inside, host)


def ls_order(name: str, path: StrPath) -> Order[List[FileInfo]]:
    """What is in a directory."""
    inside = _arguments.path("path", path)

    def finish(done: Done) -> List[FileInfo]:
        return [
            FileInfo(
                entry["name"],
                entry["name"] if inside == "." else os.path.join(inside, entry["name"]),
                TYPES.get(stat.S_IFMT(entry["mode"]), "device"),
                entry["size"],
                stat.S_IMODE(entry["mode"]),
                entry["mtime_ns"] / 1e9,
            )
            for entry in _json(done)
        ]

    return _file_order(["session", "ls", "--json", "--", name, inside], finish, inside, None)
