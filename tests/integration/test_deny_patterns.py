# SPDX-License-Identifier: Apache-2.0
"""--deny with patterns hides what matches when the run starts, and says what it cannot do."""

import json
import os
import subprocess

import pytest

READ = 'for f in "$@"; do cat "$f" 2>/dev/null; done; true'


def tree(me, names, top=None):
    for name in names:
        path = (top or me.work) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        me.write(path, f"<{name}>")
    subprocess.run(["chown", "-hR", f"{me.uid}:{me.gid}", str(me.base)], check=True)


def read(me, names, opts, level=None, cwd=None):
    """What of these files can be read outside, and inside."""
    argv, cwd = ["sh", "-c", READ, "sh", *names], cwd or me.work
    out = me.outside(argv, cwd=cwd)
    done = me.run(opts, argv, level, cwd=cwd)
    assert done.returncode == 0, done
    return out.stdout.decode(), done.stdout.decode()


NAMES = [".env", "a/.env", "a/b/.env", "a/b/x.pem", "y.pem", ".env.local", "plain", "a/plain"]
CASES = {
    "**/.env": [".env", "a/.env", "a/b/.env"],
    "*.pem": ["a/b/x.pem", "y.pem"],  # no slash: at any depth
    "./*.pem": ["y.pem"],
    "a/*/.env": ["a/b/.env"],
    "a/**": ["a/.env", "a/b/.env", "a/b/x.pem", "a/plain"],
    "a/**/*.pem": ["a/b/x.pem"],
    ".env*": [".env", "a/.env", "a/b/.env", ".env.local"],
    "./.env!(.local)": [".env"],
    "[py].pem": ["y.pem"],
    "**/b": ["a/b/.env", "a/b/x.pem"],
    "**/nothing": [],
}


@pytest.mark.parametrize("pattern", CASES)
def test_a_pattern_hides_what_matches(me, level, pattern):
    tree(me, NAMES)
    out, inside = read(me, NAMES, ["--deny", pattern], level)
    assert out == "".join(f"<{n}>" for n in NAMES)
    assert inside == "".join(f"<{n}>" for n in NAMES if n not in CASES[pattern])


@pytest.mark.parametrize("opts", [["-w", "."], ["--workspace", "."]])
def test_in_what_can_be_written(me, opts):
    """Hidden in write grants and in the copy-on-write view; not to be replaced, moved or removed."""
    tree(me, NAMES)
    out, inside = read(me, NAMES, [*opts, "--deny", "**/.env"])
    assert ".env>" in out and ".env>" not in inside and "<a/b/x.pem>" in inside
    attack = "echo mine > a/.env; mv a/.env x; rm -f a/.env; mv a z; cat x z/.env; true"
    done = me.run([*opts, "--deny", "**/.env"], ["sh", "-c", attack])
    assert b"<a/.env>" not in done.stdout, done
    assert (me.work / "a/.env").read_text() == "<a/.env>"


def test_absolute_pattern_home_and_several_grants(me, level):
    other = me.mkdir("other")
    tree(me, ["k.pem", "d/k.pem", "d/t"], other)
    tree(me, ["keys/a.key", "keys/b.txt"], me.home)
    tree(me, ["k.pem"])
    names = [f"{other}/k.pem", f"{other}/d/k.pem", f"{me.home}/keys/a.key", f"{me.home}/keys/b.txt", "k.pem"]
    opts = ["-r", other, "-r", f"{me.home}/keys"]
    _, inside = read(me, names, [*opts, "--deny", f"{other}/*.pem", "--deny", "~/keys/*.key"], level)
    assert inside == "<d/k.pem><keys/b.txt><k.pem>"
    # Without a slash: in all grants.
    _, inside = read(me, names, [*opts, "--deny", "*.pem"], level)
    assert inside == "<keys/a.key><keys/b.txt>"
    # A grant that matches by itself: deny wins.
    _, inside = read(me, names[:1], ["-r", other / "k.pem", "--deny", "*.pem"], level)
    assert inside == ""


def test_a_directory_reached_by_a_link(me, level):
    """The pattern is typed with a path that goes through a link."""
    tree(me, ["d/k.pem"])
    (me.base / "way").symlink_to(me.work)
    _, inside = read(me, ["d/k.pem"], ["--deny", f"{me.base}/way/d/*.pem"], level)
    assert inside == ""
    _, inside = read(me, ["d/k.pem"], ["--deny", "./d/*.pem"], level, cwd=me.base / "way")
    assert inside == ""


def test_a_directory_with_such_characters(me, level):
    """What lies around a pattern stands for itself: the current directory, or the policy's."""
    odd = me.mkdir("odd[1]*")
    tree(me, ["k.pem", "d/k.pem"], odd)
    _, inside = read(me, ["k.pem", "d/k.pem"], ["--deny", "./*.pem"], level, cwd=odd)
    assert inside == "<d/k.pem>"
    policy = me.write(odd / "policy.json", json.dumps({"fs": {"deny": ["./*.pem", "./d\\[1]"]}}))
    _, inside = read(me, ["k.pem", "d/k.pem"], ["-p", policy], level, cwd=odd)
    assert inside == "<d/k.pem>"


def test_a_name_with_such_characters(me, level):
    """Hidden as a name, whatever else it stands for."""
    tree(me, ["a[1].txt", "a1.txt", "a2.txt"])
    _, inside = read(me, ["a[1].txt", "a1.txt", "a2.txt"], ["--deny", "./a[1].txt"], level)
    assert inside == "<a2.txt>"
    _, inside = read(me, ["a[1].txt", "a1.txt", "a2.txt"], ["--deny", "a\\[1].txt"], level)
    assert inside == "<a1.txt><a2.txt>"


def test_links_and_odd_files(me, level):
    """No link is followed out of the grant, no FIFO is opened; a link's file in the grant is hidden."""
    tree(me, ["real", "plain"])
    tree(me, ["canary.pem"], me.out)
    (me.work / "x.pem").symlink_to("real")
    (me.work / "out").symlink_to(me.out)
    (me.work / "up.pem").symlink_to("..")
    (me.work / "usr.pem").symlink_to("/usr")
    os.mkfifo(me.work / "pipe.pem")
    os.mkfifo(me.work / "pipe")
    (me.work / "loop").symlink_to("loop")
    out, inside = read(me, ["x.pem", "real", "plain"], ["--deny", "*.pem"], level)
    assert out == "<real><real><plain>" and inside == "<plain>"


def test_a_virtual_environment_is_not_what_is_meant(me):
    me.outside(["/usr/bin/python3", "-m", "venv", "--without-pip", me.work / ".env"], check=True)
    tree(me, ["sub/.env"])
    script = '.env/bin/python -c "print(1)"; cat sub/.env; true'
    done = me.run(["--deny", "**/.env"], ["sh", "-c", script])
    assert done.stdout == b"1\n", done


def test_a_marker_of_one_opens_no_other_directory(me, level):
    """An earlier run may have left it there."""
    tree(me, ["keys/id"])
    me.write(me.work / "keys/pyvenv.cfg")
    out, inside = read(me, ["keys/id"], ["--deny", "k*s"], level)
    assert out == "<keys/id>" and inside == ""


@pytest.mark.parametrize("pattern", ["**/secrets/*.key", "**/a/secrets/x.key", "**/secrets/**/x.key", "**/secrets/x*"])
def test_a_pattern_that_begins_above_the_grant(me, level, pattern):
    """Its first names are those of the grant, or of the current directory."""
    tree(me, ["a/secrets/x.key", "a/secrets/plain"])
    here = me.work / "a/secrets"
    for opts, cwd in (([], here), (["-r", here], me.home)):
        names = [here / "x.key", here / "plain"]
        out, inside = read(me, names, [*opts, "--deny", pattern], level, cwd=cwd)
        assert out == "<a/secrets/x.key><a/secrets/plain>" and inside == "<a/secrets/plain>"


def test_what_cannot_be_searched_is_an_error(me):
    """The owner could open it again: nothing runs. What nobody of us can enter needs no search."""
    shut = me.mkdir("work/shut")
    tree(me, ["shut/.env"])
    os.chmod(shut, 0o300)
    done = me.run(["-w", ".", "--deny", "**/.env"], ["cat", "shut/.env"])
    if me.uid == 0:
        assert done.returncode == 1 and b"<" not in done.stdout, done
        return
    assert done.returncode == 125 and b"cannot look for '**/.env' in" in done.stderr, done
    done = me.run(["-w", "."], ["cat", "shut/.env"])
    assert done.stdout == b"<shut/.env>"
    os.chmod(shut, 0o700)
    if me.switch:  # only root can give it away
        os.chown(shut, 12345, 12345)
        assert me.run(["--deny", "**/.env"], ["true"]).returncode == 0


@pytest.mark.parametrize(
    "opts, text",
    [
        (["--deny", "**"], "cannot deny '**': it would hide everything"),
        (["--deny", "../*.pem"], "cannot deny '../*.pem'"),
        (["--deny", "many/*"], "more than 512 names match"),
    ],
)
def test_what_is_refused(me, opts, text):
    many = me.mkdir("work/many")
    for i in range(513):
        (many / f"f{i}").touch()
    done = me.run(opts, ["true"])
    assert done.returncode == 125 and text.encode() in done.stderr, done
    assert done.stderr.count(b"\n") <= 2


def test_later_names_are_not_hidden(me):
    """Documented: a pattern is about the moment in which the run starts."""
    tree(me, ["plain"])
    done = me.run(["-w", ".", "--deny", "**/.env"], ["sh", "-c", "echo new > .env; cat .env"])
    assert done.stdout == b"new\n", done


def test_what_earlier_runs_left_in_a_workspace(me):
    """The pattern finds names that only the workspace has, and not those that were deleted there."""
    tree(me, ["a/.env", "gone/.env", "keep"])
    ws = ["--workspace", ".", "--name", "w"]
    done = me.run(ws, ["sh", "-c", "mkdir n && mv a/.env n/.env && rm -r gone && cat n/.env"])
    assert done.stdout == b"<a/.env>", done
    done = me.run([*ws, "--deny", "**/.env"], ["sh", "-c", "cat n/.env a/.env; ls; cat keep"])
    assert done.stdout == b"a\nkeep\nn\n<keep>", done
    assert me.outside([me.cordon, "workspace", "discard", "w"]).returncode == 0


SECRETS = [".env", ".env.local", ".env.production", ".envrc", "id_rsa", "id_ed25519", "server.key", "x.p12",
           ".pypirc", ".netrc", "config/master.key"]
PUBLIC = [".env.example", ".env.sample", ".env.template", "id_rsa.pub", "cert.pem", "a.keys", ".npmrc", "main.py"]


def test_the_agent_preset_hides_secrets(me):
    """Those of the current directory; examples, certificates and public keys stay."""
    tree(me, SECRETS + PUBLIC)
    out, inside = read(me, SECRETS + PUBLIC, ["--preset", "agent"])
    assert out == "".join(f"<{n}>" for n in SECRETS + PUBLIC)
    assert inside == "".join(f"<{n}>" for n in PUBLIC)
    # Nothing is held that does not exist: a project without secrets looks as always.
    fresh = me.mkdir("fresh")
    done = me.run(["--preset", "agent"], ["sh", "-c", "echo x > .env && cat .env"], cwd=fresh)
    assert done.stdout == b"x\n", done


def test_in_a_policy_file(me):
    """Relative patterns belong to the file's directory; those without a slash to every grant."""
    tree(me, ["p/k.pem", "p/d/k.pem", "k.pem"])
    policy = me.write(me.work / "p" / "policy.json", json.dumps({"fs": {"deny": ["./*.pem"]}}))
    _, inside = read(me, ["p/k.pem", "p/d/k.pem", "k.pem"], ["-p", policy])
    assert inside == "<p/d/k.pem><k.pem>"
    me.write(policy, json.dumps({"fs": {"deny": ["*.pem"]}}))
    _, inside = read(me, ["p/k.pem", "p/d/k.pem", "k.pem"], ["-p", policy])
    assert inside == ""


def test_a_note_says_what_is_hidden(me):
    """At a terminal. Names that a run may have made do nothing to the terminal."""
    tree(me, ["a\x1b[2Jb.pem", "plain"])
    master, slave = os.openpty()
    run = me.popen(me.argv(["--deny", "*.pem"], ["cat", "plain"]), stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=slave)  # fmt: skip
    os.close(slave)
    assert run.wait(timeout=20) == 0
    said = os.read(master, 65536)
    os.close(master)
    assert b"b.pem' is hidden from the command" in said and b"\x1b" not in said


def test_a_hidden_file_does_not_stop_a_copy(me):
    tree(me, [".env", "plain"])
    done = me.run(["--deny", "*.env"], ["sh", "-c", "cp -r . /tmp/copy && cat /tmp/copy/plain"])
    assert done.returncode == 0 and done.stdout == b"<plain>", done
