"""The verdict of an explanation: one sentence that sums up what torch.compile does."""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.diagnose.explanation_data import ExplanationData

AS_SCRIPT = "as the script chose"
"""`backend` of a script's explanation, for which `fullgraph=True` is not tried."""
_FEW = 3
"""Maximum number of causes that the verdict names one by one."""


def verdict(explanation: ExplanationData) -> str:
    """Return the sentence that sums up the explanation, or its error."""
    if explanation.error is not None:
        return explanation.error
    first, *others = _clauses(explanation)
    return "; ".join([f"{explanation.target} {first}", *others]) + "."


def _clauses(explanation: ExplanationData) -> Iterator[str]:
    """Yield the clauses of the sentence that sums up the explanation.

    They say what happens in default mode, with hidden causes, with `fullgraph=True` and in
    Inductor; then how many recompiles, frames in eager and compile failures there are.
    """
    under = _describe_fullgraph(explanation)
    if explanation.default.breaks:
        yield _describe_breaks(explanation)
    elif explanation.default.graphs and explanation.fullgraph.ok:
        yield f"is {_graphs(explanation)} in default mode and {under}"
        under = ""
    elif explanation.default.graphs:
        yield f"is {_graphs(explanation)} in default mode"
    elif explanation.crashes:
        yield "does not compile"
    elif explanation.fallbacks:
        yield "is not compiled"
    else:
        yield "holds no tensor operation to compile"
        return
    if under and (explanation.default.graphs or explanation.default.breaks):
        yield under if explanation.fullgraph.ok is not True else f"it is one graph {under}"
    recompiles = sum(recompile.count for recompile in explanation.recompiles)
    if recompiles:
        yield _count(recompiles, "recompile")
    if explanation.fallbacks:
        runs = "runs" if len(explanation.fallbacks) == 1 else "run"
        yield f"{_count(len(explanation.fallbacks), 'function')} {runs} in eager without a break"
    if explanation.crashes:
        times = len(explanation.crashes)
        yield f"compilation failed {'once' if times == 1 else f'{times} times'}"


def _graphs(explanation: ExplanationData) -> str:
    """Return "one graph of 12 ops" or "2 graphs"."""
    if explanation.default.graphs != 1:
        return _count(explanation.default.graphs, "graph")
    return "one graph" + (
        f" of {_count(explanation.graphs[0].ops, 'op')}" if len(explanation.graphs) == 1 else ""
    )


def _describe_breaks(explanation: ExplanationData) -> str:
    """Return "runs as 3 graphs: 2 breaks from 2 causes, none hidden"."""
    shown = sum(not cause.hidden and "default" in cause.modes for cause in explanation.causes)
    graphs = _count(explanation.default.graphs, "graph")
    start = (
        f"runs as {graphs}" if explanation.default.graphs != 0 else "runs in eager, without a graph"
    )
    breaks = f"{_count(explanation.default.breaks, 'break')} from {_count(shown, 'cause')}"
    return f"{start}: {breaks}{_describe_search(explanation)}"


def _describe_search(explanation: ExplanationData) -> str:
    """Return ", 2 more hidden" or ", none hidden" after the search for hidden causes.

    Return "" if the search found none so far and is not finished, or could not look everywhere.
    """
    hidden = sum(cause.hidden for cause in explanation.causes)
    found = f", {hidden:,} more hidden" if hidden else ""
    if not explanation.complete:
        return found
    if explanation.hidden_search == "nothing new":
        blocked = any(note.kind == "unmask" and note.position for note in explanation.notes)
        return found or ("" if blocked else ", none hidden")
    if explanation.hidden_search in ("rounds", "seconds"):
        return f"{found} (the search for hidden ones ran out of {explanation.hidden_search})"
    return found


def _describe_fullgraph(explanation: ExplanationData) -> str:
    """Return what `fullgraph=True` does: "fullgraph=True raises at C1 and C2".

    Return "" if that is not known yet.
    """
    if explanation.fullgraph.ok is None:
        return (
            "fullgraph=True was not tried"
            if explanation.complete and explanation.backend != AS_SCRIPT
            else ""
        )
    if explanation.fullgraph.ok:
        return f"under fullgraph=True{_describe_inductor(explanation)}"
    at = [cause.id for cause in explanation.causes if "fullgraph" in cause.modes]
    if not at:
        return "fullgraph=True raises"
    names = f"{', '.join(at[:-1])} and {at[-1]}" if len(at) > 1 else at[0]
    return f"fullgraph=True raises at {names if len(at) <= _FEW else f'{len(at)} causes'}"


def _describe_inductor(explanation: ExplanationData) -> str:
    """Return how the program ran with Inductor, as a clause: ", but Inductor fails: …"."""
    if explanation.verification is None:
        known = explanation.backend in ("inductor", AS_SCRIPT)
        return "" if known else ", not compiled with Inductor yet"
    if not explanation.verification.ok:
        return f", but Inductor fails: {explanation.verification.detail}"
    use = "torch.compile(model, fullgraph=True)"
    return f", and with Inductor it behaves as in eager. No edit needed: `{use}`"


def _count(n: int | None, noun: str) -> str:
    return f"unknown {noun}s" if n is None else f"{n:,} {noun}{'' if n == 1 else 's'}"
