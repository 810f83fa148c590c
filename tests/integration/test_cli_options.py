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
VERBS = ["run", "check", "policy show", "policy validate", "policy schema", *WORKSPACE_VERBS, "new", "completion", "help"]
POLICY_VERBS = ["run", "policy show"]


def cli(me, *words, **kw):
    done = me.outside([me.cordon, *words], **kw)
    done.out = done.stdout.decode()
    done.err = done.stderr.decode()
    return done


def show(me, *words, **kw):
    done = cli(me, "policy", "show", *words, **kw)
    assert done.returncode == 0, done.err
    return json.loads(done.out)


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
    (["--commands", "sh,ls"], {"commands": ["sh", "ls"]}),
    (["--commands=sh", "--commands", "ls"], {"commands": ["sh", "ls"]}),
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
    tried |= {"--preset", "--policy", "--max-output", "--help"}
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
    (["run", "--tiemout", "3", "true"], "unknown option '--tiemout' (did you mean '--timeout'?)"),
    (["run", "--tiemout=3", "true"], "unknown option '--tiemout' (did you mean '--timeout'?)"),
    (["run", "--raed", "x"], "unknown option '--raed' (did you mean '--read'?)"),
    (["run", "--xyzzy-plugh", "x"], "unknown option '--xyzzy-plugh' (try 'cordon run --help')"),
    (["run", "--time", "3", "true"], "unknown option '--time'"),
    (["run", "--net-allow", "x:53", "true"],
     "--net-allow: 'x:53' names port 53, which cannot be allowed (Cordon answers DNS itself, "
     "for the names that are allowed)"),
    (["run", "--net-allow", "https://x/", "true"], "--net-allow: 'https://x/' is a URL"),
    (["run", "--net-deny", "10.0.0.1/8", "true"],
     "--net-deny: '10.0.0.1/8' has bits set beyond its prefix (the network is 10.0.0.0/8)"),
    (["run", "--publish", "0", "true"], "--publish: '0' has an invalid port inside the sandbox (1 to 65535)"),
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
    (["run", "--end-on-output", "true"], "(say how much: --max-output SIZE)"),
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
    (["xyzzy"], "unknown verb 'xyzzy' (try 'cordon --help')"),
    (["--verison"], "unknown verb '--verison'"),
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
    assert set(got) == {"policy", "plan"} and got["plan"]


# --- help, version, completion, pages ------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_a_screen(me, verb):
    done = cli(me, *verb.split(), "--help")
    assert (done.returncode, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith(f"Usage: cordon {verb}")
    assert len(lines) <= 53 and max(map(len, lines)) <= 80
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
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize("group, word", [("policy", "validate"), ("workspace", "discard")])
def test_group_help(me, group, word):
    assert word in cli(me, group, "--help").out == cli(me, "help", group).out


@pytest.mark.parametrize("word", ["--version", "-V"])
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
    (["workspace", "export", "--format", ""], {"tar", "patch"}),
    (["workspace", "commit", "--in"], {"--interactive"}),
    (["run", "--time"], {"--timeout"}),
    (["run", "-q", "--preset", "p"], {"python"}),
    (["run", "--isolation", ""], {"auto", "namespaces", "landlock"}),
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


def page(name):
    text = (ROOT / "man" / f"{name}.scd").read_text()
    return re.sub(r"[*_\\]", "", text)


@pytest.mark.parametrize("verb, name", [("run", "cordon-run.1"), ("check", "cordon-check.1"),
                                        ("new", "cordon-new.1"),
                                        ("policy show", "cordon-policy.1"),
                                        ("policy validate", "cordon-policy.1"),
                                        *((verb, "cordon-workspace.1") for verb in WORKSPACE_VERBS)])
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
    assert set(options) - named == {"preset", "policy", "help"}
