# SPDX-License-Identifier: Apache-2.0
"""Pools: runs from sandboxes made ahead, and programs graded by them."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import pycordon
from pycordon import Graded, Program
from pylib import ceiling, until


@pytest.fixture(scope="module")
def level():
    return pycordon.check().level


@pytest.fixture
def pool():
    with pycordon.Pool(workers=2) as made:
        yield made


def ready(pool, count):
    """Waits until that many wait; where nothing can be made ahead there is nothing to wait for."""
    until(lambda: pool.parked()["parked"] == count, "nothing was made ahead")


def all_warm(pool, count=None):
    """No run was cold, but for those after a mount by some other program of this machine."""
    stats = pool.parked()
    assert stats["misfits"] == 0 and stats["cold"] <= stats["stale"] <= 2, stats
    assert count is None or stats["warm"] + stats["cold"] == count, stats


def test_runs_are_warm_and_fresh(pool, level):
    if level != "namespaces":
        pytest.skip("nothing is made ahead at level landlock")
    ready(pool, 3)
    for _ in range(5):
        ready(pool, 3)
        result = pool.run("ls -A /tmp /dev/shm; ls -A ~; ipcs -m; echo x | tee /tmp/mine ~/mine /dev/shm/mine; ipcmk -M 64")
        assert result.ok and result.stdout.startswith("/dev/shm:\n\n/tmp:\n"), result.output
        assert "mine" not in result.stdout and "0x" not in result.stdout.split("x\n")[0]
    all_warm(pool, 5)


def test_code_files_streams_and_processes(pool):
    assert pool.run_code("import helper; print(helper.x, input())", files={"helper.py": "x = 1"}, stdin="a").stdout == "1 a\n"
    assert pool.run("cat", stdin=b"bytes").stdout_bytes == b"bytes"
    got = []
    assert pool.run("echo now", on_stdout=got.append).ok and b"".join(got) == b"now\n"
    with pool.popen("cat") as process:
        process.write("line\n")
        assert process.stdout.readline() == b"line\n"
        process.close_stdin()
        assert process.wait().ok
    assert pool.run("exit 3").exit_code == 3
    assert pool.run(["no-such-program"]).kind == "spawn_failed"


def test_other_settings_fall_back(pool, level, tmp_path):
    if level == "namespaces":
        ready(pool, 3)
    assert pool.run("echo a", limits_disk="1M").stdout == "a\n"
    assert pool.run("echo $A", env={"A": "b"}, limits_memory="64M", timeout=5).stdout == "b\n"
    if level == "namespaces":
        stats = pool.parked()
        assert stats["misfits"] + stats["stale"] >= 1 and stats["warm"] + stats["stale"] >= 1


def test_private_directories_are_parked_too(level, place):
    if level != "namespaces":
        pytest.skip("nothing is made ahead at level landlock")
    with pycordon.Sandbox(parked=1) as sandbox:
        for i in range(3):
            sandbox.run("true")
            ready(sandbox, 1)
            assert sandbox.run("echo x >>~/kept; wc -l <~/kept").stdout.strip() == str(i + 1)
            ready(sandbox, 1)
            assert sandbox.run_code("print(len(open('/tmp/k', 'a+').name))").ok
            ready(sandbox, 1)
        sandbox.files.write("/tmp/f", "x")
        all_warm(sandbox)


def test_workspaces_are_parked_too(level, place):
    if level != "namespaces":
        pytest.skip("nothing is made ahead at level landlock")
    project = place / "project"
    project.mkdir()
    (project / "a").write_text("1\n")
    with pycordon.Sandbox(fs_workspace=str(project), parked=1) as sandbox:
        ready_once = sandbox.run("echo 2 >a; cat a")
        assert ready_once.stdout == "2\n"
        ready(sandbox, 1)
        assert sandbox.run("cat a; echo 3 >a").stdout == "2\n"
        ready(sandbox, 1)
        assert sandbox.run("cat a").stdout == "3\n"
        assert (project / "a").read_text() == "1\n"
        all_warm(sandbox, 3)
        sandbox.workspace.discard()


# --- grading -------------------------------------------------------------------------------------


def test_verdicts(pool):
    programs = [
        Program(code="print(input())", stdin="a", expected="a"),
        {"code": "print(2)", "expected": "3"},
        Program(code="while True: pass", timeout=0.5),
        Program(code="x = b'x' * 10**9", limits={"limits_memory": "64M"}),
        "1/0",
        "print(",
        "  indented = 1",
        "raise SyntaxError('of its own')",
        Program(cmd=["sh", "-c", "echo out; exit 2"]),
        ["sh", "-c", "exit 0"],
        Program(code="import os; os.kill(os.getpid(), 9)"),
        Program(code="console.log(", language="no-such-language"),
    ]
    got = pool.map(programs)
    assert [g.verdict for g in got] == [
        "ok", "wrong", "timeout", "memory", "runtime", "compile", "compile", "runtime", "runtime", "ok", "runtime",
        "runtime",
    ]  # fmt: skip
    assert [g.index for g in got] == list(range(len(programs)))
    assert got[0].ok and not got[1].ok and got[1].result.stdout == "2\n"
    assert got[4].program.code == "1/0" and "ZeroDivisionError" in got[4].result.stderr
    assert repr(got[0]) == "<Graded 0 ok>"


def test_expected_output(pool):
    cases = [
        ("print('a '); print('b')", "a\nb", True),
        ("print('a'); print('b'); print()", "a\nb\n", True),
        ("print('a'); print('b')", "a\n\nb\n", False),
        ("print(' a')", "a", False),
        ("print('a')", b"a\n", True),
        ("print('a')", b"a", False),
        ("print('\\xe4')", "\xe4", True),
        ("", "", True),
    ]
    got = pool.map([c for c, _, _ in cases], expected=[e for _, e, _ in cases])
    assert [g.ok for g in got] == [ok for _, _, ok in cases]


def test_checkers(pool):
    def broken(result):
        raise ValueError("the checker is wrong")

    got = pool.map(
        [
            Program(code="print(4)", checker=lambda result: int(result.stdout) % 2 == 0),
            Program(code="print(5)", checker=lambda result: int(result.stdout) % 2 == 0),
            Program(code="print(5)", checker=lambda result: "not even"),
            Program(code="print('x')", checker=broken),
            Program(code="1/0", checker=broken),
            Program(code="print(6)"),
        ],
        checker=lambda result: result.stdout == "6\n",
    )
    assert [g.verdict for g in got] == ["ok", "wrong", "wrong", "error", "runtime", "ok"]
    assert got[2].message == "not even"
    assert isinstance(got[3].error, ValueError) and got[3].message == "the checker is wrong"
    with pytest.raises(KeyboardInterrupt):
        pool.map(["print(1)"] * 3, checker=lambda result: (_ for _ in ()).throw(KeyboardInterrupt))
    assert pool.run("echo on").ok


def test_one_program_many_inputs(pool):
    got = pool.map("print(int(input()) ** 2)", (str(i) for i in range(10)), expected=[str(i * i) for i in range(10)])
    assert [g.verdict for g in got] == ["ok"] * 10


def test_order_progress_and_as_they_come(pool):
    codes = [f"import time; time.sleep({0.5 if i == 0 else 0}); print({i})" for i in range(6)]
    told = []
    got = pool.map(codes, progress=lambda done, total, graded: told.append((done, total, graded.index)))
    assert [g.result.stdout for g in got] == [f"{i}\n" for i in range(6)]
    assert [t[:2] for t in told] == [(i + 1, 6) for i in range(6)] and told[0][2] != 0
    assert [g.index for g in pool.imap(codes)] == list(range(6))
    came = [g.index for g in pool.imap_unordered(codes)]
    assert sorted(came) == list(range(6)) and came[0] != 0


def test_back_pressure(pool):
    asked = []

    def source():
        for i in itertools.count():
            asked.append(i)
            yield f"print({i})"

    results = pool.imap_unordered(source())
    next(results)
    assert len(asked) <= 4
    time.sleep(0.3)
    assert len(asked) <= 4  # nothing is taken before it is asked for
    results.close()
    # A slow one at the head holds those behind it up, and they do not pile up.
    asked.clear()
    slow = itertools.chain(["import time; time.sleep(2)"], source())
    results = pool.imap(slow, timeout=10)
    assert next(results).index == 0
    assert len(asked) <= 4 * pool.workers + pool.workers + 1
    results.close()
    until(lambda: not pool._engine.runs.live, "programs are left")


def test_leaving_the_loop_ends_the_programs(pool, host):
    start = time.monotonic()
    for graded in pool.imap_unordered(["print(1)", "import time; time.sleep(20)"]):
        assert graded.index == 0
        break
    until(lambda: not pool._engine.runs.live, "the other one is left")
    assert time.monotonic() - start < ceiling(10)


def test_wrong_arguments(pool):
    wrong = [
        (lambda: pool.map("print(1)"), "a list of programs is needed"),
        (lambda: pool.map(5), "a list of programs"),
        (lambda: pool.map([5]), "not int"),
        (lambda: pool.map([{"cod": "x"}]), "no 'cod'"),
        (lambda: pool.map([{}]), "either code or cmd"),
        (lambda: pool.map(["a", "b"], ["x"]), "fewer than programs"),
        (lambda: pool.map(["a"], "x"), "one for each"),
        (lambda: pool.map(["a"], expected=5), "one for each"),
        (lambda: pool.map(["a"], limits=5), "a dict of settings"),
        (lambda: pool.map(["a"], checker=5), "a function is needed"),
        (lambda: pool.map(["a"], progress=5), "a function is needed"),
        (lambda: pycordon.Pool(workers=0), "workers"),
        (lambda: pycordon.Pool(workdir="/tmp"), "a pool has no 'workdir'"),
        (lambda: pycordon.AsyncPool(persist=True), "a pool has no 'persist'"),
        (lambda: pycordon.Pool(parked=0), "parked"),
        (lambda: pycordon.Pool(parked=257), "parked"),
        (lambda: pycordon.Sandbox(parked=-1), "parked"),
    ]
    for call, text in wrong:
        with pytest.raises(pycordon.UsageError, match=text):
            call()
    # More than the pool allows, for one of them: its verdict.
    with pycordon.Pool(limits_memory="64M") as tight:
        got = tight.map(["print(1)", Program(code="1", limits={"limits_memory": "8G"}), "print(2)"])
    assert [g.verdict for g in got] == ["ok", "error", "ok"]
    assert isinstance(got[1].error, pycordon.CordonError) and got[1].result is None


def test_closed(level):
    pool = pycordon.Pool()
    pool.run("true")
    pool.close()
    pool.close()
    for call in (lambda: pool.run("true"), lambda: pool.map(["1"]), lambda: pool.start()):
        with pytest.raises(pycordon.ClosedError):
            call()
    assert set(pool.parked().values()) == {0}
    assert repr(pool) == "<Pool closed>"


def test_closed_by_another_thread():
    pool = pycordon.Pool(workers=2)
    timer = threading.Timer(0.5, pool.close)
    timer.start()
    with pytest.raises(pycordon.ClosedError):
        pool.map(["import time; time.sleep(20)"] * 4)
    timer.join()


def test_threads_and_two_pools(level):
    failures = []

    def work(pool, word):
        for i in range(15):
            if pool.run(["echo", f"{word}{i}"]).stdout != f"{word}{i}\n":
                failures.append((word, i))

    with pycordon.Pool(parked=2) as one, pycordon.Pool(parked=1, limits_memory="64M") as two:
        threads = [threading.Thread(target=work, args=(p, w)) for p, w in [(one, "a"), (two, "b"), (one, "c"), (two, "d")]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        if level == "namespaces":
            assert one.parked()["warm"] > 0 and two.parked()["warm"] > 0


# --- asyncio -------------------------------------------------------------------------------------


def test_asynchronous():
    async def main():
        async with pycordon.AsyncPool(workers=2) as pool:
            assert pool.workers == 2
            got = await pool.map(["print(input())", "1/0"], ["a", "b"], expected=["a", "b"])
            assert [g.verdict for g in got] == ["ok", "runtime"]
            assert [g.index async for g in pool.imap(["print(1)"] * 5)] == [0, 1, 2, 3, 4]
            assert sorted([g.index async for g in pool.imap_unordered(["print(1)"] * 5)]) == [0, 1, 2, 3, 4]
            assert (await pool.run_code("print(2)")).stdout == "2\n"
        with pycordon.Pool() as other:
            return await other.amap(["print(1)"] * 3, expected=["1"] * 3)

    assert [g.verdict for g in asyncio.run(main())] == ["ok"] * 3


def test_cancelled():
    async def main():
        async with pycordon.AsyncPool(workers=3) as pool:
            task = asyncio.ensure_future(pool.map(["import time; time.sleep(20)"] * 9))
            await asyncio.sleep(0.5)
            start = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - start < ceiling(5)
            assert not pool._engine.runs.live
            assert (await pool.run("echo on")).ok

    asyncio.run(main())


# --- fork, signals, ends -------------------------------------------------------------------------


def test_fork(pool, level):
    pool.run("true")
    if level == "namespaces":
        ready(pool, 3)
    pid = os.fork()
    if pid == 0:
        try:
            good = pool.run("echo child").stdout == "child\n" and pool.parked()["warm"] == 0
            good = good and [g.verdict for g in pool.map(["print(1)"] * 3)] == ["ok"] * 3
            pool.close()
            os._exit(0 if good else 1)
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert pool.run("echo parent").stdout == "parent\n"
    if level == "namespaces":
        all_warm(pool)


def children(pid):
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


GRADER = """
import pycordon
with pycordon.Pool(workers=2) as pool:
    print("ready", flush=True)
    while True:
        pool.map(["import time; time.sleep(0.05)"] * 6)
"""


def start_grader(place, code=GRADER):
    package = os.path.dirname(os.path.dirname(os.path.abspath(pycordon.__file__)))
    env = {**os.environ, "PYTHONPATH": package}
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("delay", [0, 0.003, 0.01, 0.03, 0.07, 0.2, 0.4])
def test_killed_owner(place, delay):
    process = start_grader(place)
    time.sleep(delay)
    below = children(process.pid)
    below += [grandchild for child in below for grandchild in children(child)]
    process.kill()
    process.communicate()
    until(lambda: not [pid for pid in below if is_alive(pid)], "something is left of a killed grader")


def test_interrupted(place):
    process = start_grader(place)
    time.sleep(0.3)
    below = children(process.pid)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=ceiling(20))
    assert b"KeyboardInterrupt" in said and process.returncode != 0
    until(lambda: not [pid for pid in below if is_alive(pid)], "something is left of an interrupted grader")
    left = place / "state" / "cordon" / "sandboxes"
    # Between two lines it may leave one program's code, which the next sandbox sweeps.
    assert not left.exists() or len(os.listdir(left)) <= 1


def test_killed_inits(pool, level):
    if level != "namespaces":
        pytest.skip("nothing is made ahead at level landlock")
    for i in range(12):
        ready(pool, 3)
        parked = [pid for pid in children(os.getpid()) if is_alive(pid)]
        for pid in parked[: 1 + i % 3]:
            os.kill(pid, signal.SIGKILL)
        until(lambda: not [pid for pid in parked[: 1 + i % 3] if is_alive(pid)], "killed, and still there")
        assert pool.run(["echo", "on"]).stdout == "on\n"


def count_fds():
    return len(os.listdir("/proc/self/fd"))


def memory_kib():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


@pytest.mark.slow
def test_many_runs_leave_nothing(level):
    with pycordon.Pool(workers=2) as pool:
        for _ in range(200):
            assert pool.run(["/bin/true"]).ok
        until(lambda: level != "namespaces" or pool.parked()["parked"] == 3, "not refilled")
        fds, memory, processes = count_fds(), memory_kib(), len(children(os.getpid()))
        for _ in range(2000):
            assert pool.run(["/bin/true"]).ok
        until(lambda: level != "namespaces" or pool.parked()["parked"] == 3, "not refilled")
        until(lambda: count_fds() <= fds + 4, "open files pile up")
        assert memory_kib() < memory + 8192
        until(lambda: len(children(os.getpid())) <= processes + 4, "processes pile up")
        if level == "namespaces":
            assert pool.parked()["warm"] > 1100
    until(lambda: not [pid for pid in children(os.getpid()) if is_alive(pid)], "parked inits are left")
