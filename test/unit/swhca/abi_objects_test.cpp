// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/abi/sysfs.hpp"
#include "swhca/hca/device.hpp"
#include "swhca/hca/gid.hpp"
#include "swhca/hca/uar.hpp"

#include <gtest/gtest.h>

namespace {

using swhca::Lkey;
using swhca::Mr;
using swhca::MrTable;

TEST(MrTable, NeverGivesOutZeroNorLibmlx5sListTerminator) {
    MrTable table;
    for (int i = 0; i < 1000; ++i) {
        const Lkey key = table.add(Mr{});
        EXPECT_GE(key.value, 0x200U);
        table.remove(key);
    }
    EXPECT_EQ(table.find(Lkey{0}), nullptr);
    EXPECT_EQ(table.find(Lkey{0x100}), nullptr);
}

TEST(MrTable, KeyOfARemovedRegionMissesAlsoAfterItsSlotIsTakenAgain) {
    MrTable table;
    const Lkey old = table.add(Mr{});
    ASSERT_TRUE(table.remove(old));
    EXPECT_EQ(table.find(old), nullptr);
    EXPECT_FALSE(table.remove(old));
    const Lkey fresh = table.add(Mr{});
    EXPECT_EQ(fresh.value >> 8, old.value >> 8);
    EXPECT_EQ(table.find(old), nullptr);
    ASSERT_NE(table.find(fresh), nullptr);
    EXPECT_EQ(table.find(fresh)->lkey, fresh);
}

TEST(MrTable, RegionThatChangesKeepsItsKey) {
    MrTable table;
    Mr region;
    region.lkey = table.add(Mr{});
    region.length_bytes = 4096;
    EXPECT_TRUE(table.change(region));
    ASSERT_NE(table.find(region.lkey), nullptr);
    EXPECT_EQ(table.find(region.lkey)->length_bytes, 4096U);
    table.remove(region.lkey);
    EXPECT_FALSE(table.change(region));
}

TEST(Gid, LeadsBackToTheMacItWasMadeFromAndFromAGroupToItsMac) {
    using Mac = std::array<std::uint8_t, 6>;
    const Mac mac = {0x02, 0x53, 0x57, 0, 0, 9};
    Mac found{};
    EXPECT_TRUE(swhca::gid::to_mac(swhca::gid::link_local(mac), found));
    EXPECT_EQ(found, mac);
    swhca::Gid group{};
    group[0] = 0xff;
    group[1] = 0x0e;
    group[12] = 1;
    group[15] = 4;
    EXPECT_TRUE(swhca::gid::to_mac(group, found));
    EXPECT_EQ(found, (Mac{0x33, 0x33, 1, 0, 0, 4}));
    swhca::Gid routed{};
    routed[0] = 0x20;
    EXPECT_FALSE(swhca::gid::to_mac(routed, found));
}

TEST(Gid, TableHasOneEntryOnInfiniBandAndBothTypesOnEthernet) {
    const std::array<std::uint8_t, 6> mac = {2, 0, 0, 0, 0, 1};
    const auto ethernet = swhca::gid::table_of(swhca::LinkLayer::ethernet, mac);
    const auto infiniband = swhca::gid::table_of(swhca::LinkLayer::infiniband, mac);
    ASSERT_EQ(ethernet.size(), swhca::gid::entries);
    EXPECT_FALSE(ethernet[0].roce_v2);
    EXPECT_TRUE(ethernet[1].roce_v2);
    EXPECT_EQ(ethernet[0].gid, ethernet[1].gid);
    EXPECT_EQ(ethernet[2].gid, swhca::Gid{});
    EXPECT_EQ(infiniband[1].gid, swhca::Gid{});
}

TEST(Uar, RegistersAreNumberedAsLibmlx5DoesAndNeverOverlap) {
    namespace uar = swhca::uar;
    EXPECT_EQ(uar::library_index(0), 0U);
    EXPECT_EQ(uar::library_index(1), 1U);
    EXPECT_EQ(uar::library_index(2), 4U);
    EXPECT_EQ(uar::library_index(255), 509U);
    EXPECT_EQ(uar::register_offset(0, 0), 0x800U);
    EXPECT_EQ(uar::register_offset(0, 3), 0x1a00U);
    EXPECT_EQ(uar::register_offset(3, 0), 0x300800U);
    EXPECT_LE(uar::register_offset(3, uar::bfregs - 1) + uar::register_bytes, uar::file_bytes);
}

TEST(DevicePaths, AreTheModelsOnlyBelowItsOwnDirectories) {
    using swhca::is_redirected;
    EXPECT_TRUE(is_redirected("/sys/class/infiniband", false));
    EXPECT_TRUE(is_redirected("/sys/class/infiniband/mlx5_0/ports/1/gids/0", false));
    EXPECT_TRUE(is_redirected("/dev/infiniband/uverbs0", false));
    EXPECT_TRUE(is_redirected("/sys/bus/pci/devices/5357:00:00.0/vendor", false));
    EXPECT_FALSE(is_redirected("/sys/class/infiniband_mad/umad0", false));
    EXPECT_FALSE(is_redirected("/sys/class/net/eth0", false));
    EXPECT_FALSE(is_redirected("/sys/bus/pci/devices/0000:00:00.0", true));
    EXPECT_FALSE(is_redirected("/dev/infinibandwagon", false));
    EXPECT_FALSE(is_redirected("/sys/bus/pci/devices", false));
    EXPECT_TRUE(is_redirected("/sys/bus/pci/devices", true));
    EXPECT_EQ(swhca::uverbs_index("/dev/infiniband/uverbs12"), 12);
    EXPECT_EQ(swhca::uverbs_index("/dev/infiniband/uverbs"), -1);
    EXPECT_EQ(swhca::uverbs_index("/dev/infiniband/uverbs1x"), -1);
}

} // namespace
