#include "chaos.h"

#include "gate.h"
#include "report.h"
#include "spawn.h"
#include "values.h"
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A worker's report after each operation. */
struct event {
    double start_s, end_s;
    int32_t result, world;
    uint64_t wrong; /* number of wrong elements among those checked */
};

/* ---- a worker ---- */

enum {
    LOOKED_AT_MAX = 16384
}; /* maximum number of elements checked in each result; checking more would take longer than the operation */

struct load {
    const struct perf_options *options;
    pcclComm_t *comm;
    size_t count;
    void *input, *output;
};

/* Admits newcomers. Every peer calls this after each operation, so all of them make these calls together. */
static pcclResult_t admit(pcclComm_t *comm)
{
    bool pending = false;
    pcclResult_t result = pcclArePeersPending(comm, &pending);
    return result == pcclSuccess && pending ? pcclUpdateTopology(comm) : result;
}

static uint64_t count_wrong(const struct load *load, uint32_t world)
{
    struct perf_options options = *load->options;
    options.peers = world;
    return perf_values_wrong(load->output, load->count < LOOKED_AT_MAX ? load->count : LOOKED_AT_MAX, &options);
}

static bool reduce_once(const struct load *load)
{
    const struct perf_options *options = load->options;
    pcclReduceDescriptor_t descriptor = {.count = load->count,
                                         .op = options->operation,
                                         .src_descriptor = {.datatype = options->datatype},
                                         .quantization_options = options->codec};
    pcclReduceInfo_t info = {0};
    struct event event = {.start_s = perf_now_s()};
    event.result = (int32_t)pcclAllReduce(load->input, load->output, &descriptor, load->comm, &info);
    event.end_s = perf_now_s();
    event.world = (int32_t)info.local_world_size;
    if (event.result == pcclSuccess) {
        event.wrong = options->check ? count_wrong(load, info.local_world_size) : 0;
    } else if (event.result != pcclRankConnectionLost && event.result != pcclTooFewPeers) {
        (void)fprintf(stderr, "pccl-perf: peer %u: %s (%s)\n", options->index,
                      pcclGetErrorString((pcclResult_t)event.result), pcclGetLastError(load->comm));
        return false;
    }
    return process_write_all(options->result_descriptor, &event, sizeof event);
}

int perf_chaos_worker(const struct perf_options *options)
{
    struct perf_options own = *options;
    own.peers = 2;    /* one peer is missing most of the time */
    own.alike = true; /* the result then shows the number of participants */
    size_t bytes = options->max_bytes + perf_datatype_bytes(options->datatype);
    struct load load = {.options = &own, .input = malloc(bytes), .output = malloc(bytes)};
    load.count = bytes / perf_datatype_bytes(options->datatype) - 1;
    if (load.input && load.output) {
        perf_values_fill(load.input, load.count, &own);
        memset(load.output, 0, bytes);
        load.comm = perf_worker_join(&own);
    } else {
        (void)fprintf(stderr, "pccl-perf: out of memory for two buffers of %zu bytes\n", bytes);
    }
    struct process_watched launcher = {.pipe = options->go_descriptor};
    bool good = load.comm != NULL;
    while (good && process_watch(&launcher, 1, 0) == 0) {
        good = reduce_once(&load);
        if (good && admit(load.comm) != pcclSuccess) {
            (void)fprintf(stderr, "pccl-perf: peer %u: %s\n", options->index, pcclGetLastError(load.comm));
            good = false;
        }
    }
    if (load.comm)
        perf_worker_leave(load.comm);
    free(load.output);
    free(load.input);
    return good ? 0 : 1;
}

/* ---- the launcher ---- */

/* The kind of event that the launcher expects from a worker. */
enum wanted {
    WANT_NOTHING,
    WANT_WHOLE, /* several consecutive operations with all peers */
    WANT_ERROR, /* an error after the signal, or a success without the victim if no operation was in progress */
    WANT_GOOD,  /* a success without the victim */
};

enum { WHOLE_IN_A_ROW = 4 };

struct watched {
    enum wanted wanted;
    uint32_t in_a_row;
};

struct chaos {
    const struct perf_options *options;
    struct perf_launch launch;
    struct process_child *workers;
    struct watched *watched;
    struct process_watched *pipes;
    uint32_t started, next_index;
    double signal_s;
    uint64_t random, wrong;
    struct perf_samples undisturbed, to_error, to_good;
};

static uint32_t draw(struct chaos *chaos, uint32_t bound)
{
    chaos->random = chaos->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((chaos->random >> 33) % bound);
}

static void note_result(struct chaos *chaos, struct watched *watched, const struct event *event)
{
    bool whole = event->result == pcclSuccess && (uint32_t)event->world == chaos->options->peers;
    watched->in_a_row = whole ? watched->in_a_row + 1 : 0;
    if (watched->in_a_row > 1)
        perf_note(&chaos->undisturbed, event->end_s - event->start_s);
    if (watched->in_a_row == WHOLE_IN_A_ROW)
        watched->wanted = WANT_NOTHING;
}

static void follow(struct chaos *chaos, struct watched *watched, const struct event *event)
{
    double since_s = event->end_s - chaos->signal_s;
    if (since_s < 0)
        return;
    if (event->result != pcclSuccess) {
        if (watched->wanted == WANT_ERROR)
            perf_note(&chaos->to_error, since_s);
        watched->wanted = WANT_GOOD;
    } else if ((uint32_t)event->world < chaos->options->peers) { /* else it had ended just before the signal */
        perf_note(&chaos->to_good, since_s);
        watched->wanted = WANT_NOTHING;
    }
}

static void handle(struct chaos *chaos, struct watched *watched, const struct event *event)
{
    chaos->wrong += event->wrong;
    switch (watched->wanted) {
    case WANT_NOTHING: break;
    case WANT_WHOLE: note_result(chaos, watched, event); break;
    case WANT_ERROR:
    case WANT_GOOD: follow(chaos, watched, event); break;
    }
}

/* Reads events until all expected ones have arrived. Reads from all workers, so that none blocks on writing. */
static bool watch(struct chaos *chaos, const char *words)
{
    for (;;) {
        bool any = false;
        for (uint32_t i = 0; i < chaos->started; i++) {
            chaos->pipes[i].pipe = chaos->workers[i].results;
            any = any || chaos->watched[i].wanted != WANT_NOTHING;
        }
        if (!any)
            return true;
        perf_progress(words);
        if (process_watch(chaos->pipes, chaos->started, 250) < 0)
            return false;
        for (uint32_t i = 0; i < chaos->started; i++) {
            struct event event;
            if (!chaos->pipes[i].has_input && !chaos->pipes[i].has_ended)
                continue;
            if (!process_read_all(chaos->workers[i].results, &event, sizeof event)) {
                process_await(&chaos->workers[i]);
                process_report_end(&chaos->workers[i], "peer", i);
                return false;
            }
            handle(chaos, &chaos->watched[i], &event);
        }
    }
}

static void want(struct chaos *chaos, enum wanted wanted)
{
    for (uint32_t i = 0; i < chaos->started; i++)
        chaos->watched[i] = (struct watched){.wanted = wanted};
}

static bool strike(struct chaos *chaos, const char *words)
{
    want(chaos, WANT_WHOLE);
    if (!watch(chaos, words))
        return false;
    process_sleep_s(1e-3 * draw(chaos, 50));
    uint32_t victim = draw(chaos, chaos->started);
    struct process_child gone = chaos->workers[victim];
    want(chaos, WANT_ERROR);
    chaos->watched[victim].wanted = WANT_NOTHING;
    chaos->workers[victim].results = -1; /* no longer watched */
    chaos->signal_s = perf_now_s();
    (chaos->options->chaos == PERF_CHAOS_KILL ? process_kill : process_stop)(&gone);
    bool good = watch(chaos, words);
    (void)process_end(&gone, true);
    chaos->workers[victim] = (struct process_child){.results = -1, .go = -1};
    return good && perf_spawn_worker(&chaos->launch, chaos->next_index++, &chaos->workers[victim]);
}

/* ---- the report ---- */

/* Returns false with a message if a file cannot be written or a goal is missed. */
static bool report(struct chaos *chaos)
{
    const struct perf_options *options = chaos->options;
    bool kills = options->chaos == PERF_CHAOS_KILL;
    struct perf_figures undisturbed = perf_figures_of(&chaos->undisturbed),
                        to_error = perf_figures_of(&chaos->to_error), to_good = perf_figures_of(&chaos->to_good);
    perf_report_figures(options, "an undisturbed operation", &undisturbed);
    perf_report_figures(options, "from the signal to the error", &to_error);
    perf_report_figures(options, "from the signal to the next good result", &to_good);
    bool good = true;
    if (options->json) {
        struct perf_json file;
        struct pccl_json *json = perf_json_begin(&file, NULL);
        pccl_json_string(json, "chaos", kills ? "kill" : "stop");
        pccl_json_number(json, "peers", options->peers);
        pccl_json_number(json, "bytes", options->max_bytes);
        pccl_json_number(json, "rounds", options->rounds);
        pccl_json_number(json, "wrong", chaos->wrong);
        perf_json_figures(json, "undisturbed", &undisturbed);
        perf_json_figures(json, "to_error", &to_error);
        perf_json_figures(json, "to_good", &to_good);
        good = perf_json_save(options, &file);
    }
    const struct perf_judged judged = {.of = kills ? "chaos_kill" : "chaos_stop",
                                       .bytes = options->max_bytes,
                                       .figures = {{"undisturbed_median_ms", undisturbed.median_ms},
                                                   {"undisturbed_p99_ms", undisturbed.p99_ms},
                                                   {"undisturbed_max_ms", undisturbed.max_ms},
                                                   {"to_error_median_ms", to_error.median_ms},
                                                   {"to_error_p99_ms", to_error.p99_ms},
                                                   {"to_error_max_ms", to_error.max_ms},
                                                   {"to_good_median_ms", to_good.median_ms},
                                                   {"to_good_p99_ms", to_good.p99_ms},
                                                   {"to_good_max_ms", to_good.max_ms}}};
    return (!options->gate || perf_gate(options, &judged, 1)) && good;
}

static bool start(struct chaos *chaos, int count, char **arguments)
{
    uint32_t peers = chaos->options->peers;
    chaos->workers = calloc(peers, sizeof *chaos->workers);
    chaos->watched = calloc(peers, sizeof *chaos->watched);
    chaos->pipes = calloc(peers, sizeof *chaos->pipes);
    if (!chaos->workers || !chaos->watched || !chaos->pipes || !perf_spawn_master(&chaos->launch, count, arguments))
        return false;
    for (; chaos->started < peers; chaos->started++)
        if (!perf_spawn_worker(&chaos->launch, chaos->next_index++, &chaos->workers[chaos->started]))
            return false;
    return true;
}

int perf_chaos_run(const struct perf_options *options, int count, char **arguments)
{
    struct chaos chaos = {.options = options, .random = 1};
    char words[64];
    (void)fprintf(perf_table(options), "# %u peers reduce %zu bytes of %s; %u times one is %s\n", options->peers,
                  options->max_bytes, perf_datatype_name(options->datatype), options->rounds,
                  options->chaos == PERF_CHAOS_KILL ? "killed" : "stopped");
    bool good = start(&chaos, count, arguments);
    for (uint32_t round = 0; good && round < options->rounds; round++) {
        (void)snprintf(words, sizeof words, "round %u of %u", round + 1, options->rounds);
        good = strike(&chaos, words);
    }
    perf_progress("");
    for (uint32_t i = 0; i < chaos.started; i++)
        (void)process_end(&chaos.workers[i], true);
    (void)process_end(&chaos.launch.master, !good);
    good = report(&chaos) && good;
    if (chaos.wrong > 0) {
        (void)fprintf(stderr, "pccl-perf: %llu elements are wrong\n", (unsigned long long)chaos.wrong);
        good = false;
    }
    free(chaos.undisturbed.values);
    free(chaos.to_error.values);
    free(chaos.to_good.values);
    free(chaos.pipes);
    free(chaos.watched);
    free(chaos.workers);
    return good ? 0 : 1;
}
