/*
 * The settings of pccl-master. Flags override the environment, which overrides the configuration file, which overrides
 * the defaults. The settings are the parameters of masters and of the process (config/params.h), and listen, log_format
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

/* In order of increasing precedence. */
enum settings_source { SETTINGS_DEFAULT, SETTINGS_FILE, SETTINGS_ENVIRONMENT, SETTINGS_FLAG };

struct setting {
    char *value; /* owned; NULL: default. For listen: addresses separated by commas */
    enum settings_source source;
    unsigned line; /* line number in the file */
};

struct settings {
    struct setting all[SETTING_COUNT];
    const char *file; /* path of the file, or NULL */
};

/* A problem and its location, as a sentence. */
struct settings_problem {
    char words[1200];
};

PCCL_PRINTF(2, 3) void settings_explain(struct settings_problem *problem, const char *format, ...);
/*
 * Functions that return bool return false with a problem. If settings_set fails, it has changed nothing; a function
 * that reads a source may already have set some values. `where` is the location used in messages. If the current value
 * takes precedence, the new one is validated and dropped. Several listen values from the same source are combined.
 */
bool settings_set(struct settings *settings, enum settings_source source, unsigned line, const char *where,
                  const char *name, const char *value, struct settings_problem *problem);
bool settings_read_environment(struct settings *settings, struct settings_problem *problem);
/* Reads the file. Can be called only once. Implemented in config_file.c. */
bool settings_read_file(struct settings *settings, const char *path, struct settings_problem *problem);
/* Checks that the values are consistent, fills in the master's parameters, and applies the process parameters. */
bool settings_apply(const struct settings *settings, struct pccl_params *params, struct settings_problem *problem);
/* Returns the effective value. */
const char *settings_text(const struct settings *settings, int which);
/* Returns the time without peers after which the master exits; 0: never. */
uint32_t settings_idle_exit_ms(const struct settings *settings);
/* Fills in the addresses to listen on. Returns their number. */
uint32_t settings_hosts(const struct settings *settings, struct pccl_host *hosts, uint32_t max);
/* Prints the settings in the format of a configuration file, with the source of each value. */
void settings_print(const struct settings *settings, FILE *stream);
void settings_free(struct settings *settings);

#endif
