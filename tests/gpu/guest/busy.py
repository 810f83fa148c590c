# SPDX-License-Identifier: Apache-2.0
"""Keeps 2 GiB of the GPU and works on it until somebody ends it."""

import torch

block = torch.ones(2 << 28, dtype=torch.int32, device="cuda")
a = torch.randn(2048, 2048, device="cuda")
print("busy", flush=True)
while True:
    a = (a @ a).clamp(-1, 1)
    torch.cuda.synchronize()
