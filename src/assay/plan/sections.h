// A plan cut into parts that run one after another, so that the weights of one part are in memory at a time.
#pragma once

#include <vector>

#include "assay/plan/plan.h"

namespace assay {

// A part of a plan, as a plan of its own. Its operations are those of the whole, in order. The first part
// embeds token ids as the whole does; a later one takes a row of the table `states` by its id. Behind them
// stands the product of the matrix `probe`, of one output: its input activations are the hidden states that
// the next part begins with, or the plan's own. The LM head is `probe` too and is not meant to run.
struct Section {
  Plan plan;
  std::vector<WeightId> whole;  // for each weight the whole plan's; kNone for `states` and `probe`
  WeightId states = kNone;  // [vocab, hidden] in float32, vocab 1 until it is set; kNone in the first part
  WeightId probe = kNone;   // [1, hidden] in float32
};

// Cuts where one buffer alone holds something, and each part has at least one attention. Parts are as short
// as that allows: a layer each in the families there are. At least one part.
std::vector<Section> sections_of(const Plan& plan);

}  // namespace assay
