# SPDX-License-Identifier: Apache-2.0
"""run_code(), explanations, and what the sandbox keeps code from."""

import errno
import importlib.metadata
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading

import pytest

import pycordon


def test_python(box):
    got = box.run_code("import sys; print(sys.argv[1:], sys.stdin.read())", args=["a b"], stdin="x")
    assert got.stdout == "['a b'] x\n"
    same = box.run_code("import sys; print(sys.version_info[:3])").stdout
    assert same == f"{tuple(sys.version_info[:3])}\n"
    bad = box.run_code("1 / 0", filename="job.py")
    assert bad.exit_code == 1 and "ZeroDivisionError" in bad.stderr and "job.py" in bad.stderr


def test_files_beside_it_and_nothing_left(box):
    code = "import helper, pathlib; print(helper.x, (pathlib.Path(__file__).parent / 'd/t').read_text())"
    before = [info.name for info in box.files.list("/tmp")]  # mount points, of a home below /tmp
    got = box.run_code(code, files={"helper.py": "x = 5", "d/t": b"text"})
    assert got.stdout == "5 text\n", got.stderr
    assert [info.name for info in box.files.list("/tmp")] == before
    for bad in ("../x", "/x", "a//b", "", "a/../b", "."):
        with pytest.raises(pycordon.UsageError):
            box.run_code("1", files={bad: ""})


@pytest.mark.parametrize(
    "language, code, program",
    [
        ("bash", "echo ${BASH_VERSION:+bash} $1", "bash"),
        ("sh", "echo sh $1", "sh"),
        ("perl", "print 'perl ', $ARGV[0], qq(\\n)", "perl"),
        ("javascript", "console.log('js', process.argv[2])", "node"),
        ("ruby", "puts 'ruby ' + ARGV[0]", "ruby"),
        ("awk", "BEGIN { print \"awk\", ARGV[1] }", "awk"),
        ("python3", "import sys; print('py', sys.argv[1])", "python3"),
        ("/usr/bin/env", "", "env"),
    ],
)
def test_languages(box, language, code, program):
    if not shutil.which(program):
        got = box.run_code(code, language)
        assert got.returncode == 127
        return
    got = box.run_code(code, language, args=["arg"])
    if program != "env":
        assert got.ok and got.stdout.split()[1] == "arg", got.text


def test_unknown_interpreters(box):
    assert box.run_code("x", "no-such-interpreter").returncode == 127
    for bad in ("", "rm -rf", "a\0b"):
        with pytest.raises(pycordon.UsageError):
            box.run_code("x", bad)


def test_there_is_a_program_called_python(box):
    assert box.run("python -c 'print(1)'").stdout == "1\n"
    assert box.run(["python", "-c", "print(2)"]).stdout == "2\n"


def test_a_venv_is_found(box, tmp_path, host):
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    site = next((venv / "lib").glob("python*/site-packages"))
    (site / "mine.py").write_text("x = 'from the venv'")
    package = os.path.dirname(os.path.dirname(os.path.abspath(pycordon.__file__)))
    code = "import pycordon; print(pycordon.run('true').ok, end=' '); " + (
        "print(pycordon.Sandbox().run_code('import mine; print(mine.x)').text, end='')"
    )
    done = subprocess.run(
        [venv / "bin" / "python", "-c", code], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": package},
    )  # fmt: skip
    assert done.stdout == "True from the venv\n", done.stderr


SAME = """
import subprocess, sys
import pycordon
look = "import os, sys; print(os.path.realpath(sys.prefix))"
here = f"python -c '{look}'; python3 -c '{look}'"
found = {}
for name, settings in (("kept", {}), ("fresh", {"persist": False}), ("landlock", {"isolation": "landlock"})):
    with pycordon.Sandbox(best_effort=["disk"], **settings) as box:
        found[name + " run_code"] = box.run_code(look).text
        found[name + " list"] = box.run(["python", "-c", look]).text + box.run(["python3", "-c", look]).text
        found[name + " shell"] = box.run(here).text
        found[name + " sh code"] = box.run_code(here, "sh").text
        found[name + " popen"] = box.popen(here).wait().text
with pycordon.Sandbox() as box:
    found["wrap"] = subprocess.run(box.wrap(["python", "-c", look]), capture_output=True, text=True, cwd="/").stdout
found["one run"] = pycordon.run(here).text
with pycordon.Sandbox(allowed_commands=["python3"]) as box:
    found["allowed"] = box.run_code(look).text
import os
wrong = {way: text for way, text in found.items() if set(text.split()) != {os.path.realpath(sys.prefix)}}
assert not wrong, wrong
"""


def same_everywhere(interpreter, path):
    package = os.path.dirname(os.path.dirname(os.path.abspath(pycordon.__file__)))
    done = subprocess.run(
        [interpreter, "-c", SAME], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": package, "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.fixture
def another_python(tmp_path):
    """A directory with other programs called python and python3."""
    other = tmp_path / "other"
    other.mkdir()
    other.chmod(0o755)
    for name in ("python", "python3"):
        (other / name).write_text("#!/bin/sh\necho another\n")
        (other / name).chmod(0o755)
    return other


def test_python_is_the_same_interpreter_everywhere(tmp_path, another_python):
    """In an environment that was not activated; and with another one before it in PATH."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    same_everywhere(venv / "bin" / "python", "/usr/bin:/bin")
    same_everywhere(venv / "bin" / "python3", f"{another_python}:/usr/bin:/bin")


def test_the_systems_python_is_the_same_everywhere(another_python):
    """It lies among other programs, which must not come before what the caller's PATH has first."""
    (another_python / "tool").write_text("#!/bin/sh\necho mine\n")
    (another_python / "tool").chmod(0o755)
    same_everywhere("/usr/bin/python3", "/usr/bin:/bin")
    same_everywhere("/usr/bin/python3", f"{another_python}:/usr/bin:/bin")


FORKED = """
import os
import pycordon
with pycordon.Sandbox() as box:
    assert box.run("python -c 'print(1)'").stdout == "1\\n"
    before = sorted(os.listdir(os.path.dirname(box._engine.private.home.path)))
    assert any(name.startswith(".c") for name in before), before  # the link is needed here
    for _ in range(5):
        pid = os.fork()
        if pid == 0:
            os._exit(box.run("python -c 'print(1)'").stdout != "1\\n")  # without any tidying up
        assert os.waitpid(pid, 0)[1] == 0
    assert sorted(os.listdir(os.path.dirname(box._engine.private.home.path))) == before
"""


def test_forked_children_leave_no_directories(another_python):
    package = os.path.dirname(os.path.dirname(os.path.abspath(pycordon.__file__)))
    done = subprocess.run(
        ["/usr/bin/python3", "-c", FORKED], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": package, "PATH": f"{another_python}:/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


# --- attacks: each works outside and fails inside ------------------------------------------------


def both(box, code, *args):
    """(outside, inside): whether the code says that it succeeded."""
    outside = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    inside = box.run_code(code, args=args)
    return "done" in outside.stdout, "done" in inside.stdout


def test_files_outside_are_hidden(box, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("elsewhere")
    secret = tmp_path / "secret"
    secret.write_text("canary")
    read = "import sys; assert open(sys.argv[1]).read() == 'canary'; print('done')"
    write = "import sys; open(sys.argv[1], 'a').write('x'); print('done')"
    assert both(box, read, str(secret)) == (True, False)
    assert both(box, write, str(tmp_path / "made")) == (True, False)
    assert (tmp_path / "made").read_text() == "x" and secret.read_text() == "canary"


def test_processes_outside_are_hidden(box):
    victim = subprocess.Popen(["sleep", "60"])
    code = "import os, sys; os.kill(int(sys.argv[1]), 0); print('done')"
    assert both(box, code, str(victim.pid)) == (True, False)
    victim.kill()
    victim.wait()


def test_there_is_no_network(box):
    server = socket.create_server(("127.0.0.1", 0))
    hits = []

    def serve():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            hits.append(1)
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    code = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5); print('done')"
    assert both(box, code, str(server.getsockname()[1])) == (True, False)
    server.close()
    assert len(hits) == 1


def test_memory_and_processes_are_limited():
    with pycordon.Sandbox(limits_memory="64M", limits_procs=8) as box:
        got = box.run_code("x = b'y' * (300 << 20); print('done')")
        assert got.kind == "memory" and got.status == "resource_exceeded" and got.returncode == 137
        assert "max_memory_mb=128" in got.explain()
        got = box.run("for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; wait")
        assert got.returncode != 0 or got.stderr


# --- explanations ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command, words",
    [
        ("sleep 9", ["time limit of 1500ms", "timeout or max_execution_seconds", "will not help"]),
        ("no-such-thing-here", ["exit code 127"]),
        ("touch /usr/x", ["Probably", "read-only", "fs_write"]),
        ("cat /etc/shadow", ["exit code"]),
        ("cat /home/somebody/data.csv", ["reading /home/somebody/data.csv", "on purpose", "no setting"]),
        (
            "python3 -c 'import socket; socket.getaddrinfo(\"example.com\", 80)'",
            ["Refused", "network", 'net_allow=["example.com'],
        ),
        ("exit 5", ["exit code 5", "command's own", "no network", 'net_allow=["example.com"]']),
        ("echo oops >&2; exit 6", ["exit code 6", "command's own"]),
        ("echo 'curl: (7) Failed to connect to 192.0.2.1 port 80' >&2; exit 7", ["no network"]),
        ("no-such-thing-here", ["program was not found", "fs_read"]),
        ("python3 -c 'import no_such_module'", ["module", "fs_read", "net_allow"]),
        ("sh -c 'kill -ABRT $$'; exit $?", ["134", "SIGABRT"]),
        ("echo 'must be superuser to use mount' >&2; exit 32", ["administrator", "No setting"]),
        ("unshare -r true", ["Refused", "needed for unshare", "no setting gives it"]),
        ("kill -SEGV $$", ["SIGSEGV"]),
        ("true", ["succeeded"]),
    ],
)
def test_explain(box, command, words):
    text = box.run(command, timeout=1.5).explain()
    assert 1 <= len(text.splitlines()) <= 3
    assert all(word in text for word in words) and "--" not in text, text


def test_explain_names_the_limit_and_what_would_do():
    with pycordon.Sandbox(limits_memory="64M", limits_disk="1M", limits_procs=4) as box:
        assert "memory than its limit of 64M" in box.run_code("b'x' * (300 << 20)").explain()
        text = box.run("for i in 1 2 3 4 5 6 7 8 9; do sleep 3 & done; wait").explain()
        assert "max_procs" in text and "--" not in text, text
        assert "disk limit of 1M" in box.run("head -c 9M /dev/zero > /tmp/x; sleep 9").explain()
    text = pycordon.run("head -c 9M /dev/zero > /tmp/x", limits_file_size="1M").explain()
    assert "limits_file_size" in text and "--" not in text
    script = "python3 -c 'f = [open(\"/dev/null\") for _ in range(40)]'"
    text = pycordon.run(script, limits_open_files=32).explain()
    assert "A limit may have been reached: 32 open files." in text and "limits_open_files=64" in text, text
    text = pycordon.run("seq 9999", max_output=100).explain()
    assert "succeeded" in text and "cut" in text and "max_output_bytes" in text


def test_explain_when_there_is_some_network():
    text = pycordon.run("getent hosts a.example.com; exit 6", net_allow=["b.example.com"]).explain()
    assert "looking up a.example.com" in text and 'net_allow=["a.example.com"]' in text
    assert "no network" not in text


@pytest.mark.parametrize("merge", [False, True])
def test_explain_protected_names(place, monkeypatch, merge):
    here = str(place / "here")
    (place / "here" / ".mcp.json").write_text("{}")
    monkeypatch.chdir(place)  # the program's directory is another one than the command's
    with pycordon.Sandbox(workdir=here) as box:
        if box.run("true").isolation["level"] != "namespaces":
            pytest.skip("names are protected at level namespaces only")
        got = box.run("echo x >> .mcp.json", merge=merge)
        assert got.denials == (pycordon.Denial("write", ".mcp.json", "fs.protect", "--workspace .", "said"),)
        text = got.explain()
        assert "'.mcp.json' is protected in a write grant, so the command could not change it." in text
        assert f"fs_workspace={here!r}" in text and "fs_protect='off'" in text
        assert len(text.splitlines()) == 3 and "unless the setting is changed" in text
        # Also if the command goes on; and all names in one line.
        got = box.run("echo x >> .mcp.json; echo x > .envrc; mkdir .vscode; true", merge=merge)
        text = got.explain()
        assert got.ok and text.startswith("The command succeeded.\n") and len(text.splitlines()) == 2, text
        assert "'.mcp.json', '.envrc' and '.vscode' are protected" in text and "change or make them" in text
        assert not box.run("echo 'src/.mcp.json: Read-only file system' >&2; false", merge=merge).denials
    with pycordon.Sandbox(fs_workspace=here) as box:
        assert box.run("echo x >> .mcp.json").denials == ()
    with pycordon.Sandbox(workdir=here, fs_protect=False) as box:
        assert box.run("echo x >> .mcp.json").denials == ()


def test_explain_paths(place):
    data = place / "data"
    data.write_text("x")
    read_only = place / "read-only"
    read_only.mkdir()
    with pycordon.Sandbox(fs_read=[str(read_only)]) as box:
        got = box.run_code(f"open({str(data)!r})")
        assert got.denials == (pycordon.Denial("read", str(data), "fs.read", f"-r {data}", "said"),)
        assert got.denials[0].errno == errno.ENOENT and got.denials[0].count is None
        text = got.explain()
        assert f"Not shown inside: {data}. If it exists, fs_read=[" in text
        got = box.run(f"touch {read_only}/new")
        text = got.explain()
        assert f"Refused: writing to {read_only}. It would be allowed with fs_write=[" in text, text
        got = box.run("cat /home/somebody/.ssh/id_rsa")
        assert "on purpose; no setting is suggested" in got.explain() and got.denials[0].fix is None
        assert box.run("cat nothing").denials == ()
        # Whether the host has it is not told: a model may have written the code, and read this.
        for name in ("data", "none"):
            got = box.run(f"cat {place}/{name}")
            assert [d.fix for d in got.denials] == [f"-r {place}/{name}"]
    with pycordon.Sandbox(fs_read=[str(data)]) as box:
        assert box.run_code(f"open({str(data)!r})").ok


def test_explain_what_did_not_start(box):
    text = box.run(["no-such-program"]).explain()
    assert "no-such-program" in text and "will not help" in text
    with pycordon.Sandbox(allowed_commands=["ls"]) as strict:
        text = strict.run("cat x").explain()
        assert "'cat'" in text and "allowed_commands" in text and "--" not in text


def test_logging_is_silent_unless_asked(box, caplog, capfd):
    box.run("true")
    assert capfd.readouterr() == ("", "")
    with caplog.at_level(logging.DEBUG, "pycordon"):
        box.run(["true"])
    assert any("true: exited" in r.getMessage() for r in caplog.records)


def test_usage_adds_up(box):
    box.run("true")
    box.run("head -c 100 /dev/zero")
    total = box.usage()
    assert total.runs == 2 and total.duration_ms > 0 and total.max_memory_bytes > 0


def test_check_and_version():
    got = pycordon.check()
    assert got.ok and got.level in ("namespaces", "landlock") and got.items[0].name
    assert got.to_dict()["level"] == got.level and pycordon.__version__


def test_python_m_cordon(host):
    package = os.path.dirname(os.path.dirname(os.path.abspath(pycordon.__file__)))
    done = subprocess.run(
        [sys.executable, "-m", "pycordon", "run", "--", "echo", "x"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": package},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "x\n"), done.stderr


def test_workspace(tmp_path):
    base = tmp_path / "project"
    base.mkdir()
    (base / "a").write_text("old\n")
    with pycordon.Sandbox(fs_workspace=str(base), cwd=str(base)) as box:
        got = box.run("echo new > a; echo b > b")
        assert got.ok and (base / "a").read_text() == "old\n" and not (base / "b").exists()
        assert box.run("cat a b").stdout == "new\nb\n"  # the same workspace goes on
        changes = {c["path"]: c["kind"] for c in box.workspace.changes()}
        assert changes == {"a": "modified", "b": "added"}
        assert "+new" in box.workspace.patch() and box.workspace.summary()["added"] == 1
        done = box.workspace.commit(paths=["a"])
        assert done.applied == 1 and done.ok and (base / "a").read_text() == "new\n"
        assert pycordon.workspaces.list()[0]["base"] == str(base)
        box.workspace.discard()
    assert not (base / "b").exists() and pycordon.workspaces.list() == []


def test_two_first_runs_of_a_workspace(tmp_path):
    """Each would make a workspace of its own, and one of them would be forgotten."""
    base = tmp_path / "project"
    base.mkdir()
    with pycordon.Sandbox(fs_workspace=str(base), cwd=str(base)) as box:
        with box.popen("echo 1 > f1; cat") as process:
            with pytest.raises(pycordon.StateError, match="in use by another run"):
                box.run("echo 2 > f2")
            process.close_stdin()
            process.wait()
        assert box.run("echo 3 > f3").ok
        assert [c["path"] for c in box.workspace.changes()] == ["f1", "f3"]
        assert len(pycordon.workspaces.list()) == 1
        box.workspace.discard()
        failed = box.run("no-such-program")  # has made none, and is no obstacle for the next one
        assert failed.exit_code == 127 and box.run("true").ok


def test_confine(host, tmp_path):
    (tmp_path / "secret").write_text("x")
    code = """
        import pycordon, sys
        open(sys.argv[1]).read()
        pycordon.confine(fs_read=["/usr/share"])
        try:
            open(sys.argv[1]).read()
        except PermissionError:
            print("shut in")
    """
    assert host(code, tmp_path / "secret", cwd="/usr").stdout == "shut in\n"


def test_pytest_plugin(tmp_path, host):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.fixture\ndef cordon_policy(): return {'limits_open_files': 55}\n"
        "def test_it(cordon_sandbox): assert cordon_sandbox.run('ulimit -n').stdout == '55\\n'\n"
    )
    package = os.path.dirname(os.path.dirname(os.path.abspath(pycordon.__file__)))
    # An installed package is found by pytest itself, and must not be named twice.
    installed = [d for d in importlib.metadata.distributions() if d.metadata["Name"] == "pycordon"]
    plugin = [] if installed else ["-p", "pycordon._pytest_plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, "-p", "no:cacheprovider",
         str(tmp_path / "test_it.py")],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": package},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
