"""What any machine owes: to stop when it is out, to rest, to give back memory, and to say for whom it waits."""
from .bug import Bug

PLANTS = [
    # ---- machines ----
    Bug("expelled_goes_on", "I9: a peer that was removed is out",
        ["I1", "I2", "I9", "I12", "PEACE", "ASSERT"], [],
        [("src/peer/control.c", "end_by_master(p, expelled->code,",
          "if (expelled->code == PCCL_REFUSAL_SHUTDOWN || p->state != PCCL_PEER_MEMBER) end_by_master(p, "
          "expelled->code,"),
         ("src/master/membership_admission.c", "else if (hello->boot == m->config.boot)", "else if (false)"),
         ("src/master/membership_admission.c",
          "if ((same && (!m->recovering || pccl_master_recovery_is_hopeless(m))) ||", "if (")]),
    Bug("a_timer_spins", "I12: no process spins",
        ["I12"], [],
        [("src/peer/control.c", "if (!p->greeted) return; if (p->now_us >= p->sent_us + heartbeat_us)",
          "if (p->greeted && p->now_us >= p->sent_us + heartbeat_us)")]),
    Bug("payload_leaks", "what a machine allocates it gives back",
        ["MEMORY"], [],
        [("src/peer/op_table.c", "pccl_release(memory, op, sizeof *op + op->payload_capacity);",
          "pccl_release(memory, op, sizeof *op);")]),

    # ---- their own state: nothing that anybody sees shows it, or not for long ----
    Bug("decided_stays_under_way", "what is decided is not under way any more: else a caller has soon too much",
        ["STATE"], [],
        [("src/master/operations.c", "count_finished(all.members[i]);", ";")]),
    Bug("held_abort_oversleeps", "nothing is due before the machine is woken",
        ["STATE"], [],
        [("src/master/operations_messages.c", "pccl_master_arm(m, pccl_max_u64(m->now_us, op->held_until_us));", ";")]),
    Bug("decided_is_waited_for", "nobody waits in what is decided: else it is told for whom",
        ["STATE"], [],
        [("src/peer/operations.c", "p->awaited_count--; pccl_peer_wait_ended(p);", "pccl_peer_wait_ended(p);")]),

    # ---- waiting ----
    Bug("newcomer_waits_in_silence", "F26: who is not admitted is told by whom it would be",
        [], ["f26-who-is-where"],
        [("src/peer/peer.c", "pccl_peer_tick_admissions(p);", ";")]),
    Bug("nobody_is_named", "I10: who waits long is told for whom",
        ["I10"], [],
        [("src/peer/where.c", "pccl_peer_send(p, &msg);", "(void)msg;")], last=20000),
]
