"""The command line, as a person meets it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import time
from pathlib import Path

import jsonschema
import pytest
import torch

from fullgraph.cli import main
from fullgraph.diagnose.report import EXPLAIN
from tests.command import fullgraph
from tests.text import block

pytestmark = pytest.mark.compiles

MODEL = """
import time
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        return self.lin(x) * time.time()

class Clean(nn.Module):
    def forward(self, x):
        return x + 1

class NeedsSize(nn.Module):
    def __init__(self, size):
        super().__init__()

def raises(x):
    raise ValueError("no such thing")

def build_clean():
    return Clean(), torch.ones(2)

def make_three():
    return Clean(), torch.ones(2), torch.ones(2)

def make_nothing():
    return 1 / 0

Net_inputs = torch.ones(2, 4)
Clean_inputs = (torch.ones(2),)
NeedsSize_inputs = torch.ones(2)
raises_inputs = {"x": torch.ones(2)}
number = 3
number_inputs = torch.ones(2)
misfit = Clean()
misfit_inputs = (torch.ones(2), torch.ones(2))
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(textwrap.dedent(MODEL))
    return path


def started(*args: object) -> subprocess.CompletedProcess[str]:
    """The command in an interpreter of its own."""
    command = [sys.executable, "-m", "fullgraph", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def in_terminal(*args: object, interrupt_at: str | None = None) -> tuple[int, str]:
    """The exit code and what the command writes to a terminal of 80 columns."""
    main_end, command_end = pty.openpty()
    fcntl.ioctl(command_end, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 80, 0, 0))
    command = [sys.executable, "-m", "fullgraph", *map(str, args)]
    environment = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(
        command, stdin=command_end, stdout=command_end, stderr=command_end, env=environment
    )
    os.close(command_end)
    written = b""
    with contextlib.suppress(OSError):  # EIO: the command has ended
        while chunk := os.read(main_end, 4096):
            written += chunk
            if interrupt_at is not None and interrupt_at.encode() in written:
                process.send_signal(signal.SIGINT)
                interrupt_at = None
    os.close(main_end)
    return process.wait(240), written.decode()


def test_explain_shows_the_cause_at_its_expression(model: Path) -> None:
    done = started("explain", f"{model}:Net")
    assert done.returncode == 0, done.stderr
    assert "Net runs as 2 graphs: 1 break from 1 cause, none hidden;" in done.stdout
    assert "model.py:12  time.time()  clock" in done.stdout
    assert "cannot be traced" not in done.stdout
    assert "\x1b" not in done.stdout
    assert all(line.startswith("fullgraph: importing ") for line in done.stderr.splitlines())


def test_details_of_one_cause_and_of_all(model: Path) -> None:
    one = fullgraph("explain", f"{model}:Net", "--no-unmask", "--cause", "C1").stdout
    every = fullgraph("explain", f"{model}:Net", "--no-unmask", "-v").stdout
    for text in (one, every):
        assert "`time.time()` cannot be traced" in text
        assert "12:30" in re.sub(r"\s+", "", text)  # a long path wraps anywhere
    assert "model.py:12  " in every and "model.py:12  " not in one
    wrong = fullgraph("explain", f"{model}:Net", "--no-unmask", "--cause", "C7")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "fullgraph: There is no cause 'C7': give one of C1.\n",
    )
    assert "C1" in wrong.stdout and "time.time()" in wrong.stdout


def test_quiet_is_the_verdict_alone(model: Path) -> None:
    done = fullgraph("explain", f"{model}:Clean", "-q")
    assert done.stdout.startswith("Clean is one graph of ") and done.stdout.count("\n") <= 2


def test_color_is_forced(model: Path) -> None:
    done = fullgraph("explain", f"{model}:Net", "--no-unmask", "--color", "always", "-v")
    assert "\x1b[1;33m" in done.stdout
    assert "https://meta-pytorch.github.io/compile-graph-break-site/gb/" in done.stdout


def test_a_terminal_shows_one_progress_line_then_the_report_once(model: Path) -> None:
    code, shown = in_terminal("explain", f"{model}:Net")
    assert code == 0
    progress, report = shown.split("\x1b[?25h")  # the cursor comes back with the report
    assert "importing torch …" in progress and "Tracing in default mode …" in progress
    assert "Net runs as 2 graphs: 1 break from 1 cause." in progress
    assert report.count("Net runs as 2 graphs") == 1
    assert "Still looking" not in report and "Looking for hidden" not in report


def test_ctrl_c_leaves_what_was_found(tmp_path: Path) -> None:
    file = tmp_path / "slow.py"
    file.write_text(
        block("""
            import time, torch

            def slow(x):
                time.sleep(2)
                return x + 1

            inputs = torch.ones(2)
        """)
    )
    code, shown = in_terminal("explain", f"{file}:slow", interrupt_at="Tracing with fullgraph")
    report = shown.rpartition("\x1b[?25h")[2]
    assert code == 130
    assert "slow runs as" in report and "time.sleep(2)" in report
    assert "Not finished: what follows was found until then." in report
    assert "Still looking" not in report and "Traceback" not in report


def test_a_model_that_is_one_graph_gets_a_positive_sentence(model: Path) -> None:
    done = fullgraph("explain", f"{model}:Clean", "--exit-nonzero-on-break")
    assert done.returncode == 0
    assert re.match(r"Clean is one graph of \d+ ops? in default mode and under", done.stdout)


def test_fix_after_explain_in_one_process_edits_what_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "explained_then_fixed.py"
    file.write_text(
        block("""
            import torch


            def scale(x):
                if x.sum() > 0:
                    return x * 2
                return x - 1


            inputs = (torch.ones(3),)
        """)
    )
    assert main(["explain", f"{file}:scale", "-q"]) == 0
    assert main(["fix", f"{file}:scale", "-q", "--no-inductor"]) == 0
    assert "1 edit, proved" in capsys.readouterr().out


def test_a_build_function_is_found_by_its_name(model: Path) -> None:
    assert "is one graph" in fullgraph("explain", f"{model}:build_clean").stdout


def test_a_module_is_imported_by_its_dotted_name(model: Path) -> None:
    done = fullgraph("explain", "model:Net", "--no-unmask", cwd=model.parent)
    assert "1 break from 1 cause" in done.stdout


def test_exit_code_1_is_asked_for(model: Path) -> None:
    done = fullgraph("explain", f"{model}:Net", "--no-unmask", "--exit-nonzero-on-break")
    assert done.returncode == 1


def test_json_fits_the_schema_and_nothing_else_is_on_stdout(model: Path) -> None:
    data = json.loads(started("explain", f"{model}:Net", "--json").stdout)
    jsonschema.validate(data, EXPLAIN)
    (cause,) = data["causes"]
    assert (cause["line"], cause["column"], cause["end_column"]) == (12, 29, 40)
    assert data["modes"]["default"] == {"graphs": 2, "breaks": 1} | data["modes"]["default"]


def test_html_and_against(model: Path, tmp_path: Path) -> None:
    saved, page = tmp_path / "saved.json", tmp_path / "report.html"
    saved.write_text(fullgraph("explain", f"{model}:Net", "--json").stdout)
    model.write_text(model.read_text().replace("time.time()", "x.sum().item()"))
    done = fullgraph("explain", f"{model}:Net", "--against", saved, "--html", page)
    assert done.returncode == 0, done.stderr
    assert "1 new cause, 1 gone" in done.stdout
    assert page.read_text().startswith("<!doctype html>")


def test_train_runs_the_backward(model: Path) -> None:
    done = fullgraph("explain", f"{model}:Net", "--train", "--backend", "aot_eager", "--no-unmask")
    assert done.returncode == 0, done.stderr
    assert "1 break" in done.stdout


def test_train_of_a_function_runs_its_backward(tmp_path: Path) -> None:
    file = tmp_path / "scaled.py"
    file.write_text(
        block("""
            import torch

            def scaled(x):
                return x * 2

            inputs = (torch.ones(3, requires_grad=True),)
            inputs[0].register_hook(lambda grad: print('backward ran'))
        """)
    )
    done = fullgraph("explain", f"{file}:scaled", "--train", "--backend", "aot_eager", "--json")
    assert done.returncode == 0, done.stderr
    assert "backward ran" in json.loads(done.stdout)["output"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nowhere.py", "There is no file nowhere.py"),
        ("no.such.module:f", "There is no module named 'no'"),
        ("MODEL:missing", "has no name 'missing'"),
        ("MODEL", "several"),
        ("MODEL:number", "explain needs a module or a function"),
        ("MODEL:NeedsSize", "is a class that needs size"),
        ("MODEL:misfit", "too many positional arguments"),
        ("MODEL:raises", "raises in eager, without torch.compile: ValueError: no such thing"),
        ("MODEL:nn", "Inputs are read from nn_inputs"),
        ("MODEL:make_three", "returned a tuple of 3: put several arguments of one call in a tuple"),
        ("MODEL:make_nothing", "raises ZeroDivisionError: division by zero at MODEL:"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(model: Path, target: str, words: str) -> None:
    done = fullgraph("explain", target.replace("MODEL", str(model)))
    assert done.returncode == 2
    assert words.replace("MODEL", str(model)) in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("explain", "--html", "nowhere/page.html"), "there is no folder nowhere"),
        (("explain", "--facts", "."), ". is a folder: give the path of a file"),
        (("minify", "--out", "nowhere/repro.py"), "there is no folder nowhere"),
        (("fix", "--select", "FG999"), "There is no rule FG999"),
        (("fix", "--ignore", "keep-nothing"), "There is no rule keep-nothing"),
    ],
)
def test_flags_are_refused_before_torch_is_imported(model: Path, flags, words: str) -> None:
    command, *rest = flags
    model.write_text("raise SystemExit('imported')\n")
    code = (
        "import sys; from fullgraph.cli import main; code = main(sys.argv[1:]); "
        "sys.exit(code if 'torch' not in sys.modules else 99)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, command, str(model), *rest],
        capture_output=True,
        text=True,
        cwd=model.parent,
    )
    assert done.returncode == 2, done
    assert words in done.stderr


def test_an_unknown_backend_lists_what_there_is(model: Path) -> None:
    done = started("explain", f"{model}:Net", "--backend", "inducktor")
    assert done.returncode == 2
    assert "There is no backend named 'inducktor'" in done.stderr


def test_a_file_that_does_not_import_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(
        block("""
            x = 1
            raise RuntimeError('not today')
        """)
    )
    done = fullgraph("explain", path)
    assert done.returncode == 2
    assert f"RuntimeError: not today at {path}:2" in done.stderr


def test_a_saved_report_that_is_none_is_refused(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"hello": 1}')
    done = fullgraph("explain", f"{model}:Clean", "--against", other)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_backends_start_with_the_ladder() -> None:
    lines = fullgraph("backends").stdout.splitlines()
    names = [line.split()[0] for line in lines]
    assert names[:4] == ["eager", "aot_eager", "aot_eager_decomp_partition", "inductor"]
    assert set(names) == set(torch.compiler.list_backends(exclude_tags=None))


SCRIPT = """
import sys, time
import torch


def step(x):
    if x.sum() > 0:
        x = x + 1
    return x * 2

compiled = torch.compile(step, backend="eager")
for n in (2, 3, 4):
    print("step", n, compiled(torch.ones(n)).sum().item())
END
"""


def script(folder: Path, end: str) -> Path:
    path = folder / "train.py"
    path.write_text(SCRIPT.replace("END", end))
    return path


def test_run_leaves_the_script_its_output_arguments_and_exit_code(tmp_path: Path) -> None:
    path = script(tmp_path, "print(sys.argv[1:], __name__); sys.exit(7)")
    done = started("run", path, "--lr", "3")
    assert done.returncode == 7
    assert done.stdout.splitlines()[-1] == "['--lr', '3'] __main__"
    assert "train.py:" in done.stderr and "x.sum() > 0" in done.stderr


COUNTS = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        self.steps += 1
        h = self.fc(x)
        if h.sum() > 100:
            h = h * 2
        return h


net = Net()
compiled = torch.compile(net, backend="eager")
for epoch in range(4):
    net.train()
    compiled(torch.ones(2, 3))
    compiled(torch.ones(2, 3))
    net.eval()
    with torch.no_grad():
        compiled(torch.ones(2, 3))
"""


def test_run_of_a_module_under_torchrun_shows_the_counter_that_recompiles_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text(COUNTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = started("run", "--html", "report.html", "-m", "package.train")
    report = done.stderr[done.stderr.index("package.train (rank 1 of 2) runs as 1 graph: 1 br") :]
    _, advice, table, *_ = report.split("\n\n")
    said = " ".join(advice.split())
    assert re.match(r"\d recompiles of forward .*: `self.steps` was 0, now another", said)
    assert "FG852, unsafe" in said and "one version with gradients" in said
    assert table.startswith("▇▇▇|C1|")
    assert "`self.steps` recompiled it at each change." in " ".join(report.split())
    assert "recompile_limit" not in report
    assert (tmp_path / "report-rank1.html").exists()
    missing = started("run", "-m", "no_such_package.train")
    assert missing.returncode == 2 and "There is no module no_such_package.train" in missing.stderr


def test_run_reports_a_script_that_crashes(tmp_path: Path) -> None:
    done = started("run", script(tmp_path, "raise KeyError('lost')"))
    assert done.returncode == 1
    assert "KeyError: 'lost'" in done.stderr
    assert "runpy" not in done.stderr
    assert "data-dependent branch" in done.stderr


def test_run_reports_a_script_that_is_interrupted(tmp_path: Path) -> None:
    path = script(tmp_path, "print('ready', flush=True); time.sleep(100)")
    command = [sys.executable, "-m", "fullgraph", "run", str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        while "ready" not in process.stdout.readline():
            assert process.poll() is None
        time.sleep(0.2)
        os.kill(process.pid, signal.SIGINT)
        errors = process.stderr.read()
    assert process.returncode == 130
    assert "was interrupted" in errors
    assert "data-dependent branch" in errors
