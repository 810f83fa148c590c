# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: of each test the first case at each level, which stands for the others.

`make test-kernels-short` uses it, so that a change is tried on another kernel while people wait.
"""


def pytest_collection_modifyitems(config, items):
    seen, kept, left_out = set(), [], []
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        key = (item.path, item.originalname, params.get("level", params.get("who_level")))
        (left_out if key in seen else kept).append(item)
        seen.add(key)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
