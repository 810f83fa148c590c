# SPDX-License-Identifier: Apache-2.0
"""Measures on request, one round for each line on standard input: see bench/python.py.

    python_worker.py WHAT MIB      WHAT: cordon or sandlock; MIB: memory that this process holds

A request is the name of a contender; the answer is its time in milliseconds. `many N` runs N sleeps
of one second at once.
"""

import asyncio
import os
import subprocess
import sys
import time

TRUE = ["/bin/true"]
CODE = "print(1)"


def plain():
    subprocess.run(TRUE, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def interpreter():
    subprocess.run([sys.executable, "-c", CODE], stdin=subprocess.DEVNULL, capture_output=True,
                   check=True)


def with_cordon():
    import pycordon

    sandbox, fresh = pycordon.Sandbox(), pycordon.Sandbox(persist=False)

    def checked(result):
        assert result.ok, result
        return result

    async def many(count):
        async with pycordon.AsyncSandbox() as box:
            await box.start()
            start = time.perf_counter()
            got = await asyncio.gather(*[box.run(["sleep", "1"]) for _ in range(count)])
            assert all(r.ok for r in got)
            return time.perf_counter() - start

    return {
        "subprocess": plain,
        "Sandbox.run": lambda: checked(sandbox.run(TRUE)),
        "Sandbox.run, fresh": lambda: checked(fresh.run(TRUE)),
        "interpreter": interpreter,
        "run_code": lambda: checked(sandbox.run_code(CODE)),
    }, many


def with_sandlock():
    from sandlock import Sandbox

    system = [d for d in ("/usr", "/bin", "/lib", "/lib64", "/etc", "/proc") if os.path.exists(d)]
    sandbox = Sandbox(fs_readable=[*system, sys.prefix], fs_writable=["/dev", "/tmp"])

    def checked(result):
        assert result.ok, result

    return {
        "sandlock": lambda: checked(sandbox.run(TRUE)),
        "sandlock, python": lambda: checked(sandbox.run(["/usr/bin/python3", "-c", CODE])),
    }, None


def main():
    what, mib = sys.argv[1], int(sys.argv[2])
    held = bytearray(mib << 20)
    for i in range(0, len(held), 4096):
        held[i] = 1
    contenders, many = {"cordon": with_cordon, "sandlock": with_sandlock}[what]()
    for line in sys.stdin:
        name, _, count = line.strip().partition("\t")
        if name == "many":
            took = asyncio.run(many(int(count)))
        else:
            start = time.perf_counter()
            contenders[name]()
            took = time.perf_counter() - start
        print(took * 1e3, flush=True)


main()
