"""Laws that hold for every rule: what they write parses, stays, and leaves the rest alone."""

import ast
import difflib

import libcst as cst
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fullgraph.rewrites.rules import all_rules
from fullgraph.rewrites.source import dotted_name, parse_document
from tests.text import block

from .harness import rewritten

HEAD = block("""
    import torch
    from torch.autograd import Variable


""")
X = torch.tensor([0.9, -0.2, 0.7, 0.1])
STATEMENTS = [
    "y = y * Variable(torch.ones(4))",
    "y = y + Variable(  torch.ones( 4 ) , requires_grad = False )",
    "y = y.reshape(4)  # a comment",
    block("""
        y = (y +
                 1)"""),
    "z = {'a' : 1}",
    "if True: y = y+1",
    block("""
        # only a comment
            pass"""),
    block("""
        y = y * Variable(  # why
                torch.ones(4))"""),
]


@st.composite
def sources(draw):
    chosen = draw(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=5))
    lines = [
        f"    {statement}" + draw(st.sampled_from(["", "  ", "  # note"])) for statement in chosen
    ]
    gaps = [draw(st.sampled_from(["\n", "\n\n"])) for _ in lines]
    body = "".join(line + gap for line, gap in zip(lines, gaps, strict=True))
    return f"{HEAD}def f(x):\n    y = x\n{body}    return y\n"


@pytest.mark.slow
@pytest.mark.compiles
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(sources())
def test_fixing_again_changes_nothing_and_other_lines_stay(source):
    once = rewritten(source, X)
    ast.parse(once.source)
    assert rewritten(once.source, X).source == once.source
    matcher = difflib.SequenceMatcher(None, source.split("\n"), once.source.split("\n"), False)
    for kind, start, end, _, _ in matcher.get_opcodes():
        touched = "\n".join(source.split("\n")[start:end])
        assert kind == "equal" or "Variable" in touched or kind == "insert"


@given(st.text(alphabet=" \t\n#abcé=()+", max_size=40))
@example("a\n\n ")
@example(
    block("""
        a

         #""")
)
@example("a\n\n\t#\n")
@example("a\r\n\r\n")
@example('"""\n# no comment"""\n')
def test_a_document_without_edits_is_the_same_text(text):
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return
    try:
        document = parse_document("a.py", text)
    except Exception as error:
        assert "not valid" in str(error) or "ambiguous" in str(error)
        return
    assert document.with_edits({}) == text


@pytest.mark.parametrize("indent", ["  ", "\t", "    "])
@pytest.mark.parametrize(
    ("line", "new", "after"),
    [
        ("y = there", "a if b else c", "y = a if b else c"),
        ("y = there * 2", "a + b", "y = (a + b) * 2"),
        ("if there: y = 1  # why", "not a", "if not a: y = 1  # why"),
        ("return f(there)", "a, b", "return f((a, b))"),
    ],
)
def test_parentheses_are_where_they_are_needed(indent, line, new, after):
    text = f"# first\n\n@g\ndef f(a):\n{indent}for b in a:\n{indent}{indent}{line}\n# last\n"
    document = parse_document("a.py", text)
    (there,) = (node for node in document.ranges if dotted_name(node) == "there")
    new = cst.parse_expression(new)
    assert document.with_edits({there: new}) == text.replace(line, after)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_a_rule_is_documented(rule):
    assert rule.summary and len(rule.summary) <= 100
    assert ("Before:" in rule.doc and "After:" in rule.doc) or rule.topic == "settings"
    assert rule.categories
    assert rule.name == rule.name.lower() and " " not in rule.name
