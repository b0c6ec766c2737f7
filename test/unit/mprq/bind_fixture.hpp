// SPDX-License-Identifier: BSD-3-Clause
/// A bound queue, and what its pool must be like when it is gone.
#pragma once

#include "rx_fixture.hpp"

#include "mprq/bind_pool.hpp"

#include <rte_mempool.h>

#include <cstdint>
#include <set>
#include <vector>

namespace stride::mprq::test {

class BindPoolTest : public RxFixture {
  protected:
    /// 2 KiB slots, two colours, frames up to 1600 bytes.
    static QueueSetup bound(std::uint32_t log_strides = 4) {
        return {.log_strides = log_strides,
                .max_frame_bytes = 1522,
                .mbufs = 511,
                .data_room_bytes = 1792,
                .copy_threshold_bytes = 0,
                .pool_ops = "stride"};
    }
    void stop_and_destroy() {
        hca->reset();
        queue->stop();
        queue.reset();
    }
    /// All mbufs are available, can be had at once, and are good.
    void expect_whole() {
        EXPECT_EQ(rte_mempool_avail_count(pool), setup.mbufs);
        std::vector<rte_mbuf*> all(setup.mbufs);
        void** const objects = reinterpret_cast<void**>(all.data());
        ASSERT_EQ(rte_mempool_get_bulk(pool, objects, setup.mbufs), 0);
        for (rte_mbuf* m : all)
            EXPECT_TRUE(is_bound(m));
        EXPECT_EQ(std::set<rte_mbuf*>(all.begin(), all.end()).size(), setup.mbufs);
        rte_mempool_put_bulk(pool, objects, setup.mbufs);
        std::set<rte_mbuf*> listed;
        const auto note = [](rte_mempool*, void* seen, void* object, unsigned) {
            static_cast<std::set<rte_mbuf*>*>(seen)->insert(static_cast<rte_mbuf*>(object));
        };
        EXPECT_EQ(rte_mempool_obj_iter(pool, note, &listed), setup.mbufs);
        EXPECT_EQ(listed, std::set<rte_mbuf*>(all.begin(), all.end()));
    }
    bool is_bound(const rte_mbuf* m) const {
        const auto data = reinterpret_cast<std::uintptr_t>(m) + sizeof(rte_mbuf) + setup.private_bytes;
        return RTE_MBUF_DIRECT(m) && reinterpret_cast<std::uintptr_t>(m->buf_addr) == data && m->pool == pool;
    }
};

} // namespace stride::mprq::test
