// SPDX-License-Identifier: BSD-3-Clause
/// Reading the values of a wire's options; every error names port, key and value.
#pragma once

#include "swhca/wire/wire.hpp"

#include <initializer_list>

namespace swhca {

/// All keys are among `known`, none is given twice.
stride::Status check_keys(const PortOptions& options, std::initializer_list<std::string_view> known);

/// A whole number; `fallback` if the key is not given.
stride::Result<std::uint64_t> number_option(const PortOptions& options, std::string_view key,
                                            std::uint64_t fallback);
/// A positive number with fraction and suffix k, M or G (1.5M); 0 if the key is not given.
stride::Result<double> rate_option(const PortOptions& options, std::string_view key);

/// `port NAME: KEY=VALUE: why`.
stride::Error option_error(const PortOptions& options, std::string_view key, const std::string& why);

} // namespace swhca
