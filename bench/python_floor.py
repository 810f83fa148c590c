# SPDX-License-Identifier: Apache-2.0
"""The floor of a warm start: a copy of a plain Python process executes the code, without any protection.

Nothing is imported that need not be, and the collector is frozen: a copy then writes to few pages, and
each of them costs a fault. Requests and answers as in python_worker.py: `fork`; `hold N` makes N copies
that wait, `release` ends them.
"""

import gc
import os
import sys
import time

CODE = "print(1)"
HELD = "print(1, flush=True)\nimport os\nos.read(0, 1)"


def begin(code, stdin):
    """The copy, and the end of the pipe in which its output comes."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        if stdin >= 0:
            os.dup2(stdin, 0)
        os.dup2(write, 1)
        exec(compile(code, "main.py", "exec"), {"__name__": "__main__"})
        sys.stdout.flush()
        os._exit(0)
    os.close(write)
    return pid, read


def finish(pid, read):
    got = b"".join(iter(lambda: os.read(read, 100), b""))  # in pieces, if Python's output has no buffer
    os.close(read)
    assert os.waitpid(pid, 0)[1] == 0 and got == b"1\n"


def hold(count):
    read, write = os.pipe()
    copies = [begin(HELD, read) for _ in range(count)]
    os.close(read)
    return write, copies


def release(write, copies):
    for pid, _ in copies:
        os.kill(pid, 9)  # they hold the pipe's other end themselves
    for pid, read in copies:
        os.waitpid(pid, 0)
        os.close(read)
    os.close(write)


def main():
    held = None
    gc.collect()
    gc.freeze()
    gc.disable()
    for line in sys.stdin:
        name, _, count = line.strip().partition("\t")
        start = time.perf_counter()
        if name == "hold":
            held = hold(int(count))
        elif name == "release":
            release(*held)
        else:
            finish(*begin(CODE, -1))
        print((time.perf_counter() - start) * 1e3, flush=True)


main()
