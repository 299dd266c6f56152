"""Tests of the renderers, on explanations built by hand."""
