/* Requests pages from a running master over HTTP or HTTPS, for the commands that show a run. */
#ifndef PCCL_TOOLS_MASTER_CLIENT_H
#define PCCL_TOOLS_MASTER_CLIENT_H

#include <stdbool.h>

struct client_options {
    const char *address; /* with or without https://; NULL: the default */
    const char *token_file, *authority, *fingerprint;
};

/* Prints the help for the options of HTTPS. */
void client_print_help(void);
/* Returns the field for an option's value, or NULL for any other option. */
const char **client_option(struct client_options *options, const char *option);

/* Prints wrong usage of a command to standard error. Returns the exit status. */
int client_usage_error(const char *command, const char *words, const char *about);

struct client;

/*
 * Returns a client, or NULL after a message on standard error that begins with the command's name. *status is then the
 * exit status: 2 for wrong usage, 1 for an unusable file. The options' strings are borrowed.
 */
struct client *client_create(const char *command, const struct client_options *options, int *status);
void client_destroy(struct client *client);
/* Sets a function that is called often while a request waits; the request fails when it returns true. */
void client_set_stop(struct client *client, bool (*stops)(void *context), void *context);
/*
 * Requests a path. Returns the body as text without control characters, which is valid until the next call, or NULL if
 * the master does not answer.
 */
const char *client_get(struct client *client, const char *path);
/* Returns the reason why the last request failed. */
const char *client_reason(const struct client *client);
/* Prints a page to standard output, or the reason of the failure to standard error. Returns the exit status. */
int client_print(struct client *client, const char *command, const char *path);

#endif
