"""A new user's walk: each step gives a report, or one true sentence and exit code 2.

The programs are in `tests/walk`. Every step is a fork of this process, which has loaded torch.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

import fullgraph
import fullgraph.diagnose.explain as explaining
from fullgraph.cli import command_line, main
from fullgraph.compiler.isolation import run_isolated
from fullgraph.diagnose.evidence import Evidence
from fullgraph.diagnose.explanation import Explanation
from fullgraph.waiting import announce
from tests.text import block

pytestmark = pytest.mark.compiles

PROGRAMS = Path(__file__).parent / "walk"
UNTRUE = ("Traceback", "bug in the compiler", "bug of the compiler", "no reason")


def walk(
    *args: object,
    cwd: Path = PROGRAMS,
    before: Callable[[], object] = lambda: None,
    untrue: Sequence[str] = UNTRUE,
) -> tuple[int, str, str]:
    """Run one command; return its exit code, stdout and stderr, neither of them untrue."""

    def job(emit: object) -> tuple[int, str, str]:
        os.chdir(cwd)
        before()
        with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
            try:
                code = main(list(map(str, args)))
            except SystemExit as stop:  # of argparse
                code = int(stop.code or 0)
        return code, output.getvalue(), errors.getvalue()

    outcome = run_isolated(job, where="fork", seconds=120)
    assert outcome.value is not None, outcome
    code, output, errors = outcome.value
    assert output or errors, "silent"
    found = [words for words in untrue if words in output + errors]
    assert not found, (found, output, errors)
    return code, output, errors


def refused(*args: object, cwd: Path = PROGRAMS) -> str:
    """Run a command that must refuse its input; return its one sentence."""
    code, output, errors = walk(*args, cwd=cwd)
    lines = [line for line in errors.splitlines() if "fullgraph: importing " not in line]
    assert code == 2 and not output and len(lines) == 1, (code, output, errors)
    return lines[0]


def one_line(text: str) -> str:
    return " ".join(text.split())


# The first line, and how soon it comes.


def test_a_missing_file_or_name_is_told_before_torch_is_imported() -> None:
    program = block("""
        import sys; from fullgraph.cli import main
        codes = [main(['explain', spec]) for spec in sys.argv[1:]]
        print(codes, 'torch' in sys.modules)""")
    start = time.monotonic()
    specs = ["nowhere.py:Net", str(PROGRAMS / "parallel.py:Nett"), "no.such:module"]
    done = subprocess.run(
        [sys.executable, "-c", program, *specs], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "[2, 2, 2] False\n", done
    assert "There is no file nowhere.py" in done.stderr
    assert "has no name 'Nett'" in done.stderr and "Did you mean Net?" in done.stderr
    assert "There is no module named 'no'" in done.stderr
    assert time.monotonic() - start < 20  # of a busy machine


def test_what_takes_long_is_told_after_a_second(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        block("""
            import time
            time.sleep(1.5)
            model = 3
            inputs = ()
        """)
    )
    _, _, errors = walk("explain", "slow.py", cwd=tmp_path)
    assert errors.splitlines()[0] == "fullgraph: importing slow.py …"
    _, _, errors = walk("bisect", "slow.py", "-q", cwd=tmp_path)
    assert "importing" not in errors


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_told_at_once_on_one_line_that_is_cleared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("COLUMNS", "40")
    with announce(f"importing {'long/' * 20}model.py"):
        (line,) = shown.getvalue().split("\r\x1b[K")[1:]
    assert line.startswith("fullgraph: importing long/") and len(line) == 39
    assert shown.getvalue().endswith("\r\x1b[K")


def test_the_version() -> None:
    code, output, _ = walk("--version")
    assert (code, output) == (0, f"fullgraph {fullgraph.__version__}\n")


# Input that is refused.

REFUSED = {
    "nowhere.py": "There is no file nowhere.py",
    ".": ". is a folder",
    "modules.py:Nett": "Did you mean Net?",
    "modules.py": "several modules (Net, Plain, ",
    "modules.py:number": "needs a module or a function, and got an int",
    "modules.py:misfit": "do not fit Plain(x: 'torch.Tensor')",
    "modules.py:on_meta": "on the meta device and hold no values",
    "modules.py:NeedsSize": "is a class that needs size",
    "modules.py:BadInit": "BadInit() raises KeyError: 'config' at",
    "modules.py:make_nothing": "must return a module or (model, inputs), and returned NoneType",
    "modules.py:make_error": "make_error raises OSError: no weights here at",
    "modules.py:NoInit": "its __init__ does not call super().__init__()",
    "artifacts.py:scripted": "TorchScript has compiled it",
    "artifacts.py:scripted_function": "TorchScript has compiled it",
    "artifacts.py:traced": "TorchScript has compiled it",
    "artifacts.py:exported": "pass its .module()",
    "parallel.py:inputs": "needs a module or a function, and got a Tensor",
    "modules.py:Net --mode nosuch": "no mode 'nosuch'; there are default, ",
    "modules.py:Net --backend nosuch": "There is no backend named 'nosuch'",
    "modules.py:Net --input 3*4": "is no shape: write sizes joined by x",
    "modules.py:Net --input 3x4:float23": "there is no dtype 'float23'; write one of bool",
    "modules.py:Net --against modules.py": "holds no JSON",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_bad_input_is_refused_in_one_sentence(arguments: str) -> None:
    assert REFUSED[arguments] in refused("explain", *arguments.split())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            block("""
                import torch
                raise OSError('not today')
            """),
            "OSError: not today at FILE:2.",
        ),
        ("import no_such_package\n", "ModuleNotFoundError: No module named 'no_such_package' at"),
        ("x = 1\ndef f(:\n", "SyntaxError: invalid syntax at FILE:2."),
        (
            block("""
                import json
                json.loads('{')
            """),
            "at FILE:2.",
        ),
        (
            block("""
                import sys
                sys.exit(1)
            """),
            "exits while it is imported at FILE:2",
        ),
    ],
)
def test_a_file_that_does_not_import_shows_its_exception_once(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "broken.py"
    file.write_text(text)
    said = refused("explain", file)
    assert words.replace("FILE", str(file)) in said
    assert said.count(str(file)) == 2 and said.count("Error: ") <= 1


def test_traceback_shows_where_it_was_raised(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(
        block("""
            def f():
                raise OSError('not today')

            f()
        """)
    )
    program = [sys.executable, "-m", "fullgraph", "explain", str(file), "--traceback"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "Traceback" in done.stderr and 'broken.py", line 2, in f' in done.stderr


def test_traceback_of_a_program_that_raises() -> None:
    _, _, errors = walk("explain", "modules.py:Raises", "--traceback", untrue=UNTRUE[1:])
    assert "Traceback" in errors and "in forward" in errors and "ValueError: no such" in errors


# Programs that fail on their own.

FAILING = {
    "Raises": "raises in eager, without torch.compile: ValueError: no such thing",
    "wrong_shape": "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
    "a_list": "must be Tensor, not list",
    "NoForward": 'is missing the required "forward" function',
    "Exits": "ends the process in eager, without torch.compile, by SystemExit(3)",
    "ExitsAtOnce": "ends the process in eager, without torch.compile, by exit code 4",
    "Interrupts": "raises in eager, without torch.compile: KeyboardInterrupt",
    "OutOfMemory": "can't allocate memory",
}


@pytest.mark.parametrize("name", FAILING)
def test_a_program_that_fails_in_eager_is_not_the_compilers_fault(name: str) -> None:
    code, output, errors = walk("explain", f"modules.py:{name}")
    assert code == 2
    assert FAILING[name] in errors and FAILING[name] in one_line(output)


def test_a_forward_that_never_returns_ends_with_what_was_found() -> None:
    start = time.monotonic()
    code, output, errors = walk("explain", "modules.py:Never", "--seconds", "3")
    assert code == 2 and time.monotonic() - start < 25
    assert "Never does not return within" in errors
    assert 'print("begun")' in output


# Programs that are explained.

EXPLAINED = {
    "modules.py:Net": "print(x.shape)",
    "modules.py:halve": "<lambda>",
    "modules.py:made": "<string>:2",
    "modules.py:OwnCall": 'print("called")',
    "modules.py:all_meta": "one graph",
    "modules.py:make_model": "print(x.shape)",
    "modules.py:make_pair": "print(x.shape)",
    "artifacts.py:exported_module": "one graph",
    "artifacts.py:quantized": "Sequential runs in eager",
    "artifacts.py:compiled": "one graph",
    "artifacts.py:compiled_function": "one graph",
    "modules.py:Plain --input 3x4": "one graph",
    "modules.py:NeedsInts --input 3:int64 --input 3x4": "one graph",
    "parallel.py:ddp": "print(x.shape)",
    "parallel.py:fsdp": "print(x.shape)",
}


@pytest.mark.parametrize("arguments", EXPLAINED)
def test_a_program_of_any_kind_is_explained(arguments: str) -> None:
    code, output, errors = walk("explain", *arguments.split(), "--rounds", "1")
    assert code == 0, errors
    assert EXPLAINED[arguments] in output


def test_a_class_in_a_zip_is_explained(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "library.zip", "w") as archive:
        archive.write(PROGRAMS / "modules.py", "zipped.py")
    (tmp_path / "use.py").write_text(
        block("""
            import sys; sys.path.insert(0, 'library.zip')
            from zipped import Net, inputs
            model = Net()
        """)
    )
    code, output, _ = walk("explain", "use.py", cwd=tmp_path)
    assert code == 0 and "print(x.shape)" in one_line(output)
    _, output, _ = walk("fix", "use.py", cwd=tmp_path)
    assert "torch or in Python itself" not in one_line(output)


def test_a_megabyte_of_prints_shows_its_first_and_last_lines() -> None:
    _, output, _ = walk("explain", "modules.py:Megabyte", "--no-unmask", "-v")
    assert "line 0 of much text" in output and "line 19999 of much text" in output
    assert len(output.splitlines()) < 150


def test_paths_links_and_spaces_may_be_anything(tmp_path: Path) -> None:
    folder = tmp_path / "модель ñ"
    folder.mkdir()
    shutil.copy(PROGRAMS / "modules.py", folder / "größe 1.py")
    (tmp_path / "link.py").symlink_to(folder / "größe 1.py")
    for file in (folder / "größe 1.py", tmp_path / "link.py"):
        code, output, _ = walk("explain", f"{file}:Net", "--no-unmask")
        assert code == 0 and "print(x.shape)" in output


# Other commands.


def test_bisect_where_nothing_fails_is_a_success_and_says_so_once() -> None:
    code, output, errors = walk("bisect", "modules.py:Plain", "--backend", "aot_eager", "-q")
    assert code == 0 and not errors
    assert output.count("Nothing fails") == 1


@pytest.mark.parametrize("command", ["bisect", "minify"])
@pytest.mark.parametrize(
    ("name", "words"),
    [("Exits", "it raises SystemExit: 3"), ("Raises", "fails in eager already (ValueError")],
)
def test_a_program_that_fails_on_its_own_has_no_failing_rung(
    command: str, name: str, words: str
) -> None:
    code, output, errors = walk(command, f"modules.py:{name}", "--backend", "aot_eager", "-q")
    assert code == 2 and words in output + errors


def test_select_says_which_rules_it_leaves_out() -> None:
    _, output, _ = walk("fix", "modules.py:Net", "--select", "FG3", "--no-inductor")
    assert "FG112" in output and "may apply, and the selection of rules" in one_line(output)
    assert "There is no rule FG99" in refused("fix", "modules.py:Net", "--select", "FG99")


def test_fix_ends_in_time_and_says_so() -> None:
    start = time.monotonic()
    code, output, _ = walk("fix", "modules.py:Slow", "--seconds", "6")
    assert code == 0 and time.monotonic() - start < 30
    assert "the time limit ended the search before" in one_line(output)


def test_run_says_what_was_compiled_and_what_stayed_outside() -> None:
    _, _, errors = walk("run", "no_compile.py")
    assert "no_compile.py compiles nothing: it does not apply torch.compile" in one_line(errors)
    _, _, errors = walk("run", "never_calls.py")
    assert "never calls what torch.compile returns" in one_line(errors)
    assert "`step` (never_calls.py:4) was compiled, and never called." in one_line(errors)
    _, _, errors = walk("run", "trains.py")
    said = one_line(errors)
    assert "trains.py compiles Linear: 1 graph, no graph break, 1 recompile" in said
    assert re.search(
        r"`Linear` \(linear.py:\d+\): 3 calls in .* 2 graphs compiled, 1 recompile,", said
    )
    assert "passed outside of compiled functions, most at trains.py:10 `loss = mse_loss" in said
    assert "sees all of it" not in said


def test_run_attributes_graphs_to_each_compiled_function() -> None:
    code, output, errors = walk("run", "--json", "breaks.py")
    assert (code, errors) == (0, "") and output.startswith("step\nstep\nstep\n{")
    report = json.loads(output[output.index("{") :])
    notes = [note["message"] for note in report["notes"] if note["kind"] == "compiled"]
    assert [note.split(" in ")[0] for note in notes] == [
        "`step` (breaks.py:4): 3 calls",
        "`helper` (breaks.py:10): 3 calls",
    ]


@pytest.mark.parametrize("command", ["explain", "fix"])
def test_ctrl_c_prints_what_was_found(command: str) -> None:
    def interrupt() -> None:
        """Interrupt the command soon after it has explained the first cause."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        compose, timers = explaining.compose_explanation, []

        def composed(evidence: Evidence) -> Explanation:
            found = compose(evidence)
            if found.causes and not timers:
                timers.append(threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)))
                timers[0].start()
            return found

        explaining.compose_explanation = composed

    code, output, errors = walk(command, "modules.py:Slower", before=interrupt)
    assert code == 130 and "fullgraph: interrupted." in errors
    assert "print(x.shape)" in output


def git(folder: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "core.autocrlf=false")
    return subprocess.run(["git", *who, *args], cwd=folder, capture_output=True, timeout=60)


CAST = block("""
    import torch


    class Cast(torch.nn.Module):
        def forward(self, x):
            self.total = x.sum().item()
            return x * 2


    inputs = torch.ones(3)
""")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "cast.py").write_text(CAST)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


WRITE = ("fix", "cast.py:Cast", "--write", "--unsafe", "--no-inductor")


def test_write_edits_a_clean_file_through_a_link(repository: Path) -> None:
    (repository / "link.py").symlink_to("cast.py")
    code, output, errors = walk("fix", "link.py:Cast", *WRITE[2:], cwd=repository)
    assert code == 0 and "fullgraph: wrote" in errors and "FG201" in output
    assert ".item()" not in (repository / "cast.py").read_text()
    assert (repository / "link.py").is_symlink()


def test_write_refuses_before_the_work(repository: Path, tmp_path_factory: object) -> None:
    file = repository / "cast.py"
    file.chmod(0o444)
    assert "cannot be written: it is read-only" in refused(*WRITE, cwd=repository)
    file.chmod(0o644)
    file.write_text(CAST + "# mine\n")
    assert "has uncommitted changes" in refused(*WRITE, cwd=repository)
    elsewhere = repository / "sub"
    elsewhere.mkdir()
    said = refused("fix", "../cast.py:Cast", *WRITE[2:], cwd=elsewhere)
    assert "is not under" in said
    assert file.read_text() == CAST + "# mine\n"


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.replace("    ", "\t").encode(),
        lambda text: text.rstrip("\n").encode(),
    ],
    ids=["CRLF", "BOM", "tabs", "no newline at the end"],
)
def test_git_applies_the_diff(repository: Path, encode: object) -> None:
    assert callable(encode)
    file = repository / "cast.py"
    file.write_bytes(encode(CAST))
    code, diff, _ = walk("fix", "cast.py:Cast", "--diff", *WRITE[3:], cwd=repository)
    assert code == 1
    patch = repository / "edit.patch"
    patch.write_bytes(diff.encode())
    applied = git(repository, "apply", "--whitespace=nowarn", "edit.patch")
    assert applied.returncode == 0, (applied.stderr, diff)
    assert b".item()" not in file.read_bytes()
    assert (b"\r\n" in file.read_bytes()) == (b"\r\n" in encode(CAST))


# The command line itself.


def test_every_command_and_flag_has_help_and_an_example() -> None:
    _, commands = command_line()
    for name, parser in commands.items():
        assert f"fullgraph {name}" in (parser.epilog or ""), name
        assert parser.description, name
        for action in parser._actions:
            assert action.help, (name, action.dest)
        if name not in ("run", "rule", "backends", "completion"):
            assert "--traceback" in parser.format_help()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command_and_flag(shell: str) -> None:
    code, script, _ = walk("completion", shell)
    _, commands = command_line()
    assert code == 0
    for parser in commands.values():
        for action in parser._actions:
            for flag in action.option_strings:
                assert flag.lstrip("-") in script
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True)
        assert checked.returncode == 0, checked.stderr


def test_bash_completes_a_flag(tmp_path: Path) -> None:
    _, script, _ = walk("completion", "bash")
    ask = (
        'COMP_WORDS=(fullgraph fix model.py --no-i); COMP_CWORD=3; _fullgraph; echo "$COMPREPLY"\n'
        'COMP_WORDS=(fullgraph ex); COMP_CWORD=1; _fullgraph; echo "$COMPREPLY"\n'
    )
    done = subprocess.run(["bash"], input=f"{script}\n{ask}", text=True, capture_output=True)
    assert done.stdout.split() == ["--no-inductor", "explain"], done.stderr


def test_pyproject_holds_defaults_of_flags(tmp_path: Path) -> None:
    shutil.copy(PROGRAMS / "modules.py", tmp_path)
    project = tmp_path / "pyproject.toml"
    project.write_text("[tool.fullgraph.explain]\nexit-nonzero-on-break = true\nno-unmask = true\n")
    code, _, _ = walk("explain", "modules.py:Net", cwd=tmp_path)
    assert code == 1
    project.write_text(
        block("""
            [tool.fullgraph]
            json = true
            rounds = 1
        """)
    )
    _, output, _ = walk("explain", "modules.py:Plain", cwd=tmp_path)
    assert json.loads(output)["schema"] == 1
    for text, words in {
        "second = 3": "has the key 'second', which is no flag: did you mean seconds?",
        "rounds = 'many'": "rounds is 'many', and must be a whole number",
        "color = 'pink'": "must be one of auto, always, never",
        "json": "cannot be read",
    }.items():
        project.write_text(f"[tool.fullgraph]\n{text}\n")
        assert words in refused("explain", "modules.py:Plain", cwd=tmp_path)
