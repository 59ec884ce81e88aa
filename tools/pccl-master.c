/* pccl-master: a master as a process of its own. Installed as ccoip_master too. */
#include "pccl.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { EXIT_USAGE = 2, ADDRESSES_MAX = 1024 };

static const char *const default_address = "[::]:48148";
static const char *const default_address_v4 = "0.0.0.0:48148"; /* where there is no IPv6 */

static atomic_bool interrupted;

struct command {
    char addresses[ADDRESSES_MAX];
    pcclOptions_t *options;
};

static void print_help(FILE *stream)
{
    fprintf(stream, "usage: pccl-master [--listen ADDRESS]... [--set NAME=VALUE]... [--help] [--version]\n"
                    "\n"
                    "Runs a PCCL master until SIGINT or SIGTERM. It holds nothing on disk.\n"
                    "\n"
                    "  --listen ADDRESS   host:port, 1.2.3.4:port or [v6]:port; several are possible.\n"
                    "                     Default: port 48148 on all addresses\n"
                    "  --set NAME=VALUE   a parameter; wins over its environment variable\n"
                    "  --help             this text\n"
                    "  --version          the version of the library\n"
                    "\n"
                    "Parameters, with their environment variable and default:\n");
    for (size_t i = 0; i < pcclGetParameterCount(); i++) {
        pcclParameterInfo_t info = PCCL_PARAMETER_INFO_INIT;
        if (pcclGetParameterInfo(i, &info) == pcclSuccess && info.scope == pcclParameterMaster)
            fprintf(stream, "  %-16s %-22s %6s  %s\n", info.name, info.env, info.default_value, info.help);
    }
    fprintf(stream, "\nexit status: 0 ended by a signal, 1 could not run, 2 wrong usage\n");
}

/* ---- the command line ---- */

static int usage_error(const char *what, const char *about)
{
    fprintf(stderr, "pccl-master: %s%s%s\nTry 'pccl-master --help'.\n", what, about[0] ? ": " : "", about);
    return EXIT_USAGE;
}

static int add_address(struct command *command, const char *address)
{
    size_t used = strlen(command->addresses);
    int written =
        snprintf(command->addresses + used, sizeof command->addresses - used, "%s%s", used ? "," : "", address);
    if (written < 0 || (size_t)written >= sizeof command->addresses - used)
        return usage_error("too many addresses", "");
    return 0;
}

static int set_parameter(struct command *command, const char *setting)
{
    const char *equals = strchr(setting, '=');
    char name[128];
    if (!equals || equals == setting || (size_t)(equals - setting) >= sizeof name)
        return usage_error("--set needs NAME=VALUE", setting);
    memcpy(name, setting, (size_t)(equals - setting));
    name[equals - setting] = 0;
    if (pcclSetOption(command->options, name, equals + 1) != pcclSuccess)
        return usage_error("--set", pcclGetLastError(NULL));
    return 0;
}

/* -1: go on; else the exit status. */
static int parse(struct command *command, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int error;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(stdout);
            return EXIT_SUCCESS;
        }
        if (strcmp(argv[i], "--version") == 0) {
            unsigned version = pcclGetVersion();
            printf("pccl-master %u.%u.%u\n", version / 10000, version / 100 % 100, version % 100);
            return EXIT_SUCCESS;
        }
        bool listen = strcmp(argv[i], "--listen") == 0;
        if (!listen && strcmp(argv[i], "--set") != 0)
            return usage_error("unknown argument", argv[i]);
        if (i + 1 == argc)
            return usage_error("a value is missing after", argv[i]);
        i++;
        error = listen ? add_address(command, argv[i]) : set_parameter(command, argv[i]);
        if (error)
            return error;
    }
    return -1;
}

/* ---- running ---- */

/* A thousand peers are a thousand descriptors; this process is ours, so its limit may be raised. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* NULL: it could not, and lastly pcclGetLastError(NULL) says why. *error: the exit status. */
static pcclMasterInstance_t *start(const struct command *command, const char *addresses, int *error)
{
    pcclMasterInstance_t *master;
    *error = EXIT_USAGE;
    if (pcclCreateMasterWithOptions(addresses, command->options, &master) != pcclSuccess)
        return NULL;
    *error = EXIT_FAILURE;
    if (pcclRunMaster(master) == pcclSuccess)
        return master;
    (void)pcclDestroyMaster(master);
    return NULL;
}

static pcclMasterInstance_t *start_somewhere(const struct command *command, int *error)
{
    if (command->addresses[0])
        return start(command, command->addresses, error);
    pcclMasterInstance_t *master = start(command, default_address, error);
    return master || *error == EXIT_USAGE ? master : start(command, default_address_v4, error);
}

static sigset_t ending_signals(void)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    return ends;
}

/* Ends the master when a signal comes; the only thread that takes them. */
static void *await_signal(void *argument)
{
    pcclMasterInstance_t *master = argument;
    sigset_t ends = ending_signals();
    int number;
    while (sigwait(&ends, &number) != 0)
        continue;
    fprintf(stderr, "pccl-master: signal %d, ending\n", number);
    interrupted = true;
    (void)pcclInterruptMaster(master);
    return NULL;
}

static int serve(const struct command *command)
{
    int error;
    uint16_t port;
    pthread_t signals;
    sigset_t ends = ending_signals();
    pthread_sigmask(SIG_BLOCK, &ends, NULL); /* before there are threads */
    pcclMasterInstance_t *master = start_somewhere(command, &error);
    if (!master) {
        fprintf(stderr, "pccl-master: %s\n", pcclGetLastError(NULL));
        return error;
    }
    if (pthread_create(&signals, NULL, await_signal, master) != 0) {
        fprintf(stderr, "pccl-master: cannot start a thread\n");
        return EXIT_FAILURE;
    }
    (void)pcclMasterGetPort(master, &port);
    fprintf(stderr, "pccl-master: listening on port %u\n", port);
    (void)pcclMasterAwaitTermination(master);
    if (!interrupted) {
        fprintf(stderr, "pccl-master: ended by an internal error\n");
        return EXIT_FAILURE;
    }
    (void)pthread_join(signals, NULL);
    (void)pcclDestroyMaster(master);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct command command = {.addresses = ""};
    (void)pcclInit();
    if (pcclCreateOptions(&command.options) != pcclSuccess) {
        fprintf(stderr, "pccl-master: %s\n", pcclGetLastError(NULL));
        return EXIT_FAILURE;
    }
    int status = parse(&command, argc, argv);
    if (status < 0) {
        raise_descriptor_limit();
        status = serve(&command);
    }
    (void)pcclDestroyOptions(command.options);
    return status;
}
