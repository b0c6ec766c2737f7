// SPDX-License-Identifier: BSD-3-Clause
/// Sets that share a QPN: CVE-2023-52745 and CVE-2022-48883 came of sharers that were not tied to the owner.
#include "mbufqp/qpn_share.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace stride::mbufqp {
namespace {

TEST(QpnShare, SetWithMoreQueuesThanTheOwnerIsRefused) {
    QpnShare share;
    share.own(4);
    EXPECT_EQ(share.join(8, 0).error().code, EINVAL);
    EXPECT_TRUE(share.join(4, 0).ok());
    EXPECT_TRUE(share.join(1, 0).ok());
    EXPECT_EQ(share.join(1, 1).error().code, EINVAL) << "packets come to the owner";
}

TEST(QpnShare, OwnerStaysUntilTheLastSharerIsGone) {
    QpnShare share;
    share.own(4);
    ASSERT_TRUE(share.join(4, 0).ok());
    ASSERT_TRUE(share.join(2, 0).ok());
    EXPECT_EQ(share.close().error().code, EBUSY);
    share.leave();
    EXPECT_EQ(share.close().error().code, EBUSY);
    share.leave();
    EXPECT_TRUE(share.close().ok());
    EXPECT_EQ(share.join(1, 0).error().code, ESHUTDOWN);
}

} // namespace
} // namespace stride::mbufqp
