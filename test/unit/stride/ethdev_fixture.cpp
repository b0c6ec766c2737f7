// SPDX-License-Identifier: BSD-3-Clause
#include "ethdev_fixture.hpp"

#include <rte_bus_vdev.h>
#include <rte_eal.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include <chrono>
#include <cstring>
#include <dlfcn.h>

namespace stride::test {
namespace {

constexpr std::uint32_t header_bytes = sizeof(rte_ether_hdr) + sizeof(rte_ipv4_hdr) + sizeof(rte_udp_hdr);

/// One pass of the software HCA's engine (swhca.h); the frames it moved.
unsigned step_engine() {
    static const auto step = reinterpret_cast<unsigned (*)(unsigned)>(dlsym(RTLD_DEFAULT, "swhca_step"));
    EXPECT_NE(step, nullptr) << "run this test under `swhca run`";
    return step != nullptr ? step(64) : 0;
}

/// Byte `at` behind the headers of frame `number`.
std::uint8_t content(std::uint64_t number, std::uint32_t at) {
    return static_cast<std::uint8_t>(number * 131 + at * 7);
}

void write_headers(std::byte* data, const FrameSpec& spec) {
    rte_ether_hdr eth{};
    eth.dst_addr = spec.dst;
    eth.src_addr = {{0x02, 0, 0, 0, 0, 0x01}};
    eth.ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
    rte_ipv4_hdr ip{};
    ip.version_ihl = RTE_IPV4_VHL_DEF;
    ip.total_length = rte_cpu_to_be_16(static_cast<std::uint16_t>(spec.bytes - sizeof eth));
    ip.time_to_live = 64;
    ip.next_proto_id = IPPROTO_UDP;
    ip.src_addr = rte_cpu_to_be_32(RTE_IPV4(10, 0, 0, 1));
    ip.dst_addr = rte_cpu_to_be_32(RTE_IPV4(10, 0, 0, 2));
    ip.hdr_checksum = rte_ipv4_cksum(&ip);
    rte_udp_hdr udp{};
    udp.src_port = rte_cpu_to_be_16(spec.udp_source);
    udp.dst_port = rte_cpu_to_be_16(2000);
    udp.dgram_len = rte_cpu_to_be_16(static_cast<std::uint16_t>(spec.bytes - sizeof eth - sizeof ip));
    std::memcpy(data, &eth, sizeof eth);
    std::memcpy(data + sizeof eth, &ip, sizeof ip);
    std::memcpy(data + sizeof eth + sizeof ip, &udp, sizeof udp);
}

/// EAL once a process: no hugepages, no PCI, the driver as a plugin.
class EalEnvironment : public testing::Environment {
  public:
    void SetUp() override {
        std::vector<std::string> words{"unit-ethdev",         "--no-huge",      "-m",       "512", "--no-pci",
                                       "--no-shconf",         "--no-telemetry", "--lcores", "0",   "-d",
                                       "librte_net_stride.so"};
        std::vector<char*> argv;
        for (std::string& word : words)
            argv.push_back(word.data());
        ASSERT_GE(rte_eal_init(static_cast<int>(argv.size()), argv.data()), 0);
    }
    void TearDown() override { rte_eal_cleanup(); }
};

const auto* const environment = testing::AddGlobalTestEnvironment(new EalEnvironment);

} // namespace

std::uint16_t EthdevTest::plug(const std::string& name, const std::string& args) {
    std::uint16_t port = no_port;
    if (rte_vdev_init(name.c_str(), args.c_str()) != 0) return no_port;
    return rte_eth_dev_get_port_by_name(name.c_str(), &port) == 0 ? port : no_port;
}

void EthdevTest::SetUp() {
    pool_ = rte_pktmbuf_pool_create("frames", pool_mbufs, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    ASSERT_NE(pool_, nullptr);
    a_ = plug("net_stride_a", "ibdev=mlx5_0");
    b_ = plug("net_stride_b", "ibdev=mlx5_1");
    ASSERT_NE(a_, no_port);
    ASSERT_NE(b_, no_port);
}

void EthdevTest::TearDown() {
    unplug(a_);
    unplug(b_);
    EXPECT_EQ(in_use(), 0U) << "mbufs are missing after close";
    rte_mempool_free(pool_);
}

int EthdevTest::configure(std::uint16_t port, const PortSetup& setup) {
    rte_eth_conf conf{};
    conf.rxmode.mtu = setup.mtu;
    conf.rxmode.offloads = setup.rx_offloads;
    conf.txmode.offloads = setup.tx_offloads;
    if (setup.hash_types != 0) {
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf = setup.hash_types;
    }
    int code = rte_eth_dev_configure(port, setup.rx_queues, setup.tx_queues, &conf);
    for (std::uint16_t queue = 0; code == 0 && queue < setup.rx_queues; ++queue)
        code = rte_eth_rx_queue_setup(port, queue, setup.rx_descriptors, 0, nullptr, pool_);
    for (std::uint16_t queue = 0; code == 0 && queue < setup.tx_queues; ++queue)
        code = rte_eth_tx_queue_setup(port, queue, setup.tx_descriptors, 0, nullptr);
    return code;
}

void EthdevTest::bring_up(std::uint16_t port, const PortSetup& setup) {
    ASSERT_EQ(configure(port, setup), 0);
    ASSERT_EQ(rte_eth_dev_start(port), 0);
}

void EthdevTest::unplug(std::uint16_t& port) {
    if (port == no_port) return;
    char name[RTE_ETH_NAME_MAX_LEN];
    EXPECT_EQ(rte_eth_dev_get_name_by_port(port, name), 0);
    EXPECT_EQ(rte_eth_dev_stop(port), 0);
    EXPECT_EQ(rte_eth_dev_close(port), 0);
    rte_vdev_uninit(name);
    port = no_port;
}

rte_mbuf* EthdevTest::frame(const FrameSpec& spec) {
    rte_mbuf* const mbuf = rte_pktmbuf_alloc(pool_);
    if (mbuf == nullptr) return nullptr;
    auto* const data =
        reinterpret_cast<std::byte*>(rte_pktmbuf_append(mbuf, static_cast<std::uint16_t>(spec.bytes)));
    write_headers(data, spec);
    for (std::uint32_t at = header_bytes; at < spec.bytes; ++at)
        data[at] = std::byte{content(spec.number, at)};
    return mbuf;
}

bool EthdevTest::is_intact(const rte_mbuf* mbuf, const FrameSpec& spec) {
    if (rte_pktmbuf_pkt_len(mbuf) != spec.bytes) return false;
    std::vector<std::uint8_t> copy(spec.bytes);
    const auto* const data =
        static_cast<const std::uint8_t*>(rte_pktmbuf_read(mbuf, 0, spec.bytes, copy.data()));
    for (std::uint32_t at = header_bytes; at < spec.bytes; ++at)
        if (data[at] != content(spec.number, at)) return false;
    return true;
}

void EthdevTest::send(std::uint16_t port, std::vector<rte_mbuf*> frames) {
    std::size_t sent = 0;
    const auto begun = std::chrono::steady_clock::now();
    while (sent < frames.size()) {
        const auto left = static_cast<std::uint16_t>(std::min<std::size_t>(frames.size() - sent, 64));
        sent += rte_eth_tx_burst(port, 0, frames.data() + sent, left);
        if (std::chrono::steady_clock::now() - begun > std::chrono::seconds{10}) break;
    }
    EXPECT_EQ(sent, frames.size()) << "the send queue takes no more";
    if (sent < frames.size())
        rte_pktmbuf_free_bulk(frames.data() + sent, static_cast<unsigned>(frames.size() - sent));
}

std::vector<rte_mbuf*> EthdevTest::receive(std::uint16_t port, std::size_t count, std::uint16_t queue) {
    std::vector<rte_mbuf*> got;
    bool moved = true;
    while (got.size() < count && moved) {
        // The engine is stepped here, so "nothing more comes" is a fact and not a matter of time.
        const bool stepped = step_engine() != 0;
        rte_mbuf* burst[32];
        const std::uint16_t more = rte_eth_rx_burst(port, queue, burst, 32);
        got.insert(got.end(), burst, burst + more);
        moved = stepped || more != 0;
    }
    return got;
}

void EthdevTest::expect_traffic(std::uint64_t first, std::uint32_t count, std::uint32_t bytes,
                                std::uint32_t at_once) {
    for (std::uint32_t done = 0; done < count; done += at_once) {
        const std::uint32_t now = std::min(at_once, count - done);
        std::vector<rte_mbuf*> frames;
        for (std::uint32_t i = 0; i < now; ++i)
            frames.push_back(frame({.number = first + done + i, .bytes = bytes}));
        send(b_, frames);
        std::vector<rte_mbuf*> got = receive(a_, now);
        ASSERT_EQ(got.size(), now) << "after " << done << " frames";
        for (std::uint32_t i = 0; i < now; ++i)
            ASSERT_TRUE(is_intact(got[i], {.number = first + done + i, .bytes = bytes}))
                << "frame " << done + i;
        rte_pktmbuf_free_bulk(got.data(), static_cast<unsigned>(got.size()));
    }
}

bool EthdevTest::attaches(std::uint16_t port) {
    rte_eth_burst_mode mode{};
    return rte_eth_rx_burst_mode_get(port, 0, &mode) == 0 &&
           std::string_view{mode.info}.find("attach") != std::string_view::npos;
}

std::uint64_t EthdevTest::xstat(std::uint16_t port, std::string_view name) {
    std::uint64_t id = 0, value = 0;
    const std::string text{name};
    if (rte_eth_xstats_get_id_by_name(port, text.c_str(), &id) != 0) {
        ADD_FAILURE() << "no xstat " << text;
        return 0;
    }
    EXPECT_EQ(rte_eth_xstats_get_by_id(port, &id, &value, 1), 1);
    return value;
}

} // namespace stride::test
