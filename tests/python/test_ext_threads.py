# SPDX-License-Identifier: Apache-2.0
"""Any method from any thread; none keeps the GIL while it waits."""

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from extlib import PATIENCE, finish, script, start

from pycordon import _cordon


@pytest.fixture(scope="module")
def launcher():
    return _cordon.Launcher()


def in_thread(call):
    box = {}

    def body():
        try:
            box["got"] = call()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            box["error"] = error

    thread = threading.Thread(target=body, daemon=True)
    thread.box = box
    thread.start()
    return thread


def join(thread):
    thread.join(PATIENCE)
    assert not thread.is_alive(), "the thread did not come back"
    if "error" in thread.box:
        raise thread.box["error"]
    return thread.box["got"]


@pytest.mark.parametrize("order", ["cancel", "end"])
def test_cancel_while_another_thread_waits(launcher, order):
    run = start(launcher, ["/bin/sleep", "1000"])
    waiting = threading.Event()

    def wait():
        waiting.set()
        return run.wait()

    thread = in_thread(wait)
    waiting.wait()
    getattr(run, order)()
    assert join(thread) is True
    assert run.result()["kind"] == "cancelled"


def test_two_threads_wait_for_one_run(launcher):
    """The run's descriptor tells of its end once; both must come back."""
    for _ in range(30):
        run = start(launcher, ["/bin/sh", "-c", "read x"], stdin=(pipe := os.pipe())[0])
        threads = [in_thread(run.wait) for _ in range(3)]
        os.close(pipe[0])
        os.close(pipe[1])  # its input ends, and so does the command
        assert [join(thread) for thread in threads] == [True] * 3
        assert run.result()["kind"] == "exited"


def test_close_while_another_thread_waits(launcher):
    run = start(launcher, ["/bin/sleep", "1000"])
    threads = [in_thread(run.wait) for _ in range(2)]
    time.sleep(0.05)
    run.close()
    for thread in threads:
        try:
            assert join(thread) is True
        except _cordon.Error as error:  # it had not begun to wait
            assert error.name == "state"
    with pytest.raises(_cordon.Error, match="closed"):
        run.result()


def test_waiting_leaves_the_interpreter_to_others(launcher):
    run = start(launcher, ["/bin/sleep", "1000"])
    thread = in_thread(run.wait)
    begun, turns = time.monotonic(), 0
    while time.monotonic() - begun < 0.2:
        turns += 1
    assert turns > 1000
    run.cancel()
    join(thread)


@pytest.mark.parametrize("call", ["start", "plan", "check"])
def test_long_calls_leave_the_interpreter_to_others(launcher, call):
    """With so long a switch interval, another thread gets a turn only if the call releases the GIL."""
    stop, ticks = threading.Event(), []

    def tick():
        while not stop.is_set():
            ticks.append(1)
            time.sleep(0)  # lets go of the GIL, and takes it when it is free

    args = () if call == "check" else (_cordon.Policy(), ["/bin/true"])
    interval, inside = sys.getswitchinterval(), 0
    sys.setswitchinterval(100)
    try:
        thread = in_thread(tick)
        end = time.monotonic() + PATIENCE  # on a busy machine a call may be over too soon
        while inside == 0 and time.monotonic() < end:
            before = len(ticks)
            got = getattr(launcher, call)(*args)
            inside += len(ticks) - before
            del got
        stop.set()
        thread.join(PATIENCE)
    finally:
        stop.set()
        sys.setswitchinterval(interval)
    assert inside > 0


def test_fifty_threads_twenty_runs_each(launcher):
    failures = []

    def work(number):
        for i in range(20):
            word = f"{number}-{i}"
            run = start(launcher, ["/bin/sh", "-c", 'read x; echo "$x"; exit 7'], stdin=word.encode())
            got = finish(run)
            if (got["stdout"], got["exit_code"]) != (word.encode() + b"\n", 7):
                failures.append((word, got))
            if i % 3 == 0:
                run.close()

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(work, range(50)))
    assert not failures, failures[:3]


def test_threads_use_one_run_all_at_once(launcher):
    """No order of calls may crash or hang, whatever other threads are doing."""
    for _ in range(10):
        run = start(launcher, ["/bin/sh", "-c", "echo 1; sleep 0.05; echo 2"])

        def poke(number, run=run):
            calls = [run.process, lambda: run.wait(0.02), run.notes, run.fileno, run.published,
                     lambda: run.signal(28), lambda: run.done, run.result, run.receipt]  # fmt: skip
            for i in range(60):
                try:
                    calls[(i * 7 + number) % len(calls)]()
                except _cordon.Error as error:
                    assert error.name == "state", error
            if number == 5:
                run.close()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(poke, range(8)))
        with pytest.raises(_cordon.Error, match="closed"):
            run.process()


def test_a_policy_is_changed_while_runs_are_started_from_it(launcher):
    made = _cordon.Policy()
    stop = threading.Event()

    def change():
        i = 0
        while not stop.is_set():
            i += 1
            made.json('{"limits": {"wall": "%ds"}, "env": {"set": {"A": "%d"}}}' % (i % 50 + 10, i))
            made.set("limits.procs", str(i % 100 + 20))
            made.to_json()
            made.copy()
        return i

    threads = [in_thread(change) for _ in range(2)]
    for _ in range(60):
        assert finish(start(launcher, ["/bin/true"], made))["exit_code"] == 0
    stop.set()
    assert all(join(thread) > 0 for thread in threads)


def test_no_change_of_a_policy_is_lost():
    made = _cordon.Policy()

    def add(number):
        for i in range(40):
            made.json('{"fs": {"read": ["/t%d/%d"]}}' % (number, i))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))
    got = made.to_json()
    missing = [(n, i) for n in range(8) for i in range(40) if f'"/t{n}/{i}"' not in got]
    assert not missing


def test_the_interpreter_ends_while_threads_wait():
    """Daemon threads in wait(), objects alive: the process ends, and the trees with it."""
    out = script(
        """
runs = []
launcher = _cordon.Launcher()
for _ in range(5):
    run = launcher.start(_cordon.Policy(), ["/bin/sleep", "1000"])
    runs.append(run)
    threading.Thread(target=run.wait, daemon=True).start()
time.sleep(0.1)
print("end")
"""
    )
    assert out == "end\n"
