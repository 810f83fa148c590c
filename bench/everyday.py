# SPDX-License-Identifier: Apache-2.0
"""What people feel: ratios, each with its aim, that are followed from change to change (reference.py)."""

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


def bench(b, joined):
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
    for name, value in e.figures.items():
        b.figures.put(name, value, AIMS[name])
        b.targets.at_most(name, value, AIMS[name])
