# SPDX-License-Identifier: Apache-2.0
"""A name server with a table of records, a log of the questions, and bad manners on demand.

A zone entry is a dict: "A"/"AAAA"/"TXT"... lists of values, or "CNAME" with a name; "alternate":
{"A": [[...], [...]]}, a list for each question in turn; "rcode": a number; "ttl"; and "how":
  silent    no answer at all
  delay     the answer comes 300 ms late
  truncate  over UDP only the header, with TC set
  wrong-id  only answers with another id
  spoof     wrong answers first (id, question, source address, port), the right one 50 ms later
Names that are not in the table do not exist. "*.NAME" matches below NAME.
"""

import ipaddress
import socket
import struct
import threading

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "TXT": 16, "AAAA": 28, "SVCB": 64, "HTTPS": 65, "ANY": 255}
NAMES = {number: name for name, number in TYPES.items()}
EVIL = {"A": "151.101.1.69", "AAAA": "2a04:4e42::1"}
IP_PKTINFO = 8
IPV6_PKTINFO, IPV6_RECVPKTINFO, IPV6_FREEBIND = 50, 49, 78


def pack_name(name):
    labels = [label.encode("latin-1") for label in name.split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def read_name(data, at):
    labels = []
    while data[at]:
        length = data[at]
        if length > 63:
            raise ValueError("compressed question")
        labels.append(data[at + 1 : at + 1 + length].decode("latin-1"))
        at += 1 + length
    return ".".join(labels), at + 1


def pack_value(kind, value):
    if kind in ("A", "AAAA"):
        return ipaddress.ip_address(value).packed
    if kind in ("CNAME", "PTR", "NS"):
        return pack_name(value)
    if kind == "TXT":
        return bytes([len(value)]) + value.encode()
    return bytes.fromhex(value)


class Dns:
    def __init__(self, zone):
        self.zone = dict(zone)
        self.log = []
        self.turns = {}
        self.lock = threading.Lock()

    def find(self, name):
        name = name.lower().rstrip(".")
        if name in self.zone:
            return self.zone[name]
        while "." in name:
            name = name.partition(".")[2]
            if "*." + name in self.zone:
                return self.zone["*." + name]
        return None

    def records(self, name, kind):
        """(rcode, [(owner, kind, value)]) with the whole chain of aliases."""
        found = []
        for _ in range(40):
            entry = self.find(name)
            if entry is None:
                return 3, found
            if entry.get("rcode"):
                return entry["rcode"], found
            if "CNAME" in entry and kind != "CNAME":
                found.append((name, "CNAME", entry["CNAME"]))
                name = entry["CNAME"]
                continue
            values = entry.get(kind, [])
            if kind in entry.get("alternate", {}):
                choices = entry["alternate"][kind]
                turn = self.turns.get((name, kind), 0)
                self.turns[(name, kind)] = turn + 1
                values = choices[turn % len(choices)]
            if kind == "ANY":
                return 0, found + [(name, k, v) for k in ("A", "AAAA") for v in entry.get(k, [])]
            return 0, found + [(name, kind, v) for v in values]
        return 0, found

    def answer(self, query, proto, server):
        """A list of (seconds, bytes, trick) to send for one question."""
        ident, flags, n_questions = struct.unpack(">HHH", query[:6])
        if flags & 0x8000 or n_questions != 1:
            return []
        name, at = read_name(query, 12)
        number = struct.unpack(">H", query[at : at + 2])[0]
        question = query[12 : at + 4]
        kind = NAMES.get(number, str(number))
        with self.lock:
            self.log.append({"name": name, "type": kind, "proto": proto, "server": server})
            entry = self.find(name) or {}
            rcode, records = self.records(name, kind)
        ttl, how = entry.get("ttl", 60), entry.get("how")

        def message(records, rcode=rcode, ident=ident, question=question, extra=0):
            body = b"".join(
                pack_name(owner) + struct.pack(">HHIH", TYPES[k], 1, ttl, len(v)) + v
                for owner, k, v in ((o, k, pack_value(k, v)) for o, k, v in records)
            )
            soa = b""
            if not records:
                value = pack_name("ns.invalid") + pack_name("root.invalid") + struct.pack(">5I", 1, 2, 3, 4, 5)
                soa = pack_name("") + struct.pack(">HHIH", 6, 1, 5, len(value)) + value
            head = struct.pack(">6H", ident, 0x8180 | extra | rcode, 1, len(records), 1 if soa else 0, 0)
            return head + question + body + soa

        right = message(records)
        if how == "silent":
            return []
        if how == "delay":
            return [(0.3, right, None)]
        if how == "truncate" and proto == "udp":
            return [(0, message([], rcode=0, extra=0x0200), None)]
        if how in ("wrong-id", "spoof") and kind in EVIL:
            evil = [(name, kind, EVIL[kind])]
            other = pack_name("other.example") + question[-4:]
            lies = [(0, message(evil, ident=(ident + n) & 0xFFFF), None) for n in (1, 0x8000, 0xFFFF)]
            if how == "wrong-id":
                return lies
            lies += [(0, message(evil, question=other), None)]
            lies += [(0, message(evil), "address"), (0, message(evil), "port")]
            return lies + [(0.05, right, None)]
        return [(0, right, None)]


class Udp:
    """One socket for all addresses of a family; answers come from the address that was asked."""

    def __init__(self, dns, family, handler=None):
        self.dns, self.family = dns, family
        self.sock = socket.socket(family, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        if family == socket.AF_INET6:
            self.sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self.sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
            self.sock.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)  # else no address of a route
        else:
            self.sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        self.handler = handler or self.question

    def serve(self, port):
        self.sock.bind(("::" if self.family == socket.AF_INET6 else "0.0.0.0", port))
        threading.Thread(target=self.loop, daemon=True).start()

    def loop(self):
        while True:
            data, control, _, peer = self.sock.recvmsg(65535, 256)
            packed = control[0][2] if control else b""
            if self.family == socket.AF_INET6:
                here = str(ipaddress.ip_address(packed[:16]))
            else:
                here = str(ipaddress.ip_address(packed[8:12]))
            try:
                self.handler(data, here, peer)
            except (ValueError, IndexError, struct.error):
                pass

    def send(self, data, here, peer):
        address = ipaddress.ip_address(here).packed
        if self.family == socket.AF_INET6:
            control = (socket.IPPROTO_IPV6, IPV6_PKTINFO, address + struct.pack("=I", 0))
        else:
            control = (socket.IPPROTO_IP, IP_PKTINFO, struct.pack("=I", 0) + address + b"\0" * 4)
        try:
            self.sock.sendmsg([data], [control], 0, peer)
        except OSError:
            pass  # the client has gone

    def question(self, data, here, peer):
        for delay, reply, trick in self.dns.answer(data, "udp", here):
            if trick == "address":
                self.send(reply, "151.101.1.69" if self.family == socket.AF_INET else "2a04:4e42::1", peer)
            elif trick == "port":
                with socket.socket(self.family, socket.SOCK_DGRAM) as other:
                    other.sendto(reply, peer)
            elif delay:
                threading.Timer(delay, self.send, (reply, here, peer)).start()
            else:
                self.send(reply, here, peer)
