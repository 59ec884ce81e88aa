/*
 * The settings of pccl-master: flags win over the environment, that over the configuration file,
 * that over the defaults. Names are those of the parameters of masters and of the process
 * (config/params.h), and listen, log_format and idle_exit_ms.
 */
#ifndef PCCL_TOOLS_MASTER_SETTINGS_H
#define PCCL_TOOLS_MASTER_SETTINGS_H

#include "core/text.h"
#include "config/params.h"
#include "os/resolve.h"

#include <stdio.h>

enum { SETTING_LISTEN = PCCL_PARAM_COUNT, SETTING_LOG_FORMAT, SETTING_IDLE_EXIT_MS, SETTING_COUNT };
enum { SETTING_BYTES_MAX = 4096, IDLE_EXIT_MS_MAX = 604800000 };

/* In ascending order of rank. */
enum settings_source { SETTINGS_DEFAULT, SETTINGS_FILE, SETTINGS_ENVIRONMENT, SETTINGS_FLAG };

struct setting {
    char *value; /* owned; NULL: the default. listen: addresses with commas between them */
    enum settings_source source;
    unsigned line; /* in the file */
};

struct settings {
    struct setting all[SETTING_COUNT];
    const char *file; /* NULL: none */
};

/* What is wrong and where, as a sentence. */
struct settings_problem {
    char words[1200];
};

PCCL_PRINTF(2, 3) void settings_explain(struct settings_problem *problem, const char *format, ...);
/*
 * Functions that return bool: false with a reason, and nothing has changed. `where` names the place
 * for messages; a value of a lower rank than the present one is checked and dropped. Of one source,
 * listen adds up.
 */
bool settings_set(struct settings *settings, enum settings_source source, unsigned line, const char *where,
                  const char *name, const char *value, struct settings_problem *problem);
bool settings_read_environment(struct settings *settings, struct settings_problem *problem);
/* config_file.c: reads the file, at most once. */
bool settings_read_file(struct settings *settings, const char *path, struct settings_problem *problem);
/*
 * Do the values fit together? Fills what the master needs; makes those of the process take effect.
 */
bool settings_apply(const struct settings *settings, struct pccl_params *params, struct settings_problem *problem);
/* The value that counts. */
const char *settings_text(const struct settings *settings, int which);
/* After so long without a peer the master ends; 0: never. */
uint32_t settings_idle_exit_ms(const struct settings *settings);
/* The addresses to listen at; their count. */
uint32_t settings_hosts(const struct settings *settings, struct pccl_host *hosts, uint32_t max);
/* As a configuration file, with where each value is from. */
void settings_print(const struct settings *settings, FILE *stream);
void settings_free(struct settings *settings);

#endif
