# SPDX-License-Identifier: Apache-2.0
"""Ways that are known: each worked against Cordon once, or against others like it. The fuzzer and the tests
replay them. `harm` is what git does after it where there is no sandbox."""

import random
from typing import Any, Callable, Dict, List

import payloads
from grammar import ASIDE, MARK, SHA, Recipe, Ways
from payloads import Step
from world import Spec, World

Make = Callable[[Callable[[Spec], World]], Recipe]
ALL: Dict[str, Make] = {}
# These still work: the tests pass them over, the fuzzer does not.
OPEN: set[str] = set()


class Kit:
    """What a recipe is made of."""

    def __init__(self, spec: Spec, kind: str, make: Callable[[Spec], World]):
        self.spec, self.kind = spec, kind
        self.world = make(spec)
        self.ways = Ways(random.Random(0), self.world, kind)
        self.live = str(self.world.live)
        self.grant = str(self.world.grant)

    def obey(self, git_dir: str) -> List[Step]:
        return payloads.obey(self.world, self.kind, git_dir)

    def repository(self, path: str) -> List[Step]:
        return self.ways.repository(path)

    def bare(self) -> List[Step]:
        return [
            ["write", "HEAD", "ref: refs/heads/main\n"], ["mkdir", "objects"], ["mkdir", "refs/heads"], ["copy", ".git/index", "index"],
            ["write", "config", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n"], *self.obey("."),
        ]  # fmt: skip

    def gitlink(self, path: str = "n") -> List[Step]:
        return [["git", "update-index", "--add", "--cacheinfo", f"160000,{SHA},{path}"]]

    def nested(self) -> List[Step]:
        return [*self.repository("n/.git"), *self.gitlink()]


def known(
    name: str, kind: str = "fsmonitor", harm: str = "executed", via: str = "write", place: str = "plain", **spec: Any
) -> Callable[[Callable[[Kit], Any]], None]:
    """Registers a recipe; the function returns the steps of one run, or a list of runs."""

    def register(function: Callable[[Kit], Any]) -> None:
        def make(worlds: Callable[[Spec], World]) -> Recipe:
            kit = Kit(Spec(place, **spec), kind, worlds)
            got = function(kit)
            runs = got if isinstance(got[0], dict) else [{"steps": got}]
            runs[0]["steps"] = payloads.preparation(kit.world) + runs[0]["steps"]
            return {
                "spec": list(kit.spec), "runs": runs, "kind": kind, "way": name, "commits": False, "via": via, "harm": harm,
            }  # fmt: skip

        ALL[name] = make

    return register


# --- the config and the hooks themselves ------------------------------------------------------------


@known("config")
def _(k: Kit) -> Any:
    return k.obey(".git")


@known("hook", "hook:pre-commit", hooks="missing")
def _(k: Kit) -> Any:
    return k.obey(".git")


@known("git-dir-exchanged")
def _(k: Kit) -> Any:
    return [["copy", ".git", "copied"], *k.obey("copied"), ["exchange", "copied", ".git"]]


@known("commondir")
def _(k: Kit) -> Any:
    return [["copy", ".git", "hidden"], *k.obey("hidden"), ["write", ".git/commondir", f"{k.grant}/hidden\n"]]


@known("hooks-over-a-link", "hook:pre-commit", home="linked-hooks")
def _(k: Kit) -> Any:
    return [["relink", "hostile-hooks", ".mid"]]


@known("config-behind-a-link", home="dotfiles")
def _(k: Kit) -> Any:
    return [["append", "dot/gitconfig", payloads.text(k.world, k.kind)]]


@known("config-included", home="include")
def _(k: Kit) -> Any:
    return [["write", "tools/gitconfig", payloads.text(k.world, k.kind)]]


@known("hooks-relative", "hook:pre-commit", home="relative-hooks")
def _(k: Kit) -> Any:
    return [["rename", ".githooks", "old"], ["copy", "hostile-hooks", ".githooks"]]


@known("hooks-relative-and-missing", "hook:pre-commit", home="missing-hooks")
def _(k: Kit) -> Any:
    return [["copy", "hostile-hooks", ".githooks"]]


@known("hook-is-a-link-into-the-work-tree", hooks="linked")
def _(k: Kit) -> Any:
    return [["write", "tools/hook", payloads.script(k.world), 0o755]]


@known("hook-is-a-link-over-a-directory", hooks="linked")
def _(k: Kit) -> Any:
    return [["rename", "tools", "old"], ["write", "tools/hook", payloads.script(k.world), 0o755]]


# --- git takes another directory for its repository ---------------------------------------------------


@known("bare-look-alike")
def _(k: Kit) -> Any:
    """HEAD and objects/ at the top in one run, the config of `.git` in the next."""
    return [{"steps": [["write", "HEAD", "ref: refs/heads/main\n"], ["mkdir", "objects"], ["mkdir", "refs"]]}, {"steps": k.obey(".git")}]


@known("head-moved-away")
def _(k: Kit) -> Any:
    return [*k.bare(), ["rename", ".git/HEAD", ".git/HEAD.away"]]


@known("objects-moved-away")
def _(k: Kit) -> Any:
    return [*k.bare(), ["rename", ".git/objects", "away"]]


@known("head-nonsense")
def _(k: Kit) -> Any:
    return [*k.bare(), ["write", ".git/HEAD", "nonsense\n"]]


@known("git-dir-closed-then-second-run")
def _(k: Kit) -> Any:
    return [{"steps": [["chmod", ".git", 0]]}, {"steps": [["chmod", ".git", 0o755], *k.obey(".git")]}]


@known("git-dir-closed")
def _(k: Kit) -> Any:
    return [*k.bare(), ["remove", ".git/HEAD"], ["chmod", ".git", 0]]


@known("repository-where-none-was", place="none")
def _(k: Kit) -> Any:
    return k.repository("./.git")


@known("bare-where-none-was", place="none")
def _(k: Kit) -> Any:
    return k.bare()


@known("repository-below-the-top", place="above")
def _(k: Kit) -> Any:
    return k.repository("./.git")


@known("bare-below-the-top", place="above")
def _(k: Kit) -> Any:
    return k.bare()


@known("work-tree-file", place="linked")
def _(k: Kit) -> Any:
    return [*k.repository("hidden"), ["replace", ".git", f"gitdir: {k.grant}/hidden\n"]]


@known("bare-repository", "hook:reference-transaction", place="bare")
def _(k: Kit) -> Any:
    return k.obey(".")


# --- repositories that the index names ------------------------------------------------------------------


@known("nested")
def _(k: Kit) -> Any:
    return k.nested()


@known("nested-like-a-placeholder")
def _(k: Kit) -> Any:
    return [*k.repository("h"), ["write", "n/.git", "gitdir: ../h\n", 0o444], ["utime", "n/.git", *MARK], *k.gitlink()]


@known("nested-decoys")
def _(k: Kit) -> Any:
    return [*k.nested(), ["decoys", "n/.git", 120], ["decoys", ".git/index", 120]]


@known("nested-closed-directory")
def _(k: Kit) -> Any:
    return [*k.nested(), ["chmod", "n", 0o555]]


@known("nested-restored")
def _(k: Kit) -> Any:
    return [{"steps": k.nested()}, {"steps": [["rename", f"n/.git{ASIDE}", "n/.git"]]}]


@known("nested-overlapping")
def _(k: Kit) -> Any:
    first = [*k.nested(), ["write", "sync-made", ""], ["await", "sync-up"]]
    second: List[Step] = [["write", "sync-up", ""], ["await", f"n/.git{ASIDE}", 20], ["rename", f"n/.git{ASIDE}", "n/.git"]]
    return [{"steps": first}, {"steps": second, "after": "sync-made"}]


@known("nested-split-index")
def _(k: Kit) -> Any:
    return [*k.nested(), ["git", "update-index", "--split-index"]]


@known("nested-index-4")
def _(k: Kit) -> Any:
    return [["git", "update-index", "--index-version", "4"], *k.nested()]


@known("nested-through-modules")
def _(k: Kit) -> Any:
    return [*k.repository("h"), ["rename", "h", ".git/modules/n"], ["write", "n/.git", "gitdir: ../.git/modules/n\n"], *k.gitlink()]


@known("nested-through-worktrees")
def _(k: Kit) -> Any:
    return [
        *k.repository("h"), ["write", ".git/worktrees/w/HEAD", "ref: refs/heads/main\n"], ["write", ".git/worktrees/w/commondir", f"{k.grant}/h\n"],
        ["copy", "h/index", ".git/worktrees/w/index"], ["write", ".git/worktrees/w/gitdir", f"{k.grant}/n/.git\n"],
        ["write", "n/.git", "gitdir: ../.git/worktrees/w\n"], ["write", "n/f", "other\n"], *k.gitlink(),
    ]  # fmt: skip


@known("submodule-made-another", place="submodule")
def _(k: Kit) -> Any:
    return [["remove", "mod/.git"], *k.repository("mod/.git")]


@known("submodule-of-a-repository-above", place="above-module")
def _(k: Kit) -> Any:
    return [*k.repository("hidden"), ["replace", "mod/.git", f"gitdir: {k.grant}/hidden\n"]]


@known("submodule-is-the-grant", place="in-module")
def _(k: Kit) -> Any:
    return [*k.repository("hidden"), ["replace", ".git", f"gitdir: {k.grant}/hidden\n"]]


@known("file-made-a-repository")
def _(k: Kit) -> Any:
    """The index names a file; where a repository stands, `git add -u` makes it a submodule."""
    return [["remove", "README"], *k.repository("README/.git")]


@known("file-of-a-repository-above-made-a-repository", place="above")
def _(k: Kit) -> Any:
    return [["remove", "c"], *k.repository("c/.git")]


@known("nested-without-a-newline")
def _(k: Kit) -> Any:
    return [*k.repository("hidden"), ["write", "n/.git", f"gitdir: {k.grant}/hidden"], *k.gitlink()]


@known("nested-with-many-newlines")
def _(k: Kit) -> Any:
    return [*k.repository("hidden"), ["write", "n/.git", "gitdir: ../hidden" + "\r\n" * 5000], *k.gitlink()]


@known("nested-with-a-head-that-is-a-link")
def _(k: Kit) -> Any:
    return [*k.nested(), ["relink", "refs/heads/nowhere", "n/.git/HEAD"]]


@known("nested-with-an-odd-head")
def _(k: Kit) -> Any:
    return [*k.nested(), ["write", "n/.git/HEAD", "ref:\t \trefs/heads/main\n"]]


@known("nested-with-a-hash-as-head")
def _(k: Kit) -> Any:
    return [*k.nested(), ["write", "n/.git/HEAD", SHA + " and more\n"]]


@known("nested-with-links-for-directories")
def _(k: Kit) -> Any:
    return [*k.nested(), ["rename", "n/.git/objects", "o"], ["link", "../../o", "n/.git/objects"], ["rename", "n/.git/refs", "r"], ["link", f"{k.grant}/r", "n/.git/refs"]]


@known("nested-with-a-program-for-refs")
def _(k: Kit) -> Any:
    """Git only asks whether it may be executed."""
    return [*k.nested(), ["remove", "n/.git/refs"], ["write", "n/.git/refs", "", 0o755]]


@known("nested-with-objects-in-common")
def _(k: Kit) -> Any:
    return [*k.nested(), ["mkdir", "c"], ["rename", "n/.git/objects", "c/objects"], ["rename", "n/.git/refs", "c/refs"],
            ["rename", "n/.git/config", "c/config"], ["write", "n/.git/commondir", "../../c\n"]]  # fmt: skip


@known("nested-in-nested")
def _(k: Kit) -> Any:
    inner = ["git", "-C", "n", "update-index", "--add", "--cacheinfo", f"160000,{SHA},m"]
    return [["git", "init", "-q", "n"], *k.repository("n/m/.git"), inner, *k.gitlink()]


@known("nested-with-an-odd-name")
def _(k: Kit) -> Any:
    return [*k.repository("n\n\x1b[2J'$(x)/.git"), *k.gitlink("n\n\x1b[2J'$(x)")]


@known("nested-at-a-depth-of-seventy")
def _(k: Kit) -> Any:
    return [*k.repository("d/" * 70 + "n/.git"), *k.gitlink("d/" * 70 + "n")]


@known("nested-far-down")
def _(k: Kit) -> Any:
    """Almost too long a path; git itself still gets there."""
    name = "d" * 200
    return [["deep", ".", name, 17, k.repository("n/.git")], *k.gitlink("/".join([name] * 17) + "/n")]


@known("dot-git-in-a-bare-repository", place="bare")
def _(k: Kit) -> Any:
    return k.repository("./.git")


# --- what git writes through, or reads --------------------------------------------------------------------


@known("log-is-a-link", harm="written", hooks="real")
def _(k: Kit) -> Any:
    return [["relink", "../hooks/post-checkout", ".git/logs/HEAD"]]


@known("log-is-a-link-out", harm="written")
def _(k: Kit) -> Any:
    return [["relink", f"{k.live}/home/.bashrc", ".git/logs/HEAD"]]


@known("log-is-a-link-in-two-runs", harm="written")
def _(k: Kit) -> Any:
    """Made where nobody looks, moved in the next run."""
    return [{"steps": [["link", f"{k.live}/home/.bashrc", ".git/objects/aa/l"]]}, {"steps": [["rename", ".git/objects/aa/l", ".git/logs/HEAD"]]}]


@known("logs-are-elsewhere", harm="written")
def _(k: Kit) -> Any:
    return [["remove", ".git/logs"], ["link", f"{k.live}/elsewhere", ".git/logs"]]


@known("log-of-a-branch-is-a-link-far-down", harm="written")
def _(k: Kit) -> Any:
    """Beyond the depth to which anyone looks; a branch of that name is what the host is on."""
    deep = "/".join(["d"] * 70)
    return [["git", "checkout", "-q", "-b", f"{deep}/x"], ["relink", f"{k.live}/home/.bashrc", f".git/logs/refs/heads/{deep}/x"]]


@known("log-is-a-link-behind-a-closed-directory", harm="written")
def _(k: Kit) -> Any:
    return [["relink", f"{k.live}/home/.bashrc", ".git/logs/refs/heads/main"], ["chmod", ".git/logs/refs", 0o311]]


@known("commit-message-is-a-link", harm="written")
def _(k: Kit) -> Any:
    return [["relink", f"{k.live}/new-file", ".git/COMMIT_EDITMSG"]]


@known("index-is-a-link", harm="written")
def _(k: Kit) -> Any:
    return [["relink", f"{k.live}/new-file", ".git/index"]]


@known("log-is-a-link-by-workspace", harm="written", via="workspace", hooks="real")
def _(k: Kit) -> Any:
    return [["relink", "../hooks/post-checkout", ".git/logs/HEAD"]]


@known("nested-by-workspace", via="workspace")
def _(k: Kit) -> Any:
    return k.nested()


@known("object-directories-are-links", harm="written")
def _(k: Kit) -> Any:
    return [["relink", f"{k.live}/elsewhere", f".git/objects/{i:02x}"] for i in range(256)]


@known("link-in-a-bare-repository", harm="written", place="bare")
def _(k: Kit) -> Any:
    return [["relink", f"{k.live}/new-file", "packed-refs"]]


@known("objects-elsewhere", harm="read")
def _(k: Kit) -> Any:
    return [["write", ".git/objects/info/alternates", f"{k.live}/elsewhere/objects\n"]]


@known("legacy-remote", harm="executed")
def _(k: Kit) -> Any:
    return [["write", ".git/remotes/origin", "URL: ssh://h/x\nPull: refs/heads/main:refs/heads/o\n"]]


@known("legacy-branch", harm="executed")
def _(k: Kit) -> Any:
    return [["write", ".git/branches/origin", "ssh://h/x\n"]]
