// A GPU through the CUDA runtime.
#include "assay/backend/cuda/cuda_runtime.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "assay/backend/cuda/driver.h"
#include "assay/backend/cuda/kernels/kernels.h"
#include "assay/backend/cuda/kernels/step_kernels.h"
#include "assay/backend/cuda/run/cublaslt.h"
#include "assay/base/error.h"

namespace assay::cuda {

const Kernels& cuda_kernels();
const StepKernels& cuda_step_kernels();

namespace {

constexpr std::size_t kTimes = 4096;
// Pinned memory that transfers go through: the host need not wait for an upload, and weights are packed while
// those before them are on their way.
constexpr std::size_t kSlots = 8, kSlotBytes = std::size_t{2} << 20;

std::string text_of(cudaError_t error) {
  return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")";
}

// Drivers of CUDA 12.1 and before otherwise load every kernel of the program with the context.
void load_kernels_when_needed() {
  setenv("CUDA_MODULE_LOADING", "LAZY", 0);
}

DriverAnswers ask_driver() {
  load_kernels_when_needed();
  DriverAnswers answers;
  answers.runtime_version = CUDART_VERSION;
  // 0 where there is none; asking for devices alone does not tell an old driver from an absent one.
  if (cudaDriverGetVersion(&answers.driver_version) != cudaSuccess) answers.driver_version = 0;
  const cudaError_t error = cudaGetDeviceCount(&answers.count);
  answers.error = error;
  if (error != cudaSuccess) answers.error_text = text_of(error);
  return answers;
}

// Empty where the system does not tell.
std::string kernel_module_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  return line;
}

class CudaGraph final : public Graph {
 public:
  explicit CudaGraph(cudaGraphExec_t held) : exec(held) {}
  ~CudaGraph() override { cudaGraphExecDestroy(exec); }
  cudaGraphExec_t exec;
};

class CudaRuntime final : public Runtime {
 public:
  explicit CudaRuntime(int index) : index_(index) {
    check_driver(ask_driver(), index);
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index), "its properties were read");
    char bus_id[32] = {};
    check(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, index), "its place was read");
    facts_ = {.name = properties.name,
              .major = properties.major,
              .minor = properties.minor,
              .processors = properties.multiProcessorCount,
              .shared_bytes_per_block = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin),
              .l2_bytes = properties.l2CacheSize,
              .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
              .bus_id = bus_id,
              .driver = driver_text(ask_driver().driver_version, kernel_module_version())};
    DeviceAnswers answers{
        .name = facts_.name, .major = facts_.major, .minor = facts_.minor, .error = 0, .error_text = {}};
    check_device(answers, index);
    cudaError_t error = cudaSetDevice(index);
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    if (error != cudaSuccess) {
      answers.error = error;
      answers.error_text = text_of(error);
      check_device(answers, index);
    }
    void* memory = nullptr;
    check(cudaMallocHost(&memory, kSlots * kSlotBytes), "pinned memory was allocated");
    for (std::size_t i = 0; i < kSlots; ++i) {
      Slot& slot = slots_[i];
      slot.memory = static_cast<std::byte*>(memory) + i * kSlotBytes;
      check(cudaEventCreateWithFlags(&slot.is_free, cudaEventDisableTiming), "an event was made");
    }
  }
  CudaRuntime(const CudaRuntime&) = delete;
  CudaRuntime& operator=(const CudaRuntime&) = delete;
  ~CudaRuntime() override {
    cudaSetDevice(index_);
    gemm_library_.reset();
    for (const cudaEvent_t event : events_)
      if (event != nullptr) cudaEventDestroy(event);
    for (const Slot& slot : slots_)
      if (slot.is_free != nullptr) cudaEventDestroy(slot.is_free);
    if (slots_.front().memory != nullptr) cudaFreeHost(slots_.front().memory);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  const DeviceFacts& facts() const override { return facts_; }
  const Kernels& kernels() const override { return cuda_kernels(); }
  const StepKernels& step_kernels() const override { return cuda_step_kernels(); }

  DevicePointer<std::byte> allocate(std::int64_t bytes) override {
    use();
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, static_cast<std::size_t>(bytes > 0 ? bytes : 1));
    if (error == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();  // it is told here and need not show again
      throw Error("device memory: {} bytes were asked for and {} are free", bytes, memory_info().free.value);
    }
    check(error, "memory was allocated");
    sizes_[memory] = bytes;
    allocated_ += bytes;
    peak_ = std::max(peak_, allocated_);
    return DevicePointer<std::byte>(static_cast<std::byte*>(memory));
  }
  void free(DevicePointer<std::byte> memory) override {
    use();
    if (const auto found = sizes_.find(memory.address); found != sizes_.end()) {
      allocated_ -= found->second;
      sizes_.erase(found);
    }
    check(cudaFree(memory.address), "memory was freed");
  }
  MemoryInfo memory_info() override {
    use();
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "its free memory was read");
    return {.free = {static_cast<std::int64_t>(free)},
            .total = {static_cast<std::int64_t>(total)},
            .allocated = {allocated_},
            .peak = {peak_}};
  }
  void reset_peak() override { peak_ = allocated_; }

  void upload(DevicePointer<std::byte> to, std::span<const std::byte> from) override {
    use();
    for (std::size_t done = 0; done < from.size(); done += kSlotBytes) {
      const std::span<const std::byte> part = from.subspan(done, std::min(kSlotBytes, from.size() - done));
      Slot& slot = next_slot();
      std::memcpy(slot.memory, part.data(), part.size());
      check(cudaMemcpyAsync(to.address + done, slot.memory, part.size(), cudaMemcpyHostToDevice, stream_),
            "data was uploaded");
      check(cudaEventRecord(slot.is_free, stream_), "data was uploaded");
    }
  }
  void download(std::span<std::byte> to, DevicePointer<const std::byte> from) override {
    use();
    for (std::size_t done = 0; done < to.size(); done += kSlotBytes) {
      const std::span<std::byte> part = to.subspan(done, std::min(kSlotBytes, to.size() - done));
      Slot& slot = next_slot();
      check(cudaMemcpyAsync(slot.memory, from.address + done, part.size(), cudaMemcpyDeviceToHost, stream_),
            "data was downloaded");
      check(cudaStreamSynchronize(stream_), "data was downloaded");
      std::memcpy(part.data(), slot.memory, part.size());
    }
  }
  void copy(DevicePointer<std::byte> to, DevicePointer<const std::byte> from, std::int64_t bytes) override {
    use();
    check(cudaMemcpyAsync(to.address, from.address, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice,
                          stream_),
          "data was copied");
  }
  void fill(DevicePointer<std::byte> to, std::uint8_t value, std::int64_t bytes) override {
    use();
    check(cudaMemsetAsync(to.address, value, static_cast<std::size_t>(bytes), stream_), "memory was filled");
  }

  void launch_raw(const char* name, void* entry, Trampoline, const LaunchShape& shape, const void* args,
                  std::size_t) override {
    use();
    void* arguments[] = {const_cast<void*>(args)};
    // A processor whose split between L1 cache and shared memory changes must be idle for it: kernels that
    // differ there would not overlap. All of it as shared memory leaves too few lines for what is on its way.
    constexpr int kSharedPercent = 72;
    if (prepared_.insert(entry).second)
      check(cudaFuncSetAttribute(entry, cudaFuncAttributePreferredSharedMemoryCarveout, kSharedPercent),
            "its share of shared memory was asked for");
    constexpr std::uint32_t kWithoutAsking = 48 * 1024;  // the limit of dynamic shared memory
    if (shape.shared_bytes > kWithoutAsking)
      check(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shape.shared_bytes)),
            "shared memory was asked for");
    last_launch_ = name;
    // Every kernel waits for the one in front of it (device.cuh), where the GPU knows how to.
    cudaLaunchAttribute overlap{};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(shape.grid_x, shape.grid_y, shape.grid_z);
    config.blockDim = dim3(shape.block);
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = stream_;
    config.attrs = &overlap;
    config.numAttrs = facts_.major >= 9 ? 1 : 0;
    check(cudaLaunchKernelExC(&config, entry, arguments), "a kernel was launched");
  }
  void synchronize() override {
    use();
    check(cudaStreamSynchronize(stream_), "its work was waited for");
  }

  std::uint64_t record() override {
    use();
    cudaEvent_t& event = events_[next_event_ % kTimes];
    if (event == nullptr) check(cudaEventCreate(&event), "an event was made");
    check(cudaEventRecord(event, stream_), "an event was recorded");
    return next_event_++;
  }
  Seconds between(std::uint64_t begin, std::uint64_t end) override {
    use();
    check(cudaEventSynchronize(events_[end % kTimes]), "an event was waited for");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, events_[begin % kTimes], events_[end % kTimes]),
          "time was read");
    return {static_cast<double>(milliseconds) / 1000};
  }

  GemmLibrary& gemm_library() override {
    use();  // for what is multiplied next, too
    last_launch_ = "a matrix multiplication of cuBLASLt";
    if (gemm_library_ == nullptr) gemm_library_ = open_cublaslt(stream_);
    return *gemm_library_;
  }

  void begin_capture() override {
    use();
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "a graph was begun");
  }
  std::unique_ptr<Graph> end_capture() override {
    use();
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_, &graph), "a graph was recorded");
    cudaGraphExec_t exec = nullptr;
    const cudaError_t error = cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
    check(error, "a graph was made");
    return std::make_unique<CudaGraph>(exec);
  }
  void replay(Graph& graph) override {
    use();
    last_launch_ = "a recorded step";
    check(cudaGraphLaunch(static_cast<CudaGraph&>(graph).exec, stream_), "a graph was launched");
  }

 private:
  struct Slot {
    std::byte* memory = nullptr;
    cudaEvent_t is_free = nullptr;
  };

  // The current device belongs to the thread that calls.
  void use() { check(cudaSetDevice(index_), "it was chosen"); }
  // Faults show late: the kernel that was launched last is at least near.
  void check(cudaError_t error, const char* doing) const {
    if (error == cudaSuccess) return;
    const char* const last = last_launch_;
    if (is_fault(error))
      throw DeviceFault("the GPU failed while {}: {}; {} was launched last", doing, text_of(error), last);
    throw Error("the GPU failed while {}: {}; {} was launched last", doing, text_of(error), last);
  }
  Slot& next_slot() {
    Slot& slot = slots_[next_slot_++ % kSlots];
    check(cudaEventSynchronize(slot.is_free), "a transfer was waited for");
    return slot;
  }

  int index_;
  DeviceFacts facts_;
  cudaStream_t stream_ = nullptr;
  std::array<cudaEvent_t, kTimes> events_{};
  std::uint64_t next_event_ = 0;
  std::array<Slot, kSlots> slots_{};
  std::size_t next_slot_ = 0;
  std::map<const void*, std::int64_t> sizes_;  // the sizes of allocations
  std::set<const void*> prepared_;              // kernels that have been launched
  std::int64_t allocated_ = 0, peak_ = 0;
  std::unique_ptr<GemmLibrary> gemm_library_;  // null until it is asked for
  const char* last_launch_ = "nothing";
};

}  // namespace

void require_device(int index) {
  check_driver(ask_driver(), index);
}

int usable_devices() {
  load_kernels_when_needed();
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::unique_ptr<Runtime> make_cuda_runtime(int index) {
  return std::make_unique<CudaRuntime>(index);
}

}  // namespace assay::cuda
