# SPDX-License-Identifier: Apache-2.0
"""CrewAI's tools over the scheduler, and its own tools for E2B over sandboxes of this machine."""

import asyncio
import base64
import concurrent.futures
import pathlib
import subprocess
import sys
import threading

import pytest
from pycordon.adapters.crewai import (
    CordonE2BExecTool,
    CordonE2BFileTool,
    CordonE2BPythonTool,
    CordonSchedulerTool,
)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))


@pytest.fixture
def scheduler():
    made = []

    def make(**settings):
        made.append(CordonSchedulerTool(**settings))
        return made[-1]

    yield make
    for tool in made:
        tool.close()
        tool.close()


def test_schema():
    schema = CordonSchedulerTool().args_schema.model_json_schema()
    assert schema["required"] == ["code"]
    assert set(schema["properties"]) == {"code", "packages", "language", "timeout_seconds"}
    assert schema["properties"]["packages"]["items"] == {"type": "string"}
    with pytest.raises(ValueError):
        CordonSchedulerTool().run(code="1", language="cobol")


def test_code(scheduler, work):
    tool = scheduler(max_memory_mb=512)
    assert tool.run(code="print(6 * 7)") == {"exit_code": 0, "stdout": "42\n", "stderr": "", "error": None}
    assert tool.run(code="console.log(1 + 1)", language="javascript")["stdout"] == "2\n"
    done = tool.run(code="echo out; echo err >&2; exit 3", language="raw")
    assert (done["exit_code"], done["stdout"], done["stderr"]) == (3, "out\n", "err\n")
    assert "ZeroDivisionError" in tool.run(code="1 / 0")["stderr"]
    long = tool.run(code="print('x' * 900_000)")["stdout"]
    assert len(long) < 51_000 and "characters left out" in long
    with concurrent.futures.ThreadPoolExecutor(5) as threads:
        got = threads.map(lambda n: tool.run(code=f"print({n})")["stdout"], range(10))
        assert list(got) == [f"{n}\n" for n in range(10)]


def test_hostile_code(hostile, everything, scheduler, work):
    outside = subprocess.run([sys.executable, "-c", hostile.python], capture_output=True, text=True)
    assert hostile.done(outside.stdout) == everything
    tool = scheduler()
    assert hostile.done(tool.run(code=hostile.python)) == set()
    assert hostile.done(tool.run(code=hostile.shell, language="raw")) == set()


def test_hostile_code_in_an_agent(hostile, scheduler, work, ask):
    heard = ask(scheduler(), {"code": hostile.python, "packages": []})
    assert hostile.done(heard.split("Observation:")[-1]) == set()


def test_policy_cannot_be_widened_by_arguments(scheduler, work):
    tool = scheduler(max_execution_seconds=2, allowed_packages=["numpy"])
    done = tool.run(code="while True: pass", timeout_seconds=1000)
    assert done["exit_code"] == 124 and "time" in done["error"]
    (work / "requirements.txt").write_text("SECRET-FILE\n")
    for words in (["requests"], ["numpy.txt"], [str(work / "requirements.txt")], ["numpy @ http://127.0.0.1/x"]):
        refused = tool.run(code="print('ran')", packages=words)
        assert refused["exit_code"] is None and refused["stdout"] == "" and "SECRET" not in refused["error"]
    assert tool.run(code="print('ran')", timeout_seconds=-1)["stdout"] == "ran\n"
    try:  # an argument that the schema has not
        seen = tool.run(code="import os; print(os.path.exists('/root/.bashrc'))", fs_read=["/root"])
        assert seen["stdout"] == "False\n"
    except ValueError:
        pass


def test_packages(scheduler, work, tmp_path, monkeypatch):
    from packageslib import Index, wheel

    index = Index()
    index.add(wheel("one"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, value in index.env.items():
        monkeypatch.setenv(name, value)
    try:
        done = scheduler().run(code="import one; print(one.VERSION)", packages=["one"])
        assert done["stdout"] == "1.0\n", done
    finally:
        index.close()


def test_asynchronous_calls_and_cancelling(scheduler, work):
    tool = scheduler()

    async def main():
        got = await asyncio.gather(*(tool._arun(code=f"print({n})") for n in range(4)))
        assert [one["stdout"] for one in got] == [f"{n}\n" for n in range(4)]
        task = asyncio.ensure_future(tool._arun(code="import time; time.sleep(60)"))
        while tool._scheduler.stats()["running"] < 1:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while tool._scheduler.stats()["running"]:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), 60))
    tool.close()
    assert tool.run(code="print(1)")["stdout"] == "1\n"  # with a new one


def test_nothing_is_left(work):
    tool = CordonSchedulerTool()
    tool.run(code="1")
    tool.close()
    for thread in threading.enumerate():
        if thread.name == "cordon-crewai":
            thread.join(20)
            assert not thread.is_alive()


# --- E2B's tools of crewai-tools ------------------------------------------------------------------------------------


def test_e2b_exec(work):
    tool = CordonE2BExecTool(settings={"limits_memory": "300M"})
    done = tool.run(command="echo $A; pwd; echo e >&2; exit 3", envs={"A": "b"}, cwd="/tmp")
    assert (done["exit_code"], done["stdout"], done["stderr"]) == (3, "b\n/tmp\n", "e\n")
    assert tool.run(command="cat /tmp/kept || touch /tmp/kept")["stdout"] == ""
    assert tool.run(command="cat /tmp/kept || touch /tmp/kept")["stdout"] == ""


def test_e2b_hostile_code(hostile, work):
    assert hostile.done(CordonE2BPythonTool().run(code=hostile.python)) == set()
    assert hostile.done(CordonE2BExecTool().run(command=hostile.shell)) == set()


def test_e2b_python(work):
    tool = CordonE2BPythonTool(persistent=True, policy={"limits": {"memory": "300M"}})
    try:
        assert tool.run(code="x = 20\nprint('said')")["stdout"] == ["said\n"]
        done = tool.run(code="x + 1")
        assert done["text"] == "21" and done["execution_count"] == 2 and done["results"][0]["is_main_result"]
        assert tool.run(code="1 / 0")["error"]["name"] == "ZeroDivisionError"
        assert tool._persistent_sandbox.get_info().memory_mb == 300
    finally:
        tool.close()


def test_e2b_files_of_a_sandbox_that_exists(work):
    from pycordon.e2b import Sandbox

    with Sandbox.create() as sandbox:
        tool = CordonE2BFileTool(sandbox_id=sandbox.sandbox_id)
        tool.run(action="write", path="/home/user/a/b", content="ü")
        tool.run(action="append", path="/home/user/a/b", content="!")
        assert tool.run(action="read", path="/home/user/a/b")["content"] == "ü!"
        data = base64.b64encode(bytes(range(256))).decode()
        tool.run(action="write", path="/tmp/bin", content=data, binary=True)
        assert tool.run(action="read", path="/tmp/bin", binary=True)["content"] == data
        listed = tool.run(action="list", path="/home/user", depth=2)
        assert {entry["name"] for entry in listed["entries"]} == {"a", "b"}
        assert tool.run(action="info", path="/home/user/a/b")["size"] == 3
        assert tool.run(action="exists", path="/tmp/bin")["exists"] is True
        tool.run(action="mkdir", path="/tmp/d")
        tool.run(action="delete", path="/tmp/bin")
        assert not sandbox.files.exists("/tmp/bin") and sandbox.files.exists("/tmp/d")
        assert sandbox.is_running()


def test_e2b_in_an_agent(hostile, work, ask):
    heard = ask(CordonE2BPythonTool(), {"code": hostile.python})
    assert hostile.done(heard.split("Observation:")[-1]) == set()
