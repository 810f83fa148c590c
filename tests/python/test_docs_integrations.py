# SPDX-License-Identifier: Apache-2.0
"""The programs of the guide to frameworks are the examples, which the adapters' tests run."""

import ast
import os
import pathlib
import re

SOURCE = pathlib.Path(os.environ.get("CORDON_SOURCE", pathlib.Path(__file__).parents[2]))
TEXT = (SOURCE / "docs" / "integrations.md").read_text(encoding="utf-8")
EXAMPLES = sorted((SOURCE / "examples" / "python").glob("*_agent.py"))


def program(path):
    """An example without its head."""
    text = path.read_text(encoding="utf-8")
    head = ast.parse(text).body[0].end_lineno
    return "\n".join(text.split("\n")[head:]).strip("\n") + "\n"


def section(name):
    (found,) = re.findall(f"<!-- {name} -->(.*?)<!-- /{name} -->", TEXT, re.S)
    return found


def test_every_section_has_its_program_as_it_is_run():
    names = [path.name[: -len("_agent.py")] for path in EXAMPLES]
    assert len(names) == 12 and sorted(names) == sorted(re.findall("<!-- ([a-z0-9_]+) -->", TEXT))
    for name, path in zip(names, EXAMPLES):
        blocks = re.findall(r"^```python\n(.*?)^```", section(name), re.M | re.S)
        assert blocks == [program(path)], f"docs/integrations.md differs from {path.name}"


def test_every_program_is_run_by_a_test():
    for path in EXAMPLES:
        directory = SOURCE / "tests" / "adapters" / path.name[: -len("_agent.py")]
        tests = "".join(file.read_text(encoding="utf-8") for file in directory.glob("test_*.py"))
        assert f'run_example("{path.name}"' in tests, path.name
