/* Parses the emulator's commands and carries them out on the network. */
#include "command.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char command_help[] = "  rate MBIT            of every port, both ways; 0: unlimited\n"
                            "  rate P MBIT          of one port\n"
                            "  rate I J MBIT        from port I to port J, besides that of the ports; 0: unlimited\n"
                            "  up P MBIT            limits the data that port P sends\n"
                            "  down P MBIT          limits the data that port P receives\n"
                            "  site P S             puts port P into site S, 1 to 8; 0: into none\n"
                            "  siteup S MBIT        limits all data from the ports of site S to other sites\n"
                            "  sitedown S MBIT      limits all data that they receive from there\n"
                            "  delay [I J] MS       one way, of all pairs or of one\n"
                            "  loss [I J] PERCENT   of segments\n"
                            "  duplicate [I J] PERCENT   of segments arrive twice\n"
                            "  reorder [I J] PERCENT MS  of segments arrive that much later; others pass them\n"
                            "  queue KIB            of each port, site and pair\n"
                            "  cut I J              what I sends to J is dropped from now on\n"
                            "  heal I J\n"
                            "  stats                counters\n";

struct call {
    struct network *network;
    int64_t now_ns;
    double numbers[4];
    int count; /* of numbers */
    char *answer;
};

__attribute__((format(printf, 2, 3))) static bool refuse(const struct call *call, const char *format, ...)
{
    va_list arguments;
    size_t used = (size_t)snprintf(call->answer, COMMAND_ANSWER_BYTES, "error: ");
    va_start(arguments, format);
    (void)vsnprintf(call->answer + used, COMMAND_ANSWER_BYTES - used, format, arguments);
    va_end(arguments);
    return false;
}

static bool is_port(const struct call *call, double number)
{
    if (number >= 0 && number < call->network->ports && floor(number) == number)
        return true;
    return refuse(call, "%g is no port; there are 0 to %d", number, call->network->ports - 1);
}

static bool is_pair(const struct call *call)
{
    if (!is_port(call, call->numbers[0]) || !is_port(call, call->numbers[1]))
        return false;
    return call->numbers[0] != call->numbers[1] || refuse(call, "a port has no way to itself");
}

/* Senders and receivers that a command applies to: all, or one of each. `values` has its last numbers. */
struct range {
    int from[2], to[2]; /* first, end */
    const double *values;
};

static bool find_range(const struct call *call, int values, struct range *range)
{
    *range = (struct range){{0, call->network->ports}, {0, call->network->ports}, call->numbers};
    if (call->count == values)
        return true;
    if (call->count != 2 + values)
        return refuse(call, "%s expected, alone or after two ports", values == 1 ? "one number is" : "two numbers are");
    if (!is_pair(call))
        return false;
    *range = (struct range){{(int)call->numbers[0], (int)call->numbers[0] + 1},
                            {(int)call->numbers[1], (int)call->numbers[1] + 1},
                            call->numbers + 2};
    return true;
}

/* The same with a share in percent as the first value. */
static bool find_share(const struct call *call, int values, struct range *range)
{
    if (!find_range(call, values, range))
        return false;
    return range->values[0] <= 100 || refuse(call, "%g is more than 100 percent", range->values[0]);
}

static bool set_port_rates(const struct call *call, int first, int end, double rate_bps)
{
    for (int i = first; i < end; i++) {
        network_set_rate(&call->network->port[i].up, rate_bps, call->now_ns);
        network_set_rate(&call->network->port[i].down, rate_bps, call->now_ns);
    }
    return true;
}

static bool set_rate(const struct call *call)
{
    const double *numbers = call->numbers;
    switch (call->count) {
    case 1: return set_port_rates(call, 0, call->network->ports, numbers[0] * 1e6);
    case 2:
        return is_port(call, numbers[0]) &&
               set_port_rates(call, (int)numbers[0], (int)numbers[0] + 1, numbers[1] * 1e6);
    case 3:
        if (!is_pair(call))
            return false;
        network_set_rate(&call->network->pair[(int)numbers[0]][(int)numbers[1]].stage, numbers[2] * 1e6, call->now_ns);
        return true;
    default: return refuse(call, "one to three numbers are expected");
    }
}

static struct port *find_port(const struct call *call)
{
    if (call->count != 2)
        return refuse(call, "a port and a number are expected"), NULL;
    return is_port(call, call->numbers[0]) ? &call->network->port[(int)call->numbers[0]] : NULL;
}

static bool set_stage(const struct call *call, struct stage *stage)
{
    network_set_rate(stage, call->numbers[1] * 1e6, call->now_ns);
    return true;
}

static bool set_up(const struct call *call)
{
    struct port *port = find_port(call);
    return port != NULL && set_stage(call, &port->up);
}

static bool set_down(const struct call *call)
{
    struct port *port = find_port(call);
    return port != NULL && set_stage(call, &port->down);
}

static bool is_site(const struct call *call, double number, int least)
{
    if (number >= least && number <= NETWORK_SITES_MAX && floor(number) == number)
        return true;
    return refuse(call, "invalid site %g: expected 1 to %d", number, NETWORK_SITES_MAX);
}

static bool set_site(const struct call *call)
{
    struct port *port = find_port(call);
    if (port == NULL || !is_site(call, call->numbers[1], 0))
        return false;
    port->site = (int)call->numbers[1];
    return true;
}

static struct site *find_site(const struct call *call)
{
    if (call->count != 2)
        return refuse(call, "a site and a rate are expected"), NULL;
    return is_site(call, call->numbers[0], 1) ? &call->network->site[(int)call->numbers[0]] : NULL;
}

static bool set_site_up(const struct call *call)
{
    struct site *site = find_site(call);
    return site != NULL && set_stage(call, &site->up);
}

static bool set_site_down(const struct call *call)
{
    struct site *site = find_site(call);
    return site != NULL && set_stage(call, &site->down);
}

static bool set_delay(const struct call *call)
{
    struct range range;
    if (!find_range(call, 1, &range))
        return false;
    for (int i = range.from[0]; i < range.from[1]; i++)
        for (int j = range.to[0]; j < range.to[1]; j++)
            call->network->pair[i][j].delay_ns = (int64_t)(range.values[0] * 1e6);
    return true;
}

static bool set_loss(const struct call *call)
{
    struct range range;
    if (!find_share(call, 1, &range))
        return false;
    for (int i = range.from[0]; i < range.from[1]; i++)
        for (int j = range.to[0]; j < range.to[1]; j++)
            call->network->pair[i][j].loss = range.values[0] / 100;
    return true;
}

static bool set_duplicates(const struct call *call)
{
    struct range range;
    if (!find_share(call, 1, &range))
        return false;
    for (int i = range.from[0]; i < range.from[1]; i++)
        for (int j = range.to[0]; j < range.to[1]; j++)
            call->network->pair[i][j].doubled_share = range.values[0] / 100;
    return true;
}

static bool set_reorder(const struct call *call)
{
    struct range range;
    if (!find_share(call, 2, &range))
        return false;
    for (int i = range.from[0]; i < range.from[1]; i++) {
        for (int j = range.to[0]; j < range.to[1]; j++) {
            call->network->pair[i][j].late_share = range.values[0] / 100;
            call->network->pair[i][j].late_ns = (int64_t)(range.values[1] * 1e6);
        }
    }
    return true;
}

static bool set_queue(const struct call *call)
{
    if (call->count != 1)
        return refuse(call, "one number is expected");
    call->network->queue_bytes = call->numbers[0] * 1024;
    return true;
}

static bool set_cut(const struct call *call, bool cut)
{
    if (call->count != 2)
        return refuse(call, "two ports are expected");
    if (!is_pair(call))
        return false;
    call->network->pair[(int)call->numbers[0]][(int)call->numbers[1]].cut = cut;
    return true;
}

static bool cut(const struct call *call) { return set_cut(call, true); }
static bool heal(const struct call *call) { return set_cut(call, false); }

/* One object for each port; lost, duplicated, held_back and cut_off: of the segments that it sent. */
static bool show(const struct call *call)
{
    const struct network *network = call->network;
    size_t used = 0;
    for (int i = 0; i < network->ports && used < COMMAND_ANSWER_BYTES; i++) {
        const struct port *port = &network->port[i];
        uint64_t lost = 0, doubled = 0, held_back = 0, cut_off = 0;
        for (int j = 0; j < network->ports; j++) {
            lost += network->pair[i][j].lost;
            doubled += network->pair[i][j].doubled;
            held_back += network->pair[i][j].held_back;
            cut_off += network->pair[i][j].cut_off;
        }
        used += (size_t)snprintf(call->answer + used, COMMAND_ANSWER_BYTES - used,
                                 "%s{\"port\": %d, \"in\": %llu, \"out\": %llu, \"sent_bytes\": %.0f, \"lost\": %llu, "
                                 "\"duplicated\": %llu, \"held_back\": %llu, \"cut_off\": %llu, \"queue_full\": %llu, "
                                 "\"queue_full_in\": %llu, \"refused\": %llu}",
                                 i ? ", " : "[", i, (unsigned long long)port->in, (unsigned long long)port->out,
                                 port->sent_bytes, (unsigned long long)lost, (unsigned long long)doubled,
                                 (unsigned long long)held_back, (unsigned long long)cut_off,
                                 (unsigned long long)port->dropped, (unsigned long long)port->dropped_in,
                                 (unsigned long long)port->refused);
    }
    if (used + 2 < COMMAND_ANSWER_BYTES)
        memcpy(call->answer + used, "]", 2);
    return true;
}

/* The words after the first, as numbers that are not negative. */
static bool read_numbers(struct call *call, char **rest)
{
    const int most = sizeof call->numbers / sizeof *call->numbers;
    const char *word;
    while ((word = strtok_r(NULL, " \t", rest)) != NULL) {
        char *end;
        if (call->count == most)
            return refuse(call, "at most %d numbers are expected", most);
        double number = strtod(word, &end);
        if (end == word || *end != 0 || !isfinite(number) || number < 0 || number > 1e9)
            return refuse(call, "'%s' is not a number from 0 to 1e9", word);
        call->numbers[call->count++] = number;
    }
    return true;
}

void command_do(struct network *network, char *line, int64_t now_ns, char *answer)
{
    static const struct {
        const char *name;
        bool (*function)(const struct call *call);
    } table[] = {
        {"rate", set_rate},       {"up", set_up},          {"down", set_down},
        {"site", set_site},       {"siteup", set_site_up}, {"sitedown", set_site_down},
        {"delay", set_delay},     {"loss", set_loss},      {"duplicate", set_duplicates},
        {"reorder", set_reorder}, {"queue", set_queue},    {"cut", cut},
        {"heal", heal},           {"stats", show},
    };
    struct call call = {.network = network, .now_ns = now_ns, .answer = answer};
    char *rest = NULL;
    const char *name = strtok_r(line, " \t", &rest);
    (void)snprintf(answer, COMMAND_ANSWER_BYTES, "ok");
    for (size_t i = 0; name && i < sizeof table / sizeof *table; i++) {
        if (strcmp(name, table[i].name) == 0) {
            if (read_numbers(&call, &rest))
                (void)table[i].function(&call);
            return;
        }
    }
    (void)refuse(&call, "'%s' is no command", name ? name : "");
}
