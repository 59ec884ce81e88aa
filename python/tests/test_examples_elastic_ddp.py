"""python/examples/elastic_ddp.py lives through a kill and a late joiner, and ends with equal bits."""

import itertools

import launcher
import support

support.need("torch")


def test_churn(address, script, tmp_path):
    number = itertools.count()

    def replica():
        store = f"file://{tmp_path}/{next(number)}?world_size=1&rank=0"
        return launcher.start(script, "elastic_ddp.py", address, *launcher.CALM, "--rendezvous", store)

    launcher.churn(replica)
