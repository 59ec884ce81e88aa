/*
 * Verdicts on recorded reports of real processes on emulated hosts (bench/record_reports.py has the format).
 * All verdicts name the fault; without one there is no verdict.
 */
#include "unit.h"

#include "master/verdicts.h"
#include "net/heap.h"

#include <stdio.h>
#include <string.h>

enum { PEERS_MAX = 16, EVERY_MS = 1000, LINE_MAX_BYTES = 200 };

struct recording {
    FILE *file;
    uint32_t peers, fault_ms;
    char right[16];
    uint32_t from, to;
    char line[LINE_MAX_BYTES];
    bool has_line;
    struct pccl_witness witnesses[PEERS_MAX], *all[PEERS_MAX];
    struct pccl_witnesses reports;
    struct pccl_verdicts verdicts;
    uint64_t number;
    uint32_t found_ms; /* time of the first verdict */
    uint32_t classes;  /* classes of all verdicts, as bits */
    uint32_t changes;  /* number of comparisons after which a verdict or finding began or ended */
};

static uint32_t find(const void *context, const struct pccl_id *id)
{
    const struct recording *all = context;
    uint32_t place = id->bytes[0] - 1U;
    return place < all->peers ? place : all->peers;
}

static bool takes_part(const void *context, uint32_t i, const struct pccl_instance *instance) { return true; }

static bool uses(const void *context, uint32_t from, uint32_t to) { return from != to; }

static struct pccl_id id_of(uint32_t peer) { return (struct pccl_id){{(uint8_t)(peer + 1)}}; }

static bool next_line(struct recording *all)
{
    all->has_line = all->has_line || fgets(all->line, sizeof all->line, all->file) != NULL;
    return all->has_line;
}

static void add_link(struct pccl_msg_sight *telemetry, struct pccl_seen_link *links, const char *line)
{
    unsigned to, busy, rtt, lately;
    unsigned long long kib, resent;
    assert_int_equal(sscanf(line, "l %u %llu %llu %u %u %u", &to, &kib, &resent, &busy, &rtt, &lately), 6);
    assert_true(telemetry->links_count < PCCL_TELEMETRY_LINKS_MAX);
    links[telemetry->links_count++] = (struct pccl_seen_link){.peer = id_of(to),
                                                              .bytes = kib << 10,
                                                              .resent = resent << 10,
                                                              .busy_us = busy * 100,
                                                              .rtt_us = rtt,
                                                              .lately_us = lately};
}

static void add_round(struct pccl_msg_sight *telemetry, struct pccl_seen_round *rounds, const char *line)
{
    unsigned long long key;
    unsigned took_ms;
    assert_int_equal(sscanf(line, "o %llu %u", &key, &took_ms), 2);
    assert_true(telemetry->rounds_count < PCCL_TELEMETRY_ROUNDS_MAX);
    rounds[telemetry->rounds_count++] = (struct pccl_seen_round){.key = key, .took_us = took_ms * 1000};
}

/* Takes the next report. Returns its time. */
static uint32_t take_report(struct recording *all)
{
    struct pccl_seen_link links[PCCL_TELEMETRY_LINKS_MAX];
    struct pccl_seen_round rounds[PCCL_TELEMETRY_ROUNDS_MAX];
    struct pccl_msg_sight telemetry = {.links = links, .rounds = rounds};
    unsigned peer, at_ms, took_ms;
    assert_int_equal(sscanf(all->line, "r %u %u %u %u %u %u", &peer, &at_ms, &telemetry.window_ms,
                            &telemetry.stalled_ms, &telemetry.operations, &took_ms),
                     6);
    telemetry.took_us = took_ms * 1000ULL;
    for (all->has_line = false; next_line(all) && all->line[0] != 'r'; all->has_line = false) {
        if (all->line[0] == 'l')
            add_link(&telemetry, links, all->line);
        else
            add_round(&telemetry, rounds, all->line);
    }
    assert_true(peer < all->peers);
    pccl_witness_take(&all->witnesses[peer], 1 + at_ms * 1000ULL, &telemetry);
    return at_ms;
}

static void open_recording(struct recording *all, const char *name)
{
    char path[600];
    (void)snprintf(path, sizeof path, "%s/%s.txt", RECORDINGS, name);
    memset(all, 0, sizeof *all);
    all->file = fopen(path, "r");
    assert_non_null(all->file);
    assert_non_null(fgets(all->line, sizeof all->line, all->file));
    assert_true(sscanf(all->line, "# peers=%u fault_ms=%u right=%15s from=%u to=%u", &all->peers, &all->fault_ms,
                       all->right, &all->from, &all->to) >= 3);
    assert_true(all->peers <= PEERS_MAX);
    for (uint32_t i = 0; i < all->peers; i++) {
        all->witnesses[i].id = id_of(i);
        all->all[i] = &all->witnesses[i];
    }
    all->reports = (struct pccl_witnesses){
        .all = all->all, .count = all->peers, .find = find, .takes_part = takes_part, .uses = uses, .context = all};
}

/* Returns true if the verdict names the fault. Along a ring, a slow sender shows as a slow link from it at first. */
static bool is_right(const struct recording *all, const struct pccl_verdict_entry *entry)
{
    const struct pccl_id from = id_of(all->from), to = id_of(all->to);
    if (!pccl_id_equal(&entry->peer, &from))
        return false;
    switch (entry->class) {
    case PCCL_VERDICT_SLOW_LINK:
        return strcmp(all->right, "sender") == 0 ||
               (strcmp(all->right, "link") == 0 && pccl_id_equal(&entry->other, &to));
    case PCCL_VERDICT_SLOW_SENDER: return strcmp(all->right, "sender") == 0;
    case PCCL_VERDICT_SLOW_COMPUTATION: return strcmp(all->right, "late") == 0;
    default: return false;
    }
}

/* Compares the reports, and checks the verdicts that hold. Sets the time of the first one. */
static void judge(struct recording *all, uint32_t at_ms)
{
    const struct pccl_verdict_entry *entry;
    struct pccl_verdict_entry over;
    all->changes += pccl_verdicts_judge(&all->verdicts, pccl_heap(), &all->reports, 1 + at_ms * 1000ULL, &all->number);
    while (pccl_verdicts_take_over(&all->verdicts, &over))
        continue;
    for (uint32_t n = 0; (entry = pccl_verdicts_at(&all->verdicts, n)) != NULL; n++) {
        all->classes |= 1U << entry->class;
        if (n == 0 && all->found_ms == 0) {
            all->found_ms = at_ms;
            print_message("%s: found after %u ms: %s\n", all->right, at_ms - all->fault_ms, entry->evidence.bytes);
        }
        if (!is_right(all, entry) || at_ms <= all->fault_ms)
            fail_msg("at %u ms, fault at %u ms: class %u of peer %u: %s", at_ms, all->fault_ms, (unsigned)entry->class,
                     entry->peer.bytes[0] - 1U, entry->evidence.bytes);
    }
}

/* Replays a recording. Returns the classes of its verdicts, as bits. */
static uint32_t replay(const char *name)
{
    struct recording all;
    uint32_t judged_ms = 0;
    open_recording(&all, name);
    while (next_line(&all)) {
        uint32_t at_ms = take_report(&all);
        if (at_ms < judged_ms + EVERY_MS)
            continue;
        judged_ms = at_ms;
        judge(&all, at_ms);
    }
    assert_int_equal(all.found_ms != 0, strcmp(all.right, "none") != 0);
    pccl_verdicts_free(&all.verdicts, pccl_heap());
    (void)fclose(all.file);
    return all.classes;
}

TEST(test_sound_loop) { replay("loop-sound-4"); }
TEST(test_sound_loop_of_eight) { replay("loop-sound-8"); }
TEST(test_slow_link_in_a_loop) { replay("loop-link-4"); }
TEST(test_sound_ring) { replay("ring-sound-4"); }
/* At first only the one link in use is slow; then the ring leaves it, and the next one is slow, too. */
TEST(test_slow_way_out_in_a_ring)
{
    assert_true(replay("ring-out-4") & 1U << PCCL_VERDICT_SLOW_SENDER);
    assert_true(replay("ring-out-busy-4") & 1U << PCCL_VERDICT_SLOW_SENDER); /* beside busy processes */
}
TEST(test_slow_way_out_in_a_loop) { replay("loop-out-4"); }
TEST(test_sound_rounds) { replay("rounds-sound-4"); }
TEST(test_slow_link_in_rounds) { replay("rounds-link-4"); }
TEST(test_slow_way_out_in_rounds) { replay("rounds-out-4"); }
TEST(test_late_peer_in_rounds) { replay("rounds-late-4"); }
/* The link that has become slow is not in the ring. */
TEST(test_unused_link_in_a_loop_of_eight) { replay("loop-unused-8"); }
TEST(test_late_peer_in_rounds_of_eight) { replay("rounds-late-8"); }
