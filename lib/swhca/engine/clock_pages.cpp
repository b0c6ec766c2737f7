// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/clock_pages.hpp"

#include "base/barrier.hpp"
#include "base/be.hpp"
#include "base/clock.hpp"
#include "swhca/engine/receive.hpp"

#include <algorithm>
#include <rdma/mlx5-abi.h>

namespace swhca {
namespace {

constexpr std::uint64_t info_period_ns = 1'000'000'000;

template <class T>
void set(T* member, T value) noexcept {
    __atomic_store_n(member, value, __ATOMIC_RELAXED);
}

/// A reader takes the values of one update: the sign is odd while they change (libmlx5,
/// mlx5dv_get_clock_info). The counter counts nanoseconds, so nothing has to be scaled.
void write_info(std::byte* page, std::uint64_t counter) noexcept {
    auto* info = reinterpret_cast<mlx5_ib_clock_info*>(page);
    const std::uint32_t sign = info->sign;
    __atomic_store_n(&info->sign, sign + MLX5_IB_CLOCK_INFO_KERNEL_UPDATING, __ATOMIC_SEQ_CST);
    set<__u64>(&info->nsec, stride::clock_ns(CLOCK_REALTIME));
    set<__u64>(&info->cycles, counter);
    set<__u64>(&info->frac, 0);
    set<__u32>(&info->mult, 1);
    set<__u32>(&info->shift, 0);
    set<__u64>(&info->mask, ~0ULL);
    set<__u64>(&info->overflow_period, info_period_ns);
    __atomic_store_n(&info->sign, sign + 2 * MLX5_IB_CLOCK_INFO_KERNEL_UPDATING, __ATOMIC_SEQ_CST);
}

} // namespace

void ClockPages::show(std::byte* counter_page, std::byte* info_page) {
    pages_.push_back({counter_page, info_page});
    next_info_ns_ = 0;
    refresh();
}

void ClockPages::forget(const std::byte* counter_page) noexcept {
    pages_.erase(std::remove_if(pages_.begin(), pages_.end(),
                                [&](const Pages& pages) { return pages.counter == counter_page; }),
                 pages_.end());
}

void ClockPages::refresh() noexcept {
    if (pages_.empty()) return;
    const std::uint64_t now = device_clock_ns();
    const bool info_due = now >= next_info_ns_;
    for (const Pages& pages : pages_) {
        stride::store_to_device(reinterpret_cast<stride::be64*>(pages.counter), stride::be64{now});
        if (info_due) write_info(pages.info, now);
    }
    if (info_due) next_info_ns_ = now + info_period_ns;
}

} // namespace swhca
