#include "cuda_emulation/warpgroups.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace assay::cuda::emulation {

namespace {

constexpr int kThreads = 128, kOutputs = 64;

// Sums of a thread whose products are in flight: what they will be.
struct Sums {
  void* d = nullptr;
  std::vector<std::uint32_t> bits;
  std::int64_t group = 0;  // the last that adds to them
};
struct Weights {
  const std::uint32_t* registers = nullptr;
  std::array<std::uint32_t, 4> held{};
  std::int64_t group = 0;
};
struct Read {
  std::int64_t cell = 0, group = 0;  // four cells
};
struct State {
  std::int64_t committed = 0;  // groups
  bool is_fenced = false;
  std::array<std::vector<Sums>, kThreads> sums;
  std::array<std::vector<Weights>, kThreads> weights;
  std::vector<Read> reads;
};
std::array<State, 8> states;
bool are_used = false;  // since forget_products()

State& mine() {
  return states[here.thread / kThreads];
}
std::uint32_t first_thread() {
  return here.thread / kThreads * kThreads;
}

struct Operands {
  ProductType type;
  void* d;
  int sums;
  const std::uint32_t* a;
  std::uint64_t b;
};

// The byte of shared memory where 16 bytes of a row begin (PTX ISA, "Matrix Descriptor Format", K-major).
std::int64_t byte_of_row(std::uint64_t b, std::int64_t row, std::int64_t chunk) {
  const auto part = [&](int bit) { return static_cast<std::int64_t>(b >> bit & 0x3fffU) << 4; };
  const std::int64_t address = part(0) + row / 8 * part(32) + row % 8 * 128 + chunk * 16;
  return (address ^ (address >> 7 & 7) << 4) - kSharedAddress;
}
void check_descriptor(std::uint64_t b) {
  if (b >> 62 != 1 || (b >> 49 & 7) != 0)
    fail("a product's descriptor has swizzle " + std::to_string(b >> 62) + " and base offset " +
         std::to_string(b >> 49 & 7) + "; 1 and 0 were expected");
  if ((b & 0x3fffU) % 64 >= 8)
    fail("a product's rows do not begin in the first row of the swizzle's pattern");
}

double value_of(ProductType type, const void* bytes, int k) {
  if (type == ProductType::int8) return static_cast<const std::int8_t*>(bytes)[k];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(bytes)[k];
  return static_cast<double>(type == ProductType::float16 ? f16_to_float(bits) : bf16_to_float(bits));
}

// Element k of an output's weights; word i of a lane is register i, of outputs g and g + 8 in turn.
double weight_at(void* const* all, ProductType type, int output, int k) {
  const int width = type == ProductType::int8 ? 4 : 2, t = k / width % 4,
            word = output % 16 / 8 + 2 * (k / (4 * width)), thread = output / 16 * 32 + output % 8 * 4 + t;
  return value_of(type, &static_cast<const Operands*>(all[thread])->a[word], k % width);
}

std::uint32_t added(ProductType type, std::uint32_t bits, double sum) {
  if (type == ProductType::int8)
    return static_cast<std::uint32_t>(static_cast<std::int64_t>(static_cast<std::int32_t>(bits)) +
                                      static_cast<std::int64_t>(sum));
  return std::bit_cast<std::uint32_t>(
      static_cast<float>(static_cast<double>(std::bit_cast<float>(bits)) + sum));
}

void check_unfinished(const Sums& sums) {
  for (std::size_t i = 0; i < sums.bits.size(); ++i)
    if (static_cast<const std::uint32_t*>(sums.d)[i] != kUnfinished)
      fail("sums of a product are written before it is waited for");
}

// The sums as they will be, begun by what the registers hold.
std::vector<std::uint32_t>& unfinished(State& state, int thread, const Operands& one) {
  for (Sums& sums : state.sums[static_cast<std::size_t>(thread)])
    if (sums.d == one.d) {
      check_unfinished(sums);
      sums.group = state.committed;
      return sums.bits;
    }
  auto* const registers = static_cast<std::uint32_t*>(one.d);
  Sums begun{one.d, {registers, registers + one.sums}, state.committed};
  std::fill_n(registers, one.sums, kUnfinished);
  return state.sums[static_cast<std::size_t>(thread)].emplace_back(std::move(begun)).bits;
}

void multiply_all(void* const* all) {
  const auto& first = *static_cast<const Operands*>(all[0]);
  State& state = mine();
  are_used = true;
  if (!state.is_fenced) fail("a product without wgmma_fence() in front of its group");
  check_descriptor(first.b);
  const int rows = 2 * first.sums, inputs = first.type == ProductType::int8 ? 32 : 16;
  std::vector<double> b, a;
  for (int row = 0; row < rows; ++row)
    for (int chunk = 0; chunk < 2; ++chunk) {
      const std::int64_t byte = byte_of_row(first.b, row, chunk);
      check_shared(byte, 16, 16);
      begin_product_read(byte / 4, 4);
      state.reads.push_back({byte / 4, state.committed});
      for (int k = 0; k < inputs / 2; ++k) b.push_back(value_of(first.type, shared_memory + byte, k));
    }
  for (int output = 0; output < kOutputs; ++output)
    for (int k = 0; k < inputs; ++k) a.push_back(weight_at(all, first.type, output, k));
  for (int thread = 0; thread < kThreads; ++thread) {
    const auto& one = *static_cast<const Operands*>(all[thread]);
    if (one.b != first.b || one.type != first.type || one.sums != first.sums)
      fail("threads of a warpgroup come to different products");
    Weights held{one.a, {}, state.committed};
    std::copy_n(one.a, 4, held.held.begin());
    state.weights[static_cast<std::size_t>(thread)].push_back(held);
    std::vector<std::uint32_t>& bits = unfinished(state, thread, one);
    for (int i = 0; i < one.sums; ++i) {
      const int output = thread / 32 * 16 + thread % 32 / 4 + 8 * (i / 2 % 2),
                row = 8 * (i / 4) + 2 * (thread % 4) + i % 2;
      double sum = 0;
      for (int k = 0; k < inputs; ++k)
        sum +=
            a[static_cast<std::size_t>(output * inputs + k)] * b[static_cast<std::size_t>(row * inputs + k)];
      bits[static_cast<std::size_t>(i)] = added(one.type, bits[static_cast<std::size_t>(i)], sum);
    }
    products_in_flight[first_thread() + static_cast<std::uint32_t>(thread)] = 1;
  }
}

void finish(State& state, int thread, std::int64_t done) {
  auto& all = state.weights[static_cast<std::size_t>(thread)];
  for (const Weights& one : all)
    if (one.group < done && !std::equal(one.held.begin(), one.held.end(), one.registers))
      fail("registers of weights change before their product is waited for");
  std::erase_if(all, [&](const Weights& one) { return one.group < done; });
  auto& sums = state.sums[static_cast<std::size_t>(thread)];
  for (const Sums& one : sums) {
    check_unfinished(one);
    if (one.group < done) std::copy(one.bits.begin(), one.bits.end(), static_cast<std::uint32_t*>(one.d));
  }
  std::erase_if(sums, [&](const Sums& one) { return one.group < done; });
  products_in_flight[first_thread() + static_cast<std::uint32_t>(thread)] = sums.empty() ? 0 : 1;
}

}  // namespace

void forget_products() {
  if (!std::exchange(are_used, false)) return;
  for (State& state : states) state = {};
  std::fill(std::begin(products_in_flight), std::end(products_in_flight), 0);
}

void multiply(ProductType type, void* d, int sums, const std::uint32_t* a, std::uint64_t b) {
  Operands operands{type, d, sums, a, b};
  warpgroup_operation("a product of a warpgroup", &operands, multiply_all);
}
void fence_products() {
  warpgroup_operation("wgmma_fence()", nullptr, [](void* const*) { mine().is_fenced = true; });
}
void commit_products() {
  warpgroup_operation("wgmma_commit()", nullptr, [](void* const*) {
    ++mine().committed;
    mine().is_fenced = false;
  });
}
void wait_for_products(int groups_left) {
  warpgroup_operation("wgmma_wait()", nullptr, [groups_left](void* const*) {
    State& state = mine();
    const std::int64_t done = state.committed - groups_left;
    for (int thread = 0; thread < kThreads; ++thread) finish(state, thread, done);
    for (const Read& read : state.reads)
      if (read.group < done) end_product_read(read.cell, 4);
    std::erase_if(state.reads, [&](const Read& read) { return read.group < done; });
  });
}

void copy_zeros(std::int64_t to_byte) {
  static const std::array<std::byte, 16> zeros{};
  copy_async(to_byte, zeros.data(), {});
}

}  // namespace assay::cuda::emulation
