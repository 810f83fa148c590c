# SPDX-License-Identifier: Apache-2.0
"""Runs of one sandbox share files, and nothing else: what one of them executes is not another's to
choose."""

import os
import re
import sys
import textwrap
import threading

import pytest

import pycordon
from pylib import until


@pytest.fixture(params=["namespaces", "landlock"])
def shared(request):
    """A sandbox at either level, with a private working directory."""
    with pycordon.Sandbox(workdir=True, isolation=request.param, max_execution_seconds=60) as made:
        yield made


# Replaces every program that it can find, again and again.
REPLACE = """
import glob, os, sys, time
places = [os.environ.get("TMPDIR", "/tmp"), "/tmp", os.path.expanduser("~"), "/run", "/run/cordon", *sys.argv[1:]]
print("ready", flush=True)
while True:
    for place in places:
        for path in glob.glob(place + "/**/main.py", recursive=True):
            for way in (lambda: os.rename(path, path + ".old"), lambda: os.chmod(path, 0o777), lambda: None):
                try:
                    way()
                    with open(path, "w") as file:
                        file.write("print('owned')")
                except OSError:
                    pass
"""


def start_hostile(box, *args):
    process = box.popen([sys.executable, "-c", REPLACE, *args])
    lines = []
    threading.Thread(target=lambda: lines.append(process.stdout.readline()), daemon=True).start()
    until(lambda: lines, "the hostile run has not begun")
    return process


def test_code_is_not_another_runs_to_replace(shared):
    """The control first: a program in the shared /tmp is replaced."""
    hostile = start_hostile(shared)
    write = "mkdir -p $D; until grep -s owned $D/main.py; do echo 'print(1)' > $D/main.py; done"
    found = shared.run("D=${TMPDIR:-/tmp}/shared; " + write, timeout=60)
    assert "owned" in found.stdout, found.text
    results, errors = [], []

    def innocent(number):
        try:
            results.append((number, shared.run_code(f"import time; time.sleep(0.05); print({number})")))
        except Exception as error:
            errors.append(error)

    for _ in range(3):
        threads = [threading.Thread(target=innocent, args=(i,)) for i in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert hostile.poll() is None
    hostile.kill()
    hostile.wait()
    assert errors == [] and len(results) == 30
    assert [(n, r.text) for n, r in results if r.stdout != f"{n}\n"] == []


#: An interpreter with a user site, which those of virtual environments do not have.
PLAIN = os.path.realpath(sys.executable)

LEAVE = """
import os, site, sys
where = site.getusersitepackages()
os.makedirs(where, exist_ok=True)
for name in ("usercustomize.py", "sitecustomize.py"):
    open(os.path.join(where, name), "w").write("print('owned', flush=True)")
open(os.path.join(where, "x.pth"), "w").write("import sys; print('owned', flush=True)")
programs = os.path.expanduser("~/.local/bin")
os.makedirs(programs, exist_ok=True)
for name in ("python", "python3", "sh"):
    path = os.path.join(programs, name)
    if os.path.lexists(path):
        os.unlink(path)
    open(path, "w").write("#!/bin/sh\\necho owned")
    os.chmod(path, 0o755)
for name in (".profile", ".bashrc", ".bash_profile", ".zshenv", ".pythonrc.py", ".Rprofile"):
    open(os.path.expanduser("~/" + name), "w").write("echo owned" if "sh" in name else "print('owned')")
"""


def test_what_a_run_leaves_is_not_executed_by_the_next(shared):
    assert shared.run_code(LEAVE).ok
    # The control: this is what Python does with it.
    asked = shared.run_code("print('mine')", PLAIN, env={"PYTHONNOUSERSITE": ""})
    assert "owned" in asked.stdout, asked.text
    for got in (
        shared.run_code("print('mine')", PLAIN),
        shared.run([PLAIN, "-c", "print('mine')"]),
        shared.run_code("print('mine')"),
        shared.run_code("import subprocess; subprocess.run(['python', '-c', 'print(\"mine\")'])"),
        shared.run([sys.executable, "-c", "print('mine')"]),
        shared.run("python -c \"print('mine')\""),
        shared.run(["python", "-c", "print('mine')"]),
        shared.run("python3 -c \"print('mine')\""),
        shared.run_code("echo mine", "bash"),
        shared.run_code("echo mine", "sh"),
    ):
        assert (got.stdout, got.stderr) == ("mine\n", ""), got


def test_the_user_site_can_be_asked_for(place):
    with pycordon.Sandbox(env={"PYTHONNOUSERSITE": ""}) as box:
        assert box.run_code(LEAVE).ok
        assert "owned" in box.run_code("print(1)", PLAIN).stdout
        assert "owned" in box.run([PLAIN, "-c", "print(1)"]).stdout


def test_commands_of_wrap_do_not_execute_it_either():
    with pycordon.Sandbox(workdir=True) as box:
        assert box.run_code(LEAVE).ok
        process = box.spawn_popen([PLAIN, "-c", "print('mine')"], stdout=-1, text=True)
        assert process.communicate()[0] == "mine\n"


def test_code_looks_like_a_program(shared):
    """Its name, its source, its neighbours; and it cannot be changed."""
    code = textwrap.dedent(
        """
        import inspect, multiprocessing, os, sys

        def twice(x):
            print(2 * x, flush=True)

        if __name__ == "__main__":
            print(os.path.basename(__file__), os.path.dirname(__file__) == sys.path[0])
            print(inspect.getsource(twice).strip())
            sys.stdout.flush()
            child = multiprocessing.get_context("spawn").Process(target=twice, args=(2,))
            child.start()
            child.join()
            for change in (lambda: open(__file__, "a"), lambda: os.unlink(__file__), lambda: os.chmod(__file__, 0o777),
                           lambda: open(os.path.dirname(__file__) + "/new", "w")):
                try:
                    change()
                    print("changed")
                except OSError as error:
                    print("refused")
            twice(None, 1)
        """
    )
    got = shared.run_code(code)
    text = "main.py True\ndef twice(x):\n    print(2 * x, flush=True)\n4\n"
    assert got.stdout == text + "refused\n" * 4, got.text
    assert re.search(r'File ".*/main\.py", line \d+, in <module>\n +twice\(None, 1\)', got.stderr), got.stderr


def test_where_it_lies(box):
    got = box.run_code("import sys; print(__file__, sys.argv[0])", filename="job.py")
    assert got.stdout == "/run/cordon/job.py /run/cordon/job.py\n", got.text
    # The code of one run is not there for the next.
    assert box.run("ls /run/cordon").stdout == ""


def test_it_may_lie_in_directories(box):
    got = box.run_code("import a.b; print(a.b.x)", filename="d/m.py", files={"d/a/b.py": "x = 3"})
    assert got.stdout == "3\n", got.text


def test_whatever_the_umask_is(shared):
    old = os.umask(0o077)
    try:
        got = shared.run_code("import h; print(h.x, open(h.__file__).read())", files={"h.py": "x = 1"})
    finally:
        os.umask(old)
    assert got.stdout == "1 x = 1\n", got.text


def test_run_is_granted():
    """The host's /run takes the place where code is shown: an error that says so, for code only."""
    with pycordon.Sandbox(fs_read=["/run"]) as box:
        assert box.run("echo fine").stdout == "fine\n"
        with pytest.raises(pycordon.CordonError, match="/run/cordon"):
            box.run_code("print(1)")
    with pycordon.Sandbox(fs_read=["/"]) as box:
        assert box.run_code("print(1)").stdout == "1\n"


def test_nothing_is_left(left, host):
    with pycordon.Sandbox() as box:
        box.run("true")
        box.run_code("print(1)", files={"a/b": "x"})
        box.run("true " + "x" * 200_000)
        assert len([name for name in left() if name.startswith(".c")]) <= 1  # its programs
    assert left() == []
    host(
        """
        import os, pycordon
        box = pycordon.Sandbox()
        box.run("true")
        process = box.popen("sleep 60")
        os.kill(os.getpid(), 9)
        """,
        check=False,
    )
    for name in left():
        os.utime(os.path.join(os.environ["XDG_STATE_HOME"], "cordon/sandboxes", name), (1, 1))
    for _ in range(20):
        pycordon.Sandbox().start().close()
        if left() == []:
            break
    assert left() == []
