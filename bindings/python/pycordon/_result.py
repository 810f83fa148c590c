# SPDX-License-Identifier: Apache-2.0
"""The account of one run."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple

from ._errors import CordonError, RunError, TimeoutExpired
from ._hints import in_python, setting

if TYPE_CHECKING:
    from typing import Literal

    from ._types import Kind
    from ._policy import Policy

_NOT_IN_RECEIPT = ("stdout", "stderr", "status", "write_errno")
_RESOURCES = ("memory", "cpu_time", "output", "disk", "procs")


class SandboxStatus(str, Enum):
    """How a run ended, in one of four words."""

    SUCCESS = "success"
    TIMEOUT = "timeout"
    ERROR = "error"
    RESOURCE_EXCEEDED = "resource_exceeded"

    def __str__(self) -> str:
        return self.value


def _highest(one: Optional[int], other: Optional[int]) -> Optional[int]:
    known = [value for value in (one, other) if value is not None]
    return max(known) if known else None


@dataclass(frozen=True)
class Usage:
    """What runs used. A value is None if it could not be told."""

    cpu_user_ms: Optional[float] = None
    cpu_system_ms: Optional[float] = None
    max_memory_bytes: Optional[int] = None
    procs_peak: Optional[int] = None
    disk_bytes: Optional[int] = None
    net_bytes_in: int = 0
    net_bytes_out: int = 0
    runs: int = 1
    duration_ms: float = 0.0
    max_gpu_memory_bytes: Optional[int] = None
    gpu_utilization_percent: Optional[int] = None

    def plus(self, other: "Usage") -> "Usage":
        """Totals: times and traffic add up, of the others the highest counts."""
        return Usage(
            cpu_user_ms=(self.cpu_user_ms or 0.0) + (other.cpu_user_ms or 0.0),
            cpu_system_ms=(self.cpu_system_ms or 0.0) + (other.cpu_system_ms or 0.0),
            max_memory_bytes=max(self.max_memory_bytes or 0, other.max_memory_bytes or 0),
            procs_peak=max(self.procs_peak or 0, other.procs_peak or 0),
            disk_bytes=max(self.disk_bytes or 0, other.disk_bytes or 0),
            net_bytes_in=self.net_bytes_in + other.net_bytes_in,
            net_bytes_out=self.net_bytes_out + other.net_bytes_out,
            runs=self.runs + other.runs,
            duration_ms=self.duration_ms + other.duration_ms,
            max_gpu_memory_bytes=_highest(self.max_gpu_memory_bytes, other.max_gpu_memory_bytes),
            gpu_utilization_percent=_highest(self.gpu_utilization_percent, other.gpu_utilization_percent),
        )


@dataclass(frozen=True)
class Denial:
    """One refusal: what was tried, on what, which key of the policy was behind it, and the flag of
    the command line that would allow it (may be None). ``how`` it is known: ``enforced`` (what refused
    it says so), ``observed`` (Cordon saw signs of it) or ``said`` (the command named it in its
    output, and it is so). Where it is known: ``count`` (how often), ``errno`` (what the command got;
    with ``said`` by its own words) and ``program`` (the name that it gave itself)."""

    what: str
    target: str
    rule: str
    fix: Optional[str] = None
    how: str = "enforced"
    # Details: the same refusal is equal whether they are known or not.
    count: Optional[int] = field(default=None, compare=False)
    errno: Optional[int] = field(default=None, compare=False)
    program: Optional[str] = field(default=None, compare=False)

    @property
    def setting(self) -> Optional[str]:
        """What would allow it, as an argument of Sandbox(): ``net_allow=["example.com"]``; None if
        no setting does."""
        flag, _, value = (self.fix or "").partition(" ")
        both = shlex.split(self.fix or "")
        if len(both) == 4 and both[0] == both[2]:  # two paths
            first, second = setting(flag, both[1]), setting(flag, both[3])
            if first and second and first.endswith("]"):
                return f"{first[:-1]}, {second.partition('[')[2]}"
        return setting(flag, value or None)


@dataclass(frozen=True)
class Published:
    """A port of the sandbox and where the host finds it."""

    address: str
    protocol: str
    host_port: int
    port: int


@dataclass(frozen=True)
class Truncated:
    """Whether something of a stream was cut."""

    stdout: bool = False
    stderr: bool = False

    def __bool__(self) -> bool:
        return self.stdout or self.stderr

    def __getitem__(self, stream: str) -> bool:
        return bool(getattr(self, stream))


_SHOWN = 200  # characters of a stream in repr()


def _short(text: str) -> str:
    if len(text) <= _SHOWN:
        return repr(text)
    return f"{text[:_SHOWN]!r}… ({len(text)} characters)"


@dataclass(frozen=True, repr=False)
class Result:
    """How a run ended, what it wrote and what it used.

    ``kind`` is the truth: ``exited``, ``signaled``, ``timeout``, ``memory``, ``cpu_time``,
    ``output``, ``disk``, ``procs``, ``cancelled``, ``denied`` or ``spawn_failed``. ``returncode``
    is its shadow as a shell would see it (128 + n for signals, 124 for time limits, 127 for a
    missing program). ``policy`` is what the run was allowed. ``step`` is ``run``, or ``compile`` if the
    program could not be compiled: then all this is about the compiler, and the program has not run.
    """

    kind: "Kind"
    returncode: int
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    merged: bool = False
    truncated: Truncated = Truncated()
    total_bytes: Mapping[str, int] = field(default_factory=dict)
    duration_ms: float = 0.0
    setup_ms: float = 0.0
    usage: Usage = Usage()
    isolation: Mapping[str, Any] = field(default_factory=dict)
    denials: Tuple[Denial, ...] = ()
    error: Optional[str] = None
    hint: Optional[str] = None
    workspace: Optional[Mapping[str, Any]] = None
    published: Tuple[Published, ...] = ()
    notes: Tuple[str, ...] = ()
    receipt: Mapping[str, Any] = field(default_factory=dict)
    policy: Optional["Policy"] = field(default=None, compare=False)
    lost_files: Optional[Mapping[str, Any]] = None
    step: "Literal['run', 'compile']" = "run"

    def __repr__(self) -> str:
        parts = [f"kind={self.kind!r}", f"returncode={self.returncode}"]
        if self.step != "run":
            parts.append(f"step={self.step!r}")
        parts += [f"stdout={_short(self.stdout)}", f"stderr={_short(self.stderr)}"]
        if self.truncated:
            parts.append("truncated=True")
        if self.error is not None:
            parts.append(f"error={self.error!r}")
        return f"Result({', '.join(parts)})"

    @property
    def stdout(self) -> str:
        """Standard output as text; bytes that are not UTF-8 are replaced."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """Standard error as text; bytes that are not UTF-8 are replaced."""
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def text(self) -> str:
        """Standard output, then standard error: what a model should see."""
        return self.stdout + self.stderr

    @property
    def output(self) -> str:
        """Both streams. In the order in which they were written if the run had ``merge=True``."""
        return self.text

    @property
    def ok(self) -> bool:
        """Whether the command ended by itself with exit code 0."""
        return self.kind == "exited" and self.exit_code == 0

    @property
    def status(self) -> SandboxStatus:
        """How it ended, in one of four words."""
        if self.ok:
            return SandboxStatus.SUCCESS
        if self.kind == "timeout":
            return SandboxStatus.TIMEOUT
        if self.kind in _RESOURCES:
            return SandboxStatus.RESOURCE_EXCEEDED
        return SandboxStatus.ERROR

    @property
    def execution_time_ms(self) -> float:
        """From the start of the set-up to the end of the tree."""
        return self.duration_ms

    @property
    def memory_used_mb(self) -> Optional[float]:
        """The most memory that the run was seen to use, in MiB."""
        most = self.usage.max_memory_bytes
        return None if most is None else most / 1048576

    def explain(self) -> str:
        """Two or three lines that a person or a model can act on: what was refused, which setting
        would allow it, whether trying again helps."""
        from ._explain import explain

        return explain(self)

    def raise_for_status(self) -> "Result":
        """Raises RunError (TimeoutExpired) unless the command succeeded; gives itself otherwise."""
        if self.ok:
            return self
        from ._explain import headline

        kind = TimeoutExpired if self.kind == "timeout" else RunError
        raise kind(headline(self), self)

    def to_dict(self) -> Dict[str, Any]:
        """The receipt, as ``cordon run --json`` prints it; output as text."""
        made = dict(self.receipt)
        made["kind"] = self.kind
        if self.step != "run":
            made["step"] = self.step
        made["stdout"], made["stderr"] = self.stdout, self.stderr
        return made


def _denial(raw: Mapping[str, Any]) -> Denial:
    return Denial(
        raw["what"],
        raw["target"],
        raw["rule"],
        raw.get("fix"),
        raw.get("how", "enforced"),
        raw.get("count"),
        raw.get("errno"),
        raw.get("program"),
    )


def _usage(raw: Mapping[str, Any], duration: float) -> Usage:
    names = ("cpu_user_ms", "cpu_system_ms", "max_memory_bytes", "procs_peak", "disk_bytes")
    of_gpus = ("max_gpu_memory_bytes", "gpu_utilization_percent")
    values: Dict[str, Any] = {name: raw.get(name) for name in names + of_gpus}
    return Usage(
        **values,
        net_bytes_in=raw.get("net_bytes_in") or 0,
        net_bytes_out=raw.get("net_bytes_out") or 0,
        duration_ms=duration,
    )


def from_receipt(
    raw: Dict[str, Any],
    merged: bool = False,
    notes: Tuple[str, ...] = (),
    policy: Optional["Policy"] = None,
) -> Result:
    """A result from what ``Run.result()`` gives."""
    receipt = {k: v for k, v in raw.items() if k not in _NOT_IN_RECEIPT}
    truncated = raw.get("truncated") or {}
    error = raw.get("error") or {}
    return Result(
        kind=raw["kind"],
        returncode=raw["status"],
        exit_code=raw.get("exit_code"),
        signal=raw.get("signal"),
        stdout_bytes=raw.get("stdout") or b"",
        stderr_bytes=raw.get("stderr") or b"",
        merged=merged,
        truncated=Truncated(
            bool(truncated.get("stdout")), bool(truncated.get("stderr"))
        ),
        total_bytes=dict(raw.get("output_bytes") or {}),
        duration_ms=raw.get("duration_ms") or 0.0,
        setup_ms=raw.get("setup_ms") or 0.0,
        usage=_usage(raw.get("usage") or {}, raw.get("duration_ms") or 0.0),
        isolation=raw.get("isolation") or {},
        denials=tuple(
            _denial(d) for d in raw.get("denials", ())
        ),
        error=error.get("message"),
        hint=in_python(error.get("hint")),
        workspace=raw.get("workspace"),
        lost_files=raw.get("lost_files"),
        published=tuple(
            Published(p["address"], p["protocol"], p["host_port"], p["port"])
            for p in raw.get("published", ())
        ),
        notes=tuple(in_python(note) or "" for note in notes),
        receipt=receipt,
        policy=policy,
    )


def not_started(error: CordonError, kind: "Kind" = "spawn_failed", status: int = 0) -> Result:
    """The result of a command that could not be executed (127, 126) or that the policy's list of
    commands refuses."""
    status = status or (127 if error.code == "not_found" else 126)
    details = {
        "code": error.code,
        "stage": error.stage,
        "errno": error.errno,
        "message": error.message,
        "hint": error.hint,
    }
    denials: List[Denial] = []
    receipt: Dict[str, Any] = {
        "kind": kind,
        "exit_code": None,
        "signal": None,
        "truncated": {"stdout": False, "stderr": False},
        "output_bytes": {"stdout": 0, "stderr": 0},
        **dict.fromkeys(("duration_ms", "setup_ms", "run_ms", "teardown_ms"), 0.0),
        "usage": {
            **dict.fromkeys(("cpu_user_ms", "cpu_system_ms"), 0.0),
            **dict.fromkeys(("max_memory_bytes", "procs_peak", "disk_bytes"), 0),
            **dict.fromkeys(("max_gpu_memory_bytes", "gpu_utilization_percent")),
            **dict.fromkeys(("net_bytes_in", "net_bytes_out"), 0),
        },
        "isolation": {"level": "auto", "layers": [], "missing": [], "limits": {}},
        "denials": [],
        "published": [],
        "workspace": None,
        "lost_files": None,
        "error": details,
    }
    if kind == "denied":
        name = getattr(error, "target", "")
        denials.append(Denial("execve", name, "commands", f"--commands {name}"))
        receipt["denials"] = [{k: v for k, v in vars(d).items() if v is not None} for d in denials]
    return Result(
        kind=kind,
        returncode=status,
        total_bytes={"stdout": 0, "stderr": 0},
        usage=Usage(0.0, 0.0, 0, 0, 0),
        denials=tuple(denials),
        error=error.message,
        hint=error.hint,
        receipt=receipt,
    )
