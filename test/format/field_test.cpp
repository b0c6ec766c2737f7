// SPDX-License-Identifier: BSD-3-Clause
/// Every field of lib/swhca/prm, set through one side and read through the other.
#include "agreement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace stride::test {
namespace {

using Buffer = std::array<std::byte, 64>;

std::vector<Agreement> all_agreements() {
    std::vector<Agreement> all = wqe_agreements();
    const std::vector<Agreement> cqe = cqe_agreements();
    all.insert(all.end(), cqe.begin(), cqe.end());
    return all;
}

/// All values of a field of up to 16 bits; of a wider one all single bits, their complements and patterns.
std::vector<std::uint64_t> values(unsigned width_bits) {
    std::vector<std::uint64_t> out;
    if (width_bits <= 16) {
        for (std::uint64_t value = 0; value < 1ULL << width_bits; ++value)
            out.push_back(value);
        return out;
    }
    const std::uint64_t mask = width_bits == 64 ? ~0ULL : (1ULL << width_bits) - 1;
    for (unsigned bit = 0; bit < width_bits; ++bit) {
        out.push_back(1ULL << bit);
        out.push_back(mask & ~(1ULL << bit));
    }
    for (const std::uint64_t pattern : {0x0ULL, ~0x0ULL, 0x0123456789abcdefULL, 0x5555555555555555ULL})
        out.push_back(pattern & mask);
    return out;
}

class FieldAgreement : public ::testing::TestWithParam<Agreement> {};

TEST_P(FieldAgreement, IsTheSameBitsOnBothSides) {
    const Agreement& field = GetParam();
    ASSERT_EQ(field.model.width_bits, field.driver.width_bits());
    for (const unsigned background : {0x00U, 0xffU, 0xa5U}) {
        for (const std::uint64_t value : values(field.model.width_bits)) {
            Buffer by_model, by_driver;
            by_model.fill(static_cast<std::byte>(background));
            by_driver = by_model;
            field.model.set(by_model.data(), value);
            field.driver.set(by_driver.data(), value);
            ASSERT_EQ(by_model, by_driver) << value << " over " << background;
            ASSERT_EQ(field.driver.get(by_model.data()), value);
            ASSERT_EQ(field.model.get(by_driver.data()), value);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Format, FieldAgreement, ::testing::ValuesIn(all_agreements()), [](const auto& each) {
    std::string name = each.param.name;
    std::replace(name.begin(), name.end(), ':', '_');
    return name;
});

/// `Structure::field` of each `using field = Field<...>` in the sources of the model's layouts.
std::multiset<std::string> fields_in_source() {
    std::multiset<std::string> names;
    const std::regex structure{R"(^struct (\w+))"}, field{R"(^\s+using (\w+) =\s*(Field|Field64)<)"};
    for (const auto& entry : std::filesystem::directory_iterator{STRIDE_PRM_FOLDER}) {
        std::ifstream file{entry.path()};
        std::string current, line;
        std::smatch match;
        while (std::getline(file, line)) {
            if (std::regex_search(line, match, structure)) current = match[1];
            if (std::regex_search(line, match, field)) names.insert(current + "::" + match[1].str());
        }
    }
    return names;
}

TEST(FieldAgreementList, NamesEveryFieldOfTheModelOnce) {
    std::multiset<std::string> compared;
    for (const Agreement& field : all_agreements())
        compared.insert(field.name);
    const std::multiset<std::string> declared = fields_in_source();
    EXPECT_GT(declared.size(), 90U) << "the sources were not found or not understood";
    for (const std::string& name : declared)
        EXPECT_EQ(compared.count(name), declared.count(name)) << name << " is not compared";
    for (const std::string& name : compared)
        EXPECT_EQ(declared.count(name), 1U) << name << " is not in the model's sources";
}

} // namespace
} // namespace stride::test
