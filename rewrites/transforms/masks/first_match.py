"""Search for the first or last true element, with or without a check that there is one."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import NotApplicable, Site, find_all, split_statements, walk
from fullgraph.rewrites.source import (
    Replacement,
    build_expression,
    build_statement,
    replace_nodes,
    string_literal,
)
from fullgraph.rewrites.transforms.length_choice import Conditional, find_length_choice
from fullgraph.rewrites.transforms.masks.implied_match import is_in_where, is_match_implied
from fullgraph.rewrites.transforms.masks.nonzero import (
    NonzeroIndices,
    Question,
    QuestionKind,
    answer_question,
    question_of,
)
from fullgraph.rewrites.transforms.masks.reads import can_insert_before
from fullgraph.rewrites.transforms.outline import condition_needs_values, is_exception_caught


@dataclass(frozen=True, eq=False)
class HitBranch:
    """`if hits: … else: …` whose branches are the same statement with different values."""

    statement: cst.If | cst.IfExp
    found: cst.BaseExpression
    """The value if there is a true element."""
    otherwise: cst.BaseExpression


@dataclass(frozen=True, eq=False)
class FirstMatch:
    """Search for one true element of a mask: all uses of the indices `m.nonzero()`."""

    questions: tuple[Question, ...]
    choice: HitBranch | None
    """The conditional that checks for a true element; None if the code does not check."""
    is_implied: bool = False
    """Whether another condition implies a true element wherever an index is used."""
    is_selected: bool = False
    """Whether such a condition only selects, in `torch.where`, what an index is used for."""

    @property
    def tests(self) -> tuple[cst.BaseExpression, ...]:
        """Return the uses that check whether any element is true."""
        tests = (QuestionKind.ANY, QuestionKind.NONE)
        return tuple(one.node for one in self.questions if one.asked in tests)

    @property
    def is_single(self) -> bool:
        """Return whether a use assumes that there is exactly one index."""
        return any(one.is_single for one in self.questions)

    @property
    def is_guarded(self) -> bool:
        """Return whether an index is used only where one exists."""
        return (
            self.choice is not None
            or self.is_implied
            or all(one.asked is QuestionKind.COUNT for one in self.questions)
        )


def find_search(site: Site, found: NonzeroIndices) -> FirstMatch | None:
    """Return the uses of indices if they only look for the first or last one.

    None if no index is read. Raises NotApplicable if a use needs all indices.
    """
    questions = []
    for use in found.uses:
        one = question_of(site, found, use)
        if one is None:
            code = site.document.code(site.document.parent(use)).partition("\n")[0]
            raise NotApplicable(f"`{code}` needs all indices, and their number depends on the data")
        questions.append(one)
    if not any(one.reads_index for one in questions):
        return None
    if found.dims != 1:
        raise NotApplicable("the mask is not known to have one dimension")
    tests = [one for one in questions if one.asked in (QuestionKind.ANY, QuestionKind.NONE)]
    counts = [one for one in questions if one.asked is QuestionKind.COUNT]
    branches = False
    for one in counts:
        parent = site.document.parent(one.node)
        outer = site.document.parents.get(parent)
        if isinstance(outer, Conditional) and find_length_choice(site, outer) is not None:
            raise NotApplicable("the last element of a slice is the one that its length chooses")
        if _is_tested(site, parent):
            branches = True
            continue
        beside = parent.right if isinstance(parent, cst.BinaryOperation) else None
        if beside is one.node and isinstance(parent, cst.BinaryOperation):
            beside = parent.left
        if beside is None or not site.is_tensor(beside):
            raise NotApplicable(f"Python needs `{site.document.code(one.node)}` as a number")
    if len(tests) > 1 and not branches:
        raise NotApplicable("it is asked more than once whether there is a hit")
    single = tests and not branches
    choice = _condition_if(site, tests[0], questions) if single else None
    ends = (QuestionKind.FIRST, QuestionKind.LAST)
    implied, selected = (
        all(
            one.asked in ends
            and not one.is_single
            and is_match_implied(site, found.mask, one.node, selected=selected)
            for one in questions
            if one.reads_index
        )
        for selected in (False, True)
    )
    return FirstMatch(tuple(questions), choice, implied, selected and not implied)


def _is_tested(site: Site, node: cst.CSTNode) -> bool:
    """Return whether `node` is a comparison in the condition of a branch.

    True also if it is inside an operand of `and` or `or` there. Such conditions are left to the
    rules for branches.
    """
    outer = site.document.parents.get(node)
    while isinstance(outer, cst.BooleanOperation):
        node, outer = outer, site.document.parents.get(outer)
    decides = isinstance(outer, cst.If | cst.IfExp) and outer.test is node
    return decides and isinstance(node, cst.Comparison | cst.BooleanOperation)


def write_search(
    site: Site, found: NonzeroIndices, asked: FirstMatch
) -> tuple[dict[cst.CSTNode, Replacement], str]:
    """Return the edits that write a search without indices, and the text of their assertion, or "".

    `found` are the indices, and `asked` is the search.
    """
    edits: dict[cst.CSTNode, Replacement] = {found.value: found.truth} if found.bound else {}
    mask = _copy_name(found.uses[0]) if found.bound else found.truth
    choice = asked.choice
    if choice is None:
        edits |= _answer_questions(asked, mask)
        asserted = _assert_match(site, found, asked)
        return (edits | asserted[0], asserted[1]) if asserted is not None else (edits, "")
    where = select_match(site, asked, choice, mask)
    if isinstance(choice.statement, cst.IfExp):
        return {**edits, choice.statement: where}, ""
    return {**edits, choice.statement: _one_statement(site, choice, where)}, ""


def _assert_match(
    site: Site, found: NonzeroIndices, asked: FirstMatch
) -> tuple[dict[cst.CSTNode, Replacement], str] | None:
    """Return the edits that assert that the mask has a match, and search in it.

    A mask without a name gets one. Also returns the text of the assertion. None if code checks for
    a match or handles the error, if several statements search, if no statement can come before the
    one that does, if data decide whether it runs: that branch would stay a break, or if
    `torch.where` may drop what is found.
    """
    document = site.document
    reads = [one for one in asked.questions if one.reads_index]
    line = document.statement(reads[0].node)
    if (
        asked.is_guarded
        or asked.tests
        or any(document.statement(one.node) is not line for one in reads)
        or not can_insert_before(document, line, [one.node for one in reads])
        or is_exception_caught(document, line)
        or _depends_on_data(site, line)
        or any(is_in_where(site, one.node) for one in reads)
    ):
        return None
    name = (
        _copy_name(found.uses[0])
        if found.bound
        else cst.Name(document.unused_local(line, "hits", "matches"))
    )
    if asked.is_single:
        test, fault = build_expression("{name}.sum() == 1", name=name), "no single match"
    elif all(one.position is None for one in reads):
        test, fault = build_expression("{name}.any()", name=name), "no match"
    elif len(reads) == 1 and (position := reads[0].position) is not None:
        test = build_expression("{name}.sum() > {position}", name=name, position=position)
        fault = "too few matches"
    else:
        return None
    message = f"{fault} for `{document.code(found.mask)}`"
    lines = [
        build_statement("assert {test}, {text}", test=test, text=string_literal(message)),
        replace_nodes(line, _answer_questions(asked, name)),
    ]
    if not found.bound:
        lines.insert(0, build_statement("{name} = {mask}", name=name, mask=found.truth))
    first, *others = [cst.ensure_type(one, cst.SimpleStatementLine) for one in lines]
    first = first.with_changes(leading_lines=line.leading_lines)
    others = [one.with_changes(leading_lines=()) for one in others]
    return {line: cst.FlattenSentinel([first, *others])}, message


def _depends_on_data(site: Site, statement: cst.CSTNode) -> bool:
    """Return whether the values of a tensor decide if a function gets to a statement."""
    document = site.document
    inside = (statement, *document.ancestors(statement))
    function = document.function(statement)
    exits = m.Return() | m.Break() | m.Continue()
    return any(
        condition_needs_values(site, one.test)
        for one in walk(function or document.module)
        if isinstance(one, cst.If | cst.While)
        and (
            one in inside
            or (
                document.position(one).line < document.position(statement).line
                and find_all(one, exits)
            )
        )
    )


def select_match(
    site: Site, asked: FirstMatch, choice: HitBranch, mask: cst.BaseExpression, dim: str = ""
) -> cst.BaseExpression:
    """Return `torch.where(mask.any(), found, otherwise)` with the values of `choice`.

    `asked` is the search in which `choice` checks for a true element. `dim` is the source of the
    dimension to search along: "1" finds one element in each row, "" one in the whole mask.
    """
    answers = _answer_questions(asked, mask, dim)
    found = answers.get(choice.found)
    return build_expression(
        "{where}({test}, {found}, {otherwise})",
        where=site.document.imported_name("torch.where") or "torch.where",
        test=answer_question(QuestionKind.ANY, mask, dim),
        found=replace_nodes(choice.found, answers) if found is None else found,
        otherwise=plain(site, choice.otherwise),
    )


def _answer_questions(
    asked: FirstMatch, mask: cst.BaseExpression, dim: str = ""
) -> dict[cst.CSTNode, cst.BaseExpression]:
    """Return for each use of the indices the expression over the mask that replaces it.

    `dim` is the source of the dimension to search along, "" for the whole mask. If `asked` has an
    `if` that checks for a true element, that check is left out, since the `if` is replaced.
    """
    return {
        one.node: answer_question(one, mask, "0, keepdim=True" if one.kept else dim)
        for one in asked.questions
        if asked.choice is None or one.asked not in (QuestionKind.ANY, QuestionKind.NONE)
    }


def plain(site: Site, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the number -1 for `torch.tensor(-1)`; other expressions unchanged.

    In `torch.where`, a number adopts the dtype and device of the other value.
    """
    if (
        isinstance(node, cst.Call)
        and site.callee_name(node) == "torch.tensor"
        and len(node.args) == 1
    ):
        number = node.args[0].value
        inside = number.expression if isinstance(number, cst.UnaryOperation) else number
        if isinstance(inside, cst.Integer):
            return number
    return node


def _condition_if(site: Site, test: Question, questions: list[Question]) -> HitBranch:
    """Return the conditional whose condition is `test`, a check for any true element.

    `questions` are all uses of the indices. Raises NotApplicable if one of them reads an index
    outside of the conditional, or if the branches differ in more than a value.
    """
    outer = site.document.parent(test.node)
    indices = [one.node for one in questions if one.reads_index]
    if isinstance(outer, cst.IfExp) and outer.test is test.node:
        sides = (outer.body, outer.orelse)
    elif (
        isinstance(outer, cst.If) and outer.test is test.node and isinstance(outer.orelse, cst.Else)
    ):
        one, other = _only_statement(outer.body), _only_statement(outer.orelse.body)
        first, second = _value_of(site, one), _value_of(site, other)
        if (
            first is None
            or second is None
            or _source_without_value(site, one) != _source_without_value(site, other)
        ):
            raise NotApplicable("the two sides of its test do different things")
        sides = (first, second)
    else:
        raise NotApplicable("its test is no `if` with an `else`")
    if test.asked is QuestionKind.NONE:
        sides = (sides[1], sides[0])
    found, otherwise = sides
    if not all(any(node is one for one in walk(found)) for node in indices):
        raise NotApplicable("an index is asked for outside its test")
    kinds = site.observed(otherwise)
    if kinds is not None and not (kinds.is_tensor or kinds.is_number):
        raise NotApplicable(f"`{site.document.code(otherwise)}` is no tensor")
    return HitBranch(outer, found, otherwise)


def _only_statement(block: cst.BaseSuite) -> cst.CSTNode | None:
    """Return the only statement of a block; None if there are several."""
    inside = split_statements(block)
    return inside[0] if len(inside) == 1 else None


def _value_of(site: Site, node: cst.CSTNode | None) -> cst.BaseExpression | None:
    """Return the value that a statement assigns, appends or returns.

    None if it does something else, or if there is no statement.
    """
    match node:
        case cst.Assign(targets=[_]) | cst.Return():
            return node.value
        case cst.Expr(value=cst.Call(func=cst.Attribute(), args=[arg]) as call):
            name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
            return arg.value if name == "append" and not arg.star else None
    return None


def _source_without_value(site: Site, node: cst.CSTNode | None) -> str:
    """Return the source of a statement with "…" for its value: `y = …`, `return …`.

    "" if the statement neither assigns, appends nor returns a value.
    """
    value = _value_of(site, node)
    if node is None or value is None:
        return ""
    return site.document.code(node).replace(site.document.code(value), "…")


def _one_statement(site: Site, choice: HitBranch, where: cst.BaseExpression) -> cst.BaseStatement:
    """Return the one statement that replaces an `if`."""
    assert isinstance(choice.statement, cst.If)
    side = choice.statement.body
    line = side.body[0]
    value = _value_of(site, _only_statement(side))
    assert value is not None
    small = _only_statement(side)
    assert isinstance(small, cst.BaseSmallStatement)
    made = cst.SimpleStatementLine([replace_nodes(small, {value: where})])
    leading = [*choice.statement.leading_lines]
    if isinstance(line, cst.SimpleStatementLine):
        made = made.with_changes(trailing_whitespace=line.trailing_whitespace)
    return made.with_changes(leading_lines=leading)


def _copy_name(use: cst.BaseExpression) -> cst.BaseExpression:
    """Return a new node for the same name."""
    assert isinstance(use, cst.Name)
    return cst.Name(use.value)
