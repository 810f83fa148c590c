#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets hostile commands loose in repositories, then uses git there as the host would: what `make fuzz-git`
does. Whatever git executes, writes or reads beyond what it does in a clean repository is a finding.

    fuzz/git/run.py --cordon FILE [--git FILE] [--seconds N | --tries N] [--seed N] [--user UID]
    fuzz/git/run.py --cordon FILE --recipes [NAME...]    only the known ways (recipes.py)
    fuzz/git/run.py --cordon FILE --replay FILE          one finding that was kept
    fuzz/git/run.py --kinds                              which payloads git obeys at all: the positive control
    ... --outside                                        without the sandbox

Findings are made smaller and kept in --keep as files to be replayed. Exit status: 0 only if nothing was
found (with --outside: only if every known way works there).
"""

import argparse
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from typing import Any, Counter, Dict, List, Set, Tuple

import grammar
import payloads
import recipes
from grammar import Recipe
from oracle import COMMAND_SECONDS, Finding, Oracle, Use
from world import Maker, Spec, World, clear

HERE = pathlib.Path(__file__).resolve().parent
GUEST = (HERE / "guest.py").read_text()
RUN_SECONDS = 120
SMALLER_TRIES = 60
PROGRESS_SECONDS = 60
OUTSIDE_SECONDS = 3  # for what shall hang there
SMALLER_HANGS = 6  # each of them takes COMMAND_SECONDS


class Fuzzer:
    """Tries recipes in worlds below `base`."""

    def __init__(self, base: pathlib.Path, args: argparse.Namespace):
        self.cordon = args.cordon
        self.without = args.no_protect
        self.maker = Maker(base)
        self.base = base
        self.oracle = Oracle(args.git, base)
        self.is_quick = args.quick
        self.log = ""

    def world(self, spec: Spec) -> World:
        """To look at, not to work in."""
        return World(self.base, spec)

    # --- one recipe -----------------------------------------------------------------------------------

    def _argv(self, recipe: Recipe, steps: List[Any], world: World, outside: bool) -> List[str]:
        guest = ["python3", "-S", "-E", "-c", GUEST, json.dumps(steps)]
        if outside:
            return guest
        grant = ["-w", str(world.grant)] if recipe["via"] == "write" else ["--workspace", str(world.grant)]
        for more in world.more:
            grant += [grant[0], str(more)]
        if self.without:
            grant.append("--no-protect")
        return [self.cordon, "run", *grant, "-C", str(world.grant), "--", *guest]

    def _run(self, recipe: Recipe, world: World, outside: bool) -> List[int]:
        """Every run of the recipe; the exit statuses."""
        going: List["subprocess.Popen[bytes]"] = []
        self.log = ""
        with open(self.base / "log", "wb+") as log:
            for run in recipe["runs"]:
                if run.get("after"):
                    await_name(world.grant / run["after"])
                else:
                    for old in going:
                        old.wait(RUN_SECONDS)
                going.append(subprocess.Popen(
                    self._argv(recipe, run["steps"], world, outside), cwd=world.grant, env=world.env(),
                    stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                ))  # fmt: skip
            for old in going:
                old.wait(RUN_SECONDS)
            if recipe["via"] == "workspace" and not outside:
                subprocess.run([self.cordon, "workspace", "commit"], cwd=world.grant, env=world.env(), stdout=log,
                               stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)  # fmt: skip
            log.seek(0)
            self.log = log.read().decode(errors="replace")
        return [old.returncode for old in going]

    def attempt(self, recipe: Recipe, outside: bool = False) -> Tuple[List[int], List[Finding]]:
        recipe = absolute(recipe, self.base)
        use = Use(Spec(*recipe["spec"]), not recipe["commits"], recipe.get("continues", False), self.is_quick or recipe.get("quick", False))
        world = self.maker.fresh(use.spec)
        if use not in self.oracle.clean:
            self.oracle.learn(world, use)
            world = self.maker.fresh(use.spec)
        statuses = self._run(recipe, world, outside)
        limit = OUTSIDE_SECONDS if outside and recipe.get("harm") == "hang" else COMMAND_SECONDS
        return statuses, self.oracle.judge(world, use, limit)

    def forget(self) -> None:
        """Worlds that are not needed any more."""
        self.maker.forget()
        self.oracle.clean.clear()

    def smaller(self, recipe: Recipe, what: str) -> Recipe:
        """The same finding with fewer steps, within reason."""
        left, best = SMALLER_HANGS if what == "hang" else SMALLER_TRIES, recipe
        for n in range(len(recipe["runs"])):
            i = len(best["runs"][n]["steps"]) - 1
            while i >= 0 and left > 0:
                less = json.loads(json.dumps(best))
                del less["runs"][n]["steps"][i]
                left -= 1
                if any(f.what == what for f in self.attempt(less)[1]):
                    best = less
                i -= 1
        return best


def await_name(path: pathlib.Path) -> None:
    end = time.monotonic() + RUN_SECONDS
    while not os.path.lexists(path) and time.monotonic() < end:
        time.sleep(0.005)


def absolute(recipe: Recipe, base: pathlib.Path) -> Recipe:
    """Recipes that were kept name the world's directory by a sign."""
    got: Recipe = json.loads(json.dumps(recipe).replace("@LIVE@", str(base / "live")))
    return got


def portable(recipe: Recipe, base: pathlib.Path) -> str:
    return json.dumps(recipe, indent=1).replace(str(base / "live"), "@LIVE@")


# --- modes --------------------------------------------------------------------------------------------------


class Account:
    """What a session has seen."""

    def __init__(self) -> None:
        self.tries = 0
        self.statuses: Counter[int] = collections.Counter()
        self.findings: Dict[Tuple[str, str], int] = {}
        self.odd: Counter[str] = collections.Counter()
        self.worked: Set[str] = set()
        self.failed: Set[str] = set()

    def close(self) -> int:
        statuses = ", ".join(f"{n} x {code}" for code, n in sorted(self.statuses.items()))
        print(f"{self.tries} tries; exit statuses of the runs: {statuses or 'none'}")
        if self.worked or self.failed:
            print(f"payloads seen to work outside: {len(self.worked)} of {len(payloads.KINDS)}")
            for kind in sorted(set(payloads.KINDS) - self.worked):
                print(f"  never outside, so this proves nothing: {kind}")
        for text, n in sorted(self.odd.items())[:8]:
            print(f"  git did not end well, {n} x: {text}")
        print(f"{len(self.findings)} findings")
        return 1 if self.findings else 0


def note(account: Account, fuzzer: Fuzzer, recipe: Recipe, found: List[Finding], args: argparse.Namespace) -> None:
    for finding in found:
        if not finding.counts:
            account.odd[f"{finding.what}: {finding.command} after {recipe['way']}"] += 1
    real = [f for f in found if f.counts]
    if not real:
        return
    worst = min(real, key=lambda f: ["executed", "written", "read", "hang"].index(f.what))
    key = (worst.what, recipe["way"])
    account.findings[key] = account.findings.get(key, 0) + 1
    if account.findings[key] > args.each:
        return
    print(f"FOUND {worst.what} by {worst.command}: {worst.detail}\n  world {recipe['spec']}, {recipe['way']}, {recipe['kind']}")
    if args.smaller:
        recipe = fuzzer.smaller(recipe, worst.what)
    for run in recipe["runs"]:
        print("  run: " + json.dumps(run).replace(str(fuzzer.base / "live"), "@LIVE@")[:1500])
    if args.keep:
        keep = pathlib.Path(args.keep)
        keep.mkdir(parents=True, exist_ok=True)
        # The same seed finds the same with another git and as another user.
        name = f"{worst.what}-{recipe['way']}-{account.tries}-{fuzzer.oracle.version}-{os.getuid()}.json"
        (keep / name).write_text(portable(recipe, fuzzer.base))
    sys.stdout.flush()


def kinds(fuzzer: Fuzzer, args: argparse.Namespace) -> int:
    """Which payloads git obeys at all, put straight into a repository without any sandbox."""
    account = Account()
    for kind in payloads.KINDS:
        spec = Spec("submodule" if kind == "submodule-update" else "plain")
        world = fuzzer.world(spec)
        steps = payloads.preparation(world) + payloads.obey(world, kind, ".git")
        recipe = {"spec": list(spec), "runs": [{"steps": steps}], "kind": kind, "way": "kinds", "commits": False, "via": "write"}
        found = fuzzer.attempt(recipe, outside=True)[1]
        (account.worked if any(f.what == "executed" for f in found) else account.failed).add(kind)
        account.tries += 1
    account.close()
    return 1 if account.failed - payloads.RARE else 0


def fuzz(fuzzer: Fuzzer, args: argparse.Namespace, end: float) -> int:
    account = Account()
    number = args.first
    told = time.monotonic()
    while account.tries < args.tries and time.monotonic() < end:
        if time.monotonic() - told > PROGRESS_SECONDS:
            told = time.monotonic()
            print(f"{account.tries} tries, {len(account.findings)} findings", flush=True)
        # A world is used for a while: what git does in a clean one takes as long to find out as a try.
        spec = grammar.spec(random.Random(f"{args.seed}/world {number // args.same}"))
        if number % args.same == 0:
            fuzzer.forget()
        recipe = grammar.recipe(random.Random(f"{args.seed}/{number}"), fuzzer.world(spec))
        number += 1
        account.tries += 1
        statuses, found = fuzzer.attempt(recipe, outside=args.outside)
        if args.outside:
            (account.worked if any(f.what == "executed" for f in found) else account.failed).add(recipe["kind"])
            continue
        account.statuses.update(statuses)
        note(account, fuzzer, recipe, found, args)
    print(f"seed {args.seed}, numbers {args.first} to {number - 1}, {args.git}")
    return account.close()


def known(fuzzer: Fuzzer, args: argparse.Namespace) -> int:
    """The recipes of recipes.py: each does harm outside, and none inside."""
    bad = 0
    chosen = args.recipes or (recipes.STANDING if args.standing else list(recipes.ALL))
    for name in chosen:
        recipe = recipes.ALL[name](fuzzer.world)
        wanted = recipe.get("harm", "executed")
        if args.outside or args.control:
            found = fuzzer.attempt(recipe, outside=True)[1]
            if not any(f.what == wanted for f in found):
                print(f"CONTROL {name}: nothing {wanted} outside, so it proves nothing")
                bad += 1
        if args.outside:
            continue
        statuses, found = fuzzer.attempt(recipe)
        real = [f for f in found if f.counts]
        if real:
            bad += 1
            print(f"FOUND {name} (runs ended with {statuses})")
            for f in real[:4]:
                print(f"  {f.what} by {f.command}: {f.detail}")
        elif args.verbose:
            print(f"ok {name} {statuses} {fuzzer.log.strip()[:300]}")
    print(f"{len(chosen)} known ways, {bad} bad, {args.git}")
    return 1 if bad else 0


def replay(fuzzer: Fuzzer, args: argparse.Namespace) -> int:
    recipe = json.loads(pathlib.Path(args.replay).read_text())
    statuses, found = fuzzer.attempt(recipe, outside=args.outside)
    print(f"runs ended with {statuses}\n{fuzzer.log}")
    for f in found:
        print(f"{f.what} by {f.command}: {f.detail}")
    return 1 if any(f.counts for f in found) else 0


def options() -> argparse.Namespace:
    p = argparse.ArgumentParser(description="hostile commands in repositories, judged with real git")
    p.add_argument("--cordon", default="build/release/cmd/cordon/cordon")
    p.add_argument("--git", default="/usr/bin/git")
    p.add_argument("--seconds", type=float)
    p.add_argument("--tries", type=int, default=10**9)
    p.add_argument("--seed", default="1")
    p.add_argument("--first", type=int, default=0, help="the number of the first try")
    p.add_argument("--user", type=int, help="started by root: be this user")
    p.add_argument("--outside", action="store_true", help="no sandbox: the positive control")
    p.add_argument("--no-protect", action="store_true", help="a sandbox that protects no names")
    p.add_argument("--control", action="store_true", help="with --recipes: first see each of them work outside")
    p.add_argument("--recipes", nargs="*", metavar="NAME")
    p.add_argument("--standing", action="store_true", help="with --recipes: one of each sort")
    p.add_argument("--same", type=int, default=16, help="so many tries in a world of the same kind")
    p.add_argument("--kinds", action="store_true", help="see which payloads git obeys at all, without a sandbox")
    p.add_argument("--replay", metavar="FILE")
    p.add_argument("--keep", metavar="DIR", help="where findings are kept")
    p.add_argument("--quick", action="store_true", help="fewer commands of git")
    p.add_argument("--smaller", action="store_true", help="make findings smaller")
    p.add_argument("--each", type=int, default=2, help="how often the same kind of finding is told")
    p.add_argument("--live", metavar="DIR", help="work here, and leave the last world behind")
    p.add_argument("-v", "--verbose", action="store_true")
    return p.parse_args()


def main() -> int:
    args = options()
    args.cordon = os.path.abspath(args.cordon)
    args.git = os.path.abspath(args.git)
    if args.user and os.geteuid() == 0:
        os.setgroups([])
        os.setgid(args.user)
        os.setuid(args.user)
    os.umask(0o022)
    end = time.monotonic() + (args.seconds if args.seconds else 10**9)
    base = pathlib.Path(args.live) if args.live else pathlib.Path(tempfile.mkdtemp(prefix="cordon-git-"))
    base.mkdir(exist_ok=True)
    base = base.resolve()
    fuzzer = Fuzzer(base, args)
    try:
        if args.replay:
            return replay(fuzzer, args)
        if args.kinds:
            return kinds(fuzzer, args)
        if args.recipes is not None:
            return known(fuzzer, args)
        return fuzz(fuzzer, args, end)
    finally:
        if not args.live:
            clear(base)


if __name__ == "__main__":
    sys.exit(main())
