# SPDX-License-Identifier: Apache-2.0
"""Hostile recipes: how a payload gets to where git would obey it, and what hides it on the way.

A recipe is data (JSON), so that a finding can be kept, made smaller and replayed:

    spec      the world
    runs      each with `steps` (guest.py), and perhaps `after`: it is started as soon as this name exists
              in the grant, while the runs before it go on
    kind      the payload
    way       how it was placed
    commits   the guest commits what names a repository: then the host's checkouts enter it by right
    continues the host goes on with what the guest began: a rebase and the like
    via       "write" or "workspace"
    quick     the host uses a few commands only
"""

import random
from typing import Any, Callable, Dict, List

import payloads
from payloads import Step
from states import SHA, StateWays
from world import HOMES, HOOKS, KINDS, Spec, World

Recipe = Dict[str, Any]
MARK = (315705600, 271828182)  # of a placeholder: src/format/placeholder_mark.h
ASIDE = ".held-by-cordon"


def aside(path: str) -> str:
    """What Cordon would call it."""
    parent, _, name = path.rpartition("/")
    name = name if name[0] == "." else "." + name
    return f"{parent}/{name}{ASIDE}" if parent else name + ASIDE


class Ways(StateWays):
    """One way per method; each returns the steps. `git` is the repository, seen from the grant."""

    def __init__(self, rng: random.Random, world: World, kind: str):
        self.rng, self.world, self.kind = rng, world, kind
        self.git = world.git_dir()
        self.commits = self.continues = False

    def names(self) -> List[str]:
        got = ["none_or_above", "bare_top", "random_steps", "odd_files", "specials", "attributes", "far", "added", "added", "added"]
        if self.git:
            got += ["direct", "nested", "nested", "modules", "worktrees", "links", "links", "alternates", "remotes"]
            got += ["hidden_then_bare", "stolen_names", "odd_data", "odd_data", "loose", "indexes", "hostile_index", "hostile_index"]
        if self.git == ".git":
            got += ["rebase_state", "rebase_state", "am_state", "sequencer_state", "bisect_state", "merge_state"]
        if self.world.module():
            got += ["module", "module"]
        if self.world.obeyed():
            got += ["obeyed", "obeyed", "obeyed"]
        return got

    def obey(self, git_dir: str) -> List[Step]:
        return payloads.obey(self.world, self.kind, git_dir)

    # --- repositories that the guest makes --------------------------------------------------------------

    def repository(self, path: str) -> List[Step]:
        """A repository of the guest's own, with an index and a commit, and the payload."""
        work = path[: -len("/.git")] if path.endswith("/.git") else path + ".work"
        make: List[Step] = [["git", "init", "-q", "-b", "main", work]]
        make += [["write", f"{work}/f", "f\n"], ["write", f"{work}/.gitattributes", "* filter=x diff=x\n"]]
        make += [["git", "-C", work, "add", "-A"], ["git", "-C", work, "commit", "-qm", "n"], ["append", f"{work}/f", "x\n"]]
        if not path.endswith("/.git"):
            make += [["rename", f"{work}/.git", path]]
        return make + self.obey(path)

    def bare(self, top: str) -> List[Step]:
        """A directory that git would take for a bare repository, in any order."""
        core = self.rng.choice(["bare = true", "bare = false\n\tworktree = .", "bare = false\n\tworktree = .."])
        parts: List[List[Step]] = [
            [["write", f"{top}/HEAD", "ref: refs/heads/main\n"]],
            [["mkdir", f"{top}/objects"]],
            [["mkdir", f"{top}/refs/heads"]],
            [["write", f"{top}/config", f"[core]\n\trepositoryformatversion = 0\n\t{core}\n"], *self.obey(top)],
            [["copy", ".git/index", f"{top}/index"]],
        ]
        self.rng.shuffle(parts)
        return [step for part in parts for step in part]

    def gitlink(self, path: str) -> List[Step]:
        """An index that names a repository there."""
        add: Step = ["git", "update-index", "--add", "--cacheinfo", f"160000,{SHA},{path}"]
        got: List[Step] = [add]
        if self.rng.random() < 0.3:
            got.insert(0, ["git", "update-index", "--index-version", str(self.rng.choice([2, 3, 4]))])
        if self.rng.random() < 0.2:
            got.append(["git", "update-index", "--split-index"])
        if self.rng.random() < 0.1:
            got.append(["git", "commit", "-qm", "names it"])
            self.commits = True
        return got

    def nested(self) -> List[Step]:
        at = self.rng.choice(["n", "src/n", "a b/n", "part/n", "src/deep/n", "n\n\x1b[2J", "-n", "d/" * 70 + "n"])
        how = self.rng.choice(["dir", "dir", "file", "link", "short", "short", "socket-look"])
        if how == "dir":
            made = self.repository(f"{at}/.git")
        elif how == "link":
            up = "../" * (at.count("/") + 1)
            made = [*self.repository("hidden"), ["link", up + "hidden", f"{at}/.git"]]
        else:
            # Short enough for a placeholder: 16 bytes.
            target = "../h" if how == "short" else "../" * (at.count("/") + 1) + "hidden"
            at = "n" if how == "short" else at
            made = [*self.repository("h" if how == "short" else "hidden"), ["write", f"{at}/.git", f"gitdir: {target}\n"]]
            if how != "file":
                made += [["chmod", f"{at}/.git", 0o444], ["utime", f"{at}/.git", *MARK]]
        made += self.gitlink(at)
        return made + self.disguise(f"{at}/.git")

    def added(self) -> List[Step]:
        """No index names it, until the host says `git add .`."""
        at = self.rng.choice(["n", "src/n", "new/deep/n", "loose", "loose/deep", "loose/deep/n", "big/deep/n", "part/loose", "a b/n", "-n"])
        up, dot = "../" * (at.count("/") + 1), f"{at}/.git"
        made: List[Step] = [*self.repository(dot)]
        aside: List[Step] = [*made, ["rename", dot, "hidden"]]
        ways: List[List[Step]] = [
            made, made,
            [*aside, ["write", dot, f"gitdir: {up}hidden\n"]],
            [*aside, ["link", up + "hidden", dot]],
            [*aside, ["rename", "hidden", dot]],
            [*aside, ["git", "init", "-q", at], ["write", f"{dot}/commondir", f"{up}../hidden\n"]],
            [*made, ["rename", f"{dot}/config", "conf"], ["git", "init", "-q", at], ["append", f"{dot}/config", f"[include]\n\tpath = {up}../conf\n"]],
            [*made, ["rename", f"{dot}/config", "conf"], ["link", up + "../conf", f"{dot}/config"]],
            [*made, ["rename", f"{dot}/config", f"{dot}/config.worktree"], ["write", f"{dot}/config", "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n"]],
            [["git", "init", "-q", "other"], *self.repository("other/m/.git"), ["git", "-C", "other", "add", "-A"], ["git", "-C", "other", "commit", "-qm", "m"]],
            [*made, ["git", "init", "-q", "mine"], ["git", "-C", "mine", "config", "core.worktree", f"{self.world.grant}/{at}"]],
            [*made, ["rename", f"{dot}/HEAD", "h"], ["rename", "h", f"{dot}/HEAD"]],
            [*made, ["rename", at, "big/x"], ["rename", "big/x", "moved"]],
            [*made, ["chmod", at, 0], ["chmod", at, 0o755]],
            [*made, ["chmod", dot, 0], ["chmod", dot, 0o755]],
            [*made, self.rng.choice([["remove", ".gitignore"], ["append", ".gitignore", "!big\n"], ["write", ".gitignore", "\n"], ["write", "big/.gitignore", "!*\n"]])],
            [*made, ["remove", f"{dot}/index"], ["link", str(self.world.live / "new-file"), f"{dot}/index"]],
            [*made, ["write", f"{dot}/objects/info/alternates", str(self.world.live / "elsewhere" / "objects") + "\n"]],
        ]  # fmt: skip
        return self.rng.choice(ways) + self.disguise(dot)

    def modules(self) -> List[Step]:
        name = self.rng.choice(["n", "mod", "x/y"])
        up = "../" * 1
        return [
            *self.repository("hidden"),
            ["rename", "hidden", f".git/modules/{name}"],
            ["write", "n/.git", f"gitdir: {up}.git/modules/{name}\n"],
            ["write", ".gitmodules", f'[submodule "{name}"]\n\tpath = n\n\turl = ./h\n'],
            *self.gitlink("n"),
        ]

    def worktrees(self) -> List[Step]:
        common = self.rng.choice(["../..", "../../../hidden", f"{self.world.grant}/hidden"])
        return [
            *self.repository("hidden"),
            ["write", ".git/worktrees/w/HEAD", "ref: refs/heads/main\n"],
            ["write", ".git/worktrees/w/commondir", common + "\n"],
            ["write", ".git/worktrees/w/gitdir", f"{self.world.grant}/n/.git\n"],
            ["write", "n/.git", "gitdir: ../.git/worktrees/w\n"],
            *self.obey(".git/worktrees/w"),
            *self.gitlink("n"),
        ]

    def module(self) -> List[Step]:
        """The submodule that was there."""
        at = self.world.module() or "."
        dot = f"{at}/.git"
        ways: List[List[Step]] = [
            [["remove", dot], *self.repository(f"{at}/.git")],
            [*self.repository("hidden"), ["replace", dot, f"gitdir: {self.world.grant}/hidden\n"]],
            [*self.repository("hidden"), ["write", dot, f"gitdir: {self.world.grant}/hidden\n"]],
            [*self.repository("hidden"), ["relink", f"{self.world.grant}/hidden", dot]],
            [["rename", at, "moved"], *self.repository(f"{at}/.git")],
            self.obey(f"{self.git}/modules/mod") if self.git else self.obey("../.git/modules/mod"),
        ]
        got = self.rng.choice(ways)
        return got + self.disguise(dot)

    # --- the repository at the top ----------------------------------------------------------------------

    def change(self, path: str, text: str, mode: int = 0o644) -> List[Step]:
        """Ways to give a file other content."""
        other = "hostile-new"
        new: Step = ["write", other, text, mode]
        ways: List[List[Step]] = [
            [["append", path, text]],
            [["replace", path, text, mode]],
            [["remove", path], ["write", path, text, mode]],
            [new, ["rename", other, path]],
            [new, ["exchange", other, path]],
            [new, ["remove", path], ["hardlink", other, path]],
            [new, ["relink", f"{self.world.grant}/{other}", path]],
            [["hardlink", path, other], ["append", other, text]],
        ]
        if "/" in path:
            parent, name = path.rsplit("/", 1)
            ways += [
                [["rename", parent, "moved"], ["write", f"moved/{name}", text, mode], ["rename", "moved", parent]],
                [["copy", parent, "moved"], ["write", f"moved/{name}", text, mode], ["exchange", "moved", parent]],
                [["rename", parent, "moved"], ["write", f"{parent}/{name}", text, mode]],
                [["rename", parent, "moved"], ["copy", "moved", "other"], ["write", f"other/{name}", text, mode], ["link", f"{self.world.grant}/other", parent]],
            ]
        return self.rng.choice(ways)

    def direct(self) -> List[Step]:
        git = self.git
        if self.kind.startswith("hook:"):
            return self.change(f"{git}/hooks/{self.kind[5:]}", payloads.script(self.world), 0o755)
        text = payloads.text(self.world, self.kind)
        name = self.rng.choice(["config", "config", "config.worktree", "commondir"])
        if name == "commondir":
            return [*self.repository("hidden"), *self.change(f"{git}/commondir", f"{self.world.grant}/hidden\n")]
        return self.change(f"{git}/{name}", text)

    def bare_top(self) -> List[Step]:
        """Half or all of a bare repository at the top; the rest of the attack is on `.git`."""
        got = self.bare(".")
        got = [step for step in got if self.rng.random() < 0.9]
        if self.git == ".git":
            got += self.direct()
        return got

    def hidden_then_bare(self) -> List[Step]:
        """`.git` is made useless, so that git looks further: at the top itself."""
        dot = self.git or ".git"
        name = self.rng.choice(["HEAD", "HEAD", "objects", "refs"])
        ways: List[List[Step]] = [
            [["rename", f"{dot}/{name}", "gone"]],
            [["remove", f"{dot}/{name}"]],
            [["chmod", f"{dot}/{name}", 0]],
            [["chmod", dot, 0]],
            [["write", f"{dot}/HEAD", "nonsense\n"]],
            [["truncate", f"{dot}/HEAD", 0]],
            [["relink", "nowhere", f"{dot}/HEAD"]],
            [["remove", f"{dot}/{name}"], ["fifo", f"{dot}/{name}"]],
            [["remove", f"{dot}/HEAD"], ["mkdir", f"{dot}/HEAD"]],
            [["rename", dot, "gone"]],
            [["exchange", dot, "src"]],
        ]
        hide, make = self.rng.choice(ways), self.bare(".")
        return hide + make if self.rng.random() < 0.5 else make + hide

    def stolen_names(self) -> List[Step]:
        """The whole of `.git` copied, changed, and put in its place one way or another."""
        make: List[Step] = [["copy", ".git", "copied"], *self.obey("copied")]
        ways: List[List[Step]] = [
            [["exchange", "copied", ".git"]],
            [["remove", ".git"], ["rename", "copied", ".git"]],
            [["remove", ".git"], ["write", ".git", "gitdir: copied\n"]],
            [["remove", ".git"], ["link", "copied", ".git"]],
            [["rename", ".git", "old"], ["rename", "copied", ".git"]],
            [["relink", "copied", ".git"]],
            [["rename", "copied/config", ".git/config"], ["rename", "copied/hooks", ".git/hooks"]],
        ]
        return make + self.rng.choice(ways)

    def links(self) -> List[Step]:
        """Links in the repository, through which git writes or reads."""
        name = self.rng.choice([
            "logs/HEAD", "logs/refs/heads/main", "logs", "COMMIT_EDITMSG", "ORIG_HEAD", "FETCH_HEAD", "index", "HEAD",
            "packed-refs", "refs/heads/main", "refs/heads", "refs/stash", "logs/refs/stash", "info", "info/exclude",
            "info/attributes", "objects", "objects/pack", "objects/info", "gc.log", "gc.pid", "shallow", "index.lock",
            "refs/heads/main.lock", "logs/refs", "objects/info/commit-graph", "MERGE_HEAD", "sharedindex.x",
        ])  # fmt: skip
        up = "../" * name.count("/")
        target = self.rng.choice([
            up + "hooks/post-checkout", up + "hooks/pre-commit", up + "config", up + "../../secret", up + "hooks",
            str(self.world.live / "secret"), str(self.world.live / "new-file"), str(self.world.home / ".bashrc"),
            up + "../../new-file", up + "config.worktree", str(self.world.live / "elsewhere"),
        ])  # fmt: skip
        path = f"{self.git}/{name}"
        ways: List[List[Step]] = [
            [["relink", target, path]],
            [["remove", path], ["link", target, path]],
            [["link", target, "lnk"], ["rename", "lnk", path]],
            [["relink", f"{self.world.grant}/chain1", path], ["link", "chain2", "chain1"], ["link", str(self.world.live / "secret"), "chain2"]],
            [["copy", path, "copied"], ["remove", path], ["hardlink", "copied", path]],
        ]
        got = self.rng.choice(ways)
        return got + self.disguise(path)

    def alternates(self) -> List[Step]:
        target = self.rng.choice([str(self.world.live / "elsewhere" / "objects"), "../../../elsewhere/objects"])
        name = self.rng.choice(["alternates", "http-alternates"])
        return [["write", f"{self.git}/objects/info/{name}", target + "\n"]]

    def remotes(self) -> List[Step]:
        url = self.rng.choice([f"ext::{payloads.program(self.world)}", "ssh://h/x", str(self.world.live / "remote.git"), "../remote.git"])
        if self.rng.random() < 0.5:
            return [["write", f"{self.git}/remotes/origin", f"URL: {url}\nPull: refs/heads/*:refs/heads/o/*\n"]]
        return [["write", f"{self.git}/branches/origin", url + "\n"]]

    # --- elsewhere ----------------------------------------------------------------------------------------

    def none_or_above(self) -> List[Step]:
        """A repository at the top of a grant that has none of its own."""
        how = self.rng.choice(["git", "dir", "file", "link", "bare", "over"])
        if how == "git":
            return self.repository("./.git")
        if how == "dir":
            return [*self.repository("hidden"), ["rename", "hidden", ".git"]]
        if how == "file":
            return [*self.repository("hidden"), *self.change(".git", "gitdir: hidden\n")]
        if how == "link":
            return [*self.repository("hidden"), ["relink", "hidden", ".git"]]
        if how == "over":
            return [*self.repository("hidden"), ["relink", "hidden", "../.git"], *self.obey("../.git")]
        return self.bare(".")

    def obeyed(self) -> List[Step]:
        """What the user's own settings name inside the grant."""
        what, path = self.rng.choice(self.world.obeyed())
        if what == "config":
            return self.change(path, payloads.text(self.world, self.kind))
        if what == "hook":
            return self.change(path, payloads.script(self.world), 0o755)
        hook = self.kind[5:] if self.kind.startswith("hook:") else "post-commit"
        if path == ".mid":
            return self.rng.choice([[["relink", "hostile-hooks", path]], [["remove", path], ["copy", "hostile-hooks", path]]])
        return self.change(f"{path}/{hook}", payloads.script(self.world), 0o755)

    def odd_files(self) -> List[Step]:
        """Things that are neither files nor directories, and attributes that no one expects."""
        git = self.git or "."
        at = self.rng.choice(["HEAD", "index", "logs/HEAD", "refs/heads/x", "packed-refs", "info/exclude", "objects/ab", "config.worktree", "x"])
        ways: List[List[Step]] = [
            [["remove", f"{git}/{at}"], ["fifo", f"{git}/{at}"]],
            [["remove", f"{git}/{at}"], ["socket", f"{git}/{at}"]],
            [["chmod", f"{git}/{at}", self.rng.choice([0, 0o111, 0o6755])]],
            [["utime", f"{git}/{at}", self.rng.choice([0, 1, 315705600, 2**33]), 271828182]],
            [["many", f"{git}/refs/heads/m", "b", 300]],
            [["deep", f"{git}/refs/heads", "d" * 200, self.rng.choice([3, 70]), [["link", "/nowhere", "l"]]]],
        ]
        return self.rng.choice(ways)

    def random_steps(self) -> List[Step]:
        """No plan at all."""
        git = self.git or ".git"
        names = [git, f"{git}/HEAD", f"{git}/config", f"{git}/hooks", f"{git}/objects", f"{git}/refs", f"{git}/index", f"{git}/logs",
                 f"{git}/logs/HEAD", f"{git}/info", f"{git}/modules", f"{git}/worktrees", f"{git}/commondir", "HEAD", "objects", "refs",
                 "config", "hooks", "src", "n", "n/.git", ".gitmodules", "copied", "hidden", ".git" + ASIDE, "hostile-hooks"]  # fmt: skip
        got: List[Step] = [*self.repository("hidden")] if self.rng.random() < 0.5 else []
        for _ in range(self.rng.randint(2, 8)):
            a, b = self.rng.choice(names), self.rng.choice(names)
            op = self.rng.choice(["rename", "exchange", "copy", "hardlink", "link", "relink", "remove", "chmod", "utime", "obey", "gitlink", "bare"])
            if op in ("obey", "bare"):
                got += self.obey(a) if op == "obey" else self.bare(a)
            elif op == "gitlink":
                got += self.gitlink("n")
            elif op in ("link", "relink"):
                got.append([op, f"{self.world.grant}/{a}", b])
            elif op == "remove":
                got.append([op, a])
            elif op == "chmod":
                got.append([op, a, self.rng.choice([0, 0o444, 0o500, 0o755])])
            elif op == "utime":
                got.append([op, a, *MARK])
            else:
                got.append([op, a, b])
        return got

    # --- what hides it ------------------------------------------------------------------------------------

    def disguise(self, path: str) -> List[Step]:
        """So that it is not found, not recognised or cannot be put aside."""
        parent = path.rsplit("/", 1)[0]
        ways: List[List[Step]] = [
            [], [], [],
            [["decoys", path, self.rng.choice([3, 120])], ["decoys", ".git/index", 120]],
            [["chmod", parent, self.rng.choice([0, 0o555, 0o111])]],
            [["chmod", path, 0o444], ["utime", path, *MARK]],
            [["utime", path, self.rng.choice([0, 1000, 2**32]), 0]],
            [["many", parent, "m", 200]],
            [["mkdir", aside(path)], ["write", aside(path) + "/x", ""]],
        ]  # fmt: skip
        return self.rng.choice(ways)


Split = Callable[[random.Random, List[Step]], List[Dict[str, Any]]]


def one_run(rng: random.Random, steps: List[Step]) -> List[Dict[str, Any]]:
    return [{"steps": steps}]


def two_runs(rng: random.Random, steps: List[Step]) -> List[Dict[str, Any]]:
    cut = rng.randint(0, len(steps))
    return [{"steps": steps[:cut]}, {"steps": steps[cut:]}]


def restored(rng: random.Random, steps: List[Step]) -> List[Dict[str, Any]]:
    """A second run gives what was put aside its name again."""
    back: List[Step] = []
    for name in (".git", "n/.git", "mod/.git", ".git/logs/HEAD", ".git/index", "src/n/.git", ".git/modules", ".git/worktrees"):
        back += [["rename", aside(name), name]]
    return [{"steps": steps}, {"steps": back}]


def overlapping(rng: random.Random, steps: List[Step]) -> List[Dict[str, Any]]:
    """The second run is there while the first one makes it and ends; then it restores it."""
    back = restored(rng, [])[1]["steps"]
    first = [*steps, ["write", "sync-made", ""], ["await", "sync-up"]]
    second = [["write", "sync-up", ""], ["await", f"n/.git{ASIDE}", 5], *back]
    return [{"steps": first}, {"steps": second, "after": "sync-made"}]


def spec(rng: random.Random) -> Spec:
    return Spec(
        rng.choice(KINDS + ("plain",) * 6), rng.choice(HOMES + ("plain",) * 4), rng.choice(HOOKS), rng.random() < 0.5, rng.choice([2, 2, 4])
    )


def recipe(rng: random.Random, world: World) -> Recipe:
    """A recipe by chance."""
    kind = rng.choice(payloads.KINDS) if rng.random() < 0.6 else rng.choice(["fsmonitor", "hook:post-index-change", "filter"])
    ways = Ways(rng, world, kind)
    steps, used = payloads.preparation(world), []
    for _ in range(rng.choice([1, 1, 2])):
        way = rng.choice(ways.names())
        used.append(way)
        steps = steps + getattr(ways, way)()
    split: Split = rng.choice([one_run, one_run, one_run, two_runs, restored])
    if "nested" in used and rng.random() < 0.15:
        split = overlapping
    return {
        "spec": list(world.spec), "runs": split(rng, steps), "kind": kind, "way": "+".join(used), "commits": ways.commits,
        "continues": ways.continues, "via": "write" if world.more else rng.choice(["write"] * 9 + ["workspace"]),
        "quick": rng.random() < 0.6,
    }  # fmt: skip
