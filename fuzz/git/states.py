# SPDX-License-Identifier: Apache-2.0
"""Ways by what git goes on with, or reads besides configs and hooks: a rebase, an `am`, a cherry-pick, a bisect or a
merge that the guest began, and odd data: objects, graphs, indexes, names that git opens in the work tree."""

import random
from typing import Any, List, Optional

import payloads
from payloads import Step
from world import World

SHA = "0123456789012345678901234567890123456789"
PATCH = """From {sha} Mon Sep 17 00:00:00 2001
From: g <g@g>
Date: Thu, 1 Jan 2026 00:00:00 +0000
Subject: [PATCH {n}/2] p

---
diff --git a/{file} b/{file}
--- a/{file}
+++ b/{file}
@@ -1 +1 @@
-{old}
+patched
"""
# What git opens by name, in any directory of the work tree or in its top.
OPENED = ("HEAD", ".gitignore", ".gitattributes", ".gitmodules", ".mailmap", "src/HEAD", "src/.gitignore", "src/.gitattributes",
          "src/deep/.gitignore", "new/.gitignore", "new/a/.gitattributes", "part/.gitignore")  # fmt: skip


class StateWays:
    """The state of a longer operation; the host then goes on with it."""

    rng: random.Random
    world: World
    kind: str
    git: Optional[str]
    continues: bool

    def _hand(self, path: str, text: str, mode: int = 0o644) -> List[Step]:
        ways: List[List[Step]] = [
            [["write", path, text, mode]],
            [["replace", path, text, mode]],
            [["write", "hostile-state", text, mode], ["relink", f"{self.world.grant}/hostile-state", path]],
            [["write", "hostile-state", text, mode], ["remove", path], ["hardlink", "hostile-state", path]],
            [["append", path, text]],
        ]
        return self.rng.choice(ways)

    def _todo(self) -> str:
        run = payloads.program(self.world)
        line = self.rng.choice([f"exec {run}", f"x {run}", f" \texec\t{run}", f"x\t{run}", f"\rexec {run}", f"noop\nexec {run}", f"e{'x' * 3}ec\nx {run}",
                                f"break\nexec {run}", f"# c\n\x0bexec {run}", f"merge -C {SHA} x # {run}", f"label ../../config\nexec  {run}"])  # fmt: skip
        return self.rng.choice(["", f"pick {SHA} x\n"]) + line + self.rng.choice(["\n", "", "\r\n", "\0\n"])

    def rebase_state(self) -> List[Step]:
        """One that stopped at a conflict, with other steps to come."""
        self.continues = True
        run, at = payloads.program(self.world), f"{self.git}/rebase-merge"
        begin: List[Step] = [
            ["git", "checkout", "-q", "-b", "w"], ["write", "README", "w\n"], ["git", "commit", "-qam", "w"],
            ["git", "rebase", "-q", *self.rng.choice([[], ["-i"], ["--merge"]]), "other"], ["write", "README", "solved\n"], ["git", "add", "README"],
        ]  # fmt: skip
        if self.rng.random() < 0.3:
            # By hand.
            begin = [["write", f"{at}/{n}", t] for n, t in (
                ("head-name", "refs/heads/main\n"), ("onto", SHA + "\n"), ("orig-head", SHA + "\n"), ("interactive", ""), ("msgnum", "1\n"),
                ("end", "2\n"), ("done", f"exec {run}\n"), ("author-script", f"GIT_AUTHOR_NAME='$({run})'\nGIT_AUTHOR_EMAIL='h'\nGIT_AUTHOR_DATE='@1'\n"),
            )]  # fmt: skip
        names = [("git-rebase-todo", self._todo()), ("git-rebase-todo", self._todo()), ("git-rebase-todo", self._todo()),
                 ("git-rebase-todo.backup", self._todo()), ("done", self._todo()), ("strategy", run + "\n"), ("strategy", f"../../..{run}\n"),
                 ("strategy_opts", f" '--{run}'"), ("gpg_sign_opt", "-Sk\n"), ("head-name", "refs/heads/../../config\n"), ("autostash", f"{run}\n"),
                 ("author-script", f"GIT_AUTHOR_NAME='a'; {run}\n"), ("refs-to-update", f"refs/heads/main\n{SHA}\n{SHA}\n"),
                 ("update-refs", f"refs/../config\n{SHA}\n{SHA}\n"), ("amend", "HEAD\n"), ("message", f"$({run})\n"), ("current-fixups", "x\n"),
                 ("trailer", f"x: $({run})\n"), ("squash-onto", SHA + "\n")]  # fmt: skip
        got = begin
        for name, text in self.rng.sample(names, self.rng.choice([1, 1, 2, 3])):
            got = got + self._hand(f"{at}/{name}", text)
        return got

    def am_state(self) -> List[Step]:
        self.continues = True
        run, at = payloads.program(self.world), f"{self.git}/rebase-apply"
        name = self.rng.choice(["README", "src/a", "../../new-file", ".git/hooks/pre-commit", f"{self.world.live}/new-file"])
        box = PATCH.format(sha=SHA, n=1, file="README", old="not this") + PATCH.format(sha=SHA, n=2, file=name, old="nor this")
        got: List[Step] = [["write", "box", box], ["git", "am", "-q", "box"]]
        words = [f"'--build-fake-ancestor={self.world.live}/new-file'", "'--build-fake-ancestor=.envrc'", "'--unsafe-paths'", "'--bui'\\''ld=.envrc'",
                 "'--directory=../..'", f"'--directory={self.world.live}'", "'--exclude=x' '--unsafe-paths' '-p0'"]  # fmt: skip
        names = [("apply-opt", self.rng.choice(words)), ("apply-opt", self.rng.choice(words)), ("0002", box), ("patch", box), ("final-commit", f"$({run})"),
                 ("author-script", f"GIT_AUTHOR_NAME='$({run})'\n; {run}\n"), ("rebasing", ""), ("applying", ""), ("head-name", "refs/heads/../../config\n"),
                 ("autostash", SHA + "\n"), ("git-rebase-todo", self._todo()), ("sign", "t\n"), ("gpg_sign_opt", "-Sk\n"), ("next", "1\n"),
                 ("onto", SHA + "\n"), ("last", "999999999999\n"), ("dirtyindex", "")]  # fmt: skip
        for name, text in self.rng.sample(names, self.rng.choice([1, 2, 3])):
            got += self._hand(f"{at}/{name}", text)
        return got

    def sequencer_state(self) -> List[Step]:
        self.continues = True
        run, at = payloads.program(self.world), f"{self.git}/sequencer"
        got: List[Step] = [["git", "cherry-pick", "other", "topic"], ["write", "README", "solved\n"], ["git", "add", "README"]]
        names = [("todo", self._todo()), ("todo", f"revert {SHA} x\n"), ("opts", f"[options]\n\tstrategy = {run}\n"), ("opts", "[options]\n\tgpg-sign = k\n"),
                 ("opts", f"[include]\n\tpath = {self.world.grant}/hostile.inc\n"), ("opts", f"[core]\n\tfsmonitor = {run}\n"),
                 ("opts", "[include]\n\tpath = hostile.inc\n"), ("head", SHA + "\n"), ("abort-safety", SHA + "\n")]  # fmt: skip
        for name, text in self.rng.sample(names, self.rng.choice([1, 2])):
            got += self._hand(f"{at}/{name}", text)
        return got

    def bisect_state(self) -> List[Step]:
        self.continues = True
        run = payloads.program(self.world)
        got: List[Step] = [["git", "bisect", "start", "HEAD", "HEAD~1"]]
        names = [("BISECT_NAMES", f" '$({run})'\n"), ("BISECT_NAMES", f"; {run}\n"), ("BISECT_TERMS", f"`{run}`\ngood\n"), ("BISECT_START", f"$({run})\n"),
                 ("BISECT_START", f"--config-env=core.fsmonitor={run}\n"), ("BISECT_LOG", f"git bisect start; {run}\n"), ("BISECT_RUN", run + "\n"),
                 ("BISECT_EXPECTED_REV", f"$({run})\n"), ("BISECT_HEAD", "ref: ../config\n"), ("BISECT_ANCESTORS_OK", "")]  # fmt: skip
        for name, text in self.rng.sample(names, self.rng.choice([1, 2])):
            got += self._hand(f"{self.git}/{name}", text)
        return got

    def merge_state(self) -> List[Step]:
        self.continues = True
        run = payloads.program(self.world)
        got: List[Step] = [["git", "merge", "-q", "other"]]
        names = [("MERGE_HEAD", "ref: refs/../config\n"), ("MERGE_MSG", f"$({run})\n"), ("MERGE_MODE", f"no-ff\n{run}"), ("MERGE_RR", f"{SHA}\t../../new-file\0"),
                 ("MERGE_RR", f"../../../elsewhere\tREADME\0{SHA}.1\t{self.world.live}/new-file\0"), ("MERGE_AUTOSTASH", f"{run}\n"), ("SQUASH_MSG", f"$({run})\n"),
                 ("CHERRY_PICK_HEAD", f"ref: {run}\n"), ("REVERT_HEAD", SHA + "\n"), ("AUTO_MERGE", "ref: ../secret\n"), ("ORIG_HEAD", "ref: refs/heads/../../x\n"),
                 ("rr-cache/" + SHA + "/preimage", "x\n"), ("NOTES_MERGE_REF", "ref: refs/notes/../../config\n"), ("FETCH_HEAD", f"{SHA}\t\t{run}\n")]  # fmt: skip
        for name, text in self.rng.sample(names, self.rng.choice([1, 2, 3])):
            got += self._hand(f"{self.git}/{name}", text)
        return got

    # --- data -------------------------------------------------------------------------------------------------

    def _place(self, path: str, text: str) -> List[Step]:
        """As a file, or as something that is none."""
        target = self.rng.choice([str(self.world.live / "secret"), str(self.world.live / "new-file"), "/dev/zero", f"{self.world.grant}/pipe"])
        ways: List[List[Step]] = [
            [["remove", path], ["write", path, text]],
            [["remove", path], ["fifo", path]],
            [["remove", path], ["socket", path]],
            [["remove", path], ["mkdir", path]],
            [["fifo", "pipe"], ["remove", path], ["link", target, path]],
        ]
        return self.rng.choice(ways)

    def odd_data(self) -> List[Step]:
        """Every file besides configs that git reads in a repository."""
        run, elsewhere = payloads.program(self.world), str(self.world.live / "elsewhere" / "objects")
        name, text = self.rng.choice([
            ("info/attributes", "* filter=x diff=x merge=x\n"), ("info/exclude", "*\n"), ("info/sparse-checkout", "/*\n!src\n"), ("info/grafts", f"{SHA}\n"),
            ("info/refs", f"{SHA}\trefs/heads/x\n"), ("objects/info/alternates", elsewhere + "\n"), ("objects/info/http-alternates", elsewhere + "\n"),
            ("objects/info/alternates", f'"{elsewhere}"\n# x\n../../../elsewhere/objects\n'), ("objects/info/commit-graph", "CGPH\1\1\0\0"),
            ("objects/info/commit-graphs/commit-graph-chain", SHA + "\n"), ("objects/info/packs", "P pack-x.pack\n"), ("objects/pack/multi-pack-index", "MIDX\1\1\0\0"),
            (f"objects/pack/pack-{SHA}.idx", "x"), (f"objects/pack/pack-{SHA}.pack", "PACK"), (f"objects/pack/pack-{SHA}.keep", ""),
            (f"refs/replace/{SHA}", SHA + "\n"), ("refs/stash", "ref: refs/heads/main\n"), ("refs/heads/main", "ref: ../secret\n"), ("refs/heads/x", "ref: HEAD\n"),
            ("shallow", SHA + "\n"), ("fsmonitor--daemon.ipc", ""), (f"sharedindex.{SHA}", "DIRC\0\0\0\2\0\0\0\0"), ("packed-refs", f"{SHA} refs/heads/../../x\n"),
            ("logs/HEAD", "x\n"), ("gc.log", f"{run}\n"), ("gc.pid", "1 h\n"), ("HEAD", "ref: refs/heads/main"), ("index", "DIRC\0\0\0\2\0\0\0\0"), ("COMMIT_EDITMSG", "x\n"),
            ("FETCH_HEAD", f"{SHA}\t\tx\n"), ("ORIG_HEAD", SHA + "\n"), ("index.lock", ""), ("HEAD.lock", ""), ("config.lock", payloads.text(self.world, self.kind)),
            ("refs/remotes/origin/HEAD", "ref: refs/remotes/origin/../../../config\n"), ("reftable/tables.list", "x.ref\n"), ("lfs/objects/x", "x"),
            ("svn/.metadata", "x\n"), ("cruft", "x\n"), ("objects/cruft/x", "x\n"), ("rr-cache/x", "x\n"),
        ])  # fmt: skip
        return self._place(f"{self.git}/{name}", text)

    def loose(self) -> List[Step]:
        """The objects that are there, one way or another."""
        how, target = self.rng.choice(["fifo", "link", "dir", "socket"]), str(self.world.live / "secret")
        got: List[Step] = [["objects", f"{self.git}/objects", how, target]]
        return self.rng.choice([got, got, [["remove", f"{self.git}/objects/ab"], ["fifo", f"{self.git}/objects/ab"]], [["chmod", f"{self.git}/objects", 0o311], *got]])

    def hostile_index(self) -> List[Step]:
        """An index with a path that no git would let in."""
        path = self.rng.choice([".git/hooks/post-checkout", "../new-file", "../secret", "../home/.bashrc", f"{self.world.live}/new-file", "src/../../new-file", ".GIT/config",
                                "./.git/config", ".git/config", "a/.git/hooks/x", "src//../.git/config", ".git"])  # fmt: skip
        mode = self.rng.choice([0o100755, 0o100644, 0o120000, 0o160000])
        got: List[Step] = [["index", self.git, path, payloads.script(self.world), mode]]
        return got + self.rng.choice([[], [], [["git", "update-index", "--split-index"]], [["git", "update-index", "--index-version", "4"]]])

    def indexes(self) -> List[Step]:
        """The kinds of index that git writes."""
        ways: List[List[Step]] = [
            [["git", "update-index", "--split-index"], ["git", "update-index", "--add", "--cacheinfo", f"160000,{SHA},n"]],
            [["git", "sparse-checkout", "init", "--cone", "--sparse-index"], ["git", "sparse-checkout", "set", "part"]],
            [["git", "-c", "index.sparse=true", "-c", "core.sparseCheckout=true", "-c", "core.sparseCheckoutCone=true", "read-tree", "-mu", "HEAD"]],
            [["git", "update-index", "--untracked-cache"], ["git", "update-index", "--fsmonitor"]],
            [["git", "-c", "core.fsmonitor=true", "update-index", "--fsmonitor"]],
            [["git", "update-index", "--skip-worktree", "README"], ["git", "update-index", "--assume-unchanged", "src/a"]],
            [["git", "update-index", "--add", "--cacheinfo", f"120000,{SHA},hostile-link"], ["git", "update-index", "--add", "--cacheinfo", f"100755,{SHA},.git2/hooks/x"]],
        ]
        made: List[Step] = [["git", "init", "-q", "n"], ["git", "-C", "n", "commit", "-q", "--allow-empty", "-m", "n"], *payloads.obey(self.world, self.kind, "n/.git")]
        return made + self.rng.choice(ways) + self.rng.choice([[], [["git", "read-tree", "--reset", "HEAD"]], [["remove", f"{self.git}/index"]]])

    def specials(self) -> List[Step]:
        """What git opens in the work tree, as a pipe that nobody writes to and the like."""
        path = self.rng.choice(OPENED)
        return self.rng.choice([
            [["remove", path], ["fifo", path]], [["remove", path], ["socket", path]], [["fifo", "pipe"], ["remove", path], ["link", f"{self.world.grant}/pipe", path]],
            [["mkdir", "new/b"], ["fifo", path], ["rename", "new", "new2"]],
        ])  # fmt: skip

    def attributes(self) -> List[Step]:
        """They name drivers, which only a config can define."""
        line = self.rng.choice(["* filter=x diff=x merge=x", "*.c filter=lfs", "[attr]binary filter=x", "* text eol=crlf working-tree-encoding=UTF-16", "a" * 3000])
        path = self.rng.choice([".gitattributes", "src/.gitattributes", "src/deep/.gitattributes", f"{self.git or '.'}/info/attributes"])
        return [["write", path, line + "\n"], *self.rng.choice([[], [["git", "add", "-f", path]]])]

    def far(self) -> List[Step]:
        """Beyond what a path can name."""
        top = self.rng.choice([".", f"{self.git or '.'}/refs/heads", f"{self.git or '.'}/logs/refs/heads", f"{self.git or '.'}/rebase-merge", f"{self.git or '.'}/objects/ab"])
        name, levels = "d" * self.rng.choice([1, 200]), self.rng.choice([40, 70, 120])
        inner: List[Any] = self.rng.choice([[["link", str(self.world.live / "secret"), "l"]], [["fifo", "HEAD"]], [["git", "init", "-q", "n"]], [["write", ".git", "gitdir: /x\n"]]])
        return [["deep", top, name, levels, inner]]
