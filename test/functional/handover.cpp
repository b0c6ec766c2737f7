// SPDX-License-Identifier: BSD-3-Clause
// Packets that one process receives and another frees, after the port is gone. Started twice:
//
// `handover EAL-ARGUMENTS -- OPS`: the primary; receives from net_stride0, into a pool with these mempool
// ops.
//
// `handover EAL-ARGUMENTS --proc-type=secondary`: takes them, and frees them when the port is gone.
//
// `handover EAL-ARGUMENTS --proc-type=secondary -- outlive`: polls and sends, before and after the primary is
// killed.
//
// Each prints a line and exits with 1 where something is not as it should be.
#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_hash_crc.h>
#include <rte_mbuf.h>
#include <rte_memzone.h>
#include <rte_ring.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace {

constexpr unsigned pool_mbufs = 4095;
constexpr unsigned frames = 600; ///< of several WQEs, the last not finished
constexpr std::uint16_t port = 0;

enum class Step : int { begun, handed_over, taken, closed, freed };

/// In a memzone.
struct Shared {
    std::atomic<Step> step{};
};

[[noreturn]] void fail(const char* what) {
    std::printf("handover: %s\n", what);
    std::exit(1);
}
void expect(bool is_so, const char* what) {
    if (!is_so) fail(what);
}

void wait_for(const Shared& shared, Step step) {
    const auto begun = std::chrono::steady_clock::now();
    while (shared.step.load() < step) {
        expect(std::chrono::steady_clock::now() - begun < std::chrono::seconds{60},
               "the other process does not go on");
        rte_delay_us_sleep(1000);
    }
}

std::uint32_t sum_of(const rte_mbuf* m) {
    std::uint32_t sum = 0;
    for (; m != nullptr; m = m->next)
        sum = rte_hash_crc(rte_pktmbuf_mtod(m, const void*), m->data_len, sum);
    return sum;
}

void start_port(rte_mempool* pool) {
    rte_eth_conf conf{};
    expect(rte_eth_dev_configure(port, 1, 1, &conf) == 0, "configure");
    expect(rte_eth_rx_queue_setup(port, 0, 512, 0, nullptr, pool) == 0, "rx queue");
    expect(rte_eth_tx_queue_setup(port, 0, 512, 0, nullptr) == 0, "tx queue");
    expect(rte_eth_dev_start(port) == 0, "start");
    expect(rte_eth_promiscuous_enable(port) == 0, "promiscuous");
}

int receive_and_hand_over(const char* ops) {
    rte_mempool* const pool = rte_pktmbuf_pool_create_by_ops("frames", pool_mbufs, 32, 0,
                                                             RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY, ops);
    expect(pool != nullptr, "pool");
    rte_ring* const ring = rte_ring_create("handover", 1024, SOCKET_ID_ANY, 0);
    const rte_memzone* const zone = rte_memzone_reserve("handover", sizeof(Shared), SOCKET_ID_ANY, 0);
    expect(ring != nullptr && zone != nullptr, "shared memory");
    auto& shared = *new (zone->addr) Shared;
    start_port(pool);
    std::printf("handover: ready\n");
    std::fflush(stdout);

    const auto begun = std::chrono::steady_clock::now();
    for (unsigned got = 0; got < frames;) {
        rte_mbuf* burst[32];
        const std::uint16_t count = rte_eth_rx_burst(port, 0, burst, 32);
        for (std::uint16_t n = 0; n < count; ++n, ++got) {
            burst[n]->hash.usr = sum_of(burst[n]);
            if (got >= frames)
                rte_pktmbuf_free(burst[n]);
            else
                expect(rte_ring_enqueue(ring, burst[n]) == 0, "enqueue");
        }
        expect(std::chrono::steady_clock::now() - begun < std::chrono::seconds{60}, "frames do not come");
    }
    shared.step = Step::handed_over;
    wait_for(shared, Step::taken);
    expect(rte_eth_dev_stop(port) == 0, "stop");
    expect(rte_eth_dev_close(port) == 0, "close");
    expect(rte_vdev_uninit("net_stride0") == 0, "removal");
    expect(rte_mempool_in_use_count(pool) >= frames, "mbufs are back that the other process holds");
    shared.step = Step::closed;
    wait_for(shared, Step::freed);
    expect(rte_mempool_in_use_count(pool) == 0, "mbufs do not come back");
    rte_mempool_free(pool);
    return 0;
}

int take_and_free() {
    rte_ring* const ring = rte_ring_lookup("handover");
    const rte_memzone* const zone = rte_memzone_lookup("handover");
    expect(ring != nullptr && zone != nullptr, "no primary");
    expect(rte_eth_dev_is_valid_port(port) != 0, "the port is not there");
    auto& shared = *static_cast<Shared*>(zone->addr);
    wait_for(shared, Step::handed_over);
    std::vector<rte_mbuf*> held(frames);
    expect(rte_ring_dequeue_bulk(ring, reinterpret_cast<void**>(held.data()), frames, nullptr) == frames,
           "dequeue");
    shared.step = Step::taken;
    wait_for(shared, Step::closed);
    rte_mbuf* burst[32];
    expect(rte_eth_rx_burst(port, 0, burst, 32) == 0, "a closed port has packets");
    for (rte_mbuf* m : held)
        expect(sum_of(m) == m->hash.usr, "a packet held is not what it was");
    for (unsigned n = 0; n < frames; n += 2) // one by one, and in bulk
        rte_pktmbuf_free(held[n]);
    for (unsigned n = 1; n < frames; n += 2)
        rte_pktmbuf_free_bulk(&held[n], 1);
    if (rte_mempool_cache* cache = rte_mempool_default_cache(rte_mempool_lookup("frames"), rte_lcore_id()))
        rte_mempool_cache_flush(cache, rte_mempool_lookup("frames"));
    shared.step = Step::freed;
    return 0;
}

/// Until nothing was received for a while, which is when the primary and its HCA are gone.
int outlive_primary() {
    rte_mempool* const pool = rte_mempool_lookup("frames");
    const rte_memzone* const zone = rte_memzone_lookup("handover");
    expect(pool != nullptr && zone != nullptr, "no primary");
    wait_for(*static_cast<Shared*>(zone->addr), Step::handed_over);
    unsigned received = 0, sent = 0;
    bool told = false;
    auto last = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - last < std::chrono::seconds{1}) {
        rte_mbuf* burst[32];
        std::uint16_t count = rte_eth_rx_burst(port, 0, burst, 32);
        if (count != 0) last = std::chrono::steady_clock::now();
        received += count;
        if (count == 0 && (burst[0] = rte_pktmbuf_alloc(pool)) != nullptr) {
            rte_pktmbuf_append(burst[0], 64);
            count = 1;
        }
        const std::uint16_t taken = rte_eth_tx_burst(port, 0, burst, count);
        sent += taken;
        rte_pktmbuf_free_bulk(burst + taken, count - taken);
        if (received == 0 || sent == 0 || std::exchange(told, true)) continue;
        std::printf("handover: polling\n");
        std::fflush(stdout);
    }
    std::printf("handover: received %u, sent %u\n", received, sent);
    expect(received != 0 && sent != 0, "nothing came or went");
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    const int taken = rte_eal_init(argc, argv);
    expect(taken >= 0, "EAL does not start");
    const char* const role = taken + 1 < argc ? argv[taken + 1] : "ring_mp_mc";
    const bool primary = rte_eal_process_type() == RTE_PROC_PRIMARY;
    const bool outlives = std::strcmp(role, "outlive") == 0;
    const int code = primary ? receive_and_hand_over(role) : outlives ? outlive_primary() : take_and_free();
    rte_eal_cleanup();
    return code;
}
