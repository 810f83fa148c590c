# SPDX-License-Identifier: Apache-2.0
"""The interpreters of a detached session itself: their state lives as long as the session, whoever comes and
goes, and whatever the code in them does."""

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from pycordon import AsyncDetachedSession, ClosedError, DetachedSession, UsageError
from pylib import ceiling, until
from test_detached import EVERY_BYTE, made, name, supervisor  # noqa: F401

LANGUAGES = {"python": ("x = 41", "x + 1", "42"), "javascript": ("x = 41", "x + 1", "42"), "bash": ("x=41", "echo $((x + 1))", "42")}


@pytest.fixture(params=["namespaces", "landlock"])
def session(request):
    with made(isolation=request.param, limits_grace=0.2, limits_memory="1G") as one:
        yield one


@pytest.fixture
def plain():
    with made(limits_grace=0.2) as one:
        yield one


def begun(code, *arguments):
    """Another client, in a process of its own."""
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), *arguments], stdout=subprocess.PIPE, text=True)


#: Runs code in the session, and says when that has begun to write.
RUN = """
    import pycordon, sys
    session = pycordon.DetachedSession.attach(sys.argv[1])
    session.execute(sys.argv[2], on_stdout=lambda data: print("begun", flush=True))
"""


def is_alive(pid):
    """Whether it is more than an entry that nobody has collected."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def interpreters(session):
    return [one["interpreter"] for one in session.ps() if one["running"] and "interpreter" in one]


# --- its state -------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_another_client_has_the_same_variables(session, language):
    first, then, expected = LANGUAGES[language]
    assert session.execute(first, language).ok
    session.close()
    code = f"""
        import pycordon, sys
        got = pycordon.DetachedSession.attach(sys.argv[1]).execute({then!r}, {language!r})
        print(got.stdout.strip() or got.text)
    """
    with begun(code, session.name) as other:
        assert other.communicate(timeout=ceiling(60))[0].strip() == expected
    attached = DetachedSession.attach(session.name)
    got = attached.execute(then, language)
    assert (got.stdout.strip() or got.text) == expected and not got.restarted and not got.ended
    assert interpreters(attached) == [language]


def test_each_gets_what_is_its_own(plain):
    """Many at once: output, displays, values and errors go to who has asked; nothing is lost, nothing is twice."""
    plain.execute("seen = []")
    clients, failed = [DetachedSession.attach(plain.name) for _ in range(4)], []

    def use(number, client):
        for n in range(15):
            text = f"{number}-{n}" * 300
            got = client.execute(f"seen.append(({number}, {n}))\nimport sys\nprint({text!r})\ndisplay({text!r})\nsys.stderr.write({text!r})\n{text!r}")
            shown = [one.text for one in got.displays]
            if (got.stdout, got.stderr, got.text, shown) != (text + "\n", text, repr(text), [repr(text)]):
                failed.append(got)

    threads = [threading.Thread(target=use, args=pair) for pair in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ceiling(60))
    assert not failed, failed[0]
    assert plain.execute("len(seen), len(set(seen))").text == "(60, 60)"
    assert plain.execute("seen == sorted(seen, key=lambda pair: 0) and all([n for m, n in seen if m == k] == list(range(15)) for k in range(4))").text == "True"


def test_much_goes_through(plain):
    """More than pipes and sockets hold, both ways; and every byte."""
    got = plain.execute("import os\nfor _ in range(300): os.write(1, b'a' * 10000); os.write(2, b'b' * 10000)\n'c' * 900000")
    assert (got.stdout_bytes, got.stderr_bytes) == (b"a" * 3000000, b"b" * 3000000) and len(got.text) == 900002
    text = "d" * 3000000
    assert plain.execute(f"len({text!r})").text == "3000000"
    assert plain.execute(f"import os; os.write(1, {EVERY_BYTE!r})").stdout_bytes == EVERY_BYTE
    with pytest.raises(UsageError):
        plain.execute(b"#" * ((32 << 20) + 1))
    assert plain.execute("1").text == "1"


def test_closing_it_closes_it_for_all(plain):
    other = DetachedSession.attach(plain.name)
    assert plain.execute("x = 1").count == 1 and other.execute("x").count == 2
    DetachedSession.attach(plain.name).close_interpreter()
    until(lambda: interpreters(plain) == [], "it goes on")
    fresh = other.execute("x")
    assert fresh.error.name == "NameError" and (fresh.restarted or fresh.ended)
    assert plain.execute("y = 1").ok and other.execute("y").text == "1"
    ended = plain.execute("import os; os._exit(3)")
    assert ended.ended and ended.reason == "the interpreter ended with status 3"
    until(lambda: interpreters(plain) == [], "it goes on")
    told = other.execute("2")
    assert told.text == "2" and told.restarted and told.reason == "the interpreter ended with status 3"


def test_the_session_may_be_idle(name):  # noqa: F811
    """A state that nobody uses does not keep it."""
    session = DetachedSession.create(name=name, idle=0.4, lifetime="10m")
    session.execute("x = 1")
    pid = supervisor(name)
    session.close()
    until(lambda: not is_alive(pid), "it goes on")


# --- clients that go -------------------------------------------------------------------------------


def test_a_killed_client_interrupts_its_code(session):
    """SIGKILL in the middle: the code is interrupted, its output is nobody's, and the state goes on."""
    session.execute("x = 1; seen = []")
    loop = """
import time
try:
    x = 2
    print("lost" * 100, flush=True)
    while True: time.sleep(0.01)
except KeyboardInterrupt:
    print("lost" * 100, flush=True)
    seen.append("interrupted")
    raise
"""
    with begun(RUN, session.name, loop) as other:
        assert other.stdout.readline() == "begun\n"
        other.kill()
    got = session.execute("x, seen")
    assert (got.text, got.stdout, got.interrupted, got.restarted) == ("(2, ['interrupted'])", "", False, False)


def test_a_killed_client_whose_code_does_not_end(plain):
    """Then the interpreter is ended, and the next one is told so."""
    plain.execute("x = 1")
    stubborn = "import signal; signal.signal(2, signal.SIG_IGN)\nprint(1, flush=True)\nwhile True: print('more' * 1000)"
    with begun(RUN, plain.name, stubborn) as other:
        assert other.stdout.readline() == "begun\n"
        other.kill()
    got = plain.execute("1 + 1")
    assert got.ended or (got.restarted and got.text == "2")
    assert plain.execute("1 + 1").text == "2"


def test_a_client_that_is_killed_while_it_waits(plain):
    """Its code never runs, and who is at work is not disturbed."""
    plain.execute("seen = []")
    done = []
    thread = threading.Thread(target=lambda: done.append(plain.execute("import time; time.sleep(1); seen.append('first')\n'done'")))
    thread.start()
    until(lambda: plain._interpreters.kept("python")._turns._is_taken, "it does not run")
    code = "import pycordon, sys; s = pycordon.DetachedSession.attach(sys.argv[1]); print('here', flush=True); s.execute('seen.append(2)')"
    with begun(code, plain.name) as other:
        assert other.stdout.readline() == "here\n"
        time.sleep(0.3)
        other.kill()
    thread.join(ceiling(30))
    assert done[0].text == "'done'"
    assert plain.execute("seen").text in ("['first']", "['first', 2]")  # the second, if it was too slow to wait


def test_an_interrupt_hits_only_its_own_code(plain):
    """Who waits for its turn stops waiting; what runs goes on."""
    plain.execute("import time")
    done, other = [], DetachedSession.attach(plain.name)
    thread = threading.Thread(target=lambda: done.append(plain.execute("for _ in range(150): time.sleep(0.01)\n'undisturbed'")))
    thread.start()
    until(lambda: plain._interpreters.kept("python")._turns._is_taken, "it does not run")
    time.sleep(0.1)
    waited = other.execute("never = 1", timeout=0.3)
    assert waited.interrupted and waited.timed_out and not waited.ended
    thread.join(ceiling(30))
    assert done[0].text == "'undisturbed'" and not done[0].interrupted
    assert other.execute("'never' in globals()").text == "False"


def test_interrupts_that_come_late_hit_nobody_else(plain):
    """One client after the other is interrupted at about the time its code ends."""
    other = DetachedSession.attach(plain.name)
    plain.execute("import time")
    for n in range(8):
        plain.execute("time.sleep(0.1)", timeout=0.098 + n / 1000)
        got = other.execute(f"time.sleep(0.02); {n}")
        assert got.text == str(n) and got.error is None, got


def test_pause_while_a_killed_clients_code_runs(plain):
    """The grace is not over before the code can run."""
    plain.execute("x = 1")
    with begun(RUN, plain.name, "print(1, flush=True)\nwhile True: pass") as other:
        assert other.stdout.readline() == "begun\n"
        plain.pause()
        other.kill()
    time.sleep(2.3)
    plain.resume()
    assert plain.execute("x").text == "1"


# --- code that is hostile --------------------------------------------------------------------------

CHANNEL = """
import os, stat
fds = [fd for fd in range(3, 1100) if os.path.exists(f'/proc/self/fd/{fd}') and stat.S_ISSOCK(os.fstat(fd).st_mode)]
"""


TOKEN = CHANNEL + """
import sys
frame = sys._getframe()
while 'token' not in frame.f_locals: frame = frame.f_back
token = frame.f_locals['token']
"""


@pytest.mark.parametrize(
    "says",
    [
        "b'x' * 70000",
        "b'forged {\"type\":\"end\",\"mimes\":[],\"parts\":[]}\\n'",
        "b'- {\"type\":\"hello\",\"parts\":[]}\\n'",
        "b'[' * 60000 + b'\\n'",
        "b'\\n' * 100",
    ],
)
def test_words_that_belong_to_no_request(plain, says):
    """Nobody gets them for an answer: not who has asked last, and not who asks next."""
    later = f"import threading; threading.Timer(0.1, lambda: os.write(fds[0], {says})).start()"
    assert plain.execute(CHANNEL + later).ok
    until(lambda: not interpreters(plain), "it is not ended")
    told = DetachedSession.attach(plain.name).execute("6 * 7")
    assert told.text == "42"
    told = plain.execute("6 * 7")
    assert told.text == "42" and told.restarted
    now = plain.execute(CHANNEL + f"os.write(fds[0], {says})\nimport time; time.sleep(60)")
    assert now.ended and "rules of the channel" in now.reason


def test_a_token_of_another_client_is_not_known(plain):
    """What one's code learns of its request is worth nothing for the next request."""
    spy = TOKEN + """
import threading, time
def lie():
    time.sleep(0.3)
    os.write(fds[0], token + b' {"type":"end","mimes":["text/plain"],"parts":[4]}\\nlies')
threading.Thread(target=lie).start()
"""
    got = plain.execute(spy)
    assert got.ok, got.error
    other = DetachedSession.attach(plain.name).execute("import time; time.sleep(30); 'truth'")
    assert other.text != "lies" and other.ended and "no request" in other.reason


def test_endless_words_do_not_stop_the_supervisor(plain):
    """Of code whose client has gone: floods of messages, of output, of one line. Others are served meanwhile."""
    flood = """
import signal
signal.signal(2, signal.SIG_IGN)
import threading
os.write(1, b'begun')
try: own = os.open('/proc/self/fd/1', os.O_RDONLY)  # what the supervisor has just seen in it may be gone
except OSError: pass
else: threading.Thread(target=lambda: [os.read(own, 65536) for _ in iter(int, 1)], daemon=True).start()
shown = token + b' {"type":"display","mimes":["text/plain"],"parts":[100000]}\\n' + b'y' * 100000
while True:
    os.write(1, b'x' * 65536); os.write(2, b'x' * 65536); os.write(fds[0], shown)
"""
    pid = supervisor(plain.name)
    memory = lambda: int(next(line for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS")).split()[1])  # noqa: E731
    before = memory()
    with begun(RUN.replace("print(", "sys.stdout.closed or print(").replace("flush=True", "flush=True) or sys.stdout.close("), plain.name, TOKEN + flood) as other:
        assert other.stdout.readline() == "begun\n"
        assert plain.exec("echo served").stdout == "served\n"
        os.kill(other.pid, 19)  # one that reads no more
        assert plain.exec("echo served").stdout == "served\n"
        assert memory() < before + 20_000, "it keeps what nobody reads"
        other.kill()
    assert plain.exec("echo served").stdout == "served\n"
    until(lambda: not interpreters(plain), "it goes on")
    assert memory() < before + 20_000
    assert plain.execute("1").text == "1"


def test_nothing_outlives_stop(plain):
    """Whatever the code does about signals and processes."""
    pid = supervisor(plain.name)
    plain.execute("""
import os, signal, time
signal.signal(2, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    for number in range(1, 32):
        try: signal.signal(number, signal.SIG_IGN)
        except OSError: pass
    time.sleep(1000)
""")
    children = lambda: open(f"/proc/{pid}/task/{pid}/children").read().split() if os.path.exists(f"/proc/{pid}") else []  # noqa: E731
    inits = children()
    assert inits
    plain.stop()
    until(lambda: not any(map(is_alive, (pid, *inits))), "something is left")
    with pytest.raises(ClosedError):
        plain.execute("1")


def test_a_killed_supervisor(plain):
    """Nothing of it is left, and the next call says what has happened."""
    other = DetachedSession.attach(plain.name)
    plain.execute("x = 1")
    other.execute("x")
    pid = supervisor(plain.name)
    inits = open(f"/proc/{pid}/task/{pid}/children").read().split()
    os.kill(pid, 9)
    until(lambda: not any(map(is_alive, inits)), "the sandbox goes on")
    with pytest.raises(ClosedError) as told:
        plain.execute("x")
    assert "was killed" in str(told.value) or "has ended" in str(told.value) or "no session" in str(told.value)
    with pytest.raises(ClosedError):
        other.execute("x")


def test_async(name):  # noqa: F811
    async def main():
        session = await AsyncDetachedSession.create(name=name, idle="5m", lifetime="10m")
        await session.execute("x = 1")
        other = await AsyncDetachedSession.attach(name)
        assert (await other.execute("x")).text == "1"
        task = asyncio.ensure_future(other.execute("while True: pass"))
        await asyncio.sleep(0.3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (await session.execute("x")).text == "1"
        both = await asyncio.gather(*(one.execute(f"{n}") for n in range(6) for one in (session, other)))
        assert [got.text for got in both] == [str(n) for n in range(6) for _ in range(2)]
        await other.close_interpreter()
        assert (await session.execute("'x' in globals()")).text in (None, "False")
        await session.stop()

    asyncio.run(asyncio.wait_for(main(), ceiling(60)))
