#include "client.h"

#include "help.h"

#include "drive/master_server.h"
#include "net/heap.h"
#include "net/secure.h"
#include "ops/tokens.h"
#include "os/resolve.h"
#include "os/secret_file.h"
#include "os/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXIT_USAGE = 2,
    PATIENCE_MS = 5000, /* time limit for an answer */
    SLICE_MS = 50,      /* interval between calls of `stops` */
    ANSWER_BYTES_MAX = 16 << 20,
};

static const char default_address[] = "127.0.0.1:48180";

/* The options, a request and its result. */
struct client {
    const char *address, *path;
    bool (*stops)(void *context); /* NULL: none */
    void *context;
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

PCCL_PRINTF(2, 3) static bool fail(struct client *client, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(client->words, sizeof client->words, format, arguments);
    va_end(arguments);
    return false;
}

static bool is_stopped(const struct client *client) { return client->stops && client->stops(client->context); }

/* Waits for the socket. Returns false if the time limit has passed, or if the request is stopped. */
static bool await(const struct client *client, uv_os_sock_t socket, bool writable)
{
    for (;;) {
        uint64_t now = now_ms();
        if (now >= client->until_ms)
            return false;
        uint64_t left = client->until_ms - now, slice = client->stops && left > SLICE_MS ? SLICE_MS : left;
        if (pccl_socket_await(socket, writable, (uint32_t)slice))
            return true;
        if (is_stopped(client))
            return false;
    }
}

/* ---- one connection ---- */

/* Returns 0 or a libuv error. */
static int dial(const struct client *client, const struct pccl_address *to, uv_os_sock_t *out)
{
    int error = pccl_socket_dial(to, out);
    if (error)
        return error;
    error = await(client, *out, true) ? pccl_socket_outcome(*out) : UV_ETIMEDOUT;
    if (error)
        pccl_socket_close(*out);
    return error;
}

static bool open_connection(struct client *client, uv_os_sock_t *out)
{
    enum { ADDRESSES_MAX = 16 };
    struct pccl_host host = {.port = client->endpoint.port};
    struct pccl_address addresses[ADDRESSES_MAX];
    struct pccl_text reason;
    int error = UV_EADDRNOTAVAIL;
    memcpy(host.name, client->endpoint.host, sizeof host.name);
    uint32_t count = pccl_resolve_now(&host, 1, addresses, ADDRESSES_MAX, &reason);
    if (count == 0)
        return fail(client, "cannot resolve %s", reason.bytes);
    for (uint32_t i = 0; i < count && error != 0; i++)
        error = dial(client, &addresses[i], out);
    return error == 0 ||
           fail(client,
                "no master answers at %s: %s. Start the master with --http %s; by default it answers only on its "
                "own machine",
                client->address, uv_strerror(error), client->address);
}

static bool shake_hands(struct client *client, uv_os_sock_t socket)
{
    while (pccl_secure_is_shaking_hands(client->secure)) {
        ptrdiff_t got = pccl_secure_read(client->secure, socket, NULL, 0, NULL, 0);
        if (got < 0 && got != UV_EAGAIN)
            return fail(client, "cannot connect to %s: %s", client->address,
                        pccl_secure_has_failed(client->secure) ? pccl_secure_why(client->secure)
                                                               : uv_strerror((int)got));
        if (got == UV_EAGAIN && !await(client, socket, false))
            return fail(client, "%s accepts connections but does not answer within %d s", client->address,
                        PATIENCE_MS / 1000);
    }
    return true;
}

static bool say(struct client *client, uv_os_sock_t socket)
{
    char request[1024];
    bool has_token = client->token[0] != '\0', is_v6 = strchr(client->endpoint.host, ':') != NULL;
    int length =
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s%.*s%s\r\n%s%s%sConnection: close\r\n\r\n",
                 client->path, is_v6 ? "[" : "", (int)strcspn(client->endpoint.host, "%"), client->endpoint.host,
                 is_v6 ? "]" : "", has_token ? "Authorization: Bearer " : "", client->token, has_token ? "\r\n" : "");
    if (client->secure && !shake_hands(client, socket))
        return false;
    ptrdiff_t sent = client->secure
                         ? pccl_secure_write(client->secure, socket, (const uint8_t *)request, (size_t)length, NULL, 0)
                         : pccl_socket_write(socket, (const uint8_t *)request, (size_t)length);
    pccl_wipe(request, sizeof request);
    return sent == length ||
           fail(client, "cannot send to %s: %s", client->address, uv_strerror(sent < 0 ? (int)sent : UV_EAGAIN));
}

/* Like pccl_socket_read, with or without encryption. */
static ptrdiff_t receive(const struct client *client, uv_os_sock_t socket, char *out, size_t room)
{
    if (!client->secure)
        return pccl_socket_read(socket, (uint8_t *)out, room);
    return pccl_secure_read(client->secure, socket, (uint8_t *)out, room, NULL, 0);
}

static bool hear(struct client *client, uv_os_sock_t socket)
{
    size_t room = 0;
    for (;;) {
        if (client->length + 1 >= room) {
            room = room ? 2 * room : 64 << 10;
            char *grown = room <= ANSWER_BYTES_MAX ? realloc(client->answer, room) : NULL;
            if (!grown)
                return fail(client, "the answer from %s is too long to be a master's", client->address);
            client->answer = grown;
        }
        bool ready = client->secure && pccl_secure_has_input(client->secure);
        if (!ready && !await(client, socket, false))
            return fail(
                client,
                "%s accepts connections but does not answer within %d s: its process is stopped, or it is not a master",
                client->address, PATIENCE_MS / 1000);
        ptrdiff_t got = receive(client, socket, client->answer + client->length, room - 1 - client->length);
        if (got == UV_EAGAIN)
            continue;
        if (got == UV_EOF)
            break;
        if (got < 0)
            return fail(client, "lost the connection to %s: %s", client->address,
                        client->secure && got == UV_EPROTO ? pccl_secure_why(client->secure) : uv_strerror((int)got));
        client->length += (size_t)got;
    }
    client->answer[client->length] = '\0';
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

/* Returns the body of the answer, or NULL with the reason in client->words. */
static const char *body_of(struct client *client)
{
    char *answer = client->answer;
    char *end = answer ? strstr(answer, "\r\n\r\n") : NULL;
    const char *server = answer ? strstr(answer, "\r\nServer: pccl-master\r\n") : NULL;
    const char *length = answer ? strstr(answer, "\r\nContent-Length: ") : NULL;
    if (!end || !server || server > end || !length || length > end || strncmp(answer, "HTTP/1.1 ", 9) != 0) {
        (void)fail(client,
                   "%s is not the HTTP address of a master%s: expected the address given to --http, not to --listen",
                   client->address, client->length == 0 ? " (it closed the connection without an answer)" : "");
        return NULL;
    }
    char *body = end + 4;
    if (strtoul(length + sizeof "\r\nContent-Length: " - 1, NULL, 10) != client->length - (size_t)(body - answer)) {
        (void)fail(client, "the answer from %s was cut off", client->address);
        return NULL;
    }
    make_printable(body);
    if (strncmp(answer + 9, "200 ", 4) != 0) {
        (void)fail(client, "%s answered: %.400s", client->address, body);
        return NULL;
    }
    return body;
}

const char *client_get(struct client *client, const char *path)
{
    client->path = path;
    client->until_ms = now_ms() + PATIENCE_MS;
    client->length = 0;
    uv_os_sock_t made;
    if (!open_connection(client, &made))
        return NULL;
    bool good = true;
    if (client->keys) {
        client->secure = pccl_secure_create(pccl_heap(), client->keys, PCCL_SECURE_VISITOR, NULL, NULL);
        good = client->secure || fail(client, "out of memory");
    }
    good = good && say(client, made) && hear(client, made);
    pccl_secure_destroy(client->secure);
    client->secure = NULL;
    pccl_socket_close(made);
    return good ? body_of(client) : NULL;
}
const char *client_reason(const struct client *client) { return client->words; }

int client_print(struct client *client, const char *command, const char *path)
{
    const char *body = client_get(client, path);
    if (body == NULL) {
        (void)fprintf(stderr, "%s: %s\n", command, client_reason(client));
        return EXIT_FAILURE;
    }
    if ((fputs(body, stdout) >= 0 && fflush(stdout) == 0) || errno == EPIPE) /* the reader has enough */
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "%s: cannot write to standard output: %s\n", command, strerror(errno));
    return EXIT_FAILURE;
}

void client_set_stop(struct client *client, bool (*stops)(void *context), void *context)
{
    client->stops = stops;
    client->context = context;
}

/* ---- the options ---- */

void client_print_help(void)
{
    static const struct help_row rows[] = {
        {NULL, "\nFor a master that uses HTTPS (--http-cert):"},
        {"--token-file FILE", "file that contains a token with the role observe or admin, or the admin token"},
        {"--ca FILE", "the authority that signed the master's certificate, or the certificate itself, in PEM; default: "
                      "the system's authorities"},
        {"--fingerprint HEX", "instead of --ca: SHA-256 of the master's certificate, which the master logs"},
    };
    help_print(rows, PCCL_COUNT_OF(rows));
}

const char **client_option(struct client_options *options, const char *option)
{
    return strcmp(option, "--token-file") == 0    ? &options->token_file
           : strcmp(option, "--ca") == 0          ? &options->authority
           : strcmp(option, "--fingerprint") == 0 ? &options->fingerprint
                                                  : NULL;
}

int client_usage_error(const char *command, const char *words, const char *about)
{
    (void)fprintf(stderr, "%s: %s%.200s\nTry '%s --help'.\n", command, words, about, command);
    return EXIT_USAGE;
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
static int secure(struct client *client, const char *command, const struct client_options *options)
{
    struct pccl_text reason;
    char fingerprint[PCCL_FINGERPRINT_TEXT + 1];
    size_t length;
    if (!read_fingerprint(options->fingerprint, fingerprint))
        return client_usage_error(command,
                                  "invalid fingerprint, expected 64 hexadecimal digits: ", options->fingerprint);
    bool good = true;
    if (options->token_file) {
        good = pccl_secret_file_read(options->token_file, false, client->token, sizeof client->token - 1, &length,
                                     &reason) == PCCL_OK;
        client->token[strcspn(client->token, "\r\n")] = '\0';
        if (good && client->token[0] == '\0')
            good = pccl_secret_fail(&reason, "cannot read", options->token_file, strerror(ENOENT)) == PCCL_OK;
    }
    if (good)
        client->keys = pccl_keys_of_visitor(pccl_heap(), client->endpoint.host,
                                            options->authority ? options->authority : "", fingerprint, &reason);
    if (client->keys)
        return 0;
    (void)fprintf(stderr, "%s: %s\n", command, reason.bytes);
    return EXIT_FAILURE;
}

/* Sets the address and the credentials. Returns 0, or the exit status. */
static int set_up(struct client *client, const char *command, const struct client_options *options)
{
    static const char scheme[] = "https://";
    client->address = options->address ? options->address : default_address;
    bool https = strncmp(client->address, scheme, sizeof scheme - 1) == 0, more = false;
    client->address += https ? sizeof scheme - 1 : 0;
    const char *cursor = client->address;
    struct pccl_text reason;
    if (pccl_endpoint_next(&cursor, PCCL_MASTER_HTTP_PORT, &client->endpoint, &more, &reason) != PCCL_OK)
        return client_usage_error(command, reason.bytes, "");
    if (!more || *cursor != '\0')
        return client_usage_error(command, "not an address: ", client->address);
    if (https)
        return secure(client, command, options);
    return options->token_file || options->authority || options->fingerprint
               ? client_usage_error(
                     command, "--token-file, --ca and --fingerprint require an address that begins with https://", "")
               : 0;
}

struct client *client_create(const char *command, const struct client_options *options, int *status)
{
    struct client *client = calloc(1, sizeof *client);
    *status = EXIT_FAILURE;
    if (!client) {
        (void)fprintf(stderr, "%s: out of memory\n", command);
        return NULL;
    }
    *status = set_up(client, command, options);
    if (*status == 0)
        return client;
    client_destroy(client);
    return NULL;
}

void client_destroy(struct client *client)
{
    pccl_keys_destroy(client->keys);
    pccl_wipe(client->token, sizeof client->token);
    free(client->answer);
    free(client);
}
