"""Small modules as projects write them, each with a break; real files, since `fix` edits source."""

from benchmarks.fix_models import (
    attention,
    augmentation,
    contrastive,
    debugging,
    detection,
    generative,
    graphs,
    guards,
    legacy,
    losses,
    numpy_leftovers,
    recurrent,
    schedulers,
    statistics,
)
from benchmarks.fix_models.case import Case
from benchmarks.models.entry import Built, Entry

CASES: dict[str, Case] = {
    case.name: case
    for room in (
        losses,
        detection,
        schedulers,
        attention,
        contrastive,
        generative,
        augmentation,
        numpy_leftovers,
        legacy,
        debugging,
        guards,
        statistics,
        graphs,
        recurrent,
    )
    for case in room.CASES
}


def _entry(case: Case) -> Entry:
    def make() -> Built:
        model, inputs = case.build()
        return model, inputs, {}

    return Entry(case.repair.value, case.name, make)


ENTRIES = {entry.key: entry for entry in map(_entry, CASES.values())}
"""The same as entries of the zoo, by the survey's class of repair."""
