"""Trains the energy of bench/train by the losses of ebmkit (PyPI), for a given processor time.

    python train_ebmkit.py METHOD POINTS THETA SECONDS SEED BASE_SD LAYERS WIDTH RATE

METHOD is `nce` (noise-contrastive estimation, the noise being the base) or `ed` (energy discrepancy). POINTS holds float64, two
numbers a point. The network is that of sosmc, SiLU, over |x|^2 / (2 BASE_SD^2); THETA gets its weights and biases, layer after layer,
as float64. Prints `updates K`. Batches of 512, Adam, a rate that falls from RATE to nothing by a cosine over the time; the losses as
ebmkit has them. With torch before 2.0 ebmkit runs, though it does not say so."""
import math
import sys
import time

import common

common.settle_torch(1)

import numpy as np
import torch
from ebm.losses import EnergyDiscrepancy, NoiseContrastiveEstimation

METHOD, POINTS, THETA, SECONDS, SEED, BASE_SD, LAYERS, WIDTH, RATE = sys.argv[1:10]
SECONDS, BASE_SD, RATE = float(SECONDS), float(BASE_SD), float(RATE)
torch.set_num_threads(1)
torch.manual_seed(int(SEED))
x = torch.from_numpy(np.fromfile(POINTS).reshape(-1, 2).astype(np.float32))
sizes = [2] + [int(WIDTH)] * int(LAYERS) + [1]
linear = [torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]
parts = [part for k, l in enumerate(linear) for part in ([l, torch.nn.SiLU()] if k + 1 < len(linear) else [l])]
network = torch.nn.Sequential(*parts)


def energy(y):
    return network(y).squeeze(-1) + (y * y).sum(-1) / (2 * BASE_SD**2)


if METHOD == "nce":
    base = torch.distributions.Independent(torch.distributions.Normal(torch.zeros(2), BASE_SD * torch.ones(2)), 1)
    loss = NoiseContrastiveEstimation(base, noise_ratio=4)
else:
    loss = EnergyDiscrepancy(sigma=0.3, m_particles=16)
adam = torch.optim.Adam(list(network.parameters()) + list(loss.parameters()), lr=RATE)
updates, order, used = 0, [], 0.0
begun = time.process_time()
while used < SECONDS:
    if len(order) < 512:
        order = torch.randperm(len(x))
    batch, order = x[order[:512]], order[512:]
    for group in adam.param_groups:
        group["lr"] = RATE * 0.5 * (1 + math.cos(math.pi * used / SECONDS))
    adam.zero_grad()
    loss(energy, batch).loss.backward()
    adam.step()
    updates += 1
    used = time.process_time() - begun
theta = [p.detach().double().numpy().ravel() for l in linear for p in (l.weight, l.bias)]
np.concatenate(theta).tofile(THETA)
print("updates", updates)
