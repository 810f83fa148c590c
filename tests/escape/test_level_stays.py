# SPDX-License-Identifier: Apache-2.0
"""What a guest can use up for a while does not bring down the level of the runs that come after."""

import json

import pytest

from conftest import library

# One launcher, as in a program that starts many runs: a start while the user has no processes
# left, and the plan of the next one afterwards.
SCRIPT = """
import ctypes, resource, sys
lib = ctypes.CDLL(sys.argv[1])
class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("argv", ctypes.c_void_p)]
launcher, policy, run, text = (ctypes.c_void_p() for _ in range(4))
assert lib.cordon_launcher_new(ctypes.byref(launcher), None) == 0
assert lib.cordon_policy_new(ctypes.byref(policy), None) == 0
argv = (ctypes.c_char_p * 2)(b"/bin/true", None)
options = Options(ctypes.sizeof(Options), ctypes.cast(argv, ctypes.c_void_p).value)
soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
resource.setrlimit(resource.RLIMIT_NPROC, (0, hard))
started = lib.cordon_run_start(launcher, policy, ctypes.byref(options), ctypes.byref(run), None)
resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
assert lib.cordon_plan_to_json(launcher, policy, ctypes.byref(options), ctypes.byref(text), None) == 0
print(started)
print(ctypes.string_at(text.value).decode())
"""


@pytest.mark.parametrize("me", ["user"], indirect=True)  # root is not held to a number
def test_no_process_left(me):
    done = me.outside(["/usr/bin/python3", "-S", "-c", SCRIPT, library()])
    started, _, plan = done.stdout.decode().partition("\n")
    assert int(started) < 0, "the start was to fail"
    assert json.loads(plan)["level"] == "namespaces", plan
