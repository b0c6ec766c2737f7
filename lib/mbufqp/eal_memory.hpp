// SPDX-License-Identifier: BSD-3-Clause
/// Memory keys for memory that EAL knows (hugepages, --no-huge memory, memory of rte_extmem_register), and
/// for that of mempools wherever it comes from.
#pragma once

#include "ibv/key_table.hpp"

#include <cstdint>
#include <string>

namespace stride::mbufqp {

/// An ibv::RangeResolver: the contiguous area around `address`, or the chunk of a mempool.
bool resolve_eal_memory(void* context, std::uintptr_t address, ibv::MemoryRange& range) noexcept;

/// Makes a key table forget memory that EAL unmaps, or that goes with its mempool, as long as it lives.
class EalMemoryWatch {
  public:
    explicit EalMemoryWatch(ibv::KeyTable& keys);
    ~EalMemoryWatch();
    EalMemoryWatch(const EalMemoryWatch&) = delete;
    EalMemoryWatch& operator=(const EalMemoryWatch&) = delete;

  private:
    ibv::KeyTable* keys_;
    std::string name_;
};

} // namespace stride::mbufqp
