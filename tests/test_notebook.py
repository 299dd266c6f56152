"""Run a real notebook, all cells in one kernel: the tour of examples/, then what it leaves out."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import runpy
import textwrap
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from examples import four_suspects
from fullgraph.cli import main
from fullgraph.compiler.isolation import run_isolated
from tests.text import block

pytestmark = [pytest.mark.slow, pytest.mark.compiles]

ROOT = Path(__file__).parent.parent
TOUR = ROOT / "examples" / "tour.ipynb"
SUSPECTS = ROOT / "examples" / "four_suspects.py"
NETWORK = textwrap.dedent(inspect.getsource(four_suspects.Net))
TO_JSON = block("""
    import json
    print(json.dumps({}.to_dict()))""")
EXPLAIN = block("""
    import fullgraph
    explanation = fullgraph.explain(*build())""")
SETUP = """
def wrong(graph, inputs):
    return lambda *args: tuple(out + 1 for out in graph(*args))


def wave(x):
    return (x.sin() + 1).cos()
"""
FAILURES = {
    "bisect": block("""
        bisection = fullgraph.bisect(wave, x, backend=wrong)
        bisection"""),
    "minify": block("""
        minified = fullgraph.minify(wave, x, backend=wrong)
        minified"""),
}
RESULTS = ("explanation", "fixes", "bisection", "minified", "report(compiled)")
CELLS = {
    "json of fix": TO_JSON.format("fixes"),
    "setup": SETUP,
    **FAILURES,
    "error": block("""
        try:
            fullgraph.explain(model, {'nosuch': 1})
        except fullgraph.FullgraphError:
            pass"""),
    "apply": block("""
        try:
            fixes.apply()
        except fullgraph.FullgraphError as error:
            print(error)"""),
    "file in one cell": SUSPECTS.read_text(),
    "explain file": EXPLAIN,
    "json of file": TO_JSON.format("explanation"),
    "class alone": NETWORK,
    "explain class": EXPLAIN,
    "json of class": TO_JSON.format("explanation"),
    **{f"str {result}": f"text = str({result})" for result in RESULTS},
    **{f"print {result}": f"print({result})" for result in RESULTS},
    **{f"repr {result}": f"print(repr({result}))" for result in RESULTS},
}


@pytest.fixture(scope="module")
def outputs() -> dict[str, list[Any]]:
    """Return the outputs of each cell by name, without those that show nothing."""
    notebook = nbformat.read(TOUR, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "the tour is kept without them"
    names = [cell.id for cell in notebook.cells] + list(CELLS)
    notebook.cells += [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": ROOT}}).execute()
    return {
        name: [output for output in cell.get("outputs", ()) if not is_cleared(output)]
        for name, cell in zip(names, notebook.cells, strict=True)
    }


def is_cleared(output: Any) -> bool:
    """Whether an output shows nothing: what the progress line leaves."""
    return output.output_type == "display_data" and output.data == {}


@pytest.mark.parametrize("cell", ["explain", "fix", "whole", "compile", *FAILURES])
def test_a_result_is_one_html_view(outputs: dict[str, list[Any]], cell: str) -> None:
    (output,) = outputs[cell]
    assert output.output_type == "execute_result"
    html, text = output.data["text/html"], output.data["text/plain"]
    assert html.lstrip().startswith('<section class="fullgraph"')
    assert "ipykernel" not in html + text
    assert "object at 0x" not in html


def test_the_tour_ends_with_one_graph(outputs: dict[str, list[Any]]) -> None:
    assert "1 graph on inductor" in outputs["compile"][0].data["text/plain"]


def test_a_cell_is_named_as_the_notebook_names_it(outputs: dict[str, list[Any]]) -> None:
    for cell in ("explain", "fix"):
        assert "In[1]:13" in outputs[cell][0].data["text/plain"]


def test_a_cell_is_not_written(outputs: dict[str, list[Any]]) -> None:
    (output,) = outputs["apply"]
    assert output.text.startswith(
        "In[1] is a cell of a notebook, not a file: copy the edit into it"
    )


def test_work_and_errors_leave_no_output(outputs: dict[str, list[Any]]) -> None:
    for cell in ("explain class", "error"):
        assert outputs[cell] == []


@pytest.mark.parametrize("result", RESULTS)
def test_str_and_print_give_the_text_and_repr_is_short(
    outputs: dict[str, list[Any]], result: str
) -> None:
    assert outputs[f"str {result}"] == []
    (printed,) = outputs[f"print {result}"]
    assert printed.name == "stdout" and len(printed.text) > 20
    (shown,) = outputs[f"repr {result}"]
    assert shown.text.startswith("<") and len(shown.text) < 300 and shown.text.count("\n") == 1


# Script, command line and notebook.


def test_the_suspects_get_the_same_edits_everywhere(
    outputs: dict[str, list[Any]], tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    begin = SUSPECTS.read_text()
    script.write_text(f"{begin}\n\nif __name__ == '__main__':\n{textwrap.indent(EXPLAIN, ' ')}")
    expected = causes(command("explain", f"{SUSPECTS}:build", "--json"))
    assert [cause[1] for cause in expected] == ["scalar extraction", "print / logging"]
    assert all(cause[-1] for cause in expected)
    assert causes(of_script(script)) == expected
    assert causes(shown(outputs["json of file"])) == expected
    first = SUSPECTS.read_text().splitlines().index("class Net(nn.Module):")
    assert causes(shown(outputs["json of class"]), above=first) == expected


def test_fix_makes_the_same_edits_of_a_cell_and_a_file(
    outputs: dict[str, list[Any]], tmp_path: Path
) -> None:
    cells = {cell.id: cell.source for cell in nbformat.read(TOUR, as_version=4).cells}
    file = tmp_path / "network.py"
    file.write_text(f"{cells['network']}\n\n\ndef build():\n    return model, x\n")
    expected = suggestions(command("fix", f"{file}:build", "--json"))
    assert [one[0] for one in expected if one[3]] == ["FG301", "FG201"]
    assert suggestions(shown(outputs["json of fix"])) == expected


def command(*args: str) -> dict[str, Any]:
    """Return the JSON of a command that ran in a fork of this process."""

    def run(emit: object) -> str:
        with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()):
            main(list(args))
        return output.getvalue()

    return parsed(run_isolated(run, where="fork", seconds=120).value)


def of_script(file: Path) -> dict[str, Any]:
    """Return the explanation that a script makes, as JSON."""

    def run(emit: object) -> str:
        os.chdir(file.parent)
        names = runpy.run_path(str(file), run_name="__main__")
        return json.dumps(names["explanation"].to_dict())

    return parsed(run_isolated(run, where="fork", seconds=120).value)


def shown(cell: list[Any]) -> dict[str, Any]:
    (output,) = cell
    return parsed(output.text)


def parsed(text: str | None) -> dict[str, Any]:
    assert text is not None
    data: dict[str, Any] = json.loads(text)
    return data


def causes(data: Mapping[str, Any], above: int = 0) -> list[list[Any]]:
    """Return place and edits of each cause; `above` lines of the file are not in the cell."""
    keys = ("id", "category", "column", "expression", "modes", "frame")
    return [
        [
            *(cause[key] for key in keys),
            cause["line"] + above,
            [edit(one) for one in cause["edits"]],
        ]
        for cause in data["causes"]
    ]


def edit(data: Mapping[str, Any]) -> list[Any]:
    """Return what an edit is, without the name of an operator, which holds that of its file."""
    keys = ("rule", "applicability", "before", "assumes", "settings", "removes")
    return [*(data[key] for key in keys), [_without_file(line) for line in data["after"] if line]]


def _without_file(line: str) -> str:
    return re.sub(r'"\w+::\w*report_forward"', '"report_forward"', line)


def suggestions(data: Mapping[str, Any]) -> list[list[Any]]:
    keys = ("rule", "line", "applicability", "accepted", "assumes")
    return [
        [*(one[key] for key in keys), one["proof"]["state"], one["diff"].partition("@@")[2]]
        for one in data["suggestions"]
    ]
