# SPDX-License-Identifier: Apache-2.0
"""Programs that use the package are not all alike: daemons, jobs of cron, pools of workers."""

import os
import subprocess
import sys

import pytest

import pycordon
from pylib import ceiling

USE = """
import pycordon
def use():
    with pycordon.Sandbox(workdir=True) as box:
        assert box.run("echo hi").stdout == "hi\\n"
        assert box.run_code("print(6 * 7)").stdout == "42\\n"
        box.files.write("x", "y")
        assert box.files.read("x") == b"y"
        with box.popen("cat") as process:
            process.write("a\\n")
            assert process.stdout.readline() == b"a\\n"
    assert pycordon.run("echo once").stdout == "once\\n"
"""


@pytest.mark.parametrize(
    "before",
    [
        "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "import os; os.umask(0)",
        "import os; os.umask(0o077)",
        "import os; [os.close(fd) for fd in (0, 1, 2)]",
        "import os; os.close(0)",
        "import threading as t\nfor _ in range(30): t.Thread(target=t.Event().wait, daemon=True).start()",
        "import os; os.environ.clear()",
        "import os; os.environ.update(HOME='/nonexistent', XDG_STATE_HOME='/proc/nowhere')",
        "import os; os.environ['XDG_STATE_HOME'] = 'relative'",
    ],
)
def test_unusual_hosts(host, place, before):
    mark = place / "done"
    host(f"{before}\n{USE}\nuse()\nopen({str(mark)!r}, 'w').close()")
    assert mark.exists()


@pytest.mark.parametrize("flags", [["-I", "-S"], ["-O", "-X", "dev", "-W", "error"]])
def test_flags_of_the_interpreter(flags):
    package = os.path.dirname(os.path.dirname(os.path.abspath(pycordon.__file__)))
    code = f"import sys; sys.path.append({package!r})\n{USE}\nuse()"
    done = subprocess.run(
        [sys.executable, *flags, "-c", code], capture_output=True, text=True, timeout=ceiling(60)
    )
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_a_current_directory_that_is_gone(host, place):
    gone = place / "gone"
    gone.mkdir()
    host(
        """
        import os, sys, pycordon
        os.rmdir(sys.argv[1])
        for use in (lambda: pycordon.run("true", fs_read="x"), lambda: pycordon.Sandbox(workdir="x"), pycordon.confine):
            try:
                use()
            except pycordon.PathError as error:
                assert "the current directory cannot be used" in str(error)
            else:
                raise AssertionError
        with pycordon.Sandbox() as box:
            assert box.run_code("print(1)").stdout == "1\\n"
        assert pycordon.run("pwd", workdir="/var/tmp").stdout == "/var/tmp\\n"
        """,
        gone,
        cwd=gone,
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_of_processes(place, host, method):
    program = place / "pool.py"
    program.write_text(
        "import concurrent.futures, multiprocessing, sys, pycordon\n"
        "def work(i): return pycordon.run(['echo', str(i)])\n"
        "def fail(i): pycordon.run(f'exit {i}', check=True)\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context(sys.argv[1])\n"
        "    with concurrent.futures.ProcessPoolExecutor(2, context) as pool:\n"
        "        assert [int(r.stdout) for r in pool.map(work, range(5))] == list(range(5))\n"
        "        try:\n"
        "            pool.submit(fail, 3).result()\n"
        "        except pycordon.RunError as error:\n"
        "            assert error.result.returncode == 3\n"
        "        else:\n"
        "            raise AssertionError\n"
    )
    done = subprocess.run(
        [sys.executable, str(program), method],
        capture_output=True, text=True, timeout=ceiling(60), env={
            **os.environ,
            "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.abspath(pycordon.__file__))),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_no_space_for_private_files(monkeypatch, sandboxes):
    def full(*_arguments, **_options):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("pycordon._store.json.dump", full)
    with pytest.raises(pycordon.SystemCallError) as caught:
        pycordon.Sandbox().run("true")
    assert "XDG_STATE_HOME" in str(caught.value) and caught.value.errno == 28
    assert sandboxes() == []  # nothing half made is left
    assert pycordon.run("echo fine").stdout == "fine\n"
