import pytest
import torch

from fullgraph.compiler.observe import FunctionValues
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability
from fullgraph.rewrites.rules.output.fold_warning_filter import RULE
from fullgraph.rewrites.source import parse_document
from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = "import warnings\n\nimport torch\n\n\ndef f(x):\n"
X = torch.ones(3)
CALL = "warnings.simplefilter('ignore')"


@pytest.mark.parametrize("body", ["warnings.warn('a')", "y = warnings.simplefilter('ignore')"])
def test_left_alone(body):
    call = body.partition("= ")[2] or body
    text, _, _ = offered(f"{HEAD}    {body}\n    return x\n", call, "warning", rule="FG115")
    assert not text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            block("""
                with warnings.catch_warnings():
                        warnings.simplefilter('ignore', UserWarning)"""),
            "with warnings.catch_warnings(action='ignore', category=UserWarning):",
        ),
        (
            block("""
                with warnings.catch_warnings():
                        warnings.filterwarnings('error')"""),
            "with warnings.catch_warnings(action='error'):",
        ),
    ],
)
def test_folded(before, after):
    rest = "\n        y = x + 1\n    return y\n"
    outcome = rewritten(f"{HEAD}    {before}{rest}", X)
    assert outcome.source == f"{HEAD}    {after}{rest}"
    assert outcome.rules == ["FG115"] and outcome.applicability == [Applicability.UNSAFE]
    assert outcome.assumes == ["the code runs on Python 3.11 or newer alone"]
    outcome.check(exact=True)


@pytest.mark.parametrize(
    ("required", "level"), [(">=3.11,<4", Applicability.SAFE), (">=3.9", Applicability.UNSAFE)]
)
def test_safe_where_the_project_requires_the_version(tmp_path, required, level):
    (tmp_path / "pyproject.toml").write_text(f'[project]\nrequires-python = "{required}"\n')
    body = f"    with warnings.catch_warnings():\n        {CALL}\n"
    document = parse_document(str(tmp_path / "model.py"), f"{HEAD}{body}        x = x + 1\n")
    call = next(one for one in document.ranges if document.code(one) == CALL)
    edit = RULE.rewrite(Site(document, call, "warning", FunctionValues()))
    assert edit.applicability is level


def test_guarded():
    line = "warnings.filterwarnings('ignore', message='a')"
    outcome = rewritten(f"{HEAD}    {line}\n    return x + 1\n", X)
    guarded = f"if not torch.compiler.is_compiling():\n        {line}"
    assert outcome.source == f"{HEAD}    {guarded}\n    return x + 1\n"
    assert outcome.rules == ["FG115"] and outcome.applicability == [Applicability.UNSAFE]
    outcome.check(exact=True)
