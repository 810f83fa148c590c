# SPDX-License-Identifier: Apache-2.0
"""What type checkers say about calls of the package; never executed. tools/check-types.py wants an
error in each line that ends with "slip", and in no other."""

import math
from datetime import timedelta
from pathlib import Path
from typing import Optional

import pycordon

# As it is meant.
config = pycordon.SandboxConfig(max_memory_mb=512, net_allow=["example.com"])
box = pycordon.Sandbox(config, fs_read=["/usr/share", Path("/srv")], fs_write="/var/tmp", isolation="auto")
box = pycordon.Sandbox("python", limits_wall=timedelta(seconds=5), limits_memory=math.inf, net_publish=[8080])
box = pycordon.Sandbox(limits=pycordon.Limits(memory="64M"), best_effort=["memory"], max_procs=None)
policy = pycordon.Policy("agent", env=pycordon.Env(set={"A": "b"}), cwd="/tmp").merged(max_cpu_percent=50)
result = box.run(["ls", "-l"], orphans="keep", timeout="5s", policy=policy, limits_procs=8)
result = box.run_code("print(1)", files={"a": b""}, max_memory_mb=64.5)
result = pycordon.run("true", workdir="/var/tmp", fs_read=["/usr"], stdin=b"x", check=True, timeout=1.5)
text: str = result.kind
pool = pycordon.Pool(workers=2, parked=4, limits_memory="64M", env={"A": "b"})
graded = pool.map(["print(1)"], ["x"], expected=["1"], timeout=2, limits={"limits_procs": 8})
graded = pool.map([pycordon.Program(code="1", checker=lambda r: r.ok), {"code": "2"}, ["ls"]], progress=print)
verdict: str = graded[0].verdict
python = pycordon.Interpreter("python", limits_memory="1G", workdir="/var/tmp", env={"A": "b"}, grace=1)
done = python.execute("1", timeout=1.5, on_stdout=print)
shown: Optional[bytes] = done.displays[0].png
pycordon.AsyncInterpreter("bash", sandbox=pycordon.AsyncSandbox())
box.install("six", "npm:is-number@7", build_packages=True)
python.install("six")
pool.install("six")
pycordon.Session().install("six")
kept = pycordon.DetachedSession.create("agent", name="kept", idle="5m", lifetime=3600, packages=["six"], max_memory_mb=64)
number: int = kept.start(["sleep", "60"], timeout="5s").number
status: int = pycordon.DetachedSession.attach("kept").exec("cat", stdin=b"x", merge=True).returncode
ended: Optional[pycordon.Result] = kept.command(number).wait(1.5)
done = pycordon.Session().execute("1", "python", timeout=1.5, on_stdout=print)
text = kept.execute("1", timeout=2).text or kept.interpreter("bash").execute("x").stdout
data: bytes = kept.files.read("x")
forks = pycordon.Session(persist=True).fork(3)
text = forks[0].fork().snapshot("before").name
forks[0].restore("before")
python = pycordon.Session().interpreter("bash", cwd="/tmp", env={"A": "b"}, grace=1, max_output=1 << 20)


async def later() -> None:
    await pycordon.AsyncSandbox().install("six")
    await pycordon.AsyncSession().install("six")
    await (await pycordon.AsyncSession(persist=True).fork(2))[0].fork()
    there = await pycordon.AsyncDetachedSession.create(fs_read=["/usr/share"], workdir=Path("/srv"))
    await (await there.start("true")).wait()
    done = await pycordon.AsyncSession().execute("1", language="js", on_stderr=print)
    await pycordon.AsyncSession().interpreter("bash").set_vars({"a": 1})
    await pycordon.AsyncInterpreter().install("six", build_packages=True)


# Slips: a wrong name, type, unit, literal.
pycordon.Sandbox(max_memmory_mb=512)  # slip
pycordon.Sandbox(max_memory_mb="512M")  # slip
pycordon.Sandbox(max_execution_seconds="30s")  # slip
pycordon.Sandbox(fs_read=5)  # slip
pycordon.Sandbox(fs_read=b"/usr")  # slip
pycordon.Sandbox(net_allow={"example.com": 443})  # slip
pycordon.Sandbox(isolation="namespace")  # slip
pycordon.Sandbox(persist="no")  # slip
pycordon.Sandbox(env={"A": 1})  # slip
pycordon.Policy("pyton")  # slip
pycordon.SandboxConfig(max_cpu_percent="50%")  # slip
box.run("true", orphans="keeep")  # slip
box.run("true", timeout=[5])  # slip
box.run("true", fs_raed=["/usr"])  # slip
box.run_code("print(1)", files=["a"])  # slip
pycordon.run("true", stdin=["x"])  # slip
pycordon.AsyncSandbox(limits_procs="many")  # slip
pycordon.Pool(worker=2)  # slip
pycordon.Pool(parked="two")  # slip
pool.map(["print(1)"], limits={"limits_memmory": "64M"})  # slip
pool.map([pycordon.Program(code=5)])  # slip
pycordon.AsyncPool(limits_memory=["64M"])  # slip
pycordon.Interpreter("python", limits_memmory="1G")  # slip
python.execute("1", timeout="1s")  # slip
python.set_vars(["a"])  # slip
box.install(["six"])  # slip
python.install("six", build="yes")  # slip
pycordon.Session().install("six", build_packages="yes")  # slip
pycordon.DetachedSession.create(max_memmory_mb=512)  # slip
pycordon.DetachedSession.create(persist=True)  # slip
pycordon.DetachedSession.create(idle=["5m"])  # slip
kept.start("true", stdin=b"x")  # slip
kept.kill("1")  # slip
pycordon.Session().execute("1", timeout="1s")  # slip
pycordon.Session().interpreter("python", limits_memory="1G")  # slip
