"""Every entry of PyTorch's graph break registry gets a category a person would expect."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from fullgraph.compiler.categories import Category as C
from fullgraph.diagnose.taxonomy.keywords import category_of_gb_type


def registry() -> list[str]:
    """The `gb_type`s that the installed torch knows, present and past."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.submodule_search_locations is not None
    file = Path(spec.submodule_search_locations[0], "_dynamo", "graph_break_registry.json")
    entries = json.loads(file.read_text())
    return sorted({entry["Gb_type"] for history in entries.values() for entry in history})


def test_fewer_than_one_entry_in_a_hundred_is_other() -> None:
    types = registry()
    other = [t for t in types if category_of_gb_type(t) is C.OTHER]
    assert len(types) > 300
    assert len(other) / len(types) < 0.01, other


EXPECTED = {
    "Data-dependent branching": C.BRANCH,
    "Unsupported Tensor.item() call with capture_scalar_outputs=False": C.SCALAR,
    "Dynamic shape operator": C.DYNAMIC_SHAPE,
    "Data-dependent assertion failed (cannot compile partial graph)": C.ASSERT,
    "logging.Logger method not supported for non-export cases": C.PRINT,
    "attempted to trace numpy function unsupported by PyTorch": C.NUMPY,
    "async_op=True for distributed collectives": C.COLLECTIVE,
    "Attempted to call function marked as skipped": C.SKIPPED,
    "Skip calling `torch.compiler.disable()`d function": C.DISABLED,
    "graph break in loop": C.LOOP,
    "Dynamo recompile limit exceeded": C.RECOMPILE_LIMIT,
    "Observed exception": C.EXCEPTION,
    "Attempt to trace generator": C.GENERATOR,
    "Unsupported context manager": C.CONTEXT_MANAGER,
    "using `torch.autograd.grad` with `torch._dynamo.config.trace_autograd_ops=False`": C.AUTOGRAD,
    "Module-level backwards hooks require compiled autograd.": C.HOOK,
    "torch.cond: differing branch outputs": C.HIGHER_ORDER,
    "HOP: Unsafe side effect": C.HIGHER_ORDER,
    "Unsupported Tensor.resize_() call": C.TENSOR_MUTATION,
    "Attribute mutation on an untracked user-defined object": C.SIDE_EFFECT,
    "Reconstruction failure": C.SIDE_EFFECT,
    "Attempted to use `torch.nn.Parameter()` constructor with Dynamo": C.PARAMETER,
    "Unsupported nn.Module attribute type": C.MODULE,
    "Tensor subclass overridden method call": C.SUBCLASS,
    "Attempted to wrap sparse Tensor": C.SPARSE,
    "An opaque object was created in the middle of the program.": C.OPAQUE,
    "Attempted to copy.deepcopy a tensor": C.COPY,
    "Frozen dataclass with missing field": C.DATACLASS,
    "Invalid call to __build_class__": C.CLASS,
    "Operator does not support running with fake tensors": C.FAKE,
    "Backend compiler exception": C.BACKEND,
    "Failed to trace builtin operator": C.BUILTIN,
    "Dynamo cannot determine the hash of an object": C.OBJECT,
    "Call to a time function": C.CLOCK,
}
"""One of each row of the table of categories, and those whose words could mislead."""


@pytest.mark.parametrize("gb_type", EXPECTED)
def test_a_type_is_known_by_its_words(gb_type: str) -> None:
    assert category_of_gb_type(gb_type) is EXPECTED[gb_type]


@pytest.mark.parametrize(
    "gb_type, category",
    [
        ("Tensor.item() under a new flag", C.SCALAR),
        ("Data dependent operators of another kind", C.SCALAR),
        ("torch.switch: branches of another kind", C.HIGHER_ORDER),
        ("Unknown numpy scalar", C.NUMPY),
        ("Recompile limit reached", C.RECOMPILE_LIMIT),
        ("a thing nobody has named", C.OTHER),
    ],
)
def test_a_type_of_a_later_version_is_known_by_its_words(gb_type: str, category: C) -> None:
    assert category_of_gb_type(gb_type) is category
