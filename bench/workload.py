# SPDX-License-Identifier: Apache-2.0
"""Things to do inside a sandbox: a repository, a C project, a database."""

import os
import shutil
import subprocess

GIT_FILES = 3000
C_FILES = 7
TRANSACTIONS = 150
PYTHON = """
import collections, hashlib, json, os, re, tempfile
rows = [{"id": i, "name": f"row {i}", "tags": [i % 7, i % 11]} for i in range(4000)]
text = json.dumps(rows)
words = collections.Counter(re.findall(r"[a-z]+", text))
for row in json.loads(text):
    hashlib.sha256(row["name"].encode()).hexdigest()
with tempfile.TemporaryDirectory(dir=os.path.dirname(__file__)) as top:
    for i in range(100):
        with open(os.path.join(top, str(i)), "w") as f:
            f.write(text[:4096])
"""


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


def spread(path):
    """Lets ext4 put what is made here elsewhere than beside it: it is slow to make files where many
    have been removed in the last minutes, as other benchmarks do. No other filesystem knows it."""
    chattr = shutil.which("chattr", path="/usr/bin:/usr/sbin:/sbin")
    if chattr:
        subprocess.run([chattr, "+T", path], check=False, stderr=subprocess.DEVNULL)


def make_tree(top, count):
    """Small files, at most 100 to a directory (and at most 1,000 directories)."""
    dirs = min(max(count // 100, 1), 1000)
    for i in range(dirs):
        os.makedirs(f"{top}/d{i}")
    for i in range(count):
        with open(f"{top}/d{i % dirs}/f{i}.txt", "w", encoding="ascii") as f:
            f.write(f"file {i}\n" * (1 + i % 7))


def make_repository(top, files=GIT_FILES):
    for i in range(files):
        write(f"{top}/d{i % 60}/f{i}.txt", f"file {i}\n" * 5)
    git = ["git", "-C", top, "-c", "user.name=bench", "-c", "user.email=bench@localhost",
           "-c", "gc.auto=0"]
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    for args in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "files"]):
        subprocess.run(git + args, check=True, env=env)


def make_project(top):
    names = [f"part{i}" for i in range(C_FILES)]
    for i, name in enumerate(names):
        body = "".join(
            f"int {name}_{k}(int x)\n{{\n\tfor (int i = 0; i < {k + 2}; i++)\n"
            f"\t\tx = x * {i + 3} + i;\n\treturn x;\n}}\n" for k in range(12))
        write(f"{top}/{name}.c", "#include <stdio.h>\n#include <stdlib.h>\n" + body)
    write(f"{top}/main.c", "int main(void)\n{\n\treturn 0;\n}\n")
    objects = " ".join(f"{n}.o" for n in names + ["main"])
    write(f"{top}/Makefile", "CFLAGS = -O1\n"
          f"prog: {objects}\n\t$(CC) -o $@ {objects}\n"
          "clean:\n\trm -f *.o prog\n")


def make_database(top):
    # Without waiting for the disk, whose mood would cover what is to be measured.
    lines = ["PRAGMA synchronous = OFF;", "DROP TABLE IF EXISTS t;",
             "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);"]
    lines += [f"BEGIN; INSERT INTO t (v) VALUES ('row {i}'); COMMIT;" for i in range(TRANSACTIONS)]
    write(f"{top}/script.sql", "\n".join(lines) + "\n")


def make_script(top):
    write(f"{top}/work.py", PYTHON)


def make_all(top):
    make_repository(f"{top}/repo")
    make_project(f"{top}/project")
    make_database(f"{top}/db")
    make_script(f"{top}/py")


def programs(top):
    """Name, repetitions per round, command."""
    return [
        ("git status, 3,000 files", 10, ["/usr/bin/git", "-C", f"{top}/repo", "status", "--short"]),
        ("make -j2, 8 C files", 2, ["/usr/bin/make", "-s", "-B", "-j2", "-C", f"{top}/project"]),
        ("sqlite3, 150 transactions", 6,
         ["/usr/bin/sqlite3", f"{top}/db/test.db", f".read {top}/db/script.sql"]),
        ("python3, a script", 4, ["/usr/bin/python3", "-S", f"{top}/py/work.py"]),
        ("find /usr/share", 2,
         ["/usr/bin/find", "/usr/share", "-path", "*/rules.d", "-prune", "-o", "-name", "nothing"]),
    ]
