// SPDX-License-Identifier: BSD-3-Clause
#include "mprq/geometry.hpp"
#include "mprq/shape_choice.hpp"

#include <gtest/gtest.h>

#include <bit>

namespace stride::mprq {
namespace {

constexpr GeometryRequest ordinary{.max_frame_bytes = 1522, .descriptors = 1024, .headroom_bytes = 128};

void expect_within(const Geometry& shape, const GeometryRequest& request, const StridingLimits& limits) {
    EXPECT_GE(shape.log_stride_bytes, limits.min_log_stride_bytes);
    EXPECT_LE(shape.log_stride_bytes, limits.max_log_stride_bytes);
    EXPECT_GE(shape.log_strides, limits.min_log_strides);
    EXPECT_LE(shape.log_strides, limits.max_log_strides);
    EXPECT_GE(shape.log_stride_bytes + shape.log_strides, limits.min_log_wqe_bytes);
    EXPECT_GE(shape.wqe_bytes(), request.max_frame_bytes + (request.two_byte_shift ? 2 : 0));
    EXPECT_GE(shape.wqes(), 2U);
    EXPECT_GE(shape.cq_entries(), request.descriptors);
    EXPECT_LE(shape.wqes(), limits.max_wqes);
    EXPECT_LE(shape.cq_entries(), limits.max_cqes);
}

TEST(Geometry, OrdinaryFramesTakeOneStrideWithTheirHeadroom) {
    const auto plan = plan_geometry(ordinary, {});
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan.value().geometry.stride_bytes(), 2048U);
    EXPECT_EQ(plan.value().geometry.wqes(), 4U);
    EXPECT_EQ(plan.value().geometry.descriptors(), 1024U);
    EXPECT_EQ(plan.value().warning, "");
}

TEST(Geometry, JumboFramesTakeSeveralStridesNotLargerOnes) {
    GeometryRequest request = ordinary;
    for (const std::uint32_t frame : {9022U, 25214U, 65000U}) {
        request.max_frame_bytes = frame;
        const auto plan = plan_geometry(request, {});
        ASSERT_TRUE(plan.ok());
        EXPECT_EQ(plan.value().geometry.stride_bytes(), 2048U);
        expect_within(plan.value().geometry, request, {});
    }
}

TEST(Geometry, AsManyDescriptorsAsStridesInAWqeStillGiveTwoWqes) {
    const StridingLimits limits{.min_log_strides = 9, .max_log_strides = 9};
    GeometryRequest request = ordinary;
    request.descriptors = 512;
    const auto plan = plan_geometry(request, limits);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan.value().geometry.wqes(), 2U);
    EXPECT_EQ(plan.value().geometry.descriptors(), 1024U);
}

TEST(Geometry, EveryOverrideUnderEveryLimitFitsOrIsAClearError) {
    for (std::uint32_t min_stride = 6; min_stride <= 11; min_stride += 5)
        for (std::uint32_t max_stride = min_stride; max_stride <= 13; ++max_stride)
            for (std::uint32_t min_strides = 3; min_strides <= 9; min_strides += 3)
                for (std::uint32_t min_wqe = 0; min_wqe <= 21; min_wqe += 7)
                    for (const std::uint32_t stride :
                         {0U, 1U, 63U, 64U, 100U, 2048U, 8192U, 9000U, 4000000000U})
                        for (const std::uint32_t strides : {0U, 1U, 8U, 9U, 512U, 70000U, 4000000000U})
                            for (const std::uint32_t frame : {64U, 1522U, 9022U}) {
                                const StridingLimits limits{.min_log_stride_bytes = min_stride,
                                                            .max_log_stride_bytes = max_stride,
                                                            .min_log_strides = min_strides,
                                                            .max_log_strides = 12,
                                                            .min_log_wqe_bytes = min_wqe};
                                const GeometryRequest request{.max_frame_bytes = frame,
                                                              .descriptors = 256,
                                                              .headroom_bytes = 128,
                                                              .stride_bytes = stride,
                                                              .strides_per_wqe = strides};
                                auto plan = plan_geometry(request, limits);
                                if (!plan.ok()) {
                                    ASSERT_NE(plan.error().what, "");
                                    continue;
                                }
                                const Geometry& shape = plan.value().geometry;
                                expect_within(shape, request, limits);
                                const bool moved = (stride != 0 && shape.stride_bytes() != stride) ||
                                                   (strides != 0 && shape.strides_per_wqe() != strides);
                                ASSERT_EQ(plan.value().warning.empty(), !moved) << plan.value().warning;
                            }
}

TEST(Geometry, MostDescriptorsWorkAndOneMoreIsRefused) {
    GeometryRequest request = ordinary;
    request.descriptors = max_descriptors;
    const auto most = plan_geometry(request, {});
    ASSERT_TRUE(most.ok());
    EXPECT_GE(most.value().geometry.descriptors(), max_descriptors);
    request.descriptors = max_descriptors + 1;
    EXPECT_FALSE(plan_geometry(request, {}).ok());
}

TEST(Geometry, RingForABurstOfMixedPacketsIsAQuarterOfASinglePacketRing) {
    GeometryRequest request = ordinary;
    request.descriptors = 16384;
    const auto plan = plan_geometry(request, {});
    ASSERT_TRUE(plan.ok());
    const Geometry& shape = plan.value().geometry;
    const std::uint64_t imix_strides_of_burst = 16384ULL * (7 + 4 * 5 + 12) / 12;
    EXPECT_EQ(shape.stride_bytes(), 128U);
    EXPECT_GE(std::uint64_t{shape.posted_wqes()} * shape.strides_per_wqe(), imix_strides_of_burst);
    EXPECT_LE(std::uint64_t{shape.buffers()} * shape.wqe_bytes(), 16384ULL * (2176 + 128 + 64) / 4);
    expect_within(shape, request, {});
}

TEST(Geometry, RingForABurstHasTheShapeThatStridePlanRecommendsForImix) {
    for (const std::uint32_t min_log_stride : {6U, 7U, 9U}) {
        const StridingLimits limits{.min_log_stride_bytes = min_log_stride};
        GeometryRequest request = ordinary;
        request.descriptors = 16384;
        const auto plan = plan_geometry(request, limits);
        ASSERT_TRUE(plan.ok());
        const ShapeGoal goal{.burst_packets = 16384, .rule = {256, 128}};
        const std::vector<ShapeUse> uses = measure_shapes(imix_bytes, limits, goal);
        const ShapeChoice choice = choose_shape(uses, goal);
        ASSERT_NE(choice.use, nullptr);
        EXPECT_EQ(plan.value().geometry.stride_bytes(), choice.use->stride_bytes());
        EXPECT_EQ(plan.value().geometry.strides_per_wqe(), choice.use->strides());
        EXPECT_GE(plan.value().geometry.posted_wqes(), choice.use->burst_wqes);
    }
}

TEST(Geometry, FrameWithoutLengthOrBeyond16BitsIsRefused) {
    GeometryRequest request = ordinary;
    request.max_frame_bytes = 0;
    EXPECT_FALSE(plan_geometry(request, {}).ok());
    request.max_frame_bytes = 65500;
    EXPECT_FALSE(plan_geometry(request, {}).ok());
}

TEST(Geometry, LimitsWithoutAWqeForTheFrameAreNotSupported) {
    const StridingLimits tiny{
        .min_log_stride_bytes = 6, .max_log_stride_bytes = 8, .min_log_strides = 1, .max_log_strides = 2};
    const auto plan = plan_geometry(ordinary, tiny);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().code, ENOTSUP);
}

TEST(Geometry, NoSpareBufferMayBeAskedFor) {
    GeometryRequest request = ordinary;
    request.spare_wqes = 0;
    const auto plan = plan_geometry(request, {});
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan.value().geometry.buffers(), plan.value().geometry.wqes());
}

} // namespace
} // namespace stride::mprq
