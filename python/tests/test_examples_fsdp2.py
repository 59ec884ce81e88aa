"""python/examples/fsdp2.py: two trainers of two processes with a shard each. One process is killed, and its sibling
ends by itself; the other trainer waits; a new one joins, and all end with equal bits."""

import launcher
import support

support.need("torch")


def test_churn(address, script, tmp_path):
    made = []

    def trainer():
        store = f"file://{tmp_path}/trainer{len(made)}?world_size=2"
        made.append(
            [
                launcher.start(script, "fsdp2.py", address, *launcher.CALM, "--rendezvous", f"{store}&rank={rank}")
                for rank in range(2)
            ]
        )
        return made[-1]

    stays, goes = trainer(), trainer()
    launcher.wait_for(stays + goes, ": 2 peers")
    goes[0].kill()
    assert goes[1].end() != 0
    launcher.make_way(stays)
    new = trainer()
    launcher.wait_for(new + stays, ": 2 peers")
    launcher.end_with_equal_digests(stays + new)
