// SPDX-License-Identifier: BSD-3-Clause
/// Where software is in a completion queue: consumer index, owner bit, doorbell record.
#pragma once

#include "base/barrier.hpp"
#include "mlx5/receive_cqe.hpp"
#include "mlx5/rings.hpp"

namespace stride::mlx5 {

/// One thread at a time. Indices are free-running; the doorbell record holds 24 bits of them.
class CqCursor {
  public:
    CqCursor() = default;
    explicit CqCursor(const CqRing& ring) noexcept
        : first_{ring.cqes + (ring.cqe_bytes - sizeof(mlx5_cqe64))}
        , dbrec_{ring.dbrec}
        , entries_{ring.size.entries()}
        , cqe_bytes_{ring.cqe_bytes} {}

    std::uint32_t ci() const noexcept { return ci_; }
    RingSize size() const noexcept { return RingSize::at_least(entries_); }
    std::size_t cqe_bytes() const noexcept { return cqe_bytes_; }
    /// The next `count` CQEs lie side by side: the ring does not wrap in them.
    bool side_by_side(std::uint32_t count) const noexcept { return slot(ci_) + count <= entries_; }

    const mlx5_cqe64* at(std::uint32_t index) const noexcept {
        return reinterpret_cast<const mlx5_cqe64*>(first_ + std::size_t{slot(index)} * cqe_bytes_);
    }
    /// The same; only places that the device has given over are to be written.
    mlx5_cqe64* writable(std::uint32_t index) const noexcept { return const_cast<mlx5_cqe64*>(at(index)); }
    /// The owner bit of a CQE at `index` that is software's.
    unsigned owner(std::uint32_t index) const noexcept { return (index & entries_) != 0 ? 1U : 0U; }

    /// The CQE `ahead` places from the next one, or nullptr while it is the device's. Once it is returned,
    /// all of it may be read.
    const mlx5_cqe64* poll(std::uint32_t ahead = 0) const noexcept {
        const mlx5_cqe64* cqe = at(ci_ + ahead);
        const std::uint8_t op_own = load_from_device(&cqe->op_own);
        const bool ours =
            (op_own & cqe_owner_bit) == owner(ci_ + ahead) && opcode_of(op_own) != MLX5_CQE_INVALID;
        return ours ? cqe : nullptr;
    }
    void consume(std::uint32_t count = 1) noexcept { ci_ += count; }
    /// Gives consumed CQEs back to the device.
    void publish() noexcept { store_to_device(dbrec_, be32{ci_ & 0xffffffU}); }

  private:
    std::uint32_t slot(std::uint32_t index) const noexcept { return index & (entries_ - 1); }

    std::byte* first_{}; ///< in a 128-byte CQE the fields are in the second half
    be32* dbrec_{};
    std::uint32_t ci_{};
    std::uint32_t entries_{1}; ///< a power of two
    std::uint32_t cqe_bytes_{64};
};

} // namespace stride::mlx5
