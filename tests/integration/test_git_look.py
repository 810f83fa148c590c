# SPDX-License-Identifier: Apache-2.0
"""What a run leaves in repositories: the host's git neither obeys nor follows it, and everyday work stays."""

import os
import stat
import subprocess
import sys
import time

import pytest

from conftest import ceiling, needs

GIT_ENV = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip
PASS = [w for name in GIT_ENV for w in ("-e", name)]
HELD = "held-by-cordon"


@pytest.fixture(autouse=True)
def has_git():
    needs("git")


def git(me, *args, **kw):
    return me.outside(["git", *args], env=GIT_ENV, **kw)


@pytest.fixture
def repo(me):
    git(me, "init", "-q", "-b", "main", ".", check=True)
    me.write(me.work / "file", "one\n")
    git(me, "add", "file", check=True)
    # The same objects each time: a test removes the directory objects/ab, in which there must be none.
    date = {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}
    me.outside(["git", "commit", "-qm", "first"], check=True, env={**GIT_ENV, **date})
    assert not (me.work / ".git/objects/ab").exists()
    return me.work


def nested(me, path):
    """A repository that the caller made outside and entered into the index."""
    git(me, "init", "-q", str(path), check=True)
    git(me, "-C", str(path), "commit", "-q", "--allow-empty", "-m", "x", check=True)
    git(me, "add", str(path), check=True)


def receipt(me, script, *opts):
    return me.receipt(
        ["-w", me.work, *PASS, *opts], ["bash", "-c", script], "namespaces", env=GIT_ENV
    )


def aside(got):
    """What was put aside. The others are about names that the command could not change."""
    return [d for d in got["denials"] if d["how"] == "enforced"]


def held(me, script, *opts):
    """The targets that a run of the script had to hold."""
    got = receipt(me, script, *opts)
    assert got["kind"] == "exited" and got["exit_code"] == 0, got
    assert {d["rule"] for d in got["denials"]} <= {"fs.protect"}, got
    assert all(d["fix"] for d in got["denials"]), got
    return sorted(d["target"] for d in aside(got))


def do(me, where, script):
    if where == "outside":
        me.outside(["bash", "-c", script], env=GIT_ENV)
    else:
        assert aside(receipt(me, script))


def use_git(me):
    me.write(me.work / "file", "changed\n")
    for args in (["status"], ["diff"], ["add", "file"], ["commit", "-qm", "later"], ["checkout", "-q", "-b", "later"]):
        git(me, *args)


WHERE = pytest.mark.parametrize("where", ["outside", "inside"])

# --- the host's git runs nothing of the guest's ----------------------------------------------------

EVIL = """
printf '#!/bin/sh\\ntouch {mark}\\n' > $PWD/prog; chmod 755 prog
evil() {{ git init -q $1; git -C $1 commit -q --allow-empty -m x; git -C $1 config core.fsmonitor $PWD/prog; }}
"""
SPOOF = "chmod 444 {0}; touch -h -d @315705600.271828182 {0}"

RUNS = {
    # What looks like a placeholder of Cordon's own.
    "spoofed .git": "evil n; git add n; mv n/.git e; printf 'gitdir: ../e' > n/.git; " + SPOOF.format("n/.git"),
    "spoofed commondir": "evil e; echo ../../e/.git > own/.git/commondir; " + SPOOF.format("own/.git/commondir"),
    # Names that were taken before.
    "decoys": "evil n; git add n; for n in n/.git .git/.index; do touch $n.held-by-cordon $(seq -f $n.held-by-cordon.%g 200); done",
    "a directory that cannot be written": "evil n; git add n; chmod 555 n n/.git",
    "hooks of the user's config": "mkdir own/.githooks; cp prog own/.githooks/post-index-change; cp prog own/.githooks/pre-commit",
}


@WHERE
@pytest.mark.parametrize("how", RUNS)
def test_nothing_runs(me, repo, how, where):
    nested(me, "own")
    git(me, "commit", "-qm", "own", check=True)
    if "user" in how:
        me.write(me.home / ".gitconfig", "[core]\nhooksPath = .githooks\n")
    mark = me.out / "canary"
    do(me, where, EVIL.format(mark=mark) + RUNS[how])
    use_git(me)
    os.utime(repo / "own")
    git(me, "-C", "own", "update-index", "--refresh", "--force-write-index")
    git(me, "-C", "own", "commit", "-q", "--allow-empty", "-m", "y")
    assert mark.exists() == (where == "outside")


REPLACED = {
    "a file": "rm file; evil file",
    "a file below": "rm sub/deep; evil sub/deep",
    "a file that was moved": "evil e; mv file away; mv e file",
    "a directory that was moved": "mkdir x; evil x/deep; mv sub y; mv x sub",
    "a file of a repository inside": "rm own/inner; evil own/inner",
    "a file in a closed directory": "rm sub/deep; evil sub/deep; chmod 0 sub",
    "a file in one that cannot be listed": "rm sub/deep; evil sub/deep; chmod 311 sub",
    "a file below a closed directory": "rm sub/sub/deep; evil sub/sub/deep; chmod 0 sub",
    "a file in a closed top": "rm file; evil file; chmod 0 .",
}


@WHERE
@pytest.mark.parametrize("how", REPLACED)
def test_a_file_that_became_a_repository(me, repo, how, where):
    """`git status` does not enter it, but what is added then is a repository that git enters."""
    for sub in ("sub", "sub/sub"):
        me.mkdir(f"work/{sub}")
        me.write(repo / sub / "deep", "one\n")
    git(me, "init", "-q", "own", check=True)
    me.write(repo / "own/inner", "one\n")
    for top in (repo / "own", repo):
        git(me, "-C", str(top), "add", ".", check=True)
        git(me, "-C", str(top), "commit", "-qm", "more", check=True)
    mark = me.out / "canary"
    do(me, where, EVIL.format(mark=mark) + REPLACED[how])
    for closed in (repo, repo / "sub"):
        os.chmod(closed, 0o755)
    for top in (repo / "own", repo):
        git(me, "-C", str(top), "add", "-u")
        git(me, "-C", str(top), "status")
    assert mark.exists() == (where == "outside")


def test_repositories_beside_files_stay(me, repo):
    """A plain one that the index does not name is left alone, whatever is changed around it."""
    assert held(me, "git init -q clone; git -C clone commit -q --allow-empty -m x; rm file; mkdir file") == []
    assert (repo / "clone/.git").is_dir()


@pytest.mark.parametrize("closed", [".", ".git", ". .git"])
def test_a_closed_repository_is_looked_at(me, repo, closed):
    """Its owner can open it, so nothing has to be put aside, and it is closed again afterwards."""
    assert held(me, f"chmod 000 {' '.join(reversed(closed.split()))}") == []
    for name in (".", ".git"):
        path = repo / name
        if name in closed.split():
            assert stat.S_IMODE(os.stat(path).st_mode) == 0
        os.chmod(path, 0o755)
    assert git(me, "status", "--porcelain").stdout == b""


def wait_for(path):
    end = time.monotonic() + ceiling(30)
    while not os.path.lexists(path):
        assert time.monotonic() < end, path
        time.sleep(0.01)


AWAIT = "for i in $(seq 3000); do [ -e {0} ] && break; sleep 0.01; done; [ -e {0} ];"


@pytest.mark.parametrize("how", ["config", "older config"])
def test_two_runs_hand_a_repository_on(me, repo, how):
    """The second run finds what the first one made, which is put aside, and brings it back."""
    mark = me.out / "canary"
    make = EVIL.format(mark=mark) + "evil n; "
    if how == "older config":  # the user's own, and not named by the index
        me.outside(["bash", "-c", EVIL.format(mark=mark) + "evil m"], env=GIT_ENV, check=True)
        make = "mv m n; "
    argv = me.argv(["-w", repo, *PASS], ["bash", "-c", make + "git add n; touch made; " + AWAIT.format("ready")])
    first = me.popen(argv, env=GIT_ENV, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(repo / "made")
    back = f"touch ready; {AWAIT.format('n/.git.' + HELD)} mv n/.git.{HELD} n/.git"
    assert held(me, back) == ["n"]
    assert first.wait(timeout=ceiling(30)) == 0
    use_git(me)
    assert not mark.exists() and not os.path.lexists(repo / "n" / ".git")
    git(me, "reset", "-q", "--hard")
    me.outside(["sh", "-c", f"mv n/.git.{HELD}* n/.git"])
    use_git(me)
    assert mark.exists(), "positive control"


def test_own_repository_in_two_runs(me, repo):
    """What was there before either of them, and was not touched, stays."""
    nested(me, "own")
    git(me, "commit", "-qm", "own", check=True)
    argv = me.argv(["-w", repo, *PASS], ["bash", "-c", "touch made; " + AWAIT.format("ready")])
    first = me.popen(argv, env=GIT_ENV, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_for(repo / "made")
    assert held(me, "echo x > file; git commit -qam x; git branch b; touch ready") == []
    assert first.communicate(timeout=ceiling(30))[1] == b"" and first.returncode == 0
    assert (repo / "own" / ".git" / "HEAD").exists()


# --- the host's git writes through no link ---------------------------------------------------------

WRITES = {
    "plain": ("refs/heads/x", "mkdir -p .git/logs/refs/heads; rm -f .git/logs/refs/heads/x; ln -s {target} .git/logs/refs/heads/x"),
    "index": ("x", "rm .git/index; ln -s {target}.new .git/index"),
    "deep": ("refs/heads/" + "d/" * 80 + "x", "d=.git/logs/refs/heads/$(printf 'd/%.0s' $(seq 80)); mkdir -p $d; ln -s {target} $d/x"),
    "a long name": ("refs/heads/" + "y" * 250, "mkdir -p .git/logs/refs/heads; ln -s {target} .git/logs/refs/heads/$(printf 'y%.0s' $(seq 250))"),
}  # fmt: skip


@WHERE
@pytest.mark.parametrize("how", WRITES)
def test_nothing_is_written(me, repo, how, where):
    target = me.write(me.out / "rc", "precious\n")
    ref, script = WRITES[how]
    do(me, where, script.format(target=target))
    git(me, "update-ref", "--create-reflog", "-m", "through", ref, "HEAD")
    git(me, "add", "file")
    changed = target.read_text() != "precious\n" or os.path.exists(f"{target}.new")
    assert changed == (where == "outside")


@pytest.mark.parametrize("place", ["objects", "tool"])
@WHERE
def test_link_that_an_earlier_run_left(me, repo, where, place):
    """Its time of change is older than the run that moves its directory."""
    target = me.write(me.out / "rc", "precious\n")
    (repo / ".git" / "tool").mkdir()  # git does not know it, so it is not looked into
    me.own(repo / ".git" / "tool")
    first = f"mkdir -p .git/{place}/x/refs/heads; ln -s {target} .git/{place}/x/refs/heads/b"
    then = f"rm -rf .git/logs; mv .git/{place}/x .git/logs; true"
    if where == "outside":
        me.outside(["sh", "-c", f"{first}; {then}"])
    else:
        found = held(me, first)
        time.sleep(0.05)
        found += held(me, then)
        assert found == [".git/objects/x" if place == "objects" else ".git/logs/refs/heads/b"]
    git(me, "branch", "--create-reflog", "b")
    assert (target.read_text() != "precious\n") == (where == "outside")


def test_directory_that_is_closed(me, repo):
    target = me.write(me.out / "rc", "precious\n")
    script = f"ln -s {target} .git/logs/refs/heads/b; chmod 000 .git/logs/refs/heads .git/logs/refs .git"
    got = held(me, script)
    # Root reads what is closed to others.
    assert got == ([".git/logs/refs/heads/b"] if me.uid == 0 else [".git/logs/refs"])
    me.outside(["chmod", "-R", "u+rwX", ".git"])
    git(me, "branch", "--create-reflog", "b")
    assert target.read_text() == "precious\n"


# --- the host's git waits for nothing ----------------------------------------------------------------

PIPES = {
    "beside files": ("sub", "mkfifo sub/.gitignore", ["sub/.gitignore"]),
    "on the way up": ("sub", "mkfifo sub/HEAD", ["sub/HEAD"]),
    "link": (".", "mkfifo p; ln -s p .gitmodules", [".gitmodules"]),
    "new directory": (".", "mkdir -p new/a; mkfifo new/a/.gitattributes new/a/.gitignore; touch new/a/f", ["new/a/.gitattributes", "new/a/.gitignore"]),
    "new repository": (".", "git init -q new/n; rm new/n/.git/HEAD; mkfifo new/n/.git/HEAD", ["new/n/.git/HEAD"]),
    "object": (".", "o=$(git rev-parse HEAD); o=.git/objects/${o:0:2}/${o:2}; rm -f $o; mkfifo $o", None),
}  # fmt: skip


@pytest.mark.parametrize("how", PIPES)
def test_git_waits_for_no_pipe(me, repo, how):
    me.mkdir(repo / "sub")
    me.write(repo / "sub" / "file", "x\n")
    git(me, "add", "sub", check=True)
    git(me, "commit", "-qm", "sub", check=True)
    at, script, targets = PIPES[how]
    found = held(me, script)
    assert found == targets or (targets is None and len(found) == 1), found
    done = me.outside(["timeout", "60", "git", "status"], env=GIT_ENV, cwd=str(repo / at))
    assert done.returncode != 124, done
    me.outside(["bash", "-c", script], env=GIT_ENV)
    done = me.outside(["timeout", "1", "git", "status"], env=GIT_ENV, cwd=str(repo / at))
    # Newer versions of git do not follow that link.
    assert done.returncode == 124 or how == "link", done


def test_pipes_of_the_user_stay(me, repo):
    me.mkdir(repo / "sub")
    me.write(repo / "sub" / "file", "x\n")
    git(me, "add", "sub", check=True)
    me.outside(["mkfifo", "sub/.gitattributes"], check=True)
    time.sleep(0.05)  # a tick of the clock that stamps files
    assert held(me, "mkfifo sub/pipe; mkdir -p new; mkfifo new/x; touch sub/other; ln -s /dev/null new/.gitignore") == []
    assert (repo / "sub" / ".gitattributes").is_fifo() and (repo / "new" / "x").is_fifo()


def test_links_of_the_user_stay(me, repo):
    """As git-new-workdir makes them."""
    store = me.mkdir("store")
    for name in ("rr-cache", "logs/refs"):
        me.outside(["rm", "-rf", repo / ".git" / name])
        (store / name).mkdir(parents=True)
        (repo / ".git" / name).symlink_to(store / name)
    time.sleep(0.05)
    assert held(me, "echo two > file; git commit -qam two; git branch b; git pack-refs --all", "-w", store) == []
    assert (repo / ".git" / "logs" / "refs").is_symlink()
    assert held(me, "rm .git/rr-cache; ln -s /etc .git/rr-cache") == [".git/rr-cache"]


# --- an allow-list ---------------------------------------------------------------------------------

LEFT = {
    "echo x > .git/unknown": [".git/unknown"],
    "mkdir .git/unknown; echo x > .git/unknown/x": [".git/unknown"],
    "echo x > .git/CONFIG": [".git/CONFIG"],
    "mkfifo .git/ORIG_HEAD .git/refs/heads/p": [".git/ORIG_HEAD", ".git/refs/heads/p"],
    "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\".git/fsmonitor--daemon.ipc\")'": [".git/fsmonitor--daemon.ipc"],
    "mkdir .git/svn; printf '[svn]\\n' > .git/svn/.metadata": [".git/svn"],
    "mkdir -p .git/remotes; echo URL: ext::x > .git/remotes/o": [".git/remotes"],
    "mkdir -p .git/branches; echo x > .git/branches/o": [".git/branches/o"],
    "mkdir -p .git/objects/info; echo /elsewhere > .git/objects/info/alternates": [".git/objects/info/alternates"],
    "echo '* filter=x' > .git/info/attributes; echo x > .git/info/exclude": [".git/info/attributes"],
    "rm -rf .git/objects/ab; ln -s /tmp .git/objects/ab": [".git/objects/ab"],
    "ln -s /tmp .git/objects/zz; echo x > .git/objects/pack/y": [".git/objects/pack/y", ".git/objects/zz"],
    "echo /x > .git/gitdir": [".git/gitdir"],
    "mkdir .git/rebase-merge; echo 'exec touch x' > .git/rebase-merge/git-rebase-todo": [".git/rebase-merge/git-rebase-todo"],
    "mkdir .git/rebase-merge; echo x/../prog > .git/rebase-merge/strategy": [".git/rebase-merge/strategy"],
    "mkdir .git/sequencer; printf '[options]\\nstrategy = x/../prog\\n' > .git/sequencer/opts": [".git/sequencer/opts"],
    "mkdir .git/sequencer; printf 'pick 1\\n  x  touch x\\n' > .git/sequencer/todo": [".git/sequencer/todo"],
    "echo \"'a'; touch x\" > .git/BISECT_NAMES": [".git/BISECT_NAMES"],
    "echo 'ref: refs/../config' > .git/ORIG_HEAD": [".git/ORIG_HEAD"],
    "cp /bin/true .git/refs/x; chmod u+s .git/refs/x 2>/dev/null || { rm .git/refs/x; mkfifo .git/refs/x; }": [".git/refs/x"],
}  # fmt: skip


@pytest.mark.parametrize("script", LEFT)
def test_what_git_does_not_leave(me, repo, script):
    assert held(me, script) == LEFT[script]
    for target in LEFT[script]:
        assert not os.path.lexists(repo / target)
    assert list((repo / ".git").glob(".*." + HELD))
    assert held(me, "git status") == [] and git(me, "fsck").returncode == 0


def test_what_was_there_stays(me, repo):
    for name in ("unknown", "info/attributes", "objects/info/alternates"):
        me.write(repo / ".git" / name, "")
    (repo / ".git" / "tool").mkdir()
    me.own(repo / ".git" / "tool")
    time.sleep(0.05)
    work = "echo x > .git/tool/x; echo two > file; git commit -qam two; git gc -q; git update-server-info; echo x >> .git/info/exclude"
    assert held(me, work) == []
    assert held(me, "echo x > .git/unknown; echo x > .git/info/attributes") == [".git/info/attributes", ".git/unknown"]


@pytest.mark.parametrize("text", ["ref: commondir", "ref:hooks/pre-commit", "ref: refs/heads/../../config.worktree"])
@pytest.mark.parametrize("where", ["refs/heads/main", "refs/heads/deep/er/main"])
def test_a_branch_refers_to_references_only(me, repo, text, where):
    """Git writes to the file that a branch refers to, wherever in .git it lies."""
    script = f"mkdir -p .git/{where.rpartition('/')[0]}; printf '{text}\\n' > .git/{where}"
    commit = f"git symbolic-ref HEAD {where} && git commit -q --allow-empty -m x"
    target = repo / ".git" / text.removeprefix("ref:").strip()
    me.outside(["sh", "-c", f"cp -r .git keep && {script} && {commit}"], env=GIT_ENV)
    if ".." not in text:
        assert target.exists(), "control"
    me.outside(["sh", "-c", "rm -rf .git && mv keep .git"], check=True)
    assert held(me, script) == [f".git/{where}"]
    me.outside(["sh", "-c", commit], env=GIT_ENV)
    assert not os.path.exists(target)


def test_a_branch_may_refer_to_a_branch(me, repo):
    script = "mkdir -p .git/refs/remotes/origin; git update-ref refs/remotes/origin/main HEAD; " \
             "git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main; git branch x"  # fmt: skip
    assert held(me, script) == []


@pytest.mark.parametrize("text", ["ref: refs/heads/../../config", "ref: /etc/passwd", "nonsense"])
def test_head_is_restored(me, repo, text):
    """Without one git would look for a repository further up."""
    assert held(me, f"echo '{text}' > .git/HEAD") == [".git/HEAD"]
    assert (repo / ".git" / "HEAD").read_text() == "ref: refs/heads/main\n"
    assert held(me, "rm .git/HEAD; ln -s refs/heads/main .git/HEAD") == [".git/HEAD"]
    assert git(me, "status", "--porcelain").stdout == b""


def test_everyday_work_leaves_nothing(me, repo):
    """Whatever git does by itself is allowed, at each moment of it."""
    other = me.mkdir("other")
    for args in (["init", "-q", "-b", "main", "."], ["commit", "-q", "--allow-empty", "-m", "o"], ["tag", "t"]):
        git(me, *args, cwd=str(other), check=True)
    steps = [
        "echo two >> file; git add file; git commit -qm two; git commit -q --amend -m 'two again'",
        "git branch topic; git checkout -q topic; echo three > three; git add -A; git commit -qm three",
        "git switch -q -c side main; echo s > three; git add three; git commit -qm side; git tag light; git tag -a -m text full",
        "echo stash >> file; git stash -q; git stash list; git stash pop -q; git stash -q; git stash drop -q",
        "git checkout -q main; git merge -q --no-edit topic; git merge side; git status; true",
        "git merge --abort; git cherry-pick side; true",
        "git cherry-pick --abort; git revert --no-edit HEAD; git revert HEAD~1; true",
        "git revert --abort; git reset -q --hard; git rebase side; true",
        "echo both > three; git add three; GIT_EDITOR=true git rebase --continue; git rebase --abort; git status",
        "git checkout -q topic; GIT_SEQUENCE_EDITOR=true git rebase -q -i HEAD~2; git rebase -q --apply side; true",
        "git rebase --abort; git format-patch -q -1 --stdout topic > p; git checkout -q side; git am p; true",
        "git am --abort; git checkout -q main; git bisect start -q HEAD HEAD~2; git bisect good; true",
        "git bisect reset -q; git bisect start HEAD HEAD~2; git bisect run true; git bisect reset -q",
        f"git fetch -q {other} main; git fetch -q {other} t:refs/tags/t; git log -1 FETCH_HEAD",
        "git notes add -m note; git notes append -m more; git reflog expire --expire=now --all; git reflog",
        "git pack-refs --all; git repack -q -a -d; git multi-pack-index write; git commit-graph write --reachable",
        "git commit-graph write --reachable --split; git gc -q; git gc -q --prune=now; git maintenance run; git prune",
        "git update-server-info; git update-index --split-index; git update-index --index-version 4; git update-index --no-split-index",
        "git rev-parse HEAD > .git/shallow; git log -1; rm .git/shallow; git replace -f HEAD HEAD~1; git replace -d HEAD",
        "mkdir a b; echo x > a/x; echo x > b/x; git add a b; git commit -qm ab; git -c core.sparseCheckout=true sparse-checkout set a; true",
        "git checkout --orphan new; git commit -qm new; git checkout -q main; git branch -D new; git branch -m side renamed",
        "git rm -q file; git commit -qm less; git clean -qfd; git archive HEAD >/dev/null; git fsck; git rerere; git worktree list",
    ]
    for step in steps:
        got = receipt(me, step, "-r", other)
        assert got["kind"] == "exited" and aside(got) == [], (step, got)
    assert git(me, "fsck").returncode == 0
    assert not list((repo / ".git").rglob("*" + HELD + "*"))


@WHERE
def test_bare_repository(me, where):
    """It is looked at like any other, and git works in it."""
    target = me.write(me.out / "rc", "precious\n")
    git(me, "init", "-q", "-b", "main", "w", check=True)
    git(me, "-C", "w", "commit", "-q", "--allow-empty", "-m", "x", check=True)
    git(me, "clone", "-q", "--bare", "w", "b.git", check=True)
    time.sleep(0.05)
    bare = me.work / "b.git"
    use = "git update-ref --create-reflog refs/heads/y HEAD; git symbolic-ref HEAD refs/heads/y; git tag t; git gc -q; git log"
    script = f"mkdir -p logs/refs/heads; ln -s {target} logs/refs/heads/x; echo x > unknown"
    if where == "inside":
        got = me.receipt(["-w", bare, "-C", bare, *PASS], ["sh", "-c", use], "namespaces", env=GIT_ENV)
        assert got["exit_code"] == 0 and got["denials"] == [], got
        got = me.receipt(["-w", bare, "-C", bare], ["sh", "-c", script], "namespaces", cwd=str(bare))
        assert sorted(d["target"] for d in got["denials"]) == ["logs/refs/heads/x", "unknown"], got
        got = me.receipt(["-w", bare, "-C", bare], ["sh", "-c", "for i in $(seq 1100); do : > x$i; done"], "namespaces", cwd=str(bare))
        assert got["status"] == 123 and got["denials"][-1]["fix"] == f"mv .HEAD.{HELD} HEAD", got
        me.outside(["mv", f".HEAD.{HELD}", "HEAD"], cwd=str(bare), check=True)
    else:
        me.outside(["sh", "-c", script], cwd=str(bare), check=True)
    git(me, "update-ref", "--create-reflog", "-m", "m", "refs/heads/x", "HEAD", cwd=str(bare))
    assert (target.read_text() != "precious\n") == (where == "outside")


# --- what cannot be checked ------------------------------------------------------------------------

TOO_MUCH = "for i in $(seq 1100); do : > .git/x$i; done; echo out; exit 7"


def test_what_cannot_be_checked_is_out_of_reach(me, repo):
    got = receipt(me, TOO_MUCH)
    assert got["status"] == 123 and got["kind"] == "sandbox_error" and got["exit_code"] == 7, got
    assert got["stdout"] == "out\n" and got["error"]["code"] == "path"
    assert "could not be checked" in got["error"]["message"] and ".git" in got["error"]["hint"]
    last = got["denials"][-1]
    assert last == {"what": "repository", "target": ".git", "rule": "fs.protect", "fix": f"mv .git.{HELD} .git",
                    "how": "enforced"}  # fmt: skip
    assert not (repo / ".git").exists() and git(me, "status").returncode != 0
    assert me.outside(["sh", "-c", last["fix"]]).returncode == 0
    assert git(me, "status").returncode == 0


def test_what_cannot_be_checked_is_said(me, repo):
    done = me.run(["-q", "-w", repo], ["bash", "-c", TOO_MUCH], "namespaces")
    assert done.returncode == 123
    assert done.stderr.startswith(b"cordon: what the command left in "), done.stderr
    assert f"mv .git.{HELD} .git".encode() in done.stderr and done.stderr.count(b"\n") == 1


def test_index_that_is_not_understood_is_refused(me, repo):
    """Before the run: what the command makes of it could not be told."""
    me.write(repo / ".git" / "index", "DIRC")
    got = receipt(me, "true")
    assert got["status"] == 125 and "index" in got["error"]["message"] and "--no-protect" in got["error"]["hint"], got
    assert receipt(me, "true", "--no-protect")["status"] == 0


INDEX = """
import struct
def entry(strip, name, length):
    number = bytes([strip]) if strip < 128 else bytes([((strip >> 7) - 1) | 128, strip & 127])
    return bytes(24) + struct.pack(">I", 0o160000) + bytes(12) + bytes(20) + struct.pack(">H", min(length, 4095)) + number + name + b"\\0"
n = 130000
data = entry(0, b"a" * 4000, 4000) + b"".join(entry(6, b"%06d" % i, 4000) for i in range(n - 1))
open(".git/index", "wb").write(b"DIRC" + struct.pack(">II", 4, n) + data + bytes(20))
"""


def test_index_takes_little_memory(me, repo):
    """Nine megabytes that name half a gigabyte of paths."""
    pid = me.popen(me.argv(["-w", repo], [sys.executable, "-c", INDEX], "namespaces"), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, used = os.wait4(pid.pid, 0)
    pid.returncode = os.waitstatus_to_exitcode(status)
    said = pid.stderr.read()
    pid.stderr.close()
    assert pid.returncode == 0 and b"put aside '.git/index'" in said, said
    assert used.ru_maxrss < 200 << 10, f"{used.ru_maxrss} KiB"
