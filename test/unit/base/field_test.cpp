// SPDX-License-Identifier: BSD-3-Clause
#include "base/field.hpp"

#include <array>
#include <gtest/gtest.h>

using namespace stride;

TEST(Field, HighestBitOfADwordIsTheFirstBytesTopBit) {
    std::array<unsigned char, 8> bytes{};
    Field<4, 31, 31>::set(bytes.data(), 1);
    EXPECT_EQ(bytes[4], 0x80);
    EXPECT_EQ((Field<4, 31, 31>::get(bytes.data())), 1U);
}

TEST(Field, SettingLeavesNeighboursAlone) {
    std::array<unsigned char, 4> bytes{0xff, 0xff, 0xff, 0xff};
    Field<0, 15, 8>::set(bytes.data(), 0);
    EXPECT_EQ(bytes, (std::array<unsigned char, 4>{0xff, 0xff, 0, 0xff}));
}

TEST(Field, ValueBeyondTheFieldIsCut) {
    std::array<unsigned char, 4> bytes{};
    Field<0, 3, 0>::set(bytes.data(), 0x1f);
    EXPECT_EQ((Field<0, 3, 0>::get(bytes.data())), 0xfU);
    EXPECT_EQ((Field<0, 7, 4>::get(bytes.data())), 0U);
}

TEST(Field, WholeDwordAndQuadwordRoundTrip) {
    std::array<unsigned char, 8> bytes{};
    Field<0, 31, 0>::set(bytes.data(), 0x89abcdefU);
    EXPECT_EQ((Field<0, 31, 0>::get(bytes.data())), 0x89abcdefU);
    Field64<0>::set(bytes.data(), 0x0102030405060708ULL);
    EXPECT_EQ(bytes[0], 1);
    EXPECT_EQ(bytes[7], 8);
    EXPECT_EQ(Field64<0>::get(bytes.data()), 0x0102030405060708ULL);
}
