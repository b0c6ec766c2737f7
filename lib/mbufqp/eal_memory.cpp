// SPDX-License-Identifier: BSD-3-Clause
#include "mbufqp/eal_memory.hpp"

#include "base/format.hpp"

#include <rte_memory.h>
#include <rte_mempool.h>

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

ibv::MemoryRange range_of(const rte_mempool_memhdr& chunk) noexcept {
    return {reinterpret_cast<std::uintptr_t>(chunk.addr), chunk.len};
}

void match_chunk(rte_mempool*, void* context, rte_mempool_memhdr* chunk, unsigned) noexcept {
    Search& search = *static_cast<Search*>(context);
    if (range_of(*chunk).contains(search.address)) search.range = range_of(*chunk);
}

void match_pool(rte_mempool* pool, void* context) noexcept {
    rte_mempool_mem_iter(pool, match_chunk, context);
}

void forget_chunk(rte_mempool*, void* context, rte_mempool_memhdr* chunk, unsigned) noexcept {
    // The key of EAL's own memory is that of other pools too.
    if (rte_mem_virt2memseg_list(chunk->addr) == nullptr)
        static_cast<ibv::KeyTable*>(context)->forget(range_of(*chunk));
}

void on_pool_event(rte_mempool_event event, rte_mempool* pool, void* context) noexcept {
    if (event == RTE_MEMPOOL_EVENT_DESTROY) rte_mempool_mem_iter(pool, forget_chunk, context);
}

void on_memory_event(rte_mem_event event, const void* address, std::size_t bytes, void* context) noexcept {
    if (event == RTE_MEM_EVENT_FREE)
        static_cast<ibv::KeyTable*>(context)->forget({reinterpret_cast<std::uintptr_t>(address), bytes});
}

} // namespace

bool resolve_eal_memory(void*, std::uintptr_t address, ibv::MemoryRange& range) noexcept {
    Search search{address, {}};
    // Pools may be made of memory that EAL does not know: rte_mempool_populate_anon(), populate_iova().
    if (rte_memseg_contig_walk(match_area, &search) != 1) rte_mempool_walk(match_pool, &search);
    range = search.range;
    return range.bytes != 0;
}

EalMemoryWatch::EalMemoryWatch(ibv::KeyTable& keys)
    : keys_{&keys} {
    static std::atomic<unsigned> number{0};
    name_ = strprintf("mbufqp_%u", number.fetch_add(1));
    // Refused where memory never changes (--no-huge, --legacy-mem): then there is nothing to watch.
    rte_mem_event_callback_register(name_.c_str(), on_memory_event, keys_);
    rte_mempool_event_callback_register(on_pool_event, keys_);
}

EalMemoryWatch::~EalMemoryWatch() {
    rte_mempool_event_callback_unregister(on_pool_event, keys_);
    rte_mem_event_callback_unregister(name_.c_str(), keys_);
}

} // namespace stride::mbufqp
