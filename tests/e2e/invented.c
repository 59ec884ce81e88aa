/*
 * An invented run of any size, whose pages are written by the master's own code: for tests of changes.h and of the page
 * at sizes that a machine of a few cores cannot run.
 *
 *   e2e_invented PEERS SEED        reads commands, one a line, and prints for each the length of the answer, a newline
 *                                  and the answer
 *   run MS                         lets time pass: steps, messages, rates; answers "ok"
 *   churn                          peers leave and join, groups, verdicts and calls begin and end; answers "ok"
 *   forget                         restarts the writer of changes, as when the master restarts; answers "ok"
 *   full                           answers with /status.json
 *   since REVISION                 answers with /status.json?since=REVISION, or "invalid"
 */
#include "core/prng.h"
#include "net/heap.h"
#include "ops/changes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SITES = 5,
    CALLS = 3,
    VERDICTS = 4,
    HEARTBEAT_US = 2500000,
    STEP_US = 1700000,
    SILENT_US = 5000000,
    DAY_US = 86400, /* seconds, for the uptime at the start */
    GONE = 3,
    ALL = 1000000, /* of a million */
};

static const char gone_words[] = "its control connection broke, and its process is gone (reported by 2 peers)";
static struct pccl_prng prng;
static struct pccl_peer_figure *peers;
static uint64_t received_us[PCCL_PEERS_MAX], trained_us[PCCL_PEERS_MAX];
static struct pccl_group_figure groups[2];
static struct pccl_wait waits[CALLS];
static struct pccl_verdict_figure verdicts[VERDICTS];
static struct pccl_link_row rows[PCCL_FIGURES_ROWS_MAX];
static struct pccl_figure links[PCCL_FIGURES_LINKS_MAX];
static const uint8_t ways[PCCL_FIGURES_ROWS_MAX]; /* PCCL_WAY_NONE */
static struct pccl_link_blocks_row blocks[PCCL_LINK_BLOCKS];
static struct pccl_figures run;
static struct pccl_changes changes;
static uint64_t arrivals, step_number = 84000, stepped_us;

static uint64_t below(uint64_t bound) { return pccl_prng_below(&prng, bound); }
static bool chance(uint32_t per_million) { return pccl_prng_chance(&prng, per_million); }

/* Returns the site of a peer: neighbors in the ring are at one site. */
static uint32_t site_of(uint64_t number)
{
    return (uint32_t)(number * SITES / pccl_max_u64(run.peer_count, 1) % SITES);
}

static uint64_t rate_between(uint32_t from, uint32_t to)
{
    uint64_t far = from > to ? from - to : to - from;
    return (far == 0 ? 1100000000 : 260000000 / (far * far)) / 100 * (70 + below(60));
}

static uint32_t trip_between(uint32_t from, uint32_t to)
{
    uint32_t far = from > to ? from - to : to - from;
    return (far == 0 ? 180 : far * 21000) + (uint32_t)below(90);
}

static void invent_peer(struct pccl_peer_figure *peer, uint32_t index)
{
    static const char *const sites[SITES] = {"fra", "ams", "ash", "sin", "sao"};
    uint64_t number = ++arrivals;
    uint32_t site = site_of(index);
    *peer = (struct pccl_peer_figure){
        .id = pccl_prng_id(&prng),
        .number = number,
        .standing = PCCL_STANDING_MEMBER,
        .rank = index,
        .position = index,
        .address = pccl_address_v4(10, (uint8_t)(20 + site), (uint8_t)(index / 250), (uint8_t)(2 + index % 250), 48149),
        .place = {.state = PCCL_PLACE_ELSEWHERE}};
    (void)snprintf(peer->name, sizeof peer->name, "%s-gpu-%03u", sites[site], index);
    received_us[index] = run.now_us - below(HEARTBEAT_US);
    trained_us[index] = run.now_us - below(STEP_US);
}

/* Returns true for a peer that sends nothing. */
static bool is_lost(uint32_t index) { return index == 7 || peers[index].place.state == PCCL_PLACE_DISCONNECTED; }

/* Takes new figures of the links of some peers. */
static void measure(uint32_t per_million)
{
    uint32_t count = run.peer_count;
    for (uint32_t i = 0; i < count; i++) {
        if ((i == count / 2 && per_million < ALL) || !chance(per_million))
            continue;
        uint32_t here = site_of(i), next = site_of((i + 1) % count);
        peers[i].predicted = rate_between(here, next);
        peers[i].rate = peers[i].achieved = peers[i].predicted / 100 * (80 + below(18));
        peers[i].rtt_us = trip_between(here, next);
        for (uint32_t k = 0; run.row_count > 0 && k < count; k++)
            if (k != i)
                links[i * count + k] = (struct pccl_figure){.source = PCCL_FIGURE_TESTED,
                                                            .rate = rate_between(here, site_of(k)),
                                                            .rtt_us = trip_between(here, site_of(k))};
    }
    for (uint32_t i = 0; i < run.block_count; i++) {
        if (!chance(per_million))
            continue;
        for (uint32_t k = 0; k < blocks[i].count; k++)
            blocks[i].blocks[k] = (struct pccl_link_block){
                .rate = rate_between(i * SITES / blocks[i].count, k * SITES / blocks[i].count),
                .rtt_us = trip_between(i * SITES / blocks[i].count, k * SITES / blocks[i].count),
                .known = chance(900000) ? (uint32_t)below(200) : 0,
                .unreached = chance(5000)};
    }
}

static void arrange_links(void)
{
    uint32_t count = run.peer_count;
    run.row_count = count > 1 && count <= PCCL_FIGURES_ROWS_MAX ? count : 0;
    run.block_count = count > PCCL_FIGURES_ROWS_MAX ? PCCL_LINK_BLOCKS : 0;
    for (uint32_t i = 0; i < run.row_count; i++)
        rows[i] = (struct pccl_link_row){.rank = i, .count = count, .links = links + i * count, .ways = ways};
    for (uint32_t i = 0; i < run.block_count; i++) {
        uint32_t begin = i * count / PCCL_LINK_BLOCKS;
        blocks[i].position = begin;
        blocks[i].members = (i + 1) * count / PCCL_LINK_BLOCKS - begin;
        blocks[i].count = PCCL_LINK_BLOCKS;
    }
}

/* Sets ages, which the figures contain, from times. */
static void set_ages(void)
{
    for (uint32_t i = 0; i < run.peer_count; i++) {
        peers[i].received_us = run.now_us - received_us[i];
        if (peers[i].training_us != UINT64_MAX)
            peers[i].training_us = run.now_us - trained_us[i];
        if (peers[i].place.state != PCCL_PLACE_DISCONNECTED)
            peers[i].place.state = peers[i].received_us > SILENT_US ? PCCL_PLACE_SILENT : PCCL_PLACE_ELSEWHERE;
    }
}

static void take_step(void)
{
    uint64_t tag = ++step_number;
    stepped_us += STEP_US;
    double base = 2.1 + 60.0 / (double)(step_number - 83900);
    for (uint32_t i = 0; i < run.peer_count; i++) {
        struct pccl_peer_figure *peer = &peers[i];
        if (peer->standing != PCCL_STANDING_MEMBER || is_lost(i) || chance(3000))
            continue;
        received_us[i] = trained_us[i] = run.now_us - below(400000);
        peer->training_us = 0;
        peer->training_step = tag - (i % 211 == 3 ? 4 : 0);
        peer->training_loss = base + 0.001 * (double)below(90);
        peer->place.call = chance(930000) ? PCCL_CALL_NONE : PCCL_CALL_OPERATION;
        peer->place.detail = tag % 8;
        pccl_tally_step(&run.tally, tag, peer->training_loss);
    }
    bool commits = !chance(25000);
    run.tally.begun[0]++;
    pccl_tally_outcome(&run.tally, 0, commits, 355000000, 700000, run.now_us);
    run.counts.committed += commits;
    run.counts.aborted += !commits;
}

static void pass(uint64_t ms)
{
    for (uint64_t end_us = run.now_us + ms * 1000; run.now_us < end_us;) {
        run.now_us = pccl_min_u64(end_us, run.now_us + 100000);
        run.uptime_us = run.now_us - 1000000;
        for (uint32_t i = 0; i < run.peer_count; i++)
            if (!is_lost(i) && run.now_us - received_us[i] > HEARTBEAT_US)
                received_us[i] = run.now_us - below(100000);
        if (run.now_us >= stepped_us + STEP_US)
            take_step();
        for (uint32_t i = 0; i < run.wait_count; i++)
            waits[i].since_us += 100000;
    }
    pccl_tally_turn(&run.tally, run.now_us);
    measure(20000);
    set_ages();
}

static void add_verdict(enum pccl_verdict_class class, uint32_t peer, uint32_t other, bool finding)
{
    if (run.verdict_count == VERDICTS || peer >= run.peer_count || other >= run.peer_count)
        return;
    struct pccl_verdict_figure *verdict = &verdicts[run.verdict_count++];
    *verdict = (struct pccl_verdict_figure){
        .entry = {.class = class, .peer = peers[peer].id, .finding = finding, .number = 1 + run.tally.verdicts[0]++}};
    verdict->entry.since_us = run.now_us - below(90000000);
    if (class == PCCL_VERDICT_SLOW_COMPUTATION) {
        pccl_text_format(&verdict->entry.evidence,
                         "it enters operations 610 ms after the others (median of 32 operations, each of 1.7 s)");
        pccl_text_format(&verdict->entry.action, "none");
    } else if (class == PCCL_VERDICT_SLOW_LINK) {
        verdict->entry.other = peers[other].id;
        pccl_text_format(&verdict->entry.evidence,
                         "11.4 MB/s while it usually carries 246 MB/s; reported by peer %s '%s' and peer %s '%s'",
                         pccl_id_str(&peers[peer].id), peers[peer].name, pccl_id_str(&peers[other].id),
                         peers[other].name);
        pccl_text_format(&verdict->entry.action, "the ring avoids it since 20 s");
    } else {
        pccl_text_format(&verdict->entry.evidence,
                         "peer %s '%s' and %u more have waited 6.2 s for it to enter the operation with tag 3, and it "
                         "is not waiting for any peer",
                         pccl_id_str(&peers[other].id), peers[other].name, run.peer_count - 2);
        pccl_text_format(&verdict->entry.action, "none: waiting peers can abort or set a deadline; a silent peer is "
                                                 "removed after silence_ms");
    }
}

static void add_call(uint32_t missing)
{
    if (run.wait_count == CALLS || missing + 2 >= run.peer_count)
        return;
    struct pccl_wait *wait = &waits[run.wait_count++];
    *wait = (struct pccl_wait){.call = PCCL_CALL_OPERATION,
                               .collective = PCCL_ALL_REDUCE,
                               .instance = {.tag = step_number % 8, .use = (uint32_t)step_number},
                               .since_us = 6200000,
                               .world = run.peer_count,
                               .missing_count = missing,
                               .entered_count = run.peer_count - missing};
    for (uint32_t i = 0; i < PCCL_PLACES_MAX && i < run.peer_count - missing; i++)
        wait->entered[i] = peers[missing + i].id;
    for (uint32_t i = 0; i < PCCL_PLACES_MAX && i < missing; i++) {
        uint32_t who = (7 + i) % run.peer_count;
        wait->missing[i] = peers[who].place;
        wait->missing[i].peer = peers[who].id;
    }
}

static void remove_peer(uint32_t index)
{
    memmove(&run.gone[1], &run.gone[0], (GONE - 1) * sizeof run.gone[0]);
    run.gone[0] = (struct pccl_removed_figure){.id = peers[index].id, .since_us = 0};
    memcpy(run.gone[0].name, peers[index].name, sizeof run.gone[0].name);
    pccl_text_format(&run.gone[0].reason,
                     "its control connection broke, and its process is gone (reported by 2 peers)");
    run.gone_count = GONE;
    for (uint32_t i = index; i + 1 < run.peer_count; i++) {
        peers[i] = peers[i + 1];
        received_us[i] = received_us[i + 1];
        trained_us[i] = trained_us[i + 1];
    }
    run.peer_count--;
}

static void churn(void)
{
    for (uint32_t i = 0; i < run.gone_count; i++)
        run.gone[i].since_us += 7000000;
    for (int i = 0; i < 2 && run.peer_count > 2 && chance(400000); i++)
        remove_peer((uint32_t)below(run.peer_count));
    for (int i = 0; i < 3 && run.peer_count < PCCL_PEERS_MAX && chance(400000); i++) {
        run.peer_count++;
        invent_peer(&peers[run.peer_count - 1], run.peer_count - 1);
        peers[run.peer_count - 1].standing = chance(500000) ? PCCL_STANDING_NEWCOMER : PCCL_STANDING_MEMBER;
        peers[run.peer_count - 1].training_us = UINT64_MAX;
    }
    uint32_t any = (uint32_t)below(run.peer_count);
    peers[any].fetching = !peers[any].fetching; /* a field begins or ends */
    peers[any].donors = 2;
    peers[any].draining = chance(300000);
    run.verdict_count = run.wait_count = 0;
    for (uint32_t i = 0; i < below(VERDICTS); i++)
        add_verdict(i % 2 == 0 ? PCCL_VERDICT_SLOW_LINK : PCCL_VERDICT_SLOW_COMPUTATION,
                    (uint32_t)below(run.peer_count), (uint32_t)below(run.peer_count), chance(300000));
    for (uint32_t i = 0; i < below(CALLS); i++)
        add_call((uint32_t)below(30));
    run.group_count = 1 + (uint32_t)below(2);
    groups[0].members = run.peer_count;
    groups[0].sync_round += below(2);
    run.epoch.number++;
    run.waits_left_out = chance(300000);
    arrange_links();
    set_ages();
}

/* The faults that the pictures show. */
static void set_faults(void)
{
    uint32_t count = run.peer_count, middle = count / 2;
    peers[middle].achieved = peers[middle].rate = 11400000;
    if (run.row_count > 0)
        links[middle * count + middle + 1].rate = 11400000;
    if (count > 60) {
        memcpy(peers[12].name, "<b>nobody</b>&amp;", sizeof "<b>nobody</b>&amp;");
        peers[41].place.state = PCCL_PLACE_DISCONNECTED;
        received_us[41] = run.now_us - 4200000;
        peers[20].draining = true;
        add_verdict(PCCL_VERDICT_SLOW_COMPUTATION, count / 3, 2, true);
        for (uint32_t i = count - 2; i < count; i++) {
            peers[i].standing = PCCL_STANDING_NEWCOMER;
            peers[i].training_us = UINT64_MAX;
        }
        run.counts.members -= 2;
        run.counts.pending = 2;
        groups[0].members -= 2;
        run.gone[0] = (struct pccl_removed_figure){.id = pccl_prng_id(&prng), .name = "sin-gpu-400"};
        run.gone[0].since_us = 184000000;
        pccl_text_format(&run.gone[0].reason, "%s", gone_words);
        run.gone_count = 1;
    }
    add_verdict(PCCL_VERDICT_SLOW_LINK, middle, middle + 1, false);
    if (count > 7) {
        received_us[7] = run.now_us - 9100000;
        add_verdict(PCCL_VERDICT_NOT_ENTERED, 7, 2, false);
    }
    set_ages();
    if (count > 3)
        add_call(count > 60 ? 3 : 1);
}

static void begin(uint32_t count, uint64_t seed)
{
    pccl_prng_seed(&prng, seed);
    run = (struct pccl_figures){.driver = {.version = "0.1.0"},
                                .now_us = UINT64_C(1000000) * DAY_US * 2,
                                .lineage = pccl_prng_id(&prng),
                                .epoch = {1, 12},
                                .rows = rows,
                                .blocks = blocks,
                                .groups = groups,
                                .waits = waits,
                                .verdicts = verdicts,
                                .counts = {.members = count, .groups = 1, .committed = 48211, .aborted = 17},
                                .group_count = 1};
    peers = calloc(PCCL_PEERS_MAX, sizeof *peers);
    if (peers == NULL)
        abort();
    run.peers = peers;
    run.peer_count = count;
    for (uint32_t i = 0; i < count; i++)
        invent_peer(&peers[i], i);
    groups[0] = (struct pccl_group_figure){.members = count, .view = {1, 12}, .sync_round = 211, .revision = 844};
    groups[1] = (struct pccl_group_figure){.number = 1};
    stepped_us = run.now_us;
    arrange_links();
    measure(ALL);
    pass(900000); /* ten minutes of bars, and more steps than are kept */
    if (count > 1)
        set_faults();
    pccl_changes_init(&changes, pccl_heap(), pccl_prng_u64(&prng));
}

static void answer(const char *bytes, size_t length)
{
    printf("%zu\n", length);
    (void)fwrite(bytes, 1, length, stdout);
    (void)fflush(stdout);
}

/* Answers with the text, and frees it. */
static void finish(struct pccl_print *print)
{
    if (print->failed)
        abort();
    answer(print->bytes, print->length);
    pccl_print_fini(print);
}

static void answer_full(void)
{
    struct pccl_print print;
    uint32_t at = 0;
    pccl_print_init(&print, pccl_heap(), PCCL_PAGE_BYTES_MAX);
    while (pccl_page_json(&run, &at, &print))
        ;
    finish(&print);
}

static void answer_since(const char *text)
{
    struct pccl_print print;
    uint64_t since;
    uint32_t at = 0;
    if (!pccl_changes_read(&changes, text, strlen(text), &since)) {
        answer("invalid", 7);
        return;
    }
    pccl_print_init(&print, pccl_heap(), PCCL_PAGE_BYTES_MAX);
    if (!pccl_changes_begin(&changes, &run, since))
        abort();
    while (pccl_changes_next(&changes, &run, &at, &print))
        ;
    finish(&print);
}

int main(int argc, char **argv)
{
    char line[256];
    uint64_t count = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
    if (count == 0 || count > PCCL_PEERS_MAX) {
        fprintf(stderr, "usage: e2e_invented PEERS SEED, with 1 to %d peers\n", PCCL_PEERS_MAX);
        return 2;
    }
    begin((uint32_t)count, strtoull(argv[2], NULL, 10));
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "since ", 6) == 0) {
            answer_since(line + 6);
            continue;
        }
        if (strcmp(line, "full") == 0) {
            answer_full();
            continue;
        }
        if (strncmp(line, "run ", 4) == 0) {
            pass(strtoull(line + 4, NULL, 10));
        } else if (strcmp(line, "churn") == 0) {
            churn();
        } else if (strcmp(line, "forget") == 0) {
            pccl_changes_fini(&changes);
            pccl_changes_init(&changes, pccl_heap(), pccl_prng_u64(&prng));
        } else {
            fprintf(stderr, "unknown command: %s\n", line);
            return 2;
        }
        answer("ok", 2);
    }
    pccl_changes_fini(&changes);
    free(peers);
    return 0;
}
