"""Peers in the verb loop: steps together, that say of themselves whether they are right."""

import harness
from harness import check


def start_loops(peers, first_bit=0, tags=4, in_flight=2):
    loops = [peer.start("loop", first_bit + bit, tags, 100, in_flight) for bit, peer in enumerate(peers)]
    harness.wait_until(lambda: all(loop.steps for loop in loops), "the first steps")
    return loops


def more_steps(loops, steps=5, world=None):
    last = max(loop.steps[-1]["step"] for loop in loops)

    def done():
        ended = [loop for loop in loops if loop.result]
        check(not ended, f"loops have ended: {[(loop, loop.result) for loop in ended]}")
        return all(
            loop.steps[-1]["step"] >= last + steps and (world is None or loop.steps[-1]["world"] == world)
            for loop in loops
        )

    harness.wait_until(done, f"{steps} more steps of {len(loops)} with a world of {world}")


def all_right(loops):
    seen = {}
    for loop in loops:
        for step in loop.steps:
            check(step["right"], f"step {step} of {loop.peer.name} is wrong")
            seen.setdefault(step["step"], set()).add(step["digest"])
    check(all(len(digests) == 1 for digests in seen.values()), "different bits in a step")


def longest_pause_ms(loops):
    pauses = []
    for loop in loops:
        times = [step["at"] for step in loop.steps]
        pauses.append(max(b - a for a, b in zip(times, times[1:])) / 1000)
    return max(pauses)
