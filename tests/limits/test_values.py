# SPDX-License-Identifier: Apache-2.0
"""Values of limits that mean nothing: one clear line, exit 125, nothing runs."""

import json

import pytest

RUN = ["sh", "-c", "echo x > ran"]

FLAGS = {
    "-t": "limits.wall",
    "--grace": "limits.grace",
    "-m": "limits.memory",
    "-P": "limits.procs",
    "--cpus": "limits.cpu",
    "--cpu-time": "limits.cpu_time",
    "--open-files": "limits.open_files",
    "--file-size": "limits.file_size",
    "--disk": "limits.disk",
    "--max-output": "limits.output",
}

NONSENSE = [
    "", " ", "5 m", " 5", "5 ", "-1", "+1", "1e99", "1e3", "0x10", "1.5.2", "1,5", "nan", "inf", "-inf", "NaN", "five",
    "99999999999999999999", "99999999999999999999G", "18446744073709551616", "9223372036854775808", "1..5", ".", "5\n",
    "5\t", "٣", "1M1", "--", "1;2", "-0", "1E", "unlimited", "none", "max",
]  # fmt: skip

# What only one of them can read, and what is beyond its range.
MORE = {
    "-t": ["0", "0s", "0ms", "5x", "10K", "100000d"],
    "--grace": ["5x", "10K", "2d", "400h"],
    "-m": ["0", "0M", "1", "4K", "5x", "10s", "9999999T", "1Q"],
    "-P": ["0", "1.5", "10K", "5s", "0.5", "-5"],
    "--cpus": ["0", "0.0", "0.000001", "-0.5", "5x", "50%", "10K", "1s", "100000"],
    "--cpu-time": ["0", "0s", "5x", "10K"],
    "--open-files": ["0", "1", "1.5", "10K"],
    "--file-size": ["5x", "10s", "1Q"],
    "--disk": ["0", "1", "5x", "10s", "9999999T"],
    "--max-output": ["5x", "10s", "1Q"],
}


def refused(me, argv):
    """Exit 125, one line (and perhaps a hint), nothing on standard output, and nothing ran."""
    mark = me.work / "ran"
    done = me.outside([me.cordon, "run", "-w", ".", *argv])
    assert done.returncode == 125, (argv, done)
    assert done.stdout == b"", done.stdout
    said = done.stderr.decode()
    assert said.startswith("cordon: ") and 1 <= said.count("\n") <= 2, said
    assert not mark.exists(), "it ran"
    return said


@pytest.mark.parametrize("flag", FLAGS)
def test_flags(me, flag):
    for text in NONSENSE + MORE[flag]:
        said = refused(me, [flag, text, "--", *RUN])
        assert FLAGS[flag] in said or flag in said or FLAGS[flag].split(".")[1] in said, (text, said)


def test_the_same_flags_with_sensible_values(me):
    """Positive control: the refusals above come from the values."""
    for argv in (["-t", "5s"], ["--grace", "1s", "-t", "5"], ["-m", "64M"], ["-P", "32"], ["--cpus", "1.5"],
                 ["--cpu-time", "5s"], ["--open-files", "64"], ["--file-size", "1M"], ["--disk", "8M"],
                 ["--max-output", "10K"]):  # fmt: skip
        (me.work / "ran").unlink(missing_ok=True)
        done = me.outside([me.cordon, "run", "-w", ".", *argv, "--", *RUN])
        assert done.returncode == 0 and (me.work / "ran").exists(), (argv, done)


POLICIES = [
    ('"-1"', None), ("-1", None), ("1e99", None), ("1e3", None), ("null", None), ("true", None), ("[]", None),
    ("{}", None), ('""', None), ('"5 m"', None), ('"1.5.2"', None), ('"99999999999999999999G"', None),
    ("99999999999999999999", None), ("0", {"wall", "memory", "procs", "cpu", "cpu_time", "open_files", "disk"}),
    ('"0"', {"wall", "memory", "procs", "cpu", "cpu_time", "open_files", "disk"}), ("1.5", {"procs", "open_files"}),
    ("NaN", None), ("Infinity", None), ("0x10", None), ("01", None), ("1,", None), ("[1, 2]", None),
    ('"nan"', None), ('"1e99"', None),
]  # fmt: skip


@pytest.mark.parametrize("key", [k.split(".")[1] for k in FLAGS.values()])
def test_policy_files(me, key):
    for text, only in POLICIES:
        if only and key not in only:
            continue
        me.write(me.work / "p.json", f'{{"limits": {{"{key}": {text}}}}}')
        refused(me, ["-p", "p.json", "--", *RUN])


@pytest.mark.parametrize("text, nearest", [
    ('{"limits": {"wal": "5s"}}', "wall"),
    ('{"limits": {"memroy": "64M"}}', "memory"),
    ('{"limits": {"cputime": "5s"}}', "cpu_time"),
    ('{"limits": {"cpus": 1}}', "cpu"),
    ('{"limits": {"filesize": "1M"}}', "file_size"),
    ('{"limits": {"output_ends": true}}', "output_end"),
    ('{"best_efort": ["memory"]}', "best_effort"),
])  # fmt: skip
def test_misspelt_keys(me, text, nearest):
    me.write(me.work / "p.json", text)
    assert nearest in refused(me, ["-p", "p.json", "--", *RUN])


@pytest.mark.parametrize("flag, nearest", [
    ("--memroy", "--memory"), ("--cpu", "--cpus"), ("--cputime", "--cpu-time"), ("--gracee", "--grace"),
    ("--dsik", "--disk"), ("--filesize", "--file-size"), ("--best-efort", "--best-effort"), ("--usgae", "--usage"),
])  # fmt: skip
def test_misspelt_flags(me, flag, nearest):
    assert nearest in refused(me, [flag, "1", "--", *RUN])


CONTRADICTIONS = [
    (["--end-on-output"], "--end-on-output without a limit of the output"),
]


@pytest.mark.parametrize("argv, why", CONTRADICTIONS, ids=[" ".join(c[0]) for c in CONTRADICTIONS])
def test_contradictions(me, argv, why):
    """Either refused, or shown to have a meaning; never swallowed without effect."""
    done = me.outside([me.cordon, "run", "-w", ".", *argv, "--", *RUN])
    assert done.returncode == 125 and not (me.work / "ran").exists(), f"{why}: {done}"
    assert done.stderr.startswith(b"cordon: "), done.stderr


@pytest.mark.parametrize("argv", [
    ["--best-effort", "nonsense"], ["--best-effort", ""], ["--best-effort", "memory,"], ["--best-effort", "limits.memory"],
    ["--best-effort", "all"],
], ids=str)  # fmt: skip
def test_best_effort_names(me, argv):
    refused(me, [*argv, "-m", "64M", "--", *RUN])


def test_a_later_value_wins(me):
    """Not a contradiction: the documented way to override a preset or a file."""
    done = me.outside([me.cordon, "policy", "show", "--json", "-m", "64M", "-m", "128M", "-t", "1s", "-t", "2s"])
    assert json.loads(done.stdout)["policy"]["limits"] == {"memory": "128M", "wall": "2s"}, done
