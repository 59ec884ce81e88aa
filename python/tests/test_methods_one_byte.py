"""OneByte: its byte, its steps, its log; among peers in threads, and in the laboratory."""

import math
import threading

import pytest
import support
from test_methods import bits, length, start, steps

import pccl

np = pytest.importorskip("numpy")

from lab import launch  # noqa: E402
from pccl.methods import OneByte, _random  # noqa: E402
from pccl.methods._one_byte import History, decode, encode, read_log  # noqa: E402


def values_of(seed=0, size=2000):
    return {"w": np.random.default_rng(seed).normal(size=size).astype(np.float32)}


def made_of(comm, values, **given):
    return OneByte(comm, values, lambda probe: length(values) / 500, **{"probes": 3, "lr": 0.2, **given})


def test_a_byte_is_within_six_and_a_half_percent():
    slopes = [sign * math.exp(power / 50) for sign in (1, -1) for power in range(-390, 391)]
    packed = encode(slopes, "byte")
    assert len(packed) == len(slopes)
    for slope, got in zip(slopes, decode(packed, "byte")):
        assert abs(got / slope - 1) <= 0.065, (slope, got)
    assert len({decode(bytes([code]), "byte")[0] for code in range(256)}) == 255  # +0 and -0 are equal


def test_a_byte_at_the_ends():
    most = decode(b"\x7f", "byte")[0]
    assert decode(encode([0.0, 1e9, -1e9, 1e-9, math.nan, math.inf], "byte"), "byte") == [0, most, -most, 0, 0, 0]
    assert decode(encode([1.5, -2.0, math.nan], "float32"), "float32") == [1.5, -2.0, 0.0]


def test_one_step_is_the_reference(address):
    """For two peers: the mean over all probes of slope * direction, in the order of ranks."""
    values = [values_of() for _ in range(2)]
    made = start(address, 2, lambda i, comm: made_of(comm, values[i], min_peers=2, seed=5, codec="float32"))
    (info, _) = steps("one-byte", made, values)
    theta = values_of()["w"]
    total = np.zeros_like(theta)
    for peer in range(2):
        for probe in range(3):
            z = _random.signs(5, _random.DIRECTION, 0, (peer << 32) | probe, len(theta), "float32")
            ends = [length({"w": theta + z * np.float32(e)}) / 500 for e in (1e-3, -1e-3)]
            total += z * np.float32(-0.2 * float(np.float32((ends[0] - ends[1]) / 2e-3)) / 6)
    assert np.array_equal(values[0]["w"], theta + total) and bits(values[0]) == bits(values[1])
    assert info.committed and info.participants == 2 and (info.tx_bytes, info.rx_bytes) == (12, 12)
    for one in made:
        one.close()


class Counting(pccl.Communicator):
    """Counts the bytes sent."""

    sent = 0

    def all_gather_v(self, data, **given):
        self.sent += len(data)
        return super().all_gather_v(data, **given)


def test_exactly_one_byte_a_probe(address):
    values = [values_of() for _ in range(3)]
    comms = [Counting(address) for _ in range(3)]
    made = [made_of(comm, one, probes=2 + i, min_peers=3) for i, (comm, one) in enumerate(zip(comms, values))]
    support.parallel([one.join for one in made])
    before = [comm.sent for comm in comms]
    infos = [steps("one-byte", made, values) for _ in range(5)][-1]
    assert [comm.sent - was for comm, was in zip(comms, before)] == [10, 15, 20]
    assert [(info.tx_bytes, info.rx_bytes) for info in infos] == [(2, 7), (3, 6), (4, 5)]
    for one in made:
        one.close()


def test_a_loss_that_raises_changes_nothing(address):
    values = values_of()
    (one,) = start(address, 1, lambda i, comm: made_of(comm, values))
    loss, before = one.loss, bits(values)

    def fails(probe):
        raise ValueError("no data")

    one.loss = fails
    with pytest.raises(ValueError, match="no data"):
        one.step()
    assert bits(values) == before and one.round == 0
    one.loss = loss
    assert one.step().committed
    one.loss = lambda probe: math.nan
    before = bits(values)
    info = one.step()
    assert info.skipped and not info.committed and bits(values) == before and one.round == 2
    one.close()


def test_a_newcomer_replays_the_log(address):
    """It has the initial parameters, and gets the log, not parameters; a newcomer with others gets parameters."""
    values = [values_of() for _ in range(2)]
    made = start(address, 2, lambda i, comm: made_of(comm, values[i], admit_every=5))
    steps("one-byte", made, values, 20)
    for given, replays in ((values_of(), True), (values_of(4), False), (values_of(), True)):
        newcomer = made_of(pccl.Communicator(address), given, admit_every=5)
        told = []
        thread = threading.Thread(target=lambda: told.append(newcomer.join()))
        thread.start()
        while not steps("one-byte", made, values)[0].admitted:
            pass
        thread.join(support.DEADLINE)
        assert told[0].joined and (told[0].moved_bytes == 0) == replays
        made, values = [*made, newcomer], [*values, given]
        steps("one-byte", made, values)
        assert len({bits(one) for one in values}) == len({one.digest() for one in made}) == 1
    logs = {one.log() for one in (made[0], made[2])}
    assert len(logs) == 1 and len(logs.pop()) > 0
    replayed = values_of()
    alone = made_of(pccl.Communicator(address), replayed)
    assert alone.replay(made[0].log()) == made[0].round and bits(replayed) == bits(values[0])
    assert alone.log(5) == made[0].log(5)
    for one in (*made, alone):
        one.close()


def test_a_newcomer_without_replay_gets_parameters(address):
    values = [values_of() for _ in range(2)]
    made = start(address, 1, lambda i, comm: made_of(comm, values[0], admit_every=1, replay=False))
    steps("one-byte", made, values[:1], 3)
    newcomer = made_of(pccl.Communicator(address), values[1], admit_every=1, replay=False)
    told = []
    thread = threading.Thread(target=lambda: told.append(newcomer.join()))
    thread.start()
    while not made[0].step().admitted:
        pass
    thread.join(support.DEADLINE)
    assert told[0].moved_bytes > 0 and bits(values[0]) == bits(values[1])
    made[0].close()
    newcomer.close()


def test_bad_logs_are_told_in_words(address):
    values = values_of()
    one = made_of(pccl.Communicator(address), values)
    history = History(1 << 20)
    history.add([(0, b"\x40\x41"), (1, b"\xc0")])
    good = history.since(0)
    assert read_log(good, "byte") == [[(0, b"\x40\x41"), (1, b"\xc0")]]
    for bad in (good[:-1], good + b"\x01", good[:3]):
        with pytest.raises(pccl.InvalidArgument, match="replay: "):
            one.replay(bad)
        assert one.round == 0 and bits(values) == bits(values_of())
    with pytest.raises(pccl.InvalidArgument, match="replay: not a log, or the log of another codec"):
        read_log(good, "float32")
    one.close()


def test_a_log_keeps_no_more_than_it_may():
    history = History(100)
    for _ in range(50):
        history.add([(0, b"12345678")])
    assert history.end == 50 and 0 < len(history.since(history.begin)) <= 100
    assert history.since(history.begin - 1) == history.since(51) == b""


@pytest.mark.nightly
def test_it_learns_as_much_from_bytes_as_from_floats():
    """In the laboratory: a model of Python learns C."""
    given = {"task": "c", "steps": 150, "batch": 128, "rate": 0.03}
    ends = {}
    for method in ("byte", "float32"):
        with pccl.MasterNode("127.0.0.1:0") as master:
            found = launch.peers(f"127.0.0.1:{master.port}", 4, module="methods", method=method, **given)
        assert len({lines[-2]["parameters"] for lines in found}) == 1
        first, last = found[0][0], found[0][-2]
        assert last["tx"] == 150 * 8 * (1 if method == "byte" else 4)
        assert last["loss"] <= first["loss"] - 0.10, found[0]
        ends[method] = last["loss"]
    assert ends["byte"] <= ends["float32"] + 0.01, ends
