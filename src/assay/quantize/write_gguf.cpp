#include "assay/quantize/write_gguf.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "assay/base/cpu.h"
#include "assay/base/error.h"
#include "assay/base/memory.h"
#include "assay/base/thread_pool.h"
#include "assay/checkpoint/gguf_checkpoint.h"
#include "assay/checkpoint/gguf_source.h"
#include "assay/checkpoint/gguf_writer.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/model/stored_quantization.h"
#include "assay/quant/ggml_quantize.h"
#include "assay/quantize/gguf_metadata.h"
#include "assay/quantize/gguf_tokens.h"
#include "assay/quantize/matrix_rows.h"
#include "assay/quantize/writable.h"
#include "assay/session/calibrate.h"
#include "assay/session/load_parts.h"
#include "assay/session/text_through_model.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

// A tensor of the model on its way into the file.
struct TensorToWrite {
  std::string name, own;  // in Transformers, and in the file
  MatrixShape shape;      // a vector has its elements as rows of one column
  const ggml::BlockType* type = nullptr;
  GgufRows rows;                 // where the file has them
  float added = 0;               // to each element
  std::uint64_t first_byte = 0;  // in the file's tensor: of one for each head, where its row begins
};

// What a thread works with.
struct GgufSlab {
  std::vector<float> stored, rows, restored;
  std::vector<std::byte> blocks, ordered;
};

std::int64_t bytes_of_row(const TensorToWrite& tensor) {
  return tensor.shape.columns / tensor.type->elements * tensor.type->bytes;
}

class GgufJob {
 public:
  GgufJob(const std::string& candidate, const fs::path& out, const GgufOptions& options)
      : options_(options),
        mix_(options.mix),
        source_(open_source(locate_model(candidate))),
        spec_(spec_from_source(*source_)),
        architecture_(gguf_architecture_of(spec_, *source_)),
        pool_(options.threads.value_or(default_thread_count())) {
    if (!spec_.names.other_modalities.empty()) check_writable(spec_, *source_);
    check_readable_as_numbers(candidate, spec_, *source_);
    check_target(out);
    heads_ = {spec_.heads, spec_.kv_heads, spec_.head_dim};
  }

  QuantizeReport run(const fs::path& out) {
    const TimePoint begin = Clock::now();
    QuantizeReport report;
    report.path = out;
    report.precision = options_.mix.label();
    report.dtype = "float32";
    measure_importance_of_text(report);
    name_tensors();
    add_values(report);
    writer_.create(out);
    for (const auto& [name, factors] : factors_) writer_.write(name, 0, std::as_bytes(std::span(factors)));
    check_file(report);
    write_tensors(report);
    stop_where_asked();
    writer_.finish();
    report.file_bytes_before = source_->weight_file_bytes();
    report.file_bytes_after = fs::file_size(out);
    report.tensor_bytes_after = writer_.tensor_bytes();
    report.files = {out.filename().string()};
    report.seconds = elapsed(begin, Clock::now()).value;
    return report;
  }

 private:
  // Only what is a GGUF file is replaced, and never one that is read.
  void check_target(const fs::path& out) const {
    std::error_code code;
    if (!fs::exists(out, code)) return check_output_file(out);
    for (const fs::path& file : source_->checkpoint().files())
      if (fs::equivalent(out, file, code))
        throw UsageError("{}: the target is the model itself: expected another file", out.string());
    if (!options_.replaces)
      throw Error("{} exists already: expected a new name, or --force to replace a GGUF file there",
                  out.string());
    if (!fs::is_regular_file(out, code) || !GgufFile::is_one(out))
      throw Error("{}: --force replaces GGUF files, and this is none", out.string());
  }

  void stop_where_asked() const {
    if (options_.should_stop && options_.should_stop()) throw Error("interrupted: nothing was written");
  }
  void tell(const std::string& now) const {
    stop_where_asked();
    if (!options_.on_progress) return;
    const double seconds = elapsed(begin_, Clock::now()).value;
    std::optional<double> left;
    if (seconds >= 1 && done_ > 0)
      left = seconds * static_cast<double>(all_ - done_) / static_cast<double>(done_);
    options_.on_progress(now, tensors_done_, static_cast<std::int64_t>(tensors_.size()), left);
  }

  void measure_importance_of_text(QuantizeReport& report) {
    if (!options_.importance) return;
    const TimePoint begin = Clock::now();
    mix_.expect_importance();
    stop_where_asked();
    if (options_.on_progress) options_.on_progress("the importance of inputs", 0, 0, std::nullopt);
    const auto tokenizer = tokenizer_of(*source_, true);
    const CalibrationText text = read_calibration(*options_.importance, *tokenizer);
    BackendOptions backend;
    backend.threads = options_.threads.value_or(0);
    importance_ =
        measure_importance(*source_, *make_backend(Device{}, backend), text.ids, options_.should_stop);
    chunks_ = (std::ssize(text.ids) + spec_.context - 1) / spec_.context;
    report.calibration_sha256 = text.sha256;
    report.calibration_change = text.change;
    report.calibration_s = elapsed(begin, Clock::now()).value;
  }

  // The keys of llama-quantize.
  void add_importance_keys() {
    if (importance_.empty()) return;
    const std::string name = options_.importance->filename().string();
    writer_.add_text("quantize.imatrix.file", name);
    writer_.add_text("quantize.imatrix.dataset", name);
    writer_.add_u32("quantize.imatrix.entries_count", static_cast<std::uint32_t>(importance_.size()));
    writer_.add_u32("quantize.imatrix.chunks_count", static_cast<std::uint32_t>(chunks_));
  }

  std::span<const float> importance_of(const TensorToWrite& tensor) const {
    const auto at = importance_.find(tensor.name);
    return at == importance_.end() ? std::span<const float>() : at->second;
  }

  // Every tensor that the model needs, with its name and type in the file.
  void name_tensors() {
    std::map<std::string, bool> is_transposed;
    const Plan plan = plan_forward(spec_, precision_of(Preset::float32));
    mix_.check(modules_of(plan));
    for (const WeightSpec& whole : plan.weights)
      for (const TensorPart& part : tensors_of(whole))
        is_transposed[part.spec.name] = part.spec.stored_transposed;
    std::map<std::string, std::int64_t> head_counts;
    for (const auto& [name, transposed] : is_transposed) {
      const GgufOwnName own = own_name_of(name);
      if (own.change == GgufChange::split_by_head) ++head_counts[own.name];
    }
    for (const WeightSpec& whole : plan.weights)
      for (const TensorPart& part : tensors_of(whole)) {
        const auto at = is_transposed.find(part.spec.name);
        if (at == is_transposed.end()) continue;  // it was named for another part of it
        name_tensor(part.spec.name, at->second, head_counts);
        is_transposed.erase(at);
      }
  }

  GgufOwnName own_name_of(const std::string& name) const {
    if (name == spec_.names.head) return {"output.weight", GgufChange::none, true};
    GgufOwnName own = gguf_name_of(architecture_, name);
    if (!own.is_known)
      throw Error("{}: GGUF's architecture '{}' has no tensor for it", source_->find(name).where(),
                  architecture_.name);
    return own;
  }

  void name_tensor(const std::string& name, bool is_transposed,
                   const std::map<std::string, std::int64_t>& head_counts) {
    const GgufOwnName own = own_name_of(name);
    const CheckpointTensor at = source_->find(name);
    std::vector<std::int64_t> shape = at->shape;
    if (is_transposed) std::swap(shape.front(), shape.back());
    TensorToWrite tensor;
    tensor.name = name;
    tensor.own = own.name;
    tensor.shape = {shape.front(), shape.size() > 1 ? shape.back() : 1, is_transposed};
    tensor.type = &mix_.type_of(architecture_, spec_, own.name, name.substr(0, name.rfind('.')), shape);
    set_change(own, tensor);
    if (own.change == GgufChange::split_by_head) {
      tensor.first_byte =
          static_cast<std::uint64_t>(own.head) * sizeof(float) * static_cast<std::uint64_t>(shape.front());
      if (!writer_.has_tensor(own.name))
        writer_.add_tensor(own.name, {head_counts.at(own.name), shape.front()}, *tensor.type);
    } else {
      writer_.add_tensor(own.name, shape, *tensor.type);
    }
    all_ += at->elements();
    tensors_.push_back(std::move(tensor));
  }

  void set_change(const GgufOwnName& own, TensorToWrite& tensor) const {
    if (own.change == GgufChange::one_was_added) tensor.added = 1;
    const bool is_query = own.change == GgufChange::rotated_queries,
               is_key = own.change == GgufChange::rotated_keys;
    if (!is_query && !is_key && own.change != GgufChange::heads_apart) return;
    const std::int64_t heads = is_query ? heads_.heads
                               : is_key ? heads_.kv_heads
                                        : heads_.heads + 2 * heads_.kv_heads;
    if (tensor.shape.rows != heads * heads_.head_dim)
      throw Error("{}: expected {} rows, for {} heads of {} elements, found {}",
                  source_->find(tensor.name).where(), heads * heads_.head_dim, heads, heads_.head_dim,
                  tensor.shape.rows);
    tensor.rows.heads = heads_;
    tensor.rows.order =
        own.change == GgufChange::heads_apart ? GgufRows::Order::by_key_head : GgufRows::Order::rotary_pairs;
  }

  void add_values(QuantizeReport& report) {
    factors_ = add_gguf_metadata(architecture_, spec_, *source_, writer_);
    for (const auto& [name, factors] : factors_)
      writer_.add_tensor(name, {static_cast<std::int64_t>(factors.size())}, *ggml::block_type_named("F32"));
    constexpr std::uint32_t kQuantizationVersion = 2;
    writer_.add_u32("general.quantization_version", kQuantizationVersion);
    writer_.add_u32("general.file_type", options_.mix.file_type());
    add_importance_keys();
    report.warnings = gguf_warnings(architecture_, spec_);
    for (std::string& warning : add_gguf_tokens(*source_, spec_.vocab, spec_.end_tokens, writer_))
      report.warnings.push_back(std::move(warning));
  }

  // What a reader makes of the header.
  void check_file(QuantizeReport& report) const {
    const GgufSource written(writer_.temporary_path());
    const ModelSpec spec = spec_from_source(written);
    check_gguf_model(spec_, spec, *source_);
    check_tensors(spec, stored_precision(written, spec).value_or(precision_of(Preset::float32)), written);
    if (std::string warning = check_gguf_tokens(*source_, written); !warning.empty())
      report.warnings.push_back(std::move(warning));
  }

  void write_tensors(QuantizeReport& report) {
    begin_ = Clock::now();
    std::int64_t quantized = 0, requantized = 0;
    for (const TensorToWrite& tensor : tensors_) {
      tell(tensor.own);
      const ReconstructionError error = write_tensor(tensor);
      ++tensors_done_;
      const std::int64_t elements = tensor.shape.rows * tensor.shape.columns;
      report.parameters += elements;
      const bool is_quantized = tensor.type->format.has_value();
      report.coverage.tensors.push_back(
          {tensor.own, std::string(tensor.type->name), is_quantized ? "" : "it is kept as numbers"});
      if (!is_quantized) continue;
      quantized += elements;
      ++report.coverage.quantized;
      if (!source_->find(tensor.name)->block_type.empty() && error.rmse > 0) ++requantized;
      report.tensors.push_back({.name = tensor.own,
                                .type = std::string(tensor.type->name),
                                .rows = tensor.shape.rows,
                                .columns = tensor.shape.columns,
                                .bytes_before = static_cast<std::int64_t>(source_->find(tensor.name)->bytes),
                                .bytes_after = tensor.shape.rows * bytes_of_row(tensor),
                                .error = error});
    }
    report.coverage.weights_share = static_cast<double>(quantized) / static_cast<double>(report.parameters);
    if (requantized > 0)
      report.warnings.push_back(fmt::format(
          "{} of {} quantized tensors were quantized in {} already, and quantizing twice loses more than "
          "quantizing the original once: quantize the float32, float16 or bfloat16 model where you have it "
          "(the errors shown are against the quantized weights that were read, not against the original's)",
          requantized, report.coverage.quantized, source_->path().filename().string()));
  }

  ReconstructionError write_tensor(const TensorToWrite& tensor) {
    const std::int64_t rows = tensor.shape.rows, columns = tensor.shape.columns;
    const std::int64_t unit = std::max<std::int64_t>(1, tensor.rows.unit());
    const std::int64_t per_slab =
        (rows_per_slab(columns, tensor.shape.is_transposed) + unit - 1) / unit * unit;
    constexpr std::int64_t kBytesPerNumber = 20;  // that a GgufSlab takes for each
    require_memory({std::min(rows, per_slab * pool_.size()) * columns * kBytesPerNumber},
                   "quantizing " + tensor.name);
    // Sums of a slab each, merged in order: the errors do not depend on the number of threads.
    std::vector<ReconstructionSums> sums(static_cast<std::size_t>((rows + per_slab - 1) / per_slab));
    const std::int64_t together = kSlabsTogether * pool_.size(),
                       slabs = static_cast<std::int64_t>(sums.size());
    for (std::int64_t begin = 0; begin < slabs; begin += together) {
      const std::int64_t end = std::min(slabs, begin + together);
      run_all(pool_, end - begin, [&](std::int64_t i) {
        const std::int64_t first = (begin + i) * per_slab;
        write_rows(tensor, first, std::min(per_slab, rows - first),
                   slabs_[static_cast<std::size_t>(ThreadPool::worker())],
                   sums[static_cast<std::size_t>(begin + i)]);
      });
      done_ += (std::min(end * per_slab, rows) - begin * per_slab) * columns;
      tell(tensor.own);
    }
    ReconstructionSums all;
    for (const ReconstructionSums& part : sums) all.merge(part);
    return all.result();
  }

  void write_rows(const TensorToWrite& tensor, std::int64_t first, std::int64_t count, GgufSlab& slab,
                  ReconstructionSums& sums) {
    const std::int64_t columns = tensor.shape.columns, width = bytes_of_row(tensor);
    slab.rows.resize(static_cast<std::size_t>(count * columns));
    read_matrix_rows(source_->find(tensor.name), tensor.shape, first, count, slab.stored, slab.rows.data());
    for (float& x : slab.rows) x += tensor.added;
    check_values(tensor, slab.rows);
    slab.blocks.resize(static_cast<std::size_t>(count * width));
    ggml::quantize(*tensor.type, columns, slab.rows, importance_of(tensor), slab.blocks.data());
    if (tensor.type->format) {
      slab.restored.resize(slab.rows.size());
      ggml::dequantize(*tensor.type, slab.blocks, slab.restored.data());
      sums.add(slab.rows, slab.restored);
    }
    const auto row_bytes = static_cast<std::size_t>(width);
    std::int64_t unit = tensor.rows.unit();
    if (unit == 0) unit = count;
    for (std::int64_t done = 0; done < count; done += unit) {
      // The rows of a head stand together in the file, in another order.
      std::int64_t begin = tensor.rows.stored(first + done);
      for (std::int64_t i = 1; i < unit && tensor.rows.unit() > 0; ++i)
        begin = std::min(begin, tensor.rows.stored(first + done + i));
      slab.ordered.resize(static_cast<std::size_t>(unit) * row_bytes);
      for (std::int64_t i = 0; i < unit; ++i)
        std::copy_n(slab.blocks.data() + static_cast<std::size_t>(done + i) * row_bytes, row_bytes,
                    slab.ordered.data() +
                        static_cast<std::size_t>(tensor.rows.stored(first + done + i) - begin) * row_bytes);
      writer_.write(tensor.own, tensor.first_byte + static_cast<std::uint64_t>(begin) * row_bytes,
                    slab.ordered);
    }
  }

  void check_values(const TensorToWrite& tensor, std::span<const float> values) const {
    const bool has_range = tensor.type->name != "F32" && tensor.type->name != "BF16";
    for (const float x : values) {
      if (!std::isfinite(x))
        throw Error("{}: expected finite numbers, found NaN or infinity", source_->find(tensor.name).where());
      if (has_range && std::abs(x) > ggml::kLargestQuantized)
        throw Error("{}: expected numbers up to {}, which {} holds, found {}",
                    source_->find(tensor.name).where(), ggml::kLargestQuantized, tensor.type->name, x);
    }
  }

  const GgufOptions& options_;
  GgufMix mix_;
  std::shared_ptr<const ModelSource> source_;
  ModelSpec spec_;
  const GgufArchitecture& architecture_;
  ThreadPool pool_;
  std::vector<GgufSlab> slabs_{static_cast<std::size_t>(pool_.size())};  // one for each of the pool's threads
  GgufHeads heads_;
  GgufWriter writer_;
  GgufFactors factors_;
  Importance importance_;
  std::int64_t chunks_ = 0;  // windows of the text
  std::vector<TensorToWrite> tensors_;
  // The progress: elements, and tensors.
  std::int64_t done_ = 0, all_ = 0, tensors_done_ = 0;
  TimePoint begin_;
};

}  // namespace

QuantizeReport write_gguf(const std::string& candidate, const fs::path& out, const GgufOptions& options) {
  if (out.empty()) throw UsageError("OUT: expected the name of a new file, found an empty one");
  return GgufJob(candidate, out, options).run(out);
}

}  // namespace assay
