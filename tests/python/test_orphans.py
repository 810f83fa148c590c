# SPDX-License-Identifier: Apache-2.0
"""orphans="keep": what a command leaves goes on, and ends with the sandbox's object at the latest."""

import asyncio
import gc
import os
import secrets

import pytest

import pycordon
from pylib import until


@pytest.fixture(params=[True, False], ids=["persist", "fresh"])
def persist(request):
    return request.param


@pytest.fixture
def mark():
    """An argument by which a process is found from outside."""
    return f"9{secrets.randbelow(10**9):09d}"


def running(mark):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read() == b"sleep\0" + mark.encode() + b"\0":
                    return True
        except OSError:
            continue
    return False


def goes_on(mark):
    """The control; the shell may not have executed it yet."""
    until(lambda: running(mark), "it has not begun")


def leave(box, mark):
    assert box.run(f"sleep {mark} & echo left", orphans="keep").stdout == "left\n"
    goes_on(mark)


def test_it_ends_when_the_sandbox_is_closed(mark, persist):
    box = pycordon.Sandbox(persist=persist)
    leave(box, mark)
    box.close()
    assert not running(mark)


def test_it_ends_when_the_sandbox_is_forgotten(mark, persist, left):
    box = pycordon.Sandbox(persist=persist)
    leave(box, mark)
    del box
    gc.collect()
    until(lambda: not running(mark), "it goes on without its sandbox")
    assert left() == []


def test_also_code_with_files_of_its_own(mark, persist, left):
    box = pycordon.Sandbox(persist=persist)
    got = box.run_code(f"sleep {mark} >&- 2>&- & echo left", "sh", orphans="keep")
    assert got.stdout == "left\n"
    goes_on(mark)
    del box
    gc.collect()
    until(lambda: not running(mark), "it goes on without its sandbox")
    assert left() == []


def test_it_ends_with_the_block(mark, persist):
    with pytest.raises(ZeroDivisionError):
        with pycordon.Sandbox(persist=persist) as box:
            leave(box, mark)
            1 / 0
    assert not running(mark)


def test_it_ends_with_the_loop(mark):
    async def work():
        box = pycordon.AsyncSandbox()
        got = await box.run(f"sleep {mark} & echo left", orphans="keep")
        assert got.stdout == "left\n"
        goes_on(mark)

    asyncio.run(work())
    gc.collect()
    until(lambda: not running(mark), "it goes on without its sandbox")


@pytest.mark.parametrize("end", ["pass", "raise SystemExit(0)", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_it_ends_with_the_program(mark, host, end):
    host(
        f"""
        import os, pycordon
        box = pycordon.Sandbox()
        assert box.run("sleep {mark} & echo left", orphans="keep").stdout == "left\\n"
        {end}
        """,
        check=False,
    )
    until(lambda: not running(mark), "it goes on without its program")


def test_it_goes_on_while_the_sandbox_is_there(mark):
    box = pycordon.Sandbox()
    leave(box, mark)
    gc.collect()
    assert box.run("echo next").stdout == "next\n" and running(mark)
    box.close()
