# ruff: noqa
"""VAEs, GANs, flows and quantizers."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import autograd
from torch.autograd import Variable

from benchmarks.fix_models.case import Case, Repair
from fullgraph.diagnose.taxonomy import Category


class VAE(nn.Module):
    def __init__(self):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(12, 10)
        self.fc21 = nn.Linear(10, 4)
        self.fc22 = nn.Linear(10, 4)
        self.fc3 = nn.Linear(4, 12)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        if self.training:
            std = logvar.mul(0.5).exp_()
            eps = Variable(std.data.new(std.size()).normal_())
            return eps.mul(std).add_(mu)
        else:
            return mu

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 12))
        z = self.reparameterize(mu, logvar)
        return torch.sigmoid(self.fc3(z)), mu, logvar


class NoiseLayer(nn.Module):
    """StyleGAN's noise; a fixed one may be set for evaluation."""

    def __init__(self, channels=4):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.noise = torch.randn(1, 1, 5, 5)

    def forward(self, x, noise=None):
        if noise is None and self.noise is None:
            noise = torch.randn(x.size(0), 1, x.size(2), x.size(3), device=x.device, dtype=x.dtype)
        elif noise is None:
            noise = Variable(self.noise)
        return x + self.weight.view(1, -1, 1, 1) * noise


class ConditioningAugmentation(nn.Module):
    """StackGAN: text features become a Gaussian."""

    def __init__(self, t_dim=10, c_dim=4):
        super().__init__()
        self.c_dim = c_dim
        self.fc = nn.Linear(t_dim, c_dim * 2, bias=True)
        self.relu = nn.ReLU()

    def forward(self, text):
        x = self.relu(self.fc(text))
        mu, logvar = x[:, : self.c_dim], x[:, self.c_dim :]
        std = logvar.mul(0.5).exp()
        eps = torch.FloatTensor(std.size()).normal_()
        eps = Variable(eps)
        return eps.mul(std).add(mu), mu, logvar


class GradientPenalty(nn.Module):
    """WGAN-GP."""

    def __init__(self, weight=10.0):
        super().__init__()
        self.netD = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
        self.weight = weight

    def forward(self, real_data, fake_data):
        alpha = torch.rand(real_data.shape[0], 1).expand(real_data.size())
        interpolates = alpha * real_data.detach() + (1 - alpha) * fake_data.detach()
        interpolates = autograd.Variable(interpolates, requires_grad=True)
        disc = self.netD(interpolates)
        gradients = autograd.grad(
            outputs=disc,
            inputs=interpolates,
            grad_outputs=torch.ones(disc.size()),
            create_graph=True,
            retain_graph=True,
            only_inputs=True,
        )[0]
        return ((gradients.norm(2, dim=1) - 1) ** 2).mean() * self.weight


class GANLoss(nn.Module):
    """pix2pix, as it was: the target is made again when its size changes."""

    def __init__(self, use_lsgan=True, target_real_label=1.0, target_fake_label=0.0):
        super(GANLoss, self).__init__()
        self.real_label = target_real_label
        self.fake_label = target_fake_label
        self.real_label_var = None
        self.fake_label_var = None
        self.Tensor = torch.FloatTensor
        self.loss = nn.MSELoss() if use_lsgan else nn.BCELoss()

    def get_target_tensor(self, input, target_is_real):
        if target_is_real:
            if self.real_label_var is None or self.real_label_var.numel() != input.numel():
                real_tensor = self.Tensor(input.size()).fill_(self.real_label)
                self.real_label_var = Variable(real_tensor, requires_grad=False)
            return self.real_label_var
        if self.fake_label_var is None or self.fake_label_var.numel() != input.numel():
            fake_tensor = self.Tensor(input.size()).fill_(self.fake_label)
            self.fake_label_var = Variable(fake_tensor, requires_grad=False)
        return self.fake_label_var

    def forward(self, real, fake):
        return self.loss(real, self.get_target_tensor(real, True)) + self.loss(
            fake, self.get_target_tensor(fake, False)
        )


class LabelDropout(nn.Module):
    """Classifier-free guidance in training: sometimes the label is the null label."""

    def __init__(self, classes=5, dim=6, p=0.1):
        super().__init__()
        self.emb = nn.Embedding(classes + 1, dim)
        self.null, self.p = classes, p

    def forward(self, h, y):
        if self.training and random.random() < self.p:
            y = torch.full_like(y, self.null)
        return h + self.emb(y)


class MixtureNLL(nn.Module):
    def forward(self, logits, mean, log_scale, x):
        z = (x[..., None] - mean) * torch.exp(-log_scale)
        log_prob = -0.5 * z**2 - log_scale + F.log_softmax(logits, -1)
        far = log_prob < -1e4
        log_prob[far] = log_prob[far].clamp(min=-1e5)
        return -torch.logsumexp(log_prob, -1).mean()


class TailBound(nn.Module):
    """A monotone bend inside the interval, the identity outside, as in neural spline flows."""

    def __init__(self, bound=1.0):
        super().__init__()
        self.bound = bound
        self.a = nn.Parameter(torch.tensor(0.3))

    def bend(self, x):
        return x + torch.sigmoid(self.a) * torch.sin(torch.pi * x / self.bound) / torch.pi

    def forward(self, inputs):
        inside = (inputs >= -self.bound) & (inputs <= self.bound)
        outside = ~inside
        outputs = torch.zeros_like(inputs)
        outputs[outside] = inputs[outside]
        outputs[inside] = self.bend(inputs[inside])
        return outputs


class DomainError(Exception):
    """An input that the inverse is not defined on."""


class LogitTransform(nn.Module):
    def __init__(self, eps=1e-6):
        super().__init__()
        self.eps = eps

    def forward(self, inputs):
        if torch.min(inputs) < 0 or torch.max(inputs) > 1:
            raise DomainError()
        inputs = torch.clamp(inputs, self.eps, 1 - self.eps)
        outputs = torch.log(inputs) - torch.log1p(-inputs)
        return outputs, -torch.log(inputs * (1 - inputs)).sum(-1)


class Quantizer(nn.Module):
    """VQ-VAE with perplexity, and codes that nobody uses are drawn again."""

    def __init__(self, n=8, dim=4):
        super().__init__()
        self.codebook = nn.Parameter(torch.randn(n, dim))
        self.register_buffer("usage", torch.zeros(n))

    def forward(self, z):
        flat = z.reshape(-1, z.shape[-1])
        idx = torch.cdist(flat, self.codebook).argmin(1)
        hard = F.one_hot(idx, self.codebook.shape[0]).float()
        self.usage.mul_(0.9).add_(hard.sum(0), alpha=0.1)
        p = hard.mean(0)
        perplexity = torch.exp(-(p * torch.log(p + 1e-10)).sum()).item()
        q = hard @ self.codebook
        return (flat + (q - flat).detach()).view_as(z), perplexity


class SpectralPower(nn.Module):
    """Power iteration until it has converged, at most ten times."""

    def __init__(self, dim=5):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim))
        self.register_buffer("u", F.normalize(torch.randn(dim), dim=0))

    def forward(self, x):
        u = self.u
        for _ in range(10):
            v = F.normalize(self.weight.t() @ u, dim=0)
            new = F.normalize(self.weight @ v, dim=0)
            delta = (new - u).norm()
            u = new
            if delta < 1e-3:
                break
        sigma = u @ self.weight @ v
        return x @ (self.weight / sigma).t()


CASES = (
    Case(VAE, lambda: (torch.rand(3, 12),), Category.VARIABLE, Repair.MECHANICAL, train=True),
    Case(NoiseLayer, lambda: (torch.randn(2, 4, 5, 5),), Category.VARIABLE, Repair.MECHANICAL),
    Case(
        ConditioningAugmentation,
        lambda: (torch.randn(3, 10),),
        Category.VARIABLE,
        Repair.MECHANICAL,
        train=True,
    ),
    Case(
        GradientPenalty,
        lambda: (torch.randn(4, 6), torch.randn(4, 6)),
        Category.VARIABLE,
        Repair.CONDITIONS,
        train=True,
    ),
    Case(
        GANLoss,
        lambda: (torch.rand(3, 1, 4, 4), torch.rand(3, 1, 4, 4)),
        Category.VARIABLE,
        Repair.MECHANICAL,
    ),
    Case(
        LabelDropout,
        lambda: (torch.randn(4, 6), torch.randint(0, 5, (4,))),
        Category.RANDOM,
        Repair.CONDITIONS,
        train=True,
    ),
    Case(
        MixtureNLL,
        lambda: (torch.randn(4, 3), torch.randn(4, 3), torch.randn(4, 3), torch.randn(4)),
        Category.MASKED_ASSIGNMENT,
        Repair.MECHANICAL,
    ),
    Case(TailBound, lambda: (torch.randn(4, 3),), Category.MASKED_ASSIGNMENT, Repair.CONDITIONS),
    Case(LogitTransform, lambda: (torch.rand(4, 3),), Category.BRANCH, Repair.MECHANICAL),
    Case(
        Quantizer, lambda: (torch.randn(2, 3, 4),), Category.SCALAR, Repair.CONDITIONS, train=True
    ),
    Case(SpectralPower, lambda: (torch.randn(2, 5),), Category.BRANCH, Repair.CONDITIONS),
)
