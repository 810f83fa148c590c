# SPDX-License-Identifier: Apache-2.0
"""The examples of the guide and of the README run as they stand there."""

import os
import pathlib
import re

import pytest

SOURCE = pathlib.Path(os.environ.get("CORDON_SOURCE", pathlib.Path(__file__).parents[2]))
PAGES = ("docs/python.md", "docs/interpreters.md", "docs/scheduler.md", "docs/e2b.md", "docs/sessions.md", "README.md")
TEXT = "".join((SOURCE / name).read_text() for name in PAGES)
EXAMPLES = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)


def test_there_are_examples():
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(host, number):
    host(EXAMPLES[number])
