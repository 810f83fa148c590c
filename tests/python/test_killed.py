# SPDX-License-Identifier: Apache-2.0
"""A program that uses the package is killed at any moment: its sandboxes end with it, and the next program
works."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

import pycordon
from pylib import descendants, processes_with, start_of, until

START = "import asyncio, os, sys, time\nimport pycordon\n"
READY = "os.write(1, b'ready\\n')\n"
#: What is killed: each begins, uses and ends things all the time. MARK becomes a number by which its commands are found.
HOSTS = {
    "session": READY + """
while True:
    with pycordon.Session() as session:
        session.start("setsid sleep MARK & sleep MARK")
        for _ in range(3):
            session.exec("sleep MARK & echo x")
""",
    "interpreters": READY + """
while True:
    with pycordon.Interpreter("python") as python, pycordon.Interpreter("bash") as bash:
        python.execute("import subprocess; subprocess.Popen(['sleep', 'MARK'])")
        bash.execute("sleep MARK & x=1")
        python.execute("1 + 1")
""",
    "started ahead": READY + """
with pycordon.Pool(interpreters={"python": 2, "bash": 1}, limits_memory="512M") as pool:
    while True:
        with pool.interpreter("python") as python, pool.interpreter("bash") as bash:
            bash.execute("sleep MARK & x=1")
            python.execute("import subprocess; subprocess.Popen(['sleep', 'MARK'])")
""",
    "warm": READY + """
while True:
    with pycordon.Pool(preload=(), workers=2) as pool:
        pool.map(["import subprocess; subprocess.run(['sleep', '0.02'])"] * 8)
""",
    "scheduler": READY + """
async def main():
    while True:
        async with pycordon.Scheduler(max_concurrency=2) as scheduler:
            await asyncio.gather(*(scheduler.run("sleep 0.02; echo x > f", "raw", outputs=["f"]) for _ in range(6)))
            async with scheduler.session("bash") as session:
                await session.run("sleep MARK & x=1")
asyncio.run(main())
""",
    "e2b": "from pycordon.e2b import Sandbox\n" + READY + """
while True:
    with Sandbox.create() as sandbox:
        sandbox.commands.run("sleep MARK", background=True)
        sandbox.run_code("1 + 1")
        sandbox.files.write("f", "x")
""",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTS)
def test_nothing_goes_on(place, name):
    package = os.path.dirname(os.path.dirname(os.path.abspath(pycordon.__file__)))
    env = {**os.environ, "PYTHONPATH": package}
    seen = 0
    for _ in range(6):
        mark = f"{random.randrange(10**6, 10**7)}.5"
        argv = [sys.executable, "-c", START + HOSTS[name].replace("MARK", mark)]
        host = subprocess.Popen(argv, stdout=subprocess.PIPE, env=env, cwd="/")
        assert host.stdout.readline() == b"ready\n"
        time.sleep(random.uniform(0, 0.4))
        known = {pid: start_of(pid) for pid in descendants(host.pid)}
        seen += len(known)
        assert start_of(host.pid) is not None, "it has ended by itself"
        host.send_signal(signal.SIGKILL)
        host.wait()
        host.stdout.close()
        until(lambda known=known: all(start_of(p) != s or s is None for p, s in known.items()), "a process is left")
        until(lambda mark=mark: not processes_with(mark), "a command is left")
    assert seen, "the control: there were some"
    with pycordon.Sandbox() as box:
        assert box.run("echo on").stdout == "on\n"
