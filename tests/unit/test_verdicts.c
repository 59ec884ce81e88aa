/*
 * master/verdicts: the verdict on peers that have not reported, and repeated reports. The simulator has the rest
 * (tests/sim/scenarios_verdicts.c).
 */
#include "unit.h"

#include "master/verdicts.h"
#include "net/heap.h"

enum { PEERS = 5, SILENT = 4, SOUND = 3 };

static uint32_t find(const void *context, const struct pccl_id *id) { return id->bytes[0] - 1U; }

static bool takes_part(const void *context, uint32_t i, const struct pccl_instance *instance) { return true; }

static bool uses(const void *context, uint32_t from, uint32_t to) { return from != to; }

static struct pccl_id id_of(uint32_t peer) { return (struct pccl_id){{(uint8_t)(peer + 1)}}; }

/* Links to a peer that has not reported yet become slow. */
TEST(test_slow_receiver_that_is_silent)
{
    struct pccl_witness witnesses[SILENT] = {{.received_us = 0}}, *all[PEERS] = {NULL};
    struct pccl_witnesses they = {.all = all, .count = PEERS, .find = find, .takes_part = takes_part, .uses = uses};
    struct pccl_verdicts verdicts = {.count = 0};
    uint64_t now_us = 1000000, last_number = 0;
    bool changed = false;
    for (uint32_t i = 0; i < SILENT; i++) {
        witnesses[i].id = id_of(i);
        all[i] = &witnesses[i];
    }
    for (int turn = 0; turn < SOUND + 5; turn++, now_us += PCCL_VERDICTS_EVERY_US) {
        for (uint32_t i = 0; i < SILENT; i++) {
            struct pccl_seen_link links[PEERS];
            struct pccl_msg_sight telemetry = {.window_ms = 1000, .links = links};
            for (uint32_t to = 0; to < PEERS; to++)
                if (to != i)
                    links[telemetry.links_count++] =
                        (struct pccl_seen_link){.peer = id_of(to),
                                                .bytes = (turn >= SOUND ? 4 : 8) << 20,
                                                .busy_us = to == SILENT && turn >= SOUND ? 900000 : 200000,
                                                .rtt_us = 1000,
                                                .lately_us = 1500};
            pccl_witness_take(&witnesses[i], now_us, &telemetry);
        }
        changed = pccl_verdicts_judge(&verdicts, pccl_heap(), &they, now_us, &last_number) || changed;
    }
    assert_true(changed);
    const struct pccl_verdict_entry *entry = pccl_verdicts_at(&verdicts, 0);
    const struct pccl_id silent = id_of(SILENT);
    assert_non_null(entry);
    assert_int_equal(entry->class, PCCL_VERDICT_SLOW_RECEIVER);
    assert_true(pccl_id_equal(&entry->peer, &silent));
    assert_true(entry->enough && entry->enough_us != 0);
    assert_null(pccl_verdicts_at(&verdicts, 1));
    pccl_verdicts_free(&verdicts, pccl_heap());
}

/* A member has one vote about an operation, although it reports it again. */
TEST(test_operation_counts_once)
{
    struct pccl_witness witness = {.received_us = 0};
    struct pccl_seen_round rounds[] = {{7, 1000, 0}, {8, 1000, 0}};
    const struct pccl_msg_sight telemetry = {.window_ms = 1000, .rounds = rounds, .rounds_count = 2};
    pccl_witness_take(&witness, 1000000, &telemetry);
    rounds[1].key = 9;
    pccl_witness_take(&witness, 2000000, &telemetry);
    assert_int_equal(witness.round_count, 3);
}
