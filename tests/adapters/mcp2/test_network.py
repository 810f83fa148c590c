# SPDX-License-Identifier: Apache-2.0
"""Servers in Python, wrapped, that need a network: one that `uvx` fetches, and the reference server that
fetches pages. Everything they reach is on loopback."""

import asyncio
import contextlib
import http.server
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

BIN = pathlib.Path(sys.executable).parent
CORDON = str(BIN / "cordon")


@pytest.fixture
def ask(tmp_path):
    """ask(words, call..., env={}): the results of these calls, (tool, arguments), by a server that is started for
    them, as (is_error, text); and what was said on standard error. It starts in an empty directory."""
    empty = tmp_path / "empty"
    empty.mkdir()

    def ask(words, *calls, env=None):
        given = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], **(env or {})}
        words = [str(word) for word in words]
        server = StdioServerParameters(command=words[0], args=words[1:], env=given, cwd=empty)

        async def work(log):
            async with Client(stdio_client(server, errlog=log), mode="auto") as client:
                return [await client.call_tool(*call) for call in calls]

        with open(tmp_path / "log", "w+", encoding="utf-8") as log:
            got = asyncio.run(work(log))
            log.seek(0)
            return [(one.is_error, one.content[0].text) for one in got], log.read()

    return ask


# A server as somebody might publish it, but for its tool: that runs whatever it is told.
PUBLISHED = r'''
import contextlib, io, json, sys

def answer(ask):
    if ask["method"] == "initialize":
        about = {"name": "published", "version": "1.0"}
        return {"protocolVersion": ask["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if ask["method"] == "tools/list":
        return {"tools": [{"name": "run", "inputSchema": {"type": "object"}}]}
    if ask["method"] == "tools/call":
        said, failed = io.StringIO(), False
        with contextlib.redirect_stdout(said):
            try:
                exec(ask["params"]["arguments"]["code"], {})
            except OSError as error:
                print(type(error).__name__)
                failed = True
        return {"content": [{"type": "text", "text": said.getvalue()}], "isError": failed}

def main():
    for line in sys.stdin:
        ask = json.loads(line)
        if "id" in ask:
            got = answer(ask)
            what = {"result": got} if got else {"error": {"code": -32601, "message": "no such method"}}
            print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], **what}), flush=True)
'''


def test_a_server_that_uvx_fetches(ask, package_index, hostile, everything, tmp_path):
    """Its index by the gateway, its cache by a private directory, and nothing else."""
    package_index.add("published_server", PUBLISHED, script="published-server")
    home, kept = tmp_path / "home", tmp_path / "kept"
    home.mkdir()
    settings = {
        "UV_DEFAULT_INDEX": f"http://{package_index.host}/simple",
        "UV_PYTHON": "/usr/bin/python3",
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_HTTP_RETRIES": "0",
    }
    uvx = [BIN / "uvx", "published-server"]
    attack = ("run", {"code": hostile.python})
    token = {"CORDON_TEST_TOKEN": hostile.token}

    def fetched():
        got = any(".whl" in str(one) for one in package_index.requests)
        package_index.requests.clear()
        return got

    free, _ = ask(uvx, attack, env={**settings, **token, "HOME": str(home)})
    assert hostile.done(free) == everything and fetched()  # the control

    def wrapped(*options):
        passed = [word for setting in settings.items() for word in ("-e", "=".join(setting))]
        return [CORDON, "mcp", "--wrap", "--private", kept, *passed, *options, "--", *uvx]

    def is_refused():
        done = subprocess.run(wrapped(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        return done.returncode != 0 and "Failed to fetch" in done.stderr and not package_index.requests

    assert is_refused()
    beyond = ("run", {"code": "import socket; socket.getaddrinfo('elsewhere.invalid', 443)"})
    got, said = ask(wrapped("--net-allow", package_index.host), attack, beyond, env=token)
    assert hostile.done(got[0]) == set() and fetched()
    assert got[1] == (True, "gaierror\n") and "--net-allow elsewhere.invalid" in said
    assert (kept / "home" / ".cache" / "uv").is_dir()

    # It is kept: uv may not ask whether there is a newer one, and starts it without a network.
    got, said = ask(wrapped("-e", "UV_OFFLINE=1"), attack, env=token)
    assert hostile.done(got) == set() and not package_index.requests
    assert is_refused()  # it would have asked


class Pages:
    """A web server on loopback, or on another address of this machine, that has a page."""

    def __init__(self, address="127.0.0.1"):
        self.asked = asked = []
        content = {
            "/robots.txt": ("text/plain", b"User-agent: *\nDisallow: /closed\n"),
            "/page": ("text/html", b"<html><body><h1>The page</h1><p>All of its text.</p></body></html>"),
            "/closed": ("text/html", b"<html><body><p>Not for programs.</p></body></html>"),
        }

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                kind, data = content[self.path]
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path="/page", host="127.0.0.1"):
        return ("fetch", {"url": f"http://{host}:{self.port}{path}"})


@pytest.fixture
def pages():
    made = []

    def make(*words):
        made.append(Pages(*words))
        return made[-1]

    yield make
    for one in made:
        one.server.shutdown()
        one.server.server_close()


# The server refuses addresses that are not public by itself, but for --allow-private-ips.
FETCH = [BIN / "mcp-server-fetch", "--allow-private-ips"]
# Where it finds Node and npm it installs a program of theirs into itself, to get at the text of a page.
WITHOUT_NODE = {"PATH": str(BIN)}


def fetch(*options, program=FETCH):
    return [CORDON, "mcp", "--wrap", "-e", "PATH", *options, "--", *program]


def test_fetch_gets_pages_of_the_server_that_is_named_and_of_no_other(ask, pages):
    named, other = pages(), pages()
    calls = [named.url(), named.url("/closed"), other.url(), named.url(host="192.0.2.1"), named.url(host="elsewhere.invalid")]
    free, _ = ask(FETCH, *calls[:3], env=WITHOUT_NODE)  # the control; the others would ask beyond this machine
    assert [failed for failed, _ in free] == [False, True, False], free
    assert named.asked == ["/robots.txt", "/page", "/robots.txt"] and other.asked == ["/robots.txt", "/page"]

    # Some rule has to name the port: one that none does is closed, and attempts at that are not told.
    for told in (False, True):
        named.asked.clear()
        other.asked.clear()
        allow = ["--net-allow", f"127.0.0.1:{named.port}"]
        if told:
            allow += ["--net-allow", f"192.0.2.2:{other.port}"]
        got, said = ask(fetch(*allow), *calls, env=WITHOUT_NODE)
        assert [failed for failed, _ in got] == [False] + [True] * 4, got
        assert "# The page\n\nAll of its text." in got[0][1] and "robots.txt" in got[1][1]
        assert named.asked == ["/robots.txt", "/page", "/robots.txt"] and other.asked == []
        assert f"connect to 192.0.2.1:{named.port} (allow it with --net-allow 192.0.2.1:{named.port})" in said
        assert "resolve elsewhere.invalid (allow it with --net-allow elsewhere.invalid)" in said
        assert (f"--net-allow 127.0.0.1:{other.port})" in said) == told


def name_of_this_machine():
    """(name, address): what /etc/hosts calls an address of this machine, besides localhost."""
    for line in pathlib.Path("/etc/hosts").read_text(encoding="utf-8").splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        for name in names:
            if not name.startswith("localhost"):
                with contextlib.suppress(OSError), socket.socket() as probe:  # not for one of IPv6
                    probe.bind((address, 0))
                    return name, address
    return pytest.skip("/etc/hosts has no other name for an address of this machine")


def test_fetch_has_to_be_told_that_a_name_has_an_address_of_the_sandbox(ask, pages):
    """As docs/mcp.md has it. The gateway is what keeps a name from leading to an address that is not public."""
    name, address = name_of_this_machine()
    server = pages(address)
    page, by_name = server.url(host=name), ["--net-allow", f"{name}:{server.port}"]
    allow = [*by_name, "--net-allow", f"{address}:{server.port}"]

    got, _ = ask(fetch(*allow, program=FETCH[:1]), page, env=WITHOUT_NODE)
    assert got[0][0] and "--allow-private-ips" in got[0][1] and server.asked == []
    assert "198.18.0.16" in got[0][1] or "fd63:6f72:646f:6e00::c612:10" in got[0][1], got

    got, said = ask(fetch(*by_name), page, env=WITHOUT_NODE)
    assert got[0][0] and server.asked == [] and f"refused: resolve {name} (its address is not public: " in said, said

    got, _ = ask(fetch(*allow), page, env=WITHOUT_NODE)
    assert not got[0][0] and "# The page" in got[0][1], got


def test_what_fetch_would_install_for_itself_is_refused_and_told(ask, pages):
    """A page then is an error; without Node it is made into text by the server's own code."""
    if not shutil.which("npm", path="/usr/bin:/bin"):
        pytest.skip("there is no npm")
    server = pages()
    options = ["--net-allow", f"127.0.0.1:{server.port}", "-e", "npm_config_fetch_retries=0", "-e", "npm_config_registry=http://registry.invalid"]
    got, said = ask(fetch(*options), server.url())
    assert got[0][0] and "refused: resolve registry.invalid (allow it with --net-allow registry.invalid)" in said
    installed = list(BIN.parent.glob("lib/python*/site-packages/readabilipy/javascript"))
    assert installed and not [one for one in installed if (one / "node_modules").exists()]
