# SPDX-License-Identifier: Apache-2.0
"""The command line as such: every option, every way to write it, every way to get it wrong."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKSPACE_VERBS = [f"workspace {word}" for word in ("list", "status", "diff", "commit", "discard", "export", "gc")]
SESSION_VERBS = [
    f"session {word}"
    for word in ("start", "exec", "put", "get", "ls", "logs", "ps", "env", "pause", "resume", "kill", "stop")
]
VERBS = ["run", "check", "why", "explain", "policy show", "policy validate", "policy schema", *WORKSPACE_VERBS, "cache list", "cache gc",
         "microvm setup", "microvm status", "microvm gc", "sandbox list", "sandbox gc", "pool start", "pool status", "pool stop", *SESSION_VERBS, "ps", "inspect", "kill", "logs", "wait", "mcp", "new",
         "completion", "help"]
POLICY_VERBS = ["run", "policy show"]


def cli(me, *words, **kw):
    done = me.outside([me.cordon, *words], **kw)
    done.out = done.stdout.decode()
    done.err = done.stderr.decode()
    return done


def show(me, *words, **kw):
    done = cli(me, "policy", "show", "--json", *words, **kw)
    assert done.returncode == 0, done.err
    return json.loads(done.out)["policy"]


def refused(me, *words, status=125, **kw):
    """Wrong usage: nothing on stdout, one line on stderr, which is returned."""
    done = cli(me, *words, **kw)
    assert (done.returncode, done.out) == (status, ""), done
    assert done.err.startswith("cordon: ") and done.err.count("\n") == 1, done.err
    return done.err[len("cordon: ") : -1]


def options_of(me, verb):
    """[(long, short or None, argument or None)] as the verb's help lists them."""
    found = []
    for line in cli(me, *verb.split(), "--help").out.splitlines():
        m = re.match(r"  (?:-(\w), |    )--([a-z-]+)(?: (\S+))?  *\S", line)
        if m:
            arg = m.group(3)
            found.append((m.group(2), m.group(1), arg if arg and arg[0].isupper() else None))
        elif re.match(r"  --", line):  # rare ones, several to a line
            found += [(long, None, arg or None) for long, arg in re.findall(r"--([a-z-]+)(?: ([A-Z]\S*))?", line)]
    return found


# --- what an option means ------------------------------------------------------------------------

MEANING = [
    (["-r", "data"], {"fs": {"read": ["data"]}}),
    (["--read=/etc/hosts", "-r/usr", "--read", "x"], {"fs": {"read": ["/etc/hosts", "/usr", "x"]}}),
    (["-w", "."], {"fs": {"write": ["."]}}),
    (["--write=."], {"fs": {"write": ["."]}}),
    (["--deny", ".env"], {"fs": {"deny": [".env"]}}),
    (["--workspace", "src", "--workspace=."], {"fs": {"workspace": "."}}),
    (["--no-protect"], {"fs": {"protect": False}}),
    (["--protect", "off"], {"fs": {"protect": False}}),
    (["--protect=existing"], {"fs": {"protect": "existing"}}),
    (["--protect", "on"], {"fs": {"protect": True}}),
    (["--commands", "sh,ls"], {"commands": ["sh", "ls"]}),
    (["--commands=sh", "--commands", "ls"], {"commands": ["sh", "ls"]}),
    (["--gpu", "0", "--gpu=0,1"], {"gpu": "0,1"}),
    (["--gpu", "all"], {"gpu": "all"}),
    (["--device", "/dev/fuse", "--device=/dev/kvm"], {"devices": ["/dev/fuse", "/dev/kvm"]}),
    (["-C", "sub"], {"cwd": "sub"}),
    (["--cwd=sub", "-Cother"], {"cwd": "other"}),
    (["-e", "TOKEN"], {"env": {"pass": ["TOKEN"]}}),
    (["-eA=1", "--env", "A=2", "--env=B="], {"env": {"set": {"A": "2", "B": ""}}}),
    (["-e", "A=b=c"], {"env": {"set": {"A": "b=c"}}}),
    (["--isolation", "landlock"], {"isolation": "landlock"}),
    (["--require", "seccomp,landlock"], {"require": ["seccomp", "landlock"]}),
    (["--net-allow", "Example.com", "--net-allow=*.x.org:443,22,443"],
     {"net": {"allow": ["example.com:80,443", "*.x.org:22,443"]}}),
    (["--net-deny", "a.example.com", "--net-deny", "10.0.0.0/8:80"],
     {"net": {"deny": ["a.example.com", "10.0.0.0/8:80"]}}),
    (["--publish", "0:8080/tcp", "--publish=127.0.0.1:80:80"], {"net": {"publish": ["0:8080/tcp", "80"]}}),
    (["--net-max", "1.5M"], {"net": {"max": "1536K"}}),
    (["-t", "2"], {"limits": {"wall": "2s"}}),
    (["-t500ms"], {"limits": {"wall": "500ms"}}),
    (["--timeout=5m"], {"limits": {"wall": "5m"}}),
    (["-P", "9"], {"limits": {"procs": 9}}),
    (["--procs=9"], {"limits": {"procs": 9}}),
    (["--grace", "0"], {"limits": {"grace": "0ms"}}),
    (["--grace=250ms"], {"limits": {"grace": "250ms"}}),
    (["-m", "1.5G"], {"limits": {"memory": "1536M"}}),
    (["-m64M"], {"limits": {"memory": "64M"}}),
    (["--memory=1048576"], {"limits": {"memory": "1M"}}),
    (["--cpus", "0.5"], {"limits": {"cpu": 0.5}}),
    (["--cpus=2"], {"limits": {"cpu": 2}}),
    (["--cpu-time", "90s"], {"limits": {"cpu_time": "90s"}}),
    (["--open-files", "64"], {"limits": {"open_files": 64}}),
    (["--disk", "64k"], {"limits": {"disk": "64K"}}),
    (["--file-size=1"], {"limits": {"file_size": "1"}}),
    (["--end-on-output"], {"limits": {"output_end": True}}),
    (["--best-effort", "disk,procs", "--best-effort=cpu_time"], {"best_effort": ["disk", "procs", "cpu_time"]}),
    (["--user", "65534:65534"], {"user": "65534:65534"}),
]


@pytest.mark.parametrize("words, policy", MEANING, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_meaning(me, words, policy):
    assert show(me, *words) == policy


def test_sizes(me):
    assert show(me, "--max-output", "64k") == show(me, "--max-output=65536")


def test_every_policy_option_has_a_meaning_above(me):
    tried = {w.split("=")[0] for words, _ in MEANING for w in words if w.startswith("--")}
    tried |= {"--preset", "--policy", "--max-output", "--json", "--help"}
    assert {"--" + name for name, _, _ in options_of(me, "policy show")} == tried


@pytest.mark.parametrize("name", ["agent", "python", "node", "build", "strict"])
def test_preset(me, name):
    assert isinstance(show(me, "--preset", name), dict)


def test_merge_order_is_preset_file_flags_wherever_they_stand(me):
    me.write(me.work / "a.json", '{"limits": {"wall": "10s", "procs": 7}, "fs": {"read": ["/a"]}}')
    me.write(me.work / "b.json", '{"limits": {"procs": 8}, "fs": {"read": ["/b"]}}')
    words = ["-t", "1s", "-r", "/flag", "-p", "a.json", "-p", "b.json"]
    got = show(me, *words)
    assert got["limits"] == {"wall": "1s", "procs": 8}
    assert got["fs"]["read"] == ["/a", "/b", "/flag"]
    assert got == show(me, *words[4:], *words[:4])
    strict = show(me, "--preset", "strict")
    late = show(me, "-p", "a.json", "--preset", "strict")
    assert late["limits"]["wall"] == "10s", "a file outranks a preset that stands after it"
    assert late.keys() >= strict.keys()


def test_relative_paths_in_a_file_are_relative_to_the_file(me):
    sub = me.mkdir("work/sub")
    me.write(sub / "p.json", '{"fs": {"read": ["data"]}}')
    assert show(me, "-p", "sub/p.json")["fs"]["read"] == [str(sub / "data")]


# --- getting it wrong ----------------------------------------------------------------------------

WRONG = [
    (["run"], "no command given (try 'cordon run --help')"),
    (["run", "--"], "no command given (try 'cordon run --help')"),
    (["run", "-q"], "no command given (try 'cordon run --help')"),
    (["run", "-q", "-r", "ls"], "no command given ('ls' was taken as the value of -r)"),
    (["run", "--timeout", "5s"], "no command given ('5s' was taken as the value of --timeout)"),
    (["run", "--timeout=5s"], "no command given (try 'cordon run --help')"),
    (["run", "-r", "x", "--"], "no command given (try 'cordon run --help')"),
    (["run", "--commands", "nosuch-program", "--", "true"],
     "commands (--commands): cannot find 'nosuch-program' in PATH"),
    (["run", "--protect", "existing", "--require", "protect", "true"],
     "--require protect contradicts --protect existing (leave one of the two out)"),
    (["run", "--no-protect", "--require", "protect", "true"], "--require protect contradicts --protect off"),
    (["run", "-r", "~nobody/x", "true"],
     "--read: '~nobody/x': only ~ and ~/ are expanded (write the path in full, or './~nobody/x')"),
    (["run", "-r", "/no-such", "true"], "cannot grant '/no-such' for reading: no such file or directory"),
    (["run", "--isolation", "landlock", "--publish", "80", "true"], "net.publish (--publish) needs level namespaces"),
    (["run", "--isolation", "landlock", "--disk", "1G", "true"], "limits.disk (--disk) cannot be enforced here: "),
    (["run", "--tiemout", "3", "true"], "unknown option '--tiemout' (did you mean '--timeout'?)"),
    (["run", "--tiemout=3", "true"], "unknown option '--tiemout' (did you mean '--timeout'?)"),
    (["run", "--raed", "x"], "unknown option '--raed' (did you mean '--read'?)"),
    (["run", "--ro-bind", "/usr", "/usr", "true"], "unknown option '--ro-bind' (-r PATH shows it, at the same path inside)"),
    (["run", "--bind", ".", ".", "true"],
     "unknown option '--bind' (-w PATH lets it be written, at the same path inside)"),
    (["run", "--allow-net", "true"], "unknown option '--allow-net' (--net-allow HOST)"),
    (["run", "--allow-read=.", "true"], "unknown option '--allow-read' (-r PATH shows it, at the same path inside)"),
    (["run", "--net=none", "true"],
     "unknown option '--net' (there is no network but what --net-allow HOST names)"),
    (["run", "--network", "host", "true"],
     "unknown option '--network' (there is no network but what --net-allow HOST names)"),
    (["run", "--profile", "x", "true"],
     "unknown option '--profile' (--preset NAME, or -p FILE for a policy of your own)"),
    (["run", "-c", "a | b"], "unknown option '-c' (a shell's line: cordon run -- sh -c 'LINE')"),
    (["run", "--mount", "type=bind", "true"],
     "unknown option '--mount' (-r DIR shows it, -w DIR lets it be written, at the same path inside)"),
    (["run", "--rm", "true"], "unknown option '--rm' (nothing is kept; leave it out)"),
    (["run", "-it", "bash"],
     "'-it' means -i and -t DUR here (the command has a terminal when you are at one; -i insists)"),
    (["run", "-ti", "bash"],
     "'-ti' means -i and -t DUR here (the command has a terminal when you are at one; -i insists)"),
    (["run", "--xyzzy-plugh", "x"], "unknown option '--xyzzy-plugh' (try 'cordon run --help')"),
    (["run", "--time", "3", "true"], "unknown option '--time'"),
    (["run", "--net-allow", "x:53", "true"],
     "--net-allow: 'x:53' names port 53, which cannot be allowed (Cordon answers DNS itself, "
     "for the names that are allowed)"),
    (["run", "--net-allow", "https://x/", "true"], "--net-allow: 'https://x/' is a URL"),
    (["run", "--net-deny", "10.0.0.1/8", "true"],
     "--net-deny: '10.0.0.1/8' has bits set beyond its prefix (the network is 10.0.0.0/8)"),
    (["run", "--publish", "0", "true"], "--publish: '0' has an invalid port inside the sandbox; ports are 1 to 65535"),
    (["run", "--net-max", "0", "true"], "--net-max must be at least 1, not 0"),
    (["run", "--net-log"], "option '--net-log' needs a value: FILE"),
    (["policy", "show", "--net-log", "x"], "unknown option '--net-log'"),
    (["run", "--workspce", ".", "true"], "unknown option '--workspce' (did you mean '--workspace'?)"),
    (["run", "--workspace", "nothing-here", "true"], "cannot use 'nothing-here' as a workspace: no such file"),
    (["run", "--workspace", ".", "--on-exit", "keeep", "true"], "--on-exit cannot be 'keeep' (it is keep, commit"),
    (["run", "--on-exit", "commit", "true"], "--on-exit needs a workspace (say which"),
    (["run", "--diff", "true"], "--diff needs a workspace (say which directory: --workspace DIR)"),
    (["run", "--name", "nobody", "true"], "there is no workspace 'nobody' (to make it: --workspace DIR --name nobody)"),
    (["run", "--workspace", ".", "--name", "a b", "true"], "'a b'"),
    (["run", "--workspace", ".", "-w", ".", "true"], "'.' cannot be both the workspace and a write grant"),
    (["run", "-x", "1G", "true"], "unknown option '-x' (try 'cordon run --help')"),
    (["run", "--memroy", "1G", "true"], "unknown option '--memroy' (did you mean '--memory'?)"),
    (["run", "-qZ", "true"], "unknown option '-Z' (try 'cordon run --help')"),
    (["run", "-ü", "true"], "unknown option '-ü'"),
    (["run", "---", "true"], "unknown option '---'"),
    (["run", "--json=1", "true"], "option '--json' takes no value"),
    (["run", "--no-protect=", "true"], "option '--no-protect' takes no value"),
    (["run", "-t"], "option '--timeout' needs a value: DUR"),
    (["run", "-qt"], "option '--timeout' needs a value: DUR"),
    (["run", "--timeout"], "option '--timeout' needs a value: DUR"),
    (["run", "-r", "--", "true"], "option '--read' needs a value: PATH"),
    (["run", "-t", "5x", "true"], "--timeout: '5x' is not a duration"),
    (["run", "-t", "", "true"], "--timeout"),
    (["run", "-t", "-1", "true"], "--timeout"),
    (["run", "-t", "0", "true"], "--timeout"),
    (["run", "-t", "99999999999999999999s", "true"], "--timeout"),
    (["run", "-P", "0", "true"], "--procs"),
    (["run", "-P", "1e3", "true"], "--procs"),
    (["run", "--open-files", "many", "true"], "--open-files: "),
    (["run", "--max-output", "1Q", "true"], "--max-output: "),
    (["run", "--grace", "-1s", "true"], "--grace"),
    (["run", "--grace", "2h", "true"], "--grace"),
    (["run", "-m", "0", "true"], "--memory"),
    (["run", "-m", "1023K", "true"], "--memory"),
    (["run", "-m", "1GB", "true"], "--memory"),
    (["run", "-m", "99999999T", "true"], "--memory"),
    (["run", "--cpus", "0", "true"], "--cpus"),
    (["run", "--cpus", "50%", "true"], "--cpus"),
    (["run", "--cpus", "-1", "true"], "--cpus"),
    (["run", "--cpu-time", "0", "true"], "--cpu-time"),
    (["run", "--disk", "1K", "true"], "--disk"),
    (["run", "--file-size", "-1", "true"], "--file-size: "),
    (["run", "--end-on-output=yes", "true"], "option '--end-on-output' takes no value"),
    (["run", "--end-on-output", "true"], "limits.output_end (--end-on-output) needs limits.output (--max-output SIZE)"),
    (["run", "--best-effort", "", "true"], "--best-effort: no limit is named"),
    (["run", "--best-effort", "memroy", "true"], "(did you mean 'memory'?)"),
    (["run", "-r", "", "true"], "--read: "),
    (["run", "-e", "", "true"], "--env: "),
    (["run", "-e", "=x", "true"], "--env: "),
    (["run", "-e", "A\nB=1", "true"], "--env: "),
    (["run", "--isolation", "namespace", "true"], "(did you mean 'namespaces'?)"),
    (["run", "--require", "lnadlock", "true"], "(did you mean 'landlock'?)"),
    (["run", "--require", "", "true"], "--require: "),
    (["run", "--preset", "pyhton", "true"], "python"),
    (["run", "--user", "0", "true"], "--user: "),
    (["run", "--user", "0:0", "true"], "--user: "),
    (["run", "--user", "1:", "true"], "--user: "),
    (["run", "--user", "-1", "true"], "--user: "),
    (["run", "-p", "nope.json", "true"], "nope.json"),
    (["run", "--receipt", "", "true"], "receipt"),
    (["run", "--receipt", "-", "true"],
     "--receipt: '-' is not a file name (--json is for standard output, './-' for a file of that name)"),
    (["run", "--net-log=-", "true"], "--net-log: '-' is not a file name ('./-' for a file of that name)"),
    (["workspace", "export", "-o", "-"], "--output: '-' is not a file name (leave -o out for standard output"),
    (["run", "--receipt", "nowhere/r.json", "true"], "cannot write receipt 'nowhere/r.json'"),
    (["run", "--receipt", "/dev/null", "true"], "not a regular file"),
    (["run", "--receipt", "/dev/stdout", "true"], "not a regular file"),
    (["rnu", "--", "true"], "unknown verb 'rnu' (did you mean 'run'?)"),
    (["chekc"], "unknown verb 'chekc' (did you mean 'check'?)"),
    (["polcy", "show"], "unknown verb 'polcy' (did you mean 'policy'?)"),
    (["policy"], "'policy' needs one of: show, validate, schema"),
    (["policy", "shwo"], "unknown verb 'policy shwo' (did you mean 'show'?)"),
    (["workspace"], "'workspace' needs one of: list, status, diff, commit, discard, export, gc"),
    (["workspace", "comit"], "unknown verb 'workspace comit' (did you mean 'commit'?)"),
    (["worspace", "list"], "unknown verb 'worspace' (did you mean 'workspace'?)"),
    (["workspace", "list", "x"], "'workspace list' takes no argument 'x'"),
    (["workspace", "status", "a", "b"], "'workspace status' takes one workspace"),
    (["workspace", "diff", "--patch", "--stat"], "exclude each other"),
    (["workspace", "diff", "--json", "x", "y"], "--json is about a whole workspace (leave the paths out)"),
    (["workspace", "commit", "--ours", "--force"], "--ours and --force exclude each other"),
    (["workspace", "commit", "-i"], "--interactive asks, and standard input is no terminal"),
    (["workspace", "commit", "-i", "--json"], "--interactive and --json exclude each other"),
    (["workspace", "discard", "--all"], "--all asks, and there is no terminal (say --yes)"),
    (["workspace", "discard", "--all", "x"], "takes no argument 'x'"),
    (["workspace", "export", "--format", "zip"], "--format: unknown format 'zip' (tar or patch)"),
    (["workspace", "gc", "--older-than", "1w"], "--older-than: '1w' is not a duration"),
    (["workspace", "gc", "--older-than", "5x"], "(units are ms, s, m, h and d)"),
    (["workspace", "gc", "--older-than", "-1d"], "--older-than: "),
    (["workspace", "gc", "x"], "takes no argument 'x'"),
    (["run", "--with-file", "none.txt", "true"], "cannot read 'none.txt': no such file or directory"),
    (["run", "--with-file", "/usr", "true"], "cannot read '/usr': is a directory"),
    (["xyzzy"], "unknown verb 'xyzzy' (try 'cordon --help')"),
    (["--verison"], "unknown option '--verison' (did you mean '--version'?)"),
    (["-v"], "unknown option '-v' (try 'cordon --help')"),
    (["ls"], "unknown verb 'ls' (to run it: cordon run -- ls)"),
    (["/bin/ls", "-l"], "unknown verb '/bin/ls' (to run it: cordon run -- /bin/ls)"),
    (["--", "ls"], "no verb given (to run it: cordon run -- ls)"),
    (["--"], "no verb given (try 'cordon --help')"),
    (["exec", "ls"], "unknown verb 'exec' (to run it: cordon run -- ls)"),
    (["exec", "xyzzy"], "unknown verb 'exec' (did you mean 'session exec'?)"),
    (["pause", "x"], "unknown verb 'pause' (did you mean 'session pause'?)"),
    (["ps", "x"], "usage: cordon ps [--json]"),
    (["wait"], "usage: cordon wait [--json] RUN"),
    (["logs", "zz"], "there is no run 'zz' ('cordon ps' lists"),
    (["inspect", ""], "there is no run ''"),
    (["kill", "-s", "KILL", "zz"], "--signal: 'KILL' is none that a run passes on (--now ends"),
    (["kill", "-s", "STOP", "zz"], "(TSTP stops it)"),
    (["kill", "-s", "no", "zz"], "(one of TERM, INT, HUP"),
    (["kill", "-s", "INT", "--now", "zz"], "contradict each other"),
    (["status"], "unknown verb 'status' (did you mean 'workspace status' or 'microvm status' or 'pool status'?)"),
    (["session", "list"], "unknown verb 'session list' ('cordon ps' lists the sessions)"),
    (["session", "rm"], "unknown verb 'session rm' (try 'cordon session --help')"),
    (["check", "extra"], "'check' takes no argument 'extra'"),
    (["check", "--timeout", "3"], "unknown option '--timeout'"),
    (["policy", "validate"], "no policy file given"),
    (["policy", "schema", "x"], "takes no argument"),
    (["policy", "show", "--receipt", "x"], "unknown option '--receipt'"),
    (["completion"], "needs the name of one shell"),
    (["completion", "tcsh"], "no completion for shell 'tcsh' (one of bash, zsh, fish)"),
    (["completion", "bash", "zsh"], "needs the name of one shell"),
    (["help", "rnu"], "unknown verb 'rnu' (did you mean 'run'?)"),
]


@pytest.mark.parametrize("words, message", WRONG, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_wrong(me, words, message):
    assert message in refused(me, *words)


def test_control_bytes_in_messages_are_escaped(me):
    for words in (["run", "--\x1b[31mred\n"], ["run", "-\x1bx"], ["\x1b]0;title\x07"], ["policy", "\x1b"],
                  ["run", "--receipt", "\x1b/x", "true"], ["help", "a\nb"], ["completion", "\x9b"]):
        line = refused(me, *words)
        assert all(c.isprintable() for c in line), line


def test_bare_cordon_is_wrong_usage_and_helps(me):
    done = cli(me)
    assert done.returncode == 125 and not done.out and done.err.startswith("Usage: cordon VERB")


def test_many_bundled_letters_and_options(me):
    done = cli(me, "run", "-" + "qv" * 500, *["--read=/usr"] * 3, "--json=x")
    assert done.returncode == 125 and "takes no value" in done.err
    assert len(show(me, *[w for i in range(300) for w in ("-r", f"/p{i}")])["fs"]["read"]) == 300


def test_options_end_at_the_command(me):
    got = cli(me, "policy", "show", "-t", "1s", "true", "-t", "9s", "--json")
    assert got.returncode == 0, got.err
    assert json.loads(got.out)["policy"]["limits"]["wall"] == "1s"


def test_show_with_a_command_has_the_plan(me):
    got = json.loads(cli(me, "policy", "show", "-r", ".", "--", "true").out)
    assert set(got) == {"policy", "settings", "plan"} and got["plan"]


def test_show_says_where_each_value_comes_from(me):
    """Every key, its value or its default, and the preset, file or flag behind it."""
    me.write(me.work / "p.json", '{"limits": {"procs": 7}, "env": {"set": {"A": "1", "B": "2"}}}')
    words = ["-t", "9s", "--preset", "agent", "-p", "p.json", "-w", "x", "-w", ".", "-e", "A=3", "--commands", ""]
    done = cli(me, "policy", "show", *words)
    assert done.returncode == 0, done.err
    lines = [re.split(r"  +", line, maxsplit=2) for line in done.out.splitlines()]
    assert lines[0] == ["KEY", "FROM", "VALUE"]
    got = {}
    for key, source, value in lines[1:]:
        got.setdefault(key, []).append((value, source))
    assert got["limits.wall"] == [("9s", "--timeout")]  # a flag wins over the preset
    assert got["limits.procs"] == [("7", "file p.json")]
    assert got["limits.output"] == [("16M", "preset agent")]
    assert got["limits.open_files"] == [("1024", "default")]
    assert got["limits.memory"] == [("none", "default")]
    assert got["fs.write"][:2] == [(".", "preset agent"), ("x", "--write")]
    assert got["env.set"][:2] == [("B=2", "file p.json"), ("A=3", "--env")]
    # What is there in any case, besides.
    assert all(got[key][-1][1] == "default" for key in ("fs.read", "fs.write", "env.pass", "env.set"))
    assert got["commands"] == [("(nothing)", "--commands")]
    assert got["isolation"] == [("auto", "default")]
    # The same for programs; every key of the schema is there.
    rows = json.loads(cli(me, "policy", "show", "--json", *words).out)["settings"]
    assert [(r["key"], r["from"]) for r in rows] == [(k, s) for k, s, _ in lines[1:]]
    assert {"key": "limits.procs", "value": "7", "from": "file p.json", "default": "256"} in rows
    schema = json.loads(cli(me, "policy", "schema").out)["properties"]
    keys = {f"{g}.{k}" for g in ("fs", "env", "net", "limits") for k in schema[g]["properties"]}
    keys |= set(schema) - {"fs", "env", "net", "limits", "preset", "version", "$schema"}
    assert set(got) == keys


def test_show_has_the_defaults_of_a_run(me):
    """The names in the default of env.set are what a run finds, and no default is another caller's."""
    got = {line.split()[0]: line for line in cli(me, "policy", "show").out.splitlines()}
    names = set(re.findall(r"\b[A-Z]{3,}\b", got["env.set"] + " " + got["env.pass"]))
    inside = cli(me, "run", "--", "env", "-0").out
    assert {entry.split("=")[0] for entry in inside.split("\0") if entry} <= names | {"TMPDIR"}
    assert got["limits.output"].split()[1:] == ["default", "none"]
    assert got["fs.write"].endswith("private /tmp, home and /dev/shm")


def test_show_refuses_what_a_run_refuses(me):
    for words in (["-t", "x"], ["-p", "nowhere.json"], ["--preset", "no"]):
        for more in ([], ["--json"]):
            done = cli(me, "policy", "show", *words, *more)
            assert (done.returncode, done.out) == (125, ""), done
            assert done.err == cli(me, "run", *words, "true").err


NOT_PROGRAMS = [
    (["-v", "/src:/dst", "true"],
     "cannot find '/src:/dst': no such file or directory (-v is --verbose here; -r DIR shows it, -w DIR lets it be "
     "written, at the same path inside)"),
    (["ls | wc -l"], "cannot find 'ls | wc -l' in PATH (a shell's line: cordon run -- sh -c 'ls | wc -l')"),
    (["echo 'a'; b"], "cannot find 'echo 'a'; b' in PATH (a shell's line: cordon run -- sh -c 'LINE')"),
    (["A=1", "make"], "cannot find 'A=1' in PATH (-e NAME=VALUE, before the command, sets a variable)"),
]  # fmt: skip


@pytest.mark.parametrize("words, message", NOT_PROGRAMS, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_commands_that_are_something_else(me, words, message):
    done = cli(me, "run", *words)
    assert (done.returncode, done.out, done.err) == (127, "", f"cordon: {message}\n")


def test_a_name_that_is_not_in_path(me):
    """What lies in the current directory, and what only a shell knows, is said; nothing of it is run."""
    me.write(me.work / "run.py", "#!/bin/sh\necho ran\n", 0o755)
    me.write(me.work / "plain.py", "print(1)\n")
    me.write(me.work / "plain.sh", "echo ran\n")
    me.write(me.work / "plain", "echo ran\n")
    me.write(me.mkdir("work/tools") / "my-linter", "#!/bin/sh\necho ran\n", 0o755)
    for name, hint in (
        ("run.py", "did you mean './run.py'?"),
        ("plain.py", "did you mean 'python3 plain.py'?"),
        ("plain.sh", "did you mean 'sh plain.sh'?"),
        ("plain", "'./plain' is not executable; if it is a program: chmod +x 'plain'"),
        ("tools", "'./tools' is a directory"),
        ("export", "it is a shell's own command: cordon run -- sh -c 'export ...'"),
        ("source", "it is a shell's own command: cordon run -- bash -c 'source ...'"),
    ):
        done = cli(me, "run", name)
        assert (done.returncode, done.out) == (127, "")
        assert done.err == f"cordon: cannot find '{name}' in PATH ({hint})\n"
    for entry in ("tools", "./tools", ""):
        where = f"{entry or '.'}/my-linter"
        me.write(me.work / "my-linter", "#!/bin/sh\necho ran\n", 0o755)
        done = cli(me, "run", "my-linter", env={"PATH": f"{entry}:/usr/bin:/bin"})
        assert (done.returncode, done.out) == (127, "")
        hint = f"relative entries of PATH are ignored; it is at '{where}'"
        assert done.err == f"cordon: cannot find 'my-linter' in PATH ({hint})\n"


def test_shown_policy_given_back(me):
    """The document around the policy is no policy, and the message says where that is."""
    me.write(me.work / "shown.json", cli(me, "policy", "show", "--json", "-t", "5s").out)
    line = refused(me, "policy", "validate", "shown.json")
    assert "unknown key 'policy'" in line and line.endswith("as its member 'policy': jq .policy)")


def test_denied_inside_a_write_grant_at_level_landlock(me):
    sub = me.mkdir("work/sub")
    line = refused(me, "run", "--isolation", "landlock", "-w", ".", "--deny", "sub", "true")
    assert line.startswith(f"level landlock cannot deny '{sub}' inside the write grant '.' (")


def test_a_program_with_a_space_in_its_name(me):
    path = me.write(me.work / "a program", "#!/bin/sh\necho ran\n", 0o755)
    done = cli(me, "run", path)
    assert (done.returncode, done.out) == (0, "ran\n")


def test_bundled_flags_that_are_ours(me):
    """-it with a duration is -i and -t."""
    done = cli(me, "run", "-it", "5s", "true")
    assert done.returncode == 125 and "-i wants a terminal" in done.err


# --- help, version, completion, pages ------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_a_screen(me, verb):
    done = cli(me, *verb.split(), "--help")
    assert (done.returncode, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith(f"Usage: cordon {verb}")
    assert len(lines) <= 56 and max(map(len, lines)) <= 79
    assert done.out == cli(me, *verb.split(), "-h").out
    if verb != "help":
        assert done.out == cli(me, "help", *verb.split()).out


def test_help_wins_over_the_rest(me):
    assert cli(me, "run", "-t", "1s", "--help").out.startswith("Usage: cordon run")


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_top_help(me, words):
    done = cli(me, *words)
    assert done.returncode == 0
    for verb in VERBS:
        assert f"  {verb} " in done.out
    assert max(map(len, done.out.splitlines())) <= 79


@pytest.mark.parametrize("group, word", [("policy", "validate"), ("workspace", "discard"), ("session", "resume")])
def test_group_help(me, group, word):
    assert word in cli(me, group, "--help").out == cli(me, "help", group).out


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_version(me, word):
    version = re.search(r'CORDON_VERSION "(.*)"', (ROOT / "include/cordon/version.h").read_text()).group(1)
    done = cli(me, word)
    assert (done.returncode, done.out) == (0, f"cordon {version}\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_option(me, shell, tmp_path):
    done = cli(me, "completion", shell)
    assert done.returncode == 0
    for verb in VERBS:
        for name, short, _ in options_of(me, verb):
            assert (f"-l {name}" if shell == "fish" else f"--{name}") in done.out
    script = tmp_path / "script"
    script.write_text(done.out)
    if shell == "bash" or shutil.which(shell):
        got = subprocess.run([shell, "-n", str(script)], capture_output=True, check=False)
        assert (got.returncode, got.stderr) == (0, b"")


COMPLETIONS = [
    (["r"], {"run"}),
    (["policy", ""], {"show", "validate", "schema"}),
    (["workspace", "d"], {"diff", "discard"}),
    (["session", "st"], {"start", "stop"}),
    (["session", "exec", "--de"], {"--detach"}),
    (["workspace", "export", "--format", ""], {"tar", "patch"}),
    (["workspace", "commit", "--in"], {"--interactive"}),
    (["run", "--time"], {"--timeout"}),
    (["run", "-q", "--preset", "p"], {"python"}),
    (["run", "--isolation", ""], {"auto", "namespaces", "landlock", "microvm"}),
    (["run", "-t", "--is"], set()),
    (["policy", "validate", "--j"], {"--json"}),
    (["completion", ""], {"bash", "zsh", "fish"}),
    (["new", ""], {"crewai", "autogen", "openai-agents", "langchain"}),
    (["new", "crewai", "/et"], {"/etc"}),
    (["run", "-w", "/etc/host"], {str(path) for path in pathlib.Path("/etc").glob("host*")}),
    (["run", "ls", "--is"], set()),
]


@pytest.mark.parametrize("words, want", COMPLETIONS, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_bash_completion_at_work(me, words, want, tmp_path):
    script = tmp_path / "script"
    script.write_text(cli(me, "completion", "bash").out)
    code = 'source "$1"; shift; COMP_WORDS=(cordon "$@"); COMP_CWORD=$#; _cordon; printf "%s\\n" "${COMPREPLY[@]}"'
    got = subprocess.run(["bash", "-c", code, "-", str(script), *words], capture_output=True, text=True, check=False)
    assert got.stderr == ""
    words_got = set(got.stdout.split())
    if any(w.startswith("/") for w in want):
        assert words_got and words_got <= want
    else:
        assert words_got == want


def complete(me, *words):
    script = me.write(me.work / "script", cli(me, "completion", "bash").out)
    code = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cordon; printf "%s\\n" "${COMPREPLY[@]}"'
    got = me.outside(["bash", "-c", code, "-", script, me.cordon, *words])
    assert got.stderr == b""
    return got.stdout.decode().split()


def test_bash_completion_offers_workspaces(me):
    me.mkdir("work/base")
    for name in ("one", "two"):
        done = cli(me, "run", "--workspace", "base", "--name", name, "--", "touch", "base/x")
        assert done.returncode == 0, done.err
    for verb in ("status", "diff", "commit", "discard", "export"):
        assert {"one", "two"} <= set(complete(me, "workspace", verb, ""))
        assert complete(me, "workspace", verb, "on") == ["one"]
    assert complete(me, "workspace", "diff", "one", "t") == []
    assert complete(me, "workspace", "discard", "one", "tw") == ["two"]


def test_bash_completion_offers_sessions(me):
    name = f"c{me.uid}-{me.work.parent.name}"[:48]
    assert cli(me, "session", "start", "--name", name).returncode == 0
    try:
        for verb in ("exec", "put", "get", "ls", "logs", "ps", "env", "pause", "resume", "kill", "stop"):
            assert complete(me, "session", verb, name[:-1]) == [name], verb
        assert "sh" in complete(me, "session", "exec", name, "s")
        assert "sh" in complete(me, "session", "exec", "-d", name, "--", "s")
        assert complete(me, "session", "put", name, "/etc/host") == complete(me, "run", "-w", "/etc/host")
        assert complete(me, "session", "get", name, "x", "/etc/host") == complete(me, "run", "-w", "/etc/host")
        assert complete(me, "session", "get", name, "/etc/host") == []
    finally:
        assert cli(me, "session", "stop", name).returncode == 0


def test_bash_completion_offers_runs(me):
    run = me.popen(me.argv([], ["sleep", "60"]))
    try:
        wanted = lambda: [r["id"] for r in json.loads(cli(me, "ps", "--json").out) if r.get("pid") == run.pid]  # noqa: E731
        while not wanted():
            assert run.poll() is None
        for verb in ("inspect", "kill", "logs", "wait"):
            assert complete(me, verb, wanted()[0][:-1]) == wanted(), verb
        assert wanted()[0] not in complete(me, "session", "ps", "")
    finally:
        run.terminate()
        run.wait()


def test_bash_completion_offers_a_command_once(me):
    words = complete(me, "run", "s")
    assert "sh" in words and len(words) == len(set(words))
    assert "sh" in complete(me, "session", "start", "s")
    assert "sh" in complete(me, "mcp", "--wrap", "--", "s")


def page(name):
    text = (ROOT / "man" / f"{name}.scd").read_text()
    return re.sub(r"[*_\\]", "", text)


@pytest.mark.parametrize("verb, name", [("run", "cordon-run.1"), ("check", "cordon-check.1"),
                                        ("new", "cordon-new.1"),
                                        ("policy show", "cordon-policy.1"),
                                        ("policy validate", "cordon-policy.1"),
                                        *((verb, "cordon-workspace.1") for verb in WORKSPACE_VERBS),
                                        *((verb, "cordon-session.1") for verb in SESSION_VERBS[1:]),
                                        *((verb, "cordon-ps.1") for verb in ("ps", "inspect", "kill", "logs", "wait"))])
def test_man_page_names_every_option(me, verb, name):
    text = page(name)
    for long, short, arg in options_of(me, verb):
        assert re.search(rf"--{long}\b", text), long
        if short:
            assert re.search(rf"(^|\W)-{short}\b", text), short
        if arg and verb == "run":
            assert f"--{long} {arg}" in text, f"{long} {arg}"


def test_man_pages_name_every_verb(me):
    text = page("cordon.1")
    for verb in VERBS:
        assert verb.split()[0] in text


@pytest.mark.parametrize("source", sorted((ROOT / "man").glob("*.scd")), ids=lambda p: p.stem)
def test_man_page_is_sound(source, tmp_path):
    if not shutil.which("scdoc") or not shutil.which("mandoc"):
        pytest.skip("scdoc and mandoc are not installed")
    done = subprocess.run(["scdoc"], input=source.read_bytes(), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    (tmp_path / source.stem).write_bytes(done.stdout)
    lint = subprocess.run(["mandoc", "-Tlint", "-W", "warning", str(tmp_path / source.stem)],
                          capture_output=True, text=True, check=False).stdout
    # scdoc puts a paragraph macro around everything; that one warning is its, not ours.
    assert not [line for line in lint.splitlines() if "skipping paragraph macro" not in line]


def test_option_table_agrees_with_the_policy_keys(me):
    """Flags stand in two tables: the command's and, for messages and the reference, the policy's."""
    source = (ROOT / "src/policy/keys.c").read_text()
    keys = re.findall(r"\{\s*\.name = .*?\n\t\}", source, re.S)
    options = {name: short for name, short, _ in options_of(me, "policy show")}
    assert len(keys) > 10
    named = set()
    for key in keys:
        flag = re.search(r'\.flag = "(.*?)"', key)
        short = re.search(r"\.short_flag = '(.)'", key)
        assert flag, key
        assert options[flag.group(1)] == (short.group(1) if short else None), key
        named.add(flag.group(1))
    assert set(options) - named == {"preset", "policy", "json", "help", "no-protect"}


# --- texts ---------------------------------------------------------------------------------------


def test_help_fits_a_terminal_of_80_columns(me):
    groups = sorted({verb.split()[0] for verb in VERBS if " " in verb})
    for words in [[], *([verb] for verb in groups), *(verb.split() for verb in VERBS)]:
        wide = [line for line in cli(me, *words, "--help").out.splitlines() if len(line) > 80]
        assert wide == [], words


def test_a_session_takes_no_option_that_would_do_nothing_there(me):
    done = refused(me, "session", "start", "--max-output", "1k", "--end-on-output")
    assert "unknown option '--end-on-output'" in done


def test_a_place_that_cannot_be_used_is_said_with_what_helps(me):
    """Nothing around Cordon is to blame: the directory is the caller's own choice."""
    no_state = {"XDG_STATE_HOME": "/proc/no"}
    err = refused(me, "run", "--workspace", ".", "--", "true", env=no_state)
    assert "state directory /proc/no/cordon" in err and "(set XDG_STATE_HOME to a directory of your own)" in err
    err = refused(me, "run", "--with", "six", "--", "python3", "-V", env={"XDG_CACHE_HOME": "/proc/no"})
    assert "cache directory '/proc/no/cordon/packages'" in err and "(set XDG_CACHE_HOME to a directory of yours)" in err


def test_a_place_that_is_closed_is_said_with_what_helps(me):
    if me.uid == 0:
        pytest.skip("root is not kept out")
    shut = me.work / "shut"
    shut.mkdir()
    shut.chmod(0)
    state, cache = {"XDG_STATE_HOME": str(shut)}, {"XDG_CACHE_HOME": str(shut)}
    for err in (refused(me, "workspace", "list", env=state), refused(me, "run", "--workspace", ".", "--", "true", env=state)):
        assert "permission denied (set XDG_STATE_HOME to a directory of your own)" in err
    err = refused(me, "cache", "list", env=cache)
    assert "cannot be opened: permission denied (set XDG_CACHE_HOME to a directory of yours)" in err
