#include "ops/web.h"

#include "config/errors.h"
#include "ops/dashboard.h"
#include "log/logger.h"
#include "ops/metrics.h"
#include "ops/pages.h"
#include "net/clock.h"
#include "net/heap.h"
#include "os/random.h"
#include "os/secret_file.h"

#include <errno.h>
#include <string.h>

enum {
    IDLE_SHARE = 20,        /* a page is reused for this multiple of the time that was needed to make it */
    SLICE_ITEMS = 64,       /* maximum number of items in a slice, which take about 0.1 ms */
    SLICE_BYTES = 16 << 10, /* maximum size of a slice, for long items */
    TOKEN_FILE_BYTES_MAX = PCCL_SHARED_TEXT_MAX + 8, /* more than any token needs */
};

static const struct kind {
    const char *path, *type;
    uint32_t bytes_max;
    bool (*next)(struct pccl_web *pages, struct pccl_page *page);
} kinds[PCCL_PAGE_KINDS];

/* ---- requests ---- */

static const char plain[] = "text/plain; charset=utf-8";

static const struct {
    const char *path, *type;
    bool json;
} event_pages[] = {{"/events.json", "application/json", true}, {"/events", plain, false}};

static void answer_bytes(struct pccl_http_visitor *visitor, const char *type, const void *bytes, size_t length)
{
    struct pccl_http_body *body = pccl_http_body_make(pccl_heap(), (uint32_t)length);
    if (body)
        pccl_print_add_bytes(&body->print, bytes, length);
    pccl_http_answer(visitor, type, body);
    pccl_http_body_leave(body);
}

/* Parses "/drain/<id>", "/expel/<id>" and "/optimize". */
static bool read_command(const char *path, enum pccl_master_command *command, struct pccl_id *peer)
{
    static const struct {
        const char *start;
        enum pccl_master_command command;
    } kinds_of[] = {{"/drain/", PCCL_COMMAND_DRAIN}, {"/expel/", PCCL_COMMAND_EXPEL}};
    *command = PCCL_COMMAND_OPTIMIZE;
    if (strcmp(path, "/optimize") == 0)
        return true;
    for (size_t i = 0; i < PCCL_COUNT_OF(kinds_of); i++) {
        size_t length = strlen(kinds_of[i].start), digits = 2 * sizeof peer->bytes;
        *command = kinds_of[i].command;
        if (strncmp(path, kinds_of[i].start, length) == 0)
            return strlen(path + length) == digits && pccl_id_read(path + length, digits, peer);
    }
    return false;
}

static bool takes_commands(const struct pccl_web *pages) { return pages->token[0] != '\0' || pages->tokens; }

/* Returns true if the request's token allows this role; otherwise answers 401. */
static bool may(struct pccl_web *pages, struct pccl_http_visitor *visitor, const struct pccl_http_request *request,
                enum pccl_role role)
{
    struct pccl_http_value given;
    struct pccl_text words, why;
    if (pages->token[0] != '\0' && pccl_http_has_token(request, pages->token))
        return true;
    pccl_text_format(&words, "Unauthorized: expected the header 'Authorization: Bearer TOKEN' with %s token",
                     role == PCCL_ROLE_ADMIN ? "an admin" : "an observe or admin");
    if (pages->tokens && pccl_http_bearer(request, &given)) {
        char text[PCCL_TOKEN_TEXT + 1];
        size_t length = given.length <= PCCL_TOKEN_TEXT ? given.length : 0;
        memcpy(text, given.bytes, length);
        text[length] = '\0';
        enum pccl_status status = pccl_tokens_show(pages->tokens, text, role, &why);
        pccl_wipe(text, sizeof text);
        if (status == PCCL_OK)
            return true;
        pccl_text_append(&words, ": %s", why.bytes);
    }
    pccl_text_append(&words, ".");
    pccl_http_refuse(visitor, 401, words.bytes);
    return false;
}

/* Returns true if the client may give the command that it requests; otherwise answers with an error. */
static bool check_command(struct pccl_web *pages, struct pccl_http_visitor *visitor,
                          const struct pccl_http_request *request, enum pccl_master_command *command,
                          struct pccl_id *peer)
{
    if (!takes_commands(pages))
        pccl_http_refuse(visitor, 405,
                         "Commands over HTTP are disabled: start the master with --admin-token-file, or with --state "
                         "for tokens with the role admin.");
    else if (!read_command(request->path, command, peer))
        pccl_http_refuse(visitor, 404, "Unknown command: expected /drain/ID, /expel/ID or /optimize.");
    else if (!pccl_http_is_ours(request, pccl_http_is_https(visitor), pages->host_names, pages->host_name_count))
        pccl_http_refuse(visitor, 403,
                         "Command refused: send commands from the master's own page, or from a program, using an IP "
                         "address or the master's host name.");
    else
        return may(pages, visitor, request, PCCL_ROLE_ADMIN);
    return false;
}

static void refuse_page(struct pccl_http_visitor *visitor)
{
    struct pccl_text words;
    pccl_text_format(&words, "Unknown page: expected /");
    for (uint32_t kind = 0; kind < PCCL_PAGE_CHANGES; kind++)
        pccl_text_append(&words, ", %s", kinds[kind].path);
    for (uint32_t page = 0; page < PCCL_COUNT_OF(event_pages); page++)
        pccl_text_append(&words, ", %s", event_pages[page].path);
    pccl_text_add(&words, ", /healthz.");
    pccl_http_refuse(visitor, 404, words.bytes);
}

/*
 * Returns true if a page can be reused. This limits the share of the loop's time that is spent on pages, regardless of
 * the number of clients.
 */
static bool is_fresh(const struct pccl_page *page, uint64_t now_us)
{
    return page->body && now_us < page->taken_us + IDLE_SHARE * page->cost_us;
}

/* Returns the number with which clients wait for the next answer about changes that has not begun. */
static uint32_t turn_after(const struct pccl_web *pages)
{
    bool next = pages->pages[PCCL_PAGE_CHANGES].making;
    return PCCL_PAGE_KINDS + 1 + (pages->turn + next) % 2;
}

/* Answers a request for the changes since a revision, now or later. */
static void answer_changes(struct pccl_web *pages, struct pccl_http_visitor *visitor,
                           const struct pccl_http_value *given)
{
    struct pccl_page *page = &pages->pages[PCCL_PAGE_CHANGES];
    uint64_t since;
    if (!pccl_changes_read(&pages->changes, given->bytes, given->length, &since)) {
        pccl_http_refuse(visitor, 400,
                         "Invalid parameter 'since': expected 0, or the value of 'revision' in an earlier answer.");
        return;
    }
    if (!page->making && since >= pages->answered && is_fresh(page, pccl_now_us())) {
        pccl_http_answer(visitor, kinds[PCCL_PAGE_CHANGES].type, page->body);
        return;
    }
    pages->since = page->waited ? pccl_min_u64(pages->since, since) : since;
    page->wanted = page->waited = true;
    pccl_http_let_wait(visitor, turn_after(pages));
}

/* Answers a request for events immediately. */
static void answer_events(struct pccl_web *pages, struct pccl_http_visitor *visitor,
                          const struct pccl_http_request *request, uint32_t page)
{
    struct pccl_text reason;
    if (pccl_http_is_https(visitor) && !may(pages, visitor, request, PCCL_ROLE_OBSERVE))
        return;
    struct pccl_http_body *body = pccl_http_body_make(pccl_heap(), PCCL_EVENTS_ANSWER_BYTES_MAX);
    if (body && pccl_events_answer(pages->events, request->query.bytes, request->query.length, event_pages[page].json,
                                   &body->print, &reason) != PCCL_OK)
        pccl_http_refuse(visitor, 400, reason.bytes);
    else
        pccl_http_answer(visitor, event_pages[page].type, body);
    pccl_http_body_leave(body);
}

static void answer_get(struct pccl_web *pages, struct pccl_http_visitor *visitor,
                       const struct pccl_http_request *request)
{
    bool is_public = !pccl_http_is_loopback(visitor);
    if (!pccl_http_is_https(visitor) &&
        !pccl_http_is_for_us(request, pages->host_names, pages->host_name_count, is_public)) {
        pccl_http_refuse(
            visitor, 403,
            "Unknown host name: expected an IP address, localhost, the machine's name or the name given to --http.");
        return;
    }
    for (uint32_t kind = 0; kind < PCCL_PAGE_KINDS; kind++) {
        if (strcmp(request->path, kinds[kind].path) != 0)
            continue;
        if (pccl_http_is_https(visitor) && !may(pages, visitor, request, PCCL_ROLE_OBSERVE))
            return;
        struct pccl_http_value since;
        if (kind == PCCL_PAGE_JSON && pccl_http_parameter(request, "since", &since)) {
            answer_changes(pages, visitor, &since);
            return;
        }
        pages->pages[kind].wanted = true;
        pccl_http_let_wait(visitor, kind + 1);
        return;
    }
    for (uint32_t page = 0; page < PCCL_COUNT_OF(event_pages); page++) {
        if (strcmp(request->path, event_pages[page].path) != 0)
            continue;
        answer_events(pages, visitor, request, page);
        return;
    }
    if (strcmp(request->path, "/healthz") == 0)
        answer_bytes(visitor, plain, "ok\n", 3);
    else if (strcmp(request->path, "/") == 0)
        answer_bytes(visitor, "text/html; charset=utf-8", pccl_dashboard, pccl_dashboard_bytes);
    else
        refuse_page(visitor);
}

bool pccl_web_next_command(struct pccl_web *pages, enum pccl_master_command *command, struct pccl_id *peer)
{
    struct pccl_http_request request;
    struct pccl_http_visitor *visitor;
    while ((visitor = pccl_http_next(&pages->http, &request)) != NULL) {
        *peer = (struct pccl_id){{0}};
        if (!request.post) {
            answer_get(pages, visitor, &request);
        } else if (check_command(pages, visitor, &request, command, peer)) {
            pages->commander = visitor;
            return true;
        }
    }
    return false;
}

void pccl_web_answer_command(struct pccl_web *pages, const struct pccl_master_answer *answer)
{
    if (answer->done)
        answer_bytes(pages->commander, plain, answer->words.bytes, answer->words.length);
    else
        pccl_http_refuse(pages->commander, 409, answer->words.bytes);
}

/* ---- pages ---- */

static bool next_of_metrics(struct pccl_web *pages, struct pccl_page *page)
{
    (void)pages;
    pccl_metrics_write(&page->figures, &page->body->print);
    return false;
}

static bool next_of_json(struct pccl_web *pages, struct pccl_page *page)
{
    (void)pages;
    return pccl_page_json(&page->figures, &page->at, &page->body->print);
}

static bool next_of_text(struct pccl_web *pages, struct pccl_page *page)
{
    (void)pages;
    return pccl_page_text(&page->figures, &page->at, &page->body->print);
}

static bool next_of_changes(struct pccl_web *pages, struct pccl_page *page)
{
    return pccl_changes_next(&pages->changes, &page->figures, &page->at, &page->body->print);
}

static const char json[] = "application/json";

static const struct kind kinds[PCCL_PAGE_KINDS] = {
    [PCCL_PAGE_METRICS] = {"/metrics", "text/plain; version=0.0.4; charset=utf-8", PCCL_METRICS_BYTES_MAX,
                           next_of_metrics},
    [PCCL_PAGE_JSON] = {"/status.json", json, PCCL_PAGE_BYTES_MAX, next_of_json},
    [PCCL_PAGE_TEXT] = {"/status", plain, PCCL_PAGE_BYTES_MAX, next_of_text},
    [PCCL_PAGE_CHANGES] = {"/status.json", json, PCCL_PAGE_BYTES_MAX, next_of_changes},
};

static void drop_body(struct pccl_page *page)
{
    pccl_http_body_leave(page->body);
    page->body = NULL;
}

static void fill_in(const struct pccl_web *pages, struct pccl_driver_figures *driver)
{
    driver->requests = pages->http.answered;
    driver->requests_refused = pages->http.refused;
    driver->visitors_dropped = pages->http.dropped;
    driver->takes_commands = takes_commands(pages);
    driver->busy_us = pages->busy_us;
    driver->longest_us = pccl_max_u64(pages->longest_us, pages->longest_before_us);
}

/* Starts making a page. Returns false if out of memory. */
static bool begin(struct pccl_web *pages, uint32_t kind, struct pccl_master *machine,
                  const struct pccl_driver_figures *driver, uint64_t now_us)
{
    struct pccl_page *page = &pages->pages[kind];
    drop_body(page);
    page->at = 0;
    page->taken_us = now_us;
    if (!pccl_figures_take(machine, kind != PCCL_PAGE_METRICS, pccl_heap(), &page->figures))
        return false;
    page->figures.driver = *driver;
    fill_in(pages, &page->figures.driver);
    if (kind == PCCL_PAGE_JSON || kind == PCCL_PAGE_CHANGES) {
        pccl_link_blocks_visit(&pages->blocks, machine, PCCL_FIGURES_ROWS_MAX);
        page->figures.blocks = pages->blocks.rows;
        page->figures.block_count = pages->blocks.count;
    }
    page->body = pccl_http_body_make(pccl_heap(), kinds[kind].bytes_max);
    if (page->body && (kind != PCCL_PAGE_CHANGES || pccl_changes_begin(&pages->changes, &page->figures, pages->since)))
        return true;
    pccl_figures_fini(&page->figures);
    drop_body(page);
    return false;
}

static void hand_out(struct pccl_web *pages, uint32_t kind)
{
    struct pccl_page *page = &pages->pages[kind];
    uint32_t number = kind != PCCL_PAGE_CHANGES ? kind + 1 : PCCL_PAGE_KINDS + 1 + pages->turn++ % 2;
    page->wanted = page->waited;
    page->making = false;
    pccl_http_answer_all(&pages->http, number, kinds[kind].type, page->body);
}

static void work_on(struct pccl_web *pages, uint32_t kind, struct pccl_master *machine,
                    const struct pccl_driver_figures *driver, uint64_t now_us)
{
    struct pccl_page *page = &pages->pages[kind];
    bool more = page->making || !is_fresh(page, now_us);
    if (more && !page->making) {
        pages->answered = kind == PCCL_PAGE_CHANGES ? pages->since : pages->answered;
        page->waited = false;
        page->making = more = begin(pages, kind, machine, driver, now_us);
        page->cost_us = 0;
    }
    uint32_t enough = page->body != NULL ? page->body->print.length + SLICE_BYTES : 0;
    for (int i = 0; more && i < SLICE_ITEMS && page->body->print.length < enough; i++)
        more = kinds[kind].next(pages, page);
    if (page->making)
        page->cost_us += pccl_now_us() - now_us;
    if (more)
        return;
    pccl_figures_fini(&page->figures);
    hand_out(pages, kind); /* if out of memory, this answers with an error */
}

static void on_wake(uv_timer_t *timer) { (void)timer; }

/*
 * Returns true if the page may be worked on. An answer about changes serves only the clients that have waited for it,
 * so the next one begins only when the last one is no longer fresh.
 */
static bool is_due(struct pccl_web *pages, uint32_t kind, uint64_t now_us)
{
    const struct pccl_page *page = &pages->pages[kind];
    if (!page->wanted)
        return false;
    if (kind != PCCL_PAGE_CHANGES || page->making || !is_fresh(page, now_us))
        return true;
    uint64_t wait_us = page->taken_us + IDLE_SHARE * page->cost_us - now_us;
    (void)uv_timer_start(&pages->wake, on_wake, wait_us / 1000 + 1, 0);
    return false;
}

bool pccl_web_work(struct pccl_web *pages, struct pccl_master *machine, const struct pccl_driver_figures *driver,
                   uint64_t now_us)
{
    bool worked = false, more = false;
    for (uint32_t kind = 0; kind < PCCL_PAGE_KINDS; kind++) {
        struct pccl_page *page = &pages->pages[kind];
        if (!worked && is_due(pages, kind, now_us)) {
            worked = true;
            work_on(pages, kind, machine, driver, now_us);
        }
        more = more || is_due(pages, kind, now_us);
        if (!page->wanted && !is_fresh(page, now_us))
            drop_body(page);
    }
    return more;
}

void pccl_web_note_turn(struct pccl_web *pages, uv_loop_t *loop, uint64_t now_us)
{
#if UV_VERSION_HEX >= 0x012700 /* libuv 1.39 */
    uint64_t waited_ns = uv_metrics_idle_time(loop);
#else
    uint64_t waited_ns = now_us * 1000;
    (void)loop;
#endif
    uint64_t gone_us = now_us - pages->turn_us, waited_us = (waited_ns - pages->waited_ns) / 1000;
    uint64_t busy_us = gone_us - pccl_min_u64(gone_us, waited_us);
    bool first = pages->turn_us == 0;
    pages->turn_us = now_us;
    pages->waited_ns = waited_ns;
    if (first || now_us >= pages->window_us + PCCL_LAG_WINDOW_US) {
        pages->longest_before_us = now_us < pages->window_us + 2 * (uint64_t)PCCL_LAG_WINDOW_US ? pages->longest_us : 0;
        pages->longest_us = 0;
        pages->window_us = now_us;
    }
    if (first)
        return;
    pages->busy_us += busy_us;
    pages->longest_us = pccl_max_u64(pages->longest_us, busy_us);
}

/* ---- life ---- */

enum pccl_status pccl_web_read_token(const char *path, char token[PCCL_ADMIN_TOKEN_MAX + 1], struct pccl_text *reason)
{
    char text[TOKEN_FILE_BYTES_MAX + 1];
    size_t length = 0;
    enum pccl_status status = pccl_secret_file_read(path, true, text, TOKEN_FILE_BYTES_MAX, &length, reason);
    if (status == PCCL_OK && length == 0)
        status = pccl_secret_fail(reason, "cannot read", path, strerror(ENOENT));
    if (status != PCCL_OK) {
        pccl_wipe(text, sizeof text);
        return status;
    }
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
        length--;
    bool good = length >= PCCL_ADMIN_TOKEN_LEAST && length <= PCCL_ADMIN_TOKEN_MAX;
    for (size_t i = 0; i < length; i++)
        good = good && text[i] > ' ' && text[i] <= '~';
    if (good) {
        memcpy(token, text, length);
        token[length] = '\0';
    }
    pccl_wipe(text, sizeof text);
    return good ? PCCL_OK
                : pccl_secret_fail(reason, "cannot use", path,
                                   "invalid token: expected one line of 16 to 128 printable characters without blanks; "
                                   "create one with 'openssl rand -hex 32'");
}

/* Checks that an address that other machines can reach has HTTPS and a token, unless `insecure` allows HTTP. */
static enum pccl_status check_public(const struct pccl_web *pages, const struct pccl_address *address,
                                     struct pccl_text *reason)
{
    if (pccl_address_is_loopback(address))
        return PCCL_OK;
    if (pages->http.keys && takes_commands(pages))
        return PCCL_OK;
    if (pages->http.keys) {
        pccl_text_format(reason,
                         "HTTPS at %s: no client could read anything without tokens: add --state DIR and create tokens "
                         "with 'pccl-master token create --role observe', or add --admin-token-file FILE",
                         pccl_address_str(address));
        return PCCL_ARGUMENT;
    }
    pccl_text_format(reason,
                     "HTTP at %s: any host that reaches this address could read the members and activity of the run. "
                     "Add --http-cert FILE and --http-key FILE for HTTPS, use a loopback address, or, if only trusted "
                     "machines can reach it, --insecure",
                     pccl_address_str(address));
    if (!pages->insecure)
        return PCCL_ARGUMENT;
    pccl_logger_print(PCCL_LOG_INFO, "master", "HTTP at %s is unencrypted and readable by any host that can reach it",
                      pccl_address_str(address));
    return PCCL_OK;
}

void pccl_web_print_fingerprint(const struct pccl_web *pages)
{
    char text[PCCL_FINGERPRINT_TEXT + 1];
    if (!pages->http.keys)
        return;
    pccl_keys_fingerprint(pages->http.keys, text);
    pccl_logger_print(PCCL_LOG_INFO, "master", "fingerprint (SHA-256) of the HTTPS certificate: %s", text);
}

enum pccl_status pccl_web_open(struct pccl_web *pages, const struct pccl_host *hosts, uint32_t count,
                               struct pccl_text *reason)
{
    struct pccl_address addresses[PCCL_HTTP_SOCKETS_MAX];
    uint32_t found = pccl_resolve_now(hosts, count, addresses, PCCL_COUNT_OF(addresses), reason);
    if (found == 0)
        return pccl_errors_of_system(UV_EADDRNOTAVAIL);
    for (uint32_t i = 0; i < found; i++) {
        enum pccl_status status = check_public(pages, &addresses[i], reason);
        if (status != PCCL_OK)
            return status;
    }
    pccl_web_print_fingerprint(pages);
#if UV_VERSION_HEX >= 0x012700
    (void)uv_loop_configure(pages->http.loop, UV_METRICS_IDLE_TIME);
#endif
    pages->http.memory = pccl_heap();
    uint64_t boot;
    if (!pccl_random_u64(&boot)) {
        pccl_text_format(reason, "the system provides no random numbers");
        return PCCL_INTERNAL;
    }
    pccl_changes_init(&pages->changes, pccl_heap(), boot);
    (void)uv_timer_init(pages->http.loop, &pages->wake);
    size_t length = sizeof pages->machine;
    if (uv_os_gethostname(pages->machine, &length) == 0)
        pages->host_names[pages->host_name_count++] = pages->machine;
    int error = pccl_http_open(&pages->http, addresses, found, reason);
    return error ? pccl_errors_of_system(error) : PCCL_OK;
}

void pccl_web_close(struct pccl_web *pages)
{
    if (pages->changes.memory != NULL)
        uv_close((uv_handle_t *)&pages->wake, NULL);
    pccl_changes_fini(&pages->changes);
    pccl_http_close(&pages->http);
    for (uint32_t kind = 0; kind < PCCL_PAGE_KINDS; kind++) {
        struct pccl_page *page = &pages->pages[kind];
        pccl_figures_fini(&page->figures);
        drop_body(page);
        page->wanted = page->making = false;
    }
}
