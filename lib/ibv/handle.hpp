// SPDX-License-Identifier: BSD-3-Clause
/// Owners of raw verbs objects, and the error every failed verbs call turns into.
#pragma once

#include "base/format.hpp"
#include "base/result.hpp"

#include <infiniband/verbs.h>

#include <memory>

namespace stride::ibv {

/// Destroys a verbs object; a refusal (an object still in use) is logged, for nobody can act on it any more.
struct Destroy {
    void operator()(ibv_context* context) const noexcept;
    void operator()(ibv_pd* pd) const noexcept;
    void operator()(ibv_mr* mr) const noexcept;
    void operator()(ibv_cq* cq) const noexcept;
    void operator()(ibv_comp_channel* channel) const noexcept;
    void operator()(ibv_wq* wq) const noexcept;
    void operator()(ibv_rwq_ind_table* table) const noexcept;
    void operator()(ibv_qp* qp) const noexcept;
    void operator()(ibv_flow* flow) const noexcept;
};

template <class T>
using Handle = std::unique_ptr<T, Destroy>;

/// The error of a verbs call that has just failed: `code` (0: take errno) with its text after `what`.
Error verbs_error(int code, std::string what);

} // namespace stride::ibv
