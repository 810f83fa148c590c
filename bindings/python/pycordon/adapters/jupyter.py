# SPDX-License-Identifier: Apache-2.0
"""Jupyter: notebooks whose kernel is a process in a Cordon sandbox.

    python -m pycordon.adapters.jupyter install --name sandboxed --memory-mb 1024

writes a kernelspec whose ``metadata.kernel_provisioner`` names this provisioner. Its ``config`` is the
sandbox: ``policy``, ``workdir``, ``env``, ``packages`` and the settings of `pycordon.Sandbox`.

How a kernel is reached: it has a network of its own, and listens there at the ports of its connection
file. These five are published at 127.0.0.1, so nothing of the host is shared with it: no directory of
sockets that it could fill or put links into, and of the connection file it has a copy. Messages are
signed, and encrypted if the kernelspec says that the kernel can do it, since other users of the machine can
connect, too.

    %load_ext pycordon.adapters.jupyter

is for the other case: single cells (``%%cordon``) run in a sandbox, the rest of the notebook does not.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from typing import Any, Optional

from jupyter_client.provisioning import LocalProvisioner

from pycordon import CordonError, Process, Result, Sandbox, UsageError

from ._jupyter_install import install, main
from ._runs import limits

__all__ = [
    "CordonProvisioner", "configure", "install", "load_ipython_extension", "main", "unload_ipython_extension"
]  # fmt: skip

_PORTS = ("shell_port", "iopub_port", "stdin_port", "hb_port", "control_port")
_FILE = "/tmp/cordon-kernel.json"  # inside
_TAIL_MAX = 1000  # bytes of the last words of a kernel


class _Kernel:
    """The process of a kernel, with as much of subprocess.Popen as LocalProvisioner uses."""

    stdin = stdout = stderr = None

    def __init__(self, process: Process) -> None:
        self._process = process
        self._tail = b""
        self._outcome: Optional[Result] = None
        self._failed: Optional[Exception] = None
        self._thread = threading.Thread(target=self._watch, name="cordon-kernel", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        """A kernel sends what cells print to its clients. The rest is nobody's, but must be read."""
        try:
            self._process.close_stdin()
            for _, data in self._process.events():
                self._tail = (self._tail + data)[-_TAIL_MAX:]
            self._outcome = self._process.wait()
        except (CordonError, OSError) as error:
            self._failed = error

    def poll(self) -> Optional[int]:
        if self._thread.is_alive():
            return None
        return 1 if self._outcome is None else self._outcome.returncode

    def wait(self) -> int:
        self._thread.join()
        return self.poll() or 0

    def send_signal(self, number: int) -> None:
        if number == signal.SIGKILL:
            self._process.kill()
        elif number == signal.SIGTERM:
            self._process.terminate()
        else:
            self._process.signal(number)

    def why(self) -> str:
        """Why it ended, and its last words, without anything that a terminal would obey."""
        said = ascii(self._tail.decode("utf-8", "replace"))[1:-1]
        reason = self._failed if self._outcome is None else self._outcome.explain()
        return f"{reason or 'it ended'}; its last words: {said}" if said else f"{reason or 'it ended'}"


class CordonProvisioner(LocalProvisioner):  # type: ignore[misc]
    """Starts kernels in a sandbox. Files in its home and /tmp last until the kernel is shut down, also
    when it is restarted."""

    def __init__(self, **settings: Any) -> None:
        own = {name: settings.pop(name) for name in ("kernel_id", "kernel_spec", "parent") if name in settings}
        super().__init__(**own)
        self._settings = settings
        self._sandbox: Optional[Sandbox] = None
        self._exposed: tuple[int, ...] = ()
        self._is_ending = False  # somebody wants it to

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Checks that the kernel can be reached, and has connections encrypted if it can."""
        manager = self.parent
        if manager is not None and (manager.transport, manager.ip) != ("tcp", "127.0.0.1"):
            raise UsageError(
                f"a kernel in a sandbox cannot be reached over {manager.transport} at {manager.ip}",
                hint='leave transport at "tcp" and ip at "127.0.0.1"',
            )
        return await super().pre_launch(**{"transport_encryption": "auto", **kwargs})

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Starts the kernel in the sandbox."""
        self.process = await asyncio.to_thread(self._start, cmd, kwargs.get("cwd"), kwargs.get("env") or {})
        self._is_ending = False
        return self.connection_info

    def _start(self, cmd: list[str], cwd: Optional[str], env: dict[str, str]) -> _Kernel:
        ports = tuple(self.connection_info[name] for name in _PORTS)
        sandbox = self._open(ports, cwd)
        # Of the server's variables it gets those that the kernelspec sets.
        mine = {name: env[name] for name in self.kernel_spec.env if name in env}
        # Not from the manager's file: after a restart with other ports that one is written later.
        info = {k: v.decode() if isinstance(v, bytes) else v for k, v in self.connection_info.items()}
        sandbox.files.write(_FILE, json.dumps({**info, "kernel_name": self.parent.kernel_name}))
        host_file = os.path.realpath(self.parent.connection_file)
        argv = [word.replace(host_file, _FILE) for word in cmd]
        return _Kernel(sandbox.popen(argv, env=mine, **_time(sandbox)))

    def _open(self, ports: tuple[int, ...], cwd: Optional[str]) -> Sandbox:
        if self._sandbox is not None and self._exposed == ports:
            return self._sandbox
        self._close()
        settings = dict(self._settings)
        workdir = settings.pop("workdir", None)
        if isinstance(workdir, str):  # "." is the notebook's directory
            workdir = os.path.join(cwd or os.getcwd(), os.path.expanduser(workdir))
        sandbox = Sandbox(settings.pop("policy", None), workdir=workdir, **settings)
        for port in ports:
            sandbox.expose(port, port)
        self._sandbox, self._exposed = sandbox, ports
        return sandbox

    def _close(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            sandbox.close()

    async def poll(self) -> Optional[int]:
        """The status, or None while it runs. Logs once why it has ended by itself."""
        code = await super().poll()
        if code is not None and self.process is not None and not self._is_ending:
            self._is_ending = True  # said once
            self.log.warning("kernel %s: %s", self.kernel_id, self.process.why())
        return code

    async def shutdown_requested(self, restart: bool = False) -> None:
        """From now on its end is no surprise."""
        self._is_ending = True

    async def send_signal(self, signum: int) -> None:
        """A signal for what the kernel runs; SIGTERM and SIGKILL end everything in the sandbox."""
        self._is_ending = self._is_ending or signum in (signal.SIGTERM, signal.SIGKILL)
        await super().send_signal(signum)

    async def cleanup(self, restart: bool = False) -> None:
        """Removes the sandbox, unless another kernel follows in it."""
        if not restart:
            await asyncio.to_thread(self._close)
        await super().cleanup(restart)

    def resolve_path(self, path_str: str) -> Optional[str]:
        """None: paths of a kernel are none of the host's."""
        return None


def _time(sandbox: Sandbox) -> dict[str, Any]:
    """A kernel has no time limit, unless the policy has one."""
    return {"timeout": limits(sandbox.policy, None, None)["timeout"]}


# IPython is not needed by a server, so the magics are imported when they are asked for.


def configure(policy: Any = None, **settings: Any) -> None:
    """The settings of the sandbox of ``%%cordon``, from the next cell on."""
    from . import _jupyter_magics

    _jupyter_magics.configure(policy, **settings)


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext pycordon.adapters.jupyter``"""
    from . import _jupyter_magics

    _jupyter_magics.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext pycordon.adapters.jupyter``: the sandbox ends."""
    from . import _jupyter_magics

    _jupyter_magics.unload()


if __name__ == "__main__":
    main()
