# SPDX-License-Identifier: Apache-2.0
"""What limits cost: at the start, inside, while nothing happens, and with very many at once."""

import json
import os
import resource
import subprocess
import time

import report
import weigh
import workload

MEMORY = ["-m", "512M"]
# bench/common.c has the same as policy keys.
ALL = ["-t", "60s", *MEMORY, "-P", "64", "--cpus", "2", "--cpu-time", "60s", "--open-files", "256",
       "--file-size", "1G", "--disk", "128M", "--max-output", "1M"]
FLAGS = {"none": [], "memory": MEMORY, "all": ALL}
TITLES = {"none": "no limits", "memory": "-m 512M", "all": "all limits"}

WATCH_S = 10
TREE = 20
# The watch looks often at first; this is when it has come to its pace.
PACE_S = 2.5
MANY = 1000
MANY_COMMANDS = 200
MANY_IDLE_S = 3
PIDS_EACH = 8  # at most, while it is set up
KB_EACH = 2048
QUIET_S = 20


def bench_start(b, joined):
    commands = {"bare": ["/bin/true"]}
    for key, flags in FLAGS.items():
        commands[f"cordon run, {TITLES[key]}"] = [b.cordon, "run", *flags, "--", "/bin/true"]
    r = b.objects([f"{b.dir}/bench_launch", str(2 * b.rounds), "0", "none,memory,all"] +
                  joined(commands))
    r = {f"library, {TITLES[name]}" if name in TITLES else name: v for name, v in r.items()}
    rows = []
    for name, v in r.items():
        base = r.get(name.split(",")[0] + ", no limits")
        rows.append([name] + [f"{report.low(v[k]) / 1e3:.2f} / {report.mid(v[k]) / 1e3:.2f}"
                              for k in ("wall_us", "cpu_us")] +
                    [report.pair(v[k], base, k) for k in ("wall_us", "cpu_us")])
    report.table(f"Start to end of /bin/true with limits, {2 * b.rounds} rounds",
                 ["", "wall ms", "CPU ms", "x no limits, wall", "x no limits, CPU"], rows)
    for how in ("cordon run", "library"):
        all_us, none_us = (report.low(r[f"{how}, {TITLES[k]}"]["wall_us"]) for k in ("all", "none"))
        b.targets.at_most(f"{how}, all limits, x no limits", all_us / none_us, 1.1)


def own_children_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def bench_programs(b, found):
    """The same programs without limits and with all of them, turn by turn."""
    plain = found["cordon"]
    at = plain.index("run") + 1
    ways = {"bare": [], "no limits": plain, "all limits": plain[:at] + ALL + plain[at:]}
    programs = [p for p in workload.programs(b.work) if not p[0].startswith("find")]
    wall, whole = {}, {}
    for k in range(max(b.rounds // 15, 2)):
        for what, repetitions, argv in programs:
            # Who comes first is another one each time.
            for name in sorted(ways, key=lambda n, k=k: (list(ways).index(n) + k) % len(ways)):
                before = own_children_s()
                text = b.output(ways[name] + [f"{b.dir}/bench_inside", "program",
                                              str(repetitions)] + argv)
                # One more than asked for: the first, which warms up.
                whole.setdefault(what, {}).setdefault(name, []).append(
                    (own_children_s() - before) * 1e3 / (repetitions + 1))
                wall.setdefault(what, {}).setdefault(name, []).extend(
                    v / 1e3 for v in json.loads(text)["wall_us"])
    report.inside_table("Programs with limits: wall", "ms", wall)
    report.inside_table("The same: CPU time, with that of Cordon's own processes", "ms", whole)
    for what, r in wall.items():
        b.targets.at_most(f"{what}, all limits, x no limits",
                          report.low(r["all limits"]) / report.low(r["no limits"]), 1.03)


def cpu_ns(pid):
    """CPU time of any process, from its clock: to the nanosecond, readable for every user."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return 0


def wakes(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
            for line in f:
                if line.startswith("voluntary_ctxt_switches:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def own_processes(tops):
    """Cordon's: all but the command's."""
    return [pid for pid in weigh.members(tops) if weigh.name_of(pid) not in ("sleep", "sh")]


def wait_for(tops, count):
    until = time.monotonic() + weigh.START_S
    while sum(weigh.name_of(pid) == "sleep" for pid in weigh.members(tops)) < count:
        if time.monotonic() > until:
            raise SystemExit("bench: the sandboxes to be watched do not come up")
        time.sleep(0.05)


def bench_watch(b):
    """CPU time of supervisor and init while the command sleeps; all at once, in the same seconds."""
    trees = {
        "sleep": (1, ["/bin/sleep", "600"]),
        f"{TREE} sleeps": (TREE, ["/bin/sh", "-c", "sleep 600 & " * TREE + "wait"]),
    }
    runs = {}
    for what, (count, argv) in trees.items():
        for key, flags in FLAGS.items():
            p = b.start([b.cordon, "run", *flags, "--", *argv], stdin=subprocess.DEVNULL)
            runs[f"{what}, {TITLES[key]}"] = (p, count)
    for p, count in runs.values():
        wait_for([p.pid], count)
    time.sleep(PACE_S)
    own = {name: own_processes([p.pid]) for name, (p, _) in runs.items()}
    start = time.monotonic()
    before = {pid: (cpu_ns(pid), wakes(pid)) for pids in own.values() for pid in pids}
    time.sleep(WATCH_S)
    took = time.monotonic() - start
    rows = []
    for name, pids in own.items():
        cpu = sum(cpu_ns(pid) - before[pid][0] for pid in pids)
        woken = sum(wakes(pid) - before[pid][1] for pid in pids)
        percent = cpu / took / 1e7
        rows.append([name, f"{cpu / took / 1e6:.2f}", f"{percent:.3f}", f"{woken / took:.1f}",
                     f"{cpu / woken / 1e3:.0f}" if woken else "-"])
        b.targets.at_most(f"watching {name}", percent, 0.5, " %")
    for p, _ in runs.values():
        p.terminate()
    for p, _ in runs.values():
        p.wait()
    report.table(f"Supervisor and init over {took:.0f} s in which nothing happens",
                 ["", "CPU ms a second", "% of a CPU", "wake-ups a second", "us each"], rows)


def bounded(count):
    """So many that neither pids nor memory of this machine come near their end."""
    with open("/proc/sys/kernel/pid_max", encoding="ascii") as f:
        pids = int(f.read()) // 2 - len([n for n in os.listdir("/proc") if n.isdigit()])
    return max(min(count, pids // PIDS_EACH, weigh.meminfo()["MemAvailable"] // 2 // KB_EACH), 1)


def quiet_kernel_kb():
    """The kernel takes namespaces apart in the background; its memory when it has done so."""
    last = weigh.kernel_kb()
    until = time.monotonic() + QUIET_S
    while time.monotonic() < until:
        time.sleep(0.5)
        now = weigh.kernel_kb()
        if abs(now - last) < 512:
            return now
        last = now
    return last


def run_many(b, argv, count):
    p = b.start([f"{b.dir}/bench_many"] + argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def next_step():
        p.stdin.write("\n")
        p.stdin.flush()
        return json.loads(p.stdout.readline())

    p.stdout.readline()
    host = weigh.pss_kb(p.pid)
    before = quiet_kernel_kb()
    r = next_step()
    time.sleep(PACE_S)
    ours = own_processes([p.pid])
    start = time.monotonic()
    cpu = {pid: cpu_ns(pid) for pid in ours}
    time.sleep(MANY_IDLE_S)
    r["cpu"] = sum(cpu_ns(pid) - ns for pid, ns in cpu.items()) / (time.monotonic() - start) / 1e7
    r["cpu"] /= count
    r["kernel"] = (weigh.kernel_kb() - before) / count
    weight = {pid: weigh.pss_kb(pid) for pid in weigh.members([p.pid])}
    r["ours"] = (sum(weight[pid] for pid in ours) - host) / count
    r["guest"] = (sum(weight.values()) - sum(weight[pid] for pid in ours)) / count
    r.update(next_step())
    p.stdin.close()
    if p.wait() != 0:
        raise SystemExit("bench: many sandboxes: failed")
    p.stdout.close()
    return r


def bench_many(b):
    b.realtime = False
    results = {}
    for key in FLAGS:
        n = bounded(MANY)
        results[f"{n} library, {TITLES[key]}"] = run_many(b, ["library", str(n), key], n)
    for key in FLAGS:
        n = bounded(MANY_COMMANDS)
        argv = [b.cordon, "run", *FLAGS[key], "--", "/bin/sleep", "600"]
        results[f"{n} cordon run, {TITLES[key]}"] = run_many(b, ["command", str(n)] + argv, n)
    is_root = os.getuid() == 0
    rows = []
    for name, r in results.items():
        row = [name, f"{r['up_ms'] / 1e3:.2f}", f"{r['ended_ms'] / 1e3:.2f}", f"{r['cpu']:.3f}"]
        parts = [r["ours"], r["guest"], r["kernel"]]
        # Init cannot be read by the user it runs as, not even from outside. And what the kernel
        # keeps is the machine's: if others gave back more than this took, it says nothing.
        is_weighed = is_root and r["kernel"] > 0
        rows.append(row + [f"{v:.0f}" if is_weighed else "-" for v in parts + [sum(parts)]])
        b.targets.at_most(f"{name}, CPU of each", r["cpu"], 0.5, " %")
        if is_weighed:
            b.targets.at_most(f"{name}, memory of each", sum(parts), 1024, " kB")
    report.table("Sleeping sandboxes at once",
                 ["", "all run after s", "all ended after s", "% of a CPU each", "processes kB each",
                  "command kB", "kernel kB", "all kB"], rows)
