// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/checksum.hpp"

namespace swhca {
namespace {

/// Eight 32-bit words at a time, in 64-bit lanes that can't overflow.
template <class Lanes>
[[gnu::always_inline]] inline std::uint64_t sum_lanes(const std::byte*& data, std::size_t& length) noexcept {
    Lanes low{}, high{};
    for (; length >= 2 * sizeof(Lanes); data += 2 * sizeof(Lanes), length -= 2 * sizeof(Lanes)) {
        Lanes first, second;
        std::memcpy(&first, data, sizeof first);
        std::memcpy(&second, data + sizeof first, sizeof second);
        low += (first & 0xffffffffU) + (second & 0xffffffffU);
        high += (first >> 32) + (second >> 32);
    }
    low += high;
    std::uint64_t sum = 0;
    for (std::size_t lane = 0; lane < sizeof(Lanes) / 8; ++lane)
        sum += (low[lane] & 0xffffffffU) + (low[lane] >> 32);
    return sum;
}

using Lanes128 = std::uint64_t __attribute__((vector_size(16)));
using Lanes256 = std::uint64_t __attribute__((vector_size(32)));

std::uint64_t sum_long_sse2(const std::byte* data, std::size_t length) noexcept {
    const std::uint64_t sum = sum_lanes<Lanes128>(data, length);
    return sum + sum_bytes(data, length);
}

__attribute__((target("avx2"))) std::uint64_t sum_long_avx2(const std::byte* data,
                                                            std::size_t length) noexcept {
    const std::uint64_t sum = sum_lanes<Lanes256>(data, length);
    return sum + sum_bytes(data, length);
}

} // namespace

std::uint64_t sum_long(const std::byte* data, std::size_t length) noexcept {
    static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
    return has_avx2 ? sum_long_avx2(data, length) : sum_long_sse2(data, length);
}

} // namespace swhca
