# SPDX-License-Identifier: Apache-2.0
"""A program in an interpreter that was started ahead does what it does in a new one: the same output,
the same errors, the same status. Each snippet is run cold and warm."""

import re

import pytest

import pycordon

_ENDS = """
import sys; sys.exit(3)
import sys; sys.exit("a message")
import sys; sys.exit(None)
import sys; sys.exit(True)
import sys; sys.exit(256)
import sys; sys.exit(-1)
import sys; sys.exit(2.5)
import sys; sys.exit((1, 2))
import sys; sys.exit(10**30)
raise SystemExit
raise SystemExit(7)
exit(4)
quit()
raise ValueError("x")
raise ValueError("ä\\nb")
raise KeyboardInterrupt
raise BaseException("base")
1/0
import os; os._exit(9)
import os; os.abort()
import os, signal; os.kill(os.getpid(), signal.SIGTERM)
import os, signal; os.kill(os.getpid(), signal.SIGKILL)
import os, signal; os.kill(os.getpid(), signal.SIGINT); import time; time.sleep(1)
import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN); os.kill(os.getpid(), signal.SIGINT); print("on")
import signal; signal.raise_signal(signal.SIGUSR1)
assert False, "no"
def f(): f()\\nf()
import sys; sys.setrecursionlimit(50)\\ndef f(n): return f(n+1)\\ntry: f(0)\\nexcept RecursionError as e: print(e)
print(1
def f(:
x = 'unterminated
  indented
\\tprint(1)\\n  print(2)
import no_such_module
from json import no_such_name
raise Exception("outer") from ValueError("inner")
try:\\n 1/0\\nexcept ZeroDivisionError:\\n raise KeyError("k")
raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
import sys; sys.excepthook = lambda *a: print("hook", a[0].__name__); 1/0
import sys; sys.excepthook = lambda *a: sys.exit(5); 1/0
import sys; sys.stdout.close(); print(1)
import sys; sys.stdout.close()
import os; os.close(1); print(1)
import os; os.close(2); 1/0
import sys; sys.stdout = None; print(1)
import sys; del sys.stdout; sys.exit(1)
import sys; sys.stderr = None; 1/0
"""

_AT_END = """
import atexit; atexit.register(print, "end"); print("begin")
import atexit; atexit.register(print, "1"); atexit.register(print, "2")
import atexit; atexit.register(lambda: 1/0); print("x")
import atexit, sys; atexit.register(sys.exit, 6)
import atexit, os; atexit.register(os._exit, 8)
import atexit, sys; atexit.register(print, "end"); sys.exit(2)
import atexit; atexit.register(print, "end"); 1/0
class A:\\n def __del__(self): print("del")\\na = A()
class A:\\n def __del__(self): print("del", __name__)\\na = A(); b = [a]; b.append(b)
class A:\\n def __init__(s, n): s.n = n\\n def __del__(s): print("del", s.n)\\na = A(1); b = A(2); _c = A(3)
class A:\\n def __del__(self): 1/0\\na = A()
class A:\\n def __del__(self): import json; print(json)\\na = A()
class A:\\n def __del__(self): print(open)\\na = A()
import json\\nclass A:\\n def __del__(self): print(json.dumps([1]))\\na = A()
f = open("/tmp/f", "w"); f.write("kept"); import atexit, os; atexit.register(lambda: print(os.path.getsize("/tmp/f")))
def g():\\n try: yield 1\\n finally: print("finally")\\nx = g(); next(x)
import weakref\\nclass A: pass\\na = A(); weakref.finalize(a, print, "finalized")
import threading, time; threading.Thread(target=lambda: (time.sleep(.1), print("thread"))).start()
import threading, time; threading.Thread(target=lambda: time.sleep(60), daemon=True).start(); print("main")
import threading; t = threading.Thread(target=lambda: 1/0); t.start(); t.join(); print("main")
import threading; t = threading.Thread(target=lambda: __import__("sys").exit(3)); t.start(); t.join(); print("main")
import threading, time\\ndef w():\\n while 1: time.sleep(.001)\\nthreading.Thread(target=w, daemon=True).start(); print("main")
import sys; print("no newline", end="")
import sys; sys.stdout.write("a"); sys.stderr.write("b")
import sys; sys.stdout.buffer.write(bytes(range(256)))
import os; os.write(1, b"raw\\\\n"); print("buffered")
print("a" * 100000)
for i in range(1000): print(i)
"""

_LOOKS = """
print(__name__, __file__, __doc__, __package__, __spec__, __builtins__)
print(sorted(globals()))
print(type(__loader__).__name__, __loader__.name, __loader__.path)
print(__cached__)
import sys; print(sys.argv, sys.orig_argv)
import sys; print(sys.path)
import sys; print(sys.flags)
import sys; print(sys.executable, sys.prefix, sys.base_prefix, sys.exec_prefix)
import sys; print(sys.version, sys.implementation, sys.hash_info)
import sys; print(sys.stdin.encoding, sys.stdout.encoding, sys.stderr.encoding, sys.getfilesystemencoding())
import sys; print(sys.stdin, sys.stdout, sys.stderr)
import sys; print(sys.stdout.line_buffering, sys.stderr.line_buffering, sys.stdout.errors, sys.stderr.errors)
import sys; print(sys.stdin.seekable(), sys.stdout.isatty(), sys.stdin.fileno())
import sys; print(sys.getrecursionlimit(), sys.getswitchinterval(), sys.gettrace(), sys.getprofile())
import sys; print(sys.warnoptions, sys._xoptions, sys.dont_write_bytecode, sys.pycache_prefix)
import sys; print(sys.meta_path, [type(h).__name__ for h in sys.path_hooks])
import sys; print(sys._getframe().f_back, sys._getframe().f_code.co_filename, sys._getframe().f_code.co_name)
import inspect; print(len(inspect.stack()))
import traceback; traceback.print_stack()
import sys; print(sys.getrefcount(None) > 0, sys.intern("x"))
import os; print(sorted(os.environ))
import os; print(os.environ["HOME"], os.environ["PATH"], os.environ.get("LD_PRELOAD"), os.environ.get("CORDON_WARM"))
import os; os.environ["A"] = "1"; os.system("echo $A $HOME")
import os; os.putenv("B", "2"); os.system("echo $B")
import os; print(os.environb == {os.fsencode(k): os.fsencode(v) for k, v in os.environ.items()})
import os; print(os.getcwd(), os.getuid(), os.getgid(), os.geteuid(), os.getgroups())
import os; print(os.getpid() > 1, os.getppid(), os.getpgrp() == os.getpid(), os.getsid(0) == os.getpid())
import os; print(sorted(os.listdir("/proc/self/fd")))
import os; print(os.umask(0o22), os.nice(0), os.sched_getaffinity(0))
import resource as r; print([r.getrlimit(i) for i in range(16)])
import signal; print([signal.getsignal(i) for i in range(1, 32) if i not in (9, 19)])
import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.sigpending())
print(open("/proc/self/comm").read())
print(open("/proc/self/cmdline").read())
print(open("/proc/self/environ").read())
print([l for l in open("/proc/self/status") if l.startswith(("Threads", "Sig", "Cap", "NoNew", "Seccomp:", "CoreD", "THP", "Uid", "Gid"))])
print(open("/proc/self/oom_score_adj").read(), open("/proc/self/coredump_filter").read())
print(open("/proc/self/personality").read() if __import__("os").access("/proc/self/personality", 4) else "")
import threading; print(threading.current_thread(), threading.active_count()) if False else print(threading.current_thread().name, threading.active_count())
import threading; print(threading.main_thread() is threading.current_thread(), threading.get_native_id() == __import__("os").getpid(), threading.main_thread().native_id == __import__("os").getpid())
import gc; print(gc.isenabled(), gc.get_threshold(), gc.garbage)
import locale; print(locale.getlocale(), locale.getpreferredencoding())
import time; print(time.tzname, time.timezone)
import builtins; print(sorted(dir(builtins)))
import atexit; print(atexit._ncallbacks())
import sys; print("__main__" in sys.modules, sys.modules["__main__"].__dict__ is globals())
import warnings; warnings.warn("w")
import warnings; warnings.warn("w", stacklevel=2)
import warnings; print(warnings.filters)
import sys; print(sys.modules["os"] is __import__("os"))
import site; print(site.ENABLE_USER_SITE, site.USER_SITE, site.USER_BASE)
import faulthandler; print(faulthandler.is_enabled())
import tracemalloc; print(tracemalloc.is_tracing()); tracemalloc.start(); print(len(bytearray(100)))
help
copyright
print(_ if "_" in globals() else "none")
import sys; print(hasattr(sys, "ps1"), hasattr(sys, "last_value"))
import asyncio; print(asyncio.get_event_loop_policy().__class__.__name__)
import logging; print(logging.root.handlers, logging.root.level)
import decimal; print(decimal.getcontext())
import random; print(random.Random(5).random())
import mimetypes, zipfile, sqlite3, ctypes; print(ctypes.sizeof(ctypes.c_long), sqlite3.connect(":memory:").execute("select 1").fetchone())
"""

_DOES = """
print(1)
print("ä€😀")
import sys; print(sys.stdin.read())
print(input())
import sys; print(sys.stdin.buffer.read())
for line in __import__("sys").stdin: print(line.strip())
import json; print(json.loads('{"a": [1, 2.5, null]}'))
import re; print(re.findall(r"(\\\\w)(\\\\d)", "a1 b2"))
import math; print(math.pi, math.factorial(30))
import datetime; print(datetime.date(2020, 2, 29) + datetime.timedelta(365))
import collections; print(collections.Counter("hello").most_common())
import itertools; print(list(itertools.permutations([1, 2, 3])))
import functools; print(functools.reduce(lambda a, b: a * b, range(1, 20)))
from dataclasses import dataclass\\n@dataclass\\nclass P:\\n x: int\\n y: int = 2\\nprint(P(1))
import enum\\nclass E(enum.Enum):\\n A = 1\\nprint(E.A, list(E))
import typing; print(typing.get_type_hints(lambda: 0))
from __future__ import annotations\\ndef f(x: Nothing): pass\\nprint(f.__annotations__)
x: int = 1\\nprint(__annotations__)
import subprocess; print(subprocess.run(["echo", "hi"], capture_output=True))
import subprocess; print(subprocess.run("echo $0; exit 3", shell=True).returncode)
import subprocess, sys; print(subprocess.run([sys.executable, "-c", "import sys; print(sys.argv)"], capture_output=True).stdout)
import subprocess, sys; print(subprocess.check_output([sys.executable, "-I", "-c", "print(__name__)"]))
import os; pid = os.fork(); (pid or print("child", flush=True)); pid and os.waitpid(pid, 0); print("both" if pid else "c")
import os; pid = os.fork(); os._exit(3) if not pid else print(os.waitpid(pid, 0)[1] >> 8)
import os; r, w = os.pipe(); os.write(w, b"x"); print(os.read(r, 1), r, w)
import os; p = os.popen("cat", "w"); p.write("popen"); print(p.close())
import os; os.execv("/bin/echo", ["echo", "exec"])
import os, sys; os.execv(sys.executable, [sys.executable, "-c", "print(5)"])
import multiprocessing as m; p = m.Process(target=print, args=("mp",)); p.start(); p.join(); print(p.exitcode)
import multiprocessing as m; print(m.get_context("fork").Pool(2).map(abs, [-1, -2]))
import multiprocessing as m\\nif __name__ == "__main__":\\n c = m.get_context("spawn"); p = c.Process(target=print, args=("spawned",)); p.start(); p.join(); print(p.exitcode)
import multiprocessing as m\\nif __name__ == "__main__":\\n c = m.get_context("forkserver"); p = c.Process(target=print, args=("served",)); p.start(); p.join(); print(p.exitcode)
from concurrent.futures import ThreadPoolExecutor as T; print(list(T(4).map(str, range(5))))
from concurrent.futures import ProcessPoolExecutor as T\\nif __name__ == "__main__":\\n with T(2) as t: print(list(t.map(abs, range(-3, 0))))
import asyncio\\nasync def f(): await asyncio.sleep(.01); return 5\\nprint(asyncio.run(f()))
import asyncio\\nasync def f():\\n p = await asyncio.create_subprocess_exec("echo", "sub", stdout=-1); print(await p.communicate())\\nasyncio.run(f())
import asyncio; asyncio.run(asyncio.wait_for(asyncio.sleep(9), .01))
import socket; a, b = socket.socketpair(); a.send(b"x"); print(b.recv(1))
import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[0])
import socket; socket.create_connection(("192.0.2.1", 80), 1)
import tempfile; f = tempfile.NamedTemporaryFile(); f.write(b"x"); print(f.tell(), tempfile.gettempdir())
import os; open("/tmp/a", "w").write("x"); print(os.listdir("/tmp"))
import os; os.chdir("/tmp"); print(os.getcwd())
open("/etc/shadow").read()
open("/nowhere/x", "w")
import pathlib; print(pathlib.Path("/usr/bin").exists(), pathlib.Path.home())
import shutil; print(shutil.which("sh"))
import hashlib; print(hashlib.sha256(b"x").hexdigest(), hashlib.md5(b"x").hexdigest())
import ssl; print(ssl.create_default_context().verify_mode)
import secrets, uuid; print(len(secrets.token_hex(8)), len(str(uuid.uuid4())))
import pickle\\nclass A: pass\\nprint(type(pickle.loads(pickle.dumps(A()))).__module__)
import ctypes; print(ctypes.CDLL(None).getpid() == __import__("os").getpid())
import ctypes; ctypes.string_at(0)
import mmap; m = mmap.mmap(-1, 8192); m[0] = 65; print(m[0])
import array; print(sum(array.array("d", range(1000000))))
x = [bytearray(1 << 20) for _ in range(100)]; print(len(x))
x = {i: str(i) for i in range(200000)}; print(len(x)); del x; import gc; print(gc.collect() >= 0)
def f(n): return 0 if n == 0 else 1 + f(n - 1)\\nprint(f(900))
import sys; sys.setrecursionlimit(5000)\\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\\nprint(f(4000))
import threading; threading.stack_size(1 << 20); t = threading.Thread(target=print, args=("t",)); t.start(); t.join()
import signal, os; signal.signal(signal.SIGALRM, lambda *a: print("alarm")); signal.alarm(1); signal.pause()
import signal; signal.setitimer(signal.ITIMER_REAL, .05); signal.sigwait([signal.SIGALRM]) if False else __import__("time").sleep(1)
import time; a = time.monotonic(); time.sleep(.01); print(time.monotonic() > a, time.time() > 1e9, time.clock_gettime(0) > 0)
import code; code.InteractiveConsole({"x": 1}).push("print(x)")
exec("def f(): return 1\\\\nprint(f())")
eval("1/0")
print(compile("1", "f", "eval").co_filename)
import runpy; print(runpy.run_path(__file__, run_name="other")) if __name__ == "__main__" else print("as", __name__)
import __main__; print(__main__.__name__)
import importlib; print(importlib.import_module("json").__name__, importlib.reload(__import__("json")).__name__)
import sys; del sys.modules["json"]; import json; print(json.dumps(1))
import sys; sys.modules["json"] = None\\nimport json
import sys; sys.path.insert(0, "/tmp"); open("/tmp/mine.py", "w").write("print('mine', __name__)"); import mine
import this
import unittest\\nclass T(unittest.TestCase):\\n def test(self): self.assertEqual(1, 1)\\nunittest.main(argv=["x"])
import argparse; argparse.ArgumentParser(prog="p").parse_args(["--no"])
import logging; logging.warning("w"); logging.basicConfig(level=10); logging.debug("d")
import logging, sys; logging.basicConfig(stream=sys.stdout, format="%(message)s"); logging.error("e")
import string; print(string.Template("$a").substitute(a=1), f"{3:>5}|{2.5:.3f}")
import decimal, fractions; print(decimal.Decimal(1) / 3, fractions.Fraction(1, 3) + 1)
import heapq, bisect; h = [3, 1, 2]; heapq.heapify(h); print(heapq.heappop(h), bisect.bisect([1, 2], 2))
import csv, io; print(list(csv.reader(io.StringIO("a,b"))))
import zlib, base64, gzip; print(zlib.crc32(b"x"), base64.b64encode(b"x"), len(gzip.compress(b"x")))
import struct; print(struct.pack("<IH", 1, 2))
import copy; print(copy.deepcopy([[1]]))
import contextlib\\n@contextlib.contextmanager\\ndef f(): yield 1\\nwith f() as x: print(x)
import types; print(types.SimpleNamespace(a=1))
import operator; print(operator.itemgetter(1)([1, 2]))
import statistics; print(statistics.mean([1, 2, 3]))
import textwrap, pprint; pprint.pprint({"a": [1] * 30})
import inspect; print(inspect.getsource(inspect.currentframe()) if False else inspect.getsourcefile(lambda: 0))
import linecache; print(linecache.getline(__file__, 1))
import sys; sys.settrace(lambda *a: None); print("traced")
import sys; sys.setprofile(lambda f, *a: f.f_code.co_filename == "<string>" and print("ours")); (lambda: 0)(); sys.exit(3)
import cProfile; cProfile.run("pass")
import trace, pdb, dis; dis.dis("x")
import faulthandler; faulthandler.enable(); print(faulthandler.is_enabled())
match [1, 2]:\\n case [a, b]: print(a + b)
print((lambda *a, **k: (a, k))(1, b=2)); (y := 3); print(y)
import os; print(os.path.samefile("/proc/self/cwd", "."), os.path.exists("/proc/self/exe"))
import os, sys; print(sys.modules.keys() >= {"os", "sys", "builtins"})
"""


def _snippets():
    for group in (_ENDS, _AT_END, _LOOKS, _DOES):
        for line in group.strip().splitlines():
            yield line.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t").replace("\0", "\\")


SNIPPETS = list(_snippets())


#: What is known to differ, by the beginning of the snippet, and why (docs/python.md says the same).
DIFFERS = {
    "class A:\n def __del__(self): print(open)": "the interpreter has taken open() away by then",
    "class A:\n def __del__(self): 1/0": "the interpreter cannot read the source any more by then",
    "class A:\n def __del__(self): import json": "the interpreter cannot import any more by then",
    "import atexit; print(atexit._ncallbacks())": "logging, imported ahead, has registered one",
    'import sys; del sys.modules["json"]': "json is imported ahead",
}


def test_there_are_enough():
    assert len(set(SNIPPETS)) == len(SNIPPETS) >= 200
    assert all(any(s.startswith(d) for s in SNIPPETS) for d in DIFFERS)


@pytest.fixture(scope="module")
def pools():
    settings = {"workers": 1, "limits_memory": "512M"}
    with pycordon.Pool(preload=None, **settings) as cold, pycordon.Pool(preload=(), **settings) as warm:
        assert warm.warm_reason is None
        yield cold, warm


def _clean(text):
    """Without addresses, which differ from process to process, and process ids."""
    text = re.sub(r"0x[0-9a-f]{6,}", "0x", text)
    text = re.sub(r"in [0-9.]+s", "in a moment", text)
    return re.sub(r"(pid|process|ident|Process-|started) ?=?[0-9]+", r"\1", text)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_same(pools, number):
    code = SNIPPETS[number]
    got = [pool.run_code(code, stdin="first line\nsecond ä\n", timeout=20) for pool in pools]
    cold, warm = ((r.kind, r.returncode, _clean(r.stdout), _clean(r.stderr)) for r in got)
    if any(code.startswith(known) for known in DIFFERS):
        assert warm != cold, "this is the same now: take it out of the list"
    else:
        assert warm == cold, code
