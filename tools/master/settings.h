/*
 * The settings of pccl-master: flags override the environment, which overrides the configuration file, which overrides
 * the defaults. Their names are the parameters of masters and of the process (config/params.h), and listen, log_format
 * and idle_exit_ms.
 */
#ifndef PCCL_TOOLS_MASTER_SETTINGS_H
#define PCCL_TOOLS_MASTER_SETTINGS_H

#include "core/text.h"
#include "config/params.h"
#include "os/resolve.h"

#include <stdio.h>

enum { SETTING_LISTEN = PCCL_PARAM_COUNT, SETTING_LOG_FORMAT, SETTING_IDLE_EXIT_MS, SETTING_COUNT };
enum { SETTING_BYTES_MAX = 4096, IDLE_EXIT_MS_MAX = 604800000 };

/* In ascending order of precedence. */
enum settings_source { SETTINGS_DEFAULT, SETTINGS_FILE, SETTINGS_ENVIRONMENT, SETTINGS_FLAG };

struct setting {
    char *value; /* owned; NULL: the default. listen: addresses separated by commas */
    enum settings_source source;
    unsigned line; /* line in the file */
};

struct settings {
    struct setting all[SETTING_COUNT];
    const char *file; /* NULL: no file */
};

/* A problem and its place, as a sentence. */
struct settings_problem {
    char words[1200];
};

PCCL_PRINTF(2, 3) void settings_explain(struct settings_problem *problem, const char *format, ...);
/*
 * Functions that return bool return false with a reason. settings_set then changes nothing; the functions that read may
 * have set values before the problem. `where` names the place for messages; a value that is overridden by the current
 * one is checked and dropped. Several listen values of one source add up.
 */
bool settings_set(struct settings *settings, enum settings_source source, unsigned line, const char *where,
                  const char *name, const char *value, struct settings_problem *problem);
bool settings_read_environment(struct settings *settings, struct settings_problem *problem);
/* Reads the file, at most once. In config_file.c. */
bool settings_read_file(struct settings *settings, const char *path, struct settings_problem *problem);
/*
 * Checks that the values fit together, fills in the parameters of the master, and applies the parameters of the
 * process.
 */
bool settings_apply(const struct settings *settings, struct pccl_params *params, struct settings_problem *problem);
/* Returns the effective value. */
const char *settings_text(const struct settings *settings, int which);
/* Returns the time without a peer after which the master ends; 0: never. */
uint32_t settings_idle_exit_ms(const struct settings *settings);
/* Returns the number of addresses to listen at, and the addresses. */
uint32_t settings_hosts(const struct settings *settings, struct pccl_host *hosts, uint32_t max);
/* Prints the settings as a configuration file, with the source of each value. */
void settings_print(const struct settings *settings, FILE *stream);
void settings_free(struct settings *settings);

#endif
