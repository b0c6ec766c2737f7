// SPDX-License-Identifier: BSD-3-Clause
/// What freeing an attached packet calls. Alone in its file: the way to a thread's variables that is fastest
/// and safe however DPDK was loaded (TLS descriptors) does not leave vector registers alone in every version
/// of the C library (glibc bug 31372), and here are none.
#include "mprq/stride_pool.hpp"

namespace stride::mprq {

void StridePool::packet_freed(void*, void* share_of_packet) noexcept {
    auto* share = static_cast<StrideShare*>(share_of_packet);
    rte_mbuf_ext_refcnt_set(&share->info, 1);
    share->buffer->counts->add(share->buffer->number, 1);
}

} // namespace stride::mprq
