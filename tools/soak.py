#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many runs of every kind, with a census of everything that could leak: what `make soak` does.

    tools/soak.py [--runs N] [--build DIR | --cordon FILE --prefix DIR] [--user UID]

Two parts work at the same time: a long-lived program that uses the library from two threads
(soak_host.c), and the command line, one run after the other. Started as root, the batches alternate
between root and the ordinary user UID. Every run's kind and exit status is compared with what it must
be. Before, after each thousand and at the end everything is counted (soak_census.py); what grows is a
leak. Prints a line per thousand and a table at the end. Exit status: 0 only if nothing was wrong.
"""

import argparse
import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from soak_census import Census, compare, reap_orphans

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
LIBRARY_SHARE = 0.8  # of the runs; the command line takes longer for each
BATCH = 1000
HANG = 60


def sh(script):
    return ["/bin/sh", "-c", script]


# name, options, command, standard input, exit status, kind, standard output (None = not looked at).
# The kind comes from --json or the receipt; None = neither was asked for.
KINDS = [
    ("plain", [], ["/bin/true"], b"", 0, None, b""),
    ("exited", ["--json"], sh("echo out; exit 3"), b"", 3, "exited", b"out\n"),
    ("looks like a limit", ["--json"], sh("exit 124"), b"", 124, "exited", b""),
    ("input", [], ["/bin/cat"], b"x" * 100000, 0, None, b"x" * 100000),
    ("receipt", ["--receipt", "receipt"], sh("exit 9"), b"", 9, "exited", b""),
    ("signaled", ["--json"], sh("kill -SEGV $$"), b"", 139, "signaled", b""),
    ("killed itself", ["--json"], sh("kill -KILL $$"), b"", 137, "signaled", b""),
    ("timeout", ["--json", "-t", "10ms"], ["/bin/sleep", "30"], b"", 124, "timeout", b""),
    ("write grant", ["-w", "grant", "-C", "grant"], sh("echo > f; rm f; sleep 30 &"), b"", 0, None, b""),
    ("landlock", ["--isolation", "landlock", "--json"], sh("echo > $TMPDIR/x; echo > $HOME/y"), b"", 0,
     "exited", b""),
    ("landlock grant", ["--isolation", "landlock", "-w", "grant", "-C", "grant", "--receipt", "receipt"],
     sh("echo > f; chmod 600 f; rm f; (setsid sleep 30 &); exit 4"), b"", 4, "exited", b""),
    ("landlock timeout", ["--isolation", "landlock", "-t", "10ms", "--json"], sh("setsid sleep 30"), b"", 124,
     "timeout", b""),
    ("not found", ["--json"], ["/nonexistent/x"], b"", 127, "spawn_failed", b""),
    ("not executable", ["--json"], ["./garbage"], b"", 126, "spawn_failed", b""),
    ("bad policy", ["-t", "-3s", "--json"], ["/bin/true"], b"", 125, "sandbox_error", b""),
    ("bad flag", ["--no-such-flag"], ["/bin/true"], b"", 125, None, b""),
    ("bad grant", ["-w", "no/such/place"], ["/bin/true"], b"", 125, None, b""),
    ("output", ["--max-output", "4k", "--end-on-output", "--json"], ["yes"], b"", 137, "output", None),
    ("truncated", ["--max-output", "4k", "--json"], sh("head -c 99999 /dev/zero"), b"", 0, "exited", None),
    ("disk", ["--disk", "1M", "--json"], sh("head -c 5000000 /dev/zero > /tmp/x || exit 5"), b"", 5, "exited", b""),
    ("procs", ["-P", "8", "--json"], sh("for i in 1 2 3 4 5 6 7 8 9; do sleep 0.1 & done"), b"", 2, "exited", b""),
    ("every limit", ["-t", "9s", "-m", "256M", "-P", "64", "--cpus", "1", "--cpu-time", "9s", "--file-size", "1M",
      "--disk", "16M", "--open-files", "64", "--usage"], ["/bin/true"], b"", 0, None, b""),
    ("cannot be held", ["--isolation", "landlock", "--disk", "1M", "--json"], ["/bin/true"], b"", 125,
     "sandbox_error", b""),
    ("memory", ["-m", "32M", "--json"], ["tail", "/dev/zero"], b"", 137, "memory", b""),
    ("landlock memory", ["--isolation", "landlock", "-m", "32M", "--receipt", "receipt"], ["tail", "/dev/zero"], b"",
     137, "memory", b""),
    ("cpu_time", ["--cpu-time", "20ms", "--json"], sh("while :; do :; done"), b"", 124, "cpu_time", b""),
    ("cancelled", ["--json"], ["/bin/sleep", "30"], b"", 143, "cancelled", b""),
    ("killed", ["-w", "grant"], ["/bin/sleep", "30"], b"", -9, None, b""),
    ("killed landlock", ["--isolation", "landlock", "-w", "grant"], ["/bin/sleep", "30"], b"", -9, None, b""),
]
RARE = {"memory", "landlock memory", "cpu_time"}  # take long: one turn in ten
SIGNALLED = {"cancelled": 15, "killed": 9, "killed landlock": 9}


class Caller:
    """Root or a user: its directories, its host of the library, its share of the runs."""

    def __init__(self, name, uid, base, cordon, host):
        self.name, self.uid, self.dir, self.cordon = name, uid, base / name, str(cordon)
        self.switch = uid != os.geteuid()
        self.bad, self.turn = [], 0
        for sub in ("", "grant", "home", "cache", "state", "config", "runtime"):
            (self.dir / sub).mkdir(mode=0o755)
            os.chown(self.dir / sub, uid, uid if self.switch else os.getegid())
        garbage = self.dir / "garbage"
        garbage.write_bytes(b"\x7fELF and no more")
        garbage.chmod(0o755)
        self.env = {"PATH": PATH, "HOME": str(self.dir / "home"), "LANG": "C.UTF-8"}
        for name in ("CACHE", "STATE", "CONFIG"):
            self.env[f"XDG_{name}_HOME"] = str(self.dir / name.lower())
        self.env["XDG_RUNTIME_DIR"] = str(self.dir / "runtime")
        self.host = self.popen([host, self.dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def popen(self, argv, **kw):
        if self.switch:
            kw.update(user=self.uid, group=self.uid, extra_groups=[])
        argv = [str(a) for a in argv]
        return subprocess.Popen(argv, env=self.env, cwd=self.dir, **kw)

    def tell(self, text):
        self.host.stdin.write(text.encode())
        self.host.stdin.flush()

    def hear(self):
        return self.host.stdout.readline().decode().split()

    def library(self, runs):
        try:
            self.tell(f"go {runs}\n")
            _, done, bad = self.hear()
        except (OSError, ValueError):
            self.bad.append("library: the host is gone")
            return
        if int(bad):
            self.bad.append(f"library: {bad} of {done} runs went wrong")

    def signalled(self, kind, proc):
        """Ends a run from outside, at any moment."""
        number = SIGNALLED[kind]
        time.sleep(0.004 + 0.0005 * (self.turn % 40))
        proc.send_signal(number)
        # On a busy machine the signal may come before cordon listens to any.
        proc.expected = (143, -15) if number == 15 else (-number,)

    def one(self):
        index, cycle = self.turn % len(KINDS), self.turn // len(KINDS)
        self.turn += 1
        if KINDS[index][0] in RARE and cycle % 10:
            index = 0
        kind, opts, cmd, given, status, wanted, output = KINDS[index]
        argv = [self.cordon, "run", *opts, "--", *cmd]
        pipe = subprocess.PIPE
        proc = self.popen(argv, stdin=pipe, stdout=pipe, stderr=pipe)
        proc.expected = (status,)
        if kind in SIGNALLED:
            self.signalled(kind, proc)
        try:
            out, err = proc.communicate(given, timeout=HANG)
        except subprocess.TimeoutExpired:
            proc.kill()
            out, err = proc.communicate()
            self.bad.append(f"{kind}: hangs")
            return
        problem = self.judge(kind, opts, proc, out, wanted, output)
        if problem:
            self.bad.append(f"{kind}: {problem}: {err[-300:]!r}")

    def judge(self, kind, opts, proc, out, wanted, output):
        if proc.returncode not in proc.expected:
            return f"exit {proc.returncode}, wanted {proc.expected}"
        if kind in SIGNALLED:
            # The signal may come before there is a run, or be the command's own end.
            return None
        if "--json" in opts:
            got = json.loads(out)
            if got["kind"] != wanted:
                return f"kind {got['kind']}, wanted {wanted}"
            out = got["stdout"].encode()
        elif "--receipt" in opts:
            got = json.loads((self.dir / "receipt").read_text())
            (self.dir / "receipt").unlink()
            if got["kind"] != wanted:
                return f"kind {got['kind']}, wanted {wanted}"
        if output is not None and out != output:
            return f"output {out[:100]!r}"
        return None

    def batch(self, runs):
        in_library = round(runs * LIBRARY_SHARE)
        thread = threading.Thread(target=self.library, args=(in_library,))
        thread.start()
        for _ in range(runs - in_library):
            self.one()
        thread.join()


def compile_host(base, include, library):
    out = base / "soak_host"
    shutil.copy(library, base / "libcordon.so.0")
    subprocess.run(
        ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{include}"]
        + ["-o", str(out), str(ROOT / "tools" / "soak_host.c"), str(base / "libcordon.so.0")]
        + [f"-Wl,-rpath,{base}"],
        check=True,
    )
    return out


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100000)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--cordon", type=pathlib.Path)
    parser.add_argument("--prefix", type=pathlib.Path)
    parser.add_argument("--user", type=int, default=20001)
    parser.add_argument("--leak", action="store_true", help="leave something behind, to see it found")
    args = parser.parse_args()
    args.cordon = args.cordon or args.build / "cmd" / "cordon" / "cordon"
    if args.prefix:
        args.include = args.prefix / "include"
        args.library = next(args.prefix.glob("lib/**/libcordon.so"))
    else:
        args.include, args.library = ROOT / "include", args.build / "src" / "libcordon.so"
    return args


def soak(args, callers, census):
    """The batches; the count before the first one and after the last."""
    for caller in callers:
        caller.batch(min(2 * len(KINDS), args.batch))  # what is made once is there from now on
    if any(caller.host.poll() is not None for caller in callers):
        sys.exit("soak: the host of the library does not run")
    before = census.settle(None)
    done, started = 0, time.monotonic()
    while done < args.runs:
        caller = callers[(done // args.batch) % len(callers)]
        size = min(args.batch, args.runs - done)
        since = time.monotonic()
        caller.batch(size)
        done += size
        if caller.host.poll() is not None:
            sys.exit("soak: the host of the library is gone: " + "; ".join(caller.bad))
        now = census.settle(before)
        grown = [row for row in compare(before, now, done) if row[3]]
        bad = sum(len(c.bad) for c in callers)
        print(f"{done} runs, {size / (time.monotonic() - since):.0f}/s, as {caller.name}: "
              f"{bad} wrong, {len(grown)} grown" + "".join(f" {r[0]} {r[1]}>{r[2]}" for r in grown),
              flush=True)  # fmt: skip
    took = time.monotonic() - started
    print(f"{done} runs in {took:.0f} s, {done / took:.0f} per second")
    return before, done


def main():
    args = arguments()
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans come to us
    os.umask(0o022)
    base = pathlib.Path(tempfile.mkdtemp(prefix="soak-of-cordon-", dir="/tmp"))
    base.chmod(0o755)
    try:
        host = compile_host(base, args.include, args.library)
        cordon = base / "cordon"
        shutil.copy(args.cordon, cordon)
        cordon.chmod(0o755)
        callers = [Caller("me", os.geteuid(), base, cordon, host)]
        if os.geteuid() == 0:
            callers.append(Caller("user", args.user, base, cordon, host))
        census = Census(base, callers)
        before, done = soak(args, callers, census)
        for caller in callers:
            caller.tell("end\n")
            caller.hear()
        if args.leak:
            subprocess.Popen(["setsid", "sleep", "60"])
            (callers[0].dir / "grant" / "left").touch()
        after = census.settle(before, is_end=True, patience=1.0 if args.leak else 10.0)
        rows = compare(before, after, done, is_end=True)
        bad = [text for caller in callers for text in caller.bad]
        for caller in callers:
            caller.host.stdin.close()
            if caller.host.wait(timeout=HANG) != 0:
                bad.append(f"the host of {caller.name} ended with {caller.host.returncode}")
    finally:
        reap_orphans()
        shutil.rmtree(base, ignore_errors=True)
    print(f"\n{'':32}{'before':>12}{'after':>12}")
    for name, first, last, is_leak in rows:
        print(f"{name:32}{first:>12}{last:>12}{'  LEAK' if is_leak else ''}")
    for text in bad[:20]:
        print("WRONG:", text)
    leaks = sum(row[3] for row in rows)
    print(f"{done} runs, {len(bad)} wrong, {leaks} leaks")
    return 1 if bad or leaks or not done else 0


if __name__ == "__main__":
    sys.exit(main())
