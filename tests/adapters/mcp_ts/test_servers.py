# SPDX-License-Identifier: Apache-2.0
"""The reference servers for Node, wrapped: each does its job with what it is granted, and what it
reaches outside of that it does not get. The same server without Cordon is the control."""

import asyncio
import json
import os
import pathlib

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

NODE = "/usr/bin/node"


@pytest.fixture
def start(node, tmp_path):
    """start(program, words, cordon=options or None): a client of that server, to be entered. It starts in
    an empty directory, since a wrapped server can read where it starts."""
    empty = tmp_path / "empty"
    empty.mkdir()

    def start(program, *words, cordon=None, env=None, log=None):
        command = [NODE, node.path(program), *map(str, words)]
        if cordon is not None:
            granted = ["-r", str(node.packages.parent), *map(str, cordon)]
            passed = [word for name in env or {} for word in ("-e", name)]
            command = [node.cordon, "mcp", "--wrap", *granted, *passed, "--", *command]
        given = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], **(env or {})}
        server = StdioServerParameters(command=command[0], args=command[1:], env=given, cwd=empty)
        return Client(stdio_client(server, errlog=log) if log else stdio_client(server), mode="auto")

    return start


def ask(client, *calls):
    """The results of these calls, [(tool, arguments)...], as (is_error, text)."""

    async def work():
        async with client as c:
            got = [await c.call_tool(name, arguments) for name, arguments in calls]
            return [(one.is_error, one.content[0].text) for one in got]

    return asyncio.run(work())


def test_filesystem_has_its_directory_and_no_other(start, tmp_path):
    project, outside = tmp_path / "project", tmp_path / "outside"
    for directory in (project, outside):
        directory.mkdir()
    (outside / "secret").write_text("the secret")
    (project / "link").symlink_to(outside / "secret")
    # The server itself is told that it may go anywhere.
    reach = [
        ("write_file", {"path": str(project / "a"), "content": "hello"}),
        ("edit_file", {"path": str(project / "a"), "edits": [{"oldText": "hello", "newText": "bye"}]}),
        ("read_text_file", {"path": str(project / "a")}),
        ("list_directory", {"path": str(project)}),
        ("read_text_file", {"path": str(outside / "secret")}),
        ("read_text_file", {"path": str(project / "link")}),
        ("write_file", {"path": str(outside / "new"), "content": "x"}),
    ]
    program = "server-filesystem/dist/index.js"
    free = ask(start(program, "/"), *reach)
    assert [failed for failed, _ in free] == [False] * 7, free
    assert free[4][1] == free[5][1] == "the secret" and (outside / "new").exists()
    (outside / "new").unlink()
    (project / "a").unlink()

    wrapped = ask(start(program, "/", cordon=["-w", project]), *reach)
    assert [failed for failed, _ in wrapped] == [False] * 4 + [True] * 3, wrapped
    assert wrapped[2][1] == "bye" == (project / "a").read_text()
    assert "[FILE] a" in wrapped[3][1]
    assert "the secret" not in json.dumps(wrapped)
    assert not (outside / "new").exists() and (outside / "secret").read_text() == "the secret"


def test_memory_remembers_where_it_may_write(start, tmp_path):
    kept, outside = tmp_path / "kept", tmp_path / "outside"
    for directory in (kept, outside):
        directory.mkdir()
    entity = {"name": "Cordon", "entityType": "program", "observations": ["confines"]}
    remember = ("create_entities", {"entities": [entity]})
    recall = ("search_nodes", {"query": "confines"})
    program = "server-memory/dist/index.js"

    free = ask(start(program, env={"MEMORY_FILE_PATH": str(outside / "memory")}), remember)
    assert not free[0][0] and "Cordon" in (outside / "memory").read_text()
    (outside / "memory").unlink()

    granted = ["-w", kept]
    env = {"MEMORY_FILE_PATH": str(kept / "memory")}
    assert not ask(start(program, cordon=granted, env=env), remember)[0][0]
    failed, text = ask(start(program, cordon=granted, env=env), recall)[0]  # by another start of it
    assert not failed and "confines" in text
    assert "Cordon" in (kept / "memory").read_text()

    env = {"MEMORY_FILE_PATH": str(outside / "memory")}
    assert ask(start(program, cordon=granted, env=env), remember)[0][0]
    assert not (outside / "memory").exists()


THOUGHT = {"thought": "first", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}


@pytest.mark.parametrize(
    "program, call",
    [
        ("server-sequential-thinking/dist/index.js", ("sequentialthinking", THOUGHT)),
        ("server-memory/dist/index.js", ("read_graph", {})),
    ],
)
def test_a_hostile_dependency_of_a_server_gets_nothing(start, hostile, tmp_path, program, call):
    reach = {"secret": str(hostile.file), "marker": str(hostile.marker), "port": hostile.server.getsockname()[1]}
    code = pathlib.Path(__file__).with_name("hostile.cjs")
    env = {"HOSTILE": json.dumps(reach), "NODE_OPTIONS": f"--require={code}"}

    def attack(cordon):
        with open(tmp_path / "log", "w+", encoding="utf-8") as log:
            failed, text = ask(start(program, cordon=cordon, env=env, log=log), call)[0]
            log.seek(0)
            said = log.read()
        assert not failed and json.loads(text), text
        assert "hostile code has run" in said
        return said

    assert hostile.secret in attack(None)
    assert hostile.connected.wait(10) and hostile.marker.read_text() == hostile.secret
    hostile.marker.unlink()
    hostile.connections.clear()

    said = attack(["-r", code])
    assert hostile.secret not in said and "found nothing" in said
    assert not hostile.marker.exists() and hostile.connections == []
