# SPDX-License-Identifier: Apache-2.0
"""`cordon run` as its caller sees it: exit statuses, JSON, receipts, messages."""

import json
import os
import stat
import subprocess
import sys

import pytest
from conftest import needs

SH = "/bin/sh"

# Executes its arguments below a filter that says ENOSYS to openat2, and allows everything else.
WITHOUT_OPENAT2 = """
import ctypes, os, struct, sys
rows = [(0x20, 0, 0, 0), (0x15, 0, 1, 437), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
prog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(rows), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl.argtypes = [ctypes.c_int] + 4 * [ctypes.c_ulong]
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.addressof(prog), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def sh(me, script, *opts, **kw):
    return me.run(opts, [SH, "-c", script], **kw)


def one_line(done):
    text = done.stderr.decode()
    assert text.startswith("cordon: ") and text.count("\n") == 1, text
    return text[len("cordon: ") : -1]


# --- exit status ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, 2, 42, 124, 125, 126, 127, 128, 255])
def test_status_is_the_commands_own(me, status):
    done = sh(me, f"exit {status}")
    assert (done.returncode, done.stdout, done.stderr) == (status, b"", b"")


@pytest.mark.parametrize("name, number", [("TERM", 15), ("KILL", 9), ("SEGV", 11), ("USR1", 10)])
def test_status_of_a_signal(me, name, number):
    done = sh(me, f"kill -{name} $$; sleep 5")
    assert done.returncode == 128 + number
    got = me.receipt([], [SH, "-c", f"kill -{name} $$; sleep 5"])
    assert (got["kind"], got["signal"], got["exit_code"], got["status"]) == ("signaled", number, None, 128 + number)


def test_pids_of_runs_differ(me):
    """A pid file that one run left in a shared directory must not name a process of the next."""
    file = me.work / "pid"
    me.write(file)
    assert sh(me, f"echo $$ > {file}", "-w", str(me.work)).returncode == 0
    alive = [sh(me, f"kill -0 $(cat {file}) 2>/dev/null").returncode for _ in range(8)]
    assert alive.count(0) <= 1, alive  # the same number twice is rare, not impossible


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_processors_are_the_callers(me, level):
    """Init changes processors on its way. The command may use all that its caller may, and no other."""
    if not me.can(level):
        pytest.skip(f"no level {level} for this caller")
    tell = [sys.executable, "-I", "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]
    usable = sorted(os.sched_getaffinity(0))
    for cpus in [usable, usable[:2], usable[:1], usable[-1:]]:
        with_cpus = ["taskset", "--cpu-list", ",".join(map(str, cpus))]
        for opts in ([], ["-w", str(me.work)]):
            argv = me.argv(opts, tell, level)
            assert me.outside(with_cpus + tell).stdout == me.outside(with_cpus + argv).stdout


def test_not_found(me):
    done = me.run([], ["no-such-program"])
    assert done.returncode == 127 and "no-such-program" in one_line(done)
    assert me.run([], ["/no/such/program"]).returncode == 127


def test_not_executable(me):
    me.write(me.work / "plain.txt", "hello")
    done = me.run([], ["./plain.txt"])
    assert done.returncode == 126 and "plain.txt" in one_line(done)
    assert me.run([], [str(me.work)]).returncode == 126


def test_time_limit(me):
    done = sh(me, "sleep 30", "-t", "0.2")
    assert done.returncode == 124
    assert one_line(done) == "time limit of 200ms reached; the command was ended (raise it with -t)"
    got = me.receipt(["-t", "200ms"], ["sleep", "30"])
    assert (got["kind"], got["status"]) == ("timeout", 124)
    assert 190 <= got["duration_ms"] < 5000


def test_time_limit_of_a_file(me):
    me.write(me.work / "p.json", '{"limits": {"wall": "200ms"}}')
    done = me.run(["-p", "p.json"], ["sleep", "30"])
    assert done.returncode == 124 and one_line(done).startswith("time limit")


def test_set_up_failure(me):
    done = me.run(["-r", "no-such-file"], ["true"])
    assert done.returncode == 125 and "no-such-file" in one_line(done)


def test_suggestion_for_a_mistyped_path(me):
    me.mkdir("work/data")
    assert "did you mean './data'" in one_line(me.run(["-r", "./dat"], ["true"]))


def test_names_in_messages_are_escaped(me):
    for opts, cmd in (([], ["\x1b]0;pwned\x07"]), (["-r", "\x1b[2J\n"], ["true"]), (["-C", "/\x9b"], ["true"])):
        line = one_line(me.run(opts, cmd))
        assert all(c.isprintable() for c in line), line


def test_arguments_arrive_as_they_are(me):
    words = ["-r", "--", "", "a b", "$HOME", "-", "\x1b", "é", "--json"]
    done = me.run([], [SH, "-c", 'printf "%s\\n" "$@"', "sh", *words])
    assert done.stdout.decode() == "".join(w + "\n" for w in words)


def test_command_without_dashes(me):
    done = me.outside([me.cordon, "run", "-q", "echo", "-n", "--json"])
    assert done.stdout == b"--json"


# --- JSON ----------------------------------------------------------------------------------------

FIELDS = {"kind", "exit_code", "signal", "stdout", "stderr", "truncated", "duration_ms", "setup_ms",
          "usage", "isolation", "denials", "error"}


def test_json_object(me):
    done = sh(me, "echo out; echo err >&2; exit 3", "--json")
    assert done.returncode == 3 and done.stderr == b""
    assert done.stdout.count(b"\n") == 1 and done.stdout.endswith(b"\n")
    got = json.loads(done.stdout)
    assert FIELDS <= set(got)
    assert (got["kind"], got["exit_code"], got["signal"]) == ("exited", 3, None)
    assert (got["stdout"], got["stderr"]) == ("out\n", "err\n")
    assert got["truncated"] == {"stdout": False, "stderr": False}
    assert got["error"] is None and got["denials"] == []
    assert got["isolation"]["level"] in ("namespaces", "landlock") and got["isolation"]["layers"]
    assert 0 < got["setup_ms"] <= got["duration_ms"]


def test_json_carries_any_bytes(me):
    data = bytes(range(256)) * 3 + "é€😀".encode() + b"\xed\xa0\x80\xf4\x90\x80\x80\xc0\x80\xc3"
    got = me.receipt([], ["cat"], input=data)
    assert got["stdout"].encode("utf-8", "surrogateescape") == data
    assert json.loads(json.dumps(got)) == got


def test_json_output_limit(me):
    got = me.receipt([], ["head", "-c", "3000000", "/dev/zero"])
    assert got["truncated"] == {"stdout": True, "stderr": False}
    assert 1000000 <= len(got["stdout"]) <= 1100000
    got = me.receipt(["--max-output", "4k"], [SH, "-c", "echo begin; head -c 100000 /dev/zero; echo end"])
    assert got["truncated"]["stdout"] and len(got["stdout"]) <= 4096 + 200
    assert got["stdout"].startswith("begin\n") and got["stdout"].endswith("end\n")


@pytest.mark.parametrize("opts, cmd, status, kind", [
    ([], ["no-such-program"], 127, "spawn_failed"),
    ([], ["/etc/passwd"], 126, "spawn_failed"),
    (["-r", "/no/such/file"], ["true"], 125, "sandbox_error"),
    (["-t", "soon"], ["true"], 125, "sandbox_error"),
    (["--bogus"], ["true"], 125, "sandbox_error"),
    (["-p", "none.json"], ["true"], 125, "sandbox_error"),
    ([], [], 125, "sandbox_error"),
])
def test_json_of_a_failure(me, opts, cmd, status, kind):
    done = me.run(["--json", *opts], cmd)
    got = json.loads(done.stdout)
    assert (done.returncode, got["kind"], got["exit_code"]) == (status, kind, None)
    assert FIELDS <= set(got) and got["error"]
    message = one_line(done)
    assert got["error"]["message"] in message


def test_json_to_a_closed_pipe(me):
    proc = me.popen([me.cordon, "run", "--json", "true"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE)
    proc.stdout.close()
    assert proc.stderr.read() == b"" and proc.wait() == 125


def test_json_to_a_full_device(me):
    with open("/dev/full", "wb") as full:
        done = me.run(["--json"], ["true"], stdout=full)
    assert done.returncode == 125 and "cannot write standard output" in one_line(done)


# --- receipts ------------------------------------------------------------------------------------


def test_receipt(me):
    path = me.work / "receipt.json"
    done = sh(me, "echo hello; exit 4", "--receipt", path)
    assert (done.returncode, done.stdout, done.stderr) == (4, b"hello\n", b"")
    got = json.loads(path.read_bytes())
    assert (got["kind"], got["exit_code"]) == ("exited", 4)
    assert "stdout" not in got and "stderr" not in got and "isolation" in got
    info = path.stat()
    assert stat.S_IMODE(info.st_mode) == 0o644 and info.st_uid == me.uid
    assert sorted(os.listdir(me.work)) == ["receipt.json"]


def test_receipt_obeys_the_umask(me):
    me.run(["--receipt", "r"], ["true"], umask=0o077)
    assert stat.S_IMODE((me.work / "r").stat().st_mode) == 0o600


def test_receipt_of_failures(me):
    done = me.run(["--receipt", "r"], ["no-such-program"])
    got = json.loads((me.work / "r").read_bytes())
    assert done.returncode == 127 and got["kind"] == "spawn_failed" and got["error"]


def test_receipt_replaces_in_one_step(me):
    """A reader that looks all the time sees the old file or a whole new one."""
    path = me.write(me.work / "r", "old")
    with path.open("rb") as old:  # held open: its inode number is not given to a later receipt
        procs = [me.popen(me.argv(["--receipt", path], [SH, "-c", f"sleep 0.{i}"])) for i in range(1, 6)]
        while any(p.poll() is None for p in procs):
            text = path.read_bytes()
            assert text == b"old" or json.loads(text)["kind"] == "exited"
        assert path.stat().st_ino != os.fstat(old.fileno()).st_ino
        assert old.read() == b"old" and os.listdir(me.work) == ["r"]


def test_receipt_with_json(me):
    done = sh(me, "echo x", "--json", "--receipt", "r")
    full, short = json.loads(done.stdout), json.loads((me.work / "r").read_bytes())
    assert full["stdout"] == "x\n"
    assert {k: v for k, v in full.items() if k not in ("stdout", "stderr")} == short


def test_receipt_is_not_led_astray(me):
    """The command may write where the receipt goes: its links and pipes are not followed."""
    victim = me.write(me.out / "victim", "precious")
    for trick in (f"ln -s {victim} r", "mkfifo r", "mkdir r"):
        done = sh(me, trick, "-w", ".", "--receipt", "r")
        assert done.returncode == 125 and "not a regular file" in one_line(done), trick
        assert victim.read_text() == "precious"
        assert os.listdir(me.work) == ["r"]
        path = me.work / "r"
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    sh(me, "echo forged > r", "-w", ".", "--receipt", "r")
    assert json.loads((me.work / "r").read_bytes())["kind"] == "exited"


OUTPUTS = {"--receipt": [], "--net-log": ["--net-allow", "example.com"]}


@pytest.mark.parametrize("option", OUTPUTS)
@pytest.mark.parametrize("how", ["directory", "middle", "file"])
def test_links_of_an_earlier_run_lead_no_output_astray(me, option, how):
    """What a run leaves in a path, or at its end, is not followed by the next one, with a grant or without."""
    victim = me.mkdir("victim")
    me.mkdir("victim/sub")
    path, trick = {
        "directory": ("logs/r", f"ln -s {victim} logs"),
        "middle": ("logs/sub/r", f"ln -s {victim} logs"),
        "file": ("r", f"ln -s {victim}/r r"),
    }[how]
    assert sh(me, trick, "-w", ".").returncode == 0
    for target in (path, me.work / path):
        for grant in ([], ["-w", "."]):
            done = sh(me, "echo ran", *OUTPUTS[option], *grant, option, target)
            assert (done.returncode, done.stdout) == (125, b""), done
            line = one_line(done)
            assert "not a regular file" in line if (option, how) == ("--receipt", "file") else "is a link" in line
            assert os.listdir(victim) == ["sub"] and os.listdir(victim / "sub") == []
    # outside, the same name leads there
    me.outside(["sh", "-c", f"echo x > {path}"], cwd=str(me.work))
    assert (victim / "r").exists() or (victim / "sub/r").exists()


def test_a_link_leads_no_private_directory_astray(me):
    victim = me.mkdir("victim")
    assert sh(me, f"ln -s {victim} logs", "-w", ".").returncode == 0
    for path in ("logs/p", me.work / "logs/p", "logs/sub/p"):
        done = sh(me, "echo x > ~/file", "--private", path)
        assert (done.returncode, os.listdir(victim)) == (125, []) and "is a link" in one_line(done), done
    assert sh(me, "echo x > ~/file", "--private", "own").returncode == 0


def test_outputs_through_links_of_the_system(me):
    """They belong to root, near the top, like the ones that write grants may go through."""
    path = f"/proc/self/cwd/../{me.work.name}/r"
    assert sh(me, "true", "--receipt", path).returncode == 0
    assert json.loads((me.work / "r").read_bytes())["kind"] == "exited"
    if os.path.islink("/var/run") and not me.uid:
        target = f"/run/cordon-test-{os.getpid()}"
        try:
            assert sh(me, "true", "--receipt", "/var" + target).returncode == 0
            assert os.path.exists(target)
        finally:
            os.unlink(target)


def test_receipt_in_a_closed_directory(me):
    if not me.uid:
        pytest.skip("no directory is closed to root")
    me.mkdir("closed", 0o555)
    done = sh(me, "echo ran", "--receipt", me.base / "closed" / "r")
    assert (done.returncode, done.stdout) == (125, b"") and "permission denied" in one_line(done).lower()


# --- notes, plan, timings ------------------------------------------------------------------------


def test_dry_run_prints_the_plan_and_runs_nothing(me):
    done = sh(me, "echo ran > file", "-w", ".", "--dry-run", "--receipt", "r")
    assert done.returncode == 0 and isinstance(json.loads(done.stdout), dict)
    assert os.listdir(me.work) == []
    assert me.run(["--dry-run"], ["no-such-program"]).returncode == 127


def test_verbose(me):
    done = sh(me, "echo hi", "-v")
    lines = done.stderr.decode().splitlines()
    assert done.stdout == b"hi\n" and len(lines) == 3
    assert all(line.startswith("cordon: ") for line in lines)
    assert lines[0].startswith(("cordon: level namespaces;", "cordon: level landlock;"))
    assert "mounts" in lines[1] or "landlock" in lines[1]


def test_no_notes_without_a_terminal(me):
    """In a home directory there is something to say, but only to a person."""
    done = me.run([], ["true"], cwd=str(me.home))
    assert (done.returncode, done.stderr) == (0, b"")


def test_home_is_not_believed_blindly(me):
    for home in ("relative", "/no/such/home", "/", "/usr", "/var/tmp", ""):
        if home == "/" and me.uid == 0:
            continue
        done = me.run([], [SH, "-c", "echo $HOME"], env={"HOME": home})
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() != home.encode()


def test_nothing_is_guessed_about_git(me):
    """Git says itself what it could not do; arguments are no reason to say more."""
    needs("git")
    done = me.run(["-w", "."], ["git", "init", "."], "namespaces")
    assert done.returncode != 0 and b"Read-only file system" in done.stderr, done
    assert b"note:" not in done.stderr, done
    assert me.run(["-w", ".", "--no-protect"], ["git", "init", "."]).returncode == 0
    done = me.run(["-w", "."], ["git", "init", "/no/such/place"])
    assert done.returncode != 0 and b"cordon" not in done.stderr, done


def test_truncation_is_noted(me):
    done = sh(me, "head -c 100000 /dev/zero", "--max-output", "1k")
    assert len(done.stdout) <= 2048 and b"raise it with --max-output" in done.stderr
    assert sh(me, "head -c 100000 /dev/zero", "-q", "--max-output", "1k").stderr == b""


# --- odd places ----------------------------------------------------------------------------------


def test_from_a_directory_that_is_closed_to_us(me):
    if not me.uid or not me.switch:
        pytest.skip("needs another user's directory")
    closed = me.base / "closed"
    closed.mkdir(mode=0o700)
    # The directory is entered while we still may.
    code = ("import os, sys; os.chdir(sys.argv[1]); os.setgroups([]); os.setgid(int(sys.argv[2]));"
            "os.setuid(int(sys.argv[2])); os.execv(sys.argv[3], sys.argv[3:])")
    done = subprocess.run([sys.executable, "-c", code, str(closed), str(me.uid), me.cordon, "run", "--", "/bin/true"],
                          env=me.env(), capture_output=True, check=False, timeout=30)
    text = done.stderr.decode()
    # Nothing of it can be granted: that is either said, or the command begins elsewhere.
    assert done.returncode in (0, 125), text
    if done.returncode:
        assert text.startswith("cordon: ") and text.count("\n") == 1


def test_from_a_directory_that_is_gone(me):
    gone = me.mkdir("work/gone")
    done = me.outside([SH, "-c", f'rmdir "{gone}"; exec "$@"', "sh", me.cordon, "run", "--", "/bin/true"], cwd=str(gone))
    assert done.returncode in (0, 125)
    assert done.stderr.count(b"\n") <= 1


def test_without_environment(me):
    done = me.outside(["env", "-i", *me.argv([], ["/bin/true"])])
    assert done.returncode == 0, done.stderr


def test_two_at_once(me):
    procs = [me.popen(me.argv(["--json"], [SH, "-c", f"sleep 0.2; echo {i}"]), stdin=subprocess.DEVNULL,
                      stdout=subprocess.PIPE) for i in range(2)]
    for i, proc in enumerate(procs):
        out, _ = proc.communicate(timeout=30)
        assert json.loads(out)["stdout"] == f"{i}\n" and proc.returncode == 0


def test_a_deleted_current_directory_is_said(me):
    """One line, with what to do; nothing relative to it is taken for something else."""
    for words in ([], ["-r", "."], ["-w", "."], ["-p", "x.json"], ["--receipt", "r"], ["--workspace", "."],
                  ["--private", "p"], ["--deny", "x"], ["-C", "/"]):
        script = 'mkdir d && cd d && rmdir ../d && exec "$@"'
        argv = me.argv(words, ["/bin/sh", "-c", "echo ran"])
        done = me.outside(["/bin/sh", "-c", script, "sh", *argv])
        assert (done.returncode, done.stdout) == (125, b""), done
        assert b"the current directory was deleted (cd to one that exists)" in done.stderr
        assert done.stderr.count(b"\n") == 1, done


def test_a_plan_for_a_deleted_current_directory_is_refused_alike(me):
    script = 'mkdir d && cd d && rmdir ../d && exec "$@"'
    done = me.outside(["/bin/sh", "-c", script, "sh", me.cordon, "policy", "show", "--", "true"])
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr == b"cordon: the current directory was deleted (cd to one that exists)\n"


def test_cordon_inside_cordon_says_so(me, level):
    """It is a fact about the sandbox around it, at both levels, and not taken from the environment."""
    done = me.run(["-r", os.path.dirname(me.cordon)], ["env", "-i", me.cordon, "run", "/bin/true"], level=level)
    assert done.returncode == 125 and done.stderr.count(b"\n") == 1, done
    assert b"Cordon cannot run inside one of its own sandboxes" in done.stderr, done


def test_a_filter_that_is_not_cordons_is_not_taken_for_one(me, level):
    """systemd's RestrictSUIDSGID= refuses openat2 as well; then the filter is said, and no sandbox of Cordon."""
    script = me.write(me.work / "filter.py", WITHOUT_OPENAT2)
    done = me.outside(["/usr/bin/python3", script, *me.argv([], ["true"], level)])
    assert done.returncode == 125 and b"one of its own sandboxes" not in done.stderr, done
    # With namespaces the set-up may be the first to meet it, and names its own step.
    if level == "landlock":
        assert b"a system call filter around Cordon forbids openat2, which it needs" in done.stderr, done


@pytest.mark.parametrize("limit", [8, 12])
def test_too_few_open_files_have_a_remedy(me, limit):
    done = me.outside(["/bin/sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", me.cordon, "run", "--", "true"])
    assert done.returncode == 125, done
    assert b": no file descriptors available (raise the limit of open files: ulimit -n)\n" in done.stderr, done


def test_paths_that_do_not_exist(me):
    """The one line says which part is missing, and what to do."""
    (me.work / "file").touch()
    (me.work / "dangling").symlink_to("/nowhere/at/all")
    for words, hint in (
        (["-r", "file2"], "did you mean 'file'?"),
        (["-r", "some/where"], f"there is no '{me.work}/some'"),
        (["-w", "output"], "make it first, with mkdir or touch"),
        (["-r", "dangling"], "it is a link to '/nowhere/at/all', which does not exist"),
        (["-w", "dangling"], "it is a link to '/nowhere/at/all', which does not exist"),
        (["-C", "some/where"], f"there is no '{me.work}/some'"),
    ):
        done = me.run(words, ["true"])
        assert done.returncode == 125 and f"({hint})".encode() in done.stderr, done
        assert done.stderr.count(b"\n") == 1, done


# --- check and policy files ----------------------------------------------------------------------


def test_check(me):
    done = me.outside([me.cordon, "check"])
    assert done.returncode in (0, 1) and done.stderr == b""
    lines = done.stdout.decode().splitlines()
    assert "level" in lines[0] and len(lines) > 4
    assert all(line == line.rstrip() and line.isprintable() for line in lines)
    for name in ("landlock", "seccomp", "net-allow", "workspace"):
        assert any(line.split()[:1] == [name] for line in lines), name


def test_check_json_agrees_with_runs(me):
    done = me.outside([me.cordon, "check", "--json"])
    got = json.loads(done.stdout)
    assert isinstance(got, dict)
    level = me.receipt([], ["true"])["isolation"]["level"]
    assert done.returncode == {"namespaces": 0, "landlock": 1}[level]
    assert level in json.dumps(got)


def test_check_and_the_receipt_name_the_same_missing_layers(me, level):
    """For each level that works here; the table has a line for each at the best one."""
    got = json.loads(me.outside([me.cordon, "check", "--json"]).stdout)
    assert set(got["missing"]) == {"namespaces", "landlock"}
    if not me.can(level):
        assert got["missing"][level] is None
        return
    missing = me.receipt(["-m", "256M"], ["true"], level, cwd="/")["isolation"]["missing"]
    assert got["missing"][level] == missing
    # A run without limits has nothing to do for a control group, so that it lacks none.
    assert me.receipt([], ["true"], level, cwd="/")["isolation"]["missing"] == [m for m in missing if m != "cgroup"]
    if got["level"] == level:
        told = {i["name"] for i in got["layers"] if i["state"] == "no"}
        features = {"net-allow", "workspace", "root", "level namespaces", "level landlock", "kvm", "gpu"}
        assert {name for name in told - features if not name.startswith("gpu ")} == set(missing)
        assert all(i["detail"] and i["remedy"] for i in got["layers"] if i["name"] in missing)


def test_check_tells_how_allowed_hosts_are_reached(me):
    """It agrees with a real run, whose command says whether it was given proxy variables."""
    done = me.outside([me.cordon, "check", "--json"])
    (item,) = [i for i in json.loads(done.stdout)["layers"] if i["name"] == "net-allow"]
    got = me.run(["--net-allow", "192.0.2.1"], [SH, "-c", "echo ${HTTP_PROXY:-none}"])
    if item["state"] == "no":
        assert got.returncode == 125 and item["detail"] in got.stderr.decode()
        return
    assert got.returncode == 0, got.stderr
    assert (got.stdout == b"none\n") == (item["state"] == "yes")
    assert (item["remedy"] is None) == (item["state"] == "yes")


def test_validate(me):
    good = me.write(me.work / "good.json", '{"limits": {"procs": 5}}')
    bad = me.write(me.work / "bad.json", '{"limits": {"porcs": 5}}')
    done = me.outside([me.cordon, "policy", "validate", "good.json"])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"good.json: ok\n", b"")
    done = me.outside([me.cordon, "policy", "validate", "bad.json", "good.json"])
    assert (done.returncode, done.stdout) == (125, b"good.json: ok\n")
    assert "bad.json" in one_line(done) and "procs" in one_line(done)
    done = me.outside([me.cordon, "policy", "validate", str(good), str(bad), "none.json", "--json"])
    got = json.loads(done.stdout)
    assert done.returncode == 125 and done.stderr == b""
    assert [(g["file"], g["ok"]) for g in got] == [(str(good), True), (str(bad), False), ("none.json", False)]
    assert got[0]["error"] is None and "porcs" in got[1]["error"]["message"]


def test_validate_odd_names(me):
    me.write(me.work / "a\n\x1b.json", "{}")
    me.write(me.work / "-x.json", "{}")
    done = me.outside([me.cordon, "policy", "validate", "a\n\x1b.json", "--", "-x.json"])
    assert done.returncode == 0 and done.stdout.count(b"\n") == 2 and b"\x1b" not in done.stdout


def test_schema(me):
    done = me.outside([me.cordon, "policy", "schema"])
    got = json.loads(done.stdout)
    assert done.returncode == 0 and "$schema" in got and "fs" in got["properties"]
