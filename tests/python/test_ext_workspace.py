# SPDX-License-Identifier: Apache-2.0
"""Workspaces through the extension."""

import json
import os
import threading

import pytest
from extlib import ENV, PATIENCE, finish, policy, receipt

from pycordon import _cordon


@pytest.fixture
def made(tmp_path):
    """A workspace "w" over a directory, with one file changed, one new and one risky."""
    base, state = tmp_path / "base", tmp_path / "state"
    base.mkdir()
    state.mkdir()
    (base / "a").write_text("1\n")
    script = "echo 2 >a; echo 3 >b; ln -s /etc/passwd out"
    run = _cordon.Launcher().start(
        policy(fs_workspace=str(base)), ["/bin/sh", "-c", script], env=ENV, cwd=base,
        state_dir=state, workspace_name="w", workspace_changes=True,
    )  # fmt: skip
    got = finish(run)
    assert got["exit_code"] == 0, got
    assert got["workspace"] == receipt(run)["workspace"]
    assert [c["path"] for c in got["workspace"]["changes"]] == ["a", "b", "out"]
    run.close()
    return base, state


def test_list_info_and_changes(made):
    base, state = made
    (info,) = _cordon.workspace_list(state)
    ws = _cordon.Workspace("w", state)
    document = json.loads(ws.to_json())
    assert info == ws.info() == {key: document[key] for key in info}
    assert info["base"] == str(base) and info["name"] == "w"
    assert ws.summary() == document["summary"]
    assert ws.changes() == document["changes"]


def test_commit_and_discard(made):
    base, state = made
    ws = _cordon.Workspace("w", state_dir=os.fsencode(state))
    got = ws.commit(dry_run=True)
    assert (got["applied"], got["refused"]) == (2, 1) and (base / "a").read_text() == "1\n"
    got = ws.commit(paths=["a"])
    outcomes = {c["path"]: c["outcome"] for c in got["changes"]}
    assert outcomes["a"] == "applied" and (base / "a").read_text() == "2\n"
    assert not (base / "b").exists() and not got["is_empty"]
    asked = []
    got = ws.commit(choose=lambda change: asked.append(change["path"]))  # None is no
    assert asked == ["b"] and got["skipped"] >= 1 and not (base / "b").exists()
    ws.discard()
    assert _cordon.workspace_list(state) == []
    for call in (ws.info, ws.summary, ws.changes, ws.commit, ws.discard):
        with pytest.raises(_cordon.Error, match="closed"):
            call()
    ws.close()


def test_conflicts(made):
    base, state = made
    (base / "a").write_text("mine, and longer\n")
    ws = _cordon.Workspace("w", state)
    got = ws.commit()
    assert got["conflicts"] == 1 and got["applied"] == 0 and not (base / "b").exists()
    assert [c["message"] for c in got["changes"] if c["outcome"] == "conflict"] != [None]
    ws.commit(conflicts="theirs")
    assert (base / "a").read_text() == "2\n"
    with pytest.raises(ValueError, match="refuse"):
        ws.commit(conflicts="mine")


def test_an_exception_of_choose_stops_the_commit(made):
    base, state = made
    ws = _cordon.Workspace("w", state)

    def choose(change):
        raise KeyError(change["path"])

    with pytest.raises(KeyError, match="a"):
        ws.commit(choose=choose)
    assert (base / "a").read_text() == "1\n"


def test_a_callback_that_uses_the_workspace_does_not_wait_for_itself(made):
    _, state = made
    ws = _cordon.Workspace("w", state)
    said = []

    def choose(change):
        for call in (ws.info, ws.close, ws.commit):
            with pytest.raises(_cordon.Error, match="in use by the same thread"):
                call()
            said.append(change["path"])
        return False

    ws.commit(choose=choose)
    assert said
    # Another thread waits for its turn and gets it, although the callback holds the GIL now and then.
    threads = []

    def choose_slowly(change):
        threads.append(threading.Thread(target=ws.info))
        threads[-1].start()
        return False

    ws.commit(choose=choose_slowly)
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_patch_and_export(made):
    _, state = made
    ws = _cordon.Workspace("w", state)
    for call, want in (
        (lambda fd: ws.patch(fd), b"+3"),
        (lambda fd: ws.patch(fd, paths=["a"]), b"+2"),
        (lambda fd: ws.export("patch", fd), b"diff --git"),
        (lambda fd: ws.export("tar", fd, ["b"]), b"ustar"),
    ):
        r, w = os.pipe()
        assert call(w) == 0
        os.close(w)
        with open(r, "rb") as pipe:
            assert want in pipe.read()
    with pytest.raises(ValueError, match="'tar' or 'patch'"):
        ws.export("zip", 1)
    with pytest.raises(ValueError, match="no open file descriptor"):
        ws.patch(99_999)


def test_gc(made):
    _, state = made
    assert _cordon.workspace_gc(state) == []
    (gone,) = _cordon.workspace_gc(state, older_than=0, dry_run=True)
    assert gone["name"] == "w" and gone["why"]
    assert len(_cordon.workspace_list(state)) == 1
    _cordon.workspace_gc(state, older_than=0)
    assert _cordon.workspace_list(state) == []
    with pytest.raises(ValueError, match="negative"):
        _cordon.workspace_gc(state, older_than=-1)


def test_unknown_ones(tmp_path):
    with pytest.raises(_cordon.Error, match="nobody"):
        _cordon.Workspace("nobody", tmp_path)
    with pytest.raises(TypeError):
        _cordon.Workspace()


def test_progress_can_stop_a_copy(made):
    base, state = made
    options = {"env": ENV, "cwd": base, "state_dir": state, "workspace_from": "w"}
    calls = []

    def progress(files, size):
        calls.append((files, size))
        raise KeyError("stop")

    launcher = _cordon.Launcher()
    start = lambda: launcher.start(  # noqa: E731
        policy(fs_workspace=str(base)), ["/bin/true"], workspace_progress=progress, **options
    )
    try:
        run = start()
    except KeyError:
        assert calls and len(calls) == 1
    else:  # a copy so small that the function was not called
        assert not calls
        assert finish(run)["exit_code"] == 0


def test_a_branch_while_a_run_has_it(made):
    base, state = made
    run = _cordon.Launcher().start(
        policy(fs_workspace=str(base)), ["/bin/sh", "-c", "echo 4 >c; exec sleep 600"],
        env=ENV, cwd=base, state_dir=state, workspace_name="w",
    )  # fmt: skip
    content = lambda ws: {c["path"]: c["kind"] for c in ws.changes()}  # noqa: E731
    with pytest.raises(_cordon.Error, match="in use"):
        _cordon.Workspace("w", state).branch(0, 0)
    one = _cordon.Workspace(run.branch(0, 0), state)
    assert one.info()["parent"] == _cordon.Workspace("w", state).info()["id"] and not one.info()["in_use"]
    two = _cordon.Workspace(one.branch(1 << 20, 100), state)
    assert content(one) == content(two)
    run.cancel()
    finish(run)
    with pytest.raises(_cordon.Error, match="no workspace, or is over"):
        run.branch(0, 0)
    run.close()
    one.discard()
    assert two.commit(paths=["a"])["applied"] == 1 and (base / "a").read_text() == "2\n"
    two.discard()
    assert [entry["name"] for entry in _cordon.workspace_list(state)] == ["w"]
