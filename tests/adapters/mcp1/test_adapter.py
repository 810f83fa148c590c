# SPDX-License-Identifier: Apache-2.0
"""The SDK of 1.x as a client of `cordon mcp`. It checks results against the tools' schemas itself."""

import asyncio
import pathlib
import sys

import pytest
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client

CORDON = str(pathlib.Path(sys.executable).with_name("cordon"))


async def with_session(work, *opts):
    async with stdio_client(StdioServerParameters(command=CORDON, args=["mcp", *opts])) as (read, write):
        async with ClientSession(read, write) as session:
            hello = await session.initialize()
            assert hello.protocolVersion == "2025-11-25" and hello.serverInfo.name == "cordon"
            return await work(session)


def test_every_tool(tmp_path):
    async def work(session):
        names = {tool.name for tool in (await session.list_tools()).tools}
        assert {"run_command", "execute", "workspace_diff"} <= names
        got = await session.call_tool("run_command", {"command": "echo hi; exit 3"})
        assert got.structuredContent["exit_code"] == 3 and got.content[0].text == "hi\n"
        assert (await session.call_tool("run_code", {"code": "print(1)"})).structuredContent["stdout"] == "1\n"
        await session.call_tool("write_file", {"path": "a", "content": "x"})
        await session.call_tool("edit_file", {"path": "a", "old_text": "x", "new_text": "y"})
        assert (await session.call_tool("read_file", {"path": "a"})).structuredContent["content"] == "y"
        assert [e["path"] for e in (await session.call_tool("list_files", {})).structuredContent["entries"]] == ["a"]
        assert len((await session.call_tool("workspace_diff", {})).structuredContent["changes"]) == 1
        assert (await session.call_tool("get_limits", {})).structuredContent["network"] is False
        name = (await session.call_tool("create_session", {})).structuredContent["session"]
        await session.call_tool("execute", {"session": name, "code": "x = 6"})
        got = await session.call_tool("execute", {"session": name, "code": "x * 7"})
        assert got.structuredContent["result"] == {"text/plain": "42"}
        assert (await session.call_tool("close_session", {"session": name})).structuredContent == {"closed": True}
        await session.call_tool("workspace_commit", {})
        assert (tmp_path / "a").read_text() == "y"

    asyncio.run(with_session(work, "--workspace", str(tmp_path), "--allow-commit"))


def test_progress_errors_and_many_calls():
    async def work(session):
        seen = []

        async def progress(value, total, message):
            seen.append((value, message))

        await session.call_tool("run_command", {"command": "echo 1; sleep 0.6; echo 2"}, progress_callback=progress)
        assert seen and "1\n" in "".join(message or "" for _, message in seen)
        assert (await session.call_tool("run_command", {"command": 1})).isError
        with pytest.raises(McpError):
            await session.call_tool("no_such_tool", {})
        calls = [session.call_tool("run_command", {"command": f"echo {n}"}) for n in range(50)]
        got = await asyncio.gather(*calls)
        assert [one.content[0].text for one in got] == [f"{n}\n" for n in range(50)]

    asyncio.run(with_session(work))
