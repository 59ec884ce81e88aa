"""Checks the histories of peers (format: history.h) by the promises of docs/RELIABILITY.md.

    history.py FOLDER...    checks kept episodes again (chaos.py --keep)

The rules, each with the name that a violation begins with:

    wrong        a peer got an element, a blob or a length that does not follow from exactly the participants, or its
                 input has changed
    result       a call ended with a code that no fault explains: in a calm time only an abort, a closed group or
                 a member that left explains a failure; a shortage explains results at its process, and at others whose
                 words name it, if its own part of the call was made then
    participants they are not distinct, the peer is not among them or not at its rank, one of them did not make the call
                 by then, or they are not the members that the call named
    agreement    an operation succeeded with one of its participants and not with another that stayed in the run, or
                 with other participants or other bits; or members that stay in one run succeeded apart
    pending      members were told different answers
    left out     a member called an operation, failed, and stayed in the run of those with whom it succeeded
    send         a send and its receive ended differently
    state        two contents at one revision, a revision that does not grow, a member that had the state of all and
                 was given another one, participants of an operation with different states, or a synchronization that
                 succeeded for one member and not for another that stayed in the run
    twice        one peer made an operation twice
"""

import collections
import gzip
import itertools
import json
import pathlib
import re
import sys

SUCCESS, INTERNAL, USAGE, TOO_FEW, CONNECT, LOST, OPTIMIZE = 0, 2, 4, 5, 6, 8, 12
TIMEOUT, ABORTED, EXPELLED, MASTER_LOST, NO_MEMORY, REFUSED, CHANGED = 13, 14, 17, 18, 19, 21, 22

# Results that a correct program may get; SCARCE only where a process is short of memory or descriptors.
ALLOWED = {SUCCESS, USAGE, TOO_FEW, LOST, TIMEOUT, ABORTED, EXPELLED, MASTER_LOST, CHANGED}
ALLOWED_OF_CALL = {"connect": ALLOWED | {CONNECT, REFUSED}, "optimize": ALLOWED | {OPTIMIZE}}
SCARCE = {INTERNAL, NO_MEMORY}
PAIRED = ("send", "recv")
SHORTAGE_US = 2_000_000  # a call may tell of a shortage that ended up to this long before it began
EXPEL_US = 60_000_000  # a member is expelled at most this long after the end of the fault that explains it
LOST_STATE = re.compile("no member offers|died|are gone")
TORN, ALL_TORN = "partly overwritten", "no member has an intact shared state"
NAMED = re.compile(r"'(p\d+-\d+)'")


class Context:
    """The acts of chaos.py, with times in us. calm: [from, to], without faults since the peers have become sound.
    short: {process: [from, to]...}, shortages of memory or descriptors. rivals: [from, to], from the start of a second
    master or the end of a run until the peers have become sound. faults: [from, to] of faults that can separate
    members. asked: {process: when it was asked to leave}."""

    def __init__(self, calm=(), short=None, rivals=(), faults=(), asked=None):
        self.calm, self.rivals, self.faults = list(calm), list(rivals), list(faults)
        self.short, self.asked = short or {}, asked or {}

    def debugged(self, time):
        """From now on a debugger stops the processes, so that others take them for dead."""
        self.calm = [[begin, min(end, time)] for begin, end in self.calm]
        self.faults.append([time, 1 << 62])

    def is_calm(self, call):
        return any(begin <= call.begun and call.ended <= end for begin, end in self.calm)

    def is_short(self, process, call):
        times = self.short.get(process, ())
        return any(begin <= call.ended and call.begun <= end + SHORTAGE_US for begin, end in times)

    def epoch(self, call):
        """Returns a number that changes with each second master, or None while its effects last."""
        if any(begin <= call.ended and call.begun <= end for begin, end in self.rivals):
            return None
        return sum(end < call.begun for _, end in self.rivals)

    def separates(self, call):
        return any(begin <= call.ended and call.begun <= end + EXPEL_US for begin, end in self.faults)

    def is_asked(self, call):
        return self.asked.get(call.process, call.ended + 1) <= call.ended


class Call:
    """One call of one peer. result: None if the call has not ended or its outcome is unknown."""

    __slots__ = ("process", "number", "name", "key", "peer", "begun", "ended", "result", "words", "more")

    def __init__(self, process, line):
        self.process, self.number, self.name = process, line["n"], line["call"]
        self.key, self.peer, self.begun = line["key"], line["id"], line["t"]
        self.ended = self.result = None
        self.words, self.more = "", {}

    def end(self, line):
        self.ended, self.words = line["t"], line["words"]
        self.more = {name: value for name, value in line.items() if name not in ("n", "e", "t", "rc", "words")}
        if "left" not in line:
            self.result = line["rc"]
        if line.get("joined"):
            self.peer = line["joined"]

    @property
    def who(self):
        return tuple(self.more.get("who", ()))

    def __str__(self):
        end = "no end" if self.ended is None else f"result {self.result} {self.words!r} at {self.ended}"
        return f"{self.process} {self.peer} {self.name} {self.key} at {self.begun}: {end} {self.more}"


class History:
    """The calls of one process, read as they are written."""

    def __init__(self, process, path):
        self.process, self.path = process, path
        self.calls, self.open, self.notes = [], {}, []
        self.rest = b""
        self.at = 0

    def read(self):
        """Reads the lines written since the last call. Returns the new notes."""
        try:
            with (gzip.open if str(self.path).endswith(".gz") else open)(self.path, "rb") as file:
                file.seek(self.at)
                data = file.read()
        except FileNotFoundError:
            return []
        self.at += len(data)
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        first = len(self.notes)
        for line in lines:
            self.take(json.loads(line))
        return self.notes[first:]

    def take(self, line):
        if line["e"] == "begin":
            call = Call(self.process, line)
            self.calls.append(call)
            self.open[call.number] = call
        elif line["e"] == "end":
            self.open.pop(line["n"]).end(line)
        else:
            self.notes.append(line)


class _Acts:
    """Acts of the programs: aborts, groups closed, members that left."""

    def __init__(self, histories, by_key):
        self.by_key = by_key
        self.of_process = {history.process: history.calls for history in histories}
        self.of_peer = collections.defaultdict(list)
        self.absences = []
        for history in histories:
            left = None
            for note in history.notes:
                if note["e"] in ("aborts", "closes", "leaves"):
                    self.of_peer[note["id"]].append(note["t"])
                if note["e"] == "leaves" and left is None:
                    left = note["t"]
                if note["e"] == "round" and left is not None:
                    self.absences.append((left, note["t"]))
                    left = None
            if left is not None:
                self.absences.append((left, float("inf")))

    def during(self, key):
        """Returns true if a peer acted while its own call of this operation was open."""
        return any(
            call.begun <= time and (call.ended is None or time <= call.ended)
            for peer, calls in self.by_key.get(key, {}).items()
            for call in calls
            for time in self.of_peer.get(peer, ())
        )

    def parts(self, call, process):
        """Returns the calls that the process made as its part of this one."""
        return [
            other
            for other in self.of_process.get(process, ())
            if (other.name, other.key) == (call.name, call.key)
            and other.ended is not None
            and other.begun < call.ended
            and call.begun < other.ended
        ]

    def explain(self, call):
        if any(begin <= call.ended and call.begun <= end for begin, end in self.absences):
            return True  # a member is away, between leaving and its next round
        return bool(call.key) and self.during(call.key)


def _is_explained(call, acts, context, gone, torn):
    """Returns true if something explains the failure of this call. gone: its membership has ended. torn: an earlier
    synchronization has overwritten a part of its state."""
    scarce = context.is_short(call.process, call) or any(
        context.is_short(process, part)
        for process in NAMED.findall(call.words)
        for part in [call, *acts.parts(call, process)]
    )
    if call.result in SCARCE:
        return scarce
    if call.result not in ALLOWED_OF_CALL.get(call.name, ALLOWED):
        return False
    removed = "removed" in call.words or "refused this peer" in call.words
    if call.result in (EXPELLED, REFUSED) or removed:
        return context.separates(call)
    lost = LOST_STATE.search(call.words) or (torn and ALL_TORN in call.words)
    if call.result == USAGE and call.name == "synchronize" and lost:
        return not context.is_calm(call)
    if call.result == USAGE:
        return context.is_asked(call) or gone or scarce or (bool(call.key) and acts.during(call.key))
    return not context.is_calm(call) or acts.explain(call)


def _check_results(calls, acts, context):
    gone, torn = set(), set()  # peers, by their earlier calls
    for call in sorted((call for call in calls if call.ended is not None), key=lambda call: call.ended):
        if "wrong" in call.more:
            yield f"wrong: {call.more['wrong']}: {call}"
        peer = (call.process, call.peer)
        if call.name == "synchronize" and call.result == SUCCESS:
            torn.discard(peer)
        if call.result in (None, SUCCESS):
            continue
        if not _is_explained(call, acts, context, peer in gone, peer in torn):
            yield f"result: {call}"
        if call.result in (EXPELLED, MASTER_LOST):
            gone.add(peer)
        if TORN in call.words:
            torn.add(peer)


def _check_participants(call, made):
    who = call.who
    if len(set(who)) != len(who) or not who:
        yield f"participants: not distinct: {call}"
    if call.peer not in who:
        yield f"participants: without the peer itself: {call}"
    elif "rank" in call.more and (call.more["rank"] >= len(who) or who[call.more["rank"]] != call.peer):
        yield f"participants: not at its rank: {call}"
    if "named" in call.more and list(who) != call.more["named"]:
        yield f"participants: not the named members: {call}"
    for peer in who:
        others = [other for other in made[peer] if other.begun <= call.ended]
        if not others:
            yield f"participants: {peer} has not called it: {call}"


class _Stays:
    """Finds peers that stay in one run after a time, by operations in which they succeed together later."""

    def __init__(self, calls):
        self.later = collections.defaultdict(list)  # of each peer, its successful operations
        for call in calls:
            if call.result == SUCCESS and call.key and call.name not in PAIRED:
                self.later[call.peer].append((call.begun, call.who))
        for successes in self.later.values():
            successes.sort(reverse=True)

    def together(self, peer, others, after):
        for begun, who in self.later[peer]:
            if begun <= after:
                return False
            if not others.isdisjoint(who):
                return True
        return False


def _check_agreement(key, made, stays):
    calls = [call for peer in made.values() for call in peer]
    successes = [call for call in calls if call.result == SUCCESS]
    clusters = collections.defaultdict(list)
    for call in successes:
        yield from _check_participants(call, made)
        clusters[call.who].append(call)
    taken = {}
    for who, cluster in clusters.items():
        digests = {call.more["digest"] for call in cluster}
        if len(digests) > 1:
            yield f"agreement: other bits: {key}: " + " and ".join(map(str, cluster))
        for peer in who:
            if peer in taken:
                yield f"agreement: other participants: {key}: {who} and {taken[peer]}"
            taken[peer] = who
        others = set(who)
        for apart in clusters:
            if apart < who and any(stays.together(peer, set(apart) - others, cluster[0].ended) for peer in who):
                yield f"agreement: apart: {key}: {who} and {apart}"
        for call in calls:
            if call.result in (SUCCESS, None):
                continue
            if stays.together(call.peer, others - {call.peer}, call.ended):
                kind = "agreement: a failure beside a success" if call.peer in others else "left out"
                yield f"{kind}: {call}; {cluster[0]}"


def _check_sends(key, made, stays):
    """Checks sends and receives, whose participants are the sender and the receiver."""
    calls = [call for peer in made.values() for call in peer]
    ends = collections.defaultdict(list)  # of each pair
    for call in calls:
        if call.result == SUCCESS:
            if len(call.who) != 2 or call.who[call.name == "recv"] != call.peer:
                yield f"participants: {call}"
                continue
            ends[call.who].append(call)
    for (sender, receiver), succeeded in ends.items():
        for name, peer, other in (("send", sender, receiver), ("recv", receiver, sender)):
            if any(call.name == name for call in succeeded):
                continue
            own = [call for call in made[peer] if call.name == name]
            if not own:
                yield f"send: {peer} has not called {name}: {succeeded[0]}"
            elif all(call.result is not None for call in own):
                if any(stays.together(peer, {other}, call.ended) for call in own):
                    yield f"send: only one of {key} has succeeded: {succeeded[0]}; {own[0]}"
        for name in PAIRED:
            if sum(call.name == name for call in succeeded) > 1:
                yield f"send: twice: {succeeded[0]}; {succeeded[1]}"


def _synchronizations(calls):
    done = [call for call in calls if call.name == "synchronize" and call.result == SUCCESS]
    return sorted(done, key=lambda call: call.ended)


def _content(call):
    return tuple(call.more[name] for name in ("lineage", "revision", "digest"))


def _check_states(calls, context):
    contents, reached = {}, {}
    for call in _synchronizations(calls):
        more, epoch = call.more, context.epoch(call)
        if epoch is not None:
            other = contents.setdefault((epoch, more["lineage"], more["revision"]), call)
            if other.more["digest"] != more["digest"]:
                yield f"state: two contents of {more['lineage']} {more['revision']}: {call}; {other}"
        if more["held"] and more["rx"] > 0:
            yield f"state: it was given another one: {call}"
        if reached.get(call.peer, -1) >= more["revision"]:
            yield f"state: the revision does not grow: {call}"
        reached[call.peer] = more["revision"]


def _check_common_states(calls):
    """All participants of an operation hold the state of one synchronization, whatever masters there are."""
    latest, found = {}, collections.defaultdict(dict)
    for call in sorted(calls, key=lambda call: (call.ended if call.name == "synchronize" else call.begun)
                       if call.ended is not None else float("inf")):
        if call.result != SUCCESS:
            continue
        if call.name == "synchronize":
            latest[call.peer] = call
        elif ".agree" in call.key and call.peer in latest:
            found[call.key, call.who][call.peer] = latest[call.peer]
    for (key, _), states in found.items():
        one = next(iter(states.values()))
        for other in states.values():
            if _content(other) != _content(one):
                yield f"state: different at the participants of {key}: {one}; {other}"
                break


def _check_synchronizations(calls, stays, context):
    """A synchronization may fail for one member that cannot fetch the state; its words name overwritten tensors."""
    done = _synchronizations(calls)
    for failed in calls:
        if failed.name != "synchronize" or failed.result in (None, SUCCESS) or "overwritten" in failed.words:
            continue
        if context.is_short(failed.process, failed):
            continue
        for call in done:
            if call.begun < failed.ended and failed.begun < call.ended and call.more.get("group") == failed.more.get(
                "group"
            ):
                if stays.together(failed.peer, {call.peer}, failed.ended):
                    yield f"state: synchronized for one only: {failed}; {call}"
                    break


def _check_pending(calls, context):
    answers = collections.defaultdict(dict)
    for call in calls:
        if call.name == "pending" and call.result == SUCCESS and "at" in call.more:
            epoch = context.epoch(call)
            if epoch is not None:
                answers[call.more["at"], epoch].setdefault(call.peer, []).append(call)
    for asked in answers.values():
        once = [made[0] for made in asked.values() if len(made) == 1]
        for one, other in itertools.combinations(once, 2):
            # A later run may repeat the round, from a state that survived.
            meet = one.begun < other.ended and other.begun < one.ended
            if meet and bool(one.more.get("pending")) != bool(other.more.get("pending")):
                yield f"pending: {one}; {other}"
                break


def check(histories, context=None):
    """Yields the violations as text."""
    context = context or Context()
    histories = list(histories)
    calls = [call for history in histories for call in history.calls]
    by_key = collections.defaultdict(lambda: collections.defaultdict(list))
    for call in calls:
        if call.key:
            by_key[call.key][call.peer].append(call)
    stays = _Stays(calls)
    yield from _check_results(calls, _Acts(histories, by_key), context)
    for key, made in by_key.items():
        if any(call.name in PAIRED for peer in made.values() for call in peer):
            yield from _check_sends(key, made, stays)
            continue
        for peer, again in made.items():
            if len(again) > 1:
                yield f"twice: {peer}: {again[0]}"
        yield from _check_agreement(key, made, stays)
    yield from _check_states(calls, context)
    yield from _check_common_states(calls)
    yield from _check_synchronizations(calls, stays, context)
    yield from _check_pending(calls, context)


def count(histories):
    """Returns {call: [succeeded, failed]} and the longest call."""
    counts, longest = collections.defaultdict(lambda: [0, 0]), None
    for history in histories:
        for call in history.calls:
            if call.result is not None:
                counts[call.name][call.result != SUCCESS] += 1
            if call.ended is not None and (longest is None or call.ended - call.begun > longest.ended - longest.begun):
                longest = call
    return counts, longest


def main(folders):
    """Checks kept episodes again. Returns the exit status."""
    bad = 0
    for folder in map(pathlib.Path, folders):
        context = Context(**json.loads((folder / "context").read_text(encoding="utf-8")))
        histories = [History(path.name.split(".")[0], path) for path in sorted(folder.glob("*.history*"))
                     if path.suffix in (".history", ".gz")]  # fmt: skip
        for one in histories:
            one.read()
        violations = list(check(histories, context))
        bad += bool(violations)
        print(f"{folder}: {sum(len(one.calls) for one in histories)} calls, {len(violations)} violations")
        for violation in violations:
            print(f"  {violation}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
