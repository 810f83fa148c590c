# SPDX-License-Identifier: Apache-2.0
"""`cordon mcp --selftest`: what it says of a server that works, and that every one of its checks finds a
server that does not."""

import os
import re

import pytest
from conftest import unavailable
from mcplib import project  # noqa: F401

# A server between --selftest and ours, which spoils what its word says.
DOUBLE = r"""
import json, re, socket, subprocess, sys, threading

breaks, command = set(sys.argv[1].split(",")), sys.argv[2:]
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
asked = {}

def spoil(name, arguments, got):
    words = str(arguments.get("command", "")) + str(arguments.get("code", ""))
    data = got.get("structuredContent") or {}
    if name in breaks:
        got.pop("structuredContent", None)
        got.update(content=[{"type": "text", "text": "broken"}], isError=True)
    if "output" in breaks and words.startswith("echo it works"):
        data["stdout"] = "it WORKS\n"
    if "timeout" in breaks and data.get("kind") == "timeout":
        data["kind"] = "exited"
    if "languages" in breaks and name == "run_code":
        data.update(exit_code=1, stderr="broken\n")
    if "content" in breaks and name == "read_file":
        data["content"] = "one two"
    if "entries" in breaks and name == "list_files":
        data["entries"] = []
    if "state" in breaks and name == "execute":
        data["result"] = None
    if "changes" in breaks and name == "workspace_diff":
        data.pop("changes")
    found = re.search("/tmp/cordon-selftest-......", words)
    if "shows" in breaks and found and words.startswith("cat"):
        data["stdout"] = open(found.group()).read() + "done\n"
    if "writes" in breaks and found and words.startswith("echo"):
        open(found.group(), "w").write("other")
    port = re.search("/dev/tcp/127.0.0.1/([0-9]+)", words)
    if "network" in breaks and port:
        socket.create_connection(("127.0.0.1", int(port.group(1))))

def answers():
    for line in server.stdout:
        message = json.loads(line)
        method, params = asked.pop(message.get("id"), (None, {}))
        got = message.get("result", {})
        if method == "initialize" and "initialize" in breaks:
            got["protocolVersion"] = "2024-11-05"
        if method == "server/discover" and "discover" in breaks:
            got["supportedVersions"] = ["2025-11-25"]
        if method == "tools/list" and "tools" in breaks:
            got["tools"] = [tool for tool in got["tools"] if tool["name"] != "execute"]
        if method == "tools/call":
            spoil(params["name"], params["arguments"], got)
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

thread = threading.Thread(target=answers)
thread.start()
for line in sys.stdin:
    message = json.loads(line)
    if "cancel" in breaks and message["method"] == "notifications/cancelled":
        continue
    if "close" in breaks and message.get("params", {}).get("name") == "close_session":
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"content": [], "structuredContent": {"closed": True}, "isError": False}}) + "\n")
        sys.stdout.flush()
        continue
    if "id" in message:
        asked[message["id"]] = (message["method"], message.get("params"))
    server.stdin.write(line.encode())
    server.stdin.flush()
server.stdin.close()
thread.join()
sys.exit(3 if "end" in breaks else server.wait())
"""


def selftest(me, *words):
    done = me.outside([me.cordon, "mcp", "--selftest", *words])
    lines = done.stdout.decode().splitlines()
    assert all(re.match(r"(ok    |FAILED|absent)  ", line) for line in lines), lines
    told = {"ok": [], "FAILED": [], "absent": []}
    for line in lines:
        how, _, what = line.partition("  ")
        told[how.strip()].append(what.strip().partition(":")[0])
    assert done.returncode == (125 if told["FAILED"] else 0), (done.returncode, lines)
    return told, done.stdout.decode()


def test_a_server_that_works(me, project):
    for opts in ([], ["--workspace", project]):
        told, said = selftest(me, *opts)
        assert not told["FAILED"] and len(told["ok"]) >= 15, said
        assert ("looking at the changes" in told["ok"]) == bool(opts)
    assert os.listdir(project) == ["file.txt"]


def test_a_server_at_level_landlock_works(me, project):
    if not me.can("landlock"):
        unavailable("level landlock does not work here")
    told, said = selftest(me, "--isolation", "landlock", "--workspace", project, "--direct")
    assert not told["FAILED"] and len(told["ok"]) >= 15, said


# What each run of the double spoils. Without languages or sessions other checks are left out.
SPOILED = [
    "initialize,discover,output,timeout,content,entries,state,close,changes,shows,writes,network,cancel,end",
    "tools,languages,create_session",
]


def test_every_check_can_fail(me, project):
    """A check that says `ok` of a server that does not do what it names would be worth nothing."""
    double = me.write(me.work / "double.py", DOUBLE)
    words = [me.cordon, "mcp", "--workspace", str(project)]
    right, said = selftest(me, "--", "/usr/bin/python3", double, "nothing", *words)
    assert not right["FAILED"], said
    wrong, ok = set(), []
    for breaks in SPOILED:
        told, said = selftest(me, "--", "/usr/bin/python3", double, breaks, *words)
        wrong.update(told["FAILED"])
        ok.append(set(told["ok"]))
    assert set(right["ok"]) == wrong
    # And what was not spoiled was not blamed.
    assert {"python", "a session", "list of tools"} <= ok[0] and {"a command", "a limit of time", "cancelling a call"} <= ok[1]


@pytest.mark.parametrize(
    "opts, what",
    [
        (["-r", "/tmp"], {"writing, editing and reading a file", "listing a directory", "a file in the host's /tmp is hidden"}),
        (["-w", "/tmp"], {"a file in the host's /tmp is hidden", "a file in the host's /tmp is kept from changes"}),
        (["--commands", "sh,cat"], {"a limit of time", "python", "javascript", "bash"}),
        (["--workspace", "/nowhere"], None),
    ],
)  # fmt: skip
def test_options_that_forbid_or_open_something(me, opts, what):
    before = set(os.listdir("/tmp"))
    told, said = selftest(me, *opts)
    assert not [name for name in set(os.listdir("/tmp")) - before if "selftest" in name]
    assert told["FAILED"] and (what is None or set(told["FAILED"]) == what), said
    assert what is None or "a command" in told["ok"]


def test_a_workspace_that_cannot_be_kept(me):
    told, said = selftest(me, "--workspace", me.home)
    assert "FAILED  a command: " in said and "XDG_STATE_HOME" in said


def test_a_command_that_is_no_server(me):
    for words in (["/bin/true"], ["/bin/false"], ["/bin/cat"], ["/usr/bin/yes"]):
        told, said = selftest(me, "--", *words)
        assert "revisions with initialize" in told["FAILED"] and set(told["ok"]) <= {"the end"}, (words, said)
    done = me.outside([me.cordon, "mcp", "--selftest", "--", "/no/such/server"])
    assert done.returncode == 125 and b"cannot start '/no/such/server'" in done.stderr and done.stdout == b""
    done = me.outside([me.cordon, "mcp", "--selftest", "-r", "/srv", "--", "/bin/true"])
    assert done.returncode == 125 and b"belong to that" in done.stderr
