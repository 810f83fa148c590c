# SPDX-License-Identifier: Apache-2.0
"""Interpreters in an event loop."""

import asyncio
import time

import pytest

import pycordon
from pycordon import AsyncInterpreter
from pylib import ceiling


def run(work):
    return asyncio.run(asyncio.wait_for(work, ceiling(60)))


def test_state_order_and_other_tasks(place):
    async def work():
        async with AsyncInterpreter("python") as python:
            await python.execute("log = []")
            ticks = []

            async def tick():
                while True:
                    ticks.append(1)
                    await asyncio.sleep(0.01)

            ticking = asyncio.create_task(tick())
            done = await asyncio.gather(
                *(python.execute(f"import time\ntime.sleep(0.03)\nprint({n})\nlog.append({n})\nlog[-1]") for n in range(10))
            )
            ticking.cancel()
            assert [d.text for d in done] == [str(n) for n in range(10)] == [d.stdout.strip() for d in done]
            assert (await python.execute("log")).text == str(list(range(10)))
            assert len(ticks) > 5  # nothing blocks the loop

    run(work())


def test_callbacks(place):
    async def work():
        seen = []

        async def later(data):
            await asyncio.sleep(0)
            seen.append(data)

        async with AsyncInterpreter("bash") as bash:
            got = await bash.execute("echo a; echo b >&2", on_stdout=later, on_stderr=seen.append)
            assert sorted(seen) == [b"a\n", b"b\n"] and got.ok

    run(work())


def test_cancelling_interrupts(place):
    async def work():
        async with AsyncInterpreter("python") as python:
            await python.execute("x = 5")
            task = asyncio.create_task(python.execute("import time\ntime.sleep(60)"))
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await python.execute("x")).text == "5"
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(python.execute("while True: pass"), 0.3)
            assert (await python.execute("x")).text == "5"

    run(work())


def test_ends_timeouts_restart_variables(place):
    async def work():
        async with AsyncInterpreter("python", grace=ceiling(0.5)) as python:
            await python.set_vars({"a": [1, 2]})
            assert await python.get_var("a") == [1, 2]
            assert (await python.execute("import os\nos._exit(5)")).reason == "the interpreter ended with status 5"
            assert (await python.execute("1")).restarted
            soft = await python.execute("while True: pass", timeout=0.2)
            assert soft.interrupted and soft.timed_out
            hard = await python.execute("sum(range(10 ** 13))", timeout=0.2)
            assert hard.ended and hard.timed_out
            await python.execute("b = 1")
            await python.restart()
            assert (await python.execute("b")).error.name == "NameError"
            big = await python.execute("print('x' * 10_000_000, end='')")
            assert big.stdout_bytes == b"x" * 10_000_000
        with pytest.raises(pycordon.ClosedError):
            await python.execute("1")

    run(work())


def test_interrupt_and_close_from_another_task(place):
    async def work():
        python = AsyncInterpreter("python")
        task = asyncio.create_task(python.execute("import time\ntime.sleep(60)"))
        await asyncio.sleep(ceiling(0.5))
        assert python.interrupt() is True
        assert (await task).interrupted
        task = asyncio.create_task(python.execute("time.sleep(60)"))
        await asyncio.sleep(0.2)
        await python.close()
        assert (await task).ended

    run(work())


def test_eight_side_by_side(place):
    async def one(n):
        async with AsyncInterpreter("python") as python:
            await python.set_vars({"me": n})
            for i in range(10):
                got = await python.execute(f"print(me, {i})\nme * 100 + {i}")
                assert got.text == str(n * 100 + i) and got.stdout == f"{n} {i}\n"

    async def work():
        begin = time.monotonic()
        await asyncio.gather(*(one(n) for n in range(8)))
        assert time.monotonic() - begin < ceiling(30)

    run(work())
