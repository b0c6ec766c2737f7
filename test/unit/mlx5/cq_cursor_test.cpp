// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/cq_cursor.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

namespace stride::mlx5 {
namespace {

struct Cq {
    explicit Cq(std::uint32_t log_entries, std::uint32_t cqe_bytes)
        : memory((std::size_t{1} << log_entries) * cqe_bytes)
        , ring{.cqes = memory.data(),
               .size = RingSize::from_log(log_entries),
               .cqe_bytes = cqe_bytes,
               .dbrec = dbrec.data()} {
        for (std::uint32_t n = 0; n < ring.size.entries(); ++n)
            at(n).op_own = MLX5_CQE_INVALID << 4;
    }
    mlx5_cqe64& at(std::uint32_t index) {
        return *reinterpret_cast<mlx5_cqe64*>(
            memory.data() + std::size_t{ring.size.slot(index)} * ring.cqe_bytes + ring.cqe_bytes - 64);
    }
    void complete(std::uint32_t index) {
        at(index).wqe_counter = be16{static_cast<std::uint16_t>(index)}.wire();
        at(index).op_own =
            static_cast<std::uint8_t>(MLX5_CQE_RESP_SEND << 4 | (ring.size.round_parity(index) ? 1 : 0));
    }
    std::vector<std::byte> memory;
    std::array<be32, 2> dbrec{};
    CqRing ring;
};

TEST(CqCursor, FreshCqesBelongToTheDevice) {
    Cq cq{3, 64};
    EXPECT_EQ(CqCursor{cq.ring}.poll(), nullptr);
}

TEST(CqCursor, OwnerBitTurnsWithEachRoundInBothCqeSizes) {
    for (const std::uint32_t cqe_bytes : {64U, 128U}) {
        Cq cq{3, cqe_bytes};
        CqCursor cursor{cq.ring};
        for (std::uint32_t index = 0; index < 50; ++index) {
            ASSERT_EQ(cursor.poll(), nullptr) << index;
            cq.complete(index);
            const mlx5_cqe64* cqe = cursor.poll();
            ASSERT_EQ(cqe, &cq.at(index));
            ASSERT_EQ(wqe_counter(*cqe), index);
            cursor.consume();
        }
    }
}

TEST(CqCursor, DoorbellRecordIsBigEndianAndHas24Bits) {
    Cq cq{1, 64};
    CqCursor cursor{cq.ring};
    cursor.consume(0x01234567);
    cursor.publish();
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(cq.dbrec.data());
    EXPECT_EQ(bytes[0], 0x00);
    EXPECT_EQ(bytes[1], 0x23);
    EXPECT_EQ(bytes[2], 0x45);
    EXPECT_EQ(bytes[3], 0x67);
}

} // namespace
} // namespace stride::mlx5
