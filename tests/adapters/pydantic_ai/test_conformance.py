# SPDX-License-Identifier: Apache-2.0
"""Pydantic AI's own conformance suite, all 38 rules, in a private and in a host directory, and at the
level without namespaces.

Nothing may be skipped: the suite skips a rule whose fixture is missing, that the backend does not
implement, or whose commands run as root.
"""

import os

import pytest
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from pycordon.adapters.pydantic_ai import CordonWorkspaceBackend


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Suite(WorkspaceBackendSuite):
    @pytest.fixture
    def level(self):
        return "namespaces"

    @pytest.fixture
    async def make(self, working_dir, level):
        made = []

        def make(**kwargs):
            made.append(CordonWorkspaceBackend(working_dir, isolation=level, **kwargs))
            return made[-1]

        yield make
        for backend in made:
            if backend.ref is not None:
                await backend.destroy()

    @pytest.fixture
    def backend(self, make):
        return make()

    @pytest.fixture
    def fresh_backend(self, make):
        return make

    @pytest.fixture
    def attach_backend(self):
        return lambda ref: CordonWorkspaceBackend(ref=ref)

    @pytest.fixture
    def destroy_environment(self):
        return lambda backend: backend.destroy()


class TestPrivateDirectory(Suite):
    @pytest.fixture
    def working_dir(self):
        return None


class TestHostDirectory(Suite):
    @pytest.fixture
    def working_dir(self, tmp_path):
        return tmp_path / "work"


# Commands of root are root at that level, and one of the rules is about those who are not.
if os.geteuid() != 0:

    class TestWithoutNamespaces(TestPrivateDirectory):
        @pytest.fixture
        def level(self):
            return "landlock"
