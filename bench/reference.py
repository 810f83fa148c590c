# SPDX-License-Identifier: Apache-2.0
"""Figures that are followed from change to change: bench/ratios.tsv has those of the last one.

Ratios, where there is something to divide by, since they differ least between machines. One that moved by
more than 5 % is named, so that a loss is seen in the change that causes it."""

import os

import report

REFERENCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ratios.tsv")
MOVED = 0.05


def read():
    try:
        with open(REFERENCE, encoding="utf-8") as f:
            rows = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
    except FileNotFoundError:
        return {}
    return {name: float(value) for name, value in rows}


def shown(value):
    """Small ratios need another digit, or 5 % of them could not be told."""
    return f"{value:.2f}" if value >= 0.5 else f"{value:.3f}"


def change(before, now):
    if before is None:
        return "new"
    if before <= 0:
        return ""  # the difference of two weights may be nothing
    moved = now / before - 1
    if abs(moved) <= MOVED:
        return ""
    return f"{moved:+.0%} {'SLOWER' if moved > 0 else 'better'}"


class Figures:
    """What the parts of this run have found. All are better if they are less."""

    def __init__(self):
        self.rows = {}

    def put(self, name, value, aim=None):
        self.rows[name] = (value, aim)

    def show(self):
        committed = read()
        rows = []
        for name, (value, aim) in self.rows.items():
            before = committed.get(name)
            rows.append([name, shown(value), "-" if before is None else shown(before),
                         change(before, value), "-" if aim is None else f"<= {aim}"])
        if rows:
            report.table("Beside the last change: ratios of the minimums",
                         ["", "now", "committed", "moved", "aim"], rows)

    def write(self):
        """Rows of parts that did not run stay as they are."""
        if not self.rows:
            print("\nNone of the parts that ran has figures for bench/ratios.tsv.")
            return
        figures = read()
        figures.update({name: value for name, (value, _) in self.rows.items()})
        with open(REFERENCE, "w", encoding="utf-8") as f:
            f.write("# Written by `make bench-update`; `make bench` compares with it.\n")
            for name, value in figures.items():
                f.write(f"{name}\t{shown(value)}\n")
        print(f"\nWritten: {os.path.relpath(REFERENCE)}")
