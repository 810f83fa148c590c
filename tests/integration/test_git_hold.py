# SPDX-License-Identifier: Apache-2.0
"""Protected names whose place, kind or way there the command tries to change: what git and shells on
the host obey stays what it was. Each attack is also made without a sandbox, where it works."""

import os
import pathlib
import subprocess
import time

import pytest

from conftest import needs

GIT_ENV = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip
PASS = [w for name in GIT_ENV for w in ("-e", name)]

# Every attack is a list of scripts, one run each, after which git is used in the tree. $P is a program
# that leaves a mark, $D a directory of hooks that do. "evil" writes a config that runs it.
PRELUDE = """
mkdir -p "$PWD/payload/hooks"
P=$PWD/payload/prog D=$PWD/payload/hooks
printf '#!/bin/sh\\ntouch {mark}\\n' > "$P"; chmod 755 "$P"
for h in post-index-change pre-commit post-checkout; do cp "$P" "$D/$h"; done
evil() {{ printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = %s\\n\\tfsmonitor = %s\\n\\thooksPath = %s\\n' "$PWD" "$P" "$D" >> "$1"; }}
bare() {{ mkdir -p "$1/objects" "$1/refs"; echo ref: refs/heads/main > "$1/HEAD"; evil "$1/config"; }}
common() {{ echo "[extensions] worktreeConfig = true" >> evil/config; evil config.worktree; }}
"""

ATTACKS = {
    # The top looks like a bare repository, so that .git in it is not thought of.
    "bare beside": ["echo ref: refs/heads/main > HEAD; mkdir objects", "evil .git/config"],
    "bare complete": ["bare .; rm config", "evil .git/config"],
    # Git falls back to the top when .git is no repository any more.
    "no HEAD": ["mv .git/HEAD .git/H; bare ."],
    "no HEAD, two runs": ["bare .; rm -f config", "rm .git/HEAD; rm -f config; evil config"],
    "bad HEAD": ["echo x > .git/HEAD; bare ."],
    "no objects": ["mv .git/objects o; bare ."],
    "no refs": ["mv .git/refs r; bare ."],
    "links": ["mv .git/HEAD h; bare evil; cp evil/HEAD HEAD; for n in objects refs config; do ln -s evil/$n $n; done"],
    "commondir": ["mv .git/HEAD h; bare evil; common; echo evil > commondir; cp evil/HEAD HEAD"],
    "commondir link": ["mv .git/HEAD h; bare evil; common; echo evil > c; ln -s c commondir; cp evil/HEAD HEAD"],
    # A run that cannot look at it must not go without.
    "closed": ["chmod 000 .git", "chmod 755 .git; evil .git/config"],
    "not searchable": ["chmod 600 .git", "chmod 755 .git; evil .git/config"],
    "not writable": ["chmod 555 .git", "chmod 755 .git; bare evil; echo ../evil > .git/commondir"],
    "top not writable": ["chmod 555 .", "chmod 755 .; mv .git/HEAD h; bare ."],
    # Submodules of which none was there.
    "modules": [
        "git init -q sub; git -C sub commit -q --allow-empty -m x; git add sub; mkdir .git/modules && mv sub/.git .git/modules/sub"
        " && echo gitdir: ../.git/modules/sub > sub/.git; (cd sub && evil ../.git/modules/sub/config)"
    ],
}  # fmt: skip


def script(me, text):
    return ["bash", "-c", PRELUDE.format(mark=me.out / "mark") + text + "\ntrue"]


def git(me, *args, **kw):
    return me.outside(["git", *args], env=GIT_ENV, **kw)


def use_git(me, cwd=None):
    """What the caller does later. Returns whether a planted program ran."""
    place = str(cwd or me.work)
    me.outside(["sh", "-c", "echo more >> file"], cwd=place)
    for args in (["status"], ["diff"], ["add", "file"], ["commit", "-qm", "later"], ["checkout", "-q", "-b", "x"]):
        print(git(me, *args, cwd=place))  # for when it fails
    return (me.out / "mark").exists()


@pytest.fixture(autouse=True)
def has_git():
    needs("git")


@pytest.fixture
def repo(me):
    me.outside(["sh", "-c", "git init -q -b main . && echo one > file && git add file && git commit -qm first"],
               env=GIT_ENV, check=True)  # fmt: skip
    return me.work


def attack(me, scripts, sandboxed, grant=None):
    """In the grant, which is all of the tree unless it is said otherwise."""
    grant = grant or me.work
    for text in scripts:
        if sandboxed:
            me.run(["-w", grant, "-C", grant, *PASS], script(me, text), "namespaces", env=GIT_ENV)
        else:
            me.outside(script(me, text), env=GIT_ENV, cwd=str(grant))


@pytest.mark.parametrize("name", ATTACKS)
def test_git_obeys_nothing_new(me, repo, name):
    attack(me, ATTACKS[name], True)
    assert not use_git(me), name


@pytest.mark.parametrize("name", ATTACKS)
def test_git_obeys_nothing_new_control(me, repo, name):
    attack(me, ATTACKS[name], False)
    assert use_git(me), name


@pytest.mark.parametrize("mode", ["000", "600", "555"])
def test_closed_repository_is_an_error_with_the_remedy(me, repo, mode):
    """Root can look and protects as always."""
    me.outside(["chmod", mode, ".git"], check=True)
    done = me.run(["-w", "."], ["touch", "ran"], "namespaces")
    if me.uid == 0:
        assert done.returncode == 0, done
        return
    assert done.returncode == 125 and not (repo / "ran").exists(), done
    assert done.stderr.count(b"cordon: ") <= 2 and b"chmod u+" in done.stderr, done
    assert str(repo / ".git").encode() in done.stderr and b"permission denied" in done.stderr, done
    assert me.run(["-w", ".", "--no-protect"], ["true"], "namespaces").returncode == 0
    me.outside(["chmod", "755", ".git"], check=True)
    assert me.run(["-w", "."], ["true"], "namespaces").returncode == 0


def test_git_does_not_notice(me, repo):
    """With all the placeholders there, inside and for the caller meanwhile."""
    everyday = """
set -e
[ -z "$(git status --porcelain --ignored)" ]
git diff HEAD; git log --oneline HEAD >/dev/null; git reset -q HEAD; git diff refs/heads/main
echo {0} >> file; git add -A; git commit -qm {0}; git checkout -q -b {0}; git branch -d {0} 2>/dev/null || true
echo {0} >> file; git stash -q; git stash pop -q; git checkout -q -- file; git tag {0}
git gc -q; git fsck; git repack -adq; git pack-refs --all; git prune; git maintenance run --quiet
git worktree list; git worktree prune; git submodule status; git clean -qfx; git ls-files
[ -z "$(git status --porcelain --ignored)" ]
"""
    run = me.popen(
        me.argv(["-w", ".", *PASS], ["sh", "-c", everyday.format("in") + "echo done; read x"], "namespaces"),
        env=GIT_ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    while True:
        line = run.stdout.readline()
        assert line, run.stderr.read()
        if line == b"done\n":
            break
    assert (repo / "refs").is_socket() and (repo / ".git" / "worktrees").is_socket()
    done = me.outside(["sh", "-c", everyday.format("out")], env=GIT_ENV)
    assert done.returncode == 0, done
    run.communicate(b"\n", timeout=20)
    assert run.returncode == 0
    assert sorted(p.name for p in repo.iterdir()) == [".git", "file"]
    assert git(me, "worktree", "add", "-q", str(me.base / "tree"), check=True).returncode == 0


def test_below_the_top_of_a_work_tree(me, repo):
    """A grant inside the work tree: `git diff HEAD` is not ambiguous there."""
    me.outside(["mkdir", "dir"], check=True)
    use = "cd dir; git diff HEAD && git log --oneline HEAD && git status -s"
    done = me.run(["-r", ".", "-w", "dir", *PASS], ["sh", "-c", use], "namespaces", env=GIT_ENV)
    assert done.returncode == 0, done
    for sandboxed in (True, False):
        attack(me, ["bare ."], sandboxed, repo / "dir")
        assert use_git(me, repo / "dir") != sandboxed


def test_bare_repository(me, repo):
    """It is used as usual, and what it obeys stays."""
    bare = me.base / "r.git"
    git(me, "clone", "-q", "--bare", str(repo), str(bare), check=True)
    use = "git push -q {0} HEAD:refs/heads/other && git -C {0} log --oneline other && git -C {0} gc -q && git -C {0} branch -D other"
    done = me.run(["-w", bare, "-r", repo, *PASS], ["sh", "-c", use.format(bare)], "namespaces", env=GIT_ENV)
    assert done.returncode == 0, done
    text = "P=$PWD/prog; cd {0}; rm -f hooks/*; git config core.fsmonitor x; echo x >> config; mkdir .git worktrees modules; echo x > .git; echo x > commondir"
    done = me.run(["-w", bare, "-w", repo], script(me, text.format(bare)), "namespaces", env=GIT_ENV)
    assert git(me, "-C", str(bare), "config", "core.fsmonitor").returncode == 1
    assert (bare / "hooks" / "pre-commit.sample").exists()
    assert not {".git", "worktrees", "modules", "commondir"} & set(os.listdir(bare)), done


def test_links_in_a_bare_repository(me, repo):
    """Git would write through them. Using it as usual leaves nothing behind."""
    bare, target = me.base / "r.git", me.write(me.out / "rc")
    git(me, "clone", "-q", "--bare", str(repo), str(bare), check=True)
    use = f"git push -q {bare} HEAD:refs/heads/other && git -C {bare} gc -q && git -C {bare} tag t"
    got = me.receipt(["-w", bare, "-r", repo, *PASS], ["sh", "-c", use], "namespaces", env=GIT_ENV)
    assert got["status"] == 0 and got["denials"] == [], got
    plant = ["sh", "-c", f"cd {bare}; rm -f packed-refs; ln -s {target} packed-refs"]
    for sandboxed in (True, False):
        if sandboxed:
            assert me.receipt(["-w", bare], plant, "namespaces")["denials"]
        else:
            me.outside(["sh", "-c", f"rm -rf {bare}; git clone -q --bare {repo} {bare}"], env=GIT_ENV, check=True)
            me.outside(plant, check=True)
        git(me, "-C", str(bare), "update-ref", "refs/heads/new", git(me, "rev-parse", "HEAD").stdout.decode().strip())
        git(me, "-C", str(bare), "pack-refs", "--all")
        assert (target.read_text() == "") == sandboxed


# --- on the way --------------------------------------------------------------------------------------

WAYS = {
    # How the caller has it, and what the command does.
    "middle link": (
        "mkdir -p real/hooks; ln -s real mid; ln -s mid/hooks first; git config core.hooksPath first",
        "rm mid; mkdir -p fake; ln -s $D fake/hooks; ln -s fake mid",
    ),
    "middle directory": (
        "mkdir -p a/real/hooks; ln -s a/real first; git config core.hooksPath first/hooks",
        "mv a b; mkdir -p a/real; ln -s $D a/real/hooks",
    ),
    "left again": (
        "mkdir -p a/b hooks; git config core.hooksPath a/b/../../hooks",
        "mv a c; mkdir -p x/y/b; ln -s x/y a; ln -s $D x/hooks",
    ),
    "nothing there yet": ("ln -s nowhere first; git config core.hooksPath first", "ln -s $D nowhere"),
    "a file on the way": ("echo > f; git config core.hooksPath f/hooks", "rm f; mkdir f; ln -s $D f/hooks"),
    "a hook that is a link": (
        "mkdir -p .git/hooks tools; printf '#!/bin/sh\\n' > tools/hook; chmod 755 tools/hook; ln -s ../../tools/hook .git/hooks/pre-commit",
        "cp $P tools/hook",
    ),
    "a hook that is a link to nothing": (
        "mkdir -p .git/hooks; ln -s ../../tools/hook .git/hooks/pre-commit",
        "mkdir tools; cp $P tools/hook",
    ),
    ".git over links": ("mv .git real.git; ln -s real.git mid; ln -s mid .git", "cp -r real.git other; evil other/config; rm mid; ln -s other mid"),
    ".git file over a link": (
        "mv .git store; ln -s . here; echo gitdir: here/store > .git",
        "mkdir x; cp -r store x/store; evil x/store/config; rm here; ln -s x here",
    ),
    "config over a link": (
        "mkdir cfg; echo > cfg/c; ln -s cfg l; git config include.path ../l/c",
        "mkdir x; evil x/c; rm l; ln -s x l",
    ),
    "a filter in the tree": (
        "mkdir tools; printf '#!/bin/sh\\ncat\\n' > tools/f; chmod 755 tools/f; git config filter.x.clean 'sh ./tools/f %f'; echo 'file filter=x' > .gitattributes",
        "cp $P tools/f; mv tools t2; mkdir tools; cp $P tools/f",
    ),
    "a monitor in the tree": (
        "printf '#!/bin/sh\\nexit 1\\n' > mon; chmod 755 mon; git config core.fsmonitor ./mon",
        "cp $P mon; rm -f mon; cp $P mon",
    ),
    "an unreadable config": (
        "mkdir cfg; printf '[core]\\nhooksPath = cfg/hooks\\n' > cfg/c; mkdir cfg/hooks; chmod 000 cfg/c; git config include.path ../cfg/c",
        "cp $D/* cfg/hooks",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
def test_the_way_stays(me, repo, name):
    me.outside(["sh", "-c", WAYS[name][0]], env=GIT_ENV, check=True)
    time.sleep(0.05)  # a link in .git that is as young as the run could be the run's
    for sandboxed in (True, False):  # and outside, where it works
        attack(me, [WAYS[name][1]], sandboxed)
        me.outside(["sh", "-c", "chmod 644 cfg/c 2>/dev/null"])
        assert use_git(me) != sandboxed, name


def test_repository_above_the_one_in_the_grant(me, repo):
    """Its config names hooks in the grant. Git looks there as soon as the one inside is none."""
    setup = "git config core.hooksPath dir/hooks; mkdir dir; cd dir; git init -q .; mkdir hooks"
    me.outside(["sh", "-c", setup], env=GIT_ENV, check=True)
    for sandboxed in (True, False):
        attack(me, ["cp $D/* hooks; rm -f .git/HEAD"], sandboxed, repo / "dir")
        assert use_git(me, repo / "dir") != sandboxed


def test_git_directory_that_is_no_repository(me, repo):
    """Git passes over it and goes up."""
    me.outside(["sh", "-c", "git config core.hooksPath dir/hooks; mkdir -p dir/.git dir/hooks"], env=GIT_ENV, check=True)
    for sandboxed in (True, False):
        attack(me, ["cp $D/* hooks"], sandboxed, repo / "dir")
        assert use_git(me, repo / "dir") != sandboxed


def test_git_file_that_leads_nowhere(me):
    """What it names cannot be made."""
    me.write(me.work / ".git", "gitdir: store\n")
    for sandboxed in (True, False):
        attack(me, ["bare store"], sandboxed)
        assert use_git(me) != sandboxed


def test_project_names_over_links(me):
    for name in (".vscode", ".claude", ".husky"):
        me.outside(["sh", "-c", f"mkdir -p real{name}; ln -s real{name} mid{name}; ln -s mid{name} {name}; echo old > {name}/f"], check=True)
    me.outside(["sh", "-c", "mkdir .cursor other; echo old > other/f; ln -s ../other/f .cursor/f"], check=True)
    names = [me.work / n / "f" for n in (".vscode", ".claude", ".husky", ".cursor")]
    change = """for n in .vscode .claude .husky; do echo new > $n/f; rm -f mid$n; mkdir x$n; echo new > x$n/f; ln -s x$n mid$n
mv real$n y$n; mkdir real$n; echo new > real$n/f; done; echo new > other/f; mv other other2; mkdir other; echo new > other/f"""
    for sandboxed, want in ((True, "old\n"), (False, "new\n")):
        attack(me, [change], sandboxed)
        assert [n.read_text() for n in names] == [want] * 4


# --- the home directory ------------------------------------------------------------------------------

HOME = """
cd {home}; mkdir -p dotfiles/fish dotfiles/local/bin dotfiles/vim .config .ssh; cd dotfiles
for f in bashrc gitconfig sshconfig fish/config local/bin/tool vim/vimrc gc; do echo old > $f; done; printf '[a]\\nb = old\\n' > gitconfig; cp gitconfig gc
cd ..; ln -s dotfiles/bashrc .bashrc; ln -s dotfiles/gitconfig .gitconfig; ln -s ../dotfiles/sshconfig .ssh/config
ln -s ../dotfiles/fish .config/fish; ln -s dotfiles/local .local; ln -s dotfiles/vim mid; ln -s mid .vim; ln -s dotfiles/zshenv .zshenv
mkdir .config/git; ln -s ../../dotfiles/gc .config/git/config
"""
HOME_LINKS = ".bashrc .gitconfig .ssh/config .config/fish/config .local/bin/tool .vim/vimrc .config/git/config .zshenv".split()
HOME_CHANGE = """
cd {home}/dotfiles; for f in bashrc gitconfig sshconfig fish/config local/bin/tool vim/vimrc zshenv gc; do
  mkdir -p $(dirname $f); printf '[a]\\nb = new\\n' > $f; rm -f $f; printf '[a]\\nb = new\\n' > $f
  d=$(dirname $f); [ $d = . ] || {{ mv ${{f%%/*}} old.$$; mkdir -p $d; printf '[a]\\nb = new\\n' > $f; rm -rf old.$$; }}
done
echo fine > other; mkdir -p sub; echo fine > sub/other
"""


def read(path):
    try:
        return pathlib.Path(path).read_text().split()[-1]
    except FileNotFoundError:
        return None


def test_names_of_the_home_directory_that_are_links(me):
    """Settings kept in a directory of their own, which is granted."""
    me.outside(["sh", "-c", HOME.format(home=me.home)], check=True)
    dotfiles = me.home / "dotfiles"
    for sandboxed in (True, False):
        (dotfiles / "other").unlink(missing_ok=True)
        run = ["bash", "-c", HOME_CHANGE.format(home=me.home)]
        if sandboxed:
            me.run(["-w", dotfiles], run, "namespaces")
        else:
            me.outside(run)
        got = {n: read(me.home / n) for n in HOME_LINKS}
        want = {n: None if n == ".zshenv" else "old" for n in HOME_LINKS} if sandboxed else dict.fromkeys(HOME_LINKS, "new")
        assert got == want
        assert read(dotfiles / "other") == read(dotfiles / "sub" / "other") == "fine"


def test_home_directory_with_links_in_it(me):
    """All of it is granted, and the links as well."""
    me.outside(["sh", "-c", HOME.format(home=me.home)], check=True)
    change = HOME_CHANGE + "cd ..; for l in .local mid .vim; do rm -f $l && mkdir -p $l/bin && printf '[a] new' | tee $l/bin/tool > $l/vimrc; done"
    me.run(["-w", me.home], ["bash", "-c", change.format(home=me.home)], "namespaces")
    assert {n: read(me.home / n) for n in HOME_LINKS} == {n: None if n == ".zshenv" else "old" for n in HOME_LINKS}


def test_grant_of_what_a_link_leads_to(me):
    """Granted by its own name it can be written: the caller means it."""
    me.outside(["sh", "-c", HOME.format(home=me.home)], check=True)
    done = me.run(["-w", me.home / "dotfiles" / "fish"], ["sh", "-c", f"echo new > {me.home}/dotfiles/fish/config"], "namespaces")
    assert done.returncode == 0 and read(me.home / ".config" / "fish" / "config") == "new", done


def test_unknown_user_in_a_git_config(me, repo):
    """Git would give up as well; nothing is passed over."""
    git(me, "config", "include.path", "~nobody-knows-him/x", check=True)
    done = me.run(["-w", "."], ["true"], "namespaces")
    assert done.returncode == 125 and b"~nobody-knows-him/x" in done.stderr, done
