// SPDX-License-Identifier: BSD-3-Clause
/// UAR pages: where programs ring doorbells.
///
/// The command descriptor is a memory file that holds the pages at the offsets libmlx5 maps: a window of 256
/// pages for each mmap command (mlx5-abi.h, mlx5_ib_mmap_cmd), so that any process which gets the descriptor
/// maps the right page without help. A page has four registers of 512 bytes from 0x800 on; two of them are
/// for QPs. libmlx5 numbers registers four a page (mlx5.c, mlx5_set_context), skipping none.
#pragma once

#include <cstddef>
#include <cstdint>

namespace swhca::uar {

constexpr std::size_t page_bytes = 4096;
constexpr unsigned pages = 128;
constexpr unsigned window_pages = 256;
/// mmap commands 0 (regular), 2 (WC), 3 (non-cached), 5 (core clock), 6 (registers of thread domains) and 7
/// (clock info); 1 and 4 are not offered.
constexpr unsigned windows = 8;
constexpr std::size_t file_bytes = page_bytes * window_pages * windows;

constexpr unsigned bfregs_per_page = 2;
constexpr unsigned bfregs = pages * bfregs_per_page;
constexpr unsigned registers_per_page = 4; ///< as libmlx5 numbers them
constexpr std::size_t first_register = 0x800;
constexpr std::size_t register_bytes = 512;

/// The number by which libmlx5 knows register `bfreg`.
constexpr std::uint32_t library_index(std::uint32_t bfreg) noexcept {
    return bfreg / bfregs_per_page * registers_per_page + bfreg % bfregs_per_page;
}

/// Offset of the page that window `window` starts with.
constexpr std::size_t window_offset(unsigned window) noexcept {
    return std::size_t{window} * window_pages * page_bytes;
}

/// Offset of register `bfreg` in the file, for programs that mapped `window`.
constexpr std::size_t register_offset(unsigned window, std::uint32_t bfreg) noexcept {
    return (std::size_t{window} * window_pages + bfreg / bfregs_per_page) * page_bytes + first_register +
           bfreg % bfregs_per_page * register_bytes;
}

} // namespace swhca::uar
