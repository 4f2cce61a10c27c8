// What launches may choose: every candidate launches something else, and all compute the same bits.
#include "assay/backend/cuda/kernels/launch_choices.h"

#include <gtest/gtest.h>

#include <set>

#include "assay/quant/int4.h"
#include "support/cuda_kernels.h"
#include "support/cuda_ordered.h"
#include "support/watched_runtime.h"

namespace assay::cuda {
namespace {

using namespace testing_support;

struct Gpu {
  const char* name;
  int major, minor, processors;
  std::int64_t shared_bytes;
};
// Few processors, so that small matrices have many strips for each; the shared memory of A100, L4 and H100.
constexpr Gpu kGpus[] = {
    {"sm_80", 8, 0, 1, 163 << 10}, {"sm_89", 8, 9, 2, 99 << 10}, {"sm_90", 9, 0, 3, 227 << 10}};

EmulatedDevice device_of(const Gpu& gpu) {
  EmulatedDevice device;
  device.facts.major = gpu.major;
  device.facts.minor = gpu.minor;
  device.facts.processors = gpu.processors;
  device.facts.shared_bytes_per_block = gpu.shared_bytes;
  return device;
}

// A multiplication with everything that its epilogue may leave, on a device of its own.
class Multiplication {
 public:
  Multiplication(const Gpu& gpu, const TestMatrix& matrix, const Floats& x, std::int64_t rows, bool is_normed,
                 std::int64_t gated)
      : runtime_(device_of(gpu)),
        memory_(runtime_),
        rows_(rows),
        columns_(gated > 0 ? gated : matrix.outputs) {
    Random random;
    const std::int64_t inputs = matrix.inputs, parts = strips_of(inputs);
    before_ = random.floats(rows * columns_);
    const std::int64_t scratch =
        round_up(rows * rounded_inputs_stride(inputs, Arithmetic::tf32), 256) + 8 * 4 * rows * matrix.outputs;
    args_ = {.x = memory_.put(x),
             .x_stride = inputs,
             .rows = rows,
             .weight = put_matrix(memory_, matrix),
             .to = {.bias = memory_.put(random.floats(matrix.outputs)),
                    .activation = Activation::silu,
                    .adds = gated == 0,
                    .gated = gated},
             .scratch = {memory_.of<std::byte>(at_of(scratch)), scratch}};
    if (!is_normed) return;
    args_.made = {.kind = FusedPrologue::Kind::norm,
                  .gain = memory_.put(random.floats(inputs, 0.5F, 2)),
                  .epsilon = 1e-5F,
                  .moments = {memory_.put(random.floats(rows * parts * 2, 0.5F, 2)), parts * 2}};
  }
  LinearArgs& args() { return args_; }
  std::vector<LaunchChoice> candidates() { return candidates_of(runtime_, args_); }
  Floats run(const LaunchChoice& choice) {
    args_.to.out = memory_.put(before_);
    args_.to.out_stride = columns_;
    runtime_.take_launches();
    cuda::run(runtime_, args_, choice);
    return memory_.get(args_.to.out, at_of(rows_ * columns_));
  }
  WatchedRuntime& runtime() { return runtime_; }

 private:
  WatchedRuntime runtime_;
  DeviceMemory memory_;
  std::int64_t rows_, columns_;
  Floats before_;
  LinearArgs args_;
};

void expect_alike(Multiplication& product, std::size_t least) {
  const std::vector<LaunchChoice> candidates = product.candidates();
  EXPECT_EQ(candidates.front(), LaunchChoice());
  EXPECT_GE(candidates.size(), least);
  std::set<std::vector<std::string>> launched;
  Floats wanted;
  for (const LaunchChoice& choice : candidates) {
    SCOPED_TRACE(text_of(choice));
    const Floats got = product.run(choice);
    const std::vector<std::string> launches = product.runtime().take_launches();
    EXPECT_TRUE(launched.insert(launches).second) << "launches what another one does: " << launches.back();
    if (wanted.empty()) wanted = got;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      ASSERT_TRUE(is_same(got[i], wanted[i])) << i << ": " << got[i] << " for " << wanted[i];
  }
}

struct ChoiceCase {
  Way way;
  std::int64_t rows;
  bool is_normed = false;
  std::int64_t gated = 0;
  std::size_t least = 2;  // candidates
};

TEST(CudaLaunchChoices, ComputeTheSameBitsForFewRows) {
  constexpr Way kHalves{MatrixFormat::bfloat16, Arithmetic::bfloat16},
      kFloat16{MatrixFormat::float16, Arithmetic::float16},
      kCodes{MatrixFormat::four_bit, Arithmetic::bfloat16, 64},
      kNarrowCodes{MatrixFormat::four_bit, Arithmetic::float16, 32};
  Random random;
  for (const Gpu& gpu : kGpus)
    for (const ChoiceCase& c : {ChoiceCase{kHalves, 1, true, 0, 4},
                                {kHalves, 2, true, 48, 4},
                                {kFloat16, 8},
                                {kFloat16, 3, false, 48},
                                {kHalves, 20, false, 0, 1},
                                {kCodes, 1, true, 0, 4},
                                {kCodes, 2, true, 64, 4},
                                {kNarrowCodes, 9},
                                {kNarrowCodes, 33, false, 0, 1}}) {
      SCOPED_TRACE(std::string(gpu.name) + ", " + text_of(c.way) + ", " + std::to_string(c.rows) + " rows");
      const TestMatrix m =
          make_matrix(c.way.format, c.gated > 0 ? 2 * c.gated : 140, 203, random, c.way.group);
      Multiplication product(gpu, m, random.floats(c.rows * m.inputs), c.rows, c.is_normed, c.gated);
      product.args().arithmetic = c.way.arithmetic;
      expect_alike(product, c.least);
    }
}

// More strips than warps, rows of several turns and of fewer tiles than there are ranges: strips of eight
// warps and of one.
TEST(CudaLaunchChoices, GiveEachWarpStripsOfItsOwn) {
  Random random;
  for (const std::int64_t group : {std::int64_t{32}, std::int64_t{64}})
    for (const std::int64_t inputs : {48, 770, 1600})
      for (const std::int64_t rows : {1, 2}) {
        SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(inputs) + ", group " +
                     std::to_string(group));
        const TestMatrix m = make_matrix(MatrixFormat::four_bit, 645, inputs, random, group);
        Multiplication product(kGpus[0], m, random.floats(rows * inputs), rows, true, 0);
        product.args().arithmetic = inputs == 770 ? Arithmetic::float16 : Arithmetic::bfloat16;
        const Floats wanted = product.run({.sums = 0}), got = product.run({});
        EXPECT_NE(product.runtime().take_launches().back().find("strips of warps"), std::string::npos);
        for (std::size_t i = 0; i < wanted.size(); ++i)
          ASSERT_TRUE(is_same(got[i], wanted[i])) << i << ": " << got[i] << " for " << wanted[i];
      }
}

// Rows of which a block keeps all, of whole units of 32 inputs and of parts, more strips than blocks.
TEST(CudaLaunchChoices, KeepRowsForStripAfterStrip) {
  Random random;
  for (const Way& way :
       {Way{MatrixFormat::bfloat16, Arithmetic::bfloat16}, {MatrixFormat::float16, Arithmetic::float16}})
    for (const std::int64_t inputs : {20, 208, 690})
      for (const std::int64_t rows : {17, 32, 33, 64}) {
        SCOPED_TRACE(text_of(way) + ", " + std::to_string(rows) + " rows of " + std::to_string(inputs));
        const TestMatrix m = make_matrix(way.format, 140, inputs, random);
        Multiplication product(kGpus[2], m, random.floats(rows * inputs), rows, false, 0);
        product.args().arithmetic = way.arithmetic;
        const Floats wanted = product.run({.strips = 0}), got = product.run({.strips = 1});
        EXPECT_NE(product.runtime().take_launches().back().find("staged"), std::string::npos);
        for (std::size_t i = 0; i < wanted.size(); ++i)
          ASSERT_TRUE(is_same(got[i], wanted[i])) << i << ": " << got[i] << " for " << wanted[i];
        EXPECT_EQ(product.candidates().size(), 2U);
      }
  // By the rule where there are eight strips for each of three processors.
  for (const std::int64_t strips : {23, 24}) {
    const TestMatrix m = make_matrix(MatrixFormat::bfloat16, 16 * strips, 32, random);
    Multiplication product(kGpus[2], m, random.floats(20 * 32), 20, false, 0);
    product.args().arithmetic = Arithmetic::bfloat16;
    product.run({});
    const std::string launched = product.runtime().take_launches().back();
    EXPECT_EQ(launched.find("staged") != std::string::npos, strips == 24) << launched;
  }
}

// Warps take so many tiles in several turns, with and without a part of one; the bits are those of the
// kernels of many rows.
TEST(CudaLaunchChoices, ComputeTheBitsOfManyRowsForLongRowsOfCodes) {
  struct LongCase {
    std::int64_t rows, inputs, group;
    bool are_integers;
    std::size_t least;
  };
  Random random;
  for (const LongCase& c : {LongCase{1, 5640, 64, true, 4},
                            {1, 2048, 128, false, 3},
                            {3, 4096, 32, true, 4},
                            {8, 2500, 64, false, 3},
                            {9, 2500, 32, true, 1},
                            {20, 1100, 64, false, 1}}) {
    SCOPED_TRACE(std::to_string(c.rows) + " rows of " + std::to_string(c.inputs) + ", group " +
                 std::to_string(c.group));
    const TestMatrix m = make_matrix(MatrixFormat::four_bit, 90, c.inputs, random, c.group,
                                     c.are_integers ? int4_codebook() : codebook_of(FourBit::nf4));
    Multiplication product(kGpus[0], m, random.floats(c.rows * m.inputs), c.rows, false, 0);
    product.args().arithmetic = c.rows % 2 == 0 ? Arithmetic::float16 : Arithmetic::bfloat16;
    product.args().few_rows = 0;
    const Floats wanted = product.run({});
    EXPECT_NE(product.runtime().take_launches().back().find("gemm_four"), std::string::npos);
    product.args().few_rows = kFewRows;
    expect_alike(product, c.least);
    const Floats got = product.run({});
    for (std::size_t i = 0; i < wanted.size(); ++i)
      ASSERT_TRUE(is_same(got[i], wanted[i])) << i << ": " << got[i] << " for " << wanted[i];
  }
}

TEST(CudaLaunchChoices, TakeCodesAsIntegersWhereTheyAre) {
  Random random;
  for (const bool are_integers : {false, true})
    for (const Gpu& gpu : {kGpus[0], Gpu{"sm_75", 7, 5, 1, 64 << 10}}) {
      SCOPED_TRACE(std::string(gpu.name) + (are_integers ? ", int4" : ", fp4"));
      const TestMatrix m = make_matrix(MatrixFormat::four_bit, 90, 300, random, 64,
                                       are_integers ? int4_codebook() : codebook_of(FourBit::fp4));
      Multiplication product(gpu, m, random.floats(m.inputs), 1, true, 0);
      product.args().arithmetic = Arithmetic::float16;
      const auto launched = [&](const LaunchChoice& choice) {
        product.run(choice);
        const std::string name = product.runtime().take_launches().back();
        return name.substr(0, name.find('['));
      };
      EXPECT_EQ(launched({.codes = 2}), are_integers ? "integer_codes" : launched({}));
      EXPECT_EQ(launched({.codes = 1}), gpu.shared_bytes > (64 << 10) ? "spaced_codes" : launched({}));
      expect_alike(product, 4);
    }
}

TEST(CudaLaunchChoices, ComputeTheSameBitsForManyRows) {
  Random random;
  for (const int processors : {2, 132})
    for (const Way& way : {Way{MatrixFormat::float32, Arithmetic::tf32},
                           {MatrixFormat::bfloat16, Arithmetic::bfloat16},
                           {MatrixFormat::four_bit, Arithmetic::float16, 64}}) {
      SCOPED_TRACE(text_of(way) + ", " + std::to_string(processors));
      const TestMatrix m = make_matrix(way.format, 150, 203, random, way.group);
      Multiplication product({"", 9, 0, processors, 227 << 10}, m, random.floats(140 * m.inputs), 140, false,
                             0);
      product.args().arithmetic = way.arithmetic;
      expect_alike(product, processors > 2 ? 4 : 2);
    }
}

TEST(CudaLaunchChoices, ComputeTheSameBitsByWarpgroups) {
  Random random;
  for (const Way& way : {Way{MatrixFormat::bfloat16, Arithmetic::bfloat16},
                         {MatrixFormat::four_bit, Arithmetic::float16, 64}}) {
    SCOPED_TRACE(text_of(way));
    const TestMatrix m = make_matrix(way.format, 150, 203, random, way.group);
    Multiplication product(kGpus[2], m, random.floats(140 * m.inputs), 140, false, 0);
    product.args().arithmetic = way.arithmetic;
    product.args().many_rows = ManyRows::warpgroups;
    expect_alike(product, kWarpgroupShapes);
  }
}

class QuantizedMultiplication : public testing::Test {
 protected:
  // The candidates of a multiplication of normed rows, all of them run.
  void expect_alike(std::int64_t rows, std::int64_t outputs, ManyRows many_rows, std::size_t wanted) {
    Random random;
    WatchedRuntime runtime(device_of(kGpus[2]));
    DeviceMemory memory(runtime);
    constexpr std::int64_t kInputs = 208, kStride = 256;
    const TestMatrix m = make_matrix(MatrixFormat::int8, outputs, kInputs, random);
    const auto codes = memory.of<std::int8_t>(at_of(rows * kStride));
    const auto absmax = memory.of<float>(at_of(rows));
    const auto zeros = memory.of<std::int32_t>(at_of(rows));
    const std::int64_t scratch = 8 * 4 * rows * outputs, parts = strips_of(kInputs);
    QuantizedLinearArgs args{
        .quantize = {.kind = QuantizeArgs::Kind::row_ranges,
                     .x = memory.put(random.floats(rows * kInputs)),
                     .x_stride = kInputs,
                     .rows = rows,
                     .inputs = kInputs,
                     .codes = codes,
                     .codes_stride = kStride,
                     .absmax = absmax,
                     .zero_points = zeros},
        .linear = {.codes = codes,
                   .codes_stride = kStride,
                   .rows = rows,
                   .absmax = absmax,
                   .zero_points = zeros,
                   .sums = memory.put(std::vector<std::int32_t>(at_of(outputs), 7)),
                   .weight = put_matrix(memory, m),
                   .to = {.out = memory.of<float>(at_of(rows * outputs)), .out_stride = outputs},
                   .scratch = {memory.of<std::byte>(at_of(scratch)), scratch},
                   .many_rows = many_rows}};
    if (rows <= 2)
      args.quantize.made = {.kind = FusedPrologue::Kind::norm,
                            .gain = memory.put(random.floats(kInputs)),
                            .epsilon = 1e-5F,
                            .moments = {memory.put(random.floats(rows * parts * 2, 0.5F, 2)), parts * 2}};
    const std::vector<LaunchChoice> candidates = candidates_of(runtime, args);
    EXPECT_EQ(candidates.size(), wanted);
    std::set<std::vector<std::string>> launched;
    Floats first;
    for (const LaunchChoice& choice : candidates) {
      SCOPED_TRACE(text_of(choice));
      runtime.take_launches();
      run(runtime, args, choice);
      EXPECT_TRUE(launched.insert(runtime.take_launches()).second);
      const Floats got = memory.get(args.linear.to.out, at_of(rows * outputs));
      if (first.empty()) first = got;
      for (std::size_t i = 0; i < first.size(); ++i) ASSERT_TRUE(is_same(got[i], first[i])) << i;
    }
  }
};

TEST_F(QuantizedMultiplication, ComputesTheSameBitsAsItMayChoose) {
  expect_alike(1, 150, ManyRows::ranges, 5);
  expect_alike(8, 150, ManyRows::ranges, 2);
  expect_alike(9, 150, ManyRows::ranges, 1);
  expect_alike(140, 150, ManyRows::warpgroups, kWarpgroupShapes);
  expect_alike(140, 40, ManyRows::ranges, 4);
}

TEST(CudaLaunchChoices, GoByBucketsOfRows) {
  EXPECT_EQ(bucket_of(1), 1);
  EXPECT_EQ(bucket_of(3), 8);
  EXPECT_EQ(bucket_of(65), 127);
  EXPECT_EQ(bucket_of(128), 256);
  EXPECT_EQ(bucket_of(512), 512);
  EXPECT_EQ(bucket_of(600), 512);
}

TEST(CudaLaunchChoices, AreNamedAndReadByTheirNames) {
  EXPECT_EQ(text_of(LaunchChoice()), "as usual");
  const LaunchChoice choice{.loads = 1, .inputs = 0, .codes = 2, .warpgroups = 3, .kernel = 2};
  EXPECT_EQ(
      text_of(choice),
      "weights near ahead, inputs made in front, codes as integers, warpgroup blocks 64x64, kernel cublaslt");
  LaunchChoice read;
  for (const auto& [name, value] : names_of(choice)) EXPECT_TRUE(set_by_name(read, name, value)) << name;
  EXPECT_EQ(read, choice);
  EXPECT_FALSE(set_by_name(read, "loads", "further"));
  EXPECT_FALSE(set_by_name(read, "loads", ""));
  EXPECT_FALSE(set_by_name(read, "load", "near ahead"));
  ProductKey key{.format = MatrixFormat::four_bit,
                 .arithmetic = Arithmetic::bfloat16,
                 .outputs = 10,
                 .inputs = 20,
                 .group = 64,
                 .rows = 1};
  EXPECT_EQ(text_of(key), "4-bit 10 x 20, 1 row, in bfloat16, group 64");
  key.is_normed = key.is_gated = key.chooses_kernel = true;
  EXPECT_EQ(text_of(key), "4-bit 10 x 20, 1 row, in bfloat16, group 64, normed, gated, any kernel");
}

TEST(CudaLaunchChoices, TellWhatIsNotAsUsual) {
  LaunchChoices choices;
  EXPECT_EQ(choices.text(), "");
  const ProductKey key{.format = MatrixFormat::int8, .outputs = 3, .inputs = 4};
  ProductKey other = key;
  other.rows = 8;
  choices.put(key, {.is_measured = false});
  EXPECT_EQ(choices.text(), "");
  choices.put(key, {});
  EXPECT_EQ(choices.text(), "1 launch measured, all as usual");
  choices.put(other, {.choice = {.inputs = 0}, .gain = 1.25});
  EXPECT_EQ(choices.text(),
            "2 launches measured, 1 not as usual: int8 3 x 4, 8 rows: inputs made in front, 1.25x");
  EXPECT_EQ(choices.of(other), (LaunchChoice{.inputs = 0}));
  EXPECT_EQ(choices.of(key), LaunchChoice());
  other.rows = 16;
  EXPECT_EQ(choices.of(other), LaunchChoice()) << "nothing is known";
}

}  // namespace
}  // namespace assay::cuda
