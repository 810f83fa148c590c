# SPDX-License-Identifier: Apache-2.0
"""Interpreters of a session: what the supervisor keeps and passes on, with an interpreter and clients that do as they
like. Those of the package are well-behaved; see tests/python/test_detached_shared.py."""

from test_session import place, session  # noqa: F401

GUEST = r"""
import os, socket, threading, time
s = socket.socket(fileno=3); f = s.makefile("rb")
f.read(int(f.readline().split()[0]))
s.sendall(b'- {"type":"hello","parts":[]}\n')
for line in iter(f.readline, b""):
    kind, token, size = line.split()
    code = f.read(int(size))
    try:
        exec(code, globals())
    except BaseException as error:
        os.write(2, repr(error).encode())
    s.sendall(token + b' {"type":"end","parts":[]}\n')
"""

CLIENTS = r"""
import os, signal, socket, struct, sys, time
sock, key, pid, guest = *sys.argv[1:3], int(sys.argv[3]), sys.argv[4]

def connected():
    control = socket.socket(socket.AF_UNIX)
    control.connect(sock)
    return control

class Client:
    def __init__(self, name, control=None):
        self.channel, theirs = socket.socketpair()
        self.channel.settimeout(60)
        (self.out, out), (self.err, err) = os.pipe(), os.pipe()
        os.set_blocking(self.out, False); os.set_blocking(self.err, False)
        self.channel.sendall(b"0 1000\n")
        words = [key, name, "", "0", "0", "c", "nff", "0", "python3", "-c", guest]
        text = b"".join(word.encode() + b"\0" for word in words)
        self.control = control or connected()
        socket.send_fds(self.control, [struct.pack("IIII", 0x31535343, 15, len(text), len(words)) + text], [out, err, theirs.fileno()])
        os.close(out); os.close(err); theirs.close()
        self.lines = self.channel.makefile("rb")

    def hello(self):
        line = self.lines.readline()
        assert b'"hello"' in line, line
        return self

    def ask(self, code):
        self.channel.sendall(b"exec t%d %d\n" % (id(self), len(code)) + code)

    def is_answered(self):
        line = self.lines.readline()
        return line == b't%d {"type":"end","parts":[]}\n' % id(self)

    def read(self, fd):
        try:
            return len(os.read(fd, 1 << 20))
        except BlockingIOError:
            return 0

def peak():
    return next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("VmHWM"))

def cpu():
    return sum(map(int, open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")
"""


def clients(s, program):
    sock, key = str(place(s.me) / f"{s.name}.sock"), (place(s.me) / f"{s.name}.key").read_text()
    done = s.me.outside(["python3", "-c", CLIENTS + program, sock, key, str(s.status()["pid"]), GUEST], timeout=120)
    assert done.returncode == 0 and not done.stderr, done.stderr.decode()


def test_a_client_that_is_always_behind(session):
    """Only what it has not read yet is kept, however much there was; and each byte arrives."""
    clients(session(), r"""
c = Client("x").hello(); before = peak()
c.ask(b'''
for n in range(300): s.sendall(token + b' {"type":"display","parts":[100000]}\\n' + b'%099999d\\n' % n)
''')
for n in range(300):
    assert b"display" in c.lines.readline()
    assert c.lines.readline() == b'%099999d\n' % n
    if n % 2: time.sleep(0.001)
assert c.is_answered()
assert peak() - before < 8 << 10, peak() - before
""")


def test_half_lines(session):
    """Something of the interpreter's is always left to be read: what was passed on is not kept for that."""
    clients(session(), r"""
c = Client("x").hello(); before = peak()
c.ask(b'''
line = token + b' {"type":"display","parts":[],"pad":"' + b'p' * 60000 + b'"}\\n'
s.sendall(line[:30000])
for _ in range(400): s.sendall(line[30000:] + line[:30000])
s.sendall(line[30000:])
''')
for n in range(401): assert c.lines.readline().endswith(b'p"}\n')
assert c.is_answered()
assert peak() - before < 8 << 10, peak() - before
""")


def test_two_who_greet_at_once(session):
    """The interpreter is greeted once; both are served."""
    clients(session(), r"""
controls = connected(), connected()
time.sleep(0.1)  # they are accepted
os.kill(pid, signal.SIGSTOP)
both = [Client("x", one) for one in controls]
os.kill(pid, signal.SIGCONT)
for one in both: one.hello().channel.settimeout(5)
for one in both: one.ask(b"pass")
assert [one.is_answered() for one in both] == [True, True]
""")


#: One stream never ends, and the other one is not read at first.
UNEVEN = r"""
def answered(c, *fds):
    read, line = [0, 0], b""
    c.channel.setblocking(False); since = time.monotonic()
    while not line:
        n = c.read(fds[0]); read[0] += n
        if n: since = time.monotonic()
        elif time.monotonic() > since + 0.3: read[1] += c.read(fds[1])
        try: line = c.channel.recv(1000)
        except BlockingIOError: time.sleep(0.001)
    c.channel.setblocking(True)
    assert b'"end"' in line, line
    return read[1] + c.read(fds[1])

a, b = Client("x").hello(), Client("x").hello()
a.ask(b'''
os.write(2, b'e' * 100000)
goes = True
def flood():
    while goes: os.write(1, b'o' * 65536)
threading.Thread(target=flood).start()
''')
own = answered(a, a.out, a.err)
b.ask(b"goes = False; time.sleep(0.1)")
others = answered(b, b.out, b.err)
"""


def test_what_was_full_for_one_is_not_watched_in_vain(session):
    """It was emptied for somebody else: nothing is to be waited for, and the supervisor sleeps."""
    clients(session(), UNEVEN + r"""
while a.read(a.out) + a.read(a.err): pass
a.ask(b"time.sleep(0.6)"); time.sleep(0.1)
before = cpu(); time.sleep(0.4); spent = cpu() - before
assert spent < 0.1, spent
""")


def test_what_was_written_before_the_answer_is_nobody_elses(session):
    clients(session(), UNEVEN + "assert (own, others) == (100000, 0), (own, others)")


def test_an_answer_to_what_was_not_read(session):
    """It ends the interpreter: the rest of the request would be kept, and be the beginning of the next one."""
    clients(session(), r"""
c = Client("x").hello()
answer = b"s.sendall(token + b' {\"type\":\"end\",\"parts\":[]}\\n')"
c.ask(answer + b"\nkind, token, size = f.readline().split()\n" + answer + b"\ntime.sleep(60)")
assert c.is_answered()
try: c.ask(b"pass".ljust(8 << 20))
except OSError: pass
c.channel.settimeout(5)
try:
    while c.channel.recv(1000): pass  # until it is closed
except ConnectionError: pass
""")
