# SPDX-License-Identifier: Apache-2.0
"""Repositories that a run leaves in untracked directories: after `git add .` the host's git obeys nothing of
them, and clones stay as they are."""

import subprocess

import pytest

from test_git_look import EVIL, GIT_ENV, HELD, WHERE, git, has_git, held, receipt, repo  # noqa: F401 (fixtures)

# `evil` makes one that obeys fsmonitor, `hidden` moves its own directory to a place that git does not look at.
MAKE = EVIL + """
hidden() {{ evil e; mv e/.git hid; mkdir -p n; rm -rf e; }}
prog() {{ printf '#!/bin/sh\\ntouch {mark}\\n' > $1; chmod 755 $1; }}
fresh() {{ git init -q $1; echo x > $1/f; echo '* filter=x diff=x' > $1/.gitattributes; git -C $1 add -A; git -C $1 commit -qm x; touch -d '1 hour ago' $1/f; }}
"""
WAYS = {
    "fsmonitor": ["evil n"],
    "far down": ["mkdir -p a/b/c; evil a/b/c/n"],
    "hooks": ["fresh n; prog n/.git/hooks/post-index-change"],
    "hooks elsewhere": ["fresh n; mkdir h; prog h/post-index-change; git -C n config core.hooksPath $PWD/h"],
    "a filter": ["fresh n; git -C n config filter.x.clean $PWD/prog"],
    "an include": ["evil n; mv n/.git/config inc; printf '[include]\\n\\tpath = ../../inc\\n' > n/.git/config"],
    "a config of the work tree": ["fresh n; git -C n config extensions.worktreeConfig true; git -C n config --worktree core.fsmonitor $PWD/prog"],
    "a config that is a link": ["evil n; mv n/.git/config c; ln -s ../../c n/.git/config"],
    "hooks that are a link": ["fresh n; rm -rf n/.git/hooks; mkdir h; prog h/post-index-change; ln -s ../../h n/.git/hooks"],
    "hooks of the user's config": ["fresh n; mkdir n/.githooks; prog n/.githooks/post-index-change"],
    "hooks of the user's config in his clone": ["mkdir own/.githooks; prog own/.githooks/post-index-change"],
    "a .git file": ["hidden; echo 'gitdir: ../hid' > n/.git"],
    "a .git that is a link": ["hidden; ln -s ../hid n/.git"],
    "a common directory": ["evil c; fresh n; echo ../../c/.git > n/.git/commondir"],
    "another work tree": ["fresh n; evil m; git -C n config core.worktree $PWD/m"],
    "a submodule of a clone": ["fresh n; evil n/s; git -C n add s; git -C n commit -qm s"],
    "a directory that was there": ["evil old/deep/n"],
    "a directory that was there itself": ["evil old/deep"],
    "the config of a clone that was there": ["git -C own config core.fsmonitor $PWD/prog"],
    "a hook of a clone that was there": ["prog own/.git/hooks/post-index-change"],
    "a submodule of a clone that was there": ["evil own/s; git -C own add s"],
    "beside tracked files": ["evil sub/n"],
    "moved by another run": ["fresh e; mv e/.git hid; git -c core.bare=false --git-dir=hid config core.fsmonitor $PWD/prog", "mkdir n; mv e/f n; mv hid n/.git"],
    "moved out of an ignored directory": ["mkdir big/x; fresh n", "git -C n config core.fsmonitor $PWD/prog; mv n big/x; mv big/x/n m"],
    "a hook that is made executable later": ["fresh n; prog n/.git/hooks/post-index-change; chmod 644 n/.git/hooks/post-index-change", "chmod 755 n/.git/hooks/post-index-change"],
    "closed at first": ["mkdir x; evil x/n; chmod 0 x", "chmod 755 x"],
    "beside one that cannot be searched": ["fresh zz; chmod 444 zz/.git; evil n; evil z"],
    "closed itself": ["evil n; chmod 0 n/.git", "chmod 755 n/.git"],
    "no HEAD at first": ["evil n; mv n/.git/HEAD h", "mv h n/.git/HEAD"],
    "ignored at first": ["evil big/deep/n", "echo > .gitignore"],
    "ignored until the file goes": ["evil big/deep/n", "rm .gitignore"],
    "ignored, and then not": ["evil big/deep/n", "echo '!big' >> .gitignore"],
    "ignored, then excepted further down": ["evil sub/big/n", "echo '!big' > sub/.gitignore"],
}  # fmt: skip


@pytest.fixture
def tree(me, repo):  # noqa: F811
    """Untracked directories and a clone of the user's, and something that he ignores."""
    me.mkdir("work/sub")
    me.write(repo / "sub/file", "one\n")
    me.write(repo / ".gitignore", "*.o\n/other/\nbig/\n")
    git(me, "add", ".", check=True)
    git(me, "commit", "-qm", "more", check=True)
    me.outside(["mkdir", "-p", "old/deep", "big/deep", "sub/big"], check=True)
    git(me, "init", "-q", "own", check=True)
    me.write(repo / "own/f", "one\n")
    git(me, "-C", "own", "add", "f", check=True)
    git(me, "-C", "own", "commit", "-qm", "x", check=True)
    me.outside(["touch", "-d", "1 hour ago", "own/f"], check=True)
    return repo


def use_add(me):
    for args in ("status", "add -A", "status", "diff", "add .", "commit -qam host", "status", "diff HEAD~1", "submodule status"):
        git(me, *args.split())


@WHERE
@pytest.mark.parametrize("how", WAYS)
def test_nothing_runs_after_git_add(me, tree, how, where):
    mark = me.out / "canary"
    if "user's config" in how:
        me.write(me.home / ".gitconfig", "[core]\nhooksPath = .githooks\n")
    for n, script in enumerate(WAYS[how]):
        script = MAKE.format(mark=mark) + script if n == 0 else f"prog() {{ :; }}; {script}"
        if where == "outside":
            me.outside(["bash", "-c", script], env=GIT_ENV)
        else:
            got = receipt(me, script)
            assert got["kind"] == "exited" and {d["rule"] for d in got["denials"]} <= {"fs.protect"}, got
    use_add(me)
    assert mark.exists() == (where == "outside")


@pytest.mark.parametrize("end", ["echo x > .git/index", "truncate -s 600M .git/index", "git update-index --index-version 4; head -c 99 .git/index > i; mv i .git/index"])
def test_beside_an_index_that_is_put_aside(me, tree, end):
    """Without an index everything is untracked, and is looked at all the same."""
    mark = me.out / "canary"
    assert set(held(me, f"{MAKE.format(mark=mark)}evil n; evil sub/n; {end}")) == {".git/index", "n", "sub/n"}
    use_add(me)
    assert not mark.exists()


PLAIN = {
    "init": "git init -q n",
    "clone": "git init -q a; git -C a commit -q --allow-empty -m x; git clone -q a b; git clone -q file://$PWD/a c; git clone -q --bare a d.git",
    "shallow": "git init -q a; git -C a commit -q --allow-empty -m x; git clone -q --depth 1 --no-tags --single-branch file://$PWD/a c",
    "submodules": "git init -q a; git -C a commit -q --allow-empty -m x; git init -q b; "
    "git -C b -c protocol.file.allow=always submodule --quiet add $PWD/a s; git -C b commit -qm s; "
    "git -c protocol.file.allow=always clone -q --recurse-submodules b c; [ -e c/s/.git ]",
    "work trees": "git init -q a; git -C a commit -q --allow-empty -m x; git -C a worktree add -q ../b",
    "sparse": "git init -q a; mkdir a/d; echo x > a/d/f; git -C a add -A; git -C a commit -qm x; git -C a sparse-checkout set d",
    "sha256": "git init -q --object-format=sha256 a",
    "work in one": "git init -q a; echo x > a/f; git -C a add f; git -C a commit -qm x; git -C a tag t; git -C a branch b; git -C a switch -q b; "
    "git -C a config user.name x; git -C a remote add o https://example.com/x; git -C a stash list; git -C a gc -q",
    "work in the user's": "git -C own commit -q --allow-empty -m y; git -C own branch b; git -C own remote add o https://example.com/x",
    "beside tracked files": "git init -q sub/n; git init -q old/deep/n",
    "moved": "git init -q n; mkdir -p x/y; mv n x/y; mv x z; mv old older",
}  # fmt: skip


@pytest.mark.parametrize("how", PLAIN)
def test_plain_repositories_stay(me, tree, how):
    assert held(me, PLAIN[how]) == []
    assert not list(tree.rglob(f"*{HELD}*"))


def test_ignored_repositories_stay(me, tree):
    """`git add .` does not enter them, whatever they are."""
    script = EVIL.format(mark=me.out / "canary")
    assert held(me, script + "evil big/deep/n") == []
    use_add(me)
    assert (tree / "big/deep/n/.git").is_dir() and not (me.out / "canary").exists()


@pytest.mark.parametrize("has_ignored", [True, False])
@pytest.mark.parametrize("what", ["hooks", "fsmonitor", "link"])
def test_repositories_of_the_user_stay(me, tree, what, has_ignored):
    """Whatever they obey, as long as the run does not change that."""
    mark = me.out / "canary"
    if not has_ignored:
        git(me, "rm", "-qf", ".gitignore", check=True)
    script = "cd own; " + {
        "hooks": "cp ../prog .git/hooks/post-commit",
        "fsmonitor": "git config core.fsmonitor ../prog",
        "link": "mv .git ../elsewhere; ln -s ../elsewhere .git",
    }[what]
    me.outside(["bash", "-c", EVIL.format(mark=mark) + script], env=GIT_ENV, check=True)
    assert held(me, "echo x > file; mkdir old/new; git -c core.fsmonitor= -C own branch b; touch sub/y own/.git/index; true") == []
    assert (tree / "own/.git").exists()


def test_pipe_in_an_untracked_directory(me, tree):
    assert held(me, "mkfifo old/deep/.gitignore; touch old/deep/x") == ["old/deep/.gitignore"]
    git(me, "status", timeout=60, check=True)


def test_it_is_told_with_the_way_back(me, tree):
    mark = me.out / "canary"
    got = receipt(me, EVIL.format(mark=mark) + "evil n; mv n 'a b'")
    (denial,) = got["denials"]
    assert (denial["what"], denial["target"]) == ("nested repository", "a b")
    subprocess.run(["sh", "-c", denial["fix"]], cwd=tree, check=True)
    assert (tree / "a b/.git/config").exists()


def test_only_existing_names(me, tree):
    """The look at the end is the same."""
    script = EVIL.format(mark=me.out / "canary") + "evil n; git init -q m"
    assert held(me, script, "--protect", "existing") == ["n"]
    assert (tree / "m/.git").is_dir()
