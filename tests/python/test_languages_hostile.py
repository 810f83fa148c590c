# SPDX-License-Identifier: Apache-2.0
"""Code that is hostile while it is compiled, compilers that leave something else than a program, and
programs that go for what is kept of them. Each attack is shown to work outside first."""

import os
import pathlib
import subprocess

import pytest

import pycordon
from pylib import ceiling

SECRET = "canary-of-the-host"


@pytest.fixture(params=["auto", "landlock"])
def box(request, place):
    with pycordon.Sandbox(isolation=request.param, compile_timeout=20, compile_memory="256M") as made:
        yield made


@pytest.fixture
def secret(place):
    """A file that the caller can read."""
    path = place / "secret.h"
    path.write_text(f'#define SECRET "{SECRET}"\n')
    path.chmod(0o644)
    return path


def outside(place, source, *flags):
    """What the same code does with a compiler outside."""
    (place / "out.c").write_text(source)
    done = subprocess.run(
        ["cc", *flags, "-o", "out", "out.c"], cwd=place, capture_output=True, text=True, timeout=ceiling(60),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return place / "out"


def reads(path):
    return {
        "include": f'#include <stdio.h>\n#include "{path}"\nint main(void) {{ puts(SECRET); }}',
        "incbin": f"""#include <stdio.h>
            __asm__(".data\\nfound: .incbin \\"{path}\\"\\n.byte 0\\n.text\\n"); extern char found[] __asm__("found");
            int main(void) {{ puts(found); }}""",
        "dependency": f'#include <stdio.h>\n#if __has_include("{path}")\nint main(void) {{ puts("{SECRET}"); }}\n'
                      '#else\nint main(void) { puts("nothing"); }\n#endif',
    }  # fmt: skip


@pytest.mark.parametrize("way", ["include", "incbin", "dependency"])
def test_files_of_the_host_cannot_be_compiled_in(place, secret, box, way):
    source = reads(secret)[way]
    assert SECRET in subprocess.check_output([outside(place, source)], text=True)
    got = box.run_code(source, "c")
    assert SECRET not in got.stdout and (got.step == "compile" or got.stdout == "nothing\n"), got


def test_grants_of_the_run_are_not_part_of_the_compilers_view(place, secret):
    """What is compiled in must be part of what a program is known by."""
    with pycordon.Sandbox(fs_read=[secret]) as box:
        assert SECRET in box.run(["cat", secret]).stdout
        assert box.run_code(reads(secret)["include"], "c").step == "compile"


def test_the_compiler_has_no_network_and_writes_nothing_outside(place, monkeypatch):
    """A compiler that does whatever it can, for a sandbox that allows all of it to its runs."""
    work = place / "work"
    work.mkdir()
    tell = f'echo x 2>/dev/null >{work}/found || echo "no write" >&2; grep -q : /proc/net/dev && cat /proc/net/dev >&2; exit 1'
    tool = fake(place, monkeypatch, tell)
    subprocess.run([tool / "cc"], capture_output=True)
    assert (work / "found").exists()
    (work / "found").unlink()
    settings = {"net_allow": ["192.0.2.1:80"]} if pycordon.check().level == "namespaces" else {}
    with pycordon.Sandbox(workdir=work, fs_read=[tool], env_pass=["SECRET_TOKEN"], **settings) as sandbox:
        got = sandbox.run_code("", "c")
    assert got.step == "compile" and "no write" in got.stderr and not (work / "found").exists()
    assert "eth" not in got.stderr


def test_code_that_never_ends_or_grows_for_ever(place):
    big = 'char a[1L << 28] = { 1 }; int main(void) { return a[0]; }'
    assert outside(place, big, "-O0").stat().st_size > 1 << 28
    (place / "out").unlink()
    with pycordon.Sandbox(compile_timeout=2, compile_memory="128M") as box:
        for source in (
            "#include __FILE__\n#include __FILE__\n",
            '#include "/dev/zero"\n',
            big,
            '__asm__(".fill 0x10000000000, 1, 65"); int main(void) { }',
            '__asm__(".rept 1000000000\\n .long 1\\n.endr"); int main(void) { }',
            "#define A(x) x x x x x x x x\n#define B(x) A(A(A(A(x))))\nint a[] = { B(B(B(1,))) }; int main(void) { }",
        ):
            got = box.run_code(source, "c")
            assert got.step == "compile" and not got.ok, got
            assert len(got.stderr_bytes) <= 512 << 10
        # A flood of messages.
        got = box.run_code("#define A(x) x x x x x x x x\n" + "A(A(A(A(A(@))))) \n" * 50, "c")
        assert got.step == "compile" and len(got.stderr_bytes) <= 512 << 10
    assert not list(place.glob("state/cordon/sandboxes/*"))


# --- what a compiler leaves ----------------------------------------------------------------------


def fake(place, monkeypatch, script):
    """A compiler that does what a script says."""
    tools = place / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "cc").write_text(f"#!/bin/sh\n{script}\n")
    (tools / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return tools


@pytest.mark.parametrize(
    "script, says",
    [
        ("ln -s /etc/passwd ../made/main", "neither a file nor a directory"),
        ("ln -s {secret} ../made/main", "neither a file nor a directory"),
        ("cp /bin/sh ../made/main; ln -s {secret} ../made/more", "neither a file nor a directory"),
        ("mkfifo ../made/main", "neither a file nor a directory"),
        ("mkdir ../made/main", "left no 'main'"),
        (":", "left no 'main'"),
        ("rm -rf ../made; ln -s / ../made", "cannot be used"),
        ("rm -rf ../made; ln -s {place} ../made", "compiler left"),
        ("truncate -s 100M ../made/main", "cannot be used"),
        ("i=0; while [ $i -lt 3000 ]; do : >../made/$i; i=$((i+1)); done", "more than 2000"),
        ("cp /bin/sh ../made/main; chmod 0 ../made/main; mkdir ../made/d; chmod 0 ../made/d", "cannot be used"),
        ("printf x >../made/main; printf x >\"../made/$(printf 'a\\nb')\"", None),
    ],
)
def test_what_is_no_program_is_refused(place, monkeypatch, secret, script, says):
    tools = fake(place, monkeypatch, script.format(secret=secret, place=place))
    with pycordon.Sandbox(fs_read=[tools]) as box:
        got = box.run_code("x", "c")
        assert SECRET not in got.text
        if says is None:
            assert got.step == "run"
        else:
            assert got.step == "compile" and not got.ok and says in (got.error or ""), got
            assert got.explain().startswith("The program was not compiled: ")
    assert secret.read_text().endswith(f'"{SECRET}"\n')


def test_a_tool_that_was_replaced_compiles_again(place, monkeypatch):
    tools = fake(place, monkeypatch, "printf '#!/bin/sh\\necho one' >../made/main")
    with pycordon.Sandbox(fs_read=[tools]) as box:
        assert box.run_code("x", "c").stdout == box.run_code("x", "c").stdout == "one\n"
        fake(place, monkeypatch, "printf '#!/bin/sh\\necho other' >../made/main")
        assert box.run_code("x", "c").stdout == "other\n"
        assert box.compiled()["compiled"] == 2


def test_a_run_cannot_put_a_compiler_in_the_way(place, monkeypatch):
    work = place / "work"
    (work / "bin").mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{work}/bin:{os.environ['PATH']}")
    with pycordon.Sandbox(workdir=work) as box:
        made = box.run("printf '#!/bin/sh\\necho planted\\n' >bin/cc; chmod +x bin/cc; cc")
        assert made.stdout == "planted\n"
        for code, status in (("int main(void) { return 4; }", 4), ("", None)):
            got = box.run_code(code, "c", files={"cc": "#!/bin/sh\n"})
            assert got.step == ("run" if status else "compile") and "planted" not in got.text
            assert status is None or got.exit_code == status


def test_a_compiler_that_cannot_be_started_is_said(place, monkeypatch):
    fake(place, monkeypatch, "exit 0")
    (place / "tools" / "cc").write_text("#!/no/such/interpreter\n")
    with pycordon.Sandbox(fs_read=[place / "tools"]) as box:
        with pytest.raises(pycordon.CommandNotFoundError, match="cannot be started inside"):
            box.run_code("x", "c")
        assert box.compiled()["kept"] == 0


# --- what is kept --------------------------------------------------------------------------------

SPOIL = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int n, char **v) {
    char line[4096]; int spoiled = 0;
    int fd = open(v[0], O_RDWR);
    if (fd >= 0 && pwrite(fd, "spoiled", 7, 0) == 7) spoiled = 1;
    fd = open("/proc/self/exe", O_RDWR);
    if (fd >= 0 && pwrite(fd, "spoiled", 7, 0) == 7) spoiled = 1;
    chmod(v[0], 0); truncate(v[0], 0);
    snprintf(line, sizeof line, "%s.more", v[0]);
    if (unlink(v[0]) == 0 || rename(v[0], line) == 0 || link(v[0], line) == 0) spoiled = 1;
    puts(spoiled ? "spoiled" : "whole");
    return 0;
}
"""


def test_a_run_cannot_change_what_others_execute(place, box):
    out = outside(place, SPOIL)
    assert subprocess.check_output([out], text=True) == "spoiled\n"
    for _ in range(3):
        assert box.run_code(SPOIL, "c").stdout == "whole\n"
    assert box.compiled()["compiled"] == 1


def test_a_program_finds_no_other_program(place):
    look = "#include <stdlib.h>\nint main(void) { return system(\"ls -A /run/cordon; find /run ~ /tmp /dev -name '.program*' 2>/dev/null\"); }"
    with pycordon.Sandbox() as box:
        assert box.run_code("int main(void) { return 0; }", "c").ok
        got = box.run_code(look, "c", files={"mine": ""})
        if got.isolation["level"] == "namespaces":
            assert got.stdout.split() == [".program", "mine", "/run/cordon/.program"], got
        sandboxes = pathlib.Path(os.environ["XDG_STATE_HOME"]) / "cordon" / "sandboxes"
        assert [p.name for p in sandboxes.iterdir()] == [box.id]  # no place of code or compilers stays
