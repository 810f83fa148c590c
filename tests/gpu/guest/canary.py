# SPDX-License-Identifier: Apache-2.0
"""`canary.py leave` fills 8 GiB of the GPU with a pattern; `canary.py seek` counts it in fresh memory."""

import sys

import torch

MARK = 0x5EED1E55
if sys.argv[1] == "leave":
    block = torch.full((8 << 28,), MARK, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    print("left", int((block[:1000] == MARK).sum()))
else:
    total = 0
    for _ in range(8):
        block = torch.empty((16 << 28,), dtype=torch.int32, device="cuda")
        total += int((block == MARK).sum())
        del block
        torch.cuda.empty_cache()
        # Another part of the memory each time.
        torch.empty((1 << 28,), dtype=torch.int32, device="cuda")
    print("found", total)
