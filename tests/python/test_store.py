# SPDX-License-Identifier: Apache-2.0
"""Private files between runs: how long they live, and what removes them."""

import fcntl
import gc
import os
import stat
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import pycordon
from pycordon import _store
from pylib import ceiling


def test_nothing_happens_before_the_first_use(sandboxes):
    box = pycordon.Sandbox(workdir="not/there/yet")
    assert sandboxes() == [] and not os.path.exists("not") and not box.closed
    box.run("true")
    assert len(sandboxes()) == 1 and os.path.isdir("not/there/yet")
    box.close()
    assert sandboxes() == [] and box.closed


def test_files_live_as_long_as_the_sandbox(box):
    box.run("echo 1 > /tmp/a; echo 2 > ~/b; echo 3 > c")
    assert box.run("cat /tmp/a ~/b c").stdout == "1\n2\n3\n"
    with pycordon.Sandbox() as other:
        assert other.run("cat /tmp/a ~/b").returncode != 0
    box.restart()
    assert box.run("cat /tmp/a ~/b c").returncode != 0


def test_fresh_for_each_run_without_persist(sandboxes):
    box = pycordon.Sandbox(persist=False)
    box.run("echo 1 > /tmp/a")
    assert box.run("cat /tmp/a").returncode != 0 and sandboxes() == []
    assert box.run_code("print(open(__file__).read())").stdout.startswith("print(open")
    assert sandboxes() == []
    with pytest.raises(pycordon.UsageError):
        box.id
    with pytest.raises(pycordon.UsageError):
        pycordon.Sandbox(persist=False, keep=True)


def test_modes(box, place):
    base = place / "state" / "cordon" / "sandboxes"
    assert stat.S_IMODE(os.stat(base / box.id).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(base).st_mode) == 0o700
    assert box.run(f"ls {base}").returncode != 0


def test_after_close():
    box = pycordon.Sandbox()
    box.run("true")
    box.close()
    box.close()
    for call in (
        lambda: box.run("true"), lambda: box.run_code("1"), lambda: box.popen("true"),
        lambda: box.files.read("x"), lambda: box.wrap(["true"]), lambda: box.id, box.start,
        lambda: box.expose(80),
    ):  # fmt: skip
        with pytest.raises(pycordon.ClosedError):
            call()


def test_the_id_of_a_kept_one_is_known_after_close():
    with pycordon.Sandbox(keep=True) as box:
        box.run("echo 1 > /tmp/a")
    with pycordon.Sandbox.attach(box.id) as second:
        assert second.run("cat /tmp/a").stdout == "1\n"
    pycordon.Sandbox.attach(second.id).destroy()


@pytest.mark.parametrize("settings", [{}, {"persist": False}, {"keep": True}], ids=str)
def test_close_ends_what_was_spawned(settings):
    box = pycordon.Sandbox(**settings)
    sleep = ["sh", "-c", "trap '' TERM; echo up; sleep 60"]
    with box.spawn_popen(sleep, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as popen:
        assert popen.stdout.readline() == b"up\n"
        box.close()
        assert popen.returncode not in (None, 0)
        assert b"private directory" not in popen.stderr.read()  # which was there until the end
    box.destroy()


def test_attach(box):
    box.run("echo 1 > /tmp/a; echo 2 > c")
    name = box.id
    other = pycordon.Sandbox.attach(name)
    assert other.id == box.id and other.workdir == box.workdir
    assert other.run("cat /tmp/a c; echo 3 > /tmp/b").stdout == "1\n2\n"
    other.close()
    assert box.run("cat /tmp/b").stdout == "3\n"  # closing the second leaves the first alone
    third = pycordon.Sandbox(id=box.id)
    assert third.run("cat /tmp/b").stdout == "3\n"
    box.close()
    assert third.closed
    with pytest.raises(pycordon.ClosedError):
        third.run("true")
    for unknown in (name, "s00000000", "../../etc", "", "s0"):
        with pytest.raises(pycordon.CordonError):
            pycordon.Sandbox.attach(unknown)


def test_attach_keeps_the_settings(host):
    with pycordon.Sandbox(limits_open_files=77, env={"A": "b"}, workdir=True) as box:
        box.run("echo mine > f")
        code = """
            import pycordon, sys
            box = pycordon.Sandbox.attach(sys.argv[1])
            print(box.run("ulimit -n; echo $A; cat f").stdout, end="")
        """
        assert host(code, box.id).stdout == "77\nb\nmine\n"
        assert box.run("cat f").ok


def test_keep_and_destroy(host, sandboxes):
    code = """
        import pycordon
        box = pycordon.Sandbox(keep=True)
        box.run("echo kept > /tmp/a")
        print(box.id)
        box.close()
    """
    name = host(code).stdout.strip()
    assert sandboxes() == [name]
    age(name)
    with pycordon.Sandbox():
        assert name in sandboxes()  # not swept
    box = pycordon.Sandbox.attach(name)
    assert box.run("cat /tmp/a").stdout == "kept\n"
    box.destroy()
    assert sandboxes() == []


def age(name):
    """Makes it look old enough to be swept."""
    path = os.path.join(_store.directory(), name)
    os.utime(path, (1, 1))


def test_removed_when_forgotten_and_at_exit(host, sandboxes):
    box = pycordon.Sandbox()
    box.run("true")
    assert len(sandboxes()) == 1
    del box
    gc.collect()
    assert sandboxes() == []
    host("import pycordon; box = pycordon.Sandbox(); box.run('true')")
    assert sandboxes() == []


def test_stale_ones_are_swept_and_used_ones_are_not(host, sandboxes):
    code = """
        import pycordon, os, signal
        box = pycordon.Sandbox()
        box.run("mkdir -p /tmp/d/e; chmod 0 /tmp/d")
        print(box.id, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    dead = host(code, check=False).stdout.strip()
    used = pycordon.Sandbox()
    name = used.id
    assert sandboxes() == sorted([dead, name])  # too young
    age(dead)
    age(name)
    with pycordon.Sandbox() as third:
        third.start()
        assert sandboxes() == sorted([name, third.id])
    assert used.run("true").ok
    used.close()


def test_hostile_trees_are_removed(tmp_path, sandboxes):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "f").write_text("x")
    box = pycordon.Sandbox(workdir=True)
    code = f"""
import os
os.symlink({str(victim)!r}, "l"); os.symlink("/", "/tmp/root"); os.mkfifo("/tmp/p")
os.mkdir("closed"); open("closed/x", "w").close(); os.chmod("closed", 0)
for i in range(2000):
    os.mkdir("d"); os.chdir("d")
os.chmod(os.environ["HOME"], 0); os.chmod("/tmp", 0)
"""
    assert box.run_code(code, timeout=60).ok
    assert box.run_code("print(1)", cwd="/usr").stdout == "1\n"
    box.close()
    assert sandboxes() == [] and (victim / "f").read_text() == "x"


def test_first_use_by_many_threads_makes_one(sandboxes):
    box = pycordon.Sandbox(workdir=True)
    start = threading.Barrier(20)
    got, failures = [], []

    def work(i):
        try:
            start.wait()
            got.append((box.id, box.run(f"echo {i} >> /tmp/all; echo {i}").stdout))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len({name for name, _ in got}) == 1 and len(sandboxes()) == 1
    assert sorted(int(out) for _, out in got) == list(range(20))
    assert len(box.run("cat /tmp/all").stdout.split()) == 20
    box.close()


def test_no_thread_sees_a_private_directory_that_is_not_complete(monkeypatch):
    furnish = pycordon._view.PrivateDir._furnish
    begun, complete = threading.Event(), threading.Event()

    def slowly(self, path):
        begun.set()
        time.sleep(0.5)
        furnish(self, path)
        complete.set()

    monkeypatch.setattr(pycordon._view.PrivateDir, "_furnish", slowly)
    box = pycordon.Sandbox()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(box.start)
        assert begun.wait(30) and box.run("true").ok and complete.is_set()
        first.result()
    box.close()


def test_close_while_others_run(sandboxes):
    box = pycordon.Sandbox()
    caught = []

    def work():
        try:
            box.run("sleep 60")
        except pycordon.ClosedError as error:
            caught.append(error)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    while len(box._engine.runs.live) < 5:
        time.sleep(0.01)
    box.close()
    for thread in threads:
        thread.join()
    assert len(caught) == 5 and sandboxes() == []


def test_fork_in_the_host(host):
    code = """
        import pycordon, os, sys
        box = pycordon.Sandbox(workdir=True)
        box.run("echo parent > f")
        pid = os.fork()
        if pid == 0:
            ok = box.run("cat f; echo child > g").stdout == "parent\\n"
            box.close()
            del box
            os._exit(0 if ok else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert box.run("cat f g").stdout == "parent\\nchild\\n"
        pid = os.fork()
        if pid == 0:
            sys.exit(0)  # with the interpreter's own end, in the child
        assert os.waitpid(pid, 0)[1] == 0
        print(box.run("cat f").stdout, end="")
        box.close()
    """
    assert host(code).stdout == "parent\n"


def test_a_state_directory_behind_a_link(monkeypatch, tmp_path):
    """As where ~/.local lies on another disk."""
    (tmp_path / "disk").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "link"))
    with pycordon.Sandbox() as box:
        assert box.run("echo x > ~/f").ok and box.run("cat ~/f").stdout == "x\n"
        assert os.listdir(tmp_path / "disk" / "cordon" / "sandboxes")


def test_a_state_directory_of_others_is_not_used(monkeypatch, tmp_path):
    shared = tmp_path / "shared"
    (shared / "cordon" / "sandboxes").mkdir(parents=True)
    os.chmod(shared / "cordon" / "sandboxes", 0o777)
    monkeypatch.setenv("XDG_STATE_HOME", str(shared))
    monkeypatch.setattr(_store.tempfile, "gettempdir", lambda: str(tmp_path))
    with pycordon.Sandbox() as box:
        box.run("true")
        assert os.listdir(shared / "cordon" / "sandboxes") == []


def test_sandboxes_in_the_temporary_directory_are_not_shown(monkeypatch, tmp_path):
    """Without a state directory they lie where a policy may grant everything; one sandbox would see
    the other's files."""
    (tmp_path / "state").write_text("no directory")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(_store.tempfile, "gettempdir", lambda: str(tmp_path))
    with pycordon.Sandbox() as other, pycordon.Sandbox(fs_write=[tmp_path]) as box:
        assert other.run("echo SECRET > /tmp/key").ok
        (key,) = tmp_path.glob("cordon-*/sandboxes/*/tmp/key")  # there to be found, outside
        assert key.read_text() == "SECRET\n"
        for use in (lambda: box.run("true"), lambda: box.files.list("/"), lambda: box.wrap(["ls"])):
            with pytest.raises(pycordon.StateError, match="which is granted.*XDG_STATE_HOME"):
                use()


@pytest.mark.parametrize("isolation", ["namespaces", "landlock"])
def test_nor_by_a_workspace(monkeypatch, tmp_path, isolation):
    """It is shown without being a read or write grant."""
    base = tmp_path / "base"
    (base / "tmp").mkdir(parents=True)
    (tmp_path / "state" / "cordon").mkdir(mode=0o700, parents=True)
    (tmp_path / "state" / "cordon" / "sandboxes").write_text("no directory")
    monkeypatch.setattr(_store.tempfile, "gettempdir", lambda: str(base / "tmp"))
    with pycordon.Sandbox(workdir=True, isolation=isolation) as other:
        assert other.run("echo SECRET > ~/key").ok
        (key,) = base.glob("tmp/cordon-*/sandboxes/*/home/key")  # there to be found, outside
        assert key.read_text() == "SECRET\n"
        with pycordon.Sandbox(fs_workspace=base, isolation=isolation) as box:
            for use in (lambda: box.run(["cat", key]), lambda: box.files.read(key)):
                with pytest.raises(pycordon.StateError, match="which is granted.*XDG_STATE_HOME"):
                    use()


@pytest.mark.parametrize("isolation", ["namespaces", "landlock"])
def test_the_state_directory_is_not_shown(place, isolation):
    """Level namespaces covers it; level landlock cannot, so nothing runs there."""
    with pycordon.Sandbox(workdir=True, isolation=isolation) as other:
        assert other.run("echo SECRET > ~/key").ok
        (key,) = place.glob("state/cordon/sandboxes/*/home/key")
        with pycordon.Sandbox(isolation=isolation, fs_read=[place]) as box:
            if isolation == "namespaces":
                assert box.run(["cat", key]).stdout == ""
                return
            with pytest.raises(pycordon.StateError, match="which is granted"):
                box.run(["cat", key])


def test_private_directory_instead_of_the_callers_not_beside_it(place):
    """A sandbox with a private working directory cannot read the one the program runs in."""
    keys = place / "here" / ".env"
    keys.write_text("API_KEY=secret")
    work = place / "work"
    for workdir in (None, True, work):
        with pycordon.Sandbox(workdir=workdir) as box:
            assert box.run(["cat", keys]).returncode == 1
            assert not box.files.exists(keys)
            assert box.run_code(f"open({str(keys)!r})").returncode == 1
            with box.spawn_popen(["cat", str(keys)], stdout=subprocess.PIPE) as popen:
                assert popen.communicate()[0] == b""
    with pycordon.Sandbox(workdir=True, fs_read=["."]) as box:
        assert box.run(["cat", keys]).stdout == "API_KEY=secret"


@pytest.mark.parametrize("isolation", ["namespaces", "landlock"])
def test_disk_limit_of_private_files(isolation):
    """Level landlock has a disk to hold only because there is a private directory."""
    with pycordon.Sandbox(workdir=True, isolation=isolation, limits_disk="8M") as box:
        assert box.run("head -c 1M /dev/urandom > small").ok
        done = box.run("head -c 32M /dev/urandom > large; sleep 5; echo survived")
        assert (done.kind, done.stdout) == ("disk", ""), done
        with pytest.raises(OSError, match="disk limit"):
            box.files.write("more", b"x" * (8 << 20))


# --- cordon sandbox list, gc: what the command reads ----------------------------------------------


def test_the_lock_tells_the_last_use(sandboxes, place):
    box = pycordon.Sandbox(keep=True)
    box.run("echo 1 > ~/a")
    lock = place / "state" / "cordon" / "sandboxes" / box.id / "lock"
    for use in (box.close, lambda: pycordon.Sandbox.attach(box.id)):
        os.utime(lock, (1, 1))
        kept = use()
        assert time.time() - os.stat(lock).st_mtime < ceiling(60)
    kept.destroy()
    assert sandboxes() == []


def test_attaching_waits_for_who_only_looks(place):
    """Who lists sandboxes holds the lock for a moment to see whether others do."""
    box = pycordon.Sandbox(keep=True)
    box.run("true")
    box.close()
    lock = os.open(place / "state" / "cordon" / "sandboxes" / box.id / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    waiting = threading.Event()
    real = time.sleep

    def pause(seconds):
        waiting.set()
        real(seconds)

    with ThreadPoolExecutor(1) as worker, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_store.time, "sleep", pause)
        patch.setattr(_store, "_LOCK_TRIES", 100_000)
        attached = worker.submit(pycordon.Sandbox.attach, box.id)
        assert waiting.wait(ceiling(30))
        os.close(lock)
        attached.result(ceiling(30)).destroy()
