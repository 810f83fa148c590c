# SPDX-License-Identifier: Apache-2.0
"""Code of a run lies in the host's memory where nobody else looks: for its time, and nowhere that another
run is shown."""

import errno
import os

import pytest

import pycordon
from pycordon import _store
from pycordon._code import Drop

IN_MEMORY = f"/dev/shm/pycordon-{os.geteuid()}"
#: Where in /dev/shm files lie that have this text in them; other users run these tests at the same time.
MARK = os.urandom(8).hex()
SEEK = """
import os
found = []
for place, _, names in os.walk("/dev/shm"):
    for name in names:
        try:
            with open(os.path.join(place, name)) as file:
                found += [place] * ("MARK" in file.read())
        except (OSError, UnicodeDecodeError):
            pass
print(found, flush=True)
""".replace("MARK", MARK)


@pytest.fixture(autouse=True)
def view():
    """At level landlock runs see the host's paths, and code never lies in memory."""
    with pycordon.Sandbox() as box:
        if box._engine.level == "landlock":
            pytest.skip("no view of its own here")


def outside():
    """What the code finds without a sandbox."""
    said = []
    exec(compile(SEEK, "outside", "exec"), {"print": lambda found, flush: said.append(found)})
    return said[0]


def test_for_the_time_of_its_run():
    during = []
    with pycordon.Sandbox() as box:
        got = box.run_code(SEEK + "import time; time.sleep(0.3)", on_stdout=lambda data: during.append(outside()))
    assert got.stdout == "[]\n", got
    assert len(during[0]) == 1 and during[0][0].startswith(IN_MEMORY + "/.c"), during
    place = os.path.dirname(during[0][0])
    assert outside() == [] and not os.path.exists(place)


@pytest.mark.parametrize("grant", ["/", IN_MEMORY])
def test_not_where_a_run_may_look(grant):
    os.makedirs(IN_MEMORY, 0o700, exist_ok=True)
    during = []
    with pycordon.Sandbox(fs_read=[grant]) as box:
        got = box.run_code(SEEK + "import time; time.sleep(0.3)", on_stdout=lambda data: during.append(outside()))
    assert got.stdout == "[]\n" and during == [[]], (got, during)


ATTACK = """
for place in $(find /dev/shm -name main.py); do echo "$place"; echo "print('owned')" >"$place"; done
mkdir -p {place} && echo "print('owned')" >{place}/main.py
"""


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
@pytest.mark.parametrize("grant", ["fs_read", "fs_write"])
def test_another_run_cannot_reach_it(grant, level):
    """Not even one that is granted this very place: there the library hides it, or refuses."""
    seen = []

    def attack(data):
        if seen:
            return
        seen.extend(outside())  # the control
        command = ATTACK.replace("{place}", seen[0] + "/more")
        try:
            with pycordon.Sandbox(isolation=level, **{grant: [IN_MEMORY]}) as other:
                seen.append(other.run(command).stdout)
        except pycordon.UnsupportedError as error:
            assert (grant, level) == ("fs_write", "landlock") and IN_MEMORY in str(error), error
            seen.append("")
        seen.append(os.listdir(seen[0]))

    with pycordon.Sandbox() as box:
        code = SEEK + "import time; time.sleep(1)\nprint(open(__file__).read().count('owned'))"
        got = box.run_code(code, on_stdout=attack)
    assert seen[1:] == ["", ["main.py"]] and got.stdout == "[]\n1\n", (seen, got)


def places(box, code="print(1)", **arguments):
    """Where the code of a run lies; the run is fine."""
    found, close = [], Drop.close
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Drop, "close", lambda drop: (found.append(drop.path), close(drop)))
        got = box.run_code(code, **arguments)
    assert got.ok and not any(map(os.path.exists, found)), (got, found)
    return found


def test_only_what_is_small_and_only_read():
    """Elsewhere an administrator may have forbidden to execute anything, and there is less room."""
    with pycordon.Sandbox() as box:
        [small], [with_files] = places(box), places(box, files={"beside": "x"})
        [large] = places(box, "#" * 300_000)
    assert small.startswith(IN_MEMORY) and not (with_files + large).count(IN_MEMORY)


def test_a_place_that_is_not_ours_alone_is_not_used(tmp_path, monkeypatch):
    """Who makes the directory before us could read our code, or change it."""
    other, link = tmp_path / "other", tmp_path / "link"
    other.mkdir(0o700)
    link.symlink_to(other)
    tmp_path.chmod(0o1700)  # as /dev/shm: nobody takes what is ours
    with pycordon.Sandbox() as box:
        monkeypatch.setattr(_store, "place_in_memory", lambda: str(other))
        assert places(box)[0].startswith(str(other))  # the control
        for mode, path in ((0o770, other), (0o707, other), (0o700, link)):
            other.chmod(mode)
            monkeypatch.setattr(_store, "place_in_memory", lambda path=path: str(path))
            assert not places(box)[0].startswith((str(other), str(link))), (mode, path)
        other.chmod(0o700)
        tmp_path.chmod(0o700)
        monkeypatch.setattr(_store, "place_in_memory", lambda: str(other))
        assert not places(box)[0].startswith(str(other))


def test_no_room(monkeypatch):
    """Then it lies on disk."""
    write = Drop.write

    def full(drop, *arguments):
        if drop.path.startswith(IN_MEMORY):
            raise OSError(errno.ENOSPC, "no room")
        write(drop, *arguments)

    monkeypatch.setattr(Drop, "write", full)
    with pycordon.Sandbox() as box:
        first, second = places(box)
    assert first.startswith(IN_MEMORY) and not second.startswith(IN_MEMORY)


def test_nothing_stays_of_forked_children(host):
    """Such a child ends without tidying up."""
    done = host(
        """
        import os, sys, pycordon
        from pycordon._code import Drop
        close, paths = Drop.close, []
        def noted(drop):
            print(os.path.dirname(drop.path), flush=True)
            close(drop)
        Drop.close = noted
        with pycordon.Sandbox() as box:
            assert box.run_code("print(1)").ok
            pid = os.fork()
            if pid == 0:
                os._exit(not box.run_code("print(1)").ok)
            assert os.waitpid(pid, 0)[1] == 0
        """
    )
    said = done.stdout.split()
    assert len(said) == 2 and not any(map(os.path.exists, said)), said


def test_what_a_killed_program_leaves_is_swept(host):
    left = host(
        """
        import os, sys, pycordon
        from pycordon._code import Drop
        Drop.close = lambda drop: (print(os.path.dirname(drop.path), flush=True), os.kill(os.getpid(), 9))
        pycordon.Sandbox().run_code("print(1)")
        """, check=False
    ).stdout.strip()  # fmt: skip
    assert left.startswith(IN_MEMORY) and os.path.isdir(left)
    os.utime(left, (1, 1))
    host("import pycordon; assert pycordon.Sandbox().run_code('print(1)').ok")
    assert not os.path.exists(left)
