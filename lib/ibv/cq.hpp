// SPDX-License-Identifier: BSD-3-Clause
/// Completion queues, created with the CQE size and format that the driver parses, never the library's
/// default.
#pragma once

#include "base/barrier.hpp"
#include "ibv/device.hpp"
#include "mlx5/rings.hpp"

#include <cstdint>
#include <memory>

namespace stride::ibv {

/// A completion channel: its fd becomes readable when an armed CQ gets a completion.
class CompletionChannel {
  public:
    static Result<CompletionChannel> create(std::shared_ptr<Device> device);
    int fd() const noexcept { return channel_->fd; }
    ibv_comp_channel* get() const noexcept { return channel_.get(); }

  private:
    explicit CompletionChannel(Owned<ibv_comp_channel> channel) noexcept
        : channel_{std::move(channel)} {}

    Owned<ibv_comp_channel> channel_;
};

struct CqConfig {
    std::uint32_t cqes{};               ///< at least so many; rounded up to a power of two
    std::uint32_t cqe_bytes{64};        ///< 64 or 128
    std::uint32_t compression_format{}; ///< one of MLX5DV_CQE_RES_FORMAT_*; 0: plain CQEs only
    ibv_comp_channel* channel{};        ///< nullptr: polled only
};

class Cq {
  public:
    /// EINVAL: more CQEs than the device has, or a size or format that it did not grant.
    static Result<Cq> create(std::shared_ptr<Device> device, const CqConfig& config);

    /// The ring as mlx5dv_init_obj gives it; valid as long as this object.
    const mlx5::CqRing& ring() const noexcept { return ring_; }
    ibv_cq* get() const noexcept { return cq_.get(); }

  private:
    Cq(Owned<ibv_cq> cq, mlx5::CqRing ring) noexcept
        : cq_{std::move(cq)}
        , ring_{ring} {}

    Owned<ibv_cq> cq_;
    mlx5::CqRing ring_;
};

/// Runs `change`, a state change by libmlx5, and puts the CQ's consumer index back. On the way to RESET
/// libmlx5 cleans the CQ from its own index, which nobody moves here, and publishes that one.
template <class Change>
int keep_cq_index(be32* cq_dbrec, Change&& change) noexcept {
    const be32 ci = peek_from_device(cq_dbrec);
    const int code = change();
    store_to_device(cq_dbrec, ci);
    return code;
}

} // namespace stride::ibv
