# SPDX-License-Identifier: Apache-2.0
"""What the adapters' tests share: hostile code, and what it can be seen to have done."""

import os
import pathlib
import secrets
import shlex
import socket
import sys
import threading

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"

_CODE = """
import os, socket
def attempt(what, action):
    try:
        print(what, action())
    except Exception as error:
        print(what, "refused:", type(error).__name__, error)
attempt("read", lambda: open({secret!r}).read())
attempt("write", lambda: open({marker!r}, "w").write("was here"))
attempt("connect", lambda: socket.create_connection(("127.0.0.1", {port}), 5).sendall(b"hello"))
attempt("environment", lambda: os.environ["CORDON_TEST_TOKEN"])
attempt("processes", lambda: os.kill({pid}, 0) or "sees the host's processes")
print("attack", "over")
"""

EVERYTHING = {"read", "write", "connect", "environment", "processes"}


class Hostile:
    """Code that reads a secret, leaves a mark, connects out, reads a token from the environment and
    looks for this process; and the evidence of it, gathered outside."""

    def __init__(self, directory, monkeypatch):
        self.secret = secrets.token_hex(16)
        self.token = secrets.token_hex(16)
        self.file = directory / "secret.txt"
        self.file.write_text(self.secret)
        self.marker = directory / "marker.txt"
        monkeypatch.setenv("CORDON_TEST_TOKEN", self.token)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.connections = []
        self.connected = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            with connection:
                self.connections.append(connection.recv(16))
                self.connected.set()

    @property
    def python(self):
        return _CODE.format(
            secret=str(self.file),
            marker=str(self.marker),
            port=self.server.getsockname()[1],
            pid=os.getpid(),
        )

    @property
    def shell(self):
        """The same as one shell command."""
        return f"python3 -c {shlex.quote(self.python)}"

    def done(self, output):
        """What the attack achieved; it must have run to its end."""
        output = str(output)
        assert "attack over" in output, f"the attack did not run: {output}"
        if "connect refused" not in output:
            self.connected.wait(10)  # the server may be a moment behind
        seen = {
            "read": self.secret in output,
            "write": self.marker.exists(),
            "connect": b"hello" in self.connections,
            "environment": self.token in output,
            "processes": "sees the host's processes" in output,
        }
        self.marker.unlink(missing_ok=True)
        self.connections.clear()
        self.connected.clear()
        return {what for what, happened in seen.items() if happened}


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    directory = tmp_path / "outside"
    directory.mkdir()
    made = Hostile(directory, monkeypatch)
    yield made
    made.server.close()


@pytest.fixture
def everything():
    return EVERYTHING


@pytest.fixture
def work(tmp_path, monkeypatch):
    """An empty current directory of the test's own."""
    directory = tmp_path / "work"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def run_example():
    """Runs one of examples/python as its own process; returns what it printed."""
    import subprocess

    def run(name, *arguments, timeout=120, cwd=None):
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / name), *arguments],
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            cwd=cwd,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


class PackageIndex:
    """A package index on this machine; it begins with one pure package, `cordon-test-package`."""

    def __init__(self, directory):
        import functools
        import http.server

        self.directory = directory
        self.add("cordon_test_package", "WORD = 'installed inside'\n")
        self.requests = requests = []

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *args):
                requests.append(args)

            def end_headers(self):
                self.send_header("Cache-Control", "max-age=0")  # who keeps a page asks whether it still holds
                super().end_headers()

        handler = functools.partial(Handler, directory=str(directory))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        self.env = {"PIP_INDEX_URL": f"http://{self.host}/simple", "PIP_NO_CACHE_DIR": "1"}
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def add(self, module, code, script=None):
        """A wheel of one module. ``script``: the command that calls its main()."""
        import zipfile

        package, info = module.replace("_", "-"), f"{module}-1.0.dist-info"
        files = {
            f"{module}.py": code,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        if script:
            files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{script} = {module}:main\n"
        files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
        simple, name = self.directory / "simple" / package, f"{module}-1.0-py3-none-any.whl"
        simple.mkdir(parents=True)
        with zipfile.ZipFile(simple / name, "w") as wheel:
            for path, text in files.items():
                wheel.writestr(path, text)
        (simple / "index.html").write_text(f'<a href="{name}">{name}</a>')


@pytest.fixture
def package_index(tmp_path):
    made = PackageIndex(tmp_path / "index")
    yield made
    made.server.shutdown()
    made.server.server_close()
