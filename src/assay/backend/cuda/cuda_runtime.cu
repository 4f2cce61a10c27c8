#include "assay/backend/cuda/cuda_runtime.h"

#include <cuda_runtime.h>

#include <array>
#include <string>

#include "assay/backend/cuda/kernels.h"
#include "assay/base/error.h"

namespace assay::cuda {

const Kernels& cuda_kernels();

namespace {

constexpr std::size_t kTimes = 4096;

[[noreturn]] void fail(cudaError_t error, const std::string& doing) {
  throw Error("the GPU failed while {}: {} ({})", doing, cudaGetErrorString(error), cudaGetErrorName(error));
}
void check(cudaError_t error, const char* doing) {
  if (error != cudaSuccess) fail(error, doing);
}

// "13.0" of 13000.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void check_device(int index) {
  int driver = 0, count = 0;
  // 0 where there is none; asking for devices alone does not tell an old driver from an absent one.
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    throw Error("device cuda:{}: this machine has no NVIDIA driver; use the device cpu", index);
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver)
    throw Error(
        "device cuda:{}: the NVIDIA driver supports CUDA {} and this program needs {}; update the driver or use the "
        "device cpu",
        index, version_text(driver), version_text(CUDART_VERSION));
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
    throw Error("device cuda:{}: the NVIDIA driver shows no GPU; use the device cpu", index);
  if (error != cudaSuccess)
    throw Error("device cuda:{}: {} ({})", index, cudaGetErrorString(error), cudaGetErrorName(error));
  if (index < 0 || index >= count)
    throw Error("device cuda:{}: this machine has {} {}, counted from 0", index, count,
                count == 1 ? "GPU" : "GPUs");
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
    check_device(index);
    use();
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index), "its properties were read");
    facts_ = {.name = properties.name,
              .major = properties.major,
              .minor = properties.minor,
              .processors = properties.multiProcessorCount,
              .shared_bytes_per_block = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin),
              .l2_bytes = properties.l2CacheSize,
              .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem)};
    if (facts_.major < 8)
      throw Error("device cuda:{}: {} has compute capability {}.{}; at least 8.0 is needed", index,
                  facts_.name, facts_.major, facts_.minor);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream was made");
  }
  CudaRuntime(const CudaRuntime&) = delete;
  CudaRuntime& operator=(const CudaRuntime&) = delete;
  ~CudaRuntime() override {
    cudaSetDevice(index_);
    for (const cudaEvent_t event : events_)
      if (event != nullptr) cudaEventDestroy(event);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  const DeviceFacts& facts() const override { return facts_; }
  const Kernels& kernels() const override { return cuda_kernels(); }

  DevicePointer<std::byte> allocate(std::int64_t bytes) override {
    use();
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, static_cast<std::size_t>(bytes > 0 ? bytes : 1));
    if (error == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();  // it is told here and need not show again
      throw Error("device memory: {} bytes were asked for and {} are free", bytes, memory_info().free.value);
    }
    check(error, "memory was allocated");
    return DevicePointer<std::byte>(static_cast<std::byte*>(memory));
  }
  void free(DevicePointer<std::byte> memory) override {
    use();
    check(cudaFree(memory.address), "memory was freed");
  }
  MemoryInfo memory_info() override {
    use();
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "its free memory was read");
    return {.free = {static_cast<std::int64_t>(free)}, .total = {static_cast<std::int64_t>(total)}};
  }

  void upload(DevicePointer<std::byte> to, std::span<const std::byte> from) override {
    use();
    check(cudaMemcpyAsync(to.address, from.data(), from.size(), cudaMemcpyHostToDevice, stream_),
          "data was uploaded");
    check(cudaStreamSynchronize(stream_), "data was uploaded");
  }
  void download(std::span<std::byte> to, DevicePointer<const std::byte> from) override {
    use();
    check(cudaMemcpyAsync(to.data(), from.address, to.size(), cudaMemcpyDeviceToHost, stream_),
          "data was downloaded");
    check(cudaStreamSynchronize(stream_), "data was downloaded");
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
    constexpr std::uint32_t kWithoutAsking = 48 * 1024;  // of dynamic shared memory
    if (shape.shared_bytes > kWithoutAsking)
      check(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shape.shared_bytes)),
            "shared memory was asked for");
    const cudaError_t error = cudaLaunchKernel(entry, dim3(shape.grid_x, shape.grid_y, shape.grid_z),
                                               dim3(shape.block), arguments, shape.shared_bytes, stream_);
    if (error != cudaSuccess) fail(error, std::string("the kernel ") + name + " was launched");
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
    check(cudaGraphLaunch(static_cast<CudaGraph&>(graph).exec, stream_), "a graph was launched");
  }

 private:
  // The current device belongs to the thread that calls.
  void use() { check(cudaSetDevice(index_), "it was chosen"); }

  int index_;
  DeviceFacts facts_;
  cudaStream_t stream_ = nullptr;
  std::array<cudaEvent_t, kTimes> events_{};
  std::uint64_t next_event_ = 0;
};

}  // namespace

int usable_devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::unique_ptr<Runtime> make_cuda_runtime(int index) {
  return std::make_unique<CudaRuntime>(index);
}

}  // namespace assay::cuda
