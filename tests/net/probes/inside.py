# SPDX-License-Identifier: Apache-2.0
"""Carries out the steps in a file (JSON) and prints what came of each (JSON).

The same program runs inside a sandbox and, as a positive control, outside. A result has "error" or
it has worked. `via`: "connect" or "socks" goes through the proxy that the environment names, and
"proxy" as `via` of an http step sends the absolute form.
"""

import _ssl
import ctypes
import errno
import json
import os
import socket
import ssl
import struct
import sys
import threading
import time
import urllib.parse

TYPES = {"A": 1, "CNAME": 5, "PTR": 12, "TXT": 16, "AAAA": 28, "SVCB": 64, "HTTPS": 65, "ANY": 255}
NAMES = {number: name for name, number in TYPES.items()}


class Refused(Exception):
    pass


def say(error):
    if isinstance(error, socket.gaierror):
        return f"gaierror {error.errno}"
    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, ssl.SSLError):
        return f"ssl {error.reason}"
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, OSError) and error.errno:
        return errno.errorcode.get(error.errno, str(error.errno))
    return repr(error)


def read_all(sock, limit=1 << 20):
    got = b""
    while len(got) < limit:
        data = sock.recv(65536)
        if not data:
            break
        got += data
    return got


def proxy_address():
    url = urllib.parse.urlsplit(os.environ.get("http_proxy") or os.environ["HTTP_PROXY"])
    return url.hostname, url.port


def read_exactly(sock, size):
    got = b""
    while len(got) < size:
        data = sock.recv(size - len(got))
        if not data:
            raise Refused("closed")
        got += data
    return got


def through_socks(sock, host, port):
    sock.sendall(b"\5\1\0")
    if read_exactly(sock, 2) != b"\5\0":
        raise Refused("socks method")
    raw = host.encode("latin-1")
    sock.sendall(b"\5\1\0\3" + bytes([len(raw)]) + raw + struct.pack(">H", port))
    reply = read_exactly(sock, 10)
    if reply[1]:
        raise Refused(f"socks {reply[1]}")


def through_connect(sock, host, port):
    name = f"[{host}]" if ":" in host else host
    sock.sendall(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode("latin-1"))
    head = b""
    while b"\r\n\r\n" not in head:
        data = sock.recv(1)
        if not data:
            raise Refused("closed")
        head += data
    code = head.split(b" ")[1].decode()
    if code != "200":
        raise Refused(f"proxy {code}")


def dial(host, port, via=None, timeout=5):
    if via in ("connect", "socks"):
        sock = socket.create_connection(proxy_address(), timeout)
        (through_socks if via == "socks" else through_connect)(sock, host, port)
        return sock
    if via == "proxy":
        return socket.create_connection(proxy_address(), timeout)
    return socket.create_connection((host, port), timeout)


# --- steps ------------------------------------------------------------------------------------------


def do_resolve(name, family=0):
    found = socket.getaddrinfo(name, 80, family, socket.SOCK_STREAM)
    return {"addresses": [f[4][0] for f in found]}


def read_name(data, at):
    labels, end = [], None
    while data[at]:
        if data[at] >= 0xC0:
            end = at + 2 if end is None else end
            at = struct.unpack(">H", data[at : at + 2])[0] & 0x3FFF
        else:
            labels.append(data[at + 1 : at + 1 + data[at]].decode("latin-1"))
            at += 1 + data[at]
    return ".".join(labels), end if end is not None else at + 1


def read_answer(data):
    ident, flags, n_questions, n_answers = struct.unpack(">4H", data[:8])
    at, answers = 12, []
    for _ in range(n_questions):
        at = read_name(data, at)[1] + 4
    for _ in range(n_answers):
        owner, at = read_name(data, at)
        kind, _, ttl, size = struct.unpack(">HHIH", data[at : at + 10])
        value = data[at + 10 : at + 10 + size]
        if kind in (1, 28):
            text = socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, value)
        elif kind in (5, 12):
            text = read_name(data, at + 10)[0]
        else:
            text = value.hex()
        answers.append([owner, NAMES.get(kind, str(kind)), text, ttl])
        at += 10 + size
    return {"id": ident, "rcode": flags & 15, "tc": bool(flags & 0x200), "answers": answers, "size": len(data)}


def pack_question(name, kind, ident=0x1234, rooted=True):
    labels = [label.encode("latin-1") for label in name.split(".") if label]
    raw = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    return struct.pack(">6H", ident, 0x0100, 1, 0, 0, 0) + raw + struct.pack(">HH", TYPES.get(kind) or int(kind), 1)


def do_dns(name="", type="A", server="8.8.8.8", tcp=False, timeout=3, raw=None):
    query = raw.encode("latin-1") if raw is not None else pack_question(name, type)
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as sock:
        sock.settimeout(timeout)
        sock.connect((server, 53))
        if tcp:
            sock.sendall(struct.pack(">H", len(query)) + query)
            return read_answer(read_exactly(sock, struct.unpack(">H", read_exactly(sock, 2))[0]))
        sock.send(query)
        return read_answer(sock.recv(65535))


def do_tcp(host, port, send="", pieces=None, gap=0, shut=False, via=None, timeout=5, limit=1 << 20, first=0):
    """Sends, then reads to the end (or @limit bytes); @first: reads that many before sending."""
    with dial(host, port, via, timeout) as sock:
        greeting = read_exactly(sock, first)
        cut = None
        try:
            for piece in [send] if pieces is None else pieces:
                sock.sendall(piece.encode("latin-1"))
                time.sleep(gap)
            if shut:
                sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            cut = say(error)  # closed while we were still sending: there may be an answer
        got = b""
        try:
            got = greeting + read_all(sock, limit)
        except OSError as error:
            cut = cut or say(error)
        return {"got": got.decode("latin-1"), "cut": cut}


def do_udp(host, port, send="x", timeout=1):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(timeout)
        sock.connect((host, port))
        sock.send(send.encode("latin-1"))
        return {"got": sock.recv(65535).decode("latin-1")}


def do_tls(host, port=443, sni=None, ca=None, path="/", via=None, timeout=5, name=None):
    """@sni: the name in the hello, "" for none. Checks the certificate for @name if there is a @ca."""
    context = ssl.create_default_context(cafile=ca) if ca else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if not ca:
        context.verify_mode = ssl.CERT_NONE
    sni = host if sni is None else sni
    with dial(host, port, via, timeout) as sock:
        with context.wrap_socket(sock, server_hostname=sni or None) as tls:
            request = f"GET {path} HTTP/1.1\r\nHost: {name or host}\r\nConnection: close\r\n\r\n"
            tls.sendall(request.encode("latin-1"))
            got = read_all(tls)
            subject = dict(part[0] for part in tls.getpeercert().get("subject", ())) if ca else {}
    return {"got": got.decode("latin-1"), "subject": subject.get("commonName")}


class Hellos:
    """A TLS client that changes its mind: the name in its second hello is another one."""

    def __init__(self):
        lib = ctypes.CDLL(_ssl.__file__)  # with the library behind it
        for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new", "BIO_s_mem", "BIO_new"):
            getattr(lib, name).restype = ctypes.c_void_p
        self.lib, call = lib, self.call
        self.ssl = call("SSL_new", call("SSL_CTX_new", call("TLS_client_method")))
        self.incoming, self.outgoing = (call("BIO_new", call("BIO_s_mem")) for _ in range(2))
        call("SSL_set_bio", self.ssl, self.incoming, self.outgoing)
        call("SSL_set_connect_state", self.ssl)

    def call(self, name, *args):
        return getattr(self.lib, name)(*[ctypes.c_void_p(a) if isinstance(a, int) and a > 1 << 20 else a for a in args])

    def name(self, text):
        self.call("SSL_ctrl", self.ssl, 55, 0, text.encode())

    def flush(self):
        room = ctypes.create_string_buffer(65536)
        size = self.call("BIO_read", self.outgoing, room, 65536)
        return room.raw[:size] if size > 0 else b""

    def feed(self, data):
        self.call("BIO_write", self.incoming, data, len(data))

    def handshake(self):
        return self.call("SSL_do_handshake", self.ssl) == 1

    def read(self):
        room = ctypes.create_string_buffer(65536)
        size = self.call("SSL_read", self.ssl, room, 65536)
        return room.raw[:size] if size > 0 else b""


def pieces_of(data, size):
    return [data[i : i + size] for i in range(0, len(data), size)] if size else [data]


def in_records(data, size):
    """The handshake messages of @data in records of @size bytes; other records as they are."""
    out = b""
    while data:
        end = 5 + int.from_bytes(data[3:5], "big")
        record, data = data[:end], data[end:]
        for piece in pieces_of(record[5:], size if record[0] == 22 else 0):
            out += record[:3] + struct.pack(">H", len(piece)) + piece
    return out


def alert_in(data):
    """The number of an alert among these records, or None."""
    while len(data) >= 7:
        if data[0] == 21:
            return data[6]
        data = data[5 + int.from_bytes(data[3:5], "big") :]
    return None


def do_retry(host, first, second, port=443, via=None, timeout=5, size=0, at_once=False, before=""):
    """A session whose second hello, after the server asked for one, has another name. @size: hellos in
    records of so many bytes; @at_once: do not wait for the server with it; @before: bytes before it."""
    tls, answers = Hellos(), b""
    tls.name(first)
    tls.handshake()
    hello = in_records(tls.flush(), size)
    with dial(host, port, via, timeout) as sock:
        if at_once:
            sock.sendall(hello + before.encode("latin-1") + hello.replace(first.encode(), second.encode()))
            return {"got": read_all(sock).decode("latin-1")}
        sock.sendall(hello)
        answers = sock.recv(65536)
        tls.name(second)
        tls.feed(answers)
        done = tls.handshake()
        sock.sendall(before.encode("latin-1") + in_records(tls.flush(), size))
        while not done:
            data = sock.recv(65536)
            if not data:
                raise Refused("closed")
            answers += data
            tls.feed(data)
            done = tls.handshake()
            if alert := alert_in(answers):
                raise Refused(f"alert {alert}")
        sock.sendall(tls.flush())
        request = f"GET / HTTP/1.1\r\nHost: {second}\r\nConnection: close\r\n\r\n".encode()
        tls.call("SSL_write", tls.ssl, request, len(request))
        sock.sendall(tls.flush())
        got = b""
        while b"hello" not in got:
            data = sock.recv(65536)
            if not data:
                break
            tls.feed(data)
            got += tls.read()
        return {"got": got.decode("latin-1")}


def do_http(host, port=80, path="/", via=None, timeout=5, name=None):
    shown = f"[{host}]" if ":" in host else host
    shown = name or (shown if port == 80 else f"{shown}:{port}")
    target = f"http://{shown}{path}" if via == "proxy" else path
    with dial(host, port, via, timeout) as sock:
        sock.sendall(f"GET {target} HTTP/1.1\r\nHost: {shown}\r\nConnection: close\r\n\r\n".encode("latin-1"))
        got = read_all(sock).decode("latin-1")
    if not got:
        raise Refused("closed")
    code = got.split(" ")[1]
    if code != "200":
        raise Refused(f"http {code}")
    return {"got": got}


def do_threads(steps):
    """All of them at the same time."""
    results = [None] * len(steps)

    def work(index):
        results[index] = carry_out(steps[index])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(steps))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"results": results}


def carry_out(step):
    step = dict(step)
    try:
        return globals()["do_" + step.pop("do")](**step)
    except Exception as error:  # whatever it is, the test wants to know
        return {"error": say(error)}


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print(json.dumps([carry_out(step) for step in json.load(file)]))
