# SPDX-License-Identifier: Apache-2.0
"""The end of a run: what it has sent arrives, or does not look complete."""

import socket
import threading
import time

import pytest

from conftest import ceiling

SENT = 4_000_000
# Sends and leaves, as programs do that rely on the kernel for the rest.
SEND = f"""
import socket, sys
c = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
c.sendall(b"x" * int(sys.argv[2]))
c.close()
"""


class Sink:
    """One connection whose bytes are taken only after `wait` seconds, or when `release` is set."""

    def __init__(self, wait):
        self.release = threading.Event()
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(1)
        self.port = self.listener.getsockname()[1]
        self.got, self.how = 0, None
        self.thread = threading.Thread(target=self.serve, args=(wait,), daemon=True)
        self.thread.start()

    def serve(self, wait):
        conn, _ = self.listener.accept()
        self.release.wait(wait)
        try:
            while data := conn.recv(65536):
                self.got += len(data)
            self.how = "end"
        except ConnectionResetError:
            self.how = "reset"
        conn.close()

    def finish(self):
        self.release.set()
        self.thread.join(ceiling(20))
        self.listener.close()
        return self.how, self.got


def send(me, sink, opts, size):
    return me.run(
        ["--net-allow", f"localhost:{sink.port}", *opts],
        ["/usr/bin/python3", "-I", "-c", SEND, sink.port, size],
        "namespaces", timeout=60,
    )  # fmt: skip


def test_control(me):
    sink = Sink(0.3)
    done = me.outside(["/usr/bin/python3", "-I", "-c", SEND, sink.port, SENT])
    assert done.returncode == 0, done.stderr
    assert sink.finish() == ("end", SENT)


@pytest.mark.parametrize("size", [1, SENT])
def test_sent_and_left(me, size):
    """The command is gone before its bytes have arrived; the run waits for them."""
    sink = Sink(0.3)
    done = send(me, sink, [], size)
    assert done.returncode == 0, done.stderr
    assert sink.finish() == ("end", size)


def test_what_is_cut_off_does_not_look_complete(me):
    """A server that takes nothing cannot hold the run; what it gets later has no orderly end."""
    sink = Sink(60)
    begin = time.monotonic()
    done = send(me, sink, [], SENT)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begin < ceiling(10)
    how, got = sink.finish()
    assert how == "reset" and got < SENT, (how, got)


def test_a_run_that_is_ended_does_not_wait(me):
    for limit in 0.7, 4:  # on a busy machine it takes the command longer to send anything
        sink = Sink(60)
        begin = time.monotonic()
        done = send(me, sink, ["-t", f"{ceiling(limit)}s", "--grace", "0s"], 200_000_000)
        assert done.returncode == 124, done.stderr
        assert time.monotonic() - begin < ceiling(limit + 1.8)
        how, got = sink.finish()
        if got:
            break
    assert how == "reset" and got < SENT, (how, got)
