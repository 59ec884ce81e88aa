"""Exchange of small values among peers, as JSON."""

from __future__ import annotations

import json
from typing import Any, Dict

from ._communicator import Communicator
from ._errors import PeerLostError


def exchange_json(comm: Communicator, thing: Any, *, tag: int = 0) -> Dict[str, Any]:
    """Returns each peer's value by peer id; this peer's is `thing`. If a peer is lost, repeats it with the remaining
    ones."""
    while True:
        try:
            told = comm.all_gather_v(json.dumps(thing).encode(), tag=tag, alone_ok=True)
        except PeerLostError:
            continue
        return {peer: json.loads(bytes(blob)) for peer, blob in told}
