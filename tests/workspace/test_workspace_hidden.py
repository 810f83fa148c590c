# SPDX-License-Identifier: Apache-2.0
"""Layers, records and other workspaces cannot be found from inside, whatever is granted."""

import os
import subprocess

import pytest

from conftest import rows
from workspacelib import assert_same, picture, store, tree

# Looks at everything that there is: names, inode numbers, contents, and what /proc tells.
SEARCH = r"""
import os, stat, sys
canary, numbers = sys.argv[1].encode(), set(map(int, sys.argv[2].split(",")))
view = os.environ.get("CORDON_WORKSPACE", "/nowhere")
found, looked = [], 0
for where, dirs, files in os.walk("/", onerror=lambda e: None):
    if where == "/proc":
        dirs[:] = ["self"]
    if where in ("/usr", "/lib", "/lib64", "/bin", "/sbin"):
        dirs[:] = []
    if where.startswith("/proc/self") and where.count("/") > 3:
        dirs[:] = []
    inside = where == view or where.startswith(view + "/")
    for name in dirs + files:
        path = os.path.join(where, name)
        if path == view:
            continue
        try:
            st = os.lstat(path)
        except OSError:
            continue
        looked += 1
        if st.st_ino in numbers and not inside and not where.startswith("/proc"):
            found.append("inode of " + path)
        if inside:
            continue
        if where.startswith("/proc") and stat.S_ISLNK(st.st_mode):
            try:
                if canary in os.readlink(path).encode():
                    found.append("link " + path)
            except OSError:
                pass
        elif stat.S_ISREG(st.st_mode) and st.st_size < 1 << 20:
            try:
                with open(path, "rb") as f:
                    if canary in f.read(1 << 20):
                        found.append("content of " + path)
            except OSError:
                pass
print("looked", looked)
for line in found:
    print(line.replace(" ", "-", 1).replace(" ", "_"), "found")
"""


@pytest.fixture
def kept(me):
    """A workspace with a canary in it, and another of the same caller."""
    base = tree(me, me.mkdir("base"), {"file": "text\n", "sub/inner": "inner\n"})
    other = tree(me, me.mkdir("other"), {"file": "text\n"})
    canary = "canary-" + os.urandom(8).hex()
    script = f'cd "$CORDON_WORKSPACE"; echo {canary} > made; echo {canary} > sub/inner; mkdir d; echo {canary} > d/e'
    for where, name in ((base, "one"), (other, "two")):
        done = me.run(["--workspace", where, "--name", name], ["sh", "-c", script])
        assert done.returncode == 0, done
    # Only of files that stay: the inode numbers of rewritten records may soon belong to other files.
    inodes = []
    for upper in store(me).glob("w*/upper"):
        inodes += [os.lstat(p).st_ino for p in (upper, upper.parent, *upper.rglob("*"))]
    assert len(inodes) >= 10
    return base, canary, ",".join(map(str, inodes))


def search(me, opts, canary, inodes, level=None):
    argv = ["/usr/bin/python3", "-S", "-c", SEARCH, canary, inodes]
    done = me.run(opts, argv, level, timeout=120)
    assert done.returncode == 0, done.stderr
    got = rows(done.stdout)
    assert int(got.pop("looked")) > 50
    return sorted(got)


GRANTS = {"nothing": [], "read": ["-r", "HOME"], "write": ["-w", "HOME"], "no-protect": ["-w", "HOME", "--no-protect"],
          "state": ["-w", "HOME/.local/state"], "store": ["-r", "HOME/.local/state/cordon/workspaces"]}  # fmt: skip


@pytest.mark.parametrize("grant", GRANTS)
def test_cannot_be_found(me, kept, grant):
    base, canary, inodes = kept
    before = picture(store(me))
    opts = [o.replace("HOME", str(me.home)) for o in GRANTS[grant]]
    assert search(me, ["--workspace", base, "--name", "one", *opts], canary, inodes, "namespaces") == []
    # In a run that has nothing to do with workspaces as well.
    assert search(me, ["-w", me.work, *opts], canary, inodes, "namespaces") == []
    gone = [p for p in before if p not in picture(store(me))]
    assert not gone, gone


def test_control(me, kept):
    """The same search without a sandbox finds all of it."""
    base, canary, inodes = kept
    script = SEARCH.replace('os.walk("/",', f"os.walk({str(me.home)!r},")
    done = me.outside(["/usr/bin/python3", "-S", "-c", script, canary, inodes], env={"CORDON_WORKSPACE": str(base)})
    got = rows(done.stdout)
    assert sum(line.startswith("content-of") for line in got) >= 5, got
    assert sum(line.startswith("inode-of") for line in got) >= 10, got


def test_what_the_kernel_tells(me, kept):
    """Mount tables, descriptors and the environment name nothing of the store."""
    base, _, _ = kept
    script = (
        "cat /proc/self/mountinfo /proc/self/mounts /proc/self/mountstats /proc/mounts; env; cat /proc/*/environ; "
        "ls -l /proc/*/fd /proc/*/cwd /proc/*/root /proc/*/exe; cat /proc/*/maps /proc/*/cmdline; cat /proc/locks"
    )
    opts = ["--workspace", base, "--name", "one"]
    done = me.run(opts, ["sh", "-c", script + " 2>/dev/null; true"], "namespaces")
    assert b" overlay " in done.stdout, done
    ids = [p.name for p in store(me).glob("w*")]
    assert len(ids) == 2
    for word in (*ids, "cordon/workspaces", str(me.home / ".local")):
        assert word.encode() not in done.stdout, word


def test_write_grant_of_home_keeps_the_store(me, kept):
    """A write grant of the home does not let the guest change the records either."""
    base, _, _ = kept
    places = [store(me), *store(me).glob("w*")]
    before = [picture(p) for p in places]
    script = f"cd {me.home}/.local/state/cordon; rm -rf workspaces; mv workspaces away; mv ../cordon ../away; mkdir -p workspaces/x; chmod 777 workspaces; cd ..; rm -rf cordon; ls -A cordon/workspaces; true"  # fmt: skip
    done = me.run(["-w", me.home, "--no-protect"], ["sh", "-c", script], "namespaces")
    assert done.returncode == 0, done
    for place, old in zip(places, before):
        assert_same(old, place)


@pytest.mark.parametrize("grant", ["read", "store", "above"])
def test_read_grants_at_level_landlock(me, kept, grant):
    """What is kept is left out of a read grant around it, and the rest of the grant is there."""
    base, canary, _ = kept
    beside = me.write(me.home / "beside", "beside\n")
    opts = {"read": ["-r", me.home], "store": ["-r", store(me), "-r", beside], "above": ["-r", me.base]}[grant]
    kept_files = [str(p) for p in store(me).rglob("*") if p.is_file()]
    argv = ["cat", *kept_files, str(beside)]
    assert canary in me.outside(argv).stdout.decode(), "positive control"
    for more in ([], ["--workspace", base, "--name", "three"]):
        done = me.run([*more, *opts], ["sh", "-c", '"$@"; pwd >/dev/null', "sh", *argv], "landlock")
        assert (done.returncode, done.stdout) == (0, b"beside\n"), done


def test_a_read_grant_can_be_listed_at_level_landlock(me, kept):
    """Names are no secret at that level; content is, and so are names that the policy denies."""
    me.write(me.home / "beside", "beside\n")
    done = me.run(["-r", me.home], ["ls", me.home], "landlock")
    assert (done.returncode, done.stdout) == (0, b"beside\n"), done
    program = me.write(store(me) / "program", "#!/bin/sh\necho ran\n", 0o755)
    assert me.outside([program]).stdout == b"ran\n", "positive control"
    assert me.run(["-r", me.home], ["sh", "-c", f"{program}; true"], "landlock").stdout == b""
    denied = me.mkdir("home/denied")
    me.write(denied / "canary")
    done = me.run(["-r", me.home, "--deny", denied], ["ls", me.home, denied], "landlock")
    assert done.returncode != 0 and done.stdout == b"", done


def test_a_store_made_during_the_run_at_level_landlock(me):
    """It does not exist when the run begins, and is not shown either once another run has made it."""
    me.write(me.home / "beside", "beside\n")
    secret = store(me) / "w0" / "secret"
    script = f"cat {me.home}/beside; while [ ! -e go ]; do sleep 0.01; done; cat {secret}; echo end"
    run = me.popen(me.argv(["-r", me.home, "-w", "."], ["sh", "-c", script], "landlock"),
                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert run.stdout.readline() == b"beside\n"
    secret.parent.mkdir(parents=True)
    me.write(secret, "canary")
    for path in (*secret.relative_to(me.home).parents,):
        me.own(me.home / path)
    assert me.outside(["cat", secret]).stdout == b"canary", "positive control"
    me.write(me.work / "go")
    assert run.communicate(timeout=30)[0] == b"end\n"


def test_write_grant_of_home_at_level_landlock(me):
    """Refused, whether or not there is a store: the command could make one."""
    for _ in range(2):
        done = me.run(["-w", me.home], ["sh", "-c", f"echo ran > {me.home}/ran"], "landlock")
        assert done.returncode == 125 and b"out of a write grant" in done.stderr, done
        assert not (me.home / "ran").exists()
        store(me).mkdir(parents=True, exist_ok=True)


def test_neighbours_at_level_landlock(me, kept):
    """Without a mount namespace the copy's neighbours can be named, but not opened."""
    _, canary, _ = kept
    base = me.base / "other"
    script = (
        'cd "$CORDON_WORKSPACE" && echo own > own && cat own; '
        f"cat {store(me)}/*/upper/made {store(me)}/*/meta.json ../meta.json ../lock; ls {store(me)} ..; "
        "echo x > ../x; echo x > ../meta.json; rm -f ../records ../lock; mv ../tree ../away; true"
    )
    done = me.run(["--workspace", base], ["sh", "-c", script], "landlock")
    assert done.stdout == b"own\n", done
    assert canary.encode() not in done.stdout + done.stderr
