#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes go downwards: a file may include its own folder and folders of lower layers only.

    check-layers.py [ROOT]       check a source tree; exit 1 and say where if anything is wrong
    check-layers.py --self-test  check the checker

Folders of the same layer do not know each other, with the exceptions in SIBLINGS. A folder that is
not in the table is an error: whoever adds one decides where it belongs.
"""

import re
import sys
import tempfile
from pathlib import Path

LAYERS = {
    "src/base": 0,
    "src/uapi": 0,
    "src/sys": 1,
    "src/seccomp": 2,
    "src/net": 2,
    "src/git": 2,
    "src/policy": 3,
    "src/probe": 3,
    "src/discover": 3,
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
    "src/launch": 5,
    "src/api": 6,
    "cmd/cordon": 7,
    "bindings/python/src": 7,
}

# (from, to) within one layer. Never both directions.
SIBLINGS = {
    ("src/init/watch", "src/init"),
    ("src/init/broker", "src/init"),
    ("src/init/files", "src/init"),
}

# The rooms of a workspace: each knows those above it in this list; the last two not each other.
SIBLINGS |= {
    (f"src/workspace/{source}", f"src/workspace/{target}")
    for source, targets in {
        "store": ["tree"],
        "record": ["tree", "store"],
        "changes": ["tree", "store", "record"],
        "commit": ["tree", "store", "record", "changes"],
        "export": ["tree", "store", "record", "changes"],
    }.items()
    for target in targets
}

# Rooms within init know its core and not each other. The core knows one header of each.
HEADS = {
    ("src/init", "init/watch/watch.h"),
    ("src/init", "init/broker/broker.h"),
    ("src/init", "init/files/files.h"),
}

# The freestanding programs share formats, constants and parsers with the library, not code that
# needs libc. Bindings use the public interface and nothing else.
INIT_MAY = {"src/init", "src/base", "src/uapi", "src/sys", "src/seccomp", "src/net", "src/plan"}
ONLY = {
    "src/init": INIT_MAY,
    "src/init/watch": INIT_MAY,
    "src/init/broker": INIT_MAY,
    "src/init/files": INIT_MAY,
    "src/gateway": {"src/gateway", "src/base", "src/uapi", "src/sys", "src/net"},
    "bindings/python/src": {"bindings/python/src"},
}

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def folder_of(path, root):
    return path.parent.relative_to(root).as_posix()


def resolve(name, path, root):
    """Folder that an #include "name" leads to; None if it is generated or unknown."""
    for base in (path.parent, root / "src", root / "include", root):
        target = base / name
        if target.exists():
            return folder_of(target.resolve(), root.resolve())
    head = name.rsplit("/", 1)[0] if "/" in name else folder_of(path, root)
    for candidate in ("src/" + head, head):
        if candidate in LAYERS:
            return candidate
    return None


def allowed(source, target):
    if target == source or target == "include/cordon":
        return True
    if target not in ONLY.get(source, {target}):
        return False
    if LAYERS[target] < LAYERS[source]:
        return True
    return LAYERS[target] == LAYERS[source] and (source, target) in SIBLINGS


def check(root):
    problems = []
    for top in ("src", "cmd", "bindings"):
        for path in sorted((root / top).rglob("*.[chS]")):
            where = path.relative_to(root).as_posix()
            source = folder_of(path, root)
            if source not in LAYERS:
                problems.append(f"{where}: folder {source} has no layer in tools/check-layers.py")
                continue
            for match in INCLUDE.finditer(path.read_text(errors="replace")):
                line = path.read_text(errors="replace").count("\n", 0, match.start(1)) + 1
                target = resolve(match.group(1), path, root)
                if target is None or (target not in LAYERS and target != "include/cordon"):
                    problems.append(f'{where}:{line}: "{match.group(1)}" leads to no known layer')
                elif (source, match.group(1)) not in HEADS and not allowed(source, target):
                    problems.append(
                        f'{where}:{line}: {source} (layer {LAYERS[source]}) must not include '
                        f'"{match.group(1)}" of {target} (layer {LAYERS.get(target, "?")})'
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
        ("src/init/a.c", '#include "plan/plan_format.h"', True),
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
        if LAYERS[a] != LAYERS[b] or (b, a) in SIBLINGS:
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
