# SPDX-License-Identifier: Apache-2.0
"""`cordon run -i`: a real terminal inside, and the caller's own as it was afterwards."""

import errno
import fcntl
import hashlib
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import pytest

SH = "/bin/sh"
BASH = ["/bin/bash", "--norc", "--noprofile", "-i"]
PATIENCE = 20
MIB = 1 << 20
NOT_A_NORMAL_ERASE = b"\x0c"


CAT = [SH, "-c", "echo up; exec cat"]


class Outer:
    """The caller's terminal: its master is in our hands, its slave is all that cordon has."""

    def __init__(self, me, opts, cmd, level=None, *, size=(30, 100), term="xterm", shell=True, **kw):
        self.master, self.slave = pty.openpty()
        self.seen = b""
        self.me = me
        self.resize(*size)
        if me.switch:
            os.fchown(self.slave, me.uid, me.gid)
        modes = termios.tcgetattr(self.slave)
        modes[0] &= ~termios.IXON  # settings that are not restored by accident
        modes[6][termios.VERASE] = NOT_A_NORMAL_ERASE
        termios.tcsetattr(self.slave, termios.TCSANOW, modes)
        self.before = self.modes()
        own = (lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if shell else None
        kw.setdefault("stderr", self.slave)
        self.proc = me.popen(
            me.argv(["-q", "-i", *opts], cmd, level),
            stdin=self.slave,
            stdout=self.slave,
            start_new_session=True,
            preexec_fn=own,
            env={"TERM": term, "COLUMNS": "7", "LINES": "7"},
            **kw,
        )

    def modes(self):
        return termios.tcgetattr(self.slave)

    def is_raw(self):
        return not self.modes()[3] & (termios.ICANON | termios.ECHO | termios.ISIG)

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def _read(self, seconds):
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.master, 1 << 16)
        except OSError as error:
            assert error.errno == errno.EIO
            return False
        self.seen += data
        return True

    def expect(self, pattern, patience=PATIENCE):
        """Waits until `pattern` appears; what came up to its end is forgotten. The match."""
        end = time.monotonic() + patience
        while True:
            found = re.search(pattern, self.seen, re.DOTALL)
            if found:
                self.seen = self.seen[found.end() :]
                return found
            left = end - time.monotonic()
            assert left > 0, f"{pattern!r} did not come: {self.seen[-2000:]!r}"
            self._read(min(left, 0.5))

    def type(self, data):
        """Types all of it, and reads meanwhile: a terminal does both."""
        if isinstance(data, str):
            data = data.encode()
        end = time.monotonic() + PATIENCE
        while data:
            assert time.monotonic() < end, f"{len(data)} bytes were not taken"
            readable, writable, _ = select.select([self.master], [self.master], [], 0.5)
            if readable:
                self._read(0)
            if writable:
                data = data[os.write(self.master, data[:256]) :]

    def end(self, patience=PATIENCE):
        """Waits for cordon to end; its exit status. Everything it wrote is in `seen`."""
        until = time.monotonic() + patience
        while self.proc.poll() is None:
            assert time.monotonic() < until, f"still running: {self.seen[-2000:]!r}"
            self._read(0.02)
        while self._read(0):
            pass
        return self.proc.returncode

    def close(self):
        for fd in (self.master, self.slave):
            try:
                os.close(fd)
            except OSError:
                pass
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()


@pytest.fixture
def outer(me):
    made = []

    def make(opts, cmd, level=None, **kw):
        made.append(Outer(me, opts, cmd, level, **kw))
        return made[-1]

    yield make
    for one in made:
        one.close()


def sh(script):
    return [SH, "-c", script]


def py(script):
    return ["/usr/bin/python3", "-c", script]


@pytest.fixture
def bash(outer, level):
    term = outer(["-e", "PS1=ready> "], BASH, level)
    term.expect(b"ready> ")
    return term


# --- a terminal ----------------------------------------------------------------------------------


def test_is_a_terminal(outer, level):
    term = outer([], sh("tty; echo by-name >$(tty); echo controlling >/dev/tty; exit 3"), level)
    term.expect(rb"/dev/pts/\d+\r\n")
    term.expect(rb"by-name\r\n")
    term.expect(rb"controlling\r\n")
    assert term.end() == 3
    assert term.modes() == term.before


def test_first_terminal_of_its_own_view(outer):
    term = outer([], sh("tty; ls /dev/pts | tr '\\n' ,"), "namespaces")
    term.expect(rb"/dev/pts/0\r\n0,ptmx,")
    assert term.end() == 0


def test_all_three_streams(outer, level):
    term = outer([], sh("test -t 0 && test -t 1 && test -t 2 && echo all >&2"), level)
    term.expect(rb"all\r\n")
    assert term.end() == 0


def test_nothing_else_is_open(outer, level):
    term = outer([], py("import os; print(sorted(os.listdir('/proc/self/fd')))"), level)
    term.expect(rb"\['0', '1', '2', '3'\]")  # the last one is the listing itself
    assert term.end() == 0


def test_only_when_asked_for(me, level):
    """With a terminal outside and no -i there is none inside."""
    master, slave = pty.openpty()
    script = "tty; test -t 1 || echo no; (: </dev/tty) 2>&- || echo none"
    proc = me.popen(me.argv(["-q"], sh(script), level), stdin=slave, stdout=slave, stderr=slave)
    assert proc.wait(PATIENCE) == 0
    assert os.read(master, 4096) == b"not a tty\r\nno\r\nnone\r\n"
    os.close(master)
    os.close(slave)


SIZES = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
while True:
    print(*reversed(os.get_terminal_size()), flush=True)
    signal.sigwait([signal.SIGWINCH])
"""


def test_size_follows(outer, level):
    term = outer([], py(SIZES), level)
    term.expect(rb"30 100\r\n")
    for rows, cols in ((50, 132), (1, 1), (24, 80)):
        term.resize(rows, cols)
        term.expect(b"%d %d\r\n" % (rows, cols))
    term.proc.terminate()
    assert term.end() == 128 + signal.SIGTERM


def test_unknown_size(outer, level):
    term = outer([], sh("stty size"), level, size=(0, 0))
    term.expect(rb"24 80\r\n")
    assert term.end() == 0


def test_size_is_not_in_the_environment(outer, level):
    term = outer([], sh('echo "<$COLUMNS$LINES$TERM>"'), level)
    term.expect(rb"<xterm>")
    assert term.end() == 0


def test_whole_characters_are_erased(outer, level):
    term = outer([], sh("stty -a; read line; printf %s $line | od -An -tx1"), level)
    term.expect(rb"\siutf8.*-extproc\r\n")
    term.type("aé\x7fb\n")
    term.expect(rb" 61 62\r\n")
    assert term.end() == 0


# --- keys ----------------------------------------------------------------------------------------


JOB = """
import os, signal
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b"went-on\\n"))
os.write(1, b"runs\\n")
while True:
    signal.pause()
"""


@pytest.fixture
def job(me, bash):
    """A shell with a job in the foreground: once it says so, the keys are for it."""
    me.write(me.work / "job", JOB)
    bash.type("/usr/bin/python3 job; echo status=$?\n")
    bash.expect(rb"runs\r\n")
    return bash


def test_interrupt_key(job):
    assert job.is_raw()
    job.type("\x03")
    job.expect(rb"\^C.*KeyboardInterrupt.*ready> ")
    job.type("echo went-$((20 + 1))\n")
    job.expect(rb"went-21\r\n")
    job.type("exit 5\n")
    assert job.end() == 5
    assert job.modes() == job.before


def test_job_control(job):
    job.type("\x1a")
    job.expect(rb"\^Z.*Stopped +/usr/bin/python3 job.*ready> ")
    job.type("fg\n")
    job.expect(rb"went-on\r\n")
    job.type("\x1a")
    job.expect(rb"\^Z.*Stopped.*ready> ")
    job.type("bg\n")
    job.expect(rb"went-on\r\n")
    job.type("jobs\n")
    job.expect(rb"Running +/usr/bin/python3 job")
    job.type("kill -9 %1; wait; jobs; echo left-$(jobs | wc -l); exit\n")
    job.expect(rb"left-0\r\n")
    assert job.end() == 0


def test_suspend_key_without_a_shell(outer, level):
    """The command could not be continued, so it is not stopped; the caller's shell is not, either."""
    term = outer([], CAT, level)
    term.expect(b"up\r\n")
    term.type("one\n")
    term.expect(rb"one\r\none\r\n")
    term.type("\x1atwo\n")
    term.expect(rb"two\r\n.*two\r\n")
    term.type("\x04")
    assert term.end() == 0


def test_quit_and_end_keys(outer, level):
    term = outer([], CAT, level)
    term.expect(b"up\r\n")
    term.type("x\n")
    term.expect(rb"x\r\nx\r\n")
    term.type("\x1c")
    assert term.end() == 128 + signal.SIGQUIT
    assert term.modes() == term.before


# --- programs ------------------------------------------------------------------------------------


def test_python_prompt(outer, level):
    term = outer([], ["/usr/bin/python3", "-q"], level)
    term.expect(rb">>> ")
    term.type("6 * 7\n")
    term.expect(rb"42\r\n")
    term.type("input('name? ')\nBob\n")
    term.expect(rb"name\? .*'Bob'\r\n.*>>> ")
    term.type("\x04")
    assert term.end() == 0
    assert term.modes() == term.before


CURSES = """
import curses
def main(screen):
    while True:
        screen.addstr(1, 1, "size %dx%d " % screen.getmaxyx())
        key = screen.getch()
        if key == ord("q"):
            return
        if key == curses.KEY_UP:
            screen.addstr(2, 1, "up-key")
curses.wrapper(main)
"""


def test_curses(outer, level):
    term = outer([], py(CURSES), level)
    term.expect(rb"\x1b\[\?1049h.*size 30x100")
    term.resize(10, 40)
    end = time.monotonic() + PATIENCE
    while b"10x4" not in term.seen:  # only what differs is drawn
        assert time.monotonic() < end, term.seen
        # ncurses misses a signal that comes just before it reads, until there is a key.
        term.type("x")
        term._read(0.1)
    term.type("\x1bOA")
    term.expect(rb"up-key")
    term.type("q")
    term.expect(rb"\x1b\[\?1049l")
    assert term.end() == 0
    assert term.modes() == term.before


@pytest.mark.parametrize("program, keys", [("less", "Gq"), ("vim -nR", ":q!\r")])
def test_full_screen_program(me, outer, level, program, keys):
    if not shutil.which(program.split()[0]):
        pytest.skip(f"{program} is not installed")
    path = me.write(me.work / "text", "".join(f"line {i}\n" for i in range(1, 501)))
    term = outer([], [*program.split(), path], level, size=(20, 60))
    term.expect(rb"\x1b\[\?1049h.*line 1[^0-9].*line 1[5-9]")
    term.type(keys)
    assert term.end() == 0
    assert term.modes() == term.before


# --- the caller's terminal afterwards ------------------------------------------------------------

ENDINGS = {
    "exit": (sh("echo up; exit 4"), [], None, 4),
    "not-found": (["/usr/bin/no-such-program"], [], None, 127),
    "own-signal": (sh("echo up; kill -9 $$"), [], None, 137),
    "timeout": (sh("echo up; sleep 1000"), ["-t", "700ms", "--grace", "0"], None, 124),
    "memory": (py("print('up'); x = 'x' * (400 << 20); input()"), ["-m", "64M"], None, 137),
    "INT": (sh("trap '' INT; echo up; sleep 1000"), [], signal.SIGINT, 130),
    "TERM": (sh("echo up; sleep 1000"), [], signal.SIGTERM, 143),
    "HUP": (sh("echo up; sleep 1000"), [], signal.SIGHUP, 129),
    "QUIT": (sh("echo up; sleep 1000"), [], signal.SIGQUIT, 131),
    "ALRM": (sh("echo up; sleep 1000"), [], signal.SIGALRM, -signal.SIGALRM),
    "SEGV": (sh("echo up; sleep 1000"), [], signal.SIGSEGV, -signal.SIGSEGV),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_terminal_is_restored(outer, level, how):
    cmd, opts, number, status = ENDINGS[how]
    term = outer(opts, cmd, level)
    if how != "not-found":
        term.expect(rb"up\r\n")
    if number:
        assert term.is_raw()
        term.proc.send_signal(number)
    assert term.end() == status
    assert term.modes() == term.before


def test_terminal_is_restored_when_the_set_up_fails(me, outer, level):
    program = me.write(me.work / "bad", "#!/no/such/interpreter\n", 0o755)
    term = outer([], [program], level)
    assert term.end() in (126, 127)
    assert term.modes() == term.before


def test_what_a_killed_program_set_is_taken_back(outer, level):
    script = r"printf '\033[?1049h\033[?25l\033[?1003h\033[?2004h\033[7mup'; stty raw -echo; sleep 99"
    term = outer(["-t", "700ms", "--grace", "0"], sh(script), level)
    assert term.end() == 124
    assert term.modes() == term.before
    after = term.seen.partition(b"\x1b[7mup")[2]
    for code in (b"[?1049l", b"[?25h", b"[0m", b"[?1003l", b"[?1000l", b"[?2004l", b"[r", b">"):
        assert b"\x1b" + code in after
    assert after.index(b"\x1b7") < after.index(b"\x1b[?1049l")
    # Cordon's own words come after that, on a terminal in order again.
    assert re.search(rb"cordon: time limit of 700ms reached[^\x1b]*\r\n$", after)


def test_nothing_is_taken_back_on_a_dumb_terminal(outer, level):
    term = outer([], sh("echo up"), level, term="dumb")
    assert term.end() == 0
    assert term.seen == b"up\r\n"


def test_closed_terminal_ends_the_run(outer, level):
    term = outer([], sh("trap '' HUP; echo up; while :; do sleep 0.1; done"), level)
    term.expect(rb"up\r\n")
    os.close(term.master)
    assert term.proc.wait(PATIENCE) == 128 + signal.SIGHUP


def test_closed_terminal_that_is_not_ours(outer, level):
    """No SIGHUP comes where the terminal is not the controlling one."""
    term = outer([], sh("trap '' HUP; echo up; while :; do sleep 0.1; done"), level, shell=False)
    term.expect(rb"up\r\n")
    os.close(term.master)
    assert term.proc.wait(PATIENCE) == 128 + signal.SIGHUP


def test_stopped_and_continued(outer, level):
    term = outer([], CAT, level)
    term.expect(b"up\r\n")
    term.type("one\n")
    term.expect(rb"one\r\none\r\n")
    for stop in (signal.SIGTSTP, signal.SIGSTOP):
        term.proc.send_signal(stop)
        assert os.WIFSTOPPED(os.waitpid(term.proc.pid, os.WUNTRACED)[1])
        if stop == signal.SIGTSTP:
            assert term.modes() == term.before
        termios.tcsetattr(term.slave, termios.TCSANOW, term.before)  # as a shell would
        term.proc.send_signal(signal.SIGCONT)
        end = time.monotonic() + PATIENCE
        while not term.is_raw():
            assert time.monotonic() < end
            time.sleep(0.01)
        term.type("two\n")
        term.expect(rb"two\r\ntwo\r\n")
    term.type("\x04")
    assert term.end() == 0
    assert term.modes() == term.before


def test_typed_too_late_is_not_for_the_shell(outer, level):
    """Input that the command did not read must not be executed by the shell that reads the terminal next."""
    term = outer([], sh("echo up; read x; exec 0<&-; sleep 0.3"), level)
    term.expect(rb"up\r\n")
    term.type("\nrm -rf important\n")
    assert term.end() == 0
    assert not select.select([term.slave], [], [], 0)[0]


# --- the guest and the caller's terminal ---------------------------------------------------------


def test_settings_are_the_guests_own(outer, level):
    script = "stty raw -echo erase ^H rows 5 cols 6; stty size; echo up; read x"
    term = outer([], sh(script), level)
    term.expect(rb"5 6\r?\n\r?up")
    size = fcntl.ioctl(term.slave, termios.TIOCGWINSZ, b"\0" * 8)
    assert struct.unpack("HHHH", size)[:2] == (30, 100)
    term.proc.send_signal(signal.SIGTERM)
    assert term.end() == 143
    assert term.modes() == term.before


INJECT = r"""
import errno, fcntl, struct
for name, number, value in (("STI", 0x5412, b"x"), ("LINUX", 0x541C, b"\3"),
                            ("SETD", 0x5423, struct.pack("i", 2))):
    for path in (0, "/dev/tty"):
        try:
            fcntl.ioctl(path if path == 0 else open(path, "r+b", 0), number, value)
            print(name, "allowed")
        except OSError as e:
            print(name, errno.errorcode[e.errno])
"""


def test_nothing_can_be_typed_by_the_guest(outer, level):
    term = outer([], py(INJECT), level)
    assert term.end() == 0
    for name in (b"STI", b"LINUX", b"SETD"):
        assert term.seen.count(name + b" EPERM\r\n") == 2, term.seen
    assert not select.select([term.slave], [], [], 0)[0]


OPEN_OTHER = r"""
import os, sys
try:
    st = os.fstat(os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY))
    print("opened", st.st_dev, st.st_ino)
except OSError as e:
    print("no", e.errno)
"""


def test_other_terminals_are_out_of_reach(me, outer, level):
    """The caller's terminal has a name; the guest gets nothing by it, or something of its own."""
    master, slave = pty.openpty()
    os.fchown(slave, me.uid, me.gid)
    name = os.ttyname(slave)
    it = os.fstat(slave)
    control = me.outside([*py(OPEN_OTHER), name])
    assert control.stdout.split() == [b"opened", b"%d" % it.st_dev, b"%d" % it.st_ino]
    term = outer([], [*py(OPEN_OTHER), name], level)
    assert term.end() == 0
    got = re.search(rb"opened (\d+)|no (\d+)", term.seen)
    if level == "landlock":
        assert int(got[2]) == errno.EACCES
    else:
        assert got[2] or int(got[1]) != it.st_dev
    os.close(master)
    os.close(slave)


def test_more_terminals_inside(outer):
    """Programs that make their own (tmux, script) work where /dev/pts is the sandbox's."""
    term = outer([], ["script", "-qc", "tty", "/dev/null"], "namespaces")
    term.expect(rb"/dev/pts/1\r\n")
    assert term.end() == 0


# --- bytes ---------------------------------------------------------------------------------------


def test_large_paste(outer, level):
    script = "stty raw -echo; printf go; head -c 1048576 | sha256sum"
    term = outer([], sh(script), level)
    term.expect(b"go")
    data = os.urandom(MIB)
    term.type(data)
    term.expect(hashlib.sha256(data).hexdigest().encode())
    assert term.end() == 0


MUCH = r"""
import hashlib, os, sys
data = b"".join(hashlib.sha256(b"%d" % i).hexdigest().encode() + b"\n" for i in range(20000))
sys.stdout.buffer.write(data)
"""


def test_large_output(outer, level):
    """More than 1 MiB, and the end of it is there although the command ends at once."""
    term = outer([], py(MUCH), level, term="dumb")
    want = b"".join(hashlib.sha256(b"%d" % i).hexdigest().encode() + b"\r\n" for i in range(20000))
    assert term.end() == 0
    assert len(term.seen) == len(want) > MIB
    assert term.seen == want


def test_keys_during_heavy_output(bash):
    bash.type("yes filling; echo over-$((40 + 2))\n")
    bash.expect(rb"(filling\r\n){2000}")
    bash.type("\x03")
    bash.expect(rb"\^C.*ready> ")
    bash.type("echo alive-$((1 + 1)); exit\n")
    bash.expect(rb"alive-2\r\n")
    assert bash.end() == 0


def test_terminal_that_takes_nothing_for_a_while(outer, level):
    """Back-pressure: nothing is lost, and the run goes on when the terminal does."""
    term = outer([], py(MUCH + "sys.stdout.flush(); input()"), level, term="dumb")
    end = time.monotonic() + PATIENCE
    while not select.select([term.master], [], [], 0)[0]:
        assert time.monotonic() < end
    time.sleep(0.3)  # it fills up, whatever the sizes of the buffers are
    term.proc.send_signal(signal.SIGWINCH)  # must not find cordon blocked
    term.expect(hashlib.sha256(b"19999").hexdigest().encode() + rb"\r\n")
    term.type("\n")
    assert term.end() == 0


def test_background_process_does_not_delay_the_end(outer, level):
    script = "(trap '' HUP; exec setsid sleep 1000) & (trap '' HUP; exec sleep 1000) & echo up"
    term = outer([], sh(script), level)
    assert term.end(10) == 0
    assert b"up\r\n" in term.seen


def test_command_that_closes_its_terminal(outer, level):
    """It may come back to it: a terminal without holders is not the end."""
    term = outer([], sh("exec <&- >&- 2>&-; sleep 0.3; echo back >/dev/tty"), level)
    term.expect(rb"back\r\n")
    assert term.end() == 0


# --- account and limits --------------------------------------------------------------------------


def test_receipt(me, outer, level):
    term = outer(["--receipt", me.work / "receipt"], sh("echo 12345; exit 6"), level, term="dumb")
    assert term.end() == 6
    got = json.loads((me.work / "receipt").read_text())
    assert (got["kind"], got["exit_code"]) == ("exited", 6)
    assert got["output_bytes"] == {"stdout": 7, "stderr": 0}
    assert got["isolation"]["level"] == level


def test_output_limit_cuts(outer, level):
    term = outer(["--max-output", "1k"], sh("yes | head -c 100000; exit 0"), level, term="dumb")
    assert term.end() == 0
    assert term.seen == b"y\r\n" * 341 + b"y"


def test_output_limit_ends(outer, level):
    term = outer(["--max-output", "1k", "--end-on-output"], ["yes"], level, term="dumb")
    assert term.end() == 137
    assert b"output limit reached" in term.seen
    assert term.modes() == term.before


# --- wrong use -----------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["input", "output"])
def test_without_a_terminal(me, missing):
    master, slave = pty.openpty()
    streams = {"stdin": slave, "stdout": slave, "stderr": subprocess.PIPE}
    streams["stdin" if missing == "input" else "stdout"] = subprocess.DEVNULL
    proc = me.popen(me.argv(["-i"], ["touch", me.work / "ran"]), **streams)
    out = proc.communicate(timeout=PATIENCE)[1].decode()
    assert proc.returncode == 125
    assert out.count("\n") == 1
    assert f"standard {missing} is not" in out and "leave out -i" in out
    assert not (me.work / "ran").exists()
    os.close(master)
    os.close(slave)


def test_with_json(me):
    done = me.run(["-i", "--json"], ["true"])
    assert done.returncode == 125
    assert done.stderr.count(b"\n") == 1
    assert b"-i and --json contradict each other" in done.stderr
    assert json.loads(done.stdout)["kind"] == "sandbox_error"


def test_in_the_plan(me, level):
    """--dry-run needs no terminal and says what would be done."""
    with_it = json.loads(me.run(["-i", "--dry-run"], ["true"], level).stdout)
    without = json.loads(me.run(["--dry-run"], ["true"], level).stdout)
    assert "/dev/tty" in json.dumps(with_it) and "/dev/tty" not in json.dumps(without)
