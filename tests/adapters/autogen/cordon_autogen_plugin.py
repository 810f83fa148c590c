# SPDX-License-Identifier: Apache-2.0
"""Puts Cordon's executor where AutoGen's tests look for the local one (pytest -p)."""

import autogen_ext.code_executors.local as local
import pytest

from pycordon.adapters.autogen import CordonCommandLineCodeExecutor

local.LocalCommandLineCodeExecutor = CordonCommandLineCodeExecutor

# Test -> why it cannot pass. Strict: one that passes after all is a failure.
WAIVERS = {}


def pytest_collection_modifyitems(items):
    assert items, "nothing was collected"
    for item in items:
        reason = WAIVERS.get(item.name)
        if reason:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
