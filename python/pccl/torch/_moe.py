"""A mixture of experts that are distributed over several peers."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

import torch

from .._communicator import Communicator, Group
from .._enums import number
from .._errors import InvalidArgument, InvalidUsage, PeerLostError
from .._settings import choice, integer
from . import _overlap, _placing
from ._overlap import LOST, TAGS_OF_A_CHUNK, Exchange, Traffic
from ._placing import Holding

FIRST_TAG = 1 << 41  # above the tags of DiLoCo and the methods
_CHUNK_TAG = 2  # tag of the first chunk, after the tags for placing experts
_COUNT_BYTES = 8
_MOST_CHUNKS = 256

# Reasons for a meeting of all peers. The greatest reason given by any peer applies.
_LOST, _PLACE, _SYNC = 0, 1, 2

_log = logging.getLogger("pccl.torch")


@dataclass
class MoEInfo:
    """Results of the last forward pass and its backward pass. A row is a token that is sent to one of its experts.

    step          number of forwards with gradients, the same on all peers
    participants  number of peers that stayed until the end
    lost          ids of the peers that were lost
    missing       experts without a peer: until sync(), their tokens use other experts
    taken_over    experts of lost peers that this peer took over, with the steps of its copies
    load          number of this peer's rows for each expert
    rows          total number of these rows
    dropped       number of rows without an answer; the other experts of the token share its weight
    computed      number of rows, of any peer, that this peer's experts computed
    no_gradient   number of rows without a gradient because a peer was lost in the backward or since the forward
    repeated      number of attempts in which a peer was lost
    tx_bytes      payload bytes (rows and counts) sent to other peers, forward and backward, without repeated attempts
    rx_bytes      payload bytes received, counted in the same way
    waited_s      time without anything to compute, in seconds
    """

    step: int = 0
    participants: int = 0
    lost: Tuple[str, ...] = ()
    missing: Tuple[int, ...] = ()
    taken_over: Dict[int, int] = field(default_factory=dict)
    load: Tuple[int, ...] = ()
    rows: int = 0
    dropped: int = 0
    computed: int = 0
    no_gradient: int = 0
    repeated: int = 0
    tx_bytes: int = 0
    rx_bytes: int = 0
    waited_s: float = 0.0


# ---- rows as bytes


def _bytes_of(tensors: Sequence[torch.Tensor]) -> Any:
    filled = [one.detach().cpu().contiguous().view(-1).view(torch.uint8) for one in tensors if one.numel()]
    return torch.cat(filled) if filled else b""


def _tensor_of(part: memoryview, like: torch.Tensor) -> torch.Tensor:
    """Returns a copy of the bytes as rows of the same width as `like`."""
    if not len(part):
        return like.new_empty(0, like.shape[1])
    flat = torch.frombuffer(bytearray(part), dtype=like.dtype)
    return flat.view(-1, like.shape[1]).to(like.device)


def _row_bytes(rows: torch.Tensor) -> int:
    return int(rows.shape[1] * rows.element_size())


# ---- transfer of rows


class _Rows:
    """The rows of this peer, sorted by chunk and then by expert."""

    def __init__(self, chosen: torch.Tensor, experts: int, chunks: int) -> None:
        """chosen: numbers of each token's experts."""
        tokens, each = chosen.shape
        token = torch.arange(tokens, device=chosen.device).repeat_interleave(each)
        key = (token * chunks).div(max(1, tokens), rounding_mode="floor") * experts + chosen.reshape(-1)
        self.order = key.argsort(stable=True)
        self.token = token[self.order]
        counts = torch.bincount(key, minlength=chunks * experts)
        ends = [0, *counts.cumsum(0).tolist()]
        self._spans = [slice(begin, end) for begin, end in zip(ends, ends[1:])]
        self._experts = experts
        self.load = tuple(counts.view(chunks, experts).sum(0).tolist())

    def span(self, chunk: int, expert: int) -> slice:
        return self._spans[chunk * self._experts + expert]

    def count(self, chunk: int, experts: Sequence[int]) -> int:
        spans = [self.span(chunk, expert) for expert in experts]
        return sum(span.stop - span.start for span in spans)


class _Pass(_overlap.Job):
    """Base of forward and backward. `given` contains this peer's rows, and `out` their results."""

    def __init__(self, moe: MoE, rows: _Rows, given: torch.Tensor) -> None:
        self.moe, self.rows, self.given = moe, rows, given
        self.out = torch.zeros_like(given)

    def begin(self, chunk: int) -> None:
        """Begins an attempt, and discards the results of earlier attempts."""

    def commit(self, chunk: int) -> None:
        """Makes the results of the attempt final."""

    def _slices(self, chunk: int, experts: Sequence[int]) -> List[torch.Tensor]:
        return [self.given[self.rows.span(chunk, expert)] for expert in experts]

    def _fill(self, chunk: int, experts: Sequence[int], made: torch.Tensor) -> None:
        begin = 0
        for expert in experts:
            span = self.rows.span(chunk, expert)
            end = begin + span.stop - span.start
            self.out[span] = made[begin:end]
            begin = end

    def _rows_in(self, peer: int, part: memoryview, count: int) -> Optional[torch.Tensor]:
        """Returns this number of rows; or None, with a warning, if the part has a different size."""
        if len(part) != count * _row_bytes(self.given):
            name = self.moe._members[peer]
            _log.warning("%s: ignoring data from %s: %d bytes for %d rows of %d", self.moe.label, name,
                         len(part), count, _row_bytes(self.given))
            return None
        return _tensor_of(part, self.given)


_Computed = Tuple[int, torch.Tensor, torch.Tensor]  # an expert, its input, its output


class _Forward(_Pass):
    def __init__(self, moe: MoE, rows: _Rows, given: torch.Tensor, keeps: bool) -> None:
        super().__init__(moe, rows, given)
        self._keeps = keeps
        # Kept for the backward, by chunk and peer:
        self.kept: Dict[int, Dict[str, List[_Computed]]] = {}
        self.answered: Dict[int, Dict[str, List[int]]] = {}  # experts that have computed this peer's rows
        self._computed: Dict[int, int] = {}

    def begin(self, chunk: int) -> None:
        self.kept[chunk], self.answered[chunk], self._computed[chunk] = {}, {}, 0

    def parts(self, chunk: int) -> List[Any]:
        return [b"" if peer == self.moe._rank else self._part(chunk, peer) for peer in range(len(self.moe._members))]

    def _part(self, chunk: int, peer: int) -> Any:
        slices = self._slices(chunk, self.moe._experts_of(peer))
        return _bytes_of([torch.tensor([len(one) for one in slices], dtype=torch.int64), *slices])

    def work(self, chunk: int, peer: int, part: memoryview) -> Any:
        header = _COUNT_BYTES * len(self.moe._experts_of(self.moe._rank))
        counts = part[: header].cast("q").tolist() if len(part) >= header else [-1]
        count = sum(counts) if min(counts, default=0) >= 0 else -1
        rows = self._rows_in(peer, part[header:], count)
        if rows is None:
            return b""
        return _bytes_of([self._compute(chunk, peer, list(rows.split(counts)) if counts else [])])

    def work_alone(self, chunk: int) -> None:
        own = self.moe._experts_of(self.moe._rank)
        self._fill(chunk, own, self._compute(chunk, self.moe._rank, self._slices(chunk, own)))
        self.answered[chunk][self.moe._members[self.moe._rank]] = own

    def _compute(self, chunk: int, peer: int, slices: Sequence[torch.Tensor]) -> torch.Tensor:
        """Computes each slice with an expert of this peer."""
        made, kept = [self.given[:0]], []
        for expert, rows in zip(self.moe._experts_of(self.moe._rank), slices):
            if not len(rows):
                continue
            with torch.set_grad_enabled(self._keeps):
                given = rows.detach().requires_grad_(self._keeps)
                out = self.moe.experts[expert](given)
            if out.shape != given.shape or out.dtype != given.dtype:
                raise InvalidArgument(
                    f"{self.moe.label}: expert {expert} returned {tuple(out.shape)}, {out.dtype} for "
                    f"{tuple(given.shape)}, {given.dtype}; an expert must keep both"
                )
            made.append(out.detach())
            kept.append((expert, given, out))
            self._computed[chunk] += len(rows)
        if self._keeps:
            self.kept[chunk][self.moe._members[peer]] = kept
        return torch.cat(made)

    def take(self, chunk: int, peer: int, answer: memoryview) -> None:
        experts = self.moe._experts_of(peer)
        rows = self._rows_in(peer, answer, self.rows.count(chunk, experts))
        if rows is not None:
            self._fill(chunk, experts, rows)
            self.answered[chunk][self.moe._members[peer]] = experts

    def commit(self, chunk: int) -> None:
        self.moe.info.computed += self._computed[chunk]

    def are_answered(self) -> torch.Tensor:
        """Returns a mask of the answered rows."""
        mask = torch.zeros(len(self.given), dtype=torch.bool, device=self.given.device)
        for chunk, of_peers in self.answered.items():
            for experts in of_peers.values():
                for expert in experts:
                    mask[self.rows.span(chunk, expert)] = True
        return mask


class _Backward(_Pass):
    """The backward pass. Sends gradients to the peers that have computed the rows. Failed chunks have no effect."""

    def __init__(self, forward: _Forward, given: torch.Tensor) -> None:
        super().__init__(forward.moe, forward.rows, given)
        self._forward = forward
        self._found: Dict[int, Dict[torch.nn.Parameter, torch.Tensor]] = {}
        self._brought: Dict[int, int] = {}

    def begin(self, chunk: int) -> None:
        self._found[chunk], self._brought[chunk] = {}, 0

    def _experts(self, chunk: int, peer: int) -> List[int]:
        return self._forward.answered[chunk].get(self.moe._members[peer], [])

    def parts(self, chunk: int) -> List[Any]:
        return [
            b"" if peer == self.moe._rank else _bytes_of(self._slices(chunk, self._experts(chunk, peer)))
            for peer in range(len(self.moe._members))
        ]

    def work(self, chunk: int, peer: int, part: memoryview) -> Any:
        kept = self._forward.kept[chunk].get(self.moe._members[peer], [])
        rows = self._rows_in(peer, part, sum(len(given) for _, given, _ in kept))
        return b"" if rows is None else _bytes_of([self._differentiate(chunk, kept, rows)])

    def work_alone(self, chunk: int) -> None:
        own = self._experts(chunk, self.moe._rank)
        kept = self._forward.kept[chunk].get(self.moe._members[self.moe._rank], [])
        rows = torch.cat([self.given[:0], *self._slices(chunk, own)])
        self._fill(chunk, own, self._differentiate(chunk, kept, rows))
        self._brought[chunk] += self.rows.count(chunk, own)

    def _differentiate(self, chunk: int, kept: Sequence[_Computed], rows: torch.Tensor) -> torch.Tensor:
        """Computes the gradients of the experts' inputs, which it returns, and of their parameters, which it sums."""
        made, found = [self.given[:0]], self._found[chunk]
        for (expert, given, out), gradient in zip(kept, rows.split([len(given) for _, given, _ in kept])):
            parameters = [one for one in self.moe.experts[expert].parameters() if one.requires_grad]
            # Keeps the graph, because the attempt may fail and the next one needs it.
            gradients = torch.autograd.grad(
                out, [given, *parameters], gradient, retain_graph=True, allow_unused=True
            ) if out.requires_grad else [None]
            made.append(torch.zeros_like(given) if gradients[0] is None else gradients[0])
            for parameter, one in zip(parameters, gradients[1:]):
                if one is not None:
                    found[parameter] = found[parameter] + one if parameter in found else one
        return torch.cat(made)

    def take(self, chunk: int, peer: int, answer: memoryview) -> None:
        experts = self._experts(chunk, peer)
        count = self.rows.count(chunk, experts)
        rows = self._rows_in(peer, answer, count)
        if rows is not None:
            self._fill(chunk, experts, rows)
            self._brought[chunk] += count

    def commit(self, chunk: int) -> None:
        for parameter, gradient in self._found.pop(chunk).items():
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        of_forward = sum(self.rows.count(chunk, experts) for experts in self._forward.answered[chunk].values())
        self.moe.info.no_gradient += of_forward - self._brought[chunk]
        del self._forward.kept[chunk]


class _Through(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, given: torch.Tensor, _anchor: torch.Tensor, job: _Forward) -> Any:
        job.moe._carry_out(job)
        answered, out = job.are_answered(), job.out
        job.given = job.out = given[:0]  # breaks a cycle that would keep the result alive
        ctx.job = job
        ctx.mark_non_differentiable(answered)
        return out, answered

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> Any:
        if not ctx.job.kept:
            raise InvalidUsage(f"{ctx.job.moe.label}: backward() was called twice for the same forward()")
        job = _Backward(ctx.job, gradient.contiguous())
        job.moe._carry_out(job)
        return job.out, None, None


# ---- the module


class MoE(torch.nn.Module):  # type: ignore[misc]
    """A layer of experts that are distributed over the peers. Tokens are sent to their experts, and the results back.

    experts: modules that map rows of tokens to rows of the same shape; all of them on all peers, in the same order.
        Each peer trains its own experts; the others are copies.
    router: a module that returns a number for each expert of each token. Each peer has one, and averages its gradients
        with the others', as with all parameters outside experts (see shared_parameters()).
    comm: the communicator. All peers must call forward and backward together.
    top_k: number of experts of each token, those with the largest probabilities. Their outputs are summed, each
        weighted by its share of their total probability; with top_k=1, by its probability.
    chunks: number of pieces into which a peer's tokens are divided, so that transfers and computation overlap.
    on_death: "drop" the experts of a lost peer, or let others "take_over" them from the copies that sync() makes.
    tag: first of 2 + 2 * chunks tags. Layers that are not used at the same time may share them.
    label: name of the layer in logs and recordings.
    max_bytes: limit on the bytes of a chunk that one peer receives, the same on all peers. If a peer sends more, all
        peers raise InvalidUsage with its id, without allocating memory for it.

    info contains the results of the last forward and its backward. aux_loss is small if all experts have equal load.
    For failures other than lost peers, forward() and backward() raise a PCCLError, and operations in progress end on
    all peers.
    """

    def __init__(
        self,
        experts: Sequence[torch.nn.Module],
        router: torch.nn.Module,
        comm: Communicator,
        *,
        top_k: int = 2,
        chunks: int = 4,
        on_death: str = "drop",
        tag: int = FIRST_TAG,
        label: str = "moe",
        max_bytes: int = 1 << 30,
    ) -> None:
        super().__init__()
        top_k, chunks, max_bytes = map(integer(1), ("top_k", "chunks", "max_bytes"), (top_k, chunks, max_bytes))
        choice(("drop", "take_over"))("on_death", on_death)
        given = list(experts)
        if not given or not all(isinstance(one, torch.nn.Module) for one in given):
            raise InvalidArgument("experts: expected modules, at least one")
        if not isinstance(router, torch.nn.Module):
            raise InvalidArgument(f"router: expected a module, not {router!r}")
        if not isinstance(comm, Communicator):
            raise InvalidArgument(f"comm: expected a Communicator, not {comm!r}")
        if top_k > len(given):
            raise InvalidArgument(f"top_k: {top_k}; expected at most the number of experts, {len(given)}")
        if chunks > _MOST_CHUNKS:
            raise InvalidArgument(f"chunks: {chunks}; expected {_MOST_CHUNKS} at most")
        self.experts, self.router = torch.nn.ModuleList(given), router
        self.comm, self.top_k, self.chunks, self.on_death, self.label = comm, top_k, chunks, on_death, label
        self._tag = number("tag", tag, 0, (1 << 64) - _CHUNK_TAG - TAGS_OF_A_CHUNK * chunks)
        self._max_bytes = max_bytes
        self.info = MoEInfo()
        self.aux_loss = torch.zeros(())
        self._step = 0
        self._versions = [0] * len(given)
        self.rejoin(comm)

    # ---- members and experts

    @property
    def owners(self) -> Tuple[Optional[str], ...]:
        """Id of the peer that computes each expert, or None if no peer does. Empty until the peers have met."""
        return tuple(None if one is None else self._members[one] for one in self._owners)

    def rejoin(self, comm: Communicator) -> None:
        """Continues with a different communicator. This peer is then a newcomer, but keeps the state of its experts."""
        self.comm = comm
        self._members: Tuple[str, ...] = ()
        self._owners: List[Optional[int]] = []
        self._rank = 0

    def _experts_of(self, peer: int) -> List[int]:
        return [expert for expert, owner in enumerate(self._owners) if owner == peer]

    def _missing(self) -> Tuple[int, ...]:
        return tuple(expert for expert, owner in enumerate(self._owners) if owner is None)

    def sync(self) -> MoEInfo:
        """Assigns each expert to a peer, so that all peers have about the same number of experts, and moves the
        parameters of reassigned experts. With on_death="take_over", also copies each expert to the peer that would take
        it over. All peers must call it between steps: after admissions, and regularly to update the copies."""
        self.info = MoEInfo(step=self._step)
        self._meet(_SYNC)
        return self.info

    def _meet(self, why: int) -> None:
        """Agrees with all remaining peers on the members, owners and versions."""
        before = set(self._members)
        while not self._try_to_meet(why):
            self._refuse_in_group()
        gone = before - set(self._members)
        missing = self._missing()
        self.info.lost += tuple(sorted(gone))
        self.info.missing, self.info.participants, self.info.step = missing, len(self._members), self._step
        if gone:
            _log.warning(
                "%s: step %d: lost %s; missing experts: %s; taken over by this peer: %s", self.label, self._step,
                ", ".join(sorted(gone)), list(missing) or "none", sorted(self.info.taken_over) or "none",
            )
        for expert, module in enumerate(self.experts):
            if self._owners[expert] != self._rank:
                module.zero_grad(set_to_none=True)

    def _refuse_in_group(self) -> None:
        if isinstance(self.comm, Group):
            raise PeerLostError(f"{self.label}: a lost peer ended the group; create another group and call rejoin()")

    def _settings(self) -> List[Any]:
        return [len(self.experts), self.chunks, self.on_death, self._max_bytes]

    def _try_to_meet(self, why: int) -> bool:
        own = self._experts_of(self._rank) if self._members else []
        said = {"why": why, "settings": self._settings(), "step": self._step, "versions": self._versions, "owned": own}
        try:
            found = self.comm.all_gather_v(json.dumps(said).encode(), tag=self._tag, alone_ok=True, label=self.label)
        except PeerLostError:
            return False
        heard = [self._checked_report(peer, bytes(data)) for peer, data in found]
        members = tuple(peer for peer, _ in found)
        holdings = [Holding(tuple(one["versions"]), tuple(one["owned"])) for one in heard]
        why = max(one["why"] for one in heard)
        before = _placing.owners_of(holdings, len(self.experts))
        owners = list(before)
        if why != _LOST or self.on_death == "take_over":
            owners = list(_placing.place(owners, len(members)))
        moves = _placing.moves_to(owners, holdings)
        if why == _SYNC and self.on_death == "take_over":
            moves += _placing.moves_to(_placing.heirs_of(owners, len(members)), holdings)
        rank = members.index(self.comm.id)
        if not self._move(moves, members, rank, holdings):
            return False
        if self._members:
            mine = [expert for expert, owner in enumerate(owners) if owner == rank and before[expert] is None]
            self.info.taken_over.update((expert, self._versions[expert]) for expert in mine)
        self._members, self._rank, self._owners = members, rank, owners
        self._step = max(one["step"] for one in heard)
        return True

    def _checked_report(self, peer: str, data: bytes) -> Mapping[str, Any]:
        """Parses and checks a peer's report. All peers get the same reports, so all raise the same errors."""
        try:
            said: Mapping[str, Any] = json.loads(data)
            settings, versions, owned = said["settings"], said["versions"], said["owned"]
            whole = [said["why"], said["step"], *versions, *owned]
            is_right = all(type(one) is int and one >= 0 for one in whole) and said["why"] <= _SYNC
        except (ValueError, LookupError, TypeError):
            settings, is_right = None, False
        if settings is not None and settings != self._settings():
            raise InvalidArgument(
                f"{self.label}: {peer} has experts, chunks, on_death, max_bytes = {settings}, "
                f"and this peer {self._settings()}; "
                "they must be the same on all peers"
            )
        if not is_right or len(versions) != len(self.experts) or any(one >= len(self.experts) for one in owned):
            raise InvalidArgument(f"{self.label}: {peer} sent an invalid description of its experts")
        return said

    def _move(
        self, moves: Sequence[_placing.Move], members: Sequence[str], rank: int, holdings: Sequence[Holding]
    ) -> bool:
        """Sends parameters to peers that lack them. Returns false if a peer was lost."""
        if not moves:
            return True
        outgoing: List[List[torch.Tensor]] = [[] for _ in members]
        for move in moves:
            if move.source == rank:
                outgoing[move.target] += self._state_of(move.expert)
        due = [0] * len(members)  # in bytes; a peer that announces more is detected at once
        for move in moves:
            due[move.target] += sum(one.numel() * one.element_size() for one in self._state_of(move.expert))
        try:
            came = self.comm.all_to_all_v(
                [_bytes_of(one) for one in outgoing], tag=self._tag + 1, members=members, alone_ok=True,
                max_bytes=max(1, *due), label=f"{self.label} experts",
            )
        except LOST:
            return False
        for source, (peer, part) in enumerate(came):
            mine = [move for move in moves if move.target == rank and move.source == source]
            self._load(peer, part, {move.expert: holdings[source].versions[move.expert] for move in mine})
        return True

    def _state_of(self, expert: int) -> List[torch.Tensor]:
        return [one for one in self.experts[expert].state_dict().values() if isinstance(one, torch.Tensor)]

    def _load(self, peer: str, part: memoryview, versions: Mapping[int, int]) -> None:
        tensors = [(expert, one) for expert in versions for one in self._state_of(expert)]
        if len(part) != sum(one.numel() * one.element_size() for _, one in tensors):
            names = list(versions)
            raise InvalidArgument(f"{self.label}: {peer} sent {len(part)} bytes, which do not fit experts {names}")
        begin = 0
        for _, one in tensors:
            end = begin + one.numel() * one.element_size()
            if end > begin:
                one.copy_(torch.frombuffer(bytearray(part[begin:end]), dtype=one.dtype).view(one.shape))
            begin = end
        for expert, version in versions.items():
            self._versions[expert] = version

    # ---- forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the layer's output. The last dimension of x is the size of a token."""
        keeps = torch.is_grad_enabled()
        if not self._members:
            self._meet(_PLACE)
        if keeps:
            self._step += 1
            for expert in self._experts_of(self._rank):
                self._versions[expert] = self._step
        tokens = x.reshape(-1, x.shape[-1])
        weights, chosen = self._route(tokens)
        rows = _Rows(chosen, len(self.experts), self.chunks)
        self.info = MoEInfo(step=self._step, missing=self._missing(), load=rows.load, rows=len(rows.token))
        anchor = torch.zeros(0, requires_grad=keeps)  # gives parameters gradients even if the input needs none
        job = _Forward(self, rows, tokens.detach()[rows.token], keeps)
        out, answered = _Through.apply(tokens[rows.token], anchor, job)
        self.info.dropped = int((~answered).sum())
        shares = self._shares(weights.reshape(-1)[rows.order] * answered, rows.token, len(tokens))
        return torch.zeros_like(tokens).index_add(0, rows.token, out * shares[:, None].to(out.dtype)).view_as(x)

    def _route(self, tokens: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """Returns the probabilities and the numbers of each token's experts."""
        logits = self.router(tokens)
        experts = len(self.experts)
        if logits.shape != (len(tokens), experts):
            raise InvalidArgument(
                f"{self.label}: the router returned {tuple(logits.shape)} for {len(tokens)} tokens, {experts} experts"
            )
        probabilities = logits.softmax(-1)
        there = torch.tensor([owner is not None for owner in self._owners], device=logits.device)
        weights, chosen = (probabilities * there).topk(self.top_k)
        self.aux_loss = self._balance(probabilities, chosen)
        return weights, chosen

    def _balance(self, probabilities: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        """Returns the load-balancing loss: 1 for equal loads, and up to the number of experts if one has all."""
        experts = len(self.experts)
        taken = torch.bincount(chosen.reshape(-1), minlength=experts) / max(1, chosen.numel())
        return experts * (taken * probabilities.sum(0) / max(1, len(probabilities))).sum()

    def _shares(self, weights: torch.Tensor, token: torch.Tensor, tokens: int) -> torch.Tensor:
        """Returns the weight of each row in its token's output."""
        if self.top_k == 1:
            return weights
        whole = weights.new_zeros(tokens).index_add(0, token, weights)
        return weights / whole.clamp(min=torch.finfo(weights.dtype).tiny)[token]

    def _carry_out(self, job: _Pass) -> None:
        todo: Set[int] = set(range(self.chunks))
        traffic = Traffic()
        while todo:
            for chunk in todo:
                job.begin(chunk)
            exchange = Exchange(
                self.comm, self._members, self._tag + _CHUNK_TAG, self.label, job, traffic, self._max_bytes
            )
            failed = exchange.run(sorted(todo))
            for chunk in todo - failed:
                job.commit(chunk)
            todo = failed
            if todo:
                self.info.repeated += 1
                self._refuse_in_group()
                self._meet(_LOST)
        self.info.participants = len(self._members)
        self.info.tx_bytes += traffic.tx_bytes
        self.info.rx_bytes += traffic.rx_bytes
        self.info.waited_s += traffic.waited_s

    # ---- checkpoints

    def get_extra_state(self) -> torch.Tensor:
        """Returns the training step of this peer's copy of each expert, as part of the state_dict(). Each peer saves
        and loads its own state. When they meet again, each expert continues from the best copy that any peer has."""
        return torch.tensor([self._step, *self._versions])

    def set_extra_state(self, state: torch.Tensor) -> None:
        if self._members:
            raise InvalidUsage(f"{self.label}: load_state_dict() on a peer that is in the run; call it before rejoin()")
        step, *versions = state.tolist()
        if len(versions) != len(self.experts):
            count = len(self.experts)
            raise InvalidArgument(f"{self.label}: a state of {len(versions)} experts; expected {count}")
        self._step, self._versions = step, versions


def shared_parameters(model: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    """Yields the parameters of a model that do not belong to experts. Each peer has these, and averages their gradients
    with the other peers'."""
    of_experts = {
        id(one) for layer in model.modules() if isinstance(layer, MoE) for one in layer.experts.parameters()
    }
    return (one for one in model.parameters() if id(one) not in of_experts)
