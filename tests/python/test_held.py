# SPDX-License-Identifier: Apache-2.0
"""Programs that start in an interpreter which waits for them (warm=, fresh_aslr=): each is used once, by a run
that could have started it, and its time begins with its program."""

import asyncio
import os
import shutil
import threading
import time

import pytest

import pycordon
from pycordon import _cordon, _stock
from pylib import until

with_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")


def ready(pool, count=1):
    held = pool._engine.held
    until(lambda: len(held) >= count, "none waits")


def warm(pool, code, language="bash", **arguments):
    """The result, and whether it came from one that waited."""
    ready(pool)
    held, taken = pool._engine.held, []
    begin = type(held).begin
    held.begin = lambda args: taken.append(begin(held, args)) or taken[-1]
    try:
        result = pool.run_code(code, language, **arguments)
    finally:
        del held.begin
    return result, any(one is not None for one in taken)


@pytest.fixture(scope="module")
def pool():
    with pycordon.Pool(warm={"bash": 2}, parked=1, env={"MINE": "kept"}) as made:
        assert made.warm_reason is None
        yield made


def test_it_is_warm(pool):
    assert pool.run_code("echo $MINE", "bash").stdout == "kept\n"
    for _ in range(5):
        result, was_warm = warm(pool, "echo $MINE; cat; exit 3", stdin="in")
        assert was_warm and (result.stdout, result.returncode) == ("kept\nin", 3)
        assert result.setup_ms == 0 and 0 < result.duration_ms < 5000


@with_node
def test_javascript():
    with pycordon.Pool(warm={"js": 1}, parked=1, limits_memory="1G") as pool:
        result, was_warm = warm(pool, "console.log(process.argv.length, process.env.LD_PRELOAD)", "node")
        assert was_warm and result.stdout == "2 undefined\n"


def test_each_is_used_once(pool):
    look = "ls -A /tmp ~; echo ${left-none}; left=1; touch /tmp/left ~/left; (setsid sleep 60 &) >/dev/null 2>&1"
    first, was_warm = warm(pool, look)
    assert was_warm
    for _ in range(4):
        again, was_warm = warm(pool, look)
        assert was_warm and again.stdout == first.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        {"args": ["one"]}, {"env": {"MORE": "1"}}, {"cwd": "/tmp"}, {"tty": True}, {"merge": True}, {"files": {"f": "x"}},
        {"filename": "other.sh"}, {"limits_procs": 20}, {"fs_deny": ["/usr/share"]}, {"max_output": 1000},
        {"orphans": "keep"}, {"on_stdout": lambda data: None}, {"policy": {"limits.open_files": 100}},
    ],
    ids=lambda arguments: next(iter(arguments)),
)  # fmt: skip
def test_what_does_not_fit_starts_cold(pool, arguments):
    result, was_warm = warm(pool, "echo $MINE $1 $MORE; pwd; ls /usr/share 2>&1", **arguments)
    assert not was_warm and "kept" in result.stdout
    if "fs_deny" in arguments:
        assert "doc" not in result.stdout.split()
    elif "on_stdout" not in arguments:
        assert "doc" in result.stdout.split()


def test_a_descriptor_as_input_starts_cold(pool):
    reader, writer = os.pipe()
    os.write(writer, b"typed")
    os.close(writer)
    result, was_warm = warm(pool, "cat", stdin=reader)
    os.close(reader)
    assert not was_warm and result.stdout == "typed"


def test_much_input_and_output(pool):
    data = os.urandom(1 << 20).hex()
    result, was_warm = warm(pool, "wc -c; head -c 3000000 /dev/zero", stdin=data)
    assert was_warm and result.stdout.startswith(f"{len(data)}\n") and result.truncated.stdout


def test_time_begins_with_the_program():
    """Neither the time that it waited counts, nor is its end forgotten."""
    with pycordon.Pool(warm={"bash": 1}, parked=1, limits_wall="400ms") as pool:
        ready(pool)
        time.sleep(0.5)
        assert warm(pool, "echo $SECONDS")[0].stdout == "0\n"
        result, was_warm = warm(pool, "sleep 30")
        assert was_warm and result.kind == "timeout" and 350 < result.duration_ms < 20_000
        result, was_warm = warm(pool, "sleep 30", timeout=0.1)
        assert was_warm and result.kind == "timeout" and 80 < result.duration_ms < 20_000


def test_a_program_with_a_time_of_its_own_has_no_other(pool):
    result, was_warm = warm(pool, "sleep 0.1; echo on", timeout=20)
    assert was_warm and result.stdout == "on\n"


def test_one_that_was_killed_is_not_used(pool):
    ready(pool, 2)
    for _, held in list(pool._engine.held._waiting["bash"]):
        held.started.run.cancel()
    assert pool.run_code("echo $MINE", "bash").stdout == "kept\n"


def test_one_that_ends_when_it_is_taken(pool, monkeypatch):
    """Nothing has run in it: another one takes its place."""
    ready(pool, 2)
    (_, held), *_ = pool._engine.held._waiting["bash"]
    monkeypatch.setattr(type(held), "is_as_new", lambda self: True)
    held.started.run.cancel()
    held.started.run.wait()
    result, was_warm = warm(pool, "echo $MINE")
    assert was_warm and result.stdout == "kept\n"


def test_a_changed_caller_gets_a_new_one(pool):
    before = os.umask(0o22)
    try:
        ready(pool, 2)
        os.umask(0o77)
        result, was_warm = warm(pool, "umask")
        assert not was_warm and result.stdout == "0077\n"
    finally:
        os.umask(before)
    assert pool.run_code("umask", "bash").stdout == f"{before:04o}\n"


def test_a_changed_environment_gets_a_new_one(pool, monkeypatch):
    ready(pool, 2)
    monkeypatch.setenv("LC_NUMERIC", "POSIX")
    result, was_warm = warm(pool, "echo $LC_NUMERIC")
    assert not was_warm and result.stdout == "POSIX\n"


def test_a_changed_host_gets_a_new_one(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "f").write_text("old\n")
    os.chmod(tmp_path, 0o755)
    with pycordon.Pool(warm={"bash": 1}, parked=1, fs_read=[str(tmp_path / "data")]) as pool:
        code = f"cat {tmp_path}/data/f"
        result, was_warm = warm(pool, code)
        assert was_warm and result.stdout == "old\n"
        ready(pool)
        (tmp_path / "data").rename(tmp_path / "other")
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "f").write_text("new\n")
        result, was_warm = warm(pool, code)
        assert not was_warm and result.stdout == "new\n"


def test_a_changed_home_gets_a_new_one(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name / "data").mkdir(parents=True)
        (tmp_path / name / "data" / "f").write_text(f"{name}\n")
    monkeypatch.setenv("HOME", str(tmp_path / "a"))
    with pycordon.Pool(warm={"bash": 1}, parked=1, fs_read=["~/data"]) as pool:
        ready(pool)
        monkeypatch.setenv("HOME", str(tmp_path / "b"))
        result, was_warm = warm(pool, "cat ~/data/f")
        assert not was_warm and result.stdout == "b\n"


def test_what_a_pattern_hides_is_settled_when_a_run_starts(tmp_path):
    os.chmod(tmp_path, 0o755)
    with pycordon.Pool(warm={"bash": 1}, parked=1, fs_read=[str(tmp_path)], fs_deny=["*.pem"]) as pool:
        until(lambda: pool.warm_reason is not None, "no reason is given")
        assert "when a run starts" in pool.warm_reason
        (tmp_path / "late.pem").write_text("SECRET")
        assert "SECRET" not in pool.run_code(f"cat {tmp_path}/late.pem", "bash").stdout


def test_old_ones_are_not_used(pool, monkeypatch):
    monkeypatch.setattr(_stock, "AGE_SECONDS", 0.0)
    result, was_warm = warm(pool, "echo $MINE")
    assert not was_warm and result.stdout == "kept\n"


def test_what_belongs_to_one_policy_is_not_in_another():
    """A canary: what one pool's programs are given is nowhere in those of another."""
    canary = os.urandom(12).hex()
    look = "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c 'CANARY[_]'; echo ${CANARY-none}"
    with pycordon.Pool(warm={"bash": 1}, parked=1, env={"CANARY": "CANARY_" + canary}) as one:
        with pycordon.Pool(warm={"bash": 1}, parked=1) as other:
            assert warm(one, look)[0].stdout.split() != ["0", "none"]  # the control
            result, was_warm = warm(other, look)
            assert was_warm and result.stdout.split() == ["0", "none"]


def test_threads_and_map(pool):
    programs = [pycordon.Program(code=f"echo {i}", language="bash") for i in range(20)]
    assert [graded.result.stdout for graded in pool.map(programs)] == [f"{i}\n" for i in range(20)]
    got = []
    threads = [threading.Thread(target=lambda i=i: got.append(pool.run_code(f"echo {i}", "bash").stdout)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(f"{i}\n" for i in range(8))


def test_asyncio():
    async def main():
        async with pycordon.AsyncPool(warm={"bash": 1}, parked=1) as pool:
            ready(pool)
            return (await pool.run_code("echo $((6 * 7))", "bash")).stdout

    assert asyncio.run(main()) == "42\n"


def test_a_sandbox_and_its_end():
    with pycordon.Sandbox(persist=False, warm={"bash": 2}) as box:
        assert box.run_code("echo 1", "bash").stdout == "1\n"
        ready(box, 2)
        assert warm(box, "echo 2")[1]
        ready(box, 2)
        waiting = [held.started.run for _, held in box._engine.held._waiting["bash"]]
        assert len(waiting) == 2 and not any(run.done for run in waiting)
    for run in waiting:
        with pytest.raises(_cordon.Error, match="closed"):
            run.fileno()


@pytest.mark.parametrize(
    "settings, word",
    [
        ({"warm": {"bash": 1}}, "persist"), ({"warm": {"cobol": 1}, "persist": False}, "cobol"),
        ({"warm": {"bash": 0}, "persist": False}, "between"), ({"warm": "bash", "persist": False}, "mapping"),
        ({"warm": {"bash": 1}, "persist": False, "fs_write": ["/tmp"]}, "fs.write"),
        ({"fresh_aslr": True, "persist": False}, "preload"), ({"fresh_aslr": 1, "persist": False, "preload": ()}, "True"),
        ({"warm": {"python": 1}, "persist": False}, "preload="), ({"warm": {"js": 1, "node": 2}, "persist": False}, "two names"),
    ],
)  # fmt: skip
def test_what_cannot_be(settings, word):
    with pytest.raises(pycordon.UsageError, match=word):
        pycordon.Sandbox(**settings)


def test_why_they_start_cold():
    with pycordon.Pool(warm={"bash": 1}, parked=1, env={"BASH_ENV": "/nowhere"}) as pool:
        until(lambda: pool.warm_reason is not None, "no reason is given")
        assert "variable" in pool.warm_reason
        assert pool.run_code("echo 1", "bash").stdout == "1\n"


# Where objects, the C library and the stack lie, the bytes that become the stack canary, the hash seed.
LAYOUT = """
import ctypes, json, sys
libc = ctypes.CDLL(None)
libc.getauxval.restype = ctypes.c_ulong
print(hex(id(sys.modules)), hex(ctypes.cast(libc.getpid, ctypes.c_void_p).value),
    ctypes.string_at(libc.getauxval(25), 16).hex(), hash("x"), "xml.dom" in sys.modules)
"""


def test_fresh_aslr():
    """No two programs share a layout. Without it they do: those of one image."""
    with pycordon.Pool(preload=("xml.dom",), parked=1) as shared, \
            pycordon.Pool(preload=("xml.dom",), fresh_aslr=True, parked=2) as pool:  # fmt: skip
        image = [shared.run_code(LAYOUT).stdout.split() for _ in range(10)]
        assert shared.warm_reason is None
        fresh = [warm(pool, LAYOUT, "python") for _ in range(10)]
        assert all(was_warm for _, was_warm in fresh)
    assert [len(set(column)) for column in zip(*image)] == [1, 1, 1, 1, 1]
    found = [result.stdout.split() for result, _ in fresh]
    assert [len(set(column)) for column in zip(*found)] == [10, 10, 10, 10, 1]
    assert found[0][4] == "True"  # what is imported ahead


def test_fresh_aslr_without_one_that_waits():
    """A cold one, never an image."""
    with pycordon.Pool(preload=(), fresh_aslr=True, parked=1) as pool:
        code = "import os, sys\nprint('memfd' in os.readlink('/proc/self/exe'), 'json' in sys.modules, sys.argv)"
        assert pool.run_code(code, args=["a"]).stdout.startswith("False False")
        result, was_warm = warm(pool, code, "python")
        assert was_warm and result.stdout == "False True ['/run/cordon/main.py']\n"
