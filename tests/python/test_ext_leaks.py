# SPDX-License-Identifier: Apache-2.0
"""Nothing is left behind: descriptors, references, memory, processes."""

import gc
import os
import sys
import weakref

import pytest
from extlib import ENV, fds, finish, policy, resident_kib, script, sh, start

from pycordon import _cordon


@pytest.fixture(scope="module")
def launcher():
    return _cordon.Launcher()


def children():
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return len(file.read().split())


def test_descriptors(launcher):
    sh(launcher, "true")
    before = fds()
    for _ in range(20):
        finish(start(launcher, ["/bin/true"], stdin=b"x" * 100_000))
        start(launcher, ["/bin/sleep", "1000"]).close()
        start(launcher, ["/bin/sleep", "1000"])
        with pytest.raises(_cordon.Error):
            start(launcher, ["/nonexistent"])
        with pytest.raises(ValueError):
            start(launcher, ["/bin/true"], stdin=-5)
    finish(start(launcher, ["/bin/true"]))  # the launcher clears up after the last ones
    assert fds() <= before + 2
    for _ in range(20):
        _cordon.Launcher()
    assert fds() <= before + 2


def test_references(launcher):
    data, made, word, key = os.urandom(20), policy(limits_wall="20s"), "/bin/true" + "", "K" * 9
    env = {key: "v" * 50, **ENV}
    argv = [word, "y" * 50]
    watched = [data, made, argv, argv[1], env, env[key], launcher, _cordon, None, _cordon.Error]
    before = [sys.getrefcount(each) for each in watched]
    for _ in range(10):
        run = launcher.start(made, argv, env=env, stdin=data)
        finish(run)
        run.receipt()
        run.close()
        launcher.plan(made, argv, env=env, stdin=data)
        with pytest.raises(TypeError):
            launcher.start(made, argv, env=env, stdin=data, stdout=[])
        with pytest.raises(_cordon.Error):
            launcher.start(made, ["/nonexistent", *argv], env=env, stdin=data)
    del run
    gc.collect()
    after = [sys.getrefcount(each) for each in watched]
    # Other code counts None and the like, too; a leak would be ten or more.
    assert [a - b for a, b in zip(after, before) if a - b >= 10] == []
    assert after[0] == before[0], "stdin's bytes"


def test_data_lives_until_the_run_is_closed(launcher):
    data = os.urandom(100)
    before = sys.getrefcount(data)
    run = start(launcher, ["/bin/sleep", "1000"], stdin=data)
    assert sys.getrefcount(data) == before + 1
    run.close()
    assert sys.getrefcount(data) == before


def test_progress_is_not_kept(launcher):
    class Progress:
        def __call__(self, files, size):
            return True

    progress = Progress()
    gone = weakref.ref(progress)
    run = start(launcher, ["/bin/true"], workspace_progress=progress)
    del progress
    assert gone() is None
    finish(run)


def test_memory_and_processes_over_two_thousand_runs(launcher):
    payload = b"p" * 50_000

    def turn():
        run = start(launcher, ["/bin/cat"], stdin=payload)
        assert finish(run)["stdout"] == payload
        run.receipt(with_output=True)

    for _ in range(300):
        turn()
    gc.collect()
    before, before_fds, before_children = resident_kib(), fds(), children()
    for _ in range(2000):
        turn()
    gc.collect()
    grown = resident_kib() - before
    # One leaked result a run would be 100 MiB.
    assert grown < 2048, f"{grown} KiB more after 2,000 runs"
    assert fds() <= before_fds + 2
    assert children() <= before_children + 2


def test_memory_of_errors_and_policies():
    made = _cordon.Policy()

    def turn():
        for bad in ("no.such.key", "limits.wall"):
            with pytest.raises(_cordon.Error):
                made.set(bad, "nonsense " * 10)
        made.json('{"fs": {"read": ["/a"]}}')
        other = made.copy()
        other.set("fs.read", "/b" + "x" * 500)
        other.to_json()

    for _ in range(20):
        turn()
    gc.collect()
    before = resident_kib()
    turns = 300
    for _ in range(turns):
        turn()
    gc.collect()
    # /a is added to the list each time: a few bytes; a policy a turn would be much more.
    assert resident_kib() - before < 1024


def test_nothing_is_left_when_the_module_goes():
    """The module can be torn down and made again in one process."""
    out = script(
        """
import gc, importlib
for _ in range(20):
    for name in [n for n in sys.modules if n.split(".")[0] == "pycordon"]:
        del sys.modules[name]
    del _cordon
    gc.collect()
    _cordon = importlib.import_module("pycordon._cordon")
    run = _cordon.Launcher().start(_cordon.Policy(), ["/bin/echo", "1"])
    assert run.wait(20) and run.result()["stdout"] == b"1\\n"
    del run
print("fine")
"""
    )
    assert out == "fine\n"
