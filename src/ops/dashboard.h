/* The dashboard page, dashboard.html, which the build embeds in the library (cmake/embed.cmake). */
#ifndef PCCL_OPS_DASHBOARD_H
#define PCCL_OPS_DASHBOARD_H

#include <stddef.h>
#include <stdint.h>

extern const uint8_t pccl_dashboard[];
extern const size_t pccl_dashboard_bytes;

#endif
