# SPDX-License-Identifier: Apache-2.0
"""Small programs as people write them for E2B, run on ours. Each call that they make is held against the
signature of E2B's own method first, so they would be valid there, too."""

import asyncio
import inspect

import e2b_code_interpreter as theirs
import pytest
from e2b.sandbox_async.commands.command import Commands as AsyncCommands
from e2b.sandbox_async.filesystem.filesystem import Filesystem as AsyncFilesystem
from e2b.sandbox_sync.commands.command import Commands
from e2b.sandbox_sync.filesystem.filesystem import Filesystem
from pycordon import e2b as ours

PARTS = {
    theirs.Sandbox: {"commands": Commands, "files": Filesystem},
    theirs.AsyncSandbox: {"commands": AsyncCommands, "files": AsyncFilesystem},
}


class Checked:
    """Ours, if E2B's has the same and would take the same arguments."""

    def __init__(self, mine, real):
        self._mine = mine
        self._real = real

    def __getattr__(self, name):
        real = getattr(self._real, name)
        mine = getattr(self._mine, name)
        if name in PARTS.get(self._real, {}):
            return Checked(mine, PARTS[self._real][name])
        if not callable(mine):
            return mine

        def call(*args, **kwargs):
            on_class = inspect.isclass(self._mine)
            bound = [] if on_class and inspect.ismethod(real) else [object()] if not on_class else []
            inspect.signature(real).bind(*bound, *args, **kwargs)
            return mine(*args, **kwargs)

        return call


def create(**options):
    return Checked(Checked(ours.Sandbox, theirs.Sandbox).create(**options), theirs.Sandbox)


def test_data_analysis():
    """Upload, compute, look at the results, download."""
    sandbox = create(template="code-interpreter-v1", timeout=120, metadata={"user": "1"}, envs={"LEVEL": "3"})
    try:
        sandbox.files.write("/home/user/data.csv", "name,n\na,1\nb,2\nc,3\n")
        sandbox.run_code("import csv\nrows = list(csv.DictReader(open('data.csv')))")
        execution = sandbox.run_code("total = sum(int(r['n']) for r in rows)\nprint('rows', len(rows))\ntotal")
        assert execution.text == "6" and execution.logs.stdout == ["rows 3\n"] and execution.error is None
        execution = sandbox.run_code("import os\nopen('out.txt', 'w').write(os.environ['LEVEL'] * total)", timeout=30)
        assert sandbox.files.read("/home/user/out.txt") == "333333"
        assert [entry.name for entry in sandbox.files.list("/home/user")] == ["data.csv", "out.txt"]
        execution = sandbox.run_code("rows[99]")
        assert execution.error.name == "IndexError" and "rows[99]" in execution.error.traceback
    finally:
        sandbox.kill()


def test_a_build_with_a_failing_command():
    sandbox = create()
    sandbox.files.write_files([{"path": "app/run.sh", "data": "echo building; exit $1"}, {"path": "app/VERSION", "data": b"1.2"}])
    lines = []
    result = sandbox.commands.run("sh run.sh 0 && cat VERSION", cwd="/home/user/app", on_stdout=lambda data: lines.append(data))
    assert result.exit_code == 0 and result.stdout == "building\n1.2" == "".join(lines)
    with pytest.raises(ours.CommandExitException) as caught:
        sandbox.commands.run("sh run.sh 9", cwd="/home/user/app", timeout=20)
    assert caught.value.exit_code == 9 and caught.value.stdout == "building\n"
    with pytest.raises(ours.NotFoundException):
        sandbox.files.read("/home/user/app/no-such-file")
    with pytest.raises(ours.TimeoutException):
        sandbox.commands.run("sleep 60", timeout=0.3)
    sandbox.kill()


def test_a_background_process():
    sandbox = create(timeout=60)
    command = sandbox.commands.run("while read line; do echo \"> $line\"; done", background=True, stdin=True)
    sandbox.commands.send_stdin(command.pid, "hello\n")
    for stdout, stderr, pty in command:
        assert (stdout, stderr, pty) == ("> hello\n", None, None)
        break
    assert [process.pid for process in sandbox.commands.list()] == [command.pid]
    assert sandbox.commands.kill(command.pid) is True
    with pytest.raises(ours.CommandExitException):
        command.wait()
    sandbox.kill()


def test_reconnecting_and_contexts():
    sandbox = create(timeout=100)
    context = sandbox.create_code_context(cwd="/tmp", language="python")
    sandbox.run_code("x = 1", context=context)
    again = Checked(ours.Sandbox.connect(sandbox.sandbox_id), theirs.Sandbox)
    assert again.run_code("x", context=context).text == "1" and again.get_info().sandbox_id == sandbox.sandbox_id
    again.set_timeout(300)
    assert sandbox.is_running() and again.kill() and not sandbox.is_running()


def test_an_asynchronous_agent():
    async def main():
        made = await Checked(ours.AsyncSandbox, theirs.AsyncSandbox).create(timeout=60)
        sandbox = Checked(made, theirs.AsyncSandbox)
        seen = []

        async def note(message):
            seen.append(str(message))

        await sandbox.run_code("x = 2\nprint('said')", on_stdout=note)
        results = await asyncio.gather(*(sandbox.commands.run(f"echo {n}") for n in range(5)))
        assert [one.stdout for one in results] == [f"{n}\n" for n in range(5)] and seen == ["said\n"]
        await sandbox.files.write("note.txt", "written")
        assert await sandbox.files.read("note.txt") == "written" and await sandbox.files.exists("/home/user/note.txt")
        handle = await sandbox.commands.run("echo on; sleep 60", background=True, on_stdout=note)
        while len(seen) < 2:
            await asyncio.sleep(0.01)
        assert await handle.kill() is True
        with pytest.raises(ours.CommandExitException):
            await handle.wait()
        assert (await sandbox.run_code("x * 21")).text == "42"
        await sandbox.kill()
        assert not await sandbox.is_running()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_hostile_code(hostile, everything, work):
    import subprocess
    import sys

    outside = subprocess.run([sys.executable, "-c", hostile.python], capture_output=True, text=True)
    assert hostile.done(outside.stdout) == everything
    with ours.Sandbox.create() as sandbox:
        assert hostile.done("".join(sandbox.run_code(hostile.python).logs.stdout)) == set()
        assert hostile.done(sandbox.commands.run(hostile.shell).stdout) == set()
