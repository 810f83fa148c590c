# SPDX-License-Identifier: Apache-2.0
"""The places in which a hostile command is let loose, and what the host does there with git.

A world is a directory `live` with a home of its own, a repository (or none), and a file outside the
grant. Each try gets a fresh copy of a template under the same path, so that what a clean world does
can be compared with what an attacked one does, name by name.
"""

import os
import pathlib
import shutil
import subprocess
from typing import Dict, List, NamedTuple, Optional, Tuple

PATH = "/usr/local/bin:/usr/bin:/bin"
KINDS = ("plain", "submodule", "worktree", "linked", "bare", "none", "above", "above-module", "in-module", "pair", "inner")
HOMES = ("plain", "include", "in-repo", "linked-hooks", "relative-hooks", "missing-hooks", "dotfiles")
HOOKS = ("samples", "real", "missing", "linked")

HOOK = "#!/bin/sh\nexit 0\n"
USER = "[user]\n\tname = h\n\temail = h@h\n[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n"


class Spec(NamedTuple):
    """Which world."""

    kind: str = "plain"
    home: str = "plain"
    hooks: str = "samples"
    remote: bool = False
    index_version: int = 2


class Place(NamedTuple):
    """What a path leads to, and how."""

    names: Tuple[Tuple[str, str], ...]  # every name on the way, and where it leads if it is a link
    content: bytes


def place(path: pathlib.Path) -> Optional[Place]:
    """None unless it leads to a file."""
    at, names, rest = "/", [], str(path).split("/")
    try:
        while rest:
            part = rest.pop(0)
            if part in ("", "."):
                continue
            if part == "..":
                at = os.path.dirname(at)
                continue
            at = os.path.join(at, part)
            target = os.readlink(at) if os.path.islink(at) else ""
            names.append((at, target))
            if target:
                at = "/" if target.startswith("/") else os.path.dirname(at)
                rest = target.split("/") + rest
            if len(names) > 200:
                return None
        return Place(tuple(names), pathlib.Path(at).read_bytes()) if os.path.isfile(at) else None
    except OSError:
        return None


class World:
    """The world at `live`; every path in it is absolute."""

    def __init__(self, base: pathlib.Path, spec: Spec):
        self.spec = spec
        self.live = base / "live"
        self.home = self.live / "home"
        self.repo = self.live / ("repo.git" if spec.kind == "bare" else "repo")
        self.linked = self.live / "linked"
        self.grant = {
            "linked": self.linked,
            "above": self.repo / "part",
            "above-module": self.repo / "part",
            "in-module": self.repo / "mod",
            "pair": self.repo / "part",
        }.get(spec.kind, self.repo)
        # Further grants of the same runs: one beside it, one inside it.
        self.more = {"pair": [self.repo / "src"], "inner": [self.repo / "mod"]}.get(spec.kind, [])
        # Where the host uses git: what the documents promise is about the top of a grant and what is
        # above it, not about what a command makes further down.
        self.tops = {
            "worktree": [self.repo, self.linked],
            "linked": [self.linked, self.repo],
            "above": [self.repo, self.grant],
            "above-module": [self.repo, self.grant],
            "in-module": [self.repo, self.grant],
            "pair": [self.repo, self.grant, self.repo / "src"],
        }.get(spec.kind, [self.repo])
        # The user's own hooks before any run, once the world is there.
        self.users: Dict[str, Place] = {}

    def hooks(self) -> Dict[str, Place]:
        """The user's own hooks that are there, by the paths that git executes."""
        names = {"real": ("pre-commit", "post-checkout"), "linked": ("pre-commit",)}.get(self.spec.hooks, ())
        paths = [self.git_dirs()[0] / "hooks" / name for name in names]
        tops = {"in-repo": self.grant / ".team" / "hooks", "linked-hooks": self.home / "hooks", "relative-hooks": self.grant / ".githooks"}
        if self.spec.home in tops:
            paths.append(tops[self.spec.home] / "pre-commit")
        found = {str(path): place(path) for path in paths}
        return {path: what for path, what in found.items() if what}

    def git_dirs(self) -> List[pathlib.Path]:
        """Where git of this world writes by right."""
        return [self.repo if self.spec.kind == "bare" else self.repo / ".git"]

    def module(self) -> Optional[str]:
        """The submodule's work tree, seen from the grant."""
        return {"submodule": "mod", "inner": "mod", "above-module": "mod", "in-module": "."}.get(self.spec.kind)

    def git_dir(self) -> Optional[str]:
        """The repository, seen from the grant, where the grant has it."""
        if self.spec.kind in ("plain", "submodule", "worktree", "inner"):
            return ".git"
        return "." if self.spec.kind == "bare" else None

    def obeyed(self) -> List[Tuple[str, str]]:
        """What the user's own settings make git obey inside the grant: (config or hooks, path)."""
        linked = [("hook", "tools/hook")] if self.spec.hooks == "linked" and self.git_dir() == ".git" else []
        return linked + {
            "include": [("config", "tools/gitconfig")],
            "in-repo": [("config", ".team/gitconfig"), ("hooks", ".team/hooks")],
            "linked-hooks": [("hooks", ".team/hooks"), ("hooks", ".mid")],
            "relative-hooks": [("hooks", ".githooks")],
            "missing-hooks": [("hooks", ".githooks")],
            "dotfiles": [("config", "dot/gitconfig")],
        }.get(self.spec.home, [])

    def env(self) -> Dict[str, str]:
        return {"PATH": PATH, "HOME": str(self.home), "LANG": "C.UTF-8", "EDITOR": "true", "PAGER": "cat", "USER": "h"}


class Maker:
    """Makes worlds; templates are kept, since git takes its time."""

    def __init__(self, base: pathlib.Path):
        self.base = base
        self.templates: Dict[Spec, pathlib.Path] = {}
        self.world: Optional[World] = None

    def fresh(self, spec: Spec) -> World:
        world = World(self.base, spec)
        clear(world.live)
        if spec not in self.templates:
            self._build(world)
            kept = self.base / f"template-{len(self.templates)}"
            subprocess.run(["cp", "-a", str(world.live), str(kept)], check=True)
            self.templates[spec] = kept
        else:
            subprocess.run(["cp", "-a", str(self.templates[spec]), str(world.live)], check=True)
        world.users = world.hooks()
        return world

    def forget(self) -> None:
        for kept in self.templates.values():
            clear(kept)
        self.templates.clear()

    def _build(self, world: World) -> None:
        spec = world.spec
        world.home.mkdir(parents=True)
        write(world.home / ".gitconfig", USER)
        write(world.live / "secret", "not for git\n")
        write(world.live / "elsewhere" / "objects" / "pack" / "x", "\n")
        if spec.kind == "none":
            world.repo.mkdir()
            write(world.repo / "src" / "a", "a\n")
        else:
            self._repository(world)
        self._settings(world)

    def _repository(self, world: World) -> None:
        spec, seed = world.spec, world.live / "seed"
        git(world, world.live, "init", "-q", str(seed))
        for name in ("README", "src/a", "src/deep/b", "part/c"):
            write(seed / name, name + "\n")
        write(seed / ".gitignore", "*.o\n/big/\n")
        git(world, seed, "add", "-A")
        git(world, seed, "commit", "-qm", "first")
        git(world, seed, "branch", "topic")
        # Two commits that do not go together.
        for branch in ("other", "main"):
            git(world, seed, "checkout", "-q", *(["-b"] if branch == "other" else []), branch)
            write(seed / "README", f"{branch} two\n")
            write(seed / "src" / "deep" / "b", f"{branch}\n")
            git(world, seed, "commit", "-qam", f"second of {branch}")
        git(world, world.live, "clone", "-q", "--bare", str(seed), str(world.live / "remote.git"))
        if spec.kind == "bare":
            git(world, world.live, "clone", "-q", "--bare", str(seed), str(world.repo))
        else:
            git(world, world.live, "clone", "-q", str(world.live / "remote.git"), str(world.repo))
            for branch in ("topic", "other"):
                git(world, world.repo, "branch", branch, f"origin/{branch}")
        shutil.rmtree(seed)
        at = {"submodule": "mod", "inner": "mod", "in-module": "mod", "above-module": "part/mod"}.get(spec.kind)
        if at:
            git(world, world.repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add",
                str(world.live / "remote.git"), at)  # fmt: skip
            git(world, world.repo, "commit", "-qm", "module")
        if spec.kind in ("worktree", "linked"):
            git(world, world.repo, "worktree", "add", "-q", "-b", "side", str(world.linked))
        if spec.kind != "bare":
            # What no index names: the user's, and something that he ignores.
            for name in ("loose/deep/u", "part/loose/u", "big/deep/u"):
                write(world.repo / name, "u\n")
        if not spec.remote:
            git(world, world.repo, "remote", "remove", "origin")
        if spec.index_version != 2 and spec.kind != "bare":
            git(world, world.repo, "update-index", "--index-version", str(spec.index_version))
        hooks = world.git_dirs()[0] / "hooks"
        clear(hooks)
        if spec.hooks == "samples":
            write(hooks / "pre-commit.sample", HOOK, 0o755)
        elif spec.hooks == "real":
            for name in ("pre-commit", "post-checkout"):
                write(hooks / name, HOOK, 0o755)
        elif spec.hooks == "linked" and spec.kind != "bare":
            write(world.repo / "tools" / "hook", HOOK, 0o755)
            hooks.mkdir()
            (hooks / "pre-commit").symlink_to("../../tools/hook")

    def _settings(self, world: World) -> None:
        """The user's own git settings, some of which lead into the grant."""
        home, grant, spec = world.home, world.grant, world.spec
        config = home / ".gitconfig"
        if spec.home == "include":
            write(home / "conf" / "extra", "[alias]\n\tst = status\n")
            text = f"[include]\n\tpath = ~/conf/extra\n[include]\n\tpath = {grant}/tools/gitconfig\n"
            write(config, USER + text)
        elif spec.home == "in-repo":
            write(grant / ".team" / "gitconfig", "[alias]\n\tst = status\n")
            write(grant / ".team" / "hooks" / "pre-commit", HOOK, 0o755)
            write(config, USER + f"[include]\n\tpath = {grant}/.team/gitconfig\n[core]\n\thooksPath = {grant}/.team/hooks\n")
        elif spec.home == "linked-hooks":
            write(grant / ".team" / "hooks" / "pre-commit", HOOK, 0o755)
            (grant / ".mid").symlink_to(".team/hooks")
            (home / "hooks").symlink_to(grant / ".mid")
            write(config, USER + "[core]\n\thooksPath = ~/hooks\n")
        elif spec.home == "relative-hooks":
            write(grant / ".githooks" / "pre-commit", HOOK, 0o755)
            write(config, USER + "[core]\n\thooksPath = .githooks\n")
        elif spec.home == "missing-hooks":
            write(config, USER + "[core]\n\thooksPath = .githooks\n")
        elif spec.home == "dotfiles":
            config.unlink()
            write(grant / "dot" / "gitconfig", USER)
            config.symlink_to(grant / "dot" / "gitconfig")


def write(path: pathlib.Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def git(world: World, at: pathlib.Path, *argv: str) -> None:
    subprocess.run(["git", *argv], cwd=at, env=world.env(), check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip


def clear(path: pathlib.Path) -> None:
    """Removes it, whatever a guest has done to it."""
    if not os.path.lexists(path):
        return
    done = subprocess.run(["rm", "-rf", str(path)], stderr=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        subprocess.run(["chmod", "-R", "u+rwx", str(path)], stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["rm", "-rf", str(path)], check=True)


# --- what the host does ------------------------------------------------------------------------------

# Not all of it: what stands where a file of the repository belongs is for `add` to see.
RESTORE = "restore . ':!README' ':!part'"
# Everyday commands. None of them goes to another commit.
LOOK = [
    "status", "status --porcelain --ignored", "diff", "diff --cached", "diff HEAD", "log -p -2 --stat", "show HEAD",
    "branch -a", "ls-files", "fetch -q", "submodule status", "submodule update", "worktree list", RESTORE, "add -u",
    "commit -q --allow-empty -m host", "commit -q --amend --allow-empty", "gc -q --auto", "gc -q", "st", "tty log -1", "status",
]  # fmt: skip
# What is not tracked yet becomes part of the index, repositories as well.
ADD = ["add .", "status", "diff", "add -A", "status", "commit -q -a -m host", "status", "diff HEAD~1", "submodule status"]
# These do. If the command made a commit that names a repository, they would enter it, and the documents
# say so.
SWITCH = [
    "reset -q --hard", "stash -q", "stash pop -q", "checkout -q HEAD~1", "checkout -q main", "merge -q --no-edit other", "merge --abort", "rebase -q -i HEAD~1", "status",
]  # fmt: skip
# What the guest may have begun. None of these does anything where nothing was.
CONTINUE = ["status", "add -u", "commit -q -m host", "rebase --continue", "rebase --skip", "am --continue", "am --skip", "cherry-pick --continue",
            "merge --continue", "bisect good", "bisect reset", "rebase --abort", "am --abort", "cherry-pick --abort", "merge --abort", "status"]  # fmt: skip
# Enough to see most payloads act, for tests.
QUICK = ["status", "fetch -q", "worktree list", RESTORE, "add -u", "commit -q --allow-empty -m host", "status", "add .", "status",
         "commit -q -a -m host", "status", "checkout -q HEAD~1"]  # fmt: skip
BARE = ["log -p -2", "show HEAD", "branch -a", "fetch -q", "worktree list", "tag host", "gc -q", "rev-parse HEAD"]


def commands(world: World, switches: bool, continues: bool, is_quick: bool) -> List[Tuple[pathlib.Path, str]]:
    """(where, arguments of git) in order."""
    first = [(world.tops[0], c) for c in CONTINUE] if continues else []
    if not is_quick or world.spec.kind == "bare":
        return first + every_command(world, switches)
    more = ["submodule status", "submodule update"] if world.module() else []
    got = [(world.tops[0], c) for c in QUICK[:2] + more + QUICK[2:] if switches or not c.startswith("checkout")]
    # Also before `git add .`: a checkout then takes away what was added.
    others = [(top, "status") for top in world.tops[1:]]
    return first + others + got + others


def every_command(world: World, switches: bool) -> List[Tuple[pathlib.Path, str]]:
    if world.spec.kind == "bare":
        return [(world.repo, c) for c in BARE]
    # Slow, and of use only where there is one.
    left_out = () if world.module() else ("submodule update", "submodule status")
    got = [(world.tops[0], c) for c in LOOK if c not in left_out]
    got += [(top, c) for top in world.tops[1:] for c in LOOK[:6] + LOOK[13:16]]
    # A directory of the user's own further down, as long as nothing in it claims to be a repository.
    below = world.tops[0] / "src"
    if os.access(below, os.R_OK) and not below.is_symlink() and not {".git", "HEAD"} & set(os.listdir(below)):
        got += [(below, c) for c in LOOK[:3]]
    got += [(world.tops[0], c) for c in ADD]
    got += [(top, c) for top in world.tops[1:] for c in ADD[:3]]
    if switches and world.spec.kind != "none":
        got += [(world.tops[0], c) for c in SWITCH]
    return got
