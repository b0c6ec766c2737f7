// SPDX-License-Identifier: BSD-3-Clause
/// Protection domains and memory regions. All functions: commands held; 0 or an errno.
#pragma once

#include "swhca/hca/device.hpp"

#include <cstdint>

namespace swhca {

int alloc_pd(Context& context, Pd*& pd);
/// EBUSY while anything lives in it.
int dealloc_pd(Context& context, std::uint32_t handle);

/// As REG_MR says it. `access` in IB_UVERBS_ACCESS_* bits.
struct MrRequest {
    std::uint64_t start{}, length_bytes{}, iova{};
    std::uint32_t pd_handle{}, access{};
};

int reg_mr(Context& context, const MrRequest& request, std::uint32_t& handle, Lkey& lkey);
/// What REREG_MR changes; bits of its `flags`.
namespace mr_change {
constexpr std::uint32_t range = 1, pd = 2, access = 4;
}
/// The members of `request` that `changes` names take effect, the key stays.
int rereg_mr(Context& context, std::uint32_t handle, std::uint32_t changes, const MrRequest& request,
             Lkey& lkey);
int dereg_mr(Context& context, std::uint32_t handle);

/// The domain numbered `pdn`, which must live in the context.
Pd& domain_of(Context& context, Pdn pdn) noexcept;

} // namespace swhca
