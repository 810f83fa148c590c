# SPDX-License-Identifier: Apache-2.0
"""What sandboxes weigh that do nothing: memory of their processes and of the kernel."""

import glob
import os
import subprocess
import time

import contenders
import report

COUNT = 50
# What the kernel keeps for a sandbox. Percpu: network namespaces take a good part of theirs there.
KERNEL = ("Slab", "KernelStack", "PageTables", "SecPageTables", "Percpu", "Shmem")
SETTLE_S = 0.4
START_S = 20


def meminfo():
    with open("/proc/meminfo", encoding="ascii") as f:
        lines = [line.replace(":", "").split() for line in f]
    return {words[0]: int(words[1]) for words in lines}


def kernel_kb():
    info = meminfo()
    return sum(info.get(key, 0) for key in KERNEL)


def children(pid):
    """Those of all its threads."""
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path, encoding="ascii") as f:
                found += [int(c) for c in f.read().split()]
        except OSError:
            pass  # it has just ended
    return found


def tree(pid):
    """All descendants."""
    found = []
    todo = [pid]
    while todo:
        below = children(todo.pop())
        found += below
        todo += below
    return found


def rollup_kb(pid, *fields):
    """The sum of these fields of its memory; 0 if it may not be read."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
            lines = [line.split() for line in f]
    except OSError:
        return 0
    return sum(int(words[1]) for words in lines if words[0].rstrip(":") in fields)


def pss_kb(pid):
    return rollup_kb(pid, "Pss")


def private_kb(pid):
    """Pages that no other process has."""
    return rollup_kb(pid, "Private_Clean", "Private_Dirty")


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as f:
            return f.read().strip()
    except OSError:
        return ""


def members(tops):
    return [pid for top in tops for pid in [top] + tree(top)]


def wait_for_sleepers(tops):
    """Until the command runs in every sandbox, and what only served its start is gone."""
    until = time.monotonic() + START_S
    while sum(name_of(pid) == "sleep" for pid in members(tops)) < COUNT:
        if time.monotonic() > until:
            raise SystemExit("bench: the idle sandboxes do not come up")
        time.sleep(0.05)
    time.sleep(SETTLE_S)


def weigh(tops, before):
    """Kilobytes per sandbox: the isolator's processes, the command's, the kernel's."""
    wait_for_sleepers(tops)
    kernel = kernel_kb()
    ours = payload = 0
    for pid in members(tops):
        kb = pss_kb(pid)
        if name_of(pid) == "sleep":
            payload += kb
        else:
            ours += kb
    return [v / COUNT for v in (ours, payload, kernel - before)]


def weigh_library(b):
    p = b.start([f"{b.dir}/bench_idle", str(COUNT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdout.readline()
    time.sleep(SETTLE_S)
    own = pss_kb(p.pid)
    before = kernel_kb()
    p.stdin.write("\n")
    p.stdin.flush()
    p.stdout.readline()
    weights = weigh([p.pid], before)
    weights[0] -= own / COUNT
    p.stdin.close()
    p.wait()
    p.stdout.close()
    return weights


def weigh_commands(b, argv):
    time.sleep(SETTLE_S)
    before = kernel_kb()
    processes = [b.start(argv, stdin=subprocess.DEVNULL) for _ in range(COUNT)]
    weights = weigh([p.pid for p in processes], before)
    for p in processes:
        p.kill()
        p.wait()
    return weights


def bench_idle(b):
    if os.getuid() != 0:
        # Init cannot be read by the user it runs as, not even from outside.
        print("\nThe weight of idle sandboxes can only be read by root: left out.")
        return
    sleep = ["/bin/sleep", "600"]
    commands = {"cordon run": [b.cordon, "run", "--"]}
    if contenders.bwrap():
        commands["bwrap"] = [contenders.bwrap(), "--die-with-parent"] + contenders.BWRAP_ALL
    if contenders.sandlock():
        commands["sandlock"] = contenders.sandlock_run(f"{b.dir}/sandlock", [b.work])
    rounds = {name: [] for name in ["cordon library"] + list(commands)}
    for _ in range(3):
        rounds["cordon library"].append(weigh_library(b))
        for name, prefix in commands.items():
            rounds[name].append(weigh_commands(b, prefix + sleep))
    rows = []
    for name, samples in rounds.items():
        best = [min(column) for column in zip(*samples)]
        rows.append([name] + [f"{v:.0f}" for v in best + [sum(best)]])
        if name == "cordon library":
            b.targets.at_most("idle sandbox, our processes", best[0], 256, " kB")
            b.targets.at_most("idle sandbox, all", sum(best), 1024, " kB")
    report.table(f"An idle sandbox, {COUNT} at once, kB each",
                 ["", "its processes (PSS)", "the command", "kernel", "all"], rows)
