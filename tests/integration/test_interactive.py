# SPDX-License-Identifier: Apache-2.0
"""The terminal that a command has inside: what it is, keys, programs, and how far it reaches."""

import errno
import fcntl
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

from terminallib import CAT, PATIENCE, bash, outer, py, sh  # noqa: F401 (fixtures)


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
