"""Wrap lines of new code that are too long, as black does."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import deque
from collections.abc import Iterator
from itertools import pairwise

_SHORTEST, _LONGEST = 88, 120
"""Bounds of the line length limit, in characters."""
_WORTHWHILE = 24
"""Number of characters from one bracket to the other below which the pair is not split."""


_EXPLANATION = re.compile(r"# +(?!(noqa|type|pragma|fmt|pylint|pyright|mypy|ruff)\b)")
"""A comment for people, which need not be on the line of the code."""

_CHAIN = re.compile(r"\w+( \. \w+| [(\[] [)\]])+ *")
"""The tokens of a chain of calls and subscripts, without what is in brackets."""


def wrap_new_lines(old: str, new: str) -> str:
    """Return the text `new` with its long lines wrapped, except lines that `old` has too.

    A line is long if it exceeds the longest line of `old`, but the limit is at least 88 and at most
    120 characters.
    """
    known = old.splitlines()
    width = min(max([_SHORTEST, *map(len, known)]), _LONGEST)
    if all(len(line) <= width for line in new.splitlines()):
        return new
    kept = set(known)
    step = next((i for a, b in pairwise(known) if (i := _indent(a, b))), "    ")
    wrapped, rows = "", deque(new.splitlines(keepends=True))
    while rows:
        line = rows.popleft()
        if len(line.rstrip()) > width and line.rstrip("\r\n") not in kept:
            while rows and _has_open_bracket(line):
                line = _join(line, rows.popleft())
            line = _wrap(line, width, step) if len(line.rstrip()) > width else line
        wrapped += line
    same = wrapped == new or _parse(wrapped) == _parse(new)  # no parse where nothing was wrapped
    return wrapped if same else new


def _parse(text: str) -> str:
    """Return a dump of a text's syntax tree without positions; the text if it is not Python."""
    try:
        return ast.dump(ast.parse(text))
    except (SyntaxError, ValueError):
        return text


def _indent(line: str, following: str) -> str:
    """Return the indentation that a block adds: what `following` has more of it than `line`.

    "" if `line` does not begin a block (end in ":"), or `following`, the line after it, is not
    indented more.
    """
    before, after = (one[: len(one) - len(one.lstrip())] for one in (line, following))
    return after[len(before) :] if line.rstrip().endswith(":") and after.startswith(before) else ""


def _has_open_bracket(line: str) -> bool:
    """Return whether a line without a comment ends inside of brackets."""
    *tokens, last = _tokens(line.rstrip())
    texts = [token.string for token in tokens]
    depth = sum(text in ("(", "[", "{") for text in texts)
    depth -= sum(text in (")", "]", "}") for text in texts)
    comments = any(token.type == tokenize.COMMENT for token in tokens)
    return depth > 0 and last.type == tokenize.ERRORTOKEN and not comments


def _join(line: str, following: str) -> str:
    """Return a line that ends inside of brackets, and the line after it, as one line."""
    line, rest = line.rstrip(), following.lstrip()
    if rest.startswith((")", "]", "}")):
        return line.removesuffix(",") + rest
    return line + rest if line.endswith(("(", "[", "{")) else f"{line} {rest}"


def _wrap(line: str, width: int, step: str) -> str:
    """Return a line of code split inside its outer brackets with the longest content.

    A comment at the end becomes a line above. The line is unchanged if it has no brackets or little
    between them. `width` is the limit in characters, `step` the additional indentation of the lines
    between the brackets.
    """
    code = line.rstrip()
    end = line[len(code) :]
    indent = code[: len(code) - len(code.lstrip())]
    comment = next((t for t in _tokens(code) if t.type == tokenize.COMMENT), None)
    if comment is not None and code[: comment.start[1]].strip():
        if not _EXPLANATION.match(comment.string):
            return line
        code = code[: comment.start[1]].rstrip()
        new_line = end or "\n"
        rest = code + end if len(code) <= width else _wrap(code + end, width, step)
        return f"{indent}{comment.string}{new_line}{rest}"
    if (chain := _split_chain(code)) is not None:
        head, *links = chain
        rows = [indent + step + link for link in links]
        rows = [row if len(row) <= width else _wrap(row, width, step) for row in rows]
        return (end or "\n").join([f"{head}(", *rows, f"{indent})"]) + end
    found = _longest_brackets(code)
    if found is None or found[2] - found[0] < _WORTHWHILE:
        return line
    opening, commas, closing = found
    body = code[opening + 1 : closing].strip()
    inner = indent + step
    if len(inner + body) <= width:
        rows = [inner + body]
    else:
        parts = [code[a + 1 : b].strip() for a, b in pairwise([opening, *commas, closing])]
        parts = [part for part in parts if part]
        last = "" if not commas or any(part.startswith("*") for part in parts) else ","
        rows = [*(f"{inner}{part}," for part in parts[:-1]), f"{inner}{parts[-1]}{last}"]
        rows = [row if len(row) <= width else _wrap(row, width, step) for row in rows]
    after = f"{indent}_{code[closing + 1 :]}"  # a name in place of the closing bracket
    after = _wrap(after, width, step) if len(after) > width else after
    after = after.replace("_", code[closing], 1)
    return (end or "\n").join([code[: opening + 1], *rows, after]) + end


def _split_chain(code: str) -> list[str] | None:
    """Return the parts of `y = x.f(…).g(…)`: "y = ", "x.f(…)" and ".g(…)".

    None if the value of a statement is not a chain of at least two calls after the first one.
    """
    start, depth, columns, parts = 0, 0, list[int](), list[str]()
    for token in _tokens(code):
        if token.type in (tokenize.COMMENT, tokenize.ERRORTOKEN):
            return None
        depth -= token.string in (")", "]", "}")
        if depth == 0 and (token.string == "return" or re.fullmatch(r"[-+*/]?=", token.string)):
            start, columns, parts = token.end[1] + 1, [], []
        elif depth == 0:
            if token.string == "." and parts[-1:] == [")"]:
                columns.append(token.start[1])
            parts.append(token.string)
        depth += token.string in ("(", "[", "{")
    if not start or len(columns) < 2 or not _CHAIN.fullmatch(" ".join(parts)):
        return None
    return [code[a:b] for a, b in pairwise([0, start, *columns, len(code)])]


def _longest_brackets(code: str) -> tuple[int, list[int], int] | None:
    """Return the columns of the outer pair of brackets with the longest content in a line.

    These are the columns of the opening bracket, of the commas between items (none in a
    comprehension) and of the closing bracket. None if the line has no brackets, has a comment, or
    is only part of a statement.
    """
    outer: list[tuple[int, list[int]]] = []
    found: list[tuple[int, list[int], int]] = []
    comprehensions: set[int] = set()
    for token in _tokens(code):
        if token.type in (tokenize.COMMENT, tokenize.ERRORTOKEN) or token.start[0] > 1:
            return None
        column = token.start[1]
        if token.string in ("(", "[", "{"):
            outer.append((column, []))
        elif token.string == "," and outer:
            outer[-1][1].append(column)
        elif token.string == "for" and outer:
            comprehensions.add(outer[-1][0])
        elif token.string in (")", "]", "}"):
            if not outer:
                return None
            opening, commas = outer.pop()
            if not outer and code[opening + 1 : column].strip():
                found.append((opening, [] if opening in comprehensions else commas, column))
    return None if outer else max(found, key=lambda one: one[2] - one[0], default=None)


def _tokens(code: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens of one line of code, and an ERRORTOKEN if it is incomplete."""
    rows = iter([code.lstrip().rjust(len(code)), ""])
    try:
        for token in tokenize.generate_tokens(lambda: next(rows, "")):
            if token.type in (tokenize.INDENT, tokenize.DEDENT):
                continue
            if token.type in (tokenize.NEWLINE, tokenize.ENDMARKER):
                return
            yield token
    except (tokenize.TokenError, IndentationError):
        yield tokenize.TokenInfo(tokenize.ERRORTOKEN, "", (1, 0), (1, 0), code)
