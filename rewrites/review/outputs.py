"""`--output FORMAT[:FILE]`: which formats are written, and where to."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fullgraph.compiler.errors import FullgraphError
from fullgraph.rewrites.check.text import render as render_text
from fullgraph.rewrites.review import github, gitlab, rdjson, sarif
from fullgraph.rewrites.review.review import Review


@dataclass(frozen=True)
class Output:
    """One output of a check: its format, and the file to write, None for stdout."""

    format: str
    file: str | None = None


def _text(review: Review) -> str:
    stream = io.StringIO()
    render_text(review.result, color="never", stream=stream)
    return stream.getvalue()


def _json(review: Review) -> str:
    data = review.result.to_dict()
    for finding, remark in zip(data["findings"], review.remarks, strict=True):
        finding["fingerprint"] = remark.fingerprint
    return json.dumps(data, indent=1) + "\n"


FORMATS: Mapping[str, Callable[[Review], str]] = {
    "text": _text,
    "json": _json,
    "sarif": sarif.render,
    "github": github.render,
    "rdjson": rdjson.render,
    "gitlab": gitlab.render,
}


def parse_outputs(texts: Iterable[str]) -> tuple[Output, ...]:
    """Parse outputs written as `FORMAT[:FILE]`; the default is the format "text", to stdout.

    Raises FullgraphError for an unknown format, and for two outputs to one file or to stdout.
    """
    outputs = []
    for text in texts:
        name, colon, file = text.partition(":")
        if name not in FORMATS:
            raise FullgraphError(f"There is no format {name!r}: write {', '.join(FORMATS)}.")
        if colon and not file:
            raise FullgraphError(f"--output {text} names no file: write {name}:FILE or {name}.")
        outputs.append(Output(name, file or None))
    places = [one.file for one in outputs]
    for place in places:
        if places.count(place) > 1:
            shown = place or "stdout"
            raise FullgraphError(f"Two outputs go to {shown}: give one of them another FILE.")
    return tuple(outputs) or (Output("text"),)


def write_outputs(review: Review, outputs: Iterable[Output], color: str = "auto") -> None:
    """Write each output. Raises FullgraphError for a file that cannot be written."""
    for output in outputs:
        if output.file is None and output.format == "text":
            render_text(review.result, color=color)
        elif output.file is None:
            sys.stdout.write(FORMATS[output.format](review))
        else:
            try:
                Path(output.file).write_text(FORMATS[output.format](review), encoding="utf-8")
            except OSError as error:
                raise FullgraphError(
                    f"{output.file} cannot be written: {error.strerror}; give another path."
                ) from None
