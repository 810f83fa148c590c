# SPDX-License-Identifier: Apache-2.0
"""Other processes: not seen, not read, not steered, not signalled."""

import os
import pathlib
import subprocess

from conftest import control, expect, rounds, rows, settles

# Level landlock shares the host's process list: what /proc shows to everybody of a process of the same
# user stays visible there (said by `cordon check`); Landlock keeps memory, descriptors and signals.
TABLE = {
    "proc-environ": "denied",
    "proc-cmdline": ("denied:ENOENT", "any"),
    "proc-status": ("denied:ENOENT", "any"),
    "proc-maps": "denied",
    "proc-mem": "denied",
    "proc-mountinfo": ("denied:ENOENT", "any"),
    "proc-fd": ("denied:ENOENT", "any"),
    "proc-root": "denied",
    "proc-cwd": "denied",
    "proc-oom": "denied",
    "proc-comm": "denied",
    "ptrace": "denied",
    "vm-readv": "denied",
    "pidfd-getfd": "denied",
    "kcmp": "denied",
    "setns-pidfd": "denied",
    "robust-list": "denied",
    "prlimit-read": "denied",
    "prlimit": "denied",
    "affinity": "denied",
    "scheduler": "denied",
    "nice": "denied",
    "ioprio": "denied",
    "getsid": ("denied:ESRCH|EPERM|ENOSYS", "any"),
    "getpgid": ("denied:ESRCH|EPERM|ENOSYS", "any"),
    "kill-0": "denied",
    "kill": "denied",
    "tgkill": "denied",
    "tkill": "denied",
    "sigqueue": "denied",
    "pidfd-signal": "denied",
    "sigio": "any",  # F_SETOWN may be taken; the target's own log decides
    "secret-in-cmdlines": ("denied none", "any"),
    "foreign-processes": ("denied few", "any"),
}

# The kernel refuses these outside, too: a process cannot enter the user namespace it is in, and only
# a process's own threads change its name.
CONTROL_BUT = {"setns-pidfd", "proc-comm"}


def knobs(pid):
    """What the probe tries to change, as the host sees it."""
    base = pathlib.Path(f"/proc/{pid}")
    stat = base.joinpath("stat").read_text().rpartition(")")[2].split()
    status = base.joinpath("status").read_text()
    return {
        "comm": base.joinpath("comm").read_text(),
        "oom": base.joinpath("oom_score_adj").read_text(),
        "limits": base.joinpath("limits").read_text(),
        "nice": stat[16],
        "policy": stat[38],
        "cpus": [l for l in status.splitlines() if l.startswith("Cpus_allowed:")],
        "tracer": [l for l in status.splitlines() if l.startswith("TracerPid:")],
    }


def test_a_process_outside(me, level, probes, canary_process):
    probe = probes["procs"]
    before = knobs(canary_process.pid)
    argv = [probe, str(canary_process.pid)]
    secret = canary_process.secret.encode() + b"\n"
    done = me.run(["-r", probe], argv, level, input=secret)
    assert done.returncode == 0, done.stderr
    got = rows(done.stdout)
    assert not (me.out / "signalled").exists(), "a signal arrived"
    assert knobs(canary_process.pid) == before
    expect(got, TABLE, level)
    control(rows(me.outside(argv, input=secret).stdout), TABLE, CONTROL_BUT)
    assert knobs(canary_process.pid) != before
    assert arrives(me), "positive control: no signal from outside either"


def arrives(me):
    return not settles(lambda: not (me.out / "signalled").exists(), 2.0)


def test_signals_to_everybody(me, level, canary_process):
    """kill(-1) and every number there is. SIGURG, which ends no process if there is a hole."""
    script = """
import os, signal, sys
span = int(sys.argv[2])
for target in [-1, 0] + list(range(-span, span)) + [int(sys.argv[1]), -int(sys.argv[1])]:
    if target in (os.getpid(), -os.getpgrp()): continue
    try: os.kill(target, signal.SIGURG)
    except OSError: pass
print('done')
"""
    # All that are in use. On a slow machine no more than that: each may be a question to init.
    span = max(rounds(70000), canary_process.pid + 1000)
    done = me.run([], ["python3", "-c", script, str(canary_process.pid), str(span)], level)
    assert done.stdout == b"done\n", done
    assert not (me.out / "signalled").exists()
    me.outside(["python3", "-c", f"import os; os.kill({canary_process.pid}, 23)"])
    assert arrives(me), "positive control: the signal does not arrive from outside either"


def test_own_process_list(me):
    """Level namespaces: a new procfs, in which init is process 1 and our parent."""
    script = 'readlink /proc/self; exec python3 -c \'import os; print(os.getppid()); print([p for p in os.listdir("/proc") if p.isdigit()]); print(open("/proc/1/comm").read().strip())\''
    done = me.run([], ["sh", "-c", script], "namespaces")
    assert done.returncode == 0, done.stderr
    _, parent, pids, comm = done.stdout.decode().splitlines()
    assert parent == "1"
    assert 2 <= len(eval(pids)) <= 4
    assert comm not in ("systemd", "sh", "python3")


def test_nothing_under_proc_or_sys_can_be_written(me, level):
    """Every file below /proc/sys and /sys, and the famous ones: opened for writing, never written."""
    script = r"""
import os, sys
tried = opened = 0
bad = []
def attempt(path):
    global tried
    tried += 1
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return
    os.close(fd)
    bad.append(path)
for top in sys.argv[1:]:
    for where, _, files in os.walk(top):
        for name in files:
            attempt(os.path.join(where, name))
for name in 'sysrq-trigger kcore kmsg kallsyms timer_list keys key-users interrupts irq mtrr slabinfo vmallocinfo scsi/scsi bus/pci'.split():
    attempt('/proc/' + name)
print(tried, *bad)
"""
    done = me.run([], ["python3", "-c", script, "/proc/sys", "/sys"], level)
    assert done.returncode == 0, done.stderr
    words = done.stdout.decode().split()
    assert words[1:] == []
    if me.name == "root":
        outside = me.outside(["python3", "-c", script, "/proc/sys/kernel"]).stdout.decode().split()
        assert len(outside) > 20, "positive control: root outside can open many of them"


def test_no_information_files(me):
    """Level namespaces: what tells about the host as a whole cannot be read. Of addresses the kernel
    shows zeros to the unprivileged. (/proc/keys has its place in the keyring test.)"""
    script = "for f in kcore timer_list sched_debug kmsg sysrq-trigger; do head -c1 /proc/$f 2>/dev/null | grep -q . && echo $f; done; ls /sys 2>/dev/null | head -3; grep -v '^0000000000000000' /proc/kallsyms | head -3"
    done = me.run([], ["sh", "-c", script], "namespaces")
    assert done.stdout == b"", done.stdout


def test_threads_are_all_confined(me, level):
    script = """
import threading, time, glob
t = [threading.Thread(target=time.sleep, args=(0.3,)) for _ in range(5)]
[x.start() for x in t]
import os
n = 0
for f in glob.glob('/proc/self/task/*/status'):
    s = dict(l.split(':', 1) for l in open(f) if ':' in l)
    assert s['Seccomp'].strip() == '2' and s['NoNewPrivs'].strip() == '1', s
    n += 1
print(n)
"""
    done = me.run([], ["python3", "-c", script], level)
    assert done.stdout == b"6\n", done


def test_supervisor_cannot_be_read_by_its_user(me):
    """init and the guest's other helpers are not dumpable: their /proc files belong to root."""
    script = "echo ready; sleep 60"
    proc = me.popen(me.argv([], ["sh", "-c", script], "namespaces"), stdout=subprocess.PIPE)
    try:
        assert proc.stdout.readline() == b"ready\n"
        kids = pathlib.Path(f"/proc/{proc.pid}/task/{proc.pid}/children").read_text().split()
        # One that has ended has no memory left to read; Linux 7.2 shows its files as the guest's.
        kids = [kid for kid in kids if "(zombie)" not in pathlib.Path(f"/proc/{kid}/status").read_text()]
        assert kids
        for kid in kids:
            done = me.outside(["cat", f"/proc/{kid}/environ"])
            if me.name == "user":
                assert done.returncode != 0, f"process {kid} is readable"
            assert os.stat(f"/proc/{kid}/mem").st_uid == 0
    finally:
        proc.terminate()
        proc.wait()
