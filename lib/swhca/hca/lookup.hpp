// SPDX-License-Identifier: BSD-3-Clause
/// Handles: numbers by which a program names its objects, one space per context.
#pragma once

#include "swhca/hca/device.hpp"

#include <memory>
#include <utility>

namespace swhca {

/// The object, or nullptr if this context has none of that handle.
template <class T>
T* find_object(const Context::Table<T>& table, std::uint32_t handle) noexcept {
    const auto at = table.find(handle);
    return at == table.end() ? nullptr : at->second.get();
}

/// Files `object` under the next handle, which it also gets as its `handle`.
template <class T>
T* file_object(Context& context, Context::Table<T>& table, std::unique_ptr<T> object) {
    const std::uint32_t handle = context.next_handle++;
    if constexpr (requires { object->handle; }) object->handle = handle;
    if constexpr (requires { object->context; }) object->context = &context;
    T* raw = object.get();
    table.emplace(handle, std::move(object));
    return raw;
}

} // namespace swhca
