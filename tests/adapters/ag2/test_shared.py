# SPDX-License-Identifier: Apache-2.0
"""One sandbox for all commands: what they share, what they do not, and its end."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from ag2.tools import SandboxShellTool
from ag2.tools.sandbox.adapter import ShellAdapter

import pycordon
from pycordon.adapters.ag2 import CordonEnvironment, CordonSandbox
from test_sandbox import ask

SERVER = "echo {} > index.html; nohup python3 -m http.server 8123 >log 2>&1 & echo started"
FETCH = """
import time, urllib.request
for _ in range(600):
    try:
        print(urllib.request.urlopen("http://localhost:8123/").read().decode())
        break
    except OSError:
        time.sleep(0.05)
"""


def running(text):
    """Processes of this machine whose command line has that text."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            line = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, UnicodeDecodeError):
            continue
        if entry.isdigit() and int(entry) != os.getpid() and text in line:
            found.append(int(entry))
    return found


async def gone(text):
    for _ in range(400):
        if not running(text):
            return True
        await asyncio.sleep(0.05)
    return False


async def sh(sandbox, command, **options):
    return await sandbox.exec(["sh", "-c", command], **options)


@pytest.fixture
async def shared(work):
    async with CordonSandbox(shared=True, timeout=30) as made:
        yield made


async def test_server_of_one_command_answers_the_next(work):
    for is_shared in (False, True):
        async with CordonSandbox(work / "p", shared=is_shared, timeout=30) as sandbox:
            assert (await sh(sandbox, SERVER.format("served"))).output == "started"
            fetch = FETCH if is_shared else FETCH.replace("600", "3")
            result = await sandbox.exec(["python3", "-c", fetch])
            assert ("served" in result.output) == is_shared


async def test_in_an_agent(work):
    async with CordonEnvironment(shared=True, timeout=30) as environment:
        tools = [SandboxShellTool(environment)]
        await ask(tools, "run_shell_command", command=SERVER.format("to the agent"))
        await environment.sandbox.put_file(Path("fetch.py"), FETCH.encode())
        said = await ask(tools, "run_shell_command", command="python3 fetch.py")
    assert "to the agent" in said


async def test_background_process_goes_with_the_sandbox(work):
    async with CordonSandbox(shared=True) as sandbox:
        await sh(sandbox, "setsid sleep 4911.5 >/dev/null 2>&1 & sleep 4911.6 &")
        assert len(running("sleep 4911.")) >= 2
        look = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '^491[1].'"
        assert (await sh(sandbox, look)).output == "2"
    assert await gone("sleep 4911.")


async def test_killed_host_leaves_nothing(work):
    code = (
        "import asyncio, os\nfrom pycordon.adapters.ag2 import CordonSandbox\n"
        "async def main():\n"
        "    sandbox = CordonSandbox(shared=True)\n"
        "    await sandbox.exec(['sh', '-c', 'setsid sleep 4922.5 >/dev/null 2>&1 &'])\n"
        "    print('ready', flush=True)\n    await asyncio.sleep(600)\n"
        "asyncio.run(main())"
    )
    host = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert host.stdout.readline() == b"ready\n" and running("sleep 4922.5")
    host.send_signal(signal.SIGKILL)
    host.wait()
    host.stdout.close()
    assert await gone("sleep 4922.5")


async def test_another_sandbox_is_out_of_reach(work, tmp_path):
    """What reaches everything in its own sandbox: its processes, server and files."""
    hostile = (
        "for p in /proc/[0-9]*; do [ $p = /proc/$$ ] || kill -9 ${p#/proc/}; done 2>/dev/null; "
        "python3 fetch.py; cat /tmp/mine 2>&1"
    )
    short = FETCH.replace("600", "3").encode()
    async with CordonSandbox(shared=True) as one, CordonSandbox(shared=True) as other:
        await one.put_file(Path("fetch.py"), short)
        await other.put_file(Path("fetch.py"), short)
        await sh(one, SERVER.format("private") + "; echo secret > /tmp/mine; python3 fetch.py")
        said = (await sh(other, hostile)).output
        assert "No such file" in said and "private" not in said and "secret" not in said
        # In the background, where it goes on:
        await sh(other, "(while :; do kill -9 -1; setsid true; done) >/dev/null 2>&1 &")
        assert (await sh(one, "python3 fetch.py; cat /tmp/mine")).output.split() == ["private", "secret"]


async def test_time_limit_is_one_commands(shared):
    await sh(shared, "sleep 4933.5 >/dev/null 2>&1 &")
    result = await shared.exec(["sleep", "60"], timeout=0.3)
    assert result.exit_code == 124 and "timed out" in result.output
    assert running("sleep 4933.5")


async def test_background_output_does_not_wait_for_anybody(shared):
    """More than a pipe holds, with nobody to read it."""
    await sh(shared, "(head -c 3000000 /dev/zero; touch done) &")
    for _ in range(400):
        if (await sh(shared, "test -e done")).exit_code == 0:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it was held up")


async def test_memory_limit_holds_for_all_and_a_new_one_begins(work):
    async with CordonSandbox(work / "p", shared=True, max_memory_mb=96) as sandbox:
        await sh(sandbox, "echo kept > here; sleep 4944.5 >/dev/null 2>&1 &")
        result = await sh(sandbox, "head -c 400M /dev/zero | tail")
        assert result.exit_code == 137 and "memory" in result.output
        assert "every process of this environment ended" in result.output
        assert await gone("sleep 4944.5")
        assert (await sh(sandbox, "cat here")).output == "kept"


async def test_lifetime(work):
    async with CordonSandbox(shared=True, max_execution_seconds=1) as sandbox:
        assert (await sh(sandbox, "sleep 60")).exit_code == 124
        for _ in range(2):
            result = await sandbox.exec(["true"])
            if result.exit_code == 0:  # the command's own time was over a moment earlier
                await asyncio.sleep(1)
        result = await sandbox.exec(["true"])
        assert result.exit_code == 126 and "over" in result.output and "\n" not in result.output


@pytest.mark.parametrize(
    "setting", [{"parked": 1}, {"keep": True}, {"persist": False}, {"preload": "json"}, {"fs_workspace": "/usr"}]
)
def test_what_cannot_be_combined_is_one_line(work, setting):
    with pytest.raises(pycordon.UsageError) as caught:
        CordonSandbox(shared=True, **setting)
    (name,) = setting
    assert f"shared=True cannot be combined with {name}" in str(caught.value) and "\n" not in str(caught.value)


async def test_a_setting_that_is_none(work):
    with pytest.raises(pycordon.PolicyError):
        CordonSandbox(shared=True, no_such_setting=1)


async def test_closed_while_a_command_runs(work):
    sandbox = CordonSandbox(shared=True)
    task = asyncio.ensure_future(sh(sandbox, "sleep 4955.5"))
    while not running("sleep 4955.5"):
        assert not task.done()
        await asyncio.sleep(0.02)
    await sandbox.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await task
    assert await gone("sleep 4955.5")


def test_from_threads_with_loops_of_their_own(work):
    """As AG2's synchronous calls make them. The thread that was first is gone when the last comes."""
    sandbox = CordonSandbox(shared=True, timeout=30)
    got = {}

    def one(i):
        async def run():
            got[i] = await ShellAdapter(sandbox).run(f"echo {i} >> all; sleep 0.2; echo {i}")

        asyncio.run(run())

    for batch in ([0], range(1, 6)):
        threads = [threading.Thread(target=one, args=(i,)) for i in batch]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert got == {i: str(i) for i in range(6)}
    assert asyncio.run(sandbox.exec(["wc", "-l", "all"])).output == "6 all"
    asyncio.run(sandbox.aclose())


def test_nothing_happens_at_construction_and_nothing_is_left(work):
    sandbox = CordonSandbox(work / "a" / "b", shared=True)
    assert not (work / "a").exists()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        asyncio.run(sh(CordonSandbox(shared=True), "sleep 4966.5 >/dev/null 2>&1 &"))
    assert asyncio.run(gone("sleep 4966.5"))
    for _ in range(200):
        if len(os.listdir("/proc/self/fd")) <= before + 2:
            break
        threading.Event().wait(0.05)
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    del sandbox
