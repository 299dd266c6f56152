import re

import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten, rewritten_together
from tests.text import block

HEAD = "import torch\n\n\n"
CATEGORY = "data-dependent branch"
X = torch.tensor([0.9, -0.2, 0.7, 0.1])


def _leaf(x):
    return x.clone().requires_grad_()


def _function(body, *names):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{HEAD}def f({', '.join(names or ('x',))}):\n{lines}"


def _masked(body):
    """Return the function with the exit that eager code keeps after each update of `done`."""
    guard = "if not torch.compiler.is_compiling() and done:"
    exit_ = rf"\1\2\n\1{guard}\n\1    break"
    return _function(re.sub(r"^( *)(done = done \|.*)$", exit_, body, flags=re.MULTILINE))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            block("""
                for _ in range(3):
                    print(1)
                    x = x * 2
                    if x.sum() > 5:
                        break
                return x"""),
            "no assignment",
        ),
        (
            block("""
                outs = []
                for _ in range(3):
                    x = torch.cat((x[1:], -x[:1]))
                    outs.append(x)
                    if x.sum() > 5:
                        break
                return torch.stack(outs)"""),
            "how many elements `outs` has",
        ),
        (
            block("""
                for i in (1, 2):
                    x = x * 2
                    if x.sum() > 5:
                        break
                return x * i"""),
            "`i` is used after the loop",
        ),
        (
            block("""
                for _ in range(3):
                    x = x * 2
                    if x.sum() > 5:
                        y = -x
                        break
                else:
                    y = x
                return y"""),
            "`else`",
        ),
        (
            block("""
                for i in range(3):
                    x = x * 2
                    if x.sum() > 5:
                        return x * i
                return x"""),
            "the loop's variables",
        ),
        (
            block("""
                for i in range(3):
                    x = x * 2
                    if x.sum() > 5:
                        return x
                print(x)"""),
            "does not return a value",
        ),
        (
            block("""
                for _ in range(3):
                    x = x * 2
                    if x.sum() > 5:
                        break
                else:
                    x = x - 1
                return x"""),
            "`else`",
        ),
        (
            block("""
                while True:
                    x = x * 2
                    if x.sum() > 5:
                        break
                return x"""),
            "may not end",
        ),
        (
            block("""
                for _ in range(3):
                    with memoryview(b''):
                        x = x * 2
                    if x.sum() > 5:
                        break
                return x"""),
            "other blocks",
        ),
        (
            block("""
                for _ in range(3):
                    x = torch.cat((x, x[-1:] * 2))
                    if x.sum() > 5:
                        break
                return x"""),
            "`x` grows in each iteration",
        ),
        (
            block("""
                for i in range(3):
                    x = x * 2
                    if i > 1 or x.sum() > 5:
                        break
                return x"""),
            "Python alone",
        ),
    ],
)
def test_left_alone(body, reason):
    source = _function(body)
    text, _, refusals = offered(source, "x.sum() > 5", CATEGORY, X)
    assert not text
    assert any(reason in one for one in refusals), refusals


FIXED = [
    (
        block("""
            # grow
            for _ in  range(5):
                x = x*2
                if x.sum() > 10:  # far enough
                    break
            return x"""),
        block("""
            # grow
            done = torch.zeros((), dtype=torch.bool, device=x.device)
            for _ in  range(5):
                x = torch.where(done, x, x*2)
                # far enough
                done = done | (x.sum() > 10)
            return x"""),
    ),
    (
        block("""
            for i in range(4):
                y = x * 0.5  # half
                if not (y - x).abs().max() > 0.125:
                    break
                x = y
            return x"""),
        None,
    ),
    (
        block("""
            y = torch.zeros_like(x)
            for i in range(3):
                y += x / (i + 1)
                if y.max().item() > 1:
                    break
            return y"""),
        None,
    ),
    (
        block("""
            for i in range(6):
                x = x * 2
                if i > 1 and x.sum() > 10:
                    break
            return x"""),
        block("""
            done = torch.zeros((), dtype=torch.bool, device=x.device)
            for i in range(6):
                x = torch.where(done, x, x * 2)
                if i > 1:
                    done = done | (x.sum() > 10)
            return x"""),
    ),
    (
        block("""
            for i in range(4):
                x = x * 2
                far = x.sum() / x.numel()
                if far > 1:
                    break
            return x"""),
        block("""
            done = torch.zeros((), dtype=torch.bool, device=x.device)
            for i in range(4):
                x = torch.where(done, x, x * 2)
                far = x.sum() / x.numel()
                done = done | (far > 1)
            return x"""),
    ),
    (
        block("""
            y = x
            for i in range(4):
                x = x * 2
                if i and x.sum() > 5:
                    y = -x
                    break
            return x + y"""),
        None,
    ),
    (
        block("""
            y = x
            for _ in range(3):
                x = x * 2
                if x.sum() > 5:
                    y = -x  # turned
                    break
            return x + y"""),
        block("""
            y = x
            done = torch.zeros((), dtype=torch.bool, device=x.device)
            for _ in range(3):
                x = torch.where(done, x, x * 2)
                # turned
                leaving = ~done & (x.sum() > 5)
                y = torch.where(leaving, -x, y)
                done = done | leaving
            return x + y"""),
    ),
    (
        block("""
            for i in range(4):
                with torch.no_grad():
                    far = x.sum()
                if i > 1:
                    x = x * 2
                else:
                    x = x + 1
                if far > 3:
                    break
            return x"""),
        block("""
            done = torch.zeros((), dtype=torch.bool, device=x.device)
            for i in range(4):
                with torch.no_grad():
                    far = x.sum()
                if i > 1:
                    x = torch.where(done, x, x * 2)
                else:
                    x = torch.where(done, x, x + 1)
                done = done | (far > 3)
            return x"""),
    ),
]


def test_fixed():
    sources = [_function(before) for before, _ in FIXED]
    outcomes = rewritten_together(sources, [(_leaf(X),)] * len(FIXED))
    for outcome, (_, after) in zip(outcomes, FIXED, strict=True):
        assert after is None or outcome.source == _masked(after)
        assert outcome.rules == ["FG304"] * len(FIXED)
        assert set(outcome.applicability) == {Applicability.SAFE}
        outcome.check((_leaf(X * 0.01),), (_leaf(X * 100),))


def test_unsafe_where_a_counter_becomes_a_tensor():
    body = block("""
        n = 0
        for _ in range(5):
            x = x * 2
            n = n + 1
            if x.norm() > 10:
                break
        return x * n""")
    outcome = rewritten(_function(body), _leaf(X))
    assert outcome.applicability == [Applicability.UNSAFE]
    assert outcome.assumes == ["a tensor may take the place of `n` and `n + 1`"]
    outcome.check((_leaf(X * 0.01),))


SOLVES = """\
    y, r, reached = x * 0, x, False
    for i in range(6):
        step = r * 0.5
        y = y + step
        r = r - step
        if i > 1 and r.norm() < 0.2:
            reached = True
            break
        r = r * 1.1
    return torch.where(torch.as_tensor(reached), y, -y)
"""


def test_the_flag_of_the_program_is_used_and_what_is_not_read_later_is_not_masked():
    outcome = rewritten(f"{HEAD}def f(x):\n{SOLVES}", X)
    body = block("""
        y, r = x * 0, x
        reached = torch.zeros((), dtype=torch.bool, device=r.device)
        for i in range(6):
            step = r * 0.5
            y = torch.where(reached, y, y + step)
            r = r - step
            if i > 1:
                reached = reached | (r.norm() < 0.2)
                if not torch.compiler.is_compiling() and reached:
                    break
            r = r * 1.1
        return torch.where(torch.as_tensor(reached), y, -y)""")
    assert outcome.source == _function(body)
    assert outcome.assumes == ["a tensor may take the place of `reached`"]
    outcome.check((X * 0.01,), (X * 100,))
    text, _, _ = offered(f"{HEAD}def f(x):\n{SOLVES}", "r.norm() < 0.2", CATEGORY, _leaf(X))
    assert "r = torch.where(reached, r, r - step)" in text  # it may reach a gradient


def test_the_iteration_of_the_exit_is_used_after_the_loop_and_numbers_are_compared():
    body = block("""
        y = x * 0
        for k in range(5):
            new = torch.tanh(0.3 * y + x)
            change = (new - y).norm().item() / (1e-5 + new.norm().item())
            y = new
            if change < 0.05:
                break
        return y * k""")
    outcome = rewritten(_function(body), _leaf(X))
    assert outcome.source == _masked(
        block("""
            y = x * 0
            done = torch.zeros((), dtype=torch.bool, device=x.device)
            last_k = 0
            for k in range(5):
                last_k = torch.where(done, last_k, k)
                new = torch.tanh(0.3 * y + x)
                change = (new - y).norm().double() / (1e-5 + new.norm().double())
                y = torch.where(done, y, new)
                done = done | (change < 0.05)
            k = last_k
            return y * k""")
    )
    assert outcome.assumes == [
        "`1e-5 + new.norm().item()` is not zero, for otherwise Python raises",
        "a tensor may take the place of `k` after the loop",
    ]
    outcome.check((_leaf(X * 0.01),), (_leaf(X * 3),))


def test_a_return_from_the_loop_and_a_name_that_only_the_loop_sets():
    body = block("""
        for w in (1.0, 2.0, 3.0):
            y = x.sin() * w
            if y.max() > 1.5:
                return y
        return y""")
    outcome = rewritten(_function(body), _leaf(X))
    assert outcome.source == _masked(
        block("""
            done = torch.zeros((), dtype=torch.bool, device=x.device)
            y = None
            for w in (1.0, 2.0, 3.0):
                new_y = x.sin() * w
                y = new_y if y is None else torch.where(done, y, new_y)
                done = done | (y.max() > 1.5)
            return y""")
    )
    assert outcome.assumes == ["the loop that sets `y` runs at least once"]
    outcome.check((_leaf(X * 0),), (_leaf(X * 2),))


def test_what_is_returned_early_is_kept_where_its_names_change():
    body = block("""
        for _ in range(3):
            x = x * 2
            if x.sum() > 5:
                return x * 3
        x = x / 4
        return x - 1""")
    outcome = rewritten(_function(body), _leaf(X))
    assert outcome.source.endswith(
        "    early = x * 3\n    x = x / 4\n    return torch.where(done, early, x - 1)\n"
    )
    outcome.check((_leaf(X * 0.01),), (_leaf(X * 100),))
