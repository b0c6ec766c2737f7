// SPDX-License-Identifier: BSD-3-Clause
#include "mprq/bind_pool.hpp"

#include "base/log.hpp"
#include "base/ring.hpp"
#include "mprq/iova.hpp"

#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace stride::mprq {
namespace {

constexpr const char* ops_name = "stride";
constexpr std::uint32_t max_log_pitch = 13; // largest stride of any device
constexpr std::uint32_t max_colours = BindLayout::max_colours;
/// Colours take from the room behind the headroom; never below this, a frame of 1518 bytes with VLAN tags.
constexpr std::uint32_t colourless_room_bytes = 1536;
constexpr std::size_t page_bytes = 4096;

class Locked {
  public:
    explicit Locked(rte_spinlock_t& lock) noexcept
        : lock_{lock} {
        rte_spinlock_lock(&lock_);
    }
    ~Locked() { rte_spinlock_unlock(&lock_); }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

  private:
    rte_spinlock_t& lock_;
};

/// Nothing if the objects are not mbufs with their data behind them (external buffers, other users).
std::optional<BindLayout> layout_of(const rte_mempool* pool) noexcept {
    if (pool->private_data_size < sizeof(rte_pktmbuf_pool_private)) return std::nullopt;
    const auto* of_mbufs =
        static_cast<const rte_pktmbuf_pool_private*>(rte_mempool_get_priv(const_cast<rte_mempool*>(pool)));
    const BindLayout::Object object{pool->header_size, pool->trailer_size, of_mbufs->mbuf_priv_size,
                                    of_mbufs->mbuf_data_room_size};
    if (pool->elt_size != sizeof(rte_mbuf) + object.private_bytes + object.room_bytes) return std::nullopt;
    return BindLayout::of(object);
}

/// An mbuf in an lcore's cache keeps its WQE buffer from home, so that caches are small. Only while the pool
/// is made: nobody has used them yet.
void shrink_caches(rte_mempool* pool) noexcept {
    constexpr std::uint32_t most = 64;
    if (pool->cache_size <= most) return;
    pool->cache_size = most;
    for (unsigned lcore = 0; lcore < RTE_MAX_LCORE; ++lcore) {
        pool->local_cache[lcore].size = most;
        pool->local_cache[lcore].flushthresh = most + most / 2;
    }
}

BindPool& data_of(const rte_mempool* pool) noexcept { return *static_cast<BindPool*>(pool->pool_data); }

} // namespace

std::optional<BindLayout> BindLayout::of(const Object& object) noexcept {
    if (object.room_bytes <= RTE_PKTMBUF_HEADROOM) return std::nullopt;
    const std::uint32_t fixed = object.header_bytes + std::uint32_t{sizeof(rte_mbuf)} + object.private_bytes +
                                object.room_bytes + object.trailer_bytes;
    BindLayout layout;
    layout.log_pitch = RingSize::at_least(fixed).log();
    if (layout.log_pitch > max_log_pitch) return std::nullopt;
    const std::uint32_t room = object.room_bytes - RTE_PKTMBUF_HEADROOM;
    const std::uint32_t to_give = room > colourless_room_bytes ? room - colourless_room_bytes : 0;
    const std::uint32_t most = std::min(layout.pitch_bytes() - fixed, to_give) / colour_bytes + 1;
    layout.colour_mask = std::bit_floor(std::min(most, max_colours)) - 1;
    layout.head_bytes = std::uint32_t{sizeof(rte_mbuf)} + object.private_bytes + RTE_PKTMBUF_HEADROOM;
    layout.data_offset = object.header_bytes + layout.head_bytes + layout.colour_mask * colour_bytes;
    layout.frame_bytes = room - layout.colour_mask * colour_bytes;
    return layout;
}

BindPool* BindPool::of(const rte_mempool* pool) noexcept {
    if (std::strcmp(rte_mempool_get_ops(pool->ops_index)->name, ops_name) != 0) return nullptr;
    auto* data = static_cast<BindPool*>(pool->pool_data); // nullptr: nothing populated yet
    return data != nullptr && data->slot_count_ != 0 ? data : nullptr;
}

// Claims.

std::uint32_t BindPool::claim(WqeBuffer* buffers, std::uint32_t wanted, std::uint32_t strides) {
    if (rte_mempool_cache* cache = rte_mempool_default_cache(mempool_, rte_lcore_id()); cache != nullptr)
        rte_mempool_cache_flush(cache, mempool_);
    auto* home = static_cast<std::uint8_t*>(rte_zmalloc("bind_pool", slot_count_, 0));
    if (home == nullptr) return 0;
    std::uint32_t found = 0;
    {
        const Locked locked{lock_};
        for (std::uint32_t n = 0; n < stacked_; ++n)
            if (const std::size_t index = index_of(stack_[n]); index < slot_count_) home[index] = 1;
        found = find_runs(buffers, wanted, strides, home);
        drop_owned();
        relink();
    }
    rte_free(home);
    return found;
}

/// Marks the slots of every run found as owned by the next buffer. Runs begin at colour 0, so that a stride's
/// index tells its colour.
std::uint32_t BindPool::find_runs(WqeBuffer* buffers, std::uint32_t wanted, std::uint32_t strides,
                                  const std::uint8_t* home) noexcept {
    const std::uint32_t slots = strides + 1; // the last stride ends in the slot behind it
    std::uint32_t found = 0;
    for (std::uint32_t first = 0; found < wanted && first + slots <= slot_count_;) {
        const std::uint8_t* const away = std::find(home + first, home + first + slots, 0);
        if (away != home + first + slots) {
            first = align_up(static_cast<std::uint32_t>(away - home) + 1, layout_.colours());
            continue;
        }
        WqeBuffer& buffer = buffers[found++];
        buffer.slots = slot(first);
        buffer.home = home_ + first;
        buffer.first_slot = first;
        buffer.slot_count = slots;
        buffer.whole_slots.store(slots, std::memory_order_relaxed);
        buffer.strides = buffer.slots + layout_.data_offset;
        std::fill_n(buffer.home, slots, std::uint8_t{1});
        std::fill_n(owner_ + first, slots, &buffer);
        claimed_.fetch_add(slots, std::memory_order_relaxed);
        first = align_up(first + slots, layout_.colours());
    }
    return found;
}

/// Takes claimed mbufs off the stack.
void BindPool::drop_owned() noexcept {
    void** const end = std::remove_if(stack_, stack_ + stacked_,
                                      [this](void* m) { return owner_of(index_of(m)) != nullptr; });
    stacked_ = static_cast<std::uint32_t>(end - stack_);
}

/// The pool's object list without the claimed ones: a frame longer than an mbuf can overwrite their headers,
/// list pointers included, at any moment.
void BindPool::relink() noexcept {
    rte_mempool_objhdr_list rest = STAILQ_HEAD_INITIALIZER(rest);
    while (rte_mempool_objhdr* header = STAILQ_FIRST(&mempool_->elt_list)) {
        STAILQ_REMOVE_HEAD(&mempool_->elt_list, next);
        if (owner_of(index_of(header)) == nullptr) STAILQ_INSERT_TAIL(&rest, header, next);
    }
    STAILQ_CONCAT(&mempool_->elt_list, &rest);
}

void BindPool::give_back(WqeBuffer& buffer) noexcept {
    repair(buffer, 0, buffer.slot_count - 1); // there may be completions that nobody ever looked at
    const Locked locked{lock_};
    for (std::uint32_t n = buffer.slot_count; n-- > 0;)
        take_back(buffer.first_slot + n);
}

void BindPool::give_back_home(WqeBuffer& buffer) noexcept {
    const Locked locked{lock_};
    buffer.whole_slots.store(0, std::memory_order_relaxed);
    for (std::uint32_t n = buffer.slot_count; n-- > 0;) {
        const std::uint32_t index = buffer.first_slot + n;
        if (owner_[index] != &buffer || __atomic_load_n(buffer.home + n, __ATOMIC_ACQUIRE) == 0) continue;
        if (header_of(index)->mp != mempool_) renew(index);
        take_back(index);
    }
}

/// A claimed slot is the pool's again.
void BindPool::take_back(std::uint32_t index) noexcept {
    owner_[index] = nullptr;
    STAILQ_INSERT_HEAD(&mempool_->elt_list, header_of(index), next);
    stack_[stacked_++] = object(index);
    claimed_.fetch_sub(1, std::memory_order_relaxed);
}

void BindPool::repair(const WqeBuffer& buffer, std::uint32_t first, std::uint32_t count) noexcept {
    // A stride ends in the next slot, with that one's headers. Frames overwrite from the front, so that the
    // mempool's header tells for all.
    const std::uint32_t begin = buffer.first_slot + first + 1;
    for (std::uint32_t index = begin; index < begin + count; ++index)
        if (header_of(index)->mp != mempool_) renew(index);
}

void BindPool::renew(std::uint32_t index) noexcept {
    rte_mempool_objhdr* const header = header_of(index);
    header->mp = mempool_;
    header->iova = rte_mem_virt2iova(object(index));
    rte_pktmbuf_init(mempool_, nullptr, object(index), index);
}

void BindPool::enlist(StridePool& claimer) noexcept {
    const Locked locked{lock_};
    claimer.next_claimer = std::exchange(claimers_, &claimer);
}

void BindPool::strike(StridePool& claimer) noexcept {
    const Locked locked{lock_};
    for (StridePool** at = &claimers_; *at != nullptr; at = &(*at)->next_claimer)
        if (*at == &claimer) {
            *at = claimer.next_claimer;
            return;
        }
}

// The ops.

int BindPool::create(rte_mempool* pool) noexcept {
    void* place = rte_zmalloc_socket("bind_pool", sizeof(BindPool), RTE_CACHE_LINE_SIZE, pool->socket_id);
    if (place == nullptr) return -ENOMEM;
    auto* data = new (place) BindPool;
    data->mempool_ = pool;
    rte_spinlock_init(&data->lock_);
    const std::size_t array_bytes = std::size_t{pool->size} * sizeof(void*);
    data->stack_ = static_cast<void**>(rte_zmalloc_socket("bind_pool", array_bytes, 0, pool->socket_id));
    data->owner_ = static_cast<WqeBuffer**>(rte_zmalloc_socket("bind_pool", array_bytes, 0, pool->socket_id));
    data->home_ = static_cast<std::uint8_t*>(
        rte_zmalloc_socket("bind_pool", pool->size, RTE_CACHE_LINE_SIZE, pool->socket_id));
    pool->pool_data = data;
    // Slots are found by their number in one chunk, which need not be one range for a device: a slot is.
    if (physical_iova() && layout_of(pool)) pool->flags |= RTE_MEMPOOL_F_NO_IOVA_CONTIG;
    if (data->stack_ != nullptr && data->owner_ != nullptr && data->home_ != nullptr) return 0;
    destroy(pool);
    return -ENOMEM;
}

void BindPool::destroy(rte_mempool* pool) noexcept {
    BindPool* data = std::exchange(reinterpret_cast<BindPool*&>(pool->pool_data), nullptr);
    if (data == nullptr) return;
    StridePool::memory_goes(*data);
    while (StridePool* claimer = data->claimers_)
        if (data->claimers_ = claimer->next_claimer; !claimer->forget_memory())
            log_line(LogLevel::error, "pool %s is freed while a receive queue runs on it", pool->name);
    rte_free(data->stack_);
    rte_free(data->owner_);
    rte_free(data->home_);
    data->~BindPool();
    rte_free(data);
}

void BindPool::put(void* const* objects, std::uint32_t count) noexcept {
    const Locked locked{lock_};
    std::memcpy(stack_ + stacked_, objects, count * sizeof *objects);
    stacked_ += count;
}

int BindPool::enqueue(rte_mempool* pool, void* const* objects, unsigned count) noexcept {
    BindPool& data = data_of(pool);
    if (data.claimed_.load(std::memory_order_relaxed) == 0) {
        data.put(objects, count);
        return 0;
    }
    constexpr unsigned most = 64;
    for (; count > most; objects += most, count -= most)
        data.sort_home(objects, most);
    data.sort_home(objects, count);
    return 0;
}

/// Up to 64 mbufs, bound and ordinary ones mixed: one locked operation for each run of the same buffer,
/// whatever lies between, and one for all ordinary ones.
void BindPool::sort_home(void* const* objects, std::uint32_t count) noexcept {
    void* ordinary[64];
    std::uint32_t ordinaries = 0;
    WqeBuffer* owner = nullptr;
    const std::byte* slots = nullptr; // of the owner, like the next two
    std::size_t slot_bytes = 0;
    std::uint8_t* home = nullptr;
    std::uint32_t run = 0;
    const std::uint32_t log_pitch = layout_.log_pitch;
    void* const* const end = objects + count;
    for (void* const* at = objects; at != end;) {
        void* const* const begin = at;
        for (; at != end; ++at) {
            const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(*at) - slots);
            if (offset >= slot_bytes) break;
            __atomic_store_n(home + (offset >> log_pitch), std::uint8_t{1}, __ATOMIC_RELEASE);
        }
        run += static_cast<std::uint32_t>(at - begin);
        if (at == end) break;
        const std::size_t index = index_of(*at);
        WqeBuffer* const other = owner_of(index);
        if (other == nullptr) {
            ordinary[ordinaries++] = *at++;
            continue;
        }
        if (run != 0) StridePool::packets_freed(owner, run);
        owner = other;
        slots = owner->slots;
        slot_bytes = std::size_t{owner->whole_slots.load(std::memory_order_relaxed)} << log_pitch;
        home = owner->home;
        __atomic_store_n(home_ + index, std::uint8_t{1}, __ATOMIC_RELEASE);
        run = 1;
        ++at;
    }
    if (run != 0) StridePool::packets_freed(owner, run);
    if (ordinaries != 0) put(ordinary, ordinaries);
}

int BindPool::dequeue(rte_mempool* pool, void** objects, unsigned count) noexcept {
    BindPool& data = data_of(pool);
    const Locked locked{data.lock_};
    if (data.stacked_ < count) return -ENOBUFS;
    data.stacked_ -= count;
    std::memcpy(objects, data.stack_ + data.stacked_, count * sizeof *objects);
    return 0;
}

unsigned BindPool::count(const rte_mempool* pool) noexcept {
    return __atomic_load_n(&data_of(pool).stacked_, __ATOMIC_RELAXED);
}

ssize_t BindPool::memory_bytes(const rte_mempool* pool, std::uint32_t objects, std::uint32_t page_shift,
                               std::size_t* min_chunk_bytes, std::size_t* align) noexcept {
    const std::optional<BindLayout> layout = layout_of(pool);
    if (!layout)
        return rte_mempool_op_calc_mem_size_default(pool, objects, page_shift, min_chunk_bytes, align);
    const std::size_t bytes = std::size_t{objects} << layout->log_pitch;
    *min_chunk_bytes = physical_iova() ? bytes - 1 : bytes; // one chunk; all of it would mean one range, too
    *align =
        physical_iova() ? layout->pitch_bytes() : std::min<std::size_t>(layout->pitch_bytes(), page_bytes);
    return static_cast<ssize_t>(bytes);
}

int BindPool::populate(rte_mempool* pool, unsigned max_objects, void* memory, rte_iova_t iova,
                       std::size_t bytes, rte_mempool_populate_obj_cb_t* add, void* context) noexcept {
    BindPool& data = data_of(pool);
    const std::optional<BindLayout> layout = layout_of(pool);
    if (!layout || data.slot_count_ != 0) // a further chunk is not for binding
        return rte_mempool_op_populate_default(pool, max_objects, memory, iova, bytes, add, context);
    shrink_caches(pool);
    data.layout_ = *layout;
    data.slots_ = static_cast<std::byte*>(memory);
    const auto slots =
        static_cast<std::uint32_t>(std::min<std::size_t>(max_objects, bytes >> layout->log_pitch));
    for (std::uint32_t index = 0; index < slots; ++index) {
        std::byte* object = data.object(index);
        const auto offset = static_cast<rte_iova_t>(object - data.slots_);
        add(pool, context, object, iova == RTE_BAD_IOVA ? rte_mem_virt2iova(object) : iova + offset);
    }
    // The first ones on top.
    for (std::uint32_t index = slots; index-- > 0;) {
        void* object = data.object(index);
        rte_mempool_ops_enqueue_bulk(pool, &object, 1);
    }
    data.slot_count_ = slots;
    return static_cast<int>(slots);
}

/// Registered like RTE_MEMPOOL_REGISTER_OPS does; before main, and once in each process.
struct BindPoolOps {
    BindPoolOps() noexcept {
        rte_mempool_ops ops{};
        std::memcpy(ops.name, ops_name, std::strlen(ops_name));
        ops.alloc = BindPool::create;
        ops.free = BindPool::destroy;
        ops.enqueue = BindPool::enqueue;
        ops.dequeue = BindPool::dequeue;
        ops.get_count = BindPool::count;
        ops.calc_mem_size = BindPool::memory_bytes;
        ops.populate = BindPool::populate;
        rte_mempool_register_ops(&ops);
    }
};

namespace {
const BindPoolOps register_ops;
}

} // namespace stride::mprq
