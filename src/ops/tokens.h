/*
 * A master's tokens: its book (ops/token_file.h), the file that keeps it, and the commands from outside: to make, list
 * and revoke tokens, and to change the run's token. On the master's thread, except for open and close.
 *
 * A use is on disk before its peer receives the answer to its hello, and a revocation before it is answered. Space
 * for revocations is reserved (os/secret_file.h).
 */
#ifndef PCCL_OPS_TOKENS_H
#define PCCL_OPS_TOKENS_H

#include "ops/token_file.h"
#include "net/keys.h"

struct pccl_tokens;

enum { PCCL_ADMIN_TOKEN_LEAST = 16, PCCL_ADMIN_TOKEN_MAX = 128 }; /* bytes of the one that is not in a book */
enum { PCCL_TOKENS_COMMAND_MAX = 256, PCCL_TOKENS_ANSWER_MAX = 256 << 10 };

/*
 * path: of the file, or "": tokens last as long as the process. run: the run's token; NULL: peers join without
 * tokens. run_path: of the file with the run's token; "": there is no file, because the token is made from a
 * shared secret. Reads and writes no file. Returns NULL with a reason if memory is short.
 */
struct pccl_tokens *pccl_tokens_open(const char *path, const struct pccl_token *run, const char *run_path,
                                     struct pccl_text *reason);
/*
 * At the master's start, before all that follows, when no other master uses the file: reads it and writes it, lasting.
 * The run's own token is in the book afterward. If it was not, earlier ones of the run are revoked; without run_path
 * they are forgotten. Not OK, with a reason: the file cannot be used, or the run's own token cannot be written.
 */
PCCL_MUST_CHECK enum pccl_status pccl_tokens_begin(struct pccl_tokens *tokens, struct pccl_text *reason);
void pccl_tokens_close(struct pccl_tokens *tokens); /* NULL: none */

/* Before commands: `each` calls pccl_tokens_keep for each peer of the master that used this pass. */
void pccl_tokens_set_peers(struct pccl_tokens *tokens, void (*each)(void *context, uint32_t pass), void *context);
/* peer: the token of its hello. */
void pccl_tokens_keep(struct pccl_tokens *tokens, uint32_t pass, const struct pccl_id *peer);

/* For pccl_keys_set_judge; the context is the tokens. */
enum pccl_keys_verdict pccl_tokens_judge(void *tokens, const uint8_t key[PCCL_PUBLIC_BYTES]);
/*
 * A peer with this key says hello; peer: the token of the hello. *pass: the number of its token, also if it may not
 * come in. OK: the reason has "number 2 (its label)". Not OK, with a reason: it may not.
 */
PCCL_MUST_CHECK enum pccl_status pccl_tokens_admit(struct pccl_tokens *tokens, const uint8_t key[PCCL_PUBLIC_BYTES],
                                                   const struct pccl_id *peer, uint32_t *pass,
                                                   struct pccl_text *reason);
/*
 * Checks that the text of a token, received over HTTP, permits this role. If not, returns the reason as a
 * sentence.
 */
PCCL_MUST_CHECK enum pccl_status pccl_tokens_show(struct pccl_tokens *tokens, const char *text, enum pccl_role role,
                                                  struct pccl_text *reason);
/*
 * Writes the file, lasting, if it is behind, at most once a second while that fails. Once for each turn of the loop,
 * before its output is sent. NULL: does nothing.
 */
void pccl_tokens_save(struct pccl_tokens *tokens);
/*
 * Carries out a command: "create ROLE TTL_S USES LABEL", "list", "revoke NUMBER-OR-LABEL" or "rotate KEEP_S", which
 * makes another token of the run and ends the former one after that time. The answer begins with the line "ok" or "no".
 * *revoked: the number of the token whose peers must go now; 0: none.
 */
void pccl_tokens_command(struct pccl_tokens *tokens, const char *command, struct pccl_print *answer, uint32_t *revoked);

#endif
