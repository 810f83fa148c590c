# SPDX-License-Identifier: Apache-2.0
"""Servers of the simulated internet. Each contact is noted: where it arrived, and what it said."""

import ipaddress
import socket
import ssl
import struct
import threading
import time

import bulk
import http1
import zone

IPV6_FREEBIND = 78
KEEP = 1 << 20  # bytes of a contact that are kept


class Book:
    """What arrived. A contact is a dict; `data` is what the other side sent, as latin-1."""

    def __init__(self):
        self.lock = threading.Lock()
        self.contacts = []
        self.marks = set()
        self.n_open = 0

    def add(self, proto, here, peer, port):
        entry = {"proto": proto, "addr": here, "port": port, "peer": peer, "data": "", "size": 0, "end": "open"}
        with self.lock:
            self.contacts.append(entry)
        return entry

    def is_busy(self):
        """Is one of the contacts still under way? Those that were asked for before do not count."""
        with self.lock:
            return any(c["proto"] == "tcp" and c["end"] == "open" for c in self.contacts)

    @staticmethod
    def note(entry, data):
        entry["size"] += len(data)
        if len(entry["data"]) < KEEP:
            entry["data"] += data[: KEEP - len(entry["data"])].decode("latin-1")


class Line:
    """A connection whose incoming bytes are noted."""

    def __init__(self, sock, entry):
        self.sock, self.entry = sock, entry
        self.sendall = sock.sendall

    def recv(self, size=65536):
        data = self.sock.recv(size)
        Book.note(self.entry, data)
        return data


def plain_address(text):
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def take_any(sock):
    """It may be bound to an address that is here by a route only."""
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)


class Servers:
    def __init__(self, book, tls=None, root=None):
        self.book, self.tls, self.root = book, tls, root
        self.ports = {}  # of TCP, with the address to reach the listener at

    def listen(self, port, handler, address="::"):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = socket.socket(family)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        take_any(sock)
        sock.bind((address, port))
        sock.listen(4096)
        self.ports[(address, port)] = sock
        threading.Thread(target=self._accept, args=(sock, port, handler), daemon=True).start()

    def _accept(self, sock, port, handler):
        while True:
            conn, peer = sock.accept()
            mark = (plain_address(peer[0]), peer[1])
            with self.book.lock:
                if mark in self.book.marks:
                    self.book.marks.discard(mark)
                    conn.close()
                    continue
                self.book.n_open += 1
            here = plain_address(conn.getsockname()[0])
            entry = self.book.add("tcp", here, f"{mark[0]}:{mark[1]}", port)
            threading.Thread(target=self._serve, args=(conn, entry, handler), daemon=True).start()

    def _serve(self, conn, entry, handler):
        try:
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            handler(self, Line(conn, entry))
            entry["end"] = "closed"
        except (ConnectionResetError, BrokenPipeError):
            entry["end"] = "reset"
        except (OSError, ValueError, IndexError) as error:
            entry["end"] = repr(error)
        finally:
            conn.close()
            with self.book.lock:
                self.book.n_open -= 1

    def barrier(self):
        """Returns when each contact made before the call is noted, and those that have ended are
        finished (1 s at most for those that have not)."""
        for (address, port), _ in list(self.ports.items()):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            with socket.socket(family) as probe:
                to = "::1" if address == "::" else address
                take_any(probe)
                probe.bind((to, 0))
                mark = (plain_address(to), probe.getsockname()[1])
                with self.book.lock:
                    self.book.marks.add(mark)
                probe.connect((to, port))
                probe.recv(1)  # closed by the other side: it has been accepted
        end = time.monotonic() + 1
        while self.book.is_busy() and time.monotonic() < end:
            time.sleep(0.002)


# --- handlers ---------------------------------------------------------------------------------------


def http(servers, line):
    http1.serve(line, servers.root)


def https(servers, line):
    """The raw bytes that came first are noted, the plain text is noted as "plain"."""
    first = line.sock.recv(16384, socket.MSG_PEEK)
    Book.note(line.entry, first)
    if not first:
        return
    line.entry["sni"] = None
    line.entry["plain"] = ""
    retries = plain_address(line.sock.getsockname()[0]) == zone.RETRY
    with servers.tls.wrap(line.sock, line.entry, retries) as tls:

        class Inner:
            entry = line.entry
            sock = tls
            sendall = staticmethod(tls.sendall)

            @staticmethod
            def recv(size=65536):
                data = tls.recv(size)
                line.entry["plain"] += data[:KEEP].decode("latin-1")
                return data

        http1.serve(Inner, servers.root)
        tls.settimeout(1)
        try:
            tls.unwrap()  # a proper end, as programs expect it
        except OSError:
            pass  # theirs was not


def echo(_, line):
    while data := line.recv():
        line.sendall(data)


def speaks_first(_, line):
    line.sendall(b"220 mail.example ready\r\n")
    while data := line.recv():
        if data.startswith(b"QUIT"):
            line.sendall(b"221 bye\r\n")
            return
        line.sendall(b"250 " + data)


def relay_to(port):
    def handler(_, line):
        with socket.create_connection(("127.0.0.1", port), 5) as there:
            there.settimeout(None)

            def back():
                try:
                    while data := there.recv(65536):
                        line.sendall(data)
                    line.sock.shutdown(socket.SHUT_WR)
                except OSError:
                    pass

            thread = threading.Thread(target=back, daemon=True)
            thread.start()
            while data := line.recv():
                there.sendall(data)
            there.shutdown(socket.SHUT_WR)
            thread.join(5)

    return handler


def commanded(_, line):
    """The first line says what to do; see the branches."""
    text = b""
    while not text.endswith(b"\n"):
        byte = line.sock.recv(1)
        if not byte:
            return
        text += byte
    Book.note(line.entry, text)
    words = text.decode("latin-1").split()
    line.entry["command"] = words
    if words[0] == "SEND":  # that many bytes, then the end
        for piece in bulk.pieces(int(words[1])):
            line.sendall(piece)
    elif words[0] == "RECV":  # everything, then its checksum
        count, digest = bulk.consume(line.sock)
        line.entry["size"] += count
        line.sendall(f"{count} {digest}\n".encode())
    elif words[0] == "LATE":  # answers after the other side's half is closed
        count, digest = bulk.consume(line.sock)
        for piece in bulk.pieces(int(words[1])):
            line.sendall(piece)
        line.sendall(f"{count} {digest}\n".encode())
    elif words[0] == "EARLY":  # closes its half first, then goes on listening
        line.sendall(b"bye\n")
        line.sock.shutdown(socket.SHUT_WR)
        while line.recv():
            pass
    elif words[0] == "RST":
        line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif words[0] == "HOLD":  # says so, and stays until the other side ends
        line.sendall(b"held\n")
        while line.recv():
            pass


class Tls:
    """One context for each certificate; which one is chosen by the name in the hello."""

    def __init__(self, directory, names):
        self.contexts = {}
        for label, hosts in names.items():
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(f"{directory}/{label}.crt", f"{directory}/{label}.key")
            context.set_alpn_protocols(["http/1.1"])
            for host in hosts:
                self.contexts[host] = context
            self.default = context

    def choose(self, name):
        if name in self.contexts:
            return self.contexts[name]
        if name and "*." + name.partition(".")[2] in self.contexts:
            return self.contexts["*." + name.partition(".")[2]]
        return self.default

    def wrap(self, sock, entry, retries=False):
        """@retries: a client that does not guess our one group is asked for another hello."""

        def named(tls, name, _):
            entry["sni"] = name
            entry.setdefault("hellos", []).append(name)
            tls.context = self.choose(name)

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        context.sni_callback = named
        if retries:
            context.set_ecdh_curve("secp384r1")
        return context.wrap_socket(sock, server_side=True)
