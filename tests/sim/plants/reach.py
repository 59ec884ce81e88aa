"""Peers that others cannot connect to (PROTOCOL 7.4, 9.2)."""
from .bug import Bug

PLANTS = [
    Bug("both_wait_for_the_other_to_dial", "7.4: the master does not forward the request to dial",
        [], ["reach-behind-nat", "reach-behind-reset", "reach-random"],
        [("src/master/links_reports.c", "pccl_master_addresses(from, candidates)}}; pccl_master_send(m, to, &msg, 0);",
          "pccl_master_addresses(from, candidates)}}; (void)msg;")]),
    Bug("the_wrong_end_dials", "7.4: the sender dials a port that it cannot reach, also if the master says otherwise",
        [], ["reach-behind-nat", "reach-behind-reset", "reach-random"],
        [("src/peer/links.c", "link->reversed = link->other_dials;", "link->reversed = false;")]),
    Bug("both_ends_dial", "7.4: a peer behind a firewall does not dial for its data either",
        [], ["reach-behind-reset", "reach-random"],
        [("src/master/links_wanted.c", "return to->closed && from->verified;", "return to->closed || from->closed;")]),
    Bug("what_the_dial_shows_is_kept_back", "7.4: links requested before the master's dial has failed stay as they are",
        [], ["reach-behind-nat", "reach-random"],
        [("src/master/links_reports.c", "remote->closed = closed; pccl_master_update_requests(m, remote);",
          "remote->closed = closed;"),
         ("src/master/links_reports.c", "pccl_master_correct_request(m, from, to);", ";")]),
    Bug("a_restarted_master_dials_no_port", "7.4: it does not know which ports are closed",
        [], ["reach-behind-nat", "reach-behind-reset", "reach-broken-in-recovery"],
        [("src/master/recovery_rebuild.c", "pccl_master_probe(m, remote);", "")]),
    Bug("a_router_is_a_witness", "9.2: a router that restarts breaks all connections of a living peer",
        [], ["reach-router-restarts"],
        [("src/master/links_edges.c", "return edge->dialed && (m->recovering || (intent != NULL && intent->reached));",
          "return edge->dialed || intent != NULL || true;")]),
]
