# SPDX-License-Identifier: Apache-2.0
"""The settings as type checkers see them. Nothing here is used when a program runs.

A misspelt name, a wrong unit or a value of another type is told while it is typed. The library and
`keys` check the same again at run time; a test compares the names here with theirs.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import IO, TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, TypedDict, Union

if TYPE_CHECKING:
    from typing import Literal

    from ._policy import Env, Fs, Limits, Net

    Isolation = Literal["auto", "landlock", "namespaces", "microvm"]
    Orphans = Literal["kill", "keep"]
    Preset = Literal["agent", "python", "node", "build", "strict"]
    Limit = Literal[
        "wall", "memory", "procs", "cpu", "cpu_time", "open_files", "disk", "file_size", "output"
    ]
    Kind = Literal[
        "exited", "signaled", "timeout", "memory", "cpu_time", "output", "disk", "procs",
        "cancelled", "denied", "spawn_failed", "sandbox_error",
    ]  # fmt: skip

_Path = Union[str, "os.PathLike[str]"]
_Paths = Union[_Path, Sequence[_Path]]
_Words = Union[str, Sequence[str]]
_Size = Union[int, float, str]  # bytes, or "64M"; math.inf: no limit
_Duration = Union[int, float, str, timedelta]  # seconds, or "500ms"
_Ports = Union[int, str, Sequence[Union[int, str]]]


class RunSettings(TypedDict, total=False):
    """What a single run may tighten: the keys of a policy, with underscores. None: not given."""

    fs_read: Optional[_Paths]
    fs_write: Optional[_Paths]
    fs_deny: Optional[_Paths]
    fs_workspace: Optional[_Path]
    fs_protect: Optional[Union[bool, Literal["on", "existing", "off"]]]
    net_allow: Optional[_Words]
    net_deny: Optional[_Words]
    net_publish: Optional[_Ports]
    net_max: Optional[_Size]
    env_pass: Optional[_Words]
    env_set: Optional[Mapping[str, str]]
    commands: Optional[_Words]
    gpu: Optional[Union[str, int, Sequence[Union[str, int]]]]
    devices: Optional[_Paths]
    limits_wall: Optional[_Duration]
    limits_grace: Optional[_Duration]
    limits_memory: Optional[_Size]
    limits_procs: Optional[int]
    limits_cpu: Optional[float]
    limits_cpu_time: Optional[_Duration]
    limits_open_files: Optional[int]
    limits_disk: Optional[_Size]
    limits_file_size: Optional[_Size]
    limits_output: Optional[_Size]
    limits_output_end: Optional[bool]
    isolation: Optional[Isolation]
    require: Optional[_Words]
    best_effort: Optional[Union[Limit, Sequence[Limit]]]
    user: Optional[str]
    # Plain names, as SandboxConfig has them.
    max_execution_seconds: Optional[float]
    max_memory_mb: Optional[float]
    max_cpu_percent: Optional[float]
    max_output_bytes: Optional[int]
    max_procs: Optional[int]
    network_enabled: Optional[bool]
    writable_paths: Optional[_Paths]
    allowed_commands: Optional[_Words]
    # Groups, as a policy file has them.
    fs: Optional[Union[Fs, Mapping[str, Any]]]
    net: Optional[Union[Net, Mapping[str, Any]]]
    limits: Optional[Union[Limits, Mapping[str, Any]]]


class SandboxSettings(RunSettings, total=False):
    """The settings of a sandbox."""

    cwd: Optional[_Path]


class DetachedSettings(SandboxSettings, total=False):
    """The settings of a session that outlives its maker."""

    packages: Sequence[str]
    build_packages: bool


class InterpreterSettings(RunSettings, total=False):
    """The settings of an interpreter's own sandbox."""

    workdir: Union[_Path, bool, None]
    persist: bool
    keep: bool
    name: Optional[str]
    env: Optional[Mapping[str, str]]
    parked: int


class PolicySettings(SandboxSettings, total=False):
    """The settings of a policy."""

    env: Optional[Union[Env, Mapping[str, Any]]]


class OneRunSettings(SandboxSettings, total=False):
    """What run() takes: the settings of a sandbox and the arguments of its only run."""

    workdir: Union[_Path, bool, None]
    persist: Optional[bool]
    name: Optional[str]
    packages: Sequence[str]
    build_packages: bool
    env: Optional[Mapping[str, str]]
    shell: Optional[str]
    stdin: Union[None, bytes, bytearray, memoryview, str, int, IO[Any]]
    timeout: Optional[_Duration]
    max_output: Optional[_Size]
    merge: Optional[bool]
    orphans: Optional[Orphans]
    check: Optional[bool]
    on_stdout: Optional[Callable[[bytes], object]]
    on_stderr: Optional[Callable[[bytes], object]]
    tty: Optional[bool]
