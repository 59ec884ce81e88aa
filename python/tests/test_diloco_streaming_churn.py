"""Streaming DiLoCo among real processes, which are killed at random moments and in the middle of reductions; others
join.

Each inner step of peer i takes 12 * 2**i from all parameters and the outer step is the plain mean, so that all sums are
exact. Whenever two peers meet, they must hold the same bits.
"""

import itertools
import json
import random
import signal

import pytest
import support
from test_diloco_churn import MASTER

pytest.importorskip("numpy")

PERIOD, DELAY, FRAGMENTS = 6, 2, 3

PEER = r"""
import json, os, signal, sys, threading
import numpy as np
import pccl
from pccl.diloco import DiLoCo, Nesterov
from pccl.diloco._reduction import FIRST_TAG
address, about = sys.argv[1], json.loads(sys.argv[2])
say = lambda text: sys.stdout.write(text + "\n") and sys.stdout.flush()
if about.get("torch"):
    import torch
    torch.set_num_threads(1)
    params = {name: torch.zeros(about["size"]) for name in ("f0", "f1", "f2")}
else:
    params = {name: np.zeros(about["size"], np.float32) for name in ("f0", "f1", "f2")}
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
dies, steps = about.get("dies", {}), 0

class Mortal(pccl.Communicator):
    slots = carried = 0
    def send_async(self, *about, **given):
        return self.carry(super().send_async(*about, **given))
    def recv_async(self, *about, **given):
        return self.carry(super().recv_async(*about, **given))
    def carry(self, handle):
        self.carried += 1
        if self.carried == dies.get("carried"):
            threading.Timer(dies["seconds"], die).start()
        return handle
    def all_reduce_async(self, send, recv, **given):
        fragment, number = divmod(given["tag"] - FIRST_TAG, 1 << 24)
        if dies.get("fragment") == fragment - 1 and number == 3:
            self.slots += 1
            if self.slots == dies["slot"]:
                die()
        return super().all_reduce_async(send, recv, **given)

comm = Mortal(address)
diloco = DiLoCo(comm, params, inner_steps=6, fragments=3, delay=2, alpha=about["alpha"], outer=Nesterov(1.0, 0.0),
                codec=about["codec"], feedback=about["codec"] is not None, bucket_bytes=about["bucket_bytes"],
                min_peers=about["min_peers"], verify_every=about["verify_every"], rounds=about["rounds"],
                catch_up=about["catch_up"])
info = diloco.join()
say(f"joined at {diloco.round} moved {info.moved_bytes}")
before = {name: float(value[0]) for name, value in params.items()}
while not diloco.finished:
    for value in params.values():
        value -= 12 * 2 ** about["number"]
    steps += 1
    if steps == dies.get("at"):
        threading.Timer(dies["seconds"], die).start()
    info = diloco.step(samples=1)
    if not info.fragments:
        continue
    costs = []
    for cost in info.fragments:
        value = params[f"f{cost.fragment}"]
        moved = None
        if about["alpha"] == 0 and about["codec"] is None and cost.participants > 0:
            assert float(value.min()) == float(value.max()), "not the same everywhere"
            moved = before[f"f{cost.fragment}"] - float(value[0])
            before[f"f{cost.fragment}"] = float(value[0])
        costs.append([cost.fragment, cost.participants, cost.committed, cost.age, moved])
    say(json.dumps({"step": diloco.inner_step, "costs": costs, "digest": diloco.digest(),
                    "samples": diloco.samples, "received": info.moved_bytes}))
diloco.finish()
say("end " + diloco.digest())
diloco.close()
"""


class Run:
    def __init__(self, script, address, **about):
        given = {"size": 4096, "alpha": 0, "codec": None, "bucket_bytes": 2048, "verify_every": 4, "rounds": 12}
        self._script, self._address, self._about = script, address, {**given, "catch_up": "whole", **about}
        self.peers = []

    def peer(self, number, **about):
        given = json.dumps({**self._about, **about, "number": number})
        self.peers.append(self._script(PEER, self._address, given, env={"OMP_NUM_THREADS": "1"}))
        return self.peers[-1]

    def end(self, *stay):
        """Checks that these end with success and the same bits, and that all peers held the same whenever they met.
        Returns their slots."""
        assert len({peer.line("end ") for peer in stay}) == 1
        assert [peer.end() for peer in stay] == [0] * len(stay)
        found = [slots(peer) for peer in self.peers]
        for one, other in itertools.combinations(found, 2):
            for step in set(one) & set(other):
                assert one[step] == other[step], step
        assert all(set(mine) & set(found[0]) for mine in found if mine), "two never met"
        return found


def slots(peer):
    """Returns its reports, without a line cut off by its death."""
    lines = [json.loads(line) for line in peer.lines if line.startswith("{") and line.endswith("}")]
    for line in lines:
        assert line["received"] == 0, "two peers computed different things"
        ages = [age for _, _, _, age, _ in line["costs"]]
        assert max(ages) <= DELAY, line
    return {line["step"]: line for line in lines}


def of_fragment(mine, fragment):
    """Returns (step, participants, moved) of its reductions, in turn."""
    return [
        (step, participants, moved)
        for step, line in sorted(mine.items())
        for which, participants, _, _, moved in line["costs"]
        if which == fragment
    ]


THREE, BOTH, LAST = 12 * (1 + 2 + 4), 12 * (1 + 2), 12 * 8  # changes of peers 0 to 2, of 0 and 1, and of 3 in a step
# (step, participants, moved); two of six steps are made while a fragment is in flight, and do not count.
UNDISTURBED = [
    # The newcomer joins at step 18, and has no contribution to the launches of that step.
    [(8, 3, 6 * THREE / 3), (14, 3, 4 * THREE / 3), (20, 3, 4 * BOTH / 2), (26, 3, 4 * (BOTH + LAST) / 3)],
    [(4, 3, 2 * THREE / 3), (10, 3, 4 * THREE / 3), (16, 2, 4 * BOTH / 2), (22, 3, (4 * BOTH + 2 * LAST) / 3)],
    [(6, 3, 4 * THREE / 3), (12, 3, 4 * THREE / 3), (18, 2, 4 * BOTH / 2), (24, 3, (4 * BOTH + 4 * LAST) / 3)],
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "fragment, slot, disturbed",
    [
        (0, 2, [UNDISTURBED[0][0], (14, 0, None), (20, 3, 10 * BOTH / 2), UNDISTURBED[0][3]]),
        (1, 3, [*UNDISTURBED[1][:2], (16, 0, None), (22, 3, (10 * BOTH + 2 * LAST) / 3)]),
    ],
)
def test_a_peer_is_killed_in_the_middle_of_a_reduction(script, address, fragment, slot, disturbed):
    """Two of its buckets are in flight, the others are never launched: all give up the fragment, and the deltas are
    part of its next slot. The other fragments are not disturbed."""
    run = Run(script, address, min_peers=3)
    stay = [run.peer(i) for i in range(2)]
    victim = run.peer(2, dies={"fragment": fragment, "slot": slot})
    assert victim.end() == -signal.SIGKILL
    run.peer(3)  # the others wait for it at the boundary, which is step 18
    found = run.end(*stay, run.peers[-1])[0]
    assert of_fragment(found, fragment)[:4] == disturbed
    for other in {0, 1, 2} - {fragment}:
        assert of_fragment(found, other)[:4] == UNDISTURBED[other]
    assert found[20]["samples"] == (6 * 3 + 12 * 2 if fragment == 0 else 12 * 3 + 6 * 2)
    assert found[26]["samples"] == found[20]["samples"] + 6 * 3


@pytest.mark.sampled(3)
def test_the_only_other_one_is_killed_in_the_middle_of_a_reduction(script, address):
    """Then the mean is the last peer's delta, in the same slot."""
    run = Run(script, address, min_peers=2)
    stays, victim = run.peer(0), run.peer(1, dies={"fragment": 1, "slot": 3})
    assert victim.end() == -signal.SIGKILL
    run.peer(3)  # joins at step 18
    found = run.end(stays, run.peers[-1])[0]
    both, first = 12 * (1 + 2), 12 * 1
    wanted = [(4, 2, 2 * both / 2), (10, 2, 4 * both / 2), (16, 1, 4 * first), (22, 2, (4 * first + 2 * LAST) / 2)]
    assert of_fragment(found, 1)[:4] == wanted
    assert of_fragment(found, 2)[2:4] == [(18, 1, 4 * first), (24, 2, 4 * (first + LAST) / 2)]


@pytest.mark.parametrize(
    "victim, carried, seconds",
    [
        ("giver", 2, 0.001),
        ("newcomer", 4, 0.001),
        *(pytest.param(victim, 1, 0, marks=pytest.mark.nightly) for victim in ("giver", "newcomer")),
    ],
)
def test_one_is_killed_while_a_fragment_is_on_its_way_to_a_newcomer(script, address, victim, carried, seconds):
    """The others wait for one more at the next boundary; then all have everything."""
    run = Run(script, address, min_peers=4, size=1 << 16, bucket_bytes=1 << 16, catch_up="fragments")
    dies = {"carried": carried, "seconds": seconds}
    stay = [run.peer(i) for i in range(2)]
    giver = run.peer(2, dies=dies if victim == "giver" else {})
    gone = run.peer(3, dies={"at": 8, "seconds": 0})
    assert gone.end() == -signal.SIGKILL
    newcomer = run.peer(4, dies=dies if victim == "newcomer" else {})
    assert {"giver": giver, "newcomer": newcomer}[victim].end() == -signal.SIGKILL
    run.peer(5)
    found = run.end(*stay, newcomer if victim == "giver" else giver, run.peers[-1])
    counts = [participants for line in found[0].values() for _, participants, *_ in line["costs"]]
    assert counts[-1] == 4 and set(counts) <= {0, 2, 3, 4}


def kill_at_random(script, address, count, kills, seed, mixed=False, **about):
    """Kills this number of peers at random moments, one after another; each is replaced."""
    dice = random.Random(seed)
    run = Run(script, address, min_peers=count, rounds=8 * kills + 8, **about)

    def start(number, mortal):
        moment = {"at": dice.randint(8, 24)}
        if number >= count and about.get("catch_up") == "fragments" and dice.random() < 0.5:
            moment = {"carried": dice.randint(1, 3 * 2)}  # before it has everything
        dies = {**moment, "seconds": dice.uniform(0, 0.003)} if mortal else {}
        return run.peer(number, dies=dies, torch=mixed and number % 2 == 1)

    stay = [start(number, False) for number in range(count - 1)]
    victim = start(count - 1, True)
    for number in range(count, count + kills):
        assert victim.end() == -signal.SIGKILL, victim.lines
        victim = start(number, number < count + kills - 1)
    return run.end(*stay, victim)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("codec, catch_up", [(None, "whole"), ("e3m0", "whole"), ("e3m0", "fragments")])
def test_killed_at_random_moments(script, address, codec, catch_up):
    found = kill_at_random(script, address, 3, 3, 1, codec=codec, alpha=0.5, catch_up=catch_up)
    counts = {participants for line in found[0].values() for _, participants, *_ in line["costs"]}
    assert 3 in counts and counts <= {0, 2, 3}


@pytest.mark.sampled(3)
def test_the_master_is_killed_and_started_again(script):
    """While fragments are in flight: no peer leaves, nothing is lost."""
    address = f"127.0.0.1:{support.free_port()}"
    master = script(MASTER, address)
    master.line("port")
    run = Run(script, address, min_peers=3, rounds=60)
    peers = [run.peer(i) for i in range(3)]
    peers[0].line('"step": 8')
    master.kill()
    master.end()
    script(MASTER, address).line("port")
    found = run.end(*peers)
    costs = [cost for line in found[0].values() for cost in line["costs"]]
    assert len(costs) == 60 * 3 + 2  # the end reduces again the two that are not launched there
    assert all(participants == 3 and committed for _, participants, committed, *_ in costs)


@pytest.mark.nightly
@pytest.mark.parametrize("catch_up", ["whole", "fragments"])
@pytest.mark.parametrize("seed, count", [(0, 3), (1, 3), (2, 2), (3, 4)])
def test_many_are_killed_at_random_moments(script, address, seed, count, catch_up):
    """With numpy and torch, few bits, and fragments of a quarter of a megabyte."""
    pytest.importorskip("torch")
    about = {"codec": "int4", "alpha": 0.5, "size": 1 << 16, "catch_up": catch_up}
    kill_at_random(script, address, count, 8, seed, mixed=True, **about)


def crowd(script, address, **about):
    """Returns the report of lab/crowd.py, which fails if two of its workers ever held different outer copies after the
    same step."""
    text = "import sys; from lab import crowd; crowd.main(*sys.argv[1:])"
    quiet = {"OPENBLAS_NUM_THREADS": "1", "PCCL_LOG_LEVEL": "FATAL"}
    program = script(text, address, json.dumps({"rounds": 100, **about}), env=quiet)
    told = json.loads(program.line('{"loss"'))
    assert program.end() == 0
    return told


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(4))
def test_two_hundred_are_killed_at_random_moments(script, address, seed):
    """Fifty kills among four workers of the laboratory, one after the other, also while they join, and each is
    replaced. The run continues, and learns as a run without kills does."""
    told, calm = crowd(script, address, seed=seed, kills=50), crowd(script, address, seed=seed)
    print(f"loss {told['loss']:.3f} beside {calm['loss']:.3f}; {told['given_up']} slots given up")
    assert told["processes"] == 4 + 50 and told["loss"] <= calm["loss"] + 0.08
