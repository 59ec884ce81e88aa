/* Text of the programs' --help, in 80 columns, and suggestions for misspelled words. */
#ifndef PCCL_TOOLS_HELP_H
#define PCCL_TOOLS_HELP_H

#include <stddef.h>

/* An option or a term with its description, or, without a term, a paragraph. */
struct help_row {
    const char *term, *about;
};

/* Prints to standard output. A line break in a description begins a new line. */
void help_print(const struct help_row *rows, size_t count);
void help_print_row(const char *term, const char *about);
/* Returns the name that the word was probably meant to be, or NULL. */
const char *help_closest(const char *word, const char *const *names, size_t count);

#endif
