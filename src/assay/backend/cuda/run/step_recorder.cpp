#include "assay/backend/cuda/run/step_recorder.h"

#include <cstring>
#include <stdexcept>
#include <utility>

namespace assay::cuda {

namespace {

// What is no kernel is told apart by an address of its own.
constexpr char kCopy = 'c', kFill = 'f', kProduct = 'p';

}  // namespace

void StepRecorder::make(const void* kernel, const LaunchShape& shape, std::function<void(Runtime&)> launch) {
  launch(behind());
  if (!is_recording_) return;
  if (!has_recorded_)
    launches_.push_back({.part = part_, .kernel = kernel, .shape = shape, .again = std::move(launch)});
  for (const Repeat& repeat : repeats_)
    if (has_recorded_ && repeat.behind == made_) launches_.at(repeat.launch).again(behind());
  ++made_;
}

void StepRecorder::launch_raw(const char* name, void* entry, Trampoline trampoline, const LaunchShape& shape,
                              const void* args, std::size_t args_bytes) {
  const auto* bytes = static_cast<const std::byte*>(args);
  make(entry, shape, [=, kept = std::vector<std::byte>(bytes, bytes + args_bytes)](Runtime& runtime) {
    runtime.launch_raw(name, entry, trampoline, shape, kept.data(), kept.size());
  });
}

void StepRecorder::copy(DevicePointer<std::byte> to, DevicePointer<const std::byte> from,
                        std::int64_t bytes) {
  make(&kCopy, {}, [=](Runtime& runtime) { runtime.copy(to, from, bytes); });
}

void StepRecorder::fill(DevicePointer<std::byte> to, std::uint8_t value, std::int64_t bytes) {
  make(&kFill, {}, [=](Runtime& runtime) { runtime.fill(to, value, bytes); });
}

GemmLibrary& StepRecorder::gemm_library() {
  behind().gemm_library();  // throws where there is none
  return *this;
}

void StepRecorder::multiply(const GemmProblem& problem) {
  make(&kProduct, {}, [=](Runtime& runtime) { runtime.gemm_library().multiply(problem); });
}

void StepRecorder::begin_capture() {
  behind().begin_capture();
  is_recording_ = true;
  made_ = 0;
}

std::unique_ptr<Graph> StepRecorder::end_capture() {
  is_recording_ = false;
  std::unique_ptr<Graph> graph = behind().end_capture();
  if (made_ != launches_.size()) throw std::logic_error("a step was recorded again with other launches");
  has_recorded_ = true;
  return graph;
}

}  // namespace assay::cuda
