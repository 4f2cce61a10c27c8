// Which kernel multiplies rows by grouped codes in 16 bits, and the shape of its launch.
#include <algorithm>
#include <iterator>

#include "assay/backend/cuda/kernels/kernels.h"
#include "assay/backend/cuda/kernels/launch_shapes.h"
#include "assay/base/error.h"

namespace assay::cuda {

namespace {

constexpr std::int64_t kGroupedRows[] = {8, 32, 64};  // as GroupedKernels have them

// Whether entries of the book are whole numbers one after another.
bool has_book(const Matrix& weight) {
  for (int code = 1; code < 1 << std::min(weight.run.code_bits, 4); ++code)
    if (weight.codebook[code] != weight.codebook[0] + static_cast<float>(code)) return true;
  return false;
}

// Kernels know the runs of factors, and the super-blocks of GGUF.
bool is_known(const Matrix& weight, const GroupedKind& kind) {
  const ScaleRun& run = weight.run;
  if (run.code_bits != kind.bits || has_book(weight) != kind.has_book) return false;
  if (kind.bits == 8 && weight.codebook[0] != -128) return false;
  if (run.has_minima && !may_have_minima(kind.bits, kind.has_book)) return false;
  if (run.is_e8m0 && !kind.has_book) return false;
  const ScaleRun block = super_block_of(kind.bits, kind.has_book);
  if (run.number_bits > 0)
    return run.inputs == block.inputs && run.groups == block.groups && run.number_bits == block.number_bits &&
           run.has_minima == block.has_minima && block.bits > 0;
  return run.groups == 1 && (run.inputs == 32 || run.inputs == 256);
}

}  // namespace

void run_grouped(Runtime& runtime, const LinearArgs& args) {
  if (args.rows == 0) return;
  const auto* const kind = std::find_if(std::begin(kGroupedKinds), std::end(kGroupedKinds),
                                        [&](const GroupedKind& one) { return is_known(args.weight, one); });
  if (kind == std::end(kGroupedKinds))
    throw Error("a matrix of {}-bit codes has scales of {} groups in {} inputs, which no kernel knows",
                args.weight.run.code_bits, args.weight.run.groups, args.weight.run.inputs);
  OrderedArgs product = ordered_product(args, args.arithmetic);
  if (!args.ordered) put_in_order(runtime, args, args.arithmetic, product);
  const Kernels& all = runtime.kernels();
  const GroupedKernels& kernels =
      (args.arithmetic == Arithmetic::float16 ? all.grouped_float16
                                              : all.grouped_bfloat16)[kind - kGroupedKinds];
  const bool has_gate = args.to.gated > 0;
  const std::int64_t strips_of_block = has_gate ? 2 : 1;
  // Sums take the place of the scales.
  const auto bytes = [&](std::int64_t rows) {
    return std::max<std::int64_t>(partial_bytes(rows), 8 * grouped_stage_bytes(kind->bits, kind->has_book)) *
           strips_of_block;
  };
  std::size_t size = 0;
  const std::size_t largest = has_gate ? std::size(kernels.gated) - 1 : std::size(kernels.rows) - 1;
  while (size < largest && args.rows > kGroupedRows[size] &&
         bytes(kGroupedRows[size + 1]) <= runtime.facts().shared_bytes_per_block)
    ++size;
  launch(runtime, has_gate ? kernels.gated[size] : kernels.rows[size],
         {.grid_x = count_of(strips_of(has_gate ? args.to.gated : args.weight.outputs)),
          .grid_y = blocks_of(args.rows, kGroupedRows[size]),
          .block = count_of(kThreads),
          .shared_bytes = count_of(bytes(kGroupedRows[size]))},
         product);
}

}  // namespace assay::cuda
