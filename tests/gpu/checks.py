# SPDX-License-Identifier: Apache-2.0
"""What a run with --gpu does on a real NVIDIA GPU, as root and as a user, beside the same without a
sandbox. Needs nothing but Python's own library; what a machine lacks (torch, nvcc) is skipped
and said. Figures of speed are printed and not judged by the exit status, but for kernels below 0.97.

    checks.py [--only NAME,...] [--seconds N]
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
GUEST = HERE / "guest"
CORDON = os.environ["CORDON"]
OUT = pathlib.Path(os.environ["OUT"])
BASE = HERE.parent
USER = 20001
LEVELS = ("namespaces",)  # level landlock refuses NVIDIA's GPUs
WHO = ("root", "user") if os.geteuid() == 0 else ("user",)
PYTHON = shutil.which("python3")
MORE = os.environ.get("CORDON_MORE", "").split()  # options for every run
STARTED = time.monotonic()
PATIENCE = 540

results = {"ok": 0, "FAILED": 0, "skipped": 0}
figures = {}


def say(verdict, what, more=""):
    results[verdict] += 1
    print(f"{verdict:8} {time.monotonic() - STARTED:6.1f}s {what}{': ' if more else ''}{more}", flush=True)


def check(what, holds, more=""):
    say("ok" if holds else "FAILED", what, str(more)[-900:] if not holds or len(str(more)) < 300 else "")


def bare(argv, who="root", seconds=120, **kw):
    if who == "user" and os.geteuid() == 0:
        home = BASE / "home"
        home.mkdir(exist_ok=True)
        os.chown(home, USER, USER)
        kw.update(user=USER, group=USER, extra_groups=[], env={**os.environ, "HOME": str(home), "LOGNAME": "user"})
    kw.setdefault("stdin", subprocess.DEVNULL)
    try:
        return subprocess.run(
            [str(a) for a in argv], capture_output=True, text=True, timeout=seconds, check=False, cwd="/", **kw
        )
    except subprocess.TimeoutExpired as e:
        return subprocess.CompletedProcess(argv, -1, (e.stdout or b"").decode(), f"no end in {seconds} s")
    except OSError as e:
        return subprocess.CompletedProcess(argv, 126, "", str(e))


def sandboxed(opts, argv, level="namespaces"):
    return [CORDON, "run", "-q", "--isolation", level, "-r", BASE, *MORE, *opts, "--", *argv]


def inside(argv, who="root", level="namespaces", opts=("--gpu", "all"), **kw):
    return bare(sandboxed(opts, argv, level), who, **kw)


def receipt(argv, opts, who="root", level="namespaces"):
    done = bare(sandboxed(["--json", *opts], argv, level), who)
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"kind": f"no receipt: {done.stderr}", "stdout": "", "stderr": done.stderr}


def python(name, *args):
    return [PYTHON, GUEST / name, *args]


def has(module):
    return bare([PYTHON, "-c", f"import {module}"]).returncode == 0


def of(done):
    return f"exit {done.returncode} {done.stdout[-300:]!r} {done.stderr[-500:]!r}"


def each(what, argv, want="right", callers=WHO, levels=LEVELS, **kw):
    """The control outside, then inside for every caller."""
    for who in callers:
        control = bare(argv, who, **kw)
        if control.returncode or want not in control.stdout:
            say("skipped", f"{what}, {who}", "does not work without a sandbox: " + of(control))
            continue
        for level in levels:
            done = inside(argv, who, level, **kw)
            is_right = done.returncode == 0 and want in done.stdout
            check(f"{what}, {who}, {level}", is_right, of(done))
            if not is_right:
                trace(argv, level)


def trace(argv, level):
    """What is refused inside, and what fails outside as well: for the first that goes wrong."""
    tracer = pathlib.Path("build/gpu/strace/run")
    if not tracer.exists() or (OUT / "strace-bare.txt").exists():
        return
    for name, words in (("bare", argv), ("inside", sandboxed(["--gpu", "all"], argv, level))):
        bare([tracer.resolve(), "-f", "-Z", "-s", "120", "-o", OUT / f"strace-{name}.txt", *words])
    print("         what is refused (strace-inside.txt, beside strace-bare.txt):")
    dull = ("ENOENT", "ENOTTY", "EAGAIN", "ESPIPE", "ECHILD", "EINVAL")
    lines = (OUT / "strace-inside.txt").read_text(errors="replace").splitlines()
    print("\n".join(line[:200] for line in [n for n in lines if not any(d in n for d in dull)][-40:]))


def machine():
    lines = []
    for text in (
        "uname -a; id; echo LD_LIBRARY_PATH=$LD_LIBRARY_PATH; which python3 nvcc nvidia-smi gcc",
        "nvidia-smi -L; nvidia-smi | head -20",
        "ls -laR /dev/nvidia* /dev/dri 2>&1; ls -la /proc/driver/nvidia /proc/driver/nvidia/gpus/*; cat /proc/driver/nvidia/gpus/*/information",
        "grep -i nvidia /proc/self/mountinfo; grep -E 'nvidia|drm' /proc/devices; ldconfig -p | grep -E 'libcuda|libnvidia-ml'",
        "ls -d /etc/cdi/* /var/run/cdi/* 2>&1; find / -xdev -name 'libcuda.so*' 2>/dev/null",
        f"{CORDON} check",
    ):
        done = bare(["sh", "-c", text])
        lines.append(f"$ {text}\n{done.stdout}{done.stderr}")
    (OUT / "machine.txt").write_text("\n".join(lines))
    done = bare([CORDON, "check", "--json"])
    gpus = [i for i in json.loads(done.stdout)["layers"] if i["name"].startswith("gpu")]
    check("cordon check lists the GPUs as ones that can be given", gpus and all(g["state"] == "yes" for g in gpus), gpus)


def driver():
    before = inside(python("driver.py"), opts=())
    check("without --gpu there is none", before.returncode != 0 and "right" not in before.stdout, of(before))
    each("the driver's own calls", python("driver.py"))
    low = inside(python("driver.py"), level="landlock")
    check("level landlock refuses it", low.returncode == 125 and "level landlock" in low.stderr, of(low))


def frameworks():
    torch = has("torch")
    for what, name, there in (
        ("a product in torch", "product.py", torch),
        ("training in torch", "training.py", torch),
        ("JAX", "jaxed.py", has("jax")),
        ("Triton", "tritoned.py", has("triton")),
    ):
        if there:
            each(what, python(name))
        else:
            say("skipped", what, "it is not installed")


def compiled():
    if not shutil.which("nvcc"):
        return say("skipped", "CUDA programs", "there is no nvcc")
    program = BASE / "add"
    done = bare(["nvcc", "-arch=native", "-o", program, GUEST / "add.cu"])
    if done.returncode:
        done = bare(["nvcc", "-o", program, GUEST / "add.cu"])
    if done.returncode:
        return check("nvcc outside", False, of(done))
    program.chmod(0o755)
    each("a CUDA program", [program])
    work = BASE / "work"
    work.mkdir()
    done = inside(["nvcc", "-o", work / "add", GUEST / "add.cu"], opts=("--gpu", "all", "-w", work))
    ran = inside([work / "add"]) if done.returncode == 0 else done
    check("nvcc inside, and its program", "right" in ran.stdout, of(done) + of(ran))
    got = receipt([program, "spin"], ["--gpu", "all", "-t", "4"])
    check("a kernel that spins is ended at the time limit", got["kind"] == "timeout" and "spinning" in got["stdout"], got["kind"])
    each("the GPU works after that", [program], callers=WHO[:1])


def used_memory():
    done = bare(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"])
    return sum(int(n) for n in done.stdout.split()) if done.returncode == 0 else None


def comes_back(what, before):
    """The GPU's memory is given back when a run has ended, however it ended."""
    for _ in range(50):
        now = used_memory()
        if before is None or now is None:
            return say("skipped", what, "nvidia-smi says nothing")
        if now <= before + 100:
            return check(what, True, f"{now} MiB used, {before} before")
        time.sleep(0.2)
    return check(what, False, f"{now} MiB used, {before} before")


def killed():
    if not has("torch"):
        return say("skipped", "kills", "torch is not installed")
    for who in WHO:
        before = used_memory()
        got = receipt(python("busy.py"), ["--gpu", "all", "-t", "12"], who)
        check(f"the time limit ends a busy run, {who}", got["kind"] == "timeout" and "busy" in got["stdout"], got["kind"])
        comes_back(f"its memory comes back, {who}", before)
    before = used_memory()
    run = subprocess.Popen([str(a) for a in sandboxed(["--gpu", "all"], python("busy.py"))], stdout=subprocess.PIPE, text=True)
    check("it is busy", run.stdout.readline() == "busy\n")
    held = used_memory()
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    comes_back(f"the supervisor is killed ({held} MiB were used)", before)
    return None


def together():
    if not has("torch"):
        return say("skipped", "two runs", "torch is not installed")
    argv = [[str(a) for a in sandboxed(["--gpu", "all"], python("training.py"))] for _ in range(2)]
    runs = [subprocess.Popen(a, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for a in argv]
    out = [run.communicate(timeout=180) for run in runs]
    check("two runs at once", all("right" in o[0] for o in out) and out[0][0] == out[1][0], out)
    left = inside(python("canary.py", "leave"))
    sought = inside(python("canary.py", "seek"))
    check("nothing of an ended run's memory is found", "left 1000" in left.stdout and "found 0" in sought.stdout, of(left) + of(sought))
    return None


def memory():
    if not has("torch"):
        return say("skipped", "memory", "torch is not installed")
    for level in LEVELS:
        got = receipt(python("product.py"), ["--gpu", "all", "-m", "6G"], level=level)
        used = got.get("usage", {}).get("max_memory_bytes", 0)
        check(f"address space is no memory, {level}", got["kind"] == "exited" and "right" in got["stdout"], f"{got['kind']} with {used >> 20} MiB")
        got = receipt(python("grow.py", "host"), ["--gpu", "all", "-m", "6G"], level=level)
        check(f"memory of its own is limited, {level}", got["kind"] == "memory", got["kind"] + got["stderr"][-300:])
    got = receipt(python("grow.py", "gpu"), ["--gpu", "all", "-m", "6G"])
    check("memory of the GPU is none of the host's", got["kind"] == "exited", got["kind"] + got["stderr"][-300:])
    got = receipt(python("grow.py", "pinned"), ["--gpu", "all", "-m", "6G"])
    steps = (got["stdout"].split() or ["none"])[-1]
    say("ok", "pinned memory with a limit of 6 GiB", f"{got['kind']} after {steps} of 48 steps of 256 MiB")
    return None


def usage():
    """What the receipt says of a program that holds 2 GiB of the GPU and works on them."""
    done = bare(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"])
    total = sum(int(n) for n in done.stdout.split()) << 20 if done.returncode == 0 else 16 << 40
    lost = []
    for who in WHO:
        for words in ((), ("child",)):
            got = receipt(python("hold.py", *words), ["--gpu", "all", "-m", "16G"], who)
            used, busy = (got.get("usage", {}).get(n) for n in ("max_gpu_memory_bytes", "gpu_utilization_percent"))
            what = f"usage of {' '.join(('a program', *words))}, {who}"
            if got["kind"] != "exited" or "right" not in got["stdout"]:
                check(what, False, got["kind"] + got["stderr"])
                continue
            right = used is not None and 2 << 30 <= used <= total and busy is not None and 0 < busy <= 100
            check(what, right, f"{used} bytes of {total}, {busy} %, tear-down {got['teardown_ms']} ms")
            lost += [] if right else [who]
    # Beside a program outside that holds as much: that is not the run's.
    other = subprocess.Popen(python("hold.py"), stdout=subprocess.DEVNULL)
    got = receipt([PYTHON, "-c", "import time; time.sleep(2.5)"], ["--gpu", "all"])
    other.wait()
    figures_of = [got["usage"][n] for n in ("max_gpu_memory_bytes", "gpu_utilization_percent")]
    check("a run that does not use the GPU has no figures", figures_of == [None, None], figures_of)
    left = bare(["sh", "-c", "cat /proc/[0-9]*/comm | grep -c cordon-meter"]).stdout.strip()
    check("no meter is left", left == "0", left)
    if lost:
        trace_meter()


def trace_meter():
    """What the library asks the kernel for, and what is refused."""
    tracer = pathlib.Path("build/gpu/strace/run")
    if not tracer.exists():
        return
    to = OUT / "strace-usage.txt"
    bare([tracer.resolve(), "-f", "-s", "120", "-o", to, *sandboxed(["--gpu", "all"], python("hold.py"))])
    lines = to.read_text(errors="replace").splitlines()
    meters = {line.split()[0] for line in lines if '"cordon-meter"' in line and "prctl" in line}
    own = [line[:200] for line in lines if line.split()[0] in meters]
    (OUT / "strace-meter.txt").write_text("\n".join(own))
    print("         what is refused to the meter (strace-meter.txt has all):")
    print("\n".join([n for n in own if "EPERM" in n or "EACCES" in n or "SIG" in n][-40:] + own[-5:]))


def hostile():
    given = [f"/dev/{n}" for n in ("nvidiactl", "nvidia-uvm")]
    own = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/pts/ptmx"}
    for who in WHO:
        for level in LEVELS:
            done = inside(python("hostile.py"), who, level, opts=("--gpu", "0"))
            if done.returncode:
                check(f"a hostile guest, {who}, {level}", False, of(done))
                continue
            got = json.loads(done.stdout)
            (OUT / f"hostile-{who}-{level}.json").write_text(done.stdout)
            gpus = [n for n in got["opened"] if n[len("/dev/nvidia"):].isdigit() and n.startswith("/dev/nvidia")]
            rest = set(got["opened"]) - set(given) - set(gpus)
            check(f"only one GPU and its driver open, {who}, {level}", len(gpus) == 1 and not rest, got["opened"])
            nodes = set(got["nodes"]) - own - set(given) - set(gpus)
            check(f"nothing is written or made, {who}, {level}", not got["written"] and not got["made"], got)
            if level == "namespaces":
                check(f"no other node exists, {who}", not nodes, nodes)
                check(f"one GPU is told of, {who}", len(got["gpus"]) <= 1, got["gpus"])


def turns(first, second, rounds):
    """Each in turn, so that what changes meanwhile changes both."""
    a, b = [], []
    for i in range(rounds):
        for values, call in ((a, first), (b, second)) if i % 2 else ((b, second), (a, first)):
            values.append(call())
    return a, b


def timed(make):
    begin = time.perf_counter()
    done = subprocess.run([str(a) for a in make], capture_output=True, check=False, stdin=subprocess.DEVNULL, cwd="/")
    return (time.perf_counter() - begin) * 1000 if done.returncode == 0 else float("nan")


def start():
    """What a start inside costs a CUDA program: one that takes a fraction of a second, 30 times each in turns."""
    program = BASE / "start"
    carried = pathlib.Path("build/gpu/start")
    if bare(["gcc", "-O2", "-o", program, GUEST / "start.c", "-ldl"]).returncode:
        if not carried.exists():
            return say("skipped", "start", "there is no gcc, and no build/gpu/start (tests/gpu/carry.sh)")
        shutil.copy(carried, program)
    program.chmod(0o755)
    # A kernel that is kept in the home would be compiled once outside, and each time inside.
    outside = ["env", "CUDA_CACHE_DISABLE=1", program]
    within = sandboxed(["--gpu", "all", "-e", "CUDA_CACHE_DISABLE=1"], [program])
    for what, argv in (("outside", outside), ("inside", within)):
        done = bare(argv)
        if done.returncode or "right" not in done.stdout:
            return say("skipped" if what == "outside" else "FAILED", f"start {what}", of(done))
    bares, insides = turns(lambda: timed(outside), lambda: timed(within), 30)
    pairs = sorted(b - a for a, b in zip(bares, insides))
    least = min(insides) - min(bares)
    figures["start of a CUDA program"] = {"bare": bares, "inside": insides, "more_ms": statistics.median(pairs), "least_ms": least}
    say("ok", "start of a CUDA program",
        f"bare {min(bares):.1f} at best, {statistics.median(bares):.1f} median; inside {min(insides):.1f} and "
        f"{statistics.median(insides):.1f} ms: + {least:.1f} of the best, + {statistics.median(pairs):.1f} ms median of the pairs "
        f"(half of them {pairs[7]:.1f} to {pairs[22]:.1f})")
    return None


def speed():
    if not has("torch"):
        return say("skipped", "speed", "torch is not installed")

    def kernel(run):
        done = run(python("speed.py"))
        return float(done.stdout) if done.returncode == 0 else 0.0

    outside, within = turns(lambda: kernel(bare), lambda: kernel(inside), 4)
    share = max(within) / max(outside) if max(outside) else 0
    median = statistics.median(within) / statistics.median(outside) if min(outside) else 0
    figures["kernels"] = {"bare": outside, "inside": within, "best": share, "median": median}
    check("kernels are as fast", share > 0.97, f"best {max(outside):.1f} and {max(within):.1f} TFLOP/s: {share:.4f}; of medians {median:.4f}")

    for name, code, rounds in (
        ("torch", "import torch; torch.zeros(1, device='cuda'); torch.cuda.synchronize()", 7),
        ("python", "pass", 15),
        ("true", None, 30),
    ):
        argv = [PYTHON, "-c", code] if code else ["/bin/true"]
        timed(argv), timed(sandboxed(["--gpu", "all"], argv))
        outside, within = turns(lambda a=argv: timed(a), lambda a=argv: timed(sandboxed(["--gpu", "all"], a)), rounds)
        more = statistics.median(within) - statistics.median(outside)
        figures[f"start of {name}"] = {"bare": outside, "inside": within, "more_ms": more}
        say("ok", f"start of {name}", f"{statistics.median(outside):.1f} ms bare, {statistics.median(within):.1f} inside: + {more:.1f} ms "
            f"(best {min(outside):.1f} and {min(within):.1f})")
    without, within = turns(lambda: timed(sandboxed([], ["/bin/true"])), lambda: timed(sandboxed(["--gpu", "all"], ["/bin/true"])), 30)
    more = statistics.median(within) - statistics.median(without)
    figures["--gpu itself"] = {"without": without, "with": within, "more_ms": more}
    say("ok", "--gpu itself", f"{statistics.median(without):.2f} ms without, {statistics.median(within):.2f} with: + {more:.2f} ms")
    return None


PARTS = (machine, driver, usage, start, frameworks, compiled, hostile, speed, killed, together, memory)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=int, default=PATIENCE, help="no part begins later than this")
    args = parser.parse_args()
    wanted = args.only.split(",") if args.only else [p.__name__ for p in PARTS]
    for part in PARTS:
        if part.__name__ not in wanted:
            continue
        if time.monotonic() - STARTED > args.seconds:
            say("skipped", part.__name__, "no time is left")
            continue
        try:
            part()
        except Exception as e:  # the other parts still say something
            say("FAILED", part.__name__, repr(e))
    (OUT / "figures.json").write_text(json.dumps(figures, indent=1))
    print(f"{results['ok']} passed, {results['FAILED']} failed, {results['skipped']} skipped")
    return 1 if results["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
