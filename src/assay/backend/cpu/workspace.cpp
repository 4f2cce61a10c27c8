#include "assay/backend/cpu/workspace.h"

#include <algorithm>

#include "assay/base/memory.h"

namespace assay::cpu {

namespace {

// Floats from a row to the next: whole cache lines, and no multiple of 4 KB, at which all rows would share a
// few sets of the nearest cache.
std::int64_t row_stride(std::int64_t columns) {
  constexpr std::int64_t kLine = 16, kAlias = 1024;
  const std::int64_t whole = round_up(columns, kLine);
  return whole % kAlias == 0 ? whole + kLine : whole;
}

// What the readers and the writers of a buffer want of it.
struct Wants {
  bool has_floats = false;
  int planes = 0;
  bool has_fine_reader = false;  // one that needs more than bfloat16 or bytes
  bool is_multiplied = false;    // read by a matrix multiplication
  bool is_product = false;       // written by one, not added to
  bool is_unused = false;
};

class WantsOfBuffers {
 public:
  explicit WantsOfBuffers(const PackedPlan& packed) : packed_(packed), wants_(packed.plan.buffers.size()) {
    read_finely(packed.plan.hidden);
    for (const FusedOp& fused : packed.ops) {
      std::visit(Cases{[&](const EmbedOp& op) { read_finely(op.out); },
                       [&](const NormOp& op) { read_finely(op.in); },
                       [&](const LinearOp& op) { add(op, fused.gate); },
                       [&](const RotaryOp& op) { read_finely(op.buffer); },
                       [&](const AttentionOp& op) { add(op, fused.rotary); },
                       [&](const GatedOp& op) {
                         read_finely(op.in);
                         of(op.out).is_product = true;
                       },
                       [&](const AddOp& op) {
                         read_finely(op.in);
                         read_finely(op.out);
                       }},
                 fused.op->what);
    }
  }
  const std::vector<Wants>& all() const { return wants_; }

 private:
  Wants& of(BufferId id) { return wants_[static_cast<std::size_t>(id)]; }
  void read_finely(BufferId id) { of(id).has_floats = of(id).has_fine_reader = true; }

  void add(const LinearOp& op, const GatedOp* gate) {
    Wants& in = of(op.in);
    in.is_multiplied = true;
    const PackedWeight& w = packed_.weight(op.weight);
    if (!packed_.rounds_inputs(op)) in.has_fine_reader = true;
    if (packed_.multiplies_tiles(w))
      in.planes = std::max(in.planes, planes_for(w));
    else if (in.is_product && packed_.quantizes_tiles(op))
      in.planes = std::max(in.planes, 1);  // half the bytes, which stay near until they are quantized
    else
      in.has_floats = true;
    if (gate != nullptr) of(op.out).is_unused = true;  // its outputs go through the gate at once
    of(gate != nullptr ? gate->out : op.out).is_product = !op.adds_to_output;
  }

  void add(const AttentionOp& op, const RotaryOp* rotary) {
    // Queries, keys and values go to tile products as they come out of one; turned, they are floats.
    const PackedPlan& p = packed_;
    if (p.table.uses_tiles && p.plan.kv_format == KvFormat::bfloat16 && op.head_dim % kTileColumns == 0 &&
        rotary == nullptr)
      of(op.qkv).planes = 1;
    else
      of(op.qkv).has_floats = true;
  }

  const PackedPlan& packed_;
  std::vector<Wants> wants_;
};

}  // namespace

std::byte* Arena::take(std::int64_t bytes) {
  std::byte* p = memory_.size() == 0 ? nullptr : memory_.data() + used_;
  used_ += round_up(bytes, 64);
  return p;
}

void Arena::reserve() {
  require_memory({used_}, "the activations");
  memory_ = AlignedBuffer(static_cast<std::size_t>(used_), "the activations");
  used_ = 0;
}

Workspace::Workspace(const PackedPlan& packed, int threads) : packed_(packed), threads_(threads) {
  lay_out();
}

void Workspace::reserve() {
  arena_.reserve();
  lay_out();
}

void Workspace::lay_out() {
  make_buffers();
  make_quantized_buffers();
  make_rotary_tables();
}

void Workspace::make_buffers() {
  const WantsOfBuffers wants(packed_);
  const Plan& plan = packed_.plan;
  buffers_.clear();
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const Wants& want = wants.all()[i];
    const bool is_there = !want.is_unused || want.has_floats;
    buffers_.push_back(
        make_buffer(plan.buffers[i].columns, is_there ? kMaxRows : 0, want.has_floats, want.planes));
    // What matrix multiplications of int8 or bfloat16 alone read, as the activations within an MLP are.
    buffers_.back().is_rounded = want.is_multiplied && !want.has_fine_reader;
  }
  const int head_planes = packed_.multiplies_tiles(packed_.head()) ? planes_for(packed_.head()) : 0;
  head_normed = make_buffer(packed_.width(plan.hidden), kHeadRows,
                            head_planes == 0 || plan.has_candidate_search, head_planes);
  logits = make_buffer(plan.vocab, kHeadRows, true, 0);
}

Buffer Workspace::make_buffer(std::int64_t columns, std::int64_t rows, bool has_floats, int planes) {
  Buffer buffer;
  buffer.columns = columns;
  buffer.stride = row_stride(columns);
  if (has_floats) buffer.floats = reinterpret_cast<float*>(arena_.take(buffer.stride * rows * 4));
  if (planes > 0) {
    // 16 rows more: tiles may begin at any row, and strips must not lie 4 KB apart.
    const std::int64_t padded = round_up(columns, kTileColumns),
                       capacity = round_up(rows, kTileRows) + kTileRows;
    auto* data = reinterpret_cast<std::uint16_t*>(arena_.take(capacity * padded * planes * 2));
    buffer.tiles = {data, capacity, padded, planes};
  }
  return buffer;
}

void Workspace::make_quantized_buffers() {
  std::int64_t widest_int8 = 0, widest_four_bit = 0;
  expanded_bytes_ = 0;
  for (const PackedWeight& w : packed_.weights) {
    if (w.packing() == Packing::int8) widest_int8 = std::max(widest_int8, w.k_padded());
    if (w.packing() != Packing::four_bit) continue;
    widest_four_bit = std::max(widest_four_bit, w.k_padded());
    expanded_bytes_ = std::max(
        expanded_bytes_, kExpandedPanels * w.k_padded() * kPanel * (packed_.multiplies_tiles(w) ? 2 : 4));
  }
  if (widest_int8 > 0) {
    const std::int64_t capacity = kMaxRows + kTileRows;
    int8.codes = {reinterpret_cast<std::uint16_t*>(arena_.take(capacity * widest_int8)), capacity,
                  widest_int8 / 2, 1};
    int8.absmax = reinterpret_cast<float*>(arena_.take(capacity * 4));
    int8.zero_points = reinterpret_cast<std::int32_t*>(arena_.take(capacity * 4));
  }
  if (expanded_bytes_ > 0) expanded_ = arena_.take(expanded_bytes_ * threads_);
  if (widest_four_bit > 0) {
    const std::int64_t inputs = widest_four_bit * kFourBitRows, groups = inputs / kSmallestCodedGroup;
    coded.codes = reinterpret_cast<std::int8_t*>(arena_.take(inputs));
    coded.scales = reinterpret_cast<float*>(arena_.take(groups * 4));
    coded.sums = reinterpret_cast<std::int32_t*>(arena_.take(groups * 4));
  }
  const auto has_gate = [](const FusedOp& fused) { return fused.gate != nullptr; };
  if (std::any_of(packed_.ops.begin(), packed_.ops.end(), has_gate))
    gate_outputs_ = reinterpret_cast<float*>(arena_.take(threads_ * kMaxRows * kGateColumns * 4));
}

void Workspace::make_rotary_tables() {
  rotary_tables.clear();
  for (const Op& op : packed_.plan.ops) {
    const auto* rotary = std::get_if<RotaryOp>(&op.what);
    if (rotary == nullptr) continue;
    const auto is_alike = [&](const RotaryTable& table) {
      return table.op->amplitude == rotary->amplitude && table.op->frequencies == rotary->frequencies;
    };
    if (std::any_of(rotary_tables.begin(), rotary_tables.end(), is_alike)) continue;
    const auto pairs = static_cast<std::int64_t>(rotary->frequencies.size());
    rotary_tables.push_back({.op = rotary,
                             .pairs = pairs,
                             .cosines = reinterpret_cast<float*>(arena_.take(kMaxRows * pairs * 4)),
                             .sines = reinterpret_cast<float*>(arena_.take(kMaxRows * pairs * 4))});
  }
}

const RotaryTable& Workspace::table_of(const RotaryOp& op) const {
  return *std::find_if(rotary_tables.begin(), rotary_tables.end(), [&](const RotaryTable& table) {
    return table.op->amplitude == op.amplitude && table.op->frequencies == op.frequencies;
  });
}

}  // namespace assay::cpu
