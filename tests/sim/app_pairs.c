/*
 * Callers that send and receive: in half of the seeds, in most chapters, some pairs of members have streams of sends, a
 * few in flight, all with one tag, so that they match by the order of launches alone. Some members receive from any
 * sender in a chapter, under another tag, and all sends to them then have one form; they receive once for each send.
 * The content of a send depends on the two members and on the number of launches with the tag in this era; a member
 * that cannot launch one, or drops one that failed, is behind the other, until a deadline or the end of the era.
 */
#include "check.h"

#include <string.h>

enum { STREAM_TAG = 3, ANYBODY_TAG = 4, TIMEOUT_MS = 1500, PERCENT = 30 };

static uint64_t number_of(const struct pccl_id *id) { return id->bytes[0] | (uint64_t)id->bytes[1] << 8; }

static uint64_t hash_of(const struct sim *sim, const struct sim_peer *peer, const struct sim_stream *stream,
                        uint64_t salt)
{
    uint64_t mine = number_of(&peer->id), theirs = number_of(&stream->other);
    uint64_t ends = stream->sends ? sim_mix(mine, theirs) : sim_mix(theirs, mine);
    return sim_mix(sim_app_hash(sim, &peer->app, 0x9a1e5), sim_mix(ends, salt));
}

/* Returns 0 if the receiver does not receive from any sender; otherwise the form of all sends to it. */
static uint64_t form_for_anybody(const struct sim *sim, const struct sim_peer *peer, const struct sim_stream *stream)
{
    uint64_t receiver = number_of(stream->sends ? &stream->other : &peer->id);
    uint64_t hash = sim_app_hash(sim, &peer->app, sim_mix(receiver, 0xa2b0));
    return hash % 100 < 40 ? hash | 1 : 0;
}

static bool is_busy(const struct sim_stream *stream)
{
    bool busy = stream->left > 0;
    for (uint32_t i = 0; i < SIM_STREAM_LANES; i++)
        busy = busy || stream->lanes[i].state == SIM_LANE_FLYING;
    return busy;
}

/* Returns the stream used before, or a free one, or one of a departed member. There are enough for all. */
static struct sim_stream *stream_of(struct sim_app *app, const struct pccl_id *other, bool sends)
{
    struct sim_stream *free = NULL;
    for (uint32_t i = 0; i < SIM_STREAMS; i++) {
        struct sim_stream *stream = &app->streams[i];
        if (stream->sends == sends && pccl_id_equal(&stream->other, other))
            return stream;
        if (!is_busy(stream) && pccl_id_find(app->members, app->member_count, &stream->other) >= app->member_count)
            free = stream;
    }
    PCCL_ASSERT(free != NULL);
    *free = (struct sim_stream){.other = *other, .sends = sends};
    return free;
}

void sim_pairs_begin(struct sim *sim, struct sim_peer *peer)
{
    struct sim_app *app = &peer->app;
    if (!sim->plan.pairs || sim->resting)
        return;
    for (uint32_t i = 0; i < 2 * app->member_count; i++) {
        const struct pccl_id *other = &app->members[i / 2];
        if (pccl_id_equal(other, &peer->id))
            continue;
        struct sim_stream *stream = stream_of(app, other, i % 2 != 0);
        if (hash_of(sim, peer, stream, 1) % 100 >= PERCENT)
            continue;
        stream->left = 1 + (uint32_t)(hash_of(sim, peer, stream, 2) % 5);
        stream->act_at = sim->now + sim_random(sim, sim->plan.pause_us);
    }
}

static void launch(struct sim *sim, struct sim_peer *peer, struct sim_stream *stream, struct sim_lane *lane)
{
    uint64_t joint = sim_peer_joint(peer), sync = peer->machine->rounds[PCCL_ROUND_SYNC];
    uint64_t form = form_for_anybody(sim, peer, stream);
    uint32_t *made = &stream->made[form != 0];
    if (stream->joint != joint || stream->sync != sync)
        memset(stream->made, 0, sizeof stream->made);
    stream->joint = joint;
    stream->sync = sync;
    uint64_t step = sim_mix(sim_mix(joint, sync), *made), hash = sim_mix(sim->seed ^ 0x5e4d, step);
    struct sim_request request = {.tag = STREAM_TAG,
                                  .step = step,
                                  .collective = PCCL_SEND,
                                  .other = stream->other,
                                  .sends = stream->sends,
                                  .tiny = hash % 100 >= sim->plan.bulk_percent,
                                  .timeout_ms = TIMEOUT_MS};
    if (form != 0) {
        request.tag = ANYBODY_TAG;
        request.anybody = !stream->sends;
        request.tiny = form / 128 % 100 >= sim->plan.bulk_percent;
        hash = sim_mix(form, 0xf0f0);
    }
    request.count = request.tiny ? 1 + hash / 128 % SIM_ELEMENTS : 100000;
    if (hash / 1024 % 1000 < sim->plan.mismatch_permille && sim_chance(sim, 40)) {
        request.count = 2 + request.count % 2; /* its caller has a bug */
        request.tiny = true;
    }
    enum pccl_status status = sim_lane_launch(sim, peer, lane, &request);
    if (status == PCCL_OK) {
        ++*made;
        stream->left--;
    } else if (status == PCCL_PEER_LOST || status == PCCL_TOO_FEW_PEERS ||
               (status == PCCL_LIMIT && peer->config.send_links_max < PCCL_SEND_LINKS_MAX)) {
        stream->left = 0;
    } else if (status == PCCL_MEMORY && sim->oom_at != 0) {
        stream->act_at = sim->now + sim_random(sim, sim->plan.pause_us) + 1;
    } else if (pccl_peer_is_connected(peer->machine)) {
        sim_fail(sim, "I12 p%u: a send is refused: %s", peer->process.number, pccl_status_name(status));
    }
}

static void let_go(struct sim *sim, struct sim_peer *peer, struct sim_lane *lane)
{
    sim->totals.pair_commits += sim_lane_release(sim, peer, lane) == PCCL_CLASS_NONE;
}

bool sim_pairs_work(struct sim *sim, struct sim_peer *peer)
{
    bool over = true;
    for (uint32_t i = 0; i < SIM_STREAMS; i++) {
        struct sim_stream *stream = &peer->app.streams[i];
        for (uint32_t k = 0; k < SIM_STREAM_LANES && pccl_peer_is_connected(peer->machine); k++) {
            struct sim_lane *lane = &stream->lanes[k];
            if (lane->state == SIM_LANE_FLYING && lane->decided)
                let_go(sim, peer, lane);
            if (lane->state == SIM_LANE_IDLE && stream->left > 0 && sim->now >= stream->act_at)
                launch(sim, peer, stream, lane);
        }
        over = over && !is_busy(stream);
    }
    return over;
}

void sim_pairs_wait(struct sim *sim, struct sim_peer *peer)
{
    for (uint32_t i = 0; i < SIM_STREAMS; i++) {
        const struct sim_stream *stream = &peer->app.streams[i];
        bool idle = false;
        for (uint32_t k = 0; k < SIM_STREAM_LANES; k++) {
            idle = idle || stream->lanes[k].state == SIM_LANE_IDLE;
            if (stream->lanes[k].state == SIM_LANE_FLYING && stream->lanes[k].decided)
                sim_app_later(sim, peer, 0); /* a tombstone */
        }
        if (idle && stream->left > 0)
            sim_app_later(sim, peer, stream->act_at > sim->now ? stream->act_at - sim->now : 0);
    }
}

void sim_pairs_over(struct sim *sim, struct sim_peer *peer)
{
    for (uint32_t i = 0; i < SIM_STREAMS; i++)
        for (uint32_t k = 0; k < SIM_STREAM_LANES; k++) {
            struct sim_lane *lane = &peer->app.streams[i].lanes[k];
            if (lane->state != SIM_LANE_FLYING)
                continue;
            if (!lane->decided)
                sim_fail(sim, "I12 p%u is unconnected and a send of it never ended", peer->process.number);
            let_go(sim, peer, lane);
        }
}
