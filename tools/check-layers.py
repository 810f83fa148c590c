#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes go downwards: a file may include its own room and rooms of lower tiers only.

    check-layers.py [ROOT]       check a source tree; exit 1 and say where if anything is wrong
    check-layers.py --self-test  check the checker

A room is a folder. Rooms of the same tier do not know each other, with the exceptions in SIBLINGS.
A room inside another may include its parent and not its neighbours; of it the parent may include
the header that has the room's name. A folder that is not in the table is an error.
"""

import re
import sys
import tempfile
from pathlib import Path

TIERS = {
    "src/arch": 0,
    "src/base": 0,
    "src/uapi": 0,
    "src/format": 0,
    "src/sys": 1,
    "src/bare": 1,
    "src/seccomp": 2,
    "src/net": 2,
    "src/git": 2,
    "src/policy": 3,
    "src/probe": 3,
    "src/discover": 3,
    "src/device": 3,
    "src/workspace/tree": 3,
    "src/workspace/store": 3,
    "src/workspace/record": 3,
    "src/workspace/changes": 3,
    "src/workspace/commit": 3,
    "src/workspace/export": 3,
    "src/plan": 4,
    "src/init": 5,
    "src/init/watch": 5,
    "src/init/broker": 5,
    "src/init/files": 5,
    "src/gateway": 5,
    "src/meter": 5,
    "src/launch": 5,
    "src/warm": 5,
    "src/packages": 6,
    "src/api": 6,
    "cmd/cordon": 7,
    "cmd/cordon/mcp": 7,
    "cmd/cordon/microvm": 7,
    "bindings/python/src": 7,
}


def row(*rooms):
    """Each of these may include those before it."""
    return {(room, lower) for i, room in enumerate(rooms) for lower in rooms[:i]}


# (from, to) within one tier. Never both directions.
WORKSPACE = [f"src/workspace/{name}" for name in ("tree", "store", "record", "changes")]
SIBLINGS = (
    row("src/base", "src/format")
    | row("src/bare", "src/sys")
    | row(*WORKSPACE, "src/workspace/commit")
    | row(*WORKSPACE, "src/workspace/export")
)

# The freestanding programs share formats, constants and parsers with the library, not code that
# needs libc. The command and the bindings use the public interface, the command also src/base and
# src/format. A room inside another has the limits of its parent,
# unless it has its own.
BARE = {"src/arch", "src/base", "src/uapi", "src/format", "src/bare", "src/net"}
ONLY = {
    "src/init": BARE | {"src/seccomp", "src/plan"},
    "src/gateway": BARE,
    "src/meter": BARE,
    "src/warm": {"src/arch", "src/bare"},
    "cmd/cordon": {"src/base", "src/format", "src/discover"},
    # Made of the rooms of the library, as packages are, and no interface of it yet.
    "cmd/cordon/microvm": {"src/base", "src/format", "src/policy", "src/probe", "src/workspace/tree", "src/launch", "src/packages"},
    "bindings/python/src": set(),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def folder_of(path, root):
    return path.parent.relative_to(root).as_posix()


def parent_of(room):
    parent = room.rsplit("/", 1)[0]
    return parent if parent in TIERS else None


def resolve(name, path, root):
    """Folder that an #include "name" leads to; None if it is generated or unknown."""
    for base in (path.parent, root / "src", root / "include", root):
        target = base / name
        if target.exists():
            return folder_of(target.resolve(), root.resolve())
    head = name.rsplit("/", 1)[0] if "/" in name else folder_of(path, root)
    for candidate in ("src/" + head, head):
        if candidate in TIERS:
            return candidate
    return None


def allowed(source, target, name):
    if target in (source, "include/cordon", parent_of(source)):
        return True
    if parent_of(target) == source:
        leaf = target.rsplit("/", 1)[1]
        return name.endswith(f"{leaf}/{leaf}.h")
    only = ONLY.get(source, ONLY.get(parent_of(source)))
    if only is not None and target not in only:
        return False
    return TIERS[target] < TIERS[source] or (source, target) in SIBLINGS


def check(root):
    problems = []
    for top in ("src", "cmd", "bindings"):
        for path in sorted((root / top).rglob("*.[chS]")):
            where = path.relative_to(root).as_posix()
            source = folder_of(path, root)
            if source not in TIERS:
                problems.append(f"{where}: folder {source} has no tier in tools/check-layers.py")
                continue
            text = path.read_text(errors="replace")
            for match in INCLUDE.finditer(text):
                line = text.count("\n", 0, match.start(1)) + 1
                target = resolve(match.group(1), path, root)
                if target is None or (target not in TIERS and target != "include/cordon"):
                    problems.append(f'{where}:{line}: "{match.group(1)}" leads to no known room')
                elif not allowed(source, target, match.group(1)):
                    problems.append(
                        f'{where}:{line}: {source} (tier {TIERS[source]}) must not include '
                        f'"{match.group(1)}" of {target} (tier {TIERS[target]})'
                    )
    return problems


def self_test():
    cases = [
        ("src/sys/a.c", '#include "base/x.h"', True),
        ("src/base/a.c", '#include "sys/x.h"', False),
        ("src/policy/a.c", '#include "probe/x.h"', False),
        ("src/policy/a.c", '#include "own.h"', True),
        ("src/launch/a.c", '# include  "api/x.h"', False),
        ("src/launch/a.c", "#include <cordon/error.h>", True),
        ("src/base/a.c", '#include "format/x.h"', False),
        ("src/format/a.c", '#include "base/x.h"', True),
        ("src/init/a.c", '#include "format/plan.h"', True),
        ("src/init/a.c", '#include "plan/plan_read.h"', True),
        ("src/gateway/a.c", '#include "plan/plan_read.h"', False),
        ("src/gateway/a.c", '#include "bare/x.h"', True),
        ("src/init/a.c", '#include "launch/x.h"', False),
        ("src/init/a.c", '#include "sys/calls.h"', False),
        ("src/sys/a.c", '#include "bare/raw.h"', True),
        ("src/launch/a.c", '#include "init/watch/x.h"', False),
        ("src/workspace/store/a.c", '#include "workspace/tree/x.h"', True),
        ("src/workspace/tree/a.c", '#include "workspace/store/x.h"', False),
        ("src/plan/a.c", '#include "workspace/store/x.h"', True),
        ("src/plan/a.c", '#include "git/x.h"', True),
        ("src/git/a.c", '#include "workspace/tree/x.h"', False),
        ("src/init/a.c", '#include "policy/policy.h"', False),
        ("src/init/a.c", '#include "init/watch/watch.h"', True),
        ("src/init/a.c", '#include "init/watch/memory.h"', False),
        ("src/init/watch/a.c", '#include "init/init.h"', True),
        ("src/init/watch/a.c", '#include "init/watch/memory.h"', True),
        ("src/init/watch/a.c", '#include "init/broker/broker.h"', False),
        ("src/init/files/a.c", '#include "policy/policy.h"', False),
        ("src/workspace/store/a.c", '#include "workspace/tree/x.h"', True),
        ("src/workspace/tree/a.c", '#include "workspace/store/x.h"', False),
        ("src/workspace/export/a.c", '#include "workspace/commit/x.h"', False),
        ("src/workspace/a.c", "", False),
        ("src/newcomer/a.c", "", False),
        ("src/plan/a.c", '#include "nowhere/x.h"', False),
        ("cmd/cordon/a.c", '#include "base/x.h"', True),
        ("cmd/cordon/a.c", '#include "policy/policy.h"', False),
        ("src/git/a.c", '#include "sys/x.h"', True),
        ("src/git/a.c", '#include "net/x.h"', False),
        ("src/workspace/changes/a.c", '#include "git/x.h"', True),
        ("src/seccomp/a.c", '#include "seccomp/generated.h"', True),
        ("bindings/python/src/a.c", '#include "own.h"', True),
        ("bindings/python/src/a.c", "#include <cordon/error.h>", True),
        ("bindings/python/src/a.c", '#include "base/x.h"', False),
    ]
    wrong = 0
    for name, text, good in cases:
        with tempfile.TemporaryDirectory() as scratch:
            root = Path(scratch)
            path = root / name
            path.parent.mkdir(parents=True)
            path.write_text(text + "\n")
            (path.parent / "own.h").write_text("\n")
            if (not check(root)) != good:
                print(f"self-test: {name} with {text!r} was judged wrongly")
                wrong += 1
    for a, b in SIBLINGS:
        if TIERS[a] != TIERS[b] or (b, a) in SIBLINGS:
            print(f"self-test: sibling pair {a}, {b} makes no sense")
            wrong += 1
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    problems = check(root)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
