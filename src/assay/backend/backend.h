// What a device offers: it packs a model's weights, keeps keys and values, runs the plan, and tells the time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/backend/constants.h"
#include "assay/backend/head.h"
#include "assay/backend/memory.h"
#include "assay/backend/step_profile.h"
#include "assay/base/cpu.h"
#include "assay/base/device.h"
#include "assay/base/token_id.h"
#include "assay/base/units.h"
#include "assay/plan/plan.h"

namespace assay {

class HeldLogits;  // backend/held_logits.h
class ThreadPool;

// Gives what the file stores of a logical weight. Throws Error naming the file and the tensor.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Rows as the file has them: [rows, columns], or [columns, rows] of a weight that is stored_transposed.
  virtual void read_rows(const WeightSpec& weight, std::int64_t first_row, std::int64_t row_count,
                         float* out) const = 0;
  // For a weight that is_stored_quantized, instead: codes of outputs from first_row on, one in a byte, out
  // [row_count][columns] (int8 as two's complement, others from 0 on). first_row * columns is even.
  virtual void read_codes(const WeightSpec& weight, std::int64_t first_row, std::int64_t row_count,
                          std::uint8_t* out) const;
  // And all its scales, as ScaleLayout (quant/quantizer.h) has them; what is added to a code times each scale
  // (a minimum, or -scale * zero point); of super-blocks what both are made of; permuted inputs' groups.
  virtual std::vector<float> read_scales(const WeightSpec& weight) const;
  virtual std::vector<float> read_offsets(const WeightSpec& weight) const;
  virtual std::vector<std::int32_t> read_input_groups(const WeightSpec& weight) const;
  virtual struct SuperBlocks read_super_blocks(const WeightSpec& weight) const;
};

// The new tokens of one sequence within a batch.
struct SequenceRows {
  int sequence = 0;            // its number in the cache
  std::int64_t first_row = 0;  // in the batch
  std::int64_t rows = 0;       // consecutive; the token in row i is the sequence's number length + i
  std::int64_t first_key = 0;  // keys before it are padding and are not seen
  // Tokens of the sequence as far as they are known, without padding, these rows and later ones included:
  // what LongRoPE turns them by. Keys that were stored for another extent stay as they are. 0: these are the
  // last.
  std::int64_t extent = 0;
};
// Ragged: sequences of any number of new tokens, one after another, no padding needed.
struct Batch {
  std::vector<TokenId> ids;
  std::vector<std::int32_t> positions;  // one for each id
  std::vector<SequenceRows> sequences;
  // Rows whose hidden states will go through the LM head, ascending, unless all may. What only the others
  // would need is left out.
  bool wants_all = true;
  std::vector<std::int64_t> wanted;

  std::int64_t extent_of(const SequenceRows& s) const {
    return s.extent > 0 ? s.extent : positions[static_cast<std::size_t>(s.first_row + s.rows - 1)] + 1;
  }
};

// Keys and values of past tokens, in blocks of kKvBlock positions per sequence that are taken as a sequence
// grows.
inline constexpr std::int64_t kKvBlock = 64;
class KvCache {
 public:
  virtual ~KvCache() = default;
  virtual int add_sequence() = 0;
  virtual void remove_sequence(int sequence) = 0;
  virtual void truncate(int sequence, std::int64_t length) = 0;
  virtual std::int64_t length(int sequence) const = 0;
  virtual Bytes bytes() const = 0;  // held now
  // The sequences will hold this many blocks together: memory for them is taken at once.
  virtual void reserve(std::int64_t /*blocks*/) {}
};

// The inputs of one product of the body, as it is about to see them.
struct ObservedInput {
  WeightId weight = kNone;
  const float* x = nullptr;  // [rows, columns], rows `stride` apart; valid during the call
  std::int64_t rows = 0, columns = 0, stride = 0;
};
using InputObserver = std::function<void(const ObservedInput&)>;

// How fast a device reads and multiplies at most, measured.
struct DeviceRates {
  double bytes_per_second = 0, operations_per_second = 0;  // 0 = not known
};

// A point on the device's own time line.
struct Event {
  std::uint64_t id = 0;
  TimePoint host;
};

// A plan with its weights on a device. One user at a time.
class Program {
 public:
  virtual ~Program() = default;
  virtual const Plan& plan() const = 0;
  virtual std::unique_ptr<KvCache> make_cache() = 0;
  // Appends the batch's tokens to their sequences and computes the hidden states it wants, which stay valid
  // until the next call. Throws Error for ids outside the vocabulary, positions outside the context, and a
  // batch larger than max_rows().
  virtual void run(const Batch& batch, KvCache& cache) = 0;
  // Sends the given rows of the last batch through the LM head. Throws Error for one without a hidden state,
  // as rows that were not wanted may be.
  virtual void head(std::span<const std::int64_t> rows, const HeadSink& sink) = 0;
  // The same in slices, of up to max_rows() rows, where the device has them: the bits of head().
  virtual bool has_head_slices() const { return false; }
  virtual void head_slice(std::span<const std::int64_t> rows, const LogitSlice& slice);
  // The device's kernels for logits that lie in the host's memory; null where it has none.
  virtual const LogitReducer* logit_reducer() const { return nullptr; }
  // Logits that stay on a device which reduces them itself; null where it does not.
  virtual HeldLogits* held_logits() { return nullptr; }
  // From now on the observer sees the inputs of every matrix product of run(), in order, on the caller's
  // thread; an empty one ends that. For calibration.
  virtual void observe_inputs(InputObserver observer) = 0;
  // In llm_int8 products so far, the share of their input features that were decomposed as outliers; 0 where
  // none ran.
  virtual double outlier_share() const = 0;
  // With a candidate search, so far: the share of its outputs that were computed exactly; 0 where none is.
  virtual double exact_head_share() const { return 0; }
  // Whether the device can choose tokens itself, now: then greedy steps need not wait for the host.
  virtual bool can_run_greedily() const { return false; }
  // Where it can, `steps` times what run() and head() with an ArgmaxSink do, of a batch with one token of
  // each sequence: the tokens that a step chooses are the next one's. `chosen` is [steps][sequences]; where
  // one is -1, later ones mean nothing. after_each() is called when a step has been handed to the device.
  virtual void run_greedily(const Batch& batch, KvCache& cache, std::int64_t steps, std::span<TokenId> chosen,
                            const std::function<void()>& after_each);
  // Exchanges a matrix for what `other` has of it, a plan of the same model in other formats: its own format,
  // and what its products do to their inputs. Everything else stays, caches too; hidden states do not, and
  // what was counted begins anew. Throws Error, and changes nothing, where the plans differ in more, where
  // this device does not run the format, or as `source` does.
  virtual void exchange(WeightId weight, const Plan& other, const WeightSource& source) = 0;
  virtual std::int64_t max_rows() const = 0;
  // What the cache takes for a sequence of this many tokens.
  virtual Bytes cache_bytes(std::int64_t length) const = 0;
  // Throws Error "not enough memory for PURPOSE" where the device has less left.
  virtual void require_memory(Bytes needed, std::string_view purpose) const;
  virtual MemoryReport memory() const = 0;
  // Where the matrices lie that a step of one token reads, packed; empty where the host cannot read them.
  virtual std::vector<std::span<const std::byte>> step_weights() const { return {}; }
  virtual void trim() {}  // gives back memory that is kept for later sequences
  virtual void tune() {}  // measures which launches are fastest, before anything is timed
  // While a profile is taken, every operation is timed on its own: some clock readings per step.
  virtual void begin_profile() {}
  virtual StepProfile end_profile() { return {}; }
  // Where the device replays greedy steps as a graph: that of a batch as run_greedily() has it, by
  // differences of graphs. Takes a second or so. The sequences stay as they were; hidden states do not.
  virtual std::optional<GraphProfile> profile_graph(const Batch& /*batch*/, KvCache& /*cache*/) {
    return std::nullopt;
  }
};

struct BackendOptions {
  int threads = 0;        // 0 = default_thread_count()
  Isa isa = Isa::scalar;  // ignored unless is_isa_forced
  bool is_isa_forced = false;
  std::vector<int> processors = {};               // to run on; empty: all this process may use
  CudaGemm cuda_gemm = CudaGemm::own;             // others: of GPUs alone
  Tune tune = Tune::off;                          // the constants of CPU kernels, launches of a GPU
  std::optional<KernelConstants> constants = {};  // taken by CPU kernels as they are: nothing is tuned
  bool pins_caller = false;  // a program that measures pins its main thread; a library leaves it alone
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Device device() const = 0;
  virtual std::string kernels() const = 0;  // "avx512": which kernels run
  // The constants that are chosen for the processor, where there are any.
  virtual std::optional<KernelConstants> constants() const { return std::nullopt; }
  // The same in words, or what was chosen for launches of a GPU; else empty.
  virtual std::string tuning() const { return constants() ? text_of(*constants()) : std::string(); }
  // Weights in bfloat16 are multiplied by products of bfloat16; else widened, and multiplied in float32.
  virtual bool multiplies_bfloat16() const = 0;
  virtual int threads() const = 0;
  // The threads that its kernels run on, for what is measured beside them; null for other devices.
  virtual ThreadPool* pool() { return nullptr; }
  // Packs the plan's weights as the source gives them. Throws Error.
  virtual std::unique_ptr<Program> prepare(const Plan& plan, const WeightSource& source) = 0;
  // What prepare() would take for the plan, and a sequence of this many tokens beside it. Takes none itself.
  virtual PredictedMemory predict(const Plan& plan, std::int64_t tokens) = 0;
  // A GPU's place on the PCI bus, by which other libraries know it: "00000000:65:00.0".
  virtual std::string bus_id() const { return {}; }
  // The memory of a device that has its own.
  virtual std::optional<DeviceMemory> memory() { return std::nullopt; }
  virtual void reset_peak_memory() {}
  // Rates of a device that the host has no probes for, at this moment: reading a working set of this size,
  // and multiplying in this way. Takes about twice `each`.
  virtual std::optional<DeviceRates> measure_rates(Bytes /*working_set*/, Multiply /*multiply*/,
                                                   Seconds /*each*/) {
    return std::nullopt;
  }
  virtual void synchronize() = 0;
  virtual Event record() = 0;
  virtual Seconds between(const Event& begin, const Event& end) = 0;
};

// The device itself; of an automatic one the first GPU where this program can use one, else the CPU.
Device chosen_device(const Device& device);

// Throws UsageError for a forced ISA that cannot run here, Error for a device that is absent.
std::shared_ptr<Backend> make_backend(const Device& device, const BackendOptions& options);

}  // namespace assay
