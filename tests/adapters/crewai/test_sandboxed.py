# SPDX-License-Identifier: Apache-2.0
"""sandboxed(): the body of any tool in a sandbox of its own."""

import sys

import pytest
import sample_tools
from crewai.tools import BaseTool
from pydantic import SecretStr

from pycordon import PolicyError
from pycordon.adapters.crewai import sandboxed


def test_same_tool(work):
    tool = sample_tools.Greeter(greeting="Ahoy", key=SecretStr("sesame"), max_usage_count=2)
    wrapped = sandboxed(tool)
    assert isinstance(wrapped, BaseTool)
    assert (wrapped.name, wrapped.description, wrapped.max_usage_count) == (
        "Greeter",
        "Greets somebody.",
        2,
    )
    assert wrapped.args_schema is tool.args_schema
    assert (
        wrapped.run(who="Ada", times=2)
        == tool.run(who="Ada", times=2)
        == "Ahoy, Ada! Ahoy, Ada! sesame"
    )
    with pytest.raises(ValueError, match="who"):
        wrapped.run(times=1)


def test_hostile_body(hostile, everything, work):
    tool = sample_tools.Attacker()
    assert hostile.done(tool.run(code=hostile.python)) == everything
    assert hostile.done(sandboxed(tool).run(code=hostile.python)) == set()


def test_hostile_body_in_an_agent(hostile, work, ask):
    heard = ask(sandboxed(sample_tools.Attacker()), {"code": hostile.python})
    assert hostile.done(heard.split("Observation:")[-1]) == set()


def test_each_has_its_own_policy(work, tmp_path):
    (tmp_path / "data").write_text("granted")
    code = f"print(open({str(tmp_path / 'data')!r}).read())"
    tool = sample_tools.Attacker()
    with pytest.raises(RuntimeError, match="FileNotFoundError|PermissionError"):
        sandboxed(tool).run(code=code)
    assert sandboxed(tool, fs_read=[str(tmp_path / "data")]).run(code=code) == "granted\n"
    policy = {"fs": {"read": [str(tmp_path / "data")]}}
    assert sandboxed(tool, policy).run(code=code) == "granted\n"


def test_answers(work):
    tool = sandboxed(sample_tools.Odd())
    assert tool.run(kind="model") == {"number": 7, "words": ["a", "b"]}
    assert tool.run(kind="object") == "{1, 2}"
    assert tool.run(kind="forged") == '{"value": "forged"}'


def test_failures(work):
    tool = sandboxed(sample_tools.Odd(), max_execution_seconds=120)
    with pytest.raises(RuntimeError, match="KeyError.*what it said"):
        tool.run(kind="raise")
    with pytest.raises(RuntimeError, match="did not finish"):
        tool.run(kind="exit")
    tool = sandboxed(sample_tools.Odd(), max_execution_seconds=10)
    with pytest.raises(RuntimeError, match="did not finish.*time"):
        tool.run(kind="sleep")


def test_answer_is_data_only(work):
    """What comes back is parsed as JSON: a body that writes a pickle, or nonsense, achieves nothing."""
    tool = sandboxed(sample_tools.Attacker(), max_execution_seconds=120)
    for data in (b"\x80\x04N.", b'{"other": 1}'):
        code = f"import os\nfor fd in range(3, 20):\n try: os.write(fd, {data!r})\n except OSError: pass\nos._exit(0)"
        with pytest.raises(RuntimeError, match="did not finish"):
            tool.run(code=code)


def test_long_answer(work):
    tool = sandboxed(sample_tools.Greeter(), max_output_bytes=1000)
    with pytest.raises(RuntimeError, match="longer than max_output_bytes"):
        tool.run(who="x", times=1000)


def test_function_tool(work):
    assert sandboxed(sample_tools.adder).run(a=40, b=2) == 42


def test_async_body(work):
    assert sandboxed(sample_tools.Asynchronous()).run(word="loud") == "LOUD"


class InMain(BaseTool):
    name: str = "InMain"
    description: str = "x"

    def _run(self) -> str:
        return ""


def test_what_cannot_be_imported(work):
    class Local(BaseTool):
        name: str = "Local"
        description: str = "x"

        def _run(self) -> str:
            return ""

    for tool in (Local(), sample_tools.make_closure()):
        with pytest.raises(ValueError, match="defined in a module"):
            sandboxed(tool)
    InMain.__module__ = "__main__"
    with pytest.raises(ValueError, match="__main__"):
        sandboxed(InMain())
    with pytest.raises(ValueError, match="not JSON"):
        sandboxed(sample_tools.Unserializable(thing=object()))


def test_wrong_setting_is_an_error_at_once(work):
    with pytest.raises(PolicyError):
        sandboxed(sample_tools.Greeter(), fs_raed=["/x"])


def test_tool_of_a_package(work, tmp_path, monkeypatch):
    """Only the package itself becomes readable, not what lies beside it."""
    package = tmp_path / "project" / "mytools"
    package.mkdir(parents=True)
    (tmp_path / "project" / "beside.txt").write_text("secret")
    (package / "__init__.py").write_text("")
    (package / "words.py").write_text("WORD = 'relative'\n")
    (package / "reader.py").write_text(
        "from crewai.tools import BaseTool\n"
        "from .words import WORD\n"
        "class Reader(BaseTool):\n"
        "    name: str = 'Reader'\n"
        "    description: str = 'Reads.'\n"
        "    def _run(self, path: str) -> str:\n"
        "        try:\n"
        "            return WORD + open(path).read()\n"
        "        except OSError as error:\n"
        "            return WORD + type(error).__name__\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "project"))
    import mytools.reader

    tool = mytools.reader.Reader()
    path = str(tmp_path / "project" / "beside.txt")
    assert tool.run(path=path) == "relativesecret"
    assert sandboxed(tool).run(path=path) in (
        "relativeFileNotFoundError",
        "relativePermissionError",
    )
    sys.modules.pop("mytools", None)
