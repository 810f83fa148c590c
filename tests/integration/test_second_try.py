# SPDX-License-Identifier: Apache-2.0
"""tools/second-try.py: which tests may be tried twice, and what is told of them."""

import os
import pathlib
import subprocess
import sys

import pytest

TOOLS = pathlib.Path(os.environ["CORDON_SOURCE"]) / "tools"


def results(path, **outcomes):
    """A file of results as pytest writes it; names with a double underscore are module__test."""
    lines = ["<testsuites><testsuite>"]
    for name, outcome in outcomes.items():
        module, _, test = name.partition("__")
        inside = "" if outcome == "passed" else f"<{outcome} message='x'/>"
        lines.append(f"<testcase classname='tests.{module}' name='{test}'>{inside}</testcase>")
    path.write_text("\n".join([*lines, "</testsuite></testsuites>"]))
    return path


def second_try(*args):
    return subprocess.run([sys.executable, TOOLS / "second-try.py", *args], stdout=subprocess.PIPE, check=False)


def summary(directory):
    return subprocess.run(
        [sys.executable, TOOLS / "summarise.py", directory], stdout=subprocess.PIPE, check=False, text=True
    )


@pytest.mark.parametrize(
    "allowed, outcomes",
    [
        (True, {"limits__a": "failure", "net__b": "passed"}),
        (True, {"limits__a": "failure", "net__b": "error", "net__c": "failure"}),
        (False, {"limits__a": "passed"}),
        (False, {f"limits__{i}": "failure" for i in range(4)}),
        (False, {"escape__a": "failure"}),
        (False, {"limits__a": "failure", "escape__b": "error"}),
    ],
)
def test_who_has_one(tmp_path, allowed, outcomes):
    done = second_try("may", results(tmp_path / "first.xml", **outcomes))
    assert (done.returncode == 0) == allowed


def test_programs_are_named(tmp_path):
    file = tmp_path / "first.xml"
    file.write_text("<a><testcase classname='x.x:unit / test_one' name='1 - a'><failure/></testcase></a>")
    assert second_try("may", file).stdout == b"test_one\n"


def test_it_is_told(tmp_path):
    first = results(tmp_path / "first.xml", limits__a="failure", limits__b="failure", limits__c="passed")
    (tmp_path / "again").mkdir()
    second = results(tmp_path / "again" / "x.xml", limits__a="passed", limits__b="failure")
    second_try("merge", first, second)
    said = summary(tmp_path)
    assert said.returncode == 1
    assert said.stdout.endswith("2 passed, 1 failed, 0 skipped\n"), said.stdout
    told = said.stdout.split("Failed:")
    assert "second try" in told[0] and "tests.limits::a" in told[0] and "tests.limits::b" in told[1], said.stdout
    second_try("merge", first, results(second, limits__b="passed"))
    said = summary(tmp_path)
    assert said.returncode == 0 and said.stdout.count("tests.limits::") == 2, said.stdout


@pytest.mark.parametrize("outcome", ["skipped", "error"])
def test_only_passing_counts(tmp_path, outcome):
    first = results(tmp_path / "first.xml", limits__a="failure", limits__c="passed")
    (tmp_path / "again").mkdir()
    second_try("merge", first, results(tmp_path / "again" / "x.xml", limits__a=outcome))
    assert summary(tmp_path).stdout.endswith("1 passed, 1 failed, 0 skipped\n")
