// The program of the CUDA backend: runs a plan operation by operation on one stream of a device.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/backend/cuda/kv_cache.h"
#include "assay/backend/cuda/weights.h"
#include "assay/backend/cuda/workspace.h"

namespace assay::cuda {

// Throws Error, or FieldError where a field asks for it, for what this backend does not run.
void check_supported(const Plan& plan);

// What a program of the plan would take, and a sequence of this many tokens beside it.
PredictedMemory predicted_memory(const Plan& plan, const DeviceFacts& facts, std::int64_t tokens);

class CudaProgram : public Program {
 public:
  CudaProgram(const Plan& plan, const WeightSource& source, std::shared_ptr<Runtime> runtime);

  const Plan& plan() const override { return plan_; }
  std::unique_ptr<KvCache> make_cache() override { return std::make_unique<CudaKvCache>(pages_); }
  void run(const Batch& batch, KvCache& cache) override;
  void head(std::span<const std::int64_t> rows, const HeadSink& sink) override;
  void observe_inputs(InputObserver observer) override { observer_ = std::move(observer); }
  double outlier_share() const override;
  std::int64_t max_rows() const override { return kMaxRows; }
  Bytes cache_bytes(std::int64_t length) const override { return cache_bytes_of(pages_->layout, length); }
  MemoryReport memory() const override;
  void trim() override { pages_->free.clear(); }
  void begin_profile() override { profile_ = StepProfile{}; }
  StepProfile end_profile() override { return std::exchange(profile_, std::nullopt).value_or(StepProfile{}); }

 private:
  // Of the rows that a step computes, which become fewer at the last attention.
  struct Step {
    std::int64_t rows = 0, all_rows = 0;
    std::int64_t longest = 0;  // keys of a row
    std::int64_t sequences = 1;
    bool is_pruned = false;  // rows are those that are kept
  };

  void check(const Batch& batch, const CudaKvCache& cache) const;
  Step begin(const Batch& batch, const CudaKvCache& cache);
  void upload_rotary_tables(const Batch& batch);
  void run_op(std::size_t index, Step& step);
  void embed(const EmbedOp& op, const Step& step);
  void norm(const NormOp& op, const Step& step);
  void multiply(const LinearOp& op, const OpConstants& constants, const Buffer& in, const Buffer& out,
                std::int64_t rows);
  void multiply_int8(const LinearOp& op, const OpConstants& constants, const Buffer& in, std::int64_t rows,
                     Epilogue to);
  void rotate(const RotaryOp& op, const Step& step);
  void attend(const AttentionOp& op, const OpConstants& constants, bool is_last, Step& step);
  void keep_rows(BufferId id, std::int64_t rows);
  void show_inputs(const LinearOp& op, const Step& step) const;
  RowPlaces places(bool are_kept) const;
  std::int64_t place_of(std::int64_t row) const;
  void drain(std::size_t first, std::size_t count, const HeadSink& sink);
  void mark(Phase phase);
  void add_marks();
  template <typename T>
  void upload(DevicePointer<T> to, std::span<const T> from) {
    runtime_->upload(to.template as<std::byte>(), std::as_bytes(from));
  }
  template <typename T>
  void download(std::span<T> to, DevicePointer<T> from) const {
    runtime_->download(std::as_writable_bytes(to), from.template as<const std::byte>());
  }

  Plan plan_;
  Pruning pruning_;
  std::shared_ptr<Runtime> runtime_;
  Weights weights_;
  Workspace work_;
  std::shared_ptr<PagePool> pages_;
  InputObserver observer_;

  std::vector<std::int64_t> kept_;  // rows of the last batch that have hidden states; unless it kept all
  std::int64_t hidden_rows_ = 0;    // of the last batch
  bool keeps_all_ = true;

  struct Mark {
    std::optional<Phase> phase;  // of what ran since the mark before; none: the beginning
    std::uint64_t point;
  };
  std::optional<StepProfile> profile_;  // while one is taken
  std::vector<Mark> marks_;
};

}  // namespace assay::cuda
