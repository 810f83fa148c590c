# SPDX-License-Identifier: Apache-2.0
"""Tools and shell policy for LangChain's own agents."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HostExecutionPolicy, ShellToolMiddleware
from langchain.agents.middleware.shell_tool import ShellSession
from langchain_core.messages import AIMessage, ToolMessage
from models import ScriptedModel, call

import pycordon
from pycordon.adapters.langchain import CordonExecutionPolicy, code_tool, shell_tool


def run_shell(policy, workspace, command, env=None, timeout=30):
    workspace.mkdir(exist_ok=True)
    session = ShellSession(workspace, policy, ("/bin/bash",), env or {})
    session.start()
    try:
        return session.execute(command, timeout=timeout).output
    finally:
        session.stop(10)


def test_importing_needs_no_deepagents():
    code = (
        "import sys; sys.modules['deepagents'] = None; import pycordon.adapters.langchain as a; "
        "a.CordonExecutionPolicy; "
        "import pycordon, pycordon.adapters; print('ok')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "ok\n", done.stderr


def test_importing_cordon_imports_no_framework():
    code = (
        "import pycordon, pycordon.adapters, sys; print([m for m in sys.modules if 'langchain' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_hostile_shell_command_works_on_the_host_and_fails_inside(hostile, everything, tmp_path):
    outside = run_shell(HostExecutionPolicy(), tmp_path / "w", hostile.shell)
    assert hostile.done(outside) == everything - {"environment"}
    inside = run_shell(CordonExecutionPolicy(), tmp_path / "w", hostile.shell)
    assert hostile.done(inside) == set()


def test_workspace_is_writable_and_environment_is_passed(tmp_path):
    output = run_shell(
        CordonExecutionPolicy(), tmp_path / "w", "pwd; echo $TOKEN > made", env={"TOKEN": "a b"}
    )
    assert output.strip() == str(tmp_path / "w")
    assert (tmp_path / "w" / "made").read_text() == "a b\n"


def test_nothing_stands_in_a_temporary_workspace(tmp_path):
    """The middleware made it and removes it: there is nothing to keep free. A control: one that was given."""
    middleware = ShellToolMiddleware(execution_policy=CordonExecutionPolicy())
    resources = middleware._create_resources()
    try:
        output = resources.session.execute("ls -A; mkdir .vscode && touch .mcp.json && ls -A", timeout=30).output
    finally:
        resources.session.stop(10)
        if resources.tempdir is not None:
            resources.tempdir.cleanup()
    assert output.split() == [".mcp.json", ".vscode"]
    assert ".vscode" in run_shell(CordonExecutionPolicy(), tmp_path / "w", "ls -A")


def test_values_of_variables_are_not_in_the_argument_list(tmp_path):
    popen = CordonExecutionPolicy().spawn(
        workspace=tmp_path, env={"TOKEN": "hush-hush"}, command=["/bin/cat"]
    )
    try:
        with open(f"/proc/{popen.pid}/cmdline", "rb") as file:
            assert b"hush-hush" not in file.read()
    finally:
        popen.kill()
        popen.communicate()


def test_shell_settings_are_the_sandboxes(tmp_path):
    policy = CordonExecutionPolicy(settings={"max_memory_mb": 64})
    command = "python3 -c 'b = b\"x\" * (512 << 20)' && touch fine"
    run_shell(CordonExecutionPolicy(settings={"max_memory_mb": 1024}), tmp_path / "w", command)
    assert (tmp_path / "w" / "fine").exists()
    (tmp_path / "w" / "fine").unlink()
    run_shell(policy, tmp_path / "w", command, timeout=5)  # the shell goes, too: nothing answers
    assert not (tmp_path / "w" / "fine").exists()


def test_killed_shell_takes_everything_along(tmp_path):
    workspace = tmp_path / "w"
    workspace.mkdir()
    session = ShellSession(workspace, CordonExecutionPolicy(), ("/bin/bash",), {})
    session.start()
    session.execute("(setsid sh -c 'sleep 3; echo late > late' &) ; touch begun", timeout=10)
    assert (workspace / "begun").exists()
    session._kill_process()
    time.sleep(3.5)  # the time in which it would have written
    assert not (workspace / "late").exists()


def test_shell_middleware_under_an_agent(hostile, tmp_path):
    model = ScriptedModel(
        responses=[
            AIMessage("", tool_calls=[call("shell", command=hostile.shell)]),
            AIMessage("", tool_calls=[call("shell", command="echo kept > /tmp/f; cd /tmp")]),
            AIMessage("", tool_calls=[call("shell", command="cat f")]),
            AIMessage("finished"),
        ]
    )
    shell = ShellToolMiddleware(tmp_path / "w", execution_policy=CordonExecutionPolicy())
    agent = create_agent(model, middleware=[shell])
    messages = agent.invoke({"messages": [("user", "go")]})["messages"]
    outputs = [str(m.content) for m in messages if isinstance(m, ToolMessage)]
    assert hostile.done(outputs[0]) == set()
    assert outputs[2].strip() == "kept"
    assert messages[-1].content == "finished"


def test_tools_describe_themselves():
    code, shell = code_tool(), shell_tool()
    assert (code.name, shell.name) == ("execute_code", "execute_command")
    assert set(code.args) == {"code", "language"} and set(shell.args) == {"command"}
    assert code.args["code"]["description"] and shell.args["command"]["description"]
    assert code_tool(name="python", description="Runs Python.").description == "Runs Python."


def test_tools_run_and_report():
    with pycordon.Sandbox(workdir=True) as sandbox:
        code, shell = code_tool(sandbox), shell_tool(sandbox)
        assert code.invoke({"code": "open('f', 'w').write('x'); print(6 * 7)"}) == "42"
        assert shell.invoke({"command": "cat f"}) == "x"
        assert code.invoke({"code": "echo $((1 + 1))", "language": "bash"}) == "2"
        failed = code.invoke({"code": "raise ValueError('bad')"})
        assert "ValueError: bad" in failed and "exit code 1" in failed
        assert shell.invoke({"command": "true"}) == "(no output)"


def test_tools_async():
    with pycordon.Sandbox(workdir=True) as sandbox:
        assert asyncio.run(code_tool(sandbox).ainvoke({"code": "print(1)"})) == "1"
        assert asyncio.run(shell_tool(sandbox).ainvoke({"command": "echo 2"})) == "2"


def test_hostile_code_under_an_agent(hostile, everything):
    def on_the_host(code: str) -> str:
        """Run code."""
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout

    for tool, expected in ((on_the_host, everything), (code_tool(), set())):
        name = getattr(tool, "name", "on_the_host")
        model = ScriptedModel(
            responses=[
                AIMessage("", tool_calls=[call(name, code=hostile.python)]),
                AIMessage("finished"),
            ]
        )
        messages = create_agent(model, tools=[tool]).invoke({"messages": [("user", "go")]})[
            "messages"
        ]
        (output,) = [str(m.content) for m in messages if isinstance(m, ToolMessage)]
        assert hostile.done(output) == expected


@pytest.mark.parametrize("bad", ["max_memory", "nonsense"])
def test_unknown_settings_are_refused(bad):
    with pytest.raises((TypeError, pycordon.CordonError)):
        code_tool(**{bad: 1})
