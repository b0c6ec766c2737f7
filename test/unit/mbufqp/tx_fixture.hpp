// SPDX-License-Identifier: BSD-3-Clause
/// A send queue on a fake HCA, a pool, and mbufs with known bytes.
#pragma once

#include "fake_hca.hpp"
#include "mbufqp/encap/encaps.hpp"
#include "mbufqp/tx_queue.hpp"

#include <gtest/gtest.h>

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stride::test {

using mbufqp::TxFeature;
using mbufqp::TxFeatures;
using mbufqp::TxQueue;
using Bytes = std::vector<std::uint8_t>;

struct QueueOptions {
    TxFeatures features{};
    unsigned log_wqebbs{6};
    unsigned log_cqes{6};
    std::uint32_t cqe_bytes{64};
    std::uint32_t mbufs{64};
    std::uint32_t min_inline_bytes{};
    std::uint32_t inline_max_bytes{};
    std::uint32_t max_frame_bytes{9618};
    std::uint32_t max_tso_bytes{262144};
    mbufqp::EncapKind encap{};
    const void* encap_context{};
};

class TxFixture : public ::testing::Test {
  protected:
    static constexpr unsigned pool_mbufs = 2047;

    void SetUp() override {
        static int number;
        const std::string name = "tx" + std::to_string(number++);
        pool_ = rte_pktmbuf_pool_create(name.c_str(), pool_mbufs, 32, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
                                        SOCKET_ID_ANY);
        ASSERT_NE(pool_, nullptr);
    }
    void TearDown() override {
        queue_.reset();
        if (hca_ != nullptr) {
            EXPECT_EQ(hca_->broken(), "");
        }
        expect_pool_full();
        rte_mempool_free(pool_);
    }

    /// A new queue; the one before must be idle.
    void open(const QueueOptions& options) {
        queue_.reset();
        hca_ = std::make_unique<FakeHca>(options.log_wqebbs, options.log_cqes, options.cqe_bytes);
        rte_mempool_mem_iter(
            pool_,
            [](rte_mempool*, void* hca, rte_mempool_memhdr* chunk, unsigned) {
                static_cast<FakeHca*>(hca)->add_key(chunk->addr, chunk->len);
            },
            hca_.get());
        mbufqp::TxQueueConfig config;
        config.sq = hca_->sq();
        config.cq = hca_->cq();
        config.mbufs = options.mbufs;
        config.features = options.features;
        config.min_inline_bytes = options.min_inline_bytes;
        config.inline_max_bytes = options.inline_max_bytes;
        config.max_tso_bytes = options.max_tso_bytes;
        config.max_frame_bytes = options.max_frame_bytes;
        config.encap = mbufqp::encap_shape_of(options.encap);
        config.encap_context = options.encap_context;
        hca_->set_address_ds(config.encap.address_ds);
        config.keys = {&TxFixture::find_key, this, &generation_};
        config.recovery = {&TxFixture::recover, this};
        auto made = TxQueue::create(config);
        ASSERT_TRUE(made.ok()) << made.error().what;
        queue_ = std::move(made).value();
        burst_ = mbufqp::encap_burst(options.encap, queue_->features());
    }

    std::uint16_t put(rte_mbuf** mbufs, std::size_t count) {
        return burst_(queue_.get(), mbufs, static_cast<std::uint16_t>(count));
    }
    std::uint16_t put(std::vector<rte_mbuf*> mbufs) { return put(mbufs.data(), mbufs.size()); }

    /// `bytes` bytes that depend on `seed` and position, spread over `segments` mbufs as evenly as goes.
    rte_mbuf* packet(std::uint32_t bytes, std::uint8_t seed = 1, std::uint32_t segments = 1) {
        rte_mbuf* head = nullptr;
        rte_mbuf* last = nullptr;
        std::uint32_t at = 0;
        for (std::uint32_t i = 0; i < segments; ++i) {
            rte_mbuf* seg = rte_pktmbuf_alloc(pool_);
            EXPECT_NE(seg, nullptr);
            const std::uint32_t end = static_cast<std::uint32_t>(std::uint64_t{bytes} * (i + 1) / segments);
            seg->data_len = static_cast<std::uint16_t>(end - at);
            auto* data = rte_pktmbuf_mtod(seg, std::uint8_t*);
            for (; at < end; ++at)
                *data++ = byte_at(seed, at);
            if (head == nullptr)
                head = seg;
            else
                last->next = seg;
            last = seg;
        }
        head->nb_segs = static_cast<std::uint16_t>(segments);
        head->pkt_len = bytes;
        return head;
    }
    std::vector<rte_mbuf*> packets(std::size_t count, std::uint32_t bytes = 64) {
        std::vector<rte_mbuf*> mbufs;
        for (std::size_t i = 0; i < count; ++i)
            mbufs.push_back(packet(bytes, static_cast<std::uint8_t>(i)));
        return mbufs;
    }
    static std::uint8_t byte_at(std::uint8_t seed, std::uint32_t at) {
        return static_cast<std::uint8_t>(seed * 31 + at * 7 + (at >> 8));
    }
    static Bytes content(std::uint32_t bytes, std::uint8_t seed = 1) {
        Bytes out;
        for (std::uint32_t i = 0; i < bytes; ++i)
            out.push_back(byte_at(seed, i));
        return out;
    }

    /// Everything posted is executed and freed.
    void finish() {
        hca_->execute();
        queue_->done_cleanup(0);
        hca_->execute();
        queue_->done_cleanup(0);
        EXPECT_EQ(queue_->in_flight(), 0U);
    }
    void expect_pool_full() { EXPECT_EQ(rte_mempool_avail_count(pool_), pool_mbufs); }
    unsigned held() const { return rte_mempool_in_use_count(pool_); }

    static bool find_key(void* context, std::uintptr_t address, ibv::KeyEntry& entry) noexcept {
        auto& self = *static_cast<TxFixture*>(context);
        ++self.key_lookups_;
        for (const auto& [lkey, range] : self.hca_->keys()) {
            if (address - range.base >= range.bytes) continue;
            entry = {{range.base, range.bytes}, be32{lkey}};
            return true;
        }
        return false;
    }
    static bool recover(void* context) noexcept {
        auto& self = *static_cast<TxFixture*>(context);
        ++self.recoveries_tried_;
        if (self.recovery_fails_) return false;
        self.hca_->reset();
        return true;
    }

    rte_mempool* pool_{};
    std::unique_ptr<FakeHca> hca_{};
    mbufqp::TxQueuePtr queue_{};
    mbufqp::TxBurst burst_{};
    std::atomic<std::uint32_t> generation_{0};
    unsigned key_lookups_{}, recoveries_tried_{};
    bool recovery_fails_{};
};

} // namespace stride::test
