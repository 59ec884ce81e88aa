/*
 * A master's tokens: its book (ops/token_file.h), the file that stores the book, and the commands that create, list and
 * revoke tokens and rotate the run's token. Runs on the master's thread, except open and close.
 *
 * A use is on disk before the peer receives the answer to its hello, and a revocation is on disk before it is answered.
 * Space for revocations is reserved (os/secret_file.h).
 */
#ifndef PCCL_OPS_TOKENS_H
#define PCCL_OPS_TOKENS_H

#include "ops/token_file.h"
#include "net/keys.h"

struct pccl_tokens;

/* minimum and maximum length in bytes of the admin token, which is not in a book */
enum { PCCL_ADMIN_TOKEN_LEAST = 16, PCCL_ADMIN_TOKEN_MAX = 128 };
enum { PCCL_TOKENS_COMMAND_MAX = 256, PCCL_TOKENS_ANSWER_MAX = 512 << 10 };

/*
 * Creates the tokens without reading or writing files. path: the token file; if "", tokens exist only while the process
 * runs. run: the run's token; if NULL, peers join without tokens. run_path: the file with the run's token; "" if it was
 * derived from a shared secret and there is no file. Returns NULL with a reason if out of memory.
 */
struct pccl_tokens *pccl_tokens_open(const char *path, const struct pccl_token *run, const char *run_path,
                                     struct pccl_text *reason);
/*
 * Reads the token file and writes it back durably. Call at the master's start before the functions below, when no other
 * master uses the file. Adds the run's own token to the book. If it was missing, the run's earlier tokens are revoked;
 * without run_path they are dropped. Returns an error with a reason if the file cannot be used, or if the run's own
 * token cannot be written.
 */
PCCL_MUST_CHECK enum pccl_status pccl_tokens_begin(struct pccl_tokens *tokens, struct pccl_text *reason);
void pccl_tokens_close(struct pccl_tokens *tokens); /* `tokens` may be NULL */

/*
 * Sets the function that calls pccl_tokens_keep for each of the master's peers that used this pass. Call before the
 * first command.
 */
void pccl_tokens_set_peers(struct pccl_tokens *tokens, void (*each)(void *context, uint32_t pass), void *context);
/* Records a peer. peer: the token from its hello. */
void pccl_tokens_keep(struct pccl_tokens *tokens, uint32_t pass, const struct pccl_id *peer);

/* Callback for pccl_keys_set_judge. Its context is the tokens. */
enum pccl_keys_verdict pccl_tokens_judge(void *tokens, const uint8_t key[PCCL_PUBLIC_BYTES]);
/*
 * Checks whether a peer with this key may join. peer: the token from its hello. Sets *pass to the number of its token,
 * even if it may not join. After OK, *reason contains "number 2 (its label)"; otherwise, why it may not join.
 */
PCCL_MUST_CHECK enum pccl_status pccl_tokens_admit(struct pccl_tokens *tokens, const uint8_t key[PCCL_PUBLIC_BYTES],
                                                   const struct pccl_id *peer, uint32_t *pass,
                                                   struct pccl_text *reason);
/*
 * Checks whether a token that was received over HTTP permits this role. If it does not, returns an error with a
 * sentence as the reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_tokens_show(struct pccl_tokens *tokens, const char *text, enum pccl_role role,
                                                  struct pccl_text *reason);
/*
 * Writes the file durably if the book has changed; after a failure, at most once a second. Call once per iteration of
 * the loop, before its output is sent. `tokens` may be NULL.
 */
void pccl_tokens_save(struct pccl_tokens *tokens);
/*
 * Executes a command: "create ROLE TTL_S USES LABEL", "list", "list json", "revoke NUMBER-OR-LABEL" or "rotate
 * KEEP_S", which creates a new token of the run and lets the old one expire after that time. The answer begins with the
 * line "ok" or "no". Sets *revoked to the number of a token whose peers must leave now, or 0.
 */
void pccl_tokens_command(struct pccl_tokens *tokens, const char *command, struct pccl_print *answer, uint32_t *revoked);

#endif
