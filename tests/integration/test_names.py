# SPDX-License-Identifier: Apache-2.0
"""The package index has a `cordon` that is somebody else's. Ours is `pycordon`, and nothing that a
user reads, copies or runs may install or import another name."""

import os
import pathlib
import re

import pytest

HERE = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCE = pathlib.Path(os.environ.get("CORDON_SOURCE", HERE))
ROOT = SOURCE if os.access(SOURCE / "README.md", os.R_OK) else HERE
# What users see, and what prints to them.
PLACES = ("docs", "man", "examples", "cmd", "bindings", "bench", "tools", "src", "include", "tests/adapters")
KINDS = {".py", ".pyi", ".md", ".scd", ".txt", ".toml", ".sh", ".c", ".h", ".json", ".in", ".build", ".cfg", ".yaml", ".yml", ""}

INSTALL = re.compile(r"\b(?:pip[x3]?|uv|poetry|pdm|conda|pip\.main)\b[^\n`]*?\b(?:install|add|run|download)\b([^\n`#]*)")
# A requirement: at the start of a line or a string, with a version, a marker or extras.
REQUIREMENT = re.compile(r"(?:^|[\"'])\s*([\w.-]*cordon[\w.-]*)\s*(?:\[[\w, -]+\]\s*(?:[\"'=<>~!;]|$)|(?:===?|~=|!=|[<>]=?)\s*[\d@])", re.I | re.M)
EXTRAS = re.compile(r"(?<![\w.-])([\w-]*cordon)\[(?:NAME|[a-z][a-z0-9-]+)\]")
IMPORT = re.compile(r"(?:^|[\"'`;>]|\\n)[ \t]*(?:import (?:[\w.]+, )*|from )([\w]*cordon)\b(?!\.(?:json|1)\b)", re.M)
MODULE = re.compile(r"\bpython[\d.]* (?:-\w+ )*-m ([\w-]*cordon)\b|\"-m\", \"([\w-]*cordon)\"")
ATTRIBUTE = re.compile(r"(?<![\w./<-])([\w]*cordon)\.(?:adapters|Sandbox|AsyncSandbox|SandboxConfig|Policy|run|confine|check|command|workspaces)\b")
OURS = "pycordon"


def slips(text):
    """Names in `text` that are installed or imported in place of `pycordon`."""
    text = "\n".join(line for line in text.splitlines() if "cordon" in line)
    found = []
    for words in INSTALL.findall(text):
        for word in re.findall(r"(?<![\w./$*{}-])[A-Za-z][\w.-]*", words):
            if "cordon" in word.lower() and not word.endswith(".whl"):
                found.append(word)
    for pattern in (REQUIREMENT, EXTRAS, IMPORT, MODULE, ATTRIBUTE):
        for got in pattern.findall(text):
            found += [got] if isinstance(got, str) else [name for name in got if name]
    return [name for name in found if name not in (OURS, "_cordon")]  # the extension, inside the package


def files():
    yield from (p for p in ROOT.iterdir() if p.is_file() and p.suffix in KINDS)
    for place in PLACES:
        for path in (ROOT / place).rglob("*"):
            if path.is_file() and path.suffix in KINDS and "__pycache__" not in path.parts:
                yield path


def test_nothing_installs_or_imports_another_name():
    bad, seen = {}, 0
    for path in files():
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, PermissionError):
            continue  # no text of ours
        seen += "pycordon" in text
        # The tests have a package of their own for their index.
        names = [n for n in slips(text) if n not in ("cordon-test-package", "cordon_test_package")]
        if names:
            bad[path.relative_to(ROOT).as_posix()] = names
    assert seen > 60, "the files are not where this test looks"
    assert bad == {}


@pytest.mark.parametrize("line", [
    "pip install cordon",
    "    pip install --upgrade cordon ag2",
    "python3 -m pip install 'cordon[crewai]'",
    "uv add cordon",
    "uv pip install cordon==1.0",
    "pipx run cordon check",
    "pip install py-cordon",
    "cordon==1.2.0",
    "cordon[crewai]>=1.0",
    'dependencies = ["cordon>=1"]',
    "`cordon[NAME]` names what the adapter needs",
    "import cordon",
    "    import os, cordon",
    "from cordon import Sandbox",
    ">>> from cordon.adapters.crewai import sandboxed",
    '"import json\\nimport cordon\\n"',
    'environment_class: "cordon.adapters.mini_swe_agent.CordonEnvironment"',
    "with cordon.Sandbox() as box:",
    "python3 -m cordon run -- true",
    '[sys.executable, "-m", "cordon", "check"]',
])  # fmt: skip
def test_a_planted_name_is_found(line):
    assert slips(f"Some text\n{line}\nand more"), line
    assert slips(re.sub(r"(py-)?\bcordon\b", OURS, line)) == []


@pytest.mark.parametrize("line", [
    "cordon run -- pip install requests",
    "cordon run --net-allow registry.example -- pip install -r requirements.txt",
    '{"command": "cordon", "args": ["run"]}',
    "#include <cordon/run.h>",
    "a message from cordon itself",
    "pip install .         # the library, the command cordon and bindings",
    'sandbox="cordon"',
    "cordon.json beside the task",
])  # fmt: skip
def test_the_command_keeps_its_name(line):
    assert slips(line) == []


def test_the_distribution_is_ours():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r"^name = (.*)", text, re.M) == ['"pycordon"']
    entries = re.findall(r'^cordon = "(\w+)\.[\w.:]+"', text, re.M)
    assert entries == [OURS] * 5
    assert sorted(p.name for p in (ROOT / "bindings" / "python").iterdir() if (p / "__init__.py").exists()) == [OURS]


def test_extras_begin_with_the_versions_that_are_tested():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    part = text.split("[project.optional-dependencies]\n")[1].split("\n\n")[0]
    tested = {}
    for path in (ROOT / "tests" / "adapters").glob("*/requirements.txt"):
        if path.parent.name != "langchain_old":
            tested.update(re.findall(r"^([\w-]+)==(.+)$", path.read_text(encoding="utf-8"), re.M))
    needs = re.findall(r'"([^"]+)"', part)
    assert len(needs) >= 10
    for need in needs:
        name, least, below = re.fullmatch(r"([\w-]+)>=([\w.]+),<([\d.]+)", need).groups()
        assert least == tested[name], need
        assert least.split(".")[: below.count(".") + 1] != below.split("."), need
