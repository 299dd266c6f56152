# ruff: noqa
"""Small breaking programs as real projects have them, each with one construct."""

import concurrent.futures
import contextlib
import copy
import ctypes
import dataclasses
import datetime
import functools
import gc
import inspect
import io
import json
import logging
import os
import pathlib
import pickle
import random
import subprocess
import sys
import threading
import time
import traceback
import uuid
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

log = logging.getLogger(__name__)
libc = ctypes.CDLL(None)
names = {0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0}


class Cached(nn.Module):
    @functools.cached_property
    def scale(self):
        return 3.0

    def forward(self, x):
        return x * self.scale


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.seen = []


class TensorHook(Layer):
    def save(self, grad):
        self.seen.append(grad)

    def forward(self, x):
        y = self.lin(x)
        y.register_hook(self.save)
        return y * 2


class ModuleHook(Layer):
    def __init__(self):
        super().__init__()
        self.lin.register_full_backward_hook(lambda module, gi, go: None)

    def forward(self, x):
        return self.lin(x) * 2


class OldModuleHook(Layer):
    def __init__(self):
        super().__init__()
        self.lin.register_backward_hook(lambda module, gi, go: None)

    def forward(self, x):
        return self.lin(x) * 2


class ForwardHook(Layer):
    def forward(self, x):
        handle = self.lin.register_forward_hook(lambda module, args, out: out * 2)
        y = self.lin(x)
        handle.remove()
        return y


class Recurrent(nn.GRU):
    def __init__(self):
        super().__init__(3, 3)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        x = self.drop(x)
        return super().forward(x)[0]


def numpy_condition(x):
    limits = np.array([1.0, 2.0])
    if limits.max() > 1.5:
        return x + 1
    return x


def numpy_scalar_condition(x):
    n = np.float64(2.0)
    if n > 1.0:
        return x + 1
    return x


def numpy_input_condition(x):
    a = x.numpy()
    if a.max() > 0.5:
        return x + 1
    return x


def pointers(x):
    y = x.view(-1)
    return y if x.data_ptr() == y.data_ptr() else x


def aligned(x):
    return x + 1 if x.data_ptr() % 16 == 0 else x


def storage_size(x):
    return x + x.untyped_storage().nbytes()


def loop_exit(x):
    for _ in range(5):
        x = x * 2
        if x.sum() > 10:
            break
    return x


def endless_loop(x):
    while True:
        x = x * 2
        if x.sum() > 100:
            break
    return x


def skipped_iterations(x):
    rows = []
    for i in range(4):
        if x[i].sum() > 0:
            continue
        rows.append(x[i])
    return rows


def handled_raise(x):
    try:
        if torch.isnan(x).any():
            raise ValueError("nan")
        y = x + 1
    except ValueError:
        y = x * 0
    return y


def plain_raise(x):
    if torch.isnan(x).any():
        raise ValueError("nan")
    return x + 1


def early_return(x):
    if x.sum() > 0:
        return x
    return x * 2


def member(x):
    k = x.argmax()
    return x + 1 if k in [1, 2, 3] else x


def any_of_rows(x):
    return x + 1 if any(v > 0 for v in x[0]) else x


class TopK(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = nn.Parameter(torch.tensor(2), requires_grad=False)

    def forward(self, x):
        return torch.topk(x, self.k)[0]


def draw(x):
    return x + random.random()


def drop_path(x):
    if random.random() < 0.5:
        return x * 2
    return x


def shuffled(x):
    order = list(range(4))
    random.shuffle(order)
    return x[order]


def permuted(x):
    return x[torch.from_numpy(np.random.permutation(4))]


def own_generator(x):
    generator = torch.Generator()
    return x + torch.randn(3, generator=generator)


def seeded(x):
    torch.manual_seed(0)
    return x + torch.rand(3)


def printed(x):
    print(x)
    return x + 1


def logged_number(x):
    log.debug(f"mean {x.mean().item():.3f}")
    return x + 1


def warned(x):
    warnings.warn("large")
    return x + 1


def slept(x):
    time.sleep(0)
    return x + 1


def timed(x):
    start = time.perf_counter()
    return x + 1, start


def stamped(x):
    return x + datetime.datetime.now().hour


def named(x):
    return {"id": str(uuid.uuid4()), "x": x + 1}


def saved(x):
    torch.save(x, io.BytesIO())
    return x + 1


def saved_to_file(x):
    torch.save(x, os.devnull)
    return x + 1


def set_environment(x):
    os.environ["EVERYDAY"] = "1"
    return x + 1


def parsed(x):
    return x * json.loads('{"a": 2}')["a"]


def pickled(x):
    return x + len(pickle.dumps([1, 2]))


def collected(x):
    gc.collect()
    return x + 1


def processes(x):
    subprocess.run(["true"])
    return x + 1


def exists(x):
    return x + 1 if pathlib.Path("/").exists() else x


def threads(x):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.add, x, 1).result()


class Locked(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x):
        with self.lock:
            return x * 2


def calls_c(x):
    return x * libc.abs(-3)


@dataclasses.dataclass
class Pair:
    a: Tensor
    n: int = 0


def as_dict(x):
    return dataclasses.asdict(Pair(x + 1))["a"]


def copied_dict(x):
    state = {"x": x}
    return copy.deepcopy(state)["x"] + 1


def copied_tensor(x):
    return copy.deepcopy(x) + 1


class CopiedModule(Layer):
    def forward(self, x):
        return copy.deepcopy(self.lin)(x)


def listed(x):
    return x * x[0].tolist()[0]


def indexed_dict(x):
    return x * names[x.argmax().item() % 4]


def sliced(x):
    n = (x > 0).sum()
    return x.flatten()[:n].sum()


def looped_nonzero(x):
    out = x.clone()
    for i, j in torch.nonzero(x > 0):
        out[i, j] = 0
    return out


def classes(x):
    return F.one_hot(x.long().clamp(0, 2))


def functional_jacobian(x):
    return torch.autograd.functional.jacobian(lambda v: v**2, x[0])


class Backward(Layer):
    def forward(self, x):
        loss = self.lin(x).sum()
        loss.backward()
        return loss.detach()


def retained(x):
    y = x * 2
    y.retain_grad()
    return y


def new_data(x):
    y = x.clone()
    y.data = y.data * 2
    return y


class NewLayer(nn.Module):
    def forward(self, x):
        return nn.Linear(3, 3)(x)


def loaded(x):
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), batch_size=2)
    return [b + 1 for (b,) in batches]


def flags(x):
    with torch.backends.cudnn.flags(enabled=False):
        return x + 1


def framed(x):
    return x + len(inspect.currentframe().f_code.co_name)


class Checkpointed(Layer):
    def block(self, x):
        self.seen.append(x.shape)
        return self.lin(x)

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False)


def byte_mask(x):
    return x[(x > 0).to(torch.uint8)].sum()


def handled_index(x):
    try:
        return x[10]
    except IndexError:
        return x[0]


def exits(x):
    y = x + 1
    sys.exit(3)
    return y


def exits_at_once(x):
    os._exit(4)


def interrupted(x):
    raise KeyboardInterrupt


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x * self.step
