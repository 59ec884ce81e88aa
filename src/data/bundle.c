/* Bundles: which streams there are to or from a peer, and which bundles may have something to send. */
#include "data/internal.h"

#include "core/limits.h"
#include "net/heap.h"
#include "net/path.h"

static struct pccl_bundle *find(const struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing)
{
    for (struct pccl_table_node *node = pccl_table_find(&engine->bundles, pccl_id_hash(&engine->hash, peer)); node;
         node = pccl_table_find_next(node)) {
        struct pccl_bundle *bundle = PCCL_CONTAINER_OF(node, struct pccl_bundle, node);
        if (bundle->outgoing == outgoing && pccl_id_equal(&bundle->peer, peer))
            return bundle;
    }
    return NULL;
}

static struct pccl_bundle *find_or_make(struct pccl_engine *engine, const struct pccl_id *peer, bool outgoing)
{
    struct pccl_bundle *bundle = find(engine, peer, outgoing);
    if (bundle)
        return bundle;
    bundle = pccl_allocate(pccl_heap(), sizeof *bundle);
    if (!bundle)
        return NULL;
    bundle->peer = *peer;
    bundle->outgoing = outgoing;
    pccl_table_insert(&engine->bundles, &bundle->node, pccl_id_hash(&engine->hash, peer));
    return bundle;
}

static void release_if_empty(struct pccl_engine *engine, struct pccl_bundle *bundle)
{
    if (bundle->turn)
        return;
    for (struct pccl_bundle **at = &engine->writable[bundle->outgoing]; *at; at = &(*at)->next_writable) {
        if (*at != bundle)
            continue;
        *at = bundle->next_writable;
        break;
    }
    if (engine->sender == bundle)
        engine->sender = NULL;
    pccl_table_remove(&engine->bundles, &bundle->node);
    pccl_release(pccl_heap(), bundle, sizeof *bundle);
}

void pccl_bundle_pause(struct pccl_bundle *bundle) { pccl_pace_interrupt(&bundle->pace); }

static void renew(struct pccl_bundle *bundle)
{
    pccl_pace_interrupt(&bundle->pace);
    bundle->renewed = true;
}

/* ---- which streams there are ---- */

static void link_in(struct pccl_bundle *bundle, struct pccl_stream *stream)
{
    if (bundle->turn) {
        stream->next_in_bundle = bundle->turn->next_in_bundle;
        bundle->turn->next_in_bundle = stream;
    } else {
        bundle->turn = stream->next_in_bundle = stream;
    }
    stream->bundle = bundle;
    struct pccl_path path;
    if (bundle->outgoing && pccl_path_measure(stream->channel.socket, &path) && path.rtt_us >= PCCL_LONG_PATH_RTT_US)
        bundle->paced = true;
    renew(bundle);
}

static void unlink_from(struct pccl_bundle *bundle, struct pccl_stream *stream)
{
    struct pccl_stream *before = stream;
    while (before->next_in_bundle != stream)
        before = before->next_in_bundle;
    before->next_in_bundle = stream->next_in_bundle;
    if (bundle->turn == stream)
        bundle->turn = before == stream ? NULL : before->next_in_bundle;
    stream->bundle = NULL;
    stream->next_in_bundle = NULL;
    renew(bundle);
    release_if_empty(stream->engine, bundle);
}

enum pccl_status pccl_bundle_enter(struct pccl_stream *stream)
{
    struct pccl_engine *engine = stream->engine;
    struct pccl_bundle *bundle = find_or_make(engine, &stream->peer, stream->outgoing);
    if (!bundle)
        return PCCL_MEMORY;
    link_in(bundle, stream);
    struct pccl_lane *lane = pccl_exchange_connected(engine->exchange, &stream->peer, stream->outgoing, bundle);
    if (!lane) {
        unlink_from(bundle, stream);
        return PCCL_MEMORY;
    }
    bundle->lane = lane;
    pccl_bundle_mark_writable(engine, bundle);
    return PCCL_OK;
}

void pccl_bundle_leave(struct pccl_stream *stream)
{
    if (!stream->bundle)
        return;
    struct pccl_lane *lane = stream->bundle->lane;
    unlink_from(stream->bundle, stream); /* frees a bundle without streams, which is not writable any more */
    pccl_exchange_disconnected(lane);
}

void pccl_bundle_mark_writable(struct pccl_engine *engine, struct pccl_bundle *bundle)
{
    if (bundle->writable)
        return;
    bundle->writable = true;
    bundle->next_writable = engine->writable[bundle->outgoing];
    engine->writable[bundle->outgoing] = bundle;
}

void pccl_bundles_lose_patience(struct pccl_engine *engine)
{
    for (struct pccl_table_node *node = pccl_table_first(&engine->bundles); node;
         node = pccl_table_after(&engine->bundles, node)) {
        struct pccl_bundle *bundle = PCCL_CONTAINER_OF(node, struct pccl_bundle, node);
        if (bundle->waits_for_fast)
            pccl_bundle_mark_writable(engine, bundle);
    }
}
