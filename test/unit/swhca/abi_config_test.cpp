// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/config.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace {

using swhca::parse_engine;
using swhca::parse_port;

std::string error_of(std::string_view text) {
    const auto port = parse_port(text);
    return port.ok() ? "" : port.error().what;
}

TEST(PortText, NameAloneIsAPairWithDefaultCaps) {
    const auto port = parse_port("mlx5_0");
    ASSERT_TRUE(port.ok());
    EXPECT_EQ(port.value().options.name, "mlx5_0");
    EXPECT_EQ(port.value().options.wire, "pair");
    EXPECT_TRUE(port.value().options.values.empty());
    EXPECT_TRUE(port.value().caps.striding);
}

TEST(PortText, KeysOfThePortStayAndKeysOfTheWireGoOn) {
    const auto port =
        parse_port("p,wire=pcap,mac=02:00:00:00:00:07,in=a.pcap,max_frame=9018,pause=on,loop=3");
    ASSERT_TRUE(port.ok()) << port.error().what;
    EXPECT_EQ(port.value().mac, (std::array<std::uint8_t, 6>{2, 0, 0, 0, 0, 7}));
    EXPECT_EQ(port.value().max_frame_bytes, 9018U);
    EXPECT_TRUE(port.value().pause);
    EXPECT_EQ(port.value().options.when_full, swhca::WhenFull::wait);
    const std::vector<std::pair<std::string, std::string>> rest{{"in", "a.pcap"}, {"loop", "3"}};
    EXPECT_EQ(port.value().options.values, rest);
}

TEST(PortText, BackslashKeepsACommaAndABackslashInAValue) {
    const auto port = parse_port("p,wire=pcap,in=a\\,b\\\\c.pcap");
    ASSERT_TRUE(port.ok());
    EXPECT_EQ(port.value().options.values.front().second, "a,b\\c.pcap");
}

TEST(PortText, CapsAreOverriddenWithinWhatTheDeviceCan) {
    const auto port =
        parse_port("p,min_inline=l2,striding=off,max_log_stride=9,max_log_strides=6,min_log_wqe=12");
    ASSERT_TRUE(port.ok()) << port.error().what;
    EXPECT_EQ(port.value().caps.min_inline_mode, 1);
    EXPECT_FALSE(port.value().caps.striding);
    EXPECT_EQ(port.value().caps.max_log_stride_bytes, 9U);
}

TEST(PortText, ErrorsNameThePortTheKeyAndWhatItTakes) {
    const std::map<std::string, std::string> cases{
        {"", "starts with its name"},
        {"a b,wire=pair", "starts with its name"},
        {"p,striding", "'striding' is not key=value"},
        {"p,=1", "not key=value"},
        {"p,pause=maybe", "port 'p': pause=maybe: the key takes on or off"},
        {"p,max_frame=63", "64 to 65535"},
        {"p,max_frame=12x", "64 to 65535"},
        {"p,max_frame=99999999999999999999", "64 to 65535"},
        {"p,mac=02:00:00:00:00", "unicast"},
        {"p,mac=01:00:00:00:00:01", "unicast"},
        {"p,mac=00:00:00:00:00:00", "unicast"},
        {"p,min_inline=ip", "none or l2"},
        {"p,max_log_stride=14", "6 to 13"},
        {"p,min_log_stride=10,max_log_stride=9", "min_log_stride 10 is above max_log_stride 9"},
        {"p,max_log_stride=6,max_log_strides=3,min_log_wqe=10", "more than any WQE holds"},
        {"p,pause=on,pause=off", "key pause is given twice"},
        {"p,wire=", "the name of a wire"},
        {"p,netdev=a/b", "network interface"},
    };
    for (const auto& [text, expected] : cases)
        EXPECT_NE(error_of(text).find(expected), std::string::npos) << text << ": " << error_of(text);
}

TEST(EngineText, TakesCpuIdleManualAndPorts) {
    const auto options = parse_engine("cpu=3,idle");
    ASSERT_TRUE(options.ok());
    EXPECT_EQ(options.value().cpu, 3);
    EXPECT_TRUE(options.value().idle);
    EXPECT_FALSE(options.value().manual);
    EXPECT_TRUE(parse_engine("manual").value().manual);
    EXPECT_TRUE(parse_engine("ports,idle").value().ports);
    EXPECT_FALSE(options.value().ports);
    EXPECT_EQ(parse_engine("").value().cpu, -1);
}

TEST(EngineText, RefusesWhatItDoesNotKnow) {
    for (const char* text : {"cpu=", "cpu=-1", "cpu=x", "cpu=9999", "fast", "idle,"})
        EXPECT_FALSE(parse_engine(text).ok()) << text;
}

std::map<std::string, std::string> variables;
const char* variable(const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
}

TEST(Environment, EmptyGivesTwoPortsJoinedBackToBack) {
    variables.clear();
    const auto config = swhca::config_from_environment(variable);
    ASSERT_TRUE(config.ok());
    ASSERT_EQ(config.value().ports.size(), 2U);
    EXPECT_EQ(config.value().ports[1].options.name, "mlx5_1");
    EXPECT_NE(config.value().ports[0].mac, config.value().ports[1].mac);
}

TEST(Environment, HasOnePortALine) {
    variables = {{"SWHCA_PORTS", "a,wire=pair\nb,wire=pair,max_frame=2000\n"},
                 {"SWHCA_ENGINE", "manual"},
                 {"SWHCA_REPORT", "/r.json"},
                 {"SWHCA_PCI", "1"}};
    const auto config = swhca::config_from_environment(variable);
    ASSERT_TRUE(config.ok());
    ASSERT_EQ(config.value().ports.size(), 2U);
    EXPECT_EQ(config.value().ports[1].max_frame_bytes, 2000U);
    EXPECT_TRUE(config.value().engine.manual);
    EXPECT_EQ(config.value().report_path, "/r.json");
    EXPECT_TRUE(config.value().list_on_pci);
}

TEST(PortText, SaysWhatAnInfiniBandPortIs) {
    const auto port = parse_port("mlx5_0,link_layer=ib,lid=17,sm_lid=3,pkey=0xffff+0x8005");
    ASSERT_TRUE(port.ok()) << port.error().what;
    EXPECT_EQ(port.value().link_layer, swhca::LinkLayer::infiniband);
    EXPECT_EQ(port.value().lid, 17);
    EXPECT_EQ(port.value().sm_lid, 3);
    EXPECT_EQ(port.value().pkeys, (std::vector<std::uint16_t>{0xffff, 0x8005}));
    for (const char* text :
         {"a,link_layer=token", "a,link_layer=ib,lid=0", "a,link_layer=ib,lid=49152",
          "a,link_layer=ib,pkey=5", "a,link_layer=ib,pkey=0x8000", "a,link_layer=ib,pkey=0xffff+", "a,lid=1"})
        EXPECT_FALSE(parse_port(text).ok()) << text;
}

TEST(Environment, GivesInfiniBandPortsALidEach) {
    variables = {{"SWHCA_PORTS", "a,link_layer=ib\nb,link_layer=ib\n"}};
    const auto config = swhca::config_from_environment(variable);
    ASSERT_TRUE(config.ok());
    EXPECT_EQ(config.value().ports[0].lid, 1);
    EXPECT_EQ(config.value().ports[1].lid, 2);
    EXPECT_EQ(config.value().ports[1].sm_lid, 1);
}

TEST(Environment, RefusesNamesAndAddressesUsedTwice) {
    variables = {{"SWHCA_PORTS", "a\na\n"}};
    EXPECT_FALSE(swhca::config_from_environment(variable).ok());
    variables = {{"SWHCA_PORTS", "a,mac=02:00:00:00:00:01\nb,mac=02:00:00:00:00:01\n"}};
    EXPECT_FALSE(swhca::config_from_environment(variable).ok());
}

} // namespace
