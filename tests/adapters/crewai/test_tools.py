# SPDX-License-Identifier: Apache-2.0
"""The CrewAI tools: the old code interpreter's place, and exec, python and files."""

import base64
import os
import subprocess
import sys

import pytest

import pycordon
from pycordon.adapters.crewai import (
    CordonCodeInterpreterTool,
    CordonExecTool,
    CordonFileTool,
    CordonPythonTool,
)

FAILED = "Something went wrong while running the code: \n"


# --- in place of the code interpreter ------------------------------------------------------------------


def interpret(tool, code, libraries=()):
    return tool.run(code=code, libraries_used=list(libraries))


def test_surface():
    tool = CordonCodeInterpreterTool()
    assert tool.name == "Code Interpreter"
    assert tool.description == "Interprets Python3 code strings with a final print statement."
    schema = tool.args_schema.model_json_schema()
    assert schema["required"] == ["code", "libraries_used"]
    assert schema["properties"]["code"]["type"] == "string"
    assert schema["properties"]["libraries_used"]["items"] == {"type": "string"}
    old = CordonCodeInterpreterTool(
        default_image_tag="x", user_dockerfile_path="y", user_docker_base_url="z", code="print(1)"
    )
    assert (old.default_image_tag, old.user_dockerfile_path, old.code) == ("x", "y", "print(1)")


def test_texts(work):
    tool = CordonCodeInterpreterTool()
    assert interpret(tool, "") == "No code provided to execute."
    assert interpret(tool, "print(6 * 7)") == "42\n"
    assert CordonCodeInterpreterTool(code="print('given')")._run(libraries_used=[]) == "given\n"
    failed = interpret(tool, "print('before')\n1 / 0")
    assert failed.startswith(FAILED + "before\n") and "ZeroDivisionError" in failed
    assert interpret(tool, "import sys; sys.exit(3)").startswith(FAILED)


def test_arguments_are_validated(work):
    with pytest.raises(ValueError, match="libraries_used"):
        CordonCodeInterpreterTool().run(code="print(1)")


def test_hostile_code(hostile, everything, work):
    outside = subprocess.run([sys.executable, "-c", hostile.python], capture_output=True, text=True)
    assert hostile.done(outside.stdout) == everything
    assert hostile.done(interpret(CordonCodeInterpreterTool(), hostile.python)) == set()
    # The old option for running on the host runs nothing there.
    assert (
        hostile.done(interpret(CordonCodeInterpreterTool(unsafe_mode=True), hostile.python))
        == set()
    )


def test_hostile_code_in_an_agent(hostile, work, ask):
    heard = ask(CordonCodeInterpreterTool(), {"code": hostile.python, "libraries_used": []})
    assert hostile.done(heard.split("Observation:")[-1]) == set()


def test_no_directory_of_the_host_is_seen_unless_it_is_named(work):
    (work / "data.csv").write_text("1,2,3")
    path = str(work / "data.csv")
    tool = CordonCodeInterpreterTool()
    assert interpret(tool, "import os; print(os.listdir('.'))") == "[]\n"
    assert interpret(tool, f"print(open({path!r}).read())").startswith(FAILED)
    reads = CordonCodeInterpreterTool(fs_read=["."])
    assert interpret(reads, f"print(open({path!r}).read())") == "1,2,3\n"
    assert interpret(reads, f"open({path!r}, 'a')").startswith(FAILED)
    works = CordonCodeInterpreterTool(workdir=".")
    assert interpret(works, "open('new', 'w').write(open('data.csv').read()); print('ok')") == "ok\n"
    assert (work / "new").read_text() == "1,2,3"


def test_options(work, tmp_path):
    secret = tmp_path / "granted"
    secret.write_text("granted")
    tool = CordonCodeInterpreterTool(fs_read=[str(secret)], max_memory_mb=64, envs={"A": "1"})
    assert (
        interpret(tool, f"import os; print(open({str(secret)!r}).read(), os.environ['A'])")
        == "granted 1\n"
    )
    text = interpret(tool, "b = bytearray(512 << 20); print(len(b))")
    assert text.startswith(FAILED) and "memory" in text.lower()
    text = interpret(
        CordonCodeInterpreterTool(max_execution_seconds=1), "import time; time.sleep(60)"
    )
    assert text.startswith(FAILED) and "time" in text.lower()


def test_libraries(work):
    tool = CordonCodeInterpreterTool()
    assert interpret(tool, "print('ok')", ["json", "pydantic", "pydantic>=2"]) == "ok\n"
    assert interpret(tool, "print('ok')", ["json,pydantic", ""]) == "ok\n"
    for missing in ("no-such-package-for-cordon", "pydantic>=999"):
        text = interpret(tool, "print('ran')", [missing])
        assert (
            text.startswith(FAILED)
            and missing in text
            and "no network" in text
            and "ran" not in text
        )


@pytest.mark.parametrize(
    "name",
    [
        "--index-url=http://x",
        "-r/etc/passwd",
        "x; touch /tmp/x",
        "../x",
        "git+https://x",
        "a b",
        "./x",
    ],
)
def test_library_names_are_names(work, name):
    text = interpret(CordonCodeInterpreterTool(net_allow=["example.com"]), "print('ran')", [name])
    assert text.startswith(FAILED) and "not the name of a package" in text and "ran" not in text


def test_library_is_installed_inside_only(work, package_index):
    tool = CordonCodeInterpreterTool(net_allow=[package_index.host], envs=package_index.env)
    code = "import cordon_test_package; print(cordon_test_package.WORD)"
    assert interpret(tool, code, ["cordon-test-package"]) == "installed inside\n"
    assert package_index.requests
    with pytest.raises(ImportError):
        __import__("cordon_test_package")
    assert "ModuleNotFoundError" in interpret(tool, code)  # the sandbox of that call is gone
    assert interpret(tool, "", ["cordon-missing"]) == "No code provided to execute."
    assert "failed" in interpret(tool, "print(1)", ["cordon-missing"])


# --- exec -----------------------------------------------------------------------------------------------


def test_exec(work):
    tool = CordonExecTool()
    result = tool.run(command="echo out; echo err >&2; exit 3")
    assert result == {"exit_code": 3, "stdout": "out\n", "stderr": "err\n", "error": None}
    assert tool.run(command="pwd", cwd="/usr")["stdout"] == "/usr\n"
    assert tool.run(command="echo $A", envs={"A": "1"})["stdout"] == "1\n"
    assert tool.run(command="true", cwd="/no/such/place")["error"]


def test_cut_output_says_so(work):
    code = "print('x' * 5000)"
    assert "output cut" in interpret(
        CordonCodeInterpreterTool(settings={"max_output_bytes": 1000}), code
    )
    result = CordonExecTool(settings={"max_output_bytes": 1000}).run(command=f'python3 -c "{code}"')
    assert (result["exit_code"], len(result["stdout"])) == (0, 1000) and "output cut" in result[
        "error"
    ]
    result = CordonPythonTool(settings={"max_output_bytes": 1000}).run(code=code)
    assert result["error"] is None and "output cut" in result["text"]


def test_exec_timeout(work):
    result = CordonExecTool().run(command="echo begun; sleep 60", timeout=1)
    assert (
        result["exit_code"] == 124 and result["stdout"] == "begun\n" and "time" in result["error"]
    )


def test_exec_hostile(hostile, everything, work):
    outside = subprocess.run(hostile.shell, shell=True, capture_output=True, text=True)
    assert hostile.done(outside.stdout) == everything
    assert hostile.done(CordonExecTool().run(command=hostile.shell)["stdout"]) == set()


def test_usage_limit(work):
    tool = CordonExecTool(max_usage_count=1)
    assert tool.run(command="true")["exit_code"] == 0
    assert "usage limit" in str(tool.run(command="true"))


# --- python ------------------------------------------------------------------------------------------------


def test_python(work):
    tool = CordonPythonTool()
    result = tool.run(code="import sys; print('a'); print('b'); print('e', file=sys.stderr)")
    assert (result["stdout"], result["stderr"], result["error"]) == (["a\n", "b\n"], ["e\n"], None)
    error = tool.run(code="print('x')\n{}['key']")["error"]
    assert (error["name"], error["value"]) == ("KeyError", "'key'") and "Traceback" in error[
        "traceback"
    ]
    assert tool.run(code="echo $((6*7))", language="bash")["stdout"] == ["42\n"]
    assert tool.run(code="import os; print(os.environ['A'])", envs={"A": "1"})["stdout"] == ["1\n"]
    assert tool.run(code="import time; time.sleep(60)", timeout=1)["error"]["name"] == "timeout"


# --- files -----------------------------------------------------------------------------------------------------


@pytest.fixture
def files(work):
    tool = CordonFileTool(persistent=True)
    yield tool
    tool.close()


def test_files(files):
    assert files.run(action="write", path="a/b/c.txt", content="héllo") == {
        "status": "written",
        "path": "a/b/c.txt",
        "bytes": 6,
    }
    assert files.run(action="read", path="a/b/c.txt") == {
        "path": "a/b/c.txt",
        "encoding": "utf-8",
        "content": "héllo",
    }
    appended = files.run(action="append", path="a/b/c.txt", content="!")
    assert (appended["appended_bytes"], appended["total_bytes"]) == (1, 7)
    raw = base64.b64encode(b"\xff\x00").decode()
    assert files.run(action="write", path="bin", content=raw, binary=True)["bytes"] == 2
    assert files.run(action="read", path="bin", binary=True)["content"] == raw
    assert files.run(action="read", path="bin") == {
        "path": "bin",
        "encoding": "base64",
        "content": raw,
        "note": "File was not valid utf-8; returned as base64.",
    }
    names = {entry["name"] for entry in files.run(action="list", path=".")["entries"]}
    assert names == {"a", "bin"}
    assert len(files.run(action="list", path=".", depth=3)["entries"]) == 4
    assert files.run(action="mkdir", path="d/e")["created"] is True
    assert files.run(action="mkdir", path="d/e")["created"] is False
    info = files.run(action="info", path="bin")
    assert (info["type"], info["size"]) == ("file", 2) and info["modified_time"].endswith("+00:00")
    assert files.run(action="exists", path="a")["exists"] is True
    assert files.run(action="delete", path="a") == {"status": "deleted", "path": "a"}
    assert files.run(action="exists", path="a")["exists"] is False
    assert "FileNotFoundError" in files.run(action="read", path="a/b/c.txt")["error"]
    assert "IsADirectoryError" in files.run(action="read", path="d")["error"]
    assert "error" in files.run(action="write", path="x", content="no base64!", binary=True)
    with pytest.raises(ValueError, match="append"):
        files.run(action="append", path="x")


def test_files_stay_inside(work, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    tool = CordonFileTool(persistent=True, workdir=str(work / "w"))
    shell = CordonExecTool(workdir=str(work / "w"))
    shell.run(command=f"ln -s {secret} link; ln -s {tmp_path} up; mkfifo fifo")
    for path in (str(secret), "link", "up/secret"):
        assert "error" in tool.run(action="read", path=path)
    for path in (str(secret), "link", "up/secret", "up/new"):
        tool.run(action="write", path=path, content="changed")
        tool.run(action="delete", path="up/secret")
    assert secret.read_text() == "secret" and not (tmp_path / "new").exists()
    assert "error" in tool.run(action="read", path="fifo")  # and does not wait for a writer
    tool.close()


# --- the life of the sandbox ----------------------------------------------------------------------------------------


def test_fresh_each_time(work):
    tool = CordonExecTool()
    tool.run(command="echo x > /tmp/kept; echo y > here")
    assert tool.run(command="ls -A; cat /tmp/kept")["stdout"] == ""


def test_persistent(work):
    tool = CordonExecTool(persistent=True)
    tool.run(command="echo x > /tmp/kept; echo y > here")
    assert tool.run(command="cat /tmp/kept here")["stdout"] == "x\ny\n"
    kept = tool._kept
    tool.close()
    tool.close()
    assert kept.closed
    assert tool.run(command="cat /tmp/kept")["exit_code"] != 0
    tool.close()


def test_attach(work):
    with pycordon.Sandbox(workdir=True) as sandbox:
        sandbox.start()
        one, other = CordonExecTool(sandbox_id=sandbox.id), CordonFileTool(sandbox_id=sandbox.id)
        one.run(command="echo shared > /tmp/note")
        assert other.run(action="read", path="/tmp/note")["content"] == "shared\n"
        one.close()
        assert sandbox.run("cat /tmp/note").stdout == "shared\n"  # the tools do not end it
    with pytest.raises(pycordon.CordonError):
        one.run(command="true")


def test_persistent_sandbox_ends_with_the_process(work):
    code = (
        "from pycordon.adapters.crewai import CordonExecTool\n"
        "tool = CordonExecTool(persistent=True)\n"
        "tool.run(command='true')\n"
        "print(tool._kept.id)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with pytest.raises(pycordon.CordonError):
        pycordon.Sandbox.attach(done.stdout.split()[-1])


def test_restored_from_a_checkpoint(work):
    from crewai.tools.base_tool import _resolve_tool_dict

    tool = CordonExecTool(fs_read=["/usr/share"], max_memory_mb=99)
    again = _resolve_tool_dict(tool.model_dump(mode="json"))
    assert type(again) is CordonExecTool and again.max_memory_mb == 99


def test_example(run_example, work):
    """The number is nowhere in the program: only the sandbox can have printed it."""
    output = run_example("crewai_agent.py", cwd=work)
    assert "832040 \n---" in output and "No such file" in output, output
