#include "options.h"

#include "help.h"
#include "kernels/reduce.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW(name, words, bytes, kind) #words,
static const char *const datatypes[] = {PCCL_DATATYPE_ROWS(ROW)};
#define COLLECTIVES                                                                                                    \
    "all_reduce", "broadcast", "all_gather", "all_gather_v", "reduce_scatter", "reduce", "gather", "scatter",          \
        "all_to_all", "gather_v", "scatter_v", "all_to_all_v", "send", "exclusive_scan", "inclusive_scan", "barrier"
#define OPERATIONS "sum", "avg", "prod", "max", "min", "and", "or", "xor", "premul_sum"
static const char *const operations[] = {OPERATIONS};
static const enum pccl_collective collectives[] = {
    PCCL_ALL_REDUCE,     PCCL_BROADCAST,      PCCL_ALL_GATHER,     PCCL_ALL_GATHER_V,
    PCCL_REDUCE_SCATTER, PCCL_REDUCE,         PCCL_GATHER,         PCCL_SCATTER,
    PCCL_ALL_TO_ALL,     PCCL_GATHER_V,       PCCL_SCATTER_V,      PCCL_ALL_TO_ALL_V,
    PCCL_SEND,           PCCL_EXCLUSIVE_SCAN, PCCL_INCLUSIVE_SCAN, PCCL_BARRIER};
static const char *const codecs[] = {"none", "minmax", "zps", "e4m3", "e5m2", "int4", "e3m0", "e2m1", "auto"};
static const char *const scales[] = {"f32", "bf16", "pow2"};
static const char *const roundings[] = {"nearest", "stochastic"};

size_t perf_datatype_bytes(pcclDataType_t datatype) { return pccl_datatype_bytes((enum pccl_datatype)datatype); }
const char *perf_datatype_name(pcclDataType_t datatype) { return datatypes[datatype]; }
const char *perf_codec_name(pcclQuantizationAlgorithm_t algorithm) { return codecs[algorithm]; }
const char *perf_operation_name(pcclRedOp_t operation) { return operations[operation]; }

const char *perf_collective_name(enum pccl_collective collective)
{
    static const char *const names[] = {COLLECTIVES};
    size_t i = 0;
    while (collectives[i] != collective)
        i++;
    return names[i];
}

uint32_t perf_parts(const struct perf_options *options)
{
    const struct pccl_collective_row *row = perf_row(options);
    const bool in_parts = row->input.amount == PCCL_PART_FOR_EACH || row->result.amount == PCCL_PART_FOR_EACH;
    return in_parts ? options->peers : 1;
}

double perf_traffic(const struct perf_options *options, uint32_t peers)
{
    switch (options->collective) {
    case PCCL_ALL_REDUCE: return 2.0 * (peers - 1) / peers;
    case PCCL_BROADCAST:
    case PCCL_REDUCE:
    case PCCL_EXCLUSIVE_SCAN:
    case PCCL_INCLUSIVE_SCAN:
    case PCCL_SEND: return 1;
    case PCCL_BARRIER: return 0;
    default: return (double)(peers - 1) / peers;
    }
}

uint32_t perf_senders(const struct perf_options *options)
{
    switch (options->collective) {
    case PCCL_BROADCAST:
    case PCCL_REDUCE:
    case PCCL_EXCLUSIVE_SCAN:
    case PCCL_INCLUSIVE_SCAN: return options->peers - 1;
    case PCCL_GATHER:
    case PCCL_GATHER_V:
    case PCCL_SCATTER:
    case PCCL_SCATTER_V: return 1;
    case PCCL_SEND: return options->peers / 2;
    default: return options->peers;
    }
}

size_t perf_next_size(const struct perf_options *options, size_t bytes)
{
    for (uint32_t i = 0; i < options->size_count; i++)
        if (options->sizes[i] > bytes)
            return options->sizes[i];
    if (options->size_count > 0)
        return 0;
    size_t next = options->step_factor > 1 ? bytes * options->step_factor : bytes + options->step_bytes;
    return next > bytes && next <= options->max_bytes ? next : 0;
}

/* ---- reading values ---- */

static bool wrong(const char *option, const char *value, const char *expected)
{
    (void)fprintf(stderr, "pccl-perf: %s %s: %s\n", option, value, expected);
    return false;
}

static bool read_number(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != 0 || errno != 0 || number < least || number > most) {
        (void)fprintf(stderr, "pccl-perf: %s %s: expected a number from %llu to %llu\n", option, text,
                      (unsigned long long)least, (unsigned long long)most);
        return false;
    }
    *value = number;
    return true;
}

static bool read_cost(const char *option, const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return (end != text && *end == 0 && *value > 0 && *value < 1e6) ||
           wrong(option, text, "expected a number of seconds above 0");
}

static bool read_u32(const char *option, const char *text, uint32_t least, uint32_t most, uint32_t *value)
{
    uint64_t number;
    if (!read_number(option, text, least, most, &number))
        return false;
    *value = (uint32_t)number;
    return true;
}

static bool read_size(const char *option, const char *text, size_t *value)
{
    static const char suffixes[] = "KMGT";
    char digits[32];
    size_t length = strlen(text);
    unsigned shift = 0;
    const char *suffix = length > 0 ? strchr(suffixes, text[length - 1] & ~0x20) : NULL;
    if (suffix != NULL && *suffix != 0) {
        shift = 10 * (unsigned)(suffix - suffixes + 1);
        length--;
    }
    if (length == 0 || length >= sizeof digits)
        return wrong(option, text, "expected a size such as 4, 64K or 1M");
    memcpy(digits, text, length);
    digits[length] = 0;
    uint64_t number;
    if (!read_number(option, digits, 1, UINT64_C(1) << 44 >> shift, &number))
        return false;
    *value = (size_t)(number << shift);
    return true;
}

static bool read_name(const char *option, const char *text, const char *const *names, size_t count, unsigned *value)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *value = (unsigned)i;
            return true;
        }
    }
    (void)fprintf(stderr, "pccl-perf: %s %s: one of", option, text);
    for (size_t i = 0; i < count; i++)
        (void)fprintf(stderr, " %s", names[i]);
    (void)fprintf(stderr, " is expected\n");
    return false;
}

/* Reads BLOCK, SCALE and optionally ROUNDING. */
static bool read_scaled(const char *option, const char *text, unsigned format, char *const *words, size_t count,
                        struct perf_options *options)
{
    pcclCodecParams_t params = PCCL_CODEC_PARAMS_INIT;
    unsigned scale = 0, rounding = 0;
    params.feedback = count > 0 && strcmp(words[count - 1], "feedback") == 0;
    count -= params.feedback;
    if ((count > 1 && !read_name(option, words[1], scales, sizeof scales / sizeof *scales, &scale)) ||
        (count > 2 && !read_name(option, words[2], roundings, sizeof roundings / sizeof *roundings, &rounding)))
        return false;
    params.format = (pcclQuantizationAlgorithm_t)format;
    params.block = count > 0 ? (uint32_t)strtoul(words[0], NULL, 10) : params.block;
    params.scale = (pcclCodecScale_t)scale;
    params.rounding = (pcclCodecRounding_t)rounding;
    params.budget_ms = params.format == pcclQuantAuto ? 1 : 0; /* a placeholder until the budget has been read */
    if (count > 3 || pcclCreateCodec(&params, &options->codec) != pcclSuccess)
        return wrong(option, text, count > 3 ? "too many colons" : pcclGetLastError(NULL));
    options->codec_params = params;
    return true;
}

static bool read_budget(const char *option, const char *text, uint32_t *budget)
{
    char *end;
    const unsigned long number = strtoul(text, &end, 10);
    if (*text < '1' || *text > '9' || *end || number > UINT32_MAX)
        return wrong(option, text, "expected a whole number");
    *budget = (uint32_t)number;
    return true;
}

/* Sets the budget. Call when both options have been read. */
static bool set_budget(struct perf_options *options)
{
    const bool automatic = options->codec.algorithm == pcclQuantAuto;
    if (automatic != (options->budget_ms != 0 || options->budget_percent != 0))
        return wrong("--codec", options->codec_text,
                     "a budget (--budget-ms or --budget-percent) is required with auto and only with auto");
    options->codec_params.budget_ms = options->budget_ms;
    options->codec_params.budget_percent = options->budget_percent;
    return !automatic || pcclCreateCodec(&options->codec_params, &options->codec) == pcclSuccess ||
           wrong("--codec", options->codec_text, pcclGetLastError(NULL));
}

static bool read_codec(const char *option, const char *text, struct perf_options *options)
{
    enum { WORDS = 6 };
    char copy[64], *words[WORDS] = {copy};
    size_t count = 1;
    unsigned number, packed = 0;
    if (strlen(text) >= sizeof copy)
        return wrong(option, text, "expected a codec");
    memcpy(copy, text, strlen(text) + 1);
    for (char *at = copy; count < WORDS && (at = strchr(at, ':')) != NULL; count++) {
        *at++ = 0;
        words[count] = at;
    }
    if (!read_name(option, words[0], codecs, sizeof codecs / sizeof *codecs, &number))
        return false;
    options->codec_text = number == pcclQuantNone ? "-" : text;
    if (number >= pcclQuantE4M3)
        return read_scaled(option, text, number, words + 1, count - 1, options);
    if (count != (number == pcclQuantNone ? 1 : 2))
        return wrong(option, text, "expected none, minmax:TYPE or zps:TYPE");
    if (count > 1 && !read_name(option, words[1], datatypes, sizeof datatypes / sizeof *datatypes, &packed))
        return false;
    options->codec = (pcclQuantizationOptions_t){(pcclDataType_t)packed, (pcclQuantizationAlgorithm_t)number};
    return true;
}

static bool read_sizes(const char *option, const char *list, struct perf_options *options)
{
    options->size_count = 0;
    for (const char *at = list; at; at = strchr(at, ',')) {
        char text[32];
        at += *at == ',';
        size_t length = strcspn(at, ","), size;
        if (length >= sizeof text || options->size_count == PERF_SIZES_MAX)
            return wrong(option, list, "too many sizes");
        memcpy(text, at, length);
        text[length] = 0;
        if (!read_size(option, text, &size))
            return false;
        if (options->size_count > 0 && size <= options->sizes[options->size_count - 1])
            return wrong(option, list, "sizes must be in ascending order");
        options->sizes[options->size_count++] = size;
    }
    options->min_bytes = options->sizes[0];
    options->max_bytes = options->sizes[options->size_count - 1];
    return true;
}

static bool add_setting(const char *option, const char *text, struct perf_options *options)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return wrong(option, text, "expected NAME=VALUE");
    if (strncmp(text, "token=", 6) == 0)
        return wrong(option, "token", "other users can read the command line: use PCCL_TOKEN_FILE or PCCL_TOKEN");
    if (options->setting_count == PERF_SETTINGS_MAX)
        return wrong(option, text, "too many options");
    options->settings[options->setting_count++] = text;
    return true;
}

/* ---- parameters of the library ---- */

static pcclResult_t set_one(pcclOptions_t *set, const char *setting)
{
    char name[64];
    size_t length = strcspn(setting, "=");
    if (length >= sizeof name)
        return pcclInvalidArgument;
    memcpy(name, setting, length);
    name[length] = 0;
    return pcclSetOption(set, name, setting + length + 1);
}

const char *perf_local(const struct perf_options *options)
{
    static const char name[] = "local=";
    const char *value = getenv("PCCL_LOCAL");
    for (uint32_t i = 0; i < options->setting_count; i++)
        if (strncmp(options->settings[i], name, sizeof name - 1) == 0)
            value = options->settings[i] + sizeof name - 1;
    return value && value[0] ? value : "auto";
}

pcclOptions_t *perf_library_options(const struct perf_options *options)
{
    pcclOptions_t *set = NULL;
    char name[32];
    pcclResult_t result = pcclCreateOptions(&set);
    (void)snprintf(name, sizeof name, "peer %u", options->index);
    if (result == pcclSuccess && options->mode == PERF_WORKER)
        result = pcclSetOption(set, "name", name);
    if (result == pcclSuccess && options->pool)
        result = pcclSetOption(set, "connection_pool_size", options->pool);
    for (uint32_t i = 0; i < options->setting_count && result == pcclSuccess; i++)
        result = set_one(set, options->settings[i]);
    if (result == pcclSuccess)
        return set;
    (void)fprintf(stderr, "pccl-perf: %s (%s)\n", pcclGetErrorString(result), pcclGetLastError(NULL));
    if (set)
        (void)pcclDestroyOptions(set);
    return NULL;
}

/* ---- options ---- */

enum { STATE_BYTES = 256 << 20, TOPOLOGY_BYTES = 1 << 20 }; /* defaults */
enum { ITERATIONS = 20, TOPOLOGY_ITERATIONS = 1 };

enum {
    IN_PLACE = 256,
    BUDGET_MS,
    BUDGET_PERCENT,
    NO_LIMIT,
    JSON,
    GATE,
    CHAOS,
    ROUNDS,
    CONNECT,
    SIZES,
    LIMIT_CPU,
    LIMIT_CACHE,
    EXACT,
    STATE,
    TOPOLOGY,
    SOLVE,
    SEED,
    STEPS,
    DUMP,
    WORKER,
    MASTER,
};

static const struct option table[] = {
    {"peers", 1, NULL, 'N'},
    {"minbytes", 1, NULL, 'b'},
    {"maxbytes", 1, NULL, 'e'},
    {"stepfactor", 1, NULL, 'f'},
    {"stepbytes", 1, NULL, 'i'},
    {"iters", 1, NULL, 'n'},
    {"datatype", 1, NULL, 'd'},
    {"warmup_iters", 1, NULL, 'w'},
    {"op", 1, NULL, 'o'},
    {"check", 1, NULL, 'c'},
    {"concurrent", 1, NULL, 'k'},
    {"tensors", 1, NULL, 't'},
    {"codec", 1, NULL, 'q'},
    {"budget-ms", 1, NULL, BUDGET_MS},
    {"budget-percent", 1, NULL, BUDGET_PERCENT},
    {"pool", 1, NULL, 'p'},
    {"in-place", 1, NULL, IN_PLACE},
    {"no-limit", 0, NULL, NO_LIMIT},
    {"json", 1, NULL, JSON},
    {"gate", 1, NULL, GATE},
    {"chaos", 1, NULL, CHAOS},
    {"rounds", 1, NULL, ROUNDS},
    {"connect", 1, NULL, CONNECT},
    {"help", 0, NULL, 'h'},
    {"option", 1, NULL, 'O'},
    {"sizes", 1, NULL, SIZES},
    {"limit-cpu", 1, NULL, LIMIT_CPU},
    {"limit-cache", 0, NULL, LIMIT_CACHE},
    {"exact", 0, NULL, EXACT},
    {"state", 0, NULL, STATE},
    {"topology", 0, NULL, TOPOLOGY},
    {"solve", 1, NULL, SOLVE},
    {"seed", 1, NULL, SEED},
    {"steps", 1, NULL, STEPS},
    {"dump", 1, NULL, DUMP},
    {"version", 0, NULL, 'V'},
    {"worker", 1, NULL, WORKER},
    {"master", 1, NULL, MASTER},
    {NULL, 0, NULL, 0},
};

static bool read_in_place(const char *text, struct perf_options *options)
{
    static const char *const names[] = {"0", "1", "both"};
    unsigned number;
    if (!read_name("--in-place", text, names, 3, &number))
        return false;
    options->out_of_place = number != 1;
    options->in_place = number != 0;
    return true;
}

/* Reads the value passed by the launcher: "INDEX,RESULT_DESCRIPTOR,GO_DESCRIPTOR,MASTER_PROCESS". */
static bool read_worker(const char *text, struct perf_options *options)
{
    unsigned index;
    int result, go;
    long master;
    if (sscanf(text, "%u,%d,%d,%ld", &index, &result, &go, &master) != 4)
        return wrong("--worker", text, "internal option");
    options->mode = PERF_WORKER;
    options->alike = false;
    options->index = index;
    options->result_descriptor = result;
    options->go_descriptor = go;
    options->master_process = master;
    return true;
}

/* Reads a collective or a reduction. */
static bool read_op(const char *text, struct perf_options *options)
{
    static const char *const names[] = {COLLECTIVES, OPERATIONS};
    enum { FIRST_OPERATION = sizeof collectives / sizeof *collectives };
    unsigned number;
    if (!read_name("--op", text, names, sizeof names / sizeof *names, &number))
        return false;
    if (number < FIRST_OPERATION)
        options->collective = collectives[number];
    else
        options->operation = (pcclRedOp_t)(number - FIRST_OPERATION);
    return true;
}

static bool read_option(int option, const char *value, struct perf_options *options)
{
    static const char *const kinds[] = {"none", "kill", "stop"};
    unsigned number = 0;
    uint32_t flag = 0;
    bool right = true;
    switch (option) {
    case 'N': return read_u32("--peers", value, 2, 1024, &options->peers);
    case 'b': options->sized = true; return read_size("--minbytes", value, &options->min_bytes);
    case 'e': options->sized = true; return read_size("--maxbytes", value, &options->max_bytes);
    case 'f': return read_u32("--stepfactor", value, 1, 1 << 20, &options->step_factor);
    case 'i': return read_size("--stepbytes", value, &options->step_bytes);
    case 'n': return read_u32("--iters", value, 1, 1 << 20, &options->iterations);
    case 'w': return read_u32("--warmup_iters", value, 0, 1 << 20, &options->warm_up);
    case 'k': return read_u32("--concurrent", value, 1, 1024, &options->concurrent);
    case 't': return read_u32("--tensors", value, 1, PERF_TENSORS_MAX, &options->tensors);
    case 'd':
        right = read_name("--datatype", value, datatypes, sizeof datatypes / sizeof *datatypes, &number);
        options->datatype = (pcclDataType_t)number;
        return right;
    case 'o': return read_op(value, options);
    case 'c':
        right = read_u32("--check", value, 0, 1, &flag);
        options->check = flag != 0;
        return right;
    case 'q': return read_codec("--codec", value, options);
    case BUDGET_MS: return read_budget("--budget-ms", value, &options->budget_ms);
    case BUDGET_PERCENT: return read_budget("--budget-percent", value, &options->budget_percent);
    case 'p': options->pool = value; return true; /* checked by the library */
    case 'O': return add_setting("--option", value, options);
    case EXACT: options->exact = true; return true;
    case STATE: options->state = true; return true;
    case TOPOLOGY: options->topology = true; return true;
    case SOLVE: options->solve = value; return true;
    case SEED: options->seeded = true; return read_number("--seed", value, 0, UINT64_MAX, &options->seed);
    case STEPS: return read_number("--steps", value, 1, UINT64_MAX, &options->steps);
    case DUMP: options->dump = value; return true;
    case SIZES: options->sized = true; return read_sizes("--sizes", value, options);
    case IN_PLACE: return read_in_place(value, options);
    case NO_LIMIT: options->limit = false; return true;
    case LIMIT_CACHE: options->limit_cache = true; return true;
    case LIMIT_CPU: return read_cost("--limit-cpu", value, &options->limit_cpu);
    case JSON: options->json = value; return true;
    case GATE: options->gate = value; return true;
    case CHAOS:
        right = read_name("--chaos", value, kinds, 3, &number);
        options->chaos = (enum perf_chaos)number;
        return right;
    case ROUNDS: return read_u32("--rounds", value, 1, 1 << 20, &options->rounds);
    case CONNECT:
        options->master = value;
        if (options->mode == PERF_LOCAL) {
            options->mode = PERF_PEER;
            options->alike = true;
        }
        return true;
    case WORKER: return read_worker(value, options);
    case MASTER:
        options->mode = PERF_MASTER;
        if (sscanf(value, "0,%d,%d", &options->result_descriptor, &options->go_descriptor) != 2)
            return wrong("--master", value, "internal option");
        return true;
    default: return false;
    }
}

/* Reports the last argument that getopt_long rejected, with the option that it was probably meant to be. */
static void reject(int option, char **arguments)
{
    const char *names[PCCL_COUNT_OF(table)], *given = arguments[optind - 1];
    char name[32];
    size_t count = 0;
    for (; table[count].val != WORKER; count++) /* the last ones are internal */
        names[count] = table[count].name;
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(given, "="), given);
    const bool is_long = strncmp(name, "--", 2) == 0;
    const char *closest = is_long && optopt == 0 ? help_closest(name + 2, names, count) : NULL;
    if (option == ':')
        (void)fprintf(stderr, "pccl-perf: %.200s requires a value\n", given);
    else if (is_long && optopt != 0)
        (void)fprintf(stderr, "pccl-perf: %s does not accept a value\n", name);
    else if (is_long)
        (void)fprintf(stderr, "pccl-perf: unknown or ambiguous option %.200s%s%s%s\n", given,
                      closest ? "; did you mean '--" : "", closest ? closest : "", closest ? "'?" : "");
    else
        (void)fprintf(stderr, "pccl-perf: unknown option -%c\n", optopt);
    (void)fprintf(stderr, "Try 'pccl-perf --help'.\n");
}

static bool is_stream(const char *name) { return name && strcmp(name, "-") == 0; }

static const char *misfit_of_topology(const struct perf_options *options)
{
    if (options->solve && (options->mode != PERF_LOCAL || options->topology || options->state || options->gate ||
                           options->chaos != PERF_NO_CHAOS))
        return "--solve can only be combined with --seed, --steps, --dump and --json";
    if (options->topology && (options->state || options->chaos != PERF_NO_CHAOS || options->mode == PERF_LIMIT))
        return "--topology cannot be combined with --state, --chaos or limit";
    if (!options->solve && (options->seeded || options->steps > 0))
        return "--seed and --steps require --solve";
    if (!options->solve && !options->topology && options->dump)
        return "--dump requires --topology or --solve";
    if (is_stream(options->dump) && is_stream(options->json))
        return "--dump and --json cannot both write to standard output";
    return NULL;
}

static const char *misfit(const struct perf_options *options)
{
    const char *words = pccl_row_misfit(perf_row(options), (enum pccl_datatype)options->datatype,
                                        (enum pccl_reduce_op)options->operation);
    if (words && perf_row(options)->reduces)
        return words;
    if (options->min_bytes > options->max_bytes)
        return "--minbytes is larger than --maxbytes";
    if (options->size_count == 0 && options->step_factor == 1 && options->step_bytes == 0 &&
        options->min_bytes != options->max_bytes)
        return "--stepfactor 1 requires --stepbytes";
    if (options->chaos != PERF_NO_CHAOS && options->mode == PERF_PEER)
        return "--chaos requires local peers";
    if (options->chaos != PERF_NO_CHAOS && options->peers < 3)
        return "--chaos requires at least three peers, so that a group remains";
    if (options->chaos != PERF_NO_CHAOS && options->mode == PERF_LIMIT)
        return "--chaos cannot be combined with limit";
    if (options->state && options->mode == PERF_PEER)
        return "--state requires local peers";
    if (options->state && options->mode == PERF_LIMIT)
        return "--state cannot be combined with limit";
    if (options->state && options->chaos != PERF_NO_CHAOS && options->gate)
        return "--state --chaos cannot be combined with --gate";
    if (options->exact && options->codec.algorithm == pcclQuantNone)
        return "--exact requires --codec";
    if (options->codec.algorithm != pcclQuantNone && perf_row(options)->of != PCCL_OF_ELEMENTS)
        return "--codec requires an operation on elements";
    if (options->codec.algorithm == pcclQuantAuto && perf_row(options)->codecs != PCCL_GIVEN_OR_AUTOMATIC_CODEC)
        return "--codec auto requires all_reduce or reduce_scatter";
    if (options->codec.algorithm != pcclQuantNone && perf_row(options)->codecs == PCCL_NEVER_PACKED)
        return "data sent to a single peer cannot be quantized";
    if (options->collective != PCCL_ALL_REDUCE &&
        (options->state || options->topology || options->solve || options->chaos != PERF_NO_CHAOS))
        return "--op cannot be combined with --state, --topology, --solve or --chaos";
    if (options->tensors > 1 && options->collective != PCCL_ALL_REDUCE)
        return "--tensors requires all_reduce";
    if (options->collective == PCCL_SEND && options->peers % 2 != 0)
        return "send requires an even number of peers";
    if (options->collective == PCCL_BARRIER && options->mode == PERF_LIMIT)
        return "a barrier has no limit, as it moves no data";
    if (options->mode == PERF_LIMIT && (options->gate || options->master))
        return "limit cannot be combined with --gate or --connect";
    return misfit_of_topology(options);
}

static bool fits(const struct perf_options *options)
{
    const char *words = misfit(options);
    if (words)
        (void)fprintf(stderr, "pccl-perf: %s\n", words);
    return words == NULL;
}

/* Returns true if the files can be opened. Otherwise they would be missed only after the measurement. */
static bool can_open_files(const struct perf_options *options)
{
    const struct {
        const char *option, *name, *mode;
    } files[] = {{"--gate", options->gate, "r"}, {"--json", options->json, "a"}, {"--dump", options->dump, "a"}};
    for (size_t i = 0; i < PCCL_COUNT_OF(files); i++) {
        if (!files[i].name || is_stream(files[i].name))
            continue;
        FILE *file = fopen(files[i].name, files[i].mode);
        if (!file || fclose(file) != 0)
            return wrong(files[i].option, files[i].name, strerror(errno));
    }
    return true;
}

/* Checks the settings once, so that an error is reported once instead of by every peer. */
static bool settings_are_right(const struct perf_options *options)
{
    pcclOptions_t *set = perf_library_options(options);
    if (set)
        (void)pcclDestroyOptions(set);
    return set != NULL;
}

bool perf_options_read(int count, char **arguments, struct perf_options *options, bool *answered)
{
    *options = (struct perf_options){.peers = 2,
                                     .codec_text = "-",
                                     .min_bytes = 4,
                                     .max_bytes = 64 << 20,
                                     .step_factor = 4,
                                     .warm_up = 5,
                                     .datatype = pcclFloat,
                                     .concurrent = 1,
                                     .tensors = 1,
                                     .out_of_place = true,
                                     .in_place = true,
                                     .check = true,
                                     .limit = true,
                                     .limit_cpu = 0.40,
                                     .rounds = 20,
                                     .result_descriptor = -1,
                                     .go_descriptor = -1};
    *answered = false;
    int option;
    opterr = 0;
    while ((option = getopt_long(count, arguments, ":N:b:e:f:i:n:w:d:o:c:k:t:q:p:O:hV", table, NULL)) != -1) {
        if (option == 'h' || option == 'V') {
            uint32_t version = pcclGetVersion();
            if (option == 'h')
                perf_print_help();
            else
                (void)printf("pccl-perf %u.%u.%u\n", version / 10000, version / 100 % 100, version % 100);
            *answered = true;
            return true;
        }
        if (option == '?' || option == ':')
            reject(option, arguments);
        if (!read_option(option, optarg, options))
            return false;
    }
    if (optind < count && strcmp(arguments[optind], "limit") == 0) {
        if (options->mode <= PERF_PEER)
            options->mode = PERF_LIMIT;
        optind++;
    }
    if (optind < count)
        return wrong("the argument", arguments[optind], "unknown; see --help");
    if (options->state && !options->sized)
        options->min_bytes = options->max_bytes = STATE_BYTES;
    if (options->topology && !options->sized)
        options->min_bytes = options->max_bytes = TOPOLOGY_BYTES;
    if (options->collective == PCCL_BROADCAST || options->collective == PCCL_SEND ||
        options->collective == PCCL_BARRIER) {
        options->in_place = true; /* there is one buffer, or none */
        options->out_of_place = false;
    }
    if (perf_gives_blobs(options) || options->collective == PCCL_ALL_TO_ALL) {
        options->in_place = false; /* the result is in the library's memory, or must not overlap the input */
        options->out_of_place = true;
    }
    if (options->collective == PCCL_BARRIER) {
        options->min_bytes = options->max_bytes = perf_datatype_bytes(options->datatype); /* one size */
        options->size_count = 0;
        options->limit = false;
    }
    if (options->iterations == 0) /* not specified */
        options->iterations = options->topology ? TOPOLOGY_ITERATIONS : ITERATIONS;
    return set_budget(options) && fits(options) && can_open_files(options) && settings_are_right(options);
}
