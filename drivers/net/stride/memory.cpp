// SPDX-License-Identifier: BSD-3-Clause
// Memory keys for memory that EAL knows: hugepages, --no-huge memory, memory registered by
// rte_extmem_register.
#include "ops.hpp"

#include <rte_memory.h>

#include <cstdio>

namespace stride::pmd {
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
    if (event != RTE_MEM_EVENT_FREE) return;
    static_cast<Port*>(context)->keys.forget({reinterpret_cast<std::uintptr_t>(address), bytes});
}

std::string watcher_name(const Port& port) { return strprintf("stride_port_%u", port.data->port_id); }

} // namespace

bool Port::resolve_memory(void*, std::uintptr_t address, ibv::MemoryRange& range) noexcept {
    Search search{address, {}};
    if (rte_memseg_contig_walk(match_area, &search) != 1) return false;
    range = search.range;
    return true;
}

void watch_memory(Port& port) noexcept {
    // Refused where memory never changes (--no-huge, --legacy-mem): then there is nothing to watch.
    rte_mem_event_callback_register(watcher_name(port).c_str(), on_memory_event, &port);
}

void unwatch_memory(Port& port) noexcept {
    rte_mem_event_callback_unregister(watcher_name(port).c_str(), &port);
}

} // namespace stride::pmd
