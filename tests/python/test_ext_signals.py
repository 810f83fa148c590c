# SPDX-License-Identifier: Apache-2.0
"""Signals while wait() waits. Each test has a process of its own, whose main thread gets them."""

import pytest
from extlib import script

HEAD = """
launcher = _cordon.Launcher()
run = launcher.start(_cordon.Policy(), ["/bin/sleep", "1000"])
def soon(call):
    # when the main thread sleeps in the kernel: its state is S and its call is ppoll
    def body():
        path = f"/proc/self/task/{os.getpid()}/syscall"
        while not open(path).read().startswith("271 "):
            time.sleep(0.001)
        call()
    threading.Thread(target=body, daemon=True).start()
"""


@pytest.mark.parametrize(
    "send",
    [
        "os.kill(os.getpid(), signal.SIGINT)",
        "signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)",
    ],
)
def test_keyboard_interrupt_comes_out_and_the_run_goes_on(send):
    out = script(
        HEAD
        + f"""
soon(lambda: {send})
begun = time.monotonic()
try:
    run.wait()
    print("no interrupt")
except KeyboardInterrupt:
    print("interrupt")
assert time.monotonic() - begun < 20
assert not run.done and not run.wait(0.05)   # it is still there
run.cancel()
assert run.wait(20)
print(run.result()["kind"])
"""
    )
    assert out == "interrupt\ncancelled\n"


def test_a_handler_that_returns_does_not_end_the_wait():
    out = script(
        HEAD
        + """
def handler(*_):
    print("handler", flush=True)
    soon(run.cancel)
signal.signal(signal.SIGUSR1, handler)
soon(lambda: os.kill(os.getpid(), signal.SIGUSR1))
print(run.wait(), run.result()["kind"])
"""
    )
    assert out == "handler\nTrue cancelled\n"


def test_many_signals_do_not_stretch_the_time_limit():
    out = script(
        HEAD
        + """
count = []
signal.signal(signal.SIGALRM, lambda *_: count.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
begun = time.monotonic()
print(run.wait(0.5))
took = time.monotonic() - begun
signal.setitimer(signal.ITIMER_REAL, 0)
assert 0.5 <= took < 5, took
assert len(count) > 10, count
"""
    )
    assert out == "False\n"


def test_an_exception_of_a_handler_comes_out():
    out = script(
        HEAD
        + """
class Mine(Exception): pass
def handler(*_): raise Mine("from the handler")
signal.signal(signal.SIGUSR1, handler)
soon(lambda: os.kill(os.getpid(), signal.SIGUSR1))
try:
    run.wait()
except Mine as error:
    print(error)
run.close()
"""
    )
    assert out == "from the handler\n"


def test_ctrl_c_reaches_the_host_and_not_the_command():
    """A terminal sends SIGINT to the whole foreground group; the command is not part of it."""
    out = script(
        """
launcher = _cordon.Launcher()
run = launcher.start(_cordon.Policy(), ["/bin/sh", "-c", "sleep 0.5; echo unharmed"])
try:
    os.killpg(os.getpgrp(), signal.SIGINT)
    run.wait()
except KeyboardInterrupt:
    pass
assert run.wait(30)
print(run.result()["stdout"].decode(), end="")
""",
        start_new_session=True,
    )
    assert out == "unharmed\n"
