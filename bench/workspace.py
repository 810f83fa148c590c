# SPDX-License-Identifier: Apache-2.0
"""What a workspace costs: at the start, inside, and when its changes are listed and applied."""

import glob
import json
import os
import shutil
import subprocess
import sys

import contenders
import report
import workload

SMALL, LARGE = 10, 100_000
GIT_FILES = 10_000
UNPACKED = 5_000
BIG_MIB = 256
TOUCHED = 200
CHANGES = 50
COMMITTED = 1_000

# `first`: the view has just been made, and the kernel knows nothing of it yet; `again`: it does.
FIRST, AGAIN = "first", "again"


class Trees:
    """The directories that the workspaces are over."""

    def __init__(self, b):
        self.b = b
        self.top = f"{b.work}/ws"
        self.small = f"{self.top}/small"
        self.large = f"{self.top}/large"
        self.repo = f"{self.top}/repo"
        self.tar = f"{self.top}/unpack.tar"
        self.big = f"{self.top}/big"

    def make(self):
        workload.make_tree(self.small, SMALL)
        workload.make_tree(self.large, LARGE)
        workload.make_repository(self.repo, GIT_FILES)
        workload.make_tree(f"{self.top}/unpack", UNPACKED)
        subprocess.run(["tar", "-cf", self.tar, "-C", f"{self.top}/unpack", "."], check=True)
        os.mkdir(self.big)
        with open(f"{self.big}/file", "wb") as f:
            for _ in range(BIG_MIB):
                f.write(os.urandom(1 << 20))
        workload.make_tree(f"{self.big}/small", TOUCHED)

    def own(self, way):
        """What a way writes to, so that no other one finds it there."""
        top = f"{self.top}/own-{way.split()[0]}"
        if not os.path.exists(top):
            workload.make_project(f"{top}/project")
            workload.make_database(f"{top}/db")
            self.b.give_away(top)
        return top


def ways(b, trees):
    """How each way starts a command that may write to a directory."""
    readable = [f"{b.dir}/bench_inside", trees.tar]
    grants = [word for path in readable for word in ("-r", path)]

    def sandlock(base):
        run = contenders.sandlock_run(f"{b.dir}/sandlock", [], [b.dir, base])
        return run[:-1] + ["--workdir", base, "--on-exit", "abort", "--"]

    found = {
        "bare": lambda base: [],
        "write grant": lambda base: [b.cordon, "run", "-q", *grants, "-w", base, "--"],
        # Removed with all trees in the end: ext4 is slow to make files where many have just been removed.
        "workspace": lambda base: [b.cordon, "run", "-q", *grants, "--workspace", base, "--"],
    }
    if contenders.sandlock():
        found["sandlock --workdir"] = sandlock
    for name in list(found):
        if not b.works(found[name](trees.small) + ["/bin/true"]):
            print(f"bench: '{name}' does not work here, left out", file=sys.stderr)
            del found[name]
    return found


def milliseconds(samples):
    return f"{report.low(samples) / 1e3:.2f} / {report.mid(samples) / 1e3:.2f}"


def start_commands(b, trees):
    true, touch = ["/bin/true"], "/usr/bin/touch"
    run = [b.cordon, "run", "-q"]
    commands = {"bare": true, "cordon run": run + ["--"] + true}
    for n, base in ((SMALL, trees.small), (LARGE, trees.large)):
        commands[f"-w, {n:,} files"] = run + ["-w", base, "--"] + true
        commands[f"--workspace, {n:,} files"] = run + ["--workspace", base, "--"] + true
        commands[f"--workspace --on-exit discard, {n:,} files"] = (
            run + ["--workspace", base, "--on-exit", "discard", "--"] + true)
    commands["-w, touches a file"] = run + ["-w", trees.small, "--", touch, f"{trees.small}/new"]
    for n, base in ((SMALL, trees.small), (LARGE, trees.large)):
        commands[f"--workspace --on-exit discard, touches one of {n:,} files"] = (
            run + ["--workspace", base, "--on-exit", "discard", "--", touch, f"{base}/d0/f0.txt"])
    commands["--name, continued, touches a file"] = (
        run + ["--workspace", trees.small, "--name", "bench-start", "--", touch,
               f"{trees.small}/new"])
    return commands


def bench_start(b, trees, found, joined):
    commands = start_commands(b, trees)
    if "sandlock --workdir" in found:
        for n, base in ((SMALL, trees.small), (LARGE, trees.large)):
            commands[f"sandlock --workdir, {n:,} files"] = (
                found["sandlock --workdir"](base) + ["/bin/true"])
    names = {}
    for n, base in ((SMALL, trees.small), (LARGE, trees.large)):
        names[f"write:{base}"] = f"library, write grant, {n:,} files"
        names[f"workspace:{base}"] = f"library, workspace, {n:,} files"
    r = b.objects([f"{b.dir}/bench_launch", str(b.rounds), "0", ",".join(["library", *names])] +
                  joined(commands))
    r = {names.get(name, name): v for name, v in r.items()}
    rows = []
    for name, v in r.items():
        base = r["library" if name.startswith("library") else "cordon run"]["wall_us"]
        added = [f(v["wall_us"]) - f(base) for f in (report.low, report.mid)]
        is_ours = name != "bare" and not name.startswith("sandlock")
        rows.append([name] + [milliseconds(v[k]) for k in ("wall_us", "cpu_us")] +
                    [f"{added[0] / 1e3:+.2f} / {added[1] / 1e3:+.2f}" if is_ours else "-"])
    report.table(f"Start to end of /bin/true with a workspace, {b.rounds} rounds",
                 ["", "wall ms", "CPU ms", "added ms"], rows)
    for n in (SMALL, LARGE):
        for name, base in ((f"--workspace, {n:,} files", "cordon run"),
                           (f"--workspace --on-exit discard, {n:,} files", "cordon run"),
                           (f"library, workspace, {n:,} files", "library")):
            added = report.low(r[name]["wall_us"]) - report.low(r[base]["wall_us"])
            b.targets.at_most(f"start, {name}, added", added / 1e3, 1, " ms")


def programs(trees, way):
    """Name, repetitions, directory, command."""
    own = trees.own(way)
    find = ["/usr/bin/find", trees.large]
    unpack = f"exec tar -xf {trees.tar} -C $(mktemp -d {own}/out.XXXXXX)"
    return [
        (f"git status, {GIT_FILES:,} files", 5, trees.repo,
         ["/usr/bin/git", "-C", trees.repo, "status", "--short"]),
        ("make -j2, 8 C files", 2, own,
         ["/usr/bin/make", "-s", "-B", "-j2", "-C", f"{own}/project"]),
        (f"find -name, {LARGE:,} files", 2, trees.large, find + ["-name", "nothing"]),
        (f"find -size, {LARGE:,} files", 2, trees.large, find + ["-size", "+1M"]),
        (f"unpacking {UNPACKED:,} files", 1, own, ["/bin/sh", "-c", unpack]),
        (f"sqlite3, {workload.TRANSACTIONS} transactions", 5, own,
         ["/usr/bin/sqlite3", f"{own}/db/test.db", f".read {own}/db/script.sql"]),
    ]


def timed(b, prefix, repetitions, argv):
    return json.loads(b.output(prefix + [f"{b.dir}/bench_inside", "each", str(repetitions)] + argv))


def clean(b, trees):
    """Off the clock, and not before everything was measured that makes files."""
    for path in glob.glob(f"{trees.top}/own-*/out.*"):
        shutil.rmtree(path)
    b.output([b.cordon, "workspace", "gc", "--older-than", "0"])


def inside_rows(results):
    names = list(next(iter(results.values())))
    rows = []
    for what, r in results.items():
        bare, grant = r["bare"], r["write grant"]
        row = [what, f"{report.number(report.low(bare))} / {report.number(report.mid(bare))}"]
        for name in names[1:]:
            v = r.get(name)
            row.append(report.pair(v, {"v": bare}, "v") if v else "-")
        rows.append(row + [report.pair(r["workspace"], {"v": grant}, "v")])
    return names, rows


def bench_inside(b, trees, found):
    wall, cpu = {}, {}
    for k in range(max(b.rounds // 30, 3)):
        order = list(found)
        order = order[k % len(order):] + order[:k % len(order)]
        for way in order:
            # A peer that traps each call would take most of the time for itself.
            if way.startswith("sandlock") and k > 0:
                continue
            for what, n, base, argv in programs(trees, way):
                r = timed(b, found[way](base), 2 if way.startswith("sandlock") else n + 1, argv)
                for kept, key in ((wall, "wall_us"), (cpu, "cpu_us")):
                    v = [us / 1e3 for us in r[key]]
                    for when, part in ((FIRST, v[:1]), (AGAIN, v[1:])):
                        kept.setdefault(when, {}).setdefault(what, {}).setdefault(
                            way, []).extend(part)
    for kept, unit in ((wall, "wall"), (cpu, "CPU time")):
        for when in (AGAIN, FIRST):
            for r in kept[when].values():  # always in the same order
                r.update({way: r.pop(way) for way in found})
            names, rows = inside_rows(kept[when])
            report.table(f"Programs in a workspace, {when}: {unit}",
                         ["", "bare ms"] + [f"{n} x" for n in names[1:]] +
                         ["workspace x write grant"], rows)
    for when in (AGAIN, FIRST):
        for what, r in wall[when].items():
            b.targets.at_most(f"{what}, {when}, x write grant",
                              report.low(r["workspace"]) / report.low(r["write grant"]), 1.1)


def bench_first_write(b, trees, found):
    """A file of the base is copied when it is first written to; big ones take their time."""
    things = {
        f"a byte appended to {BIG_MIB} MiB": f"echo >> {trees.big}/file",
        f"a byte appended to {TOUCHED} small files":
            f"for f in {trees.big}/small/*/*; do echo >> $f; done",
        f"mode of {TOUCHED} small files":
            f"exec chmod 640 {trees.big}/small/*/*",
    }
    results = {}
    for _ in range(max(b.rounds // 30, 3)):
        for what, script in things.items():
            for way, prefix in found.items():
                r = timed(b, prefix(trees.big), 2, ["/bin/sh", "-c", script])
                kept = results.setdefault(what, {}).setdefault(way, ([], []))
                for k in range(2):
                    kept[k].append(r["wall_us"][k])
    rows = [[what] + [f"{milliseconds(v[0])}, then {milliseconds(v[1])}" for v in r.values()]
            for what, r in results.items()]
    report.table("First write to files of the base, ms, then once more", [""] + list(found), rows)


class Workspaces:
    """Makes named workspaces with changes in them, and measures the verbs."""

    def __init__(self, b, trees):
        self.b = b
        self.trees = trees
        self.samples = {}

    def change(self, name, base, script):
        b = self.b
        b.output([b.cordon, "run", "-q", "-r", self.trees.tar, "--workspace", base, "--name", name,
                  "-C", base, "--", "/bin/sh", "-ec", script])

    def time(self, what, *argv):
        r = timed(self.b, [], 1, list(argv))
        self.samples.setdefault(what, []).extend(r["wall_us"])

    def verb(self, what, *words):
        self.time(what, self.b.cordon, "workspace", *words)

    def low(self, what):
        return report.low(self.samples[what])

    def show(self, title, note=None, peers=None):
        """peers: {what: the row it is compared with}"""
        rows = []
        for what, v in self.samples.items():
            peer = (peers or {}).get(what)
            rows.append([what, milliseconds(v),
                         report.pair(v, self.samples and {"v": self.samples[peer]}, "v")
                         if peer else "-"])
        report.table(title, ["", "wall ms", "x the plain tool"], rows, note)


CHANGE_50 = """
for i in 0 1 2 3 4 5 6 7 8 9; do
    echo more >> d$i/f$((i)).txt; echo new > d$i/new.txt; rm d$i/f$((i + 1000)).txt
    chmod 600 d$i/f$((i + 2000)).txt; mv d$i/f$((i + 3000)).txt d$i/moved.txt
done
"""


def bench_diff(b, trees):
    w = Workspaces(b, trees)
    w.change("bench-diff", trees.large, CHANGE_50)
    for _ in range(max(b.rounds // 5, 5)):
        for flags in ([], ["--json"], ["--stat"], ["--patch"]):
            w.verb(" ".join(["diff"] + flags), "diff", "bench-diff", *flags)
        w.verb("status", "status", "bench-diff")
        w.verb("list", "list")
        w.time("find -size over the base", "/usr/bin/find", trees.large, "-size", "+1M")
    w.show(f"What changed: {CHANGES} changes over {LARGE:,} files")
    b.targets.at_most(f"diff, {CHANGES} changes, {LARGE:,} files", w.low("diff") / 1e3, 50, " ms")
    b.output([b.cordon, "workspace", "discard", "bench-diff"])


def commit_round(b, w, top):
    """Every round has a place of its own, where nothing was removed before (see spread())."""
    what = f"{COMMITTED:,} %s files"
    workload.make_tree(f"{top}/source", COMMITTED)
    workload.make_tree(f"{top}/base/old", COMMITTED)
    b.give_away(top)

    def commit(kind, script):
        w.change("bench-commit", f"{top}/base", script)
        w.verb(f"commit, {what % kind}", "commit", "bench-commit", "--json")

    w.time("cp -a of them", "/bin/cp", "-a", f"{top}/source", f"{top}/copy")
    commit("new", "cp -r old new")
    w.time("cp -a over them", "/bin/cp", "-a", f"{top}/source/.", f"{top}/copy")
    commit("modified", "for f in old/*/*; do echo modified > $f; done")
    w.time("cp -a and sync -f", "/bin/sh", "-c",
           f"cp -a {top}/source {top}/copy2 && exec sync -f {top}")
    w.time("rm -r of them", "/bin/rm", "-r", f"{top}/copy")
    commit("deleted", "rm -r new/*")
    b.output([b.cordon, "workspace", "discard", "bench-commit"])


def bench_commit(b, trees):
    w = Workspaces(b, trees)
    top = f"{trees.top}/commit"
    os.mkdir(top)
    workload.spread(top)
    for k in range(max(b.rounds // 15, 4)):
        commit_round(b, w, f"{top}/{k}")
    new, modified, deleted = (f"commit, {COMMITTED:,} {kind} files"
                              for kind in ("new", "modified", "deleted"))
    w.show(f"Commit of {COMMITTED:,} small files", peers={
        new: "cp -a of them", modified: "cp -a of them", deleted: "rm -r of them",
        "cp -a over them": "cp -a of them", "cp -a and sync -f": "cp -a of them"})
    for what in (new, modified):
        b.targets.at_most(f"{what}, x cp -a", w.low(what) / w.low("cp -a of them"), 3)


def bench_removal(b, trees):
    w = Workspaces(b, trees)
    base = trees.own("workspace")
    unpack = f"mkdir out && tar -xf {trees.tar} -C out"
    for _ in range(max(b.rounds // 15, 4)):
        for name in ("bench-discard", "bench-gc"):
            w.change(name, base, unpack)
        w.verb(f"discard, {UNPACKED:,} files", "discard", "bench-discard")
        w.verb(f"gc, {UNPACKED:,} files", "gc", "--older-than", "0")
        subprocess.run(["tar", "-xf", trees.tar, "-C", f"{base}/project"], check=True)
        b.give_away(f"{base}/project")
        w.time("rm -r of them", "/bin/sh", "-c", f"exec rm -r {base}/project/d*")
    w.show(f"Away with {UNPACKED:,} files",
           peers={f"{v}, {UNPACKED:,} files": "rm -r of them" for v in ("discard", "gc")})


def bench(b, joined):
    trees = Trees(b)
    trees.make()
    b.give_away()
    found = ways(b, trees)
    if "workspace" not in found:
        raise SystemExit("bench: workspaces do not work here")
    if "sandlock --workdir" not in found:
        print("\nNo sandlock here: its columns are left out (see docs/benchmarks.md).")
    bench_start(b, trees, found, joined)
    bench_inside(b, trees, found)
    bench_first_write(b, trees, found)
    clean(b, trees)
    bench_diff(b, trees)
    bench_removal(b, trees)
    bench_commit(b, trees)
