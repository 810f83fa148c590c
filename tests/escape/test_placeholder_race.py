# SPDX-License-Identifier: Apache-2.0
"""A run that root starts in another user's directory: who owns the directory can exchange any name in it at
any moment. What root does to its placeholders there is done to nothing else."""

import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile

import pytest

from conftest import ceiling

ATTACKER = 50077
#: Exchanges a link with what has the name, as soon as it has it; for a directory, with one that looks like ours.
SPINNER = """
import ctypes, os, sys
place, name, target, kind = sys.argv[1:]
libc = ctypes.CDLL(None)
link, name = os.fsencode(os.path.join(place, "link")), os.fsencode(os.path.join(place, name))
print("ready", flush=True)
while True:
    if kind == "made":
        if not os.path.islink(link):
            os.path.lexists(link) and (os.unlink(link) if not os.path.isdir(link) else os.rmdir(link))
            os.symlink(target, link)
        libc.renameat2(-100, link, -100, name, 2)
    else:
        # A directory with something in it is not removed; then the link is there.
        for path in link, name:
            if os.path.islink(path):
                os.unlink(path)
        full = name + b".full"
        os.path.isdir(full) or (os.mkdir(full), os.chmod(full, 0o1777), open(full + b"/x", "w").close())
        os.path.lexists(link) or os.symlink(target, link)
        if libc.renameat2(-100, full, -100, name, 2) == 0:
            for _ in range(200):
                libc.renameat2(-100, link, -100, name, 2)
        for path in link, name, full:
            if os.path.islink(path):
                os.unlink(path)
            elif os.path.isdir(path):
                os.path.exists(path + b"/x") and os.unlink(path + b"/x")
                try: os.rmdir(path)
                except OSError: pass
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can touch what is somebody else's")
@pytest.mark.parametrize("name,kind", [("opencode.json", "made"), (".zed", "removed")])
def test_no_mode_is_changed_by_a_name(cordon_path, name, kind):
    base = pathlib.Path(tempfile.mkdtemp(prefix="cordon-race-", dir="/var/tmp"))
    base.chmod(0o755)
    secret, place = base / "secret", base / "place"
    secret.touch(mode=0o600)
    place.mkdir()
    os.chown(place, ATTACKER, ATTACKER)
    spinner = subprocess.Popen(
        [sys.executable, "-I", "-c", SPINNER, str(place), name, str(secret), kind],
        stdout=subprocess.PIPE, user=ATTACKER, group=ATTACKER, extra_groups=[], cwd="/",
    )  # fmt: skip
    try:
        assert spinner.stdout.readline() == b"ready\n"
        for _ in range(60):
            # It may well fail: names that come and go are an error.
            subprocess.run([cordon_path, "run", "-q", "-w", place, "-C", "/", "--", "true"], stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=ceiling(60))  # fmt: skip
            assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        assert spinner.poll() is None
    finally:
        spinner.kill()
        spinner.wait()
        shutil.rmtree(base)
