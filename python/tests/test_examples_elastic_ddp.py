"""The examples of elastic replicas survive a kill and a late joiner, and end with equal bits."""

import itertools

import launcher
import pytest
import support

support.need("torch")


@pytest.mark.parametrize("example", ["elastic_ddp.py", "elastic_resnet.py"])
def test_churn(address, script, tmp_path, example):
    number = itertools.count()

    def replica():
        store = f"file://{tmp_path}/{next(number)}?world_size=1&rank=0"
        return launcher.start(script, example, address, *launcher.CALM, "--rendezvous", store)

    launcher.churn(replica)
