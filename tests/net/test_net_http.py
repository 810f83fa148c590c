# SPDX-License-Identifier: Apache-2.0
"""Port 80: each request is for the host of its connection, and cannot be read in two ways."""

import re

import pytest
from rig import allow, bulk, net_denials

RULES = allow("example.com", "www.example.com")
HOST = "Host: example.com\r\n"
END = "Connection: close\r\n\r\n"
SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n"
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def raw(data, **more):
    return {"do": "tcp", "host": "example.com", "port": 80, "send": data, **{"timeout": 4, **more}}


def requests(data):
    """Reads what a server got, strictly: a list of (method, target, fields, body), or a failure."""
    found = []
    while data:
        head, mark, data = data.partition("\r\n\r\n")
        assert mark, f"a head that does not end: {head!r}"
        lines = head.split("\r\n")
        assert "\n" not in head.replace("\r\n", "") and "\r" not in head.replace("\r\n", ""), head
        assert re.fullmatch(TOKEN.pattern + r" /[\x21-\x7e]* HTTP/1\.1|OPTIONS \* HTTP/1\.1", lines[0]), lines[0]
        fields = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            assert colon and TOKEN.fullmatch(name), line
            fields.append((name.lower(), value.strip()))
        names = [name for name, _ in fields]
        assert [v for n, v in fields if n == "host"] == ["example.com"], fields
        assert names.count("content-length") + names.count("transfer-encoding") <= 1, fields
        body = ""
        if "content-length" in names:
            size = int(dict(fields)["content-length"])
            assert len(data) >= size, "a body that does not end"
            body, data = data[:size], data[size:]
        elif "transfer-encoding" in names:
            assert dict(fields)["transfer-encoding"] == "chunked"
            while True:
                line, _, data = data.partition("\r\n")
                assert re.fullmatch("[0-9a-fA-F]+", line), line
                size = int(line, 16)
                body, data = body + data[:size], data[size:]
                assert data.startswith("\r\n")
                data = data[2:]
                if not size:
                    break
        found.append((*lines[0].split(" ")[:2], dict(fields), body))
    return found


def seen(net):
    """All requests that arrived in the world, read strictly."""
    return [r for c in net.arrived(80, with_bytes=True) for r in requests(c["data"])]


def post(fields, body="", line="POST /upload HTTP/1.1"):
    return f"{line}\r\n{HOST}{fields}\r\n{body}"


CHUNKED = "Transfer-Encoding: chunked\r\n"
# Requests that two parsers could read in two ways, or as meant for another host. None may go out.
VECTORS = {
    "cl-te": post(f"Content-Length: 6\r\n{CHUNKED}", "0\r\n\r\n" + SMUGGLED),
    "te-cl": post(f"{CHUNKED}Content-Length: 4\r\n", f"{len(SMUGGLED):x}\r\n{SMUGGLED}\r\n0\r\n\r\n"),
    "two-cl": post("Content-Length: 0\r\nContent-Length: 60\r\n", SMUGGLED),
    "same-cl-twice": post("Content-Length: 4\r\nContent-Length: 4\r\n", "abcd"),
    "cl-list": post("Content-Length: 0, 60\r\n", SMUGGLED),
    "cl-plus": post("Content-Length: +4\r\n", "abcd" + SMUGGLED),
    "cl-minus": post("Content-Length: -1\r\n", SMUGGLED),
    "cl-hex": post("Content-Length: 0x4\r\n", "abcd" + SMUGGLED),
    "cl-space": post("Content-Length: 4 4\r\n", "abcd" + SMUGGLED),
    "cl-empty": post("Content-Length:\r\n", SMUGGLED),
    "cl-huge": post("Content-Length: 18446744073709551620\r\n", "abcd" + SMUGGLED),
    "cl-space-before-colon": post("Content-Length : 4\r\n", "abcd" + SMUGGLED),
    "te-xchunked": post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n" + SMUGGLED),
    "te-identity": post("Transfer-Encoding: identity\r\n", SMUGGLED),
    "te-gzip-chunked": post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n" + SMUGGLED),
    "te-chunked-twice": post(CHUNKED + CHUNKED, "0\r\n\r\n" + SMUGGLED),
    "te-quoted": post('Transfer-Encoding: "chunked"\r\n', "0\r\n\r\n" + SMUGGLED),
    "te-space-before-colon": post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n" + SMUGGLED),
    "te-vertical-tab": post("Transfer-Encoding:\x0bchunked\r\n", "0\r\n\r\n" + SMUGGLED),
    "te-folded": post("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n" + SMUGGLED),
    "te-in-1.0": post(CHUNKED, "0\r\n\r\n" + SMUGGLED, "POST /upload HTTP/1.0"),
    "bare-lf": f"GET / HTTP/1.1\n{HOST}\n\n",
    "bare-lf-field": f"GET / HTTP/1.1\r\n{HOST}X: y\nTransfer-Encoding: chunked\r\n\r\n" + SMUGGLED,
    "bare-cr": f"GET / HTTP/1.1\r\n{HOST}X: y\rHost: evil.example\r\n\r\n",
    "lf-before-end": f"GET / HTTP/1.1\r\n{HOST}\n\r\n{SMUGGLED}",
    "folded": f"GET / HTTP/1.1\r\n{HOST}X: a\r\n b\r\n\r\n",
    "folded-first": f"GET / HTTP/1.1\r\n {HOST}\r\n",
    "nul": f"GET / HTTP/1.1\r\n{HOST}X: a\0b\r\n\r\n",
    "nul-in-name": f"GET / HTTP/1.1\r\n{HOST}X\0: b\r\n\r\n",
    "no-colon": f"GET / HTTP/1.1\r\n{HOST}nonsense\r\n\r\n",
    "two-hosts": f"GET / HTTP/1.1\r\n{HOST}Host: evil.example\r\n\r\n",
    "same-host-twice": f"GET / HTTP/1.1\r\n{HOST}{HOST}\r\n",
    "no-host": "GET / HTTP/1.1\r\n\r\n",
    "empty-host": "GET / HTTP/1.1\r\nHost:\r\n\r\n",
    "host-list": "GET / HTTP/1.1\r\nHost: example.com, evil.example\r\n\r\n",
    "host-userinfo": "GET / HTTP/1.1\r\nHost: example.com@evil.example\r\n\r\n",
    "host-path": "GET / HTTP/1.1\r\nHost: example.com/evil.example\r\n\r\n",
    "host-nul": "GET / HTTP/1.1\r\nHost: example.com\0.evil.example\r\n\r\n",
    "space-in-host-name": "GET / HTTP/1.1\r\nHost : example.com\r\n\r\n",
    "version-2": f"GET / HTTP/2.0\r\n{HOST}\r\n",
    "version-1.2": f"GET / HTTP/1.2\r\n{HOST}\r\n",
    "version-0.9": "GET /\r\n",
    "two-spaces": f"GET  / HTTP/1.1\r\n{HOST}\r\n",
    "space-in-target": f"GET /a b HTTP/1.1\r\n{HOST}\r\n",
    "tab": f"GET\t/ HTTP/1.1\r\n{HOST}\r\n",
    "chunk-size-sign": post(CHUNKED, "+4\r\nabcd\r\n0\r\n\r\n"),
    "connect": "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
    "absolute-other": f"GET http://evil.example/ HTTP/1.1\r\n{HOST}\r\n",
    "absolute-https": f"GET https://example.com/ HTTP/1.1\r\n{HOST}\r\n",
    "preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls": "\x16\x03\x01\x00\x05hello",
    "ssh": "SSH-2.0-OpenSSH_9.2\r\n",
}
# Heads that are in order and bodies that are not: what goes out before may be a request, cut short.
BODIES = {
    "chunk-size-space": post(CHUNKED, "4 \r\nabcd\r\n0\r\n\r\n" + SMUGGLED),
    "chunk-size-0x": post(CHUNKED, "0x4\r\nabcd\r\n0\r\n\r\n" + SMUGGLED),
    "chunk-size-huge": post(CHUNKED, "ffffffffffffffff1\r\nabcd\r\n0\r\n\r\n" + SMUGGLED),
    "chunk-bare-lf": post(CHUNKED, "4\nabcd\r\n0\r\n\r\n" + SMUGGLED),
    "chunk-longer": post(CHUNKED, "4\r\nabcdef\r\n0\r\n\r\n" + SMUGGLED),
    "chunk-extension-lf": post(CHUNKED, "4;x\nabcd\r\n0\r\n\r\n" + SMUGGLED),
}
WRONG_HOST = {
    "other-allowed": "GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n",
    "denied": "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "other-port": "GET / HTTP/1.1\r\nHost: example.com:8080\r\n\r\n",
    "address": "GET / HTTP/1.1\r\nHost: 93.184.216.34\r\n\r\n",
    "below": "GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n",
    "1.0": "GET / HTTP/1.0\r\nHost: evil.example\r\n\r\n",
}


def code(result):
    return result.get("got", "").split(" ")[1:2]


def test_control(home, net):
    """Outside every byte of it arrives."""
    vectors = {**VECTORS, **BODIES, **WRONG_HOST}
    home.control(*[raw(v, shut=True, timeout=1) for v in vectors.values()], together=True)
    got = [c["data"] for c in net.arrived(80)]
    assert sorted(got) == sorted(vectors.values())


@pytest.mark.parametrize(("level", "via"), [("namespaces", None), ("landlock", "connect"), ("landlock", "socks")])
def test_ambiguous_requests(home, net, level, via):
    got = home.within(RULES, *[raw(v, via=via) for v in VECTORS.values()], level=level, together=True)
    assert [n for n, r in zip(VECTORS, got["results"]) if code(r) == ["200"]] == []
    assert {c for r in got["results"] for c in code(r)} <= {"400", "403", "431", "501", "505"}
    # A chunk's size is read only after the head has gone out.
    assert [c["data"] for c in net.arrived(80, with_bytes=True) if "/upload" not in c["data"]] == []
    assert {q["name"] for q in net.queries()} <= {"example.com"}
    assert net_denials(got)


@pytest.mark.parametrize("name", [n for n in VECTORS if n != "chunk-size-sign"])
def test_nothing_of_it_goes_out(home, net, name):
    got = home.within(RULES, raw(VECTORS[name], shut=name == "version-0.9"))
    assert net.arrived(80, with_bytes=True) == []
    assert code(got["results"][0]) != ["200"]
    assert len(net_denials(got)) == 1, got["denials"]


def test_broken_bodies(home, net):
    """What follows cannot be taken for another request: the connection ends."""
    got = home.within(RULES, *[raw(v) for v in BODIES.values()], together=True)
    assert len(got["results"]) == len(BODIES)
    for contact in net.arrived(80, with_bytes=True):
        assert "smuggled" not in contact["data"] and contact["data"].startswith("POST /upload HTTP/1.1\r\n")


def test_bodies_that_look_like_requests(home, net):
    """What is a body stays one, however it looks."""
    sent = [
        post(f"Content-Length: {len(SMUGGLED)}\r\n" + END.rstrip("\r\n") + "\r\n", SMUGGLED),
        post(CHUNKED + "Connection: close\r\n", f"{len(SMUGGLED):x};ext=1\r\n{SMUGGLED}\r\n0\r\nTrailer: x\r\n\r\n"),
    ]
    got = home.within(RULES, *[raw(s) for s in sent])
    assert [code(r) for r in got["results"]] == [["200"]] * 2, got
    assert [(r[0], r[1], r[3]) for r in seen(net)] == [("POST", "/upload", SMUGGLED)] * 2


@pytest.mark.parametrize(("level", "via"), [("namespaces", None), ("landlock", "connect")])
def test_wrong_host(home, net, level, via):
    got = home.within(RULES, *[raw(v, via=via) for v in WRONG_HOST.values()], level=level)
    assert [n for n, r in zip(WRONG_HOST, got["results"]) if code(r) not in (["403"], ["400"], ["421"])] == [], got
    assert net.arrived(80, with_bytes=True) == []
    assert any("evil.example" in d["target"] + (d["fix"] or "") for d in net_denials(got)), got["denials"]


@pytest.mark.parametrize("second", ["Host: evil.example\r\n", "Host: www.example.com\r\n", "Host: example.com\r\nHost: evil.example\r\n"])
@pytest.mark.parametrize("how", ["pipelined", "later"])
def test_second_request_for_another_host(home, net, second, how):
    first, then = f"GET /first HTTP/1.1\r\n{HOST}\r\n", f"GET /second HTTP/1.1\r\n{second}\r\n"
    pieces = [first + then] if how == "pipelined" else [first, then]
    home.control(raw("", pieces=pieces, shut=True, gap=0.1))
    assert "/second" in net.arrived(80)[0]["data"]
    got = home.within(RULES, raw("", pieces=pieces, gap=0.1))
    assert [(r[0], r[1]) for r in seen(net)] in ([("GET", "/first")], []), got
    assert "hello" not in got["results"][0].get("got", "")
    assert net_denials(got)


def test_keep_alive_and_pipelining(home, net):
    many = "".join(f"GET /bytes/{n} HTTP/1.1\r\n{HOST}\r\n" for n in range(40))
    got = home.within(RULES, raw(many + f"GET / HTTP/1.1\r\n{HOST}{END}"))
    answer = got["results"][0]["got"]
    assert answer.count("HTTP/1.1 200 OK") == 41 and answer.endswith("hello from example.com\n")
    contacts = net.arrived(80)
    assert [r[1] for c in contacts for r in requests(c["data"])] == [f"/bytes/{n}" for n in range(40)] + ["/"]


def test_what_is_rewritten(home, net):
    """Fields for one hop stay here; the Host line is ours; the rest is passed on as it was."""
    sent = (
        "GET http://example.com/a?b=%20c HTTP/1.1\r\nhOST:   EXAMPLE.com:80  \r\nX-Some: thing; here\r\nCookie: a=b\r\n"
        "Upgrade: websocket\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nProxy-Authorization: Basic eA==\r\nTE: trailers\r\n\r\n"
    )
    got = home.within(RULES, raw(sent))
    assert code(got["results"][0]) == ["404"], got
    ((method, target, fields, body),) = seen(net)
    assert (method, target, body) == ("GET", "/a?b=%20c", "")
    assert fields["x-some"] == "thing; here" and fields["cookie"] == "a=b"
    assert not {"upgrade", "x-hop", "proxy-authorization", "te"} & set(fields), fields


def test_methods(home, net):
    sent = [f"{m} / HTTP/1.1\r\n{HOST}{END}" for m in ("HEAD", "DELETE", "OPTIONS", "PATCH", "PROPFIND")]
    got = home.within(RULES, *[raw(s) for s in sent])
    assert [code(r) for r in got["results"]] == [["200"]] * 5
    assert got["results"][0]["got"].endswith("\r\n\r\n") and "Content-Length: 23" in got["results"][0]["got"]
    assert [r[0] for r in seen(net)] == ["HEAD", "DELETE", "OPTIONS", "PATCH", "PROPFIND"]


def test_long_heads(home, net):
    """16 KiB are the limit."""
    def head(size):
        return f"GET / HTTP/1.1\r\n{HOST}X: {'x' * size}\r\n{END}"

    got = home.within(RULES, raw(head(12000)), raw(head(17000)), raw(head(60000)), raw(head(10) * 1))
    assert [code(r) for r in got["results"]] == [["200"], ["431"], ["431"], ["200"]], [code(r) for r in got["results"]]
    assert len(seen(net)) == 2


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_uploads_and_downloads_with_curl(home, net, level):
    size = 5_000_000
    script = f"""
set -e
python3 -c "
import bulk, sys
for p in bulk.pieces({size}): sys.stdout.buffer.write(p)" >"$HOME/up"
for path in bytes chunked close; do curl -sS -m 30 http://example.com/$path/{size} | sha256sum; done
curl -sS -m 30 -T "$HOME/up" http://example.com/upload
curl -sS -m 30 -H 'Transfer-Encoding: chunked' -T "$HOME/up" http://example.com/upload
curl -sS -m 30 -H 'Expect: 100-continue' --data-binary @"$HOME/up" http://example.com/upload
curl -sS -m 30 -I http://example.com/ | head -1
"""
    home.write(home.work / "s.sh", script)
    want = bulk.digest(size)
    outside = home.outside(["sh", "s.sh"], env={"PYTHONPATH": "."})
    done = home.run([*allow("example.com"), "-e", "PYTHONPATH=."], ["sh", "s.sh"], level, timeout=120)
    for run in (outside, done):
        lines = run.stdout.decode().split("\n")
        assert [l.split()[0] for l in lines[:3]] == [want] * 3, run
        assert lines[3:6] == [f"{size} {want}"] * 3, run
        assert lines[6].startswith("HTTP/1.1 200"), run


def test_redirects_are_the_clients_business(home, net):
    got = home.within(RULES, raw(f"GET /redirect HTTP/1.1\r\n{HOST}{END}"))
    assert code(got["results"][0]) == ["302"] and "Location: http://evil.example/" in got["results"][0]["got"]
    assert len(net.arrived()) == 1
    done = home.run(RULES, ["curl", "-sSL", "-m", "10", "http://example.com/redirect"], "namespaces")
    assert done.returncode != 0 or b"hello" not in done.stdout
    assert {c["addr"] for c in net.arrived()} <= {"93.184.216.34", "2606:2800:220:1::1"}
    assert {q["name"] for q in net.queries()} == {"example.com"}
    assert b"hello from evil" in home.outside(["curl", "-sSL", "http://example.com/redirect"]).stdout
