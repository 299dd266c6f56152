"""`fix`: rewrite what an explained run found, prove each rewrite, go on until nothing helps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from fullgraph.compiler.ladder import Backend
from fullgraph.compiler.program import Loss, parse_program
from fullgraph.compiler.sources import index_live_functions
from fullgraph.rewrites.fixes import Fixes
from fullgraph.rewrites.loop import Loop, Step
from fullgraph.rewrites.offers import selected
from fullgraph.rewrites.rule import Applicability, every

ROUNDS, SECONDS = 8, 300.0
"""How long `fix` goes on by default: rounds of edits, and wall time."""


@index_live_functions()
def fix(
    model: Callable[..., Any],
    inputs: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    calls: Sequence[Any] = (),
    loss: Loss = None,
    backend: Backend = "eager",
    mode: str | None = None,
    dynamic: bool | None = None,
    options: Mapping[str, Any] | None = None,
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    inductor: bool = True,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    progress: Callable[[Step], object] | None = None,
) -> Fixes:
    """Rewrite what keeps `model(inputs)` from being one graph, and prove each rewrite.

    Args:
        model, inputs, kwargs, calls, loss, backend, mode, dynamic, options: as `explain` takes
            them; the proof adds inputs of its own.
        select, ignore: codes or names of rules, or beginnings of them.
        inductor: whether the result is also run under Inductor, once.
        rounds, seconds: how long to go on; what was proved until then is kept.
        progress: called with every step.

    Nothing is written: `Fixes.diff()` shows the edits, `Fixes.apply()` writes them, `Fixes.model`
    is a patched copy. Raises FullgraphError for arguments that cannot be called.
    """
    subject = parse_program(
        model,
        inputs,
        kwargs=kwargs,
        calls=calls,
        loss=loss,
        backend=backend,
        mode=mode,
        dynamic=dynamic,
        options=options,
    )
    loop = Loop(subject, selected(every(), select, ignore), rounds, seconds, progress)
    start = loop.begin()
    safe = loop.improved(start, Applicability.SAFE)
    if inductor:
        safe = loop.under_inductor(safe)
    unsafe = loop.improved(safe, Applicability.UNSAFE)
    if inductor and unsafe is not safe:
        unsafe = loop.under_inductor(unsafe)
    loop.try_settings(unsafe)
    return Fixes(
        torch=torch.__version__,
        target=subject.name,
        before=start.explanation,
        after=safe.explanation,
        after_unsafe=unsafe.explanation,
        suggestions=tuple(loop.suggestions()),
        unfixed=tuple(loop.unfixed(unsafe)),
        originals=loop.originals,
        texts=safe.texts,
        texts_unsafe=unsafe.texts,
        subject=subject.target,
    )
