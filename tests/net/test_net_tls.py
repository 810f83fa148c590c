# SPDX-License-Identifier: Apache-2.0
"""Port 443: the hello must name the host that the connection is for, or nothing goes out."""

import io
import ssl
import struct

import pytest
from rig import allow, net_denials, zone

RULES = allow("example.com", "www.example.com", "v4only.example")


def hello(name, padding=0):
    """A real ClientHello, one record."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    record = outgoing.read()
    return with_extension(record, padding) if padding else record


def body_of(record):
    return record[5:]


def with_extension(record, size):
    """The same hello with an extension of that many bytes more (padding, RFC 7685)."""
    body = bytearray(body_of(record))
    at = 4 + 2 + 32
    at += 1 + body[at]
    at += 2 + struct.unpack(">H", body[at : at + 2])[0]
    at += 1 + body[at]
    total = struct.unpack(">H", body[at : at + 2])[0]
    body += struct.pack(">HH", 0xFAFA, size) + bytes(size)
    body[at : at + 2] = struct.pack(">H", total + 4 + size)
    body[1:4] = (len(body) - 4).to_bytes(3, "big")
    return records(bytes(body), 16000)


def records(body, size):
    """A handshake message in records of @size bytes."""
    out = io.BytesIO()
    for at in range(0, len(body), size):
        piece = body[at : at + size]
        out.write(b"\x16\x03\x01" + struct.pack(">H", len(piece)) + piece)
    return out.getvalue()


def text(data):
    return data.decode("latin-1")


def raw(data, host="example.com", **more):
    return {"do": "tcp", "host": host, "port": 443, "send": text(data), "limit": 5, "timeout": 4, **more}


def answered(result):
    """A server's first record, a handshake: the hello has arrived and was understood."""
    return result.get("got", "").startswith("\x16\x03")


def bytewise(data):
    return [text(data[i : i + 1]) for i in range(len(data))]


GOOD = {
    "whole": lambda: raw(hello("example.com")),
    "upper-case": lambda: raw(hello("EXAMPLE.com")),
    "byte-by-byte": lambda: raw(b"", pieces=bytewise(hello("example.com")), gap=0.0005),
    "two-records": lambda: raw(records(body_of(hello("example.com")), 100)),
    "records-of-one-byte": lambda: raw(records(body_of(hello("example.com")), 1)),
    "records-and-pieces": lambda: raw(
        b"", pieces=[text(records(body_of(hello("example.com")), 50)[i : i + 7]) for i in range(0, 900, 7)], gap=0.0005
    ),
    "large": lambda: raw(hello("example.com", 8000)),
}
# A server may think as it likes of records of one byte; the gateway hands on what it was given.
UNUSUAL = {"records-of-one-byte"}

BAD = {
    "other-allowed-name": lambda: raw(hello("www.example.com")),
    "denied-name": lambda: raw(hello("evil.example")),
    "below": lambda: raw(hello("sub.example.com")),
    "suffix": lambda: raw(hello("notexample.com")),
    "no-name": lambda: raw(hello(None)),
    "denied-byte-by-byte": lambda: raw(b"", pieces=bytewise(hello("evil.example")), gap=0.0005),
    "denied-in-records": lambda: raw(records(body_of(hello("evil.example")), 60)),
    "oversized": lambda: raw(hello("example.com", 20000)),
    "oversized-denied": lambda: raw(hello("evil.example", 20000)),
    "ssh": lambda: raw(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "http": lambda: raw(b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"),
    "garbage": lambda: raw(bytes(range(256)) * 8),
    "zeroes": lambda: raw(bytes(4096)),
    "alert-first": lambda: raw(b"\x15\x03\x01\x00\x02\x01\x00" + hello("example.com")),
    "ssl2": lambda: raw(b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + bytes(35)),
    "server-hello": lambda: raw(b"\x16\x03\x03" + struct.pack(">H", 42) + b"\x02\x00\x00\x26" + bytes(38)),
    "length-lies": lambda: raw(hello("example.com")[:5] + b"\x01\xff\xff\xff" + hello("example.com")[9:], shut=True),
    "cut-short": lambda: raw(hello("example.com")[:-20], shut=True),
    "two-names": lambda: raw(two_names()),
    "name-with-nul": lambda: raw(renamed(b"example\0com")),
    "name-with-dot": lambda: raw(renamed(b"..ample.com")),
    "address-as-name": lambda: raw(renamed(b"93.18.21.34")),
}


def renamed(name):
    """The hello with that name in place of example.com, byte for byte (same length)."""
    assert len(name) == len(b"example.com")
    return hello("example.com").replace(b"example.com", name)


def two_names():
    """A second server name extension, for another server."""
    record = with_extension(hello("example.com"), 0)
    name = b"evil.example"
    value = struct.pack(">HBH", len(name) + 3, 0, len(name)) + name
    body = bytearray(body_of(with_extension(record, len(value))))
    body[-len(value) - 4 :] = struct.pack(">HH", 0, len(value)) + value
    return records(bytes(body), 16000)


def test_control(home, net):
    """Outside the server gets and answers every hello, also the ones for another server."""
    steps = {**GOOD, **{n: BAD[n] for n in ("other-allowed-name", "denied-name", "no-name", "oversized-denied")}}
    got = home.control(*[steps[n]() for n in steps], together=True)
    assert [n for n, r in zip(steps, got) if not answered(r) and n not in UNUSUAL] == []
    home.control(*[dict(BAD[n](), timeout=1) for n in BAD], together=True)
    assert len(net.arrived(443, with_bytes=True)) == len(steps) + len(BAD)


@pytest.mark.parametrize(("level", "via"), [("namespaces", None), ("landlock", "connect"), ("landlock", "socks")])
def test_right_name(home, net, level, via):
    got = home.within(RULES, *[dict(GOOD[n](), via=via) for n in GOOD], level=level, together=True)
    assert [n for n, r in zip(GOOD, got["results"]) if not answered(r) and n not in UNUSUAL] == [], got["results"]
    assert net_denials(got) == []
    contacts = net.arrived(443)
    assert len(contacts) == len(GOOD) and all(c["size"] for c in contacts)


@pytest.mark.parametrize(("level", "via"), [("namespaces", None), ("landlock", "connect"), ("landlock", "socks")])
def test_wrong_name(home, net, level, via):
    got = home.within(RULES, *[dict(BAD[n](), via=via) for n in BAD], level=level, together=True)
    assert [n for n, r in zip(BAD, got["results"]) if answered(r)] == []
    assert [(c["port"], c["data"][:40]) for c in net.arrived(with_bytes=True)] == []
    assert {q["name"] for q in net.queries()} <= {"example.com"}
    told = net_denials(got)
    assert told and all(d["what"] == "connect" for d in told), told


REASONS = {
    "another name": "other-allowed-name denied-name below suffix denied-byte-by-byte denied-in-records "
    "name-with-nul name-with-dot address-as-name",
    "without a name": "no-name",
    "not TLS": "ssh http garbage zeroes alert-first ssl2 server-hello length-lies two-names oversized oversized-denied",
}


@pytest.mark.parametrize(("name", "reason"), [(n, r) for r, names in REASONS.items() for n in names.split()])
def test_each_refusal_is_told(home, net, name, reason):
    """One at a time: a denial for the connection, with the reason and, if there is one, the remedy."""
    got = home.within(RULES, BAD[name]())
    assert net.arrived(with_bytes=True) == []
    told = net_denials(got)
    assert len(told) == 1 and told[0]["what"] == "connect", told
    assert ":443 (" in told[0]["target"] and reason in told[0]["target"], told
    if name == "denied-name":
        assert told[0]["target"].startswith("evil.example:443") and told[0]["fix"] == "--net-allow evil.example:443", told


def test_a_hello_that_ends_early(home, net):
    """The gateway does not wait for the rest of it."""
    got = home.within(RULES, BAD["cut-short"]())
    assert got["results"] == [{"got": "", "cut": None}] or got["results"][0]["cut"] == "ECONNRESET", got["results"]
    assert net.arrived(with_bytes=True) == []


def test_a_whole_session(home, net):
    ca = str(home.ca)
    got = home.within(
        RULES,
        {"do": "tls", "host": "example.com", "ca": ca},
        {"do": "tls", "host": "v4only.example", "ca": ca},
        {"do": "tls", "host": "example.com", "ca": ca, "path": "/bytes/500000"},
    )
    assert [r.get("subject") for r in got["results"]] == ["site", "rest", "site"], got
    assert len(got["results"][2]["got"]) > 500000
    assert [c["sni"] for c in net.arrived()] == ["example.com", "v4only.example", "example.com"]


def test_addresses_without_names(home, net):
    """To an address the hello may have no name, or an allowed one, and no other."""
    rules = allow("93.184.216.34", "example.com")
    steps = [{"do": "tls", "host": "93.184.216.34", "sni": n} for n in ("", "example.com", "evil.example", "www.example.com")]
    got = home.within(rules, *steps)
    assert ["error" in r for r in got["results"]] == [False, False, True, True], got
    assert {c["addr"] for c in net.arrived()} == {"93.184.216.34"}
    assert zone.SITE["A"] == ["93.184.216.34"]


def test_other_ports_carry_any_hello(home, net):
    """Only on 443 names are looked at: elsewhere the rule is for the host, whatever is spoken."""
    got = home.within(allow("db.example:8443"), {"do": "tls", "host": "db.example", "port": 8443, "sni": "evil.example"})
    assert "error" not in got["results"][0], got
    assert [c["sni"] for c in net.arrived()] == ["evil.example"]


# --- a server that asks for another hello ------------------------------------------------------------------

RETRY = allow("retry.example", "example.com")
TLS_WAYS = [("namespaces", None), ("landlock", "connect"), ("landlock", "socks")]
CHANGE_CIPHER = "\x14\x03\x03\x00\x01\x01"
EARLY_DATA = "\x17\x03\x03\x00\x20" + "e" * 32
SECOND = {  # how the second hello comes
    "whole": {}, "in records": {"size": 50}, "in records of one byte": {"size": 1},
    "after a change of cipher": {"before": CHANGE_CIPHER},
    "after early data": {"before": CHANGE_CIPHER + EARLY_DATA},
}  # fmt: skip
# What OpenSSL takes: it counts small records, and data that was not announced is an error.
TAKEN = ["whole", "in records", "after a change of cipher"]


def retry(second, how="whole", **more):
    return {"do": "retry", "host": "retry.example", "first": "retry.example", "second": second, **SECOND[how], **more}


def test_retry_control(home, net):
    """Outside the server asks for a second hello and serves the name in it, whatever the first one said."""
    for second in ("retry.example", "evil.example"):
        got = home.control(*[retry(second, how) for how in TAKEN])
        assert ["hello from " + second in r["got"] for r in got] == [True] * len(TAKEN), got
        assert [c["hellos"] for c in net.arrived()] == [["retry.example", second]] * len(TAKEN)


@pytest.mark.parametrize(("level", "via"), TLS_WAYS)
def test_a_second_hello(home, net, level, via):
    ca = str(home.ca)
    plain = {"do": "tls", "host": "retry.example", "ca": ca, "via": via}
    got = home.within(RETRY, *[retry("retry.example", how, via=via) for how in TAKEN], plain, level=level)
    assert ["hello from retry.example" in r.get("got", "") for r in got["results"]] == [True] * (len(TAKEN) + 1), got
    assert got["results"][-1]["subject"] == "rest" and net_denials(got) == []
    assert [c["hellos"] for c in net.arrived()] == [["retry.example"] * 2] * (len(TAKEN) + 1)


@pytest.mark.parametrize(("level", "via"), TLS_WAYS)
@pytest.mark.parametrize("second", ["evil.example", "example.com"])
@pytest.mark.parametrize("how", SECOND)
def test_a_second_hello_with_another_name(home, net, level, via, second, how):
    """Also an allowed one: it is not the name that was connected to."""
    got = home.within(RETRY, retry(second, how, via=via), level=level)
    assert got["results"] == [{"error": "alert 49"}], got
    told = net_denials(got)
    assert [d["target"] for d in told] == [f"{second}:443 (a TLS hello for another name, retry.example)"], told
    contacts = net.arrived()
    assert [c["hellos"] for c in contacts] == [["retry.example"]], contacts


@pytest.mark.parametrize("before", ["", CHANGE_CIPHER, EARLY_DATA], ids=["nothing", "change", "data"])
def test_both_hellos_at_once(home, net, before):
    """The second is in the queue before the server has asked for it."""
    got = home.within(RETRY, retry("wrong.example", at_once=True, before=before))  # of the same length
    assert [c["hellos"] for c in net.arrived()] == [["retry.example"]], got
    assert [d["target"] for d in net_denials(got)] == ["wrong.example:443 (a TLS hello for another name, retry.example)"]
