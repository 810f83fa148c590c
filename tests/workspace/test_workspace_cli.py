# SPDX-License-Identifier: Apache-2.0
"""The verbs of `cordon workspace` on workspaces that real runs made."""

import json
import os
import pty
import select
import subprocess
import time

import pytest

from conftest import ceiling, needs, unavailable

REALTIME_COARSE = 5  # of linux/time.h; Python has no name for it
BASE = {"text": "a\nb\nc\n", "gone": "x\n", "sub/old": "moved\n" * 20, "data": b"\0\1\2", "tool": "#!/bin/sh\n"}
CHANGE = r"""
printf 'a\nB\nc\nd\n' >text; rm gone; mv sub/old sub/new; printf '\0\3' >data; chmod +x tool
mkdir -p deep/er; echo hello >deep/er/file
"""
CHANGES = {"text": "modified", "gone": "deleted", "sub/new": "renamed", "data": "modified", "tool": "mode",
           "deep/er/file": "added"}
RISKY = r"""
mkfifo fifo; ln -s /etc/passwd out; mkdir -p .git/hooks; echo evil >.git/hooks/pre-commit; echo plain >plain
"""


class Desk:
    """One caller with a directory and runs over it."""

    def __init__(self, me, level):
        self.me = me
        self.level = level
        self.base = me.work

    def fill(self, entries):
        for name, data in entries.items():
            path = self.base / name
            for parent in reversed([p for p in path.parents if not p.exists()]):
                parent.mkdir()
                self.me.own(parent)
            self.me.write(path, data)
        self.let_time_pass()

    def let_time_pass(self):
        """Until the clock that files are stamped with has moved on."""
        newest = max(os.lstat(os.path.join(d, n)).st_ctime_ns
                     for d, dirs, files in os.walk(self.base) for n in [".", *dirs, *files])
        while time.clock_gettime_ns(REALTIME_COARSE) <= newest:
            time.sleep(0.001)

    def run(self, script, *opts):
        done = self.me.run(["--workspace", self.base, *opts], ["sh", "-c", "umask 022; " + script], self.level)
        assert done.returncode == 0, done.stderr
        return self.ids()[-1]

    def cli(self, *words, **kw):
        done = self.me.outside([self.me.cordon, "workspace", *words], **kw)
        done.out, done.err = done.stdout.decode(errors="surrogateescape"), done.stderr.decode()
        return done

    def ok(self, *words, **kw):
        done = self.cli(*words, **kw)
        assert done.returncode == 0, (done.returncode, done.out, done.err)
        return done.out

    def ids(self):
        return [one["id"] for one in json.loads(self.ok("list", "--json"))]

    def changes(self, *which):
        got = json.loads(self.ok("diff", "--json", *which))
        return {c["path"]: c["kind"] for c in got["changes"] if c["listed"]}


@pytest.fixture
def desk(me, level):
    if not me.can(level):
        unavailable(f"level {level} does not work for {me.name}")
    return Desk(me, level)


def test_list_and_status(desk):
    assert desk.ok("list") == "" and desk.ok("list", "--json") == "[]\n"
    desk.fill(BASE)
    ws = desk.run(CHANGE)
    head, row = desk.ok("list").splitlines()
    assert head.split() == ["ID", "NAME", "BASE", "CHANGES", "AGE", "STATE"]
    assert row.split()[:4] == [ws, "-", str(desk.base), str(len(CHANGES))] and row.endswith("kept")
    one = json.loads(desk.ok("status", "--json"))
    assert (one["id"], one["base"], one["runs"]) == (ws, str(desk.base), 1)
    assert one["summary"]["modified"] == 2 and one["summary"]["renamed"] == 1
    assert one["mechanism"] in (["overlay"] if desk.level == "namespaces" else ["reflink", "copy"])
    text = desk.ok("status", ws)
    assert f"base       {desk.base}\n" in text and "1 added, 2 modified, 1 deleted, 1 renamed" in text


def test_ways_to_name_one(desk):
    desk.fill(BASE)
    ws = desk.run(CHANGE)
    want = desk.ok("diff", ws)
    for words, cwd in [(["diff"], desk.base), (["diff"], desk.base / "sub"), (["diff", "."], desk.base),
                       (["diff", str(desk.base)], "/"), (["diff", ws], "/")]:
        assert desk.ok(*words, cwd=str(cwd)) == want
    done = desk.cli("diff", cwd="/")
    assert done.returncode == 125 and done.err.startswith("cordon: there is no workspace of '/' (")
    assert desk.cli("diff", "nope").returncode == 125
    second = desk.run("echo other >text")
    done = desk.cli("diff")
    assert second != ws and done.returncode == 125 and "there are 2 workspaces of" in done.err
    assert desk.changes(second) == {"text": "modified"}


def test_a_workspace_takes_the_place_of_a_presets_grant(desk):
    """Alone, the preset lets the command change the current directory."""
    opts = ["--preset", "agent"]
    desk.fill({"text": "a\n", ".env": "canary\n"})
    if desk.level == "landlock":
        # Its tasks cannot be counted for root, and nothing can be hidden in a copy.
        opts += ["--best-effort", "procs"] if desk.me.name == "root" else []
        done = desk.me.run(["--workspace", ".", *opts], ["true"], desk.level)
        assert done.returncode == 125 and b"cannot deny" in done.stderr
        (desk.base / ".env").unlink()
    desk.run("! cat .env && echo b >text", *opts)
    assert (desk.base / "text").read_text() == "a\n" and desk.changes() == {"text": "modified"}
    done = desk.me.run(["--workspace", ".", "-w", ".", *opts], ["true"], desk.level)
    refusal = b"cannot grant writing" if desk.level == "landlock" else b"cannot be both"
    assert done.returncode == 125 and refusal in done.stderr
    assert desk.me.run(opts, ["sh", "-c", "echo c >text"], desk.level).returncode == 0
    assert (desk.base / "text").read_text() == "c\n"


def test_diff(desk):
    desk.fill(BASE)
    ws = desk.run(CHANGE)
    assert desk.changes() == CHANGES
    *rows, total = desk.ok("diff").splitlines()
    assert len(rows) == len(CHANGES)
    assert total.startswith("6 changes: 1 added, 2 modified, 1 deleted, 1 renamed, 1 with another mode; ")
    assert next(r for r in rows if "tool" in r).split() == ["mode", "tool", "10", "executable"]
    assert next(r for r in rows if "sub/new" in r).startswith("renamed   sub/old -> sub/new ")
    for paths in (["sub", "gone"], ["sub/", "./gone"], [str(desk.base / "sub"), str(desk.base / "gone")]):
        assert len(desk.ok("diff", ws, *paths).splitlines()) == 3
    done = desk.cli("diff", ws, "nothing")
    assert (done.returncode, done.err) == (125, "cordon: nothing changed at 'nothing'\n")
    assert "has '..' in it" in desk.cli("diff", ws, "../x").err
    assert "is not below" in desk.cli("diff", ws, "/etc").err
    stat = desk.ok("diff", "--stat").splitlines()
    assert " text | 3 ++-" in stat and " data | binary" in stat and stat[-1].startswith(" 6 files, 3 lines added")
    patch = desk.ok("diff", "--patch", ws, "text")
    assert patch == "diff --git a/text b/text\n--- a/text\n+++ b/text\n@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n"


HOSTILE = r"""
n=$(printf 'x\033]0;t\007\n\351 y'); printf '\033[2Jred\rblue\tend\n' >"$n"; ln -s "$n" link; echo x >-rf
"""


def on_terminal(desk, words, answers=b""):
    """What a terminal gets to see, after @answers were typed one by one at each prompt."""
    master, slave = pty.openpty()
    child = desk.me.popen([desk.me.cordon, "workspace", *words], stdin=slave, stdout=slave, stderr=slave,
                          env={"TERM": "xterm"})
    os.close(slave)
    seen, end, asked = b"", time.monotonic() + ceiling(20), 0
    while time.monotonic() < end:
        if not select.select([master], [], [], 0.5)[0]:
            continue
        try:
            more = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        seen += more
        while asked < len(answers) and seen.count(b"] ") > asked and seen.endswith(b"] "):
            os.write(master, answers[asked : asked + 1] + b"\n")
            asked += 1
            break
    os.close(master)
    return child.wait(10), seen


def test_nothing_hostile_reaches_a_terminal(desk):
    desk.fill({"a": "a\n"})
    desk.run(HOSTILE)
    for words in (["list"], ["status"], ["diff"], ["diff", "--stat"], ["diff", "--patch"], ["export"]):
        status, seen = on_terminal(desk, words)
        assert status == 0, (words, seen)
        for color in (b"\033[0m", b"\033[1m", b"\033[31m", b"\033[32m", b"\033[33m", b"\033[36m", b"\033[1;31m"):
            seen = seen.replace(color, b"")
        rest = seen.replace(b"\r\n", b"").replace(b"\t", b"")
        assert all(c >= 0x20 and c != 0x7f for c in rest), (words, seen)
        rest.decode()
    # Not to a terminal: tables are as clean, the content of a patch is as it is.
    assert "\033" not in desk.ok("diff") and r"x\x1b]0;t\x07\x0a\xe9 y" in desk.ok("diff")
    assert "\033[2Jred\rblue\tend\n" in desk.ok("diff", "--patch")
    status, seen = on_terminal(desk, ["export", "--format", "tar"])
    assert status == 125 and b"an archive is nothing for a terminal" in seen


def test_commit_everything(desk):
    desk.fill(BASE)
    ws = desk.run(CHANGE)
    done = desk.cli("commit", "--dry-run")
    assert done.returncode == 0 and "6 changes would be committed" in done.err
    assert (desk.base / "text").read_text() == "a\nb\nc\n" and desk.ids() == [ws]
    done = desk.cli("commit")
    assert (done.returncode, done.out) == (0, "")
    assert done.err == f"cordon: 6 changes committed to {desk.base}\n"
    assert (desk.base / "text").read_text() == "a\nB\nc\nd\n"
    assert not (desk.base / "gone").exists() and not (desk.base / "sub/old").exists()
    assert (desk.base / "sub/new").read_text() == BASE["sub/old"] and os.access(desk.base / "tool", os.X_OK)
    assert (desk.base / "deep/er/file").stat().st_uid == desk.me.uid
    assert desk.ids() == [], "a workspace without a name and without changes is removed"


def test_commit_some(desk):
    desk.fill(BASE)
    ws = desk.run(CHANGE)
    got = json.loads(desk.ok("commit", "--json", ws, "text", "deep"))
    assert (got["id"], got["applied"], got["refused"], got["removed"]) == (ws, 2, 0, False)
    assert {c["path"] for c in got["changes"] if c["outcome"] == "applied"} >= {"text", "deep/er/file"}
    assert desk.changes() == {k: v for k, v in CHANGES.items() if k not in ("text", "deep/er/file")}
    desk.ok("commit", "--exclude", "data", "--exclude", str(desk.base / "sub"))
    assert desk.changes() == {"data": "modified", "sub/new": "renamed"}
    desk.ok("commit", ws, ".")
    assert desk.ids() == []


def test_commit_refuses_what_is_risky(desk):
    desk.fill({"a": "a\n"})
    ws = desk.run(RISKY)
    done = desk.cli("commit")
    assert done.returncode == 1
    *lines, total = done.err.splitlines()
    assert total == f"cordon: 1 change committed to {desk.base}, 3 refused"
    assert lines[0] == ("cordon: refused: '.git/hooks/pre-commit' is risky: protected "
                        f"(name it to commit it: cordon workspace commit {ws} .git/hooks/pre-commit)")
    assert [line.split("'")[1] for line in lines] == [".git/hooks/pre-commit", "fifo", "out"]
    assert sorted(os.listdir(desk.base)) == ["a", "plain"]
    desk.ok("commit", ws, "out", "fifo", ".git/hooks/pre-commit")
    assert os.readlink(desk.base / "out") == "/etc/passwd" and (desk.base / ".git/hooks/pre-commit").exists()
    assert desk.ids() == []


def test_many_refusals_are_counted(desk):
    desk.fill({"a": "a\n"})
    ws = desk.run("for i in $(seq 60); do mkdir d$i; ln -s /etc/passwd d$i/l; ln -s /etc/passwd l$i; done")
    done = desk.cli("commit")
    lines = done.err.splitlines()
    assert done.returncode == 1 and len(lines) == 52 and lines[50] == "cordon: ... and 11 more"
    desk.ok("commit", ws, *(f"d{i}/l" for i in range(1, 61)))
    first, last = desk.cli("commit").err.splitlines()
    assert first.startswith("cordon: refused: 60 changes in '.' are risky: link-out (name each") and "60 refused" in last


def test_remedies_can_be_pasted(desk):
    needs("bash")
    desk.fill({"a": "a\n"})
    desk.run(r"""ln -s /etc/passwd "$(printf "it's \033 \351\n")"; ln -s /etc/passwd -rf""")
    lines = desk.cli("commit").err.splitlines()[:2]
    for line in lines:
        command = line[line.index("cordon workspace") : -1].replace("cordon", desk.me.cordon, 1)
        assert desk.me.outside(["bash", "-c", command]).returncode == 0, command
    assert len(os.listdir(desk.base)) == 3


def test_conflict(desk):
    desk.fill(BASE)
    ws = desk.run(CHANGE)
    desk.me.write(desk.base / "text", "mine\n")
    done = desk.cli("commit")
    assert done.returncode == 1 and "cordon: conflict: 'text'" in done.err and "--theirs" in done.err
    assert "nothing was committed" in done.err and (desk.base / "gone").exists()
    assert "cordon: nothing would be" in desk.cli("commit", "--dry-run").err
    got = json.loads(desk.cli("commit", "--json", ws, "text").out)
    assert got["conflicts"] == 1 and got["changes"][-1]["outcome"] in ("conflict", "skipped")
    desk.cli("commit", "--ours")
    assert (desk.base / "text").read_text() == "mine\n" and not (desk.base / "gone").exists()
    assert desk.changes() == {"text": "modified"}
    desk.ok("commit", "--theirs")
    assert (desk.base / "text").read_text() == "a\nB\nc\nd\n" and desk.ids() == []


def test_interactive(desk):
    desk.fill(BASE)
    desk.run("echo 1 >text; echo 2 >gone; echo 3 >tool")
    status, seen = on_terminal(desk, ["commit", "-i"], b"ydq")
    assert status == 1 and b"nothing was committed" in seen and b"+1" in seen.replace(b"\033[32m", b"")
    assert len(desk.changes()) == 3
    status, seen = on_terminal(desk, ["commit", "-i"], b"y?nn")
    assert status == 0 and b"d - show it" in seen, seen
    assert (desk.base / "gone").read_text() == "2\n" and set(desk.changes()) == {"text", "tool"}


def test_discard(desk):
    desk.fill(BASE)
    first, second, third = (desk.run(f"echo {i} >text") for i in range(3))
    status, seen = on_terminal(desk, ["discard", first], b"n")
    assert status == 1 and b"1 modified" in seen and len(desk.ids()) == 3
    status, _ = on_terminal(desk, ["discard", first], b"y")
    assert status == 0 and desk.ids() == [second, third]
    desk.ok("discard", second)
    assert desk.cli("discard", second).returncode == 125
    assert desk.cli("discard", "--all").returncode == 125
    desk.ok("discard", "--all", "--yes")
    assert desk.ids() == [] and (desk.base / "text").read_text() == "a\nb\nc\n"


def test_discard_of_a_closed_tree(desk):
    desk.fill({"a": "a\n"})
    ws = desk.run("mkdir -p c/d; echo x >c/d/f; chmod 0 c/d/f c/d c")
    assert "c/d/f" in desk.changes(ws)
    desk.ok("discard", ws)
    assert desk.ids() == []


@pytest.mark.parametrize("where", ["stdout", "file"])
def test_export_patch(desk, where):
    needs("git")
    desk.fill(BASE)
    ws = desk.run(CHANGE)
    copy = desk.me.base / "copy"
    desk.me.outside(["cp", "-a", str(desk.base), str(copy)], check=True)
    patch = desk.me.base / "p"
    if where == "file":
        desk.ok("export", ws, "--output", str(patch))
    else:
        desk.me.write(patch, desk.me.outside([desk.me.cordon, "workspace", "export", ws]).stdout)
    desk.me.outside(["git", "-C", str(copy), "apply", str(patch)], check=True,
                    env={"GIT_CEILING_DIRECTORIES": str(desk.me.base)})
    desk.ok("commit", ws)
    done = desk.me.outside(["diff", "-r", str(copy), str(desk.base)])
    assert (done.returncode, done.stdout) == (0, b"")
    assert os.access(copy / "tool", os.X_OK)


def test_export_leaves_out_and_says_so(desk):
    desk.fill({"a": "a\n"})
    desk.run(RISKY)
    done = desk.cli("export")
    assert done.returncode == 0 and "hooks" not in done.out
    assert done.err.startswith("cordon: note: 2 changes were left out")
    done = desk.cli("export", "-o", str(desk.me.base / "x.tar"))
    assert done.err.startswith("cordon: note: 1 change was left out")
    names = subprocess.run(["tar", "tf", desk.me.base / "x.tar"], capture_output=True, check=True).stdout.decode()
    assert ".git/hooks/pre-commit" in names.split() and "fifo" not in names


@pytest.mark.parametrize("where", ["directory", "file"])
def test_export_is_not_led_astray(desk, where):
    """A link that an earlier run left does not decide where the next archive goes."""
    victim = desk.me.mkdir("victim")
    trick = {"directory": f"ln -s {victim} out", "file": f"ln -s {victim}/x.tar x.tar"}[where]
    output = {"directory": "out/x.tar", "file": "x.tar"}[where]
    desk.run("echo x >new")
    assert desk.me.outside(["sh", "-c", trick], cwd=str(desk.base)).returncode == 0
    for path in (output, str(desk.base / output)):
        done = desk.cli("export", "--format", "tar", "-o", path)
        assert done.returncode == 125 and b"is a link" in done.stderr and os.listdir(victim) == [], done
    done = desk.me.outside(["bash", "-c", f"{desk.me.cordon} workspace export --format tar -o >(cat >{desk.base}/copy)"], cwd=str(desk.base))
    assert done.returncode == 0, done


def test_export_that_fails_leaves_no_file(desk):
    desk.fill({"a": "a\n"})
    desk.run("truncate -s 9G huge")
    out = desk.me.base / "x.tar"
    done = desk.cli("export", "-o", str(out))
    assert done.returncode == 125 and "'huge'" in done.err and not out.exists()
    assert desk.cli("export", "-o", "/dev/full").returncode == 125 and os.path.exists("/dev/full")
    assert desk.cli("export", "-o", str(desk.me.base / "no" / "x")).returncode == 125


def test_gc(desk):
    desk.fill({"a": "a\n"})
    ws = desk.run("echo b >a")
    assert desk.ok("gc") == "nothing to remove\n" and desk.ids() == [ws]
    assert desk.ok("gc", "--older-than", "30d") == "nothing to remove\n"
    assert desk.ok("gc", "--older-than", "0", "--dry-run").startswith(f"would remove {ws} over {desk.base}: ")
    assert desk.ids() == [ws]
    got = json.loads(desk.ok("gc", "--older-than", "0", "--json"))
    assert got["removed"] == 1 and got["workspaces"][0]["id"] == ws and desk.ids() == []
