# SPDX-License-Identifier: Apache-2.0
"""From a log of strace to what was executed, written and read.

`strace -y` shows the directory that a call started from and the real path of what was opened, so links
on the way hide nothing.
"""

import os
import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

CALLS = (
    "execve,execveat,open,openat,openat2,creat,chdir,fchdir,rename,renameat,renameat2,link,linkat,symlink,symlinkat,"
    "unlink,unlinkat,mkdir,mkdirat,rmdir,truncate,chmod,fchmodat,mknod,mknodat,clone,clone3,fork,vfork"
)
FORKS = {"clone", "clone3", "fork", "vfork"}
ARGV = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-s", "2000", "-e", "signal=none", "-e", "trace=" + CALLS, "-o"]

LINE = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+|\?)(?:<(.*?)>)?(?: .*)?$")
UNFINISHED = re.compile(r"^(\d+) +(.*?) <unfinished \.\.\.>$")
RESUMED = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
WHERE = re.compile(r"(?:AT_FDCWD|\d+)<((?:[^>\\]|\\.)*)>")
ESCAPE = re.compile(r"\\([0-7]{1,3}|.)")
NAMED = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f"}
WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")


class Event(NamedTuple):
    """One thing that a process of the host did."""

    pid: int
    what: str  # executed, written, read
    path: str
    argv: Tuple[str, ...] = ()
    worked: bool = True
    name: str = ""  # as it was opened; of what is removed: the call
    cwd: str = ""  # of what is executed


def plain(text: str) -> str:
    def one(m: "re.Match[str]") -> str:
        c = m.group(1)
        return chr(int(c, 8)) if c[0] in "01234567" else NAMED.get(c, c)

    return ESCAPE.sub(one, text)


def lines(text: str) -> Iterator[Tuple[int, str, str, int, Optional[str]]]:
    """(pid, call, arguments, result, real path of the descriptor that came back)"""
    open_calls: Dict[str, str] = {}
    for line in text.splitlines():
        cut = UNFINISHED.match(line)
        if cut:
            open_calls[cut.group(1)] = cut.group(2)
            continue
        rest = RESUMED.match(line)
        if rest:
            line = f"{rest.group(1)} {open_calls.pop(rest.group(1), '')}{rest.group(2)}"
        m = LINE.match(line)
        if m and m.group(4) != "?":
            where = plain(m.group(5)) if m.group(5) is not None else None
            yield int(m.group(1)), m.group(2), m.group(3), int(m.group(4)), where


def real(path: str) -> str:
    """With the links of its directory followed; the name itself is what the call works on."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def events(text: str) -> List[Event]:
    got: List[Event] = []
    cwd: Dict[int, str] = {}
    calls = list(lines(text))
    # Known from the whole log: a vfork returns after its child has executed something.
    parent = {result: pid for pid, call, _, result, _ in calls if call in FORKS and result > 0}
    for pid, call, args, result, fd_path in calls:
        if call in FORKS:
            continue
        if pid not in cwd and parent.get(pid) in cwd:
            cwd[pid] = cwd[parent[pid]]
        strings = [plain(s) for s in STRING.findall(args)]
        at = [plain(w) for w in WHERE.findall(STRING.sub('""', args))]
        if args.startswith("AT_FDCWD<") and at:
            cwd[pid] = at[0]
        here = cwd.get(pid, "/")
        if call in ("chdir", "fchdir"):
            if result == 0:
                cwd[pid] = at[0] if call == "fchdir" and at else os.path.join(here, strings[0])
        elif call.startswith("execve") and strings:
            argv = tuple(strings[1:])
            got.append(Event(pid, "executed", os.path.join(here, strings[0]), argv, result == 0, cwd=here))
        elif call.startswith(("open", "creat")):
            if result >= 0 and fd_path is not None:
                what = "written" if call == "creat" or WRITES.search(STRING.sub("", args)) else "read"
                name = os.path.basename(strings[0]) if strings else ""
                got.append(Event(pid, what, fd_path.replace(" (deleted)", ""), name=name))
        elif result == 0 and strings:
            # The last path of a call is the one that it makes; a rename also takes one away.
            paths = strings if call.startswith("rename") else strings[-1:]
            for i, path in enumerate(paths):
                start = at[min(i, len(at) - 1)] if at else here
                if call.startswith("link") and at:
                    start = at[-1]
                got.append(Event(pid, "written", real(os.path.join(start, path)), name=call))
    return got
