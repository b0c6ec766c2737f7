// SPDX-License-Identifier: BSD-3-Clause
/// Loads of words whose last byte is the one the device writes last.
#pragma once

#include "base/barrier.hpp"

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STRIDE_THREAD_SANITIZER
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define STRIDE_THREAD_SANITIZER
#endif

namespace stride {

/// load_from_device of a word that ends in the owner byte. ThreadSanitizer pairs a load with stores of the
/// same address only: for it the byte is loaded too.
template <class T>
inline T load_with_owner(const T* word) noexcept {
    const T value = load_from_device(word);
#if defined(STRIDE_THREAD_SANITIZER)
    (void)load_from_device(reinterpret_cast<const std::byte*>(word) + sizeof(T) - 1);
#endif
    return value;
}

} // namespace stride
