# SPDX-License-Identifier: Apache-2.0
"""Interpreters inside a session: they share files, processes and network with its commands, and nobody who
waits misses what another thread has handled."""

import asyncio
import gc
import os
import random
import shutil
import threading
import time

import pytest

import pycordon
from pylib import until

NODE = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
#: Ends the interpreter from outside, while its code goes on. Other commands may not send it signals.
KILLED_SOON = "import os, subprocess, time; subprocess.Popen(['sh', '-c', f'sleep 0.3; kill -9 {os.getpid()}'])\n"


@pytest.fixture(params=["namespaces", "landlock"])
def session(request):
    with pycordon.Session(isolation=request.param) as made:
        yield made


def in_threads(*functions, seconds=60):
    """Calls them at the same time; what they give, or their exceptions."""
    got = [None] * len(functions)

    def call(i):
        try:
            got[i] = functions[i]()
        except BaseException as error:
            got[i] = error

    threads = [threading.Thread(target=call, args=(i,), daemon=True) for i in range(len(functions))]
    end = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads), "somebody waits for ever"
    return got


def open_files():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


# --- what is shared, and what is kept ------------------------------------------------------------


def test_state_is_kept_for_each_language(session):
    assert session.execute("x = 20").error is None
    assert session.execute("x + 1").text == "21"
    assert session.execute("y=1; cd /usr", "bash").ok
    assert session.execute('echo "$y $PWD"', language="bash").stdout == "1 /usr\n"
    assert session.execute("'x' in globals(), x", "py").text == "(True, 20)"
    other = session.interpreter()
    assert other.execute("x").error.name == "NameError" and other.language == "python"
    seen = []
    done = session.execute("import sys; print('out'); print('err', file=sys.stderr)", on_stdout=seen.append)
    assert (done.stdout, done.stderr, b"".join(seen)) == ("out\n", "err\n", b"out\n")
    with pytest.raises(pycordon.UsageError, match="no interpreter with state"):
        session.execute("1", "ruby")


@NODE
def test_javascript():
    with pycordon.Session(limits_memory="1G") as session:
        session.execute("var a = 40", "javascript")
        assert session.execute("a + 2", "js").text == "42"


def test_files_and_directory_are_shared(session):
    tmp = session.exec('printf %s "${TMPDIR:-/tmp}"').stdout
    session.exec(f"echo from-exec > {tmp}/a")
    assert session.execute(f"open('{tmp}/a').read()").text == "'from-exec\\n'"
    session.execute(f"open('{tmp}/b', 'w').write('from-execute')")
    assert session.exec(f"cat {tmp}/b").stdout == session.files.read_text(f"{tmp}/b") == "from-execute"
    here = session.exec("pwd").stdout.strip()
    assert session.execute("import os; print(os.getcwd())").stdout.strip() == here
    one = session.interpreter("bash", cwd="/usr", env={"A": "b"})
    assert one.execute('echo "$A $PWD"').stdout == "b /usr\n"


GET = "import urllib.request as u\nprint(u.urlopen('http://127.0.0.1:{port}').read().decode())"
SERVE = """
import http.server, threading
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'hello')
    log_message = print
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Hello)
print(server.server_port, flush=True)
"""


def test_servers_of_both_kinds_are_found_by_the_other():
    with pycordon.Session(isolation="namespaces") as session:
        command = SERVE + "open('/tmp/port', 'w').write(str(server.server_port))\nserver.serve_forever()"
        server = session.start(["python3", "-c", command])
        wait = "import os, time\nwhile not os.path.exists('/tmp/port') or not open('/tmp/port').read(): time.sleep(0.01)"
        session.execute(wait, timeout=30)
        assert session.execute(GET.format(port=session.files.read_text("/tmp/port"))).stdout == "hello\n"
        assert server.running
        started = session.execute(SERVE + "threading.Thread(target=server.serve_forever, daemon=True).start()")
        port = started.stdout.split()[0]
        assert session.exec(["python3", "-c", GET.format(port=port)], timeout=30).stdout == "hello\n"


def test_the_rest_of_an_interpreter(session):
    one = session.interpreter("python", grace=1, max_output=1 << 16)
    one.set_vars({"a": [1, 2], "b": b"\0\xff"})
    assert one.get_var("a") == [1, 2] and one.get_var("b") == b"\0\xff"
    with pytest.raises(KeyError):
        one.get_var("none")
    error = one.execute("1 / 0").error
    assert error.name == "ZeroDivisionError" and "division by zero" in error.traceback
    rich = "class R:\n def _repr_html_(self): return '<b>'\nR()"
    assert one.execute(rich).result.html == "<b>"
    assert one.execute("print('x' * 100000)").truncated.stdout
    done = one.execute("import time; time.sleep(60)", timeout=0.3)
    assert done.timed_out and done.interrupted and not done.ended and one.get_var("a") == [1, 2]
    timer = threading.Timer(0.5, one.interrupt)
    timer.start()
    assert one.execute("time.sleep(60)").interrupted
    timer.join()
    stubborn = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nwhile True: pass"
    done = one.execute(stubborn, timeout=0.3)
    assert done.ended and done.timed_out and "did not react" in done.reason
    done = one.execute("a")
    assert done.restarted and done.error.name == "NameError"
    one.restart()
    assert not one.execute("1").restarted
    one.close()
    with pytest.raises(pycordon.ClosedError):
        one.execute("1")
    assert session.execute("1").ok and session.exec("true").ok


def test_what_belongs_to_the_session(session):
    one = session.interpreter()
    for call in (one.fork, one.snapshot, lambda: one.restore("x"), lambda: one.install("six"), lambda: one.sandbox):
        with pytest.raises(pycordon.UnsupportedError, match="of a session"):
            call()
    assert one.execute("1").ok


def test_executions_happen_in_the_order_of_calls(session):
    session.execute("seen = []")
    turns = session._interpreters.kept("python")._turns
    got, threads = {}, [threading.Thread(target=session.execute, args=("import time; time.sleep(0.5)",))]
    threads[0].start()
    until(lambda: turns._is_taken, "the slow one does not run")
    for n in range(10):

        def work(n=n):
            got[n] = session.execute(f"seen.append({n}); print({n}); {n}")

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        until(lambda n=n: len(turns._waiting) == n + 1, "it does not wait")
    for thread in threads:
        thread.join()
    assert all((got[n].text, got[n].stdout) == (str(n), f"{n}\n") for n in range(10))
    assert session.execute("seen").text == str(list(range(10)))


def test_ten_at_once_in_an_event_loop_are_in_order():
    async def main():
        async with pycordon.AsyncSession() as session:
            await session.execute("seen = []")
            got = await asyncio.gather(*(session.execute(f"seen.append({n}); {n}") for n in range(10)))
            assert [one.text for one in got] == [str(n) for n in range(10)]
            assert (await session.execute("seen")).text == str(list(range(10)))

    asyncio.run(main())


def test_the_python_is_one_that_commands_see(session):
    found = session.execute("import sys; print(sys.executable)").stdout.strip()
    assert session.exec([found, "-c", "print(1)"]).stdout == "1\n"


def test_packages_of_an_interpreter_that_runs(session, monkeypatch):
    """What install() does to them, without an installation: a directory that comes later."""
    tmp = session.exec('printf %s "${TMPDIR:-/tmp}"').stdout
    given = session._core.given
    assert session.execute("import late").error.name == "ModuleNotFoundError"
    session.execute("x = 1; y=2")
    session.execute("y=2", "bash")
    session.files.write(f"{tmp}/modules/late.py", "value = 42")
    given.updates = [*given.updates, ({"PYTHONPATH": f"{tmp}/modules"}, [])]
    assert session.execute("import late; late.value, x").text == "(42, 1)"
    assert session.execute('echo "$y ${PYTHONPATH%%:*}"', "bash").stdout == f"2 {tmp}/modules\n"


# --- ends ----------------------------------------------------------------------------------------


def test_killed_while_another_thread_waits(session):
    """That thread handles the event that says so."""
    session.execute("x = 1")
    began = time.monotonic()
    done, *slept = in_threads(
        lambda: session.execute(KILLED_SOON + "time.sleep(60)"), *[lambda: session.exec("sleep 5")] * 3
    )
    assert done.ended and "killed by signal 9" in done.reason and not done.ok
    assert all(result.ok for result in slept) and time.monotonic() - began < 40
    done = session.execute("x")
    assert done.restarted and "killed by signal 9" in done.reason and done.error.name == "NameError"
    assert not session.execute("1").restarted


def test_commands_have_no_say_over_interpreters(session):
    """As among commands: each is a domain of its own. Where the kernel has none for signals, it is ended."""
    pid = session.execute("import os; os.getpid()").text
    killed = session.exec(f"kill -9 {pid}").ok
    assert session.execute("1").restarted == killed


def test_the_limit_of_memory_ends_the_session():
    with pycordon.Session(limits_memory="128M") as session:
        other = session.interpreter("bash")
        ended, waiting, command = in_threads(
            lambda: session.execute("x = 1\nb = bytearray(1 << 30)\nb[::4096] = b'x' * (1 << 18)"),
            lambda: other.execute("sleep 60"),
            lambda: session.exec("sleep 60"),
        )
        assert ended.ended and waiting.ended and command.kind != "exited", (ended, waiting, command)
        assert "memory" in ended.reason
        for call in (lambda: session.execute("1"), lambda: other.execute("1"), lambda: session.exec("true")):
            with pytest.raises(pycordon.CordonError, match="over"):
                call()


@pytest.mark.parametrize("end", [pycordon.Session.close, pycordon.Session.stop])
def test_close_while_executing(session, end):
    one, idle = session.interpreter(), session.interpreter("bash")
    one.start(), idle.start()
    before = open_files()

    def close():
        time.sleep(0.5)
        end(session)

    began = time.monotonic()
    *got, _ = in_threads(
        lambda: one.execute("import time; time.sleep(60)"),
        lambda: session.execute("import time; time.sleep(60)"),
        lambda: session.exec("sleep 60"),
        close,
    )
    assert [type(error) for error in got] == [pycordon.ClosedError] * 3, got
    assert time.monotonic() - began < 20
    assert one.closed and idle.closed and open_files() < before
    for call in (session.interpreter, lambda: session.execute("1"), lambda: one.set_vars({"a": 1})):
        with pytest.raises(pycordon.ClosedError):
            call()
    one.close()


def test_close_in_a_callback(session):
    def tell(_):
        session.close()

    with pytest.raises(pycordon.ClosedError):
        session.execute("print(1, flush=True)\nimport time; time.sleep(60)", on_stdout=tell)


def test_paused_code_waits(session):
    session.execute("x = 1")
    session.pause()
    time.sleep(0.5)  # until every process has stopped
    timer = threading.Timer(1, session.resume)
    began = time.monotonic()
    timer.start()
    assert session.execute("x").text == "1"
    assert time.monotonic() - began > 0.8
    timer.join()


# --- nobody waits for ever -----------------------------------------------------------------------


def test_many_threads_do_both():
    """Each is told of its own end, whoever handled it."""
    with pycordon.Session(limits_memory="1G") as session:
        own = [session.interpreter() for _ in range(2)]
        counts = [0] * 7

        def commands(which):
            for i in range(60):
                assert session.exec(f"exit {i}", timeout=60).returncode == i
                counts[which] += 1

        def code(which, interpreter):
            for i in range(200):
                assert interpreter.execute(f"{i} + 1").text == str(i + 1)
                counts[which] += 1

        def ends(which):
            for _ in range(20):
                with session.interpreter("bash") as bash:
                    done = bash.execute("kill -9 $$; sleep 60")
                    assert done.ended and bash.execute("echo on").stdout == "on\n"
                counts[which] += 1

        got = in_threads(
            *(lambda i=i: commands(i) for i in range(2)),
            *(lambda i=i: code(2 + i, [*own, session][i]) for i in range(3)),
            *(lambda i=i: ends(5 + i) for i in range(2)),
            seconds=280,
        )
        assert got == [None] * 7 and counts == [60, 60, 200, 200, 200, 20, 20]


def test_ends_are_seen_by_all_while_one_command_waits():
    """200 ends of interpreters, each while two threads wait in commands that outlive all of them."""
    with pycordon.Session(limits_memory="1G") as session:
        held = [session.start("sleep 600") for _ in range(2)]
        stop = threading.Event()

        def hold(command):
            while not stop.is_set():
                command.wait(5)

        def ends():
            try:
                one = session.interpreter("bash")
                longest = 0.0
                for _ in range(200):
                    one.start()
                    began = time.monotonic()
                    assert one.execute("kill -9 $$; sleep 60").ended
                    longest = max(longest, time.monotonic() - began)
                return longest
            finally:
                stop.set()
                for command in held:
                    command.kill()

        *_, longest = in_threads(*(lambda c=c: hold(c) for c in held), ends, seconds=280)
        assert isinstance(longest, float) and longest < 30, longest


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_close_at_any_moment(level):
    before, took = None, []
    for turn in range(20):
        session = pycordon.Session(isolation=level)
        one = session.interpreter("bash")

        def again(call):
            while True:
                call()

        def close():
            time.sleep(random.Random(turn).uniform(0, 0.4))
            session.close()

        began = time.monotonic()
        got = in_threads(
            lambda: again(lambda: session.execute("x = 1")),
            lambda: again(lambda: session.exec("true")),
            lambda: again(lambda: one.execute("true")),
            lambda: again(lambda: session.interpreter("bash").execute("kill -9 $$")),
            close,
        )
        assert [type(error) for error in got] == [pycordon.ClosedError] * 4 + [type(None)], got
        took.append(time.monotonic() - began)
        one.close()
        del session, one, again, close, got
        if turn == 2:
            before = open_files()
    assert open_files() <= before + 4
    assert sorted(took)[15] < 4, took  # close() itself misses no end, for which it would wait five seconds


# --- in an event loop ----------------------------------------------------------------------------


def test_async_session():
    async def main():
        async with pycordon.AsyncSession(limits_memory="1G") as session:
            await session.execute("x = 1")
            assert (await session.execute("x + 1")).text == "2"
            got = await asyncio.gather(*(session.execute(f"x = x * 2 + {i}; {i}") for i in range(10)))
            assert [done.text for done in got] == [str(i) for i in range(10)]
            async with session.interpreter("bash", cwd="/usr") as bash:
                assert (await bash.execute("pwd")).stdout == "/usr\n"
                with pytest.raises(pycordon.UnsupportedError):
                    await bash.snapshot()
                with pytest.raises(pycordon.UnsupportedError):
                    bash.sandbox
            began = time.monotonic()
            done, slept = await asyncio.gather(
                session.execute(KILLED_SOON + "time.sleep(60)"), session.exec("sleep 5")
            )
            assert done.ended and slept.ok and time.monotonic() - began < 40
            assert (await session.execute("1")).restarted
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(session.execute("y = 1\nimport time; time.sleep(60)"), 2)
            assert (await session.execute("y")).text == "1"

    asyncio.run(asyncio.wait_for(main(), 120))


def test_async_close_while_executing():
    async def main():
        session = pycordon.AsyncSession()
        await session.execute("1")

        async def close():
            await asyncio.sleep(0.3)
            await session.close()

        got = await asyncio.wait_for(
            asyncio.gather(
                session.execute("import time; time.sleep(60)"), session.exec("sleep 60"), close(),
                session.interpreter("bash").execute("sleep 60"), return_exceptions=True,
            ),
            30,
        )  # fmt: skip
        assert [type(one) for one in got] == [pycordon.ClosedError] * 2 + [type(None), pycordon.ClosedError], got
        with pytest.raises(pycordon.ClosedError):
            await session.execute("1")

    asyncio.run(main())


def test_async_usage_takes_no_end_from_those_who_wait():
    """It handles events in another thread."""

    async def main():
        async with pycordon.AsyncSession(limits_memory="1G") as session:
            over = False

            async def ask():
                while not over:
                    await session.usage()

            async def commands():
                for i in range(50):
                    assert (await session.exec(f"exit {i}")).returncode == i

            async def ends():
                async with session.interpreter("bash") as bash:
                    for _ in range(50):
                        assert (await bash.execute("kill -9 $$; sleep 60")).ended

            asking = [asyncio.ensure_future(ask()) for _ in range(2)]
            await asyncio.gather(commands(), commands(), ends())
            over = True
            await asyncio.gather(*asking)

    asyncio.run(asyncio.wait_for(main(), 240))


def test_async_command_whose_end_another_thread_has_handled():
    async def main():
        async with pycordon.AsyncSession() as session:
            waiting = asyncio.ensure_future(session.exec("exit 3"))
            while not session._waiters._waiting:
                await asyncio.sleep(0)
            time.sleep(0.5)  # the loop does not look meanwhile
            thread = threading.Thread(target=session._core.order, args=("usage",))
            thread.start()
            thread.join()
            assert (await asyncio.wait_for(waiting, 20)).returncode == 3

    asyncio.run(main())
