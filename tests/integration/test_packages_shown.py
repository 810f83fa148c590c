# SPDX-License-Identifier: Apache-2.0
"""--with: what is seen of an installation on a terminal, and packages of a session."""

# ruff: noqa: F811
import os

from conftest import ceiling, settles
from packageslib import wheel
from terminallib import outer  # noqa: F401
from test_packages import gc, index, layers, level, listed, python, use  # noqa: F401


def test_progress_on_a_terminal(me, use, index, outer):
    """The installer's lines as they come, each in the place of the one before, and none at the end. A line fits
    the terminal; elsewhere, and with -q, nothing is shown."""
    index.add(wheel("one", requires=["two-of-a-name-that-is-longer-than-the-terminal-is-wide"]))
    index.add(wheel("two_of_a_name_that_is_longer_than_the_terminal_is_wide"))
    settings = ["/usr/bin/env", *(f"{name}={value}" for name, value in index.env.items())]
    command = python("import one; print('ran')")
    term = outer([], [], size=(30, 40), argv=[*settings, *me.argv(["--with", "one"], command)])
    shown = term.expect(b"\r\n?ran\r\n|ran\r\n", ceiling(60)).string
    assert term.end() == 0
    steps = shown.split(b"ran\r\n")[0].split(b"\r\x1b[K")
    lines, last = steps[1:-1], steps[-1]
    assert steps[0] == b"" and last == b"" and len(lines) >= 3, shown
    assert all(line.startswith(b"cordon: packages: ") and len(line) <= 40 for line in lines), lines
    assert any(line.startswith(b"cordon: packages: Collecting one") for line in lines), lines
    gc(me, "--older-than", "0s")
    quiet = outer([], [], argv=[*settings, *me.argv(["-q", "--with", "one"], command)])
    assert quiet.end(ceiling(60)) == 0 and quiet.seen.startswith(b"ran\r\n") and b"packages" not in quiet.seen
    gc(me, "--older-than", "0s")
    done = use(["--with", "one"], command)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"ran\n", b"")


def test_a_session_with_packages(me, use, index, level):
    """All its commands see them, and they are in use as long as it lives."""
    index.add(wheel("tool", files={"tool.py": "def main(): print('tool runs')\n"}, scripts={"cordon-tool": "tool:main"}))
    name = f"packages-{os.getpid()}"

    def session(verb, *words):
        return me.outside([me.cordon, "session", verb, *words], env=index.env)

    start = ["start", "--name", name, "--isolation", level]
    wrong = session(*start, "--with", "nosuch==3")
    assert (wrong.returncode, wrong.stdout) == (125, b"") and b"No matching distribution found for nosuch==3" in wrong.stderr
    assert session(*start, "--with-build").returncode == 125
    assert session("exec", name, "--", "true").returncode == 125  # there is none
    try:
        done = session(*start, "--with", "tool")
        assert (done.returncode, done.stdout, done.stderr) == (0, name.encode() + b"\n", b""), done
        for command in (["cordon-tool"], python("import tool; tool.main()"), ["sh", "-c", "cordon-tool"]):
            done = session("exec", name, "--", *command)
            assert (done.returncode, done.stdout) == (0, b"tool runs\n"), done
        [layer] = listed(me)
        assert layer["in_use"]
        assert gc(me, "--older-than", "0s").startswith("nothing") and len(layers(me)) == 1
        spoil = session("exec", name, "--", *python("import os, tool; os.chmod(tool.__file__, 0o644); open(tool.__file__, 'w')"))
        assert spoil.returncode == 1
    finally:
        session("stop", name)
    assert settles(lambda: [layer for layer in listed(me) if layer["in_use"]]) == []
    assert not gc(me, "--older-than", "0s").startswith("nothing") and layers(me) == []
