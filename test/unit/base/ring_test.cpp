// SPDX-License-Identifier: BSD-3-Clause
#include "base/flags.hpp"
#include "base/ring.hpp"

#include <gtest/gtest.h>

using namespace stride;

TEST(RingSize, IsTheNextPowerOfTwo) {
    EXPECT_EQ(RingSize::at_least(0).entries(), 1U);
    EXPECT_EQ(RingSize::at_least(1).entries(), 1U);
    EXPECT_EQ(RingSize::at_least(5).entries(), 8U);
    EXPECT_EQ(RingSize::at_least(8).entries(), 8U);
    EXPECT_EQ(RingSize::at_least(9).entries(), 16U);
}

TEST(RingSize, SlotAndRoundOfAFreeRunningIndex) {
    const RingSize size = RingSize::from_log(3);
    EXPECT_EQ(size.slot(7), 7U);
    EXPECT_EQ(size.slot(8), 0U);
    EXPECT_FALSE(size.round_parity(7));
    EXPECT_TRUE(size.round_parity(8));
    EXPECT_FALSE(size.round_parity(16));
    EXPECT_EQ(size.slot(0xffffffffU), 7U);
}

TEST(RingBefore, HoldsAcrossTheWrap) {
    EXPECT_TRUE(ring_before<std::uint16_t>(0xfffe, 1));
    EXPECT_FALSE(ring_before<std::uint16_t>(1, 0xfffe));
    EXPECT_FALSE(ring_before<std::uint16_t>(5, 5));
    EXPECT_TRUE(ring_before<std::uint32_t>(0xffffffffU, 0));
}

TEST(AlignUp, RoundsToTheNextMultiple) {
    EXPECT_EQ(align_up(0U, 64U), 0U);
    EXPECT_EQ(align_up(1U, 64U), 64U);
    EXPECT_EQ(align_up(64U, 64U), 64U);
    EXPECT_EQ(div_round_up(65, 64), 2U);
}

namespace {
enum class Colour : unsigned { red = 1, green = 2, blue = 4 };
}

TEST(Flags, HasAsksForAllOfThem) {
    const Flags<Colour> flags{Colour::red, Colour::blue};
    EXPECT_TRUE(flags.has(Colour::red));
    EXPECT_FALSE(flags.has({Colour::red, Colour::green}));
    EXPECT_EQ(flags.without(Colour::red), Flags<Colour>{Colour::blue});
    EXPECT_FALSE(flags.without(flags).any());
}
