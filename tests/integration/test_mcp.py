# SPDX-License-Identifier: Apache-2.0
"""The MCP server: both eras of the protocol, its tools, hostile clients, hostile guests, and
arguments that ask for more than the operator allows."""

import base64
import json
import os
import pathlib
import re
import signal
import time

import pytest
from conftest import ceiling, survivors, unavailable
from mcplib import (  # noqa: F401
    LEGACY, META, MODERN, client, conforms, descendants_named, error_of, project, wait_until,
)  # fmt: skip


# --- eras ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", LEGACY)
def test_each_revision_that_begins_with_initialize(client, revision):
    c = client(begin=revision)
    assert c.hello["result"]["protocolVersion"] == revision
    assert c.hello["result"]["serverInfo"]["name"] == "cordon"
    assert c.hello["result"]["capabilities"] == {"tools": {}}
    assert c.ask("ping")["result"] == {}
    assert "run_command" in c.tools()
    got = c.call("run_command", command="echo hello")
    assert (got.texts[0], got.failed) == ("hello\n", False)
    assert "resultType" not in got.all


def test_an_unknown_revision_is_answered_with_the_newest(client):
    c = client(begin="1999-01-01")
    assert c.hello["result"]["protocolVersion"] == "2025-11-25"


def test_the_stateless_revision(client):
    c = client(begin=MODERN)
    found = c.ask("server/discover")["result"]
    assert found["supportedVersions"][0] == MODERN and set(LEGACY) < set(found["supportedVersions"])
    assert found["resultType"] == "complete" and found["cacheScope"] == "private" and found["ttlMs"] > 0
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "cordon"
    listed = c.ask("tools/list")["result"]
    assert listed["resultType"] == "complete" and listed["ttlMs"] > 0
    got = c.call("run_command", command="echo hello")
    assert got.all["resultType"] == "complete" and got.texts[0] == "hello\n"
    assert error_of(c.ask("ping")) == -32601
    assert error_of(c.ask("initialize", {"protocolVersion": "2025-11-25"})) == -32601


def test_a_client_may_ask_for_one_era_and_use_the_other(client):
    c = client(begin=MODERN)
    assert "result" in c.ask("server/discover")
    c.begin = "2025-11-25"
    assert "result" in c.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
    assert "result" in c.ask("tools/list")
    c.begin = MODERN
    assert "result" in c.ask("tools/list")


def test_what_an_envelope_lacks_is_told(client):
    c = client(begin=None)
    assert error_of(c.ask("server/discover")) == -32602
    assert error_of(c.ask("tools/list")) == -32600  # neither initialize nor an envelope
    versions = {"io.modelcontextprotocol/protocolVersion": MODERN}
    assert error_of(c.ask("tools/list", **versions)) == -32602
    wrong = c.ask("tools/list", **{**META, "io.modelcontextprotocol/protocolVersion": "2030-01-01"})
    assert error_of(wrong) == -32022
    assert wrong["error"]["data"]["requested"] == "2030-01-01" and MODERN in wrong["error"]["data"]["supported"]


def test_batches_are_of_one_revision(client):
    c = client(begin="2025-03-26")
    asked = [
        {"jsonrpc": "2.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "run_command", "arguments": {"command": "echo 1"}}},
        {"jsonrpc": "2.0", "id": "c", "method": "initialize", "params": {"protocolVersion": "2025-03-26"}},
        7,
    ]
    c.send(asked)
    got = c.read()
    assert {one["id"] for one in got} == {"a", "b", "c", None} and len(got) == 4
    by_id = {one["id"]: one for one in got}
    assert by_id["b"]["result"]["content"][0]["text"] == "1\n"
    assert error_of(by_id["c"]) == error_of(by_id[None]) == -32600
    c.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}])  # has no answer
    c.send([])
    assert error_of(c.read()) == -32600
    c.send([{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(65)])
    assert error_of(c.read()) == -32600
    other = client(begin="2025-11-25")
    other.send(asked)
    assert error_of(other.read()) == -32600
    assert other.ask("ping")["result"] == {}


# --- JSON-RPC ------------------------------------------------------------------------------------

PING = b'{"jsonrpc":"2.0","id":"p","method":"ping"}\n'
GARBAGE = {
    "half a line": (b'{"jsonrpc":"2.0","id":1,\n', -32700, 1),
    "no JSON": (b"hello\n", -32700, None),
    "a byte that is no UTF-8": (b'{"jsonrpc":"2.0","id":2,"method":"\xff"}\n', -32700, 2),
    "NUL": (b'{"jsonrpc":"2.0","id":3,"method":"p\\u0000"}\n', -32700, 3),
    "half a surrogate": (b'{"jsonrpc":"2.0","id":4,"method":"\\ud800"}\n', -32700, 4),
    "two ids": (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}\n', -32700, None),
    "a key twice": (b'{"jsonrpc":"2.0","id":5,"method":"ping","method":"x"}\n', -32700, 5),
    "deep": (b'{"jsonrpc":"2.0","id":6,"method":"ping","params":' + b"[" * 100000 + b"]" * 100000 + b"}\n", -32600, 6),
    "deep enough": (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":' + b"[" * 50 + b"]" * 50 + b"}}\n", -32700, 7),
    "many values": (b'{"jsonrpc":"2.0","id":8,"method":"ping","params":{"a":[' + b"1," * 70000 + b"1]}}\n", -32600, 8),
    "a fraction as id": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n', -32600, None),
    "an object as id": (b'{"jsonrpc":"2.0","id":{},"method":"ping"}\n', -32600, None),
    "null as id": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n', -32600, None),
    "a long id": (b'{"jsonrpc":"2.0","id":"' + b"x" * 600 + b'","method":"ping"}\n', -32600, None),
    "no version": (b'{"id":9,"method":"ping"}\n', -32600, 9),
    "another version": (b'{"jsonrpc":"1.0","id":10,"method":"ping"}\n', -32600, 10),
    "no method": (b'{"jsonrpc":"2.0","id":11}\n', -32600, 11),
    "a number as method": (b'{"jsonrpc":"2.0","id":12,"method":1}\n', -32600, 12),
    "a list as parameters": (b'{"jsonrpc":"2.0","id":13,"method":"ping","params":[]}\n', -32602, 13),
    "an unknown method": (b'{"jsonrpc":"2.0","id":14,"method":"resources/list"}\n', -32601, 14),
    "a string": (b'"x"\n', -32600, None),
}


def test_malformed_messages_are_answered_and_the_server_goes_on(client):
    c = client()
    for name, (data, code, number) in GARBAGE.items():
        c.raw(data)
        got = c.read()
        assert (error_of(got), got["id"]) == (code, number), name
        c.raw(PING)
        assert c.read()["id"] == "p", name


def test_what_has_no_answer(client):
    c = client()
    c.raw(b"\n \r\n")
    c.send({"jsonrpc": "2.0", "method": "notifications/unknown"})
    for params in ({"requestId": 99}, {"requestId": {}}, {}, [99], "x", None):
        c.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    c.send({"jsonrpc": "2.0", "id": 1, "result": {}})
    c.send({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}})
    c.raw(PING)
    assert c.read()["id"] == "p"


def test_a_line_without_end_is_thrown_away(client):
    c = client()
    for _ in range(100):
        c.raw(b'{"x":"' + b"a" * (1 << 20))
    got = c.read()
    assert (error_of(got), got["id"]) == (-32600, None)
    status = pathlib.Path(f"/proc/{c.pid}/status").read_text()
    assert int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) < 64 << 10
    c.raw(b"\n" + PING)
    assert c.read()["id"] == "p"


def test_ids_come_back_as_they_were(client):
    c = client()
    for number in (0, -1, 2**53, "", "ü ☃", 'a"\\\n', "x" * 490):
        c.send({"jsonrpc": "2.0", "id": number, "method": "ping"})
        got = c.read()
        assert got["id"] == number and type(got["id"]) is type(number)


def test_an_id_in_use_is_refused_without_spoiling_the_first(client):
    c = client()
    params = {"name": "run_command", "arguments": {"command": "read line; echo $line", "stdin": "first\n"}}
    slow = {"name": "run_command", "arguments": {"command": "sleep 0.5; echo first"}}
    c.send({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": slow})
    c.send({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params})
    refused = c.read()
    assert (error_of(refused), refused["id"]) == (-32600, None)
    assert c.read()["result"]["content"][0]["text"] == "first\n"
    c.send({"jsonrpc": "2.0", "id": 5, "method": "ping"})  # it is free again
    assert c.read()["result"] == {}


def test_calls_of_another_shape(client):
    c = client()
    for params in ({}, {"name": 1}, {"name": "nothing"}, {"name": "run_command", "arguments": []}):
        assert error_of(c.ask("tools/call", params)) == -32602
    assert error_of(c.ask("tools/list", {"cursor": "x"})) == -32602
    assert error_of(c.ask("initialize", {})) == -32602


# --- tools ---------------------------------------------------------------------------------------


def test_every_tool_says_what_it_takes_and_gives(client, project):
    plain, copied = client().tools(), client("--workspace", project, "--allow-commit").tools()
    assert set(copied) - set(plain) == {"workspace_diff", "workspace_commit"}
    for name, tool in copied.items():
        assert tool["inputSchema"]["type"] == "object" and tool["inputSchema"]["additionalProperties"] is False
        assert tool["outputSchema"]["type"] == "object" and tool["description"] and tool["title"]
        assert tool["annotations"]["readOnlyHint"] == (name.startswith(("read", "list", "get")) or name == "workspace_diff")
        assert tool["annotations"]["openWorldHint"] is False
    assert client("--net-allow", "example.com").tools()["run_command"]["annotations"]["openWorldHint"] is True


def test_run_command(client):
    c = client()
    schema = c.tools()["run_command"]["outputSchema"]
    got = c.call("run_command", command="echo out; echo err >&2; exit 3")
    conforms(got.data, schema)
    assert set(schema["properties"]) - set(got.data) == {"stdout_base64", "stderr_base64"}
    assert set(got.data) <= set(schema["properties"])
    assert (got.data["kind"], got.data["exit_code"], got.failed) == ("exited", 3, False)
    assert (got.data["stdout"], got.data["stderr"]) == ("out\n", "err\n")
    assert got.texts[:2] == ["out\n", "err\n"] and got.texts[2].startswith("exit code 3,")
    got = c.call("run_command", command=["printf", "%s|", "a b", "$HOME", ""])
    assert got.data["stdout"] == "a b|$HOME||"
    got = c.call("run_command", command="cat; pwd", stdin="gr\u00fc\u00df", cwd="/tmp")
    assert got.data["stdout"] == "gr\u00fc\u00df/tmp\n"
    got = c.call("run_command", command="printf 'a\\377b'")
    assert got.data["stdout"] == "a\ufffdb" and base64.b64decode(got.data["stdout_base64"]) == b"a\xffb"
    got = c.call("run_command", command="kill -9 $$")
    conforms(got.data, schema)
    assert (got.data["kind"], got.data["signal"], got.failed) == ("signaled", 9, True)
    assert c.call("run_command", command=["no-such-program"]).data["exit_code"] == 127
    assert c.call("run_command", command="true", cwd="/nowhere").data["exit_code"] == 125


WRONG = [
    ("run_command", {}, "command"),
    ("run_command", {"command": 1}, "string or a list"),
    ("run_command", {"command": []}, "words"),
    ("run_command", {"command": ["a", 1]}, "list of strings"),
    ("run_command", {"command": ["-c", "x"]}, "name"),
    ("run_command", {"command": "x", "stdin": 1}, "stdin"),
    ("run_command", {"command": "x", "cwd": []}, "cwd"),
    ("run_command", {"command": "x", "timeout": "1"}, "timeout"),
    ("run_command", {"command": "x", "timeout": 0}, "timeout"),
    ("run_command", {"command": "x", "timeout": -1}, "timeout"),
    ("run_code", {"code": "1", "language": "cobol"}, "language"),
    ("run_code", {"code": "1" * 130000}, "write it to a file"),
    ("run_code", {}, "code"),
    ("read_file", {}, "path"),
    ("read_file", {"path": "x", "limit": -1}, "limit"),
    ("read_file", {"path": "x" * 5000}, "path"),
    ("write_file", {"path": "x"}, "content"),
    ("write_file", {"path": "x", "content": "=", "encoding": "base64"}, "base64"),
    ("write_file", {"path": "x", "content": "x", "encoding": "utf-16"}, "encoding"),
    ("edit_file", {"path": "x", "old_text": "", "new_text": "x"}, "old_text"),
    ("list_files", {"depth": 1.5}, "depth"),
]


def test_wrong_arguments_are_told_to_the_model(client):
    c = client()
    for tool, arguments, word in WRONG:
        got = c.call(tool, **arguments)
        assert got.failed and word in got.text, (tool, arguments, got.text)


def test_a_command_that_is_too_long_is_no_matter_of_options(client):
    c = client()
    for command in ("true " + "x" * 200000, ["true", "x" * 200000], ["true", *["x" * 100000] * 80]):
        got = c.call("run_command", command=command)
        assert got.failed and got.data["kind"] == "spawn_failed"
        assert "to a file" in got.texts[-1] and "operator" not in got.texts[-1]


def test_run_code(client):
    c = client()
    assert c.call("run_code", code="print(6 * 7)").data["stdout"] == "42\n"
    assert c.call("run_code", code="echo $((6 * 7))", language="bash").data["stdout"] == "42\n"
    assert c.call("run_code", code="printf '%s' \"$0\"", language="sh").data["exit_code"] == 0
    got = c.call("run_code", code="raise ValueError('no')")
    assert got.data["exit_code"] == 1 and "ValueError: no" in got.texts[0] and not got.failed


def test_time_is_limited_by_the_operator_and_less_by_the_model(client):
    c = client("-t", "2s")
    began = time.monotonic()
    got = c.call("run_command", command="echo begun; sleep 60", timeout=0.3)
    assert got.data["kind"] == "timeout" and got.failed and got.data["stdout"] == "begun\n"
    assert "asked for" in got.text and "-t" not in got.text
    got = c.call("run_command", command="sleep 60", timeout=9)
    assert got.failed and got.data is None and "--timeout" in got.text
    got = c.call("run_command", command="sleep 60")
    assert got.data["kind"] == "timeout" and "raise it with -t" in got.text
    assert time.monotonic() - began < ceiling(30)


@pytest.mark.parametrize("opts", [[], ["--net-allow", "example.org"]])
def test_what_may_have_been_refused_in_a_workspace_is_told(client, project, opts):
    c = client("--workspace", project, *opts)
    got = c.call("run_command", command="python3 -c 'import socket; socket.getaddrinfo(\"example.com\", 443)'")
    assert got.data["exit_code"] == 1 and "operator" in got.texts[-1] and "--net-allow" in got.texts[-1]
    assert ("there is no network" in got.texts[-1]) == (not opts)
    assert "--net-allow" not in c.call("run_command", command="true").text


def test_refusals_are_told_with_what_to_ask_for(client):
    got = client().call("run_command", command="python3 -c 'import socket; socket.getaddrinfo(\"example.com\", 443)'")
    assert got.data["exit_code"] == 1
    assert got.data["denials"][0]["fix"] == "--net-allow example.com"
    assert "--net-allow example.com" in got.texts[-1] and "operator" in got.texts[-1]


@pytest.mark.parametrize("opts", [[], ["--workspace", "."]], ids=["apart", "workspace"])
def test_a_file_elsewhere_is_told(client, me, project, opts):
    """With a workspace, too, where all calls share one sandbox."""
    data = me.write(me.out / "data", "x")
    c = client(*opts, cwd=str(project))
    got = c.call("run_command", command=["cat", str(data)])
    assert [(d["target"], d["fix"]) for d in got.data["denials"]] == [(str(data), f"-r {data}")]
    assert f"-r {data}" in got.texts[-1] and "operator" in got.texts[-1]
    # Whether the host has it is not told.
    got = c.call("run_command", command=["cat", f"{me.out}/none"])
    assert [d["fix"] for d in got.data["denials"]] == [f"-r {me.out}/none"]
    assert c.call("run_command", command=["cat", "nothing"]).data["denials"] == []


def test_output_is_cut_at_its_limit(client):
    c = client("--max-output", "1k")
    got = c.call("run_command", command="seq 100000; echo end")
    assert got.data["truncated"]["stdout"] and len(got.data["stdout"]) == 1024
    assert got.data["stdout"].startswith("1\n") and got.data["stdout"].endswith("end\n")
    assert "cut" in got.texts[-1]


def test_get_limits(client, project):
    c = client("--workspace", project, "-t", "7s", "-m", "300M", "--net-allow", "example.com")
    got = c.call("get_limits").data
    conforms(got, c.tools()["get_limits"]["outputSchema"])
    assert got["timeout_ms"] == 7000 and got["memory_bytes"] == 300 << 20 and got["network"] is True
    assert got["workspace"] == {"directory": str(project), "mode": "copy-on-write", "may_commit": False}
    assert got["policy"]["net"]["allow"] and got["policy"]["limits"]["memory"]
    got = client().call("get_limits").data  # what holds if nothing is said
    assert (got["timeout_ms"], got["memory_bytes"], got["policy"]["limits"]["output"]) == (120000, 1 << 30, "64K")


def test_files(client, project):
    c = client("--workspace", project)
    tools = c.tools()
    got = c.call("write_file", path="new/dir/a.txt", content="hello\nwörld\n")
    conforms(got.data, tools["write_file"]["outputSchema"])
    assert got.data == {"path": "new/dir/a.txt", "bytes": 13}
    c.call("write_file", path="new/dir/a.txt", content="more", append=True)
    got = c.call("read_file", path=f"{project}/new/dir/a.txt")
    conforms(got.data, tools["read_file"]["outputSchema"])
    assert got.data == {"content": "hello\nwörld\nmore", "encoding": "utf-8", "bytes": 17, "more": False}
    got = c.call("read_file", path="new/dir/a.txt", offset=6, limit=2)
    assert (got.data["content"], got.data["more"]) == ("w", True)
    got = c.call("edit_file", path="new/dir/a.txt", old_text="hello", new_text="bye")
    conforms(got.data, tools["edit_file"]["outputSchema"])
    assert got.data["replacements"] == 1
    assert c.call("run_command", command="cat new/dir/a.txt").data["stdout"] == "bye\nwörld\nmore"
    assert "does not occur" in c.call("edit_file", path="new/dir/a.txt", old_text="x", new_text="y").text
    got = c.call("list_files", depth=0)
    conforms(got.data, tools["list_files"]["outputSchema"])
    assert {e["path"]: e["type"] for e in got.data["entries"]} == {
        "file.txt": "file", "new": "directory", "new/dir": "directory", "new/dir/a.txt": "file"
    }  # fmt: skip
    data = bytes(range(256)) * 4
    c.call("write_file", path="b", content=base64.b64encode(data).decode(), encoding="base64")
    got = c.call("read_file", path="b")
    assert got.data["encoding"] == "base64" and base64.b64decode(got.data["content"]) == data
    picture = b"\x89PNG\r\n\x1a\n" + data
    c.call("write_file", path="p.png", content=base64.b64encode(picture).decode(), encoding="base64")
    got = c.call("read_file", path="p.png")
    assert got.all["content"][0]["type"] == "image" and got.all["content"][0]["mimeType"] == "image/png"
    assert base64.b64decode(got.all["content"][0]["data"]) == picture


def test_an_edit_has_to_be_clear(client, project):
    c = client("--workspace", project)
    c.call("write_file", path="x", content="a b a")
    assert "2 times" in c.call("edit_file", path="x", old_text="a", new_text="c").text
    assert c.call("edit_file", path="x", old_text="a", new_text="c", replace_all=True).data["replacements"] == 2
    assert c.call("read_file", path="x").data["content"] == "c b c"


def test_an_edit_makes_no_file_without_bounds(client, project):
    c = client("--workspace", project)
    c.call("write_file", path="x", content="a" * 1000)
    for all_of_them, said in ((True, "too large"), (False, "1000 times")):
        got = c.call("edit_file", path="x", old_text="a", new_text="b" * 300000, replace_all=all_of_them)
        assert got.failed and said in got.text
    assert c.call("read_file", path="x").data["content"] == "a" * 1000
    assert not c.call("edit_file", path="x", old_text="a", new_text="b" * 10000, replace_all=True).failed
    assert c.call("run_command", command="wc -c < x").data["stdout"] == "10000000\n"


# --- many calls, and their end -------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["runs", "workspace"])
def test_many_calls_at_once(client, project, mode):
    c = client(*(["--workspace", project] if mode == "workspace" else []), "-P", "1024")
    began = time.monotonic()
    numbers = [c.start("run_command", command=f"sleep 1; echo {n}") for n in range(100)]
    assert [c.result(number).data["stdout"] for number in numbers] == [f"{n}\n" for n in range(100)]
    assert time.monotonic() - began < ceiling(50), "one after the other takes 100 seconds"


def test_more_calls_than_there_is_room_for(client):
    c = client()
    numbers = [c.start("run_command", command="sleep 0.5") for _ in range(300)]
    refused = [n for n in numbers if "error" in c.answer(n, 60)]
    assert 1 <= len(refused) <= 44
    assert c.call("run_command", command="echo on").data["stdout"] == "on\n"


def test_a_cancelled_call_ends_and_is_not_answered(client, project):
    for opts in ([], ["--workspace", project]):
        c = client(*opts)
        # The control: the processes are there before.
        number = c.start("run_command", {"progressToken": 1}, command="echo begun; sleep 600 & sleep 601")
        assert c.read()["method"] == "notifications/progress"
        assert descendants_named(c.pid, "sleep")
        c.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number, "reason": "x"}})
        wait_until(lambda pid=c.pid: not descendants_named(pid, "sleep"))
        assert c.ask("ping")["result"] == {}
        assert not [m for m in c.others if m.get("id") == number]


def test_progress_has_the_output(client):
    c = client()
    number = c.start("run_command", {"progressToken": "t"}, command="for n in 1 2 3; do echo $n; sleep 0.4; done")
    seen = []
    while not seen or "id" not in seen[-1]:
        seen.append(c.read())
    assert seen[-1]["id"] == number and seen[-1]["result"]["structuredContent"]["stdout"] == "1\n2\n3\n"
    told = [one["params"] for one in seen[:-1]]
    assert told and {one["progressToken"] for one in told} == {"t"}
    assert [one["progress"] for one in told] == sorted({one["progress"] for one in told})
    assert "1\n2\n3\n".startswith("".join(one.get("message", "") for one in told))
    # Without a token there is none.
    number = c.start("run_command", command="echo 1; sleep 0.6")
    assert c.read()["id"] == number


def test_a_call_that_waits_says_so(client, project):
    """64 run at once; without a word the next one looks like one that hangs."""
    c = client("-P", "1024")
    gate = [c.start("run_command", command="sleep 600") for _ in range(64)]
    number = c.start("run_command", {"progressToken": "w"}, command="echo now; sleep 0.5")
    quiet = c.start("run_command", command="true")
    seen = [c.read()]
    for one in gate:
        c.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": one}})
    while seen[-1].get("id") != number:
        seen.append(c.read())
    told = [one["params"] for one in seen if one.get("method") == "notifications/progress"]
    assert {one["progressToken"] for one in told} == {"w"}
    assert told[0]["message"] == "waiting until another call is over\n"
    assert [one["progress"] for one in told] == sorted({one["progress"] for one in told})
    # Its output follows, and nothing of the waiting is in it.
    assert seen[-1]["result"]["structuredContent"]["stdout"] == "now\n"
    c.others += [one for one in seen if "id" in one]
    assert not c.result(quiet).failed


def told_before(c, number):
    """What progress says until that call is answered."""
    told = []
    while (message := c.read()).get("id") != number:
        told.append(message["params"].get("message", ""))
    return told


def test_progress_has_both_outputs_and_whole_characters(client):
    c = client()
    command = "echo out; echo err >&2; sleep 0.5; printf 'a\\303'; sleep 0.5; printf '\\274b'; sleep 0.5"
    told = "".join(told_before(c, c.start("run_command", {"progressToken": 1}, command=command)))
    assert "err\n" in told and "out\naüb".startswith(told.replace("err\n", "")), told


def test_progress_tells_nothing_twice_when_output_is_cut(client):
    c = client("--max-output", "1k")
    command = "for n in 1 2 3 4; do seq ${n}000 ${n}999; sleep 0.4; done"
    told = told_before(c, c.start("run_command", {"progressToken": 1}, command=command))
    assert len(told) >= 2 and "".join(told).count("1000\n") <= 1, told


def test_progress_of_a_file_is_not_the_protocol_that_carries_it(client, me, project):
    me.write(project / "large", b"x" * (4 << 20))
    c = client("--workspace", project, "--direct")
    numbers = {c.start("read_file", {"progressToken": n}, path="large", limit=10) for n in range(60)}
    while numbers:
        message = c.read()
        numbers.discard(message.get("id"))
        assert "message" not in message.get("params", {}), message


@pytest.mark.parametrize("how", ["closes", "does not listen", "dies", "SIGTERM", "SIGKILL"])
@pytest.mark.parametrize("mode", ["runs", "workspace"])
def test_nothing_is_left_when_it_ends(client, project, how, mode):
    c = client(*(["--workspace", project] if mode == "workspace" else []))
    for _ in range(5):
        c.start("run_command", {"progressToken": 1}, command="echo x; setsid sleep 600 & sleep 600")
    wait_until(lambda: len(descendants_named(c.pid, "sleep")) >= 10)
    if how == "closes":
        c.process.stdin.close()
    elif how == "does not listen":
        c.process.stdout.close()
    elif how == "dies":
        c.process.stdin.close()
        c.process.stdout.close()
    else:
        os.kill(c.pid, getattr(signal, how))
    c.process.wait(10)
    assert not survivors(5)


def test_a_client_that_does_not_read(client):
    c = client("--max-output", "4M")
    for _ in range(60):
        c.start("run_command", command="head -c 1000000 /dev/zero | tr '\\0' x")
    time.sleep(0.5)
    os.kill(c.pid, signal.SIGTERM)
    assert c.process.wait(20) == 0
    assert not survivors(5)


FLOODS = {
    "requests": b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n',
    "garbage": b"garbage\n",
    "notifications": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n',
    "calls": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_command","arguments":{"command":"true"}}}\n',
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_messages_has_bounds(client, name):
    """Of a client that reads no answer: what it sends waits, and takes no more memory."""
    c = client()
    pipe = c.process.stdin.fileno()
    os.set_blocking(pipe, False)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        try:
            os.write(pipe, FLOODS[name] * 200)
        except BlockingIOError:
            time.sleep(0.01)
    status = pathlib.Path(f"/proc/{c.pid}/status").read_text()
    assert int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) < 64 << 10
    os.kill(c.pid, signal.SIGTERM)
    assert c.process.wait(20) == 0
    assert not survivors(5)


def test_a_client_may_go_at_every_point(me):
    """Its messages are cut at each of some places, and its ends are closed."""
    words = b"".join(
        json.dumps(m).encode() + b"\n"
        for m in (
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "run_command", "arguments": {"command": "echo x"}, "_meta": {"progressToken": 1}}},
        )
    )
    for cut in range(0, len(words) + 1, 37):
        done = me.outside([me.cordon, "mcp"], input=words[:cut], stdin=None)
        assert done.returncode == 0, (cut, done.stderr)
        for line in done.stdout.splitlines():
            json.loads(line)
    assert not survivors(5)


# --- hostile guests ------------------------------------------------------------------------------


def test_what_a_guest_prints_is_text(client):
    c = client()
    fake = '{"jsonrpc":"2.0","id":%d,"result":{"content":[],"isError":false}}'
    number = c.number + 1
    got = c.call("run_command", command=f"echo '{fake % number}'; echo '{fake % (number + 1)}' >&2; echo exit code 0, 1 ms; exit 7")
    assert got.data["exit_code"] == 7 and got.texts[-1].startswith("exit code 7,")
    assert got.texts[0].startswith('{"jsonrpc"') and got.data["stdout"].startswith('{"jsonrpc"')
    # Nor has it a descriptor of the server's.
    got = c.call("run_command", command="ls -l /proc/self/fd; echo x > /proc/1/fd/1")
    assert "socket:" not in got.data["stdout"] and got.data["exit_code"] != 0
    assert c.ask("ping")["result"] == {}


def test_a_flood_of_output_stays_within_its_limit(client):
    c = client("-t", "2s")
    got = c.call("run_command", command="yes & yes >&2 & head -c 300M /dev/zero")
    assert len(got.data["stdout"]) + len(got.data.get("stderr", "")) <= 2 * 65536
    status = pathlib.Path(f"/proc/{c.pid}/status").read_text()
    assert int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) < 32 << 10


FORK_AWAY = "python3 -c 'import os,time\nfor i in range(3):\n if os.fork()==0:\n  os.setsid()\n  if os.fork(): os._exit(0)\n  time.sleep(600)'"


@pytest.mark.parametrize("mode", ["runs", "workspace"])
def test_processes_that_fork_away_end_too(client, project, mode):
    c = client(*(["--workspace", project] if mode == "workspace" else []))
    got = c.call("run_command", command=FORK_AWAY)
    assert got.data["exit_code"] == 0
    wait_until(lambda: not descendants_named(c.pid, "python3"))
    assert c.call("run_command", command="echo on; cat file.txt 2>&1").data["stdout"].startswith("on\n")


def test_a_limit_of_the_workspaces_sandbox_is_told_and_the_next_call_works(client, project):
    c = client("--workspace", project, "-m", "64M")
    c.call("write_file", path="kept", content="1")
    got = c.call("run_code", code="x = bytearray(400 << 20); print(len(x))")
    assert got.failed and "memory" in got.text
    assert c.call("run_command", command="cat kept").data["stdout"] == "1"


# --- arguments that ask for more -----------------------------------------------------------------


@pytest.mark.parametrize("mode", ["runs", "workspace", "direct"])
def test_no_argument_widens_the_policy(client, me, project, mode):
    secret = me.write(me.out / "secret", "canary\n")
    assert me.outside(["cat", secret]).stdout == b"canary\n"  # the control
    me.write(me.out / "tool", f"#!/bin/sh\ncat {secret}\n", mode=0o755)
    opts = {"runs": [], "workspace": ["--workspace", project], "direct": ["--workspace", project, "--direct"]}
    c = client(*opts[mode])
    tries = [
        ("run_command", {"command": f"cat {secret}"}),
        ("run_command", {"command": "cat secret", "cwd": str(me.out)}),
        ("run_command", {"command": "ls", "cwd": str(me.out)}),
        ("run_command", {"command": [str(me.out / "tool")]}),
        ("run_command", {"command": ["sh", "-c", f"cat {secret}"]}),
        ("run_code", {"code": f"print(open({str(secret)!r}).read())"}),
        ("run_code", {"code": "import os; print(os.listdir('.'))", "cwd": str(me.out)}),
        ("read_file", {"path": str(secret)}),
        ("read_file", {"path": "../outside/secret"}),
        ("list_files", {"path": str(me.out)}),
        ("edit_file", {"path": str(secret), "old_text": "canary", "new_text": "x"}),
        ("run_command", {"command": f"ln -s {secret} link; cat link"}),
        ("read_file", {"path": "link"}),
        ("write_file", {"path": str(me.out / "made"), "content": "x"}),
        ("run_command", {"command": f"echo x > {me.out}/made"}),
    ]
    for tool, arguments in tries:
        got = c.call(tool, **arguments)
        assert "canary" not in json.dumps(got.all) and "'secret'" not in got.text, (tool, arguments)
    assert not (me.out / "made").exists() and secret.read_text() == "canary\n"
    for more in ({"workspace": "/"}, {"write": ["/"]}, {"policy": {}}, {"net_allow": ["x"]}, {"env": {"A": "b"}}):
        assert c.call("run_command", command="true", **more).failed
    got = c.ask("tools/call", {"name": "run_command", "arguments": {"command": f"cat {secret}"}, "policy": {"fs": {"read": ["/"]}}}, **{"cordon/policy": {"fs": {"read": ["/"]}}})
    assert "canary" not in json.dumps(got)


def test_the_callers_environment_and_directory_are_not_shown(client, me):
    me.write(me.work / "here", "canary\n")
    c = client(env={"SECRET_KEY": "canary"})
    got = c.call("run_command", command=f"env; ls -la . {me.work}; cat {me.work}/here")
    assert "canary" not in got.data["stdout"] and "here\n" not in got.data["stdout"]
    c = client("-e", "SECRET_KEY", "-r", ".", env={"SECRET_KEY": "canary"})
    got = c.call("run_command", command=f"echo $SECRET_KEY; cat {me.work}/here")
    assert got.data["stdout"] == "canary\ncanary\n"


def test_level_landlock(client, me, project):
    if not me.can("landlock"):
        unavailable("level landlock does not work here")
    secret = me.write(me.out / "secret", "canary\n")
    c = client("--isolation", "landlock", "--workspace", project, "--direct")
    assert c.call("run_command", command="cat file.txt").data["stdout"] == "one\ntwo\n"
    assert c.call("run_command", command=f"cat {secret}").data["exit_code"] == 1
    c.call("write_file", path="file.txt", content="x")
    assert (project / "file.txt").read_text() == "x"


def test_an_idle_server_is_small(client):
    c = client()
    c.call("run_command", command="true")
    status = pathlib.Path(f"/proc/{c.pid}/status").read_text()
    assert int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) <= 4 << 10
