// SPDX-License-Identifier: BSD-3-Clause
#include "chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace plan {
namespace {

using stride::mprq::ShapeUse;

constexpr double width = 760, height = 440, left = 80, right = 140, top = 40, bottom = 60;
constexpr const char* colours[] = {"#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad",
                                   "#d68910", "#16a085", "#7f8c8d"};

/// The plane: log of stride bytes to the right, log of burst bytes up.
struct Scale {
    double low_x, high_x, low_y, high_y;
    double x(const ShapeUse& use) const {
        return left + (use.log_stride_bytes - low_x) / std::max(1.0, high_x - low_x) * (width - left - right);
    }
    double y(double log_bytes) const {
        return height - bottom -
               (log_bytes - low_y) / std::max(1.0, high_y - low_y) * (height - top - bottom);
    }
    double y(const ShapeUse& use) const { return y(std::log2(static_cast<double>(use.burst_bytes))); }
};

Scale scale_of(std::span<const ShapeUse> uses) {
    Scale scale{1e9, 0, 1e9, 0};
    for (const ShapeUse& use : uses) {
        const double bytes = std::log2(static_cast<double>(use.burst_bytes));
        scale.low_x = std::min(scale.low_x, static_cast<double>(use.log_stride_bytes));
        scale.high_x = std::max(scale.high_x, static_cast<double>(use.log_stride_bytes));
        scale.low_y = std::min(scale.low_y, std::floor(bytes));
        scale.high_y = std::max(scale.high_y, std::ceil(bytes));
    }
    return scale;
}

std::string axes(std::span<const ShapeUse> uses, const Scale& scale) {
    std::string svg;
    for (double y = scale.low_y; y <= scale.high_y; ++y)
        fmt::format_to(std::back_inserter(svg),
                       R"(<line x1="{:.0f}" x2="{:.0f}" y1="{:.1f}" y2="{:.1f}" stroke="#ddd"/>
<text x="{:.0f}" y="{:.1f}" text-anchor="end">{:g} MiB</text>
)",
                       left, width - right, scale.y(y), scale.y(y), left - 8, scale.y(y) + 4,
                       std::exp2(y - 20));
    std::uint32_t drawn = 0;
    for (const ShapeUse& use : uses) {
        if (use.log_stride_bytes == drawn) continue;
        drawn = use.log_stride_bytes;
        fmt::format_to(std::back_inserter(svg), R"(<text x="{:.1f}" y="{:.0f}" text-anchor="middle">{}</text>
)",
                       scale.x(use), height - bottom + 20, use.stride_bytes());
    }
    return svg;
}

std::string line(std::span<const ShapeUse> uses, std::uint32_t log_strides, const Scale& scale,
                 const char* colour) {
    std::string points, dots;
    double last_x = 0, last_y = 0;
    for (const ShapeUse& use : uses) {
        if (use.log_strides != log_strides) continue;
        last_x = scale.x(use);
        last_y = scale.y(use);
        fmt::format_to(std::back_inserter(points), "{:.1f},{:.1f} ", last_x, last_y);
        fmt::format_to(std::back_inserter(dots), R"(<circle cx="{:.1f}" cy="{:.1f}" r="2.5" fill="{}"/>
)",
                       last_x, last_y, colour);
    }
    if (points.empty()) return {};
    return fmt::format(R"(<polyline points="{}" fill="none" stroke="{}"/>
{}<text x="{:.1f}" y="{:.1f}" fill="{}">{} strides</text>
)",
                       points, colour, dots, last_x + 8, last_y + 4, colour, 1U << log_strides);
}

} // namespace

std::string draw(std::span<const ShapeUse> uses, const ShapeUse* chosen, std::uint32_t burst_packets) {
    std::vector<ShapeUse> whole;
    std::copy_if(uses.begin(), uses.end(), std::back_inserter(whole),
                 [](const ShapeUse& use) { return use.all.too_long == 0 && use.burst_bytes != 0; });
    const Scale scale = scale_of(whole);
    std::string svg = fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" font-family="sans-serif" font-size="11">
<rect width="{0:.0f}" height="{1:.0f}" fill="white"/>
<text x="{2:.0f}" y="20" font-size="14">Receive memory for a burst of {3} packets, by stride size (bytes)</text>
)",
        width, height, left, burst_packets);
    svg += axes(whole, scale);
    for (std::uint32_t log_strides = 0; log_strides < 32; ++log_strides)
        svg += line(whole, log_strides, scale, colours[log_strides % std::size(colours)]);
    if (chosen != nullptr)
        fmt::format_to(std::back_inserter(svg),
                       R"(<circle cx="{:.1f}" cy="{:.1f}" r="7" fill="none" stroke="black" stroke-width="2"/>
)",
                       scale.x(*chosen), scale.y(*chosen));
    return svg + "</svg>\n";
}

} // namespace plan
