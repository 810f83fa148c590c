# SPDX-License-Identifier: Apache-2.0
"""The installed tree: what a packager ships and what a program that uses the library finds.

CORDON_PREFIX is where `meson install` put it (set by tools/test.sh).
"""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import needs

PREFIX = pathlib.Path(os.environ.get("CORDON_PREFIX", "/nonexistent"))
ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples" / "c").glob("*.c"))

pytestmark = pytest.mark.skipif(not PREFIX.exists(), reason="CORDON_PREFIX is not set")


def one(pattern):
    found = sorted(PREFIX.glob(pattern))
    assert found, f"{pattern} is not installed"
    return found[0]


def libdir():
    return one("lib/**/libcordon.so").parent


def run(argv, **kw):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=60, **kw)


def test_command_is_static_and_fixed():
    head = one("bin/cordon").read_bytes()[:64]
    assert head[16:18] == b"\x02\x00", "not ET_EXEC: position-independent, so relocated at start"
    out = run(["readelf", "-lW", one("bin/cordon")]).stdout
    assert "INTERP" not in out and "DYNAMIC" not in out
    assert re.search(r"GNU_STACK.* RW ", out), "executable stack"


def test_version():
    out = run([one("bin/cordon"), "--version"])
    header = one("include/cordon/version.h").read_text()
    version = re.search(r'CORDON_VERSION "(.*)"', header).group(1)
    assert out.returncode == 0 and version in out.stdout
    assert f"Version: {version}" in one("lib/**/pkgconfig/cordon.pc").read_text()


def test_nothing_privileged_is_shipped():
    for path in PREFIX.rglob("*"):
        mode = path.lstat().st_mode
        assert not mode & 0o6000, f"{path} has a set-id bit"
        assert path.is_symlink() or not mode & 0o022, f"{path} can be written by others"


def test_test_builds_are_not_shipped():
    assert not [p for p in PREFIX.rglob("*fault*")]


@pytest.mark.parametrize("page", [
    "cordon.1", *(f"cordon-{verb}.1" for verb in ("cache", "check", "mcp", "new", "policy", "pool", "run", "sandbox", "session", "workspace")),
    "libcordon.3",
])  # fmt: skip
def test_man_page(page):
    needs("mandoc")
    path = one(f"share/man/man*/{page}")
    out = run(["mandoc", "-T", "utf8", path])
    assert out.returncode == 0 and "NAME" in re.sub(".\b", "", out.stdout)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell):
    path = one({"bash": "share/bash-completion/completions/cordon",
                "zsh": "share/zsh/site-functions/_cordon",
                "fish": "share/fish/vendor_completions.d/cordon.fish"}[shell])
    assert "--timeout" in path.read_text() or "timeout" in path.read_text()
    if shutil.which(shell):
        assert run([shell, "-n", path]).returncode == 0


def test_profile_for_apparmor():
    """It names the command where packages and `make install` put it."""
    text = one("share/cordon/apparmor/cordon").read_text()
    assert "profile cordon /{usr/,usr/local/}bin/cordon flags=(unconfined)" in text and "userns," in text


def compile_example(source, out, static):
    lib = libdir()
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{PREFIX}/include"]
    if static:
        link = [lib / "libcordon.a"]
    else:
        link = [f"-L{lib}", "-lcordon", f"-Wl,-rpath,{lib}"]
    done = run(["gcc", *flags, "-o", out, source, *link])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("static", [False, True], ids=["shared", "archive"])
@pytest.mark.parametrize("source", EXAMPLES, ids=lambda p: p.stem)
def test_example_compiles(source, static, tmp_path):
    compile_example(source, tmp_path / "example", static)


def test_workspace_example(tmp_path):
    """What its own comment says: harmless changes are committed, the others are not."""
    base = tmp_path / "base"
    base.mkdir()
    compile_example(ROOT / "examples" / "c" / "workspace.c", tmp_path / "example", True)
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    out = run([tmp_path / "example", base, "echo hello > greeting; echo evil > .envrc"], env=env)
    assert out.returncode == 0, out.stderr
    assert "added    .envrc [protected]\n" in out.stdout and "1 committed, 1 left out" in out.stdout, out.stdout
    assert os.listdir(base) == ["greeting"] and (base / "greeting").read_text() == "hello\n"
    assert os.listdir(tmp_path / "state" / "cordon" / "workspaces") == []


def test_session_example(tmp_path):
    """Commands share files and processes; what one leaves running goes on for the next."""
    compile_example(ROOT / "examples" / "c" / "session.c", tmp_path / "example", True)
    out = run([tmp_path / "example", "sleep 60 & echo $! > /tmp/pid", "test -d /proc/$(cat /tmp/pid) && echo it goes on; exit 3"])
    assert out.returncode == 0, out.stderr
    lines = out.stdout.splitlines()
    assert lines[:3] == ["[exited, status 0]", "it goes on", "[exited, status 3]"], out.stdout
    assert re.fullmatch(r"up for \d+ ms, \d tasks", lines[3]) and lines[4:] == ["session: cancelled"], out.stdout


def test_pool_example(tmp_path):
    """Each of its runs is a run, wherever it started; where parked inits work some start from one."""
    compile_example(ROOT / "examples" / "c" / "pool.c", tmp_path / "example", True)
    out = run([tmp_path / "example", "5"])
    assert out.returncode == 0, out.stderr
    warm, cold = map(int, re.fullmatch(r"(\d+) runs from the pool, (\d+) without\n", out.stdout).groups())
    assert warm + cold == 5, out.stdout
    level = json.loads(run([one("bin/cordon"), "check", "--json"]).stdout)["level"]
    assert (warm > 0) is (level == "namespaces"), out.stdout
    ended = run([tmp_path / "example", "3", "/bin/sh", "-c", "exit 4"])
    assert ended.returncode == 4


def test_pkg_config(tmp_path):
    env = {**os.environ, "PKG_CONFIG_PATH": str(libdir() / "pkgconfig")}
    out = run(["pkg-config", f"--define-variable=prefix={PREFIX}", "--cflags", "--libs", "cordon"], env=env)
    assert out.returncode == 0, out.stderr
    source = tmp_path / "v.c"
    source.write_text("#include <cordon/cordon.h>\n#include <stdio.h>\n"
                      "int main(void) { puts(cordon_version()); return 0; }\n")
    done = run(["gcc", "-o", tmp_path / "v", source, *out.stdout.split(), f"-Wl,-rpath,{libdir()}"])
    assert done.returncode == 0, done.stderr
    assert run([tmp_path / "v"]).stdout.strip() == run([one("bin/cordon"), "--version"]).stdout.split()[-1]


def test_archive_hides_its_inside():
    out = run(["nm", "-g", "--defined-only", libdir() / "libcordon.a"]).stdout
    names = [line.split()[-1] for line in out.splitlines() if len(line.split()) == 3]
    assert names and all(name.startswith("cordon_") for name in names), names
