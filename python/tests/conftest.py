"""What every test may ask for: a master, a group of peers, a script in a process of its own."""

import os

import pytest
import support

import pccl

def pytest_configure(config):
    os.environ.setdefault("PCCL_FOUND_AFTER_MS", "0")  # of masters that are processes: they found a run at once
    config.addinivalue_line("markers", "master(**options): of the master that the test is given")
    config.addinivalue_line("markers", "nightly: takes long, and shows once more what others show")


@pytest.fixture
def master(request):
    given = request.node.get_closest_marker("master")
    with pccl.MasterNode("127.0.0.1:0", options=given.kwargs if given else {}) as node:
        yield node


@pytest.fixture
def address(master):
    return f"127.0.0.1:{master.port}"


@pytest.fixture
def group(address):
    """group(count): so many members of one run."""
    made = []

    def make(count, **given):
        made.append(support.Group(address, count, **given))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def script():
    made = []

    def make(*arguments, **given):
        made.append(support.Script(*arguments, **given))
        return made[-1]

    yield make
    for one in made:
        one.close()
