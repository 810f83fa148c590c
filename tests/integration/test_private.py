# SPDX-License-Identifier: Apache-2.0
"""--private DIR: /tmp and home that are kept between runs."""

import json
import os
import pathlib
import stat
import subprocess

import pytest

from conftest import IS_ROOT, library, unavailable

NOBODY = 65534
# Where the two are inside, at both levels.
PLACES = 'T=/tmp; test -z "$TMPDIR" || T=$TMPDIR; H=$HOME; '


@pytest.fixture
def kept(me):
    """A place for a private directory that nothing grants."""
    return me.mkdir("state") / "kept"


def sh(me, opts, script, level, **kw):
    return me.run(opts, ["/bin/sh", "-c", PLACES + script], level, **kw)


def left(kept):
    """Names of what runs left, without mount points: the tests' directories lie below /tmp."""
    return [p.name for part in ("tmp", "home") for p in (kept / part).iterdir() if p.is_file()]


def owner(me, level):
    return NOBODY if me.name == "root" and level == "namespaces" else me.uid


# --- what stays ----------------------------------------------------------------------------------


def test_files_stay(me, level, kept):
    first = sh(me, ["--private", kept], "echo one > $T/a && mkdir $H/d && echo two > $H/d/b", level)
    assert (first.returncode, first.stderr) == (0, b"")
    second = sh(me, ["--private", kept], "cat $T/a $H/d/b; pwd", level)
    assert second.stdout.split()[:2] == [b"one", b"two"], second
    assert (kept / "tmp/a").read_text() == "one\n" and (kept / "home/d/b").read_text() == "two\n"
    assert stat.S_IMODE(os.stat(kept).st_mode) == 0o700 and os.stat(kept).st_uid == me.uid
    for part in ("tmp", "home", "tmp/a", "home/d"):
        assert os.lstat(kept / part).st_uid == owner(me, level), part
    assert stat.S_IMODE(os.stat(kept / "tmp").st_mode) == 0o1777


def test_fresh_without_it(me, level, kept):
    sh(me, ["--private", kept], "echo one > $T/a; echo two > $H/b", level)
    done = sh(me, [], "ls -A $T $H; cat $T/a $H/b", level)
    assert b"one" not in done.stdout and b"two" not in done.stdout, done
    # And what such a run leaves is not kept.
    sh(me, [], "echo three > $T/c; echo three > $H/c", level)
    assert sorted(left(kept)) == ["a", "b"]


def test_both_levels_see_the_same(me, kept):
    if me.name == "root":
        # Root's runs have another id at each level: said, not mixed up.
        assert sh(me, ["--private", kept], "true", "namespaces").returncode == 0
        done = sh(me, ["--private", kept], "true", "landlock")
        assert done.returncode == 125 and b"belongs to user 65534, but the run is user 0" in done.stderr
        return
    assert sh(me, ["--private", kept], "echo one > $T/a", "namespaces").returncode == 0
    assert sh(me, ["--private", kept], "cat $T/a", "landlock").stdout == b"one\n"


def test_var_tmp_is_the_same_tmp(me, kept):
    sh(me, ["--private", kept], "echo one > /var/tmp/a", "namespaces")
    assert (kept / "tmp/a").read_text() == "one\n"
    sh(me, ["--private", kept], "mkdir /tmp/d; printf '#!/bin/sh\npwd\n' > /tmp/d/prog; chmod +x /tmp/d/prog", "namespaces")
    done = me.run(["--private", kept, "-C", "/var/tmp/d"], ["/var/tmp/d/prog"], "namespaces")
    assert done.stdout == b"/var/tmp/d\n", done


def test_relative_to_the_current_directory(me, level):
    done = sh(me, ["--private", "../state"], "echo one > $T/a", level)
    assert done.returncode == 0, done
    assert (me.base / "state/tmp/a").exists()


def test_what_a_run_made_can_be_run(me, kept):
    """A program and a directory that only the private directory has."""
    opts = ["--private", kept]
    made = "printf '#!/bin/sh\\necho ran $0 $1\\npwd\\n' > /tmp/prog; chmod +x /tmp/prog; mkdir -p $H/w/x; cp /tmp/prog $H/w/"
    assert sh(me, opts, made, "namespaces").returncode == 0
    done = me.run([*opts, "-C", me.home / "w/x"], ["/tmp/prog", "1"], "namespaces")
    assert done.stdout.decode().split("\n")[:2] == ["ran /tmp/prog 1", str(me.home / "w/x")], done
    done = me.run([*opts, "-C", me.home / "w"], [me.home / "w/prog"], "namespaces")
    assert done.returncode == 0, done
    done = me.run([*opts, "-C", "/tmp/missing"], ["/bin/true"], "namespaces")
    assert done.returncode == 125 and b"cannot start in" in done.stderr, done


def test_programs_at_level_landlock(me, kept):
    opts = ["--private", kept]
    sh(me, opts, "printf '#!/bin/sh\\npwd\\n' > $T/prog; chmod +x $T/prog; mkdir $T/x", "landlock")
    done = me.run([*opts, "-C", kept / "tmp/x"], [kept / "tmp/prog"], "landlock")
    assert done.stdout.decode().strip() == str(kept / "tmp/x"), done


def test_commands_are_still_the_only_programs(me, level, kept):
    sh(me, ["--private", kept], "cp /bin/true $T/mine; cp /bin/true $H/mine", level)
    opts = ["--private", kept, "--commands", "sh"]
    done = sh(me, opts, "$T/mine && echo ran; $H/mine && echo ran; true", level)
    assert b"ran" not in done.stdout, done
    done = sh(me, ["--private", kept], "$T/mine && $H/mine && echo ran", level)
    assert done.stdout == b"ran\n", done


def test_mount_flags(me, kept):
    done = sh(me, ["--private", kept], "cat /proc/self/mountinfo", "namespaces")
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    flags = {line[4]: set(line[5].split(",")) for line in lines}
    for place in ("/tmp", str(me.home)):
        assert {"rw", "nosuid", "nodev"} <= flags[place], flags


def test_another_user_of_roots(me, kept):
    opts = ["--private", kept, "--user", "1234"]
    if me.name != "root":
        assert sh(me, opts, "true", "namespaces").returncode == 125 and not kept.exists()
        return
    assert sh(me, opts, "echo one > /tmp/a", "namespaces").returncode == 0
    assert os.stat(kept / "tmp/a").st_uid == 1234
    done = sh(me, ["--private", kept], "true", "namespaces")
    assert done.returncode == 125 and b"belongs to user 1234, but the run is user 65534" in done.stderr
    assert sh(me, opts, "true", "landlock").returncode == 125


# --- wrong directories ---------------------------------------------------------------------------


def refused(me, where, level, words):
    done = sh(me, ["--private", where], "echo ran", level)
    assert (done.returncode, done.stdout) == (125, b""), done
    lines = done.stderr.decode().splitlines()
    assert len(lines) <= 2 and all(word in done.stderr.decode() for word in words), lines


def test_wrong_directories(me, level):
    base = me.mkdir("state")
    me.write(base / "file")
    real = me.mkdir("state/real", 0o700)
    os.symlink(real, base / "link")
    me.own(base / "link")
    refused(me, base / "file", level, ["file", "not a link or a file"])
    refused(me, base / "link", level, ["link", "not a link or a file"])
    refused(me, base / "link/dir", level, ["link' is a link that a command may have made", str(real)])
    refused(me, base / "missing/dir", level, ["missing/dir", "has to exist"])
    refused(me, "/", level, ["'/' cannot be"])
    me.mkdir("state/open", 0o777)
    refused(me, base / "open", level, ["others can write", "chmod 700"])
    assert list(real.iterdir()) == []


def test_a_directory_that_is_used_for_something_else(me, level):
    """A mistyped path must not show a project's own tmp to a command, or litter a directory."""
    other = me.mkdir("other")
    for name in ("tmp", "project"):
        me.own(me.mkdir(f"other/{name}"))
    me.write(other / "tmp/mine", "mine")
    refused(me, other, level, ["is not a private directory", "something else in it"])
    assert sorted(os.listdir(other)) == ["project", "tmp"]
    os.rmdir(other / "project")
    os.symlink("/etc", other / "way")
    refused(me, other, level, ["is not a private directory"])
    # Plain files beside the two are the caller's business.
    own = me.mkdir("own")
    me.write(own / "notes", "x")
    done = sh(me, ["--private", own], "echo a > $T/a", level)
    assert done.returncode == 0 and (own / "tmp/a").exists(), done


def test_of_somebody_else(me, level):
    if not IS_ROOT:
        unavailable("only root can make another user's directory")
    base = me.mkdir("state")
    (base / "theirs").mkdir(0o755)
    os.chown(base / "theirs", 12345, 12345)
    refused(me, base / "theirs", level, ["belongs to user 12345"])


def test_parts_of_the_wrong_kind(me, level, kept):
    for part in ("tmp", "home"):
        bad = me.mkdir("state/bad-" + part, 0o700)
        os.symlink(me.out, bad / part)
        refused(me, bad, level, ["is not a directory"])
    assert list(me.out.iterdir()) == []


def test_dry_run_makes_nothing(me, level, kept):
    done = me.run(["--private", kept, "--dry-run"], ["/bin/true"], level)
    assert done.returncode == 0, done
    assert str(kept / "tmp") in done.stdout.decode() and not kept.exists()
    json.loads(done.stdout)


# --- what guests leave ---------------------------------------------------------------------------

JUNK = r"""
import os, stat, sys
tops = (os.environ.get("TMPDIR", "/tmp"), os.environ["HOME"])
for top in tops:
    os.chdir(top)
    os.symlink("/etc", "etc"); os.symlink("..", "up"); os.symlink("loop", "loop")
    os.mkfifo("fifo"); os.mknod("sock", stat.S_IFSOCK | 0o600)
    os.mkdir("shut"); open("shut/x", "w").write("x"); os.chmod("shut", 0)
    open("secret", "w").close(); os.chmod("secret", 0)
    open(b"\xff\n\x1b", "w").close()
    for name in ("held", ".cordon-mask", ".cordon-layers", "tmp", "home"):
        os.mkdir(name)
os.chdir(tops[0]); os.mkdir("deep"); os.chdir("deep")
for i in range(int(sys.argv[1])):
    os.mkdir("d"); os.chdir("d")
for top in reversed(tops):
    os.chmod(top, 0)
print("done")
"""


def test_junk_does_not_matter(me, level, kept):
    opts = ["--private", kept]
    # Deeper than any path can say, once: it takes a while.
    depth = "5000" if (me.name, level) == ("user", "namespaces") else "300"
    done = me.run([*opts, "-t", "60s"], ["/usr/bin/python3", "-S", "-c", JUNK, depth], level)
    assert done.stdout == b"done\n", done
    project = me.mkdir("home/project")
    me.write(project / "f", "text\n")
    done = sh(me, [*opts, "-r", project], f"cat {project}/f; touch $T/new $H/new && echo ok", level)
    assert done.stdout == b"text\nok\n", done
    remove(me, kept)
    assert not kept.exists()


def test_the_names_cannot_be_replaced(me, level, kept):
    script = (
        "mv $T $T-x; mv $H $H-x; rmdir $T; rmdir $H; rm -rf $T $H; ln -sfn /etc $T; "
        'ln -sfn /etc "$(dirname $T)/tmp"; mkdir "$(dirname $T)/more" 2>/dev/null; echo x > "$(dirname $H)/held"; true'
    )
    before = sh(me, ["--private", kept], "true", level)
    assert before.returncode == 0, before
    numbers = [os.lstat(kept / part).st_ino for part in ("tmp", "home")]
    sh(me, ["--private", kept], script, level)
    assert [os.lstat(kept / part).st_ino for part in ("tmp", "home")] == numbers
    assert sorted(os.listdir(kept)) == ["held", "home", "tmp"]
    assert sh(me, ["--private", kept], "echo again > $T/a && cat $T/a", level).stdout == b"again\n"


LINKS = {
    "at the name": ("ln -s {out} {place}/grant", "{place}/grant"),
    "on the way": ("ln -s {out} {place}/way", "{place}/way/grant"),
    "to the root": ("ln -s / {place}/way", "{place}/way/grant"),
    "a file": ("echo x > {place}/grant", "{place}/grant"),
    "a fifo": ("mkfifo {place}/grant", "{place}/grant"),
}


@pytest.mark.parametrize("what", LINKS)
@pytest.mark.parametrize("where", ["tmp", "home"])
def test_something_else_at_a_mount_point(me, kept, what, where, session_dir):
    """A link that an earlier run left where a grant's mount point has to be is not followed."""
    if where == "home":
        place = me.home
    else:
        place = me.mkdir("tmp-place")  # below /tmp, and not in the home
        assert str(place).startswith("/tmp/")
    make, grant = (text.format(place=place, out=me.out) for text in LINKS[what])
    opts = ["--private", kept]
    done = sh(me, opts, f"mkdir -p {place}; {make}", "namespaces")
    assert done.returncode == 0, done
    pathlib.Path(grant).mkdir(parents=True)
    me.write(pathlib.Path(grant) / "f", "text\n")
    for path in (grant, os.path.dirname(grant)):
        me.own(path)
    done = sh(me, [*opts, "-r", grant], f"cat {grant}/f", "namespaces")
    assert done.returncode == 125 and b"text" not in done.stdout, done
    assert b"an earlier run left something else" in done.stderr, done.stderr
    assert list(me.out.iterdir()) == []
    # A run can put that right.
    sh(me, opts, f"rm {place}/grant {place}/way", "namespaces")
    assert sh(me, [*opts, "-r", grant], f"cat {grant}/f", "namespaces").stdout == b"text\n"


def test_grants_inside(me, kept):
    """Grants below /tmp and home lie on top, again and again; nothing is copied into the directory."""
    opts = ["--private", kept]
    project = me.mkdir("home/a/project")
    single = me.write(me.home / "single", "single\n")
    me.write(project / "f", "text\n")
    opts += ["-w", project, "-r", single]
    for i in range(3):
        done = sh(me, opts, f"cat {project}/f {single}; echo {i} > {project}/g; echo x > {single}", "namespaces")
        assert done.stdout == b"text\nsingle\n", done
    assert (project / "g").read_text() == "2\n" and single.read_text() == "single\n"
    inside = kept / "home/a/project"
    assert inside.is_dir() and list(inside.iterdir()) == []
    assert (kept / "home/single").read_bytes() == b""


def test_links_on_the_way_to_grants(me, kept):
    """A link that a typed path goes through is there inside, whatever an earlier run made of it."""
    real = me.mkdir("home/real")
    me.write(real / "f", "text\n")
    os.symlink("real", me.home / "link")
    me.own(me.home / "link")
    opts = ["--private", kept, "-r", me.home / "link"]
    for mess in ("true", f"ln -sfn /etc {me.home}/link", f"rm {me.home}/link"):
        done = sh(me, opts, f"cat {me.home}/link/f; {mess}", "namespaces")
        assert done.stdout == b"text\n", (mess, done)
    sh(me, ["--private", kept], f"rm {me.home}/link; mkdir {me.home}/link", "namespaces")
    done = sh(me, opts, "true", "namespaces")
    assert done.returncode == 125 and b"an earlier run left" in done.stderr


def test_the_host_follows_no_link(me, kept):
    """The program's path is not looked up through links that runs left."""
    secret = me.write(me.out / "prog", "#!/bin/sh\necho secret\n", 0o755)
    opts = ["--private", kept]
    sh(me, opts, f"ln -s {secret} /tmp/prog; ln -s {me.out} /tmp/dir", "namespaces")
    for path in ("/tmp/prog", "/tmp/dir/prog"):
        done = me.run(opts, [path], "namespaces")
        assert done.returncode in (126, 127) and b"secret" not in done.stdout, done


def test_start_directory_through_a_link(me, kept):
    """At level landlock a link that a run left does not lead the set-up astray."""
    sh(me, ["--private", kept], f"ln -s {me.out} $T/x", "landlock")
    done = me.run(["--private", kept, "-C", kept / "tmp/x"], ["/bin/pwd"], "landlock")
    assert done.returncode == 125 and str(me.out).encode() not in done.stdout, done


# --- it is hidden --------------------------------------------------------------------------------


def test_hidden_in_a_grant(me, kept):
    sh(me, ["--private", kept], "echo canary > $T/a", "namespaces")
    for grant in ("-r", "-w"):
        script = f"ls -A {kept}; cat {kept}/tmp/a; mv {kept} {kept}-x; rm -rf {kept}; ln -s /etc {kept}/tmp2; cat $T/a"
        done = sh(me, ["--private", kept, grant, kept.parent], script, "namespaces")
        assert done.stdout == b"canary\n", done
    assert sorted(os.listdir(kept)) == ["held", "home", "tmp"] and (kept / "tmp/a").exists()
    # The control: the grant itself works.
    me.write(kept.parent / "beside", "beside\n")
    done = sh(me, ["--private", kept, "-r", kept.parent], f"cat {kept.parent}/beside", "namespaces")
    assert done.stdout == b"beside\n"


def test_hidden_from_other_runs(me):
    """The guest does not see the state directory, with or without a private directory."""
    place = me.mkdir("home/.local/state/cordon/sandboxes")
    for up in (me.home / ".local", me.home / ".local/state", place.parent):
        me.own(up)
        os.chmod(up, 0o700)
    sh(me, ["--private", place / "one"], "echo canary > $T/a", "namespaces")
    assert (place / "one/tmp/a").exists()
    for grant in (me.home, place.parent, place):
        done = sh(me, ["-w", grant], f"cat {place}/one/tmp/a; ls -A {place}; rm -rf {place}/one; true", "namespaces")
        assert b"canary" not in done.stdout and b"one" not in done.stdout, (grant, done)
    assert (place / "one/tmp/a").exists()


def test_write_grant_around_it_at_level_landlock(me, kept):
    done = sh(me, ["--private", kept, "-w", kept.parent], "echo ran", "landlock")
    assert (done.returncode, done.stdout) == (125, b"") and b"out of a write grant" in done.stderr
    # Other runs' directories are out of reach.
    sh(me, ["--private", kept], "echo canary > $T/a", "landlock")
    other = kept.parent / "other"
    done = sh(me, ["--private", other], f"cat {kept}/tmp/a; echo x > {kept}/tmp/b; ls {kept}; true", "landlock")
    assert done.stdout == b"" and not (kept / "tmp/b").exists(), done


# --- at the same time ----------------------------------------------------------------------------


def test_two_at_once(me, level, kept):
    wait = "for i in $(seq 400); do test -e $T/{0} && break; sleep 0.05; done; test -e $T/{0} && echo met"
    a = me.popen(me.argv(["--private", kept], ["/bin/sh", "-c", PLACES + "echo > $T/a; " + wait.format("b")], level),
                 stdout=subprocess.PIPE)  # fmt: skip
    b = me.popen(me.argv(["--private", kept], ["/bin/sh", "-c", PLACES + wait.format("a") + "; echo > $T/b"], level),
                 stdout=subprocess.PIPE)  # fmt: skip
    assert a.communicate(timeout=60)[0] == b"met\n" and b.communicate(timeout=60)[0] == b"met\n"
    assert (a.returncode, b.returncode) == (0, 0)


def test_many_make_it_at_once(me, level, kept):
    runs = [
        me.popen(me.argv(["--private", kept], ["/bin/sh", "-c", PLACES + f"echo > $T/{i}"], level))
        for i in range(12)
    ]
    assert [run.wait(timeout=60) for run in runs] == [0] * 12
    assert sorted(left(kept)) == sorted(map(str, range(12)))
    assert sorted(os.listdir(kept)) == ["held", "home", "tmp"]


# --- with a workspace ----------------------------------------------------------------------------


def test_with_a_workspace(me, level, kept):
    base = me.mkdir("project")
    me.write(base / "f", "text\n")
    opts = ["--private", kept, "--workspace", base, "--name", "one"]
    for i in range(2):
        script = f"cd $CORDON_WORKSPACE; cat f; echo {i} >> new; cat new; echo {i} >> $T/a; cat $T/a"
        done = sh(me, opts, script, level)
        assert done.returncode == 0, done
    assert done.stdout == b"text\n0\n1\n0\n1\n", done
    assert sorted(os.listdir(base)) == ["f"] and (kept / "tmp/a").read_text() == "0\n1\n"


def test_workspace_below_the_home(me, kept):
    base = me.mkdir("home/project")
    me.write(base / "f", "text\n")
    opts = ["--private", kept, "--workspace", base, "--deny", base / "secret"]
    done = sh(me, opts, "cd $CORDON_WORKSPACE; cat f; echo x > f; echo y > ~/y; ls -A", "namespaces")
    assert done.stdout.startswith(b"text\n") and done.returncode == 0, done
    assert (base / "f").read_text() == "text\n" and (kept / "home/y").read_text() == "y\n"


# --- removing ------------------------------------------------------------------------------------


def remove(me, path):
    """cordon_private_remove(), as @me, in a process of its own."""
    script = (
        "import ctypes,sys; lib=ctypes.CDLL(sys.argv[1]); err=ctypes.create_string_buffer(4096); "
        "r=lib.cordon_private_remove(sys.argv[2].encode(), None); print(r); sys.exit(r != 0)"
    )
    return me.outside(["/usr/bin/python3", "-S", "-c", script, library(), path], timeout=120)


def test_remove(me, level, kept):
    assert remove(me, kept).returncode == 0  # nothing there
    sh(me, ["--private", kept], f"ln -s {me.out} $T/out; mkdir $T/d; touch $T/d/x; chmod 0 $T/d", level)
    me.write(me.out / "canary")
    assert remove(me, kept).returncode == 0
    assert not kept.exists() and (me.out / "canary").exists()


def test_remove_only_what_is_one(me):
    other = me.mkdir("other", 0o700)
    me.write(other / "precious")
    assert remove(me, other).returncode != 0 and (other / "precious").exists()
    os.symlink(other, me.base / "link")
    assert remove(me, me.base / "link").returncode != 0
    assert remove(me, "relative").returncode != 0


@pytest.mark.parametrize("part", ["tmp", "home", "held"])
def test_remove_leaves_what_only_looks_like_one(me, part):
    """Home directories and /var have a tmp, too."""
    other = me.mkdir("other")
    me.mkdir("other/" + part)
    me.write(other / "precious")
    assert remove(me, other).returncode != 0
    assert (other / "precious").exists() and (other / part).exists()
    (other / "precious").unlink()
    (other / ".0123456789abcdef").mkdir()  # of a run that was killed while it made one
    assert remove(me, other).returncode == 0 and not other.exists()
