// SPDX-License-Identifier: BSD-3-Clause
/// CQE compression: sessions as drivers read them, and what never is in one.
#include "datagram_rig.hpp"

namespace swhca::test {
namespace {

using prm::Cqe;
using prm::MiniCqe;

/// What a reader makes of a CQE, or of a mini-CQE and its title.
struct Completion {
    std::uint32_t byte_count{}, counter{}, hash{}, checksum{}, session{};
    bool error{};
};

/// A program that reads compressed CQs the way drivers do: title, arrays in the 2nd, 9th, 17th slot; then all
/// slots of the session are marked invalid.
struct Reader {
    explicit Reader(TestCq& on)
        : cq{on} {}
    std::byte* slot(std::uint32_t index) const {
        return cq.cq.ring + std::size_t{cq.cq.size.slot(index)} * cq.cq.cqe_bytes + cq.cq.cqe_bytes - 64;
    }
    std::vector<Completion> read_all() {
        std::vector<Completion> all;
        for (;;) {
            const std::byte* cqe = slot(ci);
            const auto op_own = static_cast<unsigned>(stride::load_from_device(cqe + 63));
            if ((op_own & 1U) != (cq.cq.size.round_parity(ci) ? 1U : 0U) || op_own >> 4 == 15) return all;
            if ((op_own >> 2 & 3U) == prm::cqe_format_compressed) {
                read_session(cqe, all);
            } else {
                all.push_back({Cqe::byte_count::get(cqe), Cqe::wqe_counter::get(cqe),
                               Cqe::rx_hash_result::get(cqe), Cqe::checksum::get(cqe), 1, op_own >> 4 >= 13});
                ++ci;
            }
            stride::store_to_device(&cq.cq.dbrec[0], be32{ci});
        }
    }
    void read_session(const std::byte* title, std::vector<Completion>& all) {
        const std::uint32_t count = Cqe::byte_count::get(title);
        const std::uint32_t first_counter = Cqe::wqe_counter::get(title);
        EXPECT_EQ(Cqe::opcode::get(title), 2U);
        EXPECT_LE(cq.cq.size.slot(ci) + count, cq.cq.size.entries())
            << "a session crosses the end of the ring";
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::byte* mini = slot(ci + (i < 8 ? 1 : i / 8 * 8)) + i % 8 * 8;
            Completion made{MiniCqe::byte_count::get(mini), first_counter + i, 0, 0, count, false};
            if (cq.cq.mini_cqe == MiniCqeFormat::hash) {
                made.hash = MiniCqe::rx_hash_result::get(mini);
            } else {
                made.checksum = MiniCqe::checksum::get(mini);
            }
            if (cq.cq.mini_cqe == MiniCqeFormat::csum_stridx) made.counter = MiniCqe::stride_index::get(mini);
            all.push_back(made);
        }
        for (std::uint32_t i = 1; i < count; ++i)
            slot(ci + i)[63] = std::byte{0xf0};
        ci += count;
    }
    TestCq& cq;
    std::uint32_t ci{};
};

struct Compressing : Bench {
    Compressing(MiniCqeFormat format, unsigned log_cqes)
        : cq{*this, log_cqes}
        , reader{cq} {
        cq.cq.mini_cqe = format;
        open_cq(cq.cq, device.port);
    }
    ~Compressing() { close_cq(cq.cq, device.port); }
    Compressing(const Compressing&) = delete;
    Compressing& operator=(const Compressing&) = delete;
    /// Several frames in one delivery.
    void give(const std::vector<Bytes>& frames) {
        std::vector<Segment> segments;
        for (const Bytes& bytes : frames)
            segments.push_back(
                {reinterpret_cast<const std::byte*>(bytes.data()), static_cast<std::uint32_t>(bytes.size())});
        std::vector<Frame> list;
        for (const Segment& segment : segments)
            list.push_back({{&segment, 1}, segment.length_bytes});
        wire->sink->deliver(list, WhenFull::drop);
    }
    TestCq cq;
    Reader reader;
};

std::vector<Bytes> flows(unsigned count, std::uint16_t from = 1) {
    std::vector<Bytes> frames;
    for (unsigned i = 0; i < count; ++i)
        frames.push_back(make_frame({.src_port = static_cast<std::uint16_t>(from + i), .payload = 20 + i}));
    return frames;
}

TEST(CqeCompression, StridingPacketsOfOneWqeAreOneSessionWithStrideIndices) {
    for (const unsigned count : {1U, 2U, 8U, 9U, 16U, 17U, 33U, 60U}) {
        Compressing t{MiniCqeFormat::csum_stridx, 7};
        TestStridingRq rq{t, t.cq, {.log_wqes = 1, .log_strides = 7}};
        rq.post(2);
        t.steer_all_to(rq.rq);
        const auto frames = flows(count);
        t.give(frames);
        const auto got = t.reader.read_all();
        ASSERT_EQ(got.size(), count);
        std::uint32_t stride = 0;
        for (unsigned i = 0; i < count; ++i) {
            const std::uint32_t strides = static_cast<std::uint32_t>((frames[i].size() + 63) / 64);
            EXPECT_EQ(got[i].byte_count, strides << 16 | frames[i].size());
            EXPECT_EQ(got[i].counter, stride);
            EXPECT_EQ(got[i].checksum, naive_sum(frames[i], 14, frames[i].size())) << i;
            stride += strides;
        }
        EXPECT_EQ(got[0].session, count);
    }
}

TEST(CqeCompression, RegularRqWithHashesOverManyRoundsOfTheRing) {
    Compressing t{MiniCqeFormat::hash, 4};
    Rq rq;
    TestPlainRq ring{t, t.cq, rq};
    set_rq_state(rq, QueueState::ready, t.device.port);
    t.steer_all_to(rq);
    t.qp.rss.fields = 0xc3;
    t.qp.rss.key.fill(0x6d);
    t.qp.rss.key[9] = 0x11;
    ++t.device.port.flow_changes;
    std::uint16_t posted = 16;
    std::uint32_t counter = 0;
    for (unsigned round = 0; round < 200; ++round) {
        const unsigned count = round * 7 % 15 + 1;
        const auto frames = flows(count, static_cast<std::uint16_t>(round));
        t.give(frames);
        const auto got = t.reader.read_all();
        ASSERT_EQ(got.size(), count) << round;
        for (unsigned i = 0; i < count; ++i) {
            EXPECT_EQ(got[i].byte_count, frames[i].size());
            EXPECT_EQ(got[i].counter & 0xffff, counter++ & 0xffff);
            if (i > 0) {
                EXPECT_NE(got[i].hash, got[0].hash);
            }
        }
        posted = static_cast<std::uint16_t>(posted + count);
        stride::store_to_device(rq.dbrec, be32{posted});
    }
    EXPECT_EQ(broken_total(), 0U);
}

TEST(CqeCompression, PacketsOfAnotherTypeBeginAnotherSession) {
    Compressing t{MiniCqeFormat::csum_stridx, 7};
    TestStridingRq rq{t, t.cq, {.log_wqes = 1, .log_strides = 7}};
    rq.post(2);
    t.steer_all_to(rq.rq);
    std::vector<Bytes> frames = flows(3);
    frames.push_back(make_frame({.tcp = true}));
    frames.push_back(make_frame({.tcp = true}));
    t.give(frames);
    const auto got = t.reader.read_all();
    ASSERT_EQ(got.size(), 5U);
    EXPECT_EQ(got[0].session, 3U);
    EXPECT_EQ(got[3].session, 2U);
}

TEST(CqeCompression, FillersAndTheNextWqeEndASession) {
    Compressing t{MiniCqeFormat::csum_stridx, 7};
    TestStridingRq rq{t, t.cq, {.log_wqes = 1, .log_strides = 3}};
    rq.post(2);
    t.steer_all_to(rq.rq);
    t.give(
        {plain_frame(150), plain_frame(150), plain_frame(150), plain_frame(60)}); // 3 strides each, 8 a WQE
    const auto got = t.reader.read_all();
    ASSERT_EQ(got.size(), 5U);
    EXPECT_EQ(got[0].session, 2U);
    EXPECT_EQ(got[2].session, 1U);
    EXPECT_EQ(got[2].byte_count, 1U << 31 | 2U << 16);
    EXPECT_EQ(got[3].session, 2U);
    EXPECT_EQ(got[3].counter, 0U);
    EXPECT_EQ(got[4].counter, 3U);
}

TEST(CqeCompression, ErrorsComeAloneAndAfterWhatWasBefore) {
    Compressing t{MiniCqeFormat::hash, 6};
    Rq rq;
    TestPlainRq ring{t, t.cq, rq};
    set_rq_state(rq, QueueState::ready, t.device.port);
    t.steer_all_to(rq);
    t.give({plain_frame(100), plain_frame(100), plain_frame(600), plain_frame(100)});
    const auto got = t.reader.read_all();
    ASSERT_EQ(got.size(), 4U);
    EXPECT_EQ(got[0].session, 2U);
    EXPECT_TRUE(got[2].error);
    EXPECT_EQ(got[3].session, 1U);
    EXPECT_FALSE(got[3].error);
}

TEST(CqeCompression, FullCqLosesNothingItHasHandedOver) {
    Compressing t{MiniCqeFormat::hash, 3};
    Rq rq;
    TestPlainRq ring{t, t.cq, rq};
    set_rq_state(rq, QueueState::ready, t.device.port);
    t.steer_all_to(rq);
    t.give(flows(12));
    EXPECT_EQ(t.reader.read_all().size(), 8U);
    EXPECT_EQ(broken_count(Rule::cq_overrun), 1U);
}

} // namespace
} // namespace swhca::test
