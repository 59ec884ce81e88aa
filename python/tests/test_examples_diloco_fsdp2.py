"""python/examples/diloco_fsdp2.py: two trainers of two processes with a shard each. One process is killed, and its
sibling ends by itself; a new trainer joins, and all end with equal bits, and have learned."""

import re

import launcher
import support

support.need("torch")

ROUNDS, INNER_STEPS = 5, 9


def test_churn(address, script, tmp_path):
    made = []

    def trainer():
        store = f"file://{tmp_path}/trainer{len(made)}?world_size=2"
        given = [address, "--rounds", ROUNDS, "--inner-steps", INNER_STEPS, "--rendezvous"]
        made.append([launcher.start(script, "diloco_fsdp2.py", *given, f"{store}&rank={rank}") for rank in range(2)])
        return made[-1]

    stays, goes = trainer(), trainer()
    launcher.wait_for(stays + goes, ": 2 peers")
    goes[0].kill()
    assert goes[1].end() != 0
    new = trainer()  # the others wait for it at the next boundary
    digests = {peer.line("digest ") for peer in stays + new}
    for peer in stays + new:
        peer.ends_after("digest ")
    assert len(digests) == 1, digests
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", "\n".join(stays[0].lines))]
    assert len(losses) >= 3 * ROUNDS and losses[-1] < losses[0] - 0.3, losses
