# SPDX-License-Identifier: Apache-2.0
"""The SDK of 2.x as a client of `cordon mcp`, in each mode that it offers; its validators; and
reference servers, wrapped."""

import asyncio
import json
import os
import pathlib
import subprocess
import sys

import mcp_types.methods
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

BIN = pathlib.Path(sys.executable).parent
CORDON = str(BIN / "cordon")
MODES = ["auto", "legacy", "2026-07-28"]


def connect(mode, *words):
    return Client(stdio_client(StdioServerParameters(command=CORDON, args=["mcp", *words])), mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_every_tool(mode, tmp_path):
    async def work():
        async with connect(mode, "--workspace", str(tmp_path), "--allow-commit") as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"run_command", "execute", "workspace_diff"} <= names

            async def data(name, **arguments):
                return (await client.call_tool(name, arguments)).structured_content

            assert (await data("run_command", command="echo hi; exit 3"))["exit_code"] == 3
            assert (await data("run_code", code="print(1)"))["stdout"] == "1\n"
            await data("write_file", path="a", content="x")
            await data("edit_file", path="a", old_text="x", new_text="y")
            assert (await data("read_file", path="a"))["content"] == "y"
            assert [one["path"] for one in (await data("list_files"))["entries"]] == ["a"]
            assert len((await data("workspace_diff"))["changes"]) == 1
            assert (await data("get_limits"))["network"] is False
            name = (await data("create_session"))["session"]
            await data("execute", session=name, code="x = 6")
            assert (await data("execute", session=name, code="x * 7"))["result"] == {"text/plain": "42"}
            assert await data("close_session", session=name) == {"closed": True}
            await data("workspace_commit")
            assert (tmp_path / "a").read_text() == "y"

    asyncio.run(work())


@pytest.mark.parametrize("mode", MODES)
def test_progress_errors_and_many_calls(mode):
    async def work():
        async with connect(mode) as client:
            seen = []

            async def progress(value, total, message):
                seen.append(message)

            await client.call_tool("run_command", {"command": "echo 1; sleep 0.6; echo 2"}, progress_callback=progress)
            assert "1\n" in "".join(message or "" for message in seen)
            assert (await client.call_tool("run_command", {"command": 1})).is_error
            with pytest.raises(MCPError):
                await client.call_tool("no_such_tool", {})
            calls = [client.call_tool("run_command", {"command": f"echo {n}"}) for n in range(50)]
            got = await asyncio.gather(*calls)
            assert [one.content[0].text for one in got] == [f"{n}\n" for n in range(50)]

    asyncio.run(work())


def exchange(messages):
    """Answers by id, over the wire."""
    data = b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)
    done = subprocess.run([CORDON, "mcp"], input=data, capture_output=True, check=True, timeout=60)
    return {one["id"]: one["result"] for one in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_results_have_the_shape_of_their_revision(version):
    call = {"name": "run_command", "arguments": {"command": "echo hi"}}
    params = {"tools/list": {}, "tools/call": call}
    if version == "2026-07-28":
        params["server/discover"] = {}
        meta = {"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}}
        for one in params.values():
            one["_meta"] = meta
    else:
        hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        params = {"initialize": hello, "ping": {}, **params}
    got = exchange([{"id": method, "method": method, "params": one} for method, one in params.items()])
    assert set(got) == set(params)
    for method, result in got.items():
        mcp_types.methods.validate_server_result(method, version, result)
    with pytest.raises(Exception):  # the control
        mcp_types.methods.validate_server_result("tools/list", version, {"tools": 1})


@pytest.mark.parametrize("mode", MODES)
def test_a_wrapped_reference_server_works(mode):
    async def work():
        async with connect(mode, "--wrap", "--", str(BIN / "mcp-server-time"), "--local-timezone", "UTC") as client:
            got = await client.call_tool("get_current_time", {"timezone": "UTC"})
            assert not got.is_error and "UTC" in got.content[0].text

    asyncio.run(work())


def test_a_wrapped_server_has_no_network_and_its_refusals_are_told(tmp_path):
    receipt, log = tmp_path / "receipt", tmp_path / "log"
    words = ["mcp", "--wrap", "--receipt", str(receipt), "--", str(BIN / "mcp-server-fetch"), "--ignore-robots-txt"]

    async def work():
        with open(log, "w", encoding="utf-8") as errors:
            server = stdio_client(StdioServerParameters(command=CORDON, args=words), errlog=errors)
            async with Client(server, mode="auto") as client:
                try:
                    got = await client.call_tool("fetch", {"url": "https://example.com/"})
                    assert got.is_error
                except MCPError:
                    pass

    asyncio.run(work())
    assert "--net-allow example.com" in log.read_text(encoding="utf-8")
    assert any(one["target"].startswith("example.com") for one in json.loads(receipt.read_text())["denials"])


def git(directory, *words):
    """git as the user of these tests, whoever owns the files of the machine's own configuration."""
    plain = {"PATH": os.environ["PATH"], "HOME": str(directory), "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
    done = subprocess.run(["git", "-C", str(directory), *identity, *words], env=plain, capture_output=True, text=True, check=True)
    return done.stdout


def test_git_wrapped_works_in_its_repository_and_no_other(tmp_path):
    project, outside, empty = (tmp_path / name for name in ("project", "outside", "empty"))
    empty.mkdir()
    for repository in (project, outside):
        repository.mkdir()
        git(repository, "init", "-q")
        git(repository, "config", "user.name", "t")
        git(repository, "config", "user.email", "t@t")
        (repository / "file").write_text(f"text of {repository.name}\n")
        git(repository, "add", "file")
        git(repository, "commit", "-qm", f"begin {repository.name}")
        (repository / "file").write_text("changed\n")

    def ask(words):
        # The server has no --repository: it may go anywhere, as far as it is concerned.
        server = StdioServerParameters(command=words[0], args=words[1:], cwd=empty)
        calls = [(name, {"repo_path": str(where), **more}) for where in (project, outside) for name, more in (
            ("git_status", {}), ("git_add", {"files": ["file"]}), ("git_commit", {"message": "by the server"}),
            ("git_log", {}),
        )]  # fmt: skip

        async def work():
            async with Client(stdio_client(server), mode="auto") as client:
                got = [await client.call_tool(*call) for call in calls]
                return [(one.is_error, one.content[0].text) for one in got]

        return asyncio.run(work())

    program = str(BIN / "mcp-server-git")
    wrapped = ask([CORDON, "mcp", "--wrap", "-w", str(project), "--", program])
    assert [failed for failed, _ in wrapped] == [False] * 4 + [True] * 4, wrapped
    assert "modified" in wrapped[0][1] and "by the server" in wrapped[3][1]
    assert git(project, "log", "--format=%s").splitlines()[0] == "by the server"
    assert git(outside, "log", "--format=%s").splitlines() == ["begin outside"]
    assert "begin outside" not in json.dumps(wrapped)

    free = ask([program])  # the control
    assert [failed for failed, _ in free[4:]] == [False] * 4, free
    assert git(outside, "log", "--format=%s").splitlines()[0] == "by the server"
