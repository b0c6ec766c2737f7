// SPDX-License-Identifier: BSD-3-Clause
/// Every place of the ring x 1 to 60 segments x inline lengths 0 to 1024 x TSO: what the HCA reads is what
/// was sent, or the packet is refused because it needs more than 63 DS. All of it in the long scope
/// (STRIDE_TEST_SCOPE=long), else samples of segments and lengths.
#include "tx_fixture.hpp"

#include <bitset>
#include <cstdlib>
#include <numeric>

namespace stride::test {
namespace {

constexpr unsigned places = 64;
constexpr std::uint32_t tso_headers = 54, mss = 500;

bool everything() {
    const char* scope = std::getenv("STRIDE_TEST_SCOPE");
    return scope != nullptr && std::string{scope} == "long";
}

struct Shape {
    std::uint32_t bytes, segments;
    bool tso;
};

class WqeMatrix : public TxFixture, public ::testing::WithParamInterface<bool> {
  protected:
    static std::vector<std::uint32_t> inline_lengths() {
        if (!everything()) return {0, 1, 59, 60, 61, 64, 65, 256, 960, 977, 1023, 1024};
        std::vector<std::uint32_t> all(1025);
        std::iota(all.begin(), all.end(), 0U);
        return all;
    }
    static std::vector<std::uint32_t> segment_counts() {
        if (!everything()) return {1, 2, 3, 4, 7, 16, 31, 55, 57, 58, 59, 60};
        std::vector<std::uint32_t> all(60);
        std::iota(all.begin(), all.end(), 1U);
        return all;
    }
    rte_mbuf* make(const Shape& shape) {
        rte_mbuf* mbuf = packet(shape.bytes, 1, shape.segments);
        if (!shape.tso) return mbuf;
        mbuf->ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_TCP_SEG;
        mbuf->l2_len = 14;
        mbuf->l3_len = mbuf->l4_len = 20;
        mbuf->tso_segsz = mss;
        return mbuf;
    }
    /// DS of a WQE of its own: control and Ethernet segment, headers inlined, what is behind them pointed to.
    static std::uint32_t ds_needed(const Shape& shape) {
        if (!shape.tso) return 2 + shape.segments;
        std::uint32_t behind = 0;
        for (std::uint32_t i = 1; i <= shape.segments; ++i)
            behind +=
                static_cast<std::uint32_t>(std::uint64_t{shape.bytes} * i / shape.segments) > tso_headers;
        return 1 + (14 + tso_headers + 15) / 16 + behind;
    }
    /// One packet from where the ring is.
    void send(const Shape& shape, const Bytes& expected) {
        rte_mbuf* mbuf = make(shape);
        const bool fits = ds_needed(shape) <= 63;
        ASSERT_EQ(put(&mbuf, 1), fits ? 1U : 0U) << shape.segments << " segments, TSO " << shape.tso;
        if (!fits) return rte_pktmbuf_free(mbuf);
        hca_->execute();
        ASSERT_EQ(hca_->broken(), "");
        ASSERT_EQ(frames_, 1U);
        ASSERT_EQ(last_, expected) << shape.bytes << " bytes in " << shape.segments << ", TSO " << shape.tso;
        frames_ = 0;
    }
    /// The shape from every place of the ring; a small packet in between leads to those it does not reach.
    void send_from_everywhere(const Shape& shape) {
        const Bytes expected = content(shape.bytes);
        std::bitset<places> seen;
        for (unsigned tries = 0; !seen.all() && tries < places * places; ++tries) {
            const unsigned place = queue_->hot().pi % places;
            const bool again = seen.test(place);
            seen.set(place);
            const Shape next = again ? Shape{2000, 1, false} : shape;
            ASSERT_NO_FATAL_FAILURE(send(next, again ? filler_ : expected));
            if (ds_needed(next) > 63) return; // refused: the ring stays where it is
        }
        ASSERT_TRUE(seen.all());
    }

    Bytes last_{}, filler_{content(2000)};
    unsigned frames_{};
};

TEST_P(WqeMatrix, EveryPlaceSegmentCountAndInlineLength) {
    const bool tso = GetParam();
    for (const std::uint32_t inlined : inline_lengths()) {
        TxFeatures features{TxFeature::multi_packet, TxFeature::multi_segment};
        if (inlined != 0) features |= TxFeature::inline_frames;
        if (tso) features |= TxFeature::tso;
        open({.features = features, .inline_max_bytes = inlined});
        hca_->on_frame = [this](const SentFrame& frame) {
            ++frames_;
            last_ = frame.bytes;
        };
        for (const std::uint32_t segments : segment_counts()) {
            // As long as is just inlined, or long enough for headers and as many segments as there are.
            const std::uint32_t bytes = tso ? 2 * mss + inlined : std::max(inlined, 60U);
            ASSERT_NO_FATAL_FAILURE(send_from_everywhere({bytes, segments, tso}))
                << "inline up to " << inlined;
        }
        finish();
    }
}

INSTANTIATE_TEST_SUITE_P(Tx, WqeMatrix, ::testing::Bool(),
                         [](const auto& param) { return std::string{param.param ? "Tso" : "Plain"}; });

} // namespace
} // namespace stride::test
