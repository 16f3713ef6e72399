import torch

from trainers.digest import WORDS, InputDigest, lane_words, step_digest


class Echo(torch.nn.Module):
    def forward(self, *args, **kwargs):
        return args, kwargs


def words(*args, **kwargs):
    module = Echo()
    with InputDigest(module) as digest:
        module(*args, **kwargs)
    module(torch.ones(3))  # after leaving nothing is taken in
    return digest.words()


def test_every_byte_name_dtype_and_shape_enters():
    ids = torch.arange(6).view(2, 3)
    changed = ids.clone()
    changed[1, 2] = 9
    variants = [
        words(ids=ids),
        words(ids=changed),
        words(other=ids),
        words(ids=ids.view(3, 2)),
        words(ids=ids.int()),
        words(ids),
        words(ids=ids, mask=ids),
        words(),
        words(ids=ids.to(torch.bfloat16)),
    ]
    assert len({tuple(found) for found in variants}) == len(variants)
    assert words(ids=ids, mask=changed) == words(mask=changed, ids=ids.t().contiguous().t())


def test_a_step_is_its_lanes_in_order():
    a, b = words(torch.zeros(2)), words(torch.ones(2))
    assert len(a) == WORDS and all(0 <= word < 2**32 for word in a)
    first = step_digest(lane_words(0, a) | lane_words(1, b), 2)
    assert len(first) == 32 and first != step_digest(lane_words(0, b) | lane_words(1, a), 2)
    apart = [lane_words(0, a) | lane_words(1), lane_words(0) | lane_words(1, b)]  # as two trainers send them
    assert first == step_digest({name: apart[0][name] + apart[1][name] for name in apart[0]}, 2)
