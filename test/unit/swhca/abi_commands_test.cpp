// SPDX-License-Identifier: BSD-3-Clause
/// Commands as libibverbs writes them, against an HCA that nothing else uses.
#include "swhca/abi/dispatch.hpp"
#include "swhca/hca/build.hpp"
#include "swhca/hca/config.hpp"
#include "swhca/hca/cq.hpp"
#include "swhca/hca/pd_mr.hpp"
#include "swhca/hca/rules.hpp"
#include "swhca/hca/wq.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

namespace swhca {
namespace {

class NoChannels final : public DescriptorTable {
  public:
    void watch_channel(int, Context&, CompChannel&) override {}
    CompChannel* channel_of(int, const Context&) override { return nullptr; }
};

/// A context with a WQ on a CQ.
struct Opened {
    Opened() {
        reset_broken(true);
        Config config;
        config.ports = default_ports();
        config.engine.manual = true;
        EXPECT_TRUE(complete(config).ok());
        hca = std::move(build_hca(config)).value();
        const std::scoped_lock lock{hca->commands};
        EXPECT_EQ(open_context(*hca, *hca->devices[0], context), 0);
        context->opened = true;
        Pd* pd = nullptr;
        EXPECT_EQ(alloc_pd(*context, pd), 0);
        Cq* cq = nullptr;
        const CqRequest on{.cqe = 15,
                           .ring = std::bit_cast<std::uint64_t>(cq_ring.data()),
                           .dbrec = std::bit_cast<std::uint64_t>(records.data()),
                           .cqe_bytes = 64};
        EXPECT_EQ(create_cq(*context, on, cq), 0);
        const WqRequest wanted{.pd_handle = pd->handle,
                               .cq_handle = cq->handle,
                               .max_wr = 16,
                               .max_sge = 1,
                               .ring = std::bit_cast<std::uint64_t>(wq_ring.data()),
                               .dbrec = std::bit_cast<std::uint64_t>(records.data() + 64),
                               .wqe_count = 16,
                               .log_wqe_bytes = 4};
        EXPECT_EQ(create_wq(*context, wanted, wq), 0);
    }
    ~Opened() {
        const int fd = context->fd;
        const std::scoped_lock lock{hca->commands};
        close_context(*context);
        close(fd);
    }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

    /// EX_MODIFY_WQ; 0 or the errno.
    int modify(std::uint32_t mask, std::uint32_t state, std::uint32_t current) {
        struct {
            ib_uverbs_cmd_hdr header;
            ib_uverbs_ex_cmd_hdr extended;
            ib_uverbs_ex_modify_wq request;
        } command{};
        command.header.command = IB_USER_VERBS_EX_CMD_MODIFY_WQ | IB_USER_VERBS_CMD_FLAG_EXTENDED;
        command.header.in_words = sizeof command.request / 8;
        command.request.attr_mask = mask;
        command.request.wq_handle = wq->handle;
        command.request.wq_state = state;
        command.request.curr_wq_state = current;
        std::array<std::byte, sizeof command> bytes;
        std::memcpy(bytes.data(), &command, sizeof command);
        return execute_command(*hca, *context, channels, bytes);
    }

    alignas(4096) std::array<std::byte, 4096> cq_ring{}, wq_ring{}, records{};
    NoChannels channels{};
    std::unique_ptr<Hca> hca{};
    Context* context{};
    Rq* wq{};
};

constexpr std::uint32_t takes_state = 1, takes_current = 2;
constexpr std::uint32_t reset = 0, ready = 1, error = 2, none = 3;

TEST(ModifyWq, CurrentStateThatIsNotGivenIsNotLookedAt) {
    Opened t;
    EXPECT_EQ(t.modify(takes_state, ready, 0xffffffff), 0);
    EXPECT_EQ(t.wq->state, QueueState::ready);
}

TEST(ModifyWq, CurrentStateThatIsGivenMustBeTheQueues) {
    Opened t;
    EXPECT_EQ(t.modify(takes_state | takes_current, ready, error), EINVAL);
    EXPECT_EQ(t.wq->state, QueueState::reset);
    EXPECT_EQ(t.modify(takes_state | takes_current, ready, reset), 0);
    EXPECT_EQ(t.wq->state, QueueState::ready);
}

TEST(ModifyWq, StatesThatDoNotExistAreRefused) {
    Opened t;
    EXPECT_EQ(t.modify(takes_state, none, 0), EINVAL);
    EXPECT_EQ(t.modify(takes_state | takes_current, ready, none), EINVAL);
    EXPECT_EQ(t.modify(0, ready, 0), EINVAL);
    EXPECT_EQ(t.wq->state, QueueState::reset);
}

TEST(ModifyWq, LeavesTheErrorStateByResetOnly) {
    Opened t;
    EXPECT_EQ(t.modify(takes_state, error, 0), 0);
    EXPECT_EQ(t.modify(takes_state, ready, 0), EINVAL);
    EXPECT_EQ(t.modify(takes_state, reset, 0), 0);
    EXPECT_EQ(t.modify(takes_state, ready, 0), 0);
}

} // namespace
} // namespace swhca
