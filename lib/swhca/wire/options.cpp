// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/wire/options.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace swhca {

using stride::Error;
using stride::Result;

const std::string* PortOptions::find(std::string_view key) const noexcept {
    for (const auto& [name_of_value, value] : values) {
        if (name_of_value == key) return &value;
    }
    return nullptr;
}

Error option_error(const PortOptions& options, std::string_view key, const std::string& why) {
    const std::string* value = options.find(key);
    return {EINVAL, "port " + options.name + ": " + std::string{key} + "=" +
                        (value != nullptr ? *value : std::string{}) + ": " + why};
}

stride::Status check_keys(const PortOptions& options, std::initializer_list<std::string_view> known) {
    for (auto option = options.values.begin(); option != options.values.end(); ++option) {
        const std::string& key = option->first;
        if (std::find(known.begin(), known.end(), key) == known.end()) {
            std::string list;
            for (std::string_view name : known)
                list += (list.empty() ? "" : ", ") + std::string{name};
            return option_error(options, key, "wire " + options.wire + " has no such option; it has " + list);
        }
        const auto same_key = [&](const auto& other) { return other.first == key; };
        if (std::any_of(options.values.begin(), option, same_key))
            return option_error(options, key, "given twice");
    }
    return {};
}

Result<std::uint64_t> number_option(const PortOptions& options, std::string_view key,
                                    std::uint64_t fallback) {
    const std::string* text = options.find(key);
    if (text == nullptr) return fallback;
    std::uint64_t value = 0;
    const char* end = text->data() + text->size();
    const auto [stopped, error] = std::from_chars(text->data(), end, value);
    if (error != std::errc{} || stopped != end) return option_error(options, key, "not a whole number");
    return value;
}

Result<double> rate_option(const PortOptions& options, std::string_view key) {
    const std::string* text = options.find(key);
    if (text == nullptr) return 0.0;
    char* end = nullptr;
    double value = std::strtod(text->c_str(), &end);
    const std::string_view suffix{end};
    if (suffix == "k" || suffix == "K") value *= 1e3;
    if (suffix == "M") value *= 1e6;
    if (suffix == "G") value *= 1e9;
    const bool known_suffix =
        suffix.empty() || suffix == "k" || suffix == "K" || suffix == "M" || suffix == "G";
    if (end == text->c_str() || !known_suffix || !std::isfinite(value) || value <= 0.0)
        return option_error(options, key, "not a positive number with suffix k, M or G");
    return value;
}

} // namespace swhca
