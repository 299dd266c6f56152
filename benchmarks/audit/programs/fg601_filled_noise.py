"""FG601: `torch.FloatTensor` is of float32 whatever the input and the default dtype are, and draws in its place."""

import torch
from torch import nn
from torch.autograd import Variable


class Discriminator(nn.Module):
    def __init__(self, features, smooth):
        super().__init__()
        self.net = nn.Linear(features, features)
        self.smooth = smooth

    def forward(self, x):
        noise = Variable(torch.FloatTensor(x.size()).normal_())
        real = Variable(torch.FloatTensor(x.size(0), 1).fill_(self.smooth), requires_grad=False)
        fake = Variable(torch.zeros(x.size(0), 1))
        return noise, self.net(x.float() + noise).mean(1, keepdim=True) - real + fake, real


def in_double(model):
    def call(x, default=torch.float32):
        before = torch.get_default_dtype()
        torch.set_default_dtype(default)
        try:
            return model(x)
        finally:
            torch.set_default_dtype(before)

    return call


def build():
    torch.manual_seed(0)
    return in_double(Discriminator(4, 0.9)), (torch.randn(3, 4),)


def witnesses():
    """A default dtype of double precision, inputs of other dtypes, and an input without rows."""
    return [
        (torch.ones(3, 4), torch.float64),
        (torch.ones(3, 4, dtype=torch.float64),),
        (torch.ones(3, 4, dtype=torch.int64),),
        (torch.ones(0, 4),),
    ]
