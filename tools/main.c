/*
 * pccl: the programs of the C library as commands of one program. Called as pccl-master, pccl-perf or by a name of
 * PCCL 1.0, through a link, it runs that command.
 */
#include "commands.h"
#include "doctor/doctor.h"
#include "help.h"
#include "master/status.h"
#include "master/token.h"
#include "recorder/recorder.h"
#include "system/process.h"
#include "top/top.h"

#include "core/text.h"
#include "net/build.h"
#include "wire/greeting.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

static int print_version(int argc, char **argv);

static const struct command {
    const char *name, *about, *shown; /* `shown`: argv[0] of the command */
    int (*run)(int argc, char **argv);
} commands[] = {
    {"master", "runs a master; also called pccl-master", "pccl-master", master_main},
    {"status", "prints the state of a run", "status", status_main},
    {"token", "creates, lists, revokes and replaces tokens of a running master", "token", token_main},
    {"perf", "measures collectives; also called pccl-perf", "pccl-perf", perf_main},
    {"top", "shows a run live in a terminal", "top", top_main},
    {"doctor", "checks machines and their paths before a run", "doctor", doctor_main},
    {"recorder", "explains the flight recorders of stuck peers", "recorder", recorder_main},
    {"version", "prints the version", "version", print_version},
};

static int end_of_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "pccl: cannot write to standard output: %s\n", strerror(errno));
    return EXIT_FAILURE;
}

static void print_version_json(const struct pccl_build *build)
{
    const unsigned release = build->release, day = (unsigned)(build->committed / 1000000); /* YYYYMMDD */
    printf("{\"version\": \"%u.%u.%u\", ", release / 10000, release / 100 % 100, release % 100);
    if (build->commit != 0)
        printf("\"commit\": \"%012" PRIx64 "\", \"committed\": \"%04u-%02u-%02u\", ", build->commit >> 16, day / 10000,
               day / 100 % 100, day % 100);
    else
        printf("\"commit\": null, \"committed\": null, ");
    printf("\"protocol\": %u, \"schema\": \"%016" PRIx64 "\"}\n", (unsigned)build->version, build->digest);
}

static void print_version_help(void)
{
    static const struct help_row rows[] = {
        {NULL, "usage: pccl version [--json]"},
        {NULL, "Prints the version of this program: release, commit and its date, protocol and schema. Peers and "
               "master need the same protocol and schema."},
        {"--json", "prints it as JSON"},
    };
    help_print(rows, PCCL_COUNT_OF(rows));
}

static int print_version(int argc, char **argv)
{
    const char *option = argc > 1 ? argv[1] : "";
    bool json = strcmp(option, "--json") == 0, help = strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0;
    const char *unknown = argc > 2 ? argv[2] : option[0] != '\0' && !json && !help ? option : NULL;
    struct pccl_text text;
    if (unknown != NULL) {
        (void)fprintf(stderr, "pccl version: unknown argument: %.200s\n", unknown);
        return EXIT_USAGE;
    }
    pccl_text_clear(&text);
    pccl_build_describe(&text, pccl_build_own());
    if (help)
        print_version_help();
    else if (json)
        print_version_json(pccl_build_own());
    else
        printf("pccl %s\n", text.bytes);
    return end_of_output();
}

static void print_usage(FILE *file)
{
    (void)fprintf(file, "usage: pccl COMMAND [OPTION]...\n\n");
    for (size_t i = 0; i < PCCL_COUNT_OF(commands); i++)
        (void)fprintf(file, "  %-8s  %s\n", commands[i].name, commands[i].about);
    (void)fprintf(file, "\n'pccl COMMAND --help' lists the options of a command.\n");
}

static bool equals(const char *text, const char *name, size_t length)
{
    return strlen(text) == length && memcmp(text, name, length) == 0;
}

static const struct command *find_command(const char *name, size_t length)
{
    for (size_t i = 0; i < PCCL_COUNT_OF(commands); i++)
        if (equals(commands[i].name, name, length))
            return &commands[i];
    return NULL;
}

/* Returns the command that a link to the program is named after, or NULL. */
static const struct command *find_called(const char *path)
{
    const char *name = path;
    for (const char *at = path; *at != '\0'; at++)
        if (*at == '/' || *at == '\\')
            name = at + 1;
    size_t length = strcspn(name, "."); /* without .exe */
    if (equals("ccoip_master", name, length) || equals("pccl_master", name, length))
        return &commands[0];
    return length > 5 && memcmp(name, "pccl-", 5) == 0 ? find_command(name + 5, length - 5) : NULL;
}

static int reject(const char *name)
{
    const char *names[PCCL_COUNT_OF(commands)];
    for (size_t i = 0; i < PCCL_COUNT_OF(commands); i++)
        names[i] = commands[i].name;
    const char *closest = help_closest(name, names, PCCL_COUNT_OF(names));
    (void)fprintf(stderr, "pccl: unknown command '%.200s'", name);
    if (closest != NULL)
        (void)fprintf(stderr, "; did you mean '%s'?", closest);
    (void)fprintf(stderr, "\nTry 'pccl --help'.\n");
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    process_hold_standard_descriptors();
    const struct command *command = argc > 0 ? find_called(argv[0]) : NULL;
    if (command == NULL && argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (command == NULL) {
        argc--;
        argv++;
        if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
            print_usage(stdout);
            return end_of_output();
        }
        bool version = strcmp(argv[0], "--version") == 0 || strcmp(argv[0], "-V") == 0;
        const char *name = version ? "version" : argv[0];
        command = find_command(name, strlen(name));
        if (command == NULL)
            return reject(name);
        argv[0] = (char *)(uintptr_t)command->shown; /* for messages, and for the workers, which run this program */
    }
    return command->run(argc, argv);
}
