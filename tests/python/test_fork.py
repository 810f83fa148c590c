# SPDX-License-Identifier: Apache-2.0
"""Forks of an interpreter: the same state, and from then on nothing in common."""

import ast
import asyncio
import json
import os
import pathlib
import threading
import time

import pytest

import pycordon
from pycordon import AsyncInterpreter, Interpreter, StateError, UnsupportedError, UsageError
from pylib import ceiling, until

STATE = """
import json, math, os, random, sys
from collections import OrderedDict
numbers = list(range(1000))
def double(n): return 2 * n + offset
offset = 1
class Point:
    def __init__(self, x): self.x = x
p = Point(3)
q = [p, p]
gen = (n * n for n in range(10)); next(gen); next(gen)
os.makedirs('place/here'); os.chdir('place/here')
file = open('log', 'w+'); file.write('first '); file.flush()
directory = os.open('/tmp', os.O_RDONLY)
os.environ['MINE'] = 'set'
os.umask(0o27)
"""
LOOK = """
(sum(numbers), double(4), q[0] is q[1], p.x, next(gen), os.getcwd(), file.tell(), os.environ['MINE'],
 sorted(os.listdir(directory)) == sorted(os.listdir('/tmp')), math.pi > 3, sys.argv, oct(os.umask(0o27)))
"""


@pytest.fixture
def python(place):
    with Interpreter("python") as made:
        yield made


def values(forks, code):
    """What each gives, and all of them are closed."""
    found = []
    for fork in forks:
        got = fork.execute(code)
        assert got.ok, got
        found.append(got.text)
        fork.close()
    return found


def test_the_state_is_the_same(python):
    assert python.execute(STATE).ok
    fork = python.fork()
    mine, theirs = python.execute(LOOK), fork.execute(LOOK)
    assert mine.ok and theirs.ok, (mine, theirs)
    assert mine.text == theirs.text
    assert theirs.count == mine.count
    fork.close()


def test_nothing_is_shared_afterwards(python):
    assert python.execute(STATE).ok
    one, two = python.fork(2)
    assert one.execute("offset = 100; file.write('one'); file.flush(); open('/tmp/a', 'w').write('x'); double(0)").text == "100"
    assert two.execute("file.write('two'); file.flush(); double(0), open('log').read(), os.path.exists('/tmp/a')").text == (
        "(1, 'first two', False)"
    )
    assert python.execute("double(0), open('log').read(), os.path.exists('/tmp/a')").text == "(1, 'first ', False)"
    assert one.execute("open('log').read()").text == "'first one'"
    for each in (one, two):
        each.close()


def test_it_is_an_interpreter_like_any_other(python):
    python.execute("x = 1")
    with python.fork() as fork:
        assert fork.execute("while True: pass", timeout=0.3).interrupted
        assert fork.execute("x").text == "1"
        fork.set_vars({"y": b"bytes"})
        assert fork.get_var("y") == b"bytes"
        assert fork.execute("import sys; print('out'); print('err', file=sys.stderr)").stdout == "out\n"
        assert fork.execute("1 / 0").error.name == "ZeroDivisionError"
        assert fork.execute("import os; os._exit(3)").ended
        fresh = fork.execute("x")
        assert fresh.restarted and fresh.error.name == "NameError"
        fork.restart()
        assert fork.execute("2 + 2").text == "4"
    with pytest.raises(pycordon.ClosedError):
        fork.execute("1")
    assert python.execute("x").text == "1"


def test_forks_of_forks(python):
    python.execute("path = ['root']; open('/tmp/path', 'w').write('root')")
    chain = [python]
    for n in range(4):
        chain.append(chain[-1].fork())
        assert chain[-1].execute(f"path.append({n}); open('/tmp/path', 'a').write('{n}'); path").ok
    python.close()  # nothing depends on it
    assert chain[-1].execute("path, open('/tmp/path').read()").text == "(['root', 0, 1, 2, 3], 'root0123')"
    assert chain[1].execute("path").text == "['root', 0]"
    for each in chain:
        each.close()


def test_what_was_not_started_yet(place, left):
    """A fork costs nothing before its first call, and can be forked itself."""
    with Interpreter("python") as python:
        python.execute("x = 5")
        one = python.fork()
        two = one.fork()
        assert python._live.image is one._image is two._image
        assert values([two, one], "x") == ["5", "5"]
        with Interpreter("python") as fresh, fresh.fork() as three:  # of one without any state
            assert three.execute("1 + 1").text == "2"
    assert left() == []


def test_each_fork_is_of_its_moment(python):
    python.execute("x = 1")
    early = python.fork()
    again = python.fork()
    python.execute("x = 2")
    late = python.fork()
    assert values([early, again, late], "x") == ["1", "1", "2"]


CHANCE = """
import json, os, random, secrets, ssl, tempfile, uuid, multiprocessing.process
drawn = random.random(), uuid.uuid1(), tempfile.mkdtemp()
def draw():
    return [random.random(), random.getrandbits(64), str(uuid.uuid4()), uuid.uuid1().hex, os.urandom(8).hex(),
        secrets.token_hex(8), ssl.RAND_bytes(8).hex(), tempfile.mkdtemp(), random.SystemRandom().random(),
        multiprocessing.process.current_process().authkey.hex()]
"""


def test_chance_is_not_shared(place):
    with Interpreter("python", limits_memory="1G") as python:
        assert python.execute(CHANCE).ok
        drawn = [json.loads(text[1:-1]) for text in values(python.fork(100), "json.dumps(draw())")]
    for column in zip(*drawn):
        assert len(set(column)) == 100, column[:3]


def test_clocks_go_on(place):
    """A fork has the time of its own execution, not that of its parent's memory."""
    with Interpreter("python") as python:
        python.execute("import subprocess, time; time.time()")
        forks = python.fork(100)
        since = time.time(), time.monotonic()
        look = "(time.time(), time.monotonic(), float(subprocess.check_output(['date', '+%s.%N'])))"
        drawn = [ast.literal_eval(text) for text in values(forks, look)]
        until_now = time.time(), time.monotonic()
    for clock, monotonic, date in drawn:
        assert all(since[0] - 0.01 <= told <= until_now[0] + 0.01 for told in (clock, date))
        assert since[1] <= monotonic <= until_now[1]
    assert drawn == sorted(set(drawn)) and len(drawn) == 100  # one after the other


def test_libraries_with_threads_of_their_own(place):
    with Interpreter("python", limits_memory="1G") as python:
        if not python.execute("import numpy as np\na = np.arange(9.0).reshape(3, 3)\nb = np.ones((300, 300)) @ np.ones((300, 300))").ok:
            pytest.skip("no numpy here")
        look = "(float((a @ a).sum()), float((b @ b).sum()))"
        assert values(python.fork(2), look) == [python.execute(look).text] * 2
        assert python.execute("np.random.random()").ok
        assert len(set(values(python.fork(8), "np.random.random()"))) == 8


# What is refused, and what the reason says.
OBSTACLES = {
    "thread": ("import threading\ngo = threading.Event()\nt = threading.Thread(target=go.wait)\nt.start()", "threads of Python",
               "go.set(); t.join()"),
    "child": ("import subprocess\nc = subprocess.Popen(['sleep', '600'])", "process that it has started",
              "c.kill(); c.wait()"),
    "daemon": ("import subprocess, os\nn = int(subprocess.check_output('sleep 600 > /dev/null & echo $!', shell=True))",
               "process that it has started", "os.kill(n, 9)\nwhile os.path.exists(f'/proc/{n}'): pass"),
    "socket": ("import socket\ns = socket.socketpair()", "is a socket", "[x.close() for x in s]"),
    "pipe": ("import os\np = os.pipe()", "is a pipe", "[os.close(x) for x in p]"),
    "epoll": ("import select\ne = select.epoll()", "eventpoll", "e.close()"),
    "event loop": ("import asyncio\nawait asyncio.sleep(0)", "descriptor", "asyncio.get_event_loop_policy().get_event_loop().close()"),
    "memory file": ("import os\nm = os.memfd_create('x')", "memfd", "os.close(m)"),
    "deleted file": ("import tempfile\nf = tempfile.TemporaryFile()", "without a name", "f.close()"),
    "shared memory": ("import mmap\nm = mmap.mmap(-1, 4096)", "cannot be copied", "m.close()"),
    "file cut short": ("import mmap, os\nf = os.open('cut', os.O_CREAT | os.O_RDWR); os.truncate(f, 1 << 20)\n"
                       "m = mmap.mmap(f, 1 << 20, mmap.MAP_PRIVATE); os.truncate(f, 4096)", "cannot write the image",
                       "m.close(); os.close(f)"),
    "shm": ("open('/dev/shm/x', 'w').close()", "files in /dev/shm", "import os; os.unlink('/dev/shm/x')"),
    "no directory": ("import os\nos.mkdir('/tmp/d'); os.chdir('/tmp/d'); os.rmdir('/tmp/d')", "No such file", "os.chdir('/')"),
}  # fmt: skip


def test_what_cannot_be_forked(python):
    """It is said, nothing has changed, and once it is gone a fork is possible."""
    python.execute("kept = 1")
    for name, (code, reason, undo) in OBSTACLES.items():
        assert python.execute(code).ok, name
        with pytest.raises(StateError, match=reason) as told:
            python.fork()
        assert "\n" not in str(told.value) and str(told.value).startswith("the interpreter cannot be forked: "), name
        assert python.execute("kept").text == "1", name
        python.execute(undo)
        if name == "event loop":  # its end is the end of what belongs to it
            python.restart()
            python.execute("kept = 1")
        with python.fork() as fork:
            assert fork.execute("kept").text == "1", name


def test_what_is_needed_for_it_could_not_be_taken(python):
    """Once that has failed, the next request brings it again."""
    limit = "import resource; old = resource.getrlimit(resource.RLIMIT_FSIZE); resource.setrlimit(resource.RLIMIT_FSIZE, (100, old[1]))"
    assert python.execute(f"kept = 7; {limit}").ok
    with pytest.raises(StateError, match="too large"):
        python.fork()
    assert python.execute("resource.setrlimit(resource.RLIMIT_FSIZE, old); kept").text == "7"
    with python.fork() as fork:
        assert fork.execute("kept").text == python.execute("kept").text == "7"


def test_what_can_never_be_forked(place):
    landlock = Interpreter("python", isolation="landlock", best_effort=["memory", "disk", "procs"])
    for made in (Interpreter("bash"), Interpreter("python", persist=False), landlock):
        with made, pytest.raises(UnsupportedError):
            made.fork()


def test_without_limits(place):
    with Interpreter("python", limits_memory=float("inf"), limits_disk="1G") as python:
        python.execute("x = 1")
        with python.fork() as fork:
            assert fork.execute("x").text == "1"


def test_wrong_arguments(python):
    for n in (0, -1, True, 1.5, "2", 10**9):
        with pytest.raises(UsageError):
            python.fork(n)
    python.close()
    with pytest.raises(pycordon.ClosedError):
        python.fork()


def test_lost_state_is_not_forked(python):
    python.execute("x = 1")
    assert python.execute("import os; os._exit(3)").ended
    with pytest.raises(StateError, match="status 3"):
        python.fork()
    assert python.execute("1").restarted
    python.fork().close()


def test_other_runs_would_change_the_files(place):
    with pycordon.Sandbox() as box, Interpreter("python", sandbox=box) as python:
        python.execute("x = 1")
        with box.popen("sleep 600") as process:
            with pytest.raises(StateError, match="a run goes on"):
                python.fork()
            process.kill()
        with python.fork() as fork:
            assert fork.sandbox is not box and fork.sandbox.id != box.id
            box.files.write("/tmp/mine", "1")
            assert fork.execute("import os; x, os.path.exists('/tmp/mine')").text == "(1, False)"
            assert not fork.sandbox.files.exists("/tmp/mine")


def test_all_kinds_of_files(python):
    """Links stay links, holes stay holes; what is no file is left out."""
    assert python.execute("""
import os
import pathlib
os.chdir(os.path.expanduser('~'))
os.symlink('/etc/passwd', 'link'); open('a', 'w').write('x'); os.link('a', 'b'); os.mkfifo('fifo')
os.truncate(os.open('hole', os.O_CREAT | os.O_RDWR), 1 << 30)
os.makedirs('closed/in'); os.chmod('closed', 0o500)
os.makedirs('/'.join(['d'] * 300))
""").ok
    with python.fork() as fork:
        got = fork.execute("""(os.readlink('link'), os.stat('a').st_ino == os.stat('b').st_ino, os.path.exists('fifo'),
 os.stat('hole').st_size, os.stat('hole').st_blocks < 100, oct(os.stat('closed').st_mode), os.stat('a').st_uid == os.getuid(),
 len(os.popen('find d').read().split()))""")
        assert got.text == "('/etc/passwd', True, False, 1073741824, True, '0o40500', True, 300)", got


def test_what_the_kernel_keeps(python):
    assert python.execute("""
import faulthandler, os, resource, signal
hits = []
faulthandler.enable()
signal.signal(signal.SIGUSR1, lambda *a: hits.append(a[0])); signal.signal(signal.SIGUSR2, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300)); os.umask(0o77); os.close(0)
""").ok
    with python.fork() as fork:
        got = fork.execute("""
os.kill(os.getpid(), signal.SIGUSR1); os.kill(os.getpid(), signal.SIGUSR2); os.kill(os.getpid(), signal.SIGHUP)
(hits, signal.sigpending(), resource.getrlimit(resource.RLIMIT_NOFILE), oct(os.umask(0)), os.path.exists('/proc/self/fd/0'))
""")
        assert got.text == "([10], {<Signals.SIGHUP: 1>}, (200, 300), '0o77', False)", got
        assert fork.execute("while True: pass", timeout=0.3).interrupted


def test_many_at_once(python):
    python.execute("base = list(range(100))")
    forks, found = python.fork(24), []

    def work(part):
        for n, fork in part:
            with fork:
                found.append((n, int(fork.execute(f"sum(base) * {n}").text)))

    parts = [list(enumerate(forks))[k::3] for k in range(3)]
    threads = [threading.Thread(target=work, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [(n, 4950 * n) for n in range(24)]


def test_in_an_event_loop(place, left):
    async def work():
        async with AsyncInterpreter("python") as python:
            await python.execute("import os; x = 20; open('f', 'w').write('x')")
            forks = await python.fork(6)
            done = await asyncio.gather(*(fork.execute(f"x + {n}, os.path.exists('f')") for n, fork in enumerate(forks)))
            assert [d.text for d in done] == [f"({20 + n}, True)" for n in range(6)]
            deeper = await forks[5].fork()
            assert (await deeper.execute("x")).text == "20"
            await python.execute("import socket; s = socket.socket()")
            with pytest.raises(StateError, match="socket"):
                await python.fork()
            for fork in (*forks, deeper):
                await fork.close()
        with pycordon.Sandbox() as box:  # a sandbox of the other kind
            async with AsyncInterpreter("python", sandbox=box) as python:
                await python.execute("x = 3")
                async with await python.fork() as fork:
                    assert (await fork.execute("x")).text == "3"

    asyncio.run(asyncio.wait_for(work(), ceiling(60)))
    until(lambda: left() == [], "something is left")


def test_nothing_is_left(place, left):
    def count():
        return len(os.listdir("/proc/self/fd"))

    with Interpreter("python") as python:
        python.execute("x = 1")
        values(python.fork(3), "x")
        before = count()
        for _ in range(3):
            python.execute("x += 1")
            forks = python.fork(5)
            values(forks, "x")
            python.execute("import socket; s = socket.socket()")
            with pytest.raises(StateError):
                python.fork()
            python.execute("s.close()")
        del forks
        assert count() <= before
        assert len(left()) <= 2  # its own, and programs that it is shown
    assert left() == []


def test_mappings_right_below_the_stacks_are_copied(python):
    """The kernel puts them there for one process of a thousand."""
    code = """
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
at = 0x7ffffffff000 - (16 << 30) - (9 << 20) - {below}
there = libc.mmap(at - 4096, 4096, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100000, -1, 0)
ctypes.memset(there, 42, 1)
there == at - 4096"""
    for below in (0, 1 << 29):
        assert python.execute(code.format(below=below)).text == "True"
        for fork in python.fork(2):
            with fork:
                assert fork.execute("ctypes.string_at(there, 1)").text == "b'*'"
    assert python.execute(code.format(below=-(1 << 30))).text == "True"
    with pytest.raises(StateError, match="where stacks do"):
        python.fork()


def test_the_example(host):
    """examples/python/fan_out.py, with fewer forks."""
    source = pathlib.Path(os.environ.get("CORDON_SOURCE", pathlib.Path(__file__).parents[2]))
    done = host((source / "examples/python/fan_out.py").read_text(), 40, 2)
    assert done.stdout.startswith("40 routes, 40 of them different; shortest "), done.stdout
    assert " forks per second, 2 at once" in done.stdout
