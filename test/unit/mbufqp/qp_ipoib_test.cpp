// SPDX-License-Identifier: BSD-3-Clause
/// The C interface over two InfiniBand ports of the software HCA, back to back.
#include "mbufqp.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <rte_mbuf.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

namespace {

using Mac = std::array<std::uint8_t, 6>;
using Gid = std::array<std::uint8_t, 16>;

constexpr Mac broadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

class IpoibQp : public testing::Test {
  protected:
    void SetUp() override {
        pool_ = rte_pktmbuf_pool_create("datagrams", 8191, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
        ASSERT_NE(pool_, nullptr);
        testing::internal::CaptureStderr();
        const mbufqp_config a = config("mlx5_0"), b = config("mlx5_1");
        ASSERT_EQ(mbufqp_open(&a, &a_), 0) << mbufqp_error();
        ASSERT_EQ(mbufqp_open(&b, &b_), 0) << mbufqp_error();
    }
    void TearDown() override {
        EXPECT_EQ(mbufqp_close(b_), 0);
        EXPECT_EQ(mbufqp_close(a_), 0);
        EXPECT_EQ(rte_mempool_in_use_count(pool_), 0U) << "mbufs are missing after close";
        rte_mempool_free(pool_);
        // An object that could not be destroyed is logged there: nothing else would tell.
        const std::string said = testing::internal::GetCapturedStderr();
        EXPECT_EQ(said.find("busy"), std::string::npos) << said;
    }

    mbufqp_config config(const char* device) {
        mbufqp_config made{};
        made.device = device;
        made.port = 1;
        made.encap = MBUFQP_IPOIB;
        made.tx_queues = 4;
        made.rx_queues = 1;
        made.rx_pool = pool_;
        return made;
    }
    static Mac mac_of(mbufqp* qp) {
        Mac mac;
        mbufqp_mac(qp, mac.data());
        return mac;
    }
    bool send(mbufqp* from, std::uint16_t queue, const Mac& to) {
        constexpr std::uint16_t bytes = 100;
        rte_mbuf* mbuf = rte_pktmbuf_alloc(pool_);
        auto* data = reinterpret_cast<std::uint8_t*>(rte_pktmbuf_append(mbuf, bytes));
        std::memset(data, 0x5a, bytes);
        std::memcpy(data, to.data(), to.size());
        data[12] = 0x88;
        data[13] = 0xb5;
        if (mbufqp_put(from, queue, &mbuf, 1) == 1) return true;
        rte_pktmbuf_free(mbuf);
        return false;
    }
    /// Source MAC of the next frame at `to`; zeros: none came.
    static Mac source_of_next(mbufqp* to, int looks = 20000) {
        Mac source{};
        for (int i = 0; i < looks; ++i) {
            rte_mbuf* got = nullptr;
            if (mbufqp_get(to, 0, &got, 1) == 1) {
                std::memcpy(source.data(), rte_pktmbuf_mtod_offset(got, void*, 6), source.size());
                rte_pktmbuf_free(got);
                break;
            }
            std::this_thread::sleep_for(std::chrono::microseconds{100});
        }
        return source;
    }

    rte_mempool* pool_{};
    mbufqp *a_{}, *b_{};
    unsigned steps_{};
};

TEST_F(IpoibQp, EveryQueueSendsUnderTheOneQpn) {
    for (std::uint16_t queue = 0; queue < 4; ++queue) {
        ASSERT_TRUE(send(a_, queue, mac_of(b_)));
        EXPECT_EQ(source_of_next(b_), mac_of(a_)) << "queue " << queue;
    }
}

TEST_F(IpoibQp, CountsTheBytesOfFramesOnBothSides) {
    ASSERT_TRUE(send(a_, 0, mac_of(b_)));
    ASSERT_EQ(source_of_next(b_), mac_of(a_));
    mbufqp_stats sent, received;
    mbufqp_get_stats(a_, UINT16_MAX, &sent);
    mbufqp_get_stats(b_, UINT16_MAX, &received);
    EXPECT_EQ(sent.tx_bytes, 100U);
    EXPECT_EQ(received.rx_bytes, 100U) << "neither GRH nor IPoIB header is the application's";
    EXPECT_EQ(received.rx_packets, 1U);
}

TEST_F(IpoibQp, ReceivesABroadcastOfOthersAndNotItsOwn) {
    ASSERT_TRUE(send(a_, 0, broadcast));
    EXPECT_EQ(source_of_next(b_), mac_of(a_));
    EXPECT_EQ(source_of_next(a_, 50), Mac{});
}

TEST_F(IpoibQp, GroupsJoinedAndNotLeftAreLeftAtTheEnd) {
    const Gid group{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};
    const Gid other{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8};
    EXPECT_EQ(mbufqp_join(a_, group.data(), 0xc007), 0) << mbufqp_error();
    EXPECT_EQ(mbufqp_join(a_, other.data(), 0xc008), 0) << mbufqp_error();
    EXPECT_EQ(mbufqp_leave(a_, other.data(), 0xc008), 0) << mbufqp_error();
    EXPECT_EQ(mbufqp_leave(a_, other.data(), 0xc008), -ENOENT);
}

TEST_F(IpoibQp, AChildMayNotHaveMoreQueuesThanItsParentNorOutliveIt) {
    mbufqp_config child = config("mlx5_0");
    child.share = a_;
    child.rx_queues = 0;
    child.tx_queues = 8;
    mbufqp* shared = nullptr;
    EXPECT_EQ(mbufqp_open(&child, &shared), -EINVAL);
    child.tx_queues = 4;
    child.rx_queues = 1;
    EXPECT_EQ(mbufqp_open(&child, &shared), -EINVAL) << "the parent's receive queues are the parent's";
    child.rx_queues = 0;
    ASSERT_EQ(mbufqp_open(&child, &shared), 0) << mbufqp_error();
    EXPECT_EQ(mbufqp_qpn(shared), mbufqp_qpn(a_));
    EXPECT_EQ(mbufqp_close(a_), -EBUSY);
    for (std::uint16_t queue = 0; queue < 4; ++queue) {
        ASSERT_TRUE(send(shared, queue, mac_of(b_)));
        EXPECT_EQ(source_of_next(b_), mac_of(a_));
    }
    EXPECT_EQ(mbufqp_close(shared), 0);
}

/// The model refuses one command of those that opening takes; the next try finds nothing in its way.
TEST_F(IpoibQp, OpeningThatFailsAtAnyStepLeavesNothingBehind) {
    auto* const fault = reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_DEFAULT, "swhca_fault"));
    ASSERT_NE(fault, nullptr);
    ASSERT_EQ(mbufqp_close(b_), 0);
    b_ = nullptr;
    const mbufqp_config config = this->config("mlx5_1");
    const unsigned in_use = rte_mempool_in_use_count(pool_);
    for (const char* command :
         {"ALLOC_PD", "REG_MR", "EX_CREATE_CQ", "CREATE_QP", "EX_CREATE_QP", "MODIFY_QP", "ATTACH_MCAST"}) {
        unsigned refused = 0;
        for (bool opened = false; !opened && refused < 40;) {
            const std::string order = std::string{"mlx5_1 refuse command="} + command +
                                      " after=" + std::to_string(refused) + " errno=12";
            ASSERT_EQ(fault(order.c_str()), 0) << order;
            mbufqp* qp = nullptr;
            const int code = mbufqp_open(&config, &qp);
            ASSERT_EQ(fault("mlx5_1 clear"), 0);
            opened = code == 0;
            if (opened) {
                EXPECT_EQ(mbufqp_close(qp), 0);
            } else {
                EXPECT_EQ(code, -ENOMEM) << order << ": " << mbufqp_error();
                ++refused;
            }
            EXPECT_EQ(rte_mempool_in_use_count(pool_), in_use) << order;
        }
        steps_ += refused;
    }
    EXPECT_GT(steps_, 15U) << "commands refused";
    ASSERT_EQ(mbufqp_open(&config, &b_), 0) << mbufqp_error();
    ASSERT_TRUE(send(b_, 0, mac_of(a_)));
    EXPECT_EQ(source_of_next(a_), mac_of(b_));
}

} // namespace
