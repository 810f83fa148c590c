# SPDX-License-Identifier: Apache-2.0
"""What the package shows: everything public is listed, documented, typed and short to print."""

import inspect
import pathlib
import pickle

import pytest

import cordon
from cordon import workspaces

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLASSES = [getattr(cordon, name) for name in cordon.__all__]
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
        if inspect.isfunction(member) and member.__module__.startswith("cordon"):
            yield name, member


def test_all_names_exist_and_nothing_else_is_public():
    for name in cordon.__all__:
        assert getattr(cordon, name) is not None
    modules = {path.stem for path in pathlib.Path(cordon.__file__).parent.glob("*.py")}
    public = {
        name
        for name, value in vars(cordon).items()
        if not name.startswith("_") and name not in modules and not inspect.ismodule(value)
    }
    assert public - {"annotations", "TYPE_CHECKING", "Any"} <= set(cordon.__all__)
    assert sorted(cordon.__all__) == dir(cordon)


def test_all_names_are_in_the_documentation():
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    missing = [name for name in cordon.__all__ if name not in text and name != "__version__"]
    assert not missing, f"docs/python.md does not name {missing}"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_classes_are_documented_and_typed(kind):
    assert kind.__doc__ and not kind.__doc__.startswith(kind.__name__ + "("), kind
    for name, member in own_members(kind):
        assert member.__doc__, f"{kind.__name__}.{name} has no docstring"
        known = member.__annotations__
        names = [p for p in inspect.signature(member).parameters if p not in ("self", "cls")]
        assert "return" in known and all(p in known for p in names), f"{kind.__name__}.{name}"


@pytest.mark.parametrize("module", [cordon, workspaces], ids=lambda module: module.__name__)
def test_functions_are_documented(module):
    names = module.__all__ if module is cordon else ["list", "open", "gc"]
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
    box = cordon.Sandbox()
    assert repr(box) == "<Sandbox not started>"
    assert repr(box.start()) == f"<Sandbox {box.id}>"
    with box.popen("cat") as process:
        assert repr(process) == "<Process running>"
        process.close_stdin()
        process.wait()
        assert repr(process) == "<Process returncode 0>"
    box.close()
    assert repr(box) == "<Sandbox closed>"
    assert repr(cordon.AsyncSandbox()) == "<AsyncSandbox not started>"


def test_results_and_errors_go_through_pickle(box):
    result = box.run("echo a; exit 2")
    again = pickle.loads(pickle.dumps(result))
    assert again == result and again.explain() == result.explain()
    with pytest.raises(cordon.RunError) as caught:
        result.raise_for_status()
    error = pickle.loads(pickle.dumps(caught.value))
    assert str(error) == str(caught.value) and error.result == result
