# SPDX-License-Identifier: Apache-2.0
"""Every structured answer of every tool of `cordon mcp`, held to the tool's own schema by somebody else's
validator. It stands here because the validator comes from the package index, as what this suite runs with."""

import base64
import copy
import json
import os
import pathlib
import subprocess
import sys
import types

import jsonschema
import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
from mcplib import Client  # noqa: E402

CORDON = os.environ.get("CORDON") or str(pathlib.Path(sys.executable).with_name("cordon"))
Validator = jsonschema.Draft202012Validator


class Checked(Client):
    """Calls whose arguments and answers are held to the schemas."""

    def __init__(self, *opts):
        super().__init__(types.SimpleNamespace(cordon=CORDON, popen=subprocess.Popen), *opts)
        self.known = self.tools()
        self.seen = {name: [] for name in self.known}

    def call(self, tool, **arguments):
        Validator(self.known[tool]["inputSchema"]).validate(arguments)
        got = super().call(tool, **arguments)
        if got.data is not None:
            Validator(self.known[tool]["outputSchema"]).validate(got.data)
            self.seen[tool].append(got.data)
        else:
            assert got.failed, (tool, got.all)
        return got


@pytest.fixture
def project(tmp_path):
    path = tmp_path / "project"
    path.mkdir()
    (path / "file.txt").write_text("one\n")
    return path


@pytest.fixture
def started():
    made = []

    def start(*opts):
        made.append(Checked(*map(str, opts)))
        return made[-1]

    yield start
    for one in made:
        one.close()


PICTURES = """
class P:
    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\nxyz'
class H:
    def _repr_html_(self): return '<b>x</b>'
from sys import stderr
print('out'); print('err', file=stderr)
H()
"""


def run_things(c, **where):
    """Commands and code that end in every way."""
    c.call("run_command", command="echo out; echo err >&2; exit 3", **where)
    c.call("run_command", command=["printf", "\\377\\376"], **where)
    c.call("run_command", command="printf '\\377' >&2; kill -9 $$", **where)
    assert c.call("run_command", command="sleep 60", timeout=0.2, **where).data["kind"] == "timeout"
    assert c.call("run_command", command="yes | head -c 1000000", **where).data["truncated"]["stdout"]
    c.call("run_command", command=["/no/such/program"], **where)
    assert c.call("run_command", command="cat /etc/shadow", **where).data["denials"]
    c.call("run_command", command="touch ~/lost /tmp/lost", **where)
    c.call("run_command", command="true", cwd="/nowhere", **where)
    c.call("run_code", code="import os; os.write(1, b'\\xff'); os.write(2, b'\\xff')", **where)
    c.call("run_code", code="echo $0", language="sh", cwd="/tmp", timeout=5, **where)


def private_of(c, **where):
    """Where a call may write: at level landlock the private /tmp has another name."""
    return c.call("run_command", command="echo ${TMPDIR:-/tmp}", **where).data["stdout"].strip()


def file_things(c, **where):
    tmp = private_of(c, **where)
    c.call("write_file", path=f"{tmp}/d/text", content="a\u00fcb\n" * 10, **where)
    c.call("write_file", path=f"{tmp}/d/bytes", content=base64.b64encode(bytes(range(256))).decode(), encoding="base64", **where)
    c.call("write_file", path=f"{tmp}/d/text", content="more", append=True, **where)
    c.call("write_file", path="/proc/nothing", content="x", **where)
    c.call("run_command", command=f"cd {tmp}/d; ln -sf a l; mkfifo p; touch $(printf 'n\\377')", **where)
    return tmp


def files_of_a_place(c, **where):
    """In a sandbox that stays."""
    tmp = file_things(c, **where)
    for name in ("text", "bytes", "none", ""):
        c.call("read_file", path=f"{tmp}/d/{name}", **where)
    assert c.call("read_file", path=f"{tmp}/d/text", offset=1, limit=3, **where).data["more"]
    assert not c.call("edit_file", path=f"{tmp}/d/text", old_text="more", new_text="less", **where).failed
    c.call("edit_file", path=f"{tmp}/d/text", old_text="a", new_text="", replace_all=True, **where)
    c.call("edit_file", path=f"{tmp}/d/text", old_text="none", new_text="", **where)
    kinds = {e["type"] for e in c.call("list_files", path=tmp, depth=0, **where).data["entries"]}
    assert {"file", "directory", "link"} <= kinds <= {"file", "directory", "link", "other"}
    c.call("list_files", path="/nowhere", **where)


def code_things(c, name):
    for code in ("x = 1", "x", PICTURES, "1/0", "import sys; sys.exit(3)", "print('a' * 300000)", "open('/etc/shadow')"):
        c.call("execute", session=name, code=code)
    assert c.call("execute", session=name, code="P()").data["result"]
    c.call("execute", session=name, code="false", language="bash")
    assert c.call("execute", session=name, code="while True: pass", timeout=0.3).data["timed_out"]
    assert c.call("execute", session=name, code="import os; os._exit(4)").data["ended"]
    c.call("execute", session=name, code="1")


@pytest.mark.parametrize("mode", ["runs", "workspace", "direct"])
@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_every_answer_is_what_the_schema_says(started, project, mode, level):
    opts = {"runs": [], "workspace": ["--workspace", project, "--allow-commit"], "direct": ["--workspace", project, "--direct"]}
    c = started("--isolation", level, *opts[mode])
    c.call("get_limits")
    if mode == "workspace":
        assert c.call("workspace_diff").data == {"changes": []}
    run_things(c)
    file_things(c)
    session = c.call("create_session").data["session"]
    run_things(c, session=session)
    files_of_a_place(c, session=session)
    code_things(c, session)
    c.call("close_session", session=session)
    if mode == "workspace":
        c.call("run_command", command="echo 2 > file.txt; echo 1 > new; ln -s new l; mkdir .git d; echo x > .git/config; mkfifo p; chmod +x new")
        assert len(c.call("workspace_diff").data["changes"]) >= 5
        assert c.call("workspace_commit").data["refused"]
        c.call("workspace_diff")
        c.call("workspace_commit")
    # None was left out, and each key of a schema occurs in an answer.
    for name, answers in c.seen.items():
        wanted = set(c.known[name]["outputSchema"]["properties"]) - NOT_SEEN.get(name, set())
        assert answers and wanted <= {key for answer in answers for key in answer}, name


# The changes have to be too many to be listed (tests/integration/test_mcp_workspace.py).
NOT_SEEN = {"workspace_commit": {"more"}}


def test_the_policy_that_is_told_is_one(started, project):
    c = started("--workspace", project, "--net-allow", "example.org", "-m", "64M", "--deny", "*.pem", "-r", "/srv")
    policy = c.call("get_limits").data["policy"]
    schema = json.loads(subprocess.run([CORDON, "policy", "schema"], stdout=subprocess.PIPE, check=True).stdout)
    Validator(schema).validate(policy)
    assert policy["net"] and policy["limits"]["memory"]


def nodes(schema):
    """All objects of a schema that describe objects."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            yield schema
        for value in schema.values():
            yield from nodes(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from nodes(value)


def test_schemas_are_closed_and_can_refuse(started, project):
    """A schema that takes everything would prove nothing about the answers."""
    c = started("--workspace", project, "--allow-commit")
    for name, tool in c.known.items():
        for schema in (tool["inputSchema"], tool["outputSchema"]):
            Validator.check_schema(schema)
            assert schema["type"] == "object", name
            for node in nodes(schema):
                assert node["additionalProperties"] is False, (name, node)
                assert set(node["required"]) <= set(node["properties"]), (name, node)
    answer = c.call("run_command", command="cat /etc/shadow").data
    check = Validator(c.known["run_command"]["outputSchema"])
    places = [(), ("usage",), ("isolation",), ("truncated",), ("output_bytes",), ("denials", 0)]
    for place in places:
        for change in ("more", "less"):
            wrong = copy.deepcopy(answer)
            at = wrong
            for key in place:
                at = at[key]
            if change == "more":
                at["unknown"] = 1
            else:
                # What is only there where it is known may be missing.
                at.pop(sorted(set(at) - {"count", "errno", "program"})[0] if place else "kind")
            assert not check.is_valid(wrong), (place, change)
