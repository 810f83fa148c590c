# SPDX-License-Identifier: Apache-2.0
"""Pieces of code from many callers, each in a fresh sandbox, as many at once as the scheduler allows.

    python3 scheduler.py
"""

import asyncio
import sys

from pycordon import PolicyError, Scheduler

COUNT = """
import collections, json, re
words = re.findall(r"[a-z]+", open("text.txt").read().lower())
json.dump(dict(collections.Counter(words).most_common(3)), open("words.json", "w"))
"""
TEXT = "the cat and the dog and the bird"


async def main() -> int:
    """Prints what came of each kind of run."""
    async with Scheduler(max_concurrency=2, max_memory_mb=256) as scheduler:
        squares = await asyncio.gather(*(scheduler.run(f"print({n} ** 2)") for n in range(8)))
        print("squares:", *(one.stdout.strip() for one in squares))

        counted = await scheduler.run(COUNT, files={"text.txt": TEXT}, outputs=["words.json"], timeout_seconds=20)
        print("words:", counted.files["words.json"].decode())

        endless = await scheduler.run("while true; do :; done", "raw", timeout_seconds=1)
        print("endless:", endless.kind)

        try:
            await scheduler.run("print(1)", limits_memory="4G")
        except PolicyError:
            print("more memory than the scheduler has: refused")

        async with scheduler.session("python") as session:
            await session.run("total = 0")
            for n in range(4):
                await session.run(f"total += {n}")
            print("total:", (await session.run("total")).text)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
