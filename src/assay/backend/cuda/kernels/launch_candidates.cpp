// What a launch may choose instead of its rule: only what would be launched otherwise.
#include <algorithm>
#include <array>

#include "assay/backend/cuda/kernels/launch_choices.h"
#include "assay/backend/cuda/kernels/launch_shapes.h"
#include "assay/backend/cuda/kernels/launch_warpgroups.h"

namespace assay::cuda {

namespace {

// Candidates one after another, each with what comes of it: that which comes to the same is left out.
class Candidates {
 public:
  using Effect = std::array<std::int64_t, 5>;
  void add(const LaunchChoice& choice, const Effect& effect) {
    if (std::find(effects_.begin(), effects_.end(), effect) != effects_.end()) return;
    effects_.push_back(effect);
    choices_.push_back(choice);
  }
  std::vector<LaunchChoice> choices() { return std::move(choices_); }

 private:
  std::vector<Effect> effects_;
  std::vector<LaunchChoice> choices_;
};

std::vector<LaunchChoice> of_few_rows(const Runtime& runtime, const LinearArgs& args) {
  const bool have_codes = args.weight.format == MatrixFormat::four_bit,
             can_norm = args.made.kind == FusedPrologue::Kind::norm && args.made.moments.data &&
                        !args.ordered && args.rows <= kMaxNormedRows;
  const bool can_own = have_codes && can_norm && args.to.gated == 0 && !args.to.moments.data;
  const std::int64_t strips = strips_of(args.to.gated > 0 ? args.to.gated : args.weight.outputs),
                     processors = runtime.facts().processors;
  Candidates all;
  const auto add = [&](const LaunchChoice& choice) {
    const bool is_near = choice.loads == kByRule ? strips > 2 * processors : choice.loads == 1;
    const std::int64_t most = (choice.strips == kByRule ? 2 : choice.strips) * processors;
    const CodesBy by = have_codes ? codes_by(runtime, args.weight, args.rows, choice) : CodesBy::table;
    const bool are_own = can_own && choice.inputs != 0 && by == CodesBy::table &&
                         have_own_strips(runtime, args.weight, choice);
    all.add(choice, {can_norm && choice.inputs != 0 ? 1 : 0, !have_codes && args.rows <= 8 && is_near ? 1 : 0,
                     have_codes && args.rows <= 16 && strips > most && !are_own                       ? most
                     : args.to.gated == 0 && are_rows_staged(runtime, args.weight, args.rows, choice) ? 1
                                                                                                      : 0,
                     static_cast<std::int64_t>(by), are_own ? 1 : 0});
  };
  for (const std::int8_t inputs : {kByRule, std::int8_t{0}}) {
    add({.inputs = inputs});
    for (const std::int8_t loads : {std::int8_t{0}, std::int8_t{1}}) add({.loads = loads, .inputs = inputs});
    for (const std::int8_t by : {std::int8_t{0}, std::int8_t{1}, std::int8_t{2}})
      add({.inputs = inputs, .strips = by});
    for (const std::int8_t codes : {std::int8_t{1}, std::int8_t{2}}) add({.inputs = inputs, .codes = codes});
    add({.inputs = inputs, .codes = 2, .strips = 0});
    for (const std::int8_t sums : {std::int8_t{0}, std::int8_t{1}}) add({.inputs = inputs, .sums = sums});
  }
  return all.choices();
}

std::vector<LaunchChoice> of_coded_row(const Runtime& runtime, const QuantizedLinearArgs& args) {
  Candidates all;
  const auto add = [&](const LaunchChoice& choice) {
    if (choice.inputs == 0) return all.add(choice, {});
    if (const auto shape = coded_row_shape(runtime, args, choice))
      all.add(choice, {1, shape->is_wide, shape->has_own_strips, 0});
  };
  add({});
  for (const std::int8_t sums : {std::int8_t{0}, std::int8_t{1}})
    for (const std::int8_t loads : {std::int8_t{0}, std::int8_t{1}}) add({.loads = loads, .sums = sums});
  add({.inputs = 0});
  return all.choices();
}

std::vector<LaunchChoice> of_warpgroups(const Runtime& runtime, std::int64_t rows, const Matrix& weight) {
  const int by_rule = warpgroup_shape(rows, weight.outputs, runtime.facts().processors).index;
  std::vector<LaunchChoice> all{{}};
  for (const WarpgroupShape& shape : kWarpgroupBlocks)
    if (shape.index != by_rule) all.push_back({.warpgroups = static_cast<std::int8_t>(shape.index)});
  return all;
}

// `room`: bytes for sums of ranges. Blocks that take one each are worth it where they are few.
std::vector<LaunchChoice> of_many_rows(const Runtime& runtime, std::int64_t rows, const Matrix& weight,
                                       std::int64_t room) {
  const int processors = runtime.facts().processors;
  Candidates all;
  const auto add = [&](const LaunchChoice& choice) {
    const GemmShape shape = gemm_shape(rows, weight, processors, choice);
    const bool can_split = room >= kRangesOfSums * rows * weight.outputs * 4 && shape.blocks <= processors;
    if (choice.ranges == 1 && !can_split) return;
    all.add(choice, {shape.size, shape.is_split && can_split ? 1 : 0, 0, 0});
  };
  add({});
  for (const std::int8_t size : {std::int8_t{0}, std::int8_t{1}})
    for (const std::int8_t ranges : {std::int8_t{0}, std::int8_t{1}}) add({.blocks = size, .ranges = ranges});
  return all.choices();
}

}  // namespace

std::vector<LaunchChoice> candidates_of(const Runtime& runtime, const LinearArgs& args) {
  const Matrix& weight = args.weight;
  if (args.rows == 0 || weight.inputs == 0 || weight.outputs == 0 || weight.format == MatrixFormat::grouped)
    return {{}};
  const bool is_ordered = takes_ordered_inputs(weight.format, args.arithmetic, weight.group,
                                               weight.offsets || weight.input_groups);
  if (args.many_rows == ManyRows::warpgroups) return of_warpgroups(runtime, args.rows, weight);
  if (args.rows <= args.few_rows)
    return is_ordered ? of_few_rows(runtime, args) : std::vector<LaunchChoice>(1);
  const bool is_tf32 = weight.format == MatrixFormat::float32 && args.arithmetic == Arithmetic::tf32;
  if (!is_ordered && !is_tf32) return {{}};
  const std::int64_t rounded =
      round_up(args.rows * rounded_inputs_stride(weight.inputs, args.arithmetic), 256);
  return of_many_rows(runtime, args.rows, weight, args.scratch.bytes - rounded);
}

std::vector<LaunchChoice> candidates_of(const Runtime& runtime, const QuantizedLinearArgs& args) {
  const LinearInt8Args& linear = args.linear;
  if (linear.rows == 0 || linear.weight.inputs == 0 || linear.weight.outputs == 0) return {{}};
  if (coded_row_shape(runtime, args, {})) return of_coded_row(runtime, args);
  if (linear.rows <= kFewInt8Rows) {
    if (!can_make_codes(runtime, args)) return {{}};
    return {{}, {.inputs = static_cast<std::int8_t>(makes_codes_by_rule(args) ? 0 : 1)}};
  }
  if (linear.many_rows == ManyRows::warpgroups) return of_warpgroups(runtime, linear.rows, linear.weight);
  return of_many_rows(runtime, linear.rows, linear.weight, linear.scratch.bytes);
}

}  // namespace assay::cuda
