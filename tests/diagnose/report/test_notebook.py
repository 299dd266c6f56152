from fullgraph.diagnose.report.notebook import mimebundle

from .explanations import TWO


def test_both_views_are_in_the_bundle():
    bundle = mimebundle(TWO)
    assert bundle["text/plain"] == repr(TWO)
    assert bundle["text/html"].lstrip().startswith('<section class="fullgraph"')


def test_ipython_shows_it():
    from IPython.core.formatters import DisplayFormatter

    data, _ = DisplayFormatter().format(TWO)
    assert {"text/plain", "text/html"} <= set(data)
