"""What a run found out is there for the next one, and only for the same program."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from fullgraph.compiler.program import parse_program
from fullgraph.rewrites.fix.kept_answers import KeptAnswers, open_answers

from ..harness import imported

SOURCE = """
import torch

FACTOR = 2


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(2, 2)

    def forward(self, x):
        from later import add

        return add(self.lin(x)) * FACTOR
"""
X = torch.ones(2, 2)


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "later.py").write_text("def add(x):\n    return x + 1\n")
    return imported(SOURCE, tmp_path)


def kept(folder, model, inputs=X, **options):
    torch.manual_seed(0)
    program = parse_program(model() if isinstance(model, type) else model, (inputs,), **options)
    return KeptAnswers(folder / "answers", program)


def test_an_answer_is_found_by_its_question_alone(tmp_path, module):
    first = kept(tmp_path, module.Model)
    assert first.find(("proof", 1)) is None
    first.keep(("proof", 1), [1, 2])
    second = kept(tmp_path, module.Model)
    assert second.find(("proof", 1)) == [1, 2] and second.reused == 1
    assert second.find(("proof", 2)) is None


def test_what_cannot_be_pickled_is_not_kept(tmp_path, module):
    kept(tmp_path, module.Model).keep("question", lambda: 1)
    assert kept(tmp_path, module.Model).find("question") is None


def _edit(module):
    file = Path(module.__file__)
    file.write_text(file.read_text() + "# edited\n")


@pytest.mark.parametrize(
    "change",
    [
        _edit,
        lambda module: Path(module.__file__).with_name("later.py").write_text("add = abs\n"),
        lambda module: setattr(module, "FACTOR", 3),
        lambda module: torch.set_default_dtype(torch.float64),
    ],
    ids=["its file", "a file it imports later", "a global", "a setting of torch"],
)
def test_another_program_has_other_answers(tmp_path, module, change):
    model, dtype = module.Model(), torch.get_default_dtype()
    kept(tmp_path, model).keep("question", 1)
    assert kept(tmp_path, model).find("question") == 1
    try:
        change(module)
        assert kept(tmp_path, model).find("question") is None
    finally:
        torch.set_default_dtype(dtype)


class Holder(torch.nn.Module):
    def __init__(self, act):
        super().__init__()
        self.act = act

    def forward(self, x):
        return self.act(x)


def _scaled(factor):
    return lambda x: (x * factor).sum()


def _shifted(x):
    return x + 1


def _shifted_twice(x):
    return x + 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (torch.nn.Tanh(), torch.nn.Sigmoid()),
        (torch.tanh, torch.sigmoid),
        (functional.relu, functional.silu),
        (_shifted, _shifted_twice),
        (_scaled(1), _scaled(2)),
        (partial(torch.add, other=1), partial(torch.add, other=2)),
        (re.compile("a"), re.compile("b")),
    ],
    ids=["modules", "builtins", "functions", "same code", "closures", "partials", "hidden in C"],
)
def test_what_a_module_holds_tells_it_from_another(tmp_path, first, second):
    kept(tmp_path, Holder(first)).keep("question", 1)
    assert kept(tmp_path, Holder(first)).find("question") == 1
    assert kept(tmp_path, Holder(second)).find("question") is None


def test_another_loss_or_backend_has_other_answers(tmp_path, module):
    model = module.Model()
    kept(tmp_path, model, loss=_scaled(1), backend=_scaled(3)).keep("question", 1)
    assert kept(tmp_path, model, loss=_scaled(1), backend=_scaled(3)).find("question") == 1
    assert kept(tmp_path, model, loss=_scaled(2), backend=_scaled(3)).find("question") is None
    assert kept(tmp_path, model, loss=_scaled(1), backend=_scaled(4)).find("question") is None


def test_code_that_was_loaded_before_its_file_was_edited_has_answers_of_its_own(tmp_path, module):
    file, model = Path(module.__file__), module.Model()
    file.write_text(SOURCE.replace("* FACTOR", "/ FACTOR"))
    kept(tmp_path, model).keep("question", "of the old code")
    namespace = {**vars(module)}
    exec(compile(file.read_text(), str(file), "exec"), vars(module))  # as in a fresh process
    try:
        assert kept(tmp_path, module.Model()).find("question") is None
    finally:
        vars(module).update(namespace)


def test_nothing_is_kept_of_a_program_that_cannot_be_told_from_others(tmp_path, module):
    program = parse_program(Holder(iter(range(3)).__length_hint__), (X,))
    assert open_answers(tmp_path / "answers", parse_program(module.Model(), (X,))) is not None
    assert open_answers(tmp_path / "answers", replace(program, loss=(c for c in "ab"))) is None
    (tmp_path / "file").write_text("")
    assert open_answers(tmp_path / "file", parse_program(module.Model(), (X,))) is None


def test_other_parameters_inputs_and_options_have_other_answers(tmp_path, module):
    model = module.Model()
    kept(tmp_path, model).keep("question", 1)
    assert kept(tmp_path, model, X + 1).find("question") is None
    assert kept(tmp_path, model, dynamic=True).find("question") is None
    with torch.no_grad():
        model.lin.bias += 1
    assert kept(tmp_path, model).find("question") is None


def test_a_file_that_a_kill_has_cut_keeps_what_is_whole(tmp_path, module):
    answers = kept(tmp_path, module.Model)
    answers.keep("first", "a")
    answers.keep("second", "b")
    (file,) = (tmp_path / "answers").iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    again = kept(tmp_path, module.Model)
    assert again.find("first") == "a" and again.find("second") is None
    again.keep("third", "c")
    assert kept(tmp_path, module.Model).find("third") == "c"
