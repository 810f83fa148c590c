# SPDX-License-Identifier: Apache-2.0
"""`cordon mcp` besides serving: wrapping other servers, clients' configurations, the self-test."""

import json
import os
import signal
import time

import pytest
from conftest import needs, survivors
from mcplib import client, descendants_named, project, wait_until  # noqa: F401
from packageslib import Index, npm_package

SERVER = r'''
import json, os, socket, sys
print("starting", file=sys.stderr, flush=True)
for line in sys.stdin.buffer:
    if line.startswith(b"echo "):
        sys.stdout.buffer.write(line[5:]); sys.stdout.buffer.flush(); continue
    ask = json.loads(line)
    out = {"env": sorted(os.environ)}
    try:
        out["file"] = open(ask["path"]).read()
    except OSError as e:
        out["file"] = type(e).__name__
    try:
        socket.getaddrinfo("example.com", 443); out["net"] = True
    except OSError:
        out["net"] = False
    print(json.dumps(out), flush=True)
'''


def test_a_wrapped_server_has_its_protocol_untouched_and_nothing_else(client, me):
    secret = me.write(me.out / "secret", "canary\n")
    server = me.write(me.work / "server.py", SERVER)
    bare = client(argv=["/usr/bin/python3", server], begin=None, env={"TOKEN": "t", "OTHER": "o"})
    bare.send({"path": str(secret)})
    got = bare.read()
    assert got["file"] == "canary\n" and {"TOKEN", "OTHER"} <= set(got["env"])  # the control
    c = client("--wrap", "-e", "TOKEN", "--receipt", me.work / "receipt", "--", "/usr/bin/python3", server,
               begin=None, env={"TOKEN": "t", "OTHER": "o"})  # fmt: skip
    c.send({"path": str(secret)})
    got = c.read()
    assert got["file"] == "FileNotFoundError" and got["net"] is False
    assert "TOKEN" in got["env"] and "OTHER" not in got["env"]
    raw = b'{"x":"\xff\x00\x1b[0m ' + b"y" * 300000 + b'"}\r\n'
    c.raw(b"echo " + raw)
    while len(c.data) < len(raw):
        c.data += os.read(c.process.stdout.fileno(), 1 << 20)
    assert c.data == raw
    said = c.end()
    assert "starting\n" in said and "refused: resolve example.com" in said and "--net-allow example.com" in said
    receipt = json.loads((me.work / "receipt").read_text())
    assert receipt["kind"] == "exited" and receipt["denials"][0]["target"] == "example.com"


@pytest.mark.parametrize("how", ["file", "module"])
def test_a_wrapped_server_finds_its_cache_again(client, me, how):
    """What it writes to its home is kept in the directory that is named, and nowhere else."""
    count = "import os\np = os.path.expanduser('~/cache')\nn = os.path.exists(p) and len(open(p).read())\n"
    server = me.write(me.work / "server.py", count + "open(p, 'a').write('x')\nprint(int(n), flush=True)\n__import__('sys').stdin.read()\n")
    words = [server] if how == "file" else ["-m", "server"]
    for options, found in (["--private", me.work / "kept"], b"0"), (["--private", me.work / "kept"], b"1"), ([], b"0"):
        c = client("--wrap", *options, "--", "/usr/bin/python3", *words, begin=None)
        assert os.read(c.process.stdout.fileno(), 100) == found + b"\n"
        c.end()


NODE_SERVER = """#!/usr/bin/env node
const fs = require("node:fs");
require("node:readline").createInterface({ input: process.stdin }).on("line", (path) => {
  let found;
  try { found = fs.readFileSync(path, "utf8"); } catch (e) { found = e.code; }
  console.log(JSON.stringify({ found }));
});
"""


def test_a_server_that_npx_fetches(client, me):
    """Its registry by the gateway, its cache by a private directory, and nothing else."""
    needs("npx")
    secret = me.write(me.out / "secret", "canary\n")
    index = Index()
    index.add_npm(npm_package("made-server", files={"server.js": NODE_SERVER}, bin={"made-server": "server.js"}))
    at = f"127.0.0.1:{index.port}"
    npx = ["npx", "-y", "--fetch-retries=0", "--registry", f"http://{at}/", "made-server"]
    private = ["--private", me.work / "kept"]

    def ask(argv):
        index.asked.clear()
        c = client(argv=argv, begin=None)
        c.raw(f"{secret}\n".encode())
        found = c.read(60)["found"]
        c.end()
        return found, any(path.endswith(".tgz") for path in index.asked)

    try:
        assert ask(npx) == ("canary\n", True)  # the control
        wrap = [me.cordon, "mcp", "--wrap", *private]
        index.asked.clear()
        refused = me.outside([*wrap, "--", *npx])
        assert refused.returncode != 0 and not index.asked and b"ECONNREFUSED" in refused.stderr
        wrapped = [*wrap, "--net-allow", at, "--", *npx]
        assert ask(wrapped) == ("ENOENT", True)
        assert ask(wrapped) == ("ENOENT", False)  # it was kept
    finally:
        index.close()
    assert (me.work / "kept" / "home" / ".npm").is_dir()


def test_a_wrapped_server_ends_with_its_client(client, me):
    server = me.write(me.work / "server.py", "import os, time\nos.fork() or os.setsid()\nos.fork()\ntime.sleep(600)\n")
    for how in (signal.SIGKILL, signal.SIGTERM):
        c = client("--wrap", "--", "/usr/bin/python3", server, begin=None)
        wait_until(lambda pid=c.pid: len(descendants_named(pid, "python3")) >= 2)
        os.kill(c.pid, how)
        c.process.wait(10)
        assert not survivors(5)


DEAF = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"
LATE = "import sys, time\nprint('up', flush=True)\nsys.stdin.read()\ntime.sleep(4)\nprint('late', flush=True)\n"


def test_a_wrapped_server_that_does_not_listen_ends_when_its_client_is_gone(client, me):
    """The client was killed, so nobody else ends it: without Cordon it stays."""
    server = me.write(me.work / "server.py", DEAF)
    for words, stays in ((["/usr/bin/python3", server], True), ([me.cordon, "mcp", "--wrap", "--", "/usr/bin/python3", server], False)):
        c = client(argv=words, begin=None)
        assert os.read(c.process.stdout.fileno(), 100) == b"up\n"
        for pipe in (c.process.stdin, c.process.stdout):
            pipe.close()
        if stays:
            time.sleep(4)
            assert c.process.poll() is None
            c.process.kill()
        c.process.wait(20)
    assert not survivors(5)


def test_a_wrapped_server_may_answer_when_its_input_is_over(client, me):
    server = me.write(me.work / "server.py", LATE)
    c = client("--wrap", "--", "/usr/bin/python3", server, begin=None)
    c.process.stdin.close()
    assert c.process.stdout.read() == b"up\nlate\n" and c.process.wait(10) == 0


CONFIG = """{
    "theme" : "dark",
    "mcpServers": {
        "ä": { "command": "npx",  "args": ["-y", "@x/server"], "env": {"API_KEY": "k"} },
        "bare": {"command": "/usr/bin/server \\"x\\""},
        "remote": {"type": "http", "url": "https://example.com/mcp"},
        "done": {"command": "cordon", "args": ["mcp", "--wrap", "--", "x"]}
    }
}
"""


def test_a_configuration_is_rewritten_only_when_told_so(me):
    path = me.write(me.work / "mcp.json", CONFIG, mode=0o600)
    link = me.work / "link.json"
    link.symlink_to(path)
    words = [me.cordon, "mcp", "--net-allow", "example.com", "-w", ".", "--wrap-config", link]
    done = me.outside(words)
    assert done.returncode == 0 and path.read_text() == CONFIG
    assert "--yes" in done.stderr.decode() and '+        "ä"' in done.stdout.decode()
    assert "'remote' stays" in done.stderr.decode() and "'done' stays" in done.stderr.decode()
    done = me.outside([*words, "--yes"])
    assert done.returncode == 0 and link.is_symlink() and path.stat().st_mode & 0o777 == 0o600
    got = json.loads(path.read_text())
    front = ["mcp", "--wrap", "--net-allow=example.com", f"--write={me.work}"]
    assert got["mcpServers"]["ä"] == {
        "command": me.cordon,
        "args": [*front, "-e", "API_KEY", "--", "npx", "-y", "@x/server"],
        "env": {"API_KEY": "k"},
    }
    assert got["mcpServers"]["bare"]["args"] == [*front, "--", '/usr/bin/server "x"']
    assert got["mcpServers"]["remote"] == json.loads(CONFIG)["mcpServers"]["remote"]
    # Nothing else is touched, and the second time there is nothing to do.
    kept = [line for line in CONFIG.splitlines() if '"ä"' not in line and '"bare"' not in line]
    assert [line for line in kept if line not in path.read_text().splitlines()] == []
    before = path.read_text()
    done = me.outside([*words, "--yes"])
    assert "nothing to wrap" in done.stderr.decode() and path.read_text() == before
    assert sorted(os.listdir(me.work)) == ["link.json", "mcp.json"]


def test_other_clients_configurations(me):
    for text, place in (
        ('{"servers": {"a": {"type": "stdio", "command": "x"}}}', ["servers"]),
        ('{"mcp": {"servers": {"a": {"command": "x", "args": []}}}}', ["mcp", "servers"]),
    ):
        path = me.write(me.work / "c.json", text)
        assert me.outside([me.cordon, "mcp", "--wrap-config", path, "-y"]).returncode == 0
        got = json.loads(path.read_text())
        for key in place:
            got = got[key]
        assert got["a"]["args"] == ["mcp", "--wrap", "--", "x"]
    path = me.write(me.work / "c.json", '{"mcp": {"a": {"type": "local", "command": ["x", "y"], "environment": {"K": "v"}}}}')
    assert me.outside([me.cordon, "mcp", "--wrap-config", path, "-y"]).returncode == 0
    assert json.loads(path.read_text())["mcp"]["a"]["command"] == [me.cordon, "mcp", "--wrap", "-e", "K", "--", "x", "y"]
    for text, said in (("{// x\n}", "names no MCP servers"), ("[]", "names no MCP servers"), ('{"a":1}', "names no MCP servers")):
        done = me.outside([me.cordon, "mcp", "--wrap-config", me.write(me.work / "c.json", text), "-y"])
        assert done.returncode == 125 and said in done.stderr.decode(), text
        assert (me.work / "c.json").read_text() == text
    assert me.outside([me.cordon, "mcp", "--wrap-config", "/nowhere"]).returncode == 125


COMMENTED = """// ä "mcpServers": {"no": {"command": "x"}}
{
    /* "a": {"command": "b"}, */ "servers": { // the ones, at "{"
        /* ü */ "web": {"command": "npx", /* why */ "args": ["-y", "http://x/*y*/",],}, // x\r
        "bare": {"command": "s"},
    },
}
"""


def test_a_configuration_with_comments(me):
    """As editors have it; a comment stays, and what looks like a server in one is none."""
    path = me.write(me.work / "mcp.json")
    path.write_bytes(COMMENTED.encode())
    done = me.outside([me.cordon, "mcp", "--wrap-config", path, "-y"])
    assert done.returncode == 0, done.stderr
    front = f'"command": "{me.cordon}"'
    want = COMMENTED.replace('"command": "npx"', front).replace('["-y"', '["mcp", "--wrap", "--", "npx", "-y"')
    want = want.replace('{"command": "s"}', '{%s, "args": ["mcp", "--wrap", "--", "s"]}' % front)
    assert path.read_bytes() == want.encode()
    done = me.outside([me.cordon, "mcp", "--wrap-config", path, "-y"])
    assert "nothing to wrap" in done.stderr.decode() and path.read_bytes() == want.encode()


@pytest.mark.parametrize("end", ["\r", "\u2028", "\u2029", None])
def test_a_comment_that_ends_elsewhere_for_others_is_refused(me, end):
    """What we take for a comment a client might take for a server, which would run without a sandbox."""
    server = '"evil": {"command": "x"}, '
    text = '{"mcpServers": {// a%s%s\n"a": {"command": "b"}}}' % (end, server) if end else '{"mcpServers": {} /* "a"}'
    path = me.work / "c.json"
    path.write_bytes(text.encode())
    done = me.outside([me.cordon, "mcp", "--wrap-config", path, "-y"])
    assert done.returncode == 125 and "without a clear end" in done.stderr.decode()
    assert path.read_bytes() == text.encode()


def test_what_servers_keep_is_apart(me):
    """One that is evil must not find the programs that the next one has installed."""
    one = {"command": "x"}
    config = {"mcpServers": {"a": one, "../a": one, "b/c": one, ".": one}, "projects": {"/p": {"mcpServers": {"a": one}}}}
    status, said, got = wrap_config(me, config, "--private", "kept", "--receipt", me.work / "r")
    assert status == 0, said
    words = [server["args"] for server in (*got["mcpServers"].values(), *got["projects"]["/p"]["mcpServers"].values())]
    kept = [word for args in words for word in args if word.startswith("--private=")]
    names = ["a", "%2E./a".replace("/", "%2F"), "b%2Fc", "%2E", "%2Fp,a"]
    assert kept == [f"--private={me.work}/kept/{name}" for name in names]
    receipts = [word for args in words for word in args if word.startswith("--receipt=")]
    assert receipts == [f"--receipt={me.work}/r.{name}" for name in names]
    assert (me.work / "kept").stat().st_mode & 0o777 == 0o700
    words = got["mcpServers"]["../a"]["args"]
    done = me.outside([me.cordon, *words[: words.index("--")], "--", "touch", "/tmp/x"])
    assert done.returncode == 0 and (me.work / "kept" / names[1] / "tmp" / "x").exists()


def test_servers_that_would_share_what_they_keep(me):
    """Nothing but their names tells them apart, and the directory of all is nobody's."""
    one = {"command": "x"}
    for config in (
        {"mcpServers": {"a": one}, "servers": {"a": one}},
        {"x": {"p": {"mcpServers": {"a": one}}}, "y": {"p": {"mcpServers": {"a": one}}}},
    ):
        for option in ("--private", "--receipt"):
            status, said, got = wrap_config(me, config, option, "kept")
            assert status == 125 and "two servers are called 'a'" in said and got == config
        status, said, got = wrap_config(me, config)
        assert status == 0 and got != config, said
    status, said, got = wrap_config(me, {"mcpServers": {"": one, "b": one}}, "--private", "kept")
    kept = [word for server in got["mcpServers"].values() for word in server["args"] if word.startswith("--private=")]
    assert status == 0 and kept == [f"--private={me.work}/kept/{name}" for name in ("%", "b")]


def wrap_config(me, config, *more):
    path = me.write(me.work / "c.json", json.dumps(config))
    done = me.outside([me.cordon, "mcp", "--wrap-config", path, "-y", *more])
    return done.returncode, done.stderr.decode(), json.loads(path.read_text())


def is_wrapped(me, server):
    words = server["command"] if isinstance(server["command"], list) else [server["command"], *server["args"]]
    return words[:3] == [me.cordon, "mcp", "--wrap"]


@pytest.mark.parametrize(
    "server",
    [
        {"command": "evil", "args": ["--wrap"]},
        {"command": "./cordon", "args": ["mcp", "--wrap", "--", "x"]},
        {"command": "cordon", "args": ["mcp", "--wrap"], "env": {"PATH": "."}},
        {"command": ["evil", "mcp", "--wrap"]},
    ],
)
def test_a_server_that_only_says_it_is_wrapped_is_not_believed(me, server):
    status, _, got = wrap_config(me, {"mcpServers": {"a": server}})
    assert status == 0 and is_wrapped(me, got["mcpServers"]["a"])


def test_servers_are_wrapped_wherever_the_file_has_them(me):
    one = {"command": "x", "args": []}
    status, _, got = wrap_config(me, {"mcpServers": {"a": one}, "servers": {"b": one}, "projects": {"/p": {"mcpServers": {"c": one}}}})
    found = [got["mcpServers"]["a"], got["servers"]["b"], got["projects"]["/p"]["mcpServers"]["c"]]
    assert status == 0 and all(is_wrapped(me, server) for server in found)
    # In a list, too.
    status, _, got = wrap_config(me, {"profiles": [{"mcpServers": {"a": one}}, [{"mcpServers": {"a": one}}]]})
    assert status == 0 and is_wrapped(me, got["profiles"][0]["mcpServers"]["a"]) and is_wrapped(me, got["profiles"][1][0]["mcpServers"]["a"])
    # A server that is called as VS Code calls its map.
    local = {"type": "local", "command": ["x"]}
    status, _, got = wrap_config(me, {"mcp": {"servers": local, "a": local}})
    assert status == 0 and is_wrapped(me, got["mcp"]["servers"]) and is_wrapped(me, got["mcp"]["a"])
    assert wrap_config(me, {"mcpServers": [one]})[0] == 125


@pytest.mark.parametrize("more", [{"env": {"LD_PRELOAD": "./evil.so"}}, {"environment": {"XDG_STATE_HOME": "/x"}}, {"envFile": "x"}])
@pytest.mark.parametrize("command", ["x", ["x"], "cordon"])
def test_a_configuration_cannot_change_what_cordon_does(me, command, more):
    config = {"mcpServers": {"good": {"command": "x"}, "evil": {"command": command, "args": ["mcp", "--wrap"], **more}}}
    status, said, got = wrap_config(me, config)
    assert status == 125 and "outside of the sandbox" in said and "'evil'" in said and got == config


@pytest.mark.parametrize("cwd", ["~/.ssh", "~", "keys", "{home}", "{home}/.ssh", "../..", "a/.ssh", "/", "/etc/ssh", "$HOME/.ssh",
                                 "${workspaceFolder}/../.ssh", "/no/such/place", 1])  # fmt: skip
def test_a_configuration_cannot_show_keys_as_the_place_of_a_server(me, cwd):
    (me.home / ".ssh").mkdir(mode=0o700, exist_ok=True)
    me.own(me.home / ".ssh")
    if cwd == "keys":  # a link
        (me.work / "keys").symlink_to(me.home / ".ssh")
        cwd = str(me.work / "keys")
    cwd = cwd.format(home=me.home) if isinstance(cwd, str) and "{home}" in cwd else cwd
    config = {"mcpServers": {"good": {"command": "x"}, "evil": {"command": "x", "cwd": cwd}}}
    status, said, got = wrap_config(me, config)
    assert status == 125 and "would show" in said and "'evil'" in said and got == config


def test_a_server_can_start_in_a_project(me):
    for cwd in str(me.work), "sub/dir", ".", "${workspaceFolder}", "${workspaceFolder}/sub":
        status, _, got = wrap_config(me, {"mcpServers": {"a": {"command": "x", "cwd": cwd}}})
        assert status == 0 and got["mcpServers"]["a"]["cwd"] == cwd


def test_a_configuration_keeps_its_owner_and_has_to_be_a_file(me):
    path = me.write(me.work / "c.json", json.dumps({"mcpServers": {"a": {"command": "x"}}}))
    if me.uid == 0:
        os.chown(path, 12345, 12346)
    before = path.stat()
    assert me.outside([me.cordon, "mcp", "--wrap-config", path, "-y"]).returncode == 0
    after = path.stat()
    assert (before.st_uid, before.st_gid, before.st_mode) == (after.st_uid, after.st_gid, after.st_mode)
    assert before.st_ino != after.st_ino
    os.mkfifo(me.work / "fifo")
    done = me.outside([me.cordon, "mcp", "--wrap-config", me.work / "fifo"], timeout=20)
    assert done.returncode == 125 and "no ordinary file" in done.stderr.decode()


@pytest.mark.parametrize("name", ["claude", "cursor", "vscode", "codex", "opencode"])
def test_printed_configurations_start_the_server(client, me, project, name):
    done = me.outside([me.cordon, "mcp", "--print-config", name, "--workspace", "../project", "-t", "9s"])
    text = done.stdout.decode()
    assert done.returncode == 0
    if name == "codex":
        fields = dict(line.split(" = ", 1) for line in text.splitlines()[1:])
        assert text.startswith("[mcp_servers.cordon]\n")
        words = [json.loads(fields["command"]), *json.loads(fields["args"])]
    else:
        key = {"vscode": "servers", "opencode": "mcp"}.get(name, "mcpServers")
        entry = json.loads(text)[key]["cordon"]
        words = entry["command"] if name == "opencode" else [entry["command"], *entry["args"]]
    c = client(argv=words, cwd="/")
    assert c.call("get_limits").data["timeout_ms"] == 9000
    assert c.call("get_limits").data["workspace"]["directory"] == str(project)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--wrap"], "needs a server"),
        (["--wrap", "--selftest"], "exclude each other"),
        (["--wrap", "--direct", "--", "x"], "own tools"),
        (["--receipt", "x"], "--receipt needs --wrap"),
        (["--private", "x"], "--private needs --wrap"),
        (["--yes"], "--yes needs --wrap-config"),
        (["--print-config", "emacs"], "no client 'emacs'"),
    ],
)
def test_wrong_options_of_the_other_modes(me, words, said):
    done = me.outside([me.cordon, "mcp", *words])
    assert done.returncode == 125 and said in done.stderr.decode() and done.stdout == b""
