# SPDX-License-Identifier: Apache-2.0
"""Kernels for the tests, and what they say."""

import contextlib
import uuid

import nbclient
import nbformat.v4
import pytest
from jupyter_client import AsyncKernelManager

from pycordon.adapters._jupyter_install import install


@pytest.fixture(autouse=True)
def own_directories(tmp_path_factory, monkeypatch):
    """Kernelspecs and connection files lie in directories of the test's own."""
    base = tmp_path_factory.mktemp("jupyter")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(base / "data"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(base / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(base / "ipython"))
    return base


@pytest.fixture
def sandboxed(own_directories):
    """Installs the kernelspec "sandboxed" with these settings."""

    def make(**config):
        install("sandboxed", user=True, replace=True, config={"max_memory_mb": 512, **config})
        return "sandboxed"

    return make


@pytest.fixture
def execute(tmp_path):
    """Executes a notebook of these cells, and gives their outputs."""

    def run(kernel, *cells, path=tmp_path, **options):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        client = nbclient.NotebookClient(
            notebook, kernel_name=kernel, timeout=60, resources={"metadata": {"path": str(path)}}, **options
        )
        client.execute()
        return [cell.outputs for cell in notebook.cells]

    return run


class Kernel:
    """A kernel and its client."""

    def __init__(self, manager, client):
        self.manager = manager
        self.client = client

    async def run(self, code):
        """What code prints, and its error."""
        said = []

        def listen(message):
            content = message["content"]
            said.append(content.get("text") or content.get("data", {}).get("text/plain") or "")

        reply = await self.client.execute_interactive(code, output_hook=listen, timeout=60)
        return "".join(said), reply["content"].get("ename")


@pytest.fixture
def kernel(own_directories):
    """A kernel by its name, for as long as the context lasts. Its connection file is where a server has it."""
    runtime = own_directories / "runtime"
    runtime.mkdir(mode=0o700)

    @contextlib.asynccontextmanager
    async def start(name):
        file = runtime / f"kernel-{uuid.uuid4()}.json"
        manager = AsyncKernelManager(kernel_name=name, connection_file=str(file))
        await manager.start_kernel()
        client = manager.client()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=60)
            yield Kernel(manager, client)
        finally:
            client.stop_channels()
            if manager.has_kernel:
                await manager.shutdown_kernel(now=True)

    return start
