"""pcclOptimizeTopology and pcclGetTopology among peers of one machine, without lost peers."""

import os
import tempfile

import harness
from harness import INVALID_ARGUMENT, INVALID_USAGE, PENDING_OPS, SUCCESS, TIMEOUT
from harness import check, equal, say
from phases import PATIENT
from topologies import Picture, join, nobody_went, optimize, picture, random_sums, reduce, start, updated

BULK = 200000
TIME = {"optimize_ms": 6000}  # the machines of tests are busy: enough time to test all paths in one call


def reductions(peers, tag=100):
    """Small and large reductions, correct and equal everywhere."""
    reduce(peers, tag)
    random_sums(peers, tag + 1)
    random_sums(peers, tag + 2, BULK)


def all_ways(peers):
    return {(a.name, b.name) for a in peers for b in peers if a is not b}


def of_members(run, count):
    peers = start(run, count, **TIME)
    reductions(peers)
    took_ms = optimize(peers)
    for peer in peers:
        attributes = peer.do("attr")
        equal((attributes["world"], attributes["group"]), (count, count), "world")
    seen = [picture(peer) for peer in peers]
    for one in seen:
        equal(sorted(one.names), sorted(peer.name for peer in peers), "names")
        equal(set(one.ways), all_ways(peers), "ways")
        equal({way["source"] for way in one.ways.values()}, {"tested"}, "sources")
        equal((one.ring(), one.group), (seen[0].ring(), 0), "rings")
    # No figure is stale, so no path is tested again: all figures are older by this time. (The call between includes
    # measurements of earlier reductions, which may cast doubt on a figure.)
    optimize(peers)
    seen.append(picture(peers[0]))
    again_ms = optimize(peers)
    after = picture(peers[0])
    for way, was in seen[-1].ways.items():
        check(after.ways[way]["age"] >= was["age"], f"{way} was tested again")
        equal(after.ways[way]["rate"], was["rate"], f"rate of {way}")
    reductions(peers, 200)
    updated(peers)
    reductions(peers, 300)
    optimize(peers)
    reductions(peers, 400)
    nobody_went(run)
    for a, b in after.ring_ways():
        first, second = [f"peer {after.ids[after.names.index(name)][:8]} '{name}'" for name in (a, b)]
        run.master.wait_line(f"ring: {first} to {second}: ")
    say(f"{took_ms:.0f} ms, and {again_ms:.1f} ms when all was known")


def test_two(run):
    of_members(run, 2)


def test_three(run):
    of_members(run, 3)


def test_four(run):
    of_members(run, 4)


def test_stale(run):
    """Estimates older than fresh_ms are measured again, once in a call."""
    peers = start(run, 3, fresh_ms=1, **TIME)
    optimize(peers)
    before = picture(peers[0])
    harness.wait_ms(300)
    optimize(peers)
    after = picture(peers[0])
    equal(set(after.ways), all_ways(peers), "ways")
    changed = [way for way in before.ways if after.ways[way]["rate"] != before.ways[way]["rate"]]
    equal(set(changed), all_ways(peers), "ways that were tested again")
    reductions(peers)


def test_usage(run):
    """A peer that may not optimize gets the reason, without effect on the others."""
    alone = start(run, 1)[0]
    check("alone" in alone.do("optimize", rc=INVALID_USAGE)["words"], "words of a peer that is alone")
    single = picture(alone)
    equal((single.names, single.ring(), single.ways), ([alone.name], [alone.name], {}), "what is known of one peer")
    outside = run.peer()
    outside.create(run.address)
    for verb in ("optimize", "topology"):
        check("not connected" in outside.do(verb, rc=INVALID_USAGE)["words"], f"words of {verb} unconnected")
    other = join(run, 1, [alone])[0]
    peers = [alone, other]
    alone.do("launch", 5, 100, "i32", "sum", "ramp:1:1")
    check("not yet awaited" in alone.do("optimize", rc=PENDING_OPS)["words"], "words with an operation launched")
    other.do("reduce", 5, 100, "i32", "sum", "ramp:1:1")
    alone.do("await", 5)
    vote = alone.start("optimize")
    alone.until_waiting()
    check("outstanding" in alone.do("optimize", rc=INVALID_USAGE)["words"], "words of a second call")
    for words in (("update",), ("launch", 6, 100, "i32", "sum", "ramp:1:1")):
        alone.do(*words, rc=INVALID_USAGE)
    other.do("optimize")
    vote.wait(rc=SUCCESS)
    update = alone.start("update")
    alone.until_waiting()
    check(alone.do("optimize", rc=INVALID_USAGE)["words"], "words during an update")
    other.do("update")
    update.wait(rc=SUCCESS)
    reductions(peers)


def test_admits_nobody(run):
    """A newcomer waits through an optimization, and is admitted by the next update."""
    peers = start(run, 2, **TIME)
    newcomer = run.peer()
    newcomer.create(run.address, name=newcomer.name)
    connect = newcomer.start("connect")
    run.master.wait_line(f"'{newcomer.name}")
    optimize(peers)
    equal(peers[0].do("attr")["world"], 2, "world after the optimization")
    equal(len(picture(peers[0]).names), 2, "peers in the picture")
    run.let_in(connect, peers)
    everybody = peers + [newcomer]
    equal(len(picture(newcomer).names), 3, "peers in the picture")
    optimize(everybody)
    equal(set(picture(newcomer).ways), all_ways(everybody), "ways")
    reductions(everybody)


def test_describe(run):
    """It returns the size, refuses a short buffer and leaves it empty, and works while other calls wait."""
    peers = start(run, 2, **TIME)
    optimize(peers)
    size = peers[0].do("topology", 0)
    check(size["needed"] > 100 and size["text"] == "", f"{size}")
    short = peers[0].do("topology", 20, rc=INVALID_ARGUMENT)
    check(short["needed"] > 100 and short["text"] == "" and "20" in short["words"], f"{short}")
    exact = peers[0].do("topology", size["needed"] + 100)
    equal(len(exact["text"]) + 1, exact["needed"], "length of the text")
    for verb in ("update", "optimize"):
        vote = peers[0].start(verb)
        peers[0].until_waiting()
        equal(len(picture(peers[0]).ways), 2, f"ways, asked for during {verb}")
        peers[1].do(verb)
        vote.wait(rc=SUCCESS)
    peers[0].do("launch", 5, 100, "i32", "sum", "ramp:1:1")
    equal(len(picture(peers[0]).ways), 2, "ways, asked for while an operation is launched")
    peers[1].do("reduce", 5, 100, "i32", "sum", "ramp:1:1")
    peers[0].do("await", 5)


def test_describe_master_stands_still(run):
    """A request to a stopped master waits until the deadline, or is cancelled by a destroy."""
    run.start_master(**PATIENT)
    peers = [run.peer(call_timeout_ms=5000), run.peer()]
    for number, peer in enumerate(peers):
        peer.create(run.address, name=peer.name)
        run.admit(peer, peers[:number])
    run.master.stop()
    check("deadline" in peers[0].do("topology", 0, rc=TIMEOUT)["words"], "words of a deadline")
    peers[0].do("topology", 0, rc=TIMEOUT)  # the first request is still pending
    asking = [peers[1].start("topology", 0, "mute") for _ in range(2)]
    second = harness.wait_until(lambda: next((call for call in asking if call.result), None), "a refusal")
    second.wait(rc=INVALID_USAGE)
    refused = peers[1].do("topology", 0, rc=INVALID_USAGE)["words"]
    check("outstanding" in refused, f"words of a third question: {refused}")
    peers[1].do("destroy")
    for call in asking:
        call.wait(rc=INVALID_USAGE)
    run.master.resume()
    equal(picture(peers[0]).names[0], peers[0].name, "name")


def test_file(run):
    """The master writes its data after each optimization, a file for each group; or logs why it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "links")
        peers = start(run, 2, topology_file=path, **TIME)
        others = join(run, 1, peers, group=7)
        others += join(run, 1, peers + others, group=7)
        check(not os.listdir(folder), "a file before the first optimization")
        optimize(peers + others)
        for members, name in ((peers, path), (others, path + ".7")):
            with open(name, encoding="ascii") as file:
                written = Picture(file.read())
            told = picture(members[0])
            equal((written.ring(), written.group), (told.ring(), told.group), f"ring in {name}")
            equal(set(written.ways), all_ways(members), f"ways in {name}")
        equal(sorted(os.listdir(folder)), ["links", "links.7"], "files")
        os.remove(path)
        os.mkdir(path)  # it cannot be written
        optimize(peers + others)
        run.master.wait_line(f"cannot write {path}: ")
        equal(sorted(os.listdir(folder)), ["links", "links.7"], "files")
        reduce(peers, 1)


def test_groups(run):
    """Two groups are optimized concurrently and independently, and one with a single member."""
    run.environment["PCCL_WHERE_MS"] = "20"
    run.start_master(**TIME)
    groups, everybody = {}, []
    for group, count in ((0, 3), (3, 2), (5, 1)):
        groups[group] = []
        for _ in range(count):
            groups[group] += join(run, 1, everybody, group)
            everybody.append(groups[group][-1])
    optimize(everybody)
    for group, members in groups.items():
        for member in members:
            seen = picture(member)
            equal((seen.group, sorted(seen.names)), (group, sorted(peer.name for peer in members)), "the group")
            equal(set(seen.ways), all_ways(members), "ways")
    for group, members in groups.items():
        if len(members) > 1:
            reductions(members)
    updated(everybody, 6)


def test_slow_twenty(run):
    """More peers than a full mesh allows: neighbors change, and paths beyond the time limit are tested later."""
    count = 20
    peers = start(run, count, optimize_ms=1000)
    reductions(peers)
    known = 0
    for turn in range(3):
        took_ms = optimize(peers)
        seen = picture(peers[turn])
        check(len(seen.ways) >= known, "ways are forgotten")
        known = len(seen.ways)
        say(f"{took_ms:.0f} ms, {known} of {count * (count - 1)} ways known")
        equal(sorted(seen.names), sorted(peer.name for peer in peers), "names")
        reductions(peers, 200)
    check(known >= count, f"only {known} ways are known")
    updated(peers)
    reductions(peers, 300)
    nobody_went(run)


harness.main()
