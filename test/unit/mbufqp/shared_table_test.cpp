// SPDX-License-Identifier: BSD-3-Clause
#include "mbufqp/encap/shared_table.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace stride::mbufqp {
namespace {

using Table = SharedTable<1, 2>;

TEST(SharedTable, HoldsAsManyEntriesAsItWasMadeForAndNoMore) {
    Table table{100};
    for (std::uint64_t i = 0; i < 100; ++i)
        ASSERT_TRUE(table.insert({i}, {i * 3, i * 5}));
    EXPECT_FALSE(table.insert({1000}, {0, 0}));
    Table::Value value;
    for (std::uint64_t i = 0; i < 100; ++i) {
        ASSERT_TRUE(table.find({i}, value));
        EXPECT_EQ(value, (Table::Value{i * 3, i * 5}));
    }
    EXPECT_FALSE(table.find({100}, value));
    EXPECT_TRUE(table.erase({50}));
    EXPECT_FALSE(table.erase({50}));
    EXPECT_FALSE(table.find({50}, value));
    EXPECT_TRUE(table.insert({1000}, {1, 2}));
    EXPECT_EQ(table.size(), 100U);
}

TEST(SharedTable, ManyChangesLeaveItUsable) {
    Table table{16};
    Table::Value value;
    for (std::uint64_t i = 0; i < 100000; ++i) {
        ASSERT_TRUE(table.insert({i}, {i, ~i}));
        if (i >= 16) {
            ASSERT_TRUE(table.find({i - 5}, value));
        }
        if (i >= 15) {
            ASSERT_TRUE(table.erase({i - 15}));
        }
    }
}

TEST(SharedTable, CacheForgetsInsteadOfFillingUp) {
    Table table{64};
    Table::Value value;
    for (std::uint64_t i = 0; i < 10000; ++i) {
        table.remember({i}, {i, i});
        ASSERT_TRUE(table.find({i}, value)) << "the newest is there";
        ASSERT_EQ(value[0], i);
    }
    EXPECT_LE(table.size(), 128U);
}

TEST(SharedTable, ReaderNeverSeesHalfAnEntryWhileItIsWritten) {
    Table table{64};
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> found{0};
    std::vector<std::thread> readers;
    for (int r = 0; r < 2; ++r)
        readers.emplace_back([&] {
            Table::Value value;
            while (!stop.load())
                for (std::uint64_t key = 0; key < 64; ++key)
                    if (table.find({key}, value)) {
                        ASSERT_EQ(value[0], ~value[1]);
                        ASSERT_EQ(value[0] % 64, key);
                        found.fetch_add(1, std::memory_order_relaxed);
                    }
        });
    for (std::uint64_t round = 0; round < 2000; ++round)
        for (std::uint64_t key = 0; key < 64; ++key) {
            const std::uint64_t value = round * 64 + key;
            if (round % 3 == 0)
                table.erase({key});
            else if (round % 3 == 1)
                ASSERT_TRUE(table.insert({key}, {value, ~value}));
            else
                table.remember({key}, {value, ~value});
        }
    while (found.load() == 0) {
    }
    stop = true;
    for (auto& reader : readers)
        reader.join();
}

} // namespace
} // namespace stride::mbufqp
