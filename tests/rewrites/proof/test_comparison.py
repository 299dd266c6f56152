"""What counts as the same behaviour."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
import torch

from fullgraph.rewrites.proof.behaviour import LARGE, Behaviour, encode
from fullgraph.rewrites.proof.comparison import OTHER_MESSAGE, compare_behaviours, difference
from fullgraph.rewrites.proof.proof import ProofInput

DERIVED = ProofInput(3, backward=False)
REFUSED = Behaviour((), {}, {}, "RuntimeError: split_sizes must sum to 9", "", (), "", crashed=True)
ASSERTED = "RuntimeError: Runtime assertion failed for expression Eq(u0 + u1, 9) on node 'eq'"


def check_exceptions(
    old: Behaviour, new: Behaviour, exempt: Collection[str] = ()
) -> tuple[bool, tuple[str, ...]]:
    """Compare the exceptions of two behaviours on a derived input."""
    checks = compare_behaviours({DERIVED: old}, {DERIVED: new}, exempt=exempt)
    found = next(one for one in checks if one.name == "exceptions")
    return found.ok, found.assumes


def test_a_graph_may_refuse_the_sizes_that_an_operator_refuses() -> None:
    assert check_exceptions(REFUSED, replace(REFUSED, raised=ASSERTED)) == (True, (OTHER_MESSAGE,))


def test_an_edit_may_name_what_compiled_code_raises_instead() -> None:
    raised = replace(REFUSED, raised="ValueError: NaN in tensor(nan)", crashed=False)
    asserted = replace(raised, raised="RuntimeError: NaN in x")
    exempt = {"raises RuntimeError: NaN in x"}
    assert check_exceptions(raised, asserted, exempt) == (True, ())
    assert not check_exceptions(raised, asserted, {"raises RuntimeError: NaN"})[0]
    assert not check_exceptions(raised, replace(raised, raised=None), exempt)[0]
    assert not check_exceptions(replace(raised, raised=None), asserted, exempt)[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (replace(REFUSED, crashed=False), ASSERTED),
        (REFUSED, "RuntimeError: something else"),
        (replace(REFUSED, raised=None, crashed=False), ASSERTED),
    ],
)
def test_other_exceptions_are_other_behaviour(old: Behaviour, new: str) -> None:
    assert not check_exceptions(old, replace(old, raised=new))[0]


def test_which_index_is_out_of_bounds_is_no_difference() -> None:
    fault = "IndexError: index {} is out of bounds for dimension {} with size 0"
    old = replace(REFUSED, raised=fault.format(0, 0))
    new = fault.format(-1, 0) + "\n\nfrom user code:\n  line 3"
    assert check_exceptions(old, replace(old, raised=new)) == (True, ())
    assert not check_exceptions(old, replace(old, raised=fault.format(0, 1)))[0]
    assert not check_exceptions(replace(old, crashed=False), replace(old, raised=new))[0]


def test_a_changed_row_of_a_large_tensor_is_a_difference() -> None:
    table = torch.randn(LARGE // 64, 256)
    row, near = table.clone(), table * (1 + 1e-7)
    row[-3] = torch.randn(256)
    assert "other values" in difference(encode(table), encode(row), "outputs")
    assert not difference(encode(table), encode(near), "outputs")


def test_two_integers_of_a_large_tensor_that_change_places_are_a_difference() -> None:
    table = torch.arange(2 * LARGE)
    swapped = table.clone()
    swapped[[5, 6]] = table[[6, 5]]
    assert not difference(encode(table), encode(table.clone()), "outputs")
    assert "a digest of torch.int64 differs" in difference(
        encode(table), encode(swapped), "outputs"
    )
