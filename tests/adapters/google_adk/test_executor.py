# SPDX-License-Identifier: Apache-2.0
"""The code executor: the cases of ADK's own tests of the local one, an agent, hostile code."""

import base64
import threading
import time

import pytest
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.code_executors.code_execution_utils import CodeExecutionInput, File
from google.genai import types
from scripted import code, events_of

from pycordon.adapters.google_adk import CordonCodeExecutor



def execute(executor, text, *files):
    return executor.execute_code(None, CodeExecutionInput(code=text, input_files=list(files)))


def test_defaults():
    executor = CordonCodeExecutor()
    assert (executor.stateful, executor.optimize_data_file) == (False, False)
    assert (executor.error_retry_attempts, executor.timeout_seconds) == (2, 300)


def test_settings():
    with pytest.raises(ValueError):
        CordonCodeExecutor(stateful=True)
    with pytest.raises(Exception, match="max_memory_megs"):
        CordonCodeExecutor(max_memory_megs=1)
    assert CordonCodeExecutor(timeout_seconds=5, error_retry_attempts=1).timeout_seconds == 5


def test_print():
    result = execute(CordonCodeExecutor(), 'print("hello world")')
    assert (result.stdout, result.stderr, result.exit_code) == ("hello world\n", "", 0)
    assert result.output_files == []


def test_raise():
    result = execute(CordonCodeExecutor(), 'print("before")\nraise ValueError("Test error")')
    assert result.stdout == "before\n" and "ValueError: Test error" in result.stderr
    assert result.exit_code == 1


def test_assignment_and_nothing():
    for text in ("x = 10\ny = x * 2", "", "# only a comment"):
        result = execute(CordonCodeExecutor(), text)
        assert (result.stdout, result.stderr, result.exit_code) == ("", "", 0)


def test_functions():
    text = "def one(n):\n    return n + 1\ndef two(n):\n    return one(n) * 2\nprint(two(1))"
    assert execute(CordonCodeExecutor(), text).stdout == "4\n"
    text = "def main():\n    print('main')\nif __name__ == '__main__':\n    main()"
    assert execute(CordonCodeExecutor(), text).stdout == "main\n"
    text = "def f(n):\n    return 1 if n < 2 else n * f(n - 1)\nprint([f(i) for i in range(5)])"
    assert execute(CordonCodeExecutor(), text).stdout == "[1, 1, 2, 6, 24]\n"


def test_syntax_error():
    result = execute(CordonCodeExecutor(), "print(")
    assert "SyntaxError" in result.stderr and result.exit_code == 1


def test_warnings_of_a_good_run_are_no_failure():
    result = execute(CordonCodeExecutor(), "import sys\nprint('ok')\nprint('careful', file=sys.stderr)")
    assert (result.stdout, result.stderr, result.exit_code) == ("ok\n", "", 0)


def test_exits():
    result = execute(CordonCodeExecutor(), "import sys\nsys.exit(0)")
    assert (result.stderr, result.exit_code) == ("", 0)
    result = execute(CordonCodeExecutor(), "import os\nos._exit(3)")
    assert "status 3" in result.stderr and result.exit_code == 3


def test_a_killed_process_is_reported():
    result = execute(CordonCodeExecutor(), "import os\nos.kill(os.getpid(), 9)")
    assert result.exit_code == 137 and result.stderr


def test_timeout():
    text = "import time\nprint('before', flush=True)\ntime.sleep(60)"
    began = time.monotonic()
    result = execute(CordonCodeExecutor(timeout_seconds=1), text)
    assert time.monotonic() - began < 20
    assert result.stdout == "before\n" and "timed out after 1 seconds" in result.stderr


def test_a_reached_limit_is_explained():
    result = execute(CordonCodeExecutor(max_memory_mb=100), "x = bytearray(300 << 20)\nprint('no')")
    assert (result.stdout, result.exit_code) == ("", 137) and "memory" in result.stderr


def test_not_ascii():
    assert execute(CordonCodeExecutor(), "print('☽ 😀')").stdout == "☽ 😀\n"


def test_a_long_program():
    text = f"x = {'a' * 300_000!r}\nprint(len(x))"
    assert execute(CordonCodeExecutor(), text).stdout == "300000\n"


def test_nothing_stays():
    executor = CordonCodeExecutor()
    execute(executor, "open('mine', 'w').close(); open('/tmp/mine', 'w').close(); x = 1")
    result = execute(executor, "import os\nprint(os.listdir(), os.path.exists('/tmp/mine'), 'x' in globals())")
    assert result.stdout == "[] False False\n"


def test_parallel_calls_do_not_mix():
    executor, outputs = CordonCodeExecutor(), {}
    text = "import time\nfor _ in range(5):\n    print({0}, flush=True)\n    time.sleep(0.02)"

    def one(i):
        outputs[i] = execute(executor, text.format(i)).stdout

    threads = [threading.Thread(target=one, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == {i: f"{i}\n" * 5 for i in range(6)}


def test_files():
    given = [
        File(name="raw.bin", content=b"\x00\xff"),
        File(name="data.csv", content=base64.b64encode(b"a,b\n1,2\n").decode(), mime_type="text/csv"),
    ]
    text = """
import os
print(open('raw.bin', 'rb').read(), open('data.csv').read())
open('plot.png', 'wb').write(b'png')
os.mkfifo('fifo'); os.symlink('/etc/passwd', 'link'); os.mkdir('dir'); open('dir/x', 'w').close()
os.truncate(os.open('huge', os.O_CREAT | os.O_WRONLY), 11 << 20)
"""
    result = execute(CordonCodeExecutor(), text, *given)
    assert result.stdout == "b'\\x00\\xff' a,b\n1,2\n\n", result.stderr
    assert result.output_files == [File(name="plot.png", content=b"png", mime_type="image/png")]


@pytest.mark.parametrize("name", ["../../escaped", "/etc/escaped", "/usr/escaped"])
def test_names_of_files_stay_inside(name, tmp_path):
    """A name comes with a request; the worst it can do is fail, or hit the sandbox's own files."""
    try:
        execute(CordonCodeExecutor(), "", File(name=name, content=b"x"))
    except OSError:
        pass


def test_host_directory(tmp_path):
    work = tmp_path / "work"
    result = execute(CordonCodeExecutor(workdir=work), "open('answer', 'w').write('42')")
    assert result.stderr == "" and (work / "answer").read_text() == "42"
    assert result.output_files == []


async def test_agent():
    events, artifacts = await events_of(
        "Compute it.",
        code("print(6 * 7)\nopen('answer.txt', 'w').write('42')"),
        types.Part(text="It is 42."),
        code_executor=CordonCodeExecutor(),
    )
    results = [p.code_execution_result for e in events for p in e.content.parts if p.code_execution_result]
    assert [r.outcome for r in results] == [types.Outcome.OUTCOME_OK] and "42" in results[0].output
    assert events[-1].content.parts[-1].text == "It is 42."
    assert artifacts == ["answer.txt"]


async def test_agent_sees_a_failure_and_tries_again():
    events, _ = await events_of(
        "Compute it.",
        code("raise ValueError('wrong')"),
        code("print('right')"),
        types.Part(text="right"),
        code_executor=CordonCodeExecutor(),
    )
    results = [p.code_execution_result for e in events for p in e.content.parts if p.code_execution_result]
    assert [r.outcome for r in results] == [types.Outcome.OUTCOME_FAILED, types.Outcome.OUTCOME_OK]
    assert "ValueError: wrong" in results[0].output


async def test_hostile_code(hostile, everything):
    async def outcome(executor):
        events, _ = await events_of(
            "Take what you can.", code(hostile.python), types.Part(text="done"), code_executor=executor
        )
        [result] = [p.code_execution_result for e in events for p in e.content.parts if p.code_execution_result]
        return hostile.done(result.output)

    assert await outcome(CordonCodeExecutor()) == set()
    assert await outcome(UnsafeLocalCodeExecutor()) == everything
