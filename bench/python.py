# SPDX-License-Identifier: Apache-2.0
"""The Python package beside plain subprocess and beside sandlock's package, which gets a virtual
environment of its own if the package index has it. Part of bench/run.py."""

import functools
import glob
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time

import contenders
import report
import weigh

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
MANY = 1000
GRADED = 500
FORKED_MIB = 200
HELD = 20
SETTLE_S = 0.5
START_S = 20
# The contenders of one table. What stands behind "numpy and pandas" is asked less often: it takes a second.
BARE, FLOOR, WARM = "python3 -I -c", "fork of a plain process", "run_code, warm"
LARGE_BARE, LARGE_WARM = f"numpy and pandas, {BARE}", f"numpy and pandas, {WARM}"


class Worker:
    """A process that measures one round for each request."""

    def __init__(self, b, python, program, *arguments):
        self.process = b.start([python, f"{b.dir}/{program}.py", *map(str, arguments)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"bench: '{request}' failed")
        return float(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def make_venv(b, name, requirement, *arguments):
    """The interpreter of a new virtual environment with one package; None if that fails."""
    path = f"{b.dir}/{name}"
    subprocess.run(["/usr/bin/python3", "-m", "venv", path], check=True)
    pip = [f"{path}/bin/pip", "-q", "--disable-pip-version-check", "install", *arguments]
    done = subprocess.run(pip + [requirement], stdin=subprocess.DEVNULL, capture_output=True,
                          check=False)
    return f"{path}/bin/python" if done.returncode == 0 else None


@functools.lru_cache
def wheel():
    """That of the present source: one that lies there may be older."""
    subprocess.run([f"{TOP}/tools/wheel.sh"], check=True, stdout=sys.stderr)
    return sorted(glob.glob(f"{TOP}/build/python/dist/pycordon-*.whl"))[-1]


def measure(workers, names, rounds, seldom=()):
    """All contenders take turns, in an order that is shuffled anew each time; those in `seldom` in each
    fourth round. name -> milliseconds of each round."""
    samples = {name: [] for name in names}
    for name, worker in names.items():
        workers[worker].ask(name)  # once, for what is only done once
    order = list(names.items())
    for k in range(rounds):
        random.shuffle(order)
        for name, worker in order:
            if k % 4 == 0 or name not in seldom:
                samples[name].append(workers[worker].ask(name))
    return samples


def show(title, samples, base):
    rows = []
    for name, got in samples.items():
        rows.append([name, f"{report.low(got):.2f} / {report.mid(got):.2f}",
                     report.ratio(report.low(got), report.low(samples[base])),
                     report.ratio(report.mid(got), report.mid(samples[base]))])
    report.table(title, ["", "wall ms", f"x {base}, minimum", "median"], rows)


def start(b, pythons, mib):
    return {what: Worker(b, python, "python_worker", what, mib) for what, python in pythons.items()}


def close(workers):
    for worker in workers.values():
        worker.close()


def bench_calls(b, pythons, mib, title):
    names = {"subprocess": "cordon", "Sandbox.run": "cordon", "Sandbox.run, fresh": "cordon",
             "Sandbox.run, parked": "cordon", "Pool.run": "cordon"}
    if "sandlock" in pythons:
        names["sandlock"] = "sandlock"
    workers = start(b, pythons, mib)
    samples = measure(workers, names, b.rounds)
    close(workers)
    show(title, samples, "subprocess")
    return {name: report.low(got) for name, got in samples.items()}


def with_large(b):
    """An interpreter that has numpy and pandas, or None."""
    python = make_venv(b, "venv-large", wheel())
    pip = [f"{os.path.dirname(python)}/pip", "-q", "--disable-pip-version-check", "install", "numpy", "pandas"]
    if subprocess.run(pip, stdin=subprocess.DEVNULL, check=False).returncode != 0:
        print("bench: numpy and pandas are not to be had, left out", file=sys.stderr)
        return None
    return python


def whole_programs(b, python):
    """The same program without a sandbox and in those of others, as commands."""
    bare = [python, "-I", "-c", "print(1)"]
    found = {BARE: bare}
    if contenders.bwrap():
        found["bwrap, python3 -I -c"] = [contenders.bwrap(), *contenders.BWRAP_ALL, *bare]
    if contenders.sandlock():
        found["sandlock, python3 -I -c"] = contenders.sandlock_run(f"{b.dir}/sandlock", [b.work], [b.dir]) + bare
    for name in list(found):
        if not b.works(found[name]):
            print(f"bench: '{name}' does not work here, left out", file=sys.stderr)
            del found[name]
    return found


def bench_starts(b, pythons):
    """From the call until print(1) has run and its output is here. What has numpy and pandas is compared with
    the bare interpreter that imports them, too."""
    commands = whole_programs(b, pythons["cordon"])
    names = {**dict.fromkeys(commands, "commands"), FLOOR: "floor",
             **dict.fromkeys(("run_code, cold", "run_code, parked", WARM), "cordon")}
    workers = start(b, {"cordon": pythons["cordon"]}, 0)
    workers["floor"] = Worker(b, pythons["cordon"], "python_floor")
    workers["commands"] = Worker(b, pythons["cordon"], "python_worker", "commands", 0, json.dumps(commands))
    if "sandlock" in pythons:
        names["sandlock's package, python3 -I -c"] = "sandlock"
        workers.update(start(b, {"sandlock": pythons["sandlock"]}, 0))
    large = with_large(b)
    if large is not None:
        names.update(dict.fromkeys((LARGE_BARE, LARGE_WARM), "large"))
        workers.update(start(b, {"large": large}, 0))
    samples = measure(workers, names, max(12, b.rounds // 2), (LARGE_BARE, LARGE_WARM))
    close(workers)
    low = {name: report.low(got) for name, got in samples.items()}
    mid = {name: report.mid(got) for name, got in samples.items()}
    rows = []
    for name in names:
        bare = LARGE_BARE if name.startswith("numpy") else BARE
        floor = "-" if bare == LARGE_BARE else f"{report.ratio(low[name], low[FLOOR])} / {report.ratio(mid[name], mid[FLOOR])}"
        rows.append([name, f"{low[name]:.2f} / {mid[name]:.2f}", floor,
                     f"{low[bare] / low[name]:.1f} / {mid[bare] / mid[name]:.1f}"])
    report.table("A Python program that prints 1, from the call to its output",
                 ["", "wall ms", "x the fork", f"times faster than {BARE}"], rows)
    b.targets.at_most("run_code, cold, beyond python3 -I -c", low["run_code, cold"] - low[BARE], 2.5, " ms")
    b.targets.at_most("run_code, warm, x the floor (fork of a plain process)", low[WARM] / low[FLOOR], 2)
    b.targets.at_least("run_code, warm, times faster than python3 -I -c", low[BARE] / low[WARM], 4)
    b.figures.put("python: run_code, cold / python3 -I -c", low["run_code, cold"] / low[BARE])
    b.figures.put("python: run_code, parked / python3 -I -c", low["run_code, parked"] / low[BARE])
    b.figures.put("python: run_code, warm / python3 -I -c", low[WARM] / low[BARE], 0.25)
    b.figures.put("python: run_code, warm / fork", low[WARM] / low[FLOOR], 2)
    if large is not None:
        b.targets.at_least("run_code, warm, with numpy and pandas, times faster", low[LARGE_BARE] / low[LARGE_WARM], 50)
        b.figures.put("python: run_code, warm, numpy and pandas / python3 -I -c", low[LARGE_WARM] / low[LARGE_BARE], 0.02)


def below(pid):
    """The processes around the runs of a worker: inits that have a command, and these commands."""
    inits = {child: weigh.children(child) for child in weigh.children(pid)}
    return inits, [guest for guests in inits.values() for guest in guests]


def weigh_warm(b, python):
    """Kilobytes for each run that waits: its own pages and PSS, our processes around it, the kernel's."""
    worker = Worker(b, python, "python_worker", "held", 0)
    pid = worker.process.pid
    worker.ask("hold\t2")
    worker.ask("release")
    time.sleep(SETTLE_S)
    own, kernel, inits_before = weigh.pss_kb(pid), weigh.kernel_kb(), len(below(pid)[0])
    worker.ask(f"hold\t{HELD}")
    until = time.monotonic() + START_S
    while len(below(pid)[1]) < HELD:
        if time.monotonic() > until:
            raise SystemExit("bench: the warm runs do not come up")
        time.sleep(0.05)
    time.sleep(SETTLE_S)
    inits, guests = below(pid)
    around = weigh.pss_kb(pid) - own + sum(weigh.pss_kb(p) for p, guests in inits.items() if guests)
    found = [sum(map(weigh.private_kb, guests)) / HELD, sum(map(weigh.pss_kb, guests)) / HELD, around / HELD,
             (weigh.kernel_kb() - kernel) / (len(inits) - inits_before)]
    worker.ask("release")
    worker.close()
    return found


def weigh_floor(b, python):
    """The same for copies of a plain process: what the code itself touches."""
    worker = Worker(b, python, "python_floor")
    worker.ask("fork")
    time.sleep(SETTLE_S)
    kernel = weigh.kernel_kb()
    worker.ask(f"hold\t{HELD}")
    time.sleep(SETTLE_S)
    copies = weigh.children(worker.process.pid)
    found = [sum(map(weigh.private_kb, copies)) / HELD, sum(map(weigh.pss_kb, copies)) / HELD, 0,
             (weigh.kernel_kb() - kernel) / HELD]
    worker.ask("release")
    worker.close()
    return found


def bench_memory(b, pythons):
    if os.getuid() != 0:
        print("\nThe memory of warm runs can only be read by root: left out.")
        return
    rounds = {FLOOR: [], WARM: []}
    for _ in range(3):
        rounds[FLOOR].append(weigh_floor(b, pythons["cordon"]))
        rounds[WARM].append(weigh_warm(b, pythons["cordon"]))
    best = {name: [min(column) for column in zip(*samples)] for name, samples in rounds.items()}
    # Without the pages that it shares with all other runs of the image.
    whole = {name: own + around + kernel for name, (own, _, around, kernel) in best.items()}
    rows = [[name, *(f"{v:.0f}" for v in best[name]), f"{whole[name]:.0f}"] for name in best]
    report.table(f"Memory of a run that has printed 1 and waits, {HELD} at once, kB each",
                 ["", "its own pages", "its PSS", "our processes", "kernel", "own + ours + kernel"], rows)
    beyond = whole[WARM] - whole[FLOOR]
    b.targets.at_most("memory of a warm run beyond what the code touches", beyond / 1024, 2, " MiB")
    b.figures.put("python: memory of a warm run beyond a fork's, kB", beyond, 2048)


def bench_interpreters(b, pythons):
    workers = start(b, {"interpreters": pythons["cordon"]}, 0)
    names = dict.fromkeys(["python.execute('1+1')", "bash.execute('echo 1')", "Session.exec(true)",
                           "Pool.interpreter('bash'), one piece of code",
                           "Interpreter('bash'), one piece of code"], "interpreters")
    samples = measure(workers, names, b.rounds)
    close(workers)
    show("Interpreters and sessions", samples, "python.execute('1+1')")
    took = report.low(samples["python.execute('1+1')"])
    b.targets.at_most("python.execute('1+1')", took, 0.5, " ms")
    b.figures.put("python: execute('1+1'), ms", took, 0.5)


def bench_rate(b, pythons):
    workers = start(b, {"two": pythons["cordon"]}, 0)
    rates = [workers["two"].ask("rate\t3") for _ in range(3)]
    close(workers)
    report.table("Warm runs of print(1) per second, on two CPUs", ["", "best / median"],
                 [["Pool.map", f"{max(rates):.0f} / {report.mid(rates):.0f}"]])
    b.targets.at_least("warm runs per second on two CPUs", max(rates), 350)


def bench_many(b, pythons):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if hard != resource.RLIM_INFINITY else 65536
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(most, 16384)), hard))
    workers = start(b, {"cordon": pythons["cordon"]}, 0)
    times = [workers["cordon"].ask(f"many\t{MANY}") / 1e3 for _ in range(3)]
    close(workers)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    report.table(f"{MANY} runs of `sleep 1` at once, asyncio", ["", "s"],
                 [["AsyncSandbox", f"{min(times):.2f} / {report.mid(times):.2f}"]])
    b.targets.at_most(f"{MANY} async runs of sleep 1", min(times), 5, " s")


def bench_grade(b, pythons):
    """Both take turns, so that noise hits them alike."""
    workers = start(b, {"cordon": pythons["cordon"]}, 0)
    samples = {"subprocess, threads": [], "Pool.map": []}
    for _ in range(3):
        samples["subprocess, threads"].append(workers["cordon"].ask(f"grade plain\t{GRADED}") / 1e3)
        samples["Pool.map"].append(workers["cordon"].ask(f"grade\t{GRADED}") / 1e3)
    close(workers)
    rows = [[name, f"{min(got):.2f} / {report.mid(got):.2f}", f"{GRADED / min(got):.0f}"]
            for name, got in samples.items()]
    report.table(f"{GRADED} small Python programs, graded", ["", "s", "per second"], rows)
    ratio = min(samples["Pool.map"]) / min(samples["subprocess, threads"])
    b.targets.at_least("Pool.map, x the rate of subprocess in threads", 1 / ratio, 3)
    b.figures.put("python: Pool.map / subprocess in threads", ratio, 0.33)


def bench_forks(b, pythons):
    names = dict.fromkeys(("os.fork, an answer", "fork()", "fork(), an answer",
                           "fork() of a changed state"), "forks")
    workers = start(b, {"forks": pythons["cordon"]}, FORKED_MIB)
    samples = measure(workers, names, max(10, b.rounds // 4))
    close(workers)
    show(f"Interpreter.fork() with {FORKED_MIB} MiB of live data beside a bare fork of such a process",
         samples, "os.fork, an answer")
    low = {name: report.low(got) for name, got in samples.items()}
    b.targets.at_most(f"fork() with {FORKED_MIB} MiB", low["fork()"], 10, " ms")
    b.targets.at_most(f"fork() with {FORKED_MIB} MiB, of a changed state",
                      low["fork() of a changed state"], 10, " ms")
    floor = low["os.fork, an answer"]
    b.figures.put("python: fork() / os.fork", low["fork()"] / floor)
    b.figures.put("python: fork() of a changed state / os.fork", low["fork() of a changed state"] / floor)


def bench_c(b):
    """The C call has the same aim; its own table is in the part `start`."""
    r = b.objects([f"{b.dir}/bench_launch", str(b.rounds), "0", "library,parked", "bare", "/bin/true"])
    report.start_table("The C call beside a bare process, /bin/true", r)
    b.targets.at_most("parked C call, x bare", report.low(r["parked"]["wall_us"]) / report.low(r["bare"]["wall_us"]), 1.6)


def bench_python(b):
    for name in ("python_worker.py", "python_floor.py"):
        shutil.copy(f"{HERE}/{name}", b.dir)
    python = make_venv(b, "venv-cordon", wheel(), "--no-index")
    if python is None:
        raise SystemExit("bench: the wheel cannot be installed")
    pythons = {"cordon": python}
    sandlock = make_venv(b, "venv-sandlock", "sandlock==0.9.*")
    if sandlock is not None:
        pythons["sandlock"] = sandlock
    else:
        print("bench: the package 'sandlock' is not to be had, left out", file=sys.stderr)
    small = bench_calls(b, pythons, 0, "Python: /bin/true")
    large = bench_calls(b, pythons, 1024, "Python: /bin/true from a host with 1 GiB resident")
    b.targets.at_most("Sandbox.run, x subprocess.run",
                      small["Sandbox.run"] / small["subprocess"], 2)
    b.targets.at_most("Sandbox.run, parked, x subprocess.run",
                      small["Sandbox.run, parked"] / small["subprocess"], 2)
    b.targets.at_most("Pool.run, x subprocess.run", small["Pool.run"] / small["subprocess"], 2)
    b.targets.at_most("Sandbox.run with 1 GiB, x without",
                      large["Sandbox.run"] / small["Sandbox.run"], 1.1)
    for name in ("Sandbox.run", "Sandbox.run, parked", "Pool.run"):
        b.figures.put(f"python: {name} / subprocess.run", small[name] / small["subprocess"], 2)
    bench_c(b)
    bench_starts(b, pythons)
    bench_memory(b, pythons)
    bench_interpreters(b, pythons)
    bench_rate(b, pythons)
    bench_forks(b, pythons)
    bench_grade(b, pythons)
    bench_many(b, pythons)
