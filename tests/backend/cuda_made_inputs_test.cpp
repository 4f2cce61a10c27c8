// Norms and gates that a multiplication makes of its inputs: the bits of the operation by itself; and where a
// plan has them.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "assay/backend/backend.h"
#include "assay/backend/cuda/cuda_backend.h"
#include "assay/backend/cuda/run/executor.h"
#include "assay/base/error.h"
#include "assay/model/model.h"
#include "cuda_emulation/emulated_runtime.h"
#include "support/cuda_kernels.h"
#include "support/fixtures.h"

namespace assay::cuda {
namespace {

using namespace testing_support;

class CudaMadeInputs : public CudaKernels {
 protected:
  static constexpr std::int64_t kOutputs = 21;

  static bool can_make(const Way& way) {
    return way.format != MatrixFormat::float32 || way.arithmetic != Arithmetic::float32;
  }
  // The product of what lies in `apart` is that of what it makes of `x` itself.
  void expect_same(const LinearArgs& of_apart, DevicePointer<const float> x, std::int64_t x_stride,
                   const FusedPrologue& made) {
    LinearArgs args = of_apart;
    const std::int64_t count = args.rows * kOutputs;
    const auto apart = room<float>(count), together = room<float>(count);
    args.to = {.out = apart, .out_stride = kOutputs};
    args.scratch = scratch_for(args.rows, args.weight.inputs, args.arithmetic);
    run(*runtime_, args);
    args.x = x;
    args.x_stride = x_stride;
    args.made = made;
    args.to.out = together;
    run(*runtime_, args);
    const Floats wanted = get(apart, count), got = get(together, count);
    for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_TRUE(is_same(got[i], wanted[i])) << i;
  }
};

// For rows of a warp (up to 256 inputs) and of a block; with and without a mean and a bias; odd strides; more
// inputs than a warp makes at a time.
TEST_F(CudaMadeInputs, HaveTheBitsOfANormByItself) {
  for (const Way& way : ways())
    for (const std::int64_t inputs : {7, 203, 256, 300, 1700})
      for (const bool subtracts_mean : {false, true}) {
        if (!can_make(way)) continue;
        SCOPED_TRACE(text_of(way) + ", " + std::to_string(inputs) + " inputs, " +
                     std::to_string(subtracts_mean));
        const std::int64_t rows = subtracts_mean ? 4 : 1, stride = inputs + 3;
        Floats x = random_.floats(rows * stride, -3, 5);
        if (rows > 2) x[at_of(2 * stride + inputs - 1)] = kInfinity;
        const auto held = put(x), gain = put(random_.floats(inputs)), bias = put(random_.floats(inputs)),
                   normed = room<float>(rows * stride);
        const DevicePointer<float> own_bias = subtracts_mean ? bias : DevicePointer<float>();
        run(*runtime_, NormArgs{.x = held,
                                .x_stride = stride,
                                .gain = gain,
                                .bias = own_bias,
                                .epsilon = 1e-5F,
                                .subtracts_mean = subtracts_mean,
                                .out = normed,
                                .out_stride = stride,
                                .rows = rows,
                                .n = inputs});
        expect_same({.x = normed,
                     .x_stride = stride,
                     .rows = rows,
                     .weight = put(make_matrix(way.format, kOutputs, inputs, random_, way.group)),
                     .arithmetic = way.arithmetic},
                    held, stride,
                    {.kind = FusedPrologue::Kind::norm,
                     .gain = gain,
                     .bias = own_bias,
                     .epsilon = 1e-5F,
                     .subtracts_mean = subtracts_mean});
      }
}

struct GateShape {
  std::int64_t inputs, rows, padding;  // those of rows in memory
};

// Rows whose pairs are aligned and not; as many inputs as a warp makes at a time, more, and a range of a warp
// that has none.
TEST_F(CudaMadeInputs, HaveTheBitsOfAGateByItself) {
  constexpr Activation kGates[] = {Activation::silu,       Activation::gelu_tanh, Activation::gelu_erf,
                                   Activation::relu,       Activation::relu2,     Activation::tanh,
                                   Activation::gelu_quick, Activation::none};
  std::size_t next = 0;
  for (const Way& way : ways())
    for (const GateShape& shape : {GateShape{1, 1, 0},
                                   {7, 3, 0},
                                   {64, 2, 5},
                                   {203, 4, 1},
                                   {300, 1, 4},
                                   {1536, 4, 0},
                                   {1702, 3, 2},
                                   {6300, 1, 0}}) {
      if (!can_make(way)) continue;
      const Activation activation = kGates[next++ % std::size(kGates)];
      SCOPED_TRACE(text_of(way) + ", " + std::to_string(shape.inputs) + " inputs, " +
                   std::to_string(shape.rows) + " rows, activation " +
                   std::to_string(static_cast<int>(activation)));
      const std::int64_t inputs = shape.inputs, rows = shape.rows, stride = 2 * inputs + shape.padding;
      Floats x = random_.floats(rows * stride, -4, 4);
      if (rows == 3) {
        x[at_of(stride + inputs - 1)] = kNaN;       // a gate
        x[at_of(2 * stride + inputs)] = kInfinity;  // what another is multiplied by
      }
      const auto held = put(x), gated = room<float>(rows * inputs);
      run(*runtime_, GatedArgs{.x = held,
                               .x_stride = stride,
                               .activation = activation,
                               .out = gated,
                               .out_stride = inputs,
                               .rows = rows,
                               .n = inputs});
      expect_same({.x = gated,
                   .x_stride = inputs,
                   .rows = rows,
                   .weight = put(make_matrix(way.format, kOutputs, inputs, random_, way.group)),
                   .arithmetic = way.arithmetic},
                  held, stride, {.kind = FusedPrologue::Kind::gated, .activation = activation});
    }
}

TEST_F(CudaMadeInputs, AreOfFewRowsAndNotOfFloat32) {
  constexpr std::int64_t kRows = kFewRows + 1;
  const auto x = put(random_.floats(kRows * 64)), out = room<float>(kRows * 16);
  LinearArgs args{.x = x,
                  .x_stride = 64,
                  .rows = kRows,
                  .weight = put(make_matrix(MatrixFormat::bfloat16, 16, 32, random_)),
                  .to = {.out = out, .out_stride = 16},
                  .scratch = scratch_for(kRows, 32, Arithmetic::bfloat16)};
  args.made.kind = FusedPrologue::Kind::gated;
  EXPECT_THROW(run(*runtime_, args), Error);
  args.rows = kFewRows;
  run(*runtime_, args);
  args.weight = put(make_matrix(MatrixFormat::float32, 16, 32, random_));
  args.arithmetic = Arithmetic::tf32;  // whose blocks make their inputs themselves
  EXPECT_THROW(run(*runtime_, args), Error);
  args.rows = 4;
  run(*runtime_, args);
  args.arithmetic = Arithmetic::float32;
  EXPECT_THROW(run(*runtime_, args), Error);
}

class PlanOfModel {
 public:
  PlanOfModel(const char* fixture, const char* precision)
      : model_(Model::load(std::make_shared<const ModelFolder>(test::fixture_model(fixture)),
                           make_backend(Device{}, {}), precision_from_name(precision))),
        plan_(model_.program().plan()),
        layout_(plan_, facts()) {}

  // For each norm, or gate, whether the product behind it makes it.
  template <typename Kind>
  std::vector<bool> made() const {
    const std::vector<std::int64_t> rows = neighbours_of(plan_, layout_).made_rows;
    std::vector<bool> of_kind;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (std::holds_alternative<Kind>(plan_.ops[i].kind)) of_kind.push_back(rows[i] > 0);
    return of_kind;
  }
  std::int64_t ordered_gates() const {
    const Neighbours around = neighbours_of(plan_, layout_);
    return std::ranges::count_if(around.producers, [](const auto& p) { return p && p->is_behind_gate; });
  }
  std::size_t first_gate() const {
    std::size_t i = 0;
    while (!std::holds_alternative<GatedOp>(plan_.ops[i].kind)) ++i;
    return i;
  }
  WorkspaceLayout::Place& place_of(BufferId id) { return layout_.buffers[static_cast<std::size_t>(id)]; }
  Plan& plan() { return plan_; }

 private:
  static DeviceFacts facts() {
    DeviceFacts facts;
    facts.processors = 4;
    facts.memory_bytes = std::int64_t{1} << 30;
    return facts;
  }

  Model model_;
  Plan plan_;
  WorkspaceLayout layout_;
};
std::int64_t count_of(const std::vector<bool>& made) {
  EXPECT_FALSE(made.empty());
  return std::count(made.begin(), made.end(), true);
}

// Both norms in a layer of GPT-2. A parallel residual has none, since two products read one norm, and float32
// makes none.
TEST(CudaMadeInPlans, AreNormsThatOneProductReads) {
  const std::vector<bool> base = PlanOfModel("base", "bfloat16").made<NormOp>();
  EXPECT_EQ(count_of(base), std::ssize(base));
  EXPECT_EQ(count_of(PlanOfModel("gptj_whole", "bfloat16").made<NormOp>()), 0);
  EXPECT_EQ(count_of(PlanOfModel("base", "float32").made<NormOp>()), 0);
  EXPECT_EQ(count_of(PlanOfModel("base", "int8-dynamic").made<NormOp>()), std::ssize(base));
  EXPECT_EQ(count_of(PlanOfModel("base", "llm-int8").made<NormOp>()),
            0);  // whose outliers are those of all rows
}

TEST(CudaMadeInPlans, AreGatesThatOneProductReads) {
  for (const char* precision : {"bfloat16", "nf4", "int4-g128"}) {
    const std::vector<bool> gates = PlanOfModel("llama_grouped", precision).made<GatedOp>();
    EXPECT_EQ(count_of(gates), std::ssize(gates)) << precision;
  }
  EXPECT_EQ(count_of(PlanOfModel("llama_grouped", "float32").made<GatedOp>()), 0);
  EXPECT_EQ(count_of(PlanOfModel("llama_grouped", "int8-dynamic").made<GatedOp>()), 0);
}

// A product that writes where its gate reads, a gate that is read once more, and one of another width.
TEST(CudaMadeInPlans, AreNotGatesThatAreNeededElsewhere) {
  PlanOfModel model("llama_grouped", "bfloat16");
  const std::size_t at = model.first_gate();
  const auto gates = count_of(model.made<GatedOp>());
  const GatedOp gate = std::get<GatedOp>(model.plan().ops[at].kind);
  const BufferId out = std::get<LinearOp>(model.plan().ops[at + 1].kind).out;
  const WorkspaceLayout::Place place = model.place_of(gate.in);
  model.place_of(gate.in).at = model.place_of(out).at + (kMaxRows * model.place_of(out).stride - 1) * 4;
  EXPECT_LT(count_of(model.made<GatedOp>()), gates);
  model.place_of(gate.in) = place;
  EXPECT_EQ(count_of(model.made<GatedOp>()), gates);

  const auto width = [&](BufferId id) -> std::int64_t& {
    return model.plan().buffers[static_cast<std::size_t>(id)].columns;
  };
  ++width(gate.out);
  EXPECT_EQ(count_of(model.made<GatedOp>()), 0);
  --width(gate.out);

  const Op reader{.name = "reader", .kind = AddOp{.in = gate.out, .out = out}};
  model.plan().ops.insert(model.plan().ops.begin() + static_cast<std::ptrdiff_t>(at) + 2, reader);
  EXPECT_EQ(count_of(model.made<GatedOp>()), gates - 1);
}

// A token of each of so many sequences, and the launches of that step.
struct SteppedTokens {
  std::vector<float> logits;  // that of the first
  std::int64_t launches = 0;
};
SteppedTokens step_of(const std::shared_ptr<EmulatedRuntime>& runtime, Program& program, std::int64_t rows) {
  const auto cache = program.make_cache();
  Batch batch;
  for (std::int64_t row = 0; row < rows; ++row) {
    batch.ids.push_back(static_cast<TokenId>(3 + row));
    batch.positions.push_back(0);
    batch.sequences.push_back({.sequence = cache->add_sequence(), .first_row = row, .rows = 1});
  }
  const std::int64_t before = runtime->launches();
  program.run(batch, *cache);
  SteppedTokens step{.logits = std::vector<float>(static_cast<std::size_t>(program.plan().vocab)),
                     .launches = runtime->launches() - before};
  const std::int64_t first = 0;
  program.head(std::span(&first, 1), LogitsSink{step.logits});
  return step;
}

// The bits are those of a step that is observed or profiled, which makes nothing, and of one of more rows.
TEST(CudaMadeInSteps, SaveALaunchEachAndChangeNoBit) {
  for (const char* precision : {"bfloat16", "nf4"}) {
    SCOPED_TRACE(precision);
    const std::shared_ptr<EmulatedRuntime> runtime = make_emulated_runtime();
    const auto backend = make_cuda_backend(Device{Device::Kind::cuda, 0}, runtime,
                                           {.uses_graphs = false, .chooses_tokens = false});
    const Model model = Model::load(std::make_shared<const ModelFolder>(test::fixture_model("llama_grouped")),
                                    backend, precision_from_name(precision));
    Program& program = model.program();
    const PlanOfModel plan("llama_grouped", precision);
    const std::int64_t norms = count_of(plan.made<NormOp>()), made = norms + count_of(plan.made<GatedOp>());
    // In float32 a block makes its inputs itself, those of fewer rows.
    const std::int64_t most = std::string(precision) == "bfloat16" ? kFewRows : 4;
    const SteppedTokens many = step_of(runtime, program, kFewRows + 6);
    std::size_t seen = 0;
    for (const std::int64_t rows : {1, 2, 4, 5, 64}) {
      SCOPED_TRACE(rows);
      const SteppedTokens together = step_of(runtime, program, rows);
      program.observe_inputs([&](const ObservedInput&) { ++seen; });
      const SteppedTokens apart = step_of(runtime, program, rows);
      program.observe_inputs({});
      // A gate in the product in front leaves its rows in order; one or two rows are normed by each block.
      const std::int64_t more =
          precision == std::string("bfloat16") ? plan.ordered_gates() + (rows <= 2 ? norms : 0) : 0;
      EXPECT_EQ(apart.launches - together.launches, rows <= most ? made + more : 0);
      EXPECT_EQ(together.logits, apart.logits);
      EXPECT_EQ(together.logits, many.logits);
    }
    EXPECT_GT(seen, 0U);
    program.begin_profile();
    const SteppedTokens profiled = step_of(runtime, program, 1);
    program.end_profile();
    EXPECT_EQ(profiled.logits, many.logits);
  }
}

// What a multiplication adds to is read early unless the kernel in front writes it.
TEST(CudaOrderedSteps, AddEarlyToWhatTheKernelInFrontLeavesAlone) {
  const Model model = Model::load(std::make_shared<const ModelFolder>(test::demo_model()),
                                  make_backend(Device{}, {}), precision_from_name("bfloat16"));
  Plan plan = model.program().plan();
  DeviceFacts facts;
  facts.memory_bytes = std::int64_t{1} << 30;
  const WorkspaceLayout layout(plan, facts);
  const auto adds = [](const Op& op) {
    const auto* product = std::get_if<LinearOp>(&op.kind);
    return product != nullptr && product->adds_to_output;
  };
  const auto first = std::find_if(plan.ops.begin(), plan.ops.end(), adds);
  ASSERT_NE(first, plan.ops.end());
  const std::size_t at = static_cast<std::size_t>(first - plan.ops.begin());
  // An MLP's second half adds behind a multiplication that has not waited when it starts.
  EXPECT_EQ(2 * std::ranges::count(neighbours_of(plan, layout).adds_early, true),
            std::ranges::count_if(plan.ops, adds));
  plan.ops.insert(plan.ops.begin() + static_cast<std::ptrdiff_t>(at) + 1, Op(plan.ops[at]));
  const Neighbours around = neighbours_of(plan, layout);
  EXPECT_TRUE(around.adds_early[at]);
  EXPECT_FALSE(around.adds_early[at + 1]);
}

// Attention and the first half of an MLP leave their rows in order: a launch less each, and the same bits.
TEST(CudaOrderedSteps, LeaveRowsForTheMultiplicationBehind) {
  const std::shared_ptr<EmulatedRuntime> runtime = make_emulated_runtime();
  const auto backend = make_cuda_backend(Device{Device::Kind::cuda, 0}, runtime,
                                         {.uses_graphs = false, .chooses_tokens = false});
  const Model model = Model::load(std::make_shared<const ModelFolder>(test::demo_model()), backend,
                                  precision_from_name("bfloat16"));
  Program& program = model.program();
  const auto layers = static_cast<std::int64_t>(program.plan().layers);
  DeviceFacts facts;
  facts.memory_bytes = std::int64_t{1} << 30;
  const Neighbours around = neighbours_of(program.plan(), WorkspaceLayout(program.plan(), facts));
  EXPECT_EQ(std::ranges::count_if(around.producers, [](const auto& p) { return p.has_value(); }), 2 * layers);
  EXPECT_EQ(std::count(around.leaves_moments.begin(), around.leaves_moments.end(), true), 2 * layers + 1);
  const SteppedTokens one = step_of(runtime, program, 1), some = step_of(runtime, program, 3),
                      many = step_of(runtime, program, kFewRows + 1);
  EXPECT_EQ(one.logits, many.logits);
  EXPECT_EQ(some.logits, many.logits);
  // Embedding, and per layer: qkv with its norm, attention, which stores keys and values, its
  // output, and both halves. Of three rows norms have a launch each.
  EXPECT_EQ(one.launches, 1 + layers * 5);
  EXPECT_EQ(some.launches, 1 + layers * 7);
}

}  // namespace
}  // namespace assay::cuda
