# SPDX-License-Identifier: Apache-2.0
"""Measures on request, one round for each line on standard input: see bench/python.py.

    python_worker.py WHAT MIB [COMMANDS]

WHAT: cordon, sandlock, large (numpy and pandas), interpreters, two (on two CPUs), held, forks or commands
(JSON: name to argv). MIB: memory that this process holds, or with `forks` an interpreter.

A request is the name of a contender; the answer is its time in milliseconds. `rate N`: warm runs per
second, looked at for N seconds. `many N` runs N sleeps of one second at once, `grade N` N small
programs with a pool and `grade plain N` with subprocess. `hold N` begins N warm runs that wait, `release`
ends them.
"""

import asyncio
import concurrent.futures
import json
import os
import subprocess
import sys
import threading
import time

TRUE = ["/bin/true"]
CODE = "print(1)"
HELD = "print(1, flush=True)\nimport os\nos.read(0, 1)"  # as in python_floor.py
PARKED = 2


def plain():
    subprocess.run(TRUE, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def with_commands(commands):
    """Whole programs, as a Python program starts them."""
    def contender(argv):
        def run():
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)
            assert done.stdout == b"1\n", done
        return run

    return {name: contender(argv) for name, argv in commands.items()}, None, None, None


PROGRAM = """
n = int(input())
print(sum(i * i for i in range(n)))
"""


def grade_plain(count):
    """As many at once as there are CPUs, each an interpreter of its own."""
    def one(i):
        done = subprocess.run([sys.executable, "-c", PROGRAM], input=str(i), capture_output=True,
                              text=True, check=True)
        return done.stdout.strip() == str(sum(k * k for k in range(i)))

    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as workers:
        assert all(workers.map(one, range(count)))
    return time.perf_counter() - start


def grade(pool, count):
    wanted = [str(sum(k * k for k in range(i))) for i in range(count)]
    start = time.perf_counter()
    got = pool.map(PROGRAM, map(str, range(count)), expected=wanted)
    assert len(got) == count and all(graded.ok for graded in got)
    return time.perf_counter() - start


LARGE = "import numpy, pandas; print(1)"


def with_large():
    import pycordon

    pool = pycordon.Pool(preload=("numpy", "pandas"), limits_memory="1G").start()
    assert pool.warm_reason is None, pool.warm_reason

    def warm():
        result = pool.run_code(LARGE)
        assert result.ok, result

    def bare():
        subprocess.run([sys.executable, "-I", "-c", LARGE], stdin=subprocess.DEVNULL,
                       capture_output=True, check=True)

    return {"numpy and pandas, python3 -I -c": bare,
            "numpy and pandas, run_code, warm": warm}, None, lambda: wait_for(pool), None


def wait_for(*boxes):
    """What is made ahead is made while the caller does something else."""
    end = time.perf_counter() + 1
    for box in boxes:
        while box.parked()["parked"] < waiting(box) and time.perf_counter() < end:
            time.sleep(0.001)
    time.sleep(0.003)


def waiting(box):
    return box.workers + 1 if hasattr(box, "workers") else PARKED


def with_held():
    """Warm runs that wait. All have one pipe as standard input, which ends when they may."""
    import pycordon

    most = 64
    pool = pycordon.Pool(preload=(), workers=most, parked=1).start()
    assert pool.warm_reason is None, pool.warm_reason
    assert pool.run_code(CODE).ok
    held = []

    def hold(count):
        read, write = os.pipe()
        programs = [pycordon.Program(HELD, stdin=read) for _ in range(min(count, most))]
        done = []
        thread = threading.Thread(target=lambda: done.extend(pool.map(programs)))
        thread.start()
        held.append((read, write, thread, done, count))

    def release():
        read, write, thread, done, count = held.pop()
        os.close(write)
        thread.join()
        os.close(read)
        assert len(done) == count and all(graded.ok for graded in done), done

    return {"release": release}, None, None, hold


def with_two():
    """On two CPUs, however many there are. Threads that are made from now on are there, too."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    return {}, None, None, None


def rate(seconds):
    """Warm runs of one program per second, as many at once as there are CPUs, for a while."""
    import pycordon

    with pycordon.Pool(preload=()) as pool:
        assert pool.warm_reason is None, pool.warm_reason
        pool.map([CODE] * 20)
        start = time.perf_counter()
        done = 0
        while time.perf_counter() - start < seconds:
            assert all(graded.ok for graded in pool.map([CODE] * 50))
            done += 50
        return done / (time.perf_counter() - start)


def with_interpreters():
    """One request to an interpreter that goes on, and what gives one that has started."""
    import pycordon

    python = pycordon.Interpreter("python").start()
    bash = pycordon.Interpreter("bash").start()
    session = pycordon.Session()
    pool = pycordon.Pool(interpreters={"bash": 2}, parked=2).start()

    def checked(execution):
        assert execution.ok, execution

    def take():
        with pool.interpreter("bash") as one:
            checked(one.execute("echo 1"))

    def start():
        with pycordon.Interpreter("bash") as one:
            checked(one.execute("echo 1"))

    def rest():
        end = time.perf_counter() + 1
        while len(pool._engine.ahead) < 2 and time.perf_counter() < end:
            time.sleep(0.001)
        time.sleep(0.003)

    return {
        "python.execute('1+1')": lambda: checked(python.execute("1+1")),
        "bash.execute('echo 1')": lambda: checked(bash.execute("echo 1")),
        "Session.exec(true)": lambda: session.exec(TRUE, check=True),
        "Pool.interpreter('bash'), one piece of code": take,
        "Interpreter('bash'), one piece of code": start,
    }, None, rest, None


def with_cordon():
    import pycordon

    sandbox, fresh = pycordon.Sandbox(), pycordon.Sandbox(persist=False)
    pool, parked = pycordon.Pool(preload=()).start(), pycordon.Sandbox(parked=PARKED)
    cold = pycordon.Pool(preload=None).start()
    assert pool.warm_reason is None, pool.warm_reason

    def rest():
        wait_for(pool, cold, parked)

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
        "Sandbox.run, parked": lambda: checked(parked.run(TRUE)),
        "Pool.run": lambda: checked(pool.run(TRUE)),
        "run_code, cold": lambda: checked(sandbox.run_code(CODE)),
        "run_code, parked": lambda: checked(cold.run_code(CODE)),
        "run_code, warm": lambda: checked(pool.run_code(CODE)),
    }, many, rest, lambda count: grade(pool, count)


def with_forks(mib):
    import pycordon

    python = pycordon.Interpreter("python", limits_memory="2G").start()
    data = f"import os\ndata = os.urandom(1 << 20) * {mib}\nlen(data)"
    assert python.execute(data).text == str(mib << 20)
    plain = os.urandom(1 << 20) * mib
    made = []

    def bare():
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(write, b"%d" % len(plain))
            os._exit(0)
        os.close(write)
        assert os.read(read, 100) == b"%d" % (mib << 20)
        os.close(read)
        assert os.waitpid(pid, 0)[1] == 0

    def fork():
        made.append(python.fork())
        return made[-1]

    def answered():
        assert fork().execute("len(data)").text == str(mib << 20)

    def changed():
        """Its memory has to be written down anew."""
        assert python.execute("again = 1").ok
        start = time.perf_counter()
        fork()
        return time.perf_counter() - start

    def rest():
        while made:
            made.pop().close()
        if python._live.image is None:
            python.fork().close()
        time.sleep(0.003)

    return {"os.fork, an answer": bare, "fork()": fork, "fork(), an answer": answered,
            "fork() of a changed state": changed}, None, rest, None


def with_sandlock():
    from sandlock import Sandbox

    system = [d for d in ("/usr", "/bin", "/lib", "/lib64", "/etc", "/proc") if os.path.exists(d)]
    sandbox = Sandbox(fs_readable=[*system, sys.prefix], fs_writable=["/dev", "/tmp"])

    def checked(result):
        assert result.success, result

    return {
        "sandlock": lambda: checked(sandbox.run(TRUE)),
        "sandlock's package, python3 -I -c": lambda: checked(sandbox.run([sys.executable, "-I", "-c", CODE])),
    }, None, None, None


def main():
    what, mib = sys.argv[1], int(sys.argv[2])
    held = bytearray(mib << 20)
    for i in range(0, len(held), 4096):
        held[i] = 1
    if what == "forks":
        held = None
    makers = {"cordon": with_cordon, "sandlock": with_sandlock, "forks": lambda: with_forks(mib),
              "large": with_large, "interpreters": with_interpreters, "two": with_two,
              "held": with_held, "commands": lambda: with_commands(json.loads(sys.argv[3]))}
    contenders, many, rest, graded = makers[what]()
    for line in sys.stdin:
        name, _, count = line.strip().partition("\t")
        if name == "many":
            took = asyncio.run(many(int(count)))
        elif name == "rate":
            took = rate(float(count)) / 1e3
        elif name in ("grade", "hold"):
            took = graded(int(count)) or 0.0
        elif name == "grade plain":
            took = grade_plain(int(count))
        else:
            if rest is not None:
                rest()
            start = time.perf_counter()
            measured = contenders[name]()
            took = measured if isinstance(measured, float) else time.perf_counter() - start
        print(took * 1e3, flush=True)


main()
