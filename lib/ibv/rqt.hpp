// SPDX-License-Identifier: BSD-3-Clause
/// Receive indirection table (RQT; ethdev: RETA): hash bits to receive queue. Immutable; a change makes a new
/// one.
#pragma once

#include "ibv/rq.hpp"

#include <memory>
#include <span>

namespace stride::ibv {

class Rqt {
  public:
    /// `wqs`: a power of two of entries, each alive as long as the table.
    static Result<Rqt> create(std::shared_ptr<Device> device, std::span<ibv_wq* const> wqs);

    ibv_rwq_ind_table* get() const noexcept { return table_.get(); }

  private:
    explicit Rqt(Owned<ibv_rwq_ind_table> table) noexcept
        : table_{std::move(table)} {}

    Owned<ibv_rwq_ind_table> table_;
};

} // namespace stride::ibv
