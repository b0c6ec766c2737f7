// SPDX-License-Identifier: BSD-3-Clause
#include "mbufqp/eal_memory.hpp"

#include <gtest/gtest.h>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <vector>

namespace stride::mbufqp {
namespace {

constexpr unsigned mbufs = 512;

std::uintptr_t data_of(const rte_mbuf* mbuf) { return reinterpret_cast<std::uintptr_t>(mbuf->buf_addr); }

TEST(EalMemory, OfAnOrdinaryPoolIsFound) {
    rte_mempool* pool = rte_pktmbuf_pool_create("ordinary", mbufs, 0, 0, 2176, SOCKET_ID_ANY);
    ASSERT_NE(pool, nullptr);
    rte_mbuf* mbuf = rte_pktmbuf_alloc(pool);
    ibv::MemoryRange range{};
    ASSERT_TRUE(resolve_eal_memory(nullptr, data_of(mbuf), range));
    EXPECT_TRUE(range.contains(data_of(mbuf)));
    rte_pktmbuf_free(mbuf);
    rte_mempool_free(pool);
}

TEST(EalMemory, OfAPoolOutsideEalIsFoundByItsChunks) {
    rte_mempool* pool = rte_mempool_create_empty("anonymous", mbufs, sizeof(rte_mbuf) + 2176, 0,
                                                 sizeof(rte_pktmbuf_pool_private), SOCKET_ID_ANY, 0);
    ASSERT_NE(pool, nullptr);
    rte_pktmbuf_pool_init(pool, nullptr);
    ASSERT_EQ(rte_mempool_populate_anon(pool), static_cast<int>(mbufs));
    rte_mempool_obj_iter(pool, rte_pktmbuf_init, nullptr);
    std::vector<rte_mbuf*> all(mbufs);
    ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool, all.data(), mbufs), 0);
    for (const rte_mbuf* mbuf : all) {
        ASSERT_EQ(rte_mem_virt2memseg_list(mbuf->buf_addr), nullptr) << "EAL knows it";
        ibv::MemoryRange range{};
        ASSERT_TRUE(resolve_eal_memory(nullptr, data_of(mbuf), range));
        EXPECT_TRUE(range.contains(data_of(mbuf)));
        EXPECT_TRUE(range.contains(data_of(mbuf) + mbuf->buf_len - 1));
    }
    const std::uintptr_t gone = data_of(all[0]);
    rte_pktmbuf_free_bulk(all.data(), mbufs);
    rte_mempool_free(pool);
    ibv::MemoryRange range{};
    EXPECT_FALSE(resolve_eal_memory(nullptr, gone, range)) << "it went with its pool";
}

TEST(EalMemory, OfNobodyIsNotFound) {
    const int here = 0;
    ibv::MemoryRange range{};
    EXPECT_FALSE(resolve_eal_memory(nullptr, reinterpret_cast<std::uintptr_t>(&here), range));
}

} // namespace
} // namespace stride::mbufqp
