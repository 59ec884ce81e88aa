"""DiLoCo among real processes that join, fail, stop and return.

Each round of peer i takes 12 * 2**i from all parameters, and the outer step is the plain mean: so all sums are exact,
and the move of an outer step shows whose deltas are in it. It is the same in each element: a mean over different peers
in different buckets would show.
"""

import itertools
import json
import signal

import pytest
import support

pytest.importorskip("numpy")

MODES = ["delayed", *(pytest.param(mode, marks=pytest.mark.nightly) for mode in ("sync", "eager"))]

PEER = r"""
import json, os, signal, sys, threading
import numpy as np
import pccl
from pccl.diloco import DiLoCo, Nesterov
address, about = sys.argv[1], json.loads(sys.argv[2])
say = lambda *words: sys.stdout.write(" ".join(map(str, words)) + "\n") and sys.stdout.flush()
array = lambda shape: np.zeros(shape, np.float32)
if about.get("torch"):
    import torch
    torch.set_num_threads(1)
    array = lambda shape: torch.zeros(shape)
size = about.get("size", 4096)
params = {"w": array((size // 64, 64)), "b": array((size % 64 + 1,))}
comm = pccl.Communicator(address, options=about.get("options", {}))
diloco = DiLoCo(comm, params, inner_steps=2, outer=Nesterov(1.0, 0.0), mode=about["mode"], codec=about.get("codec"),
                bucket_bytes=about.get("bucket_bytes", 2048), min_peers=about.get("min_peers", 1),
                verify_every=about.get("verify_every", 5))
if about.get("resume"):
    state = diloco.state_dict()
    state["round"] = about["resume"]
    state["theta.float32"][:] = about["resume"]
    diloco.load_state_dict(state)
armed = False

def strike():
    say("strikes")
    os.kill(os.getpid(), getattr(signal, about["fault"]))

def prepare(comm):
    reduce, sync = comm.all_reduce_multiple_with_retry, comm.sync_shared_state
    def faulty_reduce(descriptors, **given):
        global armed
        if armed and len(descriptors) > 4:
            armed = False
            half = len(descriptors) // 2
            reduce(descriptors[:half], **given)
            strike()
            return reduce(descriptors[half:], **given)
        return reduce(descriptors, **given)
    def faulty_sync(state, strategy):
        if about["at"] == "sync" or (about["at"] == "send" and strategy is pccl.SharedStateSyncStrategy.SEND_ONLY):
            threading.Thread(target=strike).start()
        return sync(state, strategy)
    if about.get("at"):
        comm.sync_shared_state = faulty_sync
    elif about.get("fault"):
        comm.all_reduce_multiple_with_retry = faulty_reduce

def theta():
    return diloco.state_dict()["theta.float32"]

def joined(info):
    assert info.joined, info
    say("joined at", diloco.round, "moved", info.moved_bytes)

prepare(comm)
try:
    joined(diloco.join())
except pccl.PCCLError as error:
    say("lost:", type(error).__name__, error.words)
    assert not theta().any()
    joined(diloco.rejoin(pccl.Communicator(address)))
until, left = list(about["until"]), about.get("more", 3)
before = theta()
while until or left:
    for part in params.values():
        part -= 12 * 2 ** about["number"] / 2
    try:
        info = diloco.step(samples=1)
    except pccl.PCCLError as error:
        say("lost:", type(error).__name__, error.words)
        assert all(float(abs(part - diloco.state_dict()["theta.float32"][0]).max()) == 0 for part in params.values())
        joined(diloco.rejoin(pccl.Communicator(address)))
        before = theta()
        continue
    if not info.synced:
        continue
    now = theta()
    moved = before - now
    assert float(moved.min()) == float(moved.max()) or about.get("codec"), "not the same everywhere"
    assert about["mode"] == "eager" or all(float(abs(part - now[0]).max()) == 0 for part in params.values())
    before = now
    say(json.dumps({"round": info.round, "participants": info.participants, "committed": info.committed,
                    "moved": float(moved[0]), "digest": diloco.digest(), "samples": diloco.samples,
                    "received": info.moved_bytes}))
    if not until:
        left -= 1
    elif info.participants == until[0]:
        until.pop(0)
        armed = "at" not in about and about.get("fault") and not until
        if armed:
            until, left = [-1], 1
    if about.get("announce"):
        say(f"round {info.round}: {info.participants} peers")
if not about.get("without_finish"):
    diloco.finish()
say("end", diloco.round, diloco.digest(), float(theta()[0]))
diloco.close()
"""


class Run:
    """Peers of one run, in processes."""

    def __init__(self, script, address, mode, **about):
        self._script, self._address, self._about = script, address, dict(about, mode=mode)
        self.peers = []

    def peer(self, number, until, **about):
        given = dict(self._about, number=number, until=until, **about)
        self.peers.append(self._script(PEER, self._address, json.dumps(given), env={"OMP_NUM_THREADS": "1"}))
        return self.peers[-1]

    def end(self, *peers):
        """Checks that all end with success, and that in each round, and at the end, all present peers held the same.
        Returns the rounds of each."""
        ends = {peer.line("end ") for peer in peers}
        assert [peer.end() for peer in peers] == [0] * len(peers)
        assert len(ends) == 1, ends
        found = [rounds(peer) for peer in peers]
        compare(found)
        for mine in found:
            assert all(line["moved"] in means(range(5)) for line in mine.values() if line["committed"])
            assert all(line["received"] == 0 for line in mine.values()), "two peers computed different things"
        return found


def rounds(peer):
    lines = [json.loads(line) for line in peer.lines if line.startswith("{")]
    return {line["round"]: line for line in lines}


def entries(peer):
    """Returns the round and the received bytes of each of its admissions."""
    lines = [line.split() for line in peer.lines if line.startswith("joined at")]
    return [(int(line[2]), int(line[4])) for line in lines]


def compare(found):
    """Checks that peers held the same in their common rounds."""
    for one, other in itertools.combinations(found, 2):
        both = set(one) & set(other)
        assert both
        for number in both:
            same = ("digest", "participants", "committed", "samples")
            assert [one[number][key] for key in same] == [other[number][key] for key in same], number


def means(numbers):
    """Returns the possible moves of an outer step, by the peers whose deltas are in it."""
    subsets = itertools.chain.from_iterable(itertools.combinations(numbers, n) for n in range(1, len(numbers) + 1))
    return {sum(12 * 2**i for i in subset) / len(subset): subset for subset in subsets}


def last_moved(found):
    """Returns the peers whose deltas were in the last outer step."""
    lines = [line for line in found[0].values() if line["committed"]]
    return means(range(5))[lines[-1]["moved"]]


@pytest.mark.nightly
@pytest.mark.parametrize("mode", MODES)
def test_founding_by_several_at_once(script, address, mode):
    run = Run(script, address, mode, min_peers=3)
    found = run.end(*[run.peer(i, [3], more=5) for i in range(3)])
    assert last_moved(found) == (0, 1, 2)
    first = min(found[0])
    assert first == 1 and all(line["participants"] == 3 for mine in found for line in mine.values())


@pytest.mark.parametrize("mode", MODES)
def test_a_peer_is_killed_in_the_middle_of_a_reduction(script, address, mode):
    """Half of the buckets have its share: the mean is over the others nevertheless, in all of them."""
    run = Run(script, address, mode, min_peers=1)
    stay = [run.peer(i, [3, 2]) for i in range(2)]
    victim = run.peer(2, [3], fault="SIGKILL")
    assert victim.end() == -signal.SIGKILL and "strikes" in victim.lines, victim.lines
    found = run.end(*stay)
    assert last_moved(found) == (0, 1)


@pytest.mark.nightly
@pytest.mark.parametrize("mode", MODES)
def test_two_are_killed_and_one_is_left_alone(script, address, mode):
    run = Run(script, address, mode)
    stays = run.peer(0, [3, 1])
    victims = [run.peer(i, [3], fault="SIGKILL") for i in (1, 2)]
    assert [victim.end() for victim in victims] == [-signal.SIGKILL] * 2
    found = run.end(stays)
    assert last_moved(found) == (0,)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", MODES)
def test_who_is_left_waits_for_more_if_asked_to(script, address, mode):
    """A round that was begun with enough peers is finished; the next one begins only with enough."""
    run = Run(script, address, mode, min_peers=2)
    stays = run.peer(0, [2, 1, 2])
    victim = run.peer(1, [2], fault="SIGKILL")
    assert victim.end() == -signal.SIGKILL
    found = run.end(stays, run.peer(2, [2]))  # the remaining peer's step ends when there are two again
    assert [line["participants"] for line in found[0].values()].count(1) == 1 and last_moved(found) == (0, 2)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1 << 21, pytest.param(1 << 22, marks=pytest.mark.nightly)])
def test_killed_while_much_is_on_its_way(script, address, mode, size):
    """8 MiB by day, 16 MiB nightly: the larger the transfer, the more likely the kill hits it."""
    run = Run(script, address, mode, size=size, bucket_bytes=size // 4, announce=True, verify_every=0)
    stay = [run.peer(i, [3, 2]) for i in range(2)]
    victim = run.peer(2, [3, -1])
    victim.line(": 3 peers")
    victim.kill()
    assert last_moved(run.end(*stay)) == (0, 1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", MODES)
def test_a_peer_stops_and_comes_back(script, address, mode):
    """It is removed, detects that, and joins again: the others continue without it, and then with it."""
    run = Run(script, address, mode)
    stay = [run.peer(i, [3, 2, 3]) for i in range(2)]
    stops = run.peer(2, [3], fault="SIGSTOP")
    stops.line("strikes")
    for peer in stay:
        peer.line('"participants": 3')
        peer.line('"participants": 2')
    stops.kill(signal.SIGCONT)
    stops.line("lost: ")
    stops.line("joined at")
    stops.line('"participants": 3')
    stops.kill()  # it was started without an end
    for peer in stay:
        peer.line("end ")
    compare([rounds(peer) for peer in (*stay, stops)])
    assert [peer.end() for peer in stay] == [0, 0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("newcomers", [pytest.param(1, marks=pytest.mark.nightly), 3])
def test_newcomers_get_the_state_however_many(script, address, mode, newcomers):
    """They bring a different content, all the same one, and do not outvote the run."""
    run = Run(script, address, mode, announce=True)
    everybody = 1 + newcomers
    first = run.peer(0, [everybody], more=4)
    first.line("round 3: 1 peers")
    later = [run.peer(i, [everybody], more=4, resume=1_000_000) for i in range(1, everybody)]
    found = run.end(first, *later)
    assert last_moved(found) == tuple(range(everybody))
    for peer in later:
        at, moved = entries(peer)[0]
        assert 3 <= at < 1_000_000 and moved > 4 * 4096


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", MODES)
def test_a_newcomer_is_killed_while_it_joins(script, address, mode):
    run = Run(script, address, mode, size=1 << 20, announce=True)
    stay = [run.peer(i, [2, 3], bucket_bytes=1 << 20) for i in range(2)]
    for peer in stay:
        peer.line(": 2 peers")
    dies = run.peer(2, [3], bucket_bytes=1 << 20, fault="SIGKILL", at="sync")
    assert dies.end() == -signal.SIGKILL and "strikes" in dies.lines
    run.peer(3, [3], bucket_bytes=1 << 20)
    assert last_moved(run.end(*stay, run.peers[-1])) == (0, 1, 3)


@pytest.mark.sampled(3)
def test_the_only_one_with_the_state_is_killed_while_it_gives_it(script, address):
    """The newcomer detects it, has its initial state, and may start a run."""
    run = Run(script, address, "sync", size=1 << 22, bucket_bytes=1 << 22, announce=True)
    dies = run.peer(0, [2], fault="SIGKILL", at="send")
    dies.line(": 1 peers")
    newcomer = run.peer(1, [1])
    assert dies.end() == -signal.SIGKILL
    found = run.end(newcomer)
    assert [line for line in newcomer.lines if line.startswith("lost: ")] and min(found[0]) == 1
    assert entries(newcomer) == [(0, 0)] and last_moved(found) == (1,)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", MODES[:2])
def test_resuming_from_different_rounds(script, address, mode):
    """All resume from checkpoints: the most advanced peer provides the state."""
    run = Run(script, address, mode, min_peers=3)
    peers = [run.peer(i, [3], resume=[7, 9, 8][i]) for i in range(3)]
    found = run.end(*peers)
    assert min(found[0]) == 10
    assert [at for peer in peers for at, _ in entries(peer)] == [9, 9, 9]
    assert [entries(peer)[0][1] > 0 for peer in peers] == [True, False, True]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("codec", ["u8-minmax", pytest.param("u8-zps", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("mode", MODES)
def test_codecs(script, address, mode, codec):
    """Blocks of one value are exact in both, except for the sums."""
    run = Run(script, address, mode, min_peers=3, codec=codec, size=1 << 16, bucket_bytes=1 << 16)
    peers = [run.peer(i, [3], more=5) for i in range(3)]
    ends = {peer.line("end ") for peer in peers}
    assert len(ends) == 1 and [peer.end() for peer in peers] == [0, 0, 0]
    compare([rounds(peer) for peer in peers])


@pytest.mark.nightly
@pytest.mark.parametrize("mode", MODES)
def test_numpy_and_torch_peers_in_one_run(script, address, mode):
    pytest.importorskip("torch")
    run = Run(script, address, mode, min_peers=3)
    peers = [run.peer(i, [3], more=5, torch=i > 0) for i in range(3)]
    assert last_moved(run.end(*peers)) == (0, 1, 2)


MASTER = """
import sys, threading
import pccl
node = pccl.MasterNode(sys.argv[1])
node.run()
print("port", node.port, flush=True)
threading.Event().wait()
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", MODES)
def test_the_master_is_killed_and_started_again(script, mode):
    """In the middle of reductions: no peer leaves, nothing is lost, and newcomers join afterwards."""
    address = f"127.0.0.1:{support.free_port()}"
    master = script(MASTER, address)
    master.line("port")
    run = Run(script, address, mode, announce=True)
    peers = [run.peer(i, [2, 3]) for i in range(2)]
    for peer in peers:
        peer.line(": 2 peers")
    master.kill()
    master.end()
    script(MASTER, address).line("port")
    peers.append(run.peer(2, [3]))
    assert last_moved(run.end(*peers)) == (0, 1, 2)


def test_the_master_does_not_come_back(script):
    """step() ends with a reason, with parameters as of the last outer step; rejoin() continues from there in a new run.
    """
    master = script(MASTER, "127.0.0.1:0")
    address = f"127.0.0.1:{master.line('port').split()[1]}"
    run = Run(script, address, "delayed", options={"master_lost_ms": 500, "alone_ms": 400})
    peer = run.peer(0, [1, -1], announce=True)
    reached = peer.line("round 3: 1 peers")
    master.kill()
    peer.line("lost: ")
    assert reached and "MasterLostError" in next(line for line in peer.lines if line.startswith("lost: "))
