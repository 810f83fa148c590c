#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tree must not mention the machine on which a change was made.

    check-words.py FILE...
"""

import re
import sys

FORBIDDEN = {
    r"(?<![\w./-])/work/": "a path of one machine",
    r"\bregistry\.npmjs\.org|\bfiles\.pythonhosted\.org|\bpypi\.org|\bdeb\.debian\.org": "the host name of a package registry",
    r"[ \t]+$": "white space at the end of a line",
    r"^(?:<<<<<<<|>>>>>>>) ": "a conflict marker",
}
# Markdown and transcripts may break a line with two blanks; corpora hold anything.
NO_BLANK_CHECK = re.compile(r"\.md$|\.scd$")
SKIP = re.compile(r"^fuzz/corpus/|^tools/check-words\.py$|^LICENSE$|\.(png|svg|bin)$")


def main():
    bad = 0
    patterns = [(re.compile(p, re.M), why) for p, why in FORBIDDEN.items()]
    for name in sys.argv[1:]:
        if SKIP.search(name):
            continue
        try:
            with open(name, encoding="utf-8", newline="") as f:
                text = f.read()
        except UnicodeDecodeError:
            print(f"{name}: not UTF-8")
            bad += 1
            continue
        for pattern, why in patterns:
            if why.startswith("white") and NO_BLANK_CHECK.search(name):
                continue
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                print(f"{name}:{line}: {why}: {match.group(0).strip()!r}")
                bad += 1
        if name.endswith((".c", ".h", ".py", ".sh")) and "SPDX-License-Identifier: Apache-2.0" not in text[:400]:
            print(f"{name}:1: no SPDX-License-Identifier line")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
