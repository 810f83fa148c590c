# SPDX-License-Identifier: Apache-2.0
"""What the receipt says of NVIDIA's GPUs, with a library (fake_nvml.c) that says what the test tells it.
What a real one says is tested by tests/gpu."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from conftest import IS_ROOT, ceiling

HERE = pathlib.Path(__file__).parent
PLACE = "/opt/nvidia/lib64"
LIBRARY = f"{PLACE}/libnvidia-ml.so.1"
NODES = ["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "fuse"]
GIB = 1 << 30
BITS = 8  # of attack() in fake_nvml.c

pytestmark = pytest.mark.skipif(
    not IS_ROOT or not shutil.which("gcc") or not os.path.isdir("/opt"),
    reason="the library has to be root's, in /opt, and needs gcc",
)


@pytest.fixture(scope="session")
def library(session_dir):
    path = pathlib.Path(session_dir) / "fake-nvml.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, HERE / "fake_nvml.c"], check=True)
    path.chmod(0o755)
    return path


def status_of(pid):
    """Parent and state of a process; None = it is gone."""
    try:
        words = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return int(words[1]), words[0]


def program(pid):
    """What it was called when it was started, which is known as soon as it is there."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return b""


def children(pid):
    found = [int(p) for p in os.listdir("/proc") if p.isdigit()]
    return [p for p in found if (status_of(p) or (0, ""))[0] == pid]


def wait_for(what, get):
    end = time.monotonic() + ceiling(20)
    while time.monotonic() < end:
        got = get()
        if got:
            return got
        time.sleep(0.005)
    pytest.fail(f"{what}: not in time")
    return None


class Run:
    """A run with a GPU that goes on until it is ended, and what its meter asks."""

    def __init__(self, me, library, gpu="0", pipes=4, more=()):
        self.receipt = me.work / "receipt.json"
        self.receipt.unlink(missing_ok=True)
        made = [f"{LIBRARY}<{library}", *(f"{PLACE}/say{i}|" for i in range(pipes)), *more]
        argv = me.argv(["-q", "--gpu", gpu, "--receipt", self.receipt], ["sh", "-c", "echo started; cat"], "namespaces")
        fake = ["/usr/bin/python3", HERE / "fake_dev.py", str(me.uid), *NODES, *made, "--", *argv]
        self.process = subprocess.Popen(
            fake, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=me.env(), cwd=me.work
        )
        # The command's output has been relayed, so the start is complete.
        assert self.process.stdout.readline() == b"started\n", self.process.stderr.read()
        self.pid = self.process.pid
        self.meters = [p for p in children(self.pid) if program(p) == b"cordon-meter"]
        self.n_said = 0

    def command(self):
        """The pid on the host of a process of the run."""
        init = [p for p in children(self.pid) if program(p) == b"cordon-init"]
        return wait_for("the command", lambda: [c for p in init for c in children(p)])[0]

    def said(self):
        """Opens the next pipe as soon as the library waits for its end."""
        path = f"/proc/{self.pid}/root{PLACE}/say{self.n_said}"
        self.n_said += 1

        def opened():
            try:
                return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                return None

        return wait_for(path, opened)

    def say(self, *lines):
        fd = self.said()
        os.write(fd, "".join(f"{line}\n" for line in lines).encode())
        os.close(fd)

    def end(self):
        begin = time.monotonic()
        self.process.stdin.close()
        assert self.process.wait(ceiling(20)) == 0, self.process.stderr.read()
        self.took = time.monotonic() - begin
        got = json.loads(self.receipt.read_text())
        assert got["kind"] == "exited"
        return got["usage"]["max_gpu_memory_bytes"], got["usage"]["gpu_utilization_percent"]

    def is_left(self):
        return [p for p in self.meters if (status_of(p) or (0, "Z"))[1] != "Z"]


def test_the_figures_are_the_runs(me, library):
    """Its highest memory, without what other processes have; those that have ended count, too."""
    run = Run(me, library)
    own, other = run.command(), os.getpid()
    assert len(run.meters) == 1
    run.say(f"{own} {3 * GIB} 60", f"{other} {40 * GIB} 40")
    run.say(f"{own} {1 * GIB} 60", f"{other} {40 * GIB} 40")
    run.say(f"{other} {40 * GIB} 100")
    held = run.said()  # the third answer has been counted
    memory, percent = run.end()
    os.close(held)
    assert memory == 3 * GIB and 0 < percent <= 60, (memory, percent)
    # The library was waiting all the time, and nobody for it.
    assert run.took < ceiling(1)
    wait_for("the end of the meter", lambda: not run.is_left())


def test_a_run_that_uses_none_has_no_figures(me, library):
    run = Run(me, library)
    run.say(f"{os.getpid()} {GIB} 50")
    held = run.said()
    assert run.end() == (None, None)
    os.close(held)


@pytest.mark.parametrize(
    "answer",
    ["{own} 200000000000 10", "{own} 18446744073709551615 10", "count 4000000000", "crash"],
    ids=["more than there is", "not told", "more than was asked for", "crash"],
)
def test_what_cannot_be_is_not_said(me, library, answer):
    run = Run(me, library)
    run.say(answer.format(own=run.command()))
    if answer == "crash":
        wait_for("the end of the meter", lambda: not run.is_left())
        assert run.end() == (None, None)
        return
    held = run.said()
    memory, percent = run.end()
    os.close(held)
    assert memory is None and (percent is None or 0 <= percent <= 100)


def test_more_than_all_of_the_time(me, library):
    run = Run(me, library)
    own = run.command()
    run.say(f"{own} {GIB} 4000000000")
    held = run.said()
    memory, percent = run.end()
    os.close(held)
    assert memory == GIB and 0 <= percent <= 100


def test_the_meter_ends_with_a_killed_supervisor(me, library):
    """Also if the library never comes back and has shut out every signal."""
    run = Run(me, library)
    run.say("spin")
    wait_for("the loop", lambda: cpu_time(run.meters[0]) > 2)
    os.kill(run.pid, signal.SIGKILL)
    run.process.wait()
    wait_for("the end of the meter", lambda: not run.is_left())


def cpu_time(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[11])


def test_no_library_that_others_could_have_written(me, library):
    """The control is any other test here."""
    for spoil in ("chmod 666", "chown 12345", "chmod 777 dir"):
        run = Run(me, library, pipes=0, more=[f"{PLACE if spoil.endswith('dir') else LIBRARY}!{spoil.replace(' dir', '')}"])
        assert run.meters == [], spoil
        assert run.end() == (None, None)


def test_what_the_library_can_do(me, library):
    """Outside all of it; in the meter nothing."""
    script = f"import ctypes; print(ctypes.CDLL({str(library)!r}).attack(0))"
    nodes = ["/usr/bin/python3", HERE / "fake_dev.py", str(me.uid), "fuse", "--"]
    control = subprocess.run([*nodes, "sh", "-c", f'/usr/bin/python3 -c "{script}"; :'], capture_output=True, check=True, env=me.env())
    assert int(control.stdout) == (1 << BITS) - 1, control
    run = Run(me, library)
    run.say(f"{run.command()} attack 10")
    held = run.said()
    memory, _ = run.end()
    os.close(held)
    assert memory == 1 << 20, f"{memory - (1 << 20):b}" if memory else memory


def test_the_meter_is_nobody(me, library):
    run = Run(me, library)
    held = run.said()
    text = pathlib.Path(f"/proc/{run.meters[0]}/status").read_text()
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert run.end() == (None, None)
    os.close(held)
    assert status["Uid"].split() == [str(me.uid or 65534)] * 4, status["Uid"]
    assert {status[n] for n in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"


def test_without_a_library_and_without_a_gpu(me, library):
    got = me.receipt([], ["/bin/true"])
    assert got["usage"]["max_gpu_memory_bytes"] is None and got["usage"]["gpu_utilization_percent"] is None
    run = Run(me, library, gpu="none", pipes=0)
    assert run.meters == [] and run.end() == (None, None)
