#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many runs of the Python package in one program, with the census of soak_census.py.

    tools/soak_python.py --python VENV/bin/python [--runs N] [--batch N] [--user UID] [--part warm]

The program (host() below, started with that interpreter, which has the package) makes runs that start
warm, of every end that one can have, pieces of code in interpreters that are made, started ahead and
ended, and commands of sessions; with --part warm only the first of these. Each answer is compared with what it must be. Prints a line for each
batch and a table at the end. Exit status: 0 only if nothing was wrong and nothing grew.
"""

import argparse
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from soak_census import Census, compare, reap_orphans

HANG = 300


def host(part):
    """Reads how many runs to make, makes them, says how many and what was wrong; until "end"."""
    import pycordon

    pool = pycordon.Pool(preload=(), interpreters={"bash": 1}, warm={"bash": 1}, limits_memory="128M").start()
    assert pool.warm_reason is None, pool.warm_reason
    sandbox = pycordon.Sandbox(preload=())
    python = pycordon.Interpreter("python").start()
    session = pycordon.Session()
    counter = 0

    def ends(code, kind, status):
        def one():
            got = pool.run_code(code, timeout=20)
            return (got.kind, got.returncode) == (kind, status) or f"{code!r}: {got}"

        return one

    def slow():
        got = pool.run_code("while True: pass", timeout=0.05)
        return got.kind == "timeout" or f"slow: {got}"

    def graded():
        got = [one.verdict for one in pool.map(["print(input())", "print(", "1/0"], ["1"] * 3, expected=["1"] * 3)]
        return got == ["ok", "compile", "runtime"] or f"graded: {got}"

    def kept():
        nonlocal counter
        counter += 1
        sandbox.run_code(f"open('/tmp/n', 'w').write('{counter}')")
        got = sandbox.run_code("print(open('/tmp/n').read())").stdout
        return got == f"{counter}\n" or f"kept: {got!r}"

    def stateful():
        nonlocal counter
        counter += 1
        python.set_vars({"n": counter})
        got = python.execute("n + 1")
        return got.text == str(counter + 1) or f"stateful: {got}"

    def restarted():
        ended = python.execute("import os; os._exit(3)")
        got = python.execute("1 + 1")
        return (ended.ended and got.restarted and got.text == "2") or f"restarted: {ended} {got}"

    def ahead():
        with pool.interpreter("bash") as bash:
            got = bash.execute("echo $((6 * 7))")
        return got.stdout == "42\n" or f"ahead: {got}"

    def held():
        got = pool.run_code("read x; echo $x; exit 4", "bash", stdin="typed")
        return (got.stdout, got.returncode) == ("typed\n", 4) or f"held: {got}"

    def command():
        try:
            got = session.exec(["echo", "x"])
        except pycordon.StateError:
            raise SystemExit(f"the session is over: {session.stop()}") from None
        return got.stdout == "x\n" or f"command: {got}"

    kinds = [
        *[ends("print(1)", "exited", 0)] * 6, ends("raise SystemExit(3)", "exited", 3),
        ends("import os; os._exit(9)", "exited", 9), ends("1/0", "exited", 1),
        ends("import os; os.kill(os.getpid(), 9)", "signaled", 137),
        ends("x = bytearray(1 << 29)", "memory", 137),
        ends("import threading; threading.Thread(target=print).start()", "exited", 0),
        slow, graded, kept, stateful, restarted, ahead, held, command,
    ]  # fmt: skip
    if part == "warm":
        kinds = [*kinds[:9], held]
    for line in sys.stdin:
        if line.strip() == "end":
            break
        wrong = []
        for i in range(int(line)):
            said = kinds[i % len(kinds)]()
            if said is not True:
                wrong.append(said)
        print(len(wrong), "; ".join(wrong[:3]).replace("\n", " "), flush=True)
    for thing in (pool, sandbox, python):
        thing.close()
    session.stop()
    print("0 ended", flush=True)
    sys.stdin.read()


class Program:
    """The host, and what soak_census.py wants to know of it."""

    def __init__(self, name, uid, base, python, part):
        self.name, self.uid, self.wrong = name, uid, []
        home = base / name
        home.mkdir()
        other = {}
        if os.geteuid() == 0:
            os.chown(home, uid, uid)
            other = {"user": uid, "group": uid, "extra_groups": []}
        self.host = subprocess.Popen(
            [python, str(pathlib.Path(__file__).resolve()), "--host", "--part", part], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, cwd=home, **other,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8",
                 "XDG_STATE_HOME": str(home / "state")},
        )  # fmt: skip

    def tell(self, line):
        """Its answer."""
        self.host.stdin.write(f"{line}\n")
        self.host.stdin.flush()
        answer = self.host.stdout.readline()
        if not answer:
            sys.exit(f"soak: the program of {self.name} has ended")
        count, _, what = answer.strip().partition(" ")
        if int(count):
            self.wrong.append(f"{count} of {self.name}: {what}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--part", choices=("all", "warm"), default="all")
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--user", type=int, default=20001)
    return parser.parse_args()


def batches(args, programs, census):
    for program in programs:
        program.tell(min(args.batch, 200))  # what is made once is there from now on
    before, done, started = census.settle(None, patience=3.0), 0, time.monotonic()
    while done < args.runs:
        program = programs[(done // args.batch) % len(programs)]
        size, since = min(args.batch, args.runs - done), time.monotonic()
        program.tell(size)
        done += size
        grown = [row for row in compare(before, census.settle(before), done) if row[3]]
        print(f"{done} runs, {size / (time.monotonic() - since):.0f}/s, as {program.name}: "
              f"{len(program.wrong)} wrong, {len(grown)} grown"
              + "".join(f" {row[0]} {row[1]}>{row[2]}" for row in grown), flush=True)  # fmt: skip
    print(f"{done} runs in {time.monotonic() - started:.0f} s")
    return before, done


def main():
    args = arguments()
    if args.host:
        return host(args.part)
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans come to us
    os.umask(0o022)
    base = pathlib.Path(tempfile.mkdtemp(prefix="soak-of-cordon-", dir="/tmp"))
    base.chmod(0o755)
    try:
        programs = [Program("me", os.geteuid(), base, args.python, args.part)]
        if os.geteuid() == 0:
            programs.append(Program("user", args.user, base, args.python, args.part))
        before, done = batches(args, programs, census := Census(base, programs))
        rows = compare(before, census.settle(before), done)
        for program in programs:
            program.tell("end")
        left = census.settle(None)["processes"] - len(programs)  # the programs themselves wait
    finally:
        reap_orphans()
        shutil.rmtree(base, ignore_errors=True)
    for name, first, last, is_leak in rows:
        print(f"{name:32}{first:>12}{last:>12}{'  LEAK' if is_leak else ''}")
    wrong = [text for program in programs for text in program.wrong]
    for text in wrong[:20]:
        print("WRONG:", text)
    leaks = left + sum(row[3] for row in rows)
    print(f"{done} runs, {len(wrong)} wrong, {leaks} leaks")
    return 1 if wrong or leaks or not done else 0


if __name__ == "__main__":
    sys.exit(main())
