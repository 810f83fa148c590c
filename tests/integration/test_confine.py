# SPDX-License-Identifier: Apache-2.0
"""A Python process that confines itself through the library and goes on working: threads, an event
loop, children, imports. What lies outside its grants is gone, for its children as well.

CORDON_PREFIX is where `meson install` put the library (set by tools/test.sh).
"""

import os
import pathlib
import sys

import pytest

PREFIX = pathlib.Path(os.environ.get("CORDON_PREFIX", "/nonexistent"))

pytestmark = pytest.mark.skipif(not PREFIX.exists(), reason="CORDON_PREFIX is not set")

BEGIN = """
import ctypes, os, sys
LIB, GRANTED, SECRET = sys.argv[1:4]
lib = ctypes.CDLL(LIB)

def confine(*settings):
    policy, err = ctypes.c_void_p(), ctypes.create_string_buffer(512)
    assert lib.cordon_policy_new(ctypes.byref(policy), err) == 0
    for key, value in settings:
        assert lib.cordon_policy_set(policy, key.encode(), value.encode(), err) == 0, err.raw
    r = lib.cordon_confine_self(policy, None, err)
    lib.cordon_policy_free(policy)
    return r, err.raw[12:].split(b"\\0")[0].decode()

def shut_in(*settings):
    r, message = confine(*settings)
    assert r == 0, message

def is_shut(path=SECRET):
    try:
        open(path).close()
    except PermissionError:
        return True
    return False

assert not is_shut()
"""

GOES_ON = {
    "threads": """
import threading
shut_in()
seen = []
thread = threading.Thread(target=lambda: seen.append(is_shut()))
thread.start(); thread.join()
assert seen == [True]
""",
    "event loop": """
import asyncio
shut_in()
async def main():
    process = await asyncio.create_subprocess_exec("/bin/cat", stdin=-1, stdout=-1)
    out, _ = await process.communicate(b"through a pipe")
    assert out == b"through a pipe", out
    loop = asyncio.get_running_loop()
    assert await loop.run_in_executor(None, is_shut)
asyncio.run(main())
""",
    "children": """
import subprocess
shut_in(("fs.write", GRANTED))
assert subprocess.run(["/bin/echo", "hello"], stdout=-1).stdout == b"hello\\n"
assert subprocess.run(["/bin/sh", "-c", "echo x >made && cat made"], cwd=GRANTED, stdout=-1).stdout == b"x\\n"
assert subprocess.run(["/bin/cat", SECRET], stderr=-1).returncode != 0
code = "import sys; open(sys.argv[1])"
assert b"PermissionError" in subprocess.run([sys.executable, "-c", code, SECRET], stderr=-1).stderr
""",
    "imports": """
shut_in()
import decimal, email.message, json, sqlite3, ssl, unittest, xml.dom.minidom, zipfile
assert sqlite3.connect(":memory:").execute("select 6 * 7").fetchone() == (42,)
assert is_shut()
""",
    "files": """
import pathlib, tempfile
shut_in(("fs.write", GRANTED))
with tempfile.TemporaryDirectory(dir=GRANTED) as path:
    pathlib.Path(path, "a").write_text("x")
    os.rename(os.path.join(path, "a"), os.path.join(path, "b"))
assert is_shut() and is_shut("/etc/shadow")
""",
    "a UDP socket that was there": """
import socket
there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
there.bind(("127.0.0.1", 0))
before = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
before.sendto(b"x", there.getsockname())
abi = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1)
shut_in()
# The filter does not see where it sends to; Landlock does from ABI 10 on.
try:
    before.sendto(b"x", there.getsockname())
    assert abi < 10, abi
except PermissionError:
    assert abi >= 10, abi
""",
    "commands": """
import subprocess
shut_in(("commands", "cat"))
assert subprocess.run(["/bin/cat"], input=b"x", stdout=-1).stdout == b"x"
try:
    subprocess.run(["/bin/echo"])
except PermissionError:
    pass
else:
    raise AssertionError("a program that is not listed was started")
import decimal
""",
    "a thread before": """
import threading
gate = threading.Event()
thread = threading.Thread(target=gate.wait)
thread.start()
r, message = confine()
gate.set(); thread.join()
assert r < 0 and "2 threads" in message, message
assert not is_shut()
shut_in()
assert is_shut()
""",
}


@pytest.mark.parametrize("what", GOES_ON)
def test_python_goes_on(me, what):
    library = next(PREFIX.glob("lib/**/libcordon.so"))
    granted, secret = me.mkdir("granted"), me.write(me.out / "secret", "for nobody")
    code = BEGIN + GOES_ON[what] + "print('done')\n"
    out = me.outside([sys.executable, "-c", code, library, granted, secret])
    assert (out.returncode, out.stdout.strip()) == (0, b"done"), out.stderr.decode()
