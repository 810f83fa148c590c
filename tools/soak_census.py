# SPDX-License-Identifier: Apache-2.0
"""What tools/soak.py counts: everything that a run could leave behind.

Most counts are of this program's own descendants, directories and user ids, so that they are exact
and independent of other programs. Kernel memory is counted for the whole machine, so these counts
have slack, far below one object for each run.
"""

import os
import pathlib
import re
import signal
import time

PROC = pathlib.Path("/proc")
OURS = re.compile(r"\.?cordon-[0-9a-f]{8,}$")
NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time")
# Kernel objects that a run makes some of, by the name of their cache.
CACHES = ("net_namespace", "pid_namespace", "user_namespace", "mnt_cache", "task_struct", "nsproxy", "pid",
          "signal_cache", "sock_inode_cache", "eventpoll_epi", "pde_opener", "shmem_inode_cache",
          "inotify_inode_mark", "key_jar")  # fmt: skip
# slack: (constant, per run)
EXACT = (0, 0)
OBJECTS = (1000, 0.02)
SLACK = {
    "rss_kib": (1024, 0.02),
    "slab_kib": (64 * 1024, 0.2),
    "pagetables_kib": (16 * 1024, 0.05),
    "percpu_kib": (16 * 1024, 0.05),
    "vmalloc_kib": (16 * 1024, 0.05),
}


def read(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""


def listing(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def state_and_parent(pid):
    rest = read(PROC / pid / "stat").rpartition(")")[2].split()
    return (rest[0], int(rest[1])) if rest else ("X", 0)


def descendants():
    """{pid: state} of everything below this process."""
    children, states = {}, {}
    for pid in filter(str.isdigit, os.listdir(PROC)):
        state, parent = state_and_parent(pid)
        states[int(pid)] = state
        children.setdefault(parent, []).append(int(pid))
    found, todo = {}, [os.getpid()]
    while todo:
        for pid in children.get(todo.pop(), []):
            found[pid] = states[pid]
            todo.append(pid)
    return found


def orphans(own):
    """Children of ours that we did not start; the dead among them are collected."""
    left = []
    for pid, _ in descendants().items():
        state, parent = state_and_parent(str(pid))
        if parent != os.getpid() or pid in own:
            continue
        if state == "Z":
            try:
                os.waitpid(pid, os.WNOHANG)
                continue
            except ChildProcessError:
                pass
        left.append(pid)
    return left


def reap_orphans():
    """Ends whatever is below us when everything is over."""
    for _ in range(200):
        left = descendants()
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
            except (ProcessLookupError, ChildProcessError):
                pass
        time.sleep(0.01)


class Census:
    def __init__(self, base, callers):
        self.base, self.callers = base, callers
        self.own = {caller.host.pid for caller in callers}
        self.uids = {caller.uid for caller in callers}
        self.others = set(self.private_directories())

    def private_directories(self):
        """Private directories of level landlock. Those of other programs' runs are in use and do not count."""
        found = []
        for place in ("/tmp", "/var/tmp", "/dev/shm", "/run"):
            for name in listing(place):
                try:
                    mine = OURS.match(name) and os.lstat(f"{place}/{name}").st_uid in self.uids
                except FileNotFoundError:
                    continue
                if mine:
                    found.append(f"{place}/{name}")
        if found:
            lines = [read(PROC / pid / "cmdline") for pid in filter(str.isdigit, os.listdir(PROC))]
            found = [path for path in found if not any(path in line for line in lines)]
        return found

    def processes(self, got):
        tree = descendants()
        got["processes"] = sum(state != "Z" for state in tree.values())
        got["zombies"] = sum(state == "Z" for state in tree.values())
        got["orphans"] = len(orphans(self.own))
        seen = set()
        for pid in (pid for pid, state in tree.items() if state != "Z"):
            for kind in NAMESPACES:
                try:
                    seen.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
                except OSError:
                    pass
        got["namespaces"] = len(seen)

    def hosts(self, got):
        for caller in self.callers:
            proc = PROC / str(caller.host.pid)
            status = dict(line.split(":\t", 1) for line in read(proc / "status").splitlines() if ":\t" in line)
            got[f"{caller.name}: descriptors"] = len(listing(proc / "fd"))
            got[f"{caller.name}: threads"] = int(status["Threads"])
            got[f"{caller.name}: timers"] = read(proc / "timers").count("ID:")
            got[f"{caller.name}: mappings"] = read(proc / "maps").count("\n")
            got[f"{caller.name}: rss_kib"] = int(status["VmRSS"].split()[0])

    def files(self, got):
        got["files"] = sum(1 for _ in self.base.rglob("*"))
        got["private directories"] = len(set(self.private_directories()) - self.others)
        got["mounts"] = read("/proc/self/mountinfo").count("\n")
        got["cgroups named so"] = sum(
            "cordon" in name for _, names, _ in os.walk("/sys/fs/cgroup") for name in names
        )

    def shared(self, got):
        for name in ("shm", "sem", "msg"):
            lines = [line.split() for line in read(f"/proc/sysvipc/{name}").splitlines()]
            column = lines[0].index("uid") if lines else 0
            got[f"SysV {name}"] = sum(int(line[column]) in self.uids for line in lines[1:])
        for line in read("/proc/key-users").splitlines():
            uid, _, rest = line.partition(":")
            if int(uid) in self.uids:
                got[f"keys of {uid.strip()}"] = int(rest.split()[1].split("/")[0])

    @staticmethod
    def kernel(got):
        for line in read("/proc/slabinfo").splitlines():
            name, *rest = line.split()
            if name in CACHES:
                got[f"kernel: {name}"] = int(rest[0])
        memory = dict(line.split(":") for line in read("/proc/meminfo").splitlines())
        for name, key in (("Slab", "slab"), ("PageTables", "pagetables"), ("Percpu", "percpu"),
                          ("VmallocUsed", "vmalloc")):  # fmt: skip
            if name in memory:
                got[f"kernel: {key}_kib"] = int(memory[name].split()[0])

    def count(self):
        got = {}
        self.processes(got)
        self.hosts(got)
        self.files(got)
        self.shared(got)
        self.kernel(got)
        return got

    def settle(self, before, is_end=False, patience=10.0):
        """The count once nothing is under way any more: the kernel takes namespaces apart by itself."""
        end = time.monotonic() + patience
        got = self.count()
        while time.monotonic() < end:
            if before is None and got["processes"] == len(self.own):
                break
            if before is not None and not any(row[3] for row in compare(before, got, 0, is_end)):
                break
            time.sleep(0.1)
            got = self.count()
        return got


# The launcher collects the inits of ended runs when it comes across them, 64 at most.
GRAVEYARD = 64


def slack_of(name):
    key = name.rpartition(" ")[2]
    if key in SLACK:
        return SLACK[key]
    if name.startswith("kernel: "):
        return OBJECTS
    if name.startswith(("SysV ", "keys of ", "cgroups ")):
        return (32, 0.005)  # by user id or name: other programs of the same user have some, too
    if name == "zombies" or name.endswith("descriptors"):
        return (GRAVEYARD, 0)
    if name.endswith("mappings"):
        return (16, 0)
    return EXACT


def compare(before, after, runs, is_end=False):
    """[(name, before, after, is it a leak)]; at the end no launcher is left and collects later."""
    rows = []
    for name, last in after.items():
        constant, each = slack_of(name)
        first = before.get(name, 0)
        most = first + constant + each * runs
        if is_end and name == "zombies":
            most = 0
        if is_end and name.endswith("descriptors"):
            most = 3
        rows.append((name, first, last, last > most))
    return rows
