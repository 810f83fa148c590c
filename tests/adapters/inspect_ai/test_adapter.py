# SPDX-License-Identifier: Apache-2.0
"""What Inspect's checks do not ask, evaluations with a scripted model, and hostile code."""

import asyncio
import json
import os
import shlex
import subprocess
import sys

import pytest
from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, solver, use_tools
from inspect_ai.tool import bash, python
from inspect_ai.util import (
    OutputLimitExceededError,
    SandboxEnvironmentSpec,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandbox,
)
from inspect_ai.util._sandbox.limits import override_max_exec_output_size
from inspect_ai.util._sandbox.local import LocalSandboxEnvironment
from scripted import scripted

from pycordon.adapters.inspect_ai import CordonConfig, CordonSandboxEnvironment


def attack(hostile):
    return "/usr/bin/python3 -c " + shlex.quote(hostile.python)


@pytest.fixture
async def env():
    environment = CordonSandboxEnvironment()
    yield environment
    await environment.sandbox.close()


def test_found_without_an_import():
    """By the entry point of the installed package, as `inspect eval --sandbox cordon` finds it."""
    script = (
        "from inspect_ai.util._sandbox.registry import registry_find_sandboxenv as find;"
        "print(find('cordon').__module__)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "pycordon.adapters.inspect_ai"


async def test_the_own_user_is_accepted(env):
    uid = (await env.exec(["id", "-u"])).stdout.strip()
    name = (await env.exec(["id", "-un"])).stdout.strip()
    assert uid != "0"
    for user in {uid, name} - {""}:
        assert (await env.exec(["id", "-u"], user=user)).stdout.strip() == uid
    for user in ("root", "0", "nobody"):
        with pytest.raises(SandboxUserUnsupportedError):
            await env.exec(["true"], user=user)
    with pytest.raises(SandboxUserUnsupportedError):
        await env.connection(user="root")


async def test_missing_program_is_a_result(env):
    result = await env.exec(["no-such-program"])
    assert (result.success, result.returncode) == (False, 127) and "no-such-program" in result.stderr


async def test_missing_directory(env):
    with pytest.raises(FileNotFoundError):
        await env.exec(["true"], cwd="/no/such/directory")


async def test_too_much_output(env):
    with override_max_exec_output_size(1000):
        with pytest.raises(OutputLimitExceededError) as e:
            await env.exec(["yes"], timeout=20)
    assert "y\ny\n" in e.value.truncated_output and len(e.value.truncated_output) <= 1000


async def test_undecodable(env):
    assert (await env.exec(["printf", r"\377"])).stdout == "\ufffd"
    await env.write_file("bytes", b"\xff")
    with pytest.raises(UnicodeDecodeError):
        await env.read_file("bytes")
    await env.write_file("crlf", "a\r\nb")
    assert await env.read_file("crlf") == "a\r\nb"


async def test_closed_is_unavailable(env):
    await env.sandbox.close()
    for call in (env.exec(["true"]), env.read_file("x"), env.write_file("x", "")):
        with pytest.raises(SandboxUnavailableError):
            await call


async def test_connection_reaches_the_same_files(env):
    await env.write_file("/tmp/note", "42\n")
    connection = await env.connection()
    assert connection.type == "cordon"
    shell = subprocess.run(
        connection.command, shell=True, input=b"cat /tmp/note; pwd\n", capture_output=True, timeout=20
    )
    assert shell.stdout.decode() == f"42\n{env.sandbox.workdir}\n", shell


async def test_samples_share_nothing():
    one = await CordonSandboxEnvironment.sample_init("t", None, {})
    two = await CordonSandboxEnvironment.sample_init("t", None, {})
    await one["default"].write_file("/tmp/mine", "x")
    with pytest.raises(FileNotFoundError):
        await two["default"].read_file("/tmp/mine")
    for environments in (one, two):
        await CordonSandboxEnvironment.sample_cleanup("t", None, environments, True)


async def test_cleanup_by_id(env):
    await env.write_file("x", "")
    await CordonSandboxEnvironment.cli_cleanup(env.sandbox.id)
    with pytest.raises(SandboxUnavailableError):
        await env.read_file("x")


async def test_background_processes_stay(env):
    await env.exec(["sh", "-c", "(while [ ! -e stop ]; do sleep 0.05; done; echo 42 > answer) &"])
    await env.write_file("stop", "")
    for _ in range(200):
        if (await env.exec(["test", "-s", "answer"])).success:
            break
        await asyncio.sleep(0.05)
    assert await env.read_file("answer") == "42\n"


# --- evaluations -----------------------------------------------------------------------------------


async def evaluate(tmp_path, model, kind, tools=None):
    sample = Sample(input="Do it.", target="done", files={"given.txt": "41"})
    tools = tools or [bash(timeout=20), python(timeout=20)]
    task = Task([sample], solver=[use_tools(tools), generate()], scorer=includes(), sandbox=kind)
    [log] = await eval_async(task, model=model, log_dir=str(tmp_path / "logs"))
    assert log.status == "success", log.error
    return [message for message in log.samples[0].messages if message.role == "tool"]


async def test_eval(tmp_path):
    model = scripted(
        ("bash", {"command": "echo $(( $(cat given.txt) + 1 )) > answer"}),
        ("python", {"code": "print(open('answer').read())"}),
        ("bash", {"command": "sleep 60"}),
    )
    tools = [bash(timeout=1), python(timeout=20)]
    first, second, third = await evaluate(tmp_path, model, "cordon", tools)
    assert (first.text, first.error) == ("", None)
    assert (second.text.strip(), second.error) == ("42", None)
    assert third.error.type == "timeout"


async def test_eval_with_inspects_helper_inside(tmp_path):
    """Sessions and streams go through a program that Inspect puts into the sandbox."""

    @solver
    def remote():
        async def solve(state, generate):
            result = await sandbox().exec_remote(["sh", "-c", "cat given.txt; id -u"], stream=False)
            state.output.completion = f"done {result.stdout.split()}"
            return state

        return solve

    sample = Sample(input="Do it.", target="done ['41',", files={"given.txt": "41\n"})
    task = Task([sample], solver=[remote()], scorer=includes(), sandbox="cordon")
    [log] = await eval_async(task, model=scripted(), log_dir=str(tmp_path / "logs"))
    assert log.status == "success", log.error
    assert log.results.scores[0].metrics["accuracy"].value == 1, log.samples[0].output.completion


async def test_policy_beside_the_task(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cordon.json").write_text('{"version": 1, "limits": {"memory": "100M"}}')
    (tmp_path / "mine.py").write_text(TASK)
    [log] = await eval_async("mine.py", model=scripted(), log_dir=str(tmp_path / "logs"))
    assert log.status == "success", log.error
    assert log.eval.sandbox.config.endswith("cordon.json")
    assert "memory" in log.samples[0].output.completion


TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.solver import solver
from inspect_ai.util import sandbox

@solver
def hog():
    async def solve(state, generate):
        result = await sandbox().exec(["/usr/bin/python3", "-c", "x = bytearray(300 << 20)"])
        state.output.completion = result.stderr
        return state
    return solve

@task
def mine():
    return Task([Sample("Do it.")], solver=[hog()], sandbox="cordon")
"""


async def test_eval_with_a_policy_file(tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"version": 1, "limits": {"memory": "100M"}}))
    hog = ("python", {"code": "x = bytearray(300 << 20)"})
    for kind in (("cordon", str(policy)), SandboxEnvironmentSpec("cordon", CordonConfig(max_memory_mb=100))):
        [message] = await evaluate(tmp_path, scripted(hog), kind)
        assert "memory" in message.text, message


async def test_wrong_settings():
    with pytest.raises(Exception, match="max_memory_megs"):
        await CordonSandboxEnvironment.sample_init("t", CordonConfig(max_memory_megs=1), {})


async def test_hostile_code_in_an_eval(tmp_path, hostile, everything):
    [message] = await evaluate(tmp_path, scripted(("bash", {"command": attack(hostile)})), "cordon")
    assert hostile.done(message.text) == set(), message.text
    [message] = await evaluate(tmp_path, scripted(("bash", {"command": attack(hostile)})), "local")
    assert hostile.done(message.text) == everything


async def test_hostile_code(hostile, everything, env):
    inside = await env.exec(["/usr/bin/python3", "-c", hostile.python])
    assert hostile.done(inside.stdout) == set(), inside.stdout
    local = LocalSandboxEnvironment()
    outside = await local.exec(["/usr/bin/python3", "-c", hostile.python])
    local.directory.cleanup()
    assert hostile.done(outside.stdout) == everything


async def test_hostile_link(hostile, env):
    """A file operation from outside goes through the sandbox, so a link leads where it leads inside."""
    secret = hostile.file
    await env.exec(["ln", "-s", str(secret), "link"])
    with pytest.raises(OSError):
        await env.read_file("link")
    local = LocalSandboxEnvironment()
    os.symlink(secret, os.path.join(local.directory.name, "link"))
    assert await local.read_file("link") == secret.read_text()
    local.directory.cleanup()


def test_example(run_example):
    shown = run_example("inspect_ai_agent.py")
    assert "tool: 45\n" in shown and "score: 1.0\n" in shown and "id_*" in shown
