# SPDX-License-Identifier: Apache-2.0
"""pycordon.e2b beside E2B's own package: names, errors, data and signatures. Its service is not needed."""

import dataclasses
import inspect

import e2b_code_interpreter as theirs
import pytest
from e2b.sandbox.filesystem.filesystem import FileStreamReader
from e2b.sandbox_async.commands.command import Commands as AsyncCommands
from e2b.sandbox_async.filesystem.filesystem import Filesystem as AsyncFilesystem
from e2b.sandbox_sync.commands.command import Commands
from e2b.sandbox_sync.filesystem.filesystem import Filesystem
from pycordon import e2b as ours

PAIRS = {
    "Sandbox": theirs.Sandbox,
    "AsyncSandbox": theirs.AsyncSandbox,
    "Commands": Commands,
    "AsyncCommands": AsyncCommands,
    "Filesystem": Filesystem,
    "AsyncFilesystem": AsyncFilesystem,
    "CommandHandle": theirs.CommandHandle,
    "AsyncCommandHandle": theirs.AsyncCommandHandle,
}
#: What E2B's classes have and ours have not, on purpose (docs/e2b.md). Each says so when it is used.
NOT_HERE = {
    "pause", "beta_pause", "fork", "create_snapshot", "list_snapshots", "delete_snapshot", "get_metrics",
    "update_network", "download_url", "upload_url", "get_mcp_url", "get_mcp_token", "pty", "git", "watch_dir",
}  # fmt: skip
#: About the connection to the service; nobody has to know them.
INSIDE = {
    "connection_config", "envd_api_url", "envd_direct_url", "default_mcp_template", "mcp_port",
    "traffic_access_token", "stream_input",
}  # fmt: skip


def members(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_names():
    for name in ours.__all__:
        mine = getattr(ours, name)
        assert name in PAIRS or hasattr(theirs, name), name
        assert inspect.isclass(mine) == inspect.isclass(PAIRS.get(name) or getattr(theirs, name)), name


ERRORS = [name for name in ours.__all__ if name.endswith("Exception")]


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_caught_by_the_same_handlers(name):
    def bases(kind):
        return {base.__name__ for base in kind.__mro__} - {"object", "Generic"}

    assert bases(getattr(theirs, name)) == bases(getattr(ours, name))


DATA = ["EntryInfo", "WriteInfo", "CommandResult", "CommandExitException", "ProcessInfo", "SandboxInfo", "OutputMessage",
        "ExecutionError", "Result", "Logs", "Execution", "Context", "SandboxQuery"]  # fmt: skip
NO_SUCH_FIELD = {
    "WriteInfo": {"metadata"}, "EntryInfo": {"metadata"}, "SandboxQuery": {"started_after", "template"},
    "SandboxInfo": {"network", "lifecycle", "volume_mounts", "envd_unresponsive_at_pause"},
}  # fmt: skip


@pytest.mark.parametrize("name", DATA)
def test_data_has_the_same_fields(name):
    real, mine = getattr(theirs, name), getattr(ours, name)
    wanted = {field.name for field in dataclasses.fields(real)} - NO_SUCH_FIELD.get(name, set())
    assert wanted == {field.name for field in dataclasses.fields(mine)}
    for member in members(real) - wanted - {"status_code", "from_dict", "from_json", "args", "add_note", "with_traceback"}:
        assert hasattr(mine, member) or member in NO_SUCH_FIELD.get(name, ()), member


@pytest.mark.parametrize("name", ["FileType", "SandboxState"])
def test_enumerations(name):
    assert {(one.name, one.value) for one in getattr(theirs, name)} == {(one.name, one.value) for one in getattr(ours, name)}


@pytest.mark.parametrize("name", PAIRS)
def test_every_member_is_there_or_says_that_it_is_not(name):
    real, mine = PAIRS[name], getattr(ours, name)
    missing = members(real) - members(mine) - INSIDE
    assert not missing, missing
    assert members(mine) - members(real) <= {"default_sandbox_timeout"}


def parameters(kind, name):
    found = inspect.signature(getattr(kind, name)).parameters
    return {key: one for key, one in found.items() if key not in ("self", "cls", "sandbox_id") and one.kind is not one.VAR_KEYWORD}


@pytest.mark.parametrize("name", PAIRS)
def test_signatures(name):
    """The same parameters in the same order, with the same defaults. Ours may have more behind them."""
    real, mine = PAIRS[name], getattr(ours, name)
    for member in sorted(members(real) - NOT_HERE - INSIDE):
        if not callable(getattr(real, member)) or isinstance(inspect.getattr_static(real, member), property):
            continue
        there, here = parameters(real, member), parameters(mine, member)
        assert list(here)[: len(there)] == list(there), (member, list(here), list(there))
        for key, one in there.items():
            assert (here[key].default, here[key].kind) == (one.default, one.kind), (member, key)
        assert set(here) - set(there) <= {"policy"}, member
        assert inspect.iscoroutinefunction(getattr(mine, member)) == inspect.iscoroutinefunction(getattr(real, member)) or member in (
            "connect", "kill", "set_timeout", "get_info"
        ), member  # fmt: skip


def test_streams_have_the_same_members():
    assert members(FileStreamReader) == members(ours._filesystem.FileStreamReader)


@pytest.mark.parametrize("name", sorted(NOT_HERE - {"watch_dir"}))
def test_what_is_not_here_says_so(name):
    with ours.Sandbox.create() as sandbox:
        with pytest.raises(ours.InvalidArgumentException, match="not available"):
            getattr(sandbox, name)()
