// SPDX-License-Identifier: BSD-3-Clause
/// One uverbs command on its way: the request's core and driver parts, and where the answers go.
///
/// A handler reads both requests as structures, does its work through hca/, and answers both. Requests may be
/// longer than the structure if the rest is zero (a newer library); answers are cut to what was asked for.
#pragma once

#include "swhca/hca/device.hpp"
#include "swhca/hca/refuse.hpp"
#include "swhca/hca/user_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace swhca {

/// How a handler makes descriptors the preload layer has to watch.
class DescriptorTable {
  public:
    virtual ~DescriptorTable() = default;
    virtual void watch_channel(int fd, Context& context, CompChannel& channel) = 0;
    /// The channel behind a descriptor of this context, or nullptr.
    virtual CompChannel* channel_of(int fd, const Context& context) = 0;
};

struct Call {
    const char* name{}; ///< of the command, for messages
    Hca& hca;
    Context& context;
    DescriptorTable& descriptors;
    std::span<const std::byte> core_in{}, driver_in{};
    std::uint64_t core_out{}, driver_out{}; ///< addresses in the program
    std::uint32_t core_out_bytes{}, driver_out_bytes{};

    /// The core request; a structure longer than the request is filled with zeros.
    template <class T>
    T core() const noexcept {
        return take<T>(core_in);
    }
    template <class T>
    T driver() const noexcept {
        return take<T>(driver_in);
    }
    /// Answers; 0 or EFAULT.
    template <class T>
    int answer_core(const T& value) const noexcept {
        return copy_to_user(core_out, &value, std::min<std::size_t>(sizeof value, core_out_bytes));
    }
    template <class T>
    int answer_driver(const T& value) const noexcept {
        return copy_to_user(driver_out, &value, std::min<std::size_t>(sizeof value, driver_out_bytes));
    }
    /// Refuses a request whose driver part is shorter than T's first `needed_bytes`, or has unknown bytes
    /// set.
    template <class T>
    int check_driver(std::size_t needed_bytes) const noexcept {
        if (driver_in.size() < needed_bytes)
            return refuse(Rule::bad_command, EINVAL, "%s: driver part of %zu bytes, needs %zu", name,
                          driver_in.size(), needed_bytes);
        return check_rest(driver_in, sizeof(T));
    }
    /// Refuses bytes beyond `known_bytes` that are not zero.
    int check_rest(std::span<const std::byte> part, std::size_t known_bytes) const noexcept;

  private:
    template <class T>
    static T take(std::span<const std::byte> part) noexcept {
        T value;
        std::memset(&value, 0, sizeof value);
        std::memcpy(&value, part.data(), std::min(sizeof value, part.size()));
        return value;
    }
};

} // namespace swhca
