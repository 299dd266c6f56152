"""The verdict: what torch.compile makes of a program, in one sentence."""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.diagnose.explanation_data import ExplanationData

AS_SCRIPT = "as the script chose"
"""The backend of an explanation of a script, which says nothing of `fullgraph=True`."""
_FEW = 3
"""Number of causes up to which the verdict names each."""


def verdict(e: ExplanationData) -> str:
    """Return the verdict of `e` as one sentence."""
    if e.error is not None:
        return e.error
    first, *others = _clauses(e)
    return "; ".join([f"{e.target} {first}", *others]) + "."


def _clauses(e: ExplanationData) -> Iterator[str]:
    """Yield the clauses of the verdict: default mode, hidden causes, `fullgraph=True`, Inductor."""
    under = _describe_fullgraph(e)
    if e.default.breaks:
        yield _describe_breaks(e)
    elif e.default.graphs and e.fullgraph.ok:
        yield f"is {_graphs(e)} in default mode and {under}"
        under = ""
    elif e.default.graphs:
        yield f"is {_graphs(e)} in default mode"
    elif e.crashes:
        yield "does not compile"
    elif e.fallbacks:
        yield "is not compiled"
    else:
        yield "holds no tensor operation to compile"
        return
    if under and e.default.graphs:
        yield under if e.fullgraph.ok is not True else f"it is one graph {under}"
    elif under and e.default.breaks:
        yield under
    recompiles = sum(recompile.count for recompile in e.recompiles)
    if recompiles:
        yield _count(recompiles, "recompile")
    if e.fallbacks:
        runs = "runs" if len(e.fallbacks) == 1 else "run"
        yield f"{_count(len(e.fallbacks), 'function')} {runs} in eager without a break"
    if e.crashes:
        times = len(e.crashes)
        yield f"compilation failed {'once' if times == 1 else f'{times} times'}"


def _graphs(e: ExplanationData) -> str:
    """Return "one graph of 12 ops" or "2 graphs"."""
    if e.default.graphs != 1:
        return _count(e.default.graphs, "graph")
    return "one graph" + (f" of {_count(e.graphs[0].ops, 'op')}" if len(e.graphs) == 1 else "")


def _describe_breaks(e: ExplanationData) -> str:
    """Return "runs as 3 graphs: 2 breaks from 2 causes, none hidden"."""
    shown = sum(not cause.hidden and "default" in cause.modes for cause in e.causes)
    graphs = _count(e.default.graphs, "graph")
    start = f"runs as {graphs}" if e.default.graphs != 0 else "runs in eager, without a graph"
    breaks = f"{_count(e.default.breaks, 'break')} from {_count(shown, 'cause')}"
    return f"{start}: {breaks}{_describe_search(e)}"


def _describe_search(e: ExplanationData) -> str:
    """Return the result of the search for hidden causes: ", none hidden"."""
    hidden = sum(cause.hidden for cause in e.causes)
    found = f", {hidden:,} more hidden" if hidden else ""
    if not e.complete:
        return found
    if e.hidden_search == "nothing new":
        blocked = any(note.kind == "unmask" and note.position for note in e.notes)
        return found or ("" if blocked else ", none hidden")
    if e.hidden_search in ("rounds", "seconds"):
        return f"{found} (the search for hidden ones ran out of {e.hidden_search})"
    return found


def _describe_fullgraph(e: ExplanationData) -> str:
    """Return what `fullgraph=True` does; "" if that is not known yet."""
    if e.fullgraph.ok is None:
        return "fullgraph=True was not tried" if e.complete and e.backend != AS_SCRIPT else ""
    if e.fullgraph.ok:
        return f"under fullgraph=True{_describe_inductor(e)}"
    at = [cause.id for cause in e.causes if "fullgraph" in cause.modes]
    if not at:
        return "fullgraph=True raises"
    names = f"{', '.join(at[:-1])} and {at[-1]}" if len(at) > 1 else at[0]
    return f"fullgraph=True raises at {names if len(at) <= _FEW else f'{len(at)} causes'}"


def _describe_inductor(e: ExplanationData) -> str:
    """Return how the program ran under Inductor."""
    if e.verification is None:
        known = e.backend in ("inductor", AS_SCRIPT)
        return "" if known else ", not compiled with Inductor yet"
    if not e.verification.ok:
        return f", but Inductor fails: {e.verification.detail}"
    use = "torch.compile(model, fullgraph=True)"
    return f", and with Inductor it behaves as in eager. No edit needed: `{use}`"


def _count(n: int | None, noun: str) -> str:
    return f"unknown {noun}s" if n is None else f"{n:,} {noun}{'' if n == 1 else 's'}"
