// SPDX-License-Identifier: BSD-3-Clause
/// A hardware field declared twice: by the model (swhca prm: byte offset, high, low bit) and by the driver
/// (member of a structure of mlx5dv.h, bits of its value). Here the two are put side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stride::test {

/// Bytes of a structure in wire order, and the bits of that big-endian number.
struct DriverField {
    std::size_t offset{};
    std::size_t bytes{};
    unsigned high{}, low{};

    unsigned width_bits() const { return high - low + 1; }
    std::uint64_t mask() const { return width_bits() == 64 ? ~0ULL : (1ULL << width_bits()) - 1; }
    std::uint64_t get(const std::byte* base) const { return number(base) >> low & mask(); }
    void set(std::byte* base, std::uint64_t value) const {
        std::uint64_t whole = (number(base) & ~(mask() << low)) | (value & mask()) << low;
        for (std::size_t i = bytes; i-- > 0; whole >>= 8)
            base[offset + i] = static_cast<std::byte>(whole & 0xff);
    }

  private:
    std::uint64_t number(const std::byte* base) const {
        std::uint64_t whole = 0;
        for (std::size_t i = 0; i < bytes; ++i)
            whole = whole << 8 | std::to_integer<std::uint64_t>(base[offset + i]);
        return whole;
    }
};

struct ModelField {
    std::uint64_t (*get)(const void* base);
    void (*set)(void* base, std::uint64_t value);
    unsigned width_bits;
};

template <class F>
constexpr ModelField model_field() {
    ModelField field{};
    field.get = [](const void* base) { return static_cast<std::uint64_t>(F::get(base)); };
    if constexpr (requires { F::width_bits; }) {
        field.width_bits = F::width_bits;
        field.set = [](void* base, std::uint64_t value) { F::set(base, static_cast<std::uint32_t>(value)); };
    } else {
        field.width_bits = 64;
        field.set = [](void* base, std::uint64_t value) { F::set(base, value); };
    }
    return field;
}

struct Agreement {
    std::string name; ///< Structure::field, as the model's source spells it
    ModelField model;
    DriverField driver;
};

/// A field that is bits [high:low] of `member` of `type` (mlx5dv.h).
#define AGREE(structure, field, type, member, high, low)                                                     \
    ::stride::test::Agreement {                                                                              \
#structure "::" #field, ::stride::test::model_field < swhca::prm::structure::field>(), {             \
            offsetof(type, member), sizeof(type::member), high, low                                          \
        }                                                                                                    \
    }

/// The same in `size` bytes from `skip` on of an array that mlx5dv.h has there (reserved, or a MAC or GID).
#define AGREE_IN(structure, field, type, array, skip, size, high, low)                                       \
    ::stride::test::Agreement {                                                                              \
#structure "::" #field, ::stride::test::model_field < swhca::prm::structure::field>(), {             \
            offsetof(type, array) + (skip), size, high, low                                                  \
        }                                                                                                    \
    }

/// Every field of the send side, of the receive side, and of CQEs.
std::vector<Agreement> wqe_agreements();
std::vector<Agreement> cqe_agreements();

} // namespace stride::test
