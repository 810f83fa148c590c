# SPDX-License-Identifier: Apache-2.0
"""The starter projects of `cordon new`: made by the bundled command, run with the framework of the
environment that the calling test runs in."""

import os
import re
import subprocess
import sys

import pycordon

ANSWER = "It is 832040, and its square root is 912.1622662662603."
LOOSE = '''
def calculate(expression: str) -> str:
    """Evaluate an expression.

    Args:
        expression: The expression.
    """
    return str(eval(expression))
'''
QUIET = {
    "CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "CREWAI_TESTING": "true",
    "OTEL_SDK_DISABLED": "true",
}  # fmt: skip


def make(framework, directory):
    """The project; its requirements have to be what the adapter is tested with."""
    project = directory / "starter"
    subprocess.run([pycordon.command(), "new", framework, str(project)], check=True, timeout=60)
    return project


def run(project, *words):
    """Runs the environment's Python in the project, without a key for any model service."""
    env = {k: v for k, v in os.environ.items() if not re.search("_API_KEY$|^MODEL$", k)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *words], cwd=project, env={**env, **QUIET}, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
    )  # fmt: skip
    return done.returncode, done.stdout


def check_project(framework, directory, tested):
    """`tested`: the requirements of the adapter's tests. The pins agree, the agent answers with what
    its tools computed, and the project's own tests pass: 16, six of them attacks on its tools."""
    project = make(framework, directory)
    own = dict(line.split("==") for line in (project / "requirements.txt").read_text().split())
    pins = dict(line.split("==") for line in tested.read_text().split() if "==" in line)
    names = {name.partition("[")[0]: version for name, version in own.items()}
    assert names.pop("pycordon") == pycordon.__version__
    shared = set(names) & set(pins)
    assert shared and {name: names[name] for name in shared} == {name: pins[name] for name in shared}
    status, out = run(project, "agent.py")
    assert status == 0 and ANSWER in out, out
    status, out = run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert status == 0 and re.search(r"^16 passed", out, re.M), out


def check_loose(framework, directory):
    """The positive control: with a calculator that evaluates in the program itself, the project's
    tests see the harm."""
    project = make(framework, directory)
    (project / "calculator.py").write_text(LOOSE)
    status, out = run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert status == 1, out
    for what in ("read a file", "write a file", "open a connection"):
        assert f"test_attacks_fail_in_the_calculator_tool[{what}]" in out, out
