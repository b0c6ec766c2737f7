// SPDX-License-Identifier: BSD-3-Clause
/// What put costs, in instructions per packet of 64 bytes and burst 32, counted one by one: the same whatever
/// else the machine does. Prints them, and holds the encaps and numbers of queues against each other.
#include "../../app/stride-bench/instructions.hpp"
#include "../unit/mbufqp/tx_fixture.hpp"

#include <rte_cycles.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace stride::test {
namespace {

using namespace stride::mbufqp;

constexpr unsigned burst = 32, frame_bytes = 64;
constexpr UdAddress peer{Qpn{0xabcdef}, 0x1234};

class SendCost : public TxFixture {
  protected:
    void open(EncapKind kind, TxFeatures features, std::uint32_t inline_max_bytes = 0) {
        TxFixture::open({.features = features,
                         .log_wqebbs = 10,
                         .log_cqes = 8,
                         .mbufs = 512,
                         .inline_max_bytes = inline_max_bytes,
                         .max_frame_bytes = 1518,
                         .encap = kind,
                         .encap_context = context_of(kind)});
        hca_->on_frame = [](const SentFrame&) {};
    }
    const void* context_of(EncapKind kind) const {
        if (kind == EncapKind::ipoib) return &ipoib_;
        return kind == EncapKind::opa_vnic ? &vnic_ : nullptr;
    }
    /// Bursts of prepared frames through put, with the completion of those before them.
    template <class Begin, class End>
    double measured(unsigned bursts, Begin&& begin, End&& end) {
        std::vector<rte_mbuf*> frames = packets(burst * bursts, frame_bytes);
        const Mac to = mac_of(peer);
        for (rte_mbuf* frame : frames)
            std::memcpy(rte_pktmbuf_mtod(frame, void*), to.data(), to.size());
        unsigned taken = 0;
        begin();
        for (unsigned i = 0; i < bursts; ++i)
            taken += burst_(queue_.get(), frames.data() + std::size_t{i} * burst, burst);
        const auto spent = static_cast<double>(end());
        EXPECT_EQ(taken, burst * bursts);
        hca_->execute();
        return spent / taken;
    }
    double instructions() {
        const auto count = [this] {
            return measured(
                2, [this] { counter_.begin(); }, [this] { return counter_.end(); });
        };
        count();
        return count();
    }
    /// The least of many rounds: the machine has other things to do.
    double cycles() {
        std::uint64_t begun{};
        double least = 1e9;
        for (unsigned round = 0; round < 300; ++round)
            least = std::min(least, measured(
                                        8, [&] { begun = rte_rdtsc_precise(); },
                                        [&] { return rte_rdtsc_precise() - begun; }));
        return least;
    }
    struct Cost {
        double instructions, cycles;
    };
    Cost cost(const char* name, EncapKind kind, TxFeatures features, std::uint32_t inline_max_bytes = 0) {
        open(kind, features, inline_max_bytes);
        const Cost found{instructions(), cycles()};
        finish();
        std::printf("%-40s %6.1f instructions, %5.1f cycles a packet\n", name, found.instructions,
                    found.cycles);
        return found;
    }

    bench::InstructionCounter counter_{};
    IpoibPort ipoib_{IpoibConfig{.own = {Qpn{0x123}, 7}, .mtu_bytes = 2044}};
    OpaVnicPort vnic_{OpaVnicConfig{.vesw_id = 9, .encap_slid = 1, .eth_mtu = 1500}};
};

TEST_F(SendCost, OfEachEncap) {
    constexpr TxFeatures fast{TxFeature::fast_free}, shared = fast | TxFeature::multi_packet;
    cost("Ethernet, MPW, fast free", EncapKind::ethernet, shared);
    cost("Ethernet, MPW", EncapKind::ethernet, TxFeature::multi_packet);
    cost("Ethernet, MPW, inline, fast free", EncapKind::ethernet, shared | TxFeature::inline_frames, 64);
    const Cost alone = cost("Ethernet, a WQE each, fast free", EncapKind::ethernet, fast);
    const Cost ipoib = cost("IPoIB, fast free", EncapKind::ipoib, fast);
    const Cost vnic = cost("OPA VNIC, fast free", EncapKind::opa_vnic, fast);
    // A datagram has a WQE of its own, two blocks long: what it is to be held against.
    EXPECT_LE(ipoib.instructions, 2 * alone.instructions);
    EXPECT_GT(vnic.instructions, ipoib.instructions) << "header, tail and route are more than an address";
}

TEST_F(SendCost, OfAQueueIsTheSameHoweverManyShareItsQpn) {
    const Cost first = cost("IPoIB, the first queue of its QPN", EncapKind::ipoib, TxFeature::fast_free);
    std::vector<mbufqp::TxQueuePtr> others;
    std::vector<std::unique_ptr<FakeHca>> hcas;
    for (unsigned i = 1; i < 16; ++i) {
        others.push_back(std::move(queue_));
        hcas.push_back(std::move(hca_));
        open(EncapKind::ipoib, TxFeature::fast_free);
    }
    const double last = instructions();
    finish();
    std::printf("the sixteenth: %.1f instructions a packet\n", last);
    EXPECT_NEAR(last, first.instructions, 1);
}

} // namespace
} // namespace stride::test
