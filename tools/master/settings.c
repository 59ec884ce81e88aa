#include "settings.h"

#include "ccoip.h"
#include "api/api.h"
#include "drive/master_server.h"
#include "config/options.h"
#include "log_format.h"
#include "system/process.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char default_listen[] = "[::]:48148";

void settings_explain(struct settings_problem *problem, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(problem->words, sizeof problem->words, format, arguments);
    va_end(arguments);
}

/* ---- names ---- */

static pcclParameterInfo_t info_of(int which)
{
    pcclParameterInfo_t info = PCCL_PARAMETER_INFO_INIT;
    switch (which) {
    case SETTING_LISTEN:
        info.name = "listen";
        info.env = "PCCL_LISTEN";
        info.default_value = default_listen;
        break;
    case SETTING_LOG_FORMAT:
        info.name = "log_format";
        info.env = "PCCL_LOG_FORMAT";
        info.default_value = "text";
        break;
    case SETTING_IDLE_EXIT_MS:
        info.name = "idle_exit_ms";
        info.env = "PCCL_IDLE_EXIT_MS";
        info.default_value = "0";
        break;
    default: (void)pcclGetParameterInfo((size_t)which, &info); break;
    }
    if (which == PCCL_PARAM_log_level)
        info.default_value = "INFO"; /* because a separate program should log its events */
    if (which == PCCL_PARAM_found_after_ms)
        info.default_value = "1500"; /* because a master may be restarted while a run exists */
    return info;
}

static bool is_ours(int which)
{
    return which >= PCCL_PARAM_COUNT || pccl_params_scope((enum pccl_param)which) != pcclParameterCommunicator;
}

static bool is_secret(int which) { return which < PCCL_PARAM_COUNT && pccl_params_is_secret((enum pccl_param)which); }

/* Returns SETTING_COUNT if there is no such setting. */
static int find(const char *name)
{
    for (int which = 0; which < SETTING_COUNT; which++)
        if (strcmp(info_of(which).name, name) == 0)
            return which;
    return SETTING_COUNT;
}

/* ---- values ---- */

static bool check_idle_exit(const char *value, struct pccl_text *words)
{
    size_t digits = strspn(value, "0123456789");
    if (digits > 0 && digits < 10 && value[digits] == '\0' && strtoul(value, NULL, 10) <= IDLE_EXIT_MS_MAX)
        return true;
    pccl_text_format(words, "invalid value for idle_exit_ms: expected a number from 0 to %u",
                     (unsigned)IDLE_EXIT_MS_MAX);
    return false;
}

static bool check_value(int which, const char *value, struct pccl_text *words)
{
    struct pccl_host hosts[PCCL_MASTER_HOSTS_MAX];
    uint32_t count;
    if (which == SETTING_LISTEN)
        return pccl_api_hosts(value, CCOIP_PROTOCOL_PORT_MASTER, hosts, PCCL_MASTER_HOSTS_MAX, &count, words) ==
               PCCL_OK;
    if (which == SETTING_IDLE_EXIT_MS)
        return check_idle_exit(value, words);
    if (which != SETTING_LOG_FORMAT)
        return pccl_params_check((enum pccl_param)which, value, words) == PCCL_OK;
    if (pccl_log_format_find(value) != NULL)
        return true;
    pccl_text_clear(words);
    pccl_text_add(words, "invalid value '");
    pccl_text_add_bytes(words, value, strnlen(value, 64));
    pccl_text_add(words, "' for log_format: expected text, logfmt or json");
    return false;
}

/* Stores the value. If `more`, appends it to the existing addresses. */
static bool store(struct setting *setting, const char *value, bool more)
{
    const char *before = more ? setting->value : "";
    size_t size = strlen(before) + strlen(value) + 2;
    char *joined = malloc(size);
    if (joined == NULL)
        return false;
    (void)snprintf(joined, size, "%s%s%s", before, more ? "," : "", value);
    free(setting->value);
    setting->value = joined;
    return true;
}

bool settings_set(struct settings *settings, enum settings_source source, unsigned line, const char *where,
                  const char *name, const char *value, struct settings_problem *problem)
{
    struct pccl_text words;
    int which = find(name);
    if (which == SETTING_COUNT || !is_ours(which)) {
        settings_explain(problem,
                         which == SETTING_COUNT ? "%s: unknown parameter '%.64s'; --help lists all parameters"
                                                : "%s: '%.64s' is a parameter of peers, not of a master",
                         where, name);
        return false;
    }
    if (is_secret(which) && source != SETTINGS_ENVIRONMENT) {
        settings_explain(problem, "%s can only be set in the environment, or in the file named by secret_file",
                         info_of(which).name);
        return false;
    }
    struct setting *setting = &settings->all[which];
    bool more = which == SETTING_LISTEN && setting->source == source && setting->value != NULL;
    bool good = check_value(which, value, &words);
    if (good && more) {
        char both[SETTING_BYTES_MAX];
        int length = snprintf(both, sizeof both, "%s,%s", setting->value, value);
        good = length > 0 && (size_t)length < sizeof both && check_value(which, both, &words);
    }
    if (!good) {
        settings_explain(problem, "%s: %s", where, words.bytes);
        return false;
    }
    if (source < setting->source)
        return true;
    if (!store(setting, value, more)) {
        settings_explain(problem, "%s: out of memory", where);
        return false;
    }
    setting->source = source;
    setting->line = line;
    return true;
}

bool settings_read_environment(struct settings *settings, struct settings_problem *problem)
{
    for (int which = 0; which < SETTING_COUNT; which++) {
        pcclParameterInfo_t info = info_of(which);
        const char *value = getenv(info.env);
        char where[128];
        if (!is_ours(which) || value == NULL || value[0] == '\0')
            continue;
        if (settings->all[which].source > SETTINGS_ENVIRONMENT) /* overridden, so its value is irrelevant */
            continue;
        (void)snprintf(where, sizeof where, "the environment variable %s", info.env);
        if (!settings_set(settings, SETTINGS_ENVIRONMENT, 0, where, info.name, value, problem))
            return false;
    }
    return true;
}

/* ---- all settings ---- */

const char *settings_text(const struct settings *settings, int which)
{
    const char *value = settings->all[which].value;
    return value != NULL ? value : info_of(which).default_value;
}

static void describe_source(const struct settings *settings, int which, char *out, size_t size)
{
    const struct setting *setting = &settings->all[which];
    switch (setting->source) {
    case SETTINGS_DEFAULT: (void)snprintf(out, size, "default"); break;
    case SETTINGS_FILE: (void)snprintf(out, size, "%s:%u", settings->file, setting->line); break;
    case SETTINGS_ENVIRONMENT: (void)snprintf(out, size, "environment %s", info_of(which).env); break;
    case SETTINGS_FLAG: (void)snprintf(out, size, "command line"); break;
    }
}

/* Explains a conflict between individually valid values, and adds the sources of the values named in the reason. */
static void explain_misfit(const struct settings *settings, const struct pccl_text *words,
                           struct settings_problem *problem)
{
    settings_explain(problem, "%s", words->bytes);
    for (int which = 0; which < PCCL_PARAM_COUNT; which++) {
        char source[512];
        const char *name = info_of(which).name;
        size_t length = strlen(problem->words);
        if (!is_ours(which) || strstr(words->bytes, name) == NULL)
            continue;
        describe_source(settings, which, source, sizeof source);
        (void)snprintf(problem->words + length, sizeof problem->words - length, "; %s is from: %s", name, source);
    }
}

bool settings_apply(const struct settings *settings, struct pccl_params *params, struct settings_problem *problem)
{
    struct pccl_text words;
    bool good = false;
    pccl_text_clear(&words);
    pcclOptions_t *options = pccl_options_create();
    if (options == NULL) {
        settings_explain(problem, "out of memory");
        return false;
    }
    for (int which = 0; which < PCCL_PARAM_COUNT; which++) {
        const char *value = settings_text(settings, which);
        pcclParameterScope_t scope = pccl_params_scope((enum pccl_param)which);
        if (scope == pcclParameterMaster && pccl_options_set(options, info_of(which).name, value, &words) != PCCL_OK) {
            settings_explain(problem, "%s", words.bytes);
            goto out;
        }
        /* The library reads process parameters only from the environment. */
        if (scope == pcclParameterProcess && !process_set_environment(info_of(which).env, value)) {
            settings_explain(problem, "out of memory");
            goto out;
        }
    }
    if (pccl_params_load(options, pcclParameterMaster, params, &words) != PCCL_OK) {
        explain_misfit(settings, &words, problem);
        goto out;
    }
    good = true;
out:
    pccl_options_destroy(options);
    return good;
}

uint32_t settings_idle_exit_ms(const struct settings *settings)
{
    return (uint32_t)strtoul(settings_text(settings, SETTING_IDLE_EXIT_MS), NULL, 10);
}

uint32_t settings_hosts(const struct settings *settings, struct pccl_host *hosts, uint32_t max)
{
    struct pccl_text words;
    uint32_t count;
    enum pccl_status status =
        pccl_api_hosts(settings_text(settings, SETTING_LISTEN), CCOIP_PROTOCOL_PORT_MASTER, hosts, max, &count, &words);
    PCCL_ASSERT(status == PCCL_OK); /* already validated when it was set */
    (void)status;
    return count;
}

static void print_list(const char *list, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "[");
    for (const char *item = list; *item != '\0' && used < size;) {
        size_t length = strcspn(item, ",");
        size_t blanks = strspn(item, " \t");
        blanks = blanks < length ? blanks : length;
        used += (size_t)snprintf(out + used, size - used, "%s\"%.*s\"", item == list ? "" : ", ",
                                 (int)(length - blanks), item + blanks);
        item += length + (item[length] == ',');
    }
    if (used < size)
        (void)snprintf(out + used, size - used, "]");
}

void settings_print(const struct settings *settings, FILE *stream)
{
    for (int order = 0; order < SETTING_COUNT; order++) {
        /* first prints the settings that are not parameters of the library */
        int which = (order + PCCL_PARAM_COUNT) % SETTING_COUNT;
        char value[SETTING_BYTES_MAX + 128], source[512];
        const char *text = settings_text(settings, which);
        bool number = text[0] != '\0' && strspn(text, "0123456789") == strlen(text);
        if (!is_ours(which) || is_secret(which))
            continue;
        if (which == SETTING_LISTEN)
            print_list(text, value, sizeof value);
        else
            (void)snprintf(value, sizeof value, "%s%s%s", number ? "" : "\"", text, number ? "" : "\"");
        describe_source(settings, which, source, sizeof source);
        fprintf(stream, "%s = %s # %s\n", info_of(which).name, value, source);
    }
}

void settings_free(struct settings *settings)
{
    for (int which = 0; which < SETTING_COUNT; which++)
        free(settings->all[which].value);
}
