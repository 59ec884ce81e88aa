"""Attacks by strangers and malicious members: only the attackers are removed, the operations of honest members continue
with correct results, honest newcomers join, and no process grows by much. The tests judge outcomes and memory; times
are only figures."""

import os
import pathlib
import random
import re
import resource
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

# pylint: disable=wrong-import-position
import harness
import messages
import wire
from harness import SLOW, check, equal, figure, within
from honest import AddedShare, Run
from loops import BULK, SMALL, all_right, more_steps, start_loop
from namespaces import SKIPPED
from proxy import Proxy, behind_proxy
from roles import (
    AWAY, KNOCK, Crowd, Greeters, HalfHellos, Outsider, Passer, Recorder, Repeated, Reporter, Shaker, Tamperer, dial,
    pour, say_hello
)
from tokens import let_in, peer_with, refused, token

WINDOW = 8192  # operations of one peer, half of which it may hold
HELD = WINDOW // 2
NOBODY = 65534  # the id of a user
AHEAD = {"inc": 1 << 19, "number": 1}  # an epoch that is barely valid


# ---- another process of the same host ----


def _where(run, honest):
    """Returns the names of the local sockets of these peers."""
    names = {name for peer in honest.peers for name in peer.local_sockets()}
    return [name if name.startswith("@") else os.path.join(run.local, os.path.basename(name)) for name in names]


def test_descriptors_of_another_user(run):
    """A process of another user connects to no peer."""
    if os.geteuid() != 0:
        harness.say("skipped: only root can act as another user")
        sys.exit(SKIPPED)
    honest = Run(run)
    with Passer(NOBODY, honest.peers, _where(run, honest)) as passer:
        honest.go_on()
        equal((passer.connected, passer.passed), (0, 0), "how far it got")


def test_descriptors_of_the_same_user(run):
    """A process of the same user connects to all peers; no peer waits for the descriptors that it passes."""
    honest = Run(run)
    with Passer(os.geteuid(), honest.peers, _where(run, honest)) as passer:
        honest.go_on()
        equal(passer.connected, 3, "connections")
        check(passer.passed >= 3, f"{passer.passed} messages with descriptors, want some at each")


def test_descriptors_of_a_member(run):
    """A member passes such descriptors, instead of memory with the hello, and instead of data."""
    honest = Run(run, loop=False)
    (liar,) = honest.members()
    (peer, name), *_ = [(i, name) for i in liar.asked for name in _where(run, honest) if name.endswith(i.hex())]
    with Passer(os.geteuid(), honest.peers, [name], liar.link_hello(peer).hex()) as passer:
        honest.launch()
        liar.leave()
        honest.go_on()
        equal((passer.connected, passer.passed > 1), (1, True), "connections, and messages with descriptors")


# ---- a malicious member ----


def _invented_operations(run, count):
    """Malicious members acknowledge a view with the most operations that one message can name, which no member
    has launched."""
    honest = Run(run, loop=False)
    (leaver,) = honest.members()
    liars = honest.members(count)
    for i, liar in enumerate(liars):
        first = (1 << 20) + i * HELD
        liar.ended = [liar.instance(tag) for tag in range(first, first + HELD)]
        liar.votes_on = False  # otherwise they continue among themselves after the removal of the others
    views = [liar.view for liar in liars]
    leaver.leave()
    for liar, view in zip(liars, views):
        harness.poll(lambda liar=liar, view=view: liar.view != view or liar.out, "the view without the leaver")
        liar.flush()
        equal(liar.out, None, "reason why the liar is out")
    for liar in liars:
        liar.ended = []
        liar.leave()
    honest.go_on()


def test_invented_operations(run):
    """The others need not keep the operations of one malicious member."""
    _invented_operations(run, 1)


def test_invented_operations_by_four(run):
    """The same with four of them."""
    _invented_operations(run, 4)


def _flood_of_dones(run, count, size):
    honest = Run(run, count=2, loop=False)
    (liar,) = honest.members()
    descriptor = {"datatype": 1, "operation": 0, "codec": 0, "codec_datatype": 1, "count": size}
    values = {"instance": liar.instance(), "view": liar.view, "descriptor": descriptor, "tiny": 1}
    liar.say_each("done", range(1 << 20, (1 << 20) + count), **values, payload=bytes(size))
    liar.flush()
    honest.launch()
    liar.leave()
    honest.go_on()


def test_flood_of_dones(run):
    """A member completes many operations that no other launches: there is still room for the others' operations."""
    _flood_of_dones(run, 3 * WINDOW, 1)


def test_flood_of_large_dones(run):
    """The same with the largest payloads: the master does not keep all of them."""
    _flood_of_dones(run, 9500, 8192)


def _invented_sends(run, count):
    """Malicious members end sends to another member that it has not launched, but may launch later."""
    honest = Run(run, loop=False)
    for liar in honest.members(count):
        instance = liar.instance(pair=liar.pair(liar.id, liar.others[0]))
        liar.say_each("abort_request", range(1 << 20, (1 << 20) + WINDOW), instance=instance, **{"class": 4})
        harness.poll(lambda liar=liar: liar.out, "the liar to be out")
        # It may not have read the reason within the second for which the master keeps its connection.
        run.master.wait_line(f"peer {liar.id.hex()[:8]} 'stranger' departs: it aborted ")
    honest.go_on()


def test_invented_sends(run):
    """A member gives up thousands of sends to another one, which need not keep all of them."""
    _invented_sends(run, 1)


def test_invented_sends_by_four(run):
    """Four of them, to the same member."""
    _invented_sends(run, 4)


def test_aborts_and_the_log(run):
    """Thousands of aborts by a member make a few lines in the master's log, with a count."""
    honest = Run(run, count=2, loop=False, log_level="INFO")
    before = len(run.master.lines)
    (liar,) = honest.members()
    descriptor = {"datatype": 1, "operation": 0, "codec": 0, "codec_datatype": 1, "count": 1}
    values = {"view": liar.view, "descriptor": descriptor, "tiny": 1, "payload": b"1"}
    for tag in range(3000):
        instance = liar.instance(tag=1 << 30 | tag)
        liar.say("done", instance=instance, **values)
        liar.say("abort_request", instance=instance, view=liar.view, **{"class": 4})
    liar.flush()
    equal(liar.out, None, "reason why the liar is out")
    liar.leave()
    honest.go_on()
    check(any("aborted" in text for _, text in run.master.lines), "no abort is logged")
    within(len(run.master.lines) - before, 0, 400, "lines after 3000 aborts")


def test_sends_of_others(run):
    """Each claims to be one of two other members that send, or to send in a pair in which it receives. It is removed,
    and the two send successfully."""
    honest = Run(run, loop=False)
    liars = honest.members(4)
    send = honest.peers[0].start("send", 1, 1, SMALL, 7).begun()
    receive = honest.peers[0].start("recv", 1, 1, SMALL).begun()
    first, second = (bytes.fromhex(peer) for peer in honest.peers[0].do("members")["members"][:2])
    lies = [(first, second, first), (second, first, second)]  # source, destination, and the claimed sender
    lies += [(liars[2].id, first, first), (first, liars[3].id, liars[3].id)]
    for liar, (source, destination, root) in zip(liars, lies):
        instance = liar.instance(tag=1, pair=liar.pair(source, destination))
        liar.say("done", instance=instance, descriptor={"collective": 11, "count": SMALL, "root": root})
        out = harness.poll(lambda liar=liar: liar.out, "the liar to be out")
        check("operation" in out, f"the liar is out for this: {out}")
    answers = [honest.peers[1].start("recv", 0, 1, SMALL), honest.peers[1].start("send", 0, 1, SMALL, 8)]
    for call in [send, receive, *answers]:
        check(call.wait(rc=harness.SUCCESS)["right"], f"{call!r} has something else")
    honest.go_on()


def _seen(peer, ms, size=8 << 20):
    """Returns a link of a report that was busy for `ms` milliseconds."""
    return {"peer": peer, "bytes": size, "busy_us": ms * 1000, "rtt_us": 1000, "lately_us": 1500}


def _is_not_resumed(run, liar, why):
    """Checks that its next message is invalid: the connection is closed, and the master refuses its next hello for that
    reason."""
    equal(liar.out, "closed", "first answer")
    boot, run_key = liar.heard["hello_ok"]["boot"], liar.admitted["run_key"]
    again = dial(run.port)
    say_hello(again, boot=boot, run_key=run_key, received=liar.received, **liar.identity)
    kind, _, _, body = harness.poll(again.next, "the answer to the second hello")
    equal(messages.NAMES[kind], "refused", "second answer")
    reason = messages.parse("refused", body)["reason"]
    check("its next message is invalid: " in reason and why in reason, reason)


def test_repeats_in_reports(run):
    """A member reports eight slow links to one of the others and eight fast ones to another, where slow peers are
    expelled. The report is invalid."""
    honest = Run(run, loop=False, slow_peer="expel", slow_peer_limit_s=1)
    (liar,) = honest.members()
    accused, other = liar.others[:2]
    links = [_seen(accused, 800)] * 8 + [_seen(other, 50)] * 8
    values = {"window_ms": 1000, "operations": 4, "took_us": 900000}

    def report():
        liar.say("sight", **values, links=links)

    with Repeated(report, 1):
        harness.poll(lambda: liar.out or any(len(peer.do("members")["members"]) < 4 for peer in honest.peers), "an end")
    _is_not_resumed(run, liar, "two links to one peer")
    liar.listener.close()  # it has left
    honest.go_on()


def _report_lies(draw, liar, accused, everybody):
    """Returns a function, drawn at random, that changes the reports of this member."""
    others = [peer for peer in everybody if peer != liar]
    fast, slow = draw.choice([1, 20]), draw.choice([300, 900])

    def accuse(report):
        report["links"] = [_seen(peer, slow if peer == accused else fast) for peer in others]

    def accuse_only(report):
        report["links"] = [_seen(accused, slow)]

    def accuse_too(report):
        report["links"] = [*(link for link in report["links"] if link["peer"] != accused), _seen(accused, slow)]

    def be_fast(report):
        report["links"] = [_seen(peer, 0, 64 << 20) for peer in others]

    def take_long(report):
        report["took_us"] *= 5
        report["rounds"] = [{**one, "took_us": 5 * one["took_us"]} for one in report["rounds"]]

    def wait(report):
        report["waits"] = [{"peer": accused, "what": draw.randrange(1, 5), "begun": 1, "for_ms": 60000}]

    tell = draw.choice([accuse, accuse_only, accuse_too, be_fast, take_long, wait])

    def lie(report):
        tell(report)
        report["links"].sort(key=lambda link: link["peer"])
        return report

    return lie


def test_slow_lies_in_reports(run):
    """For half a minute two of five members report figures that make others look slow, and do all operations."""
    run.start_master(slow_peer="expel", slow_peer_limit_s=1)
    draw, peers, liars = random.Random(1), [], []
    for place in range(5):
        peer = run.peer(local="tcp")
        if place >= 3:
            liars.append(Reporter(run.port))
        peer.create(f"127.0.0.1:{liars[-1].port}" if place >= 3 else run.address)
        run.admit(peer, peers)
        peers.append(peer)
    everybody = [bytes.fromhex(peer) for peer in peers[0].do("members")["members"]]
    loops = [start_loop(peer, bit, count=75 * BULK) for bit, peer in enumerate(peers)]
    for turn in range(5):
        wanted = [liar.lies + 6 for liar in liars]
        for place, liar in enumerate(liars):
            liar.lie = _report_lies(draw, everybody[3 + place], everybody[turn % 3], everybody)

        def is_over(wanted=wanted):
            told = [liar.lies >= count or loop.result for liar, count, loop in zip(liars, wanted, loops[3:])]
            return all(told) or any(loop.result for loop in loops[:3])

        harness.poll(is_over, "the lies")
        check(not any(loop.result for loop in loops[:3]), f"honest loops have ended: {[loop.result for loop in loops]}")
    all_right(loops)


def test_blobs_of_others(run):
    """A member contributes blobs that are longer than declared, fewer than there are members, or in a scatter, in which
    only the root has some. It is removed, and the others' exchange succeeds."""
    honest = Run(run, count=2, loop=False)
    root = bytes.fromhex(honest.peers[0].do("members")["members"][0])
    lengths = lambda *blobs: b"".join(length.to_bytes(8, "little") for length in blobs)  # noqa: E731
    lies = (
        ("blobs_for_all", 14, {}, lengths(1, 0, 0) + b"ab"),
        ("blobs_for_all", 14, {}, lengths(1) + b"a"),
        ("blobs_given", 13, {"root": root}, lengths(0, 0, 0)),
    )
    for tag, (kind, collective, more, payload) in enumerate(lies):
        (liar,) = honest.members()
        calls = [peer.start("collect", kind, tag, SMALL, "launched").begun() for peer in honest.peers]
        descriptor = {"collective": collective, "count": 1000, **more}
        said = {"instance": liar.instance(tag=tag), "view": liar.view, "descriptor": descriptor}
        liar.say("done", **said, tiny=1, payload=payload)
        out = harness.poll(lambda liar=liar: liar.out, "the liar to be out")
        check("operation" in out, f"the liar is out for this: {out}")
        for call in calls:
            call.wait(rc=harness.LOST)
    calls = [peer.start("collect", "blobs_for_all", 9, SMALL, "launched").begun() for peer in honest.peers]
    check(all(call.wait(rc=harness.SUCCESS)["right"] for call in calls), "the blobs of the others")
    honest.go_on()


def test_lost_links(run):
    """A member reports its link to a younger one as lost, in every form, and without this link there is no ring: the
    younger one stays, because no other member reports the same."""
    honest = Run(run, count=1, loop=False)
    (liar,) = honest.members()
    honest.grow()
    peer = harness.poll(lambda: liar.asked.keys() - set(liar.others), "the younger one to be named").pop()
    for how in range(1, 7):
        for incoming in (0, 1):
            liar.say("link_lost", peer=peer, incoming=incoming, how=how)
    liar.flush()
    harness.wait_ms(1000)  # longer than the settling time, after which the master decides
    liar.leave()
    honest.go_on()


# ---- a stranger at the master's port ----


def _lying_report(stranger, *members):
    """Sends a false report of a run with these members, far ahead of the real one."""
    members = [{"peer": peer, "group": 0} for peer in members]
    stranger.say("resume", epoch=AHEAD, view=AHEAD, update=99, members=members, ring=[stranger.id])


def test_run_that_comes_back(run):
    """A hello claims to be of an older run, which would replace a younger one."""
    honest = Run(run)
    for _ in range(5):
        stranger = Outsider(run, run_key=messages.identity(), boot=1)
        if stranger.told("hello_ok"):
            _lying_report(stranger, stranger.id)
            stranger.say("resume_end")
            stranger.flush()
    honest.go_on()


def test_endless_reports(run):
    """A series of strangers claim to be of an older run, and never end their report: the master serves the members."""
    run.start_master(recover_ms=1000, alone_ms=2000)
    key = messages.identity()
    with Repeated(lambda: Outsider(run, run_key=key, boot=1)):
        honest = Run(run, count=2)
        honest.go_on()


def test_squatter(run):
    """The master restarts, and a stranger connects before a member does, with its id and a false report."""
    honest = Run(run)
    spy = Outsider(run)
    victim = spy.learn(3)[0][0]
    name = spy.lineage
    spy.leave()
    for peer in honest.peers:
        peer.stop()
    run.master.kill()
    run.master.end(harness.DEADLINE)
    run.start_master(port=run.port)
    honest.before[0] = (run.master, run.master.rss_kib())
    squatter = Outsider(run, run_key=name, boot=1, peer=victim)
    if squatter.told("hello_ok"):
        _lying_report(squatter, victim)
        squatter.say("resume_end")
        squatter.flush()
    for peer in honest.peers:
        peer.resume()
    honest.go_on()


def test_crowd_in_many_groups(run):
    """Thousands wait for admission, each in a separate group, and call nothing: an honest peer joins."""
    honest = Run(run, count=2, first_call_ms=500)
    with Crowd(run, 4000, lambda i: i + 1):
        honest.go_on()


def test_crowd_in_one_group(run):
    """A thousand in the group of the members, ahead of the honest one."""
    honest = Run(run, count=2, warm_up_ms=3000)
    with Crowd(run, 1000, lambda i: 0):
        honest.go_on()


def test_newcomers_evidence(run):
    """Newcomers report members' links as closed while the members lose their connections to the master: they return."""
    proxy = Proxy(harness.ports.free_port())
    run.start_master(port=proxy.target[1])
    honest = Run(run, count=1, loop=False)
    honest.grow(2, f"127.0.0.1:{proxy.port}")
    honest.go_on(newcomer=False)
    for _ in range(3):
        stranger = Outsider(run)
        for peer, _ in stranger.learn(3):
            for how in (6, 3, 1, 2):  # the last one counts
                for incoming in (0, 1):
                    stranger.say("link_lost", peer=peer, incoming=incoming, how=how)
        stranger.flush()
        proxy.cut(reset=True)
        honest.go_on(newcomer=False)
        stranger.leave()
    honest.go_on()


def test_connect_flood(run):
    """A newcomer whose hello is delayed by the network is not displaced by connections from other addresses."""
    honest = Run(run, count=2, hello_ms=60000)
    for _ in range(3):
        slow = dial(run.port, "127.0.0.1")
        flood = [dial(run.port) for _ in range(600)]
        say_hello(slow)
        frame = harness.poll(lambda slow=slow: slow.next() or slow.is_closed(), "the answer to a hello")
        equal(frame is not True and messages.NAMES[frame[0]], "hello_ok", "answer to a slow hello")
        for connection in [slow, *flood]:
            connection.close()
    honest.go_on()


def test_garbage_and_the_log(run):
    """Strangers cannot fill the disk with log lines."""
    run.environment.update(PCCL_LOG_LEVEL="INFO")
    run.start_master(log_level="INFO")
    honest = Run(run, count=2)
    before = sum(len(text) for _, text in run.master.lines)
    for _ in range(10):
        connections = [dial(run.port) for _ in range(100)]
        for connection in connections:
            connection.send(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n" + bytes(32))
        for connection in connections:
            harness.poll(connection.is_closed, "garbage to be refused")
            connection.close()
    honest.go_on()
    grown = sum(len(text) for _, text in run.master.lines) - before
    within(grown, 0, 32 << 10, "bytes of log after 1000 times garbage")


def figure_hellos(run):
    """A thousand newcomers per second: the cost for the master, and the time until an honest newcomer has joined."""
    honest = Run(run, count=2)
    added = AddedShare(run, honest)
    knocks = []
    standing = 100  # concurrent connections

    def knock():
        while len(knocks) * 1000 < harness.now_us() - added.began_us:
            knocks.append(dial(run.port))
            say_hello(knocks[-1], group=len(knocks))
            if len(knocks) > standing:
                knocks[-standing - 1].close()

    with Repeated(knock, 0.005):
        for _ in range(5):
            harness.figure("seconds until an honest newcomer is in", honest.newcomer(), "s")
        harness.figure("processor share of the master", added.share(5), "")
        harness.figure("hellos a second", len(knocks) / added.length_s(), "1/s")


def test_rebound_name(run):
    """A page of another site resolves its name to this machine: it cannot read the master's pages, even if these are
    public."""
    pages, public = harness.ports.free_port(), harness.ports.free_port()
    honest = Run(run, count=2, http=f"127.0.0.1:{pages},0.0.0.0:{public}", insecure=1)  # loopback as well
    bad = ["evil.example", "127.0.0.1.evil.example"]
    good = ["localhost", "127.0.0.1", socket.gethostname()]
    private = ["trainer-1", "master.default.svc.cluster.local"]  # names that no public site has
    for port, refused_hosts, hosts in ((pages, bad + private, good), (public, bad, good + private)):
        for path in ("/", "/status", "/status.json", "/metrics", "/healthz"):
            for host in [*refused_hosts, *hosts]:
                headers = {"Host": f"{host}:{port}"}
                request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
                try:
                    with urllib.request.urlopen(request) as page:
                        answered = page.status
                except urllib.error.HTTPError as error:
                    answered = error.code
                equal(answered, 403 if host in refused_hosts else 200, f"answer to GET {path} of {host}:{port}")
    honest.go_on()


# ---- a stranger at the port of a master with tokens ----


def _secured(run, **master):
    run.secure()
    return Run(run, count=2, **master)


def test_half_open_handshakes(run):
    """5,000 strangers that know the pin begin a handshake and never continue: the master keeps some of them for a
    while; members and an honest newcomer are not affected."""
    honest = _secured(run, hello_ms=60000)
    before_kib, said = run.master.rss_kib(), wire.secure_greeting(run.token())
    strangers = []
    for i in range(5000):
        strangers.append(dial(run.port))
        strangers[-1].send(said[: None if i % 2 else 60])
        if len(strangers) > 900:  # limit of descriptors of this process; the master holds fewer
            strangers.pop(0).close()
    honest.newcomer()
    if SLOW == 1:
        within(run.master.rss_kib() - before_kib, -1 << 30, 32 << 10, "KiB that the master has grown by")
    for stranger in strangers:
        stranger.close()
    honest.go_on()


def test_flood_of_handshakes(run):
    """Very many arrive at once; an honest newcomer from another address does not wait behind them."""
    honest = _secured(run)
    run.master.stop()  # so that all of them are queued at once
    strangers = [dial(run.port) for _ in range(900)]
    for stranger in strangers:
        stranger.send(wire.secure_greeting(run.token()))
    run.master.resume()
    honest.newcomer()
    for stranger in strangers:
        stranger.close()
    honest.go_on()


def _many_descriptors():
    """Raises the descriptor limit of this process and its children."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 20000), most))


def _honest_crowd(run, count):
    """Lets honest clients of one address begin handshakes at once. The master answers all and drops none."""
    _many_descriptors()
    honest = _secured(run, hello_ms=60000)
    before_s = run.master.cpu_s()
    crowd = Greeters(run, count)
    crowd.join(harness.DEADLINE)
    equal((crowd.answered, crowd.dropped), (count, 0), "answered and dropped")
    figure(f"until {count} handshakes at once are answered", crowd.took_s, "s")
    figure(f"processor time of the master for {count} handshakes", run.master.cpu_s() - before_s, "s")
    honest.go_on()


def test_honest_crowd(run):
    """More than the master handles concurrently, and more than its former queue."""
    _honest_crowd(run, 800)


def test_slow_honest_crowd(run):
    """Twice the number, nightly."""
    _honest_crowd(run, 1600)


def test_dropped_connect(run):
    """A newcomer's first connections end before the master answers: connect retries and succeeds. If all connections
    end like this, it fails with the reason."""
    honest = _secured(run)
    tamperer = Tamperer(run.port, 100, cuts=True)
    peer = _through(run, tamperer.port)
    call = peer.start("connect")
    harness.poll(lambda: tamperer.cut_count >= 3, "three connections to be cut")
    tamperer.at = None
    call.wait(rc=harness.SUCCESS)
    peer.quit()
    run.environment.update(PCCL_CONNECT_RETRY_MS="500")
    tamperer.at = 100
    words = _through(run, tamperer.port).do("connect", rc=harness.MASTER_FAILED)["words"]
    check("it closed every connection without an answer" in words, words)
    honest.go_on()


def _half_hellos(run, count):
    _many_descriptors()
    honest = _secured(run)
    before_kib, added = run.master.rss_kib(), AddedShare(run, honest)
    with HalfHellos(run, 1500) as flood:
        harness.poll(lambda: flood.count > 5000, "more half hellos than the master keeps")
        waits = [honest.newcomer() for _ in range(count)]
        if SLOW == 1:
            within(run.master.rss_kib() - before_kib, -1 << 30, 32 << 10, "KiB that the master has grown by")
        figure("longest until an honest newcomer is in beside half hellos", max(waits), "s")
        figure("half hellos a second", flood.count / added.length_s(), "1/s")
        figure("processor share of the master", added.share(0), "")
    honest.go_on()


def test_half_hellos(run):
    """Half greetings from many addresses, more than the master keeps: they start no handshake, and honest newcomers
    join."""
    _half_hellos(run, 3)


def test_slow_half_hellos(run):
    """Twenty newcomers, nightly."""
    _half_hellos(run, 20)


def test_secrets_that_can_be_guessed(run):
    """An eavesdropper can try secrets offline: a master refuses guessable secrets, and gives the reason without showing
    the secret."""
    for secret in ("summer2026summer2026-run", "Summer2026Summer2026-run", "correct-horse-battery-staple"):
        environment = {**run.environment, "PCCL_SECRET": secret}
        command = [harness.executable("master"), "--listen", "127.0.0.1:0"]
        done = subprocess.run(
            command, env=environment, text=True, capture_output=True, timeout=harness.DEADLINE, check=False
        )
        check(done.returncode != 0 and "too easy to guess" in done.stderr, done.stderr)
        check(secret not in done.stdout + done.stderr, "it is shown")


def test_replayed_session(run):
    """The recorded bytes of a peer are replayed to the same master and to a restarted one: no peer joins, and the only
    answer is a handshake."""
    run.secure()
    run.start_master(log_level="INFO")
    recorder = Recorder(run.port)
    honest = Run(run, count=2)
    run.environment.update(PCCL_LOG_LEVEL="INFO")
    peer = run.peer()
    peer.create(f"127.0.0.1:{recorder.port}")
    peer.do("connect")
    peer.kill()
    said = recorder.said()
    more_steps(honest.loops, world=2)
    for _ in range(2):
        connection = dial(run.port)
        check(pour(connection, said) > 0, "something is said again")
        harness.poll(connection.is_closed, "the end of it")
        run.master.wait_line(f"refused {AWAY}")
        run.master.kill()
        run.master.end(harness.DEADLINE)
        run.start_master(port=run.port)
        honest.before[0] = (run.master, run.master.rss_kib())
    honest.go_on()


def _through(run, port):
    """Starts a newcomer that reaches the master through this port."""
    peer = run.peer()
    peer.create(f"127.0.0.1:{port}")
    return peer


def test_tampered_handshakes(run):
    """A relay between a newcomer and the master flips a bit of each record up to the hello, in either direction, or
    cuts the connection there: the newcomer does not join, and gets the reason. Unchanged, it joins."""
    honest = _secured(run)
    run.environment.update(PCCL_CONNECT_RETRY_MS="0")
    recorder = Recorder(run.port)
    peer = _through(run, recorder.port)
    peer.do("connect")
    peer.quit()
    records = recorder.records()[:4]  # greeting, certificate, proof, end; later records are ours
    hello = sum(records[-1]) + 20
    places = [(at + length // 2, True) for at, length in [(0, KNOCK), *records]]
    places += [(hello, True), (20, False), (300, False)]
    for at, of_peer in places:
        for cuts in (False, True):
            tamperer = Tamperer(run.port, at, of_peer, cuts)
            peer = _through(run, tamperer.port)
            words = peer.do("connect", rc=harness.MASTER_FAILED)["words"]
            check(tamperer.done and "cannot reach the master" in words, f"at {at}: {words}")
            peer.quit()
    honest.go_on()


def test_downgraded_handshakes(run):
    """An older TLS version, or one without a token: the hello gets no answer."""
    honest = _secured(run)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        client = Shaker(run.port, run.token(), maximum_version=version)
        client.socket.settimeout(harness.DEADLINE)
        try:
            client.begin()
            while not client.go_on():
                pass
            equal(version, ssl.TLSVersion.TLSv1_3, "what the master takes")
            client.tls.write(messages.frame("hello", peer=messages.identity(), token=messages.identity()))
            client.socket.sendall(client.sent.read())
            client.received.write(client.socket.recv(65536))
            client.tls.read(1)
            check(False, "the hello has an answer")
        except (ssl.SSLError, ConnectionError):
            pass
    honest.go_on()


def test_reflected_handshakes(run):
    """A proxy redirects the links to a newcomer to a member: those of this member back to itself, and those of another
    one to it. It does not have the newcomer's key, so these links do not open, and the newcomer dials its links."""
    honest = _secured(run, elements=BULK, warm_up_ms=60000)
    peer, proxy = behind_proxy(run)
    proxy.target = ("127.0.0.1", honest.port)
    peer.do("connect")
    check(proxy.count > 0, "no peer has dialed its port")
    steps = start_loop(peer, len(honest.peers), count=BULK)
    harness.poll(lambda: steps.steps, "a step of all, whose data moves over the newcomer's links")
    all_right([*honest.loops, steps])
    peer.quit()
    honest.go_on()


def test_tokens_that_are_over(run):
    """Tokens that have expired, were revoked unused, or were revoked after use, alternately and many times: a member
    with one is removed, no peer joins with one, and the others continue."""
    honest = _secured(run)
    expired = token(run, "create", "--ttl", "1s", "--label", "brief")
    revoked = token(run, "create", "--label", "revoked")
    spent = token(run, "create", "--uses", "1", "--label", "spent")
    guest = let_in(run, spent, [])
    steps = start_loop(guest, len(honest.peers))
    more_steps(honest.loops, world=3)
    for label in ("revoked", "spent"):
        token(run, "revoke", label)
    more_steps(honest.loops, world=2)
    check("was revoked" in steps.wait(rc=None)["words"], "the guest hears why")
    guest.quit()
    harness.poll(lambda: "expired" in token(run, "list"), "the end of the first")
    for _ in range(10):
        for text, words in ((expired, "has expired"), (revoked, "was revoked"), (spent, "was revoked")):
            peer = peer_with(run, text)
            refused(peer, run.address, words)
            peer.quit()
    honest.go_on()


def figure_handshakes(run):
    """Measures the master's processor time for a handshake after a knock, for strangers without a knock or with half of
    one, and for a connection that is dropped because it begins at most 600 in a second. Other work on this machine
    does not count."""
    pages = harness.ports.free_port()
    honest = _secured(run, http=f"127.0.0.1:{pages}")
    for peer in honest.peers:
        peer.kill()  # to leave only the handshakes to the master
    whole = wire.secure_greeting(run.token())
    wrong = bytes([*whole[:10], whole[10] ^ 1, *whole[11:]])

    def begin(said=whole):
        stranger = dial(run.port)
        stranger.send(said)
        return stranger

    def dropped():
        with urllib.request.urlopen(f"http://127.0.0.1:{pages}/metrics") as page:
            said = page.read().decode()
        return int(re.search(r"^pccl_connections_turned_away_total (\d+)$", said, re.M)[1])

    def cost_s(said):
        before_s = run.master.cpu_s()
        for _ in range(1000):
            begin(said).close()
            harness.wait_ms(4)
        equal(dropped(), 0, "dropped at 250 a second")
        return (run.master.cpu_s() - before_s) / 1000

    each_s = cost_s(whole)
    harness.figure("processor time of a handshake", each_s * 1e6, "us")
    harness.figure("processor time of a connection", cost_s(b"") * 1e6, "us")
    for what, said in (
        ("half of a knock and greeting", HalfHellos.half),
        ("a greeting without a knock", whole[KNOCK:]),
        ("a wrong knock", wrong),
    ):
        harness.figure(f"processor time of {what}", cost_s(said) * 1e6, "us")
    before_s, strangers, count = run.master.cpu_s(), [], 0
    began_us = harness.now_us()
    while harness.now_us() - began_us < 5e6:  # without a limit
        strangers.append(begin())
        count += 1
        if len(strangers) > 400:
            strangers.pop(0).close()
    harness.wait_ms(1500)  # the master handles the remaining ones
    in_vain = dropped()
    harness.figure("dropped before their handshake", in_vain, f"of {count} in five seconds")
    if in_vain > count / 10:
        dropped_s = (run.master.cpu_s() - before_s - (count - in_vain) * each_s) / in_vain
        harness.figure("processor time of one that is dropped", dropped_s * 1e6, "us")
        share = 600 * each_s + 400 * dropped_s  # PCCL_HANDSHAKES_PER_S
        harness.figure("processor share of the master at 1,000 a second, computed", share, "")


# ---- a stranger at a member's port ----


def _link(honest, stranger, **values):
    """Opens a link to the first member."""
    port = honest.port
    return stranger.link(port, stranger.peer_at(port), **values)


def _pairs(stranger, count):
    """Returns (port, to, from) of all pairs of members that the master named to the stranger."""
    members = stranger.learn(count)
    return [(port, to, other) for to, port in members for other, _ in members if other != to]


def _undecodable(liar):
    descriptor = {"datatype": 99, "codec_datatype": 0, "count": BULK}
    return messages.frame("ready", instance=liar.instance(), view=liar.view, descriptor=descriptor, segment_elements=1)


def test_invalid_messages_on_a_link(run):
    """A member repeatedly sends messages that cannot be decoded over the links that others have opened to it: their
    operations fail with that reason, and all honest members remain."""
    honest = Run(run, count=2, elements=BULK, loop=False)
    (liar,) = honest.members()
    for turn in range(3):
        calls = [peer.start("reduce", 500 + turn, BULK, "f32", "sum", "const:1") for peer in honest.peers]
        for call in calls:
            call.begun()

        def lies(calls=calls):
            for _, link in liar.links[:]:
                if not link.closed:
                    link.send(_undecodable(liar))
            return all(call.result for call in calls)

        harness.poll(lies, "the reductions to end")
        for call in calls:
            equal(call.result["rc"], harness.INTERNAL, f"result of {call.result}")
            check("descriptor.datatype is 99" in call.result["words"], call.result["words"])
            check(liar.id.hex()[:8] in call.result["words"], call.result["words"])
    figure("links that the liar accepted", len(liar.links), "")
    for peer in honest.peers:
        equal(peer.do("attr")["group"], 3, "members")
    liar.leave()
    honest.go_on()


def test_invalid_message_to_the_master(run):
    """A member sends the master a message that cannot be decoded: the connection ends, and its session is not
    resumed, with the reason."""
    honest = Run(run, loop=False)
    (liar,) = honest.members()
    liar.say("done", instance=liar.instance(), view=liar.view, descriptor={"datatype": 99, "codec_datatype": 0}, tiny=1)
    harness.poll(lambda: liar.out, "the liar's connection to be closed")
    _is_not_resumed(run, liar, "descriptor.datatype is 99")
    honest.go_on()


def test_links_in_others_names(run):
    """Links to each member, in the name of each other one: the members use only their links."""
    honest = Run(run, elements=BULK)
    stranger = Outsider(run)
    links = [
        stranger.link(port, to, **{"from": other, "slot": slot})
        for port, to, other in _pairs(stranger, 3)
        for slot in range(8)
    ]
    honest.go_on()
    for link in links:
        link.close()


def test_segments_that_do_not_fit(run):
    """Segments that do not fit the future reduction, from an unknown peer."""
    honest = Run(run, elements=BULK, loop=False)
    (liar,) = honest.members(group=7)  # it knows the next operations
    stranger = Outsider(run)
    links = []
    for to, port in stranger.learn(3):
        links.append(stranger.link(port, to, **{"from": messages.identity()}))
        frames = []
        for back in range(4):  # it does not get the view of the others: one tag for each possible view
            view = {**liar.view, "number": liar.view["number"] - back}
            for use in range(50):
                instance = liar.instance(100 + back, use)
                frames.append(messages.frame("data", instance=instance, view=view, length=1) + b"x")
        pour(links[-1], b"".join(frames))
    honest.go_on(newcomer=False)
    liar.leave()
    honest.go_on()


def test_segments_of_one_byte(run):
    """Very many segments of one byte, for a future operation."""
    honest = Run(run, elements=BULK)
    stranger = Outsider(run)
    link = _link(honest, stranger, **{"from": messages.identity()})
    number, values = messages.NUMBERS["data"], {"instance": {"joint": 99}, "view": AHEAD, "length": 1}
    bodies = messages.bodies("data", range(40000), stripe=messages.TAG, **values)
    pour(link, b"".join(messages.seal(number, body) + b"x" for body in bodies))
    honest.go_on()


def _hold_bytes(honest, links):
    """Sends over each link as many of 12 MiB for future operations as it accepts."""
    segment, instance = 1 << 20, {"joint": 99, "tag": 1 << 30}
    for link in links:
        for stripe in range(12):
            data = messages.frame("data", instance=instance, view=AHEAD, stripe=stripe, length=segment) + bytes(segment)
            if pour(link, data, 0.3) < len(data):
                break
    honest.go_on()
    for link in links:
        link.close()


def test_bytes_held_of_nobody(run):
    """Segments for future operations, from many unknown peers."""
    honest = Run(run, elements=BULK)
    stranger = Outsider(run)
    _hold_bytes(honest, [_link(honest, stranger, **{"from": messages.identity()}) for _ in range(12)])


def test_bytes_held_of_newcomers(run):
    """Segments from newcomers that may open links: the memory of a member is bounded for all of them together."""
    honest = Run(run, elements=BULK)
    strangers = [Outsider(run) for _ in range(12)]
    _hold_bytes(honest, [_link(honest, stranger) for stranger in strangers])


def test_thousands_of_links(run):
    """Each link has a different, unknown peer."""
    honest = Run(run, elements=BULK)
    stranger = Outsider(run)
    links = [_link(honest, stranger, **{"from": messages.identity()}) for _ in range(4200)]
    honest.go_on()
    for link in links:
        link.close()


def test_state_for_nobody(run):
    """During the synchronization of shared state, a stranger requests it in the name of a member."""
    honest = Run(run, loop=False)
    for peer, seed in zip(honest.peers, (1, 1, 2)):
        peer.do("state", f"w,f32,100000,rand:{seed}")
    stranger = Outsider(run)
    members = stranger.learn(3)
    late = honest.peers[2].start("sync", "popular", 0)
    honest.peers[2].until_waiting()
    honest.peers[2].stop()  # the receiver; until it resumes, the others serve
    calls = [peer.start("sync", "popular", 0) for peer in honest.peers[:2]]
    for peer in honest.peers[:2]:
        peer.until_waiting()
    for port, to, other in _pairs(stranger, len(members)):
        if port in honest.peers[2].listening_ports():
            continue
        link = stranger.link(port, to, **{"from": other, "kind": 3})
        for what in (1, 2, 3):
            link.send(messages.frame("state_want", what=what))
        answers = []
        harness.poll(lambda link=link, answers=answers: _answer(link, answers), "a refusal, or an end")
        link.close()
    honest.peers[2].resume()
    for call in [late, *calls]:
        call.wait(rc=harness.SUCCESS)
    honest.go_on()


def _answer(link, answers):
    """Appends the names of the answers. Returns true if the link has ended."""
    while frame := link.next():
        answers.append(messages.NAMES[frame[0]])
        check(not answers[-1].startswith("state_"), f"a stranger was told of shared state: {answers}")
    return link.closed or "refused" in answers


harness.main()
