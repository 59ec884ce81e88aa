/* The same program as C++: the headers and the linkage are what is tested. */
#include "consumer.c"
