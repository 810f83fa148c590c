# SPDX-License-Identifier: Apache-2.0
"""The picture of start-up times for bench/run.py: one SVG, drawn from the numbers of the table."""

import html
import os

import report

# What is drawn: name in the results, name in the picture, what the contender isolates.
ROWS = [
    ("bare", "bare process", "no isolation"),
    ("parked", "libcordon, parked", "all layers; from a pool, made ahead"),
    ("library", "libcordon", "all layers, from a C program"),
    ("cordon run", "cordon run", "namespaces, Landlock, seccomp, limits"),
    ("bwrap", "bwrap --unshare-all", "namespaces"),
    ("sandlock", "sandlock", "Landlock, seccomp"),
]
WIDTH, LEFT, RIGHT, TOP, ROW, BAR = 820, 272, 96, 84, 46, 22

STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de } text { fill: #1f2328; font: 13px system-ui, sans-serif }
  .title { font-size: 16px; font-weight: 600 } .name { font-weight: 600 }
  .small { fill: #59636e; font-size: 11px } .grid { stroke: #d8dee4 }
  .min { fill: #8c959f } .mid { fill: #8c959f; opacity: .35 }
  .ours .min { fill: #1f6feb } .ours .mid { fill: #1f6feb; opacity: .3 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #30363d } text { fill: #e6edf3 } .small { fill: #9198a1 }
    .grid { stroke: #262c36 } .min, .mid { fill: #7d8590 }
    .ours .min, .ours .mid { fill: #4493f8 }
  }
"""


def text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{html.escape(words)}</text>'


def bar(x, y, width, kind):
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" rx="3" class="{kind}"/>'


def step_of(longest):
    """Distance of the grid lines in ms: at most eight of them."""
    return next(s for s in (0.5, 1, 2, 5, 10, 20, 50, 100, 1000) if longest / s <= 8)


def start_up(results, machine, path):
    """Draws minimum and median of the contenders that were measured."""
    rows = [(title, what, report.low(results[name]["wall_us"]) / 1e3,
             report.mid(results[name]["wall_us"]) / 1e3, name)
            for name, title, what in ROWS if name in results]
    longest = max(row[3] for row in rows)
    scale = (WIDTH - LEFT - RIGHT) / longest
    bottom = TOP + ROW * len(rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 50}" '
           f'width="{WIDTH}" role="img">',
           "<title>Start to end of /bin/true: Cordon and its peers</title>",
           f"<style>{STYLE}</style>",
           f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{bottom + 49}" rx="8" class="card"/>',
           text(24, 34, "Start to end of /bin/true, in milliseconds", "title"),
           text(24, 54, "Less is better. Solid, first number: fastest round. Faint, second number: median.", "small")]
    step = step_of(longest)
    for k in range(int(longest / step) + 1):
        x = LEFT + k * step * scale
        out.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom}" class="grid"/>')
        out.append(text(x, bottom + 16, f"{k * step:g}", "small", "middle"))
    for k, (title, what, low, mid, name) in enumerate(rows):
        y = TOP + ROW * k
        ours = ' class="ours"' if name in ("cordon run", "library", "parked") else ""
        out += [f"<g{ours}>", text(24, y + 11, title, "name"), text(24, y + 27, what, "small"),
                bar(LEFT, y, mid * scale, "mid"), bar(LEFT, y, low * scale, "min"),
                text(LEFT + mid * scale + 8, y + 16, f"{low:.1f} / {mid:.1f}"), "</g>"]
    out += [text(24, bottom + 36, machine, "small"), "</svg>"]
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")
    print(f"\nThe picture of this table: {path}")
