/*
 * The pages of a master over HTTP, made from a snapshot of its state machine. A page is made in slices, one per
 * iteration of the loop, and is sent to all clients that request it within a short time, so that the number of clients
 * cannot slow the master down.
 */
#ifndef PCCL_OPS_WEB_H
#define PCCL_OPS_WEB_H

#include "master/figures.h"
#include "ops/changes.h"
#include "ops/events.h"
#include "ops/http_server.h"
#include "ops/tokens.h"

/*
 * Pages that are made from figures. CHANGES is JSON with `since` (changes.h). Clients that wait for a page wait with
 * its number plus 1.
 */
enum pccl_page_kind { PCCL_PAGE_METRICS, PCCL_PAGE_JSON, PCCL_PAGE_TEXT, PCCL_PAGE_CHANGES, PCCL_PAGE_KINDS };

enum { PCCL_HTTP_HOST_NAMES_MAX = 5 };

struct pccl_page {
    struct pccl_figures figures; /* valid while the page is being made */
    struct pccl_http_body *body; /* NULL if there was no recent request */
    uint64_t taken_us;           /* time at which the figures were taken */
    uint64_t cost_us;            /* time that the loop has spent on making the page */
    uint32_t at;                 /* number of the next item */
    bool wanted, making;
    bool waited; /* CHANGES: true if clients wait for the answer after the one in progress */
};

struct pccl_web {
    struct pccl_http_server http;
    /*
     * Set by the owner before pccl_web_open. `tokens` may be NULL, `token` may be empty. Addresses that other machines
     * can reach use HTTPS and require one of these tokens; with `insecure` they use HTTP and require none.
     */
    struct pccl_tokens *tokens;
    bool insecure;
    char token[PCCL_ADMIN_TOKEN_MAX + 1];
    /* Host names from which a page may be requested: the hosts of the configured addresses, and the machine's name. */
    const char *host_names[PCCL_HTTP_HOST_NAMES_MAX];
    uint32_t host_name_count;
    char machine[UV_MAXHOSTNAMESIZE];
    const struct pccl_events *events; /* set by the owner */
    struct pccl_page pages[PCCL_PAGE_KINDS];
    struct pccl_changes changes;
    uint64_t since;    /* earliest revision that is known to the clients that wait for the next answer about changes */
    uint64_t answered; /* revision with which the last one, or the one in progress, was compared */
    uint32_t turn;     /* number of answers about changes so far */
    uv_timer_t wake;   /* wakes the loop when the next one may begin */
    struct pccl_link_blocks blocks;
    struct pccl_http_visitor *commander; /* client whose command is being executed */
    /* Time for which the loop is busy, per iteration and in windows of PCCL_LAG_WINDOW_US. */
    uint64_t turn_us, waited_ns, busy_us, longest_us, longest_before_us, window_us;
};

/* Reads the admin token from a file, which must be readable by this user only. */
PCCL_MUST_CHECK enum pccl_status pccl_web_read_token(const char *path, char token[PCCL_ADMIN_TOKEN_MAX + 1],
                                                     struct pccl_text *reason);

enum { PCCL_LAG_WINDOW_US = 10000000 };

/*
 * Listens on these addresses. The struct must be zeroed, except for loop, hash and keys in http and the fields set by
 * the owner. On failure returns an error with a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_web_open(struct pccl_web *pages, const struct pccl_host *hosts, uint32_t count,
                                               struct pccl_text *reason);
/* Logs the fingerprint of the certificate, if there is one, so that users can compare it. */
void pccl_web_print_fingerprint(const struct pccl_web *pages);
void pccl_web_close(struct pccl_web *pages);
static inline bool pccl_web_are_open(const struct pccl_web *pages) { return pages->http.is_open; }
/* Records how long the loop was busy. Call when the loop is about to wait. */
void pccl_web_note_turn(struct pccl_web *pages, uv_loop_t *loop, uint64_t now_us);
/*
 * Answers requests, except those for pages made from figures. Returns true for a permitted command, which the caller
 * must answer before the next call, and false if there are no more requests. Call it in each iteration of the loop.
 */
PCCL_MUST_CHECK bool pccl_web_next_command(struct pccl_web *pages, enum pccl_master_command *command,
                                           struct pccl_id *peer);
void pccl_web_answer_command(struct pccl_web *pages, const struct pccl_master_answer *answer);
/*
 * Makes a slice of a requested page from the machine's state and the driver's figures; fills in the figures about HTTP
 * and the loop. Call in each iteration of the loop, after the machine's last step. Returns true if more work will
 * follow soon.
 */
PCCL_MUST_CHECK bool pccl_web_work(struct pccl_web *pages, struct pccl_master *machine,
                                   const struct pccl_driver_figures *driver, uint64_t now_us);

#endif
