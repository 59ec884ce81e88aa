#include "config/params.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/address.h"
#include "core/token.h"
#include "log/logger.h"

#ifndef environ /* a macro of <stdlib.h> on Windows */
extern char **environ;
#endif

enum kind { U32, SWITCH, LEVEL, TEXT, SECRET, HOST, HOSTS };
enum scope { COMMUNICATOR = pcclParameterCommunicator, MASTER = pcclParameterMaster, PROCESS = pcclParameterProcess };

struct entry {
    const char *name, *env, *value, *min_text, *max_text, *help;
    uint32_t min, max;
    enum kind kind;
    enum scope scope;
    size_t offset; /* offset in struct pccl_params */
};

#define ENTRY(scope, kind, name, env, value, min, max, help)                                                           \
    {#name, env, value, #min, #max, help, min, max, kind, scope, offsetof(struct pccl_params, name)},
static const struct entry entries[PCCL_PARAM_COUNT] = {PCCL_PARAMS(ENTRY)};

_Static_assert(PCCL_TINY_BYTES_MAX == 8192 && PCCL_CANDIDATES_MAX == 16 && PCCL_NAME_MAX == 64 && PCCL_POOL_MAX == 64,
               "the ranges in PCCL_PARAMS repeat these limits as plain numbers");

static const struct {
    const char *name;
    enum pccl_log_level level;
} levels[] = {
    {"TRACE", PCCL_LOG_TRACE}, {"DEBUG", PCCL_LOG_DEBUG}, {"INFO", PCCL_LOG_INFO},  {"WARN", PCCL_LOG_WARN},
    {"ERR", PCCL_LOG_ERROR},   {"ERROR", PCCL_LOG_ERROR}, {"FATAL", PCCL_LOG_NONE}, /* the library logs no fatal errors
                                                                                     */
    {"NONE", PCCL_LOG_NONE},
};

/*
 * PCCL_* variables that the library does not read, although they may be set where it runs: they belong to PCCL's
 * builds, to pccl-master and to the Python package, and cause no warning.
 */
static const char *const other_variables[] = {
    "PCCL_BUILD_CUDA_SUPPORT",
    "PCCL_BUILD_STATIC_LIB",
    "PCCL_BUILD_OPENMP_SUPPORT",
    "PCCL_SANITIZE_TESTS",
    "PCCL_ENABLE_DEBUG_SYMBOLS",
    "PCCL_REL_WITH_DEBUG_SYMBOLS",
    "PCCL_LISTEN",
    "PCCL_LOG_FORMAT",
    "PCCL_IDLE_EXIT_MS",
    "PCCL_MASTER",
    "PCCL_LIBRARY",
};

/* ---- reading values ---- */

static bool parse_u32(const char *text, uint32_t *value)
{
    uint64_t sum = 0;
    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        sum = sum * 10 + (uint64_t)(*text - '0');
        if (sum > UINT32_MAX) {
            return false;
        }
    }
    *value = (uint32_t)sum;
    return true;
}

/* Returns true for a number of bytes, which may be followed by K, M or G. */
static bool is_size(const struct entry *entry) { return strstr(entry->name, "_bytes") != NULL; }

static bool parse_number(const struct entry *entry, const char *text, uint32_t *value)
{
    static const char suffixes[] = "KMGkmg";
    enum { DIGITS_MAX = 10 };
    char digits[DIGITS_MAX + 1];
    size_t length = strlen(text);
    const char *suffix = length > 0 && is_size(entry) ? strchr(suffixes, text[length - 1]) : NULL;
    if (suffix == NULL) {
        return parse_u32(text, value);
    }
    unsigned shift = 10 * (unsigned)((suffix - suffixes) % 3 + 1);
    if (length - 1 > DIGITS_MAX) {
        return false;
    }
    memcpy(digits, text, length - 1);
    digits[length - 1] = '\0';
    if (!parse_u32(digits, value) || *value > UINT32_MAX >> shift) {
        return false;
    }
    *value <<= shift;
    return true;
}

static char lower(char byte) { return (char)(byte >= 'A' && byte <= 'Z' ? byte - 'A' + 'a' : byte); }

/* Returns true if the words are equal except for the case of ASCII letters. */
static bool is_same_word(const char *text, const char *word)
{
    while (*word != '\0' && lower(*text) == lower(*word)) {
        text++;
        word++;
    }
    return *text == *word;
}

static bool parse_bool(const char *text, bool *value)
{
    static const char *const reason[] = {"0", "1", "off", "on", "false", "true", "no", "yes"};
    for (size_t i = 0; i < PCCL_COUNT_OF(reason); i++) {
        if (is_same_word(text, reason[i])) {
            *value = i % 2 == 1;
            return true;
        }
    }
    return false;
}

static bool parse_level(const char *text, enum pccl_log_level *level)
{
    for (size_t i = 0; i < PCCL_COUNT_OF(levels); i++) {
        if (is_same_word(text, levels[i].name)) {
            *level = levels[i].level;
            return true;
        }
    }
    return false;
}

static bool is_printable(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text < 0x20 || *text > 0x7e) {
            return false;
        }
    }
    return true;
}

/* ---- address lists ---- */

static bool is_one_of(char byte, const char *set) { return byte != '\0' && strchr(set, byte) != NULL; }

static bool is_alnum(char byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

/* Returns true if the host is an IPv6 address, possibly with a zone ("fe80::1%eth0"). */
static bool is_ipv6(const char *host)
{
    char plain[256];
    struct pccl_address address;
    size_t length = strcspn(host, "%");
    if (host[length] == '%' && host[length + 1] == '\0') {
        return false;
    }
    for (const char *zone = host + length; *zone != '\0'; zone++) {
        if (!is_alnum(*zone) && !is_one_of(*zone, "%-_.")) {
            return false;
        }
    }
    memcpy(plain, host, length);
    plain[length] = '\0';
    return strchr(plain, ':') && pccl_address_parse_ip(plain, length, &address);
}

/* Returns true for a host name or an IPv4 address. A text of digits and dots must be an address. */
static bool is_name(const char *host)
{
    struct pccl_address address;
    if (strspn(host, "0123456789.") == strlen(host)) {
        return pccl_address_parse_ip(host, strlen(host), &address);
    }
    for (const char *byte = host; *byte != '\0'; byte++) {
        if (!is_alnum(*byte) && !is_one_of(*byte, "-_.")) {
            return false;
        }
    }
    return host[0] != '.' && host[0] != '-';
}

/* Parses one item without surrounding blanks. */
static bool parse_endpoint(const char *item, size_t length, uint16_t default_port, struct pccl_endpoint *out)
{
    char text[sizeof out->host + 16]; /* room for a host, brackets and a port */
    if (length == 0 || length >= sizeof text) {
        return false;
    }
    memcpy(text, item, length);
    text[length] = '\0';
    char *host = text, *port = NULL;
    char *colon = strchr(text, ':');
    bool v6 = false;
    if (text[0] == '[') {
        char *end = strchr(text, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':')) {
            return false;
        }
        host = text + 1;
        port = end[1] == ':' ? end + 2 : NULL;
        *end = '\0';
        v6 = true;
    } else if (colon != NULL && strchr(colon + 1, ':') != NULL) {
        v6 = true;
    } else if (colon != NULL) {
        *colon = '\0';
        port = colon + 1;
    }
    uint32_t number = default_port;
    if (port != NULL && (!parse_u32(port, &number) || number > UINT16_MAX)) {
        return false;
    }
    if (host[0] == '\0' || strlen(host) >= sizeof out->host || !(v6 ? is_ipv6(host) : is_name(host))) {
        return false;
    }
    memcpy(out->host, host, strlen(host) + 1);
    out->port = (uint16_t)number;
    out->has_port = port != NULL;
    return true;
}

enum pccl_status pccl_endpoint_next(const char **cursor, uint16_t default_port, struct pccl_endpoint *out, bool *more,
                                    struct pccl_text *reason)
{
    const char *item = *cursor + strspn(*cursor, " \t");
    if (*item == '\0') {
        *more = false;
        return PCCL_OK;
    }
    size_t length = strcspn(item, ",");
    const char *end = item + length;
    bool comma = *end == ',';
    bool dangling = comma && end[1 + strspn(end + 1, " \t")] == '\0';
    size_t trimmed = length;
    while (trimmed > 0 && is_one_of(item[trimmed - 1], " \t")) {
        trimmed--;
    }
    if (dangling || !parse_endpoint(item, trimmed, default_port, out)) {
        pccl_text_clear(reason);
        pccl_text_add(reason, "'");
        pccl_text_add_bytes(reason, item, dangling ? length + 1 : trimmed);
        pccl_text_add(reason, dangling
                                  ? "' must be followed by an address"
                                  : "' is not an address: expected a name, 1.2.3.4 or [v6], optionally with :port");
        return PCCL_ARGUMENT;
    }
    *cursor = comma ? end + 1 : end;
    *more = true;
    return PCCL_OK;
}

static enum pccl_status check_hosts(const struct entry *entry, const char *value, struct pccl_text *reason)
{
    struct pccl_endpoint endpoint;
    uint32_t count = 0;
    bool more = false;
    for (;;) {
        enum pccl_status status = pccl_endpoint_next(&value, 0, &endpoint, &more, reason);
        if (status != PCCL_OK) {
            return status;
        }
        if (!more) {
            return PCCL_OK;
        }
        if (++count > entry->max)
            return pccl_fail(reason, PCCL_ARGUMENT, "too many addresses: expected at most %u", entry->max);
        if (entry->kind == HOST && endpoint.has_port)
            return pccl_fail(reason, PCCL_ARGUMENT, "'%s:%u' has a port: expected an address without one",
                             endpoint.host, endpoint.port);
    }
}

/* ---- the table ---- */

enum pccl_param pccl_params_find(const char *name)
{
    for (int i = 0; i < PCCL_PARAM_COUNT; i++) {
        if (strcmp(entries[i].name, name) == 0) {
            return (enum pccl_param)i;
        }
    }
    return PCCL_PARAM_COUNT;
}

pcclParameterScope_t pccl_params_scope(enum pccl_param param) { return (pcclParameterScope_t)entries[param].scope; }

enum pccl_status pccl_params_describe(size_t index, pcclParameterInfo_t *info)
{
    enum { SIZE_MAX_OF_ANY_VERSION = 4096 };
    if (index >= PCCL_PARAM_COUNT || info->size < sizeof *info || info->size > SIZE_MAX_OF_ANY_VERSION) {
        return PCCL_ARGUMENT;
    }
    const struct entry *entry = &entries[index];
    bool ranged = entry->kind == U32 || entry->kind == SWITCH;
    pcclParameterInfo_t known = {
        .size = info->size,
        .name = entry->name,
        .env = entry->env,
        .default_value = entry->value,
        .min_value = ranged ? entry->min_text : "",
        .max_value = ranged ? entry->max_text : "",
        .help = entry->help,
        .scope = (pcclParameterScope_t)entry->scope,
    };
    /* Clears members of later versions, too. */
    memset(info, 0, known.size);
    memcpy(info, &known, sizeof known);
    return PCCL_OK;
}

bool pccl_params_is_secret(enum pccl_param param) { return entries[param].kind == SECRET; }

/* Returns NULL if the text is a token, or the reason why it is not. */
static const char *fault_of_token(const char *text)
{
    struct pccl_token token;
    const char *fault = pccl_token_read(text, &token);
    pccl_wipe(&token, sizeof token);
    return fault;
}

enum pccl_status pccl_params_check(enum pccl_param param, const char *value, struct pccl_text *message)
{
    const struct entry *entry = &entries[param];
    struct pccl_text reason;
    pccl_text_clear(&reason);
    uint32_t number;
    bool truth;
    enum pccl_log_level level;
    size_t length = strnlen(value, PCCL_PARAM_BYTES_MAX + 1);
    if (length > PCCL_PARAM_BYTES_MAX) {
        pccl_text_format(&reason, "expected at most %u bytes", PCCL_PARAM_BYTES_MAX);
    } else if (entry->kind == U32) {
        if (!parse_number(entry, value, &number) || number < entry->min || number > entry->max) {
            pccl_text_format(&reason, "expected a number from %s to %s%s", entry->min_text, entry->max_text,
                             is_size(entry) ? ", or in units of K, M or G, such as 64K" : "");
        }
    } else if (entry->kind == SWITCH) {
        if (!parse_bool(value, &truth)) {
            pccl_text_add(&reason, "expected 0 or 1");
        }
    } else if (entry->kind == LEVEL) {
        if (!parse_level(value, &level)) {
            pccl_text_add(&reason, "expected TRACE, DEBUG, INFO, WARN, ERR, FATAL or NONE");
        }
    } else if (entry->kind == TEXT) {
        if (length > entry->max || !is_printable(value)) {
            pccl_text_format(&reason, "expected at most %s printable ASCII characters", entry->max_text);
        }
    } else if (entry->kind == SECRET) {
        if (*value != '\0' && entry->max == PCCL_TOKEN_TEXT) {
            const char *fault = fault_of_token(value);
            pccl_text_add(&reason, fault != NULL ? fault : "");
        } else if (*value != '\0' && pccl_shared_secret_length(value) == 0) {
            pccl_text_add(&reason, PCCL_SHARED_TEXT_RULE "; create one with 'openssl rand -base64 24'");
        }
    } else {
        (void)check_hosts(entry, value, &reason); /* check_hosts has written the whole reason */
    }
    if (reason.length == 0) {
        return PCCL_OK;
    }
    if (entry->kind == SECRET)
        return pccl_fail(message, PCCL_ARGUMENT, "invalid value for %s (not shown): %s", entry->name, reason.bytes);
    pccl_text_format(message, "invalid value '");
    pccl_text_add_bytes(message, value, strnlen(value, 64));
    pccl_text_append(message, "' for %s: %s", entry->name, reason.bytes);
    return PCCL_ARGUMENT;
}

const char *pccl_params_option(const pcclOptions_t *options, enum pccl_param param)
{
    return options != NULL ? options->values[param] : NULL;
}

const char *pccl_params_text(const pcclOptions_t *options, enum pccl_param param)
{
    const char *set = pccl_params_option(options, param);
    if (set == NULL) {
        const char *variable = getenv(entries[param].env);
        set = variable != NULL && *variable != '\0' ? variable : entries[param].value;
    }
    return set;
}

static void store(const struct entry *entry, const char *text, struct pccl_params *out)
{
    void *member = (char *)out + entry->offset;
    switch (entry->kind) {
    case U32: (void)parse_number(entry, text, member); break;
    case SWITCH: (void)parse_bool(text, member); break;
    case LEVEL: (void)parse_level(text, member); break;
    case TEXT:
    case SECRET:
    case HOST:
    case HOSTS: memcpy(member, text, strlen(text) + 1); break;
    }
}

static enum pccl_status misfit(struct pccl_text *reason, const char *name, uint32_t value, const char *relation,
                               const char *other_name, uint32_t other)
{
    return pccl_fail(reason, PCCL_ARGUMENT, "%s (%u) must %s %s (%u)", name, value, relation, other_name, other);
}

bool pccl_params_use_local_sockets(const struct pccl_params *params) { return strcmp(params->local, "tcp") != 0; }

bool pccl_params_use_pipes(const struct pccl_params *params) { return strcmp(params->local, "auto") == 0; }

/* Checks that values are consistent with each other. */
static enum pccl_status check_master(const struct pccl_params *params, struct pccl_text *reason)
{
    if ((uint64_t)params->heartbeat_ms * 2 >= params->silence_ms) {
        return misfit(reason, "heartbeat_ms", params->heartbeat_ms, "be less than half of", "silence_ms",
                      params->silence_ms);
    }
    if (params->recover_ms > params->alone_ms) {
        return misfit(reason, "recover_ms", params->recover_ms, "not be more than", "alone_ms", params->alone_ms);
    }
    if (strcmp(params->encryption, "on") != 0 && strcmp(params->encryption, "control") != 0 &&
        strcmp(params->encryption, "off") != 0) {
        return pccl_fail(reason, PCCL_ARGUMENT, "invalid value '%s' for encryption: expected on, control or off",
                         params->encryption);
    }
    if (strcmp(params->slow_peer, "warn") != 0 && strcmp(params->slow_peer, "expel") != 0)
        return pccl_fail(reason, PCCL_ARGUMENT, "invalid value '%s' for slow_peer: expected warn or expel",
                         params->slow_peer);
    return PCCL_OK;
}

static enum pccl_status check_communicator(const pcclOptions_t *options, const struct pccl_params *params,
                                           struct pccl_text *reason)
{
    if (strcmp(params->local, "tcp") != 0 && strcmp(params->local, "unix") != 0 && !pccl_params_use_pipes(params))
        return pccl_fail(reason, PCCL_ARGUMENT, "invalid value '%s' for local: expected auto, unix or tcp",
                         params->local);
    if (params->dial_ms > params->dial_max_ms) {
        return misfit(reason, "dial_ms", params->dial_ms, "not be more than", "dial_max_ms", params->dial_max_ms);
    }
    /* The master's value is unknown here, so it is assumed to be the same. */
    const char *alone = pccl_params_text(options, PCCL_PARAM_alone_ms);
    enum pccl_status status = pccl_params_check(PCCL_PARAM_alone_ms, alone, reason);
    uint32_t alone_ms = 0;
    if (status != PCCL_OK) {
        return status;
    }
    (void)parse_u32(alone, &alone_ms);
    if (params->master_lost_ms <= alone_ms) {
        return misfit(reason, "master_lost_ms", params->master_lost_ms, "be more than the master's", "alone_ms",
                      alone_ms);
    }
    return PCCL_OK;
}

enum pccl_status pccl_params_load(const pcclOptions_t *options, pcclParameterScope_t scope, struct pccl_params *out,
                                  struct pccl_text *reason)
{
    for (int i = 0; i < PCCL_PARAM_COUNT; i++) {
        const struct entry *entry = &entries[i];
        const char *text = entry->value;
        if ((pcclParameterScope_t)entry->scope == scope) {
            text = pccl_params_text(options, (enum pccl_param)i);
            enum pccl_status status = pccl_params_check((enum pccl_param)i, text, reason);
            if (status != PCCL_OK) {
                if (pccl_params_option(options, (enum pccl_param)i) == NULL) {
                    pccl_text_append(reason, " (from the environment variable %s)", entry->env);
                }
                return status;
            }
        }
        store(entry, text, out);
        out->given[i] = text != entry->value;
    }
    switch (scope) {
    case pcclParameterMaster: return check_master(out, reason);
    case pcclParameterCommunicator: return check_communicator(options, out, reason);
    case pcclParameterProcess: break;
    }
    return PCCL_OK;
}

/* ---- process-wide parameters ---- */

static bool is_known(const char *variable, size_t length)
{
    for (int i = 0; i < PCCL_PARAM_COUNT; i++) {
        if (strlen(entries[i].env) == length && memcmp(entries[i].env, variable, length) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < PCCL_COUNT_OF(other_variables); i++) {
        if (strlen(other_variables[i]) == length && memcmp(other_variables[i], variable, length) == 0) {
            return true;
        }
    }
    return false;
}

void pccl_params_unknown(char *const *environment, void (*report)(void *context, const char *name), void *context)
{
    for (; environment != NULL && *environment != NULL; environment++) {
        const char *variable = *environment;
        size_t length = strcspn(variable, "=");
        if (strncmp(variable, "PCCL_", 5) == 0 && !is_known(variable, length)) {
            char name[128];
            size_t shown = length < sizeof name - 1 ? length : sizeof name - 1;
            memcpy(name, variable, shown);
            name[shown] = '\0';
            report(context, name);
        }
    }
}

static void warn_unknown(void *context, const char *name)
{
    (void)context;
    pccl_logger_print(PCCL_LOG_WARN, "params", "ignoring the unknown environment variable %s", name);
}

void pccl_params_init_process(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&done)) {
        return;
    }
    const char *level_text = pccl_params_text(NULL, PCCL_PARAM_log_level);
    enum pccl_log_level level;
    if (parse_level(level_text, &level)) {
        pccl_logger_suggest_level(level);
    }
    for (int i = 0; i < PCCL_PARAM_COUNT; i++) {
        struct pccl_text reason;
        if (entries[i].scope == PROCESS &&
            pccl_params_check((enum pccl_param)i, pccl_params_text(NULL, (enum pccl_param)i), &reason) != PCCL_OK) {
            pccl_logger_print(PCCL_LOG_WARN, "params", "%s (from the environment variable %s); using %s", reason.bytes,
                              entries[i].env, entries[i].value);
        }
    }
    pccl_params_unknown(environ, warn_unknown, NULL);
}
