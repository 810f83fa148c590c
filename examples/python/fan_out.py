# SPDX-License-Identifier: Apache-2.0
"""Map and reduce over forks of one interpreter.

What is slow is done once: data is loaded, a model is fitted. Then each alternative is tried in a fork,
which has all of it in memory, may change it at will, and is a sandbox of its own. Here a thousand
routes through the same cities are looked for, each from a random start, and the shortest one wins.

    python3 fan_out.py [FORKS] [AT_ONCE]
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from pycordon import Interpreter

PREPARE = """
import math, random
random.seed(7)
cities = [(random.random(), random.random()) for _ in range(60)]
distance = [[math.dist(a, b) for b in cities] for a in cities]

def length(route):
    return sum(distance[a][b] for a, b in zip(route, route[1:] + route[:1]))

def search(steps):
    # What is drawn is drawn anew in each fork.
    route = random.sample(range(len(cities)), len(cities))
    best = length(route)
    for _ in range(steps):
        i, j = sorted(random.sample(range(len(route)), 2))
        other = route[:i] + route[i:j][::-1] + route[j:]
        if length(other) < best:
            route, best = other, length(other)
    return best, route
"""


def explore(parent: Interpreter, forks: int, at_once: int) -> list:
    """What each fork found: (length, route)."""
    numbers, found = iter(range(forks)), []

    def work() -> None:
        for _ in numbers:
            # The first one writes the memory of the parent down; the others share that.
            with parent.fork() as fork:
                done = fork.execute("best, route = search(200)", timeout=60)
                if not done.ok:
                    raise RuntimeError(done.error or done.reason)
                found.append((fork.get_var("best"), fork.get_var("route")))

    with ThreadPoolExecutor(at_once) as pool:
        for job in [pool.submit(work) for _ in range(at_once)]:
            job.result()
    return found


def main() -> int:
    """Prints the shortest route and the rate."""
    forks = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    at_once = int(sys.argv[2]) if len(sys.argv) > 2 else 2 * (os.cpu_count() or 1)
    with Interpreter("python") as parent:
        prepared = parent.execute(PREPARE)
        if not prepared.ok:
            print(prepared.error, file=sys.stderr)
            return 1
        began = time.monotonic()
        found = explore(parent, forks, at_once)
        seconds = time.monotonic() - began
    lengths = sorted(length for length, _ in found)
    print(f"{len(found)} routes, {len(set(lengths))} of them different; shortest {lengths[0]:.3f}, longest {lengths[-1]:.3f}")
    print(f"{len(found) / seconds:.0f} forks per second, {at_once} at once")
    return 0 if len(found) == forks else 1


if __name__ == "__main__":
    sys.exit(main())
