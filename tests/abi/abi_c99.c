/* Compiles only if the headers, as C99 sees them, have the values and layouts of claims.h. */
#include "ccoip.h"
#include "pccl.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
/* C99 has no _Static_assert; an array of -1 elements does not compile. */
#define CLAIM(condition) extern char JOIN(claim_, __LINE__)[(condition) ? 1 : -1]

#define ENUM(type) CLAIM(sizeof(type) == 4);
#define VALUE(name, value) CLAIM((name) == (value));
/* C99 has no alignof; a member behind a char begins where the alignment says. */
#define STRUCT(type, bytes, alignment)                                                                                 \
    CLAIM(sizeof(type) == (bytes) && offsetof(                                                                         \
                                         struct {                                                                      \
                                             char first;                                                               \
                                             type second;                                                              \
                                         },                                                                            \
                                         second) == (alignment));
#define MEMBER(type, name, offset, bytes)                                                                              \
    CLAIM(offsetof(type, name) == (offset) && sizeof(((type *)0)->name) == (bytes));
/* A second declaration must be compatible with the first. */
#define FUNCTION(name, parameters) pcclResult_t name parameters;

#include "claims.h"

/* Sources written for PCCL 1.0 initialize like this. */
pcclCommCreateParams_t claim_params = {
    .master_address = {.inet = {.protocol = inetIPv4, .ipv4 = {{127, 0, 0, 1}}}, .port = CCOIP_PROTOCOL_PORT_MASTER},
    .peer_group = 0,
    .p2p_connection_pool_size = 16,
};
pcclParameterInfo_t claim_info = PCCL_PARAMETER_INFO_INIT;
