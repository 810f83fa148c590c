# SPDX-License-Identifier: Apache-2.0
"""What a hostile guest, or another sandbox at work in the base, tries against a commit."""

import json
import os
import subprocess
import threading

import pytest

from workspacelib import Desk, assert_same, picture, settle_clock, store, tree

PROJECT = {
    "file": "text\n", "big": "old\n", "sub/inner": "inner\n", "sub/deep/leaf": "leaf\n", "gone": "x\n",
    "bare/HEAD": "ref: refs/heads/main\n", "bare/objects": None, "bare/config": "[core]\n",
}  # fmt: skip


@pytest.fixture
def desk(me, level):
    base = tree(me, me.mkdir("base"), PROJECT)
    settle_clock(base)
    return Desk(me, level, base)


def _refused(desk, *words):
    """Commits; the paths that were refused, and nothing of theirs is in the base."""
    done = desk.verb("commit", "--json", *words)
    assert done.returncode in (0, 1), done
    got = json.loads(done.stdout)
    return {c["path"] for c in got["changes"] if c["outcome"] == "refused"}


# --- names ---------------------------------------------------------------------------------------------


def test_false_repository(desk):
    """HEAD and objects in a directory do not make the other names in it harmless."""
    desk.run(
        "echo x > HEAD; mkdir objects; echo x > objects/x; echo x > .envrc; mkdir -p .git/hooks .claude; "
        "echo x > .git/hooks/pre-commit; echo x > .claude/settings.json; echo x > bare/config; echo fine > file",
        "--name", "w",
    )  # fmt: skip
    bad = {"HEAD", ".envrc", ".git/hooks/pre-commit", ".claude/settings.json", "bare/config"}
    assert _refused(desk, "w") == bad
    assert desk.text("file") == "fine\n" and desk.text("bare/config") == "[core]\n"
    assert not any((desk.base / path).exists() for path in bad - {"bare/config"})


def test_links_through_links(desk):
    """Each of them stays in the directory by its text; one through the other does not."""
    desk.run(
        "ln -s . here; ln -s here/../secret out; mkdir -p p/q; ln -s ../.. p/q/top; ln -s p/q/top/.. up; "
        "ln -s ../file sub/fine",
        "--name", "w",
    )  # fmt: skip
    assert _refused(desk, "w") == {"out", "up"}
    assert os.readlink(desk.base / "sub/fine") == "../file" and not os.path.lexists(desk.base / "out")


def _git(desk, *words):
    done = desk.me.outside(["git", "-c", "init.defaultBranch=main", *words], cwd=str(desk.base))
    assert done.returncode == 0, done


@pytest.mark.parametrize("how", ["hooksPath", "missing", "link", "include", "nested", "included-hooks", "own", "no-repository"])
def test_what_the_config_obeys(desk, how):
    """The user's own config makes git run files of the tree: those are like hooks."""
    if how != "no-repository":
        _git(desk, "init", "-q", ".")
    path = "tools/hooks/pre-commit"
    if how == "no-repository":
        path = "tools/settings"
        _git(desk, "config", "--global", "include.path", str(desk.base / "tools/settings"))
    elif how == "include":
        path = "tools/settings"
        _git(desk, "config", "include.path", "../tools/settings")
    elif how == "nested":
        path = "tools/more/settings"
        _git(desk, "config", "include.path", "../tools/first")
        tree(desk.me, desk.base, {"tools/first": "[include]\npath = more/settings\n"})
    elif how == "included-hooks":
        _git(desk, "config", "include.path", "../tools/first")
        tree(desk.me, desk.base, {"tools/first": "[core]\nhooksPath = tools/hooks\n"})
    elif how == "link":
        desk.me.outside(["rm", "-rf", desk.base / ".git/hooks"])
        tree(desk.me, desk.base, {".git/hooks": ("link", "../tools/hooks")})
    else:
        _git(desk, "config", *(["--global"] if how == "own" else []), "core.hooksPath", "tools/hooks")
    if how != "missing":
        tree(desk.me, desk.base, {path: "old\n"})
    settle_clock(desk.base)
    desk.run(f"mkdir -p tools/hooks; echo evil > {path}; echo new > other", "--name", "w")
    assert _refused(desk, "w") == {path}
    assert not (desk.base / path).exists() if how == "missing" else desk.text(path) == "old\n"
    assert desk.text("other") == "new\n"
    desk.ok("commit", "w", path)
    assert desk.text(path) == "evil\n"


@pytest.mark.parametrize("how", ["on the way", "passed before", "submodule"])
def test_what_nested_repositories_obey(desk, how):
    """The config of a repository further down names its hooks: those are hooks, wherever they lie."""
    path = {"on the way": "sub/zz/hooks/pre-commit", "passed before": "aa/pre-commit", "submodule": "aa/pre-commit"}[how]
    where = os.path.dirname(desk.base / path)
    if how == "submodule":
        _git(desk, "init", "-q", ".")
        tree(desk.me, desk.me.mkdir("lib"), {"x": "x\n"})
        lib = str(desk.base.parent / "lib")
        for words in (["init", "-q", lib], ["-C", lib, "add", "."], ["-C", lib, *ME, "commit", "-q", "-m", "x"]):
            _git(desk, *words)
        _git(desk, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "mod")
        _git(desk, "-C", "mod", "config", "core.hooksPath", where)
    else:
        _git(desk, "init", "-q", "sub")
        _git(desk, "-C", "sub", "config", "core.hooksPath", where)
    tree(desk.me, desk.base, {path: "old\n"})
    settle_clock(desk.base)
    desk.run(f"echo evil > {path}; echo new > other; {'' if how == 'submodule' else 'echo new > sub/inner'}", "--name", "w")
    assert _refused(desk, "w") == {path}
    assert desk.text(path) == "old\n" and desk.text("other") == "new\n"
    desk.ok("commit", "w", path)
    assert desk.text(path) == "evil\n"


HOOK = ".git/hooks/post-checkout"


def _hooked(desk, base):
    """Whether the host's next commit makes a hook of the guest's link."""
    assert desk.me.outside(["git", *ME, "commit", "-q", "--allow-empty", "-m", "x"], cwd=str(base)).returncode == 0
    return (base / HOOK).exists()


ME = ["-c", "user.name=x", "-c", "user.email=x@x"]
LINKS = {
    "reflog": ("logs/HEAD", "../hooks/post-checkout"),
    "directory": ("logs", "hooks"),
    "branch": ("refs/heads/other", "../../hooks/post-checkout"),
    "index": ("index", "hooks/post-checkout"),
    "head": ("HEAD", "hooks/post-checkout"),
}


@pytest.mark.parametrize("how", LINKS)
def test_links_in_a_repository(desk, how):
    """Git writes through links in its own directory. They are never taken along unnamed."""
    name, target = LINKS[how]
    make = f"mkdir -p .git/hooks .git/$(dirname {name}); rm -rf .git/{name}; ln -s {target} .git/{name}; echo new > file"
    _git(desk, "init", "-q", ".")
    _git(desk, *ME, "commit", "-q", "--allow-empty", "-m", "first")
    if how == "reflog":
        # outside: the same link works
        other = desk.me.mkdir("other")
        assert desk.me.outside(["cp", "-a", f"{desk.base}/.", str(other)]).returncode == 0
        assert desk.me.outside(["sh", "-c", make], cwd=str(other)).returncode == 0
        assert _hooked(desk, other)
    settle_clock(desk.base)
    desk.run(make, "--name", "w")
    assert f".git/{name}" in _refused(desk, "w")
    assert desk.text("file") == "new\n" and not os.path.islink(desk.base / ".git" / name)
    assert not _hooked(desk, desk.base)


def test_unknown_names_in_a_repository(desk):
    """Only what git is known to keep comes along, and only as plain files with sound content."""
    _git(desk, "init", "-q", ".")
    _git(desk, *ME, "commit", "-q", "--allow-empty", "-m", "first")
    _git(desk, "init", "-q", "--bare", "bare.git")
    settle_clock(desk.base)
    desk.run(
        "cd .git; mkdir -p remotes rebase-merge; echo x > remotes/origin; echo x > other; "
        "rm -f COMMIT_EDITMSG; mkfifo COMMIT_EDITMSG; echo 'ref: ../config' > HEAD; "
        "echo 'exec evil' > rebase-merge/git-rebase-todo; echo msg > MERGE_MSG; "
        "cd ../bare.git; mkdir -p logs/refs; ln -s ../hooks/x logs/HEAD; echo x > other; echo ref > packed-refs",
        "--name", "w",
    )  # fmt: skip
    assert _refused(desk, "w") == {
        ".git/remotes/origin", ".git/other", ".git/COMMIT_EDITMSG", ".git/HEAD",
        ".git/rebase-merge/git-rebase-todo", "bare.git/logs/HEAD", "bare.git/other",
    }  # fmt: skip
    assert desk.text(".git/HEAD").startswith("ref: refs/heads/")
    assert desk.text(".git/MERGE_MSG") == "msg\n" and desk.text("bare.git/packed-refs") == "ref\n"


# --- interruptions -------------------------------------------------------------------------------------


def _interrupted(desk, *paths):
    """A commit that ends half way: the file is larger than the process may write."""
    words = ["prlimit", "--fsize=65536", desk.me.cordon, "workspace", "commit", "w", *paths]
    done = desk.me.outside(words, cwd=str(desk.base))
    assert done.returncode != 0, done
    assert desk.json("status", "w")["commit_begun"], "it ended before it began"


@pytest.mark.parametrize("how", ["link", "file", "same"])
def test_a_name_counts_for_what_it_was_given_for(desk, how):
    """A commit with names is interrupted, and a run makes something else of what was named."""
    hook = "sub/.envrc"
    desk.run(f"head -c 300000 /dev/zero > big; echo looked at > {hook}", "--name", "w")
    _interrupted(desk, "big", hook)
    if how == "link":
        desk.run(f"rm {hook}; ln -s /etc/passwd {hook}", "--name", "w")
    elif how == "file":
        # the same inode, size and times
        desk.run(f"touch -r {hook} t; printf 'evil hook\\n' > {hook}; touch -r t {hook}; rm t", "--name", "w")
    assert _refused(desk, "w", "big", hook) == (set() if how == "same" else {hook})
    assert (desk.base / "big").stat().st_size == 300000
    if how == "same":
        assert desk.text(hook) == "looked at\n"
    else:
        assert not os.path.lexists(desk.base / hook)
        # named again, now that it can be looked at
        desk.ok("commit", "w", hook)
        assert os.path.lexists(desk.base / hook)


def test_run_after_interruption(desk):
    """What was chosen was a plain file; what a later run makes of it was not."""
    desk.run("head -c 300000 /dev/zero > big; echo new > file", "--name", "w")
    _interrupted(desk)
    desk.run("rm file; ln -s /etc/passwd file", "--name", "w")
    assert _refused(desk, "w") == {"file"}
    assert not os.path.islink(desk.base / "file") and (desk.base / "big").stat().st_size == 300000


def test_discard_after_interruption(desk):
    desk.run("head -c 300000 /dev/zero > big; echo new > file; rm gone", "--name", "w")
    _interrupted(desk)
    desk.ok("discard", "--yes", "w")
    assert not [name for name in os.listdir(desk.base) if name.startswith(".cordon")]
    assert desk.text("big") == "old\n" and desk.text("file") in ("text\n", "new\n")


def test_damaged(desk):
    """What is said about damage does not lead to the loss of other workspaces."""
    desk.run("echo new > file", "--name", "w")
    where = store(desk.me) / desk.json("status", "w")["id"]
    (where / "journal").write_bytes(b"nonsense")
    desk.me.own(where / "journal")
    before = picture(desk.base)
    desk.fails("commit", "w", says=["damaged", "export"])
    assert_same(before, desk.base)
    (where / "journal").unlink()
    meta = (where / "meta.json").read_bytes()
    (where / "meta.json").write_bytes(meta[:40])
    assert "workspace gc" not in desk.fails("commit", "w", says="damaged")
    (where / "meta.json").write_bytes(meta)
    desk.ok("commit", "w")
    assert desk.text("file") == "new\n"


# --- another program in the base -----------------------------------------------------------------------


def _swap(base, out, stop):
    """Directories and files of the base become links out of it for a moment, again and again."""

    def attempt(call, *args):
        try:
            call(*args)
        except OSError:
            pass

    while not stop.is_set():
        for name in ("sub", "sub/deep", "file", "gone", "."):
            here = base / name if name != "." else base
            aside = base.parent / "aside"
            attempt(os.rename, here, aside)
            attempt(os.symlink, out / name, here)
            attempt(os.unlink, here)
            attempt(os.rename, aside, here)


def test_swapped_for_links(desk):
    """Nothing outside is written, removed or given another mode."""
    out = tree(desk.me, desk.me.mkdir("out"), {k: v for k, v in PROJECT.items() if not k.startswith("bare")})
    before = picture(out)
    for _ in range(5):
        desk.run(
            "echo n > file; echo n > sub/inner; echo n > sub/deep/leaf; rm -f gone; chmod 700 sub sub/deep; "
            "echo $$ > sub/deep/new; mkdir -p sub/made; echo $$ > sub/made/x",
            "--name", "w",
        )  # fmt: skip
        stop = threading.Event()
        swapper = threading.Thread(target=_swap, args=(desk.base, out, stop))
        swapper.start()
        try:
            for _ in range(20):
                desk.verb("diff", "w", cwd="/")
                done = desk.verb("commit", "--theirs", "w", cwd="/", timeout=60)
                assert done.returncode in (0, 1, 125), done
        finally:
            stop.set()
            swapper.join()
        assert_same(before, out)
    desk.verb("commit", "--theirs", "w")
    assert not [name for name in os.listdir(desk.base) if name.startswith(".cordon")]
    assert subprocess.run(["find", desk.base, "-type", "l"], stdout=subprocess.PIPE, check=True).stdout == b""
