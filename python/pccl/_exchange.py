"""Exchange of small values among peers, as JSON."""

from __future__ import annotations

import json
from typing import Any, Dict

from ._communicator import Communicator
from ._errors import PeerLostError


def exchange_json(comm: Communicator, thing: Any, *, tag: int = 0) -> Dict[str, Any]:
    """Sends `thing` to all peers, and returns each peer's value by peer id. Repeats the exchange with the remaining
    peers if one is lost."""
    while True:
        try:
            told = comm.all_gather_v(json.dumps(thing).encode(), tag=tag, alone_ok=True)
        except PeerLostError:
            continue
        return {peer: json.loads(bytes(blob)) for peer, blob in told}
