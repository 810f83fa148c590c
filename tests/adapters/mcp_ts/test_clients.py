# SPDX-License-Identifier: Apache-2.0
"""The TypeScript SDK of 1.x and of 2.x, and MCP Inspector's command line, as clients of `cordon mcp`."""

import base64
import json
import pathlib

import pytest

PNG = b"\x89PNG\r\n\x1a\nxyz"
EVERY_TOOL = {
    "run_command", "run_code", "read_file", "write_file", "edit_file", "list_files", "create_session", "execute",
    "close_session", "workspace_diff", "workspace_commit", "get_limits",
}  # fmt: skip


@pytest.fixture(scope="module", params=["1", "legacy", "auto", "2026-07-28"])
def seen(request, node, tmp_path_factory):
    """What the cases of client.mjs saw, with one of the SDKs."""
    workspace = tmp_path_factory.mktemp("workspace")
    done = node.run("client.mjs", request.param, workspace, node.cordon)
    assert done.returncode == 0, done.stdout + done.stderr
    return {**json.loads(done.stdout), "workspace": workspace}


def test_the_tools_are_listed(seen):
    assert seen["list"]["server"]["name"] == "cordon", seen["list"]
    tools = {tool["name"]: tool for tool in seen["list"]["tools"]}
    assert {"run_command", "execute", "get_limits"} <= set(tools) <= EVERY_TOOL
    assert all(tool["outputSchema"]["type"] == tool["inputSchema"]["type"] == "object" for tool in tools.values())


def test_structured_content_has_its_schema(seen):
    got = seen["schemas"]
    assert "threw" not in got, got
    checked = got["checked"]
    assert set(got["all"]) == set(checked) == EVERY_TOOL
    assert [name for name, one in checked.items() if not one["isValid"]] == []
    assert [name for name, one in checked.items() if one["isWrongValid"]] == []
    assert {name for name, one in checked.items() if one["isError"]} <= {"run_command"}
    data = {name: one["data"] for name, one in checked.items()}
    assert data["run_command"]["exit_code"] == 3 and data["run_command"]["stdout"] == "hi\n"
    assert data["run_code"]["stdout"] == "1\n"
    assert data["read_file"]["content"] == "y"
    assert [one["path"] for one in data["list_files"]["entries"]] == ["a"]
    assert [one["path"] for one in data["workspace_diff"]["changes"]] == ["a"]
    assert data["execute"]["result"] == {"text/plain": "42"}
    assert (seen["workspace"] / "a").read_text() == "y"


def test_mistakes_are_errors(seen):
    assert seen["errors"] == {"wrong": True, "unknown": -32602}


def test_progress_has_the_output(seen):
    got = seen["progress"]
    assert got.get("stdout") == "1\n2\n", got
    assert "1\n" in "".join(one.get("message", "") for one in got["told"])
    numbers = [one["progress"] for one in got["told"]]
    assert numbers == sorted(set(numbers))


def test_an_aborted_call_ends_its_processes(seen):
    assert seen["cancel"] == {"wasRunning": True, "ended": "rejected", "gone": True, "next": "next\n"}


def test_a_session_keeps_state_and_shows_pictures(seen):
    got = seen["session"]
    assert got.get("result") == {"text/plain": "42"}, got
    assert [(one["mimeType"], base64.b64decode(one["data"])) for one in got["images"]] == [("image/png", PNG)]
    assert (got["failed"], got["error"]) == (True, "ZeroDivisionError")
    assert got["closed"] == {"closed": True} and got["after"] is True


def test_thirty_calls_at_once(seen):
    assert seen["parallel"] == [f"{n}\n" for n in range(30)]


def inspect(node, *words):
    """MCP Inspector's command line; it looks for its package.json from the directory it is started in."""
    program = node.path("inspector-cli/build/cli.js")
    done = node.run(program, "--cli", node.cordon, "mcp", *words, cwd=pathlib.Path(program).parent)
    return done.returncode, done.stdout[done.stdout.find("{") :], done.stdout + done.stderr


def test_inspector_lists_the_tools(node):
    status, out, both = inspect(node, "--method", "tools/list")
    assert status == 0, both
    assert {"run_command", "execute"} <= {tool["name"] for tool in json.loads(out)["tools"]}


def test_inspector_calls_a_tool(node):
    arguments = ["--tool-arg", "command=cat; echo hi >&2; exit 3", "--tool-arg", "stdin=from stdin"]
    status, out, both = inspect(node, "--method", "tools/call", "--tool-name", "run_command", *arguments)
    assert status == 0, both
    got = json.loads(out)["structuredContent"]
    assert (got["stdout"], got["stderr"], got["exit_code"]) == ("from stdin", "hi\n", 3)


def test_inspector_is_told_of_an_unknown_tool(node):
    status, _, both = inspect(node, "--method", "tools/call", "--tool-name", "no_such_tool")
    assert status != 0 and "no_such_tool" in both
