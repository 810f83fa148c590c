# SPDX-License-Identifier: Apache-2.0
"""Real git judges what hostile commands have left in a repository: a short part of `make fuzz-git`."""

import sys

import pytest

from conftest import ROOT, ceiling, needs

TRIES = 12
FUZZ = ROOT / "fuzz" / "git" / "run.py"


def fuzz(me, *args):
    needs("git", "strace")
    done = me.outside(
        [sys.executable, "-B", FUZZ, "--cordon", me.cordon, "--live", me.mkdir("fuzz"), "--quick", *args], timeout=ceiling(600)
    )
    return done.returncode, done.stdout.decode() + done.stderr.decode()


@pytest.mark.slow
def test_git_obeys_nothing_after_the_known_ways(me):
    status, text = fuzz(me, "--recipes", "--closed")
    assert status == 0 and "known ways, 0 bad" in text, text


@pytest.mark.slow
def test_git_obeys_nothing_after_ways_made_by_chance(me):
    status, text = fuzz(me, "--tries", TRIES, "--seed", "tests")
    assert status == 0 and f"{TRIES} tries" in text, text


@pytest.mark.slow
@pytest.mark.once
def test_the_known_ways_do_harm_without_a_sandbox(me):
    """The positive control."""
    status, text = fuzz(me, "--recipes", "--outside")
    assert status == 0 and "known ways, 0 bad" in text, text


@pytest.mark.once
def test_a_command_without_protection_is_found(me):
    """The judge finds what a run leaves behind, too, not only what is done outside."""
    status, text = fuzz(me, "--recipes", "nested", "config", "log-is-a-link", "--no-protect")
    assert status == 1 and text.count("FOUND") == 3, text
