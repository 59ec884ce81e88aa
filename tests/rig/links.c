/*
 * Connections without sockets: two bounded byte queues each. A sender that finds no room waits with its frame or
 * payload half sent, at any byte. Bytes written to a broken connection vanish, as with TCP.
 */
#include "rig.h"

#include "wire/frame.h"

static uint64_t below(struct rig_world *world, uint64_t bound) { return pccl_prng_below(&world->prng, bound); }

bool rig_wants(const struct rig_rank *rank, uint32_t to)
{
    if ((rank->view >> to & 1) == 0 || to == rank->number)
        return false;
    if (rank->world->spec->direct)
        return true;
    uint32_t ring[RIG_RANKS_MAX];
    const uint32_t count = rig_ring_of(rank->world->spec, rank->view, ring);
    for (uint32_t i = 0; i < count; i++)
        if (ring[i] == rank->number)
            return ring[(i + 1) % count] == to;
    return false;
}

static void clear_end(struct rig_end *end) { memset(end, 0, sizeof *end); }

void rig_touch(struct rig_world *world, uint32_t from, uint32_t to)
{
    const uint32_t lane = from * (world->spec->ranks - 1) + (to < from ? to : to - 1);
    for (uint32_t slot = 0; slot < world->spec->pool; slot++) {
        const uint32_t number = lane * world->spec->pool + slot;
        if (!world->stale[number])
            world->stale_list[world->stale_count++] = number;
        world->stale[number] = true;
    }
}

void rig_links_init(struct rig_world *world)
{
    const struct rig_spec *spec = world->spec;
    world->connection_count = 0;
    for (uint32_t from = 0; from < spec->ranks; from++)
        for (uint32_t to = 0; to < spec->ranks; to++)
            for (uint32_t slot = 0; slot < spec->pool && from != to; slot++) {
                struct rig_connection *connection = &world->connections[world->connection_count++];
                connection->from = from;
                connection->to = to;
                connection->broken = true;
                connection->dialed = false;
                for (uint32_t side = 0; side < 2; side++) {
                    clear_end(&connection->ends[side]);
                    connection->pipes[side].first = connection->pipes[side].count = 0;
                }
                if (spec->linked && rig_wants(&world->ranks[from], to)) {
                    rig_dial(world, connection);
                    rig_dial(world, connection);
                }
            }
}

void rig_open_end(struct rig_world *world, struct rig_connection *connection, uint32_t side)
{
    struct rig_rank *rank = rig_end_rank(world, connection, side);
    const uint32_t peer = side == 0 ? connection->to : connection->from;
    clear_end(&connection->ends[side]);
    struct pccl_lane *lane =
        pccl_exchange_connected(rank->exchange, &world->spec->ids[peer], side == 0, &rank->writable[peer][side == 0]);
    if (lane == NULL) {
        if (rank->memory.failures == 0)
            rig_violation(world, "rank %u cannot use a new connection", rank->number);
        connection->broken = true; /* the driver closes it */
        return;
    }
    connection->ends[side].lane = lane;
    connection->ends[side].open = connection->ends[side].fresh = true;
}

/* A running operation that is not done must fail with its lane; one that is done never fails. */
static void note_lost_lane(struct rig_rank *rank, uint32_t peer, bool outgoing)
{
    for (uint32_t op = 0; op < rank->world->spec->op_count; op++) {
        struct rig_attempt *attempt = rank->running[op];
        struct pccl_plan plan;
        if (attempt == NULL || (attempt->view >> peer & 1) == 0)
            continue;
        const struct rig_place *place = &attempt->place;
        uint32_t other = 0;
        while (place->ring[other] != peer)
            other++;
        PCCL_ASSERT(rig_plan(rank->world->spec, op, place, &plan));
        const uint32_t own = place->seat.rank;
        if (pccl_schedules[plan.algorithm]->sends(plan.seat, outgoing ? own : other, outgoing ? other : own))
            attempt->links_lost++;
    }
}

void rig_close_end(struct rig_world *world, struct rig_connection *connection, uint32_t side)
{
    struct rig_end *end = &connection->ends[side];
    struct rig_rank *rank = rig_end_rank(world, connection, side);
    const uint32_t peer = side == 0 ? connection->to : connection->from;
    rig_break(world, connection);
    rig_trace(world, "rank %u: connection %u>%u is gone", rank->number, connection->from, connection->to);
    /* If its receiver closes it, or receives its good-bye, the sender alone fails the data sent over it. */
    const bool complete = side == 1 && below(world, 2) == 0;
    if (!complete)
        note_lost_lane(rank, peer, side == 0);
    pccl_exchange_dropped(rank->exchange, end->sending || below(world, 2) == 0 ? &end->departure : NULL,
                          end->receiving || below(world, 2) == 0 ? &end->arrival : NULL);
    struct pccl_lane *lane = end->lane;
    clear_end(end);
    pccl_exchange_disconnected(lane, complete);
    for (uint32_t op = 0; op < world->spec->op_count; op++) {
        const struct rig_attempt *attempt = rank->running[op];
        if (attempt != NULL && attempt->links_lost > 0 && attempt->state == RIG_RUNNING)
            rig_violation(world, "rank %u: operation %u goes on although a connection it uses was lost", rank->number,
                          op);
    }
}

/* Breaks a connection. Of the bytes in flight all, none, or the first ones may still arrive. */
void rig_break(struct rig_world *world, struct rig_connection *connection)
{
    if (connection->broken)
        return;
    connection->broken = true;
    connection->late[0] = below(world, 4) == 0;
    connection->late[1] = below(world, 4) == 0;
    for (uint32_t path = 0; path < 2; path++) {
        struct rig_pipe *pipe = &connection->pipes[path];
        switch (below(world, 4)) {
        case 0: break;
        case 1: pipe->count = (uint32_t)below(world, pipe->count + 1); break;
        default: pipe->count = 0;
        }
    }
}

bool rig_may_next(const struct rig_world *world, const struct rig_connection *connection, uint32_t side)
{
    const struct rig_end *end = &connection->ends[side];
    if (!end->open || end->sending)
        return false;
    const struct rig_rank *rank = &world->ranks[side == 0 ? connection->from : connection->to];
    return end->fresh || rank->writable[side == 0 ? connection->to : connection->from][side == 0];
}

static uint32_t put_u16(uint8_t *bytes, uint32_t value)
{
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
    return 2;
}

static uint32_t get_u16(const uint8_t *bytes) { return bytes[0] | (uint32_t)bytes[1] << 8; }

enum { HEADER_BYTES = 4 }; /* body length, type */

/* Repacks where it shows: the ends of a block of 16 bits are rounded when they are unpacked. */
static void repack(struct rig_world *world, const struct rig_end *end, uint32_t peer)
{
    const struct rig_attempt *attempt = pccl_transfer_user(end->departure.transfer);
    const struct rig_place *place = &attempt->place;
    const struct pccl_descriptor *descriptor = &place->descriptor;
    const struct pccl_msg_data *data = &end->departure.msg.as.data;
    struct pccl_plan plan;
    double elements[RIG_PIPE_MAX];
    uint32_t other = 0;
    while (place->ring[other] != peer)
        other++;
    if (!rig_plan(world->spec, attempt->op, place, &plan) || plan.packing.codec == NULL || plan.reduces ||
        plan.element_bytes != 2 || descriptor->codec != PCCL_CODEC_ZERO_POINT_SCALE ||
        !rig_plant(world, RIG_PLANT_repacked))
        return;
    const uint32_t number =
        pccl_schedules[plan.algorithm]->piece(pccl_plan_seat(&plan, data->stripe), place->seat.rank, other, data->step);
    const uint32_t count = pccl_plan_segment(&plan, data->stripe, number).count;
    PCCL_ASSERT(count <= PCCL_COUNT_OF(elements));
    pccl_codec_decode(plan.packing.codec, pccl_kernels_for(0), end->departure.payload, count, elements);
    pccl_codec_encode(plan.packing.codec, pccl_kernels_for(0), elements, count,
                      (uint8_t *)(uintptr_t)end->departure.payload);
}

void rig_next(struct rig_world *world, struct rig_connection *connection, uint32_t side)
{
    struct rig_end *end = &connection->ends[side];
    struct rig_rank *rank = rig_end_rank(world, connection, side);
    const uint32_t peer = side == 0 ? connection->to : connection->from;
    bool *writable = &rank->writable[peer][side == 0];
    const bool was_writable = *writable;
    *writable = end->fresh = false;
    if (!pccl_exchange_next(end->lane, &end->departure))
        return;
    *writable |= was_writable; /* there may be more */
    const struct pccl_msg *msg = &end->departure.msg;
    const bool data = msg->type == PCCL_MSG_data;
    if (pccl_wire_invalid(msg) != NULL || data != (side == 0) || (!data && msg->type != PCCL_MSG_ready)) {
        rig_violation(world, "rank %u sends a wrong message (type %u)", rank->number, msg->type);
        return;
    }
    if (data ? msg->as.data.length != end->departure.length || end->departure.length == 0
             : end->departure.length != 0) {
        rig_violation(world, "rank %u: frame and departure do not agree on the length", rank->number);
        return;
    }
    if (data)
        rig_trace(world, "rank %u sends to %u: operation %u use %u group %u step %u, %u bytes", rank->number, peer,
                  (uint32_t)msg->as.data.instance.tag, msg->as.data.instance.use, (uint32_t)msg->as.data.stripe,
                  msg->as.data.step, msg->as.data.length);
    else
        rig_trace(world, "rank %u expects %u: operation %u use %u, granted %u", rank->number, peer,
                  (uint32_t)msg->as.ready.instance.tag, msg->as.ready.instance.use, (uint32_t)msg->as.ready.granted);
    if (data && world->plant == RIG_PLANT_repacked)
        repack(world, end, peer);
    world->totals->messages++;
    const size_t body = pccl_wire_size(msg);
    PCCL_ASSERT(HEADER_BYTES + body <= RIG_FRAME_MAX);
    end->out_bytes = put_u16(end->out, (uint32_t)body);
    end->out_bytes += put_u16(end->out + end->out_bytes, msg->type);
    pccl_wire_encode(msg, end->out + end->out_bytes);
    end->out_bytes += (uint32_t)body;
    end->out_done = end->payload_done = 0;
    end->sending = true;
}

bool rig_may_move(const struct rig_world *world, const struct rig_connection *connection, uint32_t side)
{
    const struct rig_end *end = &connection->ends[side];
    return end->open && end->sending && (connection->broken || connection->pipes[side].count < world->spec->pipe_bytes);
}

/* Moves bytes between a queue and plain memory. With NULL, sends zeros, and drops received bytes. */
static void push(struct rig_pipe *pipe, const uint8_t *bytes, uint32_t count)
{
    while (count > 0) {
        const uint32_t at = (pipe->first + pipe->count) % RIG_PIPE_MAX;
        const uint32_t part = count < RIG_PIPE_MAX - at ? count : RIG_PIPE_MAX - at;
        if (bytes == NULL)
            memset(pipe->bytes + at, 0, part);
        else
            memcpy(pipe->bytes + at, bytes, part);
        bytes = bytes == NULL ? NULL : bytes + part;
        pipe->count += part;
        count -= part;
    }
}

static void pull(struct rig_pipe *pipe, uint8_t *bytes, uint32_t count)
{
    while (count > 0) {
        const uint32_t part = count < RIG_PIPE_MAX - pipe->first ? count : RIG_PIPE_MAX - pipe->first;
        if (bytes != NULL)
            memcpy(bytes, pipe->bytes + pipe->first, part);
        bytes = bytes == NULL ? NULL : bytes + part;
        pipe->first = (pipe->first + part) % RIG_PIPE_MAX;
        pipe->count -= part;
        count -= part;
    }
}

/* Returns the bytes that move in one step, at most `most`. */
static uint32_t portion(struct rig_world *world, uint32_t most)
{
    return world->spec->whole || below(world, 2) == 0 ? most : 1 + (uint32_t)below(world, most);
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Sends the next bytes of the frame, then of the payload. `pipe` NULL: they vanish. */
static void send_bytes(struct rig_world *world, struct rig_end *end, struct rig_pipe *pipe, uint32_t count)
{
    const uint32_t of_frame = least(count, end->out_bytes - end->out_done), of_payload = count - of_frame;
    if (pipe != NULL) {
        const uint8_t *payload = end->departure.payload;
        push(pipe, end->out + end->out_done, of_frame);
        push(pipe, payload == NULL ? NULL : payload + end->payload_done, of_payload);
        if (payload != NULL && of_payload > 0 && rig_plant(world, RIG_PLANT_flip))
            pipe->bytes[(pipe->first + pipe->count - 1) % RIG_PIPE_MAX] ^= 0x10;
    }
    end->out_done += of_frame;
    end->payload_done += of_payload;
}

void rig_move(struct rig_world *world, struct rig_connection *connection, uint32_t side)
{
    struct rig_end *end = &connection->ends[side];
    struct rig_pipe *pipe = &connection->pipes[side];
    const uint32_t left = end->out_bytes - end->out_done + end->departure.length - end->payload_done;
    const uint32_t room = connection->broken ? left : world->spec->pipe_bytes - pipe->count;
    const bool lose = end->out_done == 0 && end->departure.length == 0 && rig_plant(world, RIG_PLANT_lost_frame);
    uint32_t count = portion(world, least(left, room));
    if (lose)
        count = left;
    send_bytes(world, end, connection->broken || lose ? NULL : pipe, count);
    if (end->out_done < end->out_bytes || end->payload_done < end->departure.length)
        return;
    end->sending = false;
    pccl_exchange_sent(rig_end_rank(world, connection, side)->exchange, &end->departure);
    memset(&end->departure, 0, sizeof end->departure);
    end->fresh = true;
}

bool rig_may_deliver(const struct rig_connection *connection, uint32_t side)
{
    return connection->ends[side].open && connection->pipes[1 - side].count > 0;
}

static void falsify(struct rig_world *world, struct pccl_msg *msg)
{
    if (msg->type != PCCL_MSG_data)
        return;
    if (rig_plant(world, RIG_PLANT_renumber))
        msg->as.data.step = msg->as.data.step == 0 ? 1 : 0;
    else if (msg->as.data.step > 0 && rig_plant(world, RIG_PLANT_repeat))
        msg->as.data.step--;
}

static void receive_frame(struct rig_world *world, struct rig_connection *connection, uint32_t side)
{
    struct rig_end *end = &connection->ends[side];
    struct rig_rank *rank = rig_end_rank(world, connection, side);
    const uint32_t peer = side == 0 ? connection->to : connection->from;
    struct pccl_msg msg;
    struct pccl_text reason = {0};
    static struct pccl_wire_scratch scratch;
    if (pccl_wire_decode((uint16_t)get_u16(end->in + 2), end->in + HEADER_BYTES, get_u16(end->in), &scratch, &msg,
                         &reason) != PCCL_OK) {
        rig_violation(world, "rank %u cannot read a frame: %s", rank->number, reason.bytes);
        return;
    }
    falsify(world, &msg);
    rig_trace(world, "rank %u hears %s of %u", rank->number, pccl_wire_name(msg.type), peer);
    end->in_done = 0;
    memset(&end->arrival, 0, sizeof end->arrival);
    const enum pccl_status status = pccl_exchange_receive(end->lane, &msg, &end->arrival, &reason);
    if (status == PCCL_MEMORY && rank->memory.failures > 0) {
        rig_close_end(world, connection, side);
        return;
    }
    if (status != PCCL_OK) {
        rig_violation(world, "rank %u refuses %s of rank %u: %s", rank->number, pccl_wire_name(msg.type), peer,
                      reason.bytes);
        return;
    }
    const uint32_t length = msg.type == PCCL_MSG_data ? msg.as.data.length : 0;
    if (end->arrival.length != length) {
        rig_violation(world, "rank %u expects %u bytes instead of %u", rank->number, end->arrival.length, length);
        return;
    }
    world->totals->held += end->arrival.held != NULL;
    end->receiving = length > 0;
    end->payload_in = 0;
    end->late = end->arrival.payload;
}

/* Returns the known length of the frame, from its header. */
static uint32_t frame_bytes(const struct rig_end *end)
{
    return end->in_done < HEADER_BYTES ? HEADER_BYTES : HEADER_BYTES + get_u16(end->in);
}

static void deliver_frame(struct rig_world *world, struct rig_connection *connection, uint32_t side)
{
    struct rig_end *end = &connection->ends[side];
    struct rig_pipe *pipe = &connection->pipes[1 - side];
    uint32_t left = portion(world, pipe->count);
    while (left > 0 && end->in_done < frame_bytes(end)) { /* the header, then the body */
        const uint32_t part = least(left, frame_bytes(end) - end->in_done);
        pull(pipe, end->in + end->in_done, part);
        end->in_done += part;
        left -= part;
    }
    if (end->in_done == frame_bytes(end))
        receive_frame(world, connection, side);
}

static void deliver_payload(struct rig_world *world, struct rig_connection *connection, uint32_t side)
{
    struct rig_end *end = &connection->ends[side];
    struct rig_pipe *pipe = &connection->pipes[1 - side];
    const uint32_t left = end->arrival.length - end->payload_in;
    const uint32_t count = portion(world, least(left, pipe->count));
    uint8_t *to = end->arrival.payload;
    if (to == NULL && end->late != NULL && rig_plant(world, RIG_PLANT_late_write))
        to = end->late;
    const uint32_t shift = to != NULL && rig_plant(world, RIG_PLANT_misplace) ? 1 : 0;
    pull(pipe, to == NULL ? NULL : to + end->payload_in + shift, count);
    end->payload_in += count;
    if (end->payload_in < end->arrival.length)
        return;
    end->receiving = false;
    pccl_exchange_received(rig_end_rank(world, connection, side)->exchange, &end->arrival);
    memset(&end->arrival, 0, sizeof end->arrival);
}

void rig_deliver(struct rig_world *world, struct rig_connection *connection, uint32_t side)
{
    if (connection->ends[side].receiving)
        deliver_payload(world, connection, side);
    else
        deliver_frame(world, connection, side);
}

/* ---- opening connections ---- */

static bool lane_has_another(const struct rig_world *world, const struct rig_connection *connection)
{
    for (uint32_t i = 0; i < world->connection_count; i++) {
        const struct rig_connection *other = &world->connections[i];
        if (other->from == connection->from && other->to == connection->to && other->ends[0].open && !other->broken)
            return true;
    }
    return false;
}

/* The side that is dialed knows of a new connection first, then the one that dials. */
bool rig_may_dial(const struct rig_world *world, const struct rig_connection *connection)
{
    const struct rig_rank *from = &world->ranks[connection->from], *to = &world->ranks[connection->to];
    if (connection->ends[0].open || from->life != RIG_ALIVE || to->life != RIG_ALIVE)
        return false;
    if (!connection->broken)
        return true; /* the second half */
    if (!rig_wants(from, connection->to))
        return false;
    return !connection->dialed || world->spec->redialed || !lane_has_another(world, connection);
}

void rig_dial(struct rig_world *world, struct rig_connection *connection)
{
    if (!connection->broken) {
        rig_open_end(world, connection, 0);
        return;
    }
    if (connection->ends[1].open) /* the old one, whose end it has not noticed */
        rig_close_end(world, connection, 1);
    connection->broken = false;
    connection->dialed = true;
    for (uint32_t path = 0; path < 2; path++)
        connection->pipes[path].first = connection->pipes[path].count = 0;
    rig_trace(world, "rank %u has dialed %u", connection->from, connection->to);
    rig_open_end(world, connection, 1);
}

bool rig_points_into(const struct rig_world *world, uint32_t rank, const uint8_t *block, size_t bytes)
{
    for (uint32_t i = 0; i < world->connection_count; i++)
        for (uint32_t side = 0; side < 2; side++) {
            const struct rig_connection *connection = &world->connections[i];
            if ((side == 0 ? connection->from : connection->to) != rank)
                continue;
            const struct rig_end *end = &connection->ends[side];
            const uint8_t *pointers[] = {end->sending ? end->departure.payload : NULL,
                                         end->receiving ? end->arrival.payload : NULL};
            for (uint32_t k = 0; k < 2; k++)
                if (pointers[k] != NULL && pointers[k] >= block && pointers[k] < block + bytes)
                    return true;
        }
    return false;
}
