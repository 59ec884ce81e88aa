"""/status.json?since=REVISION: the answers add up to /status.json."""

import json
import random

import harness
from changes import Client, Invented
from harness import check, equal

ANSWER_BYTES_MAX = 40_000  # for a second, at 1,000 peers


def same(client, full, words):
    mine = client.status()
    for key in [*full, *mine]:
        if mine.get(key) == full.get(key):
            continue
        if isinstance(full.get(key), list) and len(full[key]) == len(mine[key]):
            for own, other in zip(mine[key], full[key]):
                equal(own, other, f"{words}: an item of {key}")
        equal(mine.get(key), full.get(key), f"{words}: {key}")


def test_sums(_run):
    """The sums of answers equal /status.json, for clients that skip answers or begin late, while peers, calls,
    verdicts, groups and fields change and the writer restarts."""
    seed = 1
    dice = random.Random(seed)
    for peers in (1, 3, 40, 70, 300):
        invented = Invented(peers, seed + peers)
        clients = [Client() for _ in range(4)]
        for turn in range(60):
            invented.does(f"run {dice.randrange(4000)}")
            if dice.random() < 0.7:
                invented.does("churn")
            if dice.random() < 0.05:
                invented.does("forget")
            for number, client in enumerate(clients):
                if turn > 10 * number and dice.random() < 0.6:
                    client.apply(json.loads(invented.does(f"since {client.revision}")))
                    same(client, invented.full(), f"{peers} peers, seed {seed}, turn {turn}, client {number}")
        invented.end()


def test_sizes(_run):
    """At 1,000 busy peers an answer has at most 40 kB for a second, and without changes less than 400 bytes."""
    invented = Invented(1000, 3)
    client = Client()
    whole = invented.does("since 0")
    client.apply(json.loads(whole))
    sizes = []
    for _ in range(20):
        invented.does("run 1000")
        answer = invented.does(f"since {client.revision}")
        client.apply(json.loads(answer))
        sizes.append(len(answer))
    same(client, invented.full(), "after 20 s")
    sizes.sort()
    harness.figure("bytes of a second of changes at 1,000 peers, median", sizes[len(sizes) // 2], "B")
    harness.figure("bytes of a second of changes at 1,000 peers, most", sizes[-1], "B")
    check(sizes[-1] <= ANSWER_BYTES_MAX, f"{sizes} of {len(whole)}")
    idle = invented.does(f"since {client.revision}")
    check(len(idle) < 400, f"nothing has happened: {idle}")
    invented.end()


harness.main()
