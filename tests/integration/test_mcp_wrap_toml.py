# SPDX-License-Identifier: Apache-2.0
"""`cordon mcp --wrap-config` for TOML, as Codex has its configuration in: Python's own reader says what a file
means before and after, so that no server is overlooked and nothing else changes."""

import random
import tomllib

import pytest
from mcplib import client  # noqa: F401

CONFIG = '''# Codex ä
model = "o9" # [mcp_servers.no] command = "x"
sandbox = 'literal \\ "x"'

[mcp_servers.files]   # the one for files
command = "npx"       # from Node
args = [              # what it is given
    "-y", "@x/server", # the package
    '/home/me',
]
env = { "API_KEY" = "k", PORT = "1" }

  [mcp_servers."bare one"]
  command = 'C:\\x' # no arguments
  startup_timeout_sec = 10
[mcp_servers.remote]
url = "https://example.com/mcp"

[mcp_servers.done]
command = "cordon"
args = ["mcp", "--wrap", "--", "x"]

[profiles.work]
since = 1979-05-27 07:32:00
text = """
[mcp_servers.in_a_string]
command = "x"
"""
[[profiles.work.more]]
n = [[1, 2], [0x10, +1.5e3, inf]]
'''


def wrap(me, text, *more, name="config.toml"):
    path = me.work / name
    if not path.exists():
        me.write(path)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    done = me.outside([me.cordon, "mcp", "--wrap-config", path, *more], timeout=20)
    return done.returncode, done.stderr.decode(), done.stdout.decode(), path.read_bytes()


def is_wrapped(me, server):
    return server["command"] == me.cordon and server["args"][:2] == ["mcp", "--wrap"]


def test_codex_is_rewritten_only_when_told_so(me):
    opts = ["--net-allow", "example.com", "-w", "."]
    status, said, shown, text = wrap(me, CONFIG, *opts)
    assert status == 0 and text == CONFIG.encode() and "--yes" in said
    assert f'+command = "{me.cordon}"       # from Node' in shown and "'remote' stays" in said and "'done' stays" in said
    status, said, _, text = wrap(me, CONFIG, *opts, "--yes")
    assert status == 0, said
    got, old = tomllib.loads(text.decode()), tomllib.loads(CONFIG)
    front = ["mcp", "--wrap", "--net-allow=example.com", f"--write={me.work}"]
    want = {
        **old["mcp_servers"],
        "files": {**old["mcp_servers"]["files"], "command": me.cordon, "args": [*front, "-e", "API_KEY", "-e", "PORT", "--", "npx", "-y", "@x/server", "/home/me"]},
        "bare one": {"startup_timeout_sec": 10, "command": me.cordon, "args": [*front, "--", "C:\\x"]},
    }
    assert got == {**old, "mcp_servers": want}
    # Comments and all that is none of a server's stay as they were, and the second time there is nothing to do.
    new = text.decode().splitlines()
    for line in CONFIG.splitlines():
        assert line in new or line.startswith(("command", "args", "  command")), line
    assert [line.partition("#")[2] for line in new if "#" in line] == [line.partition("#")[2] for line in CONFIG.splitlines() if "#" in line]
    path = me.work / "config.toml"
    done = me.outside([me.cordon, "mcp", "--wrap-config", path, *opts, "-y"])
    assert "nothing to wrap" in done.stderr.decode() and path.read_bytes() == text


WRITTEN = {
    "a table": '[mcp_servers.a]\ncommand = "x"\n',
    "without a newline": '[mcp_servers.a]\ncommand = "x"',
    "CRLF": '[mcp_servers.a]\r\ncommand = "x"\r\nargs = [ "1",\r\n "2" ]\r\n',
    "a mark": '\ufeff[mcp_servers.a]\ncommand = "x"\n',
    "dotted at the top": 'mcp_servers.a.command = "x"\n',
    "dotted and with arguments": 'mcp_servers.a.args = ["1"]\nmcp_servers.a.command = "x"\n',
    "dotted in a table": '[mcp_servers]\na.command = "x" # c\nb.command = "y"\nb.args = []\n',
    "quoted and spaced": '[ "mcp_servers" . \'a b\' ]\n"command"   =   \'x\'\n',
    "escaped": '["mcp\\u005fservers"."\\x61"]\n"comm\\U00000061nd" = "\\t\\"x"\n',
    "inline": 'mcp_servers = { a = { command = "x" }, b = {command="y",args=["1"]} }\n',
    "inline and dotted": 'mcp_servers = { a.command = "x", a.env.K = "v" }\n',
    "several lines": '[mcp_servers.a]\ncommand = """\nx"""\nargs = ["""a\n# no comment\n""", \'\'\'b\'\'\', "c\\\\", ]\n',
    "quotes at the end": '[mcp_servers.a]\ncommand = """"x"" """\nargs = [\'\'\'\'\'x\'\'\'\'\', """\\\n   y"""]\n',
    "comments in lists": '[mcp_servers.a]\nargs = [ # "]"\n # \'\n "1" # ,\n , # x\n]\ncommand = "x"\n',
    "the rest elsewhere": '[mcp_servers.a.env]\nK = "v"\n[other]\nx = 1\n[mcp_servers.a]\ncommand = "x"\n',
    "before its table": '[mcp_servers.a]\ncommand = "x"\n[mcp_servers]\nb = {command = "y"}\n',
    "deeper": '[profiles.work.mcp_servers.a]\ncommand = "x"\n[[list]]\n[list.mcp_servers.b]\ncommand = "y"\n[[list]]\n[list.mcp_servers.b]\ncommand = "z"\n',
    "names": '[mcp_servers.a]\ncommand = "x"\nenv_vars = ["ONE", "TWO"]\n',
    "dates": '[mcp_servers.a]\nsince = 1979-05-27 07:32:00.5Z # x\nt = 07:32:00\ncommand = "x"\n',
}


def servers_in(value):
    """Every server in every table that is called so."""
    if isinstance(value, list):
        for one in value:
            yield from servers_in(one)
    if isinstance(value, dict):
        for key, one in value.items():
            if key == "mcp_servers":
                yield from (server for server in one.values() if isinstance(server, dict) and "command" in server)
            yield from servers_in(one)


@pytest.mark.parametrize("name", WRITTEN)
def test_every_way_to_write_a_server(me, name):
    text = WRITTEN[name]
    try:
        old = list(servers_in(tomllib.loads(text.lstrip("\ufeff"))))
    except tomllib.TOMLDecodeError:
        old = None  # a newer revision of TOML than Python's has
    status, said, _, got = wrap(me, text, "-y")
    assert status == 0, said
    if old is None:
        return
    new = list(servers_in(tomllib.loads(got.decode().lstrip("\ufeff"))))
    assert old and len(new) == len(old)
    for before, after in zip(old, new):
        assert is_wrapped(me, after), got
        names = [*before.get("env", {}), *before.get("env_vars", [])]
        passed = [word for variable in names for word in ("-e", variable)]
        assert after["args"] == ["mcp", "--wrap", *passed, "--", before["command"], *before.get("args", [])]
        assert {k: v for k, v in after.items() if k not in ("command", "args")} == {k: v for k, v in before.items() if k not in ("command", "args")}


REFUSED = {
    "no TOML": "command: x\n",
    "JSON": '{"mcpServers": {"a": {"command": "x"}}}',
    "a key twice": '[mcp_servers.a]\ncommand = "x"\ncommand = "y"\n',
    "a server twice": '[mcp_servers]\na = {command = "x"}\n[mcp_servers.a]\ncommand = "y"\n',
    "added to a value": 'mcp_servers = {a = {command = "x"}}\n[mcp_servers.b]\ncommand = "y"\n',
    "no table": "mcp_servers = 1\n",
    "a list of tables": '[[mcp_servers]]\ncommand = "x"\n',
    "none": "[other]\nx = 1\n",
    "empty": "",
    "two on a line": '[mcp_servers.a]\ncommand = "x" args = []\n',
    "no end of a string": '[mcp_servers.a]\ncommand = "x\n',
    "no end of a list": '[mcp_servers.a]\ncommand = "x"\nargs = ["1"\n',
    "no end of lines": '[mcp_servers.a]\ncommand = """x\n',
    "a carriage return": '# c\r[mcp_servers.evil]\rcommand = "y"\r\n[mcp_servers.a]\ncommand = "x"\n',
    "a control character": '[mcp_servers.a] # \x01\ncommand = "x"\n',
    "NUL": '[mcp_servers.a]\ncommand = "x\\u0000y"\n',
    "a surrogate": '[mcp_servers.a]\ncommand = "\\ud800"\n',
    "no such escape": '[mcp_servers.a]\ncommand = "\\q"\n',
    "no UTF-8": b'[mcp_servers.a]\ncommand = "\xff"\n',
    "deep": "x = " + "[" * 100000,
    "deep tables": "x = " + "{a=" * 100000,
    "a long key": "[" + "a." * 100000 + "a]\n",
    "many values": "x = [" + "1," * 100000 + "]\n",
    "a word": "[mcp_servers.a]\ncommand = npx\nx = y\n",
    "LD_PRELOAD": '[mcp_servers.a]\ncommand = "x"\nenv = {LD_PRELOAD = "./e.so"}\n',
    "passed on": '[mcp_servers.a]\ncommand = "x"\nenv_vars = ["XDG_STATE_HOME"]\n',
    "passed on by a table": '[mcp_servers.a]\ncommand = "x"\nenv_vars = [{name = "LD_AUDIT"}]\n',
    "passed on without a name": '[mcp_servers.a]\ncommand = "x"\nenv_vars = [1]\n',
    "larger than a file may be": "# " + "x" * (5 << 20) + '\n[mcp_servers.a]\ncommand = "x"\n',
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_not_clear_stays_as_it_is(me, name):
    text = REFUSED[name]
    status, said, _, got = wrap(me, text, "-y")
    assert status == 125 and len(said.splitlines()) == 1 and said.startswith("cordon: "), said
    assert got == (text if isinstance(text, bytes) else text.encode())


@pytest.mark.parametrize("server", ['command = "evil"\nargs = ["--wrap"]', 'command = "./cordon"\nargs = ["mcp"]', 'command = "cordon"\nargs = ["mcp"]\nenv = {PATH = "."}'])
def test_a_server_that_only_says_it_is_wrapped_is_not_believed(me, server):
    status, said, _, got = wrap(me, f"[mcp_servers.a]\n{server}\n", "-y")
    assert status == 0 and is_wrapped(me, tomllib.loads(got.decode())["mcp_servers"]["a"]), said


def test_what_servers_keep_is_apart(me):
    text = '[mcp_servers.a]\ncommand = "x"\n[mcp_servers."../a"]\ncommand = "x"\n[profiles.p.mcp_servers.a]\ncommand = "x"\n'
    status, said, _, got = wrap(me, text, "-y", "--private", "kept")
    assert status == 0, said
    kept = [word for server in servers_in(tomllib.loads(got.decode())) for word in server["args"] if word.startswith("--private=")]
    assert kept == [f"--private={me.work}/kept/{name}" for name in ("a", "%2E./a".replace("/", "%2F"), "p,a")]


def test_texts_that_are_cut_or_changed_anywhere(me):
    """Whatever is left of a file: refused, or rewritten so that Python's reader finds all servers wrapped."""
    chance = random.Random(7)
    whole = CONFIG.encode()
    texts = [whole[:n] for n in range(0, len(whole), 41)]
    for _ in range(150):
        text = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(text))
            text[at : at + chance.randint(0, 2)] = chance.choice([b"", b'"', b"'", b"\n", b"[", b"]", b"{", b"}", b"#", b"=", b".", b"\\", b'"""', b",", b" "])
        texts.append(bytes(text))
    n_rewritten = 0
    for text in texts:
        status, said, _, got = wrap(me, text, "-y")
        assert status in (0, 125), said
        if status != 0 or got == text:
            assert got == text
            continue
        n_rewritten += 1
        try:
            tomllib.loads(text.decode())
        except tomllib.TOMLDecodeError:
            continue  # a client does not take it either
        for server in servers_in(tomllib.loads(got.decode())):
            assert server["command"] in (me.cordon, "cordon") or not isinstance(server["command"], str), text
    assert n_rewritten > 10


def test_the_entry_that_is_printed_for_codex_is_taken_for_ours(me):
    done = me.outside([me.cordon, "mcp", "--print-config", "codex", "-w", "."])
    text = done.stdout.decode()
    entry = tomllib.loads(text)["mcp_servers"]["cordon"]
    assert entry == {"command": me.cordon, "args": ["mcp", f"--write={me.work}"]}
    status, said, _, got = wrap(me, text, "-y")
    assert status == 0 and "nothing to wrap" in said and got == text.encode()
