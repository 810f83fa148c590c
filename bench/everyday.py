# SPDX-License-Identifier: Apache-2.0
"""What people feel: one table of ratios, each with its aim and with the figure of the last change.

The committed figures (bench/ratios.tsv) are the reference. A ratio that moved by more than 5 % is
named, so that a loss is seen in the change that causes it."""

import json
import os
import shutil
import subprocess
import tempfile
import time

import contenders
import report
import weigh
import workload

HERE = os.path.dirname(os.path.abspath(__file__))
REFERENCE = os.path.join(HERE, "ratios.tsv")
MOVED = 0.05
DOCUMENTS = "/usr/share/doc"

# The row, and what it should reach.
AIMS = {
    "start: cordon run / bwrap": 0.62,
    "start: -w, a plain directory / bwrap": 0.75,
    "start: -w, a repository / bwrap": 0.75,
    "start: --workspace, discarded / bwrap": 0.9,
    "start: -m 512M / bwrap": 0.75,
    "start: --net-allow / bwrap": 0.85,
    "output: find / bwrap": 1.0,
    "sqlite3 in a write grant / bwrap": 1.0,
    "git status in a write grant / bare": 1.45,
    "git status in a workspace / bare": 1.6,
    "idle: our processes, kB": 150,
}


class Everyday:
    def __init__(self, b):
        self.b = b
        self.plain = f"{b.work}/everyday/plain"
        self.repo = f"{b.work}/everyday/repo"
        self.db = f"{b.work}/everyday/db"
        # Write grants of the start-up rows lie in memory. On a disk it is the disk that takes the time to make
        # and remove a dozen directories; one without a journal also passes over every inode that was removed in
        # the last minutes, so that these rows would slow each other down.
        self.memory = tempfile.mkdtemp(prefix="cordon-bench-", dir="/dev/shm")
        self.figures = {}

    def make(self):
        workload.make_tree(f"{self.memory}/plain", 10)
        workload.make_repository(f"{self.memory}/repo")
        self.b.give_away(self.memory)
        workload.make_tree(self.plain, 10)
        workload.make_repository(self.repo)
        workload.make_database(self.db)
        self.b.give_away(f"{self.b.work}/everyday")

    def run(self, *flags):
        return [self.b.cordon, "run", "-q", *flags, "--"]

    def bwrap(self, *writable):
        binds = [word for path in writable for word in ("--bind", path, path)]
        return [contenders.bwrap()] + contenders.BWRAP_ALL + ["--tmpfs", "/tmp"] + binds

    def put(self, name, ours, peer):
        self.figures[name] = report.low(ours) / report.low(peer)

    def bench_start(self, joined):
        b = self.b
        ours = {
            "cordon run": self.run(),
            "-w, a plain directory": self.run("-w", f"{self.memory}/plain"),
            "-w, a repository": self.run("-w", f"{self.memory}/repo"),
            "--workspace, discarded": self.run("--workspace", self.plain, "--on-exit", "discard"),
            "-m 512M": self.run("-m", "512M"),
            "--net-allow": self.run("--net-allow", "example.com"),
        }
        commands = {"bwrap": [contenders.bwrap()] + contenders.BWRAP_ALL, **ours}
        r = b.objects([f"{b.dir}/bench_launch", str(b.rounds), "0", "plan"] +
                      joined({name: argv + ["/bin/true"] for name, argv in commands.items()}))
        for name in ours:
            self.put(f"start: {name} / bwrap", r[name]["wall_us"], r["bwrap"]["wall_us"])

    def whole_ms(self, argv):
        """A whole run whose output goes through a pipe."""
        b = self.b
        start = time.perf_counter_ns()
        process = b.start(b.prefix() + argv, True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE)
        while os.read(process.stdout.fileno(), 1 << 16):
            pass
        if process.wait() != 0:
            raise SystemExit(f"bench: {' '.join(argv)[:200]}: exit status {process.returncode}")
        process.stdout.close()
        return (time.perf_counter_ns() - start) / 1e6

    def bench_output(self):
        ways = {"bwrap": self.bwrap(), "cordon": self.run()}
        times = {name: [] for name in ways}
        for _ in range(max(self.b.rounds // 5, 5)):
            for name, prefix in ways.items():
                times[name].append(self.whole_ms(prefix + ["/usr/bin/find", DOCUMENTS]))
        self.put("output: find / bwrap", times["cordon"], times["bwrap"])

    def inside_us(self, prefix, repetitions, argv):
        b = self.b
        text = b.output(prefix + [f"{b.dir}/bench_inside", "program", str(repetitions)] + argv)
        return json.loads(text)["wall_us"]

    def bench_inside(self):
        reader = ("-r", f"{self.b.dir}/bench_inside")
        sqlite = ["/usr/bin/sqlite3", f"{self.db}/test.db", f".read {self.db}/script.sql"]
        git = ["/usr/bin/git", "-C", self.repo, "status", "--short"]
        ways = {
            "sqlite bwrap": (self.bwrap(self.db), 4, sqlite),
            "sqlite grant": (self.run(*reader, "-w", self.db), 4, sqlite),
            "git bare": ([], 8, git),
            "git grant": (self.run(*reader, "-w", self.repo), 8, git),
            "git workspace": (self.run(*reader, "--workspace", self.repo, "--on-exit", "discard"),
                              8, git),
        }
        times = {name: [] for name in ways}
        for _ in range(max(self.b.rounds // 20, 3)):
            for name, (prefix, repetitions, argv) in ways.items():
                times[name] += self.inside_us(prefix, repetitions, argv)
        self.put("sqlite3 in a write grant / bwrap", times["sqlite grant"], times["sqlite bwrap"])
        self.put("git status in a write grant / bare", times["git grant"], times["git bare"])
        self.put("git status in a workspace / bare", times["git workspace"], times["git bare"])

    def bench_idle(self):
        if not self.b.is_root:
            return  # init cannot be read by the user it runs as
        weights = [weigh.weigh_commands(self.b, self.run() + ["/bin/sleep", "600"])[0]
                   for _ in range(2)]
        self.figures["idle: our processes, kB"] = min(weights)


def read_reference():
    try:
        with open(REFERENCE, encoding="utf-8") as f:
            rows = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
    except FileNotFoundError:
        return {}
    return {name: float(value) for name, value in rows}


def write_reference(figures):
    with open(REFERENCE, "w", encoding="utf-8") as f:
        f.write("# Written by `make bench-update`; `make bench` compares with it.\n")
        for name, value in figures.items():
            f.write(f"{name}\t{value:.2f}\n")


def change(before, now):
    if before is None:
        return "new"
    moved = now / before - 1
    if abs(moved) <= MOVED:
        return ""
    return f"{moved:+.0%} {'SLOWER' if moved > 0 else 'better'}"


def bench(b, joined, is_update):
    if not contenders.bwrap():
        print("\nNo bwrap here: the table of everyday use is left out.")
        return
    e = Everyday(b)
    try:
        e.make()
        e.bench_start(joined)
        e.bench_output()
        e.bench_inside()
        e.bench_idle()
    finally:
        shutil.rmtree(e.memory)
    reference = read_reference()
    rows = []
    for name, value in e.figures.items():
        before = reference.get(name)
        rows.append([name, f"{value:.2f}", f"{before:.2f}" if before else "-",
                     change(before, value), f"<= {AIMS[name]}"])
        b.targets.at_most(name, value, AIMS[name])
    report.table("Everyday use: ratios of the minimums", ["", "now", "committed", "moved", "aim"],
                 rows)
    if is_update:
        write_reference(e.figures)
        print(f"\nWritten: {os.path.relpath(REFERENCE)}")
