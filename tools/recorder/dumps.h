/* Dumps of flight recorders (ops/dump.h), read from files. */
#ifndef PCCL_TOOLS_RECORDER_DUMPS_H
#define PCCL_TOOLS_RECORDER_DUMPS_H

#include "json_read.h"

#include "core/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dumps {
    const struct json_value **list; /* owned */
    size_t count;
};

/*
 * Reads files. Returns false after a message on standard error that begins with the command's name and the file's. The
 * caller frees the dumps in either case. A file whose end is missing is used up to there, after a message.
 */
bool dumps_read(struct dumps *dumps, const char *command, char *const *files, size_t count);
void dumps_free(struct dumps *dumps);

/* Text that identifies an operation, the same for all peers. */
enum { DUMPS_KEY_BYTES = 256 };
void dumps_key(const struct json_value *operation, char key[DUMPS_KEY_BYTES]);
/* Returns the text of a member, which is a number or a string; "" if it is missing. */
const char *dumps_text(const struct json_value *object, const char *member);
/* Writes a peer for messages: its abbreviated id and its name; "the master" for "". */
const char *dumps_peer(const struct dumps *dumps, const char *peer, struct pccl_text *text);

#endif
