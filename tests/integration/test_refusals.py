# SPDX-License-Identifier: Apache-2.0
"""Something around Cordon refuses a system call, as a security module (EACCES), a container or a service
would: the level that is left is chosen, or nothing runs and one line says what helps. Tiny resource limits too.
"""

import json
import os
import pathlib
import platform

import pytest

from conftest import needs
from test_shapes import check, holds, tried  # noqa: F401

EACCES, ENOSYS, EPERM = 13, 38, 1
NAMESPACES = 0x7E020000  # CLONE_NEW*
SOURCE = pathlib.Path(os.environ.get("CORDON_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
TABLE = SOURCE / "src/seccomp/syscalls.tbl"
MOUNTS = ["mount", "umount2", "pivot_root", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick",
          "mount_setattr"]


def numbers():
    """Of the system calls on this machine: the table has a column for each architecture."""
    column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
    rows = (line.split() for line in TABLE.read_text(encoding="utf-8").splitlines())
    return {row[2]: int(row[column]) for row in rows if len(row) > 3 and row[0] != "#" and row[column].isdigit()}


NUMBERS = numbers()


def all_of(error, *calls):
    return [f"{NUMBERS[name]}:{error}" for name in calls]


def namespaces(error):
    some = [f"{NUMBERS[name]}:{error}:{NAMESPACES}" for name in ("unshare", "clone")]
    return some + all_of(error, "clone3", "setns")


# What is refused, and the level that is left (None: nothing runs).
REFUSED = {
    "namespaces": (namespaces(EACCES), "landlock"),
    "namespaces, EPERM": (namespaces(EPERM), "landlock"),
    "mounts": (all_of(EACCES, *MOUNTS), "landlock"),
    "pivot_root": (all_of(EACCES, "pivot_root"), "landlock"),
    "the old mount call": (all_of(EACCES, "mount"), "namespaces"),
    "clone3": (all_of(EACCES, "clone3"), "namespaces"),
    "landlock": (all_of(EACCES, "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"),
                 "namespaces"),
    "entering a landlock domain": (all_of(EACCES, "landlock_restrict_self"), None),
    "keyrings": (all_of(EACCES, "add_key", "request_key", "keyctl"), "namespaces"),
    "userfaultfd, io_uring, bpf": (all_of(EACCES, "userfaultfd", "io_uring_setup", "bpf"), "namespaces"),
    "memory files": (all_of(EACCES, "memfd_create"), None),
    "pidfd_open": (all_of(EACCES, "pidfd_open"), None),
    "filters": (all_of(EACCES, "seccomp"), None),
    "capset": (all_of(EACCES, "capset"), None),
    "resource limits": (all_of(EACCES, "prlimit64", "setrlimit"), None),
    "execveat": (all_of(EACCES, "execveat"), None),
    "close_range": (all_of(EACCES, "close_range"), None),
    "close_range, as in an old kernel": (all_of(ENOSYS, "close_range"), None),
    "openat2": (all_of(EACCES, "openat2"), None),
}


def says_what_helps(done):
    """One line, with a remedy in brackets at its end."""
    line = done.stderr
    assert line.startswith(b"cordon: ") and line.count(b"\n") == 1 and line.endswith(b")\n"), done


def runs_nothing(me, wrap):
    """At no level, and with nothing that the caller can say."""
    mark = me.work / "mark"
    script = ["sh", "-c", f"echo ran > {mark}"]
    assert me.outside(wrap(script)).returncode == 0 and mark.exists()  # the control
    mark.unlink()
    for level in (None, "namespaces", "landlock"):
        done = me.outside(wrap(me.argv(["-w", me.work], script, level)))
        assert done.returncode == 125 and not mark.exists(), done
        says_what_helps(done)
    done = me.outside(wrap([me.cordon, "check", "--json"]))
    assert done.returncode == 125, done
    if not done.stdout:  # not even a trial could be made
        says_what_helps(done)
        return
    got = json.loads(done.stdout)
    layers = {layer["name"]: layer for layer in got["layers"]}
    assert got["level"] is None, got
    for level in ("level namespaces", "level landlock"):
        assert layers[level]["state"] == "no" and layers[level]["remedy"], layers[level]


@pytest.mark.parametrize("what", REFUSED)
def test_refused(me, probes, tried, what):  # noqa: F811
    calls, level = REFUSED[what]

    def wrap(argv):
        return [probes["refuse"], *calls, "--", *argv]

    if level is None:
        runs_nothing(me, wrap)
        return
    best, layers = check(me, wrap)
    assert best == level, layers
    holds(me, wrap, tried, level)
    for layer in layers.values():
        if layer["state"] == "no" and layer["name"] in ("landlock", "level namespaces", "level landlock"):
            # What was refused is not called missing in the kernel.
            assert "5.13" not in layer["detail"], layer


def test_refused_landlock_is_no_old_kernel(me, probes):
    _, layers = check(me, lambda argv: [probes["refuse"], *all_of(EACCES, "landlock_create_ruleset"), "--", *argv])
    assert layers["landlock"]["state"] == "no" and "5.13" not in layers["landlock"]["remedy"], layers["landlock"]


# Each is what some system gives its users.
LIMITS = {
    "files": ["--nofile=64:64"],
    "stack": ["--stack=262144:262144"],
    "locked memory": ["--memlock=0:0"],
    "address space": ["--as=536870912:536870912"],
    "all of these": ["--nofile=64:64", "--stack=262144:262144", "--memlock=0:0", "--as=536870912:536870912"],
}


@pytest.mark.parametrize("what", LIMITS)
def test_tiny_limits(me, level, tried, what):  # noqa: F811
    needs("prlimit")

    def wrap(argv):
        return ["prlimit", *LIMITS[what], *argv]

    best, layers = check(me, wrap)
    assert best == "namespaces", layers
    holds(me, wrap, tried, level, "--isolation", level)


def test_no_process_more(me):
    """The limit of processes is reached already (for root, too, who has another id inside): no run, and a line."""
    needs("prlimit")
    mark = me.work / "mark"
    argv = me.argv(["-w", me.work], ["sh", "-c", f"echo ran > {mark}"])
    done = me.outside(["prlimit", "--nproc=1:1", *argv])
    assert done.returncode == 125 and not mark.exists(), done
    assert done.stderr.startswith(b"cordon: ") and done.stderr.count(b"\n") == 1, done
    assert os.listdir(me.work) == [], "something was left behind"
