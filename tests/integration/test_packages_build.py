# SPDX-License-Identifier: Apache-2.0
"""--with-build: the code that builds a package runs, and finds nothing."""

import ast
import os

from packageslib import Index, built
from test_packages import PYTHON, index, level, python, use  # noqa: F401

# What code that builds a package finds: in its environment and memory, in files of the caller's, in other
# processes, on other servers; and whether it can leave something.
SEEK = """
import os, socket
SECRET, FILES, PORT, MARKS = {secret!r}[::-1], {files!r}, {port}, {marks!r}
def reads(path):
    try:
        with open(path, 'rb') as file: return SECRET.encode() in file.read()
    except OSError: return False
def memory():
    for line in open('/proc/self/maps'):
        start, end = (int(n, 16) for n in line.split()[0].split('-'))
        if 'r' not in line.split()[1] or '[v' in line: continue
        with open('/proc/self/mem', 'rb', 0) as file:
            try:
                file.seek(start)
                data = file.read(end - start)
            except (OSError, ValueError, OverflowError): continue
            # Not where this text, or what it makes of it, lies.
            if b'TOKEN=' + SECRET.encode() in data: return True
    return False
def leaves(path):
    try:
        with open(path, 'w') as file: return True
    except OSError: return False
def connects():
    try:
        socket.create_connection(('127.0.0.1', PORT), 5).close()
        return True
    except OSError: return False
found = {{
    'environment': any(SECRET in value for value in os.environ.values()),
    'memory': memory(),
    'files': [path for path in FILES if reads(path)],
    'processes': [name for name in os.listdir('/proc') if name.isdigit() and reads(f'/proc/{{name}}/environ')],
    'marks': [path for path in MARKS if leaves(path)],
    'network': connects(),
}}
"""


def test_code_that_builds_finds_no_secrets(me, use, index, level):
    secret = "s3cret-8841"
    files = [me.write(me.home / "token", secret), me.write(me.out / "key", secret)]
    marks = [str(me.home / "mark"), str(me.out / "mark")]
    other = Index()
    try:
        words = {"secret": secret[::-1], "files": [str(path) for path in files], "port": other.port, "marks": marks}
        seek = SEEK.format(**words)
        env = {"TOKEN": secret}
        control = me.outside([PYTHON, "-c", f"{seek}\nprint(found)"], env=env)
        found = ast.literal_eval(control.stdout.decode())
        assert found["environment"] and found["memory"] and found["network"] and found["processes"], found
        assert found["files"] == words["files"] and found["marks"] == marks, "the positive control"
        for mark in marks:
            os.unlink(mark)
        index.add(built("seeker", seek))
        look = python("import seeker; print(seeker.FOUND)")
        done = use(["--with", "seeker"], look, level, env=env)
        assert done.returncode == 125 and b"--with-build" in done.stderr, done
        done = use(["--with-build", "--with", "seeker"], look, level, env=env)
        assert done.returncode == 0, done
        found = ast.literal_eval(done.stdout.decode())
        assert set(found.pop("marks")) <= {marks[0]}, "its own home may have the caller's name"
        assert found == {"environment": False, "memory": False, "files": [], "processes": [], "network": False}
        assert not any(os.path.exists(mark) for mark in marks) and secret.encode() not in done.stderr
    finally:
        other.close()
