# SPDX-License-Identifier: Apache-2.0
"""cordon new: a whole project or none. What the projects do is tested with their frameworks, in
tests/adapters."""

import ast
import json
import os
import re
import stat

import pytest

FRAMEWORKS = ["crewai", "autogen", "openai-agents", "langchain"]
FILES = {
    ".gitignore", "README.md", "agent.py", "calculator.py", "pytest.ini", "requirements.txt",
    "scripted.py", "tests/conftest.py", "tests/test_agent.py", "tests/test_calculator.py",
}


def new(me, *words, **kw):
    done = me.outside([me.cordon, "new", *words], **kw)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def tree(path):
    return {str(p.relative_to(path)) for p in path.rglob("*") if not p.is_dir()}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_project(me, framework):
    project = me.work / "my-agent.2"
    status, out, err = new(me, framework, project)
    assert (status, err) == (0, "") and str(project) in out
    assert tree(project) == FILES
    for path in project.rglob("*"):
        found = path.lstat()
        assert (found.st_uid, found.st_gid) == (me.uid, me.gid)
        assert stat.S_IMODE(found.st_mode) == (0o755 if path.is_dir() else 0o644)
        if path.is_dir():
            continue
        text = path.read_text()
        assert not re.search("@[A-Z]+@", text), path
        if path.suffix == ".py":
            ast.parse(text)
    assert (project / "README.md").read_text().startswith("# my-agent.2\n")
    assert (project / "agent.py").read_text().startswith('"""my-agent.2: ')
    pins = (project / "requirements.txt").read_text().split()
    assert all(re.fullmatch(r"[a-z-]+(\[[a-z]+\])?==[0-9.]+", pin) for pin in pins)
    version = me.outside([me.cordon, "--version"]).stdout.decode().split()[1]
    assert f"pycordon=={version}" in pins


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_nothing_of_a_model_is_evaluated_here(me, framework):
    """No call of eval, exec, compile or a shell in any file; the calculator's is inside a string."""
    assert new(me, framework, "project")[0] == 0
    for path in (me.work / "project").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node, "id", getattr(node, "attr", ""))
            assert name not in ("eval", "exec", "compile", "system", "subprocess", "__import__"), path
    assert "eval(" in (me.work / "project" / "calculator.py").read_text()


def test_json(me):
    status, out, _ = new(me, "--json", "langchain", "there")
    said = json.loads(out)
    assert status == 0 and set(said.pop("files")) == FILES
    assert said == {"framework": "langchain", "name": "there", "dir": "there"}


def test_list(me):
    assert [line.split()[0] for line in new(me, "--list")[1].splitlines()] == FRAMEWORKS
    assert [item["name"] for item in json.loads(new(me, "--list", "--json")[1])] == FRAMEWORKS


@pytest.mark.parametrize("words, message", [
    (["crewia", "x"], "there is no starter project for 'crewia' (did you mean 'crewai'?)"),
    (["rails", "x"], "there is no starter project for 'rails' ('cordon new --list' lists them)"),
    (["common", "x"], "there is no starter project for 'common'"),
    (["crewai"], "'new' needs a framework and a directory"),
    (["crewai", "x", "y"], "'new' needs a framework and a directory"),
    (["--list", "x"], "'new --list' takes no arguments"),
    (["crewai", "no/such/x"], "its parent directory does not exist"),
    (["crewai", "a b"], "'a b' cannot be the name of a project"),
    (["crewai", 'x"""'], "cannot be the name of a project"),
    (["crewai", ".hidden"], "cannot be the name of a project"),
    (["crewai", "/"], "cannot be the name of a project"),
    (["crewai", ""], "cannot use ''"),
])
def test_wrong(me, words, message):
    status, out, err = new(me, *words)
    assert (status, out) == (125, "") and message in err
    assert list(me.work.iterdir()) == []


def test_an_empty_directory_will_do(me):
    for name, words in [("one", ["one"]), ("two", ["./two/"]), ("three", ["."])]:
        path = me.mkdir(f"work/{name}")
        status, _, err = new(me, "autogen", *words, cwd=path if words == ["."] else me.work)
        assert (status, err) == (0, "")
        assert tree(path) == FILES and (path / "README.md").read_text().startswith(f"# {name}\n")


def test_what_is_there_stays(me):
    project = me.mkdir("work/project")
    me.write(project / "mine", "kept")
    status, _, err = new(me, "crewai", "project")
    assert status == 125 and "'project' is not empty" in err
    assert tree(project) == {"mine"} and (project / "mine").read_text() == "kept"
    me.write(me.work / "file", "kept")
    status, _, err = new(me, "crewai", "file")
    assert status == 125 and "something else has that name" in err
    assert (me.work / "file").read_text() == "kept"


def test_a_link_that_leads_nowhere(me):
    os.symlink("nowhere", me.work / "link")
    status, _, err = new(me, "crewai", "link")
    assert status == 125 and "cannot make 'link'" in err
    assert not (me.work / "nowhere").exists()


@pytest.mark.parametrize("is_there", [False, True])
def test_no_half_project(me, is_there):
    """The third file or so is too large for the caller's limit: everything goes again."""
    if is_there:
        me.mkdir("work/project")
    command = f"ulimit -f 1; exec {me.cordon} new crewai project"
    done = me.outside(["bash", "-c", command])
    assert done.returncode == 125 and b"cannot write 'project/" in done.stderr
    assert [p.name for p in me.work.rglob("*")] == (["project"] if is_there else [])
