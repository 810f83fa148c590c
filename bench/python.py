# SPDX-License-Identifier: Apache-2.0
"""The Python package beside plain subprocess and beside sandlock's package, which gets a virtual
environment of its own if the package index has it. Part of bench/run.py."""

import glob
import os
import resource
import shutil
import subprocess
import sys

import report

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
MANY = 1000
GRADED = 500
FORKED_MIB = 200


class Worker:
    """A process that measures one round for each request."""

    def __init__(self, b, python, what, mib):
        self.process = b.start([python, f"{b.dir}/python_worker.py", what, str(mib)],
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


def wheel():
    found = sorted(glob.glob(f"{TOP}/build/python/dist/pycordon-*.whl"))
    if not found:
        subprocess.run([f"{TOP}/tools/wheel.sh"], check=True, stdout=sys.stderr)
        found = sorted(glob.glob(f"{TOP}/build/python/dist/pycordon-*.whl"))
    return found[-1]


def measure(b, workers, names, rounds):
    """All contenders take turns. name -> milliseconds of each round."""
    samples = {name: [] for name in names}
    for name, worker in names.items():
        workers[worker].ask(name)  # once, for what is only done once
    for _ in range(rounds):
        for name, worker in names.items():
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
    return {what: Worker(b, python, what, mib) for what, python in pythons.items()}


def close(workers):
    for worker in workers.values():
        worker.close()


def bench_calls(b, pythons, mib, title):
    names = {"subprocess": "cordon", "Sandbox.run": "cordon", "Sandbox.run, fresh": "cordon",
             "Sandbox.run, parked": "cordon", "Pool.run": "cordon"}
    if "sandlock" in pythons:
        names["sandlock"] = "sandlock"
    workers = start(b, pythons, mib)
    samples = measure(b, workers, names, b.rounds)
    close(workers)
    show(title, samples, "subprocess")
    return {name: report.low(got) for name, got in samples.items()}


def bench_code(b, pythons):
    names = {"interpreter": "cordon", "fork": "cordon", "run_code": "cordon",
             "Pool.run_code, cold": "cordon", "Pool.run_code": "cordon"}
    if "sandlock" in pythons:
        names["sandlock, python"] = "sandlock"
    workers = start(b, pythons, 0)
    samples = measure(b, workers, names, max(10, b.rounds // 4))
    close(workers)
    show('run_code("print(1)") beside the start of the interpreter', samples, "interpreter")
    low = {name: report.low(got) for name, got in samples.items()}
    b.targets.at_most("run_code beyond the interpreter's start",
                      low["run_code"] - low["interpreter"], 2.5, " ms")
    b.targets.at_most("Pool.run_code, x interpreter", low["Pool.run_code"] / low["interpreter"], 0.25)
    b.targets.at_most("Pool.run_code, x fork of a process that has started",
                      low["Pool.run_code"] / low["fork"], 2)


def bench_large(b):
    python = make_venv(b, "venv-large", wheel())
    pip = [f"{os.path.dirname(python)}/pip", "-q", "--disable-pip-version-check", "install", "numpy", "pandas"]
    if subprocess.run(pip, stdin=subprocess.DEVNULL, check=False).returncode != 0:
        print("bench: numpy and pandas are not to be had, left out", file=sys.stderr)
        return
    bare, warm = "interpreter, numpy and pandas", "Pool.run_code, numpy and pandas"
    workers = start(b, {"large": python}, 0)
    samples = measure(b, workers, {bare: "large", warm: "large"}, 10)
    close(workers)
    show("run_code() with numpy and pandas", samples, bare)
    b.targets.at_least("interpreter with numpy and pandas, x Pool.run_code",
                       report.low(samples[bare]) / report.low(samples[warm]), 50)


def bench_interpreters(b, pythons):
    workers = start(b, {"interpreters": pythons["cordon"]}, 0)
    names = dict.fromkeys(["python.execute('1+1')", "bash.execute('echo 1')", "Session.exec(true)",
                           "Pool.interpreter('bash'), one piece of code",
                           "Interpreter('bash'), one piece of code"], "interpreters")
    samples = measure(b, workers, names, b.rounds)
    close(workers)
    show("Interpreters and sessions", samples, "python.execute('1+1')")
    b.targets.at_most("python.execute('1+1')", report.low(samples["python.execute('1+1')"]), 0.5, " ms")


def bench_rate(b, pythons):
    workers = start(b, {"cordon": pythons["cordon"]}, 0)
    rates = [workers["cordon"].ask("rate\t3") for _ in range(3)]
    close(workers)
    report.table("Warm runs of print(1) per second", ["", "per second"],
                 [["Pool.map", f"{max(rates):.0f} / {report.mid(rates):.0f}"]])
    b.targets.at_least("warm runs per second", max(rates), 350)


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
    b.targets.at_most("Pool.map, x subprocess in threads",
                      min(samples["Pool.map"]) / min(samples["subprocess, threads"]), 0.33)


def bench_forks(b, pythons):
    names = dict.fromkeys(("os.fork, an answer", "fork()", "fork(), an answer",
                           "fork() of a changed state"), "forks")
    workers = start(b, {"forks": pythons["cordon"]}, FORKED_MIB)
    samples = measure(b, workers, names, max(10, b.rounds // 4))
    close(workers)
    show(f"Interpreter.fork() with {FORKED_MIB} MiB of live data beside a bare fork of such a process",
         samples, "os.fork, an answer")
    low = {name: report.low(got) for name, got in samples.items()}
    b.targets.at_most(f"fork() with {FORKED_MIB} MiB", low["fork()"], 10, " ms")
    b.targets.at_most(f"fork() with {FORKED_MIB} MiB, of a changed state",
                      low["fork() of a changed state"], 10, " ms")


def bench_python(b):
    shutil.copy(f"{HERE}/python_worker.py", b.dir)
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
    bench_code(b, pythons)
    bench_large(b)
    bench_interpreters(b, pythons)
    bench_rate(b, pythons)
    bench_forks(b, pythons)
    bench_grade(b, pythons)
    bench_many(b, pythons)
