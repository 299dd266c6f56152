"""The prover lets right rewrites pass, and minds wrong ones."""

import pytest
import torch

from fullgraph.compiler.events import Position
from fullgraph.compiler.isolation import Deadline
from fullgraph.compiler.program import parse_program
from fullgraph.rewrites.proof import (
    NO_BACKWARD,
    ProofState,
    RunCache,
    Seen,
    check_compiled,
    prove,
)
from fullgraph.rewrites.proof.wider import NOT_EMPTY, REFUSED, SAME_DTYPES
from fullgraph.rewrites.proof.wider_checks import NOTHING_LEFT
from tests.text import block

from ..harness import imported
from .mutants import GRANTED, HEAD, RIGHT, WRONG

pytestmark = pytest.mark.compiles

X = torch.tensor([0.9, -0.2, 0.7, 0.1])


TWICE = (X, (X.clone(),))


def proof(before, after, calls=TWICE):
    module = imported(f"{HEAD}\n\ndef f(x):\n{before}\n")
    subject = parse_program(module.f, calls[0], calls=calls[1:])
    return prove(subject, {module.__file__: f"{HEAD}\n\ndef f(x):\n{after}\n"})


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_rewrite_is_caught(wrong):
    found = proof(*WRONG[wrong])
    assert found.state is ProofState.FAILED, found
    assert found.reason


@pytest.mark.parametrize("right", RIGHT)
def test_a_right_rewrite_is_proved(right):
    found = proof(*RIGHT[right])
    assert found.state is ProofState.PROVED, found
    assert found.inputs > 3


@pytest.mark.parametrize("granted", GRANTED)
def test_what_must_be_granted_is_told(granted):
    before, after, assumes = GRANTED[granted]
    found = proof(before, after)
    assert found.state is ProofState.PROVED, found
    assert found.assumes == assumes
    assert found.whole == (not assumes)


def test_a_backward_that_draws_again_is_granted_where_nothing_learns():
    before = "    if x.sum() > 0:\n        return x * 2 + torch.rand(4)\n    return x * 3"
    after = "    return torch.cond(x.sum() > 0, lambda: x * 2 + torch.rand(4), lambda: x * 3)"
    found = proof(before, after, (X.clone(),))
    assert found.state is ProofState.PROVED, found
    assert found.assumes == (NO_BACKWARD, NOT_EMPTY, SAME_DTYPES)
    found = proof(before, after, (X.clone().requires_grad_(),))
    assert found.state is ProofState.FAILED
    assert "random numbers" in found.reason


KINDS = {
    "a number": (
        "def f(x, n=2):\n    return x * n",
        "def f(x, n=2):\n    return x * n if isinstance(n, (int, float)) else x",
        {"`n` is a Python number of at most 64 bits in each call", REFUSED},
    ),
    "a number that a type names": (
        "def f(x, n: int = 2):\n    return x * n",
        "def f(x, n: int = 2):\n    return x * n if isinstance(n, (int, float)) else x",
        set(),
    ),
    "rounds": (
        "def f(x, n=2):\n    for i in range(n):\n        y = x + i\n    return y if n else x",
        "def f(x, n=2):\n    for i in range(n):\n        y = x + i\n    return y",
        {"`n` is never 0"},
    ),
    "a flag": (
        "def f(x, old=False):\n    return -x if old else x",
        "def f(x, old=False):\n    return x.clone() if old else x",
        {"`old` is False in each call"},
    ),
    "a dtype": (
        "def f(x):\n    return x * 2",
        "def f(x):\n    return x.float() * 2",
        {"the inputs keep their dtypes"},
    ),
    "integers that become floats": (
        "def f(x):\n    return x * 0 if x.sum() == 0 else x / x.sum()",
        "def f(x):\n    return x * 0.0 if x.sum() == 0 else x / x.sum()",
        {"the inputs keep their dtypes"},
    ),
    "integers that are refused": (
        "def f(x):\n    return x.mean()",
        "def f(x):\n    return x.sum() / x.numel()",
        {REFUSED},
    ),
    "the dtype of one input": (
        "def f(x, y):\n    return x * y",
        "def f(x, y):\n    return x * y.to(x.dtype)",
        {"the inputs keep their dtypes"},
    ),
    "several numbers for one": (
        "def f(x, t):\n    return x * 2 if t > 0 else x * 3",
        "def f(x, t):\n    return torch.where(t > 0, x * 2, x * 3)",
        {"the inputs keep their numbers of dimensions", REFUSED},
    ),
    "a table for rows": (
        "def f(x):\n    return x.sum(-1).sum(-1)",
        "def f(x):\n    return x.sum()",
        {"the inputs keep their numbers of dimensions"},
    ),
    "a mask of rows": (
        "def f(x, mask):\n    return x[mask].sum()",
        "def f(x, mask):\n    return torch.where(mask, x, 0).sum()",
        {
            "the inputs keep their numbers of dimensions",
            "the inputs keep their dtypes",
            "`mask` is never None",
        },
    ),
    "rows that the elements of a row number": (
        "def f(x, row):\n    return x.sum(), row[row.argsort()]",
        "def f(x, row):\n    return x.sum(), row.sort().values",
        {"the inputs keep their numbers of dimensions"},
    ),
    "nothing": (
        "def f(x, y):\n    return x if y is None else x + y",
        "def f(x, y):\n    return x + y",
        {"`y` is never None"},
    ),
    "what is counted": (
        "def f(x, mask):\n    return x.sum() / mask.count_nonzero()",
        "def f(x, mask):\n    return x.sum() / mask.sum()",
        {"the inputs keep their dtypes"},
    ),
    "not a number where it is empty": (
        "def f(x):\n    return x.sum() / len(x)",
        "def f(x):\n    return x.sum() / max(len(x), 1)",
        {NOT_EMPTY},
    ),
    "memory": (
        "def f(x):\n    return x * x.stride(0)",
        "def f(x):\n    return x * x.shape[1:].numel()",
        {"the inputs keep their layout"},
    ),
    "every second element": (
        "def f(x):\n    return x * x.stride(-1)",
        "def f(x):\n    return x * 1",
        {"the inputs keep their layout"},
    ),
    "an expanded input": (
        "def f(x):\n    x.add_(1)\n    return x * 2",
        "def f(x):\n    x.copy_(x + 1) if x.stride(0) else None\n    return x * 2",
        {REFUSED},
    ),
    "a dict": (
        "def f(x, options):\n    return x * options['scale'], type(options)(options)",
        "def f(x, options):\n    return x * options['scale'], dict(options)",
        {"`options` is a plain dict in each call"},
    ),
    "a list": (
        "def f(x, scales):\n    return x * scales[0], scales[:]",
        "def f(x, scales):\n    return x * scales[0], list(scales)",
        {"`scales` is a plain list in each call"},
    ),
    "negative numbers": (
        "def f(x, counts):\n    return x * sum(abs(count) for count in counts)",
        "def f(x, counts):\n    return x * sum(counts)",
        {"`counts` holds no negative number"},
    ),
    "a column of one": (
        "def f(z):\n    return z * z.shape[1] if z.shape[1] > 1 else z + 1",
        "def f(z):\n    return z * z.shape[1]",
        {"the inputs keep their sizes"},
    ),
    "a text": (
        "def f(x, how='sum'):\n    return {'sum': x * 2, 'mean': x * 3}[how]",
        "def f(x, how='sum'):\n    return x * 2 if how == 'sum' else x * 3",
        {REFUSED},
    ),
    "two inputs": (
        "def f(x, y):\n    y = y.clone()\n    x.add_(1)\n    return x * y",
        "def f(x, y):\n    x.add_(1)\n    return x * y",
        {"no two arguments share memory"},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_other_kinds_of_inputs_would_show_is_assumed_away(kind):
    before, after, assumes = KINDS[kind]
    module = imported(f"{HEAD}\n\n{before}\n")
    x = torch.rand(3, 4)
    others = {"y": x.clone(), "t": torch.tensor(2), "options": {"scale": 2.0}, "scales": [2.0]}
    others |= {"mask": x > 0.5, "row": torch.tensor([3.0, 1.0, 2.0]), "counts": [1, 2]}
    x = torch.rand(3, 4, 2) if "(z)" in before else x
    subject = parse_program(module.f, (x, *(others[n] for n in others if f", {n})" in before)))
    found = prove(subject, {module.__file__: f"{HEAD}\n\n{after}\n"})
    assert found.state is ProofState.PROVED, found
    assert {*found.assumes} == assumes


def test_an_exception_of_the_new_code_is_told():
    found = proof("    return x + 1", "    return x + y")
    assert found.state is ProofState.FAILED
    assert "it raises NameError: name 'y' is not defined" in found.reason


def test_the_end_of_the_program_is_an_outcome_as_an_exception_is():
    before = "    if x.sum() > 9:\n        raise SystemExit(2)\n    return x * 2"
    calls = (X * 9, (X.clone(),))
    found = proof(before, before.replace("x * 2", "x + x"), calls)
    assert found.state is ProofState.PROVED, found
    found = proof(before, before.replace("(2)", "(3)"), calls)
    assert found.state is ProofState.FAILED and "SystemExit: 3" in found.reason


SHAPED = f"""{HEAD}

def f(x):
    if x.shape[0] > 3:
        return x * 2
    return -x
"""
WHERE = "    return torch.where(torch.tensor(x.shape[0] > 3), x * 2, {other})\n"


def shaped(new):
    """The proof of new code for the branch on a shape, which no input changes."""
    module = imported(SHAPED)
    before = SHAPED[SHAPED.index("    if ") :]
    line = SHAPED[: SHAPED.index("    if ")].count("\n") + 1
    test = Position(module.__file__, line, 7, line, 21)
    new = {module.__file__: SHAPED.replace(before, new)}
    return prove(parse_program(module.f, X), new, tests=[test])


def test_a_side_that_no_input_takes_is_forced_in_both_programs():
    found = shaped(WHERE.format(other="0 - x"))
    assert found.state is ProofState.PROVED and found.branches[0].false is Seen.FORCED, found


def test_a_forced_side_that_differs_is_told():
    found = shaped(WHERE.format(other="x"))
    assert found.state is ProofState.ONE_SIDE and found.branches[0].false is Seen.DIFFERS, found
    assert "true on every input tried; forced to be otherwise, outputs: other" in found.reason


def test_a_side_that_the_new_code_does_not_ask_for_is_unseen():
    found = shaped("    return x + x\n")
    assert found.state is ProofState.ONE_SIDE and found.branches[0].false is Seen.UNSEEN, found
    assert "true on every input" in found.reason


def test_flags_in_buffers_are_changed_to_reach_a_branch():
    source = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("enabled", torch.tensor(NUMBER))
        self.register_buffer("least", torch.tensor(float("inf")))

    def forward(self, x):
        if self.enabled:
            self.least.copy_(torch.minimum(self.least, x.min()))
        return x
"""
    for number in ("True", "1", "0"):
        text = source.replace("NUMBER", number)
        module = imported(text)
        subject = parse_program(module.Model(), (X,))
        test = Position(module.__file__, 11, 11, 11, 23, "Model.forward")
        found = prove(subject, {module.__file__: text}, tests=[test])
        assert found.branches[0].are_known and not found.branches[0].difference, found


FAKE = """@torch.library.custom_op("lengths_{number}::lengths", mutates_args=())
def op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.tensor([len(row) for row in x.tolist()])


@op.register_fake
def _(x, y):
    return torch.empty(({size},), dtype=torch.int64)


"""


@pytest.mark.parametrize(("number", "size"), [(0, "x.shape[0]"), (1, "y.shape[0]"), (2, "2")])
def test_fake_kernels_are_compared_on_other_sizes(number, size):
    old = block("""
        def f(x, y):
            return torch.tensor([len(row) for row in x.tolist()]) + y.sum()
    """)
    module = imported(f"import torch\n\n\n{old}")
    new = block("""
        def f(x, y):
            return op(x, y) + y.sum()
    """)
    text = f"import torch\n\n\n{FAKE.format(number=number, size=size)}{new}"
    subject = parse_program(module.f, (torch.ones(2, 3), torch.ones(2)))
    found = prove(subject, {module.__file__: text})
    assert found.holds is (size == "x.shape[0]"), found
    assert size == "x.shape[0]" or "the fake kernel of `lengths" in found.reason


STEPS = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("step", torch.tensor(0))
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        UPDATE
        return self.weight * self.step * x
"""


def compiled(subject, texts, exempt=frozenset()):
    """Check `texts` compiled, without Inductor."""
    options = {"inductor": False, "deadline": Deadline(), "cache": RunCache()}
    return check_compiled(subject, texts, as_compiled=texts, exempt=exempt, **options)


IN_PLACE, OUT_OF_PLACE = "self.step += 1", "self.step = self.step + 1"


@pytest.mark.parametrize(
    ("before", "after", "training", "found"),
    [
        (OUT_OF_PLACE, IN_PLACE, True, "under AOTAutograd it behaves differently: "),
        (OUT_OF_PLACE, IN_PLACE, False, ""),
        (IN_PLACE, IN_PLACE + "  # so far", True, ""),  # the original shares it
        (IN_PLACE, OUT_OF_PLACE, True, ""),
    ],
)
def test_gradients_are_compared_under_aotautograd_where_a_module_trains(
    before, after, training, found
):
    """The backward of torch 2.13 computes the number again, from the buffer of the next step."""
    module = imported(STEPS.replace("UPDATE", before))
    subject = parse_program(module.Model().train(training), (torch.ones(3),))
    texts = {module.__file__: STEPS.replace("UPDATE", after)}
    check = compiled(subject, texts)
    assert check.ok == (not found) and (check.ok or check.detail.startswith(found))
    assert bool(check.ok and check.detail) == (before == IN_PLACE != after != OUT_OF_PLACE)


def test_what_is_exempt_may_differ_under_aotautograd():
    source = STEPS.replace("UPDATE", "print(sorted(self.weight.tolist()))")
    module = imported(source)
    subject = parse_program(module.Model().train(), (torch.ones(3),))
    guarded = source.replace("print(", "torch.compiler.is_compiling() or print(")
    check = compiled(subject, {module.__file__: guarded}, exempt={"text"})
    assert check.ok and check.name == "AOTAutograd", check


def test_without_inductor_a_program_that_does_not_train_runs_under_aotautograd():
    module = imported(f"{HEAD}\n\ndef f(x):\n    return x + 1\n")
    assert compiled(parse_program(module.f, X), {}).name == "AOTAutograd"


@pytest.mark.parametrize("changes", [True, False])
def test_what_a_call_changes_before_it_raises_is_lost_in_a_graph(changes):
    source = block("""
        import torch

        calls = [0]


        def f(x):
            CHANGE
            scale = SCALE
            return (x * scale).view(2, 2)
        """).replace("CHANGE", "calls[0] += 1" if changes else "x = x + 1")
    module = imported(source.replace("SCALE", "x.sum().item()"))
    edited = source.replace("SCALE", "x.sum().detach()")
    found = prove(parse_program(module.f, X), {module.__file__: edited}, numbers=True)
    assert found.state is ProofState.PROVED, found
    assert (NOTHING_LEFT in found.assumes) == changes
