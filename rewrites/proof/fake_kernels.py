"""Check of the fake kernels of the operators that an edit defines."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from fullgraph.compiler.isolation import snapshot
from fullgraph.compiler.private import fake_kernel_error, force_eager, record_operator_calls
from fullgraph.compiler.program import Program
from fullgraph.compiler.sources import read_source
from fullgraph.rewrites.proof.inputs import resize_calls
from fullgraph.rewrites.proof.proof import ProofInput
from fullgraph.rewrites.proof.recorded_runs import run_inputs

CASES, SECONDS = 12, 5.0
"""Limits of the check: input variants of the user's sizes, and the time to start a run."""
_DEFINITION = re.compile(r'\bcustom_op\(\s*"([\w.]+::\w+)"')


def new_operators(base: Mapping[str, str], texts: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the operators that `texts` define and the older texts do not.

    `base` are the older texts by file; a file that it lacks is as on disk.
    """
    return frozenset(
        name
        for file, text in texts.items()
        for name in set(_DEFINITION.findall(text)) - set(_DEFINITION.findall(_old(base, file)))
    )


def find_wrong_fake(
    subject: Program, names: Collection[str], cases: Sequence[ProofInput], special: bool
) -> str:
    """Run the program in eager on input variants, and compare fake kernels with their operators.

    Return the first difference as a sentence; "" if there is none. The operators are those of
    `names`, such as "matcher::assign". The inputs are some of `cases`, and the first call with
    other sizes, where the program may raise. Call this in isolation.
    """
    start = time.monotonic()
    before = snapshot(subject.objects())
    with record_operator_calls(names) as calls:
        for case in [case for case in cases if not case.backward][:CASES]:
            if time.monotonic() - start < SECONDS / 2:
                run_inputs(subject, [case], special, None)
        for resized in resize_calls(subject.calls, least=2):  # a size of 1 may be broadcast
            if time.monotonic() - start < SECONDS:
                with suppress(Exception), force_eager():
                    subject.target(*resized[0].args, **resized[0].kwargs)
                before.restore()
    for call in calls:
        if error := fake_kernel_error(call):
            name = call.operator.name()
            return f"the fake kernel of `{name}` and the operator differ: {error}"
    return ""


def _old(base: Mapping[str, str], file: str) -> str:
    source = read_source(file)
    return base.get(file) or (source.text if source else "")
