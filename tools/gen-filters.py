#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compile the system call table into seccomp filters (classic BPF as C arrays).

usage: gen-filters.py TABLE --arch ARCH -o OUT.c

The table's head describes its format. What a filter costs, and what is therefore minimised:

- Installing it: the kernel translates and JIT-compiles each instruction, then walks the program
  once for every system call number to learn which ones are allowed whatever their arguments.
- Running it: only for the other calls.

So numbers are told apart by a tree of comparisons whose shape weighs the number of instructions
against the length of these walks; isolated numbers inside a uniform stretch take one JEQ instead
of two bounds; equal tails of rules, and all returns, exist once. Only instructions that the
kernel's walk understands (LD, JEQ, JGE, JGT, JSET, AND, RET) stand before the first argument.
"""

import argparse
import os
import sys
from functools import lru_cache

ERRNO = {"DONE": 0, "EPERM": 1, "ENOMEM": 12, "EACCES": 13, "EINVAL": 22, "ENOSYS": 38,
         "EPROTONOSUPPORT": 93, "EOPNOTSUPP": 95, "EAFNOSUPPORT": 97}
UNKNOWN = "ENOSYS"
NR_END = 1 << 32
MAX_INSNS = 4096  # BPF_MAXINSNS
MAX_JUMP = 255

# What one more instruction costs when installed, and one more step when it is evaluated. Measured
# about 160 ns and 3 ns; the optimum is flat (installation within 1 us from here to there), so
# this leans towards short programs.
COST_INSN = 300.0
COST_STEP = 1.5

ACTIONS = {"allow": "SECCOMP_RET_ALLOW", "notify": "SECCOMP_RET_USER_NOTIF",
           "KILL": "SECCOMP_RET_KILL_PROCESS"}
OFF_NR, OFF_ARCH, OFF_ARGS = 0, 4, 16
TESTS = {"==": "JEQ", ">": "JGT", "&": "JSET"}


# The architectures, in the order of the table's columns of numbers, and what seccomp calls them.
ARCHES = {"x86_64": "AUDIT_ARCH_X86_64", "aarch64": "AUDIT_ARCH_AARCH64"}


class TableError(Exception):
    pass


class Table:
    """The parsed table for one architecture: variants, rules, names, and verdicts[variant][number]."""

    def __init__(self, path, arch):
        self.column = list(ARCHES).index(arch)
        self.used_rules = set()  # by rows of any architecture
        self.variants = []
        self.rules = {}
        self.names = {}
        self.verdicts = []
        self.flavours = []
        rule = None
        with open(path, encoding="ascii") as f:
            for lineno, line in enumerate(f, 1):
                words = line.split("#", 1)[0].split()
                if not words:
                    continue
                try:
                    if line[0].isspace():
                        self._statement(rule, words)
                    elif words[0] == "variants":
                        self.variants = words[1:]
                        self.verdicts = [{} for _ in self.variants]
                    elif words[0] == "flavour":
                        self.flavours.append(self._flavour(words))
                    elif words[0] == "rule":
                        (name,) = words[1:]
                        if name in self.rules:
                            raise TableError(f"rule {name} given twice")
                        rule = self.rules[name] = []
                    else:
                        rule = None
                        self._row(words)
                except (TableError, ValueError) as e:
                    raise TableError(f"{path}:{lineno}: {e}") from None
        self._add_flavours(path)
        self._check(path)

    @staticmethod
    def _flavour(words):
        """(name, variants or None for all plain ones, [(call, verdict)...])"""
        changes = [word.split("=") for word in words[2:] if "=" in word]
        of = [word for word in words[2:] if "=" not in word]
        if not changes or any(len(change) != 2 for change in changes) or of[:1] not in ([], ["of"]):
            raise TableError("cannot read " + " ".join(words))
        return words[1], of[1:] or None, [(call, verdict(value)) for call, value in changes]

    def _add_flavours(self, path):
        """Variants once more for each flavour, with a few calls' verdicts changed."""
        numbers = {name: nr for nr, name in self.names.items()}
        plain = list(self.variants)
        for flavour, of, changes in self.flavours:
            for variant in of or plain:
                if variant not in self.variants:
                    raise TableError(f"{path}: flavour {flavour}: no variant {variant}")
                table = dict(self.verdicts[self.variants.index(variant)])
                for call, value in changes:
                    if call not in numbers:
                        raise TableError(f"{path}: flavour {flavour}: no call {call}")
                    table[numbers[call]] = value
                self.variants.append(f"{variant}_{flavour}")
                self.verdicts.append(table)

    def _statement(self, rule, words):
        if rule is None:
            raise TableError("statement outside a rule")
        if rule and rule[-1][0] == "else":
            raise TableError("statement after else")
        if not rule and words[0] != "arg":
            raise TableError("a rule starts with arg")
        if words[0] == "arg" and len(words) == 2 and 0 <= int(words[1]) < 6:
            rule.append(("arg", int(words[1])))
        elif words[0] == "mask" and len(words) == 2:
            rule.append(("mask", int(words[1], 0)))
        elif words[0] == "if" and len(words) == 4 and words[1] in TESTS:
            rule.append(("if", TESTS[words[1]], int(words[2], 0), verdict(words[3])))
        elif words[0] == "else" and len(words) == 2:
            rule.append(("else", verdict(words[1])))
        else:
            raise TableError("cannot read " + " ".join(words))

    def _row(self, words):
        numbers, name, columns = words[: len(ARCHES)], words[len(ARCHES)], words[len(ARCHES) + 1 :]
        if not 1 <= len(columns) <= len(self.variants):
            raise TableError("wrong number of columns")
        columns += ["="] * (len(self.variants) - len(columns))
        values = []
        for column in columns:
            if column == "=" and not values:
                raise TableError("nothing to the left of =")
            values.append(verdict(column) if column != "=" else values[-1])
        self.used_rules |= {value for value in values if value[0] == "@"}
        first, _, last = numbers[self.column].partition("-")
        if not first:  # "-": this architecture does not have it
            return
        for nr in range(int(first), int(last or first) + 1):
            if nr in self.names:
                raise TableError(f"number {nr} given twice")
            self.names[nr] = name
            for table, value in zip(self.verdicts, values):
                table[nr] = value

    def _check(self, path):
        used = self.used_rules | {v for table in self.verdicts for v in table.values() if v[0] == "@"}
        for name, rule in self.rules.items():
            if not rule or rule[-1][0] != "else":
                raise TableError(f"{path}: rule {name} does not end with else")
            used |= {s[-1] for s in rule if isinstance(s[-1], str) and s[-1][0] == "@"}
        for name in used ^ {"@" + name for name in self.rules}:
            raise TableError(f"{path}: rule {name} is not defined or not used")
        if sorted(self.names) != list(range(len(self.names))):
            raise TableError(f"{path}: numbers are missing")


def verdict(word):
    if word.startswith("@") or word in ("allow", "notify"):
        return word
    if word.upper() not in ERRNO or not word.islower():
        raise TableError(f"unknown verdict {word}")
    return word.upper()


class Graph:
    """Instructions as a graph; equal ones exist once, so equal tails are shared."""

    def __init__(self, rules):
        self.nodes = []
        self.ids = {}
        self.rules = rules

    def node(self, *key):
        if key not in self.ids:
            self.ids[key] = len(self.nodes)
            self.nodes.append(key)
        return self.ids[key]

    def verdict(self, value, trail=()):
        if value[0] != "@":
            return self.node("RET", value)
        if value in trail:
            raise TableError(f"rule {value} goes round in a circle")
        node = None
        for statement in reversed(self.rules[value[1:]]):
            if statement[0] == "else":
                node = self.verdict(statement[1], trail + (value,))
            elif statement[0] == "arg":
                node = self.node("LD", OFF_ARGS + 8 * statement[1], node)
            elif statement[0] == "mask":
                node = self.node("AND", statement[1], node)
            else:
                yes = self.verdict(statement[3], trail + (value,))
                node = self.node(statement[1], statement[2], yes, node)
        return node

    def successors(self, node):
        """The node's successors, the one that had best follow it directly last."""
        op, *rest = self.nodes[node]
        if op == "RET":
            return []
        if op in ("LD", "AND"):
            return [rest[1]]
        yes, no = rest[1], rest[2]
        # A jump with one arm falling through becomes one instruction in the kernel, else two.
        # JSET has no inverse there, so only its false arm is worth it.
        if op != "JSET" and self.nodes[no][0] == "RET" and self.nodes[yes][0] != "RET":
            return [no, yes]
        return [yes, no]

    def layout(self, root):
        """Reverse postorder: every jump goes forwards, and shared returns come last."""
        order = []
        seen = set()

        def visit(node):
            if node in seen:
                return
            seen.add(node)
            for successor in self.successors(node):
                visit(successor)
            order.append(node)

        for node, key in enumerate(self.nodes):
            if key[0] == "RET":
                visit(node)
        visit(root)
        return order  # last instruction first


def stretches(verdicts):
    """The numbers 0 to 2^32-1 as maximal stretches [first, end, verdict]."""
    result = []
    for nr in range(max(verdicts) + 1):
        if not result or result[-1][2] != verdicts[nr]:
            result.append([nr, nr + 1, verdicts[nr]])
        result[-1][1] = nr + 1
    if result[-1][2] == UNKNOWN:
        result[-1][1] = NR_END
    else:
        result.append([result[-1][1], NR_END, UNKNOWN])
    return result


def build_tree(graph, verdicts):
    """The cheapest tree of JGE over stretches whose leaves are chains of JEQ."""
    parts = stretches(verdicts)
    known = max(verdicts) + 1
    weight = [min(end, known) - min(first, known) for first, end, _ in parts]

    def chain(i, j):
        """(cost, default, singles) if all but the stretches of one verdict are single numbers."""
        best = None
        for default in sorted({parts[k][2] for k in range(i, j)}):
            singles = [k for k in range(i, j) if parts[k][2] != default]
            if any(parts[k][1] - parts[k][0] != 1 for k in singles):
                continue
            steps = sum(weight[i:j]) * len(singles)
            cost = COST_INSN * len(singles) + COST_STEP * steps
            if best is None or cost < best[0]:
                best = (cost, default, singles)
        return best

    @lru_cache(maxsize=None)
    def plan(i, j):
        """(cost, None or where to split) of the stretches i to j-1."""
        whole = chain(i, j)
        best = (whole[0], None) if whole else (float("inf"), None)
        here = COST_INSN + COST_STEP * sum(weight[i:j])
        for k in range(i + 1, j):
            cost = here + plan(i, k)[0] + plan(k, j)[0]
            if cost < best[0]:
                best = (cost, k)
        return best

    def emit(i, j):
        split = plan(i, j)[1]
        if split is not None:
            return graph.node("JGE", parts[split][0], emit(split, j), emit(i, split))
        _, default, singles = chain(i, j)
        node = graph.verdict(default)
        for k in reversed(singles):
            node = graph.node("JEQ", parts[k][0], graph.verdict(parts[k][2]), node)
        return node

    return emit(0, len(parts))


def assemble(graph, root):
    """The program as [(op, k, jt, jf, node)], first instruction first."""
    code = []  # last instruction first
    place = {}

    def put(op, k, jt, jf, node):
        place[node] = len(code)
        code.append((op, k, jt, jf, node))

    def distance(node):
        return len(code) - 1 - place[node]

    for node in graph.layout(root):
        op, *rest = graph.nodes[node]
        if op == "RET":
            put(op, rest[0], 0, 0, node)
        elif op in ("LD", "AND"):
            if distance(rest[1]):
                put("JA", distance(rest[1]), 0, 0, rest[1])
            put(op, rest[0], 0, 0, node)
        else:
            # Out of reach: a copy of the return, or a jump, right behind this instruction.
            while any(distance(target) > MAX_JUMP for target in rest[1:]):
                target = max(rest[1:], key=distance)
                if graph.nodes[target][0] == "RET":
                    put("RET", graph.nodes[target][1], 0, 0, target)
                else:
                    put("JA", distance(target), 0, 0, target)
            put(op, rest[0], distance(rest[1]), distance(rest[2]), node)
    code.reverse()
    if len(code) > MAX_INSNS:
        raise TableError("the program is too long for the kernel")
    return code


def compile_variant(table, index, arch):
    graph = Graph(table.rules)
    root = build_tree(graph, table.verdicts[index])
    root = graph.node("LD", OFF_NR, root)
    root = graph.node("JEQ", ARCHES[arch], root, graph.node("RET", "KILL"))
    root = graph.node("LD", OFF_ARCH, root)
    return assemble(graph, root)


def number_tests(code):
    """Where the program compares the call's number: no argument has been loaded on the way."""
    start = next(pc for pc, insn in enumerate(code) if insn[:2] == ("LD", OFF_NR))
    result = set()
    todo = [start + 1]
    while todo:
        pc = todo.pop()
        op, _, jt, jf, _ = code[pc]
        if op in TESTS.values() or op == "JGE":
            result.add(pc)
            todo += [pc + 1 + jt, pc + 1 + jf]
    return result


C_CODE = {"LD": "BPF_LD | BPF_W | BPF_ABS", "AND": "BPF_ALU | BPF_AND | BPF_K",
          "RET": "BPF_RET | BPF_K", "JA": "BPF_JMP | BPF_JA"}


def c_instruction(pc, insn, names):
    op, k, jt, jf, _ = insn
    note = ""
    if op == "RET":
        k = ACTIONS.get(k) or (
            f"SECCOMP_RET_ERRNO | {ERRNO[k]} /* {k} */")
    elif op == "LD":
        note = {OFF_NR: "nr", OFF_ARCH: "arch"}.get(k) or f"arg {(k - OFF_ARGS) // 8}"
    elif op.startswith("J") and op != "JA":
        note = f"{pc + 1 + jt} : {pc + 1 + jf}"
        if names.get(k, "-") != "-":
            note += f"  {names[k]}"
        if isinstance(k, int):
            k = hex(k) if k > 511 else k
        return f"\tBPF_JUMP(BPF_JMP | BPF_{op} | BPF_K, {k}, {jt}, {jf}), /* {pc}: {note} */"
    elif op == "AND":
        k = hex(k)
    return f"\tBPF_STMT({C_CODE[op]}, {k}), /* {pc}{': ' + note if note else ''} */"


def c_source(table, arch):
    lines = ["/* SPDX-License-Identifier: Apache-2.0 */",
             "/* Made by tools/gen-filters.py from src/seccomp/syscalls.tbl; do not edit. */",
             "#include <linux/audit.h>", "#include <linux/filter.h>", "#include <linux/seccomp.h>",
             "", '#include "seccomp/seccomp.h"', ""]
    for index, variant in enumerate(table.variants):
        lines.append(f"static const struct sock_filter filter_{variant.lower()}[] = {{")
        code = compile_variant(table, index, arch)
        by_number = number_tests(code)
        for pc, insn in enumerate(code):
            lines.append(c_instruction(pc, insn, table.names if pc in by_number else {}))
        lines += ["};", ""]
    lines.append("const struct seccomp_filter seccomp_filters[SECCOMP_VARIANT_MAX] = {")
    for variant in table.variants:
        array = f"filter_{variant.lower()}"
        count = f"sizeof({array}) / sizeof({array}[0])"
        lines.append(f"\t[SECCOMP_{variant}] = {{ {array}, {count} }},")
    lines += ["};", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("table")
    parser.add_argument("--arch", choices=ARCHES, required=True)
    parser.add_argument("-o", dest="out", required=True)
    parser.add_argument("-v", dest="verbose", action="store_true", help="say how long each is")
    args = parser.parse_args()
    try:
        table = Table(args.table, args.arch)
        text = c_source(table, args.arch)
    except (TableError, OSError) as e:
        sys.exit(f"gen-filters: {e}")
    if args.verbose:
        for index, variant in enumerate(table.variants):
            print(f"{variant}: {len(compile_variant(table, index, args.arch))} instructions")
    with open(args.out + ".tmp", "w", encoding="ascii") as f:
        f.write(text)
    os.replace(args.out + ".tmp", args.out)


if __name__ == "__main__":
    main()
