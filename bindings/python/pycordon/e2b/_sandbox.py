# SPDX-License-Identifier: Apache-2.0
"""``Sandbox``: E2B's interface for programs without an event loop."""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, NoReturn, Optional, Type, TypeVar, Union, cast

from .._interpreter import Interpreter
from .._policy import Config
from ._box import DEFAULT_SECONDS, Box, all_boxes, find_box
from ._code import OUTPUT_MAX, Kernel, Kernels, arguments, finished, messages
from ._commands import Commands
from ._errors import SandboxNotFoundException, not_here, translated
from ._filesystem import Filesystem
from ._models import Context, Execution, OutputHandler, SandboxInfo, SandboxState
from ._options import make_options, service_only

S = TypeVar("S", bound="SandboxBase")


class both:
    """A method that can be called on the class as well, with the id of a sandbox before its arguments.
    ``unknown``: what to do if there is none with that id; otherwise SandboxNotFoundException."""

    def __init__(self, method: Callable[..., Any], unknown: Optional[Callable[[], Any]] = None) -> None:
        self._method = method
        self._unknown = unknown
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is not None:
            return self._method.__get__(instance, owner)

        @functools.wraps(self._method)
        def on_class(sandbox_id: str, *args: Any, **kwargs: Any) -> Any:
            try:
                found = owner._of(find_box(sandbox_id))
            except SandboxNotFoundException:
                if self._unknown is None:
                    raise
                return self._unknown()
            return self._method(found, *args, **kwargs)

        return on_class


def absent(instead: str = "") -> Any:
    """A method that E2B has and a sandbox on this machine has not."""

    class Absent:
        def __set_name__(self, owner: Any, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: Any) -> Callable[..., NoReturn]:
            return lambda *args, **kwargs: not_here(f"{self.name}()", instead)

    return Absent()


def _interpreter(box: Box, language: str, cwd: str) -> Interpreter:
    return Interpreter(language, sandbox=cast(Any, box.sandbox), cwd=cwd, max_output=OUTPUT_MAX)


def _close(kernels: "Kernels[Interpreter]") -> None:
    for kernel in kernels.all():
        kernel.interpreter.close()


@dataclass
class SandboxQuery:
    """Which sandboxes list() gives."""

    metadata: Optional[Dict[str, str]] = None
    state: Optional[List[SandboxState]] = None


class SandboxBase:
    """What Sandbox and AsyncSandbox have in common."""

    default_template = "code-interpreter-v1"
    default_sandbox_timeout = DEFAULT_SECONDS
    _box: Box

    @classmethod
    def _new_box(
        cls, template: Optional[str], timeout: Optional[float], metadata: Optional[Mapping[str, str]],
        envs: Optional[Mapping[str, str]], allow_internet_access: Optional[bool],
        network: Optional[Mapping[str, Any]], lifecycle: Optional[Mapping[str, Any]],
        absent: Mapping[str, Any], policy: Config, opts: Mapping[str, Any],
    ) -> Box:  # fmt: skip
        return Box(
            make_options(
                template or cls.default_template, timeout, metadata, envs, allow_internet_access, network,
                lifecycle, absent, policy, opts, cls.default_sandbox_timeout,
            )
        )  # fmt: skip

    @classmethod
    def _of(cls: Type[S], box: Box) -> S:
        """An object for a sandbox that exists."""
        self = cls.__new__(cls)
        self._begin(box)
        return self

    def _begin(self, box: Box) -> None:
        self._box = box

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._box.id}{'' if self._box.is_running else ' killed'}>"

    @property
    def sandbox_id(self) -> str:
        """Its id, for connect() in this process."""
        return self._box.id

    @property
    def sandbox_domain(self) -> Optional[str]:
        """None: it is on this machine."""
        return None

    def get_host(self, port: int) -> str:
        """Where this machine finds a port inside (``127.0.0.1:PORT``), if ``net_publish=[port]`` was given
        at create()."""
        return self._box.host_of(port)

    pause = absent("a sandbox is there until kill() or its timeout")
    beta_pause = absent()
    fork = absent()
    create_snapshot = absent()
    list_snapshots = absent()
    delete_snapshot = absent()
    get_metrics = absent()
    update_network = absent("net_allow= at create() says what is reachable")
    download_url = absent("files.read() reads")
    upload_url = absent("files.write() writes")
    get_mcp_url = absent()
    get_mcp_token = absent()

    @property
    def pty(self) -> NoReturn:
        """Not available here."""
        not_here("pty", "pycordon.Sandbox.run(tty=True) has a terminal")

    @property
    def git(self) -> NoReturn:
        """Not available here."""
        not_here("git", "commands.run('git ...') runs it")


def listed(query: Optional[SandboxQuery]) -> List[SandboxInfo]:
    """The sandboxes of this process that fit."""
    wanted = (query.metadata if query is not None else None) or {}
    states = (query.state if query is not None else None) or [SandboxState.RUNNING]
    return [
        box.info()
        for box in all_boxes()
        if box.is_running and SandboxState.RUNNING in states and wanted.items() <= box.options.metadata.items()
    ]


class SandboxPaginator:
    """What list() gives: pages of them."""

    def __init__(self, query: Optional[SandboxQuery], limit: Optional[int]) -> None:
        self._rest = listed(query)
        self._limit = limit or 100
        self.next_token: Optional[str] = None

    @property
    def has_next(self) -> bool:
        """Whether there is one more."""
        return bool(self._rest)

    def next_items(self, **opts: Any) -> List[SandboxInfo]:
        """The next page."""
        service_only(opts)
        page, self._rest = self._rest[: self._limit], self._rest[self._limit :]
        return page


class Sandbox(SandboxBase):
    """A sandbox on this machine, behind E2B's interface: commands, files and code with state.

    >>> with Sandbox.create() as sandbox:
    ...     sandbox.run_code("x = 20")
    ...     sandbox.run_code("x + 1").text
    '21'

    It begins without network, unlike E2B's: ``net_allow=`` names hosts. All settings of a pycordon.Sandbox
    can be given beside E2B's own; ``policy`` is a policy of Cordon. It ends with kill(), with ``with``, when
    its ``timeout`` (300 seconds) is over, and with this process.
    """

    def __init__(
        self,
        template: Optional[str] = None,
        timeout: Optional[int] = None,
        metadata: Optional[Dict[str, str]] = None,
        envs: Optional[Dict[str, str]] = None,
        secure: Optional[bool] = None,
        allow_internet_access: Optional[bool] = None,
        mcp: Any = None,
        network: Optional[Mapping[str, Any]] = None,
        iam: Any = None,
        lifecycle: Optional[Mapping[str, Any]] = None,
        volume_mounts: Any = None,
        logger: Any = None,
        idempotency_key: Optional[str] = None,
        policy: Config = None,
        **opts: Any,
    ) -> None:
        absent = {"mcp": mcp, "iam": iam, "volume_mounts": volume_mounts}
        self._begin(
            self._new_box(
                template, timeout, metadata, envs, allow_internet_access, network, lifecycle, absent, policy, opts
            )
        )

    def _begin(self, box: Box) -> None:
        super()._begin(box)
        self._commands = Commands(box)
        self._files = Filesystem(box)
        with box.lock:
            if box.kernels is None:
                box.kernels = kernels = Kernels(box, _interpreter, threading.Lock)
                box.closers.append(lambda: _close(kernels))

    @classmethod
    def create(
        cls,
        template: Optional[str] = None,
        timeout: Optional[int] = None,
        metadata: Optional[Dict[str, str]] = None,
        envs: Optional[Dict[str, str]] = None,
        secure: Optional[bool] = None,
        allow_internet_access: Optional[bool] = None,
        mcp: Any = None,
        network: Optional[Mapping[str, Any]] = None,
        iam: Any = None,
        lifecycle: Optional[Mapping[str, Any]] = None,
        volume_mounts: Any = None,
        logger: Any = None,
        idempotency_key: Optional[str] = None,
        policy: Config = None,
        **opts: Any,
    ) -> "Sandbox":
        """A new sandbox."""
        return cls(
            template, timeout, metadata, envs, secure, allow_internet_access, mcp, network, iam, lifecycle,
            volume_mounts, logger, idempotency_key, policy, **opts,
        )  # fmt: skip

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    @property
    def commands(self) -> Commands:
        """Its commands."""
        return self._commands

    @property
    def files(self) -> Filesystem:
        """Its files."""
        return self._files

    @classmethod
    def list(
        cls, query: Optional[SandboxQuery] = None, limit: Optional[int] = None, next_token: Optional[str] = None,
        order: Optional[str] = None, **opts: Any,
    ) -> SandboxPaginator:  # fmt: skip
        """The sandboxes of this process."""
        service_only(opts)
        return SandboxPaginator(query, limit)

    def _connect(self, timeout: Optional[int] = None, *, on_resume: str = "restore", **opts: Any) -> "Sandbox":
        """The same sandbox; ``Sandbox.connect(id)``: another object for one of this process. ``timeout``: it
        lives that long at least."""
        service_only(opts)
        self._box.check()
        if timeout is not None:
            self._box.extend(timeout)
        return self

    def _kill(self, **opts: Any) -> bool:
        """Ends it with everything in it; False: that has happened before."""
        service_only(opts)
        return self._box.kill()

    def _set_timeout(self, timeout: int, **opts: Any) -> None:
        """How many seconds it lives from now on."""
        service_only(opts)
        self._box.check()
        self._box.set_timeout(timeout)

    def _get_info(self, **opts: Any) -> SandboxInfo:
        """What is known of it from outside."""
        service_only(opts)
        return self._box.info()

    connect = both(_connect)
    kill = both(_kill, lambda: False)
    set_timeout = both(_set_timeout)
    get_info = both(_get_info)

    def is_running(self, request_timeout: Optional[float] = None) -> bool:
        """Whether it is there."""
        return self._box.is_running

    # --- code ------------------------------------------------------------------------------------

    @property
    def _kernels(self) -> "Kernels[Interpreter]":
        kernels: "Kernels[Interpreter]" = self._box.kernels
        return kernels

    def run_code(
        self,
        code: str,
        language: Optional[str] = None,
        context: Optional[Context] = None,
        on_stdout: Optional[OutputHandler] = None,
        on_stderr: Optional[OutputHandler] = None,
        on_result: Optional[OutputHandler] = None,
        on_error: Optional[OutputHandler] = None,
        envs: Optional[Dict[str, str]] = None,
        timeout: Optional[float] = None,
        request_timeout: Optional[float] = None,
    ) -> Execution:
        """Runs code where the code before it has left off. ``language``: python, javascript or bash.
        ``on_result`` and ``on_error`` are called when it has ended. TimeoutException: its time was over; it
        was interrupted and its state is kept."""
        kernel = self._kernels.chosen(language, context)
        (before, after), seconds = arguments(kernel, envs, timeout)
        with kernel.lock, translated():
            if before:
                kernel.interpreter.execute(before, timeout=10)
            is_there = True
            try:
                done = kernel.interpreter.execute(
                    code, timeout=seconds, on_stdout=messages(on_stdout, False), on_stderr=messages(on_stderr, True)
                )
                is_there = not done.ended
            finally:
                if after and is_there and self._box.is_running:
                    kernel.interpreter.execute(after, timeout=10)
        execution = finished(self._box, kernel, done)
        if on_result is not None:
            for result in execution.results:
                on_result(result)
        if execution.error is not None and on_error is not None:
            on_error(execution.error)
        return execution

    def create_code_context(
        self, cwd: Optional[str] = None, language: Optional[str] = None, request_timeout: Optional[float] = None
    ) -> Context:
        """One more interpreter, with state of its own."""
        return self._kernels.create(language, cwd).context

    def list_code_contexts(self) -> List[Context]:
        """The interpreters, those that run_code() has started by itself included."""
        return self._kernels.contexts()

    def remove_code_context(self, context: Union[Context, str]) -> None:
        """Ends one."""
        self._kernels.remove(context).interpreter.close()

    def restart_code_context(self, context: Union[Context, str]) -> None:
        """Begins one anew."""
        kernel: Kernel[Interpreter] = self._kernels.find(context)
        with translated():
            kernel.interpreter.restart()
        kernel.count = 0
