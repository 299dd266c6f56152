"""Scripts of PyTorch's own minifier, written by it for an injected bug."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch._functorch.config as functorch
import torch._inductor.config as inductor

from fullgraph import FullgraphError, bisect
from fullgraph.cli import main
from fullgraph.compiler.isolation import compiler_environment, preload_inductor
from fullgraph.minifier.repro.pytorch_scripts import Loaded, load

pytestmark = pytest.mark.compiles

AFTER_AOT = {"TORCHDYNAMO_REPRO_AFTER": "aot"}
AFTER_DYNAMO = {"TORCHDYNAMO_REPRO_AFTER": "dynamo"}
MADE = {
    "aot": (["accuracy"], {**AFTER_AOT, "TORCHDYNAMO_REPRO_LEVEL": "4"}),
    "symbolic": (["compile_error", "dynamic"], {**AFTER_AOT, "TORCHDYNAMO_REPRO_LEVEL": "2"}),
    "dynamo": (["compile_error", "grad"], {**AFTER_DYNAMO, "TORCHDYNAMO_REPRO_LEVEL": "2"}),
    "runnable": (["accuracy"], {"TORCH_COMPILE_DEBUG": "1", "TORCHINDUCTOR_FREEZING": "0"}),
    "ranks": (["accuracy", "ranks"], {"TORCH_COMPILE_DEBUG": "1"}),
}
"""Arguments of failing_network.py and the environment, by the kind of script."""

Made = Callable[[str], Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A folder in which PyTorch wrote its scripts for a kind of failure; all workers share it."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent

    @functools.cache
    def make(kind: str) -> Path:
        folder = root / f"made-{kind}"
        with open(root / f"{kind}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                folder.mkdir()
                write(kind, folder)
        return folder

    def write(kind: str, folder: Path) -> None:
        arguments, environment = MADE[kind]
        built = shutil.ignore_patterns("fxgraph", "aotautograd")  # as a user's machine has it
        known = {} if kind == "runnable" else compiler_environment()  # whose settings are looked at
        shutil.copytree(preload_inductor(), folder / "cache", ignore=built)
        subprocess.run(
            [
                sys.executable,
                str(Path(__file__).parent.with_name("failing_network.py")),
                *arguments,
            ],
            cwd=folder,
            env={
                **os.environ,
                **environment,
                **known,
                "TORCH_COMPILE_DEBUG_DIR": str(folder),
                "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
                "TORCHINDUCTOR_COMPILE_THREADS": "1",
            },
            capture_output=True,
        )

    return make


def the(name: str, folder: Path) -> Path:
    return next(folder.rglob(name))


def loaded(path: Path) -> Loaded:
    found = load(path)
    assert found is not None
    return found


def first_failing(found: Loaded) -> str | None:
    with found.in_force():
        return bisect(found.module, found.inputs, inside=False, **found.options).first_failing


def edited(path: Path, tmp_path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert old in text
    copy = tmp_path / "repro.py"
    copy.write_text(text.replace(old, new))
    return copy


def test_any_other_file_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("raise SystemExit('run_repro')\n")
    assert load(file) is None
    assert load(tmp_path / "nothing.py") is None


@pytest.mark.slow
def test_a_launcher_after_dynamo(made: Made) -> None:
    found = loaded(the("minifier_launcher.py", made("dynamo")))
    assert (found.repro_after, found.backend, found.accuracy) == ("dynamo", "inductor", False)
    assert found.grad and found.loss and not found.notes
    assert [tuple(x.shape) for x in found.inputs] == [(4, 4), (4,), (3, 4), (4,), (4,)]
    assert [x.requires_grad for x in found.inputs] == [True, True, False, True, True]
    torch.manual_seed(0)
    assert torch.equal(found.inputs[0], torch.nn.Linear(4, 4).weight)
    assert first_failing(found) == "inductor"


@pytest.mark.slow
def test_a_launcher_after_aot(made: Made) -> None:
    found = loaded(the("minifier_launcher.py", made("aot")))
    assert (found.repro_after, found.accuracy) == ("aot", True)
    assert not found.grad and not found.loss and not found.notes
    assert first_failing(found) == "inductor"


def test_a_repro_whose_folder_is_gone(made: Made, tmp_path: Path) -> None:
    original = made("aot") / "repro.py"
    repro = edited(original, tmp_path, str(the("checkpoints", made("aot"))), "/gone/checkpoints")
    found = loaded(repro)
    assert found.notes == (
        "The values of 5 inputs are missing in /gone/checkpoints: PyTorch's rule makes random "
        "numbers, and zeros where they are integers.",
    )
    assert not torch.equal(found.inputs[0], loaded(original).inputs[0])
    assert torch.equal(found.inputs[0], loaded(repro).inputs[0])


def test_a_repro_that_was_moved_with_its_folder(made: Made, tmp_path: Path) -> None:
    original, folder = made("aot") / "repro.py", the("checkpoints", made("aot"))
    repro = edited(original, tmp_path, str(folder), "/gone/checkpoints")
    (tmp_path / "checkpoints").symlink_to(folder)
    found = loaded(repro)
    assert not found.notes
    assert torch.equal(found.inputs[0], loaded(original).inputs[0])


@pytest.mark.slow
def test_sizes_that_are_inputs(made: Made) -> None:
    found = loaded(the("minifier_launcher.py", made("symbolic")))
    assert found.dynamic is True
    assert 3 in [x for x in found.inputs if isinstance(x, int)]
    assert len(found.notes) == 1 and "not saved with the script" in found.notes[0]
    assert first_failing(found) == "inductor"


@pytest.mark.slow
def test_the_command_takes_fx_graph_runnable(
    made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    script = the("fx_graph_runnable.py", made("runnable"))
    assert main(["bisect", str(script), "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["first_failing"] == "inductor"
    assert "relu" in json.loads(told.out)["culprit"]
    assert "not saved with the script" in told.err
    assert inductor.cpp.inject_relu_bug_TESTING_ONLY is None


@pytest.mark.slow
def test_its_process_groups_are_there_while_it_is_in_force(made: Made) -> None:
    found = loaded(the("fx_graph_runnable.py", made("ranks")))
    assert found.groups == {"0": {"size": 2, "rank": 1}}
    assert not torch.distributed.is_initialized()
    assert first_failing(found) == "inductor"
    assert not torch.distributed.is_initialized()


def test_nothing_of_this_process_changes_and_nothing_is_written(made: Made) -> None:
    folder = made("aot")
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    before = (dict(os.environ), inductor.get_config_copy(), functorch.get_config_copy())
    states = torch.get_rng_state(), random.getstate()
    with loaded(folder / "repro.py").in_force():
        assert inductor.cpp.inject_relu_bug_TESTING_ONLY == "accuracy"
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()
    assert before == (dict(os.environ), inductor.get_config_copy(), functorch.get_config_copy())
    assert torch.equal(states[0], torch.get_rng_state()) and states[1] == random.getstate()
    assert files == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_settings_that_torch_reads_from_the_environment(made: Made, tmp_path: Path) -> None:
    script = the("fx_graph_runnable.py", made("runnable"))
    name = "os.environ['TORCHINDUCTOR_FREEZING'] = "
    found = loaded(edited(script, tmp_path, f"{name}'0'", f"{name}'1'"))
    assert found.settings["torch._inductor.config"] == {
        "cpp.inject_relu_bug_TESTING_ONLY": "accuracy",
        "freezing": True,
    }
    with found.in_force():
        assert inductor.freezing and os.environ["TORCHINDUCTOR_FREEZING"] == "1"
    assert not inductor.freezing and "TORCHINDUCTOR_FREEZING" not in os.environ


def test_autocast_and_another_backend(made: Made, tmp_path: Path) -> None:
    script = the("minifier_launcher.py", made("dynamo"))
    old = "autocast=False, backend='inductor'"
    found = loaded(edited(script, tmp_path, old, "autocast=True, backend='aot_eager'"))
    assert (found.autocast, found.backend) == ("cpu", "aot_eager")
    with found.in_force():
        assert torch.is_autocast_enabled("cpu")
        assert found.module(*found.inputs)[0].dtype is torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")


def test_inputs_of_equal_values_are_not_the_same_memory(made: Made) -> None:
    found = loaded(made("aot") / "repro.py")
    places = [x.untyped_storage().data_ptr() for x in found.inputs]
    assert len(set(places)) == 5


def test_constants_that_were_not_saved(made: Made, tmp_path: Path) -> None:
    line = "        super().__init__()\n"
    more = "        self.register_buffer('big', torch.randn([4, 4], dtype=torch.float32))\n"
    small = "        self.register_buffer('small', tensor([1., 2.]))\n"
    repro = edited(made("aot") / "repro.py", tmp_path, line, line + more + small)
    assert loaded(repro).notes == ("The script has random numbers for big, as PyTorch writes it.",)
    buffers = [dict(loaded(repro).module.named_buffers())["big"] for _ in range(2)]
    assert torch.equal(*buffers)


def test_a_setting_that_this_torch_does_not_have(made: Made, tmp_path: Path) -> None:
    line = "torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = 'accuracy'"
    found = loaded(edited(made("aot") / "repro.py", tmp_path, line, f"{line[:22]}.old_name = 1"))
    assert found.notes == ("This torch has no setting for 'torch._inductor.config.old_name = 1'.",)


def test_a_script_that_does_not_run(made: Made, tmp_path: Path) -> None:
    broken = edited(made("aot") / "repro.py", tmp_path, "mod = Repro()", "mod = Gone()")
    line = broken.read_text().split("\n").index("mod = Gone()") + 1
    with pytest.raises(FullgraphError, match=rf"repro.py:{line} raises NameError: name 'Gone'"):
        load(broken)
    broken.write_text(broken.read_text().replace("mod = Gone()", "ERROR: Repro will not work"))
    with pytest.raises(FullgraphError, match=f"is no Python at line {line}"):
        load(broken)
