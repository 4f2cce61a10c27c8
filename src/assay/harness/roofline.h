// The roofline of a case: the bytes it must read, the operations it must compute, and the least time in which
// this machine, measured beside the case, can do so.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "assay/harness/case.h"
#include "assay/machine/rooflines.h"
#include "assay/plan/cost.h"

namespace assay {

struct PeakInstruction {
  ProductKind kind;
  int each;  // multiplications of the probe for one of the model
};
// The matrix multiplication that bounds the kernels of a tier; nothing where there is no probe for it. A tier
// without a probe of its own takes that of the next tier.
std::optional<PeakInstruction> peak_instruction(const Precision& precision, Isa isa);

// What most weights of the blocks are multiplied in: 4-bit codes as what everything else is kept in.
Multiply multiply_of(const Precision& precision);

// A batch of a case after tokenization: its tokens by sequence.
struct BatchShape {
  std::vector<std::int64_t> prompt_tokens;
  std::int64_t new_tokens = 0;
  bool uses_cache = true;
  std::int64_t depth = 0;          // tokens of each sequence that the KV cache holds before
  std::int64_t rows_per_step = 0;  // after so many tokens the prefill reads the weights again; 0: never
};
using PhaseCosts = std::array<Cost, kOpClasses>;
// By step, the prefill first, which is one step or as many as rows_per_step makes of it. Weights count once
// per step for all sequences, keys and values for each sequence; padding does not count, since it need not be
// computed.
std::vector<PhaseCosts> step_costs(const Plan& plan, const BatchShape& shape);
Cost total_cost(const PhaseCosts& costs);

// How a probe reads about as many bytes as a step: a buffer, and the model's weights where they are read
// too. Working sets within an eighth of an octave share a probe.
struct ProbePlan {
  std::int64_t eighths = 0;  // the logarithm of the bytes, in eighths of octaves
  Bytes buffer;
  bool reads_weights = false;
};
// `weights`: what a probe reads of them. `available`: memory of the machine; 0 where it does not tell.
ProbePlan plan_probe(Bytes working_set, Bytes weights, Bytes available);

// Measures the roofline on a model's own thread pool, or on its GPU. On a CPU reading is measured on the
// model's own weights and a buffer for everything else that a step reads: how fast a working set near the
// size of a shared cache is read depends on what the case left in it. The buffers stay for later
// measurements.
class Roofline {
 public:
  explicit Roofline(const Model& model);  // which must outlive it

  struct Peaks {
    double bytes_per_second = 0, operations_per_second = 0;  // 0 = not known
    Seconds round_trip = {};                                 // a phase of the thread pool; 0 with one thread
    // The least time for a cost; the longer of reading and computing.
    double seconds(const Cost& cost) const;
    bool is_memory_bound(const Cost& cost) const;
  };
  // Takes two to three times `each`, on a GPU less than once. `working_set`: the bytes that a step reads; a
  // probe reads about as many (within an eighth of an octave), 1 GiB at most.
  Peaks measure(Bytes working_set, Seconds each = kLongestWindow);
  // How long a window is beside a run that reads as much: as long as the last one took, within limits. What
  // disturbs the one disturbs the other as much, and runs of a millisecond do not wait for windows of eight.
  // A device's are short enough.
  Seconds window_beside_run(Bytes working_set) const;
  void note_run(Bytes working_set, Seconds took);
  Bytes held() const;  // by the probes' buffers

  static constexpr Seconds kShortestWindow{0.002}, kLongestWindow{0.008};

 private:
  ReadProbe& probe_for(Bytes working_set);
  Backend& backend_;
  Precision precision_;
  ThreadPool* pool_;
  MemoryRegions weights_;
  std::optional<PeakInstruction> product_;
  std::map<std::int64_t, std::unique_ptr<ReadProbe>> probes_;
  std::map<std::int64_t, Seconds> runs_;  // how long the last took, by its working set
};

// What a device, or a probe and the products of a pool's threads, reach. Takes twice to five times `each`.
Roofline::Peaks device_peaks(Backend& backend, Bytes working_set, const Precision& precision, Seconds each);
Roofline::Peaks host_peaks(ReadProbe& probe, ThreadPool& pool, const std::optional<PeakInstruction>& product,
                           Seconds each);
// The best of a few windows: one in which the threads wait for a processor shows a hundredth of what the
// machine does.
Roofline::Peaks best_of(int windows, const std::function<Roofline::Peaks()>& measure);

}  // namespace assay
