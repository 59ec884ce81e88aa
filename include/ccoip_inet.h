/* Network addresses as plain structs. Their layout is part of the ABI. */
#ifndef CCOIP_INET_H
#define CCOIP_INET_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ccoip_inet_protocol_t {
    inetIPv4 = 0, /* also the value in a zeroed address */
    inetIPv6 = 1
} ccoip_inet_protocol_t;

typedef struct ccoip_ipv4_address_t {
    uint8_t data[4]; /* network order: 127.0.0.1 is {127, 0, 0, 1} */
} ccoip_ipv4_address_t;

typedef struct ccoip_ipv6_address_t {
    uint8_t data[16]; /* network order */
} ccoip_ipv6_address_t;

/* An address of one of two protocols: `protocol` selects the member, the other member is ignored. */
typedef struct ccoip_inet_address_t {
    ccoip_inet_protocol_t protocol;
    ccoip_ipv4_address_t ipv4;
    ccoip_ipv6_address_t ipv6;
} ccoip_inet_address_t;

typedef struct ccoip_socket_address_t {
    ccoip_inet_address_t inet;
    uint16_t port; /* host order */
} ccoip_socket_address_t;

#ifdef __cplusplus
}
#endif

#endif
