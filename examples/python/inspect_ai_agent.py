# SPDX-License-Identifier: Apache-2.0
"""An Inspect evaluation whose samples run in sandboxes. Runs offline, with a scripted model.

    pip install pycordon inspect-ai
    python inspect_ai_agent.py

With a real model: `eval(add_up(), model="anthropic/claude-sonnet-4-5")`, or on the command line
`inspect eval inspect_ai_agent.py --sandbox cordon --model ...`.
"""

import tempfile

from inspect_ai import Task, eval, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelAPI, ModelOutput, get_model, modelapi
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash, python
from inspect_ai.util import SandboxEnvironmentSpec

from pycordon.adapters.inspect_ai import CordonConfig


@task
def add_up():
    return Task(
        dataset=[Sample("Add up numbers.txt.", target="45", files={"numbers.txt": "20\n25\n"})],
        solver=[use_tools(bash(timeout=30), python(timeout=30)), generate()],
        scorer=includes(),
        sandbox=SandboxEnvironmentSpec("cordon", CordonConfig(max_memory_mb=512)),
    )


@modelapi(name="scripted")
class Scripted(ModelAPI):
    """Calls the tools as written here. (Inspect's own mock fetches a tokenizer.)"""

    turns = [
        ModelOutput.for_tool_call("scripted", "bash", {"command": "cat numbers.txt; cat ~/.ssh/id_*"}),
        ModelOutput.for_tool_call("scripted", "python", {"code": "print(sum(map(int, open('numbers.txt'))))"}),
        ModelOutput.from_content("scripted", "The sum is 45."),
    ]

    def __init__(self, model_name, base_url=None, api_key=None, config=None, **kwargs):
        super().__init__(model_name, base_url, api_key, [], config)
        self.turn = iter(self.turns)

    async def generate(self, input, tools, tool_choice, config):
        return next(self.turn)

    async def count_text_tokens(self, text):
        return len(text) // 4 + 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as logs:
        [log] = eval(add_up(), model=get_model("scripted/model"), log_dir=logs, display="none")
        for message in log.samples[0].messages:
            print(f"{message.role}: {message.text}")
    print("score:", log.results.scores[0].metrics["accuracy"].value)
