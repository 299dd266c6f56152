import pytest
import torch

from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = block("""
    import torch
    import torch.distributed as dist


""")
CALL = "dist.all_reduce(y, async_op=True)"
X = torch.randn(4)


@pytest.fixture(autouse=True)
def group():
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    "body",
    [
        f"{CALL}\n    return y",
        f"return {CALL}, y",
        f"work = {CALL}\n    if x.shape[0] > 1:\n        work.wait()\n    return y",
        f"work = {CALL}\n    future = work.get_future()\n    work.wait()\n    return y",
        f"works = []\n    works.append({CALL})\n    return works, y",
    ],
)
def test_left_alone(body):
    text, _, refusals = offered(f"{HEAD}def f(x):\n    y = x * 2\n    {body}\n", CALL, "collective")
    assert not text and refusals


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            f"work = {CALL}  # begin\n    z = x + 1\n    work.wait()",
            "dist.all_reduce(y)  # begin\n    z = x + 1",
        ),
        (f"z = x + 1\n    {CALL}.wait()", "z = x + 1\n    dist.all_reduce(y)"),
        (
            f"z = x + 1\n    works = []\n    works.append( {CALL} )\n"
            "    for work in works:\n        work.wait()",
            "z = x + 1\n    works = []\n    dist.all_reduce(y)",
        ),
    ],
)
def test_fixed(before, after):
    def source(lines):
        return f"{HEAD}def f(x):\n    y = x * 2\n    {lines}\n    return y + z\n"

    outcome = rewritten(source(before), X)
    assert outcome.source == source(after), outcome.refusals
    assert ("succeeds" in str(outcome.assumes)) == (f"{CALL}.wait()" not in before)
    outcome.check(exact=True)
