# SPDX-License-Identifier: Apache-2.0
"""`cordon why` says what a run then does."""

import json
import pathlib
import shlex
import shutil
import tempfile

import pytest

from conftest import IS_ROOT, needs


def why(me, words, level=None):
    opts = ["--isolation", level] if level else []
    done = me.outside([me.cordon, "why", "--json", *opts, *words])
    if done.returncode not in (0, 1):
        return done, None
    got = json.loads(done.stdout)["verdicts"]
    assert done.returncode == (0 if got[0]["allowed"] else 1), done
    return done, {v["what"]: v for v in got}


@pytest.fixture
def places(me):
    me.write(me.out / "data", "x")
    me.write(me.work / "file", "x")
    me.mkdir("work/sub")
    me.mkdir("home/.ssh")
    me.write(me.home / ".ssh/id_ed25519", "key")
    me.outside(["git", "init", "-q", "."], check=True)
    return {"out": str(me.out), "home": str(me.home), "cwd": str(me.work)}


# The options, the path, whether it can be read, and written to; the rules.
PATHS = [
    ("", "{out}/data", False, False, "fs.read", "fs.write"),
    ("", "../outside/data", False, False, "fs.read", "fs.write"),
    ("-r {out}", "{out}/data", True, False, "fs.read", "fs.write"),
    ("-w {out}", "{out}/data", True, True, "fs.write", "fs.write"),
    ("-r {out}/data", "{out}/data", True, False, "fs.read", "fs.write"),
    ("", "./file", True, False, None, "fs.write"),
    ("-w .", "./file", True, True, "fs.write", "fs.write"),
    ("-w sub", "./file", True, False, None, "fs.write"),
    ("", "./new", False, False, None, "fs.write"),
    ("-w .", "./new", False, True, None, "fs.write"),
    ("-w .", "{cwd}/sub/../new", False, True, None, "fs.write"),
    ("", "{home}/.ssh/id_ed25519", False, False, "fs.read", "fs.write"),
    ("", "/usr/bin/env", True, False, None, "fs.write"),
]


@pytest.mark.parametrize("opts, path, can_read, can_write, read_rule, write_rule", PATHS)
def test_of_a_path_it_says_what_happens(me, level, places, opts, path, can_read, can_write, read_rule, write_rule):
    opts, path = shlex.split(opts.format(**places)), path.format(**places)
    done, got = why(me, [*opts, path], level)
    assert got and (got["read"]["allowed"], got["write"]["allowed"]) == (can_read, can_write), done
    user_of_system = path.startswith("/usr") and me.name == "user"
    assert got["read"]["rule"] == read_rule and (user_of_system or got["write"]["rule"] == write_rule), done
    # So it is.
    assert (me.run(opts, ["cat", path], level).returncode == 0) == can_read
    assert (me.run(opts, ["sh", "-c", 'true >> "$0"', path], level).returncode == 0) == can_write
    # What allows it does.
    for what, script in (("write", 'true >> "$0"'), ("read", 'cat "$0"')):
        fix = got[what]["fix"]
        if fix:
            assert me.run([*opts, *shlex.split(fix)], ["sh", "-c", script, path], level).returncode == 0, fix
            assert why(me, [*opts, *shlex.split(fix), path], level)[1][what]["allowed"]


# What the command has of its own, what is denied before it exists, and which of several grants decides.
CORNERS = [
    ("", "/dev/null", True, True, None, None),
    ("-w .", "./.git/description", True, None, "fs.write", None),
    ("-w . -r sub", "./sub", True, False, "fs.read", "fs.write"),
    ("-w sub", "./sub", True, True, "fs.write", "fs.write"),
    ("-r . -w sub", "./sub/new", False, True, None, "fs.write"),
]

# Only with namespaces.
OWN = [
    ("", "/tmp", True, True, None, None),
    ("", "{tmp}/file", False, True, "fs.read", None),
    ("", "{tmp}/new", False, True, None, None),
    ("", "{tmp}/dir", False, False, "fs.read", "fs.write"),
    ("", "{tmp}/dir/file", False, False, "fs.read", "fs.write"),
    ("", "/var/tmp/cordon-why-new", False, True, None, None),
    ("-r {tmp}/file", "{tmp}/file", True, False, "fs.read", "fs.write"),
    ("-w {tmp}", "{tmp}/file", True, True, "fs.write", "fs.write"),
    ("", "{home}", True, True, None, None),
    ("", "{home}/file", False, True, "fs.read", None),
    ("", "/etc/passwd", True, False, None, None),
    ("", "/etc", True, False, None, None),
    ("", "/dev/shm/cordon-why-new", False, True, None, None),
    ("-w . --deny nothere", "./nothere", False, False, "fs.deny", "fs.deny"),
    ("-w . --deny nothere/below", "./nothere/below", False, False, "fs.deny", "fs.deny"),
    ("--deny nothere", "./nothere", False, False, "fs.deny", "fs.deny"),
    ("--workspace . --deny nothere", "./nothere", False, False, "fs.deny", "fs.deny"),
    ("-w . --deny '*.key'", "./new.key", False, True, None, "fs.write"),
]

def uses(path):
    """How what is there on the host is read, and written to."""
    is_dir = pathlib.Path(path).is_dir()
    return {"read": 'ls "$0"' if is_dir else 'cat "$0"', "write": 'true >> "$0/x"' if is_dir else 'true >> "$0"'}


def said_and_done(me, opts, path, level):
    """The verdicts, each as it is said and as it happens in a run."""
    _, got = why(me, [*opts, path], level)
    done = {what: me.run(opts, ["sh", "-c", use, path], level) for what, use in uses(me.work / path).items()}
    return got, {what: (got[what]["allowed"], run.returncode == 0) for what, run in done.items()}


@pytest.fixture
def in_tmp(me, places):
    """A directory in /tmp with a file that the run does not see."""
    base = pathlib.Path(tempfile.mkdtemp(prefix="why-", dir="/tmp"))
    base.chmod(0o755)
    me.own(base)
    me.write(base / "shown", "x")
    (base / "dir").mkdir()
    me.own(base / "dir")
    me.write(base / "dir/file", "x")
    me.write(base / "file", "x")
    me.write(me.home / "file", "x")
    yield {**places, "tmp": str(base)}
    shutil.rmtree(base)


def says_what_happens(me, places, level, case):
    opts, path, can_read, can_write, read_rule, write_rule = case
    # Something in that directory is shown, so that it is there for the command.
    opts = shlex.split(opts.format(**places)) + (["-r", places["tmp"] + "/shown"] if "{tmp}" in path else [])
    got, pairs = said_and_done(me, opts, path.format(**places), level)
    assert pairs["read"] == (can_read, can_read), (case, got)
    assert can_write is None or pairs["write"] == (can_write, can_write), (case, got)
    assert got["read"]["rule"] == read_rule, (case, got)
    user_of_system = path.startswith("/usr") and me.name == "user"
    assert can_write is None or user_of_system or got["write"]["rule"] == write_rule, (case, got)


@pytest.mark.parametrize("case", CORNERS, ids=lambda c: f"{c[0]} {c[1]}")
def test_of_a_corner_it_says_what_happens(me, level, in_tmp, case):
    if level == "landlock" and "-w . -r" in case[0]:
        pytest.skip("refused at level landlock")
    says_what_happens(me, in_tmp, level, case)


@pytest.mark.parametrize("case", OWN, ids=lambda c: f"{c[0]} {c[1]}")
def test_of_what_is_the_command_s_own_it_says_what_happens(me, in_tmp, case):
    says_what_happens(me, in_tmp, "namespaces", case)


def test_where_there_are_no_namespaces_it_says_what_holds_there(me, places):
    """Without --isolation a run falls back: of /tmp and the system's files other things are true."""
    from test_shapes import shut_namespaces  # the same machine as there

    needs("unshare")
    me.write(me.home / "file", "x")
    for path in (f"{me.home}/new", "/etc/passwd", f"{me.out}/data", "./file", "/etc"):
        done = me.outside(shut_namespaces([me.cordon, "why", "--json", path]))
        got = {v["what"]: v["allowed"] for v in json.loads(done.stdout)["verdicts"]}
        for what, use in uses(me.work / path).items():
            ran = me.outside(shut_namespaces([me.cordon, "run", "--", "sh", "-c", use, path]))
            assert (ran.returncode == 0) == got[what], (path, what, done, ran)
    plan = json.loads(me.outside(shut_namespaces([me.cordon, "run", "--dry-run", "true"])).stdout)
    assert plan["level"] == "landlock", plan


def test_the_words_fit_the_verdict(me, places):
    def lines(*words):
        return me.outside([me.cordon, "why", "--isolation", "namespaces", *words]).stdout.decode().splitlines()

    read, write = lines("-w", ".", "./file")
    assert read.endswith(": yes, it is granted for writing, which includes reading (fs.write)")
    assert write.endswith(": yes, it is granted for writing (fs.write)")
    assert lines("-r", ".", "./file")[0].endswith(": yes, it is granted for reading (fs.read)")
    assert lines("/dev/null")[0].endswith(": yes, every command has it")


def test_no_option_opens_keys_or_homes(me, level, places):
    for path in (f"{me.home}/.ssh/id_ed25519", f"{me.home}/.ssh", str(me.home), "/root", "/home", "/etc/shadow", "/"):
        done, got = why(me, [path], level)
        assert got and not any(v["fix"] for v in got.values()), (path, done)


def test_what_is_denied_and_what_is_protected(me, places):
    done, got = why(me, ["-w", ".", "--deny", "file", "./file"], "namespaces")
    assert {v["rule"] for v in got.values()} == {"fs.deny"} and not any(v["fix"] for v in got.values()), done
    done, got = why(me, ["-w", ".", ".git/config"], "namespaces")
    assert got["read"]["allowed"] and got["write"]["rule"] == "fs.protect", done
    assert got["write"]["fix"] == "--workspace ."
    assert why(me, ["--workspace", ".", ".git/config"], "namespaces")[1]["write"]["allowed"]


def test_what_the_caller_may_not_read_either(me, level):
    if me.name == "root":
        pytest.skip("root may read anything")
    me.write(me.work / "closed", "x", 0)
    done, got = why(me, ["closed"], level)
    assert not got["read"]["allowed"] and got["read"]["rule"] is None and not got["read"]["fix"], done


HOSTS = [
    ("", "example.com", False, "net.allow", "--net-allow example.com"),
    ("", "192.0.2.1:22", False, "net.allow", "--net-allow 192.0.2.1:22"),
    ("", "[2001:db8::1]:22", False, "net.allow", "--net-allow [2001:db8::1]:22"),
    ("--net-allow example.com", "example.com", True, "net.allow", None),
    ("--net-allow example.com", "EXAMPLE.com:443", True, "net.allow", None),
    ("--net-allow example.com", "example.com:8080", False, "net.allow", "--net-allow example.com:8080"),
    ("--net-allow '*.example.com'", "a.example.com:80", True, "net.allow", None),
    ("--net-allow '*.example.com'", "example.com:80", False, "net.allow", "--net-allow example.com:80"),
    ("--net-allow '*.example.com' --net-deny b.example.com", "b.example.com", False, "net.deny", None),
    ("--net-allow example.com", "other.example", False, "net.allow", "--net-allow other.example"),
]


@pytest.mark.parametrize("opts, host, allowed, rule, fix", HOSTS)
def test_of_a_host(me, opts, host, allowed, rule, fix):
    done, got = why(me, [*shlex.split(opts), host], "namespaces")
    assert got, done
    v = got["connect"]
    assert (bool(v["allowed"]), v["rule"], v["fix"]) == (allowed, rule, fix), done
    if fix:
        assert why(me, [*shlex.split(opts), *shlex.split(fix), host], "namespaces")[1]["connect"]["allowed"]


def test_of_a_program(me, level):
    tools = me.mkdir("tools")
    me.write(tools / "my-tool", "#!/bin/sh\n", 0o755)
    env = {"PATH": f"{tools}:/usr/bin:/bin"}

    def ask(*words):
        done = me.outside([me.cordon, "why", "--json", "--isolation", level, *words], env=env)
        return json.loads(done.stdout)["verdicts"][0]

    def runs(opts, name):
        return me.run(opts, ["sh", "-c", name], level, env=env).returncode == 0

    got = ask("my-tool")
    assert (got["allowed"], got["rule"], got["fix"]) == (False, "fs.read", f"-r {tools}") and not runs([], "my-tool")
    assert ask("-r", tools, "my-tool")["allowed"] and runs(["-r", tools], "my-tool")
    assert ask("true")["allowed"] and ask("env")["allowed"] and runs([], "env")
    got = ask("--commands", "sh,cat", "env")
    assert (got["allowed"], got["rule"], got["fix"]) == (False, "commands", "--commands env")
    assert not runs(["--commands", "sh,cat"], "env")
    assert ask("--commands", "sh,cat", "--commands", "env", "env")["allowed"]
    assert runs(["--commands", "sh,cat", "--commands", "env"], "env")


@pytest.mark.parametrize("words, says", [
    ([], "takes one path"), (["a", "b"], "takes one path"), (["no-such-tool"], "no program in PATH"),
    ([""], "nothing is asked"), (["--net-allow", "!", "x.example"], "net"), (["--no-such"], "unknown option"),
])  # fmt: skip
def test_wrong_use_is_one_line(me, words, says):
    done = me.outside([me.cordon, "why", *words])
    assert done.returncode == 125 and done.stdout == b"", done
    assert done.stderr.count(b"\n") == 1 and says in done.stderr.decode(), done


def test_hostile_names(me, level):
    names = ["a" * 300 + ".example", "x." * 200, ":" * 80, "[::1", "1.2.3.4:99999", "\x1b[2J/x", "/" + "a/" * 3000, "~x/y", "..",
             "/proc/self/root/etc/shadow", "/dev/fd/0", "a\nb/c"]  # fmt: skip
    for name in names:
        done = me.outside([me.cordon, "why", "--isolation", level, "--", name])
        assert done.returncode in (0, 1, 125), (name, done)
        assert b"\x1b" not in done.stdout + done.stderr and done.stdout.count(b"\n") <= 2, (name, done)
    assert IS_ROOT or me.name == "user"
