// SPDX-License-Identifier: BSD-3-Clause
#include "base/shared_calls.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>

namespace stride {
namespace {

int twice(int value) noexcept { return 2 * value; }
int thrice(int value) noexcept { return 3 * value; }

/// In this order: stubs are laid once a process.
TEST(SharedCalls, AreTheFunctionsThemselvesWhereThereAreNoStubs) {
    EXPECT_EQ(SharedCalls::of(SharedCall::find_key, twice), twice);
}

TEST(SharedCalls, StubsCallWhatTheProcessEnteredLast) {
    void* const pages =
        mmap(nullptr, SharedCalls::bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    ASSERT_TRUE(SharedCalls::lay(static_cast<std::byte*>(pages)).ok());
    auto* const doubled = SharedCalls::of(SharedCall::find_key, twice);
    auto* const tripled = SharedCalls::of(SharedCall::recover_qp, thrice);
    EXPECT_NE(doubled, twice);
    EXPECT_EQ(doubled(21), 42);
    EXPECT_EQ(tripled(21), 63);
    // Another process's table, in this one.
    EXPECT_EQ(SharedCalls::of(SharedCall::find_key, thrice), doubled);
    EXPECT_EQ(doubled(21), 63);
}

} // namespace
} // namespace stride
