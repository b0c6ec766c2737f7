// SPDX-License-Identifier: BSD-3-Clause
#include "lengths.hpp"

#include "mprq/shape_choice.hpp"

#include <fmt/format.h>
#include <pcap/pcap.h>

#include <charconv>
#include <memory>
#include <stdexcept>
#include <string_view>

namespace plan {
namespace {

constexpr std::uint32_t longest = 65535; // what a CQE can tell
constexpr std::uint32_t most_repeats = 1000000;

std::uint32_t number(std::string_view text, std::uint32_t most) {
    std::uint32_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end || value == 0 || value > most)
        throw std::runtime_error{fmt::format("'{}' is not a number from 1 to {}", text, most)};
    return value;
}

} // namespace

void read_capture(const std::string& path, std::vector<std::uint32_t>& lengths) {
    char reason[PCAP_ERRBUF_SIZE]{};
    const std::unique_ptr<pcap_t, decltype(&pcap_close)> capture{pcap_open_offline(path.c_str(), reason),
                                                                 pcap_close};
    if (!capture) throw std::runtime_error{fmt::format("{}: {}", path, reason)};
    pcap_pkthdr* header = nullptr;
    const u_char* data = nullptr;
    int got = 0;
    while ((got = pcap_next_ex(capture.get(), &header, &data)) == 1)
        if (header->len != 0 && header->len <= longest) lengths.push_back(header->len);
    if (got == PCAP_ERROR) throw std::runtime_error{fmt::format("{}: {}", path, pcap_geterr(capture.get()))};
}

void read_size(const std::string& text, std::vector<std::uint32_t>& lengths) {
    if (text == "imix") {
        const auto& imix = stride::mprq::imix_bytes;
        lengths.insert(lengths.end(), imix.begin(), imix.end());
        return;
    }
    const std::size_t star = text.find('*');
    const std::uint32_t bytes = number(std::string_view{text}.substr(0, star), longest);
    const std::uint32_t times =
        star == text.npos ? 1 : number(std::string_view{text}.substr(star + 1), most_repeats);
    lengths.insert(lengths.end(), times, bytes);
}

} // namespace plan
