/*
 * The pages of a master over HTTP, made from a snapshot of its machine. A page is made in slices, one in each turn
 * of the loop, and is sent to all visitors that want it within a short time, so that no number of visitors slows
 * the master down.
 */
#ifndef PCCL_OPS_WEB_H
#define PCCL_OPS_WEB_H

#include "master/figures.h"
#include "ops/http_server.h"
#include "ops/tokens.h"

/* Pages that are made of figures; for visitors the number behind it. */
enum pccl_page_kind { PCCL_PAGE_METRICS, PCCL_PAGE_JSON, PCCL_PAGE_TEXT, PCCL_PAGE_KINDS };

enum { PCCL_HTTP_HOST_NAMES_MAX = 5 };

struct pccl_page {
    struct pccl_figures figures; /* while it is made */
    struct pccl_http_body *body; /* NULL: there was no recent request */
    uint64_t taken_us;           /* when the figures were */
    uint64_t cost_us;            /* how long it took the loop to make it */
    uint32_t at;                 /* the next item */
    bool wanted, making;
};

struct pccl_web {
    struct pccl_http_server http;
    /*
     * The owner sets these before open. `tokens` may be NULL, `token` may be empty. Addresses beyond this machine use
     * HTTPS and require one of these tokens; with `insecure` they use HTTP and require none.
     */
    struct pccl_tokens *tokens;
    bool insecure;
    char token[PCCL_ADMIN_TOKEN_MAX + 1];
    /* Host names of the addresses, as they were given, then the machine's: a page may come from there, too. */
    const char *host_names[PCCL_HTTP_HOST_NAMES_MAX];
    uint32_t host_name_count;
    char machine[UV_MAXHOSTNAMESIZE];
    struct pccl_page pages[PCCL_PAGE_KINDS];
    struct pccl_http_visitor *commander; /* whose command is being carried out */
    /* Times in which the loop does not wait, in turns and in windows of PCCL_LAG_WINDOW_US. */
    uint64_t turn_us, waited_ns, busy_us, longest_us, longest_before_us, window_us;
};

/* The token of those who may command a master over HTTP, from a file that only this user may read. */
PCCL_MUST_CHECK enum pccl_status pccl_web_read_token(const char *path, char token[PCCL_ADMIN_TOKEN_MAX + 1],
                                                     struct pccl_text *reason);

enum { PCCL_LAG_WINDOW_US = 10000000 };

/*
 * Listens at these addresses. The struct is zeroed except for loop, hash and keys in http and the owner's fields.
 * Not OK, with a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_web_open(struct pccl_web *pages, const struct pccl_host *hosts, uint32_t count,
                                               struct pccl_text *reason);
/* Logs the fingerprint of the certificate, if there is one, for comparison. */
void pccl_web_print_fingerprint(const struct pccl_web *pages);
void pccl_web_close(struct pccl_web *pages);
static inline bool pccl_web_are_open(const struct pccl_web *pages) { return pages->http.is_open; }
/* The loop is about to wait: notes for how long it did something else. */
void pccl_web_note_turn(struct pccl_web *pages, uv_loop_t *loop, uint64_t now_us);
/*
 * Answers requests, except for pages made of figures. Returns true for a permitted command, which the caller must
 * answer before the next call; false if no request is left. Call it in each turn of the loop.
 */
PCCL_MUST_CHECK bool pccl_web_next_command(struct pccl_web *pages, enum pccl_master_command *command,
                                           struct pccl_id *peer);
void pccl_web_answer_command(struct pccl_web *pages, const struct pccl_master_answer *answer);
/*
 * In each turn of the loop: makes a slice of a wanted page from the machine's state after its last step and the
 * driver's figures (HTTP and loop are filled in here). Returns true if there is more work soon.
 */
PCCL_MUST_CHECK bool pccl_web_work(struct pccl_web *pages, struct pccl_master *machine,
                                   const struct pccl_driver_figures *driver, uint64_t now_us);

#endif
