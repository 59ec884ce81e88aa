#include "ops/pages.h"

#include "ops/json.h"
#include "ops/shares.h"
#include "wire/describe.h"
#include "wire/cost.h"

static const char *const standings[] = {[PCCL_STANDING_MEMBER] = "member",
                                        [PCCL_STANDING_NEWCOMER] = "newcomer",
                                        [PCCL_STANDING_RETURNING] = "returning",
                                        [PCCL_STANDING_LEAVING] = "leaving"};

static const char *const ways[] = {
    [PCCL_WAY_NONE] = NULL, [PCCL_WAY_DIRECT] = "direct", [PCCL_WAY_REVERSED] = "reversed"};

struct pccl_page_list pccl_page_list(const struct pccl_figures *f, enum pccl_page_part part)
{
    const struct pccl_page_list lists[] = {[PCCL_PAGE_HEAD] = {NULL, 1},
                                           [PCCL_PAGE_REMOVED] = {"gone", f->gone_count},
                                           [PCCL_PAGE_ROW] = {"links", f->row_count},
                                           [PCCL_PAGE_BLOCK] = {"link_blocks", f->block_count},
                                           [PCCL_PAGE_PEER] = {"peers", f->peer_count},
                                           [PCCL_PAGE_GROUP] = {"groups", f->group_count},
                                           [PCCL_PAGE_VERDICT] = {"verdicts", f->verdict_count},
                                           [PCCL_PAGE_WAIT] = {"calls", f->wait_count},
                                           [PCCL_PAGE_TAIL] = {NULL, 1}};
    return lists[part];
}

enum pccl_page_part pccl_page_part(const struct pccl_figures *figures, uint32_t at, uint32_t *index)
{
    enum pccl_page_part part = PCCL_PAGE_HEAD;
    for (; part < PCCL_PAGE_TAIL && at >= pccl_page_list(figures, part).count; part++)
        at -= pccl_page_list(figures, part).count;
    *index = at;
    return part;
}

static const struct pccl_peer_figure *find_peer(const struct pccl_figures *figures, const struct pccl_id *id)
{
    for (uint32_t i = 0; i < figures->peer_count; i++)
        if (pccl_id_equal(&figures->peers[i].id, id))
            return &figures->peers[i];
    return NULL;
}

static const char *collective_of(const struct pccl_wait *wait) { return pccl_collective_name(wait->collective); }

/* ---- JSON ---- */

/* Writes a 64-bit number as a string, because JSON numbers are not exact. Used for tags. */
static void put_exact(struct pccl_json *json, const char *key, uint64_t value)
{
    struct pccl_text text;
    pccl_text_format(&text, "%" PRIu64, value);
    pccl_json_string(json, key, text.bytes);
}

static void put_epoch(struct pccl_json *json, const char *key, const struct pccl_epoch *epoch)
{
    struct pccl_text text;
    pccl_text_format(&text, "%u.%" PRIu64, epoch->inc, epoch->number);
    pccl_json_string(json, key, text.bytes);
}

static void put_id_or_null(struct pccl_json *json, const char *key, const struct pccl_id *id)
{
    if (pccl_id_is_zero(id))
        pccl_json_null(json, key);
    else
        pccl_json_id(json, key, id);
}

/* Writes the call in the words used in messages, or null if the peer is in its own code or its call is unknown. */
static void put_place(struct pccl_json *json, const struct pccl_place *place)
{
    struct pccl_text words;
    if (place->call == PCCL_CALL_NONE) {
        pccl_json_null(json, "in");
    } else {
        pccl_text_clear(&words);
        pccl_describe_call(&words, place->call, place->collective, place->detail);
        pccl_json_string(json, "in", words.bytes);
    }
    pccl_json_bool(json, "connected", place->state != PCCL_PLACE_DISCONNECTED);
    pccl_json_bool(json, "silent", place->state == PCCL_PLACE_SILENT);
}

static uint64_t operations_under_way(const struct pccl_tally *tally)
{
    return pccl_tally_sum(tally->begun, PCCL_TALLY_KINDS) - pccl_tally_sum(tally->committed, PCCL_TALLY_KINDS) -
           pccl_tally_sum(tally->aborted, PCCL_TALLY_KINDS);
}

static void json_spans(const struct pccl_tally *tally, struct pccl_json *json)
{
    static const char *const names[] = {"committed", "aborted", "bytes"};
    pccl_json_open(json, "spans", '{');
    pccl_json_number(json, "ms", PCCL_TALLY_SPAN_US / 1000);
    pccl_json_number(json, "newest_ms", tally->turned_us % PCCL_TALLY_SPAN_US / 1000);
    for (uint32_t kind = 0; kind < PCCL_COUNT_OF(names); kind++) {
        pccl_json_open(json, names[kind], '[');
        for (uint32_t i = 1; i <= PCCL_TALLY_SPANS; i++) {
            const struct pccl_span *span = &tally->spans[(tally->span + i) % PCCL_TALLY_SPANS];
            const uint64_t counts[] = {span->committed, span->aborted, span->bytes};
            pccl_json_number(json, NULL, counts[kind]);
        }
        pccl_json_close(json, ']');
    }
    pccl_json_close(json, '}');
}

static void json_steps(const struct pccl_tally *tally, struct pccl_json *json)
{
    uint64_t known = pccl_min_u64(tally->step_count, PCCL_TALLY_STEPS);
    pccl_json_open(json, "steps", '[');
    for (uint64_t i = 0; i < known; i++) {
        const struct pccl_training_step *step = &tally->steps[(tally->step_count - known + i) % PCCL_TALLY_STEPS];
        pccl_json_open(json, NULL, '{');
        pccl_json_number(json, "step", step->step);
        pccl_json_number(json, "count", step->count);
        pccl_json_double(json, "loss", step->sum / step->count);
        pccl_json_double(json, "least", step->least);
        pccl_json_double(json, "most", step->most);
        pccl_json_close(json, '}');
    }
    pccl_json_close(json, ']');
}

/*
 * Returns an age in milliseconds. Both ends are rounded down, so that the difference of an age and the uptime stays the
 * same while time passes (changes.h).
 */
static uint64_t age_ms(const struct pccl_figures *f, uint64_t age_us)
{
    return f->now_us / 1000 - (f->now_us - pccl_min_u64(f->now_us, age_us)) / 1000;
}

static void json_gone(const struct pccl_figures *f, const struct pccl_removed_figure *gone, struct pccl_json *json)
{
    pccl_json_open(json, NULL, '{');
    pccl_json_id(json, "id", &gone->id);
    pccl_json_string(json, "name", gone->name);
    pccl_json_number(json, "since_ms", age_ms(f, gone->since_us));
    pccl_json_string(json, "reason", gone->reason.bytes);
    pccl_json_close(json, '}');
}

static void json_head(const struct pccl_figures *f, struct pccl_json *json)
{
    pccl_json_open(json, NULL, '{');
    pccl_json_string(json, "program", "pccl-master");
    pccl_json_string(json, "version", f->driver.version);
    pccl_json_number(json, "protocol", PCCL_PROTOCOL_VERSION);
    pccl_json_number(json, "uptime_ms", age_ms(f, f->uptime_us));
    put_id_or_null(json, "run", &f->lineage);
    put_epoch(json, "epoch", &f->epoch);
    pccl_json_bool(json, "takes_commands", f->driver.takes_commands);
    pccl_json_bool(json, "recovering", f->recovering);
    pccl_json_bool(json, "optimizing", f->optimizing);
    pccl_json_number(json, "members", f->counts.members);
    pccl_json_number(json, "newcomers", f->counts.pending);
    pccl_json_number(json, "update_round", f->rounds[PCCL_ROUND_UPDATE]);
    pccl_json_number(json, "update_votes", f->update_votes);
    pccl_json_number(json, "operations_under_way", operations_under_way(&f->tally));
    pccl_json_number(json, "operations_committed", f->counts.committed);
    pccl_json_number(json, "operations_aborted", f->counts.aborted);
    pccl_json_number(json, "fetches_done", f->tally.fetches);
    pccl_json_number(json, "fetches_failed", f->tally.fetches_failed);
    pccl_shares_put_run(json, f);
    json_spans(&f->tally, json);
    json_steps(&f->tally, json);
}

/* Writes a text, or null for NULL. */
static void put_string_or_null(struct pccl_json *json, const char *key, const char *value)
{
    if (value != NULL)
        pccl_json_string(json, key, value);
    else
        pccl_json_null(json, key);
}

/* Writes a rate; null for one at the limit, which is not a measurement. */
static void put_rate(struct pccl_json *json, const char *key, uint64_t rate)
{
    if (rate < PCCL_RATE_MOST)
        pccl_json_number(json, key, rate);
    else
        pccl_json_null(json, key);
}

/*
 * Writes the rates and round trips of the links to each rank. 0 means unreachable; null means unknown, too fast to be
 * measured, or the rank itself. `ways` has the end that dialed each link; null: it is down.
 */
static void json_row(const struct pccl_link_row *row, struct pccl_json *json)
{
    pccl_json_open(json, NULL, '{');
    pccl_json_number(json, "group", row->group);
    pccl_json_number(json, "rank", row->rank);
    for (int pass = 0; pass < 2; pass++) {
        pccl_json_open(json, pass == 0 ? "rates" : "rtts_us", '[');
        for (uint32_t i = 0; i < row->count; i++) {
            const struct pccl_figure *link = &row->links[i];
            bool known = pass == 0 ? link->source != PCCL_FIGURE_NONE : link->rtt_us != 0;
            if (known && pass == 0)
                put_rate(json, NULL, link->rate);
            else if (known)
                pccl_json_number(json, NULL, link->rtt_us);
            else
                pccl_json_null(json, NULL);
        }
        pccl_json_close(json, ']');
    }
    pccl_json_open(json, "ways", '[');
    for (uint32_t i = 0; i < row->count; i++)
        put_string_or_null(json, NULL, ways[row->ways[i]]);
    pccl_json_close(json, ']');
    pccl_json_close(json, '}');
}

/* Writes a number for each block of a row. */
static void json_blocks(const struct pccl_link_blocks_row *row, const char *key,
                        uint64_t (*number)(const struct pccl_link_block *block), struct pccl_json *json)
{
    pccl_json_open(json, key, '[');
    for (uint32_t i = 0; i < row->count; i++)
        put_rate(json, NULL, number(&row->blocks[i]));
    pccl_json_close(json, ']');
}

static uint64_t rate_of(const struct pccl_link_block *block) { return block->rate; }
static uint64_t rtt_of(const struct pccl_link_block *block) { return block->rtt_us; }
static uint64_t known_of(const struct pccl_link_block *block) { return block->known; }
static uint64_t unreached_of(const struct pccl_link_block *block) { return block->unreached; }

/* Writes the slowest links from a section of the ring to each section. A rate of 0 means that none is known. */
static void json_block(const struct pccl_link_blocks_row *row, struct pccl_json *json)
{
    pccl_json_open(json, NULL, '{');
    pccl_json_number(json, "group", row->group);
    pccl_json_number(json, "position", row->position);
    pccl_json_number(json, "members", row->members);
    json_blocks(row, "rates", rate_of, json);
    json_blocks(row, "rtts_us", rtt_of, json);
    json_blocks(row, "known", known_of, json);
    json_blocks(row, "unreachable", unreached_of, json);
    pccl_json_close(json, '}');
}

static void json_peer(const struct pccl_figures *f, const struct pccl_peer_figure *peer, struct pccl_json *json)
{
    pccl_json_open(json, NULL, '{');
    pccl_json_id(json, "id", &peer->id);
    pccl_json_string(json, "name", peer->name);
    pccl_json_string(json, "state", standings[peer->standing]);
    pccl_json_number(json, "group", peer->group);
    if (peer->standing == PCCL_STANDING_MEMBER) {
        pccl_json_number(json, "rank", peer->rank);
        pccl_json_number(json, "position", peer->position);
        put_rate(json, "rate_to_next", peer->rate);
        pccl_json_number(json, "rtt_to_next_us", peer->rtt_us);
        put_string_or_null(json, "way_to_next", ways[peer->way]);
        put_rate(json, "predicted_to_next", peer->predicted);
        put_rate(json, "achieved_to_next", peer->achieved);
    }
    if (peer->fetching)
        pccl_json_number(json, "fetches_from", peer->donors);
    if (peer->training_us != UINT64_MAX) {
        pccl_json_number(json, "step", peer->training_step);
        pccl_json_double(json, "loss", peer->training_loss);
        pccl_json_number(json, "told_ms", age_ms(f, peer->training_us));
    }
    pccl_json_string(json, "address", pccl_address_str(&peer->address));
    if (peer->reach == PCCL_REACH_UNKNOWN)
        pccl_json_null(json, "reachable");
    else
        pccl_json_bool(json, "reachable", peer->reach == PCCL_REACH_OPEN);
    pccl_json_number(json, "last_word_ms", age_ms(f, peer->received_us));
    put_place(json, &peer->place);
    pccl_shares_put(json, "shares", peer->recent_us);
    pccl_shares_put(json, "shares_whole", peer->whole_us);
    put_id_or_null(json, "waits_for", &peer->delayed_by);
    pccl_json_bool(json, "draining", peer->draining);
    pccl_json_close(json, '}');
}

static void json_group(const struct pccl_group_figure *group, struct pccl_json *json)
{
    pccl_json_open(json, NULL, '{');
    pccl_json_number(json, "number", group->number);
    pccl_json_number(json, "members", group->members);
    put_epoch(json, "view", &group->view);
    pccl_json_number(json, "sync_round", group->sync_round);
    pccl_json_number(json, "next_revision", group->revision);
    pccl_json_close(json, '}');
}

static void json_missing(const struct pccl_wait *wait, struct pccl_json *json)
{
    pccl_json_open(json, "missing", '[');
    for (uint32_t i = 0; i < wait->missing_count && i < PCCL_PLACES_MAX; i++) {
        pccl_json_open(json, NULL, '{');
        pccl_json_id(json, "peer", &wait->missing[i].peer);
        put_place(json, &wait->missing[i]);
        pccl_json_close(json, '}');
    }
    pccl_json_close(json, ']');
}

static void json_wait(const struct pccl_figures *f, const struct pccl_wait *wait, struct pccl_json *json)
{
    static const char *const calls[] = {[PCCL_CALL_UPDATE] = "update",
                                        [PCCL_CALL_PENDING] = "pending",
                                        [PCCL_CALL_OPERATION] = "operation",
                                        [PCCL_CALL_SYNC] = "sync",
                                        [PCCL_CALL_OPTIMIZE] = "optimize"};
    bool operation = wait->call == PCCL_CALL_OPERATION;
    pccl_json_open(json, NULL, '{');
    pccl_json_string(json, "call", calls[wait->call]);
    if (operation || wait->call == PCCL_CALL_SYNC)
        pccl_json_number(json, "group", wait->group);
    if (operation) {
        pccl_json_string(json, "kind", collective_of(wait));
        put_exact(json, "tag", wait->instance.tag);
        pccl_json_number(json, "use", wait->instance.use);
        put_exact(json, "subgroup", wait->instance.subgroup);
        put_exact(json, "pair", wait->instance.pair);
        pccl_json_number(json, "finished", wait->finished);
    } else {
        pccl_json_number(json, "round", wait->round);
    }
    pccl_json_number(json, "since_ms", age_ms(f, wait->since_us));
    pccl_json_number(json, "world", wait->world);
    pccl_json_number(json, "come_count", wait->entered_count);
    pccl_json_open(json, "come", '[');
    for (uint32_t i = 0; i < wait->entered_count && i < PCCL_PLACES_MAX; i++)
        pccl_json_id(json, NULL, &wait->entered[i]);
    pccl_json_close(json, ']');
    pccl_json_number(json, "missing_count", wait->missing_count);
    json_missing(wait, json);
    pccl_json_close(json, '}');
}

static uint64_t since(const struct pccl_figures *f, const struct pccl_verdict_entry *entry)
{
    return f->now_us - pccl_min_u64(f->now_us, entry->since_us);
}

static void json_verdict(const struct pccl_figures *f, const struct pccl_verdict_figure *verdict,
                         struct pccl_json *json)
{
    const struct pccl_verdict_entry *entry = &verdict->entry;
    pccl_json_open(json, NULL, '{');
    pccl_json_string(json, "class", pccl_verdict_name((uint8_t)entry->class));
    pccl_json_bool(json, "finding", entry->finding);
    pccl_json_number(json, "number", entry->number);
    pccl_json_number(json, "group", verdict->group);
    pccl_json_id(json, "peer", &entry->peer);
    put_id_or_null(json, "other", &entry->other);
    pccl_json_number(json, "since_ms", age_ms(f, since(f, entry)));
    pccl_json_string(json, "evidence", entry->evidence.bytes);
    pccl_json_string(json, "action", entry->action.bytes);
    pccl_json_close(json, '}');
}

static void json_item(const struct pccl_figures *f, enum pccl_page_part part, uint32_t index, struct pccl_json *json)
{
    switch (part) {
    case PCCL_PAGE_HEAD: json_head(f, json); break;
    case PCCL_PAGE_REMOVED: json_gone(f, &f->gone[index], json); break;
    case PCCL_PAGE_ROW: json_row(&f->rows[index], json); break;
    case PCCL_PAGE_BLOCK: json_block(&f->blocks[index], json); break;
    case PCCL_PAGE_PEER: json_peer(f, &f->peers[index], json); break;
    case PCCL_PAGE_GROUP: json_group(&f->groups[index], json); break;
    case PCCL_PAGE_VERDICT: json_verdict(f, &f->verdicts[index], json); break;
    case PCCL_PAGE_WAIT: json_wait(f, &f->waits[index], json); break;
    case PCCL_PAGE_TAIL: PCCL_ASSERT(false); break;
    }
}

void pccl_page_item(const struct pccl_figures *f, enum pccl_page_part part, uint32_t index, struct pccl_print *print)
{
    struct pccl_json json = {.print = print};
    json_item(f, part, index, &json);
    if (part != PCCL_PAGE_HEAD)
        return;
    pccl_json_bool(&json, "more_calls", f->waits_left_out);
    pccl_json_close(&json, '}');
}

/* Ends the current list and begins the next ones, if item number `at` is the first one of a later list. */
static void json_next_list(const struct pccl_figures *f, uint32_t at, struct pccl_json *json)
{
    uint32_t begin = 1;
    for (enum pccl_page_part part = PCCL_PAGE_HEAD + 1; part < PCCL_PAGE_TAIL; part++) {
        if (at == begin && part > PCCL_PAGE_HEAD + 1)
            pccl_json_close(json, ']');
        if (at == begin)
            pccl_json_open(json, pccl_page_list(f, part).name, '[');
        begin += pccl_page_list(f, part).count;
    }
}

bool pccl_page_json(const struct pccl_figures *f, uint32_t *at, struct pccl_print *print)
{
    uint32_t index;
    enum pccl_page_part part = pccl_page_part(f, *at, &index);
    struct pccl_json writer = {.print = print, .depth = part == PCCL_PAGE_HEAD ? 0 : 2, .comma = index > 0},
                     *json = &writer;
    bool begins = *at == 1;
    json->comma = json->comma || begins;
    json_next_list(f, (*at)++, json);
    if (part != PCCL_PAGE_TAIL) {
        if (part != PCCL_PAGE_HEAD)
            pccl_json_begin_line(json);
        json_item(f, part, index, json);
        return true;
    }
    pccl_json_close(json, ']');
    pccl_json_bool(json, "more_calls", f->waits_left_out);
    pccl_json_close(json, '}');
    pccl_print_add(print, "\n");
    return false;
}

/* ---- text ---- */

static void put_line(struct pccl_print *print, const struct pccl_text *text)
{
    pccl_print_add_bytes(print, text->bytes, text->length);
    pccl_print_add(print, "\n");
}

/* Appends a peer, for example "peer 1a2b3c4d 'trainer-3'". */
static void add_peer(struct pccl_text *text, const struct pccl_figures *f, const struct pccl_id *id)
{
    const struct pccl_peer_figure *peer = find_peer(f, id);
    pccl_text_append(text, "peer %s", pccl_id_str(id));
    if (peer != NULL && peer->name[0] != '\0')
        pccl_text_append(text, " '%s'", peer->name);
}

/* Appends shares, with the name of the member for which others wait most, if it is not 0. */
static void add_shares(struct pccl_text *text, const struct pccl_figures *f, const uint64_t times_us[PCCL_TIME_USES],
                       const struct pccl_id *delayed_by)
{
    struct pccl_text by;
    pccl_text_clear(&by);
    if (!pccl_id_is_zero(delayed_by))
        add_peer(&by, f, delayed_by);
    pccl_shares_add(text, times_us, &by);
}

static void text_time(const struct pccl_figures *f, struct pccl_print *print)
{
    struct pccl_text text;
    if (pccl_tally_sum(f->recent_us, PCCL_TIME_USES) > 0) {
        pccl_text_format(&text, "time of the members: ");
        add_shares(&text, f, f->recent_us, &f->delays[0].peer);
        put_line(print, &text);
    }
    if (pccl_tally_sum(f->tally.time_us, PCCL_TIME_USES) > 0) {
        pccl_text_format(&text, "  since the master's start: ");
        pccl_shares_add(&text, f->tally.time_us, &(struct pccl_text){.length = 0});
        put_line(print, &text);
    }
}

static void text_head(const struct pccl_figures *f, struct pccl_print *print)
{
    struct pccl_text text;
    pccl_text_format(&text, "pccl-master %s, protocol %u, up for %s", f->driver.version, PCCL_PROTOCOL_VERSION,
                     pccl_duration_str(f->uptime_us));
    put_line(print, &text);
    if (f->recovering)
        pccl_text_format(&text, "recovering after a restart: %u of the run's peers have reconnected", f->peer_count);
    else if (f->counts.members == 0)
        pccl_text_format(&text, "idle: no members");
    else
        pccl_text_format(&text, "run %s, epoch %u.%" PRIu64 ", topology update %" PRIu64 ": %u members, %u newcomers",
                         pccl_id_str(&f->lineage), f->epoch.inc, f->epoch.number, f->rounds[PCCL_ROUND_UPDATE],
                         f->counts.members, f->counts.pending);
    put_line(print, &text);
    pccl_text_format(&text, "operations: %" PRIu64 " committed, %" PRIu64 " aborted, %" PRIu64 " running",
                     f->counts.committed, f->counts.aborted, operations_under_way(&f->tally));
    put_line(print, &text);
    text_time(f, print);
    if (f->optimizing)
        pccl_print_add(print, "topology optimization in progress\n");
    if (f->peer_count > 0)
        pccl_print_add(print, "\npeers\n");
}

static void text_peer(const struct pccl_figures *f, const struct pccl_peer_figure *peer, struct pccl_print *print)
{
    struct pccl_text text;
    pccl_text_format(&text, "  ");
    add_peer(&text, f, &peer->id);
    pccl_text_append(&text, ", %s of group %u", standings[peer->standing], peer->group);
    if (peer->standing == PCCL_STANDING_MEMBER)
        pccl_text_append(&text, ", rank %u", peer->rank);
    pccl_text_append(&text, ", %s, %s %s ago", pccl_address_str(&peer->address),
                     peer->place.state == PCCL_PLACE_SILENT ? "SILENT: last seen" : "last seen",
                     pccl_duration_str(peer->received_us));
    if (peer->place.state == PCCL_PLACE_DISCONNECTED)
        pccl_text_add(&text, ", DISCONNECTED");
    if (peer->reach == PCCL_REACH_CLOSED)
        pccl_text_add(&text, ", port not reachable: dials its links itself");
    if (peer->way == PCCL_WAY_REVERSED)
        pccl_text_add(&text, ", link to the next peer reversed");
    if (peer->draining)
        pccl_text_add(&text, ", leaves at the next update");
    if (peer->place.call != PCCL_CALL_NONE) {
        pccl_text_add(&text, ", waiting in ");
        pccl_describe_call(&text, peer->place.call, peer->place.collective, peer->place.detail);
    }
    put_line(print, &text);
    if (pccl_tally_sum(peer->recent_us, PCCL_TIME_USES) == 0)
        return;
    pccl_text_format(&text, "    time: ");
    add_shares(&text, f, peer->recent_us, &peer->delayed_by);
    put_line(print, &text);
}

static void text_group(const struct pccl_figures *f, const struct pccl_group_figure *group, struct pccl_print *print)
{
    struct pccl_text text;
    if (group == f->groups)
        pccl_print_add(print, "\ngroups\n");
    pccl_text_format(&text, "  group %u: %u members, view %u.%" PRIu64 ", synchronization round %" PRIu64,
                     group->number, group->members, group->view.inc, group->view.number, group->sync_round);
    put_line(print, &text);
}

static void add_names(const struct pccl_figures *f, const struct pccl_wait *wait, struct pccl_print *print)
{
    for (uint32_t i = 0; i < wait->entered_count && i < PCCL_PLACES_MAX; i++) {
        struct pccl_text text;
        pccl_text_format(&text, "%s", i == 0 ? "" : ", ");
        add_peer(&text, f, &wait->entered[i]);
        pccl_print_add_bytes(print, text.bytes, text.length);
    }
    if (wait->entered_count > PCCL_PLACES_MAX)
        pccl_print_format(print, " and %u more", wait->entered_count - PCCL_PLACES_MAX);
}

static void text_missing(const struct pccl_figures *f, const struct pccl_wait *wait, struct pccl_print *print)
{
    for (uint32_t i = 0; i < wait->missing_count && i < PCCL_PLACES_MAX; i++) {
        const struct pccl_place *place = &wait->missing[i];
        struct pccl_text text;
        pccl_text_format(&text, "    waiting for ");
        add_peer(&text, f, &place->peer);
        if (place->state == PCCL_PLACE_SILENT)
            pccl_text_append(&text, ", SILENT for %s", pccl_duration_str(place->since_us));
        else if (place->state == PCCL_PLACE_DISCONNECTED)
            pccl_text_append(&text, ", DISCONNECTED, last seen %s ago", pccl_duration_str(place->since_us));
        pccl_text_add(&text, ", in ");
        pccl_describe_call(&text, place->call, place->collective, place->detail);
        put_line(print, &text);
    }
    if (wait->missing_count > PCCL_PLACES_MAX) {
        pccl_print_format(print, "    and for %u more", wait->missing_count - PCCL_PLACES_MAX);
        pccl_print_add(print, "\n");
    }
}

static void text_wait(const struct pccl_figures *f, const struct pccl_wait *wait, struct pccl_print *print)
{
    struct pccl_text text;
    bool operation = wait->call == PCCL_CALL_OPERATION;
    if (wait == f->waits)
        pccl_print_add(print, "\npending calls\n");
    pccl_text_format(&text, "  ");
    pccl_describe_call(&text, wait->call, wait->collective, operation ? wait->instance.tag : wait->round);
    if (operation || wait->call == PCCL_CALL_SYNC)
        pccl_text_append(&text, " of group %u", wait->group);
    if (operation && !pccl_is_of_whole_group(&wait->instance))
        pccl_text_add(&text, " (subgroup or pair)");
    pccl_text_append(&text, ", for %s: %u of %u entered", pccl_duration_str(wait->since_us), wait->entered_count,
                     wait->world);
    if (operation)
        pccl_text_append(&text, ", %u finished", wait->finished);
    put_line(print, &text);
    if (wait->missing_count == 0)
        return;
    pccl_print_add(print, "    here: ");
    add_names(f, wait, print);
    pccl_print_add(print, "\n");
    text_missing(f, wait, print);
}

/*
 * Writes a verdict, for example "slow link: from peer a 'x' to peer b 'y' of group 0, for 3 s", with evidence and
 * action.
 */
static void text_verdict(const struct pccl_figures *f, const struct pccl_verdict_figure *verdict,
                         struct pccl_print *print)
{
    const struct pccl_verdict_entry *entry = &verdict->entry;
    struct pccl_text text;
    bool link = !pccl_id_is_zero(&entry->other);
    if (verdict == f->verdicts)
        pccl_print_add(print, "\nverdicts\n");
    pccl_text_format(&text, "  %s%s: %s", entry->finding ? "from the start: " : "",
                     pccl_verdict_name((uint8_t)entry->class), link ? "from " : "");
    add_peer(&text, f, &entry->peer);
    if (link) {
        pccl_text_add(&text, " to ");
        add_peer(&text, f, &entry->other);
    }
    pccl_text_append(&text, " of group %u, for %s", verdict->group, pccl_duration_str(since(f, entry)));
    put_line(print, &text);
    pccl_print_add(print, "    ");
    put_line(print, &entry->evidence);
    pccl_print_add(print, "    action: ");
    put_line(print, &entry->action);
}

bool pccl_page_text(const struct pccl_figures *f, uint32_t *at, struct pccl_print *print)
{
    uint32_t index;
    enum pccl_page_part part = pccl_page_part(f, (*at)++, &index);
    switch (part) {
    case PCCL_PAGE_HEAD: text_head(f, print); break;
    case PCCL_PAGE_REMOVED:
    case PCCL_PAGE_ROW:
    case PCCL_PAGE_BLOCK: break; /* only in JSON */
    case PCCL_PAGE_PEER: text_peer(f, &f->peers[index], print); break;
    case PCCL_PAGE_GROUP: text_group(f, &f->groups[index], print); break;
    case PCCL_PAGE_WAIT: text_wait(f, &f->waits[index], print); break;
    case PCCL_PAGE_VERDICT: text_verdict(f, &f->verdicts[index], print); break;
    case PCCL_PAGE_TAIL:
        if (f->waits_left_out)
            pccl_print_add(print, "  and more calls\n");
        break;
    }
    return part != PCCL_PAGE_TAIL;
}
