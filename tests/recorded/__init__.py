"""Runs of the compiler that tests replay: recorded once, as data beside the tests."""

from tests.recorded.plain import decode, encode
from tests.recorded.runs import (
    RecordedRuns,
    Recording,
    current,
    digest_of,
    merge,
    recorded_for,
    runs_of,
)

__all__ = [
    "RecordedRuns",
    "Recording",
    "current",
    "decode",
    "digest_of",
    "encode",
    "merge",
    "recorded_for",
    "runs_of",
]
