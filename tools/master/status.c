#include "status.h"

#include "drive/master_server.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    EXIT_USAGE = 2,
    PATIENCE_MS = 5000, /* for one answer */
    WATCH_MS = 1000,    /* between two */
    ANSWER_BYTES_MAX = 16 << 20,
};

static const char default_address[] = "127.0.0.1:48180";

/* One question and what became of it. */
struct question {
    const char *address, *path;
    struct pccl_endpoint endpoint;
    uint64_t until_ms;
    char *answer; /* owned; the head, then the body */
    size_t length;
    char words[600]; /* why there is no answer */
};

static uint64_t now_ms(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

PCCL_PRINTF(2, 3) static bool fail(struct question *question, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(question->words, sizeof question->words, format, arguments);
    va_end(arguments);
    return false;
}

/* false: the time is up. */
static bool await(const struct question *question, int socket, short events)
{
    struct pollfd poll_one = {.fd = socket, .events = events};
    uint64_t now = now_ms();
    while (now < question->until_ms) {
        int ready = poll(&poll_one, 1, (int)(question->until_ms - now));
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
        now = now_ms();
    }
    return false;
}

/* ---- one connection ---- */

/* The socket, or -1 with the reason in errno. */
static int dial(const struct question *question, const struct addrinfo *to)
{
    int error = 0;
    socklen_t size = sizeof error;
    int made = socket(to->ai_family, to->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to->ai_protocol);
    if (made < 0)
        return -1;
    if (connect(made, to->ai_addr, to->ai_addrlen) == 0)
        return made;
    if (errno == EINPROGRESS && await(question, made, POLLOUT))
        (void)getsockopt(made, SOL_SOCKET, SO_ERROR, &error, &size);
    else
        error = errno == EINPROGRESS ? ETIMEDOUT : errno;
    if (error == 0)
        return made;
    (void)close(made);
    errno = error;
    return -1;
}

static int open_connection(struct question *question)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    char port[8];
    int made = -1, error = 0;
    (void)snprintf(port, sizeof port, "%u", (unsigned)question->endpoint.port);
    int unknown = getaddrinfo(question->endpoint.host, port, &hints, &list);
    if (unknown != 0) {
        (void)fail(question, "cannot resolve '%s': %s", question->endpoint.host, gai_strerror(unknown));
        return -1;
    }
    for (struct addrinfo *to = list; to && made < 0; to = to->ai_next) {
        made = dial(question, to);
        error = errno;
    }
    freeaddrinfo(list);
    if (made < 0)
        (void)fail(question,
                   "no master answers at %s: %s. A master answers there if it was started with --http %s, and on that "
                   "machine only unless told otherwise",
                   question->address, strerror(error), question->address);
    return made;
}

static bool say(struct question *question, int socket)
{
    char request[512];
    int length = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %.255s\r\nConnection: close\r\n\r\n",
                          question->path, question->endpoint.host);
    ssize_t sent = send(socket, request, (size_t)length, MSG_NOSIGNAL);
    return sent == length || fail(question, "cannot send to %s: %s", question->address, strerror(errno));
}

static bool hear(struct question *question, int socket)
{
    size_t room = 0;
    for (;;) {
        if (question->length + 1 >= room) {
            room = room ? 2 * room : 64 << 10;
            char *grown = room <= ANSWER_BYTES_MAX ? realloc(question->answer, room) : NULL;
            if (!grown)
                return fail(question, "the answer of %s is longer than any of a master", question->address);
            question->answer = grown;
        }
        if (!await(question, socket, POLLIN))
            return fail(question,
                        "%s accepts connections but does not answer within %d s: its process stands still, "
                        "or it is no master",
                        question->address, PATIENCE_MS / 1000);
        ssize_t got = recv(socket, question->answer + question->length, room - 1 - question->length, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (got < 0)
            return fail(question, "the connection to %s broke: %s", question->address, strerror(errno));
        if (got == 0)
            break;
        question->length += (size_t)got;
    }
    question->answer[question->length] = '\0';
    return true;
}

/* ---- the answer ---- */

/* Whoever answered shall not move the cursor of our terminal. */
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

/* Its body, or NULL with the reason in words. */
static const char *body_of(struct question *question)
{
    char *answer = question->answer;
    char *end = answer ? strstr(answer, "\r\n\r\n") : NULL;
    const char *server = answer ? strstr(answer, "\r\nServer: pccl-master\r\n") : NULL;
    const char *length = answer ? strstr(answer, "\r\nContent-Length: ") : NULL;
    if (!end || !server || server > end || !length || length > end || strncmp(answer, "HTTP/1.1 ", 9) != 0) {
        (void)fail(question,
                   "what answers at %s is no master's HTTP%s: the address is that of --http, not that of --listen",
                   question->address, question->length == 0 ? " (it closed the connection without a word)" : "");
        return NULL;
    }
    char *body = end + 4;
    if (strtoul(length + sizeof "\r\nContent-Length: " - 1, NULL, 10) != question->length - (size_t)(body - answer)) {
        (void)fail(question, "the answer of %s was cut off", question->address);
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
    int made = open_connection(question);
    if (made < 0)
        return NULL;
    bool good = say(question, made) && hear(question, made);
    (void)close(made);
    return good ? body_of(question) : NULL;
}

/* ---- the command ---- */

static int print_help(void)
{
    printf("usage: pccl-master status [--json | --watch] [ADDRESS]\n"
           "\n"
           "Asks a running master how its run is: the peers with their state and last word, the calls under way,\n"
           "who has come to them, and who is waited for. ADDRESS is that of the master's option --http; by default\n"
           "%s.\n"
           "\n"
           "  --json     prints /status.json of the master\n"
           "  --watch    asks every second, until Ctrl-C; on a terminal each answer takes the place of the last\n"
           "  --help     prints this text\n"
           "\n"
           "exit status: 0 a master has answered; 1 none has, for the reason that is printed; 2 wrong usage\n",
           default_address);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int usage_error(const char *words, const char *about)
{
    fprintf(stderr, "pccl-master status: %s%.200s\nTry 'pccl-master status --help'.\n", words, about);
    return EXIT_USAGE;
}

/* false: nothing can be printed any more. */
static bool print_answer(const char *body) { return fputs(body, stdout) >= 0 && fflush(stdout) == 0; }

/* Until Ctrl-C, which ends the process, or until nothing can be printed. A master may be away for a while. */
static int watch(struct question *question)
{
    const struct timespec pause = {.tv_sec = WATCH_MS / 1000};
    bool terminal = isatty(STDOUT_FILENO);
    for (;;) {
        const char *body = ask(question);
        printf("%s", terminal ? "\033[H\033[2J" : "");
        if (!body)
            printf("%s\n", question->words);
        if (!print_answer(body ? body : "") || printf("%s", terminal ? "" : "\n") < 0)
            return EXIT_FAILURE;
        (void)poll(NULL, 0, (int)pause.tv_sec * 1000);
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

int status_main(int argc, char **argv)
{
    struct question question = {.address = NULL, .path = "/status"};
    bool json = false, watches = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return print_help();
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--watch") == 0)
            watches = true;
        else if (argv[i][0] == '-')
            return usage_error("unknown argument: ", argv[i]);
        else if (question.address)
            return usage_error("one address is enough: ", argv[i]);
        else
            question.address = argv[i];
    }
    if (json && watches)
        return usage_error("--json and --watch exclude each other", "");
    if (!question.address)
        question.address = default_address;
    struct pccl_text reason;
    const char *cursor = question.address;
    bool more = false;
    if (pccl_endpoint_next(&cursor, PCCL_MASTER_HTTP_PORT, &question.endpoint, &more, &reason) != PCCL_OK)
        return usage_error(reason.bytes, "");
    if (!more || *cursor != '\0')
        return usage_error("this is not an address: ", question.address);
    question.path = json ? "/status.json" : "/status";
    return watches ? watch(&question) : once(&question);
}
