# SPDX-License-Identifier: Apache-2.0
"""limits.memory: real programs that reserve much and use little are left alone."""

import os
import shutil
import subprocess

import pytest
from conftest import unavailable
from meter import with_time_left

ROOMY = ["-m", "512M", "-t", "60s"]


def receipt(me, level, cmd, opts):
    """Only the exact count sees what processes share, and it has 400 ms. On a machine without time it is given up, and
    the sum of their sizes decides."""
    return with_time_left(lambda: me.receipt(opts, cmd, level), lambda got: got["kind"] != "memory")


def fine(me, level, cmd, opts=()):
    got = receipt(me, level, cmd, [*ROOMY, *opts])
    assert (got["kind"], got["exit_code"]) == ("exited", 0), got
    assert got["stdout"].endswith("fine\n"), got
    used = got["usage"]["max_memory_bytes"]
    assert 0 < used < 512 << 20, f"used {used}"
    return got


def needs(name, *places):
    found = shutil.which(name) or next((p for p in places if os.access(p, os.X_OK)), None)
    if not found:
        unavailable(f"no {name}")
    return found


def test_node(me, level):
    script = "const a=[];for(let i=0;i<20;i++)a.push(Buffer.alloc(1<<20,i));console.log('fine')"
    fine(me, level, [needs("node"), "-e", script])


def test_java(me, level):
    needs("java")
    source = """
public class Main {
  public static void main(String[] a) throws Exception {
    byte[][] all = new byte[30][];
    for (int i = 0; i < all.length; i++) { all[i] = new byte[1 << 20]; all[i][i] = 1; }
    Thread[] t = new Thread[20];
    for (int i = 0; i < t.length; i++) { t[i] = new Thread(() -> { try { Thread.sleep(100); } catch (Exception e) {} }); t[i].start(); }
    for (Thread x : t) x.join();
    System.out.println("fine");
  }
}
"""
    me.write(me.work / "Main.java", source)
    needs("javac")
    done = me.outside(["javac", "-d", str(me.work), "Main.java"], timeout=120)
    assert done.returncode == 0, done
    fine(me, level, ["java", "-Xmx64m", "-cp", str(me.work), "Main"], ["-r", me.work])


GO = """package main

import (
	"sync"
	"syscall"
)

func main() {
	var group sync.WaitGroup
	for i := 0; i < 100; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			block := make([]byte, 1<<20)
			for j := 0; j < len(block); j += 4096 {
				block[j] = 1
			}
		}()
	}
	group.Wait()
	syscall.Write(1, []byte("fine\\n")) // package fmt would take long to compile
}
"""


@pytest.fixture(scope="session")
def go_program(session_dir):
    go = shutil.which("go") or "/usr/local/go/bin/go"
    if not os.access(go, os.X_OK):
        unavailable("no go")
    where = session_dir / "go"
    where.mkdir()
    (where / "main.go").write_text(GO)
    env = {"PATH": os.environ["PATH"], "HOME": str(where), "GOCACHE": str(where / "cache"), "GO111MODULE": "off",
           "CGO_ENABLED": "0", "GOFLAGS": "-p=2"}  # fmt: skip
    done = subprocess.run([go, "build", "-o", "prog", "main.go"], cwd=where, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    os.chmod(where, 0o755)
    return str(where / "prog")


def test_go(me, level, go_program):
    fine(me, level, [go_program], ["-r", go_program])


def test_python_with_forty_threads(me, level):
    script = """
import threading, time
def work():
    kept = bytearray(1 << 20)
    time.sleep(0.2)
threads = [threading.Thread(target=work) for _ in range(40)]
[t.start() for t in threads]
[t.join() for t in threads]
print('fine')
"""
    fine(me, level, ["python3", "-c", script])


@pytest.mark.parametrize("flags", ["MAP_PRIVATE", "MAP_SHARED"])
def test_reservations(me, level, flags):
    """8 GiB reserved, 64 pages of them used: what numerical programs and databases do."""
    script = f"""
import mmap, time
size = 8 << 30
kept = mmap.mmap(-1, size, flags=mmap.{flags} | mmap.MAP_ANONYMOUS | 0x4000)
for i in range(64):
    kept[i * (size // 64)] = 1
time.sleep(0.2)
print('fine')
"""
    fine(me, level, ["python3", "-c", script])


def test_a_sparse_file(me):
    """8 GiB long, one page of it stored; and a memory file of the same kind."""
    script = """
import os, time
a = os.open('/tmp/sparse', os.O_RDWR | os.O_CREAT)
b = os.memfd_create('sparse')
for fd in a, b:
    os.ftruncate(fd, 8 << 30)
    os.pwrite(fd, b'x', 7 << 30)
time.sleep(0.2)
print('fine')
"""
    fine(me, "namespaces", ["python3", "-c", script])


def test_fork_server(me, level):
    """50 children of a 100 MiB parent: the sum of their sizes is 5 GiB, the use is 100 MiB."""
    script = """
import os, time
kept = bytearray(os.urandom(1 << 20) * 100)
kids = []
for _ in range(50):
    pid = os.fork()
    if not pid:
        s = sum(kept[::4096])
        time.sleep(0.6)
        os._exit(0)
    kids.append(pid)
for pid in kids:
    os.waitpid(pid, 0)
print('fine')
"""
    got = fine(me, level, ["python3", "-c", script])
    assert got["usage"]["max_memory_bytes"] > 100 << 20


def test_shared_between_processes(me):
    """One shared object mapped and read by 20 processes is there once."""
    script = """
import mmap, os, time
kept = mmap.mmap(-1, 100 << 20)
kept.write(b'x' * (100 << 20))
kids = []
for _ in range(20):
    pid = os.fork()
    if not pid:
        sum(kept[i] for i in range(0, len(kept), 4096))
        time.sleep(0.5)
        os._exit(0)
    kids.append(pid)
for pid in kids:
    os.waitpid(pid, 0)
print('fine')
"""
    got = fine(me, "namespaces", ["python3", "-c", script])
    assert got["usage"]["max_memory_bytes"] > 100 << 20


@pytest.mark.parametrize("kind", ["posix", "sysv", "sysv-left", "shared", "memfd-mapped", "devshm"])
def test_nothing_is_counted_twice(me, probes, kind):
    """What has a name and is mapped, or is open and mapped, is there once: 150 of 512 MiB."""
    got = me.receipt(
        [*ROOMY, "--disk", "1G", "-r", probes["eat"]], [probes["eat"], kind, "150", "300"], "namespaces"
    )  # fmt: skip
    assert (got["kind"], got["stdout"]) == ("exited", "ate 150 MiB\n"), got
    assert 130 << 20 < got["usage"]["max_memory_bytes"] < 210 << 20, got["usage"]


def test_large_files_read_are_no_use(me, level):
    """The page cache of the host's files does not count."""
    with open(me.work / "big", "wb") as file:
        file.truncate(600 << 20)  # the cache holds a page for each part of it that is read
    me.own(me.work / "big")
    script = """
import mmap, time
with open('big', 'rb') as file:
    kept = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    sum(kept[i] for i in range(0, len(kept), 4096))
    time.sleep(0.2)
print('fine')
"""
    fine(me, level, ["python3", "-c", script], ["-r", me.work])


def test_compiler(me, level):
    me.write(me.work / "a.c", "#include <stdio.h>\nint main(void) { return puts(\"fine\") < 0; }\n")
    fine(me, level, ["sh", "-c", "gcc -O2 -o a.out a.c && ./a.out"], ["-w", me.work])


@pytest.mark.parametrize("way", ["vfork", "fork"])
def test_a_large_parent_that_starts_programs(me, level, way):
    """80 of 128 MiB: a child that has its parent's memory, or shares it, for a moment does not double it."""
    script = f"""
import os, subprocess
subprocess._USE_VFORK = {way == "vfork"}
subprocess._USE_POSIX_SPAWN = False
kept = bytearray(os.urandom(1 << 20)) * 80
for _ in range(150):
    subprocess.run(["/bin/true"], check=True)
print('fine')
"""
    got = receipt(me, level, ["python3", "-c", script], ["-m", "128M", "-t", "60s"])
    assert (got["kind"], got["exit_code"], got["stdout"]) == ("exited", 0, "fine\n"), got
    assert 80 << 20 < got["usage"]["max_memory_bytes"] <= 128 << 20, got["usage"]
