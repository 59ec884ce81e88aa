#include "recorder/recorder.h"

#include "help.h"
#include "master/client.h"
#include "recorder/explain.h"
#include "recorder/torch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char command[] = "pccl recorder";

static int print_help(void)
{
    static const struct help_row rows[] = {
        {NULL, "usage: pccl recorder [--json] [--torch PREFIX] DUMP.json..."},
        {NULL,
         "Reads the flight recorders of several peers, and prints for each unfinished operation the waiting peers "
         "and the peers that they wait for. Examine first the peers that others wait for and that do not wait "
         "for any peer. Peers write these files on SIGUSR2, or into the folder PCCL_RECORDER_DIR after a failed "
         "operation."},
        {"--json", "prints the result as one JSON object"},
        {"--torch PREFIX", "also writes PREFIX0, PREFIX1 etc., for torch.distributed.flight_recorder.fr_trace"},
        {"--help", "prints this text"},
        {NULL, "Examples:\n  pccl recorder pccl-*.json\n  pccl recorder --torch traces/peer pccl-*.json"},
        {NULL, "exit status: 0 success; 1 a file is unusable; 2 wrong usage"},
    };
    help_print(rows, PCCL_COUNT_OF(rows));
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int run(char *const *files, size_t count, bool json, const char *prefix)
{
    struct dumps dumps = {.count = 0};
    bool good = dumps_read(&dumps, command, files, count);
    if (good && !recorder_explain(&dumps, json)) {
        (void)fprintf(stderr, "%s: out of memory\n", command);
        good = false;
    }
    good = good && (prefix == NULL || recorder_write_torch(&dumps, command, prefix));
    dumps_free(&dumps);
    if ((fflush(stdout) != 0 || ferror(stdout)) && errno != EPIPE) {
        (void)fprintf(stderr, "%s: cannot write to standard output: %s\n", command, strerror(errno));
        good = false;
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int recorder_main(int argc, char **argv)
{
    const char *prefix = NULL;
    bool json = false, options = true;
    size_t count = 0; /* files, which are moved to the beginning of argv */
    for (int i = 1; i < argc; i++) {
        if (!options || argv[i][0] != '-') {
            argv[count++] = argv[i];
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return print_help();
        } else if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--torch") == 0) {
            if (i + 1 == argc)
                return client_usage_error(command, "missing value after ", argv[i]);
            prefix = argv[++i];
        } else if (strcmp(argv[i], "--") == 0) {
            options = false;
        } else {
            return client_usage_error(command, "unknown argument: ", argv[i]);
        }
    }
    if (count == 0)
        return client_usage_error(command, "missing files", "");
    return run(argv, count, json, prefix);
}
