"""Breaks in the two big buckets are known by the function that was called."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from fullgraph.compiler.events import Position
from fullgraph.diagnose.causes import diagnose
from fullgraph.diagnose.taxonomy import is_consequence
from fullgraph.diagnose.taxonomy.known_functions import named_in_context
from tests.diagnose.taxonomy.snippets import HERE, a_break, breaks
from tests.text import block

CALLS = {
    block("""
        import time as clock
        y = x * clock.monotonic()"""): ("clock", "reads the clock"),
    block("""
        import datetime
        y = x * datetime.datetime.now().hour"""): ("clock", "reads the clock"),
    block("""
        import uuid
        y = x + len(str(uuid.uuid4()))"""): ("unique id", "random bytes"),
    block("""
        import os
        y = x + len(os.getcwd())"""): ("operating system", "operating system"),
    block("""
        import os
        y = x + os.path.exists('/')"""): ("operating system", "operating system"),
    block("""
        import subprocess
        subprocess.run(['true'])
        y = x"""): ("operating system", "process"),
    block("""
        import threading
        threading.Lock()
        y = x + 1"""): ("lock or thread", "outside the graph"),
    block("""
        import zlib
        y = x + zlib.crc32(b'a')"""): ("C extension", "implemented in C"),
    block("""
        import json
        y = x + len(json.dumps({'a': 1}))"""): ("C extension", "implemented in C"),
    block("""
        import logging
        logging.info('a')
        y = x"""): ("print / logging", "logging"),
    "y = x * random.choice([1, 2])": ("random number", "Python's random generator"),
    block("""
        torch.manual_seed(0)
        y = x + torch.rand(4)"""): ("random generator state", "sets the state"),
    block("""
        torch.save(x, '/dev/null')
        y = x"""): ("operating system", "writes a file"),
    "y = x + len(globals())": ("introspection", "running program"),
    "y = x + len(str(x))": ("tensor as text", "needs its values"),
    "y = copy.deepcopy(x) + 1": ("copy", "copy"),
    "y = outside(x) + 1": ("disabled function", "torch.compiler.disable"),
    block("""
        torch._dynamo.graph_break()
        y = x + 1"""): ("explicit graph break", "asks for"),
    "y = x.clone().resize_(12)": ("tensor mutation", "changes a tensor"),
    "y = nn.Linear(4, 4)(x)": ("new parameter", "nn.Parameter"),
    block("""
        with torch.device('cpu'):
            y = x + torch.ones(4)"""): ("context manager", "torch.device"),
    block("""
        import warnings as w
        w.warn('a')
        y = x"""): ("warning", "side effect"),
    block("""
        lock = threading.RLock()


        def forward(x):
            with lock:
                return x + 1"""): (
        "lock or thread",
        "outside the graph",
    ),
    block("""
        lock = threading.Lock()


        def forward(x):
            lock.acquire()
            return x + 1"""): (
        "lock or thread",
        "outside the graph",
    ),
    block("""
        net = torch.jit.trace(nn.Softplus(), torch.ones(4))


        def forward(x):
            return net(x)"""): (
        "TorchScript",
        "does not enter",
    ),
    block("""
        net = nn.Tanh()


        def forward(x):
            net.register_forward_hook(print)
            return x"""): (
        "hook registration",
        "registers",
    ),
    block("""
        rng = np.random.default_rng()


        def forward(x):
            return x * rng.normal()"""): (
        "random number",
        "NumPy's random generator",
    ),
    block("""
        rng = np.random.RandomState()


        def forward(x):
            return x * rng.rand()"""): (
        "random number",
        "NumPy's random generator",
    ),
    block("""
        out = open(os.devnull)


        def forward(x):
            return x + len(out.read())"""): (
        "operating system",
        "reads or writes a file",
    ),
    block("""
        out = io.StringIO()


        def forward(x):
            return x + out.write('a')"""): (
        "operating system",
        "reads or writes a file",
    ),
    block("""
        weight = torch.ones(4, requires_grad=True)
        sgd = torch.optim.SGD([weight])


        def forward(x):
            sgd.step()
            return x"""): ("optimizer", "optimizer"),
    block("""
        weight = torch.ones(4, requires_grad=True)
        sgd = torch.optim.SGD([weight])


        def forward(x):
            sgd.zero_grad()
            return x"""): ("optimizer", "optimizer"),
    block("""
        net = nn.PReLU()


        def forward(x):
            net.load_state_dict(net.state_dict())
            return x"""): (
        "nn.Module",
        "parameters of a module",
    ),
    block("""
        import asyncio
        asyncio._get_running_loop()
        y = x + 1"""): (
        "lock or thread",
        "event loop",
    ),
    block("""
        import ctypes
        y = x + ctypes.c_int(3).value"""): ("C extension", "implemented in C"),
    block("""
        import datetime
        y = x + datetime.date(2026, 1, 2).month"""): ("C extension", "in C"),
    block("""
        import glob
        y = x + len(glob.glob('/'))"""): ("operating system", "operating system"),
    block("""
        torch.set_flush_denormal(False)
        y = x"""): ("side effect", "setting of torch"),
    "y = x.clone().share_memory_()": ("tensor mutation", "storage"),
    "y = x + x.untyped_storage().nbytes()": ("introspection", "looks at"),
    "y = torch.nested.nested_tensor([x, x])": ("nested tensor", "nested tensor"),
    "y = x + len(f'a{x.sum()}')": ("tensor as text", "needs its values"),
    "y = x + len('a{}'.format(x.sum()))": ("tensor as text", "needs its values"),
}


@pytest.mark.compiles
@pytest.mark.parametrize("text", CALLS)
def test_a_call_is_known_by_its_name(text: str) -> None:
    brk = breaks(text, "default")[0]
    category, said = CALLS[text]
    diagnosis = diagnose(brk, expression="")
    assert diagnosis.category == category
    assert said in diagnosis.sentence


@pytest.mark.compiles
def test_a_generator_that_is_given_is_one_of_random_numbers() -> None:
    drawn = "torch.rand(4, generator=generator)"
    text = f"generator = torch.Generator()\n\n\ndef forward(x):\n    return x + {drawn}"
    (brk, *_) = breaks(text, "default")
    assert diagnose(brk, expression=drawn).category == "random generator state"


def test_a_users_own_words_come_before_those_of_dynamo() -> None:
    context = "module: posix, qualname: urandom, skip reason: a C extension"
    brk = a_break(context=context)
    diagnosis = diagnose(brk, expression="secrets.token_hex()")
    assert diagnosis.sentence.startswith("`secrets.token_hex()`")
    assert named_in_context(context) == "posix.urandom"


def test_a_collective_is_known_under_any_name_of_its_module() -> None:
    file = dist.distributed_c10d.__file__
    brk = a_break(stack=(HERE, Position(file, 9, 4, 9, 20, "barrier")), context="module: x")
    assert diagnose(brk, expression="d.barrier()").category == "collective"


def test_what_torch_does_around_a_backward_hook_is_a_backward_hook() -> None:
    file = torch.utils.hooks.__file__
    brk = a_break("Tensor with grad_fn()", stack=(HERE, Position(file, 9, 4, 9, 20, "setup")))
    assert diagnose(brk, expression="t.grad_fn").category == "backward hook"
    assert diagnose(a_break("Tensor with grad_fn()"), expression="t.grad_fn").category == "grad_fn"


def test_a_mask_inside_a_torch_function_is_no_mask_of_the_users() -> None:
    brk = a_break("Dynamic shape operator", context="aten.masked_select.default")
    assert diagnose(brk, expression="torch.combinations(x[0])").category == "dynamic output shape"
    assert diagnose(brk, expression="x[mask]").category == "boolean mask"
    other = a_break("Dynamic shape operator", context="aten.one_hot.default")
    assert diagnose(other, expression="F.one_hot(x)").category == "dynamic output shape"


def test_an_unknown_c_function_is_named() -> None:
    brk = a_break(
        context="module: cv2, qualname: resize, skip reason: <missing reason>",
        explanation="This function is a third-party C/C++ Python extension.",
    )
    assert diagnose(brk, expression="cv2.resize(image, size)").category == "C extension"
    assert diagnose(brk, expression="cv2.resize(image, size)").sentence == (
        "`cv2.resize(image, size)` cannot be traced: `cv2.resize` is implemented in C."
    )


def test_a_users_file_that_is_called_random_is_no_random_number() -> None:
    inner = Position("/home/me/random.py", 9, 4, 9, 20, "helper")
    brk = a_break(stack=(HERE, inner), context="module: random2, qualname: helper, skip reason: x")
    assert diagnose(brk, expression="helper(x)").category == "skipped function"


def test_a_generator_of_a_library_is_a_consequence_and_the_users_own_is_not() -> None:
    library = Position("<frozen typing>", 700, None, None, None, "cached")
    assert is_consequence(a_break("Attempt to trace generator", frame=library, stack=(library,)))
    assert not is_consequence(a_break("Attempt to trace generator"))


def test_a_type_of_no_meaning_is_other_and_quoted() -> None:
    brk = a_break("a thing nobody has named", explanation="Dynamo met a thing. More words.")
    assert diagnose(brk, expression="").category == "other"
    diagnosis = diagnose(brk, expression="f(x)")
    assert diagnosis.sentence == "`f(x)` cannot be traced: Dynamo met a thing."


@pytest.mark.parametrize(
    ("gb_type", "context", "expression", "category"),
    [
        (
            "Attempted to call function marked as skipped",
            "module: <unknown module>, qualname: Generator.__new__, skip reason: <missing reason>",
            "torch.Generator()",
            "random generator state",
        ),
        (
            "Attempted to call function marked as skipped",
            "module: torch.autograd, qualname: grad, skip reason: <missing reason>",
            "grad(y, x)",
            "autograd call",
        ),
        (
            "Attempted to call function marked as skipped",
            "module: builtins, qualname: __build_class__, skip reason: <missing reason>",
            block("""
                class Point:
                    value = 1"""),
            "class definition",
        ),
        (
            "Operator does not support running with fake tensors",
            "unsupported operator: torch.compile does not support strided NestedTensor",
            "torch.nested.nested_tensor([x, x])",
            "nested tensor",
        ),
        (
            "Failed to trace builtin operator",
            "builtin bool [<class 'torch._dynamo.variables.tensor.NumpyNdarrayVariable'>] False",
            "bool(np.prod(x.shape) > 1)",
            "NumPy scalar",
        ),
        (
            "Failed to trace builtin operator",
            "builtin mod [<class 'torch._dynamo.variables.tensor.DataPtrVariable'>] False",
            "x.data_ptr() % 16",
            "introspection",
        ),
    ],
)
def test_breaks_of_torch_2_10_have_the_category_that_later_versions_give(
    gb_type: str, context: str, expression: str, category: str
) -> None:
    brk = a_break(gb_type, context=context)
    assert diagnose(brk, expression=expression).category == category
