"""Members, with their rights and keys, that send false messages: about shared state, views, operations and rounds, and
at random. Honest members continue."""

import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

# pylint: disable=wrong-import-position
import harness
import messages
import wire
from harness import check, equal, figure
from honest import Run
from loops import BULK, SMALL
from proxy import Proxy, behind_proxy
from roles import LyingDonor, Mutant, Recorder, dial, pour
from states import MIB, define, same, votes

FAR = 1 << 40
MOST = (1 << 64) - 1

# ---- shared state ----


def _donor_lies():
    """Returns functions by name. Each changes an answer of a donor, and returns the number of bytes of content that
    follow and whether these are changed."""

    def with_field(wanted, field, change):
        def lie(name, fields):
            length = fields.get("length", 0)
            if name == wanted:
                fields[field] = change(fields[field])
            return length, False

        return lie

    def other_proof(proofs):
        return [{**proof, "low": messages.identity()} for proof in proofs]

    def shorter(name, fields):
        if name == "state_data" and fields["length"] > 1:
            fields["length"] -= 1
        return fields.get("length", 0), False

    return {
        "another proof": with_field("state_proofs", "proofs", other_proof),
        "no proofs": with_field("state_proofs", "proofs", lambda proofs: []),
        "a proof too many": with_field("state_proofs", "proofs", lambda proofs: proofs + proofs[:1]),
        "proofs of another tensor": with_field("state_proofs", "tensor", lambda tensor: tensor + 1),
        "proofs from elsewhere": with_field("state_proofs", "first", lambda first: first + 1),
        "proofs of another round": with_field("state_proofs", "round", lambda number: number + 1),
        "proofs of another kind": with_field("state_proofs", "what", lambda what: 3 - what),
        "another tensor": with_field("state_data", "tensor", lambda tensor: tensor + 7),
        "a chunk that was not requested": with_field("state_data", "chunk", lambda chunk: chunk + 1),
        "a chunk far away": with_field("state_data", "chunk", lambda chunk: MOST),
        "another round": with_field("state_data", "round", lambda number: number - 1),
        "a chunk that is too long": with_field("state_data", "length", lambda length: min(length + 1, MIB)),
        "a chunk that is too short": shorter,
        "other content": lambda name, fields: (fields.get("length", 0), name == "state_data"),
        "no answer": lambda name, fields: None,
        "no content": lambda name, fields: (0, False),
    }


def _lying_donors(run, lies):
    run.environment["PCCL_WHERE_MS"] = "20"
    honest = Run(run, count=1, loop=False)
    relays = []
    for kind in (Proxy, LyingDonor):
        donor, relay = behind_proxy(run, kind)
        run.admit(donor, honest.peers)
        honest.peers.append(donor)
        relays.append(relay)
    gate, relay = relays
    requester, *donors = honest.peers
    for turn, (what, lie) in enumerate(lies):
        define(donors, f"w,u64,{4 * MIB // 8},rand:{2 * turn}")
        define(requester, f"w,u64,{4 * MIB // 8},rand:{2 * turn + 1}")
        relay.lie, before = lie, relay.lies
        gate.hold(True)
        calls = votes(honest.peers, [turn, turn + 1, turn + 1])
        harness.poll(lambda before=before: relay.lies > before, f"somebody to ask the liar: {what}")
        gate.hold(False)
        same([call.wait(rc=harness.SUCCESS) for call in calls])
    relay.lie = None
    honest.go_on()


def test_lying_donors(run):
    """One of two donors of shared state sends false answers or none: the other one provides all of it, and both remain
    members. Every fourth lie."""
    _lying_donors(run, list(_donor_lies().items())[::4])


def test_slow_lying_donors(run):
    """All of them, nightly."""
    _lying_donors(run, _donor_lies().items())


# ---- views, operations and rounds that do not exist ----


def _epochs(epoch):
    for inc, number in ((0, 1), (0, -1), (0, FAR), (1, 0), (-1, 0), (1 << 19, 0)):
        yield {"inc": max(epoch["inc"] + inc, 0), "number": max(epoch["number"] + number, 0)}
    yield {"inc": (1 << 32) - 1, "number": MOST}


def _instances(instance):
    for field in ("joint", "sync", "use", "subgroup", "pair"):
        most = (1 << 32) - 1 if field == "use" else MOST
        for change in (1, -1, FAR, most):
            value = instance[field] + change
            if 0 <= value <= most:
                yield {**instance, field: value}


def _lies(liar):
    """Returns [(message, values)] that a member may send to the master at any time, each with one incorrect number."""
    here, view, lies = liar.instance(tag=5000), liar.view, []
    kinds = (("done", {"tiny": 1, "payload": bytes(8)}), ("failed", {"class": 1}), ("abort_request", {"class": 4}))
    descriptor = {"datatype": 1, "codec_datatype": 1, "count": 1}
    for name, values in kinds:
        values = {**values, **({"descriptor": descriptor} if name == "done" else {})}
        lies += [(name, {**values, "instance": here, "view": epoch}) for epoch in _epochs(view)]
        lies += [(name, {**values, "instance": instance, "view": view}) for instance in _instances(here)]
    lies += [("view_ack", {"view": epoch}) for epoch in _epochs(view)]
    lies += [("view_ack", {"view": view, "instances": [instance] * 2}) for instance in _instances(here)]
    lies += [("where", {"call": 1, "instance": instance, "round": FAR}) for instance in _instances(here)]
    numbers = (0, 1, 2, 3, FAR, MOST)
    for number in numbers:
        lies += [(name, {"kind": kind, "round": number}) for name in ("vote", "withdraw") for kind in range(4)]
        lies += [("sync_vote", {"round": number, "revision": 1}), ("sync_done", {"round": number})]
        lies += [("sync_proof", {"round": number}), ("measured", {"test": number}), ("describe", {"ticket": number})]
        lies += [("subgroup_end", {"subgroup": max(number, 1) % (1 << 63)}), ("training", {"step": number})]
        lies += [("listen", {"subgroup": number, "tag": number, "count": 4128})]
        lies += [("resume_round", {"kind": kind, "round": number, "outcome": 1}) for kind in range(4)]
    lies += [("resume", {"epoch": epoch, "view": epoch, "update": 9, "ring": [liar.id]}) for epoch in _epochs(view)]
    lies += [("resume_operation", {"instance": i, "view": view, "state": 2}) for i in _instances(here)]
    lies += [("resume_end", {"dead": [other]}) for other in liar.others]
    lies += [("want_link", {"peer": peer}) for peer in (liar.id, messages.identity())]
    lies += [("link_up", {"peer": peer, "rate": MOST}) for peer in (liar.id, messages.identity())]
    return lies


def _must_be_out(name, values):
    """Returns true if no program of ours sends this at any time, so that its sender is removed."""
    instance = values.get("instance", {})
    if name in ("done", "failed", "abort_request"):
        return instance["joint"] >= FAR or instance["sync"] > 0 or instance["pair"] > 0
    return name == "view_ack" or name.startswith("resume")


def _tell_lies(run, share):
    """A malicious member sends them one after another until it is removed; then the next one continues."""
    honest, draw, liar, told, out = Run(run, count=2), random.Random(1), None, 0, 0
    (first,) = honest.members()
    lies = [number for number in range(len(_lies(first))) if draw.random() < share]
    first.leave()
    for number in lies:
        if not liar or liar.out:
            if liar:
                out += 1
                liar.vanish()
            (liar,) = honest.members()
        name, values = _lies(liar)[number]
        liar.say(name, **values)
        told += 1
        liar.flush()
        check(liar.out or not _must_be_out(name, values), f"still a member after {name} with {values}")
        if draw.random() < 0.1 and not liar.out:  # so that the others do not wait for long
            liar.leave()
            liar = None
    if liar:
        liar.leave()
        liar.vanish()
    figure("lies told", told, "")
    figure("members put out for one", out, "")
    honest.go_on()


def test_views_and_rounds_that_are_not(run):
    """While others reduce, a member reports views, operations and rounds that have ended, are still to come or do not
    exist. The others continue with correct results. One lie in thirty."""
    _tell_lies(run, 0.03)


def test_slow_views_and_rounds_that_are_not(run):
    """All of them, nightly."""
    _tell_lies(run, 1)


# ---- ready ----


def _readies(instance, view):
    """Returns [values] of messages that a member is ready to receive, each with one error or none."""
    descriptor = {"datatype": 9, "operation": 0, "codec_datatype": 9, "count": BULK}
    good = {"instance": instance, "view": view, "descriptor": descriptor, "segment_elements": 4096, "granted": 1}
    lies = [{**good, "view": epoch} for epoch in _epochs(view)]
    lies += [{**good, "instance": other} for other in _instances(instance)]
    lies += [{**good, "descriptor": {**descriptor, "count": count}} for count in (0, 1, BULK - 1, BULK + 1, MOST)]
    lies += [{**good, "descriptor": {**descriptor, "collective": kind}} for kind in range(1, 18)]
    lies += [{**good, "descriptor": {**descriptor, "codec": 3}}, {**good, "descriptor": {**descriptor, "datatype": 8}}]
    lies += [{**good, "algorithm": value} for value in range(1, 12)] + [{**good, "algorithm": 255}]
    lies += [{**good, "segment_elements": value} for value in (1, 4095, (1 << 32) - 1)]
    lies += [{**good, "granted": value} for value in (0, FAR, MOST)]
    return [good, *lies]


def test_ready_lies(run):
    """A member sends `ready` for operations and views that do not exist, and in other forms: the operations end with a
    reason, and all remain members."""
    honest = Run(run, count=2, elements=BULK, loop=False)
    (liar,) = honest.members()
    for number in range(len(_readies(liar.instance(), liar.view))):
        if liar.out:
            liar.vanish()
            (liar,) = honest.members()
        tag = 1000 + number
        calls = [peer.start("reduce", tag, BULK, "f32", "sum", "const:1").begun() for peer in honest.peers]
        harness.poll(lambda liar=liar: liar.links or liar.out, "links to the liar")
        lie = messages.frame("ready", **_readies(liar.instance(tag=tag), liar.view)[number])
        for _, link in liar.links[:] * 2:
            if not link.closed:
                link.send(lie)
        instance, view = liar.instance(tag=tag), liar.view
        liar.say("abort_request", instance=instance, view=view, **{"class": 4})
        for call in calls:
            result = call.wait()
            check(result["rc"] != harness.SUCCESS and result["words"], f"{call!r} after lie {number}: {result}")
    for peer in honest.peers:
        equal(peer.do("attr")["group"], 3, "members")
    liar.leave()
    honest.go_on()


# ---- a member that joins repeatedly ----


def test_comes_again_and_again(run):
    """A member is removed for a lie, or vanishes during operations, and rejoins at once, many times. The others repeat
    failed operations, and make at least one step for each of its memberships."""
    honest, memberships = Run(run, count=2), 6
    before = honest.loops[0].steps[-1]["step"]
    for turn in range(memberships):
        (liar,) = honest.members()
        if turn % 2:
            liar.say("view_ack", view={**liar.view, "number": FAR})
            liar.flush()
        liar.vanish()
    made = honest.loops[0].steps[-1]["step"] - before
    check(made >= memberships - 1, f"{made} steps while a member came {memberships} times")
    figure("steps for each of its memberships", made / memberships, "")
    honest.go_on()


# ---- at random, with a token ----


def _changed(draw, said):
    """Returns a recorded stream of bytes, cut, and changed in some places."""
    said = bytearray(said[: draw.randrange(1, len(said) + 1)])
    for _ in range(draw.randrange(4)):
        said[draw.randrange(len(said))] = draw.choice((0, 1, 255, draw.randrange(256)))
    return bytes(said)


def _recorded(run, honest):
    """Returns the bytes that a newcomer sends to the master."""
    recorder = Recorder(run.port)
    peer = run.peer()
    peer.create(f"127.0.0.1:{recorder.port}")
    run.admit(peer, honest.peers)
    peer.quit()
    return recorder.said()


def test_slow_mutants(run):
    """A member with a token whose messages are changed at random, and strangers with changed bytes: honest members
    continue. Nightly: a minute, or half an hour for programs with sanitizers."""
    seconds = float(os.environ["ATTACK_SECONDS"])
    run.secure()
    run.environment.update(PCCL_OP_TIMEOUT_MS="5000", PCCL_CALL_TIMEOUT_MS="5000")
    honest = Run(run, count=3, loop=False, warm_up_ms=1000)
    draw, mutant, born, rounds, joined = random.Random(seconds), None, 0, 0, 0
    streams = [wire.tls_greeting(), _recorded(run, honest)]
    ports = [run.port, *(port for peer in honest.peers for port in peer.listening_ports())]
    ends_us = harness.now_us() + seconds * 1e6

    def all_of(verb, *words, only=()):
        calls = [peer.start(verb, *words) for peer in [*honest.peers, *only] if peer.alive()]
        for call in calls:
            if call.peer in honest.peers:
                call.wait()
                check(call.result["rc"] != harness.EXPELLED, f"{call!r}: {call.result}")
            else:
                harness.poll(lambda call=call: call.result or not call.peer.alive(), f"the end of {call!r}")

    while harness.now_us() < ends_us:
        rounds += 1
        if mutant and (not mutant.alive() or mutant.has_failed() or (mutant.is_in() and draw.random() < 0.1)):
            mutant.kill()
            mutant = None
        if not mutant:
            born += 1
            mutant = Mutant(run, born)
        all_of("update", only=[mutant] if mutant.is_in() else [])
        if honest.peers[0].do("attr")["group"] > len(honest.peers):
            harness.poll(lambda mutant=mutant: mutant.joins.result or not mutant.alive(), "the mutant to be in")
        ready = [mutant] if mutant.is_in() and mutant.alive() else []
        joined += bool(ready)
        size = draw.choice((SMALL, BULK))
        all_of("reduce", rounds, size, "f32", "sum", "const:1", only=ready)
        for port in ports:
            stranger = dial(port)
            pour(stranger, _changed(draw, draw.choice(streams)))
            stranger.close()
    mutant.kill()
    figure("rounds", rounds, "")
    figure("mutants", born, "")
    figure("rounds with a mutant as a member", joined, "")
    check(joined > 0, "no mutant was ever a member")
    honest.go_on()


harness.main()
