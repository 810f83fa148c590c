# SPDX-License-Identifier: Apache-2.0
"""Ways that are known: each worked against Cordon once, or against others like it. The fuzzer and the tests
replay them. `harm` is what git does after it where there is no sandbox."""

import random
from typing import Any, Callable, Dict, List

import payloads
from grammar import ASIDE, MARK, SHA, Recipe, Ways
from payloads import Step
from states import PATCH
from world import Spec, World

Make = Callable[[Callable[[Spec], World]], Recipe]
ALL: Dict[str, Make] = {}
# One of each sort, for the tests; `make fuzz-git` tries all.
STANDING = (
    "config", "hook", "commondir", "hooks-over-a-link", "config-behind-a-link", "bare-look-alike", "head-moved-away",
    "git-dir-closed-then-second-run", "repository-where-none-was", "bare-below-the-top", "work-tree-file", "bare-repository",
    "nested-like-a-placeholder", "nested-decoys", "nested-overlapping", "nested-split-index", "nested-through-worktrees",
    "submodule-made-another", "file-made-a-repository", "log-is-a-link-in-two-runs", "log-is-a-link-and-its-next-name-is-a-branch",
    "log-is-a-link-by-workspace", "objects-elsewhere", "legacy-remote", "rebase-with-a-command", "am-that-writes-a-file",
    "added", "added-beside-a-hostile-index", "added-in-an-old-directory", "added-through-a-file", "added-config-of-the-users", "added-ignored-at-first",
    "pipe-in-a-new-directory", "index-with-a-hook", "index-with-a-hook-by-workspace", "index-with-a-file-above", "resolved-conflict-elsewhere",
)  # fmt: skip


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
    name: str, kind: str = "fsmonitor", harm: str = "executed", via: str = "write", place: str = "plain", continues: bool = False, **spec: Any
) -> Callable[[Callable[[Kit], Any]], None]:
    """Registers a recipe; the function returns the steps of one run, or a list of runs."""

    def register(function: Callable[[Kit], Any]) -> None:
        def make(worlds: Callable[[Spec], World]) -> Recipe:
            kit = Kit(Spec(place, **spec), kind, worlds)
            got = function(kit)
            runs = got if isinstance(got[0], dict) else [{"steps": got}]
            runs[0]["steps"] = payloads.preparation(kit.world) + runs[0]["steps"]
            return {
                "spec": list(kit.spec), "runs": runs, "kind": kind, "way": name, "commits": False, "continues": continues, "via": via,
                "harm": harm,
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


@known("hook-of-the-user-changed", "hook:pre-commit", hooks="real")
def _(k: Kit) -> Any:
    """What is added is never reached, but the hook is not the user's any more."""
    return [["append", ".git/hooks/pre-commit", "# more\n"]]


@known("hook-of-the-user-without-its-first-line", "hook:pre-commit", hooks="real")
def _(k: Kit) -> Any:
    """The kernel refuses it, and git gives it to a shell."""
    return [["write", ".git/hooks/pre-commit", "exit 0\n", 0o755]]


@known("hooks-of-the-user-in-another-place", "hook:pre-commit", home="linked-hooks")
def _(k: Kit) -> Any:
    """The same bytes, where the next run can change them."""
    return [["copy", ".team/hooks", "mine"], ["relink", "mine", ".mid"]]


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


# --- repositories that no index names, until the host says `git add .` -------------------------------------


@known("added")
def _(k: Kit) -> Any:
    return k.repository("n/.git")


@known("added-hook", "hook:post-index-change")
def _(k: Kit) -> Any:
    return k.repository("new/n/.git")


@known("added-filter", "filter")
def _(k: Kit) -> Any:
    return k.repository("src/n/.git")


@known("added-beside-a-hostile-index")
def _(k: Kit) -> Any:
    """The index is put aside; what it kept from being looked at is untracked then."""
    return [*k.repository("src/n/.git"), ["index", ".git", "./.git/config", "x\n"]]


@known("added-in-an-old-directory")
def _(k: Kit) -> Any:
    return k.repository("loose/deep/.git")


@known("added-through-a-file")
def _(k: Kit) -> Any:
    return [*k.repository("n/.git"), ["rename", "n/.git", "hidden"], ["write", "n/.git", "gitdir: ../hidden\n"]]


@known("added-through-a-link")
def _(k: Kit) -> Any:
    return [*k.repository("n/.git"), ["rename", "n/.git", "hidden"], ["link", "../hidden", "n/.git"]]


@known("added-config-of-the-users")
def _(k: Kit) -> Any:
    """A plain one in one run, its config in the next."""
    return [{"steps": [["git", "init", "-q", "n"], ["git", "-C", "n", "commit", "-q", "--allow-empty", "-m", "n"]]}, {"steps": k.obey("n/.git")}]


@known("added-under-another-name-at-first")
def _(k: Kit) -> Any:
    return [{"steps": [*k.repository("n/.git"), ["rename", "n/.git", "n/git"]]}, {"steps": [["rename", "n/git", "n/.git"]]}]


@known("added-ignored-at-first")
def _(k: Kit) -> Any:
    return [{"steps": k.repository("big/deep/.git")}, {"steps": [["remove", ".gitignore"], ["git", "commit", "-qam", "all of it"]]}]


@known("added-moved-out-of-what-is-ignored")
def _(k: Kit) -> Any:
    return [{"steps": k.repository("big/deep/x/n/.git")}, {"steps": [["rename", "big/deep/x", "x"]]}]


@known("added-closed-at-first")
def _(k: Kit) -> Any:
    return [{"steps": [*k.repository("x/n/.git"), ["chmod", "x", 0]]}, {"steps": [["chmod", "x", 0o755]]}]


@known("added-beside-one-that-cannot-be-searched")
def _(k: Kit) -> Any:
    """The look must not end there."""
    made: List[Step] = [["git", "init", "-q", "a/n"], ["git", "-C", "a/n", "commit", "-q", "--allow-empty", "-m", "n"]]
    return [*made, ["chmod", "a/n/.git", 0o444], *k.repository("n/.git"), *k.repository("z/.git")]


@known("added-submodule-of-a-clone")
def _(k: Kit) -> Any:
    return [
        ["git", "init", "-q", "n"], *k.repository("n/m/.git"), ["git", "-C", "n", "add", "-A"], ["git", "-C", "n", "commit", "-qm", "m"],
    ]  # fmt: skip


@known("added-index-is-a-link", harm="written")
def _(k: Kit) -> Any:
    return [
        ["git", "init", "-q", "n"], ["write", "n/f", "f\n"], ["git", "-C", "n", "add", "-A"], ["git", "-C", "n", "commit", "-qm", "n"],
        ["remove", "n/.git/index"], ["link", f"{k.live}/new-file", "n/.git/index"],
    ]  # fmt: skip


@known("added-below-the-top", place="above")
def _(k: Kit) -> Any:
    return k.repository("loose/.git")


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


@known("log-is-a-link-and-its-next-name-is-a-branch", harm="written")
def _(k: Kit) -> Any:
    """Where it is put aside, git must not find it again."""
    return [["relink", f"{k.live}/secret", ".git/logs/HEAD"], ["decoys", ".git/logs/HEAD", 3]]


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


# --- what git goes on with, or waits for ------------------------------------------------------------------

STOPPED: List[Step] = [
    ["git", "checkout", "-q", "-b", "w"], ["write", "README", "w\n"], ["git", "commit", "-qam", "w"], ["git", "rebase", "-q", "other"],
    ["write", "README", "solved\n"], ["git", "add", "README"],
]  # fmt: skip


@known("rebase-with-a-command", continues=True)
def _(k: Kit) -> Any:
    return [*STOPPED, ["append", ".git/rebase-merge/git-rebase-todo", f"exec {payloads.program(k.world)}\n"]]


@known("am-that-writes-a-file", harm="written", continues=True)
def _(k: Kit) -> Any:
    """Git takes the options of an `am` from a file, and one of them writes."""
    first, new = (PATCH.format(sha=SHA, n=n, file="README", old="not this") for n in (1, 2))
    new = new[: new.index("diff ")] + "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n"
    return [["write", "box", first + new], ["git", "am", "-q", "box"], ["write", ".git/rebase-apply/apply-opt", " '--bui=.envrc'"]]


@known("objects-are-pipes", harm="hang")
def _(k: Kit) -> Any:
    return [["objects", ".git/objects", "fifo", ""]]


@known("objects-are-links", harm="read")
def _(k: Kit) -> Any:
    return [["objects", ".git/objects", "link", f"{k.live}/secret"]]


@known("pipe-where-git-looks-for-a-repository", harm="hang", place="above")
def _(k: Kit) -> Any:
    return [["fifo", "HEAD"]]


@known("pipe-beside-files", harm="hang")
def _(k: Kit) -> Any:
    return [["fifo", "src/deep/.gitignore"]]


@known("pipe-in-a-new-directory", harm="hang")
def _(k: Kit) -> Any:
    return [["fifo", "new/a/.gitignore"], ["write", "new/a/f", ""]]


@known("pipe-in-a-new-repository", harm="hang")
def _(k: Kit) -> Any:
    """No index names it, but git asks what it is."""
    return [["git", "init", "-q", "new/n"], ["remove", "new/n/.git/HEAD"], ["fifo", "new/n/.git/HEAD"]]


@known("resolved-conflict-elsewhere", harm="read", continues=True)
def _(k: Kit) -> Any:
    """Git copies the file that a conflict was in into the repository, where the next run can read it."""
    return [
        ["write", f".git/rr-cache/{SHA}/preimage", "<<<<<<<\na\n=======\nb\n>>>>>>>\n"],
        ["write", ".git/MERGE_RR", f"{SHA}\t../secret\0"],
    ]  # fmt: skip


@known("index-with-a-hook", "hook:post-checkout", hooks="missing")
def _(k: Kit) -> Any:
    return [["index", ".git", ".git/hooks/post-checkout", payloads.script(k.world)]]


@known("index-with-a-file-above", harm="written")
def _(k: Kit) -> Any:
    return [["index", ".git", "../home/.bashrc", "x\n"]]


@known("index-with-a-file-that-is-there", harm="read")
def _(k: Kit) -> Any:
    return [["index", ".git", "../secret", "x\n"]]


@known("index-with-a-hook-by-workspace", "hook:post-checkout", via="workspace", hooks="missing")
def _(k: Kit) -> Any:
    return [["index", ".git", ".git/hooks/post-checkout", payloads.script(k.world)]]


@known("index-with-a-hook-in-two-halves", "hook:post-checkout", hooks="missing")
def _(k: Kit) -> Any:
    return [["index", ".git", ".git/hooks/post-checkout", payloads.script(k.world)], ["git", "update-index", "--split-index"]]
