# SPDX-License-Identifier: Apache-2.0
"""A run from a pool sees what a cold one sees: the same commands both ways, and again after the caller
or the host has changed since the sandboxes were made."""

import difflib
import json
import os
import re
import resource
import shutil
import subprocess
import sys

import pytest

import pycordon
from pylib import until

#: Each is run cold and parked, and must print the same. Numbers that the kernel gives out (mounts, peer
#: groups, devices without a disk) are taken out of both.
COMMANDS = [
    "cut -d' ' -f4- /proc/self/mountinfo | sort",  # in the order in which they were made
    "sort /proc/self/mounts",
    "env | sort",
    "ulimit -a",
    "cat /proc/self/limits",
    "cat /proc/1/limits",
    "id; id -G",
    "umask; touch /tmp/f; mkdir /tmp/d; stat -c '%a %u %g' /tmp/f /tmp/d",
    "ls -l /proc/self/fd | sed 's/.*[0-9] \\([0-9]* ->\\)/\\1/; s/\\[.*//'",
    "cat /proc/self/uid_map /proc/self/gid_map /proc/self/setgroups",
    "hostname; cat /proc/sys/kernel/hostname /proc/sys/kernel/domainname; uname -n",
    "cat /proc/net/dev | cut -d: -f1; cat /proc/net/route; sort /proc/net/if_inet6; head -60 /proc/net/fib_trie",
    "cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/net/ipv4/ip_local_port_range",
    "readlink /proc/self/ns/time /proc/self/ns/time_for_children",
    "cat /proc/self/cgroup; cat /proc/1/cgroup",
    "cat /proc/self/oom_score_adj /proc/self/personality /proc/self/timerslack_ns 2>&1",
    "grep -vE '^(Name|Pid|Tgid|NStgid|NSpid|NSpgid|NSsid|PPid|Vm|Rss|State|.*ctxt|HugetlbPages|SigQ|FDSize|x86|untag)'"
    " /proc/self/status",
    "grep -E '^(Uid|Gid|Groups|Cap|NoNew|Seccomp|Sig[BIC]|Shd|Umask|Cpus|Mems|NSpid)' /proc/1/status",
    "ls -lA / | awk '{ print $1, $3, $4, $NF }'",
    "ls -la /etc /dev /tmp /run /var /dev/shm /dev/pts ~ | sed 's/  *[A-Z][a-z][a-z]  *[0-9]*  *[0-9:]* / /'",
    "cat /etc/passwd /etc/group /etc/hosts /etc/resolv.conf /etc/nsswitch.conf /etc/hostname /etc/os-release",
    "stat -c '%n %i' /usr /etc/alternatives /etc/ld.so.cache /dev/null 2>&1",
    "stat -f -c '%T %b %c' / /tmp /dev/shm ~; stat -f -c '%T' /usr /proc",
    "pwd; echo $HOME; ls -A; echo ~",
    "ps -e -o pid,ppid,comm | head -2",
    "nice; chrt -p 1 | sed 's/.*: //'; taskset -p 1 | sed 's/.*: //'",
    "cat /proc/self/attr/current 2>&1 | head -1",
    "cat /proc/sys/user/max_user_namespaces /proc/sys/user/max_mnt_namespaces",
    "cat /proc/key-users /proc/keys 2>&1 | wc -l",
    "trap; kill -l 1; cat /proc/self/wchan",
    "touch /usr/x /etc/x /x 2>&1; mkdir /run/x 2>&1; echo x 2>&1 >/proc/sys/kernel/hostname",
    "cat /proc/self/coredump_filter; cat /proc/self/autogroup 2>/dev/null | sed 's/[0-9]*//'",
    "mount -t tmpfs x /tmp 2>&1; unshare -U true 2>&1; hostname x 2>&1",
    "cat /proc/sysvipc/shm /proc/sysvipc/sem | wc -l; ls /dev/mqueue 2>&1",
    "python3 -c 'import socket as s; a = s.create_server((\"127.0.0.1\", 80)); s.create_connection(a.getsockname()); print(1)' 2>&1",
    "python3 -c 'import os, resource as r; print(os.sched_getaffinity(0), os.getpriority(0, 0), os.getsid(0) > 0, r.getrlimit(3))'",
]


def same(text):
    text = re.sub(r"\b0:\d+\b", "0:N", text)
    text = re.sub(r"(master|shared|propagate_from):\d+", r"\1:N", text)
    text = re.sub(r"/(autogroup-|proc/)\d+", r"/\1N", text)
    text = re.sub(r"/\.c[0-9a-f]{16}/", "/.cN/", text)  # of programs beside the view
    return re.sub(r"\bcordon-(\d+-)?\w+", "cordon-N", text)


def warm(box):
    """The sandbox, when something waits there."""
    box.run("true")
    until(lambda: box.parked()["parked"] > 0, "nothing was made ahead")
    return box


@pytest.fixture(scope="module")
def level():
    return pycordon.check().level


VARIANTS = {
    "default": {},
    "limits": {"limits_memory": "128M", "limits_procs": 64, "limits_cpu": 1, "limits_open_files": 99},
    "disk": {"limits_disk": "8M"},
    "network": {"net_allow": ["example.com"]},
    "commands": {"commands": ["sh", "cat", "ls", "id", "stat", "env", "python3", "grep", "sort", "sed", "readlink"]},
    "kept": {"persist": True},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_cold_and_parked(name, level):
    if level != "namespaces":
        pytest.skip("nothing is made ahead at level landlock")
    settings = {"persist": False, **VARIANTS[name]}
    differences, n_warm = [], 0
    with pycordon.Sandbox(**settings) as cold, pycordon.Sandbox(parked=1, **settings) as parked:
        parked.run("true")
        for command in COMMANDS:
            until(lambda: parked.parked()["parked"] == 1, "nothing was made ahead")
            before = parked.parked()["warm"]
            a, b = cold.run(command, merge=True), parked.run(command, merge=True)
            n_warm += parked.parked()["warm"] - before
            if (a.kind, a.returncode, a.isolation) != (b.kind, b.returncode, b.isolation):
                differences.append((command, a, b))
            # With files that are kept, each has a directory of its own, with what was left there.
            if same(a.output) != same(b.output) and not (name == "kept" and re.search("tmp|~|ls |mount", command)):
                lines = difflib.ndiff(same(a.output).splitlines(), same(b.output).splitlines())
                differences.append((command, [line for line in lines if line[0] != " "]))
        assert not differences, differences
        # Another process of this machine may have mounted something.
        assert n_warm >= (len(COMMANDS) - 4 if name != "commands" else 20), parked.parked()


def test_level_landlock():
    """It works with a pool as without, and nothing is made ahead."""
    settings = {"persist": False, "isolation": "landlock"}
    with pycordon.Sandbox(**settings) as cold, pycordon.Sandbox(parked=2, **settings) as box:
        for command in ("id", "umask", "pwd; ls -A", "ls -l /proc/self/fd | wc -l", "cat /proc/self/oom_score_adj"):
            a, b = cold.run(command, merge=True), box.run(command, merge=True)
            assert same(a.output) == same(b.output) and a.isolation == b.isolation, command
        stats = box.parked()
        assert stats["made"] == 0 and stats["warm"] == 0 and stats["cold"] == 5


def test_grants_change(level, place):
    """Grants are no part of what is made ahead."""
    (place / "data").mkdir()
    (place / "data" / "f").write_text("1")
    with pycordon.Sandbox(persist=False, parked=1, fs_read=[str(place / "data")]) as box:
        if level == "namespaces":
            warm(box)
        os.rename(place / "data", place / "old")
        (place / "data").mkdir()
        (place / "data" / "f").write_text("2")
        assert box.run(f"cat {place}/data/f").stdout == "2"


def test_caller_changes(level):
    if level != "namespaces":
        pytest.skip("nothing is made ahead at level landlock")
    with pycordon.Sandbox(persist=False, parked=1) as box:
        warm(box)
        soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
        try:
            resource.setrlimit(resource.RLIMIT_STACK, (3 << 20, hard))
            assert box.run("ulimit -s").stdout == "3072\n"
            assert box.parked()["stale"] >= 1
            until(lambda: box.parked()["parked"] > 0, "nothing was made ahead again")
            assert box.run("ulimit -s").stdout == "3072\n"
        finally:
            resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
        assert box.run("ulimit -s").stdout == f"{soft >> 10}\n" if soft != resource.RLIM_INFINITY else True
        until(lambda: box.parked()["parked"] > 0, "nothing was made ahead again")
        old = os.umask(0o137)
        try:
            assert box.run("umask; touch /tmp/f; stat -c %a /tmp/f").stdout == "0137\n640\n"
        finally:
            os.umask(old)


#: In mounts of its own: /etc is a copy, which can be changed. Prints, for each change, what a cold run and
#: one of the pool see after it, and whether that was a warm one.
HOST = r"""
import json, os, shutil, subprocess, sys, time
import pycordon
base = sys.argv[1]
def sh(command):
    subprocess.run(command, shell=True, check=True)
shutil.copytree("/etc", base + "/etc", symlinks=True, ignore_dangling_symlinks=True)
for place in ("etc/alternatives", "etc/fonts"):
    os.makedirs(f"{base}/{place}", exist_ok=True)
if os.path.islink(base + "/etc/os-release"):
    os.unlink(base + "/etc/os-release")
open(base + "/etc/os-release", "w").write("ID=first\n")
open(base + "/etc/ld.so.cache.mark", "w").close()
sh(f"mount --bind {base}/etc /etc")
os.makedirs(base + "/more", exist_ok=True)
open(base + "/more/marked", "w").close()
CHANGES = [
    ("nothing", "true", "ls /etc", True),
    ("a copied file", "echo ID=second >/etc/os-release", "cat /etc/os-release", False),
    ("a replaced file", "cp /etc/ld.so.cache /etc/n && mv /etc/n /etc/ld.so.cache", "stat -c %i /etc/ld.so.cache", False),
    ("a replaced directory", "mv /etc/alternatives /etc/was && mkdir /etc/alternatives && touch /etc/alternatives/canary",
     "ls /etc/alternatives", False),
    ("a removed directory", "rm -rf /etc/fonts", "ls /etc", False),
    ("a new directory", "mkdir /etc/fonts && touch /etc/fonts/canary", "ls /etc /etc/fonts", False),
    ("a mount", f"mount --bind {base}/more /etc/fonts", "ls /etc/fonts", False),
    ("a mount below", f"mkdir -p /usr/share/misc && mount --bind {base}/more /usr/share/misc", "ls /usr/share/misc", False),
    ("no mount", "umount /usr/share/misc; umount /etc/fonts", "ls /usr/share/misc /etc/fonts | sort", False),
    ("a read-only mount", "mount -o remount,bind,nosuid,nodev /etc", "grep ' /etc' /proc/self/mounts | sort", False),
    ("the domain name", "true", "cat /proc/sys/kernel/domainname", True),
    ("nothing again", "true", "ls /etc", True),
]
told = []
with pycordon.Sandbox(persist=False) as cold, pycordon.Sandbox(persist=False, parked=2) as box:
    box.run("true")
    for what, change, command, may_be_warm in CHANGES:
        end = time.monotonic() + 30
        while box.parked()["parked"] < 2 and time.monotonic() < end:
            time.sleep(0.01)
        assert box.parked()["parked"] == 2, what
        before = box.parked()["warm"]
        sh(change)
        seen = box.run(command, merge=True).output
        told.append([what, seen, cold.run(command, merge=True).output, box.parked()["warm"] - before, may_be_warm])
print(json.dumps(told))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the machine's files, in mounts of its own: needs root")
def test_host_changes(level, place):
    if level != "namespaces":
        pytest.skip("nothing is made ahead at level landlock")
    base = place / "copy"
    base.mkdir(mode=0o755)
    package = os.path.dirname(os.path.dirname(os.path.abspath(pycordon.__file__)))
    argv = ["unshare", "-m", "--propagation", "private", sys.executable, "-c", HOST, str(base)]
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": package})
    assert done.returncode == 0, done.stderr
    for what, parked, cold, n_warm, may_be_warm in json.loads(done.stdout):
        assert parked == cold, what
        assert n_warm == (1 if may_be_warm else 0), what
    assert shutil.rmtree(base, ignore_errors=True) is None
