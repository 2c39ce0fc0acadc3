"""Small networks as people write them, with one hidden layer that is renumbered by hand, and their data."""

import torch
from torch import nn

N = 96


class Net(nn.Module):
    """A hidden layer, whose neurons tests renumber by hand."""

    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(6, 12), nn.Linear(12, 4)

    def core(self, x):
        return self.head(torch.tanh(self.hidden(x)))

    def forward(self, x):
        return self.core(x)


class Listing(Net):
    def forward(self, x):
        return [self.core(x), {"again": (2 * self.core(x), None)}]


class Naming(Net):
    def forward(self, left, right, scale=None):
        logits = self.core(torch.cat([left, right], 1))
        return {"aux": logits.mean(), "logits": logits if scale is None else logits * scale}


class Masked(Net):
    """Texts, of whose tokens some do not count."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 6)

    def forward(self, input_ids, attention_mask):
        of_token = self.hidden(self.embedding(input_ids)).tanh() * attention_mask[..., None]
        return self.head(of_token.sum(1) / attention_mask.sum(1, keepdim=True))


class Images(Net):
    def forward(self, x):
        return self.core(x).unflatten(1, (2, 2))


class Parity(Net):
    """Outputs that jump so often that errors of rounding carry some samples across an edge."""

    def forward(self, x):
        return (self.core(x) * 1e6).round() % 2


class Sparse(Net):
    """The three largest hidden activations of each sample count."""

    def forward(self, x):
        z = torch.relu(self.hidden(x))
        values, places = z.topk(3, dim=1)
        return self.head(torch.zeros_like(z).scatter(1, places, values))


class Hooked(Net):
    """A weight that a hook computes, as the older norm of weights leaves it: no leaf of autograd."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.utils.weight_norm(self.hidden)


class Normed(Net):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(12)

    def core(self, x):
        return self.head(torch.relu(self.norm(self.hidden(x))))


def drawn(kind, seed):
    torch.manual_seed(seed)
    network = kind()
    for tensor in network.parameters():
        tensor.data = torch.randn_like(tensor) / max(1, tensor.shape[-1] if tensor.dim() > 1 else 4) ** 0.5
    return network


def renumbered(network, seed=3):
    """The same network with its hidden neurons in another order."""
    order = torch.randperm(12, generator=torch.Generator().manual_seed(seed))
    state = dict(network.state_dict())
    for name, tensor in state.items():
        if name.startswith(("hidden", "norm")) and tensor.dim():
            state[name] = tensor[order]
    return state | {"head.weight": state["head.weight"][:, order]}


X = torch.randn(N, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(N) % 4
TEXTS = torch.randint(1, 20, (N, 5), generator=torch.Generator().manual_seed(2))
MASK = (torch.arange(5) < 2 + 4 * torch.arange(N)[:, None] // N).long()


def texts():
    """Batches of several lengths, as a tokenizer gives them."""
    for rows in torch.arange(N).split(32):
        longest = int(MASK[rows].sum(1).max())
        yield {
            "input_ids": TEXTS[rows, :longest],
            "attention_mask": MASK[rows, :longest],
            "labels": Y[rows],
            "of_the_loader": rows,
        }


class Experts(nn.Module):
    """A token's one expert of four: the neurons of its hidden layer meet no axis of experts, and are not followed."""

    def __init__(self):
        super().__init__()
        self.first, self.router, self.head = nn.Linear(64, 6), nn.Linear(6, 4), nn.Linear(6, 3)
        self.up, self.down = nn.Parameter(torch.randn(4, 5, 6)), nn.Parameter(torch.randn(4, 6, 5))

    def forward(self, x):
        x = self.first(x)
        which = self.router(x).argmax(1)
        hidden = torch.relu(torch.bmm(self.up[which], x.unsqueeze(-1)))
        return self.head(torch.bmm(self.down[which], hidden).squeeze(-1))
