# SPDX-License-Identifier: Apache-2.0
"""_cordon.file_states(): what tells whether files have changed."""

import os

import pytest

from pycordon import _cordon


def states(*paths):
    return _cordon.file_states(b"".join(os.fsencode(path) + b"\0" for path in paths))


def test_each_change_is_seen(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("a")
    other.write_text("a")
    os.utime(one, ns=(5, 5))
    os.utime(other, ns=(5, 5))
    seen = [states(one, other)]

    def changed():
        seen.append(states(one, other))
        return seen[-1] not in seen[:-1]

    one.write_text("ab")
    os.utime(one, ns=(5, 5))
    assert changed()  # its size
    os.utime(one, ns=(5, 6))
    assert changed()  # its time
    other.rename(tmp_path / "third")
    assert changed()  # gone
    other.mkdir()
    assert seen[-1] == states(one, other)  # what is no file is as if it were gone
    other.rmdir()
    other.write_text("a")
    os.utime(other, ns=(5, 5))
    assert changed()  # another file with the same content, size and time
    assert states(one, other) == states(one, other) != states(other, one)


def test_many_directories(tmp_path):
    """Each path is looked up as if it were alone."""
    paths = []
    for name in ("a", "b", "ab"):
        (tmp_path / name).mkdir()
        for file in ("x", "y"):
            (tmp_path / name / file).write_text(name)
            paths.append(tmp_path / name / file)
    (tmp_path / "link").symlink_to("a")
    paths += [tmp_path / "link" / "x", tmp_path / "gone" / "x", paths[0], tmp_path / "a", "/" + "x" * 5000]
    assert states(*paths) == b"".join(states(path) for path in paths)
    assert states(paths[0]) == states(tmp_path / "link" / "x") != states(paths[1])


def test_what_is_not_there():
    assert states() == b""
    assert states("/nonexistent", "", "/etc", "no/absolute/path", b"\xff") == bytes(len(states("/nonexistent")) * 5)


def test_bad_arguments():
    with pytest.raises(TypeError):
        _cordon.file_states("text\0")
    with pytest.raises(ValueError):
        _cordon.file_states(b"/etc/passwd")
