# SPDX-License-Identifier: Apache-2.0
"""AG2's cases of a sandbox, for ours, and what ours is for."""

import asyncio
import os
from pathlib import Path, PurePosixPath

import pytest
from ag2 import Agent
from ag2.events import ToolCallEvent, ToolResultEvent
from ag2.testing import TestConfig
from ag2.tools import SandboxCodeTool, SandboxShellTool
from ag2.tools.sandbox import CodeAdapter, LanguageRunner, Sandbox, SandboxFactory
from ag2.tools.sandbox.adapter import ShellAdapter
from ag2.tools.sandbox.local import LocalSandbox

from pycordon.adapters.ag2 import CordonEnvironment, CordonSandbox


@pytest.fixture(params=["private", "path", "shared", "shared path"])
async def sandbox(request, work):
    path = work / "project" if "path" in request.param else None
    async with CordonSandbox(path, timeout=20, shared="shared" in request.param) as made:
        yield made


# --- the reason for it ------------------------------------------------------------------------------


async def test_hostile_code(hostile, everything, sandbox):
    local = LocalSandbox()
    argv = ["python3", "-c", hostile.python]
    assert hostile.done((await local.exec(argv)).output) == everything
    await local.aclose()
    assert hostile.done((await sandbox.exec(argv)).output) == set()


async def test_hostile_code_in_an_agent(hostile, everything, work):
    local = CodeAdapter(LocalSandbox())
    assert hostile.done((await local.run(hostile.shell, "bash")).output) == everything
    async with CordonEnvironment(work / "p") as environment:
        said = await ask(
            [SandboxCodeTool(environment)], "run_code", code=hostile.python, language="python"
        )
    assert hostile.done(said) == set()


# --- exec -----------------------------------------------------------------------------------------------


async def test_argv_runs(sandbox):
    result = await sandbox.exec(["echo", "a  b", "$HOME"])
    assert (result.output, result.exit_code) == ("a  b $HOME", 0)


async def test_pipeline_through_sh(sandbox):
    assert (await sandbox.exec(["sh", "-c", "echo hello | tr a-z A-Z"])).output == "HELLO"


async def test_no_shell_keyword(sandbox):
    with pytest.raises(TypeError):
        await sandbox.exec(["true"], shell=True)


async def test_workdir_is_cwd(sandbox):
    assert (await sandbox.exec(["pwd"])).output == str(sandbox.workdir)


async def test_env_is_added(work):
    async with CordonSandbox(env_vars={"A": "1", "B": "2"}) as sandbox:
        result = await sandbox.exec(["sh", "-c", "echo $A $B $C"], env={"B": "3", "C": "4"})
    assert result.output == "1 3 4"


async def test_exit_code_is_kept_and_stderr_is_output(sandbox):
    result = await sandbox.exec(["sh", "-c", "echo o; echo e >&2; exit 42"])
    assert (result.output, result.exit_code) == ("o\ne", 42)


async def test_signal(sandbox):
    assert (await sandbox.exec(["sh", "-c", "kill -TERM $$"])).exit_code == 143


async def test_default_timeout(work):
    async with CordonSandbox(timeout=0.5) as sandbox:
        result = await sandbox.exec(["sleep", "60"])
    assert result.exit_code == 124 and "timed out after 0.5s" in result.output


async def test_timeout_of_one_call(sandbox):
    result = await sandbox.exec(["sleep", "60"], timeout=0.5)
    assert result.exit_code == 124 and "timed out" in result.output


@pytest.mark.parametrize("timeout", [0, -1])
def test_timeout_must_be_positive(timeout):
    with pytest.raises(ValueError, match="timeout"):
        CordonSandbox(timeout=timeout)


async def test_long_output_is_cut_and_says_so(work):
    async with CordonSandbox(max_output=100) as sandbox:
        result = await sandbox.exec(["python3", "-c", "print('x' * 1000)"])
    assert result.output == "x" * 100 + "\n[truncated: showing first 100 of 1000 chars]"


async def test_endless_output_is_cut(work):
    async with CordonSandbox(max_output=100, timeout=1) as sandbox:
        result = await sandbox.exec(
            ["sh", "-c", "head -c 50000000 /dev/zero | tr '\\0' x; exit 3"], timeout=20
        )
    assert result.exit_code == 3 and result.output.endswith("of 50000000 chars]")


async def test_missing_program(sandbox):
    result = await sandbox.exec(["no-such-program-anywhere"])
    assert result.exit_code == 127 and "Command not found" in result.output


async def test_empty_argv(sandbox):
    result = await sandbox.exec([])
    assert (result.output, result.exit_code) == ("", 2)


async def test_cancelling_kills(sandbox):
    task = asyncio.ensure_future(sandbox.exec(["sh", "-c", "sleep 4801; true"]))
    while not _alive("sleep 4801"):
        assert not task.done()
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while _alive("sleep 4801"):  # a shared one is told to end it, and does
        await asyncio.sleep(0.02)


async def test_memory_limit_is_explained(work):
    async with CordonSandbox(max_memory_mb=64) as sandbox:
        result = await sandbox.exec(["python3", "-c", "b = bytearray(512 << 20); print(len(b))"])
    assert result.exit_code != 0 and "memory" in result.output.lower()


async def test_files_stay_between_commands(sandbox):
    await sandbox.exec(["sh", "-c", "echo one > here; echo two > /tmp/there"])
    assert (await sandbox.exec(["cat", "here", "/tmp/there"])).output == "one\ntwo"


# --- life -------------------------------------------------------------------------------------------------


async def test_closed(work):
    sandbox = CordonSandbox()
    await sandbox.exec(["true"])
    await sandbox.aclose()
    await sandbox.aclose()
    for action in (
        lambda: sandbox.exec(["true"]),
        lambda: sandbox.put_file(PurePosixPath("x"), b""),
        lambda: sandbox.remove_file(PurePosixPath("x")),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            await action()


async def test_enter_and_exit(work):
    sandbox = CordonSandbox(work / "p")
    async with sandbox as entered:
        assert entered is sandbox
        await sandbox.exec(["true"])
    with pytest.raises(RuntimeError, match="closed"):
        await sandbox.exec(["true"])
    assert (work / "p").is_dir()  # a directory that was given is never removed


async def test_workdir_is_canonical_and_made(work):
    (work / "real").mkdir()
    (work / "link").symlink_to("real")
    async with CordonSandbox(work / "link" / "a" / ".." / "b") as sandbox:
        assert sandbox.host_workdir == work / "real" / "b"
        assert sandbox.workdir == PurePosixPath(work / "real" / "b")
        await sandbox.exec(["touch", "made"])
    assert (work / "real" / "b" / "made").exists()


def test_nothing_happens_at_construction(work):
    CordonSandbox(work / "a" / "b")
    assert not (work / "a").exists()


async def test_protocols(work):
    sandbox, environment = CordonSandbox(), CordonEnvironment()
    assert isinstance(sandbox, Sandbox) and not isinstance(sandbox, SandboxFactory)
    assert isinstance(environment, SandboxFactory)
    async with environment.open() as opened:
        assert opened is environment.sandbox
    assert (await opened.exec(["echo", "open"])).output == "open"  # the factory keeps it
    await environment.aclose()
    await sandbox.aclose()


# --- files --------------------------------------------------------------------------------------------------


async def test_put_file(sandbox):
    await sandbox.put_file(PurePosixPath("a/b/c.bin"), bytes(range(256)))
    assert (await sandbox.exec(["sh", "-c", "wc -c < a/b/c.bin"])).output == "256"


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x"])
async def test_put_file_stays_inside(sandbox, path):
    with pytest.raises(ValueError):
        await sandbox.put_file(PurePosixPath(path), b"")
    with pytest.raises(ValueError):
        await sandbox.remove_file(PurePosixPath(path))


async def test_put_and_remove_do_not_follow_links_out(work, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "keep").write_text("mine")
    async with CordonSandbox(work / "p") as sandbox:
        await sandbox.exec(["ln", "-s", str(victim), "out"])
        for action in (
            lambda: sandbox.put_file(PurePosixPath("out/new"), b"theirs"),
            lambda: sandbox.put_file(PurePosixPath("out/keep"), b"theirs"),
            lambda: sandbox.remove_file(PurePosixPath("out/keep")),
        ):
            try:
                await action()
            except OSError:
                pass
    assert {path.name for path in victim.iterdir()} == {"keep"}
    assert (victim / "keep").read_text() == "mine"


async def test_remove_file(sandbox):
    await sandbox.put_file(PurePosixPath("x"), b"1")
    await sandbox.remove_file(PurePosixPath("x"))
    await sandbox.remove_file(PurePosixPath("x"))
    assert (await sandbox.exec(["test", "-e", "x"])).exit_code == 1


# --- adapters ---------------------------------------------------------------------------------------------------


async def test_code_adapter_inline(sandbox):
    adapter = CodeAdapter(sandbox)
    assert (await adapter.run("print(6 * 7)", "python")).output == "42"
    assert (await adapter.run("echo ${BASH_VERSION:+bash}", "bash")).output == "bash"


async def test_code_adapter_disabled_language(sandbox):
    result = await CodeAdapter(sandbox, languages=("python",)).run("echo", "bash")
    assert result.exit_code == 2 and "not enabled" in result.output


def test_code_adapter_unknown_language(work):
    with pytest.raises(ValueError, match="cobol"):
        CodeAdapter(CordonSandbox(), languages=("cobol",))


async def test_code_adapter_custom_runner_leaves_no_script(sandbox):
    runner = LanguageRunner(file_extension="pl", file_runner_argv=("perl",))
    adapter = CodeAdapter(sandbox, languages=("perl",), runners={"perl": runner})
    assert (await adapter.run('print "from perl"', "perl")).output == "from perl"
    assert "ag2_" not in (await sandbox.exec(["ls"])).output


async def test_shell_adapter(sandbox):
    shell = ShellAdapter(sandbox)
    assert await shell.run("echo a | cat; exit 3") == "a\n[exit code: 3]"
    assert "not allowed" in await ShellAdapter(sandbox, allowed=["ls"]).run("rm x")


# --- in agents ------------------------------------------------------------------------------------------------------


def _json(**values):
    import json

    return json.dumps(values)


async def ask(tools, name, **arguments):
    """One scripted turn of an agent that calls a tool; what the tool answered."""
    config = TestConfig(ToolCallEvent(name, arguments=_json(**arguments)), "done")
    agent = Agent("agent", config=config, tools=tools)
    reply = await agent.ask("go")
    events = [
        event for event in await reply.history.get_events() if isinstance(event, ToolResultEvent)
    ]
    return "\n".join(part.content for event in events for part in event.result.parts)


async def test_tools_share_one_environment(work):
    async with CordonEnvironment(work / "p") as environment:
        shell, code = SandboxShellTool(environment), SandboxCodeTool(environment)
        await ask([shell], "run_shell_command", command="echo shared > note")
        said = await ask([code], "run_code", code="print(open('note').read())", language="python")
    assert "shared" in said
    assert (work / "p" / "note").read_text() == "shared\n"


def test_example(run_example, work):
    assert "832040" in run_example("ag2_agent.py", cwd=work)


def _alive(text):
    for entry in os.listdir("/proc"):
        try:
            if (
                Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").strip()
                == text.encode()
            ):
                return True
        except OSError:
            pass
    return False
