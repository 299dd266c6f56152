"""Every fix that claims a mode was run: its example breaks before and is whole after."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from fullgraph.diagnose.explanation_data import Advice
from fullgraph.diagnose.taxonomy.advice import FIXES
from fullgraph.diagnose.taxonomy.switches import SWITCHES
from tests.diagnose.taxonomy.snippets import (
    assert_same,
    breaks,
    compiled,
    eager,
    setting,
)

pytestmark = pytest.mark.compiles

CODE = {
    f"{category}: {fix.advice.text} [{number}]": fix.advice
    for category, fixes in FIXES.items()
    for number, fix in enumerate(fixes)
    if fix.advice.modes
}
CONFIG = {
    f"{category}: {fix.advice.text}": fix.advice
    for category, fixes in SWITCHES.items()
    for fix in fixes
    if fix.advice.modes
}
OTHER_NUMBERS = {"Draw with torch.", "Draw from torch's default generator."}
"""Fixes that draw from another stream: their values differ, and their trap says so."""
HARD_ERRORS = {"Return a clone where a branch returns its input."}
"""Fixes of what is an error in eager too, so that there is no value to compare with."""


SINCE = {
    "Compile the function that calls the generator.": "2.13",
    "Print from inside the graph.": "2.12",
    "Set `torch._dynamo.config.ignore_logging_functions = {print}`.": "2.12",
    "Set `torch._dynamo.config.trace_autograd_ops = True`.": "2.12",
}
"""The first torch that has what the advice needs."""


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


@pytest.fixture(autouse=True)
def reported_by_this_torch(advice: Advice) -> None:
    """Skip what the installed torch does not have."""
    if version(torch.__version__) < version(SINCE.get(advice.text, "2.10")):
        pytest.skip(f"not for torch {torch.__version__}")


@pytest.fixture(autouse=True, scope="module")
def world():
    """One process that talks to itself, for the collectives."""
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()
    torch._dynamo.reset()


@pytest.mark.parametrize("advice", CODE.values(), ids=CODE)
def test_the_example_breaks_before_the_fix(advice: Advice) -> None:
    assert breaks(advice.before, "default")


@pytest.mark.parametrize("advice", CODE.values(), ids=CODE)
def test_the_fixed_example_has_no_break_in_the_modes_it_claims(advice: Advice) -> None:
    for mode in advice.modes:
        compiled(advice.after, mode)
        assert not breaks(advice.after, mode), mode


@pytest.mark.parametrize("advice", CODE.values(), ids=CODE)
def test_the_fixed_example_gives_the_same_values(advice: Advice) -> None:
    if advice.text in OTHER_NUMBERS:
        assert "another stream" in advice.trap
        return
    if advice.text in HARD_ERRORS:
        with pytest.raises(Exception, match="aliasing"):
            eager(advice.before)
        return
    for mode in advice.modes:
        assert_same(compiled(advice.after, mode), eager(advice.before))


@pytest.mark.parametrize("advice", CONFIG.values(), ids=CONFIG)
def test_the_setting_makes_the_example_whole(advice: Advice) -> None:
    assert breaks(advice.before, "default")
    with setting(advice.text):
        for mode in advice.modes:
            assert not breaks(advice.before, mode), mode
            assert_same(compiled(advice.before, mode), eager(advice.before))
