"""Mixtures of experts among peers, compared with the same model in one process."""

import copy
import json
import subprocess
import sys
import threading

import pytest
import support

torch = pytest.importorskip("torch")

import pccl.torch  # noqa: E402
from pccl.torch import MoE, _moe, _placing  # noqa: E402
from pccl.torch._placing import Holding, Move  # noqa: E402

WIDTH, EXPERTS, TOKENS = 8, 16, 40


@pytest.fixture(autouse=True)
def one_thread():
    """Peers are threads of one process."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# ---- placement


def test_places():
    assert _placing.place([None] * 5, 2) == [0, 1, 0, 1, 0]
    assert _placing.place([0, 0, 1, 1], 3) == [0, 0, 1, 2]  # a newcomer's share, and nothing else moves
    assert _placing.place([None, 0, None, 1, 2, 2], 3) == [0, 0, 1, 1, 2, 2]  # the experts of a failed peer
    assert _placing.place([0, 1], 4) == [0, 1]


@pytest.mark.parametrize("peers", range(1, 8))
def test_places_are_even_and_heirs_are_who_takes_over(peers):
    owners = _placing.place([None] * EXPERTS, peers)
    counts = [owners.count(peer) for peer in range(peers)]
    assert max(counts) - min(counts) <= 1
    heirs = _placing.heirs_of(owners, peers)
    for dead in range(peers if peers > 1 else 0):
        left = [peer for peer in range(peers) if peer != dead]
        after = _placing.place([None if one == dead else left.index(one) for one in owners], len(left))
        for number, owner in enumerate(owners):
            assert left[after[number]] == (heirs[number] if owner == dead else owner)


def test_moves():
    holdings = [Holding((5, 0, 2), (0,)), Holding((3, 4, 2), (1,)), Holding((5, 0, 2))]
    assert _placing.owners_of(holdings, 3) == [0, 1, None]
    assert _placing.moves_to([1, 2, 2], holdings) == [Move(0, 0, 1), Move(1, 1, 2)]
    assert _placing.moves_to([2, None, 0], holdings) == []  # an equally good copy is there


# ---- results


def expert(width=WIDTH):
    return torch.nn.Sequential(torch.nn.Linear(width, 2 * width), torch.nn.Tanh(), torch.nn.Linear(2 * width, width))


class Dense(torch.nn.Module):
    """A layer with all experts; those in `gone` answer nothing, and those in `fixed` pass no gradient."""

    def __init__(self, experts, router, top_k):
        super().__init__()
        self.experts, self.router, self.top_k = experts, router, top_k
        self.gone, self.fixed = (), ()

    def forward(self, x):
        probabilities = self.router(x).softmax(-1)
        weights, chosen = probabilities.topk(self.top_k)
        there = [[one not in self.gone for one in row] for row in chosen.tolist()]
        weights = weights * torch.tensor(there).view_as(weights)
        if self.top_k > 1:
            weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
        outs = [one(x) for one in self.experts]
        outs = torch.stack([one.detach() if i in self.fixed else one for i, one in enumerate(outs)], 1)
        taken = outs.gather(1, chosen[:, :, None].expand(-1, -1, x.shape[1]))
        load = torch.bincount(chosen.reshape(-1), minlength=len(self.experts)) / max(1, chosen.numel())
        self.aux_loss = len(self.experts) * (load * probabilities.sum(0) / max(1, len(x))).sum()
        return (taken * weights[:, :, None]).sum(1)


def dense_layers(top_k, count=2, experts=EXPERTS):
    torch.manual_seed(0)
    return torch.nn.ModuleList(
        Dense(torch.nn.ModuleList([expert() for _ in range(experts)]), torch.nn.Linear(WIDTH, experts), top_k)
        for _ in range(count)
    ).double()


def spread(dense, comm, **given):
    """Returns the same model with experts on all peers."""
    return torch.nn.ModuleList(
        MoE(copy.deepcopy(layer.experts), copy.deepcopy(layer.router), comm, top_k=layer.top_k, **given)
        for layer in dense
    )


def tokens_of(rank, count=TOKENS):
    return torch.randn(count, WIDTH, dtype=torch.double, generator=torch.Generator().manual_seed(rank))


def loss_of(model, x):
    for layer in model:
        x = x + layer(x)
    return x.square().sum() / TOKENS + 0.01 * sum(layer.aux_loss for layer in model)


def agrees(members, dense, inputs):
    """Checks members against dense. members: for each peer its layers, its loss and the gradient of its input. dense:
    before any backward."""
    xs = [x.clone().requires_grad_() for x in inputs]
    losses = [loss_of(dense, x) for x in xs]
    sum(losses).backward()
    for (_, loss, gradient), wanted, x in zip(members, losses, xs):
        assert abs(loss - wanted) < 1e-9
        assert torch.allclose(gradient, x.grad, rtol=0, atol=1e-9)
    for number, layer in enumerate(dense):
        mine = [model[number] for model, _, _ in members]
        for name, parameter in layer.named_parameters():
            found = [dict(one.named_parameters())[name].grad for one in mine]
            found = [one for one in found if one is not None]
            assert len(found) == len(mine) if "router" in name else len(found) <= 1  # of an expert, only on its peer
            want = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            assert torch.allclose(sum(found, torch.zeros_like(parameter)), want, rtol=0, atol=1e-9), (number, name)


def train(model, x):
    x = x.clone().requires_grad_()
    loss = loss_of(model, x)
    loss.backward()
    return model, loss, x.grad


@pytest.mark.parametrize("top_k, chunks", [(2, 4), (1, 1), (3, 2)])
def test_equals_the_dense_computation(group, top_k, chunks):
    dense, inputs = dense_layers(top_k), [tokens_of(rank, TOKENS * (rank > 0)) for rank in range(4)]  # one has none
    found = group(4).all(lambda comm, rank: train(spread(dense, comm, chunks=chunks), inputs[rank]))
    agrees(found, dense, inputs)


def test_bytes_are_those_of_the_rows(group):
    """A row to its expert and back, its gradient there and back, and eight bytes for each expert and chunk."""
    dense, chunks, count = dense_layers(2, count=1), 2, 400

    def peer(comm, rank):
        model, _, _ = train(spread(dense, comm, chunks=chunks), tokens_of(rank, count))
        sent = [one for one in comm.flight_recorder()["operations"] if one["label"].startswith("moe ")]
        return model[0].info, model[0].owners, comm.id, sum(one["sent_bytes"] for one in sent)

    told = group(4).all(peer)
    own = {me: sum(info.load[one] for one, owner in enumerate(owners) if owner == me) for info, owners, me, _ in told}
    row = WIDTH * 8
    for info, owners, me, recorded in told:
        away, others = info.rows - own[me], info.computed - own[me]  # rows elsewhere; rows of others here
        header = 8 * chunks * (len(owners) - owners.count(me))
        assert info.rows == 2 * count and info.dropped == info.no_gradient == 0
        assert info.tx_bytes == 2 * row * (away + others) + header
        assert info.rx_bytes == 2 * row * (away + others) + 8 * chunks * owners.count(me) * 3
        assert recorded == info.tx_bytes


# ---- lost peers


class Dying(torch.nn.Module):
    """An expert whose peer leaves at the first call, or in its backward, as if it failed."""

    def __init__(self, inner, comm, in_backward=False):
        super().__init__()
        self.inner, self.comm, self.in_backward = inner, comm, in_backward

    def forward(self, x):
        out = self.inner(x)
        if self.in_backward:
            out.register_hook(lambda _: self.comm.close())
        else:
            self.comm.close()
        return out


def survivors_of(group, dense, inputs, where, in_backward=False, **given):
    """Returns the final results of the others, and their experts, after the last of four peers has left in a layer's
    work."""
    ready = threading.Barrier(4)

    def peer(comm, rank):
        model = spread(dense, comm, chunks=1, **given)
        gone = [layer.sync() and [i for i, one in enumerate(layer.owners) if one == comm.id] for layer in model][0]
        ready.wait(support.DEADLINE)
        if rank < 3:
            return (*train(model, inputs[rank]), gone)
        for one in gone:
            model[where].experts[one] = Dying(model[where].experts[one], comm, in_backward)
        with pytest.raises(pccl.PCCLError):
            train(model, inputs[rank])
        return gone

    *found, gone = group(4).all(peer)
    return [one[:3] for one in found], gone


def test_rows_of_a_dead_peer_are_dropped(group, caplog):
    dense, inputs = dense_layers(2), [tokens_of(rank) for rank in range(4)]
    found, gone = survivors_of(group, dense, inputs, where=0)
    for layer in dense:
        layer.gone = gone
    # The first layer drops them after they were routed, the second routes none to known lost peers: here it does not
    # know, either.
    agrees(found, dense, inputs[:3])
    for model, _, _ in found:
        first = model[0].info
        assert first.dropped == sum(first.load[one] for one in gone) > 0
        assert first.missing == tuple(gone) and first.repeated and first.participants == 3 and len(first.lost) == 1
        assert not first.no_gradient and not first.taken_over
        assert [layer.owners.count(None) for layer in model] == [4, 4]
    assert "lost" in caplog.text and "missing experts" in caplog.text


def test_experts_of_a_dead_peer_are_taken_over(group):
    dense, inputs = dense_layers(2), [tokens_of(rank) for rank in range(4)]
    found, gone = survivors_of(group, dense, inputs, where=0, on_death="take_over")
    agrees(found, dense, inputs[:3])
    for number in range(2):
        taken = [one for model, _, _ in found for one in model[number].info.taken_over]
        assert sorted(taken) == gone
    assert all(not model[0].info.dropped and not model[0].info.missing for model, _, _ in found)


def test_a_death_in_the_backward_costs_its_gradients(group):
    dense, inputs = dense_layers(2), [tokens_of(rank) for rank in range(4)]
    found, gone = survivors_of(group, dense, inputs, where=1, in_backward=True)
    for layer in dense:
        layer.fixed = gone
    agrees(found, dense, inputs[:3])
    for model, _, _ in found:
        for layer in model:
            assert layer.info.no_gradient == sum(layer.info.load[one] for one in gone)
            assert not layer.info.dropped and len(layer.info.lost) == 1


def test_experts_begin_again_where_nobody_has_them(group):
    """A peer that lost them routes around them until sync() assigns them."""
    dense = dense_layers(2, count=1)
    members = group(3)
    models = members.all(lambda comm, rank: spread(dense, comm)[0])
    members.all(lambda comm, rank: models[rank].sync())
    members.members.pop().close()

    def peer(comm, rank):
        model = models[rank]
        train([model], tokens_of(rank))
        dropping = model.info
        train([model], tokens_of(rank))
        knowing = model.info
        return dropping, knowing, model.sync(), model.owners

    for dropping, knowing, after, owners in members.all(peer):
        assert dropping.dropped and dropping.missing == knowing.missing and len(knowing.missing) == 5
        assert not knowing.dropped and not any(knowing.load[one] for one in knowing.missing)
        assert not dropping.taken_over and set(after.taken_over) <= set(knowing.missing)
        assert after.missing == () and sorted(map(owners.count, set(owners))) == [8, 8]


# ---- newcomers and checkpoints


def number_experts(model, comm):
    """Trains a step, and then sets each peer's experts to their numbers."""
    train([model], tokens_of(0))
    for number, owner in enumerate(model.owners):
        for parameter in model.experts[number].parameters():
            parameter.data.fill_(number if owner == comm.id else -1)


def are_numbered(model, comm):
    owned = [number for number, owner in enumerate(model.owners) if owner == comm.id]
    return owned and all((p == number).all() for number in owned for p in model.experts[number].parameters())


def test_experts_move_to_a_newcomer_and_come_back_from_checkpoints(group):
    dense = dense_layers(2, count=1)
    members = group(2)
    models = members.all(lambda comm, rank: spread(dense, comm)[0])
    members.all(lambda comm, rank: number_experts(models[rank], comm))
    members.admit()
    models += spread(dense, members.members[2])
    infos = members.all(lambda comm, rank: models[rank].sync())
    assert [info.step for info in infos] == [1, 1, 1]
    assert all(map(are_numbered, models, members.members))
    states = [copy.deepcopy(model.state_dict()) for model in models]
    members.members.pop(0).close()

    def resume(comm, rank):
        model = models[1 + rank]
        with pytest.raises(pccl.InvalidUsage, match="rejoin"):
            model.load_state_dict(states[0])
        model.rejoin(comm)
        model.load_state_dict(states[[2, 0][rank]])  # other peers' than before, and one is lost
        model.sync()
        return model

    owners = set(models[0].owners)
    lost = [number for number, owner in enumerate(models[1].owners) if owner == members.members[0].id]
    assert len(owners) == 3 and lost
    members.all(resume)
    for model, comm in zip(models[1:], members.members):
        for number, owner in enumerate(model.owners):
            first = next(model.experts[number].parameters())
            assert owner != comm.id or ((first == number).all() if number not in lost else (first <= number).all())


def test_copies_are_those_of_the_last_sync(group):
    dense = dense_layers(2, count=1)
    members = group(3)
    models = members.all(lambda comm, rank: spread(dense, comm, on_death="take_over")[0])
    members.all(lambda comm, rank: number_experts(models[rank], comm))
    members.all(lambda comm, rank: models[rank].sync())
    members.members.pop().close()
    members.all(lambda comm, rank: train([models[rank]], tokens_of(rank)))
    assert all(map(are_numbered, models, members.members))
    assert {step for model in models[:2] for step in model.info.taken_over.values()} == {1}


# ---- errors


def test_wrong_settings_are_told(group):
    comm = group(1).members[0]
    experts, router = [expert()], torch.nn.Linear(WIDTH, 1)
    for given, words in (
        ({"top_k": 2}, "top_k: 2; expected at most the number of experts, 1"),
        ({"top_k": 0}, "top_k: 0; expected"),
        ({"chunks": 0}, "chunks: 0; expected"),
        ({"max_bytes": 0}, "max_bytes: 0; expected"),
        ({"chunks": 1000}, "chunks: 1000; expected 256"),
        ({"on_death": "cry"}, "on_death: 'cry'; expected drop, take_over"),
        ({"experts": []}, "experts: expected modules"),
        ({"router": len}, "router: expected a module"),
        ({"comm": None}, "comm: expected a Communicator"),
        ({"tag": -1}, "tag"),
    ):
        with pytest.raises(pccl.InvalidArgument, match=words):
            MoE(**{"experts": experts, "router": router, "comm": comm, "top_k": 1, **given})
    with pytest.raises(pccl.InvalidArgument, match=r"router returned \(3, 2\) for 3 tokens, 1 experts"):
        MoE(experts, torch.nn.Linear(WIDTH, 2), comm, top_k=1)(torch.ones(3, WIDTH))
    with pytest.raises(pccl.InvalidArgument, match="an expert must keep both"):
        MoE([torch.nn.Linear(WIDTH, 2)], router, comm, top_k=1)(torch.ones(3, WIDTH))


def test_settings_that_differ_are_told_to_all(group):
    def peer(comm, rank):
        with pytest.raises(pccl.InvalidArgument, match=r"\[16, 2, 'drop', 1073741824\]"):
            spread(dense, comm, chunks=2 + rank)[0].sync()

    dense = dense_layers(2, count=1)
    group(2).all(peer)


def test_who_raises_leaves_and_the_others_go_on(group):
    def peer(comm, rank):
        model = spread(dense, comm)
        if rank == 0:
            for one in model[0].experts:
                one.register_forward_pre_hook(lambda *_: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                train(model, tokens_of(rank))
            comm.close()
            return
        try:
            train(model, tokens_of(rank))
        except pccl.AbortedError:  # if the other was in the same operation
            comm.update_topology()
        train(model, tokens_of(rank))
        assert model[0].info.participants == 1 and model[0].info.missing

    dense = dense_layers(2, count=1)
    group(2).all(peer)


def test_garbage_counts_for_nothing(group, monkeypatch, caplog):
    """A peer whose parts and answers are too short: its tokens reach no expert, and its experts answer nothing."""
    whole, liars = _moe._bytes_of, set()
    monkeypatch.setattr(
        _moe, "_bytes_of",
        lambda tensors: whole(tensors)[:-3] if threading.get_ident() in liars and tensors else whole(tensors),
    )

    def peer(comm, rank):
        model = spread(dense, comm)
        model[0].sync()
        if rank == 1:
            liars.add(threading.get_ident())
        train(model, tokens_of(rank))
        return model[0].info, sum(model[0].info.load[one] for one, who in enumerate(model[0].owners) if who != comm.id)

    dense = dense_layers(2, count=1)
    for info, away in group(2).all(peer):
        assert info.dropped == away > 0 and not info.lost
    assert "ignoring data from" in caplog.text


def test_parts_that_are_too_long_name_their_peer(group, monkeypatch):
    """No peer allocates memory for them, and the sender is named, not the receiver."""
    whole, liars = _moe._bytes_of, set()
    monkeypatch.setattr(
        _moe, "_bytes_of",
        lambda tensors: bytes(1 << 20) if threading.get_ident() in liars and tensors else whole(tensors),
    )

    def peer(comm, rank):
        model = spread(dense, comm, max_bytes=1 << 19)
        model[0].sync()
        if rank == 1:
            liars.add(threading.get_ident())
        with pytest.raises(pccl.PCCLError) as raised:
            train(model, tokens_of(rank))
        return comm.id, str(raised.value)

    dense = dense_layers(2, count=1)
    told = group(3).all(peer)
    assert any("the longest is peer " in words for _, words in told)
    for _, words in told:
        assert "); the longest is peer" not in words or f"; the longest is peer {told[1][0][:8]}" in words


# ---- processes


def killed(address, **given):
    command = [sys.executable, str(support.TESTS / "moe_run.py"), address, json.dumps(given)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=20 * support.DEADLINE, check=False,
        env=support.environment(OMP_NUM_THREADS="1"),
    )
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.sampled(3)
def test_a_kill(address):
    told = killed(address, kills=1, seed=3, replaced=False)
    assert told["taken"] >= 4 and not told["dropped"]  # two experts in each layer, and then the others'


@pytest.mark.nightly
@pytest.mark.parametrize("on_death", ["drop", "take_over"])
def test_kills_at_random_moments(address, on_death):
    told = killed(address, on_death=on_death, kills=20, seed=5)
    support.figure(f"until the survivors' next step, {on_death}", told["max_s"], "s")
    assert told["losses"][1] < told["losses"][0]
