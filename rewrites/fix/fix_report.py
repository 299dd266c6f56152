"""Renderers of a `FixResult`: one line, terminal text, JSON-ready data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from io import StringIO
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule as Line
from rich.syntax import Syntax
from rich.text import Text

from fullgraph.compiler.sources import cell_name
from fullgraph.diagnose.explanation import Explanation
from fullgraph.rewrites.fix.causes import count_ops, count_recompiles
from fullgraph.rewrites.fix.results import CAPTURED, NOT_RUN, FixResult, Suggestion
from fullgraph.rewrites.proof import Proof, ProofState, Seen
from fullgraph.rewrites.rule import Applicability

WIDTH = 80
"""Columns of the plain text."""
_STYLES = {
    Applicability.SAFE: "green",
    Applicability.UNSAFE: "yellow",
    Applicability.DISPLAY: "cyan",
}


def verdict(fixes: FixResult) -> str:
    """Return the result in one line: graphs and causes before and after, number of edits."""
    end = f" · torch {fixes.torch.partition('+')[0]}"
    if fixes.before.error is not None:
        return f"{fixes.before.error}{end}"
    if fixes.ended_by:
        end = f"; {describe_end(fixes)}{end}"
    if not fixes.before.causes and not fixes.before.recompiles:
        return f"There is nothing to fix: {fixes.before.verdict}"
    safe = [s for s in fixes.suggestions if s.accepted and s.applicability is Applicability.SAFE]
    unsafe = [s for s in fixes.suggestions if s.accepted and s not in safe]
    if not fixes.before.causes:
        return f"no graph break, {_describe_counts(fixes, len(safe), len(unsafe))}{end}"
    parts = [f"graphs {_graph_count(fixes.before)} → {_graph_count(fixes.after)}"]
    if not fixes.after.fullgraph.ok:  # fewer graphs can mean more eager code
        parts[0] += f" ({count_ops(fixes.before)} → {count_ops(fixes.after)} ops in them)"
    parts.append(f"causes {len(fixes.before.causes)} → {len(fixes.after.causes)}")
    none = "no edit proved yet" if fixes.ended_by else "no safe edit"
    parts.append(f"{_format_count(len(safe), 'edit')}, proved" if safe else none)
    line = ", ".join(parts)
    if unsafe:
        replaced = sum(bool(s.replaced_by) for s in safe)
        counts = [(_graph_count(e), len(e.causes)) for e in (fixes.after, fixes.after_unsafe)]
        if replaced == len(unsafe) and counts[0] == counts[1]:
            line += f", {replaced} of them shorter as an unsafe edit"
        else:
            line += f"; with {_format_count(len(unsafe), 'unsafe edit')}"
            line += f" ({replaced} instead of a safe one)" if replaced else ""
            line += f" graphs {counts[1][0]}, causes {counts[1][1]}"
    found = fixes.call_setting
    if (
        found is not None
        and found.check.ok
        and len(found.explanation.causes) < found.rank_before[0]
    ):
        line += f"; with a setting causes {len(found.explanation.causes)}"
    if count_recompiles(fixes.before):
        line += f"; {_describe_counts(fixes, len(safe), len(unsafe))}"
    return line + end


def describe_end(fixes: FixResult) -> str:
    """Return what was not reached: "the time limit came before the proof of FG301 at net.py:12"."""
    names = [f"{s.rule} at {format_place(s.file, s.line)}" for s in fixes.unproved]
    shown = names if len(names) < 3 else [names[0], f"{len(names) - 1} more"]
    left = [f"the proof of {' and '.join(shown)}"] if names else []
    if fixes.untried:
        left.append(f"an edit of {_format_count(len(fixes.untried), 'cause')} was known")
    if not fixes.ran_compiled and any(s.accepted for s in fixes.suggestions):
        left.append("the edits ran compiled")
    return f"{fixes.ended_by} came before {', and before '.join(left) or 'all was tried'}"


def _describe_counts(fixes: FixResult, safe: int, unsafe: int) -> str:
    """Return the recompiles without and with edits: "3 recompiles → 0 with 1 unsafe edit".

    `safe` and `unsafe` are the numbers of accepted edits. A setting that was found comes after the
    edits if it was tried with them: "3 recompiles → 1 with 2 edits → 0 with a setting". Else it
    comes first: "3 recompiles → 0 with a setting, or → 1 with 2 edits".
    """
    known = count_recompiles(fixes.before)
    edits = ""
    for number, explanation, kind in (
        (safe, fixes.after, "edit"),
        (unsafe, fixes.after_unsafe, "unsafe edit"),
    ):
        if number and count_recompiles(explanation) != known:
            known = count_recompiles(explanation)
            edits += f" → {known} with {_format_count(number, kind)}"
    line = _format_count(count_recompiles(fixes.before), "recompile")
    found = fixes.call_setting
    if found is None or not found.check.ok:
        return line + edits
    setting = f" → {found.after} with a setting"
    if found.before == known:
        return f"{line}{edits}{setting}"
    return f"{line}{setting}{', or' if edits else ''}{edits}"


def plain(fixes: FixResult) -> str:
    """Return `fixes` as text without colour; only code is wider than 80 columns."""
    file = StringIO()
    console = Console(
        file=file, width=WIDTH, color_system=None, force_terminal=False, force_jupyter=False
    )
    render(fixes, console)
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip().split("\n"))


def render(fixes: FixResult, console: Console) -> None:
    """Draw the verdict, every suggestion with its diff and proof, and the unfixed causes."""
    console.print(Group(*_report_blocks(fixes, console)))


def render_diff(diff: str, console: Console) -> None:
    """Draw a unified diff, in colour on a colour terminal; never wrap its lines."""
    if console.color_system is None:
        console.out(diff, end="", highlight=False)
    else:
        console.print(_colored_diff(diff))


def to_dict(fixes: FixResult) -> dict[str, object]:
    """Return `fixes` as JSON-ready data, schema 1."""
    return {
        "schema": 1,
        "torch": fixes.torch,
        "target": fixes.target,
        "verdict": verdict(fixes),
        "before": _graph_counts(fixes.before),
        "after": _graph_counts(fixes.after),
        "after_unsafe": _graph_counts(fixes.after_unsafe),
        "whole": _whole_dict(fixes),
        "recompiles": _recompiles_dict(fixes),
        "compiler_failure": fixes.compiler_failure or None,
        "suggestions": [
            {
                "rule": s.rule,
                "name": s.name,
                "file": s.file,
                "line": s.line,
                "category": s.category,
                "cause": s.cause,
                "why": s.why,
                "applicability": s.applicability.value,
                "assumes": list(s.assumes),
                "accepted": s.accepted,
                "replaced_by": s.replaced_by or None,
                "proof": _proof_dict(s.proof),
                "diff": s.diff,
            }
            for s in fixes.suggestions
        ],
        "unfixed": [
            {
                "cause": u.cause,
                "category": u.category,
                "file": u.file,
                "line": u.line,
                "reason": u.reason,
            }
            for u in fixes.unfixed
        ],
        "diff": fixes.diff(),
        "diff_unsafe": fixes.diff(unsafe=True),
        "ended_by": fixes.ended_by or None,
        "unreached": describe_end(fixes) if fixes.ended_by else None,
    }


def _whole_dict(fixes: FixResult) -> dict[str, object] | None:
    if fixes.whole is None:
        return None
    check = fixes.whole.check
    return {"edits": fixes.whole.edits, "ok": check.ok, "detail": check.detail}


def _recompiles_dict(fixes: FixResult) -> dict[str, object]:
    found = fixes.call_setting
    numbers = [count_recompiles(e) for e in (fixes.before, fixes.after, fixes.after_unsafe)]
    counts: dict[str, object] = dict(zip(("before", "after", "after_unsafe"), numbers, strict=True))
    if found is None:
        return {**counts, "setting": None}
    check = {"ok": found.check.ok, "detail": found.check.detail}
    return {**counts, "setting": {"code": str(found.setting), "after": found.after, **check}}


def describe_setting(fixes: FixResult) -> str:
    """Return the setting that helps, and how much: "`…`: 3 recompiles → 0; compiled …".

    If no setting was found, return "3 recompiles: no setting was found to help.", or "" if no
    recompiles are left.
    """
    left = count_recompiles(fixes.after_unsafe)
    found = fixes.call_setting
    if found is None:
        return f"{_format_count(left, 'recompile')}: no setting was found to help." if left else ""
    (causes, recompiles), after = found.rank_before, found.rank
    counts = [f"{_format_count(causes, 'cause')} → {after[0]}"] if causes != after[0] else []
    if recompiles or not counts:
        counts.append(f"{_format_count(recompiles, 'recompile')} → {after[1]}")
    line = f"`{found.setting}`: {', '.join(counts)}"
    if not found.check.ok:
        return f"{line}, but {found.check.detail}."
    how = "with Inductor" if found.check.name == "inductor" else "compiled"
    return f"{line}; {how} the calls behave as in eager."


def describe_compiler_failure(fixes: FixResult) -> str:
    """Return how the compiler fails both with and without the edits; "" if it does not."""
    if not fixes.compiler_failure:
        return ""
    said = f"A bug of the compiler: {fixes.compiler_failure}, with or without the edits."
    return f"{said} To find the stage: `fullgraph bisect`."


def describe_whole(fixes: FixResult) -> str:
    """Return a sentence on the run with `fullgraph=True`; "" if there was none.

    It begins with the edits that the program had: "No edit needed: …".
    """
    if fixes.whole is None:
        return ""
    use = "torch.compile(model, fullgraph=True)"
    if not fixes.whole.check.ok:
        return f"{use} captures one graph, but {fixes.whole.check.detail}."
    if fixes.whole.check.detail == NOT_RUN:
        captured = f"{use} is one graph ({NOT_RUN})."
    else:
        captured = f"{use} is one graph, and with Inductor it behaves as in eager."
    if fixes.whole.edits == "none":
        return f"No edit needed: {captured}"
    return f"With the {'unsafe' if fixes.whole.edits == 'unsafe' else 'safe'} edits {captured}"


def _graph_counts(explanation: Explanation) -> dict[str, object]:
    """Return the numbers of graphs and causes, and whether `fullgraph=True` works, as JSON data."""
    return {
        "graphs": explanation.default.graphs,
        "causes": len(explanation.causes),
        "fullgraph": explanation.fullgraph.ok,
    }


def _proof_dict(proof: Proof) -> dict[str, object]:
    """Return a proof as JSON-ready data."""
    return {
        "state": proof.state.value,
        "reason": proof.reason,
        "inputs": proof.inputs,
        "branches": [asdict(one) for one in proof.branches],
        "assumes": list(proof.assumes),
        "checks": [{"name": c.name, "ok": c.ok, "detail": c.detail} for c in proof.checks],
    }


def _report_blocks(fixes: FixResult, console: Console) -> Iterator[RenderableType]:
    """Yield the verdict, each suggestion, and the causes not fixed."""
    yield Text(verdict(fixes), style="bold")
    if whole := describe_whole(fixes):
        yield Text(whole, style="green" if fixes.whole and fixes.whole.check.ok else "yellow")
    if setting := describe_setting(fixes):
        yield Text(setting)
    if failure := describe_compiler_failure(fixes):
        yield Text(failure, style="red")
    for suggestion in fixes.suggestions:
        yield Text()
        yield from _suggestion_blocks(suggestion, console)
    captured = [one for one in fixes.unfixed if one.reason == CAPTURED]
    others = [one for one in fixes.unfixed if one.reason != CAPTURED]
    for title, causes in (
        ("Breaks in default mode only (`fullgraph=True` captures them):", captured),
        ("Not fixed:", others),
    ):
        if causes:
            yield Text()
            yield Text(title, style="bold")
        for cause in causes:
            where = format_place(cause.file, cause.line)
            reason = "" if cause in captured else f": {cause.reason}."
            text = f"{where} · {cause.category} · `{cause.cause}`{reason}"
            yield Padding(Text(text), (0, 0, 0, 2))


def _suggestion_blocks(suggestion: Suggestion, console: Console) -> Iterator[RenderableType]:
    """Yield title, reason, assumptions, proof and diff of a suggestion."""
    style = _STYLES[suggestion.applicability]
    place = format_place(suggestion.file, suggestion.line)
    title = f"{suggestion.rule} {suggestion.name} · {place}"
    yield Line(Text(f"{title} · {suggestion.applicability.value}", style=style), align="left")
    yield Text(suggestion.why)
    if suggestion.assumes:
        yield Text(f"Assumes that {', and that '.join(suggestion.assumes)}.", style="yellow")
    yield Text(proof_sentence(suggestion), style="dim")
    if suggestion.replaced_by:
        yield Text(replacement_sentence(suggestion), style="dim")
    if suggestion.diff:
        yield Text()
        yield (
            _colored_diff(suggestion.diff)
            if console.color_system
            else Text(suggestion.diff.rstrip())
        )


def proof_sentence(suggestion: Suggestion) -> str:
    """Return how the proof of a suggestion ended, and on how many inputs it ran."""
    proof = suggestion.proof
    tried = f" on {_format_count(proof.inputs, 'input')}" if proof.inputs else ""
    if proof.state is ProofState.PROVED:
        sides = f" {_branches_sentence(proof)}" if proof.branches else ""
        return f"Proved{tried}: {', '.join(check.name for check in proof.checks)}.{sides}"
    if proof.state is ProofState.TIME_UP:
        return "Not proved yet: the time was up."
    if proof.state is ProofState.NOT_RUN:
        return "An idea, not an edit: it was not tried."
    title = "One side seen" if proof.state is ProofState.ONE_SIDE else "Not proved"
    kept = "" if suggestion.accepted else "; it is not applied"
    return f"{title}{tried}: {proof.reason}{kept}."


def _branches_sentence(proof: Proof) -> str:
    """Return how a proof knows both sides of the conditions: seen, or forced."""
    ways = [how for one in proof.branches for how in (one.true, one.false)]
    if Seen.FORCED not in ways:
        text = "Both branches were taken" if len(ways) == 2 else "All branches were taken"
        return (
            f"{text}, some on inputs that a search found." if Seen.REACHED in ways else f"{text}."
        )
    forced = [
        f"`{one.condition}` was forced to be {str(side).lower()}"
        for one in proof.branches
        for side, how in ((True, one.true), (False, one.false))
        if how is Seen.FORCED
    ]
    return f"{'; '.join(forced)}, which no input did."


def replacement_sentence(suggestion: Suggestion) -> str:
    """Return when a safe edit is written for which the unsafe result has another one."""
    other = suggestion.replaced_by
    return f"Written when only safe edits are allowed; otherwise {other} takes its place."


def _colored_diff(diff: str) -> Syntax:
    return Syntax(diff.rstrip(), "diff", theme="ansi_light", background_color="default")


def format_place(file: str, line: int) -> str:
    """Return "model.py:14", relative to the working directory; "In[3]:14" for a notebook's cell."""
    name = cell_name(file)
    if name is None:
        name = os.path.relpath(file) if Path(file).is_relative_to(Path.cwd()) else file
    return f"{name}:{line}"


def _graph_count(explanation: Explanation) -> str:
    """Return the number of graphs as text; "?" if unknown."""
    graphs = explanation.default.graphs
    return "?" if graphs is None else str(graphs)


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
