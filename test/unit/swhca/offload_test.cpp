// SPDX-License-Identifier: BSD-3-Clause
/// What the send side changes in frames: checksums, VLAN tags, segmentation.
#include "frames.hpp"

#include "swhca/engine/parse.hpp"

namespace swhca::test {
namespace {

using prm::EthSegment;
using prm::Opcode;

struct Offloading : Bench {
    Offloading()
        : cq{*this, 5}
        , sq{*this, cq, 6}
        , memory{1 << 20} {
        lkey = add_region(memory);
    }
    /// Sends `frame`: `header` bytes inlined, the rest in segments of `cut` bytes; `edit` sets the offloads.
    template <class Edit>
    Bytes sent(const Bytes& frame, std::uint32_t header, std::uint32_t cut, Edit edit) {
        memory.put(0, frame);
        const auto length = static_cast<std::uint32_t>(frame.size());
        const unsigned extra = header > 2 ? (header - 2 + 15) / 16 : 0;
        const unsigned segments = (length - header + cut - 1) / cut;
        sq.ctrl(Opcode::send, 2 + extra + segments);
        EthSegment::inline_header_bytes::set(sq.ds(1), header);
        sq.copy_in(16 + EthSegment::inline_start, Bytes(frame.begin(), frame.begin() + header));
        for (unsigned i = 0; i < segments; ++i) {
            const std::uint32_t at = header + i * cut;
            sq.pointer(2 + extra + i, lkey, memory.address() + at, std::min(cut, length - at));
        }
        edit(sq.ds(1));
        sq.post(2 + extra + segments);
        EXPECT_EQ(engine.step(16), 1U);
        EXPECT_TRUE(cq.poll());
        return wire->sent.back();
    }

    TestCq cq;
    TestSq sq;
    Memory memory;
    Lkey lkey{};
};

void ask_checksums(std::byte* eth) {
    EthSegment::l3_checksum::set(eth, 1);
    EthSegment::l4_checksum::set(eth, 1);
}

TEST(SendChecksum, IsInsertedWhateverStoodThere) {
    Offloading t;
    for (const bool ipv6 : {false, true}) {
        for (const bool tcp : {false, true}) {
            for (const std::size_t payload : {0U, 1U, 18U, 700U, 1401U}) {
                FrameSpec spec;
                spec.ipv6 = ipv6;
                spec.tcp = tcp;
                spec.payload = payload;
                if (ipv6) spec.src = "fe80::1", spec.dst = "fe80::2";
                const Bytes right = make_frame(spec);
                spec.checksums = false;
                Bytes blank = make_frame(spec);
                put16(blank, l4_checksum_offset(spec), 0x1234);
                EXPECT_EQ(t.sent(blank, 0, 4096, ask_checksums), right) << payload;
                EXPECT_EQ(t.sent(blank, 18, 4096, ask_checksums), right) << payload;
                EXPECT_EQ(t.sent(blank, 18, 37, ask_checksums), right) << payload;
                EXPECT_EQ(t.memory.copy(0, blank.size()), blank) << "the program's memory is not touched";
            }
        }
    }
}

TEST(SendChecksum, OfAUdpPacketIsNeverZero) {
    Offloading t;
    FrameSpec spec;
    spec.payload = 2;
    Bytes frame = make_frame(spec);
    // Make the payload cancel the rest out: the sum becomes 0xffff, the checksum 0.
    const std::size_t l4 = l4_offset(spec);
    const std::size_t payload = l4 + 8;
    const auto checksum = static_cast<std::uint16_t>(frame[l4 + 6] << 8 | frame[l4 + 7]);
    const std::uint32_t word =
        static_cast<std::uint32_t>(frame[payload] << 8 | frame[payload + 1]) + checksum;
    put16(frame, payload, (word & 0xffff) + (word >> 16));
    put16(frame, l4 + 6, 0);
    const Bytes sent = t.sent(frame, 0, 4096, ask_checksums);
    EXPECT_EQ(sent[l4 + 6], 0xff);
    EXPECT_EQ(sent[l4 + 7], 0xff);
}

TEST(SendChecksum, IsNotInsertedWhereItWasNotAskedFor) {
    Offloading t;
    FrameSpec spec;
    const Bytes right = make_frame(spec);
    Bytes blank = right;
    put16(blank, 24, 0);
    put16(blank, l4_checksum_offset(spec), 0);
    Bytes l3_only = blank;
    l3_only[24] = right[24], l3_only[25] = right[25];
    EXPECT_EQ(t.sent(blank, 0, 4096, [](std::byte*) {}), blank);
    EXPECT_EQ(t.sent(blank, 0, 4096, [](std::byte* eth) { EthSegment::l3_checksum::set(eth, 1); }), l3_only);
}

TEST(SendChecksum, LeavesOtherProtocolsAlone) {
    Offloading t;
    const Bytes frame = plain_frame(200);
    EXPECT_EQ(t.sent(frame, 18, 4096, ask_checksums), frame);
    FrameSpec spec;
    spec.fragment = 0x2000;
    const Bytes fragment = make_frame(spec);
    EXPECT_EQ(t.sent(fragment, 0, 4096, ask_checksums), fragment) << "L4 of a fragment can't be computed";
}

TEST(SendVlan, TagIsInsertedBehindTheAddresses) {
    Offloading t;
    FrameSpec spec;
    for (const std::size_t payload : {4U, 250U, 1400U}) {
        spec.payload = payload;
        spec.vlans.clear();
        const Bytes untagged = make_frame(spec);
        spec.vlans = {0x6123};
        const Bytes tagged = make_frame(spec);
        const auto insert = [](std::byte* eth) {
            EthSegment::insert_vlan::set(eth, 1);
            EthSegment::vlan_tci::set(eth, 0x6123);
        };
        EXPECT_EQ(t.sent(untagged, 0, 4096, insert), tagged);
        EXPECT_EQ(t.sent(untagged, 0, 61, insert), tagged);
    }
}

TEST(SendVlan, TagAndChecksumTogether) {
    Offloading t;
    FrameSpec spec;
    spec.vlans = {7};
    const Bytes right = make_frame(spec);
    spec.vlans.clear();
    spec.checksums = false;
    const auto insert = [](std::byte* eth) {
        ask_checksums(eth);
        EthSegment::insert_vlan::set(eth, 1);
        EthSegment::vlan_tci::set(eth, 7);
    };
    EXPECT_EQ(t.sent(make_frame(spec), 0, 4096, insert), right);
}

/// Sends a TSO WQE of `frame` with `mss`, headers inlined, payload in segments of `cut` bytes.
struct Segmenting : Offloading {
    void post(const FrameSpec& spec, std::uint16_t mss, std::uint32_t cut, bool checksums = true) {
        const Bytes frame = make_frame(spec);
        memory.put(0, frame);
        const auto header = static_cast<std::uint32_t>(l4_offset(spec) + 20);
        const auto length = static_cast<std::uint32_t>(frame.size());
        const unsigned extra = (header - 2 + 15) / 16;
        const unsigned segments = (length - header + cut - 1) / cut;
        sq.ctrl(Opcode::tso, 2 + extra + segments);
        EthSegment::mss::set(sq.ds(1), mss);
        EthSegment::inline_header_bytes::set(sq.ds(1), header);
        if (checksums) ask_checksums(sq.ds(1));
        sq.copy_in(16 + EthSegment::inline_start, Bytes(frame.begin(), frame.begin() + header));
        for (unsigned i = 0; i < segments; ++i) {
            const std::uint32_t at = header + i * cut;
            sq.pointer(2 + extra + i, lkey, memory.address() + at, std::min(cut, length - at));
        }
        sq.post(2 + extra + segments);
    }
};

TEST(Tso, EverySegmentIsAWholePacketOfItsOwn) {
    for (const bool ipv6 : {false, true}) {
        for (const std::size_t tags : {0U, 1U}) {
            Segmenting t;
            FrameSpec spec;
            spec.tcp = true;
            spec.ipv6 = ipv6;
            spec.payload = 3 * 1000 + 17;
            spec.tcp_flags = 0x19; // FIN, PSH, ACK
            spec.vlans.assign(tags, 5);
            if (ipv6) spec.src = "fe80::1", spec.dst = "fe80::2";
            t.post(spec, 1000, 777);
            EXPECT_EQ(t.engine.step(16), 4U);
            ASSERT_EQ(t.wire->sent.size(), 4U);
            const Bytes whole = make_frame(spec);
            const std::size_t header = l4_offset(spec) + 20;
            Bytes payload;
            for (unsigned i = 0; i < 4; ++i) {
                const CutFrame cut{t.wire->sent[i]};
                const PacketInfo info = parse(cut.frame());
                EXPECT_TRUE(l3_checksum_ok(cut.frame(), info)) << i;
                EXPECT_TRUE(l4_checksum_ok(cut.frame(), info)) << i;
                const Bytes& sent = t.wire->sent[i];
                EXPECT_EQ(sent.size(), header + (i < 3 ? 1000 : 17));
                const std::size_t l4 = l4_offset(spec);
                EXPECT_EQ(sent[l4 + 6] << 8 | sent[l4 + 7], static_cast<int>(9 + i * 1000) & 0xffff);
                EXPECT_EQ(sent[l4 + 13], i < 3 ? 0x10 : 0x19) << "FIN and PSH are the last segment's";
                if (!ipv6) {
                    EXPECT_EQ(sent[l3_offset(spec) + 5], 0x34 + i) << "identification counts on";
                }
                payload.insert(payload.end(), sent.begin() + static_cast<std::ptrdiff_t>(header), sent.end());
            }
            EXPECT_EQ(payload, Bytes(whole.begin() + static_cast<std::ptrdiff_t>(header), whole.end()));
            const auto cqe = t.cq.poll();
            ASSERT_TRUE(cqe);
            EXPECT_EQ(cqe->get<prm::Cqe::send_opcode>(), static_cast<unsigned>(Opcode::tso));
            EXPECT_FALSE(t.cq.poll());
        }
    }
}

TEST(Tso, PayloadOfOneSegmentIsOneFrame) {
    Segmenting t;
    FrameSpec spec;
    spec.tcp = true;
    spec.payload = 500;
    t.post(spec, 1000, 4096);
    EXPECT_EQ(t.engine.step(16), 1U);
    EXPECT_EQ(t.wire->sent[0], make_frame(spec));
}

TEST(Tso, GoesOnWhereItPaused) {
    Segmenting t;
    FrameSpec spec;
    spec.tcp = true;
    spec.payload = 30000;
    t.wire->room = 3;
    t.post(spec, 100, 4096);
    EXPECT_EQ(t.engine.step(64), 3U);
    t.wire->room = ~0U;
    unsigned frames = 3;
    while (const unsigned moved = t.engine.step(7))
        frames += moved;
    EXPECT_EQ(frames, 300U);
    Bytes payload;
    for (const Bytes& sent : t.wire->sent)
        payload.insert(payload.end(), sent.begin() + 54, sent.end());
    const Bytes whole = make_frame(spec);
    EXPECT_EQ(payload, Bytes(whole.begin() + 54, whole.end()));
    EXPECT_TRUE(t.cq.poll());
    EXPECT_FALSE(t.cq.poll());
}

TEST(Tso, WithoutMssOrTcpHeaderIsMalformed) {
    for (const bool without_mss : {true, false}) {
        Segmenting t;
        FrameSpec spec;
        spec.tcp = without_mss;
        spec.payload = 3000;
        t.post(spec, without_mss ? 0 : 1000, 4096);
        EXPECT_EQ(t.engine.step(16), 0U);
        const auto cqe = t.cq.poll();
        ASSERT_TRUE(cqe);
        EXPECT_EQ(cqe->syndrome(), prm::Syndrome::local_qp_operation);
        EXPECT_EQ(broken_count(without_mss ? Rule::tso_mss : Rule::tso_header), 1U);
    }
}

} // namespace
} // namespace swhca::test
