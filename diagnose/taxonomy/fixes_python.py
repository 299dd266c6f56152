"""Fixes in the user's code for what a graph cannot hold: side effects, calls, Python."""

from __future__ import annotations

from fullgraph.diagnose.taxonomy.categories import Category as C
from fullgraph.diagnose.taxonomy.fix import Fix, code

_SILENT = "Nothing is {} once the function is compiled."
_OUTSIDE = "Do it outside the compiled function and pass the result in."
_ONCE = "Do it once, at the top of the file or in `__init__`."
_NOT_AGAIN = "It is not asked again."
_CUSTOM_OP = code(
    "Wrap it in a custom op with a fake kernel.",
    "def forward(x):\n    return outside(x)",
    '@torch.library.custom_op("mine::outside", mutates_args=())\n'
    "def wrapped(x: torch.Tensor) -> torch.Tensor:\n"
    "    return outside(x)\n\n\n"
    "@wrapped.register_fake\n"
    "def _(x):\n"
    "    return torch.empty_like(x)\n\n\n"
    "def forward(x):\n"
    "    return wrapped(x)",
    trap="It must return new tensors; for gradients, register an autograd formula.",
)

FIXES: dict[C, tuple[Fix, ...]] = {
    C.PRINT: (
        code(
            "Guard it with `torch.compiler.is_compiling()`.",
            "print(x.shape)\ny = x + 1",
            "if not torch.compiler.is_compiling():\n    print(x.shape)\ny = x + 1",
            trap=_SILENT.format("printed"),
            when=r"print\(",
        ),
        code(
            "Guard it with `torch.compiler.is_compiling()`.",
            'log.warning("large input")\ny = x + 1',
            'if not torch.compiler.is_compiling():\n    log.warning("large input")\ny = x + 1',
            trap=_SILENT.format("logged"),
            unless=r"print\(",
        ),
        code(
            "Print from inside the graph.",
            'print("sum", x.sum())\ny = x + 1',
            'torch._higher_order_ops.print("sum {}", x.sum())\ny = x + 1',
            trap="It takes a format string and tensors or numbers.",
            when=r"print\(",
        ),
    ),
    C.WARNING: (
        code(
            "Guard it with `torch.compiler.is_compiling()`.",
            'warnings.warn("large input")\ny = x + 1',
            'if not torch.compiler.is_compiling():\n    warnings.warn("large input")\ny = x + 1',
            trap="Nobody is warned once the function is compiled.",
        ),
    ),
    C.TEXT: (
        code(
            "Make the text outside the compiled function, or of `.shape` and `.dtype` only.",
            'name = f"{x.sum():.2f}"\ny = x + len(name) * 0',
            'name = f"{tuple(x.shape)}"\ny = x + len(name) * 0',
        ),
    ),
    C.CLOCK: (
        code("Read the clock outside the compiled function."),
        code(
            "Guard it with `torch.compiler.is_compiling()`.",
            "start = time.perf_counter()\ny = x + 1",
            "if not torch.compiler.is_compiling():\n    start = time.perf_counter()\ny = x + 1",
            trap="Nothing is timed once the function is compiled.",
        ),
    ),
    C.RANDOM: (
        code(
            "Draw with torch and choose with `torch.where`.",
            "if random.random() < p:\n    y = x + 1\nelse:\n    y = x",
            "y = torch.where(torch.rand(()) < p, x + 1, x)",
            trap="The numbers come from torch's generator, another stream; both sides are "
            "computed.",
            when=r"\b(if|while)\b|[<>]|\A\s*\Z",
        ),
        code(
            "Draw with `random.uniform(0.0, 1.0)`: Dynamo traces it.",
            "y = x * random.random()",
            "y = x * random.uniform(0.0, 1.0)",
            trap="A branch on the number breaks all the same.",
            when=r"random\.random\(|\A\s*\Z",
        ),
        code(
            "Draw with torch.",
            "y = x * np.random.rand()",
            "y = x * torch.rand(())",
            trap="The numbers come from torch's generator, another stream.",
            when=r"\b(np|numpy)\.random",
        ),
        code("Draw outside the compiled function and pass the number in."),
    ),
    C.RNG_STATE: (
        code(
            "Draw from torch's default generator.",
            "generator = torch.Generator()\n\n\n"
            "def forward(x):\n"
            "    return x + torch.rand(4, generator=generator)",
            "def forward(x):\n    return x + torch.rand(4)",
            trap="The numbers come from another stream.",
            when=r"generator\s*=",
        ),
        code(
            "Draw what is the same at each call once, at the top of the file or in `__init__`.",
            "def forward(x):\n    torch.manual_seed(3)\n    return x + torch.rand(4)",
            "torch.manual_seed(3)\nNOISE = torch.rand(4)\n\n\n"
            "def forward(x):\n    return x + NOISE",
            trap="What is drawn after it comes from elsewhere in the stream.",
            when=r"seed\(|\A\s*\Z",
        ),
        code("Set and read generator states outside the compiled function."),
    ),
    C.UNIQUE_ID: (
        code(
            "Guard it with `torch.compiler.is_compiling()`.",
            "name = uuid.uuid4().hex\ny = x + 1",
            "if not torch.compiler.is_compiling():\n    name = uuid.uuid4().hex\ny = x + 1",
            trap="There is no id once the function is compiled.",
        ),
        code(_OUTSIDE),
    ),
    C.SYSTEM: (
        code(
            _ONCE,
            "def forward(x):\n    return x * os.cpu_count()",
            "COUNT = os.cpu_count()\n\n\ndef forward(x):\n    return x * COUNT",
            trap=_NOT_AGAIN,
        ),
        code(_OUTSIDE),
    ),
    C.THREAD: (
        code(
            "Take the lock around the call of the compiled function.",
            "lock = threading.Lock()\n\n\ndef forward(x):\n    with lock:\n        return x + 1",
            "def forward(x):\n    return x + 1\n\n\n"
            "lock = threading.Lock()\n\n\n"
            "def locked(x):\n    with lock:\n        return forward(x)",
            when=r"\bwith\b|acquire|release|\A\s*\Z",
        ),
        code("Take locks and start threads outside the compiled function."),
    ),
    C.IMPORT: (
        code(
            "Import at the top of the file.",
            'def forward(x):\n    return x * importlib.import_module("math").pi',
            "import math\n\n\ndef forward(x):\n    return x * math.pi",
        ),
    ),
    C.DEVICE: (code("Choose devices and streams outside the compiled function."),),
    C.COLLECTIVE: (
        code(
            "Use the functional collective, which is traced into the graph.",
            "z = x.clone()\ndist.broadcast(z, src=0)\ny = z + 1",
            "from torch.distributed import _functional_collectives as funcol\n"
            "z = funcol.broadcast(x, 0, dist.group.WORLD)\n"
            "y = z + 1",
            trap="It is out of place: it returns the result and leaves its input alone.",
            when=r"broadcast|async_op|\A\s*\Z",
        ),
        code("Move barriers and object collectives out of the compiled function."),
    ),
    C.VARIABLE: (
        code(
            "Drop the wrapper.",
            "y = x * Variable(torch.ones(4), requires_grad=False)",
            "y = x * torch.ones(4)",
        ),
    ),
    C.LEGACY_ARGUMENT: (
        code(
            "Say `reduction=` instead.",
            "y = nn.MSELoss(size_average=False)(x, z)",
            'y = nn.MSELoss(reduction="sum")(x, z)',
        ),
    ),
    C.PACKED: (
        code(
            "Pad, and mask what lies behind the end of a sequence.",
            "lengths = torch.tensor([4, 2, 1])\n"
            "packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)\n"
            "y, _ = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)",
            "lengths = torch.tensor([4, 2, 1])\ny = x * (torch.arange(4) < lengths[:, None])",
            trap="An RNN also reads the padding: take its state from where each sequence ends.",
        ),
        code("Pack and unpack outside the compiled function."),
    ),
    C.RNN: (code("Leave the RNN outside the compiled function: its own kernel is fused already."),),
    C.C_EXTENSION: (_CUSTOM_OP, code(_OUTSIDE)),
    C.SKIPPED: (_CUSTOM_OP, code(_OUTSIDE)),
    C.DISABLED: (
        code(
            "Take `torch.compiler.disable` away.",
            "@torch.compiler.disable\ndef scale(x):\n    return x * 2\n\n\n"
            "def forward(x):\n    return scale(x) + 1",
            "def scale(x):\n    return x * 2\n\n\ndef forward(x):\n    return scale(x) + 1",
        ),
        _CUSTOM_OP,
    ),
    C.EXPLICIT: (
        code(
            "Take the call away.",
            "torch._dynamo.graph_break()\ny = x + 1",
            "y = x + 1",
        ),
    ),
    C.TORCHSCRIPT: (
        code(
            "Use the module from before `torch.jit.script` or `torch.jit.trace`.",
            "module = torch.jit.script(nn.Softplus())\n\n\n"
            "def forward(x):\n    return module(x) + 1",
            "module = nn.Softplus()\n\n\ndef forward(x):\n    return module(x) + 1",
        ),
    ),
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
    C.HOOK: (code("Register hooks outside the compiled function, or compute on the gradient."),),
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
    C.EXCEPTION: (code("Check before the compiled function is called, and raise there."),),
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
            when=r"data_ptr\(",
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
        code(_OUTSIDE),
    ),
    C.HIGHER_ORDER: (
        code(
            "Return a clone where a branch returns its input.",
            "y = torch.cond(x.sum() > 0, lambda x: x, lambda x: x - 1, (x,))",
            "y = torch.cond(x.sum() > 0, lambda x: x.clone(), lambda x: x - 1, (x,))",
            when=r"cond\(",
        ),
        code("Give the branches the same inputs, outputs, shapes and dtypes, and no side effects."),
    ),
    C.FAKE: (code("Register a fake kernel for the op with `torch.library.register_fake`."),),
    C.OPERATOR_ERROR: (code("Run the model in eager: the operator most likely fails there too."),),
    C.BACKEND: (code('Compile with `backend="eager"`: if that works, the backend is at fault.'),),
    C.NON_TENSOR: (
        code(
            _ONCE,
            "def forward(x):\n    return x * torch.get_num_threads()",
            "THREADS = torch.get_num_threads()\n\n\ndef forward(x):\n    return x * THREADS",
            trap=_NOT_AGAIN,
            when=r"\bget_\w+\(\)|\A\s*\Z",
        ),
        code(_OUTSIDE),
    ),
    C.CALL: (code(_OUTSIDE),),
    C.SIDE_EFFECT: (code("Return the new value, and store it outside the compiled function."),),
}
