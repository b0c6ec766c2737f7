// SPDX-License-Identifier: BSD-3-Clause
/// Stop and wake against a sender that never rests: an HCA on its own thread completes while the queue's user
/// looks, finds no room, and asks for an event. (OpenFabrics 2008 "TX ring full, stopping"; Linux
/// 18912c452438: the look was outside of the lock under which one waits.) STRIDE_RACE_ROUNDS=1000000 for the
/// long run, under ThreadSanitizer.
#include "mbufqp/events.hpp"
#include "mbufqp/mbufqp.h"
#include "tx_fixture.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <semaphore.h>
#include <thread>

namespace stride::test {
namespace {

using mbufqp::QueueSet;

/// Reads control segments only, completes those that ask, and gives events as the PRM says: when the arm
/// record has changed and its index is not the producer's.
class CompletingHca {
  public:
    static constexpr unsigned log_wqebbs = 6, log_cqes = 5;

    CompletingHca() {
        sem_init(&event_, 0, 0);
        std::memset(cqes_, 0xf0, sizeof cqes_);
        dbrecs_[2] = be32{0xffffffff};
    }
    ~CompletingHca() { sem_destroy(&event_); }

    mlx5::SqRing sq() {
        return {.wqebbs = wqebbs_,
                .size = RingSize::from_log(log_wqebbs),
                .dbrec = &dbrecs_[0],
                .doorbell = uar_,
                .qpn = Qpn{1}};
    }
    mlx5::CqRing cq() {
        return {.cqes = cqes_,
                .size = RingSize::from_log(log_cqes),
                .dbrec = &dbrecs_[1],
                .uar = uar_,
                .cqn = Cqn{2}};
    }
    /// False: no event in half a minute.
    bool wait() {
        timespec until{};
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 30;
        return sem_timedwait(&event_, &until) == 0;
    }
    void run(const std::atomic<bool>& stop, mbufqp::EventSource& source) {
        while (!stop.load(std::memory_order_relaxed)) {
            complete();
            if (!armed_changed()) continue;
            source.happened();
            sem_post(&event_);
        }
    }

  private:
    void complete() {
        const auto pi = static_cast<std::uint16_t>(load_from_device(&dbrecs_[0]).host());
        while (ci_ != pi) {
            mlx5_wqe_ctrl_seg ctrl;
            std::memcpy(&ctrl, wqebbs_ + std::size_t{ci_ % (1U << log_wqebbs)} * 64, sizeof ctrl);
            if ((ctrl.fm_ce_se & MLX5_WQE_CTRL_CQ_UPDATE) != 0) write_cqe();
            ci_ = static_cast<std::uint16_t>(ci_ + ((be32::from_wire(ctrl.qpn_ds).host() & 0x3f) + 3) / 4);
        }
    }
    void write_cqe() {
        const RingSize size = RingSize::from_log(log_cqes);
        std::byte* at = cqes_ + std::size_t{size.slot(cq_pi_)} * 64;
        mlx5_cqe64 cqe{};
        cqe.wqe_counter = be16{ci_}.wire();
        std::memcpy(at, &cqe, 63);
        store_to_device(reinterpret_cast<std::uint8_t*>(at + 63),
                        static_cast<std::uint8_t>(size.round_parity(cq_pi_) ? 1 : 0));
        ++cq_pi_;
    }
    bool armed_changed() {
        const std::uint32_t arm = load_from_device(&dbrecs_[2]).host();
        if (arm == last_arm_ || (arm & 0xffffff) == (cq_pi_ & 0xffffff)) return false;
        last_arm_ = arm;
        return true;
    }

    alignas(64) std::byte wqebbs_[std::size_t{64} << log_wqebbs]{};
    alignas(64) std::byte cqes_[std::size_t{64} << log_cqes];
    alignas(64) std::byte uar_[4096]{};
    be32 dbrecs_[3]{};
    sem_t event_{};
    std::uint16_t ci_{};
    std::uint32_t cq_pi_{};
    std::uint32_t last_arm_{0xffffffff};
};

unsigned rounds() {
    const char* asked = std::getenv("STRIDE_RACE_ROUNDS");
    return asked != nullptr ? static_cast<unsigned>(std::strtoul(asked, nullptr, 0)) : 5000U;
}

bool any_key(void*, std::uintptr_t, ibv::KeyEntry& entry) noexcept {
    entry = {{0, SIZE_MAX / 2}, be32{0x1001}};
    return true;
}

class WakeRace : public TxFixture {
  protected:
    void run(std::uint32_t stop_below, std::uint32_t wake_at) {
        CompletingHca hca;
        mbufqp::TxQueueConfig config;
        config.sq = hca.sq();
        config.cq = hca.cq();
        config.mbufs = 64;
        config.features = TxFeature::multi_packet;
        config.keys = {&any_key, nullptr, nullptr};
        config.recovery = {[](void*) noexcept { return false; }, nullptr};
        auto set = QueueSet::open({.queues = {&config, 1},
                                   .burst = mbufqp::ethernet_burst(TxFeature::multi_packet),
                                   .stop_below = stop_below,
                                   .wake_at = wake_at});
        ASSERT_TRUE(set.ok()) << set.error().what;
        mbufqp::EventSource source{hca.cq(), nullptr, MBUFQP_EVENT_WRITE, 0};
        std::atomic<bool> stop{false};
        std::thread device{[&] { hca.run(stop, source); }};
        std::uint64_t sent = 0;
        unsigned waits = 0;
        bool woken = true;
        while (waits < rounds() && woken) {
            while (std::uint32_t room = set->write_avail(0)) {
                rte_mbuf* burst[32];
                room = room < 32 ? room : 32;
                for (std::uint32_t i = 0; i < room; ++i)
                    burst[i] = packet(60);
                const std::uint16_t put = set->put(0, burst, static_cast<std::uint16_t>(room));
                ASSERT_EQ(put, room) << "write_avail promised it";
                sent += put;
            }
            if (mbufqp::room_or_arm(set.value(), 0, source)) continue;
            ++waits;
            woken = hca.wait();
        }
        EXPECT_TRUE(woken) << "no event after " << waits << " waits and " << sent << " packets";
        while (!set->queue(0).drain(1000000)) {
        }
        stop = true;
        device.join();
        EXPECT_EQ(set->stats(0).packets, sent);
    }
};

TEST_F(WakeRace, QueueStoppedWhenFullIsAlwaysWoken) { run(0, 0); }

TEST_F(WakeRace, QueueStoppedAtHighWaterIsAlwaysWokenAtLowWater) { run(8, 32); }

} // namespace
} // namespace stride::test
