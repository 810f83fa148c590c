# SPDX-License-Identifier: Apache-2.0
"""mini-swe-agent: an environment to name in its configuration.

    environment:
      environment_class: pycordon.adapters.mini_swe_agent.CordonEnvironment
      cwd: /home/me/project
      net_allow: ["api.example.com:443"]

Beside `cwd`, `env`, `timeout` and `shell` every setting of `pycordon.Sandbox` can stand there.
Written for mini-swe-agent 2.4.6.
"""

from __future__ import annotations

import platform
from typing import Any, Optional, Union

from minisweagent.exceptions import Submitted
from minisweagent.utils.serialize import recursive_merge
from pydantic import BaseModel, ConfigDict

from .._sandbox import Sandbox
from ._common import remark
from ._runs import limits

SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

__all__ = ["CordonEnvironment", "CordonEnvironmentConfig"]


class CordonEnvironmentConfig(BaseModel):
    """What the `environment` section of the configuration may hold."""

    model_config = ConfigDict(extra="allow")

    cwd: str = ""
    """Host directory the agent works in and may change; none if empty: it works in one of its own."""
    env: dict[str, str] = {}
    """Variables inside, beside the few that the policy lets through."""
    timeout: float = 30
    """Seconds a command may take."""
    shell: str = "/bin/bash"
    """What runs the commands."""
    policy: Union[str, dict[str, Any], None] = None
    """Name of a preset, path of a policy file, or the policy itself."""


class CordonEnvironment:
    """Runs each action of the agent in one sandbox, whose /tmp and home last as long as it does."""

    def __init__(self, *, config_class: type = CordonEnvironmentConfig, **kwargs: Any) -> None:
        self.config = config_class(**kwargs)
        self.sandbox = Sandbox(
            self.config.policy,
            workdir=self.config.cwd or None,
            env=self.config.env,
            **(self.config.model_extra or {}),
        )

    def execute(
        self, action: dict[str, Any], cwd: str = "", *, timeout: Optional[float] = None
    ) -> dict[str, Any]:
        """The outcome of a command. Errors are part of it; only the submission is raised."""
        allowed = limits(self.sandbox.policy, timeout or self.config.timeout, None)
        try:
            result = self.sandbox.run(
                [self.config.shell, "-c", action.get("command", "")],
                cwd=cwd or None,
                merge=True,
                **allowed,
            )
        except Exception as e:  # the agent goes on, and its model reads the error
            return _failed("", e, f"An error occurred while executing the command: {e}")
        if result.kind == "timeout":
            seconds = result.duration_ms / 1000
            error = TimeoutError(f"the command timed out after {seconds:.1f} seconds")
            return _failed(result.output, error, f"{error}: all of its processes were ended")
        output = {
            "output": result.output,
            "returncode": result.returncode,
            "exception_info": remark(result),
        }
        _check_finished(output)
        return output

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        """For the prompts: the configuration and the kind of system, none of the host's variables."""
        system = {**platform.uname()._asdict(), "node": "localhost"}
        return dict(recursive_merge(self.config.model_dump(), system, kwargs))

    def serialize(self) -> dict[str, Any]:
        """What the trajectory says about the environment: its class and its settings."""
        kind = type(self)
        return {
            "info": {
                "config": {
                    "environment": self.config.model_dump(mode="json"),
                    "environment_type": f"{kind.__module__}.{kind.__name__}",
                }
            }
        }

    def cleanup(self) -> None:
        """Removes the private /tmp and home."""
        self.sandbox.close()


def _failed(output: str, error: Exception, info: str) -> dict[str, Any]:
    return {
        "output": output,
        "returncode": -1,
        "exception_info": info,
        "extra": {"exception_type": type(error).__name__, "exception": str(error)},
    }


def _check_finished(output: dict[str, Any]) -> None:
    lines = output["output"].lstrip().splitlines(keepends=True)
    if not lines or lines[0].strip() != SUBMIT or output["returncode"] != 0:
        return
    submission = "".join(lines[1:])
    raise Submitted(
        {
            "role": "exit",
            "content": submission,
            "extra": {"exit_status": "Submitted", "submission": submission},
        }
    )
