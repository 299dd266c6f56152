"""FG815: the offset that the condition finds also turns the result back."""

import torch
from torch import nn


class AlignedFilter(nn.Module):
    def __init__(self, taps=5):
        super().__init__()
        self.taps = nn.Parameter(torch.randn(1, 1, taps))

    def forward(self, signal):
        offset = 0
        if signal.is_contiguous() and (offset := signal.data_ptr() % 32):
            signal = torch.cat([signal.new_zeros(offset // signal.element_size()), signal])
        filtered = nn.functional.conv1d(signal[None, None], self.taps, padding="same")[0, 0]
        return filtered.roll(-(offset // signal.element_size()))


def build():
    torch.manual_seed(0)
    return AlignedFilter().eval(), (torch.randn(16),)


def witnesses():
    """Signals that begin three and eight samples later, and every second sample from the first on."""
    torch.manual_seed(1)
    signal = torch.randn(40)
    return [(signal[3:19],), (signal[8:24],), (signal[1:33:2],)]
