// SPDX-License-Identifier: BSD-3-Clause
#include "elf_needed.hpp"

#include <cstdint>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <optional>

namespace {

class ElfFile {
  public:
    explicit ElfFile(const std::string& path) {
        std::ifstream in(path, std::ios::binary | std::ios::ate);
        bytes_.resize(in ? static_cast<std::size_t>(in.tellg()) : 0);
        in.seekg(0);
        in.read(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
        if (const auto header = at<Elf64_Ehdr>(0); header &&
                                                   std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
                                                   header->e_ident[EI_CLASS] == ELFCLASS64)
            header_ = *header;
    }
    bool valid() const { return header_.e_phnum != 0; }

    /// The segment header of `type`, if there is one.
    std::optional<Elf64_Phdr> segment(std::uint32_t type) const {
        for (unsigned i = 0; i < header_.e_phnum; ++i) {
            const auto segment = at<Elf64_Phdr>(header_.e_phoff + i * sizeof(Elf64_Phdr));
            if (segment && segment->p_type == type) return segment;
        }
        return std::nullopt;
    }
    /// File offset of a virtual address.
    std::optional<std::uint64_t> offset_of(std::uint64_t address) const {
        for (unsigned i = 0; i < header_.e_phnum; ++i) {
            const auto segment = at<Elf64_Phdr>(header_.e_phoff + i * sizeof(Elf64_Phdr));
            if (segment && segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
                address - segment->p_vaddr < segment->p_filesz)
                return segment->p_offset + (address - segment->p_vaddr);
        }
        return std::nullopt;
    }
    template <class T>
    std::optional<T> at(std::uint64_t offset) const {
        if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return std::nullopt;
        T value;
        std::memcpy(&value, bytes_.data() + offset, sizeof value);
        return value;
    }
    std::string text_at(std::uint64_t offset) const {
        if (offset >= bytes_.size()) return {};
        return {bytes_.data() + offset, strnlen(bytes_.data() + offset, bytes_.size() - offset)};
    }

  private:
    std::vector<char> bytes_{};
    Elf64_Ehdr header_{};
};

} // namespace

std::vector<std::string> elf_needed(const std::string& path) {
    const ElfFile file(path);
    const auto dynamic = file.segment(PT_DYNAMIC);
    if (!file.valid() || !dynamic) return {};
    std::vector<std::uint64_t> names;
    std::optional<std::uint64_t> strings;
    for (std::uint64_t offset = 0; offset + sizeof(Elf64_Dyn) <= dynamic->p_filesz;
         offset += sizeof(Elf64_Dyn)) {
        const auto entry = file.at<Elf64_Dyn>(dynamic->p_offset + offset);
        if (!entry || entry->d_tag == DT_NULL) break;
        if (entry->d_tag == DT_NEEDED) names.push_back(entry->d_un.d_val);
        if (entry->d_tag == DT_STRTAB) strings = file.offset_of(entry->d_un.d_ptr);
    }
    std::vector<std::string> needed;
    for (const std::uint64_t name : names)
        if (strings) needed.push_back(file.text_at(*strings + name));
    return needed;
}
