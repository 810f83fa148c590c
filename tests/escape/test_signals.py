# SPDX-License-Identifier: Apache-2.0
"""Level landlock as on kernels whose Landlock keeps no signals inside and knows no truncation: init
does both for the command, inside only. The command of the fault tests is told to use an older ABI."""

import ctypes
import os
import pathlib
import signal

import pytest

from conftest import settles, unavailable

# What this kernel has; a newer one cannot be had by asking.
ABI = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1)
OLD_ABIS = range(1, min(ABI, 5) + 1)

# Every way to send a signal: to a process outside, whose number is the argument, and to a child.
SENDERS = """
import ctypes, os, signal, sys, time
libc = ctypes.CDLL(None, use_errno=True)
KILL, TKILL, TGKILL, QUEUE, TGQUEUE, PIDFD = 62, 200, 234, 129, 297, 424
if os.uname().machine == "aarch64":
    KILL, TKILL, TGKILL, QUEUE, TGQUEUE = 129, 130, 131, 138, 240
info = (ctypes.c_int * 32)()
info[0], info[2] = signal.SIGURG, -1  # si_signo, si_code = SI_QUEUE

def call(*args):
    ctypes.set_errno(0)
    return os.strerror(ctypes.get_errno()) if libc.syscall(*args) < 0 else "sent"

def ways(pid, fd):
    yield "kill", (KILL, pid, signal.SIGURG)
    yield "tkill", (TKILL, pid, signal.SIGURG)
    yield "tgkill", (TGKILL, pid, pid, signal.SIGURG)
    yield "queue", (QUEUE, pid, signal.SIGURG, info)
    yield "tgqueue", (TGQUEUE, pid, pid, signal.SIGURG, info)
    yield "pidfd", (PIDFD, fd, signal.SIGURG, None, 0)
    if os.getpgid(pid) > 1:  # that of a machine's first process means something else
        yield "group", (KILL, -os.getpgid(pid), signal.SIGURG)
"""

OUTSIDE = SENDERS + """
target = int(sys.argv[1])
for name, args in ways(target, os.pidfd_open(target)):
    print(name, call(*args))
for number in -1, 0:
    call(KILL, number, signal.SIGURG)
"""

INSIDE = SENDERS + """
import select
got, ready, counted = 0, os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    def count(*_):
        global got
        got += 1
        os.write(counted[1], b"x")
    signal.signal(signal.SIGURG, count)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(100 + got))
    os.write(ready[1], b"x")
    while True:
        time.sleep(1)
os.read(ready[0], 1)
for name, args in ways(child, os.pidfd_open(child)):
    print(name, call(*args))
    # Two that wait to be handled are one.
    if select.select([counted[0]], [], [], 10)[0]:
        os.read(counted[0], 1)
mine = []
signal.signal(signal.SIGURG, lambda *_: mine.append(1))
for args in (KILL, os.getpid(), signal.SIGURG), (TKILL, os.getpid(), signal.SIGURG), (KILL, 0, signal.SIGURG):
    print("self", call(*args))
print("all", call(KILL, -1, signal.SIGTERM))
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), "mine", len(mine))
print("gone", call(KILL, child, 0))
print("bad", call(KILL, os.getpid(), 65))
sys.stdout.flush()
os.abort()
"""


@pytest.fixture
def old(me):
    """Runs a command as on an old kernel."""
    program = os.environ.get("CORDON_FAULT")
    if not program or not os.path.exists(program):
        unavailable("there is no command for fault tests")

    def run(abi, opts, cmd, **kw):
        argv = [program, "run", "--isolation", "landlock", *opts, "--", *cmd]
        return me.outside(argv, env={"CORDON_FAULT_LANDLOCK_ABI": str(abi)}, **kw)

    return run


def rows(done):
    assert done.stdout, done.stderr
    return [line.split(" ", 1) for line in done.stdout.decode().splitlines()]


@pytest.mark.parametrize("abi", OLD_ABIS)
def test_no_signal_leaves(me, old, abi, canary_process):
    done = old(abi, [], ["python3", "-c", OUTSIDE, canary_process.pid])
    assert {word for _, word in rows(done)} == {"Operation not permitted"} and len(rows(done)) >= 6, done
    assert not (me.out / "signalled").exists()


def test_signals_leave_without_a_sandbox(me, canary_process):
    """Positive control; not with the two that reach everybody."""
    script = OUTSIDE.rsplit("for number", 1)[0]
    done = me.outside(["python3", "-c", script, str(canary_process.pid)])
    assert {word for _, word in rows(done)} == {"sent"}
    assert not settles(lambda: not (me.out / "signalled").exists(), 2.0)


@pytest.mark.parametrize("abi", OLD_ABIS)
def test_signals_arrive_inside(old, abi):
    done = old(abi, [], ["python3", "-c", INSIDE])
    got = rows(done)
    assert [word for _, word in got[:10]] == ["sent"] * 10, done
    assert got[10:] == [["all", "sent"], ["child", "107 mine 3"], ["gone", "No such process"], ["bad", "Invalid argument"]], done
    assert done.returncode == 128 + signal.SIGABRT


@pytest.mark.parametrize("abi", OLD_ABIS)
def test_init_is_not_signalled(old, abi):
    script = "import os\ntry: os.kill(os.getppid(), 9)\nexcept PermissionError: print('refused')"
    done = old(abi, [], ["python3", "-c", script])
    assert (done.returncode, done.stdout) == (0, b"refused\n"), done


THREADS = SENDERS + """
import threading
# Blocked everywhere: each stays pending where it was sent to.
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
def pending(number, thread):
    with open(f"/proc/self/task/{thread}/status") as file:
        fields = dict(line.split(":\\t") for line in file if ":\\t" in line)
    return [bool(int(fields[key], 16) >> number - 1 & 1) for key in ("SigPnd", "ShdPnd")]
def second():
    mine = threading.get_native_id()
    print("first", call(TKILL, os.getpid(), signal.SIGUSR1), *pending(signal.SIGUSR1, os.getpid()))
    print("own", call(TKILL, mine, signal.SIGUSR2), *pending(signal.SIGUSR2, mine))
    print("process", call(KILL, mine, signal.SIGURG), *pending(signal.SIGURG, mine))
    done.set()
    over.wait()
done, over = threading.Event(), threading.Event()
thread = threading.Thread(target=second)
thread.start()
done.wait()
print("second", call(TKILL, thread.native_id, signal.SIGIO), *pending(signal.SIGIO, thread.native_id))
over.set()
thread.join()  # returns before the kernel has done away with it
while os.path.exists(f"/proc/self/task/{thread.native_id}"):
    time.sleep(0.01)
print("gone", call(TKILL, thread.native_id, signal.SIGIO))
"""


@pytest.mark.parametrize("abi", OLD_ABIS)
def test_threads_of_the_same_process(old, abi):
    """A signal for a thread goes to that thread, also by its number alone (as musl's pthread_kill() says it)."""
    done = old(abi, [], ["python3", "-c", THREADS])
    assert done.stdout.decode().splitlines() == [
        "first sent True False",
        "own sent True False",
        "process sent False True",
        "second sent True False",
        "gone No such process",
    ], done


# Names the helpers of init as any program can, and stops them.
STOPPER = """
import mmap, os, signal, sys, time

def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]

def state(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "gone"

init, end = os.getppid(), time.monotonic() + float(sys.argv[1])
if os.fork() == 0:
    # At each new peak init counts exactly, in a helper.
    step, keep = (end - time.monotonic()) / 350, []
    for _ in range(300):
        keep.append(mmap.mmap(-1, 1 << 20))
        keep[-1].write(bytes(1 << 20))
        time.sleep(step)
    os._exit(0)
seen, stopped = set(), set()
while time.monotonic() < end:
    for pid in children(init):
        if pid == os.getpid():
            continue
        seen.add(pid)
        try:
            os.kill(pid, signal.SIGSTOP)
        except OSError:
            continue
        if state(pid) == "T":
            stopped.add(pid)
print(len(seen), len(stopped))
"""


@pytest.mark.once
def test_helpers_of_init_are_not_signalled(old):
    """Init counts memory in a process of its own. That has a number before init itself knows it."""
    done = old(OLD_ABIS[-1], ["-m", "600M"], ["python3", "-c", STOPPER, "3"])
    seen, stopped = map(int, done.stdout.split())
    assert (seen > 0, stopped) == (True, 0), done


OWNERS = """
import fcntl, os, signal, socket, struct, sys
a, b = socket.socketpair()
got = []
signal.signal(signal.SIGIO, lambda *_: got.append(1))
def attempt(name, *args):
    try: getattr(fcntl, name)(b, *args)
    except OSError as e: print(e.strerror)
    else: print("set")
who = int(sys.argv[1]) or os.getpid()
attempt("fcntl", 15, struct.pack("ii", 1, who))
attempt("ioctl", 0x8901, struct.pack("i", who))
attempt("ioctl", 0x8902, struct.pack("i", who))
attempt("fcntl", fcntl.F_SETOWN, who)
fcntl.fcntl(b, 10, signal.SIGURG if int(sys.argv[1]) else signal.SIGIO)  # F_SETSIG
fcntl.fcntl(b, fcntl.F_SETFL, os.O_ASYNC)
a.send(b"x")
print("got", len(got))
"""


@pytest.mark.parametrize("abi", OLD_ABIS)
def test_owners_of_files(me, old, abi, canary_process):
    """SIGIO, or any other signal that a file sends: to the process itself, and to none outside."""
    done = old(abi, [], ["python3", "-c", OWNERS, 0])
    assert done.stdout.decode().splitlines() == ["Operation not permitted"] * 3 + ["set", "got 1"], done
    done = old(abi, [], ["python3", "-c", OWNERS, canary_process.pid])
    assert done.stdout.decode().splitlines() == ["Operation not permitted"] * 4 + ["got 0"], done
    assert not (me.out / "signalled").exists()


def test_owners_of_files_without_a_sandbox(me, canary_process):
    done = me.outside(["python3", "-c", OWNERS, canary_process.pid])
    assert done.stdout.decode().splitlines() == ["set"] * 4 + ["got 0"], done
    assert not settles(lambda: not (me.out / "signalled").exists(), 2.0)


@pytest.mark.parametrize("abi", OLD_ABIS)
def test_jobs_of_a_shell(old, abi):
    """Programs that signal their children all day."""
    script = "sleep 100 & kill $!; wait $!; echo $?; timeout -s KILL 0.2 sleep 100; echo $?; (kill -STOP $BASHPID) & sleep 0.1; kill -CONT $!; wait $!; echo $?"
    done = old(abi, [], ["bash", "-c", script])
    assert done.stdout.split() == [b"143", b"137", b"0"], done


@pytest.mark.parametrize("abi", range(1, min(ABI, 3) + 1))
def test_truncate(me, old, abi):
    """Inside a write grant it works, outside it does not, and limits hold."""
    outside = me.write(me.out / "other", "0123456789")
    me.write(me.work / "file", "0123456789")
    os.symlink(outside, me.work / "link")
    script = """
import os, sys
def attempt(path, size):
    try: os.truncate(path, size)
    except OSError as e: return e.strerror
    return os.path.getsize(path)
print(attempt('file', 4))
print(attempt('file', 4096))
print(attempt('file', 1 << 30))
print(attempt('.', 0))
print(attempt('link', 0))
print(attempt(sys.argv[1], 0))
"""
    done = old(abi, ["-w", me.work, "-r", me.out, "--file-size", "1M"], ["python3", "-c", script, outside], cwd=me.work)
    lines = done.stdout.decode().splitlines()
    assert lines[:4] == ["4", "4096", "File too large", "Is a directory"], done
    assert {*lines[4:]} <= {"Operation not permitted", "Permission denied"} and len(lines) == 6, done
    assert pathlib.Path(outside).read_text() == "0123456789"


@pytest.mark.parametrize("abi", range(1, min(ABI, 6) + 1))
def test_the_receipt_says_what_is_missing(old, abi):
    done = old(abi, ["-v"], ["true"])
    assert b"scopes" not in done.stderr and b"truncate" not in done.stderr, done
    assert done.returncode == 0
