// usage: gpu_lab [--emulated] [SECONDS]
// Multiplications of few tokens by the product's own kernels, by every choice that changes no bit: a line
// each with the bytes of the matrix, the time of one within a graph of many, one after another, and
// its share of the bandwidth that was measured first. The matrices of a graph are twice the L2 cache. On the
// first GPU, for at most so many seconds [45]; --emulated: two small shapes on the tests' emulation, where
// times mean nothing.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "assay/backend/cuda/kernels/launch_choices.h"
#include "assay/backend/cuda/memory/device_memory.h"
#include "assay/backend/cuda/probes.h"
#include "assay/backend/cuda/run/launch_tuning.h"
#include "assay/backend/devices.h"
#include "assay/base/error.h"
#include "assay/base/format.h"
#include "cuda_emulation/emulated_runtime.h"

namespace {

using namespace assay;
using namespace assay::cuda;

struct LabShape {
  std::int64_t outputs, inputs;
};
constexpr LabShape kShapesOfModels[] = {
    {768, 768},    {2304, 768},  {3072, 768},   {768, 3072},  {50257, 768}, {2048, 2048},  {2560, 2048},
    {11264, 2048}, {2048, 5632}, {32000, 2048}, {6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}};
constexpr LabShape kSmallShapes[] = {{64, 64}, {48, 128}};
struct LabFormat {
  std::string_view name;
  MatrixFormat format;
  std::int64_t group;
};
constexpr LabFormat kFormats[] = {{"bfloat16", MatrixFormat::bfloat16, 0},
                                  {"int8", MatrixFormat::int8, 0},
                                  {"nf4", MatrixFormat::four_bit, 64}};
constexpr std::uint8_t kAnyByte = 0x3c;
constexpr std::int64_t kMoreBytes = std::int64_t{1} << 20;  // for scales

class Lab {
 public:
  Lab(std::shared_ptr<Runtime> runtime, std::int64_t widest, std::int64_t longest, std::int64_t largest,
      Seconds at_most)
      : runtime_(std::move(runtime)),
        timer_(make_graph_timer(runtime_)),
        end_(timer_->now().value + at_most.value),
        weights_(runtime_, 2 * std::max(runtime_->facts().l2_bytes, largest)),
        rows_(runtime_, kFewRows * std::max(widest, longest) * 4),
        out_(runtime_, kFewRows * widest * 4),
        codes_(runtime_, kFewRows * (round_up(longest, 64) + 64)),
        scratch_(runtime_, kFewRows * round_up(longest, 64) * 4) {
    for (const OwnedMemory* memory : {&weights_, &rows_, &out_, &codes_, &scratch_})
      runtime_->fill(memory->get(), kAnyByte, memory->bytes());
    bandwidth_ = Probes(runtime_).bytes_per_second({std::int64_t{1} << 30}, {0.02});
    fmt::print("{}: reads {:.0f} GB/s\n", runtime_->facts().name, bandwidth_ / 1e9);
  }

  // False when the time is over.
  bool run(const LabFormat& format, const LabShape& shape, std::int64_t rows) {
    const std::int64_t bytes = matrix_bytes(format.format, shape.outputs, shape.inputs),
                       scales = format.format == MatrixFormat::four_bit
                                    ? scale_count(shape.outputs, shape.inputs, format.group) * 4
                                    : round_up(shape.outputs, kStrip) * 4,
                       step = round_up(bytes + scales, kAlignment);
    TunedProduct product;
    product.key = {.format = format.format, .outputs = shape.outputs, .inputs = shape.inputs, .rows = rows};
    const auto count = std::clamp<std::int64_t>(2 * runtime_->facts().l2_bytes / step, 2, 64);
    for (std::int64_t i = 0; i < count && (i + 1) * step <= weights_.bytes(); ++i) {
      const Matrix weight{.data = weights_.at<const std::byte>(i * step),
                          .scales = weights_.at<const float>(i * step + bytes),
                          .outputs = shape.outputs,
                          .inputs = shape.inputs,
                          .group = format.group,
                          .format = format.format};
      if (format.format == MatrixFormat::int8)
        add(product, int8_args(weight, rows));
      else
        add(product, float_args(weight, rows));
    }
    for (const LaunchChoice& choice : product.candidates) {
      std::vector<double> times;
      for (int i = 0; i < 7; ++i) {
        if (timer_->now().value > end_) return false;
        times.push_back(timer_->time_of(product, choice).value /
                        static_cast<double>(product.launches.size()));
      }
      std::nth_element(times.begin(), times.begin() + 3, times.end());
      fmt::print("{} {} x {}, {} tokens: {} bytes, {:.2f} us, {:.0f} % of the bandwidth, {}\n", format.name,
                 shape.outputs, shape.inputs, rows, bytes + scales, times[3] * 1e6,
                 100 * static_cast<double>(bytes + scales) / times[3] / bandwidth_, text_of(choice));
    }
    return true;
  }

 private:
  template <typename Args>
  void add(TunedProduct& product, const Args& args) {
    if (product.candidates.empty()) product.candidates = candidates_of(*runtime_, args);
    product.launches.push_back(
        [this, args](const LaunchChoice& choice) { cuda::run(*runtime_, args, choice); });
  }
  LinearArgs float_args(const Matrix& weight, std::int64_t rows) const {
    return {.x = rows_.at<const float>(0),
            .x_stride = weight.inputs,
            .rows = rows,
            .weight = weight,
            .arithmetic = Arithmetic::bfloat16,
            .to = {.out = out_.at<float>(0), .out_stride = weight.outputs},
            .scratch = {scratch_.get(), scratch_.bytes()},
            .ordered = rows_in_order()};
  }
  DevicePointer<const std::byte> rows_in_order() const { return scratch_.at<const std::byte>(0); }
  QuantizedLinearArgs int8_args(const Matrix& weight, std::int64_t rows) const {
    const std::int64_t stride = codes_stride(weight.inputs);
    QuantizedLinearArgs args;
    args.quantize = {.kind = QuantizeArgs::Kind::symmetric,
                     .x = rows_.at<const float>(0),
                     .x_stride = weight.inputs,
                     .rows = rows,
                     .inputs = weight.inputs,
                     .codes = codes_.at<std::int8_t>(0),
                     .codes_stride = stride,
                     .absmax = scratch_.at<float>(0)};
    args.linear = {.codes = args.quantize.codes,
                   .codes_stride = stride,
                   .rows = rows,
                   .absmax = args.quantize.absmax,
                   .weight = weight,
                   .to = {.out = out_.at<float>(0), .out_stride = weight.outputs}};
    return args;
  }

  std::shared_ptr<Runtime> runtime_;
  std::unique_ptr<LaunchTimer> timer_;
  double end_;
  OwnedMemory weights_, rows_, out_, codes_, scratch_;
  double bandwidth_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const bool is_emulated = argc > 1 && std::string_view(argv[1]) == "--emulated";
  const double seconds = argc > 1 && !is_emulated ? std::atof(argv[1]) : 45;
  try {
    EmulatedDevice device;
    device.facts.processors = 2;
    device.facts.l2_bytes = 16 << 10;
    if (const auto why = why_no_gpu(); why && !is_emulated) throw Error("{}", *why);
    if (!is_emulated) setenv("ASSAY_TEST_CUDA", "1", 1);
    const std::span<const LabShape> shapes =
        is_emulated ? std::span<const LabShape>(kSmallShapes) : kShapesOfModels;
    std::int64_t widest = 0, longest = 0, largest = 0;
    for (const LabShape& shape : shapes) {
      widest = std::max(widest, shape.outputs);
      longest = std::max(longest, shape.inputs);
      largest =
          std::max(largest, matrix_bytes(MatrixFormat::bfloat16, shape.outputs, shape.inputs) + kMoreBytes);
    }
    Lab lab(make_test_runtime(device), widest, longest, largest, {seconds});
    for (const std::int64_t rows : {1, 8, 64})
      for (const LabFormat& format : kFormats)
        for (const LabShape& shape : shapes)
          if (!lab.run(format, shape, rows)) return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
