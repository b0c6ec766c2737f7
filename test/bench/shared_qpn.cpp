// SPDX-License-Identifier: BSD-3-Clause
/// What 16 send queues cost per packet that bear one QPN, and 16 that have one each, in one run and in turn;
/// by hand, on an InfiniBand port of the software HCA: swhca run --port mlx5_0,wire=loop,link_layer=ib --
/// shared-qpn --no-huge -m 256 ...
#include "../../app/stride-bench/instructions.hpp"
#include "../../app/stride-bench/lockstep.hpp"
#include "../../app/stride-bench/quiet.hpp"
#include <mbufqp.h>

#include <rte_eal.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

constexpr std::uint16_t queues = 16, burst = 32;
constexpr unsigned rounds = 4000, frame_bytes = 64;
/// 02, QPN, LID: nobody's, so that the fabric drops it.
constexpr unsigned char peer[6] = {0x02, 0, 0x77, 0x77, 0, 99};

struct Way {
    const char* name;
    std::vector<mbufqp*> sets;    ///< with a QPN each
    std::vector<double> cycles{}; ///< a packet, by round
    double instructions{};        ///< a packet

    std::uint16_t put(std::uint16_t queue, rte_mbuf** mbufs) const {
        return sets.size() == 1 ? mbufqp_put(sets[0], queue, mbufs, burst)
                                : mbufqp_put(sets[queue], 0, mbufs, burst);
    }
};

mbufqp* open_set(std::uint16_t tx_queues, rte_mempool* pool) {
    mbufqp_config config{};
    config.device = "mlx5_0";
    config.encap = MBUFQP_IPOIB;
    config.tx_queues = tx_queues;
    config.rx_queues = 1;
    config.rx_packets = 64;
    config.rx_pool = pool;
    config.offloads = MBUFQP_FAST_FREE;
    mbufqp* set = nullptr;
    if (mbufqp_open(&config, &set) != 0) std::fprintf(stderr, "open: %s\n", mbufqp_error());
    return set;
}

/// A burst for each queue, made before `begin` and put between it and `end`; what that took, per packet.
template <class Begin, class End>
double measured(const Way& way, rte_mempool* pool, Begin&& begin, End&& end) {
    rte_mbuf* mbufs[queues * burst];
    if (rte_pktmbuf_alloc_bulk(pool, mbufs, queues * burst) != 0) return 0;
    for (rte_mbuf* mbuf : mbufs)
        std::memcpy(rte_pktmbuf_append(mbuf, frame_bytes), peer, sizeof peer);
    unsigned taken = 0;
    begin();
    for (std::uint16_t queue = 0; queue < queues; ++queue)
        taken += way.put(queue, mbufs + queue * burst);
    const auto spent = static_cast<double>(end());
    if (taken != queues * burst)
        std::fprintf(stderr, "%s: %u of %u taken\n", way.name, taken, queues * burst);
    return spent / taken;
}

double median(std::vector<double>& values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                     values.end());
    return values[values.size() / 2];
}

void run(std::vector<Way>& ways, rte_mempool* pool) {
    bench::Lockstep engine{false, -1};
    bench::InstructionCounter counter;
    std::uint64_t begun{};
    engine.hold();
    for (unsigned round = 0; round < rounds; ++round)
        for (Way& way : ways) {
            engine.settle();
            way.cycles.push_back(measured(
                way, pool, [&] { begun = bench::cycles_now(); },
                [&] { return bench::cycles_now() - begun; }));
        }
    for (Way& way : ways) {
        engine.settle();
        way.instructions = measured(
            way, pool, [&] { counter.begin(); }, [&] { return counter.end(); });
    }
    engine.settle();
    engine.release();
}

} // namespace

int main(int argc, char** argv) {
    if (rte_eal_init(argc, argv) < 0) return 2;
    rte_mempool* const pool = rte_pktmbuf_pool_create("shared_qpn", 32767, 512, 0, 512, SOCKET_ID_ANY);
    if (pool == nullptr) return 2;
    std::vector<Way> ways{{"16 queues with one QPN", {open_set(queues, pool)}},
                          {"16 queues with a QPN each", {}}};
    for (unsigned i = 0; i < queues; ++i)
        ways[1].sets.push_back(open_set(1, pool));
    for (const Way& way : ways)
        if (std::count(way.sets.begin(), way.sets.end(), nullptr) != 0) return 1;
    run(ways, pool);
    for (Way& way : ways)
        std::printf("%-28s %6.1f instructions, %5.1f cycles a packet\n", way.name, way.instructions,
                    median(way.cycles));
    std::printf("ratio %.2f\n", median(ways[0].cycles) / median(ways[1].cycles));
    for (const Way& way : ways)
        for (mbufqp* set : way.sets)
            mbufqp_close(set);
    rte_eal_cleanup();
    return 0;
}
