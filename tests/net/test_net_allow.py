# SPDX-License-Identifier: Apache-2.0
"""Which hosts and ports can be reached: nothing by default, then exactly what the rules name."""

import json

import pytest
from rig import allow, deny, net_denials, refused, wait_for, zone

# At level landlock a program has to speak to the proxy, in one of three ways.
WAYS = [("namespaces", None), ("landlock", "proxy"), ("landlock", "connect"), ("landlock", "socks")]
way = pytest.mark.parametrize(("level", "via"), WAYS, ids=lambda v: v or "direct")
tunnel = pytest.mark.parametrize(
    ("level", "via"), [w for w in WAYS if w[1] != "proxy"], ids=lambda v: v or "direct"
)


def http(host, port=80, via=None):
    return {"do": "http", "host": host, "port": port, "via": via}


EVERYTHING = [
    http("example.com"), http("93.184.216.34"), http("2606:2800:220:1::1"), http("example.com", 8080),
    http("127.0.0.1"), http("::1"), http("10.1.2.3"), http("169.254.169.254"), http("203.0.113.2"),
    {"do": "tls", "host": "example.com"}, {"do": "tcp", "host": "db.example", "port": 5432, "shut": True},
    {"do": "tcp", "host": "smtp.example", "port": 25, "limit": 4}, {"do": "udp", "host": "8.8.8.8", "port": 443},
    {"do": "udp", "host": "8.8.8.8", "port": 7}, {"do": "dns", "name": "example.com"},
    {"do": "dns", "name": "example.com", "tcp": True}, {"do": "dns", "name": "example.com", "server": "127.0.0.1"},
]  # fmt: skip


def nothing_happened(net, results):
    assert [r for r in results if "error" not in r] == []
    assert net.arrived() == [] and net.queries() == []


@pytest.mark.parametrize("how", ["no rules", "empty list"])
def test_closed_by_default(home, net, level, how):
    home.control(*EVERYTHING[:-1])
    net.forget()
    policy = home.write(home.out / "p.json", json.dumps({"version": 1, "net": {"allow": []}}))
    opts = ["-p", policy] if how == "empty list" else []
    got = home.within(opts, *[dict(s, timeout=1) for s in EVERYTHING], level=level)
    nothing_happened(net, got["results"])
    assert got["usage"]["net_bytes_in"] == got["usage"]["net_bytes_out"] == 0


def test_one_host_opens_no_other(home, net):
    """With a rule there are listeners and a resolver, and still nothing else is reachable."""
    steps = [dict(s, timeout=1) for s in EVERYTHING if s.get("host") != "v4only.example"]
    got = home.within(allow("v4only.example:80,443,5432,25,8080"), *steps)
    reached = [(s, r) for s, r in zip(steps, got["results"]) if "error" not in r]
    for step, result in reached:  # a name server answers, but with a refusal; a relay closes at once
        assert result.get("rcode") == 5 or result.get("cut") or result.get("got") == "", (step, result)
    assert net.arrived() == [] and net.queries() == []


# rules, what can be reached with them, what cannot
TABLE = {
    "exact": (
        allow("example.com"),
        [("example.com", 80)],
        [("www.example.com", 80), ("notexample.com", 80), ("example.com", 8080), ("93.184.216.34", 80), ("evil.example", 80)],
    ),
    "wildcard": (
        allow("*.example.com"),
        [("www.example.com", 80), ("a.b.example.com", 80)],
        [("example.com", 80), ("notexample.com", 80), ("evil.example", 80)],
    ),
    "wildcard-port": (
        allow("*.example.com:8080"), [("www.example.com", 8080)], [("www.example.com", 80), ("example.com", 8080)],
    ),
    "ports": (
        allow("example.com:8080", "v4only.example:80"),
        [("example.com", 8080), ("v4only.example", 80)],
        [("example.com", 80), ("v4only.example", 8080)],
    ),
    "several-ports": (allow("example.com:80,8080"), [("example.com", 80), ("example.com", 8080)], [("example.com", 9000)]),
    "address": (
        allow("93.184.216.34"), [("93.184.216.34", 80)], [("93.184.216.35", 80), ("example.com", 80), ("10.1.2.3", 80)],
    ),
    "network": (
        allow("93.184.216.32/28", "10.1.2.0/24:8080"),
        [("93.184.216.35", 80), ("93.184.216.47", 80), ("10.1.2.3", 8080)],
        [("93.184.216.48", 80), ("10.1.2.3", 80), ("10.1.3.3", 8080), ("www.example.com", 80)],
    ),
    "six": (
        allow("2606:2800:220:1::1", "[2606:2800:220:1::6]:8080"),
        [("2606:2800:220:1::1", 80), ("2606:2800:220:1::6", 8080)],
        [("2606:2800:220:1::2", 80), ("2606:2800:220:1::6", 80), ("v6only.example", 80)],
    ),
    "network-six": (
        allow("2606:2800::/32"), [("2606:2800:220:1::1", 80)], [("2607:2800:220:1::1", 80), ("::1", 80)],
    ),
    "v6-only-host": (allow("v6only.example"), [("v6only.example", 80)], [("v4only.example", 80)]),
    "hosts-file": (allow("hosts.example"), [("hosts.example", 80)], [("93.184.216.40", 80)]),
    "deny-name": (
        [*allow("*.example.com"), *deny("secret.example.com")], [("www.example.com", 80)], [("secret.example.com", 80)],
    ),
    "deny-below": (
        [*allow("*.example.com", "example.com"), *deny("*.b.example.com")],
        [("www.example.com", 80), ("example.com", 80)],
        [("a.b.example.com", 80)],
    ),
    "deny-port": (
        [*allow("example.com:80,8080"), *deny("example.com:80")], [("example.com", 8080)], [("example.com", 80)],
    ),
    "deny-address": (
        [*allow("93.184.216.0/24"), *deny("93.184.216.35")], [("93.184.216.34", 80)], [("93.184.216.35", 80)],
    ),
    "idna": (allow("xn--bcher-kva.example"), [("xn--bcher-kva.example", 80)], [("example.com", 80)]),
    "case": (allow("EXAMPLE.com."), [("example.com", 80), ("Example.COM", 80)], [("www.example.com", 80)]),
}  # fmt: skip


@way
@pytest.mark.parametrize("name", TABLE)
def test_rules(home, net, level, via, name):
    rules, good, bad = TABLE[name]
    steps = [http(host, port, via) for host, port in good + bad]
    got = home.within(rules, *steps, level=level)
    worked = [(s["host"], s["port"]) for s, r in zip(steps, got["results"]) if "error" not in r]
    assert worked == good, got
    assert len(net.arrived()) == len(good)
    # A port that no rule names at all is refused by the kernel, which does not tell Cordon.
    assert net_denials(got) or (name == "several-ports" and level == "namespaces"), got["denials"]


def test_rules_control(home, net):
    """Outside, everything that the table refuses can be reached."""
    refused_ones = sorted({target for _, _, bad in TABLE.values() for target in bad if target[1] != 9000})
    home.control(*[http(host, port) for host, port in refused_ones])
    net.forget()


@way
def test_localhost_is_the_hosts_own(home, net, level, via):
    got = home.within(
        allow("localhost:8080"), http("localhost", 8080, via), http("127.0.0.1", 8080, via),
        http("localhost", 5432, via), http("203.0.113.2", 8080, via), level=level,
    )  # fmt: skip
    assert ["error" in r for r in got["results"]] == [False, False, True, True], got
    contacts = net.home.contacts()
    assert len(contacts) == 2 and {c["addr"] for c in contacts} <= {"127.0.0.1", "::1"}, contacts


@way
def test_a_public_address_of_this_machine(home, net, level, via):
    """It leads to all that listens here: neither a network around it nor a name means it, only itself does."""
    steps = [http("93.184.77.77", 80, via), http("self.example", 80, via)]
    home.control(*[http("93.184.77.77", 80), http("self.example", 80)])
    net.forget()
    got = home.within(allow("0.0.0.0/0", "self.example"), *steps, level=level)
    assert ["error" in r for r in got["results"]] == [True, True], got
    assert net.home.contacts() == [] and net_denials(got), got["denials"]
    got = home.within(allow("93.184.77.77", "self.example"), *steps, level=level)
    assert ["error" in r for r in got["results"]] == [False, False], got
    assert {c["addr"] for c in net.home.contacts()} == {"93.184.77.77"}


@way
@pytest.mark.parametrize("name", zone.OWN)
def test_other_addresses_of_this_machine(home, net, level, via, name):
    """The second one of a device, and one that is here by a route only: as the first."""
    address = zone.OWN[name]
    steps = [http(address, 80, via), http(name, 80, via)]
    home.control(http(address, 80), http(name, 80))
    assert {c["addr"] for c in net.home.contacts()} == {address}, "the positive control arrived elsewhere"
    got = home.within(allow("0.0.0.0/0", "::/0", name), *steps, level=level)
    assert ["error" in r for r in got["results"]] == [True, True], got
    assert net.arrived() == []
    wanted = f"[{address}]:80" if ":" in address else f"{address}:80"
    told = refused(got, "connect", f"{wanted} (its address is not public: {address})")
    assert told and told["fix"] == f"--net-allow {wanted}", got["denials"]
    got = home.within(allow(f"[{address}]" if ":" in address else address, name), *steps, level=level)
    assert ["error" in r for r in got["results"]] == [False, False], got
    assert {c["addr"] for c in net.home.contacts()} == {address}


@way
def test_an_address_that_is_here_for_one_port(home, net, level, via):
    """A rule of the routing tables for that port: the kernel is asked what connect() asks."""
    steps = [http("93.184.79.9", port, via) for port in (80, 5432)]
    home.control(steps[0] if via is None else http("93.184.79.9", 80))
    assert [c["addr"] for c in net.arrived()] == ["93.184.79.9"]
    got = home.within(allow("0.0.0.0/0:80,5432"), *steps, level=level)
    assert ["error" in r for r in got["results"]] == [False, True], got
    assert refused(got, "connect", "93.184.79.9:5432 (its address is not public: 93.184.79.9)"), got["denials"]
    assert [(c["addr"], c["port"]) for c in net.arrived()] == [("93.184.79.9", 80)]


def test_loopback_inside_stays_inside(home, net):
    """A server of the sandbox's own on 127.0.0.1 and ::1, beside a rule for other ports."""
    script = """
import socket
for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
    s = socket.socket(family); s.bind((address, 8080)); s.listen(1)
    c = socket.create_connection((address, 8080), 2); a, _ = s.accept(); a.send(b'own'); print(c.recv(3).decode())
"""
    done = home.run(allow("example.com"), ["python3", "-c", script], "namespaces")
    assert done.stdout.split() == [b"own", b"own"], done.stderr
    assert net.arrived() == []


@tunnel
def test_other_protocols(home, net, level, via):
    """Where nothing has to be read first, either side may speak first."""
    rules = allow("db.example:5432", "smtp.example:25", "ssh.example:22")
    got = home.within(
        rules,
        {"do": "tcp", "host": "db.example", "port": 5432, "send": "\0\1\2 anything", "shut": True, "via": via},
        {"do": "tcp", "host": "smtp.example", "port": 25, "first": 4, "send": "QUIT\r\n", "via": via},
        {"do": "tcp", "host": "ssh.example", "port": 22, "limit": 8, "via": via},
        {"do": "tcp", "host": "db.example", "port": 25, "limit": 8, "via": via},
        level=level,
    )
    assert [r.get("got") for r in got["results"][:2]] == ["\0\1\2 anything", "220 mail.example ready\r\n221 bye\r\n"], got
    assert got["results"][2]["got"].startswith("SSH-2.0-")
    assert "got" not in got["results"][3] or got["results"][3]["got"] == ""
    assert sorted(c["port"] for c in net.arrived()) == [22, 25, 5432]
    assert refused(got, "connect", "db.example:25")["fix"] == "--net-allow db.example:25"


def test_denials_tell_the_remedy(home, net):
    got = home.within(allow("v4only.example"), http("example.com"), http("93.184.216.34"), {"do": "dns", "name": "a.test"})
    assert [d["rule"] for d in net_denials(got)] == ["net.allow"] * 3, got["denials"]
    assert refused(got, "connect", "93.184.216.34:80")["fix"] == "--net-allow 93.184.216.34:80"
    assert refused(got, "connect", "93.184.216.34:80")["count"] == 1
    names = {d["target"]: d["fix"] for d in got["denials"] if d["what"] == "resolve"}
    assert names == {"example.com": "--net-allow example.com", "a.test": "--net-allow a.test"}, names
    # Taken at its word, the remedy works.
    again = home.within([*allow("v4only.example"), "--net-allow", "example.com"], http("example.com"))
    assert "error" not in again["results"][0] and net_denials(again) == []


def test_threads_and_both_families(home, net):
    hosts = ["example.com", "www.example.com", "a.b.example.com", "v4only.example", "v6only.example"]
    steps = [http(host) for host in hosts] * 8
    got = home.within(allow(*hosts), {"do": "threads", "steps": steps})
    results = got["results"][0]["results"]
    assert [r for r in results if "error" in r] == []
    for step, result in zip(steps, results):
        assert result["got"].endswith(f"hello from {step['host']}\n")
    assert len(net.arrived()) == len(steps)


def test_no_proxy_variables_at_level_namespaces(home):
    done = home.run(allow("example.com"), ["env"], "namespaces", env={"HTTP_PROXY": "http://evil.example:3128"})
    assert b"proxy" not in done.stdout.lower(), done.stdout


def test_proxy_variables_at_level_landlock(home, net):
    done = home.run(allow("example.com"), ["env"], "landlock")
    env = dict(line.split("=", 1) for line in done.stdout.decode().splitlines())
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        assert env[name] == env[name.lower()] and "127.0.0.1" in env[name] or "localhost" in env[name], env
    assert env["NO_PROXY"] == env["no_proxy"]
    # They are no more than a hint: without them nothing is reachable.
    got = home.within(allow("example.com"), *[dict(s, timeout=1) for s in EVERYTHING], level="landlock")
    assert [s for s, r in zip(EVERYTHING, got["results"]) if r.get("got")] == []
    assert net.arrived() == [] and net.queries() == []


def test_require_net(me):
    assert me.run([*allow("example.com"), "--require", "net"], ["true"], "namespaces").returncode == 0
    done = me.run([*allow("example.com"), "--require", "net"], ["true"], "landlock")
    assert done.returncode == 125 and b"net" in done.stderr, done


@pytest.mark.parametrize(
    "rule",
    ["", "*", "*.", "http://example.com", "example.com:0", "example.com:65536", "example.com:", "exa mple.com", "1.2.3.4/33",
     "10.0.0.1/8", "1.2.3", "0x7f.1", "[::1", "::1]:80", "example..com", "-a.com", "a*.com", "*.*.com", "bücher.example",
     "user@example.com", "example.com:80,", "example.com/path", "example.com:http", "127.0.0.1.5", "a\nb.com"],
)  # fmt: skip
def test_bad_rules_are_refused(home, rule):
    for flag in ("--net-allow", "--net-deny"):
        done = home.run([flag, rule], ["true"])
        assert done.returncode == 125, (flag, done)
        assert done.stderr.startswith(b"cordon: ") and b"\n" not in done.stderr.rstrip(b"\n").replace(b"\ncordon: ", b""), done


def test_a_silent_target_does_not_hold_up_others(home, net):
    """One connection waits for a name that never resolves, another goes through meanwhile."""
    steps = [http("silent.example"), http("example.com")]
    proc = home.popen(
        home.argv(allow("silent.example", "example.com"), home.steps([{"do": "threads", "steps": steps}]), "namespaces")
    )
    wait_for(lambda: 80 in net.world.live()["ports"])
    proc.terminate()
    proc.wait(10)
    assert {q["name"] for q in net.queries()} == {"silent.example", "example.com"}


def test_every_private_address_can_be_named(home, net):
    """The rule that names an address opens it, whatever kind of address it is."""
    targets = sorted({a for a in zone.PRIVATE.values() if not a.startswith(("64:", "2002:", "2001:0:"))})
    got = home.within(allow(*targets), *[http(a) for a in targets])
    assert [r for r in got["results"] if "error" in r] == []
    assert sorted(c["addr"] for c in net.arrived()) == targets
