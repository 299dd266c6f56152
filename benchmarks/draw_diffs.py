"""Draw accepted edits at random from the results of `field.py` and `fix_zoo.py`, for a review.

    python benchmarks/draw_diffs.py OUT.md [--count 50] [--seed 0]

Edits with one text count once. OUT.md has the diffs under the name of the situation or model, with
the rule and its applicability.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def read_diffs() -> Iterator[tuple[str, str, str, str]]:
    """Yield the program's name, the rule's code, the applicability and the text of each edit."""
    for path in sorted([*RESULTS.glob("field-*.jsonl"), *RESULTS.glob("fix-*.jsonl")]):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            for rule, applicability, diff in row.get("diffs", ()):
                yield row.get("name") or row["key"], rule, applicability, diff


def main() -> int:
    """Write the drawn edits; the exit code is 1 if there are fewer than asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT.md")
    parser.add_argument("--count", type=int, default=50, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    options = parser.parse_args()
    found = sorted({one[3]: one for one in read_diffs() if one[3]}.values())
    count = min(options.count, len(found))
    drawn = random.Random(options.seed).sample(found, count)
    parts = [
        f"## {number} {name}: {rule}, {applicability}\n\n```diff\n{diff}```\n"
        for number, (name, rule, applicability, diff) in enumerate(sorted(drawn), 1)
    ]
    options.out.write_text("\n".join(parts))
    print(f"{count} of {len(found)} edits in {options.out}")
    return 0 if count == options.count else 1


if __name__ == "__main__":
    sys.exit(main())
