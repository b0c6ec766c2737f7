// SPDX-License-Identifier: BSD-3-Clause
/// Counts of freed packets, and the buffers that wait for them.
#include "lcore_of_thread.hpp"
#include "mprq/waiting_list.hpp"

#include <rte_lcore.h>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace stride::mprq::test {
namespace {

struct DestroyCounts {
    void operator()(FreeCounts* counts) const { FreeCounts::destroy(counts); }
};
using CountsPtr = std::unique_ptr<FreeCounts, DestroyCounts>;

/// Runs `work` in a thread, with an lcore id of its own or without.
template <class Work>
std::thread thread_of(bool lcore, Work work) {
    return std::thread{[lcore, work] {
        const LcoreOfThread id{lcore};
        work();
    }};
}

TEST(FreeCounts, ThreadsWithAndWithoutAnLcoreAddUp) {
    const CountsPtr counts{FreeCounts::create(20, -1)};
    ASSERT_NE(counts, nullptr);
    std::vector<std::thread> threads;
    for (int n = 0; n < 4; ++n)
        threads.push_back(thread_of(n % 2 == 0, [&] {
            for (std::uint32_t buffer = 0; buffer < 20; ++buffer)
                for (int packet = 0; packet < 500; ++packet)
                    counts->add(buffer, 1 + buffer);
        }));
    for (std::uint32_t buffer = 0; buffer < 20; ++buffer)
        counts->add(buffer, 7);
    for (std::thread& thread : threads)
        thread.join();
    for (std::uint32_t buffer = 0; buffer < 20; ++buffer)
        EXPECT_EQ(counts->of(buffer), 2000 * (1 + buffer) + 7);
}

TEST(FreeCounts, MoreLcoresThanRowsShareOneRow) {
    const CountsPtr counts{FreeCounts::create(3, -1)};
    constexpr std::uint32_t lcores = FreeCounts::max_rows + 10;
    for (std::uint32_t n = 0; n < lcores; ++n) // one after the other: they may all get the same id
        thread_of(true, [&] {
            counts->add(1, 1);
            counts->add(1, 1);
        }).join();
    std::vector<std::thread> threads;
    std::atomic<std::uint32_t> arrived{0};
    for (std::uint32_t n = 0; n < lcores; ++n)
        threads.push_back(thread_of(true, [&] {
            for (++arrived; arrived != lcores;)
                std::this_thread::yield();
            counts->add(2, 3);
            counts->add(2, 3);
        }));
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(counts->of(0), 0U);
    EXPECT_EQ(counts->of(1), 2 * lcores);
    EXPECT_EQ(counts->of(2), 6 * lcores);
}

class Waiting : public ::testing::Test {
  protected:
    void fill(std::uint32_t wanted) {
        counts.reset(FreeCounts::create(wanted, -1));
        buffers = std::vector<WqeBuffer>(wanted);
        for (std::uint32_t n = 0; n < wanted; ++n) {
            buffers[n].counts = counts.get();
            buffers[n].number = n;
            hand_over(n, 10);
        }
    }
    void hand_over(std::uint32_t n, std::uint32_t packets) {
        buffers[n].handed += packets;
        list.add(buffers[n]);
    }
    static std::vector<std::uint32_t> numbers_of(const WqeBuffer* found) {
        std::vector<std::uint32_t> numbers;
        for (; found != nullptr; found = found->newer)
            numbers.push_back(found->number);
        return numbers;
    }
    using Numbers = std::vector<std::uint32_t>;

    CountsPtr counts{};
    std::vector<WqeBuffer> buffers{};
    WaitingList list{};
};

TEST_F(Waiting, BufferIsHomeWithItsLastPacketAndNotBefore) {
    fill(1);
    counts->add(0, 9);
    EXPECT_EQ(numbers_of(list.find_some_home()), Numbers{});
    EXPECT_EQ(numbers_of(list.find_all_home()), Numbers{});
    EXPECT_TRUE(buffers[0].waits);
    counts->add(0, 1);
    EXPECT_EQ(numbers_of(list.find_some_home()), Numbers{0});
    EXPECT_FALSE(buffers[0].waits);
    EXPECT_TRUE(list.empty());
}

TEST_F(Waiting, CountsThatWrapTellTheSame) {
    fill(1);
    counts->add(0, 10);
    EXPECT_EQ(numbers_of(list.find_some_home()), Numbers{0});
    for (int round = 0; round < 5; ++round) { // past 2^32 twice
        hand_over(0, 0x7fffffff);
        counts->add(0, 0x7ffffffe);
        EXPECT_EQ(numbers_of(list.find_some_home()), Numbers{});
        counts->add(0, 1);
        EXPECT_EQ(numbers_of(list.find_some_home()), Numbers{0});
    }
}

TEST_F(Waiting, NewestAndOldestAreFoundAtOnceTheNewestLast) {
    fill(100);
    for (const std::uint32_t n : {0U, 1U, 98U, 99U})
        counts->add(n, 10);
    EXPECT_EQ(numbers_of(list.find_some_home()), (Numbers{1, 0, 98, 99}));
    EXPECT_EQ(numbers_of(list.find_some_home()), Numbers{});
}

TEST_F(Waiting, AnyBufferIsFoundInItsTurn) {
    for (const std::uint32_t n : {0U, 1U, 2U, 17U, 50U, 61U, 62U, 63U}) {
        list = {};
        fill(64);
        for (int call = 0; call < 7; ++call)
            EXPECT_EQ(numbers_of(list.find_some_home()), Numbers{});
        counts->add(n, 10);
        Numbers found;
        for (int call = 0; call < 33 && found.empty(); ++call)
            found = numbers_of(list.find_some_home());
        EXPECT_EQ(found, Numbers{n});
        EXPECT_EQ(numbers_of(list.find_all_home()), Numbers{});
    }
}

TEST_F(Waiting, AllAreLookedAtAgainOnlyAfterAsManyOtherLooks) {
    fill(60);
    EXPECT_TRUE(list.search_is_due());
    EXPECT_EQ(numbers_of(list.find_all_home()), Numbers{});
    for (int call = 0; call < 10; ++call)
        EXPECT_FALSE(list.search_is_due()) << call;
    EXPECT_TRUE(list.search_is_due());
    for (std::uint32_t n = 0; n < 60; ++n)
        counts->add(n, 10);
    EXPECT_EQ(numbers_of(list.find_all_home()).size(), 60U);
    EXPECT_FALSE(list.search_is_due()) << "nothing waits";
}

TEST_F(Waiting, EveryBufferComesOutOnceWhateverTheOrder) {
    fill(50);
    std::vector<std::uint32_t> times(50);
    std::uint32_t out = 0;
    for (std::uint32_t step = 0; step < 50; ++step) {
        counts->add(step * 37 % 50, 10);
        for (const std::uint32_t n :
             numbers_of(step % 5 == 4 ? list.find_all_home() : list.find_some_home())) {
            EXPECT_EQ(++times[n], 1U);
            ++out;
        }
    }
    EXPECT_EQ(out + numbers_of(list.find_all_home()).size(), 50U);
    EXPECT_TRUE(list.empty());
}

} // namespace
} // namespace stride::mprq::test
