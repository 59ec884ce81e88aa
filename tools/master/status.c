#include "status.h"

#include "help.h"

#include "drive/master_server.h"
#include "net/heap.h"
#include "net/secure.h"
#include "ops/tokens.h"
#include "os/resolve.h"
#include "os/secret_file.h"
#include "os/socket.h"
#include "system/process.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXIT_USAGE = 2,
    PATIENCE_MS = 5000, /* time limit for an answer */
    WATCH_MS = 1000,    /* interval between answers */
    ANSWER_BYTES_MAX = 16 << 20,
};

static const char default_address[] = "127.0.0.1:48180";

/* A request and its result. */
struct question {
    const char *address, *path;
    struct pccl_endpoint endpoint;
    uint64_t until_ms;
    char token[PCCL_TOKEN_TEXT + PCCL_ADMIN_TOKEN_MAX]; /* "" if none was given */
    struct pccl_keys *keys;                             /* owned; NULL: plain HTTP */
    struct pccl_secure *secure;                         /* encryption state of the current connection */
    char *answer;                                       /* owned; head followed by body */
    size_t length;
    char words[600]; /* reason why there is no answer */
};

static uint64_t now_ms(void) { return uv_hrtime() / 1000000; }

PCCL_PRINTF(2, 3) static bool fail(struct question *question, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(question->words, sizeof question->words, format, arguments);
    va_end(arguments);
    return false;
}

/* Waits for the socket. Returns false if the time limit has passed. */
static bool await(const struct question *question, uv_os_sock_t socket, bool writable)
{
    uint64_t now = now_ms();
    return now < question->until_ms && pccl_socket_await(socket, writable, (uint32_t)(question->until_ms - now));
}

/* ---- one connection ---- */

/* Returns 0 or a libuv error. */
static int dial(const struct question *question, const struct pccl_address *to, uv_os_sock_t *out)
{
    int error = pccl_socket_dial(to, out);
    if (error)
        return error;
    error = await(question, *out, true) ? pccl_socket_outcome(*out) : UV_ETIMEDOUT;
    if (error)
        pccl_socket_close(*out);
    return error;
}

static bool open_connection(struct question *question, uv_os_sock_t *out)
{
    enum { ADDRESSES_MAX = 16 };
    struct pccl_host host = {.port = question->endpoint.port};
    struct pccl_address addresses[ADDRESSES_MAX];
    struct pccl_text reason;
    int error = UV_EADDRNOTAVAIL;
    memcpy(host.name, question->endpoint.host, sizeof host.name);
    uint32_t count = pccl_resolve_now(&host, 1, addresses, ADDRESSES_MAX, &reason);
    if (count == 0)
        return fail(question, "cannot resolve %s", reason.bytes);
    for (uint32_t i = 0; i < count && error != 0; i++)
        error = dial(question, &addresses[i], out);
    return error == 0 ||
           fail(question,
                "no master answers at %s: %s. Start the master with --http %s; by default it answers only on its "
                "own machine",
                question->address, uv_strerror(error), question->address);
}

static bool shake_hands(struct question *question, uv_os_sock_t socket)
{
    while (pccl_secure_is_shaking_hands(question->secure)) {
        ptrdiff_t got = pccl_secure_read(question->secure, socket, NULL, 0, NULL, 0);
        if (got < 0 && got != UV_EAGAIN)
            return fail(question, "cannot connect to %s: %s", question->address,
                        pccl_secure_has_failed(question->secure) ? pccl_secure_why(question->secure)
                                                                 : uv_strerror((int)got));
        if (got == UV_EAGAIN && !await(question, socket, false))
            return fail(question, "%s accepts connections but does not answer within %d s", question->address,
                        PATIENCE_MS / 1000);
    }
    return true;
}

static bool say(struct question *question, uv_os_sock_t socket)
{
    char request[1024];
    bool has_token = question->token[0] != '\0', is_v6 = strchr(question->endpoint.host, ':') != NULL;
    int length =
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s%.*s%s\r\n%s%s%sConnection: close\r\n\r\n",
                 question->path, is_v6 ? "[" : "", (int)strcspn(question->endpoint.host, "%"), question->endpoint.host,
                 is_v6 ? "]" : "", has_token ? "Authorization: Bearer " : "", question->token, has_token ? "\r\n" : "");
    if (question->secure && !shake_hands(question, socket))
        return false;
    ptrdiff_t sent = question->secure ? pccl_secure_write(question->secure, socket, (const uint8_t *)request,
                                                          (size_t)length, NULL, 0)
                                      : pccl_socket_write(socket, (const uint8_t *)request, (size_t)length);
    pccl_wipe(request, sizeof request);
    return sent == length ||
           fail(question, "cannot send to %s: %s", question->address, uv_strerror(sent < 0 ? (int)sent : UV_EAGAIN));
}

/* Like pccl_socket_read, with or without encryption. */
static ptrdiff_t receive(const struct question *question, uv_os_sock_t socket, char *out, size_t room)
{
    if (!question->secure)
        return pccl_socket_read(socket, (uint8_t *)out, room);
    return pccl_secure_read(question->secure, socket, (uint8_t *)out, room, NULL, 0);
}

static bool hear(struct question *question, uv_os_sock_t socket)
{
    size_t room = 0;
    for (;;) {
        if (question->length + 1 >= room) {
            room = room ? 2 * room : 64 << 10;
            char *grown = room <= ANSWER_BYTES_MAX ? realloc(question->answer, room) : NULL;
            if (!grown)
                return fail(question, "the answer from %s is too long to be a master's", question->address);
            question->answer = grown;
        }
        bool ready = question->secure && pccl_secure_has_input(question->secure);
        if (!ready && !await(question, socket, false))
            return fail(
                question,
                "%s accepts connections but does not answer within %d s: its process is stopped, or it is not a master",
                question->address, PATIENCE_MS / 1000);
        ptrdiff_t got = receive(question, socket, question->answer + question->length, room - 1 - question->length);
        if (got == UV_EAGAIN)
            continue;
        if (got == UV_EOF)
            break;
        if (got < 0)
            return fail(question, "lost the connection to %s: %s", question->address,
                        question->secure && got == UV_EPROTO ? pccl_secure_why(question->secure)
                                                             : uv_strerror((int)got));
        question->length += (size_t)got;
    }
    question->answer[question->length] = '\0';
    return true;
}

/* ---- the answer ---- */

/* Replaces control characters, so that the other side cannot control our terminal. */
static void make_printable(char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        size_t taken = pccl_text_character(text, left);
        if (taken == 0 && *text != '\n')
            *text = '?';
        taken = taken > 0 ? taken : 1;
        text += taken;
        left -= taken;
    }
}

/* Returns the body of the answer, or NULL with the reason in question->words. */
static const char *body_of(struct question *question)
{
    char *answer = question->answer;
    char *end = answer ? strstr(answer, "\r\n\r\n") : NULL;
    const char *server = answer ? strstr(answer, "\r\nServer: pccl-master\r\n") : NULL;
    const char *length = answer ? strstr(answer, "\r\nContent-Length: ") : NULL;
    if (!end || !server || server > end || !length || length > end || strncmp(answer, "HTTP/1.1 ", 9) != 0) {
        (void)fail(question,
                   "%s is not the HTTP address of a master%s: expected the address given to --http, not to --listen",
                   question->address, question->length == 0 ? " (it closed the connection without an answer)" : "");
        return NULL;
    }
    char *body = end + 4;
    if (strtoul(length + sizeof "\r\nContent-Length: " - 1, NULL, 10) != question->length - (size_t)(body - answer)) {
        (void)fail(question, "the answer from %s was cut off", question->address);
        return NULL;
    }
    make_printable(body);
    if (strncmp(answer + 9, "200 ", 4) != 0) {
        (void)fail(question, "%s answered: %.400s", question->address, body);
        return NULL;
    }
    return body;
}

static const char *ask(struct question *question)
{
    question->until_ms = now_ms() + PATIENCE_MS;
    question->length = 0;
    uv_os_sock_t made;
    if (!open_connection(question, &made))
        return NULL;
    bool good = true;
    if (question->keys) {
        question->secure = pccl_secure_create(pccl_heap(), question->keys, PCCL_SECURE_VISITOR, NULL, NULL);
        good = question->secure || fail(question, "out of memory");
    }
    good = good && say(question, made) && hear(question, made);
    pccl_secure_destroy(question->secure);
    question->secure = NULL;
    pccl_socket_close(made);
    return good ? body_of(question) : NULL;
}

/* ---- the command ---- */

static int print_help(void)
{
    static const struct help_row rows[] = {
        {NULL, "usage: pccl-master status [--json | --watch] [OPTION]...\n                          [ADDRESS | "
               "https://ADDRESS]"},
        {NULL, "Prints the state of a running master: the peers with their state and last contact, the pending calls, "
               "and which peers have entered them or are missing. ADDRESS is the one given to the master's --http; "
               "default: 127.0.0.1:48180."},
        {"--json", "prints the master's /status.json"},
        {"--watch", "repeats every second until Ctrl-C; on a terminal each answer replaces the previous one"},
        {"--help", "prints this text"},
        {NULL, "For a master that uses HTTPS (--http-cert):"},
        {"--token-file FILE", "file that contains a token with the role observe or admin, or the admin token"},
        {"--ca FILE", "the authority that signed the master's certificate, or the certificate itself, in PEM; default: "
                      "the system's authorities"},
        {"--fingerprint HEX", "instead of --ca: SHA-256 of the master's certificate, which the master logs"},
        {NULL,
         "Examples:\n  pccl status --watch\n  pccl status --token-file observe.token --ca ca.pem https://master:48180"},
        {NULL, "exit status: 0 the master answered; 1 no answer, for the printed reason; 2 wrong usage"},
    };
    help_print(rows, PCCL_COUNT_OF(rows));
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int usage_error(const char *words, const char *about)
{
    fprintf(stderr, "pccl-master status: %s%.200s\nTry 'pccl-master status --help'.\n", words, about);
    return EXIT_USAGE;
}

/* Returns false if standard output is closed. */
static bool print_answer(const char *body) { return fputs(body, stdout) >= 0 && fflush(stdout) == 0; }

/*
 * Prints answers until Ctrl-C ends the process or standard output is closed. Keeps trying while the master does not
 * answer.
 */
static int watch(struct question *question)
{
    bool terminal = uv_guess_handle(1) == UV_TTY;
    for (;;) {
        const char *body = ask(question);
        printf("%s", terminal ? "\033[H\033[2J" : "");
        if (!body)
            printf("%s\n", question->words);
        if (!print_answer(body ? body : "") || printf("%s", terminal ? "" : "\n") < 0)
            return EXIT_FAILURE;
        process_sleep_s(1e-3 * (int)WATCH_MS);
    }
}

static int once(struct question *question)
{
    const char *body = ask(question);
    if (!body)
        fprintf(stderr, "pccl-master status: %s\n", question->words);
    int status = body && print_answer(body) ? EXIT_SUCCESS : EXIT_FAILURE;
    free(question->answer);
    return status;
}

struct wanted {
    const char *token_file, *authority, *fingerprint;
    bool json, watches;
};

/* Returns the field for a flag's value, or NULL for flags without a value. */
static const char **place_of(struct wanted *wanted, const char *flag)
{
    return strcmp(flag, "--token-file") == 0    ? &wanted->token_file
           : strcmp(flag, "--ca") == 0          ? &wanted->authority
           : strcmp(flag, "--fingerprint") == 0 ? &wanted->fingerprint
                                                : NULL;
}

/* Reads 64 hexadecimal digits, in either case and with or without colons, as other programs print them. */
static bool read_fingerprint(const char *given, char text[PCCL_FINGERPRINT_TEXT + 1])
{
    size_t length = 0;
    for (const char *at = given ? given : ""; *at != '\0'; at++) {
        if (*at == ':')
            continue;
        char digit = (char)(*at >= 'A' && *at <= 'F' ? *at - 'A' + 'a' : *at);
        if (length == PCCL_FINGERPRINT_TEXT || strchr("0123456789abcdef", digit) == NULL)
            return false;
        text[length++] = digit;
    }
    text[length] = '\0';
    return length == PCCL_FINGERPRINT_TEXT || !given;
}

/* Prepares encryption. Returns 0, or the exit status. */
static int secure(struct question *question, const struct wanted *wanted, bool https)
{
    struct pccl_text reason;
    char fingerprint[PCCL_FINGERPRINT_TEXT + 1];
    size_t length;
    if (!https)
        return wanted->token_file || wanted->authority || wanted->fingerprint
                   ? usage_error("--token-file, --ca and --fingerprint require an address that begins with https://",
                                 "")
                   : 0;
    if (!read_fingerprint(wanted->fingerprint, fingerprint))
        return usage_error("invalid fingerprint, expected 64 hexadecimal digits: ", wanted->fingerprint);
    bool good = true;
    if (wanted->token_file) {
        good = pccl_secret_file_read(wanted->token_file, false, question->token, sizeof question->token - 1, &length,
                                     &reason) == PCCL_OK;
        question->token[strcspn(question->token, "\r\n")] = '\0';
        if (good && question->token[0] == '\0')
            good = pccl_secret_fail(&reason, "cannot read", wanted->token_file, strerror(ENOENT)) == PCCL_OK;
    }
    if (good)
        question->keys = pccl_keys_of_visitor(pccl_heap(), question->endpoint.host,
                                              wanted->authority ? wanted->authority : "", fingerprint, &reason);
    if (question->keys)
        return 0;
    fprintf(stderr, "pccl-master status: %s\n", reason.bytes);
    return EXIT_FAILURE;
}

int status_main(int argc, char **argv)
{
    static const char scheme[] = "https://";
    struct question question = {.address = NULL, .path = "/status"};
    struct wanted wanted = {.json = false};
    for (int i = 1; i < argc; i++) {
        const char **place = place_of(&wanted, argv[i]);
        if (place && i + 1 == argc)
            return usage_error("missing value after ", argv[i]);
        if (place)
            *place = argv[++i];
        else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return print_help();
        else if (strcmp(argv[i], "--json") == 0)
            wanted.json = true;
        else if (strcmp(argv[i], "--watch") == 0)
            wanted.watches = true;
        else if (argv[i][0] == '-')
            return usage_error("unknown argument: ", argv[i]);
        else if (question.address)
            return usage_error("more than one address: ", argv[i]);
        else
            question.address = argv[i];
    }
    if (wanted.json && wanted.watches)
        return usage_error("--json and --watch cannot be combined", "");
    if (!question.address)
        question.address = default_address;
    bool https = strncmp(question.address, scheme, sizeof scheme - 1) == 0;
    struct pccl_text reason;
    question.address += https ? sizeof scheme - 1 : 0;
    const char *cursor = question.address;
    bool more = false;
    if (pccl_endpoint_next(&cursor, PCCL_MASTER_HTTP_PORT, &question.endpoint, &more, &reason) != PCCL_OK)
        return usage_error(reason.bytes, "");
    if (!more || *cursor != '\0')
        return usage_error("not an address: ", question.address);
    int wrong = secure(&question, &wanted, https);
    if (wrong != 0)
        return wrong;
    question.path = wanted.json ? "/status.json" : "/status";
    int status = wanted.watches ? watch(&question) : once(&question);
    pccl_keys_destroy(question.keys);
    pccl_wipe(question.token, sizeof question.token);
    return status;
}
