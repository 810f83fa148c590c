# SPDX-License-Identifier: Apache-2.0
"""A notebook whose kernel is a sandbox. Needs nbclient, ipykernel and pycordon.

    pip install 'pycordon[jupyter]' nbclient
    python jupyter_agent.py
"""

import os
import tempfile

import nbclient
from nbformat.v4 import new_code_cell, new_notebook

from pycordon.adapters.jupyter import install

CELLS = [
    "numbers = [0, 1]\nfor _ in range(40):\n    numbers.append(numbers[-1] + numbers[-2])",
    "numbers[30]",
    "print(open('/etc/shadow').read())",
]


def main() -> None:
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in CELLS])
    with tempfile.TemporaryDirectory() as prefix:
        # Once and for all: python -m pycordon.adapters.jupyter install --name sandboxed
        os.environ["JUPYTER_PATH"] = os.path.join(prefix, "share", "jupyter")
        install("sandboxed", prefix=prefix, config={"max_memory_mb": 1024})
        nbclient.NotebookClient(notebook, kernel_name="sandboxed", allow_errors=True).execute()
    for cell in notebook.cells:
        for output in cell.outputs:
            print(output.get("evalue") or output.data["text/plain"])


if __name__ == "__main__":
    main()
