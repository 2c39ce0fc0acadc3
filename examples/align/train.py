"""Train the network of model.py from two seeds; write A.safetensors, B.safetensors and data.safetensors."""

import torch
from model import DigitsResNet
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

EPOCHS, BATCH, HELD_OUT = 6, 64, 500


def train(seed, x, y):
    torch.manual_seed(seed)
    network = DigitsResNet()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.1, total_steps=EPOCHS * (len(x) // BATCH))
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(BATCH)[: len(x) // BATCH]:
            optimiser.zero_grad()
            cross_entropy(network(x[rows]), y[rows]).backward()
            optimiser.step()
            schedule.step()
    return network.eval()


digits = load_digits()
x = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
y = torch.tensor(digits.target)
held_out = slice(len(x) - HELD_OUT, None)
for name, seed in (("A", 0), ("B", 1)):
    network = train(seed, x[:-HELD_OUT], y[:-HELD_OUT])
    with torch.no_grad():
        right = (network(x[held_out]).argmax(dim=1) == y[held_out]).float().mean()
    print(f"{name}, seed {seed}: {right:.1%} of the held-out digits right")
    save_file(network.state_dict(), f"{name}.safetensors")
save_file({"x": x[held_out].clone(), "y": y[held_out].clone()}, "data.safetensors")
