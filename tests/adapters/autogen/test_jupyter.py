# SPDX-License-Identifier: Apache-2.0
"""The executor whose blocks share their state."""

import asyncio
import base64
import os
import time

import pytest
from autogen_agentchat.agents import CodeExecutorAgent
from autogen_agentchat.messages import CodeExecutionEvent
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor
from autogen_ext.code_executors.jupyter import JupyterCodeExecutor
from autogen_ext.models.replay import ReplayChatCompletionClient

from pycordon.adapters.autogen import CordonJupyterExecutor

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SHOW = "class Show:\n    def __init__(self, **forms): self.forms = forms\n    def _repr_mimebundle_(self, **_): return self.forms\n    def __repr__(self): return 'shown'\n"


async def run(executor, *codes, token=None):
    blocks = [CodeBlock(code=code, language="python") for code in codes]
    return await executor.execute_code_blocks(blocks, token or CancellationToken())


@pytest.fixture
async def executor(tmp_path):
    async with CordonJupyterExecutor(timeout=20, output_dir=tmp_path / "out") as made:
        yield made


async def test_hostile_code(hostile, everything, work):
    async with JupyterCodeExecutor(output_dir=work) as local:
        assert hostile.done((await run(local, hostile.python)).output) == everything
    for isolation in ("namespaces", "landlock"):
        async with CordonJupyterExecutor(output_dir=work, isolation=isolation) as executor:
            assert hostile.done((await run(executor, hostile.python)).output) == set()


async def test_state_and_order(executor):
    result = await run(executor, "x = 20\nprint('a')", "import sys\nprint('e', file=sys.stderr)\nx + 1")
    assert (result.exit_code, result.output) == (0, "a\n\ne\n\n21")
    result = await run(executor, "print('b')\n1 / 0", "print('never')")
    assert result.exit_code == 1 and result.output.startswith("b\n\nTraceback")
    assert "never" not in result.output
    assert (await run(executor, "x")).output == "20"
    await executor.restart()
    assert "NameError" in (await run(executor, "x")).output


async def test_files_have_a_number_and_a_form(executor, tmp_path):
    code = SHOW + (
        f"display(Show(**{{'image/png': {PIXEL!r}}}))\ndisplay(Show(**{{'image/png': b'<script>'}}))\n"
        "Show(**{'text/html': '<b>x</b>'})"
    )
    result = await run(executor, code)
    png, html = result.output_files
    assert png.parent == html.parent == tmp_path / "out"
    assert (png.suffix, png.read_bytes()) == (".png", PIXEL)
    assert (html.suffix, html.read_text()) == (".html", "<b>x</b>")
    assert "[an image left out: it is no PNG]" in result.output
    many = await run(executor, "for _ in range(150): display(Show(**{'text/html': 'x'}))")
    assert len(many.output_files) == 100 and many.output.count("left out") == 50
    large = await run(executor, "for _ in range(64): display(Show(**{'text/html': 'x' * (1 << 20)}))")
    assert large.exit_code == 1 and len(large.output_files) <= 16


async def test_a_timeout_keeps_the_state(tmp_path):
    async with CordonJupyterExecutor(timeout=1, output_dir=tmp_path) as executor:
        await run(executor, "x = 1")
        with pytest.raises(asyncio.TimeoutError):
            await run(executor, "while True: pass")
        assert (await run(executor, "x")).output == "1"


@pytest.mark.parametrize("how", ["token", "task"])
async def test_cancelling_interrupts_and_keeps_the_state(executor, tmp_path, how):
    await run(executor, "x = 1")
    token = CancellationToken()
    code = "import subprocess\nsubprocess.run(['sleep', '4716'])"
    task = asyncio.ensure_future(run(executor, code, token=token))
    end = time.monotonic() + 20
    while not _is_alive("sleep 4716"):
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
    (token if how == "token" else task).cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not _is_alive("sleep 4716")
    assert (await run(executor, "x")).output == "1"


def _is_alive(text):
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                if file.read().replace(b"\0", b" ").strip() == text.encode():
                    return True
        except OSError:
            pass
    return False


async def test_the_end_of_an_interpreter_is_told(executor):
    ended = await run(executor, "import os\nos._exit(3)")
    assert ended.exit_code == 1 and "ended with status 3" in ended.output
    fresh = await run(executor, "1 + 1")
    assert "what was defined before is lost" in fresh.output and fresh.output.endswith("2")


async def test_other_languages(tmp_path):
    async with CordonJupyterExecutor("bash", output_dir=tmp_path) as executor:
        await run(executor, "greeting=hello")
        result = await run(executor, 'echo "$greeting"; exit 3')
        assert (result.exit_code, result.output) == (3, "hello\n\nExitStatus: 3")


async def test_component_round_trip(tmp_path):
    made = CordonJupyterExecutor(timeout=7, output_dir=tmp_path, max_memory_mb=99, policy="agent", env={"A": "1"})
    model = made.dump_component()
    assert model.provider == "pycordon.adapters.autogen.CordonJupyterExecutor"
    again = CodeExecutor.load_component(model.model_dump())
    assert type(again) is CordonJupyterExecutor and again.dump_component() == model
    async with again:
        assert (await run(again, "import os\nos.environ['A']")).output == "'1'"


async def test_code_executor_agent(hostile, tmp_path):
    model = ReplayChatCompletionClient([f"```python\n{hostile.python}\n```", "TERMINATE"])
    async with CordonJupyterExecutor(output_dir=tmp_path) as executor:
        agent = CodeExecutorAgent("coder", code_executor=executor, model_client=model)
        said = [event async for event in agent.run_stream(task="go")]
    (output,) = [event.result.output for event in said if isinstance(event, CodeExecutionEvent)]
    assert hostile.done(output) == set()
