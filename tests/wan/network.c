/* The stages of network.h: rates, queues, delays, losses and cuts of frames. */
#include "network.h"

#include <stdlib.h>
#include <string.h>

enum { EARLY_NS = 20000, IDLE_NS = 100000000 }; /* what is due so soon is done now: waking up takes longer */

static double draw(struct network *network)
{
    network->random ^= network->random << 13;
    network->random ^= network->random >> 7;
    network->random ^= network->random << 17;
    return (double)(network->random >> 11) / 9007199254740992.0;
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t sooner(int64_t a, int64_t b) { return a < b ? a : b; }

/* How long so many bytes take. */
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

/* Takes the packet, or drops it. */
static void stage_put(struct network *network, struct stage *stage, struct packet *packet)
{
    if (stage->head && stage->waiting_bytes + packet->wire_bytes > network->queue_bytes) {
        stage->dropped++;
        free(packet);
        return;
    }
    stage->waiting_bytes += packet->wire_bytes;
    append(&stage->head, &stage->tail, packet);
}

/* The next packet that has passed; NULL: none yet, *next_ns may be lowered. */
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

static void put(struct network *network, int from, int to, const uint8_t *frame, size_t length,
                const struct frame_shape *shape, int64_t now_ns)
{
    struct packet *packet = malloc(sizeof *packet + length);
    if (!packet)
        return; /* lost, like much else here */
    packet->from = from;
    packet->to = to;
    packet->first_ns = packet->last_ns = now_ns;
    packet->wire_bytes = frame_wire_bytes(length, shape);
    packet->length = length;
    memcpy(packet->bytes, frame, length);
    stage_put(network, &network->port[from].up, packet);
}

/* The segments from `first` to before `end`, as a whole if it is all of them. */
static void put_part(struct network *network, int from, int to, const uint8_t *frame, size_t length,
                     const struct frame_shape *shape, uint32_t first, uint32_t end, int64_t now_ns)
{
    static uint8_t part[FRAME_BYTES_MAX];
    struct frame_shape part_shape;
    if (first == 0 && end == shape->segments) {
        put(network, from, to, frame, length, shape, now_ns);
    } else if (first < end) {
        size_t part_length = frame_part(frame, length, shape, first, end, part, &part_shape);
        put(network, from, to, part, part_length, &part_shape, now_ns);
    }
}

static void put_with_loss(struct network *network, int from, int to, const uint8_t *frame, size_t length,
                          const struct frame_shape *shape, int64_t now_ns)
{
    struct pair *pair = &network->pair[from][to];
    uint32_t first = 0;
    for (uint32_t i = 0; i < shape->segments && pair->loss > 0; i++) {
        if (draw(network) < pair->loss) {
            pair->lost++;
            put_part(network, from, to, frame, length, shape, first, i, now_ns);
            first = i + 1;
        }
    }
    put_part(network, from, to, frame, length, shape, first, shape->segments, now_ns);
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
        if (network->pair[from][i].cut)
            network->pair[from][i].cut_off += shape.segments;
        else if (to == FRAME_EVERYBODY)
            put(network, from, i, frame, length, &shape, now_ns);
        else
            put_with_loss(network, from, i, frame, length, &shape, now_ns);
    }
}

/* ---- moving on ---- */

static bool leaves_site(const struct network *network, int from, int to)
{
    return network->port[from].site != network->port[to].site;
}

static void run_uplink(struct network *network, int from, int64_t now_ns, int64_t *next_ns)
{
    struct packet *packet;
    while ((packet = stage_take(&network->port[from].up, now_ns, next_ns)) != NULL) {
        network->port[from].sent_bytes += packet->wire_bytes;
        struct site *site = &network->site[network->port[from].site];
        bool leaves = leaves_site(network, from, packet->to);
        stage_put(network, leaves ? &site->up : &network->pair[from][packet->to].stage, packet);
    }
}

static void run_site_uplink(struct network *network, struct site *site, int64_t now_ns, int64_t *next_ns)
{
    struct packet *packet;
    while ((packet = stage_take(&site->up, now_ns, next_ns)) != NULL)
        stage_put(network, &network->pair[packet->from][packet->to].stage, packet);
}

static void run_site_downlink(struct network *network, struct site *site, int64_t now_ns, int64_t *next_ns)
{
    struct packet *packet;
    while ((packet = stage_take(&site->down, now_ns, next_ns)) != NULL)
        stage_put(network, &network->port[packet->to].down, packet);
}

static void run_pair(struct network *network, int from, int to, int64_t now_ns, int64_t *next_ns)
{
    struct pair *pair = &network->pair[from][to];
    struct packet *packet;
    while ((packet = stage_take(&pair->stage, now_ns, next_ns)) != NULL) {
        packet->first_ns += pair->delay_ns;
        packet->last_ns += pair->delay_ns;
        append(&pair->head, &pair->tail, packet);
    }
    struct stage *next =
        leaves_site(network, from, to) ? &network->site[network->port[to].site].down : &network->port[to].down;
    while (pair->head && pair->head->last_ns <= now_ns + EARLY_NS)
        stage_put(network, next, remove_head(&pair->head));
    if (pair->head)
        *next_ns = sooner(pair->head->last_ns, *next_ns);
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
