// SPDX-License-Identifier: BSD-3-Clause
#include "args.hpp"

#include "base/format.hpp"

#include <charconv>

namespace stride::pmd {
namespace {

/// A key whose value is a number, and where it goes.
struct NumberKey {
    std::string_view name;
    std::uint32_t min, max;
    void (*set)(Args& args, std::uint32_t value);
};

constexpr NumberKey number_keys[] = {
    {"port", 1, 255, [](Args& args, std::uint32_t value) { args.port = static_cast<std::uint8_t>(value); }},
    {"log_stride_bytes", 6, 13, [](Args& args, std::uint32_t value) { args.log_stride_bytes = value; }},
    {"log_strides", 1, 16, [](Args& args, std::uint32_t value) { args.log_strides = value; }},
    {"copy_threshold_bytes", 0, 65535,
     [](Args& args, std::uint32_t value) { args.copy_threshold_bytes = value; }},
    {"cqe_compression", 0, 1, [](Args& args, std::uint32_t value) { args.cqe_compression = value != 0; }},
    {"inline_threshold_bytes", 0, 1024,
     [](Args& args, std::uint32_t value) { args.inline_threshold_bytes = value; }},
};

constexpr std::string_view device_key = "ibdev", encap_key = "encap";
constexpr std::size_t max_device_name = 63; // IBV_SYSFS_NAME_MAX less the NUL

std::string quoted(std::string_view key, std::string_view value) {
    return "devarg " + std::string{key} + "=" + std::string{value};
}

Error unknown_key(std::string_view key) {
    std::string known = std::string{device_key} + ", " + std::string{encap_key};
    for (const NumberKey& number : number_keys)
        known += ", " + std::string{number.name};
    return Error{EINVAL, "devarg " + std::string{key} + " is unknown; the keys are " + known};
}

/// All of `text` as a number; 0 if it is none.
std::uint32_t number_in(std::string_view text) {
    std::uint32_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    return error == std::errc{} && stop == end ? number : 0;
}

Status set_device(Args& args, std::string_view value) {
    if (value.empty() || value.size() > max_device_name || value.find('/') != std::string_view::npos)
        return Error{EINVAL,
                     quoted(device_key, value) + ": allowed is the name of a verbs device, such as mlx5_0"};
    args.ibdev = value;
    return {};
}

/// ethernet, ipoib, opa_vnic, or opa_vnic:SWITCH.
Status set_encap(Args& args, std::string_view value) {
    const std::size_t colon = value.find(':');
    const std::string_view name = value.substr(0, colon);
    const std::uint32_t id = colon == std::string_view::npos ? 1 : number_in(value.substr(colon + 1));
    args.encap_given = true;
    if (name == "opa_vnic" && id >= 1 && id <= 65535) {
        args.encap = mbufqp::EncapKind::opa_vnic;
        args.vesw_id = static_cast<std::uint16_t>(id);
        return {};
    }
    if (value == "ipoib") args.encap = mbufqp::EncapKind::ipoib;
    if (value == "ethernet" || value == "ipoib") return {};
    return Error{
        EINVAL,
        quoted(encap_key, value) +
            ": allowed are ethernet, ipoib, opa_vnic, and opa_vnic:ID with a virtual Ethernet switch id "
            "of 1 to 65535"};
}

Status set_number(Args& args, const NumberKey& key, std::string_view value) {
    std::uint32_t number = 0;
    const char* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, number);
    if (error != std::errc{} || stop != end || number < key.min || number > key.max)
        return Error{EINVAL, quoted(key.name, value) + strprintf(": allowed are %u to %u", key.min, key.max)};
    key.set(args, number);
    return {};
}

Status set_one(Args& args, std::string_view key, std::string_view value) {
    if (key == device_key) return set_device(args, value);
    if (key == encap_key) return set_encap(args, value);
    for (const NumberKey& number : number_keys)
        if (key == number.name) return set_number(args, number, value);
    return unknown_key(key);
}

/// Whether `key` stands in `text`, a list of key=value, before position `end`.
bool given_before(std::string_view text, std::size_t end, std::string_view key) {
    for (std::size_t at = 0; at < end;) {
        const std::string_view pair = text.substr(at, text.find(',', at) - at);
        if (pair.substr(0, pair.find('=')) == key) return true;
        at += pair.size() + 1;
    }
    return false;
}

} // namespace

Result<Args> parse_args(std::string_view text) {
    Args args;
    for (std::size_t at = 0; at < text.size();) {
        const std::string_view pair = text.substr(at, text.find(',', at) - at);
        const std::size_t equals = pair.find('=');
        const std::string_view key = pair.substr(0, equals);
        if (equals == std::string_view::npos)
            return Error{EINVAL, "devarg " + std::string{key} + " has no value; write key=value"};
        if (given_before(text, at, key))
            return Error{EINVAL, "devarg " + std::string{key} + " is given twice"};
        if (auto status = set_one(args, key, pair.substr(equals + 1)); !status) return status.take_error();
        at += pair.size() + 1;
    }
    if (args.ibdev.empty())
        return Error{EINVAL, "devarg ibdev is required: the name of a verbs device, such as mlx5_0"};
    return args;
}

} // namespace stride::pmd
