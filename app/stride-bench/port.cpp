// SPDX-License-Identifier: BSD-3-Clause
#include "port.hpp"

#include <fmt/format.h>

#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

namespace bench {
namespace {

constexpr std::uint32_t ethernet_bytes = 14;
constexpr std::uint32_t default_room_bytes = 2176;

void check(int code, std::uint16_t port, const char* call) {
    if (code >= 0) return;
    throw std::runtime_error{fmt::format("port {}: {}: {}", port, call, std::strerror(-code))};
}

std::uint64_t heap_bytes() {
    std::uint64_t bytes = 0;
    for (unsigned i = 0; i < rte_socket_count(); ++i) {
        rte_malloc_socket_stats stats;
        if (rte_malloc_get_socket_stats(rte_socket_id_by_idx(i), &stats) == 0)
            bytes += stats.heap_allocsz_bytes;
    }
    return bytes;
}

void add_chunk(rte_mempool*, void* argument, rte_mempool_memhdr* chunk, unsigned) {
    *static_cast<std::uint64_t*>(argument) += chunk->len;
}

/// Memory of all mempools there are.
std::uint64_t mempool_bytes() {
    std::uint64_t bytes = 0;
    rte_mempool_walk([](rte_mempool* pool, void* sum) { rte_mempool_mem_iter(pool, add_chunk, sum); },
                     &bytes);
    return bytes;
}

std::uint64_t element_bytes(const rte_mempool* pool) {
    return pool->elt_size + pool->header_size + pool->trailer_size;
}

/// Lengths and a frame that no receiver objects to, once: nobody writes the data of a sent mbuf.
void write_frame(rte_mempool*, void* argument, void* object, unsigned index) {
    const auto frame_bytes = *static_cast<const std::uint32_t*>(argument);
    auto* mbuf = static_cast<rte_mbuf*>(object);
    auto* data = static_cast<std::uint8_t*>(mbuf->buf_addr) + RTE_PKTMBUF_HEADROOM;
    for (std::uint32_t i = 0; i < frame_bytes; ++i)
        data[i] = static_cast<std::uint8_t>(i + index);
    const std::uint8_t header[ethernet_bytes] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5};
    std::memcpy(data, header, sizeof header);
}

} // namespace

Port::Port(std::uint16_t id, const Options& options)
    : id_{id}
    , queues_{options.queues} {
    rte_eth_dev_info info{};
    check(rte_eth_dev_info_get(id_, &info), id_, "rte_eth_dev_info_get");
    driver_ = info.driver_name;
    configure(options);
    make_pools(options);
    set_up_queues(options);
    check(rte_eth_promiscuous_enable(id_), id_, "rte_eth_promiscuous_enable");
}

Port::~Port() {
    rte_eth_dev_stop(id_);
    rte_eth_dev_close(id_);
    rte_mempool_free(pool_);
    rte_mempool_free(tx_pool_);
}

void Port::configure(const Options& options) {
    rte_eth_dev_info info{};
    check(rte_eth_dev_info_get(id_, &info), id_, "rte_eth_dev_info_get");
    rte_eth_conf conf{};
    conf.rxmode.mtu = std::max(1500U, options.frame_bytes - ethernet_bytes);
    conf.rxmode.offloads = options.rx_offloads;
    conf.txmode.offloads = options.tx_offloads;
    if (queues_ > 1) {
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf =
            info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP);
    }
    check(rte_eth_dev_configure(id_, queues_, queues_, &conf), id_, "rte_eth_dev_configure");
    rx_descriptors_ = options.rx_descriptors;
    tx_descriptors_ = options.tx_descriptors;
    check(rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx_descriptors_, &tx_descriptors_), id_,
          "rte_eth_dev_adjust_nb_rx_tx_desc");
}

void Port::make_pools(const Options& options) {
    const std::uint32_t wanted = std::max(default_room_bytes, options.frame_bytes + RTE_PKTMBUF_HEADROOM);
    const auto room = static_cast<std::uint16_t>(
        options.mbuf_bytes != 0 ? options.mbuf_bytes : std::min((wanted + 63U) & ~63U, 65535U));
    const std::uint32_t in_rings = queues_ * (rx_descriptors_ + std::uint32_t{tx_descriptors_});
    const std::uint32_t held = options.hold_packets + in_rings * options.hold_percent / 100;
    const std::uint32_t enough = in_rings + held + options.packets + 4 * options.cache + 1024U;
    const std::uint32_t mbufs = options.mbufs != 0 ? options.mbufs : enough;
    pool_ = rte_pktmbuf_pool_create_by_ops("bench_rx", mbufs, options.cache, 0, room,
                                           static_cast<int>(rte_socket_id()),
                                           options.pool_ops.empty() ? nullptr : options.pool_ops.c_str());
    if (pool_ == nullptr)
        throw std::runtime_error{
            fmt::format("pool of {} mbufs, ops '{}': {}", mbufs, options.pool_ops, rte_strerror(rte_errno))};
    if (std::find(options.series.begin(), options.series.end(), Series::tx) == options.series.end()) return;
    const std::uint32_t tx_mbufs =
        std::bit_ceil(queues_ * std::uint32_t{tx_descriptors_} + options.packets + 2 * options.cache) * 2 - 1;
    tx_pool_ = rte_pktmbuf_pool_create("bench_tx", tx_mbufs, options.cache, 0, room,
                                       static_cast<int>(rte_socket_id()));
    if (tx_pool_ == nullptr)
        throw std::runtime_error{
            fmt::format("pool of {} mbufs to send: {}", tx_mbufs, rte_strerror(rte_errno))};
    std::uint32_t frame_bytes = options.frame_bytes;
    rte_mempool_obj_iter(tx_pool_, write_frame, &frame_bytes);
}

void Port::set_up_queues(const Options& options) {
    rte_eth_dev_info info{};
    check(rte_eth_dev_info_get(id_, &info), id_, "rte_eth_dev_info_get");
    const auto socket = rte_socket_id();
    rte_eth_txconf tx_conf = info.default_txconf;
    tx_conf.offloads = options.tx_offloads;
    for (std::uint16_t queue = 0; queue < queues_; ++queue)
        check(rte_eth_tx_queue_setup(id_, queue, tx_descriptors_, socket, &tx_conf), id_,
              "rte_eth_tx_queue_setup");

    const std::uint64_t heap_before = heap_bytes();
    const std::uint64_t pools_before = mempool_bytes();
    const unsigned mbufs_before = rte_mempool_in_use_count(pool_);
    rte_eth_rxconf rx_conf = info.default_rxconf;
    rx_conf.offloads = options.rx_offloads;
    for (std::uint16_t queue = 0; queue < queues_; ++queue)
        check(rte_eth_rx_queue_setup(id_, queue, rx_descriptors_, socket, &rx_conf, pool_), id_,
              "rte_eth_rx_queue_setup");
    check(rte_eth_dev_start(id_), id_, "rte_eth_dev_start");
    rx_memory_.heap = heap_bytes() - std::min(heap_before, heap_bytes());
    rx_memory_.driver_pools = mempool_bytes() - pools_before;
    rx_memory_.pool_mbufs = (rte_mempool_in_use_count(pool_) - mbufs_before) * element_bytes(pool_);
    rte_eth_rxq_info rxq{};
    if (rte_eth_rx_queue_info_get(id_, 0, &rxq) == 0 && rxq.nb_desc != 0) rx_descriptors_ = rxq.nb_desc;
}

std::string Port::burst_modes() const {
    rte_eth_burst_mode rx{}, tx{};
    std::string text;
    if (rte_eth_rx_burst_mode_get(id_, 0, &rx) == 0) text += fmt::format("rx {}", rx.info);
    if (rte_eth_tx_burst_mode_get(id_, 0, &tx) == 0)
        text += fmt::format("{}tx {}", text.empty() ? "" : ", ", tx.info);
    return text;
}

} // namespace bench
