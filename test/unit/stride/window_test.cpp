// SPDX-License-Identifier: BSD-3-Clause
#include "window.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace stride::pmd {
namespace {

/// A file that stands for the command descriptor, with a page for each of two offsets.
class CommandFile {
  public:
    CommandFile()
        : fd_{memfd_create("command", MFD_CLOEXEC)} {
        EXPECT_EQ(ftruncate(fd_, pages * static_cast<off_t>(Window::page_bytes)), 0);
    }
    ~CommandFile() { close(fd_); }
    CommandFile(const CommandFile&) = delete;
    CommandFile& operator=(const CommandFile&) = delete;

    int fd() const { return fd_; }
    std::uint8_t first_byte(off_t page) const {
        std::uint8_t byte = 0;
        EXPECT_EQ(pread(fd_, &byte, 1, page * static_cast<off_t>(Window::page_bytes)), 1);
        return byte;
    }

  private:
    static constexpr off_t pages = 2;
    int fd_;
};

/// In the order in which a process goes through it: the window is opened once.
TEST(Window, IsRefusedWhereSomethingElseIs) {
    void* const taken = mmap(nullptr, Window::page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(taken, MAP_FAILED);
    const auto status = Window::open(static_cast<std::byte*>(taken) - Window::bytes / 2);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, EADDRINUSE);
    EXPECT_NE(status.error().what.find("are not free in this one"), std::string::npos) << status.error().what;
    EXPECT_EQ(Window::base(), nullptr);
    munmap(taken, Window::page_bytes);
}

TEST(Window, IsOpenedOnceAndOnlyThere) {
    ASSERT_TRUE(Window::open(nullptr).ok());
    std::byte* const base = Window::base();
    ASSERT_NE(base, nullptr);
    EXPECT_TRUE(Window::open(nullptr).ok());
    EXPECT_TRUE(Window::open(base).ok());
    EXPECT_EQ(Window::open(base + Window::bytes).error().code, EADDRINUSE);
    EXPECT_EQ(Window::base(), base);
}

TEST(Window, DoorbellPagesAreMappedOnceAndGoWithTheirDevice) {
    const CommandFile file;
    const int one_device = 1, other_device = 2;
    ASSERT_TRUE(Window::open(nullptr).ok());
    const auto first = UarPages::place(&one_device, file.fd(), 0);
    const auto second = UarPages::place(&one_device, file.fd(), Window::page_bytes);
    ASSERT_TRUE(first.ok());
    ASSERT_TRUE(second.ok());
    EXPECT_NE(first.value().slot, second.value().slot);
    EXPECT_EQ(UarPages::place(&one_device, file.fd(), 0).value().generation, first.value().generation);

    *Window::uar_page(first.value().slot) = std::byte{11};
    *Window::uar_page(second.value().slot) = std::byte{22};
    EXPECT_EQ(file.first_byte(0), 11);
    EXPECT_EQ(file.first_byte(1), 22);

    // Another device's page may come where one was: by its generation a process knows that it has the old
    // one.
    UarPages::release(&one_device);
    const auto third = UarPages::place(&other_device, file.fd(), Window::page_bytes);
    ASSERT_TRUE(third.ok());
    EXPECT_EQ(third.value().slot, first.value().slot);
    EXPECT_NE(third.value().generation, first.value().generation);
    EXPECT_NE(third.value().generation, 0U);
    *Window::uar_page(third.value().slot) = std::byte{33};
    EXPECT_EQ(file.first_byte(1), 33);
    UarPages::release(&other_device);
}

TEST(Window, AFullWindowIsAClearError) {
    const CommandFile file;
    const std::vector<int> devices(Window::uar_pages + 1);
    for (std::uint32_t n = 0; n < Window::uar_pages; ++n)
        ASSERT_TRUE(UarPages::place(&devices[n], file.fd(), 0).ok()) << n;
    const auto none = UarPages::place(&devices[Window::uar_pages], file.fd(), 0);
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().code, ENOSPC);
    for (const int& device : devices)
        UarPages::release(&device);
}

} // namespace
} // namespace stride::pmd
