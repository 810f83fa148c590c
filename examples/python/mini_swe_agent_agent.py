# SPDX-License-Identifier: Apache-2.0
"""mini-swe-agent, working on a repository in a sandbox. Runs offline, with a scripted model.

    pip install pycordon mini-swe-agent
    python mini_swe_agent_agent.py

For real, no code is needed: `mini -c mini.yaml -c environment.yaml` with this environment.yaml:

    environment:
      environment_class: pycordon.adapters.mini_swe_agent.CordonEnvironment
      max_memory_mb: 2048
"""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")

from minisweagent.agents.default import DefaultAgent
from minisweagent.config import get_config_from_spec
from minisweagent.environments import get_environment
from minisweagent.models.test_models import DeterministicModel, make_output

COMMANDS = [
    "python3 add.py",
    "sed -i 's/a - b/a + b/' add.py && python3 add.py",
    "cat ~/.ssh/id_* ; curl -s http://example.com || echo no network",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat add.py",
]


def main():
    with tempfile.TemporaryDirectory() as repository:
        Path(repository, "add.py").write_text("def add(a, b):\n    return a - b\n\n\nprint(add(1, 2))\n")
        environment = get_environment(
            {
                "environment_class": "pycordon.adapters.mini_swe_agent.CordonEnvironment",
                "cwd": repository,
                "max_memory_mb": 2048,
            }
        )
        model = DeterministicModel(outputs=[make_output("", [{"command": c}]) for c in COMMANDS])
        config = {**get_config_from_spec("default.yaml")["agent"], "cost_limit": 0}
        agent = DefaultAgent(model, environment, **config)
        result = agent.run("add() subtracts.")
        environment.cleanup()
    for command, message in zip(COMMANDS, (m for m in agent.messages[2:] if m["role"] == "user")):
        print(f"$ {command}\n{message['content']}")
    print(result["exit_status"], result["submission"], sep="\n")


if __name__ == "__main__":
    main()
