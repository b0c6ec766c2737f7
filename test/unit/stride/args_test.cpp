// SPDX-License-Identifier: BSD-3-Clause
#include "args.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace {

using stride::pmd::Args;
using stride::pmd::parse_args;

std::string refusal(std::string_view text) {
    const auto args = parse_args(text);
    if (args.ok()) return "accepted";
    EXPECT_EQ(args.error().code, EINVAL);
    return args.error().what;
}

TEST(StrideArgs, DeviceAloneIsEnoughAndTheRestIsLeftToTheDriver) {
    const auto args = parse_args("ibdev=mlx5_0");
    ASSERT_TRUE(args.ok()) << args.error().what;
    EXPECT_EQ(args.value().ibdev, "mlx5_0");
    EXPECT_EQ(args.value().port, 1);
    EXPECT_FALSE(args.value().log_stride_bytes.has_value());
    EXPECT_FALSE(args.value().log_strides.has_value());
    EXPECT_FALSE(args.value().copy_threshold_bytes.has_value());
    EXPECT_FALSE(args.value().inline_threshold_bytes.has_value());
}

TEST(StrideArgs, EveryKeyIsTaken) {
    const auto args =
        parse_args("encap=opa_vnic:7,log_stride_bytes=11,log_strides=6,copy_threshold_bytes=0,port=2,"
                   "cqe_compression=1,inline_threshold_bytes=96,ibdev=rocep1s0f0");
    ASSERT_TRUE(args.ok()) << args.error().what;
    EXPECT_EQ(args.value().ibdev, "rocep1s0f0");
    EXPECT_EQ(args.value().port, 2);
    EXPECT_EQ(args.value().encap, stride::mbufqp::EncapKind::opa_vnic);
    EXPECT_EQ(args.value().vesw_id, 7U);
    EXPECT_EQ(args.value().log_stride_bytes, 11U);
    EXPECT_EQ(args.value().log_strides, 6U);
    EXPECT_EQ(args.value().copy_threshold_bytes, 0U);
    EXPECT_TRUE(args.value().cqe_compression);
    EXPECT_EQ(args.value().inline_threshold_bytes, 96U);
}

TEST(StrideArgs, MissingDeviceIsNamed) {
    EXPECT_NE(refusal("").find("ibdev is required"), std::string::npos);
    EXPECT_NE(refusal("cqe_compression=1").find("ibdev is required"), std::string::npos);
    EXPECT_NE(refusal("ibdev=").find("name of a verbs device"), std::string::npos);
    EXPECT_NE(refusal("ibdev=../x").find("name of a verbs device"), std::string::npos);
    EXPECT_NE(refusal("ibdev=" + std::string(64, 'a')).find("name of a verbs device"), std::string::npos);
}

TEST(StrideArgs, UnknownKeyIsNamedWithTheKnownOnes) {
    const std::string text = refusal("ibdev=mlx5_0,strides=4");
    EXPECT_NE(text.find("strides"), std::string::npos);
    EXPECT_NE(text.find("log_stride_bytes, log_strides"), std::string::npos);
}

TEST(StrideArgs, KeyGivenTwiceOrWithoutValueIsRefused) {
    EXPECT_NE(refusal("ibdev=mlx5_0,encap=ethernet,encap=opa_vnic").find("encap is given twice"),
              std::string::npos);
    EXPECT_NE(refusal("ibdev=mlx5_0,encap").find("encap has no value"), std::string::npos);
    EXPECT_NE(refusal("ibdev=mlx5_0,,encap=ethernet").find("has no value"), std::string::npos);
}

TEST(StrideArgs, EncapIsOneOfThoseThereAre) {
    EXPECT_EQ(parse_args("ibdev=mlx5_0,encap=ethernet").value().encap, stride::mbufqp::EncapKind::ethernet);
    EXPECT_EQ(parse_args("ibdev=mlx5_0,encap=opa_vnic").value().vesw_id, 1U);
    EXPECT_EQ(parse_args("ibdev=mlx5_0,encap=ipoib").value().encap, stride::mbufqp::EncapKind::ipoib);
    EXPECT_FALSE(parse_args("ibdev=mlx5_0").value().encap_given) << "the link layer decides";
    for (const char* wrong :
         {"", "opa", "ethernet:1", "opa_vnic:0", "opa_vnic:65536", "opa_vnic:x", "ipoib:1"})
        EXPECT_NE(
            refusal(std::string{"ibdev=mlx5_0,encap="} + wrong).find("allowed are ethernet, ipoib, opa_vnic"),
            std::string::npos)
            << wrong;
}

struct Range {
    const char* key;
    unsigned min, max;
};

class StrideArgsNumber : public testing::TestWithParam<Range> {};

TEST_P(StrideArgsNumber, TakesItsRangeAndNamesItForAnythingElse) {
    const auto [key, min, max] = GetParam();
    const auto with = [key = key](const std::string& value) {
        return "ibdev=mlx5_0," + std::string{key} + "=" + value;
    };
    EXPECT_TRUE(parse_args(with(std::to_string(min))).ok());
    EXPECT_TRUE(parse_args(with(std::to_string(max))).ok());
    const std::string allowed = "allowed are " + std::to_string(min) + " to " + std::to_string(max);
    std::vector<std::string> wrong{"",
                                   "junk",
                                   "-1",
                                   " 1",
                                   "1 ",
                                   "0x8",
                                   "1.5",
                                   "+1",
                                   "4294967296",
                                   "18446744073709551617",
                                   std::to_string(max + 1)};
    if (min > 0) wrong.push_back(std::to_string(min - 1));
    for (const std::string& value : wrong) {
        const std::string text = refusal(with(value));
        EXPECT_NE(text.find(key), std::string::npos) << "value '" << value << "': " << text;
        EXPECT_NE(text.find(allowed), std::string::npos) << "value '" << value << "': " << text;
    }
}

INSTANTIATE_TEST_SUITE_P(Keys, StrideArgsNumber,
                         testing::Values(Range{"log_stride_bytes", 6, 13}, Range{"log_strides", 1, 16},
                                         Range{"copy_threshold_bytes", 0, 65535}, Range{"port", 1, 255},
                                         Range{"cqe_compression", 0, 1},
                                         Range{"inline_threshold_bytes", 0, 1024}),
                         [](const auto& instance) { return std::string{instance.param.key}; });

TEST(StrideArgs, HelpNamesEveryKey) {
    const std::string help = STRIDE_ARGS_HELP;
    for (const char* key : {"ibdev", "encap", "log_stride_bytes", "log_strides", "copy_threshold_bytes",
                            "port", "cqe_compression", "inline_threshold_bytes"})
        EXPECT_NE(help.find(std::string{key} + "="), std::string::npos) << key;
}

} // namespace
