// SPDX-License-Identifier: BSD-3-Clause
/// EAL for unit tests that need it: no hugepages, no devices, nothing left behind.
#include <gtest/gtest.h>

#include <rte_eal.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace {

class EalEnvironment : public ::testing::Environment {
  public:
    void SetUp() override {
        std::vector<std::string> words{"test",           "--no-huge", "--no-pci", "--no-shconf",
                                       "--no-telemetry", "-m",        "512",      "--log-level=error"};
        std::vector<char*> args;
        for (std::string& word : words)
            args.push_back(word.data());
        if (rte_eal_init(static_cast<int>(args.size()), args.data()) < 0) std::abort();
    }
    void TearDown() override { rte_eal_cleanup(); }
};

[[maybe_unused]] const auto* const eal = ::testing::AddGlobalTestEnvironment(new EalEnvironment);

} // namespace
