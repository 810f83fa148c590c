# SPDX-License-Identifier: Apache-2.0
"""npm's packages for the tests of this directory."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent


class Node:
    """Programs of npm's packages, and of this directory with these packages."""

    cordon = str(pathlib.Path(sys.executable).parent / "cordon")

    def __init__(self, directory):
        self.packages = pathlib.Path(os.environ["PACKAGES"]) / "node_modules"
        self.directory = directory
        # import looks for packages beside the file.
        (directory / "node_modules").symlink_to(self.packages)

    def path(self, name):
        """A program of a package: `server-memory/dist/index.js`."""
        return str(self.packages / "@modelcontextprotocol" / name)

    def run(self, script, *words, cwd=None, timeout=240):
        if "/" not in script:
            script = shutil.copy(HERE / script, self.directory)
        return subprocess.run(["node", script, *map(str, words)], cwd=cwd, timeout=timeout,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)  # fmt: skip


@pytest.fixture(scope="session")
def node(tmp_path_factory):
    return Node(tmp_path_factory.mktemp("node"))
