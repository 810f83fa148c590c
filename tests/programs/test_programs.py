# SPDX-License-Identifier: Apache-2.0
"""Everyday programs work when they are typed as one would guess, or one line says what to add.

Each line of the catalogue is typed into a shell. If it fails, Cordon (or the program) must have said
on standard error which flag is missing; that flag is added, and nothing else, until it works.

Environment: CORDON_PROGRAMS is where tools/test-programs.sh has put what the distribution lacks.
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
import zipfile

import pytest
from catalogue import LIGHT, PROGRAMS

from conftest import IS_ROOT, ROOT, WHO, ceiling, unavailable

TOOLS = pathlib.Path(os.environ.get("CORDON_PROGRAMS", ROOT / "build" / "programs"))
SYSTEM = "/usr/bin:/bin:/usr/sbin:/sbin"
# Debian keeps the server's programs beside PATH.
POSTGRES = ":".join(str(p) for p in sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1:])
TRIES = 6
# What a program of its own accord asks for on machines whose registries have an authority of their own.
HERE = ("--system-certs",)
ADVICE = re.compile(r"^cordon: .*\((?:allow it with|add) (--[a-z-]+ [^ )]+)\)$", re.MULTILINE)


def cases():
    for program in PROGRAMS:
        for who in WHO:
            if who == "user" or program.root:
                marks = [pytest.mark.light] if program.light else []
                yield pytest.param(program, who, id=f"{program.name}-{who}", marks=marks)


def search_path(me, program):
    tools = {"py": TOOLS / "py" / "bin", "npm": TOOLS / "npm" / "node_modules" / ".bin"}
    here = [tools[program.tools]] if program.tools else []
    return ":".join(str(p) for p in [*here, pathlib.Path(me.cordon).parent, SYSTEM, POSTGRES] if p)


def host_of(address):
    return urllib.parse.urlsplit(address.strip()).hostname


def index(me):
    """The host that pip asks."""
    got = me.outside(["/usr/bin/python3", "-m", "pip", "config", "get", "global.index-url"])
    if got.returncode != 0:
        ask = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
        got = me.outside(["/usr/bin/python3", "-c", ask], check=True)
    return host_of(got.stdout.decode())


def registry(me):
    """The host that npm asks."""
    return host_of(me.outside(["npm", "config", "get", "registry"], check=True).stdout.decode())


def artifacts(_me):
    """The host that Maven asks: it has the address in its oldest ancestor of all projects."""
    jar = sorted(pathlib.Path("/usr/share/maven/lib").glob("maven-model-builder*.jar"))[0]
    with zipfile.ZipFile(jar) as names:
        text = names.read("org/apache/maven/model/pom-4.0.0.xml").decode()
    return host_of(re.search(r"<url>(.*?)</url>", text)[1])


def free_port(_me):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Words(dict):
    """What stands in braces in a line, found out when it is needed."""

    def __init__(self, me):
        super().__init__(node_modules=TOOLS / "npm" / "node_modules")
        self.me = me

    def __missing__(self, key):
        find = {"index": index, "registry": registry, "artifacts": artifacts, "port": free_port}
        self[key] = find[key](self.me)
        return self[key]


class Desk:
    """A caller in front of a shell, with one program."""

    def __init__(self, me, program):
        self.me, self.program, self.words = me, program, Words(me)
        self.path = search_path(me, program)
        self.asked = []

    def shell(self, line):
        return self.me.outside(["sh", "-c", line], env={"PATH": self.path}, timeout=300)

    def missing(self, done, line):
        """Flags that standard error asks for and that are not there yet."""
        said = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr.decode(errors="replace"))
        flags = [flag for flag in ADVICE.findall(said) if flag not in line and "HOST" not in flag]
        own = [a for a in (*self.program.adds, *HERE) if not a.startswith("--net") and a in said]
        return flags[:1], [a for a in own if a not in line]

    def type(self, line):
        """Types the line, does what it is told, and returns the try that worked."""
        for _ in range(TRIES):
            done = self.shell(line)
            if done.returncode == 0:
                return done
            flags, own = self.missing(done, line)
            assert flags or own, f"{line}: nothing says what to do: {done}"
            for flag in flags:
                line = line.replace("cordon run", f"cordon run {flag}", 1)
                # A registry in a private network is this machine's doing.
                if b"not public" not in done.stderr:
                    self.asked.append(flag.split()[0])
            for flag in own:
                line += " " + flag
                if flag not in HERE:
                    self.asked.append(flag)
        raise AssertionError(f"{line}: {done}")

    def serve(self, line):
        """Starts a server, asks it, and ends it as Ctrl-C would."""
        server = self.me.popen(["sh", "-c", "exec " + line], env={"PATH": self.path},
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        end = time.monotonic() + ceiling(60)
        while True:
            done = self.shell(self.program.asks.format_map(self.words))
            if done.returncode == 0 or time.monotonic() > end or server.poll() is not None:
                break
            time.sleep(0.1)
        server.send_signal(signal.SIGINT)
        said, _ = server.communicate(timeout=60)
        assert done.returncode == 0, (done, said)
        return done


@pytest.mark.parametrize(("program", "me"), cases(), indirect=["me"])
def test_program(program, me):
    desk = Desk(me, program)
    for command in program.commands.split():
        if not shutil.which(command, path=desk.path):
            unavailable(f"{command} is not installed")
    for name, text in program.files.items():
        if "PORT" in text:
            text = text.replace("PORT", str(desk.words["port"]))
        me.write(me.work / name, text)
    if program.before:
        done = desk.shell(program.before.format_map(desk.words))
        assert done.returncode == 0, done
    done = None
    for line in program.lines:
        line = line.format_map(desk.words)
        last = line == program.lines[-1].format_map(desk.words)
        done = desk.serve(line) if program.asks and last else desk.type(line)
    assert program.says in done.stdout.decode(errors="replace"), done
    for name in program.makes.split():
        assert (me.work / name).stat().st_size > 0
        assert (me.work / name).stat().st_uid == me.uid
    assert set(desk.asked) <= set(program.adds), desk.asked


# --- the table ---------------------------------------------------------------------------------------


def shown(program):
    """The row of docs/programs.md."""
    lines = [line.replace("{{", "{").replace("}}", "}") for line in program.lines]
    if program.name == "git":
        verbs = dict.fromkeys(line.split("-- git ")[1].split()[0] for line in lines)
        lines = ["cordon run -w . -- git VERB", *verbs]
    lines = [re.sub(r"{(index|registry|artifacts)}", "HOST", line).replace("{port}", "PORT") for line in lines]
    between = " " if program.name == "git" else "<br>"
    typed = between.join(f"`{line}`".replace("|", "\\|") for line in lines)
    asked = " and ".join(f"`{flag}`" for flag in program.adds)
    return f"| {program.name} | {typed} | {'asks for ' + asked if asked else 'works'} |"


@pytest.mark.light
def test_the_table_is_true():
    """docs/programs.md has exactly these programs, lines and results."""
    text = (ROOT / "docs" / "programs.md").read_text()
    rows = [line for line in text.splitlines() if "cordon run" in line and line.startswith("| ")]
    assert rows == [shown(program) for program in PROGRAMS]


@pytest.mark.light
def test_how_many():
    """At least 45 programs, a third of them in `make test`."""
    assert len(PROGRAMS) >= 45 and len(LIGHT) * 3 >= len(PROGRAMS)
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    assert IS_ROOT or WHO == ["user"]
