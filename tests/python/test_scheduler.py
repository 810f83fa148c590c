# SPDX-License-Identifier: Apache-2.0
"""The scheduler: fresh sandboxes for many callers, bounded, and nothing that a run says widens its policy."""

import asyncio
import math
import os
import pathlib
import pickle
import sys

import pytest

import pycordon
from pycordon import Scheduler
from pylib import ceiling, processes_with, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from packageslib import Index, npm_package, wheel  # noqa: E402


def run(work):
    return asyncio.run(asyncio.wait_for(work, ceiling(60)))


def with_scheduler(work, **settings):
    async def all_of_it():
        async with Scheduler(**settings) as scheduler:
            return await work(scheduler)

    return run(all_of_it())


def asks(scheduler, word):
    """Waits until a run has said that it goes on."""
    seen = asyncio.Event()
    return seen, lambda data: seen.set() if word in data else None


@pytest.fixture
def index(place, monkeypatch):
    made = Index()
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


# --- one run ----------------------------------------------------------------------------------------


def test_languages():
    async def work(scheduler):
        done = await scheduler.run(code="print(6 * 7)", language="python", timeout_seconds=20)
        assert (done.stdout, done.ok, done.files, done.missing) == ("42\n", True, {}, {})
        assert (await scheduler.run("console.log(6 * 7)", "javascript")).stdout == "42\n"
        raw = await scheduler.run("echo $A; exit 3", "raw", env={"A": "b"})
        assert (raw.stdout, raw.returncode) == ("b\n", 3)
        assert (await scheduler.run("import sys; print(sys.argv[1:], sys.stdin.read())", args=["x"], stdin="y")).stdout == "['x'] y\n"
        failed = await scheduler.run("1 / 0")
        assert not failed.ok and "ZeroDivisionError" in failed.stderr and failed.queued_ms >= 0
        assert pickle.loads(pickle.dumps(failed)) == failed
        with pytest.raises(pycordon.RunError):
            failed.raise_for_status()

    with_scheduler(work, max_memory_mb=512)


def test_each_run_is_fresh(left):
    async def work(scheduler):
        leave = "import os; open('kept', 'w'); open('/tmp/kept', 'w'); os.mkdir(os.path.expanduser('~/d'))"
        look = "import os; print(os.listdir('.'), 'kept' in os.listdir('/tmp'), os.path.exists(os.path.expanduser('~/d')))"
        for outputs in ([], ["kept"]):
            await scheduler.run(leave, outputs=outputs)
            assert (await scheduler.run(look, outputs=outputs)).stdout.endswith(" False False\n")
            assert "kept" not in (await scheduler.run(look, outputs=outputs)).stdout

    with_scheduler(work)
    assert left() == []


def test_files_up_and_down():
    async def work(scheduler):
        every = bytes(range(256)) * 300
        done = await scheduler.run(
            "import os, shutil\nshutil.copy('in/ü 😀.bin', 'out.bin')\nopen('in/ü 😀.bin', 'ab').write(b'more')\n"
            "os.mkdir('d')\nfor n in 'abc': open(f'd/{n}.txt', 'w').write(n)\nos.symlink('/etc/passwd', 'd/link.txt')\n"
            "os.mkfifo('d/fifo.txt')\nopen('/tmp/t', 'w').write('tmp')",
            files={"in/ü 😀.bin": every, "text": "héllo"},
            outputs=["out.bin", "text", "in/ü 😀.bin", "d/*.txt", "/tmp/t", "no-such", "d"],
        )
        assert done.ok, done.stderr
        assert done.files["out.bin"] == every and done.files["in/ü 😀.bin"] == every + b"more"
        assert done.files["text"] == "héllo".encode() and done.files["/tmp/t"] == b"tmp"
        assert [done.files[f"d/{n}.txt"] for n in "abc"] == [b"a", b"b", b"c"] and "d/fifo.txt" not in done.files
        assert set(done.missing) == {"no-such", "d"} and "No such file" in done.missing["no-such"]
        failed = await scheduler.run("open('partial', 'w').write('x'); 1 / 0", outputs=["partial"])
        assert not failed.ok and failed.files == {"partial": b"x"}

    with_scheduler(work)


def test_runs_with_files_are_warm():
    """Their files are there before anything has run, and theirs; one that cannot be says so as ever."""
    code = (
        "import os\nprint('memfd' in os.readlink('/proc/self/exe'), open('d/e/f').read(), os.stat('d/e').st_uid == os.getuid())\n"
        "print(oct(os.stat('d/e/f').st_mode), os.listdir('.'))\nopen('d/e/f', 'a').write('x'); open('d/new', 'w').close()"
    )

    async def main():
        async with Scheduler(preload=(), limits_disk="1M") as scheduler:
            results = [await scheduler.run(code, files={"d/e/f": "in"}, outputs=["d/e/f"]) for _ in range(2)]
            with pytest.raises(OSError):
                await scheduler.run(code, files={"d/e/f": b"x" * (2 << 20)})
            with pytest.raises(OSError):
                await scheduler.run(code, files={"d": "in", "d/e": "in"})
        return results

    umask = os.umask(0o22)
    os.umask(umask)
    mode = oct(0o100666 & ~umask)
    for result in asyncio.run(main()):
        assert result.stdout == f"True in True\n{mode} ['d']\n", result
        assert result.files == {"d/e/f": b"inx"}


def test_files_are_bounded():
    async def work(scheduler):
        done = await scheduler.run(
            "open('big', 'wb').write(bytes(3000)); open('small', 'w').write('x' * 900); open('sparse', 'wb').truncate(1 << 32)",
            outputs=["big", "small", "sparse"],
        )
        assert list(done.files) == ["small"] and set(done.missing) == {"big", "sparse"}
        many = await scheduler.run("for i in range(1100): open(f'{i}.n', 'w')", outputs=["*.n"])
        assert len(many.files) == 1000 and list(many.missing.values()) == ["more than 1000 files"]

    with_scheduler(work, max_file_bytes=1000)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "", ".", "a//b", "./x", "a\0b", 5])
def test_names_that_escape(name):
    async def work(scheduler):
        with pytest.raises(pycordon.UsageError):
            await scheduler.run("1", files={name: b"x"})

    with_scheduler(work)


def test_outputs_lead_nowhere_outside(place):
    """They are read inside: what the code could not read is not given back."""
    secret = place / "secret"
    secret.write_text("secret")

    async def work(scheduler):
        code = f"import os; os.symlink({str(secret)!r}, 'link'); os.symlink('/proc/1/environ', 'env')"
        done = await scheduler.run(code, outputs=["link", "env", str(secret), f"{place}/*"])
        assert done.ok and done.files == {} and {"link", str(secret)} <= set(done.missing)

    with_scheduler(work)


def test_streaming():
    async def work(scheduler):
        seen = []

        async def later(data):
            await asyncio.sleep(0)
            seen.append(data)

        for outputs in ([], ["x"]):
            done = await scheduler.run("echo a; echo b >&2", "raw", on_stdout=later, on_stderr=seen.append, outputs=outputs)
            assert sorted(seen) == [b"a\n", b"b\n"] and done.stdout == "a\n"
            seen.clear()

    with_scheduler(work)


def test_timeouts():
    async def work(scheduler):
        for outputs in ([], ["*"]):
            done = await scheduler.run("open('x', 'w'); print('said', flush=True)\nwhile True: pass", timeout_seconds=0.5, outputs=outputs)
            assert done.status == "timeout" and done.stdout == "said\n" and list(done.files) == ["x"] * len(outputs)

    with_scheduler(work)


# --- many -------------------------------------------------------------------------------------------


def test_ten_at_once_in_order():
    async def work(scheduler):
        most = 0

        async def one(n):
            nonlocal most
            done = await scheduler.run(f"import time; time.sleep(0.0{9 - n}); print({n})", outputs=["x"] if n % 2 else ())
            most = max(most, scheduler.stats()["running"] + 1)
            return done.stdout

        assert await asyncio.gather(*map(one, range(10))) == [f"{n}\n" for n in range(10)]
        assert most <= 3 and scheduler.stats() == {"running": 0, "waiting": 0, "sessions": 0}

    with_scheduler(work, max_concurrency=3)


def test_the_queue_is_bounded():
    async def work(scheduler):
        seen, said = asks(scheduler, b"on")
        first = asyncio.ensure_future(scheduler.run("echo on; sleep 60", "raw", on_stdout=said))
        await seen.wait()
        second = asyncio.ensure_future(scheduler.run("echo 2", "raw"))
        while scheduler.stats()["waiting"] < 1:
            await asyncio.sleep(0)
        with pytest.raises(pycordon.QueueFullError, match="no room"):
            await scheduler.run("echo 3", "raw")
        first.cancel()
        assert (await second).stdout == "2\n"
        with pytest.raises(asyncio.CancelledError):
            await first

    with_scheduler(work, max_concurrency=1, max_queue=1)


@pytest.mark.parametrize("outputs", [[], ["x"]])
def test_cancelling_leaves_nothing_behind(outputs, left):
    word = f"{os.getpid()}.0777"

    async def work(scheduler):
        code = f"setsid sleep {word} & sleep {word}"
        task = asyncio.ensure_future(scheduler.run(code, "raw", outputs=outputs))
        while len(processes_with(f"sleep\0{word}")) < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert processes_with(word) == [] and left() == []
        waiting = [asyncio.ensure_future(scheduler.run("echo", "raw", outputs=outputs)) for _ in range(5)]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert scheduler.stats() == {"running": 0, "waiting": 0, "sessions": 0}
        assert (await scheduler.run("echo on", "raw")).ok

    with_scheduler(work, max_concurrency=2)


def test_closing_ends_what_runs_and_what_waits(left):
    async def work():
        scheduler = await Scheduler(max_concurrency=2).start()
        seen = [asks(scheduler, b"on") for _ in range(2)]
        running = [
            asyncio.ensure_future(scheduler.run("echo on; sleep 60", "raw", on_stdout=said, outputs=outputs))
            for (_, said), outputs in zip(seen, ([], ["x"]))
        ]
        for one, _ in seen:
            await one.wait()
        session = scheduler.session()
        waiting = [asyncio.ensure_future(scheduler.run("echo", "raw")) for _ in range(3)]
        await asyncio.sleep(0)
        await scheduler.close()
        results = await asyncio.gather(*running, *waiting, return_exceptions=True)
        assert [type(one) for one in results] == [pycordon.ClosedError] * 5
        assert left() == [] and scheduler.closed
        await scheduler.close()
        for call in (scheduler.run("1"), session.start(), scheduler.start()):
            with pytest.raises(pycordon.ClosedError):
                await call

    run(work())


# --- what a run may not -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {"timeout_seconds": 21}, {"limits_wall": "1h"}, {"max_execution_seconds": 21}, {"limits_memory": "257M"},
        {"limits_memory": math.inf}, {"limits_grace": "1h"}, {"max_memory_mb": 1000}, {"limits_procs": 257}, {"limits_disk": "1G"},
        {"limits_open_files": 4096}, {"limits_output": "1G"}, {"net_allow": ["example.com"]}, {"net_publish": [8000]},
        {"network_enabled": True}, {"fs_read": ["/root"]}, {"fs_write": ["/var/tmp"]}, {"writable_paths": ["/var/tmp"]},
        {"env_pass": ["HOME"]}, {"fs_protect": False}, {"fs_workspace": "."}, {"isolation": "landlock"},
        {"net_max": "1G", "net_allow": ["127.0.0.1"]}, {"best_effort": ["memory"]}, {"preset": "agent"}, {"limits": {"memory": "1G"}}, {"net": {"allow": ["example.com"]}},
    ],
    ids=str,
)  # fmt: skip
def test_a_run_cannot_have_more(more):
    async def work(scheduler):
        with pytest.raises(pycordon.PolicyError):
            await scheduler.run("print('ran')", **more)
        if "timeout_seconds" not in more:
            with pytest.raises(pycordon.PolicyError):
                scheduler.session(**more)

    with_scheduler(work, max_execution_seconds=20)


def test_a_run_can_have_less():
    async def work(scheduler):
        done = await scheduler.run("x = bytearray(100 << 20)", limits_memory="50M", limits_procs=8, timeout_seconds=15)
        assert done.kind == "memory" and done.policy.get("limits_memory") == "50M"
        assert (await scheduler.run("print(len(bytearray(100 << 20)))")).ok

    with_scheduler(work, max_execution_seconds=20)


def test_standard_input_is_no_descriptor():
    async def work(scheduler):
        reader, writer = os.pipe()
        os.write(writer, b"of this process")
        os.close(writer)
        for value in (reader, True, open(reader, "rb")):
            with pytest.raises(pycordon.UsageError):
                await scheduler.run("cat", "raw", stdin=value)

    with_scheduler(work)


def test_sets_of_packages_that_nobody_uses_are_let_go(index, monkeypatch):
    monkeypatch.setattr(pycordon._scheduler_kit, "KITS_MAX", 2)
    for name in ("one", "two", "three"):
        index.add(wheel(name))

    async def work(scheduler):
        async with scheduler.session(packages=["one"]) as session:
            for name in ("two", "three", "two"):
                assert (await scheduler.run(f"import {name}", packages=[name])).ok
                assert len(scheduler._kits._kits) <= 3
            assert (await session.run("import one; one.VERSION")).text == "'1.0'"

    with_scheduler(work)


def test_a_set_of_packages_is_made_once_while_others_are_let_go(index, monkeypatch):
    monkeypatch.setattr(pycordon._scheduler_kit, "KITS_MAX", 2)
    made, build = [], pycordon._scheduler_kit.Kits._build
    monkeypatch.setattr(
        pycordon._scheduler_kit.Kits, "_build", lambda self, words: (made.append(words), build(self, words))[1]
    )
    for name in ("one", "two"):
        index.add(wheel(name))

    async def work(scheduler):
        assert (await scheduler.run("import one", packages=["one"])).ok
        done = await asyncio.gather(*(scheduler.run("import two", packages=["two"]) for _ in range(3)))
        assert [one.ok for one in done] == [True] * 3
        assert made == [(), ("one",), ("two",)]

    with_scheduler(work)


def test_sets_of_packages_that_wait_are_bounded(index, monkeypatch):
    """Each has sandboxes that wait for it, and a run could ask for another set than all others."""
    monkeypatch.setattr(pycordon._scheduler_kit, "KITS_MAX", 2)
    there, build = [], pycordon._scheduler_kit.Kits._build
    monkeypatch.setattr(
        pycordon._scheduler_kit.Kits, "_build", lambda self, words: (there.append(len(self._kits)), build(self, words))[1]
    )
    names = ("one", "two", "three")
    for name in names:
        index.add(wheel(name))

    async def work(scheduler):
        first = [scheduler.run(f"import {name}", packages=[name]) for name in names]
        again = [scheduler.run(f"import {name}", packages=[name]) for name in names]
        assert all(one.ok for one in await asyncio.gather(*first, *again))
        assert max(there) <= 2 and len(scheduler._kits._kits) <= 2 and not scheduler._kits._users
        waiting = [asyncio.ensure_future(scheduler.run(f"import {name}", packages=[name])) for name in names]
        await asyncio.sleep(0)
        await scheduler.close()
        for error in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(error, pycordon.ClosedError)

    with_scheduler(work, max_concurrency=1, max_sessions=0)


@pytest.mark.parametrize("more", [{"policy": {}}, {"timeout": 9}, {"allow_overrides": True}, {"workdir": "/"}])
def test_no_other_arguments(more):
    async def work(scheduler):
        with pytest.raises((TypeError, pycordon.CordonError)):
            await scheduler.run("1", **more)

    with_scheduler(work)


@pytest.mark.parametrize(
    "settings",
    [{"workdir": "."}, {"persist": True}, {"keep": True}, {"max_concurrency": 0}, {"max_queue": -1}, {"nonsense": 1},
     {"session_seconds": "x"}, {"session_seconds": math.inf}, {"max_file_bytes": None}],
    ids=str,
)
def test_settings_that_make_no_sense(settings):
    with pytest.raises((pycordon.CordonError, TypeError)):
        Scheduler(**settings)


HOSTILE = {
    "forges a result": "print('ScheduledResult(kind=\"exited\", returncode=0)'); import os; os.write(1, b'{\"kind\": \"exited\"}\\n'); os._exit(9)",
    "kills": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "kills everything": "import os, signal; os.kill(-1, signal.SIGKILL); os._exit(9)",
    "fills the output": "import os\nwhile True: os.write(1, b'x' * 65536)",
    "fills the disk": "f = open('x', 'wb')\nwhile True: f.write(bytes(1 << 20))",
    "fills memory": "x = []\nwhile True: x.append(bytearray(1 << 20))",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_code(what):
    async def work(scheduler):
        bad = asyncio.ensure_future(scheduler.run(HOSTILE[what], timeout_seconds=3, outputs=["x"] if "disk" in what else ()))
        good = await scheduler.run("print('fine')")
        done = await bad
        assert not done.ok and good.stdout == "fine\n"
        assert len(done.stdout_bytes) <= 1 << 20 and sum(map(len, done.files.values())) <= 8 << 20

    with_scheduler(work, max_concurrency=2, max_file_bytes=8 << 20, limits_disk="16M")


# --- sessions ---------------------------------------------------------------------------------------


def test_a_session_keeps_its_state(left):
    async def work(scheduler):
        async with scheduler.session(files={"data/n": "20"}, env={"A": "b"}) as session:
            await session.run("n = int(open('data/n').read())")
            seen = []
            done = await session.run("print('said')\nn + 1", on_stdout=seen.append)
            assert (done.text, done.stdout, seen) == ("21", "said\n", [b"said\n"])
            assert (await session.exec("echo $A; cat data/n; echo new > made")).stdout == "b\n20"
            assert (await session.run("open('made').read()")).text == "'new\\n'"
            assert await session.files.read("made") == b"new\n"
            assert (await session.run("while True: pass", timeout_seconds=0.3)).interrupted
            assert (await session.run("n")).text == "20"
            assert scheduler.stats()["sessions"] == 1
            ended = await session.run("import os; os._exit(3)")
            assert ended.ended and (await session.run("1")).restarted
            await session.restart()
        assert session.closed and scheduler.stats()["sessions"] == 0
        with pytest.raises(pycordon.ClosedError):
            await session.run("1")

    with_scheduler(work)
    assert left() == []


def test_put_and_get(place):
    (place / "up").write_bytes(b"\0\xffbytes")

    async def work(scheduler):
        async with scheduler.session("raw") as session:
            assert session.language == "bash"
            await session.put(place / "up", "here")
            await session.run("cp here there; x=1")
            await session.get("there", place / "down")
            assert (await session.run("echo $x")).stdout == "1\n"

    with_scheduler(work)
    assert (place / "down").read_bytes() == b"\0\xffbytes"


def test_sessions_are_bounded_and_end_with_the_scheduler(left):
    async def work():
        async with Scheduler(max_sessions=2, max_concurrency=2) as scheduler:
            one, two = await scheduler.session().start(), await scheduler.session().start()
            with pytest.raises(pycordon.QueueFullError):
                await scheduler.session().start()
            with pytest.raises(pycordon.StateError):
                await one.start()
            await two.close()
            await two.close()
            async with scheduler.session():
                pass
            seen, said = asks(scheduler, b"on")
            running = asyncio.ensure_future(one.run("import time; print('on', flush=True); time.sleep(60)", on_stdout=said))
            await seen.wait()
        done = (await asyncio.gather(running, return_exceptions=True))[0]
        assert isinstance(done, pycordon.ClosedError) or done.ended
        assert one.closed and left() == []
        with pytest.raises(pycordon.QueueFullError):
            async with Scheduler(max_sessions=0) as scheduler:
                await scheduler.session().start()

    run(work())


def test_closing_a_session_that_begins(left):
    async def work(scheduler):
        session, take = scheduler.session(), scheduler._kits.take

        async def take_and_close(words):
            kit = await take(words)
            await session.close()
            return kit

        scheduler._kits.take = take_and_close
        with pytest.raises(pycordon.ClosedError):
            await session.start()
        assert not scheduler._boxes and not scheduler._kits._users and left() == []

    with_scheduler(work)


def test_cancelling_keeps_the_session():
    async def work(scheduler):
        async with scheduler.session() as session:
            await session.run("x = 5")
            seen, said = asks(scheduler, b"on")
            task = asyncio.ensure_future(session.run("print('on', flush=True)\nwhile True: pass", on_stdout=said))
            await seen.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await session.run("x")).text == "5"
            with pytest.raises(pycordon.PolicyError):
                await session.run("1", timeout_seconds=1000)

    with_scheduler(work, max_execution_seconds=20)


def test_a_session_has_less_if_it_says_so():
    async def work(scheduler):
        async with scheduler.session(limits_memory="60M") as session:
            done = await session.run("x = bytearray(100 << 20)")
            assert not done.ok
        async with scheduler.session() as session:
            assert (await session.run("x = bytearray(100 << 20)")).ok

    with_scheduler(work)


# --- packages ---------------------------------------------------------------------------------------


def test_packages_are_installed_once_for_all(index):
    index.add(wheel("one"))
    index.add(wheel("two"))

    async def work(scheduler):
        ticks = []

        async def tick():
            while True:
                ticks.append(1)
                await asyncio.sleep(0.01)

        ticking = asyncio.ensure_future(tick())
        code = "import one; print(one.VERSION)"
        done = await asyncio.gather(
            *(scheduler.run(code, packages=["one==1.0"], outputs=["x"] if n % 2 else ()) for n in range(6))
        )
        ticking.cancel()
        assert [one.stdout for one in done] == ["1.0\n"] * 6 and len(ticks) > 10  # nothing blocked the loop
        asked = len(index.asked)
        assert (await scheduler.run(code, packages=("one==1.0",))).ok and len(index.asked) == asked
        assert "ModuleNotFoundError" in (await scheduler.run("import one")).stderr
        assert (await scheduler.run("import one, two", packages=["two", "one==1.0", "two"])).ok
        async with scheduler.session(packages=["two"]) as session:
            assert (await session.run("import two; two.VERSION")).text == "'1.0'"
            assert (await session.exec("ls")).ok

    with_scheduler(work, max_concurrency=3)


def test_a_package_that_is_not_there(index):
    index.add(wheel("one"))

    async def work(scheduler):
        tries = [scheduler.run("1", packages=["nosuch"]) for _ in range(3)]
        for error in await asyncio.gather(*tries, return_exceptions=True):
            assert isinstance(error, pycordon.CordonError) and "nosuch" in str(error)
        index.add(wheel("nosuch"))
        assert (await scheduler.run("import nosuch", packages=["nosuch"])).ok

    with_scheduler(work)


def test_packages_of_all_runs_and_of_npm(index):
    index.add(wheel("one"))
    index.add_npm(npm_package("left"))

    async def work(scheduler):
        assert (await scheduler.run("import one")).ok
        done = await scheduler.run("console.log(require('left'))", "javascript", packages=["npm:left"])
        assert done.stdout == "left 1.0.0\n", done.stderr
        for words in (
            ["two"], ["one-more"], ["npm:one"], ["@x/one"], ["npm:left-more"], ["onetwo"],
            ["one two"], ["one _two==1.0"], ["npm:left~two"],  # pip's words lose their blanks
        ):  # fmt: skip
            with pytest.raises(pycordon.PolicyError, match="allowed"):
                await scheduler.run("1", packages=words)

    with_scheduler(work, packages=["one"], allowed_packages=["One", "npm:left"], max_memory_mb=512)


@pytest.mark.parametrize(
    "words",
    [
        "one", [5], ["requirements.txt"], ["/etc/hosts.txt"], ["x/package-lock.json"], ["one\n--index-url=http://127.0.0.1"],
        ["-r", "x"], ["--index-url=http://x"], ["one @ http://127.0.0.1/x.whl"], ["./one"], ["git+https://x/y"], ["npm:left@npm:other@1"],
        ["x" * 300], [f"p{n}" for n in range(200)],
    ],
    ids=lambda words: str(words)[:40],
)  # fmt: skip
def test_words_that_are_no_packages(index, place, words):
    (place / "here" / "requirements.txt").write_text("SECRET-FILE\n")

    async def work(scheduler):
        with pytest.raises(pycordon.CordonError) as caught:
            await scheduler.run("1", packages=words)
        assert "SECRET" not in str(caught.value)

    with_scheduler(work)
    assert index.asked == []


def test_closing_stops_an_installation(index):
    """Its program has to end, too: an installer that nobody waits for must not hold up the end of a program."""
    index.add(wheel("one"))

    async def work():
        scheduler = await Scheduler().start()
        task = asyncio.ensure_future(scheduler.run("1", packages=["one"]))
        await asyncio.sleep(0)
        await scheduler.close()
        (error,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(error, pycordon.ClosedError)

    run(work())
    until(lambda: not list(pathlib.Path(os.environ["XDG_CACHE_HOME"]).rglob(".new-*")), "an installation goes on")


def test_warm_programs():
    async def work(scheduler):
        look = "import os, sys\nprint('memfd' in os.readlink('/proc/self/exe'), 'xml.dom' in sys.modules)\n"
        for _ in range(3):
            assert (await scheduler.run(look)).stdout == "True True\n"
        result = await scheduler.run(look + "print(open('f').read())", files={"f": "x"})
        assert result.stdout == "True True\nx\n"

    with_scheduler(work, preload=["xml.dom"], parked=1)
