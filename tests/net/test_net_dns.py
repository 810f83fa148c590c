# SPDX-License-Identifier: Apache-2.0
"""Names: who answers, what is asked of the outside, and which addresses a name may have."""

import ipaddress

import pytest
from rig import allow, deny, net_denials, refused, told_of, zone

NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5
POOL, POOL6 = ipaddress.ip_network("198.18.0.0/15"), ipaddress.ip_network("fc00::/7")


def dns(name, type="A", **more):
    return {"do": "dns", "name": name, "type": type, **more}


def http(host, port=80, **more):
    return {"do": "http", "host": host, "port": port, **more}


def addresses(result, kind="A"):
    return [value for _, k, value, _ in result["answers"] if k == kind]


# --- what is answered ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
def test_types(home, net, tcp):
    """Addresses out of the pool; other questions have an answer at once, and never a real record."""
    kinds = ["A", "AAAA", "ANY", "HTTPS", "SVCB", "TXT", "CNAME", "15", "33"]
    got = home.within(allow("example.com"), *[dns("example.com", k, tcp=tcp) for k in kinds])
    by = dict(zip(kinds, got["results"]))
    assert [k for k in kinds if by[k].get("rcode") != NOERROR] == [], by
    four, six = addresses(by["A"]), addresses(by["AAAA"], "AAAA")
    assert len(four) == len(six) == 1
    assert ipaddress.ip_address(four[0]) in POOL and ipaddress.ip_address(six[0]) in POOL6
    assert set(addresses(by["ANY"]) + addresses(by["ANY"], "AAAA")) <= {*four, *six} and by["ANY"]["answers"]
    assert [k for k in kinds[3:] if by[k]["answers"]] == []
    assert all(0 < ttl <= 3600 for r in got["results"] for *_, ttl in r["answers"]), "a TTL that makes sense"
    asked = {q["type"] for q in net.queries()}
    assert asked <= {"A", "AAAA"} and {q["name"] for q in net.queries()} <= {"example.com"}


def test_any_resolver_answers(home, net):
    servers = ["8.8.8.8", "1.1.1.1", "127.0.0.53", "127.0.0.1", "10.255.255.53", "2001:4860:4860::8888", "::1", "203.0.113.53"]
    steps = [dns("example.com", server=s, tcp=t) for s in servers for t in (False, True)]
    got = home.within(allow("example.com"), *steps)
    found = {tuple(addresses(r)) if "answers" in r else r["error"] for r in got["results"]}
    assert len(found) == 1 and len(found.pop()) == 1, list(zip(steps, got["results"]))


def test_reverse_questions(home):
    script = """
import socket
a = socket.gethostbyname('example.com')
print(socket.gethostbyaddr(a)[0])
"""
    done = home.run(allow("example.com"), ["python3", "-c", script], "namespaces")
    assert done.stdout.strip() == b"example.com", done
    got = home.within(allow("example.com"), dns("34.216.184.93.in-addr.arpa", "PTR"), dns("3.2.1.10.in-addr.arpa", "PTR"))
    assert [r["answers"] for r in got["results"]] == [[], []]
    assert {r["rcode"] for r in got["results"]} <= {NXDOMAIN, REFUSED}


def test_spellings_of_one_name(home):
    names = ["example.com", "EXAMPLE.COM", "eXaMpLe.CoM", "example.com."]
    got = home.within(allow("example.com"), *[dns(n) for n in names], *[{"do": "resolve", "name": n} for n in names])
    assert len({tuple(addresses(r)) for r in got["results"][:4]}) == 1
    assert len({tuple(sorted(r["addresses"])) for r in got["results"][4:]}) == 1, got["results"]


def test_each_name_has_its_own_address(home):
    names = ["example.com", "www.example.com", "a.b.example.com", "v4only.example"]
    got = home.within(allow("*.example.com", "example.com", "v4only.example"), *[dns(n) for n in names])
    found = [addresses(r)[0] for r in got["results"]]
    assert len(set(found)) == len(names), found


def test_localhost_needs_no_rule(home, net):
    got = home.within(allow("example.com"), {"do": "resolve", "name": "localhost"})
    assert set(got["results"][0]["addresses"]) <= {"127.0.0.1", "::1"}, got["results"]
    assert net.queries() == []


def test_search_domains(home, net):
    """What a resolver makes of a short name is judged like any other."""
    conf = home.write(home.work / "search.conf", "")
    names = ["www", "www.example.com", "www.evil.example"]
    got = home.within([*allow("www.example.com"), "-r", conf], *[dns(n) for n in names])
    assert [r["rcode"] for r in got["results"]] == [REFUSED, NOERROR, REFUSED]
    assert {q["name"] for q in net.queries()} <= {"www.example.com"}


@pytest.fixture
def hosts(net):
    """Writes the host's /etc/hosts for a test: so many lines before the last."""
    path = net.base / "hosts"
    before = path.read_bytes()

    def write(lines, last="93.184.216.40 last.example\n"):
        path.write_text("".join(f"93.184.216.40 n{n}.hosts.example\n" for n in range(lines)) + last)
        return path.stat().st_size

    yield write
    path.write_bytes(before)  # the same inode: it is mounted


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
@pytest.mark.parametrize("lines", [1500, 200_000])
def test_the_hosts_file_is_read_as_a_whole(home, net, hosts, lines, level):
    assert hosts(lines) < 8 << 20
    via = "connect" if level == "landlock" else None
    home.control({"do": "resolve", "name": "last.example"})
    names = ["last.example", f"n{lines - 1}.hosts.example"]
    got = home.within(allow(*names), *[http(n, via=via) for n in names], level=level)
    assert ["error" in r for r in got["results"]] == [False, False], got
    assert {c["addr"] for c in net.arrived()} == {"93.184.216.40"} and net.queries() == []


def test_a_hosts_file_that_is_too_long(home, net, hosts):
    """Not the beginning of it: the run does not start."""
    assert hosts(250_000) > 8 << 20
    home.control({"do": "resolve", "name": "last.example"})
    done = home.run(allow("last.example"), ["echo", "started"], "namespaces")
    assert done.returncode == 125 and done.stdout == b"", done
    assert b"reading the resolver's configuration" in done.stderr and b"/etc/hosts may have 8 MiB" in done.stderr
    done = home.run([], ["echo", "started"], "namespaces")
    assert done.stdout == b"started\n", "it is the network that cannot be had"


# --- what is asked --------------------------------------------------------------------------------------


def denied_names():
    names = [f"secret-{n:02}.exfil.example" for n in range(60)]
    names += [f"data{n}.evil.example" for n in range(20)] + ["example.com.evil.example", "notexample.com", "com", "example"]
    names += ["xexample.com", "example.comx", "example.co", "www.example.com", "a.b.c.example.com", "sub.v4only.example"]
    names += [f"{'a' * 63}.{'b' * 63}.x{n}.test" for n in range(10)]
    return names


def test_denied_names_are_never_asked_for(home, net):
    names = denied_names()
    assert len(names) >= 100
    home.control(dns("secret-00.exfil.example"))
    assert len(net.queries()) == 1
    net.forget()
    steps = [dns(n, t, tcp=c) for i, n in enumerate(names) for t, c in [(("A", "AAAA", "TXT")[i % 3], bool(i % 2))]]
    got = home.within(allow("example.com", "v4only.example"), *steps, {"do": "resolve", "name": names[0]})
    assert {r.get("rcode") for r in got["results"][:-1]} == {REFUSED}, got["results"]
    assert "error" in got["results"][-1]
    assert net.queries() == [] and net.arrived() == []
    assert {d["what"] for d in net_denials(got)} == {"resolve"} and len(net_denials(got)) >= 100


@pytest.mark.parametrize("via", ["proxy", "connect", "socks"])
def test_denied_names_by_proxy(home, net, via):
    names = [n for n in denied_names() if len(n) < 250]
    got = home.within(allow("example.com"), *[http(n, via=via) for n in names], http("example.com", via=via), level="landlock")
    assert [r.get("error") for r in got["results"]].count(None) == 1 and "error" not in got["results"][-1], got
    assert {q["name"] for q in net.queries()} == {"example.com"}
    assert {c["addr"] for c in net.arrived()} <= set(zone.SITE["A"] + zone.SITE["AAAA"])


def test_denied_names_by_sni_and_host(home, net):
    """The names are in the hello and in the Host line only; the connection itself is allowed."""
    names = denied_names()[::4]
    steps = [{"do": "tls", "host": "example.com", "sni": n} for n in names]
    steps += [http("example.com", name=n) for n in names]
    got = home.within(allow("example.com"), *steps)
    assert [r for r in got["results"] if "error" not in r] == []
    assert {q["name"] for q in net.queries()} <= {"example.com"}
    assert net.arrived(with_bytes=True) == []


def test_answers_are_passed_on(home, net):
    hosts = ["nowhere.example", "servfail.example", "nodata.example", "chain.example", "truncated.example", "slow.example",
             "spoofed.example"]  # fmt: skip
    got = home.within(allow(*hosts), *[dns(h) for h in hosts], *[http(h) for h in hosts])
    by = dict(zip(hosts, got["results"]))
    assert [by[h]["rcode"] for h in hosts[:2]] == [NXDOMAIN, SERVFAIL]
    assert by["nodata.example"]["rcode"] == NOERROR and by["nodata.example"]["answers"] == []
    assert [len(addresses(by[h])) for h in hosts[3:]] == [1] * 4, by
    assert ["error" in r for r in got["results"][7:]] == [True] * 3 + [False] * 4, got["results"][7:]
    assert [c["addr"] for c in net.arrived()] == [f"93.184.216.{n}" for n in (43, 46, 45, 48)]
    assert "tcp" in {q["proto"] for q in net.queries() if q["name"] == "truncated.example"}
    assert net_denials(got) == []


def test_wrong_answers_are_not_believed(home, net):
    got = home.within(allow("wrong-id.example"), {"do": "http", "host": "wrong-id.example", "timeout": 8}, timeout=60)
    assert "error" in got["results"][0] and net.arrived() == []


def test_questions_of_ours_are_hard_to_guess(home, net):
    """Each run asks; the world cannot see ids, but names come as they are and only A and AAAA."""
    home.within(allow("example.com"), http("example.com"))
    assert {(q["name"], q["type"]) for q in net.queries()} <= {("example.com", "A"), ("example.com", "AAAA")}
    assert {q["server"] for q in net.queries()} == {"203.0.113.53"}


# --- which addresses a name may have ----------------------------------------------------------------------


def test_names_of_private_addresses_control(home, net):
    home.control(*[http(n) for n in [*zone.PRIVATE, *zone.LOOPBACK, "home.example"]])
    assert len(net.home.contacts()) == len(zone.LOOPBACK) + 1
    net.forget()


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_names_of_private_addresses(home, net, level):
    names = [*zone.PRIVATE, *zone.LOOPBACK, "home.example", "hosts-private.example", "compatible.example"]
    via = "connect" if level == "landlock" else None
    got = home.within(allow(*names), *[http(n, via=via) for n in names], level=level)
    assert [n for n, r in zip(names, got["results"]) if "error" not in r] == []
    assert net.arrived() == []
    assert set(names) <= told_of(got), got["denials"]
    assert all("not public" in d["target"] for d in net_denials(got)), got["denials"]


def test_a_rule_for_the_address_opens_it(home, net):
    rules = allow("private.example", "metadata.example", "10.1.2.0/24", "alias-private.example")
    got = home.within(rules, http("private.example"), http("metadata.example"), http("alias-private.example"))
    assert ["error" in r for r in got["results"]] == [False, True, False], got["results"]
    assert [c["addr"] for c in net.arrived()] == ["10.1.2.3", "10.1.2.3"]
    denial = next(d for d in net_denials(got) if d["target"].startswith("metadata.example"))
    assert "169.254.169.254" in denial["fix"], denial


def test_deny_also_holds_for_addresses_of_names(home, net):
    got = home.within([*allow("example.com", "v4only.example"), *deny("93.184.216.41")], http("v4only.example"), http("example.com"))
    assert ["error" in r for r in got["results"]] == [True, False]
    assert told_of(got) == {"v4only.example"} and {d["rule"] for d in net_denials(got)} == {"net.deny"}, got["denials"]


ALIASES = {  # the name, what is denied, the name in the way
    "direct": ("to-evil.example", "evil.example", "evil.example"),
    "below": ("far-from-evil.example", "*.evil.example", "sub.evil.example"),
    "in the middle": ("past-evil.example", "left-evil.example", "left-evil.example"),
    "upper case": ("to-evil.example", "EVIL.example", "evil.example"),
}


@pytest.mark.parametrize("via", [None, "proxy", "connect", "socks"])
@pytest.mark.parametrize("case", ALIASES)
def test_an_alias_of_a_denied_name(home, net, case, via):
    """Along the whole chain, also where it leads on to another name."""
    name, rule, alias = ALIASES[case]
    level = "landlock" if via else "namespaces"
    home.control(http(name))
    got = home.within(allow(name), http(name, via=via), level=level)
    assert "error" not in got["results"][0], "without the rule to deny it is reached"
    assert len(net.arrived()) == 2
    got = home.within([*allow(name), *deny(rule)], http(name, via=via), level=level)
    assert "error" in got["results"][0] and net.arrived() == []
    target = name if via is None else name + ":80"
    told = [(d["what"], d["target"], d["rule"], d["fix"]) for d in net_denials(got)]
    what = "resolve" if via is None else "connect"
    assert told == [(what, f"{target} (an alias of a name that is denied: {alias})", "net.deny", None)]


def test_an_alias_of_a_name_that_is_denied_on_one_port(home, net):
    rules = [*allow("to-evil.example:80,8080"), *deny("evil.example:80")]
    got = home.within(rules, http("to-evil.example"), http("to-evil.example", 8080))
    assert ["error" in r for r in got["results"]] == [True, False], got
    assert [c["port"] for c in net.arrived()] == [8080]
    assert refused(got, "connect", "to-evil.example:80 (an alias of a name that is denied: evil.example)", "net.deny")


def test_a_mixed_answer(home, net):
    """The public one of its addresses may be used, the private one never."""
    home.within(allow("mixed.example"), *[http("mixed.example")] * 10)
    assert {c["addr"] for c in net.arrived()} <= {"93.184.216.49"}


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_rebinding(home, net, level):
    """The name's address changes with each question between a public one and the host's own."""
    net.zone({"rebind.example": zone.ZONE["rebind.example"]})
    home.control(*[{"do": "resolve", "name": "rebind.example", "family": 2}] * 4)
    asked = len(net.queries())
    assert asked >= 4
    net.forget()
    via = "connect" if level == "landlock" else None
    steps = []
    for _ in range(500):
        steps.append(http("rebind.example", via=via, timeout=2))
        steps.append({"do": "tcp", "host": "rebind.example", "port": 9000, "send": "HOLD\n", "limit": 1, "via": via, "timeout": 2})
    got = home.within(allow("rebind.example:80,9000"), *steps, level=level, timeout=120)
    assert len(got["results"]) == 1000
    contacts = net.arrived()  # asserts that nothing came to the host's own loopback
    assert {c["addr"] for c in contacts} == {"93.184.216.50"}, "it must have worked in between"
