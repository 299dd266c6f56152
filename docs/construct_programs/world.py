"""Calls that leave the graph: output, clocks, random numbers, the operating system, autograd."""

import contextlib
import copy
import datetime
import functools
import gc
import inspect
import io
import json
import logging
import math
import os
import pickle
import random
import sys
import threading
import time
import traceback
import uuid
import warnings
from pathlib import Path

import numpy as np
import torch
import tqdm
import tqdm.auto
from torch import nn

from docs.construct_programs.program import Collection

construct = Collection()
LOGGER = logging.getLogger("constructs")
RANDOM = random.Random(0)
GENERATOR = torch.Generator()
LINEAR = nn.Linear(4, 4)


def plain(x):
    return x + 1


@torch.compiler.disable
def disabled(x):
    return x + 1


@construct("call.disabled")
def _(x):
    return disabled(x) * 2


@construct("python.class_definition")
def _(x):
    class Point:
        value = 1

    return x + Point.value


@construct("call:torch.autograd.grad")
def _(x):
    y = x.detach().requires_grad_()
    (g,) = torch.autograd.grad((y * y).sum(), y)  # here
    return g


@construct("call:threading.Lock")
def _(x):
    lock = threading.Lock()
    with lock:
        return x + 1


@construct("call:warnings.catch_warnings")
def _(x):
    with warnings.catch_warnings():
        return x + 1


@construct("call:torch.random.fork_rng")
def _(x):
    with torch.random.fork_rng():
        return x + 1


construct.calls(
    {
        "call:logging.Logger.debug": lambda x: (x + 1, LOGGER.debug("text")),
        "call:logging.Logger.info": lambda x: (x + 1, LOGGER.info("text")),
        "call:logging.Logger.warning": lambda x: (x + 1, LOGGER.warning("text")),
        "call:logging.Logger.error": lambda x: (x + 1, LOGGER.error("text")),
        "call:logging.Logger.critical": lambda x: (x + 1, LOGGER.critical("text")),
        "call:logging.Logger.log": lambda x: (x + 1, LOGGER.log(10, "text")),
        "call:logging.Logger.exception": lambda x: (x + 1, LOGGER.exception("text")),
        "call:logging.Logger.isEnabledFor": lambda x: (x + 1, LOGGER.isEnabledFor(10)),
        "call:logging.debug": lambda x: (x + 1, logging.debug("text")),
        "call:logging.info": lambda x: (x + 1, logging.info("text")),
        "call:logging.warning": lambda x: (x + 1, logging.warning("text")),
        "call:logging.error": lambda x: (x + 1, logging.error("text")),
        "call:logging.getLogger": lambda x: (x + 1, logging.getLogger("a")),
        "call:warnings.warn": lambda x: (x + 1, warnings.warn("text", stacklevel=1)),
        "call:warnings.simplefilter": lambda x: (x + 1, warnings.simplefilter("ignore")),
        "call:sys.stdout.write": lambda x: (x + 1, sys.stdout.write("")),
        "call:sys.stderr.write": lambda x: (x + 1, sys.stderr.write("")),
        "call:tqdm.tqdm": lambda x: [x + i for i in tqdm.tqdm([1, 2])],
        "call:tqdm.trange": lambda x: [x + i for i in tqdm.trange(2)],
        "call:tqdm.auto.tqdm": lambda x: [x + i for i in tqdm.auto.tqdm([1, 2])],
        "call:tqdm.auto.trange": lambda x: [x + i for i in tqdm.auto.trange(2)],
        "call:time.time": lambda x: x + time.time(),
        "call:time.perf_counter": lambda x: x + time.perf_counter(),
        "call:time.monotonic": lambda x: x + time.monotonic(),
        "call:time.process_time": lambda x: x + time.process_time(),
        "call:time.sleep": lambda x: (x + 1, time.sleep(0)),
        "call:datetime.datetime.now": lambda x: (x + 1, datetime.datetime.now()),
        "call:random.random": lambda x: x + random.random(),
        "call:random.uniform": lambda x: x + random.uniform(0, 1),
        "call:random.randint": lambda x: x + random.randint(0, 9),
        "call:random.randrange": lambda x: x + random.randrange(9),
        "call:random.choice": lambda x: x + random.choice([1, 2]),
        "call:random.choices": lambda x: x + random.choices([1, 2])[0],
        "call:random.sample": lambda x: x + random.sample([1, 2], 1)[0],
        "call:random.shuffle": lambda x: (x + 1, random.shuffle([1, 2])),
        "call:random.gauss": lambda x: x + random.gauss(0, 1),
        "call:random.betavariate": lambda x: x + random.betavariate(1, 1),
        "call:random.getrandbits": lambda x: x + random.getrandbits(3),
        "call:random.seed": lambda x: (x + 1, random.seed(0)),
        "call:numpy.random.rand": lambda x: x + np.random.rand(),
        "call:numpy.random.randn": lambda x: x + np.random.randn(),
        "call:numpy.random.random": lambda x: x + np.random.random(),
        "call:numpy.random.uniform": lambda x: x + np.random.uniform(0, 1),
        "call:numpy.random.normal": lambda x: x + np.random.normal(0, 1),
        "call:numpy.random.beta": lambda x: x + np.random.beta(1, 1),
        "call:numpy.random.randint": lambda x: x + np.random.randint(0, 9),
        "call:numpy.random.choice": lambda x: x + np.random.choice(4),
        "call:numpy.random.permutation": lambda x: np.random.permutation(4),
        "call:numpy.random.shuffle": lambda x: (x + 1, np.random.shuffle([1, 2])),
        "call:numpy.random.seed": lambda x: (x + 1, np.random.seed(0)),
        "call:numpy.random.default_rng": lambda x: x + np.random.default_rng(0).random(),
        "call:torch.manual_seed": lambda x: (x + 1, torch.manual_seed(0))[0],
        "call:torch.seed": lambda x: (x + 1, torch.seed())[0],
        "call:torch.initial_seed": lambda x: x + torch.initial_seed(),
        "call:torch.get_rng_state": lambda x: (x, torch.get_rng_state()),
        "call:torch.set_rng_state": lambda x: (x + 1, torch.set_rng_state(torch.get_rng_state())),
        "call:torch.Generator": lambda x: x + torch.rand(4, generator=torch.Generator()),
        "call:torch.set_default_dtype": lambda x: (x + 1, torch.set_default_dtype(torch.float32)),
        "call:torch.set_num_threads": lambda x: (x + 1, torch.set_num_threads(1)),
        "call:torch.set_grad_enabled": lambda x: (x + 1, torch.set_grad_enabled(True))[0],
        "call:torch.set_printoptions": lambda x: (x + 1, torch.set_printoptions(precision=4)),
        "call:torch.save": lambda x: (x + 1, torch.save(x, io.BytesIO())),
        "call:torch.load": lambda x: (x + 1, torch.load("missing") if len(x) > 9 else 0),
        "call:torch.cuda.synchronize": lambda x: (x + 1, torch.cuda.is_available()),
        "call:torch.cuda.is_available": lambda x: (x + 1, torch.cuda.is_available()),
        "call:torch.is_grad_enabled": lambda x: (x + 1, torch.is_grad_enabled()),
        "call:torch._dynamo.graph_break": lambda x: (x + 1, torch._dynamo.graph_break())[0],
        "call:torch.compiler.is_compiling": lambda x: (x + 1, torch.compiler.is_compiling()),
        "call:torch.autograd.functional.jacobian": lambda x: torch.autograd.functional.jacobian(
            torch.sin, x
        ),
        "call:torch.utils.checkpoint.checkpoint": lambda x: torch.utils.checkpoint.checkpoint(
            LINEAR, x, use_reentrant=False
        ),
        "call:torch.from_numpy": lambda x: torch.from_numpy(x.numpy()) + 1,
        "call:torch.tensor": lambda x: x + torch.tensor([1.0]),
        "call:uuid.uuid4": lambda x: (x + 1, uuid.uuid4()),
        "call:os.getenv": lambda x: (x + 1, os.getenv("HOME")),
        "call:os.environ.get": lambda x: (x + 1, os.environ.get("HOME")),
        "call:os.getpid": lambda x: x + os.getpid(),
        "call:os.urandom": lambda x: (x + 1, os.urandom(1)),
        "call:os.path.exists": lambda x: (x + 1, os.path.exists("missing")),
        "call:os.path.join": lambda x: (x + 1, os.path.join("a", "b")),
        "call:os.makedirs": lambda x: (x + 1, os.makedirs("/tmp", exist_ok=True)),
        "call:os.listdir": lambda x: (x + 1, os.listdir("/")),
        "call:open": lambda x: (x + 1, open(os.devnull)),  # noqa: SIM115
        "call:input": lambda x: (x + 1, input() if len(x) > 9 else ""),
        "call:pathlib.Path": lambda x: (x + 1, Path("a")),
        "call:io.StringIO": lambda x: (x + 1, io.StringIO()),
        "call:io.BytesIO": lambda x: (x + 1, io.BytesIO()),
        "call:json.dumps": lambda x: (x + 1, json.dumps([1])),
        "call:json.loads": lambda x: (x + 1, json.loads("[1]")),
        "call:pickle.dumps": lambda x: (x + 1, pickle.dumps([1])),
        "call:copy.deepcopy": lambda x: copy.deepcopy(x) + 1,
        "call:copy.copy": lambda x: copy.copy(x) + 1,
        "call:gc.collect": lambda x: (x + 1, gc.collect()),
        "call:inspect.signature": lambda x: (x + 1, len(inspect.signature(plain).parameters)),
        "call:inspect.stack": lambda x: (x + 1, len(inspect.stack())),
        "call:traceback.format_stack": lambda x: (x + 1, len(traceback.format_stack())),
        "call:traceback.print_exc": lambda x: (x + 1, traceback.print_exc()),
        "call:sys._getframe": lambda x: (x + 1, sys._getframe().f_lineno),
        "call:sys.getsizeof": lambda x: (x + 1, sys.getsizeof([1])),
        "call:threading.current_thread": lambda x: (x + 1, threading.current_thread().name),
        "call:threading.get_ident": lambda x: (x + 1, threading.get_ident()),
        "call:contextlib.ExitStack": lambda x: (x + 1, contextlib.ExitStack())[0],
        "call:functools.partial": lambda x: functools.partial(torch.add, x)(1),
        "call:math.sqrt": lambda x: x + math.sqrt(2),
        "call:math.ceil": lambda x: x + math.ceil(2.5),
        "call:numpy.unwrap": lambda x: np.unwrap(x.numpy()),
        "call:numpy.interp": lambda x: np.interp(x.numpy(), x.numpy(), x.numpy()),
        "call:numpy.apply_along_axis": lambda x: np.apply_along_axis(np.sum, 0, x.numpy()),
        "call:numpy.vectorize": lambda x: np.vectorize(abs)(x.numpy()),
        "call:numpy.mgrid": lambda x: np.mgrid[0:2],
        "call:numpy.digitize": lambda x: np.digitize(x.numpy(), [1, 2]),
        "call:numpy.histogram": lambda x: np.histogram(x.numpy()),
        "call:numpy.unique": lambda x: np.unique(x.numpy()),
        "call:numpy.where": lambda x: np.where(x.numpy() > 2)[0],
        "call:numpy.nonzero": lambda x: np.nonzero(x.numpy() > 2)[0],
        "call:numpy.percentile": lambda x: np.percentile(x.numpy(), 50),
        "call:numpy.median": lambda x: np.median(x.numpy()),
        "call:numpy.isin": lambda x: np.isin(x.numpy(), [1, 2]),
        "call:numpy.searchsorted": lambda x: np.searchsorted(x.numpy(), 2.0),
        "call:numpy.linalg.norm": lambda x: np.linalg.norm(x.numpy()),
        "call:numpy.fft.fft": lambda x: np.fft.fft(x.numpy()),
        "call:numpy.array": lambda x: np.array([1.0, 2.0]),
        "call:numpy.asarray": lambda x: np.asarray([1.0, 2.0]),
        "call:numpy.arange": lambda x: np.arange(4),
        "call:numpy.linspace": lambda x: np.linspace(0, 1, 4),
        "call:numpy.meshgrid": lambda x: np.meshgrid(np.arange(2), np.arange(2))[0],
        "call:numpy.prod": lambda x: np.prod(x.shape),
        "call:numpy.sqrt": lambda x: np.sqrt(2.0),
        "call:numpy.log": lambda x: np.log(2.0),
        "call:numpy.ceil": lambda x: np.ceil(2.5),
        "call:numpy.concatenate": lambda x: np.concatenate([x.numpy(), x.numpy()]),
        "call:numpy.stack": lambda x: np.stack([x.numpy(), x.numpy()]),
        "call:numpy.argsort": lambda x: np.argsort(x.numpy()),
        "call:numpy.cumsum": lambda x: np.cumsum(x.numpy()),
        "call:numpy.diff": lambda x: np.diff(x.numpy()),
        "call:numpy.clip": lambda x: np.clip(x.numpy(), 0, 1),
        "call:numpy.save": lambda x: (x + 1, np.save(io.BytesIO(), np.arange(2))),
        "call:id": lambda x: (x + 1, id(x)),
        "call:hash": lambda x: (x + 1, hash("a")),
        "call:globals": lambda x: (x + 1, len(globals())),
        "call:locals": lambda x: (x + 1, len(locals())),
        "call:vars": lambda x: (x + 1, vars(LINEAR)["training"]),
        "call:dir": lambda x: (x + 1, len(dir(LINEAR))),
        "call:eval": lambda x: x + eval("1"),
        "call:__import__": lambda x: (x + 1, __import__("math")),
    }
)
