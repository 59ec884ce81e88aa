"""The demo's judgment, on made-up messages, and its display."""

import argparse
import io
import sys

import pytest
import support

pytest.importorskip("numpy")
sys.path.insert(0, str(support.PACKAGE / "examples" / "demo"))

import display  # noqa: E402  the path comes first
import run  # noqa: E402
import training  # noqa: E402
from processes import Failed  # noqa: E402

ROUNDS = 10
ESCAPE = "\x1b"


class Somebody:
    def __init__(self, name):
        self.name, self.state, self.pid = name, "starts", 0
        self.last, self.killed = {"parameters": 1000}, False

    def kill(self):
        """Does nothing: called by the run."""

    def go(self):
        self.state = "is told"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def make(kind, tmp_path, names=training.FOUNDERS, out=None):
    given = argparse.Namespace(rounds=ROUNDS, inner_steps=5, out=tmp_path, master="")
    made = kind(given, display.Plain(out or io.StringIO()))
    made.begun = 0.0
    made.peers.extend(Somebody(name) for name in names)
    return made


def meet(made, number, names, count=None, **differing):
    """Reports the arrival of these peers at round `number`, and its end 10 ms later."""
    by_name = {peer.name: peer for peer in made.peers}
    for name in names:
        made.on_arrived(by_name[name], {"at": 1.0 * number, "round": number})
    for name in names:
        told = {"at": number + 0.01, "round": number, "participants": count or len(names), "digest": "d" * 32}
        told.update({"tx": 10, "loss": 2.0, "validation": 2.0}, **differing.get(name, {}))
        made.on_round(by_name[name], told)


@pytest.mark.parametrize("what, value", [("digest", "e" * 32), ("participants", 3)])
def test_a_difference_is_found(tmp_path, what, value):
    made = make(training.Undisturbed, tmp_path)
    meet(made, 1, training.FOUNDERS)
    with pytest.raises(Failed, match=f"after round 2 .* differ in {what}"):
        meet(made, 2, training.FOUNDERS, carla={what: value})


def test_undisturbed(tmp_path):
    made = make(training.Undisturbed, tmp_path)
    for number in range(1, ROUNDS):
        meet(made, number, training.FOUNDERS)
    with pytest.raises(Failed, match="not 1 to 10"):
        made.check()
    meet(made, ROUNDS, ["anna", "ben", "dan"])
    with pytest.raises(Failed, match="round 10, not all of"):
        made.check()
    meet(made, ROUNDS, ["carla"], 3)
    made.check()
    assert run.ddp_bytes(made) == 9 * 5 * 2 * 3 / 4 * 4000 + 5 * 2 * 2 / 3 * 4000


THREE = ["anna", "carla", "dan"]


def disturbed(tmp_path, joins=True, moved=4000, kills=True):
    made = make(training.Disturbed, tmp_path, [*training.FOUNDERS, training.NEWCOMER])
    made.on_ready(made.peers[-1], {})
    present = list(training.FOUNDERS)
    for number in range(1, ROUNDS + 1):
        if number == made.kill_round + 1 and kills:
            present = THREE
        meet(made, number, present)
        if made.peers[-1].state == "connects" and joins:
            made.on_in(made.peers[-1], {"at": number + 0.02, "round": number, "moved": moved})
            present = [*THREE, training.NEWCOMER]
    return made


def test_disturbed(tmp_path):
    made = disturbed(tmp_path)
    made.check()
    assert made.kill_story["kill_round"] == 4 and made.kill_story["round"] == 5 and made.kill_story["peers"] == 3
    assert made.join_story["round"] == 6 and made.join_story["took_part"] == 7
    assert made.usual_ms() == pytest.approx(10) == pytest.approx(made.kill_story["took_ms"])
    assert [peer.killed for peer in made.peers] == [False, True, False, False, False]


@pytest.mark.parametrize(
    "given, words",
    [
        ({"joins": False}, "eva took part in no round"),
        ({"moved": 0}, "was given nothing"),
        ({"kills": False}, "no round of three"),
    ],
)
def test_what_must_have_happened(tmp_path, given, words):
    with pytest.raises(Failed, match=words):
        disturbed(tmp_path, **given).check()


def test_bound():
    run.check_loss(2.0 + 0.9 * run.BOUND, 2.0)
    for loss in (2.0 + 1.1 * run.BOUND, float("nan")):
        with pytest.raises(Failed, match="behind"):
            run.check_loss(loss, 2.0)


def test_plain_display():
    out = io.StringIO()
    screen = display.choose(out)
    screen.event("begins")
    for number in range(1, 11):
        screen.round(number, 10, f"round {number}")
        screen.table(["a", "b"])
    screen.close()
    assert ESCAPE not in out.getvalue()
    words = [line.split("s  ", 1)[1] for line in out.getvalue().splitlines()]
    assert words == ["begins", "round 1", "round 4", "round 8", "round 10"]


def test_live_display(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "24")
    out = Terminal()
    screen = display.choose(out)
    screen.table(["first row that is longer than the terminal", "second"])
    screen.event("something")
    screen.close()
    shown = out.getvalue()
    erase = f"{ESCAPE}[2A{ESCAPE}[J"
    assert shown.count(erase) == 2  # for the event, and at the end
    drawn = f"first row that is l{ESCAPE}[K\nsecond{ESCAPE}[K\n"
    assert shown.startswith(drawn + erase) and shown.endswith(drawn + erase)
    assert "something\n" in shown

    monkeypatch.setenv("TERM", "dumb")
    assert type(display.choose(out)) is display.Plain
