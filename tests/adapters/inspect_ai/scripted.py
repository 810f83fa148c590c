# SPDX-License-Identifier: Apache-2.0
"""A model that says what it was told to. (Inspect's own mock counts tokens with a downloaded file.)"""

from inspect_ai.model import ModelAPI, ModelOutput, get_model, modelapi


@modelapi(name="scripted")
class Scripted(ModelAPI):
    def __init__(self, model_name, base_url=None, api_key=None, config=None, outputs=(), **kwargs):
        super().__init__(model_name, base_url, api_key, [], config)
        self.outputs = iter(outputs)

    async def generate(self, input, tools, tool_choice, config):
        return next(self.outputs)

    async def count_text_tokens(self, text):
        return len(text) // 4 + 1


def scripted(*calls, answer="done"):
    """Calls each (tool, arguments), then answers."""
    outputs = [ModelOutput.for_tool_call("scripted", tool, arguments) for tool, arguments in calls]
    final = ModelOutput.from_content("scripted", answer)
    return get_model("scripted/model", memoize=False, outputs=[*outputs, final])
