# SPDX-License-Identifier: Apache-2.0
"""Repositories that a command removed, replaced or broke inside: nothing of the user's history goes without
being asked for by name, and what git itself does is committed without a word."""

import json

import pytest

from conftest import needs
from workspacelib import Desk, settle_clock, tree

GIT = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "c",
    "GIT_COMMITTER_EMAIL": "c@example.com", "GIT_CONFIG_GLOBAL": "/dev/null",
}  # fmt: skip


def git(desk, *words, where="."):
    done = desk.me.outside(["git", *words], cwd=str(desk.base / where), env=GIT)
    assert done.returncode == 0, (words, done)
    return done.stdout.decode()


def history(desk, where="."):
    """Everything that can be reached, after git found the repository whole."""
    git(desk, "fsck", "--strict", "--full", where=where)
    return git(desk, "rev-parse", "HEAD", where=where), git(desk, "for-each-ref", where=where), git(desk, "log", "--all", "--format=%H %T %s", where=where)  # fmt: skip


def make(desk, where="."):
    """Some commits in a pack, some loose, two branches."""
    git(desk, "init", "-q", "-b", "main", where=where)
    for i in range(3):
        desk.me.write(desk.base / where / "text", f"{i}\n")
        git(desk, "add", "text", where=where)
        git(desk, "commit", "-qm", f"c{i}", where=where)
        if i == 1:
            git(desk, "gc", "-q", where=where)
    git(desk, "branch", "other", where=where)
    git(desk, "config", "remote.origin.url", "https://example.com/x", where=where)


@pytest.fixture
def desk(me, level):
    needs("git")
    desk = Desk(me, level, tree(me, me.mkdir("base"), {"a": "a\n", "dir/b": "b\n"}))
    make(desk)
    settle_clock(desk.base)
    return desk


def guest(desk, script, *opts, **kw):
    env = [x for name, value in GIT.items() for x in ("--env", f"{name}={value}")]
    return desk.run("set -e; " + script, *env, *(opts or ("--name", "n")), **kw)


def commit(desk, *words):
    """The status, the lines but the last one, and that."""
    done = desk.verb("commit", *words)
    *lines, last = done.stderr.decode().splitlines()
    return done.returncode, lines, last


def line(what, name=".git", which="n", whose="the"):
    return (f"cordon: refused: '{what}' was removed or replaced in the workspace: {whose} history would be lost "
            f"(name it to commit it: cordon workspace commit {which} {name})")  # fmt: skip


NEW = "git init -q -b main; echo new > text; git add text; git commit -qm new"
LOSSES = {
    "removed": ("rm -rf .git", ".git"),
    "replaced": (f"rm -rf .git; {NEW}", ".git"),
    "moved away": (f"mv .git gone; {NEW}", ".git"),
    "a file instead": ("rm -rf .git; echo gitdir: x > .git", ".git"),
    "emptied": (f"rm -rf .git/*; {NEW}", ".git/"),
    "no HEAD": ("rm .git/HEAD", ".git/HEAD"),
    "no objects": ("rm -rf .git/objects", ".git/objects"),
    "other objects": ("rm -rf .git/objects; mkdir -p .git/objects/pack; echo x | git hash-object -w --stdin", ".git/objects"),
    "not one object": ("find .git/objects -type f -delete", ".git/objects"),
    "no packs": ("rm -rf .git/objects/pack", ".git/objects/pack"),
    "no refs": ("rm -rf .git/refs", ".git/refs"),
    "no branches": ("rm -rf .git/refs/heads", ".git/refs/heads"),
    "no packed refs": ("rm .git/packed-refs", ".git/packed-refs"),
}


@pytest.mark.parametrize("what", LOSSES)
def test_no_history_goes_without_being_named(desk, what):
    script, path = LOSSES[what]
    before = history(desk)
    # The new repository is not committed either, and `text` of it is.
    guest(desk, script + "; rm a; echo x > new")
    status, lines, last = commit(desk, "n")
    assert status == 1 and history(desk) == before, (lines, last)
    lost = [x for x in lines if "history would be lost" in x]
    assert len(lost) == 1 and f"refused: '{path}" in lost[0] and lost[0].endswith("commit n .git)"), lines
    if what != "moved away":  # what was moved has a config, and hooks, of its own
        assert lines == lost, lines
    assert " refused" in last and not (desk.base / "a").exists() and (desk.base / "new").exists(), last
    # Neither do the directory above, a part of it, or the exclusion of a part.
    for words in (["."], [".git/index"], ["--exclude", ".git/HEAD"], ["--theirs"]):
        commit(desk, "n", *words)
        assert history(desk) == before, words


def test_it_is_told_before_and_in_full(desk):
    guest(desk, "rm -rf .git")
    got = json.loads(desk.verb("diff", "--json", "n").stdout)
    listed = [c for c in got["changes"] if c["listed"]]
    assert len(listed) > 10 and all(c["refused"] and "protected" in c["risk"] for c in listed), listed
    done = desk.verb("commit", "--json", "n")
    got = json.loads(done.stdout)
    assert done.returncode == 1 and got["applied"] == 0 and got["refused"] == len(listed) == len(got["changes"]), got
    assert {c["outcome"] for c in got["changes"]} == {"refused"}
    assert {c["error"] for c in got["changes"]} == {"'.git' was removed or replaced in the workspace: its history would be lost"}
    done = desk.verb("commit", "--dry-run", "n")
    assert done.returncode == 1 and done.stderr.decode().splitlines()[0] == line(".git", whose="its"), done


def test_named_it_is_removed_completely(desk):
    guest(desk, "rm -rf .git a")
    status, lines, _ = commit(desk, "n", ".git")
    assert (status, lines) == (0, []) and not (desk.base / ".git").exists() and (desk.base / "a").exists()
    desk.ok("commit", "n")
    assert not (desk.base / "a").exists()


def test_named_it_is_replaced(desk):
    """By a repository whose config, which git obeys, still waits for its own name."""
    guest(desk, f"rm -rf .git; {NEW}; git config core.pager cat")
    status, lines, _ = commit(desk, "n", ".git")
    assert status == 1 and [x.split("'")[1] for x in lines] == [".git/config"], lines
    assert git(desk, "log", "--all", "--format=%s") == "new\n" and "origin" in git(desk, "config", "--list")
    git(desk, "fsck", "--strict", "--full")
    desk.ok("commit", "n", ".git/config", "text")
    assert "core.pager=cat" in git(desk, "config", "--list") and "origin" not in git(desk, "config", "--list")
    git(desk, "fsck", "--strict", "--full")
    # The next run goes on with it.
    guest(desk, "echo more > text; git commit -qam more")
    desk.ok("commit", "n")
    assert git(desk, "log", "--all", "--format=%s") == "more\nnew\n"


def test_an_interrupted_commit_is_finished(desk):
    """What was named stays named: with the same words or with none, neither half of a repository is left."""
    guest(desk, f"rm -rf .git; {NEW}; head -c 300000 /dev/urandom > big; git add big; git commit -qm big")
    words = ["prlimit", "--fsize=65536", desk.me.cordon, "workspace", "commit", "n", ".git"]
    done = desk.me.outside(words, cwd=str(desk.base))
    assert done.returncode != 0 and json.loads(desk.verb("status", "--json", "n").stdout)["commit_begun"], done
    status, lines, _ = commit(desk, "n")
    assert [x.split("'")[1] for x in lines] == [".git/config"], (status, lines)
    assert git(desk, "log", "--all", "--format=%s") == "big\nnew\n"
    git(desk, "fsck", "--strict", "--full")


ORDINARY = {
    "commit": "echo x > text; git commit -qam x",
    "amend": "git commit -q --amend -m other",
    "gc": "git gc -q",
    "gc that prunes": "git reset -q --hard HEAD~1; git branch -qD other; git reflog expire --expire=now --all; git gc -q --prune=now",
    "repack": "git repack -qad; git prune-packed; git pack-refs --all",
    "unpack": "mkdir ../tmp 2>/dev/null || true; mv .git/objects/pack/*.pack ./p; git unpack-objects -q < p; rm -f p .git/objects/pack/*",
    "branch -d": "git branch -q -d other",
    "branches": "git checkout -qb x/y; echo y > y; git add y; git commit -qm y; git checkout -q main; git branch -qD x/y other",
    "rebase": "git checkout -q -b t HEAD~1; echo t > t; git add t; git commit -qm t; git rebase -q main; git checkout -q main; git merge -q t",
    "stash": "echo s > text; git stash -q; git stash drop -q",
    "worktree": "git worktree add -q ../wt 2>/dev/null || git worktree add -q wt; rm -rf ../wt wt; git worktree prune",
    "tag": "git tag v1; git tag -d v1; git tag -a -m m v2; git pack-refs --all; git tag -d v2",
}  # fmt: skip


@pytest.mark.parametrize("what", ORDINARY)
def test_ordinary_work_is_committed_without_a_word(desk, what):
    guest(desk, ORDINARY[what] + "; git fsck --strict; git rev-parse HEAD > head; git for-each-ref > refs")
    status, lines, last = commit(desk, "n")
    assert (status, lines) == (0, []) and "refused" not in last, (lines, last)
    head, refs, _ = history(desk)
    assert (head, refs) == ((desk.base / "head").read_text(), (desk.base / "refs").read_text())


def test_gc_after_gc(desk):
    """What was committed is the base that the next run is compared with."""
    for i in range(3):
        guest(desk, f"echo {i}{i} > text; git commit -qam r{i}; git gc -q --prune=now")
        status, lines, _ = commit(desk, "n")
        assert (status, lines) == (0, []), lines
    assert git(desk, "log", "--format=%s").split()[:3] == ["r2", "r1", "r0"]
    history(desk)


def test_a_repository_that_the_guest_made(me, level):
    """It is there after the first commit, and the guest goes on with it: no history is lost."""
    needs("git")
    desk = Desk(me, level, tree(me, me.mkdir("base"), {"a": "a\n"}))
    settle_clock(desk.base)
    guest(desk, NEW)
    commit(desk, "n")
    desk.ok("commit", "n", ".git/config")
    guest(desk, "echo two > text; git commit -qam two; git gc -q")
    status, lines, _ = commit(desk, "n")
    assert not [x for x in lines if "history" in x], lines
    assert git(desk, "log", "--format=%s") == "two\nnew\n"
    history(desk)
    # Until it is removed.
    before = history(desk)
    guest(desk, f"rm -rf .git; {NEW}")
    assert line(".git", whose="its") in commit(desk, "n")[1] and history(desk) == before


def test_nested_and_bare_ones(desk):
    for name in ("sub", "vendor/x"):
        (desk.base / name).mkdir(parents=True)
        for path in (desk.base / name, *(desk.base / name).parents):
            if path != desk.base and desk.base in path.parents:
                desk.me.own(path)
        make(desk, name)
    git(desk, "clone", "-q", "--bare", "--no-hardlinks", "sub", "bare.git")
    settle_clock(desk.base)
    names = ("bare.git", "sub", "vendor/x")
    before = [history(desk, name) for name in names]
    guest(desk, "rm -rf sub vendor bare.git/objects; git init -q --bare bare.git")
    status, lines, _ = commit(desk, "n")
    assert status == 1 and lines == [line("bare.git/objects", "bare.git"), line("sub/.git", "sub/.git", whose="its"),
                                     line("vendor/x/.git", "vendor/x/.git", whose="its")], lines  # fmt: skip
    assert [history(desk, name) for name in names] == before and not (desk.base / "sub" / "text").exists()
    assert commit(desk, "n", "sub", "bare.git")[0] == 1 and history(desk, "sub") == before[1]
    desk.ok("commit", "n", "sub/.git")
    assert not (desk.base / "sub" / ".git").exists() and history(desk, "vendor/x") == before[2]


def test_the_directory_is_a_bare_one(me, level):
    needs("git")
    source = Desk(me, level, tree(me, me.mkdir("source"), {"a": "a\n"}))
    make(source)
    desk = Desk(me, level, me.mkdir("base"))
    git(desk, "clone", "-q", "--bare", str(source.base), ".")
    settle_clock(desk.base)
    before = history(desk)
    guest(desk, "rm -rf objects refs packed-refs; git init -q --bare -b elsewhere .; echo x > description")
    status, lines, last = commit(desk, "n")
    assert status == 1 and lines == [line("objects", ".")], (lines, last)
    assert history(desk) == before and "0 changes committed" in last
    commit(desk, "n", ".")
    assert git(desk, "for-each-ref") == ""


def test_a_submodules_repository(desk):
    source = desk.me.mkdir("source")
    other = Desk(desk.me, desk.level, source)
    make(other)
    git(desk, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(source), "mod")
    git(desk, "commit", "-qm", "module")
    settle_clock(desk.base)
    before = history(desk), history(desk, "mod")
    guest(desk, "rm -rf .git/modules/mod; echo x > text; git commit -qm x text || true")
    status, lines, _ = commit(desk, "n")
    assert status == 1 and lines == [line(".git/modules/mod")], lines
    assert (history(desk), history(desk, "mod")) == before
    desk.ok("commit", "n", ".git")
    assert not (desk.base / ".git" / "modules" / "mod").exists()


def test_a_copy_of_a_workspace_knows_it_too(desk):
    before = history(desk)
    guest(desk, f"rm -rf .git; {NEW}", "--name", "first")
    done = desk.me.run(["--from", "first", "--name", "n"], ["true"], desk.level, cwd=str(desk.base))
    assert done.returncode == 0, done
    status, lines, _ = commit(desk, "n")
    assert status == 1 and len(lines) == 1 and "history would be lost" in lines[0], lines
    assert history(desk) == before


def test_refusals_of_one_directory_are_one_line(desk):
    hooks = sorted(p.name for p in (desk.base / ".git" / "hooks").iterdir())
    assert len(hooks) > 3
    guest(desk, "rm .git/hooks/*; ln -s /a a1; ln -s /b b1; echo x > text; git commit -qam x")
    status, lines, _ = commit(desk, "n")
    assert status == 1 and lines[0] == (
        f"cordon: refused: {len(hooks)} changes in '.git/hooks' are risky: protected "
        "(name each to commit it; they are listed by: cordon workspace diff n .git/hooks)"), lines  # fmt: skip
    assert [x.split("'")[1] for x in lines[1:]] == ["a1", "b1"], lines
    assert git(desk, "log", "-1", "--format=%s") == "x\n"
    got = json.loads(desk.verb("commit", "--json", "n").stdout)
    assert [c["path"] for c in got["changes"] if c["outcome"] == "refused"] == [f".git/hooks/{x}" for x in hooks] + ["a1", "b1"]
