#include "status.h"

#include "client.h"
#include "help.h"

#include "core/base.h"
#include "system/process.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { WATCH_MS = 1000 /* interval between answers */ };

static const char name[] = "pccl-master status";

static int print_help(void)
{
    static const struct help_row rows[] = {
        {NULL, "usage: pccl-master status [--events [COUNT]] [--json | --watch] [OPTION]...\n"
               "                          [ADDRESS | https://ADDRESS]"},
        {NULL, "Prints the state of a running master: the peers with their state and last contact, the pending calls, "
               "and which peers have entered them or are missing. ADDRESS is the one given to the master's --http; "
               "default: 127.0.0.1:48180."},
        {"--events [COUNT]",
         "prints the newest events of the run instead: joins, deaths, expulsions, verdicts, restarts; "
         "default: 100, at most 1,000"},
        {"--json", "prints the master's /status.json, or its /events.json"},
        {"--watch", "repeats every second until Ctrl-C; on a terminal each answer replaces the previous one"},
        {"--help", "prints this text"},
    };
    static const struct help_row end[] = {
        {NULL, "\nExamples:\n  pccl status --watch\n  pccl status --token-file observe.token --ca ca.pem "
               "https://master:48180"},
        {NULL, "exit status: 0 the master answered; 1 no answer, for the printed reason; 2 wrong usage"},
    };
    help_print(rows, PCCL_COUNT_OF(rows));
    client_print_help();
    help_print(end, PCCL_COUNT_OF(end));
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Returns false if standard output is closed. */
static bool print_answer(const char *body) { return fputs(body, stdout) >= 0 && fflush(stdout) == 0; }

/*
 * Prints answers until Ctrl-C ends the process or standard output is closed. Keeps trying while the master does not
 * answer.
 */
static int watch(struct client *client, const char *page)
{
    bool terminal = uv_guess_handle(1) == UV_TTY;
    for (;;) {
        const char *body = client_get(client, page);
        printf("%s", terminal ? "\033[H\033[2J" : "");
        if (!body)
            printf("%s\n", client_reason(client));
        if (!print_answer(body ? body : "") || printf("%s", terminal ? "" : "\n") < 0)
            return EXIT_FAILURE;
        process_sleep_s(1e-3 * (int)WATCH_MS);
    }
}

static bool is_number(const char *word) { return word && *word && word[strspn(word, "0123456789")] == '\0'; }

int status_main(int argc, char **argv)
{
    struct client_options options = {.address = NULL};
    const char *count = NULL;
    bool json = false, watches = false, events = false;
    for (int i = 1; i < argc; i++) {
        const char **value = client_option(&options, argv[i]);
        if (value && i + 1 == argc)
            return client_usage_error(name, "missing value after ", argv[i]);
        if (value)
            *value = argv[++i];
        else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return print_help();
        else if (strcmp(argv[i], "--events") == 0) {
            events = true;
            count = is_number(argv[i + 1]) ? argv[++i] : NULL; /* argv ends with NULL */
        } else if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--watch") == 0)
            watches = true;
        else if (argv[i][0] == '-')
            return client_usage_error(name, "unknown argument: ", argv[i]);
        else if (options.address)
            return client_usage_error(name, "more than one address: ", argv[i]);
        else
            options.address = argv[i];
    }
    if (json && watches)
        return client_usage_error(name, "--json and --watch cannot be combined", "");
    int status;
    char path[64];
    struct client *client = client_create(name, &options, &status);
    if (!client)
        return status;
    (void)snprintf(path, sizeof path, "/%s%s%s%.20s", events ? "events" : "status", json ? ".json" : "",
                   count ? "?most=" : "", count ? count : "");
    status = watches ? watch(client, path) : client_print(client, name, path);
    client_destroy(client);
    return status;
}
