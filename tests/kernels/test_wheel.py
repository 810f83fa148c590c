# SPDX-License-Identifier: Apache-2.0
"""The wheel of the Python package, in a guest: tools/test-kernels.sh puts it into CORDON_WHEELS."""

import os
import pathlib
import subprocess
import sys

WHEELS = pathlib.Path(os.environ.get("CORDON_WHEELS", "/nonexistent"))

SCRIPT = """
import os, pycordon
with pycordon.Sandbox(workdir=True, max_memory_mb=512) as sandbox:
    sandbox.files.write("data.csv", "1\\n2\\n3\\n")
    result = sandbox.run_code("print(sum(map(int, open('data.csv'))))", timeout=100)
    assert result.ok, result.explain()
    print(result.stdout.strip(), os.uname().machine)
    result = sandbox.run_code("open('/etc/shadow-of-nothing', 'w')", timeout=100)
    assert not result.ok
"""


def test_sandbox_from_the_wheel(tmp_path):
    (wheel,) = WHEELS.glob("pycordon-*.whl")
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-cache-dir"]
    subprocess.run([*pip, "--target", site, wheel], check=True)
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"6 {os.uname().machine}\n"
    command = subprocess.run([site / "pycordon/bin/cordon", "run", "--", "uname", "-m"], capture_output=True, text=True)
    assert command.stdout == f"{os.uname().machine}\n", command.stderr
