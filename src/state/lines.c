#include "state/lines.h"

#include <string.h>

/* Writes the end of a long name, which is more specific than its beginning, with unprintable characters replaced. */
static struct pccl_bytes write_name(const char *name, char *out)
{
    struct pccl_text printable;
    pccl_text_format(&printable, "%s", name);
    uint32_t cut = printable.length > PCCL_TENSOR_NAME_MAX ? printable.length - PCCL_TENSOR_NAME_MAX : 0;
    while (cut > 0 && pccl_text_character(printable.bytes + cut, printable.length - cut) == 0)
        cut++; /* do not begin in the middle of a character */
    memcpy(out, printable.bytes + cut, printable.length - cut);
    return (struct pccl_bytes){(const uint8_t *)out, printable.length - cut};
}

void pccl_tensor_lines_init(struct pccl_tensor_lines *lines, const struct pccl_state *state)
{
    uint32_t count = (uint32_t)pccl_min_u64(state->tensor_count, PCCL_TENSORS_DESCRIBED_MAX);
    *lines = (struct pccl_tensor_lines){.count = count};
    if (count == 0)
        return;
    lines->lines = pccl_allocate(&state->memory, count * sizeof *lines->lines);
    lines->names = pccl_allocate(&state->memory, count * sizeof *lines->names);
    if (lines->lines == NULL || lines->names == NULL) {
        pccl_tensor_lines_fini(lines, state);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct pccl_tensor *tensor = &state->tensors[i];
        lines->lines[i] = (struct pccl_tensor_line){.name = write_name(tensor->name, lines->names[i]),
                                                    .datatype = tensor->datatype,
                                                    .unequal = tensor->unequal,
                                                    .count = tensor->count};
    }
}

void pccl_tensor_lines_fini(struct pccl_tensor_lines *lines, const struct pccl_state *state)
{
    pccl_release(&state->memory, lines->lines, lines->count * sizeof *lines->lines);
    pccl_release(&state->memory, lines->names, lines->count * sizeof *lines->names);
    *lines = (struct pccl_tensor_lines){0};
}
