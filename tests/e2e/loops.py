"""Peers that run the verb loop: joint steps, in which each peer checks its result."""

import harness
from harness import check

# Elements of an operation: through the master, or from peer to peer. In a loop they have 8 bytes.
SMALL, BULK = 100, 40000


def in_both_sizes(test):
    """Registers test(run, count) twice: under its name with small payloads, and as <name>_bulk with bulk payloads."""
    home = test.__globals__
    home["test_" + test.__name__] = lambda run: test(run, SMALL)
    home[f"test_{test.__name__}_bulk"] = lambda run: test(run, BULK)
    return test


def start_loop(peer, bit, tags=4, in_flight=2, count=SMALL, blocking=False):
    return peer.start("loop", bit, tags, count, in_flight, *(["blocking"] if blocking else []))


def start_loops(peers, first_bit=0, **shape):
    loops = [start_loop(peer, first_bit + bit, **shape) for bit, peer in enumerate(peers)]
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


def right_steps(loops):
    """Yields every step of these calls with its peer. Checks that each result is correct, and that each failure has
    left the input intact. loops: peer -> its call."""
    for peer, loop in loops.items():
        for failed in loop.failures:
            check(failed["intact"], f"{peer.name} has changed inputs: {failed}")
        for step in loop.steps:
            check(step["right"], f"{peer.name} has a wrong result: {step}")
            yield peer, step


def longest_pause_ms(loops):
    pauses = []
    for loop in loops:
        times = [step["at"] for step in loop.steps]
        pauses.append(max(b - a for a, b in zip(times, times[1:])) / 1000)
    return max(pauses)


def kill_all(loops, dead):
    """Kills all peers before it waits for any: a stopped peer would delay the later ones. Moves them to `dead`."""
    for peer in list(loops):
        peer.kill()
        dead[peer] = loops.pop(peer)
    for peer in dead:
        peer.end(harness.DEADLINE)
