"""python/examples/hello.py survives a kill and a late joiner, and ends with equal bits."""

import launcher


def test_churn(address, script):
    launcher.churn(lambda: launcher.start(script, "hello.py", address))
