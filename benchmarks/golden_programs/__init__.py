"""The examples of the rules' pages as programs that run; real files, since `fix` edits source."""

from benchmarks.golden_programs import (
    arrays,
    asserts,
    branches,
    collectives,
    language,
    legacy,
    masks,
    output,
    randomness,
    scalars,
    settings,
    shapes,
)
from benchmarks.golden_programs.program import Program

PROGRAMS: dict[str, Program] = {
    program.key: program
    for topic in (
        asserts,
        output,
        scalars,
        shapes,
        arrays,
        branches,
        masks,
        collectives,
        legacy,
        randomness,
        language,
        settings,
    )
    for program in topic.PROGRAMS
}
