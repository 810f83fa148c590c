# SPDX-License-Identifier: Apache-2.0
"""Places that are everybody's: who comes first with a name there keeps no run of others from starting."""

import os
import pathlib
import secrets
import shutil
import subprocess
import tempfile

import pytest

from conftest import ceiling

#: Made by another user: it leads to a directory of ours, to one in which the run begins, or nowhere.
KINDS = ["link to where it starts", "link to a file's place", "link to nothing", "directory", "file"]


@pytest.fixture(params=["/dev/shm/pycordon-{}", "/tmp/cordon-sessions-{}"])
def name(request):
    """A place for runs of a user that nobody else has here."""
    uid = 50000 + secrets.randbelow(9000)
    path = pathlib.Path(request.param.format(uid))
    assert not os.path.lexists(path)
    yield uid, path
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    runs = pathlib.Path(f"/tmp/cordon-sessions-{uid}")  # made by its first run
    if runs.is_dir():
        runs.rmdir()


@pytest.mark.once
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_somebody_else_made(me, level, name, kind, request):
    uid, path = name
    place = pathlib.Path(tempfile.mkdtemp(prefix="cordon-squatters-", dir="/var/tmp"))
    request.addfinalizer(lambda: shutil.rmtree(place))
    (place / "sub").mkdir()
    (place / "sub" / "data").write_text("seen")
    for each in place, place / "sub":
        os.chown(each, uid, uid)
    if kind == "directory":
        path.mkdir(mode=0o777)
    elif kind == "file":
        path.touch()
    else:
        path.symlink_to({"link to where it starts": place, "link to a file's place": place / "sub"}.get(kind, "/no/such"))
    if kind != "link to nothing":
        os.chown(path, 50, 50, follow_symlinks=False)
    run = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", me.cordon, "run", "--isolation", level]
    env = {"PATH": "/usr/bin:/bin", "HOME": "/no/such"}
    done = subprocess.run([*map(str, run), "-w", ".", "--", "cat", "sub/data"], cwd=place, env=env, capture_output=True, timeout=ceiling(60))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"seen", b""), done


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has what others want")
def test_root_keeps_no_packages_where_somebody_else_can_exchange_them(cordon_path):
    place = pathlib.Path(tempfile.mkdtemp(prefix="cordon-squatters-", dir="/var/tmp"))
    try:
        place.chmod(0o755)
        env = {"PATH": "/usr/bin:/bin", "HOME": str(place), "XDG_CACHE_HOME": str(place / "theirs" / "cache")}
        (place / "theirs").mkdir(mode=0o755)
        for owner, kept in (0, True), (50, False):
            os.chown(place / "theirs", owner, owner)
            done = subprocess.run([cordon_path, "run", "--with", "no-such-package-anywhere==1", "--", "true"], env=env, capture_output=True, timeout=ceiling(120))
            assert done.returncode == 125 and (b"others can write" in done.stderr) != kept, done
    finally:
        shutil.rmtree(place)
