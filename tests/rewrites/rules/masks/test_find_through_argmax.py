import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten
from tests.text import block

HEAD = "import torch\n\n\n"
X = torch.tensor([[0.1, 0.9, 0.8], [0.0, 0.2, 0.3], [0.9, 0.1, 0.6]])
ROW = torch.tensor([0, 3, 1, 3, 0])


def _function(body):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{HEAD}def f(x):\n{lines}"


@pytest.mark.parametrize(
    ("body", "x", "reason"),
    [
        (
            block("""
                i = (x > 0).nonzero()
                return i[0, 0] + i.sum()"""),
            ROW,
            "needs all indices",
        ),
        (
            block("""
                i = (x > 0).nonzero()
                k = len(x) - 4
                return i[k, 0]"""),
            ROW,
            "needs all indices",
        ),
        (
            block("""
                i = (x > 0).nonzero()
                return i[0, 0]"""),
            X,
            "one dimension",
        ),
        (
            block("""
                i = (x > 0).nonzero()
                if len(i) > 0:
                    x = x + i[0, 0]
                return x"""),
            ROW,
            "no `if` with an `else`",
        ),
        (
            block("""
                i = (x > 0).nonzero()
                if len(i) > 0:
                    x = i[0, 0]
                else:
                    return x
                return x"""),
            ROW,
            "do different things",
        ),
    ],
)
def test_left_alone(body, x, reason):
    text, _, refusals = offered(_function(body), "(x > 0).nonzero()", "nonzero", x)
    assert not text
    assert any(reason in one for one in refusals), refusals


@pytest.mark.parametrize(
    ("x", "before", "after"),
    [
        (
            X,
            block("""
                out = torch.zeros(len(x), dtype=torch.long)
                for i in range(len(x)):
                    idx = torch.where(x[i] > 0.5)[0]  # hits
                    out[i] = idx[-1] if len(idx) else -1
                return out"""),
            "out = torch.zeros(len(x), dtype=torch.long)\nfor i in range(len(x)):\n"
            "    idx = x[i] > 0.5  # hits\n    out[i] = torch.where(idx.any(), "
            "idx.shape[-1] - 1 - idx.flip(-1).int().argmax(), -1)\nreturn out",
        ),
        (
            ROW,
            block("""
                i = (x == 3).nonzero()

                # where it ends
                if i.numel() == 0:
                    end = x.sum() * 0 + 9
                else:
                    end = i[0, 0] + 1
                return x + end"""),
            block("""
                i = x == 3

                # where it ends
                end = torch.where(i.any(), i.int().argmax() + 1, x.sum() * 0 + 9)
                return x + end"""),
        ),
        (
            X,
            block("""
                for row in x:
                    i = row.gt(2).nonzero()
                    if len(i) > 0: return i[0, 0]
                    else: return row.sum().long()"""),
            block("""
                for row in x:
                    i = row.gt(2)
                    return torch.where(i.any(), i.int().argmax(), row.sum().long())"""),
        ),
    ],
)
def test_fixed(x, before, after):
    outcome = rewritten(_function(before), x)
    assert outcome.source == _function(after)
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check((torch.zeros_like(x),), exact=True)


@pytest.mark.parametrize(
    ("expression", "asserted", "after"),
    [
        ("(x == 3).nonzero()[0]", "match for `x == 3`", "hits.int().argmax(0, keepdim=True)"),
        ("(x == 3).nonzero()[0, 0] + 1", "match for `x == 3`", "hits.int().argmax() + 1"),
        ("x * (x == 1).nonzero().item()", "single match for `x == 1`", "x * hits.int().argmax()"),
        ("x * int(torch.where(x == 1)[0])", "single match for `x == 1`", "x * hits.int().argmax()"),
    ],
)
def test_an_assertion_takes_the_place_of_the_error_of_no_match(expression, asserted, after):
    outcome = rewritten(_function(f"# found\nreturn {expression}"), ROW)
    mask = asserted.split("`")[1]
    holds = "hits.sum() == 1" if "single" in asserted else "hits.any()"
    assert outcome.source == _function(
        f'# found\nhits = {mask}\nassert {holds}, "no {asserted}"\nreturn {after}'
    )
    assert outcome.applicability[0] is Applicability.UNSAFE
    outcome.check(exact=True)
    with pytest.raises(AssertionError, match=f"no {asserted}"):
        imported(outcome.source).f(ROW * 0)


@pytest.mark.parametrize(
    ("read", "asserted", "after"),
    [
        ("i[0, 0] + x", 'i.any(), "no match', "i.int().argmax() + x"),
        ("x * i.item()", 'i.sum() == 1, "no single match', "x * i.int().argmax()"),
        ("x * i[1, 0]", 'i.sum() > 1, "too few matches', "x * (i.cumsum(-1) > 1).int().argmax()"),
    ],
)
def test_the_assertion_of_a_named_search_comes_before_its_index_is_read(read, asserted, after):
    x = ROW if "item" in read else torch.tensor([1, 0, 1, 2])
    outcome = rewritten(_function(f"i = (x == 1).nonzero()\nx = x + 1\nreturn {read}"), x)
    assert outcome.source == _function(
        f'i = x == 1\nx = x + 1\nassert {asserted} for `x == 1`"\nreturn {after}'
    )
    outcome.check(exact=True)
    message = asserted.partition('"')[2]
    with pytest.raises(AssertionError, match=f"{message} for `x == 1`"):
        imported(outcome.source).f(x * 0)


def test_a_search_that_may_not_run_gets_no_assertion():
    outcome = rewritten(_function("return (x == 3).nonzero()[0, 0] if len(x) > 2 else x[0]"), ROW)
    assert "return (x == 3).int().argmax() if len(x) > 2" in outcome.source
    assert outcome.assumes == ["something is found: of nothing the index is an error"]


@pytest.mark.parametrize(
    "body",
    [
        block("""
            if x.sum() > 9:
                return x
            return x * (x == 3).nonzero()[0, 0]"""),
        block("""
            if x.sum() > 3:
                x = x * (x == 3).nonzero()[0, 0]
            return x"""),
        block("""
            try:
                y = (x == 3).nonzero()[0, 0]
            except IndexError:
                y = 0
            return x + y"""),
    ],
)
def test_no_assertion_where_data_decide_or_the_error_is_handled(body):
    text, _, _ = offered(_function(body), "(x == 3).nonzero()", "nonzero", ROW, rule="FG407")
    assert text == _function(body.replace("nonzero()[0, 0]", "int().argmax()"))


def test_an_assertion_under_a_condition_that_is_known():
    body = block("""
        if len(x) > 3:
            x = x * (x == 3).nonzero()[0, 0]
        return x""")
    outcome = rewritten(_function(body), ROW)
    assert "    assert hits.any(), " in outcome.source
    outcome.check((ROW[:3],))


def test_the_second_of_several_as_schedulers_search_for_it():
    body = block("""
        i = (x == 3).nonzero()
        k = 1 if len(i) > 1 else 0
        return x + i[k] - i[1, 0] * k""")
    outcome = rewritten(_function(body), ROW)
    assert outcome.source == _function(
        "i = x == 3\nk = torch.where(i.sum() > 1, 1, 0)\n"
        "return x + (i.cumsum(-1) > k).int().argmax(0, keepdim=True) "
        "- (i.cumsum(-1) > 1).int().argmax() * k"
    )
    assert outcome.applicability[0] is Applicability.UNSAFE
    outcome.check((torch.tensor([3, 3, 0, 3, 1]),), exact=True)


NO_MATCH = ROW * 0
RUNS = ("torch.nonzero(x)", "(x != 0).nonzero()", "(x == 3).nonzero()", "x.nonzero()")


def _assertions_of(body):
    """Return the text that FG407 writes, what it assumes, and whether it asserts."""
    call = next(one for one in RUNS if one in body)
    text, (made,), _ = offered(_function(body), call, "nonzero", ROW, rule="FG407")
    assert "argmax()" in text
    return text, made.assumes, "assert " in text


@pytest.mark.parametrize(
    "body",
    [
        block("""
            if not x.sum():
                return x * 0
            i = torch.nonzero(x).view(-1)
            return x / (i[0] + 1)"""),
        block("""
            for n in range(2):
                if (x != 0).sum() == 0:
                    break
                return x + x.nonzero()[0, 0]
            return x"""),
        block("""
            if x.sum() > 0 and len(x) > 1:
                x = x * (x != 0).nonzero()[0, 0]
            return x"""),
        block("""
            some = (x != 0).any().item()
            if not some:
                y = x + 1
            else:
                y = x * x.nonzero().min()
            return y"""),
        "return x * (x == 3).nonzero()[0, 0] if bool((x == 3).any()) else x",
    ],
)
def test_nothing_is_assumed_where_a_condition_implies_a_match(body):
    text, assumes, asserts = _assertions_of(body)
    assert not assumes and not asserts
    for x in (ROW, NO_MATCH):
        torch.testing.assert_close(imported(text).f(x), imported(_function(body)).f(x))


WHERE = block("""
    i = torch.nonzero(x).view(-1)
    y = 1.0 / (i[0] + 1)
    return torch.where({}, y * 2, 0.0)""")


@pytest.mark.parametrize("test", ["x.sum() > 0", "~(x.sum() == 0) & (x.max() < 9)", "x.bool()"])
def test_only_the_error_is_lost_where_a_selection_implies_a_match(test):
    text, assumes, asserts = _assertions_of(WHERE.format(test))
    assert assumes == ("no caller needs the IndexError of a search without a match",)
    assert not asserts
    assert not imported(text).f(NO_MATCH).any()
    with pytest.raises(IndexError):
        imported(_function(WHERE.format(test))).f(NO_MATCH)


@pytest.mark.parametrize("test", ["x.max() < 9", "x.sum() == 0", "(x > 0).any() | (x < 9).any()"])
def test_a_selection_that_implies_no_match_gets_no_assertion(test):
    _, assumes, asserts = _assertions_of(WHERE.format(test))
    assert assumes == ("something is found: of nothing the index is an error",)
    assert not asserts


@pytest.mark.parametrize(
    "body",
    [
        block("""
            if x.max() > 9:
                return x
            return x * x.nonzero()[0, 0]"""),
        block("""
            if not x.sum():
                return x
            x = x - 1
            return x * x.nonzero()[0, 0]"""),
        block("""
            if not x.sum():
                return x
            x -= 1
            return x * x.nonzero()[0, 0]"""),
        block("""
            if x.sum():
                return x * (x == 3).nonzero()[0, 0]
            return x"""),
        block("""
            if x.any():
                return x * x.nonzero()[1, 0]
            return x"""),
    ],
)
def test_a_match_is_assumed_where_a_condition_does_not_imply_it(body):
    assert _assertions_of(body)[1]


@pytest.mark.parametrize(
    "between",
    [
        "",
        "place = i[0] + 1\n",
        block("""
            place = i[0] + 1
            place = place * 1
        """),
    ],
)
def test_an_early_return_without_a_match_still_returns(between):
    last = "1.0 / place" if between else "1.0 / (i[0] + 1)"
    outcome = rewritten(
        _function(
            "if not x.sum():\n    return torch.tensor(0.0)\n"
            f"i = torch.nonzero(x).view(-1)\n{between}return {last}"
        ),
        ROW,
    )
    assert "assert" not in outcome.source
    outcome.check((NO_MATCH,), exact=True)
