import pytest
import torch

from fullgraph import fix
from tests.rewrites.harness import imported, offered
from tests.text import block

HEAD = "import time\n\nimport torch\n\n\ndef f(x, stats=None):\n"
X = torch.ones(3)
GUARD = "if not torch.compiler.is_compiling():\n    "


def _source(body):
    return HEAD + "".join(f"    {line}\n" for line in [*body.split("\n"), "return x"])


@pytest.mark.parametrize(
    "body",
    [
        "x = x + time.time()",
        block("""
            start = time.time()
            if start > 3:
                x = x + 1"""),
        block("""
            start = time.time()
            x = x * start"""),
        block("""
            start = time.time()
            x = x + 1
            return x, time.time() - start"""),
        block("""
            start = 0
            if stats:
                start = time.time()
            x = x + 1
            print(start)"""),
        block("""
            stats['t'] = time.time()
            x = x + stats['t']"""),
        "stats['t'] = g(time.time())",
        block("""
            stats.append(time.time())
            x = x + stats[0]"""),
        block("""
            stats['t'].append(time.time())
            x = x + len(stats)"""),
        block("""
            stats['t'].append(time.time())
            x = x + stats[name][0]"""),
        block("""
            stats[name].append(time.time())
            x = x + stats['t'][0]"""),
    ],
)
def test_left_alone(body):
    text, _, refusals = offered(_source(body), "time.time()", "clock", rule="FG116")
    assert not text and refusals


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            block("""
                # timed
                start = time.time()
                x = x + 1
                print(time.time() - start)"""),
            f"# timed\n{GUARD}start = time.time()\nx = x + 1\n{GUARD}print(time.time() - start)",
        ),
        (
            block("""
                a = time.time()
                b = time.time() - a
                stats.append(b / 2)"""),
            f"{GUARD}a = time.time()\n    b = time.time() - a\n    stats.append(b / 2)",
        ),
        (
            block("""
                stats['t'].append(time.time())
                x = x + stats['n'][0]"""),
            f"{GUARD}stats['t'].append(time.time())\nx = x + stats['n'][0]",
        ),
        (
            block("""
                a = time.time()
                x = x + 1
                stats.append(time.time() - a)
                if len(stats) > 9:
                    print(sum(stats))"""),
            f"{GUARD}a = time.time()\nx = x + 1\n{GUARD}stats.append(time.time() - a)\n"
            "    if len(stats) > 9:\n        print(sum(stats))",
        ),
    ],
)
def test_fixed(before, after):
    text, _, _ = offered(_source(before), "time.time()", "clock", rule="FG116")
    assert text == _source(after)


MODEL = """import time

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seconds = [0.0]

    def forward(self, x):
        start = time.perf_counter()
        x = x.relu()
        self.seconds[0] += time.perf_counter() - start
        return x
"""


@pytest.mark.compiles
def test_times_of_two_runs_are_no_difference():
    fixes = fix(imported(MODEL).Model(), (X,), select=["FG116"], inductor=False)
    assert fixes.after_unsafe.default.ok, fixes
