# SPDX-License-Identifier: Apache-2.0
"""What the gateway costs: new connections, streams, the start of a run, memory."""

import json
import subprocess

import limits
import report
import weigh

# Below the gateway's limit of 2,000 new connections a second.
PACE_US = 1200
CONNECTIONS = 250
STREAM_MIB = 2048
STREAMS = {"down": (1, 4), "up": (1, 4)}
IDLE = 256


class Net:
    """A server, and ways to its port: bare, and from within a sandbox."""

    def __init__(self, b, port, own_net):
        self.b = b
        self.program = f"{b.dir}/bench_net"
        argv = [self.program, "serve", str(port)] + (["own-net"] if own_net else [])
        self.server = b.start(self.rt() + argv, as_root=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
        line = self.server.stdout.readline()
        if not line:
            raise SystemExit("bench: the server does not start")
        self.target = line.strip()
        enter = ["nsenter", f"--net=/proc/{self.server.pid}/ns/net"] if own_net else []
        user = self.rt() + enter + b.drop()
        rule = self.target.replace("127.0.0.1", "localhost")
        allow = ["-r", self.program, "--net-allow", rule]
        self.ways = {"bare": user, "cordon": user + [b.cordon, "run", "-q", *allow, "--"]}

    def rt(self):
        return ["chrt", "-r", "5"] if self.b.realtime else []

    def run(self, way, *words):
        """One client: what it says, and what the gateway has used by then."""
        argv = [self.program, words[0], self.target, *map(str, words[1:])]
        p = self.b.start(self.ways[way] + argv, as_root=True, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
        line = p.stdout.readline()
        if not line:
            raise SystemExit(f"bench: {way}: {' '.join(argv)} failed")
        r = json.loads(line)
        if way == "cordon":
            r["gateway"] = look_at(gateway_of(p.pid))
        p.stdin.close()
        p.wait()
        p.stdout.close()
        return r

    def end(self):
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()


def gateway_of(top):
    found = [pid for pid in weigh.members([top]) if weigh.name_of(pid) == "cordon-gateway"]
    if len(found) != 1:
        raise SystemExit(f"bench: {len(found)} gateways instead of one")
    return found[0]


def look_at(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        rss = [int(line.split()[1]) for line in f if line.startswith("VmRSS:")]
    return {"cpu_ns": limits.cpu_ns(pid), "rss_kb": rss[0] if rss else 0,
            "pss_kb": weigh.pss_kb(pid)}


def bench_connect(b, nets):
    """nets: {kind: Net}"""
    samples = {}
    for _ in range(max(b.rounds // 15, 3)):
        for kind, net in nets.items():
            for pace in (0, PACE_US):
                for way in net.ways:
                    key = (kind, "paced" if pace else "in a row", way)
                    got = net.run(way, "latency", kind, CONNECTIONS, pace)
                    samples.setdefault(key, []).extend(got["us"])
    rows = []
    for kind, how in dict.fromkeys((k, h) for k, h, _ in samples):
        bare, ours = samples[kind, how, "bare"], samples[kind, how, "cordon"]
        added = [report.low(ours) - report.low(bare), report.mid(ours) - report.mid(bare)]
        rows.append([f"{kind}, {how}"] +
                    [f"{report.low(v):.0f} / {report.mid(v):.0f}" for v in (bare, ours)] +
                    [f"{added[0]:.0f} / {added[1]:.0f}"])
        b.targets.at_most(f"connecting, {kind}, {how}, added (median)", added[1] / 1e3, 0.3, " ms")
    report.table("A new connection: connect, ask, first byte of the answer, close",
                 ["", "bare us", "cordon us", "added us"], rows)


def bench_streams(b, net):
    seconds, cpu = {}, {}
    for _ in range(max(b.rounds // 30, 3)):
        for what, counts in STREAMS.items():
            for n in counts:
                for way in net.ways:
                    r = net.run(way, what, n, STREAM_MIB)
                    seconds.setdefault((what, n, way), []).append(r["s"])
                    if way == "cordon":
                        cpu.setdefault((what, n), []).append(r["gateway"]["cpu_ns"] / 1e9)
    gib = STREAM_MIB / 1024
    rows = []
    for (what, n), used in cpu.items():
        bare, ours = seconds[what, n, "bare"], seconds[what, n, "cordon"]
        name = f"{what}, {n} stream{'s' if n > 1 else ''}"
        rows.append([name] + [f"{gib / report.low(v):.2f} / {gib / report.mid(v):.2f}"
                              for v in (bare, ours)] +
                    [f"{report.low(bare) / report.low(ours):.2f} / "
                     f"{report.mid(bare) / report.mid(ours):.2f}",
                     f"{report.low(used) / gib:.2f} / {report.mid(used) / gib:.2f}"])
        b.targets.at_least(f"{name}, x bare", report.low(bare) / report.low(ours), 0.4)
    report.table(f"Streams of {STREAM_MIB} MiB in all: best / median",
                 ["", "bare GiB/s", "cordon GiB/s", "x bare", "gateway CPU s/GiB"], rows)


def bench_start(b, joined):
    run = [b.cordon, "run", "-q"]
    allow = ["--net-allow", "example.com"]
    commands = {"cordon run": run + ["--", "/bin/true"],
                "cordon run, net": run + allow + ["--", "/bin/true"]}
    r = b.objects([f"{b.dir}/bench_launch", str(b.rounds), "0", "library,net"] + joined(commands))
    r["library, net"] = r.pop("net")
    rows = [[name] + [f"{report.low(v[k]) / 1e3:.2f} / {report.mid(v[k]) / 1e3:.2f}"
                      for k in ("wall_us", "cpu_us")] for name, v in r.items()]
    report.table(f"Start to end of /bin/true with --net-allow, {b.rounds} rounds",
                 ["", "wall ms", "CPU ms"], rows)
    for how in ("cordon run", "library"):
        added = report.low(r[f"{how}, net"]["wall_us"]) - report.low(r[how]["wall_us"])
        b.targets.at_most(f"{how}, added by --net-allow", added / 1e3, 1, " ms")


def bench_memory(b, net):
    rows = []
    for count in (0, IDLE):
        seen = [net.run("cordon", "idle", count)["gateway"] for _ in range(3)]
        rss, pss = (min(s[k] for s in seen) for k in ("rss_kb", "pss_kb"))
        # Nobody but root may read it: the gateway is closed even to the user it runs as.
        rows.append([f"{count} connections", rss, pss if pss else "-"])
        b.targets.at_most(f"gateway, {count} idle connections", rss / 1024, 3, " MiB")
    report.table("The gateway's memory, kB", ["", "RSS", "PSS"], rows)


def bench(b, joined):
    bench_start(b, joined)
    nets = {"plain": Net(b, 0, b.is_root)}
    try:
        if b.is_root:
            nets.update({"tls": Net(b, 443, True), "http": Net(b, 80, True)})
        else:
            print("\nPorts 80 and 443 need a net namespace made by root: left out.")
        bench_connect(b, nets)
        bench_streams(b, nets["plain"])
        bench_memory(b, nets["plain"])
    finally:
        for net in nets.values():
            net.end()
