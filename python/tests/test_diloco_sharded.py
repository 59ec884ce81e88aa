"""DiLoCo of models whose shards are in several processes, two trainers of two (sharded_run.py)."""

import json

import pytest
import support

support.need("torch")
np = pytest.importorskip("numpy")

from pccl import _threads  # noqa: E402
from pccl.diloco import SGD, _arrays, _fragment, _inside, _reduction, _shared  # noqa: E402

FIRST, BOTH, LAST = 12 * 1, 12 * (1 + 2), 12 * 8  # changes of trainer 0, of 0 and 1, and of 3 in a step


def run(script, address, **about):
    text = "import sys, sharded_run; sharded_run.main(*sys.argv[1:])"
    program = script(text, address, json.dumps(about), env={"OMP_NUM_THREADS": "1"})
    said = json.loads(program.line("[{"))
    assert program.end() == 0
    assert "end" in said.pop()
    return said


def of_fragment(said, fragment):
    return [(line["step"], *cost[1:]) for line in said for cost in line["costs"] if cost[0] == fragment]


@pytest.mark.sampled(5)
def test_a_shard_dies_in_the_middle_of_a_fragments_reduction(script, address):
    """The other shard's reduction has succeeded with the failed trainer, but counts for none: the deltas are part of
    the fragment's next slot."""
    how = {"sync_every": 6, "fragments": 3, "fragment_sync_delay": 2, "rounds": 5}
    said = run(script, address, how=how, dies={"fragment": 1, "slot": 3})
    # Two of six steps are made while a fragment is in flight, and do not count.
    wanted = [(4, 2, 2 * BOTH / 2), (10, 2, 4 * BOTH / 2), (16, 0, None), (22, 2, (10 * FIRST + 2 * LAST) / 2)]
    assert of_fragment(said, 1)[:4] == wanted
    assert of_fragment(said, 0)[:2] == [(8, 2, 6 * BOTH / 2), (14, 2, 4 * BOTH / 2)]
    # Each process counts its samples.
    assert [line["samples"] for line in said if line["step"] == 8] == [2 * 2 * 6]


@pytest.mark.sampled(5)
def test_a_shard_dies_in_the_middle_of_what_all_wait_for(script, address):
    """The other shard's reduction has succeeded, and is repeated without the failed trainer."""
    said = run(script, address, how={"sync_every": 2, "rounds": 5}, dies={"slot": 3})
    wanted = [2 * BOTH / 2, 2 * BOTH / 2, 2 * FIRST, (2 * FIRST + 2 * LAST) / 2, (2 * FIRST + 2 * LAST) / 2]
    assert of_fragment(said, 0) == [
        (2 * (round + 1), 1 if round == 2 else 2, moved) for round, moved in enumerate(wanted)
    ]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("how", [{"sync_every": 2}, {"sync_every": 6, "fragments": 3, "fragment_sync_delay": 2}])
def test_one_shard_is_drained(script, address, how):
    """Its sibling leaves after the same round, the other trainer repeats nothing, and a third one joins."""
    said = run(script, address, how={**how, "rounds": 5}, drains=4)
    assert {cost[1] for line in said for cost in line["costs"]} == {2}  # trainers, in all reductions
    if "fragments" not in how:
        moved = [BOTH, BOTH, BOTH, FIRST + LAST, FIRST + LAST]
        assert of_fragment(said, 0) == [(2 * (round + 1), 2, each) for round, each in enumerate(moved)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shard", [0, 1])
def test_one_shard_is_drained_while_its_trainer_joins(script, address, shard):
    """Its sibling leaves with it: neither it nor the other trainer waits for the drained shard."""
    run(script, address, how={"sync_every": 2, "rounds": 3}, joining=shard)


class Siblings(_inside.Inside):
    """A process whose sibling has these numbers, one after the other."""

    def __init__(self, *numbers):
        super().__init__()
        self.size, self.numbers = 2, list(numbers)

    def highest(self, *numbers):
        theirs = self.numbers.pop(0)
        return list(map(max, numbers, (theirs, -theirs)))


@pytest.mark.sampled(5)
def test_means_of_as_many_but_other_trainers_count_for_none(group):
    """Two trainers fail at once, each first in a different one of its shards."""
    layout = _arrays.Layout({"w": np.ones(8)}, [["w"]])

    def reduction(name):
        made = _reduction.Reduction(0, layout.zeros(), layout.zeros(), layout.arrays, None, 1024, 4)
        made.name = name
        made.give(1.0, 5)
        return made

    two = group(2)

    def reduced(*names):
        return two.all(lambda comm, i: reduction(names[i]).run(comm, True))[0]

    mine, siblings = reduced(0xFFFFFFF5, 0xFFFFFFF6), reduced(0xFFFFFFF5, 0xFFFFFFF9)
    assert mine.participants == siblings.participants == 2 and mine.names == 0x1FFFFFFEB
    inside = Siblings(siblings.names, mine.names)
    (part,), shared = layout.parts, _shared.Shared(layout)
    one = _fragment.Fragment(0, part, layout, shared, SGD(0.1, 0.0), 1, reduction(1), inside)
    one._job, one._again = _threads.start(lambda: mine), lambda: setattr(one, "_job", _threads.start(lambda: mine))
    assert one._outcome() is mine and not inside.numbers
    inside.numbers.append(siblings.names)
    one._job, one._again = _threads.start(lambda: mine), None
    assert one._outcome() is None
