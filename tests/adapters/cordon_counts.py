# SPDX-License-Identifier: Apache-2.0
"""pytest -p: in how many cases a sandbox was really started.

A suite may pass by testing the framework alone. docs/integrations.md says how many cases do more, and
a suite in which none does has shown nothing.
"""

import os
import subprocess

from pycordon import AsyncSandbox, Sandbox
from pycordon._runs import Runs
from pycordon._session_core import SessionCore

_started = set()


def _case():
    return os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]


def _counted(method):
    def count(self, *args, **kwargs):
        _started.add(_case())
        return method(self, *args, **kwargs)

    return count


# Runs of the library, commands of its sessions, and command lines that a framework starts itself.
Runs.start = _counted(Runs.start)
SessionCore.exec = _counted(SessionCore.exec)
for _kind in (Sandbox, AsyncSandbox):
    _kind.wrap = _counted(_kind.wrap)


# The command itself, or a program that is told to start it.
_start = subprocess.Popen.__init__


def _start_counted(self, *args, **kwargs):
    command = args[0] if args else kwargs["args"]
    words = command if isinstance(command, (list, tuple)) else [command]
    names = [os.path.basename(word) for word in words if isinstance(word, (str, bytes, os.PathLike))]
    if "cordon" in names or b"cordon" in names:
        _started.add(_case())
    _start(self, *args, **kwargs)


subprocess.Popen.__init__ = _start_counted


def pytest_sessionfinish(session):
    _started.discard("")
    if not session.config.option.collectonly:
        print(f"\n{len(_started)} of {session.testscollected} cases started a sandbox")
        if session.testscollected and not _started:
            session.exitstatus = 1
