// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/pd_mr.hpp"

#include "swhca/hca/lookup.hpp"
#include "swhca/hca/refuse.hpp"
#include "swhca/hca/user_memory.hpp"

#include <algorithm>
#include <cassert>
#include <rdma/ib_user_ioctl_verbs.h>

namespace swhca {
namespace {

constexpr unsigned lkey_variant_bits = 8;
constexpr std::uint32_t variant_mask = (1U << lkey_variant_bits) - 1;

constexpr std::uint32_t known_access = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
                                       IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_REMOTE_ATOMIC |
                                       IB_UVERBS_ACCESS_MW_BIND | IB_UVERBS_ACCESS_ZERO_BASED |
                                       IB_UVERBS_ACCESS_HUGETLB | IB_UVERBS_ACCESS_RELAXED_ORDERING;

int check_range(const MrRequest& request) {
    constexpr std::uint64_t page_mask = 4095;
    if (request.length_bytes == 0 || request.start + request.length_bytes < request.start)
        return refuse(Rule::bad_argument, EINVAL, "REG_MR: range 0x%llx + %llu",
                      static_cast<unsigned long long>(request.start),
                      static_cast<unsigned long long>(request.length_bytes));
    if ((request.start & page_mask) != (request.iova & page_mask))
        return refuse(
            Rule::bad_argument, EINVAL, "REG_MR: address 0x%llx and iova 0x%llx differ within a page",
            static_cast<unsigned long long>(request.start), static_cast<unsigned long long>(request.iova));
    const bool writable = (request.access & IB_UVERBS_ACCESS_LOCAL_WRITE) != 0;
    if (!is_mapped(request.start, request.length_bytes, writable))
        return refuse(Rule::bad_argument, EFAULT, "REG_MR: 0x%llx + %llu is not all mapped%s",
                      static_cast<unsigned long long>(request.start),
                      static_cast<unsigned long long>(request.length_bytes), writable ? " writable" : "");
    return 0;
}

int check_access(std::uint32_t access) {
    if ((access & ~known_access) != 0)
        return refuse(Rule::bad_argument, EOPNOTSUPP, "REG_MR: access flags 0x%x", access & ~known_access);
    const std::uint32_t remote = IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC;
    if ((access & remote) != 0 && (access & IB_UVERBS_ACCESS_LOCAL_WRITE) == 0)
        return refuse(Rule::bad_argument, EINVAL, "REG_MR: remote write access without local write");
    return 0;
}

} // namespace

std::vector<Mr> MrTable::reserved_slots() {
    // Index 0 would make lkey 0, index 1 libmlx5's list terminator 0x100. Neither slot matches its lkeys.
    std::vector<Mr> slots(2);
    slots[0].lkey.value = ~0U;
    return slots;
}

Lkey MrTable::add(Mr mr) {
    std::uint32_t index = 0;
    if (free_.empty()) {
        index = static_cast<std::uint32_t>(slots_.size());
        slots_.emplace_back();
    } else {
        index = free_.back();
        free_.pop_back();
    }
    // A free slot keeps the variant of its last key, in an lkey that no look-up of this index equals.
    mr.lkey.value = index << lkey_variant_bits | ((slots_[index].lkey.value + 1) & variant_mask);
    slots_[index] = mr;
    return mr.lkey;
}

bool MrTable::change(const Mr& mr) {
    if (find(mr.lkey) == nullptr) return false;
    slots_[mr.lkey.value >> lkey_variant_bits] = mr;
    ++changes_;
    return true;
}

bool MrTable::remove(Lkey lkey) {
    const std::uint32_t index = lkey.value >> lkey_variant_bits;
    if (find(lkey) == nullptr || index < 2) return false;
    slots_[index] = Mr{};
    slots_[index].lkey.value = lkey.value & variant_mask;
    free_.insert(free_.begin(), index); // reused last, so that a stale key stays stale long
    ++changes_;
    return true;
}

Pd& domain_of(Context& context, Pdn pdn) noexcept {
    const auto at = std::find_if(context.pds.begin(), context.pds.end(),
                                 [&](const auto& entry) { return entry.second->pdn == pdn; });
    assert(at != context.pds.end());
    return *at->second;
}

int alloc_pd(Context& context, Pd*& pd) {
    Device& device = *context.device;
    if (device.pds >= device.caps.max_pd) return ENOMEM;
    auto made = std::make_unique<Pd>();
    made->pdn.value = device.next_pdn++ & 0xffffffU;
    pd = file_object(context, context.pds, std::move(made));
    ++device.pds;
    return 0;
}

int dealloc_pd(Context& context, std::uint32_t handle) {
    const Pd* pd = find_object(context.pds, handle);
    if (pd == nullptr) return refuse(Rule::bad_handle, ENOENT, "DEALLOC_PD: pd %u", handle);
    if (pd->users != 0) return EBUSY;
    context.pds.erase(handle);
    --context.device->pds;
    return 0;
}

int reg_mr(Context& context, const MrRequest& request, std::uint32_t& handle, Lkey& lkey) {
    Device& device = *context.device;
    Pd* pd = find_object(context.pds, request.pd_handle);
    if (pd == nullptr) return refuse(Rule::bad_handle, EINVAL, "REG_MR: pd %u", request.pd_handle);
    if (const int error = check_access(request.access)) return error;
    if (const int error = check_range(request)) return error;
    if (device.mr_count >= device.caps.max_mr) return ENOMEM;
    auto mr = std::make_unique<Mr>();
    mr->pd = pd->pdn;
    mr->start = request.start;
    mr->iova = request.iova;
    mr->length_bytes = request.length_bytes;
    mr->local_write = (request.access & IB_UVERBS_ACCESS_LOCAL_WRITE) != 0;
    {
        Engine::Quiesced quiet{*device.engine};
        lkey = mr->lkey = device.mrs.add(*mr);
    }
    handle = context.next_handle;
    file_object(context, context.mrs, std::move(mr));
    ++pd->users;
    ++device.mr_count;
    return 0;
}

int rereg_mr(Context& context, std::uint32_t handle, std::uint32_t changes, const MrRequest& request,
             Lkey& lkey) {
    Mr* mr = find_object(context.mrs, handle);
    if (mr == nullptr) return refuse(Rule::bad_handle, EINVAL, "REREG_MR: mr %u", handle);
    if (changes == 0 || (changes & ~(mr_change::range | mr_change::pd | mr_change::access)) != 0)
        return refuse(Rule::bad_argument, EINVAL, "REREG_MR: flags 0x%x", changes);
    MrRequest wanted{.start = mr->start,
                     .length_bytes = mr->length_bytes,
                     .iova = mr->iova,
                     .access = mr->local_write ? std::uint32_t{IB_UVERBS_ACCESS_LOCAL_WRITE} : 0U};
    if ((changes & mr_change::range) != 0) {
        wanted.start = request.start;
        wanted.length_bytes = request.length_bytes;
        wanted.iova = request.iova;
    }
    if ((changes & mr_change::access) != 0) wanted.access = request.access;
    Pd* pd = &domain_of(context, mr->pd);
    if ((changes & mr_change::pd) != 0) pd = find_object(context.pds, request.pd_handle);
    if (pd == nullptr) return refuse(Rule::bad_handle, EINVAL, "REREG_MR: pd %u", request.pd_handle);
    if (const int error = check_access(wanted.access)) return error;
    if (const int error = check_range(wanted)) return error;
    --domain_of(context, mr->pd).users;
    ++pd->users;
    mr->pd = pd->pdn;
    mr->start = wanted.start;
    mr->iova = wanted.iova;
    mr->length_bytes = wanted.length_bytes;
    mr->local_write = (wanted.access & IB_UVERBS_ACCESS_LOCAL_WRITE) != 0;
    Engine::Quiesced quiet{*context.device->engine};
    context.device->mrs.change(*mr);
    lkey = mr->lkey;
    return 0;
}

int dereg_mr(Context& context, std::uint32_t handle) {
    const Mr* mr = find_object(context.mrs, handle);
    if (mr == nullptr) return refuse(Rule::bad_handle, ENOENT, "DEREG_MR: mr %u", handle);
    Device& device = *context.device;
    {
        Engine::Quiesced quiet{*device.engine};
        device.mrs.remove(mr->lkey);
    }
    --domain_of(context, mr->pd).users;
    context.mrs.erase(handle);
    --device.mr_count;
    return 0;
}

} // namespace swhca
