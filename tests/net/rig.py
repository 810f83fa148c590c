# SPDX-License-Identifier: Apache-2.0
"""The tests' side of the simulated internet (world/internet.py): who lives in it, what arrived."""

import itertools
import json
import os
import pathlib
import re
import select
import shutil
import socket
import subprocess
import sys
import time

import pytest
from conftest import OTHER_UID, Me, Process, ceiling, known_child, needs_landlock_net, unavailable

HERE = pathlib.Path(__file__).resolve().parent
INSIDE = HERE / "probes" / "inside.py"
sys.path.insert(0, str(HERE / "world"))

import bulk  # noqa: E402, F401 - for the tests
import content  # noqa: E402
import zone  # noqa: E402, F401

PYTHON = "/usr/bin/python3"
_numbers = itertools.count()


class Side:
    """One of the two ends: a connection to its control socket."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(ceiling(20))
        self.sock.connect(str(path))
        self.file = self.sock.makefile("rw")

    def ask(self, do, **request):
        self.file.write(json.dumps({"do": do, **request}) + "\n")
        self.file.flush()
        return json.loads(self.file.readline())

    def contacts(self, clear=True):
        """Everything that has arrived (without questions to the name server over TCP)."""
        got = self.ask("contacts", clear=clear)
        assert isinstance(got, list), got
        return [c for c in got if c["port"] != 53]

    def live(self):
        return self.ask("live")

    def close(self):
        self.file.close()
        self.sock.close()


class Internet:
    def __init__(self, base, enter):
        self.base, self.enter = pathlib.Path(base), str(enter)
        self.uid = os.geteuid() or OTHER_UID
        self.ca = self.base / "ca.crt"
        content.make(self.base)
        self.process = subprocess.Popen(
            [PYTHON, str(HERE / "world" / "internet.py"), str(self.base), str(self.uid)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        known_child(self.process.pid)
        assert self.process.stdout.readline() == b"ready\n", "the simulated internet did not start"
        self.world, self.home = Side(self.base / "world.sock"), Side(self.base / "home.sock")

    def stop(self):
        self.world.close()
        self.home.close()
        self.process.stdin.close()
        try:
            self.process.wait(ceiling(5))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    # what arrived

    def forget(self):
        self.world.contacts()
        self.home.contacts()
        self.world.ask("queries", clear=True)

    def queries(self):
        return self.world.ask("queries")

    def zone(self, entries):
        assert self.world.ask("zone", entries=entries) is None

    def arrived(self, port=None, with_bytes=False):
        """Contacts in the world since the last time (and at home's loopback: there must be none)."""
        strays = [(c["addr"], c["port"]) for c in self.home.contacts()]
        assert strays == [], f"arrived at the host itself: {strays}"
        got = [c for c in self.world.contacts() if port in (None, c["port"])]
        return [c for c in got if c["size"]] if with_bytes else got


class Home(Me):
    """A caller that lives in the simulated internet; everything it starts does."""

    def __init__(self, me, net):
        self.__dict__.update(me.__dict__)
        self.net = net
        mode = "same" if os.geteuid() == 0 else "nested"
        self.prefix = [net.enter, str(net.process.pid), mode, str(self.uid), str(self.gid)]
        self.ca = self.write(self.work / "ca.crt", net.ca.read_bytes())
        self.probe = self.write(self.work / "inside.py", INSIDE.read_bytes())
        self.write(self.work / "bulk.py", (HERE / "world" / "bulk.py").read_bytes())

    def _popen_args(self, kw):
        kw = super()._popen_args(kw)
        for key in ("user", "group", "extra_groups"):  # enter does it
            kw.pop(key, None)
        return kw

    def popen(self, argv, **kw):
        return Process([*self.prefix, *map(str, argv)], **self._popen_args(kw))

    def outside(self, argv, **kw):
        return super().outside([*self.prefix, *argv], **kw)

    def argv(self, opts, cmd, level=None):
        if level == "landlock" and "--net-allow" in opts:
            needs_landlock_net()
        return super().argv(opts, cmd, level)

    # the probe, which carries out a list of steps

    def steps(self, steps):
        """The command that carries them out; they are in a file, since arguments may not be long."""
        path = self.write(self.work / f"steps-{next(_numbers)}.json", json.dumps(steps))
        return [PYTHON, "-I", "-S", str(self.probe), str(path)]

    def script(self, text):
        """The command that runs a Python script which may use the probe's functions."""
        path = self.write(self.work / f"script-{next(_numbers)}.py", "from inside import *\n" + text)
        return [PYTHON, "-S", str(path)]

    def control(self, *steps, together=False):
        """The steps' results without a sandbox; all must have worked. @together: at the same time."""
        done = self.outside(self.steps([{"do": "threads", "steps": steps}] if together else steps))
        assert done.returncode == 0, done.stderr
        got = json.loads(done.stdout)
        if together:
            got = got[0]["results"]
        bad = [(step, result) for step, result in zip(steps, got) if "error" in result]
        assert not bad, f"positive control failed outside: {bad}"
        return got

    def within(self, opts, *steps, level="namespaces", together=False, **kw):
        """The receipt of a run that carries out the steps; their results are in `results`."""
        command = self.steps([{"do": "threads", "steps": steps}] if together else steps)
        got = self.receipt(["--max-output", "64M", *opts], command, level, **kw)
        try:
            got["results"] = json.loads(got["stdout"])
        except ValueError:
            pytest.fail(f"the probe did not run: {got}")
        if together:
            got["results"] = got["results"][0]["results"]
        return got


def allow(*rules):
    return [word for rule in rules for word in ("--net-allow", rule)]


def deny(*rules):
    return [word for rule in rules for word in ("--net-deny", rule)]


def refused(receipt, what, target, rule="net.allow"):
    """The denial of that kind for that host and port (or None), from a receipt."""
    for denial in receipt["denials"]:
        assert set(denial) == {"what", "target", "rule", "fix", "how"} | ({"count"} & set(denial)), denial
        assert denial["how"] != "enforced" or denial["what"] == "gateway" or denial["count"] > 0, denial
        if (denial["what"], denial["target"], denial["rule"]) == (what, target, rule):
            return denial
    return None


def told_of(receipt):
    """The hosts in the denials, without ports and reasons."""
    return {re.match(r"\[?([^\] ]*?)(\]?:\d+)?( |$)", d["target"])[1] for d in net_denials(receipt)}


def net_denials(receipt):
    return [d for d in receipt["denials"] if (d["rule"] or "").startswith("net.")]


def read_line(stream, patience=20.0):
    """The next line of an unbuffered stream (bufsize=0), or a failure: nothing waits for ever."""
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([stream], [], [], ceiling(patience))[0]:
            pytest.fail(f"waited in vain for a line, after {line!r}")
        byte = stream.read(1)
        if not byte:
            break
        line += byte
    return line


def wait_for(probe, patience=5.0):
    """Polls until probe() is true; returns it, or fails."""
    end = time.monotonic() + ceiling(patience)
    while True:
        got = probe()
        if got:
            return got
        if time.monotonic() > end:
            pytest.fail(f"waited in vain for {probe}")
        time.sleep(0.005)


# --- the gateway's process ----------------------------------------------------------------------------


def _stat(pid):
    text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return text[text.index("(") + 1 : text.rindex(")")], int(text.rpartition(")")[2].split()[1])


def tree(pid):
    """The process and all below it: pid -> comm."""
    parents, names = {}, {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            names[int(entry)], parent = _stat(entry)
        except (OSError, ValueError):
            continue
        parents.setdefault(parent, []).append(int(entry))
    found, todo = {pid: names.get(pid)}, [pid]
    while todo:
        for kid in parents.get(todo.pop(), []):
            found[kid] = names[kid]
            todo.append(kid)
    return found


def gateways(pid):
    """Gateways of that run: a comm is 15 bytes at most."""
    return [p for p, comm in tree(pid).items() if comm == "cordon-gateway"]


def status(pid):
    """/proc/PID/status as a dict."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def is_alive(pid):
    try:
        return status(pid)["State"][0] not in "ZX"
    except OSError:
        return False


def make(session_dir, probes):
    for tool in ("ip", "openssl", "ssh-keygen", "git"):
        if not shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            unavailable(f"{tool} is needed (tools/install-deps.sh test)")
    base = session_dir / "internet"
    base.mkdir()
    os.chmod(base, 0o755)
    return Internet(base, probes["enter"])
