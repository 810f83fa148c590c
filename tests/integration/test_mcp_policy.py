# SPDX-License-Identifier: Apache-2.0
"""What the operator's options mean to `cordon mcp`, wherever a client starts it."""

import json

import pytest
from mcplib import client, project  # noqa: F401

SECRETS = ("server.pem", "sub/server.pem", ".env", "sub/.env", "keys/a.key")
PATTERNS = ["--deny", "*.pem", "--deny", "**/.env", "--deny", "keys/*.key"]


def planted(me, place):
    """A directory that has secrets, and what is none."""
    me.mkdir(place)
    for name in ("sub", "keys"):
        me.mkdir(place / name)
    for name in (*SECRETS, "open.txt"):
        me.write(place / name, "canary\n")
    return place


def shown(c, place):
    """Which of them a call can read."""
    names = (*SECRETS, "open.txt")
    got = c.call("run_command", command=f"cd {place}; for n in {' '.join(names)}; do cat $n >/dev/null && echo $n; done")
    return set(got.data["stdout"].split())


@pytest.mark.parametrize("mode", ["print", "wrap"])
def test_patterns_without_a_place_hold_in_every_grant(client, me, mode):
    """A configuration has absolute paths; made absolute, `*.pem` would leave the other grant's readable."""
    here, other = planted(me, me.work / "a[1]"), planted(me, me.work / "other")
    opts = ["-r", here, "-r", other, *PATTERNS]
    assert shown(client("-r", here, "-r", other), other) >= set(SECRETS)  # the control
    if mode == "print":
        done = me.outside([me.cordon, "mcp", "--print-config", "claude", *opts], cwd=str(here))
        entry = json.loads(done.stdout)["mcpServers"]["cordon"]
        c = client(argv=[entry["command"], *entry["args"]], cwd="/")
        # One with a place stands for that place, whose own name is no pattern.
        assert shown(c, here) == {"open.txt"}
        assert shown(c, other) == {"open.txt", "keys/a.key"}
    else:
        path = me.write(me.work / "config.json", json.dumps({"mcpServers": {"x": {"command": "cat"}}}))
        done = me.outside([me.cordon, "mcp", "--wrap-config", path, "--yes", *opts], cwd=str(here))
        assert done.returncode == 0, done.stderr
        args = json.loads(path.read_text())["mcpServers"]["x"]["args"]
        denied = [word.partition("=")[2] for word in args if word.startswith("--deny=")]
        assert denied == ["*.pem", "**/.env", str(here).replace("[", "\\[") + "/keys/*.key"]


@pytest.mark.parametrize("mode", ["workspace", "direct"])
def test_presets_mean_the_workspace_and_not_the_place_of_the_start(client, me, project, mode):
    start = me.mkdir("start")
    for place in (start, project):
        me.write(place / ".env", "canary\n")
    c = client("--preset", "agent", "--workspace", project, *(["--direct"] if mode == "direct" else []), cwd=str(start))
    assert c.call("run_command", command="echo new > made && cat made").data["stdout"] == "new\n"
    assert c.call("run_command", command=f"cat {project}/.env").data["stdout"] == ""
    got = c.call("run_command", command=f"ls -a {start}; echo x > {start}/made")
    assert "made" not in got.data["stdout"] and ".env" not in got.data["stdout"]
    assert not (start / "made").exists()
    assert (project / "made").exists() == (mode == "direct")


def test_a_preset_alone_means_the_place_of_the_start(client, me):
    start = me.mkdir("start")
    c = client("--preset", "agent", cwd=str(start))
    assert c.call("run_command", command=f"echo x > {start}/made").data["kind"] == "exited"
    assert (start / "made").read_text() == "x\n"


@pytest.mark.parametrize("options", [[], ["--workspace", "project"]])
def test_direct_and_a_workspace_in_a_policy_file_exclude_each_other(me, project, options):
    """Each call would have had a copy of its own, and kept nothing."""
    file = me.write(me.work / "policy.json", json.dumps({"fs": {"workspace": str(project)}}))
    done = me.outside([me.cordon, "mcp", "--direct", "-p", file, *options], cwd=str(project.parent))
    assert done.returncode == 125 and done.stdout == b""
    assert "fs.workspace" in done.stderr.decode() and len(done.stderr.splitlines()) == 1


def test_a_policy_file_says_what_calls_may_do(client, me):
    place = planted(me, me.work / "granted")
    policy = {"fs": {"read": [str(place)], "deny": ["*.pem"]}, "limits": {"memory": "300M", "wall": "3s"}}
    file = me.write(me.work / "policy.json", json.dumps(policy))
    assert shown(client(), place) == set()  # the control
    c = client("--policy", file)
    assert shown(c, place) == {name for name in (*SECRETS, "open.txt") if not name.endswith(".pem")}
    assert (limits := c.call("get_limits").data)["timeout_ms"] == 3000 and limits["memory_bytes"] == 300 << 20
    assert c.call("run_command", command="sleep 60").data["kind"] == "timeout"
