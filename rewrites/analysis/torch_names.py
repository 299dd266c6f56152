"""Properties of torch functions, methods and layers, by the last part of the name."""

from __future__ import annotations

import json
from pathlib import Path


def word_set(text: str) -> frozenset[str]:
    """Return the whitespace-separated words of a text."""
    return frozenset(text.split())


_TABLE = {
    name: word_set(properties)
    for name, properties in json.loads(
        Path(__file__).with_name("operators.json").read_text(encoding="utf-8")
    )["operators"].items()
}
"""Properties by name. `docs/operators.py` makes the file from torch's schemas and tags."""


def names_with(word: str) -> frozenset[str]:
    """Return the names of the torch functions and layers that have the property `word`.

    The properties, such as "random", are those in `operators.json`.
    """
    return frozenset(name for name, properties in _TABLE.items() if word in properties)


ELEMENTWISE = names_with("elementwise")
"""Not random, and each result element depends only on operand elements at the same index."""
VIEWS = names_with("view")
"""The result may share memory with an operand."""
RANDOM = names_with("random")
IN_PLACE = names_with("in-place")
EFFECTS = names_with("effect")
RAISING = names_with("raising")
"""Raise for some elements, such as a singular matrix."""
INDEXING = names_with("indexing")
"""Raise for an index out of range."""
DYNAMIC_SHAPE = names_with("dynamic-shape")
"""How many elements the result has depends on data."""
STATEFUL = names_with("stateful")
"""Layers that may update running statistics."""
LAYERS_WITHOUT_PARAMETERS = names_with("layer") - names_with("parameters")
MAKERS = word_set(
    """
    arange as_tensor bartlett_window blackman_window empty empty_permuted empty_strided eye full
    hamming_window hann_window kaiser_window linspace logspace normal ones rand randint randn
    randperm scalar_tensor sparse_coo_tensor tensor tril_indices triu_indices zeros
    """
)
"""Make a tensor on the default device, or on `device=`."""
PURE_CALLS = word_set(
    """
    abs all any bool callable dict enumerate float getattr hasattr id int isinstance len
    list max min range repr reversed round set slice sorted str sum tuple type zip
    """
)
"""Builtins of Python without side effects."""
OWNERS = word_set(
    """
    math operator torch torch.Tensor torch._C._nn torch.fft torch.functional torch.linalg
    torch.nn.functional torch.nn.parameter.Parameter torch.special
    """
)
"""Modules and classes whose functions `operators.json` describes."""
