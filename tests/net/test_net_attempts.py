# SPDX-License-Identifier: Apache-2.0
"""What a command without a network tried: the names it asked for, and how often it used an address."""

import pytest
from rig import net_denials

PYTHON = ["python3", "-I", "-c"]
# Questions as a resolver sends them, or nearly so.
ASK = """
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def ask(*labels, port=53, kind=1, qclass=1, more=b''):
    name = b''.join(bytes([len(l)]) + l for l in labels) + bytes(1)
    question = struct.pack('>6H', 7, 0x100, 1, 0, 0, 0) + name + struct.pack('>2H', kind, qclass) + more
    s.sendto(question, ('127.0.0.1', port))
def asks(*names):
    for name in names: ask(*name.encode().split(b'.'))
"""
ATTEMPTS = """
for family, address in ((socket.AF_INET, '93.184.216.34'), (socket.AF_INET6, '2606:2800:220:1::1'), (socket.AF_INET, '10.1.2.3')):
    with socket.socket(family) as s:
        s.settimeout(5); print(s.connect_ex((address, 80)))
"""
ADDRESSES = {"what": "connect", "target": "other machines by their address, 3 times", "rule": "net.allow",
             "fix": "--net-allow ADDRESS", "how": "observed", "count": 3}  # fmt: skip


def name(text, fix=True):
    return {
        "what": "resolve",
        "target": text,
        "rule": "net.allow",
        "fix": f"--net-allow {text}" if fix else None,
        "how": "observed",
    }


def tell(caller, script, opts=(), level="namespaces"):
    got = caller.receipt(opts, [*PYTHON, ASK + script], level)
    assert got["status"] == 0, got
    return [{**{"fix": None}, **d} for d in net_denials(got)]


@pytest.mark.parametrize("opts", [[], ["--publish", "0:8000/tcp"]], ids=["nothing", "publish"])
def test_attempts_without_a_network_are_told(home, net, opts):
    done = home.outside([*PYTHON, "import socket" + ATTEMPTS])
    assert done.stdout.split() == [b"0"] * 3, "positive control"
    assert len(net.arrived(80)) == 3
    got = tell(home, "asks('index.example', 'Index.Example', 'files.example', 'index.example')" + ATTEMPTS, opts)
    assert got == [name("index.example"), name("files.example"), ADDRESSES]
    assert net.arrived() == [] and net.queries() == []


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("getent hosts pypi.example", "resolve pypi.example (allow it with --net-allow pypi.example)"),
        ("exec 3<>/dev/tcp/pypi.example/443", "resolve pypi.example (allow it with --net-allow pypi.example)"),
        ("exec 3<>/dev/tcp/192.0.2.1/443", "connect to another machine by its address (allow it with --net-allow ADDRESS)"),
    ],
)  # fmt: skip
def test_a_command_that_ends_at_once_is_told_in_one_line(me, command, told):
    done = me.run([], ["bash", "-c", command], "namespaces")
    lines = [line for line in done.stderr.decode().splitlines() if line.startswith("cordon: ")]
    assert done.returncode != 0 and lines == ["cordon: refused: " + told], done.stderr


def test_a_quiet_run_without_a_network_has_no_denials(me):
    """Its own loopback does not count, nor names that are its own."""
    got = tell(me, """
import time
ask(b'1', b'0', b'0', b'127', b'in-addr', b'arpa', kind=12); asks('localhost', 'a.localhost')
ask(b'other', b'port', port=54); ask(b'chaos', qclass=3); s.sendto(b'name?', ('127.0.0.1', 53))
for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
    with socket.create_server((address, 8080), family=family) as l, socket.create_connection((address, 8080)): l.accept()[0].close()
    assert socket.socket(family).connect_ex((address, 9)) != 0
time.sleep(0.1)
""")  # fmt: skip
    assert got == []


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_name_server_inside_has_its_port_and_its_answers(me, address):
    got = tell(me, f"""
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); server.bind(({address!r}, 53))
asks('mine.example'); question, sender = server.recvfrom(4096); server.sendto(question, sender)
assert s.recvfrom(4096)[0] == question
""")  # fmt: skip
    assert got == []


def test_a_hostile_name_is_shown_without_harm(me):
    got = tell(me, r"""
ask(b'\x1b]0;x\x07\n', b'example'); ask(b'a.b', b'example'); ask(b'--no-protect'); ask(*[b'x' * 63] * 3)
ask(b'cut', more=b'\x01'); s.sendto(bytes(600), ('127.0.0.1', 53)); ask(b'after')
""")  # fmt: skip
    assert got == [
        name("?]0;x??.example", False), name("a.b.example"), name("--no-protect", False),
        name(".".join(["x" * 63] * 3)), name("after"),
    ]  # fmt: skip


def test_many_names_are_cut(me):
    got = tell(me, "asks(*[f'n{i}.example' for i in range(500)])")
    assert got == [*(name(f"n{i}.example") for i in range(16)), name("more names than are listed", False)]


def test_a_flood_of_questions_is_bounded(me):
    """Init does not follow it for ever; what it has not read it says."""
    got = tell(me, "for i in range(100_000): ask(b'flood', b'example')\nasks('last.example')")
    assert got[0] == name("flood.example") and len(got) <= 2
    assert all(d == name("last.example") or "perhaps other names" in d["target"] for d in got[1:]), got


def test_names_are_not_known_without_a_net_namespace(me):
    script = "import socket\ntry: socket.getaddrinfo('pypi.example', 443)\nexcept OSError: print('failed')"
    got = me.receipt([], [*PYTHON, script], "landlock")
    assert got["stdout"] == "failed\n" and net_denials(got) == []
