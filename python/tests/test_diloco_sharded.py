"""DiLoCo of models whose shards are in several processes, two trainers of two (sharded_run.py)."""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("torch.distributed")

FIRST, BOTH, LAST = 12 * 1, 12 * (1 + 2), 12 * 8  # what trainer 0, 0 and 1, and 3 train in a step


def run(script, address, **about):
    text = "import sys, sharded_run; sharded_run.main(*sys.argv[1:])"
    program = script(text, address, json.dumps(about), env={"OMP_NUM_THREADS": "1"})
    said = json.loads(program.line("[{"))
    assert program.end() == 0
    assert "end" in said.pop()
    return said


def of_fragment(said, fragment):
    return [(line["step"], *cost[1:]) for line in said for cost in line["costs"] if cost[0] == fragment]


def test_a_shard_dies_in_the_middle_of_a_fragments_reduction(script, address):
    """The other shard's reduction has succeeded with the dead trainer, but counts for none: what was trained comes
    with the fragment's next slot."""
    how = {"sync_every": 6, "fragments": 3, "fragment_sync_delay": 2, "rounds": 5}
    said = run(script, address, how=how, dies={"fragment": 1, "slot": 3})
    # Of six steps two are made while a fragment is on its way, and do not count.
    wanted = [(4, 2, 2 * BOTH / 2), (10, 2, 4 * BOTH / 2), (16, 0, None), (22, 2, (10 * FIRST + 2 * LAST) / 2)]
    assert of_fragment(said, 1)[:4] == wanted
    assert of_fragment(said, 0)[:2] == [(8, 2, 6 * BOTH / 2), (14, 2, 4 * BOTH / 2)]
    # Each process counts its own.
    assert [line["samples"] for line in said if line["step"] == 8] == [2 * 2 * 6]


def test_a_shard_dies_in_the_middle_of_what_all_wait_for(script, address):
    """The other shard's reduction has succeeded, and is repeated without the dead trainer."""
    said = run(script, address, how={"sync_every": 2, "rounds": 5}, dies={"slot": 3})
    wanted = [2 * BOTH / 2, 2 * BOTH / 2, 2 * FIRST, (2 * FIRST + 2 * LAST) / 2, (2 * FIRST + 2 * LAST) / 2]
    assert of_fragment(said, 0) == [
        (2 * (round + 1), 1 if round == 2 else 2, moved) for round, moved in enumerate(wanted)
    ]
