# SPDX-License-Identifier: Apache-2.0
"""How much of what is refused is told, with what cause, and whether the option that is offered helps.

The corpus is in explain_corpus.py. `make test` tries a part of it that stands for the rest, and
`make test-explain` all of it; both print the table. A case that is told now and was not must be taken
off the list of silent ones: so the list only gets shorter.
"""

import concurrent.futures
import http.server
import json
import os
import shlex
import shutil
import socket
import socketserver
import threading

import pytest

import explain_corpus as corpus
from conftest import PATH, known_child, _known

ALL = os.environ.get("CORDON_TEST_EXPLAIN", "") not in ("", "0")
AT_ONCE = 4
#: Of the kinds with many cases of one sort, how many are tried in `make test`.
FEW = 3

#: Cases that are not told: the command names nothing that could be checked, or nobody looks yet.
#: Of tracebacks only the error is known, not the call: that takes a look at the call itself.
SILENT = {
    "namespaces": {
        "write: elsewhere by python", "network: this machine by python", "socket: curl", "socket: python",
        "rights: python setuid", "rights: python chroot", "rights: python unshare", "rights: python sethostname",
        "lost: /tmp",
    },
    "landlock": {
        "read: git clone", "network: this machine by python", "network: python, no namespaces", "socket: curl",
        "rights: python setuid", "rights: python chroot", "rights: python unshare", "rights: python sethostname",
        "write: ln", "rights: another process",
    },
}  # fmt: skip
#: Of these, what one caller is told and the other is not.
TOLD = {("user", "write: ln"), ("root", "rights: another process")}


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


class Answer(http.server.BaseHTTPRequestHandler):
    """A server of the host's."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def place(me):
    """Makes the directories of a case, and what the cases have in common."""
    me.mkdir("home/.ssh", 0o700)
    me.mkdir("home/.aws", 0o700)
    me.write(me.home / ".ssh/id_ed25519", "key")
    me.write(me.home / ".aws/credentials", "key")
    sleeper = me.popen(["sleep", "600"])
    known_child(sleeper.pid)
    server = Server(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sockets = []

    def make(number):
        base = me.mkdir(f"case{number}")
        out, cwd, tools = (me.mkdir(f"case{number}/{name}") for name in ("outside", "work", "tools"))
        for name, text in FILES.items():
            me.write(out / name, text, 0o755 if text.startswith("#!") else 0o644)
        me.write(cwd / "file", "b\na\n")
        me.write(cwd / "Makefile", "new:\n\tcp file new\n")
        me.mkdir(cwd / "sub")
        me.write(cwd / "sub/main.c", "int main(void) { return 0; }\n")
        me.write(tools / "my-tool", "#!/bin/sh\nexit 0\n", 0o755)
        (tools / "my-link").symlink_to("my-tool")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(out / "sock"))
        os.chmod(out / "sock", 0o777)
        listener.listen(8)
        sockets.append(listener)
        words = {"out": out, "cwd": cwd, "tools": tools, "home": me.home, "base": base}
        return {**words, "port": server.server_address[1], "pid": sleeper.pid}

    yield make
    server.shutdown()
    server.server_close()
    for one in sockets:
        one.close()
    sleeper.kill()
    sleeper.wait()
    _known.discard(sleeper.pid)


FILES = {
    "data": "b\na\n", "my data": "x\n", "data.json": "{}\n", "script": "#!/bin/sh\nexit 0\n", "x.py": "pass\n",
    "x.js": "0;\n", "x.c": "int x;\n", "x.h": "int x;\n", "Makefile": "all:\n\t@true\n",
}  # fmt: skip

MAKE = """
cd "$1" && tar -cf data.tar data && python3 -m zipfile -c data.zip data && sqlite3 data.db 'create table t (a)' &&
openssl req -x509 -newkey ed25519 -nodes -keyout k -out cert.crt -subj /CN=x 2>/dev/null && rm k && git init -q repo
"""


def env(me, words):
    return {
        "PATH": f"{PATH}:{words['tools']}", "SSH_AUTH_SOCK": f"{words['out']}/sock", "GIT_CONFIG_NOSYSTEM": "1",
    }  # fmt: skip


def run(me, words, opts, script, level):
    argv = me.argv(["--json", *opts], ["sh", "-c", script.replace("$HOME_OUTSIDE", str(me.home))], level)
    done = me.outside(argv, cwd=words["cwd"], env=env(me, words))
    got = json.loads(done.stdout)
    # What an earlier layer tells that is no denial.
    if got.get("lost_files"):
        got["denials"].append({
            "what": "lost", "target": got["lost_files"]["example"] or "", "rule": "lost", "fix": None, "how": "observed",
        })  # fmt: skip
    for kind, key in (("timeout", "wall"), ("output", "output")):
        if got["kind"] == kind:
            got["denials"].append({"what": key, "target": "", "rule": f"limits.{key}", "fix": None, "how": "enforced"})
    return got


def tells(case, denial, words):
    target = case.target.format(**words)
    if case.kind == "socket" and denial["what"] == "socket":
        return True  # level landlock has none
    return denial["rule"] == case.rule and (denial["target"] == "." if target == "." else target in denial["target"])


def try_one(me, place_of, level, case):
    """What was told about a case: (told, offered, works, false)."""
    words = place_of
    opts = [o.format(**words) for o in case.opts]
    got = run(me, words, opts, case.script.format(**words), level)
    mine = [d for d in got["denials"] if tells(case, d, words)]
    false = [d for d in got["denials"] if d not in mine and d["rule"] != "lost" and not is_beside(case, d)]
    fixes = [d["fix"] for d in mine if d["fix"]]
    works = None
    if case.fix == corpus.YES and fixes and case.works != "none":
        more = shlex.split(fixes[0])
        again = run(me, words, more if case.rule == "fs.protect" else [*opts, *more], case.script.format(**words), level)
        works = again["exit_code"] == 0 if case.works == "ends" else not any(d in mine for d in again["denials"])
        if not works:
            false.append({"with": fixes[0], "then": again["denials"], "stderr": again["stderr"][-300:]})
    if case.fix == corpus.NO and fixes:
        false.append({"offered": fixes[0]})
    return bool(mine), bool(fixes), works, false, got


def is_beside(case, denial):
    """True as well: the same refusal from another side."""
    if denial["rule"].startswith("limits.") and denial["how"] == "observed" and case.kind == "limit":
        return True
    return denial["rule"] == "net.allow" and case.kind == "network"


def chosen():
    if ALL:
        return corpus.DENIED
    seen = {}
    return [c for c in corpus.DENIED if seen.setdefault(c.kind, []).append(c) or len(seen[c.kind]) <= FEW]


def applies(me, level, case):
    return (
        case.level in (None, level) and case.who in (None, me.name)
        and all(shutil.which(p, path=PATH) for p in case.needs)
    )  # fmt: skip


def prepared(me, place, n):
    """The directories of n cases."""
    model = me.mkdir("model")
    me.write(model / "data", "b\na\n")
    me.outside(["sh", "-c", MAKE, "sh", model], check=True, env={"GIT_CONFIG_NOSYSTEM": "1"})
    every = [place(number) for number in range(n)]
    for words in every:
        me.outside(["sh", "-c", 'cp -a "$1"/* "$2" && cp -a "$1"/repo/.git "$3"', "sh", model, words["out"], words["cwd"]], check=True)
    return every


def table(results):
    kinds = list(dict.fromkeys(case.kind for case, _ in results))
    lines = [f"{'kind':10} denied  told  offered  works  false"]
    for kind in [*kinds, "all"]:
        rows = [r for case, r in results if kind in (case.kind, "all")]
        lines.append(
            f"{kind:10} {len(rows):6} {sum(r[0] for r in rows):5} {sum(r[1] for r in rows):8}"
            f" {sum(r[2] is True for r in rows):6} {sum(bool(r[3]) for r in rows):6}"
        )
    return "\n".join(lines)


def test_what_is_refused_is_told(me, level, place):
    cases = [case for case in chosen() if applies(me, level, case)]
    words = prepared(me, place, len(cases))
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        got = list(pool.map(lambda pair: try_one(me, pair[1], level, pair[0]), zip(cases, words)))
    results = list(zip(cases, got))
    print(f"\n{me.name}, {level}\n{table(results)}")
    false = {case.name: r[3] for case, r in results if r[3]}
    silent = {case.name for case, r in results if not r[0]}
    for case, r in results:
        if case.name in silent:
            print("silent:", case.name, "|", r[4]["exit_code"], r[4]["stderr"].strip()[-160:].replace("\n", " / "))
    for name, what in false.items():
        print("false:", name, "|", what)
    assert not false
    known = {name for name in SILENT[level] if (me.name, name) not in TOLD}
    assert silent == known & {case.name for case in cases}
    if ALL:
        assert len(silent) < len(cases) * 0.1 and sum(r[2] is True for _, r in results) >= 70


def test_what_fails_by_itself_is_not(me, level, place):
    names = list(corpus.OWN) if ALL else list(corpus.OWN)[::3]
    words = prepared(me, place, 1)[0]
    false = {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for name, got in zip(names, pool.map(lambda n: run(me, words, [], corpus.OWN[n].format(**words), level), names)):
            assert got["exit_code"] != 0, (name, got)
            denials = [d for d in got["denials"] if d["rule"] != "lost"]
            if denials:
                false[name] = (denials, got["stderr"])
    assert not false, false


FORGED = r"""
import sys
out = sys.stderr
for i in range(3000):
    out.write("mount: must be superuser\nping: socket: Protocol not supported\nsudo: effective uid is not 0\n")
    out.write(f"curl: (7) Failed to connect to 127.0.0.1 port {i + 1} after 0 ms\nconnect ECONNREFUSED 127.0.0.1:{i}\n")
    out.write(f"curl: (6) Could not resolve host: \x1b[2J{i}.example\ncurl: (6) Could not resolve host: -\n")
    out.write(f"sh: 1: tool{i}: not found\nspawn {'a' * 300} ENOENT\nError: EMFILE: too many open files\n")
    out.write("Could not open a connection to your authentication agent.\nfile too large: can't start new thread\n")
sys.exit(1)
"""


def test_forged_lines_are_bounded_and_true_of_the_run(me, level):
    """What a command prints decides whether something is told, and nothing is suggested for it."""
    got = me.receipt([], ["/usr/bin/python3", "-c", FORGED], level)
    assert len(got["denials"]) <= 8, got["denials"]
    for d in got["denials"]:
        assert d["rule"] in ("isolation", "net.allow", "limits.open_files", "limits.procs"), d
        assert "\x1b" not in d["target"] and (d["rule"].startswith(("limits.", "net.")) or d["fix"] is None), d
    # Nobody is told that a root's right is missing who would not have it outside.
    rights = [d["target"] for d in got["denials"] if d["what"] == "privilege"]
    assert ("mount" in rights) == (me.name == "root"), rights
    # The same words of a command that is content are no news.
    assert me.receipt([], ["/usr/bin/python3", "-c", FORGED.replace("exit(1)", "exit(0)")], level)["denials"] == []
