# SPDX-License-Identifier: Apache-2.0
"""Standard streams and signals of `cordon run`, from outside."""

import fcntl
import hashlib
import json
import os
import pty
import select
import signal
import subprocess
import termios
import time

import pytest

from conftest import ceiling, settles

SH = "/bin/sh"


# --- streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 4096, 65536, 65537, 3_000_001])
def test_input_is_relayed(me, size):
    data = os.urandom(size)
    done = me.run([], ["cat"], input=data)
    assert (done.returncode, done.stdout) == (0, data)


@pytest.mark.parametrize("size", [0, 100, 200_000, 20_000_000])
def test_input_from_a_file(me, size):
    data = os.urandom(size)
    path = me.write(me.out / "file", data)
    for _ in range(3):
        with open(path, "rb") as file:
            done = me.run([], ["sha256sum"], stdin=file, timeout=20)
        assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
        with open(path, "rb") as file:  # a reader that is faster than we are
            done = me.run([], ["wc", "-c"], stdin=file, timeout=20)
        assert int(done.stdout) == size


def test_input_from_a_device(me):
    with open("/dev/zero", "rb") as zero:
        assert len(me.run([], ["head", "-c", "20000000"], stdin=zero, timeout=20).stdout) == 20_000_000


def test_input_that_nobody_reads(me):
    done = me.run([], ["true"], input=b"x" * 1_000_000)
    assert done.returncode == 0


def test_end_of_input_arrives(me):
    proc = me.popen(me.argv([], ["cat"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    proc.stdin.write(b"one\n")
    proc.stdin.flush()
    assert proc.stdout.readline() == b"one\n"
    assert proc.poll() is None
    proc.stdin.close()
    assert proc.stdout.read() == b"" and proc.wait(10) == 0


def test_output_streams_stay_apart(me):
    done = me.run([], [SH, "-c", "echo out; echo err >&2"])
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")


SCRIPT = "for i in 1 2 3 4 5 6 7 8 9; do echo out$i; echo err$i >&2; done"
IN_ORDER = "".join(f"out{i}\nerr{i}\n" for i in range(1, 10)).encode()


def test_joined_output_keeps_its_order(me):
    assert me.run([], [SH, "-c", SCRIPT], stderr=subprocess.STDOUT).stdout == IN_ORDER
    path = me.write(me.out / "log", "")
    with open(path, "ab") as file:
        me.run([], [SH, "-c", SCRIPT], stdout=file, stderr=file)
    assert path.read_bytes() == IN_ORDER


def test_yes_into_head(me):
    done = me.outside(["bash", "-c", '"$0" run -- yes | head -n 3; echo "${PIPESTATUS[0]}"', me.cordon], timeout=20)
    assert done.stdout == b"y\ny\ny\n141\n" and done.stderr == b""


def test_slow_reader_gets_everything(me):
    proc = me.popen(me.argv([], ["head", "-c", "1000000", "/dev/zero"]), stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE)
    time.sleep(0.3)
    got = 0
    while chunk := os.read(proc.stdout.fileno(), 50_000):
        got += len(chunk)
        time.sleep(0.005)
    assert got == 1_000_000 and proc.wait() == 0


def test_caller_descriptors_keep_their_flags(me):
    """O_NONBLOCK belongs to the open file, which the caller's shell shares with us."""
    read, write = os.pipe()
    before = fcntl.fcntl(write, fcntl.F_GETFL)
    proc = me.popen(me.argv([], ["sleep", "0.3"]), stdin=read, stdout=write, stderr=write)
    time.sleep(0.15)
    during = fcntl.fcntl(write, fcntl.F_GETFL), fcntl.fcntl(read, fcntl.F_GETFL)
    assert proc.wait() == 0
    assert during[0] == before and not during[1] & os.O_NONBLOCK
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1], [1, 2], [0, 1, 2]], ids=str)
def test_closed_standard_descriptors(me, closed):
    """They are as if /dev/null, and no other descriptor ever takes their place."""
    close = " ".join(f"{fd}{'<' if fd == 0 else '>'}&-" for fd in closed)
    script = "cat >/dev/null; echo out; echo err >&2; exit 7"
    done = me.outside([SH, "-c", f'exec "$@" {close}', "sh", *me.argv(["--receipt", "r"], [SH, "-c", script])],
                      stdin=subprocess.DEVNULL)
    assert done.returncode == 7
    assert done.stdout == (b"" if 1 in closed else b"out\n")
    assert done.stderr == (b"" if 2 in closed else b"err\n")
    assert json.loads((me.work / "r").read_bytes())["exit_code"] == 7


def test_odd_kinds_of_input(me):
    fd = os.open(str(me.work), os.O_RDONLY | os.O_DIRECTORY)
    done = me.run([], [SH, "-c", "cat; echo end"], stdin=fd)
    os.close(fd)
    assert done.returncode in (0, 125) and (done.returncode or b"end" in done.stdout)
    done = me.run([], [SH, "-c", "cat; echo end"], stdin=subprocess.DEVNULL)
    assert done.stdout == b"end\n"


def test_full_device(me):
    with open("/dev/full", "wb") as full:
        done = me.run([], ["head", "-c", "10000000", "/dev/zero"], stdout=full, timeout=20)
    assert done.returncode == 141, "output that cannot be written ends the writer, as in a pipeline"


# --- terminals -----------------------------------------------------------------------------------


def on_terminal(me, argv, send=b"", timeout=20, **kw):
    """Runs argv on a terminal of its own; returns (status, what appeared on it)."""
    master, slave = pty.openpty()
    attrs = termios.tcgetattr(slave)
    attrs[1] &= ~termios.OPOST
    attrs[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(slave, termios.TCSANOW, attrs)
    if me.switch:
        os.fchown(slave, me.uid, me.gid)
    proc = me.popen(argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                    preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 1), **kw)
    os.close(slave)
    out, end = b"", time.monotonic() + ceiling(timeout)
    if send:
        os.write(master, send)
    while time.monotonic() < end:
        ready, _, _ = select.select([master], [], [], 0.1)
        if ready:
            try:
                out += os.read(master, 65536)
            except OSError:
                break
        elif proc.poll() is not None:
            break
    status = proc.wait(5)
    os.close(master)
    return status, out


def test_terminal_output_is_cleaned(me):
    script = r"printf 'a\033]52;c;cHduZWQ=\007b\033[2Jc\twide\n\233d\n'; printf 'e\033Pq\033\\f\n' >&2"
    status, out = on_terminal(me, me.argv(["-q", "--no-terminal"], [SH, "-c", script]))
    assert status == 0
    assert b"\x1b" not in out and b"\x07" not in out and b"\x9b" not in out
    assert b"cHduZWQ" not in out or b"\\x1b" in out
    assert out.startswith(b"a") and b"wide" in out


def test_pipe_output_is_not_cleaned(me):
    done = me.run([], [SH, "-c", r"printf '\033[31mred\007'"])
    assert done.stdout == b"\x1b[31mred\x07"


def test_terminal_order_and_input(me):
    status, out = on_terminal(me, me.argv(["-q", "--no-terminal"], [SH, "-c", SCRIPT]))
    assert (status, out) == (0, IN_ORDER)
    status, out = on_terminal(me, me.argv(["-q", "--no-terminal"], [SH, "-c", "read x; echo got $x"]), send=b"typed\n")
    assert (status, out) == (0, b"got typed\n")


def test_notes_come_on_a_terminal(me):
    """Nothing of a home directory is granted, and a person is told so, once."""
    argv = me.argv([], ["true"])
    status, out = on_terminal(me, argv, cwd=str(me.home))
    assert status == 0 and out.startswith(b"cordon: note: ") and b"-r ." in out, out
    status, out = on_terminal(me, me.argv(["-q"], ["true"]), cwd=str(me.home))
    assert (status, out) == (0, b"")


def test_colour_on_a_terminal_only(me):
    argv = [me.cordon, "run", "--bogus"]
    assert b"\x1b[" in on_terminal(me, argv, env={"TERM": "xterm"})[1]
    for env in ({"TERM": "dumb"}, {"TERM": "xterm", "NO_COLOR": "1"}, {}):
        assert b"\x1b" not in on_terminal(me, argv, env=env)[1]
    assert b"\x1b" not in me.outside(argv, env={"TERM": "xterm"}).stderr


# --- signals -------------------------------------------------------------------------------------


def start_ready(me, opts, script):
    """Starts a shell script in a sandbox and waits until it says so."""
    proc = me.popen(me.argv(opts, [SH, "-c", script]), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, start_new_session=True)
    line = proc.stdout.readline()
    assert line == b"ready\n", (line, proc.stderr.read())
    return proc


WAIT = "while :; do sleep 0.05; done"


ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]
LONG_GRACE = ["--grace", "1h", "--receipt", "r"]  # a test that waited for its end would fail


def receipt(me):
    return json.loads((me.work / "r").read_bytes())


@pytest.mark.parametrize("number", ENDING + [signal.SIGUSR1, signal.SIGUSR2], ids=lambda n: n.name)
def test_signal_is_forwarded(me, number):
    name = number.name[3:]
    proc = start_ready(me, LONG_GRACE, f"trap 'echo got {name}; exit 9' {name}; echo ready; {WAIT}")
    proc.send_signal(number)
    out, _ = proc.communicate(timeout=20)
    assert out == f"got {name}\n".encode(), "the command is asked first, and its output is kept"
    got = receipt(me)
    assert (got["exit_code"], got["signal"]) == (9, None)
    assert (proc.returncode, got["kind"]) == (9, "cancelled" if number in ENDING else "exited")


def test_a_server_that_is_told_to_end_ends_well(me):
    proc = start_ready(me, LONG_GRACE, f"trap 'exit 0' TERM; echo ready; {WAIT}")
    proc.terminate()
    assert proc.wait(ceiling(20)) == 0
    assert (receipt(me)["kind"], receipt(me)["exit_code"]) == ("cancelled", 0)
    server = ["/usr/bin/python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "8000"]
    proc = me.popen(me.argv(LONG_GRACE, server), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, start_new_session=True)
    assert proc.stdout.readline().startswith(b"Serving HTTP")
    # It says so before it is ready for an interrupt; then it waits.
    assert not settles(lambda: set(states(b"http.server")) != {"S"}, 20)
    proc.send_signal(signal.SIGINT)
    out, err = proc.communicate(timeout=ceiling(20))
    assert (proc.returncode, b"Keyboard interrupt" in out) == (0, True), err
    assert receipt(me)["kind"] == "cancelled"


def test_another_signal_in_the_grace(me):
    """What ended the command is its own affair."""
    proc = start_ready(me, LONG_GRACE, f"trap 'kill -ABRT $$' TERM; echo ready; {WAIT}")
    proc.terminate()
    assert proc.wait(ceiling(20)) == 128 + signal.SIGABRT
    assert (receipt(me)["kind"], receipt(me)["signal"]) == ("cancelled", signal.SIGABRT)


def test_a_signal_that_comes_twice_leaves_the_grace(me):
    """timeout(1) sends it to the process and to its group. Whether the second one comes soon enough depends
    on the machine, so there is more than one try."""
    script = f"trap 'echo caught; sleep 1; echo tidy; exit 0' TERM; echo ready; {WAIT}"
    for _ in range(5):
        proc = start_ready(me, LONG_GRACE, script)
        proc.terminate()
        assert proc.stdout.readline() == b"caught\n"
        proc.terminate()
        out, _ = proc.communicate(timeout=ceiling(20))
        if (proc.returncode, out) == (0, b"tidy\n"):
            return
    pytest.fail(f"killed in its grace: {proc.returncode}, {out}")


def states(mark):
    """Of all processes with this word in their arguments, but for cordon: letters as in /proc/PID/stat."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                argv = file.read().split(b"\0")
            if mark in argv and b"run" not in argv:
                with open(f"/proc/{pid}/stat") as file:
                    found.append(file.read().rpartition(")")[2].split()[0])
        except OSError:
            pass
    return found


def test_stopped_and_continued_with_its_command(me, level):
    """Ctrl-Z for `cordon run x | less`: the tree must not go on while its job is stopped."""
    mark = f"mark-{os.getpid()}-{me.name}-{level}".encode()
    script = f"echo ready; (while :; do sleep 0.05; done) & {WAIT}"
    proc = me.popen([*me.argv([], [SH, "-c", script], level), mark.decode()], stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, preexec_fn=os.setpgrp)
    assert proc.stdout.readline() == b"ready\n"
    for _ in range(2):
        proc.send_signal(signal.SIGTSTP)
        assert os.WIFSTOPPED(os.waitpid(proc.pid, os.WUNTRACED)[1])
        end = time.monotonic() + ceiling(20)
        while not set(states(mark)) <= {"T", "D"}:  # D: waits for a stopped child of vfork()
            assert time.monotonic() < end, states(mark)
            time.sleep(0.02)
        proc.send_signal(signal.SIGCONT)
        while "T" in states(mark):
            assert time.monotonic() < end, states(mark)
            time.sleep(0.02)
    proc.terminate()
    assert proc.wait(ceiling(20)) == 128 + signal.SIGTERM


def test_not_stopped_where_no_one_could_continue_it(me):
    """The kernel does not stop the processes of an orphaned group, either."""
    proc = start_ready(me, [], "echo ready; sleep 0.5; exit 4")
    proc.send_signal(signal.SIGTSTP)
    assert proc.wait(ceiling(20)) == 4


@pytest.mark.parametrize("number", ENDING, ids=lambda n: n.name)
def test_signal_that_the_command_does_not_handle(me, number):
    proc = start_ready(me, LONG_GRACE, f"echo ready; {WAIT}")
    proc.send_signal(number)
    proc.communicate(timeout=20)
    assert proc.returncode == 128 + number
    got = receipt(me)
    assert (got["kind"], got["exit_code"], got["signal"]) == ("cancelled", None, number)


@pytest.mark.parametrize("grace, want", [("700ms", b"asked\n"), ("0", b"")])
def test_signal_that_does_not_end_the_command(me, grace, want):
    proc = start_ready(me, ["--grace", grace, "--receipt", "r"], f"trap 'echo asked' TERM; echo ready; {WAIT}")
    proc.send_signal(signal.SIGTERM)
    out, _ = proc.communicate(timeout=20)
    assert (proc.returncode, out) == (128 + signal.SIGTERM, want)
    got = receipt(me)
    assert (got["kind"], got["exit_code"], got["signal"]) == ("cancelled", None, signal.SIGKILL)


def test_second_signal_cancels(me):
    proc = start_ready(me, LONG_GRACE, f"trap 'echo caught' INT TERM; echo ready; {WAIT}")
    proc.send_signal(signal.SIGINT)
    assert proc.stdout.readline() == b"caught\n"
    assert proc.poll() is None, "the grace has only begun"
    proc.send_signal(signal.SIGTERM)
    proc.communicate(timeout=20)
    assert proc.returncode == 128 + signal.SIGINT, "the first one is the reason"
    got = receipt(me)
    assert (got["kind"], got["signal"]) == ("cancelled", signal.SIGKILL)


def test_user_signals_never_cancel(me):
    proc = start_ready(me, [], f"n=0; trap 'n=$((n+1)); [ $n = 3 ] && exit 3' USR1; echo ready; {WAIT}")
    for _ in range(3):
        proc.send_signal(signal.SIGUSR1)
        time.sleep(0.2)
    assert proc.wait(20) == 3


def test_cancelled_run_with_json(me):
    proc = me.popen(me.argv(["--json"], [SH, "-c", f"trap '' INT; echo begun; {WAIT}"]), stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, start_new_session=True)
    time.sleep(0.5)
    for _ in range(2):
        proc.send_signal(signal.SIGINT)
        time.sleep(0.1)
    out, _ = proc.communicate(timeout=20)
    got = json.loads(out)
    assert proc.returncode == 130 and got["kind"] == "cancelled" and got["stdout"] == "begun\n"


def test_ignored_signals_stay_ignored(me):
    """As under nohup, or in a background job of a plain shell."""
    proc = me.popen([SH, "-c", 'trap "" HUP INT; exec "$@"', "sh", *me.argv([], [SH, "-c", "sleep 0.6; echo alive"])],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    time.sleep(0.2)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGHUP):
        proc.send_signal(number)
    out, _ = proc.communicate(timeout=20)
    assert (proc.returncode, out) == (0, b"alive\n")


def test_the_command_starts_with_default_signals(me):
    """Our blocked and ignored signals are no business of the command's."""
    done = me.run([], ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"])
    masks = {line.split(":")[0]: int(line.split()[1], 16) for line in done.stdout.decode().splitlines()}
    assert masks["SigBlk"] == 0 and masks["SigIgn"] == 0


def test_killed_command_leaves_nobody(me):
    proc = start_ready(me, [], f"(trap '' TERM HUP; {WAIT}) & echo ready; {WAIT}")
    proc.kill()
    proc.communicate(timeout=20)
    # The fixture of `me` fails if anything of it is still alive.
