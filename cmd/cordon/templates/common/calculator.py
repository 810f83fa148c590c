# SPDX-License-Identifier: Apache-2.0
"""A calculator for models. What a model calls an expression is code: it is evaluated in a sandbox,
with no network, no file of yours and nothing of your environment, never in this process."""

import sys

import pycordon

# Runs inside, with the expression as its argument.
PROGRAM = "import math, sys; print(eval(sys.argv[1], vars(math)))"


def calculate(expression: str) -> str:
    """Evaluate an arithmetic expression and return its value, or what is wrong with it.

    Args:
        expression: In Python's syntax, such as 2 * (3 + 4) ** 2; sqrt, sin, pi and the rest of the
            math module can be used by name.
    """
    with pycordon.Sandbox(workdir=True, max_execution_seconds=5, max_memory_mb=128) as sandbox:
        result = sandbox.run([sys.executable, "-I", "-c", PROGRAM, expression])
    if result.ok:
        return result.stdout.strip()
    if result.kind != "exited":
        return f"error: {result.explain()}"
    return "error: " + (result.stderr.strip().splitlines() or ["no result"])[-1]
