# SPDX-License-Identifier: Apache-2.0
"""The deepagents backend: what the conformance suite does not ask, security, under an agent."""

from __future__ import annotations

import asyncio
import os
import pathlib
import time
from importlib.metadata import version

import pytest
from deepagents import create_deep_agent
from deepagents.backends import LocalShellBackend
from langchain_core.messages import AIMessage, ToolMessage
from models import ScriptedModel, call

import pycordon
from pycordon.adapters.langchain import CordonSandbox


@pytest.fixture
def backend():
    with CordonSandbox() as made:
        yield made


def test_hostile_command_works_on_the_host_and_fails_inside(hostile, everything, backend, tmp_path):
    outside = LocalShellBackend(root_dir=tmp_path, inherit_env=True, virtual_mode=False)
    assert hostile.done(outside.execute(hostile.shell).output) == everything
    assert hostile.done(backend.execute(hostile.shell).output) == set()


def test_session_keeps_files_not_processes(backend):
    backend.execute("echo one > /tmp/a; echo two > b; echo three > ~/c; sleep 300 &")
    answer = backend.execute("cat /tmp/a b ~/c; ps aux | grep -c '[s]leep 300'")
    assert answer.output.split() == ["one", "two", "three", "0"]


def test_two_backends_share_nothing(backend):
    backend.execute("echo mine > /tmp/mine")
    with CordonSandbox() as other:
        assert other.id != backend.id
        assert other.execute("cat /tmp/mine").exit_code == 1


def test_exit_code_streams_and_timeout(backend):
    assert backend.execute("exit 7").exit_code == 7
    assert backend.execute("echo out; echo err >&2").output == "out\nerr\n"
    assert backend.execute("kill -TERM $$").exit_code == 143
    began = time.monotonic()
    answer = backend.execute("echo begun; sleep 60", timeout=1)
    assert time.monotonic() - began < 20
    assert answer.exit_code == 124 and answer.output.startswith("begun\n")
    assert "time" in answer.output
    with pytest.raises(ValueError):
        backend.execute("true", timeout=-1)
    assert backend.execute("echo no limit", timeout=0).output == "no limit\n"


def test_output_is_cut_and_says_so():
    with CordonSandbox(max_output=1000) as backend:
        answer = backend.execute("head -c 5000 /dev/zero | tr '\\0' x")
        assert answer.truncated and answer.output.count("x") >= 1000
        assert not backend.execute("echo short").truncated


def test_memory_limit_is_explained():
    with CordonSandbox(max_memory_mb=64) as backend:
        answer = backend.execute("python3 -c 'b = b\"x\" * (512 << 20)'; exit $?")
        assert answer.exit_code != 0
        assert "memory" in answer.output.lower()


def test_workdir_of_the_host_is_shared(tmp_path):
    work = tmp_path / "project"
    work.mkdir()
    (work / "in.txt").write_text("from the host")
    with CordonSandbox(workdir=work) as backend:
        assert backend.execute("cat in.txt; echo made > out.txt").output == "from the host"
    assert (work / "out.txt").read_text() == "made\n"


def test_files_never_leave_the_sandbox(backend, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("host secret")
    backend.execute(f"ln -s {secret} /tmp/link; ln -s {tmp_path} /tmp/dir; mkfifo /tmp/pipe")
    answers = backend.download_files(["/tmp/link", "/tmp/dir/secret", "/tmp/pipe"])
    assert all(answer.content is None and answer.error for answer in answers), answers
    uploads = backend.upload_files([("/tmp/link", b"changed"), ("/tmp/dir/new", b"x")])
    assert secret.read_text() == "host secret"
    assert sorted(os.listdir(tmp_path)) == ["secret"], uploads


def test_upload_and_download_keep_order_and_name_errors(backend):
    answers = backend.upload_files(
        [("/tmp/d/one", b"1"), ("relative", b"2"), ("/usr/three", b"3"), ("/tmp/d/four", b"\0\xff")]
    )
    assert [answer.error for answer in answers][:2] == [None, "invalid_path"]
    assert answers[2].error and answers[3].error is None
    found = backend.download_files(["/tmp/d/four", "relative", "/tmp/d", "/tmp/none", "/tmp/d/one"])
    assert [(f.content, f.error) for f in found] == [
        (b"\0\xff", None),
        (None, "invalid_path"),
        (None, "is_directory"),
        (None, "file_not_found"),
        (b"1", None),
    ]


def test_a_huge_file_is_refused_not_loaded(backend):
    backend.execute("truncate -s 300G /tmp/huge")
    (answer,) = backend.download_files(["/tmp/huge"])
    assert answer.content is None and answer.error


@pytest.mark.asyncio
async def test_cancelled_call_ends_the_command(backend):
    task = asyncio.create_task(
        backend.aexecute("echo started > /tmp/s; sleep 3; echo late > /tmp/l")
    )
    while backend.download_files(["/tmp/s"])[0].content is None:
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(3.5)  # the time in which it would have gone on
    assert backend.download_files(["/tmp/l"])[0].error == "file_not_found"


@pytest.mark.asyncio
async def test_async_twins(backend):
    assert (await backend.aupload_files([("/tmp/x", b"x")]))[0].error is None
    assert (await backend.aexecute("cat /tmp/x")).output == "x"
    assert (await backend.adownload_files(["/tmp/x"]))[0].content == b"x"


def test_shared_sandbox_stays_the_callers():
    with pycordon.Sandbox(workdir=True) as sandbox:
        with CordonSandbox(sandbox) as backend:
            backend.execute("echo kept > /tmp/kept")
        assert sandbox.run("cat /tmp/kept").stdout == "kept\n"
        with pytest.raises(TypeError):
            CordonSandbox(sandbox, max_memory_mb=64)


def test_closed_backend_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with CordonSandbox() as backend:
        backend.execute("mkdir -p /tmp/closed/in && chmod 0 /tmp/closed")
        kept = [str(p) for p in tmp_path.rglob(backend.id)]
        assert kept
    assert not [p for p in kept if pathlib.Path(p).exists()]
    assert backend.id in kept[0]


def test_under_an_agent(hostile):
    tool = "execute"
    model = ScriptedModel(
        responses=[
            AIMessage("", tool_calls=[call(tool, command=hostile.shell)]),
            AIMessage(
                "", tool_calls=[call("write_file", file_path="/tmp/n.txt", content="note 42")]
            ),
            AIMessage("", tool_calls=[call(tool, command="cat /tmp/n.txt")]),
            AIMessage("finished"),
        ]
    )
    with CordonSandbox() as backend:
        agent = create_deep_agent(model=model, backend=backend)
        messages = agent.invoke({"messages": [("user", "go")]})["messages"]
    outputs = [str(m.content) for m in messages if isinstance(m, ToolMessage)]
    assert hostile.done(outputs[0]) == set()
    assert "note 42" in outputs[2]
    assert messages[-1].content == "finished"


def test_versions_are_the_ones_documented():
    assert version("deepagents") in ("0.6.12", "0.7.32")
