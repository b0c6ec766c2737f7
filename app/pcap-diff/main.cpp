// SPDX-License-Identifier: BSD-3-Clause
// pcap-diff SENT GOT: are the frames of two captures the same, byte for byte? Time stamps do not count.
// Prints one line; exit code 0 if identical, 1 if not, 2 if a file cannot be read.
#include "compare.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace {

int compare(const std::string& sent_path, const std::string& got_path, const pcap_diff::Rules& rules) {
    std::string error;
    const auto sent = pcap_diff::read_capture(sent_path, error);
    const auto got = sent ? pcap_diff::read_capture(got_path, error) : std::nullopt;
    if (!got) {
        fmt::print(stderr, "pcap-diff: {}\n", error);
        return 2;
    }
    const auto difference = pcap_diff::first_difference(*sent, *got, rules);
    if (difference) {
        fmt::print("different: frame {}: {}\n", difference->frame, difference->what);
        return 1;
    }
    fmt::print("identical: {} frames, {} bytes\n", got->frames.size(), got->bytes);
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    CLI::App app{"Compares the frames of two captures byte for byte."};
    std::string sent;
    std::string got;
    pcap_diff::Rules rules;
    bool count = false;
    app.add_option("SENT", sent, "capture that went in")->required();
    app.add_option("GOT", got, "capture that came out");
    app.add_flag("--any-order", rules.any_order, "frames may have changed places");
    app.add_flag("--ignore-macs", rules.ignore_macs, "leave out the two MAC addresses");
    app.add_option("--repeats", rules.repeats, "GOT holds SENT this many times");
    app.add_option("--longest", rules.longest,
                   "frames of SENT longer than this many bytes were to be dropped");
    app.add_flag("--count", count, "only print frames, bytes and longest frame of SENT");
    CLI11_PARSE(app, argc, argv);
    if (!count) return compare(sent, got, rules);

    std::string error;
    const auto capture = pcap_diff::read_capture(sent, error);
    if (!capture) {
        fmt::print(stderr, "pcap-diff: {}\n", error);
        return 2;
    }
    std::size_t longest = 0;
    for (const std::string& frame : capture->frames)
        longest = std::max(longest, frame.size());
    fmt::print("{} {} {}\n", capture->frames.size(), capture->bytes, longest);
    return 0;
}
