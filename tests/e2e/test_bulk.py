"""Reductions from peer to peer, of more than 8 KiB, without faults. Numbers in brackets: scenarios
of TESTING.md. Marks (marks.h) tell who contributed to a result, and whether each element is right.
"""

import itertools
import random

import harness
import reference
from harness import INVALID_ARGUMENT, INVALID_USAGE, PENDING_OPS, SUCCESS, TIMEOUT
from harness import check, equal, say, within
from loops import all_right, more_steps, start_loops
from phases import wait_at_rest

MIB = 1 << 20
SMALLEST = 8193  # bytes: one more than what goes through the master
MINMAX, ZERO_POINT = "quant=1:u8", "quant=2:u8"


def elements(dtype, size):
    return -(-size // reference.size(dtype))


def right(calls, peers=None):
    """All have succeeded, with the same bits, over all peers, with every element right."""
    results = [call.wait(rc=SUCCESS) for call in calls]
    everybody = (1 << len(calls)) - 1
    for call, result in zip(calls, results):
        check(result["right"], f"{call!r}: element {result.get('wrong')} is wrong (mask {result['mask']:#x})")
        equal(result["mask"], everybody, f"who is in the result of {call!r}")
        equal(result["peers"], len(calls), f"peers of {call!r}")
        check(result["intact"], f"{call!r} has changed its input")
    equal(len({result["digest"] for result in results}), 1, f"different bits: {calls}")
    return results


def reduce(peers, tag, count, dtype, op, *options, pattern="mark"):
    options = options if op == "sum" else (*options, f"expect={(1 << len(peers)) - 1}")
    return [
        peer.start("reduce", tag, count, dtype, op, f"{pattern}:{bit}", *options) for bit, peer in enumerate(peers)
    ]


def join(run, count, **parameters):
    run.start_master(**parameters)
    return run.join(count) if count > 1 else [run.join()]


def test_marks_find_faults(run):
    """The other tests rely on this: a wrong result is detected."""
    peers = join(run, 2)

    def marked(*patterns):
        calls = [
            peer.start("reduce", 1, 50000, "f32", "sum", pattern, "expect=3") for peer, pattern in zip(peers, patterns)
        ]
        return [call.wait(rc=SUCCESS) for call in calls][0]["right"]

    check(marked("mark:0", "mark:1"), "a right result")
    check(not marked("mark:0", "mark:2"), "somebody else is in it")
    check(not marked("mark:0", "mark:0"), "somebody is in it twice")
    check(not marked("mark:0", "pair:1"), "other numbers are in it")
    check(not marked("mark:0", "ramp:0:0"), "nothing of the other is in it")


def test_every_type_and_operation(run):
    """[1-12] All data types and operations, in place and not, aligned and not, over 2, 3 and 4
    peers."""
    peers = join(run, 2)
    for world in (2, 3, 4):
        if world > 2:
            peers.append(run.join(1, peers))
        for tag, dtype, op, options in reference.every_case():
            right(reduce(peers, tag, elements(dtype, 50000), dtype, op, *options))


def test_sizes(run):
    """[1, 2, 9] From the smallest to 64 MiB, uneven splits, in place and not, over 2 and 3
    peers."""
    peers = join(run, 2)
    for world in (2, 3):
        if world > 2:
            peers.append(run.join(1, peers))
        sizes = [SMALLEST, SMALLEST + 4, 12 * 1025, 65536, 65536 * world + 4, 4 * 203530, MIB - 4, MIB, MIB + 4]
        for tag, size in enumerate(sizes + [7 * MIB + 12, 64 * MIB]):
            result = right(reduce(peers, tag, elements("f32", size), "f32", "sum", *(["inplace"] if tag % 2 else [])))
            equal(result[0]["tx"] > 0, True, "bytes sent")
        right(reduce(peers, 99, SMALLEST, "u8", "sum", "inplace"))


def test_worlds(run):
    """2 to 8 peers."""
    peers = join(run, 2)
    for world in range(2, 9):
        if world > 2:
            peers.append(run.join(1, peers))
        for tag, size in enumerate((SMALLEST, 100001, 3 * MIB + 4)):
            right(reduce(peers, tag, elements("f32", size), "f32", "sum", *(["inplace"] if tag % 2 else [])))
            right(reduce(peers, tag, elements("u8", size), "u8", "max"))


def test_bytes_counted(run):
    """The bytes sent and received are those that a ring or a direct exchange needs, not more."""
    peers = join(run, 4)
    size = 4 * MIB
    for result in right(reduce(peers, 1, size // 4, "f32", "sum")):
        for way in ("tx", "rx"):
            within(result[way], int(size * 1.49), int(size * 1.51), f"bytes {way} of {size} over 4")


def test_halves_are_rounded_once(run):
    """Sums of 16 bits through the master, from all to all, and along the ring: right where any
    intermediate sum would overflow or be rounded if it were kept in 16 bits, and the same bits for
    every size."""
    peers = join(run, 4)
    cases = (
        ("f16", "avg", (40000, 40000, 40000, 40000), 40000),
        ("f16", "sum", (2048, 1, 1, 1.5), 2052),
        ("f16", "prod", (4096, 4096, 2**-12, 2**-10), 4),
        ("bf16", "avg", (256, 1, 1, 1), 65),  # 64.75
        ("bf16", "sum", (256, 1, 1, 1), 260),
    )
    ring = 33000000  # more than is sent directly
    for count, (dtype, op, values, expected) in (*itertools.product((16, 20000, 1000000), cases), (ring, cases[3])):
        calls = [peer.start("reduce", 1, count, dtype, op, f"const:{v}") for peer, v in zip(peers, values)]
        found = {call.wait(rc=SUCCESS)["digest"] for call in calls}
        calls = [peer.start("reduce", 2, count, dtype, "max", f"const:{expected}") for peer in peers]
        equal(found, {call.wait(rc=SUCCESS)["digest"] for call in calls}, f"{op} of {count} {dtype}, {values}")


def test_quantized_sum(run):
    """[13] 42 and 43 are exactly 85, by both algorithms and as float and double."""
    peers = join(run, 2)
    for size in (1024, 4096, 100000):
        for dtype in ("f32", "f64"):
            for quant in (MINMAX, ZERO_POINT):
                calls = [
                    peer.start("reduce", 5, size, dtype, "sum", f"const:{value}", quant)
                    for peer, value in zip(peers, (42, 43))
                ]
                digests = {call.wait(rc=SUCCESS)["digest"] for call in calls}
                calls = [peer.start("reduce", 6, size, dtype, "sum", f"const:{v}") for peer, v in zip(peers, (42, 43))]
                equal(digests, {call.wait(rc=SUCCESS)["digest"] for call in calls}, f"{size} {dtype} {quant}: not 85")


def test_quantized_bits(run):
    """Quantized results are equal to the bit on all peers, for every type and operation; what
    docs/CODECS.md excludes is refused with a reason."""
    peers = join(run, 3)
    quants = ("quant=1:u8", "quant=1:u16", "quant=1:u32", "quant=2:u8", "quant=2:i8", "quant=2:i16")
    for tag, (dtype, quant, op) in enumerate(
        itertools.product(("f32", "f64", "bf16", "f16"), quants, ("sum", "avg", "max", "prod", "min")), 1
    ):
        calls = [
            peer.start("reduce", tag, 70001, dtype, op, f"rand:{seed}", quant) for seed, peer in enumerate(peers, 1)
        ]
        if quant.startswith("quant=1") or op in ("sum", "avg"):
            digests = {call.wait(rc=SUCCESS)["digest"] for call in calls}
            equal(len(digests), 1, f"different bits: {dtype} {op} {quant}")
        else:
            check(all(call.wait(rc=INVALID_ARGUMENT)["words"] for call in calls), "words of a refusal")
    right(reduce(peers, 1, 70001, "f32", "sum", MINMAX, pattern="pair"))
    right(reduce(peers, 1, 70001, "f64", "sum", ZERO_POINT, pattern="pair"))


def unpack_sum(calls, count):
    results = [call.wait(rc=SUCCESS) for call in calls]
    equal(len({result["digest"] for result in results}), 1, "different bits")
    return reference.unpack("f32", bytes.fromhex(results[0]["result"]))[:count]


def test_quantized_error(run):
    """The error is at most the number of peers times a step of the scale; also of negative and of
    constant data."""
    peers = join(run, 3)
    count = 5000
    for first, step in ((-7.0, 0.001), (-1000.0, -0.5), (3.25, 0.0)):
        for quant in (MINMAX, ZERO_POINT):
            pattern = f"ramp:{first}:{step}"
            calls = [peer.start("reduce", 1, count, "f32", "sum", pattern, quant, "dump") for peer in peers]
            got = unpack_sum(calls, count)
            span = 3 * abs(step) * count
            most = max(abs(value - 3 * (first + i * step)) for i, value in enumerate(got))
            limit = 3 * span / 255 + 1e-4 * abs(first)
            check(most <= limit, f"{pattern} {quant}: error {most}, limit {limit}")


def test_several_in_flight(run):
    """[16] Sizes and types mixed, launched and awaited in any order."""
    peers = join(run, 4)
    choose = random.Random(4)
    shapes = [
        (tag, choose.choice((100, SMALLEST, 50000, 300001, MIB)), choose.choice(reference.TYPES)) for tag in range(24)
    ]
    everybody = []
    for bit, peer in enumerate(peers):
        order = list(shapes)
        choose.shuffle(order)
        for tag, size, dtype in order:
            place = ["inplace"] if choose.random() < 0.5 else []
            everybody.append(
                peer.start("launch", tag, elements(dtype, size), dtype, "sum", f"mark:{bit}", *place)
            )
    for call in everybody:
        call.wait(rc=SUCCESS)
    awaits = {tag: [] for tag, _, _ in shapes}
    for peer in peers:
        order = list(awaits)
        choose.shuffle(order)
        for tag in order:
            awaits[tag].append((peers.index(peer), peer.start("await", tag)))
    for calls in awaits.values():
        right([call for _, call in sorted(calls, key=lambda pair: pair[0])])


def test_any_order(run):
    """200 at once, launched in opposite orders: more than anything, and none waits for another."""
    peers = join(run, 3)
    orders = [list(range(200)), list(range(199, -1, -1)), list(range(100, 200)) + list(range(100))]
    launches = [
        peer.start("launch", tag, 2500, "i64", "sum", f"mark:{bit}")
        for bit, (peer, order) in enumerate(zip(peers, orders))
        for tag in order
    ]
    for launch in launches:
        launch.wait(rc=SUCCESS)
    awaits = {tag: [peer.start("await", tag) for peer in peers] for tag in random.Random(1).sample(range(200), 200)}
    for calls in awaits.values():
        right(calls)


def test_lists(run):
    """Lists with retry, the numbers in flight differ."""
    peers = join(run, 3)
    calls = [
        peer.start("multi", 20, 1 + 3 * bit, 100, 30000, "f32", "sum", f"mark:{bit}", *(["inplace"] if bit else []))
        for bit, peer in enumerate(peers)
    ]
    results = [call.wait(rc=SUCCESS) for call in calls]
    for result in results:
        check(result["right"] and result["all"] == result["any"] == 7, f"{result}")
    equal(len({result["digest"] for result in results}), 1, "different bits")


def test_test_and_limits(run):
    """Asking whether it is done, and awaiting it for a while, end nothing."""
    a, b = join(run, 2)
    a.do("launch", 1, 100000, "f32", "sum", "mark:0", "inplace")
    check(not a.do("test", 1)["done"], "done without the other")
    a.do("await", 1, "for=0", rc=TIMEOUT)
    a.do("await", 1, "for=30", rc=TIMEOUT)
    b.do("launch", 1, 100000, "f32", "sum", "mark:1")
    harness.poll(lambda: all(peer.do("test", 1)["done"] for peer in (a, b)), "both to be done")
    right([a.start("await", 1, "for=10000"), b.start("await", 1)])
    a.do("test", 1, rc=INVALID_ARGUMENT)


def test_launched_operations(run):
    """[14, 17] The calls allowed while operations are in progress, and the meaning of a tag in use.
    """
    a, b = join(run, 2)
    a.do("launch", 123, 100000, "f32", "sum", "mark:0")
    a.do("update", rc=PENDING_OPS)
    a.do("launch", 123, 100000, "f32", "sum", "mark:0", rc=INVALID_ARGUMENT)
    b.do("launch", 123, 100000, "f32", "sum", "mark:1")
    right([a.start("await", 123), b.start("await", 123)])
    a.do("await", 123, rc=INVALID_ARGUMENT)


def test_groups(run):
    """Groups reduce at the same time, each its own."""
    run.start_master()
    members = []
    for i in range(6):
        peer = run.peer()
        peer.create(run.address, group=i % 2)
        run.admit(peer, members)
        members.append(peer)
    for tag in range(5):
        even = reduce(members[0::2], tag, 200000, "f32", "sum")
        odd = reduce(members[1::2], tag, 100000, "i64", "sum")
        right(even)
        right(odd)


def test_join_while_reducing(run):
    """Newcomers come while bulk operations run: every step is right, and soon they are in."""
    run.start_master()
    peers = run.join(2)
    loops = start_loops(peers, count=40000)
    for number in range(4):
        newcomer = run.peer()
        newcomer.create(run.address)
        newcomer.start("connect").wait(rc=SUCCESS)
        loops.append(newcomer.start("loop", 2 + number, 4, 40000, 2))
        harness.wait_until(lambda: loops[-1].steps, "the newcomer's first step")
        more_steps(loops, 5, world=len(loops))
    all_right(loops)


def test_waiting_costs_nothing(run):
    """Waiting for another peer to launch does not spin."""
    *others, late = join(run, 3)
    calls = [
        peer.start("reduce", 1, 4 * MIB, "f32", "sum", f"mark:{bit}", "launched").begun()
        for bit, peer in enumerate(others)
    ]
    wait_at_rest(others, 1000)
    right(calls + [late.start("reduce", 1, 4 * MIB, "f32", "sum", "mark:2")])


def test_mismatch(run):
    """[10 of those that failed] Peers that differ in count, type, operation or quantization, bulk
    against bulk and bulk against tiny: InvalidUsage on every peer, inputs intact, words that name
    two peers and what differs; then it goes on."""
    run.start_master()
    peers = []
    for i in range(3):
        peer = run.peer(f"member{i}")
        peer.create(run.address, name=peer.name)
        run.admit(peer, peers)
        peers.append(peer)
    ids = {peer: run.id_of(peer) for peer in peers}
    usual = (100000, "f32", "sum")
    cases = {
        "count": ((100001, "f32", "sum"), ("100000", "100001")),
        "less": ((50000, "f32", "sum"), ("100000", "50000")),
        "type": ((100000, "i32", "sum"), ("f32", "i32")),
        "width": ((50000, "f64", "sum"), ("f32", "f64")),
        "operation": ((100000, "f32", "max"), ("sum", "max")),
        "algorithm": ((100000, "f32", "sum", MINMAX), ("minmax", "none")),
        "tiny": ((8, "f32", "sum"), ("100000", "8")),
        "tiny type": ((8, "u8", "sum"), ("f32", "u8")),
    }
    tag = 0
    for what, (other, parts) in cases.items():
        for odd in range(3):
            tag += 1
            calls = []
            for i, peer in enumerate(peers):
                count, dtype, op, *options = other if i == odd else usual
                calls.append(peer.start("reduce", tag, count, dtype, op, "const:3", "inplace", *options))
            for call in calls:
                result = call.wait(rc=INVALID_USAGE)
                check(result["intact"], f"input changed by a mismatch of {what}")
                for part in parts:
                    check(part in result["words"], f"'{part}' of {what} in the words: {result['words']}")
                named = [peer for peer in peers if ids[peer] in result["words"]]
                equal(len(named), 2, f"peers named by a mismatch of {what}: {result['words']}")
                check(all(result["words"].count(ids[peer]) == 1 for peer in named), f"once each: {result['words']}")
                check(peers[odd] in named, f"who is different ({ids[peers[odd]]}): {result['words']}")
            right(reduce(peers, tag, *usual))


def test_abort(run):
    """Giving operations up: all peers agree, inputs are intact; an update is a new beginning."""
    peers = join(run, 3)
    calls = []
    for bit, peer in enumerate(peers[:2]):
        for tag in range(4):
            peer.do("launch", tag, 200000, "f32", "sum", f"mark:{bit}", "inplace")
            calls.append(peer.start("await", tag).begun())
    peers[0].do("abort")
    for call in calls:
        result = call.wait(rc=harness.LOST)
        check(result["intact"] and result["words"], f"{result}")
    for call in [peer.start("update") for peer in peers]:
        call.wait(rc=SUCCESS)
    right(reduce(peers, 1, 200000, "f32", "sum"))


def test_slow_over_4_gib(run):
    """More than 4 GiB, of which hardly anything is not zero; takes 9 GiB of memory."""
    peers = join(run, 2)
    count = (4 << 30) + 12345
    calls = [peer.start("reduce", 1, count, "u8", "sum", f"sparse:{bit}") for bit, peer in enumerate(peers)]
    results = [call.wait(rc=SUCCESS) for call in calls]
    for result in results:
        check(result["right"] and result["intact"] and result["mask"] == 3, f"{result}")
    equal(len({result["digest"] for result in results}), 1, "different bits")
    say(f"{count} bytes over 2 peers in {results[0]['us'] / 1e6:.1f} s")


harness.main()
