// SPDX-License-Identifier: BSD-3-Clause
/// A striding receive queue over the fake HCA, packets with a content that gives them away, and checks that
/// nothing is left at the end.
#pragma once

#include "fake_hca.hpp"

#include "mprq/stride_pool.hpp"

#include <rte_mbuf.h>

#include <memory>
#include <string>
#include <vector>

namespace stride::mprq::test {

struct QueueSetup {
    std::uint32_t log_stride_bytes{8}, log_strides{4}, log_wqes{2}, spare_wqes{4};
    std::uint32_t max_frame_bytes{2000};
    std::uint32_t mbufs{255};
    std::uint32_t data_room_bytes{2048 + RTE_PKTMBUF_HEADROOM};
    std::uint32_t copy_threshold_bytes{128};
    std::uint32_t headroom_bytes{0};
    std::uint32_t cqe_bytes{64};
    bool always_copy{}, scatter{}, two_byte_shift{};
    bool compressed{};
    const char* pool_ops{}; ///< "stride": log_stride_bytes is that of the pool, if the frames fit its mbufs
    std::uint32_t private_bytes{0}, cache{0};
    RxOffloads offloads{};
};

/// Packet number `n`: every byte depends on n and its place.
inline std::vector<std::byte> frame_of(std::uint32_t n, std::uint32_t bytes) {
    std::vector<std::byte> frame(bytes);
    for (std::uint32_t at = 0; at < bytes; ++at)
        frame[at] = static_cast<std::byte>(n * 131 + at * 7 + (at >> 8));
    return frame;
}

class RxFixture : public ::testing::Test {
  protected:
    void set_up(const QueueSetup& wanted) {
        setup = wanted;
        make_pool();
        if (const BindFit fit = RxQueue::bind_fit(config_without_hca()); fit.stride_bytes != 0)
            setup.log_stride_bytes = RingSize::at_least(fit.stride_bytes).log();
        shape = {.log_stride_bytes = setup.log_stride_bytes,
                 .log_strides = setup.log_strides,
                 .log_wqes = setup.log_wqes,
                 .spare_wqes = setup.spare_wqes,
                 .max_frame_bytes = setup.max_frame_bytes,
                 .two_byte_shift = setup.two_byte_shift};
        hca = std::make_unique<FakeHca>(FakeHca::striding(shape, setup.cqe_bytes));
        Result<RxQueuePtr> made = RxQueue::create_striding(config(), shape, hca->cq_ring, hca->rq_ring);
        ASSERT_TRUE(made.ok()) << made.error().what;
        queue = std::move(made).value();
        ASSERT_TRUE(queue->start().ok());
    }
    RxQueueConfig config() {
        RxQueueConfig config = config_without_hca();
        config.owner = hca->owner();
        return config;
    }
    RxQueueConfig config_without_hca() {
        return {.port_id = 7,
                .queue_id = 3,
                .pool = pool,
                .max_frame_bytes = setup.max_frame_bytes,
                .copy_threshold_bytes = setup.copy_threshold_bytes,
                .headroom_bytes = setup.headroom_bytes,
                .always_copy = setup.always_copy,
                .scatter = setup.scatter,
                .compressed = setup.compressed,
                .offloads = setup.offloads,
                .timestamp_offset = timestamp_offset,
                .timestamp_flag = timestamp_flag};
    }
    void make_pool() {
        static int number = 0;
        pool = rte_pktmbuf_pool_create_by_ops(("rx_test_" + std::to_string(number++)).c_str(), setup.mbufs,
                                              setup.cache, static_cast<std::uint16_t>(setup.private_bytes),
                                              static_cast<std::uint16_t>(setup.data_room_bytes), -1,
                                              setup.pool_ops);
        ASSERT_NE(pool, nullptr);
    }

    static constexpr int timestamp_offset = offsetof(rte_mbuf, dynfield1);
    static constexpr std::uint64_t timestamp_flag = 1ULL << 30;

    std::vector<rte_mbuf*> burst(std::uint16_t wanted = 64) {
        std::vector<rte_mbuf*> packets(wanted);
        packets.resize(queue->burst()(queue.get(), packets.data(), wanted));
        return packets;
    }
    bool send(std::uint32_t n, std::uint32_t bytes) { return hca->receive(frame_of(n, bytes)); }

    static void expect_packet(const rte_mbuf* m, std::uint32_t n, std::uint32_t bytes) {
        ASSERT_EQ(m->pkt_len, bytes) << "packet " << n;
        const std::vector<std::byte> frame = frame_of(n, bytes);
        std::vector<std::byte> scratch(bytes);
        const void* data = rte_pktmbuf_read(m, 0, bytes, scratch.data());
        ASSERT_NE(data, nullptr);
        ASSERT_EQ(std::memcmp(data, frame.data(), bytes), 0) << "packet " << n;
        ASSERT_EQ(m->port, 7);
        const char* reason = nullptr;
        ASSERT_EQ(rte_mbuf_check(m, 1, &reason), 0) << reason;
    }
    static bool is_attached(const rte_mbuf* m) { return RTE_MBUF_HAS_EXTBUF(m); }
    static void free_all(std::vector<rte_mbuf*>& packets) {
        for (rte_mbuf* m : packets)
            rte_pktmbuf_free(m);
        packets.clear();
    }
    void expect_sums_up(std::uint64_t received) const {
        const RxStats stats = queue->stats();
        EXPECT_EQ(stats.attached + stats.direct + stats.copied(), stats.packets);
        EXPECT_EQ(stats.packets + stats.dropped(), received);
    }

    void TearDown() override {
        queue.reset();
        if (pool != nullptr && setup.cache != 0)
            rte_mempool_cache_flush(rte_mempool_default_cache(pool, rte_lcore_id()), pool);
        EXPECT_EQ(StridePool::alive(), 0U) << "a pool of WQE buffers is left";
        if (pool == nullptr) return;
        EXPECT_EQ(rte_mempool_avail_count(pool), setup.mbufs) << "mbufs are missing";
        rte_mempool_free(pool);
    }

    QueueSetup setup{};
    Geometry shape{};
    std::unique_ptr<FakeHca> hca{};
    rte_mempool* pool{};
    RxQueuePtr queue{};
};

} // namespace stride::mprq::test
