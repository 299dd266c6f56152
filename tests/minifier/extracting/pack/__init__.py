"""A package of the user's own."""

from tests.minifier.extracting.pack import scaling as scaling

SCALE = 3.0
