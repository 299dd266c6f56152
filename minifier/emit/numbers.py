"""Shortest text of each element of a tensor."""

from __future__ import annotations

import math
from typing import Any

import torch

from fullgraph.minifier.graphs import element_bytes


def spell_numbers(flat: torch.Tensor) -> list[str]:
    """Return the shortest source for each element of the 1-d tensor `flat`: ["1.0", "0.25"]."""
    if flat.dtype.is_complex:
        real, imaginary = (spell_numbers(part.contiguous()) for part in (flat.real, flat.imag))
        return [_complex_literal(*pair) for pair in zip(real, imaginary, strict=True)]
    values = flat.tolist()
    if not flat.dtype.is_floating_point:
        return [str(value) for value in values]
    texts = [_special_value(value) for value in values]
    for digits in range(1, 18):
        if all(texts):
            break
        tries = [f"{value:.{digits}g}" for value in values]
        again = torch.tensor([float(text) for text in tries], dtype=flat.dtype)
        right = (
            (element_bytes(again) == element_bytes(flat)).reshape(len(values), -1).all(1).tolist()
        )
        texts = [
            text or (_spell_float(one) if ok else "")
            for text, one, ok in zip(texts, tries, right, strict=True)
        ]
    return texts


def plain_number(value: Any, dtype: torch.dtype) -> str:
    """Return a number as source: "3" for 3.0, "0.1" for 0.1.

    Whole numbers below a million have no decimal point. Others have the digits that distinguish
    them in a tensor of `dtype`.
    """
    if float(value).is_integer() and abs(value) < 1e6:
        return str(int(value))
    return spell_numbers(torch.tensor([value], dtype=dtype))[0]


def _special_value(value: float) -> str:
    """Return "torch.nan", "torch.inf" or "-torch.inf"; "" for a finite number."""
    if math.isfinite(value):
        return ""
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    return sign + ("torch.nan" if math.isnan(value) else "torch.inf")


def _spell_float(text: str) -> str:
    """Return the text of a float in Python's style: "1.0" for "1", "3e38" for "3e+38"."""
    text = text.replace("e+", "e")
    return text if any(mark in text for mark in ".e") else f"{text}.0"


def _complex_literal(real: str, imaginary: str) -> str:
    """Return a complex number as source: "1.0+2.0j" for the parts "1.0" and "2.0".

    With NaN, an infinity or -0.0 in it, "complex(…, …)".
    """
    if any(mark in real + imaginary for mark in ("nan", "inf", "-0.0")):
        return f"complex({real}, {imaginary})"
    return f"{real}{'' if imaginary.startswith('-') else '+'}{imaginary}j"
