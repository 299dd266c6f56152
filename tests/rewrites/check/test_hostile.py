"""No file makes the check crash: broken, shuffled and odd sources give findings or one sentence."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fullgraph.rewrites.check import check
from tests.text import block

FIELD = sorted((Path(__file__).parents[3] / "benchmarks/field").glob("*/*.py"))
TEXTS = [path.read_text(encoding="utf-8") for path in FIELD]


@st.composite
def hostile_texts(draw):
    """Return a real file with lines removed, doubled, moved, cut or replaced by odd ones."""
    lines = draw(st.sampled_from(TEXTS)).split("\n")
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(lines) - 1))
        change = draw(st.sampled_from(["drop", "double", "swap", "cut", "odd", "rename"]))
        if change == "drop" and len(lines) > 1:
            del lines[at]
        elif change == "double":
            lines.insert(at, lines[at])
        elif change == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        elif change == "cut":
            lines[at] = lines[at][: draw(st.integers(0, 80))]
        elif change == "rename":
            lines[at] = lines[at].replace(draw(st.sampled_from("xself")), "self")
        else:
            indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
            lines[at] = indent + draw(st.sampled_from(ODD))
    return "\n".join(lines)


ODD = [
    "self = self.forward(self)",
    "x = x[x][x > x][..., None, x:x]",
    "return (yield x)",
    "del x, self",
    "self.forward = lambda *a, **k: self(*a, **k)",
    "for x in x: x += [y for y in x if y]",
    "class C(C): C = C",
    "global x; x = x",
    "from . import *",
    "import torch as self",
    block("""
        match x:
            case [x, *y] if x: pass"""),
    "(x := x.item()) if (x := x.sum()) else max(*x, **x)",
    "while x: x = x if x else not x; continue",
    "with x as self.x, self as (x, y): pass",
    "assert x, f'{x!r:{x}}'",
    "def forward(self, x, *, y: 'Tensor[' = None, **z): return super().forward(x)(x)",
    "x.\ufeff = 1",
    "\x0c",
]


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=hostile_texts())
def test_hostile_files_never_crash(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("hostile") / "model.py"
    path.write_text(text, encoding="utf-8")
    result = check([path], strict=True, fixes=False)
    assert result.files + len(result.unreadable) == 1
