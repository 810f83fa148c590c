# SPDX-License-Identifier: Apache-2.0
"""A product on the GPU against the same on the processor."""

import torch

assert torch.cuda.is_available(), "no GPU"
torch.manual_seed(1)
a, b = torch.randn(512, 512), torch.randn(512, 512)
c = (a.cuda() @ b.cuda()).cpu()
print("devices", torch.cuda.device_count(), torch.cuda.get_device_name(0))
print("right" if torch.allclose(c, a @ b, atol=1e-1) else "WRONG")
