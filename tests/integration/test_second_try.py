# SPDX-License-Identifier: Apache-2.0
"""tools/second-try.py: which tests may be tried twice, and what is told of them."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(os.environ["CORDON_SOURCE"])
TOOLS = SOURCE / "tools"


def results(path, **outcomes):
    """A file of results as pytest writes it; names with a double underscore are module__test."""
    lines = ["<testsuites><testsuite>"]
    for name, outcome in outcomes.items():
        module, _, test = name.partition("__")
        inside = "" if outcome == "passed" else f"<{outcome} message='x'/>"
        lines.append(f"<testcase classname='tests.{module}' name='{test}'>{inside}</testcase>")
    path.write_text("\n".join([*lines, "</testsuite></testsuites>"]))
    return path


def second_try(*args, **env):
    return subprocess.run(
        [sys.executable, TOOLS / "second-try.py", *args], capture_output=True, check=False, env={**os.environ, **env}
    )


def summary(directory):
    return subprocess.run(
        [sys.executable, TOOLS / "summarise.py", directory], stdout=subprocess.PIPE, check=False, text=True
    )


LIST = """# a comment

tests.limits::a  slow
tests.net::b[x-1]  also slow
"""


@pytest.mark.parametrize(
    "allowed, outcomes",
    [
        (True, {"limits__a": "failure", "net__b": "passed"}),
        (True, {"limits__a": "failure", "limits__a[y-z]": "failure", "net__b[x-1]": "error"}),
        (False, {"limits__a": "passed"}),
        (False, {"net__b[x-2]": "failure"}),
        (False, {"net__a": "failure"}),
        (False, {"limits__a": "failure", "limits__ab": "failure"}),
        (False, {"limits__a": "failure", "escape__b": "error"}),
    ],
)
def test_who_has_one(tmp_path, allowed, outcomes):
    (tmp_path / "list").write_text(LIST)
    done = second_try("may", results(tmp_path / "first.xml", **outcomes), SECOND_TRY_LIST=str(tmp_path / "list"))
    assert (done.returncode == 0) == allowed and not done.stderr, done


@pytest.mark.parametrize("line", ["tests.escape.test_fds::test_x  slow", "tests.limits::a", "tests.limits::a  "])
def test_lines_that_are_refused(tmp_path, line):
    (tmp_path / "list").write_text(LIST + line + "\n")
    done = second_try("may", results(tmp_path / "x.xml", limits__a="failure"), SECOND_TRY_LIST=str(tmp_path / "list"))
    assert done.returncode == 1 and line.split()[0].encode() in done.stderr, done


def test_the_list_names_tests_that_exist():
    for line in (TOOLS / "second-try.list").read_text().splitlines():
        if line and not line.startswith("#"):
            module, test = re.fullmatch(r"(tests[\w.]+)::(\w+)(?:\[.*?\])?  \S.*", line).groups()
            assert f"def {test}(" in (SOURCE / (module.replace(".", "/") + ".py")).read_text(), line


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
