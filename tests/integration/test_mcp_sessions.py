# SPDX-License-Identifier: Apache-2.0
"""Sessions of the MCP server: a sandbox that stays, interpreters with state, and code that attacks the
driver which it shares its process with."""

import base64
import json
import os
import pathlib
import re
import time

import pytest
from conftest import ceiling, needs, survivors
from mcplib import client, wait_until  # noqa: F401


@pytest.fixture(params=["own", "workspace"])
def session(request, client, me):
    """A client and the name of a session: with a sandbox of its own, and in that of the workspace."""
    project = me.mkdir("project")
    c = client(*(["--workspace", project] if request.param == "workspace" else []))
    return c, c.call("create_session").data["session"]


def execute(session, code, **more):
    return session[0].call("execute", session=session[1], code=code, **more)


def test_python_keeps_its_state_and_gives_values_back(session):
    assert execute(session, "x = 41\nimport math").data["ok"]
    got = execute(session, "print('hi'); x + 1")
    assert got.data["stdout"] == "hi\n" and got.data["result"] == {"text/plain": "42"}
    assert got.texts == ["hi\n", "42"] and not got.failed
    got = execute(session, "import sys; print('e', file=sys.stderr); 1/0")
    assert got.failed and got.data["error"]["name"] == "ZeroDivisionError" and got.data["stderr"] == "e\n"
    assert "ZeroDivisionError" in got.texts[-1] and not got.data["ended"]
    assert execute(session, "math.floor(x / 2)").data["result"] == {"text/plain": "20"}
    wanted = set(session[0].tools()["execute"]["outputSchema"]["required"])
    assert wanted <= set(got.data)


def test_other_languages(session):
    needs("node")
    execute(session, "a=5; f() { echo $((a + 1)); }; cd /tmp", language="bash")
    got = execute(session, "f; pwd; false", language="bash")
    assert got.data["stdout"] == "6\n/tmp\n" and got.data["status"] == 1
    execute(session, "let q = 3", language="javascript")
    assert execute(session, "q * 2", language="javascript").data["result"] == {"text/plain": "6"}
    assert "language" in execute(session, "1", language="perl").text


def test_pictures_come_back_as_pictures(session):
    code = """
class P:
    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\nxyz'
class H:
    def _repr_html_(self): return '<b>x</b>'
H()
"""
    got = execute(session, code)
    assert got.data["result"]["text/html"] == "<b>x</b>"
    got = execute(session, "P()")
    image = [item for item in got.all["content"] if item["type"] == "image"]
    assert image[0]["mimeType"] == "image/png" and base64.b64decode(image[0]["data"]) == b"\x89PNG\r\n\x1a\nxyz"
    assert base64.b64decode(got.data["result"]["image/png"]) == b"\x89PNG\r\n\x1a\nxyz"


@pytest.mark.parametrize("language, code, check, want", [
    ("python", "import time\nx = 7\ntime.sleep(60)", "print(x)", "7\n"),
    ("bash", "x=7; sleep 60", "echo $x", "7\n"),
])  # fmt: skip
def test_code_whose_time_is_over_is_interrupted_and_its_state_is_kept(session, language, code, check, want):
    got = execute(session, code, language=language, timeout=0.5)
    assert got.failed and got.data["timed_out"] and not got.data["ended"] and "state is kept" in got.text
    assert execute(session, check, language=language).data["stdout"] == want


def test_code_that_ignores_interrupts_is_killed(session):
    execute(session, "import signal")
    stubborn = "import os\nos.system('trap \"\" INT; sleep 60')\nwhile True:\n try:\n  while True: pass\n except BaseException: pass"
    got = execute(session, stubborn, timeout=0.3)
    assert got.failed and got.data["ended"] and "state is gone" in got.text
    assert execute(session, "1 + 1").data["result"] == {"text/plain": "2"}


def test_an_interpreter_that_ends_says_so_and_the_next_one_begins(session):
    execute(session, "x = 1")
    got = execute(session, "import os; os._exit(3)")
    assert got.data["ended"] and "status 3" in got.text
    assert execute(session, "x").data["error"]["name"] == "NameError"
    # It ends between two pieces of code, or in the next: that one is told in either case.
    execute(session, "import os, threading; threading.Timer(0.1, os._exit, [5]).start()")
    end = time.monotonic() + ceiling(10)
    while not (got := execute(session, "1 + 1")).data or not (got.data["restarted"] or got.data["ended"]):
        assert time.monotonic() < end
    assert "without the state" in got.text or "state is gone" in got.text


def test_commands_and_files_work_in_the_session(session):
    c, name = session
    c.call("write_file", session=name, path="/tmp/a", content="from outside")
    assert execute(session, "open('/tmp/a').read()").data["result"] == {"text/plain": "'from outside'"}
    execute(session, "open('/tmp/b', 'w').write('from inside')")
    assert c.call("read_file", session=name, path="/tmp/b").data["content"] == "from inside"
    assert c.call("run_command", session=name, command="cat /tmp/b").data["stdout"] == "from inside"
    assert c.call("run_code", session=name, code="print(open('/tmp/b').read())").data["stdout"] == "from inside\n"


def test_sessions_are_apart_without_a_workspace(client):
    c = client()
    one, two = (c.call("create_session").data["session"] for _ in range(2))
    c.call("execute", session=one, code="open('/tmp/x', 'w').write('1'); y = 1")
    assert c.call("run_command", session=two, command="cat /tmp/x").data["exit_code"] == 1
    assert c.call("execute", session=two, code="y").data["error"]["name"] == "NameError"


def test_a_session_that_is_closed_is_gone(session):
    c, name = session
    number = c.start("execute", {"progressToken": 1}, session=name, code="print('x', flush=True)\nwhile True: pass")
    assert c.read()["params"]["message"] == "x\n"
    assert c.call("close_session", session=name).data == {"closed": True}
    got = c.result(number)
    assert got.failed and "closed" in got.text
    for tool, more in (("execute", {"code": "1"}), ("run_command", {"command": "true"}), ("close_session", {})):
        assert "no such session" in c.call(tool, session=name, **more).text
    assert c.call("run_command", command="echo on").data["stdout"] == "on\n"
    assert c.end() == ""
    assert not survivors(5)


def test_a_cancelled_execution_ends(session):
    c, name = session
    number = c.start("execute", {"progressToken": 1}, session=name, code="print('x', flush=True)\nwhile True: pass")
    assert c.read()["method"] == "notifications/progress"
    c.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
    assert execute(session, "1 + 1").data["result"] == {"text/plain": "2"}
    assert not [m for m in c.others if m.get("id") == number]


def test_executions_wait_for_each_other(session):
    c, name = session
    numbers = [c.start("execute", session=name, code=f"import time; time.sleep(0.1); {n}") for n in range(5)]
    assert [c.result(number).data["result"]["text/plain"] for number in numbers] == list("01234")


def test_an_execution_that_waits_says_so(session):
    c, name = session
    first = c.start("execute", session=name, code="import time; time.sleep(600)")
    number = c.start("execute", {"progressToken": 1}, session=name, code="print('x')")
    assert c.read()["params"]["message"] == "waiting until another call is over\n"
    c.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": first}})
    assert c.result(number).data["stdout"] == "x\n"


def test_a_session_waits_for_the_workspaces_next_sandbox(client, me):
    """What a call left running ends, and the sandbox with it; that takes a moment."""
    c = client("--workspace", me.mkdir("project"))
    for _ in range(10):
        c.call("run_command", command="setsid sleep 600 > /dev/null 2>&1 & exit 0")
        got = c.call("create_session")
        assert not got.failed, got.text
        assert c.call("execute", session=got.data["session"], code="6 * 7").data["result"] == {"text/plain": "42"}
        c.call("close_session", session=got.data["session"])
    # One that is cancelled while it waits is not made.
    c.call("run_command", command="setsid sleep 600 > /dev/null 2>&1 & exit 0")
    for _ in range(3):
        number = c.start("create_session")
        c.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
    assert not c.call("run_command", command="true").failed


def test_wrong_names_and_too_many_sessions(client):
    c = client()
    for name in ("", "s-000000000000000000000000", "../x"):
        assert "no such session" in c.call("execute", session=name, code="1").text
    assert "missing" in c.call("execute", code="1").text
    made = [c.call("create_session") for _ in range(9)]
    assert [one.failed for one in made] == [False] * 8 + [True]
    c.call("close_session", session=made[0].data["session"])
    assert not c.call("create_session").failed


def test_a_missing_interpreter_is_told(client):
    c = client("--commands", "sh,python3")
    name = c.call("create_session").data["session"]
    got = c.call("execute", session=name, code="1", language="bash")
    assert got.failed and "could not be used" in got.text


FIND = """
import os, socket, stat
found = [int(n) for n in os.listdir('/proc/self/fd') if int(n) > 2]
channel = [n for n in found if os.path.exists(f'/proc/self/fd/{n}') and stat.S_ISSOCK(os.stat(n).st_mode)][0]
"""
ATTACKS = {
    "garbage": "os.write(channel, b'garbage\\n')",
    "no end": "socket.socket(fileno=os.dup(channel)).sendall(b'x' * 200000)",
    "huge": "os.write(channel, b'- {\"type\":\"display\",\"mimes\":[\"a/b\"],\"parts\":[99999999999]}\\n')",
    "negative": "os.write(channel, b'- {\"type\":\"display\",\"mimes\":[\"a/b\"],\"parts\":[-1]}\\n')",
    "another token": "os.write(channel, b'0123 {\"type\":\"end\",\"mimes\":[],\"parts\":[],\"count\":1}\\n')",
    "deep": "os.write(channel, b'- ' + b'[' * 60000 + b'\\n')",
    "closed": "os.close(channel)\nimport time; time.sleep(30)",
    "descriptors": "socket.send_fds(socket.socket(fileno=os.dup(channel)), [b'x\\n'], [0] * 200)",
}


def settled_descriptors(c):
    """How many the server holds, once the sandboxes that it makes ahead are there."""
    last, since = -1, 0.0
    while last < 0 or time.monotonic() - since < 0.5:
        now = len(os.listdir(f"/proc/{c.pid}/fd"))
        if now != last:
            last, since = now, time.monotonic()
        time.sleep(0.02)
    return last


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_code_that_writes_to_the_channel_loses_its_interpreter_and_no_more(client, name):
    c = client()
    session = (c, c.call("create_session").data["session"])
    assert execute(session, "1").data["ok"]
    before = settled_descriptors(c)
    got = execute(session, FIND + ATTACKS[name])
    assert got.failed and got.data["ended"], got.all
    assert execute(session, "6 * 7").data["result"] == {"text/plain": "42"}
    # What the one that has ended had is closed a moment later.
    wait_until(lambda: len(os.listdir(f"/proc/{c.pid}/fd")) <= before)
    assert c.ask("ping")["result"] == {}


def test_code_can_lie_about_its_own_result_only(client):
    c = client()
    session = (c, c.call("create_session").data["session"])
    lie = FIND + "import gc\ntoken = [o.token for o in gc.get_objects() if type(o).__name__ == 'State'] or [b'']\n"
    lie += "os.write(channel, (token[0] or b'-') + b' {\"type\":\"end\",\"mimes\":[\"text/plain\"],\"parts\":[4],\"count\":1}\\nlies')"
    got = execute(session, lie)
    assert got.data["ended"] or got.data["result"] == {"text/plain": "lies"} or got.data["ok"]
    assert session[0].ask("ping")["result"] == {}


def test_names_of_forms_are_not_given_twice(client):
    c = client()
    session = (c, c.call("create_session").data["session"])
    twice = FIND + "import gc\ntoken = [o.token for o in gc.get_objects() if type(o).__name__ == 'State'][0]\n"
    twice += "os.write(channel, token + b' {\"type\":\"display\",\"mimes\":[\"a/b\",\"a/b\"],\"parts\":[1,1]}\\nxy')"
    got = execute(session, twice)
    assert got.data["ended"] and "not understood" in got.text


def test_the_server_listens_while_others_in_a_session_write_for_ever(client):
    c = client()
    session = (c, c.call("create_session").data["session"])
    execute(session, "x = 0")
    floods = [c.start("run_command", command="yes", timeout=20, session=session[1]) for _ in range(20)]
    c.call("list_files", path="/", session=session[1])
    for n in range(5):
        assert execute(session, "x += 1; x").data["result"] == {"text/plain": str(n + 1)}
        assert c.ask("ping")["result"] == {}
    assert not [message for message in c.others if message.get("id") in floods]
    for number in floods:
        c.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
    assert c.call("run_command", command="echo done", session=session[1]).data["stdout"] == "done\n"


def test_floods_are_bounded(client):
    c = client()
    session = (c, c.call("create_session").data["session"])
    got = execute(session, "for i in range(200): print('x' * 100000)")
    assert got.data["truncated"]["stdout"] and len(got.data["stdout"]) == 256 << 10
    got = execute(session, "'y' * (100 << 20)")
    assert len(json.dumps(got.all)) < 16 << 20
    status = pathlib.Path(f"/proc/{c.pid}/status").read_text()
    assert int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) < 64 << 10


def test_a_workspaces_sandbox_that_ended_takes_its_sessions_with_it(client, me):
    project = me.mkdir("project")
    c = client("--workspace", project, "-m", "128M")
    session = (c, c.call("create_session").data["session"])
    execute(session, "open('kept', 'w').write('1')")
    got = execute(session, "x = bytearray(600 << 20)")
    assert got.failed
    assert c.call("run_command", command="cat kept").data["stdout"] == "1"
    assert "session has ended" in execute(session, "1").text
    c.call("close_session", session=session[1])
    again = (c, c.call("create_session").data["session"])
    assert execute(again, "open('kept').read()").data["result"] == {"text/plain": "'1'"}
