// SPDX-License-Identifier: BSD-3-Clause
/// The receive side of an HCA, small and slow, for unit tests: it reads WQEs and doorbell records, writes
/// strides and CQEs as mlx5dv.h lays them out, and fails the test when the queue breaks a rule.
#pragma once

#include "mlx5/receive_cqe.hpp"
#include "mlx5/receive_wqe.hpp"
#include "mlx5/rings.hpp"
#include "mprq/rx_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <vector>

namespace stride::mprq::test {

inline constexpr std::uint32_t test_lkey = 0x1234;

struct Range {
    std::uintptr_t base;
    std::size_t bytes;
};

class FakeHca {
  public:
    using Edit = std::function<void(mlx5_cqe64&)>;

    FakeHca(std::uint32_t log_wqes, std::uint32_t log_wqe_bytes, std::uint32_t log_cqes,
            std::uint32_t cqe_bytes = 64)
        : cqe_memory_((std::size_t{1} << log_cqes) * cqe_bytes / sizeof(Line))
        , wqe_memory_((std::size_t{1} << (log_wqes + log_wqe_bytes)) / sizeof(Line) + 1) {
        cq_ring = {.cqes = reinterpret_cast<std::byte*>(cqe_memory_.data()),
                   .size = RingSize::from_log(log_cqes),
                   .cqe_bytes = cqe_bytes,
                   .dbrec = cq_dbrec_.data()};
        rq_ring = {.wqes = reinterpret_cast<std::byte*>(wqe_memory_.data()),
                   .size = RingSize::from_log(log_wqes),
                   .log_wqe_bytes = log_wqe_bytes,
                   .dbrec = rq_dbrec_.data()};
        for (std::uint32_t n = 0; n < cq_ring.size.entries(); ++n)
            cqe_at(n).op_own = MLX5_CQE_INVALID << 4;
    }

    /// A striding HCA for `geometry`.
    static FakeHca striding(const Geometry& geometry, std::uint32_t cqe_bytes = 64) {
        FakeHca hca{geometry.log_wqes, 5, geometry.log_wqes + geometry.log_strides, cqe_bytes};
        hca.shape_ = geometry;
        return hca;
    }

    RxQueueOwner owner() {
        return {
            .context = this,
            .register_memory = [](void* context, void* base, std::size_t bytes) -> Result<RegisteredMemory> {
                auto& hca = *static_cast<FakeHca*>(context);
                if (hca.fail_registration) return Error{ENOMEM, "fake: no MR"};
                hca.registered = {reinterpret_cast<std::uintptr_t>(base), bytes};
                return RegisteredMemory{Lkey{test_lkey}, hca.keeper};
            },
            .lkey_of =
                [](void* context, std::uintptr_t) noexcept {
                    return be32{static_cast<FakeHca*>(context)->no_keys ? UINT32_MAX : test_lkey};
                },
            .reset_wq =
                [](void* context) noexcept {
                    auto& hca = *static_cast<FakeHca*>(context);
                    if (hca.fail_reset) return false;
                    hca.reset();
                    return true;
                },
            .ready_wq =
                [](void* context) noexcept {
                    auto& hca = *static_cast<FakeHca*>(context);
                    hca.ready = !hca.fail_ready;
                    return hca.ready;
                }};
    }

    void reset() {
        ready = false;
        rq_ci_ = 0;
        next_stride_ = 0;
        rq_dbrec_[0] = be32{0};
    }

    /// Receives a frame into a striding queue. False: no WQE posted (out_of_buffer).
    bool receive(std::span<const std::byte> frame, const Edit& edit = {}) {
        const std::uint32_t shift = shape_.two_byte_shift ? 2 : 0;
        const auto bytes = static_cast<std::uint32_t>(frame.size());
        const std::uint32_t strides = (bytes + shift + shape_.stride_bytes() - 1) / shape_.stride_bytes();
        if (posted() == 0) return false;
        if (next_stride_ + strides > shape_.strides_per_wqe()) {
            fill(shape_.strides_per_wqe() - next_stride_);
            if (posted() == 0) return false;
        }
        std::byte* at = stride_address(next_stride_);
        std::memset(at, 0, shift);
        std::memcpy(at + shift, frame.data(), frame.size());
        complete(strides, mlx5::StridingByteCount::make(false, strides, bytes), edit);
        return true;
    }
    /// Receives frames that fit one WQE, and writes one block of mini-CQEs for them: CSUM_STRIDX, or HASH
    /// with the hashes given.
    void receive_compressed(const std::vector<std::vector<std::byte>>& frames, const Edit& edit = {},
                            const std::vector<std::uint32_t>& hashes = {}) {
        const std::uint32_t title_index = cq_pi_;
        const std::uint32_t first_stride = next_stride_;
        std::vector<std::array<std::uint32_t, 2>> minis;
        for (const auto& frame : frames) {
            const auto bytes = static_cast<std::uint32_t>(frame.size());
            const std::uint32_t strides = (bytes + shape_.stride_bytes() - 1) / shape_.stride_bytes();
            std::memcpy(stride_address(next_stride_), frame.data(), bytes);
            const std::uint32_t said = hashes.empty() ? next_stride_ : hashes[minis.size()];
            minis.push_back({be32{said}.wire(), be32{strides << 16 | bytes}.wire()});
            next_stride_ += strides;
        }
        EXPECT_LE(next_stride_, shape_.strides_per_wqe());
        for (std::uint32_t n = 0; n < minis.size(); n += 8)
            for (std::uint32_t at = n; at < std::min<std::size_t>(n + 8, minis.size()); ++at)
                std::memcpy(reinterpret_cast<std::byte*>(&cqe_at(title_index + (n == 0 ? 1 : n))) +
                                (at - n) * 8,
                            &minis[at], 8);
        mlx5_cqe64 title{};
        title.wqe_counter = be16{static_cast<std::uint16_t>(first_stride)}.wire();
        title.byte_cnt = be32{static_cast<std::uint32_t>(minis.size())}.wire();
        title.op_own = static_cast<std::uint8_t>(MLX5_CQE_RESP_SEND << 4 | 3 << 2);
        if (edit) edit(title);
        title.op_own =
            static_cast<std::uint8_t>(title.op_own | (cq_ring.size.round_parity(title_index) ? 1 : 0));
        cqe_at(title_index) = title;
        cq_pi_ += static_cast<std::uint32_t>(minis.size());
        if (next_stride_ != shape_.strides_per_wqe()) return;
        next_stride_ = 0;
        ++rq_ci_;
    }
    /// Reports `strides` as unused.
    void fill(std::uint32_t strides) {
        complete(strides, mlx5::StridingByteCount::make(true, strides, 0), {});
    }
    /// Leaves strides out without a word.
    void skip(std::uint32_t strides) { next_stride_ += strides; }
    /// An error CQE that consumes `strides` (0: none).
    void error(std::uint8_t syndrome, std::uint32_t strides) {
        complete(strides, mlx5::StridingByteCount::make(false, strides, 0), [syndrome](mlx5_cqe64& cqe) {
            reinterpret_cast<mlx5_err_cqe&>(cqe).syndrome = syndrome;
            cqe.op_own = static_cast<std::uint8_t>(MLX5_CQE_RESP_ERR << 4);
        });
    }
    /// Receives a frame into a single-packet queue of `sges` segments.
    bool receive_single(std::span<const std::byte> frame, std::uint32_t sges) {
        if (posted() == 0) return false;
        const std::uint32_t slot = rq_ring.size.slot(rq_ci_);
        std::size_t done = 0;
        for (std::uint32_t n = 0; n < sges && done < frame.size(); ++n) {
            const mlx5_wqe_data_seg& segment = *mlx5::data_segment(rq_ring, slot, n);
            const std::size_t part =
                std::min<std::size_t>(frame.size() - done, be32::from_wire(segment.byte_count));
            std::memcpy(reinterpret_cast<void*>(be64::from_wire(segment.addr).host()), frame.data() + done,
                        part);
            done += part;
        }
        EXPECT_EQ(done, frame.size());
        write_cqe(static_cast<std::uint16_t>(rq_ci_), static_cast<std::uint32_t>(frame.size()), {});
        ++rq_ci_;
        return true;
    }

    /// WQEs posted and not finished.
    std::uint32_t posted() const {
        if (!ready) return 0;
        return static_cast<std::uint16_t>(be32{rq_dbrec_[0]}.host() - rq_ci_);
    }
    std::uint32_t next_stride() const { return next_stride_; }

    mlx5::CqRing cq_ring;
    mlx5::RqRing rq_ring;
    Range registered{};
    std::shared_ptr<const void> keeper{std::make_shared<int>(0)};
    bool ready{true};
    bool fail_registration{}, fail_reset{}, fail_ready{};
    bool no_keys{}; ///< lkey_of finds none

  private:
    struct alignas(64) Line {
        std::byte bytes[64];
    };

    mlx5_cqe64& cqe_at(std::uint32_t index) {
        return *reinterpret_cast<mlx5_cqe64*>(cq_ring.cqes +
                                              std::size_t{cq_ring.size.slot(index)} * cq_ring.cqe_bytes +
                                              cq_ring.cqe_bytes - sizeof(mlx5_cqe64));
    }
    std::byte* stride_address(std::uint32_t index) {
        const mlx5_mprq_wqe& wqe = *mlx5::striding_wqe(rq_ring, rq_ring.size.slot(rq_ci_));
        EXPECT_EQ(be32::from_wire(wqe.dseg.lkey).host(), test_lkey);
        EXPECT_EQ(be32::from_wire(wqe.dseg.byte_count).host(), shape_.wqe_bytes());
        const auto address = static_cast<std::uintptr_t>(be64::from_wire(wqe.dseg.addr).host());
        EXPECT_GE(address, registered.base);
        EXPECT_LE(address + shape_.wqe_bytes(), registered.base + registered.bytes);
        return reinterpret_cast<std::byte*>(address) + std::size_t{index} * shape_.stride_bytes();
    }
    void complete(std::uint32_t strides, std::uint32_t byte_count, const Edit& edit) {
        write_cqe(static_cast<std::uint16_t>(next_stride_), byte_count, edit);
        next_stride_ += strides;
        EXPECT_LE(next_stride_, shape_.strides_per_wqe());
        if (next_stride_ != shape_.strides_per_wqe()) return;
        next_stride_ = 0;
        ++rq_ci_;
    }
    void write_cqe(std::uint16_t counter, std::uint32_t byte_count, const Edit& edit) {
        const std::uint32_t outstanding = (cq_pi_ - be32{cq_dbrec_[0]}.host()) & 0xffffffU;
        EXPECT_LT(outstanding, cq_ring.size.entries()) << "CQ overrun";
        mlx5_cqe64& cqe = cqe_at(cq_pi_);
        mlx5_cqe64 fresh{};
        fresh.wqe_id = be16{static_cast<std::uint16_t>(rq_ci_)}.wire();
        fresh.wqe_counter = be16{counter}.wire();
        fresh.byte_cnt = be32{byte_count}.wire();
        fresh.op_own = MLX5_CQE_RESP_SEND << 4;
        if (edit) edit(fresh);
        fresh.op_own = static_cast<std::uint8_t>(fresh.op_own | (cq_ring.size.round_parity(cq_pi_) ? 1 : 0));
        cqe = fresh;
        ++cq_pi_;
    }

    std::vector<Line> cqe_memory_, wqe_memory_;
    std::vector<be32> cq_dbrec_ = std::vector<be32>(2), rq_dbrec_ = std::vector<be32>(2); // never move
    Geometry shape_{};
    std::uint32_t cq_pi_{}, rq_ci_{}, next_stride_{};
};

} // namespace stride::mprq::test
