# SPDX-License-Identifier: Apache-2.0
"""No way out: the listener's log stays empty whatever is tried."""

import socket
import subprocess
import time

import pytest

from conftest import ceiling, control, rows

WAYS = "tcp mptcp fastopen-sendto fastopen-sendmsg fastopen-option udp-sendto udp-sendmsg udp-sendmmsg udp-connect".split()


def own_addresses():
    """The host's own addresses besides loopback."""
    found = []
    for family, probe in ((socket.AF_INET, "192.0.2.77"), (socket.AF_INET6, "2001:db8::77")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as sock:
                sock.connect((probe, 9))
                found.append(sock.getsockname()[0])
        except OSError:
            pass
    return found


def listen_everywhere(listener):
    args = []
    for address in ["127.0.0.1", "::1", *own_addresses()]:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            port = listener.add(family, socket.SOCK_STREAM, (address, 0), "tcp " + address)[1]
            listener.add(family, socket.SOCK_DGRAM, (address, port), "udp " + address)
        except OSError:
            continue
        args += [address, str(port)]
    return args


def test_no_route_out(me, level, probes, listener):
    probe = probes["net"]
    args = listen_everywhere(listener)
    assert len(args) >= 2
    done = me.run(["-r", probe], [probe, *args], level)
    assert done.returncode == 0, done.stderr
    assert listener.seen() == [], "something arrived"
    got = rows(done.stdout)
    for index in range(len(args) // 2):
        for way in ("tcp", "mptcp", "fastopen-sendto", "fastopen-sendmsg", "fastopen-option"):
            assert got[f"{way}.{index}"].startswith("denied"), (
                way,
                args[2 * index],
                got[f"{way}.{index}"],
            )
        if level == "landlock":
            for way in WAYS[5:]:
                assert got[f"{way}.{index}"].startswith("denied"), (way, args[2 * index])
    outside = rows(me.outside([probe, *args]).stdout)
    control(outside, [f"{w}.0" for w in WAYS])
    assert {"tcp 127.0.0.1", "udp 127.0.0.1"} <= set(listener.seen())


def test_mptcp_and_fast_open_are_refused_by_the_filter(me, level, probes):
    """Not merely for want of a route: also inside, against a listener of one's own."""
    probe = probes["net"]
    script = """
import socket, subprocess, sys
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(8)
print(subprocess.run([sys.argv[1], '127.0.0.1', str(s.getsockname()[1])], stdout=subprocess.PIPE).stdout.decode())
"""
    done = me.run(["-r", probe], ["python3", "-c", script, probe], level)
    if level == "landlock" and done.returncode != 0:
        assert b"PermissionError" in done.stderr or b"OSError" in done.stderr  # cannot even bind
        return
    got = rows(done.stdout.strip())
    for way in ("mptcp", "fastopen-sendto", "fastopen-sendmsg"):
        assert got[f"{way}.0"].startswith("denied"), (way, got)


def test_loopback_inside_works(me):
    script = """
import socket, threading
for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
    try: s = socket.socket(family)
    except OSError: continue
    s.bind((address, 0)); s.listen(1)
    c = socket.create_connection(s.getsockname()[:2], 2); a, _ = s.accept(); a.send(b'ok'); print(c.recv(2).decode())
"""
    done = me.run([], ["python3", "-c", script], "namespaces")
    assert done.stdout.split()[:1] == [b"ok"], done.stderr


def test_only_loopback_exists(me):
    done = me.run([], ["sh", "-c", "cat /proc/net/dev /proc/net/route"], "namespaces")
    devices = [l.split(":")[0].strip() for l in done.stdout.decode().splitlines() if ":" in l]
    assert devices == ["lo"], devices


def test_listener_inside_is_not_reachable(me, level):
    script = """
import socket, sys
try:
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(('0.0.0.0', 0)); s.listen(1)
except OSError: print(0, flush=True); sys.exit()
print(s.getsockname()[1], flush=True)
s.settimeout(3)
try: s.accept(); print('REACHED')
except OSError: pass
"""
    proc = me.popen(
        me.argv([], ["python3", "-c", script], level),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    port = int(proc.stdout.readline())
    try:
        if level == "landlock":
            assert port == 0, "binding is refused at this level"
        if port:
            with socket.socket() as sock:
                sock.settimeout(1)
                with pytest.raises(OSError):
                    sock.connect(("127.0.0.1", port))
    finally:
        proc.terminate()
        out, _ = proc.communicate()
    assert b"REACHED" not in out


def test_names_do_not_resolve(me, level, listener):
    """No resolver is asked: a lookup fails quickly, and nothing reaches port 53 of the host."""
    started = time.monotonic()
    done = me.run(
        ["-t", f"{int(ceiling(20))}s"],
        ["python3", "-c", "import socket; print(socket.getaddrinfo('example.com', 80))"],
        level,
    )
    assert done.returncode == 1 and b"gaierror" in done.stderr
    assert time.monotonic() - started < ceiling(8)
    done = me.run(
        [],
        ["python3", "-c", "import socket; print(socket.getaddrinfo('localhost', 80)[0][4][0])"],
        "namespaces",
    )
    assert done.stdout.strip() in (b"127.0.0.1", b"::1"), done.stderr
