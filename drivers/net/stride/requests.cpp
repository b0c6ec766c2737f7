// SPDX-License-Identifier: BSD-3-Clause
#include "requests.hpp"

#include "base/format.hpp"
#include "ops.hpp"

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <unistd.h>

namespace stride::pmd {
namespace {

constexpr char channel[] = "net_stride";
/// An answer takes a command of the device at most. The primary may be at a memory area of its own meanwhile.
constexpr std::time_t patience_s = 5;

static_assert(std::is_trivially_copyable_v<Question> && sizeof(Question) <= RTE_MP_MAX_PARAM_LEN);
static_assert(std::is_trivially_copyable_v<Answer> && sizeof(Answer) <= RTE_MP_MAX_PARAM_LEN);

template <class Content>
rte_mp_msg message_of(const Content& content) noexcept {
    rte_mp_msg message{};
    std::memcpy(message.name, channel, sizeof channel);
    message.len_param = sizeof content;
    std::memcpy(message.param, &content, sizeof content);
    return message;
}

/// The primary's ports, by number; the lock is held while one is asked about.
constinit std::mutex asked{};
std::array<Port*, RTE_MAX_ETHPORTS> ports{};

int code_of(const Status& status) noexcept { return status ? 0 : status.error().code; }

/// A queue that runs, or nothing: one that is being stopped is not asked about any more.
template <class Slots, class Shared>
auto* running_slot(const Slots& slots, const Shared& shared, std::uint16_t queue) noexcept {
    const bool runs = queue < slots.size() && slots[queue] && slots[queue]->running &&
                      shared[queue].queue.load() != nullptr;
    return runs ? slots[queue].get() : nullptr;
}

int change_rxq(Port& port, const Question& question) noexcept {
    const std::lock_guard lock{port.mutex};
    RxSlot* const slot = running_slot(port.rxqs, port.shared->rxqs, question.queue);
    if (slot == nullptr) return ENODEV;
    return code_of(question.ask == Ask::reset_wq ? slot->running->rq.reset()
                                                 : slot->running->rq.make_ready());
}

int recover_txq(Port& port, std::uint16_t queue) noexcept {
    const std::lock_guard lock{port.mutex};
    TxSlot* const slot = running_slot(port.txqs, port.shared->txqs, queue);
    return slot == nullptr ? ENODEV : code_of(slot->running->qp.recover());
}

void note_spare_low(Port& port, std::uint16_t queue) noexcept {
    const std::lock_guard lock{port.mutex};
    if (RxSlot* const slot = running_slot(port.rxqs, port.shared->rxqs, queue); slot != nullptr) {
        slot->spare_low = true;
        port.interrupts.tell_spare_low();
    }
}

Answer answer_to(const Question& question) noexcept {
    const std::lock_guard lock{asked};
    Port* const port = question.port_id < ports.size() ? ports[question.port_id] : nullptr;
    if (port == nullptr) return {.code = ENODEV};
    switch (question.ask) {
    case Ask::command_fd:
        return {.fd = port->device->context()->cmd_fd};
    case Ask::find_key: {
        Answer answer;
        const bool found = port->keys.find_or_log(static_cast<std::uintptr_t>(question.address), answer.key,
                                                  "net_stride, secondary process, queue", question.queue);
        answer.code = found ? 0 : EFAULT;
        return answer;
    }
    case Ask::reset_wq:
    case Ask::ready_wq:
        return {.code = change_rxq(*port, question)};
    case Ask::recover_qp:
        return {.code = recover_txq(*port, question.queue)};
    case Ask::spare_low:
        note_spare_low(*port, question.queue);
        return {};
    case Ask::stats:
        return {.code = -stats_get(&rte_eth_devices[question.port_id], &port->shared->stats,
                                   &port->shared->queue_stats)};
    }
    return {.code = EINVAL};
}

int answer(const rte_mp_msg* message, const void* peer) {
    Question question;
    if (message->len_param != sizeof question) return -EINVAL;
    std::memcpy(&question, message->param, sizeof question);
    Answer given = answer_to(question);
    given.number = question.number;
    if (question.ask == Ask::spare_low) return 0;
    rte_mp_msg reply = message_of(given);
    if (given.fd >= 0) {
        reply.fds[0] = given.fd;
        reply.num_fds = 1;
    }
    return rte_mp_reply(&reply, static_cast<const char*>(peer));
}

Answer content_of(const rte_mp_msg& reply) noexcept {
    Answer answer{.code = EPROTO};
    if (reply.len_param == sizeof answer) std::memcpy(&answer, reply.param, sizeof answer);
    answer.fd = reply.num_fds == 1 ? reply.fds[0] : -1;
    return answer;
}

} // namespace

Status answer_secondaries() {
    if (rte_eal_has_hugepages() == 0) return Error{ENOTSUP, "EAL's memory is this process's own (--no-huge)"};
    if (rte_mp_action_register(channel, answer) == 0 || rte_errno == EEXIST) return {};
    return Error{rte_errno, strprintf("EAL has no channel to other processes: %s", rte_strerror(rte_errno))};
}

void admit_questions(std::uint16_t port_id, Port* port) noexcept {
    const std::lock_guard lock{asked};
    ports[port_id] = port;
}

Answer ask_primary(Question question) noexcept {
    static constinit std::mutex one_at_a_time{}; // EAL refuses a second request of a name
    static std::uint32_t last_number = 0;
    static std::uint64_t not_before = 0;
    const std::lock_guard lock{one_at_a_time};
    if (rte_get_timer_cycles() < not_before) return {.code = EAGAIN};
    question.number = ++last_number;
    rte_mp_msg request = message_of(question);
    struct rte_mp_reply reply {};
    const timespec patience{.tv_sec = patience_s, .tv_nsec = 0};
    if (rte_mp_request_sync(&request, &reply, &patience) != 0) {
        not_before = rte_get_timer_cycles() + rte_get_timer_hz(); // a burst may ask again for every packet
        return {.code = rte_errno != 0 ? rte_errno : EIO};
    }
    const Answer answer = reply.nb_received == 1 ? content_of(reply.msgs[0]) : Answer{.code = EPIPE};
    std::free(reply.msgs);
    // That of a question before, whose asker has given up.
    if (answer.code != 0 || answer.number == question.number) return answer;
    if (answer.fd >= 0) close(answer.fd);
    return {.code = EPROTO};
}

void tell_primary(const Question& question) noexcept {
    rte_mp_msg message = message_of(question);
    rte_mp_sendmsg(&message);
}

} // namespace stride::pmd
