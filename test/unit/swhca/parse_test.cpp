// SPDX-License-Identifier: BSD-3-Clause
/// Packet types and checksums.
#include "frames.hpp"

#include "swhca/engine/checksum.hpp"
#include "swhca/engine/crc32.hpp"
#include "swhca/engine/parse.hpp"

namespace swhca::test {
namespace {

using prm::L4Type;

TEST(Parse, TypesOfTcpTellAcknowledgmentsApart) {
    FrameSpec spec;
    spec.tcp = true;
    EXPECT_EQ(parse(CutFrame{make_frame(spec)}.frame()).l4_type, L4Type::tcp_ack);
    spec.payload = 0;
    EXPECT_EQ(parse(CutFrame{make_frame(spec)}.frame()).l4_type, L4Type::tcp_empty_ack);
    spec.tcp_flags = 0x02;
    EXPECT_EQ(parse(CutFrame{make_frame(spec)}.frame()).l4_type, L4Type::tcp);
}

TEST(Parse, VlanTagsAreSkippedAndTheOuterOneKept) {
    FrameSpec spec;
    spec.vlans = {0x2123, 0x0456};
    const PacketInfo info = parse(CutFrame{make_frame(spec)}.frame());
    EXPECT_EQ(info.vlan_tags, 2);
    EXPECT_EQ(info.vlan_tci, 0x2123);
    EXPECT_EQ(info.ether_type, 0x0800);
    EXPECT_EQ(info.l3_offset, 22);
    EXPECT_EQ(info.l4_type, L4Type::udp);
}

TEST(Parse, Ipv6ExtensionHeadersAreFollowed) {
    FrameSpec spec;
    spec.ipv6 = true;
    spec.src = "fe80::1";
    spec.dst = "fe80::2";
    Bytes frame = make_frame(spec);
    const Bytes options{17, 1, 1, 4, 0, 0, 0, 0, 1, 4, 0, 0, 0, 0, 0, 0}; // 16 bytes
    frame.insert(frame.begin() + 54, options.begin(), options.end());
    frame[20] = 60;
    put16(frame, 18, 28 + 16);
    const CutFrame cut{frame};
    const PacketInfo info = parse(cut.frame());
    EXPECT_TRUE(info.ip_options);
    EXPECT_EQ(info.l4_offset, 70);
    EXPECT_EQ(info.l4_type, L4Type::udp);
    EXPECT_TRUE(l4_checksum_ok(cut.frame(), info));
}

TEST(Parse, NoLengthOfAnyFrameReadsBeyondIt) {
    FrameSpec spec;
    spec.tcp = true;
    spec.options = 8;
    spec.vlans = {1};
    const Bytes whole = make_frame(spec);
    for (std::size_t length = 14; length <= whole.size(); ++length) {
        // A heap block of exactly this size: AddressSanitizer sees a byte too many.
        const CutFrame cut{Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length))};
        const PacketInfo info = parse(cut.frame());
        EXPECT_EQ(l4_checksum_ok(cut.frame(), info), length == whole.size()) << length;
    }
}

TEST(Checksum, RightOnesAreRightAndAnyFlippedBitIsWrong) {
    for (const bool ipv6 : {false, true}) {
        for (const bool tcp : {false, true}) {
            FrameSpec spec;
            spec.ipv6 = ipv6;
            spec.tcp = tcp;
            if (ipv6) spec.src = "fe80::1", spec.dst = "fe80::2";
            for (const std::size_t payload : {0U, 1U, 2U, 3U, 33U, 127U, 128U, 1001U}) {
                spec.payload = payload;
                Bytes frame = make_frame(spec);
                const PacketInfo info = parse(CutFrame{frame}.frame());
                ASSERT_TRUE(l3_checksum_ok(CutFrame{frame}.frame(), info));
                ASSERT_TRUE(l4_checksum_ok(CutFrame{frame}.frame(), info)) << payload << ipv6 << tcp;
                frame.back() ^= 0x10;
                ASSERT_FALSE(l4_checksum_ok(CutFrame{frame}.frame(), info)) << payload << ipv6 << tcp;
            }
        }
    }
}

TEST(Checksum, IsTheSameHoweverTheFrameIsCut) {
    FrameSpec spec;
    spec.payload = 700;
    const Bytes frame = make_frame(spec);
    for (std::uint32_t second = 1; second < 300; second += 7) {
        const CutFrame cut{frame, {256, second, 3, 1}};
        EXPECT_TRUE(l4_checksum_ok(cut.frame(), parse(cut.frame()))) << second;
    }
}

TEST(Checksum, PaddingBehindTheIpPacketDoesNotCount) {
    FrameSpec spec;
    spec.payload = 2;
    spec.padding = 16;
    const CutFrame cut{make_frame(spec)};
    EXPECT_TRUE(l4_checksum_ok(cut.frame(), parse(cut.frame())));
}

TEST(Checksum, WrongIpv4HeaderIsSeen) {
    FrameSpec spec;
    spec.options = 4;
    Bytes frame = make_frame(spec);
    frame[22] ^= 1;
    const CutFrame cut{frame};
    EXPECT_FALSE(l3_checksum_ok(cut.frame(), parse(cut.frame())));
}

TEST(Parse, Ipv6ExtensionThatEndsBehindTheParsedBytesLeavesNoL4) {
    FrameSpec spec;
    spec.ipv6 = true;
    spec.src = "fe80::1";
    spec.dst = "fe80::2";
    Bytes frame = make_frame(spec);
    frame.resize(2000);
    frame[18] = 7, frame[19] = 0xb2; // payload length: all of it
    frame[20] = 0;                   // hop by hop ...
    frame[54] = 17, frame[55] = 60;  // ... of 488 bytes, then UDP
    const CutFrame cut{frame};
    const PacketInfo info = parse(cut.frame());
    EXPECT_EQ(info.l4_type, prm::L4Type::none);
    EXPECT_LE(info.l4_offset, header_bytes);
    EXPECT_FALSE(l4_checksum_ok(cut.frame(), info));
}

TEST(Checksum, UdpWithoutChecksumIsRightOverIpv4Only) {
    FrameSpec spec;
    Bytes frame = make_frame(spec);
    put16(frame, l4_checksum_offset(spec), 0);
    const CutFrame ipv4{frame};
    EXPECT_TRUE(l4_checksum_ok(ipv4.frame(), parse(ipv4.frame())));
    spec.ipv6 = true;
    spec.src = "fe80::1";
    spec.dst = "fe80::2";
    frame = make_frame(spec);
    put16(frame, l4_checksum_offset(spec), 0);
    const CutFrame ipv6{frame};
    EXPECT_FALSE(l4_checksum_ok(ipv6.frame(), parse(ipv6.frame())));
}

TEST(Checksum, SumsOfAnyLengthAgreeWithTheSlowOne) {
    Bytes bytes(5000);
    std::uint32_t state = 1;
    for (std::uint8_t& byte : bytes)
        byte = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    for (std::size_t length = 0; length < bytes.size(); length += length < 300 ? 1 : 97) {
        const std::uint16_t fast =
            fold_sum(sum_bytes(reinterpret_cast<const std::byte*>(bytes.data()), length));
        const std::uint16_t slow = naive_sum(bytes, 0, length);
        EXPECT_EQ(fast % 0xffff, __builtin_bswap16(slow) % 0xffff) << length;
    }
    std::fill(bytes.begin(), bytes.end(), 0xff);
    EXPECT_EQ(fold_sum(sum_bytes(reinterpret_cast<const std::byte*>(bytes.data()), 5000)), 0xffff);
}

TEST(Fcs, CheckValueOfTheCrc) {
    // "123456789" is the CRC catalogue's check string.
    const CutFrame cut{{'1', '2', '3', '4', '5', '6', '7', '8', '9'}, {4}};
    EXPECT_EQ(frame_check_sequence(cut.frame()), 0xcbf43926U);
}

} // namespace
} // namespace swhca::test
