// SPDX-License-Identifier: BSD-3-Clause
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/result.hpp"

#include <gtest/gtest.h>
#include <memory>

using namespace stride;

TEST(Result, HoldsAValueThatCanOnlyBeMoved) {
    Result<std::unique_ptr<int>> result{std::make_unique<int>(7)};
    ASSERT_TRUE(result.ok());
    const std::unique_ptr<int> taken = std::move(result).value();
    EXPECT_EQ(*taken, 7);
}

TEST(Result, HoldsAnErrorWithItsCodeAndText) {
    const Result<int> result{Error{ENOENT, "no such device"}};
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ENOENT);
    EXPECT_EQ(result.error().what, "no such device");
}

TEST(Status, IsSuccessUnlessGivenAnError) {
    EXPECT_TRUE(Status{}.ok());
    EXPECT_FALSE((Status{Error{EBUSY, "in use"}}).ok());
}

TEST(Strprintf, HasNoLengthLimit) {
    EXPECT_EQ(strprintf("%s%d", std::string(2000, 'x').c_str(), 5).size(), 2001U);
}

namespace {
std::string last_line;
void remember(LogLevel, const char* line) noexcept { last_line = line; }
} // namespace

TEST(Log, GoesToTheSinkThatWasSet) {
    set_log_sink(remember);
    log_line(LogLevel::error, "rxq %u: create WQ: %s", 3U, "Invalid argument");
    set_log_sink(nullptr);
    EXPECT_EQ(last_line, "rxq 3: create WQ: Invalid argument");
}
