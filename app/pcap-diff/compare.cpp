// SPDX-License-Identifier: BSD-3-Clause
#include "compare.hpp"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <memory>
#include <pcap/pcap.h>
#include <string_view>
#include <unordered_map>

namespace pcap_diff {
namespace {

constexpr std::size_t mac_bytes = 12;

std::string_view compared_part(const std::string& frame, const Rules& rules) {
    std::string_view part{frame};
    if (rules.ignore_macs) part.remove_prefix(std::min(mac_bytes, part.size()));
    return part;
}

/// The frames the far end should have, in order.
std::vector<std::string_view> expected_frames(const Capture& sent, const Rules& rules) {
    std::vector<std::string_view> expected;
    for (std::uint32_t round = 0; round < rules.repeats; ++round)
        for (const std::string& frame : sent.frames)
            if (frame.size() <= rules.longest) expected.push_back(compared_part(frame, rules));
    return expected;
}

std::string describe(std::string_view want, std::string_view have) {
    if (want.size() != have.size())
        return fmt::format("{} bytes were sent, {} came", want.size(), have.size());
    const auto [a, b] = std::mismatch(want.begin(), want.end(), have.begin());
    return fmt::format("byte {} is 0x{:02x} instead of 0x{:02x}", a - want.begin(),
                       static_cast<unsigned char>(*b), static_cast<unsigned char>(*a));
}

std::optional<Difference> compare_counts(std::size_t expected, std::size_t got) {
    if (expected == got) return std::nullopt;
    return Difference{std::min(expected, got) + 1,
                      fmt::format("{} frames were to come, {} came", expected, got)};
}

std::optional<Difference> compare_in_order(const std::vector<std::string_view>& expected,
                                           const std::vector<std::string_view>& got) {
    for (std::size_t i = 0; i < std::min(expected.size(), got.size()); ++i)
        if (expected[i] != got[i]) return Difference{i + 1, describe(expected[i], got[i])};
    return compare_counts(expected.size(), got.size());
}

std::optional<Difference> compare_any_order(const std::vector<std::string_view>& expected,
                                            const std::vector<std::string_view>& got) {
    std::unordered_map<std::string_view, long> balance;
    for (std::string_view frame : got)
        ++balance[frame];
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (--balance[expected[i]] < 0)
            return Difference{i + 1, fmt::format("a frame of {} bytes did not come", expected[i].size())};
    return compare_counts(expected.size(), got.size());
}

} // namespace

std::optional<Capture> read_capture(const std::string& path, std::string& error) {
    char reason[PCAP_ERRBUF_SIZE] = "";
    const std::unique_ptr<pcap_t, decltype(&pcap_close)> file{
        pcap_open_offline_with_tstamp_precision(path.c_str(), PCAP_TSTAMP_PRECISION_NANO, reason),
        pcap_close};
    if (!file) {
        error = fmt::format("{}: not a capture that can be read: {}", path, reason);
        return std::nullopt;
    }
    Capture capture;
    pcap_pkthdr* header = nullptr;
    const unsigned char* data = nullptr;
    int got = 0;
    while ((got = pcap_next_ex(file.get(), &header, &data)) == 1) {
        capture.frames.emplace_back(reinterpret_cast<const char*>(data), header->caplen);
        capture.bytes += header->caplen;
    }
    if (got == PCAP_ERROR) {
        error = fmt::format("{}: broken after frame {}: {}", path, capture.frames.size(),
                            pcap_geterr(file.get()));
        return std::nullopt;
    }
    return capture;
}

std::optional<Difference> first_difference(const Capture& sent, const Capture& got, const Rules& rules) {
    const std::vector<std::string_view> expected = expected_frames(sent, rules);
    std::vector<std::string_view> came;
    came.reserve(got.frames.size());
    for (const std::string& frame : got.frames)
        came.push_back(compared_part(frame, rules));
    return rules.any_order ? compare_any_order(expected, came) : compare_in_order(expected, came);
}

} // namespace pcap_diff
