# SPDX-License-Identifier: Apache-2.0
"""smolagents' own cases of its Docker executor (from its source archive), with ours."""

import os
import sys
import types

import pytest

sys.path.insert(0, os.path.join(os.environ["SOURCES"], "smolagents-1.26.0"))
# The archive lacks this one. It marks what needs other services.
markers = types.ModuleType("tests.utils.markers")
markers.require_run_all = pytest.mark.skip(reason="needs Docker or an account")
sys.modules["tests.utils"] = types.ModuleType("tests.utils")
sys.modules["tests.utils.markers"] = markers

from tests.test_remote_executors import CommonDockerExecutorIntegration  # noqa: E402

from pycordon.adapters.smolagents import CordonExecutor  # noqa: E402


class TestCordonExecutor(CommonDockerExecutorIntegration):
    @pytest.fixture
    def custom_executor(self):
        with CordonExecutor() as executor:
            yield executor
