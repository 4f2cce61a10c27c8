// What the CUDA backend says of drivers and GPUs that cannot be used.
#include <gtest/gtest.h>

#include "assay/backend/cuda/driver.h"
#include "assay/base/error.h"

namespace assay::cuda {
namespace {

template <typename Check>
std::string said_by(const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CudaDriver, IsKnownByItsVersion) {
  EXPECT_EQ(driver_text(13000, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Release Build"),
            "580.65.06, CUDA 13.0");
  EXPECT_EQ(driver_text(12080, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08\n"),
            "575.57.08, CUDA 12.8");
  EXPECT_EQ(driver_text(13000, ""), "CUDA 13.0");
  EXPECT_EQ(driver_text(13000, " 580 x.1 \t"), "CUDA 13.0");
}

TEST(CudaDriver, IsRefusedInASentence) {
  const DriverAnswers good{.driver_version = 13000, .runtime_version = 12080, .count = 2};
  const auto said = [&](auto change, int index = 0) {
    DriverAnswers answers = good;
    change(answers);
    return said_by([&] { check_driver(answers, index); });
  };
  EXPECT_EQ(said([](auto&) {}, 1), "");
  EXPECT_EQ(said([](auto& a) { a.driver_version = 0, a.error = 35; }),
            "device cuda:0: this machine has no NVIDIA driver; use the device cpu");
  EXPECT_EQ(
      said([](auto& a) { a.driver_version = 11040, a.error = 35; }, 1),
      "device cuda:1: the NVIDIA driver supports CUDA 11.4 and this program needs 12.8; update the driver or "
      "use the device cpu");
  const std::string none =
      "device cuda:0: the NVIDIA driver shows no GPU (see nvidia-smi and CUDA_VISIBLE_DEVICES); use the "
      "device cpu";
  EXPECT_EQ(said([](auto& a) { a.error = 100; }), none);
  EXPECT_EQ(said([](auto& a) { a.count = 0; }), none);
  EXPECT_EQ(
      said([](auto& a) { a.error = 803, a.error_text = "driver mismatch (cudaErrorSystemDriverMismatch)"; }),
      "device cuda:0: driver mismatch (cudaErrorSystemDriverMismatch)");
  EXPECT_EQ(said([](auto&) {}, 2), "device cuda:2: this machine has 2 GPUs, counted from 0");
  EXPECT_EQ(said([](auto& a) { a.count = 1; }, 1), "device cuda:1: this machine has 1 GPU, counted from 0");
}

TEST(CudaDriver, RefusesGpusThatAreTooOldOrTaken) {
  const auto said = [](int major, int error, int minor = 0) {
    return said_by([&] { check_device({"H100", major, minor, error, "text (name)"}, 3); });
  };
  EXPECT_EQ(said(8, 0), "");
  EXPECT_EQ(said(7, 0, 5), "");
  EXPECT_EQ(
      said(7, 0, 2),
      "device cuda:3: H100 has compute capability 7.2; at least 7.5 is needed (Turing); use the device cpu");
  EXPECT_EQ(
      said(9, 46),
      "device cuda:3: H100 is reserved by another program (compute mode exclusive); wait for that program or "
      "use another GPU");
  EXPECT_NE(said(9, 2).find("H100 has no memory left for this program"), std::string::npos);
  EXPECT_EQ(said(9, 1), "device cuda:3: H100: text (name)");
}

TEST(CudaDriver, KnowsWhichErrorsStay) {
  for (const int fault : {700, 716, 719}) EXPECT_TRUE(is_fault(fault));
  for (const int other : {0, 1, 2, 100}) EXPECT_FALSE(is_fault(other));
}

}  // namespace
}  // namespace assay::cuda
