# SPDX-License-Identifier: Apache-2.0
"""docs/mcp.md is held to the program: its commands run as they stand there, its configurations are those that
are printed, its table of tools is what a client is told, and its numbers are those of the source."""

import json
import os
import pathlib
import re
import shlex
import tomllib

import pytest
from mcplib import client  # noqa: F401

HERE = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCE = pathlib.Path(os.environ.get("CORDON_SOURCE", HERE))
ROOT = SOURCE if os.access(SOURCE / "README.md", os.R_OK) else HERE
PAGE = (ROOT / "docs/mcp.md").read_text(encoding="utf-8")
MAN = (ROOT / "man/cordon-mcp.1.scd").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.M | re.S)
COMMANDS = [line[2:] for kind, text in BLOCKS if kind == "console" for line in text.splitlines() if line.startswith("$ ")]
CLIENTS = re.findall(r"^\| ([\w ]+) \|.*\| `(\w+)` \|$", PAGE, re.M)


def test_there_is_something_to_check():
    assert len(COMMANDS) >= 6 and len(CLIENTS) == 6 and len([kind for kind, _ in BLOCKS if kind in ("json", "toml")]) == 4


@pytest.fixture
def place(me):
    """A home and a directory in which the page's commands find what they name."""
    home = me.mkdir("reader")
    for name in (".cursor", ".codex", "project", "bin"):
        me.mkdir(home / name)
    me.write(home / ".cursor/mcp.json", json.dumps({"mcpServers": {"a": {"command": "github-mcp-server", "args": ["stdio"]}}}))
    me.write(home / ".codex/config.toml", '[mcp_servers.a]\ncommand = "github-mcp-server"\n')
    me.write(home / "bin/github-mcp-server", "#!/bin/sh\nread -r line && echo \"got $1: $line\"\n", mode=0o755)
    me.write(home / "bin/ssh", '#!/bin/sh\nshift\nexec "$@"\n', mode=0o755)
    os.symlink(me.cordon, home / "bin/cordon")
    return home


def run(me, place, command, **kw):
    env = {"HOME": str(place), "PATH": f"{place}/bin:/usr/bin:/bin", "GITHUB_TOKEN": "t", "XDG_STATE_HOME": str(place / "state")}
    return me.outside(["/bin/sh", "-c", command], cwd=str(place), env=env, **kw)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_works(me, place, command):
    words = shlex.split(command)
    assert words[:2] == ["cordon", "mcp"], command
    if "--selftest" in words:
        done = run(me, place, command)
        assert done.returncode == 0, done.stdout
        shown = next(text for kind, text in BLOCKS if kind == "console" and command in text).split(f"$ {command}\n", 1)[1].split("...")[0]
        if not shown.startswith("$") and shown.strip():
            got = done.stdout.decode().splitlines()
            version = r"[\d.]+$"  # of what is installed
            wanted = [re.sub(version, "", line) for line in shown.splitlines() if not line.startswith("$ ")]
            assert [re.sub(version, "", line) for line in got[: len(wanted)]] == wanted
    elif "--wrap" in words:
        # The program lies in a directory that only this test has.
        done = run(me, place, command.replace(" -- ", f" -r {place}/bin -e PATH -- "), input=b"hello\n", stdin=None)
        assert (done.returncode, done.stdout) == (0, b"got stdio: hello\n"), done.stderr
    else:
        path = place / words[words.index("--wrap-config") + 1].replace("~/", "")
        before = path.read_text()
        done = run(me, place, command)
        assert done.returncode == 0 and b"+++" in done.stdout, done.stderr
        assert ("--wrap" in path.read_text()) == ("--yes" in words) and (path.read_text() == before) == ("--yes" not in words)


def test_the_configurations_are_those_that_are_printed(me):
    project = me.mkdir("project")
    printed = {}
    for _, name in CLIENTS:
        text = me.outside([me.cordon, "mcp", "--print-config", name, "--workspace", project]).stdout.decode()
        printed[name] = text.replace(me.cordon, "/usr/local/bin/cordon").replace(str(project), "/home/me/project")
    shown = [text for kind, text in BLOCKS if kind in ("json", "toml")]
    for kind, text in BLOCKS:
        if kind == "json":
            assert json.loads(text) in [json.loads(one) for name, one in printed.items() if name != "codex"]
        elif kind == "toml":
            assert tomllib.loads(text) == tomllib.loads(printed["codex"])
    for name, text in printed.items():
        assert name == "codex" or json.loads(text) in [json.loads(one) for one in shown if one.startswith("{")], name


def test_the_table_of_tools_is_what_a_client_is_told(client, me):
    tools = client("--workspace", me.mkdir("project"), "--allow-commit").tools()
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*?)\|", PAGE, re.M))
    assert set(rows) == set(tools)
    for name, cell in rows.items():
        assert re.findall(r"`(\w+)`", cell) == list(tools[name]["inputSchema"]["properties"]), name
        assert f"*{name}*" in MAN, name
    told = re.search(r"^\| `run_code` \|[^|]*\|([^|]*)\|", PAGE, re.M).group(1)
    assert [word.strip() for word in told.split(",")] == tools["run_code"]["inputSchema"]["properties"]["language"]["enum"]


def test_options_that_are_named_exist(me):
    known = set()
    for verb in ("mcp", "run"):
        known |= set(re.findall(r"(--[a-z][a-z-]+)", me.outside([me.cordon, verb, "--help"]).stdout.decode()))
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", PAGE)) - {"--allow-private-ips", "--only"}  # of other programs
    assert named and named - known == set()


# What the page says, and where the source says it.
NUMBERS = [
    (r"Calls: (\d+) run at once, \d+ are taken", "cmd/cordon/mcp/server.h", r"MCP_JOBS_MAX (\d+)"),
    (r"Calls: \d+ run at once, (\d+) are taken", "cmd/cordon/mcp/server.h", r"MCP_CALLS_MAX (\d+)"),
    (r"A message may have (\d+) MiB", "cmd/cordon/mcp/rpc.h", r"RPC_LINE_MAX.*\(size_t\)(\d+) << 20"),
    (r"MiB, (\d+) values", "cmd/cordon/mcp/rpc.h", r"RPC_VALUES_MAX (\d+)"),
    (r"values and (\d+) levels", "src/base/json_read.h", r"JSON_READ_DEPTH_MAX (\d+)"),
    (r"`run_code` takes (\d+) bytes", "cmd/cordon/mcp/run_tool.c", r"CODE_MAX (\d+)"),
    (r"end of the server; (\d+) at most", "cmd/cordon/mcp/session.h", r"SESSIONS_MAX (\d+)"),
    (r"has at most (\d+) KiB of each output and", "cmd/cordon/mcp/interp.c", r"OUTPUT_MAX.*\(size_t\)(\d+) << 10"),
    (r"of a flood the last (\d+) KiB", "cmd/cordon/mcp/call.c", r"PROGRESS_BYTES (\d+)u"),
]


@pytest.mark.skipif(not (ROOT / "src").exists(), reason="a staged tree has no sources")
@pytest.mark.parametrize("said, path, meant", NUMBERS, ids=[said for said, _, _ in NUMBERS])
def test_numbers_are_those_of_the_source(said, path, meant):
    shown = re.search(said, re.sub(r"\s+", " ", PAGE))
    real = re.search(meant, (ROOT / path).read_text(encoding="utf-8"))
    assert shown and real, (shown, real)
    assert int(real.group(1)) in (int(shown.group(1)), 1024 * int(shown.group(1)))
