import builtins

from rich.console import Console

from fullgraph.diagnose.report.notebook import mimebundle

from .explanations import TWO


def test_both_views_are_in_the_bundle():
    bundle = mimebundle(TWO)
    assert bundle["text/plain"] == str(TWO)
    assert bundle["text/html"].lstrip().startswith('<section class="fullgraph"')


def test_text_is_returned_in_a_notebook_too(monkeypatch, capsys):
    outside = str(TWO)
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "1")  # rich takes this for a notebook
    monkeypatch.setattr(builtins, "get_ipython", object, raising=False)
    assert Console().is_jupyter
    assert str(TWO) == outside
    assert capsys.readouterr().out == ""


def test_ipython_shows_it():
    from IPython.core.formatters import DisplayFormatter

    data, _ = DisplayFormatter().format(TWO)
    assert {"text/plain", "text/html"} <= set(data)
