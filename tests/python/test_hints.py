# SPDX-License-Identifier: Apache-2.0
"""What the library suggests is said in Python's words: its own are flags of the command line."""

import pathlib
import re

import pytest

import pycordon
from pycordon import _flags, _hints

ROOT = pathlib.Path(__file__).resolve().parents[2]
HINTS = [
    ("to run without it: --best-effort memory", 'to run without it: best_effort=["memory"]'),
    ("add it: --commands ls,cat", 'add it: allowed_commands=["ls", "cat"]'),
    ("see --read and --commands", "see fs_read= and allowed_commands="),
    ("grant it with -r '/a b'", 'grant it with fs_read=["/a b"]'),
    ("or this one with -r .", 'or this one with fs_read=["."]'),
    ("in full (-w /home/ada) if you mean it", 'in full (fs_write=["/home/ada"]) if you mean it'),
    ("or deny it: --deny DIR", "or deny it: fs_deny=[DIR]"),
    ("--no-protect gives up the protection", "fs_protect=False gives up the protection"),
    ("or use --isolation landlock", 'or use isolation="landlock"'),
    ("let one be picked: --publish 0:80", 'let one be picked: net_publish=["0:80"]'),
    ("choose another with --user UID", "choose another with user=UID"),
    ("say how much: --max-output SIZE", "say how much: max_output_bytes=SIZE"),
    ("to make it: --workspace DIR --name x", 'to make it: fs_workspace=DIR name="x"'),
    # Commands stay commands.
    ("systemd-run --user --scope; or in a container", "systemd-run --user --scope; or in a container"),
    ("'chmod u+rwx /x' lets Cordon look", "'chmod u+rwx /x' lets Cordon look"),
    ("`cordon run --from` begins with a copy", "`cordon run --from` begins with a copy"),
    ("it was put out of git's reach", "it was put out of git's reach"),
]


@pytest.mark.parametrize("text, want", HINTS)
def test_flags_become_settings(text, want):
    assert _hints.in_python(text) == want


@pytest.mark.parametrize("fix, want", [
    ("--net-allow example.com:443", 'net_allow=["example.com:443"]'),
    ("--net-allow [2001:db8::1]:80", 'net_allow=["[2001:db8::1]:80"]'),
    ("-m 512M", "max_memory_mb=512"),
    ("-m 1536K", "max_memory_mb=1.5"),
    ("-P 512", "max_procs=512"),
    ("--cpus 1.5", "max_cpu_percent=150"),
    ("--disk 2G", 'limits_disk="2G"'),
    ("--cpu-time 2s", 'limits_cpu_time="2s"'),
    ("mv 'a' 'b'", None),
    (None, None),
])  # fmt: skip
def test_what_would_allow_it(fix, want):
    assert pycordon.Denial("x", "y", "z", fix).setting == want
    if want:
        pycordon.Policy(**eval(f"dict({want})"))  # it is one that can be given


def test_every_setting_that_has_a_flag_can_be_said():
    flags = {**_flags._REPEATED, **_flags._SINGLE, **_flags._JOINED}
    known = {key: flag for flag, (key, _) in _hints.FLAGS.items()}
    assert flags.items() <= known.items()
    for key in flags:
        pycordon.Policy().get(_hints.name_of(key))  # a PolicyError if there is no such setting


def hints_in_the_source():
    for path in sorted((ROOT / "src").rglob("*.c")):
        if path.relative_to(ROOT / "src").parts[0] in ("plan", "launch", "api", "workspace", "policy"):
            text = re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8"))
            for found in re.findall(r'hint\([^;]*?"((?:[^"\\]|\\.)*)"', text):
                yield found.replace("%s", "x").replace("%u", "1").replace("%.*s", "x")


def test_no_hint_of_the_library_shows_flags():
    seen = list(hints_in_the_source())
    flagged = [text for text in seen if re.search(r"(?<![\w-])--[a-z]", text)]
    assert len(seen) > 80 and len(flagged) > 10
    left = [text for text in map(_hints.in_python, flagged) if re.search(r"(?<!cordon run )(?<![\w-])--[a-z]", text)]
    assert not left, left


def test_errors_and_notes_are_in_pythons_words(place):
    with pytest.raises(pycordon.CordonError) as caught:
        pycordon.Sandbox(fs_read=[place], cwd=str(place.parent)).run("true")
    assert f'fs_read=["{place.parent}"]' in str(caught.value), caught.value
    (place / "not-executable").write_text("x")
    result = pycordon.run([str(place / "not-executable")], fs_read=[place])
    assert result.returncode == 126 and "--" not in f"{result.hint} {result.explain()}", result.hint
    for item in pycordon.check().items:
        assert not re.search(r"(?<!systemd-run )(?<!--user )--[a-z]", f"{item.detail} {item.remedy}"), item
