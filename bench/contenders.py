# SPDX-License-Identifier: Apache-2.0
"""The commands that are compared, each with the isolation its own manual suggests."""

import os
import shutil

# The peer's own example line: everything visible, nothing writable, no network.
BWRAP_ALL = ["--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]


def bwrap():
    return shutil.which("bwrap", path="/usr/bin:/usr/local/bin:" + os.environ.get("PATH", ""))


def sandlock():
    return os.environ.get("SANDLOCK") or shutil.which("sandlock")


def sandlock_mcp():
    """Its MCP server, a program of the Python package `sandlock[mcp]`."""
    return os.environ.get("SANDLOCK_MCP") or shutil.which("sandlock-mcp")


def bwrap_like_cordon(plan):
    """Arguments that make bubblewrap mount what a plan of Cordon's mounts."""
    args = ["--unshare-all", "--die-with-parent", "--new-session"]
    for op in plan["steps"]:
        what, path, flags = op["do"], op["path"], op.get("flags", "")
        if what == "bind":
            kind = "--dev-bind" if "device" in flags else (
                "--ro-bind" if "read-only" in flags else "--bind")
            args += [kind, op.get("from", path), path]
        elif what == "symlink":
            args += ["--symlink", op["target"], path]
        elif what == "proc":
            args += ["--proc", path]
        elif what in ("private", "devpts"):
            args += ["--tmpfs", path]
        elif what == "dir":
            args += ["--dir", path]
        # Files with made-up content have no counterpart that costs as little.
    return args


def sandlock_run(path, writable, readable=()):
    """Read access to the system, write access to the working directory."""
    args = [path, "run"]
    for directory in ("/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", *readable):
        if os.path.exists(directory):
            args += ["-r", directory]
    for directory in ("/dev", "/tmp", *writable):
        args += ["-w", directory]
    return args + ["--"]
