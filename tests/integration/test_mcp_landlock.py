# SPDX-License-Identifier: Apache-2.0
"""The core of the other suites of the MCP server once more at level landlock: hostile guests, arguments that
ask for more, what is left at the end, sessions and workspaces. The tests are those, with another client."""

import json

import pytest
from conftest import unavailable
from mcplib import Client, project  # noqa: F401
from test_mcp import (  # noqa: F401
    test_a_cancelled_call_ends_and_is_not_answered, test_a_flood_of_output_stays_within_its_limit,
    test_a_limit_of_the_workspaces_sandbox_is_told_and_the_next_call_works, test_an_edit_has_to_be_clear,
    test_get_limits, test_no_argument_widens_the_policy, test_nothing_is_left_when_it_ends, test_output_is_cut_at_its_limit,
    test_processes_that_fork_away_end_too, test_run_code, test_run_command,
    test_the_callers_environment_and_directory_are_not_shown,
    test_what_a_guest_prints_is_text,
)  # fmt: skip
from test_mcp_sessions import (  # noqa: F401
    session, test_a_cancelled_execution_ends, test_a_session_that_is_closed_is_gone,
    test_an_interpreter_that_ends_says_so_and_the_next_one_begins, test_code_can_lie_about_its_own_result_only,
    test_code_that_writes_to_the_channel_loses_its_interpreter_and_no_more,
    test_floods_are_bounded, test_pictures_come_back_as_pictures, test_python_keeps_its_state_and_gives_values_back,
)  # fmt: skip
from test_mcp_workspace import (  # noqa: F401
    test_a_commit_needs_the_operators_leave, test_a_conflict_is_told_and_nothing_is_committed,
    test_a_killed_servers_empty_workspace_is_collected, test_a_workspace_by_name_goes_on,
    test_a_workspace_keeps_changes_apart, test_a_workspace_without_changes_goes, test_direct_writes_through,
)  # fmt: skip


@pytest.fixture
def client(me):
    """As mcplib's, at this level."""
    if not me.can("landlock"):
        unavailable("level landlock does not work here")
    made = []

    def start(*opts, **kw):
        made.append(Client(me, "--isolation", "landlock", *opts, **kw))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_it_is_this_level(client, project):
    for opts in ([], ["--workspace", project], ["--workspace", project, "--direct"]):
        c = client(*opts)
        assert c.call("run_command", command="true").data["isolation"]["level"] == "landlock"
        name = c.call("create_session").data["session"]
        assert c.call("run_command", command="true", session=name).data["isolation"]["level"] == "landlock"


@pytest.mark.parametrize("mode", ["runs", "workspace", "direct"])
def test_processes_of_the_host_are_out_of_reach(client, me, project, mode):
    """There is no namespace of processes here: only what Landlock and the filter refuse keeps them apart."""
    opts = {"runs": [], "workspace": ["--workspace", project], "direct": ["--workspace", project, "--direct"]}
    c = client(*opts[mode])
    victim = me.popen(["sleep", "600"])
    try:
        steps = f"kill -9 {victim.pid}; cat /proc/{victim.pid}/environ /proc/{c.pid}/environ; echo x > /proc/{c.pid}/fd/1; kill -9 {c.pid}"
        got = c.call("run_command", command=steps)
        assert got.data["stdout"] == "" and got.data["exit_code"] != 0
        name = c.call("create_session").data["session"]
        code = f"import os\nfor pid in ({victim.pid}, {c.pid}):\n try: os.kill(pid, 9)\n except OSError as e: print(e.errno)"
        got = c.call("execute", session=name, code=code)
        assert got.data["stdout"].split() in (["1", "1"], ["3", "3"]), json.dumps(got.data)
        assert victim.poll() is None and c.ask("ping")["result"] == {}
    finally:
        victim.kill()
        victim.wait()
