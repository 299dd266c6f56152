# ruff: noqa
"""Code from before torch 0.4, still imported every day."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import autograd
from torch.autograd import Function, Variable

from benchmarks.fix_models.case import Case, Repair
from fullgraph.diagnose.taxonomy import Category


class NoisyDiscriminator(nn.Module):
    def __init__(self, dim=8, sigma=0.1):
        super(NoisyDiscriminator, self).__init__()
        self.main = nn.Sequential(nn.Linear(dim, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
        self.sigma = sigma

    def forward(self, input):
        noise = Variable(torch.ones(input.size()) * self.sigma, requires_grad=False)
        return self.main(input + noise).view(-1, 1).squeeze(1)


class ConvLSTMCell(nn.Module):
    def __init__(self, input_size=3, hidden_size=4):
        super().__init__()
        self.hidden_size = hidden_size
        self.Gates = nn.Conv2d(input_size + hidden_size, 4 * hidden_size, 3, padding=1)

    def forward(self, input_, prev_state=None):
        # get batch and spatial sizes
        batch_size = input_.data.size()[0]
        spatial_size = input_.data.size()[2:]
        # generate empty prev_state, if None is provided
        if prev_state is None:
            state_size = [batch_size, self.hidden_size] + list(spatial_size)
            prev_state = (Variable(torch.zeros(state_size)), Variable(torch.zeros(state_size)))
        prev_hidden, prev_cell = prev_state
        gates = self.Gates(torch.cat((input_, prev_hidden), 1))
        in_gate, remember_gate, out_gate, cell_gate = gates.chunk(4, 1)
        cell = torch.sigmoid(remember_gate) * prev_cell + torch.sigmoid(in_gate) * torch.tanh(
            cell_gate
        )
        hidden = torch.sigmoid(out_gate) * torch.tanh(cell)
        return hidden, cell


class PositionalEncoding(nn.Module):
    """Added, not learned."""

    def __init__(self, d_model=8, max_len=50):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1).float()
        div_term = torch.exp(torch.arange(0, d_model, 2).float() * -(9.21 / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        x = x + Variable(self.pe[:, : x.size(1)], requires_grad=False)
        return x


class OneHotFocal(nn.Module):
    def __init__(self, class_num=4, gamma=2):
        super().__init__()
        self.alpha = Variable(torch.ones(class_num, 1))
        self.gamma, self.class_num = gamma, class_num

    def forward(self, inputs, targets):
        N, C = inputs.size(0), inputs.size(1)
        P = F.softmax(inputs, dim=1)
        class_mask = inputs.data.new(N, C).fill_(0)
        class_mask = Variable(class_mask)
        ids = targets.view(-1, 1)
        class_mask.scatter_(1, ids.data, 1.0)
        alpha = self.alpha[ids.data.view(-1)]
        probs = (P * class_mask).sum(1).view(-1, 1)
        batch_loss = -alpha * (torch.pow((1 - probs), self.gamma)) * probs.log()
        return batch_loss.mean()


class Clip(Function):
    """A straight-through clip that keeps its input the old way."""

    @staticmethod
    def forward(ctx, x, limit):
        ctx.save_for_backward(x)
        ctx.limit = limit
        return x.clamp(-limit, limit)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_variables
        return grad_output * (x.abs() <= ctx.limit).to(grad_output.dtype), None


class ClippedLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 5)

    def forward(self, x):
        return Clip.apply(self.fc(x), 0.5)


class OcclusionMask(nn.Module):
    """Unsupervised flow: a mask without a gradient."""

    def __init__(self):
        super().__init__()
        self.feat = nn.Conv2d(3, 3, 1)

    def forward(self, image, warped):
        mask = torch.ones_like(image) * (image.sum(1, keepdim=True) > 1.2)
        mask.requires_grad = False
        diff = (self.feat(image) - self.feat(warped)).abs() * mask
        return diff.mean()


class AdversarialStep(nn.Module):
    """FGSM inside a loss."""

    def __init__(self, eps=0.03):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 2))
        self.eps = eps

    def forward(self, x, y):
        x_adv = Variable(x.data, requires_grad=True)
        loss = F.cross_entropy(self.net(x_adv), y)
        (grad,) = torch.autograd.grad(loss, [x_adv])
        x_adv = torch.clamp(x_adv.data + self.eps * grad.sign(), 0, 1)
        return F.cross_entropy(self.net(x_adv), y)


class DecoderBase(nn.Module):
    def init_hidden(self, batch):
        weight = next(self.parameters()).data
        return autograd.Variable(weight.new(batch, self.hidden).zero_())


class StepDecoder(DecoderBase):
    """The hidden state comes from the base class."""

    def __init__(self, hidden=6):
        super().__init__()
        self.hidden = hidden
        self.cell = nn.Linear(2 * hidden, hidden)
        self.out = nn.Linear(hidden, 3)

    def forward(self, seq):
        h = self.init_hidden(seq.size(0))
        outs = []
        for t in range(seq.size(1)):
            h = torch.tanh(self.cell(torch.cat([seq[:, t], h], 1)))
            outs.append(self.out(h))
        return torch.stack(outs, 1)


def to_var(x, volatile=False):
    if torch.cuda.is_available():
        x = x.cuda()
    return Variable(x)


class RegionLoss(nn.Module):
    """Targets are wrapped by a helper; losses summed the old way."""

    def forward(self, coord, conf, tcoord, tconf):
        coord_mask = to_var((tconf > 0).float()).unsqueeze(-1)
        loss_coord = (
            nn.MSELoss(size_average=False)(coord * coord_mask, to_var(tcoord) * coord_mask) / 2.0
        )
        loss_conf = nn.MSELoss(reduce=True, size_average=False)(conf, to_var(tconf)) / 2.0
        return loss_coord + loss_conf


class FixedFilter(nn.Module):
    """A Sobel filter; weights are made in forward."""

    def forward(self, img):
        k = Variable(torch.FloatTensor([[1, 0, -1], [2, 0, -2], [1, 0, -1]]).view(1, 1, 3, 3))
        gx = F.conv2d(img, k, padding=1)
        gy = F.conv2d(img, Variable(k.data.transpose(2, 3).clone()), padding=1)
        return torch.sqrt(gx**2 + gy**2 + 1e-6)


class FrozenTeacher(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.student, self.teacher = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        target = self.teacher(x).clone().detach()
        target.requires_grad_(False)
        soft = F.softmax(target / 2.0, dim=-1).data
        soft.requires_grad = False
        return F.kl_div(F.log_softmax(self.student(x) / 2.0, dim=-1), soft, reduction="batchmean")


CASES = (
    Case(NoisyDiscriminator, lambda: (torch.randn(3, 8),), Category.VARIABLE, Repair.MECHANICAL),
    Case(ConvLSTMCell, lambda: (torch.randn(2, 3, 4, 4),), Category.VARIABLE, Repair.MECHANICAL),
    Case(PositionalEncoding, lambda: (torch.randn(2, 5, 8),), Category.VARIABLE, Repair.MECHANICAL),
    Case(
        OneHotFocal,
        lambda: (torch.randn(5, 4), torch.randint(0, 4, (5,))),
        Category.VARIABLE,
        Repair.MECHANICAL,
    ),
    Case(
        ClippedLinear,
        lambda: (torch.randn(3, 5, requires_grad=True),),
        Category.SAVED_VARIABLES,
        Repair.CONDITIONS,
        train=True,
    ),
    Case(
        OcclusionMask,
        lambda: (torch.rand(1, 3, 4, 4), torch.rand(1, 3, 4, 4)),
        Category.REQUIRES_GRAD,
        Repair.MECHANICAL,
    ),
    Case(
        AdversarialStep,
        lambda: (torch.rand(4, 6), torch.randint(0, 2, (4,))),
        Category.VARIABLE,
        Repair.CONDITIONS,
        train=True,
    ),
    Case(StepDecoder, lambda: (torch.randn(2, 3, 6),), Category.VARIABLE, Repair.MECHANICAL),
    Case(
        RegionLoss,
        lambda: (
            torch.randn(2, 5, 4),
            torch.rand(2, 5),
            torch.randn(2, 5, 4),
            torch.randint(0, 2, (2, 5)).float(),
        ),
        Category.VARIABLE,
        Repair.MECHANICAL,
    ),
    Case(FixedFilter, lambda: (torch.rand(2, 1, 6, 6),), Category.VARIABLE, Repair.MECHANICAL),
    Case(
        FrozenTeacher,
        lambda: (torch.randn(3, 6),),
        Category.REQUIRES_GRAD,
        Repair.MECHANICAL,
        train=True,
    ),
)
