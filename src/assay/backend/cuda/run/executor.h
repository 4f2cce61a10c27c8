// The program of the CUDA backend: runs a plan operation by operation on one stream of a device. A decode
// step is recorded as a CUDA graph when it first runs, and replayed from then on.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/backend/common/batch.h"
#include "assay/backend/cuda/cuda_backend.h"
#include "assay/backend/cuda/lower/pack.h"
#include "assay/backend/cuda/memory/kv_cache.h"
#include "assay/backend/cuda/memory/workspace.h"
#include "assay/backend/cuda/run/launch_tuning.h"
#include "assay/backend/cuda/run/neighbours.h"
#include "assay/backend/held_logits.h"

namespace assay::cuda {

// Throws Error, or FieldError where a field asks for it, for what this backend does not run on that GPU.
void check_supported(const Plan& plan, const DeviceFacts& facts);

MemoryReport memory_of(const WeightLayout& weights, const WorkspaceLayout& work);

// What a program of the plan would take, and a sequence of this many tokens beside it.
PredictedMemory predicted_memory(const Plan& plan, const DeviceFacts& facts, std::int64_t tokens,
                                 const GemmWays& ways = {});

// The keys up to which a decode step is recorded: 256, 512, 768, 1,024, 1,536, 2,048, 3,072 ... share a
// graph; at most the context's. A block whose chunk is beyond the keys of its row ends at once, and no bit
// depends on how many there are.
std::int64_t recorded_length(std::int64_t longest, std::int64_t context);

class CudaProgram : public Program, public HeldLogits {
 public:
  CudaProgram(const Plan& plan, const WeightSource& source, std::shared_ptr<Runtime> runtime,
              const CudaOptions& options = {}, std::shared_ptr<LaunchChoices> launches = nullptr);

  const Plan& plan() const override { return plan_; }
  std::unique_ptr<KvCache> make_cache() override { return std::make_unique<CudaKvCache>(pages_); }
  void run(const Batch& batch, KvCache& cache) override;
  void head(std::span<const std::int64_t> rows, const HeadSink& sink) override;
  HeldLogits* held_logits() override { return this; }
  void observe_inputs(InputObserver observer) override { observer_ = std::move(observer); }
  double outlier_share() const override;
  bool can_run_greedily() const override {
    return options_.chooses_tokens && !observer_ && !profile_ && first_embedding() != nullptr;
  }
  void run_greedily(const Batch& batch, KvCache& cache, std::int64_t steps, std::span<TokenId> chosen,
                    const std::function<void()>& after_each) override;
  // Not for static codes of inputs, nor for factors of them: these lie beside the weights.
  void exchange(WeightId weight, const Plan& other, const WeightSource& source) override;
  std::int64_t max_rows() const override { return kMaxRows; }
  Bytes cache_bytes(std::int64_t length) const override { return cache_bytes_of(pages_->layout(), length); }
  void require_memory(Bytes needed, std::string_view purpose) const override;
  MemoryReport memory() const override;
  void trim() override { pages_->trim(); }
  void tune() override;
  void begin_profile() override;
  StepProfile end_profile() override { return std::exchange(profile_, std::nullopt).value_or(StepProfile{}); }
  std::optional<GraphProfile> profile_graph(const Batch& batch, KvCache& cache) override;

 private:
  // Places of the rows that a step computes, which become fewer at the last attention.
  struct Step {
    std::int64_t rows = 0, all_rows = 0;
    std::int64_t longest = 0;  // keys of a row
    std::int64_t sequences = 1;
    bool is_pruned = false;  // rows are those that are kept
    bool is_decode = false;  // one row of each sequence, all of them wanted
  };
  // What the launches of a decode step depend on, beside the plan.
  struct GraphKey {
    bool is_greedy = false;
    std::int64_t rows = 0, longest = 0;
    auto operator<=>(const GraphKey&) const = default;
  };

  Step begin(const Batch& batch, const CudaKvCache& cache, std::int64_t more_steps);
  void put_pages(const std::vector<PagePool::Page>& pages);
  void put_constants();
  void put_angles(const RotaryTable& table, const std::vector<float>& frequencies, std::int64_t first_row);
  void run_ops(Step& step, std::size_t first = 0);
  void gather_rotary_tables(std::int64_t rows);
  void run_or_replay(const GraphKey& key, const std::function<void()>& work);
  const EmbedOp* first_embedding() const;
  void choose_next(std::int64_t rows);
  void run_op(std::size_t index, Step& step);
  EmbedArgs embedding(const EmbedOp& op, std::int64_t rows) const;
  // Whether what few rows make for one another is made in a step of so many.
  bool has_few(std::int64_t rows, std::int64_t most) const;
  bool is_made_of_inputs(std::size_t index, std::int64_t rows) const;
  bool computes_gate(std::size_t index, std::int64_t rows) const;
  FusedPrologue made_inputs(std::size_t index, std::int64_t rows) const;
  FusedPrologue norm_of_inputs(const NormOp& norm, const MomentParts& moments) const;
  MomentParts moments_behind(std::size_t index, std::int64_t rows) const;
  OrderedRowsOut ordered_behind(std::size_t index, std::int64_t rows) const;
  void norm(const NormOp& op, const Step& step);
  void gate(const GatedOp& op, const Step& step);
  // Where a multiplication reads and writes, what of its inputs it makes itself, and what it leaves.
  struct Around {
    Buffer in = {}, out = {};
    FusedPrologue made = {};
    DevicePointer<const std::byte> ordered = {};  // its inputs, where they are in order already
    OrderedRowsOut left = {};
    MomentParts moments = {};
    const GatedOp* gate = nullptr;                     // that it computes too
    bool adds_early = false, lets_next_start = false;  // as Neighbours has them
  };
  Around around(const LinearOp& op, std::size_t index, std::int64_t rows) const;
  void multiply(const LinearOp& op, const OpConstants& constants, std::int64_t rows, const Around& around);
  QuantizeArgs quantization(const LinearOp& op, const OpConstants& constants, std::int64_t rows) const;
  // A multiplication as it is launched; which kernels multiply it is decided then.
  using Product = std::variant<LinearArgs, QuantizedLinearArgs>;
  Product product_of(const LinearOp& op, const OpConstants& constants, std::int64_t rows,
                     const Around& around) const;
  QuantizedLinearArgs int8_product_of(const LinearOp& op, const OpConstants& constants, std::int64_t rows,
                                      const Around& around, Epilogue to) const;
  ProductKey key_of(const LinearOp& op, std::int64_t rows, const Around& around) const;
  void launch_product(const LinearOp& op, Product product, const LaunchChoice& choice);
  Around around_head(std::int64_t rows) const;
  // For tuning: each multiplication of a step of so many rows, what may be chosen for it, and those that
  // choose alike, by their own matrices and by as many `copies` as read beyond the caches.
  void for_each_product(
      std::int64_t rows,
      const std::function<void(const LinearOp&, std::size_t index, const Around&)>& visit) const;
  std::vector<LaunchChoice> candidates_for(const LinearOp& op, const Product& product) const;
  std::vector<TunedProduct> products_to_tune(std::int64_t rows, const OwnedMemory& copies);
  LaunchChoices measured(std::span<const ProductKey> missing);
  const RotaryOp* rotation_before(std::size_t index) const;
  RotateArgs rotation(const RotaryOp& op, std::int64_t rows) const;
  void attend(const AttentionOp& op, const OpConstants& constants, std::size_t index, Step& step);
  AttendArgs attention(const AttentionOp& op, const OpConstants& constants, std::size_t index,
                       const Step& step, bool prunes) const;
  void keep_rows(BufferId id, std::int64_t rows);
  void show_inputs(const LinearOp& op, const Step& step) const;
  KvSlots places(bool are_kept) const;
  // Logits of rows of the hidden states; without row_of of the first ones, which this step has made.
  void run_head(DevicePointer<const std::int32_t> row_of, std::int64_t rows);
  void run_head(std::span<const std::int64_t> rows);
  void bend_logits(std::int64_t rows);
  void drain(std::size_t first, std::size_t count, const HeadSink& sink);
  std::int64_t most_rows() const override;
  bool is_beside(const HeldLogits& base) const override;
  void hold(std::span<const std::int64_t> rows) override;
  void reduce(const HeldLogits* base, std::int64_t vocab, std::span<const TokenId> targets,
              std::span<RowSlice> out) override;
  void begin_marks();
  void mark(OpClass phase, std::size_t op);
  void begins(std::size_t part);  // an operation, the LM head, or what chooses the next token
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
  CudaOptions options_;
  std::shared_ptr<LaunchChoices> launches_;  // which programs of a backend share
  GemmWays ways_;
  Weights weights_;
  Workspace work_;
  Neighbours neighbours_;
  std::shared_ptr<PagePool> pages_;
  InputObserver observer_;

  std::vector<std::int64_t> kept_;  // rows that go on behind the last attention, where some do not
  HiddenRows hidden_;
  std::int64_t held_ = 0;  // rows whose logits hold() has left

  std::vector<PagePool::Page> put_pages_;  // what the device's table of pages holds
  std::map<GraphKey, std::unique_ptr<Graph>> graphs_;
  bool is_recording_ = false;
  class StepRecorder* recorder_ = nullptr;  // while a step is recorded for the times of its nodes

  struct Mark {
    OpClass phase{};  // the class of what ran since the mark before; of the first nothing did
    std::size_t op = 0;
    std::uint64_t point = 0;
  };
  std::optional<StepProfile> profile_;  // while one is taken
  std::vector<Mark> marks_;
};

}  // namespace assay::cuda
