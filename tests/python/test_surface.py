# SPDX-License-Identifier: Apache-2.0
"""What the package shows: everything public is listed, documented, typed and short to print."""

import ast
import dataclasses
import inspect
import pathlib
import pickle
import re

import pytest

import pycordon
from pycordon import _keys, _types, workspaces

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
CLASSES = [getattr(pycordon, name) for name in pycordon.__all__]
CLASSES = [thing for thing in CLASSES if inspect.isclass(thing)]


def own_members(kind):
    """The public methods and properties that are Cordon's own."""
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        if name.startswith("_") or not (callable(member) or hasattr(member, "__get__")):
            continue
        if isinstance(member, (staticmethod, classmethod)):
            member = member.__func__
        if isinstance(member, property):
            member = member.fget
        if inspect.isfunction(member) and member.__module__.startswith("pycordon"):
            yield name, member


def test_all_names_exist_and_nothing_else_is_public():
    for name in pycordon.__all__:
        assert getattr(pycordon, name) is not None
    modules = {path.stem for path in pathlib.Path(pycordon.__file__).parent.glob("*.py")}
    public = {
        name
        for name, value in vars(pycordon).items()
        if not name.startswith("_") and name not in modules and not inspect.ismodule(value)
    }
    assert public - {"annotations", "TYPE_CHECKING", "Any"} <= set(pycordon.__all__)
    assert sorted(pycordon.__all__) == dir(pycordon)


def test_all_names_are_in_the_documentation():
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    missing = [name for name in pycordon.__all__ if name not in text and name != "__version__"]
    assert not missing, f"docs/python.md does not name {missing}"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_classes_are_documented_and_typed(kind):
    assert kind.__doc__ and not kind.__doc__.startswith(kind.__name__ + "("), kind
    for name, member in own_members(kind):
        assert member.__doc__, f"{kind.__name__}.{name} has no docstring"
        known = member.__annotations__
        names = [p for p in inspect.signature(member).parameters if p not in ("self", "cls")]
        assert "return" in known and all(p in known for p in names), f"{kind.__name__}.{name}"


@pytest.mark.parametrize("module", [pycordon, workspaces], ids=lambda module: module.__name__)
def test_functions_are_documented(module):
    names = module.__all__ if module is pycordon else ["list", "open", "gc"]
    for name in names:
        thing = getattr(module, name)
        if inspect.isfunction(thing):
            assert thing.__doc__ and "return" in thing.__annotations__, name


def test_results_are_short_to_print(box):
    assert repr(box.run("echo a; echo b >&2")) == (
        "Result(kind='exited', returncode=0, stdout='a\\n', stderr='b\\n')"
    )
    long = repr(box.run("seq 100000; exit 3"))
    assert "returncode=3" in long and "characters)" in long and len(long) < 600
    assert "error=\"cannot find 'no-such'" in repr(box.run(["no-such"]))
    assert "truncated=True" in repr(box.run("seq 1000", max_output=100))


def test_sandboxes_and_processes_say_what_they_are():
    box = pycordon.Sandbox()
    assert repr(box) == "<Sandbox not started>"
    assert repr(box.start()) == f"<Sandbox {box.id}>"
    with box.popen("cat") as process:
        assert repr(process) == "<Process running>"
        process.close_stdin()
        process.wait()
        assert repr(process) == "<Process returncode 0>"
    box.close()
    assert repr(box) == "<Sandbox closed>"
    assert repr(pycordon.AsyncSandbox()) == "<AsyncSandbox not started>"


def test_results_and_errors_go_through_pickle(box):
    result = box.run("echo a; exit 2")
    again = pickle.loads(pickle.dumps(result))
    assert again == result and again.explain() == result.explain()
    with pytest.raises(pycordon.RunError) as caught:
        result.raise_for_status()
    error = pickle.loads(pickle.dumps(caught.value))
    assert str(error) == str(caught.value) and error.result == result


def test_typed_settings_are_the_settings():
    """tests/typing shows what type checkers make of them."""
    typed = set(_types.PolicySettings.__annotations__)
    assert typed == (set(_keys.names()) - {"preset"}) | {"network_enabled", *_keys.GROUPS}


def public_names(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("name", ["Sandbox", "Pool", "Process", "Files", "DetachedSession", "DetachedCommand"])
def test_asynchronous_names_are_the_synchronous_ones(name):
    """With the same arguments, in the same order. But for the streams of a Process, which are files."""
    here, there = getattr(pycordon, name), getattr(pycordon, "Async" + name)
    assert public_names(here) - public_names(there) <= {"stdin", "stdout", "stderr"}
    assert public_names(there) <= public_names(here)
    for member in public_names(there):
        one, other = getattr(here, member), getattr(there, member)
        if inspect.isfunction(one):
            ours, theirs = (inspect.signature(f).parameters for f in (one, other))
            assert list(ours) == list(theirs), member
            assert [p.default for p in ours.values()] == [p.default for p in theirs.values()], member


def test_sessions_have_interpreters_of_both_kinds():
    """With the same arguments; those of execute() are an Interpreter's and the language."""
    for member in ("execute", "interpreter"):
        here, there = (inspect.signature(getattr(kind, member)) for kind in (pycordon.Session, pycordon.AsyncSession))
        assert list(here.parameters.values()) == list(there.parameters.values()), member
    own = list(inspect.signature(pycordon.Session.execute).parameters)
    assert [name for name in own if name != "language"] == list(inspect.signature(pycordon.Interpreter.execute).parameters)
    taken = set(inspect.signature(pycordon.Session.interpreter).parameters) - {"env"}
    assert taken <= set(inspect.signature(pycordon.Interpreter.__init__).parameters)


@pytest.mark.parametrize("name", ["Sandbox", "Pool", "Session", "Interpreter"])
def test_what_lives_can_install_packages(name):
    here, there = (inspect.signature(getattr(pycordon, kind).install) for kind in (name, f"Async{name}"))
    assert str(here) == str(there) == "(self, *packages: 'str', build_packages: 'bool' = False) -> 'None'"


def test_what_programs_import_has_no_underscore_and_all_else_has():
    package = pathlib.Path(pycordon.__file__).parent
    modules = {p.stem for p in package.glob("*.py")} | {p.parent.name for p in package.glob("*/__init__.py")}
    assert {name for name in modules if not name.startswith("_")} == {"workspaces", "adapters", "e2b"}
    frameworks = {name for name in (p.stem for p in (package / "adapters").glob("*.py")) if name[0] != "_"}
    (table,) = re.findall(r"^\[project.optional-dependencies\]\n(.*?)\n\n", PROJECT, re.M | re.S)
    extras = re.findall(r"^([a-z0-9-]+) = ", table, re.M)
    assert frameworks == {name.replace("-", "_") for name in extras}


def test_errors_are_named_as_programs_name_them():
    for kind in CLASSES:
        if issubclass(kind, Exception):
            assert f"{kind.__module__}.{kind.__qualname__}" == f"pycordon.{kind.__name__}"


RECEIPT = {
    "kind", "exit_code", "signal", "stdout", "stderr", "truncated", "duration_ms", "setup_ms",
    "usage", "isolation", "denials", "error", "workspace", "published", "lost_files",
}  # fmt: skip
BESIDE = {
    "status", "execution_time_ms", "memory_used_mb", "text", "output", "ok", "explain",
    "returncode", "stdout_bytes", "stderr_bytes", "merged", "total_bytes", "hint", "notes",
    "receipt", "policy", "raise_for_status", "to_dict", "step",
}  # fmt: skip


def test_one_name_for_one_thing(box):
    """A new name needs a reason: it is added here by hand."""
    result = box.run("true")
    assert {name for name in dir(result) if not name.startswith("_")} == RECEIPT | BESIDE
    keys = {key.replace(".", "_") for key in _keys.schema_keys()}
    assert set(_keys.names()) == keys | {
        "max_memory_mb", "max_procs", "max_execution_seconds", "max_cpu_percent",
        "max_output_bytes", "writable_paths", "allowed_commands",
    }  # fmt: skip
    fields = {field.name for field in dataclasses.fields(pycordon.SandboxConfig)}
    assert fields == set(_keys.PLAIN) | {"network_enabled", "net_allow", "fs_read", "fs_write"}


def undocumented(tree, before=""):
    """Names of public classes and functions without a docstring, in a syntax tree."""
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            overload = any(getattr(d, "id", "") == "overload" for d in node.decorator_list)
            if not node.name.startswith("_") and not overload and ast.get_docstring(node) is None:
                yield before + node.name
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield from undocumented(node, f"{before}{node.name}.")


def test_docstrings_of_all_modules():
    """Of the adapters too, whose frameworks are not here to import them."""
    package = pathlib.Path(pycordon.__file__).parent
    files = sorted(package.rglob("*.py"))
    assert len(files) > 50
    missing = []
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = path.relative_to(package)
        missing += [] if ast.get_docstring(tree) else [str(name)]
        missing += [f"{name}: {found}" for found in undocumented(tree)]
    assert not missing, missing


def test_extras_are_bounded_from_the_tested_version_on():
    """tests/adapters has the versions that the adapters are tested with."""
    (table,) = re.findall(r"^\[project.optional-dependencies\]\n(.*?)\n\n", PROJECT, re.M | re.S)
    for line in table.splitlines():
        extra, wanted = line.split(" = ")
        tested = ROOT / "tests" / "adapters" / extra.replace("-", "_") / "requirements.txt"
        pinned = dict(re.findall(r"^([A-Za-z0-9-]+)(?:\[[a-z,]+\])?==(\S+)$", tested.read_text(), re.M))
        for name, least in re.findall(r'"([a-z0-9-]+)>=([0-9a-z.]+),<[0-9.]+"', wanted):
            assert pinned[name] == least, f"{extra}: {name} is tested with {pinned[name]}"
        assert wanted.count(">=") == wanted.count(",<") == wanted.count('"') / 2, line


#: What is private in frameworks and adapters need, since there is no public way.
PRIVATE = {
    # Its session keeps all of standard error, however much that is: ours replaces the reader.
    "agent_framework_tools.shell._session",
    # The rules by which the SDK packs and restores archives: others would not be the same.
    "agents.sandbox.sandboxes.unix_local._rebase_symlink_target",
    "agents.sandbox.sandboxes.unix_local._symlink_target_stays_under",
    "agents.sandbox.util.tar_utils._restored_regular_file_mode",
}


def test_adapters_import_nothing_private_of_frameworks():
    found = set()
    for path in (pathlib.Path(pycordon.__file__).parent / "adapters").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            found |= {n for n in names if re.search(r"\._[a-z]", n) and not n.startswith("pycordon.")}
    assert {name for name in found if name.rpartition(".")[2][0] == "_"} == PRIVATE
