"""Fixes in the user's code for autograd, tensors and modules of a special kind, and Python."""

from __future__ import annotations

from fullgraph.compiler.categories import Category as C
from fullgraph.diagnose.taxonomy.fix import NOT_AGAIN, ONCE, OUTSIDE, Fix, code

FIXES: dict[C, tuple[Fix, ...]] = {
    C.REQUIRES_GRAD: (
        code(
            "Detach instead.",
            "z = x * 2\nz.requires_grad = False\ny = x + z",
            "z = (x * 2).detach()\ny = x + z",
            when=r"requires_grad\b.*(False|\Z)",
            unless=r"requires_grad=True|requires_grad_\(\)",
        ),
        code("Make tensors that require grad outside the compiled function and pass them in."),
    ),
    C.GRAD_FN: (
        code(
            "Ask for `requires_grad` instead.",
            "z = leaf * 2\ny = z + 1 if z.grad_fn is not None else z",
            "z = leaf * 2\ny = z + 1 if z.requires_grad else z",
            trap="A leaf can require grad and has no `grad_fn`.",
            when=r"grad_fn\b(?!\.)|\A\s*\Z",
        ),
        code("Look at the autograd graph outside the compiled function."),
    ),
    C.REGISTRATION: (
        code(
            "Register the hook once, where the module is made.",
            "module = nn.Tanh()\n\n\n"
            "def forward(x):\n"
            "    handle = module.register_forward_hook(lambda module, args, out: out * 2)\n"
            "    y = module(x)\n"
            "    handle.remove()\n"
            "    return y",
            "module = nn.Tanh()\n"
            "module.register_forward_hook(lambda module, args, out: out * 2)\n\n\n"
            "def forward(x):\n    return module(x)",
            trap="It is there in every call of the module.",
        ),
        code("Register and remove hooks outside the compiled function."),
    ),
    C.AUTOGRAD: (
        code(
            "Differentiate a function with `torch.func.grad`.",
            "w = x.detach().requires_grad_()\n(y,) = torch.autograd.grad((w * w).sum(), w)",
            "y = torch.func.grad(lambda w: (w * w).sum())(x)",
            when=r"grad\(",
        ),
        code("Call `.backward()` on the result, outside the compiled function."),
    ),
    C.SAVED_VARIABLES: (
        code(
            "Say `ctx.saved_tensors`.",
            "class Double(torch.autograd.Function):\n"
            "    @staticmethod\n"
            "    def forward(ctx, x):\n"
            "        ctx.save_for_backward(x)\n"
            "        return x * 2\n\n"
            "    @staticmethod\n"
            "    def backward(ctx, grad):\n"
            "        (x,) = ctx.saved_variables\n"
            "        return grad * 2 * (x * 0 + 1)\n\n\n"
            "def forward(leaf):\n"
            "    return Double.apply(leaf)",
            "class Double(torch.autograd.Function):\n"
            "    @staticmethod\n"
            "    def forward(ctx, x):\n"
            "        ctx.save_for_backward(x)\n"
            "        return x * 2\n\n"
            "    @staticmethod\n"
            "    def backward(ctx, grad):\n"
            "        (x,) = ctx.saved_tensors\n"
            "        return grad * 2 * (x * 0 + 1)\n\n\n"
            "def forward(leaf):\n"
            "    return Double.apply(leaf)",
        ),
    ),
    C.SPARSE: (
        code(
            "Multiply dense tensors.",
            "y = torch.sparse.mm(x.to_sparse(), z.t())",
            "y = x @ z.t()",
            trap="The zeros are stored and computed with, too.",
            when=r"to_sparse|\bmm\(|@",
        ),
        code("Make it dense outside the compiled function."),
    ),
    C.NESTED: (
        code(
            "Pad instead.",
            "y = torch.nested.nested_tensor([x[0], x[1]]).to_padded_tensor(0.0)",
            "y = nn.utils.rnn.pad_sequence([x[0], x[1]], batch_first=True)",
            trap="What is computed of the padding must be masked.",
        ),
    ),
    C.OPAQUE: (code("Make the object outside the compiled function and pass it in."),),
    C.TENSOR_MUTATION: (
        code(
            "Reshape instead of resizing.",
            "y = x.clone().resize_(2, 6)",
            "y = x.reshape(2, 6)",
            trap="`resize_` can also grow a tensor; `reshape` cannot.",
            when=r"resize_|\A\s*\Z",
        ),
        code("Make a new tensor instead of changing this one."),
    ),
    C.PARAMETER: (
        code(
            "Make parameters and modules in `__init__`, not in `forward`.",
            "def forward(x):\n    weight = nn.Parameter(torch.ones(4))\n    return x * weight",
            "weight = nn.Parameter(torch.ones(4))\n\n\ndef forward(x):\n    return x * weight",
        ),
    ),
    C.MODULE: (code("Build and change modules outside the compiled function."),),
    C.OPTIMIZER: (
        code(
            "Make the step outside the compiled function.",
            "weight = nn.Parameter(torch.ones(4))\n"
            "optimizer = torch.optim.SGD([weight], lr=0.1)\n\n\n"
            "def forward(x):\n"
            "    loss = (x * weight).sum()\n"
            "    optimizer.step()\n"
            "    return loss",
            "weight = nn.Parameter(torch.ones(4))\n"
            "optimizer = torch.optim.SGD([weight], lr=0.1)\n\n\n"
            "def forward(x):\n"
            "    return (x * weight).sum()\n\n\n"
            "def train(x):\n"
            "    loss = forward(x)\n"
            "    optimizer.step()\n"
            "    return loss",
            trap="`torch.compile(optimizer.step)` compiles the step on its own.",
        ),
    ),
    C.EXCEPTION: (
        code("Check before the compiled function is called, and raise there.", when=r"\braise\b"),
    ),
    C.GENERATOR: (
        code(
            "Compile the function that calls the generator.",
            "def forward(x):\n    yield x + 1\n    yield x + 2",
            "def parts(x):\n    yield x + 1\n    yield x + 2\n\n\n"
            "def forward(x):\n    return list(parts(x))",
        ),
    ),
    C.CONTEXT_MANAGER: (
        code(
            "Give `device=` to the functions that make tensors.",
            'with torch.device("cpu"):\n    y = x + torch.ones(4)',
            'y = x + torch.ones(4, device="cpu")',
            when=r"device",
        ),
        code(
            "Nest `with` statements.",
            "with contextlib.ExitStack() as stack:\n"
            "    stack.enter_context(torch.no_grad())\n"
            "    y = x + 1",
            "with torch.no_grad():\n    y = x + 1",
            when=r"ExitStack|enter_context",
        ),
        code(
            "Make the manager in the `with` that enters it.",
            "class Scope:\n"
            "    def __enter__(self):\n"
            "        return self\n\n"
            "    def __exit__(self, *error):\n"
            "        return None\n\n\n"
            "scope = Scope()\n\n\n"
            "def forward(x):\n"
            "    with scope:\n"
            "        return x + 1",
            "class Scope:\n"
            "    def __enter__(self):\n"
            "        return self\n\n"
            "    def __exit__(self, *error):\n"
            "        return None\n\n\n"
            "def forward(x):\n"
            "    with Scope():\n"
            "        return x + 1",
            trap="It is a new one in each call; all that it does is traced, and may break in turn.",
            when=r"\A[\w.]+\Z",
        ),
        code("Enter it outside the compiled function."),
    ),
    C.COPY: (
        code(
            "Clone the tensor.",
            "y = copy.deepcopy(x) + 1",
            "y = x.clone() + 1",
            trap="`deepcopy` gives a leaf, `clone` a node of the autograd graph.",
            when=r"deepcopy",
        ),
        code(
            "Copy a dict with `dict(d)` and a list with `list(x)`.",
            'd = {"x": x}\ny = copy.copy(d)["x"] + 1',
            'd = {"x": x}\ny = dict(d)["x"] + 1',
            when=r"copy\.copy|(?<!deep)copy\(",
        ),
        code(
            "Write the fields of the dataclass out.",
            "import dataclasses\n\n\n"
            "@dataclasses.dataclass\nclass Pair:\n    a: object\n    b: object\n\n\n"
            "def forward(x):\n"
            "    pair = dataclasses.asdict(Pair(x + 1, x + 2))\n"
            '    return pair["a"] + pair["b"]',
            "import dataclasses\n\n\n"
            "@dataclasses.dataclass\nclass Pair:\n    a: object\n    b: object\n\n\n"
            "def forward(x):\n"
            "    pair = Pair(x + 1, x + 2)\n"
            '    pair = {"a": pair.a, "b": pair.b}\n'
            '    return pair["a"] + pair["b"]',
            trap="`asdict` copies the tensors; written out, they are shared.",
            when=r"as(dict|tuple)\(",
        ),
        code("Copy it outside the compiled function."),
    ),
    C.CLASS: (
        code(
            "Define the class at the top of the file.",
            "def forward(x):\n"
            "    class Pair:\n"
            "        def __init__(self, a):\n"
            "            self.a = a\n\n"
            "    return Pair(x + 1).a",
            "class Pair:\n"
            "    def __init__(self, a):\n"
            "        self.a = a\n\n\n"
            "def forward(x):\n"
            "    return Pair(x + 1).a",
        ),
    ),
    C.DATACLASS: (code("Read the fields by name instead of by `asdict` or `fields`."),),
    C.INTROSPECTION: (
        code(
            "Write its name instead of looking it up.",
            'y = x * globals()["math"].pi',
            "y = x * math.pi",
            when=r"globals\(\)",
        ),
        code(
            "Compare with `is`.",
            "y = x + 1 if x.data_ptr() == z.data_ptr() else x",
            "y = x + 1 if x is z else x",
            trap="A view of a tensor is another object with the same pointer.",
            when=r"data_ptr\(\) *(==|!=) *[\w.]+\.data_ptr\(",
        ),
        code("Look it up outside the compiled function and pass it in."),
    ),
    C.BUILTIN: (
        code(
            "Sort with torch.",
            "y = sorted([x.sum(), x.mean()])[0]",
            "y = torch.stack([x.sum(), x.mean()]).sort().values[0]",
            when=r"sorted\(|\.sort\(",
        ),
        code(OUTSIDE),
    ),
    C.HIGHER_ORDER: (
        code(
            "Return a clone where a branch returns its input.",
            "y = torch.cond(x.sum() > 0, lambda x: x, lambda x: x - 1, (x,))",
            "y = torch.cond(x.sum() > 0, lambda x: x.clone(), lambda x: x - 1, (x,))",
            when=r"cond\(",
        ),
        code(
            "Give the branches the same inputs, outputs, shapes and dtypes, and no side effects.",
            when=r"\b(cond|while_loop|switch)\(",
        ),
    ),
    C.FAKE: (code("Register a fake kernel for the op with `torch.library.register_fake`."),),
    C.OPERATOR_ERROR: (code("Run the model in eager: the operator most likely fails there too."),),
    C.BACKEND: (code('Compile with `backend="eager"`: if that works, the backend is at fault.'),),
    C.NON_TENSOR: (
        code(
            ONCE,
            "def forward(x):\n    return x * torch.get_num_threads()",
            "THREADS = torch.get_num_threads()\n\n\ndef forward(x):\n    return x * THREADS",
            trap=NOT_AGAIN,
            when=r"\bget_\w+\(\)|\A\s*\Z",
        ),
        code(OUTSIDE),
    ),
    C.CALL: (code(OUTSIDE),),
    C.SIDE_EFFECT: (
        code(
            "Set it once, at the top of the file.",
            "def forward(x):\n    torch.set_flush_denormal(False)\n    return x + 1",
            "torch.set_flush_denormal(False)\n\n\ndef forward(x):\n    return x + 1",
            trap="It holds for all that runs after it.",
            when=r"torch\.set_",
        ),
        code("Return the new value, and store it outside the compiled function."),
    ),
}
