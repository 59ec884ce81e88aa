#include "doctor/doctor.h"

#include "doctor/checks.h"
#include "help.h"
#include "master/client.h"

#include "net/heap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PORT = 48148,
    WAIT_S = 60,
    NUMBER_MAX = 1000000,
    OUTPUT_BYTES_MAX = 16 << 20,
};

static const char command[] = "pccl doctor";

struct wanted {
    const char *master; /* NULL: only this machine is checked */
    struct pccl_endpoint endpoint;
    uint32_t peers, wait_s;
    bool json;
};

static int print_help(void)
{
    static const struct help_row rows[] = {
        {NULL, "usage: pccl doctor [--peers N] [--wait S] [--json] [MASTER]"},
        {NULL, "Checks this machine and its paths to the master and to the other peers, and prints a fix for each "
               "problem. Run it before a run, on all machines at the same time. MASTER is host, host:port or "
               "[v6]:port; without it, checks only this machine. PCCL_TOKEN_FILE etc. apply as for any peer."},
        {"--peers N", "number of machines that run the doctor (1)"},
        {"--wait S", "seconds to wait for the others (60)"},
        {"--json", "prints the results as one JSON object"},
        {"--help", "prints this text"},
        {NULL, "Examples:\n  pccl doctor\n  pccl doctor master.example.com --peers 4"},
        {NULL, "exit status: 0 no problem found; 1 problem found; 2 wrong usage"},
    };
    help_print(rows, PCCL_COUNT_OF(rows));
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- results ---- */

static void print_paths(const struct doctor_peers *peers)
{
    for (size_t i = 0; i < peers->path_count; i++) {
        const struct doctor_path *path = &peers->paths[i];
        struct pccl_text ends;
        pccl_text_format(&ends, "%s -> %s", path->sender, path->receiver);
        if (path->rate == 0)
            printf("         unreachable   %s\n", ends.bytes);
        else if (path->rtt_us == 0)
            printf("       %9.1f MB/s      unknown   %s\n", (double)path->rate / 1e6, ends.bytes);
        else
            printf("       %9.1f MB/s%9.2f ms   %s\n", (double)path->rate / 1e6, path->rtt_us / 1e3, ends.bytes);
    }
}

static void print_json(const struct findings *findings, const struct doctor_peers *peers)
{
    struct pccl_print print;
    struct pccl_json json = {.print = &print};
    pccl_print_init(&print, pccl_heap(), OUTPUT_BYTES_MAX);
    pccl_json_open(&json, NULL, '{');
    pccl_json_bool(&json, "ok", findings_are_well(findings));
    findings_to_json(findings, &json);
    pccl_json_open(&json, "peers", '[');
    for (size_t i = 0; i < peers->count; i++)
        pccl_json_bytes(&json, NULL, peers->names[i], strlen(peers->names[i]));
    pccl_json_close(&json, ']');
    pccl_json_open(&json, "paths", '[');
    for (size_t i = 0; i < peers->path_count; i++) {
        const struct doctor_path *path = &peers->paths[i];
        pccl_json_begin_line(&json);
        pccl_json_open(&json, NULL, '{');
        pccl_json_bytes(&json, "sender", path->sender, strlen(path->sender));
        pccl_json_bytes(&json, "receiver", path->receiver, strlen(path->receiver));
        pccl_json_number(&json, "rate", path->rate);
        if (path->rtt_us != 0)
            pccl_json_number(&json, "rtt_us", path->rtt_us);
        else
            pccl_json_null(&json, "rtt_us");
        pccl_json_close(&json, '}');
    }
    pccl_json_close(&json, ']');
    pccl_json_close(&json, '}');
    pccl_print_add(&print, "\n");
    if (print.failed)
        (void)fprintf(stderr, "%s: out of memory\n", command);
    else
        (void)fwrite(print.bytes, 1, print.length, stdout);
    pccl_print_fini(&print);
}

/* ---- the command ---- */

static void list_peers(const struct findings *findings, const struct doctor_peers *peers)
{
    char list[PCCL_REASON_MAX] = "none";
    size_t used = 0;
    for (size_t i = 0; i < peers->count && used < sizeof list - 1; i++) {
        int added = snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", peers->names[i]);
        used = used + (size_t)added < sizeof list ? used + (size_t)added : sizeof list - 1;
    }
    findings_title(findings, "the peers: %s", list);
}

static void check_all(const struct wanted *wanted, struct findings *findings, struct doctor_peers *peers)
{
    struct pccl_address own;
    struct pccl_text address; /* with the port */
    findings_title(findings, "this machine");
    doctor_check_machine(findings);
    if (wanted->master == NULL)
        return;
    findings_title(findings, "the master at %s, port %u", wanted->endpoint.host, wanted->endpoint.port);
    if (!doctor_check_master(findings, &wanted->endpoint, &own))
        return;
    bool prints = findings->prints;
    size_t first = findings->count;
    findings->prints = false; /* the names of the peers are printed first */
    bool is_v6 = strchr(wanted->endpoint.host, ':') != NULL;
    pccl_text_format(&address, is_v6 ? "[%s]:%u" : "%s:%u", wanted->endpoint.host, wanted->endpoint.port);
    doctor_check_peers(findings, address.bytes, &own, wanted->peers, wanted->wait_s, peers);
    findings->prints = prints;
    list_peers(findings, peers);
    findings_print(findings, first);
    if (prints)
        print_paths(peers);
}

static int run(const struct wanted *wanted)
{
    struct findings findings = {.prints = !wanted->json};
    struct doctor_peers peers = {.count = 0};
    check_all(wanted, &findings, &peers);
    bool well = findings_are_well(&findings);
    if (wanted->json)
        print_json(&findings, &peers);
    else if (findings.lost)
        printf("out of memory: some checks are missing\n");
    else
        printf("%s\n", well ? "no problem found" : "problems found");
    findings_free(&findings);
    doctor_peers_free(&peers);
    if ((fflush(stdout) != 0 || ferror(stdout)) && errno != EPIPE) {
        (void)fprintf(stderr, "%s: cannot write to standard output: %s\n", command, strerror(errno));
        return EXIT_FAILURE;
    }
    return well ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Reads a number above 0. */
static bool read_number(const char *text, uint32_t *number)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    *number = (uint32_t)value;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && value >= 1 && value <= NUMBER_MAX;
}

static int check_address(struct wanted *wanted)
{
    const char *cursor = wanted->master;
    bool more = false;
    struct pccl_text reason;
    if (pccl_endpoint_next(&cursor, PORT, &wanted->endpoint, &more, &reason) != PCCL_OK)
        return client_usage_error(command, reason.bytes, "");
    if (!more || *cursor != '\0')
        return client_usage_error(command, "expected host, host:port or [v6]:port, not ", wanted->master);
    return 0;
}

int doctor_main(int argc, char **argv)
{
    struct wanted wanted = {.peers = 1, .wait_s = WAIT_S};
    for (int i = 1; i < argc; i++) {
        uint32_t *number = strcmp(argv[i], "--peers") == 0  ? &wanted.peers
                           : strcmp(argv[i], "--wait") == 0 ? &wanted.wait_s
                                                            : NULL;
        if (number != NULL && i + 1 == argc)
            return client_usage_error(command, "missing value after ", argv[i]);
        if (number != NULL) {
            if (!read_number(argv[++i], number))
                return client_usage_error(command, "expected a number from 1 to 1000000, not ", argv[i]);
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return print_help();
        } else if (strcmp(argv[i], "--json") == 0) {
            wanted.json = true;
        } else if (argv[i][0] == '-') {
            return client_usage_error(command, "unknown argument: ", argv[i]);
        } else if (wanted.master != NULL) {
            return client_usage_error(command, "more than one address: ", argv[i]);
        } else {
            wanted.master = argv[i];
        }
    }
    if (wanted.master == NULL && wanted.peers > 1)
        return client_usage_error(command, "--peers requires the master's address", "");
    int wrong = wanted.master != NULL ? check_address(&wanted) : 0;
    return wrong != 0 ? wrong : run(&wanted);
}
