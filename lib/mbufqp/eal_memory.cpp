// SPDX-License-Identifier: BSD-3-Clause
#include "mbufqp/eal_memory.hpp"

#include "base/format.hpp"

#include <rte_memory.h>

#include <atomic>

namespace stride::mbufqp {
namespace {

struct Search {
    std::uintptr_t address;
    ibv::MemoryRange range;
};

int match_area(const rte_memseg_list*, const rte_memseg* segment, std::size_t bytes, void* context) noexcept {
    Search& search = *static_cast<Search*>(context);
    const ibv::MemoryRange area{reinterpret_cast<std::uintptr_t>(segment->addr), bytes};
    if (!area.contains(search.address)) return 0;
    search.range = area;
    return 1; // ends the walk
}

void on_memory_event(rte_mem_event event, const void* address, std::size_t bytes, void* context) noexcept {
    if (event == RTE_MEM_EVENT_FREE)
        static_cast<ibv::KeyTable*>(context)->forget({reinterpret_cast<std::uintptr_t>(address), bytes});
}

} // namespace

bool resolve_eal_memory(void*, std::uintptr_t address, ibv::MemoryRange& range) noexcept {
    Search search{address, {}};
    if (rte_memseg_contig_walk(match_area, &search) != 1) return false;
    range = search.range;
    return true;
}

EalMemoryWatch::EalMemoryWatch(ibv::KeyTable& keys)
    : keys_{&keys} {
    static std::atomic<unsigned> number{0};
    name_ = strprintf("mbufqp_%u", number.fetch_add(1));
    // Refused where memory never changes (--no-huge, --legacy-mem): then there is nothing to watch.
    rte_mem_event_callback_register(name_.c_str(), on_memory_event, keys_);
}

EalMemoryWatch::~EalMemoryWatch() { rte_mem_event_callback_unregister(name_.c_str(), keys_); }

} // namespace stride::mbufqp
