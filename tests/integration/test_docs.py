# SPDX-License-Identifier: Apache-2.0
"""The documents keep up with the program: every key, flag, code, stage and link."""

import json
import os
import pathlib
import re
import subprocess
import time

import pytest

import differences

HERE = pathlib.Path(__file__).resolve().parent.parent.parent
# The suites run from a staged copy, which lacks the top of the tree; the checkout may be closed.
SOURCE = pathlib.Path(os.environ.get("CORDON_SOURCE", HERE))
ROOT = SOURCE if os.access(SOURCE / "README.md", os.R_OK) else HERE
CORDON = os.environ.get("CORDON", str(ROOT / "build" / "release" / "cmd" / "cordon" / "cordon"))
PAGES = sorted(ROOT.glob("docs/**/*.md")) + sorted(ROOT.glob("*.md"))


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def output_of(*args):
    return subprocess.run([CORDON, *args], stdout=subprocess.PIPE, check=True).stdout.decode()


def policy_keys():
    """Every setting of the schema as "group.key" or "key"."""
    keys = []
    for name, value in json.loads(output_of("policy", "schema"))["properties"].items():
        group = value.get("properties")
        keys += [f"{name}.{k}" for k in group] if group else [name]
    return keys


def run_flags():
    """Every flag of `cordon run --help`, short and long."""
    text = output_of("run", "--help").partition("\n\n")[0]  # without the examples
    flags = re.findall(r"(?:(-\w), )?(--[a-z-]+)", text)
    return [flag for pair in flags for flag in pair if flag]


def header_names(name, prefix):
    """Names of an enum in a header, without its closing _MAX."""
    return [n for n in re.findall(rf"^\t({prefix}\w+)\b", text_of(name), re.M) if not n.endswith("_MAX")]


def test_the_tables_are_not_empty():
    assert "fs.read" in policy_keys() and "limits.wall" in policy_keys() and "user" in policy_keys()
    assert {"-r", "--read", "--no-protect", "-v", "--dry-run"} <= set(run_flags())


def test_every_key_is_in_the_reference():
    page = text_of("docs/policy.md")
    assert [k for k in policy_keys() if f"`{k}`" not in page] == []


def test_the_reference_names_no_key_that_does_not_exist():
    rows = re.findall(r"^\| `((?:fs|env|limits|net)\.\w+|cwd|commands|isolation|require|user)` \|", text_of("docs/policy.md"), re.M)
    assert len(rows) > 10
    assert [k for k in rows if k not in policy_keys()] == []


def test_every_flag_is_in_the_reference():
    page = text_of("docs/policy.md")
    missing = [f for f in run_flags() if not re.search(rf"`{re.escape(f)}(?![\w-])", page)]
    assert missing == []


def test_every_flag_is_in_the_man_page():
    page = text_of("man/cordon-run.1.scd")
    assert [f for f in run_flags() if f"*{f}*" not in page] == []


def test_the_reference_names_no_flag_that_does_not_exist():
    words = set(re.findall(r"`(?:-\w`, `)?(--[a-z-]+)", text_of("docs/policy.md")))
    assert words - set(run_flags()) == set()


def test_every_preset_is_described():
    schema = json.loads(output_of("policy", "schema"))["properties"]["preset"]["anyOf"][0]["enum"]
    page = text_of("docs/policy.md")
    assert [name for name in schema if f"| `{name}` |" not in page] == []


def test_numbers_of_presets_are_true():
    page = text_of("docs/policy.md")
    for name in ("agent", "python", "node", "build", "strict"):
        limits = json.loads(output_of("policy", "show", "--json", "--preset", name))["policy"].get("limits", {})
        row = re.search(rf"^\| `{name}` \|(.*)$", page, re.M).group(1).split("|")
        cells = {"procs": row[2].strip(), "open_files": row[3].strip(), "output": row[4].strip()}
        for key, cell in cells.items():
            assert cell == str(limits.get(key, "")), (name, key)
        assert row[1].strip() in (limits["wall"], {"1m": "60s"}.get(limits["wall"])), name


def test_every_error_code_is_explained():
    page = text_of("docs/errors.md")
    names = header_names("include/cordon/error.h", "CORDON_E_")
    assert len(names) > 8
    for name in names:
        short = name[len("CORDON_E_") :].lower()
        assert f"| `{short}` | `{name}`" in page, name


def test_every_stage_is_explained():
    page = text_of("docs/errors.md")
    if not (ROOT / "src").exists():  # a staged tree has no sources: the names come from -v
        done = subprocess.run([CORDON, "run", "-v", "--", "true"], stderr=subprocess.PIPE, check=True)
        line = re.search(r"done after \(us\):(.*)", done.stderr.decode()).group(1)
        stages = re.findall(r"[a-z]+", line)
    else:
        stages = [n[len("STAGE_") :].lower() for n in header_names("src/format/stage.h", "STAGE_")]
    assert len(stages) > 6
    assert [s for s in stages if f"| `{s}` |" not in page] == []


def test_every_receipt_field_is_explained():
    done = subprocess.run([CORDON, "run", "--json", "--", "true"], stdout=subprocess.PIPE, check=True)
    page = text_of("docs/policy.md")
    for name, value in json.loads(done.stdout).items():
        names = [f"{name}.{k}" for k in value] if isinstance(value, dict) else [name]
        assert [n for n in names if f"`{n}`" not in page] == []


def fields_of(value):
    """The names of all members, at any depth."""
    if isinstance(value, list):
        return {name for one in value for name in fields_of(one)}
    if not isinstance(value, dict):
        return set()
    return set(value) | {name for one in value.values() for name in fields_of(one)}


def test_every_field_of_a_session_is_explained():
    page = text_of("man/cordon-session.1.scd")
    name = output_of("session", "start").strip()
    try:
        output_of("session", "exec", "-d", name, "--", "sleep", "60")
        output_of("session", "exec", "-d", "-t", "1ms", name, "--", "sleep", "60")
        end = time.monotonic() + 30
        while all(c["running"] for c in json.loads(output_of("session", "ps", "--json", name))["commands"]):
            assert time.monotonic() < end
            time.sleep(0.02)
        told = [json.loads(output_of("session", "ps", "--json", name)), json.loads(output_of("session", "ls", "--json", name, "/usr"))]
        assert {"kind", "mtime_ns"} <= fields_of(told)
    finally:
        stopped = json.loads(output_of("session", "stop", "--json", name))
    told += [list(stopped), stopped["session"]]
    names = fields_of(told) | set(stopped)
    assert sorted(n for n in names if f"_{n}_" not in page) == []


def test_every_field_of_the_other_lists_is_explained(tmp_path):
    page = text_of("man/cordon-check.1.scd")
    got = subprocess.run([CORDON, "check", "--json"], stdout=subprocess.PIPE).stdout
    names = set(json.loads(got)) | fields_of(json.loads(got)["layers"])
    assert sorted(n for n in names if f"_{n}_" not in page) == []
    page = text_of("man/cordon-pool.1.scd")
    status = subprocess.run([CORDON, "pool", "status", "--json"], stdout=subprocess.PIPE).stdout
    assert sorted(n for n in fields_of(json.loads(status)) if f"_{n}_" not in page) == []
    for verb in ("cache", "sandbox"):
        env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
        done = subprocess.run([CORDON, verb, "gc", "--json"], stdout=subprocess.PIPE, check=True, env=env)
        page = text_of(f"man/cordon-{verb}.1.scd")
        assert sorted(n for n in fields_of(json.loads(done.stdout)) if f"_{n}_" not in page) == []


def test_every_kind_is_explained():
    row = re.search(r"^\| `kind` \|(.*)$", text_of("docs/policy.md"), re.M).group(1)
    kinds = header_names("include/cordon/run.h", "CORDON_KIND_")
    for kind in kinds:
        if kind != "CORDON_KIND_NONE":
            assert f"`{kind[len('CORDON_KIND_'):].lower()}`" in row, kind


def anchors(page):
    """The anchors that a renderer makes of a page's headings."""
    made = set()
    for line in re.sub(r"^```.*?^```", "", page, flags=re.M | re.S).splitlines():
        if re.match(r"#+ ", line):
            title = re.sub(r"[`*]", "", line.lstrip("#").strip()).lower()
            made.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return made


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.is_relative_to(ROOT):
            pytest.fail(f"{target} leads out of the tree")
        # What a staged copy leaves out (the top of the tree) is looked at in the checkout.
        if not file.exists() and not (ROOT / "src").exists() and file.parent == ROOT:
            continue
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file.read_text(encoding="utf-8")), target


NAMED_FILE = re.compile(r"`([\w./*-]+\.(?:c|h|py|sh|tbl|map|scd))(?:`|\b)")
ROOMS = ("src", "cmd", "include", "bindings", "tests", "tools", "bench", "examples", "fuzz", "man")
# Pages about the source. The others also name files of users.
ABOUT_SOURCE = re.compile(r"docs/(architecture|where|testing|style|benchmarks|decisions/.*)\.md$")


@pytest.mark.skipif(not (ROOT / "src").exists(), reason="a staged tree has no sources")
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_source_files_that_are_named_exist(page):
    missing = []
    for name in NAMED_FILE.findall(page.read_text(encoding="utf-8")):
        if "NAME" in name:
            continue
        if name.split("/")[0] in ROOMS:
            found = any(ROOT.glob(name))
        elif "/" not in name and ABOUT_SOURCE.search(page.as_posix()):
            found = any(next((ROOT / room).rglob(name), None) for room in ROOMS)
        else:
            continue
        if not found:
            missing.append(name)
    assert missing == []


@pytest.mark.skipif(not (ROOT / "src").exists(), reason="a staged tree has no sources")
def test_every_room_is_in_the_architecture_with_its_tier():
    rooms = re.findall(r'^    "([\w/]+)": (\d),$', text_of("tools/check-layers.py"), re.M)
    assert len(rooms) > 20
    rows = dict(re.findall(r"^\| (\d) \|(.*?)\|", text_of("docs/architecture.md"), re.M))
    for room, tier in rooms:
        parent, _, name = room.rpartition("/")
        assert any(f"`{word}`" in rows[tier] for word in (room, parent, f"{parent}/*", name)), room


def test_tests_named_in_the_threat_model_exist():
    names = set(re.findall(r"`(tests/[\w/.]+)`", text_of("docs/threat-model.md")))
    assert len(names) > 10
    assert [n for n in names if not (ROOT / n).exists()] == []


def test_every_escape_suite_backs_a_promise():
    page = text_of("docs/threat-model.md")
    suites = [p.relative_to(ROOT).as_posix() for p in ROOT.glob("tests/escape/test_*.py")]
    assert [s for s in suites if f"`{s}`" not in page] == []


def test_differences_between_kernels():
    """Every row of the table is used by a test, every use has a row, and no test looks at a version."""
    used = set()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.name in ("differences.py", "test_docs.py") or "adapters" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        used |= set(re.findall(r'kernel_lacks\("([^"]+)"\)', text))
        assert "uname().release" not in text and "platform.release" not in text, path
    assert used == set(differences.table()) and used
