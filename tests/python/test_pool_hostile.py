# SPDX-License-Identifier: Apache-2.0
"""Hostile programs in a pool: they cannot see, end, hold up or change their neighbours, and what they
do stays their own."""

import os
import time

import pytest

import pycordon
from pycordon import Program
from pylib import ceiling

LIMITS = {"limits_memory": "64M", "limits_procs": 24, "limits_disk": "16M", "limits_output": "64K"}

HOSTILE = {
    "kills all it can": "import os, signal\ntry: os.kill(-1, signal.SIGKILL)\nexcept OSError: pass\n"
    "[os.kill(p, 9) for p in range(2, 99999) if 0]\nprint('tried')",
    "kills by number": """
import os
for pid in range(1, 40000):
    if pid != os.getpid():
        try:
            os.kill(pid, 9)
        except OSError:
            pass
print('tried')
""",
    "forks": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "grows": "x = []\nwhile True: x.append(bytes(2**20))",
    "writes for ever": "import sys\nwhile True: sys.stdout.write('x' * 65536)",
    "fills the disk": "import os\nn = 0\nwhile True:\n    n += 1\n    open(f'/tmp/{n}', 'wb').write(bytes(2**20))",
    "sleeps": "import time; time.sleep(600)",
    "stops itself": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "leaves daemons": """
import os, time
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
print('left')
""",
    "closes its streams": "import os\nfor fd in range(3): os.close(fd)\nwhile True: pass",
    "lies about its end": "print('verdict: ok'); import os; os._exit(1)",
}

LOOK = r"""
import os, socket
seen = []
for path in ('/tmp', os.path.expanduser('~'), '/dev/shm', '/var/tmp', '/run/cordon', '/run'):
    for base, dirs, files in os.walk(path):
        seen += [os.path.join(base, f) for f in files if 'canary' in f]
for pid in os.listdir('/proc'):
    if pid.isdigit() and int(pid) not in (1, os.getpid()):
        try:
            name = open(f'/proc/{pid}/comm').read().strip()
        except OSError:
            continue
        if name != 'cordon-init':  # its helpers come and go
            seen.append(f'process {pid} {name}')
try:
    environ = open('/proc/1/environ', 'rb').read()
except OSError:
    environ = b''
if environ:
    seen.append('environment of init')
for fd in os.listdir('/proc/self/fd'):
    if int(fd) > 2 and os.path.exists(f'/proc/self/fd/{fd}'):
        seen.append('descriptor ' + fd)
with open('/proc/sysvipc/shm') as f:
    seen += f.read().splitlines()[1:]
print(seen)
for path in ('/tmp/canary', os.path.expanduser('~/canary'), '/dev/shm/canary'):
    open(path, 'w').write(os.environ.get('SECRET', ''))
try:
    socket.sethostname('canary')
except OSError:
    pass
os.environ['SECRET'] = 'canary'
"""


@pytest.fixture(scope="module")
def level():
    return pycordon.check().level


def test_neighbours_are_unharmed():
    good = Program(code="import time; time.sleep(0.05); print(sum(range(1000)))", expected="499500")
    programs, wanted = [], []
    for name, code in HOSTILE.items():
        programs += [good, Program(code=code, timeout=3), good]
        wanted += ["ok", None, "ok"]
    start = time.monotonic()
    with pycordon.Pool(workers=3, **LIMITS) as pool:
        got = pool.map(programs, timeout=30)
    assert [g.verdict for g, w in zip(got, wanted) if w] == ["ok"] * (2 * len(HOSTILE))
    by_name = dict(zip(HOSTILE, (g for g, w in zip(got, wanted) if w is None)))
    assert by_name["sleeps"].verdict == "timeout" and by_name["stops itself"].verdict == "timeout"
    assert by_name["grows"].verdict in ("memory", "runtime")
    assert by_name["lies about its end"].verdict == "runtime"
    assert by_name["leaves daemons"].verdict == "ok"
    assert by_name["kills by number"].verdict == "ok"
    assert by_name["writes for ever"].result.truncated
    assert time.monotonic() - start < ceiling(120)


def test_nothing_is_seen_of_a_neighbour(level):
    if level != "namespaces":
        pytest.skip("level landlock shows processes and names")
    with pycordon.Pool(workers=4) as pool:
        programs = [Program(code=LOOK, env={"SECRET": f"canary {i}"}) for i in range(24)]
        for graded in pool.map(programs, expected=["[]"] * 24):
            assert graded.verdict == "ok", graded.result.output
        stats = pool.parked()
        assert stats["warm"] > 0
        assert pool.run("hostname; echo $SECRET").stdout == "cordon\n\n"


def test_a_neighbour_is_not_held_up():
    """One program per worker waits; the other worker's go on meanwhile."""
    with pycordon.Pool(workers=2) as pool:
        start, done = time.monotonic(), []
        for graded in pool.imap_unordered(["import time; time.sleep(4)", *["print(1)"] * 10]):
            done.append((graded.index, time.monotonic() - start))
        assert done[-1][0] == 0 and all(when < 4 * ceiling(1) for _, when in done[:-1])


def test_code_of_others_is_not_seen(level, place):
    with pycordon.Pool(workers=2) as pool:
        look = "import os; print(sorted(os.listdir('/run/cordon')))"
        if level != "namespaces":
            look = "import os, sys; print(sorted(os.listdir(os.path.dirname(sys.argv[0]))))"
        got = pool.map([Program(code=look, files={f"mine{i}": "x"}) for i in range(8)])
        for i, graded in enumerate(got):
            names = [n for n in eval(graded.result.stdout) if not n.startswith(".")]
            assert names == ["main.py", f"mine{i}"]
    assert os.listdir(place / "state" / "cordon" / "sandboxes") == []
