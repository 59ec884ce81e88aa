"""python/examples/concurrent_reduces.py survives a kill and a late joiner, and ends with equal bits."""

import launcher
import pytest

pytest.importorskip("numpy")


def test_churn(address, script):
    arguments = ["--tags", 24, "--elements", 50000, "--pool", 4]
    launcher.churn(lambda: launcher.start(script, "concurrent_reduces.py", address, *arguments))
