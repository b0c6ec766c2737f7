// SPDX-License-Identifier: BSD-3-Clause
/// Two ports of the driver, wired back to back by the software HCA: mlx5_0 and mlx5_1 with wire=pair.
#pragma once

#include <gtest/gtest.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stride::test {

inline constexpr std::uint16_t no_port = RTE_MAX_ETHPORTS;

struct PortSetup {
    std::uint16_t rx_queues{1}, tx_queues{1};
    std::uint16_t rx_descriptors{512}, tx_descriptors{512};
    std::uint16_t mtu{1500};
    std::uint64_t rx_offloads{0}, tx_offloads{0};
    std::uint64_t hash_types{0}; ///< not 0: RSS
};

/// What a frame is made of; the payload is numbered, so that order and content can be told at the far end.
struct FrameSpec {
    std::uint64_t number{};
    std::uint32_t bytes{64};
    rte_ether_addr dst{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
    std::uint16_t udp_source{1000}; ///< IPv4/UDP if bytes allow it
};

class EthdevTest : public testing::Test {
  protected:
    static constexpr unsigned pool_mbufs = 4095;

    void SetUp() override;
    void TearDown() override;

    /// Plugs a port in; no_port if the driver refuses it.
    static std::uint16_t plug(const std::string& name, const std::string& args);
    /// Configures and sets up queues from `pool`.
    int configure(std::uint16_t port, const PortSetup& setup);
    /// configure and start, as a failure of the test if one fails.
    void bring_up(std::uint16_t port, const PortSetup& setup = {});
    /// Stops, closes and unplugs.
    static void unplug(std::uint16_t& port);

    rte_mbuf* frame(const FrameSpec& spec);
    /// Sends from `port`, all of them (waits for room).
    void send(std::uint16_t port, std::vector<rte_mbuf*> frames);
    /// Receives until `count` frames came or none did for a while.
    static std::vector<rte_mbuf*> receive(std::uint16_t port, std::size_t count, std::uint16_t queue = 0);
    /// Sends numbered broadcasts from b to a, `at_once` in a row, and checks that each comes unharmed and in
    /// order.
    void expect_traffic(std::uint64_t first, std::uint32_t count, std::uint32_t bytes = 200,
                        std::uint32_t at_once = 64);
    static bool is_intact(const rte_mbuf* mbuf, const FrameSpec& spec);
    /// Whether the started port hands out packets in the device's buffers (the device has striding RQs).
    static bool attaches(std::uint16_t port);
    /// mbufs of the pool that are somewhere else, once the driver had time to bring back what was sent.
    unsigned in_use() const { return rte_mempool_in_use_count(pool_); }
    static std::uint64_t xstat(std::uint16_t port, std::string_view name);

    rte_mempool* pool_{};
    std::uint16_t a_{no_port}, b_{no_port};
};

} // namespace stride::test
