# SPDX-License-Identifier: Apache-2.0
"""Judges what the host's git did in a world that a hostile command has been in.

The same commands in a clean world say what git executes, writes and reads there. Anything beyond
that, after a run, is a finding: a program that a clean repository does not start, a file written that
is not git's own data, a file read outside of the repository.
"""

import os
import pathlib
import re
import subprocess
from typing import Dict, List, NamedTuple, Set, Tuple

import tracelog
from world import Spec, World, commands

PAYLOAD = "hostile-run"  # the name of every hostile program
COMMAND_SECONDS = 15
ALL_SECONDS = 300

# What git keeps in a repository, and writes as it works: nothing that makes it execute something.
DATA = re.compile(
    r"(?:(?:modules|worktrees)/(?:[^/]+/)+?)*(?:(?:objects|refs|logs|rebase-merge|rebase-apply|sequencer|rr-cache|"
    r"lost-found)(?:/.*)?|(?:info/?|info/refs|info/commit-graph|branches|packed-refs|shallow|gc\.pid|gc\.log|COMMIT_EDITMSG|"
    r"index|[A-Z_]+|next-index-\d+|\.MERGE_FILE_\w+)(?:\.lock|\.new|_\w+)?|sharedindex\.?\w*|sharedindex_\w+|"
    r"info/refs_\w+|tmp_\w+|\.tmp-\w+|fsmonitor--daemon.*|index\.stash\.\d+(?:\.lock)?|gc\.pid\.\w+|[^/]+\.lock)?"
)
CRASHES = {128 + n for n in (4, 6, 7, 8, 11)}  # ILL, ABRT, BUS, FPE, SEGV
SYSTEM = ("/usr/", "/lib/", "/lib64/", "/proc/", "/dev/", "/sys/", "/bin/", "/sbin/")
LOADER = re.compile(r"/etc/(?:ld\.so\.\w+|locale\.alias|localtime|nsswitch\.conf|passwd|group|gitconfig|gitattributes)$")
# The work tree's own files may be links; git opens what they lead to, in old versions.
WORK_TREE_NAMES = {".gitignore", ".gitattributes", ".mailmap"}
# Git's own programs that speak with others.
FAR = re.compile(r"(?:git-)?(?:remote-|upload-|receive-|http-|fetch-pack|send-pack|daemon|shell)")
SHELLS = {"sh", "bash", "dash"}


class Finding(NamedTuple):
    what: str  # executed, written, read, crash, hang
    detail: str
    command: str

    @property
    def counts(self) -> bool:
        """Git that crashes or hangs is told, but nothing of the host was lost."""
        return self.what not in ("crash", "hang")


class Clean(NamedTuple):
    """What a clean world does."""

    programs: Set[Tuple[str, ...]]
    written: Set[str]
    read: Set[str]


def quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


class Oracle:
    def __init__(self, git: str, scratch: pathlib.Path, is_quick: bool):
        self.git = git
        self.is_quick = is_quick
        self.scratch = scratch
        self.clean: Dict[Tuple[Spec, bool], Clean] = {}
        core = subprocess.run([git, "--exec-path"], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
        self.own = {os.path.realpath(git)} | {os.path.realpath(f) for f in pathlib.Path(core).glob("git*")}

    # --- one look -----------------------------------------------------------------------------------

    def _drive(self, world: World, switches: bool) -> Tuple[List[tracelog.Event], List[Tuple[int, str]]]:
        """Every command under one tracer. The events carry the number of the command as their pid."""
        todo = commands(world, switches, self.is_quick)
        script = ["exec </dev/null >/dev/null 2>&1"]
        for i, (where, argv) in enumerate(todo):
            script.append(
                f"cd {quote(str(where))} && timeout -k 1 {COMMAND_SECONDS} {quote(self.git)} {argv}; r=$?; echo {i} $r >>$LOG"
            )
            script.append("[ $r -ne 124 ] || exit")  # what hangs once, hangs again
        log, status = self.scratch / "trace", self.scratch / "status"
        status.write_text("")
        env = {**world.env(), "LOG": str(status)}
        env["PATH"] = os.path.dirname(self.git) + ":" + env["PATH"]
        subprocess.run([*tracelog.ARGV, str(log), "/bin/sh", "-c", "\n".join(script)], env=env, cwd=world.live,
                       timeout=ALL_SECONDS, check=False)  # fmt: skip
        ended = [(int(code), f"git {todo[int(i)][1]} (in {todo[int(i)][0].relative_to(world.live)})")
                 for i, code in (line.split() for line in status.read_text().splitlines())]  # fmt: skip
        return tracelog.events(log.read_text(errors="surrogateescape")), ended

    @staticmethod
    def _by_command(found: List[tracelog.Event], first: int) -> List[Tuple[str, tracelog.Event]]:
        """Each event with the command under which it happened; the driving shell's own are left out."""
        now, got = "", []
        for event in found:
            if event.pid == first:
                continue
            if event.what == "executed" and event.argv[:1] == ("timeout",):
                now = " ".join(("git", *event.argv[5:]))
                continue
            got.append((now, event))
        return got

    def _look(self, world: World, switches: bool) -> Tuple[List[Tuple[str, tracelog.Event]], List[Tuple[int, str]]]:
        found, ended = self._drive(world, switches)
        return self._by_command(found, found[0].pid if found else 0), ended

    # --- a clean world ------------------------------------------------------------------------------

    def program(self, event: tracelog.Event) -> Tuple[str, ...]:
        """What was started, as far as it matters: git by its subcommand, a shell by its script."""
        name = os.path.basename(event.path)
        path = os.path.realpath(event.path)
        if name in SHELLS and event.argv[1:2] == ("-c",):
            return (path, *event.argv[2:3])
        if name == "git" or name.startswith("git-"):
            words = [w for w in event.argv[1:] if not w.startswith("-")]
            return ("git", name, *words[:1]) if name == "git" else ("git", name)
        return (path,)

    def learn(self, world: World, switches: bool) -> None:
        """The world must be fresh; it is used up."""
        key = (world.spec, switches)
        if key in self.clean:
            return
        programs, written, read = set(), set(), set()
        for _, event in self._look(world, switches)[0]:
            if event.what == "executed":
                programs.add(self.program(event))
            elif event.what == "written":
                written.add(event.path)
            else:
                read.add(event.path)
        self.clean[key] = Clean(programs, written, read)

    # --- an attacked one ----------------------------------------------------------------------------

    def judge(self, world: World, switches: bool, is_committed: bool = False) -> List[Finding]:
        """What the host's git does. `is_committed`: the user has taken the guest's repositories over, without
        what they would execute."""
        clean = self.clean[(world.spec, switches)]
        seen, ended = self._look(world, switches)
        got: Dict[Tuple[str, str], Finding] = {}
        for command, event in seen:
            detail = self._offence(world, clean, event, command)
            taken = is_committed and event.what == "written" and self._is_data(event.path)
            if detail and not taken:
                got.setdefault((event.what, detail), Finding(event.what, detail, command))
        for code, command in ended:
            if code in (124, 137):
                got[("hang", command)] = Finding("hang", f"more than {COMMAND_SECONDS} s", command)
            elif code in CRASHES:
                got[("crash", command)] = Finding("crash", f"status {code}", command)
        return list(got.values())

    def _offence(self, world: World, clean: Clean, event: tracelog.Event, command: str) -> str:
        if event.what == "executed":
            return self._executed(clean, event)
        if event.what == "written":
            return self._written(world, clean, event, command)
        return "" if event.name in WORK_TREE_NAMES else self._read(world, clean, event.path)

    def _executed(self, clean: Clean, event: tracelog.Event) -> str:
        words = (event.path, *event.argv[:1]) if event.worked else ()
        if os.path.basename(event.path) in SHELLS:
            words += event.argv
        if any(PAYLOAD in w for w in words) or PAYLOAD in os.path.basename(event.path):
            return f"{event.path} {' '.join(event.argv)}"[:300]
        program = self.program(event)
        if not event.worked or program in clean.programs:
            return ""
        # Whether git uses one of its own programs for its work depends on the work.
        if program[0] == "git" and os.path.realpath(event.path) in self.own and not FAR.match(program[-1]):
            return ""
        return " ".join(program)[:300]

    def _written(self, world: World, clean: Clean, event: tracelog.Event, command: str) -> str:
        path = event.path
        if path in clean.written or path.startswith("/dev/"):
            return ""
        for top in world.git_dirs():
            if path == str(top) or path.startswith(f"{top}/"):
                return "" if DATA.fullmatch(path[len(str(top)) + 1 :]) else path
        # A submodule that is not there is attached again.
        if command.startswith("git submodule update") and path in (f"{world.repo}/mod/.git", f"{world.repo}/part/mod/.git"):
            return ""
        # What a stash or a checkout is for.
        switches = command.split()[1:2] in (["stash"], ["checkout"], ["submodule"])
        if switches and any(path.startswith(f"{top}/") for top in world.tops):
            # They also clear away what stands where a file of theirs belongs.
            return path if "/.git" in path and event.name not in ("unlink", "unlinkat", "rmdir") else ""
        return path

    @staticmethod
    def _is_data(path: str) -> bool:
        return "/.git/" in path and DATA.fullmatch(path.rsplit("/.git/", 1)[1]) is not None

    def _read(self, world: World, clean: Clean, path: str) -> str:
        if path in clean.read or path in clean.written or path.startswith(SYSTEM) or LOADER.match(path):
            return ""
        if path.startswith(os.path.dirname(os.path.dirname(os.path.realpath(self.git))) + "/"):
            return ""
        own = [*world.tops, world.repo]
        if any(path == str(top) or path.startswith(f"{top}/") for top in own):
            return ""
        # Looking for a repository, git opens the directories above.
        return "" if str(world.live).startswith(path) else path
