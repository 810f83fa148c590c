# SPDX-License-Identifier: Apache-2.0
"""No command in a sandbox gets another sandbox from its user's pool, which would have the user's
rights. The control is the same attempt outside."""

import json
import pathlib

import pytest

from conftest import settles, unavailable

# Finds the pool, asks it, and says what came of it. It does not rely on the directory being visible:
# argv has the path, the pool's number and where its proof is.
ASK = r"""
import json, os, socket, struct, sys
place, pid, number, how = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
told = {}
try:
    told["listed"] = sorted(n for n in os.listdir(place) if n.startswith(".pool"))
except OSError as error:
    told["listed"] = str(error.errno)
try:
    proof = os.readlink(f"/proc/{pid}/fd/{number}")
    told["proof"] = proof.startswith("/memfd:cordon-")
except OSError as error:
    told["proof"], proof = False, "guess"
if how == "command":
    os.execv(sys.argv[5], [sys.argv[5], "run", "--warm", "-v", "--", "/bin/true"])
own = os.memfd_create("cordon-" + "0" * 64)
try:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # refused at level landlock
    sock.settimeout(10)
    sock.connect(place + "/.pool.sock")
    told["connected"] = True
    sock.send(struct.pack("QiI96s", 0x31666F2D6E6F6463, own, 0, proof.encode()))
    data, ancillary, _, _ = sock.recvmsg(1 << 18, 4096)
    told["answer"] = data[112:192].split(b"\0")[0].decode()
    told["got"] = len(ancillary)
except OSError as error:
    told.setdefault("connected", False)
    told["got"] = 0
print(json.dumps(told))
"""


@pytest.fixture
def pool(me):
    """Started before the sandbox, as a user would have it."""
    if not me.can("namespaces"):
        unavailable("level namespaces does not work here")
    if "Seccomp:\t0" not in pathlib.Path("/proc/self/status").read_text():
        unavailable("there are system call filters here, so no pool can be started")
    if me.outside([me.cordon, "pool", "status"]).returncode == 0:
        unavailable("a pool of this user is running")
    assert me.outside([me.cordon, "pool", "start"]).returncode == 0
    got = json.loads(me.outside([me.cordon, "pool", "status", "--json"]).stdout)["pool"]
    run = pathlib.Path("/run/cordon-sessions" if me.uid == 0 else f"/run/user/{me.uid}/cordon-sessions")
    place = run if run.exists() else pathlib.Path(f"/tmp/cordon-sessions-{me.uid}")
    yield [str(place), str(got["pid"]), (place / ".pool").read_text().split("\n")[0]]
    assert me.outside([me.cordon, "pool", "stop"]).returncode == 0


def used(me):
    return json.loads(me.outside([me.cordon, "pool", "status", "--json"]).stdout)["pool"]["warm"]


def grants(pool):
    """All that a careless user could grant around the socket."""
    return ["-r", "/usr", "-w", str(pathlib.Path(pool[0]).parent)]


def test_control_outside(me, pool):
    """The attempt works up to the last question: whether it is the command itself that asks."""
    told = json.loads(me.outside(["/usr/bin/python3", "-c", ASK, *pool, "ask"]).stdout)
    assert told["listed"] == [".pool", ".pool.sock"] and told["proof"] and told["connected"]
    assert told["answer"] == "the pool was started with another program file" and told["got"] == 0
    done = me.outside(["/usr/bin/python3", "-c", ASK, *pool, "command", me.cordon])
    assert b"warm start" in done.stderr
    assert not settles(lambda: used(me) != 1)  # the pool says so after the hand-over


def test_inside(me, level, pool):
    opts = grants(pool) if level == "namespaces" else ["-r", "/usr"]
    done = me.run(opts, ["/usr/bin/python3", "-c", ASK, *pool, "ask"], level)
    assert done.returncode == 0, done
    told = json.loads(done.stdout)
    assert not told["proof"] and told["got"] == 0 and told["listed"] != [".pool", ".pool.sock"]
    if level == "namespaces":
        assert not told["connected"] and told["listed"] in ("1", "2", "13", [])
    elif told["connected"]:  # the filter refuses even the socket
        assert told["answer"] == "this process may not look into the pool's"
    assert used(me) == 0


def test_the_command_inside(me, level, pool):
    """Cordon in Cordon: with the program that the pool wants, but not with its rights."""
    program = pathlib.Path(me.cordon).parent
    opts = ["-r", program, *(grants(pool) if level == "namespaces" else ["-r", "/usr"])]
    done = me.run(opts, ["/usr/bin/python3", "-c", ASK, *pool, "command", me.cordon], level)
    assert b"warm start" not in done.stderr and b"another" not in done.stdout
    assert used(me) == 0
