# SPDX-License-Identifier: Apache-2.0
"""langchain_tests' SandboxIntegrationTests against the deepagents backend.

All 86 hold with deepagents before 0.7. Since then deepagents itself does otherwise in seven:
`write` overwrites, and `glob` gives absolute paths and files only. They are expected to fail,
strictly: the day the suite and deepagents agree again, this file says so.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Iterator

import pytest
from langchain_tests.integration_tests import SandboxIntegrationTests

from pycordon.adapters.langchain import CordonSandbox

NEW = tuple(int(part) for part in version("deepagents").split(".")[:2]) >= (0, 7)
CONTRADICTED = {
    "test_write_existing_file_fails": "deepagents 0.7: write overwrites",
    "test_glob": "deepagents 0.7: glob gives absolute paths of files",
    "test_glob_basic_pattern": "deepagents 0.7: glob gives absolute paths of files",
    "test_glob_with_directories": "deepagents 0.7: glob gives files only",
    "test_glob_hidden_files_explicitly": "deepagents 0.7: glob gives absolute paths of files",
    "test_glob_with_character_class": "deepagents 0.7: glob gives absolute paths of files",
    "test_glob_with_question_mark": "deepagents 0.7: glob gives absolute paths of files",
}


class TestCordonSandbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self) -> Iterator[Any]:
        with CordonSandbox() as backend:
            yield backend


def _expected_to_fail(name: str, reason: str) -> Any:
    original = getattr(SandboxIntegrationTests, name)

    def test(self: Any, sandbox_backend: Any, sandbox_test_root: str) -> None:
        original(self, sandbox_backend, sandbox_test_root)

    return pytest.mark.xfail(reason=reason, strict=True)(test)


if NEW:
    for _name, _reason in CONTRADICTED.items():
        setattr(TestCordonSandbox, _name, _expected_to_fail(_name, _reason))
