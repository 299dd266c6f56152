"""Fixes in the user's code for what lies outside a graph: side effects, functions not entered."""

from __future__ import annotations

from fullgraph.compiler.categories import Category as C
from fullgraph.diagnose.taxonomy.fix import NOT_AGAIN, ONCE, OUTSIDE, Fix, code

_SILENT = "Nothing is {} once the function is compiled."
_WRITES = r"\.(write|writelines|writerow|flush)\("
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
    C.CLOCK: (code("Read the clock outside the compiled function."),),
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
            "Draw with torch.",
            "y = x * np.random.rand()",
            "y = x * torch.rand(())",
            trap="The numbers come from torch's generator, another stream.",
            when=r"\b(np|numpy)\.random|(?<!\brandom)\.(random|rand|randn|(standard_)?normal|uniform)\(",
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
    C.SYSTEM: (
        code(
            ONCE,
            "def forward(x):\n    return x * os.cpu_count()",
            "COUNT = os.cpu_count()\n\n\ndef forward(x):\n    return x * COUNT",
            trap=NOT_AGAIN,
            unless=_WRITES,
        ),
        code(
            "Guard it with `torch.compiler.is_compiling()`.",
            'out = io.StringIO()\n\n\ndef forward(x):\n    out.write("a")\n    return x + 1',
            "out = io.StringIO()\n\n\n"
            "def forward(x):\n"
            "    if not torch.compiler.is_compiling():\n"
            '        out.write("a")\n'
            "    return x + 1",
            trap=_SILENT.format("written"),
            when=_WRITES,
        ),
        code(OUTSIDE),
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
    C.C_EXTENSION: (_CUSTOM_OP, code(OUTSIDE)),
    C.SKIPPED: (_CUSTOM_OP, code(OUTSIDE)),
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
}
