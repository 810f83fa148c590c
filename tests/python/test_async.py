# SPDX-License-Identifier: Apache-2.0
"""AsyncSandbox: the same in an event loop, with cancellation that really ends things."""

import asyncio
import os
import time

import pytest

import pycordon
from pycordon import _aio_wait
from pylib import ceiling


def in_loop(coroutine):
    return asyncio.run(coroutine)


def test_import_does_not_load_asyncio(host):
    assert host("import sys, pycordon; print('asyncio' in sys.modules)").stdout == "False\n"


def test_run_and_files():
    async def main():
        async with pycordon.AsyncSandbox(workdir=True) as box:
            got = await box.run("echo out; echo err >&2; exit 3")
            assert (got.stdout, got.stderr, got.returncode) == ("out\n", "err\n", 3)
            assert (await box.run_code("print(6 * 7)")).stdout == "42\n"
            await box.files.write("d/f", "x")
            assert await box.files.read("d/f") == b"x" and await box.files.exists("d")
            assert [i.path for i in await box.files.list(".", depth=0)] == ["d", "d/f"]
            assert [i.path for i in await box.files.glob("**/f")] == ["d/f"]
            await box.files.import_tar(await box.files.export_tar("d"), "e")
            assert await box.files.read_text("e/f") == "x"
            with pytest.raises(FileNotFoundError):
                await box.files.read("missing")
            with pytest.raises(FileNotFoundError):
                await box.run("true", cwd="nowhere")
            assert (await box.run(["missing"])).returncode == 127
            assert (await box.run("sleep 9", timeout=0.2)).kind == "timeout"
            with pytest.raises(pycordon.RunError):
                await box.run("false", check=True)
            await box.restart()
            assert not await box.files.exists("d")
        with pytest.raises(pycordon.ClosedError):
            await box.run("true")

    in_loop(main())


def test_stream():
    async def main():
        async with pycordon.AsyncSandbox() as box:
            got, times = [], []
            async for event in box.stream("echo a; sleep 0.3; echo b >&2"):
                got.append(event)
                times.append(time.monotonic())
            assert got == [("stdout", b"a\n"), ("stderr", b"b\n")] and times[1] - times[0] > 0.2
            total = 0
            async for _, data in box.stream("head -c 20000000 /dev/zero"):
                total += len(data)
            assert total == 20000000
            async for _ in box.stream("yes"):  # leaving early ends it
                break
            seen = []

            async def slowly(data):
                await asyncio.sleep(0)
                seen.append(data)

            got = await box.run("echo x; echo y >&2", on_stdout=slowly, on_stderr=seen.append)
            assert sorted(seen) == [b"x\n", b"y\n"] and got.stdout == "x\n" and got.stderr == "y\n"

    in_loop(main())


def test_popen():
    async def main():
        async with pycordon.AsyncSandbox() as box:
            process = await box.popen("while read x; do echo got $x; done; echo end >&2")
            await process.write("one\n")
            events = process.events()
            assert await events.__anext__() == ("stdout", b"got one\n")
            big = b"y" * 1_000_000 + b"\n"
            writing = asyncio.ensure_future(process.write(big))
            rest = bytearray()
            while len(rest) < len(big) + 4:
                name, data = await events.__anext__()
                rest += data
            await writing
            process.close_stdin()
            got = await process.wait()
            assert got.ok and got.stderr == "end\n" and process.poll() == 0
            sleeper = await box.popen("sleep 60")
            with pytest.raises(TimeoutError):
                await sleeper.wait(0.1)
            sleeper.kill()
            assert (await sleeper.wait()).kind == "cancelled"
            async with await box.popen(["missing"]) as none:
                assert (await none.wait()).returncode == 127
            terminal = await box.popen("tty", tty=True, rows=30, cols=90)
            assert b"/dev/pts/" in (await terminal.wait()).stdout_bytes

    in_loop(main())


@pytest.mark.parametrize("how", ["run", "stream", "files", "callbacks"])
def test_cancellation_ends_the_tree_first(tmp_path, how):
    mark = tmp_path / "w" / "mark"
    # Twice forked, in a session of its own, deaf to what one can be deaf to.
    script = (
        "(setsid sh -c 'trap \"\" TERM HUP INT; while sleep 0.02; do echo x >> mark; done' &); "
        "sleep 60"
    )

    async def main():
        async with pycordon.AsyncSandbox(workdir=tmp_path / "w") as box:

            async def go():
                if how == "stream":
                    async for _ in box.stream(script):
                        pass
                elif how == "callbacks":
                    await box.run(script, on_stdout=print)
                else:
                    await box.run(script)

            task = asyncio.ensure_future(go())
            while not mark.exists():
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            size = mark.stat().st_size
            await asyncio.sleep(0.5)
            assert mark.stat().st_size == size, "it was still running when the task was over"
            if how == "files":
                many = [asyncio.ensure_future(box.files.write(f"f{i}", "x")) for i in range(20)]
                await asyncio.sleep(0.005)
                for one in many:
                    one.cancel()
                await asyncio.gather(*many, return_exceptions=True)
                await box.files.write("after", "x")

    in_loop(main())


def test_cancelled_while_it_is_started():
    async def main():
        async with pycordon.AsyncSandbox() as box:
            await box.start()
            before = len(os.listdir("/proc/self/fd"))
            for i in range(60):
                task = asyncio.ensure_future(box.run("sleep 30"))
                for _ in range(i % 6):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert not box._engine.runs.live
            assert len(os.listdir("/proc/self/fd")) <= before + 4

    in_loop(main())


def test_wait_for_is_a_cancellation():
    async def main():
        async with pycordon.AsyncSandbox() as box:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(box.run("sleep 60"), 0.2)
            assert (await box.run("true")).ok

    in_loop(main())


def test_close_ends_what_runs():
    async def main():
        box = pycordon.AsyncSandbox()
        task = asyncio.ensure_future(box.run("sleep 60"))
        while not box._engine.runs.live:
            await asyncio.sleep(0.01)
        await box.close()
        with pytest.raises(pycordon.ClosedError):
            await task

    in_loop(main())


def test_many_at_once(monkeypatch):
    async def main():
        async with pycordon.AsyncSandbox() as box:
            start = time.monotonic()
            got = await asyncio.gather(*[box.run(["sleep", "1"]) for _ in range(200)])
            assert all(r.ok for r in got)
            assert time.monotonic() - start < ceiling(60)  # one after the other takes 200

    in_loop(main())


@pytest.mark.parametrize("limit", [200, 400])
def test_few_descriptors_only_make_it_wait(host, limit):
    code = """
        import asyncio, resource, sys
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), hard))
        import pycordon
        async def talk(box):
            async with await box.popen("sleep 0.3; cat") as process:
                await process.write("y")
                process.close_stdin()
                assert (await process.wait()).stdout == "y"
        async def main():
            async with pycordon.AsyncSandbox() as box:
                got = await asyncio.gather(*[box.run("echo x") for _ in range(150)])
                assert all(r.stdout == "x\\n" for r in got)
                files = await asyncio.gather(*[box.files.write(f"/tmp/f{i}", "x") for i in range(60)])
                seen = []
                await asyncio.gather(
                    *[box.run("sleep 0.3; echo x", on_stdout=seen.append) for _ in range(30)],
                    *[talk(box) for _ in range(30)],
                    *[box.run("sleep 0.1") for _ in range(30)],
                )
                assert b"".join(seen) == b"x\\n" * 30
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == int(sys.argv[1])
        asyncio.run(main())
        print("done")
    """
    assert host(code, limit).stdout == "done\n"


def test_cancelled_ones_leave_their_place_to_others():
    """In every order: while they wait, when it is just theirs, and while they have it."""

    async def main():
        room = _aio_wait.Room(20)
        slots = {n: _aio_wait.Slot(room, n) for n in (10, 20)}
        await slots[10].acquire()
        large = asyncio.create_task(slots[20].acquire())
        small = asyncio.create_task(slots[10].acquire())
        await asyncio.sleep(0)
        assert not large.done() and not small.done()  # who came first is served first
        large.cancel()
        await asyncio.wait_for(small, ceiling(10))
        next_one = asyncio.create_task(slots[20].acquire())
        await asyncio.sleep(0)
        slots[10].release()
        slots[10].release()  # now it is his, and he does not know it yet
        next_one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await next_one
        await asyncio.wait_for(slots[20].acquire(), ceiling(10))  # everything is there again

    in_loop(main())


def test_two_loops_and_one_sandbox():
    box = pycordon.AsyncSandbox()

    async def go():
        return (await box.run("echo x")).stdout

    assert in_loop(go()) == "x\n" and in_loop(go()) == "x\n"
    in_loop(box.close())


def test_orphans_keep():
    async def main():
        async with pycordon.AsyncSandbox(workdir=True) as box:
            got = await box.run("(sleep 0.2; echo x > late) & echo now", orphans="keep")
            assert got.stdout == "now\n"
            end = time.monotonic() + ceiling(20)
            while not await box.files.exists("late"):
                assert time.monotonic() < end
                await asyncio.sleep(0.05)

    in_loop(main())


def test_waiting_for_output_has_an_end():
    async def main():
        async with pycordon.AsyncSandbox() as box, await box.popen("cat; echo over") as process:
            assert await process.read_available() == []
            assert await process.read_available(timeout=0.05) == []
            with pytest.raises(TimeoutError):
                async for _ in process.events(timeout=0.05):
                    pass
            await process.write("a\n")
            assert await process.read_available(timeout=ceiling(20)) == [("stdout", b"a\n")]
            process.close_stdin()
            assert (await process.wait()).stdout == "over\n"
            assert await process.read_available(timeout=9) == []

    asyncio.run(main())
