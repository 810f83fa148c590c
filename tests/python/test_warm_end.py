# SPDX-License-Identifier: Apache-2.0
"""How a program ends that started warm: libraries that were loaded ahead end as they do in a cold one."""

import subprocess

import pytest

import pycordon
from pylib import ceiling

LIBRARY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
/* Silent in the run that tries an image out. */
static void say(const char *what) { if (!getenv("CORDON_WARM_TRIAL") && write(1, what, __builtin_strlen(what)) < 0) _exit(9); }
static void asked(void) { say(NAME " was asked to end\n"); }
static char is_open;
__attribute__((constructor)) static void begin(void) { is_open = 1; atexit(asked); }
/* Compiled, it begins as the compiler's own does. */
__attribute__((destructor)) static void flush(void) { if (is_open) say(NAME " was flushed\n"); }
__attribute__((destructor)) static void end(void) { say(NAME " ended\n"); }
__attribute__((destructor(200))) static void end_last(void) { say(NAME " ended at last\n"); }
void old_end(void) { say(NAME " ended in the old way\n"); }
void said(void) { printf(NAME " left this in its buffer\n"); }
int needed(void);
int needs(void) { return NEEDS; }
int PROVIDES(void) { return 1; }
"""
#: The first needs the second; the third is loaded by programs.
AHEAD = "import ctypes\nfirst = ctypes.CDLL({!r})\n"
PROGRAMS = {
    "nothing": "",
    "print": "print('printed')",
    "buffer": "import ahead; ahead.first.said()",
    "exit": "import sys; sys.exit(3)",
    "error": "1/0",
    "at once": "import os; print('now', flush=True); os._exit(4)",
    "atexit": "import atexit; atexit.register(print, 'registered')",
    "one more": "import ctypes; third = ctypes.CDLL({third!r}); third.said()",
    "one less": "import _ctypes, ahead; _ctypes.dlclose(ahead.first._handle); print('unloaded')",
    "one more and less": "import _ctypes, ctypes; _ctypes.dlclose(ctypes.CDLL({third!r})._handle); print('unloaded')",
    "child": "import os, sys\npid = os.fork()\nif pid == 0: sys.exit(5)\nprint(os.waitpid(pid, 0)[1], flush=True)",
    "thread": "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('slept'))).start()",
    "interrupt": "raise KeyboardInterrupt",
}

#: No library of these ends.
KILLED = ("at once", "interrupt")


@pytest.fixture(scope="module", params=["by path", "by name"])
def libraries(tmp_path_factory, request):
    """Paths of three libraries with destructors of both kinds, and modules that load them. The first needs
    the second by its path, or by a name that is not its file's."""
    place = tmp_path_factory.mktemp("libraries")
    named = ["-Wl,-soname,another.so"] if request.param == "by name" else []
    place.chmod(0o755)
    made = {name: str(place / f"lib{name}.so") for name in ("first", "second", "third")}
    for name, needs, provides, more in (
        ("second", "1", "needed", ["-Wl,-fini,old_end", *named]),
        ("first", "needed()", "first", [made["second"], f"-Wl,-rpath,{place}"]),
        ("third", "1", "third", ["-Wl,-fini,old_end"]),
    ):
        subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", f'-DNAME="{name}"', f"-DNEEDS={needs}", f"-DPROVIDES={provides}",
             "-o", made[name], "-x", "c", "-", "-x", "none", *more],
            input=LIBRARY, text=True, check=True, timeout=ceiling(60),
        )  # fmt: skip
    (place / "another.so").symlink_to(made["second"])
    (place / "ahead.py").write_text(AHEAD.format(made["first"]))
    # One after the other: the second is there when the first comes, which needs it.
    (place / "backwards.py").write_text(f"import ctypes\nctypes.CDLL({made['second']!r})\nimport ahead\n")
    (place / "unrelated.py").write_text(f"import ctypes\nctypes.CDLL({made['third']!r})\nimport ahead\n")
    return place, made


@pytest.fixture(scope="module", params=["ahead", "backwards", "unrelated"])
def pools(libraries, request):
    place, _ = libraries
    settings = {"fs_read": [str(place)], "env": {"PYTHONPATH": str(place)}}
    with pycordon.Pool(preload=request.param, workers=1, **settings) as warm:
        assert warm.start().warm_reason is None
        with pycordon.Pool(preload=None, workers=1, **settings) as cold:
            yield request.param, warm, cold


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same(pools, libraries, name):
    # A cold program loads them itself; a warm one has them.
    module, *both = pools
    code = f"import {module}, ahead\n" + PROGRAMS[name].replace("{third!r}", repr(libraries[1]["third"]))
    warm, cold = (pool.run_code(code) for pool in both)
    assert (warm.kind, warm.returncode) == (cold.kind, cold.returncode)
    assert warm.stdout == cold.stdout, name
    if name not in KILLED:
        for library in ("first", "second"):
            assert warm.stdout.count(f"{library} ended\n") == cold.stdout.count(f"{library} ended\n") > 0
        assert "old way" in cold.stdout  # the control: they do end so


@pytest.mark.parametrize("preload", [("hashlib", "ssl"), ()])
def test_openssl_at_the_end(preload):
    """Its own end is left out, since it only gives memory back; until then it works."""
    code = (
        "import atexit, hashlib, ssl\n"
        "context = ssl.create_default_context()\n"
        "atexit.register(lambda: print(hashlib.new('sha256', b'').hexdigest()[:8], ssl.RAND_bytes(4) != b''))\n"
    )
    with pycordon.Pool(preload=preload, workers=1) as pool:
        assert pool.start().warm_reason is None
        got = pool.run_code(code)
    assert got.ok and got.stdout == "e3b0c442 True\n", got
