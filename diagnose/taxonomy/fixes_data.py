"""Fixes in the user's code for breaks where the data decides, and for NumPy."""

from __future__ import annotations

from fullgraph.compiler.categories import Category as C
from fullgraph.diagnose.taxonomy.fix import Fix, code

_BOTH_SIDES = (
    "Both sides are computed, so they must be pure; the side not chosen can still put a NaN into "
    "the gradient."
)
_ELEMENTWISE = (
    "The function must be elementwise; it is computed for every element, so the masked-out ones "
    "can still put a NaN into the gradient."
)
_ASSERT = "The error becomes a RuntimeError, and on CUDA it comes later."

FIXES: dict[C, tuple[Fix, ...]] = {
    C.BRANCH: (
        code(
            "Choose with `torch.where`.",
            "if x.sum() > 0:\n    y = x + 1\nelse:\n    y = x - 1",
            "y = torch.where(x.sum() > 0, x + 1, x - 1)",
            trap=_BOTH_SIDES,
            unless=r"\A\s*while|raise\b",
        ),
        code(
            "Let `torch.cond` take one side when a side is expensive.",
            "if x.sum() > 0:\n    y = x + 1\nelse:\n    y = x - 1",
            "y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))",
            trap="Sides that differ in dtype or shape, return an input as it is (`.clone()` it), "
            "change something in place or print are hard errors.",
            unless=r"\A\s*while|raise\b",
        ),
        code(
            "Turn the loop into `while_loop`.",
            "while x.sum() < 100:\n    x = x * 2\ny = x",
            "from torch._higher_order_ops import while_loop\n"
            "(y,) = while_loop(lambda x: x.sum() < 100, lambda x: (x * 2,), (x,))",
            trap="The body must return tensors of the shapes and dtypes that it takes.",
            when=r"\A\s*while\b",
        ),
        code(
            "Raise from inside the graph with `torch._assert_async`.",
            'if torch.isnan(x).any():\n    raise ValueError("NaN")\ny = x + 1',
            'torch._assert_async(~torch.isnan(x).any(), "NaN")\ny = x + 1',
            trap=_ASSERT,
            when=r"\braise\b",
        ),
    ),
    C.ASSERT: (
        code(
            "Give the assert a constant message.",
            'assert (x >= 0).all(), f"min {x.min()}"\ny = x + 1',
            'assert (x >= 0).all(), "negative"\ny = x + 1',
            trap=_ASSERT,
            when=r",\s*[rR]?[fF][\"']|\.format\(|%",
        ),
        code(
            "Assert inside the graph with `torch._assert_async`.",
            "assert not torch.isnan(x).any()\ny = x + 1",
            "torch._assert_async(~torch.isnan(x).any())\ny = x + 1",
            trap=_ASSERT,
        ),
    ),
    C.COMPARISON: (
        code(
            "Compare inside the graph and choose with `torch.where`.",
            "if torch.allclose(x, z):\n    y = x + 1\nelse:\n    y = x - 1",
            "y = torch.where(torch.isclose(x, z).all(), x + 1, x - 1)",
            trap=_BOTH_SIDES,
            unless=r"equal\(",
        ),
        code(
            "Compare inside the graph and choose with `torch.where`.",
            "if torch.equal(x, z):\n    y = x + 1\nelse:\n    y = x - 1",
            "y = torch.where((x == z).all(), x + 1, x - 1)",
            trap="`==` broadcasts where `torch.equal` says False for another shape. " + _BOTH_SIDES,
            unless=r"allclose\(",
        ),
        code(
            "Ask `is` if you mean the same tensor.",
            "if torch.equal(x, x):\n    y = x + 1\nelse:\n    y = x - 1",
            "if x is x:\n    y = x + 1\nelse:\n    y = x - 1",
            trap="Another tensor with equal values is then a different one.",
            unless=r"allclose\(",
        ),
    ),
    C.GUARD: (
        code(
            "Choose with `torch.where` on the tensor itself.",
            "total = x.sum().item()\nif total > 0:\n    y = x + 1\nelse:\n    y = x - 1",
            "y = torch.where(x.sum() > 0, x + 1, x - 1)",
            trap=_BOTH_SIDES,
        ),
        code("Tell the compiler what holds for the number with `torch._check(n > 0)`."),
    ),
    C.SCALAR: (
        code(
            "Use the tensor's own method instead of `math`.",
            "y = x * math.sqrt(x.sum())",
            "y = x * x.sum().sqrt()",
            when=r"\bmath\.",
        ),
        code(
            "Take the sizes from `.shape`.",
            "h, w = torch.tensor(x.size()).tolist()\ny = x.reshape(w, h)",
            "h, w = x.shape\ny = x.reshape(w, h)",
            when=r"(size\(|shape).*tolist\(",
        ),
        code(
            "Write with `index_copy_` at positions that are a tensor.",
            "i = int(index)\ny = z.clone()\ny[:, i : i + 2] = x[:, :2]",
            "i = index + torch.arange(2)\ny = z.clone()\ny.index_copy_(1, i, x[:, :2])",
            when=r"\[[^\]]*:[^\]]*\]\s*=[^=]|^:|:\s*\Z",
        ),
        code(
            "Index with a tensor of one dimension.",
            "y = x[x.argmax() // 4]",
            "y = x[(x.argmax() // 4)[None]][0]",
            when=r"\A[^\n]*\w\[[^:\]]+\]\s*\Z",
            unless=r"\b(int|float)\(|item\(|tolist\(",
        ),
        code(
            "Loop over all rows and mask those that do not count.",
            "y = x[0] * 0\nfor i in range(index):\n    y = y + x[i]",
            "count = torch.arange(len(x)) < index\ny = torch.where(count[:, None], x, 0).sum(0)",
            trap=_ELEMENTWISE,
            when=r"\brange\(",
        ),
        code(
            "In arithmetic, keep the 0-d tensor.",
            "y = x / max(1, mask.sum().item())",
            "y = x / mask.sum().clamp(min=1)",
            when=r"\b(min|max)\(|clamp|clip",
        ),
        code(
            "In arithmetic, keep the 0-d tensor.",
            "scale = x.abs().max().item()\ny = x / scale",
            "scale = x.abs().max()\ny = x / scale",
            trap="The dtype follows the tensor: a Python float would not have widened it.",
            when=r"\A(?!.*(\b(min|max|range)\(|\bmath\.)).*(\.item\(\)|\b(int|float|bool)\()",
        ),
        code(
            "Let the caller pass the size: a size taken from data stays dynamic.",
            when=r"\b(zeros|ones|empty|full|arange|eye|rand|randn|new_\w+|reshape|view|expand)\(",
        ),
        code(
            "In a test, choose with `torch.where`.",
            "if x.sum().item() > 0:\n    y = x + 1\nelse:\n    y = x - 1",
            "y = torch.where(x.sum() > 0, x + 1, x - 1)",
            trap=_BOTH_SIDES,
            when=r"\A\s*(if|elif|while)\b",
        ),
        code(
            "Return the tensor, and call `.item()` outside the compiled function.",
            "y = x.sum().item()",
            "y = x.sum()",
            when=r"\A\s*return\s+[\w.\[\]()]*\.(item|tolist)\(\)\s*\Z"
            r"|\A\s*return\s+(float|int)\([^-+*/]*\)\s*\Z|\A\s*self\.[^=]*=[^=]",
        ),
    ),
    C.MASK: (
        code(
            "Reduce with zeros in place of the elements left out.",
            "y = x[mask].sum()",
            "y = torch.where(mask, x, 0).sum()",
            trap=_ELEMENTWISE,
        ),
        code(
            "For a mean, divide by the number of elements that count.",
            "y = x[mask].mean()",
            "y = torch.where(mask, x, 0).sum() / mask.sum()",
            trap=_ELEMENTWISE,
        ),
    ),
    C.MASKED_ASSIGNMENT: (
        code(
            "Write the whole tensor with `torch.where`.",
            "y = x.clone()\ny[mask] = torch.pow(y[mask], 0.1) * 2",
            "y = torch.where(mask, torch.pow(x, 0.1) * 2, x)",
            trap="It makes a new tensor: views of the old one do not see the change. "
            + _ELEMENTWISE,
            unless=r"[-+*/|&^%@]=",
        ),
        code(
            "Write the whole tensor with `torch.where`.",
            "y = x.clone()\ny[mask] += 1",
            "y = torch.where(mask, x + 1, x)",
            trap="It makes a new tensor: views of the old one do not see the change.",
            when=r"[-+*/|&^%@]=",
        ),
    ),
    C.NONZERO: (
        code(
            "Work on whole rows with `torch.where` instead of on the indices.",
            "rows = []\n"
            "for i in range(len(x)):\n"
            "    rows.append(x[i][mask[i].nonzero()].sum())\n"
            "y = torch.stack(rows)",
            "y = torch.where(mask, x, 0).sum(1)",
            trap=_ELEMENTWISE,
        ),
        code(
            "Give the number of indices, if you know it, with `torch.nonzero_static`.",
            "y = few.nonzero()",
            "y = torch.nonzero_static(few, size=2)",
            trap="Indices beyond `size` are dropped; missing ones are -1.",
        ),
    ),
    C.BINCOUNT: (
        code(
            "Count with `scatter_add` into a tensor of known length.",
            "y = torch.bincount(labels, minlength=5)",
            "y = torch.zeros(5, dtype=torch.long).scatter_add(0, labels, torch.ones_like(labels))",
            trap="A label beyond the known length is an error.",
        ),
    ),
    C.DYNAMIC_SHAPE: (
        code(
            "Give `one_hot` the number of classes.",
            "y = F.one_hot(labels)",
            "y = F.one_hot(labels, 5)",
            trap="A label beyond the number is an error.",
            when=r"one_hot",
        ),
        code(
            "Give `repeat_interleave` its `output_size`.",
            "y = torch.repeat_interleave(values, repeats)",
            "y = torch.repeat_interleave(values, repeats, output_size=6)",
            trap="Another size than the sum of the repeats is an error.",
            when=r"repeat_interleave",
        ),
        code("Call it outside the compiled function and pass the result in."),
    ),
    C.NUMPY_SCALAR: (
        code(
            "Use `math.prod` on shapes.",
            "y = x.reshape(int(np.prod(x.shape[:-1])), -1)",
            "y = x.reshape(math.prod(x.shape[:-1]), -1)",
            when=r"prod",
        ),
        code(
            "Use `math` on Python numbers.",
            "y = x * np.ceil(x.shape[0] / 2).astype(int).item()",
            "y = x * math.ceil(x.shape[0] / 2)",
            when=r"ceil|floor|log|sqrt|round",
        ),
        code("Use Python and `math` where no tensor takes part, else torch's functions."),
    ),
    C.NUMPY_LOOP: (
        code(
            "Keep the numbers in a list instead of an array.",
            "sizes = np.array([2, 3])\ny = x\nfor _ in range(sizes[0]):\n    y = y + 1",
            "sizes = [2, 3]\ny = x\nfor _ in range(sizes[0]):\n    y = y + 1",
            unless=r"sorted\(|\.numpy\(",
        ),
        code(
            "Sort with `np.sort` or `torch.sort`.",
            "y = x + sorted(np.array([3, 2]))[0]",
            "y = x + np.sort(np.array([3, 2]))[0]",
            when=r"sorted\(",
        ),
    ),
    C.NUMPY: (
        code(
            "Make the grid with `torch.meshgrid`.",
            "y = x + torch.from_numpy(np.mgrid[0:3, 0:4][0])",
            'y = x + torch.meshgrid(torch.arange(3), torch.arange(4), indexing="ij")[0]',
            when=r"mgrid|ogrid",
        ),
        code("Use the torch function of the same meaning."),
    ),
}
