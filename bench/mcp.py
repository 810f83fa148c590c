# SPDX-License-Identifier: Apache-2.0
"""What `cordon mcp` adds to a run: a call's round trip, many calls in flight, the idle server's memory."""

import json
import os
import subprocess
import time

import contenders
import report
import weigh

IN_FLIGHT = 100
SETTLE_S = 0.5


class Server:
    """An MCP server on a pipe, at the revision that every server answers."""

    def __init__(self, b, argv, tool, arguments):
        self.process = b.start(b.prefix() + argv, as_root=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.name = argv[0]
        self.number = 0
        self.params = {"name": tool, "arguments": arguments}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                "clientInfo": {"name": "bench", "version": "1"}})
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def begin(self, method, params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        return self.number

    def answer(self):
        """The next answer: its number and its result."""
        for line in self.process.stdout:
            message = json.loads(line)
            if "id" in message and "method" not in message:
                result = message.get("result")
                if result is None or result.get("isError"):
                    raise SystemExit(f"bench: {self.name}: {line[:300]}")
                return message["id"], result
        raise SystemExit(f"bench: {self.name} ended")

    def ask(self, method, params):
        number = self.begin(method, params)
        got, result = self.answer()
        if got != number:
            raise SystemExit(f"bench: {self.name}: answered {got} instead of {number}")
        return result

    def call(self):
        """One call: milliseconds until its answer, and the answer."""
        before = time.perf_counter()
        result = self.ask("tools/call", self.params)
        return (time.perf_counter() - before) * 1e3, result

    def call_many(self):
        """IN_FLIGHT calls that are all asked before the first answer is read: milliseconds for all."""
        before = time.perf_counter()
        asked = {self.begin("tools/call", self.params) for _ in range(IN_FLIGHT)}
        answered = {self.answer()[0] for _ in range(IN_FLIGHT)}
        if asked != answered:
            raise SystemExit(f"bench: {self.name}: lost {len(asked - answered)} answers")
        return (time.perf_counter() - before) * 1e3

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def resident_kb(pid):
    """Of a process: PSS where it may be read, else RSS."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        rss = [int(line.split()[1]) for line in f if line.startswith("VmRSS:")]
    return weigh.pss_kb(pid) or (rss[0] if rss else 0)


def servers(b):
    found = {"cordon mcp": ([f"{b.dir}/cordon", "mcp"], "run_command", {"command": ["true"]})}
    peer = contenders.sandlock_mcp()
    if peer:
        found["sandlock-mcp"] = ([peer, "--workspace", b.work], "shell", {"command": "true"})
    return found


def bench(b):
    rounds = max(b.rounds // 3, 20)
    rows = []
    for name, what in servers(b).items():
        one, many, beyond, bare = [], [], [], []
        server = Server(b, *what)
        try:
            server.call()
            for _ in range(rounds):
                took, result = server.call()
                one.append(took)
                if "structuredContent" in result:
                    bare.append(result["structuredContent"]["duration_ms"])
                    beyond.append(took - bare[-1])
            for _ in range(3):
                many.append(server.call_many())
            time.sleep(SETTLE_S)
            idle = sum(resident_kb(pid) for pid in weigh.members([server.process.pid]))
        finally:
            server.end()
        rows.append([name, pair(one), pair(beyond) if beyond else "-", pair(many, 0), str(idle)])
        if name == "cordon mcp":
            b.targets.at_most("cordon mcp, a call beyond its run", report.low(beyond), 3, " ms")
            b.targets.at_most("cordon mcp, a call in all", report.low(one), 2, " ms")
            b.targets.at_most("cordon mcp, idle", idle / 1024, 4, " MiB")
            b.figures.put("mcp: a call / its run", report.low(one) / report.low(bare))
            b.figures.put("mcp: idle, MiB", idle / 1024, 4)
    report.table(f"MCP: {rounds} calls that run `true`, and {IN_FLIGHT} of them at once",
                 ["", "a call, ms", "beyond the run, ms", f"{IN_FLIGHT} calls, ms", "idle, kB"], rows)


def pair(samples, digits=2):
    return f"{report.number(report.low(samples), digits)} / {report.number(report.mid(samples), digits)}"
