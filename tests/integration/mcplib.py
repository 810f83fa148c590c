# SPDX-License-Identifier: Apache-2.0
"""A client of MCP that is nothing but pipes and JSON, so that it can also do what no library does."""

import json
import os
import pathlib
import select
import subprocess
import time

import pytest
from conftest import ceiling

MODERN = "2026-07-28"
LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Client:
    """A server, and both ends of its pipes."""

    def __init__(self, me, *opts, begin="2025-11-25", argv=None, **kw):
        self.me = me
        words = argv or [me.cordon, "mcp", *opts]
        self.process = me.popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw
        )
        self.pid = self.process.pid
        self.number = 0
        self.data = b""
        self.others = []  # messages that were not waited for
        self.begin = begin
        if begin and begin != MODERN:
            self.hello = self.ask("initialize", {"protocolVersion": begin, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        self.raw(json.dumps(message).encode() + b"\n")

    def read(self, seconds=30):
        """The next message."""
        end = time.monotonic() + ceiling(seconds)
        while b"\n" not in self.data:
            left = end - time.monotonic()
            assert left > 0, f"no answer: {self.data[:200]!r}"
            if select.select([self.process.stdout], [], [], left)[0]:
                more = os.read(self.process.stdout.fileno(), 1 << 20)
                assert more, f"the server has ended: {self.process.stderr.read()!r}"
                self.data += more
        line, _, self.data = self.data.partition(b"\n")
        return json.loads(line.decode("utf-8"))

    def answer(self, number, seconds=30):
        """The message with this id."""
        for message in self.others:
            if message.get("id") == number:
                self.others.remove(message)
                return message
        while True:
            message = self.read(seconds)
            if isinstance(message, dict) and message.get("id") == number:
                return message
            self.others.append(message)

    def request(self, method, params=None, **meta):
        """Sends a request; returns its id."""
        self.number += 1
        params = dict(params or {})
        if self.begin == MODERN:
            meta = {**META, **meta}
        if meta:
            params["_meta"] = meta
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        return self.number

    def ask(self, method, params=None, **meta):
        return self.answer(self.request(method, params, **meta))

    def start(self, tool, meta=None, /, **arguments):
        return self.request("tools/call", {"name": tool, "arguments": arguments}, **(meta or {}))

    def result(self, number):
        got = self.answer(number)
        assert "result" in got, got
        return Result(got["result"])

    def call(self, tool, **arguments):
        return self.result(self.start(tool, **arguments))

    def tools(self):
        return {tool["name"]: tool for tool in self.ask("tools/list")["result"]["tools"]}

    def end(self):
        """Closes its input; what it says on standard error."""
        self.process.stdin.close()
        self.process.stdout.read()
        said = self.process.stderr.read().decode()
        assert self.process.wait(10) == 0, said
        return said

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                pipe.close()
            except BrokenPipeError:
                pass


class Result:
    """Of a call."""

    def __init__(self, result):
        self.all = result
        self.data = result.get("structuredContent")
        self.texts = [item["text"] for item in result["content"] if item["type"] == "text"]
        self.text = "\n".join(self.texts)
        self.failed = result["isError"]


@pytest.fixture
def client(me):
    made = []

    def start(*opts, **kw):
        made.append(Client(me, *opts, **kw))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def project(me):
    """A directory of the caller's with a file in it."""
    path = me.mkdir("project")
    me.write(path / "file.txt", "one\ntwo\n")
    return path


def descendants_named(pid, name):
    found, todo = [], [pid]
    parents = {}
    for one in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = pathlib.Path(f"/proc/{one}/stat").read_text()
        except OSError:
            continue
        parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append((int(one), stat))
    while todo:
        for child, stat in parents.get(todo.pop(), []):
            todo.append(child)
            if f"({name})" in stat:
                found.append(child)
    return found


def wait_until(holds, seconds=20):
    end = time.monotonic() + ceiling(seconds)
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def error_of(message):
    return message["error"]["code"]


def conforms(value, schema, where="result"):
    """A part of JSON Schema, for suites without a validator (tests/python/test_mcp_schemas.py has one)."""
    if "type" in schema:
        kinds = {
            "object": dict, "array": list, "string": str, "boolean": bool, "integer": int,
            "number": (int, float), "null": type(None),
        }  # fmt: skip
        named = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        assert any(isinstance(value, kinds[kind]) for kind in named), where
    if "enum" in schema:
        assert value in schema["enum"], where
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            assert name in value, f"{where}.{name}"
        if schema.get("additionalProperties") is False:
            assert set(value) <= set(schema["properties"]), where
        for name, item in value.items():
            if name in schema.get("properties", {}):
                conforms(item, schema["properties"][name], f"{where}.{name}")
    if isinstance(value, list) and "items" in schema:
        for item in value:
            conforms(item, schema["items"], where)
