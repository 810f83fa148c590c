# SPDX-License-Identifier: Apache-2.0
"""E2B's interface over sandboxes of this machine. tests/adapters/e2b compares it with E2B's own package."""

import asyncio
import base64
import concurrent.futures
import io
import json
import os
import sys
import threading
import time
import urllib.request

import pytest

import pycordon
from pycordon import e2b
from pycordon.e2b import Sandbox
from pylib import ceiling, processes_with, until


@pytest.fixture
def sandbox():
    with Sandbox.create(timeout=300) as made:
        yield made


# --- commands ---------------------------------------------------------------------------------------


def test_commands(sandbox):
    done = sandbox.commands.run("echo out; echo err >&2; pwd; echo $A", envs={"A": "ü b"})
    assert (done.exit_code, done.stdout, done.stderr, done.error) == (0, "out\n/home/user\nü b\n", "err\n", None)
    assert sandbox.commands.run("pwd", cwd="/usr").stdout == "/usr\n"
    sandbox.commands.run("mkdir sub; echo $$ > /tmp/x")
    assert sandbox.commands.run("pwd; cat /tmp/x", cwd="sub").stdout.startswith("/home/user/sub\n")
    with pytest.raises(e2b.CommandExitException) as caught:
        sandbox.commands.run("echo partial; echo why >&2; exit 7")
    error = caught.value
    assert (error.exit_code, error.stdout, error.stderr, error.error) == (7, "partial\n", "why\n", "exit status 7")
    assert isinstance(error, e2b.SandboxException) and isinstance(error, e2b.CommandResult) and "why" in str(error)
    with pytest.raises(e2b.TimeoutException):
        sandbox.commands.run("sleep 60", timeout=0.2)
    with pytest.raises(e2b.InvalidArgumentException, match="no-such"):
        sandbox.commands.run("pwd", cwd="/no-such")
    assert sandbox.commands.run("true", timeout=0).exit_code == 0


def test_callbacks_and_bytes_that_are_no_text(sandbox):
    seen = []
    sandbox.commands.run("printf 'a\\nb\\n'; echo c >&2", on_stdout=seen.append, on_stderr=seen.append)
    assert "".join(seen).replace("c\n", "") == "a\nb\n" and "c\n" in seen
    odd = sandbox.commands.run("printf '\\xff\\xc3'; sleep 0.1; printf '\\xa4'; head -c 300000 /dev/zero")
    assert odd.stdout == "\ufffdä" + "\0" * 300000

    def stop(text):
        raise KeyError(text)

    with pytest.raises(KeyError):
        sandbox.commands.run("echo x; sleep 60", on_stdout=stop)
    until(lambda: sandbox.commands.list() == [], "the command goes on")


def test_background_commands(sandbox):
    handle = sandbox.commands.run("while read x; do echo got $x; done; exit 4", background=True, stdin=True, envs={"A": "1"})
    assert [(one.pid, one.envs, one.args[-1][:10]) for one in sandbox.commands.list()] == [(handle.pid, {"A": "1"}, "while read")]
    other = sandbox.commands.connect(handle.pid)
    handle.send_stdin("one\n")
    assert next(iter(handle)) == ("got one\n", None, None)
    sandbox.commands.send_stdin(handle.pid, b"two\n")
    sandbox.commands.stream_input(handle.pid, ["thr", b"ee\n"])
    sandbox.commands.close_stdin(handle.pid)
    with pytest.raises(e2b.CommandExitException) as caught:
        handle.wait()
    assert caught.value.exit_code == 4 and caught.value.stdout == "got one\ngot two\ngot three\n"
    assert "got two" in "".join(out for out, _, _ in other)
    with pytest.raises(e2b.SandboxException, match="no standard input"):
        handle.send_stdin("x")
    assert handle.kill() is False and sandbox.commands.kill(handle.pid) is False
    with pytest.raises(e2b.NotFoundException):
        sandbox.commands.connect(10_000)


def test_killing_and_disconnecting(sandbox):
    handle = sandbox.commands.run("trap '' TERM; echo on; sleep 60 & sleep 60", background=True, timeout=0)
    assert next(iter(handle))[0] == "on\n"
    handle.disconnect()
    assert list(handle) == []
    with pytest.raises(e2b.InvalidArgumentException):
        handle.wait()
    again = sandbox.commands.connect(handle.pid)
    assert sandbox.commands.kill(handle.pid) is True
    with pytest.raises(e2b.CommandExitException) as caught:
        again.wait()
    assert caught.value.exit_code == 137 and sandbox.commands.list() == []


def test_output_that_nobody_reads_is_bounded(sandbox, monkeypatch):
    monkeypatch.setattr(e2b._running, "OUTPUT_MAX", 1 << 20)
    handle = sandbox.commands.run("head -c 5000000 /dev/zero; echo err >&2; touch done", background=True)
    until(lambda: sandbox.files.exists("done"), "a command waits for a reader")
    done = handle.wait()
    assert len(done.stdout) == 1 << 20 and done.stderr == "err\n" and "bytes of a stream are kept" in done.error
    assert sandbox.commands.run("head -c 100 /dev/zero", retain_output=False).stdout is None


def test_a_writer_that_does_not_stop(sandbox):
    """What a command has started may write for ever, and faster than it is read."""
    running = sandbox._box.start("read x; exit 3", None, None, None, True, None)
    zeros = os.open("/dev/zero", os.O_RDONLY)
    for fd in running.readers:
        os.dup2(zeros, fd, inheritable=False)
    os.close(zeros)
    running.close_stdin()
    until(lambda: running.is_done, "the thread of the sandbox reads for ever")
    assert running.result.returncode == 3 and sandbox.commands.run("echo on").stdout == "on\n"


def test_ten_at_once(sandbox):
    with concurrent.futures.ThreadPoolExecutor(10) as threads:
        got = threads.map(lambda n: sandbox.commands.run(f"sleep 0.0{9 - n}; echo {n}").stdout, range(10))
        assert list(got) == [f"{n}\n" for n in range(10)]
        assert list(threads.map(lambda n: sandbox.run_code(f"x = {n}; x").text, range(10))) == [str(n) for n in range(10)]
        list(threads.map(lambda n: sandbox.files.write(f"f{n}", str(n)), range(10)))
        assert list(threads.map(lambda n: sandbox.files.read(f"f{n}"), range(10))) == [str(n) for n in range(10)]


def test_a_server_for_others():
    """Commands and code share the network inside, and this machine reaches what is published."""
    with Sandbox.create(net_publish=["0:8000"]) as sandbox:
        if sandbox.commands.run("test -e /home/user || echo level").stdout:
            pytest.skip("level landlock has no network of its own")
        sandbox.commands.run("python3 -m http.server 8000", background=True, timeout=0)
        look = "import urllib.request as u\nprint(u.urlopen('http://127.0.0.1:8000').status)"

        def answers():
            return sandbox.run_code(look).logs.stdout == ["200\n"]

        until(answers, "the server does not answer inside")
        with urllib.request.urlopen(f"http://{sandbox.get_host(8000)}", timeout=ceiling(20)) as answer:
            assert answer.status == 200
        with pytest.raises(e2b.InvalidArgumentException, match=r"net_publish=\[81\]"):
            sandbox.get_host(81)


# --- files ------------------------------------------------------------------------------------------


def test_files(sandbox):
    files = sandbox.files
    info = files.write("a/ü 😀.txt", "héllo\n")
    assert (info.name, info.type, info.path) == ("ü 😀.txt", e2b.FileType.FILE, "/home/user/a/ü 😀.txt")
    assert files.read("a/ü 😀.txt") == "héllo\n" and sandbox.commands.run("cat a/*").stdout == "héllo\n"
    every = bytes(range(256)) * 1000
    for data in (every, bytearray(every), io.BytesIO(every), [every[:7], every[7:]]):
        files.write("/tmp/every", data)
        got = files.read("/tmp/every", format="bytes")
        assert type(got) is bytearray and got == every
    files.write("/tmp/every", io.StringIO("text"))
    assert files.read("/tmp/every") == "text"
    files.write("/tmp/every", every)
    with files.read("/tmp/every", format="stream") as stream:
        assert b"".join(stream) == every
    made = files.write_files([{"path": "one", "data": "1"}, {"path": "/tmp/two", "data": b"2"}])
    assert [one.path for one in made] == ["/home/user/one", "/tmp/two"] and files.read("~/one") == "1"
    assert files.write_files([]) == []


def test_directories(sandbox):
    files = sandbox.files
    assert files.make_dir("d/e") is True and files.make_dir("d/e") is False
    files.write("d/e/f", "123")
    sandbox.commands.run("ln -s f d/e/link; chmod 640 d/e/f; mkfifo d/e/fifo")
    assert [(one.path, one.type) for one in files.list("d")] == [("/home/user/d/e", e2b.FileType.DIR)]
    found = {one.name: one for one in files.list("/home/user/d", depth=2)}
    assert set(found) == {"e", "f", "link", "fifo"} and found["fifo"].type is None
    assert (found["link"].type, found["link"].symlink_target) == (e2b.FileType.SYMLINK, "f")
    f = files.get_info("d/e/f")
    assert (f.size, f.mode & 0o777, f.permissions, f.owner, f.symlink_target) == (3, 0o640, "rw-r-----", "user", None)
    assert abs(f.modified_time.timestamp() - time.time()) < 3600 and files.get_info("d/e").type is e2b.FileType.DIR
    assert files.rename("d/e/f", "d/g").path == "/home/user/d/g" and not files.exists("d/e/f")
    files.remove("d")
    files.remove("d")
    assert not files.exists("d") and files.exists(".")
    for depth in (0, -1, True, "1"):
        with pytest.raises(e2b.InvalidArgumentException):
            files.list(".", depth=depth)


def test_errors_of_files(sandbox):
    files = sandbox.files
    files.write("file", "x")
    for call, kind in (
        (lambda: files.read("no"), e2b.FileNotFoundException),
        (lambda: files.read("no"), e2b.NotFoundException),
        (lambda: files.list("no"), e2b.NotFoundException),
        (lambda: files.get_info("no"), e2b.NotFoundException),
        (lambda: files.rename("no", "x"), e2b.NotFoundException),
        (lambda: files.read("/home"), e2b.InvalidArgumentException),
        (lambda: files.list("file"), e2b.InvalidArgumentException),
        (lambda: files.make_dir("file/x"), e2b.InvalidArgumentException),
        (lambda: files.write("/usr/x", ""), e2b.SandboxException),
        (lambda: files.read("x\0y"), e2b.InvalidArgumentException),
        (lambda: files.read("file", format="nothing"), e2b.InvalidArgumentException),
        (lambda: files.write("x", 5), e2b.InvalidArgumentException),
        (lambda: files.write("x", "", user="root"), e2b.InvalidArgumentException),
        (lambda: files.write("x", "", metadata={"a": "b"}), e2b.InvalidArgumentException),
        (lambda: files.write_files([{"path": "x"}]), e2b.InvalidArgumentException),
        (lambda: files.watch_dir("."), e2b.InvalidArgumentException),
    ):
        with pytest.raises(kind):
            call()


def test_paths_that_escape(sandbox, place):
    """They lead where they would lead a command: nowhere outside."""
    secret = place / "secret"
    secret.write_text("secret")
    sandbox.commands.run(f"ln -s {secret} link; ln -s {place} up; ln -s /proc/1/environ env")
    for path in (str(secret), "link", "up/secret", f"../../..{secret}", "env"):
        with pytest.raises(e2b.SandboxException):
            sandbox.files.read(path)
    for path in ("link", "up/new", "up/secret", str(place / "new")):
        try:
            sandbox.files.write(path, "changed")
        except e2b.SandboxException:
            pass
        sandbox.files.remove(path)
    assert secret.read_text() == "secret" and not (place / "new").exists()
    sandbox.commands.run("mkfifo fifo")
    with pytest.raises(e2b.SandboxException):
        sandbox.files.read("fifo")  # and does not wait for a writer


# --- code -------------------------------------------------------------------------------------------


def test_code_keeps_its_state(sandbox):
    assert sandbox.run_code("x = 20\nprint('said')").logs.stdout == ["said\n"]
    done = sandbox.run_code("x + 1")
    assert (done.text, done.execution_count, done.error, done.logs.stderr) == ("21", 2, None, [])
    assert [(one.text, one.is_main_result) for one in done.results] == [("21", True)]
    failed = sandbox.run_code("import sys; print('e', file=sys.stderr)\n1 / 0")
    assert failed.error.name == "ZeroDivisionError" and "division" in failed.error.value
    assert "ZeroDivisionError" in failed.error.traceback and failed.logs.stderr == ["e\n"] and failed.text is None
    assert json.loads(failed.to_json())["error"] and json.loads(done.to_json())["results"] == [{"text": "21"}]
    assert sandbox.run_code("import os; os.getcwd()").text == "'/home/user'"


def test_forms_of_results(sandbox):
    code = (
        "class All:\n"
        "    def _repr_html_(self): return '<b>x</b>'\n"
        "    def _repr_png_(self): return b'\\x89PNG'\n"
        "    def _repr_svg_(self): return '<svg/>'\n"
        "    def _repr_json_(self): return {'a': [1]}\n"
        "    def _repr_mimebundle_(self, **k): return {'text/markdown': '*x*', 'application/x-own': 'own'}\n"
        "    def __repr__(self): return 'All'\n"
        "display(All())\nAll()"
    )
    seen = []
    done = sandbox.run_code(code, on_result=seen.append)
    assert [one.is_main_result for one in done.results] == [False, True] and seen == done.results
    for one in done.results:
        assert (one.text, one.html, one.svg, one.json, one.markdown) == ("All", "<b>x</b>", "<svg/>", {"a": [1]}, "*x*")
        assert base64.b64decode(one.png) == b"\x89PNG" and one.extra == {"application/x-own": "own"}
        assert set(one.formats()) == {"text", "html", "svg", "png", "json", "markdown", "application/x-own"}
        assert one["html"] == one.html and str(one) == "Result(All)"
    assert "x</b>" in done.to_json()


def test_languages_and_contexts(sandbox):
    assert sandbox.run_code("const x = 20; x + 1", language="javascript").text == "21"
    assert sandbox.run_code("x=5; echo $x", language="bash").logs.stdout == ["5\n"]
    assert sandbox.run_code("echo $x", language="bash").logs.stdout == ["5\n"]
    one = sandbox.create_code_context(cwd="/tmp")
    assert (one.language, one.cwd) == ("python", "/tmp")
    assert sandbox.run_code("import os; y = 1; os.getcwd()", context=one).text == "'/tmp'"
    assert sandbox.run_code("y").error.name == "NameError"
    assert {context.language for context in sandbox.list_code_contexts()} == {"python", "javascript", "bash"}
    sandbox.restart_code_context(one)
    fresh = sandbox.run_code("y", context=one)
    assert fresh.error.name == "NameError" and fresh.execution_count == 1
    sandbox.remove_code_context(one.id)
    for call in (
        lambda: sandbox.run_code("1", context=one), lambda: sandbox.remove_code_context(one),
        lambda: sandbox.restart_code_context("no"),
    ):  # fmt: skip
        with pytest.raises(e2b.NotFoundException):
            call()
    with pytest.raises(e2b.InvalidArgumentException):
        sandbox.run_code("1", language="python", context=sandbox.list_code_contexts()[0])
    with pytest.raises(e2b.InvalidArgumentException, match="no interpreter"):
        sandbox.run_code("1", language="cobol")


@pytest.mark.parametrize("language", ["python", "javascript", "bash"])
def test_variables_of_one_execution(language):
    value = "ü 😀 ' \" \\ $HOME `x`\n{names}"
    show = {
        "python": "import os\nprint(os.environ.get('A'), os.environ.get('B'), 'PATH' in os.environ)",
        "javascript": "console.log(process.env.A ?? 'None', process.env.B ?? 'None', process.env.PATH ? 'True' : 'False')",
        "bash": 'echo "${A-None} ${B-None} ${PATH:+True}"',
    }[language]
    with Sandbox.create(envs={"B": "own"}) as sandbox:
        def show_it(**more):
            done = sandbox.run_code(show, language=language, **more)
            return "".join(done.logs.stdout), done.execution_count

        assert show_it() == ("None own True\n", 1)
        assert show_it(envs={"A": value, "B": "other", "PATH": "/x"}) == (f"{value} other True\n", 2)
        assert show_it() == ("None own True\n", 3)


def test_callbacks_of_code(sandbox):
    seen = []
    sandbox.run_code(
        "import sys\nprint('ö', flush=True)\nprint('e', file=sys.stderr)\n1 / 0",
        on_stdout=seen.append, on_stderr=seen.append, on_error=seen.append,
    )  # fmt: skip
    assert {(str(one), one.error) for one in seen[:2]} == {("ö\n", False), ("e\n", True)}
    assert seen[2].name == "ZeroDivisionError" and seen[0].timestamp > 10**18


def test_code_that_takes_too_long(sandbox):
    sandbox.run_code("x = 5")
    with pytest.raises(e2b.TimeoutException):
        sandbox.run_code("while True: pass", timeout=0.3)
    assert sandbox.run_code("x").text == "5"


HOSTILE = {
    "forges a result": "import os; _ = os.write(1, b'{\"type\": \"result\", \"text\": \"forged\", \"is_main_result\": true}\\n')",
    "kills itself": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "exits": "import os; os._exit(0)",
    "closes everything": "import os; os.closerange(0, 1000)",
    "fills the output": "import os\nfor i in range(400): os.write(1, b'x' * 65536)",
    "speaks on the channel": "import os\nos.write(3, b'x' * 100 + b'\\n')",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_code(sandbox, what):
    done = sandbox.run_code(HOSTILE[what], timeout=ceiling(20))
    assert done.text is None and len("".join(done.logs.stdout)) <= 16 << 20
    assert sandbox.run_code("1 + 1").text == "2" and sandbox.commands.run("echo fine").stdout == "fine\n"


def test_code_that_kills_what_it_can(sandbox):
    sandbox.run_code("import os, signal; os.kill(-1, signal.SIGKILL); os.kill(1, signal.SIGKILL)")
    sandbox.run_code("import os, signal; os.kill(os.getppid(), signal.SIGKILL)")
    assert sandbox.run_code("1 + 1").text == "2" and sandbox.commands.run("echo fine").stdout == "fine\n"


def test_memory_is_limited():
    with Sandbox.create(limits_memory="100M") as sandbox:
        try:
            done = sandbox.run_code("x = []\nwhile True: x.append(bytearray(1 << 20))")
            assert done.error is not None
        except e2b.SandboxException:
            pass
        until(lambda: not sandbox.is_running(), "the limit ends the sandbox")
        with pytest.raises(e2b.SandboxNotRunningException, match="memory"):
            sandbox.commands.run("true")


# --- in an event loop -------------------------------------------------------------------------------


def in_loop(work):
    async def all_of_it():
        async with await e2b.AsyncSandbox.create(timeout=300) as sandbox:
            return await work(sandbox)

    return asyncio.run(asyncio.wait_for(all_of_it(), ceiling(60)))


def test_asynchronous_commands():
    async def work(sandbox):
        seen = []

        async def later(text):
            await asyncio.sleep(0)
            seen.append(text)

        done = await sandbox.commands.run("echo a; echo b >&2", on_stdout=later, on_stderr=seen.append)
        assert done.stdout == "a\n" and sorted(seen) == ["a\n", "b\n"]
        with pytest.raises(e2b.CommandExitException):
            await sandbox.commands.run("exit 3")
        with pytest.raises(e2b.TimeoutException):
            await sandbox.commands.run("sleep 60", timeout=0.2)
        handle = await sandbox.commands.run("cat; exit 2", background=True, stdin=True, on_stdout=later)
        other = await sandbox.commands.connect(handle.pid)
        await handle.send_stdin("typed")
        await sandbox.commands.send_stdin(handle.pid, b" more")
        assert [one.pid for one in await sandbox.commands.list()] == [handle.pid] and handle.exit_code is None
        await handle.close_stdin()
        for one in (handle, other):
            with pytest.raises(e2b.CommandExitException):
                await one.wait()
        assert (handle.stdout, handle.stderr, handle.exit_code) == ("typed more", "", 2) and "".join(seen[2:]) == "typed more"
        gone = await sandbox.commands.run("sleep 60", background=True)
        await gone.disconnect()
        with pytest.raises(e2b.InvalidArgumentException):
            await gone.wait()
        assert await sandbox.commands.kill(gone.pid) is True

        def fail(text):
            raise KeyError(text)

        with pytest.raises(KeyError):
            await sandbox.commands.run("echo x; sleep 60", on_stdout=fail)

    in_loop(work)


def test_input_that_is_not_read_does_not_stop_the_loop(monkeypatch):
    monkeypatch.setattr(e2b._running, "_STDIN_SECONDS", ceiling(5))

    async def work(sandbox):
        handle = await sandbox.commands.run("sleep 60", background=True, stdin=True)
        sending = asyncio.ensure_future(handle.send_stdin(bytes(1 << 20)))
        while not handle._running._stdin_lock.locked():
            await asyncio.sleep(0.01)
        closing = [
            asyncio.ensure_future(one) for one in (handle.close_stdin(), sandbox.commands.close_stdin(handle.pid))
        ]
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in (sending, *closing)) and await handle.kill()
        await asyncio.gather(sending, *closing, return_exceptions=True)

    in_loop(work)


def test_asynchronous_order_and_other_tasks():
    async def work(sandbox):
        ticks = []

        async def tick():
            while True:
                ticks.append(1)
                await asyncio.sleep(0.01)

        ticking = asyncio.ensure_future(tick())
        got = await asyncio.gather(*(sandbox.commands.run(f"sleep 0.0{9 - n}; echo {n}") for n in range(10)))
        code = await asyncio.gather(*(sandbox.run_code(f"import time; time.sleep(0.01); {n}") for n in range(10)))
        ticking.cancel()
        assert [one.stdout for one in got] == [f"{n}\n" for n in range(10)] and len(ticks) > 5
        assert [one.text for one in code] == [str(n) for n in range(10)]

    in_loop(work)


def test_asynchronous_cancelling():
    word = f"{os.getpid()}.0333"

    async def work(sandbox):
        task = asyncio.ensure_future(sandbox.commands.run(f"sleep {word} & sleep {word}"))
        while len(processes_with(f"sleep\0{word}")) < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while await sandbox.commands.list():
            await asyncio.sleep(0.01)
        await sandbox.run_code("x = 5")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(sandbox.run_code("while True: pass"), 0.3)
        assert (await sandbox.run_code("x")).text == "5"
        running = asyncio.ensure_future(sandbox.run_code("while True: pass"))
        await asyncio.sleep(0.1)
        assert await e2b.AsyncSandbox.kill(sandbox.sandbox_id) is True and await sandbox.kill() is False
        with pytest.raises(e2b.SandboxNotRunningException):
            await running
        assert await e2b.AsyncSandbox.kill("no") is False and not await sandbox.is_running()
        with pytest.raises(e2b.SandboxNotFoundException):
            await e2b.AsyncSandbox.connect("no")

    in_loop(work)
    until(lambda: processes_with(f"sleep\0{word}") == [], "a process goes on")


def test_asynchronous_files_and_code():
    async def work(sandbox):
        every = bytes(range(256)) * 1000

        async def pieces():
            yield every[:9]
            yield every[9:]

        for data in (every, pieces()):
            assert (await sandbox.files.write("d/every", data)).path == "/home/user/d/every"
            assert await sandbox.files.read("d/every", format="bytes") == every
        assert b"".join([piece async for piece in await sandbox.files.read("d/every", format="stream")]) == every
        await sandbox.files.write_files([{"path": "ü", "data": "ö"}])
        assert await sandbox.files.read("ü") == "ö" and await sandbox.files.exists("ü")
        assert {one.name for one in await sandbox.files.list(".")} == {"d", "ü"}
        assert (await sandbox.files.get_info("d")).type is e2b.FileType.DIR and await sandbox.files.make_dir("d") is False
        assert (await sandbox.files.rename("ü", "u")).name == "u"
        await sandbox.files.remove("u")
        with pytest.raises(e2b.NotFoundException):
            await sandbox.files.read("u")
        seen = []

        async def later(thing):
            seen.append(thing)

        done = await sandbox.run_code("print('said')\n1 / 0", on_stdout=later, on_error=later, envs={"A": "b"})
        assert done.error.name == "ZeroDivisionError" and [str(seen[0]), seen[1]] == ["said\n", done.error]
        context = await sandbox.create_code_context(language="bash")
        assert (await sandbox.run_code("echo ${A-none}; x=1", context=context)).logs.stdout == ["none\n"]
        await sandbox.restart_code_context(context)
        assert (await sandbox.run_code("echo ${x-none}", context=context)).logs.stdout == ["none\n"]
        await sandbox.remove_code_context(context)
        assert [one.language for one in await sandbox.list_code_contexts()] == ["python"]
        info = await sandbox.get_info()
        other = await e2b.AsyncSandbox.connect(info.sandbox_id)
        await other.set_timeout(500)
        assert (await other.run_code("1")).text == "1"
        assert [one.sandbox_id for one in await e2b.AsyncSandbox.list().next_items()] == [info.sandbox_id]

    in_loop(work)


# --- the sandbox ------------------------------------------------------------------------------------


def test_its_life():
    sandbox = Sandbox(timeout=100, metadata={"who": "me"}, template="any", api_key="e2b_x", domain="x", request_timeout=5)
    info = sandbox.get_info()
    assert info.sandbox_id == sandbox.sandbox_id and info.metadata == {"who": "me"} and info.template_id == "any"
    assert info.state == "running" and 95 <= (info.end_at - info.started_at).total_seconds() <= 101
    assert info.memory_mb == 1024 and info.allow_internet_access is False
    sandbox.run_code("x = 1")
    other = Sandbox.connect(sandbox.sandbox_id, timeout=1000)
    assert other.run_code("x").text == "1" and other.connect() is other
    assert (Sandbox.get_info(sandbox.sandbox_id).end_at - info.end_at).total_seconds() > 500
    other.connect(timeout=1)
    assert (sandbox.get_info().end_at - info.end_at).total_seconds() > 500
    listed = Sandbox.list(query=e2b.SandboxQuery(metadata={"who": "me"}))
    assert listed.has_next and [one.sandbox_id for one in listed.next_items()] == [sandbox.sandbox_id]
    assert not listed.has_next and Sandbox.list(e2b.SandboxQuery(metadata={"who": "you"})).next_items() == []
    assert sandbox.is_running() and sandbox.kill() is True and sandbox.kill() is False
    assert not other.is_running() and Sandbox.kill(sandbox.sandbox_id) is False
    for call in (
        lambda: other.run_code("x"), lambda: other.commands.run("true"), lambda: other.files.read("x"),
        lambda: other.set_timeout(5), lambda: other.get_info(), lambda: other.commands.list(),
    ):  # fmt: skip
        with pytest.raises(e2b.SandboxNotRunningException):
            call()
    for call in (lambda: Sandbox.connect(sandbox.sandbox_id), lambda: Sandbox.set_timeout("x", 5)):
        with pytest.raises(e2b.SandboxNotFoundException):
            call()


def test_its_time():
    sandbox = Sandbox.create(timeout=600)
    failed = []

    def wait():
        try:
            sandbox.commands.run("sleep 60")
        except e2b.TimeoutException as error:
            failed.append(error)

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: len(sandbox.commands.list()) == 2, "commands start")
    Sandbox.set_timeout(sandbox.sandbox_id, 0.2)
    for thread in threads:
        thread.join(ceiling(20))
    assert len(failed) == 2 and not sandbox.is_running()
    with pytest.raises(e2b.SandboxNotRunningException, match="reached its timeout"):
        sandbox.run_code("1")


def test_killing_ends_everything():
    word = f"{os.getpid()}.0555"
    with Sandbox.create() as sandbox:
        sandbox.commands.run(f"setsid sleep {word} > /dev/null 2>&1 & exec > /dev/null; sleep 0.1")
        handle = sandbox.commands.run(f"sleep {word}", background=True)
        sandbox.run_code(f"import subprocess; p = subprocess.Popen(['sleep', '{word}'])")
        seen = []
        thread = threading.Thread(target=lambda: seen.append(pytest.raises(e2b.SandboxNotRunningException, sandbox.run_code, "while 1: pass")))
        thread.start()
        until(lambda: len(processes_with(f"sleep\0{word}")) >= 3, "they start")
    thread.join(ceiling(20))
    assert seen and processes_with(f"sleep\0{word}") == []
    with pytest.raises(e2b.SandboxNotRunningException):
        handle.wait()


def test_nothing_is_kept_open():
    def count():
        return len(os.listdir("/proc/self/fd"))

    def use():
        with Sandbox.create() as sandbox:
            for n in range(20):
                sandbox.commands.run("true")
                sandbox.files.exists("x")
            sandbox.run_code("import os; os._exit(1)")
            sandbox.run_code("1")
            sandbox.remove_code_context(sandbox.create_code_context())

    use()
    before = count()
    for _ in range(3):
        use()
    until(lambda: count() <= before + 4, f"{count() - before} descriptors more are open")
    until(lambda: not [t for t in threading.enumerate() if t.name == "cordon-e2b"], "a thread goes on")


def test_the_program_ends_with_sandboxes_left(host):
    done = host(
        "from pycordon.e2b import Sandbox\n"
        "sandbox = Sandbox.create()\n"
        "sandbox.commands.run('sleep 60', background=True); sandbox.run_code('1')\n"
        "print('over')"
    )
    assert done.stdout == "over\n" and done.stderr == ""


def test_asyncio_is_not_imported(host):
    host("import sys\nfrom pycordon.e2b import Sandbox\nassert 'asyncio' not in sys.modules")


def test_level_landlock():
    with Sandbox.create(isolation="landlock") as sandbox:
        home = sandbox.commands.run("pwd").stdout.strip()
        assert home != "/home/user" and sandbox.files.write("~/a/f", "1").path == f"{home}/a/f"
        assert sandbox.files.read("a/f") == sandbox.commands.run("cat a/f").stdout == "1"
        assert sandbox.run_code("x = open('a/f').read()").error is None
        assert sandbox.run_code("import os; x, os.getcwd()").text == str(("1", home))
    assert not os.path.exists(home)


# --- what is closed ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"allow_internet_access": True}, {"allow_internet_access": False, "net_allow": ["example.com"]},
        {"allow_internet_access": False, "network": {"allow_out": ["example.com"]}},
        {"network": {"allow_out": ["0.0.0.0/0"]}}, {"network": {"rules": {"x": []}}},
        {"network": {"egress_proxy": {"address": "x"}}}, {"network": {"allow_public_traffic": True}},
        {"network": {"allow_out": lambda context: []}}, {"lifecycle": {"on_timeout": "pause"}},
        {"lifecycle": {"on_timeout": {"action": "pause"}}}, {"lifecycle": {"on_timeout": "kill", "auto_resume": True}},
        {"mcp": {"x": {}}}, {"iam": {"tokens": {}}}, {"volume_mounts": {"/x": "y"}}, {"no_such_option": 1},
        {"workdir": "/"}, {"fs_read": ["/no/such/dir"]}, {"limits_memory": "lots"}, {"timeout": "x"}, {"timeout": -1},
        {"envs": {"A": 1}}, {"env": {"A": "b"}}, {"allow_overrides": True},
    ],
    ids=str,
)  # fmt: skip
def test_options_that_are_refused(options):
    with pytest.raises(e2b.SandboxException):
        Sandbox.create(**options).kill()
    assert Sandbox.list().next_items() == []


@pytest.mark.parametrize(
    "name", ["pause", "fork", "create_snapshot", "get_metrics", "update_network", "download_url", "upload_url", "pty", "git"]
)
def test_what_is_not_there_says_so(sandbox, name):
    with pytest.raises(e2b.InvalidArgumentException, match="not available"):
        getattr(sandbox, name)()


def test_it_is_closed_unless_something_is_named(sandbox):
    look = "import socket; socket.create_connection(('192.0.2.1', 80), 3)"
    assert sandbox.run_code(look).error is not None
    assert sandbox._box.core.policy.get("net_allow") in (None, [])
    with Sandbox.create(network={"allow_out": ["example.com", "10.0.0.0/8"], "deny_out": ["10.1.0.0/16", "0.0.0.0/0"]}) as other:
        policy = other._box.core.policy
        assert any("example.com" in rule for rule in policy.get("net_allow")) and len(policy.get("net_allow")) == 2
        assert any("10.1.0.0" in rule for rule in policy.get("net_deny")) and other.get_info().allow_internet_access
    with Sandbox.create(allow_internet_access=False, lifecycle={"on_timeout": "kill"}, network={}) as third:
        assert third.get_info().allow_internet_access is False


def test_the_callers_files_and_variables_are_not_there(sandbox, place, monkeypatch):
    (place / "secret").write_text("secret")
    monkeypatch.setenv("CORDON_TEST_SECRET", "secret")
    with Sandbox.create(fs_read=[str(place / "state")] if (place / "state").exists() else []) as other:
        for one in (sandbox, other):
            assert "secret" not in one.commands.run(f"env; cat {place}/secret 2>&1 || true").stdout.replace(f"{place}/secret", "")
    with pytest.raises(e2b.InvalidArgumentException):
        sandbox.commands.run("id", user="root")
    assert sandbox.commands.run("id -un", user="user").stdout == "user\n"


def test_a_policy_of_cordon(place):
    (place / "data").mkdir()
    (place / "data" / "f").write_text("shown")
    with Sandbox.create(policy=pycordon.Policy(limits_memory="300M"), fs_read=[str(place / "data")]) as sandbox:
        assert sandbox.files.read(str(place / "data" / "f")) == "shown"
        assert sandbox.get_info().memory_mb == 300


def test_too_many(monkeypatch):
    monkeypatch.setattr(e2b._box, "BOXES_MAX", 1)
    monkeypatch.setattr(e2b._box, "COMMANDS_MAX", 1)
    monkeypatch.setattr(e2b._code, "CONTEXTS_MAX", 1)
    with Sandbox.create() as sandbox:
        with pytest.raises(e2b.RateLimitException):
            Sandbox.create()
        sandbox.commands.run("sleep 60", background=True)
        with pytest.raises(e2b.RateLimitException):
            sandbox.commands.run("true")
        sandbox.run_code("1")
        with pytest.raises(e2b.RateLimitException):
            sandbox.create_code_context()
    with Sandbox.create():
        pass
