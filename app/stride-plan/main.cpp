// SPDX-License-Identifier: BSD-3-Clause
// stride-plan CAPTURE...: what real packet lengths waste in striding WQEs of every shape the device offers,
// and which shape serves them best. The arithmetic is the driver's own (lib/mprq/waste.hpp).
#include "chart.hpp"
#include "lengths.hpp"
#include "mprq/shape_choice.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <numeric>

namespace plan {
namespace {

using stride::mprq::choose_shape;
using stride::mprq::ShapeChoice;
using stride::mprq::ShapeGoal;
using stride::mprq::ShapeUse;
using stride::mprq::StridingLimits;

struct Options {
    std::vector<std::string> captures, sizes;
    std::string svg_path;
    bool all{};
    StridingLimits limits{};
    ShapeGoal goal{};
};

void add_options(CLI::App& app, Options& options) {
    app.add_option("CAPTURE", options.captures, "pcap or pcapng files")->check(CLI::ExistingFile);
    app.add_option("--sizes", options.sizes, "lengths instead of captures: 64,590*4,imix")->delimiter(',');
    app.add_option("--burst", options.goal.burst_packets, "packets that arrive while nobody polls")
        ->check(CLI::Range(1U, 10000000U));
    app.add_option("--stride-header", options.goal.stride_header_bytes,
                   "bytes of the queue's own memory for each stride (its CQE included)");
    app.add_option("--copy-threshold", options.goal.rule.copy_threshold_bytes,
                   "packets up to this are copied");
    app.add_option("--headroom", options.goal.rule.headroom_bytes, "bytes an attached packet has in front");
    app.add_option("--min-packets", options.goal.min_packets_per_wqe, "packets of a WQE wanted");
    app.add_option("--max-copied", options.goal.max_copied_share,
                   "share of the longer packets that may lack headroom")
        ->check(CLI::Range(0.0, 1.0));
    app.add_flag("--two-byte-shift", options.goal.two_byte_shift,
                 "the HCA writes two bytes before each packet");
    app.add_option("--log-stride-min", options.limits.min_log_stride_bytes, "of the device: log of bytes");
    app.add_option("--log-stride-max", options.limits.max_log_stride_bytes, "of the device: log of bytes")
        ->check(CLI::Range(0U, 16U));
    app.add_option("--log-strides-min", options.limits.min_log_strides,
                   "of the device: log of strides per WQE");
    app.add_option("--log-strides-max", options.limits.max_log_strides,
                   "of the device: log of strides per WQE");
    app.add_option("--log-wqe-min", options.limits.min_log_wqe_bytes, "of the device: log of a WQE's bytes");
    app.add_flag("--all", options.all, "list shapes that cannot take the longest packet also");
    app.add_option("--svg", options.svg_path, "file for a chart");
}

void print_lengths(const std::vector<std::uint32_t>& lengths) {
    const auto [low, high] = std::minmax_element(lengths.begin(), lengths.end());
    const auto sum = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
    fmt::print("{} packets of {} to {} bytes, {:.1f} on average\n\n", lengths.size(), *low, *high,
               static_cast<double>(sum) / static_cast<double>(lengths.size()));
}

void print_use(const ShapeUse& use, bool chosen) {
    const auto packets = static_cast<double>(std::max<std::uint64_t>(1, use.all.packets));
    const auto stride_bytes = static_cast<double>(use.stride_bytes());
    if (use.all.too_long != 0) {
        fmt::print("{:>7}{:>9}{:>11}  too small for the longest packet\n", use.stride_bytes(), use.strides(),
                   std::uint64_t{use.stride_bytes()} * use.strides());
        return;
    }
    fmt::print("{:>7}{:>9}{:>11}{:>10.1f}{:>10.1f}{:>9.1f}{:>11.1f}{:>9.1f}{:>9}{:>11.2f}{}\n",
               use.stride_bytes(), use.strides(), use.all.wqe_bytes(),
               static_cast<double>(use.all.stride_waste_bytes) / packets,
               static_cast<double>(use.all.filler_strides) * stride_bytes / packets,
               100 * use.all.waste_share(), use.all.packets_per_wqe(), 100 * use.copied_share(),
               use.burst_wqes, static_cast<double>(use.burst_bytes) / (1U << 20), chosen ? "  <" : "");
}

int run(const Options& options) {
    std::vector<std::uint32_t> lengths;
    for (const std::string& path : options.captures)
        read_capture(path, lengths);
    for (const std::string& text : options.sizes)
        read_size(text, lengths);
    if (lengths.empty()) throw std::runtime_error{"no packets: name captures, or give --sizes"};
    const std::vector<ShapeUse> uses = measure_shapes(lengths, options.limits, options.goal);
    const ShapeChoice choice = choose_shape(uses, options.goal);

    print_lengths(lengths);
    fmt::print("{:>7}{:>9}{:>11}{:>10}{:>10}{:>9}{:>11}{:>9}{:>9}{:>11}\n", "stride", "strides", "WQE",
               "tail", "filler", "waste", "packets", "copied", "burst", "burst");
    fmt::print("{:>7}{:>9}{:>11}{:>10}{:>10}{:>9}{:>11}{:>9}{:>9}{:>11}\n", "bytes", "", "bytes", "B/packet",
               "B/packet", "%", "per WQE", "%", "WQEs", "MiB");
    for (const ShapeUse& use : uses)
        if (options.all || use.all.too_long == 0) print_use(use, &use == choice.use);
    if (choice.use == nullptr) {
        fmt::print("\n{}\n", choice.why);
        return 1;
    }
    fmt::print("\nrecommended: {} strides of {} bytes: {}\n", choice.use->strides(),
               choice.use->stride_bytes(), choice.why);
    if (!options.svg_path.empty()) {
        std::ofstream file{options.svg_path};
        file << draw(uses, choice.use, options.goal.burst_packets);
        if (!file.flush()) throw std::runtime_error{options.svg_path + ": can't be written"};
    }
    return 0;
}

} // namespace
} // namespace plan

int main(int argc, char** argv) {
    CLI::App app{
        "What packets of given lengths waste in striding WQEs of every shape, and the shape to take."};
    plan::Options options;
    plan::add_options(app, options);
    CLI11_PARSE(app, argc, argv);
    try {
        return plan::run(options);
    } catch (const std::exception& error) {
        fmt::print(stderr, "stride-plan: {}\n", error.what());
        return 2;
    }
}
