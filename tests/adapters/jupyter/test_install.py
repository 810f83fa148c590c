# SPDX-License-Identifier: Apache-2.0
"""Writing kernelspecs."""

import json
import sys

import pytest
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

import pycordon
from pycordon.adapters import _jupyter_install as module


def spec_of(path):
    with open(f"{path}/kernel.json", encoding="utf-8") as file:
        return json.load(file)


def test_it_is_the_kernel_in_a_sandbox(tmp_path):
    path = module.install("mine", prefix=str(tmp_path), config={"max_memory_mb": 99, "fs_read": ["/usr/share"]})
    assert path == str(tmp_path / "share" / "jupyter" / "kernels" / "mine")
    spec, base = spec_of(path), KernelSpecManager().get_kernel_spec("python3")
    assert spec["argv"][0] == sys.executable and spec["argv"][1:] == base.argv[1:]
    assert spec["display_name"] == f"{base.display_name} in a sandbox" and spec["language"] == "python"
    assert spec["metadata"]["kernel_provisioner"] == {
        "provisioner_name": "cordon",
        "config": {"max_memory_mb": 99, "fs_read": ["/usr/share"]},
    }
    assert spec["metadata"]["supported_encryption"] == ["curve"]


def test_nothing_is_overwritten_unless_asked():
    path = module.install("mine", user=True, config={"max_memory_mb": 1})
    with pytest.raises(FileExistsError, match="'mine' already"):
        module.install("mine", user=True)
    with pytest.raises(FileExistsError, match="'python3' already"):
        module.install("python3", user=True)
    assert spec_of(path)["metadata"]["kernel_provisioner"]["config"] == {"max_memory_mb": 1}
    module.install("mine", user=True, replace=True, config={"max_memory_mb": 2})
    assert spec_of(path)["metadata"]["kernel_provisioner"]["config"] == {"max_memory_mb": 2}


@pytest.mark.parametrize("name", ["../up", "a/b", "", "a\nb", ".", "..", "-x"])
def test_names_that_are_none_are_refused(name, own_directories):
    kept = module.install("kept", user=True)
    with pytest.raises(pycordon.UsageError, match="is no name of a kernel"):
        module.install(name, user=True, replace=True)
    assert [str(path.parent) for path in own_directories.rglob("kernel.json")] == [kept]


@pytest.mark.parametrize(
    "config", [{"max_memory_mb": "x"}, {"no_such": 1}, {"workdir": 3}, {"policy": "/no/such/file"}]
)
def test_mistakes_are_told_before_anything_is_written(config, own_directories):
    with pytest.raises(pycordon.CordonError):
        module.install("mine", user=True, config=config)
    assert not list(own_directories.rglob("kernel.json"))


def test_an_unknown_base():
    with pytest.raises(NoSuchKernel):
        module.install("mine", user=True, kernel="no-such-kernel")


def test_the_command(capsys, own_directories):
    module.main(["install", "--name", "Mine", "--user", "--set", "max_procs=40", "--set", "workdir=."])
    path = own_directories / "data" / "kernels" / "mine"
    assert capsys.readouterr().out == f"the kernel is in {path}\n"
    assert spec_of(path)["metadata"]["kernel_provisioner"]["config"] == {
        "max_memory_mb": 1024,
        "max_procs": 40,
        "workdir": ".",
    }
    for arguments in (["--name", "mine", "--user"], ["--name", "x/y", "--user"], ["--set", "no_such=1", "--user"]):
        with pytest.raises(SystemExit) as caught:
            module.main(["install", *arguments])
        assert str(caught.value).startswith("python -m pycordon.adapters.jupyter: ")
    for arguments in ([], ["install", "--set", "x"], ["install", "--user", "--prefix", "/x"]):
        with pytest.raises(SystemExit) as caught:
            module.main(arguments)
        assert caught.value.code == 2
