// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/wire/gen_options.hpp"

#include "base/format.hpp"
#include "swhca/wire/options.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace swhca {
namespace {

using stride::Error;
using stride::Result;
using stride::Status;
using stride::strprintf;

std::optional<std::uint64_t> number(std::string_view text) {
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end) return std::nullopt;
    return value;
}

std::optional<std::uint64_t> number_in(std::string_view text, std::uint64_t low, std::uint64_t high) {
    const auto value = number(text);
    return value && *value >= low && *value <= high ? value : std::nullopt;
}

bool read_size(std::string_view text, GenOptions& options) {
    if (text == "imix") {
        options.sizes = GenOptions::Sizes::imix;
        options.min_bytes = 64;
        options.max_bytes = 1514;
        return true;
    }
    const std::size_t dash = text.find('-');
    const auto low = number_in(text.substr(0, dash), 1, gen_max_frame_bytes);
    const auto high = dash == text.npos ? low : number_in(text.substr(dash + 1), 1, gen_max_frame_bytes);
    if (!low || !high || *high < *low) return false;
    options.sizes = *low == *high ? GenOptions::Sizes::fixed : GenOptions::Sizes::range;
    options.min_bytes = static_cast<std::uint32_t>(*low);
    options.max_bytes = static_cast<std::uint32_t>(*high);
    return true;
}

template <class T>
bool read_number(std::string_view text, std::uint64_t low, std::uint64_t high, T& out) {
    const auto value = number_in(text, low, high);
    if (!value) return false;
    if constexpr (requires { out.reset(); })
        out = static_cast<typename T::value_type>(*value);
    else
        out = static_cast<T>(*value);
    return true;
}

bool read_bad_csum(std::string_view text, GenOptions& options) {
    if (text == "0") return options.bad_csum_period = 0, true;
    return text.starts_with("1/") &&
           read_number(text.substr(2), 1, gen_max_templates, options.bad_csum_period);
}

bool read_switch(std::string_view text, bool& out) {
    out = text == "on" || text == "1";
    return out || text == "off" || text == "0";
}

bool read_proto(std::string_view text, GenOptions& options) {
    options.tcp = text == "tcp";
    return options.tcp || text == "udp";
}

bool read_mac(std::string_view text, std::array<std::uint8_t, 6>& mac) {
    unsigned byte[6];
    int used = 0;
    if (std::sscanf(std::string{text}.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%n", &byte[0], &byte[1], &byte[2],
                    &byte[3], &byte[4], &byte[5], &used) != 6 ||
        static_cast<std::size_t>(used) != text.size())
        return false;
    std::transform(byte, byte + 6, mac.begin(), [](unsigned b) { return static_cast<std::uint8_t>(b); });
    return true;
}

constexpr std::uint64_t no_limit = UINT64_MAX;

struct Key {
    const char* name;
    const char* takes;
    bool (*read)(std::string_view text, GenOptions& options);
};

const Key keys[] = {
    {"size", "a length of 1 to 65000 bytes, a range A-B of them, or imix", read_size},
    {"flows", "1 to 65536 flows",
     [](std::string_view v, GenOptions& o) { return read_number(v, 1, gen_max_templates, o.flows); }},
    {"vlan", "a VLAN id from 0 to 4095",
     [](std::string_view v, GenOptions& o) { return read_number(v, 0, 4095, o.vlan); }},
    {"proto", "udp or tcp", read_proto},
    {"ipv6", "on or off", [](std::string_view v, GenOptions& o) { return read_switch(v, o.ipv6); }},
    {"bad_csum", "1/N: of N frames one has a wrong checksum; N is 1 to 65536", read_bad_csum},
    {"src", "a MAC address", [](std::string_view v, GenOptions& o) { return read_mac(v, o.source); }},
    {"dst", "a MAC address", [](std::string_view v, GenOptions& o) { return read_mac(v, o.destination); }},
    {"seed", "a number",
     [](std::string_view v, GenOptions& o) { return read_number(v, 0, no_limit, o.seed); }},
    {"count", "a number of frames; 0 sends none",
     [](std::string_view v, GenOptions& o) { return read_number(v, 0, no_limit, o.count); }},
    {"rate", "1 to 1000000000 frames a second",
     [](std::string_view v, GenOptions& o) { return read_number(v, 1, 1000000000, o.rate); }},
    {"check", "on or off", [](std::string_view v, GenOptions& o) { return read_switch(v, o.check); }},
};

const Key& key_of(std::string_view name) {
    return *std::find_if(std::begin(keys), std::end(keys),
                         [name](const Key& key) { return name == key.name; });
}

} // namespace

Result<GenOptions> parse_gen_options(const PortOptions& options) {
    Status known = check_keys(options, {"size", "flows", "vlan", "proto", "ipv6", "bad_csum", "src", "dst",
                                        "seed", "count", "rate", "check"});
    if (!known) return known.take_error();
    GenOptions parsed;
    for (const auto& [name, value] : options.values) {
        const Key& key = key_of(name);
        if (!key.read(value, parsed)) return option_error(options, name, std::string{"takes "} + key.takes);
    }
    const std::uint32_t least = parsed.header_length() + gen_stamp_bytes;
    if (parsed.min_bytes < least)
        return Error{EINVAL,
                     strprintf("port %s: size: frames of %u bytes are too short, headers and sequence "
                               "number need %u",
                               options.name.c_str(), parsed.min_bytes, least)};
    return parsed;
}

} // namespace swhca
