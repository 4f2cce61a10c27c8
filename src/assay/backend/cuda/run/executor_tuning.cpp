// The multiplications of a program as tuning measures them: where they read and write, and what they do with
// it, is what steps do; weights lie in all layers, and in copies where the layers together fit into a cache.
#include <algorithm>

#include "assay/backend/cuda/run/executor.h"

namespace assay::cuda {

namespace {

// What is multiplied one after another reads at least so many L2 caches, unless it is too many launches.
constexpr std::int64_t kCachesRead = 2;
constexpr std::size_t kMaxLaunches = 128, kMaxLaunchesOfManyRows = 8;
// So that one token and whole prompts are measured where there is no time for all.
constexpr std::int64_t kRowsByImportance[] = {1, 512, 8, 64, 256, 127, 2, 16, 32};
constexpr std::uint8_t kAnyByte = 0x3c;  // small numbers in every format, and codes

template <typename Pointer>
void move(Pointer& pointer, const std::byte* from, const std::byte* to) {
  using Element = std::remove_pointer_t<decltype(pointer.address)>;
  if (pointer)
    pointer.address = reinterpret_cast<Element*>(reinterpret_cast<std::uintptr_t>(pointer.address) +
                                                 reinterpret_cast<std::uintptr_t>(to) -
                                                 reinterpret_cast<std::uintptr_t>(from));
}

// The matrix at another place; groups of inputs are indices and stay.
void move_matrix(Matrix& matrix, const std::byte* to) {
  const std::byte* const from = matrix.data.address;
  move(matrix.scales, from, to);
  move(matrix.offsets, from, to);
  move(matrix.data, from, to);
}

Matrix& matrix_of(std::variant<LinearArgs, QuantizedLinearArgs>& product) {
  auto* const floats = std::get_if<LinearArgs>(&product);
  return floats != nullptr ? floats->weight : std::get<QuantizedLinearArgs>(product).linear.weight;
}

}  // namespace

ProductKey CudaProgram::key_of(const LinearOp& op, std::int64_t rows, const Around& around) const {
  const WeightSpec& weight = weights_.spec(op.weight);
  const GemmProduct product = gemm_product_of(op, weight, rows);
  return {.format = product.format,
          .arithmetic = product.arithmetic,
          .outputs = product.outputs,
          .inputs = product.inputs,
          .group = weights_.group(op.weight),
          .rows = bucket_of(rows),
          .is_gated = around.gate != nullptr,
          .is_normed = around.made.kind == FusedPrologue::Kind::norm,
          .chooses_kernel = leaves_kernel_open(ways_, product)};
}

CudaProgram::Around CudaProgram::around_head(std::int64_t rows) const {
  if (!neighbours_.leaves_moments.back() || !has_few(rows, kFewRows))
    return {.in = work_.head_normed(), .out = work_.logits()};
  return {.in = work_[plan_.hidden],
          .out = work_.logits(),
          .made = norm_of_inputs(*plan_.head.norm, moments_behind(plan_.ops.size() - 1, rows))};
}

// By the kernel that the rule takes; where that is open, by the others too.
std::vector<LaunchChoice> CudaProgram::candidates_for(const LinearOp& op, const Product& product) const {
  const auto* const floats = std::get_if<LinearArgs>(&product);
  const std::int64_t rows =
      floats != nullptr ? floats->rows : std::get<QuantizedLinearArgs>(product).linear.rows;
  const GemmProduct facts = gemm_product_of(op, weights_.spec(op.weight), rows);
  const GemmKernel by_rule = choose_gemm(ways_, facts);
  if (floats == nullptr) {
    QuantizedLinearArgs args = std::get<QuantizedLinearArgs>(product);
    args.linear.many_rows = many_rows_of(by_rule);
    return candidates_of(*runtime_, args);
  }
  const auto by = [&](GemmKernel kernel) {
    if (kernel == GemmKernel::cublaslt) return std::vector<LaunchChoice>(1);
    LinearArgs args = *floats;
    args.many_rows = many_rows_of(kernel);
    return candidates_of(*runtime_, args);
  };
  std::vector<LaunchChoice> all = by(by_rule);
  if (!leaves_kernel_open(ways_, facts)) return all;
  for (const GemmKernel kernel : {GemmKernel::cublaslt, GemmKernel::warpgroups, GemmKernel::own})
    if (kernel != by_rule && takes_kernel(ways_, kernel, facts))
      for (LaunchChoice one : by(kernel)) {
        one.kernel = static_cast<std::int8_t>(kernel);
        all.push_back(one);
      }
  return all;
}

std::vector<TunedProduct> CudaProgram::products_to_tune(std::int64_t rows, const OwnedMemory& copies) {
  const std::size_t most = rows > kFewRows ? kMaxLaunchesOfManyRows : kMaxLaunches;
  std::vector<TunedProduct> all;
  std::vector<std::int64_t> read;  // bytes, by each
  const auto add = [&](const LinearOp& op, std::size_t index, const Around& around) {
    const ProductKey key = key_of(op, rows, around);
    const Product product = product_of(op, weights_.constants(index), rows, around);
    const auto at =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.key == key; }) - all.begin();
    const auto place = static_cast<std::size_t>(at);
    if (place == all.size()) {
      all.push_back({.key = key, .candidates = candidates_for(op, product)});
      read.push_back(0);
    }
    const auto take = [&](Product one) {
      all[place].launches.push_back(
          [this, which = &op, one](const LaunchChoice& choice) { launch_product(*which, one, choice); });
      read[place] += weights_.bytes(op.weight);
    };
    if (all[place].launches.size() < most) take(product);
  };
  for_each_product(rows, add);
  // The first again and again, as copies.
  const std::int64_t enough = kCachesRead * runtime_->facts().l2_bytes;
  for_each_product(rows, [&](const LinearOp& op, std::size_t index, const Around& around) {
    const ProductKey key = key_of(op, rows, around);
    const auto at = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.key == key; });
    std::int64_t& so_far = read[static_cast<std::size_t>(at - all.begin())];
    const std::int64_t bytes = weights_.bytes(op.weight);
    for (std::int64_t first = 0;
         first + bytes <= copies.bytes() && so_far < enough && at->launches.size() < most;
         first += bytes, so_far += bytes) {
      Product product = product_of(op, weights_.constants(index), rows, around);
      move_matrix(matrix_of(product), copies.get().address + first);
      at->launches.push_back([this, which = &op, product](const LaunchChoice& choice) {
        launch_product(*which, product, choice);
      });
    }
  });
  std::erase_if(all, [](const TunedProduct& one) { return one.candidates.size() < 2; });
  return all;
}

void CudaProgram::for_each_product(
    std::int64_t rows,
    const std::function<void(const LinearOp&, std::size_t index, const Around&)>& visit) const {
  for (std::size_t i = 0; i < plan_.ops.size(); ++i)
    if (const auto* op = std::get_if<LinearOp>(&plan_.ops[i].kind)) visit(*op, i, around(*op, i, rows));
  if (rows <= kHeadRows) visit(plan_.head.product, plan_.ops.size(), around_head(rows));
}

void CudaProgram::tune() {
  if (options_.tune == Tune::off) return;
  std::vector<ProductKey> wanted;
  for (const std::int64_t rows : kRowsByImportance)
    for (const TunedProduct& product : products_to_tune(rows, {})) wanted.push_back(product.key);
  find_launches(
      options_.tune, runtime_->facts(), wanted,
      [&](std::span<const ProductKey> missing) { return measured(missing); }, *launches_);
}

// Where memory is short, matrices that fit into a cache come from there, as they would in a step.
LaunchChoices CudaProgram::measured(std::span<const ProductKey> missing) {
  const std::unique_ptr<LaunchTimer> own = options_.timer == nullptr ? make_graph_timer(runtime_) : nullptr;
  LaunchTimer* const timer = own != nullptr ? own.get() : options_.timer;
  const double begin = timer->now().value;
  const std::int64_t room = std::min(kCachesRead * runtime_->facts().l2_bytes,
                                     runtime_->memory_info().free.value / 4 / kAlignment * kAlignment);
  LaunchChoices found;
  {
    const OwnedMemory copies(runtime_, room);
    runtime_->fill(copies.get(), kAnyByte, room);
    runtime_->fill(work_.at<std::byte>(0), kAnyByte, work_.layout().bytes);
    std::vector<TunedProduct> products;
    for (const std::int64_t rows : kRowsByImportance)
      for (TunedProduct& product : products_to_tune(rows, copies))
        if (std::find(missing.begin(), missing.end(), product.key) != missing.end())
          products.push_back(std::move(product));
    found = measure_launches(products, *timer, {kLaunchTuningTime.value - (timer->now().value - begin)});
    runtime_->synchronize();
  }
  put_constants();
  put_pages_.clear();
  runtime_->reset_peak();
  return found;
}

}  // namespace assay::cuda
