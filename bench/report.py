# SPDX-License-Identifier: Apache-2.0
"""Numbers and tables for bench/run.py."""

import statistics


def low(samples):
    return min(samples)


def mid(samples):
    return statistics.median(samples)


def ratio(a, b):
    return f"{a / b:.2f}" if b else "-"


def number(value, digits=2):
    return f"{value:,.{digits}f}"


def table(title, head, rows, note=None):
    """Prints rows as a Markdown table with aligned columns."""
    cells = [head] + [[str(c) for c in row] for row in rows]
    width = [max(len(row[i]) for row in cells) for i in range(len(head))]
    print(f"\n## {title}\n")
    if note:
        print(note + "\n")
    for k, row in enumerate(cells):
        aligned = [row[0].ljust(width[0])] + [c.rjust(w) for c, w in zip(row[1:], width[1:])]
        print("| " + " | ".join(aligned) + " |")
        if k == 0:
            rule = ["-" * width[0]] + ["-" * (w - 1) + ":" for w in width[1:]]
            print("| " + " | ".join(rule) + " |")


class Targets:
    """The numbers Cordon wants to reach, and whether it did. A report, not a test."""

    def __init__(self):
        self.rows = []

    def at_most(self, what, value, limit, unit=""):
        self._add(what, value, "<=", limit, unit, value <= limit)

    def at_least(self, what, value, limit, unit=""):
        self._add(what, value, ">=", limit, unit, value >= limit)

    def _add(self, what, value, sign, limit, unit, is_reached):
        self.rows.append([what, f"{value:.2f}{unit}", f"{sign} {limit}{unit}",
                          "reached" if is_reached else "MISSED"])

    def show(self):
        if self.rows:
            table("Targets", ["what", "measured", "target", ""], self.rows)


def start_table(title, results, note=None):
    """Wall and CPU time of whole runs, beside bare and beside bubblewrap."""
    bare = results.get("bare")
    bwrap = results.get("bwrap")
    rows = []
    for name, r in results.items():
        if name == "plan":
            continue
        rows.append([
            name,
            f"{low(r['wall_us']) / 1e3:.2f} / {mid(r['wall_us']) / 1e3:.2f}",
            f"{low(r['cpu_us']) / 1e3:.2f} / {mid(r['cpu_us']) / 1e3:.2f}",
            f"{pair(r['wall_us'], bare, 'wall_us')}",
            f"{pair(r['wall_us'], bwrap, 'wall_us')}",
            f"{pair(r['cpu_us'], bwrap, 'cpu_us')}",
        ])
    table(title, ["", "wall ms", "CPU ms", "x bare", "x bwrap wall", "x bwrap CPU"], rows, note)


def pair(samples, other, key):
    if not other:
        return "-"
    return f"{ratio(low(samples), low(other[key]))} / {ratio(mid(samples), mid(other[key]))}"


def stage_table(title, result):
    """What each stage took, from the launcher's own stamps."""
    stamps = {name: v for name, v in result["stamps"].items() if any(v)}
    order = sorted(stamps, key=lambda name: mid(stamps[name]))
    rows = []
    before = [0] * len(result["wall_us"])
    for name in order:
        took = [b - a for a, b in zip(before, stamps[name])]
        rows.append([name, f"{low(took):.0f} / {mid(took):.0f}",
                     f"{low(stamps[name]):.0f} / {mid(stamps[name]):.0f}"])
        before = stamps[name]
    took = [w - b for w, b in zip(result["wall_us"], before)]
    rows.append(["the command, its end, the result", f"{low(took):.0f} / {mid(took):.0f}",
                 f"{low(result['wall_us']):.0f} / {mid(result['wall_us']):.0f}"])
    table(title, ["until", "us", "us since the start"], rows)


def inside_table(title, unit, results, note=None):
    """Costs inside, each beside the bare one: results[what][contender] = samples."""
    names = list(next(iter(results.values())))
    rows = []
    for what, by_name in results.items():
        bare = by_name["bare"]
        row = [what, f"{number(low(bare))} / {number(mid(bare))}"]
        for name in names[1:]:
            v = by_name.get(name)
            row.append(f"{ratio(low(v), low(bare))} / {ratio(mid(v), mid(bare))}" if v else "-")
        rows.append(row)
    table(title, ["", f"bare {unit}"] + [f"{n} x" for n in names[1:]], rows, note)
