# SPDX-License-Identifier: Apache-2.0
"""AutoGen: code blocks run in a Cordon sandbox.

    from pycordon.adapters.autogen import CordonCommandLineCodeExecutor

    executor = CordonCommandLineCodeExecutor(work_dir="coding", max_memory_mb=512)
    agent = CodeExecutorAgent("coder", code_executor=executor)

Behaves like AutoGen's LocalCommandLineCodeExecutor, except that the code sees the working directory,
the system's programs and what `fs_read`, `fs_write` and `net_allow` name, and nothing else.

`CordonJupyterExecutor`, whose blocks share their state, takes the place of AutoGen's JupyterCodeExecutor. It is
imported when it is asked for, since that one needs more packages.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
import warnings
import weakref
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from autogen_core import CancellationToken
from autogen_core.code_executor import (
    CodeBlock,
    FunctionWithRequirements,
    FunctionWithRequirementsStr,
)
from autogen_ext.code_executors.local import (
    PYTHON_VARIANTS,
    CommandLineCodeResult,
    LocalCommandLineCodeExecutor,
    LocalCommandLineCodeExecutorConfig,
    build_python_functions_file,
    get_file_name_from_content,
    lang_to_cmd,
    silence_pip,
)
from typing_extensions import Self

from pycordon import AsyncSandbox, Policy, Result
from pycordon._policy import make_policy, working_in
from pycordon._store import remove_private

from . import _common

_Function = Union[
    FunctionWithRequirements[Any, ...], Callable[..., Any], FunctionWithRequirementsStr
]
_POWERSHELL = ("pwsh", "powershell", "ps1")


class CordonCommandLineCodeExecutorConfig(LocalCommandLineCodeExecutorConfig):
    """Configuration for CordonCommandLineCodeExecutor."""

    policy: dict[str, Any] = {}


class _Temporary:
    """A directory that is removed whatever links and modes the code left in it."""

    def __init__(self) -> None:
        base = tempfile.mkdtemp(prefix="cordon-")
        self.name = os.path.join(base, "home")
        os.mkdir(self.name)
        self.cleanup = weakref.finalize(self, remove_private, base)


class CordonCommandLineCodeExecutor(LocalCommandLineCodeExecutor):
    """Executes code blocks in a sandbox on this machine; no container runtime is needed.

    The first six arguments are those of LocalCommandLineCodeExecutor. `policy` is a `pycordon.Policy`,
    a dict, a preset's name or a policy file; `env` are variables for the code, which sees none of
    this process's. Every further argument is a setting of `pycordon.Sandbox`: fs_read, fs_write,
    net_allow, max_memory_mb, max_procs, ...

    A timeout (124) and a cancellation (125) end every process of the block. The requirements of
    `functions` are never installed on this machine, only inside the sandbox, and only if `net_allow`
    names a package index; what is installed here already is simply used.
    """

    _temp_dir: Any
    component_config_schema = CordonCommandLineCodeExecutorConfig
    component_provider_override = "pycordon.adapters.autogen.CordonCommandLineCodeExecutor"

    def __init__(
        self,
        timeout: int = 60,
        work_dir: Optional[Union[Path, str]] = None,
        functions: Sequence[_Function] = (),
        functions_module: str = "functions",
        cleanup_temp_files: bool = True,
        virtual_env_context: Optional[SimpleNamespace] = None,
        *,
        policy: Optional[Union[Policy, str, dict[str, Any]]] = None,
        env: Optional[Mapping[str, str]] = None,
        **settings: Any,
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            super().__init__(
                timeout,
                work_dir,
                functions,
                functions_module,
                cleanup_temp_files,
                virtual_env_context,
            )
        for warning in caught:  # all but the one that asks for a sandbox
            if "may execute code on the local machine" not in str(warning.message):
                warnings.warn(warning.message, warning.category, stacklevel=2)
        self._policy = make_policy(policy, settings).merged(env_set=dict(env or {}))
        self._sandbox: Optional[AsyncSandbox] = None
        self._packages = ""  # where the functions' requirements are, inside

    @property
    def work_dir(self) -> Path:
        """The directory of the code: the one that was given, or a temporary one."""
        if self._work_dir is None and self._temp_dir is None:
            self._temp_dir = _Temporary()
        return Path(self._work_dir or self._temp_dir.name)

    @property
    def sandbox(self) -> AsyncSandbox:
        """The sandbox of all blocks: made at the first one, closed by `stop()`."""
        if self._sandbox is None:
            policy = self._policy
            if self._work_dir is None and policy.get("fs_protect") is None:
                # A directory of our own is not shared: nothing has to be kept out of it.
                policy = policy.merged(fs_protect=False)
            if self._virtual_env_context:
                environment = os.path.dirname(os.path.abspath(self._virtual_env_context.bin_path))
                policy = policy.merged(fs_read=[environment])
            self._sandbox = AsyncSandbox(policy, workdir=self.work_dir)
            # Opened before any code can put another directory in its place.
            self._dir = os.open(self.work_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            weakref.finalize(self._sandbox, os.close, self._dir)
        return self._sandbox

    async def start(self) -> None:
        """Makes the temporary working directory, if one is needed."""
        self._started = bool(self.work_dir)

    async def stop(self) -> None:
        """Ends what still runs and removes the temporary working directory, if there is one."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.close()
        await super().stop()

    async def _setup_functions(self, cancellation_token: CancellationToken) -> None:
        content = build_python_functions_file(self._functions)
        await self.sandbox.files.write(f"{self._functions_module}.py", content)
        wanted = _common.check_requirements(
            name
            for function in self._functions
            if isinstance(function, FunctionWithRequirements)
            for name in function.python_packages
        )
        if wanted:
            install = _common.allows_network(self.sandbox.policy)
            command = _common.prepare_command(wanted, install, self._python())
            task = asyncio.ensure_future(self._run(command))
            cancellation_token.link_future(task)
            try:
                result = await task
            except asyncio.CancelledError as error:
                if not cancellation_token.is_cancelled():
                    raise
                raise ValueError("Pip install was cancelled") from error
            if result.kind == "timeout":
                raise ValueError("Pip install timed out")
            self._packages = _common.prepared_path(result, install)
        loaded = await self._execute_code_dont_check_setup(
            [CodeBlock(code=content, language="python")], cancellation_token
        )
        if loaded.exit_code != 0:
            raise ValueError(f"Functions failed to load: {loaded.output}")
        self._setup_functions_complete = True

    def _python(self) -> str:
        venv = self._virtual_env_context
        return os.path.abspath(venv.env_exe) if venv else sys.executable

    async def _run(self, command: Sequence[str]) -> Result:
        env = _common.with_path(None, self._packages)
        if self._virtual_env_context:
            path = "/usr/local/bin:/usr/bin:/bin"
            env["PATH"] = f"{os.path.abspath(self._virtual_env_context.bin_path)}:{path}"
        timeout = _common.within(self.sandbox.policy, self._timeout)
        return await self.sandbox.run(command, env=env, timeout=timeout)

    async def _run_block(self, name: str, code: str, language: str) -> Result:
        # Written with the rights of the code inside, so its links cannot lead elsewhere.
        await self.sandbox.files.write(name, code)
        path = str(self.work_dir.resolve() / name)
        if language == "python":
            return await self._run([self._python(), path])
        program = lang_to_cmd(language)
        if program == "pwsh":
            return await self._run(
                [program, "-NoProfile", "-ExecutionPolicy", "Bypass", "-File", path]
            )
        return await self._run([program, path])

    async def _execute_code_dont_check_setup(
        self, code_blocks: Sequence[CodeBlock], cancellation_token: CancellationToken
    ) -> CommandLineCodeResult:
        output, status, names = "", 0, []
        for block in code_blocks:
            language = block.language.lower()
            code = silence_pip(block.code, language)
            language = "python" if language in PYTHON_VARIANTS else language
            if language not in self.SUPPORTED_LANGUAGES:
                output, status = output + f"\nunknown language {language}", 1
                break
            try:
                name = get_file_name_from_content(code, self.work_dir)
            except ValueError:
                return CommandLineCodeResult(1, "Filename is not in the workspace", None)
            if name is None:
                suffix = (
                    "py" if language == "python" else "ps1" if language in _POWERSHELL else language
                )
                name = f"tmp_code_{sha256(code.encode()).hexdigest()}.{suffix}"
            names.append(name)
            task = asyncio.ensure_future(self._run_block(name, code, language))
            cancellation_token.link_future(task)
            try:
                result = await task
            except asyncio.CancelledError:
                if not cancellation_token.is_cancelled():
                    raise  # this coroutine itself was cancelled; the block is over all the same
                output, status = output + "\nCancelled", 125
                break
            if result.kind == "timeout":
                output, status = output + "\nTimeout", 124
                break
            remark = _common.remark(result)
            output += result.stderr + result.stdout + (f"\n{remark}" if remark else "")
            status = result.returncode
            if status != 0:
                break
        if self._cleanup_temp_files and self._sandbox is not None:
            for name in names:
                await self._remove(name)
        first = str(self.work_dir.resolve() / names[0]) if names else None
        return CommandLineCodeResult(status, output, first)

    async def _remove(self, name: str) -> None:
        try:
            if os.sep in name:  # the code may replace directories above it: not from outside
                await self.sandbox.files.remove(name, missing_ok=True)
            else:
                Path(f"/proc/self/fd/{self._dir}", name).unlink(missing_ok=True)
        except OSError as error:
            logging.error(f"Failed to delete temporary file {self.work_dir / name}: {error}")

    def _to_config(self) -> CordonCommandLineCodeExecutorConfig:
        known = super()._to_config().model_dump()
        # A preset grants the current directory, which may be another one where this is loaded.
        place = None if self._work_dir is None else os.path.realpath(self._work_dir)
        policy = working_in(self._policy, place)
        return CordonCommandLineCodeExecutorConfig(**known, policy=policy.to_dict())

    @classmethod
    def _from_config(cls, config: LocalCommandLineCodeExecutorConfig) -> Self:
        return cls(**config.model_dump())


def __getattr__(name: str) -> Any:
    if name in ("CordonJupyterExecutor", "CordonJupyterExecutorConfig"):
        from . import _autogen_jupyter

        return getattr(_autogen_jupyter, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
