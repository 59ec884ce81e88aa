"""DiLoCo in a process: Ctrl-C, and optional packages."""

import importlib.util
import signal

import pytest

import pccl
from pccl.diloco import DiLoCo

ALONE = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None  # as if it were not installed
import threading
import pccl
from pccl.diloco import DiLoCo, LocalSGD, Sampler
assert not {"numpy", "torch"} & {name for name, module in sys.modules.items() if module}, "imported without need"
if sys.argv[2] == "numpy":
    import numpy
    make, mean = lambda value: numpy.full((300, 70), value, "float32"), numpy.mean
else:
    import torch
    make, mean = lambda value: torch.full((300, 70), value), torch.mean
master = pccl.MasterNode("127.0.0.1:0")
master.run()
failed = []
threading.excepthook = lambda what: failed.append(what)

def peer(value, mode):
    params = {"w": make(5.0)}
    with LocalSGD(pccl.Communicator(f"127.0.0.1:{master.port}"), params, inner_steps=1, min_peers=2, mode=mode,
                  extra={"x": make(1.0)}) as diloco:
        for _ in range(3):
            params["w"] -= value
            diloco.step()
        diloco.finish()
        assert float(mean(params["w"])) == 5 - 3 * 1.5, params
        assert diloco.digest()

for mode in ("sync", "delayed", "eager"):
    threads = [threading.Thread(target=peer, args=(value, mode)) for value in (1.0, 2.0)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert not failed, failed
assert len(Sampler(1).indices(0, 5, 10)) == 5
master.close()
print("works", flush=True)
"""


@pytest.mark.parametrize("without, kind", [("torch", "numpy"), ("numpy", "torch")])
def test_one_library_is_enough(script, without, kind):
    if importlib.util.find_spec(kind) is None:
        pytest.skip(f"no {kind} here")
    program = script(ALONE, without, kind)
    program.line("works")
    assert program.end() == 0


INTERRUPTED = """
import sys, threading, time
import numpy as np
import pccl
from pccl.diloco import DiLoCo
address, mode, where = sys.argv[1:]
params = {"w": np.zeros(50000, np.float32)}
streams = mode == "streaming"
how = dict(inner_steps=2, delay=1, catch_up="whole") if streams else dict(inner_steps=1, mode=mode)
diloco = DiLoCo(pccl.Communicator(address), params, min_peers=2 if where == "join" else 1, **how)
steps = 0
def waits():
    frame, names = sys._current_frames()[threading.main_thread().ident], []
    while frame:
        names.append((frame.f_code.co_filename.rsplit("/")[-1], frame.f_code.co_name))
        frame = frame.f_back
    return ("_threads.py", "wait") in names
def tell(number):
    while steps != number or not waits() or diloco.comm._core._inside < 1:
        time.sleep(0.001)
    print("waits", flush=True)
try:
    if where == "join":
        threading.Thread(target=tell, args=(0,), daemon=True).start()
    diloco.join()
    print("joined", flush=True)
    while not diloco.step().admitted:
        pass
    params["w"] += 1
    # The other one does not come. What it began when it came in ends with the first step, where
    # that is late; the next fragment is launched after two steps and due a step later.
    late = {"sync": 1, "streaming": 3}.get(mode, 2)
    threading.Thread(target=tell, args=(late,), daemon=True).start()
    while True:
        steps += 1
        diloco.step()
except KeyboardInterrupt:
    state = diloco.state_dict()  # of the last outer step
    assert diloco.comm.closed and not params["w"].any() and not state["theta.float32"].any()
    try:
        diloco.step()
    except pccl.NotConnected:
        print("interrupted", flush=True)
diloco.close()
print("over", flush=True)
"""
OTHER = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
import numpy as np
import pccl
from pccl.diloco import DiLoCo
params = {"w": np.zeros(50000, np.float32)}
streams = sys.argv[2] == "streaming"
how = dict(inner_steps=2, delay=1, catch_up="whole") if streams else dict(inner_steps=1, mode=sys.argv[2])
with DiLoCo(pccl.Communicator(sys.argv[1]), params, **how) as diloco:
    print("in", flush=True)
    signal.sigwait({signal.SIGUSR1})
    print("goes on", flush=True)
    for _ in range(3):
        info = diloco.step()
print("alone", info.participants, diloco.digest(), flush=True)
"""


@pytest.mark.parametrize("mode", ["sync", "delayed", "eager", "streaming"])
def test_interrupt_of_a_round(script, address, mode):
    """Ctrl-C is seen at once; this peer has left, and the other one continues."""
    peer = script(INTERRUPTED, address, mode, "round")
    peer.line("joined")
    other = script(OTHER, address, mode)
    other.line("in")
    peer.line("waits")
    peer.kill(signal.SIGINT)
    peer.line("interrupted")
    peer.line("over")
    assert peer.end() == 0
    other.kill(signal.SIGUSR1)
    assert other.line("alone").split()[1] == "1" and other.end() == 0


def test_interrupt_of_a_wait_for_more(script, address):
    peer = script(INTERRUPTED, address, "sync", "join")
    peer.line("waits")
    peer.kill(signal.SIGINT)
    peer.line("interrupted")
    peer.line("over")
    assert peer.end() == 0


@pytest.mark.parametrize("mode", ["sync", "delayed", "eager"])
def test_communicator_closed_by_others(address, mode):
    """The next call detects it: the peer is not in the run, has the shared parameters, and may return at once."""
    numpy = pytest.importorskip("numpy")
    params = {"w": numpy.zeros(50000, numpy.float32)}
    with DiLoCo(pccl.Communicator(address), params, inner_steps=1, mode=mode, min_peers=1) as diloco:
        for call in (diloco.step, diloco.join):
            diloco.step()
            params["w"] += 1
            diloco.comm.close()
            with pytest.raises(pccl.NotConnected):
                call()
            assert (params["w"] == diloco.state_dict()["theta.float32"]).all()
            diloco.rejoin(pccl.Communicator(address))
        diloco.comm.close()
        assert diloco.rejoin(pccl.Communicator(address)).joined
