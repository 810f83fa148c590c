# SPDX-License-Identifier: Apache-2.0
"""Subinterpreters: each has a module of its own, with its own GIL where Python has that."""

import sys

from extlib import script

BODY = '''
from pycordon import _cordon
launcher = _cordon.Launcher()
run = launcher.start(_cordon.Policy(), ["/bin/sh", "-c", "echo inner; exit 4"], env={"PATH": "/bin"})
assert run.wait(20)
got = run.result()
assert (got["stdout"], got["exit_code"]) == (b"inner\\\\n", 4), got
try:
    _cordon.Policy().set("no.such.key", "1")
except _cordon.Error as error:
    assert error.name == "policy"
else:
    raise AssertionError
left = launcher.start(_cordon.Policy(), ["/bin/sleep", "1000"])  # ends with its interpreter
'''

OLD = f"""
import _xxsubinterpreters as interpreters
outer = _cordon.Launcher()
outer_run = outer.start(_cordon.Policy(), ["/bin/sh", "-c", "sleep 0.3; echo outer"])
body = '''{BODY}'''
for _ in range(3):
    made = interpreters.create()
    interpreters.run_string(made, body)
    interpreters.destroy(made)
assert outer_run.wait(20) and outer_run.result()["stdout"] == b"outer\\n"
print("fine")
"""

NEW = f"""
import _interpreters as interpreters
outer = _cordon.Launcher()
outer_run = outer.start(_cordon.Policy(), ["/bin/sh", "-c", "sleep 0.3; echo outer"])
body = '''{BODY}'''
def turn():
    made = interpreters.create("isolated")       # its own GIL
    failed = interpreters.run_string(made, body)
    assert failed is None, failed
    interpreters.destroy(made)
threads = [threading.Thread(target=turn) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert outer_run.wait(20) and outer_run.result()["stdout"] == b"outer\\n"
print("fine")
"""


def test_interpreters():
    """From 3.12 on they have a GIL of their own, and a module that does not declare itself fit for
    that cannot be imported there at all. (3.12 has the old name with the new meaning.)"""
    assert script(NEW if sys.version_info >= (3, 13) else OLD) == "fine\n"
