# SPDX-License-Identifier: Apache-2.0
"""The transcripts of docs/explain.md happen."""

import os
import pathlib
import re

import pytest

from conftest import PATH, needs

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = pathlib.Path(os.environ.get("CORDON_SOURCE", ROOT), "docs/explain.md")


def transcripts():
    """[(command, what it prints)]"""
    found = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, printed = part.partition("\n")
            found.append((command, printed))
    return found


def test_there_are_some():
    assert len(transcripts()) > 8


@pytest.mark.parametrize("number", range(len(transcripts())))
def test_a_transcript(me, number):
    needs("perl", "git", "unshare")
    command, printed = transcripts()[number]
    (me.base / "data").mkdir()
    me.write(me.base / "data/table.csv", "1,2,3\n")
    me.own(me.base / "data")
    me.work.rename(me.base / "project")
    me.work = me.base / "project"
    me.write(me.work / "notes", "x\n")
    me.outside(["git", "init", "-q", "."], check=True)
    bin_dir = me.mkdir("bin")
    (bin_dir / "cordon").symlink_to(me.cordon)
    if command.startswith("cordon run "):
        command = command.replace("cordon run ", "cordon run --isolation namespaces ", 1)
    done = me.outside(["sh", "-c", f"{command} 2>&1"], env={"PATH": f"{bin_dir}:{PATH}"})
    assert done.stdout.decode().replace(str(me.base), "/srv") == printed, done
