# SPDX-License-Identifier: Apache-2.0
"""The rig itself: everything that the other files forbid works here without a sandbox."""

import json

import pytest
import rig
from rig import zone


def http(host, **more):
    return {"do": "http", "host": host, **more}


def test_addresses_of_every_kind_answer(home, net):
    """Public, private and metadata addresses are really there, and each contact is noted."""
    addresses = ["93.184.216.34", "2606:2800:220:1::1", *sorted(set(zone.PRIVATE.values()))]
    home.control(*[http(a) for a in addresses])
    got = net.arrived(80)
    assert sorted(c["addr"] for c in got) == sorted(addresses)
    assert all(c["data"].startswith("GET / HTTP/1.1\r\n") and c["end"] == "closed" for c in got), got


def test_loopback_of_the_host_answers(home, net):
    home.control(http("127.0.0.1"), http("::1"), http("203.0.113.2"), *[http(n) for n in zone.LOOPBACK])
    got = [c["addr"] for c in net.home.contacts()]
    assert {"127.0.0.1", "::1", "203.0.113.2"} <= set(got) and len(got) == 3 + len(zone.LOOPBACK), got
    assert net.world.contacts() == []


def test_names_and_questions_are_noted(home, net):
    got = home.control(
        {"do": "resolve", "name": "example.com"},
        {"do": "resolve", "name": "chain.example"},
        {"do": "resolve", "name": "truncated.example"},
        {"do": "resolve", "name": "slow.example"},
        {"do": "resolve", "name": "spoofed.example"},
        {"do": "resolve", "name": "hosts.example"},
        {"do": "dns", "name": "example.com", "server": "8.8.8.8"},
        {"do": "dns", "name": "example.com", "server": "2001:4860:4860::8888", "type": "AAAA"},
        {"do": "dns", "name": "example.com", "server": "1.1.1.1", "tcp": True, "type": "TXT"},
        {"do": "dns", "name": "nowhere.example", "server": "9.9.9.9"},
    )
    assert set(got[0]["addresses"]) == {"93.184.216.34", "2606:2800:220:1::1"}
    assert got[1]["addresses"] == ["93.184.216.43"] and got[2]["addresses"] == ["93.184.216.46"]
    assert got[3]["addresses"] == ["93.184.216.45"] and got[4]["addresses"] == ["93.184.216.48"]
    assert got[5]["addresses"] == ["93.184.216.40"]
    assert got[7]["answers"][0][2] == "2606:2800:220:1::1" and got[9]["rcode"] == 3
    asked = net.queries()
    assert {"8.8.8.8", "2001:4860:4860::8888", "1.1.1.1", "9.9.9.9"} <= {q["server"] for q in asked}
    assert {"udp", "tcp"} <= {q["proto"] for q in asked if q["name"] == "truncated.example"}


def test_rebinding_alternates(home, net):
    steps = [{"do": "dns", "name": "rebind.example"}] * 4
    net.zone({"rebind.example": zone.ZONE["rebind.example"]})
    got = [r["answers"][0][2] for r in home.control(*steps)]
    assert got == ["93.184.216.50", "127.0.0.1"] * 2


def test_certificates_follow_the_name(home, net):
    ca = str(home.ca)
    got = home.control(
        {"do": "tls", "host": "example.com", "ca": ca},
        {"do": "tls", "host": "example.com", "ca": ca, "sni": "evil.example"},
        {"do": "tls", "host": "example.com", "ca": ca, "sni": ""},
        {"do": "tls", "host": "db.example", "port": 8443, "ca": ca},
    )
    assert [g["subject"] for g in got] == ["site", "evil", "rest", "rest"]
    assert [c["sni"] for c in net.arrived()] == ["example.com", "evil.example", None, "db.example"]


def test_other_services(home, net):
    size = 300_000
    got = home.control(
        {"do": "tcp", "host": "db.example", "port": 5432, "send": "echo me", "shut": True},
        {"do": "tcp", "host": "smtp.example", "port": 25, "first": 4, "send": "QUIT\r\n"},
        {"do": "tcp", "host": "ssh.example", "port": 22, "limit": 8},
        {"do": "udp", "host": "8.8.4.4", "port": 443, "send": "quic"},
        {"do": "udp", "host": "2001:4860:4860::8844", "port": 7, "send": "six"},
        {"do": "tcp", "host": "db.example", "port": 9000, "send": f"SEND {size}\n"},
        {"do": "http", "host": "example.com", "path": f"/chunked/{size}"},
    )
    assert [g["got"] for g in got[:2]] == ["echo me", "220 mail.example ready\r\n221 bye\r\n"]
    assert got[2]["got"].startswith("SSH-2.0-") and [g["got"] for g in got[3:5]] == ["quic", "six"]
    assert got[5]["got"].encode("latin-1") == b"".join(rig.bulk.pieces(size))
    assert [(c["proto"], c["port"]) for c in net.arrived() if c["proto"] == "udp"] == [("udp", 443), ("udp", 7)]


def test_world_reaches_home(net):
    """A listener on every address of home is reachable from outside: see test_net_publish.py."""
    assert net.world.ask("dial", address="203.0.113.2", port=7, send="hello") == {"ok": "hello"}
    assert net.world.ask("dial", address="203.0.113.2", port=4)["error"] == "ConnectionRefusedError"
    net.forget()


def test_nothing_leads_out_of_it(home):
    """Home has no way but the cable to world."""
    done = home.outside(["ip", "-json", "link"])
    assert sorted(link["ifname"] for link in json.loads(done.stdout)) == ["h0", "lo"]


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_sandboxes_run_here(home, level):
    done = home.run([], ["id", "-u"], level)
    assert done.returncode == 0 and done.stdout.strip().isdigit(), done
