# SPDX-License-Identifier: Apache-2.0
"""cordon sandbox list, gc: private directories that the Python package keeps. They are made here as
its _store.py makes them, and filled by real runs."""

import fcntl
import json
import os
import pathlib
import stat
import time

import pytest

from conftest import IS_ROOT

LINES = "echo 12345 > /tmp/a; mkdir ~/d; echo 1 > ~/d/b"


def old(path, days):
    then = time.time() - days * 86400
    os.utime(path, (then, then), follow_symlinks=False)


def give(me, path):
    os.chown(path, me.uid, me.gid, follow_symlinks=False)


@pytest.fixture
def store(me):
    for name in ("home/.local", "home/.local/state", "home/.local/state/cordon"):
        me.mkdir(name).chmod(0o700)
    path = me.mkdir("home/.local/state/cordon/sandboxes")
    path.chmod(0o700)
    return path


def make(me, store, which, keep, days=0, fill=None):
    """A sandbox's directory that nobody uses; @days old in everything whose time can be set."""
    path = store / which
    if fill is not None:
        done = me.run(["--private", path], ["/bin/sh", "-c", fill])
        assert (done.returncode, done.stderr) == (0, b""), done
    else:
        path.mkdir(mode=0o700)
        give(me, path)
    if keep is not None:
        me.write(path / "meta.json", json.dumps({"keep": keep, "workdir": None}))
    me.write(path / "lock", "")
    for name in ("meta.json", "lock", "held"):
        if (path / name).exists():
            give(me, path / name)
            old(path / name, days)
    old(path, days)
    return path


def sandbox(me, *words, status=0):
    done = me.outside([me.cordon, "sandbox", *words])
    assert done.returncode == status, done
    return done


def listed(me):
    return {one["id"]: one for one in json.loads(sandbox(me, "list", "--json").stdout)}


def gc(me, *words):
    return sandbox(me, "gc", *words).stdout.decode()


def names(store):
    return sorted(p.name for p in store.iterdir())


def test_nothing_there(me):
    assert sandbox(me, "list").stdout == b"" and listed(me) == {}
    assert gc(me) == "nothing to remove\n"
    assert json.loads(gc(me, "--json")) == {"sandboxes": [], "removed": 0}
    assert not (me.home / ".local/state/cordon/sandboxes").exists()


def test_list(me, store):
    path = make(me, store, "s00000001", True, days=9, fill=LINES)
    make(me, store, "s00000002", False, days=2)
    got = listed(me)
    assert sorted(got) == ["s00000001", "s00000002"]
    one, two = got["s00000001"], got["s00000002"]
    assert one["dir"] == str(path) and one["kept"] is True and two["kept"] is False
    # Three of the run, and mount points of the grant that this test lies below.
    assert one["files"] >= 3 and one["bytes"] >= 4096 and two["files"] == two["bytes"] == 0
    assert not one["partial"] and not one["in_use"] and not two["in_use"]
    assert time.time() - one["created"] > 8 * 86400
    # tmp and home have changed just now, whatever time the other files show.
    assert time.time() - one["used"] < 3600 and abs(time.time() - two["used"] - 2 * 86400) < 3600
    text = sandbox(me, "list").stdout.decode().splitlines()
    assert text[0].split() == ["ID", "SIZE", "AGE", "USED", "STATE", "DIRECTORY"]
    assert text[1].split()[0] == "s00000001" and text[1].endswith(f"kept    {path}")
    assert text[2].split()[-2] == "left"


def test_gc_removes_what_was_left_and_no_more(me, store):
    make(me, store, "s00000001", True, days=400)
    make(me, store, "s00000002", False, days=1, fill=LINES)
    make(me, store, "s00000003", None, days=1)  # its maker died before it wrote anything
    make(me, store, "s00000004", False)  # it may be in the making
    me.write(store / "s00000003" / "meta.json", "{damaged")
    code = me.mkdir(store / ".c0123456789abcdef")
    me.write(code / "lock", "")
    me.write(code / "script.py", "1")
    old(code, 1)
    old(store / "s00000003", 1)
    before = names(store)
    said = gc(me, "--dry-run").splitlines()
    assert [line.split()[:3] for line in said] == [
        ["would", "remove", name] for name in (".c0123456789abcdef", "s00000002", "s00000003")
    ]
    assert names(store) == before
    got = json.loads(gc(me, "--json"))
    assert got["removed"] == 3 and {one["why"] for one in got["sandboxes"]} == {"left by a program that was killed"}
    assert names(store) == ["s00000001", "s00000004"]
    assert gc(me) == "nothing to remove\n"


def test_gc_of_what_was_kept_goes_by_its_last_use(me, store):
    for which, days in (("s00000001", 40), ("s00000002", 5), ("s00000003", 0)):
        make(me, store, which, True, days=days)
    # The time at which a sandbox was used is that of its lock.
    used = make(me, store, "s00000004", True, days=40)
    os.utime(used / "lock")
    assert gc(me) == "nothing to remove\n" and len(names(store)) == 4
    assert gc(me, "--older-than", "30d") == "removed s00000001 (0): kept, and not used for so long\n"
    assert names(store) == ["s00000002", "s00000003", "s00000004"]
    gc(me, "--older-than", "0s")
    assert names(store) == []


def test_what_is_in_use_stays(me, store):
    path = make(me, store, "s00000001", False, days=9, fill=LINES)
    with open(path / "lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert listed(me)["s00000001"]["in_use"] is True
        assert sandbox(me, "list").stdout.decode().splitlines()[1].split()[4:6] == ["in", "use"]
        assert gc(me, "--older-than", "0s") == "nothing to remove\n" and path.exists()
        # Who only looks keeps nobody from using it.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert listed(me)["s00000001"]["in_use"] is False
    assert gc(me).startswith("removed s00000001 (") and names(store) == []


def test_one_in_the_making_is_not_locked(me, store):
    """Its maker makes the lock and takes it without waiting, before it writes anything else. Whoever only
    looks would be in the way between the two."""
    path = make(me, store, "s00000001", None)
    assert listed(me)["s00000001"]["in_use"] is True
    assert gc(me, "--older-than", "0s") == "nothing to remove\n" and path.exists()
    old(path, 1)
    assert listed(me)["s00000001"]["in_use"] is False and gc(me).startswith("removed s00000001 (")


def test_one_that_was_half_removed(me, store):
    fresh, half = ".s0000000100000000", ".s0000000200000000"
    for name in (fresh, half):
        make(me, store, name, True)
    # The time of a rename cannot be set: so that one is young, and who renamed it is at it.
    assert gc(me, "--older-than", "0s") == "nothing to remove\n"
    assert names(store) == [fresh, half] and listed(me) == {}


@pytest.mark.parametrize("name", ["s0000001", "s00000001x", "sZZZZZZZZ", "notes", "..s0000001"])
def test_other_names_are_left_alone(me, store, name):
    make(me, store, name, False, days=99)
    assert listed(me) == {} and gc(me, "--older-than", "0s") == "nothing to remove\n" and names(store) == [name]


def test_nothing_is_followed(me, store):
    """Links of the user's own in the store, and of a guest in its part."""
    precious = me.mkdir("precious")
    me.write(precious / "file", "x")
    make(me, store, "s00000001", False, days=1,
         fill=f"ln -s {precious} /tmp/link; ln -s {precious} ~/link; mkdir /tmp/closed; echo 1 > /tmp/closed/x")
    (store / "s00000002").symlink_to(precious)
    os.chmod(store / "s00000001/tmp/closed", 0)
    got = listed(me)
    assert sorted(got) == ["s00000001"]
    # Only root sees into what a guest has closed; another user is told that there is more.
    assert got["s00000001"]["partial"] is (me.name != "root")
    assert stat.S_IMODE(os.stat(store / "s00000001/tmp/closed").st_mode) == 0
    assert gc(me).startswith("removed s00000001 (")
    assert names(store) == ["s00000002"] and (precious / "file").read_text() == "x"


def test_a_guest_cannot_keep_its_files_by_their_time(me, store):
    """Times in the future: those that count are not the guest's to set."""
    path = make(me, store, "s00000001", True, days=40, fill="touch -d 2199-01-01 /tmp/a /tmp ~")
    assert os.stat(path / "tmp").st_mtime > time.time() + 86400  # it worked
    assert listed(me)["s00000001"]["used"] <= time.time() + 1
    assert gc(me, "--older-than", "0s").startswith("removed ")


def test_what_cannot_be_removed_is_told_and_the_rest_goes(me, store):
    bad = make(me, store, "s00000001", False, days=1)
    (bad / "strange").mkdir()  # so it is no private directory
    give(me, bad / "strange")
    old(bad, 1)
    make(me, store, "s00000002", False, days=1)
    done = sandbox(me, "gc", status=125)
    assert done.stdout.decode().startswith("removed s00000002 (")
    assert done.stderr.count(b"\n") == 1 and b"is not a private directory" in done.stderr
    assert len(names(store)) == 1 and names(store)[0].startswith(".s00000001")


def test_a_store_of_others_is_not_touched(me, store):
    make(me, store, "s00000001", False, days=9)
    store.chmod(0o777)
    assert listed(me) == {} and gc(me) == "nothing to remove\n" and names(store) == ["s00000001"]
    store.chmod(0o700)
    store.parent.chmod(0o770)
    assert listed(me) == {} and gc(me) == "nothing to remove\n"
    store.parent.chmod(0o700)
    if IS_ROOT:
        os.chown(store, 12345, 12345)
        assert listed(me) == {} and gc(me) == "nothing to remove\n" and names(store) == ["s00000001"]


def test_without_a_home(me, store):
    """Where there is no home, they lie in the directory for temporary files."""
    tmp = me.mkdir("tmpdir")
    for name in (f"cordon-{me.uid}", f"cordon-{me.uid}/sandboxes"):
        me.mkdir(tmp / name).chmod(0o700)
    make(me, tmp / f"cordon-{me.uid}/sandboxes", "s00000001", False, days=1)
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp)}
    done = me.outside([me.cordon, "sandbox", "list"], env=env)
    assert done.returncode == 0 and b"s00000001" in done.stdout, done
    assert me.outside([me.cordon, "sandbox", "gc"], env=env).stdout.startswith(b"removed s00000001")


@pytest.mark.parametrize("words, said", [
    (["gc", "--older-than", "soon"], "soon"),
    (["gc", "--older-than"], "--older-than"),
    (["list", "s00000001"], "takes no argument"),
    (["gc", "s00000001"], "takes no argument"),
    (["list", "--older-than", "1d"], "--older-than"),
    (["purge"], "purge"),
])
def test_wrong_usage(me, words, said):
    done = sandbox(me, *words, status=125)
    assert done.stdout == b"" and done.stderr.count(b"\n") == 1 and said.encode() in done.stderr
