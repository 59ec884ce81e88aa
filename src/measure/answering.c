/* Answering: one connection that another peer dialed to test its path to us. */
#include "measure/internal.h"

#include "net/heap.h"
#include "net/socket.h"

struct answerer {
    struct pccl_measure_link link; /* must come first */
    uint64_t told, told_us;        /* the bytes and the time of the last flood_seen */
};

static bool on_message(struct pccl_measure_link *link, const struct pccl_msg *msg, struct pccl_text *reason)
{
    if (msg->type == PCCL_MSG_link_bye) {
        pccl_text_format(reason, "it said good-bye");
        return false;
    }
    if (msg->type != PCCL_MSG_echo || msg->as.echo.answer) {
        pccl_text_format(reason, "'%s' is not allowed here", pccl_wire_name(msg->type));
        return false;
    }
    struct pccl_msg answer = {.type = PCCL_MSG_echo, .as.echo = {.answer = 1, .stamp = msg->as.echo.stamp}};
    if (pccl_channel_put_message(&link->channel, &answer))
        return true;
    pccl_text_format(reason, "it asks for more than it receives");
    return false;
}

/*
 * Sends at most one report in a visit, and none while the last one is unsent, so that they never
 * pile up.
 */
static void report_seen(struct answerer *answerer)
{
    struct pccl_measure_link *link = &answerer->link;
    uint64_t fresh = link->filler - answerer->told, now_us = pccl_now_us();
    if (fresh == 0 || (fresh < PCCL_MEASURE_SEEN_BYTES && now_us - answerer->told_us < PCCL_MEASURE_SEEN_US))
        return;
    struct pccl_msg msg = {.type = PCCL_MSG_flood_seen, .as.flood_seen = {.bytes = link->filler}};
    if (!pccl_channel_put_message(&link->channel, &msg))
        return;
    answerer->told = link->filler;
    answerer->told_us = now_us;
}

static void speak(struct pccl_measure_link *link)
{
    if (link->channel.out_start == link->channel.out_end)
        report_seen((struct answerer *)(void *)link);
    (void)pccl_channel_push(&link->channel); /* what the kernel does not take waits for the next visit */
}

/* The measurer accepts another connection in place of this one. */
static void leave_measurer(struct pccl_measurer *measurer)
{
    uv_mutex_lock(&measurer->lock);
    uint32_t before = measurer->answered--;
    uv_mutex_unlock(&measurer->lock);
    PCCL_ASSERT(before > 0);
}

static void on_ended(struct pccl_measure_link *link, enum pccl_link_end how, const struct pccl_text *reason)
{
    struct pccl_measurer *measurer = link->measurer;
    (void)how;
    leave_measurer(measurer);
    pccl_log_line(&measurer->events.log, PCCL_LOG_DEBUG,
                  "measure: a connection of peer %s has ended after %" PRIu64 " bytes: %s", pccl_id_str(&link->peer),
                  link->filler, reason->bytes);
}

static const struct pccl_measure_role answering = {
    .takes_filler = true, .message = on_message, .speak = speak, .ended = on_ended};

struct pccl_measure_link *pccl_measure_answerer_create(struct pccl_measurer *measurer, const struct pccl_id *peer,
                                                       uv_os_sock_t socket)
{
    return pccl_measure_link_allocate(measurer, &answering, sizeof(struct answerer), peer, socket);
}

/* A peer that dials more connections than a test has must have given up its oldest one. */
static void make_room(struct pccl_measurer *measurer, const struct pccl_id *peer)
{
    struct pccl_measure_link *oldest = NULL;
    struct pccl_text reason;
    uint32_t count = 0;
    for (struct pccl_list_node *at = measurer->links.previous; at != &measurer->links; at = at->previous) {
        struct pccl_measure_link *link = pccl_measure_link_in(at);
        if (link->role == &answering && pccl_id_equal(&link->peer, peer)) {
            count++;
            oldest = link;
        }
    }
    if (count < PCCL_POOL_MAX)
        return;
    pccl_text_format(&reason, "it has opened %u more", PCCL_POOL_MAX);
    pccl_measure_link_close(oldest);
    on_ended(oldest, 0, &reason);
}

void pccl_measure_answerer_open(struct pccl_measure_link *link)
{
    struct pccl_measurer *measurer = link->measurer;
    make_room(measurer, &link->peer);
    if (!pccl_measure_link_open(link))
        leave_measurer(measurer);
}
