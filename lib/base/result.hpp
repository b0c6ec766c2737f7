// SPDX-License-Identifier: BSD-3-Clause
/// Result of a control-path call: a value, or an error that says what to do next.
#pragma once

#include <cassert>
#include <cerrno>
#include <string>
#include <utility>
#include <variant>

namespace stride {

/// Why a call failed. `code` is a positive errno; `what` names the object, what was tried and the numbers.
struct Error {
    int code{EINVAL};
    std::string what{};
};

/// A T, or an Error. Without exceptions: asking for the value of an error is a programming mistake.
template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value)
        : state_{std::in_place_index<0>, std::move(value)} {} // NOLINT(google-explicit-constructor)
    Result(Error error)
        : state_{std::in_place_index<1>, std::move(error)} {} // NOLINT(google-explicit-constructor)

    bool ok() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return ok(); }
    T& value() & noexcept { return *std::get_if<0>(&state_); }
    const T& value() const& noexcept { return *std::get_if<0>(&state_); }
    T&& value() && noexcept { return std::move(*std::get_if<0>(&state_)); }
    T* operator->() noexcept { return std::get_if<0>(&state_); }
    const Error& error() const noexcept { return *std::get_if<1>(&state_); }
    Error&& take_error() noexcept { return std::move(*std::get_if<1>(&state_)); }

  private:
    std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error)
        : error_{std::move(error)}
        , ok_{false} {} // NOLINT(google-explicit-constructor)

    bool ok() const noexcept { return ok_; }
    explicit operator bool() const noexcept { return ok_; }
    const Error& error() const noexcept { return error_; }
    Error&& take_error() noexcept { return std::move(error_); }

  private:
    Error error_{};
    bool ok_{true};
};

using Status = Result<void>;

} // namespace stride
