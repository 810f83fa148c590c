# SPDX-License-Identifier: Apache-2.0
"""Limits of a wrapped server: what it takes too much of ends it or is refused, its protocol is whole until
then, and the operator reads why on standard error and in the receipt."""

import json

import pytest
from conftest import LEVELS, survivors, unavailable
from mcplib import client  # noqa: F401

SERVER = """
import json, os, sys, time
kept = []
for line in sys.stdin:
    m = json.loads(line)
    did = None
    if m["method"] == "grow":
        kept.append(bytearray(m["params"]["bytes"]))
    elif m["method"] == "spin":
        end = time.process_time() + m["params"]["seconds"]
        while time.process_time() < end: pass
    elif m["method"] == "sleep":
        time.sleep(m["params"]["seconds"])
    elif m["method"] == "fork":
        did = 0
        for _ in range(m["params"]["times"]):
            try:
                if os.fork() == 0: time.sleep(600); os._exit(0)
                did += 1
            except OSError as e:
                print(e, file=sys.stderr, flush=True)
                break
        time.sleep(m["params"]["hold"])
    elif m["method"] == "say":
        did = "x" * m["params"]["bytes"]
    elif m["method"] == "write":
        try:
            with open(os.path.expanduser("~/big"), "wb") as f: f.write(bytes(m["params"]["bytes"]))
        except OSError as e:
            did = str(e)
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"did": did}}), flush=True)
    if m.get("params", {}).get("status"): sys.exit(m["params"]["status"])
"""


@pytest.fixture(params=LEVELS)
def level(request, me):
    if not me.can(request.param):
        unavailable(f"level {request.param} does not work here")
    return request.param


@pytest.fixture
def wrapped(client, me, level):
    server = me.write(me.work / "server.py", SERVER)

    def start(*opts):
        return client("--wrap", "--isolation", level, "--receipt", me.work / "receipt", *opts, "--", "/usr/bin/python3", server, begin=None)

    return start


def ended(me, c, kind, status):
    """It has ended by itself, with this status and this receipt; what it said."""
    rest = c.process.stdout.read()
    said = c.process.stderr.read().decode()
    assert c.process.wait(20) == status, said
    receipt = json.loads((me.work / "receipt").read_text())
    assert receipt["kind"] == kind, receipt
    assert not survivors(5)
    return said, receipt, rest


# Method and parameters, the option, what becomes of it, its status, the rule, the words.
ENDS = {
    "memory": ("grow", {"bytes": 400 << 20}, ["-m", "64M"], 137, "limits.memory", ("memory limit of 64M", "-m")),
    "timeout": ("sleep", {"seconds": 600}, ["-t", "1s"], 124, None, ("time limit of 1s", "-t")),
    "cpu_time": ("spin", {"seconds": 600}, ["--cpu-time", "1s"], 124, "limits.cpu_time", ("CPU time limit of 1s", "--cpu-time")),
    "output": ("say", {"bytes": 1 << 20}, ["--max-output", "64K", "--end-on-output"], 137, None, ("output limit", "--max-output")),
}


@pytest.mark.parametrize("kind", ENDS)
def test_a_limit_that_ends_the_server(wrapped, me, kind):
    method, params, opts, status, rule, words = ENDS[kind]
    c = wrapped(*opts)
    if kind != "timeout":  # it may be over before a busy machine has started Python
        assert c.ask("hello")["result"] == {"did": None}
    c.request(method, params)
    said, receipt, rest = ended(me, c, kind, status)
    assert all(word in said for word in words), said
    assert rule is None or [d["rule"] for d in receipt["denials"]] == [rule]
    assert len(rest) <= 64 << 10
    # The control: with more of it, or without the option, the same server goes on.
    if kind == "memory":
        c = wrapped("-m", "1G")
        assert c.ask(method, params)["result"] == {"did": None}
    elif kind == "output":
        c = wrapped("--max-output", "2M", "--end-on-output")
        assert len(c.ask(method, params)["result"]["did"]) == 1 << 20


def test_no_limit_unless_one_is_given(wrapped, me):
    """A call of our own server may take two minutes and 64 KiB; somebody else's server runs as long as its client does."""
    c = wrapped()
    assert len(c.ask("say", {"bytes": 1 << 20})["result"]["did"]) == 1 << 20
    c.end()
    receipt = json.loads((me.work / "receipt").read_text())
    assert (receipt["kind"], receipt["denials"], receipt["truncated"]) == ("exited", [], {"stdout": False, "stderr": False})
    assert receipt["isolation"]["limits"].get("wall", "none") == "none" and receipt["isolation"]["limits"].get("memory", "none") == "none"


def test_tasks_are_refused_or_end_it(wrapped, me, level):
    for hold in (0.3, 3):  # the watch has to see them; on a busy machine that takes it longer
        c = wrapped("-P", "8")
        c.request("fork", {"times": 50, "hold": hold, "status": 1})
        rest = c.process.stdout.read()
        said = c.process.stderr.read().decode()
        status = c.process.wait(20)
        receipt = json.loads((me.work / "receipt").read_text())
        assert not survivors(5)
        if level == "landlock" and receipt["kind"] == "exited":
            break  # the kernel counts all of the user's tasks there, and only ours are seen
        if receipt["denials"]:
            break
    if receipt["kind"] == "procs":  # nothing refuses them for uid 0 at level landlock
        assert level == "landlock" and status == 137 and "more than 8 tasks" in said and "-P" in said, said
        return
    assert status == 1 and json.loads(rest)["result"]["did"] < 8 and "Resource temporarily unavailable" in said
    if level == "landlock":
        return
    assert [d["rule"] for d in receipt["denials"]] == ["limits.procs"] and "-P" in receipt["denials"][0]["fix"]
    assert "limit of 8 tasks" in said and "-P" in said, said


def test_a_disk_that_is_full_is_refused_and_told(wrapped, me, level):
    c = wrapped("--disk", "1M")
    if level == "landlock":  # has no file system of its own, so nothing starts
        assert c.process.stdout.read() == b"" and c.process.wait(20) == 125
        assert b"limits.disk (--disk) cannot be enforced here" in c.process.stderr.read()
        return
    got = c.ask("write", {"bytes": 4 << 20})["result"]["did"]
    assert "space" in got
    said = c.end()
    receipt = json.loads((me.work / "receipt").read_text())
    assert ["limits.disk"] == [d["rule"] for d in receipt["denials"]] and "--disk" in said, (said, receipt)


def test_output_that_is_cut_is_told(wrapped, me):
    """Without --end-on-output the server goes on, but its protocol does not: the operator has to know why."""
    c = wrapped("--max-output", "4K")
    assert c.ask("hello")["result"] == {"did": None}
    c.request("say", {"bytes": 100000})
    c.process.stdin.close()
    got = c.process.stdout.read()
    said = c.process.stderr.read().decode()
    assert c.process.wait(20) == 0 and len(got) < 4096
    receipt = json.loads((me.work / "receipt").read_text())
    assert receipt["truncated"]["stdout"] and receipt["output_bytes"]["stdout"] > 100000
    assert "the output was cut" in said and "--max-output" in said, said
