# SPDX-License-Identifier: Apache-2.0
"""Grades programs of strangers: each runs in a sandbox of its own that was made ahead.

The task: read numbers, print their sum. Some solve it, some do not, and one would like the machine to itself.

    python3 grade.py
"""

import sys

from typing import Optional, Union

from pycordon import Graded, Pool, Program, Result

SUBMITTED = {
    "ada": "import sys; print(sum(map(int, sys.stdin)))",
    "bob": "import sys; print(max(map(int, sys.stdin)))",
    "cyd": "print(sum(map(int, open(0)))",
    "dan": "while True: pass",
    "eve": "x = b'x' * 10**9",
    "fay": "print(open('/etc/shadow').read())",
}


def check(result: Result) -> Union[bool, str]:
    """True, or what is wrong. For a plain comparison ``expected="6"`` would do."""
    said = result.stdout.split()
    return said == ["6"] or f"6 was expected, not {' '.join(said)[:20]}"


def show(done: int, total: Optional[int], one: Graded) -> None:
    """As they end, which is not their order."""
    print(f"\r{done} of {total}", end="", file=sys.stderr)


def main() -> int:
    """Prints a verdict for each."""
    programs = [Program(code, stdin="1\n2\n3\n", checker=check) for code in SUBMITTED.values()]
    with Pool(limits_memory="128M", limits_procs=16, preload=()) as pool:
        graded = pool.map(programs, timeout=5, progress=show)
    print(file=sys.stderr)
    for name, one in zip(SUBMITTED, graded):
        print(f"{name}: {one.verdict}" + (f" ({one.message.splitlines()[-1]})" if one.message else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
