# SPDX-License-Identifier: Apache-2.0
"""No command in a sandbox sees who else runs, or changes what 'cordon ps', 'kill' and 'wait' go by. The
control is the same attempt outside."""

import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from conftest import LEVELS, ceiling

# Lists the directory argv[1], and tries to read, change, remove and make what is in it.
TRY = r"""
import json, os, sys, time
place, told = sys.argv[1], {}
time.sleep(float(sys.argv[2]))
def attempt(name, what):
    try:
        told[name] = what()
    except OSError as error:
        told[name] = None
attempt("list", lambda: [n for n in os.listdir(place) if n.endswith(".run")] or None)
known = [place + "/" + n for n in told["list"] or sys.argv[3:]]
attempt("read", lambda: len(open(known[0]).read()))
attempt("write", lambda: os.close(os.open(known[0], os.O_WRONLY)) or 1)
attempt("make", lambda: os.close(os.open(place + "/forged.run", os.O_WRONLY | os.O_CREAT, 0o600)) or 1)
attempt("remove", lambda: os.unlink(place + "/forged.run") or 1)
attempt("rename", lambda: os.rename(place, place + ".away") or os.rename(place + ".away", place) or 1)
print(json.dumps({name: value for name, value in told.items() if value}))
"""


@pytest.fixture
def victim(me):
    """A run of the same user that lasts: where it is listed, and its file."""
    process = me.popen(me.argv([], ["sleep", "60"]))
    end, ids = time.monotonic() + ceiling(20), []
    while not ids and time.monotonic() < end:
        runs = json.loads(me.outside([me.cordon, "ps", "--json"]).stdout)
        ids = [run["id"] for run in runs if run.get("type") == "run" and run["pid"] == process.pid]
    first = pathlib.Path("/run/cordon-sessions" if me.uid == 0 else f"/run/user/{me.uid}/cordon-sessions")
    place = first if first.is_dir() else pathlib.Path(f"/tmp/cordon-sessions-{me.uid}")
    yield place, f"{ids[0]}.run"
    process.send_signal(signal.SIGTERM)
    process.wait(ceiling(20))


def test_a_run_does_not_see_others(me, victim):
    place, file = victim
    words = ["/usr/bin/python3", "-c", TRY, place, "0", file]
    told = json.loads(me.outside(words).stdout)
    assert file in told["list"] and {"read", "write", "make", "remove", "rename"} <= {*told}  # the control
    careless = {"namespaces": ["-w", place.parent], "landlock": ["-r", place.parent]}
    for level in filter(me.can, LEVELS):
        done = me.run(["-r", "/usr", *careless[level]], words, level)
        told = json.loads(done.stdout)
        # Landlock keeps no name secret in a directory that may be listed; an id is random and says nothing.
        assert done.returncode == 0 and {*told} <= ({"list"} if level == "landlock" else set()), (level, done)
        done = me.run(["-r", "/usr"], words, level)
        assert json.loads(done.stdout) == {}, (level, done)
        if level == "landlock":
            assert not {*json.loads(me.run(["-r", "/usr", "-r", place], words, level).stdout)} - {"list"}
            for grant in place, place.parent:
                done = me.run(["-r", "/usr", "-w", grant], words, level)
                assert done.returncode == 125 and b"out of a write grant" in done.stderr and not done.stdout, (grant, done)


@pytest.mark.once
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_not_even_the_first_run_of_its_user(me, request):
    """The directory is there before the plan that hides it, so that it does not appear in a grant later."""
    uid = 50000 + secrets.randbelow(9000)
    place, work = pathlib.Path(f"/tmp/cordon-sessions-{uid}"), pathlib.Path(tempfile.mkdtemp(prefix="cordon-reach-", dir="/var/tmp"))
    request.addfinalizer(lambda: (shutil.rmtree(place, ignore_errors=True), shutil.rmtree(work)))
    os.chown(work, uid, uid)
    run = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", me.cordon, "run", "-r", "/usr", "-r", "/tmp", "--"]
    done = subprocess.run([*map(str, run), "/usr/bin/python3", "-c", TRY, str(place), "0.8", "x.run"], cwd=work,
                          env={"PATH": "/usr/bin:/bin", "HOME": "/no/such"}, capture_output=True, timeout=ceiling(60))
    assert place.is_dir() and (done.returncode, done.stdout, done.stderr) == (0, b"{}\n", b""), done


#: Makes a run that says to last, and a session that says to be there.
FORGE = r"""
import fcntl, os, sys, time
place = sys.argv[1]
os.makedirs(place, 0o700, exist_ok=True)
run = os.open(place + "/deadbee0.run", os.O_RDWR | os.O_CREAT, 0o600)
os.write(run, b'{"started_ms":1,"command":["make"]}\n{"status":0}\n{"kind":"exited"}\n')
fcntl.lockf(run, fcntl.LOCK_EX, 1)
key = os.open(place + "/work.key", os.O_RDWR | os.O_CREAT, 0o600)
os.write(key, b"a" * 32)
fcntl.flock(key, fcntl.LOCK_EX)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def newcomer(request):
    """The words that run something as a user that nobody else is, with a directory in /run/user; and the user id."""
    uid = 50000 + secrets.randbelow(9000)
    work, runtime = pathlib.Path(tempfile.mkdtemp(prefix="cordon-reach-", dir="/var/tmp")), pathlib.Path(f"/run/user/{uid}")
    places = [runtime, pathlib.Path(f"/tmp/cordon-sessions-{uid}"), work]
    request.addfinalizer(lambda: [shutil.rmtree(place, ignore_errors=True) for place in places])
    runtime.mkdir(parents=True, mode=0o700)
    for each in work, runtime:
        os.chown(each, uid, uid)
    words = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "env", "-i", "-C", work, "PATH=/usr/bin:/bin", "HOME=/no/such"]
    return [*map(str, words)], uid


@pytest.mark.once
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_no_place_is_made_inside(me, newcomer):
    """Who may write to /tmp can make a place there, and say in it what it likes: nobody looks at it."""
    words, uid = newcomer
    if not me.can("namespaces"):
        pytest.skip("needs level namespaces")
    call = lambda *args: subprocess.run([*words, str(me.cordon), *args], capture_output=True, timeout=ceiling(60))  # noqa: E731
    forge = ["/usr/bin/python3", "-c", FORGE]
    run = [*words, str(me.cordon), "run", "-q", "--isolation", "namespaces", "-r", "/usr", "-w", "/tmp", "--", *forge, f"/tmp/cordon-sessions-{uid}"]
    with subprocess.Popen(run, stdout=subprocess.PIPE) as forger:
        try:
            assert forger.stdout.readline() == b"ready\n"
            assert b"deadbee0" not in call("ps").stdout and call("wait", "deadbee0").returncode == 125
            started = call("session", "start", "--name", "work")
            assert started.returncode == 0, started
            assert call("session", "stop", "work").returncode == 0
        finally:
            forger.terminate()
    place = f"/run/user/{uid}/cordon-sessions"  # the control: where it is looked at, and by who is not confined
    with subprocess.Popen([*words, *forge, place], stdout=subprocess.PIPE) as forger:
        try:
            assert forger.stdout.readline() == b"ready\n" and b"deadbee0" in call("ps").stdout
        finally:
            forger.terminate()
