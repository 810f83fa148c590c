# SPDX-License-Identifier: Apache-2.0
"""The AutoGen executor: what differs from the local one, and what must not."""

import asyncio
import os
import socket
import time
import warnings

import pytest
from autogen_agentchat.agents import CodeExecutorAgent
from autogen_agentchat.messages import CodeExecutionEvent
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor, with_requirements
from autogen_ext.code_executors.local import LocalCommandLineCodeExecutor
from autogen_ext.models.replay import ReplayChatCompletionClient
from autogen_ext.tools.code_execution import PythonCodeExecutionTool

from pycordon.adapters.autogen import CordonCommandLineCodeExecutor


def python(code):
    return CodeBlock(code=code, language="python")


def sh(code, language="sh"):
    return CodeBlock(code=code, language=language)


async def run(executor, *blocks, token=None):
    return await executor.execute_code_blocks(list(blocks), token or CancellationToken())


@pytest.fixture
async def executor(work):
    async with CordonCommandLineCodeExecutor(work_dir=work / "coding", timeout=20) as made:
        yield made


# --- the reason for it ------------------------------------------------------------------------------


async def test_hostile_code(hostile, everything, work):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        local = LocalCommandLineCodeExecutor(work_dir=work / "local")
    assert hostile.done((await run(local, python(hostile.python))).output) == everything
    for isolation in ("namespaces", "landlock"):
        executor = CordonCommandLineCodeExecutor(work_dir=work / "coding", isolation=isolation)
        assert hostile.done((await run(executor, python(hostile.python))).output) == set()
        assert hostile.done((await run(executor, sh(hostile.shell, "bash"))).output) == set()
        await executor.stop()


async def test_a_directory_of_its_own_holds_nothing_but_the_code(work):
    """No placeholders of protected names, and `git init` works. In the user's directory they hold."""
    async with CordonCommandLineCodeExecutor(timeout=20) as executor:
        result = await run(executor, sh("ls -A | grep -v tmp_code_; git init -q . && echo made; mkdir .vscode"))
        assert (result.exit_code, result.output) == (0, "made\n")
    async with CordonCommandLineCodeExecutor(work_dir=work / "theirs", timeout=20) as executor:
        result = await run(executor, sh("mkdir -p .git/hooks && echo x > .git/hooks/post-checkout"))
        assert result.exit_code != 0


async def test_grants(work, tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir(), out.mkdir()
    (data / "in.txt").write_text("seen")
    code = f"cat {data}/in.txt && echo made > {out}/out.txt && echo no > {data}/no.txt"
    options = {"fs_read": [str(data)], "fs_write": [str(out)]}
    async with CordonCommandLineCodeExecutor(work_dir=work / "w", **options) as executor:
        result = await run(executor, sh(code))
    assert result.exit_code != 0 and "seen" in result.output
    assert (out / "out.txt").read_text() == "made\n" and not (data / "no.txt").exists()


async def test_network_only_where_allowed(work):
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(10)
    port = server.getsockname()[1]
    code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('connected')"
    async with CordonCommandLineCodeExecutor(work_dir=work / "a") as executor:
        assert (await run(executor, python(code))).exit_code == 1
    async with CordonCommandLineCodeExecutor(
        work_dir=work / "b", net_allow=[f"127.0.0.1:{port}"]
    ) as executor:
        assert (await run(executor, python(code))).output == "connected\n"
    server.accept()[0].close()
    server.close()


async def test_memory_limit_is_explained(work):
    async with CordonCommandLineCodeExecutor(work_dir=work / "w", max_memory_mb=64) as executor:
        result = await run(executor, python("b = bytearray(512 << 20)\nprint(len(b))"))
    assert result.exit_code != 0 and str(512 << 20) not in result.output
    assert "memory" in result.output.lower()


async def test_cut_output_says_so(work):
    async with CordonCommandLineCodeExecutor(
        work_dir=work / "w", max_output_bytes=1000
    ) as executor:
        result = await run(executor, python("print('x' * 5000)"))
    assert result.exit_code == 0 and len(result.output) < 1100
    assert result.output.endswith("[output cut: 1000 of 5001 bytes are shown]")


async def test_process_limit(work):
    code = (
        "import os\nfor i in range(64):\n  if os.fork() == 0: os._exit(__import__('time').sleep(5))"
    )
    async with CordonCommandLineCodeExecutor(work_dir=work / "w", max_procs=8) as executor:
        assert (await run(executor, python(code))).exit_code != 0
    async with CordonCommandLineCodeExecutor(work_dir=work / "w", max_procs=100) as executor:
        assert (await run(executor, python(code))).exit_code == 0


async def test_environment_is_not_inherited_but_given(work):
    async with CordonCommandLineCodeExecutor(
        work_dir=work / "w", env={"GIVEN": "value"}
    ) as executor:
        assert (await run(executor, sh("echo $GIVEN"))).output == "value\n"


# --- semantics of the local executor ----------------------------------------------------------------


async def test_names_order_and_first_failure(executor):
    result = await run(executor, sh("echo a; echo e >&2"), sh("exit 7"), sh("echo never"))
    assert (result.exit_code, result.output) == (7, "e\na\n")
    assert os.path.basename(result.code_file).startswith("tmp_code_") and result.code_file.endswith(
        ".sh"
    )
    assert not os.path.exists(result.code_file)


async def test_unknown_language_keeps_earlier_output(executor):
    result = await run(executor, sh("echo a"), CodeBlock(code="x", language="cobol"))
    assert (result.exit_code, result.output) == (1, "a\n\nunknown language cobol")


async def test_timeout_kills_the_whole_tree(work):
    async with CordonCommandLineCodeExecutor(work_dir=work / "w", timeout=1) as executor:
        result = await run(
            executor, sh("(setsid sh -c 'sleep 3; echo > late' &) ; echo begun; sleep 60")
        )
        assert (result.exit_code, result.output) == (124, "\nTimeout")
    assert not _alive("sleep 60")
    await asyncio.sleep(3)  # longer than what it would have needed
    assert not (work / "w" / "late").exists()


def _alive(text):
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                if file.read().replace(b"\0", b" ").strip() == text.encode():
                    return True
        except OSError:
            pass
    return False


async def _until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("how", ["token", "task"])
async def test_cancelling_while_it_runs_really_kills(executor, how):
    token = CancellationToken()
    task = asyncio.ensure_future(
        run(executor, sh("(setsid sleep 4711 &); sleep 4712; true"), token=token)
    )
    await _until(lambda: _alive("sleep 4711") and _alive("sleep 4712"))
    begin = time.monotonic()
    if how == "token":
        token.cancel()
        result = await task
        assert (result.exit_code, result.output) == (125, "\nCancelled")
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert time.monotonic() - begin < 10
    assert not _alive("sleep 4711") and not _alive("sleep 4712")
    assert (await run(executor, sh("echo still works"))).output == "still works\n"


async def test_cancelled_token_runs_nothing(executor, work):
    token = CancellationToken()
    token.cancel()
    result = await run(executor, sh("echo > ran"), token=token)
    assert (result.exit_code, result.output) == (125, "\nCancelled")
    assert not (work / "coding" / "ran").exists()


async def test_file_names(executor, work):
    named = await run(executor, sh("# filename: sub/script.sh\necho $0"))
    assert named.exit_code == 0 and named.code_file == str(work / "coding" / "sub" / "script.sh")
    outside = await run(executor, sh("# filename: ../x.sh\necho hi"))
    assert (outside.exit_code, outside.output) == (1, "Filename is not in the workspace")


async def test_links_left_behind_lead_nowhere(executor, work, tmp_path):
    """A name that the code has turned into a link is neither written nor removed outside."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "script.sh").write_text("echo mine\n")
    (victim / "other.sh").write_text("echo mine\n")
    attack = f"# filename: sub/script.sh\nrm -r sub; ln -s {victim} sub; echo swapped"
    assert "swapped" in (await run(executor, sh(attack))).output
    assert (victim / "script.sh").read_text() == "echo mine\n"  # not removed by the cleaning up
    await run(executor, sh("# filename: sub/other.sh\necho written"))
    assert (victim / "other.sh").read_text() == "echo mine\n"
    name = "tmp_code_" + __import__("hashlib").sha256(b"echo again").hexdigest() + ".sh"
    await run(executor, sh(f"ln -s {victim}/third.sh {name}"))
    try:
        await run(executor, sh("echo again"))
    except OSError:
        pass  # the file cannot be written through that link: that is fine, too
    assert not (victim / "third.sh").exists()


async def test_cleaning_up_where_the_directory_was_exchanged(work, tmp_path):
    """Level landlock has no mounts: with a grant above it, code can put a link in its place."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "keep.sh").write_text("mine")
    attack = (
        f"# filename: keep.sh\nmv ../coding ../gone && ln -s {victim} ../coding && echo swapped"
    )
    async with CordonCommandLineCodeExecutor(
        work_dir=work / "coding", fs_write=[str(work)], isolation="landlock"
    ) as executor:
        assert (await run(executor, sh(attack))).output == "swapped\n"
        assert (work / "coding").is_symlink()  # it worked, as far as it goes
        assert (victim / "keep.sh").read_text() == "mine"
        assert not (work / "gone" / "keep.sh").exists()  # the right one is removed


async def test_component_round_trip(work):
    executor = CordonCommandLineCodeExecutor(
        timeout=7,
        work_dir=work / "w",
        net_allow=["example.com"],
        max_memory_mb=99,
        policy="agent",
        env={"A": "1"},
        fs_read=["/usr/share"],
        cleanup_temp_files=False,
    )
    model = executor.dump_component()
    assert model.provider == "pycordon.adapters.autogen.CordonCommandLineCodeExecutor"
    again = CodeExecutor.load_component(model.model_dump())
    assert type(again) is CordonCommandLineCodeExecutor
    assert again.sandbox.policy == executor.sandbox.policy
    assert again.dump_component() == model
    assert again.timeout == 7 and again.cleanup_temp_files is False
    tool = PythonCodeExecutionTool(executor)
    loaded = PythonCodeExecutionTool.load_component(tool.dump_component())
    assert type(loaded._executor) is CordonCommandLineCodeExecutor
    await executor.stop()
    await again.stop()


def test_no_warning_about_local_execution(work):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CordonCommandLineCodeExecutor(work_dir=work / "w")


async def test_temporary_directory_goes(tmp_path):
    """Whatever the code made of it; and what its links point to stays as it is."""
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o755)
    (victim / "file").write_text("mine")
    executor = CordonCommandLineCodeExecutor()
    await executor.start()
    directory = executor.work_dir
    await run(
        executor, sh(f"mkdir -p a/b; ln -s {victim} a/b/link; echo > x; chmod 500 a/b; chmod 0 a")
    )
    assert (directory / "x").exists()
    await executor.stop()
    assert not directory.exists() and not directory.parent.exists()
    assert (victim.stat().st_mode & 0o777, (victim / "file").read_text()) == (0o755, "mine")


# --- functions and their requirements ----------------------------------------------------------------


@with_requirements(python_packages=["no-such-package-for-cordon"])
def needs_missing() -> int:
    return 1


@with_requirements(python_packages=["--index-url=http://127.0.0.1/"])
def needs_option() -> int:
    return 1


@with_requirements(python_packages=["cordon-test-package"], global_imports=["cordon_test_package"])
def needs_package() -> str:
    return cordon_test_package.WORD  # noqa: F821


async def test_requirements_are_never_installed_here(work, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError(f"a process was started on the host: {args}")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    async with CordonCommandLineCodeExecutor(
        work_dir=work / "w", functions=[needs_missing]
    ) as executor:
        with pytest.raises(ValueError, match="no-such-package-for-cordon.*no network"):
            await run(executor, python("print(1)"))
    async with CordonCommandLineCodeExecutor(
        work_dir=work / "x", functions=[needs_option]
    ) as executor:
        with pytest.raises(ValueError, match="not the name of a package"):
            await run(executor, python("print(1)"))


async def test_requirements_are_installed_inside(work, package_index):
    """With a package index that the policy names; the environment outside stays as it is."""
    options = {"net_allow": [package_index.host], "env": package_index.env, "timeout": 60}
    async with CordonCommandLineCodeExecutor(
        work_dir=work / "w", functions=[needs_package], **options
    ) as executor:
        result = await run(
            executor, python("from functions import needs_package\nprint(needs_package())")
        )
    assert (result.exit_code, result.output) == (0, "installed inside\n")
    assert package_index.requests
    with pytest.raises(ImportError):
        __import__("cordon_test_package")


# --- in agents -------------------------------------------------------------------------------------------


async def test_code_executor_agent(hostile, everything, work):
    async def attack(executor):
        model = ReplayChatCompletionClient([f"```python\n{hostile.python}\n```", "TERMINATE"])
        agent = CodeExecutorAgent("coder", code_executor=executor, model_client=model)
        said = [event async for event in agent.run_stream(task="go")]
        return [event.result.output for event in said if isinstance(event, CodeExecutionEvent)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        [output] = await attack(LocalCommandLineCodeExecutor(work_dir=work / "local"))
        assert hostile.done(output) == everything
        async with CordonCommandLineCodeExecutor(work_dir=work / "w") as executor:
            [output] = await attack(executor)
    assert hostile.done(output) == set()


def test_example(run_example, work):
    assert "832040" in run_example("autogen_agent.py", cwd=work)
