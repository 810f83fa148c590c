# SPDX-License-Identifier: Apache-2.0
"""Fixtures for pytest: ``cordon_sandbox``, and ``cordon_policy`` to say what it may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

import pytest

if TYPE_CHECKING:
    from ._policy import Config
    from ._sandbox import Sandbox


@pytest.fixture
def cordon_policy() -> "Config":
    """What ``cordon_sandbox`` may do. Override it to change that: whatever Sandbox() takes."""
    return None


@pytest.fixture
def cordon_sandbox(cordon_policy: "Config") -> "Iterator[Sandbox]":
    """A fresh sandbox for each test, closed after it."""
    from ._sandbox import Sandbox

    with Sandbox(cordon_policy) as sandbox:
        yield sandbox
