# SPDX-License-Identifier: Apache-2.0
"""Arguments that make no sense are refused before anything runs; objects cannot be half made."""

import copy
import os
import pickle

import pytest
from extlib import ENV, finish

from pycordon import _cordon


@pytest.fixture(scope="module")
def launcher():
    return _cordon.Launcher()


BAD = [
    (["a", "b\0c"], {}, ValueError, "argv holds a NUL"),
    ([], {}, ValueError, "argv is empty"),
    ([""], {}, ValueError, "argv is empty"),
    ("/bin/true", {}, TypeError, "sequence of words"),
    (b"/bin/true", {}, TypeError, "sequence of words"),
    ([1], {}, TypeError, "argv must be str"),
    ([None], {}, TypeError, "argv must be str"),
    (None, {}, _cordon.Error, "no command"),  # for sessions
    (["x"], {"env": {"A": "1\0"}}, ValueError, "value in env holds a NUL"),
    (["x"], {"env": {"A\0": "1"}}, ValueError, "name in env holds a NUL"),
    (["x"], {"env": {"A=B": "1"}}, ValueError, "illegal environment variable name"),
    (["x"], {"env": {"": "1"}}, ValueError, "illegal environment variable name"),
    (["x"], {"env": {"A": 1}}, TypeError, "value in env must be str"),
    (["x"], {"env": ["A=1"]}, (TypeError, AttributeError), "."),
    (["x"], {"cwd": "a\0b"}, ValueError, "cwd holds a NUL"),
    (["x"], {"cwd": 3}, TypeError, "cwd must be str"),
    (["x"], {"state_dir": "\0"}, ValueError, "state_dir"),
    (["x"], {"private_dir": "\0"}, (ValueError, _cordon.Error), "private_dir"),
    (["x"], {"stdin": "text"}, TypeError, "stdin must be None, bytes"),
    (["x"], {"stdin": 1.5}, TypeError, "stdin must be None, bytes"),
    (["x"], {"stdin": [1, 2]}, TypeError, "stdin must be None, bytes"),
    (["x"], {"stdin": True}, TypeError, "file descriptor is an int"),
    (["x"], {"stdin": -1}, ValueError, "no open file descriptor"),
    (["x"], {"stdin": 1 << 40}, ValueError, "no open file descriptor"),
    (["x"], {"stdin": 1 << 80}, ValueError, "no open file descriptor"),
    (["x"], {"stdout": 99_999}, ValueError, "no open file descriptor"),
    (["x"], {"stdout": None}, TypeError, "file descriptor is an int"),
    (["x"], {"stdout": "join"}, ValueError, "stdout must be 'capture', 'null' or"),
    (["x"], {"stderr": "both"}, ValueError, "stderr must be 'capture', 'null', 'join' or"),
    (["x"], {"stderr": b"null"}, TypeError, "file descriptor is an int"),
    (["x"], {"net_log_fd": 99_999}, ValueError, "no open file descriptor"),
    (["x"], {"net_log_fd": 0}, ValueError, "descriptor 0"),
    (["x"], {"rows": 70_000}, ValueError, "0 to 65535"),
    (["x"], {"cols": -1}, ValueError, "0 to 65535"),
    (["x"], {"wall_ms": -2}, ValueError, "-1 or more"),
    (["x"], {"wall_ms": "1s"}, TypeError, "."),
    (["x"], {"memory_bytes": 1 << 80}, OverflowError, "."),
    (["x"], {"workspace_progress": 3}, TypeError, "callable"),
    (["x"], {"nonsense": 1}, TypeError, "nonsense"),
]


@pytest.mark.parametrize(("argv", "options", "kind", "text"), BAD)
def test_start_and_plan_refuse(launcher, argv, options, kind, text):
    if argv == ["x"]:
        argv = ["/bin/true"]
    for call in (launcher.start, launcher.plan):
        with pytest.raises(kind, match=text):
            call(_cordon.Policy(), argv, **{"env": ENV, **options})


@pytest.mark.parametrize("policy", [None, "agent", {}, _cordon.Policy])
def test_a_policy_is_a_policy(launcher, policy):
    with pytest.raises(TypeError, match="policy must be a Policy"):
        launcher.start(policy, ["/bin/true"])
    with pytest.raises(TypeError, match="policy must be a Policy"):
        _cordon.confine(policy)


def test_an_iterator_that_raises(launcher):
    def words():
        yield "/bin/true"
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        launcher.start(_cordon.Policy(), words())

    class Env(dict):
        def items(self):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        launcher.start(_cordon.Policy(), ["/bin/true"], env=Env(A="1"))


def test_a_closed_descriptor(launcher):
    r, w = os.pipe()
    os.close(r)
    os.close(w)
    with pytest.raises(ValueError, match="no open file descriptor"):
        launcher.start(_cordon.Policy(), ["/bin/true"], stdin=r)


def test_runs_are_made_by_launchers():
    with pytest.raises(TypeError, match="Launcher"):
        _cordon.Run()
    with pytest.raises(TypeError, match="Launcher"):
        _cordon.Run.__new__(_cordon.Run)


@pytest.mark.parametrize("name", ["Policy", "Launcher", "Run", "Workspace"])
def test_types_are_final(name):
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Mine", (getattr(_cordon, name),), {})


@pytest.mark.parametrize("made", [_cordon.Policy, _cordon.Launcher])
def test_no_pickles_and_no_arguments(made):
    with pytest.raises(TypeError):
        pickle.dumps(made())
    with pytest.raises(TypeError):
        made(1)


def test_wait_wants_a_number(launcher):
    run = launcher.start(_cordon.Policy(), ["/bin/true"])
    for bad in ("1", [], object()):
        with pytest.raises(TypeError):
            run.wait(bad)
    with pytest.raises(ValueError, match="not a number"):
        run.wait(float("nan"))
    for bad in (0, -1, 65, 1000):
        with pytest.raises(_cordon.Error, match="no signal"):
            run.signal(bad)
        with pytest.raises(_cordon.Error, match="no signal"):
            run.end(bad)
    with pytest.raises(ValueError, match="1 to 65535"):
        run.resize(0, 80)
    assert finish(run)["kind"] == "exited"


# --- policies ------------------------------------------------------------------------------------


def test_policy_is_filled_by_all_four_ways(tmp_path):
    made = _cordon.Policy()
    made.preset("python")
    made.json('{"limits": {"wall": "7s"}}')
    (tmp_path / "p.json").write_text('{"fs": {"read": ["data"]}}')
    made.file(tmp_path / "p.json")
    made.set("limits.procs", "12")
    text = made.to_json()
    assert '"wall"' in text and str(tmp_path / "data") in text and "12" in text


def test_a_change_that_fails_changes_nothing(tmp_path):
    made = _cordon.Policy()
    made.set("limits.wall", "5s")
    before = made.to_json()
    (tmp_path / "bad.json").write_text('{"limits": {"memory": "64MiB", "nonsense": 1}}')
    for call in (
        lambda: made.set("limits.wall", "soon"),
        lambda: made.set("no.such.key", "1"),
        lambda: made.preset("nobody"),
        lambda: made.json('{"limits": {"memory": "64MiB", "nonsense": 1}}', name="mine.json"),
        lambda: made.json("{"),
        lambda: made.file(tmp_path / "bad.json"),
        lambda: made.file(tmp_path / "missing.json"),
    ):
        with pytest.raises(_cordon.Error) as caught:
            call()
        assert caught.value.name in ("policy", "path", "system"), caught.value
        assert made.to_json() == before


def test_messages_name_the_document():
    with pytest.raises(_cordon.Error, match=r"mine\.json"):
        _cordon.Policy().json('{"nonsense": 1}', name="mine.json")


def test_base_dir_and_odd_names(tmp_path):
    made = _cordon.Policy()
    made.json('{"fs": {"read": ["x"]}}', base_dir=tmp_path)
    assert str(tmp_path / "x") in made.to_json()
    made = _cordon.Policy()
    made.set("fs.read", b"/odd\xff")
    assert os.fsdecode(b"/odd\xff") in __import__("json").loads(made.to_json())["fs"]["read"]


def test_copies_do_not_share_changes():
    made = _cordon.Policy()
    made.set("limits.wall", "5s")
    twins = [made.copy(), copy.copy(made), copy.deepcopy(made)]
    made.set("limits.wall", "6s")
    twins[0].set("limits.wall", "7s")
    assert '"5s"' in twins[1].to_json() or "5" in twins[1].to_json()
    assert twins[1].to_json() == twins[2].to_json()
    assert len({made.to_json(), twins[0].to_json(), twins[1].to_json()}) == 3


@pytest.mark.parametrize(
    "call",
    [
        lambda p: p.set("limits.wall", 5),
        lambda p: p.set("limits.wall", None),
        lambda p: p.set(1, "5s"),
        lambda p: p.file(None),
        lambda p: p.file(3),
        lambda p: p.json(3),
        lambda p: p.preset(b"agent"),
    ],
)
def test_policy_wants_text(call):
    with pytest.raises(TypeError):
        call(_cordon.Policy())


def test_policy_refuses_nul():
    with pytest.raises(ValueError, match="NUL|null"):
        _cordon.Policy().set("fs.read", "/a\0b")
    with pytest.raises(ValueError, match="NUL|null"):
        _cordon.Policy().set("fs.read\0", "/a")


def test_schema():
    assert "limits" in __import__("json").loads(_cordon.policy_schema())["properties"]
