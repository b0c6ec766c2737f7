// SPDX-License-Identifier: BSD-3-Clause
/// The C interface over two ports of the software HCA, back to back.
#include "mbufqp.h"

#include <gtest/gtest.h>

#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using Mac = std::array<std::uint8_t, 6>;

/// Sets of one encap on both ports.
class QpTest : public testing::TestWithParam<mbufqp_encap> {
  protected:
    void SetUp() override {
        pool_ = rte_pktmbuf_pool_create("frames", 8191, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
        ASSERT_NE(pool_, nullptr);
        vnic_.vesw_id = 7;
        vnic_.encap_slid = 1;
    }
    void TearDown() override {
        EXPECT_EQ(mbufqp_close(b_), 0);
        EXPECT_EQ(mbufqp_close(a_), 0);
        EXPECT_EQ(rte_mempool_in_use_count(pool_), 0U) << "mbufs are missing after close";
        rte_mempool_free(pool_);
    }

    mbufqp_config config(const char* device) {
        mbufqp_config made{};
        made.device = device;
        made.port = 1;
        made.encap = GetParam();
        made.tx_queues = 4;
        made.rx_queues = 2;
        made.rx_pool = pool_;
        made.promiscuous = 1;
        made.offloads = MBUFQP_MULTI_SEGMENT;
        made.opa_vnic = &vnic_;
        return made;
    }
    void open_both() {
        const mbufqp_config a = config("mlx5_0"), b = config("mlx5_1");
        ASSERT_EQ(mbufqp_open(&a, &a_), 0) << mbufqp_error();
        ASSERT_EQ(mbufqp_open(&b, &b_), 0) << mbufqp_error();
    }
    rte_mbuf* frame(std::uint32_t bytes, std::uint8_t seed) {
        rte_mbuf* mbuf = rte_pktmbuf_alloc(pool_);
        auto* data =
            reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(mbuf, static_cast<std::uint16_t>(bytes)));
        for (std::uint32_t i = 0; i < bytes; ++i)
            data[i] = static_cast<std::uint8_t>(i * 3 + seed);
        const Mac to{0x02, 0, 0, 1, 0, 0}, from{0x02, 0, 0, 2, 0, 0};
        std::memcpy(data, to.data(), 6);
        std::memcpy(data + 6, from.data(), 6);
        data[12] = 0x88;
        data[13] = 0xb5;
        return mbuf;
    }
    /// One frame from `from` at `to`, from any of its queues; nullptr: none in time.
    static rte_mbuf* await(mbufqp* to) {
        for (int i = 0; i < 20000; ++i) {
            for (std::uint16_t queue = 0; queue < mbufqp_rx_queues(to); ++queue) {
                rte_mbuf* got = nullptr;
                if (mbufqp_get(to, queue, &got, 1) == 1) return got;
            }
            std::this_thread::sleep_for(std::chrono::microseconds{100});
        }
        return nullptr;
    }

    rte_mempool* pool_{};
    mbufqp_opa_vnic vnic_{};
    mbufqp *a_{}, *b_{};
};

TEST_P(QpTest, FramesOfEveryLengthArriveOverEverySendQueue) {
    open_both();
    for (std::uint32_t bytes = 60; bytes <= 1514; bytes += 97)
        for (std::uint16_t queue = 0; queue < 4; ++queue) {
            rte_mbuf* sent = frame(bytes, static_cast<std::uint8_t>(queue));
            std::vector<std::uint8_t> expected(bytes);
            std::memcpy(expected.data(), rte_pktmbuf_mtod(sent, void*), bytes);
            ASSERT_EQ(mbufqp_put(a_, queue, &sent, 1), 1U);
            rte_mbuf* got = await(b_);
            ASSERT_NE(got, nullptr) << bytes;
            ASSERT_EQ(got->pkt_len, bytes);
            EXPECT_EQ(std::memcmp(rte_pktmbuf_mtod(got, void*), expected.data(), bytes), 0);
            rte_pktmbuf_free(got);
        }
    mbufqp_stats sent, received;
    mbufqp_get_stats(a_, UINT16_MAX, &sent);
    mbufqp_get_stats(b_, UINT16_MAX, &received);
    EXPECT_EQ(sent.tx_packets, 15U * 4);
    EXPECT_EQ(received.rx_packets, sent.tx_packets);
    EXPECT_EQ(received.rx_dropped, 0U);
}

TEST_P(QpTest, NotifyBringsOneEventForAPacket) {
    struct Seen {
        std::atomic<unsigned> events{0};
    } seen;
    const mbufqp_config a = config("mlx5_0");
    mbufqp_config b = config("mlx5_1");
    b.rx_queues = 1;
    b.event_arg = &seen;
    b.event = [](void* arg, mbufqp*, unsigned event, std::uint16_t) {
        if (event == MBUFQP_EVENT_READ) ++static_cast<Seen*>(arg)->events;
    };
    ASSERT_EQ(mbufqp_open(&a, &a_), 0) << mbufqp_error();
    ASSERT_EQ(mbufqp_open(&b, &b_), 0) << mbufqp_error();
    EXPECT_EQ(mbufqp_notify(a_, 0, MBUFQP_EVENT_READ), -EINVAL) << "opened without a callback";
    EXPECT_EQ(mbufqp_notify(b_, 9, MBUFQP_EVENT_READ), -EINVAL);
    for (unsigned round = 1; round <= 20; ++round) {
        ASSERT_EQ(mbufqp_notify(b_, 0, MBUFQP_EVENT_READ), 0);
        rte_mbuf* sent = frame(64, 0);
        ASSERT_EQ(mbufqp_put(a_, 0, &sent, 1), 1U);
        for (int i = 0; i < 20000 && seen.events < round; ++i)
            std::this_thread::sleep_for(std::chrono::microseconds{100});
        ASSERT_EQ(seen.events, round);
        EXPECT_EQ(mbufqp_read_avail(b_, 0), 1U);
        EXPECT_EQ(mbufqp_notify(b_, 0, MBUFQP_EVENT_READ), 1) << "it is there already";
        rte_pktmbuf_free(await(b_));
    }
    EXPECT_EQ(mbufqp_notify(b_, 0, MBUFQP_EVENT_WRITE), 1) << "there is room";
}

TEST_P(QpTest, SetsThatShareAreTiedToTheirOwner) {
    open_both();
    mbufqp_config child = config("mlx5_0");
    child.share = a_;
    child.rx_queues = 0;
    child.tx_queues = 8;
    mbufqp* shared = nullptr;
    EXPECT_EQ(mbufqp_open(&child, &shared), -EINVAL);
    EXPECT_NE(std::string{mbufqp_error()}.find("8 send queues"), std::string::npos) << mbufqp_error();
    child.tx_queues = 2;
    ASSERT_EQ(mbufqp_open(&child, &shared), 0) << mbufqp_error();
    EXPECT_EQ(mbufqp_close(a_), -EBUSY);
    rte_mbuf* sent = frame(64, 1);
    ASSERT_EQ(mbufqp_put(shared, 1, &sent, 1), 1U);
    rte_mbuf* got = await(b_);
    ASSERT_NE(got, nullptr);
    rte_pktmbuf_free(got);
    child.device = "mlx5_1";
    mbufqp* elsewhere = nullptr;
    EXPECT_EQ(mbufqp_open(&child, &elsewhere), -EINVAL);
    EXPECT_EQ(mbufqp_close(shared), 0);
}

TEST_P(QpTest, WhatCannotBeIsRefusedByName) {
    const auto error = [&](auto change) {
        mbufqp_config bad = config("mlx5_0");
        change(bad);
        mbufqp* qp = nullptr;
        const int code = mbufqp_open(&bad, &qp);
        EXPECT_LT(code, 0);
        EXPECT_EQ(qp, nullptr);
        return std::string{mbufqp_error()};
    };
    EXPECT_NE(error([](mbufqp_config& c) { c.device = "nobody"; }).find("nobody"), std::string::npos);
    EXPECT_NE(error([](mbufqp_config& c) { c.port = 9; }).find("no port 9"), std::string::npos);
    EXPECT_NE(error([](mbufqp_config& c) { c.tx_queues = 0; }).find("0 send"), std::string::npos);
    EXPECT_NE(error([](mbufqp_config& c) { c.rx_pool = nullptr; }).find("pool"), std::string::npos);
    EXPECT_NE(error([](mbufqp_config& c) { c.mtu = 20000; }).find("MTU 20000"), std::string::npos);
    EXPECT_NE(error([](mbufqp_config& c) { c.encap = MBUFQP_IPOIB, c.rx_queues = 1; }).find("InfiniBand"),
              std::string::npos);
}

TEST_P(QpTest, FlowsStayOnTheirQueue) {
    open_both();
    std::vector<unsigned> hits(4);
    for (std::uint8_t seed = 0; seed < 200; ++seed) {
        rte_mbuf* mbuf = frame(64, seed);
        std::memcpy(rte_pktmbuf_mtod_offset(mbuf, std::uint8_t*, 6), &seed, 1);
        const std::uint16_t queue = mbufqp_select_queue(a_, mbuf);
        ASSERT_LT(queue, 4U);
        EXPECT_EQ(queue, mbufqp_select_queue(a_, mbuf));
        ++hits[queue];
        rte_pktmbuf_free(mbuf);
    }
    for (const unsigned count : hits)
        EXPECT_GT(count, 10U);
}

INSTANTIATE_TEST_SUITE_P(OverAnEthernetWire, QpTest, testing::Values(MBUFQP_ETHERNET, MBUFQP_OPA_VNIC),
                         [](const auto& set) {
                             return std::string{set.param == MBUFQP_ETHERNET ? "Ethernet" : "OpaVnic"};
                         });

} // namespace
