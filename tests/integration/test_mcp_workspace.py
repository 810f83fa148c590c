# SPDX-License-Identifier: Apache-2.0
"""The MCP server with a workspace: what changes, what is committed, and options that do not go together."""

import json
import os
import re

import pytest
from mcplib import client, conforms, error_of, project, wait_until  # noqa: F401


def test_a_workspace_keeps_changes_apart(client, me, project):
    c = client("--workspace", project)
    assert c.call("workspace_diff").data["changes"] == []
    c.call("run_command", command="echo three >> file.txt; echo new > added")
    got = c.call("workspace_diff")
    conforms(got.data, c.tools()["workspace_diff"]["outputSchema"])
    assert {one["path"]: one["kind"] for one in got.data["changes"]} == {"file.txt": "modified", "added": "added"}
    assert "+three" in got.text
    assert (project / "file.txt").read_text() == "one\ntwo\n"
    assert "workspace_commit" not in c.tools()
    assert error_of(c.ask("tools/call", {"name": "workspace_commit", "arguments": {}})) == -32602
    said = c.end()
    name = re.search(r"workspace (mcp-[0-9a-f]{8});", said).group(1)
    shown = me.outside([me.cordon, "workspace", "diff", "--json", name])
    assert len(json.loads(shown.stdout)["changes"]) == 2
    assert sorted(os.listdir(project)) == ["file.txt"]


def test_a_workspace_without_changes_goes(client, me, project):
    c = client("--workspace", project)
    assert c.call("run_command", command="cat file.txt").data["stdout"] == "one\ntwo\n"
    assert c.end() == ""
    assert json.loads(me.outside([me.cordon, "workspace", "list", "--json"]).stdout) in ([], {"workspaces": []})


def listed(me):
    """Names of the workspaces that there are."""
    return {one["name"] for one in json.loads(me.outside([me.cordon, "workspace", "list", "--json"]).stdout)}


def killed(client, project, *opts, command="cat file.txt"):
    """A server that was killed, with a workspace."""
    c = client("--workspace", project, *opts)
    assert c.call("run_command", command=command).data["exit_code"] == 0
    c.process.kill()
    c.process.wait()


@pytest.mark.parametrize("how", ["server", "gc"])
def test_a_killed_servers_empty_workspace_is_collected(client, me, project, how):
    """One with changes stays, one with a name of the operator's, and one that is in use."""
    killed(client, project)
    killed(client, project, command="echo new > file.txt")
    killed(client, project, "--name", "mine")
    killed(client, project, "--name", "mcp-mine")
    live = client("--workspace", me.mkdir("other"))
    live.call("create_session")
    before = listed(me)
    assert len(before) >= 4 and {"mine", "mcp-mine"} < before  # the control: they are left
    if how == "gc":
        done = me.outside([me.cordon, "workspace", "gc"])
        assert done.returncode == 0, done.stderr
    else:
        client("--workspace", project).call("get_limits")
    wait_until(lambda: len(listed(me)) == 4)
    left = listed(me)
    assert {"mine", "mcp-mine"} < left and not live.call("run_command", command="true").failed
    changed = [name for name in left - {"mine", "mcp-mine"} if json.loads(me.outside([me.cordon, "workspace", "diff", "--json", name]).stdout)["changes"]]
    assert len(changed) == 1
    live.end()
    assert listed(me) == {"mine", "mcp-mine", *changed}


def test_a_workspace_that_was_collected_meanwhile_begins_again(client, me, project):
    c = client("--workspace", project, "--allow-commit")
    # A commit ends the sandbox, and the workspace is nobody's until the next call.
    c.call("write_file", path="first", content="1")
    assert len(listed(me)) == 1 and not c.call("workspace_commit").failed and (project / "first").exists()
    assert me.outside([me.cordon, "workspace", "gc"]).returncode == 0 and not listed(me)
    assert c.call("workspace_diff").data == {"changes": []}
    assert c.call("workspace_commit").data == {"changes": []}
    assert c.call("run_command", command="echo new > added; cat added").data["stdout"] == "new\n"
    assert [one["path"] for one in c.call("workspace_diff").data["changes"]] == ["added"]
    assert "kept in workspace" in c.end()


def test_a_workspace_by_name_goes_on(client, me, project):
    c = client("--workspace", project, "--name", "mine")
    c.call("write_file", path="kept", content="1")
    c.end()
    c = client("--workspace", project, "--name", "mine")
    assert c.call("read_file", path="kept").data["content"] == "1"
    c.end()
    # The changes from before are there before anything has run.
    c = client("--workspace", project, "--name", "mine", "--allow-commit")
    assert [one["path"] for one in c.call("workspace_diff").data["changes"]] == ["kept"]
    assert "kept in workspace mine" in c.end()
    other = client("--workspace", me.mkdir("other"), "--name", "mine", "--allow-commit")
    assert other.call("workspace_commit").data["changes"] == []
    assert not (project / "kept").exists() and not (me.base / "other" / "kept").exists()
    c = client("--workspace", project, "--name", "mine", "--allow-commit")
    assert not c.call("workspace_commit").failed and (project / "kept").read_text() == "1"


def test_a_commit_needs_the_operators_leave(client, project):
    c = client("--workspace", project, "--allow-commit")
    c.call("run_command", command="echo new > added; mkdir -p .git/hooks .vscode; echo evil > .vscode/tasks.json")
    got = c.call("workspace_commit")
    assert (project / "added").read_text() == "new\n"
    assert not (project / ".vscode/tasks.json").exists() and "cordon workspace commit mcp-" in got.text
    assert "\nrefused: '.vscode/tasks.json'" in got.text and "applied" not in got.text
    refused = {one["path"]: one["outcome"] for one in got.data["changes"]}
    assert refused["added"] == "applied" and refused[".vscode/tasks.json"] == "refused"
    # It goes on, over the same workspace.
    assert c.call("read_file", path=".vscode/tasks.json").data["content"] == "evil\n"


def test_changes_that_are_too_many_to_be_listed_are_committed(client, project):
    c = client("--workspace", project, "--allow-commit")
    code = "import os\nd = chr(1) * 250\nos.makedirs(f'{d}/{d}/{d}')\nfor n in range(900): open(f'{d}/{d}/{d}/{n}-' + chr(1) * 200, 'w')"
    assert c.call("run_code", code=code).data["exit_code"] == 0
    got = c.call("workspace_diff")
    assert got.failed and "too many" in got.text
    got = c.call("workspace_commit")
    assert not got.failed and "all changes were committed" in got.text and got.data == {"changes": [], "more": True}
    directory = project.joinpath(*["\x01" * 250] * 3)
    assert len(os.listdir(directory)) == 900
    assert c.call("workspace_diff").data["changes"] == []


def test_a_conflict_is_told_and_nothing_is_committed(client, project):
    c = client("--workspace", project, "--allow-commit")
    c.call("run_command", command="echo three >> file.txt; echo x > \"$(printf 'f\\nrefused')\"; for n in $(seq 30); do echo > $n; done")
    (project / "file.txt").write_text("mine\n")
    got = c.call("workspace_commit")
    assert "\nconflict: 'file.txt'" in got.text and "nothing was committed" in got.text
    assert "\nrefused" not in got.text and len(got.text.splitlines()) <= 22
    assert os.listdir(project) == ["file.txt"] and (project / "file.txt").read_text() == "mine\n"


@pytest.mark.parametrize("lines", [10000, 100000, 1000000])
def test_a_patch_that_is_cut_says_so(client, project, lines):
    c = client("--workspace", project)
    c.call("run_command", command=f"seq {lines} > file.txt")
    got = c.call("workspace_diff")
    assert got.texts[0].startswith("diff --git a/file.txt") and len(got.data["changes"]) == 1
    is_cut = len(got.texts[0]) == 65536
    assert is_cut == (lines > 10000) and got.texts[1:] == ["this is the beginning of the patch: the rest is not shown"] * is_cut


def test_only_some_look_at_the_changes_at_once(client, project):
    c = client("--workspace", project)
    c.call("run_command", command="echo 1 > new")
    numbers = range(100, 120)
    asks = [{"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": "workspace_diff"}} for n in numbers]
    c.raw(b"".join(json.dumps(ask).encode() + b"\n" for ask in asks))
    results = [c.result(n) for n in numbers]
    assert sum(not got.failed and "+1" in got.text for got in results) == 4
    assert sum(got.failed and "already" in got.text for got in results) == 16
    assert not c.call("workspace_diff").failed


def test_direct_writes_through(client, project):
    c = client("--workspace", project, "--direct")
    assert "workspace_diff" not in c.tools()
    c.call("write_file", path="file.txt", content="three\n")
    assert (project / "file.txt").read_text() == "three\n"
    assert c.call("run_command", command="pwd").data["stdout"] == f"{project}\n"
    assert c.call("get_limits").data["workspace"]["mode"] == "direct"


@pytest.mark.parametrize(
    "words, said",
    [
        (["--direct"], "--direct needs a directory"),
        (["--allow-commit"], "--allow-commit needs a workspace"),
        (["--name", "x"], "--name needs a workspace"),
        (["--workspace", "/nowhere"], "no directory that exists"),
        (["--workspace", "/etc/passwd"], "no directory that exists"),
        (["--workspace", "/etc/passwd", "--direct"], "no directory that exists"),
        (["--workspace", ".", "--name", "../x"], "cannot be a workspace's name"),
        (["--workspace", ".", "--name", ""], "cannot be a workspace's name"),
        (["--workspace", ".", "--name", "w0123abcd"], "cannot be a workspace's name"),
        (["--workspace", ".", "--name", "x" * 64], "cannot be a workspace's name"),
        (["--workspace", ".", "--direct", "--allow-commit"], "keeps no changes apart"),
        (["extra"], "unexpected word"),
        (["--net-alow", "x"], "--net-allow"),
        (["-m", "much"], "memory"),
    ],
)
def test_wrong_options(me, words, said):
    done = me.outside([me.cordon, "mcp", *words])
    assert done.returncode == 125 and said in done.stderr.decode() and done.stdout == b""
