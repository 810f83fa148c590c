# SPDX-License-Identifier: Apache-2.0
"""A sandbox sees nothing of the host but what its maker names, the current directory included."""

import asyncio
import os
import subprocess
import sys

import pytest

import pycordon

LOOK = 'import os, sys; here = sys.argv[1]; print(os.listdir(".")); print(open(here + "/.env").read())'


@pytest.fixture
def here(place):
    """The current directory, with a secret. The control: any program can read it."""
    path = str(place / "here")
    with open(os.path.join(path, ".env"), "w", encoding="utf-8") as file:
        file.write("KEY=canary")
    outside = subprocess.run([sys.executable, "-c", LOOK, path], capture_output=True, text=True, check=True)
    assert outside.stdout == "['.env']\nKEY=canary\n"
    return path


async def with_loop(argv):
    async with pycordon.AsyncSandbox() as box:
        return await box.run(argv)


def spawned(box, argv):
    done = box.spawn_popen(argv, stdout=-1, stderr=-1, text=True)
    out, err = done.communicate()
    return pycordon.Result("exited", done.returncode, stdout_bytes=out.encode(), stderr_bytes=err.encode())


PRESETS = ("agent", "python", "node", "build", "strict")
WAYS = {
    "run": lambda argv: pycordon.run(argv),
    "Sandbox": lambda argv: pycordon.Sandbox().run(argv),
    "SandboxConfig": lambda argv: pycordon.Sandbox(pycordon.SandboxConfig(), max_cpu_percent=None).run(argv),
    **{name: lambda argv, name=name: pycordon.Sandbox(name).run(argv) for name in PRESETS},
    "preset of a run": lambda argv: pycordon.Sandbox().run(argv, policy="agent"),
    "fresh": lambda argv: pycordon.Sandbox(persist=False).run(argv),
    "landlock": lambda argv: pycordon.Sandbox(isolation="landlock").run(argv),
    "AsyncSandbox": lambda argv: asyncio.run(with_loop(argv)),
    "run_code": lambda argv: pycordon.Sandbox().run_code(LOOK, args=argv[3:]),
    "popen": lambda argv: pycordon.Sandbox().popen(argv).wait(),
    "spawn_popen": lambda argv: spawned(pycordon.Sandbox(), argv),
    "files": lambda argv: pycordon.Sandbox().files.read(argv[3] + "/.env"),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_current_directory_is_not_shown(here, way):
    try:
        got = WAYS[way]([sys.executable, "-c", LOOK, here])
    except FileNotFoundError:
        assert way == "files"
        return
    assert "canary" not in got.text and ".env'" not in got.stdout
    if way != "popen":
        assert got.stdout.startswith("[") and "Error" in got.stderr, got.text


def test_commands_start_in_a_private_directory(here):
    for box in (pycordon.Sandbox(), pycordon.Sandbox(persist=False), pycordon.Sandbox(workdir=True, persist=False)):
        with box:
            got = box.run("pwd; touch made && ls")
            where, *names = got.stdout.split()
            assert where == box.workdir != here and "made" in names and ".env" not in names, got.text
            assert box.host_workdir is None
    assert os.listdir(here) == [".env"]


def test_what_is_named_is_shown(here):
    with pycordon.Sandbox(fs_read=["."]) as box:
        assert box.run(["cat", f"{here}/.env"]).stdout == "KEY=canary"
        assert not box.run(["touch", f"{here}/made"]).ok
    with pycordon.Sandbox(fs_read=["."], cwd=".") as box:
        assert box.run("cat .env").stdout == "KEY=canary" and box.workdir == here
    with pycordon.Sandbox(workdir=".") as box:
        assert box.run("cat .env; touch made").stdout == "KEY=canary" and box.workdir == here
    assert sorted(os.listdir(here)) == [".env", "made"]


def test_a_workspace_is_where_commands_start(here):
    with pycordon.Sandbox(fs_workspace=".") as box:
        assert box.run("pwd; cat .env; echo x > new").stdout == f"{here}\nKEY=canary"
        assert box.workdir == here
        box.workspace.discard()
    assert os.listdir(here) == [".env"]


def test_without_a_current_directory(place, monkeypatch):
    gone = place / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pycordon.Sandbox(fs_read=["/usr/share"]) as box:
        assert box.run("echo fine").stdout == "fine\n"
    for settings in ({"fs_read": ["data"]}, {"workdir": "."}, {"fs_workspace": "x"}):
        with pytest.raises(pycordon.PathError, match="current directory"):
            pycordon.Sandbox(**settings)


@pytest.mark.parametrize("preset", ["agent", "build"])
def test_a_preset_that_grants_the_current_directory_means_the_working_directory(here, place, preset):
    """However the run is started: `agent` lets it change that, and hides its secrets."""
    work = place / "work"
    work.mkdir()
    (work / ".env").write_text("KEY=mine")
    script = f"touch made; cat {here}/.env; cat .env; touch {here}/made"
    with pycordon.Sandbox(preset, workdir=work, keep=True) as box:
        for run in (
            lambda: box.run(script),
            lambda: pycordon.Sandbox.attach(box.id).run(script),
            lambda: spawned(box, ["/bin/sh", "-c", script]),
        ):
            got = run()
            assert (work / "made").exists() and "canary" not in got.stdout, got
            assert ("mine" in got.stdout) == (preset == "build"), got
            assert os.listdir(here) == [".env"]
            (work / "made").unlink()
        box.destroy()
