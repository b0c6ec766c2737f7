/* SPDX-License-Identifier: BSD-3-Clause */
/* The installed configuration with another headroom, as if DPDK had been built with it. */
#pragma GCC system_header
#include_next <rte_config.h>
#undef RTE_PKTMBUF_HEADROOM
#define RTE_PKTMBUF_HEADROOM STRIDE_TEST_HEADROOM
