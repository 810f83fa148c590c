# SPDX-License-Identifier: Apache-2.0
"""libcordon as Python objects, thin. Use the package `pycordon` instead, unless you build on this."""

import os
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Union, final

_Word = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
_Data = Union[bytes, bytearray, memoryview]

__version__: str
NULL: int
CAPTURE: int
JOIN: int
ORPHANS_KILL: int
ORPHANS_KEEP: int

class Error(Exception):
    """What libcordon could not do."""

    code: int
    name: str  # of the code, such as "policy"
    errno: int  # 0: none
    stage: str  # of the set-up, "outside" if it failed in this process
    message: str
    hint: str  # "": none

@final
class Policy:
    """What a run may do. A change that fails changes nothing. May be used after fork."""

    def __new__(cls) -> Policy: ...
    def preset(self, name: str) -> None: ...
    def json(
        self, text: Union[str, bytes], name: str = "policy", base_dir: Optional[_Word] = None
    ) -> None: ...
    def file(self, path: _Word) -> None: ...
    def set(self, key: str, value: _Word) -> None: ...
    def copy(self) -> Policy: ...
    def __copy__(self) -> Policy: ...
    def __deepcopy__(self, memo: object) -> Policy: ...
    def to_json(self) -> str: ...

@final
class Launcher:
    """Starts runs, from any thread. Belongs to the process that made it."""

    def __new__(cls) -> Launcher: ...
    def start(
        self,
        policy: Policy,
        argv: Iterable[_Word],
        *,
        # what the policy picks from; None: nothing
        env: Optional[Mapping[Any, Any]] = None,
        cwd: Optional[_Word] = None,
        home: Optional[_Word] = None,
        # a PATH to find argv[0]; None: that of env
        search_path: Optional[_Word] = None,
        # nothing, bytes, or a descriptor
        stdin: Union[None, _Data, int] = None,
        # "capture", "null" or a descriptor
        stdout: Union[str, int] = "capture",
        # the same, or "join": goes where stdout goes
        stderr: Union[str, int] = "capture",
        # if the policy has no such limit. 0: the default, -1: none
        wall_ms: int = 0,
        memory_bytes: int = 0,
        keep_orphans: bool = False,
        # with a terminal, stderr is "join" unless given
        terminal: bool = False,
        rows: int = 0,
        cols: int = 0,
        net_log_fd: int = -1,
        workspace_name: Optional[_Word] = None,
        workspace_from: Optional[_Word] = None,
        workspace_changes: bool = False,
        # told (files, bytes) while a workspace is copied; False ends it
        workspace_progress: Optional[Callable[[int, int], Any]] = None,
        state_dir: Optional[_Word] = None,
        private_dir: Optional[_Word] = None,
        code_dir: Optional[_Word] = None,
        files: bool = False,
        # a sealed memory file that is executed in place of argv[0]'s
        image_fd: int = -1,
        # a stream socket: the command's descriptor 3, and Run.channel()
        channel: bool = False,
        # started for a user to come: Run.is_as_new()
        ahead: bool = False,
        # its time and its standard input begin with Run.begin()
        held: bool = False,
    ) -> Run: ...
    def pool(
        self, parked: int, max_age_ms: int, policy: Policy, argv: Iterable[_Word], /, **options: Any
    ) -> Pool:
        """Sandboxes made ahead for runs like this. 0: the default of either number."""

    def packages(
        self,
        specs: Iterable[_Word],
        files: Iterable[_Word],
        may_build: bool = False,
        *,
        python: Optional[_Word] = None,
        env: Mapping[str, str] = ...,
        home: Optional[_Word] = None,
        search_path: Optional[_Word] = None,
        hosts: Optional[str] = None,
        isolation: Optional[str] = None,
        max_bytes: int = 0,
        line: Optional[Callable[[str], object]] = None,
        policy: Optional[Policy] = None,
    ) -> Tuple[object, List[str], List[str], List[str]]:
        """Finds or installs packages: what keeps them, and what runs need (directories, variables,
        directories of programs)."""

    def plan(self, policy: Policy, argv: Iterable[_Word], **options: Any) -> str:
        """What start() would do with these options, as JSON; nothing runs."""

    def session(self, policy: Policy, argv: Optional[Iterable[_Word]], **options: Any) -> Session:
        """A sandbox for commands that come later; argv[0] is a program that they may use besides
        those of the system and of PATH."""

    def check(self) -> str:
        """What this machine offers, tried for real, as JSON."""

@final
class Run:
    """One command in one sandbox. Ends with this object. Any method from any thread."""

    @property
    def done(self) -> bool: ...
    @property
    def over(self) -> bool:
        """The result is complete and no process is left (see orphans)."""
    def fileno(self) -> int:
        """Polls readable when process() has something to do."""

    def process(self) -> bool:
        """Handles what happened, never blocks. True: the result is complete."""

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Until the result is complete (True) or `timeout` seconds passed (False).

        Signal handlers run meanwhile; what they raise comes out here, and the run goes on.
        """

    def signal(self, number: int, /) -> None: ...
    def end(self, signal: int = ..., /) -> None: ...
    def cancel(self) -> None: ...
    def resize(self, rows: int, cols: int, /) -> None: ...
    def channel(self) -> int:
        """This end of the channel, -1: none. The run closes it. Read it with recv() only."""

    def is_as_new(self) -> bool:
        """For one that was started with ``ahead``: it goes on, and a run that this thread started now
        would inherit the same."""

    def begin(self, data: bytes, wall_ms: int, /) -> None:
        """Begins one that was started with ``held``: ``data`` is its standard input. ``wall_ms``: its time
        limit; 0: that of its start, -1: none."""

    def branch(self, max_bytes: int, max_files: int, /) -> str:
        """Id of a new workspace that begins as a copy of this run's. 0: no bound."""

    def workspace(self) -> Optional[str]:
        """Id of the workspace that it has, or had."""

    def published(self) -> List[Tuple[str, str, int, int]]:
        """(address, protocol, host_port, port) of each published port."""

    def notes(self) -> List[str]: ...
    def result(self) -> Dict[str, Any]:
        """The receipt as Python values.

        stdout and stderr are bytes (None unless captured); `status` (0-255) and `write_errno` (of
        both streams) come on top.
        """

    def receipt(self, with_output: bool = False) -> str:
        """The receipt as JSON."""

    def close(self) -> None:
        """Ends the run if it is not over, and frees it."""

@final
class Pool:
    """Sandboxes made ahead. Any method from any thread."""

    def start(self, policy: Policy, argv: Iterable[_Word], **options: Any) -> Run:
        """As Launcher.start(), with a parked init if one fits."""

    def refill(self) -> int:
        """Parks what is missing; how many that were."""

    def stats(self) -> Dict[str, int]:
        """parked, warm, cold, misfits, stale, made, dropped."""

    def close(self) -> None:
        """Ends the parked inits. Runs go on."""

@final
class Session:
    """A sandbox for several commands. Any method from any thread."""

    def fileno(self) -> int: ...
    def process(self) -> bool: ...
    def exec(
        self,
        argv: Iterable[_Word],
        *,
        env: Optional[Mapping[Any, Any]] = None,  # in addition to the session's
        cwd: Optional[_Word] = None,  # inside
        stdin: Union[None, _Data, int] = None,
        stdout: Union[str, int] = "capture",
        stderr: Union[str, int] = "capture",
        wall_ms: int = 0,  # 0: no limit of its own
        output_bytes: int = 0,
        keep: bool = False,  # what it leaves goes on
        files: bool = False,  # serve files instead of executing
        channel_fd: int = -1,  # appears as descriptor 3
        image: bool = False,  # execute the session's image_fd in place of argv[0]'s file
    ) -> Command: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def usage(self) -> Dict[str, Any]: ...
    def notes(self) -> List[str]: ...
    def published(self) -> List[Tuple[str, str, int, int]]: ...
    def workspace(self) -> Optional[str]: ...
    def branch(self, max_bytes: int, max_files: int, /) -> str: ...  # while nothing runs in it
    def result(self) -> Optional[Dict[str, Any]]: ...
    def close(self, signal: int = 0) -> None: ...

@final
class Command:
    """A command of a session; ends with this object."""

    def wait(self, seconds: float = -1.0) -> bool: ...
    def result(self) -> Optional[Dict[str, Any]]: ...
    def signal(self, number: int) -> None: ...
    def end(self, signal: int = 9, grace_ms: int = 0) -> None: ...

@final
class Workspace:
    """An opened workspace. One call at a time; others wait. `choose` must not use it."""

    # which: id, name, or the directory it is over
    def __new__(cls, which: _Word, state_dir: Optional[_Word] = None) -> Workspace: ...
    def info(self) -> Dict[str, Any]: ...
    def summary(self) -> Dict[str, int]: ...
    def changes(self) -> List[Dict[str, Any]]: ...
    def to_json(self, pretty: bool = False) -> str: ...
    def commit(
        self,
        *,
        paths: Iterable[_Word] = (),
        exclude: Iterable[_Word] = (),
        conflicts: str = "refuse",  # or "ours", "theirs"
        dry_run: bool = False,
        choose: Optional[Callable[[Dict[str, Any]], Any]] = None,
    ) -> Dict[str, Any]:
        """applied, refused, conflicts, skipped, failed, is_empty, and `changes`: what became of each
        (path, from, kind, outcome, message, hint)."""

    def patch(self, fd: int, paths: Iterable[_Word] = ()) -> int: ...
    def export(self, format: str, fd: int, paths: Iterable[_Word] = ()) -> int:
        """`format` is "tar" or "patch". How many changes the format has no place for."""

    def branch(self, max_bytes: int, max_files: int, /) -> str:
        """Id of a new workspace that begins as a copy. 0: no bound."""

    def discard(self) -> None: ...
    def close(self) -> None: ...

def workspace_list(state_dir: Optional[_Word] = None) -> List[Dict[str, Any]]: ...
def workspace_gc(
    state_dir: Optional[_Word] = None, older_than: Optional[int] = None, dry_run: bool = False
) -> List[Dict[str, Any]]:
    """What was removed (or would be), with the reason as "why"."""

def version() -> str: ...
def policy_schema() -> str: ...
def confine(policy: Policy, cwd: Optional[_Word] = None, home: Optional[_Word] = None) -> None:
    """Shuts this process in for good."""

def file_states(paths: bytes, /) -> bytes: ...
def private_copy(dir: str, to: str, max_bytes: int, max_files: int, /) -> None:
    """Copies a private directory into an empty one."""

def private_exchange(dir: str, other: str, /) -> None:
    """Exchanges what is in two private directories."""

def private_remove(dir: _Word, /) -> None:
    """Removes a private directory and all that is in it."""
