# SPDX-License-Identifier: Apache-2.0
"""Fork in the host: a child can neither use nor harm what its parent has."""

import multiprocessing
import os

from extlib import finish, script, start

from pycordon import _cordon

CHILD = """
launcher = _cordon.Launcher()
policy = _cordon.Policy()
r, w = os.pipe()
run = launcher.start(policy, ["/bin/sh", "-c", "read x; echo got $x"], stdin=r)
os.close(r)
pid = os.fork()
if pid == 0:
    os.close(w)
    bad = []
    calls = [run.wait, run.process, run.result, run.cancel, run.end, run.close, run.notes, run.fileno,
             run.published, run.receipt, lambda: run.signal(9), lambda: run.resize(1, 1),
             lambda: launcher.start(policy, ["/bin/true"]), lambda: launcher.check(),
             lambda: launcher.plan(policy, ["/bin/true"])]
    for i, call in enumerate(calls):
        try:
            call()
            bad.append(f"call {i} went through")
        except _cordon.Error as error:
            if error.name != "state" or "before fork" not in error.message:
                bad.append(repr(error))
    del run, launcher, call, calls     # freed in the child: touches nothing
    import gc; gc.collect()
    # With a launcher of its own, and the parent's policy, it can do everything.
    policy.set("limits.wall", "20s")
    own = _cordon.Launcher().start(policy, ["/bin/echo", "child"])
    if not own.wait(20) or own.result()["stdout"] != b"child\\n":
        bad.append("its own run failed")
    print("\\n".join(bad) or "refused", flush=True)
    EXIT
assert os.waitpid(pid, 0)[1] == 0
assert not run.wait(0.1), "the child's end ended the parent's run"
os.write(w, b"word\\n")
os.close(w)
assert run.wait(20)
print(run.result()["stdout"].decode(), end="")
"""


def test_the_child_leaves_by_exit():
    assert script(CHILD.replace("EXIT", "os._exit(0)")) == "refused\ngot word\n"


def test_the_child_leaves_through_the_interpreter():
    """All objects of the child are torn down."""
    assert script(CHILD.replace("EXIT", "sys.exit(0)")) == "refused\ngot word\n"


def test_the_tree_ends_with_the_parent_though_a_child_lives(tmp_path):
    """The command holds a lock on a file, which is free again when the command is gone."""
    os.chmod(tmp_path, 0o777)
    out = script(
        """
import fcntl
path = sys.argv[1] + "/lock"
def is_free():
    with open(path, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
def until(want):
    end = time.monotonic() + 30
    while is_free() != want:
        assert time.monotonic() < end, f"free: {not want}"
        time.sleep(0.01)
open(path, "w").close()
r, w = os.pipe()
parent = os.fork()
if parent == 0:
    policy = _cordon.Policy()
    policy.set("fs.write", sys.argv[1])
    launcher = _cordon.Launcher()
    run = launcher.start(policy, ["/usr/bin/flock", path, "/bin/sleep", "1000"])
    until(False)
    child = os.fork()
    if child == 0:
        time.sleep(60)      # holds copies of everything
        os._exit(0)
    os.write(w, b"%d" % child)
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(parent, 0)
child = int(os.read(r, 20))
until(True)
os.kill(child, 0)       # it lives
os.kill(child, signal.SIGKILL)
print("gone")
""",
        tmp_path,
    )
    assert out == "gone\n"


def test_fork_while_threads_are_in_the_middle_of_it():
    """Locks that another thread held at the fork must not stop the child."""
    out = script(
        """
launcher = _cordon.Launcher()
policy = _cordon.Policy()
stop = threading.Event()
def work():
    while not stop.is_set():
        run = launcher.start(policy, ["/bin/true"])
        run.wait()
        run.result()
        policy.set("limits.wall", "20s")
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
run = launcher.start(policy, ["/bin/sleep", "1000"])
waiter = threading.Thread(target=run.wait)
waiter.start()
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        try:
            run.cancel()
            os._exit(1)
        except _cordon.Error:
            pass
        policy.to_json()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
for thread in threads: thread.join()
run.cancel()
waiter.join()
print("fine")
""",
    )
    assert out == "fine\n"


def _square(number):
    got = finish(start(_cordon.Launcher(), ["/bin/sh", "-c", f"echo $(({number} * {number}))"]))
    return int(got["stdout"])


def test_multiprocessing_with_fork():
    launcher = _cordon.Launcher()
    run = start(launcher, ["/bin/sh", "-c", "sleep 0.2; echo still"])
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map(_square, range(20)) == [n * n for n in range(20)]
    assert finish(run)["stdout"] == b"still\n"
    assert os.getpid() > 0
