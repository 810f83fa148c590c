# SPDX-License-Identifier: Apache-2.0
"""smolagents: the code of a CodeAgent runs in a Cordon sandbox, and keeps its state.

    from pycordon.adapters.smolagents import CordonExecutor

    agent = CodeAgent(tools=[...], model=model, executor=CordonExecutor(max_memory_mb=1024))

The agent's tools run inside, too: what they may reach is what the code may reach.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from smolagents.local_python_executor import CodeOutput, PythonExecutor
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.tools import Tool, get_tools_definition_code
from smolagents.utils import AgentExecutionError, truncate_content

from pycordon import CodeError, Execution, Interpreter, Policy, Sandbox, StateError, UsageError

from . import _smolagents_values as _values
from ._common import PackageError

_MESSAGE_MAX = 8 << 20  # bytes; as objects they take many times that
_ANSWER_MAX = 7 << 20
_LOST = "All variables are lost, the tools are there again."
_ANSWER = "FinalAnswerException"
# In a module of its own, so that names of the agent's code and these do not meet.
_SETUP = """
def _setup(text):
    import sys, types
    module = types.ModuleType("cordon_values")
    sys.modules["cordon_values"] = module
    exec(compile(text, "<cordon>", "exec"), module.__dict__)
    class {answer}(BaseException):
        pass
    module.answers = []
    def final(tool):
        def final_answer(*args, **kwargs):
            answer = module.encode(tool(*args, **kwargs))
            if len(module.json.dumps(answer)) > {limit}:
                raise ValueError("the answer is too large: at most {limit} bytes")
            module.answers.append(answer)
            raise {answer}
        return final_answer
    module.final = final
_setup({text!r})
del _setup
"""
_LOOK = """
import importlib.util as _look
_missing = [name for name in {names!r} if _look.find_spec(name) is None]
"""
_ASK = "import cordon_values as _values\n_answer = _values.answers.pop()"
_TAKE = "import cordon_values as _values\nglobals().update(_values.decode(_sent))\ndel _sent"


class CordonExecutor(PythonExecutor):  # type: ignore[misc]
    """Executes the code of an agent in an interpreter of its own, inside a sandbox.

    ``policy`` and ``settings`` are those of `pycordon.Sandbox`; ``packages`` are installed for it, as
    ``packages=`` of a Sandbox are. ``timeout``: seconds for each piece of code, which is interrupted
    then. ``max_print_outputs_length``: characters of what is printed that the model gets to see.

    What comes out is read as JSON and nothing else: no pickle, and of images PNG only.
    """

    def __init__(
        self,
        policy: Optional[Union[Policy, str, dict[str, Any]]] = None,
        *,
        packages: Sequence[str] = (),
        timeout: Optional[float] = 120,
        max_print_outputs_length: int = 50_000,
        logger: Optional[AgentLogger] = None,
        **settings: Any,
    ) -> None:
        self._sandbox = Sandbox(policy, packages=packages, **settings)
        self._interpreter = Interpreter("python", sandbox=self._sandbox, max_output=_MESSAGE_MAX)
        self._timeout = timeout
        self._length = max_print_outputs_length
        self._logger = logger or AgentLogger(level=LogLevel.OFF)
        self._tools: dict[str, Tool] = {}
        self._variables: dict[str, Any] = {}
        self._is_set_up = False
        #: What the agent shows of code that failed.
        self.state = {"_print_outputs": ""}

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox: its files are those of the code."""
        return self._sandbox

    def __enter__(self) -> CordonExecutor:
        return self

    def __exit__(self, *exception: object) -> None:
        self.cleanup()

    def cleanup(self) -> None:
        """Ends the interpreter and its sandbox."""
        self._interpreter.close()
        self._sandbox.close()

    # --- what the agent calls -----------------------------------------------------------------------

    def send_tools(self, tools: Mapping[str, Tool]) -> None:
        """Defines tools inside. What they import has to be there."""
        for name, tool in tools.items():
            if not isinstance(tool, Tool):
                raise ValueError(
                    f"'{name}' is no tool but a {type(tool).__name__}: agents cannot be called from a sandbox"
                )
        self._ready()
        self._define_tools(tools)
        self._tools.update(tools)

    def send_variables(self, variables: Mapping[str, Any]) -> None:
        """Sets variables inside: what JSON can say, dates, bytes, images, arrays of numbers."""
        if variables:
            self._ready()
            self._define_variables(variables)
            self._variables.update(variables)

    def __call__(self, code_action: str) -> CodeOutput:
        """Runs code. It goes on where the code before it has left off."""
        self._ready()
        done = self._execute(code_action)
        logs = truncate_content(self._logs(done), max_length=self._length)
        self.state["_print_outputs"] = logs
        if done.error is None:
            text = None if done.text is None else truncate_content(done.text, max_length=self._length)
            return CodeOutput(output=text, logs=logs, is_final_answer=False)
        if done.error.name == _ANSWER and not done.ended:
            return CodeOutput(output=self._answer(), logs=logs, is_final_answer=True)
        self._is_set_up = not done.ended
        raise AgentExecutionError(
            truncate_content(self._why(done, done.error), max_length=self._length), self._logger
        )

    # --- behind it ----------------------------------------------------------------------------------

    def _ready(self) -> None:
        """An interpreter that has the tools and variables; they are sent again to a fresh one."""
        if self._is_set_up:
            return
        text = inspect.getsource(_values)
        self._run(_SETUP.format(answer=_ANSWER, limit=_ANSWER_MAX, text=text))
        self._is_set_up = True
        if self._tools:
            self._define_tools(self._tools)
        if self._variables:
            self._define_variables(self._variables)

    def _execute(self, code: str) -> Execution:
        done = self._interpreter.execute(code, timeout=self._timeout)
        if self._is_set_up and done.count == 1:  # it ended after the last piece of code; this one is bare
            self._is_set_up = False
            reason = done.reason or "the interpreter ended"
            raise AgentExecutionError(f"{reason}. {_LOST}", self._logger)
        return done

    def _run(self, code: str) -> None:
        """Code of ours and of tools, which has to succeed."""
        done = self._execute(code)
        if done.error is not None:
            self._is_set_up = self._is_set_up and not done.ended
            raise AgentExecutionError(self._why(done, done.error), self._logger)

    def _ask(self, ask: Callable[[], Any]) -> Any:
        """A request that is no code. Its interpreter may end meanwhile: the next call has a fresh one."""
        try:
            return ask()
        except StateError as error:
            self._is_set_up = False
            raise AgentExecutionError(f"{error}. {_LOST}", self._logger) from None

    def _define_tools(self, tools: Mapping[str, Tool]) -> None:
        code = get_tools_definition_code(tools)
        wanted = {name for tool in tools.values() for name in tool.to_dict()["requirements"]}
        names = sorted(wanted - {"smolagents"})
        self._run(_LOOK.format(names=names))
        missing = self._ask(lambda: self._interpreter.get_var("_missing"))
        if missing:
            found = ", ".join(name for name in names if not isinstance(missing, list) or name in missing)
            raise PackageError(
                f"the tools import what the sandbox lacks: {found}. "
                "Name the packages: CordonExecutor(packages=[...])"
            )
        if "final_answer" in tools:
            code += "\nimport cordon_values as _values\nfinal_answer = _values.final(final_answer)\n"
        self._run(code)

    def _define_variables(self, variables: Mapping[str, Any]) -> None:
        sent = {"_sent": _values.encode(dict(variables))}
        self._ask(lambda: self._interpreter.set_vars(sent))
        self._run(_TAKE)

    def _answer(self) -> Any:
        try:
            self._run(_ASK)
            return _values.decode(self._ask(lambda: self._interpreter.get_var("_answer")))
        except (ValueError, KeyError, UsageError) as error:
            raise AgentExecutionError(f"final_answer: {error}", self._logger) from None

    @staticmethod
    def _logs(done: Execution) -> str:
        return done.stdout + done.stderr

    def _why(self, done: Execution, error: CodeError) -> str:
        if done.ended:
            return f"{done.reason}. {_LOST}"
        if done.timed_out:
            return (
                f"{error.traceback}\nThe code was interrupted after {self._timeout:g} seconds. "
                "Variables are kept."
            )
        return error.traceback or str(error)

