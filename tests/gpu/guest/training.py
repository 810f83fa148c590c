# SPDX-License-Identifier: Apache-2.0
"""Some steps of training: the loss falls, and is the same for the same seed."""

import torch

torch.manual_seed(3)
net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)).cuda()
step = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(4096, 64).cuda()
y = x.sum(1, keepdim=True).sin()
losses = []
for _ in range(60):
    step.zero_grad()
    loss = torch.nn.functional.mse_loss(net(x), y)
    loss.backward()
    step.step()
    losses.append(loss.item())
assert losses[-1] < losses[0] / 2, losses
print("right", f"{losses[0]:.3f} {losses[-1]:.3f}")
