# SPDX-License-Identifier: Apache-2.0
"""Puts Cordon's executor where AutoGen's tests look for the one of Jupyter (pytest -p)."""

import autogen_ext.code_executors.jupyter as jupyter
import pytest

from pycordon.adapters.autogen import CordonJupyterExecutor

jupyter.JupyterCodeExecutor = CordonJupyterExecutor

# Test -> why it cannot pass. Strict: one that passes after all is a failure.
WAIVERS = {
    "test_execute_code_error": "the layout of IPython's tracebacks; ours are Python's",
    "test_execute_multiple_code_blocks_error": "the layout of IPython's tracebacks; ours are Python's",
    "test_execute_code_with_image_output": "IPython's printer leaves the address out of an image's repr()",
}


def pytest_collection_modifyitems(items):
    assert items, "nothing was collected"
    for item in items:
        reason = WAIVERS.get(item.name)
        if reason:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
