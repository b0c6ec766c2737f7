// SPDX-License-Identifier: BSD-3-Clause
#include "quiet.hpp"

#include <algorithm>
#include <array>

namespace bench {

std::uint64_t calibrate() noexcept {
    // Independent chains of multiplications and loads: slower both when the clock is lower and when another
    // hardware thread takes part of the core.
    static std::array<std::uint64_t, 1024> table{};
    static std::uint64_t result;
    std::uint64_t a = 1, b = 2, c = 3, d = 4;
    const std::uint64_t begun = cycles_now();
    for (unsigned i = 0; i < 20000; ++i) {
        a = a * 0x9e3779b97f4a7c15U + table[i % table.size()];
        b = b * 0xbf58476d1ce4e5b9U + table[(i * 7) % table.size()];
        c ^= a + (b << 7);
        d += c ^ table[(i * 13) % table.size()];
    }
    const std::uint64_t took = cycles_now() - begun;
    result += d;
    asm volatile("" : : "m"(result));
    return took;
}

std::vector<double> Rounds::kept(std::uint64_t best) const {
    std::vector<double> kept;
    for (const Round& round : rounds_)
        if (round.calibration <= best + best * 3 / 100) kept.push_back(round.cycles_per_packet);
    return kept;
}

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2 != 0) return *middle;
    return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

} // namespace bench
