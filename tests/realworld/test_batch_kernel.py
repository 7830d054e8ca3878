"""The kernels that put batches together, against their plain-torch twin."""

import numpy as np
import pytest
import torch
from torch.func import vmap

from pna.kernels import choice
from pna.neighbourhoods import joined_of, target_of
from pna.realworld.batches import Resident, Shape
from pna.realworld.data.datasets import DATASETS
from pna.segments import joined

ROWS = torch.tensor([[3, 0, 7, 11, 4], [1, -1, 5, -1, -1], [2, 2, 2, 9, 8]])


def parts(batch):
    """Every tensor of a batch by its name."""
    graph = batch.neighbourhoods
    found = {name: t for name, t in vars(batch).items() if isinstance(t, torch.Tensor)}
    named = zip(("sender_ptr", "receiver", "place"), graph.transpose, strict=True)
    return found | {"ptr": graph.ptr, "source": graph.source} | dict(named)


def made(resident, rows, shape, edges):
    names = []

    def one(index):
        found = parts(resident.batch(index, shape, edges))
        names[:] = found
        return tuple(found.values())

    return dict(zip(names, vmap(one)(rows), strict=True)) if rows.dim() == 2 else parts(resident.batch(rows, shape, edges))


@pytest.mark.parametrize("edges", [True, False])
@pytest.mark.parametrize("shape", [(5, 128, 400), (5, 96, 1000), (5, 300, 320)])
@pytest.mark.parametrize("name", DATASETS)
def test_they_are_the_plain_ones(toys, name, shape, edges, device, monkeypatch):
    resident = Resident(DATASETS[name], toys.graphs(name), device, torch.float32, transposed=True)
    shape = Shape(*shape)
    for rows in (ROWS, ROWS[1]):
        with choice.plain(), monkeypatch.context() as patch:
            patch.setattr(choice, "usable", lambda t: False)
            expected = made(resident, rows.to(device), shape, edges)
        monkeypatch.setattr(choice, "usable", lambda t: True)
        found = made(resident, rows.to(device), shape, edges)
        assert found.keys() == expected.keys()
        for key, t in expected.items():
            torch.testing.assert_close(found[key], t, msg=lambda m, key=key: f"{key}: {m}", rtol=1e-6, atol=0)


@pytest.mark.parametrize("graphs", [1, 2, 7, 16])
def test_any_number_of_graphs(toys, graphs, device, monkeypatch):
    resident = Resident(DATASETS["zinc"], toys.graphs("zinc", 16), device, torch.float32, transposed=True)
    rows = torch.from_numpy(np.random.default_rng(0).permutation(16)[:graphs]).to(device)
    shape = Shape(graphs, 320, 900)
    with monkeypatch.context() as patch:
        patch.setattr(choice, "usable", lambda t: False)
        expected = parts(resident.batch(rows, shape))
    monkeypatch.setattr(choice, "usable", lambda t: True)
    for key, t in parts(resident.batch(rows, shape)).items():
        torch.testing.assert_close(t, expected[key], msg=key, rtol=1e-6, atol=0)


def test_the_graphs_of_all_replicas_are_remembered_as_one(toys, device, monkeypatch):
    monkeypatch.setattr(choice, "usable", lambda t: True)
    resident = Resident(DATASETS["zinc"], toys.graphs("zinc"), device, torch.float32, transposed=True)
    seen = []

    def one(index):
        batch = resident.batch(index, Shape(5, 100, 400))
        seen.extend((batch.neighbourhoods, batch.graph_ptr))
        return tuple(parts(batch).values())

    vmap(one)(ROWS.to(device))
    graph, graph_ptr = ([torch._C._functorch.get_unwrapped(t) for t in ts] for ts in (seen[0][:2] + seen[0].transpose, seen[1:]))
    R, V, E = 3, 100, 400
    nodes, messages = (size * torch.arange(R, device=device).unsqueeze(1) for size in (V, E))
    known = joined_of(graph[0])
    assert torch.equal(known.ptr, joined(graph[0], E))
    for t, expected, shift in zip((known.source, known.transpose.receiver, known.transpose.place), (graph[1], graph[3], graph[4]), (nodes, nodes, messages), strict=True):
        assert torch.equal(t, (expected + shift).flatten())
    assert torch.equal(known.transpose.ptr, joined(graph[2], E))
    assert torch.equal(known.target, torch.repeat_interleave(known.ptr.diff()))
    assert target_of(known.ptr) is known.target
    known = joined_of(graph_ptr[0])
    assert torch.equal(known.ptr, joined(graph_ptr[0], V))
    assert torch.equal(known.target, torch.repeat_interleave(known.ptr.diff()))
