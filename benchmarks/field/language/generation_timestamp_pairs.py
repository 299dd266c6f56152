"""Transcription allows a timestamp only where one is due, by the tokens of each row so far."""

import torch
from torch import nn


class TimestampRules(nn.Module):
    def __init__(self, words: int = 8, stamps: int = 6, prompt: int = 2, end: int = 3) -> None:
        super().__init__()
        self.first, self.total, self.prompt, self.end = words, words + stamps, prompt, end

    def forward(self, tokens, scores):
        scores = scores.clone()
        for row, history in enumerate(tokens.tolist()):
            history = history[self.prompt :]
            after_stamp = bool(history) and history[-1] >= self.first
            open_pair = len(history) > 1 and history[-2] < self.first
            if after_stamp and open_pair:
                scores[row, : self.end] = float("-inf")
            elif after_stamp:
                scores[row, self.first :] = float("-inf")
            stamps = [token for token in history if token >= self.first]
            if stamps:
                latest = stamps[-1] + (0 if after_stamp and open_pair else 1)
                scores[row, self.first : latest] = float("-inf")
            logs = scores[row].log_softmax(-1)
            if logs[self.first :].logsumexp(-1) > logs[: self.first].max():
                scores[row, : self.first] = float("-inf")
        return scores


def build():
    torch.manual_seed(0)
    tokens = torch.tensor([[0, 1, 8, 2, 9], [0, 1, 8, 4, 5], [0, 1, 4, 9, 9]])
    return TimestampRules(), (tokens, torch.randn(3, 14))
