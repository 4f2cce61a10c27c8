#include "cuda_emulation/emulated_runtime.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#if defined(ASSAY_HAS_CUDA)
#include "assay/backend/cuda/cuda_runtime.h"
#endif
#include "assay/backend/cuda/run/gemm_library.h"
#include "assay/base/error.h"
#include "assay/tensor/half.h"
#include "cuda_emulation/emulated_kernels.h"
#include "cuda_emulation/emulation.h"

namespace assay::cuda {

namespace {

constexpr std::align_val_t kAlignment{256};
constexpr int kFresh = 0xCD;  // what new memory holds

class EmulatedGraph : public Graph {
 public:
  std::vector<std::function<void()>> steps;
};

float element_at(const std::byte* data, std::int64_t i, Arithmetic arithmetic) {
  const auto read = [&]<typename T>(T x) {
    std::memcpy(&x, data + i * static_cast<std::int64_t>(sizeof x), sizeof x);
    return x;
  };
  return arithmetic == Arithmetic::float16    ? f16_to_float(read(std::uint16_t{}))
         : arithmetic == Arithmetic::bfloat16 ? bf16_to_float(read(std::uint16_t{}))
                                              : read(0.0F);
}

// A product as the library of a GPU is asked for it; sums in float32, in the order of the inputs.
void multiply_on_host(const GemmProblem& p) {
  for (std::int64_t row = 0; row < p.rows; ++row)
    for (std::int64_t output = 0; output < p.outputs; ++output) {
      float& out = p.out.address[row * p.out_stride + output];
      float sum = p.adds ? out : 0.0F;
      for (std::int64_t k = 0; k < p.inputs; ++k)
        sum += element_at(p.x.address, row * p.x_stride + k, p.arithmetic) *
               element_at(p.w.address, output * p.w_stride + k, p.arithmetic);
      out = sum;
    }
}

class Emulated final : public EmulatedRuntime, private GemmLibrary {
 public:
  explicit Emulated(const EmulatedDevice& device)
      : facts_(device.facts),
        has_gemm_library_(device.has_gemm_library),
        overlaps_kernels_(device.overlaps_kernels) {}
  ~Emulated() override {
    for (const auto& [address, bytes] : allocations_) release(address);
  }

  const DeviceFacts& facts() const override { return facts_; }
  const Kernels& kernels() const override { return emulated_kernels(); }
  const StepKernels& step_kernels() const override { return emulated_step_kernels(); }
  std::int64_t launches() const override { return launches_; }
  std::int64_t live_bytes() const override { return live_; }
  std::int64_t allocations() const override { return static_cast<std::int64_t>(allocations_.size()); }
  std::int64_t replays() const override { return replays_; }
  std::int64_t products() const override { return products_; }
  std::int64_t downloaded() const override { return downloaded_; }
  void fail_next_launch() override { fails_next_ = true; }

  DevicePointer<std::byte> allocate(std::int64_t bytes) override {
    check_alive();
    if (is_capturing()) throw Error("memory cannot be allocated while a graph is recorded");
    if (bytes < 0 || bytes > facts_.memory_bytes - live_)
      throw Error("device memory: {} bytes were asked for and {} are free", bytes,
                  facts_.memory_bytes - live_);
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
    auto* memory = static_cast<std::byte*>(::operator new(size, kAlignment));
    std::memset(memory, kFresh, size);
    emulation::add_allocation(memory, size);
    allocations_[memory] = bytes;
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    return DevicePointer<std::byte>(memory);
  }
  void free(DevicePointer<std::byte> memory) override {
    if (!memory) return;
    const auto found = allocations_.find(memory.address);
    if (found == allocations_.end()) throw Error("device memory is freed that is not allocated");
    live_ -= found->second;
    allocations_.erase(found);
    release(memory.address);
  }
  MemoryInfo memory_info() override {
    check_alive();
    return {.free = {facts_.memory_bytes - live_},
            .total = {facts_.memory_bytes},
            .allocated = {live_},
            .peak = {peak_}};
  }
  void reset_peak() override { peak_ = live_; }

  void upload(DevicePointer<std::byte> to, std::span<const std::byte> from) override {
    if (is_capturing()) throw Error("an upload cannot be part of a graph");
    check_alive();
    check(to.address, static_cast<std::int64_t>(from.size()), "an upload");
    std::memcpy(to.address, from.data(), from.size());
  }
  void download(std::span<std::byte> to, DevicePointer<const std::byte> from) override {
    if (is_capturing()) throw Error("a download cannot be part of a graph");
    check_alive();
    check(from.address, static_cast<std::int64_t>(to.size()), "a download");
    std::memcpy(to.data(), from.address, to.size());
    downloaded_ += static_cast<std::int64_t>(to.size());
  }
  void copy(DevicePointer<std::byte> to, DevicePointer<const std::byte> from, std::int64_t bytes) override {
    check(to.address, bytes, "a copy");
    check(from.address, bytes, "a copy");
    add([=] { std::memmove(to.address, from.address, static_cast<std::size_t>(bytes)); });
  }
  void fill(DevicePointer<std::byte> to, std::uint8_t value, std::int64_t bytes) override {
    check(to.address, bytes, "a fill");
    add([=] { std::memset(to.address, value, static_cast<std::size_t>(bytes)); });
  }

  void launch_raw(const char* name, void* entry, Trampoline trampoline, const LaunchShape& shape,
                  const void* args, std::size_t args_bytes) override {
    if (entry == nullptr) throw Error("a kernel without an entry is launched");
    if (shape.shared_bytes > facts_.shared_bytes_per_block)
      throw Error("kernel {}: {} bytes of shared memory were asked for and a block has {}", name,
                  shape.shared_bytes, facts_.shared_bytes_per_block);
    const auto* bytes = static_cast<const std::byte*>(args);
    add([=, this, kept = std::vector<std::byte>(bytes, bytes + args_bytes)] {
      ++launches_;
      if (std::exchange(fails_next_, false)) {
        fault_ = fmt::format("kernel {}: made to fail", name);
        check_alive();
      }
      if (!overlaps_kernels_) {  // what is in front has written nothing
        ++emulation::launch_number;
        emulation::lets_next_start = false;
      }
      emulation::run_launch(
          name, shape, [&] { trampoline(entry, kept.data()); }, true);
    });
  }
  void synchronize() override { check_alive(); }

  std::uint64_t record() override {
    if (is_capturing()) throw Error("a time cannot be taken while a graph is recorded");
    check_alive();
    times_[next_time_ % times_.size()] = std::chrono::steady_clock::now();
    return next_time_++;
  }
  Seconds between(std::uint64_t begin, std::uint64_t end) override {
    return {
        std::chrono::duration<double>(times_[end % times_.size()] - times_[begin % times_.size()]).count()};
  }

  GemmLibrary& gemm_library() override {
    if (!has_gemm_library_) throw Error("cuda_gemm: the emulated device has no library; leave cublaslt out");
    return *this;
  }

  void begin_capture() override {
    if (is_capturing()) throw Error("a graph is recorded already");
    graph_ = std::make_unique<EmulatedGraph>();
  }
  std::unique_ptr<Graph> end_capture() override {
    if (!is_capturing()) throw Error("no graph is recorded");
    return std::move(graph_);
  }
  void replay(Graph& graph) override {
    if (is_capturing()) throw Error("a graph cannot be replayed while one is recorded");
    check_alive();
    ++replays_;
    for (const auto& step : static_cast<EmulatedGraph&>(graph).steps) step();
  }

 private:
  void multiply(const GemmProblem& p) override {
    const auto reaches = [](std::int64_t rows, std::int64_t stride, std::int64_t columns,
                            std::int64_t bytes) {
      return rows == 0 ? 0 : ((rows - 1) * stride + columns) * bytes;
    };
    const std::int64_t bytes = element_bytes(p.arithmetic);
    if (p.x_stride < p.inputs || p.w_stride < p.inputs || p.out_stride < p.outputs)
      throw Error("a product of the library has rows that overlap");
    check(p.x.address, reaches(p.rows, p.x_stride, p.inputs, bytes), "the inputs of a product");
    check(p.w.address, reaches(p.outputs, p.w_stride, p.inputs, bytes), "the matrix of a product");
    check(p.out.as<std::byte>().address, reaches(p.rows, p.out_stride, p.outputs, 4), "a product");
    check(p.workspace.data.address, library_workspace_bytes(facts_), "the workspace of a product");
    add([=, this] {
      ++products_;
      std::memset(p.workspace.data.address, kFresh, static_cast<std::size_t>(p.workspace.bytes));
      multiply_on_host(p);
    });
  }
  bool is_capturing() const { return graph_ != nullptr; }
  void add(std::function<void()> step) {
    check_alive();
    if (is_capturing())
      graph_->steps.push_back(std::move(step));
    else
      step();
  }
  void check_alive() const {
    if (!fault_.empty()) throw DeviceFault("{}", fault_);
  }
  static void release(std::byte* memory) {
    emulation::remove_allocation(memory);
    ::operator delete(memory, kAlignment);
  }
  static void check(const std::byte* address, std::int64_t bytes, const char* what) {
    const emulation::Allocation in = emulation::allocation_of(address);
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (bytes == 0) return;
    if (in.begin == 0 || bytes < 0 || at + static_cast<std::uintptr_t>(bytes) > in.end)
      throw Error("{} of {} bytes leaves its allocation of {} bytes", what, bytes, in.end - in.begin);
  }

  DeviceFacts facts_;
  bool has_gemm_library_, overlaps_kernels_;
  std::map<std::byte*, std::int64_t> allocations_;
  std::int64_t live_ = 0, peak_ = 0, launches_ = 0, replays_ = 0, products_ = 0, downloaded_ = 0;
  std::string fault_;  // that of a kernel that was made to fail: nothing works any more
  bool fails_next_ = false;
  std::vector<std::chrono::steady_clock::time_point> times_ =
      std::vector<std::chrono::steady_clock::time_point>(4096);
  std::uint64_t next_time_ = 0;
  std::unique_ptr<EmulatedGraph> graph_;
};

}  // namespace

std::unique_ptr<EmulatedRuntime> make_emulated_runtime(const EmulatedDevice& device) {
  return std::make_unique<Emulated>(device);
}

std::unique_ptr<Runtime> make_test_runtime(const EmulatedDevice& device) {
#if defined(ASSAY_HAS_CUDA)
  if (std::getenv("ASSAY_TEST_CUDA") != nullptr) return make_cuda_runtime(0);
#endif
  return make_emulated_runtime(device);
}

}  // namespace assay::cuda
