#!/usr/bin/env python3
"""Each rule of history.py finds the smallest history that breaks it, and lets sound ones pass; so do the ends of
processes that chaos.py accepts."""

import pathlib
import signal
import tempfile
import types
import unittest

import chaos
import history

SUCCESS, LOST, ABORTED, CONNECT = history.SUCCESS, history.LOST, history.ABORTED, history.CONNECT
ALL = ("a", "b", "c")


class World:
    """Histories of peers, one process each. Each call follows the one before, unless `at` has its begin and
    end."""

    def __init__(self):
        self.histories, self.now = {}, 0

    def call(self, peer, name, key="", result=SUCCESS, at=None, **more):
        one = self.histories.setdefault(peer, history.History(peer, None))
        self.now += 10
        begun, ended = at or (self.now, self.now + 5)
        number = len(one.calls) + 1
        one.take({"e": "begin", "n": number, "t": begun, "call": name, "key": key, "id": peer})
        if result is not None:
            one.take({"e": "end", "n": number, "t": ended, "rc": result, **{"words": "", **more}})

    def reduce(self, key, who=ALL, results=None):
        """Adds simultaneous calls of all these peers."""
        self.now += 10
        at = (self.now, self.now + 5)
        for peer in who:
            result = (results or {}).get(peer, SUCCESS)
            told = {"digest": "d", "who": who} if result == SUCCESS else {}
            self.call(peer, "all-reduce", key, result, at, **told)

    def transfer(self, key, sender, receiver, sent=SUCCESS, received=SUCCESS):
        for peer, name, result in ((sender, "send", sent), (receiver, "recv", received)):
            told = {"digest": "0", "who": [sender, receiver]} if result == SUCCESS else {}
            self.call(peer, name, key, result, **told)

    def synchronize(self, peer, revision, digest="s", held=False, received=0, **more):
        told = {"lineage": "x", "revision": revision, "digest": digest, "held": held, "rx": received, "group": 0}
        self.call(peer, "synchronize", **{**told, **more})

    def note(self, peer, event):
        self.now += 1
        self.histories[peer].take({"e": event, "t": self.now, "id": peer})

    def check(self, **options):
        return list(history.check(self.histories.values(), history.Context(**options)))


class Sound(unittest.TestCase):
    def sound(self, world, **options):
        self.assertEqual(world.check(**options), [])

    def test_what_ordinary_runs_show(self):
        world = World()
        for peer in ALL:
            world.call(peer, "connect", result=CONNECT)
            world.call(peer, "connect", joined=peer)
            world.synchronize(peer, 1)
        world.reduce("1")
        world.reduce("2", results={peer: LOST for peer in ALL})
        world.transfer("3", "a", "b")
        world.transfer("4", "b", "c", LOST, LOST)
        world.reduce("5", ("a", "b"))  # without one that is gone
        world.synchronize("a", 2, held=True)
        world.synchronize("b", 2, held=True)
        self.sound(world)

    def test_calls_that_were_cut_short_tell_nothing(self):
        world = World()
        world.reduce("1", results={"c": None})
        world.transfer("2", "a", "b", None)
        world.transfer("3", "a", "b", SUCCESS, None)
        world.reduce("4", ("a", "b"))
        self.sound(world)

    def test_failures_of_a_peer_that_is_removed(self):
        world = World()
        world.reduce("1", results={"c": LOST})
        world.transfer("2", "a", "c", SUCCESS, LOST)
        world.reduce("3", ("a", "b"))
        self.sound(world)

    def test_two_runs_with_the_same_operation(self):
        world = World()
        world.reduce("1", ("a", "b"))
        world.reduce("1", ("c", "d"))
        self.sound(world)

    def test_results_where_something_is_scarce(self):
        world = World()
        world.reduce("1", results={"a": history.INTERNAL, "b": LOST, "c": LOST})
        world.call("b", "synchronize", result=history.INTERNAL, words="peer 0a 'p1-2' cannot take part")
        self.sound(world, short={"a": [[0, 12]], "p1-2": [[0, 12]]})

    def test_shortage_that_is_over_when_the_last_member_calls(self):
        world = World()
        words = "peer 0a 'p1-2' cannot take part"
        world.call("p1-2", "synchronize", result=history.INTERNAL, at=(10, 9_000_000))
        world.call("b", "synchronize", result=history.USAGE, at=(8_000_000, 9_000_000), words=words)
        self.sound(world, short={"p1-2": [[0, 20]]})

    def test_failures_in_calm_times_by_what_programs_do(self):
        world = World()
        for peer in ALL:
            world.call(peer, "all-reduce", "1", ABORTED, at=(10, 30))
        world.now = 20
        world.note("a", "aborts")
        world.now = 40
        world.note("b", "leaves")
        world.call("a", "barrier", "2", LOST)
        world.note("b", "round")
        self.sound(world, calm=[[0, 100]])

    def test_states_partly_overwritten(self):
        world = World()
        for words in ("all members that held the state are gone; partly overwritten: 'w'", history.ALL_TORN):
            world.call("a", "synchronize", result=history.USAGE, words=words)
        self.sound(world)

    def test_expelled_after_a_fault(self):
        world = World()
        world.call("a", "update", result=history.EXPELLED)
        world.call("a", "synchronize", result=history.USAGE, words="the master removed this peer: silent for 4.0 s")
        self.sound(world, faults=[[0, 5]])

    def test_contents_under_two_masters(self):
        world = World()
        world.synchronize("a", 1, "s")
        world.synchronize("b", 1, "t")
        self.sound(world, rivals=[[0, 100]])


class Broken(unittest.TestCase):
    def found(self, world, *words, **options):
        violations = world.check(**options)
        self.assertTrue(violations, "no violation")
        for violation in violations:
            self.assertTrue(violation.startswith(words), violation)

    def test_wrong_element(self):
        world = World()
        world.reduce("1", results={"a": None})
        world.call("d", "all-reduce", "2", digest="d", who=["d"], wrong="element 1")
        self.found(world, "wrong: element 1")

    def test_changed_input_of_a_failure(self):
        world = World()
        world.call("a", "all-reduce", "1", LOST, wrong="byte 1 of the input has changed")
        self.found(world, "wrong: byte 1")

    def test_unexplained_results(self):
        for name, result in (("all-reduce", history.INTERNAL), ("all-reduce", CONNECT), ("update", history.OPTIMIZE),
                             ("synchronize", 3), ("connect", history.OPTIMIZE)):  # fmt: skip
            world = World()
            world.call("a", name, "1" if name == "all-reduce" else "", result)
            self.found(world, "result: ")

    def test_shortage_of_another_peer_or_of_another_time(self):
        for result in (history.INTERNAL, history.NO_MEMORY):
            world = World()
            world.call("a", "all-reduce", "1", result, at=(5_000_000, 5_000_010))
            self.found(world, "result: ", short={"b": [[0, 6_000_000]], "a": [[0, 1_000_000], [6_000_000, 7_000_000]]})

    def test_shortage_of_a_member_before_its_part_of_the_call(self):
        world = World()
        words = "peer 0a 'p1-2' cannot take part"
        world.call("p1-2", "synchronize", at=(8_500_000, 9_000_000), **{"held": False, "rx": 0, "revision": 1,
                   "digest": "s", "lineage": "x"})  # fmt: skip
        world.call("b", "synchronize", result=history.USAGE, at=(8_000_000, 9_000_000), words=words)
        self.found(world, "result: ", short={"p1-2": [[0, 20]]})

    def test_failures_in_calm_times(self):
        world = World()
        for key in range(200):
            world.reduce(str(key), results={peer: LOST for peer in ALL})
        self.assertEqual(len(world.check(calm=[[0, world.now + 10]])), 600)
        world = World()
        world.call("a", "synchronize", result=history.INTERNAL)
        self.found(world, "result: ", calm=[[0, 100]])

    def test_state_that_was_not_overwritten(self):
        world = World()
        world.call("a", "synchronize", result=history.LOST, words="partly overwritten: 'w'")
        world.synchronize("a", 1)
        world.call("b", "synchronize", result=history.LOST, words="partly overwritten: 'w'")
        world.call("a", "synchronize", result=history.USAGE, words=history.ALL_TORN)
        self.found(world, "result: ")

    def test_expelled_or_closed_for_no_reason(self):
        for result in (history.EXPELLED, history.USAGE):
            world = World()
            world.call("a", "update", result=result)
            self.found(world, "result: ")

    def test_two_halves_of_one_run(self):
        world = World()
        world.reduce("1", ("a", "b"))
        world.reduce("1", ("c", "d"))
        world.reduce("2", ("a", "b", "c", "d"))
        self.found(world, "agreement: apart")

    def test_wrong_rank(self):
        for rank in (1, 2):
            world = World()
            world.call("b", "all-reduce", "1", at=(10, 20), digest="d", who=["a", "b"], rank=1)
            world.call("a", "all-reduce", "1", at=(10, 20), digest="d", who=["a", "b"], rank=rank)
            self.found(world, "participants: not at its rank")

    def test_other_members_than_named(self):
        world = World()
        for peer in ("a", "b"):
            world.call(peer, "barrier", "1", at=(10, 20), digest="0", who=["a", "b"], named=["a", "b", "c"])
        self.found(world, "participants: not the named members")

    def test_synchronization_for_one_only(self):
        world = World()
        told = {"lineage": "x", "digest": "s", "held": False, "rx": 0, "group": 0}
        world.call("a", "synchronize", at=(10, 20), revision=1, **told)
        world.call("b", "synchronize", result=LOST, at=(10, 20), revision=0, **told)
        world.reduce("1", ("a", "b"))
        self.found(world, "state: synchronized for one only")

    def test_different_states_of_participants(self):
        for more in ({"revision": 2}, {"lineage": "y"}):
            world = World()
            world.synchronize("a", 1)
            world.synchronize("b", **{"revision": 1, **more})
            for peer in ("a", "b"):
                world.call(peer, "barrier", "1.agree0", at=(100, 110), digest="0", who=["a", "b"])
            self.found(world, "state: different at the participants", rivals=[[0, 200]])

    def test_different_answers(self):
        world = World()
        world.call("a", "pending", at=(10, 20), **{"pending": 1})
        world.call("b", "pending", at=(10, 20))
        for one in world.histories.values():
            one.calls[0].more["at"] = "1"
        self.found(world, "pending: ")

    def test_participants_twice(self):
        world = World()
        world.reduce("1", who=("a", "b"), results={"b": None})
        world.call("c", "all-reduce", "1", digest="d", who=["c", "c"])
        self.found(world, "participants: not distinct", "agreement: other participants")
        self.assertTrue(any("not distinct" in violation for violation in world.check()))

    def test_no_participants(self):
        world = World()
        world.call("a", "all-reduce", "1", digest="d", who=[])
        self.found(world, "participants: not distinct", "participants: without the peer")

    def test_participants_without_the_peer(self):
        world = World()
        world.reduce("1", ("a", "b"), results={"a": None})
        world.call("c", "all-reduce", "1", digest="d", who=["a", "b"])
        self.found(world, "participants: without the peer itself")

    def test_participant_that_has_not_called(self):
        world = World()
        world.call("c", "all-reduce", "2", digest="d", who=["a", "c"])
        self.found(world, "participants: a has not called it")

    def test_participant_that_calls_after_the_end(self):
        world = World()
        world.call("a", "barrier", "1", at=(10, 20), digest="0", who=["a", "b"])
        world.call("b", "barrier", "1", at=(30, 40), digest="0", who=["a", "b"])
        self.found(world, "participants: b has not called it")

    def test_other_bits(self):
        world = World()
        for peer, digest in (("a", "d"), ("b", "e")):
            world.call(peer, "all-reduce", "1", at=(10, 20), digest=digest, who=["a", "b"])
        self.found(world, "agreement: other bits")

    def test_other_participants(self):
        world = World()
        for peer, who in (("a", ["a", "b", "c"]), ("b", ["a", "b"]), ("c", ["a", "b", "c"])):
            world.call(peer, "all-reduce", "1", at=(10, 20), digest="d", who=who)
        self.found(world, "agreement: other participants")

    def test_failure_beside_a_success(self):
        for result in (LOST, ABORTED):
            world = World()
            world.reduce("1", results={"c": result})
            world.reduce("2")
            self.found(world, "agreement: a failure beside a success")

    def test_member_that_is_left_out(self):
        world = World()
        for peer in ("a", "b"):
            world.call(peer, "all-reduce", "1", at=(10, 20), digest="d", who=["a", "b"])
        world.call("c", "all-reduce", "1", LOST, at=(10, 20))
        world.reduce("2")
        self.found(world, "left out")

    def test_send_without_a_receive(self):
        for sent, received in ((SUCCESS, LOST), (LOST, SUCCESS)):
            world = World()
            world.transfer("1", "a", "b", sent, received)
            world.reduce("2")
            self.found(world, "send: only one")

    def test_send_that_no_peer_receives(self):
        world = World()
        world.call("a", "send", "1", digest="0", who=["a", "b"])
        self.found(world, "send: b has not called recv")

    def test_receive_from_no_sender(self):
        world = World()
        world.call("b", "recv", "1", digest="0", who=["a", "b"])
        self.found(world, "send: a has not called send")

    def test_send_that_arrives_twice(self):
        world = World()
        world.transfer("1", "a", "b")
        world.call("b", "recv", "1", digest="0", who=["a", "b"])
        self.found(world, "send: twice")

    def test_ends_of_a_send_exchanged(self):
        world = World()
        world.call("a", "send", "1", digest="0", who=["b", "a"])
        self.found(world, "participants: ")

    def test_two_contents_of_a_revision(self):
        world = World()
        world.synchronize("a", 1, "s")
        world.synchronize("b", 1, "t")
        self.found(world, "state: two contents")

    def test_revision_that_does_not_grow(self):
        for revision in (1, 2):
            world = World()
            world.synchronize("a", 2)
            world.synchronize("a", revision)
            self.found(world, "state: the revision does not grow")

    def test_common_state_that_is_replaced(self):
        world = World()
        world.synchronize("a", 1)
        world.synchronize("a", 2, held=True, received=8)
        self.found(world, "state: it was given another one")

    def test_operation_made_twice(self):
        world = World()
        for _ in range(2):
            world.call("a", "barrier", "1", digest="0", who=["a"])
        self.found(world, "twice", "agreement: other participants")


class Ends(unittest.TestCase):
    """A process that ended by itself just now."""

    FULL = "chaos_peer: communicator: gives up: cannot read run.token: Too many open files\n"

    def accepted(self, status, words, short=None, without_memory=()):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            log.write_text(words)
            peer = types.SimpleNamespace(log=log, popen=types.SimpleNamespace(returncode=status), died=None, name="a",
                                         without_memory=without_memory)  # fmt: skip
            episode = types.SimpleNamespace(context=history.Context(short=short))
            return chaos.Episode.has_ended_in_shortage(episode, peer)

    def test_in_a_shortage(self):
        now = [[0, chaos.END]]
        self.assertTrue(self.accepted(chaos.GAVE_UP_STATUS, self.FULL, {"a": now}))
        self.assertTrue(self.accepted(-signal.SIGABRT, "", {"a": now}, now))

    def test_for_another_reason(self):
        now, earlier = [[0, chaos.END]], [[0, 1]]
        for status, words, short, without_memory in (
            (chaos.GAVE_UP_STATUS, self.FULL, {"a": earlier, "b": now}, ()),
            (chaos.GAVE_UP_STATUS, "chaos_peer: history: gives up: line too long\n", {"a": now}, ()),
            (chaos.GAVE_UP_STATUS, "", {"a": now}, now),
            (1, self.FULL, {"a": now}, now),
            (-signal.SIGABRT, "", {"a": now}, ()),
            (-signal.SIGABRT, "double free", {"a": now}, now),
            (-signal.SIGSEGV, self.FULL, {"a": now}, now),
        ):
            self.assertFalse(self.accepted(status, words, short, without_memory), words)


if __name__ == "__main__":
    unittest.main()
