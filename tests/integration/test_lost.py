# SPDX-License-Identifier: Apache-2.0
"""Files that vanish with the private home and /tmp: one line says so, and only for what would be missed."""

import json
import shutil
import time

import pytest

from conftest import PATH, ceiling, needs

KEEP = "(--private DIR keeps {}; or write to a directory given by -w or --workspace)"


def told(done):
    """The lines about lost files."""
    return [line for line in done.stderr.decode().splitlines() if " gone" in line]


def lost(me, level, script, *opts, **kw):
    """What the receipt says about a run of @script, and what the command line does."""
    command = ["sh", "-c", script]
    done = me.run(["--json", *opts], command, level, **kw)
    assert told(done) == [], "with --json it is in the receipt"
    return json.loads(done.stdout)["lost_files"], told(me.run(opts, command, level, **kw))


# TMPDIR is the private directory at level landlock, and not set at the other.
TMP = "T=${TMPDIR:-/tmp}; "


def test_files_in_home_and_tmp_are_told(me, level):
    got, lines = lost(me, level, TMP + "echo 1 >~/results.csv; echo 2 >$T/report.txt; echo 3 >$T/b.md")
    assert got == {"home": 1, "tmp": 2, "more": False, "place": "home", "example": "results.csv"}
    assert lines == [
        "cordon: 3 files were written to the private home and /tmp and are gone: 'results.csv' and "
        "others " + KEEP.format("them")
    ]


def test_one_file_is_told_in_the_singular(me, level):
    got, lines = lost(me, level, TMP + "mkdir -p $T/out/deep && echo 2 >$T/out/deep/report.txt")
    assert got == {"home": 0, "tmp": 1, "more": False, "place": "tmp", "example": "out/deep/report.txt"}
    assert lines == [
        "cordon: 1 file was written to the private /tmp and is gone: 'out/deep/report.txt' "
        + KEEP.format("it")
    ]


def test_nothing_is_told_of_nothing(me, level):
    assert lost(me, level, ":") == (None, [])
    assert lost(me, level, TMP + "touch ~/empty $T/empty.txt; mkdir ~/d; ln -s /etc/passwd ~/l.txt") == (None, [])
    assert lost(me, level, "echo 1 >~/x.csv; rm ~/x.csv") == (None, [])
    assert lost(me, level, "mkfifo ~/pipe.csv") == (None, [])


@pytest.mark.once
@pytest.mark.parametrize("end", ["exit 3", "kill -9 $$", "sleep 60", "python3 -c 'b = b\"x\" * 10**9'; :"])
def test_a_run_that_failed_or_was_ended_tells_it(me, level, end):
    got, lines = lost(me, level, f"echo 1 >~/results.csv; {end}", "-t", "2s", "-m", "64M")
    assert got["home"] == 1 and len(lines) == 1 and "1 file was written" in lines[0]


def test_quiet_says_nothing(me, level):
    done = me.run(["-q"], ["sh", "-c", "echo 1 >~/results.csv"], level)
    assert done.stderr == b"" and done.returncode == 0


def test_the_receipt_in_a_file_has_it(me, level):
    done = me.run(["--receipt", me.work / "r.json"], ["sh", "-c", "echo 1 >~/results.csv"], level)
    assert b'"lost_files":{"home":1,' in (me.work / "r.json").read_bytes()
    assert len(told(done)) == 1


@pytest.mark.parametrize("name, shown", [
    (r"a\033[2Jb", r"a\x1b[2Jb"),
    (r"a\nb", r"a\x0ab"),
    (r"a\377b", r"a\xffb"),
    (r"a\342\200\256b", r"a\u202eb"),
    ("\u00fcber", "\u00fcber"),
])
def test_the_name_is_cleaned(me, level, name, shown):
    script = f"cd; printf 1 >\"$(printf '{name}x')\""
    got, lines = lost(me, level, script)
    assert got["home"] == 1
    assert f"are gone: '{shown}x' " in lines[0] or f"is gone: '{shown}x' " in lines[0]
    raw = name.encode().decode("unicode_escape").encode("latin-1") if name.isascii() else name.encode()
    assert got["example"].encode("utf-8", "surrogateescape") == raw + b"x"


def test_a_long_name_is_cut(me, level):
    got, lines = lost(me, level, "cd; echo 1 >$(printf '%0255d' 0 | tr 0 e)")
    assert got["example"] == "e" * 255
    assert f"'{'e' * 60}...' (" in lines[0]


def test_a_long_way_has_no_example(me, level):
    script = "cd; for i in 1 2 3; do d=$(printf '%0200d' 0 | tr 0 e); mkdir $d; cd $d; done; echo 1 >x.csv"
    got, lines = lost(me, level, script)
    assert got == {"home": 1, "tmp": 0, "more": False, "place": None, "example": None}
    assert "is gone (" in lines[0]


def test_private_keeps_them(me, level):
    assert lost(me, level, TMP + "echo 1 >~/results.csv; echo 2 >$T/report.txt",
                "--private", me.base / "kept") == (None, [])
    assert (me.base / "kept/home/results.csv").read_text() == "1\n"


def test_what_stays_is_not_told(me, level):
    """A workspace, a write grant in the home, a write grant of the home."""
    assert lost(me, level, "echo 1 >x.csv", "-w", me.work) == (None, [])
    got = lost(me, level, "echo 1 >y.csv", "--workspace", me.work, "--discard")
    assert got == (None, [])
    if level == "landlock":
        return
    inner = me.mkdir("home/project")
    assert lost(me, level, f"echo 1 >{inner}/x.csv", "-w", inner) == (None, [])
    assert (inner / "x.csv").exists()
    me.write(me.home / "one.csv", "0")
    assert lost(me, level, "echo 1 >~/one.csv", "-w", me.home / "one.csv") == (None, [])
    assert lost(me, level, "echo 1 >~/z.csv", "-w", me.home, "--no-protect") == (None, [])
    assert lost(me, level, "echo 1 >~/z.csv", "--workspace", me.home, "--discard") == (None, [])


def test_beside_what_stays_it_is_told(me):
    inner = me.mkdir("home/project")
    got, _ = lost(me, "namespaces", f"echo 1 >{inner}/x.csv; echo 1 >~/x.csv", "-w", inner)
    assert got["home"] == 1 and got["example"] == "x.csv"


CACHES = """
cd
mkdir -p .cache/pip .config/app .npm .cargo/registry .m2 .gradle node_modules/x go/pkg/mod go/bin R/x86_64
mkdir -p a/node_modules/b a/__pycache__ target/debug pg/base env/bin
for f in .cache/pip/x .config/app/settings.json .npm/x .cargo/registry/x .m2/settings.xml .gradle/x \
	.bash_history .x.csv.swp node_modules/x/index.js go/pkg/mod/x.go go/bin/x R/x86_64/x.rds \
	a/node_modules/b/x.js a/__pycache__/x.pyc target/CACHEDIR.TAG target/debug/x pg/PG_VERSION pg/base/1 \
	env/pyvenv.cfg env/bin/x.py x.txt~ core.12 tmp.Ab3dE6fGhI poetry.lock; do echo 1 >$f; done
cd "$T"
mkdir -p hsperfdata_x pytest-of-x/pytest-0 npm-12-ab pip-install-k3jd9x_2 go-build12345 .org.chromium.x RtmpAb1dEf
for f in hsperfdata_x/12 pytest-of-x/pytest-0/x.csv npm-12-ab/x.json pip-install-k3jd9x_2/x.py go-build12345/x.go \
	.org.chromium.x/x.json RtmpAb1dEf/x.csv tmpabc.csv ccAb3dEf.s ccAb3dEf.o sortXy1 .hidden.txt x.log x.pid \
	foo.Ab3dEf 0b1f6a2c-77aa-4c2e-9d0f-1b2c3d4e5f60.json; do echo 1 >$f; done
"""


def test_caches_and_temporary_files_are_not_told(me, level):
    assert lost(me, level, TMP + CACHES) == (None, [])
    got, _ = lost(me, level, TMP + CACHES + "echo 1 >~/a/real.txt; echo 1 >$T/real.txt")
    assert (got["home"], got["tmp"]) == (1, 1)


PROGRAMS = [
    ("python3", "python3 -c 'import tempfile; tempfile.NamedTemporaryFile(delete=False).write(b\"x\")'"),
    ("python3", "python3 -m venv --without-pip ~/v && ~/v/bin/python -c 1"),
    ("pip", "pip --version; pip cache dir"),
    ("git", "git init -q . && git add -A && git status && git -c user.name=a -c user.email=a@b commit -qm x"),
    ("make", "make"),
    ("gcc", "gcc -o a a.c && gcc -c a.c && ./a"),
    ("pytest", "pytest -q -p no:cacheprovider test_a.py; pytest -q test_a.py"),
    ("npm", "npm --version; npm ls --offline"),
    ("node", "node -e 'require(\"fs\").mkdtempSync((process.env.TMPDIR || \"/tmp\") + \"/foo-\")'"),
    ("java", "java -version; java A.java"),
    ("go", "cd mod && go build -o ../m . && go vet ."),
    ("cargo", "cargo new --vcs none crate && cd crate && cargo build --offline"),
    ("sort", "seq 300000 | sort -S 1M | tail -1"),
    ("vim", "cd; vim -es -c 'e x.txt' -c 'norm ihello' -c preserve -c cq; ls -A | grep swp"),
    ("mktemp", "for a in '' -d '-t foo.XXXXXX' --suffix=.txt; do f=$(mktemp $a); echo 1 >$f || echo 1 >$f/x.csv; done"),
    ("initdb", "initdb -D ~/pg >/dev/null && pg_ctl -D ~/pg -o '-c listen_addresses=' -l ~/pg/log start && pg_ctl -D ~/pg stop"),
    ("redis-server", "cd; redis-server --port 0 --save 1 1 & sleep 1; kill %1; wait"),
    ("convert", "convert -size 400x400 xc:red x.png"),
]


@pytest.mark.once
@pytest.mark.parametrize("program, script", PROGRAMS, ids=lambda p: p.split()[0])
def test_programs_of_every_day_are_not_told(me, level, program, script):
    path = PATH + ":/usr/lib/postgresql/15/bin"
    if not shutil.which(program, path=path):
        pytest.skip(f"{program} is not installed")
    me.write(me.work / "a.c", "int main(void) { return 0; }\n")
    me.write(me.work / "Makefile", "all:\n\techo made >out.txt\n")
    me.write(me.work / "test_a.py", "def test_a(tmp_path):\n    (tmp_path / 'x.csv').write_text('a')\n")
    me.write(me.work / "A.java", "class A { public static void main(String[] a) { } }\n")
    me.mkdir("work/mod")
    me.write(me.work / "mod/go.mod", "module x\n")
    me.write(me.work / "mod/m.go", "package main\n\nfunc main() {}\n")
    done = me.run(["-w", me.work, "--no-protect", "-e", f"PATH={path}"], ["sh", "-c", script], level, timeout=180)
    assert told(done) == [], done.stderr


@pytest.mark.slow
def test_a_bomb_of_names_costs_a_moment(me, level):
    """Of 100,000 names a few thousand are looked at. Those in a cache are not, for comparison. At
    level landlock they are files on a disk, which takes long: fewer."""
    needs("python3")
    many, opts = (100000, ["--disk", "512M"]) if level == "namespaces" else (10000, [])
    script = (
        "import os, sys\nwhere = os.environ['HOME'] + sys.argv[1]\nos.makedirs(where)\nos.chdir(where)\n"
        f"for i in range({many}): os.close(os.open('f' + str(i), os.O_CREAT | os.O_WRONLY))\n"
        "open('x.csv', 'w').write('x')"
    )
    figures = {}
    for where in ("/.cache", "/bomb"):
        receipt = me.receipt(opts, ["python3", "-c", script, where], level, timeout=180)
        assert receipt["exit_code"] == 0, receipt["stderr"]
        figures[where] = receipt["teardown_ms"]
    # The rest of so large a tear-down is the kernel's, or at level landlock the removing.
    assert figures["/bomb"] < figures["/.cache"] * 2 + ceiling(150), figures


@pytest.mark.slow
def test_a_bomb_of_files_is_counted_in_part(me, level):
    needs("python3")
    script = "import os\nfor i in range(4500): open(os.path.expanduser(f'~/f{i}.csv'), 'w').write('x')"
    receipt = me.receipt([], ["python3", "-c", script], level, timeout=120)
    got = receipt["lost_files"]
    assert got["more"] is True and 0 < got["home"] <= 4096
    done = me.run([], ["python3", "-c", script], level, timeout=120)
    assert "cordon: at least " in told(done)[0] and " and others " in told(done)[0]


def test_a_deep_tree_ends(me, level):
    needs("python3")
    script = (
        "import os\nos.chdir(os.path.expanduser('~'))\nopen('top.csv', 'w').write('x')\n"
        "for i in range(2000): os.mkdir('d'); os.chdir('d')\nopen('deep.csv', 'w').write('x')"
    )
    began = time.monotonic()
    receipt = me.receipt([], ["python3", "-c", script], level, timeout=120)
    assert receipt["lost_files"] == {"home": 1, "tmp": 0, "more": True, "place": "home", "example": "top.csv"}
    assert time.monotonic() - began < ceiling(30)


def test_a_closed_directory_is_passed_over(me, level):
    got, _ = lost(me, level, "cd; mkdir d; echo 1 >d/x.csv; chmod 0 d; echo 1 >y.csv")
    assert got["example"] == "y.csv" and got["home"] == 1


def test_a_link_leads_nowhere(me, level):
    me.write(me.work / "seen.csv", "1")
    assert lost(me, level, f"ln -s {me.work} ~/out; ln -s {me.work}/seen.csv ~/l.csv", "-w", me.work) == (None, [])
