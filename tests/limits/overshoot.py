#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Prints how far each kind of memory use gets beyond limits.memory before the run is ended.

    CORDON=build/release/cmd/cordon/cordon tests/limits/overshoot.py [-n RUNS] [-m MIB] [KIND...]

As root: for root and for an ordinary user, with the exact use of the run; as a user: with the fall of
the machine's free memory.
"""

import argparse
import pathlib
import shutil
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]

# pylint: disable=wrong-import-position
import conftest  # noqa: E402
import test_memory  # noqa: E402
from meter import MIB, Meter  # noqa: E402


def once(me, probes, level, kind, limit, want):
    with Meter(me, probes) as meter:
        got = me.receipt(
            ["-m", f"{limit}M", *(["--disk", "8G"] if level == "namespaces" else []), "-t", "60s", "-r", probes["eat"]],
            [probes["eat"], kind, str(want)],
            level,
            preexec_fn=meter.enter,
        )  # fmt: skip
    return got, meter.reading


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=3)
    parser.add_argument("-m", type=int, default=test_memory.LIMIT)
    parser.add_argument("--level", default="namespaces")
    parser.add_argument("kinds", nargs="*", default=test_memory.KINDS + test_memory.BUFFERS)
    args = parser.parse_args()
    base = pathlib.Path(tempfile.mkdtemp(prefix="cordon-overshoot-", dir="/tmp"))
    base.chmod(0o755)
    probes = conftest.Probes(base / "probes")
    cordon = base / "cordon"
    shutil.copy2(conftest.os.environ.get("CORDON", conftest.ROOT / "build/release/cmd/cordon/cordon"), cordon)
    print(f"limit {args.m} MiB, worst of {args.n} runs, MiB")
    print(f"{'kind':16}{'caller':8}{'result':10}{'peak':>8}{'over':>8}{'over %':>8}{'fall':>8}{'ms':>7}")
    try:
        for who in conftest.WHO:
            (base / who).mkdir(mode=0o755)
            me = conftest.Me(who, base / who, cordon)
            me.own(base / who)
            for kind in args.kinds:
                runs = [once(me, probes, args.level, kind, args.m, max(512, 4 * args.m)) for _ in range(args.n)]
                got, reading = max(runs, key=lambda run: run[1].most())
                most = reading.most() / MIB
                print(
                    f"{kind:16}{who:8}{got['kind']:10}{most:8.1f}{most - args.m:8.1f}"
                    f"{(most / args.m - 1) * 100:8.0f}{reading.fall / MIB:8.1f}{got['duration_ms']:7.0f}",
                    flush=True,
                )
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
