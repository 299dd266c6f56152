"""Tensors as source: the same again, and as short as a person would write them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fullgraph.minifier.emit.elements import evaluate_text
from fullgraph.minifier.emit.literals import imports, is_same_tensor, literal
from fullgraph.minifier.emit.program_text import Unwritable


def again(tensor: torch.Tensor) -> torch.Tensor:
    found = evaluate_text(literal(tensor))
    assert found is not None
    return found


def channels_last() -> torch.Tensor:
    return torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (torch.zeros(3), "torch.zeros(3)"),
        (torch.ones(2, 3, dtype=torch.bool), "torch.ones(2, 3, dtype=torch.bool)"),
        (torch.full((1, 2, 3), 3e38), "torch.full((1, 2, 3), 3e38)"),
        (torch.full((32,), torch.inf), "torch.full((32,), torch.inf)"),
        (torch.arange(6.0).reshape(2, 3), "torch.arange(6.0).reshape(2, 3)"),
        (torch.arange(10, 40, 3), "torch.arange(10, 40, 3)"),
        (torch.eye(3), "torch.eye(3)"),
        (torch.linspace(-2, 2, 32), "torch.linspace(-2, 2, 32)"),
        (torch.tensor(3.5), "torch.tensor(3.5)"),
        (torch.tensor([0.1, -0.0]), "torch.tensor([0.1, -0.0])"),
        (torch.tensor([torch.nan, 1]), "torch.tensor([torch.nan, 1.0])"),
        (torch.tensor([1, 3, 2]), "torch.tensor([1, 3, 2])"),
        (torch.tensor([1 + 2j]), "torch.tensor([1.0+2.0j])"),
        (torch.arange(4).repeat(3, 1), "torch.arange(4).repeat(3, 1)"),
        (torch.zeros(2, requires_grad=True), "torch.zeros(2, requires_grad=True)"),
        (torch.nn.Parameter(torch.ones(2)), "torch.nn.Parameter(torch.ones(2))"),
        (torch.zeros(3, 2).t(), "torch.zeros(3, 2).t()"),
        (channels_last(), "torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last)"),
        (torch.zeros(3).expand(2, 3), "torch.zeros(3).expand(2, 3)"),
        (torch.zeros(2, device="meta"), 'torch.empty(2, device="meta")'),
        (torch._efficientzerotensor((3,)), "torch._efficientzerotensor((3,))"),
        (torch.eye(3).to_sparse(), "torch.eye(3).to_sparse()"),
        (torch.eye(3).to_sparse_csr(), "torch.eye(3).to_sparse_csr()"),
        (torch.zeros(2, 2).to_mkldnn(), "torch.zeros(2, 2).to_mkldnn()"),
        (torch.tensor([1 + 2j]).conj(), "torch.tensor([1.0+2.0j]).conj()"),
    ],
)
def test_is_written_as_a_person_would(tensor: torch.Tensor, text: str) -> None:
    assert literal(tensor) == text
    assert is_same_tensor(tensor, again(tensor))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(3, 0),
        torch.zeros(()),
        torch.tensor([1 + 2j]).conj().imag,
        torch.zeros(1) / 0,  # a NaN with a sign
        torch.arange(12.0)[2:],
        torch.arange(12.0).reshape(3, 4)[:, 1:3],
        torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
        torch.zeros(8)[::2],
        torch.arange(5.0).as_strided((2, 3), (1, 1)),
        torch.ones(2, 2, requires_grad=True).clone(),
        torch.tensor([1.5, 2.0], dtype=torch.float8_e4m3fn),
        torch.tensor([1.5, 2.25], dtype=torch.bfloat16),
        torch.tensor([2**63, 1], dtype=torch.uint64),
        torch.quantize_per_tensor(torch.tensor([0.1, 0.7]), 0.1, 3, torch.qint8),
        torch.quantize_per_channel(
            torch.rand(2, 3), torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), 0, torch.qint8
        ),
        torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2)),
        torch.nested.nested_tensor([torch.zeros(2, 3), torch.ones(1, 3)], layout=torch.jagged),
        torch.randint(0, 9, (30, 30)),
        torch.frombuffer(bytearray(b"\x01\x00\xc0\x7f" * 20), dtype=torch.float32),
    ],
)
def test_comes_back_bit_for_bit(tensor: torch.Tensor) -> None:
    assert is_same_tensor(tensor, again(tensor))


def test_big_data_is_packed_into_the_text() -> None:
    unguessed = torch.Generator().manual_seed(0xC0FFEE_5EED)
    tensor = torch.randn(64, 64, dtype=torch.float64, generator=unguessed)
    text = literal(tensor)
    assert "frombuffer" in text and "import base64" in imports(text)
    assert is_same_tensor(tensor, again(tensor))


def test_a_seed_is_found() -> None:
    torch.manual_seed(0)
    text = literal(torch.randn(8, 8))
    assert text == "torch.randn(8, 8, generator=torch.Generator().manual_seed(0))"


def test_one_special_element_does_not_cost_the_rest() -> None:
    tensor = torch.zeros(64)
    tensor[7] = torch.nan
    assert literal(tensor) == "torch.zeros(64).index_fill(0, torch.tensor(7), torch.nan)"


def test_a_subclass_is_refused() -> None:
    class Mine(torch.Tensor):
        pass

    with pytest.raises(Unwritable, match="Mine"):
        literal(torch.zeros(2).as_subclass(Mine))


def test_other_defaults_of_the_process_do_not_count() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        text = literal(torch.ones(2, dtype=torch.float64))
    finally:
        torch.set_default_dtype(torch.float32)
    assert text == "torch.ones(2, dtype=torch.float64)"


def test_nothing_is_drawn_from_the_generator() -> None:
    before = torch.get_rng_state()
    literal(torch.rand(3, generator=torch.Generator().manual_seed(5)))
    assert torch.equal(before, torch.get_rng_state())


DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e5m2),
    *(torch.complex64, torch.int8, torch.int32, torch.int64, torch.uint8, torch.bool),
]


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    numbers = st.one_of(
        st.sampled_from([0.0, 1.0, -0.0, float("nan"), float("inf"), -1.5]),
        st.floats(width=32),
        st.integers(-3, 3).map(float),
    )
    n = 1
    for length in shape:
        n *= length
    dtype = draw(st.sampled_from(DTYPES))
    content = torch.tensor(draw(st.lists(numbers, min_size=n, max_size=n)), dtype=torch.float64)
    if not (dtype.is_floating_point or dtype.is_complex):
        content = content.nan_to_num(0, 3, -3).clamp(-3, 3)
    tensor = content.reshape(shape).to(dtype)
    if tensor.dim():
        order = draw(st.permutations(range(tensor.dim())))
        tensor = tensor.permute(order)
        axis = draw(st.integers(0, tensor.dim() - 1))
        way = draw(st.sampled_from(["whole", "cut", "step", "spread"]))
        if way == "cut" and tensor.shape[axis]:
            tensor = tensor.narrow(axis, 1, tensor.shape[axis] - 1)
        elif way == "step":
            tensor = tensor[(slice(None),) * axis + (slice(None, None, 2),)]
        elif way == "spread":
            tensor = tensor.unsqueeze(axis).expand(*shape_of(tensor, axis))
    if draw(st.booleans()) and (dtype.is_floating_point or dtype.is_complex):
        tensor = tensor.detach().requires_grad_()
    return tensor


def shape_of(tensor: torch.Tensor, axis: int) -> list[int]:
    shape = list(tensor.shape)
    shape.insert(axis, 3)
    return shape


@settings(max_examples=150, deadline=None)
@given(tensors())
def test_any_tensor_comes_back(tensor: torch.Tensor) -> None:
    found = again(tensor)
    assert is_same_tensor(tensor, found)
    assert torch.equal(tensor.isnan(), found.isnan()) or not tensor.is_floating_point()
