import pytest
import torch

from tests.trainers import tiny
from trainers import buckets
from trainers.buckets import GradientBuckets


def test_gradients_are_views_of_the_buckets_and_accumulate_there():
    module = tiny.build()
    gradients = GradientBuckets(module.parameters())
    for _ in range(2):
        module(**inputs())[0].sum().backward()
    assert len(gradients.buckets) == 1
    for parameter in module.parameters():
        assert (
            parameter.grad.untyped_storage().data_ptr() == gradients.buckets[0].untyped_storage().data_ptr()
        )
    expected = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in module.parameters()]))
    assert gradients.norm() == pytest.approx(expected.item(), rel=1e-5)
    gradients.zero()
    assert all(not p.grad.any() for p in module.parameters())


def inputs():
    microbatch = tiny.microbatch(tiny.lane(0, 1, 3))
    return {**microbatch.columns, "attention_mask": microbatch.attention_mask}


def test_layout_splits_at_the_limit_in_the_order_of_parameters(monkeypatch):
    monkeypatch.setattr(buckets, "BUCKET", 256)
    shapes = [(100,), (3,), (64,), (500,), (1,)]
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in shapes]
    gradients = GradientBuckets(parameters)
    assert [len(bucket) for bucket in gradients.buckets] == [128 + 64 + 64, 512, 64]
    for i, parameter in enumerate(parameters):
        parameter.grad.fill_(i + 1)
    assert gradients.norm() ** 2 == pytest.approx(sum(n[0] * (i + 1) ** 2 for i, n in enumerate(shapes)))


def test_clip_is_torchs():
    ours = [torch.nn.Parameter(torch.zeros(n)) for n in (5, 70)]
    theirs = [torch.nn.Parameter(torch.zeros(n)) for n in (5, 70)]
    gradients = GradientBuckets(ours)
    for mine, other in zip(ours, theirs):
        other.grad = torch.randn(mine.shape)
        mine.grad.copy_(other.grad)
    norm = gradients.norm()
    torch.nn.utils.clip_grad_norm_(theirs, 0.5)
    gradients.clip(norm, 0.5)
    for mine, other in zip(ours, theirs):
        torch.testing.assert_close(mine.grad, other.grad)
    gradients.clip(gradients.norm(), None)
    assert gradients.norm() == pytest.approx(0.5, rel=1e-5)


def test_the_norm_of_large_gradients_does_not_overflow():
    parameter = torch.nn.Parameter(torch.zeros(4))
    gradients = GradientBuckets([parameter])
    parameter.grad.fill_(1e30)
    assert gradients.norm() == pytest.approx(2e30)
