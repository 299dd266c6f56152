"""Files that cannot be checked give one sentence each, and the rest is checked."""

import gc
import json
import subprocess
import sys

import pytest

from fullgraph.rewrites.check import check
from fullgraph.rewrites.check.sources import find_files, read_source
from tests.text import block


def test_bad_files_give_one_sentence_each(tmp_path):
    (tmp_path / "good.py").write_text("import torch\n")
    (tmp_path / "syntax.py").write_text("def f(:\n")
    (tmp_path / "latin.py").write_bytes(b"x = '\xe9'\n")
    (tmp_path / "null.py").write_bytes(b"x = 1\0\n")
    (tmp_path / "deep.py").write_text("(" * 5000 + ")" * 5000)
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    (tmp_path / "notebook.ipynb").write_text("{}")
    result = check([tmp_path, tmp_path / "gone.py"])
    assert result.files == 1 and result.exit_code == 0
    assert len(result.unreadable) == 7
    assert all("\n" not in str(one) and one.reason.endswith(".") for one in result.unreadable)


def test_nothing_readable_is_exit_code_2(tmp_path):
    (tmp_path / "syntax.py").write_text("def f(:\n")
    assert check([tmp_path]).exit_code == 2


def test_declared_encoding_and_line_ends(tmp_path):
    path = tmp_path / "latin.py"
    path.write_bytes(b"# coding: latin-1\r\nx = '\xe9'\r\n")
    assert read_source(path).lines == ["# coding: latin-1", "x = 'é'", ""]


def test_each_file_is_read_once(tmp_path):
    (tmp_path / "a.py").write_text("")
    (tmp_path / "link.py").symlink_to(tmp_path / "a.py")
    assert len(find_files([tmp_path, tmp_path / "a.py"]).files) == 1


def test_no_object_stays_frozen(tmp_path):
    """Frozen objects are never collected, and `fix` looks at all of them in each search."""
    tmp_path.joinpath("model.py").write_text("x = 1\n")
    assert not gc.get_freeze_count()
    assert not check([tmp_path]).findings
    assert gc.isenabled() and not gc.get_freeze_count()


def test_a_file_called_torch_is_not_torch(tmp_path):
    (tmp_path / "model.py").write_text(
        block("""
            import torch


            @torch.compile
            def f(x):
                return x * x.sum().item()
        """)
    )
    (tmp_path / "adapters").mkdir()
    (tmp_path / "adapters" / "torch.py").write_text(
        block("""
            def compile(function):
                return None
        """)
    )
    assert [one.line for one in check([tmp_path]).findings] == [6]


def test_cells_of_a_notebook_have_numbers(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": "text"},
        {"cell_type": "code", "source": ["%load_ext x\n", "import torch"]},
        {"cell_type": "code", "source": "!ls\nx = 1\ny = 2"},
        {"cell_type": "code", "source": "%%bash\nls -l"},
    ]
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    source = read_source(path)
    assert [source.place(node.lineno) for node in source.tree.body] == [
        *[(1, 1), (1, 2)],
        *[(2, 1), (2, 2), (2, 3)],
    ]


@pytest.mark.compiles
def test_check_loads_neither_torch_nor_diagnose(tmp_path):
    (tmp_path / "model.py").write_text(
        block("""
            import torch
            class Net(torch.nn.Module):
                def forward(self, x: torch.Tensor):
                    if x.sum() > 0:
                        return x
                    return -x
        """)
    )
    code = (
        "import sys; from fullgraph.cli import main\n"
        f"code = main(['check', {str(tmp_path)!r}])\n"
        "bad = [m for m in sys.modules if m.split('.')[0] == 'torch' or 'diagnose' in m]\n"
        "assert not bad, bad\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
