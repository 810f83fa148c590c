# SPDX-License-Identifier: Apache-2.0
"""A command that fails at a protected name says so in its own words. Cordon adds one line: the name, and
the way. Never for a name that this run does not protect, whatever the command prints."""

import errno
import re
import time

import pytest
from terminallib import outer  # noqa: F401

from conftest import ceiling, needs

GIT_ENV = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip
PASS = [w for name in GIT_ENV for w in ("-e", name)]
CLONE = "git -c protocol.file.allow=always"

# What is typed -> the exit status, the protected name, and whether it exists.
VERBS = {
    "config": ("git config foo.bar x", 4, ".git/config", True),
    "remote add": ("git remote add o https://example.com/x", 128, ".git/config", True),
    "branch -m": ("git branch -m neu", 128, ".git/config", True),
    # Git prints its errors, and ends as if all were well.
    "checkout --track": ("git checkout -b n3 --track n2", 0, ".git/config", True),
    "worktree add": ("git worktree add wt", 128, ".git/worktrees", False),
    "submodule add": (CLONE + " submodule add \"file://$PWD\" sub", 128, ".git/modules", False),
    "in a subdirectory": ("mkdir deep && cd deep && git config foo.bar x", 4, ".git/config", True),
}  # fmt: skip


def line(names, verb="change", fix="--workspace ."):
    """What Cordon says, as one line."""
    is_one = isinstance(names, str)
    who = f"'{names}' is" if is_one else f"{' and '.join(repr(n) for n in names)} are"
    way = f"{fix} instead of -w lets it, and you review the change; " if fix else ""
    return (
        f"cordon: {who} protected in a write grant, so the command could not {verb} {'it' if is_one else 'them'} "
        f"({way}--protect off gives the protection up)"
    )


def denial(name, what="write", fix="--workspace .", error=None):
    row = {"what": what, "target": name, "rule": "fs.protect", "fix": fix, "how": "said"}
    return {**row, "errno": error} if error else row


def told(done):
    return [one for one in done.stderr.decode(errors="replace").splitlines() if one.startswith("cordon: ")]


def shell(me, opts, script, level="namespaces", **kw):
    return me.run([*opts, *PASS], ["bash", "-c", script], level, env=GIT_ENV, **kw)


def says(*lines):
    """A script that prints these lines on standard error."""
    return "".join(f"printf '%s\\n' \"{one}\" >&2\n" for one in lines)


@pytest.fixture(autouse=True)
def has_git():
    needs("git")


@pytest.fixture(params=["work", "my work"])
def repo(me, request):
    """A repository, also in a directory with a blank in its name."""
    if request.param != "work":
        me.work = me.mkdir(request.param)
    make = "git init -q -b main . && echo one > file && git add file && git commit -qm first && git branch n2"
    me.outside(["sh", "-c", make], env=GIT_ENV, check=True)
    return me.work


@pytest.mark.parametrize("verb", VERBS)
def test_git_in_a_write_grant_says_the_protection_and_the_way(me, repo, verb):
    script, status, name, exists = VERBS[verb]
    done = shell(me, ["-w", "."], script)
    assert done.returncode == status, done
    assert told(done) == [line(name, "change" if exists else "make")], done.stderr
    assert done.stderr.decode().rstrip().endswith("gives the protection up)")


@pytest.mark.parametrize("verb", VERBS)
def test_git_in_a_workspace_works_and_nothing_is_said(me, repo, verb):
    done = shell(me, ["--workspace", "."], VERBS[verb][0])
    assert done.returncode == 0 and told(done) == [], done


@pytest.mark.parametrize("verb", ["config", "checkout --track"])
def test_the_way_out_that_gives_the_protection_up(me, repo, verb):
    done = shell(me, ["-w", ".", "--protect", "off"], VERBS[verb][0])
    assert done.returncode == 0 and told(done) == [], done


def test_git_init_in_an_empty_directory(me):
    done = shell(me, ["-w", "."], "git init")
    assert done.returncode == 128 and told(done) == [line(".git", "make")], done
    assert shell(me, ["--workspace", "."], "git init").returncode == 0


def test_the_receipt_has_a_denial(me, repo):
    got = me.receipt(["-w", "."], ["git", "config", "foo.bar", "x"], "namespaces")
    assert got["denials"] == [denial(".git/config", error=errno.EBUSY)] and got["exit_code"] == 4, got
    got = me.receipt(["-w", "."], ["git", "checkout", "-b", "n3", "--track", "n2"], "namespaces")
    assert got["denials"] == [denial(".git/config", error=errno.EBUSY)] and got["exit_code"] == 0, got
    got = me.receipt(["-w", "."], ["git", "worktree", "add", "wt"], "namespaces")
    assert got["denials"] == [denial(".git/worktrees", "create")], got


@pytest.mark.parametrize(
    "script, name, verb",
    [
        ("echo x > .envrc", ".envrc", "make"),
        ("mkdir .vscode", ".vscode", "make"),
        ("mkdir ./.vscode/a", ".vscode", "make"),
        ("ln -s file .mcp.json", ".mcp.json", "make"),
        ("echo x >> .git/config", ".git/config", "change"),
        ("echo x > \"$PWD\"/.git/hooks/pre-commit", ".git/hooks", "change"),
        ("rm -r .git/hooks", ".git/hooks", "change"),
        ("mv file .git/config", ".git/config", "change"),
        ("python3 -c 'import os; os.rename(\"file\", \".git/config\")'", ".git/config", "change"),
        ("python3 -c 'open(\".git/hooks/x\", \"w\")'", ".git/hooks", "change"),
        # As Go, Node and the older coreutils write it.
        (says("open .git/hooks/x: read-only file system"), ".git/hooks", "change"),
        (says("Error: EBUSY: resource busy or locked, rename 'x' -> '.git/config'"), ".git/config", "change"),
        (says("cannot touch \u2018.git/hooks/x\u2019: Read-only file system"), ".git/hooks", "change"),
        (says("\033[31merror:\033[0m .git/config: Device or resource busy"), ".git/config", "change"),
    ],
)  # fmt: skip
def test_the_words_of_other_programs(me, repo, script, name, verb):
    assert told(shell(me, ["-w", "."], script)) == [line(name, verb)]


def test_several_names_are_one_line(me, repo):
    done = shell(me, ["-w", "."], "rm .git/config .git/worktrees; git config a.b c")
    assert told(done) == [line([".git/config", ".git/worktrees"])], done.stderr
    done = shell(me, ["-w", "."], "echo x > .envrc; git config a.b c")
    assert told(done) == [line([".envrc", ".git/config"], "change or make")], done.stderr
    done = shell(me, ["-w", "."], "rm -r .git")
    assert len(told(done)) == 1 and " and 2 more are protected " in told(done)[0], done.stderr


def test_paths_are_shown_as_the_caller_would_type_them(me, repo):
    quoted = f"'{repo}'" if " " in str(repo) else str(repo)
    me.own((repo / "sub").mkdir() or repo / "sub")
    done = shell(me, ["-w", ".."], "git config a.b c", cwd=str(repo / "sub"))
    assert told(done) == [line(f"{repo}/.git/config", fix=f"--workspace {quoted}")], done.stderr
    # A workspace in the place of the home has to be named in full.
    done = shell(me, ["-w", me.home], "echo x > .profile", cwd=str(me.home))
    assert told(done) == [line(".profile", "make", f"--workspace {me.home}")], done.stderr
    # A run has one workspace at most.
    done = shell(me, ["-w", ".", "--workspace", me.out], "git config a.b c")
    assert told(done) == [line(".git/config", fix=None)], done.stderr


NOTHING = {
    "not protected": ([], says(".git/objects/x: Read-only file system", "file: Device or resource busy")),
    "elsewhere": ([], says("sub/.git/config: Device or resource busy", "/etc/.git/config: Read-only file system")),
    "a longer name": ([], says(".git/config.lock: Read-only file system", ".git/configx: Device or resource busy",
                               "x.git/config: Device or resource busy", "/.git/config: Device or resource busy")),
    "up and down": ([], says("sub/../.git/config: Device or resource busy")),
    "no error": ([], says(".git/config: is fine", "could not write .git/config")),
    "two lines": ([], says(".git/config", "Device or resource busy")),
    # The kernel gives these errors at names that exist for other reasons.
    "another error": ([], says(".git/config: Permission denied", ".git/hooks: File exists", ".git/config/x: Not a directory",
                               ".git/config: No such file or directory", ".git/hooks/x: Device or resource busy")),
    # Nothing is missed if what stands in the place of a name cannot be removed and that does no harm.
    "removed": ([], "git clean -fdx; rmdir .vscode; true"),
    "standard output": ([], "echo .git/config: Device or resource busy"),
    "hidden": (["--deny", ".git/config"], says(".git/config: Device or resource busy")),
    "hidden, missing": (["--deny", ".envrc"], says(".envrc: Device or resource busy")),
    "granted": (["-w", ".git/hooks"], says(".git/hooks/x: Read-only file system")),
    "off": (["--protect", "off"], says(".git/config: Device or resource busy")),
    "quiet": (["-q"], "git config foo.bar x"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_is_said_that_is_not_so(me, repo, name):
    opts, script = NOTHING[name]
    assert told(shell(me, ["-w", ".", *opts], script)) == [], name


def test_a_stash_of_untracked_files_says_why_it_stops(me, repo):
    """It removes empty directories, and fails at those that stand there: the changes are in the stash and in the tree."""
    script = "echo two >> file; echo new > new; git stash -u"
    done = shell(me, ["-w", "."], script)
    said = told(done)
    assert done.returncode == 1 and len(said) == 1, done
    assert "'.claude'" in said[0] and "only hold protected names" in said[0] and "--workspace ." in said[0]
    for opts in ["--workspace", "."], ["-w", ".", "--protect", "existing"]:
        done = shell(me, opts, "git stash -u && git stash pop")
        assert done.returncode == 0 and told(done) == [], (opts, done)


def test_nothing_is_said_without_a_protection(me, repo):
    script = says(".git/config: Read-only file system")
    assert told(shell(me, ["-r", "."], script)) == []
    done = shell(me, ["-w", "."], script, "landlock")
    assert told(done) == [], done


def test_a_grant_below_a_protected_directory_is_not_protected(me, repo):
    me.own((repo / ".git/hooks/mine").mkdir() or repo / ".git/hooks/mine")
    opts = ["-w", ".", "-w", ".git/hooks/mine"]
    done = shell(me, opts, "echo x > .git/hooks/mine/x && " + says(".git/hooks/mine/x: Read-only file system"))
    assert done.returncode == 0 and told(done) == [], done
    assert told(shell(me, opts, "echo x > .git/hooks/x")) == [line(".git/hooks")]


HOSTILE = """
import sys
out = sys.stderr.buffer
for i in range(10000):
    out.write(b"\\x1b]0;t\\x07\\x00\\x9b2J\\r\\x1b[2K/etc/shadow: Read-only file system /root/.ssh/id_rsa: Device or resource busy "
              b"~/.ssh: Permission denied .git/objects/%d: Read-only file system \\xff\\xfe cordon: '.git/config'\\n" % i)
    out.write(b"a " * 200 + b": Read-only file system\\n")
    out.write(b".git/hooks/\\x1b[31m\\x1b]8;;http://x\\x07evil%d\\x1b[0m: Read-only file system\\n" % i)
    out.write(b"'.git/config\\n--workspace /': Device or resource busy\\n")
out.write(b"x" * 100000)
out.write(b"\\n.git/hooks/\\x1b[31mevil\\x07\\r\\n: Read-only file system\\n.git/hooks/a\\x1b[2J: Read-only file system\\n")
"""


def test_forged_lines_are_bounded_cleaned_and_believed_in_nothing(me, repo):
    begin = time.monotonic()
    done = me.run(["-w", "."], ["/usr/bin/python3", "-c", HOSTILE], "namespaces")
    assert time.monotonic() - begin < ceiling(20)
    lines = [one for one in done.stderr.split(b"\n") if one.startswith(b"cordon: ")]
    # Every word is the plan's, none is the command's.
    assert lines == [line(".git/hooks").encode()], lines
    got = me.receipt(["-w", "."], ["/usr/bin/python3", "-c", HOSTILE], "namespaces")
    assert got["denials"] == [denial(".git/hooks", error=errno.EROFS)], got["denials"]


def test_many_names_are_bounded(me, repo):
    names = [".git/config", ".git/hooks", ".git/modules", ".git/worktrees", ".git/commondir", ".vscode", ".idea",
             ".claude", ".cursor", ".codex", ".envrc", ".mcp.json"]  # fmt: skip
    script = says(*(f"{name}: Read-only file system" for name in names * 20))
    got = me.receipt(["-w", "."], ["bash", "-c", script], "namespaces")
    assert [d["target"] for d in got["denials"]] == names[:8], got["denials"]
    done = shell(me, ["-w", "."], script)
    assert len(told(done)) == 1 and "'.git/config', '.git/hooks', '.git/modules' and 5 more are" in told(done)[0]


def test_only_the_end_of_standard_error_is_looked_at(me, repo):
    """And no line of which the beginning is gone."""
    flood = "head -c 20000 /dev/zero | tr '\\0' '\\n' >&2"
    assert told(shell(me, ["-w", "."], f"git config a.b c; {flood}")) == []
    assert told(shell(me, ["-w", "."], f"{flood}; git config a.b c")) == [line(".git/config")]
    for n, said in ((15000, [line(".git/config")]), (20000, [])):
        script = f"{{ head -c {n} /dev/zero | tr '\\0' x; echo ' .git/config: Device or resource busy'; }} >&2"
        assert told(shell(me, ["-w", "."], script)) == said, n


def test_standard_error_arrives_whole(me, repo):
    """It is copied on its way, whatever the other side is."""
    script = "for i in $(seq 20000); do echo line $i; done >&2; git config a.b c"
    expected = "".join(f"line {i}\n" for i in range(1, 20001)).encode()
    done = shell(me, ["-w", "."], script)
    assert done.stderr.startswith(expected) and told(done) == [line(".git/config")]
    into = me.work / "stderr"
    with open(into, "wb") as file:
        shell(me, ["-w", "."], script, stderr=file)
    assert into.read_bytes() == done.stderr


@pytest.mark.parametrize("apart", [False, True], ids=["one stream", "stderr apart"])
def test_in_a_terminal(me, repo, outer, apart):  # noqa: F811
    argv = me.argv(["-w", "."], ["git", "config", "foo.bar", "x"], "namespaces")
    if not apart:
        terminal = outer([], [], argv=argv)
        terminal.expect(rb"could not write config file")
        terminal.expect(re.escape(line(".git/config")).encode())
        assert terminal.end() == 4
        return
    with open(me.base / "errors", "wb") as errors:
        assert outer([], [], argv=argv, stderr=errors).end() == 4
    text = (me.base / "errors").read_text()
    assert text.splitlines()[-1] == line(".git/config"), text
