// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/cq.hpp"

#include "swhca/engine/completion.hpp"
#include "swhca/engine/queues.hpp"
#include "swhca/hca/events.hpp"
#include "swhca/hca/lookup.hpp"
#include "swhca/hca/refuse.hpp"
#include "swhca/hca/user_memory.hpp"

#include <bit>
#include <rdma/mlx5-abi.h>
#include <unistd.h>
#include <utility>

namespace swhca {
namespace {

constexpr std::uint64_t dbrec_bytes = 8;

bool to_mini_format(std::uint8_t abi_format, MiniCqeFormat& format) {
    switch (abi_format) {
    case MLX5_IB_CQE_RES_FORMAT_HASH:
        return format = MiniCqeFormat::hash, true;
    case MLX5_IB_CQE_RES_FORMAT_CSUM:
        return format = MiniCqeFormat::csum, true;
    case MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX:
        return format = MiniCqeFormat::csum_stridx, true;
    default:
        return false;
    }
}

int check_size(const Device& device, const CqRequest& request) {
    const std::uint64_t entries = std::uint64_t{request.cqe} + 1;
    if ((entries & (entries - 1)) != 0 || request.cqe == 0 || request.cqe > device.caps.max_cqe)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_CQ: cqe %u is not a power of two - 1 up to %u",
                      request.cqe, device.caps.max_cqe);
    if (request.cqe_bytes != 64 && request.cqe_bytes != 128)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_CQ: cqe_size %u, neither 64 nor 128",
                      request.cqe_bytes);
    if (request.comp_vector >= completion_vectors)
        return refuse(Rule::bad_argument, EINVAL, "CREATE_CQ: comp_vector %u of %u", request.comp_vector,
                      completion_vectors);
    return 0;
}

int check_memory(const CqRequest& request) {
    const std::uint64_t ring_bytes = (std::uint64_t{request.cqe} + 1) * request.cqe_bytes;
    if (request.ring % 64 != 0 || request.dbrec % dbrec_bytes != 0)
        return refuse(
            Rule::bad_argument, EINVAL, "CREATE_CQ: ring 0x%llx or doorbell record 0x%llx misaligned",
            static_cast<unsigned long long>(request.ring), static_cast<unsigned long long>(request.dbrec));
    if (!is_mapped(request.ring, ring_bytes, true) || !is_mapped(request.dbrec, dbrec_bytes, true))
        return refuse(
            Rule::bad_argument, EFAULT, "CREATE_CQ: ring 0x%llx or doorbell record 0x%llx not mapped",
            static_cast<unsigned long long>(request.ring), static_cast<unsigned long long>(request.dbrec));
    return 0;
}

void free_channel(Context& context, CompChannel& channel) {
    close(channel.program_fd);
    close(channel.engine_fd);
    context.channels.erase(channel.handle);
}

} // namespace

int create_cq(Context& context, const CqRequest& request, Cq*& cq) {
    Device& device = *context.device;
    if (const int error = check_size(device, request)) return error;
    auto made = std::make_unique<Cq>();
    if (request.compress &&
        (!device.caps.cqe_compression || !to_mini_format(request.compress_format, made->mini_cqe)))
        return refuse(Rule::bad_argument, EOPNOTSUPP, "CREATE_CQ: compression format 0x%x%s",
                      request.compress_format, device.caps.cqe_compression ? "" : " (the device has none)");
    if (const int error = check_memory(request)) return error;
    if (device.cqs >= device.caps.max_cq) return ENOMEM;
    made->cqn.value = device.next_cqn++ & 0xffffffU;
    made->ring = reinterpret_cast<std::byte*>(request.ring);
    made->size = RingSize::at_least(request.cqe + 1);
    made->cqe_bytes = request.cqe_bytes;
    made->dbrec = reinterpret_cast<be32*>(request.dbrec);
    made->channel = request.channel;
    made->user_handle = request.user_handle;
    cq = file_object(context, context.cqs, std::move(made));
    {
        Engine::Quiesced quiet{*device.engine};
        open_cq(*cq, device.port);
    }
    if (cq->channel != nullptr) ++cq->channel->users;
    ++device.cqs;
    return 0;
}

int destroy_cq(Context& context, std::uint32_t handle, EventsRead& read) {
    Cq* cq = find_object(context.cqs, handle);
    if (cq == nullptr) return refuse(Rule::bad_handle, ENOENT, "DESTROY_CQ: cq %u", handle);
    if (cq->users != 0) return EBUSY;
    CompChannel* channel = cq->channel;
    {
        Engine::Quiesced quiet{*context.device->engine};
        close_cq(*cq, context.device->port);
        const std::uint32_t unread =
            channel != nullptr ? take_back_completions(*channel, cq->user_handle) : 0;
        read.completions = cq->comp_events - unread;
        read.async = cq->async_events - take_back_async(context, cq->user_handle);
    }
    if (channel != nullptr && --channel->users == 0 && channel->closed) free_channel(context, *channel);
    context.cqs.erase(handle);
    --context.device->cqs;
    return 0;
}

int resize_cq(Context& context, std::uint32_t handle, const CqRequest& request) {
    Cq* cq = find_object(context.cqs, handle);
    if (cq == nullptr) return refuse(Rule::bad_handle, EINVAL, "RESIZE_CQ: cq %u", handle);
    if (request.cqe_bytes != cq->cqe_bytes)
        return refuse(Rule::bad_argument, EINVAL, "RESIZE_CQ: CQEs of %u bytes instead of %u",
                      request.cqe_bytes, cq->cqe_bytes);
    CqRequest wanted = request;
    wanted.dbrec = std::bit_cast<std::uint64_t>(cq->dbrec);
    if (const int error = check_size(*context.device, wanted)) return error;
    if (const int error = check_memory(wanted)) return error;
    if (cq->mini_cqe != MiniCqeFormat::none)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "RESIZE_CQ: cq 0x%x compresses its CQEs",
                      cq->cqn.value);
    Engine::Quiesced quiet{*context.device->engine};
    if (cq->overrun || !refresh_cq_room(*cq))
        return refuse(Rule::bad_argument, EINVAL, "RESIZE_CQ: cq 0x%x is full", cq->cqn.value);
    const std::uint32_t unread = cq->pi - cq->ci;
    if (unread > wanted.cqe)
        return refuse(Rule::bad_argument, EINVAL, "RESIZE_CQ: %u unread CQEs do not fit in %u", unread,
                      wanted.cqe);
    // The mark is for libmlx5 alone: nobody is woken for it.
    const bool armed = std::exchange(cq->armed, false);
    begin_cqe(*cq);
    publish_cqe(*cq, {0, prm::CqeOpcode::resize, false});
    cq->armed = armed;
    cq->ci = cq->pi - unread;
    cq->ring = std::bit_cast<std::byte*>(wanted.ring);
    cq->size = RingSize::at_least(wanted.cqe + 1);
    return 0;
}

int modify_cq(Context& context, std::uint32_t handle, std::uint16_t count, std::uint16_t period_us) {
    Cq* cq = find_object(context.cqs, handle);
    if (cq == nullptr) return refuse(Rule::bad_handle, EINVAL, "MODIFY_CQ: cq %u", handle);
    cq->moderation_count = count;
    cq->moderation_period_us = period_us;
    return 0;
}

int create_channel(Context& context, CompChannel*& channel, int& program_fd) {
    SocketPair pair;
    if (const int error = open_event_pair(pair)) return error;
    auto made = std::make_unique<CompChannel>();
    made->program_fd = pair.copy_fd;
    made->engine_fd = pair.engine_fd;
    program_fd = pair.program_fd;
    channel = file_object(context, context.channels, std::move(made));
    return 0;
}

void channel_closed(Context& context, CompChannel& channel) {
    channel.closed = true;
    if (channel.users == 0) free_channel(context, channel);
}

} // namespace swhca
