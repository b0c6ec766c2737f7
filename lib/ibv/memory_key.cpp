// SPDX-License-Identifier: BSD-3-Clause
#include "ibv/memory_key.hpp"

namespace stride::ibv {

Result<MemoryKey> MemoryKey::register_range(std::shared_ptr<Device> device, MemoryRange range) {
    void* const base = reinterpret_cast<void*>(range.base); // NOLINT(performance-no-int-to-ptr)
    // Out-of-order PCI writes are harmless here: the CQE is written in order after the data.
    constexpr unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
    Owned<ibv_mr> mr{ibv_reg_mr(device->pd(), base, range.bytes, access), {device}};
    if (!mr)
        return verbs_error(
            0, strprintf("%s: register %zu bytes at %p", device->name().c_str(), range.bytes, base));
    return MemoryKey{std::move(mr), range};
}

} // namespace stride::ibv
