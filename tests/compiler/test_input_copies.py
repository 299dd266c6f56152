"""Copies of inputs: what a graph could notice is as it was."""

from __future__ import annotations

import torch

from fullgraph.compiler.fallback.input_copies import copy_inputs


def test_elements_strides_and_offset_stay() -> None:
    whole = torch.arange(24.0).reshape(4, 6)
    for tensor in (whole, whole.t(), whole[1:, ::2], whole[:1].expand(3, 6), torch.empty(0, 3)):
        (copy,) = copy_inputs([tensor]).values
        assert torch.equal(copy, tensor)
        assert copy.stride() == tensor.stride()
        assert copy.data_ptr() != tensor.data_ptr() or not tensor.numel()


def test_a_piece_of_a_large_memory_is_copied_alone() -> None:
    large = torch.arange(10_000.0)
    (copy,) = copy_inputs([large[5_000:5_010]]).values
    assert torch.equal(copy, large[5_000:5_010])
    assert copy.untyped_storage().nbytes() == 40


def test_memory_is_shared_among_copies_as_among_the_originals() -> None:
    base = torch.zeros(6)
    first, second, third, alone = copy_inputs(
        [base, base[2:], base.view(torch.int32), base + 1]
    ).values
    first.fill_(1)
    assert second.tolist() == [1.0] * 4
    assert third.view(torch.float32).tolist() == [1.0] * 6
    assert alone.tolist() == [1.0] * 6
    assert base.tolist() == [0.0] * 6


def test_the_same_tensor_twice_is_one_copy() -> None:
    tensor = torch.zeros(2)
    first, second = copy_inputs([tensor, tensor]).values
    assert first is second


def test_leaves_stay_leaves_and_others_get_a_history_of_their_own() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    weight.register_hook(lambda gradient: gradient * 100)
    given = copy_inputs([weight, weight * 2, torch.ones(3)])
    parameter, computed, plain = given.values
    assert isinstance(parameter, torch.nn.Parameter) and parameter.is_leaf
    assert not computed.is_leaf and computed.requires_grad
    assert not plain.requires_grad and given.leaves[2] is None
    computed.mul_(2)  # neither a leaf nor a view of one
    wanted = [leaf for leaf in given.leaves if leaf is not None]
    gradients = torch.autograd.grad((parameter * computed).sum(), wanted)
    assert [g.tolist() for g in gradients] == [[4.0] * 3, [2.0] * 3]
    assert weight.grad is None


def test_parameters_can_keep_their_memory() -> None:
    weight, buffer = torch.nn.Parameter(torch.ones(3)), torch.ones(3)
    parameter, other = copy_inputs([weight, buffer], parameters=False).values
    assert parameter.data_ptr() == weight.data_ptr() and parameter is not weight
    assert other.data_ptr() != buffer.data_ptr()


def test_elements_that_are_not_what_lies_in_memory_are_kept_so() -> None:
    leaf = torch.ones(3, requires_grad=True)
    (zero,) = torch.autograd.grad(torch.sgn(leaf).sum(), leaf)
    complex_ = torch.tensor([1 + 2j])
    for tensor in (zero, complex_.conj(), complex_.conj().imag):
        (copy,) = copy_inputs([tensor]).values
        assert copy._is_zerotensor() == tensor._is_zerotensor()
        assert copy.is_conj() == tensor.is_conj() and copy.is_neg() == tensor.is_neg()
        assert torch.equal(copy, tensor)


def test_sparse_quantized_meta_and_inference_tensors_are_copied() -> None:
    with torch.inference_mode():
        inference = torch.ones(2)
    sparse = torch.eye(3).to_sparse()
    quantized = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    made = copy_inputs([inference, sparse, quantized, torch.ones(2, device="meta"), 3, None]).values
    assert made[0].is_inference()
    assert torch.equal(made[1].to_dense(), torch.eye(3))
    assert torch.equal(made[2].dequantize(), quantized.dequantize())
    assert made[3].is_meta and made[4:] == (3, None)


def test_a_generator_is_copied_with_its_state() -> None:
    dice = torch.Generator().manual_seed(3)
    (copy,) = copy_inputs([dice]).values
    assert torch.equal(torch.rand(2, generator=copy), torch.rand(2, generator=dice))
