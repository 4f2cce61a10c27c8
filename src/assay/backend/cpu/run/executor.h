// The program of the CPU backend: runs a packed plan, operation by operation.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "assay/backend/backend.h"
#include "assay/backend/cpu/lower/pruning.h"
#include "assay/backend/cpu/run/attention.h"
#include "assay/backend/cpu/run/candidate_head.h"
#include "assay/backend/cpu/run/linear.h"

namespace assay::cpu {

class Executor : public Program {
 public:
  Executor(const Plan& plan, const WeightSource& source, const KernelTable& table,
           std::shared_ptr<ThreadPool> pool, const KernelConstants& constants);

  const Plan& plan() const override { return packed_.plan; }
  std::unique_ptr<KvCache> make_cache() override;
  void run(const Batch& batch, KvCache& cache) override;
  void head(std::span<const std::int64_t> rows, const HeadSink& sink) override;
  bool has_head_slices() const override { return true; }
  void head_slice(std::span<const std::int64_t> rows, const LogitSlice& slice) override;
  const LogitReducer* logit_reducer() const override { return packed_.table.logits; }
  void observe_inputs(InputObserver observer) override { observer_ = std::move(observer); }
  double outlier_share() const override { return linear_->outlier_share(); }
  double exact_head_share() const override { return candidates_ ? candidates_->computed_share() : 0; }
  void exchange(WeightId weight, const Plan& other, const WeightSource& source) override;
  std::int64_t max_rows() const override { return kMaxRows; }
  Bytes cache_bytes(std::int64_t length) const override;
  MemoryReport memory() const override;
  std::vector<std::span<const std::byte>> step_weights() const override;
  void trim() override { kv_blocks_->trim(); }
  void begin_profile() override;
  StepProfile end_profile() override;

 private:
  // Adds the time from its making to its end to a phase of the profile, where one is taken.
  class OpTimer {
   public:
    OpTimer(Executor& program, OpClass phase);
    ~OpTimer();
    OpTimer(const OpTimer&) = delete;
    OpTimer& operator=(const OpTimer&) = delete;

   private:
    Executor& program_;
    OpClass phase_;
    TimePoint begin_;
    Seconds busy_;
  };

  // What depends on the formats of the weights: workspace, products, attention.
  void build();
  void run_op(const FusedOp& fused, std::int64_t rows, const Batch& batch, CpuKvCache& cache,
              std::span<const RowRange> attended, std::span<const RowRange> kept);
  void embed(const EmbedOp& op, const Batch& batch);
  void norm(const NormOp& op, std::int64_t rows);
  void norm_parts(const NormOp& op, std::int64_t rows);
  void multiply(const LinearOp& op, const FusedOp& fused, std::int64_t rows, std::span<const RowRange> kept);
  void gate(const GatedOp& op, std::int64_t rows);
  void add(const AddOp& op, std::int64_t rows);
  void show_inputs(const LinearOp& op, const Buffer& in, std::int64_t rows) const;
  void norm_head(std::span<const std::int64_t> rows);
  void find_highest(std::int64_t rows, std::span<TokenId> ids);
  void drain(std::span<const std::int64_t> rows, std::int64_t first, const HeadSink& sink);

  PackedPlan packed_;
  std::shared_ptr<ThreadPool> pool_;
  Tasks tasks_;
  std::vector<std::int64_t> normed_rows_;  // that head_normed holds for head_slice()
  std::vector<std::int64_t> highest_;      // for each row and slice of logits
  std::optional<Workspace> work_;
  std::optional<Linear> linear_;
  std::optional<Attention> attention_;
  std::optional<RowPruner> pruner_;
  std::unique_ptr<CandidateHead> candidates_;  // for an LM head that is searched in int8
  std::shared_ptr<KvBlockPool> kv_blocks_;
  InputObserver observer_;
  std::optional<StepProfile> profile_;  // while one is taken
};

// The norm of a buffer's rows, of which it says none yet.
NormArgs norm_args(const NormOp& op, const float* gain, const float* bias, const Buffer& in,
                   const Buffer& out);

// What a program of the plan would take. Takes none itself.
PredictedMemory predicted_memory(const Plan& plan, const KernelTable& table, int threads,
                                 std::int64_t tokens);

}  // namespace assay::cpu
