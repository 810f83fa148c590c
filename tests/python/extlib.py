# SPDX-License-Identifier: Apache-2.0
"""What the tests of the extension share. They drive `pycordon._cordon` itself, without the package."""

import json
import os
import pathlib
import subprocess
import sys
import time

from pycordon import _cordon

ENV = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
PATIENCE = 60 * float(os.environ.get("CORDON_TEST_SLOW", "1"))  # a ceiling, never a wait


def policy(**settings):
    """A policy from settings as on the command line: policy(limits_wall="1s")."""
    made = _cordon.Policy()
    for key, value in settings.items():
        made.set(key.replace("_", ".", 1), value)
    return made


def start(launcher, argv, made=None, **options):
    options.setdefault("env", ENV)
    return launcher.start(made or _cordon.Policy(), argv, **options)


def finish(run):
    """The result of a run that must end by itself."""
    assert run.wait(PATIENCE), "the run did not end"
    return run.result()


def sh(launcher, script, made=None, **options):
    return finish(start(launcher, ["/bin/sh", "-c", script], made, **options))


def script(code, *args, timeout=PATIENCE, **options):
    """Runs Python code in a process of its own, with this interpreter; its output as text."""
    head = "import os, signal, sys, threading, time\nfrom pycordon import _cordon\n"
    done = subprocess.run(
        [sys.executable, "-c", head + code, *map(str, args)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        timeout=timeout, check=False, text=True, **options,
    )  # fmt: skip
    assert done.returncode == 0, f"exit {done.returncode}: {done.stdout} {done.stderr}"
    return done.stdout


def receipt(run):
    return json.loads(run.receipt(with_output=True))


def until(true, what, patience=PATIENCE):
    """Waits for something that only shows by looking."""
    end = time.monotonic() + patience
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.002)


def fds():
    return len(os.listdir("/proc/self/fd"))


def resident_kib():
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")
