"""Small things that peers tell each other, as JSON."""

from __future__ import annotations

import json
from typing import Any, Dict

from ._communicator import Communicator
from ._errors import PeerLostError


def told_by_all(comm: Communicator, thing: Any, *, tag: int = 0) -> Dict[str, Any]:
    """What each peer says, this one `thing`, by their ids. If one is lost, among those who are left."""
    while True:
        try:
            told = comm.all_gather_v(json.dumps(thing).encode(), tag=tag, alone_ok=True)
        except PeerLostError:
            continue
        return {peer: json.loads(bytes(blob)) for peer, blob in told}
