# SPDX-License-Identifier: Apache-2.0
"""Protected names: what would run on the host later does not change, and git does not notice."""

import os
import pathlib
import signal
import subprocess
import time

import pytest

from conftest import ceiling, needs

GIT_ENV = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip
PASS = [w for name in GIT_ENV for w in ("-e", name)]

# Names that run by themselves later: in a project, in a project if they exist, in a home directory.
# Level landlock cannot take a right away again further down and has no protected names at all,
# which the account of a run says (`protect` among what is missing).
NAMES = """.mcp.json .envrc .vscode/tasks.json .idea/workspace.xml .claude/settings.json .claude/commands/x
.cursor/mcp.json .codex/config.toml .gemini/settings.json .devcontainer/devcontainer.json
.devcontainer.json .zed/tasks.json .windsurf/rules .aider.conf.yml opencode.json .jj/repo/config.toml .hg/hgrc
.git/hooks/pre-commit .git/config .git/commondir""".split()
IF_PRESENT = ".gitmodules .ripgreprc .husky/pre-commit .pre-commit-config.yaml lefthook.yml".split()
HOME_NAMES = """.bashrc .bash_profile .bash_login .profile .zshrc .zprofile .zshenv .gitconfig .config/git/config .npmrc
.ssh/authorized_keys .local/bin/tool .cargo/bin/tool .cargo/config.toml .vimrc .xprofile .pam_environment
.bash_completion .claude.json .hgrc .cshrc .kshrc .login .docker/config.json go/bin/tool .claude/settings.json""".split()


def git(me, *args, **kw):
    return me.outside(["git", *args], env=GIT_ENV, **kw)


def inside(me, script, *opts, level=None, **kw):
    opts = ["-w", me.work, *PASS, *opts]
    return me.run(opts, ["bash", "-c", script], level, env=GIT_ENV, **kw)


@pytest.fixture(autouse=True)
def has_git():
    needs("git")


@pytest.fixture
def repo(me):
    assert git(me, "init", "-q", "-b", "main", ".").returncode == 0
    me.write(me.work / "file", "one\n")
    git(me, "add", "file", check=True)
    git(me, "commit", "-qm", "first", check=True)
    return me.work


def listing(top, skip=()):
    """Held directories may vanish meanwhile."""
    names = (
        os.path.relpath(os.path.join(place, name), top)
        for place, dirs, files in os.walk(top)
        for name in dirs + files
    )
    return sorted(name for name in names if not name.startswith(skip))


# --- git goes on working ---------------------------------------------------------------------------


def test_everyday_git(me, level, repo):
    script = """
set -e
[ -z "$(git status --porcelain)" ] || { git status --porcelain; exit 9; }
echo two >> file; git diff --quiet && exit 8
git add file; git commit -qm second
git branch topic; git checkout -q topic
echo new > new; git add -A; git commit -qm third
echo stash >> file; git stash -q; git stash pop -q; git checkout -q -- file
git checkout -q main; git merge -q topic; git tag v1; git log --oneline | wc -l
git ls-files; git gc -q 2>/dev/null || true; git fsck >/dev/null 2>&1
git worktree list >/dev/null
[ -z "$(git status --porcelain --ignored)" ]
"""
    done = inside(me, script, level=level)
    assert done.returncode == 0, done
    assert done.stdout.split() == [b"3", b"file", b"new"]
    assert git(me, "status", "--porcelain", "--ignored").stdout == b""
    assert git(me, "log", "--oneline").stdout.count(b"\n") == 3
    assert {os.lstat(p).st_uid for p in repo.rglob("*")} == {me.uid}


def test_add_all_adds_no_placeholder(me, level, repo):
    done = inside(
        me, "echo x > mine; git add -A && git commit -qm all && git ls-files", level=level
    )
    assert done.returncode == 0, done
    assert done.stdout.split() == [b"file", b"mine"]
    assert git(me, "ls-files").stdout.split() == [b"file", b"mine"]


def test_level_landlock_says_that_it_protects_nothing(me, repo):
    missing = me.receipt(["-w", repo], ["true"], "landlock")["isolation"]["missing"]
    assert "protect" in missing
    missing = me.receipt(["-w", repo], ["true"], "namespaces")["isolation"]["missing"]
    assert "protect" not in missing


def test_no_litter(me, level, repo):
    before = listing(repo)
    assert inside(me, "ls -A >/dev/null; true", level=level).returncode == 0
    assert listing(repo) == before
    assert git(me, "status", "--porcelain", "--ignored").stdout == b""


def test_no_litter_after_a_kill(me, level, repo):
    before = listing(repo)
    for moment in (0.001, 0.003, 0.006, 0.01, 0.02, 0.1, 0.2):
        proc = me.popen(me.argv(["-w", repo], ["sleep", "30"], level), stdin=subprocess.DEVNULL)
        time.sleep(moment)
        proc.send_signal(signal.SIGKILL)
        proc.wait()
        end = time.monotonic() + ceiling(2)
        while listing(repo) != before and time.monotonic() < end:
            time.sleep(0.02)
        assert listing(repo) == before, f"killed after {moment} s"


def test_two_runs_at_once(me, repo):
    """The first to end must not take the placeholders from under the other."""
    level = "namespaces"
    before = listing(repo)
    first = me.popen(me.argv(["-w", repo], ["sleep", "0.6"], level), stdin=subprocess.DEVNULL)
    time.sleep(0.2)
    second = me.popen(
        me.argv(["-w", repo], ["bash", "-c", "sleep 0.9; echo x > .mcp.json; echo x > .envrc; mkdir -p .vscode; echo x > .vscode/tasks.json; echo end"], level),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert first.wait(timeout=10) == 0
    out, err = second.communicate(timeout=10)
    assert out == b"end\n", err
    assert listing(repo) == before


# --- attacks ---------------------------------------------------------------------------------------

ATTACK = """
n={name}; d=$(dirname "$n")
mkdir -p "$d"
echo planted > "$n"
echo planted >> "$n"
rm -f "$n" && echo planted > "$n"
echo planted > tmp1 && mv -f tmp1 "$n"
ln -sf /tmp/planted "$n"
ln -f file "$n"
mkdir -p "$n" && echo planted > "$n/x"
mv "$n" moved1 && echo planted > "$n"
mkfifo "$n"
top=${{n%%/*}}
[ "$top" != "$n" ] && mv "$top" moved2 && mkdir -p "$d" && echo planted > "$n"
[ "$top" != "$n" ] && rm -rf "$top" && mkdir -p "$d" && echo planted > "$n"
python3 - "$n" <<'X'
import os, sys, ctypes
n = sys.argv[1]
libc = ctypes.CDLL(None)
open('tmp2', 'w').write('planted')
libc.renameat2(-100, b'tmp2', -100, n.encode(), 2)
try: os.chmod(n, 0o777)
except OSError: pass
try: os.truncate(n, 0)
except OSError: pass
X
rm -rf tmp1 tmp2 moved1 moved2
true
"""


def look(path):
    try:
        st = os.lstat(path)
    except OSError:
        return None
    if os.path.isdir(path) and not os.path.islink(path):
        return ("dir",)
    data = os.readlink(path) if os.path.islink(path) else pathlib.Path(path).read_bytes()
    return (st.st_mode, data)


def attack_all(me, top, names, exists):
    """Every name, one run each: create, overwrite, rename, link, replace the parent."""
    bad = []
    for name in names:
        path = top / name
        made = []
        if exists and not path.exists():
            for parent in reversed(path.relative_to(top).parents):
                if str(parent) != "." and not (top / parent).exists():
                    (top / parent).mkdir()
                    me.own(top / parent)
                    made.append(top / parent)
            me.write(path, "original\n")
            made.append(path)
        if not exists and path.exists():
            continue
        before = look(path)
        me.run(
            ["-w", top, "-C", top],
            ["bash", "-c", ATTACK.format(name=name)],
            "namespaces",
            cwd=str(top),
        )
        if look(path) != before:
            bad.append(f"{name}: {before} -> {look(path)}")
        first = top / name.split("/")[0]
        if not exists and first.name != ".git" and os.path.lexists(first):
            # Above a name that is kept from coming into being, a directory may be made.
            if not first.is_dir() or any(not p.is_dir() for p in first.rglob("*")):
                bad.append(f"{name}: {first} stayed")
            subprocess.run(["rm", "-rf", str(first)], check=False)
        for made_path in reversed(made):
            subprocess.run(["rm", "-rf", str(made_path)], check=False)
    return bad


@pytest.mark.parametrize("exists", [True, False], ids=["present", "absent"])
def test_protected_names(me, repo, exists):
    bad = attack_all(me, repo, NAMES + (IF_PRESENT if exists else []), exists)
    assert not bad, "\n" + "\n".join(bad)


@pytest.mark.parametrize("exists", [True, False], ids=["present", "absent"])
def test_protected_names_of_a_home_directory(me, exists):
    """The home directory itself granted for writing."""
    me.write(me.home / "file", "x")
    bad = attack_all(me, me.home, HOME_NAMES, exists)
    assert not bad, "\n" + "\n".join(bad)


def test_attack_control(me, repo):
    """Outside, the same script changes the name."""
    me.outside(["bash", "-c", ATTACK.format(name=".mcp.json")])
    assert look(repo / ".mcp.json") is not None


HOOKS = """
mkdir -p .git/hooks .git/info
for h in pre-commit post-commit post-checkout post-index-change fsmonitor-watchman reference-transaction; do
  printf '#!/bin/sh\\ntouch {mark}-hook-%s\\n' $h > .git/hooks/$h; chmod +x .git/hooks/$h
done
printf '#!/bin/sh\\ntouch {mark}-prog\\ncat\\n' > prog.sh; chmod +x prog.sh
P=$PWD/prog.sh
for kv in core.fsmonitor=$P core.hooksPath=$PWD/myhooks core.pager=$P core.editor=$P core.sshCommand=$P diff.external=$P \\
  filter.x.clean=$P filter.x.smudge=$P filter.x.process=$P merge.x.driver=$P gpg.program=$P commit.gpgSign=true \\
  core.attributesFile=$PWD/attrs include.path=$PWD/evil.cfg alias.status=!$P credential.helper=$P core.askPass=$P; do
  git config "${{kv%%=*}}" "${{kv#*=}}"; git config --local "${{kv%%=*}}" "${{kv#*=}}"
  git config --worktree "${{kv%%=*}}" "${{kv#*=}}"; git config --global "${{kv%%=*}}" "${{kv#*=}}"
done
for f in .git/config .git/config.worktree; do
  printf '[core]\\n\\tfsmonitor = %s\\n\\thooksPath = %s\\n' "$P" "$PWD/myhooks" >> $f
done
echo '* filter=x diff=x merge=x' > .git/info/attributes
echo '* filter=x diff=x merge=x' > .gitattributes
mkdir -p myhooks; cp .git/hooks/* myhooks/ 2>/dev/null; cp prog.sh myhooks/pre-commit
mv .git .git2 && cp -r .git2 .git && cp prog.sh .git/hooks/pre-commit
true
"""

# What would break the repository for the control as well.
BREAK = """
echo "gitdir: $PWD/evil" > .git
echo "$PWD/evil/.git" > .git/commondir
mkdir -p .git/modules .git/worktrees
git init -q evil; cp prog.sh evil/.git/hooks/pre-commit; git -C evil config core.fsmonitor $PWD/prog.sh
true
"""

# A repository of its own below the top, entered into the index as a submodule: git looks into it.
NESTED = """
printf '#!/bin/sh\\ntouch {mark}-nested\\n' > prog.sh; chmod +x prog.sh
git init -q nested; cd nested; git commit -q --allow-empty -m x; cd ..
git add nested; git commit -qm nested
git -C nested config core.fsmonitor $PWD/prog.sh
cp prog.sh nested/.git/hooks/post-index-change
true
"""


def test_nothing_planted_runs_later(me, level, repo):
    """After the attack the caller uses git in the tree: no canary program runs."""
    if level == "landlock":
        return  # see test_level_landlock_says_that_it_protects_nothing
    mark = me.out / "canary"
    inside(me, HOOKS.format(mark=mark) + BREAK, level=level)
    me.write(repo / "file", "changed\n")
    for args in (
        ["status"],
        ["diff"],
        ["add", "-A"],
        ["commit", "-qm", "later"],
        ["stash", "list"],
        ["log", "-1", "-p"],
        ["checkout", "-q", "-b", "x"],
    ):
        git(me, *args)
    ran = [p.name for p in me.out.iterdir()]
    assert ran == [], ran


def test_nothing_planted_control(me, repo):
    """Without the sandbox the same attack does run."""
    mark = me.out / "canary"
    me.outside(["bash", "-c", HOOKS.format(mark=mark)], env=GIT_ENV)
    me.write(repo / "file", "changed\n")
    for args in (["status"], ["diff"], ["add", "-A"], ["commit", "-qm", "later"]):
        git(me, *args)
    assert list(me.out.iterdir())


def test_nested_repository_made_inside(me, repo):
    """A repository that the command makes and enters into the index: `git status` of the caller at the
    top looks into it and obeys its config."""
    mark = me.out / "canary"
    done = inside(me, NESTED.format(mark=mark), level="namespaces")
    for args in (["status"], ["diff"], ["add", "-A"], ["commit", "-qm", "later"]):
        git(me, *args)
    ran = [p.name for p in me.out.iterdir()]
    assert ran == [], (ran, done.stderr)


def test_nested_repository_control(me, repo):
    me.outside(["bash", "-c", NESTED.format(mark=me.out / "canary")], env=GIT_ENV)
    git(me, "status")
    assert list(me.out.iterdir())


HELD = ".git.held-by-cordon"


def held(me, script, *opts):
    """The targets that a run of the script had to hold, from its receipt."""
    got = me.receipt(
        ["-w", me.work, *PASS, *opts], ["bash", "-c", script], "namespaces", env=GIT_ENV
    )
    assert got["kind"] == "exited", got
    aside = [d for d in got["denials"] if d["how"] == "enforced"]
    for denial in aside:
        assert denial["rule"] == "fs.protect" and denial["what"] in (
            "nested repository",
            "git index",
            "link in a repository",
            "file in a repository",
            "pipe in a work tree",
        )
    return [d["target"] for d in aside]


def nested(me, path, **kw):
    """A repository that the caller made outside."""
    git(me, "init", "-q", str(path), check=True)
    git(me, "-C", str(path), "commit", "-q", "--allow-empty", "-m", "x", check=True)


def test_nested_repository_is_said_and_can_be_kept(me, repo):
    script = NESTED.format(mark=me.out / "canary")
    got = me.receipt(
        ["-w", me.work, *PASS], ["bash", "-c", script], "namespaces", env=GIT_ENV
    )
    fix = f"mv nested/{HELD} nested/.git"
    assert got["denials"] == [
        {"what": "nested repository", "target": "nested", "rule": "fs.protect", "fix": fix, "how": "enforced"}
    ]
    assert me.outside(["sh", "-c", fix]).returncode == 0
    assert (repo / "nested" / ".git" / "HEAD").exists()
    # On the terminal; and again, since what it obeys changed once more.
    done = inside(me, "git -C nested config a.b c", level="namespaces")
    assert b"cordon: put aside 'nested/.git'" in done.stderr and fix.encode() in done.stderr
    me.outside(["sh", "-c", fix], check=True)
    done = inside(me, "git -C nested config a.b d", "-q", level="namespaces")
    assert done.stderr == b"" and (repo / "nested" / HELD).exists()


def test_nested_repository_in_two_runs(me, repo):
    """What an earlier run made, and the user took back, becomes dangerous when it is entered into the index."""
    script = NESTED.format(mark=me.out / "canary").replace("git add nested; git commit -qm nested", "")
    assert held(me, script) == ["nested"]
    me.outside(["mv", "nested/.git.held-by-cordon", "nested/.git"], check=True)
    assert held(me, "true") == []
    assert held(me, "git add nested") == ["nested"]
    git(me, "status")
    assert list(me.out.iterdir()) == []


def test_nested_repository_not_in_the_index_stays(me, repo):
    script = "git init -q sub/a; git clone -q . b 2>/dev/null; echo x > c; git add c; git commit -qm c"
    assert held(me, script) == []
    assert (repo / "sub" / "a" / ".git" / "HEAD").exists() and (repo / "b" / ".git" / "HEAD").exists()


def test_nested_repository_of_the_caller(me, repo):
    """It is used inside and stays; as soon as its config or a hook changes, it does not."""
    nested(me, repo / "own")
    git(me, "add", "own", check=True)
    git(me, "commit", "-qm", "own", check=True)
    git(me, "-C", str(repo / "own"), "config", "core.hooksPath", "hooks", check=True)
    git(me, "-C", str(repo / "own"), "config", "include.path", "../settings", check=True)
    use = "cd own; echo x > f; git add f; git commit -qm f; cd ..; git add own; git commit -qm up; git status"
    assert held(me, use) == []
    assert held(me, "true") == []
    for script in (
        "git -C own config core.fsmonitor /bin/false",
        "printf x > own/.git/hooks/post-commit",
        "printf '#!/bin/sh' >> own/.git/hooks/pre-commit.sample",
        "echo ../.git2 > own/.git/commondir",
        "mv own/.git own/g; echo 'gitdir: g' > own/.git",
        "mv own/.git own/g; ln -s g own/.git",
        "cp -a own/.git own/g; mv own/.git own/h; mv own/g own/.git",
        "mkdir own/hooks; echo > own/hooks/post-index-change",
        "echo > own/settings",
        "git -C own config a.b c; chmod 555 own; chmod 555 .git",
    ):
        keep = me.base / "keep"
        me.outside(["cp", "-a", repo, keep], check=True)
        assert held(me, script) == ["own"], script
        assert not os.path.lexists(repo / "own" / ".git"), script
        assert not git(me, "status").stderr, script
        me.outside(["chmod", "-R", "u+w", repo])
        subprocess.run(f"rm -rf {repo}/* {repo}/.git; cp -a {keep}/. {repo}; rm -rf {keep}", shell=True, check=True)


@pytest.mark.parametrize("how", ["ln -s /proc/self/cwd/evil", "echo gitdir: /proc/self/cwd/evil >"])
def test_nested_repository_by_way_of_proc(me, repo, how):
    """A path that leads somewhere only for the process that follows it."""
    mark = me.out / "canary"
    script = NESTED.format(mark=mark) + f"mv nested/.git evil; {how} nested/.git; cp -r evil nested/evil"
    assert held(me, script) == ["nested"]
    git(me, "status")
    assert list(me.out.iterdir()) == []


def test_empty_submodule_is_filled(me, repo):
    """A submodule that is only an empty directory: the index need not change."""
    nested(me, repo / "own")
    git(me, "add", "own", check=True)
    subprocess.run(["rm", "-rf", str(repo / "own" / ".git")], check=True)
    mark = me.out / "canary"
    fill = f"git init -q own; printf '#!/bin/sh\ntouch {mark}\n' > p; chmod +x p; git -C own commit -q --allow-empty -m x; git -C own config core.fsmonitor $PWD/p"
    assert held(me, fill) == ["own"]
    git(me, "status")
    assert list(me.out.iterdir()) == []


def test_nested_below_a_grant_in_a_repository(me, repo):
    """The grant is a directory of the work tree; the index above names what it contains."""
    (repo / "dir").mkdir()
    me.own(repo / "dir")
    nested(me, repo / "dir" / "own")
    nested(me, repo / "other")
    git(me, "add", "dir/own", "other", check=True)
    got = me.receipt(
        ["-w", repo / "dir", *PASS],
        ["git", "-C", "dir/own", "config", "a.b", "c"],
        "namespaces",
        env=GIT_ENV,
    )
    assert [d["target"] for d in got["denials"]] == ["dir/own"]
    assert (repo / "other" / ".git").exists()


@pytest.mark.parametrize("how", ["nested", "own", "GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME", "above"])
def test_hooks_that_other_configs_name(me, repo, how, monkeypatch):
    """A file that an included one includes, the user's own config wherever it is, a repository above the grant."""
    ran, hook = repo.parent / f"ran-{how}", repo / "dir" / "hooks" / "pre-commit"
    for path in (hook.parent.parent, hook.parent):
        path.mkdir()
        me.own(path)
    if how == "nested":
        git(me, "config", "include.path", "../dir/first", check=True)
        me.write(repo / "dir" / "first", "[include]\npath = second\n")
        me.write(repo / "dir" / "second", "[core]\nhooksPath = dir/hooks\n")
    elif how == "own":
        me.write(me.home / ".gitconfig", "[core]\nhooksPath = dir/hooks\n")
    elif how.isupper():
        place = me.out / "conf" / "git" / "config"
        for path in (place.parent.parent, place.parent):
            path.mkdir()
            me.own(path)
        me.write(place, "[core]\nhooksPath = dir/hooks\n")
        monkeypatch.setitem(GIT_ENV, how, str(place if how == "GIT_CONFIG_GLOBAL" else me.out / "conf"))
    else:
        git(me, "config", "core.hooksPath", "dir/hooks", check=True)
    plant = f"printf '#!/bin/sh\\n: > {ran}\\n' > {hook} && chmod 755 {hook}"
    grant = repo / "dir" if how == "above" else repo
    done = me.run(["-w", grant, *PASS], ["sh", "-c", plant], "namespaces", env=GIT_ENV)
    assert done.returncode != 0 and b"Read-only" in done.stderr, done
    for planted in (False, True):  # and outside, where it works
        if planted:
            me.outside(["sh", "-c", plant], check=True)
        git(me, "commit", "-q", "--allow-empty", "-m", "x", check=True)
        assert ran.exists() == planted
    ran.unlink()


def test_nested_in_a_submodule(me, repo):
    """An empty submodule of a submodule, whose index cannot be written to."""
    inner, outer = me.mkdir("inner"), me.mkdir("outer")
    allow = ["-c", "protocol.file.allow=always"]
    nested(me, inner)
    nested(me, outer)
    git(me, "-C", str(outer), *allow, "submodule", "add", "-q", str(inner), "deep", check=True)
    git(me, "-C", str(outer), "commit", "-qm", "deep", check=True)
    git(me, *allow, "submodule", "add", "-q", str(outer), "sub", check=True)
    git(me, "commit", "-qm", "sub", check=True)
    assert held(me, "git -C sub status; git status; git checkout -q -b x; echo y >> file; git commit -qam y") == []
    assert held(me, "git rm -q --cached sub; git commit -qm less; git add sub; git commit -qm more") == []
    assert (repo / "sub" / ".git").exists()
    assert held(me, "git init -q sub/deep; git -C sub/deep commit -q --allow-empty -m x") == ["sub/deep"]
    assert (repo / "sub" / ".git").exists() and (repo / "sub" / "deep" / HELD).exists()
    assert held(me, "rm sub/.git; git init -q sub; git -C sub commit -q --allow-empty -m x") == ["sub"]


def test_new_submodule(me, repo):
    """Its repository would come to lie below .git/modules, which does not exist and cannot be made."""
    nested(me, me.work / "other")
    script = "git -c protocol.file.allow=always submodule add -q ./other sub 2>&1 || { git clone -q --separate-git-dir=.git/modules/sub other sub; git add -f sub; }; ls -la sub; git ls-files -s"
    assert held(me, script) == []
    assert not os.path.lexists(repo / ".git" / "modules")
    assert b"sub" not in git(me, "ls-files").stdout
    assert held(me, "git clone -q other sub; git add -f sub") == ["sub"]


@pytest.mark.parametrize("how", ["2", "3", "4", "split", "split-replace"])
def test_index_formats(me, repo, how):
    script = "git init -q n; git -C n commit -q --allow-empty -m x; git init -q m; git -C m commit -q --allow-empty -m x;"
    if how == "3":
        script += "echo 1 > i; git add -N i; git add n m"
    elif how == "split":
        script += "git add n; git update-index --split-index; git add m"
    elif how == "split-replace":
        # The entry that replaces one of the shared index has no name of its own.
        script += "git add n m; git update-index --split-index; git -C n commit -q --allow-empty -m y; git add n"
    else:
        script += f"git update-index --index-version {how}; git add n m"
    assert sorted(held(me, script)) == ["m", "n"]


def test_sha256_repository(me):
    git(me, "init", "-q", "--object-format=sha256", ".", check=True)
    script = "git init -q --object-format=sha256 n; git -C n commit -q --allow-empty -m x; git add n"
    assert held(me, script) == ["n"]


@pytest.mark.parametrize(
    "script",
    [
        "echo DIRC > .git/index",
        "rm .git/index; mkfifo .git/index",
        "rm .git/index; mkdir .git/index",
        "truncate -s 300M .git/index",
        "rm .git/index; ln -s /dev/zero .git/index",
        "chmod 000 .git/index; chmod 500 .git",
    ],
)
def test_index_that_no_git_wrote(me, repo, script):
    """It is put aside, and nothing waits for it."""
    if me.uid == 0 and "chmod" in script:
        return  # root reads it all the same
    start = time.monotonic()
    assert held(me, script) == [".git/index"]
    assert time.monotonic() - start < ceiling(5)
    assert not os.path.lexists(repo / ".git" / "index")
    assert os.path.lexists(repo / ".git" / ".index.held-by-cordon")
    me.outside(["chmod", "-R", "u+rwX", repo])


def test_index_with_dots(me, repo):
    """Git uses the path of an entry as it stands."""
    script = """
mkdir -p a/bb; for n in n a/bb/n; do git init -q $n; git -C $n commit -q --allow-empty -m x; done; git add a/bb/n
python3 -c '
d = open(".git/index", "rb").read()
assert d.count(b"a/bb/n") == 1
open(".git/index", "wb").write(d.replace(b"a/bb/n", b"a/../n"))'"""
    assert held(me, script) == [".git/index"]


def test_sparse_index(me, repo):
    """A directory that is left out is one entry; what it contains is in a tree, not in the index."""
    (repo / "dir").mkdir()
    me.own(repo / "dir")
    me.write(repo / "dir" / "f", "x")
    git(me, "add", "dir", check=True)
    git(me, "commit", "-qm", "dir", check=True)
    git(me, "sparse-checkout", "set", "--cone", "--sparse-index", "none", check=True)
    assert b"sdir" in (repo / ".git" / "index").read_bytes() and not (repo / "dir").exists()
    assert held(me, "echo y >> file; git commit -qam y; git status; mkdir dir; echo x > dir/g") == []
    assert held(me, "git init -q dir/a/own; git -C dir/a/own commit -q --allow-empty -m x") == [
        "dir/a/own"
    ]


def test_index_behind_a_link(me, repo):
    script = "git init -q n; git -C n commit -q --allow-empty -m x; git add n; mv .git/index i; ln -s ../i .git/index"
    assert held(me, script) == [".git/index"]


def test_strange_names(me, repo):
    """Names that are nothing for a shell or a terminal."""
    script = r"""
for d in "a b" "-x" $'c\nd' "e'\$(touch z)" $'f\033[2J' .git.held-by-cordon; do
  git init -q "./$d"; git -C "./$d" commit -q --allow-empty -m x; mkdir "./$d/.git.held-by-cordon"; git add -- "./$d"
done; for i in 1 2 3 4 5 6 7 8 9; do git init -q n$i; git -C n$i commit -q --allow-empty -m x; git add n$i; done"""
    done = inside(me, script, level="namespaces")
    lines = [l for l in done.stderr.split(b"\n") if l.startswith(b"cordon: ")]
    assert len(lines) == 11 and lines[-1].startswith(b"cordon: and 5 more"), lines
    assert not any(b"\033" in line for line in lines)
    for fix in [l.decode().split("to keep it: ")[1] for l in lines[:-1]]:
        if "\\" not in fix.replace("'\\''", ""):
            assert me.outside(["sh", "-c", fix]).returncode == 0, fix
    assert not (repo / "z").exists() and (repo / "a b" / ".git" / "HEAD").exists()


def test_no_protect_leaves_nested_repositories(me, repo):
    assert held(me, NESTED.format(mark=me.out / "canary"), "--no-protect") == []
    assert (repo / "nested" / ".git").exists()


def test_worktree_pointer(me, repo):
    """A linked worktree: its .git file and the repository it points to are protected alike."""
    level = "namespaces"
    linked = me.base / "linked"
    git(me, "worktree", "add", "-q", str(linked), "-b", "side", check=True)
    pointer = (linked / ".git").read_text()
    script = f"echo 'gitdir: /tmp/evil' > .git; rm -f .git; mv .git x; echo x > {repo}/.git/hooks/pre-commit; echo x >> {repo}/.git/config; true"
    me.run(
        ["-w", linked, "-w", repo / ".git", "-C", linked],
        ["bash", "-c", script],
        level,
        env=GIT_ENV,
    )
    assert (linked / ".git").read_text() == pointer
    assert not (repo / ".git" / "hooks" / "pre-commit").exists()
    assert "x\n" != (repo / ".git" / "config").read_text()[-2:]


def test_init_at_the_top_is_refused(me):
    level = "namespaces"
    done = me.run(["-w", me.work], ["git", "init", "-q", "."], level, env=GIT_ENV)
    assert done.returncode != 0
    assert not (me.work / ".git").exists()
    assert b"Read-only file system" in done.stderr, done
    done = me.run(["-w", me.work, "--no-protect"], ["git", "init", "-q", "."], level, env=GIT_ENV)
    assert done.returncode == 0 and (me.work / ".git" / "HEAD").exists(), done


def test_init_elsewhere_works(me, level):
    """A repository in the private /tmp needs no flag."""
    done = me.run(
        [],
        [
            "sh",
            "-c",
            'cd "${TMPDIR:-/tmp}" && git init -q r && cd r && echo x > f && git add f && git -c user.name=a -c user.email=a@b commit -qm x && git log --oneline | wc -l',
        ],
        level,
    )
    assert done.stdout.strip() == b"1", done


def test_submodule(me, repo):
    """A real submodule, whose repository lies below .git/modules: its hooks and config stay."""
    other = me.mkdir("other")
    git(me, "init", "-q", str(other), check=True)
    git(me, "-C", str(other), "commit", "-q", "--allow-empty", "-m", "x", check=True)
    git(
        me,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        str(other),
        "sub",
        check=True,
    )
    git(me, "commit", "-qm", "sub", check=True)
    config = repo / ".git" / "modules" / "sub" / "config"
    before = config.read_bytes(), (repo / "sub" / ".git").read_text()
    script = """
echo x >> .git/modules/sub/config; echo x > .git/modules/sub/hooks/pre-commit; git -C sub config core.fsmonitor /bin/false
mv .git/modules .git/m2; mkdir -p .git/modules/sub; true
"""
    inside(me, script, level="namespaces")
    assert (config.read_bytes(), (repo / "sub" / ".git").read_text()) == before
    assert not (repo / ".git" / "modules" / "sub" / "hooks" / "pre-commit").exists()


def test_submodule_whose_config_names_files_of_its_tree(me, repo):
    """The config cannot be written, but what it names can."""
    other = me.mkdir("other")
    nested(me, other)
    git(me, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub", check=True)
    git(me, "commit", "-qm", "sub", check=True)
    git(me, "-C", str(repo / "sub"), "config", "core.hooksPath", "hooks", check=True)
    assert held(me, "echo x > sub/f; git -C sub status; git -C sub rm --cached x") == []
    assert held(me, "mkdir sub/hooks; echo > sub/hooks/post-index-change") == ["sub"]
    assert (repo / "sub" / HELD).exists()


FOLLOW = """
rm -rf .git/logs; mkdir .git/logs; ln -s {target} .git/logs/HEAD
ln -s {target} .git/COMMIT_EDITMSG.new; mv .git/COMMIT_EDITMSG.new .git/COMMIT_EDITMSG
mkdir -p .git/logs/refs/heads; ln -s {target} .git/logs/refs/heads/main
ln -s {target} .git/ORIG_HEAD
git symbolic-ref HEAD 'refs/heads/x;touch$IFS.canary;'
"""


def test_links_that_git_would_write_through(me, repo):
    """A reflog that is a link makes the caller's git append to whatever file it leads to."""
    target = me.write(me.out / "rc", "precious\n")
    script = FOLLOW.format(target=target)
    got = me.receipt(["-w", "."], ["sh", "-c", script], "namespaces")
    assert {d["what"] for d in got["denials"]} == {"link in a repository"}, got
    for args in (["checkout", "-q", "-b", "later"], ["commit", "-q", "--allow-empty", "-m", "y"]):
        git(me, *args)
    assert target.read_text() == "precious\n"
    me.outside(["sh", "-c", script])
    for args in (["checkout", "-q", "-b", "again"], ["commit", "-q", "--allow-empty", "-m", "y"]):
        git(me, *args)
    assert target.read_text() != "precious\n", "positive control"
