# SPDX-License-Identifier: Apache-2.0
"""pytest -p: LangChain's own tests of the shell middleware get our policy for the host's."""

import langchain.agents.middleware.shell_tool as shell_tool

from pycordon.adapters.langchain import CordonExecutionPolicy

_started = 0


class CountedPolicy(CordonExecutionPolicy):
    def spawn(self, **arguments):
        global _started
        _started += 1
        return super().spawn(**arguments)


shell_tool.HostExecutionPolicy = CountedPolicy


def pytest_sessionfinish(session):
    """A suite in which nothing reached the sandbox has shown nothing."""
    if _started == 0 and not session.config.option.collectonly:
        session.exitstatus = 1
        print("\nno test used a sandbox")
