"""Handshakes of encrypted connections that fail."""
from .bug import Bug

PLANTS = [
    Bug("silence_in_a_handshake_is_waited_for",
        "who says nothing after it was dialed must not hold up a connect for ever",
        [], ["handshake-join"],
        [
            ("src/peer/control.c",
             "if (p->now_us >= p->heard_us + silence_us) {",
             "if (p->greeted && p->now_us >= p->heard_us + silence_us) {"),
        ]),
    Bug("failed_handshake_ends_a_member",
        "a member tries anew when the way to its master failed before the answer to its hello",
        [], ["handshake-return"],
        [
            ("src/peer/control.c",
             "p->dialing = p->up = p->greeted = false; if (connecting && !again) {",
             "bool early = p->up && !p->greeted && !connecting; p->dialing = p->up = p->greeted = false;"
             "if ((connecting && !again) || early) {"),
        ]),
    Bug("half_open_strangers_stay",
        "whoever does not finish its handshake must not keep its place",
        [], ["handshake-join"],
        [
            ("src/master/membership_admission.c",
             "while (m->oldest_stranger != NULL && m->now_us >= m->oldest_stranger->opened_us + patience_us)",
             "while (m->oldest_stranger != NULL && m->shut)"),
            ("src/master/membership_admission.c",
             "if (m->oldest_stranger != NULL) pccl_master_arm(m, m->oldest_stranger->opened_us + patience_us);",
             "(void)patience_us;"),
        ]),
    Bug("a_wrong_key_is_a_death",
        "that somebody without the key answered is no evidence against a member that the master hears",
        [], ["handshake-link"],
        [
            ("src/master/links_reports.c",
             "if (to->conn == 0 && is_gone(m, to)) {",
             "if ((to->conn == 0 && is_gone(m, to)) || how == PCCL_LINK_OTHER) {"),
        ]),
    Bug("a_wrong_key_is_not_dialed_again",
        "a link whose handshake failed is dialed again",
        [], ["handshake-link", "handshake-newcomer"],
        [
            ("src/peer/links.c",
             "bool newcomer = is_newcomer(p, link); if (was_up",
             "bool newcomer = is_newcomer(p, link); if (event->how == PCCL_LINK_OTHER) return; if (was_up"),
        ]),
    Bug("probe_with_a_wrong_ticket",
        "the master has the key for its probes, or it reaches nobody's port",
        [], ["handshake-join"],
        [
            ("src/master/links_reports.c",
             "pccl_ticket(&remote->link_key, &(struct pccl_id){{0}}, &remote->id)",
             "pccl_ticket(&remote->link_key, &remote->id, &(struct pccl_id){{0}})"),
        ]),
]
