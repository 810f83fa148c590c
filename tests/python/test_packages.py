# SPDX-License-Identifier: Apache-2.0
"""Sandbox(packages=...): installed once, seen by every run."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import pycordon

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from packageslib import Index, wheel  # noqa: E402


@pytest.fixture
def index(place, monkeypatch):
    made = Index()
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


def cache():
    return pathlib.Path(os.environ["XDG_CACHE_HOME"]) / "cordon/packages"


def test_runs_see_them(index):
    index.add(wheel("one", files={"one.py": "def main(): print('tool runs')\n"}, scripts={"one-tool": "one:main"}))
    with pycordon.Sandbox(packages=["one==1.0"]) as box:
        assert box.run_code("import one; one.main()").stdout == "tool runs\n"
        assert box.run(["one-tool"]).stdout == "tool runs\n"
        assert box.run("one-tool").stdout == "tool runs\n"
        assert box.run_code("import os; os.system('one-tool')").stdout == "tool runs\n"
    asked = len(index.asked)
    assert pycordon.run(["one-tool"], packages=["One==1.0"]).stdout == "tool runs\n"
    assert len(index.asked) == asked


def test_variables_of_the_sandbox_come_after(index):
    index.add(wheel("one"))
    with pycordon.Sandbox(packages=["one"], env={"PYTHONPATH": "/mine"}) as box:
        path = box.run_code("import os; print(os.environ['PYTHONPATH'])").stdout.strip()
    assert path.startswith(str(cache().resolve())) and path.endswith(":/mine")


def test_errors(index):
    with pytest.raises(pycordon.CordonError, match="No matching distribution found for nosuch"):
        pycordon.Sandbox(packages=["nosuch"])
    with pytest.raises(pycordon.UsageError, match="a list is needed"):
        pycordon.Sandbox(packages="one")
    with pytest.raises(pycordon.CordonError, match="cannot be installed"):
        pycordon.Sandbox(packages=["./one"])
    assert not list(cache().glob("pip-*"))


def test_a_requirements_file(index, place):
    digest = index.add(wheel("one"))
    file = place / "requirements.txt"
    file.write_text(f"one==1.0 --hash=sha256:{digest}\n")
    with pycordon.Sandbox(packages=[str(file)]) as box:
        assert box.run_code("import one; print(one.VERSION)").stdout == "1.0\n"
    file.write_text(f"one==1.0 --hash=sha256:{digest[::-1]}\n")
    with pytest.raises(pycordon.CordonError):
        pycordon.Sandbox(packages=[str(file)])


def test_no_run_can_change_them(index):
    index.add(wheel("one"))
    code = "import one\ntry: open(one.__file__, 'w'); print('did')\nexcept OSError: print('refused')"
    with pycordon.Sandbox(packages=["one"], fs_write=[os.environ["XDG_CACHE_HOME"]], isolation="namespaces") as box:
        assert box.run_code(code).stdout == "refused\n"


def test_they_are_in_use_as_long_as_the_sandbox(index):
    index.add(wheel("one"))
    cordon = [sys.executable, "-m", "pycordon"]
    box = pycordon.Sandbox(packages=["one"])
    listed = json.loads(subprocess.check_output([*cordon, "cache", "list", "--json"]))
    assert [layer["in_use"] for layer in listed] == [True]
    gc = subprocess.check_output([*cordon, "cache", "gc", "--older-than", "0s"])
    assert gc == b"nothing to remove\n"
    box.close()
    del box
    gc = subprocess.check_output([*cordon, "cache", "gc", "--older-than", "0s"])
    assert gc.startswith(b"removed ")


def test_a_session(index):
    index.add(wheel("one", files={"one.py": "def main(): print('tool runs')\n"}, scripts={"one-tool": "one:main"}))
    with pycordon.Session(packages=["one"]) as session:
        for command in (["one-tool"], "one-tool", ["python3", "-c", "import one; one.main()"]):
            assert session.exec(command).stdout == "tool runs\n", command


def test_attach(index):
    index.add(wheel("one", files={"one.py": "def main(): print('tool runs')\n"}, scripts={"one-tool": "one:main"}))
    with pycordon.Sandbox(packages=["one"], keep=True) as box:
        other = pycordon.Sandbox.attach(box.id)
        assert other.run(["one-tool"]).stdout == "tool runs\n"
        box.destroy()


def test_too_large(index):
    index.add(wheel("bomb", files={"bomb.py": "", "zeros.bin": bytes(200 << 20)}))
    launcher = pycordon._native.launcher()
    with pytest.raises(pycordon._cordon.Error, match="cannot install"):
        launcher.packages(["bomb"], [], env=os.environ, python=sys.executable, max_bytes=32 << 20)
    assert not list(cache().glob("pip-*")) and not list(cache().glob(".new-*"))


def test_lines_and_stopping(index):
    index.add(wheel("one"))
    launcher, lines = pycordon._native.launcher(), []
    launcher.packages(["one"], [], env=os.environ, python=sys.executable, line=lines.append)
    assert any("Successfully installed" in line for line in lines)

    def stop(line):
        raise KeyError("stop")

    index.add(wheel("two"))
    with pytest.raises(KeyError):
        launcher.packages(["two"], [], env=os.environ, python=sys.executable, line=stop)
    assert len(list(cache().glob("pip-*"))) == 1 and not list(cache().glob(".new-*"))
