# SPDX-License-Identifier: Apache-2.0
"""Kernels in a sandbox."""

import asyncio
import base64
import json
import logging
import os
import socket
import subprocess
import sys
import time

import nbclient.exceptions
import pytest
import zmq
from jupyter_client import AsyncKernelManager

import pycordon
from pycordon.adapters.jupyter import CordonProvisioner

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def text_of(outputs):
    return "".join(output.get("text", "") for output in outputs)


def is_alive(text):
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                if file.read().replace(b"\0", b" ").strip() == text.encode():
                    return True
        except OSError:
            pass
    return False


def greets(port):
    """Whether a kernel answers there: the first byte of what its sockets say."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            return connection.recv(1) == b"\xff"
    except OSError:
        return False


async def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.02)


# --- the reason for it ------------------------------------------------------------------------------


def test_hostile_code(hostile, everything, sandboxed, execute):
    assert hostile.done(text_of(execute("python3", hostile.python)[0])) == everything
    name = sandboxed()
    assert hostile.done(text_of(execute(name, hostile.python)[0])) == set()


async def test_only_the_copy_of_the_connection_file_is_there(sandboxed, kernel, own_directories):
    """The host's directory is not: nothing can be put into it, or be filled."""
    runtime = own_directories / "runtime"
    look = f"import os\nprint(os.path.exists({str(runtime)!r}))"
    async with kernel("python3") as plain:
        assert (await plain.run(look))[0] == "True\n"
        file = plain.manager.connection_file
        print_it = f"print(open({file!r}).read())"
        assert plain.manager.session.key.decode() in (await plain.run(print_it))[0]
        async with kernel(sandboxed()) as inside:
            assert (await inside.run(look))[0] == "False\n"
            assert (await inside.run(print_it))[1] == "FileNotFoundError"  # another kernel's
            before = sorted(os.listdir(runtime))
            mine = inside.manager.connection_file
            content = open(mine).read()
            spoil = (
                f"import os\nos.makedirs({str(runtime)!r})\nopen({mine!r}, 'w').write('x' * 100_000)\n"
                "open('/tmp/cordon-kernel.json', 'w').write('{}')\nprint('done')"
            )
            assert (await inside.run(spoil))[0].endswith("done\n")
            assert sorted(os.listdir(runtime)) == before and open(mine).read() == content


async def test_disk_and_memory_have_limits(sandboxed, kernel, caplog):
    fill = "with open('/tmp/x', 'wb') as file:\n  for _ in range(400): file.write(b'x' * (1 << 20))"
    async with kernel(sandboxed(limits_disk="64M", limits_file_size="32M")) as inside:
        assert (await inside.run(fill))[1] == "OSError"
        inside.client.execute("parts = []\nwhile True: parts.append(bytearray(b'x' * (16 << 20)))")
        with caplog.at_level(logging.WARNING):
            while await inside.manager.is_alive():
                await asyncio.sleep(0.05)
    assert "emory" in caplog.text


async def test_other_users_of_the_machine_hear_nothing(sandboxed, kernel):
    """They can connect to 127.0.0.1. A kernel that is not encrypted says everything to anybody."""

    async def overheard(name):
        context = zmq.Context()
        try:
            async with kernel(name) as inside:
                ear = context.socket(zmq.SUB)
                ear.linger = 0
                ear.subscribe(b"")
                ear.connect(f"tcp://127.0.0.1:{inside.manager.iopub_port}")
                heard = b""
                for _ in range(20):
                    await inside.run("print('secret' + 'word')")
                    while ear.poll(50):
                        heard += b"".join(ear.recv_multipart())
                    if b"secretword" in heard:
                        break
                ear.close()
                return heard
        finally:
            context.term()

    assert b"secretword" in await overheard("python3")
    assert await overheard(sandboxed()) == b""


def test_variables_of_the_server_stay_there(sandboxed, execute, own_directories, monkeypatch):
    name = sandboxed(env={"GIVEN": "1"})
    file = own_directories / "data" / "kernels" / name / "kernel.json"
    spec = json.loads(file.read_text())
    spec["env"] = {"OF_THE_SPEC": "${CORDON_TEST_HOME}/x"}
    file.write_text(json.dumps(spec))
    monkeypatch.setenv("CORDON_TEST_HOME", "/home/me")
    monkeypatch.setenv("CORDON_TEST_TOKEN", "secret")
    code = "import os\nprint([os.environ.get(n) for n in ('GIVEN', 'OF_THE_SPEC', 'CORDON_TEST_TOKEN')])"
    assert text_of(execute(name, code)[0]) == "['1', '/home/me/x', None]\n"


# --- a notebook ---------------------------------------------------------------------------------------


def test_a_notebook(sandboxed, execute):
    _, value, image, printed, shell = execute(
        sandboxed(),
        "x = 20",
        "x + 1",
        f"from IPython.display import Image\nImage(data={PIXEL!r})",
        "import sys\nprint('out')\nprint('err', file=sys.stderr)",
        "!echo of a program",
    )
    assert value[0]["data"]["text/plain"] == "21"
    assert base64.b64decode(image[0]["data"]["image/png"]) == PIXEL
    assert [(output["name"], output["text"]) for output in printed] == [("stdout", "out\n"), ("stderr", "err\n")]
    assert text_of(shell).split() == ["of", "a", "program"]


def test_the_directory_of_the_notebook_only_where_asked(sandboxed, execute, tmp_path):
    (tmp_path / "numbers.txt").write_text("1 2")
    read = "import os\nprint(os.listdir('.'))\nopen('made.txt', 'w').write('x')"
    assert text_of(execute(sandboxed(), read)[0]) == "[]\n" and not (tmp_path / "made.txt").exists()
    assert "numbers.txt" in text_of(execute(sandboxed(workdir="."), read)[0])
    assert (tmp_path / "made.txt").read_text() == "x"


async def test_interrupts(sandboxed, kernel):
    async with kernel(sandboxed()) as inside:
        await inside.run("x = 1")
        # Otherwise a kernel refuses for a moment what comes after an error.
        inside.client.execute("print('begun', flush=True)\nwhile True: pass", stop_on_error=False)
        while True:
            message = await inside.client.get_iopub_msg(timeout=60)
            if message["content"].get("text", "").startswith("begun"):
                break
        await inside.manager.interrupt_kernel()
        reply = await inside.client.get_shell_msg(timeout=60)
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        assert await inside.run("x") == ("1", None)


async def test_restarts(sandboxed, kernel):
    """Variables are lost, files are not; what the old one had started is over."""
    async with kernel(sandboxed()) as inside:
        await inside.run("x = 1\nopen('note', 'w').write('kept')\nimport subprocess")
        await inside.run("subprocess.Popen(['setsid', 'sleep', '4713'])")
        await until(lambda: is_alive("sleep 4713"))
        ports = inside.manager.shell_port, inside.manager.iopub_port
        await inside.manager.restart_kernel()
        await inside.client.wait_for_ready(timeout=60)
        assert not is_alive("sleep 4713")
        assert (inside.manager.shell_port, inside.manager.iopub_port) == ports
        assert (await inside.run("x"))[1] == "NameError"
        assert await inside.run("print(open('note').read())") == ("kept\n", None)


async def test_other_ports_after_a_restart(sandboxed, kernel):
    async with kernel(sandboxed()) as inside:
        manager = inside.manager
        before = manager.hb_port
        manager.provisioner.ports_cached = False  # then it takes others
        await manager.restart_kernel(now=True)
        assert manager.hb_port != before
        await until(lambda: greets(manager.hb_port))


@pytest.mark.parametrize("now", [False, True])
async def test_shutdown_ends_everything(sandboxed, kernel, now):
    async with kernel(sandboxed()) as inside:
        await inside.run("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)")
        await inside.run("import subprocess\nsubprocess.Popen(['setsid', 'sleep', '4714'])")
        await until(lambda: is_alive("sleep 4714"))
        sandbox = inside.manager.provisioner._sandbox
        await inside.manager.shutdown_kernel(now=now)
        assert not is_alive("sleep 4714") and sandbox.closed
        assert not await inside.manager.is_alive() and not inside.manager.has_kernel
        assert not os.path.exists(inside.manager.connection_file)


def test_a_kernel_that_dies_is_told(sandboxed, execute, caplog):
    with pytest.raises(nbclient.exceptions.DeadKernelError):
        with caplog.at_level(logging.WARNING):
            execute(sandboxed(), "import os\nos.write(2, b'\\x1b[31mlast words')\nos._exit(3)")
    assert "kernel" in caplog.text and "\x1b" not in caplog.text


async def test_a_kernelspec_with_a_mistake_is_told(sandboxed, own_directories):
    name = sandboxed()
    file = own_directories / "data" / "kernels" / name / "kernel.json"
    file.write_text(file.read_text().replace('"max_memory_mb": 512', '"max_memory_mb": "x"'))
    with pytest.raises(pycordon.PolicyError, match="max_memory_mb: a number is needed"):
        await AsyncKernelManager(kernel_name=name).start_kernel()


async def test_time_is_limited_only_by_the_policy(sandboxed, kernel):
    async with kernel(sandboxed(max_execution_seconds=3)) as inside:
        end = time.monotonic() + 30
        while await inside.manager.is_alive():
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
    async with kernel(sandboxed()) as inside:
        process = inside.manager.provisioner.process._process
        assert process._started.job.options["wall_ms"] == -1  # a sandbox's own would be 30 seconds


@pytest.mark.parametrize("options", [{"transport": "ipc"}, {"ip": "0.0.0.0"}])
async def test_other_ways_to_a_kernel_are_refused(sandboxed, options):
    manager = AsyncKernelManager(kernel_name=sandboxed(), **options)
    with pytest.raises(pycordon.UsageError, match="cannot be reached over"):
        await manager.start_kernel()


async def test_without_a_network_of_its_own_there_is_no_kernel(sandboxed):
    manager = AsyncKernelManager(kernel_name=sandboxed(isolation="landlock"))
    with pytest.raises(pycordon.CordonError, match="level namespaces"):
        await manager.start_kernel()


def test_a_server_that_is_killed_takes_its_kernels_along(sandboxed, tmp_path):
    code = (
        "import asyncio\nfrom jupyter_client.manager import start_new_async_kernel\n"
        "async def main():\n"
        f"    manager, client = await start_new_async_kernel(kernel_name={sandboxed()!r})\n"
        "    client.execute(\"import subprocess\\nsubprocess.run(['sleep', '4715'])\")\n"
        "    await asyncio.sleep(3600)\n"
        "asyncio.run(main())\n"
    )
    server = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    try:
        asyncio.run(until(lambda: is_alive("sleep 4715")))
    finally:
        server.kill()
        server.wait()
    asyncio.run(until(lambda: not is_alive("sleep 4715")))


def test_the_entry_point(sandboxed, kernel):
    from importlib.metadata import entry_points

    (found,) = [entry for entry in entry_points(group="jupyter_client.kernel_provisioners") if entry.name == "cordon"]
    assert found.load() is CordonProvisioner


def test_example(run_example, work):
    said = run_example("jupyter_agent.py", cwd=work)
    assert "832040" in said and "No such file" in said
