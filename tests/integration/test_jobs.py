# SPDX-License-Identifier: Apache-2.0
"""`cordon run` in front of what one types at a terminal: a terminal by itself, and a shell's jobs."""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import time

import pytest

from conftest import ceiling
from terminallib import CAT, PATIENCE, outer, py, sh  # noqa: F401 (fixture)

PLAIN = "dumb"  # nothing is taken back on it, so what is seen is what was written


# --- a terminal by itself ------------------------------------------------------------------------


def test_by_itself(outer, level):
    term = outer([], sh("test -t 0 && test -t 1 && test -t 2 && tty; exit 3"), level, term=PLAIN)
    term.expect(rb"/dev/pts/\d+\r\n")
    assert term.end() == 3
    assert term.modes() == term.before


def test_colours_and_keys_by_itself(outer, level):
    """What one notices first: a program that asks whether it is at a terminal."""
    term = outer([], ["/bin/ls", "--color=auto", "-d", "/"], level, term="xterm")
    assert term.end() == 0 and re.search(rb"\x1b\[[0-9;]+m/\x1b\[0m", term.seen)
    term = outer([], ["/usr/bin/python3", "-q"], level)
    term.expect(rb">>> ")
    term.type("6 * 7\n")
    term.expect(rb"42\r\n.*>>> ")
    term.type("\x04")
    assert term.end() == 0


TELL = "for i in 0 1 2; do test -t $i && echo yes-$i; done; echo words >&2; echo out"


def test_redirected_errors_stay_apart(me, outer, level):
    with open(me.out / "log", "wb") as log:
        term = outer([], sh(TELL), level, term=PLAIN, stderr=log)
        assert term.end() == 0
    assert term.seen == b"yes-0\r\nyes-1\r\nout\r\n"
    assert (me.out / "log").read_bytes() == b"words\n"


@pytest.mark.parametrize("way, want", [("2>&-", b"yes-0\r\nyes-1\r\nout\r\n"),
                                       ("2>/dev/tty", b"yes-0\r\nyes-1\r\nyes-2\r\nwords\r\nout\r\n"),
                                       ("2>/dev/null", b"yes-0\r\nyes-1\r\nout\r\n"),
                                       ("2>&1 | cat", b"words\r\nout\r\n"),
                                       ("</dev/null", b"words\r\nout\r\n")])  # fmt: skip
def test_redirections(me, outer, way, want):
    """Without a terminal on both sides there is none inside, and nothing else has changed."""
    line = shlex.join(me.argv(["-q"], sh(TELL)))
    term = outer([], [], argv=["/bin/sh", "-c", f"{line} {way}"], term=PLAIN)
    assert term.end() == 0
    assert term.seen == want


def test_two_terminals(me, outer):
    """Errors that go to another terminal are shown there, without control sequences."""
    master, slave = pty.openpty()
    os.fchown(slave, me.uid, me.gid)
    term = outer([], sh(r"test -t 2 || printf 'a\033[31mb\n' >&2; echo out"), term=PLAIN, stderr=slave)
    assert term.end() == 0 and term.seen == b"out\r\n"
    assert os.read(master, 100) == b"ab\r\n"
    os.close(master)
    os.close(slave)


NO = "tty; test -t 1 || echo no; (: </dev/tty) 2>&- || echo none; printf '\\033[31mred\\n'"


def test_no_terminal(outer, level):
    term = outer(["--no-terminal"], sh(NO), level)
    assert term.end() == 0
    assert term.seen == b"not a tty\r\nno\r\nnone\r\nred\r\n"


def test_json_keeps_the_output(outer):
    term = outer(["--json"], sh("test -t 1 || echo captured"), term=PLAIN)
    assert term.end() == 0
    assert json.loads(term.seen)["stdout"] == "captured\n"


def test_contradiction(me):
    done = me.run(["-i", "--no-terminal"], ["true"])
    assert done.returncode == 125 and done.stderr.count(b"\n") == 1
    assert b"-i and --no-terminal contradict each other" in done.stderr


def test_input_without_a_terminal_inside(outer):
    """Lines and the end of input, as typed."""
    term = outer(["--no-terminal"], sh("cat; echo over"), term=PLAIN)
    term.type("line\n")
    term.expect(rb"line\r\nline\r\n")
    term.type("\x04")
    term.expect(rb"over\r\n")
    assert term.end() == 0


# --- jobs of a shell -----------------------------------------------------------------------------


class Shell:
    """An interactive bash in which `box` is `cordon run` with options."""

    def __init__(self, me, outer, level, opts=()):
        argv = ["/bin/bash", "--norc", "--noprofile", "-i"]
        self.term = outer([], [], argv=argv, term=PLAIN)
        self.term.expect(rb"ready> ")
        words = shlex.join(me.argv(["-q", *opts], [], level))
        self.line(f"box() {{ {words} \"$@\"; }}")
        self.line("stty -echo")

    def line(self, text):
        """Types a line and waits for the prompt after it; what came in between."""
        self.term.type(text + "\n")
        return self.term.expect(rb"^(.*)ready> ")[1]

    def begin(self, text, until=rb"up\r\n"):
        self.term.type(text + "\n")
        self.term.expect(until)

    def leave(self):
        self.term.type("exit 0\n")
        assert self.term.end() == 0

    def child(self):
        pid = self.term.proc.pid
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return int(file.read().split()[0])


@pytest.fixture
def shell(me, outer, level):
    return Shell(me, outer, level)


CAT_LINE = "box /bin/sh -c 'echo up; exec cat'"


def test_stop_and_go_on(shell):
    """Ctrl-Z stops cordon and its command, fg continues them; the shell has its terminal meanwhile."""
    term = shell.term
    shell.begin(CAT_LINE)
    for word in ("one", "two"):
        term.type(word + "\n")
        term.expect(b"%s\r\n" % word.encode() * 2)
        term.type("\x1a")
        term.expect(rb"Stopped.*ready> ")
        assert b"icanon" in shell.line("stty -a") and b"Stopped" in shell.line("jobs")
        shell.begin("fg", rb"box /bin/sh|run")
    term.type("three\n")
    term.expect(rb"three\r\nthree\r\n")
    term.type("\x03")
    term.expect(rb"ready> ")
    assert shell.line("echo status=$?") == b"status=130\r\n"
    shell.leave()


def test_stopped_from_outside(shell):
    shell.begin(CAT_LINE)
    os.kill(shell.child(), signal.SIGTSTP)
    shell.term.expect(rb"Stopped.*ready> ")
    shell.begin("fg", rb"box /bin/sh|run")
    shell.term.type("more\n")
    shell.term.expect(rb"more\r\nmore\r\n")
    shell.term.type("\x04")
    shell.term.expect(rb"ready> ")
    shell.leave()


def test_on_in_the_background(shell):
    """bg lets it go on without the terminal, and fg gives it back; bash does not signal the second."""
    term = shell.term
    # Nothing that starts programs: a shell that waits for one that is stopped before its exec (vfork) is not stopped itself.
    waits = 'import os, time; print("up", flush=True); [time.sleep(0.05) for _ in iter(lambda: os.path.exists("go"), True)]'
    shell.begin(f"box /usr/bin/python3 -Ic '{waits}; print(\"on\", flush=True); os.execvp(\"cat\", [\"cat\"])'")
    term.type("\x1a")
    term.expect(rb"Stopped.*ready> ")
    shell.line("bg")
    assert b"Running" in shell.line("jobs")
    assert shell.line("echo typed for the shell") == b"typed for the shell\r\n"
    term.type("touch go\n")
    term.expect(rb"on\r+\n")
    shell.line("")
    assert b"Running" in shell.line("jobs")
    shell.begin("fg", rb"box /usr/bin|run")
    end = time.monotonic() + ceiling(PATIENCE)
    while not term.is_raw():
        assert time.monotonic() < end
        time.sleep(0.02)
    term.type("typed for cat\n")
    term.expect(rb"typed for cat\r\ntyped for cat\r\n")
    term.type("\x04")
    term.expect(rb"ready> ")
    shell.leave()


@pytest.mark.parametrize("way", ["", ">log", "--no-terminal"])
def test_started_in_the_background(me, outer, level, way):
    """It is not stopped for reading a terminal that its command does not read."""
    shell = Shell(me, outer, level, [way] if way.startswith("-") else [])
    more = way if way.startswith(">") else ""
    shell.line(f"box /bin/sh -c 'echo begun; sleep 1000' {more} &")
    if not more:
        end = time.monotonic() + ceiling(PATIENCE)
        while b"begun" not in shell.term.seen and b"begun" not in shell.line("true"):
            assert time.monotonic() < end
    for _ in range(3):
        assert b"typed" in shell.line("echo typed")
    time.sleep(0.3)  # more than the turn of a look at the foreground
    assert b"Running" in shell.line("jobs")
    shell.line("kill %1; wait")
    shell.leave()


SUSPENDER = """
import os, signal
def stop(*_):
    os.write(1, b"tidying\\n")
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(0, signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, stop)
    os.write(1, b"back\\n")
signal.signal(signal.SIGTSTP, stop)
os.write(1, b"up\\n")
while True:
    signal.pause()
"""


def test_a_program_that_stops_itself(me, shell):
    """As editors do it: put the screen in order, then stop; draw again when continued."""
    me.write(me.work / "editor", SUSPENDER)
    shell.begin("box /usr/bin/python3 editor")
    for _ in range(2):
        shell.term.type("\x1a")
        shell.term.expect(rb"tidying\r\n.*Stopped.*ready> ")
        shell.begin("fg", rb"back\r\n")
    shell.term.type("\x1c")
    shell.term.expect(rb"ready> ")
    assert shell.line("echo $?") == b"131\r\n"
    shell.leave()


def test_stops_what_is_around_it(shell):
    """A script that runs cordon is stopped as a whole, like any job."""
    shell.line("export -f box")
    shell.begin("bash -c \"box /bin/sh -c 'echo up; exec cat'; echo after\"")
    shell.term.type("\x1a")
    shell.term.expect(rb"Stopped.*ready> ")
    shell.begin("fg", rb"bash -c")
    shell.term.type("x\n")
    shell.term.expect(rb"x\r\nx\r\n")
    shell.term.type("\x04")
    shell.term.expect(rb"after\r\n.*ready> ")
    shell.leave()


# --- killed --------------------------------------------------------------------------------------


def wait_for(what):
    end = time.monotonic() + ceiling(PATIENCE)
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_terminal_after_kill_9(outer, level):
    term = outer([], CAT, level)
    term.expect(rb"up\r\n")
    wait_for(term.is_raw)
    term.proc.kill()
    assert term.end() == -signal.SIGKILL
    wait_for(lambda: term.modes() == term.before)
    term.expect(rb"\x1b\[\?1047l.*\x1b\[\?25h")


def test_terminal_after_kill_9_of_the_group(outer):
    term = outer([], CAT)
    term.expect(rb"up\r\n")
    os.killpg(term.proc.pid, signal.SIGKILL)
    term.end()
    wait_for(lambda: term.modes() == term.before)


def test_nothing_waits_for_the_keeper(me):
    """The process that would restore the terminal holds no pipe of the caller's."""
    master, slave = pty.openpty()
    os.fchown(slave, me.uid, me.gid)
    proc = me.popen(me.argv(["-q"], sh("echo up >&2; exec sleep 1000")), stdin=slave, stdout=slave,
                    stderr=subprocess.PIPE, start_new_session=True)
    assert proc.stderr.readline() == b"up\n"
    proc.kill()
    assert proc.communicate(timeout=ceiling(PATIENCE)) == (None, b"")
    os.close(master)
    os.close(slave)
