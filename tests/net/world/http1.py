# SPDX-License-Identifier: Apache-2.0
"""A web server for HTTP/1, lenient on purpose: a request that should not have come here is taken
as the worst of servers would take it, and the bytes are in the log anyway.

/ says hello; /bytes/N, /chunked/N and /close/N send N bytes of the stream (bulk.py); /redirect leads
elsewhere; /upload answers with the checksum of the body; everything else is a file below
ROOT/HOST/, if there is one."""

import hashlib
import os
import urllib.parse

import bulk

TYPES = {".html": "text/html", ".json": "application/json", ".whl": "application/zip"}


class Reader:
    def __init__(self, line):
        self.line, self.data = line, b""

    def until(self, mark):
        while mark not in self.data:
            more = self.line.recv()
            if not more:
                return None
            self.data += more
        head, _, self.data = self.data.partition(mark)
        return head

    def take(self, size):
        """The next @size bytes, in pieces."""
        while size > 0:
            if not self.data:
                self.data = self.line.recv(min(size, 1 << 18))
                if not self.data:
                    raise ConnectionResetError("body cut short")
            piece, self.data = self.data[:size], self.data[size:]
            size -= len(piece)
            yield piece


def body_of(reader, fields):
    if "chunked" in fields.get("transfer-encoding", "").lower():
        while True:
            size = int((reader.until(b"\r\n") or b"0").split(b";")[0], 16)
            yield from reader.take(size)
            reader.until(b"\r\n")
            if not size:
                return
    else:
        yield from reader.take(int(fields.get("content-length", "0") or 0))


def reply(line, status, body=b"", fields=(), is_head=False, keep=True):
    head = [f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(body)}"]
    head.append("Connection: " + ("keep-alive" if keep else "close"))
    line.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + (b"" if is_head else body))


def send_stream(line, kind, size, is_head):
    if kind == "bytes":
        line.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
    elif kind == "chunked":
        line.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    else:
        line.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    if is_head:
        return
    for piece in bulk.pieces(size):
        line.sendall(b"%x\r\n" % len(piece) + piece + b"\r\n" if kind == "chunked" else piece)
    if kind == "chunked":
        line.sendall(b"0\r\n\r\n")


def find_file(root, host, path):
    """The file's bytes and type, or None. Nothing outside the root, whatever is asked for."""
    base = os.path.realpath(os.path.join(root or "/nonexistent", host))
    full = os.path.realpath(base + "/" + urllib.parse.unquote(path))
    if os.path.isdir(full):
        full += "/index.html"
    if not full.startswith(base + "/") or not os.path.isfile(full):
        return None
    with open(full, "rb") as file:
        return file.read(), TYPES.get(os.path.splitext(full)[1], "application/octet-stream")


def one(line, reader, root):
    """Serves one request; False: the connection ends."""
    head = reader.until(b"\r\n\r\n")
    if head is None:
        return False
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    fields = {}
    for text in lines[1:]:
        name, _, value = text.partition(":")
        fields[name.strip().lower()] = value.strip()
    method, target = words[0], words[1] if len(words) > 1 else "/"
    if fields.get("expect", "").lower() == "100-continue":
        line.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    digest, count = hashlib.sha256(), 0
    for piece in body_of(reader, fields):
        digest.update(piece)
        count += len(piece)
    path = urllib.parse.urlsplit(target).path
    host = fields.get("host", "").lower().partition(":")[0]
    keep = fields.get("connection", "").lower() != "close"
    is_head = method == "HEAD"
    parts = path.split("/")
    if parts[1:2] and parts[1] in ("bytes", "chunked", "close") and len(parts) == 3:
        send_stream(line, parts[1], int(parts[2]), is_head)
        return parts[1] != "close" and keep
    if path == "/redirect":
        reply(line, "302 Found", b"", ["Location: http://evil.example/"], is_head, keep)
    elif path == "/upload":
        reply(line, "200 OK", f"{count} {digest.hexdigest()}\n".encode(), (), is_head, keep)
    elif path == "/":
        reply(line, "200 OK", f"hello from {host}\n".encode(), ["Content-Type: text/plain"], is_head, keep)
    elif found := find_file(root, host, path):
        reply(line, "200 OK", found[0], ["Content-Type: " + found[1]], is_head, keep)
    else:
        reply(line, "404 Not Found", b"no such file\n", (), is_head, keep)
    return keep


def serve(line, root):
    reader = Reader(line)
    while one(line, reader, root):
        pass
