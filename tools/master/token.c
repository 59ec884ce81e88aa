#include "token.h"

#include "help.h"

#include "ops/token_file.h"
#include "ops/tokens.h"
#include "os/socket.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXIT_USAGE = 2,
    PATIENCE_MS = 10000,
    JOIN_TTL_S = 30 * 86400, /* default of --ttl */
    KEEP_S = 3600            /* default of --keep */
};

struct request {
    const char *state, *what, *name;
    const char *role, *ttl, *uses, *label, *keep;
    bool json;
};

static int usage_error(const char *words, const char *about)
{
    fprintf(stderr, "pccl-master token: %s%s%.200s\nTry 'pccl-master token --help'.\n", words, about ? ": " : "",
            about ? about : "");
    return EXIT_USAGE;
}

static int print_help(void)
{
    static const struct help_row rows[] = {
        {NULL, "usage: pccl-master token create [--role join|observe|admin] [--ttl TIME]\n                             "
               "   [--uses N] [--label TEXT]\n       pccl-master token list [--json]\n       pccl-master token "
               "revoke NUMBER|LABEL\n       pccl-master token rotate [--keep TIME]"},
        {NULL, "Creates, lists and revokes tokens of the running master with this state directory, and replaces the "
               "run's own token."},
        {"--state DIR", "state directory of the master; default: PCCL_MASTER_STATE"},
        {"--role ROLE", "join (the default): to join as a peer; over HTTPS, observe: to read; admin: to read and act"},
        {"--ttl TIME", "lifetime: 90s, 30m, 24h, 7d, or never; default: 30d with the role join, else never"},
        {"--uses N", "number of peers that may join with it, at most 4096; default: unlimited"},
        {"--label TEXT", "label that identifies it in the list and for revoke"},
        {"--json", "prints the list as JSON: an array of objects with number, role, state (valid, used up, expired or "
                   "revoked), label, created_s, expires_s, revoked_s (seconds since 1970, or null), uses and used"},
        {"--keep TIME", "time for which the previous token of the run still allows joining; default: 1h"},
        {NULL, "create prints the token, which cannot be shown again. Peers that joined with a token stay, and can "
               "return after a broken connection or a restart of the master even if the token has expired or has no "
               "uses left. revoke removes all peers that joined with it. rotate creates a new run token, writes it to "
               "the run's token file and prints it; the previous token expires, but peers that joined with it stay."},
        {NULL, "Examples:\n  pccl token create --state /var/lib/pccl --ttl 24h --uses 8 --label cluster\n  pccl token "
               "revoke --state /var/lib/pccl cluster"},
        {NULL, "exit status: 0 done; 1 failure, with the printed reason; 2 wrong usage"},
    };
    help_print(rows, PCCL_COUNT_OF(rows));
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- the command line ---- */

/* Converts a time such as "24h" to seconds. */
static bool read_time(const char *text, unsigned long long *seconds)
{
    static const char units[] = "smhd";
    static const unsigned worth[] = {1, 60, 3600, 86400};
    char *end;
    if (text[0] < '0' || text[0] > '9' || strlen(text) > 9)
        return false;
    *seconds = strtoull(text, &end, 10);
    const char *unit = end[0] != '\0' && end[1] == '\0' ? strchr(units, end[0]) : NULL;
    if (unit == NULL || *seconds == 0)
        return false;
    *seconds *= worth[unit - units];
    return true;
}

static const char **place_of(struct request *request, const char *flag)
{
    if (strcmp(flag, "--state") == 0)
        return &request->state;
    if (strcmp(request->what, "rotate") == 0)
        return strcmp(flag, "--keep") == 0 ? &request->keep : NULL;
    if (strcmp(request->what, "create") != 0)
        return NULL;
    if (strcmp(flag, "--role") == 0)
        return &request->role;
    if (strcmp(flag, "--ttl") == 0)
        return &request->ttl;
    if (strcmp(flag, "--uses") == 0)
        return &request->uses;
    return strcmp(flag, "--label") == 0 ? &request->label : NULL;
}

/*
 * Parses the arguments. Returns 0, or the exit status. A value is the next argument, or follows '=' in the flag's
 * argument.
 */
static int parse(struct request *request, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        char *value = argv[i][0] == '-' ? strchr(argv[i], '=') : NULL;
        if (value != NULL)
            *value++ = '\0';
        if (value == NULL && strcmp(argv[i], "--json") == 0 && strcmp(request->what, "list") == 0) {
            request->json = true;
            continue;
        }
        const char **place = place_of(request, argv[i]);
        if (place == NULL && argv[i][0] != '-' && strcmp(request->what, "revoke") == 0 && request->name == NULL)
            request->name = argv[i];
        else if (place == NULL)
            return usage_error("unknown argument", argv[i]);
        else if (value == NULL && i + 1 == argc)
            return usage_error("missing value after", argv[i]);
        else
            *place = value != NULL ? value : argv[++i];
    }
    return 0;
}

/* Reads the value of --ttl. A value of 0 means that the token never expires. Returns false if it is invalid. */
static bool read_ttl(const char *text, enum pccl_role role, unsigned long long *seconds)
{
    *seconds = text == NULL && role == PCCL_ROLE_JOIN ? JOIN_TTL_S : 0;
    return text == NULL || strcmp(text, "never") == 0 || read_time(text, seconds);
}

static int write_command(const struct request *request, char *command, size_t size)
{
    unsigned long long ttl_s, keep_s = KEEP_S, uses = 0;
    enum pccl_role role = PCCL_ROLE_JOIN;
    const char *label = request->label != NULL ? request->label : "";
    int length;
    if (request->role != NULL && !pccl_role_find(request->role, strlen(request->role), &role))
        return usage_error("invalid role, expected join, observe or admin", request->role);
    if (!read_ttl(request->ttl, role, &ttl_s))
        return usage_error("invalid time, expected a number followed by s, m, h or d, such as 24h, or never",
                           request->ttl);
    if (request->keep != NULL && !read_time(request->keep, &keep_s))
        return usage_error("invalid time, expected a number followed by s, m, h or d, such as 24h", request->keep);
    if (request->uses != NULL) {
        if (strspn(request->uses, "0123456789") != strlen(request->uses) || strlen(request->uses) > 6 ||
            (uses = strtoull(request->uses, NULL, 10)) == 0)
            return usage_error("invalid number of uses", request->uses);
    }
    if (strcmp(request->what, "create") == 0)
        length = snprintf(command, size, "create %s %llu %llu %s\n", pccl_role_name(role), ttl_s, uses, label);
    else if (strcmp(request->what, "rotate") == 0)
        length = snprintf(command, size, "rotate %llu\n", keep_s);
    else if (strcmp(request->what, "revoke") == 0 && request->name == NULL)
        return usage_error("missing token: give its number or label, as shown by 'pccl-master token list'", NULL);
    else
        length = request->name != NULL ? snprintf(command, size, "%s %s\n", request->what, request->name)
                                       : snprintf(command, size, "list%s\n", request->json ? " json" : "");
    if (length < 0 || (size_t)length >= size || strchr(command, '\n') != command + length - 1)
        return usage_error("invalid label: expected one line of at most 64 bytes", NULL);
    return 0;
}

/* ---- the master ---- */

static int fail(const char *state, const char *words)
{
    fprintf(stderr, "pccl-master token: %s/control: %s\n", state, words);
    return EXIT_FAILURE;
}

/* Returns 0 or a libuv error. */
static int dial(const char *state, uv_os_sock_t *master)
{
    char path[PCCL_PATH_BYTES_MAX];
    int length = snprintf(path, sizeof path, "%s/control", state);
    return length < 0 || (size_t)length >= sizeof path ? UV_ENAMETOOLONG : pccl_socket_dial_at(path, master);
}

/* Sends the command and reads the whole answer, to which it adds a terminator. Returns 0 or a libuv error. */
static int ask(uv_os_sock_t master, const char *command, char *answer, size_t size)
{
    size_t have = 0, length = strlen(command);
    ptrdiff_t moved = pccl_socket_write(master, (const uint8_t *)command, length);
    if (moved != (ptrdiff_t)length)
        return moved < 0 ? (int)moved : UV_EAGAIN;
    while (have + 1 < size) {
        if (!pccl_socket_await(master, false, PATIENCE_MS))
            return UV_EAGAIN;
        moved = pccl_socket_read(master, (uint8_t *)answer + have, size - 1 - have);
        if (moved == UV_EOF)
            break;
        if (moved < 0 && moved != UV_EAGAIN)
            return (int)moved;
        have += moved > 0 ? (size_t)moved : 0;
    }
    answer[have] = '\0';
    return 0;
}

static int show(const char *state, const char *what, const char *answer)
{
    if (strncmp(answer, "no\n", 3) == 0) {
        fprintf(stderr, "pccl-master token: %s", answer + 3);
        return EXIT_FAILURE;
    }
    if (strncmp(answer, "ok\n", 3) != 0)
        return fail(state, "no valid answer from the master: it was busy, or has a different version");
    fputs(answer + 3, stdout);
    if (strcmp(what, "revoke") == 0)
        printf("Revoked; all peers that joined with the token are removed.\n");
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int carry_out(const struct request *request, const char *command)
{
    static const char silent[] = "the master does not answer";
    uv_os_sock_t master;
    int error = dial(request->state, &master);
    if (error)
        return fail(request->state, error == UV_ENOENT || error == UV_ECONNREFUSED
                                        ? "no running master uses this state directory"
                                    : error == UV_EAGAIN ? silent
                                                         : uv_strerror(error));
    int status = EXIT_FAILURE;
    char *answer = malloc(PCCL_TOKENS_ANSWER_MAX + 1);
    if (answer == NULL)
        status = fail(request->state, uv_strerror(UV_ENOMEM));
    else if ((error = ask(master, command, answer, PCCL_TOKENS_ANSWER_MAX + 1)) != 0)
        status = fail(request->state, error == UV_EAGAIN ? silent : uv_strerror(error));
    else
        status = show(request->state, request->what, answer);
    if (answer != NULL)
        pccl_wipe(answer, PCCL_TOKENS_ANSWER_MAX + 1);
    free(answer);
    pccl_socket_close(master);
    return status;
}

int token_main(int argc, char **argv)
{
    static const char *const commands[] = {"create", "list", "revoke", "rotate"};
    struct request request = {.state = getenv("PCCL_MASTER_STATE")};
    char command[PCCL_TOKENS_COMMAND_MAX + 1];
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return print_help();
    for (size_t i = 0; argc > 1 && i < PCCL_COUNT_OF(commands); i++)
        if (strcmp(argv[1], commands[i]) == 0)
            request.what = commands[i];
    if (request.what == NULL)
        return usage_error("unknown command, expected create, list, revoke or rotate", argc > 1 ? argv[1] : NULL);
    int status = parse(&request, argc, argv);
    if (status == 0)
        status = write_command(&request, command, sizeof command);
    if (status != 0)
        return status;
    if (request.state == NULL || request.state[0] == '\0')
        return usage_error("missing state directory of the master: set --state DIR or PCCL_MASTER_STATE", NULL);
    return carry_out(&request, command);
}
