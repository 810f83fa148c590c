# SPDX-License-Identifier: Apache-2.0
"""Two net namespaces: "home", where the tests run, and "world", where every address that is not
home's answers. Nothing leads from them to the machine's real network.

	internet.py DIRECTORY UID

DIRECTORY holds what content.py made and gets home.sock and world.sock, over which the tests ask what
arrived. Prints "ready" when everything listens; ends when its standard input does.
"""

import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading

import content
import servers
import zone
from dnsd import Dns, Udp

NEWNS, NEWUSER, NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), what + ": " + os.strerror(ctypes.get_errno()))


def mount(source, target, flags):
    check(libc.mount(str(source).encode(), str(target).encode(), None, flags, None), f"mount {target}")


def die_with_parent():
    check(libc.prctl(1, signal.SIGKILL, 0, 0, 0), "prctl")


def ip(family, *lines):
    argv = ["ip", family, "-batch", "-"]
    done = subprocess.run(argv, input="\n".join(lines), text=True, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError("ip: " + done.stderr)


def unshare(flags):
    uid, gid = os.geteuid(), os.getegid()
    if uid:
        flags |= NEWUSER
    check(libc.unshare(flags), "unshare")
    if uid and flags & NEWUSER:
        pathlib.Path("/proc/self/setgroups").write_text("deny")
        pathlib.Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        pathlib.Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


# --- control ----------------------------------------------------------------------------------------


class Control:
    """One JSON request a line, one JSON answer."""

    def __init__(self, path, book, services, dns=None):
        self.book, self.services, self.dns = book, services, dns
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(str(path))
        os.chmod(path, 0o777)
        sock.listen(16)
        threading.Thread(target=self.accept, args=(sock,), daemon=True).start()

    def accept(self, sock):
        while True:
            conn, _ = sock.accept()
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        with conn, conn.makefile("rw") as file:
            for text in file:
                request = json.loads(text)
                try:
                    answer = getattr(self, "do_" + request.pop("do"))(**request)
                except Exception as error:  # the test is to see it
                    answer = {"error": repr(error)}
                file.write(json.dumps(answer) + "\n")
                file.flush()

    def do_contacts(self, clear=False):
        """What arrived so far; exact, because everything under way is waited for."""
        self.services.barrier()
        with self.book.lock:
            got = [dict(c) for c in self.book.contacts]
            if clear:
                self.book.contacts.clear()
        return got

    def do_live(self):
        """What is there right now, without waiting."""
        with self.book.lock:
            return {"open": self.book.n_open, "ports": sorted({c["port"] for c in self.book.contacts})}

    def do_queries(self, clear=False):
        with self.dns.lock:
            got = list(self.dns.log)
            if clear:
                self.dns.log.clear()
        return got

    def do_zone(self, entries):
        with self.dns.lock:
            self.dns.zone.update(entries)
            self.dns.turns.clear()
        return None

    @staticmethod
    def do_dial(address, port, send="", timeout=2):
        """A connection from here to elsewhere."""
        try:
            with socket.create_connection((address, port), timeout) as sock:
                sock.sendall(send.encode("latin-1"))
                sock.shutdown(socket.SHUT_WR)
                got = b""
                while data := sock.recv(65536):
                    got += data
                return {"ok": got.decode("latin-1")}
        except OSError as error:
            return {"error": type(error).__name__}


# --- the two sides ----------------------------------------------------------------------------------


def udp_echo(book, port):
    for family in (socket.AF_INET, socket.AF_INET6):
        service = Udp(None, family)

        def handler(data, here, peer, service=service):
            servers.Book.note(book.add("udp", here, f"{peer[0]}:{peer[1]}", port), data)
            service.send(data, here, peer)

        service.handler = handler
        service.serve(port)


def dns_tcp(dns):
    def handler(_, line):
        while head := line.recv(2):
            query = line.recv(int.from_bytes(head, "big"))
            here = servers.plain_address(line.sock.getsockname()[0])
            for _, reply, trick in dns.answer(query, "tcp", here):
                if not trick:
                    line.sendall(len(reply).to_bytes(2, "big") + reply)

    return handler


def listeners(services, ports, address="::"):
    for port, handler in ports.items():
        services.listen(port, handler, address)


PORTS = {
    80: servers.http, 443: servers.https, 8080: servers.http, 8443: servers.https, 7: servers.echo,
    5432: servers.echo, 25: servers.speaks_first, 9000: servers.commanded,
}  # fmt: skip


def start_sshd(base, uid):
    """sshd as an ordinary user: it lets in that user only, with the one key."""

    def become():
        if pathlib.Path("/proc/self/uid_map").read_text().split()[2] == "1":  # we started as a user
            check(libc.unshare(NEWUSER), "unshare")
            pathlib.Path("/proc/self/setgroups").write_text("deny")
            pathlib.Path("/proc/self/uid_map").write_text(f"{uid} 0 1")
            pathlib.Path("/proc/self/gid_map").write_text(f"{uid} 0 1")
        else:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        die_with_parent()  # last: a change of ids resets it

    return subprocess.Popen(
        ["/usr/sbin/sshd", "-D", "-E", f"{base}/sshd.log", "-f", f"{base}/sshd_config"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=become,
    )  # fmt: skip


def world(base, uid, go, done):
    """The other side of the cable."""
    check(libc.unshare(NEWNET), "unshare")
    os.write(done, b"1")
    os.read(go, 1)
    # In the main table, so that home's own network is the exception.
    ip("-4", "link set lo up", "link set w0 up", "addr add 203.0.113.1/30 dev w0",
       "route add local 0.0.0.0/0 dev lo table main")  # fmt: skip
    ip("-6", "addr add fd99::1/64 dev w0 nodad", "route add local ::/0 dev lo table main")
    book, dns = servers.Book(), Dns(zone.ZONE)
    services = servers.Servers(book, servers.Tls(base, content.CERTIFICATES), f"{base}/www")
    listeners(services, {**PORTS, 22: servers.relay_to(2200), 53: dns_tcp(dns)})
    for family in (socket.AF_INET, socket.AF_INET6):
        Udp(dns, family).serve(53)
    for port in (7, 443):
        udp_echo(book, port)
    sshd = start_sshd(base, uid)
    Control(f"{base}/world.sock", book, services, dns)
    os.write(done, b"2")
    os.read(go, 1)  # the end of the other side
    sshd.kill()


def home(base, pid, go, done):
    ip("-4", "link set lo up", f"link add h0 type veth peer name w0 netns {pid}", "link set h0 up",
       "addr add 203.0.113.2/30 dev h0", "addr add 93.184.77.77/32 dev lo",
       "addr add 93.184.76.1/24 dev h0", "addr add 93.184.76.2/24 dev h0", "route add local 93.184.78.0/24 dev lo",
       "route add local 93.184.79.0/24 dev lo table 79", "rule add to 93.184.79.0/24 dport 5432 table 79 prio 79",
       )  # fmt: skip
    ip("-6", "addr add fd99::2/64 dev h0 nodad", "route add default via fd99::1",
       # deprecated: the world could not answer such a sender
       "addr add 2606:2800:76::1/64 dev h0 nodad preferred_lft 0",
       "addr add 2606:2800:76::2/64 dev h0 nodad preferred_lft 0",
       "route add local 2606:2800:78::/48 dev lo")  # fmt: skip
    os.write(go, b"1")
    ip("-4", "route add default via 203.0.113.1")
    book = servers.Book()
    services = servers.Servers(book, servers.Tls(base, content.CERTIFICATES), f"{base}/www")
    for address in ("127.0.0.1", "127.9.9.9", "::1", "203.0.113.2", "93.184.77.77"):
        listeners(services, {**PORTS, 22: servers.speaks_first, 53: servers.echo}, address)
    for address in zone.OWN.values():
        listeners(services, {80: servers.http, 5432: servers.http}, address)
    Control(f"{base}/home.sock", book, services)
    if os.read(done, 1) != b"2":
        raise RuntimeError("world did not start")


def main():
    base, uid = sys.argv[1], int(sys.argv[2])
    os.umask(0o022)
    unshare(NEWNS | NEWNET)
    die_with_parent()
    mount("none", "/", MS_REC | MS_PRIVATE)
    content.ssh(base, uid)
    for name in ("resolv.conf", "hosts", "passwd"):
        mount(f"{base}/{name}", f"/etc/{name}", MS_BIND)
    go_read, go_write = os.pipe()
    done_read, done_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go_write)
        os.close(done_read)
        die_with_parent()
        try:
            world(base, uid, go_read, done_write)
        except BaseException as error:
            print("world:", repr(error), file=sys.stderr)
        os._exit(0)
    os.close(go_read)
    os.close(done_write)
    if os.read(done_read, 1) != b"1":
        raise RuntimeError("world did not start")
    home(base, pid, go_write, done_read)
    print("ready", flush=True)
    sys.stdin.read()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os._exit(0)


if __name__ == "__main__":
    main()
