// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/strides.hpp"

#include <gtest/gtest.h>

namespace stride::mlx5 {
namespace {

/// Counts strides the way a child would: one after the other until the bytes are in.
std::uint32_t reference_needed(std::uint32_t bytes, std::uint32_t stride_bytes, std::uint32_t shift) {
    std::uint32_t strides = 0;
    for (std::uint32_t room = 0; room < bytes + shift; room += stride_bytes)
        ++strides;
    return strides;
}

TEST(StrideArithmetic, EveryLengthTakesWhatCountingGives) {
    for (std::uint32_t log_stride = 6; log_stride <= 13; ++log_stride)
        for (const bool shift : {false, true}) {
            const StrideMap map{log_stride, 9, shift};
            for (std::uint32_t bytes = 1; bytes <= 20000; ++bytes) {
                const std::uint32_t needed = reference_needed(bytes, 1U << log_stride, shift ? 2 : 0);
                ASSERT_EQ(map.needed(bytes), needed) << log_stride << ' ' << bytes;
                ASSERT_EQ(map.waste(bytes), (needed << log_stride) - bytes - (shift ? 2 : 0));
            }
        }
}

TEST(StrideArithmetic, PacketThatFillsTheLastStrideFinishesTheWqe) {
    const StrideMap map{8, 4, false};
    EXPECT_TRUE(map.finishes({12, map.needed(1024)}));
    EXPECT_FALSE(map.finishes({11, map.needed(1024)}));
    EXPECT_FALSE(map.finishes({12, map.needed(768)}));
}

TEST(StrideArithmetic, RangeMustLieBehindWhatIsConsumedAndWithinTheWqe) {
    const StrideMap map{8, 4, false};
    for (std::uint32_t consumed = 0; consumed <= 16; ++consumed)
        for (std::uint32_t first = 0; first <= 40; ++first)
            for (std::uint32_t count = 0; count <= 20; ++count) {
                const bool expected = count > 0 && first >= consumed && first + count <= 16;
                ASSERT_EQ(map.possible({first, count}, consumed), expected)
                    << consumed << ' ' << first << ' ' << count;
            }
}

TEST(StrideArithmetic, ClaimedStridesMustHoldThePacket) {
    const StrideMap map{8, 4, false};
    EXPECT_TRUE(map.holds({0, 2}, 512));
    EXPECT_FALSE(map.holds({0, 2}, 513));
    EXPECT_FALSE(map.holds({0, 2}, 0));
    EXPECT_FALSE((StrideMap{8, 4, true}.holds({0, 2}, 511)));
}

TEST(StrideArithmetic, ShiftMovesTheDataNotTheStride) {
    const StrideMap map{11, 4, true};
    EXPECT_EQ(map.offset(3), 3U * 2048);
    EXPECT_EQ(map.data_offset(3), 3U * 2048 + 2);
}

} // namespace
} // namespace stride::mlx5
