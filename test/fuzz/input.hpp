// SPDX-License-Identifier: BSD-3-Clause
/// The fuzzer's bytes, taken from the front; what is missing is zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

namespace fuzz {

class Input {
  public:
    Input(const std::uint8_t* data, std::size_t size)
        : rest_{data, size} {}

    bool empty() const noexcept { return rest_.empty(); }
    /// Up to `size` bytes.
    std::span<const std::uint8_t> some(std::size_t size) noexcept {
        const auto taken = rest_.first(std::min(size, rest_.size()));
        rest_ = rest_.subspan(taken.size());
        return taken;
    }
    std::span<const std::uint8_t> all() noexcept { return some(rest_.size()); }
    template <class T>
    T take() noexcept {
        T value{};
        const auto bytes = some(sizeof value);
        if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
        return value;
    }
    std::uint8_t byte() noexcept { return take<std::uint8_t>(); }
    std::uint16_t word() noexcept { return take<std::uint16_t>(); }

  private:
    std::span<const std::uint8_t> rest_;
};

inline std::string_view text_of(std::span<const std::uint8_t> bytes) noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A property that has to hold; else this is a finding.
inline void check(bool holds, const char* what) noexcept {
    if (holds) [[likely]]
        return;
    std::fprintf(stderr, "finding: %s\n", what);
    std::abort();
}

} // namespace fuzz
