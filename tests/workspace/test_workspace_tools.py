# SPDX-License-Identifier: Apache-2.0
"""Everyday tools in a workspace: they work, twice, and the base stays as it is."""

import json
import os
import shutil
import subprocess
import zipfile

import pytest

from conftest import needs, unavailable
from workspacelib import assert_same, picture, tree

GIT = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "c",
    "GIT_COMMITTER_EMAIL": "c@example.com", "GIT_CONFIG_GLOBAL": "/dev/null",
}  # fmt: skip


class Work:
    """Runs of one named workspace, and what they must not change."""

    def __init__(self, me, level, base):
        self.me, self.level, self.base = me, level, base
        self.before = picture(base)

    def run(self, script, **kw):
        opts = ["--workspace", self.base, "--name", "w"]
        # pip looks at it, and takes a refusal for a failure.
        if self.level == "landlock" and os.path.exists("/etc/mime.types"):
            opts += ["-r", "/etc/mime.types"]
        for name, value in GIT.items():
            opts += ["--env", f"{name}={value}"]
        script = 'set -e; cd "$CORDON_WORKSPACE"; ' + script
        kw.setdefault("timeout", 120)
        done = self.me.run(opts, ["bash", "-c", script], self.level, **kw)
        assert done.returncode == 0, (script, done.stdout, done.stderr)
        assert_same(self.before, self.base)
        return done.stdout.decode()


@pytest.fixture
def work(me, level):
    def make(entries, prepare=None):
        base = tree(me, me.mkdir("base"), entries)
        if prepare:
            done = me.outside(["bash", "-ec", prepare], cwd=str(base), env=GIT)
            assert done.returncode == 0, done
        return Work(me, level, base)

    return make


REPOSITORY = """
git init -q -b main . && mkdir -p src && for i in $(seq 40); do seq $i > src/f$i; done
git add -A && git commit -qm one && seq 100 > src/f1 && git commit -qam two && git gc -q
git branch side && echo dirty >> src/f2
"""


def test_git(work):
    needs("git")
    w = work({}, REPOSITORY)
    head = w.run("git rev-parse HEAD").strip()
    assert w.run("git status --porcelain") == " M src/f2\n"
    w.run("git stash -q && git status --porcelain && git stash pop -q && git checkout -q -- src/f2")
    w.run("echo x > new && git add new && git commit -qm three && git checkout -qb topic && git mv src/f3 src/g3 && git commit -qm four")  # fmt: skip
    w.run("git checkout -q side && echo y > side && git add side && git commit -qm five && git merge -q --no-edit topic")
    assert w.run("git log --format=%s --first-parent -2").splitlines() == ["Merge branch 'topic' into side", "five"]
    w.run("git rebase -q main && git tag v1 && git worktree add -q --detach wt main && test -e wt/src/f1 && git worktree remove wt")
    w.run("git gc -q --prune=now && git repack -adq && git fsck --strict && git reflog expire --expire=now --all")
    w.run("git rm -rq src && git commit -qm gone && test ! -e src && git checkout -q main && test -e src/f1 && git clean -fdxq")  # fmt: skip
    assert w.run(f"git merge-base --is-ancestor {head} side && git fsck --strict && echo fine").endswith("fine\n")


def test_new_repository(work):
    needs("git")
    w = work({"a": "a\n", "d/b": "b\n"})
    w.run("git init -q -b main . && git add -A && git commit -qm one && git clone -q . d/clone && git submodule status")
    assert w.run("git log --oneline | wc -l; git -C d/clone log --format=%s") == "1\none\n"


def test_hook_of_the_guest_runs_inside(work):
    """It may do what it wants there; the base does not change."""
    needs("git")
    w = work({}, REPOSITORY)
    w.run("printf '#!/bin/sh\\ntouch hooked\\n' > .git/hooks/pre-commit && chmod 755 .git/hooks/pre-commit && git config core.fsmonitor false && git config core.hooksPath .git/hooks && git commit -qam x && test -e hooked")  # fmt: skip


MAKEFILE = """objects := $(addsuffix .o,$(basename $(wildcard src/*.c)))
all: lib.a prog
%.o: %.c common.h
\tgcc -O0 -I. -c -o $@ $<
lib.a: $(objects)
\tar rcs $@ $^
prog: main.c lib.a
\tgcc -I. -o $@ $^
\t./$@
clean:
\trm -f src/*.o lib.a prog
"""


def test_make(work):
    needs("make", "gcc")
    files = {f"src/m{i}.c": f'#include "common.h"\nint f{i}(void) {{ return N + {i}; }}\n' for i in range(12)}
    files["common.h"] = "#define N 1\n"
    files["main.c"] = '#include <stdio.h>\nint f3(void);\nint main(void) { printf("%d\\n", f3()); return 0; }\n'
    files["Makefile"] = MAKEFILE
    w = work(files)
    assert w.run("make -s -j4") == "4\n"
    assert w.run("make -s -j4 && ./prog") == "4\n", "nothing to do the second time"
    assert w.run("sed -i 's/N 1/N 5/' common.h && make -s -j4") == "8\n"
    assert w.run("make -s clean && ls src | grep -c o$ || true") == "0\n"
    assert w.run("make -s -j4") == "8\n"


def wheel(path):
    """The smallest package that pip takes."""
    info = "mine-1.0.dist-info"
    files = {
        "mine/__init__.py": "def main():\n    print('fine')\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nmine = mine:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def test_pip(me, work):
    """A virtual environment of the base gets a package; one is made inside; the script runs in the
    next run, too."""
    if subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        unavailable("pip is not installed")
    w = work({"app.py": "import mine; mine.main()\n"}, "/usr/bin/python3 -m venv --without-pip --system-site-packages venv")
    wheel(me.base / "mine-1.0-py3-none-any.whl")
    os.chmod(me.base / "mine-1.0-py3-none-any.whl", 0o644)
    name = "mine-1.0-py3-none-any.whl"
    shutil.copy(me.base / name, w.base / name)
    me.own(w.base / name)
    w.before = picture(w.base)
    pip = "python -m pip install -q --no-index --no-deps --disable-pip-version-check --no-cache-dir"
    # At level landlock the environment's own paths are those of the base, so another one is made.
    where = "venv" if w.level == "namespaces" else "inner"
    if where == "inner":
        w.run("/usr/bin/python3 -m venv --without-pip --system-site-packages inner")
    w.run(f"{where}/bin/{pip} ./{name} && {where}/bin/python app.py")
    assert w.run(f"{where}/bin/python app.py && {where}/bin/mine && {where}/bin/python -m pip list 2>/dev/null | grep -c mine") == "fine\nfine\n1\n"  # fmt: skip
    w.run(f"{where}/bin/python -m pip uninstall -qy mine && ! {where}/bin/python app.py 2>/dev/null && {where}/bin/{pip} ./{name}")  # fmt: skip
    assert w.run(f"{where}/bin/mine") == "fine\n"


def test_npm(me, work):
    if not shutil.which("npm", path="/usr/bin:/bin"):
        pytest.skip("npm is not installed")
    package = {"name": "app", "version": "1.0.0", "dependencies": {"one": "file:one-1.0.0.tgz", "two": "file:./two"}}
    w = work({
        "package.json": json.dumps(package),
        "two/package.json": json.dumps({"name": "two", "version": "1.0.0", "main": "i.js"}),
        "two/i.js": "module.exports = 'two'\n",
        "one/package.json": json.dumps({"name": "one", "version": "1.0.0", "main": "i.js", "bin": {"one": "i.js"}, "scripts": {"install": "node -e 1"}}),
        "one/i.js": "#!/usr/bin/env node\nmodule.exports = 'one'\nif (require.main === module) console.log('bin')\n",
        "app.js": "console.log(require('one'), require('two'))\n",
    }, "(cd one && npm pack --silent --cache ../../npm-cache >/dev/null && mv one-1.0.0.tgz ..) && rm -rf one")  # fmt: skip
    npm = 'npm install --silent --offline --no-audit --no-fund --cache "$HOME/npm"'
    w.run(f"{npm} && node app.js", timeout=240)
    assert w.run("node app.js && node_modules/.bin/one && npm ls --silent --parseable | wc -l") == "one two\nbin\n3\n"
    w.run("rm -rf node_modules && npm ci --silent --offline --no-audit --no-fund --cache \"$HOME/npm\" && node app.js", timeout=240)  # fmt: skip


def test_python(work):
    files = {f"pkg/m{i}.py": f"x = {i}\n" for i in range(30)} | {"pkg/__init__.py": ""}
    w = work(files)
    assert w.run("python3 -m compileall -q pkg && ls pkg/__pycache__ | wc -l") == "31\n"
    assert w.run("python3 -c 'import pkg.m7; print(pkg.m7.x)'; echo 'x = 100' > pkg/m7.py; python3 -c 'import pkg.m7; print(pkg.m7.x)'") == "7\n100\n"  # fmt: skip


def test_sqlite(work):
    needs("sqlite3")
    w = work({}, "sqlite3 old.db 'create table t(a); insert into t values (1),(2)'; sqlite3 wal.db 'pragma journal_mode=wal; create table t(a)'")  # fmt: skip
    assert w.run("sqlite3 old.db 'insert into t values (3); select sum(a) from t; pragma integrity_check'") == "6\nok\n"
    assert w.run("sqlite3 old.db 'delete from t where a=1; vacuum; select sum(a) from t'") == "5\n"
    assert w.run("sqlite3 new.db 'create table t(a); insert into t values (7); select a from t'") == "7\n"
    if w.level == "namespaces":
        assert w.run("sqlite3 wal.db 'insert into t values (1); select count(*) from t' 'pragma wal_checkpoint' | head -1") == "1\n"  # fmt: skip
    assert w.run("for i in 1 2 3 4; do sqlite3 -cmd '.timeout 20000' new.db 'insert into t values (1)' & done; wait; sqlite3 new.db 'select count(*) from t'") == "5\n"  # fmt: skip


TEXT = "".join(f"line {i}\n" for i in range(50))
PATCH = "--- a/text\n+++ b/text\n@@ -1,3 +1,3 @@\n line 0\n-line 1\n+patched\n line 2\n"


def test_editors_and_archives(work):
    w = work({"text": TEXT, "d/e/f": "deep\n", "link": ("link", "text"), "x.sh": "#!/bin/sh\n"})
    assert w.run("sed -i 's/line 3$/three/' text && grep -c three text") == "1\n"
    assert w.run("perl -pi -e 's/line 4$/four/' text && grep -c four text") == "1\n"
    w.run("cp -a d d2 && cp -al d d3 && diff -r d d2 && diff -r d d3 && tar cf a.tar d d2 link && mkdir t && tar xf a.tar -C t && diff -r d t/d")  # fmt: skip
    w.run("mv d moved && test ! -e d && cat moved/e/f && mkdir d && ls -A d && mv moved/e d/")  # fmt: skip
    assert w.run("cat d/e/f; ls moved; readlink link; wc -l < text") == "deep\ntext\n50\n"
    w.run("install -m 600 text t2 && ln -f t2 t3 && dd if=/dev/zero of=big bs=1M count=8 status=none && truncate -s 1G big && cp --sparse=always big b2 && rm big b2")  # fmt: skip
    w.run("find . -mindepth 1 -delete && test -z \"$(ls -A)\" && tar --version >/dev/null")
    assert w.run("ls -A") == ""


@pytest.mark.parametrize("tool", ["patch -s -p1", "git apply"])
def test_patch(work, tool):
    if not shutil.which(tool.split()[0], path="/usr/bin:/bin"):
        pytest.skip(f"{tool} is not installed")
    w = work({"text": TEXT, "diff": PATCH})
    assert w.run(f"{tool} < diff && grep -c patched text") == "1\n"
    assert w.run(f"{tool} -R < diff && grep -c patched text || true") == "0\n"


def test_rsync(work):
    if not shutil.which("rsync", path="/usr/bin:/bin"):
        pytest.skip("rsync is not installed")
    w = work({f"d/f{i}": str(i) for i in range(20)})
    w.run("rsync -aH d/ e/ && diff -r d e && echo x > d/f3 && rm d/f4 && rsync -aH --delete d/ e/ && diff -r d e")
    assert w.run("ls e | wc -l") == "19\n"
