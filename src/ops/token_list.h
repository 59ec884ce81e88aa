/* The list of tokens, for people and for programs. */
#ifndef PCCL_OPS_TOKEN_LIST_H
#define PCCL_OPS_TOKEN_LIST_H

#include "ops/token_file.h"

/* Prints a line for each token. */
void pccl_token_list(const struct pccl_token_file *book, uint64_t now_s, struct pccl_print *print);
/* Writes a JSON array with an object for each token. Times are seconds since 1970. */
void pccl_token_list_json(const struct pccl_token_file *book, uint64_t now_s, struct pccl_print *print);

#endif
