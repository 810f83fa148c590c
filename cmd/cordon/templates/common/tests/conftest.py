# SPDX-License-Identifier: Apache-2.0
"""What hostile code tries: to read a file of the host, to write to it, to reach a service."""

import socket
import subprocess
import sys

import pytest

ATTACKS = ["read a file", "write a file", "open a connection"]


class Host:
    def __init__(self, directory):
        self.secret = directory / "secret.txt"
        self.secret.write_text("the secret of the host")
        self.marker = directory / "marker"
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(0.2)

    def expression(self, attack):
        """The attack as one Python expression."""
        port = self.listener.getsockname()[1]
        connect = f"__import__('socket').create_connection(('127.0.0.1', {port}), 2).send(b'x')"
        return {
            "read a file": f"open({str(self.secret)!r}).read()",
            "write a file": f"open({str(self.marker)!r}, 'w').write('was here')",
            "open a connection": connect,
        }[attack]

    def program(self, attack):
        return f"print({self.expression(attack)})"

    def is_harmed(self, answer=""):
        """`answer`: what came back from the code."""
        try:
            self.listener.accept()[0].close()
            return True
        except socket.timeout:
            return self.marker.exists() or "the secret of the host" in answer


@pytest.fixture
def host(tmp_path):
    host = Host(tmp_path)
    yield host
    host.listener.close()


@pytest.fixture(params=ATTACKS)
def attack(request):
    return request.param


@pytest.fixture
def outside():
    """Runs a program without a sandbox: to show that an attack is one."""

    def run(program):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        return done.stdout + done.stderr

    return run
