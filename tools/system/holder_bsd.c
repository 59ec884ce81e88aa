#include "holder.h"

bool holder_of_port(uint16_t port, char *out, size_t size)
{
    (void)port;
    (void)out;
    (void)size;
    return false;
}
