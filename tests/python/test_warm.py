# SPDX-License-Identifier: Apache-2.0
"""Interpreters that were started ahead: nothing is shared that must not be, and nothing can be changed
for the next run."""

import contextlib
import fcntl
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import pycordon
from pycordon import _cordon, _native, _warm
from pylib import ceiling, descendants, start_of, until

IS_WARM = "import os\nprint('memfd' in os.readlink('/proc/self/exe'))\n"


@pytest.fixture(scope="module")
def pool():
    with pycordon.Pool(preload=(), workers=2) as made:
        assert made.warm_reason is None
        yield made


def test_it_is_warm(pool):
    assert pool.run_code(IS_WARM).stdout == "True\n"


def test_without(pool):
    with pycordon.Pool(preload=None) as cold:
        assert cold.warm_reason is None
        assert cold.run_code(IS_WARM).stdout == "False\n"


def test_a_sandbox(pool):
    with pycordon.Sandbox(preload=("xml.dom",)) as box:
        code = IS_WARM + "import sys\nprint('xml.dom' in sys.modules)\n"
        assert box.run_code(code).stdout == "True\nTrue\n"
        box.run_code("open('/tmp/kept', 'w').write('x')")
        assert box.run_code("print(open('/tmp/kept').read())").stdout == "x\n"


CHANCE = """
import json, os, random, secrets, ssl, tempfile, uuid, multiprocessing.process as m
print(json.dumps([random.random(), random.getrandbits(64), str(uuid.uuid4()), uuid.uuid1().hex,
    os.urandom(8).hex(), secrets.token_hex(8), ssl.RAND_bytes(8).hex(), tempfile.mkdtemp(),
    m.current_process().authkey.hex(), random.SystemRandom().random()]))
"""


def test_chance_is_not_shared():
    modules = ("ssl", "multiprocessing.process", "random", "uuid", "tempfile", "secrets")
    with pycordon.Pool(preload=modules) as pool:
        graded = pool.map([CHANCE] * 100)
        assert pool.warm_reason is None
    drawn = [json.loads(g.result.stdout) for g in graded]
    for column in zip(*drawn):
        assert len(set(column)) == 100, column[:3]


def test_chance_of_numpy_is_not_shared():
    pytest.importorskip("numpy")
    code = "import numpy as np\nprint(np.random.random(), np.random.randint(1 << 60), np.random.default_rng().random())"
    with pycordon.Pool(preload=("numpy.random",), limits_memory="512M") as pool:
        assert pool.warm_reason is None
        assert pool.run_code(IS_WARM).stdout == "True\n"
        drawn = [graded.result.stdout.split() for graded in pool.map([code] * 100)]
    for column in zip(*drawn):
        assert len(set(column)) == 100, column[:3]


CLOCKS = """
import datetime, subprocess, time
now = [time.time(), datetime.datetime.now(datetime.timezone.utc).timestamp(), time.clock_gettime(time.CLOCK_REALTIME),
    float(subprocess.check_output(["date", "+%s.%N"]))]
print(*now, time.monotonic(), time.perf_counter(), time.process_time())
"""


def test_clocks_go_on(pool):
    """They are those of the run, not of the moment at which its image was made."""
    time.sleep(0.2)
    since = [time.time(), time.monotonic()]
    drawn = [[float(word) for word in graded.result.stdout.split()] for graded in pool.map([CLOCKS] * 100)]
    until_now = [time.time(), time.monotonic()]
    assert len(drawn) == 100
    for run in drawn:
        assert all(since[0] - 0.01 <= clock <= until_now[0] + 0.01 for clock in run[:4]), (since, run, until_now)
        assert all(since[1] <= clock <= until_now[1] for clock in run[4:6]), (since, run, until_now)
        assert run[6] < 20
    # They went on between the runs, too.
    assert len({run[0] for run in drawn}) == 100


def test_hash_seed_is_the_images():
    """The one thing that cannot be renewed: strings that exist have been hashed."""
    with pycordon.Pool(preload=()) as one, pycordon.Pool(preload=()) as other:
        hashes = [p.run_code("print(hash('x'))").stdout for p in (one, one, other)]
    assert hashes[0] == hashes[1] != hashes[2]


# Where objects, the C library and the stack lie, the bytes that become the stack canary, the hash seed.
LAYOUT = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.getauxval.restype = ctypes.c_ulong
found = [hex(id(sys.modules)), hex(ctypes.cast(libc.getpid, ctypes.c_void_p).value),
    *(line.split("-")[0] for line in open("/proc/self/maps") if "[stack]" in line),
    ctypes.string_at(libc.getauxval(25), 16).hex(), hash("x")]
print(*found)
"""


def test_layout_is_the_images_unless_each_is_started():
    """What threat-model.md says is shared, and the two ways to have none of it: preload=None, and interpreters
    that were started ahead, each by an exec of its own."""
    with pycordon.Pool(preload=(), workers=2) as warm, pycordon.Pool(preload=None, workers=2) as cold:
        shared = [graded.result.stdout.split() for graded in warm.map([LAYOUT] * 20)]
        fresh = [graded.result.stdout.split() for graded in cold.map([LAYOUT] * 20)]
    assert [len(set(column)) for column in zip(*shared)] == [1, 1, 20, 1, 1]  # the stack is the kernel's
    for column in zip(*fresh):
        assert len(set(column)) == 20, column
    ahead = []
    with pycordon.Pool(interpreters={"python": 4}, parked=1, limits_memory="512M") as pool:
        until(lambda: len(pool._engine.ahead) == 4, "none was started ahead")
        for _ in range(4):
            with pool.interpreter("python") as python:
                assert python._live is not None
                ahead.append(python.execute(LAYOUT).stdout.split())
    for column in zip(*ahead):
        assert len(set(column)) == 4, column


@pytest.mark.parametrize(
    "settings",
    [{"env": {"LANG": "C"}}, {"env": {"PYTHONOPTIMIZE": "1"}}, {"filename": "other.py"}, {"tty": True}],
    ids=str,
)
def test_what_does_not_fit_starts_cold(pool, settings):
    code = IS_WARM + "import sys\nprint(sys.flags.optimize, sys.stdout.isatty())\n"
    tty = settings.pop("tty", False)
    if tty:
        with pool.popen([sys.executable, "/run/cordon/main.py"], tty=True) as process:
            assert process.wait(20) is not None
        return
    result = pool.run_code(code, **settings)
    assert result.returncode == 0
    optimize = settings.get("env", {}).get("PYTHONOPTIMIZE", "0")
    assert result.stdout == f"False\n{optimize} False\n"


def test_other_variables_fit(pool):
    result = pool.run_code(IS_WARM + "print(os.environ['X'])", env={"X": "1"})
    assert result.stdout == "True\n1\n"


def test_files_beside_come_first(pool):
    files = {"random.py": "print('mine')", "json/__init__.py": "x = 5"}
    result = pool.run_code("import random, json\nprint(json.x)\n", files=files)
    assert result.stdout == "mine\n5\n", result.stderr


def test_each_run_has_its_own_policy(tmp_path):
    """From one image: what one run may do, another may not."""
    secret = tmp_path / "secret"
    secret.write_text("canary")
    os.chmod(tmp_path, 0o755)
    os.chmod(secret, 0o644)
    read = f"print(open({str(secret)!r}).read())"
    with pycordon.Pool(preload=(), allow_overrides=True) as pool:
        assert "canary" not in pool.run_code(read).stdout
        assert pool.run_code(IS_WARM + read, fs_read=[str(secret)]).stdout == "True\ncanary\n"
        assert "canary" not in pool.run_code(read).stdout
        write = f"open({str(tmp_path / 'new')!r}, 'w').write('x')"
        assert pool.run_code(write).returncode == 1
        result = pool.run_code(IS_WARM + "x = bytearray(1 << 28)", limits_memory="64M")
        assert result.kind == "memory"


REACH = IS_WARM + """
import socket
for port in PORTS:
    try:
        print(socket.create_connection(('localhost', port), 5).recv(10))
    except OSError as error:
        print(type(error).__name__)
"""


def test_the_network_is_that_of_the_run():
    """The modules were imported without any. A run has what its policy allows, and no more."""
    stop, servers = threading.Event(), [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]

    def serve(server):
        while not stop.is_set():
            with contextlib.suppress(OSError), server.accept()[0] as one:
                one.sendall(b"hello")

    threads = [threading.Thread(target=serve, args=(server,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    ports = [server.getsockname()[1] for server in servers]
    code = f"PORTS = {ports}\n" + REACH
    outside = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outside.stdout.split()[1:] == ["b'hello'"] * 2, "the positive control"
    try:
        with pycordon.Pool(preload=(), net_allow=[f"localhost:{ports[0]}"]) as some, pycordon.Pool(preload=()) as none:
            for _ in range(2):
                warm, first, second = some.run_code(code).stdout.split()
                assert (warm, first) == ("True", "b'hello'") and second != first
                warm, first, second = none.run_code(code).stdout.split()
                assert warm == "True" and "b'hello'" not in (first, second)
    finally:
        stop.set()
        for server in servers:
            server.close()


def test_the_workspace_is_that_of_the_sandbox(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "file").write_text("base\n")
    (project / "mine.py").write_text("value = 'of the workspace'\n")
    add = IS_WARM + "import sys; sys.dont_write_bytecode = True; sys.path.insert(0, '.'); import mine; print(mine.value)\nopen('file', 'a').write('more\\n')"
    with pycordon.Sandbox(preload=(), fs_workspace=str(project)) as box:
        for n in range(1, 4):
            result = box.run_code(add)
            assert result.stdout == "True\nof the workspace\n", result
            assert box.run("cat file").stdout == "base\n" + n * "more\n"
        assert (project / "file").read_text() == "base\n", "nothing has touched the directory"
        assert {change["path"] for change in box.workspace.changes()} == {"file"}
    assert box.workspace.commit().ok
    assert (project / "file").read_text() == "base\n" + 3 * "more\n"


SCAN = """
import re
found = 0
for line in open('/proc/self/maps'):
    start, end = (int(n, 16) for n in line.split()[0].split('-'))
    if 'r' not in line.split()[1] or '[v' in line:
        continue
    with open('/proc/self/mem', 'rb', 0) as memory:
        try:
            memory.seek(start)
            data = memory.read(end - start)
        except (OSError, ValueError, OverflowError):
            continue
        found += data.count(b'-'.join([b'CANARY', b'7261']))
print(found)
"""


def test_no_secrets_of_others_are_in_memory():
    """Neither the caller's, nor those of another run, nor those that the policy gives to all runs
    (these a run finds in its environment, and only there)."""
    os.environ["SOME_TOKEN"] = "CANARY-7261"
    try:
        with pycordon.Pool(preload=()) as pool:
            assert int(pool.run_code(SCAN).stdout) == 0
            assert pool.run_code("import os\nx = os.environ['T']", env={"T": "CANARY-7261"}).ok
            assert int(pool.run_code(SCAN, env={"T": "CANARY-7261"}).stdout) > 0  # it can find one
            assert int(pool.run_code(SCAN).stdout) == 0
    finally:
        del os.environ["SOME_TOKEN"]


def test_the_image_has_no_variables_of_the_policy():
    with pycordon.Pool(preload=(), env={"T": "CANARY-7261"}) as pool:
        fd = pool._engine.warm._fd
        assert b"CANARY-7261" not in os.pread(fd, os.fstat(fd).st_size, 0)
        assert pool.run_code(IS_WARM + "print(os.environ['T'])").stdout == "True\nCANARY-7261\n"


CHANGE = """
import ctypes, mmap, os
for flags in (os.O_RDWR, os.O_WRONLY, os.O_RDWR | os.O_TRUNC):
    try:
        fd = os.open('/proc/self/exe', flags)
        os.write(fd, b'changed')
        print('written')
    except OSError as error:
        print(error.errno)
fd = os.open('/proc/self/exe', os.O_RDONLY)
try:
    mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_WRITE)
    print('mapped')
except OSError as error:
    print(error.errno)
"""


def test_a_run_cannot_change_it_for_the_next(pool):
    fd = pool._engine.warm._fd
    before = os.pread(fd, os.fstat(fd).st_size, 0)
    result = pool.run_code(CHANGE)
    assert "written" not in result.stdout and "mapped" not in result.stdout, result
    assert os.pread(fd, os.fstat(fd).st_size, 0) == before
    # Control: without the seals a process can.
    loose = os.memfd_create("loose")
    os.write(loose, b"content")
    again = os.open(f"/proc/self/fd/{loose}", os.O_RDWR)
    assert os.write(again, b"changed") == 7
    os.close(again)
    os.close(loose)


MISUSE = """
import os
for attempt in (lambda: os.chmod('/proc/self/exe', 0), lambda: os.setxattr('/proc/self/exe', 'user.t', b'secret'),
                lambda: os.utime('/proc/self/exe', (1, 1))):
    try:
        attempt()
    except OSError as error:
        pass
"""


def test_a_run_cannot_spoil_it_for_the_next():
    """Mode, attributes and times of the file, which no seal protects. Whatever it can change, the next
    run has another one, or starts cold; none finds a message."""
    read = "import os\nprint(os.listxattr('/proc/self/exe'), os.stat('/proc/self/exe').st_mtime == 1)"
    with pycordon.Pool(preload=(), workers=1) as pool:
        assert pool.run_code(MISUSE).ok
        for _ in range(3):
            assert pool.run_code(read).stdout == "[] False\n"
    # Control: outside, a memory file takes all of these.
    loose = os.memfd_create("loose")
    os.utime(loose, (1, 1))
    os.chmod(loose, 0)
    os.close(loose)


LEFT = [
    "import sys\nsys.hold = open('/dev/stdout', 'w')\nsys.hold.write('answer')",
    "import builtins\nbuiltins.log = open('/dev/stdout', 'w')\nbuiltins.log.write('answer')",
    "import logging\nlogging.getLogger('x').file = f = open('/dev/stdout', 'w')\nf.write('answer')",
    "import sys\nclass Tee:\n f = open('/dev/stdout', 'w')\n write = f.write\n flush = lambda s: None\n"
    "sys.stdout = Tee()\nprint('answer', end='')",
    "import signal\nf = open('/dev/stdout', 'w')\nf.write('answer')\nsignal.signal(10, lambda *a: f)",
    "import sys\nclass A:\n def __del__(self, write=__import__('os').write): write(1, b'answer')\nsys.hold = A()",
    "import json\nf = open('/dev/stdout', 'w')\nf.write('answer')\njson.dumps = lambda *a: f",
]


@pytest.mark.parametrize("number", range(len(LEFT)))
def test_what_hangs_on_other_modules_is_ended(pool, number):
    assert pool.run_code(LEFT[number]).stdout == "answer"


def test_a_run_that_may_read_less_starts_cold(tmp_path):
    (tmp_path / "secret").write_text("TOPSECRET")
    (tmp_path / "reads_ahead.py").write_text(f"x = open({str(tmp_path / 'secret')!r}).read()")
    os.chmod(tmp_path, 0o755)
    settings = {"fs_read": [str(tmp_path)], "env": {"PYTHONPATH": str(tmp_path)}}
    code = "import reads_ahead\nprint(reads_ahead.x)"
    with pycordon.Pool(preload="reads_ahead", **settings) as pool:
        assert pool.run_code(code).stdout == "TOPSECRET\n"
        assert "TOPSECRET" not in pool.run_code(code, fs_deny=[str(tmp_path / "secret")]).stdout


@pytest.mark.parametrize("env", [{"LD_PRELOAD": "/no/such.so"}, {"CORDON_WARM_TRIAL": "1"}], ids=str)
def test_variables_of_ours_mean_nothing(pool, env):
    result = pool.run_code(IS_WARM, env=env)
    assert result.stdout == "False\n" and len(result.stderr) < 500


def test_a_sandbox_without_files():
    with pycordon.Sandbox(preload=(), persist=False) as box:
        assert box.run_code(IS_WARM).stdout == "True\n"


def test_only_sealed_files_are_executed():
    policy = pycordon.Policy().native()
    loose = os.memfd_create("loose", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open("/bin/true", "rb") as file:
        os.write(loose, file.read())
    for seals in (0, fcntl.F_SEAL_WRITE, _warm._SEALS & ~fcntl.F_SEAL_SEAL):
        fcntl.fcntl(loose, fcntl.F_ADD_SEALS, seals)
        with pytest.raises(_cordon.Error, match="seals"):
            _native.launcher().start(policy, ["/bin/false"], image_fd=loose)
    with open("/bin/true", "rb") as file, pytest.raises(_cordon.Error, match="seals"):
        _native.launcher().start(policy, ["/bin/false"], image_fd=file.fileno())
    fcntl.fcntl(loose, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)
    os.close(loose)


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_an_image_has_the_layers_of_its_run(level):
    """Executed in place of argv[0], with its arguments and nothing more open."""
    image = os.memfd_create("image", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open("/bin/sh", "rb") as file:
        os.write(image, file.read())
    fcntl.fcntl(image, fcntl.F_ADD_SEALS, _warm._SEALS)
    script = "ls /proc/self/fd | wc -l; grep -E 'Seccomp:|NoNew|CapEff' /proc/self/status; echo $1"
    got = []
    for fd in (image, -1):
        run = _native.launcher().start(
            pycordon.Policy(isolation=level).native(), ["/bin/sh", "-c", script, "sh", "word"],
            env=os.environ, image_fd=fd,
        )  # fmt: skip
        run.wait()
        got.append(run.result()["stdout"])
        run.close()
    os.close(image)
    assert got[0] == got[1] and b"word" in got[0], got


def test_bad_names():
    for bad in ("os; import x", "", "a..b", "1a", "../x"):
        with pytest.raises(pycordon.UsageError):
            pycordon.Pool(preload=(bad,))
    with pycordon.Pool(preload=("no_such_module",)) as pool:
        assert "no_such_module" in pool.warm_reason
        assert pool.run_code(IS_WARM).stdout == "False\n"


def test_preloaded_code_is_confined(tmp_path):
    """A module that is imported ahead can do no more than a program: here it tries."""
    (tmp_path / "evil_module.py").write_text(
        "import os, socket\nfound = []\n"
        "try:\n open(os.environ['EVIL_OUT'], 'w'); found.append('wrote')\n"
        "except (OSError, KeyError): pass\n"
        "try:\n socket.create_connection(('127.0.0.1', 1), 1); found.append('net')\nexcept OSError: pass\n"
        "found += [k for k in os.environ if 'EVIL' in k]\n"
    )
    os.chmod(tmp_path, 0o777)
    settings = {
        "fs_read": [str(tmp_path)],
        "fs_write": [str(tmp_path / "out")],
        "env": {"PYTHONPATH": str(tmp_path), "EVIL_OUT": str(tmp_path / "out" / "x")},
    }
    (tmp_path / "out").mkdir()
    os.chmod(tmp_path / "out", 0o777)
    with pycordon.Pool(preload=("evil_module",), **settings) as pool:
        assert pool.warm_reason is None
        assert not os.path.exists(tmp_path / "out" / "x")
        code = IS_WARM + "import evil_module\nprint(evil_module.found)"
        assert pool.run_code(code).stdout == "True\n[]\n"


@pytest.mark.parametrize(
    "module",
    [
        "print('a line before the image', flush=True)",
        "import os\nos.write(1, b'\\x7fELF' + bytes(5000))\nos._exit(0)",
        "import os\nwhile 1: os.write(1, bytes(1 << 20))",
        "import os\nif os.fork() == 0:\n while 1: os.write(1, b'x')",
        "import os\nwhile 1: os.write(2, bytes(1 << 16))",
        "import sys\nsys.stderr.write('[' * 90000)",
        "import sys\nprint([5, '/proc/self/fd/0', 'x' * 9000], end='', file=sys.stderr)",
        "raise SystemExit(0)",
        "import os\nos.kill(os.getppid(), 9)\nos.kill(os.getpid(), 9)",
    ],
)
def test_preloaded_code_that_spoils_its_image(tmp_path, module, monkeypatch):
    """Programs start cold then, and the host keeps its memory."""
    monkeypatch.setattr(_warm, "_IMAGE_MAX", 64 << 20)
    monkeypatch.setattr(_warm, "_SECONDS", 10)
    (tmp_path / "spoiler.py").write_text(module)
    os.chmod(tmp_path, 0o755)
    settings = {"fs_read": [str(tmp_path)], "env": {"PYTHONPATH": str(tmp_path)}}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pycordon.Pool(preload="spoiler", **settings) as pool:
        result = pool.run_code("print('fine')")
        assert (result.stdout, result.returncode) == ("fine\n", 0), pool.warm_reason
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (200 << 10)


def test_killed_while_it_is_made():
    """From outside, at any moment: programs start cold or warm then, and none waits for ever."""
    killed = 0
    for _ in range(12):
        with pycordon.Pool(preload=(), workers=1) as pool:
            maker = threading.Thread(target=pool.start)
            maker.start()
            time.sleep(random.uniform(0, 0.12))
            known = {pid: start_of(pid) for pid in descendants(os.getpid())}
            for pid in known:
                try:
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
                except ProcessLookupError:
                    pass
            maker.join(ceiling(60))
            assert not maker.is_alive()
            # A sandbox that waits and is dying just now would still be taken.
            until(lambda known=known: all(start_of(p) != s or s is None for p, s in known.items()), "killed, and still there")
            result = pool.run_code("print('fine')", timeout=20)
            assert (result.stdout, result.returncode) == ("fine\n", 0), (result, pool.warm_reason)
    assert killed, "the control: there was something to kill"


def test_threads_and_forks_of_the_host(pool):
    results = []

    def work():
        for _ in range(5):
            results.append(pool.run_code(IS_WARM).stdout)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["True\n"] * 20
    code = (
        "import os, pycordon\n"
        "pool = pycordon.Pool(preload=()).start()\n"
        "pid = os.fork()\n"
        f"got = pool.run_code({IS_WARM!r}).stdout\n"
        "assert got == 'True\\n', got\n"
        "if pid:\n assert os.waitpid(pid, 0)[1] == 0\nelse:\n os._exit(0)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_a_program_that_harms_itself_harms_no_other(pool):
    bad = [
        "import ctypes; ctypes.memset(id(int), 0, 4096)",
        "import sys; sys.modules.clear()",
        "import os; os.kill(os.getpid(), 9)",
        "import builtins; builtins.__dict__.clear()",
        "import gc; gc.unfreeze(); gc.collect()",
        "import sys; sys.stdout = sys.stderr = 5",
        "import threading; threading._shutdown = None",
        "import atexit; atexit._clear(); atexit._run_exitfuncs = None",
        "import os; os.closerange(0, 100)",
        "import os; os.environ._data = None",
        "import sys; sys._current_frames = None",
    ]
    for graded in pool.map(bad + ["print('fine')"]):
        pass
    assert pool.run_code("print('fine')").stdout == "fine\n"


def test_many(pool):
    before = len(os.listdir("/proc/self/fd"))
    graded = pool.map(["print(input())"] * 300, [str(i) for i in range(300)])
    assert [g.result.stdout for g in graded] == [f"{i}\n" for i in range(300)]
    until(lambda: len(os.listdir("/proc/self/fd")) <= before + 8, "descriptors are left")


def test_a_changed_module_is_noticed(tmp_path):
    module = tmp_path / "some_module.py"
    module.write_text("x = 1")
    os.chmod(tmp_path, 0o755)
    settings = {"fs_read": [str(tmp_path)], "env": {"PYTHONPATH": str(tmp_path)}}
    code = IS_WARM + "import some_module\nprint(some_module.x)"
    with pycordon.Pool(preload="some_module", **settings) as pool:
        assert pool.run_code(code).stdout == "True\n1\n"
        module.write_text("x = 22")
        pool._engine.warm._made_at -= 10  # as if it were old
        until(lambda: pool.run_code(code).stdout == "True\n22\n", "the old one is used")


def test_closed_means_gone():
    pool = pycordon.Pool(preload=()).start()
    fd = pool._engine.warm._fd
    pool.close()
    with pytest.raises(OSError):
        os.fstat(fd)
    assert pool._engine.warm.image() == -1
