# SPDX-License-Identifier: Apache-2.0
"""The system call filter and the kernel interfaces behind it."""

import pathlib
import platform
import re

import pytest

from conftest import expect, rows
from differences import kernel_lacks

ARCH = platform.machine()
GOLDEN = pathlib.Path(__file__).with_name(f"syscalls-{ARCH}.golden")

REFUSED = "denied:EPERM|ENOSYS|EACCES"

# Beside each: what the same call says outside as root, where it is not `allowed`. (The control asks
# for exactly this, so that a refusal inside is the filter's and not the kernel's.)
KERNEL = {
    "bpf": None,
    "perf-event-open": None,
    "userfaultfd": None,
    "io-uring-setup": None,
    "name-to-handle": None,
    "open-by-handle": None,
    "pidfs-handle": None,
    "fsopen": None,
    "open-tree": None,
    "open-tree-clone": None,
    "listmount": None,
    "fanotify-init": None,
    "new-listener": None,
    "new-listener-high": None,
    "personality": None,
    "kcmp": None,
    "process-vm-readv": None,
    "keyctl": None,
    "add-key": None,
    "clock-settime": "EINVAL",
    "umount": "EINVAL",
    "prctl-set-mm": "EPERM|EINVAL",
    "mknod-chr": None,
    "mknod-blk": None,
    "mknod-whiteout": None,
    "kexec-load": "EINVAL|ENOSYS",
    "kexec-file-load": "EINVAL|EBADF|ENOSYS",
    "init-module": "EINVAL|EFAULT|ENOMEM|ENOSYS",
    "finit-module": "EINVAL|EBADF|ENOSYS",
    "delete-module": "EFAULT|ENOSYS",
    "reboot": "EINVAL",
    "swapon": "EINVAL|EFAULT|ENOSYS",
    "swapoff": "EFAULT|ENOSYS",
    "acct": "EFAULT|ENOSYS",
    "quotactl": "EINVAL|ENODEV|EFAULT|ENOSYS",
    "quotactl-fd": "EBADF|ENOSYS",
    "syslog": None,
    "iopl": "EINVAL|ENOSYS",
    "ioperm": "EINVAL|ENOSYS",
    "modify-ldt": None,
    "pivot-root": "EFAULT",
    "move-mount": "EINVAL",
    "mount-setattr": "EINVAL",
    "fsmount": "EINVAL",
    "fsconfig": "EINVAL",
    "fspick": "EINVAL",
    "io-uring-enter": "EBADF|EINVAL",
    "io-uring-register": "EINVAL|EBADF|EOPNOTSUPP",
    "process-madvise": "EINVAL|EBADF",
    "process-mrelease": "EINVAL|EBADF",
    "settimeofday": "EFAULT",
    "clock-adjtime": "EFAULT",
    "sethostname": "EINVAL",
    "setdomainname": "EINVAL",
    "fanotify-mark": "EINVAL|EBADF",
    "lsm-set-self-attr": "EINVAL|EFAULT|EOPNOTSUPP|ENOSYS|E2BIG",
    "lookup-dcookie": "ENOSYS",
    "migrate-pages": "EINVAL|EFAULT|ENOSYS",
    "move-pages": "EINVAL|EFAULT|ENOSYS|ENODEV|EPERM",
    "pidfd-getfd": "EINVAL|EBADF",
    "setns": "EBADF",
}

if ARCH != "x86_64":
    for name in ("iopl", "ioperm", "modify-ldt"):
        del KERNEL[name]

# What this kernel does not have: the control can only show that.
GONE = {
    "listmount": kernel_lacks("listmount"),
    "lsm-set-self-attr": kernel_lacks("lsm-attr"),
    "pidfs-handle": kernel_lacks("pidfs-root"),
}

# Reading the clock's state is harmless; a filter may leave it to the kernel, which refuses to set.
KERNEL_INSIDE = {name: REFUSED for name in KERNEL} | {
    "mount": REFUSED,
    "vhangup-arg": REFUSED,
    "adjtimex-read": "any",
}


def test_kernel_interfaces(me, level, probes):
    probe = probes["kernel"]
    done = me.run(["-r", probe], [probe], level)
    assert done.returncode == 0, done.stderr
    expect(rows(done.stdout), KERNEL_INSIDE, level)
    if me.name == "root":
        got = rows(me.outside([probe, "--outside"]).stdout)
        del got["adjtimex-read"]
        want = {n: f"denied:{w}" if w else "allowed" for n, w in KERNEL.items()}
        expect(got, want | {n: "denied:ENOSYS|EBADF" for n, is_gone in GONE.items() if is_gone})


def test_other_call_tables(me, level, probes):
    """x86_64: ia32 by int 0x80 and x32, two more tables behind the same door. aarch64: that of 32-bit programs."""
    probe = probes["abi"]
    done = me.run(["-r", probe], [probe], level)
    assert done.returncode == 0, done.stderr
    got = rows(done.stdout)
    outside = rows(me.outside([probe]).stdout)
    assert got["high-bits"].removeprefix("denied ") in ("EPERM", "ENOSYS"), got
    if ARCH == "aarch64":
        for name in ("arm-getpid", "arm-io-uring", "arm-keyctl"):
            # A machine without 32-bit programs says so at exec; otherwise the first call is the last.
            assert got[name] in ("killed SIGSYS", "denied ENOEXEC"), (name, got)
            assert (got[name] == "denied ENOEXEC") == (outside[name] == "denied ENOEXEC"), (got, outside)
        if outside["arm-getpid"] != "denied ENOEXEC":  # the control
            assert outside["arm-getpid"] == "allowed", outside
            assert outside["arm-io-uring"] == "denied EFAULT", outside
            assert outside["arm-keyctl"] != "killed SIGSYS", outside
        return
    for name in ("ia32-getpid", "ia32-io-uring", "ia32-socketcall"):
        assert got[name].startswith(("killed", "denied ENOSYS", "denied EPERM")), (name, got)
    for name in ("x32-getpid", "x32-execve"):
        assert got[name] in ("killed SIGSYS", "denied ENOSYS"), (name, got)
    if outside["ia32-getpid"] == "allowed":  # a kernel with the ia32 table: the control
        assert outside["ia32-io-uring"] == outside["ia32-socketcall"] == "allowed"


def test_a_tracer_changes_the_call(me, level, probes):
    """The filter judges what the kernel will do, not what the traced program asked for first. On aarch64 older
    kernels keep the first argument for the filter as it was, so there is no tracing there."""
    probe = probes["retrace"]
    done = me.run(["-r", probe], [probe], level)
    assert done.returncode == 0, done.stderr
    names = ("argument-0", "argument-1", "number")
    assert rows(done.stdout) == dict.fromkeys(names, "denied EPERM"), done.stdout
    outside = rows(me.outside([probe]).stdout)
    assert outside["argument-0"] == outside["number"] == "allowed", outside
    assert outside["argument-1"] in ("denied EBADF", "denied EIO"), outside


# Families and types a program may need; everything else is refused by the filter. The `high-`
# rows have rubbish in the upper halves of the registers, which the kernel does not look at.
OPEN_SOCKETS = {"tcp", "tcp6", "udp", "udp6", "unix-stream", "unix-dgram", "netlink-route"}


def socket_table(names):
    table = {}
    for name in names:
        plain = name.removeprefix("high-")
        if plain == "pair-stream":
            table[name] = "allowed"
        elif plain == "pair-dgram":
            table[name] = ("allowed", "any")  # one end could send to any pathname socket
        elif plain in ("oob-send", "oob-sendmsg"):
            table[name] = "denied:EPERM|ENOSYS|EOPNOTSUPP|EINVAL"
        elif plain == "link-change":
            table[name] = "denied"
        elif name.startswith("high-") and plain in OPEN_SOCKETS:
            table[name] = "any"  # refusing odd registers is fine, honouring them is too
        elif plain in ("tcp", "tcp6"):
            # Where Landlock knows no TCP, the filter refuses it.
            table[name] = ("allowed", "denied" if kernel_lacks("landlock-tcp") else "allowed")
        elif plain in ("udp", "udp6"):
            table[name] = ("allowed", "denied")  # ABI 7 does not know UDP: no namespace, no UDP
        elif plain in ("unix-stream", "unix-dgram"):
            table[name] = ("allowed", "any")  # below ABI 9 a pathname socket cannot be told apart
        elif plain == "netlink-route":
            table[name] = "any"
        else:
            # Anything the filter lets through to the kernel would show the kernel's own answer.
            table[name] = "denied:EPERM|ENOSYS|EAFNOSUPPORT|EACCES|EPROTONOSUPPORT"
    return table


def test_sockets(me, level, probes):
    probe = probes["sock"]
    done = me.run(["-r", probe], [probe], level)
    assert done.returncode == 0, done.stderr
    got = rows(done.stdout)
    outside = rows(me.outside([probe]).stdout)
    assert set(got) == set(outside)
    expect(got, socket_table(outside), level)
    for name in (
        "mptcp",
        "vsock",
        "udplite",
        "netlink-netfilter",
        "netlink-generic",
        "oob-send",
        "high-mptcp",
    ):
        if name == "udplite" and kernel_lacks("udplite"):
            continue
        assert outside[name] == "allowed", f"positive control: {name}"
    if me.name == "root":
        for name in ("raw", "packet", "link-change"):
            assert outside[name] == "allowed", f"positive control: {name}"


# Newer than the headers of Debian 12.
NEW_CALLS = (
    "cachestat fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue statmount listmount "
)
NEW_CALLS += (
    "lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal setxattrat getxattrat listxattrat "
)
NEW_CALLS += "removexattrat open_tree_attr file_getattr file_setattr"


UNISTD = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}


def call_names():
    names = dict(enumerate(NEW_CALLS.split(), 451))
    if ARCH == "x86_64":
        names |= {335: "uretprobe", 336: "uprobe"}
    for line in pathlib.Path(UNISTD[ARCH]).read_text().splitlines():
        match = re.match(r"#define __NR(?:3264)?_(\w+) (\d+)", line)
        if match:
            names[int(match.group(2))] = match.group(1)
    return names


def verdict(text):
    if text.startswith("killed"):
        return "killed"
    return {"denied ENOSYS": "ENOSYS", "denied EPERM": "EPERM"}.get(text, "passed")


@pytest.mark.parametrize("who_level", ["namespaces", "landlock"])
def test_every_number(me, probes, who_level):
    """All numbers from 0 to 600 with senseless arguments, against the list in the golden file.

    `passed` = the kernel itself answered; anything else is the filter's verdict. A call that turns
    up as `passed` without being in the file is a new door.
    """
    probe = probes["sweep"]
    done = me.run(["-r", probe], [probe], who_level)
    assert done.returncode == 0, done.stderr
    got = {int(n): verdict(v) for n, v in rows(done.stdout).items()}
    names = call_names()
    golden = {}
    for line in GOLDEN.read_text().splitlines():
        if line and not line.startswith("#"):
            number, _, namespaces, landlock = line.split()
            golden[int(number)] = (namespaces, landlock)[
                "namespaces landlock".split().index(who_level)
            ]
    bad = []
    for number, text in sorted(got.items()):
        want = golden.get(number, "ENOSYS")
        # A call that the running kernel does not have answers ENOSYS by itself; uretprobe and uprobe are newer
        # than their numbers.
        if text == want or (want == "passed" and number >= 450) or (number in (335, 336) and text == "ENOSYS"):
            continue
        if want in ("ENOSYS", "EPERM") and text in ("ENOSYS", "EPERM"):
            continue
        bad.append(f"{number} {names.get(number, '?')}: {text}, golden {want}")
    assert not bad, "\n" + "\n".join(bad)


def test_memory_tricks_that_programs_need(me, level):
    """A filter that is too tight fails here: JIT-like mappings, threads, timers, memfd."""
    script = """
import mmap, threading, signal, os, select, tempfile, subprocess, fcntl
m = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC); m[0:1] = b'\\xc3'
t = threading.Thread(target=lambda: None); t.start(); t.join()
signal.setitimer(signal.ITIMER_REAL, 5); signal.setitimer(signal.ITIMER_REAL, 0)
os.close(os.memfd_create('x'))
e = select.epoll(); e.close()
f = tempfile.TemporaryFile(); fcntl.lockf(f, fcntl.LOCK_EX)
assert subprocess.run(['true']).returncode == 0
os.sched_getaffinity(0); os.getrandom(8); os.nice(0); os.sched_yield()
print('fine')
"""
    done = me.run([], ["python3", "-c", script], level)
    assert done.stdout == b"fine\n", done.stderr
