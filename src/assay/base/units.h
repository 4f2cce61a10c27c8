// Units as types, so that no function takes "a double" of something.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace assay {

struct Seconds {
  double value = 0;
  friend Seconds operator+(Seconds a, Seconds b) { return {a.value + b.value}; }
  friend Seconds operator-(Seconds a, Seconds b) { return {a.value - b.value}; }
  friend auto operator<=>(Seconds a, Seconds b) = default;
  double milliseconds() const { return value * 1e3; }
};

struct Bytes {
  std::int64_t value = 0;
  friend Bytes operator+(Bytes a, Bytes b) { return {a.value + b.value}; }
  friend auto operator<=>(Bytes a, Bytes b) = default;
  // MiB of 1024 x 1024 bytes, as Transformers users quote a footprint.
  double megabytes() const { return static_cast<double>(value) / (1024.0 * 1024.0); }
};

struct Flops {
  double value = 0;
  friend Flops operator+(Flops a, Flops b) { return {a.value + b.value}; }
};

// Monotonic high-resolution clock of the host. Devices have their own (backend/backend.h).
using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

inline Seconds elapsed(TimePoint begin, TimePoint end) {
  return {std::chrono::duration<double>(end - begin).count()};
}

}  // namespace assay
