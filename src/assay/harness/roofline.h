// What a case must read and compute at least, and how long the machine's roofs, measured beside it, allow it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "assay/harness/case.h"
#include "assay/machine/roofs.h"
#include "assay/plan/cost.h"

namespace assay {

struct BoundingProduct {
  ProductKind kind;
  int each;  // of them for one of the model's
};
// The product that the kernels of a tier are made of, where there is a probe for it. What a tier without one
// could reach at least is the next one's.
std::optional<BoundingProduct> bounding_product(const Precision& precision, Isa isa);

// A batch of a case after tokenization: its tokens by sequence.
struct BatchShape {
  std::vector<std::int64_t> prompt_tokens;
  std::int64_t new_tokens = 0;
  bool uses_cache = true;
};
using PhaseCosts = std::array<Cost, kPhases>;
// By step, the prefill first. Weights count once per step for all sequences, keys and values for each;
// padding does not count: it is work that is done, but none that must be.
std::vector<PhaseCosts> step_costs(const Plan& plan, const BatchShape& shape);
Cost sum(const PhaseCosts& costs);

// The roofs of one model's threads, measured on its own pool: of reading, by the model's own weights and a
// buffer for what is read beside them, since a working set near the size of a shared cache is read by as much
// as the case left there. Probe buffers stay for later measurements.
class Roofline {
 public:
  explicit Roofline(const Model& model);  // which must outlive it

  struct Roofs {
    double bytes_per_second = 0, operations_per_second = 0;  // 0 = not known
    // The least time for a cost; the longer of reading and computing.
    double seconds(const Cost& cost) const;
    bool is_memory_bound(const Cost& cost) const;
  };
  // Takes about twice `each`. `working_set`: what a step reads; probes read as much, to an eighth, 1 GiB at
  // most.
  Roofs measure(Bytes working_set, Seconds each = {0.008});
  Bytes held() const;  // by the probes' buffers

 private:
  ReadProbe& probe_for(Bytes working_set);
  ThreadPool* pool_;
  MemoryRegions weights_;
  std::optional<BoundingProduct> product_;
  std::map<std::int64_t, std::unique_ptr<ReadProbe>> probes_;
};

}  // namespace assay
