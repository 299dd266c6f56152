"""Explanations drawn at random: odd text, odd spans, odd references."""

from __future__ import annotations

from hypothesis import strategies as st

from fullgraph.compiler.events import Position
from fullgraph.diagnose.explanation_data import (
    Advice,
    Cause,
    Crash,
    Edit,
    ExplanationData,
    Fallback,
    GraphInfo,
    Measurement,
    Mode,
    Note,
    RecompileInfo,
)

CODE = ["\t", "    ", "x", "日本", "é", "\u202e", "[red]", "</pre>", "\x1b[1m", "`", "f(", "\ud800"]
TEXT = st.text(max_size=30) | st.text("abc d", max_size=120)
LINE = st.lists(st.sampled_from(CODE), max_size=30).map("".join)
SMALL = st.integers(0, 2000)
IDS = st.sampled_from(["C1", "C2", "C3", "C4", "C 5", ""])
MODES = st.lists(st.sampled_from(["default", "fullgraph"]), max_size=2, unique=True).map(tuple)


def tuples(items: st.SearchStrategy, most: int = 3) -> st.SearchStrategy:
    return st.lists(items, max_size=most).map(tuple)


POSITION = st.builds(
    Position,
    file=TEXT | st.just("/usr/lib/python3.11/site-packages/torch/nn/modules/module.py"),
    line=st.integers(1, 6),
    column=st.none() | st.integers(0, 90),
    end_line=st.none() | st.integers(1, 8),
    end_column=st.none() | st.integers(0, 90),
    function=TEXT,
)
ADVICE = st.builds(
    Advice,
    text=TEXT,
    kind=st.sampled_from(["code", "config"]),
    before=TEXT,
    after=TEXT,
    trap=TEXT,
    modes=MODES,
)
EDIT = st.builds(
    Edit,
    rule=st.just("FG101"),
    file=TEXT,
    line=st.integers(1, 6),
    before=tuples(LINE),
    after=tuples(LINE),
    why=TEXT,
    diff=TEXT | LINE.map("@@ -1 +1 @@\n-{}\n+x\n".format),
    applicability=st.sampled_from(["safe", "unsafe", "display"]),
    assumes=tuples(TEXT),
    settings=tuples(TEXT),
    removes=tuples(IDS),
    tried=TEXT,
)
CAUSE = st.builds(
    Cause,
    id=IDS,
    category=TEXT,
    gb_id=st.none() | st.just("GB0001"),
    gb_type=TEXT,
    position=POSITION,
    expression=TEXT,
    source=st.lists(LINE, max_size=7).map(lambda rows: tuple(enumerate(rows, 1))),
    message=TEXT,
    detail=TEXT,
    stack=tuples(POSITION, 4),
    module_path=st.none() | TEXT,
    frame=st.sampled_from(["resumed", "prefix", "skipped"]),
    hidden=st.booleans(),
    behind=st.none() | IDS,
    branch=st.none() | st.just("not taken"),
    modes=MODES,
    events=SMALL,
    graphs=tuples(st.just("G1")),
    ops_before=st.none() | SMALL,
    ops_after=st.none() | SMALL,
    next_graph=st.none() | st.just("G1"),
    state=tuples(TEXT),
    advice=tuples(ADVICE),
    edits=tuples(EDIT, 2),
    url=st.just("") | st.just("https://example.org/gb.html") | TEXT,
    consequences=tuples(TEXT),
)
GRAPH = st.builds(
    GraphInfo,
    id=TEXT,
    compile_id=TEXT,
    function=TEXT,
    file=TEXT,
    line=SMALL,
    ops=SMALL,
    inputs=tuples(TEXT),
    first_line=st.none() | SMALL,
    last_line=st.none() | SMALL,
    ended_by=st.none() | IDS,
    phase=st.sampled_from(["forward", "backward"]),
    splits=st.integers(1, 3),
    targets=tuples(TEXT),
)
MODE = st.builds(Mode, st.none() | SMALL, st.none() | SMALL, st.none() | st.booleans())
SECONDS = st.floats(0, 1e6)
EXPLANATION = st.builds(
    ExplanationData,
    torch=TEXT,
    target=TEXT,
    backend=TEXT,
    verdict=TEXT,
    default=MODE,
    fullgraph=MODE,
    causes=tuples(CAUSE, 7),
    graphs=tuples(GRAPH, 6),
    recompiles=tuples(
        st.builds(
            RecompileInfo,
            TEXT,
            TEXT,
            SMALL,
            SMALL,
            tuples(TEXT),
            tuples(POSITION),
            TEXT,
            tuples(ADVICE),
        )
    ),
    fallbacks=tuples(
        st.builds(Fallback, TEXT, TEXT, SMALL, TEXT, st.none() | TEXT, st.none() | IDS)
    ),
    crashes=tuples(st.builds(Crash, TEXT, TEXT, TEXT, st.none() | POSITION, traceback=TEXT)),
    notes=tuples(st.builds(Note, TEXT, TEXT, st.none() | POSITION)),
    hidden_search=st.sampled_from(["", "nothing new", "rounds", "seconds"]),
    runs=tuples(st.tuples(TEXT, SMALL)),
    output=TEXT,
    measurement=st.none()
    | st.builds(
        Measurement,
        SECONDS,
        SECONDS,
        SECONDS,
        SMALL,
        st.none() | SMALL,
        st.none() | SMALL,
        st.none() | SMALL,
    ),
    compile_seconds=tuples(st.tuples(TEXT, SECONDS)),
    error=st.none() | TEXT,
    complete=st.booleans(),
)
