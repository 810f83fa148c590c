# SPDX-License-Identifier: Apache-2.0
"""Descriptors: none comes in but three pipes, and none of the three is the caller's."""

import os
import socket
import subprocess

from conftest import rows


def only(got, name):
    return [n for n in got if n.startswith(name)]


def test_inherited_descriptors_are_closed(me, level, probes):
    probe = probes["fds"]
    canary = me.write(me.out / "canary", "canary")
    extra = [os.open(canary, os.O_RDWR), os.open("/", os.O_RDONLY | os.O_DIRECTORY)]
    extra += list(os.pipe())
    high = os.dup2(extra[0], 900, inheritable=True)
    try:
        outside = me.outside([probe], pass_fds=extra + [high])
        names = only(rows(outside.stdout), "open-")[0].split("-")[1:]
        assert {str(fd) for fd in extra + [high]} <= set(names)  # the control
        inside = me.run(["-r", probe], [probe], level, pass_fds=extra + [high])
        assert only(rows(inside.stdout), "open-") == ["open-0-1-2"], inside.stdout
    finally:
        for fd in extra + [high]:
            os.close(fd)


def test_directory_as_standard_input(me, level, probes):
    probe = probes["fds"]
    fd = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        got = rows(me.outside([probe], stdin=fd).stdout)
        assert got["fchdir"] == got["openat"] == "allowed"
        done = me.run(["-r", probe], [probe], level, stdin=fd)
        if done.returncode == 125:  # refusing such a caller is fine too
            assert done.stderr.startswith(b"cordon:")
            return
        got = rows(done.stdout)
        for name in ("fchdir", "openat", "getdents"):
            assert got[name].startswith("denied"), (name, got)
        assert "type-dir" not in got
    finally:
        os.close(fd)


def test_socket_as_standard_input(me, level, probes):
    probe = probes["fds"]
    ours, theirs = socket.socketpair()
    try:
        got = rows(me.outside([probe], stdin=theirs.fileno()).stdout)
        assert got["sendmsg"] == "allowed" and ours.recv(10) == b"x"
        theirs.setblocking(True)
        ours.shutdown(socket.SHUT_WR)
        done = me.run(["-r", probe], [probe], level, stdin=theirs.fileno())
        if done.returncode != 125:
            got = rows(done.stdout)
            assert got["sendmsg"].startswith("denied") and "type-socket" not in got
        ours.setblocking(False)
        try:
            assert ours.recv(10) == b""
        except BlockingIOError:
            pass
    finally:
        ours.close()
        theirs.close()


def test_file_open_for_writing_as_standard_input(me, level, probes):
    probe = probes["fds"]
    canary = me.write(me.out / "canary", "canary-canary")
    with open(canary, "r+b") as file:
        done = me.run(["-r", probe], [probe], level, stdin=file)
    assert done.returncode == 0, done.stderr
    got = rows(done.stdout)
    for name in ("ftruncate", "pwrite", "fchdir"):
        assert got[name].startswith("denied"), (name, got)
    assert canary.read_bytes() == b"canary-canary"
    assert os.stat(canary).st_mode & 0o777 == 0o644
    with open(canary, "r+b") as file:
        got = rows(me.outside([probe], stdin=file).stdout)
    assert got["pwrite"] == got["ftruncate"] == "allowed"
    assert canary.read_bytes() != b"canary-canary"


def test_standard_streams_that_are_closed(me, level):
    """A caller without streams: a file the command opens must not become one of cordon's."""
    for closed in ("0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"):
        script = f'exec "$@" {closed}'
        done = me.outside(["sh", "-c", script, "sh"] + me.argv([], ["sh", "-c", "exit 7"], level))
        assert done.returncode == 7, (closed, done)


def test_programs_behind_proc(me, level):
    """/proc/self/exe cannot be written, PID 1's program cannot even be read."""
    script = "for m in rb+ wb ab; do python3 - $m <<'X'\nimport sys\ntry:\n open('/proc/self/exe', sys.argv[1]); print('OPEN')\nexcept OSError as e: print('denied')\nX\ndone"
    done = me.run([], ["sh", "-c", script], level)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [b"denied"] * 3
    before = os.stat(me.cordon)
    if level == "namespaces":
        script = "cat /proc/1/exe | head -c 4; readlink /proc/1/exe; ls /proc/1/fd /proc/1/cwd /proc/1/root /proc/1/map_files"
        done = me.run([], ["sh", "-c", script], level)
        assert done.stdout == b"", done.stdout
        assert me.outside(["readlink", "/proc/self/exe"]).stdout  # the control
    after = os.stat(me.cordon)
    assert (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)


def test_few_descriptors_to_work_with(me, level):
    """With a low limit cordon works or refuses; it never runs with less protection."""
    canary = me.write(me.out / "canary", "canary")
    mark = me.work / "mark"
    script = f"cat {canary}; echo ran > {mark}"
    for limit in (4, 6, 8, 10, 12, 14, 16, 20, 24, 32):
        argv = me.argv(["-w", me.work], ["sh", "-c", script], level)
        done = me.outside(["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh"] + argv)
        assert b"canary" not in done.stdout
        if mark.exists():
            mark.unlink()
            assert done.returncode in (0, 1)
        else:
            assert done.returncode == 125 and done.stderr.startswith(b"cordon:"), (limit, done)
    argv = me.argv([], ["sh", "-c", "ulimit -n"], level)
    done = me.outside(["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"] + argv)
    assert done.returncode == 0, done.stderr


def test_stdin_pipe_is_not_shared(me, level):
    """Reading through the command does not take bytes the command never asked for... or at least
    the caller's pipe is never the command's: closing inside does not close outside."""
    proc = me.popen(
        me.argv([], ["sh", "-c", "exec 0<&-; echo ok"], level),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    out, _ = proc.communicate(b"x" * 100000)
    assert out == b"ok\n" and proc.returncode == 0
