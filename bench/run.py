#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures Cordon beside bare processes, bubblewrap and (where installed) sandlock.

All contenders of a table take turns, round by round, so that noise hits all alike. Each figure is
"minimum / median". The measured programs run as an ordinary user: started by root, they get the
uid 20001, and a short table follows in which root is the caller. See docs/benchmarks.md.
"""

import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the source directory stays clean

import contenders
import everyday
import limits
import mcp
import net
import picture
import python
import reference
import report
import weigh
import workload
import workspace

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
BENCH_UID = 20001
PROGRAMS = {
    "bench_launch": [],
    "bench_load": ["-pthread"],
    "bench_idle": [],
    "bench_layers": [],
    "bench_many": [],
    "bench_inside": None,
    "bench_net": None,
}


class Bench:
    def __init__(self, build, rounds, realtime, place="/var/tmp"):
        self.rounds = rounds
        self.realtime = realtime
        self.dir = tempfile.mkdtemp(prefix="cordon-bench-", dir=place)
        os.chmod(self.dir, 0o755)
        workload.spread(self.dir)
        self.work = f"{self.dir}/work"
        self.home = f"{self.dir}/home"
        self.cordon = f"{self.dir}/cordon"
        self.targets = report.Targets()
        self.figures = reference.Figures()
        shutil.copy(f"{build}/cmd/cordon/cordon", self.cordon)
        if contenders.sandlock():
            shutil.copy(contenders.sandlock(), f"{self.dir}/sandlock")
        self.compile(build)
        for path in (self.work, self.home):
            os.mkdir(path)
        self.is_root = os.getuid() == 0

    def compile(self, build):
        libraries = [a for a in sorted(glob.glob(f"{build}/src/libcordon-*.a"))
                     if "fault" not in a]
        flags = ["-std=gnu17", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra",
                 f"-I{TOP}/include", f"-I{TOP}/src", f"-I{HERE}"]
        for name, extra in PROGRAMS.items():
            sources = [f"{HERE}/{name}.c"]
            link = []
            if extra is not None:
                sources.append(f"{HERE}/common.c")
                link = extra + ["-Wl,--start-group"] + libraries + ["-Wl,--end-group"]
            subprocess.run(["gcc"] + flags + ["-o", f"{self.dir}/{name}"] + sources + link,
                           check=True)
        subprocess.run(["gcc", "-O2", "-static", "-nostdlib", "-o", f"{self.dir}/nolibc",
                        f"{HERE}/payload_nolibc.c"], check=True)

    def give_away(self, *paths):
        if self.is_root:
            subprocess.run(["chown", "-R", f"{BENCH_UID}:{BENCH_UID}",
                            *(paths or (self.work, self.home))], check=True)

    def drop(self):
        if not self.is_root:
            return []
        return ["setpriv", f"--reuid={BENCH_UID}", f"--regid={BENCH_UID}", "--clear-groups"]

    def env(self):
        return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": self.home, "LANG": "C.UTF-8"}

    def start(self, argv, as_root=False, **keywords):
        return subprocess.Popen(([] if as_root else self.drop()) + argv, cwd=self.work,
                                env=self.env(), text=True, **keywords)

    def prefix(self, as_root=False):
        return (["chrt", "-r", "5"] if self.realtime else []) + ([] if as_root else self.drop())

    def output(self, argv, as_root=False):
        process = self.start(self.prefix(as_root) + argv, True, stdout=subprocess.PIPE,
                             stdin=subprocess.DEVNULL)
        text = process.communicate()[0]
        if process.returncode != 0:
            raise SystemExit(f"bench: {' '.join(argv)[:200]}: exit status {process.returncode}")
        return text

    def objects(self, argv, as_root=False):
        lines = self.output(argv, as_root).splitlines()
        return {o["name"]: o for o in map(json.loads, lines)}

    def works(self, argv, as_root=False):
        process = self.start(argv, as_root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return process.wait() == 0


def joined(commands):
    words = []
    for name, argv in commands.items():
        words += [name] + argv + [";"]
    return words


def peers(b, payload, as_root=False):
    """The commands that run on this machine, in the order of the table."""
    found = {"bare": payload}
    bwrap = contenders.bwrap()
    if bwrap:
        plan = json.loads(b.output([b.cordon, "run", "--dry-run", "--"] + payload, as_root))
        found["bwrap"] = [bwrap] + contenders.BWRAP_ALL + payload
        found["bwrap, same mounts"] = [bwrap] + contenders.bwrap_like_cordon(plan) + payload
    if contenders.sandlock() and not as_root:
        found["sandlock"] = contenders.sandlock_run(f"{b.dir}/sandlock", [b.work]) + payload
    found["cordon run"] = [b.cordon, "run", "--"] + payload
    for name in list(found):
        if not b.works(found[name], as_root):
            print(f"bench: '{name}' does not work here, left out", file=sys.stderr)
            del found[name]
    return found


def machine():
    return f"Linux {os.uname().release.split('-')[0]}, {os.cpu_count()} cores"


def bench_start(b, with_stages, picture_path):
    commands = peers(b, ["/bin/true"])
    commands["bare, no libc"] = [f"{b.dir}/nolibc"]
    commands["cordon run, no libc"] = [b.cordon, "run", "--", f"{b.dir}/nolibc"]
    program = f"{b.dir}/bench_launch"
    r = b.objects([program, str(b.rounds), "0", "library,parked,plan"] + joined(commands))
    report.start_table(f"Start to end of /bin/true, {b.rounds} rounds", r)
    how = ", real-time priority" if b.realtime else ""
    picture.start_up(r, f"{machine()}, {b.rounds} rounds{how}", picture_path)
    low, t = report.low, b.targets
    wall = {name: low(v["wall_us"]) for name, v in r.items()}
    cpu = {name: low(v["cpu_us"]) for name, v in r.items()}
    if "bwrap" in r:
        t.at_most("cordon run, wall x bwrap", wall["cordon run"] / wall["bwrap"], 0.7)
        t.at_most("cordon run, CPU x bwrap", cpu["cordon run"] / cpu["bwrap"], 0.7)
    if "sandlock" in r:
        t.at_most("cordon run, wall x sandlock", wall["cordon run"] / wall["sandlock"], 0.55)
    t.at_most("library, x bare", wall["library"] / wall["bare"], 3)
    t.at_most("parked, x bare", wall["parked"] / wall["bare"], 1.6)
    print(f"\nPlanning alone: {low(r['plan']['wall_us']):.0f} / "
          f"{report.mid(r['plan']['wall_us']):.0f} us.")
    if with_stages:
        report.stage_table("Stages of a library run", r["library"])
        report.stage_table("Stages of a run from a parked init", r["parked"])
        show_verbose(b)


def show_verbose(b):
    print("\n## cordon run -v -- /bin/true\n", flush=True)
    b.start([b.cordon, "run", "-v", "--", "/bin/true"], stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT).wait()


def bench_resident(b):
    program = f"{b.dir}/bench_launch"
    rounds = str(b.rounds)
    r = b.objects([program, rounds, "1024", "library,parked", "bare", "/bin/true"])
    report.start_table("The same from a caller with 1 GiB resident", r)
    b.targets.at_most("library with 1 GiB, x bare",
                      report.low(r["library"]["wall_us"]) / report.low(r["bare"]["wall_us"]), 3)


def bench_root(b):
    commands = peers(b, ["/bin/true"], as_root=True)
    r = b.objects([f"{b.dir}/bench_launch", str(max(b.rounds // 3, 10)), "0", "library,parked"] +
                  joined(commands), as_root=True)
    report.start_table("Started by root", r)


def bench_load(b):
    b.realtime = False  # would starve the kernel's own threads that take namespaces apart
    commands = peers(b, ["/bin/true"])
    r = b.objects([f"{b.dir}/bench_load", "2", "6", "400"] + joined(commands))
    bare = report.mid(r["bare"]["per_s"])
    rows = [[name, f"{max(v['per_s']):.0f} / {report.mid(v['per_s']):.0f}",
             report.ratio(report.mid(v["per_s"]), bare)] for name, v in r.items()]
    report.table(f"Runs per second, 2 callers, {os.cpu_count()} cores",
                 ["", "best / median", "x bare"], rows)
    b.targets.at_least("runs/s, 2 library callers", max(r["library"]["per_s"]), 450)


def inside_commands(b):
    """How each contender starts a command that may write to the working directory."""
    found = {"bare": [], "layers": [f"{b.dir}/bench_layers", b.work]}
    bwrap = contenders.bwrap()
    if bwrap:
        found["bwrap"] = [bwrap] + contenders.BWRAP_ALL + ["--tmpfs", "/tmp",
                                                          "--bind", b.work, b.work]
    if contenders.sandlock():
        found["sandlock"] = contenders.sandlock_run(f"{b.dir}/sandlock", [b.work], [b.dir])
    found["cordon"] = [b.cordon, "run", "-q", "-r", f"{b.dir}/bench_inside", "-w", b.work, "--"]
    for name in list(found):
        if not b.works(found[name] + ["/bin/true"]):
            print(f"bench: '{name}' does not work here, left out", file=sys.stderr)
            del found[name]
    return found


def bench_calls(b):
    found = inside_commands(b)
    rounds = max(b.rounds // 20, 2)
    file = f"{b.work}/project/main.c"
    results = {}
    for _ in range(rounds):
        for name, prefix in found.items():
            text = b.output(prefix + [f"{b.dir}/bench_inside", "calls", "10", file])
            for what, samples in json.loads(text).items():
                results.setdefault(what, {}).setdefault(name, []).extend(samples)
    report.inside_table("System calls inside", "ns", results,
                        "`layers` is Landlock and seccomp alone, with the rules of the same plan.")
    for what, r in results.items():
        if "layers" in r and "cordon" in r:
            b.targets.at_most(f"{what}, x layers",
                              report.low(r["cordon"]) / report.low(r["layers"]), 1.1)


def bench_programs(b):
    found = inside_commands(b)
    rounds = max(b.rounds // 25, 2)
    wall, cpu = {}, {}
    for k in range(rounds):
        for what, repetitions, argv in workload.programs(b.work):
            for name, prefix in found.items():
                # A peer that traps each call would take most of the time for itself.
                if name == "sandlock" and k > 0:
                    continue
                n = 1 if name == "sandlock" else repetitions
                text = b.output(prefix + [f"{b.dir}/bench_inside", "program", str(n)] + argv)
                r = json.loads(text)
                wall.setdefault(what, {}).setdefault(name, []).extend(
                    v / 1e3 for v in r["wall_us"])
                cpu.setdefault(what, {}).setdefault(name, []).extend(v / 1e3 for v in r["cpu_us"])
    report.inside_table("Programs inside, start-up of the sandbox not counted: wall", "ms", wall)
    report.inside_table("The same: CPU time", "ms", cpu)
    for what, r in wall.items():
        if not what.startswith("find"):
            # The same statistic as every other target: the ratio of the wall minimums.
            b.targets.at_most(f"{what}, x bare",
                              report.low(r["cordon"]) / report.low(r["bare"]), 1.03)


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", default="build/release", help="build directory of meson")
    p.add_argument("--rounds", type=int, default=int(os.environ.get("ROUNDS", "150")),
                   help="rounds of the start-up tables (or variable ROUNDS; default 150)")
    p.add_argument("--dir", default="/var/tmp", help="where to make what is measured")
    p.add_argument("--stages", action="store_true", help="show where a start spends its time")
    p.add_argument("--picture", metavar="FILE",
                   help="where to draw the start-up times (default: bench/start-up.svg beside "
                        "the build directory)")
    p.add_argument("--realtime", action="store_true",
                   help="real-time priority, so that other load blurs less (root only)")
    p.add_argument("--only",
                   default="start,everyday,resident,root,calls,programs,load,idle,limits,watch,many,net,"
                           "workspace,python,mcp",
                   help="comma-separated parts to run")
    p.add_argument("--update", action="store_true",
                   help="make the figures of this run the reference (bench/ratios.tsv); those of "
                        "parts that do not run stay")
    return p.parse_args()


def main():
    args = parse_arguments()
    started = time.monotonic()
    b = Bench(os.path.abspath(args.build), max(args.rounds, 10), args.realtime,
              os.path.abspath(args.dir))
    parts = args.only.split(",")
    try:
        if {"calls", "programs", "limits"} & set(parts):
            workload.make_all(b.work)
        b.give_away()
        print(f"{machine()}, load {os.getloadavg()[0]:.1f}; "
              "each figure is minimum / median")
        if "start" in parts:
            bench_start(b, args.stages, args.picture or
                        os.path.join(os.path.dirname(os.path.abspath(args.build)),
                                     "bench", "start-up.svg"))
        if "everyday" in parts:
            everyday.bench(b, joined)
        if "resident" in parts:
            bench_resident(b)
        if "root" in parts and b.is_root:
            bench_root(b)
        if "calls" in parts:
            bench_calls(b)
        if "programs" in parts:
            bench_programs(b)
        if "load" in parts:
            bench_load(b)
        if "idle" in parts:
            weigh.bench_idle(b)
        if "limits" in parts:
            limits.bench_start(b, joined)
            limits.bench_programs(b, inside_commands(b))
        if "watch" in parts:
            limits.bench_watch(b)
        if "many" in parts:
            limits.bench_many(b)
        if "net" in parts:
            net.bench(b, joined)
        if "workspace" in parts:
            workspace.bench(b, joined)
        if "python" in parts:
            python.bench_python(b)
        if "mcp" in parts:
            mcp.bench(b)
        b.figures.show()
        if args.update:
            b.figures.write()
        b.targets.show()
        print(f"\n{time.monotonic() - started:.0f} s in all")
    finally:
        shutil.rmtree(b.dir, ignore_errors=True)


if __name__ == "__main__":
    main()
