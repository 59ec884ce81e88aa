"""python/examples/data_parallel.py survives a kill and a late joiner, and ends with equal bits."""

import launcher
import pytest

pytest.importorskip("numpy")


def test_churn(address, script):
    launcher.churn(lambda: launcher.start(script, "data_parallel.py", address))
