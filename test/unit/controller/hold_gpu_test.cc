// What a holder pod reports: its device, or why there is none to report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "commands/commands.h"

namespace muster::controller {
namespace {

class HoldGpu : public testing::Test {
 protected:
  ~HoldGpu() override {
    unsetenv("NVIDIA_VISIBLE_DEVICES");
    std::filesystem::remove(file_);
  }
  int report() const { return run_hold_gpu({.report = true, .file = file_}); }
  std::string reported() const {
    std::ostringstream text;
    text << std::ifstream(file_).rdbuf();
    return text.str();
  }
  const std::string file_ = testing::TempDir() + "hold-gpu-" + std::to_string(getpid());
};

TEST_F(HoldGpu, ReportsTheDeviceThatItWasGiven) {
  setenv("NVIDIA_VISIBLE_DEVICES", "GPU-8932f937", 1);
  EXPECT_EQ(report(), 0);
  EXPECT_EQ(reported(), "GPU-8932f937");
}

TEST_F(HoldGpu, SaysThatNobodyToldIt) {
  unsetenv("NVIDIA_VISIBLE_DEVICES");
  EXPECT_EQ(report(), 1);
  EXPECT_THAT(reported(), testing::HasSubstr("no NVIDIA_VISIBLE_DEVICES"));
  setenv("NVIDIA_VISIBLE_DEVICES", "", 1);
  EXPECT_EQ(report(), 1);
}

TEST_F(HoldGpu, FailsWhereItCannotReport) {
  setenv("NVIDIA_VISIBLE_DEVICES", "GPU-8932f937", 1);
  EXPECT_EQ(run_hold_gpu({.report = true, .file = "/no/such/folder/log"}), 1);
}

}  // namespace
}  // namespace muster::controller
