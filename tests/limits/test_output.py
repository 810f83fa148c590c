# SPDX-License-Identifier: Apache-2.0
"""limits.output: head and tail are kept, the rest is counted, the pipe keeps draining."""

import json
import pathlib
import subprocess
import time

import pytest
from conftest import ceiling
from meter import wait_for

COUNT = """
import sys
out = getattr(sys, sys.argv[1]).buffer
for i in range(int(sys.argv[2])):
    out.write(b'%09d\\n' % i)
"""


def numbered(stream, count):
    return ["python3", "-c", COUNT, stream, str(count)]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_head_and_tail(me, level, stream):
    got = me.receipt(["--max-output", "1000"], numbered(stream, 100_000), level)
    assert (got["kind"], got["exit_code"]) == ("exited", 0), got
    other = "stderr" if stream == "stdout" else "stdout"
    assert got["truncated"] == {stream: True, other: False}
    text = got[stream]
    assert text.startswith("000000000\n000000001\n") and text.endswith("000099998\n000099999\n"), text[:40]
    assert got[other] == ""


def test_total_is_said(me, level):
    """The receipt tells how much there was, not only that something is missing."""
    got = me.receipt(["--max-output", "1000"], numbered("stdout", 100_000), level)
    assert "1000000" in json.dumps({k: v for k, v in got.items() if k not in ("stdout", "stderr")}), got


def test_exactly_the_limit_is_whole(me, level):
    got = me.receipt(["--max-output", "1000"], numbered("stdout", 100), level)
    assert got["truncated"]["stdout"] is False and len(got["stdout"]) == 1000
    got = me.receipt(["--max-output", "1000"], numbered("stdout", 101), level)
    assert got["truncated"]["stdout"] is True


@pytest.mark.parametrize("mode", ["--json", "plain"])
def test_a_gibibyte_flows(me, level, mode):
    """All of it is taken, none of it kept: the supervisor stays small."""
    opts = ["--max-output", "1M"] + (["--json"] if mode == "--json" else [])
    proc = me.popen(
        me.argv(opts, ["sh", "-c", "head -c 1G /dev/zero; echo end >&2"], level),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    status = pathlib.Path(f"/proc/{proc.pid}/status")
    highest = 0

    def size():
        nonlocal highest
        text = status.read_text() if status.exists() else ""
        for line in text.splitlines():
            if line.startswith("VmHWM:"):
                highest = max(highest, int(line.split()[1]))
        return proc.poll() is not None

    out = []
    import threading  # pylint: disable=import-outside-toplevel

    reader = threading.Thread(target=lambda: out.append(proc.stdout.read()))
    reader.start()
    wait_for(size, patience=ceiling(60), pause=0.01)
    reader.join()
    err = proc.stderr.read()
    proc.stdout.close()
    proc.stderr.close()
    assert proc.returncode == 0, err
    if mode == "--json":
        got = json.loads(out[0])
        assert got["truncated"]["stdout"] and got["stderr"] == "end\n"
    else:
        assert len(out[0]) < 1_200_000 and b"end\n" in err
    assert 0 < highest < 24 << 10, f"the supervisor grew to {highest} KiB"


def test_end_on_output(me, level):
    begin = time.monotonic()
    got = me.receipt(["--max-output", "64K", "--end-on-output"], ["yes"], level)
    assert (got["kind"], got["status"]) == ("output", 137), got["kind"]
    assert got["stdout"].startswith("y\ny\n") and len(got["stdout"]) <= 65536
    assert time.monotonic() - begin < 10


def test_end_on_output_of_the_error_stream(me, level):
    got = me.receipt(["--max-output", "64K", "--end-on-output"], ["sh", "-c", "yes >&2"], level)
    assert (got["kind"], got["status"]) == ("output", 137), got["kind"]


def test_end_on_output_says_so(me, level):
    done = me.run(["--max-output", "64K", "--end-on-output"], ["yes"], level)
    assert done.returncode == 137 and len(done.stdout) <= 65536 + 200
    assert b"cordon: " in done.stderr and b"output" in done.stderr, done.stderr


def test_end_on_output_below_the_limit(me, level):
    got = me.receipt(["--max-output", "64K", "--end-on-output"], ["head", "-c", "1000", "/dev/zero"], level)
    assert (got["kind"], got["exit_code"]) == ("exited", 0), got


def test_end_on_output_of_what_is_written_in_one_go(me, level):
    """More than the limit within one buffer, and the program is over before anybody has read it."""
    got = me.receipt(["--max-output", "1000", "--end-on-output"], ["head", "-c", "30000", "/dev/zero"], level)
    assert got["kind"] == "output", got["kind"]
