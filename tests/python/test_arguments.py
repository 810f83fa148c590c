# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments are answered in one line that names the argument, before anything has happened."""

import asyncio
import inspect
import math

import pytest

import pycordon
from pycordon import Policy, Pool, Sandbox, SandboxConfig, Scheduler, _keys

SETTINGS = [
    (lambda: Sandbox(5), "of type int"),
    (lambda: Sandbox(["python"]), "of type list"),
    (lambda: Sandbox(max_procs=math.inf), "max_procs"),
    (lambda: Sandbox(max_cpu_percent=math.inf), "max_cpu_percent"),
    (lambda: Sandbox(network_enabled="yes"), "True or False"),
    (lambda: Sandbox(network_enabled=10**400), "True or False"),
    (lambda: Policy("\ud800"), "unknown preset"),
    (lambda: Policy("agent\0"), "did you mean 'agent'?"),
    (lambda: Sandbox(limits_memory="12Q"), "unknown unit 'Q'"),
    (lambda: Policy.from_json(5), "JSON text"),
    (lambda: Policy.from_dict(5), "dict"),
    (lambda: Policy().tightens(5), "Policy is needed"),
    (lambda: pycordon.confine(5), "of type int"),
    (lambda: Sandbox(workdri=True), "did you mean 'workdir'?"),
    (lambda: Sandbox(stdin="x"), "argument of run()"),
    (lambda: Sandbox(policy="python"), "first argument of Sandbox()"),
    (lambda: pycordon.run("true", policy="python"), "the second of pycordon.run()"),
    (lambda: Sandbox(timeout=5), "for all runs of a sandbox: max_execution_seconds"),
    (lambda: Scheduler(max_concurency=2), "did you mean 'max_concurrency'?"),
    (lambda: Pool(interpeters={"bash": 1}), "did you mean 'interpreters'?"),
    (lambda: Sandbox(max_queue=2), "it is an argument of Scheduler()"),
    (lambda: Sandbox(memory="64M"), "did you mean 'limits_memory'?"),
    (lambda: Sandbox(cpus=1), "did you mean 'limits_cpu'?"),
    (lambda: Sandbox().run("true", procs=3), "did you mean 'limits_procs'?"),
    (lambda: Sandbox().run("true", timeout=10**400), "timeout: the number is too large"),
    (lambda: Sandbox().run("true", timeout=-0.5), "timeout: -0.5 is no duration"),
    (lambda: Sandbox().run("true", max_output=1e308), "max_output: the number is too large"),
    (lambda: Sandbox().run("true", max_output=b"1"), "max_output: a number is needed"),
    (lambda: Sandbox().run("true", std_in="x"), "did you mean 'stdin'?"),
    (lambda: Sandbox().run("true", workdir="."), "argument of Sandbox()"),
    (lambda: Sandbox().popen("true", stdin="x"), "argument of run()"),
    (lambda: Policy(env={"A": "b"}), "env_set"),
]

USES = [
    (lambda s: Sandbox(workdir=5), "workdir: a path"),
    (lambda s: Sandbox(workdir=""), "workdir: ''"),
    (lambda s: Sandbox(name=5), "name: a string"),
    (lambda s: Sandbox(id=5), "no sandbox's id"),
    (lambda s: Sandbox(env=["A=1"]), "env: a dict"),
    (lambda s: Sandbox.attach(5), "no sandbox's id"),
    (lambda s: pycordon.run("true", orphans="keep"), "orphans"),
    (lambda s: s.run(5), "cmd: a string or a list"),
    (lambda s: s.run(None), "cmd: a string or a list"),
    (lambda s: s.run(b"ls"), "cmd: a string or a list"),
    (lambda s: s.run(["ls", 5]), "cmd[1]: a string"),
    (lambda s: s.run([]), "the command is empty"),
    (lambda s: s.run("a\0b"), "cmd: 'a\\x00b' holds a NUL"),
    (lambda s: s.run("true", shell=5), "shell: a path"),
    (lambda s: s.run("true", shell=""), "shell: '' is no path"),
    (lambda s: s.run("true", orphans="9" * 999), "orphans: 'kill' or 'keep' is needed"),
    (lambda s: s.run("true", stdin=pycordon.Fs), "stdin: bytes, text"),
    (lambda s: s.run("true", stdin=99999), "stdin: 99999"),
    (lambda s: s.run("true", stdin=1.5), "stdin"),
    (lambda s: s.run("true", cwd=5), "cwd: a path"),
    (lambda s: s.run("true", cwd="a\0b"), "cwd"),
    (lambda s: s.run("true", env=["A"]), "env: a dict"),
    (lambda s: s.run("true", env={"A": 1}), "env['A']: a string"),
    (lambda s: s.run("true", env={"A=B": "1"}), "variable's name"),
    (lambda s: s.run("true", on_stdout=5), "on_stdout: a function"),
    (lambda s: s.run_code(5), "code: text or bytes"),
    (lambda s: s.run_code("x", 5), "language: a string"),
    (lambda s: s.run_code("x", filename=5), "filename"),
    (lambda s: s.run_code("x", args="abc"), "args: a list"),
    (lambda s: s.run_code("x", args=[5]), "args[0]: a string"),
    (lambda s: s.run_code("x", files=5), "files: a dict"),
    (lambda s: s.run_code("x", files={"a": 5}), "files['a']: text or bytes"),
    (lambda s: s.run_code("x", files={"main.py": ""}), "'main.py' is the name of the code"),
    (lambda s: s.popen("true", tty=True, rows=-1), "rows: -1"),
    (lambda s: s.wrap("ls"), "argv: a list"),
    (lambda s: s.wrap([]), "the command is empty"),
    (lambda s: s.wrap(["ls"], env={"A": 5}), "env['A']: a string"),
    (lambda s: s.spawn_popen("ls"), "argv: a list"),
    (lambda s: pycordon.Sandbox(persist="no"), "persist: True or False is needed, not 'no'"),
    (lambda s: pycordon.Sandbox(keep=1), "keep: True or False"),
    (lambda s: pycordon.Sandbox(allow_overrides="no"), "allow_overrides: True or False"),
    (lambda s: s.expose("x"), "port: a whole number"),
    (lambda s: s.expose(0), "port: 0 is not between 1 and 65535"),
    (lambda s: s.expose(80, 70000), "host_port: 70000"),
    (lambda s: s.files.read(5), "path: a path"),
    (lambda s: s.files.read(""), "path: ''"),
    (lambda s: s.files.read("x", limit=-1), "limit: -1"),
    (lambda s: s.files.write("x", 5), "data: text or bytes"),
    (lambda s: s.files.write("x", "", mode="rw"), "mode: a whole number"),
    (lambda s: s.files.list(".", depth=-1), "depth: -1"),
    (lambda s: s.files.glob(""), "pattern: ''"),
    (lambda s: s.files.chmod(".", -1), "mode: -1"),
    (lambda s: s.files.put_many([("a",)]), "items: pairs"),
    (lambda s: s.files.put_many(["ab"]), "items: pairs"),
    (lambda s: s.files.put_many({"a": "b"}), "items: pairs"),
    (lambda s: s.files.put(None, "x"), "host_path: a path"),
    (lambda s: s.files.get_many("abc"), "paths: a list"),
    (lambda s: s.files.import_tar(b"junk"), "no tar archive"),
    (lambda s: pycordon.workspaces.open(5), "which: a path"),
    (lambda s: pycordon.workspaces.gc(older_than="x"), "older_than: a whole number"),
    (lambda s: asyncio.run(pycordon.AsyncSandbox().run(5)), "cmd: a string or a list"),
    (lambda s: asyncio.run(pycordon.AsyncSandbox().files.read(5)), "path: a path"),
]


def test_every_argument_is_known_to_those_who_misspell_it():
    taken = set()
    for call in (Sandbox, Sandbox.run, Sandbox.run_code, Pool, Scheduler):
        found = inspect.signature(call).parameters.values()
        taken |= {p.name for p in found if p.kind == p.KEYWORD_ONLY}
    settings = {*_keys.names(), *_keys.GROUPS}
    assert taken - settings <= set(_keys.ARGUMENTS) <= taken | {"language", "cwd"}


def complaint(error):
    text = str(error)
    assert "\n" not in text and "policy:1:" not in text and len(text) < 400
    return text


@pytest.mark.parametrize("wrong, words", SETTINGS)
def test_wrong_settings(wrong, words):
    with pytest.raises(pycordon.PolicyError) as caught:
        wrong()
    assert words in complaint(caught.value)


@pytest.mark.parametrize("wrong, words", USES)
def test_wrong_arguments(box, wrong, words):
    with pytest.raises(pycordon.UsageError) as caught:
        wrong(box)
    assert words in complaint(caught.value)


def test_wrong_arguments_of_a_process(box):
    with box.popen("cat") as process:
        for wrong in (
            lambda: process.write(5),
            lambda: process.signal("TERM"),
            lambda: process.signal(999),
            lambda: process.resize(0, 0),
        ):
            with pytest.raises(pycordon.UsageError) as caught:
                wrong()
            complaint(caught.value)


def test_a_single_path_is_one_path_not_its_letters(tmp_path):
    config = SandboxConfig(writable_paths=str(tmp_path), fs_read="/usr/share")
    assert config.policy().get("fs_write") == [str(tmp_path)]
    assert config.policy().get("fs_read") == ["/usr/share"]
    assert SandboxConfig(net_allow="example.com:443").policy().get("net_allow") == ["example.com:443"]


def test_a_workdir_that_cannot_be(tmp_path):
    taken = tmp_path / "file"
    taken.write_text("")
    for path in (taken, taken / "below"):
        with pytest.raises(pycordon.PathError) as caught:
            Sandbox(workdir=path).run("true")
        assert str(path) in complaint(caught.value)


def test_errors_of_check_are_one_line(box):
    for command, words in (
        ("echo first >&2; echo oops >&2; exit 3", "exit code 3: oops"),
        ("exit 4", "exit code 4"),
        ("kill -9 $$", "SIGKILL"),
    ):
        with pytest.raises(pycordon.RunError) as caught:
            box.run(command, check=True)
        assert words in complaint(caught.value)


def test_text_that_cannot_be_encoded(box):
    for wrong in (
        lambda: box.run("echo \ud800"),
        lambda: box.run(["echo", "\ud800"]),
        lambda: box.run("cat", stdin="\ud800"),
        lambda: box.run("true", env={"A": "\ud800"}),
        lambda: box.run_code("print('\ud800')"),
        lambda: box.files.write("x", "\ud800"),
        lambda: box.files.read("\ud800"),
    ):
        with pytest.raises(pycordon.UsageError) as caught:
            wrong()
        assert "\\ud800" in complaint(caught.value)


@pytest.mark.parametrize("settings, words", [
    ({"fs_read": b"/usr"}, "fs_read: a list of strings is needed, not bytes"),
    ({"fs_read": {"/usr": 1}}, "fs_read: a list of strings is needed, not dict"),
    ({"net_allow": {"example.com": 443}}, "net_allow: a list of strings is needed, not dict"),
    ({"commands": bytearray(b"ls")}, "commands: a list of strings is needed, not bytearray"),
    ({"fs_read": [b"/usr"]}, "fs_read: a string or path is needed, not bytes"),
    ({"env_set": [("A", "b")]}, "env_set: a dict"),
    ({"max_memory_mb": 1e308}, "max_memory_mb: the number is too large"),
    ({"limits_memory": 10**400}, "limits_memory: the number is too large"),
    ({"limits_wall": 1e300}, "limits_wall: the number is too large"),
    ({"limits_procs": 10**30}, "limits_procs: the number is too large"),
    ({"limits_cpu": 1e200}, "limits_cpu: the number is too large"),
    ({"max_cpu_percent": float("nan")}, "max_cpu_percent: a number is needed"),
    ({"limits_memory": float("nan")}, "limits_memory: a number is needed"),
    ({"limits_memory": -1}, "limits_memory"),
    ({"limits_procs": -3}, "limits.procs"),
    ({"max_output_bytes": float("-inf")}, "max_output_bytes"),
])  # fmt: skip
def test_values_that_are_slips(settings, words):
    """One line of ours that names the setting, wherever it is given."""
    for make in (
        lambda: pycordon.Sandbox(**settings),
        lambda: pycordon.Policy(**settings),
        lambda: pycordon.Sandbox().run("true", **settings),
    ):
        with pytest.raises(pycordon.CordonError) as caught:
            make()
        text = str(caught.value)
        assert words in text and "\n" not in text and len(text) < 200, text


NONSENSE = [
    b"/usr", {"/usr": 1}, 1e308, 10**400, -(10**400), math.nan, math.inf, object(), [b"x"], [10**400],
    [None], {1: 2}, "\ud800", ["a\0b"], {"A": "b\0c"}, True, -1, "", [""], [["/usr"]], memoryview(b"x"),
    "9" * 5000, 2**64,
]  # fmt: skip


@pytest.mark.parametrize("name", [*_keys.names(), *_keys.GROUPS, "network_enabled"])
def test_whatever_is_given_the_error_is_ours(name):
    for value in NONSENSE:
        for make in (Policy, Sandbox):
            try:
                make(**{name: value})
            except pycordon.CordonError as error:
                assert complaint(error), value
