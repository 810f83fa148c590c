# SPDX-License-Identifier: Apache-2.0
"""Grows: `host` memory of its own, `pinned` memory that the driver takes, `gpu` memory. Up to 12 GiB."""

import sys

import torch

torch.zeros(1, device="cuda")
kept = []
try:
    for i in range(48):
        if sys.argv[1] == "host":
            kept.append(bytearray(b"x" * (256 << 20)))
        elif sys.argv[1] == "pinned":
            kept.append(torch.ones(256 << 20, dtype=torch.uint8, pin_memory=True))
        else:
            kept.append(torch.ones(1 << 32, dtype=torch.uint8, device="cuda"))
        print(i + 1, flush=True)
except torch.OutOfMemoryError:
    print("refused")
