"""A job leaves no trace, on both paths, however it ends."""

import contextlib
import ctypes
import logging
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
import torch._dynamo
from torch import nn

from fullgraph.compiler.isolation import (
    choose_process,
    has_accelerator,
    run_isolated,
    state_digest,
)
from fullgraph.compiler.isolation.shared_memory import shared_mappings
from tests.text import block

pytestmark = pytest.mark.compiles

both = pytest.mark.parametrize("where", ["fork", "process"])

SEEN: list[object] = []
COUNT = 0


class Untidy(nn.Module):
    """Changes everything that a forward can change."""

    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.linear = nn.Linear(4, 4)
        self.shared = nn.Linear(4, 4).share_memory()
        self.register_buffer("total", torch.zeros(4))
        self.steps = 0
        self.log: list[int] = []
        self.cache = {"shapes": [()]}
        self.order = OrderedDict(first=1, second=2)
        self.names = {"a"}
        self.array = np.zeros(3)
        self.generator = torch.Generator().manual_seed(1)
        self.linear.register_forward_hook(lambda module, args, out: SEEN.append("hook"))
        self.linear.weight.register_hook(lambda grad: SEEN.append("grad"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        global COUNT
        COUNT += 1
        SEEN.append(x)
        Untidy.calls += 1
        self.steps += 1
        self.log.append(self.steps)
        self.cache["shapes"].append(tuple(x.shape))
        self.cache["late"] = [x]
        self.order.move_to_end("first")
        self.names.add("b")
        self.array += 1
        self.late = nn.Linear(1, 1)
        self.total.add_(self.linear.weight[0])
        with torch.no_grad():
            self.shared.weight.add_(1)
        random.random()
        np.random.rand()
        torch.rand(2, generator=self.generator)
        return self.drop(self.linear(self.norm(x)))


def train(model: nn.Module, x: torch.Tensor) -> None:
    model.train()
    model(x).sum().backward()
    x.mul_(2).resize_(2, 4)
    model.linear.requires_grad_(False)
    model.linear.bias.data = torch.zeros(4, dtype=torch.float64)
    model.eval()
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = 3
    os.environ["LEFT_BEHIND"] = "1"
    logging.getLogger("torch").addHandler(logging.NullHandler())


@both
def test_nothing_of_a_model_or_the_process_changes(where, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # others may use the usual one
    model, x = Untidy(), torch.randn(8, 4)
    if where == "fork" and choose_process([])[0] == "process":
        pytest.skip(choose_process([])[1])
    with torch.no_grad():
        torch.compile(model, backend="eager")(x)
    before = state_digest([model, x, train])
    outcome = run_isolated(lambda emit: train(model, x), objects=[model, x, train], where=where)
    assert outcome.status == "ok", outcome.error
    assert outcome.unrestored == ()
    assert state_digest([model, x, train]) == before


@both
def test_compiling_changes_nothing_either(where):
    model, x = Untidy(), torch.randn(8, 4)
    torch.compile(nn.Linear(4, 4), backend="aot_eager")(x).sum().backward()
    if where == "fork" and choose_process([])[0] == "process":
        pytest.skip(choose_process([])[1])
    before = state_digest([model, x])

    def job(emit):
        torch.compile(model, backend="aot_eager")(x).sum().backward()

    outcome = run_isolated(job, objects=[model, x], where=where)
    assert outcome.status == "ok", outcome.error
    assert state_digest([model, x]) == before


class Counting:
    """A backend that counts its graphs."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph, inputs):
        self.graphs += 1
        return graph.forward


def shared_callee(x):
    return x.sin()


def whole(x):
    return shared_callee(x) + 1


def skipped(x):
    for _ in range(2):
        print("in the loop")
        x = shared_callee(x)
    return x


def limited(x):
    return x + x.shape[0]


@both
def test_other_compiled_functions_do_not_recompile_and_hide_nothing(where, capsys):
    mine = Counting()
    sizes = [torch.ones(n) for n in range(2, 14)]
    compiled = [torch.compile(f, backend=mine, dynamic=False) for f in (whole, skipped, limited)]

    def use_all():
        compiled[0](sizes[0])
        compiled[1](sizes[0])
        for x in sizes:
            compiled[2](x)

    use_all()
    graphs = mine.graphs
    before = state_digest([whole, skipped, limited])

    def job(emit):
        isolated = {"isolate_recompiles": True} if torch.__version__ >= "2.13" else {}
        for function in (whole, skipped, limited):
            seen = Counting()
            torch.compile(function, backend=seen, **isolated)(torch.ones(40))
            emit(seen.graphs)

    outcome = run_isolated(job, where=where)
    # before torch 2.13 the versions of `limited` count for everyone who compiles it
    own_count = where == "fork" or torch.__version__ >= "2.13"
    assert outcome.messages == (1, 1, 1 if own_count else 0)
    assert state_digest([whole, skipped, limited]) == before
    use_all()
    assert mine.graphs == graphs


def test_versions_added_beside_the_users_own_are_dead_and_told():
    mine = Counting()
    compiled = torch.compile(whole, backend=mine)
    compiled(torch.ones(3))

    def job(emit):
        torch.compile(whole, backend="eager")(torch.ones(3))

    outcome = run_isolated(job, where="process")
    (sentence,) = [s for s in outcome.unrestored if "Dynamo" in s]
    assert "Dynamo's cache of whole" in sentence
    assert "keeps 1 dead entry" in sentence
    compiled(torch.ones(3))
    assert mine.graphs == 1


@pytest.mark.filterwarnings("error")
def test_compiled_coroutines_are_looked_at_without_starting_them():
    async def coroutine(x):
        return x + 1

    def job(emit):
        # closed unstarted: torch 2.13 writes beyond the frame of a compiled coroutine that runs
        torch.compile(coroutine, backend="eager")(torch.ones(2)).close()
        before = state_digest([coroutine])
        assert run_isolated(lambda emit: 1, where="process").value == 1
        return state_digest([coroutine]) == before

    outcome = run_isolated(job, where="fork")
    assert outcome.value is True, outcome.output


def test_code_compiled_only_by_the_job_is_forgotten():
    def fresh(x):
        return x * 3

    def job(emit):
        torch.compile(fresh, backend="eager")(torch.ones(3))

    names = set(globals())
    run_isolated(job, where="process")
    assert not [n for n in set(globals()) - names if "import" in n]
    mine = Counting()
    torch.compile(fresh, backend=mine)(torch.ones(3))
    assert mine.graphs == 1


@both
def test_parallel_ops_run_after_the_parent_ran_some(where):
    big = torch.randn(800, 800)
    _ = big @ big
    outcome = run_isolated(lambda emit: float((big @ big).sum()), seconds=60, where=where)
    assert outcome.status == "ok"


def test_a_child_does_not_wait_for_threads_that_build_kernels_in_its_parent():
    from torch._inductor import config
    from torch._inductor.async_compile import AsyncCompile

    with config.patch(compile_threads=2):
        torch.compile(lambda x: x.sin() + 3)(torch.randn(9))
        assert AsyncCompile.pool().submit(int).result() == 0

    def job(emit):
        built = []

        def build():  # settings are a thread's own, and the default is to build in threads
            built.append(torch.compile(lambda x: x.cos() + 3)(torch.zeros(9)))

        thread = threading.Thread(target=build)
        thread.start()
        thread.join()
        return [float(one.sum()) for one in built]

    found = run_isolated(job, seconds=120)
    assert (found.status, found.value) == ("ok", [36.0])


def test_a_child_has_shared_memory_of_its_own(tmp_path):
    tensor = torch.zeros(3).share_memory_()
    file = torch.from_file(str(tmp_path / "t"), shared=True, size=4)
    mapped = np.memmap(tmp_path / "m", dtype="float32", mode="w+", shape=4)
    (tmp_path / "gone").touch()
    gone = np.memmap(tmp_path / "gone", dtype="float32", mode="w+", shape=4)
    gone[:] = 7
    (tmp_path / "gone").unlink()

    def job(emit):
        for memory in (tensor, file, mapped, gone):
            memory += 1
        mapped.flush()
        return [float(memory.sum()) for memory in (tensor, file, mapped, gone)]

    assert run_isolated(job, where="fork").value == [3, 4, 4, 32]
    assert [float(memory.sum()) for memory in (tensor, file, mapped, gone)] == [0, 0, 0, 28]


def test_every_shared_mapping_is_found(tmp_path):
    mapped = np.memmap(tmp_path / "m", dtype="float32", mode="w+", shape=4)
    assert str(tmp_path / "m") in {mapping.path for mapping in shared_mappings()}
    del mapped


@both
def test_output_of_python_and_c_is_caught(where, capfd):
    handler = logging.StreamHandler(sys.stderr)
    logger = logging.getLogger(f"a user's logger, {where}")
    logger.addHandler(handler)
    logger.propagate = False  # pytest listens at the root

    def job(emit):
        print("python")
        print("error", file=sys.stderr)
        logger.warning("logged")
        os.system("echo grandchild")
        ctypes.CDLL(None).puts(b"from c")

    print("before")
    outcome = run_isolated(job, where=where)
    logger.removeHandler(handler)
    print("after")
    lines = sorted(outcome.output.splitlines())
    assert lines == ["error", "from c", "grandchild", "logged", "python"]
    caught = capfd.readouterr()
    assert (caught.out, caught.err) == (
        block("""
            before
            after
        """),
        "",
    )


@both
def test_output_is_bounded(where):
    outcome = run_isolated(lambda emit: print("a" * 3_000_000 + "z"), where=where)
    assert len(outcome.output) < 1_100_000
    assert "bytes left out" in outcome.output
    assert outcome.output.endswith("z\n")


@both
def test_messages_arrive_at_once(where, capsys):
    arrived = []

    def listen(message):
        arrived.append(message)
        print("heard", message)

    def job(emit):
        for n in range(3):
            emit(n)
            print("said", n)

    outcome = run_isolated(job, on_message=listen, where=where)
    assert arrived == [0, 1, 2] == list(outcome.messages)
    assert outcome.output == "said 0\nsaid 1\nsaid 2\n"
    assert capsys.readouterr().out == "heard 0\nheard 1\nheard 2\n"


@both
def test_an_exception_is_told(where):
    def job(emit):
        raise ValueError("no such thing")

    outcome = run_isolated(job, where=where)
    assert outcome.status == "raised"
    assert (outcome.error.type, outcome.error.message) == ("ValueError", "no such thing")
    assert outcome.error.traceback.count("File ") == 1
    assert isinstance(outcome.error.exception, ValueError)


@both
def test_an_exception_that_cannot_be_pickled_is_told_too(where):
    class Private(Exception):
        def __str__(self):
            raise RuntimeError

    def job(emit):
        raise Private

    outcome = run_isolated(job, where=where)
    assert outcome.error.type.endswith("Private")
    assert outcome.error.exception is None


@both
def test_a_result_that_is_not_plain_data_is_an_error(where):
    outcome = run_isolated(lambda emit: lambda: 0, where=where)
    assert outcome.status == "raised"
    assert "the result is a function that cannot be pickled" in outcome.error.message


@both
def test_a_large_result_arrives(where):
    outcome = run_isolated(lambda emit: b"x" * 50_000_000, seconds=60, where=where)
    assert len(outcome.value) == 50_000_000


@both
def test_sys_exit_does_not_end_the_program(where):
    outcome = run_isolated(lambda emit: sys.exit(3), where=where)
    assert (outcome.status, outcome.error.type) == ("raised", "SystemExit")


@both
def test_a_failing_listener_is_the_callers_error(where):
    def listen(message):
        raise LookupError("listener")

    with pytest.raises(LookupError, match="listener"):
        run_isolated(lambda emit: emit(1), on_message=listen, where=where)


@both
def test_time_runs_out(where):
    def job(emit):
        emit("started")
        while True:
            time.sleep(0.01)

    outcome = run_isolated(job, seconds=1, where=where)
    assert outcome.status == "timeout"
    assert outcome.messages == ("started",)


def test_a_time_limit_keeps_the_programs_own_alarm():
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
    left = signal.setitimer(signal.ITIMER_REAL, 100)
    try:
        run_isolated(lambda emit: None, seconds=5, where="process")
        assert 50 < signal.getitimer(signal.ITIMER_REAL)[0] <= 100
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *left)
    assert not rang


def test_processes_started_by_a_hanging_child_end_with_it(tmp_path):
    def job(emit):
        child = subprocess.Popen(["sleep", "1000"])
        emit(child.pid)
        child.wait()

    outcome = run_isolated(job, seconds=2, where="fork")
    (pid,) = outcome.messages
    for _ in range(500):
        if not os.path.exists(f"/proc/{pid}"):
            return
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":  # whoever adopted it has not waited for it yet
            return
        time.sleep(0.01)
    raise AssertionError("the grandchild is still running")


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT"])
def test_a_crash_is_a_signal_and_loses_no_message(name):
    def job(emit):
        emit("first")
        print("last words")
        if name == "SIGSEGV":
            ctypes.string_at(0)
        os.abort()

    outcome = run_isolated(job, where="fork")
    assert (outcome.status, outcome.signal) == ("signal", name)
    assert outcome.messages == ("first",)
    assert outcome.output.startswith("last words\nFatal Python error")


def test_a_child_that_leaves_early_is_told():
    outcome = run_isolated(lambda emit: os._exit(3), where="fork")
    assert outcome.status == "raised"
    assert "exit code 3" in outcome.error.message


def children():
    """The processes that this one has started, zombies included."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            after_name = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2]
            if int(after_name.split()[1]) == os.getpid():
                found.add(int(name))
    return found


def test_no_zombie_and_no_descriptor_stays():
    others = children()  # of tests before: multiprocessing's resource tracker, for instance
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        run_isolated(lambda emit: None, where="fork")
    assert sorted(os.listdir("/proc/self/fd")) == before
    for thread in threading.enumerate():  # what waits for a killed child
        if "_reap" in thread.name:
            thread.join(10)
    assert children() <= others


def test_a_child_reads_nothing_from_the_terminal():
    assert (
        run_isolated(lambda emit: sys.stdin.read() + str(os.read(0, 1)), where="fork").value
        == "b''"
    )


def test_it_works_in_a_thread():
    outcomes = []
    thread = threading.Thread(
        target=lambda: outcomes.append(run_isolated(lambda emit: 5, where="fork"))
    )
    thread.start()
    thread.join()
    assert outcomes[0].value == 5


def test_it_works_inside_itself():
    outcome = run_isolated(
        lambda emit: run_isolated(lambda emit: os.getpid(), where="fork").value, where="fork"
    )
    assert outcome.value not in (None, os.getpid())


def test_streams_that_are_no_files_are_left_alone(monkeypatch):
    class OutStream:
        """As in a notebook: no descriptor."""

        def __init__(self):
            self.text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            pass

    stream = OutStream()
    monkeypatch.setattr(sys, "stdout", stream)
    for where in ("fork", "process"):
        assert run_isolated(lambda emit: print("inside"), where=where).output == "inside\n"
    print("outside")
    assert stream.text == "outside\n"


@pytest.mark.parametrize("where", ["fork", "process"])
def test_ctrl_c_puts_everything_back(where, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os, signal, time, torch
            from fullgraph.compiler.isolation import run_isolated, state_digest

            model = torch.nn.BatchNorm1d(2)
            x = torch.randn(4, 2)

            def job(emit):
                model(x)
                torch.rand(1)
                emit(os.getpid())
                time.sleep(100)

            def on_message(pid):
                print("child", pid, flush=True)
                os.kill(os.getpid(), signal.SIGINT)

            before = state_digest([model, x])
            try:
                run_isolated(job, objects=[model, x], on_message=on_message, where="{where}")
            except KeyboardInterrupt:
                print("interrupted", state_digest([model, x]) == before, flush=True)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=100, check=True
    )
    child, last = done.stdout.splitlines()
    assert last == "interrupted True"
    assert done.stderr == ""
    if where == "fork":
        assert not os.path.exists(f"/proc/{child.split()[1]}")


def test_buffered_output_and_exit_handlers_do_not_run_twice(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import atexit, sys
            from fullgraph.compiler.isolation import run_isolated
            atexit.register(print, "at exit")
            sys.stdout.write("held back ")
            run_isolated(lambda emit: None, where="fork")
            """
        )
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == "held back at exit\n"


def test_a_job_under_a_live_process_group_is_forked_and_runs_its_collectives_alone(tmp_path):
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        assert choose_process([torch.ones(1)])[0] == "fork"

        def job(emit):
            x = torch.ones(2)
            torch.distributed.all_reduce(x)
            return float(x.sum())

        outcome = run_isolated(job, seconds=60)
        assert (outcome.value, outcome.where, outcome.unrestored) == (2.0, "fork", ())
        outcome = run_isolated(job, seconds=60, where="process")
        assert outcome.value == 2.0
        assert any("collectives ran" in sentence for sentence in outcome.unrestored)
    finally:
        torch.distributed.destroy_process_group()


AUTOGRAD_FIRST_IN_AOT = """
import torch
from fullgraph.compiler.isolation import choose_process, run_isolated

def job(emit):
    torch.compile(torch.nn.Linear(3, 3), backend="aot_eager")(torch.ones(2, 3)).sum().backward()

job(None)
where, why = choose_process([])
assert where == "fork" or "autograd" in why, why
outcome = run_isolated(job)
assert outcome.status == "ok", outcome.error
"""


def test_a_backward_works_after_one_in_the_parent():
    subprocess.run([sys.executable, "-c", AUTOGRAD_FIRST_IN_AOT], timeout=100, check=True)


CHOICE = """
import torch
from fullgraph.compiler.isolation import choose_process
print(choose_process([torch.nn.Linear(2, 2), {"a": torch.ones(1)}]))
print(choose_process([[torch.ones(1, device="meta")]]))
"""


def test_a_fork_is_chosen_on_cpu():
    """In a process of its own: on CUDA builds it depends on what ran before."""
    command = [sys.executable, "-c", CHOICE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout == "('fork', 'everything is on CPU')\n" * 2


def test_writing_to_the_compile_cache_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))

    def job(emit):
        time.sleep(0.02)  # a file's time is that of the last clock tick
        (tmp_path / "entry").touch()

    outcome = run_isolated(job, where="process")
    assert outcome.unrestored == (f"TorchInductor's cache in {tmp_path} was written to.",)


def test_a_child_has_a_compile_cache_of_its_own():
    folder = run_isolated(lambda emit: os.environ["TORCHINDUCTOR_CACHE_DIR"], where="fork").value
    assert folder != os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    assert not os.path.exists(folder)


def test_a_thread_left_running_is_told():
    stop = threading.Event()

    def job(emit):
        threading.Thread(target=stop.wait, name="left over", daemon=True).start()

    outcome = run_isolated(job, where="process")
    stop.set()
    assert "Threads that were started still run: left over." in outcome.unrestored


def test_a_cuda_build_without_a_gpu_has_no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    assert has_accelerator() == Path("/dev/nvidiactl").exists()
