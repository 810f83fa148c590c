# SPDX-License-Identifier: Apache-2.0
"""Real git judges what hostile commands have left in a repository: a short part of `make fuzz-git`."""

import json
import sys

import pytest

from conftest import ROOT, ceiling, needs

TRIES = 8
FUZZ = ROOT / "fuzz" / "git" / "run.py"


def fuzz(me, *args, quick=True):
    needs("git", "strace")
    more = ["--quick"] if quick else []
    done = me.outside(
        [sys.executable, "-B", FUZZ, "--cordon", me.cordon, "--live", me.mkdir("fuzz"), *more, *args], timeout=ceiling(600)
    )
    return done.returncode, done.stdout.decode() + done.stderr.decode()


@pytest.mark.slow
def test_git_obeys_nothing_after_the_known_ways(me):
    status, text = fuzz(me, "--recipes", "--standing")
    assert status == 0 and "known ways, 0 bad" in text, text


@pytest.mark.slow
def test_git_obeys_nothing_after_ways_made_by_chance(me):
    status, text = fuzz(me, "--tries", TRIES, "--same", TRIES // 2, "--seed", me.name)
    assert status == 0 and f"{TRIES} tries" in text, text


@pytest.mark.slow
@pytest.mark.once
def test_the_known_ways_do_harm_without_a_sandbox(me):
    """The positive control."""
    status, text = fuzz(me, "--recipes", "--standing", "--outside")
    assert status == 0 and "known ways, 0 bad" in text, text


@pytest.mark.once
def test_a_command_without_protection_is_found(me):
    """The judge finds what a run leaves behind, too, not only what is done outside."""
    status, text = fuzz(me, "--recipes", "nested", "config", "log-is-a-link", "--no-protect")
    assert status == 1 and text.count("FOUND") == 3, text


@pytest.mark.once
def test_a_hook_that_is_not_as_the_user_had_it_is_found(me):
    """None of these hooks starts anything: the judge knows them by their bytes and their place."""
    status, text = fuzz(
        me, "--recipes", "hook-of-the-user-changed", "hook-of-the-user-without-its-first-line", "hooks-of-the-user-in-another-place", "--no-protect"
    )
    assert status == 1 and text.count("FOUND") == 3 and text.count("not as the user had it") >= 3, text


@pytest.mark.slow
@pytest.mark.once
def test_the_users_own_hooks_are_no_finding(me):
    """The host's commits go to the guest's branch, so that its checkouts take the link to the hooks away afterwards."""
    recipe = {
        "spec": ["plain", "linked-hooks", "samples", False, 2], "runs": [{"steps": [["git", "checkout", "-q", "-b", "w"]]}],
        "kind": "none", "way": "branch", "commits": False, "via": "write",
    }  # fmt: skip
    status, text = fuzz(me, "--replay", me.write(me.work / "recipe", json.dumps(recipe)), quick=False)
    assert status == 0 and "runs ended with [0]" in text, text
