# SPDX-License-Identifier: Apache-2.0
"""Trees that a guest makes to do harm, through diff, export, commit and discard."""

import io
import json
import os
import stat
import tarfile

import pytest

from workspacelib import Desk, assert_same, picture, settle_clock, store, tree


def make_desk(me, level):
    base = tree(me, me.mkdir("base"), {"file": "text\n", "d/inner": "inner\n", "d/e/deep": "deep\n"})
    settle_clock(base)
    return Desk(me, level, base)


@pytest.fixture
def desk(me, level):
    return make_desk(me, level)


def guest(desk, script, *opts, **kw):
    """Runs Python inside, in the workspace."""
    kw.setdefault("timeout", 300)
    argv = ["/usr/bin/python3", "-S", "-c", "import os; os.chdir(os.environ['CORDON_WORKSPACE'])\n" + script]
    opts = ["--workspace", desk.base, "--name", "n", "--disk", "64G", *opts]
    done = desk.me.run(opts, argv, desk.level, cwd=str(desk.base), **kw)
    assert done.returncode == 0, done.stderr
    return done


def gone(desk):
    desk.ok("discard", "n", timeout=300)
    assert desk.ids() == [] and os.listdir(store(desk.me)) == []


def clean(data, *, tabs=False):
    """No byte that a terminal would take for an order."""
    return all(c >= 0x20 and c != 0x7F or c == 0x0A or (tabs and c == 9) for c in data)


MANY = "for i in range(COUNT): os.close(os.open(f'many/{i:06d}', os.O_CREAT | os.O_WRONLY, 0o644))"


def how_many(me):
    """All of it once, for the normal case; root's commit is the same code with other owners."""
    return 100_000 if me.uid else 10_000


@pytest.mark.once
@pytest.mark.slow
def test_many_names(me):
    desk, count = make_desk(me, "namespaces"), how_many(me)
    before = picture(desk.base)
    guest(desk, "os.mkdir('many')\n" + MANY.replace("COUNT", str(count)))
    got = desk.json("diff", "n", timeout=300)
    assert got["summary"]["added"] == count
    assert sum(c["listed"] for c in got["changes"]) == count
    assert desk.json("status", "n")["summary"]["added"] == count
    assert len(desk.ok("diff", "n", "many/004711").splitlines()) == 2
    done = desk.verb("export", "--format", "tar", "n", timeout=300)
    assert done.returncode == 0 and len(done.stdout) > count * 512, done.stderr
    assert_same(before, desk.base)
    done = desk.verb("commit", "n", timeout=600)
    assert done.returncode == 0, done
    assert len(os.listdir(desk.base / "many")) == count
    guest(desk, "import shutil; shutil.rmtree('many')")
    assert desk.json("diff", "n", timeout=300)["summary"]["deleted"] == count
    done = desk.verb("commit", "n", timeout=600)
    assert done.returncode == 0 and not (desk.base / "many").exists(), done
    gone(desk)


@pytest.mark.slow
def test_many_names_are_discarded(me):
    desk, count = make_desk(me, "landlock"), how_many(me)
    before = picture(desk.base)
    guest(desk, "os.mkdir('many')\n" + MANY.replace("COUNT", str(count)))
    gone(desk)
    assert_same(before, desk.base)


DEEP = """
for i in range(DEPTH):
    os.mkdir('x'); os.chdir('x')
open('bottom', 'w').write('reached')
"""


@pytest.mark.slow
def test_deep(desk):
    """Deeper than a path can be long and than there are descriptors."""
    before, depth = picture(desk.base), 5000 if desk.me.uid else 1000
    guest(desk, DEEP.replace("DEPTH", str(depth)))
    got = desk.json("diff", "n", timeout=300)
    (one,) = [c for c in got["changes"] if c["listed"]]
    assert one["path"] == "x/" * depth + "bottom" and one["kind"] == "added"
    archive = desk.ok("export", "--format", "tar", "n", timeout=300)
    names = tarfile.open(fileobj=io.BytesIO(archive)).getnames()
    assert "x/" * depth + "bottom" in names and len(names) <= depth + 1
    assert_same(before, desk.base)
    desk.ok("commit", "n", timeout=300)
    guest(desk, f"for i in range({depth}): os.chdir('x')\nassert open('bottom').read() == 'reached'; os.unlink('bottom')")
    assert [c["kind"] for c in desk.json("diff", "n")["changes"] if c["listed"]] == ["deleted"]
    desk.ok("commit", "n", timeout=300)
    gone(desk)
    found, fd = 0, os.open(desk.base, os.O_RDONLY)
    while "x" in os.listdir(fd):
        below = os.open("x", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd, found = below, found + 1
    assert found == depth and os.listdir(fd) == []
    os.close(fd)


@pytest.mark.slow
def test_deep_directory_of_the_base_is_removed(desk):
    """Made outside, removed inside: one whiteout, thousands of directories to remove."""
    # For the kernel's overlay the time grows with the square of the depth.
    script = DEEP.replace("DEPTH", "1500" if desk.level == "namespaces" else "5000")
    desk.me.outside(["python3", "-S", "-c", f"import os; os.chdir({str(desk.base)!r})\n" + script], check=True)
    settle_clock(desk.base / "d")
    guest(desk, "import subprocess; subprocess.run(['rm', '-rf', 'x'], check=True)")
    desk.ok("commit", "n", timeout=300)
    assert sorted(os.listdir(desk.base)) == ["d", "file"]
    gone(desk)


def test_sparse(desk):
    """As large as the filesystem lets it be, and almost nothing on the disk."""
    script = """
for shift in range(60, 33, -1):
    try:
        with open('huge', 'wb') as f:
            f.truncate(1 << shift)
            f.seek(1 << (shift - 1)); f.write(b'middle')
        break
    except OSError: pass
print(shift)
"""
    shift = int(guest(desk, script).stdout)
    assert shift > 40
    (one,) = desk.json("diff", "n", timeout=120)["changes"]
    assert one["size"] == 1 << shift
    # One line, not 2^60 zeros.
    assert len(desk.ok("diff", "--patch", "n", timeout=120)) < 1000
    assert len(desk.ok("diff", "--stat", "n", timeout=120)) < 1000
    done = desk.verb("export", "--format", "patch", "n", timeout=120)
    assert len(done.stdout) < 1 << 20, "it is named and left out, or refused"
    desk.ok("commit", "n", timeout=120)
    st = os.stat(desk.base / "huge")
    assert st.st_size == 1 << shift and st.st_blocks < 1000, st
    with open(desk.base / "huge", "rb") as f:
        f.seek(1 << (shift - 1))
        assert f.read(6) == b"middle"
    # Written over in the same place: compared without reading the holes.
    guest(desk, f"f = open('huge', 'r+b'); f.seek(1 << {shift - 1}); f.write(b'MIDDLE')")
    assert [c["kind"] for c in desk.json("diff", "n", timeout=120)["changes"]] == ["modified"]
    gone(desk)


CLOSED = """
os.makedirs('a/b/c'); open('a/b/c/f', 'w').write('f'); open('closed', 'w').write('c')
os.mkfifo('a/pipe'); os.link('closed', 'a/other')
for path, mode in (('closed', 0), ('a/b/c/f', 0), ('a/b/c', 0), ('a/b', 0), ('a', 0o111), ('d/e', 0), ('d', 0)):
    os.chmod(path, mode)
"""


def test_closed_directories(desk):
    before = picture(desk.base)
    guest(desk, CLOSED)
    kinds = {c["path"]: c["kind"] for c in desk.json("diff", "n")["changes"]}
    assert kinds["a/b/c/f"] == kinds["closed"] == "added" and kinds["d"] == kinds["d/e"] == "mode", kinds
    assert "d/e/deep" not in kinds and "d/inner" not in kinds, kinds
    assert_same(before, desk.base)
    desk.ok("export", "--format", "tar", "n")
    done = desk.verb("commit", "n")
    assert done.returncode == 1 and b"a/pipe" in done.stderr, done
    modes = {p: stat.S_IMODE(os.lstat(desk.base / p).st_mode) for p in ("closed", "a", "d")}
    assert modes == {"closed": 0, "a": 0o111, "d": 0}, modes
    for path in ("a", "a/b", "a/b/c", "d", "d/e"):
        os.chmod(desk.base / path, 0o755)
    assert stat.S_IMODE(os.lstat(desk.base / "a/b/c/f").st_mode) == 0
    gone(desk)


def test_closed_trees_are_discarded(desk):
    before = picture(desk.base)
    guest(desk, CLOSED)
    gone(desk)
    assert_same(before, desk.base)


NAMES = [b"new\nline", b"esc\x1b[2J\x1b]0;t\x07", b"\xff\xfe\x80", b"-rf", b"--", b" lead", b"trail ", b"quote'\"\\", b"tab\there",
         b"*", b"$(touch x)", b"`x`", b"%s%n", b"n" * 255, b"\xe2\x80\xae\xc2\x9b1m", b"\r", b"\x7f", "ü€".encode(), b"...",
         b".wh.file", b".wh..wh..opq", b"#1", b"a:b", b"!"]  # fmt: skip


def test_names(desk):
    script = f"names = {NAMES!r}\nfor n in names:\n    open(n, 'w').write('x\\n'); os.mkdir(b'd/' + n); os.symlink(n, b'd/' + n + b'/l') if len(n) < 250 else 0\n"
    guest(desk, script)
    for words in (["diff"], ["diff", "--stat"], ["status"], ["list"], ["gc"], ["commit", "--dry-run"]):
        done = desk.verb(*words, *(["n"] if words[0] not in ("list", "gc") else []))
        assert clean(done.stdout) and clean(done.stderr), (words, done)
        done.stdout.decode()
    for words in (["diff", "--json"], ["commit", "--json", "--dry-run"]):
        out = desk.verb(*words, "n").stdout
        assert clean(out), words
        paths = [c["path"] for c in json.loads(out)["changes"]]
        assert len(set(paths)) == len(paths), "different names stay different"
    archive = desk.me.outside([desk.me.cordon, "workspace", "export", "--format", "tar", "n"]).stdout
    inside = {os.fsencode(m.name) for m in tarfile.open(fileobj=io.BytesIO(archive), errors="surrogateescape")}
    assert not [n for n in NAMES if n not in inside and not n.startswith(b".wh.")], inside
    done = desk.verb("commit", "n")
    assert clean(done.stderr), done
    here = set(os.listdir(os.fsencode(desk.base)))
    assert set(NAMES) <= here, set(NAMES) - here
    assert not os.path.lexists(desk.base / "x")
    gone(desk)


def test_names_in_errors(desk):
    """What is typed or found comes back in messages, cleaned."""
    guest(desk, "open('x', 'w').write('x')")
    bad = "\x1b[2J\x07no\nsuch"
    for words in (["diff", bad], ["status", bad], ["commit", "n", bad], ["diff", "n", bad], ["discard", bad], ["export", "n", bad],
                  ["export", "n", "-o", f"/{bad}/x"], ["export", "--format", bad, "n"], ["gc", "--older-than", bad], ["list", bad],
                  [bad], ["commit", "--exclude", f"/{bad}", "n"], ["diff", f"/{bad}"]):  # fmt: skip
        desk.fails(*words)
    assert desk.changes("n") == {"x": "added"}


def test_wrong_words(desk):
    guest(desk, "open('x', 'w').write('x')")
    for words, says in (
        (["nope"], "cordon workspace"),
        (["diff", "nope"], "cordon workspace list"),
        (["diff", "m"], "n"),
        (["status", "n", "n"], "one workspace"),
        (["list", "n"], "no argument"),
        (["diff", "--nope"], "--help"),
        (["commit", "--ours", "--force", "n"], "exclude each other"),
        (["commit", "-i", "n"], "terminal"),
        (["commit", "n", "../x"], ".."),
        (["commit", "n", "/etc/passwd"], str(desk.base)),
        (["export", "--format", "zip", "n"], "tar"),
        (["gc", "--older-than", "soon"], "--older-than"),
        (["discard", "--all"], "--yes"),
        (["diff", "/"], "/"),
        (["diff", ""], "workspace"),
    ):
        desk.fails(*words, says=says)


def test_links_lead_nowhere(desk):
    """Directories that became links meanwhile: nothing is written through them."""
    victim = tree(desk.me, desk.me.mkdir("victim"), {"inner": "old\n", "e/deep": "old\n"})
    guest(desk, "open('d/inner', 'w').write('evil\\n'); open('d/e/deep', 'w').write('evil\\n'); open('d/new', 'w').write('evil\\n')")  # fmt: skip
    before = picture(victim)
    os.rename(desk.base / "d", desk.me.base / "away")
    os.symlink(victim, desk.base / "d")
    for words in (["commit", "n"], ["commit", "--theirs", "n"], ["commit", "--ours", "n"]):
        desk.verb(*words)
        assert_same(before, victim)
    # The same, made by the guest: its directory is a link to the outside.
    os.path.islink(desk.base / "d") and os.unlink(desk.base / "d")
    desk.verb("discard", "n")
    guest(desk, f"os.path.isdir('d') and __import__('shutil').rmtree('d')\nos.symlink({str(victim)!r}, 'd')\nopen('d2', 'w').write('x')")
    for words in (["commit", "n"], ["commit", "n", "d"], ["diff", "--patch", "n"], ["export", "n"], ["discard", "n"]):
        desk.verb(*words)
        assert_same(before, victim)


def test_hard_links(desk):
    """A forest of them: each name is a file of its own in the end, or one of many."""
    guest(desk, "open('h', 'w').write('h'); [os.link('h', f'h{i}') for i in range(500)]")
    assert len(desk.changes("n")) == 501
    desk.ok("commit", "n")
    assert all((desk.base / f"h{i}").read_text() == "h" for i in range(500))
    gone(desk)


def test_marks_of_the_guest(desk):
    """Attributes and devices that mean something to the kernel are only data when a guest made them."""
    if desk.level == "landlock":
        pytest.skip("no attributes at this level")
    before = picture(desk.base)
    guest(desk, "os.setxattr('d', 'user.overlay.opaque', b'y'); os.setxattr('d/inner', 'user.overlay.whiteout', b'y'); os.setxattr('d', 'user.overlay.redirect', b'/etc'); os.setxattr('file', 'user.mine', b'1'); os.mkdir('new'); [os.setxattr(n, 'user.overlay.' + a, b'y') for n in ('file', 'new') for a in ('opaque', 'overlay.opaque', 'x')]")  # fmt: skip
    guest(desk, "assert os.listdir('d') and open('d/inner').read() == 'inner\\n' and os.getxattr('d', 'user.overlay.opaque') == b'y'")
    kinds = {c["path"]: c["kind"] for c in desk.json("diff", "n")["changes"]}
    assert "deleted" not in kinds.values(), kinds
    assert_same(before, desk.base)
    os.setxattr(desk.base / "d" / "e", "user.overlay.opaque", b"y")  # could be set
    os.removexattr(desk.base / "d" / "e", "user.overlay.opaque")
    desk.ok("commit", "n")
    assert sorted(os.listdir(desk.base / "d")) == ["e", "inner"]
    assert os.listxattr(desk.base / "file") == ["user.mine"]
    assert not [name for where in ("d", "d/inner", "new") for name in os.listxattr(desk.base / where) if "overlay" in name]
    assert os.getxattr(desk.base / "file", "user.mine") == b"1"
    gone(desk)


@pytest.mark.slow
def test_large_patch(me):
    """What is held in memory has a size; what goes to a file has none."""
    desk = make_desk(me, "namespaces")
    guest(desk, "for i in range(100): open(f'{i}', 'w').write(('x' * 99 + chr(10)) * 30000)")
    desk.fails("diff", "--stat", "n", timeout=300, says=["larger than 256 MiB", "> FILE"])
    assert len(desk.ok("diff", "--patch", "n", timeout=300)) > 300_000_000
    gone(desk)
