# SPDX-License-Identifier: Apache-2.0
"""The command line and the policy as attack surface, and results that cannot be forged."""

import json
import os

import pytest


def refused(me, argv, level=None, **kw):
    """Exit 125, one line with our name on it, and the command never ran."""
    mark = me.work / "ran"
    done = me.outside([me.cordon, *map(str, argv)], **kw)
    assert done.returncode == 125, (argv, done)
    assert done.stderr.startswith(b"cordon: "), done.stderr
    assert done.stderr.count(b"\n") <= 2, done.stderr
    assert not mark.exists()
    return done.stderr.decode()


RUN = ["sh", "-c", "echo x > ran"]

BAD_OPTIONS = [
    ["--wirte", "."],
    ["--unknown"],
    ["-Z"],
    ["--isolation", "none"],
    ["--isolation", ""],
    ["--isolation", "Landlock"],
    ["--require", "nonsense"],
    ["--require", ""],
    ["--preset", "nobody"],
    ["-t", "-1s"],
    ["-t", "1e3"],
    ["-t", "10 s"],
    ["-t", "99999999999999999999s"],
    ["-t", ""],
    ["-t", "5x"],
    ["-P", "-1"],
    ["-P", "0x10"],
    ["-P", "1.5"],
    ["-P", "99999999999999999999"],
    ["--open-files", "-5"],
    ["--open-files", "abc"],
    ["--max-output", "-1"],
    ["--max-output", "1Q"],
    ["--max-output", "18446744073709551616"],
    ["-r", "/no/such/path"],
    ["-w", "/no/such/path"],
    ["-r", ""],
    ["-w", ""],
    ["--deny", ""],
    ["-C", "/no/such/dir"],
    ["-C", ""],
    ["-e", "=x"],
    ["-e", ""],
    ["-e", "A B=1"],
    ["-e", "A\nB=1"],
    ["--commands", "no-such-program-anywhere"],
    ["-p", "/no/such/file"],
    ["-r"],
]


@pytest.mark.parametrize(
    "bad", BAD_OPTIONS, ids=lambda b: " ".join(b).replace("\n", "\\n") or "empty"
)
def test_bad_options(me, bad):
    refused(me, ["run", *bad, *(["--", *RUN] if bad != ["-r"] else [])])


BAD_POLICIES = [
    "",
    "null",
    "[]",
    "42",
    '{"fs": []}',
    '{"fs": {"raed": ["/"]}}',
    '{"fs": {"read": "/"}}',
    '{"fs": {"read": [1]}}',
    '{"fs": {"read": ["a\\u0000b"]}}',
    '{"fs": {"protect": "no"}}',
    '{"limits": {"wall": -1}}',
    '{"limits": {"procs": 1.5}}',
    '{"limits": {"procs": true}}',
    '{"isolation": "none"}',
    '{"isolation": ["landlock"]}',
    '{"require": ["nonsense"]}',
    '{"commands": [""]}',
    '{"commands": "sh"}',
    '{"env": {"set": {"A=B": "x"}}}',
    '{"env": {"set": {"A": 1}}}',
    '{"env": {"set": {"A": "x\\u0000y"}}}',
    '{"unknown": 1}',
    '{"fs": {"read": ["/usr"]}} trailing',
    '{"fs": {"read": ["/usr"]}, "fs": {"write": ["/"]}}',
    '{"fs": {"read": ["/usr"],}}',
    '{"$schema": 1}',
    "{" * 5000,
    '{"fs": {"read": [' + "[" * 3000,
]


@pytest.mark.parametrize("text", BAD_POLICIES, ids=lambda t: t[:40])
def test_bad_policies(me, text):
    path = me.write(me.work / "policy.json", text)
    refused(me, ["run", "-p", path, "--", *RUN])


def test_policy_that_is_too_large_or_no_file(me):
    path = me.write(me.work / "policy.json", b" " * (9 << 20) + b"{}")
    refused(me, ["run", "-p", path, "--", *RUN])
    refused(me, ["run", "-p", me.work, "--", *RUN])
    refused(me, ["run", "-p", "/dev/zero", "--", *RUN], timeout=20)
    os.mkfifo(me.work / "fifo")
    me.own(me.work / "fifo")
    refused(me, ["run", "-p", me.work / "fifo", "--", *RUN], timeout=20)


def test_suggestions(me):
    assert "--write" in refused(me, ["run", "--wirte", ".", "--", "true"])
    me.write(me.work / "p.json", '{"fs": {"raed": ["/usr"]}}')
    assert "read" in refused(me, ["run", "-p", me.work / "p.json", "--", "true"])


def test_arguments_after_the_command_are_its_own(me, level):
    """Nothing behind the command is ours, with and without `--`."""
    words = [
        "-w",
        "/",
        "--no-protect",
        "--isolation",
        "none",
        "--",
        "-r",
        "",
        "a b",
        "\n",
        "--json",
        "$(id)",
    ]
    script = "import sys; print(repr(sys.argv[1:]))"
    done = me.run([], ["python3", "-c", script, *words], level)
    assert done.stdout.decode().strip() == repr(words), done
    done = me.outside([me.cordon, "run", "python3", "-c", script, *words])
    assert done.stdout.decode().strip() == repr(words), done


def test_names_that_look_like_options(me, level):
    odd = me.mkdir("work/-w")
    me.write(odd / "file", "canary")
    done = me.run(["-r", "./-w"], ["cat", str(odd / "file")], level)
    assert done.stdout == b"canary", done
    me.write(me.work / "--help", "#!/bin/sh\necho odd\n", 0o755)
    done = me.run(["-r", me.work], ["./--help"], level)
    assert done.stdout == b"odd\n", done


def test_cwd_must_lie_inside_a_grant(me, level):
    refused(me, ["run", "--isolation", level, "-C", me.out, "--", *RUN])
    done = me.run(["-r", me.out, "-C", me.out], ["pwd"], level)
    assert done.stdout.decode().strip() == str(me.out)


def test_overlapping_rules(me, level):
    """Deny beats allow, the longest path wins otherwise."""
    inner = me.mkdir("work/inner")
    me.write(inner / "file", "canary")
    write = [
        "sh",
        "-c",
        f"echo x > {inner}/planted; echo x > {me.work}/planted; cat {inner}/file; true",
    ]
    done = me.run(["-w", me.work, "-r", inner], write, level)
    assert not (inner / "planted").exists()
    if level == "landlock":
        assert done.returncode == 125, "this level cannot take a right away again, and refuses"
    else:
        assert (me.work / "planted").exists()
        (me.work / "planted").unlink()
    done = me.run(["-r", me.work, "-w", inner], write, level)
    assert not (me.work / "planted").exists() and (inner / "planted").exists(), done
    (inner / "planted").unlink()
    done = me.run(["-w", me.work, "-w", inner, "-r", inner, "--deny", inner], write, level)
    assert not (inner / "planted").exists() and b"canary" not in done.stdout
    done = me.run(["--deny", me.work, "-C", "/tmp", "-w", inner], write, level)
    assert not (inner / "planted").exists() and b"canary" not in done.stdout


def test_odd_spellings_of_a_denied_path(me, level):
    me.write(me.work / "secret", "canary")
    for spelling in (
        "secret",
        "./secret",
        "../work/secret",
        "//" + str(me.work) + "//./secret",
        "x/../secret/",
    ):
        if spelling.endswith("/"):
            continue
        done = me.run(["-w", me.work, "--deny", spelling], ["cat", "secret"], level)
        assert b"canary" not in done.stdout, (spelling, done)


def test_deny_through_a_symbolic_link(me, level):
    """A deny that names a link denies the link's target as well (or the run is refused)."""
    me.write(me.work / "secret", "canary")
    os.symlink("secret", me.work / "alias")
    me.own(me.work / "alias")
    done = me.run(["-w", me.work, "--deny", "alias"], ["cat", "alias"], level)
    assert b"canary" not in done.stdout, done
    done = me.run(["-w", me.work, "--deny", "alias"], ["cat", "secret"], level)
    assert b"canary" not in done.stdout, done


def planted_venv(me, target):
    """What a command that may write the workspace leaves there for the next run."""
    venv = me.work / ".venv"
    venv.mkdir()
    me.own(venv)
    me.write(venv / "pyvenv.cfg", f"home = {target}/bin\nversion = 3.11.2\n")


@pytest.mark.parametrize("where", ["elsewhere", "hidden", "project"])
def test_workspace_cannot_widen_its_view(me, level, where):
    """A pyvenv.cfg that a former run left in the workspace names a directory that looks like an
    installation: what lies in it stays as closed as it was."""
    target = {"elsewhere": me.out / "app", "hidden": me.home / ".app", "project": me.home / "app"}[
        where
    ]
    for name in ("bin", "lib/python3.11", "include"):
        (target / name).mkdir(parents=True)
    me.write(target / "bin" / "python3", "#!/bin/sh\n", 0o755)
    me.write(target / "lib" / "python3.11" / "os.py", "")
    canary = me.write(target / "lib" / "secret", "canary")
    planted_venv(me, target)
    done = me.run([], ["cat", canary], level)
    assert b"canary" not in done.stdout, "a file of the workspace widened the view"


def test_policy_in_the_workspace_is_not_read(me, level):
    for name in (".cordon.json", "cordon.json", ".cordon/policy.json"):
        path = me.work / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"fs": {"read": ["/"]}}))
    canary = me.write(me.out / "canary", "canary")
    assert b"canary" not in me.run([], ["cat", canary], level).stdout


def test_result_cannot_be_forged(me, level):
    """Whatever the command prints or exits with, the receipt tells what happened."""
    fake = json.dumps({"kind": "timeout", "exit_code": 0})
    got = me.receipt([], ["sh", "-c", f"printf '%s\\n' '{fake}'; exit 124"], level)
    assert (got["kind"], got["exit_code"], got["status"]) == ("exited", 124, 124)
    assert got["stdout"].strip() == fake
    for code in (125, 126, 127, 137):
        got = me.receipt([], ["sh", "-c", f"exit {code}"], level)
        assert (got["kind"], got["exit_code"], got["status"]) == ("exited", code, code)
    got = me.receipt([], ["sh", "-c", "kill -9 $$"], level)
    assert (got["kind"], got["signal"], got["status"]) == ("signaled", 9, 137)


def test_receipt_file_is_ours(me, level):
    """The receipt goes where the caller said, not where the command bent a link to."""
    victim = me.write(me.out / "victim", "precious")
    target = me.work / "receipt.json"
    script = f"ln -sf {victim} {target}; true"
    me.run(["-w", me.work, "--receipt", target], ["sh", "-c", script], level)
    assert victim.read_text() == "precious", "the receipt was written through the guest's link"
    target.unlink(missing_ok=True)
    done = me.run(["--receipt", me.base / "r.json"], ["sh", "-c", "exit 3"], level)
    got = json.loads((me.base / "r.json").read_text())
    assert done.returncode == 3 and got["exit_code"] == 3 and "stdout" not in got


def test_output_that_is_not_utf8_is_carried(me, level):
    """Every byte comes back out of the JSON (and the JSON is valid)."""
    raw = bytes(range(256))
    path = me.write(me.work / "bytes", raw)
    got = me.receipt([], ["cat", path], level)
    assert isinstance(got["stdout"], str)


def test_dry_run_runs_nothing(me, level):
    done = me.run(["--dry-run", "-w", me.work], RUN, level)
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    assert not (me.work / "ran").exists()
    assert os.listdir(me.work) == []


def test_exit_codes(me, level):
    me.write(me.work / "plain", "x", 0o644)
    assert me.run([], ["no-such-program-at-all"], level).returncode == 127
    assert me.run([], ["./plain"], level).returncode == 126
    assert me.run([], ["/"], level).returncode == 126
    assert me.run([], ["sh", "-c", "exit 42"], level).returncode == 42
    assert me.run([], ["sh", "-c", "kill -TERM $$"], level).returncode == 143
    assert me.run(["-t", "200ms"], ["sleep", "9"], level).returncode == 124
    assert me.receipt(["-t", "200ms"], ["sleep", "9"], level)["kind"] == "timeout"


def test_layers_are_reported(me, level):
    got = me.receipt([], ["true"], level)["isolation"]
    assert got["level"] == level
    names = {layer.split(":")[0] for layer in got["layers"]}
    assert {"landlock", "seccomp", "rlimits"} <= names
    if level == "namespaces":
        assert {"user", "mount", "pid", "net", "ipc", "uts"} <= names
    else:
        assert not {"user", "mount", "pid", "net", "ipc", "uts"} & names
        assert {"mount", "pid", "net"} <= set(got["missing"])
        # Only where it has to write root's files.
        assert "uid" not in got["missing"]
        got = me.receipt(["-w", me.work], ["true"], level)["isolation"]
        assert ("uid" in got["missing"]) == (me.name == "root")


def test_required_layers(me):
    refused(me, ["run", "--isolation", "landlock", "--require", "net", "--", *RUN])
    refused(me, ["run", "--isolation", "landlock", "--require", "mount,pid", "--", *RUN])
    assert me.run(["--require", "net,landlock,seccomp"], ["true"], "namespaces").returncode == 0


def test_predictable_names_are_not_followed(me, level):
    """Links planted at plausible temporary names lead nowhere."""
    victim = me.mkdir("victim")
    before = set(os.listdir("/tmp"))
    assert (
        me.run(["-w", me.work], ["sh", "-c", "echo x > /tmp/x; echo x > $HOME/x"], level).returncode
        == 0
    )
    assert os.listdir(victim) == []
    # These directories are made once, and only used if they are the caller's (test_locks.py, test_runs.py).
    before |= {f"cordon-locks-{me.uid}", f"cordon-sessions-{me.uid}"}
    after = {n for n in os.listdir("/tmp") if n not in before and "cordon-tests" not in n}
    # Of other users: their runs.
    after = {n for n in after if os.path.lexists(f"/tmp/{n}") and os.lstat(f"/tmp/{n}").st_uid in (me.uid, 0)}
    assert not {n for n in after if n.startswith("cordon")}, after
