// SPDX-License-Identifier: BSD-3-Clause
#include "mprq/shape_choice.hpp"
#include "mprq/waste.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

using namespace stride::mprq;
using stride::mlx5::StrideMap;

namespace {

/// 8 strides of 256 bytes.
constexpr StrideMap small_wqe{8, 3, false};

WasteTally tally_of(const StrideMap& map, std::initializer_list<std::uint32_t> lengths,
                    AttachRule rule = {}) {
    WasteTally tally{map, rule};
    for (const std::uint32_t length : lengths)
        tally.add(length);
    return tally;
}

} // namespace

TEST(Waste, OfAShortPacketIsTheRestOfItsStride) {
    EXPECT_EQ(tally_of(small_wqe, {1}).waste_bytes(), 255U);
    EXPECT_EQ(tally_of(small_wqe, {64}).waste_bytes(), 192U);
}

TEST(Waste, OfALongPacketIsTheRestOfItsLastStrideAndNothingIfItDivides) {
    EXPECT_EQ(tally_of(small_wqe, {256}).waste_bytes(), 0U);
    EXPECT_EQ(tally_of(small_wqe, {257}).waste_bytes(), 255U);
    EXPECT_EQ(tally_of(small_wqe, {1024}).waste_bytes(), 0U);
    EXPECT_EQ(tally_of(small_wqe, {1500}).waste_bytes(), 36U);
}

TEST(Waste, CountsTheTwoBytesOfTheShiftAsUsed) {
    const StrideMap shifted{8, 3, true};
    EXPECT_EQ(tally_of(shifted, {254}).waste_bytes(), 0U);
    EXPECT_EQ(tally_of(shifted, {255}).strides, 2U);
    EXPECT_EQ(tally_of(shifted, {255}).waste_bytes(), 255U);
}

TEST(Waste, APacketThatDoesNotFitWastesTheEndOfTheWqe) {
    const WasteTally tally = tally_of(small_wqe, {1280, 1024}); // 5 strides, then 4 of the 3 left
    EXPECT_EQ(tally.wqes, 2U);
    EXPECT_EQ(tally.fillers, 1U);
    EXPECT_EQ(tally.filler_strides, 3U);
    EXPECT_EQ(tally.waste_bytes(), 3U * 256);
    EXPECT_DOUBLE_EQ(tally.waste_share(), 3.0 / 12.0);
}

TEST(Waste, APacketThatFillsTheWqeLeavesNoFiller) {
    const WasteTally tally = tally_of(small_wqe, {1024, 1024, 2048, 1});
    EXPECT_EQ(tally.wqes, 3U);
    EXPECT_EQ(tally.fillers, 0U);
    EXPECT_EQ(tally.strides, 17U);
}

TEST(Waste, APacketThatNoWqeHoldsTakesNothing) {
    const WasteTally tally = tally_of(small_wqe, {100, 2049, 100});
    EXPECT_EQ(tally.too_long, 1U);
    EXPECT_EQ(tally.packets, 2U);
    EXPECT_EQ(tally.wqes, 1U);
}

TEST(Waste, APacketBehindATailShorterThanTheHeadroomIsCopied) {
    // 250 bytes leave a tail of 6; behind a packet that was copied itself there is room again.
    EXPECT_EQ(tally_of(small_wqe, {250, 250}).copied_no_headroom, 1U);
    EXPECT_EQ(tally_of(small_wqe, {250, 250, 250}).copied_no_headroom, 1U);
    EXPECT_EQ(tally_of(small_wqe, {250, 64, 250}).copied_no_headroom, 0U);
    EXPECT_EQ(tally_of(small_wqe, {129, 129}).copied_no_headroom, 1U); // a tail of 127
    EXPECT_EQ(tally_of(small_wqe, {384, 384}).copied_no_headroom, 0U); // a tail of 128
    EXPECT_EQ(tally_of(small_wqe, {128, 128}).copied_short, 2U);
}

TEST(Waste, TheFirstPacketOfAWqeHasItsBuffersHeadroom) {
    EXPECT_EQ(tally_of(small_wqe, {2048, 2048, 2048}).copied_no_headroom, 0U);
}

TEST(Shapes, AreThoseTheDeviceOffers) {
    const std::vector<std::uint32_t> lengths{64};
    StridingLimits limits;
    limits.min_log_stride_bytes = 6;
    limits.max_log_stride_bytes = 8;
    limits.min_log_strides = 5;
    limits.max_log_strides = 6;
    limits.min_log_wqe_bytes = 12;
    const auto uses = measure_shapes(lengths, limits, {});
    EXPECT_EQ(uses.size(), 5U); // 64 x 32 is too small
    EXPECT_TRUE(std::none_of(uses.begin(), uses.end(),
                             [](const ShapeUse& use) { return use.stride_bytes() * use.strides() < 4096; }));
    limits.max_log_strides = 16;
    for (const ShapeUse& use : measure_shapes(lengths, limits, {}))
        EXPECT_LE(use.log_strides, 15U) << "the CQE counts strides in 15 bits";
}

TEST(Shapes, ABurstTakesAsManyWqesAsItsPacketsNeed) {
    const std::vector<std::uint32_t> lengths{1500}; // 6 strides: one packet in 8
    StridingLimits limits;
    limits.min_log_stride_bytes = limits.max_log_stride_bytes = 8;
    limits.min_log_strides = limits.max_log_strides = 3;
    ShapeGoal goal;
    goal.burst_packets = 100;
    goal.stride_header_bytes = 10;
    const auto uses = measure_shapes(lengths, limits, goal);
    ASSERT_EQ(uses.size(), 1U);
    EXPECT_EQ(uses[0].burst_wqes, 100U);
    EXPECT_EQ(uses[0].burst_bytes, 100U * 8 * 266);
}

TEST(Shapes, TheChoiceTakesEveryPacketAndNamesItsReason) {
    const std::vector<std::uint32_t> imix{64, 590, 64, 64, 590, 64, 1514, 64, 590, 64, 590, 64};
    const ShapeGoal goal;
    const auto uses = measure_shapes(imix, {}, goal);
    const ShapeChoice choice = choose_shape(uses, goal);
    ASSERT_NE(choice.use, nullptr);
    EXPECT_EQ(choice.use->all.too_long, 0U);
    EXPECT_GE(choice.use->all.packets_per_wqe(), 64 * 0.99);
    EXPECT_NE(choice.why.find("16384 packets"), std::string::npos) << choice.why;
    for (const ShapeUse& use : uses)
        if (use.all.too_long == 0 && use.all.packets_per_wqe() >= goal.min_packets_per_wqe &&
            use.copied_share() <= goal.max_copied_share) {
            EXPECT_LE(choice.use->burst_bytes, use.burst_bytes);
        }
}

TEST(Shapes, ThereIsNoChoiceForPacketsLongerThanAnyWqe) {
    const std::vector<std::uint32_t> lengths{9000};
    StridingLimits limits;
    limits.max_log_stride_bytes = 6;
    limits.max_log_strides = 3;
    EXPECT_EQ(choose_shape(measure_shapes(lengths, limits, {}), {}).use, nullptr);
}
