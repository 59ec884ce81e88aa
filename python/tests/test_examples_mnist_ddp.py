"""python/examples/mnist_ddp.py survives a kill and a late joiner, and ends with equal bits."""

import launcher
import support

support.need("torch")


def test_churn(address, script):
    launcher.churn(lambda: launcher.start(script, "mnist_ddp.py", address, *launcher.CALM))
