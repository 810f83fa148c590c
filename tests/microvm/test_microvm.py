# SPDX-License-Identifier: Apache-2.0
"""Level microvm: the same policy behind a second kernel. Here it is emulated, so a start takes seconds;
each test does as much as it can in one guest."""

import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest
from conftest import needs, settles

PROBES = pathlib.Path(__file__).resolve().parent / "probes"
SH = "/bin/sh"
START = 170  # a guest on a busy machine

_guests = {}


def share(cache, me):
    """To make a guest takes half a minute: what one caller has made is copied for the other."""
    if not _guests:
        return
    made = pathlib.Path(next(iter(_guests.values()))["dir"])
    copy = cache / "cordon" / "microvm"
    copy.parent.mkdir()
    shutil.copytree(made, copy)
    for path in [copy.parent, copy, *copy.rglob("*")]:
        me.own(path)


@pytest.fixture
def vm(me, session_dir):
    """The caller, with a cache directory that has a guest. One for each caller, made once."""
    needs("qemu-system-x86_64", "apt-get", "dpkg-deb", "xz")
    cache = session_dir / f"microvm-{me.uid}"
    me.env_more = {"XDG_CACHE_HOME": str(cache)}
    if me.uid not in _guests:
        cache.mkdir()
        me.own(cache)
        share(cache, me)
        done = me.outside([me.cordon, "microvm", "setup", "--json"], timeout=300, env=me.env_more)
        assert done.returncode == 0, done.stderr
        _guests[me.uid] = json.loads(done.stdout)
    me.guest = _guests[me.uid]
    return me


def run(vm, opts, cmd, **kw):
    kw.setdefault("timeout", START)
    return vm.run(opts, cmd, "microvm", env=vm.env_more, **kw)


def receipt(vm, opts, cmd, **kw):
    kw.setdefault("timeout", START)
    return vm.receipt(opts, cmd, "microvm", env=vm.env_more, **kw)


def verb(vm, *words):
    return vm.outside([vm.cordon, "microvm", *words], env=vm.env_more, timeout=120)


# --- what does not need a guest that runs -----------------------------------------------------------


@pytest.mark.light
def test_a_guest_is_made_once_and_named_by_its_content(vm):
    again = json.loads(verb(vm, "setup", "--json").stdout)
    assert (again["new"], again["key"]) == (False, vm.guest["key"])
    status = json.loads(verb(vm, "status", "--json").stdout)
    assert status["qemu"] and status["acceleration"] in ("kvm", "tcg")
    assert (status["acceleration"] == "tcg") == bool(status["kvm"]) == bool(status["remedy"])
    assert [(g["key"], g["usable"]) for g in status["guests"]] == [(vm.guest["key"], True)]
    lines = verb(vm, "status").stdout.decode().splitlines()
    assert [line.split()[0] for line in lines] == ["qemu", "acceleration", "guest"]


def test_it_is_made_again_when_that_is_asked_for(vm):
    done = vm.outside([vm.cordon, "microvm", "setup", "--renew", "--json"], timeout=300, env=vm.env_more)
    again = json.loads(done.stdout)
    assert (again["new"], again["key"]) == (True, vm.guest["key"])
    assert {p.name for p in pathlib.Path(again["dir"]).iterdir()} == {again["key"]}


@pytest.mark.light
def test_gc_removes_what_this_command_does_not_use(vm):
    cache = pathlib.Path(vm.guest["dir"])
    other, unfinished = cache / ("0" * 32), cache / ".new-4194303"
    for path in (other, unfinished):
        path.mkdir()
        vm.own(path)
        vm.write(path / "vmlinux", "x")
    assert b"would remove" in verb(vm, "gc", "--dry-run").stdout and other.exists()
    got = json.loads(verb(vm, "gc", "--json").stdout)
    assert got["removed"] == 2 and not other.exists() and not unfinished.exists()
    assert (cache / vm.guest["key"] / "vmlinux").exists()
    assert verb(vm, "gc").stdout == b"nothing to remove\n"


@pytest.mark.light
def test_what_a_killed_setup_left_is_told_from_one_at_work(vm):
    """By a lock: the same cache may be another container's, whose processes have the same ids."""
    cache = pathlib.Path(vm.guest["dir"])
    left, at_work = cache / f".new-{os.getpid()}", cache / ".new-0123456789abcdef"
    for path in (left, at_work):
        path.mkdir()
        vm.own(path)
        vm.write(path / "vmlinux", "x")
    fd = os.open(at_work, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        got = json.loads(verb(vm, "gc", "--json").stdout)
        assert [g["key"] for g in got["guests"]] == [left.name] and got["removed"] == 1
        assert (at_work / "vmlinux").exists() and not left.exists()
    finally:
        os.close(fd)
    # Nobody has it any more: the next setup removes it, though it has nothing to make.
    assert b"ready already" in verb(vm, "setup").stdout and not at_work.exists()


@pytest.mark.light
@pytest.mark.parametrize(
    "name, opts",
    [
        ("--net-allow", ["--net-allow", "example.com"]),
        ("--publish", ["--publish", "8080"]),
        ("--commands", ["--commands", "sh"]),
        ("--gpu", ["--gpu", "all"]),
        ("--device", ["--device", "/dev/fuse"]),
        ("--with", ["--with", "requests"]),
        ("-i", ["-i"]),
        ("--warm", ["--warm"]),
        ("--dry-run", ["--dry-run"]),
        ("--file-size", ["--file-size", "1M"]),
    ],
)
def test_what_the_level_does_not_have_is_refused_by_name(me, name, opts):
    done = me.run(opts, ["true"], "microvm")
    text = done.stderr.decode()
    assert done.returncode == 125 and text.count("\n") == 1, text
    assert name in text and "--isolation namespaces" in text


@pytest.mark.light
def test_hardware_that_is_asked_for_and_not_there_is_an_error(vm):
    done = run(vm, ["--require", "kvm"], ["true"])
    text = done.stderr.decode()
    assert done.returncode == 125 and "'kvm'" in text and text.count("\n") == 1
    # At the other levels there is none at all.
    assert vm.run(["--require", "kvm"], ["true"]).returncode == 125


@pytest.mark.light
def test_other_verbs_refuse_the_level(me):
    done = me.outside([me.cordon, "session", "start", "--isolation", "microvm"])
    assert done.returncode == 125 and b"microvm" in done.stderr


# --- guests that run ---------------------------------------------------------------------------------


SCRIPT = """
echo kernel $(uname -n) $(uname -v | cut -c 1-4)
echo clock $(date +%s)
echo id $(id -u) $(id -G)
cat {granted}/read
echo changed > {granted}/read || echo read-only
echo made > {writable}/made && ln -s made {writable}/link && mkdir {writable}/dir
cat {hidden}/secret || echo hidden
ls {hidden} >/dev/null || echo hidden
echo private > ~/x && echo private > /tmp/x && cat ~/x /tmp/x
echo env [$PASSED] [$SECRET]
for device in /dev/vport0p4 /dev/kvm /dev/mem; do test -e $device || echo no $device; done
sha256sum
exit 7
"""


@pytest.mark.light
def test_a_command_in_a_guest(vm):
    granted, writable, hidden = vm.mkdir("granted"), vm.mkdir("writable"), vm.mkdir("hidden")
    vm.write(granted / "read", "content\n")
    vm.write(hidden / "secret", "SECRET\n")
    script = SCRIPT.format(granted=granted, writable=writable, hidden=hidden)
    data = os.urandom(1 << 20)
    kw = {"input": data, "timeout": START}
    env = {**vm.env_more, "PASSED": "1", "SECRET": "1"}
    opts = ["-r", granted, "-w", writable, "-e", "PASSED"]
    before = time.time()
    done = vm.run(opts, [SH, "-c", script], "microvm", env=env, **kw)
    out = done.stdout.decode().splitlines()
    assert done.returncode == 7, done.stderr
    assert out[0].startswith("kernel cordon")
    clock = int(out[1].split()[1])
    assert before - 2 <= clock <= time.time() + 2
    uid = vm.uid or 1000
    assert out[2:] == [
        f"id {uid} {vm.gid or 1000}",
        "content",
        "read-only",
        "hidden",
        "hidden",
        "private",
        "private",
        "env [1] []",
        "no /dev/vport0p4",
        "no /dev/kvm",
        "no /dev/mem",
        hashlib.sha256(data).hexdigest() + "  -",
    ]
    assert (granted / "read").read_text() == "content\n"
    made = writable / "made"
    assert made.read_text() == "made\n" and made.stat().st_uid == vm.uid
    assert os.readlink(writable / "link") == "made" and (writable / "dir").is_dir()
    # The control: without a sandbox the same attempts succeed.
    control = vm.outside([SH, "-c", f"echo changed > {granted}/read && cat {hidden}/secret"])
    assert control.stdout == b"SECRET\n" and (granted / "read").read_text() == "changed\n"


PYTHON = """
import hashlib, os, subprocess, sys, tempfile
data = sys.stdin.buffer.read()
assert open("/proc/sys/kernel/random/boot_id").read() != sys.argv[1]
with tempfile.TemporaryFile() as f:
    f.write(data); f.seek(0); assert f.read() == data and os.fstat(f.fileno()).st_size == len(data)
open("t.c", "w").write('#include <stdio.h>\\nint main(void) { puts("compiled"); return 0; }')
subprocess.run(["gcc", "-o", "t", "t.c"], check=True)
assert subprocess.run(["./t"], capture_output=True).stdout == b"compiled\\n"
sys.stderr.buffer.write(bytes(range(256)))
sys.stdout.buffer.write(data[::-1])
"""


def test_real_programs_and_streams_of_megabytes(vm):
    needs("python3", "gcc")
    data = os.urandom(3 << 20)
    host = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text()
    work = vm.mkdir("project")
    done = run(vm, ["-w", work, "-C", work], ["python3", "-c", PYTHON, host], input=data)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == data[::-1] and done.stderr == bytes(range(256))
    assert (work / "t").stat().st_mode & 0o111


WORKSPACE = """
cat a; echo two >> a; rm b; mv d e; ln -s a link; chmod 755 e/c
head -c 20M /dev/zero > big && mv big bigger
cat ~/read /tmp/read /var/tmp/read; cat {kept}/tmp/read || echo not itself
cat {out}/canary || echo hidden
echo more >> ~/read; echo more >> /tmp/read; mkdir ~/dir; mkfifo /tmp/pipe
(echo through > /tmp/pipe) & cat /tmp/pipe
"""


@pytest.mark.light
def test_a_workspace_and_a_private_directory(vm):
    """The host takes what was changed from its own copy; the base stays as it is until it is told. What is
    private is the same at all levels."""
    base, kept = vm.mkdir("base"), vm.base / "kept"
    (base / "d").mkdir()
    vm.own(base / "d")
    for name in ("a", "b", "d/c"):
        vm.write(base / name, "one\n")
    vm.write(vm.out / "canary", "SECRET\n")
    private = ["--private", kept]
    assert vm.run(private, [SH, "-c", "echo home > ~/read; echo tmp > /tmp/read"]).returncode == 0
    env = {**vm.env_more, "XDG_STATE_HOME": str(vm.mkdir("state"))}
    opts = [*private, "--workspace", base, "-C", base, "--diff"]
    script = WORKSPACE.format(kept=kept, out=vm.out)
    got = vm.receipt(opts, [SH, "-c", script], "microvm", env=env, timeout=START)
    assert (got["kind"], got["status"]) == ("exited", 0), got
    assert got["stdout"].splitlines() == ["one", "home", "tmp", "tmp", "not itself", "hidden", "through"], got
    changes = {c["path"]: c["kind"] for c in got["workspace"]["changes"] if c["listed"]}
    renamed = {"a": "modified", "b": "deleted", "e/c": "renamed", "link": "added", "bigger": "added"}
    assert changes == renamed
    assert sorted(p.name for p in base.iterdir()) == ["a", "b", "d"] and (base / "a").read_text() == "one\n"
    done = vm.outside([vm.cordon, "workspace", "commit", got["workspace"]["id"]], env=env)
    assert done.returncode == 0, done.stderr
    assert (base / "a").read_text() == "one\ntwo\n" and not (base / "b").exists()
    assert (base / "bigger").stat().st_size == 20 << 20 and os.readlink(base / "link") == "a"
    again = vm.run(private, [SH, "-c", "cat ~/read /tmp/read; ls ~"])
    assert again.stdout.decode().split() == ["home", "more", "tmp", "more", "dir", "read"], again
    # The control: without the directory nothing of it is there.
    assert vm.run([], [SH, "-c", "cat ~/read /tmp/read"]).returncode == 1


def test_a_workspace_has_the_limit_of_the_disk(vm):
    base = vm.mkdir("base")
    opts = ["--workspace", base, "-C", base, "--disk", "4M", "--on-exit", "discard"]
    env = {**vm.env_more, "XDG_STATE_HOME": str(vm.mkdir("state"))}
    # Small files at the end, so that the watch has seen it.
    script = "head -c 64M /dev/urandom > big; i=0; while :; do echo >> more; done"
    got = vm.receipt(opts, [SH, "-c", script], "microvm", env=env, timeout=START)
    assert (got["kind"], got["status"]) == ("disk", 137), got


@pytest.mark.light
def test_the_receipt_says_what_it_was(vm):
    got = receipt(vm, ["--max-output", "1000"], [SH, "-c", "head -c 5000 /dev/zero; kill -SEGV $$"])
    assert (got["kind"], got["signal"], got["status"]) == ("signaled", 11, 139)
    assert got["isolation"]["level"] == "microvm"
    assert got["isolation"]["layers"][-1] in ("microvm:tcg", "microvm:kvm")
    assert {"user", "mount", "pid", "net", "seccomp"} <= set(got["isolation"]["layers"])
    assert got["truncated"]["stdout"] and got["output_bytes"]["stdout"] == 5000


@pytest.mark.parametrize(
    "kind, opts, script",
    [
        pytest.param("timeout", ["-t", "1s"], "sleep 1000", marks=pytest.mark.light),
        ("memory", ["-m", "48M"], "python3 -c 'x = b\"1\" * (200 << 20)'"),
        ("output", ["--max-output", "64K", "--end-on-output"], "yes"),
    ],
)
def test_limits_are_told_apart(vm, kind, opts, script):
    got = receipt(vm, opts, [SH, "-c", script])
    assert got["kind"] == kind, got
    assert got["status"] == {"timeout": 124}.get(kind, 137)


def test_a_fork_bomb_and_a_full_disk_stay_inside(vm):
    bomb = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 100 & done 2>/dev/null; echo bombed"
    fill = "head -c 20M /dev/zero > /tmp/fill || echo full"
    done = run(vm, ["-P", "8", "--disk", "4M"], [SH, "-c", f"{fill}; ({bomb}); echo goes on"])
    assert b"full" in done.stdout, done
    assert done.stdout.endswith(b"goes on\n") or b"fork" in done.stderr


def wait_for_line(process, want):
    line = process.stdout.readline()
    assert line == want, (line, process.poll())


def test_a_signal_reaches_the_command(vm):
    script = "trap 'echo tidy; exit 5' TERM; echo begun; while :; do sleep 0.1; done"
    p = vm.popen(
        vm.argv(["--grace", "30s"], [SH, "-c", script], "microvm"), env=vm.env_more, stdout=subprocess.PIPE
    )
    wait_for_line(p, b"begun\n")
    p.send_signal(signal.SIGTERM)
    out, _ = p.communicate(timeout=START)
    assert (out, p.returncode) == (b"tidy\n", 5)


def qemu_of(pid):
    """QEMU's process below @pid."""
    found = subprocess.run(["ps", "-eo", "pid,ppid,comm"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in found.splitlines()[1:]]
    below, grew = {str(pid)}, True
    while grew:
        more = {r[0] for r in rows if r[1] in below} - below
        below |= more
        grew = bool(more)
    return [int(r[0]) for r in rows if r[0] in below and r[2].startswith("qemu-system")]


def alive(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return [] if stat.rpartition(")")[2].split()[0] in "ZX" else [pid]


@pytest.mark.parametrize("whom", ["supervisor", "qemu"])
def test_whoever_is_killed_nothing_is_left(vm, whom):
    argv = vm.argv([], [SH, "-c", "echo begun; sleep 1000"], "microvm")
    p = vm.popen(argv, env=vm.env_more, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for_line(p, b"begun\n")
    qemu = qemu_of(p.pid)
    assert len(qemu) == 1
    os.kill(p.pid if whom == "supervisor" else qemu[0], signal.SIGKILL)
    _, err = p.communicate(timeout=60)
    assert not settles(lambda: alive(qemu[0]), 20)
    if whom == "qemu":
        assert p.returncode == 137 and b"ended before the command did" in err


# --- guests that belong to the attacker ---------------------------------------------------------------


def entries(data):
    """The entries of a cpio archive: name, head, content."""
    at = 0
    while True:
        head = data[at : at + 110]
        size, length = int(head[54:62], 16), int(head[94:102], 16)
        name = data[at + 110 : at + 110 + length - 1].decode()
        begin = (at + 110 + length + 3) // 4 * 4
        yield name, head, data[begin : begin + size]
        if name == "TRAILER!!!":
            return
        at = (begin + size + 3) // 4 * 4


def with_agent(data, agent):
    out = bytearray()
    for name, head, content in entries(data):
        if name == "cordon-agent":
            content = agent
            head = head[:54] + b"%08X" % len(agent) + head[62:]
        out += head + name.encode() + b"\0"
        out += b"\0" * (-len(out) % 4) + content
        out += b"\0" * (-len(out) % 4)
    return bytes(out)


FORGED = {
    # what it does: (its number, kind, exit code, signal, standard output)
    "ends well": (1, "exited", 0, None, "hello"),
    "is too long": (2, "signaled", None, 9, ""),
    "plays the host": (3, "signaled", None, 9, ""),
    "invents a kind": (4, "signaled", None, 9, ""),
    "floods": (5, "signaled", None, 9, ""),
    "reboots": (6, "signaled", None, 9, ""),
    "panics": (7, "signaled", None, 9, ""),
    "writes without end": (8, "timeout", None, 9, None),
    "ends twice": (9, None, None, None, ""),
}
LIGHT = ("ends well", "plays the host")


@pytest.mark.parametrize("what", [pytest.param(n, marks=pytest.mark.light) if n in LIGHT else n for n in FORGED])
@pytest.mark.once
def test_a_guest_that_is_the_attackers(vm, what):
    """It can say how the command ended, as any program can. All else is the host's."""
    number, kind, code, sig, out = FORGED[what]
    needs("gcc")
    cache = vm.mkdir("hostile")
    real = pathlib.Path(vm.guest["dir"], vm.guest["key"])
    guest = cache / "cordon" / "microvm" / vm.guest["key"]
    guest.mkdir(parents=True)
    for name in ("vmlinux", "about.json"):
        os.link(real / name, guest / name)
    program = vm.base / "agent"
    argv = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-static", "-Wall", "-Wextra", f"-DHOSTILE={number}"]
    subprocess.run([*argv, "-o", str(program), str(PROBES / "hostile.c")], check=True)
    guest.joinpath("initramfs").write_bytes(with_agent(real.joinpath("initramfs").read_bytes(), program.read_bytes()))
    for path in [cache, *cache.rglob("*")]:
        vm.own(path)
    got = vm.receipt(
        ["-t", "10s", "--grace", "0s"], ["true"], "microvm", env={"XDG_CACHE_HOME": str(cache)}, timeout=START
    )
    # A message behind the end may arrive before it is acted upon, or not at all.
    if kind is None:
        assert (got["kind"], got["exit_code"], got["signal"]) in [("exited", 3, None), ("signaled", None, 9)]
    else:
        assert (got["kind"], got["exit_code"], got["signal"]) == (kind, code, sig), got
    assert out is None or got["stdout"] == out
    assert got["isolation"]["level"] == "microvm" and got["error"] is None


def test_what_a_command_starts_with_is_the_callers(vm):
    """Where it starts, also if that is relative, and what files it makes are for whom."""
    (vm.work / "sub").mkdir()
    vm.own(vm.work / "sub")
    opts = ["-w", ".", "-C", "sub", "-w", vm.home]
    env = {**vm.env_more, "XDG_STATE_HOME": str(vm.mkdir("state"))}
    script = "pwd; umask; touch made ~/made; mkdir dir"
    done = vm.run(opts, [SH, "-c", script], "microvm", env=env, timeout=START, umask=0o077)
    assert done.stdout.decode().split() == [str(vm.work / "sub"), "0077"], done
    # A home that is granted is the command's, also where Cordon keeps things of its own outside.
    assert (vm.home / "made").stat().st_uid == vm.uid and not (vm.home / ".cache").exists()
    assert [oct((vm.work / "sub" / n).stat().st_mode & 0o777) for n in ("made", "dir")] == ["0o600", "0o700"]


def test_time_of_the_processor_ends_as_elsewhere(vm):
    done = run(vm, ["--cpu-time", "1s"], [SH, "-c", "while :; do :; done"])
    assert done.returncode == 124, done


def test_what_cannot_be_told_to_the_guest_is_no_end_of_the_command(vm):
    done = run(vm, [f"-eLONG{n}={'x' * 120000}" for n in range(9)], ["true"])
    assert done.returncode == 125 and b"could not be told what to run" in done.stderr, done


def test_a_damaged_guest_is_replaced(vm):
    """By the next setup that makes one again, also beside others."""
    kept = pathlib.Path(vm.guest["dir"]) / vm.guest["key"]
    size = (kept / "vmlinux").stat().st_size
    with open(kept / "vmlinux", "r+b") as f:
        f.truncate(4096)
    done = vm.outside([vm.cordon, "microvm", "setup", "--renew", "--json"], timeout=300, env=vm.env_more)
    assert done.returncode == 0 and (kept / "vmlinux").stat().st_size == size, done
