# SPDX-License-Identifier: Apache-2.0
"""Writes a kernelspec whose kernels run in a sandbox."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
from typing import Any, Optional, Sequence

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

from pycordon import CordonError, Sandbox, UsageError

_PROVISIONER = "cordon"  # the entry point in the group jupyter_client.kernel_provisioners
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")


def install(
    name: str = "cordon",
    *,
    display_name: Optional[str] = None,
    kernel: str = "python3",
    user: bool = False,
    prefix: Optional[str] = None,
    replace: bool = False,
    config: Optional[dict[str, Any]] = None,
) -> str:
    """Installs kernelspec ``name``: the existing ``kernel``, in a sandbox with the settings ``config``.
    Returns its directory. Where: as for ``jupyter kernelspec install``."""
    manager = KernelSpecManager()
    name = name.lower()
    if not _NAME.match(name):  # "." would be the directory of all kernelspecs
        raise UsageError(f"{name!r:.60} is no name of a kernel: letters, digits, and . _ - after the first")
    if not replace and name in manager.find_kernel_specs():
        raise FileExistsError(f"there is a kernel '{name}' already: choose another name, or replace it")
    settings = dict(config or {})
    _check(settings)
    base = manager.get_kernel_spec(kernel)
    spec = base.to_dict()
    spec["display_name"] = display_name or f"{base.display_name} in a sandbox"
    if spec["argv"] and os.path.basename(spec["argv"][0]) == spec["argv"][0] and kernel == "python3":
        spec["argv"][0] = sys.executable  # whichever server starts it, this environment has the kernel
    provisioner = {"provisioner_name": _PROVISIONER, "config": settings}
    spec["metadata"] = {**spec["metadata"], "kernel_provisioner": provisioner}
    with tempfile.TemporaryDirectory() as directory:
        source = os.path.join(directory, "spec")
        if os.path.isdir(base.resource_dir):
            shutil.copytree(base.resource_dir, source)
        else:
            os.mkdir(source)
        with open(os.path.join(source, "kernel.json"), "w", encoding="utf-8") as file:
            json.dump(spec, file, indent=2)
            file.write("\n")
        os.chmod(source, 0o755)
        return str(manager.install_kernel_spec(source, name, user=user, prefix=prefix))


def _check(settings: dict[str, Any]) -> None:
    """A mistake is told now, not when a notebook is opened. Packages are not installed for that."""
    known = {name: value for name, value in settings.items() if name not in ("packages", "build_packages")}
    workdir = known.pop("workdir", None)
    if workdir is not None and not isinstance(workdir, (str, bool)):
        raise UsageError("workdir: a path is needed")
    Sandbox(known.pop("policy", None), **known).close()


def _setting(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """``python -m pycordon.adapters.jupyter``"""
    parser = argparse.ArgumentParser(prog="python -m pycordon.adapters.jupyter")
    verb = parser.add_subparsers(dest="verb", required=True).add_parser(
        "install", help="write a kernelspec whose kernels run in a sandbox"
    )
    verb.add_argument("--name", default="cordon", help="of the kernelspec (default: cordon)")
    verb.add_argument("--display-name", help="what notebooks show")
    verb.add_argument("--kernel", default="python3", help="the kernelspec to take as a base (default: python3)")
    where = verb.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="in the user's directory instead of the system's")
    where.add_argument("--prefix", help="below this directory")
    where.add_argument("--sys-prefix", action="store_true", help="in this Python environment")
    verb.add_argument("--replace", action="store_true", help="replace a kernelspec of that name")
    verb.add_argument("--memory-mb", type=int, default=1024, help="memory of a kernel (default: 1024)")
    verb.add_argument(
        "--set", action="append", type=_setting, default=[], metavar="NAME=VALUE", dest="settings",
        help='a setting of the sandbox, VALUE as JSON or text: fs_read=/data, net_allow=["example.org"]',
    )  # fmt: skip
    given = parser.parse_args(arguments)
    config = {"max_memory_mb": given.memory_mb, **dict(given.settings)}
    try:
        where_it_is = install(
            given.name, display_name=given.display_name, kernel=given.kernel, user=given.user,
            prefix=sys.prefix if given.sys_prefix else given.prefix, replace=given.replace, config=config,
        )  # fmt: skip
    except (CordonError, OSError, ValueError, NoSuchKernel) as error:
        sys.exit(f"{parser.prog}: {error}")
    print(f"the kernel is in {where_it_is}")
