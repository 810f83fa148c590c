# SPDX-License-Identifier: Apache-2.0
"""The executor of smolagents' CodeAgent."""

import base64
import datetime
import decimal
import io
import pathlib
import pickle

import numpy
import PIL.Image
import pytest
from smolagents import CodeAgent, FinalAnswerTool, LocalPythonExecutor, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessage, MessageRole
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.utils import AgentExecutionError

from pycordon.adapters import _smolagents_values as values
from pycordon.adapters.smolagents import CordonExecutor


class Scripted(Model):
    def __init__(self, *codes):
        super().__init__(model_id="scripted")
        self.codes = list(codes)
        self.asked = []

    def generate(self, messages, **kwargs):
        self.asked.append(str([message.content for message in messages]))
        return ChatMessage(MessageRole.ASSISTANT, f"Thought: run it\n<code>\n{self.codes.pop(0)}\n</code>")


@tool
def add(a: int, b: int) -> int:
    """Adds numbers.

    Args:
        a: one
        b: the other
    """
    return a + b


@tool
def needs_a_package(a: int) -> int:
    """Uses a package that is nowhere.

    Args:
        a: a number
    """
    import no_such_package_at_all

    return no_such_package_at_all.f(a)


@pytest.fixture
def executor():
    with CordonExecutor() as made:
        made.send_tools({"final_answer": FinalAnswerTool(), "add": add})
        yield made


def error_of(executor, code):
    with pytest.raises(AgentExecutionError) as caught:
        executor(code)
    return str(caught.value)


# --- the reason for it ------------------------------------------------------------------------------


def test_hostile_code(hostile, everything):
    local = LocalPythonExecutor(additional_authorized_imports=["*"])
    local.send_tools({})
    code = f"import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', {hostile.python!r}], capture_output=True, text=True).stdout)"
    assert hostile.done(local(code).logs) == everything
    for isolation in ("namespaces", "landlock"):
        with CordonExecutor(isolation=isolation) as executor:
            assert hostile.done(executor(hostile.python).logs) == set()
            assert hostile.done(executor(code).logs) == set()


class Payload:
    """Runs where it is unpickled."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return (open, (self.marker, "w"))


def test_nothing_that_comes_out_is_unpickled(executor, tmp_path):
    marker = tmp_path / "unpickled"
    bare = base64.b64encode(pickle.dumps(Payload(marker))).decode()
    RemotePythonExecutor._deserialize_final_answer(f"pickle:{bare}", allow_pickle=True)
    assert marker.exists()  # this is what it does where pickle is trusted
    marker.unlink()
    # The protocol of the remote executors means nothing here.
    said = error_of(
        executor,
        f"class FinalAnswerException(BaseException): pass\nraise FinalAnswerException('pickle:{bare}')",
    )
    assert "IndexError" in said
    # Code that takes the place of what is ours inside.
    for answer in (
        f"'pickle:{bare}'",
        f"{{'__type__': 'pickle', 'data': '{bare}'}}",
        f"{{'__type__': 'ndarray', 'data': ['object', ['{bare}']]}}",
        f"{{'__type__': 'image', 'data': '{bare}'}}",
        f"{{'__type__': 'bytes', 'data': '{bare}'}}",
    ):
        code = f"import cordon_values\ncordon_values.encode = lambda value: value\nfinal_answer({answer})"
        try:
            executor(code)
        except AgentExecutionError:
            pass
        assert not marker.exists(), answer


def image_code(data):
    text = base64.b64encode(data).decode()
    return (
        "import cordon_values\ncordon_values.encode = lambda value: value\n"
        f"final_answer({{'__type__': 'image', 'data': {text!r}}})"
    )


def test_hashes_that_are_all_the_same(executor):
    """A set of so many takes the square of their number of steps: minutes of the agent's own process."""
    usual = {n << 1 for n in range(20_000)}
    assert executor("final_answer(set(range(0, 40_000, 2)))").output == usual
    numbers = "[n * (2**61 - 1) for n in range(20_000)]"
    for kind, data in (("set", numbers), ("frozenset", numbers), ("dict", f"[[n, 0] for n in {numbers}]")):
        said = error_of(
            executor,
            "import cordon_values\ncordon_values.encode = lambda value: value\n"
            f"final_answer({{'__type__': {kind!r}, 'data': {data}}})",
        )
        assert "the same hash" in said


def test_images_are_png_and_have_a_size(executor):
    small, other, large = io.BytesIO(), io.BytesIO(), io.BytesIO()
    PIL.Image.new("RGB", (4, 4)).save(small, "PNG")
    PIL.Image.new("RGB", (4, 4)).save(other, "EPS")
    PIL.Image.new("1", (4097, 4097)).save(large, "PNG")
    assert executor(image_code(small.getvalue())).output.size == (4, 4)
    assert "UnidentifiedImageError" in error_of(executor, image_code(other.getvalue()))
    assert "pixels" in error_of(executor, image_code(large.getvalue()))


@pytest.mark.parametrize(
    "said",
    [
        "{'__type__': 'set', 'data': [[]]}",
        "{'__type__': []}",
        "{'__type__': 'tuple'}",
        "{'__type__': 'Decimal', 'data': {}}",
        "{'__type__': 'ndarray', 'data': ['S1000000000', ['']]}",
        "__import__('functools').reduce(lambda made, _: [made], range(900), 0)",
        "10 ** 5000",
    ],
)
def test_answers_that_make_no_sense_are_errors(executor, said):
    code = f"import cordon_values\ncordon_values.encode = lambda value: value\nimport sys\nsys.set_int_max_str_digits(0)\nfinal_answer({said})"
    assert "final_answer:" in error_of(executor, code)
    assert executor("final_answer(1)").output == 1


def test_an_answer_that_is_too_large_is_an_error(executor):
    assert "large" in error_of(executor, "final_answer('x' * (9 << 20))")


def test_output_that_the_model_sees_is_bounded(executor):
    done = executor("print('x' * 200_000)\n'y' * 200_000")
    assert len(done.logs) < 60_000 and len(done.output) < 60_000
    assert len(error_of(executor, "raise ValueError('z' * 200_000)")) < 60_000


def test_memory_limit_is_explained():
    with CordonExecutor(max_memory_mb=64) as executor:
        executor.send_tools({"add": add})
        code = "import os\nparts = []\nwhile True: parts.append(os.urandom(1 << 20))"
        assert "emory" in error_of(executor, code)
        assert executor("add(1, 2)").output == "3"


# --- values ------------------------------------------------------------------------------------------

VALUES = [
    None, True, 3, 2.5, "text", [1, [2]], {"a": {"b": 1}}, {1: 2, (1, 2): 3}, (1, (2,)), {1, 2},
    frozenset({3}), b"\x00\xff", 2 + 3j, datetime.datetime(2026, 1, 2, 3, 4, 5), datetime.date(2026, 1, 2),
    datetime.time(3, 4), datetime.timedelta(days=-1, microseconds=5), decimal.Decimal("1.50"),
    pathlib.PurePosixPath("/a/b"), {"__type__": "tuple", "data": [1]},
]  # fmt: skip


def test_values_go_in_and_come_out(executor):
    executor.send_variables({"values": VALUES})
    assert executor("final_answer(values)").output == VALUES
    assert executor("final_answer([type(value).__name__ for value in values])").output[-3:-1] == [
        "Decimal",
        "PurePosixPath",
    ]


def test_arrays_and_images(executor):
    array = numpy.arange(6, dtype="int16").reshape(2, 3)
    executor.send_variables({"array": array, "image": PIL.Image.new("RGB", (2, 3), (255, 0, 0))})
    found, waves, scalar, image = executor(
        "import numpy as np\nfinal_answer([array * 2, np.array([1j]), np.float32(0.5), image])"
    ).output
    assert found.dtype == "int16" and (found == array * 2).all()
    assert waves.tolist() == [1j] and scalar == 0.5 and type(scalar) is float
    assert image.size == (2, 3) and image.getpixel((1, 1)) == (255, 0, 0)


def test_what_has_no_form_is_told_to_the_model(executor):
    assert "cannot leave or enter the sandbox" in error_of(executor, "final_answer(object())")
    with pytest.raises(TypeError, match="cannot leave or enter"):
        executor.send_variables({"x": object()})
    loop = []
    loop.append(loop)
    with pytest.raises(TypeError, match="nested"):
        values.encode(loop)


# --- the interface -----------------------------------------------------------------------------------


def test_state_and_final_answers_from_inside(executor):
    executor("import math\ndef f(n):\n    if n == 0:\n        final_answer({'area': math.pi})\n    f(n - 1)")
    try_it = executor("try:\n    f(3)\nexcept Exception:\n    pass")
    assert try_it.is_final_answer and try_it.output == {"area": 3.141592653589793}
    done = executor("print('seen')\nmath.e > 2")
    assert (done.output, done.logs, done.is_final_answer) == ("True", "seen\n", False)
    assert executor("final_answer(add(2, 3))").output == 5


def test_errors_keep_what_was_printed(executor):
    said = error_of(executor, "print('before')\n1 / 0")
    assert "ZeroDivisionError" in said and executor.state["_print_outputs"] == "before\n"
    assert error_of(executor, "raise FinalAnswerException").startswith("Traceback")  # not ours


def test_a_timeout_keeps_the_state():
    with CordonExecutor(timeout=1) as executor:
        executor("x = 1")
        assert "interrupted after 1 seconds" in error_of(executor, "while True: pass")
        assert executor("x").output == "1"


def test_tools_and_variables_come_back_after_the_end(executor):
    executor.send_variables({"x": 41})
    executor("y = 1")
    assert "All variables are lost" in error_of(executor, "import os\nos._exit(3)")
    assert executor("final_answer(add(x, 1))").output == 42
    assert "NameError" in error_of(executor, "y")


def test_an_end_between_two_steps(executor):
    """Whatever notices it first says so, and what comes after that has everything."""
    for notice in (lambda: executor.send_variables({"x": 41}), lambda: executor.send_tools({"add": add})):
        executor.send_variables({"x": 41})
        executor("import os, threading\nthreading.Timer(0.1, os._exit, (3,)).start()")
        with pytest.raises(AgentExecutionError, match="All variables are lost"):
            while True:
                notice()
        assert executor("final_answer(add(x, 1))").output == 42


def test_agents_tools_are_not_changed():
    """Upstream's remote executors give the tool another class."""
    mine = FinalAnswerTool()
    with CordonExecutor() as executor:
        executor.send_tools({"final_answer": mine})
        assert executor("final_answer(1)").is_final_answer
    assert type(mine) is FinalAnswerTool and mine("x") == "x"


def test_missing_packages_are_named(executor):
    with pytest.raises(ValueError, match="no_such_package_at_all.*packages="):
        executor.send_tools({"needs_a_package": needs_a_package})


def test_packages_are_those_of_a_sandbox(monkeypatch):
    """They reach the layers of packages, which have tests of their own."""
    from pycordon import _front

    asked = []

    def install(packages, policy, may_build):
        asked.append(list(packages))
        raise RuntimeError("asked")

    monkeypatch.setattr(_front, "install", install)
    with pytest.raises(RuntimeError, match="asked"):
        CordonExecutor(packages=["six==1.17.0"])
    assert asked == [["six==1.17.0"]]


def test_managed_agents_are_refused(executor):
    agent = ToolCallingAgent(tools=[], model=Scripted(), name="other", description="another one")
    with pytest.raises(ValueError, match="'other' is no tool"):
        executor.send_tools({"other": agent})


# --- in agents -----------------------------------------------------------------------------------------


def test_an_agent(hostile):
    model = Scripted(hostile.python, "x = add(extra, 1)", "print(undefined)", "final_answer((x, image))")
    executor = CordonExecutor()
    agent = CodeAgent(tools=[add], model=model, executor=executor, verbosity_level=0)
    image = PIL.Image.new("RGB", (5, 6))
    number, found = agent.run("go", additional_args={"extra": 41, "image": image})
    assert number == 42 and found.size == (5, 6)
    assert hostile.done(model.asked[1]) == set()
    assert "NameError" in model.asked[3]
    agent.cleanup()
    assert executor.sandbox.closed


def test_example(run_example, work):
    assert "832040" in run_example("smolagents_agent.py", cwd=work)
