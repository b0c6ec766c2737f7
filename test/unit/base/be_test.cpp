// SPDX-License-Identifier: BSD-3-Clause
#include "base/be.hpp"

#include <cstring>
#include <gtest/gtest.h>

using namespace stride;

TEST(BigEndian, BytesLieMostSignificantFirst) {
    const be32 value = 0x01020304U;
    unsigned char bytes[4];
    std::memcpy(bytes, &value, sizeof bytes);
    EXPECT_EQ(bytes[0], 1);
    EXPECT_EQ(bytes[3], 4);
}

TEST(BigEndian, ReadsBackWhatWasStored) {
    EXPECT_EQ(be16{0xabcdU}.host(), 0xabcdU);
    EXPECT_EQ(be32{0xdeadbeefU}.host(), 0xdeadbeefU);
    EXPECT_EQ(be64{0x0123456789abcdefULL}.host(), 0x0123456789abcdefULL);
}

TEST(BigEndian, WireFormRoundTrips) {
    const be32 value = 0x11223344U;
    EXPECT_EQ(be32::from_wire(value.wire()), value);
    EXPECT_EQ(value.wire(), 0x44332211U);
}
