# SPDX-License-Identifier: Apache-2.0
"""The caller's terminal during and after a run: every byte arrives, and it is as it was before."""

import hashlib
import json
import os
import re
import select
import signal
import termios
import time

import pytest

from terminallib import CAT, PATIENCE, bash, outer, py, sh  # noqa: F401 (fixtures)

MIB = 1 << 20


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
    for code in (b"[?1047l", b"[?25h", b"[0m", b"[?1003l", b"[?1000l", b"[?2004l", b"[r", b">"):
        assert b"\x1b" + code in after
    assert b"[?1049l" not in after
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
    for _ in range(2):
        term.proc.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(term.proc.pid, os.WUNTRACED)[1])
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
