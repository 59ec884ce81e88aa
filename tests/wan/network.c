/* The stages of network.h: rates, queues, delays, losses, copies, late segments and cuts of frames. */
#include "network.h"

#include <stdlib.h>
#include <string.h>

enum { EARLY_NS = 20000, IDLE_NS = 100000000 }; /* packets due within EARLY_NS move at once: waking up takes longer */

static double draw(struct network *network)
{
    network->random ^= network->random << 13;
    network->random ^= network->random >> 7;
    network->random ^= network->random << 17;
    return (double)(network->random >> 11) / 9007199254740992.0;
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t sooner(int64_t a, int64_t b) { return a < b ? a : b; }

/* Returns the transmission time of these bytes. */
static int64_t serial_ns(double bytes, double rate_bps) { return rate_bps > 0 ? (int64_t)(bytes * 8e9 / rate_bps) : 0; }

/* ---- stages ---- */

static void append(struct packet **head, struct packet **tail, struct packet *packet)
{
    packet->next = NULL;
    if (*head)
        (*tail)->next = packet;
    else
        *head = packet;
    *tail = packet;
}

static struct packet *remove_head(struct packet **head)
{
    struct packet *packet = *head;
    *head = packet->next;
    return packet;
}

static int64_t start_ns(const struct stage *stage) { return later(stage->free_ns, stage->head->first_ns); }

/* Takes over the packet, or drops it and counts that. */
static void stage_put(struct network *network, struct stage *stage, struct packet *packet, uint64_t *dropped)
{
    if (stage->head && stage->waiting_bytes + packet->wire_bytes > network->queue_bytes) {
        (*dropped)++;
        free(packet);
        return;
    }
    stage->waiting_bytes += packet->wire_bytes;
    append(&stage->head, &stage->tail, packet);
}

/* Returns the next packet that has passed, or NULL if there is no such packet yet; may lower *next_ns. */
static struct packet *stage_take(struct stage *stage, int64_t now_ns, int64_t *next_ns)
{
    if (!stage->head)
        return NULL;
    if (stage->end_ns == 0)
        stage->end_ns =
            later(start_ns(stage) + serial_ns(stage->head->wire_bytes, stage->rate_bps), stage->head->last_ns);
    if (stage->end_ns > now_ns + EARLY_NS) {
        *next_ns = sooner(stage->end_ns, *next_ns);
        return NULL;
    }
    int64_t first_ns = start_ns(stage);
    struct packet *packet = remove_head(&stage->head);
    packet->first_ns = first_ns;
    packet->last_ns = stage->free_ns = stage->end_ns;
    stage->waiting_bytes -= packet->wire_bytes;
    stage->end_ns = 0;
    return packet;
}

void network_set_rate(struct stage *stage, double rate_bps, int64_t now_ns)
{
    if (stage->end_ns > now_ns && stage->rate_bps > 0) {
        double left_bits = (double)(stage->end_ns - now_ns) * stage->rate_bps * 1e-9;
        stage->end_ns = now_ns + serial_ns(left_bits / 8, rate_bps);
    }
    stage->rate_bps = rate_bps;
}

/* ---- entering ---- */

/* A frame that enters, for one receiver. */
struct arrival {
    int from, to;
    const uint8_t *frame;
    size_t length;
    const struct frame_shape *shape;
    int64_t now_ns;
};

/* Impairments of one segment, drawn at random. */
struct impairment {
    bool is_lost, is_doubled, is_late;
};

static const struct impairment none = {false, false, false};

static bool is_none(struct impairment impairment)
{
    return !impairment.is_lost && !impairment.is_doubled && !impairment.is_late;
}

static bool hits(struct network *network, double share) { return share > 0 && draw(network) < share; }

static struct impairment draw_impairment(struct network *network, const struct pair *pair)
{
    struct impairment impairment = {.is_lost = hits(network, pair->loss)};
    if (!impairment.is_lost) {
        impairment.is_doubled = hits(network, pair->doubled_share);
        impairment.is_late = hits(network, pair->late_share);
    }
    return impairment;
}

static void put(struct network *network, const struct arrival *arrival, struct impairment impairment)
{
    struct packet *packet = malloc(sizeof *packet + arrival->length);
    if (!packet)
        return; /* lost, like much else here */
    packet->from = arrival->from;
    packet->to = arrival->to;
    packet->first_ns = packet->last_ns = arrival->now_ns;
    packet->wire_bytes = frame_wire_bytes(arrival->length, arrival->shape);
    packet->is_doubled = impairment.is_doubled;
    packet->is_late = impairment.is_late;
    packet->length = arrival->length;
    memcpy(packet->bytes, arrival->frame, arrival->length);
    stage_put(network, &network->port[arrival->from].up, packet, &network->port[arrival->from].dropped);
}

/* The segments from `first` to before `end`, as a whole if it is all of them. */
static void put_part(struct network *network, const struct arrival *arrival, uint32_t first, uint32_t end,
                     struct impairment impairment)
{
    static uint8_t bytes[FRAME_BYTES_MAX];
    struct frame_shape shape;
    if (first == 0 && end == arrival->shape->segments) {
        put(network, arrival, impairment);
    } else if (first < end) {
        struct arrival part = *arrival;
        part.length = frame_part(arrival->frame, arrival->length, arrival->shape, first, end, bytes, &shape);
        part.frame = bytes;
        part.shape = &shape;
        put(network, &part, impairment);
    }
}

/* Splits the frame at each segment with an impairment. */
static void put_by_chance(struct network *network, const struct arrival *arrival)
{
    struct pair *pair = &network->pair[arrival->from][arrival->to];
    uint32_t first = 0;
    for (uint32_t i = 0; i < arrival->shape->segments; i++) {
        struct impairment impairment = draw_impairment(network, pair);
        if (is_none(impairment))
            continue;
        put_part(network, arrival, first, i, none);
        first = i + 1;
        if (impairment.is_lost)
            pair->lost++;
        else
            put_part(network, arrival, i, i + 1, impairment);
    }
    put_part(network, arrival, first, arrival->shape->segments, none);
}

void network_enter(struct network *network, int from, const uint8_t *frame, size_t length, int64_t now_ns)
{
    struct frame_shape shape;
    int to = frame_destination(frame, length);
    if (to == FRAME_NOBODY || to >= network->ports || !frame_look(frame, length, &shape))
        return;
    network->port[from].in++;
    for (int i = 0; i < network->ports; i++) {
        if (i == from || (to != FRAME_EVERYBODY && to != i))
            continue;
        struct arrival arrival = {from, i, frame, length, &shape, now_ns};
        if (network->pair[from][i].cut)
            network->pair[from][i].cut_off += shape.segments;
        else if (to == FRAME_EVERYBODY)
            put(network, &arrival, none);
        else
            put_by_chance(network, &arrival);
    }
}

/* ---- moving on ---- */

static bool leaves_site(const struct network *network, int from, int to)
{
    return network->port[from].site != network->port[to].site;
}

/* Puts the packet into the stage of its pair, and a copy behind it if one was drawn. */
static void enter_pair(struct network *network, struct packet *packet)
{
    struct pair *pair = &network->pair[packet->from][packet->to];
    struct packet *copy = packet->is_doubled ? malloc(sizeof *copy + packet->length) : NULL;
    if (copy) {
        memcpy(copy, packet, sizeof *copy + packet->length);
        pair->doubled++;
    }
    uint64_t *dropped = &network->port[packet->from].dropped;
    stage_put(network, &pair->stage, packet, dropped);
    if (copy)
        stage_put(network, &pair->stage, copy, dropped);
}

static void run_uplink(struct network *network, int from, int64_t now_ns, int64_t *next_ns)
{
    struct packet *packet;
    while ((packet = stage_take(&network->port[from].up, now_ns, next_ns)) != NULL) {
        network->port[from].sent_bytes += packet->wire_bytes;
        if (leaves_site(network, from, packet->to))
            stage_put(network, &network->site[network->port[from].site].up, packet, &network->port[from].dropped);
        else
            enter_pair(network, packet);
    }
}

static void run_site_uplink(struct network *network, struct site *site, int64_t now_ns, int64_t *next_ns)
{
    struct packet *packet;
    while ((packet = stage_take(&site->up, now_ns, next_ns)) != NULL)
        enter_pair(network, packet);
}

static void run_site_downlink(struct network *network, struct site *site, int64_t now_ns, int64_t *next_ns)
{
    struct packet *packet;
    while ((packet = stage_take(&site->down, now_ns, next_ns)) != NULL)
        stage_put(network, &network->port[packet->to].down, packet, &network->port[packet->to].dropped_in);
}

/* Keeps the list in the order of last_ns. */
static void hold_back(struct pair *pair, struct packet *packet)
{
    struct packet **at = &pair->late;
    packet->first_ns += pair->late_ns;
    packet->last_ns += pair->late_ns;
    while (*at && (*at)->last_ns <= packet->last_ns)
        at = &(*at)->next;
    packet->next = *at;
    *at = packet;
    pair->held_back++;
}

/* Moves due packets from the list to the next stage. */
static void move_due(struct network *network, struct packet **head, struct stage *next, int64_t now_ns,
                     int64_t *next_ns)
{
    while (*head && (*head)->last_ns <= now_ns + EARLY_NS) {
        struct packet *packet = remove_head(head);
        stage_put(network, next, packet, &network->port[packet->to].dropped_in);
    }
    if (*head)
        *next_ns = sooner((*head)->last_ns, *next_ns);
}

static void run_pair(struct network *network, int from, int to, int64_t now_ns, int64_t *next_ns)
{
    struct pair *pair = &network->pair[from][to];
    struct packet *packet;
    while ((packet = stage_take(&pair->stage, now_ns, next_ns)) != NULL) {
        packet->first_ns += pair->delay_ns;
        packet->last_ns += pair->delay_ns;
        if (packet->is_late)
            hold_back(pair, packet);
        else
            append(&pair->head, &pair->tail, packet);
    }
    struct stage *next =
        leaves_site(network, from, to) ? &network->site[network->port[to].site].down : &network->port[to].down;
    move_due(network, &pair->head, next, now_ns, next_ns);
    move_due(network, &pair->late, next, now_ns, next_ns);
}

static void run_downlink(struct network *network, int to, int64_t now_ns, int64_t *next_ns,
                         bool (*deliver)(int port, const struct packet *packet))
{
    struct port *port = &network->port[to];
    struct packet *packet;
    while ((packet = stage_take(&port->down, now_ns, next_ns)) != NULL) {
        if (deliver(to, packet))
            port->out++;
        else
            port->refused++;
        free(packet);
    }
}

int64_t network_run(struct network *network, int64_t now_ns, bool (*deliver)(int port, const struct packet *packet))
{
    int64_t next_ns = now_ns + IDLE_NS;
    for (int from = 0; from < network->ports; from++)
        run_uplink(network, from, now_ns, &next_ns);
    for (int i = 0; i <= NETWORK_SITES_MAX; i++)
        run_site_uplink(network, &network->site[i], now_ns, &next_ns);
    for (int from = 0; from < network->ports; from++)
        for (int to = 0; to < network->ports; to++)
            run_pair(network, from, to, now_ns, &next_ns);
    for (int i = 0; i <= NETWORK_SITES_MAX; i++)
        run_site_downlink(network, &network->site[i], now_ns, &next_ns);
    for (int to = 0; to < network->ports; to++)
        run_downlink(network, to, now_ns, &next_ns, deliver);
    return next_ns;
}
