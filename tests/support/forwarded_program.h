// A program that hands everything on to another one, for tests that alter a part of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "assay/backend/backend.h"

namespace assay::test {

// It gives whole rows of logits alone, and its weights cannot be exchanged.
class ForwardedProgram : public Program {
 public:
  explicit ForwardedProgram(Program& inner) : inner_(inner) {}
  const Plan& plan() const override { return inner_.plan(); }
  std::unique_ptr<KvCache> make_cache() override { return inner_.make_cache(); }
  void run(const Batch& batch, KvCache& cache) override { inner_.run(batch, cache); }
  void head(std::span<const std::int64_t> rows, const HeadSink& sink) override { inner_.head(rows, sink); }
  const LogitReducer* logit_reducer() const override { return inner_.logit_reducer(); }
  void observe_inputs(InputObserver) override {}
  double outlier_share() const override { return 0; }
  void exchange(WeightId, const Plan&, const WeightSource&) override {}
  std::int64_t max_rows() const override { return inner_.max_rows(); }
  Bytes cache_bytes(std::int64_t length) const override { return inner_.cache_bytes(length); }
  MemoryReport memory() const override { return inner_.memory(); }

 protected:
  Program& inner_;
};

}  // namespace assay::test
