# SPDX-License-Identifier: Apache-2.0
"""The gateway's process: what it may do, when it ends, and what is told of it."""

import json
import os
import pathlib
import re
import signal
import stat
import subprocess

import pytest
from conftest import unavailable
from rig import allow, deny, gateways, is_alive, net_denials, read_line, status, wait_for

RULES = allow("db.example:9000,80")
WAITS = "print('here', flush=True); sys.stdin.readline()"


@pytest.fixture
def start(home):
    """Starts a run and waits for its first line."""
    made = []

    def begin(opts, script, level="namespaces"):
        proc = home.popen(
            home.argv(opts, home.script(script), level),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
        )  # fmt: skip
        made.append(proc)
        proc.first = read_line(proc.stdout)
        assert proc.first, proc.communicate(timeout=10)
        return proc

    yield begin
    for proc in made:
        if proc.poll() is None:
            proc.kill()
        proc.communicate()


def test_only_with_rules(start, level):
    """Without network there is no gateway."""
    assert gateways(start([], WAITS, level).pid) == []
    assert len(gateways(start(RULES, WAITS, level).pid)) == 1


@pytest.mark.parametrize("opts", [RULES, ["--publish", "0:8000"]], ids=["rules", "publish"])
def test_privileges(home, start, opts, level):
    if level == "landlock" and opts[0] == "--publish":
        opts = RULES  # nothing is published at this level
    (pid,) = gateways(start(opts, WAITS, level).pid)
    got = status(pid)
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(got[name], 16) == 0, (name, got[name])
    assert got["NoNewPrivs"] == "1" and got["Seccomp"] == "2", got
    assert "0" not in got["Uid"].split() and "0" not in got["Gid"].split(), got
    assert got["Groups"].split() in ([], [str(home.gid)]) or home.name == "user", got
    assert got["Threads"] == "1" and int(got["VmRSS"].split()[0]) <= 3 * 1024, got["VmRSS"]


def test_descriptors(home, start, level):
    """Sockets, pipes, memory and event queues: no file, no directory."""
    (pid,) = gateways(start(RULES, WAITS, level).pid)
    try:
        links = {fd: os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    except PermissionError:
        unavailable("only root can look at the gateway's descriptors")
    good = ("socket:", "pipe:", "anon_inode:", "/memfd:")
    assert [l for l in links.values() if not l.startswith(good) and l != "/dev/null"] == [], links
    for kind in ("cwd", "root"):
        assert stat.S_ISDIR(os.stat(f"/proc/{pid}/{kind}").st_mode)
    environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    assert b"HOME" not in environ, environ


def test_it_is_gone_after_the_run(start, level):
    proc = start(RULES, WAITS, level)
    (pid,) = gateways(proc.pid)
    proc.communicate(b"\n", timeout=10)
    assert proc.returncode == 0 and not is_alive(pid)


@pytest.mark.parametrize("name", ["KILL", "TERM", "INT"])
def test_it_does_not_survive_cordon(start, level, name):
    proc = start(RULES, WAITS, level)
    (pid,) = gateways(proc.pid)
    proc.send_signal(getattr(signal, f"SIG{name}"))
    proc.wait(timeout=10)
    wait_for(lambda: not is_alive(pid), 2.0)


def kill(pid, home):
    """As its owner would; a user that is not us needs another's hand."""
    try:
        os.kill(pid, signal.SIGKILL)
    except PermissionError:
        done = home.outside(["kill", "-KILL", str(pid)])
        assert done.returncode == 0, done


TRANSFER = """
s = socket.create_connection(('db.example', 9000), 10); s.sendall(b'SEND 2000000000\\n')
print(len(s.recv(1000)), flush=True)
try:
    while s.recv(1 << 20): pass
    print('ended', flush=True)
except OSError as error: print('cut', flush=True)
print('later', 'error' in carry_out({'do': 'http', 'host': 'db.example', 'timeout': 2}), flush=True)
print('alive', flush=True); sys.stdin.readline()
"""


def test_killed_in_the_middle(home, net, start):
    """Connectivity ends, the run goes on, and the receipt says what happened."""
    receipt = home.out / "receipt"
    proc = start([*RULES, "--receipt", receipt], TRANSFER)
    (pid,) = gateways(proc.pid)
    kill(pid, home)
    assert read_line(proc.stdout) in (b"ended\n", b"cut\n")
    assert read_line(proc.stdout) == b"later True\n"
    assert read_line(proc.stdout) == b"alive\n"
    wait_for(lambda: net.world.live()["open"] == 0)
    _, err = proc.communicate(b"\n", timeout=10)
    assert proc.returncode == 0
    got = json.loads(receipt.read_text())
    assert got["kind"] == "exited" and "gateway" in json.dumps([got["denials"], got["error"], err.decode()]), (got, err)


def test_two_sandboxes_have_two_gateways(home, net, start):
    """The rules of one are not the rules of the other, and the end of one is not the other's."""
    script = """
print(json.dumps([carry_out({'do': 'http', 'host': h}) for h in ('db.example', 'example.com')]), flush=True)
sys.stdin.readline()
print(json.dumps([carry_out({'do': 'http', 'host': h}) for h in ('db.example', 'example.com')]), flush=True)
"""
    one, two = start(RULES, script), start(allow("example.com"), script)
    assert gateways(one.pid) != gateways(two.pid)
    assert ["error" in r for r in json.loads(one.first)] == [False, True]
    assert ["error" in r for r in json.loads(two.first)] == [True, False]
    kill(gateways(one.pid)[0], home)
    out, _ = two.communicate(b"\n", timeout=20)
    assert ["error" in r for r in json.loads(out)] == [True, False]
    out, _ = one.communicate(b"\n", timeout=20)
    assert ["error" in r for r in json.loads(out)] == [True, True]
    assert {c["addr"] for c in net.arrived()} <= {"52.1.2.3", "93.184.216.34", "2606:2800:220:1::1"}


FIELDS = {"name", "address", "port", "bytes_in", "bytes_out", "verdict", "duration_ms"}


@pytest.mark.parametrize(("level", "via"), [("namespaces", None), ("landlock", "connect")])
def test_log(home, net, level, via):
    log = home.out / "net.log"
    steps = [
        {"do": "http", "host": "db.example", "via": via},
        {"do": "tcp", "host": "db.example", "port": 9000, "send": "SEND 5000\n", "via": via},
        {"do": "http", "host": "93.184.216.34", "via": via},
    ]
    got = home.within([*RULES, "--net-log", log], *steps, level=level)
    assert ["error" in r for r in got["results"]] == [False, False, True], got
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert all(FIELDS <= set(line) for line in lines), lines
    by = {(line["name"], line["port"]): line for line in lines}
    assert by["db.example", 9000]["address"] == "52.1.2.3" and by["db.example", 9000]["verdict"] == "allowed"
    assert by["db.example", 9000]["bytes_in"] == 5000 and by["db.example", 9000]["bytes_out"] == len("SEND 5000\n")
    assert by["db.example", 80]["verdict"] == "allowed" and by["db.example", 80]["bytes_in"] > 100
    (other,) = [line for line in lines if line["name"] != "db.example"]
    assert other["port"] == 80 and other["verdict"] != "allowed", other
    assert all(line["duration_ms"] >= 0 for line in lines)
    assert got["usage"]["net_bytes_in"] >= 5100


def test_log_cannot_be_written(home):
    done = home.run([*RULES, "--net-log", home.out / "no" / "such" / "directory"], ["true"])
    assert done.returncode == 125 and b"net-log" in done.stderr or b"no/such" in done.stderr, done


def test_log_is_not_the_guests(home):
    """The file is outside of every grant: only the gateway writes to it."""
    log = home.out / "net.log"
    done = home.run([*RULES, "--net-log", log], ["sh", "-c", f"echo forged >>{log}"])
    assert done.returncode != 0 and "forged" not in log.read_text()


def test_denials(home, net, level):
    via = "connect" if level == "landlock" else None
    steps = [{"do": "http", "host": h, "via": via} for h in ("example.com", "example.com", "secret.example.com", "93.184.216.34")]
    got = home.within([*allow("*.example.com"), *deny("secret.example.com")], *steps, level=level)
    assert [r for r in got["results"] if "error" not in r] == []
    told = net_denials(got)
    assert all(set(d) == {"what", "target", "rule", "fix", "how", "count"} and d["how"] == "enforced" for d in told)
    assert {d["what"] for d in told} <= {"connect", "resolve"}
    by = {re.split("[: ]", d["target"])[0]: d for d in told}
    assert set(by) == {"example.com", "secret.example.com", "93.184.216.34"} and len(told) == 3, told
    assert by["example.com"]["rule"] == "net.allow" and by["example.com"]["fix"].startswith("--net-allow example.com")
    assert by["secret.example.com"]["rule"] == "net.deny"
    assert net.arrived() == []


def test_denials_of_a_hostile_guest(home):
    """The guest chooses the names: nothing in them reaches a terminal or breaks the JSON."""
    raw = "\x12\x34\x01\x00\x00\x01" + "\0" * 6 + "\x09\x1b[2Jevil\n" + "\x05a\"b\\c" + "\0\x00\x01\x00\x01"
    got = home.within(RULES, {"do": "dns", "raw": raw, "timeout": 1}, {"do": "dns", "raw": "", "timeout": 1})
    text = "".join(d["target"] + (d["fix"] or "") for d in net_denials(got))
    assert not any(ord(c) < 32 or ord(c) > 126 for c in text), text
    done = home.run(RULES, home.steps([{"do": "dns", "raw": raw, "timeout": 1}]), "namespaces")
    assert b"\x1b" not in done.stderr


def test_many_denials_are_bounded(home):
    steps = [{"do": "dns", "name": f"n{i}.example"} for i in range(3000)]
    got = home.within(RULES, *steps)
    assert {r.get("rcode") for r in got["results"]} == {5}
    assert 100 <= len(net_denials(got)) <= 200
