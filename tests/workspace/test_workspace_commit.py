# SPDX-License-Identifier: Apache-2.0
"""Commits: what is applied, what is in conflict, what is refused, and what git has to say to it."""

import json
import os
import subprocess

import pytest

from conftest import needs
from workspacelib import Desk, assert_same, differences, picture, settle_clock, store, tree

PROJECT = {f"d{i}/f{j}": f"{i} {j}\n" for i in range(3) for j in range(3)} | {
    "text": "".join(f"line {i}\n" for i in range(20)), "link": ("link", "text"), "empty": None,
}  # fmt: skip
GIT = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "c",
    "GIT_COMMITTER_EMAIL": "c@example.com", "GIT_CONFIG_GLOBAL": "/dev/null",
}  # fmt: skip


@pytest.fixture
def desk(me, level):
    base = tree(me, me.mkdir("base"), PROJECT)
    settle_clock(base)
    return Desk(me, level, base)


def outcomes(desk, *words):
    done = desk.verb("commit", "--json", *words)
    got = json.loads(done.stdout)
    return {c["path"]: c["outcome"] for c in got["changes"]}, got, done.returncode


# --- what is applied ---------------------------------------------------------------------------------

EVERY_KIND = r"""
echo new > added; echo more >> text; rm d0/f0; mv d0/f1 d0/renamed; chmod 600 d0/f2; ln -sfn d1 link
rm d1/f0 && mkdir d1/f0 && echo x > d1/f0/x; rm -r d2 && echo file > d2; rmdir empty; mkdir -p new/deep/dir
echo exec > run.sh; chmod 755 run.sh; rm d1/f1; ln -s f2 d1/f1; ln d1/f2 d1/hard; echo x > .hidden; touch -d 2001-01-01 added
"""


def same_as(desk, before):
    """A copy of the directory as it was, in which the same script ran without a sandbox."""
    copy = desk.me.base / "copy"
    assert before, copy
    done = desk.me.outside(["sh", "-ec", f"cd {copy} && umask 022; " + EVERY_KIND])
    assert done.returncode == 0, done
    want, got = picture(copy), picture(desk.base)
    for entries in (want, got):
        for path, entry in entries.items():
            for key in ("ctime", "ino", "flags", "mtime", "links"):
                entry.pop(key, None)
            if entry["mode"].startswith("0o4"):
                entry.pop("size")
    return differences(want, got)


def test_every_kind(desk):
    """After the commit the directory is what the same commands make of it outside."""
    desk.me.outside(["cp", "-a", desk.base, desk.me.base / "copy"], check=True)
    before = picture(desk.base)
    desk.run(EVERY_KIND)
    assert_same(before, desk.base)
    desk.ok("commit")
    assert not same_as(desk, before)
    assert desk.ids() == []
    assert os.stat(desk.base / "added").st_mtime == os.stat(desk.me.base / "copy" / "added").st_mtime
    left = [n for n in os.listdir(desk.base) if n not in os.listdir(desk.me.base / "copy")]
    assert not left, "no temporary files"


def test_owner(desk):
    """What the guest makes belongs to the caller."""
    desk.run("mkdir -p a/b; echo x > a/b/c; echo y > text; ln -s c a/b/l")
    desk.ok("commit")
    for path in ("a", "a/b", "a/b/c", "a/b/l", "text"):
        st = os.lstat(desk.base / path)
        assert (st.st_uid, st.st_gid) == (desk.me.uid, desk.me.gid), path


def test_twice(desk):
    """A named workspace stays, empty, and goes on from the new base."""
    desk.run("echo 1 > text; echo 1 > made", "--name", "n")
    desk.ok("commit", "n")
    assert desk.changes("n") == {} and desk.text("made") == "1\n"
    desk.run("cat text made; echo 2 > made; rm text", "--name", "n")
    assert desk.changes("n") == {"made": "modified", "text": "deleted"}
    desk.ok("commit", "n")
    assert desk.text("made") == "2\n" and not (desk.base / "text").exists()
    assert desk.run("cat made; ls", "--name", "n").stdout.decode().split("\n")[0] == "2"


def test_partial(desk):
    desk.run("echo a > d0/f0; echo a > d0/f1; rm d1/f0; echo new > d1/new; echo t > text; mkdir -p x/y; echo z > x/y/z", "--name", "n")  # fmt: skip
    got, all_, status = outcomes(desk, "n", "d0/f0", "x")
    assert status == 0 and all_["applied"] >= 2, all_
    assert desk.text("d0/f0") == "a\n" and desk.text("x/y/z") == "z\n" and desk.text("d0/f1") == "0 1\n"
    rest = {"d0/f1": "modified", "d1/f0": "deleted", "d1/new": "added", "text": "modified"}
    assert desk.changes("n") == rest
    desk.ok("commit", "n", "--exclude", "d1", "--exclude", "text")
    assert desk.changes("n") == {k: v for k, v in rest.items() if k != "d0/f1"}
    desk.fails("commit", "n", "d0/f1", says="not changed")
    # Inside everything is as before: committed or not makes no difference to the view.
    done = desk.run("cat d0/f0 d0/f1 d1/new text x/y/z; test ! -e d1/f0", "--name", "n")
    assert done.stdout == b"a\na\nnew\nt\nz\n", done
    desk.ok("commit", "n")
    assert desk.changes("n") == {} and not (desk.base / "d1" / "f0").exists()


def test_dry_run(desk):
    desk.run(EVERY_KIND, "--name", "n")
    before, changes = picture(desk.base), desk.changes("n")
    got, all_, status = outcomes(desk, "n", "--dry-run")
    assert status == 0 and all_["dry_run"] is True and set(got.values()) == {"applied"}, all_
    assert_same(before, desk.base)
    assert desk.changes("n") == changes


# --- conflicts -----------------------------------------------------------------------------------------

CONFLICTS = {
    # name: what the run does, what the user does outside meanwhile, the path
    "edited": ("echo inside > text", "echo outside > text", "text"),
    "deleted": ("echo inside > text", "rm text", "text"),
    "delete-edited": ("rm text", "echo outside > text", "text"),
    "both-added": ("echo inside > new", "echo outside > new", "new"),
    "became-directory": ("echo inside > text", "rm text; mkdir text", "text"),
    "became-link": ("echo inside > text", "ln -sf d0/f0 text", "text"),
    "mode": ("chmod 600 text", "echo outside > text", "text"),
    "relinked": ("ln -sfn d0 link", "ln -sfn d1 link", "link"),
    "same-size": ("sed -i 's/line 1$/LINE 1/' text", "sed -i 's/line 2$/LINE 2/' text", "text"),
    "tree-edited": ("rm -r d0", "echo outside > d0/f1", "d0/f1"),
}  # fmt: skip


@pytest.mark.parametrize("case", CONFLICTS)
def test_conflict(desk, case):
    inside, outside, path = CONFLICTS[case]
    desk.run(inside + "; echo fine > beside", "--name", "n")
    done = desk.me.outside(["sh", "-ec", f"cd {desk.base}; {outside}"])
    assert done.returncode == 0, done
    before = picture(desk.base)
    got, all_, status = outcomes(desk, "n")
    assert status == 1 and all_["conflicts"] >= 1 and all_["applied"] == 0, all_
    # In a copy what is below a deleted directory is told by its times: the host's, then.
    place = os.path.dirname(path) if case == "tree-edited" and desk.level == "landlock" else path
    assert got[place] == "conflict", got
    assert_same(before, desk.base)
    done = desk.verb("commit", "n")
    assert f"conflict: '{place}'" in done.stderr.decode() and b"--theirs" in done.stderr, done
    # Ours: the rest is committed, and the workspace keeps its version.
    got, all_, status = outcomes(desk, "n", "--ours")
    assert got["beside"] == "applied" and desk.text("beside") == "fine\n", all_
    now = picture(desk.base)
    assert now.get(path) == before.get(path), "the base's version stays"
    got, all_, status = outcomes(desk, "n", "--theirs")
    if place != path:
        assert status == 1 and desk.text(path) == "outside\n", all_  # and so it stays
        return
    assert status == 0 and all_["conflicts"] == 0, all_
    assert desk.changes("n") == {}
    if inside.startswith("rm"):
        assert not os.path.lexists(desk.base / path)
    elif "echo inside" in inside:
        assert desk.text(path) == "inside\n"


SAME = {
    "touched": ("echo inside > text", "touch text"),
    "rewritten": ("echo inside > text", "cat text > t2; cat t2 > text; rm t2"),
    "replaced": ("echo inside > text", "cp -p text t2; mv t2 text"),
    "same-change": ("echo inside > text", "echo inside > text"),
    "both-deleted": ("rm text", "rm text"),
    "both-added": ("echo inside > new", "echo inside > new"),
    "elsewhere": ("echo inside > text", "echo outside > d0/f0; rm d1/f1; echo x > other"),
}  # fmt: skip


@pytest.mark.parametrize("case", SAME)
def test_no_conflict(desk, case):
    """By content, not by times."""
    inside, outside = SAME[case]
    desk.run(inside, "--name", "n")
    done = desk.me.outside(["sh", "-ec", f"cd {desk.base}; {outside}"])
    assert done.returncode == 0, done
    done = desk.verb("commit", "n")
    assert done.returncode == 0, done
    if "echo inside > text" in inside:
        assert desk.text("text") == "inside\n"
    if case == "elsewhere":
        assert desk.text("d0/f0") == "outside\n" and not (desk.base / "d1/f1").exists()


def test_force(desk):
    desk.run("echo inside > text")
    desk.me.write(desk.base / "text", "outside\n")
    desk.fails("commit", "--ours", "--theirs", says="exclude each other")
    desk.ok("commit", "--force")
    assert desk.text("text") == "inside\n" and desk.ids() == []


def test_base_is_gone_or_another(desk):
    desk.run("echo inside > text", "--name", "n")
    os.rename(desk.base, desk.me.base / "away")
    desk.fails("commit", "n", cwd="/")
    desk.me.mkdir("base")
    before = picture(desk.base)
    desk.fails("commit", "n", says=str(desk.base), cwd="/")
    assert_same(before, desk.base)
    os.rmdir(desk.base)
    os.rename(desk.me.base / "away", desk.base)
    desk.ok("commit", "n")
    assert desk.text("text") == "inside\n"


# --- what is refused -----------------------------------------------------------------------------------

RISKY = {
    "fifo": ("mkfifo fifo", "special"),
    "out": ("ln -s /etc/passwd out", "link-out"),
    "up": ("ln -s ../../x up", "link-out"),
    ".envrc": ("echo x > .envrc", "protected"),
    ".vscode/tasks.json": ("mkdir .vscode; echo x > .vscode/tasks.json", "protected"),
    ".claude/settings.json": ("mkdir .claude; echo x > .claude/settings.json", "protected"),
    ".git/hooks/pre-commit": ("mkdir -p .git/hooks; echo x > .git/hooks/pre-commit", "protected"),
    "d0/.git/config": ("mkdir d0/.git; echo x > d0/.git/config", "protected"),
}  # fmt: skip


@pytest.mark.parametrize("path", RISKY)
def test_refused_unless_named(desk, path):
    script, risk = RISKY[path]
    desk.run(script + "; echo fine > plain", "--name", "n")
    one = next(c for c in desk.json("diff", "n")["changes"] if c["path"] == path)
    assert one["refused"] is True and any(risk.split("-")[0] in r for r in one["risk"]), one
    got, all_, status = outcomes(desk, "n")
    assert status == 1 and got[path] == "refused" and got["plain"] == "applied", all_
    assert not os.path.lexists(desk.base / path) and desk.text("plain") == "fine\n"
    # A directory that it lies in is not its name.
    if "/" in path:
        got, all_, status = outcomes(desk, "n", path.split("/")[0])
        assert not os.path.lexists(desk.base / path), all_
    desk.ok("commit", "n", path)
    assert os.path.lexists(desk.base / path) and desk.changes("n") == {}


def test_risky_but_applied(desk):
    desk.run("mkdir -p .github/workflows; echo x > .github/workflows/ci.yml; echo '{}' > package-lock.json; echo x > a.pth; printf '#!/bin/sh\\n' > run; chmod 755 run")  # fmt: skip
    risks = {c["path"]: c["risk"] for c in desk.json("diff")["changes"]}
    assert risks[".github/workflows/ci.yml"] == ["ci"] and risks["run"] == ["executable"], risks
    assert risks["package-lock.json"] == ["lockfile"] and risks["a.pth"] == ["startup"], risks
    desk.ok("commit")
    assert os.access(desk.base / "run", os.X_OK) and desk.ids() == []


# --- git -------------------------------------------------------------------------------------------------


def git(desk, *words):
    done = desk.me.outside(["git", *words], cwd=str(desk.base), env=GIT)
    assert done.returncode == 0, (words, done)
    return done.stdout.decode()


@pytest.fixture
def repository(desk):
    needs("git")
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "one"]):
        git(desk, *words)
    settle_clock(desk.base)
    return desk


def guest(desk, script, **kw):
    opts = [x for name, value in GIT.items() for x in ("--env", f"{name}={value}")]
    return desk.run("set -e; " + script, *opts, "--name", "n", **kw)


def test_names_of_one_file(desk):
    """No name of the base shares a file with another afterwards, or with the workspace, unless it did before."""
    base, out = desk.base, desk.me.mkdir("out")
    tree(desk.me, base, {name: name + "\n" for name in ("a", "shut", "p", "kept", "m1")})
    for old, new in ((base / "a", base / "b"), (base / "kept", base / "kept2"), (base / "m1", base / "m2"), (base / "m1", base / "m3")):
        os.link(old, new)
    os.link(base / "shut", out / "shut")
    settle_clock(base)
    desk.run(
        "echo new > n; ln n n2; echo 1 >> a; rm b; chmod 755 shut; ln p p2; ln a a2; "
        "rm m1 m2 m3; echo 1 > m1; echo 2 > m2; echo 3 > m3",
        "--name", "w",
    )  # fmt: skip
    desk.ok("commit", "w")
    assert not (base / "b").exists() and [desk.text(m) for m in ("m1", "m2", "m3")] == ["1\n", "2\n", "3\n"]
    names = [*base.iterdir(), out / "shut", *(p for p in store(desk.me).rglob("*"))]
    files = [p for p in names if p.is_file() and not p.is_symlink()]
    alone = {p for p in files if sum(q.stat().st_ino == p.stat().st_ino for q in files) == 1}
    assert {p.name for p in base.iterdir() if p.is_file() and not p.is_symlink()} - {p.name for p in alone} == {"kept", "kept2"}
    assert oct((base / "shut").stat().st_mode)[-3:] == "755" and oct((out / "shut").stat().st_mode)[-3:] != "755"


def test_git_commits_come_back(repository):
    desk = repository
    guest(desk, "echo inside >> text; git commit -qam two; git checkout -qb topic; echo t > topic; git add topic; git commit -qm three; git tag v1")  # fmt: skip
    assert git(desk, "log", "--format=%s") == "one\n"
    desk.ok("commit", "n")
    assert git(desk, "log", "--format=%s") == "three\ntwo\none\n"
    assert git(desk, "status", "--porcelain") == "" and git(desk, "tag") == "v1\n"
    assert git(desk, "branch", "--format=%(refname:short)") == "main\ntopic\n"
    git(desk, "fsck", "--strict", "--no-dangling")
    if desk.level == "landlock":
        return  # a copy does not follow its base
    # The other way round, and again.
    desk.me.write(desk.base / "outside", "x\n")
    git(desk, "add", "-A")
    git(desk, "commit", "-qm", "four")
    guest(desk, "git log --format=%s -1 | grep four; git merge -q main; git checkout -q main; git merge -q topic; git gc -q; git fsck --strict")  # fmt: skip
    desk.ok("commit", "n")
    assert git(desk, "log", "--format=%s", "main").startswith("four\nthree\n")
    git(desk, "fsck", "--strict", "--no-dangling")


def test_git_orders_of_the_guest_stay_inside(repository):
    """Hooks, config and attributes are refused; the commits are there all the same, and committing
    runs nothing."""
    desk = repository
    canary = desk.me.out / "ran"
    script = f"printf '#!/bin/sh\\ntouch {canary} 2>/dev/null; exit 0\\n'"
    guest(desk, f"for h in post-checkout reference-transaction pre-commit post-index-change fsmonitor; do {script} > .git/hooks/$h; chmod 755 .git/hooks/$h; done; git config core.fsmonitor .git/hooks/fsmonitor; git config core.hooksPath .git/hooks; git config filter.x.smudge 'touch {canary}'; mkdir -p .git/info; echo '* filter=x' > .git/info/attributes; echo in > text; git commit -qam two")  # fmt: skip
    config = (desk.base / ".git" / "config").read_text()
    got, all_, status = outcomes(desk, "n")
    assert status == 1, all_
    refused = {p for p, o in got.items() if o == "refused"}
    assert {".git/config", ".git/hooks/pre-commit", ".git/info/attributes"} <= refused, got
    assert (desk.base / ".git" / "config").read_text() == config
    assert not (desk.base / ".git" / "hooks" / "pre-commit").exists()
    assert git(desk, "log", "--format=%s") == "two\none\n"
    git(desk, "fsck", "--strict", "--no-dangling")
    git(desk, "status")
    assert not canary.exists()


def test_git_is_one_unit(repository):
    """All of .git or nothing of it: the user commits outside meanwhile."""
    desk = repository
    guest(desk, "echo inside > made; git add made; git commit -qm inside")
    desk.me.write(desk.base / "outside", "x\n")
    git(desk, "add", "-A")
    git(desk, "commit", "-qm", "outside")
    got, all_, status = outcomes(desk, "n")
    assert status == 1 and all_["applied"] == 0, all_
    got, all_, status = outcomes(desk, "n", "--ours")
    assert desk.text("made") == "inside\n", all_
    assert git(desk, "log", "--format=%s") == "outside\none\n"
    git(desk, "fsck", "--strict", "--no-dangling")
    assert not any(o == "applied" for p, o in got.items() if p.startswith(".git/")), got


def test_git_patch_applies(repository):
    desk = repository
    guest(desk, "echo inside >> text; printf '\\0\\1' > bin; rm d0/f0; mv d0/f1 d0/g1; chmod 755 d1/f1; ln -s text l2")
    patch = desk.ok("export", "--format", "patch", "n", *desk.changes("n"))
    done = subprocess.run(["git", "apply", "--check", "-"], cwd=desk.base, input=patch, capture_output=True, check=False)
    assert done.returncode == 0, (done, patch)
