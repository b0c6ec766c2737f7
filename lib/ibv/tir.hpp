// SPDX-License-Identifier: BSD-3-Clause
/// Transport interface receive (TIR; verbs: hash QP): hashes a packet and looks the queue up in an RQT.
#pragma once

#include "ibv/rqt.hpp"

#include <array>
#include <cstdint>
#include <memory>

namespace stride::ibv {

inline constexpr std::size_t rss_key_bytes = 40;
using RssKey = std::array<std::uint8_t, rss_key_bytes>;

struct TirConfig {
    /// IBV_RX_HASH_* of one IP version and at most one L4 protocol (the device refuses mixtures); 0: no
    /// hashing, every packet goes to the table's first queue.
    std::uint64_t hash_fields{};
    RssKey key{}; ///< Toeplitz
};

class Tir {
  public:
    /// `rqt` must outlive the TIR.
    static Result<Tir> create(std::shared_ptr<Device> device, const Rqt& rqt, const TirConfig& config);

    ibv_qp* get() const noexcept { return qp_.get(); }

  private:
    explicit Tir(Owned<ibv_qp> qp) noexcept
        : qp_{std::move(qp)} {}

    Owned<ibv_qp> qp_;
};

} // namespace stride::ibv
