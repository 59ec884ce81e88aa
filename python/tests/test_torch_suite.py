"""torch's own suite of a backend, with groups of "pccl" (torch_suite.py)."""

import json
import subprocess
import sys

import pytest
import support

support.need("torch")
support.need("expecttest")

import installed  # noqa: E402
import torch_worlds  # noqa: E402

# It compares the name of the group, which C++ asks for, with gloo's.
NAMED = {"test_ddp_logging_data_cpu"}


BY_NAME, FOR_GLOO = {"BACKEND": "pccl"}, {"BACKEND": "gloo", "SUITE_GROUPS": "pccl"}


@pytest.mark.parametrize("given, failing, least", [(BY_NAME, set(), 65), (FOR_GLOO, NAMED, 89)])
def test_suite(tmp_path, given, failing, least):
    results = tmp_path / "results"
    environment = {**torch_worlds.environment(installed.metadata(tmp_path)), **given, "TMPDIR": str(tmp_path)}
    program = support.TESTS / "torch_suite.py"
    subprocess.run([sys.executable, str(program), str(results)], env=environment, check=True)
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    failed = {name: words for name, kind, words, _ in lines if kind == "failed"}
    assert failed.keys() == failing, "\n".join(f"{name}: {words}" for name, words in failed.items())
    assert sum(kind == "passed" for _, kind, _, _ in lines) >= least
