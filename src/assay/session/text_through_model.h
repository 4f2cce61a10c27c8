// A text goes through a model in float32 while somebody looks at the inputs of its matrices.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/base/token_id.h"
#include "assay/checkpoint/source.h"
#include "assay/plan/plan.h"
#include "assay/plan/sections.h"

namespace assay {

// Runs the ids through one section of the model after another, in windows of its context, each a sequence of
// its own. One layer's weights are in memory at a time, with the hidden states of all tokens twice: the size
// of the model does not matter. The LM head does not run.
class TextThroughModel {
 public:
  // All four outlive it; `should_stop` may be empty, and is asked before each window in each layer. Throws
  // Error for tensors that do not fit the model.
  TextThroughModel(const ModelSource& source, Backend& backend, std::span<const TokenId> ids,
                   const std::function<bool()>& should_stop);

  const Plan& plan() const { return whole_; }  // in float32
  const WeightSpec& spec(WeightId id) const { return whole_.weight(id); }

  // Reads the text through a section: the observer sees the inputs of its matrices, by their numbers in
  // plan().
  using Read = std::function<void(const InputObserver&)>;
  // Calls `on_section` in each, which reads once at least. Throws Error for ids outside of the vocabulary,
  // and where should_stop said so.
  void run(const std::function<void(const Read&)>& on_section);

 private:
  void run(Section section, const std::function<void(const Read&)>& on_section);
  void read(const InputObserver& observer);

  const ModelSource& source_;
  Backend& backend_;
  std::span<const TokenId> ids_;
  const std::function<bool()>& should_stop_;
  std::unique_ptr<const WeightSource> weights_;
  Plan whole_;
  double done_ = 0;            // how much of the sections is done
  std::vector<float> states_;  // [tokens, hidden]
  // What runs of the section.
  const Section* section_ = nullptr;
  std::unique_ptr<Program> program_;
  std::span<const TokenId> rows_;  // by token
};

// The mean squares of the inputs of each matrix of the blocks, by the names of its tensors and columns: what
// llama.cpp calls an importance matrix. Throws Error as calibrate() does.
using Importance = std::map<std::string, std::vector<float>>;
Importance measure_importance(const ModelSource& source, Backend& backend, std::span<const TokenId> ids,
                              const std::function<bool()>& should_stop = {});

}  // namespace assay
