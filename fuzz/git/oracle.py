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
COMMAND_SECONDS = 30
ALL_SECONDS = 600

# What git keeps in a repository, and writes as it works: nothing that makes it execute something.
DATA = re.compile(
    r"(?:(?:modules|worktrees)/(?:[^/]+/)+?)*(?:(?:objects|refs|logs|rebase-merge|rebase-apply|sequencer|rr-cache|"
    r"lost-found)(?:/.*)?|(?:info/?|info/refs|info/commit-graph|branches|packed-refs|shallow|gc\.pid|gc\.log|COMMIT_EDITMSG|"
    r"index|[A-Z_]+|next-index-\d+|\.MERGE_FILE_\w+)(?:\.lock|\.new|_\w+)?|sharedindex\.?\w*|sharedindex_\w+|"
    r"info/refs_\w+|tmp_\w+|\.tmp-\w+|index\.stash\.\d+(?:\.lock)?|gc\.pid\.\w+|config\.lock)?"
)
CRASHES = {128 + n for n in (4, 6, 7, 8, 11)}  # ILL, ABRT, BUS, FPE, SEGV
SYSTEM = ("/usr/", "/lib/", "/lib64/", "/proc/", "/dev/", "/sys/", "/bin/", "/sbin/")
LOADER = re.compile(r"/etc/(?:ld\.so\.\w+|locale\.alias|localtime|nsswitch\.conf|passwd|group|gitconfig|gitattributes)$")
# The work tree's own files may be links; git opens what they lead to, in old versions.
WORK_TREE_NAMES = {".gitignore", ".gitattributes", ".mailmap"}
# What git starts of its own by itself, depending on the work that it finds: none of these speaks with others, and none
# takes a program to run from its arguments. Anything else that a clean world does not start is a finding.
WORK = re.compile(
    r"(?:git-)?(?:add|am|apply|bisect|bisect--helper|cat-file|checkout|checkout--worker|checkout-index|cherry-pick|commit|commit-graph|"
    r"diff|diff-files|diff-index|for-each-ref|gc|index-pack|log|ls-files|ls-tree|mailinfo|mailsplit|maintenance|merge|merge-base|merge-file|"
    r"merge-one-file|merge-ort|merge-recursive|multi-pack-index|notes|pack-objects|pack-refs|prune|prune-packed|read-tree|rebase|reflog|refs|"
    r"repack|rerere|reset|rev-list|rev-parse|show|show-ref|stash|status|submodule|submodule--helper|symbolic-ref|unpack-objects|"
    r"update-index|update-ref|worktree|write-tree|sh-i18n--envsubst)"
)
# Commands whose work is to change files of the work tree.
SWITCHES = [[c] for c in ("stash", "checkout", "reset", "restore", "submodule", "rebase", "am", "cherry-pick", "merge", "bisect")]
# The editor and the pager of the user's environment (world.py).
USERS = {f"{d}/{name}" for d in ("/bin", "/usr/bin") for name in ("true", "cat")}
# Names in the work tree that a run cannot change: git must not do it in its place.
PROTECTED = {".git", ".envrc", ".envrc.lock", ".vscode"}
SHELLS = {"sh", "bash", "dash"}


class Finding(NamedTuple):
    what: str  # executed, written, read, hang, crash
    detail: str
    command: str

    @property
    def counts(self) -> bool:
        """Git that gives up on bad data is told, but nothing of the host was lost."""
        return self.what != "crash"


class Use(NamedTuple):
    """How the host uses a world."""

    spec: Spec
    switches: bool  # it goes to other commits
    continues: bool  # it goes on with what the guest began
    is_quick: bool  # with a few commands only


class Clean(NamedTuple):
    """What a clean world does."""

    programs: Set[Tuple[str, ...]]
    written: Set[str]
    read: Set[str]


def quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


class Hooks:
    """The user's own hooks, as the runs have left them.

    A hook is his if its path leads to the same place by the same names and links as before the runs, and to
    the same bytes. That is looked at before the host's commands, since these may take the hook away again.
    Where they write one themselves, nobody knows what it held when it was executed.
    """

    def __init__(self, world: World):
        now = world.hooks()
        self.whole = {path for path, what in world.users.items() if now.get(path) == what}
        self.rewritten: Set[str] = set()
        self.names = {path: {name for name, _ in world.users[path].names} for path in self.whole}

    def wrote(self, path: str) -> None:
        """The host's git did."""
        hit = {hook for hook in self.whole if path in self.names[hook]}
        self.whole -= hit
        self.rewritten |= hit


class Oracle:
    def __init__(self, git: str, scratch: pathlib.Path):
        self.git = git
        self.scratch = scratch
        self.clean: Dict[Use, Clean] = {}
        said = subprocess.run([git, "--version"], stdout=subprocess.PIPE, check=True, text=True).stdout
        self.version = said.split()[2]
        core = subprocess.run([git, "--exec-path"], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
        self.own = {os.path.realpath(git)} | {os.path.realpath(f) for f in pathlib.Path(core).glob("git*")}

    # --- one look -----------------------------------------------------------------------------------

    def _drive(self, world: World, use: Use, limit: int) -> Tuple[List[tracelog.Event], List[Tuple[int, str]]]:
        """Every command under one tracer. The events carry the number of the command as their pid."""
        todo = commands(world, use.switches, use.continues, use.is_quick)
        script = ["exec </dev/null >/dev/null 2>&1"]
        for i, (where, argv) in enumerate(todo):
            line = f"{quote(self.git)} {argv}"
            if argv.startswith("tty "):
                line = f"script -qec {quote(quote(self.git) + argv[3:])} /dev/null"
            script.append(f"cd {quote(str(where))} && timeout -k 1 {limit} {line}; r=$?; echo {i} $r >>$LOG")
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

    def _look(self, world: World, use: Use, limit: int = COMMAND_SECONDS) -> Tuple[List[Tuple[str, tracelog.Event]], List[Tuple[int, str]]]:
        found, ended = self._drive(world, use, limit)
        return self._by_command(found, found[0].pid if found else 0), ended

    # --- a clean world ------------------------------------------------------------------------------

    def program(self, event: tracelog.Event) -> Tuple[str, ...]:
        """What was started, as far as it matters: git by its subcommand, a shell by its script."""
        name = os.path.basename(event.path)
        # Below the world, links are not what they were when it was started.
        path = os.path.realpath(event.path) if event.path.startswith(SYSTEM) else event.path
        if name in SHELLS and event.argv[1:2] == ("-c",):
            return (path, *event.argv[2:3])
        if self.script(event) != event.path:
            return (path, self.script(event))
        if name == "git" or name.startswith("git-"):
            words = [w for w in event.argv[1:] if not w.startswith("-")]
            return ("git", name, *words[:1]) if name == "git" else ("git", name)
        return (path,)

    @staticmethod
    def script(event: tracelog.Event) -> str:
        """The file that was started. A hook without a first line for the kernel is given to a shell."""
        if os.path.basename(event.path) in SHELLS and event.argv[1:2] and event.argv[1][:1] not in ("-", ""):
            return os.path.join(event.cwd, event.argv[1])
        return event.path

    def learn(self, world: World, use: Use) -> None:
        """The world must be fresh; it is used up."""
        programs, written, read = set(), set(), set()
        for _, event in self._look(world, use)[0]:
            if event.what == "executed":
                programs.add(self.program(event))
            elif event.what == "written":
                written.add(event.path)
            else:
                read.add(event.path)
        self.clean[use] = Clean(programs, written, read)

    # --- an attacked one ----------------------------------------------------------------------------

    def judge(self, world: World, use: Use, limit: int = COMMAND_SECONDS) -> List[Finding]:
        """What the host's git does. `limit`: seconds that a command may take."""
        clean, hooks = self.clean[use], Hooks(world)
        seen, ended = self._look(world, use, limit)
        got: Dict[Tuple[str, str], Finding] = {}
        for command, event in seen:
            if event.what == "written":
                hooks.wrote(event.path)
            detail = self._offence(world, clean, hooks, event, command)
            # With `git add .` the user has taken the guest's repositories over, without what they would execute.
            taken = event.what == "written" and self._is_data(world, event.path)
            if detail and not taken:
                got.setdefault((event.what, detail), Finding(event.what, detail, command))
        for code, command in ended:
            if code in (124, 137):
                got[("hang", command)] = Finding("hang", f"more than {limit} s", command)
            elif code in CRASHES:
                got[("crash", command)] = Finding("crash", f"status {code}", command)
        return list(got.values())

    def _offence(self, world: World, clean: Clean, hooks: Hooks, event: tracelog.Event, command: str) -> str:
        if event.what == "executed":
            return self._executed(world, clean, hooks, event)
        if event.what == "written":
            return self._written(world, clean, event, command)
        return "" if event.name in WORK_TREE_NAMES else self._read(world, clean, event.path)

    def _executed(self, world: World, clean: Clean, hooks: Hooks, event: tracelog.Event) -> str:
        words = (event.path, *event.argv[:1]) if event.worked else ()
        if os.path.basename(event.path) in SHELLS:
            words += event.argv
        if any(PAYLOAD in w for w in words) or PAYLOAD in os.path.basename(event.path):
            return f"{event.path} {' '.join(event.argv)}"[:300]
        program, script = self.program(event), self.script(event)
        if not event.worked:
            return ""
        # Of the world's files, only the user's own hooks are to be executed, whether a clean world does so or not: a
        # workspace may leave a repository where none was.
        if script.startswith(f"{world.live}/"):
            is_users = script in hooks.whole or (script in hooks.rewritten and program in clean.programs)
            return "" if is_users else f"{script}, which is not as the user had it"
        # The editor of the user, where the clean world's git did not come to it.
        if program in clean.programs or event.path in USERS:
            return ""
        if program[0] == "git" and os.path.realpath(event.path) in self.own and self._is_work(event, program):
            return ""
        return " ".join(program)[:300]

    @staticmethod
    def _is_work(event: tracelog.Event, program: Tuple[str, ...]) -> bool:
        """The guest's program may be named as a file, but not as the value of a setting or option."""
        return WORK.fullmatch(program[-1]) is not None and not any(PAYLOAD in w and "=" in w for w in event.argv)

    def _written(self, world: World, clean: Clean, event: tracelog.Event, command: str) -> str:
        path = event.path
        if path in clean.written or path.startswith("/dev/"):
            return ""
        is_removal = event.name in ("unlink", "unlinkat", "rmdir")
        for top in world.git_dirs():
            if path == str(top) or path.startswith(f"{top}/"):
                rest = path[len(str(top)) + 1 :]
                # A linked work tree that a workspace's commit left, and that is nowhere, is cleared away.
                is_pruned = is_removal and rest.split("/")[0] == "worktrees"
                # While it shortens a reflog, git locks the reference of that name.
                is_logged = "/" not in rest and rest.endswith(".lock") and (top / "logs" / rest[:-5]).is_file()
                return "" if is_pruned or is_logged or DATA.fullmatch(rest) else path
        # A submodule that is not there is attached again.
        if command.startswith("git submodule update") and path in (f"{world.repo}/mod/.git", f"{world.repo}/part/mod/.git"):
            return ""
        # What a stash or a checkout is for.
        switches = command.split()[1:2] in SWITCHES
        if switches and any(path.startswith(f"{top}/") for top in world.tops):
            # They also clear away what stands where a file of theirs belongs: below the work tree, and never
            # in the repository itself, which was judged above.
            return path if not is_removal and PROTECTED & set(path.split("/")) else ""
        return path

    @staticmethod
    def _is_data(world: World, path: str) -> bool:
        """Git's own data in a repository inside the grant; configs, hooks and links are none."""
        is_inside = path.startswith(f"{world.grant}/") and os.path.realpath(path).startswith(f"{world.grant}/")
        return is_inside and "/.git/" in path and DATA.fullmatch(path.rsplit("/.git/", 1)[1]) is not None

    def _read(self, world: World, clean: Clean, path: str) -> str:
        if path in clean.read or path in clean.written or path.startswith(SYSTEM) or LOADER.match(path):
            return ""
        if path.startswith(os.path.dirname(os.path.dirname(os.path.realpath(self.git))) + "/"):
            return ""
        # The user's own remote: how much of it is read depends on what is missing.
        own = [*world.tops, world.repo, *([world.live / "remote.git"] if world.spec.remote else [])]
        if any(path == str(top) or path.startswith(f"{top}/") for top in own):
            return ""
        # Looking for a repository, git opens the directories above.
        return "" if str(world.live).startswith(path) else path
